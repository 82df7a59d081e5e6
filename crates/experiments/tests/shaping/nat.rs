//! Hosts behind address translation share equally, by their inner addresses, both ways.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::FromRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use tidegate_config::shaper::Direction;
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_experiments::lab::Chain;
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft::{self, Compare, Expression, Family, MetaKey, Ownership, Rule, Table};
use tidegate_live::shaping::{Options, Shaping};

use crate::support::Ended;
use crate::support::steady::patiently;

const MEGABITS: u64 = 20;
/// Connections of the two hosts.
const CONNECTIONS: [usize; 2] = [1, 6];
const POSTROUTING: u32 = 4;
const SRCNAT: i32 = 100;

/// The router translates the addresses of what leaves towards the client.
fn masquerade() -> Result<(), String> {
    let mut name = b"tgr1".to_vec();
    name.resize(16, 0);
    let rule = Rule {
        chain: "post".into(),
        comment: String::new(),
        expressions: vec![
            Expression::Meta(MetaKey::OutName, 1),
            Expression::Compare(1, Compare::Equal, name),
            Expression::Unknown("masq".into()),
        ],
    };
    let chains = vec![nft::Chain { name: "post".into(), hook: Some((POSTROUTING, SRCNAT)) }];
    let table = Table { family: Family::Ipv4, name: "nat".into(), chains, rules: vec![rule] };
    let mut socket = Socket::open(Protocol::Netfilter).map_err(|error| error.to_string())?;
    nft::create(&mut socket, &[table], Ownership::Persistent).map_err(|error| error.to_string())
}

fn shape(chain: &Chain, direction: Direction) -> Shaping {
    let text = format!(
        "version = 1\ninterface = {{ direction = \"{}\" }}\n[shaper]\nrate = \"{MEGABITS}mbit\"\nfair-by = \"host\"\n\
         [[class]]\nname = \"all\"\nrate = \"{MEGABITS}mbit\"\ndefault = true\n",
        direction.word()
    );
    let config = shaper::load(&Source::new("nat.toml", &text), &mut Diagnostics::new()).expect("a file");
    let options = Options { interfaces: vec!["tgr1".into()], ..Options::default() };
    chain.router.namespace.run(|| Shaping::start(&config, &options)).expect("a thread").expect("shaping")
}

/// A connection from the address `from` to `to`, in the calling thread's namespace.
fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
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
        assert_eq!(libc::bind(socket, (&raw const from).cast(), length), 0, "{}", std::io::Error::last_os_error());
        assert_eq!(libc::connect(socket, (&raw const to).cast(), length), 0, "{}", std::io::Error::last_os_error());
        stream
    }
}

/// Connections that the inner hosts open, greedy in one direction; the bytes that arrive for each host.
struct Load {
    stop: Arc<AtomicBool>,
    bytes: Arc<[AtomicU64; 2]>,
}

impl Load {
    fn start(chain: &Chain, direction: Direction) -> Self {
        let load = Self { stop: Arc::default(), bytes: Arc::default() };
        let listener = chain.client.namespace.run(|| TcpListener::bind((chain.client.v4, 0)).expect("a port"));
        let listener = listener.expect("a thread");
        let to = listener.local_addr().expect("an address");
        for (host, from) in [chain.server.v4, Chain::ELEPHANT].into_iter().enumerate() {
            for _ in 0..CONNECTIONS[host] {
                let near = chain.server.namespace.run(|| connect(from, to)).expect("a thread");
                let (far, peer) = listener.accept().expect("a connection");
                // The client sees the router, whichever host it is.
                assert_eq!(peer.ip(), IpAddr::V4(chain.router.v4), "addresses are translated");
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
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

pub fn hosts_behind_translation_share_by_their_inner_addresses() -> Ended {
    let chain = Chain::create().expect("three hosts");
    if let Err(error) = chain.router.namespace.run(masquerade).expect("a thread") {
        return Ended::Skipped(format!("addresses cannot be translated here: {error}"));
    }
    for direction in [Direction::Egress, Direction::Ingress] {
        match patiently(|| share(&chain, direction)) {
            Ended::Passed => {}
            skipped => return skipped,
        }
    }
    Ended::Passed
}

fn share(chain: &Chain, direction: Direction) -> Result<(), String> {
    let shaping = shape(chain, direction);
    let load = Load::start(chain, direction);
    sleep(Duration::from_secs(1));
    let (before, began) = (load.count(), Instant::now());
    sleep(Duration::from_secs(3));
    let (after, time) = (load.count(), began.elapsed().as_secs_f64());
    drop(load);
    shaping.stop().expect("an orderly end");
    let rates = [0, 1].map(|host| (after[host] - before[host]) as f64 * 8.0 / time / 1e6);
    println!("  {}: {rates:.2?} Mbit/s for {CONNECTIONS:?} connections", direction.word());
    let whole: f64 = rates.iter().sum();
    if !(MEGABITS as f64 * 0.85..MEGABITS as f64).contains(&whole) {
        return Err(format!("{whole} of {MEGABITS} Mbit/s"));
    }
    // By connections, or by outer addresses, it would be 1 to 6.
    let ratio = rates[0] / rates[1];
    if (0.8..1.25).contains(&ratio) { Ok(()) } else { Err(format!("the hosts share {rates:?}")) }
}
