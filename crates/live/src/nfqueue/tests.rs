use super::*;
use crate::netlink::Builder;
use proptest::prelude::*;

fn packet_message(fill: impl FnOnce(&mut Body<'_>)) -> Builder {
    let mut builder = Builder::new();
    builder.message(MSG_PACKET, 0, 0, |m| {
        m.raw(&[libc::AF_INET as u8, 0, 0x01, 0x02]);
        fill(m);
    });
    builder
}

#[test]
fn every_attribute_of_a_packet_is_read() {
    let builder = packet_message(|m| {
        m.attr(1, &[0, 0, 1, 0, 0x86, 0xdd, 4]);
        m.be32(3, 0xdead_beef).be32(6, 12).be32(13, 65_226).be32(14, 3).be32(16, 1000).be32(17, 100);
        m.attr(4, &[[0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0, 0, 5]].concat());
        m.attr(10, &[0x60, 1, 2]);
    });
    let packet = Packet::parse(&Messages::new(builder.bytes()).next().unwrap()).unwrap();
    assert_eq!((packet.queue, packet.id, packet.hook), (0x0102, 256, Hook::Postrouting));
    assert_eq!((packet.hw_protocol, packet.mark, packet.outdev), (0x86dd, 0xdead_beef, 12));
    assert_eq!((packet.length, packet.gso, packet.checksum_pending), (65_226, true, true));
    assert_eq!((packet.uid, packet.gid), (Some(1000), Some(100)));
    // 2 s and 5 µs.
    assert_eq!(packet.timestamp, Some(2_000_005_000));
    assert_eq!(packet.payload, [0x60, 1, 2]);
}

#[test]
fn a_packet_without_id_is_none() {
    let builder = packet_message(|m| {
        m.attr(10, &[0x45; 20]);
    });
    assert_eq!(Packet::parse(&Messages::new(builder.bytes()).next().unwrap()), None);
}

#[test]
fn verdicts_leave_in_runs_of_whole_messages() {
    let mut verdicts = Verdicts::new();
    for id in 0..200 {
        verdicts.accept_marked(7, id, 1);
    }
    // 16 header + 4 + (4 + 8) verdict + (4 + 4) mark = 40 bytes: 94 fit into 3,776.
    let mut runs = vec![];
    let mut ids = vec![];
    while let Some((bytes, count)) = verdicts.next_chunk() {
        assert_eq!(bytes.len() as u64, 40 * count);
        runs.push(count);
        for message in Messages::new(bytes) {
            let header = message.attributes(4).find(2).unwrap();
            assert_eq!(header.be32(), Some(1));
            ids.push(u32::from_be_bytes(*header.payload.last_chunk().unwrap()));
        }
        verdicts.sent_chunk();
    }
    assert_eq!(runs, [94, 94, 12]);
    assert_eq!(ids, (0..200).collect::<Vec<_>>());
    assert!(verdicts.is_empty());
}

#[test]
fn a_rewritten_packet_larger_than_a_run_goes_alone() {
    let mut verdicts = Verdicts::new();
    verdicts.accept(1, 1);
    verdicts.accept_rewritten(1, 2, None, &[0x45; 9_000]);
    verdicts.drop(1, 3);
    let mut runs = vec![];
    while let Some((_, count)) = verdicts.next_chunk() {
        runs.push(count);
        verdicts.sent_chunk();
    }
    assert_eq!(runs, [1, 1, 1]);
}

#[test]
fn a_requeue_names_the_other_queue_and_bypasses_an_absent_one() {
    let mut verdicts = Verdicts::new();
    verdicts.requeue(1, 9, 0x0203, None);
    let (bytes, _) = verdicts.next_chunk().unwrap();
    let verdict = Messages::new(bytes).next().unwrap().attributes(4).find(2).unwrap().be32();
    assert_eq!(verdict, Some(0x0203_8003));
}

proptest! {
    #[test]
    fn random_bytes_never_make_a_packet_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut builder = Builder::new();
        builder.message(MSG_PACKET, 0, 0, |m| { m.raw(&bytes); });
        for message in Messages::new(builder.bytes()) {
            if let Some(packet) = Packet::parse(&message) {
                prop_assert!(packet.payload.len() <= bytes.len());
            }
        }
    }
}
