//! [`Pinger`]: ICMP echo to hosts that the user named.
//!
//! The sockets are those that need no privilege where `net.ipv4.ping_group_range` has the group of this process. A thread receives the
//! answers, so that their times are exact.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto, socket_with};
use tidegate_engine::guard::lock;
use tidegate_live::timing;
use tidegate_units::{Instant, Span};

/// Probes that are remembered. An older one that is answered has been on its way for too long to tell anything.
const ON_THE_WAY: usize = 64;

/// A probe on its way: its number, the peer, and when it was sent.
type Sent = (u16, usize, Instant);

/// Sends probes, and receives their answers.
pub(super) struct Pinger {
    peers: Vec<IpAddr>,
    sockets: Arc<[Option<OwnedFd>; 2]>,
    sent: Arc<Mutex<Vec<Sent>>>,
    answers: Receiver<(usize, Instant, Span)>,
    number: u16,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pinger {
    /// Opens the sockets for these peers.
    ///
    /// # Errors
    /// When the system refuses them.
    pub fn start(peers: Vec<IpAddr>) -> io::Result<Self> {
        let open = |v6: bool| -> io::Result<Option<OwnedFd>> {
            if !peers.iter().any(|peer| peer.is_ipv6() == v6) {
                return Ok(None);
            }
            let (family, protocol) =
                if v6 { (AddressFamily::INET6, ipproto::ICMPV6) } else { (AddressFamily::INET, ipproto::ICMP) };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            Ok(Some(socket_with(family, SocketType::DGRAM, flags, Some(protocol))?))
        };
        let sockets = Arc::new([open(false)?, open(true)?]);
        let (sent, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (to, answers) = channel();
        let parts = (Arc::clone(&sockets), Arc::clone(&sent), Arc::clone(&ended));
        let receive = move || receive(&parts.0, &parts.1, &to, &parts.2);
        let thread = std::thread::Builder::new().name("tidegate-ping".into()).spawn(receive)?;
        Ok(Self { peers, sockets, sent, answers, number: 0, ended, thread: Some(thread) })
    }

    /// Sends a probe to a peer. One that cannot be sent counts as lost.
    pub fn send(&mut self, peer: usize) {
        let Some(address) = self.peers.get(peer) else { return };
        let v6 = address.is_ipv6();
        let Some(socket) = &self.sockets[usize::from(v6)] else { return };
        self.number = self.number.wrapping_add(1);
        let [high, low] = self.number.to_be_bytes();
        // Type, code, checksum and identifier, of which the kernel sets the last two; the number; 16 bytes of data.
        let mut packet = [0; 24];
        (packet[0], packet[6], packet[7]) = (if v6 { 128 } else { 8 }, high, low);
        let mut sent = lock(&self.sent);
        if sent.len() == ON_THE_WAY {
            sent.remove(0);
        }
        sent.push((self.number, peer, timing::now()));
        let _ = sendto(socket, &packet, SendFlags::empty(), &SocketAddr::new(*address, 0));
    }

    /// The answers since the last call: the peer, when it arrived, and the round trip.
    pub fn answers(&self) -> impl Iterator<Item = (usize, Instant, Span)> + '_ {
        self.answers.try_iter()
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Receives answers until `ended` is set.
fn receive(
    sockets: &[Option<OwnedFd>; 2],
    sent: &Mutex<Vec<Sent>>,
    to: &Sender<(usize, Instant, Span)>,
    ended: &AtomicBool,
) {
    while !ended.load(Ordering::Relaxed) {
        let open = sockets.iter().flatten();
        let mut watched: Vec<PollFd<'_>> =
            open.map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)).collect();
        let wait = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        if poll(&mut watched, Some(&wait)).is_err() {
            continue;
        }
        let now = timing::now();
        for socket in sockets.iter().flatten() {
            let mut bytes = [0_u8; 64];
            while let Ok((length, _)) = recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                // An echo reply begins with type 0, or 129 over IPv6. Anything else is not for us.
                if length < 8 || !matches!(bytes[0], 0 | 129) {
                    continue;
                }
                let number = u16::from_be_bytes([bytes[6], bytes[7]]);
                let mut sent = lock(sent);
                if let Some(at) = sent.iter().position(|probe| probe.0 == number) {
                    let (_, peer, when) = sent.remove(at);
                    let _ = to.send((peer, now, now.since(when)));
                }
            }
        }
    }
}
