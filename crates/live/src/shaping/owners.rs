//! The users and control groups that rules name.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use tidegate_config::shaper::Config;
use tidegate_config::values::User;
use tidegate_engine::{BuildFailure, Names};

use super::error::StartError;
use crate::netns;
use crate::rules::{self, Sender as PacketSender, TagRule};

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
    Ok((names, tags, groups))
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
