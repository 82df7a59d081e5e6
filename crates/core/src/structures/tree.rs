//! [`Node`]: a class in the list that describes a tree of classes, as [`htb`](crate::htb) and [`hfsc`](crate::hfsc) take
//! it. A node comes after its parent; those with a queue are the leaves.

use crate::slab::slot;

slot! {
    /// The number of a class of a tree, in the order of the list.
    pub(crate) struct NodeId;
}

impl NodeId {
    /// The first class.
    pub(crate) const FIRST: Self = Self(0);
}

/// A class and its place in the tree.
#[derive(Clone, Debug)]
pub struct Node<C, Q> {
    pub(crate) class: C,
    pub(crate) parent: Option<u32>,
    pub(crate) queue: Option<Q>,
}

impl<C, Q> Node<C, Q> {
    /// A class with a queue, under the class with this index in the list of nodes, or under none.
    pub const fn leaf(class: C, parent: Option<u32>, queue: Q) -> Self {
        Self { class, parent, queue: Some(queue) }
    }
    /// A class with classes under it.
    pub const fn inner(class: C, parent: Option<u32>) -> Self {
        Self { class, parent, queue: None }
    }
}
