//! Greedy TCP connections of two hosts behind a router.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt};
use tidegate_config::shaper::Direction;
use tidegate_testbed::Chain;

fn use_congestion_control(socket: &impl AsFd, name: &str) {
    setsockopt(socket, sockopt::TcpCongestion, &OsString::from(name)).expect("a congestion control");
}

/// A connection from the address `from` to `to`, in the calling thread's namespace.
fn connect(from: Ipv4Addr, to: SocketAddr, congestion: &str) -> TcpStream {
    let SocketAddr::V4(to) = to else { panic!("{to}") };
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
    use_congestion_control(&socket, congestion);
    bind(socket.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(from, 0))).expect("an address of this host");
    nix::sys::socket::connect(socket.as_raw_fd(), &SockaddrIn::from(to)).expect("the server listens");
    socket.into()
}

/// Connections that the inner hosts open, greedy in one direction; the bytes that arrive for each host.
pub struct Load {
    stop: Arc<AtomicBool>,
    began: Instant,
    bytes: Arc<[AtomicU64; 2]>,
    /// From where the client sees the connections come.
    pub peers: Vec<IpAddr>,
}

impl Load {
    /// Starts so many `connections` of each of the two hosts at the server, with that control of `congestion`.
    pub fn start(chain: &Chain, direction: Direction, congestion: &str, connections: [usize; 2]) -> Self {
        let mut load = Self { stop: Arc::default(), began: Instant::now(), bytes: Arc::default(), peers: Vec::new() };
        let listener = chain.client.namespace.run(|| TcpListener::bind((chain.client.v4, 0)).expect("a port"));
        let listener = listener.expect("a thread");
        // Connections that it accepts have its congestion control.
        use_congestion_control(&listener, congestion);
        let to = listener.local_addr().expect("an address");
        for (host, from) in [chain.server.v4, Chain::ELEPHANT].into_iter().enumerate() {
            for _ in 0..connections[host] {
                let near = chain.server.namespace.run(|| connect(from, to, congestion)).expect("a thread");
                let (far, peer) = listener.accept().expect("a connection");
                load.peers.push(peer.ip());
                let (sender, receiver) = if direction == Direction::Egress { (near, far) } else { (far, near) };
                load.run(sender, receiver, host);
            }
        }
        load
    }

    fn run(&self, mut sender: TcpStream, mut receiver: TcpStream, host: usize) {
        let stop = Arc::clone(&self.stop);
        thread::spawn(move || {
            let piece = [0; 16 << 10];
            while !stop.load(Ordering::Relaxed) && sender.write_all(&piece).is_ok() {}
        });
        let (stop, bytes) = (Arc::clone(&self.stop), Arc::clone(&self.bytes));
        thread::spawn(move || {
            let mut buffer = [0; 64 << 10];
            while !stop.load(Ordering::Relaxed) {
                match receiver.read(&mut buffer) {
                    Ok(length @ 1..) => bytes[host].fetch_add(length as u64, Ordering::Relaxed),
                    _ => return,
                };
            }
        });
    }

    fn count(&self) -> [u64; 2] {
        [0, 1].map(|host| self.bytes[host].load(Ordering::Relaxed))
    }

    /// The rate of all connections since the start in Mbit/s of data.
    pub fn rate_so_far(&self) -> f64 {
        self.count().iter().sum::<u64>() as f64 * 8.0 / self.began.elapsed().as_secs_f64() / 1e6
    }

    /// The rates of the two hosts in Mbit/s of data, over `time` after a `start`.
    pub fn rates(&self, start: Duration, time: Duration) -> [f64; 2] {
        sleep(start);
        let (before, began) = (self.count(), Instant::now());
        sleep(time);
        let (after, time) = (self.count(), began.elapsed().as_secs_f64());
        [0, 1].map(|host| (after[host] - before[host]) as f64 * 8.0 / time / 1e6)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
