//! Translates the flows of an action for a shaper: into targets of calls, matches of promises, and packets of
//! reservations.

use tidegate_config::shaper;
use tidegate_config::values::{Ports, Prefix, Protocol, User};
use tidegate_core::classify::Match;
use tidegate_engine::Target;

use super::model::FlowSelector;
use crate::shaper::ShaperQueue;

/// The targets of `flows`. Each flow of the scenario that it names yields one target in each direction.
fn targets_of(queue: &ShaperQueue, flows: &FlowSelector) -> Result<Vec<Target>, String> {
    let uid = match &flows.user {
        Some(user) => Some(queue.user_number(user).ok_or_else(|| format!("no flow is of user `{user}`"))?),
        None => None,
    };
    let base = Target { uid, ..flows.target.clone() };
    let Some(range) = &flows.flows else { return Ok(vec![base]) };
    // The forward direction comes last, because its class counts.
    let own = [1, 0].into_iter().flat_map(|back| range.clone().map(move |number| (number, back)));
    let targets: Vec<_> = own.filter_map(|(number, back)| narrowed(&base, &queue.target_of(number, back))).collect();
    if targets.is_empty() { Err("no packet of these flows matches".into()) } else { Ok(targets) }
}

/// The matches of a promise for `flows`.
pub(super) fn matches_of(queue: &ShaperQueue, flows: &FlowSelector) -> Result<Vec<Match>, String> {
    let mut all = Vec::new();
    for target in targets_of(queue, flows)? {
        all.extend(target.matches().map_err(|_| "no packet matches".to_owned())?);
    }
    Ok(all)
}

/// The packets of one flow in the forward direction, or the packets that match.
pub(super) fn packets_of(queue: &ShaperQueue, flows: &FlowSelector) -> Result<shaper::Match, String> {
    if flows.target.port.is_some() {
        return Err("a reservation is for one direction: give source-port or destination-port".into());
    }
    if flows.flows.as_ref().is_some_and(|range| range.len() != 1) {
        return Err("a reservation is for one flow of a section: add its number".into());
    }
    let targets = targets_of(queue, flows)?;
    let target = targets.last().ok_or("no packet matches")?;
    let prefix = |address: std::net::IpAddr| Prefix { address, length: if address.is_ipv4() { 32 } else { 128 } };
    let ports = |port: u16| Ports { first: port, last: port };
    Ok(shaper::Match {
        protocols: target.protocol.map(Protocol).into_iter().collect(),
        sources: target.source.map(prefix).into_iter().collect(),
        destinations: target.destination.map(prefix).into_iter().collect(),
        source_ports: target.source_port.map(ports).into_iter().collect(),
        destination_ports: target.destination_port.map(ports).into_iter().collect(),
        users: target.uid.map(User::Id).into_iter().collect(),
        ..shaper::Match::default()
    })
}

/// The intersection of two targets; `None` if no packet matches both.
fn narrowed(base: &Target, own: &Target) -> Option<Target> {
    fn both<T: PartialEq + Copy>(base: Option<T>, own: Option<T>) -> Option<Option<T>> {
        match (base, own) {
            (Some(base), Some(own)) => (base == own).then_some(Some(own)),
            (base, own) => Some(base.or(own)),
        }
    }
    Some(Target {
        protocol: both(base.protocol, own.protocol)?,
        source: both(base.source, own.source)?,
        destination: both(base.destination, own.destination)?,
        source_port: both(base.source_port, own.source_port)?,
        destination_port: both(base.destination_port, own.destination_port)?,
        ..base.clone()
    })
}
