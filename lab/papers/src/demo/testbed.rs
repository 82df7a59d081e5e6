//! The testbed of the demonstration: two hosts, a link, traffic and its measurement.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tidegate_core::Event;
use tidegate_core::fbq::FlowView;
use tidegate_engine::ClassStatus;
use tidegate_live::shaping::{Options, Shaping};
use tidegate_testbed::steady::Watch;
use tidegate_testbed::{FlowReport, Pair, Senders, Sink};
use tidegate_units::{Bytes, Span};

use super::plan::{self, Change, DemoFlow};
use crate::Failure;

/// The state of a class at a sample.
#[derive(Clone, Debug)]
pub struct ClassNow {
    /// The name of the class.
    pub name: String,
    /// Its guaranteed rate in bit/s; `None` while traffic is not shaped.
    pub promised: Option<f64>,
    /// Its current rate on the link, in bit/s.
    pub rate: f64,
    /// The backlog.
    pub queue: Bytes,
    /// The median delay in the queue.
    pub median_wait: Span,
    /// The 99th percentile of the delay in the queue.
    pub long_wait: Span,
    /// The number of packets dropped.
    pub drops: u64,
}

/// The state of a flow at a sample.
#[derive(Clone, Debug)]
pub struct FlowNow {
    /// The name of the flow.
    pub name: String,
    /// The class that it is in now.
    pub class: String,
    /// The granted rate d(f) in bit/s; `None` while traffic is not shaped.
    pub promised: Option<f64>,
    /// The rate at which it is offered, in bit/s; `None` for TCP.
    pub offered: Option<f64>,
    /// The rate of arriving payload in bit/s.
    pub rate: f64,
    /// The backlog.
    pub queue: Bytes,
    /// The jitter in ns; only for UDP.
    pub jitter: Option<f64>,
    /// The 99th percentile of the one-way delay in ns; only for UDP.
    pub delay: Option<u64>,
    /// Packets dropped by the shaper.
    pub drops: u64,
}

/// A sample of the whole testbed.
#[derive(Clone, Debug)]
pub struct Moment {
    /// `unshaped` or `shaped`.
    pub phase: &'static str,
    /// Seconds since the start of the phase.
    pub elapsed: f64,
    /// The length of the phase in seconds.
    pub length: f64,
    /// The classes, in the order of the file.
    pub classes: Vec<ClassNow>,
    /// The flows, in the order of the plan.
    pub flows: Vec<FlowNow>,
    /// Events so far, the latest last.
    pub notes: Vec<String>,
}

/// The result of one phase for one flow.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The measurements of the sink.
    pub report: FlowReport,
    /// The rate of payload in bit/s over the measured part.
    pub rate: f64,
    /// The granted rate d(f) at the end, in bit/s.
    pub promised: Option<f64>,
    /// The class at the end.
    pub class: String,
    /// Packets dropped by the shaper.
    pub drops: u64,
}

/// The result of one phase.
#[derive(Clone, Debug)]
pub struct Phase {
    /// The results of the flows, in the order of the plan.
    pub outcomes: Vec<Outcome>,
    /// The load that kept this machine from sending and receiving in time; `None` if nothing did.
    pub disturbance: Option<String>,
}

/// Two hosts and the flows between them.
pub struct Testbed {
    pair: Pair,
    flows: Vec<DemoFlow>,
    /// The reason why the link could not be limited, if so.
    pub open_wire: Option<String>,
}

impl Testbed {
    /// Creates the hosts and the link.
    pub fn build() -> Result<Self, Failure> {
        let pair = Pair::create().map_err(|error| Failure::Failed(format!("no laboratory can be made: {error}")))?;
        // The queue holds 256 kB, which is 20 ms of the link, as in a plain interface or a small router.
        let open_wire = pair.limit_wire(plan::WIRE, Bytes::new(256_000)).err().map(|error| error.to_string());
        Ok(Self { pair, flows: plan::flows(), open_wire })
    }

    /// The flows, in the order of the rules.
    pub fn flows(&self) -> &[DemoFlow] {
        &self.flows
    }

    /// Runs a phase of `length`, or until `watch`, which is passed each sample, returns `false`. With `shaped` the
    /// traffic is shaped and the planned changes are applied.
    pub fn run(
        &self,
        shaped: bool,
        length: Duration,
        watch: &mut dyn FnMut(&Moment) -> Result<bool, Failure>,
    ) -> Result<Phase, Failure> {
        let failed = |what: &'static str| move |error: std::io::Error| Failure::Failed(format!("{what}: {error}"));
        let shaping = if shaped { Some(self.shape()?) } else { None };
        let events = shaping.as_ref().map(Shaping::events).transpose().map_err(stopped)?;
        let specs: Vec<_> = self.flows.iter().map(|flow| flow.spec.clone()).collect();
        let sink = Sink::start(&self.pair.receiver, &specs).map_err(failed("cannot receive"))?;
        let senders = Senders::start(&self.pair.sender, &self.pair.receiver, &specs).map_err(failed("cannot send"))?;
        let mut watcher = Watcher::new(self, shaped, length);
        let machine = Watch::start();
        let mut changes = plan::changes().into_iter().filter(|_| shaped).peekable();
        let start = Instant::now();
        let warm_up = (length / 10).min(Duration::from_secs(1));
        let mut warm = false;
        while start.elapsed() < length {
            std::thread::sleep(Duration::from_millis(250).min(length.saturating_sub(start.elapsed())));
            if !warm && start.elapsed() >= warm_up {
                warm = true;
                sink.restart();
                watcher.restart();
            }
            if let Some(shaping) = &shaping
                && let Some((_, change)) = changes.next_if(|(part, _)| start.elapsed() >= length.mul_f64(*part))
            {
                watcher.notes.push(self.change(shaping, change)?);
            }
            if !watcher.sample(start.elapsed(), shaping.as_ref(), events.as_ref(), &sink, watch)? {
                break;
            }
        }
        sink.freeze();
        let disturbance = machine.disturbance();
        let elapsed = sink.elapsed();
        let flows = shaping.as_ref().map(views).transpose()?.unwrap_or_default();
        let outcomes = self.outcomes(&sink, elapsed, &flows);
        senders.stop();
        if let Some(shaping) = shaping {
            shaping.stop().map_err(stopped)?;
        }
        Ok(Phase { outcomes, disturbance })
    }

    fn shape(&self) -> Result<Shaping, Failure> {
        let config = plan::config();
        let options = Options { interfaces: vec![self.pair.sender.interface.into()], ..Options::default() };
        self.pair
            .sender
            .namespace
            .run(|| Shaping::start(&config, &options))
            .map_err(|error| Failure::Failed(format!("cannot enter the laboratory: {error}")))?
            .map_err(|error| Failure::Failed(error.to_string()))
    }

    fn change(&self, shaping: &Shaping, change: Change) -> Result<String, Failure> {
        let flows = views(shaping)?;
        let key = |n: usize| flows.get(&n).map_or(0, |view| view.key);
        match change {
            Change::Prefer(n, steps) => {
                let key = key(n);
                let done = shaping.with(move |engine, now| engine.prefer(now, key, steps)).map_err(stopped)?;
                let outcome = if done.is_ok() { "preferred" } else { "gone, so not preferred" };
                Ok(format!("{} is {outcome} by {steps} steps", self.flows[n].spec.name))
            }
            Change::Minimum(n, rate) => {
                let key = key(n);
                let promise = shaping.with(move |engine, now| engine.set_minimum(now, key, rate)).map_err(stopped)?;
                Ok(format!("{} asks for a minimum of {rate}: {promise:?}", self.flows[n].spec.name)
                    .replace("Ok(Granted)", "granted"))
            }
        }
    }

    fn outcomes(&self, sink: &Sink, elapsed: u64, flows: &HashMap<usize, FlowView>) -> Vec<Outcome> {
        let names = plan::config().class_names().into_iter().map(String::from).collect::<Vec<_>>();
        let outcome = |n: usize| {
            let report = sink.report(n);
            let view = flows.get(&n);
            Outcome {
                rate: report.bytes as f64 * 8e9 / elapsed.max(1) as f64,
                promised: view.map(|view| view.rate.as_bps() as f64),
                class: view.map_or(self.flows[n].class.into(), |view| names[view.class.0 as usize].clone()),
                drops: view.map_or(0, |view| view.counts.dropped.packets),
                report,
            }
        };
        (0..self.flows.len()).map(outcome).collect()
    }
}

fn stopped(error: tidegate_live::shaping::StartError) -> Failure {
    Failure::Failed(error.to_string())
}

/// Returns the shaper's flows by their number in the plan, because rule `i` has profile `i + 1`. If several flows match
/// one rule (a connection and an earlier handshake), the one that sent most counts.
fn views(shaping: &Shaping) -> Result<HashMap<usize, FlowView>, Failure> {
    let all = shaping.with(|engine, _| engine.tree().flows()).map_err(stopped)?;
    let mut best: HashMap<usize, FlowView> = HashMap::new();
    for view in all.into_iter().filter(|view| view.profile > 0) {
        let kept = best.entry(view.profile as usize - 1).or_insert(view);
        if view.counts.sent.bytes > kept.counts.sent.bytes {
            *kept = view;
        }
    }
    Ok(best)
}

/// Takes samples, and converts counters to rates between two of them.
struct Watcher<'a> {
    testbed: &'a Testbed,
    shaped: bool,
    length: f64,
    last: Instant,
    flow_bytes: Vec<u64>,
    class_bytes: Vec<u64>,
    notes: Vec<String>,
}

impl<'a> Watcher<'a> {
    fn new(testbed: &'a Testbed, shaped: bool, length: Duration) -> Self {
        Self {
            testbed,
            shaped,
            length: length.as_secs_f64(),
            last: Instant::now(),
            flow_bytes: vec![0; testbed.flows.len()],
            class_bytes: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn restart(&mut self) {
        self.flow_bytes.fill(0);
    }

    fn sample(
        &mut self,
        elapsed: Duration,
        shaping: Option<&Shaping>,
        events: Option<&Receiver<Event>>,
        sink: &Sink,
        watch: &mut dyn FnMut(&Moment) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        let seconds = self.last.elapsed().as_secs_f64().max(1e-3);
        self.last = Instant::now();
        let views = shaping.map(views).transpose()?.unwrap_or_default();
        let status = shaping.map(Shaping::status).transpose().map_err(stopped)?.unwrap_or_default();
        let names: Vec<String> = status.iter().map(|class| class.name.clone()).collect();
        self.class_bytes.resize(status.len(), 0);
        let classes = status.iter().zip(&mut self.class_bytes).map(|(class, last)| class_now(class, last, seconds));
        let classes = classes.collect();
        let flows = (0..self.testbed.flows.len()).map(|n| {
            let (report, flow) = (sink.report(n), &self.testbed.flows[n]);
            let last = std::mem::replace(&mut self.flow_bytes[n], report.bytes);
            let view = views.get(&n);
            let udp = report.gaps.len() > 1;
            FlowNow {
                name: flow.spec.name.clone(),
                class: view.and_then(|view| names.get(view.class.0 as usize).cloned()).unwrap_or(flow.class.into()),
                promised: view.map(|view| view.rate.as_bps() as f64),
                offered: plan::offered(&flow.spec),
                rate: report.bytes.saturating_sub(last) as f64 * 8.0 / seconds,
                queue: view.map_or(Bytes::ZERO, |view| view.backlog.bytes),
                jitter: udp.then(|| report.gap_deviation_nanos()),
                delay: udp.then(|| report.delays.value_at_quantile(0.99)),
                drops: view.map_or(0, |view| view.counts.dropped.packets),
            }
        });
        let flows = flows.collect();
        let name_of = |key: u64| {
            views.iter().find(|(_, view)| view.key == key).map(|(n, _)| self.testbed.flows[*n].spec.name.clone())
        };
        for event in events.into_iter().flat_map(Receiver::try_iter) {
            if let Event::Moved { flow, from, to } = event
                && let Some(name) = name_of(flow)
            {
                let class = |id: tidegate_core::ClassId| names.get(id.0 as usize).cloned().unwrap_or_default();
                self.notes.push(format!("{name} moves from {} to {}", class(from), class(to)));
            }
        }
        watch(&Moment {
            phase: if self.shaped { "shaped" } else { "unshaped" },
            elapsed: elapsed.as_secs_f64(),
            length: self.length,
            classes,
            flows,
            notes: self.notes.clone(),
        })
    }
}

fn class_now(class: &ClassStatus, last: &mut u64, seconds: f64) -> ClassNow {
    let bytes = class.counts.through.bytes.as_u64();
    let before = std::mem::replace(last, bytes);
    ClassNow {
        name: class.name.clone(),
        promised: class.rate.map(|rate| rate.as_bps() as f64),
        rate: bytes.saturating_sub(before) as f64 * 8.0 / seconds,
        queue: class.counts.backlog.bytes,
        median_wait: class.counts.waited_at(0.5),
        long_wait: class.counts.waited_at(0.99),
        drops: class.counts.accounts.dropped_total().packets,
    }
}
