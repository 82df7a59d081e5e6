//! DualPI2: the laws, and the decisions against the pseudocode of RFC 9332; the step in queues of one flow.

use std::collections::VecDeque;

use tidegate_core::cake::{self, Cake};
use tidegate_core::codel;
use tidegate_core::drr::{self, Drr};
use tidegate_core::dualpi2::{DualPi2, Nqb, Params, Scheduler, protection};
use tidegate_core::fbq::{ClassParams, Fbc, FbcParams};
use tidegate_core::fifo::Limit;
use tidegate_core::fq_codel::{self, FqCodel};
use tidegate_core::random::Stream;
use tidegate_core::step::Step;
use tidegate_core::{Accounted, Bytes, Deadline, Dscp, Ecn, Instant, Packet, Qdisc, Rate, Span};
use tidegate_laws::{CodePoints, Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

const WEIGHTED: Scheduler = Scheduler::Weighted { parts: 16 };
const SHIFTED: Scheduler = Scheduler::TimeShifted { shift: Span::from_millis(2) };

/// A fast controller, so that its probability matters within a script. A flow has one code point, but NQB is drawn for each
/// packet: only the ECN field decides here.
fn params(scheduler: Scheduler) -> Params {
    Params {
        target: Span::from_millis(1),
        update: Span::from_millis(1),
        alpha: 5_000,
        beta: 50_000,
        scheduler,
        nqb: Nqb::ByEcn,
        limit: Limit { packets: 30, bytes: Bytes::new(20_000) },
        ..Params::default()
    }
}

fn shapes() -> [Shape; 3] {
    let usual = Shape { ecn: CodePoints::OfFlows, ..Shape::default() };
    [
        usual,
        Shape { flows: 300, enqueues: 140, ..usual },
        Shape { flows: 4, sizes: (1, 9_000), longest_wait: Span::from_secs(2), enqueues: 120, ..usual },
    ]
}

#[test]
fn dualpi2_obeys_the_laws() {
    let eager = protection::Params { critical: Span::from_micros(100), score: Span::ZERO, ageing: Bytes::new(100_000) };
    for (scheduler, protection) in [WEIGHTED, SHIFTED].map(|one| [(one, None), (one, Some(eager))]).concat() {
        for shape in shapes() {
            let params = Params { protection, ..params(scheduler) };
            let report = check_seeds(|| Accounted::new(DualPi2::new(params).unwrap()), &shape, share(4 * 25), 2_000);
            assert!(report.dropped > share(1_000) && report.dequeued > share(5_000), "{report:?}");
            assert!(report.most_drops_a_call <= u64::from(codel::MOST_DROPS_A_CALL), "{report:?}");
        }
    }
}

/// Its own words for what the RFC has: a timer, two queues, and probabilities as the pseudocode computes them, in 10⁻¹².
struct Oracle {
    params: Params,
    low: VecDeque<(u64, u64, TestPacket)>,
    classic: VecDeque<(u64, u64, TestPacket)>,
    /// p', p_C and the delay before.
    base: i128,
    squared: i128,
    before: i128,
    next_update: u64,
    low_count: i128,
    drop_count: i128,
    classic_count: i128,
    /// The bytes that each queue has sent since both have packets.
    sent: [u64; 2],
}

const ONE: i128 = 1_000_000_000_000;

impl Oracle {
    fn new(params: Params) -> Self {
        Self {
            params,
            low: VecDeque::new(),
            classic: VecDeque::new(),
            base: 0,
            squared: 0,
            before: 0,
            next_update: params.update.as_nanos(),
            low_count: 0,
            drop_count: 0,
            classic_count: 0,
            sent: [0; 2],
        }
    }

    /// `dualpi2_update`, whenever it is due.
    fn advance(&mut self, now: u64) {
        while self.next_update <= now {
            let wait =
                |queue: &VecDeque<(u64, u64, TestPacket)>| queue.front().map_or(0, |head| self.next_update - head.1);
            let current = i128::from(wait(&self.low).max(wait(&self.classic)));
            let (alpha, beta) = (i128::from(self.params.alpha), i128::from(self.params.beta));
            let target = i128::from(self.params.target.as_nanos());
            // Thousandths per second times nanoseconds.
            self.base += alpha * (current - target) + beta * (current - self.before);
            self.base = self.base.clamp(0, ONE);
            self.squared = (self.base * self.base + ONE - 1) / ONE;
            self.before = current;
            self.next_update += self.params.update.as_nanos();
        }
    }

    /// `dualpi2_enqueue`.
    fn enqueue(&mut self, now: u64, packet: TestPacket) -> bool {
        self.advance(now);
        let packets = (self.low.len() + self.classic.len()) as u64;
        let bytes: u64 = self.low.iter().chain(&self.classic).map(|(_, _, packet)| packet.size.as_u64()).sum();
        let Limit { packets: most, bytes: most_bytes } = self.params.limit;
        if packets + 1 > most || bytes + packet.size.as_u64() > most_bytes.as_u64() {
            return false;
        }
        let is_nqb = self.params.nqb == Nqb::LowLatency && packet.dscp == Dscp::NQB;
        let queue = if packet.ecn.bits() % 2 == 1 || is_nqb { &mut self.low } else { &mut self.classic };
        queue.push_back((packet.id, now, packet));
        true
    }

    /// `scheduler`.
    fn chooses_low(&self, now: u64) -> bool {
        let (Some(low), Some(classic)) = (self.low.front(), self.classic.front()) else { return !self.low.is_empty() };
        match self.params.scheduler {
            Scheduler::TimeShifted { shift } => now - low.1 + shift.as_nanos() >= now - classic.1,
            // C may send what keeps its bytes at most one part of those of both.
            Scheduler::Weighted { parts } => {
                (self.sent[1] + classic.2.size.as_u64()) * u64::from(parts - 1) > self.sent[0]
            }
        }
    }

    /// `dualpi2_dequeue`. Returns the packet that leaves with its ECN field; dropped ids go to `out`.
    fn dequeue(&mut self, now: u64, out: &mut Vec<u64>) -> Option<(u64, Ecn)> {
        self.advance(now);
        let mut drops = 0;
        loop {
            let from_low = self.chooses_low(now);
            let queue = if from_low { &mut self.low } else { &mut self.classic };
            let (id, arrived, mut packet) = queue.pop_front()?;
            let behind = queue.len();
            self.sent[usize::from(!from_low)] += packet.size.as_u64();
            if (if from_low { &self.classic } else { &self.low }).is_empty() {
                self.sent = [0; 2];
            }
            let coupled = (i128::from(self.params.coupling) * self.base).min(ONE);
            let overloaded = coupled >= ONE;
            let scalable = packet.ecn.bits() % 2 == 1;
            let (drop, mark) = if from_low && !overloaded {
                let native = self.laqm(i128::from(now - arrived), behind);
                (false, scalable && recur(&mut self.low_count, native.max(coupled)))
            } else if from_low {
                let drop = recur(&mut self.drop_count, self.squared);
                (drop, !drop && scalable)
            } else {
                let hit = recur(&mut self.classic_count, self.squared);
                let drop = hit && (packet.ecn == Ecn::NotEct || overloaded);
                (drop, hit && !drop)
            };
            if drop && drops < 32 {
                drops += 1;
                out.push(id);
                continue;
            }
            if mark {
                packet.ecn = Ecn::Ce;
            }
            return Some((id, packet.ecn));
        }
    }

    fn laqm(&self, delay: i128, behind: usize) -> i128 {
        let Step { from, full } = self.params.step;
        let (from, full) = (i128::from(from.as_nanos()), i128::from(full.as_nanos()));
        if behind < 2 || delay < from {
            0
        } else if delay >= full {
            ONE
        } else {
            ((delay - from) * ONE + (full - from) - 1) / (full - from)
        }
    }
}

fn recur(count: &mut i128, likelihood: i128) -> bool {
    *count += likelihood;
    if *count >= ONE {
        *count -= ONE;
        return true;
    }
    false
}

/// A run of `operations` in phases of light load, overload and rest; returns marks, drops and steps with both queues busy.
fn compare(params: Params, seed: u64, operations: u64) -> [u64; 3] {
    let mut random = Stream::named(seed, "dualpi2 oracle");
    let mut ours = DualPi2::new(params).unwrap();
    let mut oracle = Oracle::new(params);
    let mut now = Instant::ZERO;
    let mut counts = [0; 3];
    let mut out = Vec::new();
    for id in 0..operations {
        let phase = id / 5_000 % 5;
        // A rest of up to ten seconds now and then, otherwise 0 to 300 us.
        now += Span::from_nanos(if random.below(20_000) == 0 {
            random.below(10_000_000_000)
        } else {
            random.below(300_000)
        });
        let load = [5, 6, 8, 4, 5][phase as usize];
        if random.below(10) < load {
            let ecn = Ecn::from_bits(random.below(4) as u8);
            let ecn = if phase == 4 { Ecn::Ect1 } else { ecn };
            let dscp = if random.below(8) == 0 { Dscp::NQB } else { Dscp::BEST_EFFORT };
            let packet = TestPacket { ecn, dscp, ..TestPacket::new(id, 0, 40 + random.below(1_461)) };
            out.clear();
            ours.enqueue(now, packet, &mut out);
            assert_eq!(oracle.enqueue(now.as_nanos(), packet), out.is_empty(), "operation {id}");
        } else {
            out.clear();
            let mut expected = Vec::new();
            let left = ours.dequeue(now, &mut out).map(|packet| (packet.id, packet.ecn()));
            assert_eq!(left, oracle.dequeue(now.as_nanos(), &mut expected), "operation {id}");
            assert!(out.iter().map(|(packet, _)| packet.id).eq(expected.iter().copied()), "operation {id}");
            counts[0] += u64::from(left.is_some_and(|(_, ecn)| ecn == Ecn::Ce));
            counts[1] += expected.len() as u64;
        }
        counts[2] += u64::from(!oracle.low.is_empty() && !oracle.classic.is_empty());
        assert_eq!(i128::from(ours.state().base()), oracle.base, "operation {id}");
        assert_eq!(ours.deadline(now) == Deadline::Idle, oracle.low.is_empty() && oracle.classic.is_empty());
    }
    counts
}

/// `TIDEGATE_TESTS=nightly` makes 10⁸ operations of it.
#[test]
fn dualpi2_is_the_pseudocode_of_the_rfc() {
    let mut sum = [0; 3];
    let all = share(100_000_000) / if tidegate_testbed::is_nightly() { 1 } else { 20 };
    for (n, scheduler) in [WEIGHTED, SHIFTED, Scheduler::Weighted { parts: 2 }].into_iter().enumerate() {
        let limit = Limit { packets: 200, bytes: Bytes::new(120_000) };
        let usual = Params { scheduler, limit, nqb: Nqb::LowLatency, ..Params::default() };
        let fast = Params { limit, step: Step::at(Span::from_millis(1)), ..params(scheduler) };
        for (m, params) in [usual, fast].into_iter().enumerate() {
            let counts = compare(params, (2 * n + m) as u64, all / 6);
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    println!("marked {}, dropped {}, both busy {}", sum[0], sum[1], sum[2]);
    assert!(sum.iter().all(|count| *count > all / 200), "{sum:?}");
}

/// Disciplines that give each flow a queue, with a step of 1 ms.
fn with_step() -> Vec<(&'static str, Box<dyn Qdisc<TestPacket>>)> {
    let step = Some(Step::at(Span::from_millis(1)));
    let rate = Rate::from_mbit(12);
    let class = ClassParams { step, ..ClassParams::new(rate) };
    let cake = cake::Params { rate: None, step, ..cake::Params::for_link(rate) };
    vec![
        ("drr", Box::new(Drr::new(drr::Params { step, ..drr::Params::default() }).unwrap())),
        ("fq-codel", Box::new(FqCodel::new(fq_codel::Params { step, ..fq_codel::Params::default() }).unwrap())),
        ("cake", Box::new(Cake::new(cake, 1, "cake").unwrap())),
        ("fbq", Box::new(Fbc::new(FbcParams::new(rate), vec![class], vec![], Instant::ZERO).unwrap())),
    ]
}

/// Two flows of ten packets of 1500 B at once, one of ECT(1) and one of ECT(0), on a line of 12 Mbit/s that takes 1 ms for
/// each.
#[test]
fn flow_queues_mark_scalable_flows_by_the_step() {
    for (name, mut qdisc) in with_step() {
        let mut out = Vec::new();
        for n in 0..20 {
            let ecn = if n % 2 == 0 { Ecn::Ect1 } else { Ecn::Ect0 };
            let packet = TestPacket { ecn, ..TestPacket::new(n, n % 2, 1_500) };
            qdisc.enqueue(Instant::ZERO, packet, &mut out);
        }
        let mut left = Vec::new();
        for ms in 0..=20 {
            left.extend(qdisc.dequeue(Instant::ZERO + Span::from_millis(ms), &mut out).map(|packet| (ms, packet)));
        }
        assert!(out.is_empty() && left.len() == 20, "{name}");
        for (ms, packet) in &left {
            let behind = left.iter().filter(|(_, other)| other.flow == packet.flow && other.id > packet.id).count();
            let marked = packet.flow.flow == 0 && *ms >= 1 && behind >= 2;
            let expected = if marked { Ecn::Ce } else { [Ecn::Ect1, Ecn::Ect0][packet.flow.flow as usize] };
            assert_eq!(packet.ecn, expected, "{name}: packet {} at {ms} ms, {behind} behind", packet.id);
        }
    }
}
