//! Processor time against rate, for our queues and our filter and for disciplines of the kernel.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use tidegate_live::netns;
use tidegate_live::rtnl::HtbClass;
use tidegate_live::shaping::Shaping;
use tidegate_testbed::{Chain, FlowSpec, Senders, Sink};
use tidegate_units::{Bytes, Rate};

use super::{Item, Options, shape};
use crate::Failure;
use crate::reproduce::fbq::busy_time;
use crate::reproduce::item::{median, range};

const PAYLOAD: u64 = 1_400;
const HEADERS: u64 = 28;
const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(1_000);
/// The number of measurements of each system at each rate, of which the median counts.
const RUNS: usize = 5;
pub const RATES_MBIT: [u64; 4] = [10, 50, 100, 200];
/// The number of flows that share the rate.
const FLOWS: u16 = 4;

/// The system that forwards the traffic through the router or into the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum System {
    /// The links alone, without a discipline.
    None,
    /// A discipline of the kernel with its defaults.
    Kernel(&'static str),
    /// The kernel's TBF with a rate above the sent rate.
    Tbf,
    /// The kernel's HTB with a rate above the sent rate.
    Htb,
    /// Our engine as the queue of the router, with one class that has this discipline and a rate above the sent rate.
    Queue(&'static str),
    /// Our ingress filter at the client, for a line with a rate above the sent rate.
    Filter,
}

/// The kernel's disciplines that have defaults. The running kernel may lack some of them.
const KERNEL: [&str; 8] = ["pfifo", "sfq", "red", "codel", "fq_codel", "pie", "fq", "cake"];

impl System {
    fn name(self) -> String {
        match self {
            Self::None => "none".into(),
            Self::Kernel(kind) => format!("kernel_{kind}"),
            Self::Tbf => "kernel_tbf".into(),
            Self::Htb => "kernel_htb".into(),
            Self::Queue(kind) => kind.replace('-', "_"),
            Self::Filter => "ingress_filter".into(),
        }
    }

    /// Installs the system for traffic of `rate`. Returns our shaper, if the system is one.
    fn start(self, chain: &Chain, rate: Rate) -> io::Result<Option<Shaping>> {
        // The line is faster than the traffic, so that no packet is delayed or dropped and only the cost of passing is
        // measured.
        let line = Rate::from_bps(rate.as_bps() * 3 / 2);
        match self {
            Self::None => Ok(None),
            Self::Kernel(kind) => chain.at_router(|rtnl, index| rtnl.set_plain(index, kind)).map(|()| None),
            Self::Tbf => {
                let (burst, limit) = (Bytes::new(15_000), Bytes::new(500_000));
                chain.at_router(|rtnl, index| rtnl.set_tbf(index, line, burst, limit)).map(|()| None)
            }
            Self::Htb => {
                let class = HtbClass { minor: 0x10, rate: line, ceiling: line, burst: Bytes::new(15_000), priority: 0 };
                chain.at_router(|rtnl, index| rtnl.set_htb(index, line, &[class])).map(|()| None)
            }
            Self::Queue(kind) => {
                let link = if kind.starts_with("mered") { format!(", link = \"{line}\"") } else { String::new() };
                let text = format!(
                    "version = 1\n[[class]]\nname = \"line\"\nrate = \"{line}\"\ndefault = true\n\
                     queue = {{ kind = \"{kind}\"{link} }}\n"
                );
                shape(&chain.router, &text).map(Some)
            }
            Self::Filter => {
                let text = format!(
                    "version = 1\n[interface]\ndirection = \"ingress\"\n[discipline]\n\
                     kind = \"ingress-filter\"\nlink = \"{line}\"\n"
                );
                shape(&chain.client, &text).map(Some)
            }
        }
    }
}

/// The processor time of the whole process and of the data path's thread alone, as shares of one processor, and the
/// rate that was received.
struct Cost {
    process: Option<f64>,
    data_path: Option<f64>,
    through: f64,
}

fn measure(system: System, rate: Rate) -> io::Result<Cost> {
    let chain = Chain::create()?;
    let shaping = system.start(&chain, rate)?;
    let payload = Rate::from_bps(rate.as_bps() * PAYLOAD / (PAYLOAD + HEADERS) / u64::from(FLOWS));
    let specs: Vec<_> =
        (0..FLOWS).map(|n| FlowSpec::udp(format!("flow {n}"), 10_000 + n, 0, payload, Bytes::new(PAYLOAD))).collect();
    let sink = Sink::start(&chain.client, &specs)?;
    let senders = Senders::start(&chain.server, &chain.client, &specs)?;
    sleep(WARM_UP);
    let used = || -> io::Result<Option<f64>> {
        let Some(shaping) = &shaping else { return Ok(None) };
        let usage = shaping.counts().map_err(io::Error::other)?.usage;
        Ok(Some((usage.user.as_nanos() + usage.system.as_nanos()) as f64 / 1e9))
    };
    let (busy, thread) = (busy_time(), used()?);
    sink.restart();
    sleep(MEASURED);
    let seconds = sink.elapsed() as f64 / 1e9;
    let (busy, thread) = (busy_time().zip(busy), used()?.zip(thread));
    let packets: u64 = (0..specs.len()).map(|n| sink.report(n).packets).sum();
    senders.stop();
    if let Some(shaping) = shaping {
        shaping.stop().map_err(io::Error::other)?;
    }
    Ok(Cost {
        process: busy.map(|(after, before)| (after - before) / seconds),
        data_path: thread.map(|(after, before)| (after - before) / seconds),
        through: packets as f64 * (PAYLOAD + HEADERS) as f64 * 8.0 / seconds,
    })
}

pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    const GROUP: &str = "live.load";
    let mut items = Vec::new();
    if let Err(error) = netns::enter() {
        return Ok(vec![Item::unmeasured(GROUP, "processor time against rate", error.to_string())]);
    }
    let mut systems = vec![System::None, System::Tbf, System::Htb];
    systems.extend(KERNEL.map(System::Kernel));
    systems.extend(["fifo", "codel", "fq-codel", "cake", "mered", "meredt"].map(System::Queue));
    systems.push(System::Filter);
    for system in systems {
        let group = format!("{GROUP}.{}", system.name());
        if !options.wants(&group) {
            continue;
        }
        for mbit in RATES_MBIT {
            let (id, name) = (format!("{group}.{mbit}mbit"), system.name());
            let rate = Rate::from_mbit(mbit);
            match (0..RUNS).map(|_| measure(system, rate)).collect::<io::Result<Vec<Cost>>>() {
                Ok(runs) => {
                    let through = median(runs.iter().map(|cost| cost.through / 1e6).collect());
                    let mut item = |key: &str, what: &str, of: fn(&Cost) -> Option<f64>| {
                        if let Some(shares) = runs.iter().map(of).collect::<Option<Vec<f64>>>() {
                            let what = format!("{name} at {mbit} Mbit/s of 1428-byte packets: {what}");
                            let noise = range(&shares, 3);
                            let item = Item::measured(format!("{id}.{key}"), what, "processors", median(shares));
                            items.push(item.note(format!("{noise}; {through:.1} Mbit/s came through")));
                        }
                    };
                    item("process", "senders, receiver and what is between", |cost| cost.process);
                    item("data_path", "our thread alone", |cost| cost.data_path);
                }
                Err(error) => {
                    items.push(Item::unmeasured(id, "processor time", format!("this kernel: {error}")));
                    // A discipline that the kernel lacks at one rate it lacks at all rates.
                    break;
                }
            }
        }
    }
    Ok(items)
}
