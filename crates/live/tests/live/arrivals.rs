//! Numbered datagrams between two hosts or more: which of them arrive, in which order, and how long nothing does.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use tidegate_live::rtnl::{Address, Rtnl};

use crate::queue::PATIENCE;
use tidegate_testbed::veth::{LEFT, Pair, RIGHT};

/// The payload of a packet of 500 bytes.
const PAYLOAD: usize = 472;
/// As many hosts as have flows in each of two threads.
pub const HOSTS: u8 = 8;

/// The packets that arrived.
pub struct Arrivals {
    sent: u64,
    pub lost: u64,
    pub reordered: u64,
    gap: Duration,
}

impl Arrivals {
    pub fn all_in_order(&self) {
        assert!(self.sent > 500, "{} sent", self.sent);
        assert_eq!((self.lost, self.reordered), (0, 0), "lost and reordered of {}", self.sent);
    }
    pub fn within(&self, most: Duration) -> Result<(), String> {
        println!("  {} sent, longest gap {:?}", self.sent, self.gap);
        if self.gap <= most { Ok(()) } else { Err(format!("nothing passed for {:?}", self.gap)) }
    }
}

/// The addresses of so many hosts at the right.
pub fn hosts(pair: &Pair, count: u8) -> Vec<IpAddr> {
    let add = || {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.index("peer0").unwrap();
        let more = (1..count).map(|host| IpAddr::from([10, 77, 0, 100 + host]));
        for address in more.clone() {
            rtnl.add_address(Address { index, address, prefix: 24 }).unwrap();
        }
        std::iter::once(RIGHT[0]).chain(more).collect()
    };
    pair.right.run(add).unwrap()
}

/// Sends to so many hosts in turn, with another interval; zero for as fast as the sockets take them.
pub fn traffic_to(count: u8, every: Duration, pair: &Pair, work: impl FnOnce(&dyn Fn(u64))) -> Arrivals {
    let hosts = hosts(pair, count);
    let receiver = pair.right.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()).unwrap();
    let port = receiver.local_addr().unwrap().port();
    let sender_to = |host: &IpAddr| {
        let sender = pair.left.run(|| UdpSocket::bind((LEFT[0], 0)).unwrap()).unwrap();
        sender.connect((*host, port)).unwrap();
        sender
    };
    let senders: Vec<UdpSocket> = hosts.iter().map(sender_to).collect();
    receiver.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // As large as allowed is enough.
    let _ = set_socket_recv_buffer_size_force(&receiver, 8 << 20)
        .or_else(|_| set_socket_recv_buffer_size(&receiver, 8 << 20));
    let (stop, all_sent) = (AtomicBool::new(false), AtomicBool::new(false));
    let (sent, arrived) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let (mut payload, began) = ([0; PAYLOAD], Instant::now());
            while !stop.load(Ordering::Relaxed) {
                let number = sent.load(Ordering::Relaxed);
                payload[..8].copy_from_slice(&number.to_be_bytes());
                let sender = &senders[number as usize % senders.len()];
                if sender.send(&payload).is_ok() {
                    sent.store(number + 1, Ordering::Relaxed);
                }
                thread::sleep((began + every * number as u32).saturating_duration_since(Instant::now()));
            }
        });
        let receiving = scope.spawn(|| {
            let (mut buffer, mut next, mut reordered) = ([0; 2_048], vec![0; senders.len()], 0);
            let (mut last, mut gap) = (None::<Instant>, Duration::ZERO);
            loop {
                match receiver.recv(&mut buffer) {
                    Ok(_) => {
                        let number = u64::from_be_bytes(buffer[..8].try_into().unwrap());
                        // Of its flow.
                        let next = &mut next[number as usize % senders.len()];
                        reordered += u64::from(number < *next);
                        *next = number + 1;
                        arrived.fetch_add(1, Ordering::Relaxed);
                        let now = Instant::now();
                        gap = gap.max(last.map_or(Duration::ZERO, |last| now - last));
                        last = Some(now);
                    }
                    Err(_) if all_sent.load(Ordering::Acquire) => {
                        // What is held leaves within seconds, unless a busy machine holds the data path up.
                        let all_arrived = arrived.load(Ordering::Relaxed) == sent.load(Ordering::Relaxed);
                        if all_arrived || last.is_none_or(|last| last.elapsed() > LAST_WAIT) {
                            return (reordered, gap);
                        }
                    }
                    Err(_) => {}
                }
            }
        });
        let until = |count: u64| {
            let (from, deadline) = (arrived.load(Ordering::Relaxed), Instant::now() + PATIENCE);
            while arrived.load(Ordering::Relaxed) < from + count {
                assert!(Instant::now() < deadline, "traffic does not pass");
                thread::sleep(Duration::from_millis(1));
            }
        };
        // The threads must end even if the work fails.
        let worked = catch_unwind(AssertUnwindSafe(|| work(&until)));
        stop.store(true, Ordering::Relaxed);
        sending.join().unwrap();
        all_sent.store(true, Ordering::Release);
        let (reordered, gap) = receiving.join().unwrap();
        worked.unwrap_or_else(|failure| resume_unwind(failure));
        // An unprivileged receiver has a small buffer, and what finds it full has arrived.
        let unread = pair.right.run(move || unread(port)).unwrap();
        let sent = sent.load(Ordering::Relaxed);
        Arrivals { sent, lost: sent - arrived.load(Ordering::Relaxed) - unread, reordered, gap }
    })
}

/// How long to wait for packets that may still be held.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// The packets that found the buffer of the UDP socket of this port full.
fn unread(port: u16) -> u64 {
    let sockets = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    let local = format!(":{port:04X}");
    let drops = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        fields.get(1)?.ends_with(&local).then(|| fields.last()?.parse::<u64>().ok()).flatten()
    };
    sockets.lines().find_map(drops).unwrap()
}
