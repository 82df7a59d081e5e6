//! [`Driver`]: the event loop of a data path without its I/O, and [`run`], the loop over a [`DataPath`].
//!
//! The driver owns the engine and the state of the loop: when packets last left, which flows are being segmented, whether
//! the shaper is bypassed. It reads no clock: every call carries the time, so that the same driver runs in real time and,
//! event by event, in virtual time.
//!
//! ```text
//! offer(now, arrival, sink)      a packet has arrived
//! depart(now, sink)              at most one packet that is due at `now`
//! depart_due(now, sink)          all packets that are due at `now`
//! run_until(until, sink)         each packet that is due before `until`, at its own deadline
//! next_departure(now)            when to call `depart` next
//! next_wakeup(now)               when the loop must wake up: for a departure or to poll watched flows
//! ```
//!
//! *Law*: no packet leaves before its deadline. With a quantum q and a rest r a packet leaves at most the longer of both after its
//! deadline, at most q if few wait in its class, and wake-ups for departures are at least q apart. While a superpacket is being
//! segmented elsewhere and until its segments have left, later packets of its flow take the same way (the module `diversion`).
//! *Units*: instants of the clock of the data path; sizes as on the link.
//! *Cost*: constant per call, beside that of the engine; one more classification per packet while a flow is diverted.

use std::ops::ControlFlow;

use tidegate_core::{Bytes, Instant, Rate, Span};

use crate::diversion::Diversions;
use crate::engine::Engine;
use crate::guard::guarded;
use crate::sink::{Admission, PacketMeta, Sink};
use crate::turns::Turns;

/// How many batches of arrivals are received before departures get their turn.
const BATCHES: u32 = 4;

/// How a data path segments a superpacket that is too long for the rate of its flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Segmentation {
    /// At once: the data path offers the segments before any other packet.
    #[default]
    Inline,
    /// Elsewhere: the segments arrive later. Until then the data path sends later packets of the flow the same way.
    Deferred,
}

/// The parameters of a [`Driver`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Params {
    /// The minimum time between two wake-ups for departures; packets that become due meanwhile leave together. With zero each
    /// packet leaves at its deadline.
    pub quantum: Span,
    /// The longest time for which a busy loop in real time rests between two turns, so that packets share them; see the module
    /// `turns`. With zero every arrival wakes the loop.
    pub rest: Span,
    /// The rate of a link behind the engine that transmits one packet at a time; `None` for a link of infinite rate.
    pub link: Option<Rate>,
    /// How superpackets are segmented.
    pub segmentation: Segmentation,
}

/// A packet that a data path offers.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a, H> {
    /// The data path's own name for the packet.
    pub handle: H,
    /// The metadata that the data path parsed.
    pub meta: &'a PacketMeta,
    /// The bytes from the network header on, as far as they are known, for a recorder.
    pub bytes: &'a [u8],
    /// Whether the packet comes back from segmentation.
    pub segmented: bool,
}

impl<'a, H> Arrival<'a, H> {
    /// A packet without bytes that does not come back from segmentation.
    pub const fn new(handle: H, meta: &'a PacketMeta) -> Self {
        Self { handle, meta, bytes: &[], segmented: false }
    }
}

/// The result of [`Driver::offer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Offered<H> {
    /// The engine has taken the packet: it is queued, or has already been sent or dropped.
    Consumed,
    /// The data path must segment the packet and offer the segments instead: the packet is too long for the rate of its
    /// flow, or follows one that is.
    Segment(H),
}

/// Counts of a driver since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets returned for segmentation.
    pub segmented: u64,
    /// Turns of the loop.
    pub turns: u64,
}

/// The state of a data path's loop. See the [module](self).
pub struct Driver<H: Send> {
    engine: Engine<H>,
    params: Params,
    counters: Counters,
    /// Flows of which a superpacket was segmented elsewhere.
    diverted: Diversions,
    bypassed: bool,
    /// The latest time of a call.
    now: Instant,
    /// When the link will have transmitted the packet that it is transmitting.
    link_free: Instant,
    last_release: Instant,
    /// When the turn began.
    turn_began: Instant,
    turns: Turns,
    /// Whether the engine was called since watched flows were last polled.
    dirty: bool,
}

impl<H: Copy + Send + 'static> Driver<H> {
    /// Makes a driver of `engine` whose time begins at `now`.
    pub fn new(engine: Engine<H>, params: Params, now: Instant) -> Self {
        Self {
            engine,
            params,
            counters: Counters::default(),
            diverted: Diversions::default(),
            bypassed: false,
            now,
            link_free: now,
            last_release: Instant::ZERO,
            turn_began: Instant::ZERO,
            turns: Turns::new(params.rest),
            dirty: false,
        }
    }
    /// Returns the engine.
    pub fn engine(&self) -> &Engine<H> {
        &self.engine
    }
    /// Returns the engine for a change between two packets. Watched flows are polled soon after.
    pub fn engine_mut(&mut self) -> &mut Engine<H> {
        self.dirty = true;
        &mut self.engine
    }
    /// Returns the counters since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }
    /// The latest time of a call.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Offers a packet to the engine.
    pub fn offer(&mut self, now: Instant, arrival: Arrival<'_, H>, sink: &mut impl Sink<H>) -> Offered<H> {
        let Arrival { handle, meta, bytes, segmented } = arrival;
        self.turns.handle(meta.length);
        self.advance(now, sink);
        if !self.diverted.is_empty() && self.diverted.takes(self.engine.classify(&meta.fields).flow.flow, segmented) {
            self.counters.segmented += 1;
            return Offered::Segment(handle);
        }
        if !bytes.is_empty()
            && let Some(recorder) = self.engine.recorder()
        {
            recorder.packet_bytes(bytes);
        }
        self.dirty = true;
        match self.engine.enqueue(now, handle, meta, &mut self.diverted.watch(sink)) {
            Admission::Consumed => Offered::Consumed,
            Admission::TooLong { handle, flow } => {
                self.counters.segmented += 1;
                if self.params.segmentation == Segmentation::Deferred {
                    self.diverted.begin(flow.flow, self.engine.account.arrivals);
                }
                Offered::Segment(handle)
            }
        }
    }

    /// Has the data path segment a packet although the engine could queue it whole: each segment then comes back with all its
    /// bytes. Later packets of the flow follow it, as after [`Offered::Segment`].
    pub fn divert(&mut self, arrival: &Arrival<'_, H>) -> Offered<H> {
        self.counters.segmented += 1;
        if self.params.segmentation == Segmentation::Deferred {
            let flow = self.engine.classify(&arrival.meta.fields).flow.flow;
            self.diverted.begin(flow, self.engine.account.arrivals);
        }
        Offered::Segment(arrival.handle)
    }

    /// Notes that every packet that was returned for segmentation has been offered again. With [`Segmentation::Deferred`] the data
    /// path calls it when nothing more is to be received.
    pub fn segmentation_done(&mut self) {
        self.diverted.all_came_back(self.engine.admit.packets.len() == 0);
    }

    /// Sends at most one packet that is due at `now`; returns whether one was sent.
    pub fn depart(&mut self, now: Instant, sink: &mut impl Sink<H>) -> bool {
        self.advance(now, sink);
        let before = self.engine.sent().bytes;
        let sent = self.engine.dequeue(now, &mut self.diverted.watch(sink));
        if sent {
            self.dirty = true;
            if let Some(rate) = self.params.link {
                let bytes = Bytes::new(self.engine.sent().bytes.as_u64() - before.as_u64());
                self.link_free = now + rate.time_for_ceil(bytes).unwrap_or(Span::ZERO);
            }
        }
        sent
    }

    /// Sends all packets that are due at `now`; every packet while the driver is bypassed.
    pub fn depart_due(&mut self, now: Instant, sink: &mut impl Sink<H>) {
        self.advance(now, sink);
        if self.bypassed {
            self.engine.release_all(&mut self.diverted.watch(sink));
        }
        while self.due(now).is_some_and(|due| due <= now) {
            // If nothing was sent although something is due, that was a fragment or a drop, and is done.
            if !self.depart(now, sink) && self.due(now) == Some(now) {
                break;
            }
            self.last_release = now;
            self.dirty = true;
        }
    }

    /// Sends each packet that is due before `until` at its own deadline, for virtual time.
    pub fn run_until(&mut self, until: Instant, sink: &mut impl Sink<H>) {
        while let Some(due) = self.next_departure(self.now)
            && due < until
            && self.step(due, sink)
        {}
    }

    /// Sends every packet at its own deadline, for the end of virtual time.
    pub fn run_to_end(&mut self, sink: &mut impl Sink<H>) {
        while let Some(due) = self.next_departure(self.now)
            && self.step(due, sink)
        {}
    }

    /// Makes one departure at `due`; returns whether it had an effect.
    fn step(&mut self, due: Instant, sink: &mut impl Sink<H>) -> bool {
        let dropped = self.engine.dropped();
        self.depart(due, sink) || self.engine.dropped() != dropped || self.next_departure(due) != Some(due)
    }

    /// Sends every packet at once, unshaped, in the order in which the packets would have left.
    pub fn release_all(&mut self, sink: &mut impl Sink<H>) {
        self.engine.release_all(&mut self.diverted.watch(sink));
    }
    /// From now on packets are sent in the turn in which they arrive, unshaped.
    pub fn bypass(&mut self, sink: &mut impl Sink<H>) {
        self.bypassed = true;
        self.release_all(sink);
    }

    /// When [`Driver::depart`] will next have an effect, not before `now` and not before the link is free; `None` if only an
    /// arrival can change that.
    pub fn next_departure(&self, now: Instant) -> Option<Instant> {
        self.due(now).map(|due| due.max(now))
    }
    /// When the loop must wake up if no packet arrives: for departures, a quantum apart, or to poll watched flows.
    pub fn next_wakeup(&self, now: Instant) -> Option<Instant> {
        let departure = self.due(now).map(|due| due.max(self.last_release + self.params.quantum));
        departure.into_iter().chain(self.engine.next_poll()).min()
    }
    fn due(&self, now: Instant) -> Option<Instant> {
        self.engine.deadline(now).instant(now).map(|due| due.max(self.link_free))
    }

    /// Changes how long a busy loop may rest.
    pub fn set_rest(&mut self, rest: Span) {
        self.turns = Turns::new(rest);
    }
    /// Begins a turn of a loop in real time.
    pub fn begin_turn(&mut self, now: Instant) {
        self.counters.turns += 1;
        self.turn_began = now;
    }
    /// Ends a turn: reports changes of watched flows, and lets a recorder write its buffer.
    pub fn end_turn(&mut self, now: Instant, sink: &mut impl Sink<H>) {
        let dirty = std::mem::take(&mut self.dirty);
        if self.engine.next_poll().is_some() {
            if dirty {
                self.engine.mark_dirty(now);
            }
            if self.engine.next_poll().is_some_and(|time| time <= now) {
                self.engine.poll(now, sink);
            }
        }
        if let Some(recorder) = self.engine.recorder() {
            recorder.idle(now);
        }
        self.turns.end(self.turn_began);
    }
    /// Returns how long a loop in real time may wait.
    pub fn wait(&self, now: Instant) -> Wait {
        let until = self.next_wakeup(now);
        let next = match until {
            // A call does not wait for a turn with others.
            Some(until) if self.engine.has_short_queue() => self.turns.next().min(until),
            _ => self.turns.next(),
        };
        Wait { ignore_arrivals_until: (next > now).then_some(next), until: until.map(|until| until.max(next)) }
    }

    fn advance(&mut self, now: Instant, sink: &mut impl Sink<H>) {
        self.now = self.now.max(now);
        sink.set_time(now);
    }
}

/// How long a data path may wait. It waits for an arrival or a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Set while packets arrive so fast that a wake-up for each is not worth its cost: a data path that can do so ignores
    /// arrivals until this time, and then receives them in one group.
    pub ignore_arrivals_until: Option<Instant>,
    /// When to stop waiting; `None` if there is no time limit.
    pub until: Option<Instant>,
}

/// A source of packets with a clock and a sink, shaped by [`run`].
pub trait DataPath {
    /// The data path's own name for a packet that it holds.
    type Handle: Copy + Send + 'static;
    /// The sink for packets that are sent or dropped.
    type Sink: Sink<Self::Handle>;
    /// The failure that ends the loop.
    type Error;

    /// The time. It never decreases.
    fn now(&mut self) -> Instant;
    /// Waits until a packet arrives, a command comes, or the time is over. [`ControlFlow::Break`] ends the loop at once.
    ///
    /// # Errors
    /// If waiting fails; the loop ends.
    fn wait(&mut self, wait: Wait) -> Result<ControlFlow<()>, Self::Error>;
    /// Offers a batch of the packets that have arrived to `driver`, without waiting, and returns how many there were; 0 if
    /// there are no more.
    ///
    /// # Errors
    /// If receiving fails; the loop ends.
    fn receive(&mut self, now: Instant, driver: &mut Driver<Self::Handle>) -> Result<usize, Self::Error>;
    /// Returns the sink of verdicts.
    fn sink(&mut self) -> &mut Self::Sink;
    /// Carries out the verdicts that the sink has collected, if it collects them.
    ///
    /// # Errors
    /// If sending fails; the loop ends.
    fn flush(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
    /// Executes commands between two packets. [`ControlFlow::Break`] ends the loop.
    ///
    /// # Errors
    /// If a command fails in a way that ends the loop.
    fn control(&mut self, _now: Instant, _driver: &mut Driver<Self::Handle>) -> Result<ControlFlow<()>, Self::Error> {
        Ok(ControlFlow::Continue(()))
    }
}

/// Why a loop ended before its data path asked for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure<E> {
    /// The data path failed.
    Path(E),
    /// A discipline panicked, with this message. The driver must not be used again.
    Panicked(String),
}

/// Shapes the packets of `path` until it ends the loop.
///
/// # Errors
/// See [`Failure`]. Packets that are still queued are not sent.
pub fn run<D: DataPath>(driver: &mut Driver<D::Handle>, path: &mut D) -> Result<(), Failure<D::Error>> {
    match guarded(|| turns(driver, path)) {
        Ok(ended) => ended.map_err(Failure::Path),
        Err(text) => Err(Failure::Panicked(text)),
    }
}

fn turns<D: DataPath>(driver: &mut Driver<D::Handle>, path: &mut D) -> Result<(), D::Error> {
    loop {
        let now = path.now();
        if path.wait(driver.wait(now))?.is_break() {
            return Ok(());
        }
        let mut now = path.now();
        driver.begin_turn(now);
        // Receive only a few batches, so that a flood of arrivals does not delay departures.
        for _ in 0..BATCHES {
            if path.receive(now, driver)? == 0 {
                driver.segmentation_done();
                break;
            }
            now = path.now();
        }
        driver.depart_due(now, path.sink());
        path.flush()?;
        if path.control(now, driver)?.is_break() {
            return Ok(());
        }
        driver.end_turn(now, path.sink());
    }
}
