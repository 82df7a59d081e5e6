//! What it changes that a discipline in the kernel cannot write to a packet: a mark that an AQM decides on is owed by the queue, and
//! the next packet that arrives for this queue and can carry a mark gets it (`kernel/marks.h`). The signal waits behind the queue,
//! where one given at departure is ahead of it. The step of a class marks what arrives as it would have marked the packet of the
//! flow that left last. The two queues of DualPI2 owe their marks each. The same senders over the same disciplines, both ways.
//!
//! `TIDEGATE_TESTS=nightly cargo test -p tidegate-kernel --test it late_marks -- --nocapture` prints the table of the chapter *In the
//! kernel* for round trips of 5, 20 and 100 ms; a short run takes that of 20 ms.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Once, PoisonError};

use tidegate_config::discipline::{self, Kind, Site};
use tidegate_config::{Diagnostics, Source, record};
use tidegate_core::step::Step;
use tidegate_core::{
    AnyPacket, Backlog, Bytes, ClassId, Colour, Deadline, DropReason, Dscp, Ecn, Event, FlowKey, Instant, Outlet,
    Packet, Qdisc, Queued, Span, codel, drr, dualpi2, fq_codel, pie,
};
use tidegate_sim::scenario::Scenario;

/// A mark that was owed for longer is not given, as in `marks.h`.
const LONGEST_OWED: Span = Span::from_secs(1);

/// The marks that each queue owes, and when the last was decided.
#[derive(Default)]
struct Owed {
    now: Instant,
    queues: HashMap<u64, (u64, Instant)>,
    /// Whether the packet that leaves is marked; and the queues whose last packet was.
    marks: bool,
    stepped: HashSet<u64>,
}

type Shared = Arc<Mutex<Owed>>;

/// A packet for a discipline that cannot write to it.
struct Unwritable {
    packet: AnyPacket,
    queue: u64,
    owed: Shared,
}

impl Packet for Unwritable {
    fn size(&self) -> Bytes {
        self.packet.size()
    }
    fn flow(&self) -> FlowKey {
        self.packet.flow()
    }
    fn class(&self) -> ClassId {
        self.packet.class()
    }
    fn dscp(&self) -> Dscp {
        self.packet.dscp()
    }
    fn ecn(&self) -> Ecn {
        self.packet.ecn()
    }
    fn colour(&self) -> Colour {
        self.packet.colour()
    }
    fn mark_ce(&mut self) -> bool {
        if self.packet.ecn() == Ecn::NotEct {
            return false;
        }
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        let now = owed.now;
        owed.marks = true;
        let entry = owed.queues.entry(self.queue).or_default();
        *entry = (entry.0 + 1, now);
        true
    }
}

/// Gives what is dropped back as it came.
struct Unwrapping<'a>(&'a mut dyn Outlet<AnyPacket>);

impl Outlet<Unwritable> for Unwrapping<'_> {
    fn dropped(&mut self, packet: Unwritable, reason: DropReason) {
        self.0.dropped(packet.packet, reason);
    }
}

/// The queues that owe marks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Queues {
    One,
    /// One of each flow.
    Flows,
    /// One of scalable senders, and one of the others.
    Coupled,
}

/// The queue of scalable senders.
const LOW: u64 = 1;

struct Late {
    inner: Box<dyn Qdisc<Unwritable>>,
    queues: Queues,
    /// Whether it marks by a step.
    steps: bool,
    owed: Shared,
}

impl Late {
    /// Gives a packet a mark that its queue owes.
    fn pay(&self, now: Instant, queue: u64, packet: &mut AnyPacket, out: &mut dyn Outlet<AnyPacket>) {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        owed.now = now;
        if self.steps {
            if owed.stepped.contains(&queue) && packet.ecn() == Ecn::Ect1 && packet.mark_ce() {
                out.event(Event::Marked { flow: packet.flow().flow });
            }
            return;
        }
        let Some((marks, at)) = owed.queues.get_mut(&queue) else { return };
        if now.since(*at) > LONGEST_OWED {
            *marks = 0;
        }
        if *marks > 0 && packet.mark_ce() {
            *marks -= 1;
            out.event(Event::Marked { flow: packet.flow().flow });
        }
    }
}

impl Qdisc<AnyPacket> for Late {
    fn enqueue(&mut self, now: Instant, mut packet: AnyPacket, out: &mut dyn Outlet<AnyPacket>) -> Queued {
        let queue = match self.queues {
            Queues::One => 0,
            Queues::Flows => packet.flow().flow,
            Queues::Coupled => u64::from(matches!(packet.ecn(), Ecn::Ect1 | Ecn::Ce)) * LOW,
        };
        self.pay(now, queue, &mut packet, out);
        let packet = Unwritable { packet, queue, owed: Arc::clone(&self.owed) };
        self.inner.enqueue(now, packet, &mut Unwrapping(out))
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<AnyPacket>) -> Option<AnyPacket> {
        let owed = || self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        (owed().now, owed().marks) = (now, false);
        let Unwritable { packet, queue, .. } = self.inner.dequeue(now, &mut Unwrapping(out))?;
        let mut owed = owed();
        if owed.marks {
            owed.stepped.insert(queue);
        } else {
            owed.stepped.remove(&queue);
        }
        Some(packet)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.inner.deadline(now)
    }
    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }
}

record! {
    /// A discipline whose marks are given late.
    pub struct LateMarks as "late-marks" {
        /// The discipline.
        pub of: String,
    }
}

impl Kind for LateMarks {
    const KIND: &'static str = "late-marks";
    fn build(&self, _site: &Site) -> Box<dyn Qdisc<AnyPacket>> {
        let inner: Box<dyn Qdisc<Unwritable>> = match self.of.as_str() {
            "codel" => Box::new(codel::CoDel::new(codel::Params::default()).expect("valid")),
            "fq-codel" => Box::new(fq_codel::FqCodel::new(fq_codel::Params::default()).expect("valid")),
            "drr" => {
                let step = Some(Step::at(Span::from_millis(1)));
                Box::new(drr::Drr::new(drr::Params { step, ..drr::Params::default() }).expect("valid"))
            }
            "dualpi2" => {
                let protection = Some(dualpi2::protection::Params::default());
                let params = dualpi2::Params { protection, ..dualpi2::Params::default() };
                Box::new(dualpi2::DualPi2::new(params).expect("valid"))
            }
            "pie" => Box::new(pie::Pie::new(pie::Params::default(), 1, "late").expect("valid")),
            other => panic!("{other}"),
        };
        let steps = self.of == "drr";
        let queues = match self.of.as_str() {
            "drr" | "fq-codel" => Queues::Flows,
            "dualpi2" => Queues::Coupled,
            _ => Queues::One,
        };
        Box::new(Late { inner, queues, steps, owed: Shared::default() })
    }
}

/// Throughput and delay of the flows over a line of 20 Mbit/s.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// The part of the line that is used.
    used: f64,
    /// Waits in ms.
    mean: f64,
    p99: f64,
    marked: f64,
    dropped: f64,
}

fn run(queue: &str, milliseconds: u64, flows: u64, congestion: &str) -> Outcome {
    let seconds = if milliseconds < 100 { 20 } else { 40 };
    let text = format!(
        "version = 1\nduration = \"{seconds}s\"\nwarm-up = \"{}s\"\nhosts = [\"a\", \"b\"]\nrouters = [\"r\", \"s\"]\n\
         [[link]]\nfrom = \"a\"\nto = \"r\"\nrate = \"1gbit\"\ndelay = \"0s\"\nlimit = 100000\n\
         [[link]]\nwatch = true\nfrom = \"r\"\nto = \"s\"\nrate = \"20mbit\"\ndelay = \"{}us\"\nqueue = {queue}\n\
         [[link]]\nfrom = \"s\"\nto = \"b\"\nrate = \"1gbit\"\ndelay = \"0s\"\nlimit = 100000\n\
         [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncount = {flows}\nport = 6000\njitter = \"100ms\"\n\
         workload = {{ kind = \"bulk\" }}\n\
         tcp = {{ congestion = \"{congestion}\", mss = \"1452B\", window = \"16MiB\", min-rto = \"200ms\"{} }}\n",
        seconds / 2,
        milliseconds * 500,
        // Prague has its own.
        if congestion == "prague" { "" } else { ", ecn = true" },
    );
    let (source, mut diagnostics) = (Source::new("late.toml", &text), Diagnostics::new());
    let scenario = Scenario::load(&source, None, &mut diagnostics);
    let outcome = scenario.unwrap_or_else(|| panic!("{}\n{text}", diagnostics.render(&source))).run(1, |_| ());
    let value = |measure: &str| {
        let of_line = |subject: &str| subject.starts_with("link r");
        let found = outcome.values.iter().find(|value| of_line(&value.subject) && value.measure == measure);
        found.unwrap_or_else(|| panic!("no {measure} in {:?}", outcome.values)).value
    };
    Outcome {
        used: value("utilisation"),
        mean: value("queueing mean") / 1e6,
        p99: value("queueing p99") / 1e6,
        marked: value("marked"),
        dropped: value("dropped"),
    }
}

fn is_nightly() -> bool {
    std::env::var("TIDEGATE_TESTS").is_ok_and(|which| which == "nightly")
}

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| discipline::register::<LateMarks>().expect("a new name"));
}

#[test]
fn a_mark_that_is_given_at_the_next_arrival_costs_little() {
    register();
    let round_trips: &[u64] = if is_nightly() { &[5, 20, 100] } else { &[20] };
    println!(
        "| discipline | round trip | flows | used | mean wait | p99 | marks | drops |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    for (kind, more, congestion) in [
        ("codel", "", "cubic"),
        ("fq-codel", "", "cubic"),
        ("pie", "", "cubic"),
        ("drr", ", l4s-step = \"1ms\"", "prague"),
    ] {
        for &milliseconds in round_trips {
            for flows in [1, 10] {
                let at_once = run(&format!("{{ kind = \"{kind}\"{more} }}"), milliseconds, flows, congestion);
                let late = format!("{{ kind = \"late-marks\", of = \"{kind}\" }}");
                let late = run(&late, milliseconds, flows, congestion);
                let pair = |of: fn(&Outcome) -> f64, digits: usize| {
                    format!("{:.digits$} → {:.digits$}", of(&at_once), of(&late))
                };
                println!(
                    "| `{kind}`{} | {milliseconds} ms | {flows} | {} | {} ms | {} ms | {} | {} |",
                    more.replace(", ", " with "),
                    pair(|r| r.used, 3),
                    pair(|r| r.mean, 1),
                    pair(|r| r.p99, 1),
                    pair(|r| r.marked, 0),
                    pair(|r| r.dropped, 0),
                );
                let what = format!("{kind}, {milliseconds} ms, {flows} flows: {at_once:?}, late {late:?}");
                // The part of the line, and the wait: a mark comes a queue's length later, and the queue is some milliseconds.
                assert!(late.used > at_once.used - 0.02, "{what}");
                assert!(late.mean < at_once.mean * 1.5 + 2.0, "{what}");
                // They are marks and not drops. PIE drops where its probability exceeds what may be marked, which it does more often.
                assert!(late.marked > 0.0 && late.dropped <= at_once.dropped * 1.5 + 5.0, "{what}");
            }
        }
    }
}

/// Flows of Prague beside as many of CUBIC over DualPI2.
#[derive(Clone, Copy, Debug)]
struct Coupled {
    /// The part of the line that is used.
    used: f64,
    /// The rates of Prague to those of CUBIC.
    ratio: f64,
    /// The waits of a flow of each, in ms: the mean, and of Prague what 99 % wait at most.
    prague: f64,
    p99: f64,
    cubic: f64,
    /// The part of the packets that was marked, and dropped packets.
    marked: f64,
    dropped: f64,
}

fn run_coupled(queue: &str, mbit: u64, milliseconds: u64, flows: u64) -> Coupled {
    let mut text = format!(
        "version = 1\nduration = \"60s\"\nwarm-up = \"20s\"\nhosts = [\"a1\", \"a2\", \"b1\", \"b2\"]\nrouters = [\"r\", \"s\"]\n\
         [[link]]\nfrom = \"a{{1..2}}\"\nto = \"r\"\nrate = \"1gbit\"\ndelay = \"0s\"\nlimit = 100000\n\
         [[link]]\nwatch = true\nfrom = \"r\"\nto = \"s\"\nrate = \"{mbit}mbit\"\ndelay = \"{}us\"\nqueue = {queue}\n\
         [[link]]\nfrom = \"s\"\nto = \"b{{1..2}}\"\nrate = \"1gbit\"\ndelay = \"0s\"\nlimit = 100000\n",
        milliseconds * 500,
    );
    for (host, control) in [(1, "prague"), (2, "cubic")] {
        text += &format!(
            "[[flow]]\nname = \"{control}\"\nfrom = \"a{host}\"\nto = \"b{host}\"\ncount = {flows}\nport = 6000\njitter = \"100ms\"\n\
             workload = {{ kind = \"bulk\" }}\n\
             tcp = {{ congestion = \"{control}\", mss = \"1452B\", window = \"16MiB\", min-rto = \"200ms\"{} }}\n",
            if control == "prague" { "" } else { ", ecn = true" },
        );
    }
    let (source, mut diagnostics) = (Source::new("late.toml", &text), Diagnostics::new());
    let scenario = Scenario::load(&source, None, &mut diagnostics);
    let outcome = scenario.unwrap_or_else(|| panic!("{}\n{text}", diagnostics.render(&source))).run(1, |_| ());
    let values = |subject: &str, measure: &str| -> Vec<f64> {
        let found =
            outcome.values.iter().filter(|value| value.subject.starts_with(subject) && value.measure == measure);
        found.map(|value| value.value).collect()
    };
    let value = |subject: &str, measure: &str| {
        *values(subject, measure).first().unwrap_or_else(|| panic!("no {measure} of {subject} in {:?}", outcome.values))
    };
    // Beyond the propagation and the time of the packet.
    let waited = |delay: f64| delay / 1e6 - milliseconds as f64 / 2.0 - 1_492.0 * 8.0 / (mbit as f64 * 1e3);
    let packets = value("link r", "throughput") * 40.0 / 8.0 / 1_500.0;
    Coupled {
        used: value("link r", "utilisation"),
        ratio: values("flow prague", "goodput").iter().sum::<f64>()
            / values("flow cubic", "goodput").iter().sum::<f64>(),
        prague: waited(value("flow prague", "delay mean")),
        p99: waited(value("flow prague", "delay p99")),
        cubic: waited(value("flow cubic", "delay mean")),
        marked: value("link r", "marked") / packets,
        dropped: value("link r", "dropped"),
    }
}

/// As RFC 9332 wants it, the rates are about equal and the low-latency queue is short, although its marks are given late.
#[test]
fn coupled_queues_keep_their_promise_with_late_marks() {
    register();
    let lines: &[(u64, u64)] =
        if is_nightly() { &[(20, 5), (20, 20), (20, 100), (100, 5), (100, 20), (100, 100)] } else { &[(20, 20)] };
    println!(
        "| line | round trip | flows | used | Prague to CUBIC | Prague's mean wait | p99 | CUBIC's mean wait | marked | drops |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    for &(mbit, milliseconds) in lines {
        for flows in [1, 5] {
            let at_once = run_coupled("{ kind = \"dualpi2\" }", mbit, milliseconds, flows);
            let late = run_coupled("{ kind = \"late-marks\", of = \"dualpi2\" }", mbit, milliseconds, flows);
            let pair =
                |of: fn(&Coupled) -> f64, digits: usize| format!("{:.digits$} → {:.digits$}", of(&at_once), of(&late));
            println!(
                "| {mbit} Mbit/s | {milliseconds} ms | {flows} + {flows} | {} | {} | {} ms | {} ms | {} ms | {} | {} |",
                pair(|r| r.used, 3),
                pair(|r| r.ratio, 2),
                pair(|r| r.prague, 2),
                pair(|r| r.p99, 2),
                pair(|r| r.cubic, 1),
                pair(|r| r.marked, 3),
                pair(|r| r.dropped, 0),
            );
            let what = format!("{mbit} Mbit/s, {milliseconds} ms, {flows} flows of each: {at_once:?}, late {late:?}");
            // With less than four packets of each flow in flight the queues are overloaded, whenever marks are given.
            if mbit * milliseconds < flows * 2 * 4 * 12 {
                continue;
            }
            assert!(late.used > at_once.used - 0.03, "{what}");
            assert!((0.4..2.5).contains(&late.ratio), "{what}");
            assert!(late.p99 < at_once.p99 + 2.0, "{what}");
            assert!(late.marked > 0.0 && late.dropped <= at_once.dropped + 50.0, "{what}");
        }
    }
}
