//! Worked examples, floods, and invalid parameters.

use super::*;
use crate::classify::Fragment;
use crate::random::Stream;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

fn piece(datagram: u32, offset: u16, v6: bool) -> Fields {
    let hosts = if v6 {
        Hosts::V6 { source: [datagram as u16 % 5; 8].into(), destination: [2; 8].into() }
    } else {
        Hosts::V4 { source: [10, 0, 0, (datagram % 5) as u8].into(), destination: [10, 1, 0, 0].into() }
    };
    Fields {
        hosts,
        // An IPv6 fragment after the first may have another next header.
        protocol: Some(if v6 && offset > 0 { 60 } else { 17 }),
        destination_port: (offset == 0).then_some(datagram as u16),
        fragment: Some(Fragment { id: datagram, offset, more: offset < 4_000 }),
        ..Fields::default()
    }
}

/// The port, or `None` when classified by addresses.
type Table = Fragments<Piece, Option<u16>>;
/// Datagram, offset, serial number of the arrival.
type Piece = (u32, u16, u64);

fn feed(table: &mut Table, now: u64, fields: &Fields, serial: u64, out: &mut Vec<(Piece, Option<u16>)>) {
    let fragment = fields.fragment.unwrap();
    table.arrive(
        Instant::from_nanos(now),
        fields,
        (fragment.id, fragment.offset, serial),
        Bytes::new(1_000),
        &mut |fields| fields.destination_port,
        &mut |packet, verdict| out.push((packet, verdict)),
    );
}

fn small() -> Params {
    Params {
        datagrams: 40,
        held_packets: 30,
        held_per_datagram: 4,
        held_bytes: Bytes::new(25_000),
        hold: Span::from_nanos(1_000),
        idle: Span::from_nanos(5_000),
    }
}

/// Five fragments of each of a few datagrams at a time, shuffled within the bounds: every fragment gets the port of
/// the first, the first leaves before the others, and these in the order of arrival.
#[test]
fn shuffled_pieces_go_where_the_first_goes() {
    for seed in 0..200 {
        let mut draw = Stream::named(seed, "fragments");
        let mut table = Table::new(small(), [seed, 1]).unwrap();
        let mut out = vec![];
        let mut serial = 0;
        for round in 0..30_u32 {
            let mut pieces: Vec<(u32, u16)> =
                (0..6).flat_map(|n| (0..5).map(move |i| (6 * round + n, i * 1_000))).collect();
            for i in (1..pieces.len()).rev() {
                pieces.swap(i, draw.below(i as u64 + 1) as usize);
            }
            for (n, offset) in pieces {
                serial += 1;
                // At most 30 ns pass in a round; at most 24 packets of 1000 bytes wait.
                feed(&mut table, u64::from(round) * 100 + serial % 31, &piece(n, offset, n & 1 == 0), serial, &mut out);
            }
            assert!(table.backlog().is_empty());
        }
        assert_eq!(out.len(), 30 * 30);
        let mut last = BTreeMap::new();
        for &((n, offset, serial), verdict) in &out {
            assert_eq!(verdict, Some(n as u16));
            // The first piece opens its datagram.
            assert_eq!(last.contains_key(&n), offset != 0);
            let before = last.insert(n, if offset == 0 { 0 } else { serial });
            assert!(before.is_none_or(|before| before < serial));
        }
        let counts = table.counts();
        assert!(counts.held > 200);
        assert_eq!((counts.resolved, counts.expired, counts.refused), (counts.held, 0, 0));
    }
}

/// Floods, lost first fragments, time that jumps and runs back: nothing is lost or duplicated, bounds and deadlines
/// hold, and the classification of a recorded datagram does not change.
#[test]
fn bounds_hold_in_a_flood() {
    let mut total = Counts::default();
    for seed in 0..60 {
        let mut draw = Stream::named(seed, "flood");
        let mut table = Table::new(small(), [seed, 2]).unwrap();
        let (mut out, mut now, mut serial) = (vec![], 0_u64, 0);
        for _ in 0..3_000 {
            now = (now + draw.below(45)).saturating_sub(draw.below(2) * 20);
            if draw.below(400) == 0 {
                now += 4_000;
            }
            serial += 1;
            // Datagrams around a moving number, many without their first fragment.
            let n = (serial / 4) as u32 + draw.below(40) as u32;
            let offset = if n.is_multiple_of(3) { 1 + draw.below(4) } else { draw.below(5) } as u16 * 1_000;
            feed(&mut table, now, &piece(n, offset, n & 1 == 0), serial, &mut out);
            let backlog = table.backlog();
            assert!(backlog.packets <= 30 && backlog.bytes <= Bytes::new(25_000));
            assert!(table.records.slots() <= 40 && table.index.len() <= 40 && table.packets.slots() <= 30);
            assert_eq!(out.len() as u64 + backlog.packets, serial);
            if let Some(deadline) = table.deadline() {
                let before = out.len();
                assert!(deadline > table.now);
                if draw.below(60) == 0 {
                    now = now.max(deadline.as_nanos());
                    let mut emit = |packet, verdict| out.push((packet, verdict));
                    table.expire(Instant::from_nanos(deadline.as_nanos() - 1), &mut emit);
                    table.expire(deadline, &mut emit);
                    assert!(out.len() > before, "a packet leaves at its deadline");
                }
            }
        }
        table.drain(&mut |packet, verdict| out.push((packet, verdict)));
        assert!(table.backlog().is_empty());
        let mut serials: Vec<u64> = out.iter().map(|(packet, _)| packet.2).collect();
        serials.sort_unstable();
        assert!(serials.into_iter().eq(1..=serial));
        let counts = table.counts();
        assert_eq!(counts.held, counts.resolved + counts.expired);
        assert!(out.iter().all(|((n, _, _), verdict)| verdict.is_none_or(|port| port == *n as u16)));
        total.held += counts.held;
        total.expired += counts.expired;
        total.refused += counts.refused;
        total.forgotten += counts.forgotten;
    }
    assert!(total.held > 1_000 && total.expired > 1_000 && total.refused > 100 && total.forgotten > 100, "{total:?}");
}

#[test]
fn a_verdict_by_addresses_binds_the_first_piece_too() {
    let mut table = Table::new(small(), [0, 0]).unwrap();
    let mut out = vec![];
    feed(&mut table, 0, &piece(7, 1_000, false), 1, &mut out);
    assert_eq!(table.deadline(), Some(Instant::from_nanos(1_000)));
    feed(&mut table, 1_000, &piece(7, 0, false), 2, &mut out);
    feed(&mut table, 1_001, &piece(7, 2_000, false), 3, &mut out);
    assert_eq!(out, [((7, 1_000, 1), None), ((7, 0, 2), None), ((7, 2_000, 3), None)]);
    // Idle for longer than 5,000 ns it is removed, and the same number is a new datagram.
    feed(&mut table, 6_002, &piece(7, 0, false), 4, &mut out);
    assert_eq!(out[3].1, Some(7));
    // A second first fragment, of a datagram that reuses the number, is classified by itself.
    let mut other = piece(7, 0, false);
    other.destination_port = Some(9);
    feed(&mut table, 6_003, &other, 5, &mut out);
    feed(&mut table, 6_004, &piece(7, 1_000, false), 6, &mut out);
    assert_eq!(out[4..], [((7, 0, 5), Some(9)), ((7, 1_000, 6), Some(9))]);
}

#[test]
fn what_is_whole_passes() {
    let mut table = Table::new(small(), [0, 0]).unwrap();
    let mut out = vec![];
    let mut whole = piece(1, 0, true);
    whole.fragment = Some(Fragment { id: 1, offset: 0, more: false });
    feed(&mut table, 0, &whole, 1, &mut out);
    assert_eq!((out.len(), table.records.slots()), (1, 0));
    assert!(size_of::<Record<()>>() <= 160);
}

#[test]
fn impossible_parameters_are_named() {
    let field = |params: Params| params.validate().unwrap_err().field;
    assert_eq!(field(Params { datagrams: 0, ..small() }), "datagrams");
    assert_eq!(field(Params { held_packets: 40, ..small() }), "held_packets");
    assert_eq!(field(Params { idle: Span::ZERO, ..small() }), "idle");
}
