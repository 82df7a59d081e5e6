//! Links: a queue, a transmitter, a line.
//!
//! *Law*: a packet of `s` bytes that begins to leave at `t` arrives at `t + ceil(s / rate) + delay`; the next does not
//! begin before `t + ceil(s / rate)`; packets arrive in the order in which they began.
//! *Units*: bits per second, nanoseconds. A transmission is rounded up to the next nanosecond.
//! *Cost*: one event a packet on a drop-tail link, whose departures are known at arrival; two with a discipline, and
//! one when it is idle. Packets on the line wait in a ring with one pending event for all of them.

use std::collections::VecDeque;

use tidegate_core::fifo::Limit;
use tidegate_core::random::Stream;
use tidegate_core::{Bytes, DropReason, Event, Instant, Outlet, Qdisc, Rate, Span};
use tidegate_metrics::PartSeries;

use crate::conditions::LineState;
use crate::driver::DriverState;
use crate::loss::{Loss, LossState};
use crate::metrics::{FlowMetrics, LinkMetrics};
use crate::packet::SimPacket;
use crate::shaper::ShaperQueue;

/// No event is pending.
pub(crate) const NEVER: u64 = u64::MAX;

/// A line and its drop-tail queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Line {
    /// Bits per second.
    pub rate: Rate,
    /// The propagation delay.
    pub delay: Span,
    /// How much waits, the packet on the transmitter not counted, where no discipline is set. Default 1000 packets.
    pub limit: Limit,
    /// What the line loses. Default nothing.
    pub loss: Loss,
}

impl Line {
    /// A line without loss and with a queue of 1000 packets.
    pub const fn new(rate: Rate, delay: Span) -> Self {
        Self { rate, delay, limit: Limit::packets(1000), loss: Loss::None }
    }
    /// With this limit of the drop-tail queue.
    #[must_use]
    pub const fn limit(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }
    /// With this loss.
    #[must_use]
    pub const fn loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }
}

/// The decision of a conditioner on a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Lets it through, with what it wrote into it.
    Pass,
    /// The packet is dropped.
    Drop(DropReason),
}

/// A meter, a marker, a policer: processes each packet once, may write its colour and code point, may drop it.
pub type Conditioner = Box<dyn FnMut(Instant, &mut SimPacket) -> Verdict>;

/// The stage of a packet at which a tap is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It arrived at the link (with a driver: the receive interrupt).
    Arrived,
    /// It left the discipline (with a driver: for the software buffer).
    Dequeued,
    /// It left the software buffer for the hardware; only with a driver. This is where packet captures look.
    Hardware,
    /// Its transmission begins.
    Transmitting,
    /// It was dropped.
    Dropped(DropReason),
    /// The line lost it.
    Lost,
}

/// Observes what happens to packets on a link.
pub type Tap = Box<dyn FnMut(Instant, Stage, &SimPacket)>;

/// The queue before the transmitter.
pub(crate) enum Queue {
    /// Drop-tail: the beginnings of transmissions to come, with the bytes.
    Tail { limit: Limit, waiting: VecDeque<(u64, u32)>, bytes: u64 },
    /// A discipline; the transmitter takes from it.
    Discipline(Discipline),
    /// A discipline behind a driver.
    Driver(Discipline, Box<DriverState>),
}

/// The source of packets of a transmitter or a driver.
pub(crate) enum Discipline {
    /// A discipline alone.
    Plain(Box<dyn Qdisc<SimPacket>>),
    /// The engine of a shaper file.
    Shaper(Box<ShaperQueue>),
}

impl Discipline {
    #[inline]
    pub fn get(&self) -> &dyn Qdisc<SimPacket> {
        match self {
            Self::Plain(qdisc) => qdisc.as_ref(),
            Self::Shaper(shaper) => shaper.as_ref(),
        }
    }
    #[inline]
    pub fn get_mut(&mut self) -> &mut dyn Qdisc<SimPacket> {
        match self {
            Self::Plain(qdisc) => qdisc.as_mut(),
            Self::Shaper(shaper) => shaper.as_mut(),
        }
    }
    /// The class that the rules of a shaper file give a packet; `None` where there are none.
    pub fn class_of(&self, packet: &SimPacket) -> Option<u16> {
        match self {
            Self::Plain(_) => None,
            Self::Shaper(shaper) => Some(shaper.class_of(packet)),
        }
    }
}

impl Queue {
    /// The engine, where the queue is one.
    pub fn shaper(&self) -> Option<&ShaperQueue> {
        match self {
            Self::Discipline(Discipline::Shaper(shaper)) | Self::Driver(Discipline::Shaper(shaper), _) => Some(shaper),
            _ => None,
        }
    }
    /// The engine, to change it.
    pub fn shaper_mut(&mut self) -> Option<&mut ShaperQueue> {
        match self {
            Self::Discipline(Discipline::Shaper(shaper)) | Self::Driver(Discipline::Shaper(shaper), _) => Some(shaper),
            _ => None,
        }
    }
}

/// The packets that are on lines or in drop-tail queues. What is freed last is used first, so that the memory in use
/// is what is in flight, and stays in the cache.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    packets: Vec<SimPacket>,
    free: Vec<u32>,
}

impl Slab {
    /// Stores `packet` and returns its slot.
    #[inline]
    pub fn insert(&mut self, packet: &SimPacket) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.packets[index as usize] = *packet;
                index
            }
            None => {
                self.packets.push(*packet);
                self.packets.len() as u32 - 1
            }
        }
    }
    /// The packet at `index`.
    #[inline]
    pub fn at(&mut self, index: u32) -> &mut SimPacket {
        &mut self.packets[index as usize]
    }
    /// How many packets were there at once at most.
    pub fn capacity(&self) -> usize {
        self.packets.len()
    }
    /// Forgets the packet at `index`.
    #[inline]
    pub fn free(&mut self, index: u32) {
        self.free.push(index);
    }
}

/// Conditioners and the tap of a link.
#[derive(Default)]
pub(crate) struct Hooks {
    pub entry: Vec<Conditioner>,
    pub tap: Option<Tap>,
}

/// A link; what a hop does not touch is behind a pointer.
pub(crate) struct Link {
    rate: Rate,
    delay: u64,
    pub queue: Queue,
    /// The time in ns at which the transmitter is free.
    pub free_at: u64,
    /// The pending transmit event.
    pub transmit_at: u64,
    /// Deadlines are noticed at multiples of this; 0 exactly.
    pub tick: u64,
    /// When what is on the line arrives, and where it is kept meanwhile.
    pipe: VecDeque<(u64, u32)>,
    // The transmission time of the last two sizes: mostly full segments and acknowledgements.
    cached: [(u32, u64); 2],
    loss: Option<Box<LossState>>,
    pub conditions: Option<Box<LineState>>,
    /// Which of the lines that two directions share it is on.
    pub shared_line: Option<u32>,
    pub metrics: LinkMetrics,
    pub hooks: Option<Box<Hooks>>,
    pub watched: bool,
    /// An instant, and the calls at it that returned no packet.
    pub fruitless: (u64, u32),
}

/// The counters of flows.
pub(crate) struct FlowCounters<'a> {
    pub flows: &'a mut [FlowMetrics],
    pub measuring: bool,
}

/// Counts the drops and marks of a discipline.
pub(crate) struct DropCounter<'a, 'b> {
    pub now: u64,
    pub metrics: &'a mut LinkMetrics,
    pub hooks: &'a mut Option<Box<Hooks>>,
    pub counters: &'a mut FlowCounters<'b>,
}

impl DropCounter<'_, '_> {
    fn drop_one(&mut self, packet: &SimPacket, reason: DropReason) {
        see(self.hooks, self.now, Stage::Dropped(reason), packet);
        note(self.metrics, packet, |part| part.gone.add(Instant::from_nanos(self.now), packet.size.into()));
        if !self.counters.measuring {
            return;
        }
        self.metrics.dropped[packet.colour as usize].count(packet.size);
        self.metrics.dropped_for[packet.colour as usize][reason as usize] += 1;
        if let Some(series) = &mut self.metrics.series {
            let at = Instant::from_nanos(self.now);
            series.dropped.add(at, 1);
            note(self.metrics, packet, |part| part.dropped.add(at, 1));
        }
        self.counters.flows[packet.group as usize].dropped.count(packet.size);
    }
}

/// Lets `note` see the series of the flow and of the class of `packet`, where they are kept.
#[inline]
fn note(metrics: &mut LinkMetrics, packet: &SimPacket, note: impl Fn(&mut PartSeries)) {
    if let Some(series) = &mut metrics.series
        && let Some(parts) = &mut series.parts
    {
        parts.note(packet.group, packet.class, series.first, note);
    }
}

impl Outlet<SimPacket> for DropCounter<'_, '_> {
    #[cold]
    fn dropped(&mut self, packet: SimPacket, reason: DropReason) {
        self.drop_one(&packet, reason);
    }
    fn event(&mut self, event: Event) {
        if let Event::Marked { .. } = event
            && self.counters.measuring
        {
            self.metrics.marked += 1;
            if let Some(series) = &mut self.metrics.series {
                series.marked.add(Instant::from_nanos(self.now), 1);
            }
        }
    }
}

impl Link {
    /// `loss_changes`: the line loses packets later if not from the beginning.
    pub fn new(line: &Line, random: Stream, loss_changes: bool) -> Self {
        Self {
            rate: line.rate,
            delay: line.delay.as_nanos(),
            queue: Queue::Tail { limit: line.limit, waiting: VecDeque::new(), bytes: 0 },
            free_at: 0,
            transmit_at: NEVER,
            tick: 0,
            pipe: VecDeque::new(),
            cached: [(0, 0); 2],
            loss: (line.loss != Loss::None || loss_changes).then(|| Box::new(LossState::new(line.loss, random))),
            conditions: None,
            shared_line: None,
            metrics: LinkMetrics::default(),
            hooks: None,
            watched: false,
            fruitless: (0, 0),
        }
    }

    /// Returns the transmission time of `size` bytes, in ns.
    fn transmission(&mut self, size: u32) -> u64 {
        for (known, time) in self.cached {
            if known == size {
                return time;
            }
        }
        let bytes = Bytes::new(u64::from(size));
        let time = self.rate.time_for_ceil(bytes).map_or(NEVER / 4, Span::as_nanos);
        self.cached = [(size, time), self.cached[0]];
        time
    }

    /// Shows `packet` to the tap.
    pub fn see(&mut self, at: u64, stage: Stage, packet: &SimPacket) {
        see(&mut self.hooks, at, stage, packet);
    }

    /// Hands `packet` to the discipline at `now`.
    pub fn enqueue(&mut self, now: u64, packet: SimPacket, counters: &mut FlowCounters<'_>) {
        let Self { queue: Queue::Discipline(qdisc) | Queue::Driver(qdisc, _), metrics, hooks, .. } = self else {
            return;
        };
        let out = &mut DropCounter { now, metrics, hooks, counters };
        qdisc.get_mut().enqueue(Instant::from_nanos(now), packet, out);
        if self.watched && counters.measuring {
            let packets = self.backlog().packets;
            self.observe_backlog(now, packets);
        }
    }

    /// Takes the packet out of the discipline that may leave at `now`, if there is one.
    pub fn dequeue(&mut self, now: u64, counters: &mut FlowCounters<'_>) -> Option<SimPacket> {
        let Self { queue: Queue::Discipline(qdisc) | Queue::Driver(qdisc, _), metrics, hooks, .. } = self else {
            return None;
        };
        let packet =
            qdisc.get_mut().dequeue(Instant::from_nanos(now), &mut DropCounter { now, metrics, hooks, counters })?;
        self.see(now, Stage::Dequeued, &packet);
        Some(packet)
    }

    /// Notes that `packet` has come, once its class is known. What waits when measuring begins came before: this is
    /// noted all the time.
    #[inline]
    pub fn comes(&mut self, at: u64, packet: &SimPacket) {
        if self.watched {
            let at = Instant::from_nanos(at);
            note(&mut self.metrics, packet, |part| part.arrived.add(at, packet.size.into()));
        }
    }

    /// Lets the conditioners see `packet`; returns false if one of them drops it.
    pub fn admit(&mut self, at: u64, packet: &mut SimPacket, counters: &mut FlowCounters<'_>) -> bool {
        self.see(at, Stage::Arrived, packet);
        let Some(hooks) = &mut self.hooks else { return true };
        let dropped = hooks.entry.iter_mut().find_map(|condition| match condition(Instant::from_nanos(at), packet) {
            Verdict::Pass => None,
            Verdict::Drop(reason) => Some(reason),
        });
        if let Some(reason) = dropped {
            self.drop_counter(at, counters).drop_one(packet, reason);
        }
        dropped.is_none()
    }

    fn drop_counter<'a, 'b>(&'a mut self, now: u64, counters: &'a mut FlowCounters<'b>) -> DropCounter<'a, 'b> {
        DropCounter { now, metrics: &mut self.metrics, hooks: &mut self.hooks, counters }
    }

    /// Takes `packet` into the drop-tail queue at `at`, and returns the time it arrives at the other end; `None` when
    /// it does not. Arrivals must come in order of time.
    #[inline]
    pub fn pass(&mut self, at: u64, packet: &mut SimPacket, counters: &mut FlowCounters<'_>) -> Option<u64> {
        let admitted = self.hooks.is_none() || self.admit(at, packet, counters);
        self.comes(at, packet);
        if !admitted {
            return None;
        }
        self.wait_for_line(at);
        let start = self.free_at.max(at);
        if self.watched && counters.measuring {
            let packets = self.waiting_at(at);
            self.observe_backlog(at, packets);
        }
        let Queue::Tail { limit, waiting, bytes } = &mut self.queue else { unreachable!("only drop-tail passes") };
        if start > at {
            while let Some(&(began, size)) = waiting.front()
                && began <= at
            {
                waiting.pop_front();
                *bytes -= u64::from(size);
            }
            if waiting.len() as u64 >= limit.packets || *bytes + u64::from(packet.size) > limit.bytes.as_u64() {
                self.drop_counter(at, counters).drop_one(packet, DropReason::QueueLimit);
                return None;
            }
            waiting.push_back((start, packet.size));
            *bytes += u64::from(packet.size);
        } else if !waiting.is_empty() {
            waiting.clear();
            *bytes = 0;
        }
        packet.queued = at;
        self.transmit(start, packet, counters)
    }

    /// Puts `packet` on the transmitter at `start`, and returns the time it arrives; `None` when the line loses it.
    #[inline]
    pub fn transmit(&mut self, start: u64, packet: &SimPacket, counters: &mut FlowCounters<'_>) -> Option<u64> {
        let carried = self.conditions.as_mut().map(|conditions| conditions.carry(start, packet.size));
        match &carried {
            None => self.free_at = start + self.transmission(packet.size),
            Some(carried) => {
                self.free_at = carried.free_at;
                if let Some(loss) = carried.loss {
                    self.set_loss(loss);
                }
            }
        }
        if self.watched {
            let at = Instant::from_nanos(start);
            note(&mut self.metrics, packet, |part| part.gone.add(at, packet.size.into()));
        }
        if counters.measuring {
            self.metrics.sent[packet.colour as usize].count(packet.size);
            if self.watched {
                self.observe(start, packet);
            }
        }
        if self.hooks.is_some() {
            self.see(start, Stage::Transmitting, packet);
        }
        let arrival = match carried {
            None => Some(self.free_at + self.delay),
            Some(carried) => carried.arrival,
        };
        // The random process of the loss takes its step whatever else happens to the packet.
        let lost = self.loss.as_mut().is_some_and(|loss| loss.loses(packet));
        if lost || arrival.is_none() {
            self.see(start, Stage::Lost, packet);
            if counters.measuring {
                self.metrics.lost += 1;
                counters.flows[packet.group as usize].dropped.count(packet.size);
            }
            return None;
        }
        arrival
    }

    /// The rate and the propagation delay that the line began with.
    pub fn line(&self) -> (Rate, Span) {
        (self.rate, Span::from_nanos(self.delay))
    }

    /// Whether the line can lose packets.
    pub fn has_losses(&self) -> bool {
        self.loss.is_some()
    }

    /// Lets the line have another loss from now on.
    fn set_loss(&mut self, loss: Loss) {
        if let Some(state) = &mut self.loss {
            state.set(loss);
        }
    }

    /// Where the line has failed by `now`, the transmitter is not free before it returns.
    #[inline]
    pub fn wait_for_line(&mut self, now: u64) {
        if let Some(conditions) = &mut self.conditions {
            let from = self.free_at.max(now);
            let available = conditions.available(from);
            if available > from {
                self.free_at = available;
            }
        }
    }

    /// Whether what was transmitted last arrives twice.
    #[inline]
    pub fn duplicates(&mut self) -> bool {
        let twice = self.conditions.as_mut().is_some_and(|conditions| conditions.duplicates());
        self.metrics.duplicated += u64::from(twice);
        twice
    }

    /// Whether packets may overtake each other on the line.
    fn reorders(&self) -> bool {
        self.conditions.as_ref().is_some_and(|conditions| conditions.reorders())
    }

    fn observe(&mut self, start: u64, packet: &SimPacket) {
        let waited = start - packet.queued;
        self.metrics.delay_ns.record(waited);
        let class = usize::from(packet.class);
        if class >= self.metrics.classes.len() {
            self.metrics.classes.resize(class + 1, Default::default());
        }
        self.metrics.classes[class].count(packet.size);
        if let Some(series) = &mut self.metrics.series {
            let at = Instant::from_nanos(start);
            series.sent[packet.colour as usize].add(at, u64::from(packet.size));
            series.delay_ns.add(at, waited);
            let waited = Span::from_nanos(waited);
            note(&mut self.metrics, packet, |part| part.left(at, packet.size.into(), waited));
        }
    }

    /// How many packets wait in a drop-tail queue at `at`.
    fn waiting_at(&self, at: u64) -> u64 {
        match &self.queue {
            Queue::Tail { waiting, .. } => (waiting.len() - waiting.partition_point(|&(began, _)| began <= at)) as u64,
            _ => 0,
        }
    }

    /// Notes the backlog of a discipline as an arriving packet sees it.
    pub fn observe_backlog(&mut self, at: u64, packets: u64) {
        if let Some(series) = &mut self.metrics.series {
            series.backlog.add(Instant::from_nanos(at), packets);
        }
    }

    /// Puts `packet` on the line until `at`; whether an event is needed for it.
    #[inline]
    pub fn launch(&mut self, at: u64, packet: u32) -> bool {
        if self.reorders() {
            let place = self.pipe.partition_point(|other| other.0 <= at);
            self.pipe.insert(place, (at, packet));
            return true;
        }
        debug_assert!(self.pipe.back().is_none_or(|last| last.0 <= at), "overtaken on the line");
        self.pipe.push_back((at, packet));
        self.pipe.len() == 1
    }

    /// The packet that arrives now, and when the next one does.
    #[inline]
    pub fn land(&mut self) -> (u32, Option<u64>) {
        let (_, packet) = self.pipe.pop_front().expect("an event for each packet on the line");
        // Where packets overtake each other each has an event of its own.
        let next = if self.reorders() { None } else { self.pipe.front().map(|next| next.0) };
        (packet, next)
    }

    /// The backlog before the transmitter.
    pub fn backlog(&self) -> tidegate_core::Backlog {
        match &self.queue {
            Queue::Tail { waiting, bytes, .. } => {
                tidegate_core::Backlog { packets: waiting.len() as u64, bytes: Bytes::new(*bytes) }
            }
            Queue::Discipline(qdisc) | Queue::Driver(qdisc, _) => qdisc.get().backlog(),
        }
    }

    /// `at`, or the next tick of the timer after it.
    pub fn noticed(&self, at: u64) -> u64 {
        if self.tick == 0 { at } else { at.div_ceil(self.tick).saturating_mul(self.tick) }
    }
}

pub(crate) fn see(hooks: &mut Option<Box<Hooks>>, at: u64, stage: Stage, packet: &SimPacket) {
    if let Some(hooks) = hooks
        && let Some(tap) = &mut hooks.tap
    {
        tap(Instant::from_nanos(at), stage, packet);
    }
}

/// Whether a discipline has something for the transmitter at `now`, and when otherwise.
pub(crate) fn next_call(qdisc: &dyn Qdisc<SimPacket>, now: u64) -> Option<u64> {
    qdisc.deadline(Instant::from_nanos(now)).instant(Instant::from_nanos(now)).map(Instant::as_nanos)
}
