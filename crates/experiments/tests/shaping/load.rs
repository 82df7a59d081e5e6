//! Greedy TCP connections of two hosts behind a router.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, FromRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use tidegate_config::shaper::Direction;
use tidegate_experiments::lab::Chain;

fn use_congestion_control(socket: &impl AsFd, name: &str) {
    setsockopt(socket, sockopt::TcpCongestion, &OsString::from(name)).expect("a congestion control");
}

/// A connection from the address `from` to `to`, in the calling thread's namespace.
fn connect(from: Ipv4Addr, to: SocketAddr, congestion: &str) -> TcpStream {
    let SocketAddr::V4(to) = to else { panic!("{to}") };
    let address = |ip: Ipv4Addr, port: u16| libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
        sin_zero: [0; 8],
    };
    let (from, to) = (address(from, 0), address(*to.ip(), to.port()));
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: the addresses are live for the calls and have the given length; the descriptor is new and becomes the
    // stream's alone.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert!(socket >= 0, "{}", std::io::Error::last_os_error());
        let stream = TcpStream::from_raw_fd(socket);
        use_congestion_control(&stream, congestion);
        assert_eq!(libc::bind(socket, (&raw const from).cast(), length), 0, "{}", std::io::Error::last_os_error());
        assert_eq!(libc::connect(socket, (&raw const to).cast(), length), 0, "{}", std::io::Error::last_os_error());
        stream
    }
}

/// Connections that the inner hosts open, greedy in one direction; the bytes that arrive for each host.
pub struct Load {
    stop: Arc<AtomicBool>,
    bytes: Arc<[AtomicU64; 2]>,
    /// From where the client sees the connections come.
    pub peers: Vec<IpAddr>,
}

impl Load {
    /// Starts so many `connections` of each of the two hosts at the server, with that control of `congestion`.
    pub fn start(chain: &Chain, direction: Direction, congestion: &str, connections: [usize; 2]) -> Self {
        let mut load = Self { stop: Arc::default(), bytes: Arc::default(), peers: Vec::new() };
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
