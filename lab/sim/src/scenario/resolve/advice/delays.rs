//! Warnings about a queue that is full before its control acts.

use tidegate_config::Place;
use tidegate_config::discipline::Discipline;
use tidegate_core::{Bytes, Rate, Span};

use super::{Advice, discipline_of};
use crate::scenario::queue::LinkQueue;

impl Advice<'_> {
    /// Warns about a queue that sends with `rate` and holds less than its target. One with a step below a few packets has no warning: flows
    /// of L4S fill lines of 2 to 24 Mbit/s with a step of 1 ms as with one of 10 ms.
    pub(super) fn delays(&mut self, index: usize, queue: &LinkQueue, (rate, place): (Rate, Place)) {
        let Some(discipline) = discipline_of(queue) else { return };
        // Another rate at other times has other delays.
        if self.scenario.wires[index].conditions.is_some() || !self.scenario.actions.is_empty() {
            return;
        }
        let limit: Option<(Bytes, Span)> = match discipline {
            Discipline::CoDel(queue) => Some((queue.limit, queue.target.value)),
            Discipline::FqCodel(queue) => Some((queue.limit, queue.target.value)),
            Discipline::Pie(queue) => Some((queue.limit, queue.target.value)),
            Discipline::FqPie(queue) => Some((queue.limit, queue.target.value)),
            Discipline::DualPi2(queue) => Some((queue.limit, queue.target.value)),
            _ => None,
        };
        let name = self.scenario.wire_name(index);
        let takes = |bytes: Bytes| rate.time_for_ceil(bytes).unwrap_or(Span::MAX);
        if let Some((limit, target)) = limit
            && takes(limit) < target
        {
            let message = format!(
                "the queue of the link {name} is full after {}, and its target is {target}: it drops what does not fit, and its control never acts",
                takes(limit)
            );
            let help = format!(
                "at {rate} a target of {target} is {}: let `limit` be several times as much",
                rate.bytes_in_floor(target)
            );
            self.warn(20, place, message, "its limit is below its target", help);
        }
    }
}
