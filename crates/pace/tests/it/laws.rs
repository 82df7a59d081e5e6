//! The laws of pacing, over random sizes, delays, rates, pauses and clocks.

use proptest::prelude::*;
use tidegate_pace::*;
use tidegate_units::{Bytes, Credit, Instant, Rate, Span};

/// The events between two packets.
#[derive(Clone, Debug)]
struct Turn {
    size: u64,
    /// The duration of the send, in ns.
    cost: u64,
    /// How long the queue is empty before the packet, in ns; mostly zero.
    gap: u64,
    /// A change of the rate, in bit/s.
    rate: Option<u64>,
    /// A pause, in ns; supported by the pacer only.
    pause: Option<u64>,
}

fn turn() -> impl Strategy<Value = Turn> {
    let gap = prop_oneof![6 => Just(0_u64), 1 => 0..2_000_000_u64, 1 => 0..2_000_000_000_u64];
    let rate = prop_oneof![8 => Just(None), 1 => (8_000..10_000_000_000_u64).prop_map(Some)];
    let pause = prop_oneof![12 => Just(None), 1 => (0..500_000_000_u64).prop_map(Some)];
    (1..20_000_u64, 0..3_000_000_u64, gap, rate, pause).prop_map(|(size, cost, gap, rate, pause)| Turn {
        size,
        cost,
        gap,
        rate,
        pause,
    })
}

fn clock() -> impl Strategy<Value = VirtualClock> {
    let sleeping = prop_oneof![
        Just(Sleeping::Exact),
        (1..10_000_u64, 0..10_000_u64, 0..2_u32).prop_map(|(granularity, phase, extra)| Sleeping::Ticks {
            granularity: Span::from_micros(granularity),
            phase: Span::from_micros(phase),
            extra
        }),
    ];
    let latency = prop_oneof![
        Just(Latency::None),
        (0..100_u64).prop_map(|n| Latency::Fixed(Span::from_micros(n))),
        (0..5_000_u64, any::<u64>()).prop_map(|(n, seed)| Latency::Uniform(Span::from_micros(n), seed)),
    ];
    (sleeping, latency).prop_map(|(sleeping, latency)| VirtualClock::new(sleeping, latency))
}

/// A packet that was sent: the begin and the end of the send by the clock, its size, the credit that the rate had
/// earned when it began, and whether the queue had been empty before it.
#[derive(Clone, Copy, Debug)]
struct Sent {
    began: Instant,
    ended: Instant,
    size: Bytes,
    earned: Credit,
    gap: Span,
}

/// Runs `turns` and returns what was sent. The credit is integrated here, independently of the algorithm.
fn run(
    clock: &mut VirtualClock,
    algorithm: &mut dyn Algorithm,
    turns: &[Turn],
    mut pause: impl FnMut(&mut dyn Algorithm, &mut VirtualClock, Span) -> Option<Instant>,
) -> Vec<Sent> {
    let mut sent = Vec::new();
    let mut earned = Credit::ZERO;
    let (mut mark, mut rate) = (clock.now(), algorithm.rate());
    let mut due = mark;
    for turn in turns {
        if let Some(bps) = turn.rate {
            let now = clock.now();
            earned += rate.credit_in(now.since(mark));
            (mark, rate) = (now, Rate::from_bps(bps));
            due = algorithm.set_rate(now, rate).unwrap();
        }
        wait_until(clock, algorithm, due);
        if let Some(length) = turn.pause {
            let now = clock.now();
            if let Some(due) = pause(algorithm, clock, Span::from_nanos(length)) {
                earned += rate.credit_in(now.since(mark));
                mark = clock.now();
                wait_until(clock, algorithm, due);
            }
        }
        if turn.gap > 0 {
            let since = clock.now();
            clock.advance(Span::from_nanos(turn.gap));
            algorithm.refilled(since, clock.now());
        }
        let began = clock.now();
        earned += rate.credit_in(began.since(mark));
        mark = began;
        clock.advance(Span::from_nanos(turn.cost));
        let (ended, size) = (clock.now(), Bytes::new(turn.size));
        sent.push(Sent { began, ended, size, earned, gap: Span::from_nanos(turn.gap) });
        due = algorithm.next(ended, size);
    }
    sent
}

fn no_pause(_: &mut dyn Algorithm, _: &mut VirtualClock, _: Span) -> Option<Instant> {
    None
}

/// The bytes before each packet are within the credit earned when that packet is sent.
fn within_the_rate(sent: &[Sent]) -> Result<(), TestCaseError> {
    let mut before = Credit::ZERO;
    for packet in sent {
        prop_assert!(before <= packet.earned, "{packet:?} after {before:?}");
        before += Credit::of(packet.size);
    }
    Ok(())
}

/// No window of packets is faster than the cap.
fn within_the_cap(sent: &[Sent], rate: Rate, allowance: Bytes) -> Result<(), TestCaseError> {
    for (i, first) in sent.iter().enumerate() {
        let mut bytes = Credit::ZERO;
        for (last, previous) in sent[i..].iter().skip(1).zip(&sent[i..]) {
            bytes += Credit::of(previous.size);
            for (from, to) in [(first.began, last.began), (first.ended, last.ended)] {
                prop_assert!(bytes <= Credit::of(allowance) + rate.credit_in(to.since(from)), "{first:?} {last:?}");
            }
        }
    }
    Ok(())
}

fn gap_policy() -> impl Strategy<Value = GapPolicy> {
    (0..3, 0..500_u64).prop_map(|(kind, ms)| {
        let span = Span::from_millis(ms);
        match kind {
            0 => GapPolicy::Restart { after: span },
            1 => GapPolicy::CatchUp { within: span },
            _ => GapPolicy::DropLate { after: span },
        }
    })
}

fn spin() -> impl Strategy<Value = SpinBudget> {
    prop_oneof![Just(0_u16), Just(250), Just(1000)].prop_map(|permille| SpinBudget::permille(permille).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_papers_algorithms_stay_within_the_rate(
        turns in prop::collection::vec(turn(), 1..120),
        clock in clock(),
        bps in 8_000..10_000_000_000_u64,
    ) {
        for kind in [Kind::Dt0, Kind::Dt1, Kind::Dt2, Kind::At0, Kind::At1] {
            let mut clock = clock.clone();
            let mut algorithm = kind.build(Rate::from_bps(bps), clock.now()).unwrap();
            within_the_rate(&run(&mut clock, &mut algorithm, &turns, no_pause))?;
        }
    }

    #[test]
    fn resuming_forgives_nothing(
        turns in prop::collection::vec(turn(), 1..120),
        clock in clock(),
        bps in 8_000..10_000_000_000_u64,
    ) {
        // `resume` at any time, also with a debt, must not let a packet leave early.
        for kind in Kind::ALL {
            let mut clock = clock.clone();
            let mut algorithm = kind.build(Rate::from_bps(bps), clock.now()).unwrap();
            let mut due = clock.now();
            let (mut sent, start) = (Credit::ZERO, clock.now());
            for turn in &turns {
                if turn.pause.is_some() {
                    due = algorithm.resume(clock.now());
                }
                let now = wait_until(&mut clock, &mut algorithm, due);
                prop_assert!(sent <= Rate::from_bps(bps).credit_in(now.since(start)), "{kind}");
                sent += Credit::of(Bytes::new(turn.size));
                clock.advance(Span::from_nanos(turn.cost));
                due = algorithm.next(clock.now(), Bytes::new(turn.size));
            }
        }
    }

    #[test]
    fn a_cap_holds_in_every_window_on_any_algorithm(
        turns in prop::collection::vec(turn(), 1..80),
        clock in clock(),
        bps in 8_000..1_000_000_000_u64,
        percent in 100..1_000_u64,
        allowance in prop_oneof![Just(0_u64), 0..100_000_u64],
    ) {
        let cap = Rate::from_bps(bps * percent / 100);
        let allowance = Bytes::new(allowance);
        for kind in Kind::ALL {
            let mut clock = clock.clone();
            let start = clock.now();
            let inner = kind.build(Rate::from_bps(bps), start).unwrap();
            let mut capped = Capped::new(inner, BurstCap::new(cap, allowance, start).unwrap());
            let sent = run(&mut clock, &mut capped, &turns, no_pause);
            within_the_rate(&sent)?;
            within_the_cap(&sent, cap, allowance)?;
        }
    }

    #[test]
    fn the_pacer_stays_within_rate_and_cap(
        turns in prop::collection::vec(turn(), 1..80),
        clock in clock(),
        bps in 8_000..10_000_000_000_u64,
        gap in gap_policy(),
        spin in spin(),
        allowance in 0..100_000_u64,
    ) {
        // The highest rate of the script, so that the cap may stay fixed under all of them.
        let most = turns.iter().filter_map(|turn| turn.rate).fold(bps, u64::max);
        let (cap, allowance) = (Rate::from_bps(most + most / 4), Bytes::new(allowance));
        let params = Params { gap, spin, cap: Cap::Fixed { rate: cap, allowance }, ..Params::new(Rate::from_bps(bps)) };
        let mut clock = clock;
        // The pauses are the pacer's own here: accessed through a cell beside the trait object.
        let pacer = std::cell::RefCell::new(Pacer::new(params, clock.now()).unwrap());
        let mut shared = Shared(&pacer);
        let sent = run(&mut clock, &mut shared, &turns, |algorithm, clock, length| {
            pacer.borrow_mut().pause(clock.now());
            clock.advance(length);
            Some(algorithm.resume(clock.now()))
        });
        within_the_rate(&sent)?;
        within_the_cap(&sent, cap, allowance)?;
        let status = pacer.borrow().status(clock.now());
        prop_assert_eq!(status.packets, turns.len() as u64);
        prop_assert_eq!(status.bytes, sent.iter().map(|packet| packet.size).sum::<Bytes>());
    }

    #[test]
    fn after_a_gap_at1_and_a_restarting_pacer_never_catch_up(
        turns in prop::collection::vec(turn(), 1..120),
        clock in clock(),
        bps in 8_000..1_000_000_000_u64,
    ) {
        let turns: Vec<_> = turns.into_iter().map(|turn| Turn { rate: None, ..turn }).collect();
        let (rate, threshold) = (Rate::from_bps(bps), At1::THRESHOLD);
        let at1 = At1::new(rate, threshold, Instant::ZERO).unwrap();
        let pacer = Pacer::new(Params { cap: Cap::Off, ..Params::live(rate) }, Instant::ZERO).unwrap();
        let drops = Params { gap: GapPolicy::DropLate { after: threshold }, cap: Cap::Off, ..Params::new(rate) };
        let drops = Pacer::new(drops, Instant::ZERO).unwrap();
        for mut algorithm in [Box::new(at1) as Box<dyn Algorithm>, Box::new(pacer), Box::new(drops)] {
            let sent = run(&mut clock.clone(), &mut algorithm, &turns, no_pause);
            for (k, fresh) in sent.iter().enumerate().filter(|(_, packet)| packet.gap > threshold) {
                let mut bytes = Credit::ZERO;
                for packet in &sent[k..] {
                    let earned = rate.credit_in(packet.began.since(fresh.began));
                    prop_assert!(bytes <= earned, "{fresh:?} {packet:?}");
                    bytes += Credit::of(packet.size);
                }
            }
        }
    }

    #[test]
    fn absolute_schedules_never_drift(
        sizes in prop::collection::vec(1..100_000_u64, 1..500),
        bps in 1_000..100_000_000_000_u64,
        clock in clock(),
    ) {
        let mut clock = clock;
        for kind in [Kind::At0, Kind::At1] {
            let start = clock.now();
            let mut algorithm = kind.build(Rate::from_bps(bps), start).unwrap();
            let mut bytes = 0_u128;
            for size in &sizes {
                bytes += u128::from(*size);
                let due = algorithm.next(clock.now(), Bytes::new(*size));
                // start + 8e9 bits·ns of every byte over the rate, rounded up to a nanosecond.
                let exact = (bytes * 8_000_000_000).div_ceil(u128::from(bps)) as u64;
                prop_assert_eq!(due, start + Span::from_nanos(exact));
                wait_until(&mut clock, &mut algorithm, due);
            }
        }
    }

    #[test]
    fn the_pacer_stands_clock_steps_and_suspends(
        events in prop::collection::vec((0..3_000_000_000_u64, -20_000_000_000..20_000_000_000_i64), 0..8),
        suspends in prop::collection::vec((0..3_000_000_000_u64, 0..20_000_000_000_u64), 0..4),
        counts in any::<bool>(),
        clock in clock(),
        gap in gap_policy(),
        spin in spin(),
    ) {
        let suspend = if counts { SuspendClock::Counts } else { SuspendClock::Stops };
        let mut clock = clock.starting_at(Instant::ZERO + Span::from_secs(1_000)).with_suspend(suspend);
        for (at, nanos) in &events {
            clock.step_at(Span::from_nanos(*at), *nanos);
        }
        for (at, length) in &suspends {
            clock.suspend_at(Span::from_nanos(*at), Span::from_nanos(*length));
        }
        // 400 packets of 1000 bytes at 1 Mbit/s: 8 ms each, 3.2 s.
        let rate = Rate::from_mbit(1);
        let params = Params { gap, spin, cap: Cap::Off, ..Params::new(rate) };
        let mut pacer = Pacer::new(params, clock.now()).unwrap();
        let mut bytes = Credit::ZERO;
        // A step forward looks like elapsed time: it is made up for as far as the policy permits. Under DropLate,
        // packets are dropped instead.
        let (bound, drops) = match gap {
            GapPolicy::Restart { after } => (after, false),
            GapPolicy::CatchUp { within } => (within, false),
            GapPolicy::DropLate { after } => (after, true),
        };
        let forward = events.iter().filter(|(_, nanos)| *nanos > 0).count() + if counts { suspends.len() } else { 0 };
        // In addition, the packet that was owed at the time of the step.
        let most = rate.credit_in((bound + Span::from_millis(8)).saturating_mul(forward as u64));
        let mut handled = 0;
        while handled < 400 {
            let now = clock.now();
            match pacer.admit(now, Bytes::new(1000)) {
                Admission::Send => {
                    let earned = rate.credit_in(clock.elapsed());
                    prop_assert!(bytes <= earned + most, "at {:?}", clock.elapsed());
                    bytes += Credit::of(Bytes::new(1000));
                    pacer.next(now, Bytes::new(1000));
                    handled += 1;
                }
                Admission::Wait(due) => {
                    wait_until(&mut clock, &mut pacer, due);
                }
                Admission::Drop => handled += 1,
                Admission::Paused => unreachable!("it is not paused"),
            }
        }
        prop_assert!(drops || pacer.status(clock.now()).dropped == 0);
        // It is not delayed: a step costs at most the present sleep and the oversleep (15 + 10 ms) in addition to the
        // schedule; a tick clock oversleeps the last packet too.
        let slack = Span::from_millis(60).saturating_mul(2 + events.len() as u64 + suspends.len() as u64);
        let lost = if matches!(gap, GapPolicy::CatchUp { within } | GapPolicy::Restart { after: within } if within < Span::from_millis(60)) {
            // The bound is too short to keep oversleeps: each may cost 30 ms.
            Span::from_millis(30 * 400)
        } else {
            Span::ZERO
        };
        prop_assert!(clock.running() <= Span::from_millis(3_200) + slack + lost, "{:?}", clock.running());
    }
}

/// A pacer that the test can access during the run.
#[derive(Debug)]
struct Shared<'a>(&'a std::cell::RefCell<Pacer>);

impl Algorithm for Shared<'_> {
    fn next(&mut self, now: Instant, size: Bytes) -> Instant {
        self.0.borrow_mut().next(now, size)
    }
    fn woke(&mut self, now: Instant) -> Instant {
        self.0.borrow_mut().woke(now)
    }
    fn refilled(&mut self, since: Instant, now: Instant) {
        self.0.borrow_mut().refilled(since, now);
    }
    fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<Instant, ParamError> {
        self.0.borrow_mut().set_rate(now, rate)
    }
    fn rate(&self) -> Rate {
        self.0.borrow().rate()
    }
    fn resume(&mut self, now: Instant) -> Instant {
        self.0.borrow_mut().resume(now)
    }
    fn plan(&mut self, now: Instant, due: Instant) -> Wait {
        self.0.borrow_mut().plan(now, due)
    }
    fn waited(&mut self, wait: Wait, from: Instant, now: Instant) {
        self.0.borrow_mut().waited(wait, from, now);
    }
}
