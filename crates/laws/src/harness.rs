//! Runs scripts and asserts the laws.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use tidegate_core::{Bytes, Deadline, DropReason, Event, Instant, Outlet, Qdisc, Span};

use crate::TestPacket;
use crate::script::{Op, Shape, make};

/// The cases that a run covered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Steps of the scripts.
    pub steps: u64,
    /// Packets enqueued.
    pub enqueued: u64,
    /// Packets dequeued.
    pub dequeued: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Deadlines at a later instant that were verified to the nanosecond.
    pub deadlines: u64,
    /// Calls with an earlier `now` than before.
    pub backwards: u64,
    /// The most packets one call dropped.
    pub most_drops_a_call: u64,
}

impl Report {
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.enqueued += other.enqueued;
        self.dequeued += other.dequeued;
        self.dropped += other.dropped;
        self.deadlines += other.deadlines;
        self.backwards += other.backwards;
        self.most_drops_a_call = self.most_drops_a_call.max(other.most_drops_a_call);
    }
}

/// A violated law, with the shortest script found that violates it.
#[derive(Clone, PartialEq, Eq)]
pub struct Violation {
    /// The seed of the script.
    pub seed: u64,
    /// The law and the violation.
    pub what: String,
    /// A short script that shows the violation.
    pub script: Vec<Op>,
}

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} (seed {})", self.what, self.seed)?;
        for (n, op) in self.script.iter().enumerate() {
            writeln!(f, "  {n:3} {op:?}")?;
        }
        Ok(())
    }
}

/// Checks the script of `seed` with `steps` steps on copies made by `fresh`.
///
/// # Errors
/// The violation with a shrunk script.
pub fn check<Q, F>(fresh: F, shape: &Shape, seed: u64, steps: usize) -> Result<Report, Box<Violation>>
where
    Q: Qdisc<TestPacket>,
    F: Fn() -> Q,
{
    let script = make(shape, seed, steps);
    run_all(&fresh, &script).map_err(|what| {
        let script = shrink(&fresh, script);
        // The shrunk script may violate another law first; report the one that it shows.
        let what = run_all(&fresh, &script).err().unwrap_or(what);
        Box::new(Violation { seed, what, script })
    })
}

/// [`check`] for the seeds `0..seeds`; returns the sum of the reports.
///
/// # Panics
/// On the first violation, with its shrunk script.
pub fn check_seeds<Q, F>(fresh: F, shape: &Shape, seeds: u64, steps: usize) -> Report
where
    Q: Qdisc<TestPacket>,
    F: Fn() -> Q,
{
    let mut sum = Report::default();
    for seed in 0..seeds {
        match check(&fresh, shape, seed, steps) {
            Ok(report) => sum.add(&report),
            Err(violation) => panic!("{violation:?}"),
        }
    }
    sum
}

/// Laws 1, 3, 4, 6 on one copy; 2, 5 and again 3 by comparing the outputs of more copies.
fn run_all<Q: Qdisc<TestPacket>>(fresh: &impl Fn() -> Q, script: &[Op]) -> Result<Report, String> {
    let first = Run::new(fresh()).play(script, Back::Honest, Calls::AsWritten)?;
    let again = Run::new(fresh()).play(script, Back::Honest, Calls::AsWritten)?;
    if first.1 != again.1 {
        return Err("law 5: the same script gave different outputs".into());
    }
    // With every backward instant replaced by the latest `now` so far, the output must be the same.
    let still = Run::new(fresh()).play(script, Back::HeldStill, Calls::AsWritten)?;
    if first.1 != still.1 {
        return Err("law 2: a backward time changed the outputs".into());
    }
    // A timer calls `dequeue` only when something is due, a kernel also when nothing is. Both must see the same departures
    // and drops, so nothing may depend on a call that finds the queue empty or comes before the deadline.
    let due = Run::new(fresh()).play(script, Back::Ignored, Calls::OnlyWhenDue)?.1;
    let polled = Run::new(fresh()).play(script, Back::Ignored, Calls::Polled)?.1;
    if due != polled {
        let first =
            due.iter().zip(&polled).position(|(due, polled)| due != polled).unwrap_or(due.len().min(polled.len()));
        let (due, polled) = (due.get(first), polled.get(first));
        return Err(format!("law 3: dequeues that had no effect changed a later output: {due:?} became {polled:?}"));
    }
    Ok(first.0)
}

/// Removes steps while a law stays violated.
fn shrink<Q: Qdisc<TestPacket>>(fresh: &impl Fn() -> Q, mut script: Vec<Op>) -> Vec<Op> {
    let mut chunk = script.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        let mut removed = false;
        while at < script.len() {
            let end = (at + chunk).min(script.len());
            let shorter: Vec<Op> = script[..at].iter().chain(&script[end..]).copied().collect();
            if run_all(fresh, &shorter).is_err() {
                script = shorter;
                removed = true;
            } else {
                at = end;
            }
        }
        if !removed {
            chunk /= 2;
        }
    }
    script
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Back {
    /// Calls get the earlier instant.
    Honest,
    /// Calls get the latest instant of any call before them.
    HeldStill,
    /// Calls get the present.
    Ignored,
}

/// Which calls of `dequeue` a run makes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// Those of the script.
    AsWritten,
    /// Those of the script for which something is due.
    OnlyWhenDue,
    /// Those for which something is due, and one before each step at which nothing is.
    Polled,
}

/// The output, in order, for the comparison of two runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Output {
    Left(Instant, TestPacket),
    Dropped(Instant, TestPacket, DropReason),
    Reported(Event),
    Asked(Deadline),
}

/// Collects the drops and events of one call.
#[derive(Default)]
struct Tray {
    dropped: Vec<(TestPacket, DropReason)>,
    events: Vec<Event>,
}

impl Outlet<TestPacket> for Tray {
    fn dropped(&mut self, packet: TestPacket, reason: DropReason) {
        self.dropped.push((packet, reason));
    }
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

struct Run<Q> {
    qdisc: Q,
    calls: Calls,
    now: Instant,
    /// The latest `now` of any call.
    carried: Instant,
    next_id: u64,
    inside: BTreeMap<u64, TestPacket>,
    last_of_flow: HashMap<u64, u64>,
    outputs: Vec<Output>,
    report: Report,
}

impl<Q: Qdisc<TestPacket>> Run<Q> {
    fn new(qdisc: Q) -> Self {
        Self {
            qdisc,
            calls: Calls::AsWritten,
            now: Instant::from_nanos(1_000_000_000),
            carried: Instant::ZERO,
            next_id: 0,
            inside: BTreeMap::new(),
            last_of_flow: HashMap::new(),
            outputs: Vec::new(),
            report: Report::default(),
        }
    }

    fn play(mut self, script: &[Op], back: Back, calls: Calls) -> Result<(Report, Vec<Output>), String> {
        self.calls = calls;
        let mut behind = Span::ZERO;
        for op in script {
            self.report.steps += 1;
            // The `now` of this call; the clock itself never runs back.
            let call = match back {
                Back::Honest => self.now.saturating_sub(behind),
                Back::HeldStill => self.now.saturating_sub(behind).max(self.carried),
                Back::Ignored => self.now,
            };
            let is_due = self.qdisc.deadline(call) == Deadline::Now;
            if calls == Calls::Polled && !is_due && self.dequeue(call)? {
                return Err("law 3: dequeue had an effect although nothing was due".into());
            }
            match *op {
                Op::Enqueue(packet) => self.enqueue(call, packet)?,
                Op::Dequeue if calls != Calls::AsWritten && !is_due => {}
                Op::Dequeue => {
                    self.dequeue(call)?;
                }
                Op::ToDeadline => self.reach_deadline()?,
                Op::Wait(span) => self.now += span,
                Op::Back(span) => {
                    self.report.backwards += 1;
                    behind = span;
                    continue;
                }
            }
            behind = Span::ZERO;
        }
        self.drain()?;
        Ok((self.report, self.outputs))
    }

    fn enqueue(&mut self, call: Instant, packet: TestPacket) -> Result<(), String> {
        let packet = TestPacket { id: self.next_id, ..packet };
        self.next_id += 1;
        self.report.enqueued += 1;
        self.inside.insert(packet.id, packet);
        self.carried = self.carried.max(call);
        let mut tray = Tray::default();
        self.qdisc.enqueue(call, packet, &mut tray);
        self.settle(None, tray).map(drop)
    }

    /// Returns whether a packet left or was dropped.
    fn dequeue(&mut self, call: Instant) -> Result<bool, String> {
        self.carried = self.carried.max(call);
        let mut tray = Tray::default();
        let packet = self.qdisc.dequeue(call, &mut tray);
        self.settle(packet, tray)
    }

    fn reach_deadline(&mut self) -> Result<(), String> {
        let deadline = self.qdisc.deadline(self.now);
        self.outputs.push(Output::Asked(deadline));
        match deadline {
            Deadline::Now => {
                if !self.dequeue(self.now)? {
                    return Err("law 3: deadline Now, but dequeue had no effect".into());
                }
            }
            Deadline::At(t) => {
                if t <= self.now {
                    return Err(format!("law 3: deadline At({t:?}) is not later than now {:?}", self.now));
                }
                self.report.deadlines += 1;
                self.now = t.saturating_sub(Span::from_nanos(1));
                if self.calls != Calls::OnlyWhenDue && self.dequeue(self.now)? {
                    return Err(format!("law 3: dequeue had an effect 1 ns before the deadline {t:?}"));
                }
                self.now = t;
                if !self.dequeue(self.now)? {
                    return Err(format!("law 3: dequeue had no effect at the deadline {t:?}"));
                }
            }
            Deadline::Idle => {
                if self.calls != Calls::OnlyWhenDue && self.dequeue(self.now)? {
                    return Err("law 3: deadline Idle, but dequeue had an effect".into());
                }
            }
        }
        Ok(())
    }

    /// Dequeues at every deadline until Idle; nothing may leave afterwards.
    fn drain(&mut self) -> Result<(), String> {
        for _ in 0..=self.inside.len() {
            if self.qdisc.deadline(self.now) == Deadline::Idle {
                self.now += Span::from_secs(1);
                return if self.dequeue(self.now)? {
                    Err("law 3: Idle, but a dequeue a second later had an effect".into())
                } else {
                    Ok(())
                };
            }
            self.reach_deadline()?;
        }
        Err("law 1: more packets came out than were queued".into())
    }

    /// Checks laws 1, 4 and 6 for the output of one call.
    fn settle(&mut self, left: Option<TestPacket>, tray: Tray) -> Result<bool, String> {
        let did = left.is_some() || !tray.dropped.is_empty();
        self.report.most_drops_a_call = self.report.most_drops_a_call.max(tray.dropped.len() as u64);
        for (packet, reason) in tray.dropped {
            self.report.dropped += 1;
            if self.inside.remove(&packet.id).is_none() {
                return Err(format!("law 1: packet {} dropped, but it was not queued", packet.id));
            }
            self.outputs.push(Output::Dropped(self.now, packet, reason));
        }
        if let Some(packet) = left {
            self.report.dequeued += 1;
            let Some(original) = self.inside.remove(&packet.id) else {
                return Err(format!("law 1: packet {} left, but it was not queued", packet.id));
            };
            if original.size != packet.size || original.flow != packet.flow {
                return Err(format!("law 1: packet {} left with another size or flow", packet.id));
            }
            if let Some(last) = self.last_of_flow.insert(packet.flow.flow, packet.id)
                && last > packet.id
            {
                return Err(format!("law 6: packet {} left after {last} of its flow", packet.id));
            }
            self.outputs.push(Output::Left(self.now, packet));
        }
        self.outputs.extend(tray.events.into_iter().map(Output::Reported));
        let backlog = self.qdisc.backlog();
        let bytes: Bytes = self.inside.values().map(|packet| packet.size).sum();
        if backlog.packets != self.inside.len() as u64 || backlog.bytes != bytes {
            return Err(format!(
                "law 1: the backlog is {} packets {}, but {} packets {bytes} are queued",
                backlog.packets,
                backlog.bytes,
                self.inside.len()
            ));
        }
        Ok(did)
    }
}
