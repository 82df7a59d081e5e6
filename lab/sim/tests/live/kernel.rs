//! The kernel's TCP over a wire that is this process.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tidegate_live::netns::Namespace;
use tidegate_live::rtnl::{Address, Rtnl, sysctl};
use tidegate_live::tun;

use crate::linux_tcp::{Losses, SIZE, Stack, is_lost};

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
const DELAY: Duration = Duration::from_millis(50);

/// The kernel's TCP as the simulator's is configured: nothing that RFC 6675 does not have and that can be switched off.
const SETTINGS: [(&str, &str); 10] = [
    ("tcp_congestion_control", "reno"),
    ("tcp_timestamps", "0"),
    ("tcp_sack", "1"),
    ("tcp_dsack", "0"),
    ("tcp_frto", "0"),
    ("tcp_no_metrics_save", "1"),
    // Every segment out of order is acknowledged at once.
    ("tcp_comp_sack_nr", "0"),
    ("tcp_rto_min_us", "1000000"),
    ("tcp_ecn", "0"),
    ("tcp_mtu_probing", "0"),
];

/// The kernel's tail loss probes, off and on.
const TAIL_LOSS_PROBES: &str = "ipv4/tcp_early_retrans";

/// Why it cannot run here, if so.
pub fn available() -> Result<(), String> {
    let namespace = Namespace::create().map_err(|error| format!("no network namespace: {error}"))?;
    let tun = namespace.run(|| tun::create("tg0")).and_then(|tun| tun);
    tun.map_err(|error| format!("no TUN device: {error}"))?;
    let settings =
        namespace.run(|| SETTINGS.iter().try_for_each(|(name, _)| sysctl::read(&format!("ipv4/{name}")).map(drop)));
    settings.and_then(|settings| settings).map_err(|error| format!("not this kernel: {error}"))?;
    Command::new("ip").arg("-V").output().map_err(|error| format!("no iproute2: {error}"))?;
    Ok(())
}

/// A host behind a TUN device.
fn host(address: Ipv4Addr, peer: Ipv4Addr, stack: Stack) -> io::Result<(Namespace, File)> {
    let namespace = Namespace::create()?;
    let device = namespace.run(|| -> io::Result<_> {
        let device = tun::create("tg0")?;
        let mut rtnl = Rtnl::open().map_err(io::Error::other)?;
        let index = rtnl.index("tg0").map_err(io::Error::other)?;
        rtnl.add_address(Address { index, address: IpAddr::V4(address), prefix: 24 }).map_err(io::Error::other)?;
        rtnl.set_mtu(index, SIZE + 40).map_err(io::Error::other)?;
        rtnl.up(index).map_err(io::Error::other)?;
        for (name, value) in SETTINGS {
            sysctl::write(&format!("ipv4/{name}"), value)?;
        }
        sysctl::write(TAIL_LOSS_PROBES, if stack == Stack::RackPrr { "3" } else { "0" })?;
        Ok(device)
    })??;
    // No delayed acknowledgements.
    let mut route = namespace.command("ip")?;
    let status = route.args(["route", "replace", &format!("{peer}/32"), "dev", "tg0", "quickack", "1"]).status()?;
    if !status.success() {
        return Err(io::Error::other(format!("ip route: {status}")));
    }
    Ok((namespace, File::from(device)))
}

/// Transfers `segments` segments. Returns the time in milliseconds and the number of each data segment that was sent.
pub fn transfer(losses: Losses<'_>, segments: u32, stack: Stack) -> io::Result<Vec<(u64, u32)>> {
    let (sender, mut left) = host(SENDER, RECEIVER, stack)?;
    let (receiver, mut right) = host(RECEIVER, SENDER, stack)?;
    let listener = receiver.run(|| TcpListener::bind((RECEIVER, 5001)))??;
    let done = AtomicBool::new(false);
    let bytes = (segments * SIZE) as usize;
    thread::scope(|scope| {
        let received = scope.spawn(|| -> io::Result<()> {
            let (mut stream, _) = listener.accept()?;
            let all = stream.read_exact(&mut vec![0; bytes]);
            done.store(true, Ordering::Release);
            all
        });
        // Closed only when everything has arrived: the acknowledgement of a FIN would tell that the segment before it is
        // lost.
        let sent = sender.spawn("sender", move || -> io::Result<TcpStream> {
            let mut stream = TcpStream::connect((RECEIVER, 5001))?;
            stream.write_all(&vec![7; bytes])?;
            Ok(stream)
        })?;
        let log = carry(&mut left, &mut right, losses, &done)?;
        received.join().expect("no panic")?;
        drop(sent.join().expect("no panic")??);
        Ok(log)
    })
}

/// A packet on the wire: its arrival, its number, whether it goes to the right, its bytes.
type Flying = (Instant, usize, bool, Vec<u8>);

/// Carries packets both ways until `done`.
fn carry(left: &mut File, right: &mut File, losses: Losses<'_>, done: &AtomicBool) -> io::Result<Vec<(u64, u32)>> {
    let began = Instant::now();
    let mut lost = is_lost(losses);
    let mut first = None;
    let mut log = vec![];
    // Packets on the wire by the time of their arrival, then in the order they were sent.
    let mut flying: BinaryHeap<Reverse<Flying>> = BinaryHeap::new();
    let mut buffer = [0; 2048];
    while !done.load(Ordering::Acquire) && began.elapsed() < Duration::from_secs(60) {
        let now = Instant::now();
        while flying.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, _, to_right, packet))) = flying.pop() else { break };
            let to = if to_right { &mut *right } else { &mut *left };
            to.write_all(&packet)?;
        }
        let wait =
            flying.peek().map_or(Duration::from_millis(20), |Reverse((at, ..))| at.saturating_duration_since(now));
        let mut fds = [PollFd::new(left.as_fd(), PollFlags::POLLIN), PollFd::new(right.as_fd(), PollFlags::POLLIN)];
        let wait = wait.min(Duration::from_millis(20)).as_millis() as u16;
        poll(&mut fds, PollTimeout::from(wait)).map_err(io::Error::from)?;
        for to_right in [true, false] {
            let from = if to_right { &mut *left } else { &mut *right };
            loop {
                let length = match from.read(&mut buffer) {
                    Ok(length) => length,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                };
                let Some((seq, payload, syn)) = tcp(&buffer[..length]) else { continue };
                let now = Instant::now();
                if to_right && syn {
                    first = Some(seq.wrapping_add(1));
                }
                if let Some(first) = first.filter(|_| to_right && payload > 0) {
                    let number = seq.wrapping_sub(first) / SIZE;
                    log.push(((now - began).as_millis() as u64, number));
                    if lost(number) {
                        continue;
                    }
                }
                let order = flying.len() + log.len() * 1000;
                flying.push(Reverse((now + DELAY, order, to_right, buffer[..length].to_vec())));
            }
        }
    }
    Ok(log)
}

/// Sequence number, bytes of data, and whether it is a SYN, of an IPv4 packet with TCP.
fn tcp(packet: &[u8]) -> Option<(u32, usize, bool)> {
    if packet.first()? >> 4 != 4 || *packet.get(9)? != 6 {
        return None;
    }
    let ip = usize::from(packet[0] & 15) * 4;
    let header = packet.get(ip..ip + 20)?;
    let data = ip + usize::from(header[12] >> 4) * 4;
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    Some((
        u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        total.checked_sub(data)?,
        header[13] & 2 != 0,
    ))
}
