//! Runs a [`Script`] in virtual time, with a link that dequeues packets and a log of all events.

use tidegate_config::discipline::{Discipline, Site};
use tidegate_config::{Diagnostics, Place, Source, suggest};
use tidegate_core::flow::{FlowBy, FlowHash};
use tidegate_core::{ClassId, Deadline, Instant, Qdisc, Span};
use tidegate_engine::driver::{Driver, Params};
use tidegate_engine::{BuildFailure, Engine, Names, Setup};
use tidegate_metrics::Digest;

use crate::expect::{Checker, check_state};
use crate::findings::Findings;
use crate::log::{EventKind, Log, PacketRecord, clock};
use crate::packet::Item;
use crate::script::{Action, Link, Script, Subject};
use crate::target::{Alone, Bare, Effect, Shaped, Target};

/// The secret for flow keys. It is constant, so that runs are the same everywhere.
const SECRET: [u64; 2] = [0x7469_6465_6761_7465, 0x7363_7269_7074_2121];

/// A discipline breaks law 3 if its deadline passes this often in a row without a packet.
const FRUITLESS: u32 = 1_000;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    source: Source,
    /// Everything that happened.
    pub log: Log,
    /// Failed expectations, each at its place in the script.
    pub failed: Diagnostics,
    /// How many expectations there were.
    pub expectations: usize,
    /// How many expectations failed. One of them may be reported more than once.
    pub unmet: usize,
}

impl Outcome {
    /// Whether everything happened as expected.
    pub fn holds(&self) -> bool {
        self.failed.is_empty()
    }
    /// Failed expectations as plain text.
    pub fn failures(&self) -> String {
        self.failed.render(&self.source)
    }
    /// Failed expectations with colours for a terminal.
    pub fn failures_styled(&self) -> String {
        self.failed.render_styled(&self.source)
    }
    /// Line and column of a place in the script, both from 1.
    pub fn line_column(&self, place: Place) -> (usize, usize) {
        self.source.line_column(place.start)
    }
    /// A digest of the log. It is the same for equal runs on every machine.
    pub fn digest(&self) -> Digest {
        self.log.digest()
    }
}

impl Script {
    /// Runs the script on its discipline or configuration.
    ///
    /// # Errors
    /// If it names neither a discipline nor a configuration, if a class is unknown, or if a discipline breaks law 3.
    pub fn run(&self) -> Result<Outcome, Findings> {
        match &self.subject {
            Some(Subject::Discipline(discipline)) => {
                let site = |now| Site { seed: self.seed, name: "root".into(), now };
                match &**discipline {
                    Discipline::Cbq(section) => {
                        let names = section.names().into_iter().map(str::to_owned).collect();
                        self.run_bare(Some(discipline), names, |now| section.build_tree::<Item>(&site(now)))
                    }
                    _ => self.run_bare(Some(discipline), Vec::new(), |now| discipline.build::<Item>(&site(now))),
                }
            }
            Some(Subject::Config(config)) => {
                for header in &self.headers {
                    if let Some((_, place)) = &header.class {
                        return Err(self.finding(
                            *place,
                            "the rules of the configuration choose the class",
                            "leave `class` out and send what a rule matches",
                        ));
                    }
                }
                let built = BuildFailure::without_clock(config)
                    .and_then(|()| Engine::new(config, &self.setup(), Instant::ZERO));
                let engine = built.map_err(|failure| {
                    self.finding(self.subject_place, &failure.to_string(), "change the configuration")
                })?;
                Runner::new(self, Shaped(Driver::new(engine, Params::default(), Instant::ZERO)), Vec::new()).run()
            }
            None => Err(self.finding(
                Place::default(),
                "this script does not specify what it runs on",
                "begin with discipline { kind = \"fifo\" } or config \"shaper.toml\"",
            )),
        }
    }

    fn setup(&self) -> Setup {
        Setup { seed: self.seed, secret: SECRET, catch_up: Span::ZERO, most_queued: None, names: Names::default() }
    }

    /// Runs the script on the discipline that `make` builds instead of its own.
    ///
    /// # Errors
    /// If a class is unknown, or if the discipline breaks law 3.
    pub fn run_on(&self, make: impl FnOnce(Instant) -> Box<dyn Qdisc<Item>>) -> Result<Outcome, Findings> {
        self.run_bare(None, Vec::new(), make)
    }

    /// Runs the script on the discipline that `make` builds. `shared` has the names of its classes in the sharing of a link, at
    /// the indices of their numbers.
    fn run_bare<Q: Alone>(
        &self,
        discipline: Option<&Discipline>,
        shared: Vec<String>,
        make: impl FnOnce(Instant) -> Q,
    ) -> Result<Outcome, Findings> {
        let names = discipline.map(Discipline::classes).unwrap_or_default();
        let mut classes = Vec::with_capacity(self.headers.len());
        for header in &self.headers {
            let class = match &header.class {
                None => 0,
                Some((name, place)) => {
                    let named = names.iter().position(|known| known == name).map(|n| n as u32);
                    named.or_else(|| name.parse().ok()).ok_or_else(|| {
                        let help = suggest::help(name, &names);
                        self.finding(*place, &format!("the discipline has no class `{name}`"), &help)
                    })?
                }
            };
            classes.push(ClassId(class));
        }
        Runner::new(self, Bare { discipline: make(Instant::ZERO), shared }, classes).run()
    }

    fn finding(&self, place: Place, message: &str, help: &str) -> Findings {
        let mut diagnostics = Diagnostics::new();
        diagnostics.error(place, message).help(help);
        Findings { list: vec![(self.source.clone(), diagnostics)] }
    }
}

struct Runner<'a, T> {
    script: &'a Script,
    target: T,
    /// The class of each header, for a bare discipline.
    classes: Vec<ClassId>,
    hash: FlowHash,
    log: Log,
    sent: Vec<u32>,
    effects: Vec<Effect>,
    link: Link,
    late: Span,
    /// When the link has sent the packet that it dequeued last.
    link_free_at: Instant,
    time_back: Span,
    calls: u64,
    fruitless: u32,
}

impl<'a, T: Target> Runner<'a, T> {
    fn new(script: &'a Script, target: T, classes: Vec<ClassId>) -> Self {
        Self {
            script,
            target,
            classes,
            hash: FlowHash::new(SECRET, FlowBy::FiveTuple),
            log: Log { names: script.flows.iter().map(|flow| flow.name.clone()).collect(), ..Log::default() },
            sent: vec![0; script.flows.len()],
            effects: Vec::new(),
            link: Link::Open,
            late: Span::ZERO,
            link_free_at: Instant::ZERO,
            time_back: Span::ZERO,
            calls: 0,
            fruitless: 0,
        }
    }

    fn run(mut self) -> Result<Outcome, Findings> {
        let mut failed = Diagnostics::new();
        let mut now = Instant::ZERO;
        let end = self.script.until.unwrap_or(Instant::MAX);
        for step in &self.script.steps {
            if step.time > end {
                if let Action::CheckState(number) = step.action {
                    let place = self.script.expectations[number].place;
                    let message = format!("the run ends at {}, before this", clock(end));
                    failed.error(place, message).label("never looked at").help("let `until` end the run later");
                }
                continue;
            }
            if step.time > now {
                // At equal times, arrivals precede departures.
                self.serve(Some(now), step.time, Bound::Before, step.place)?;
                now = step.time;
            }
            match step.action {
                Action::Send { flow, header } => self.send(now, flow, header),
                Action::Take(times) => {
                    for _ in 0..times {
                        if !self.take(now) {
                            break;
                        }
                    }
                }
                Action::Serve => {
                    self.serve(Some(now), now, Bound::At, step.place)?;
                }
                Action::Back(span) => self.time_back = span,
                Action::Reconfigure(number) => {
                    let (config, setup) = (&self.script.configs[number], self.script.setup());
                    let clocked = BuildFailure::without_clock(config).map_err(|failure| failure.to_string());
                    let done = clocked
                        .and_then(|()| self.call(now, |target, _, out| target.reconfigure(now, config, &setup, out)));
                    if let Err(why) = done {
                        return Err(self.script.finding(step.place, &why, "change the configuration, or leave it"));
                    }
                }
                Action::Link { link, late } => {
                    // Packets that were due on the old link have left. The new link begins idle.
                    (self.link, self.late, self.link_free_at) = (link, late, now);
                }
                Action::CheckState(number) => {
                    let expectation = &self.script.expectations[number];
                    let (backlog, deadline) = (self.target.backlog(), self.target.deadline(now));
                    let class = |name: &str| self.target.shared_class(now, name);
                    check_state(expectation, now, backlog, deadline, class, &mut failed);
                }
                Action::Pass => {}
            }
        }
        self.serve(Some(now), end, Bound::At, self.script.steps.last().map_or(Place::default(), |step| step.place))?;
        // Each expectation about the state has been reported at most once.
        let mut unmet = failed.errors();
        let mut checker = Checker::new(&self.log);
        for expectation in &self.script.expectations {
            let before = failed.errors();
            checker.check(expectation, &mut failed);
            unmet += usize::from(failed.errors() > before);
        }
        Ok(Outcome {
            source: self.script.source.clone(),
            log: self.log,
            failed,
            expectations: self.script.expectations.len(),
            unmet,
        })
    }

    /// Calls the target through `work`, which receives the time to pass on, and settles the effects.
    fn call<R>(&mut self, now: Instant, work: impl FnOnce(&mut T, Instant, &mut Vec<Effect>) -> R) -> R {
        let mut out = std::mem::take(&mut self.effects);
        let result = work(&mut self.target, now.saturating_sub(self.time_back), &mut out);
        self.settle(now, &mut out);
        self.effects = out;
        result
    }

    fn send(&mut self, now: Instant, flow: usize, number: usize) {
        let header = &self.script.headers[number];
        self.sent[flow] += 1;
        let id = self.log.packets.len() as u32;
        let item = Item {
            id,
            size: header.size,
            flow: self.hash.key(&header.fields),
            class: self.classes.get(number).copied().unwrap_or_default(),
            profile: header.profile,
            dscp: header.fields.dscp,
            ecn: header.ecn,
            colour: header.colour(),
            segments: header.segments,
            pure_ack: header.pure_ack,
        };
        let passage = PacketRecord {
            flow,
            number: self.sent[flow],
            size: header.size,
            arrived: now,
            end: None,
            dscp: item.dscp,
            ecn: item.ecn,
            marked: false,
            colour: item.colour,
        };
        self.log.arrived(now, passage);
        self.call(now, |target, now, out| target.enqueue(now, item, header, out));
        self.time_back = Span::ZERO;
    }

    /// Dequeues a packet; returns whether anything happened.
    fn take(&mut self, now: Instant) -> bool {
        self.calls += 1;
        let happened = self.call(now, |target, now, out| {
            target.dequeue(now, out);
            !out.is_empty()
        });
        self.time_back = Span::ZERO;
        happened
    }

    fn settle(&mut self, now: Instant, out: &mut Vec<Effect>) {
        for one in out.drain(..) {
            match one {
                Effect::Left { id, dscp, ecn, marked, colour } => {
                    let packet = &mut self.log.packets[id as usize];
                    packet.marked = marked || packet.ecn != ecn;
                    (packet.dscp, packet.ecn) = (dscp, ecn);
                    packet.colour = colour.unwrap_or(packet.colour);
                    if let Link::Rate(rate) = self.link {
                        self.link_free_at = now + rate.time_for_ceil(packet.size).unwrap_or(Span::MAX);
                    }
                    self.log.ended(now, id, EventKind::Left);
                }
                Effect::Dropped { id, reason } => self.log.ended(now, id, EventKind::Dropped(reason)),
            }
        }
    }

    /// When the link dequeues next.
    fn due(&self, now: Instant) -> Option<Instant> {
        let ready = match (self.link, self.target.deadline(now)) {
            (Link::Closed, _) | (_, Deadline::Idle) => return None,
            (_, Deadline::Now) => now,
            (_, Deadline::At(time)) => time + self.late,
        };
        Some(match self.link {
            Link::Rate(_) if self.link_free_at > ready => self.link_free_at,
            _ => ready,
        })
    }

    /// Lets the link dequeue all packets that are due up to `to`.
    fn serve(&mut self, from: Option<Instant>, to: Instant, bound: Bound, place: Place) -> Result<(), Findings> {
        let mut now = from.unwrap_or(Instant::ZERO);
        while let Some(due) = self.due(now) {
            if due > to || (due == to && bound == Bound::Before) || due == Instant::MAX {
                break;
            }
            if due > now {
                self.fruitless = 0;
            }
            now = due;
            if self.take(now) {
                self.fruitless = 0;
            } else {
                self.fruitless += 1;
            }
            if self.fruitless > FRUITLESS {
                return Err(self.script.finding(
                    place,
                    &format!("at {} the deadline of the discipline is now, but a dequeue has no effect", clock(now)),
                    "this breaks law 3 of tidegate_core::Qdisc: deadlines are exact",
                ));
            }
            if self.calls > self.script.limits.calls {
                return Err(self.script.finding(
                    place,
                    &format!("the run made more than {} calls, at {}", self.script.limits.calls, clock(now)),
                    "end it with `until`, or send less",
                ));
            }
        }
        Ok(())
    }
}

/// Whether packets that are due exactly at the end of a period are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bound {
    At,
    Before,
}
