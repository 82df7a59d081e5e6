//! WFQ and WF2Q+: the laws, the bound of Parekh and Gallager against GPS in rational arithmetic, and the worst-case fair
//! index of Bennett and Zhang.

use std::cmp::Ordering;

use tidegate_core::fifo::Limit;
use tidegate_core::random::Stream;
use tidegate_core::sessions::{By, Params};
use tidegate_core::wf2q::Wf2q;
use tidegate_core::wfq::Wfq;
use tidegate_core::{Accounted, Bytes, ClassId, Deadline, Instant, Packet, Qdisc, Rate, Span};
use tidegate_laws::{Report, Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

/// A byte takes 1000 ns: a unit of time in which the link sends a byte.
const LINK: Rate = Rate::from_mbit(8);
const UNIT: u64 = 1_000;

fn shapes() -> [Shape; 3] {
    [
        Shape::default(),
        Shape { flows: 300, enqueues: 140, ..Shape::default() },
        Shape { flows: 9, sizes: (1, 9_000), longest_wait: Span::from_secs(2), enqueues: 120, ..Shape::default() },
    ]
}

fn laws<Q: Qdisc<TestPacket>>(fresh: impl Fn(Params) -> Q) {
    let limit = Limit { packets: 30, bytes: Bytes::new(20_000) };
    for shape in shapes() {
        for lead in [Span::ZERO, Span::from_millis(3)] {
            let by = [By::Flows, By::Classes { weights: vec![5, 1], default: Some(ClassId(1)) }];
            for by in by {
                let params = || Params { link: LINK, lead, by: by.clone(), limit };
                let report: Report = check_seeds(|| Accounted::new(fresh(params())), &shape, share(50), 2_000);
                assert!(report.dropped > share(1_000) && report.dequeued > share(5_000), "{report:?}");
                assert!(report.deadlines > share(1_000) && report.backwards > share(100), "{report:?}");
            }
        }
    }
}

#[test]
fn wfq_obeys_the_laws() {
    laws(|params| Wfq::new(params).unwrap());
}

#[test]
fn wf2q_obeys_the_laws() {
    laws(|params| Wf2q::new(params).unwrap());
}

/// An exact fraction. Panics when it does not fit: the busy periods below are short enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ratio(i128, i128);

impl Ratio {
    fn new(n: i128, d: i128) -> Self {
        let (mut a, mut b) = (n.abs(), d);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Self(n / a.max(1), d / a.max(1))
    }
    fn whole(n: u64) -> Self {
        Self(n.into(), 1)
    }
    fn plus(self, other: Self) -> Self {
        let times = |a: i128, b: i128| a.checked_mul(b).expect("it fits");
        Self::new(times(self.0, other.1) + times(other.0, self.1), times(self.1, other.1))
    }
    fn minus(self, other: Self) -> Self {
        self.plus(Self(-other.0, other.1))
    }
    fn times(self, n: u64, d: u64) -> Self {
        Self::new(self.0.checked_mul(n.into()).expect("it fits"), self.1.checked_mul(d.into()).expect("it fits"))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let difference = self.minus(*other);
        Some(difference.0.cmp(&0))
    }
}

/// Generalized processor sharing of one busy period: for each arrival (time, session, bytes), in order of time, when its
/// last bit leaves. Times in units.
fn gps(weights: &[u64], arrivals: &[(u64, usize, u64)]) -> Vec<Ratio> {
    let mut finish = vec![Ratio(0, 1); arrivals.len()];
    // Per session the packets by number, and what remains of the first.
    let mut queues: Vec<std::collections::VecDeque<(usize, Ratio)>> = vec![Default::default(); weights.len()];
    let mut now = Ratio(0, 1);
    let mut next = 0;
    loop {
        let busy: u64 = (0..weights.len()).filter(|s| !queues[*s].is_empty()).map(|s| weights[s]).sum();
        // The first packet to finish if nothing arrives.
        let ends = |s: usize| queues[s].front().map(|(_, left)| left.times(busy, weights[s]));
        let first =
            (0..weights.len()).filter_map(|s| ends(s).map(|end| (s, end))).reduce(|a, b| if b.1 < a.1 { b } else { a });
        let arrival = arrivals.get(next).map(|(at, ..)| Ratio::whole(*at).minus(now));
        let (step, arrives) = match (first, arrival) {
            (None, None) => return finish,
            (Some((_, end)), Some(arrival)) if end <= arrival => (end, false),
            (Some((_, end)), None) => (end, false),
            (_, Some(arrival)) => (arrival, true),
        };
        now = now.plus(step);
        for (s, queue) in queues.iter_mut().enumerate() {
            if let Some((_, left)) = queue.front_mut() {
                *left = left.minus(step.times(weights[s], busy));
            }
        }
        if arrives {
            let (_, session, size) = arrivals[next];
            queues[session].push_back((next, Ratio::whole(size)));
            next += 1;
        } else if let Some((s, _)) = first
            && let Some((packet, _)) = queues[s].pop_front()
        {
            finish[packet] = now;
        }
    }
}

/// Theorem 1 of Parekh and Gallager: no packet leaves the link more than Lmax/r after GPS has finished it.
#[test]
fn a_packet_leaves_at_most_one_largest_packet_after_gps() {
    let weights = [1_u64, 2, 3, 1];
    let mut random = Stream::named(1, "gps");
    let (mut packets, mut late, mut latest) = (0_u64, 0_u64, 0.0_f64);
    for _ in 0..3_000 {
        let mut arrivals: Vec<(u64, usize, u64)> = Vec::new();
        let mut at = 0;
        for _ in 0..4 {
            for _ in 0..=random.below(5) {
                let size = [100, 1 + random.below(1_500), 1_500][random.below(3) as usize];
                arrivals.push((at, random.below(4) as usize, size));
            }
            at += random.below(3_000);
        }
        let expected = gps(&weights, &arrivals);
        let largest = arrivals.iter().map(|arrival| arrival.2).max().unwrap_or(0);
        let params = Params { limit: Limit::NONE, ..Params::classes(LINK, weights.map(|weight| weight as u32).into()) };
        let mut wfq = Wfq::new(params).unwrap();
        let at = |units: u64| Instant::from_nanos(units * UNIT);
        let mut next = 0;
        loop {
            // Departures before the next arrival, then that.
            let due = wfq.deadline(Instant::ZERO).instant(Instant::ZERO);
            let arrival = arrivals.get(next).map(|arrival| at(arrival.0));
            match (due, arrival) {
                (None, None) => break,
                (Some(due), arrival) if arrival.is_none_or(|arrival| due < arrival) => {
                    let packet: TestPacket = wfq.dequeue(due, &mut vec![]).expect("the deadline is exact");
                    let left = due.as_nanos() / UNIT + packet.size().as_u64();
                    let gps = expected[packet.id as usize];
                    assert!(Ratio::whole(left) <= gps.plus(Ratio::whole(largest)), "{packet:?} {left} {gps:?}");
                    let behind = left as f64 - gps.0 as f64 / gps.1 as f64;
                    (packets, late) = (packets + 1, late + u64::from(behind > 0.0));
                    latest = latest.max(behind / largest as f64);
                }
                (_, arrival) => {
                    let (_, session, size) = arrivals[next];
                    let packet = TestPacket::new(next as u64, session as u64, size).in_class(session as u32);
                    wfq.enqueue(arrival.expect("there is one"), packet, &mut vec![]);
                    next += 1;
                }
            }
        }
    }
    // The scripts come near to the bound, and many packets are later than under GPS.
    assert!(packets > 20_000 && late > 1_000 && latest > 0.9, "{packets} {late} {latest}");
}

/// Returns the most by which a session of weight `w` of `all` is short of its part when a packet of it has left, since any moment from
/// which on it was backlogged (definition 2 of the paper): in bytes times the weight of all.
fn worst_case_index<Q: Qdisc<TestPacket>>(mut queue: Q, weights: &[u64], seed: u64) -> Vec<i128> {
    let all: i128 = weights.iter().map(|weight| i128::from(*weight)).sum();
    let mut random = Stream::named(seed, "index");
    let mut now = Instant::ZERO;
    let mut backlog = vec![0_u64; weights.len()];
    // w/W of all service less its own since some moment: now, its least in the backlogged period, and the largest rise.
    let (mut level, mut least, mut worst) =
        (vec![0_i128; weights.len()], vec![0; weights.len()], vec![0; weights.len()]);
    for id in 0..30_000_u64 {
        // Phases in which only some sessions send.
        let phase = id / 300 % 4;
        let session = random.below(weights.len() as u64) as usize;
        if session as u64 % 4 >= phase && backlog[session] < 40 {
            let size = [60, 1 + random.below(1_500), 1_500][random.below(3) as usize];
            let packet = TestPacket::new(id, session as u64, size).in_class(session as u32);
            queue.enqueue(now, packet, &mut vec![]);
            if backlog[session] == 0 {
                least[session] = level[session];
            }
            backlog[session] += 1;
        }
        if random.below(2) == 0 {
            continue;
        }
        if let Deadline::At(time) = queue.deadline(now) {
            now = time;
        }
        let Some(packet) = queue.dequeue(now, &mut vec![]) else { continue };
        let size = i128::from(packet.size().as_u64());
        for session in 0..weights.len() {
            level[session] += size * i128::from(weights[session]);
            if packet.class.0 as usize == session {
                level[session] -= size * all;
                backlog[session] -= 1;
                worst[session] = worst[session].max(level[session] - least[session]);
            }
            least[session] = least[session].min(level[session]);
        }
        now += Span::from_nanos(packet.size().as_u64() * UNIT);
    }
    worst
}

/// Bennett and Zhang (1996), theorem 4: the bit worst-case fair index is L + (Lmax - L) w/W, here with L = Lmax = 1500 B.
#[test]
fn wf2q_is_worst_case_fair() {
    let weights = [10_u64, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let params = || {
        let weights = weights.iter().map(|weight| *weight as u32).collect();
        Params { limit: Limit::NONE, ..Params::classes(LINK, weights) }
    };
    let all: i128 = weights.iter().map(|weight| i128::from(*weight)).sum();
    let mut most = 0;
    for seed in 0..10 {
        let worst = worst_case_index(Wf2q::new(params()).unwrap(), &weights, seed);
        assert!(worst.iter().all(|worst| *worst <= 1_500 * all), "{worst:?}");
        most = most.max(worst.into_iter().max().unwrap_or(0));
    }
    assert!(most > 1_200 * all, "the scripts come near to the bound: {most}");
}

/// The example of section III of the paper: half of the link for one session, a twentieth for each of ten. WFQ sends ten
/// packets of the first before any other, and then none of it until all others have sent; WF2Q+ alternates (the example
/// of its manual).
#[test]
fn wfq_sends_a_heavy_session_ahead() {
    let weights = vec![10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let mut queue = Wfq::new(Params::classes(LINK, weights)).unwrap();
    (0..11).for_each(|id| queue.enqueue(Instant::ZERO, TestPacket::new(id, 0, 1_000), &mut vec![]));
    for class in 1..11 {
        queue.enqueue(Instant::ZERO, TestPacket::new(11, 1, 1_000).in_class(class), &mut vec![]);
    }
    let at = |ms| Instant::ZERO + Span::from_millis(ms);
    let order: Vec<_> = (0..21).map(|ms| queue.dequeue(at(ms), &mut vec![]).unwrap().class.0).collect();
    assert_eq!(order[..10], [0; 10]);
    assert_eq!(order[10..].iter().filter(|class| **class == 0).count(), 1);
}

/// A flow that lets its queue run empty and comes back is charged for what it had, and gains nothing by it.
#[test]
fn a_flow_that_comes_and_goes_gets_no_more() {
    fn served<Q: Qdisc<TestPacket>>(mut queue: Q) -> [u64; 2] {
        let mut sent = [0; 2];
        let mut now = Instant::ZERO;
        let mut inside = [0_u64; 2];
        for id in 0..20_000 {
            // Flow 0 always has packets; flow 1 sends the next one when its last has left.
            while inside[0] < 4 {
                queue.enqueue(now, TestPacket::new(id, 0, 1_000), &mut vec![]);
                inside[0] += 1;
            }
            if inside[1] == 0 {
                queue.enqueue(now, TestPacket::new(id, 1, 1_000), &mut vec![]);
                inside[1] += 1;
            }
            now = queue.deadline(now).instant(now).unwrap_or(now);
            let packet = queue.dequeue(now, &mut vec![]).expect("there are some");
            sent[packet.flow.flow as usize] += 1;
            inside[packet.flow.flow as usize] -= 1;
        }
        sent
    }
    for sent in [served(Wfq::new(Params::flows(LINK)).unwrap()), served(Wf2q::new(Params::flows(LINK)).unwrap())] {
        assert!(sent[0].abs_diff(sent[1]) <= 2, "{sent:?}");
    }
}
