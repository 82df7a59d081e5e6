//! Dissects any bytes under every link type: nothing panics, lengths are consistent, the packet inside a tunnel is the innermost of its
//! layers, and rewriting changes only the field that it should.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_capture::dissect::{Dissection, layers, network, outer};
use tidegate_capture::link::{LinkType, frame};
use tidegate_capture::rewrite;
use tidegate_core::{Dscp, Ecn};

fuzz_target!(|input: &[u8]| {
    let Some((&more, bytes)) = input.split_first() else { return };
    let length = bytes.len() + usize::from(more) * 16;
    for link in LinkType::ALL {
        let seen = frame(link, bytes, length);
        assert!(seen.total as usize <= length);
        let _ = (seen.payload(), seen.payload_offset(), seen.is_pure_ack());
    }
    if let (Ok(whole), Ok(shell)) = (network(bytes, length), outer(bytes, length)) {
        // Of a packet in a tunnel these are of the packet on the line.
        let of_line = |seen: &Dissection| (seen.fields.dscp, seen.ecn, seen.total, seen.network_header);
        assert_eq!(of_line(&whole), of_line(&shell));
        assert_eq!(whole.tunnel.is_some(), whole.tunnel_header >= 20);
        assert!(whole.tunnel.is_some() || whole == shell);
        let (at, inside) = layers(bytes, length).last().expect("one at least");
        assert_eq!((inside.fields.hosts, inside.fields.source_port), (whole.fields.hosts, whole.fields.source_port));
        assert!(at <= bytes.len() && at + usize::from(inside.network_header) == whole.transport_offset());
    }
    let mut bytes = bytes.to_vec();
    let before = network(&bytes, length);
    if rewrite::set_dscp(&mut bytes, Dscp::EF) {
        if let (Ok(before), Ok(after)) = (before, network(&bytes, length)) {
            assert_eq!((after.fields.dscp, after.ecn), (Dscp::EF, before.ecn));
            assert_eq!(
                (after.fields.hosts, after.fields.source_port),
                (before.fields.hosts, before.fields.source_port)
            );
            assert_eq!(rewrite::mark_ce(&mut bytes), before.ecn != Ecn::NotEct);
        }
    }
});
