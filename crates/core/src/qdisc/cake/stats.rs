//! [`Stats`]: what a CAKE has done.

/// Counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Packets COBALT dropped.
    pub dropped: u64,
    /// Packets that COBALT or the step marked.
    pub marked: u64,
    /// Packets dropped because the limit was passed.
    pub overflowed: u64,
    /// Acknowledgements that later ones replaced.
    pub acks_filtered: u64,
    /// Packets that had to share a queue with another flow, because their set was full.
    pub shared: u64,
    /// Packets that left, by tin, and their bytes on the line.
    pub tins: [crate::Account; 4],
}
