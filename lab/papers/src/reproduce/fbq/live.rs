//! The systems on this machine: real sockets between two namespaces, with the kernel's FIFO, its HTB or our engine.

use std::fs;
use std::io;
use std::thread::sleep;
use std::time::Duration;

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::netns;
use tidegate_live::rtnl::HtbClass;
use tidegate_live::shaping::{Options as Shape, Shaping};
use tidegate_testbed::{FlowSpec, Pair, Senders, Sink};
use tidegate_units::{Bytes, Rate};

use super::{CLASSES, HEADERS, LOADS, Load, Outcome, PAYLOAD, System, items};
use crate::reproduce::item::{Bound, median, paper};
use crate::reproduce::{Item, Options};

const WIRE: Rate = Rate::from_mbit(100);
const TOTAL: Rate = Rate::from_mbit(80);
const MEASURED: Duration = Duration::from_millis(2_500);
/// The number of measurements of each system. A single one would often be noise.
const RUNS: usize = 5;
const WARM_UP: Duration = Duration::from_millis(500);

pub fn run(options: &Options) -> Vec<Item> {
    let loads = || LOADS.into_iter().filter(|load| options.wants(&format!("live.{}", load.id)));
    let unmeasured = |why: &str| {
        loads()
            .map(|load| Item::unmeasured(format!("live.{}", load.id), "jitter and cost on this machine", why))
            .collect()
    };
    if let Err(error) = netns::enter() {
        return unmeasured(&error.to_string());
    }
    let mut all = Vec::new();
    for load in loads() {
        let measure = |&system: &System| (0..RUNS).map(|_| measure(system, load)).collect::<io::Result<Vec<_>>>();
        let results: io::Result<Vec<_>> = System::ALL.iter().map(measure).collect();
        match results {
            Ok(results) => {
                let results = [results[0].clone(), results[1].clone(), results[2].clone(), results[3].clone()];
                let note = "this machine and its noise; see the page for what binds";
                all.extend(items("live", load, &results, false, note));
                all.extend(costs(load, &results));
            }
            Err(error) => all.push(Item::unmeasured(format!("live.{}", load.id), "jitter and cost", error.to_string())),
        }
    }
    all
}

/// Checks the paper's claim that FBQ takes at most four times the processor time of RAW and three times that of CBQ.
fn costs(load: Load, results: &[Vec<Outcome>; 4]) -> Vec<Item> {
    let time = |system: System| {
        let times = results[system as usize].iter().map(|run| run.processor).collect::<Option<Vec<f64>>>()?;
        Some(median(times))
    };
    [("raw", System::Raw, 4.0), ("cbq", System::Cbq, 3.0)]
        .into_iter()
        .filter_map(|(name, other, worst)| {
            let what = format!(
                "median processor time of senders, receiver and shaper under FBQ over that under {}",
                name.to_uppercase()
            );
            let ratio = time(System::Fbq)? / time(other).filter(|time| *time > 0.0)?;
            // Both terms include senders and receiver, so the paper's worst case is an upper bound here, too.
            let bound =
                Bound::at_most(worst, paper("section 7, figure 4: in the worst case four times RAW, three times CBQ"));
            Some(
                Item::measured(format!("live.{}.cpu-to-{name}", load.id), what, "ratio", ratio)
                    .paper(worst)
                    .bound(bound),
            )
        })
        .collect()
}

fn measure(system: System, load: Load) -> io::Result<Outcome> {
    let pair = Pair::create()?;
    let payload = Rate::from_bps(load.kbit * 1_000 * PAYLOAD / (PAYLOAD + HEADERS));
    let specs: Vec<_> = load
        .flows()
        .into_iter()
        .enumerate()
        .map(|(n, class)| {
            let dscp = [46, 10, 0][class];
            let flow = FlowSpec::udp(format!("flow {n}"), 10_000 + n as u16, dscp, payload, Bytes::new(PAYLOAD));
            // HTB takes the class from the priority of the socket.
            FlowSpec { priority: (system == System::Cbq).then_some(0x1_0010 + class as u32), ..flow }
        })
        .collect();
    let shaping = match system {
        System::Raw => pair.limit_wire(WIRE, Bytes::new(100 * (PAYLOAD + HEADERS))).map(|()| None)?,
        System::Cbq => pair.at_sender(|rtnl, index| rtnl.set_htb(index, TOTAL, &htb())).map(|()| None)?,
        System::Fbq | System::Shared => {
            pair.limit_wire(WIRE, Bytes::new(100 * (PAYLOAD + HEADERS)))?;
            Some(shape(&pair, if system == System::Fbq { "strict" } else { "work-conserving" })?)
        }
    };
    let sink = Sink::start(&pair.receiver, &specs)?;
    let senders = Senders::start(&pair.sender, &pair.receiver, &specs)?;
    sleep(WARM_UP);
    sink.restart();
    let busy = busy_time();
    sleep(MEASURED);
    sink.freeze();
    let (elapsed, busy) = (sink.elapsed() as f64, busy_time().zip(busy).map(|(after, before)| after - before));
    let reports: Vec<_> = (0..specs.len()).map(|n| sink.report(n)).collect();
    senders.stop();
    if let Some(shaping) = shaping {
        shaping.stop().map_err(io::Error::other)?;
    }
    let packets: u64 = reports.iter().map(|report| report.packets).sum();
    let wanted = load.kbit as f64 * 1e3 * specs.len() as f64 / 8.0 / (PAYLOAD + HEADERS) as f64 * elapsed / 1e9;
    Ok(Outcome {
        jitter: reports.iter().map(tidegate_testbed::FlowReport::gap_deviation_nanos).sum::<f64>()
            / reports.len() as f64,
        rate: packets as f64 * (PAYLOAD + HEADERS) as f64 * 8e9 / elapsed,
        loss: (1.0 - packets as f64 / wanted).max(0.0),
        processor: busy.map(|busy| busy / (elapsed / 1e9)),
        ..Outcome::default()
    })
}

/// The kernel's HTB with the classes of the experiment. It replaces the kernel's CBQ, which was removed. Assured and
/// best effort may borrow up to the total.
fn htb() -> Vec<HtbClass> {
    let class = |(n, (_, mbit)): (u16, (&str, u64))| HtbClass {
        minor: 0x10 + n,
        rate: Rate::from_mbit(mbit),
        ceiling: if n == 0 { Rate::from_mbit(mbit) } else { TOTAL },
        burst: Bytes::new(3_028),
        priority: u32::from(n),
    };
    (0..).zip(CLASSES).map(class).collect()
}

fn shape(pair: &Pair, share: &str) -> io::Result<Shaping> {
    let text = "version = 1\n\
        [[class]]\nname = \"premium\"\nrate = \"10mbit\"\npriority = 0\ndscp = \"ef\"\nborrow = false\n\
        [[class]]\nname = \"assured\"\nrate = \"30mbit\"\ndscp = \"af11\"\n\
        [[class]]\nname = \"besteffort\"\nrate = \"40mbit\"\npriority = 2\ndefault = true\n\
        [[rule]]\nclass = \"premium\"\ndscp = \"ef\"\n\
        [[rule]]\nclass = \"assured\"\ndscp = \"af11\"\n";
    let text = text.replace("\nrate = ", &format!("\nshare = \"{share}\"\nrate = "));
    let source = Source::new("fbq.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config =
        shaper::load(&source, &mut diagnostics).ok_or_else(|| io::Error::other(diagnostics.render(&source)))?;
    let options = Shape { interfaces: vec![pair.sender.interface.into()], ..Shape::default() };
    pair.sender.namespace.run(|| Shaping::start(&config, &options))?.map_err(io::Error::other)
}

/// The processor time in seconds that this process has used for senders, receiver and, under FBQ, the data path. Under
/// none of the systems does it include the kernel's work in interrupts.
pub fn busy_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The fields follow the name, which may contain any character. State is the first of them, and user and system time
    // are the 12th and 13th.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).map(str::parse::<f64>);
    // The unit is a hundredth of a second on every architecture that Linux runs on today.
    Some((fields.next()?.ok()? + fields.next()?.ok()?) / 100.0)
}
