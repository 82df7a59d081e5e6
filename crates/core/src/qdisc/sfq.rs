//! SFQ: stochastic fairness queueing.
//!
//! *Law*: flows are hashed onto `queues`; busy queues take turns by deficit round robin. When the limit is passed,
//! the head of a queue within 1/9 of the longest is dropped. The hash changes every `perturb`, so that two flows that
//! share a queue do not share it for ever; the order within a flow is kept across the change.
//! *Source*: McKenney, "Stochastic fairness queueing" (1990): hashing, round robin, buffer stealing from the longest
//! queue, and the periodic change of the hash function.
//! *Units*: bytes and nanoseconds.
//! *Example*: below.
//! *Cost*: O(1) a call; at most two queues are visited a dequeue, apart from empty ones: each is visited once
//! after it ran empty. No allocation after warm-up.
//! *Notes*: the change of the hash is due after `perturb`, and comes with the first packet after it for which every
//! queue that was busy at the last change has since been empty once; an overload that never lets a queue run empty
//! puts it off.
//! *Departures from the source, and why*: turns in bytes, not packets, so that small packets are not at a
//! disadvantage; the head of the longest queue is dropped, not its tail, so that its sender detects the loss sooner; after
//! a change of the hash a flow stays in its queue until that has been empty, for law 6, where the original reorders.
//! *See also*: [`drr`](crate::drr), exact flows; [`fq_codel`](crate::fq_codel), which also keeps queues short.
//!
//! ```
//! use tidegate_core::{sfq::{Sfq, Params}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u64);
//! # impl Packet for P { fn size(&self) -> Bytes { Bytes::new(1500) } fn flow(&self) -> FlowKey { FlowKey::numbered(self.0) } }
//! let mut queue = Sfq::new(Params::default())?;
//! for flow in [1, 1, 1, 2] {
//!     queue.enqueue(Instant::ZERO, P(flow), &mut Discard);
//! }
//! let order: Vec<_> = (0..4).map(|_| queue.dequeue(Instant::ZERO, &mut Discard).unwrap().0).collect();
//! assert_eq!(order, [1, 2, 1, 1]);
//! # Ok::<(), ParamError>(())
//! ```

use crate::fifo::Limit;
use crate::packet::Packet;
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, DropReason, Outlet, Qdisc, Queued};
use crate::round::{Round, Share, check_quantum, check_queues, spread};
use crate::slab::Slab;
use core::iter::repeat_n;
use tidegate_units::{Bytes, Instant, Span};

/// Parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Queues, 1 to 1,048,576.
    pub queues: u32,
    /// Bytes a turn; the largest packet seen where that is more.
    pub quantum: Bytes,
    /// The most that all queues together may hold.
    pub limit: Limit,
    /// How often the hash changes; `None` for never.
    pub perturb: Option<Span>,
    /// Chooses the hash functions.
    pub seed: u64,
}

impl Default for Params {
    /// 1,024 queues of an Ethernet MTU a turn, 127 packets, a change every 10 s.
    fn default() -> Self {
        Self {
            queues: 1_024,
            quantum: Bytes::new(1_514),
            limit: Limit::packets(127),
            perturb: Some(Span::from_secs(10)),
            seed: 0,
        }
    }
}

impl Params {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Queues outside 1 to 2^20, a quantum outside 64 B to 1 MiB, a `perturb` of no time.
    pub fn validate(self) -> Result<Self, ParamError> {
        check_queues(self.queues)?;
        check_quantum(self.quantum)?;
        if self.perturb.is_some_and(Span::is_zero) {
            return Err(ParamError::new("perturb", "must be above 0, for example 10s; leave it out for never"));
        }
        Ok(self)
    }
}

/// Counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Packets dropped because the limit was passed.
    pub overflowed: u64,
    /// Changes of the hash.
    pub perturbed: u64,
}

#[derive(Clone, Debug)]
struct Bucket {
    share: Share,
    /// Changes of the hash when it last became busy.
    since: u64,
}

/// The hash and its changes: what the twin for the kernel shares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Hash {
    seed: u64,
    queues: u32,
    perturb: Option<Span>,
    /// Changes of the hash so far; the hash is a function of it.
    epoch: u64,
    changed: Instant,
    /// Queues that are not empty.
    busy: u64,
    /// Those of them that have not been empty since the last change: flows of the hash before stay in them.
    old: u64,
}

impl Hash {
    fn new(seed: u64, queues: u32, perturb: Option<Span>) -> Self {
        Self { seed, queues, perturb, epoch: 0, changed: Instant::ZERO, busy: 0, old: 0 }
    }
    /// Changes the hash if that is due and no flow would lose its order by it. Returns whether it did.
    fn change(&mut self, now: Instant) -> bool {
        let Some(every) = self.perturb else { return false };
        if self.old > 0 || now.since(self.changed) < every {
            return false;
        }
        self.changed = now;
        self.epoch += 1;
        self.old = self.busy;
        true
    }
    /// The queue of `key` after as many changes.
    fn queue(&self, key: u64, epoch: u64) -> u32 {
        let salt = (self.seed ^ epoch).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31);
        spread(key ^ salt, self.queues)
    }
    /// The queue of `key` before the last change; `None` before the first.
    fn queue_before(&self, key: u64) -> Option<u32> {
        if self.epoch == 0 {
            return None;
        }
        Some(self.queue(key, self.epoch - 1))
    }
    /// Whether a queue that became busy after `since` changes, and is not empty, may have flows of the hash before.
    fn keeps(&self, since: u64) -> bool {
        since < self.epoch
    }
    /// A queue became busy. Returns the changes so far.
    fn entered(&mut self) -> u64 {
        self.busy += 1;
        self.epoch
    }
    /// A queue that became busy after `since` changes is empty.
    fn emptied(&mut self, since: u64) {
        self.busy -= 1;
        if since < self.epoch {
            self.old -= 1;
        }
    }
}

/// Stochastic fairness queueing. See the [module](self).
#[derive(Clone, Debug)]
pub struct Sfq<P> {
    buckets: Slab<u32, Bucket>,
    hash: Hash,
    round: Round<P>,
    stats: Stats,
    latest: Instant,
}

impl<P: Packet> Sfq<P> {
    /// Creates a scheduler with empty queues.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params) -> Result<Self, ParamError> {
        let params = params.validate()?;
        Ok(Self {
            hash: Hash::new(params.seed, params.queues, params.perturb),
            buckets: repeat_n(Bucket { share: Share::new(1), since: 0 }, params.queues as usize).collect(),
            round: Round::new(params.quantum, params.limit),
            stats: Stats::default(),
            latest: Instant::ZERO,
        })
    }
    /// Counts since the start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The queue of `key`, after changing the hash if that is due and no flow would lose its order by it.
    fn bucket_of(&mut self, key: u64) -> u32 {
        self.stats.perturbed += u64::from(self.hash.change(self.latest));
        if let Some(index) = self.hash.queue_before(key) {
            let bucket = &self.buckets[index];
            if !bucket.share.is_empty() && self.hash.keeps(bucket.since) {
                return index;
            }
        }
        self.hash.queue(key, self.hash.epoch)
    }

    fn pop(&mut self, index: u32) -> Option<P> {
        let bucket = &mut self.buckets[index];
        let (packet, _) = self.round.pop(index, &mut bucket.share)?;
        if bucket.share.is_empty() {
            self.hash.emptied(bucket.since);
        }
        Some(packet)
    }
}

impl<P: Packet> Qdisc<P> for Sfq<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.latest = self.latest.max(now);
        if !self.round.pool().can_hold(packet.size()) {
            return out.refused(packet, DropReason::QueueLimit);
        }
        let index = self.bucket_of(packet.flow().flow);
        let bucket = &mut self.buckets[index];
        if bucket.share.is_empty() {
            bucket.since = self.hash.entered();
        }
        self.round.push(index, &mut bucket.share, packet, self.latest);
        while let Some(packet) = self.round.pool().over_limit().and_then(|longest| self.pop(longest)) {
            self.stats.overflowed += 1;
            out.dropped(packet, DropReason::FlowLimit);
        }
        Queued::default()
    }

    fn dequeue(&mut self, now: Instant, _out: &mut dyn Outlet<P>) -> Option<P> {
        self.latest = self.latest.max(now);
        let index = self.round.next(&mut self.buckets, |bucket| &mut bucket.share)?;
        self.pop(index)
    }

    fn deadline(&self, _now: Instant) -> Deadline {
        self.round.pool().deadline()
    }

    fn backlog(&self) -> Backlog {
        self.round.pool().backlog()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowKey;
    use alloc::vec::Vec;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct P(u64, u64);
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(1_000)
        }
        fn flow(&self) -> FlowKey {
            FlowKey::numbered(self.0)
        }
    }

    #[test]
    fn two_flows_do_not_share_a_queue_for_ever() {
        let params =
            Params { queues: 2, perturb: Some(Span::from_secs(1)), quantum: Bytes::new(1_000), ..Params::default() };
        let mut queue = Sfq::<P>::new(params).unwrap();
        let mut together = 0;
        for second in 0..200 {
            let now = Instant::ZERO + Span::from_secs(second);
            let mut out = Vec::new();
            for (flow, n) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
                queue.enqueue(now, P(flow, n), &mut out);
            }
            let order: Vec<_> = (0..4).map(|_| queue.dequeue(now, &mut out).unwrap().0).collect();
            together += u32::from(order == [1, 1, 2, 2]);
        }
        // With two queues they share one in half of the seconds: 100 of 200, standard deviation 7.1.
        assert!((65..=135).contains(&together), "{together}");
        assert!(queue.stats().perturbed >= 198, "{:?}", queue.stats());
    }

    #[test]
    fn a_change_of_the_hash_waits_for_old_queues() {
        let mut queue = Sfq::<P>::new(Params::default()).unwrap();
        let at = |s| Instant::ZERO + Span::from_secs(s);
        let mut out = Vec::new();
        // The queue of flow 1 is never empty: one change with it, at 10 s, and then none until it was empty.
        queue.enqueue(at(0), P(1, 0), &mut out);
        for n in 1..100 {
            queue.enqueue(at(n), P(1, n), &mut out);
            assert_eq!(queue.dequeue(at(n), &mut out), Some(P(1, n - 1)));
        }
        assert_eq!(queue.stats().perturbed, 1);
        assert_eq!(queue.dequeue(at(100), &mut out), Some(P(1, 99)));
        queue.enqueue(at(100), P(1, 100), &mut out);
        assert_eq!(queue.stats().perturbed, 2);
    }
}
