//! Worked numbers of RFC 9332.

use super::*;
use crate::packet::FlowKey;
use crate::qdisc::Discard;
use alloc::vec::Vec;
use tidegate_units::Bytes;

#[derive(Clone, Copy, Debug, PartialEq)]
struct P {
    flow: u64,
    ecn: Ecn,
    dscp: Dscp,
    size: u64,
}

impl Packet for P {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
    fn flow(&self) -> FlowKey {
        FlowKey::numbered(self.flow)
    }
    crate::packet_fields!(ecn, mark_ce, dscp);
}

fn packet(flow: u64, ecn: Ecn) -> P {
    P { flow, ecn, dscp: Dscp::BEST_EFFORT, size: 1_000 }
}

fn at(us: u64) -> Instant {
    Instant::ZERO + Span::from_micros(us)
}

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

fn part(p: u64) -> f64 {
    p as f64 / ONE as f64
}

fn near(ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() < 1e-12, "{ours} {theirs}");
}

#[test]
fn one_update_by_hand() {
    let params = Params::default();
    let mut state = State::new(&params);
    // 20 ms after 0: 0.16 * (0.020 - 0.015) + 3.2 * 0.020 = 0.0008 + 0.064.
    state.update(&params, ms(20));
    near(part(state.base()), 0.064_8);
    // 30 ms after 20: + 0.16 * 0.015 + 3.2 * 0.010 = 0.0024 + 0.032.
    state.update(&params, ms(30));
    near(part(state.base()), 0.099_2);
    // C signals by the square, L by twice: 0.00984064 and 0.1984.
    near(part(state.squared()), 0.009_840_64);
    near(part(state.coupled(&params)), 0.198_4);
    // 10 ms after 30: + 0.16 * -0.005 + 3.2 * -0.020 = -0.0648.
    state.update(&params, ms(10));
    near(part(state.base()), 0.034_4);
    // Empty: - 0.16 * 0.015 - 3.2 * 0.010 = -0.0344, and not below 0 after it.
    state.update(&params, ms(0));
    near(part(state.base()), 0.0);
    state.update(&params, ms(0));
    assert_eq!(state.base(), 0);
    state.update(&params, ms(2_000));
    assert_eq!((state.base(), state.squared(), state.coupled(&params)), (ONE, ONE, ONE), "at most 1");
}

/// A queue with p' = `delay` times 3.2 less 0.0024 and a third of alpha's part, as `one_update_by_hand`.
fn state_with(delay: Span) -> State {
    let params = Params::default();
    let mut state = State::new(&params);
    state.update(&params, delay);
    state
}

#[test]
fn signals_recur_by_the_likelihood() {
    let params = Params::default();
    // p' = 0.16 * 0.060 + 3.2 * 0.075 = 0.2496; k p' = 0.4992; p'^2 = 0.06230016.
    let mut state = state_with(ms(75));
    let low = (0..10_000).filter(|_| state.low_latency(&params, 0, true) == Action::Signal).count();
    let classic = (0..10_000).filter(|_| state.classic(&params) == Action::Signal).count();
    assert_eq!((low, classic), (4_992, 623));
    // The step marks more than the coupling does, not in addition.
    let low = (0..1_000).filter(|_| state.low_latency(&params, ONE / 4 * 3, true) == Action::Signal).count();
    assert_eq!(low, 750);
    assert!((0..100).all(|_| state.low_latency(&params, ONE, true) == Action::Signal), "beyond the step all are");
    // A sender that is not scalable gets neither.
    assert!((0..100).all(|_| state.low_latency(&params, ONE, false) == Action::Send));
}

#[test]
fn overload_drops_in_both_queues() {
    let params = Params::default();
    // p' = 0.16 * 0.145 + 3.2 * 0.160 = 0.5352: k p' exceeds 1; p'^2 = 0.28643904.
    let mut state = state_with(ms(160));
    assert!(state.is_overloaded(&params));
    let count = |state: &mut State, scalable| {
        let actions: Vec<_> = (0..10_000).map(|_| state.low_latency(&params, 0, scalable)).collect();
        [Action::Drop, Action::Signal, Action::Send].map(|wanted| actions.iter().filter(|a| **a == wanted).count())
    };
    // What is not dropped is marked, if its sender is scalable.
    assert_eq!(count(&mut state, true), [2_864, 7_136, 0]);
    let [dropped, marked, _] = count(&mut state, false);
    assert_eq!((dropped, marked), (2_864, 0));
    let classic: Vec<_> = (0..10_000).map(|_| state.classic(&params)).collect();
    assert_eq!(classic.iter().filter(|action| **action == Action::Drop).count(), 2_864);
    assert!(!classic.contains(&Action::Signal), "overload disables ECN");
    // Just below: p' = 0.16 * 0.134 + 3.2 * 0.149 = 0.49824, twice that is 0.99648.
    assert!(!state_with(ms(149)).is_overloaded(&params));
}

#[test]
fn the_time_shifted_fifo_lets_the_older_go() {
    let params = Params { scheduler: Scheduler::TimeShifted { shift: ms(50) }, ..Params::default() };
    let state = State::new(&params);
    let head = |us| Some(Head { arrived: at(us), size: Bytes::new(1_000), sanctioned: false });
    assert!(state.chooses_low(&params, head(50_000), head(0)), "50 ms younger counts as old");
    assert!(!state.chooses_low(&params, head(50_001), head(0)));
    assert!(state.chooses_low(&params, head(9), None) && !state.chooses_low(&params, None, head(9)));
    // A packet under sanction leaves after the packets of L that arrived before it.
    let sanctioned = |us| head(us).map(|head| Head { sanctioned: true, ..head });
    let weighted = Params { scheduler: Scheduler::Weighted { parts: 2 }, ..params };
    let mut state = State::new(&weighted);
    state.took(&weighted, true, Bytes::new(9_000), true);
    assert!(!state.chooses_low(&weighted, head(5), head(5)));
    assert!(state.chooses_low(&weighted, head(5), sanctioned(5)));
    assert!(!state.chooses_low(&weighted, head(6), sanctioned(5)));
}

#[test]
fn c_leaves_as_soon_as_l_has_sent_its_parts() {
    let params = Params::default();
    let mut state = State::new(&params);
    let head = Some(Head { arrived: at(0), size: Bytes::new(1_000), sanctioned: false });
    // One part of 16 for C: after 15 packets of L.
    let turns: Vec<_> = (0..33)
        .map(|_| {
            let from_low = state.chooses_low(&params, head, head);
            state.took(&params, from_low, Bytes::new(1_000), true);
            from_low
        })
        .collect();
    assert!(turns.iter().enumerate().all(|(n, from_low)| *from_low == (n % 16 != 15)), "{turns:?}");
}

#[test]
fn the_weighted_scheduler_gives_c_its_part() {
    for (parts, size) in [(16, 1_000), (2, 300), (10, 1_500)] {
        let params = Params {
            scheduler: Scheduler::Weighted { parts },
            step: Step::at(Span::from_secs(9)),
            limit: Limit::NONE,
            ..Params::default()
        };
        let mut queue = DualPi2::new(params).unwrap();
        for _ in 0..4_000 {
            queue.enqueue(at(0), packet(1, Ecn::Ect1), &mut Discard);
            queue.enqueue(at(0), P { size, ..packet(2, Ecn::NotEct) }, &mut Discard);
        }
        let mut sent = [0_u64; 3];
        for _ in 0..4_000 {
            let packet = queue.dequeue(at(1), &mut Discard).unwrap();
            sent[packet.flow as usize] += packet.size;
            // C is behind by less than what L sends for one packet of each.
            let owed = (sent[1] / (u64::from(parts) - 1)) as i64 - sent[2] as i64;
            assert!((-(size as i64)..=size as i64 + 1_000).contains(&owed), "{sent:?}");
        }
    }
}

#[test]
fn code_points_select_the_queue_and_are_kept() {
    let mut queue = DualPi2::new(Params::default()).unwrap();
    let nqb = P { dscp: Dscp::NQB, ..packet(9, Ecn::NotEct) };
    for (n, ecn) in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce].into_iter().enumerate() {
        queue.enqueue(at(0), packet(n as u64, ecn), &mut Discard);
    }
    queue.enqueue(at(0), nqb, &mut Discard);
    assert_eq!(queue.queues().map(|backlog| backlog.packets), [3, 2, 0]);
    let left: Vec<_> = core::iter::from_fn(|| queue.dequeue(at(0), &mut Discard)).collect();
    assert_eq!(
        left.iter().map(|p| (p.flow, p.ecn)).collect::<Vec<_>>(),
        [(1, Ecn::Ect1), (3, Ecn::Ce), (9, Ecn::NotEct), (0, Ecn::NotEct), (2, Ecn::Ect0)]
    );
    assert_eq!(left[2], nqb);
    let mut queue = DualPi2::new(Params { nqb: Nqb::ByEcn, ..Params::default() }).unwrap();
    queue.enqueue(at(0), nqb, &mut Discard);
    assert_eq!(queue.queues().map(|backlog| backlog.packets), [0, 1, 0]);
}

#[test]
fn the_step_marks_what_waited_in_l() {
    let mut queue = DualPi2::new(Params { step: Step::at(ms(1)), ..Params::default() }).unwrap();
    for _ in 0..5 {
        queue.enqueue(at(0), packet(1, Ecn::Ect1), &mut Discard);
    }
    let mut marked = |us| queue.dequeue(at(us), &mut Discard).unwrap().ecn == Ecn::Ce;
    // The last two leave fewer than two packets behind them.
    assert_eq!([999, 1_000, 1_000, 5_000, 5_000].map(&mut marked), [false, true, true, false, false]);
    assert_eq!(queue.stats()[0].marked, 2);
}

#[test]
fn marks_are_events_and_the_limit_holds_for_both() {
    struct Events(Vec<Event>, usize);
    impl Outlet<P> for Events {
        fn dropped(&mut self, _packet: P, reason: DropReason) {
            assert_eq!(reason, DropReason::QueueLimit);
            self.1 += 1;
        }
        fn event(&mut self, event: Event) {
            self.0.push(event);
        }
    }
    let mut out = Events(Vec::new(), 0);
    let params = Params { limit: Limit::packets(4), step: Step::at(ms(1)), ..Params::default() };
    let mut queue = DualPi2::new(params).unwrap();
    for (flow, ecn) in
        [(1, Ecn::Ect1), (1, Ecn::Ect1), (1, Ecn::Ect1), (2, Ecn::NotEct), (3, Ecn::Ect1), (3, Ecn::Ect0)]
    {
        queue.enqueue(at(0), packet(flow, ecn), &mut out);
    }
    assert_eq!(out.1, 2);
    assert_eq!(queue.dequeue(at(2_000), &mut out).unwrap().ecn, Ecn::Ce);
    assert_eq!(out.0, [Event::Marked { flow: 1 }]);
}

/// 10 Mbit/s offered to 8 Mbit/s, without a reaction. Returns the mean delay in ms and the share that was dropped, later than
/// 30 s.
fn overloaded(ecn: Ecn) -> (f64, f64) {
    let mut queue = DualPi2::new(Params::default()).unwrap();
    let mut out = Vec::new();
    let (mut delays, mut late_drops) = (Vec::new(), 0);
    for tick in 0..600_000_u64 {
        let now = at(tick * 100);
        if tick % 8 == 0 {
            queue.enqueue(now, packet(tick, ecn), &mut out);
        }
        if tick % 10 == 0
            && let Some(packet) = queue.dequeue(now, &mut out)
            && tick > 300_000
        {
            delays.push((tick - packet.flow) as f64 * 0.1);
        }
        late_drops += if tick > 300_000 { out.len() } else { 0 };
        out.clear();
    }
    (delays.iter().sum::<f64>() / delays.len() as f64, late_drops as f64 / 37_500.0)
}

#[test]
fn holds_the_delay_at_its_target_under_overload() {
    // A fifth must be dropped: of C by p'^2 = 0.2, p' = 0.447, where ECN is not in the way; where it is, by overload,
    // and of L by overload too, for which p' rises to 0.5 and no higher: 0.25 are more than enough.
    let (delay, dropped) = overloaded(Ecn::NotEct);
    assert!((13.0..17.0).contains(&delay) && (0.195..0.205).contains(&dropped), "{delay} ms, {dropped}");
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        let (delay, dropped) = overloaded(ecn);
        assert!((10.0..20.0).contains(&delay) && (0.195..0.205).contains(&dropped), "{ecn:?}: {delay} ms, {dropped}");
    }
}

#[test]
fn updates_made_up_for_are_updates_made_in_time() {
    let run = |poke_ms: u64, quiet: u64, params: Params| {
        let mut queue = DualPi2::new(params).unwrap();
        for n in 0..4_000_u64 {
            let now = Instant::ZERO + ms(n);
            if n < 2_000 {
                queue.enqueue(now, packet(n, Ecn::NotEct), &mut Discard);
                queue.dequeue(now, &mut Discard);
                if n % 4 == 0 {
                    queue.enqueue(now, packet(n, Ecn::Ect1), &mut Discard);
                }
            } else if n == 2_000 {
                while queue.dequeue(now, &mut Discard).is_some() {}
            } else if n % poke_ms == 0 {
                queue.catch_up(now);
            }
        }
        queue.catch_up(Instant::ZERO + ms(4_000 + quiet));
        *queue.state()
    };
    assert_eq!(run(1, 0, Params::default()), run(1_000, 0, Params::default()));
    // So slow that 1,024 updates do not empty it: each takes off 0.001 * 0.015, of which one can be computed from the other.
    let slow = Params { alpha: 1, update: ms(1), ..Params::default() };
    assert_eq!(run(1, 5_000, slow), run(1_999, 5_000, slow));
}

#[test]
fn a_queue_that_nobody_asks_reaches_the_end_of_its_probability() {
    let params = Params::default();
    let run = |step: u64| {
        let mut state = State::new(&params);
        (step..=60_000)
            .step_by(step as usize)
            .for_each(|n| state.catch_up(&params, Instant::ZERO + ms(n), Some(at(0))));
        state
    };
    assert_eq!(run(1), run(60_000));
}

#[test]
fn a_flow_under_sanction_moves_as_a_whole() {
    let params = Params {
        protection: Some(protection::Params::default()),
        step: Step::at(ms(1)),
        limit: Limit::NONE,
        ..Params::default()
    };
    let mut queue = DualPi2::new(params).unwrap();
    // A flow of 20 packets a millisecond, beside one of a packet each ten, of which ten leave a millisecond.
    let mut polite = Vec::new();
    for n in 0..1_000 {
        let now = Instant::ZERO + ms(n);
        for _ in 0..20 {
            queue.enqueue(now, packet(1, Ecn::Ect1), &mut Discard);
        }
        if n % 10 == 0 {
            queue.enqueue(now, packet(1_000 + n, Ecn::Ect1), &mut Discard);
        }
        for _ in 0..10 {
            let left = queue.dequeue(now, &mut Discard).unwrap();
            if left.flow != 1 {
                polite.push(n - (left.flow - 1_000));
            }
        }
    }
    assert!(queue.stats()[2].enqueued > 10_000, "{:?}", queue.stats());
    // The polite flow leaves at once from the second packet on. It loses what overload takes of both queues: half of all.
    assert!(polite.len() >= 40 && polite[1..].iter().all(|delay| *delay == 0), "{polite:?}");
}

/// Collects the events of sanctions.
#[derive(Default)]
struct Sanctions(Vec<Event>);

impl Outlet<P> for Sanctions {
    fn dropped(&mut self, _packet: P, _reason: DropReason) {}
    fn event(&mut self, event: Event) {
        if !matches!(event, Event::Marked { .. }) {
            self.0.push(event);
        }
    }
}

#[test]
fn each_queue_has_its_state_and_who_is_under_sanction_is_known() {
    let params = Params { protection: Some(protection::Params::default()), alpha: 0, beta: 0, ..Params::default() };
    let mut queue = DualPi2::new(params).unwrap();
    let mut out = Sanctions::default();
    let class = ClassId(0);
    assert_eq!(queue.coupled(class, at(0)), Some(Coupled::default()));
    // Nine packets of the flow 7 wait for 3 ms in L, so that its next two are under sanction; one of the flow 8 waits in C.
    for _ in 0..9 {
        queue.enqueue(at(0), packet(7, Ecn::Ect1), &mut out);
    }
    queue.enqueue(at(1_000), packet(8, Ecn::NotEct), &mut out);
    assert_eq!(out.0, []);
    for _ in 0..2 {
        queue.enqueue(at(3_000), packet(7, Ecn::Ect1), &mut out);
    }
    assert_eq!(out.0, [Event::Sanctioned { flow: 7, class }]);
    let state = queue.coupled(class, at(4_000)).unwrap();
    let waits = |state: QueueState| (state.backlog.packets, state.delay, state.stats.enqueued);
    assert_eq!([state.low, state.classic, state.sanctioned].map(waits), [(9, ms(4), 9), (1, ms(3), 1), (2, ms(1), 2)]);
    assert_eq!(state.flows, [7]);
    while queue.dequeue(at(5_000), &mut out).is_some() {}
    assert_eq!(out.0[1..], [Event::Released { flow: 7, class }]);
    let state = queue.coupled(class, at(9_000)).unwrap();
    // All packets of L were marked but the last two; nobody marks the others without a probability.
    let stats = |queue: QueueState| {
        (queue.backlog.packets, queue.delay, queue.stats.sent, queue.stats.waited, queue.stats.marked)
    };
    assert_eq!(
        [state.low, state.classic, state.sanctioned].map(stats),
        [(0, ms(0), 9, ms(45), 7), (0, ms(0), 1, ms(4), 0), (0, ms(0), 2, ms(4), 0)]
    );
    assert_eq!(state.flows, []);
}

#[test]
fn the_probabilities_of_both_queues_are_those_of_the_controller() {
    // One update of 16 ms later than the target, from nothing: alpha (31 - 15) ms + beta 31 ms = 0.00256 + 0.0992.
    let mut queue = DualPi2::new(Params { update: ms(31), ..Params::default() }).unwrap();
    queue.enqueue(at(0), packet(1, Ecn::NotEct), &mut Discard);
    queue.catch_up(at(31_000));
    let state = queue.coupled(ClassId(0), at(31_000)).unwrap();
    let is_about = |probability: Probability, wanted: f64| (probability.as_f64() - wanted).abs() < 1e-9;
    assert!(is_about(state.coupled, 0.203_52) && is_about(state.squared, 0.101_76 * 0.101_76), "{state:?}");
}

#[test]
fn a_flow_comes_back_when_its_score_has_aged() {
    let params = Params {
        protection: Some(protection::Params::default()),
        step: Step::at(ms(1)),
        limit: Limit::NONE,
        scheduler: Scheduler::Weighted { parts: 1_000 },
        // No probability: this is about the turns.
        alpha: 0,
        beta: 0,
        ..Params::default()
    };
    let mut queue = DualPi2::new(params).unwrap();
    // A burst of 40 packets, of which one leaves a millisecond; those that come later than 1 ms are under sanction.
    for _ in 0..20 {
        queue.enqueue(at(0), packet(1, Ecn::Ect1), &mut Discard);
    }
    for _ in 0..20 {
        queue.enqueue(at(2_000), packet(1, Ecn::Ect1), &mut Discard);
    }
    for _ in 0..20 {
        queue.enqueue(at(2_500), packet(2, Ecn::NotEct), &mut Discard);
    }
    let waiting = queue.queues().map(|backlog| backlog.packets);
    assert!(waiting[2] > 10 && waiting[0] + waiting[2] == 40, "{waiting:?}");
    // L first; then C and S by their arrival.
    for n in 0..waiting[0] {
        queue.dequeue(at(3_000 + n), &mut Discard);
    }
    assert_eq!(queue.queues()[0].packets, 0);
    assert_eq!(queue.dequeue(at(4_000), &mut Discard).map(|packet| packet.flow), Some(1), "S is older than C");
    let before = queue.queues().map(|backlog| backlog.packets);
    // Its score is at most 5 s. Then S precedes C, and is marked as L would be: all packets that leave two behind them.
    let marked = queue.stats()[2].marked;
    for n in 0..before[2] {
        assert_eq!(queue.dequeue(at(6_000_000 + n), &mut Discard).map(|packet| packet.flow), Some(1));
    }
    assert_eq!(queue.stats()[2].marked - marked, before[2] - 2);
    queue.enqueue(at(6_001_000), packet(1, Ecn::Ect1), &mut Discard);
    assert_eq!(queue.queues().map(|backlog| backlog.packets > 0), [true, before[1] > 0, false]);
}

#[test]
fn wrong_parameters_name_the_field() {
    let field = |params: Params| params.validate().unwrap_err().field;
    let usual = Params::default();
    assert_eq!(field(Params { target: Span::ZERO, ..usual }), "target");
    assert_eq!(field(Params { update: Span::ZERO, ..usual }), "update");
    assert_eq!(field(Params { alpha: 100_001, ..usual }), "alpha");
    assert_eq!(field(Params { beta: 100_001, ..usual }), "beta");
    assert_eq!(field(Params { coupling: 0, ..usual }), "coupling");
    assert_eq!(field(Params { scheduler: Scheduler::Weighted { parts: 1 }, ..usual }), "classic_parts");
    let protection = protection::Params { critical: Span::ZERO, ..protection::Params::default() };
    assert_eq!(field(Params { protection: Some(protection), ..usual }), "critical");
}
