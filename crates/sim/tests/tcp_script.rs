//! TCP on a scripted wire: what the RFCs prescribe, one behaviour a test.
//!
//! The wire has a delay of 50 ms and no rate, so that each round trip takes 100 ms and a window leaves at once.
//! Segments are of 1000 bytes; the handshake takes the first 100 ms.

mod wire;

use tidegate_core::random::Stream;
use tidegate_core::{Instant, Rate, Span};
use tidegate_sim::tcp::{
    Ack, Algorithm, Config, CongestionControl, CongestionSignal, Endpoint, Flags, Recovery, RtoBounds, Segment, State,
    Vintage,
};
use wire::{Fate, Wire};

const DELAY: Span = Span::from_millis(50);

fn config(recovery: Recovery) -> Config {
    Config { mss: 1000, recovery, delayed_ack: None, ..Config::default() }
}

/// A transfer of `segments` segments over a wire that drops the data segments `lost`.
fn transfer(config: Config, segments: u64, lost: &'static [usize]) -> Wire<impl FnMut(usize, usize, &Segment) -> Fate> {
    let fate = move |from: usize, number: usize, segment: &Segment| {
        if from == 0 && segment.len > 0 && lost.contains(&number) { Fate::Drop } else { Fate::Pass }
    };
    let mut wire = Wire::new(config, DELAY, fate);
    wire.ends[0].write(segments * 1000);
    wire.ends[0].close();
    wire.run(Span::from_secs(60));
    assert_eq!(wire.ends[1].received(), segments * 1000, "everything arrived");
    wire
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
fn a_lost_segment_is_found_by_duplicates_and_the_window_halved() {
    // Of the window of 20 that leaves at 200 ms: the first, one in the middle. Nine and more follow it.
    for recovery in EVERY {
        for lost in [&[10][..], &[20]] {
            let wire = transfer(config(recovery), 200, lost);
            let counters = wire.ends[0].counters();
            assert_eq!((counters.timeouts, counters.recoveries, counters.retransmitted), (0, 1, 1), "{recovery:?}");
            let again = wire.data().into_iter().find(|(_, _, again)| *again).expect("a retransmission");
            // Its duplicates arrive with the acknowledgements of the same window, one round trip later.
            assert_eq!((again.0, again.1), (300, 1 + 1000 * lost[0] as u32), "{recovery:?}");
        }
    }
}

#[test]
fn the_window_after_a_loss_is_half_the_flight() {
    for recovery in EVERY {
        // 20 segments are out when the first of them is lost; limited transmit does not count (RFC 5681, 3.2).
        let fate = |from: usize, number: usize, _: &Segment| {
            if from == 0 && number == 10 { Fate::Drop } else { Fate::Pass }
        };
        let mut wire = Wire::new(config(recovery), DELAY, fate);
        wire.ends[0].write_endlessly();
        wire.run(Span::from_millis(320));
        let threshold = wire.ends[0].ssthresh();
        // The flight is 20, and what new acknowledgements before the loss had let out: none, it is the first.
        assert!((9_000..=11_000).contains(&threshold), "{recovery:?}: {threshold}");
        wire.run(Span::from_millis(420));
        let window = wire.ends[0].cwnd();
        assert!(window <= 11_000, "{recovery:?}: {window}");
    }
}

#[test]
fn the_last_segment_lost_needs_the_timer() {
    for recovery in EVERY {
        let wire = transfer(config(recovery), 30, &[29]);
        let counters = wire.ends[0].counters();
        assert_eq!((counters.timeouts, counters.recoveries, counters.retransmitted), (1, 0, 1), "{recovery:?}");
        let (at, seq, _) = *wire.data().last().unwrap();
        // Sent at 200; the timer was last restarted by the acknowledgement at 300; RFC 6298: at least a second.
        assert_eq!((at, seq), (1300, 29_001), "{recovery:?}");
    }
}

/// Drops the data segments that `fate` chooses by sequence number and transmission (0 is the first of that number).
fn by_transmission(mut drop: impl FnMut(u32, usize) -> bool) -> impl FnMut(usize, usize, &Segment) -> Fate {
    let mut sent = std::collections::BTreeMap::new();
    move |from, _, segment| {
        if from != 0 || segment.len == 0 {
            return Fate::Pass;
        }
        let transmission = sent.entry(segment.seq).or_insert(0);
        *transmission += 1;
        if drop(segment.seq, *transmission - 1) { Fate::Drop } else { Fate::Pass }
    }
}

#[test]
fn fast_recovery_sends_new_data_for_the_second_half_of_the_window() {
    // 20 segments are out from 200 ms on and the first of them is lost. 19 duplicates arrive at 300 ms.
    // SACK (RFC 6675): cwnd = 10, and pipe after the last duplicate is the retransmission: 9 new segments.
    // Reno and NewReno (RFC 5681, 3.2): cwnd = 10 + 3 + 16 = 29, with 20 in flight: 9 new segments.
    for recovery in EVERY {
        let mut wire = Wire::new(config(recovery), DELAY, by_transmission(|seq, n| seq == 10_001 && n == 0));
        wire.ends[0].write_endlessly();
        wire.run(Span::from_millis(340));
        let sent: Vec<_> = wire.data().into_iter().filter(|(at, _, _)| *at >= 300).collect();
        assert_eq!(sent.iter().filter(|(_, _, again)| *again).count(), 1, "{recovery:?}");
        assert_eq!(sent.len(), 10, "{recovery:?}: {sent:?}");
        // The acknowledgement of all 20 ends the recovery with cwnd = 10 segments, with 9 in flight.
        wire.run(Span::from_millis(401));
        assert_eq!((wire.ends[0].ssthresh(), wire.ends[0].flight_size()), (10_000, 10_000), "{recovery:?}");
    }
}

#[test]
fn a_lost_retransmission_halves_ssthresh_again_and_does_not_raise_it() {
    for recovery in EVERY {
        let lost = |seq, n| seq == 10_001 && n < 2;
        let mut wire = Wire::new(config(recovery), DELAY, by_transmission(lost));
        wire.ends[0].write_endlessly();
        wire.run(Span::from_millis(1150));
        // The window in which the loss was found: half of 20.
        assert_eq!(wire.ends[0].ssthresh(), 10_000, "{recovery:?}");
        if recovery == Recovery::Sack {
            // RFC 6675 sends new data as fast as SACKs come in: far more than cwnd is unacknowledged.
            assert!(wire.ends[0].flight_size() > 50_000, "{}", wire.ends[0].flight_size());
        }
        // The timer was last restarted at 200 ms. RFC 5681, section 4.3: the loss of a retransmission is a second
        // indication of congestion; equation (4) with a FlightSize of at most cwnd.
        wire.run(Span::from_millis(1250));
        assert_eq!((wire.ends[0].ssthresh(), wire.ends[0].cwnd()), (5_000, 1_000), "{recovery:?}");
        assert_eq!(wire.ends[0].counters().timeouts, 1);
        // Slow start ends there.
        wire.run(Span::from_millis(3000));
        let counters = wire.ends[0].counters();
        assert_eq!((counters.timeouts, counters.recoveries), (1, 1), "{recovery:?}");
        assert!(wire.ends[0].cwnd() < 25_000, "{recovery:?}: {}", wire.ends[0].cwnd());
    }
}

#[test]
fn a_second_timeout_holds_ssthresh_and_one_of_a_later_segment_lowers_it() {
    for recovery in EVERY {
        // All of the window of 20 is lost, and the first segment twice more.
        let all = |seq: u32, n| (10_001..30_001).contains(&seq) && n == 0 || seq == 10_001 && n < 3;
        let mut wire = Wire::new(config(recovery), DELAY, by_transmission(all));
        wire.ends[0].write(60_000);
        wire.run(Span::from_millis(3250));
        assert_eq!((wire.ends[0].counters().timeouts, wire.ends[0].ssthresh()), (2, 10_000), "{recovery:?}: held");

        // The first is repaired by the timeout at 1.2 s; of the two that follow at 1.3 s both are lost again.
        let later = |seq: u32, n| (10_001..30_001).contains(&seq) && n == 0 || [11_001, 12_001].contains(&seq) && n < 2;
        let mut wire = Wire::new(config(recovery), DELAY, by_transmission(later));
        wire.ends[0].write(60_000);
        wire.run(Span::from_millis(2350));
        // FlightSize is 19 segments, but cwnd 2: max(2 / 2, 2) segments, not 9.
        assert_eq!((wire.ends[0].counters().timeouts, wire.ends[0].ssthresh()), (2, 2_000), "{recovery:?}: lowered");
        wire.run(Span::from_secs(60));
        assert_eq!(wire.ends[1].received(), 60_000, "{recovery:?}");
    }
}

#[test]
fn after_a_timeout_an_acknowledgement_opens_the_window_by_one_segment() {
    // Segments 10 to 29 are out at 200 ms; 10 and the first retransmission of it are lost. The retransmission after the
    // timeout is acknowledged with all that was SACKed meanwhile: RFC 3465, 2.3: L = 1 then.
    let mut wire = Wire::new(config(Recovery::Sack), DELAY, by_transmission(|seq, n| seq == 10_001 && n < 2));
    wire.ends[0].write(40_000);
    wire.ends[0].close();
    wire.run(Span::from_millis(1310));
    assert_eq!(wire.ends[0].counters().timeouts, 1);
    assert_eq!(wire.ends[0].cwnd(), 2_000);
}

#[test]
fn limited_transmit_does_not_count_for_ssthresh() {
    // RFC 5681, 3.2, step 2: the two segments that the first two duplicates let out are no part of FlightSize.
    for recovery in EVERY {
        for first in [10_001, 20_001] {
            let mut wire = Wire::new(config(recovery), DELAY, by_transmission(|seq, n| seq == first && n == 0));
            wire.ends[0].write_endlessly();
            wire.run(Span::from_millis(340));
            // cwnd is 20 segments, and 10 more when the segments before the lost one have been acknowledged.
            let expected = if first == 10_001 { 10_000 } else { 15_000 };
            assert_eq!(wire.ends[0].ssthresh(), expected, "{recovery:?} {first}");
        }
    }
}

#[test]
fn the_first_segment_of_all_can_be_retransmitted_fast() {
    // RFC 6582, 3.2, step 1: recover is the initial send sequence number before the first recovery.
    for recovery in EVERY {
        let wire = transfer(config(recovery), 30, &[0]);
        let counters = wire.ends[0].counters();
        assert_eq!((counters.timeouts, counters.recoveries, counters.retransmitted), (0, 1, 1), "{recovery:?}");
    }
}

#[test]
fn one_rescue_retransmission_saves_a_timeout() {
    // 30 segments; 10 and the last are lost. Nothing above the last is ever SACKed. RFC 6675, NextSeg (4): once HighACK
    // is above RescueRxt, which is the first retransmission, the last outstanding segment is sent.
    let wire = transfer(config(Recovery::Sack), 30, &[10, 29]);
    assert_eq!((wire.ends[0].counters().timeouts, wire.ends[0].counters().retransmitted), (0, 2));
    let again: Vec<_> = wire.data().into_iter().filter(|(_, _, again)| *again).collect();
    assert_eq!(again, [(300, 10_001, true), (400, 29_001, true)]);
    // Not before: a window whose first segment alone is lost needs no rescue, although there is no new data.
    let wire = transfer(config(Recovery::Sack), 30, &[10]);
    assert_eq!((wire.ends[0].counters().timeouts, wire.ends[0].counters().retransmitted), (0, 1));
    // The TCP of 2000 has none.
    let wire = transfer(Config { vintage: Vintage::Rfc2581, ..config(Recovery::Sack) }, 30, &[10, 29]);
    assert_eq!(wire.ends[0].counters().timeouts, 1);
}

#[test]
fn a_mark_and_a_loss_in_one_window_halve_once() {
    // RFC 3168, 6.1.2: at most one reaction to congestion in a window of data.
    for recovery in EVERY {
        let fate = |from: usize, number: usize, segment: &Segment| match number {
            12 if from == 0 && segment.len > 0 => Fate::Mark,
            16 if from == 0 && segment.len > 0 => Fate::Drop,
            _ => Fate::Pass,
        };
        let mut wire = Wire::new(Config { ecn: true, ..config(recovery) }, DELAY, fate);
        wire.ends[0].write_endlessly();
        wire.run(Span::from_millis(450));
        let counters = wire.ends[0].counters();
        assert_eq!((counters.ecn_reductions, counters.recoveries, counters.retransmitted), (1, 1, 1), "{recovery:?}");
        // 22 segments were out when the mark was echoed.
        assert_eq!(wire.ends[0].ssthresh(), 11_000, "{recovery:?}");
    }
}

#[test]
fn many_losses_in_one_window() {
    // Four of the 20 segments of the window at 200 ms.
    let lost = &[12, 15, 18, 21];
    let sack = transfer(config(Recovery::Sack), 60, lost);
    let counters = sack.ends[0].counters();
    assert_eq!((counters.timeouts, counters.recoveries, counters.retransmitted), (0, 1, 4));
    let again: Vec<_> = sack.data().into_iter().filter(|(_, _, again)| *again).map(|(at, _, _)| at).collect();
    assert_eq!(again, [300; 4], "RFC 6675 repairs all holes within one round trip");

    let newreno = transfer(config(Recovery::NewReno), 60, lost);
    let counters = newreno.ends[0].counters();
    assert_eq!((counters.timeouts, counters.recoveries, counters.retransmitted), (0, 1, 4));
    let again: Vec<_> = newreno.data().into_iter().filter(|(_, _, again)| *again).map(|(at, _, _)| at).collect();
    assert_eq!(again, [300, 400, 500, 600], "RFC 6582 repairs one hole each round trip");

    // RFC 5681 alone leaves recovery with the first new acknowledgement: it halves more than once or waits.
    let reno = transfer(config(Recovery::Reno), 60, lost);
    let counters = reno.ends[0].counters();
    assert!(counters.timeouts + counters.recoveries > 1, "{counters:?}");
}

#[test]
fn the_last_segments_of_a_window_lost_with_sack() {
    // The last two segments of a transfer: nothing above them is ever SACKed, so the timer has to help.
    let wire = transfer(config(Recovery::Sack), 30, &[28, 29]);
    assert_eq!(wire.ends[0].counters().timeouts, 1);
    assert_eq!(wire.ends[0].counters().retransmitted, 2);
}

#[test]
fn a_lost_retransmission_needs_the_timer_but_ends() {
    for recovery in EVERY {
        // Number 10 is lost; the first retransmission is data segment 30 (10 + 20 were sent before), or one later.
        let mut dropped = 0;
        let fate = move |from: usize, _: usize, segment: &Segment| {
            if from == 0 && segment.seq == 10_001 && segment.len > 0 && dropped < 2 {
                dropped += 1;
                Fate::Drop
            } else {
                Fate::Pass
            }
        };
        let mut wire = Wire::new(config(recovery), DELAY, fate);
        wire.ends[0].write(60_000);
        wire.ends[0].close();
        wire.run(Span::from_secs(30));
        assert_eq!(wire.ends[1].received(), 60_000, "{recovery:?}");
        assert_eq!(wire.ends[0].counters().timeouts, 1, "{recovery:?}");
        assert_eq!(wire.ends[0].state(), State::FinWait2, "{recovery:?}");
    }
}

#[test]
fn a_little_reordering_is_borne_and_more_is_a_loss() {
    for recovery in EVERY {
        // One of 20 comes 1 ms late, and so behind all of them: more than three duplicates.
        for (late, spurious) in [(18, 0), (10, 1)] {
            // Number 28 of the window 10..30 has one segment behind it, number 20 has nine.
            let fate = move |from: usize, number: usize, segment: &Segment| {
                let chosen = from == 0 && segment.len > 0 && number == 10 + late;
                if chosen { Fate::Late(Span::from_millis(1)) } else { Fate::Pass }
            };
            let mut wire = Wire::new(config(recovery), DELAY, fate);
            // More than the windows need: RFC 6675 spends a rescue (rule 4) when there is no new data.
            wire.ends[0].write(90_000);
            wire.ends[0].close();
            wire.run(Span::from_secs(10));
            let counters = wire.ends[0].counters();
            // RFC 6582 takes the acknowledgements of the rest of the window for partial ones, and repeats all of it.
            let newreno = recovery == Recovery::NewReno && spurious > 0;
            let again = if newreno { counters.retransmitted.min(1) } else { counters.retransmitted };
            assert_eq!((again, counters.timeouts), (spurious, 0), "{recovery:?} {late}");
            assert_eq!(wire.ends[1].received(), 90_000);
        }
    }
}

#[test]
fn the_timer_backs_off_and_the_window_begins_anew() {
    for recovery in EVERY {
        // From 200 ms on the wire is cut for a while: the window of 20 and the first retransmissions are lost.
        let mut lost = 0;
        let fate = move |from: usize, number: usize, segment: &Segment| {
            if from == 0 && segment.len > 0 && number >= 10 && lost < 23 {
                lost += 1;
                Fate::Drop
            } else {
                Fate::Pass
            }
        };
        let mut wire = Wire::new(config(recovery), DELAY, fate);
        wire.ends[0].write(100_000);
        wire.ends[0].close();
        wire.run(Span::from_secs(60));
        let again: Vec<_> = wire.data().into_iter().filter(|(_, _, again)| *again).map(|(at, _, _)| at).collect();
        // The timer was last restarted at 200 ms, when the window left. Then 1, 2, 4 s (RFC 6298, 5.5), and the
        // fourth copy arrives.
        assert_eq!(again[..4], [1200, 3200, 7200, 15_200], "{recovery:?}");
        // RFC 5681, 3.1: half of the flight of 20 once, not again for the copies; the loss window is one segment.
        assert_eq!(again[4..6], [15_300; 2], "{recovery:?}: then two");
        assert!(again[6..].iter().filter(|at| **at == 15_400).count() <= 4);
        assert_eq!(wire.ends[1].received(), 100_000);
        assert_eq!(wire.ends[0].counters().timeouts, 4);
    }
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
    let client = Endpoint::connect(config(Recovery::Sack), Instant::ZERO);
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
    let client = Endpoint::connect(config(Recovery::Sack), Instant::ZERO);
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
    let client = Endpoint::connect(config(Recovery::Sack), Instant::ZERO);
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
        let mut wire = Wire::new(Config { ecn: true, ..config(recovery) }, DELAY, fate);
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
    let client = Endpoint::connect(Config { ecn: true, ..config(Recovery::Sack) }, Instant::ZERO);
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
    let make = |mss: u64, _initial: u64| -> Box<dyn CongestionControl> {
        Box::new(Paced { window: 40 * mss, rate: 1_000_000, delivered: 0 })
    };
    let config = Config { algorithm: Algorithm::Custom(make), ..config(Recovery::Sack) };
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
            ecn: seed % 4 == 0,
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
