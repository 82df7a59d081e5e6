//! How long the transfers of a section of flows take, those that did not complete included.

use tidegate_metrics::{Histogram, Survival};

use super::outcome::Collector;
use crate::metrics::{FlowMetrics, SizeClass, Transfer};

/// Completion times and slowdowns of transfers, by [`SizeClass`].
pub(super) struct Lasting {
    completion_ns: [Survival; 4],
    slowdown_micro: [Survival; 4],
}

impl Lasting {
    /// The quantities of `flows`, and of the transfers that are `underway` at the end.
    pub fn new<'a>(flows: &FlowMetrics, underway: impl Iterator<Item = &'a Transfer>) -> Self {
        let of_class = |finished: &[Histogram; 4], class: SizeClass| Survival {
            finished: finished[class as usize].clone(),
            endless: flows.aborted[class as usize],
            ..Survival::default()
        };
        let mut lasting = Self {
            completion_ns: SizeClass::ALL.map(|class| of_class(&flows.completion_by_size_ns, class)),
            slowdown_micro: SizeClass::ALL.map(|class| of_class(&flows.slowdown_micro, class)),
        };
        for &(completion_ns, slowdown_micro, class) in &flows.ordered {
            lasting.completion_ns[class as usize].ordered[0].push(completion_ns);
            lasting.slowdown_micro[class as usize].ordered[0].push(slowdown_micro);
        }
        for transfer in underway {
            let class = transfer.class() as usize;
            lasting.completion_ns[class].leave_open(transfer.time_ns);
            lasting.slowdown_micro[class].leave_open(transfer.slowdown_micro());
        }
        lasting
    }

    /// Completion times and slowdowns of all sizes.
    pub fn all(&self) -> (Survival, Survival) {
        let mut all = (Survival::default(), Survival::default());
        self.completion_ns.iter().for_each(|of_class| all.0.merge(of_class));
        self.slowdown_micro.iter().for_each(|of_class| all.1.merge(of_class));
        all
    }

    pub fn values(&self, to: &mut Collector<'_>) {
        let (completion, slowdown) = self.all();
        to.survival("completion", "ns", 1.0, &completion);
        to.survival("slowdown", "1", 1e-6, &slowdown);
        for class in SizeClass::ALL {
            let (name, at) = (class.name(), class as usize);
            to.survival(&format!("completion {name}"), "ns", 1.0, &self.completion_ns[at]);
            to.survival(&format!("slowdown {name}"), "1", 1e-6, &self.slowdown_micro[at]);
        }
    }
}
