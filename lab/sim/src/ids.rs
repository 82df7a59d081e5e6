//! The numbers of nodes, links and flows, and the marks in the table of routes.

/// A node of a network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub(crate) u32);

/// A link of a network, one direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub(crate) u32);

/// A flow of a network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId(pub(crate) u32);

impl NodeId {
    /// Its number, counted from 0 in the order of making: [`SimPacket::source`](crate::SimPacket::source) and
    /// [`SimPacket::destination`](crate::SimPacket::destination).
    pub fn index(self) -> u32 {
        self.0
    }
}

impl LinkId {
    /// Its number, counted from 0 in the order of making.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl FlowId {
    /// Its number, counted from 0 in the order of making: [`SimPacket::group`](crate::SimPacket::group).
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The end of a way in the table of routes.
pub(crate) const ARRIVED: u32 = u32::MAX;
/// The link has one feeder only, which may compute its arrivals ahead.
pub(crate) const EXPRESS: u32 = 1 << 31;
