//! The users, control groups and devices that rules name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use tidegate_config::shaper::{Config, MOST_ADDRESSES};
use tidegate_config::values::{Mac, User};
use tidegate_engine::{BuildFailure, Names};

use super::error::StartError;
use crate::rtnl::Rtnl;
use crate::rules::{self, Sender as PacketSender, TagRule};
use crate::{netlink, netns};

pub type Resolved = (Names, Vec<TagRule>, Vec<u64>);

/// Looks up users and control groups of the rules. A control group becomes a tag before the queue, in the order of
/// the rules, so that of nested groups the one that is named first wins. Groups that have a tag keep it, because
/// packets on their way bear it.
pub fn resolve(config: &Config, mut groups: Vec<u64>) -> Result<Resolved, StartError> {
    let mut names = Names::default();
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
                let known = groups.iter().position(|group| *group == id);
                let tag = known.unwrap_or_else(|| {
                    groups.push(id);
                    groups.len() - 1
                });
                tags.push(TagRule { sender, tag: tag as u16 });
                names.cgroups.insert(path.clone(), id);
            }
        }
    }
    if has_macs(config) {
        names.macs = devices(config)?;
    }
    Ok((names, tags, groups))
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
    let wanted = config.rules.iter().flat_map(|rule| rule.matches.macs.iter());
    let mut devices: BTreeMap<Mac, BTreeSet<IpAddr>> = wanted.map(|mac| (*mac, BTreeSet::new())).collect();
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
