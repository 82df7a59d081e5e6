//! The interfaces to shape, and what stands in the way of that.

use tidegate_config::shaper::Config;

use super::error::StartError;
use super::options::Options;
use crate::bypass::{self, Takes};
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

/// Warnings about qdiscs of others at a link that shape or delay what leaves, with their remedy.
pub(super) fn slower(rtnl: &mut Rtnl, link: &Link) -> Vec<String> {
    // A kernel that does not answer is no reason not to shape.
    let kinds = rtnl.qdiscs(link.index).unwrap_or_default();
    let found = kinds.iter().filter_map(|kind| bypass::slower(kind, &link.name));
    found.map(|(text, remedy)| format!("{text}; {remedy}")).collect()
}

/// Looks for what would carry packets past the rules of the interface; returns warnings for what may carry some of
/// them, and whether one is of a flow table.
pub(super) fn check_bypass(index: u32, direction: Direction) -> Result<(Vec<String>, bool), StartError> {
    let mut rtnl = Rtnl::open()?;
    let Some(link) = rtnl.link_by_index(index)? else { return Ok((Vec::new(), false)) };
    let (interface, mut warnings) = (link.name.clone(), Vec::new());
    let mut offloaded = false;
    let kind = link.kind.clone().unwrap_or_default();
    if let Some((why, remedy)) = bypass::unseen(&kind) {
        return Err(StartError::Unseen { interface, kind, why, remedy });
    }
    let stack = bypass::stack(&mut rtnl, &link)?;
    match stack.above.first() {
        Some(first) if stack.carries_all => {
            return Err(StartError::Below { interface, above: stack.names(), name: first.name.clone() });
        }
        Some(first) => warnings.push(format!(
            "packets of what stands above {interface} are not shaped here: {}; for these --interface {}",
            stack.names(),
            first.name
        )),
        None => {}
    }
    // Without the privilege to look, installing the rules fails with the reason.
    for offload in bypass::offloads(&link, direction).unwrap_or_default() {
        let (text, remedy) = (offload.to_string(), offload.remedy(&interface));
        match offload.takes {
            Takes::Yes => return Err(StartError::Offloaded { interface, offload: text, remedy }),
            Takes::Perhaps => {
                offloaded = true;
                warnings.push(format!("{text}; where these are of {interface} they are not shaped: {remedy}"))
            }
            Takes::No => {}
        }
    }
    Ok((warnings, offloaded))
}
