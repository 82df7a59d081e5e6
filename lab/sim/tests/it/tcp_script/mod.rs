//! TCP on a scripted wire: what the RFCs prescribe, one behaviour a test.
//!
//! The wire has a delay of 50 ms and no rate, so that each round trip takes 100 ms and a window leaves at once.
//! Segments are of 1000 bytes; the handshake takes the first 100 ms.

mod recovery;

use crate::wire::{self, DELAY, Fate, Wire};
use tidegate_core::random::Stream;
use tidegate_core::{Instant, Rate, Span};
use tidegate_sim::tcp::{
    Ack, Algorithm, Config, CongestionControl, CongestionSignal, EcnUse, Endpoint, Flags, Recovery, RtoBounds, Segment,
    State, Vintage,
};

fn config(recovery: Recovery) -> Config {
    Config { mss: 1000, recovery, delayed_ack: None, ..Config::default() }
}

/// A transfer of `segments` segments over a wire that drops the data segments `lost`.
fn transfer(config: Config, segments: u64, lost: &'static [usize]) -> Wire<impl FnMut(usize, usize, &Segment) -> Fate> {
    wire::transfer(config, segments, |number| if lost.contains(&number) { Fate::Drop } else { Fate::Pass })
}

const EVERY: [Recovery; 3] = [Recovery::Reno, Recovery::NewReno, Recovery::Sack];

#[test]
fn slow_start_doubles_and_the_handshake_takes_a_round_trip() {
    let wire = transfer(config(Recovery::Sack), 150, &[]);
    // Nothing in the first round (SYN); then 10, 20, 40 and the rest, each 100 ms.
    assert_eq!(wire.per_round(), [0, 10, 20, 40, 80]);
    assert_eq!(wire.ends[0].established_at(), Some(Instant::ZERO + Span::from_millis(100)));
    assert_eq!(wire.ends[0].counters().retransmitted, 0);
    assert_eq!(wire.ends[0].rtt().srtt(), Some(Span::from_millis(100)));
}

#[test]
fn delayed_acknowledgements_halve_their_number_and_appropriate_byte_counting_keeps_the_growth() {
    let wire = transfer(Config { delayed_ack: Some(Span::from_millis(100)), ..config(Recovery::Sack) }, 150, &[]);
    assert_eq!(wire.per_round(), [0, 10, 20, 40, 80]);
    let acks = wire.log.iter().filter(|sent| sent.from == 1 && sent.segment.flags == Flags::ACK).count();
    // 150 data segments, every second acknowledged, the last with the FIN.
    assert!((75..=78).contains(&acks), "{acks}");
}

#[test]
fn a_lone_segment_is_acknowledged_after_the_delay() {
    let mut wire =
        Wire::new(Config { delayed_ack: Some(Span::from_millis(200)), ..config(Recovery::Sack) }, DELAY, |_, _, _| {
            Fate::Pass
        });
    wire.ends[0].write(1000);
    wire.run(Span::from_secs(5));
    let ack = wire.log.iter().rfind(|sent| sent.from == 1).expect("an acknowledgement");
    // Sent at 100, arrived at 150, held back for 200.
    assert_eq!((ack.millis(), ack.segment.ack), (350, 1001));
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second_and_the_window_is_one() {
    let mut syns = 0;
    let fate = move |from: usize, _: usize, segment: &Segment| {
        if from == 0 && segment.flags.has(Flags::SYN) {
            syns += 1;
            if syns <= 2 {
                return Fate::Drop;
            }
        }
        Fate::Pass
    };
    let mut wire = Wire::new(config(Recovery::Sack), DELAY, fate);
    wire.ends[0].write(10_000);
    wire.ends[0].close();
    wire.run(Span::from_secs(60));
    let syns: Vec<_> = wire
        .log
        .iter()
        .filter(|sent| sent.from == 0 && sent.segment.flags.has(Flags::SYN))
        .map(|s| s.millis())
        .collect();
    assert_eq!(syns, [0, 1000, 3000]);
    // RFC 5681, 3.1: after a lost SYN the initial window is one segment.
    assert_eq!(wire.per_round()[31..], [1, 2, 4, 3]);
}

#[test]
fn the_syn_of_the_server_may_be_lost_too() {
    let mut lost = false;
    let fate = move |from: usize, _: usize, segment: &Segment| {
        if from == 1 && segment.flags.has(Flags::SYN) && !core::mem::replace(&mut lost, true) {
            Fate::Drop
        } else {
            Fate::Pass
        }
    };
    let mut wire = Wire::new(config(Recovery::Sack), DELAY, fate);
    wire.ends[0].write(5_000);
    wire.ends[0].close();
    wire.run(Span::from_secs(60));
    assert_eq!(wire.ends[1].received(), 5_000);
    assert_eq!(wire.ends[0].established_at(), Some(Instant::ZERO + Span::from_millis(1100)));
}

#[test]
fn a_connection_that_never_answers_is_given_up() {
    let bounds = RtoBounds { max: Span::from_secs(8), ..RtoBounds::default() };
    let config = Config { retries: 4, rto: bounds, ..config(Recovery::Sack) };
    let mut wire = Wire::new(config, DELAY, |_, _, _| Fate::Drop);
    wire.run(Span::from_secs(100));
    assert_eq!(wire.ends[0].state(), State::Closed);
    let syns: Vec<_> = wire.log.iter().map(|sent| sent.millis()).collect();
    assert_eq!(syns, [0, 1000, 3000, 7000, 15_000], "and the longest timeout is 8 s, so it ends at 23 s");
}

#[test]
fn a_closed_window_is_probed_and_opens_again() {
    let client = Endpoint::connect(config(Recovery::Sack));
    let server = Endpoint::listen(Config { receive_buffer: 8_000, reads_at_once: false, ..config(Recovery::Sack) });
    let mut wire = Wire::with_ends(client, server, DELAY, |_, _, _| Fate::Pass);
    wire.ends[0].write(20_000);
    wire.ends[0].close();
    wire.run(Span::from_secs(10));
    // The buffer is full, and nothing was sent beyond the window but probes of one byte.
    assert_eq!((wire.ends[1].received(), wire.ends[1].unread()), (8_000, 8_000));
    let probes: Vec<_> =
        wire.log.iter().filter(|sent| sent.from == 0 && sent.segment.len == 1).map(|sent| sent.millis()).collect();
    // The window closed at 200 ms; the timeout is a second (RFC 6298 with 100 ms of round trip), then it doubles.
    assert_eq!(probes, [1200, 3200, 7200]);
    assert_eq!(wire.ends[0].counters().probes, 3);
    assert_eq!((wire.ends[0].counters().timeouts, wire.ends[0].counters().retransmitted), (0, 0));
    // The application reads at 10 s: a window update leaves at once, and the rest follows.
    assert_eq!(wire.ends[1].read(8_000), 8_000);
    wire.run(Span::from_millis(10_200));
    assert_eq!(wire.ends[1].received(), 16_000);
    wire.ends[1].read(8_000);
    wire.run(Span::from_secs(20));
    assert_eq!(wire.ends[1].received(), 20_000);
    assert!(wire.ends[1].peer_closed());
}

#[test]
fn a_lost_window_update_is_what_the_probe_is_for() {
    let client = Endpoint::connect(config(Recovery::Sack));
    let server = Endpoint::listen(Config { receive_buffer: 8_000, reads_at_once: false, ..config(Recovery::Sack) });
    let mut cut = false;
    let fate = move |from: usize, number: usize, segment: &Segment| {
        // The first acknowledgement with an open window after the eighth data segment.
        let update = from == 1 && number == 0 && segment.ack == 8_001 && segment.window == 8_000;
        if update && !core::mem::replace(&mut cut, true) { Fate::Drop } else { Fate::Pass }
    };
    let mut wire = Wire::with_ends(client, server, DELAY, fate);
    wire.ends[0].write(10_000);
    wire.run(Span::from_millis(500));
    wire.ends[1].read(8_000);
    wire.run(Span::from_secs(5));
    assert_eq!(wire.ends[1].received(), 10_000);
    assert_eq!(wire.ends[0].counters().probes, 1);
}

#[test]
fn a_sender_stays_within_the_window_and_avoids_silly_segments() {
    let server = Config { receive_buffer: 5_500, ..config(Recovery::Sack) };
    let client = Endpoint::connect(config(Recovery::Sack));
    let mut wire = Wire::with_ends(client, Endpoint::listen(server), DELAY, |_, _, _| Fate::Pass);
    wire.ends[0].write(50_000);
    wire.ends[0].close();
    wire.run(Span::from_secs(10));
    assert_eq!(wire.ends[1].received(), 50_000);
    // RFC 9293, 3.8.6.2.1: five whole segments a round trip, never the half one that would fit.
    assert!(wire.log.iter().filter(|sent| sent.from == 0 && sent.is_data()).all(|sent| sent.segment.len == 1000));
    assert_eq!(wire.per_round()[1..4], [5, 5, 5]);
}

#[test]
fn a_mark_halves_once_a_window_and_is_echoed_until_the_sender_confirms_it() {
    for recovery in EVERY {
        // Three marks in the window at 200 ms.
        let fate = |from: usize, number: usize, segment: &Segment| {
            if from == 0 && segment.len > 0 && [12, 15, 17].contains(&number) { Fate::Mark } else { Fate::Pass }
        };
        let mut wire = Wire::new(Config { ecn: EcnUse::Classic, ..config(recovery) }, DELAY, fate);
        wire.ends[0].write_endlessly();
        wire.run(Span::from_millis(650));
        assert!(wire.ends[0].uses_ecn() && wire.ends[1].uses_ecn());
        let counters = wire.ends[0].counters();
        assert_eq!((counters.ecn_reductions, counters.retransmitted, counters.timeouts), (1, 0, 0), "{recovery:?}");
        // 20 were out, and the two acknowledged before the mark had let four more out: half of 20 to 24.
        let threshold = wire.ends[0].ssthresh();
        assert!((10_000..=12_000).contains(&threshold), "{recovery:?}: {threshold}");
        // The echo runs from the mark until the data with CWR arrives, and then stops.
        let echoes: Vec<_> = wire
            .log
            .iter()
            .filter(|sent| sent.from == 1 && sent.segment.flags.has(Flags::ECE) && !sent.segment.flags.has(Flags::SYN))
            .map(|sent| sent.millis())
            .collect();
        assert!(*echoes.first().unwrap() == 250 && *echoes.last().unwrap() < 550, "{echoes:?}");
        let reduced = wire.log.iter().filter(|s| s.from == 0 && s.is_data() && s.segment.flags.has(Flags::CWR)).count();
        assert_eq!(reduced, 1, "CWR on the first new segment after the reduction, and only there");
    }
}

#[test]
fn without_agreement_nothing_is_ecn_capable() {
    let client = Endpoint::connect(Config { ecn: EcnUse::Classic, ..config(Recovery::Sack) });
    let server = Endpoint::listen(config(Recovery::Sack));
    let mut wire = Wire::with_ends(client, server, DELAY, |_, _, _| Fate::Mark);
    wire.ends[0].write(20_000);
    wire.run(Span::from_secs(5));
    assert!(!wire.ends[0].uses_ecn());
    assert!(wire.log.iter().all(|sent| !sent.segment.ecn.is_capable()));
    assert_eq!(wire.ends[1].received(), 20_000);
}

#[test]
fn both_ends_go_through_the_states_of_the_close() {
    let mut wire = Wire::new(config(Recovery::Sack), DELAY, |_, _, _| Fate::Pass);
    wire.ends[0].write(1_000);
    wire.ends[0].close();
    wire.run(Span::from_millis(100));
    assert_eq!([wire.ends[0].state(), wire.ends[1].state()], [State::FinWait1, State::SynReceived]);
    wire.run(Span::from_millis(150));
    assert_eq!(wire.ends[1].state(), State::CloseWait);
    assert!(wire.ends[1].peer_closed() && wire.ends[1].received() == 1_000);
    wire.run(Span::from_millis(200));
    assert_eq!(wire.ends[0].state(), State::FinWait2);
    wire.ends[1].write(2_000);
    wire.ends[1].close();
    wire.run(Span::from_millis(230));
    assert_eq!(wire.ends[1].state(), State::LastAck);
    wire.run(Span::from_secs(2));
    assert_eq!([wire.ends[0].state(), wire.ends[1].state()], [State::TimeWait, State::Closed]);
    assert_eq!(wire.ends[0].received(), 2_000);

    // Both at once: CLOSING on the way.
    let mut wire = Wire::new(config(Recovery::Sack), DELAY, |_, _, _| Fate::Pass);
    wire.run(Span::from_millis(300));
    wire.ends[0].close();
    wire.ends[1].close();
    wire.run(Span::from_millis(350));
    assert_eq!([wire.ends[0].state(), wire.ends[1].state()], [State::Closing, State::Closing]);
    wire.run(Span::from_secs(2));
    assert_eq!([wire.ends[0].state(), wire.ends[1].state()], [State::TimeWait, State::TimeWait]);
}

#[test]
fn the_fin_may_be_lost_and_so_may_its_acknowledgement() {
    for cut in 0..2 {
        let mut lost = false;
        let fate = move |from: usize, _: usize, segment: &Segment| {
            let chosen = from == cut && (segment.flags.has(Flags::FIN) || cut == 1 && segment.ack == 3_002);
            if chosen && !core::mem::replace(&mut lost, true) { Fate::Drop } else { Fate::Pass }
        };
        let mut wire = Wire::new(config(Recovery::Sack), DELAY, fate);
        wire.ends[0].write(3_000);
        wire.ends[0].close();
        wire.run(Span::from_millis(500));
        wire.ends[1].close();
        wire.run(Span::from_secs(20));
        assert!(wire.ends[0].is_over() && wire.ends[1].is_over(), "{cut}: {:?}", wire.ends[0].state());
        assert_eq!(wire.ends[1].received(), 3_000);
    }
}

/// A rate-based congestion control: 40 segments at most, at 1 Mbit/s; halves both on a loss.
struct Paced {
    window: u64,
    rate: u64,
    delivered: u64,
}

impl CongestionControl for Paced {
    fn on_ack(&mut self, ack: &Ack) {
        assert!(ack.delivered >= self.delivered + ack.acked.min(1), "the delivery count rises");
        self.delivered = ack.delivered;
    }
    fn on_congestion(&mut self, _now: Instant, _flight_size: u64, _signal: CongestionSignal) {
        self.window /= 2;
        self.rate /= 2;
    }
    fn on_timeout(&mut self, _now: Instant, _flight_size: u64, _first: bool) {}
    fn on_recovered(&mut self, _now: Instant, _flight_size: u64) {}
    fn on_idle(&mut self, _restart: u64) {}
    fn cwnd(&self) -> u64 {
        self.window
    }
    fn ssthresh(&self) -> u64 {
        0
    }
    fn pacing(&self) -> Option<Rate> {
        Some(Rate::from_bps(self.rate))
    }
}

#[test]
fn a_congestion_control_of_ones_own_may_pace() {
    let algorithm =
        Algorithm::Custom(&|mss, _initial| Box::new(Paced { window: 40 * mss, rate: 1_000_000, delivered: 0 }));
    let config = Config { algorithm, ..config(Recovery::Sack) };
    let wire = transfer(config, 100, &[60]);
    let at: Vec<u64> = wire.log.iter().filter(|s| s.from == 0 && s.is_data()).map(|s| s.at.as_nanos()).collect();
    // 1040 B at 1 Mbit/s are 8.32 ms; from 100 ms on, so that number 60 leaves at 599.2 ms.
    assert!(at[..60].windows(2).all(|pair| pair[1] - pair[0] == 8_320_000), "{at:?}");
    // It is lost, and missed when the third after it is acknowledged, 100 ms after that left: then half the rate.
    let last = at.windows(2).last().map(|pair| pair[1] - pair[0]);
    assert_eq!(last, Some(16_640_000));
    assert_eq!((wire.ends[0].counters().retransmitted, wire.ends[0].counters().timeouts), (1, 0));
}

#[test]
fn an_idle_connection_begins_again_with_the_initial_window() {
    let mut wire = Wire::new(config(Recovery::Sack), DELAY, |_, _, _| Fate::Pass);
    wire.ends[0].write(150_000);
    wire.run(Span::from_secs(5));
    assert!(wire.ends[0].cwnd() > 70_000);
    wire.ends[0].write(100_000);
    wire.run(Span::from_secs(10));
    // RFC 5681, 4.1: after 5 s of silence ten segments, not the old window.
    assert_eq!(wire.per_round()[50], 10);
}

#[test]
fn sequence_numbers_wrap() {
    // 1 MB across 2^32, with losses before, at and after.
    let config = Config { isn: u32::MAX - 500_000, ..config(Recovery::Sack) };
    let wire = transfer(config, 1000, &[100, 499, 500, 501, 502, 700]);
    assert_eq!(wire.ends[0].counters().timeouts, 0);
    assert!(wire.ends[0].is_over() || wire.ends[0].state() == State::FinWait2);
}

/// Any wire that lets something through carries everything, in order, once, and both ends close.
#[test]
fn whatever_the_wire_does_the_data_arrives_and_the_connection_ends() {
    let algorithms = [Algorithm::Reno, Algorithm::Cubic];
    let (mut retransmitted, mut timeouts, mut recoveries) = (0, 0, 0);
    for seed in 0..400_u64 {
        let mut random = Stream::named(seed, "torture");
        let config = Config {
            recovery: EVERY[(seed % 3) as usize],
            algorithm: algorithms[(seed / 3 % 2) as usize],
            delayed_ack: (seed % 5 > 1).then_some(Span::from_millis(40)),
            ecn: if seed % 4 == 0 { EcnUse::Classic } else { EcnUse::No },
            receive_buffer: 2_000 + random.below(100_000),
            initial_window: 1 + random.below(10) as u32,
            isn: random.next_u64() as u32,
            retries: 100,
            rto: RtoBounds { max: Span::from_secs(4), ..RtoBounds::default() },
            mss: 1000,
            ..Config::default()
        };
        let (up, down) = (random.below(120_000), random.below(30_000));
        let [loss, late, twice, mark] = core::array::from_fn(|_| random.below(15));
        let fate = move |_: usize, _: usize, _: &Segment| {
            let draw = random.below(100);
            if draw < loss {
                Fate::Drop
            } else if draw < loss + late {
                Fate::Late(Span::from_micros(random.below(30_000)))
            } else if draw < loss + late + twice {
                Fate::Twice
            } else if draw < loss + late + twice + mark {
                Fate::Mark
            } else {
                Fate::Pass
            }
        };
        let mut wire = Wire::new(config, DELAY, fate);
        wire.ends[0].write(up);
        wire.ends[0].close();
        wire.ends[1].write(down);
        wire.ends[1].close();
        wire.run(Span::from_secs(3000));
        let states = [wire.ends[0].state(), wire.ends[1].state()];
        assert_eq!([wire.ends[1].received(), wire.ends[0].received()], [up, down], "seed {seed} {states:?}");
        assert!(wire.ends.iter().all(Endpoint::is_over), "seed {seed}: {states:?}");
        for sent in wire.log.iter().filter(|sent| sent.from == 0 && sent.is_data()) {
            let offset = sent.segment.seq.wrapping_sub(config.isn.wrapping_add(1));
            assert!(u64::from(offset) + u64::from(sent.segment.len) <= up, "seed {seed}: nothing beyond the data");
        }
        retransmitted += wire.ends[0].counters().retransmitted;
        timeouts += wire.ends[0].counters().timeouts;
        recoveries += wire.ends[0].counters().recoveries;
    }
    // The scripts reached what they are for.
    assert!(retransmitted > 1000 && timeouts > 500 && recoveries > 300, "{retransmitted} {timeouts} {recoveries}");
}
