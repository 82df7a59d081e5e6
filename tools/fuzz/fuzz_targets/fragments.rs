//! For any sequence of fragments and times every packet leaves once, within the bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_core::classify::{Fields, Fragment, Hosts};
use tidegate_core::fragments::{Fragments, Params};
use tidegate_core::{Bytes, Instant, Span};

fuzz_target!(|input: &[u8]| {
    let params = Params {
        datagrams: 8,
        held_packets: 6,
        held_per_datagram: 3,
        held_bytes: Bytes::new(4_000),
        hold: Span::from_nanos(50),
        idle: Span::from_nanos(200),
    };
    let mut table = Fragments::<usize, Option<u16>>::new(params, [1, 2]).expect("possible parameters");
    let (steps, _) = input.as_chunks::<3>();
    let mut left = vec![0_u8; steps.len()];
    for (serial, &[what, id, now]) in steps.iter().enumerate() {
        let offset = u16::from(what & 3) * 8;
        let fields = Fields {
            hosts: Hosts::V4 { source: [10, 0, 0, id & 1].into(), destination: [10, 0, 0, 9].into() },
            destination_port: (offset == 0).then_some(id.into()),
            fragment: Some(Fragment { id: (id % 16).into(), offset, more: what & 4 != 0 }),
            ..Fields::default()
        };
        let (now, size) = (Instant::from_nanos(u64::from(now) * 4), Bytes::new(u64::from(what) * 8));
        let mut out = |packet: usize, _| left[packet] += 1;
        table.arrive(now, &fields, serial, size, &mut |fields| fields.destination_port, &mut out);
        assert!(table.backlog().packets <= 6 && table.backlog().bytes <= Bytes::new(4_000));
    }
    table.drain(&mut |packet, _| left[packet] += 1);
    assert!(left.iter().all(|&count| count == 1));
});
