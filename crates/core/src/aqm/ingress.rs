//! The ingress filter: Mice and Elephants without a queue.
//!
//! *Law*: a virtual queue takes the bytes of every packet that passes and drains at `rate`. Mice pass. Elephants are
//! dropped or marked by ARED on the virtual queue, and dropped when it would exceed `limit`; except that of what
//! passes, elephants get at least `floor`, less `burst` and one packet, over any interval in which they are dropped.
//! *Source*: "Implementation of AQMs on Linux made Easy" (Braithwaite): the policer, "Classifier Scenario
//! Experiment".
//! *Units*: bit/s, bytes; the floor is a fraction. `rate` is the share of the incoming line that senders get
//! before they are signalled to slow down; it must be a little below the line (95 % by default), or the queue before the
//! line remains the only one.
//! *Example*: below.
//! *Cost*: O(1) a packet: two hash look-ups and one draw at the most; no packet is queued.
//! *Notes*: as a decider behind [`AqmFifo`](crate::aqm::AqmFifo) it is a discipline that passes on at once. Bytes of
//! the virtual queue are rounded up to whole ones, against the sender.
//! *Departures from the source, and why*: the floor and the rules of [`elephants`]; ECN.
//! *See also*: [`meredt`](crate::meredt), with a queue, which can also let mice go first and so does more for them; `kernel/`, where the
//! parts of this are translated to C.
//!
//! ```
//! use tidegate_core::{aqm::{Aqm, Verdict}, ingress::{Ingress, Params}, *};
//! # struct P;
//! # impl Packet for P { fn size(&self) -> Bytes { Bytes::new(1_500) } fn flow(&self) -> FlowKey { FlowKey::default() } }
//! let mut filter = Ingress::new(Params::for_line(Rate::from_mbit(100)), 1, "downlink")?;
//! assert_eq!(filter.on_arrival(Instant::ZERO, &P, Backlog::default()), Verdict::Admit);
//! # Ok::<(), ParamError>(())
//! ```

use crate::aqm::{Aqm, Verdict};
use crate::ared::{self, Ared};
use crate::bucket::TokenBucket;
use crate::elephants::{self, FlowSizer};
use crate::meredt::{Floor, MeanValue, check_floor};
use crate::packet::Packet;
use crate::params::ParamError;
use crate::probability::Probability;
use crate::qdisc::{Backlog, DropReason};
use crate::red::Spacing;
use tidegate_units::{Bytes, Instant, Rate, Span};

/// Parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Params {
    /// The rate at which the virtual queue drains.
    pub rate: Rate,
    /// The most the virtual queue may hold.
    pub limit: Bytes,
    /// The measure of flows.
    pub elephants: elephants::Params,
    /// How elephants are dropped; its link should be `rate`.
    pub ared: ared::Params,
    /// The least share of the bytes that pass that elephants get.
    pub floor: Probability,
    /// The largest debt of the floor; the largest packet of an elephant seen where that is more.
    pub burst: Bytes,
    /// 0: all elephants are dropped alike; 1: in proportion to their value.
    pub fairness: Probability,
}

impl Params {
    /// For an incoming line of `line`: 95 % of it, elephants and ARED with their defaults for that, a virtual queue
    /// of at most 100 ms that ARED keeps at 50, a floor of 10 % with a debt of at most 15 kB.
    pub fn for_line(line: Rate) -> Self {
        let rate = Rate::from_bps(line.as_bps() / 100 * 95);
        Self {
            rate,
            limit: Bytes::new((rate.as_bps() / 80).max(30_000)),
            elephants: elephants::Params::for_link(rate),
            ared: ared::Params {
                spacing: Spacing::Geometric,
                delay: Span::from_millis(50),
                ..ared::Params::for_link(rate)
            },
            floor: Probability::from_ratio(1, 10).unwrap_or(Probability::ZERO),
            burst: Bytes::new(15_000),
            fairness: Probability::ONE,
        }
    }
    /// Checks the parameters.
    ///
    /// # Errors
    /// A rate of zero; as [`elephants::Params::validate`] and [`ared::Params::red`]; a floor of one.
    pub fn validate(self) -> Result<Self, ParamError> {
        if self.rate.is_zero() {
            return Err(ParamError::new("rate", "must be above 0, for example 95mbit"));
        }
        self.ared.red()?;
        self.elephants.clone().validate()?;
        check_floor(self.floor)?;
        Ok(self)
    }
}

/// Counts since the start. More is in [`elephants::Stats`] and [`ared::Stats`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Packets that passed unmarked, and their bytes.
    pub passed: crate::Account,
    /// Packets marked.
    pub marked: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets that passed because of the floor.
    pub saved: u64,
}

/// The filter, as a decider. See the [module](self).
#[derive(Clone, Debug)]
pub struct Ingress {
    params: Params,
    sizer: FlowSizer,
    ared: Ared,
    /// The free part of the virtual queue: a full bucket is an empty queue.
    free: TokenBucket,
    mean: MeanValue,
    floor: Floor,
    /// The largest packet of an elephant seen.
    largest: Bytes,
    stats: Stats,
    latest: Instant,
    empty: bool,
}

impl Ingress {
    /// A filter without flows, drawing from the random stream `name` under `seed`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params, seed: u64, name: &str) -> Result<Self, ParamError> {
        let ared = Ared::new(params.ared, seed, name)?;
        Self::around(params, ared)
    }
    /// A filter around an ARED, which stands for the one of `params`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn around(params: Params, ared: Ared) -> Result<Self, ParamError> {
        let params = params.validate()?;
        Ok(Self {
            sizer: FlowSizer::new(params.elephants.clone())?,
            ared,
            free: TokenBucket::full(params.rate, params.limit, Instant::ZERO),
            mean: MeanValue::default(),
            floor: Floor::new(params.floor, Bytes::ZERO),
            largest: Bytes::ZERO,
            stats: Stats::default(),
            latest: Instant::ZERO,
            empty: true,
            params,
        })
    }
    /// Counts since the start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
    /// The measure of flows.
    pub fn sizer(&self) -> &FlowSizer {
        &self.sizer
    }
    /// The decider on elephants.
    pub fn ared(&self) -> &Ared {
        &self.ared
    }
    /// The virtual queue at `now`, in bytes and in mean packets; more than the limit when mice alone exceed the rate.
    pub fn virtual_queue(&self, now: Instant) -> Backlog {
        let used = self.free.used(now.max(self.latest));
        let packet = self.params.ared.packet.as_u64();
        Backlog { packets: used.as_u64().div_ceil(packet), bytes: used }
    }

    fn decide<P: Packet>(&mut self, packet: &P) -> Verdict {
        let now = self.latest;
        let queue = self.virtual_queue(now);
        if queue.is_empty() && !self.empty {
            self.empty = true;
            // It ran empty before now, at the instant at which the bucket was full again.
            let at = self.free.time_of(Instant::ZERO, self.free.depth()).unwrap_or(now);
            self.ared.on_empty(at);
        }
        let zone = self.ared.observe(now, queue);
        let Some(class) = self.sizer.arrive(now, packet) else { return Verdict::Admit };
        let size = packet.size();
        if class.value == 0 {
            self.floor.mouse(size);
            // A burst that is less than a packet would never let one pass.
            self.floor.cap(self.params.burst.max(self.largest));
            return Verdict::Admit;
        }
        self.largest = self.largest.max(size);
        let zone = self.mean.scale(zone, u32::from(class.value), self.params.fairness);
        let mut verdict = self.ared.decide(packet, zone);
        if !matches!(verdict, Verdict::Drop(_)) && queue.bytes + size > self.params.limit {
            verdict = Verdict::Drop(DropReason::Policed);
        }
        if matches!(verdict, Verdict::Drop(_)) {
            if !self.floor.due(size) {
                return verdict;
            }
            self.stats.saved += 1;
            verdict = Verdict::Admit;
        }
        self.floor.elephant(size);
        verdict
    }
}

impl<P: Packet> Aqm<P> for Ingress {
    fn on_arrival(&mut self, now: Instant, packet: &P, _queue: Backlog) -> Verdict {
        self.latest = self.latest.max(now);
        let verdict = self.decide(packet);
        match verdict {
            Verdict::Drop(_) => {
                self.stats.dropped += 1;
                return verdict;
            }
            Verdict::Mark => self.stats.marked += 1,
            Verdict::Admit => self.stats.passed.count(packet.size()),
        }
        self.free.charge(self.latest, packet.size());
        self.empty = false;
        self.ared.on_busy();
        verdict
    }

    fn on_departure(&mut self, _now: Instant, _packet: &P, _queue: Backlog) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowKey;

    struct P(u64);
    impl Packet for P {
        fn size(&self) -> Bytes {
            Bytes::new(1_000)
        }
        fn flow(&self) -> FlowKey {
            FlowKey::numbered(self.0)
        }
    }

    #[test]
    fn the_floor_holds_for_superpackets_too() {
        struct Piece(u64, u64);
        impl Packet for Piece {
            fn size(&self) -> Bytes {
                Bytes::new(self.1)
            }
            fn flow(&self) -> FlowKey {
                FlowKey::numbered(self.0)
            }
        }
        // 1.25 Gbit/s of mice into 950 Mbit/s, and beside them an elephant of 640 Mbit/s in superpackets of 64 kB, each
        // more than the floor may owe at once: a tenth of what passes is 139 Mbit/s.
        let mut filter = Ingress::new(Params::for_line(Rate::from_mbit(1_000)), 1, "test").unwrap();
        let mut passed = [0_u64; 2];
        for n in 0..500_000_u64 {
            let now = Instant::ZERO + Span::from_nanos(n * 8_000);
            let mouse = Piece(1 + n, 1_250);
            passed[0] += if filter.on_arrival(now, &mouse, Backlog::default()) == Verdict::Admit { 1_250 } else { 0 };
            if n % 100 == 0 {
                let elephant = Piece(0, 64_000);
                let verdict = filter.on_arrival(now, &elephant, Backlog::default());
                passed[1] += if verdict == Verdict::Admit { 64_000 } else { 0 };
            }
        }
        let share = passed[1] as f64 / (passed[0] + passed[1]) as f64;
        assert!((0.095..0.12).contains(&share), "{share}");
    }

    #[test]
    fn who_could_be_marked_is_dropped_beyond_the_limit_too() {
        struct Marked;
        impl Packet for Marked {
            fn size(&self) -> Bytes {
                Bytes::new(1_000)
            }
            fn flow(&self) -> FlowKey {
                FlowKey::numbered(0)
            }
            fn ecn(&self) -> crate::Ecn {
                crate::Ecn::Ect0
            }
        }
        // An elephant of 20 Mbit/s into 10 that understands marks and does not heed them. ARED drops it beyond its
        // upper threshold only, and the limit is reached before: half of that.
        let mut params = Params::for_line(Rate::from_bps(10_526_400));
        params.floor = Probability::ZERO;
        params.limit = Bytes::new(60_000);
        let mut filter = Ingress::new(params, 1, "test").unwrap();
        let (mut marked, mut policed) = (0, 0);
        for n in 0..20_000 {
            let now = Instant::ZERO + Span::from_micros(n * 400);
            match filter.on_arrival(now, &Marked, Backlog::default()) {
                Verdict::Mark => marked += 1,
                verdict => policed += u64::from(verdict == Verdict::Drop(DropReason::Policed)),
            }
            let inside = filter.virtual_queue(now).bytes;
            assert!(inside <= Bytes::new(60_000), "packet {n}: {inside:?}");
        }
        assert!(marked > 100 && policed > 1_000, "{marked} {policed}");
    }

    /// A flow of 1,000 B packets, and mice of one packet each, at rates in bit/s for ten seconds: what passes of
    /// each, as a rate.
    fn run(params: Params, elephant: u64, mice: u64) -> (f64, f64) {
        let mut filter = Ingress::new(params, 1, "test").unwrap();
        let (mut sent, mut passed) = ([0_u64; 2], [0_u64; 2]);
        let mut mouse = 1;
        for us in 0..10_000_000_u64 {
            for (kind, rate) in [elephant, mice].into_iter().enumerate() {
                // The n-th packet of 8,000 bit is due at n * 8,000 / rate.
                if us * rate / 1_000_000 >= (sent[kind] + 1) * 8_000 {
                    sent[kind] += 1;
                    mouse += kind as u64;
                    let packet = P(if kind == 0 { 0 } else { mouse });
                    let now = Instant::ZERO + Span::from_micros(us);
                    let verdict = filter.on_arrival(now, &packet, Backlog::default());
                    passed[kind] += u64::from(verdict == Verdict::Admit);
                }
            }
        }
        (passed[0] as f64 * 800.0, passed[1] as f64 * 800.0)
    }

    #[test]
    fn mice_pass_and_elephants_get_what_is_left() {
        let params = Params::for_line(Rate::from_bps(10_526_400));
        assert_eq!(params.rate.as_bps(), 10_000_080);
        // Below the rate nothing is touched (the last packet of each may be due after the end).
        let (elephant, mice) = run(params.clone(), 6_000_000, 3_000_000);
        assert!(elephant > 5_997_000.0 && mice > 2_997_000.0, "{elephant} {mice}");
        // 20 of elephant and 4 of mice into 10: all mice pass, and the elephant gets 6.
        let (elephant, mice) = run(params.clone(), 20_000_000, 4_000_000);
        assert!(mice > 3_997_000.0, "{mice}");
        assert!((5_500_000.0..6_500_000.0).contains(&elephant), "{elephant}");
        // 20 and 15 into 10: all mice pass still, and the floor is a tenth of what passes: 15/9 = 1.67.
        let (elephant, mice) = run(params, 20_000_000, 15_000_000);
        assert!(mice > 14_997_000.0, "{mice}");
        assert!((1_600_000.0..1_900_000.0).contains(&elephant), "{elephant}");
    }
}
