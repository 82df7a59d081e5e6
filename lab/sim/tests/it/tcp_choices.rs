//! Optional behaviour of TCP on a scripted wire: RACK-TLP, PRR, HyStart++, timestamps, D-SACK, DCTCP's receiver, growth by
//! acknowledgements, delivery rates. One behaviour a test.
//!
//! The wire is that of `tcp_script`: 50 ms each way and no rate, segments of 1000 bytes, a handshake of 100 ms.

use std::cell::RefCell;

use crate::wire::{DELAY, Fate, Wire, transfer};
use tidegate_core::{Ecn, Instant, Rate, Span};
use tidegate_sim::tcp::{
    Ack, Algorithm, Config, CongestionControl, CongestionSignal, DeliverySample, EcnCounts, EcnUse, Endpoint, Flags,
    Growth, Recovery, Reno, Segment, Timestamps,
};

fn config() -> Config {
    Config { mss: 1000, delayed_ack: None, ..Config::default() }
}

fn rack() -> Config {
    Config { rack_tlp: true, d_sack: true, ..config() }
}

/// When the segment with this number of thousands of bytes was sent again, in ms.
fn again(wire: &Wire<impl FnMut(usize, usize, &Segment) -> Fate>, number: u32) -> Vec<u64> {
    wire.data().into_iter().filter(|(_, seq, again)| *again && *seq == 1 + 1000 * number).map(|(at, ..)| at).collect()
}

#[test]
fn a_lost_tail_is_probed_after_two_round_trips() {
    let lost = |number| if number == 29 { Fate::Drop } else { Fate::Pass };
    let wire = transfer(rack(), 30, lost);
    // The last acknowledgement comes at 300 ms; PTO is 2 SRTT (RFC 8985, 7.2). The probe is the last segment again, with
    // the FIN.
    assert_eq!((wire.ends[0].counters().timeouts, wire.ends[0].counters().tail_probes), (0, 1));
    assert_eq!(again(&wire, 29), [700]);
    // A lone segment may be acknowledged late: 200 ms more.
    let wire = transfer(rack(), 1, |number| if number == 0 { Fate::Drop } else { Fate::Pass });
    assert_eq!(again(&wire, 0), [500]);
    // Without it the timer is a second, and what follows begins from one segment.
    let wire = transfer(config(), 30, lost);
    assert_eq!(wire.ends[0].counters().timeouts, 1);
}

#[test]
fn a_probe_finds_losses_before_it_by_sack() {
    // The last three are lost: the probe is the third again, and its SACK shows the others (RFC 8985, 7.1).
    let wire = transfer(rack(), 30, |number| if (27..30).contains(&number) { Fate::Drop } else { Fate::Pass });
    let counters = wire.ends[0].counters();
    assert_eq!((counters.timeouts, counters.tail_probes, counters.retransmitted), (0, 1, 3));
    assert_eq!(wire.ends[0].ssthresh(), 2_000, "half of the flight of three, but at least two segments");
}

/// A window leaves at one instant on this wire, so that a retransmission is sent at the time of new data before it, whose
/// acknowledgement arrives first. It does not show that the retransmission was lost (RFC 8985, 6.2: sent *after* it).
#[test]
fn newer_data_of_the_same_instant_does_not_show_a_retransmission_lost() {
    let lost = |number: usize| number % 50 == 49 && number < 560;
    for config in [rack(), Config { prr: true, ..rack() }] {
        let wire = transfer(config, 590, |number| if lost(number) { Fate::Drop } else { Fate::Pass });
        let counters = wire.ends[0].counters();
        assert_eq!((counters.timeouts, counters.retransmitted, counters.duplicates_reported), (0, 11, 0));
    }
}

#[test]
fn a_lost_retransmission_is_found_by_time() {
    for (config, timeouts) in [(rack(), 0), (config(), 1)] {
        let mut sent = 0;
        let fate = move |from: usize, _: usize, segment: &Segment| {
            let hit = from == 0 && segment.len > 0 && segment.seq == 10_001 && sent < 2;
            sent += usize::from(hit);
            if hit { Fate::Drop } else { Fate::Pass }
        };
        let mut wire = Wire::new(config, DELAY, fate);
        wire.ends[0].write(200_000);
        wire.run(Span::from_secs(10));
        assert_eq!(wire.ends[1].received(), 200_000);
        assert_eq!(wire.ends[0].counters().timeouts, timeouts);
        if timeouts == 0 {
            // Sent at 200, again at 300; what is sent after that is SACKed at 400, and shows that it was lost again.
            assert_eq!(again(&wire, 10), [300, 400]);
        }
    }
}

#[test]
fn reordering_is_not_loss_once_it_was_seen() {
    // Segments 8, 60 and 120 come 20 ms late: after the first comes one more, after the others many.
    let late = |number| if [8, 60, 120].contains(&number) { Fate::Late(Span::from_millis(20)) } else { Fate::Pass };
    let wire = transfer(Config { d_sack: true, ..config() }, 300, late);
    assert!(wire.ends[0].counters().recoveries >= 1, "three duplicates are a loss: {:?}", wire.ends[0].counters());
    // RFC 8985, 6.2, step 4: once reordering was seen, a quarter of the least RTT is waited for, 25 ms.
    let wire = transfer(rack(), 300, late);
    assert_eq!((wire.ends[0].counters().recoveries, wire.ends[0].counters().retransmitted), (0, 0));
    // Without that, three duplicates are a loss for RACK as well; D-SACK reports that it was none.
    let wire =
        transfer(rack(), 300, |number| if number == 60 { Fate::Late(Span::from_millis(20)) } else { Fate::Pass });
    assert_eq!((wire.ends[0].counters().recoveries, wire.ends[0].counters().duplicates_reported), (1, 1));
}

#[test]
fn a_duplicate_is_reported_in_the_first_block() {
    let wire =
        transfer(Config { d_sack: true, ..config() }, 30, |number| if number == 4 { Fate::Twice } else { Fate::Pass });
    assert_eq!(wire.ends[0].counters().duplicates_reported, 1);
    // RFC 2883, 4.1: the block is the segment, below the acknowledgement.
    let block =
        wire.log.iter().find_map(|sent| sent.segment.sack.as_slice().first().map(|block| (*block, sent.segment.ack)));
    assert_eq!(block, Some(((4_001, 5_001), 5_001)));
    assert_eq!(transfer(config(), 30, |_| Fate::Twice).ends[0].counters().duplicates_reported, 0);
}

/// Milliseconds after the loss was found at which the client sends, where the acknowledgements of a window of 20 come 1 ms
/// apart and its first segment is lost.
fn recovery_times(config: Config) -> Vec<u64> {
    let mut acks = 0_u64;
    let fate = move |from: usize, number: usize, segment: &Segment| {
        if from == 1 && segment.flags == Flags::ACK {
            acks += 1;
            return Fate::Late(Span::from_millis(u64::saturating_sub(acks, 10)));
        }
        if from == 0 && segment.len > 0 && number == 10 { Fate::Drop } else { Fate::Pass }
    };
    let mut wire = Wire::new(config, DELAY, fate);
    wire.ends[0].write_endlessly();
    wire.run(Span::from_millis(322));
    wire.data().into_iter().map(|(at, ..)| at).filter(|at| *at > 300).map(|at| at - 300).collect()
}

#[test]
fn the_window_is_reduced_in_proportion_to_what_is_delivered() {
    // RFC 6937, section 4, figure 1: of a window of 20, one segment for each two acknowledgements, from the third on; what
    // RFC 6675 does is to wait until half of the window is acknowledged, and then to send one for each.
    let with = recovery_times(Config { prr: true, ..config() });
    let without = recovery_times(config());
    let gap = |times: &[u64]| times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    assert!(gap(&with) <= 2, "{with:?}");
    assert!(gap(&without) >= 6, "{without:?}");
    // Both have sent about half of the window when the last acknowledgement has come.
    assert!(with.len().abs_diff(without.len()) <= 2 && (9..=13).contains(&with.len()), "{with:?} {without:?}");
}

#[test]
fn slow_start_ends_when_the_round_trip_rises() {
    // From segment 70 on, in the fourth round, 20 ms more: above an eighth of 100 ms.
    let rises = |number| if number >= 70 { Fate::Late(Span::from_millis(20)) } else { Fate::Pass };
    let config = Config { hystart: true, receive_buffer: 1 << 30, ..config() };
    for config in [config, Config { timestamps: true, ..config }, Config { recovery: Recovery::NewReno, ..config }] {
        let wire = transfer(config, 6_000, rises);
        let threshold = wire.ends[0].ssthresh();
        // 80 segments in the round before; the eighth sample of 120 ms comes with the first acknowledgements of that round,
        // and five rounds of a quarter of the growth follow: 88 * 1.25^5 = 268 (RFC 9406, section 4.2).
        assert!((200_000..=320_000).contains(&threshold), "{threshold}");
    }
    // A delay that stays: slow start goes on until the receive window or a loss ends it.
    assert_eq!(transfer(config, 6_000, |_| Fate::Pass).ends[0].ssthresh(), u64::MAX);
    let without = transfer(Config { hystart: false, ..config }, 6_000, rises);
    assert_eq!(without.ends[0].ssthresh(), u64::MAX);
}

#[test]
fn an_acknowledgement_counts_for_its_bytes_or_for_a_segment() {
    let delayed = Config { delayed_ack: Some(Span::from_millis(100)), ..config() };
    assert_eq!(transfer(delayed, 150, |_| Fate::Pass).per_round(), [0, 10, 20, 40, 80]);
    // Every second segment is acknowledged: half of the growth (RFC 3465, section 1).
    let wire = transfer(Config { growth: Growth::Acks, ..delayed }, 70, |_| Fate::Pass);
    let rounds = wire.per_round();
    assert!(rounds[..3] == [0, 10, 15] && (21..=23).contains(&rounds[3]), "{rounds:?}");
}

#[test]
fn timestamps_measure_every_acknowledgement_and_cost_twelve_bytes() {
    // A retransmission is measured as well: Karn's algorithm is not needed.
    let wire = transfer(Config { timestamps: true, ..config() }, 30, |number| match number {
        10 => Fate::Drop,
        _ => Fate::Pass,
    });
    let srtt = wire.ends[0].rtt().srtt().expect("samples");
    assert!(srtt >= Span::from_millis(100) && srtt < Span::from_millis(112), "{srtt}");
    let data = wire.log.iter().find(|sent| sent.is_data()).expect("data");
    assert_eq!(data.segment.option_bytes(), 12);
    // One end alone does not use them.
    let (client, server) = (Config { timestamps: true, ..config() }, config());
    let ends = (Endpoint::connect(client), Endpoint::listen(server));
    let mut wire = Wire::with_ends(ends.0, ends.1, DELAY, |_, _, _| Fate::Pass);
    wire.ends[0].write(30_000);
    wire.run(Span::from_secs(2));
    assert!(wire.log.iter().all(|sent| sent.segment.flags.has(Flags::SYN) || sent.segment.timestamps.is_none()));
}

#[test]
fn an_old_duplicate_after_the_sequence_numbers_wrapped_is_not_data() {
    for (timestamps, received) in [(true, 10_000), (false, 11_000)] {
        let mut wire = Wire::new(Config { timestamps, ..config() }, DELAY, |_, _, _| Fate::Pass);
        wire.ends[0].write(10_000);
        wire.run(Span::from_secs(2));
        // It has the number that is expected next, and the time of an earlier wrap (RFC 7323, 5.1).
        let stale = Timestamps { value: u32::MAX - 1_000_000, echo: 0 };
        let timestamps = timestamps.then_some(stale);
        let old = Segment {
            seq: 10_001,
            ack: 1,
            window: 1 << 20,
            len: 1_000,
            flags: Flags::ACK,
            timestamps,
            ..Segment::default()
        };
        wire.ends[1].on_segment(Instant::ZERO + Span::from_secs(2), &old);
        assert_eq!(
            (wire.ends[1].received(), wire.ends[1].counters().old_duplicates),
            (received, (11_000 - received) / 1_000)
        );
    }
}

#[test]
fn a_receiver_of_dctcp_echoes_each_mark() {
    // RFC 8257, 3.2: with an acknowledgement for each second segment, those of segments 12, 13 and 14 alone have ECN-Echo.
    let config = Config { mss: 1000, delayed_ack: Some(Span::from_millis(100)), ..Config::dctcp() };
    let wire = transfer(config, 30, |number| if (12..15).contains(&number) { Fate::Mark } else { Fate::Pass });
    let acks: Vec<_> = wire.log.iter().filter(|sent| sent.from == 1 && !sent.segment.flags.has(Flags::SYN)).collect();
    let (mut last, mut marked) = (1, 0);
    for ack in acks {
        if ack.segment.flags.has(Flags::ECE) {
            marked += ack.segment.ack - last;
        }
        last = ack.segment.ack;
    }
    assert_eq!(marked, 3_000, "bytes acknowledged with ECN-Echo");
    assert!(wire.log.iter().filter(|sent| sent.is_data()).all(|sent| sent.segment.ecn == Ecn::Ect0));
    // alpha is 1 at first and falls by a sixteenth with each window without marks (3.3): after two of them the first mark
    // takes about 0.44 of the window, and not half.
    assert_eq!(wire.ends[0].counters().ecn_reductions, 1);
    let threshold = wire.ends[0].ssthresh();
    assert!((10_000..=13_500).contains(&threshold), "{threshold}");
}

thread_local! {
    static SAMPLES: RefCell<Vec<DeliverySample>> = const { RefCell::new(Vec::new()) };
    static COUNTS: RefCell<Vec<(u64, EcnCounts)>> = const { RefCell::new(Vec::new()) };
}

/// Reno that keeps the samples, and what each acknowledgement has delivered with the counts of ECN then.
struct Listening(Reno);

impl CongestionControl for Listening {
    fn on_ack(&mut self, ack: &Ack) {
        COUNTS.with_borrow_mut(|counts| counts.push((ack.una, ack.ecn)));
        self.0.on_ack(ack);
    }
    fn on_sample(&mut self, _now: Instant, sample: &DeliverySample) {
        SAMPLES.with_borrow_mut(|samples| samples.push(*sample));
    }
    fn on_congestion(&mut self, now: Instant, flight_size: u64, signal: CongestionSignal) {
        self.0.on_congestion(now, flight_size, signal);
    }
    fn on_timeout(&mut self, now: Instant, flight_size: u64, first: bool) {
        self.0.on_timeout(now, flight_size, first);
    }
    fn on_recovered(&mut self, now: Instant, flight_size: u64) {
        self.0.on_recovered(now, flight_size);
    }
    fn on_idle(&mut self, restart: u64) {
        self.0.on_idle(restart);
    }
    fn cwnd(&self) -> u64 {
        self.0.cwnd()
    }
    fn ssthresh(&self) -> u64 {
        self.0.ssthresh()
    }
}

#[test]
fn a_sample_is_the_rate_of_delivery() {
    SAMPLES.with_borrow_mut(Vec::clear);
    let algorithm = Algorithm::Custom(&|mss, initial| Box::new(Listening(Reno::new(mss, initial))));
    // Each segment comes out of the wire 1 ms after the one before, or later: 8 Mbit/s.
    let mut free = Instant::ZERO;
    let mut now = Instant::ZERO;
    let mut last = 0;
    let fate = move |from: usize, number: usize, segment: &Segment| {
        if from == 1 || segment.len == 0 {
            return Fate::Pass;
        }
        // Rounds of the wire are 100 ms and more; the time of sending is that of the acknowledgement that let it out.
        if number > last {
            last = number;
        }
        now = now.max(free.saturating_sub(Span::from_millis(100)));
        free = free.max(now) + Span::from_millis(1);
        Fate::Late(free.since(now))
    };
    let mut wire = Wire::new(Config { algorithm, receive_buffer: 40_000, ..config() }, DELAY, fate);
    wire.ends[0].write(2_000_000);
    wire.run(Span::from_secs(60));
    assert_eq!(wire.ends[1].received(), 2_000_000);
    SAMPLES.with_borrow(|samples| {
        assert_eq!(samples.len() as u64, 2_000, "one for each acknowledgement");
        // No sample is faster than the wire, and where the window is not the limit it is its rate.
        let rates: Vec<Rate> = samples.iter().filter_map(|sample| sample.rate).collect();
        assert!(rates.iter().all(|rate| rate.as_bps() <= 8_400_000), "{:?}", rates.iter().max());
        assert!(samples.windows(2).all(|pair| pair[0].prior_delivered <= pair[1].prior_delivered));
        assert!(samples[..1_500].iter().all(|sample| !sample.app_limited), "there is more to send");
        assert_eq!(samples.last().map(|sample| sample.in_flight), Some(0));
    });
    wire.ends[0].write(1_000);
    wire.run(Span::from_secs(61));
    SAMPLES.with_borrow(|samples| assert!(samples.last().is_some_and(|sample| sample.app_limited)));
}

#[test]
fn a_congestion_control_of_ones_own_receives_counts_of_ecn() {
    let algorithm = Algorithm::Custom(&|mss, initial| Box::new(Listening(Reno::new(mss, initial))));
    let run = |ecn: EcnUse, marked: usize| {
        COUNTS.with_borrow_mut(Vec::clear);
        let wire = transfer(Config { algorithm, ecn, ..config() }, 400, |number| {
            if number == marked { Fate::Mark } else { Fate::Pass }
        });
        assert_eq!(wire.ends[0].counters().ecn_reductions, u64::from(ecn == EcnUse::Classic && marked < 400));
        COUNTS.with_borrow(Clone::clone)
    };
    // Segment 50 is marked: every acknowledgement from its own to that of the first segment with CWR has ECN-Echo (RFC 3168,
    // 6.1.3), and all that is delivered is capable.
    let counts = run(EcnUse::Classic, 50);
    assert!(counts.len() == 400 || counts.len() == 401, "{}", counts.len());
    for (una, counted) in &counts {
        assert_eq!(counted.capable, una - 1, "bytes, the FIN as one");
        assert_eq!(counted.ce > 0, *una > 51_000, "{una}: {counted:?}");
    }
    let last = counts.last().map(|(_, counted)| counted.ce);
    assert!(last < Some(340_000), "the echo ends with CWR: {last:?}");
    assert!(run(EcnUse::Classic, usize::MAX).iter().all(|(_, counted)| counted.ce == 0 && counted.capable > 0));
    assert!(run(EcnUse::No, 50).iter().all(|(_, counted)| *counted == EcnCounts::default()));
}

#[test]
fn all_of_them_together_deliver_everything() {
    for seed in 0..20_u64 {
        let config = Config { mss: 1000, ..Config::current() };
        let fate = move |number: usize| match (number as u64 * 2_654_435_761 + seed * 97) % 101 {
            0..3 => Fate::Drop,
            3..5 => Fate::Late(Span::from_millis(15)),
            5 => Fate::Twice,
            _ => Fate::Pass,
        };
        let wire = transfer(config, 400, fate);
        assert!(wire.ends[0].counters().retransmitted >= 8, "{:?}", wire.ends[0].counters());
    }
}
