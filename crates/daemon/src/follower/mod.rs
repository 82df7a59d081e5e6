//! [`Follower`]: rates that follow their line. It feeds a controller with what passes the data paths, and gives them its rates.
//!
//! The controller, the tracker of round trips and the schedule of probes are those of [`tidegate_autorate`], which the simulator runs as
//! well. The two directions of a file have one line. Passing packets show round trips where both directions are shaped in this process;
//! else there are probes alone.

mod ping;

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_autorate::calls::{Call, Decided, Recorder};
use tidegate_autorate::passive::{Found, Segment, Tracker};
use tidegate_autorate::probes::Schedule;
use tidegate_autorate::{Cause, Controller, Decision, Side};
use tidegate_config::shaper::{Config, Direction, Follow};
use tidegate_control::calls::{Event, EventKind, FollowDecision, FollowStatus};
use tidegate_live::shaping::{Passed, Passing, Shaping};
use tidegate_live::timing;
use tidegate_units::{Bytes, Instant, Rate, Span};

use crate::directions::ShapedDirection;
use crate::notifier::Notifier;
use ping::Pinger;

/// Decisions that are remembered.
const RECENT: usize = 20;

/// Makes the recorder of a controller for each recorded direction of its line.
pub type LineRecorders = Box<dyn Fn(&Config) -> Option<Box<dyn Recorder>> + Send>;

/// Everything that follows lines.
#[derive(Default)]
pub(crate) struct Follower {
    lines: Vec<Line>,
    pub recorders: Option<LineRecorders>,
}

/// The line of a file, and what is known of it.
struct Line {
    file: usize,
    controller: Controller,
    /// The number of calls of the controller so far, and who records them.
    calls: u64,
    recorders: Vec<Box<dyn Recorder>>,
    tracker: Tracker,
    /// The segments of both directions since the last tick, to be put in order.
    segments: Vec<(Instant, Segment)>,
    ends: [End; 2],
    probes: Option<Probes>,
}

/// A direction of a line.
#[derive(Default)]
struct End {
    follow: Option<Follow>,
    passing: Option<Arc<Passing>>,
    /// The data path that is observed, and that has the rate.
    generation: Option<u64>,
    applied: Option<Rate>,
    /// The bytes that a data path in the kernel had carried.
    carried: u64,
    recent: VecDeque<Decision>,
    blind: bool,
}

/// Probes to peers that the user named.
struct Probes {
    pinger: Pinger,
    schedule: Schedule,
    sent: u64,
}

fn side_of(direction: &ShapedDirection) -> Side {
    match direction.config.interface.direction {
        Direction::Egress => Side::Up,
        Direction::Ingress => Side::Down,
    }
}

impl Follower {
    /// Everything that is due. Called with every tick.
    pub fn tick(&mut self, directions: &mut [ShapedDirection], notifier: &Notifier) {
        for direction in directions.iter() {
            let known = self.lines.iter().any(|line| line.file == direction.file);
            if !known && direction.config.follow().is_some() {
                let file = directions.iter().filter(|other| other.file == direction.file);
                let recorders = self.recorders.iter().flat_map(|make| file.clone().filter_map(|one| make(&one.config)));
                self.lines.push(Line::new(direction.file, recorders.collect()));
            }
        }
        for line in &mut self.lines {
            line.tick(directions, notifier);
        }
    }
}

impl Line {
    fn new(file: usize, recorders: Vec<Box<dyn Recorder>>) -> Self {
        let now = timing::now();
        let mut line = Self {
            file,
            controller: Controller::new([None; 2], now),
            calls: 0,
            recorders,
            tracker: Tracker::default(),
            segments: Vec::new(),
            ends: [End::default(), End::default()],
            probes: None,
        };
        line.call(Call::Start { now });
        line
    }

    /// Makes a call of the controller, and records it.
    fn call(&mut self, call: Call) -> Decided {
        let decided = self.controller.call(&call);
        self.recorders.iter_mut().for_each(|recorder| recorder.call(self.calls, &call, &decided));
        self.calls += 1;
        decided
    }

    fn tick(&mut self, directions: &mut [ShapedDirection], notifier: &Notifier) {
        let own = |direction: &&mut ShapedDirection| direction.file == self.file;
        let mut directions: Vec<&mut ShapedDirection> = directions.iter_mut().filter(own).collect();
        for direction in &mut directions {
            self.attach(direction, notifier);
            self.read(direction);
        }
        let mut segments = std::mem::take(&mut self.segments);
        segments.sort_by_key(|(at, _)| *at);
        for (now, segment) in segments.drain(..) {
            if let Some(found) = self.tracker.see(now, &segment) {
                let Found { peer, round_trip, down } = found;
                self.call(Call::RoundTrip { now, peer, round_trip, down });
            }
        }
        self.segments = segments;
        let now = timing::now();
        self.probe(now);
        let decided = self.call(Call::Decide { now });
        for direction in directions {
            let side = side_of(direction);
            self.apply(direction, decided[side as usize], notifier);
            direction.following = self.status(side, now);
        }
    }

    /// Follows changes of the configuration and of the data path.
    fn attach(&mut self, direction: &ShapedDirection, notifier: &Notifier) {
        let side = side_of(direction);
        let generation = direction.shaping().map(|_| direction.generation());
        let end = &mut self.ends[side as usize];
        if end.generation == generation {
            return;
        }
        (end.generation, end.applied, end.carried) = (generation, None, 0);
        let follow = direction.config.follow().cloned();
        if follow != end.follow {
            let bounds = follow.as_ref().map(|follow| follow.bounds);
            let peers = follow.as_ref().map_or(Vec::new(), |follow| follow.peers.clone());
            end.follow = follow;
            self.call(Call::Bounds { side, bounds });
            if !peers.is_empty() || self.probes.is_none() {
                self.open(peers, notifier);
            }
        }
        // The other direction shows the answers, also where its rate is constant.
        let end = &mut self.ends[side as usize];
        let passing = end.passing.get_or_insert_default();
        if let Some(Err(error)) = direction.shaping().map(|shaping| shaping.observe(passing)) {
            notifier.log(&format!("{}: passing traffic is not observed: {error}", direction.name));
        }
    }

    /// Opens probes to `peers`, in the place of earlier ones.
    fn open(&mut self, peers: Vec<std::net::IpAddr>, notifier: &Notifier) {
        self.probes = None;
        if peers.is_empty() {
            return;
        }
        let schedule = Schedule::new(peers.len());
        match Pinger::start(peers) {
            Ok(pinger) => self.probes = Some(Probes { pinger, schedule, sent: 0 }),
            Err(error) => notifier.log(&format!(
                "no probes: {error}; passing traffic alone shows the line. `sysctl net.ipv4.ping_group_range` must have \
                 the group of tidegate"
            )),
        }
    }

    /// Takes what has passed a direction.
    fn read(&mut self, direction: &ShapedDirection) {
        let side = side_of(direction);
        let end = &mut self.ends[side as usize];
        let Some(shaping) = direction.shaping() else { return };
        let passed = match shaping.in_kernel() {
            None => end.passing.as_ref().map(|passing| passing.take()).unwrap_or_default(),
            Some(_) => end.counted(shaping),
        };
        self.call(Call::Carried { side, bytes: passed.bytes, waiting: passed.waiting });
        self.segments.extend(passed.segments);
    }

    /// Sends a probe if one is due, and takes the answers.
    fn probe(&mut self, now: Instant) {
        let Some(probes) = &self.probes else { return };
        let answers: Vec<_> = probes.pinger.answers().collect();
        for (peer, now, round_trip) in answers {
            // Not the number of a host that traffic passes to.
            self.call(Call::RoundTrip { now, peer: u64::MAX - peer as u64, round_trip, down: None });
        }
        let Some(probes) = &mut self.probes else { return };
        let rates = Side::BOTH.into_iter().filter_map(|side| self.controller.allowed(side));
        let wanted = self.controller.wants_probes(now);
        if let Some(peer) = probes.schedule.poll(now, wanted, rates.min().unwrap_or(Rate::ZERO)) {
            probes.pinger.send(peer);
            probes.sent += 1;
        }
    }

    /// Gives the data path the rate, where it has another one, and tells.
    fn apply(&mut self, direction: &mut ShapedDirection, decision: Option<Decision>, notifier: &Notifier) {
        let side = side_of(direction);
        let Some(allowed) = self.controller.allowed(side) else { return };
        let end = &mut self.ends[side as usize];
        if end.applied != Some(allowed) {
            // Otherwise the next tick tries again; the watchdog looks after a data path that does not answer.
            if let Some(Ok(true)) = direction.set_line_rate(allowed) {
                end.applied = Some(allowed);
            }
        }
        let Some(decision) = decision else { return };
        if end.recent.len() == RECENT {
            end.recent.pop_front();
        }
        end.recent.push_back(decision);
        let mut event = Event::new(EventKind::LineRate, Span::from_nanos(decision.at.as_nanos()));
        event.direction = Some(direction.name.clone());
        (event.granted, event.delay) = (Some(decision.to), decision.delay);
        event.text = Some(decision.cause.sentence().into());
        notifier.publish(event);
        let blind = decision.cause == Cause::Blind;
        if blind && !end.blind {
            let (name, to) = (&direction.name, decision.to);
            notifier.log(&format!("{name}: no peer has answered for 2 s under load; the rate is the base, {to}"));
        }
        end.blind = blind;
    }

    fn status(&self, side: Side, now: Instant) -> Option<FollowStatus> {
        let probes = self.probes.as_ref().map_or(0, |probes| probes.sent);
        status(&self.controller, side, now, self.ends[side as usize].recent.iter(), probes)
    }
}

/// The state of a direction and its `recent` decisions, as the protocol has them; `None` if it does not follow the line.
pub fn status<'a>(
    controller: &Controller,
    side: Side,
    now: Instant,
    recent: impl Iterator<Item = &'a Decision>,
    probes: u64,
) -> Option<FollowStatus> {
    let state = controller.state(side)?;
    let recent = recent.map(|decision| FollowDecision {
        ago: now.since(decision.at),
        from: decision.from,
        to: decision.to,
        cause: decision.cause.name().into(),
        achieved: decision.achieved,
        delay: decision.delay,
    });
    Some(FollowStatus {
        allowed: state.allowed,
        least: state.bounds.least,
        base: state.bounds.base,
        most: state.bounds.most,
        achieved: state.achieved,
        delay: state.delay,
        floor: controller.floor(),
        peers: controller.peers() as u64,
        probes,
        changes: state.changes,
        cause: state.last.cause.name().into(),
        reason: state.last.cause.sentence().into(),
        changed: now.since(state.last.at),
        recent: recent.collect(),
    })
}

impl End {
    /// What a data path in the kernel has carried since the last call, by its counters.
    fn counted(&mut self, shaping: &Shaping) -> Passed {
        let classes = shaping.status().unwrap_or_default();
        let bytes: u64 = classes.iter().map(|class| class.counts.through.bytes.as_u64()).sum();
        let waiting = classes.iter().any(|class| class.counts.backlog.packets > 0);
        let before = std::mem::replace(&mut self.carried, bytes);
        // The first reading has everything since the start.
        let since = if before == 0 { 0 } else { bytes.saturating_sub(before) };
        Passed { bytes: Bytes::new(since), waiting, ..Passed::default() }
    }
}
