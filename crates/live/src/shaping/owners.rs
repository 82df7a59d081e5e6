//! The users, control groups and devices that rules name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use tidegate_config::shaper::{Config, MOST_ADDRESSES};
use tidegate_config::values::{Mac, User};
use tidegate_engine::{BuildFailure, Names, interface_number};

use super::error::StartError;
use crate::rtnl::Rtnl;
use crate::rules::{self, InterfaceName, Sender as PacketSender, TagRule};
use crate::{netlink, netns};

pub type Resolved = (Names, Vec<TagRule>, Vec<u64>);

/// Looks up users and control groups of the rules. A control group becomes a tag before the queue, in the order of
/// the rules, so that of nested groups the one that is named first wins. Groups that have a tag keep it, because
/// packets on their way bear it.
pub fn resolve(config: &Config, mut groups: Vec<u64>) -> Result<Resolved, StartError> {
    let has_interfaces = config.rules.iter().any(|rule| !rule.matches.from_interfaces.is_empty());
    let mut names = Names { interfaces: has_interfaces.then(BTreeMap::new), ..Names::default() };
    let mut tags = Vec::new();
    let mut users: Option<HashMap<String, u32>> = None;
    for (at, rule) in config.rules.iter().enumerate() {
        for user in &rule.matches.users {
            if let User::Name(name) = user {
                let table = users.get_or_insert_with(passwd);
                if let Some(uid) = table.get(name) {
                    names.users.insert(name.clone(), netns::outside_uid(*uid).unwrap_or(*uid));
                }
            }
        }
        for path in &rule.matches.cgroups {
            if names.cgroups.contains_key(path) {
                continue;
            }
            let full = Path::new("/sys/fs/cgroup").join(path);
            let sender = rules::cgroup(&full).map_err(|error| BuildFailure::UnknownControlGroup {
                rule: at + 1,
                path: path.clone(),
                why: error.to_string(),
            })?;
            if let PacketSender::Cgroup { id, .. } = sender {
                tags.push(TagRule { sender, tag: tag_of(id, &mut groups) });
                names.cgroups.insert(path.clone(), id);
            }
        }
        // A packet that came in by an interface has no control group, so that one tag serves both.
        for name in rule.matches.from_interfaces.iter().filter_map(|name| InterfaceName::new(name)) {
            let sender = PacketSender::Incoming(name);
            if !tags.iter().any(|tag: &TagRule| tag.sender == sender) {
                tags.push(TagRule { sender, tag: tag_of(interface_number(&name.to_string()), &mut groups) });
            }
        }
    }
    // A data path looks their addresses up beside the other names.
    names.named =
        config.rules.iter().flat_map(|rule| rule.matches.named()).map(|name| (name, BTreeSet::new())).collect();
    if has_macs(config) {
        names.macs = devices(config)?;
    }
    Ok((names, tags, groups))
}

/// The tag of a control group or an interface with this number, which gets one if it has none.
fn tag_of(number: u64, groups: &mut Vec<u64>) -> u16 {
    let known = groups.iter().position(|group| *group == number);
    let tag = known.unwrap_or_else(|| {
        groups.push(number);
        groups.len() - 1
    });
    // The rules refuse more tags than there are.
    u16::try_from(tag).unwrap_or(u16::MAX)
}

/// Whether a rule names a device by its hardware address.
pub(super) fn has_macs(config: &Config) -> bool {
    config.rules.iter().any(|rule| !rule.matches.macs.is_empty())
}

/// The addresses of the devices that rules name, by the table of neighbours of this network namespace. Of a device with too many
/// addresses, which it chooses itself, only some are known, so that it cannot make the rules grow.
///
/// # Errors
/// When the table cannot be read.
pub fn devices(config: &Config) -> Result<BTreeMap<Mac, BTreeSet<IpAddr>>, netlink::Error> {
    addresses_of(config.rules.iter().flat_map(|rule| rule.matches.macs.iter().copied()))
}

/// The addresses that the table of neighbours has for some devices, as [`devices`].
///
/// # Errors
/// When the table cannot be read.
pub fn addresses_of(wanted: impl Iterator<Item = Mac>) -> Result<BTreeMap<Mac, BTreeSet<IpAddr>>, netlink::Error> {
    let mut devices: BTreeMap<Mac, BTreeSet<IpAddr>> = wanted.map(|mac| (mac, BTreeSet::new())).collect();
    for neighbour in Rtnl::open()?.neighbours()? {
        if let Some(addresses) = devices.get_mut(&Mac(neighbour.mac)) {
            addresses.insert(neighbour.address);
            if addresses.len() > MOST_ADDRESSES {
                // The greatest ones go: those of IPv6 before those of IPv4.
                addresses.pop_last();
            }
        }
    }
    Ok(devices)
}

/// Checks that all users and control groups that the rules name exist.
///
/// # Errors
/// The first one that does not, with its rule.
pub fn known_owners(config: &Config) -> Result<(), StartError> {
    let (names, ..) = resolve(config, Vec::new())?;
    BuildFailure::unknown_owner(config, &names).map_or(Ok(()), |failure| Err(failure.into()))
}

/// The uid of a local user.
pub fn user_number(name: &str) -> Option<u32> {
    passwd().get(name).copied()
}

/// The name of a local user.
pub fn user_name(uid: u32) -> Option<String> {
    passwd().into_iter().find_map(|(name, number)| (number == uid).then_some(name))
}

/// The local users by name. Users of a directory service must be given by uid.
fn passwd() -> HashMap<String, u32> {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let entry = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((name, fields.nth(1)?.parse().ok()?))
    };
    text.lines().filter_map(entry).collect()
}
