//! [`Shared`]: the sender's side of a connection as its congestion control sees it. quinn calls a [`Controller`], and the end
//! of the connection adds what quinn does not pass on: which packet was sent, the counts of marks, and a pacing rate.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use tidegate_core::{Bytes, Instant, Rate, Span};
use tidegate_sim::TCP_HEADER;
use tidegate_sim::tcp::{
    Ack, CongestionControl, CongestionSignal, Delivery, Departure, EcnCounts, EcnFeedback, LossRecovery, LostSegment,
};

use crate::Clock;

/// A packet in flight. Those of the handshake are not counted: quinn forgets them with their keys, and tells nobody.
#[derive(Clone, Copy)]
struct Sent {
    departure: Departure,
    /// Its first byte, where all bytes that were sent are counted.
    start: u64,
    size: u64,
    state: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    InFlight,
    Acknowledged,
    Lost,
}

/// A control of the simulator, and what it needs to know of the connection.
pub(crate) struct Own {
    control: Box<dyn CongestionControl>,
    clock: Clock,
    /// Whether the control reads the counts of marks itself, as Prague does.
    reads_counts: bool,
    window: VecDeque<Sent>,
    in_flight: u64,
    sent: u64,
    delivery: Delivery,
    /// When the newest packet was sent of the acknowledgements that are being processed.
    newest: Option<Instant>,
    srtt: Option<Span>,
    min_rtt: Span,
    /// Congestion that is signalled of packets sent until then belongs to the response that was made.
    recovery_start: Option<Instant>,
    in_recovery: bool,
    /// The counts of the peer, each packet as a full datagram.
    pub counts: EcnCounts,
    /// When pacing allows the next datagram.
    pace_at: Instant,
    /// Whether it is too early for that.
    pub held: bool,
}

impl Own {
    pub fn new(control: Box<dyn CongestionControl>, reads_counts: bool, clock: Clock) -> Self {
        Self {
            control,
            clock,
            reads_counts,
            window: VecDeque::new(),
            in_flight: 0,
            sent: 0,
            delivery: Delivery::default(),
            newest: None,
            srtt: None,
            min_rtt: Span::MAX,
            recovery_start: None,
            in_recovery: false,
            counts: EcnCounts::default(),
            pace_at: Instant::ZERO,
            held: false,
        }
    }

    /// Handles the end of the handshake. With `marks` both ends use ECN.
    pub fn on_established(&mut self, now: Instant, rtt: Span, marks: bool) {
        if marks {
            self.control.on_ecn_feedback(EcnFeedback::Accurate);
        }
        self.control.on_established(now, Some(rtt));
    }
    /// When the next datagram may be sent.
    pub fn paced_until(&self) -> Instant {
        self.pace_at
    }
    pub fn pacing(&self) -> Option<Rate> {
        self.control.pacing()
    }
    pub fn min_rtt(&self) -> Option<Span> {
        (self.min_rtt != Span::MAX).then_some(self.min_rtt)
    }
    pub fn ssthresh(&self) -> u64 {
        self.control.ssthresh()
    }
    /// The phase of the control.
    pub fn phase(&self) -> &'static str {
        self.control.phase().unwrap_or_else(|| self.control.usual_phase())
    }
    pub fn cwnd(&self) -> u64 {
        self.control.cwnd()
    }

    /// Records a packet with frames that are acknowledged. `app_limited`: the application had no more data.
    pub fn on_sent(&mut self, now: Instant, size: u64, app_limited: bool) {
        if app_limited {
            self.delivery.limited_by_application(self.in_flight + size);
        }
        if self.in_flight == 0 && self.sent > 0 {
            self.control.on_restart(now, self.delivery.is_limited_by_application());
        }
        let departure = self.delivery.on_send(now, self.in_flight);
        self.in_flight += size;
        let departure = departure.with_in_flight(self.in_flight);
        self.window.push_back(Sent { departure, start: self.sent, size, state: Fate::InFlight });
        self.sent += size;
        if let Some(rate) = self.control.pacing()
            // A pacing rate includes the headers of TCP.
            && let Some(gap) = rate.time_for_ceil(Bytes::new(size + u64::from(TCP_HEADER)))
        {
            self.pace_at = self.pace_at.max(now) + gap;
        }
    }

    /// quinn tells of an acknowledged packet when it was sent and how large it is.
    fn on_acked(&mut self, now: Instant, sent: Instant, size: u64) {
        let first = self.window.partition_point(|other| other.departure.at < sent);
        let mut together = (first..self.window.len()).take_while(|at| self.window[*at].departure.at == sent);
        let found = together.find(|at| {
            let other = &self.window[*at];
            other.size == size && other.state == Fate::InFlight
        });
        // Packets of the handshake are not in the list.
        let Some(found) = found else { return };
        self.window[found].state = Fate::Acknowledged;
        let packet = self.window[found];
        self.in_flight -= packet.size;
        self.delivery.on_delivered(now, &packet.departure, packet.size, false);
        self.newest = self.newest.max(Some(packet.departure.at));
        self.forget();
    }

    /// Drops packets from the list whose fate is known.
    fn forget(&mut self) {
        while self.window.front().is_some_and(|front| front.state != Fate::InFlight) {
            self.window.pop_front();
        }
    }

    fn on_end_acks(&mut self, now: Instant, app_limited: bool) {
        let Some(newest) = self.newest.take() else { return };
        let rtt = now.since(newest);
        self.min_rtt = self.min_rtt.min(rtt);
        if self.in_recovery && self.recovery_start.is_some_and(|start| newest > start) {
            self.in_recovery = false;
            self.control.on_recovery_end();
        }
        let Some(sample) = self.delivery.sample(self.in_flight, self.min_rtt) else { return };
        let acked = sample.newly_acked;
        self.control.on_sample(now, &sample);
        if self.control.limits_samples() {
            self.delivery.limited_by_application(self.in_flight);
        }
        self.control.on_ack(&Ack {
            now,
            acked,
            flight_size: self.in_flight + acked,
            cwnd_limited: !app_limited,
            rtt: Some(rtt),
            srtt: self.srtt,
            delivered: self.delivery.delivered(),
            recovery: if self.in_recovery { LossRecovery::Fast } else { LossRecovery::None },
            una: self.window.front().map_or(self.sent, |front| front.start),
            nxt: self.sent,
            ecn: self.counts,
        });
    }

    /// Responds to lost packets, or without `lost` bytes to marks. `sent` is when the newest of them was sent.
    fn on_congestion(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        let flight = self.in_flight;
        let mut rest = lost;
        for number in 0..self.window.len() {
            let packet = &mut self.window[number];
            if rest == 0 || packet.departure.at > sent {
                break;
            }
            if packet.state != Fate::InFlight {
                continue;
            }
            packet.state = Fate::Lost;
            let packet = *packet;
            rest = rest.saturating_sub(packet.size);
            self.in_flight -= packet.size;
            let Sent { departure, start, size, .. } = packet;
            let lost = self.delivery.on_lost(&departure, size);
            let Departure { tx_in_flight, app_limited, .. } = departure;
            self.control.on_lost(now, &LostSegment { start, size, tx_in_flight, lost, app_limited });
        }
        self.forget();
        if persistent {
            (self.recovery_start, self.in_recovery) = (None, false);
            self.control.on_timeout(now, flight, true);
        } else if self.recovery_start.is_none_or(|start| sent > start) && !(lost == 0 && self.reads_counts) {
            let signal = if lost == 0 { CongestionSignal::Ecn } else { CongestionSignal::Loss };
            // A reduction for marks is none for a loss: growth goes on afterwards (RFC 3168, section 6.1.2).
            (self.recovery_start, self.in_recovery) = (Some(now), lost > 0);
            self.control.on_congestion(now, flight.min(self.control.cwnd()), signal);
        }
    }
}

/// The control of a connection.
pub(crate) enum Inner {
    Quinn(Box<dyn Controller>),
    Own(Box<Own>),
}

/// The packets in flight, for each packet number space by number. quinn tells how many bytes were lost and not of which packets: but
/// it declares a packet lost only after all that were sent before it in its space and are still in flight.
#[derive(Default)]
pub(crate) struct InFlight {
    spaces: [BTreeMap<u64, (Instant, u64)>; 3],
    /// The packets that the last acknowledgement or timer showed to be lost, by space and number.
    pub lost: Vec<(usize, u64)>,
}

impl InFlight {
    pub fn on_sent(&mut self, now: Instant, space: usize, number: u64, size: u64) {
        self.spaces[space].insert(number, (now, size));
    }
    /// The peer acknowledges packets from `low` to `high`.
    pub fn on_acked(&mut self, space: usize, low: u64, high: u64) {
        let packets = &mut self.spaces[space];
        while let Some((&number, _)) = packets.range(low..=high).next() {
            packets.remove(&number);
        }
    }
    /// Counts the oldest packets of a space that were sent by `newest` and have together at most `bytes`; returns also how many bytes they
    /// have.
    fn oldest(&self, space: usize, newest: Instant, bytes: u64) -> (usize, u64) {
        let mut sum = 0;
        let lost = self.spaces[space].values().take_while(|(sent, size)| {
            let within = *sent <= newest && sum + size <= bytes;
            sum += if within { *size } else { 0 };
            within
        });
        (lost.count(), sum)
    }
    /// quinn declares `bytes` of one space lost, the last of which were sent at `newest`.
    fn on_lost(&mut self, newest: Instant, bytes: u64) {
        // Data first: packets of the handshake stay here when quinn forgets them with their keys.
        let found = [2, 1, 0].map(|space| (space, self.oldest(space, newest, bytes)));
        let (space, (count, _)) = *found.iter().find(|(_, (_, sum))| *sum == bytes).unwrap_or(&found[0]);
        let lost = std::iter::from_fn(|| self.spaces[space].pop_first()).take(count);
        self.lost.extend(lost.map(|(number, _)| (space, number)));
    }
}

/// The sender's side of a connection, which its end and quinn's controller hold.
pub(crate) struct Sender {
    pub inner: Inner,
    pub packets: InFlight,
    clock: Clock,
    /// Bytes in flight, as quinn counts them.
    pub in_flight: u64,
    initial_window: u64,
}

#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<Sender>>);

impl Shared {
    pub fn new(inner: Inner, clock: Clock) -> Self {
        let initial_window = match &inner {
            Inner::Quinn(control) => control.initial_window(),
            Inner::Own(own) => own.cwnd(),
        };
        Self(Arc::new(Mutex::new(Sender { inner, packets: InFlight::default(), clock, in_flight: 0, initial_window })))
    }
    pub fn lock(&self) -> MutexGuard<'_, Sender> {
        // One thread runs a simulation.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ControllerFactory for Shared {
    fn build(self: Arc<Self>, _: std::time::Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Self::clone(&self))
    }
}

impl Controller for Shared {
    fn on_sent(&mut self, now: std::time::Instant, bytes: u64, last_packet_number: u64) {
        if let Inner::Quinn(control) = &mut self.lock().inner {
            control.on_sent(now, bytes, last_packet_number);
        }
    }
    fn on_ack(
        &mut self,
        now: std::time::Instant,
        sent: std::time::Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        match &mut self.lock().inner {
            Inner::Quinn(control) => control.on_ack(now, sent, bytes, app_limited, rtt),
            Inner::Own(own) => {
                own.srtt = Some(span(rtt.get()));
                let (now, sent) = (own.clock.back(now), own.clock.back(sent));
                own.on_acked(now, sent, bytes);
            }
        }
    }
    fn on_end_acks(&mut self, now: std::time::Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        let mut sender = self.lock();
        sender.in_flight = in_flight;
        match &mut sender.inner {
            Inner::Quinn(control) => control.on_end_acks(now, in_flight, app_limited, largest),
            Inner::Own(own) => own.on_end_acks(own.clock.back(now), app_limited),
        }
    }
    fn on_congestion_event(
        &mut self,
        now: std::time::Instant,
        sent: std::time::Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let mut sender = self.lock();
        sender.in_flight = sender.in_flight.saturating_sub(lost_bytes);
        // Without bytes it is about marks.
        if lost_bytes > 0 {
            let newest = sender.clock.back(sent);
            sender.packets.on_lost(newest, lost_bytes);
        }
        match &mut sender.inner {
            Inner::Quinn(control) => control.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes),
            Inner::Own(own) => {
                let (now, sent) = (own.clock.back(now), own.clock.back(sent));
                own.on_congestion(now, sent, is_persistent_congestion, lost_bytes);
            }
        }
    }
    fn on_mtu_update(&mut self, new_mtu: u16) {
        if let Inner::Quinn(control) = &mut self.lock().inner {
            control.on_mtu_update(new_mtu);
        }
    }
    /// quinn has no pacing rate of its controls. While pacing holds a datagram back there is no window, which acknowledgements
    /// do not need. quinn sends while what is in flight with the next datagram is less than the window, and the simulator's controls let it
    /// be as much (RFC 9002, section 7): with a window of whole datagrams the difference is one.
    fn window(&self) -> u64 {
        match &self.lock().inner {
            Inner::Quinn(control) => control.window(),
            Inner::Own(own) if own.held => 0,
            Inner::Own(own) => own.cwnd().saturating_add(1),
        }
    }
    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        match &self.lock().inner {
            Inner::Quinn(control) => return control.metrics(),
            Inner::Own(own) => {
                metrics.congestion_window = own.cwnd();
                metrics.ssthresh = Some(own.ssthresh()).filter(|ssthresh| *ssthresh < u64::MAX);
                metrics.pacing_rate = own.pacing().map(Rate::as_bps);
            }
        }
        metrics
    }
    /// The path of a connection never changes here, so that there is one state.
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
    fn initial_window(&self) -> u64 {
        self.lock().initial_window
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

pub(crate) fn span(duration: Duration) -> Span {
    Span::from_nanos(duration.as_nanos() as u64)
}
