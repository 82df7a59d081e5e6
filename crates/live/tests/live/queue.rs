//! Packets from the queue and verdicts.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_live::netns::outside_uid;
use tidegate_live::nfqueue::{
    Hook, Outcome, Packet, QueueSettings, QueueSocket, Ring, Superpackets, Verdicts, WhenFull, queue_counters,
};
use tidegate_live::rtnl::sysctl;
use tidegate_live::rules::{DividedBy, QUEUES_OF_ONE, Rules, Spec};

use tidegate_testbed::Ended;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT};

pub const QUEUE: u16 = 40;
pub const SEGMENTS: u16 = 41;
pub const PORT: u16 = 7000;

/// How long to wait for what must arrive, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How long to wait for what must not arrive.
const QUIET: Duration = Duration::from_millis(200);

/// Receives until `enough` packets counted or [`PATIENCE`] is over; `decide` sets the verdict of each and returns
/// whether it counts.
pub fn serve(
    socket: &mut QueueSocket,
    enough: usize,
    mut decide: impl FnMut(&Packet<'_>, &mut Verdicts) -> bool,
) -> usize {
    let mut seen = 0;
    let deadline = Instant::now() + PATIENCE;
    serve_until(
        socket,
        || Instant::now() > deadline,
        |packet, verdicts| {
            seen += usize::from(decide(packet, verdicts));
            seen >= enough
        },
    );
    seen
}

/// Serves until `decide` or `stop` ends it.
pub fn serve_until(
    socket: &mut QueueSocket,
    stop: impl Fn() -> bool,
    mut decide: impl FnMut(&Packet<'_>, &mut Verdicts) -> bool,
) {
    let (mut ring, mut verdicts) = (Ring::new(128), Verdicts::new());
    let mut done = false;
    while !done && !stop() {
        if socket.receive(&mut ring).unwrap() == 0 {
            std::thread::sleep(Duration::from_micros(100));
            continue;
        }
        for packet in ring.packets() {
            done |= decide(&packet, &mut verdicts);
        }
        socket.send(&mut verdicts).unwrap();
    }
}

/// Serves queued and arriving packets, until none has arrived for a while.
pub fn drain(socket: &mut QueueSocket, mut decide: impl FnMut(&Packet<'_>, &mut Verdicts)) {
    let came = Cell::new(Instant::now());
    // Checked after each empty read: a pause in scheduling must not count as silence.
    let turns = Cell::new(0);
    let stop = || {
        turns.set(turns.get() + 1);
        came.get().elapsed() > QUIET && turns.get() > 20
    };
    serve_until(socket, stop, |packet, verdicts| {
        came.set(Instant::now());
        turns.set(0);
        decide(packet, verdicts);
        false
    });
}

fn accept(packet: &Packet<'_>, verdicts: &mut Verdicts) {
    verdicts.accept(packet.queue, packet.id);
}

/// A served queue and its rules in the left namespace.
pub fn shaped(pair: &Pair, spec: &Spec, settings: &[(u16, QueueSettings)]) -> (QueueSocket, Rules) {
    let inside = || {
        let mut socket = QueueSocket::open(4 << 20).unwrap();
        for (queue, settings) in settings {
            socket.bind(*queue, settings).unwrap();
        }
        (socket, Rules::install(spec).unwrap())
    };
    pair.left.run(inside).unwrap()
}

pub fn default_queue() -> [(u16, QueueSettings); 1] {
    [(QUEUE, QueueSettings::default())]
}

/// The transport protocol and where its header begins.
pub fn transport(packet: &Packet<'_>) -> (u8, usize) {
    match packet.hw_protocol {
        0x0800 => (packet.payload[9], usize::from(packet.payload[0] & 15) * 4),
        _ => (packet.payload[6], 40),
    }
}

/// Sockets on both sides.
pub fn udp(pair: &Pair, family: usize) -> (UdpSocket, UdpSocket) {
    let receiver = pair.right.run(|| UdpSocket::bind((RIGHT[family], PORT)).unwrap()).unwrap();
    let sender = pair.left.run(|| UdpSocket::bind((LEFT[family], 0)).unwrap()).unwrap();
    sender.connect((RIGHT[family], PORT)).unwrap();
    (sender, receiver)
}

/// The arriving datagrams as text: `expected` ones, and those that follow at once.
pub fn texts(receiver: &UdpSocket, expected: usize) -> Vec<String> {
    let mut buffer = [0; 2048];
    let mut texts = vec![];
    loop {
        let patience = if texts.len() < expected { PATIENCE } else { QUIET };
        receiver.set_read_timeout(Some(patience)).unwrap();
        let Ok(length) = receiver.recv(&mut buffer) else { return texts };
        texts.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
}

/// Sends `bytes` over TCP from left to right while `decide` sets the verdict of every packet; returns whether all bytes
/// arrived intact.
pub fn stream(
    pair: &Pair,
    socket: &mut QueueSocket,
    family: usize,
    bytes: usize,
    mut decide: impl FnMut(&Packet<'_>, &mut Verdicts),
) -> bool {
    let to: IpAddr = RIGHT[family];
    let listener = pair.right.run(|| TcpListener::bind((to, PORT)).unwrap()).unwrap();
    let pattern = |i: usize| (i % 251) as u8;
    let done = AtomicBool::new(false);
    let done = &done;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut buffer, mut at, mut good) = (vec![0; 1 << 16], 0, true);
            while let Ok(length) = stream.read(&mut buffer)
                && length > 0
            {
                good &= buffer[..length].iter().enumerate().all(|(i, b)| *b == pattern(at + i));
                at += length;
            }
            done.store(true, Ordering::Relaxed);
            good && at == bytes
        });
        pair.left
            .spawn("sender", move || {
                let mut stream = TcpStream::connect(SocketAddr::new(to, PORT)).unwrap();
                let data: Vec<u8> = (0..bytes).map(pattern).collect();
                stream.write_all(&data).unwrap();
            })
            .unwrap();
        let deadline = Instant::now() + 3 * PATIENCE;
        let stop = || done.load(Ordering::Relaxed) || Instant::now() > deadline;
        serve_until(socket, stop, |packet, verdicts| {
            decide(packet, verdicts);
            false
        });
        receiver.join().unwrap()
    })
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
        let (sender, receiver) = udp(&pair, family);
        for text in ["one", "two", "three"] {
            sender.send(text.as_bytes()).unwrap();
        }
        let uid = outside_uid(0).unwrap();
        let udp = serve(&mut socket, 3, |packet, verdicts| {
            let (protocol, header) = transport(packet);
            if protocol != 17 {
                verdicts.accept(packet.queue, packet.id); // IPv6 multicast reports
                return false;
            }
            assert_eq!((packet.queue, packet.hook), (QUEUE, Hook::Postrouting));
            assert_eq!(packet.hw_protocol, [0x0800, 0x86dd][family]);
            assert_eq!((packet.uid, packet.indev), (Some(uid), 0));
            assert!(packet.outdev > 1 && !packet.gso);
            assert_eq!(packet.length as usize, packet.payload.len());
            match &packet.payload[header + 8..] {
                b"two" => verdicts.drop(packet.queue, packet.id),
                _ => verdicts.accept(packet.queue, packet.id),
            }
            true
        });
        assert_eq!((udp, texts(&receiver, 2).join(" ").as_str()), (3, "one three"), "family {family}");
    }
    assert_eq!(socket.counters().refused_verdicts, 0);
    Ended::Passed
}

pub fn verdicts_may_come_in_any_order() -> Ended {
    let pair = Pair::new();
    let (mut socket, _rules) = shaped(&pair, &Spec::new(DEVICE, QUEUE), &default_queue());
    let (sender, receiver) = udp(&pair, 0);
    for i in 0..200 {
        sender.send(format!("{i}").as_bytes()).unwrap();
    }
    let mut held = vec![];
    let count = serve(&mut socket, 200, |packet, verdicts| {
        let ours = transport(packet).0 == 17;
        match ours {
            true => held.push(packet.id),
            false => verdicts.accept(packet.queue, packet.id),
        }
        ours
    });
    assert_eq!(count, 200);
    if let Ok(list) = pair.left.run(queue_counters).unwrap() {
        let ours = list.iter().find(|q| q.queue == QUEUE).unwrap();
        assert_eq!((ours.waiting, ours.port), (200, socket.port()));
    }
    let mut verdicts = Verdicts::new();
    held.iter().rev().for_each(|id| verdicts.accept(QUEUE, *id));
    // A verdict for an unknown packet is refused without effect on the others.
    verdicts.accept(QUEUE, 1_000_000);
    assert_eq!(verdicts.len(), 201);
    socket.send(&mut verdicts).unwrap();
    assert!(verdicts.is_empty());
    let expected: Vec<_> = (0..200).rev().map(|i| format!("{i}")).collect();
    assert_eq!(texts(&receiver, 200), expected);
    drain(&mut socket, accept);
    // Perhaps a packet of the kernel, about neighbours.
    assert!(socket.receive(&mut Ring::new(128)).unwrap() < 3);
    assert_eq!((socket.counters().refused_verdicts, socket.counters().last_refusal), (1, libc::ENOENT));
    Ended::Passed
}

pub fn superpackets_arrive_whole() -> Ended {
    let pair = Pair::new();
    let (mut socket, _rules) = shaped(&pair, &Spec::new(DEVICE, QUEUE), &default_queue());
    for family in [0, 1] {
        let mut largest = 0;
        let good = stream(&pair, &mut socket, family, 20_000_000, |packet, verdicts| {
            if packet.gso {
                largest = largest.max(packet.length);
                assert!(packet.payload.len() <= 128);
            }
            verdicts.accept(packet.queue, packet.id);
        });
        assert!(good, "family {family}");
        assert!(largest > 20_000, "the largest superpacket had {largest} bytes");
    }
    Ended::Passed
}

pub fn a_requeued_superpacket_comes_out_of_the_second_queue_in_segments_in_order() -> Ended {
    let pair = Pair::new();
    let segments = QueueSettings { superpackets: Superpackets::Segmented, ..QueueSettings::default() };
    let queues = [(QUEUE, QueueSettings::default()), (SEGMENTS, segments)];
    let (mut socket, _rules) = shaped(&pair, &Spec::new(DEVICE, QUEUE), &queues);
    for family in [0, 1] {
        let (mut whole, mut cut, mut marked) = (0, 0, 0);
        let mut next: Option<u32> = None;
        let good = stream(&pair, &mut socket, family, 5_000_000, |packet, verdicts| {
            if packet.queue == QUEUE {
                whole += u32::from(packet.gso);
                // All packets of a flow take the same path, otherwise those that are not segmented would overtake.
                return verdicts.requeue(QUEUE, packet.id, SEGMENTS, Some(0x77));
            }
            assert!(!packet.gso && packet.length <= 1500, "{packet:?}");
            marked += u32::from(packet.mark == 0x77);
            let (protocol, at) = transport(packet);
            if protocol == 6 {
                let number = u32::from_be_bytes(*packet.payload[at + 4..].first_chunk().unwrap());
                let data = packet.length - at as u32 - u32::from(packet.payload[at + 12] >> 4) * 4;
                if data > 0 {
                    // A segment may repeat an old one (a retransmission), it never leaves a gap.
                    let expected = next.unwrap_or(number);
                    assert!(number.wrapping_sub(expected) as i32 <= 0, "gap before {number}, expected {expected}");
                    if number == expected {
                        next = Some(number.wrapping_add(data));
                    }
                    cut += 1;
                }
            }
            verdicts.accept(packet.queue, packet.id);
        });
        assert!(good, "family {family}");
        assert!(whole > 0 && cut > 5_000_000 / 1460 && marked >= cut, "{whole} whole, {cut} cut, {marked} marked");
    }
    Ended::Passed
}

pub fn a_full_queue_lets_packets_pass() -> Ended {
    for (when_full, arrive) in [(WhenFull::Pass, 6), (WhenFull::Drop, 0)] {
        let pair = Pair::new();
        let settings = QueueSettings { max_length: 4, when_full, ..QueueSettings::default() };
        let (mut socket, _rules) = shaped(&pair, &Spec::new(DEVICE, QUEUE), &[(QUEUE, settings)]);
        // IPv6 packets that are sent when an interface comes up would occupy the queue.
        pair.left.run(|| sysctl::write("ipv6/conf/tg0/disable_ipv6", "1").unwrap()).unwrap();
        drain(&mut socket, accept);
        let (sender, receiver) = udp(&pair, 0);
        for i in 0..10 {
            sender.send(&[b'0' + i]).unwrap();
        }
        let arrived = texts(&receiver, arrive).len();
        let mut held = 0;
        drain(&mut socket, |packet, verdicts| {
            held += u32::from(transport(packet).0 == 17);
            accept(packet, verdicts);
        });
        assert_eq!((arrived, held), (arrive, 4), "{when_full:?}");
    }
    Ended::Passed
}

pub fn an_overrun_is_counted_and_the_queue_goes_on() -> Ended {
    let pair = Pair::new();
    let inside = || {
        let mut socket = QueueSocket::open(1).unwrap(); // the kernel's least
        socket.bind(QUEUE, &QueueSettings::default()).unwrap();
        (socket, Rules::install(&Spec::new(DEVICE, QUEUE)).unwrap())
    };
    let (mut socket, _rules) = pair.left.run(inside).unwrap();
    let (sender, receiver) = udp(&pair, 0);
    for _ in 0..100 {
        sender.send(b"flood").unwrap();
    }
    let mut served = 0;
    drain(&mut socket, |packet, verdicts| {
        served += 1;
        accept(packet, verdicts);
    });
    let counters = socket.counters();
    assert!(served < 100 && counters.overruns >= 1, "{served} served, {counters:?}");
    // Fail-open: packets that did not fit into the buffer passed.
    assert_eq!(texts(&receiver, 100).len(), 100);
    // The buffer holds a packet or two: one of the neighbours' protocols may take its place, and it passes by.
    let (mut sent, mut served) = (0, 0);
    while served == 0 && sent < 100 {
        sender.send(b"after").unwrap();
        sent += 1;
        drain(&mut socket, |packet, verdicts| {
            served += usize::from(transport(packet).0 == 17);
            accept(packet, verdicts);
        });
    }
    println!("  {sent} sent until one came");
    assert_eq!(served, 1, "of {sent}");
    assert_eq!(texts(&receiver, sent), vec!["after"; sent]);
    Ended::Passed
}

pub fn a_payload_is_rewritten() -> Ended {
    let pair = Pair::new();
    // Without GSO the kernel fills in the checksum before it queues a packet, so that a rewritten one can be right.
    let settings = QueueSettings { superpackets: Superpackets::Segmented, ..QueueSettings::default() };
    let (mut socket, _rules) = shaped(&pair, &Spec::new(DEVICE, QUEUE), &[(QUEUE, settings)]);
    for family in [0, 1] {
        let (sender, receiver) = udp(&pair, family);
        sender.send(b"abcdwxyz").unwrap();
        let count = serve(&mut socket, 1, |packet, verdicts| {
            let (protocol, at) = transport(packet);
            if protocol != 17 {
                verdicts.accept(packet.queue, packet.id);
                return false;
            }
            assert!(!packet.checksum_pending);
            let mut bytes = packet.payload.to_vec();
            // The checksum does not depend on the order of 16-bit words and stays correct.
            bytes[at + 8..].copy_from_slice(b"wxyzabcd");
            verdicts.accept_rewritten(packet.queue, packet.id, None, &bytes);
            true
        });
        assert_eq!(count, 1);
        assert_eq!(texts(&receiver, 1), ["wxyzabcd"], "family {family}");
    }
    Ended::Passed
}

pub fn a_foreign_queue_is_refused_with_a_reason() -> Ended {
    let pair = Pair::new();
    pair.left
        .run(|| {
            let mut first = QueueSocket::open(1 << 16).unwrap();
            let report = first
                .bind(QUEUE, &QueueSettings { superpackets: Superpackets::Segmented, ..QueueSettings::default() })
                .unwrap();
            assert_eq!(report.gso, Outcome::NotAsked);
            let mut second = QueueSocket::open(1 << 16).unwrap();
            let error = second.bind(QUEUE, &QueueSettings::default()).unwrap_err();
            assert!(error.to_string().contains("another program serves this queue"), "{error}");
            first.unbind(QUEUE).unwrap();
            second.bind(QUEUE, &QueueSettings::default()).unwrap();
            assert_eq!((first.queues(), second.queues()), (&[][..], &[QUEUE][..]));
        })
        .unwrap();
    Ended::Passed
}

pub fn several_queues_share_the_flows() -> Ended {
    let pair = Pair::new();
    let settings = QueueSettings::default();
    // Of one sender: by its address all are in one queue.
    for divided_by in [DividedBy::HostPair, DividedBy::Destination, DividedBy::Source] {
        let first = divide(&pair, &Spec { threads: 2, divided_by, ..Spec::new(DEVICE, QUEUE) }, settings);
        let is_one = divided_by == DividedBy::Source;
        let expected = if is_one { first == 0 || first == 32 } else { (4..=28).contains(&first) };
        assert!(expected, "{first} of 32 destinations in the first queue, divided by {divided_by:?}");
    }
    Ended::Passed
}

/// Sends to 32 hosts, twice; returns how many of them are in the first queue.
fn divide(pair: &Pair, spec: &Spec, settings: QueueSettings) -> usize {
    let (mut socket, _rules) = shaped(pair, spec, &[(QUEUE, settings), (QUEUE + QUEUES_OF_ONE, settings)]);
    let sender = pair.left.run(|| UdpSocket::bind((LEFT[0], 0)).unwrap()).unwrap();
    let mut queues = std::collections::HashMap::<u8, u16>::new(); // by the last byte of the destination
    for round in 0..2 {
        for host in 100..132 {
            sender.send_to(b"x", (Ipv4Addr::new(10, 77, 0, host), PORT)).unwrap();
        }
        let count = serve(&mut socket, 32, |packet, verdicts| {
            verdicts.drop(packet.queue, packet.id);
            let ours = transport(packet).0 == 17;
            if ours {
                // The kernel's hash depends on the addresses: a flow never changes its queue.
                assert_eq!(*queues.entry(packet.payload[19]).or_insert(packet.queue), packet.queue);
            }
            ours
        });
        assert_eq!(count, 32, "round {round}");
    }
    queues.values().filter(|q| **q == QUEUE).count()
}
