//! The cost of a packet in the data path.
//!
//! The pure parts in ns per packet; then the whole path over a veth pair between two namespaces: UDP of 64 bytes as
//! fast as one thread sends it, and one TCP stream, each beside the same without a queue; then two interfaces through one
//! engine, through two threads and through one engine each; then how late deadlines are. The last four need namespaces and are skipped with a message where there are none.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use criterion::{Criterion, Throughput};
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::marks::{Action, MarkLayout};
use tidegate_live::netlink::{Builder, Messages};
use tidegate_live::netns::{self, Namespace};
use tidegate_live::nfqueue::{Packet, QueueSettings, QueueSocket, Ring, Verdicts};
use tidegate_live::probe::recognise;
use tidegate_live::rtnl::{Address, Rtnl};
use tidegate_live::rules::{Rules, Spec};
use tidegate_live::shaping::{Options, Shaping, WorkerCounts};
use tidegate_live::timing::{Clock, Priority, Waiter, Woken, now, prepare_thread, read};
use tidegate_units::Span;

const DEVICE: &str = "tg0";
const QUEUE: u16 = 40;
const LEFT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const SECONDS: u64 = 3;

fn main() {
    // First of all, while there is one thread.
    let way = netns::enter();
    let mut criterion = Criterion::default().configure_from_args();
    pure(&mut criterion);
    criterion.final_summary();
    let selected: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if std::env::args().any(|a| a == "--test") || !selected.is_empty() && !selected.contains(&"live".into()) {
        return;
    }
    match way {
        Ok(_) => live(),
        Err(reason) => println!("live figures skipped: {reason}"),
    }
}

fn pure(criterion: &mut Criterion) {
    let mut message = Builder::new();
    message.message(0x300, 0, 0, |m| {
        m.raw(&[2, 0, 0, 40]).attr(1, &[0, 0, 0, 9, 8, 0, 4]).be32(6, 12).be32(3, 7).be32(13, 1_400);
        m.be32(14, 1).be32(16, 0).be32(17, 0).be32(21, 0).attr(10, &[0x45; 128]);
    });
    let mut group = criterion.benchmark_group("data path");
    group.throughput(Throughput::Elements(1));
    group.bench_function("parse a packet", |b| {
        b.iter(|| Packet::parse(&Messages::new(black_box(message.bytes())).next().unwrap()).unwrap().id)
    });
    let packet = Packet::parse(&Messages::new(message.bytes()).next().unwrap()).unwrap();
    group.bench_function("tell it from a probe", |b| b.iter(|| recognise(black_box(packet.payload), 1)));
    let marks = MarkLayout::default();
    group.bench_function("write a verdict with a mark, in batches of 64", |b| {
        let mut verdicts = Verdicts::new();
        b.iter(|| {
            let action = Action { dscp: Some(46), congestion: false };
            verdicts.accept_marked(40, black_box(9), marks.with_action(7, action));
            if verdicts.len() == 64 {
                verdicts.discard();
            }
        })
    });
    group.finish();
}

struct Pair {
    left: Namespace,
    right: Namespace,
}

fn pair() -> Pair {
    let pair = Pair { left: Namespace::create().unwrap(), right: Namespace::create().unwrap() };
    let make = || Rtnl::open().unwrap().create_veth_into(DEVICE, "peer0", pair.right.as_fd()).unwrap();
    pair.left.run(make).unwrap();
    for (namespace, device, address) in [(&pair.left, DEVICE, LEFT), (&pair.right, "peer0", RIGHT)] {
        let configure = || {
            let mut rtnl = Rtnl::open().unwrap();
            let index = rtnl.index(device).unwrap();
            rtnl.up(index).unwrap();
            rtnl.add_address(Address { index, address: address.into(), prefix: 24 }).unwrap();
        };
        namespace.run(configure).unwrap();
    }
    pair
}

/// Accepts every packet until `stop` is set; returns packets, their bytes and the processor time of this thread.
struct Shaper {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<std::io::Result<(u64, u64, Span)>>,
}

impl Shaper {
    fn start(pair: &Pair) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (ready, wait) = std::sync::mpsc::channel();
        let serve = move || {
            let mut socket = QueueSocket::open(8 << 20).unwrap();
            socket.bind(QUEUE, &QueueSettings::default()).unwrap();
            let rules = Rules::install(&Spec::new(DEVICE, QUEUE)).unwrap();
            ready.send(()).unwrap();
            let (mut ring, mut verdicts) = (Ring::new(128), Verdicts::new());
            let (waiter, began) = (Waiter::default(), read(Clock::ThreadCpu));
            let (mut packets, mut bytes) = (0, 0);
            while !stopped.load(Ordering::Relaxed) {
                if socket.receive(&mut ring).unwrap() == 0 {
                    waiter.wait(&[&socket], Some(now() + Span::from_millis(20))).unwrap();
                    continue;
                }
                for packet in ring.packets() {
                    packets += 1;
                    bytes += u64::from(packet.length);
                    verdicts.accept(packet.queue, packet.id);
                }
                socket.send(&mut verdicts).unwrap();
            }
            drop(rules);
            (packets, bytes, read(Clock::ThreadCpu).since(began))
        };
        let thread = pair.left.spawn("shaper", serve).unwrap();
        wait.recv().unwrap();
        Self { stop, thread }
    }

    fn finish(self) -> (u64, u64, Span) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap().unwrap()
    }
}

fn live() {
    println!("\nlive, over a veth pair, medians of 3 runs of {SECONDS} s");
    for queued in [false, true] {
        let mut runs: Vec<_> = (0..3).map(|_| flood(queued)).collect();
        runs.sort_by_key(|r| r.1);
        let (sent, arrived, cpu) = runs[1];
        let label = if queued { "NFQUEUE" } else { "no queue" };
        println!("UDP 64 B, {label}: {arrived} packets/s arrived of {sent} sent, {cpu} ns of processor a packet");
    }
    for queued in [false, true] {
        let mut runs: Vec<_> = (0..3).map(|_| stream(queued)).collect();
        runs.sort_by_key(|r| r.0);
        let (mbit, mean) = runs[1];
        let label = if queued { "NFQUEUE" } else { "no queue" };
        println!("TCP, {label}: {mbit} Mbit/s, mean packet {mean} B");
    }
    // In turn, since what else the machine does differs from one run to the next.
    let ways = [(1, 1), (1, 2), (2, 1)];
    let mut runs = ways.map(|_| Vec::new());
    for _ in 0..3 {
        for (runs, (data_paths, threads)) in runs.iter_mut().zip(ways) {
            runs.push(two_interfaces(data_paths, threads));
        }
    }
    for (mut runs, (data_paths, threads)) in runs.into_iter().zip(ways) {
        runs.sort_unstable();
        let (packets, cpu) = runs[1];
        println!(
            "two interfaces, {data_paths} data path(s) of {threads} thread(s): {packets} packets/s passed, {cpu} ns of \
             processor a packet"
        );
    }
    lateness();
}

/// Floods eight hosts behind each of two interfaces that one data path shapes, in so many threads, or one each, at a rate that
/// is never reached. Returns the packets that these let pass a second, and their processor time a packet in ns.
fn two_interfaces(data_paths: usize, threads: u32) -> (u64, u64) {
    let pair = pair();
    let second = || {
        let mut rtnl = Rtnl::open().unwrap();
        rtnl.create_veth_into("tg1", "peer1", pair.right.as_fd()).unwrap();
        let index = rtnl.index("tg1").unwrap();
        rtnl.up(index).unwrap();
        rtnl.add_address(Address { index, address: Ipv4Addr::new(10, 78, 0, 1).into(), prefix: 24 }).unwrap();
    };
    pair.left.run(second).unwrap();
    let far = || {
        let mut rtnl = Rtnl::open().unwrap();
        let indices = ["peer0", "peer1"].map(|name| rtnl.index(name).unwrap());
        rtnl.up(indices[1]).unwrap();
        for (index, net) in indices.into_iter().zip([77, 78]) {
            // The first of the first interface is there.
            for host in if net == 77 { 3..10 } else { 2..10 } {
                rtnl.add_address(Address { index, address: Ipv4Addr::new(10, net, 0, host).into(), prefix: 24 })
                    .unwrap();
            }
        }
    };
    pair.right.run(far).unwrap();
    let text = format!(
        "version = 1\n[interface]\nthreads = {threads}\n[[class]]\nname = \"all\"\nrate = \"20gbit\"\ndefault = true\n"
    );
    let config = shaper::load(&Source::new("bench.toml", text), &mut Diagnostics::new()).unwrap();
    let all = [DEVICE.to_owned(), "tg1".to_owned()];
    let start = |interfaces: &[String]| {
        let options = Options { interfaces: interfaces.to_vec(), ..Options::default() };
        pair.left.run(|| Shaping::start(&config, &options)).unwrap().unwrap()
    };
    let running: Vec<Shaping> = all.chunks(all.len() / data_paths).map(start).collect();
    let counts = || running.iter().map(|shaping| shaping.counts().unwrap()).sum::<WorkerCounts>();
    let (before, began) = (counts(), now());
    let flood = |net: u8| {
        let senders: Vec<UdpSocket> = (2..10)
            .map(|host| {
                let sender = pair.left.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()).unwrap();
                sender.connect((Ipv4Addr::new(10, net, 0, host), 9)).unwrap();
                sender
            })
            .collect();
        std::thread::spawn(move || {
            let end = now() + Span::from_secs(SECONDS);
            while now() < end {
                for sender in &senders {
                    // Refused where nobody listens at the other end; the packet was sent.
                    let _ = sender.send(&[0; 36]);
                }
            }
        })
    };
    let senders = [77, 78].map(flood);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let after = counts();
    let passed = after.passed - before.passed;
    let rate = passed * 1_000 / (now().since(began).as_nanos() / 1_000_000);
    let cpu = |counts: &WorkerCounts| counts.usage.user + counts.usage.system;
    let cpu = cpu(&after).as_nanos().saturating_sub(cpu(&before).as_nanos()) / passed.max(1);
    for shaping in running {
        pair.left.run(|| shaping.stop()).unwrap().unwrap();
    }
    (rate, cpu)
}

fn flood(queued: bool) -> (u64, u64, u64) {
    let pair = pair();
    let shaper = queued.then(|| Shaper::start(&pair));
    let receiver = pair.right.run(|| UdpSocket::bind((RIGHT, 9)).unwrap()).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let before = received(&pair);
    let sent = Arc::new(AtomicU64::new(0));
    let sender = pair.left.run(|| UdpSocket::bind((LEFT, 0)).unwrap()).unwrap();
    sender.connect((RIGHT, 9)).unwrap();
    let counter = sent.clone();
    let blast = std::thread::spawn(move || {
        let end = now() + Span::from_secs(SECONDS);
        while now() < end {
            for _ in 0..32 {
                counter.fetch_add(u64::from(sender.send(&[0; 36]).is_ok()), Ordering::Relaxed);
            }
        }
    });
    blast.join().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let arrived = received(&pair) - before;
    let cpu = shaper.map_or(0, |s| {
        let (packets, _, cpu) = s.finish();
        cpu.as_nanos() / packets.max(1)
    });
    drop(receiver);
    (sent.load(Ordering::Relaxed) / SECONDS, arrived / SECONDS, cpu)
}

/// Packets that reached the far end of the link.
fn received(pair: &Pair) -> u64 {
    let count = || Rtnl::open().unwrap().link("peer0").unwrap().unwrap().statistics.rx_packets;
    pair.right.run(count).unwrap()
}

fn stream(queued: bool) -> (u64, u64) {
    let pair = pair();
    let shaper = queued.then(|| Shaper::start(&pair));
    let listener = pair.right.run(|| TcpListener::bind((RIGHT, 9)).unwrap()).unwrap();
    let sink = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut buffer, mut total) = (vec![0; 1 << 18], 0_u64);
        while let Ok(length) = stream.read(&mut buffer)
            && length > 0
        {
            total += length as u64;
        }
        total
    });
    let mut sender = pair.left.run(|| TcpStream::connect((RIGHT, 9)).unwrap()).unwrap();
    let (data, end) = (vec![0; 1 << 18], now() + Span::from_secs(SECONDS));
    while now() < end {
        sender.write_all(&data).unwrap();
    }
    drop(sender);
    let total = sink.join().unwrap();
    let mean = shaper.map_or(0, |s| {
        let (packets, bytes, _) = s.finish();
        bytes / packets.max(1)
    });
    (total * 8 / 1_000_000 / SECONDS, mean)
}

fn lateness() {
    println!("readiness: {:?}", prepare_thread(Priority::RealTime));
    for spin in [0, 40] {
        let waiter = Waiter::new(Span::from_micros(spin));
        let began = read(Clock::ThreadCpu);
        let mut late: Vec<_> = (0..2_000)
            .map(|i| {
                let deadline = now() + Span::from_micros(200 + i % 300);
                while waiter.wait(&[], Some(deadline)).unwrap() != Woken::Deadline {}
                now().since(deadline).as_nanos()
            })
            .collect();
        let used = read(Clock::ThreadCpu).since(began).as_nanos() / 2_000;
        late.sort_unstable();
        println!(
            "deadlines, spin {spin} µs: median {} ns late, 99 % within {} ns; {used} ns of processor time each",
            late[1_000], late[1_980]
        );
    }
}
