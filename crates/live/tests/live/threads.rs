//! Several threads: what they send together, that none idles while another has spare, and the order of each flow.

use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::rtnl::{Address, Rtnl};
use tidegate_live::shaping::{Options, Shaping, StartError};
use tidegate_units::Span;

use crate::arrivals::{HOSTS, hosts, traffic_to};
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;
use tidegate_testbed::veth::{DEVICE, Pair};

/// 20 Mbit/s.
const RATE: u64 = 20_000_000;
const BURST: u64 = 6_000;
/// A pool holds for a class, beyond the burst, two slices: 2 ms of the rate, at least sixteen and two full-size packets.
const MORE: u64 = 16 * 1_514 + 2 * 5_000;
/// 1,228 bytes with headers.
const PAYLOAD: usize = 1_200;

fn config(interfaces: &str, classes: &str) -> shaper::Config {
    let text = format!(
        "version = 1\n[interface]\nname = {interfaces}\nthreads = 2\n[shaper]\nrate = \"20mbit\"\nburst = \"{BURST}B\"\n\
         {classes}"
    );
    shaper::load(&Source::new("threads.toml", &text), &mut Diagnostics::new()).expect("a file")
}

const ONE_CLASS: &str =
    "[[class]]\nname = \"all\"\nrate = \"20mbit\"\nburst = \"6000B\"\nborrow = false\ndefault = true\n";

/// Without lateness that is made up for, so that the bound on what is sent is exact.
fn options() -> Options {
    Options { catch_up: Span::ZERO, catch_up_normal: Span::ZERO, ..Options::default() }
}

pub fn start(pair: &Pair, config: &shaper::Config) -> Shaping {
    pair.left.run(|| Shaping::start(config, &options())).unwrap().unwrap()
}

/// Sockets that send to each of `hosts`.
pub fn sockets(pair: &Pair, hosts: &[IpAddr]) -> Vec<UdpSocket> {
    let socket = |host: &IpAddr| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect((*host, 9)).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    pair.left.run(|| hosts.iter().map(socket).collect()).unwrap()
}

fn sent(shaping: &Shaping) -> u64 {
    shaping.interfaces().iter().map(|interface| interface.counts().sent_bytes).sum()
}

/// Sends more than `rate` in bit/s to each host in turn, and asserts that at no time more has left than it and `burst` allow.
/// Returns what did, in parts of the rate.
pub fn flood(shaping: &Shaping, sockets: &[UdpSocket], time: Duration, (rate, burst): (u64, u64)) -> f64 {
    let (began, before) = (Instant::now(), sent(shaping));
    let mut last = 0;
    while began.elapsed() < time {
        for socket in sockets {
            // What finds no room in a socket is lost there.
            let _ = socket.send(&[0; PAYLOAD]);
        }
        let now_sent = sent(shaping) - before;
        // Read after what was sent, so that the bound is no lower than it was then.
        let most = burst + began.elapsed().as_nanos() as u64 * rate / 8_000_000_000;
        assert!(now_sent <= most, "{now_sent} B after {:?}, of {most} B", began.elapsed());
        last = now_sent;
        std::thread::sleep(Duration::from_micros(100));
    }
    last as f64 / (time.as_secs_f64() * rate as f64 / 8.0)
}

fn arrivals(shaping: &Shaping) -> [u64; 2] {
    [0, 1].map(|shard| shaping.with_shard(shard, |engine, _| engine.arrivals()).unwrap())
}

/// The sockets by the thread that their packets come to.
fn by_thread(shaping: &Shaping, all: Vec<UdpSocket>) -> [Vec<UdpSocket>; 2] {
    let mut of = [Vec::new(), Vec::new()];
    for socket in all {
        let before = arrivals(shaping);
        let (mut thread, deadline) = (None, Instant::now() + Duration::from_secs(10));
        while thread.is_none() {
            assert!(Instant::now() < deadline, "packets do not come to a thread");
            (0..20).for_each(|_| drop(socket.send(&[0; PAYLOAD])));
            let now = arrivals(shaping);
            // The kernel itself sends now and then, but not ten packets.
            thread = (0..2).find(|&at| now[at] >= before[at] + 10);
        }
        of[thread.unwrap()].push(socket);
    }
    of
}

pub fn two_threads_send_what_one_may_and_neither_idles() -> Ended {
    patiently(|| {
        let pair = Pair::new();
        let shaping = start(&pair, &config(&format!("\"{DEVICE}\""), ONE_CLASS));
        let hosts = hosts(&pair, 16);
        let [first, second] = by_thread(&shaping, sockets(&pair, &hosts));
        println!("  {} and {} of 16 hosts", first.len(), second.len());
        assert!(!first.is_empty() && !second.is_empty());
        let both: Vec<UdpSocket> = first.iter().chain(&second).map(|socket| socket.try_clone().unwrap()).collect();
        let mut parts = Vec::new();
        for sockets in [&both, &first, &second] {
            let before = arrivals(&shaping);
            parts.push(flood(&shaping, sockets, Duration::from_secs(1), (RATE, BURST + MORE)));
            let after = arrivals(&shaping);
            let came = [0, 1].map(|at| after[at] > before[at] + 50);
            let expected = [!std::ptr::eq(sockets, &second), !std::ptr::eq(sockets, &first)];
            assert_eq!(came, expected, "which threads have had packets");
        }
        // The classes are those of both, and all is counted once.
        let status = shaping.status().unwrap();
        assert_eq!(status.len(), 1);
        let counts = shaping.counts().unwrap();
        assert!(counts.passed >= status[0].counts.through.packets, "{counts:?}");
        assert!(status[0].counts.through.bytes.as_u64() * 8 > RATE, "{:?}", status[0].counts.through);
        pair.left.run(|| shaping.stop()).unwrap().unwrap();
        println!("  {parts:.3?} of the rate: both threads, the first, the second");
        if parts.iter().all(|part| *part > 0.95) { Ok(()) } else { Err(format!("{parts:?} of the rate")) }
    })
}

pub fn two_interfaces_in_two_threads_have_one_total() -> Ended {
    const LANS: [&str; 2] = ["lan.5", "lan.6"];
    patiently(|| {
        let pair = Pair::new();
        let add = || {
            let mut rtnl = Rtnl::open().unwrap();
            for (name, number) in LANS.into_iter().zip([5, 6]) {
                let peer = format!("peer.{number}");
                rtnl.create_veth(name, &peer).unwrap();
                let [peer, index] = [&peer, name].map(|name| rtnl.index(name).unwrap());
                rtnl.up(peer).unwrap();
                rtnl.up(index).unwrap();
                rtnl.add_address(Address { index, address: IpAddr::from([10, 9, number, 1]), prefix: 24 }).unwrap();
            }
        };
        pair.left.run(add).unwrap();
        let shaping = start(&pair, &config("[\"lan.5\", \"lan.6\"]", ONE_CLASS));
        // Nobody answers for the addresses: the packets wait for it behind the queue.
        let hosts: Vec<IpAddr> = (10..26).map(|host| IpAddr::from([10, 9, 5 + host % 2, host])).collect();
        let sockets = sockets(&pair, &hosts);
        let (before, counted) = (arrivals(&shaping), [0, 1].map(|at| shaping.interfaces()[at].counts().sent_packets));
        let part = flood(&shaping, &sockets, Duration::from_secs(1), (RATE, BURST + MORE));
        let after = arrivals(&shaping);
        assert!((0..2).all(|at| after[at] > before[at] + 50), "{before:?} and {after:?} in the threads");
        for (at, before) in counted.into_iter().enumerate() {
            let sent = shaping.interfaces()[at].counts().sent_packets - before;
            assert!(sent > 200, "{sent} by {}", LANS[at]);
        }
        pair.left.run(|| shaping.stop()).unwrap().unwrap();
        println!("  {part:.3} of the rate by both interfaces");
        if part > 0.95 { Ok(()) } else { Err(format!("{part} of the rate")) }
    })
}

/// In place, with another tree, and refused.
pub fn a_change_in_two_threads_loses_and_reorders_nothing() -> Ended {
    let pair = Pair::new();
    let class = |name: &str, rate: &str, more: &str| {
        format!("[[class]]\nname = \"{name}\"\nrate = \"{rate}\"\nlimit = \"8MB\"\nflow-limit = \"4MB\"\n{more}")
    };
    let device = format!("\"{DEVICE}\"");
    let all = |rate: &str| config(&device, &class("all", rate, "default = true\n"));
    let two = config(
        &device,
        &(class("all", "4mbit", "default = true\n")
            + &class("few", "3mbit", "")
            + "[[rule]]\nclass = \"few\"\ndestination = \"10.77.0.101\"\n"),
    );
    let mut shaping = start(&pair, &all("7500kbit"));
    let arrivals = traffic_to(HOSTS, Duration::from_micros(500), &pair, |until| {
        for next in [all("9mbit"), two.clone(), all("7mbit"), two.clone(), all("7500kbit")] {
            until(1_000);
            pair.left.run(|| shaping.reconfigure(&next, None)).unwrap().unwrap();
        }
        let one = shaper::load(&Source::new("one.toml", format!("version = 1\n{ONE_CLASS}")), &mut Diagnostics::new());
        let error = pair.left.run(|| shaping.reconfigure(&one.unwrap(), None)).unwrap().unwrap_err();
        assert!(matches!(&error, StartError::Change(text) if text.contains("threads")), "{error}");
        until(500);
    });
    pair.left.run(|| shaping.stop()).unwrap().unwrap();
    arrivals.all_in_order();
    Ended::Passed
}
