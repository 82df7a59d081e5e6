//! Losses: fast retransmit and recovery, the retransmission timer, reordering.

use super::*;

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

        // The first is repaired by the timeout at 1.2 s; of the two that follow at 1.3 s both are lost again,
        // which is seen 2 s later.
        let later = |seq: u32, n| (10_001..30_001).contains(&seq) && n == 0 || [11_001, 12_001].contains(&seq) && n < 2;
        let mut wire = Wire::new(config(recovery), DELAY, by_transmission(later));
        wire.ends[0].write(60_000);
        wire.run(Span::from_millis(3350));
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
        let mut wire = Wire::new(Config { ecn: EcnUse::Classic, ..config(recovery) }, DELAY, fate);
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
fn the_timer_stays_backed_off_until_a_segment_is_timed() {
    for recovery in EVERY {
        // The window of 20 is lost, and of the retransmissions the first, the third and the fourth.
        let mut seen = 0;
        let fate = move |from: usize, number: usize, segment: &Segment| {
            if from == 1 || segment.len == 0 || number < 10 {
                return Fate::Pass;
            }
            seen += 1;
            if seen < 25 && seen != 22 { Fate::Drop } else { Fate::Pass }
        };
        let mut wire = Wire::new(config(recovery), DELAY, fate);
        wire.ends[0].write(100_000);
        wire.ends[0].close();
        wire.run(Span::from_secs(60));
        let again: Vec<_> = wire.data().into_iter().filter(|(_, _, again)| *again).map(|(at, _, _)| at).collect();
        // RFC 6298, section 3: the acknowledgement at 3300 is of a retransmission, so that the RTO is 4 s still.
        assert_eq!(again[..5], [1200, 3200, 3300, 3300, 7300], "{recovery:?}");
        assert_eq!(wire.ends[1].received(), 100_000);
        // New data was sent and acknowledged since.
        assert_eq!(wire.ends[0].rtt().rto(&RtoBounds::default()), Span::from_secs(1), "{recovery:?}");
    }
}

#[test]
fn the_timer_of_the_first_data_after_a_lost_syn_is_three_seconds() {
    // RFC 6298, 5.7, whether the SYN or the SYN-ACK is lost. The SYN leaves again at 1000.
    for end in [0, 1] {
        let (mut syn, mut data) = (false, false);
        let fate = move |from: usize, _: usize, segment: &Segment| {
            let first = if segment.flags.has(Flags::SYN) {
                from == end && !core::mem::replace(&mut syn, true)
            } else {
                segment.len > 0 && !core::mem::replace(&mut data, true)
            };
            if first { Fate::Drop } else { Fate::Pass }
        };
        let mut wire = Wire::new(config(Recovery::Sack), DELAY, fate);
        wire.ends[0].write(1000);
        wire.ends[0].close();
        wire.run(Span::from_secs(60));
        let sent: Vec<_> = wire.data().into_iter().map(|(at, _, _)| at).collect();
        assert_eq!(sent, [1100, 4100], "{end}");
    }
}

#[test]
fn the_fraction_of_a_segment_is_not_lost_with_a_halving() {
    // Every 50th segment is lost. Windows of 4 to 9 segments are between two losses: a window of 4.5 sends 4, and would need
    // more than a round trip to grow.
    let time = |recovery| {
        let fate = |from: usize, number: usize, segment: &Segment| {
            if from == 0 && segment.len > 0 && number % 50 == 49 { Fate::Drop } else { Fate::Pass }
        };
        let mut wire = Wire::new(config(recovery), DELAY, fate);
        wire.ends[0].write(2_000_000);
        wire.ends[0].close();
        wire.run(Span::from_secs(60));
        assert_eq!(wire.ends[0].counters().timeouts, 0);
        wire.data().last().map_or(0, |(at, ..)| *at)
    };
    let (sack, newreno) = (time(Recovery::Sack), time(Recovery::NewReno));
    assert!(sack <= newreno + 200, "{sack} {newreno}");
}
