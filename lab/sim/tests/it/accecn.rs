//! Accurate ECN feedback (RFC 9768) between two endpoints on a scripted wire: negotiation, counts, paths that change what
//! they should not.

use tidegate_core::{Ecn, Span};
use tidegate_sim::tcp::{Config, EcnFeedback, EcnUse, Endpoint, Flags, Recovery, Segment};

use crate::wire::{DELAY, Fate, Wire, transfer};

const AE: Flags = Flags::AE;

fn config(ecn: EcnUse) -> Config {
    Config { mss: 1000, d_sack: true, timestamps: true, ecn, ..Config::default() }
}

/// The flags (AE, CWR, ECE) as a number.
fn ace(segment: &Segment) -> u8 {
    [(AE, 4), (Flags::CWR, 2), (Flags::ECE, 1)].iter().map(|(flag, bit)| u8::from(segment.flags.has(*flag)) * bit).sum()
}

/// Runs a transfer between ends that ask for these. Returns both ends' feedback, the flags of SYN and SYN-ACK, and the
/// code points of data.
fn negotiate(client: EcnUse, server: EcnUse) -> ([EcnFeedback; 2], [u8; 2], Vec<Ecn>) {
    let ends = (Endpoint::connect(config(client)), Endpoint::listen(config(server)));
    let mut wire = Wire::with_ends(ends.0, ends.1, DELAY, |_, _, _: &Segment| Fate::Pass);
    wire.ends[0].write(50_000);
    wire.ends[0].close();
    wire.run(Span::from_secs(10));
    assert_eq!(wire.ends[1].received(), 50_000);
    let flags = [0, 1].map(|from| ace(&wire.log.iter().find(|sent| sent.from == from).expect("a SYN").segment));
    let mut code_points: Vec<_> = wire.log.iter().filter(|sent| sent.is_data()).map(|sent| sent.segment.ecn).collect();
    code_points.dedup();
    ([0, 1].map(|end| wire.ends[end].ecn_feedback()), flags, code_points)
}

#[test]
fn both_ends_agree_on_the_best_that_both_have() {
    use EcnFeedback::{Accurate, Classic, None};
    let cases = [
        // Table 2: client, server, feedback, (AE, CWR, ECE) of the SYN and of the SYN-ACK, code point of data.
        (EcnUse::Accurate, EcnUse::Accurate, Accurate, [0b111, 0b010], Ecn::Ect0),
        (EcnUse::L4s, EcnUse::Accurate, Accurate, [0b111, 0b010], Ecn::Ect1),
        (EcnUse::L4s, EcnUse::Classic, Classic, [0b111, 0b001], Ecn::Ect0),
        (EcnUse::L4s, EcnUse::No, None, [0b111, 0], Ecn::NotEct),
        (EcnUse::Classic, EcnUse::L4s, Classic, [0b011, 0b001], Ecn::Ect0),
        (EcnUse::No, EcnUse::L4s, None, [0, 0], Ecn::NotEct),
        (EcnUse::Classic, EcnUse::Classic, Classic, [0b011, 0b001], Ecn::Ect0),
    ];
    for (client, server, feedback, flags, code_point) in cases {
        assert_eq!(negotiate(client, server), ([feedback; 2], flags, vec![code_point]), "{client:?} {server:?}");
    }
}

#[test]
fn the_handshake_has_its_encoding_and_the_option_of_all_counters() {
    let wire = transfer(config(EcnUse::L4s), 3, |_| Fate::Pass);
    let sent: Vec<_> = wire.log.iter().map(|sent| sent.segment).collect();
    assert_eq!(sent[0].accecn, None, "none on a SYN (3.2.3.2.1)");
    let option = sent[1].accecn.expect("on the SYN-ACK");
    assert_eq!((option.bytes(), option.ect0(), option.ce(), option.ect1()), (11, Some(1), Some(0), Some(1)));
    // Table 3: the SYN-ACK came without a code point, 0b010; a pure acknowledgement before the data (3.2.2.1).
    assert_eq!((ace(&sent[2]), sent[2].len, sent[2].accecn.is_some()), (0b010, 0, true));
    // r.cep is five (3.2.1), and the first data has the option again.
    assert_eq!((ace(&sent[3]), sent[3].len, sent[3].accecn.is_some()), (0b101, 1000, true));
    assert!(sent[4].accecn.is_none(), "no counter of the client has changed");
    // A server that receives ECT(1) alone: one field and twelve bytes less than with all of them.
    let ack = sent.iter().find(|segment| segment.ack == 2_001).expect("an acknowledgement of two segments");
    let option = ack.accecn.expect("a counter has changed");
    assert_eq!((option.bytes(), option.ect1(), ack.option_bytes()), (5, Some(2_001), 20));
    assert_eq!(option.wire(), [174, 5, 0, 0x07, 0xd1]);
}

/// Marks every `each`th data segment of a transfer; what the sender's ends count.
fn marks(config: Config, each: usize, strip: bool) -> (u64, u64) {
    let mut marked = 0;
    let fate = |from: usize, number: usize, segment: &Segment| {
        let mark = from == 0 && segment.len > 0 && number % each == each - 1;
        marked += u64::from(mark);
        if mark { Fate::Mark } else { Fate::Pass }
    };
    let mut wire = Wire::new(config, DELAY, fate);
    wire.strips_options = strip;
    wire.ends[0].write(3_000_000);
    wire.run(Span::from_secs(200));
    assert_eq!(wire.ends[1].received(), 3_000_000);
    let counts = wire.ends[0].ecn_counts();
    assert_eq!(counts.capable, 3_000_000, "all data was sent with a code point");
    drop(wire);
    (counts.ce, marked * 1000)
}

#[test]
fn every_mark_is_counted_with_options_and_without() {
    for each in [1, 2, 3, 7, 50] {
        for delayed_ack in [None, Some(Span::from_millis(100))] {
            for strip in [false, true] {
                let config = Config { delayed_ack, ..config(EcnUse::L4s) };
                let (counted, marked) = marks(config, each, strip);
                assert_eq!(counted, marked, "one of {each} marked, {delayed_ack:?}, options stripped: {strip}");
            }
        }
    }
}

#[test]
fn a_classic_control_reduces_once_for_the_marks_of_a_window() {
    for recovery in [Recovery::NewReno, Recovery::Sack] {
        // Three marks in one window, without CWR.
        let wire = transfer(Config { recovery, ..config(EcnUse::Accurate) }, 100, |number| {
            if (20..23).contains(&number) { Fate::Mark } else { Fate::Pass }
        });
        let counters = wire.ends[0].counters();
        assert_eq!((counters.ecn_reductions, counters.retransmitted), (1, 0), "{recovery:?}");
        let data = || wire.log.iter().filter(|sent| sent.is_data());
        assert!(data().all(|sent| ace(&sent.segment) == 0b101), "the ACE field of the client, never CWR (3.1.5)");
    }
}

#[test]
fn losses_of_acknowledgements_lose_no_marks() {
    // Of 2000 segments ten are marked in a row every 400, and of the acknowledgements half are lost.
    let mut acks = 0;
    let mut marked = 0;
    let fate = |from: usize, number: usize, segment: &Segment| match from {
        0 if segment.len > 0 && number % 400 >= 390 => {
            marked += 1000;
            Fate::Mark
        }
        1 if !segment.flags.has(Flags::SYN) && segment.ack < 1_900_000 => {
            acks += 1;
            if acks % 2 == 0 { Fate::Drop } else { Fate::Pass }
        }
        _ => Fate::Pass,
    };
    let mut wire = Wire::new(config(EcnUse::L4s), DELAY, fate);
    wire.ends[0].write(2_000_000);
    wire.run(Span::from_secs(600));
    let counted = wire.ends[0].ecn_counts();
    let retransmitted = wire.ends[0].counters().retransmitted;
    assert_eq!((wire.ends[1].received(), retransmitted), (2_000_000, 0));
    drop(wire);
    assert_eq!(counted.ce, marked);
}

#[test]
fn a_syn_without_an_answer_falls_back_to_none() {
    // Every SYN with flags is dropped: the third is without (3.1.4.1).
    let fate = |from: usize, _: usize, segment: &Segment| {
        let asks = from == 0 && segment.flags.has(Flags::SYN) && ace(segment) != 0;
        if asks { Fate::Drop } else { Fate::Pass }
    };
    let mut wire = Wire::new(config(EcnUse::L4s), DELAY, fate);
    wire.ends[0].write(20_000);
    wire.run(Span::from_secs(20));
    let syns: Vec<_> = wire.log.iter().filter(|sent| sent.from == 0 && sent.segment.flags.has(Flags::SYN)).collect();
    assert_eq!(syns.iter().map(|sent| ace(&sent.segment)).collect::<Vec<_>>(), [0b111, 0b111, 0]);
    assert_eq!((wire.ends[1].received(), wire.ends[0].ecn_feedback()), (20_000, EcnFeedback::None));
}

#[test]
fn a_syn_ack_that_is_lost_comes_again_without_its_option_and_then_without_flags() {
    let mut lost = 0;
    let fate = |from: usize, _: usize, segment: &Segment| {
        let drop = from == 1 && segment.flags.has(Flags::SYN) && lost < 2;
        lost += u32::from(drop);
        if drop { Fate::Drop } else { Fate::Pass }
    };
    // The client's timer is long, so that only the SYN-ACK is repeated.
    let patient = Config {
        rto: tidegate_sim::tcp::RtoBounds { initial: Span::from_secs(30), ..Default::default() },
        ..config(EcnUse::L4s)
    };
    let ends = (Endpoint::connect(patient), Endpoint::listen(config(EcnUse::L4s)));
    let mut wire = Wire::with_ends(ends.0, ends.1, DELAY, fate);
    wire.ends[0].write(20_000);
    wire.ends[1].write(20_000);
    wire.run(Span::from_secs(20));
    let answers: Vec<_> = wire.log.iter().filter(|sent| sent.from == 1 && sent.segment.flags.has(Flags::SYN)).collect();
    let seen: Vec<_> = answers.iter().map(|sent| (ace(&sent.segment), sent.segment.accecn.is_some())).collect();
    assert_eq!(seen, [(0b010, true), (0b010, false), (0, false)]);
    // The client takes the mode of the SYN-ACK that it received; the server sends no code point any more (3.1.5).
    assert_eq!(wire.ends[0].ecn_feedback(), EcnFeedback::None);
    assert!(wire.log.iter().filter(|sent| sent.is_data()).all(|sent| sent.segment.ecn == Ecn::NotEct));
    assert_eq!([wire.ends[0].received(), wire.ends[1].received()], [20_000; 2]);
}

/// The code points of the data of a transfer of 200 segments over a path that changes segments.
fn over(alter: impl Fn(usize, &mut Segment) + 'static) -> (Vec<Ecn>, EcnFeedback) {
    let mut wire = Wire::new(config(EcnUse::L4s), DELAY, |_, _, _: &Segment| Fate::Pass);
    wire.alter = Some(Box::new(alter));
    wire.ends[0].write(200_000);
    wire.run(Span::from_secs(60));
    assert_eq!(wire.ends[1].received(), 200_000);
    let code_points = wire.log.iter().filter(|sent| sent.is_data()).map(|sent| sent.segment.ecn).collect();
    (code_points, wire.ends[0].ecn_feedback())
}

#[test]
fn a_path_that_bleaches_the_code_point_is_noticed() {
    let (code_points, feedback) = over(|_, segment| segment.ecn = Ecn::NotEct);
    // A.4: after ten segments of which none was counted. The mode stays (3.1.5).
    let capable = code_points.iter().take_while(|ecn| **ecn == Ecn::Ect1).count();
    assert!(
        (10..=30).contains(&capable),
        "the first window, and two segments for each of its acknowledgements: {capable}"
    );
    assert!(code_points[capable..].iter().all(|ecn| *ecn == Ecn::NotEct));
    assert_eq!(feedback, EcnFeedback::Accurate);
}

#[test]
fn a_path_that_marks_the_syn_is_not_trusted() {
    // 3.2.2.3: not-ECT has become CE; the SYN-ACK says so.
    let (code_points, feedback) = over(|from, segment| {
        if from == 0 && segment.flags.has(Flags::SYN) {
            segment.ecn = Ecn::Ce;
        }
    });
    assert!(code_points.iter().all(|ecn| *ecn == Ecn::NotEct));
    assert_eq!(feedback, EcnFeedback::Accurate);
}

#[test]
fn a_path_that_clears_the_flags_after_the_handshake_is_not_trusted() {
    // 3.2.2.4: the first feedback is zero.
    let (code_points, _) = over(|from, segment| {
        if from == 1 && !segment.flags.has(Flags::SYN) {
            segment.flags = Flags::ACK;
        }
    });
    assert_eq!(code_points.iter().filter(|ecn| **ecn == Ecn::Ect1).count(), 10, "the first window");
}
