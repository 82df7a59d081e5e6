//! Section 6.2, figure 20: the packets that a router on this machine forwards, against the offered load.

use std::fs;
use std::io;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_live::netns;
use tidegate_units::{Bytes, Rate};

use super::{Item, Options};
use crate::reproduce::item::{Bound, median, paper, range};
use crate::reproduce::mice::shape;
use tidegate_testbed::{Chain, FlowSpec, Host, Senders, Sink};

/// The offered loads in thousands of packets a second.
pub const OFFERED: [u64; 8] = [5, 10, 20, 50, 100, 150, 200, 300];
/// The least load, which any machine can forward.
const LEAST: u64 = OFFERED[0];
/// The payload of a packet of 60 bytes, as in table 5.
const PAYLOAD: u64 = 32;
const RUNS: usize = 5;
/// The number of senders. The kernel forwards a packet on the sender's processor, so one sender alone cannot overload
/// the router.
const SENDERS: u16 = 2;
const PATIENCE: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(500);
/// The class has a higher rate than the flows, so that CBQ drops no packet because of a rate.
const CBQ: &str = "version = 1\ndefault-class = \"all\"\n[statistics]\ndetail = \"off\"\n[discipline]\nkind = \"cbq\"\n\
                   link = \"10gbit\"\nclass = [{ name = \"all\", rate = \"9gbit\", queue = { kind = \"fifo\", \
                   limit = \"100kB\" } }]\n";

/// The rates of a run, in thousands of packets a second.
#[derive(Clone, Copy)]
struct Run {
    sent: f64,
    forwarded: f64,
}

fn measure(cbq: bool, kpps: u64) -> io::Result<Run> {
    let chain = Chain::create()?;
    let shaping = cbq.then(|| shape(&chain.router, CBQ)).transpose()?;
    let rate = Rate::from_bps(kpps * 1_000 * PAYLOAD * 8 / u64::from(SENDERS));
    let flow = |n| FlowSpec::udp(format!("load {n}"), 10_000 + n, 0, rate, Bytes::new(PAYLOAD));
    let flows: Vec<FlowSpec> = (0..SENDERS).map(flow).collect();
    // Without a receiver the client would answer each datagram with an ICMP error.
    let _sink = Sink::start(&chain.client, &flows)?;
    let start = |flow| Senders::start(&chain.server, &chain.client, std::slice::from_ref(flow));
    let senders = flows.iter().map(start).collect::<io::Result<Vec<_>>>()?;
    // Wait until the link-layer addresses are resolved.
    let (before, patience) = (received(&chain.client)?, Instant::now() + PATIENCE);
    while received(&chain.client)? <= before + 10 && Instant::now() < patience {
        sleep(Duration::from_millis(10));
    }
    sleep(WARM_UP);
    let sent = || senders.iter().map(|one| one.sent(0).packets.load(Ordering::Relaxed)).sum::<u64>();
    let (began, before) = (Instant::now(), (sent(), received(&chain.client)?));
    sleep(MEASURED);
    let (after, seconds) = ((sent(), received(&chain.client)?), began.elapsed().as_secs_f64());
    senders.into_iter().for_each(Senders::stop);
    if let Some(shaping) = shaping {
        shaping.stop().map_err(io::Error::other)?;
    }
    let kpps = |count: u64| count as f64 / seconds / 1e3;
    Ok(Run { sent: kpps(after.0 - before.0), forwarded: kpps(after.1 - before.1) })
}

/// The packets that the interface of `host` has received. These are all packets that the router forwarded, whether or
/// not a socket has read them.
fn received(host: &Host) -> io::Result<u64> {
    let text = host.namespace.run(|| fs::read_to_string("/proc/thread-self/net/dev"))??;
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(host.interface)?.strip_prefix(':'));
    let count = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    count.ok_or_else(|| io::Error::other(format!("/proc/net/dev has no count of {}", host.interface)))
}

pub fn run(options: &Options) -> Vec<Item> {
    const GROUP: &str = "s6.2.load";
    let unmeasured = |why: String| vec![Item::unmeasured(GROUP, "packets forwarded by the load", why)];
    if !options.wants(GROUP) {
        return Vec::new();
    }
    if let Err(error) = netns::enter() {
        return unmeasured(error.to_string());
    }
    let mut items = Vec::new();
    for (system, cbq) in [("fifo", false), ("cbq", true)] {
        let mut forwarded = Vec::new();
        for kpps in OFFERED {
            let runs = match (0..RUNS).map(|_| measure(cbq, kpps)).collect::<io::Result<Vec<Run>>>() {
                Ok(runs) => runs,
                Err(error) => return unmeasured(error.to_string()),
            };
            let sent = median(runs.iter().map(|run| run.sent).collect());
            let each: Vec<f64> = runs.iter().map(|run| run.forwarded).collect();
            let id = format!("{GROUP}.{system}.{kpps}");
            let what = format!("forwarded of {kpps},000 packets of 60 B a second, {}", system.to_uppercase());
            if sent < 0.95 * kpps as f64 {
                items.push(Item::unmeasured(id, what, format!("the sender of this machine sends {sent:.1},000")));
                continue;
            }
            let note = format!("{}; {sent:.1} were sent", range(&each, 1));
            let value = median(each);
            forwarded.push((kpps, value, value / sent));
            items.push(Item::measured(id, what, "1000/s", value).note(note));
        }
        if !cbq {
            continue;
        }
        let most = forwarded.iter().fold(0.0_f64, |most, run| most.max(run.1));
        if let Some((_, _, part)) = forwarded.iter().find(|run| run.0 == LEAST) {
            let basis =
                paper("section 6.2, figure 20: below its forwarding ability the router manages all the traffic");
            let what = format!("the part of {LEAST},000 packets a second that a router with CBQ forwards");
            items.push(
                Item::measured(format!("{GROUP}.below"), what, "part", *part).bound(Bound::at_least(0.99, basis)),
            );
        }
        if let Some((kpps, last, _)) = forwarded.last() {
            let basis = paper("section 6.2, figure 20: when the load increases beyond a level the throughput drops");
            let what = format!("forwarded of {kpps},000 packets a second with CBQ, by the most at any load");
            items.push(
                Item::measured(format!("{GROUP}.beyond"), what, "part", last / most).bound(Bound::below(1.0, basis)),
            );
        }
    }
    items
}
