//! Runs scripts and asserts the laws.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use tidegate_core::{Bytes, Deadline, DropReason, Event, Instant, Outlet, Qdisc, Span};

use crate::TestPacket;
use crate::script::{Op, Shape, make};

/// What a run reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Steps of the scripts.
    pub steps: u64,
    /// Packets enqueued.
    pub enqueued: u64,
    /// Packets that left.
    pub dequeued: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Deadlines at a later instant that were checked to the nanosecond.
    pub deadlines: u64,
    /// Calls with time running back.
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

/// A broken law, with the shortest script found that breaks it.
#[derive(Clone, PartialEq, Eq)]
pub struct Violation {
    /// The seed of the script.
    pub seed: u64,
    /// Which law, and how it was broken.
    pub what: String,
    /// A short script that breaks it.
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

/// Checks the script of `seed` with `steps` steps on copies that `fresh` makes.
///
/// # Errors
/// The broken law with a shrunk script.
pub fn check<Q, F>(fresh: F, shape: &Shape, seed: u64, steps: usize) -> Result<Report, Box<Violation>>
where
    Q: Qdisc<TestPacket>,
    F: Fn() -> Q,
{
    let script = make(shape, seed, steps);
    run_all(&fresh, &script).map_err(|what| {
        let script = shrink(&fresh, script);
        // The shrunk script may break another law first; tell that one, for it is what the script shows.
        let what = run_all(&fresh, &script).err().unwrap_or(what);
        Box::new(Violation { seed, what, script })
    })
}

/// [`check`] for the seeds `0..seeds`, all reports added up.
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

/// Laws 1, 3, 4, 6 on one copy; 2 and 5 by running two more copies and comparing what came out.
fn run_all<Q: Qdisc<TestPacket>>(fresh: &impl Fn() -> Q, script: &[Op]) -> Result<Report, String> {
    let first = Run::new(fresh()).play(script, Back::Honest)?;
    let again = Run::new(fresh()).play(script, Back::Honest)?;
    if first.1 != again.1 {
        return Err("law 5: the same script gave different outputs".into());
    }
    // With every backward instant replaced by the latest one that a call carried, nothing may differ.
    let still = Run::new(fresh()).play(script, Back::HeldStill)?;
    if first.1 != still.1 {
        return Err("law 2: time that ran back changed the outputs".into());
    }
    Ok(first.0)
}

/// Removes steps as long as a law stays broken.
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
        if !removed || chunk == 1 {
            if chunk == 1 && !removed {
                break;
            }
            chunk = if chunk == 1 { 1 } else { chunk / 2 };
        }
    }
    script
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Back {
    Honest,
    HeldStill,
}

/// What came out, in order: enough to compare two runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Output {
    Left(Instant, TestPacket),
    Dropped(Instant, TestPacket, DropReason),
    Told(Event),
    Asked(Deadline),
}

/// Collects one call's drops and events.
#[derive(Default)]
struct Tray {
    dropped: Vec<(TestPacket, DropReason)>,
    told: Vec<Event>,
}

impl Outlet<TestPacket> for Tray {
    fn dropped(&mut self, packet: TestPacket, reason: DropReason) {
        self.dropped.push((packet, reason));
    }
    fn event(&mut self, event: Event) {
        self.told.push(event);
    }
}

struct Run<Q> {
    qdisc: Q,
    now: Instant,
    /// The latest instant a call carried.
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
            now: Instant::from_nanos(1_000_000_000),
            carried: Instant::ZERO,
            next_id: 0,
            inside: BTreeMap::new(),
            last_of_flow: HashMap::new(),
            outputs: Vec::new(),
            report: Report::default(),
        }
    }

    fn play(mut self, script: &[Op], back: Back) -> Result<(Report, Vec<Output>), String> {
        let mut behind = Span::ZERO;
        for op in script {
            self.report.steps += 1;
            // The instant this call carries; the clock itself never runs back.
            let call = match back {
                Back::Honest => self.now.saturating_sub(behind),
                Back::HeldStill => self.now.saturating_sub(behind).max(self.carried),
            };
            match *op {
                Op::Enqueue(packet) => self.enqueue(call, packet)?,
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

    /// Whether anything left or was dropped.
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
                    return Err("law 3: deadline Now, and dequeue did nothing".into());
                }
            }
            Deadline::At(t) => {
                if t <= self.now {
                    return Err(format!("law 3: deadline At({t:?}) is not later than now {:?}", self.now));
                }
                self.report.deadlines += 1;
                self.now = t.saturating_sub(Span::from_nanos(1));
                if self.dequeue(self.now)? {
                    return Err(format!("law 3: something happened 1 ns before the deadline {t:?}"));
                }
                self.now = t;
                if !self.dequeue(self.now)? {
                    return Err(format!("law 3: nothing happened at the deadline {t:?}"));
                }
            }
            Deadline::Idle => {
                if self.dequeue(self.now)? {
                    return Err("law 3: deadline Idle, and dequeue did something".into());
                }
            }
        }
        Ok(())
    }

    /// Everything that can leave does so at its deadline; what stays must be Idle.
    fn drain(&mut self) -> Result<(), String> {
        for _ in 0..=self.inside.len() {
            if self.qdisc.deadline(self.now) == Deadline::Idle {
                self.now += Span::from_secs(1);
                return if self.dequeue(self.now)? {
                    Err("law 3: Idle, and a second later something happened".into())
                } else {
                    Ok(())
                };
            }
            self.reach_deadline()?;
        }
        Err("law 1: more came out than was inside".into())
    }

    /// Laws 1, 4 and 6 for what one call gave.
    fn settle(&mut self, left: Option<TestPacket>, tray: Tray) -> Result<bool, String> {
        let did = left.is_some() || !tray.dropped.is_empty();
        self.report.most_drops_a_call = self.report.most_drops_a_call.max(tray.dropped.len() as u64);
        for (packet, reason) in tray.dropped {
            self.report.dropped += 1;
            if self.inside.remove(&packet.id).is_none() {
                return Err(format!("law 1: packet {} dropped, but it was not inside", packet.id));
            }
            self.outputs.push(Output::Dropped(self.now, packet, reason));
        }
        if let Some(packet) = left {
            self.report.dequeued += 1;
            let Some(original) = self.inside.remove(&packet.id) else {
                return Err(format!("law 1: packet {} left, but it was not inside", packet.id));
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
        self.outputs.extend(tray.told.into_iter().map(Output::Told));
        let backlog = self.qdisc.backlog();
        let bytes: Bytes = self.inside.values().map(|packet| packet.size).sum();
        if backlog.packets != self.inside.len() as u64 || backlog.bytes != bytes {
            return Err(format!(
                "law 1: the backlog says {} packets {}, but {} packets {bytes} are inside",
                backlog.packets,
                backlog.bytes,
                self.inside.len()
            ));
        }
        Ok(did)
    }
}
