//! CBQ in a real network, the paper's future work: throughput, delay, jitter and loss between namespaces of this machine, by
//! configuration, beside what the kernel has for the same task.

use std::io;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::netns;
use tidegate_live::shaping::{Options as Shape, Shaping};
use tidegate_testbed::{FlowReport, FlowSpec, Pair, Senders, Sink};
use tidegate_units::{Bytes, Rate};

use crate::reproduce::item::{Bound, median, paper, range};
use crate::reproduce::{Item, Options};

const LINK_MBIT: f64 = 12.0;
/// The rates of the classes in Mbit/s: a TCP, UDP that sends twice its rate, and UDP that sends half of it, as a call does.
const CLASSES: [(&str, f64); 3] = [("tcp", 6.0), ("flood", 4.0), ("call", 2.0)];
/// The payload that `flood` and `call` send.
const FLOOD: (Rate, Bytes) = (Rate::from_mbit(8), Bytes::new(1_200));
const CALL: (Rate, Bytes) = (Rate::from_mbit(1), Bytes::new(200));
const RUNS: usize = 5;
const WARM_UP: Duration = Duration::from_millis(1_500);
const MEASURED: Duration = Duration::from_secs(4);

/// The discipline that queues the packets.
#[derive(Clone, Copy)]
enum Queue {
    /// A CBQ of ours: more keys of its section, and whether classes borrow.
    Cbq(&'static str, bool),
    /// A queueing discipline of the kernel, by the arguments of `tc` after `dev`, for each command.
    Kernel(&'static [&'static str]),
}

struct System {
    id: &'static str,
    name: &'static str,
    queue: Queue,
}

/// The measured kernel of 1999 as far as its keys allow.
const KERNEL_1999: &str = "accounting = \"idle-time\"\nfinish = \"expected\"\nlink-clock = \"reset\"\nsuspension = \"sleep\"\n\
    sharing = \"top-level\"\nconserving = \"strict\"\n";

const SYSTEMS: [System; 9] = [
    System { id: "formal", name: "CBQ, our defaults", queue: Queue::Cbq("", true) },
    System { id: "alone", name: "CBQ without borrowing", queue: Queue::Cbq("", false) },
    System { id: "top-level", name: "CBQ, top-level sharing", queue: Queue::Cbq("sharing = \"top-level\"\n", true) },
    System { id: "idle-time", name: "CBQ by idle time", queue: Queue::Cbq("accounting = \"idle-time\"\n", true) },
    System { id: "altq", name: "CBQ with the defects of 1999", queue: Queue::Cbq(KERNEL_1999, true) },
    System {
        id: "htb",
        name: "the kernel's HTB",
        queue: Queue::Kernel(&[
            "root handle 1: htb",
            "parent 1: classid 1:1 htb rate 12mbit ceil 12mbit quantum 1514",
            "parent 1:1 classid 1:10 htb rate 6mbit ceil 12mbit quantum 1514",
            "parent 1:1 classid 1:11 htb rate 4mbit ceil 12mbit quantum 1514",
            "parent 1:1 classid 1:12 htb rate 2mbit ceil 12mbit quantum 1514",
            "parent 1:10 handle 10: pfifo limit 50",
            "parent 1:11 handle 11: pfifo limit 50",
            "parent 1:12 handle 12: pfifo limit 50",
        ]),
    },
    System {
        id: "hfsc",
        name: "the kernel's HFSC",
        queue: Queue::Kernel(&[
            "root handle 1: hfsc default 12",
            "parent 1: classid 1:1 hfsc sc rate 12mbit ul rate 12mbit",
            "parent 1:1 classid 1:10 hfsc sc rate 6mbit",
            "parent 1:1 classid 1:11 hfsc sc rate 4mbit",
            "parent 1:1 classid 1:12 hfsc sc rate 2mbit",
            "parent 1:10 handle 10: pfifo limit 50",
            "parent 1:11 handle 11: pfifo limit 50",
            "parent 1:12 handle 12: pfifo limit 50",
        ]),
    },
    System {
        id: "cake",
        name: "the kernel's CAKE, by flow",
        queue: Queue::Kernel(&["root cake bandwidth 12mbit diffserv3"]),
    },
    System {
        id: "fifo",
        name: "the kernel's TBF, one FIFO",
        queue: Queue::Kernel(&["root tbf rate 12mbit burst 3028 limit 75000"]),
    },
];

/// The measurements of one class in one run: payload in Mbit/s, and for UDP delays in ms and loss in percent.
#[derive(Clone, Copy, Default)]
struct Measured {
    rate: f64,
    median: f64,
    p99: f64,
    jitter: f64,
    loss: f64,
}

pub fn run(options: &Options) -> Vec<Item> {
    let wanted = || SYSTEMS.iter().filter(|system| options.wants(&format!("live.{}", system.id)));
    let unmeasured = |system: &System, why: &str| {
        Item::unmeasured(format!("live.{}", system.id), format!("{} on this machine", system.name), why)
    };
    if let Err(error) = netns::enter() {
        return wanted().map(|system| unmeasured(system, &error.to_string())).collect();
    }
    let mut items = Vec::new();
    for system in wanted() {
        match (0..RUNS).map(|_| measure(system.queue)).collect::<io::Result<Vec<_>>>() {
            Ok(runs) => items.extend(of_system(system, &runs)),
            Err(error) => items.push(unmeasured(system, &error.to_string())),
        }
    }
    items
}

fn of_system(system: &System, runs: &[[Measured; 3]]) -> Vec<Item> {
    let mut items = Vec::new();
    for (n, (class, own)) in CLASSES.into_iter().enumerate() {
        let mut add = |key: &str, what: &str, unit: &str, of: fn(&Measured) -> f64, bound: Option<Bound>| {
            let values: Vec<f64> = runs.iter().map(|run| of(&run[n])).collect();
            let (id, note) = (format!("live.{}.{class}.{key}", system.id), range(&values, 2));
            let item = Item::measured(id, format!("{}, {class}: {what}", system.name), unit, median(values)).note(note);
            items.push(match bound {
                Some(bound) => item.bound(bound),
                None => item,
            });
        };
        // The rates are known of our CBQ alone; 5 % for headers of TCP and the clock of a process.
        let basis = paper("section 2: each class is guaranteed its share of the link");
        let share = match (system.queue, class) {
            (Queue::Cbq(KERNEL_1999, _) | Queue::Kernel(_), _) => None,
            (Queue::Cbq(..), "call") => Some(Bound::at_least(0.97 * CALL.0.as_bps() as f64 / 1e6, basis)),
            (Queue::Cbq(..), _) => Some(Bound::at_least(0.92 * own, basis)),
        };
        add("rate", "payload that arrives", "Mbit/s", |run| run.rate, share);
        if class != "tcp" {
            add("delay.p50", "median of the one-way delay", "ms", |run| run.median, None);
            add("delay.p99", "99th percentile of the one-way delay", "ms", |run| run.p99, None);
            add("jitter", "mean deviation of the gaps between packets", "ms", |run| run.jitter, None);
            add("loss", "not delivered", "%", |run| run.loss, None);
        }
    }
    let total = runs.iter().map(|run| run.iter().map(|class| class.rate).sum::<f64>() / LINK_MBIT * 100.0);
    let what = format!("{}: payload of all, of the link", system.name);
    items.push(Item::measured(format!("live.{}.used", system.id), what, "%", median(total.collect())));
    items
}

fn flows() -> [FlowSpec; 3] {
    let priority = |n: u32, flow: FlowSpec| FlowSpec { priority: Some(0x1_0010 + n), ..flow };
    [
        priority(0, FlowSpec::tcp("tcp", 5_000, 0)),
        priority(1, FlowSpec::udp("flood", 5_001, 8, FLOOD.0, FLOOD.1)),
        priority(2, FlowSpec::udp("call", 5_002, 46, CALL.0, CALL.1)),
    ]
}

fn measure(queue: Queue) -> io::Result<[Measured; 3]> {
    let pair = Pair::create()?;
    let shaping = match queue {
        Queue::Cbq(keys, borrows) => Some(shape(&pair, keys, borrows)?),
        Queue::Kernel(commands) => tc(&pair, commands).map(|()| None)?,
    };
    let specs = flows();
    let sink = Sink::start(&pair.receiver, &specs)?;
    let senders = Senders::start(&pair.sender, &pair.receiver, &specs)?;
    sleep(WARM_UP);
    sink.restart();
    sleep(MEASURED);
    sink.freeze();
    let elapsed = sink.elapsed() as f64 / 1e9;
    let reports: Vec<FlowReport> = (0..specs.len()).map(|n| sink.report(n)).collect();
    senders.stop();
    if let Some(shaping) = shaping {
        shaping.stop().map_err(io::Error::other)?;
    }
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let of = |report: &FlowReport| Measured {
        rate: report.bytes as f64 * 8e-6 / elapsed,
        median: ms(report.delays.value_at_quantile(0.5)),
        p99: ms(report.delays.value_at_quantile(0.99)),
        jitter: report.gap_deviation_nanos() / 1e6,
        loss: 100.0 * report.missing as f64 / (report.missing + report.packets).max(1) as f64,
    };
    Ok([of(&reports[0]), of(&reports[1]), of(&reports[2])])
}

fn shape(pair: &Pair, keys: &str, borrows: bool) -> io::Result<Shaping> {
    let borrow = if borrows { "from-parent" } else { "never" };
    let class = |(name, mbit): (&str, f64)| {
        format!(
            "{{ name = \"{name}\", rate = \"{mbit}mbit\", borrow = \"{borrow}\", queue = {{ kind = \"fifo\", limit = \"75kB\" }} }}"
        )
    };
    let rules: String = (0..)
        .zip(CLASSES)
        .map(|(n, (name, _))| format!("[[rule]]\nclass = \"{name}\"\ndestination-port = 500{n}\n"))
        .collect();
    let classes: Vec<String> = CLASSES.into_iter().map(class).collect();
    let text = format!(
        "version = 1\n{rules}[discipline]\nkind = \"cbq\"\nlink = \"{LINK_MBIT}mbit\"\nmtu = \"1500B\"\n{keys}class = [{}]\n",
        classes.join(", ")
    );
    let source = Source::new("cbq.toml", text);
    let mut diagnostics = Diagnostics::new();
    let config =
        shaper::load(&source, &mut diagnostics).ok_or_else(|| io::Error::other(diagnostics.render(&source)))?;
    let options = Shape { interfaces: vec![pair.sender.interface.into()], ..Shape::default() };
    pair.sender.namespace.run(|| Shaping::start(&config, &options))?.map_err(io::Error::other)
}

/// Runs `tc` in the sender's namespace, for each of `commands`.
fn tc(pair: &Pair, commands: &[&str]) -> io::Result<()> {
    let interface = pair.sender.interface;
    pair.sender.namespace.run(|| {
        for command in commands {
            let object = if command.contains("classid") { "class" } else { "qdisc" };
            let arguments = [object, "add", "dev", interface].into_iter().chain(command.split(' '));
            let output = Command::new("tc").args(arguments).output()?;
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stderr);
                return Err(io::Error::other(format!("tc {object} add {command}: {}", text.trim())));
            }
        }
        Ok(())
    })?
}
