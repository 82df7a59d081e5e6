//! Links: a queue, a transmitter, a line.
//!
//! *Law*: a packet of `s` bytes whose transmission begins at `t` arrives at `t + ceil(s / rate) + delay`. The next
//! transmission does not begin before `t + ceil(s / rate)`. Packets arrive in the order in which their transmissions
//! began.
//! *Units*: bits per second, nanoseconds. A transmission is rounded up to the next nanosecond.
//! *Cost*: one event for a packet on a drop-tail link, because departures are known on arrival. With a discipline two
//! events, or one if it is idle. Packets on the line wait in a ring with a single pending event.

mod backlog;

use std::collections::VecDeque;

use tidegate_autorate::Side;
use tidegate_core::fifo::Limit;
use tidegate_core::random::Stream;
use tidegate_core::{Bytes, DropReason, Event, Instant, Outlet, Qdisc, Rate, Span};
use tidegate_metrics::PartSeries;

use crate::conditions::LineState;
use crate::driver::DriverState;
use crate::follow::{SharedControl, observe};
use crate::loss::{Loss, LossState};
use crate::metrics::{FlowMetrics, LinkMetrics};
use crate::packet::SimPacket;
use crate::shaper::ShaperQueue;

/// A time that means that no event is pending.
pub(crate) const NEVER: u64 = u64::MAX;

/// A line and its drop-tail queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Line {
    /// Bits per second.
    pub rate: Rate,
    /// The propagation delay.
    pub delay: Span,
    /// The limit of the drop-tail queue that applies if no discipline is set, not counting the packet in transmission.
    /// Default 1000 packets.
    pub limit: Limit,
    /// The loss model. Default no loss.
    pub loss: Loss,
}

impl Line {
    /// A line without loss and with a queue of 1000 packets.
    pub const fn new(rate: Rate, delay: Span) -> Self {
        Self { rate, delay, limit: Limit::packets(1000), loss: Loss::None }
    }
    /// Sets the limit of the drop-tail queue.
    #[must_use]
    pub const fn limit(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }
    /// Sets the loss model.
    #[must_use]
    pub const fn loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }
}

/// The decision of a conditioner on a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The packet passes, with the changes made to it.
    Pass,
    /// The packet is dropped.
    Drop(DropReason),
}

/// A meter, marker or policer. It sees each packet once, may set its colour and code point, and may drop it.
pub type Conditioner = Box<dyn FnMut(Instant, &mut SimPacket) -> Verdict>;

/// The stage of a packet at which a tap is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The packet arrived at the link (with a driver: the receive interrupt).
    Arrived,
    /// The packet left the discipline (with a driver: for the software buffer).
    Dequeued,
    /// The packet left the software buffer for the hardware; only with a driver. Packet captures observe this stage.
    Hardware,
    /// The transmission of the packet begins.
    Transmitting,
    /// The packet was dropped.
    Dropped(DropReason),
    /// The packet was lost on the line.
    Lost,
}

/// A callback that observes the packets of a link.
pub type Tap = Box<dyn FnMut(Instant, Stage, &SimPacket)>;

/// The queue before the transmitter.
pub(crate) enum Queue {
    /// Drop-tail: the start times of future transmissions with their sizes, and the sum of the sizes.
    Tail { limit: Limit, waiting: VecDeque<(u64, u32)>, bytes: u64 },
    /// A discipline from which the transmitter takes packets.
    Discipline(Discipline),
    /// A discipline behind a driver.
    Driver(Discipline, Box<DriverState>),
}

/// The discipline from which a transmitter or a driver takes packets.
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
    /// The class that the rules of a shaper file give a packet; `None` for a plain discipline.
    pub fn class_of(&self, packet: &SimPacket) -> Option<u16> {
        match self {
            Self::Plain(_) => None,
            Self::Shaper(shaper) => Some(shaper.class_of(packet)),
        }
    }
}

impl Queue {
    /// The engine, if the queue is the engine of a shaper file.
    pub fn shaper(&self) -> Option<&ShaperQueue> {
        match self {
            Self::Discipline(Discipline::Shaper(shaper)) | Self::Driver(Discipline::Shaper(shaper), _) => Some(shaper),
            _ => None,
        }
    }
    /// Like [`Self::shaper`], mutable.
    pub fn shaper_mut(&mut self) -> Option<&mut ShaperQueue> {
        match self {
            Self::Discipline(Discipline::Shaper(shaper)) | Self::Driver(Discipline::Shaper(shaper), _) => Some(shaper),
            _ => None,
        }
    }
}

/// The packets on lines and in drop-tail queues. The slot that was freed last is reused first, so that the memory in
/// use matches the packets in flight and stays in the cache.
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
    #[inline]
    pub fn get(&mut self, index: u32) -> &mut SimPacket {
        &mut self.packets[index as usize]
    }
    /// The largest number of packets that were stored at once.
    pub fn capacity(&self) -> usize {
        self.packets.len()
    }
    #[inline]
    pub fn free(&mut self, index: u32) {
        self.free.push(index);
    }
}

/// The conditioners and the tap of a link.
#[derive(Default)]
pub(crate) struct Hooks {
    pub entry: Vec<Conditioner>,
    pub tap: Option<Tap>,
    /// The control that follows the line behind the link, and the direction of the link.
    pub observer: Option<(SharedControl, Side)>,
}

/// A link. Data that most hops do not touch is behind pointers.
pub(crate) struct Link {
    rate: Rate,
    delay: u64,
    pub queue: Queue,
    /// When the transmitter is free, in ns.
    pub free_at: u64,
    /// The packets in the discipline after the last call, where they are recorded.
    observed: u64,
    /// When the pending transmit event is due.
    pub transmit_at: u64,
    /// Deadlines are noticed at multiples of this; 0 notices them exactly.
    pub tick: u64,
    /// The packets on the line: arrival times and slots.
    pipe: VecDeque<(u64, u32)>,
    // Transmission times of the two most recent sizes, which are mostly full segments and acknowledgements.
    cached: [(u32, u64); 2],
    loss: Option<Box<LossState>>,
    pub conditions: Option<Box<LineState>>,
    /// The number of its half-duplex line, if it is on one.
    pub shared_line: Option<u32>,
    pub metrics: LinkMetrics,
    pub hooks: Option<Box<Hooks>>,
    pub watched: bool,
    /// A time, and the number of calls at that time that returned no packet.
    pub fruitless: (u64, u32),
}

/// The measurements of all flows, and whether they are being recorded.
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
        call_tap(self.hooks, self.now, Stage::Dropped(reason), packet);
        note_part(self.metrics, packet, |part| part.go(Instant::from_nanos(self.now), packet.size.into()));
        if !self.counters.measuring {
            return;
        }
        self.metrics.dropped[packet.colour as usize].count(packet.size);
        self.metrics.dropped_for[packet.colour as usize][reason as usize] += 1;
        if let Some(series) = &mut self.metrics.series {
            let at = Instant::from_nanos(self.now);
            series.dropped.add(at, 1);
            note_part(self.metrics, packet, |part| part.dropped.add(at, 1));
        }
        self.counters.flows[packet.group as usize].drop_one(packet);
    }
}

/// Applies `note` to the time series of the flow and of the class of `packet`, if they are kept.
#[inline]
fn note_part(metrics: &mut LinkMetrics, packet: &SimPacket, note: impl Fn(&mut PartSeries)) {
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
        if let Event::Sanctioned { .. } = event
            && self.counters.measuring
        {
            self.metrics.sanctions += 1;
        }
    }
}

impl Link {
    /// Creates a link with a drop-tail queue. `loss_changes` tells that the line may begin to lose packets later.
    pub fn new(line: &Line, random: Stream, loss_changes: bool) -> Self {
        Self {
            rate: line.rate,
            delay: line.delay.as_nanos(),
            queue: Queue::Tail { limit: line.limit, waiting: VecDeque::new(), bytes: 0 },
            free_at: 0,
            observed: 0,
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
    pub fn call_tap(&mut self, at: u64, stage: Stage, packet: &SimPacket) {
        call_tap(&mut self.hooks, at, stage, packet);
    }

    /// Hands `packet` to the discipline at `now`.
    pub fn enqueue(&mut self, now: u64, packet: SimPacket, counters: &mut FlowCounters<'_>) {
        let Self { queue: Queue::Discipline(qdisc) | Queue::Driver(qdisc, _), metrics, hooks, .. } = self else {
            return;
        };
        let out = &mut DropCounter { now, metrics, hooks, counters };
        qdisc.get_mut().enqueue(Instant::from_nanos(now), packet, out);
        self.observe_backlog(now);
    }

    /// Takes the packet out of the discipline that may leave at `now`, if there is one.
    pub fn dequeue(&mut self, now: u64, counters: &mut FlowCounters<'_>) -> Option<SimPacket> {
        let Self { queue: Queue::Discipline(qdisc) | Queue::Driver(qdisc, _), metrics, hooks, .. } = self else {
            return None;
        };
        let packet =
            qdisc.get_mut().dequeue(Instant::from_nanos(now), &mut DropCounter { now, metrics, hooks, counters });
        self.observe_backlog(now);
        let packet = packet?;
        self.call_tap(now, Stage::Dequeued, &packet);
        Some(packet)
    }

    /// Records the arrival of `packet`, once its class is known. Packets that wait when the measurement begins have
    /// arrived earlier, so arrivals are recorded during the warm-up, too.
    #[inline]
    pub fn record_arrival(&mut self, at: u64, packet: &SimPacket) {
        if self.watched {
            let at = Instant::from_nanos(at);
            note_part(&mut self.metrics, packet, |part| part.arrive(at, packet.size.into()));
        }
    }

    /// Lets the conditioners see `packet`; returns false if one of them drops it.
    pub fn admit(&mut self, at: u64, packet: &mut SimPacket, counters: &mut FlowCounters<'_>) -> bool {
        self.call_tap(at, Stage::Arrived, packet);
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

    /// Adds `packet` to the drop-tail queue at `at` and returns its arrival time at the other end; `None` if it is
    /// dropped or lost. Calls must be in order of time.
    #[inline]
    pub fn pass(&mut self, at: u64, packet: &mut SimPacket, counters: &mut FlowCounters<'_>) -> Option<u64> {
        let admitted = self.hooks.is_none() || self.admit(at, packet, counters);
        self.record_arrival(at, packet);
        if !admitted {
            return None;
        }
        self.wait_for_line(at);
        let start = self.free_at.max(at);
        self.settle(at);
        let Queue::Tail { limit, waiting, bytes } = &mut self.queue else { unreachable!("only drop-tail passes") };
        if start > at {
            if waiting.len() as u64 >= limit.packets || *bytes + u64::from(packet.size) > limit.bytes.as_u64() {
                self.drop_counter(at, counters).drop_one(packet, DropReason::QueueLimit);
                return None;
            }
            waiting.push_back((start, packet.size));
            *bytes += u64::from(packet.size);
            if let Some(series) = &mut self.metrics.series {
                series.backlog.step(Instant::from_nanos(at), 1);
            }
        }
        packet.queued = at;
        self.transmit(start, packet, counters)
    }

    /// Transmits `packet` at `start`, as the line changes it, and returns its arrival time; `None` if the line loses it.
    #[inline]
    pub fn transmit(&mut self, start: u64, packet: &mut SimPacket, counters: &mut FlowCounters<'_>) -> Option<u64> {
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
        packet.waited += start - packet.queued;
        if self.watched {
            let at = Instant::from_nanos(start);
            note_part(&mut self.metrics, packet, |part| part.go(at, packet.size.into()));
        }
        if counters.measuring {
            self.metrics.sent[packet.colour as usize].count(packet.size);
            if self.watched {
                self.observe(start, packet);
            }
        }
        if self.hooks.is_some() {
            self.call_tap(start, Stage::Transmitting, packet);
        }
        let arrival = match carried {
            None => Some(self.free_at + self.delay),
            Some(carried) => carried.arrival,
        };
        // The loss process advances whatever else happens to the packet.
        let lost = self.loss.as_mut().is_some_and(|loss| loss.loses(packet));
        if lost || arrival.is_none() {
            self.call_tap(start, Stage::Lost, packet);
            if counters.measuring {
                self.metrics.lost += 1;
                counters.flows[packet.group as usize].drop_one(packet);
            }
            return None;
        }
        if let Some(conditions) = &self.conditions {
            conditions.impair(packet);
        }
        arrival
    }

    /// The initial rate and propagation delay of the line.
    pub fn line(&self) -> (Rate, Span) {
        (self.rate, Span::from_nanos(self.delay))
    }

    /// The bits that the line carries from `from` to `to`.
    pub fn capacity(&self, from: u64, to: u64) -> u64 {
        match &self.conditions {
            Some(conditions) => conditions.capacity(self.rate, from, to),
            None => {
                let room = u128::from(self.rate.as_bps()) * u128::from(to.saturating_sub(from));
                u64::try_from(room / 1_000_000_000).unwrap_or(u64::MAX)
            }
        }
    }

    /// Whether the line has a loss process.
    pub fn has_losses(&self) -> bool {
        self.loss.is_some()
    }

    /// Replaces the loss model from now on.
    fn set_loss(&mut self, loss: Loss) {
        if let Some(state) = &mut self.loss {
            state.set(loss);
        }
    }

    /// Delays the transmitter until the line works.
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

    /// Draws whether the packet transmitted last is duplicated.
    #[inline]
    pub fn duplicates(&mut self) -> bool {
        let twice = self.conditions.as_mut().is_some_and(|conditions| conditions.duplicates());
        self.metrics.duplicated += u64::from(twice);
        twice
    }

    /// Whether the line may reorder packets.
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
            note_part(&mut self.metrics, packet, |part| part.left(at, packet.size.into(), waited));
        }
    }

    /// Puts `packet` on the line until `at`. Returns whether an event must be scheduled for it.
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

    /// Takes the packet that arrives now off the line, and returns when the next one arrives.
    #[inline]
    pub fn land(&mut self) -> (u32, Option<u64>) {
        let (_, packet) = self.pipe.pop_front().expect("an event for each packet on the line");
        // With reordering, each packet has an event of its own.
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

    /// The time at which a deadline at `at` is noticed: `at`, or the next tick of the timer.
    pub fn noticed(&self, at: u64) -> u64 {
        if self.tick == 0 { at } else { at.div_ceil(self.tick).saturating_mul(self.tick) }
    }
}

pub(crate) fn call_tap(hooks: &mut Option<Box<Hooks>>, at: u64, stage: Stage, packet: &SimPacket) {
    let Some(hooks) = hooks else { return };
    if let Some(tap) = &mut hooks.tap {
        tap(Instant::from_nanos(at), stage, packet);
    }
    if let Some(observer) = &hooks.observer {
        observe(observer, Instant::from_nanos(at), stage, packet);
    }
}

/// When a discipline should be called next: `now` or a later time.
pub(crate) fn next_call(qdisc: &dyn Qdisc<SimPacket>, now: u64) -> Option<u64> {
    qdisc.deadline(Instant::from_nanos(now)).instant(Instant::from_nanos(now)).map(Instant::as_nanos)
}
