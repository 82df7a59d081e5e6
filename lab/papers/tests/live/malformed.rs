//! Packets that nobody should send.

use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket};
use tidegate_live::rtnl::Rtnl;
use tidegate_testbed::{Pair, Senders, Sink};

use crate::flows::{measure, near, udp, until};
use crate::rates::shape;
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

/// A header of IPv4 without checksum and length, which the kernel fills in, and `payload`.
fn packet(pair: &Pair, version: u8, options: &[u8], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let words = 5 + options.len() / 4;
    let mut packet = vec![version << 4 | words as u8, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    packet.extend(pair.sender.v4.octets());
    packet.extend(pair.receiver.v4.octets());
    packet.extend(options);
    packet.extend(payload);
    packet
}

pub fn nothing_is_lost_and_shaping_goes_on() -> Ended {
    patiently(misuse)
}

fn misuse() -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    for host in [&pair.sender, &pair.receiver] {
        let enlarge = || {
            let mut rtnl = Rtnl::open()?;
            let index = rtnl.index(host.interface)?;
            rtnl.set_mtu(index, 9_000)
        };
        host.namespace.run(enlarge).expect("a thread").expect("a large MTU");
    }
    let shaping = shape(
        &pair,
        "version = 1\n[interface]\nmtu = \"9000B\"\n[[class]]\nname = \"all\"\nrate = \"5mbit\"\ndefault = true\n\
         [[rule]]\nclass = \"all\"\nprotocol = \"udp\"\n",
    );
    let received = || {
        let link = pair.receiver.namespace.run(|| Rtnl::open()?.link("tg1")).expect("a thread").expect("an answer");
        link.expect("the link").statistics.rx_packets
    };
    let kinds = [
        // A version that does not exist.
        packet(&pair, 5, &[], 17, &[0; 40]),
        // Options whose lengths lie, and one that is cut off.
        packet(&pair, 4, &[7, 255, 0, 0], 17, &[0; 20]),
        packet(&pair, 4, &[68, 0, 131, 1, 0, 0, 0, 148], 6, &[0; 20]),
        // Transport headers that end early, or claim more than there is.
        packet(&pair, 4, &[], 6, &[0x13, 0x88, 0x13]),
        packet(&pair, 4, &[], 6, &[0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x10, 0, 0]),
        packet(&pair, 4, &[], 17, &[1, 2, 3, 4, 0xff, 0xff]),
        packet(&pair, 4, &[], 1, &[]),
        // Protocols that nobody knows, small and as large as the link takes.
        packet(&pair, 4, &[], 253, &[0xa5; 100]),
        packet(&pair, 4, &[], 253, &[0xa5; 8_980]),
        packet(&pair, 4, &[], 253, &[]),
    ];
    let raw = pair
        .sender
        .namespace
        .run(|| socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Raw))
        .expect("a thread")
        .expect("a raw socket");
    let target = SockaddrIn::from(SocketAddrV4::new(pair.receiver.v4, 0));
    let before = (received(), shaping.counts().expect("an answer"));
    let outside = shaping.with(|engine, _| engine.unclassified()).expect("an answer");
    for _ in 0..5 {
        for (n, kind) in kinds.iter().enumerate() {
            let sent = sendto(raw.as_raw_fd(), kind, &target, MsgFlags::empty());
            assert_eq!(sent, Ok(kind.len()), "kind {n}");
        }
    }
    let sent = 5 * kinds.len() as u64;
    until("all have passed", || shaping.counts().expect("an answer").passed >= before.1.passed + sent);
    until("all have arrived", || received() >= before.0 + sent);
    let counts = shaping.counts().expect("an answer");
    assert_eq!(counts.refused, before.1.refused);
    assert!(counts.unreadable >= before.1.unreadable + 5, "{counts:?}");
    let unclassified = shaping.with(|engine, _| engine.unclassified()).expect("an answer") - outside;
    assert!(unclassified >= 15, "{unclassified}");
    // A datagram as large as the link takes, whole.
    let large = pair.receiver.namespace.run(|| UdpSocket::bind((pair.receiver.v4, 6_000))).expect("a thread");
    let large = large.expect("a port");
    large.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let from = pair.sender.namespace.run(|| UdpSocket::bind((pair.sender.v4, 0))).expect("a thread").expect("a port");
    let text: Vec<u8> = (0..8_972_u32).map(|n| n as u8).collect();
    from.send_to(&text, (pair.receiver.v4, 6_000)).expect("sent");
    let mut buffer = vec![0; 9_000];
    let n = large.recv(&mut buffer).expect("it arrives");
    assert_eq!(buffer[..n], text);
    // And the rate is what it was.
    let flows = [udp(0, 8_000, 1_000)];
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    sleep(Duration::from_millis(500));
    let rate = measure(&sink, 1, Duration::from_millis(1_500))[0];
    senders.stop();
    shaping.stop().expect("an orderly end");
    near(rate, 5e6, 0.03)
}
