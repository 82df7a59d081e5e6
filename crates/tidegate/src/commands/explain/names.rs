//! The addresses of the names that rules have.

use tidegate_config::shaper::{Config, Named};
use tidegate_control::Client;
use tidegate_live::shaping::{Addresses, leased};

use crate::Failure;

/// The addresses that leases have; only a running shaper has seen answers.
pub fn without_running(file: &str, config: &Config) -> Addresses {
    let names = leased(config);
    let unseen: Vec<String> =
        names.keys().filter(|name| matches!(name, Named::Answered(_))).map(ToString::to_string).collect();
    if !unseen.is_empty() {
        message!(
            "tidegate: {file}: only a running shaper has seen answers of the Domain Name System, so nothing matches {}",
            unseen.join(", ")
        );
    }
    names
}

/// The addresses that the names in the rules of a running shaper have in its data path.
pub fn of_running(config: &Config, direction: &str, client: &mut Client) -> Result<Addresses, Failure> {
    let mut names = config.rules.iter().flat_map(|rule| rule.matches.named()).peekable();
    if names.peek().is_none() {
        return Ok(Addresses::new());
    }
    let status = client.status()?;
    let known: Vec<_> =
        status.directions.into_iter().filter(|one| one.name == direction).flat_map(|one| one.names).collect();
    let addresses = |name: &Named| {
        let of_name = known.iter().filter(|one| one.key == name.key() && one.name == name.to_string());
        of_name.flat_map(|one| &one.addresses).copied().collect()
    };
    Ok(names.map(|name| (name.clone(), addresses(&name))).collect())
}
