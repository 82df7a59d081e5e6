//! Identifiers of nodes, links and flows, and the special values of the routing table.

/// A node of a network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub(crate) u32);

/// A link of a network, in one direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub(crate) u32);

/// A flow of a network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId(pub(crate) u32);

impl NodeId {
    /// The number of the node, counted from 0 in the order in which nodes were added.
    /// [`SimPacket::source`](crate::SimPacket::source) and [`SimPacket::destination`](crate::SimPacket::destination)
    /// hold it.
    pub fn index(self) -> u32 {
        self.0
    }
}

impl LinkId {
    /// The number of the link, counted from 0 in the order in which links were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl FlowId {
    /// The number of the flow, counted from 0 in the order in which flows were added.
    /// [`SimPacket::group`](crate::SimPacket::group) holds it.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Ends a path in the routing table.
pub(crate) const ARRIVED: u32 = u32::MAX;
/// Marks a link that receives packets from only one other link, which may compute its arrivals in advance.
pub(crate) const EXPRESS: u32 = 1 << 31;
