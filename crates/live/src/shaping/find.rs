//! The interfaces to shape, and what stands in the way of that.

use tidegate_config::shaper::Config;

use super::error::StartError;
use super::options::Options;
use crate::bypass::{self, Bypass, Takes};
use crate::rtnl::{Link, Rtnl};
use crate::rules::Direction;

/// The names of the interfaces to shape.
pub(super) fn wanted(config: &Config, options: &Options) -> Result<Vec<String>, StartError> {
    let names = if options.interfaces.is_empty() { &config.interface.names } else { &options.interfaces };
    if names.is_empty() { Err(StartError::NoInterface) } else { Ok(names.clone()) }
}

/// The indices of the interfaces that are there.
///
/// # Errors
/// When none of them is.
pub(super) fn find_some(names: &[String]) -> Result<Vec<(String, Option<u32>)>, StartError> {
    let (mut found, mut missing) = (Vec::new(), None);
    for name in names {
        match find(name) {
            Ok(index) => found.push((name.clone(), Some(index))),
            Err(error @ StartError::UnknownInterface { .. }) => {
                found.push((name.clone(), None));
                missing = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    match missing {
        Some(error) if found.iter().all(|(_, index)| index.is_none()) => Err(error),
        _ => Ok(found),
    }
}

pub(super) fn find(interface: &str) -> Result<u32, StartError> {
    let mut rtnl = Rtnl::open()?;
    if let Some(link) = rtnl.link(interface)? {
        return Ok(link.index);
    }
    let known = rtnl.links()?.into_iter().map(|link| link.name).collect();
    Err(StartError::UnknownInterface { name: interface.into(), known })
}

/// Checks that the interfaces that `config`, or `options` in its place, names exist.
///
/// # Errors
/// [`StartError::UnknownInterface`] for the first that does not; [`StartError::NoInterface`] where none is named.
pub fn are_there(config: &Config, options: &Options) -> Result<(), StartError> {
    wanted(config, options)?.iter().try_for_each(|name| find(name).map(drop))
}

/// Warnings about qdiscs of others at a link that shape or delay what leaves, with their remedy.
pub(super) fn slower(rtnl: &mut Rtnl, link: &Link) -> Vec<String> {
    // A kernel that does not answer is no reason not to shape.
    let kinds = rtnl.qdiscs(link.index).unwrap_or_default();
    let found = kinds.iter().filter_map(|kind| bypass::slower(kind, &link.name));
    found.map(|(text, remedy)| format!("{text}; {remedy}")).collect()
}

/// Looks for what would carry packets past the rules of the interface; returns what may carry some of them.
///
/// # Errors
/// When shaping would have no effect.
pub(super) fn check_bypass(index: u32, direction: Direction) -> Result<Bypass, StartError> {
    let mut rtnl = Rtnl::open()?;
    let Some(link) = rtnl.link_by_index(index)? else { return Ok(Bypass::default()) };
    let interface = link.name.clone();
    let kind = link.kind.clone().unwrap_or_default();
    if let Some((why, remedy)) = bypass::unseen(&kind) {
        return Err(StartError::Unseen { interface, kind, why, remedy });
    }
    let found = Bypass::find(&mut rtnl, &link, direction)?;
    if let Some(first) = found.stack.above.first().filter(|_| found.stack.carries_all) {
        return Err(StartError::Below { interface, above: found.stack.names(), name: first.name.clone() });
    }
    if let Some(offload) = found.offloads.iter().find(|offload| offload.takes == Takes::Yes) {
        let (text, remedy) = (offload.to_string(), offload.remedy(&interface));
        return Err(StartError::Offloaded { interface, offload: text, remedy });
    }
    Ok(found)
}
