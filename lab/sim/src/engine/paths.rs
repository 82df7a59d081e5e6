//! The paths of flows, for advice on scenarios.

use tidegate_core::{Rate, Span};

use super::Simulation;
use crate::ids::{ARRIVED, EXPRESS};

impl Simulation {
    /// The links on the forward (0) or reverse (1) path of a flow.
    pub(crate) fn path(&self, flow: usize, side: usize) -> impl Iterator<Item = usize> + '_ {
        let first = self.paths[flow].routes[side] as usize;
        self.routes[first..].iter().take_while(|&&entry| entry != ARRIVED).map(|&entry| (entry & !EXPRESS) as usize)
    }
    /// The round-trip time of a flow over idle links, without transmission times.
    pub(crate) fn round_trip(&self, flow: usize) -> Span {
        Span::from_nanos(self.paths[flow].ideal.iter().map(|path| path.0).sum())
    }
    /// The rate of the slowest link on the forward (0) or reverse (1) path of a flow.
    pub(crate) fn slowest(&self, flow: usize, side: usize) -> Rate {
        self.paths[flow].ideal[side].1
    }
}
