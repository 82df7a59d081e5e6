//! Conditions about devices and names, whose addresses change while rules are in force.

use std::collections::BTreeSet;
use std::net::IpAddr;

use tidegate_config::shaper::Match;
use tidegate_core::classify::Fields;
use tidegate_engine::Names;

/// The conditions whose addresses are known beside the configuration: their keys, the values wanted, and whether they hold.
pub(super) fn by_changing_addresses(
    matches: &Match,
    fields: &Fields,
    names: &Names,
) -> [(&'static str, Vec<String>, bool); 3] {
    let ends = [fields.hosts.source(), fields.hosts.destination()];
    let is_end = |addresses: Option<&BTreeSet<IpAddr>>| {
        addresses.is_some_and(|addresses| ends.iter().flatten().any(|end| addresses.contains(end)))
    };
    let named = |key: &'static str| {
        let of_key: Vec<_> = matches.named().filter(|name| name.key() == key).collect();
        let holds = of_key.iter().any(|name| is_end(names.named.get(name)));
        (key, of_key.iter().map(ToString::to_string).collect(), holds)
    };
    let macs = matches.macs.iter().map(ToString::to_string).collect();
    let holds = matches.macs.iter().any(|mac| is_end(names.macs.get(mac)));
    [("mac", macs, holds), named("host-name"), named("dns-name")]
}
