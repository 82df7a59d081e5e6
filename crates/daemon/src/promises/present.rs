//! The flows that are present, by the conditions of a promise or a watch.

use std::collections::HashMap;

use tidegate_control::protocol::Refusal;
use tidegate_core::ClassId;
use tidegate_core::classify::{Fields, Match};
use tidegate_engine::FlowState;

use super::REVIEWED;
use crate::directions::ShapedDirection;

/// A flow that is present: its key, the fields of its first packet, and its state.
pub(super) type Present = (u64, Fields, FlowState);

/// The flows of a direction that match one of `matches`, at least `most` of them if there are so many.
///
/// # Errors
/// When the data path does not reply.
pub(super) fn flows(direction: &ShapedDirection, matches: &[Match], most: usize) -> Result<Vec<Present>, Refusal> {
    let mut flows = Vec::new();
    for shard in direction.shards() {
        let mut from = Some(0);
        while let Some(place) = from.filter(|_| flows.len() < most) {
            let matches = matches.to_vec();
            let mut some = Vec::new();
            (from, some) = direction.ask_shard(shard, move |engine, now| {
                let wanted = |fields: &_| matches.iter().any(|one| one.matches(fields));
                (engine.promises(now).find(place, REVIEWED, wanted, &mut some), some)
            })?;
            flows.extend(some);
        }
    }
    Ok(flows)
}

/// How many of these flows are in each class now: the class with most of them first, of equal numbers the first of the file, so that
/// the same flows lead to the same answer.
pub(super) fn by_class(flows: &[Present]) -> Vec<(ClassId, u32)> {
    let mut counts: HashMap<ClassId, u32> = HashMap::new();
    for (_, _, state) in flows {
        *counts.entry(state.class).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(class, count)| (std::cmp::Reverse(count), class.0));
    counts
}
