//! The addresses of names: of those that rules have, and of those on the command line.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use tidegate_config::Scalar;
use tidegate_config::shaper::{Config, Named};
use tidegate_config::values::{HostName, Mac};
use tidegate_control::Client;
use tidegate_control::calls::{Flows, NameStatus};
use tidegate_live::leases;
use tidegate_live::shaping::{Addresses, addresses_of, leased};

use super::Args;
use crate::Failure;

/// The most names that a refusal lists.
const LISTED: usize = 8;

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

/// An end of a packet, as it is given on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// Its address.
    Address(IpAddr),
    /// The name of a host.
    Name(HostName),
    /// The hardware address of a device.
    Device(Mac),
}

impl End {
    /// The address; none for what must be looked up.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Name(_) | Self::Device(_) => None,
        }
    }
}

impl FromStr for End {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        if let Ok(mac) = Mac::from_text(text) {
            return Ok(Self::Device(mac));
        }
        // A wrong address is no name: names have a letter.
        let is_name = text.bytes().any(|c| c.is_ascii_alphabetic()) && !text.contains([':', '/']);
        let name = is_name.then(|| text.parse().ok()).flatten();
        name.map(Self::Name).ok_or_else(|| {
            format!("`{text}` is neither an address, nor the name of a host, nor the hardware address of a device")
        })
    }
}

/// The hosts that a running shaper sees or that its rules name, with their names, if the options name any.
pub fn of_hosts(args: &Args, client: &mut Client) -> Result<Vec<(IpAddr, String)>, Failure> {
    let is_named = |end: &Option<End>| matches!(end, Some(End::Name(_)));
    if !is_named(&args.source) && !is_named(&args.destination) {
        return Ok(Vec::new());
    }
    let hosts = client.flows(&Flows { limit: Some(1), ..Flows::default() })?.hosts;
    let seen = hosts.into_iter().filter_map(|host| Some((host.address, host.name?)));
    let of_rule = |one: NameStatus| one.addresses.into_iter().map(move |address| (address, one.name.clone()));
    let names = client.status()?.directions.into_iter().flat_map(|one| one.names);
    Ok(names.filter(|one| one.key == "host-name").flat_map(of_rule).chain(seen).collect())
}

/// The options with addresses in the place of names: those that are `known`, and those of leases and `/etc/hosts`.
pub fn resolved(args: &Args, known: Vec<(IpAddr, String)>) -> Result<Args, Failure> {
    let mut args = args.clone();
    let ends = [&args.source, &args.destination];
    if ends.iter().all(|end| end.as_ref().is_none_or(|end| end.address().is_some())) {
        return Ok(args);
    }
    let mut known: BTreeSet<(IpAddr, String)> = known.into_iter().collect();
    // The name of this machine may stand there with an address of loopback, which no packet on a line has.
    known.extend(leases::read().into_iter().filter(|(address, _)| !address.is_loopback()));
    let macs = ends.iter().filter_map(|end| if let Some(End::Device(mac)) = end { Some(*mac) } else { None });
    let devices = addresses_of(macs).unwrap_or_default();
    let is_v6 = ends.iter().filter_map(|end| end.as_ref()?.address()).any(|address| address.is_ipv6());
    let (mut assumed, mut found) = (Vec::new(), [None, None]);
    for (end, found) in ends.iter().zip(&mut found) {
        *found = match end {
            Some(End::Device(mac)) if devices.get(mac).is_none_or(BTreeSet::is_empty) && !args.live => {
                let stand_in = stand_in(is_v6);
                message!("tidegate: the table of neighbours has no address of {mac}; {stand_in} stands for it");
                assumed.push((*mac, stand_in));
                Some(vec![stand_in])
            }
            Some(end) => Some(addresses(end, &known, &devices)?),
            None => None,
        };
    }
    let [source, destination] = found;
    // Both ends have the same version where that is possible, IPv4 before IPv6.
    let first = |of: &Option<Vec<IpAddr>>, other: &Option<Vec<IpAddr>>| {
        let fits =
            |one: &&IpAddr| other.as_ref().is_none_or(|all| all.iter().any(|two| two.is_ipv4() == one.is_ipv4()));
        of.as_ref().and_then(|all| all.iter().find(fits).or(all.first())).copied().map(End::Address)
    };
    (args.source, args.destination) = (first(&source, &destination), first(&destination, &source));
    args.assumed = assumed;
    Ok(args)
}

/// The addresses of devices.
type Devices = BTreeMap<Mac, BTreeSet<IpAddr>>;

/// The address that stands for a device that is not in the table of neighbours (RFC 5737, RFC 3849).
fn stand_in(is_v6: bool) -> IpAddr {
    if is_v6 { Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe).into() } else { Ipv4Addr::new(192, 0, 2, 254).into() }
}

/// The addresses of an end, of which there is one at least.
fn addresses(end: &End, known: &BTreeSet<(IpAddr, String)>, devices: &Devices) -> Result<Vec<IpAddr>, Failure> {
    let name = match end {
        End::Address(address) => return Ok(vec![*address]),
        End::Name(name) => name,
        End::Device(mac) => {
            let found: Vec<IpAddr> = devices.get(mac).into_iter().flatten().copied().collect();
            let text = || {
                format!("the table of neighbours has no address of {mac}, which `ip neighbour` shows; give its address")
            };
            return if found.is_empty() { Err(Failure::Usage(text())) } else { Ok(found) };
        }
    };
    let found: Vec<IpAddr> = known.iter().filter(|(_, other)| name.is(other)).map(|(address, _)| *address).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let names: BTreeSet<&str> = known.iter().map(|(_, name)| name.as_str()).collect();
    let listed: Vec<&str> = names.iter().copied().take(LISTED).collect();
    let more = if names.len() > LISTED { ", ..." } else { "" };
    if listed.is_empty() {
        let text =
            format!("no address is known here for `{name}`: leases and /etc/hosts have no name; give its address");
        return Err(Failure::Usage(text));
    }
    Err(Failure::Usage(format!(
        "no address is known here for `{name}`; give its address, or one of the names in leases and /etc/hosts: {}{more}",
        listed.join(", ")
    )))
}

/// Says so where no rule depends on the time that was given.
pub fn warn_of_time(config: &Config) {
    if config.rules.iter().all(|rule| rule.matches.when.is_empty()) {
        message!("tidegate: no rule has `when`, so nothing depends on --time");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_an_address_or_a_name_that_is_known() {
        let known: BTreeSet<(IpAddr, String)> = [("192.0.2.7", "anna-laptop.lan"), ("2001:db8::7", "anna-laptop.lan")]
            .map(|(address, name)| (address.parse().unwrap(), name.to_owned()))
            .into();
        let mac = Mac::from_text("02:00:5e:00:53:01").unwrap();
        let devices = Devices::from([(mac, BTreeSet::from(["192.0.2.9".parse().unwrap()]))]);
        let found =
            |text: &str| addresses(&text.parse::<End>().unwrap(), &known, &devices).map(|all| all[0].to_string());
        assert_eq!(found("Anna-Laptop").unwrap(), "192.0.2.7");
        assert_eq!(found("2001:db8::1").unwrap(), "2001:db8::1");
        assert_eq!(found("02:00:5e:00:53:01").unwrap(), "192.0.2.9");
        assert!(found("02:00:5e:00:53:02").unwrap_err().to_string().contains("`ip neighbour` shows"));
        let refused = found("anne").unwrap_err().to_string();
        assert!(
            refused.contains("no address is known here for `anne`") && refused.contains("anna-laptop.lan"),
            "{refused}"
        );
        let none = addresses(&"anna".parse().unwrap(), &BTreeSet::new(), &devices).unwrap_err().to_string();
        assert!(none.ends_with("have no name; give its address"), "{none}");
        for wrong in ["192.0.2.300", "192.0.2.0/24", "2001:db8::zz", ""] {
            assert!(wrong.parse::<End>().is_err(), "{wrong}");
        }
    }
}
