//! Conditions about devices and names, whose addresses change while rules are in force.

use std::collections::BTreeSet;
use std::net::IpAddr;

use tidegate_config::shaper::Match;
use tidegate_core::classify::Fields;
use tidegate_engine::Names;

/// The most addresses of a device or a name that are listed.
const LISTED: usize = 4;

/// A condition whose addresses are known beside the configuration.
pub(super) struct ByAddresses {
    pub key: &'static str,
    /// The devices or names, each with the addresses that it has.
    pub wanted: Vec<String>,
    /// The one that the packet is of, or else its addresses; none if it has no addresses.
    pub has: Option<String>,
    pub holds: bool,
}

impl ByAddresses {
    fn new(key: &'static str, all: &[(String, Option<&BTreeSet<IpAddr>>)], fields: &Fields) -> Self {
        let ends: Vec<IpAddr> = [fields.hosts.source(), fields.hosts.destination()].into_iter().flatten().collect();
        let of = |(name, known): &(String, Option<&BTreeSet<IpAddr>>)| {
            let end = ends.iter().find(|end| known.is_some_and(|known| known.contains(end)))?;
            Some(format!("{name}, by its address {end}"))
        };
        let found = all.iter().find_map(of);
        let holds = found.is_some();
        let texts: Vec<String> = ends.iter().map(ToString::to_string).collect();
        let other = (!ends.is_empty()).then(|| format!("another one ({})", texts.join(" and ")));
        Self { key, wanted: all.iter().map(described).collect(), has: found.or(other), holds }
    }
}

/// A device or a name with its addresses.
fn described((name, known): &(String, Option<&BTreeSet<IpAddr>>)) -> String {
    let all: Vec<String> = known.iter().flat_map(|all| all.iter().map(ToString::to_string)).collect();
    match all.len().checked_sub(LISTED) {
        _ if all.is_empty() => format!("{name} (no address is known now)"),
        None | Some(0) => format!("{name} (now {})", all.join(", ")),
        Some(more) => format!("{name} (now {} and {more} more)", all[..LISTED].join(", ")),
    }
}

/// The conditions whose addresses are known beside the configuration.
pub(super) fn by_changing_addresses(matches: &Match, fields: &Fields, names: &Names) -> [ByAddresses; 3] {
    let named = |key: &'static str| {
        let of_key = matches.named().filter(|name| name.key() == key);
        let all: Vec<_> = of_key.map(|name| (name.to_string(), names.named.get(&name))).collect();
        ByAddresses::new(key, &all, fields)
    };
    let macs: Vec<_> = matches.macs.iter().map(|mac| (mac.to_string(), names.macs.get(mac))).collect();
    [ByAddresses::new("mac", &macs, fields), named("host-name"), named("dns-name")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::classify::Hosts;

    #[test]
    fn a_device_is_compared_as_a_device() {
        let addresses: BTreeSet<IpAddr> = (1..=6).map(|n| IpAddr::from([192, 0, 2, n])).collect();
        let all = [("02:00:5e:00:53:01".to_owned(), Some(&addresses)), ("02:00:5e:00:53:02".to_owned(), None)];
        let fields = |last| Fields {
            hosts: Hosts::V4 { source: [192, 0, 2, last].into(), destination: [198, 51, 100, 1].into() },
            ..Fields::default()
        };
        let found = ByAddresses::new("mac", &all, &fields(2));
        assert_eq!((found.holds, found.has.as_deref()), (true, Some("02:00:5e:00:53:01, by its address 192.0.2.2")));
        let other = ByAddresses::new("mac", &all, &fields(9));
        assert_eq!((other.holds, other.has.as_deref()), (false, Some("another one (192.0.2.9 and 198.51.100.1)")));
        assert_eq!(
            other.wanted,
            [
                "02:00:5e:00:53:01 (now 192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4 and 2 more)",
                "02:00:5e:00:53:02 (no address is known now)"
            ]
        );
    }
}
