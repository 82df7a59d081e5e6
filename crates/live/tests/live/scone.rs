//! Rate advice in passing QUIC flows: datagrams of a sender at the left are shaped, and arrive at the right with the rate that the
//! policy of their class gives, and otherwise as they were sent.

use std::net::UdpSocket;

use tidegate_capture::scone::{Signal, VERSION, read};
use tidegate_config::shaper::Config;
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::shaping::{Options, Shaping};
use tidegate_sys::net::set_option;
use tidegate_testbed::Ended;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT};

use crate::queue::{PATIENCE, udp};
use crate::wire::{Tap, disable_offloads, is_sound, traffic_class};

/// The bytes of a datagram.
const SIZE: usize = 1_200;
/// The connection id of all packets.
const ID: [u8; 8] = [0x5c, 1, 2, 3, 4, 5, 6, 7];

/// A SCONE packet with the signal `number`, 127 for an unknown rate, and a short-header packet behind it whose last bytes are
/// `mark`.
fn datagram(number: u8, mark: u32) -> Vec<u8> {
    let mut bytes = vec![0xc0 | number >> 1];
    bytes.extend((VERSION | u32::from(number & 1) << 31).to_be_bytes());
    bytes.push(ID.len() as u8);
    bytes.extend(ID);
    bytes.push(0);
    bytes.extend(packet(SIZE - bytes.len(), mark));
    bytes
}

/// A short-header packet alone.
fn packet(length: usize, mark: u32) -> Vec<u8> {
    let mut bytes = vec![0x45];
    bytes.extend(ID);
    bytes.extend((bytes.len()..length - 4).map(|at| (at as u32).wrapping_mul(mark.wrapping_add(7)) as u8));
    bytes.extend(mark.to_be_bytes());
    bytes
}

fn config(text: &str) -> Config {
    let mut diagnostics = Diagnostics::new();
    let source = Source::new("scone.toml", format!("version = 1\n{text}"));
    shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

fn start(pair: &Pair, text: &str) -> Shaping {
    let options = Options { interfaces: vec![DEVICE.into()], ..Options::default() };
    pair.left.run(|| Shaping::start(&config(text), &options)).unwrap().unwrap()
}

/// The next `count` datagrams that arrive.
fn arriving(receiver: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 2_048];
    (0..count)
        .map(|_| {
            let length = receiver.recv(&mut buffer).expect("it arrives");
            buffer[..length].to_vec()
        })
        .collect()
}

/// The signal of a datagram whose other bytes must be those of `sent`.
fn told(arrived: &[u8], sent: &[u8]) -> Option<u8> {
    let found = read(arrived).expect("a SCONE packet before a whole packet");
    assert_eq!(found.coalesced, &sent[sent.len() - found.coalesced.len()..], "the QUIC packet is intact");
    let mut as_sent = arrived.to_vec();
    as_sent[0] = sent[0];
    as_sent[1] = sent[1];
    assert_eq!(as_sent, sent, "only the signal differs");
    found.signal.map(Signal::number)
}

/// Sends datagrams one by one and returns what each was told.
fn tell(sender: &UdpSocket, receiver: &UdpSocket, sent: &[Vec<u8>]) -> Vec<Option<u8>> {
    let one = |sent: &Vec<u8>| {
        sender.send(sent).unwrap();
        told(&arriving(receiver, 1)[0], sent)
    };
    sent.iter().map(one).collect()
}

fn unknown(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|mark| datagram(127, mark)).collect()
}

/// 5 Mbit/s leave 4.886 for payload with IPv4 and 4.808 with IPv6; of both, 4.467 Mbit/s is the highest signal that fits.
pub fn a_flow_is_told_the_ceiling_of_its_class_and_nothing_else_changes() -> Ended {
    let pair = Pair::new();
    // Complete checksums on the wire, so that those that were not rewritten can be compared as well.
    pair.left.run(|| disable_offloads(DEVICE)).unwrap();
    let class = "[[class]]\nname = \"video\"\nrate = \"5mbit\"\nborrow = false\ndefault = true\ndscp = \"af41\"\n";
    let mut shaping = start(&pair, &format!("{class}advice = \"ceiling\"\n"));
    for family in [0, 1] {
        let (sender, receiver) = udp(&pair, family);
        let tap = pair.right.run(Tap::open).unwrap();
        // Four at once, and then no more for a while.
        let answers = tell(&sender, &receiver, &unknown(7));
        assert_eq!(answers[..4], [Some(33); 4], "family {family}");
        assert_eq!(answers[4..], [None; 3], "a few times a period, family {family}");
        // Nothing but QUIC with a SCONE packet is touched.
        let plain = [packet(SIZE, 9), b"hello".to_vec(), datagram(127, 1)[..16].to_vec()];
        for sent in &plain {
            sender.send(sent).unwrap();
            assert_eq!(arriving(&receiver, 1), std::slice::from_ref(sent));
        }
        let packets: Vec<_> = tap.packets().into_iter().filter(|bytes| bytes.len() >= SIZE).collect();
        assert!(packets.len() >= 8);
        for bytes in &packets {
            assert!(is_sound(bytes), "family {family}: {:02x?}", &bytes[..60]);
            // The advice and the code point of the class are written into the same packet.
            assert_eq!(traffic_class(bytes).0, 34);
        }
        // A lower rate of an element before stays; this socket is another flow.
        let sender = connected(&pair, &receiver, family);
        let sent = [datagram(10, 1), datagram(33, 2), datagram(34, 3)];
        assert_eq!(tell(&sender, &receiver, &sent), [Some(10), Some(33), Some(33)]);
    }
    let counted = |shaping: &Shaping| shaping.status().unwrap()[0].counts.advised;
    assert_eq!(counted(&shaping), 2 * (4 + 1));
    // Another file while it runs: no advice any more, and again some.
    pair.left.run(|| shaping.reconfigure(&config(class), None)).unwrap().unwrap();
    let (sender, receiver) = udp(&pair, 0);
    assert_eq!(tell(&sender, &receiver, &unknown(2)), [None; 2]);
    let faster = format!("{}advice = \"ceiling\"\n", class.replace("5mbit", "20mbit"));
    pair.left.run(|| shaping.reconfigure(&config(&faster), None)).unwrap().unwrap();
    assert_eq!(tell(&sender, &receiver, &unknown(2)), [Some(45); 2]);
    assert_eq!(counted(&shaping), 2 * (4 + 1) + 2);
    shaping.stop().unwrap();
    Ended::Passed
}

/// In 8 Mbit/s a flow alone has 7.817 of payload (signal 37), one of two 3.909 (31); a minimum of 2 Mbit/s is 1.954 (25).
pub fn shares_and_promises_are_told_as_they_are() -> Ended {
    let pair = Pair::new();
    let class = "[[class]]\nname = \"all\"\nrate = \"8mbit\"\nborrow = false\ndefault = true\n";
    let shaping = start(&pair, &format!("{class}advice = \"fair-share\"\n"));
    let (first, receiver) = udp(&pair, 0);
    assert_eq!(tell(&first, &receiver, &unknown(5)), [Some(37), Some(37), Some(37), Some(37), None]);
    let second = connected(&pair, &receiver, 0);
    assert_eq!(tell(&second, &receiver, &unknown(1)), [Some(31)]);
    // Its share has fallen by more than an eighth: it is told at once.
    assert_eq!(tell(&first, &receiver, &unknown(1)), [Some(31)]);
    shaping.stop().unwrap();
    let rule = "[[rule]]\nclass = \"all\"\nprotocol = \"udp\"\nminimum = \"2mbit\"\n";
    let shaping = start(&pair, &format!("{class}advice = \"promise\"\n{rule}"));
    let sender = connected(&pair, &receiver, 0);
    // With its first packet the flow begins, and is granted its minimum.
    assert_eq!(tell(&sender, &receiver, &unknown(3)), [None, Some(25), Some(25)]);
    shaping.stop().unwrap();
    Ended::Passed
}

/// A socket of its own at the left, which sends to `receiver`: another flow.
fn connected(pair: &Pair, receiver: &UdpSocket, family: usize) -> UdpSocket {
    let port = receiver.local_addr().unwrap().port();
    let sender = pair.left.run(|| UdpSocket::bind((LEFT[family], 0)).unwrap()).unwrap();
    sender.connect((RIGHT[family], port)).unwrap();
    sender
}

/// At 2 Gbit/s a superpacket of six datagrams is queued whole, unless one of its segments may have to be written to. Each datagram
/// is looked at, wherever the SCONE packet is.
pub fn every_datagram_of_a_superpacket_is_looked_at() -> Ended {
    let pair = Pair::new();
    let class = "[[class]]\nname = \"all\"\nrate = \"2gbit\"\nborrow = false\ndefault = true\nadvice = \"ceiling\"\n";
    for family in [0, 1] {
        let shaping = start(&pair, class);
        let (sender, receiver) = udp(&pair, family);
        set_option(&sender, libc::IPPROTO_UDP, libc::UDP_SEGMENT, SIZE as i32).unwrap();
        for places in [vec![3], vec![0], vec![1, 5]] {
            let sent: Vec<Vec<u8>> = (0..6)
                .map(|n| if places.contains(&n) { datagram(127, n as u32) } else { packet(SIZE, n as u32) })
                .collect();
            sender.send(&sent.concat()).unwrap();
            let arrived = arriving(&receiver, sent.len());
            for (n, (arrived, sent)) in arrived.iter().zip(&sent).enumerate() {
                // 1.954 Gbit/s with IPv4, 1.923 with IPv6: 1.778 is the highest signal that fits.
                match places.contains(&n) {
                    true => assert_eq!(told(arrived, sent), Some(85), "datagram {n}, family {family}"),
                    false => assert_eq!(arrived, sent, "datagram {n}, family {family}"),
                }
            }
        }
        let counts = shaping.stop().unwrap();
        assert!(counts.cut >= 3, "{counts:?}");
    }
    Ended::Passed
}
