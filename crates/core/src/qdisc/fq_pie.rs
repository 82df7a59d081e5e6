//! FQ-PIE: fair queueing with one PIE for each queue, new flows first.
//!
//! *Law*: flows are hashed onto queues that take turns as in [`fq_codel`](crate::fq_codel); each queue is under PIE, which
//! holds the delay of that queue at `target` by dropping arrivals. When the limit is exceeded, the head of a queue within
//! 1/9 of the longest is dropped.
//! *Source*: RFC 8033 for PIE in each queue, RFC 8290 for the queues; Ramakrishnan et al., "FQ-PIE queue discipline in the
//! Linux kernel" (2019) for the combination.
//! *Units*: bytes, packets, nanoseconds and probabilities as in [`pie`].
//! *Example*: below.
//! *Cost*: that of [`fq_codel`](crate::fq_codel), and for an arrival or a departure that of [`pie`] for its queue: queues
//! without a packet cost nothing, where kernels update all of them every 15 ms.
//! *Notes*: the rules of PIE for bursts and for short queues apply to each queue: nothing is dropped while it holds at most
//! two mean packets.
//! *Departures from the source, and why*: those of [`pie`] and of [`fq_codel`](crate::fq_codel).
//! *See also*: [`fq_codel`](crate::fq_codel), which drops at departures; [`pie`], one queue.
//!
//! ```
//! use tidegate_core::{fq_pie::{FqPie, Params}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u64);
//! # impl Packet for P { fn size(&self) -> Bytes { Bytes::new(1500) } fn flow(&self) -> FlowKey { FlowKey::numbered(self.0) } }
//! let mut queue = FqPie::new(Params::default(), 1, "uplink")?;
//! for flow in [1, 1, 1, 2] {
//!     queue.enqueue(Instant::ZERO, P(flow), &mut Discard);
//! }
//! let order: Vec<_> = (0..4).map(|_| queue.dequeue(Instant::ZERO, &mut Discard).unwrap().0).collect();
//! assert_eq!(order, [1, 1, 2, 1]);
//! # Ok::<(), ParamError>(())
//! ```

use crate::fifo::Limit;
use crate::flow_queues::{FlowQueues, QueueAqm};
use crate::packet::Packet;
use crate::params::ParamError;
use crate::pie;
use crate::qdisc::{Backlog, Deadline, Outlet, Qdisc, Queued};
use crate::queues::{Queue, Store};
use crate::random::Stream;
use crate::round::{check_quantum, check_queues};
use tidegate_units::{Bytes, Instant};

/// Parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The parameters of each queue, except that `limit` applies to all queues together.
    pub pie: pie::Params,
    /// Queues, 1 to 1,048,576.
    pub queues: u32,
    /// Bytes a turn.
    pub quantum: Bytes,
}

impl Default for Params {
    /// PIE as in RFC 8033; 1,024 queues, a quantum of 1,514 B, 10,240 packets.
    fn default() -> Self {
        let pie = pie::Params { limit: Limit::packets(10_240), ..pie::Params::default() };
        Self { pie, queues: 1_024, quantum: Bytes::new(1_514) }
    }
}

impl Params {
    /// Checks the parameters.
    ///
    /// # Errors
    /// As [`pie::Params::validate`]; queues outside 1 to 2^20; a quantum outside 64 B to 1 MiB.
    pub fn validate(self) -> Result<Self, ParamError> {
        self.pie.validate()?;
        check_queues(self.queues)?;
        check_quantum(self.quantum)?;
        Ok(self)
    }
}

/// Counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Counts of all PIE queues together.
    pub pie: pie::Stats,
    /// Packets dropped because the limit was passed.
    pub overflowed: u64,
    /// Times a queue became busy as a new flow.
    pub new_flows: u64,
}

/// PIE for each of many queues.
#[derive(Clone, Debug)]
struct PerQueue {
    params: pie::Params,
    stats: pie::Stats,
    random: Stream,
}

impl<P: Packet> QueueAqm<P> for PerQueue {
    type State = pie::State;

    fn fresh(&self) -> pie::State {
        pie::State::new(&self.params)
    }
    fn admits(
        &mut self,
        state: &mut pie::State,
        packet: &mut P,
        backlog: Backlog,
        now: Instant,
        out: &mut dyn Outlet<P>,
    ) -> bool {
        state.catch_up(&self.params, &mut self.stats, now);
        state.admits(&self.params, &mut self.stats, &mut self.random, packet, backlog, out)
    }
    fn dequeue(
        &mut self,
        state: &mut pie::State,
        store: &mut Store<P>,
        queue: &mut Queue,
        now: Instant,
        _out: &mut dyn Outlet<P>,
    ) -> Option<P> {
        state.catch_up(&self.params, &mut self.stats, now);
        let (packet, at) = store.pop(queue)?;
        state.departed(now.since(at), queue.is_empty());
        Some(packet)
    }
}

/// FQ-PIE. See the [module](self).
#[derive(Clone, Debug)]
pub struct FqPie<P: Packet>(FlowQueues<P, PerQueue>);

impl<P: Packet> FqPie<P> {
    /// Creates a scheduler with empty queues that draws from the random stream `name` under `seed`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params, seed: u64, name: &str) -> Result<Self, ParamError> {
        Self::drawing_from(params, Stream::named(seed, name))
    }
    /// Creates a scheduler with empty queues that draws from `random`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn drawing_from(params: Params, random: Stream) -> Result<Self, ParamError> {
        let Params { pie, queues, quantum } = params.validate()?;
        let aqm = PerQueue { params: pie, stats: pie::Stats::default(), random };
        Ok(Self(FlowQueues::new(aqm, queues, quantum, pie.limit)))
    }
    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        Stats { pie: self.0.aqm().stats, overflowed: self.0.overflowed(), new_flows: self.0.new_flows() }
    }
}

impl<P: Packet> Qdisc<P> for FqPie<P> {
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
    use alloc::vec::Vec;
    use tidegate_units::Span;

    #[derive(Clone, Copy, Debug)]
    struct P {
        flow: u64,
        tick: u64,
    }
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(1_000)
        }
        fn flow(&self) -> FlowKey {
            FlowKey::numbered(self.flow)
        }
    }

    /// 8 Mbit/s, a departure of 1000 B each millisecond. Flow 1 offers 6 Mbit/s and flow 2 5 Mbit/s without reaction: each
    /// gets 3.8 Mbit/s at the target delay of 15 ms. Flow 3 sends 0.4 Mbit/s, which is less than its part: it loses nothing
    /// and waits for hardly more than the packet being sent.
    #[test]
    fn each_queue_is_held_at_the_target_and_a_sparse_flow_does_not_wait() {
        let mut queue = FqPie::new(Params::default(), 1, "test").unwrap();
        let (mut offered, mut dropped, mut delays) = ([0_u32; 4], [0_u32; 4], [const { Vec::new() }; 4]);
        for tick in 0..600_000_u64 {
            let now = Instant::ZERO + Span::from_micros(tick * 100);
            let mut out = Vec::new();
            // Every 4/3 ms, 1.6 ms, and 20 ms: in ticks of 0.1 ms.
            let sends = [(1, tick * 3 % 40 < 3), (2, tick % 16 == 0), (3, tick % 200 == 0)];
            for (flow, _) in sends.into_iter().filter(|(_, sends)| *sends) {
                queue.enqueue(now, P { flow, tick }, &mut out);
                offered[flow as usize] += u32::from(tick > 300_000);
            }
            out.iter().filter(|_| tick > 300_000).for_each(|(packet, _)| dropped[packet.flow as usize] += 1);
            if tick % 10 == 0
                && let Some(packet) = queue.dequeue(now, &mut out)
                && tick > 300_000
            {
                delays[packet.flow as usize].push((tick - packet.tick) as f64 * 0.1);
            }
        }
        let lost = |flow: usize| f64::from(dropped[flow]) / f64::from(offered[flow]);
        let mean = |flow: usize| delays[flow].iter().sum::<f64>() / delays[flow].len() as f64;
        assert!(
            (lost(1) - (1.0 - 3.8 / 6.0)).abs() < 0.01 && (lost(2) - (1.0 - 3.8 / 5.0)).abs() < 0.01,
            "{dropped:?}"
        );
        assert!((12.0..18.0).contains(&mean(1)) && (12.0..18.0).contains(&mean(2)), "{} {}", mean(1), mean(2));
        assert!(dropped[3] == 0 && mean(3) < 3.0, "{} {}", dropped[3], mean(3));
    }
}
