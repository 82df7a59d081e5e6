//! A receiver that records when datagrams arrived, and a line with a delay before the server of quinn.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use tidegate_pace::{Bytes, Recorder, Report, Span};

/// The delay of the line in each direction.
const DELAY: Duration = Duration::from_millis(10);

pub struct Receiver {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Recorder>,
}

impl Receiver {
    /// Receives until [`report`](Self::report). With a `server`, datagrams go on to it, and its answers back.
    pub fn start(rate: tidegate_pace::Rate, server: Option<SocketAddr>) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        // It holds what arrives while this thread does not run: as root beyond what the system permits others.
        if setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &(64 << 20))?;
        }
        socket.set_read_timeout(Some(Duration::from_millis(1)))?;
        let address = socket.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut recorder = Recorder::new(Some(rate));
            let mut line = server.map(Line::new);
            let mut buffer = vec![0; 1 << 16];
            while !seen.load(Ordering::Relaxed) {
                match receive(&socket, &mut buffer) {
                    Ok((length, at, from)) => {
                        recorder.record(at, Bytes::new(length as u64));
                        if let (Some(line), Some(from)) = (&mut line, from) {
                            line.client = Some(from);
                            line.there.push_back((Instant::now() + DELAY, buffer[..length].to_vec()));
                        }
                    }
                    Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                    Err(error) => panic!("receiving: {error}"),
                }
                if let Some(line) = &mut line {
                    line.turn(&socket, &mut buffer);
                }
            }
            recorder
        });
        Ok(Self { address, stop, thread })
    }
    /// Datagrams that arrived.
    pub fn report(self) -> Report {
        // What waits in the buffer still counts.
        std::thread::sleep(Duration::from_millis(100));
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the receiver does not panic").report()
    }
}

/// Receives a datagram: its length, its arrival by the kernel's clock, its sender.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, tidegate_pace::Instant, Option<SocketAddr>)> {
    let mut parts = [IoSliceMut::new(buffer)];
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty())?;
    let from = message.address.and_then(|address| Some(SocketAddr::V4((*address.as_sockaddr_in()?).into())));
    let stamp = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampns(at) => Some(at),
        _ => None,
    });
    let stamp = stamp.ok_or_else(|| io::Error::other("the kernel stamps no arrivals"))?;
    let at = Span::from_secs(stamp.tv_sec() as u64) + Span::from_nanos(stamp.tv_nsec() as u64);
    Ok((message.bytes, tidegate_pace::Instant::ZERO + at, from))
}

/// Datagrams on their way, with the time at which each arrives.
struct Line {
    server: UdpSocket,
    client: Option<SocketAddr>,
    there: VecDeque<(Instant, Vec<u8>)>,
    back: VecDeque<(Instant, Vec<u8>)>,
}

impl Line {
    fn new(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.connect(server).expect("loopback");
        socket.set_nonblocking(true).expect("a socket");
        Self { server: socket, client: None, there: VecDeque::new(), back: VecDeque::new() }
    }
    fn turn(&mut self, client: &UdpSocket, buffer: &mut [u8]) {
        while let Ok(length) = self.server.recv(buffer) {
            self.back.push_back((Instant::now() + DELAY, buffer[..length].to_vec()));
        }
        // A full socket loses a datagram, as a line does.
        while self.there.front().is_some_and(|(due, _)| *due <= Instant::now()) {
            let _ = self.there.pop_front().map(|(_, data)| self.server.send(&data));
        }
        while let Some(to) = self.client.filter(|_| self.back.front().is_some_and(|(due, _)| *due <= Instant::now())) {
            let _ = self.back.pop_front().map(|(_, data)| client.send_to(&data, to));
        }
    }
}
