//! FQ-CoDel: fair queueing with one CoDel for each queue, new flows first.
//!
//! *Law*: flows are hashed onto queues; queues take turns by deficit round robin with `quantum` bytes a turn, those
//! that just became busy (and have not used up their first quantum) before the others; each queue is under CoDel.
//! When the limit is exceeded, the head of a queue within 1/9 of the longest is dropped.
//! *Source*: RFC 8290, sections 4.1 (enqueue, overload) and 4.2 (dequeue); section 5.2 for the parameters.
//! *Units*: bytes, packets, nanoseconds as in [`codel`].
//! *Example*: below.
//! *Cost*: O(1) an enqueue. A dequeue visits a queue twice at most when `quantum` is at least the largest packet;
//! with a smaller one n calls together visit at most bytes/quantum queues more. A queue that ran empty is visited
//! once or twice after that; so a single call may visit many, but n packets together cost O(n). No allocation after
//! warm-up.
//! *Notes*: two flows that share a queue share its service; with 1,024 queues and f busy flows a given flow is alone
//! with probability (1 - 1/1024)^(f - 1): 0.908 for 100 flows (section 5.3 of the RFC). The hash is keyed where
//! the packet enters ([`FlowKey`](crate::FlowKey)), so no sender can aim for a queue. With `step` the packets of ECT(1) are
//! marked by the [`step`] as well, so that CoDel has nothing to do for a scalable sender.
//! *Departures from the source, and why*: at overload one packet is dropped for each that arrives, from the longest queue
//! by size class, where kernels search all queues and drop up to 64 at once: here the search costs O(1), so there
//! is nothing to save up for. The queue's own backlog is compared with `mtu`, not the whole discipline's.
//! *See also*: [`sfq`](crate::sfq), without CoDel and without new-flow priority; [`drr`](crate::drr), exact flows;
//! [`cake`](crate::cake), with a shaper, hosts and tins.
//!
//! ```
//! use tidegate_core::{fq_codel::{FqCodel, Params}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u64);
//! # impl Packet for P { fn size(&self) -> Bytes { Bytes::new(1500) } fn flow(&self) -> FlowKey { FlowKey::numbered(self.0) } }
//! let mut queue = FqCodel::new(Params::default())?;
//! for flow in [1, 1, 1, 2] {
//!     queue.enqueue(Instant::ZERO, P(flow), &mut Discard);
//! }
//! let order: Vec<_> = (0..4).map(|_| queue.dequeue(Instant::ZERO, &mut Discard).unwrap().0).collect();
//! // Flow 1 used up its quantum of 1514 with two packets; then flow 2, new, goes first.
//! assert_eq!(order, [1, 1, 2, 1]);
//! # Ok::<(), ParamError>(())
//! ```

use crate::codel;
use crate::flow_queues::{FlowQueues, QueueAqm};
use crate::packet::Packet;
use crate::params::ParamError;
use crate::qdisc::{Backlog, Deadline, Outlet, Qdisc, Queued};
use crate::queues::{Queue, Store};
use crate::round::{check_quantum, check_queues};
use crate::step::{self, Step};
use tidegate_units::{Bytes, Instant};

/// Parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The parameters of each queue, except that `limit` applies to all queues together.
    pub codel: codel::Params,
    /// Queues, 1 to 1,048,576.
    pub queues: u32,
    /// Bytes a turn. An MTU by default; 300 on slow links favours small packets of other flows.
    pub quantum: Bytes,
    /// The step for packets of ECT(1), if there is one (section 5.2.7 of RFC 8290, for scalable senders alone).
    pub step: Option<Step>,
}

impl Default for Params {
    /// RFC 8290, section 5.2: 1,024 queues, a quantum of 1,514 B, 10,240 packets.
    fn default() -> Self {
        let limit = crate::fifo::Limit::packets(10_240);
        Self {
            codel: codel::Params { limit, ..Default::default() },
            queues: 1_024,
            quantum: Bytes::new(1_514),
            step: None,
        }
    }
}

impl Params {
    /// Checks the parameters.
    ///
    /// # Errors
    /// As [`codel::Params::validate`] and [`Step::validate`]; queues outside 1 to 2^20; a quantum outside 64 B to 1 MiB.
    pub fn validate(self) -> Result<Self, ParamError> {
        self.codel.validate()?;
        check_queues(self.queues)?;
        check_quantum(self.quantum)?;
        self.step.map(Step::validate).transpose()?;
        Ok(self)
    }
}

/// Counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Counts of all CoDel queues together.
    pub codel: codel::Stats,
    /// Packets dropped because the limit was passed.
    pub overflowed: u64,
    /// Times a queue became busy as a new flow.
    pub new_flows: u64,
}

/// CoDel for each of many queues.
#[derive(Clone, Debug)]
struct PerQueue {
    params: codel::Params,
    step: Option<Step>,
    stats: codel::Stats,
}

impl<P: Packet> QueueAqm<P> for PerQueue {
    type State = codel::State;

    fn fresh(&self) -> codel::State {
        codel::State::default()
    }
    fn dequeue(
        &mut self,
        state: &mut codel::State,
        store: &mut Store<P>,
        queue: &mut Queue,
        now: Instant,
        out: &mut dyn Outlet<P>,
    ) -> Option<P> {
        let (mut packet, arrived) = state.dequeue(&self.params, &mut self.stats, store, queue, now, out)?;
        let marked = step::apply(self.step, &mut packet, arrived, now, queue.backlog().packets, out);
        self.stats.marked += u64::from(marked);
        Some(packet)
    }
}

/// FQ-CoDel. See the [module](self).
#[derive(Clone, Debug)]
pub struct FqCodel<P: Packet>(FlowQueues<P, PerQueue>);

impl<P: Packet> FqCodel<P> {
    /// Creates a scheduler with empty queues.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params) -> Result<Self, ParamError> {
        let Params { codel, queues, quantum, step } = params.validate()?;
        let aqm = PerQueue { params: codel, step, stats: codel::Stats::default() };
        Ok(Self(FlowQueues::new(aqm, queues, quantum, codel.limit)))
    }
    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        Stats { codel: self.0.aqm().stats, overflowed: self.0.overflowed(), new_flows: self.0.new_flows() }
    }
}

impl<P: Packet> Qdisc<P> for FqCodel<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.0.enqueue(now, packet, out)
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.0.dequeue(now, out)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.0.deadline(now)
    }
    fn backlog(&self) -> Backlog {
        self.0.backlog()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowKey;
    use crate::qdisc::DropReason;
    use crate::round::spread;
    use alloc::vec::Vec;
    use tidegate_units::Span;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct P(u64, u64);
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(self.1)
        }
        fn flow(&self) -> FlowKey {
            FlowKey::numbered(self.0)
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn a_sparse_flow_goes_first_and_cannot_stay_new() {
        let mut queue = FqCodel::<P>::new(Params::default()).unwrap();
        let mut out = Vec::new();
        for _ in 0..20 {
            queue.enqueue(at(0), P(1, 1_500), &mut out);
        }
        // Flow 1 becomes old after two packets. Flow 2 sends a packet of 100 B whenever it was served: it goes first
        // until, each time it ran empty, it has waited a turn among the old.
        let mut order = Vec::new();
        (0..2).for_each(|_| order.push(queue.dequeue(at(0), &mut out).unwrap().0));
        for _ in 0..5 {
            queue.enqueue(at(0), P(2, 100), &mut out);
            (0..2).for_each(|_| order.push(queue.dequeue(at(0), &mut out).unwrap().0));
        }
        assert_eq!(order, [1, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1]);
        // A flow that never runs empty is new for one quantum: 1514 B are 15 packets of 100 B and the one that makes
        // the debt. Then it takes turns with flow 1: 1428 B more are 15 packets.
        for _ in 0..40 {
            queue.enqueue(at(0), P(3, 100), &mut out);
        }
        let order: Vec<_> = (0..40).map(|_| queue.dequeue(at(0), &mut out).unwrap().0).collect();
        assert_eq!(order[..16], [3; 16]);
        assert_eq!(order.iter().position(|flow| *flow == 1), Some(31));
    }

    #[test]
    fn overload_takes_from_the_longest() {
        let limit = crate::fifo::Limit::packets(10);
        let codel = codel::Params { limit, ..Default::default() };
        let mut queue = FqCodel::<P>::new(Params { codel, ..Params::default() }).unwrap();
        let mut out = Vec::new();
        for n in 0..9 {
            queue.enqueue(at(n), P(1, 1_500), &mut out);
        }
        for n in 0..5 {
            queue.enqueue(at(n), P(2, 1_500), &mut out);
        }
        assert_eq!(out.len(), 4);
        assert!(out.iter().all(|(packet, reason)| packet.0 == 1 && *reason == DropReason::FlowLimit));
    }

    #[test]
    fn collisions_are_as_rare_as_in_the_rfc() {
        // RFC 8290, section 5.3: of 1,024 queues and 100 flows a flow is alone with (1023/1024)^99 = 0.9078. Over
        // 1,000 draws of 100 flows the share's standard deviation is below 0.1 %; five of them, 0.5 %.
        let mut alone = 0;
        for draw in 0..1_000_u64 {
            let mut flows_in = [0_u8; 1_024];
            let flows: Vec<_> = (0..100).map(|flow| spread(draw * 100 + flow, 1_024) as usize).collect();
            flows.iter().for_each(|index| flows_in[*index] += 1);
            alone += flows.iter().filter(|index| flows_in[**index] == 1).count();
        }
        let share = alone as f64 / 100_000.0;
        assert!((share - 0.9078).abs() < 0.005, "{share}");
    }
}
