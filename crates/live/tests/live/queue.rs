//! Packets out of the queue and verdicts into it.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use tidegate_live::nfqueue::{Hook, Packet, QueueSettings, QueueSocket, Ring, Verdicts};
use tidegate_live::rules::{Rules, Spec};

use crate::support::{DEVICE, Ended, LEFT, Pair, RIGHT};

pub const QUEUE: u16 = 40;

/// Receives until `enough` packets counted or two seconds went by; `decide` gives each its verdict and says whether it
/// counts.
pub fn serve(
    socket: &mut QueueSocket,
    enough: usize,
    mut decide: impl FnMut(&Packet<'_>, &mut Verdicts) -> bool,
) -> usize {
    let (mut ring, mut verdicts) = (Ring::new(128), Verdicts::new());
    let deadline = Instant::now() + Duration::from_secs(2);
    let mut seen = 0;
    while seen < enough && Instant::now() < deadline {
        if socket.receive(&mut ring).unwrap() == 0 {
            std::thread::sleep(Duration::from_micros(100));
            continue;
        }
        for packet in ring.packets() {
            seen += usize::from(decide(&packet, &mut verdicts));
        }
        socket.send(&mut verdicts).unwrap();
    }
    seen
}

pub fn packets_of_both_families_arrive_and_verdicts_work() -> Ended {
    let pair = Pair::new();
    let (mut socket, rules) = pair
        .left
        .run(|| {
            let mut socket = QueueSocket::open(1 << 20).unwrap();
            let report = socket.bind(QUEUE, &QueueSettings::default()).unwrap();
            assert!(report.gso.in_force() && report.owners.in_force(), "{report:?}");
            assert!(report.fail_open.in_force() && report.max_length.in_force(), "{report:?}");
            (socket, Rules::install(&Spec::new(DEVICE, QUEUE)).unwrap())
        })
        .unwrap();
    eprintln!("{}; refused before: {:?}", rules.installed(), rules.installed().refused);
    for family in [0, 1] {
        let receiver = pair.right.run(|| UdpSocket::bind((RIGHT[family], 7000)).unwrap()).unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let sender = pair.left.run(|| UdpSocket::bind((LEFT[family], 0)).unwrap()).unwrap();
        for text in ["one", "two", "three"] {
            sender.send_to(text.as_bytes(), (RIGHT[family], 7000)).unwrap();
        }
        let mut udp = 0;
        let uid = tidegate_live::netns::outside_uid(0).unwrap();
        serve(&mut socket, 3, |packet, verdicts| {
            let header = if family == 0 { 20 } else { 40 };
            if packet.payload[if family == 0 { 9 } else { 6 }] != 17 {
                verdicts.accept(packet.queue, packet.id); // IPv6 router solicitations and the like
                return false;
            }
            udp += 1;
            assert_eq!((packet.queue, packet.hook), (QUEUE, Hook::Postrouting));
            assert_eq!(packet.hw_protocol, [0x0800, 0x86dd][family]);
            assert_eq!(packet.uid, Some(uid));
            assert_eq!(packet.length as usize, packet.payload.len());
            match &packet.payload[header + 8..] {
                b"two" => verdicts.drop(packet.queue, packet.id),
                _ => verdicts.accept(packet.queue, packet.id),
            }
            true
        });
        let mut buffer = [0; 64];
        let mut texts = vec![];
        while let Ok((length, _)) = receiver.recv_from(&mut buffer) {
            texts.push(String::from_utf8(buffer[..length].to_vec()).unwrap());
        }
        assert_eq!((udp, texts.join(" ").as_str()), (3, "one three"), "family {family}");
    }
    assert_eq!(socket.counters().refused_verdicts, 0);
    Ended::Passed
}
