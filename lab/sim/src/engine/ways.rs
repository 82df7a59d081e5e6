//! The ways of flows, for advice on scenarios.

use tidegate_core::{Rate, Span};

use super::Simulation;
use crate::ids::{ARRIVED, EXPRESS};

impl Simulation {
    /// The links that the packets of a flow cross, there (0) or back (1).
    pub(crate) fn way(&self, flow: usize, side: usize) -> impl Iterator<Item = usize> + '_ {
        let first = self.plans[flow].routes[side] as usize;
        self.routes[first..].iter().take_while(|&&entry| entry != ARRIVED).map(|&entry| (entry & !EXPRESS) as usize)
    }
    /// The round trip of a flow over empty links, transmission not counted.
    pub(crate) fn round_trip(&self, flow: usize) -> Span {
        Span::from_nanos(self.plans[flow].ideal.iter().map(|way| way.0).sum())
    }
    /// The rate of the slowest link on the way of a flow, there (0) or back (1).
    pub(crate) fn slowest(&self, flow: usize, side: usize) -> Rate {
        self.plans[flow].ideal[side].1
    }
}
