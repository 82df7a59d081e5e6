//! DualPI2 live: ECT(1), NQB and all others through one class. What is marked, what is not, and how long each waits.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::shaping::{Options, Shaping};
use tidegate_sys::net::set_option;

use crate::queue::udp;
use crate::wire::{Tap, disable_offloads, is_sound, traffic_class};
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;
use tidegate_testbed::veth::{DEVICE, Pair};

const FILE: &str = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\nborrow = false\ndefault = true\n\
                    queue = { kind = \"dualpi2\" }\n";

/// The traffic class of each flow, its packets' size, and the microseconds between them: 7 Mbit/s that ignore drops, 2 Mbit/s of
/// ECT(1) that ignore marks, and a game.
const FLOWS: [(u8, usize, u64); 3] = [(0, 1_000, 1_175), (0b01, 1_000, 4_112), (45 << 2, 100, 20_000)];
/// The text by which the packets of this test are recognised.
const NAME: &[u8] = b"l4s test";

/// A packet that arrived: its traffic class, and the nanoseconds from its sending to its arrival.
struct Arrived {
    flow: usize,
    class: (u8, u8),
    delay: u64,
}

/// Sends all flows for `time`; returns how many packets each sent.
fn send(sockets: &[UdpSocket; 3], began: Instant, time: Duration) -> [u64; 3] {
    let mut sent = [0; 3];
    while began.elapsed() < time {
        for (flow, (_, size, gap)) in FLOWS.iter().enumerate() {
            while (began.elapsed().as_micros() as u64) / gap > sent[flow] {
                let mut packet = vec![0; *size];
                packet[..NAME.len()].copy_from_slice(NAME);
                packet[8] = flow as u8;
                packet[9..17].copy_from_slice(&(began.elapsed().as_nanos() as u64).to_be_bytes());
                sockets[flow].send(&packet).unwrap();
                sent[flow] += 1;
            }
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    sent
}

/// The packets of this test that are in `tap`, whose checksums are right.
fn read(tap: &Tap, began: Instant) -> Vec<Arrived> {
    let packets = tap.packets();
    let now = began.elapsed().as_nanos() as u64;
    let ours = packets.iter().filter(|packet| packet.get(28..36) == Some(NAME));
    ours.map(|packet| {
        assert!(is_sound(packet), "{:02x?}", &packet[..40]);
        let sent = u64::from_be_bytes(packet[37..45].try_into().unwrap());
        Arrived { flow: packet[36].into(), class: traffic_class(packet), delay: now.saturating_sub(sent) }
    })
    .collect()
}

pub fn dualpi2_marks_scalable_senders_and_bleaches_nothing() -> Ended {
    patiently(attempt)
}

fn attempt() -> Result<(), String> {
    const TIME: Duration = Duration::from_secs(5);
    let pair = Pair::new();
    pair.left.run(|| disable_offloads(DEVICE)).unwrap();
    let config = shaper::load(&Source::new("l4s.toml", FILE), &mut Diagnostics::new()).expect("a file");
    let options = Options { interfaces: vec![DEVICE.into()], ..Options::default() };
    let shaping = pair.left.run(|| Shaping::start(&config, &options)).unwrap().unwrap();
    let tap = pair.right.run(Tap::open).unwrap();
    let (sockets, _receivers): (Vec<_>, Vec<_>) = FLOWS
        .map(|(class, ..)| {
            let receiver = pair.right.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
            let sender = connected_to(&pair, &receiver);
            set_option(&sender, libc::IPPROTO_IP, libc::IP_TOS, i32::from(class)).unwrap();
            (sender, receiver)
        })
        .into_iter()
        .unzip();
    let sockets: [UdpSocket; 3] = sockets.try_into().unwrap();
    let began = Instant::now();
    let (sent, arrived) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&sockets, began, TIME));
        let mut arrived = Vec::new();
        while began.elapsed() < TIME + Duration::from_millis(500) {
            arrived.extend(read(&tap, began));
            std::thread::sleep(Duration::from_micros(200));
        }
        (sender.join().unwrap(), arrived)
    });
    let counted: u64 = shaping.status().expect("the classes").iter().map(|class| class.counts.marked).sum();
    shaping.stop().unwrap();
    let of = |flow| arrived.iter().filter(move |packet| packet.flow == flow);
    let count = |flow, ecn| of(flow).filter(|packet| packet.class.1 == ecn).count() as u64;
    // No code point is changed but to CE, and that only where ECT(1) was.
    assert!(of(0).all(|packet| packet.class == (0, 0)), "classic packets keep their field");
    assert!(of(1).all(|packet| packet.class.0 == 0 && packet.class.1 & 1 == 1), "ECT(1) or CE");
    assert!(of(2).all(|packet| packet.class == (45, 0)), "NQB is kept");
    let (marked, unmarked) = (count(1, 3), count(1, 1));
    assert_eq!(counted, marked, "every mark is counted, and arrives");
    // The second half, in which the probability has settled.
    let delays = |flow| {
        let mut delays: Vec<_> = of(flow).skip(of(flow).count() / 2).map(|packet| packet.delay as f64 / 1e6).collect();
        delays.sort_by(f64::total_cmp);
        move |part: f64| delays[(delays.len() as f64 * part) as usize]
    };
    let [classic, scalable, game] = [delays(0), delays(1), delays(2)];
    let lost = [0, 1, 2].map(|flow| sent[flow] - of(flow).count() as u64);
    println!(
        "  sent {sent:?}, lost {lost:?}, marked {marked} of {}; delay in ms, half and 99 %: C {:.2} {:.2}, ECT(1) {:.2} {:.2}, NQB {:.2} {:.2}",
        marked + unmarked,
        classic(0.5),
        classic(0.99),
        scalable(0.5),
        scalable(0.99),
        game(0.5),
        game(0.99)
    );
    if lost[0] == 0 || lost[1] + lost[2] > 0 {
        return Err(format!("lost {lost:?}"));
    }
    // C has to lose an eighth, p' is its root, and L is marked by twice that, 0.7, once it has risen.
    if !(0.4..0.9).contains(&(marked as f64 / (marked + unmarked) as f64)) {
        return Err(format!("marked {marked} of {}", marked + unmarked));
    }
    if !(8.0..30.0).contains(&classic(0.5)) || scalable(0.95) > 6.0 || game(0.95) > 6.0 {
        return Err(format!("C {} ms, ECT(1) {} ms, NQB {} ms", classic(0.5), scalable(0.95), game(0.95)));
    }
    Ok(())
}

/// A socket at the left that sends to `receiver`.
fn connected_to(pair: &Pair, receiver: &UdpSocket) -> UdpSocket {
    let port = receiver.local_addr().unwrap().port();
    let (sender, _) = udp(pair, 0);
    let to = sender.peer_addr().unwrap().ip();
    sender.connect((to, port)).unwrap();
    sender
}
