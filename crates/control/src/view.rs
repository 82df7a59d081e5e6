//! The quantities that can be shown of classes, flows and hosts.
//!
//! `status`, `top`, reports, the web page and the metrics choose among them and format them. A quantity that has to be
//! derived from others, such as the drops of all reasons together, is derived here and nowhere else.

use std::borrow::Cow;

use tidegate_units::{Bytes, Rate, Span};

use crate::answer::{Grade, TrafficAnswer};
use crate::calls::{
    ClassObservation, ClassStatus, CoupledQueue, CoupledQueues, DirectionObservation, DropCount, FlowObservation,
    FlowSort, FollowStatus, HeldBy, HostDirection, HostObservation, Observation, Status, arrives,
};

/// A quantity with its unit. Counts grow for as long as the daemon runs; all others can fall.
#[derive(Clone, PartialEq, Debug)]
pub enum Value<'a> {
    /// A name.
    Text(Cow<'a, str>),
    /// A rate, where it is known.
    Rate(Option<Rate>),
    /// A number of things that are present, where it is known.
    Number(Option<u64>),
    /// Bytes that are queued.
    Backlog(Bytes),
    /// A wait.
    Wait(Span),
    /// A fraction, from 0 to 1; none where there is nothing to divide.
    Part(Option<f64>),
    /// A count of packets.
    Packets(u64),
    /// A count of bytes.
    Bytes(Bytes),
    /// The seconds in which a promise was kept and missed.
    Promise(Promise),
    /// How well an application works, where the kind of its traffic is known.
    Grade(Option<Grade>),
}

/// The seconds in which a class or a flow offered what it is promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Promise {
    /// Seconds in which it was served it.
    pub kept: u64,
    /// Seconds in which it was not.
    pub missed: u64,
}

/// Something with quantities `Q` to show.
pub trait Shown<Q> {
    /// Returns the value of a quantity.
    fn value(&self, quantity: Q) -> Value<'_>;
}

/// The quantities of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClassQuantity {
    /// Its name.
    Name,
    /// The rate at which its packets are sent.
    Rate,
    /// The rate that the configuration promises to it.
    Promised,
    /// The ceiling that the configuration sets for it.
    AtMost,
    /// The ceiling of each of its hosts.
    HostAtMost,
    /// The ceiling of each of its flows.
    FlowAtMost,
    /// The rate that could still be promised to its flows.
    Unpromised,
    /// The part of its rate that it borrows from other classes.
    Borrowed,
    /// Flows present.
    Flows,
    /// Packets queued.
    QueuePackets,
    /// Bytes queued.
    Queue,
    /// The ceiling that its packets wait for.
    HeldBy,
    /// The median wait.
    WaitP50,
    /// The 90th percentile of the waits.
    WaitP90,
    /// The 99th percentile of the waits.
    WaitP99,
    /// The variation of the wait from packet to packet of a flow.
    Jitter,
    /// Packets that the rules put into it.
    EnqueuedPackets,
    /// Their bytes.
    EnqueuedBytes,
    /// Packets sent through it.
    SentPackets,
    /// Their bytes.
    SentBytes,
    /// Bytes sent on borrowed rate.
    BorrowedBytes,
    /// Packets dropped, for all reasons together.
    Dropped,
    /// Packets marked congestion experienced.
    Marked,
    /// Packets sent with another code point than they arrived with.
    Remarked,
    /// QUIC datagrams into which a rate was written as advice.
    Advised,
    /// Whether its rate was kept.
    Promise,
}

impl Shown<ClassQuantity> for ClassObservation {
    fn value(&self, quantity: ClassQuantity) -> Value<'_> {
        use ClassQuantity as Q;
        match quantity {
            Q::Name => Value::Text(self.name.as_str().into()),
            Q::Rate => Value::Rate(Some(self.rate)),
            Q::Promised => Value::Rate(self.promised),
            Q::AtMost => Value::Rate(self.ceilings.class),
            Q::HostAtMost => Value::Rate(self.ceilings.host),
            Q::FlowAtMost => Value::Rate(self.ceilings.flow),
            Q::Unpromised => Value::Rate(self.unpromised),
            Q::Borrowed => Value::Rate(Some(self.borrowed)),
            Q::Flows => Value::Number(self.flows),
            Q::QueuePackets => Value::Number(Some(self.queue.packets)),
            Q::Queue => Value::Backlog(self.queue.bytes),
            Q::HeldBy => held_by(self.held_by),
            Q::WaitP50 => Value::Wait(self.wait.p50),
            Q::WaitP90 => Value::Wait(self.wait.p90),
            Q::WaitP99 => Value::Wait(self.wait.p99),
            Q::Jitter => Value::Wait(self.wait.jitter),
            Q::EnqueuedPackets => Value::Packets(self.enqueued_packets),
            Q::EnqueuedBytes => Value::Bytes(self.enqueued_bytes),
            Q::SentPackets => Value::Packets(self.sent_packets),
            Q::SentBytes => Value::Bytes(self.sent_bytes),
            Q::BorrowedBytes => Value::Bytes(self.borrowed_bytes),
            Q::Dropped => Value::Packets(self.dropped_packets()),
            Q::Marked => Value::Packets(self.marked_packets),
            Q::Remarked => Value::Packets(self.remarked_packets),
            Q::Advised => Value::Packets(self.advised_packets),
            Q::Promise => Value::Promise(self.promise()),
        }
    }
}

/// The reply of `status` has counts and waits since the start, and no rates.
impl Shown<ClassQuantity> for ClassStatus {
    fn value(&self, quantity: ClassQuantity) -> Value<'_> {
        use ClassQuantity as Q;
        match quantity {
            Q::Name => Value::Text(self.name.as_str().into()),
            Q::Promised => Value::Rate(self.rate),
            Q::AtMost => Value::Rate(self.ceilings.class),
            Q::HostAtMost => Value::Rate(self.ceilings.host),
            Q::FlowAtMost => Value::Rate(self.ceilings.flow),
            Q::Unpromised => Value::Rate(self.unpromised),
            Q::Flows => Value::Number(self.flows),
            Q::QueuePackets => Value::Number(Some(self.queue.packets)),
            Q::Queue => Value::Backlog(self.queue.bytes),
            Q::HeldBy => held_by(self.held_by),
            Q::WaitP50 => Value::Wait(self.wait_p50),
            Q::WaitP99 => Value::Wait(self.wait_p99),
            Q::EnqueuedPackets => Value::Packets(self.enqueued_packets),
            Q::EnqueuedBytes => Value::Bytes(self.enqueued_bytes),
            Q::SentPackets => Value::Packets(self.through_packets),
            Q::SentBytes => Value::Bytes(self.through_bytes),
            Q::Dropped => Value::Packets(packets(&self.dropped)),
            Q::Marked => Value::Packets(self.marked_packets),
            Q::Remarked => Value::Packets(self.remarked_packets),
            Q::Advised => Value::Packets(self.advised_packets),
            Q::Rate | Q::Borrowed | Q::WaitP90 | Q::Jitter | Q::BorrowedBytes | Q::Promise => Value::Number(None),
        }
    }
}

/// The quantities of one of the coupled queues of DualPI2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoupledQuantity {
    /// The name of its class.
    Class,
    /// Its own name.
    Queue,
    /// Packets queued.
    QueuePackets,
    /// Bytes queued.
    QueueBytes,
    /// The wait of the oldest packet.
    Delay,
    /// The mean wait.
    Wait,
    /// Packets that were put into it.
    EnqueuedPackets,
    /// Packets sent.
    SentPackets,
    /// Packets marked congestion experienced.
    Marked,
    /// Packets dropped by a probability.
    Dropped,
    /// The probability of its control law.
    Probability,
}

/// One of the coupled queues of a class.
#[derive(Clone, Copy, Debug)]
pub struct CoupledRow<'a> {
    /// The name of the class.
    pub class: &'a str,
    /// The name of the queue.
    pub name: &'static str,
    /// The queue.
    pub queue: CoupledQueue,
    /// The probability of its control law, in millionths; none for packets under sanction, which have that of their own kind.
    pub ppm: Option<u64>,
}

impl<'a> CoupledRow<'a> {
    /// Returns a row for each queue of `class`.
    pub fn of(class: &'a str, queues: &CoupledQueues) -> [Self; 3] {
        queues.each().map(|(name, queue, ppm)| Self { class, name, queue, ppm })
    }
}

impl Shown<CoupledQuantity> for CoupledRow<'_> {
    fn value(&self, quantity: CoupledQuantity) -> Value<'_> {
        use CoupledQuantity as Q;
        match quantity {
            Q::Class => Value::Text(self.class.into()),
            Q::Queue => Value::Text(self.name.into()),
            Q::QueuePackets => Value::Number(Some(self.queue.queue.packets)),
            Q::QueueBytes => Value::Backlog(self.queue.queue.bytes),
            Q::Delay => Value::Wait(self.queue.delay),
            Q::Wait => Value::Wait(self.queue.wait),
            Q::EnqueuedPackets => Value::Packets(self.queue.enqueued_packets),
            Q::SentPackets => Value::Packets(self.queue.sent_packets),
            Q::Marked => Value::Packets(self.queue.marked_packets),
            Q::Dropped => Value::Packets(self.queue.dropped_packets),
            Q::Probability => Value::Part(self.ppm.map(|ppm| ppm as f64 / 1e6)),
        }
    }
}

/// The quantities of a kind of traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrafficQuantity {
    /// Its name for people.
    Name,
    /// How well it works.
    Grade,
    /// The wait that the grade is derived from.
    Wait,
    /// The variation of the wait from packet to packet of a flow.
    Jitter,
    /// The part of its packets that was dropped lately.
    Lost,
    /// The rate at which its packets are sent.
    Rate,
    /// Its flows, where flows are counted.
    Flows,
}

impl Shown<TrafficQuantity> for TrafficAnswer {
    fn value(&self, quantity: TrafficQuantity) -> Value<'_> {
        use TrafficQuantity as Q;
        match quantity {
            Q::Name => Value::Text(self.traffic.name().into()),
            Q::Grade => Value::Grade(self.grade),
            Q::Wait => Value::Wait(self.evidence.wait),
            Q::Jitter => Value::Wait(self.evidence.jitter),
            Q::Lost => Value::Part(Some(self.evidence.lost_ppm as f64 / 1e6)),
            Q::Rate => Value::Rate(Some(self.rate)),
            Q::Flows => Value::Number(Some(self.flows)),
        }
    }
}

/// The quantities of a rate that follows the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FollowQuantity {
    /// The allowed rate.
    Allowed,
    /// The rate that was carried lately.
    Achieved,
    /// The delay of the line's queue.
    Delay,
    /// The cause of the last change.
    Cause,
    /// The number of peers that have answered lately.
    Peers,
    /// The number of changes.
    Changes,
    /// The number of probes sent.
    Probes,
}

impl Shown<FollowQuantity> for FollowStatus {
    fn value(&self, quantity: FollowQuantity) -> Value<'_> {
        use FollowQuantity as Q;
        match quantity {
            Q::Allowed => Value::Rate(Some(self.allowed)),
            Q::Achieved => Value::Rate(Some(self.achieved)),
            Q::Delay => self.delay.map_or(Value::Number(None), Value::Wait),
            Q::Cause => Value::Text(self.cause.as_str().into()),
            Q::Peers => Value::Number(Some(self.peers)),
            Q::Changes => Value::Packets(self.changes),
            Q::Probes => Value::Packets(self.probes),
        }
    }
}

fn held_by(ceiling: Option<HeldBy>) -> Value<'static> {
    Value::Text(ceiling.map_or("-", HeldBy::key).into())
}

fn packets(drops: &[DropCount]) -> u64 {
    drops.iter().map(|count| count.packets).sum()
}

impl ClassObservation {
    /// Returns the packets dropped for all reasons.
    pub fn dropped_packets(&self) -> u64 {
        packets(&self.dropped)
    }
    /// Returns whether its rate was kept.
    pub fn promise(&self) -> Promise {
        Promise { kept: self.promise_kept_seconds, missed: self.promise_missed_seconds }
    }
}

/// The quantities of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowQuantity {
    /// The class that the rules chose, and the one that it is displaced to.
    Class,
    /// The rule that it matched.
    Rule,
    /// The rate at which it is sent.
    Rate,
    /// Its share if every flow offered what it is promised.
    Share,
    /// Its minimum rate.
    Minimum,
    /// Bytes queued.
    Queue,
    /// The ceiling that its next packet waits for.
    HeldBy,
    /// The median wait.
    WaitP50,
    /// The 90th percentile of the waits.
    WaitP90,
    /// The 99th percentile of the waits.
    WaitP99,
    /// The variation of the wait from packet to packet.
    Jitter,
    /// The part of its bytes that was sent on borrowed rate.
    Borrowed,
    /// Packets sent.
    SentPackets,
    /// Bytes sent.
    SentBytes,
    /// Packets dropped, for all reasons together.
    Dropped,
    /// Packets marked congestion experienced.
    Marked,
    /// Whether its minimum was kept.
    Promise,
}

impl Shown<FlowQuantity> for FlowObservation {
    fn value(&self, quantity: FlowQuantity) -> Value<'_> {
        use FlowQuantity as Q;
        match quantity {
            Q::Class => Value::Text(match &self.through {
                Some(through) => format!("{}>{through}", self.class).into(),
                None => self.class.as_str().into(),
            }),
            Q::Rule => Value::Text(self.rule.as_deref().unwrap_or("-").into()),
            Q::Rate => Value::Rate(Some(self.rate)),
            Q::Share => Value::Rate(self.share),
            Q::Minimum => Value::Rate(self.minimum),
            Q::Queue => Value::Backlog(self.queue.bytes),
            Q::HeldBy => held_by(self.held_by),
            Q::WaitP50 => Value::Wait(self.wait.p50),
            Q::WaitP90 => Value::Wait(self.wait.p90),
            Q::WaitP99 => Value::Wait(self.wait.p99),
            Q::Jitter => Value::Wait(self.wait.jitter),
            Q::Borrowed => {
                let part = self.borrowed_bytes.as_u64() as f64 / self.sent_bytes.as_u64().max(1) as f64;
                Value::Part((self.borrowed_bytes > Bytes::ZERO).then_some(part.min(1.0)))
            }
            Q::SentPackets => Value::Packets(self.sent_packets),
            Q::SentBytes => Value::Bytes(self.sent_bytes),
            Q::Dropped => Value::Packets(self.dropped_packets()),
            Q::Marked => Value::Packets(self.marked_packets),
            Q::Promise => Value::Promise(self.promise()),
        }
    }
}

impl FlowObservation {
    /// Returns the packets dropped for all reasons.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped.iter().map(|count| count.packets).sum()
    }
    /// Returns whether its minimum was kept.
    pub fn promise(&self) -> Promise {
        Promise { kept: self.promise_kept_seconds, missed: self.promise_missed_seconds }
    }
    /// Returns whether it neither sends nor has a queue.
    pub fn is_idle(&self) -> bool {
        self.rate.is_zero() && self.queue.packets == 0
    }
    /// Returns the class through which it leaves: its own, or that to which it is displaced.
    pub fn leaves_through(&self) -> &str {
        self.through.as_ref().unwrap_or(&self.class)
    }
    /// Returns whether it sent something in the last three seconds, so that its waits say how it is served now.
    pub fn is_active(&self) -> bool {
        self.idle < Span::from_secs(3)
    }
}

impl HostObservation {
    /// Returns both of its directions together.
    pub fn both(&self) -> HostDirection {
        let (up, down) = (&self.up, &self.down);
        HostDirection {
            rate: Rate::from_bps(up.rate.as_bps().saturating_add(down.rate.as_bps())),
            share: None,
            flows: up.flows + down.flows,
            queue_bytes: up.queue_bytes + down.queue_bytes,
            wait_p99: up.wait_p99.max(down.wait_p99),
            sent_bytes: up.sent_bytes + down.sent_bytes,
            dropped_packets: up.dropped_packets + down.dropped_packets,
        }
    }
    /// Returns whether it neither sends nor receives, and has no queue.
    pub fn is_idle(&self) -> bool {
        let both = self.both();
        both.rate.is_zero() && both.queue_bytes == Bytes::ZERO
    }
}

impl DirectionObservation {
    /// Returns the first `most` of the flows that are `wanted`, in the order of `sort`.
    pub fn top_flows(
        &self,
        sort: FlowSort,
        most: usize,
        wanted: impl Fn(&FlowObservation) -> bool,
    ) -> Vec<&FlowObservation> {
        let mut flows: Vec<&FlowObservation> = self.flows.iter().filter(|flow| wanted(flow)).collect();
        sort.sort(&mut flows);
        flows.truncate(most);
        flows
    }
    /// Returns the part of the limit that is used.
    pub fn used_part(&self) -> Option<f64> {
        self.limit.map(|limit| part(self.line.used, limit))
    }
    /// Returns the part of the used rate that the line adds to packets; none where it adds nothing.
    pub fn overhead_part(&self) -> Option<f64> {
        (!self.line.overhead.is_zero()).then(|| part(self.line.overhead, self.line.used))
    }
}

fn part(rate: Rate, whole: Rate) -> f64 {
    rate.as_bps() as f64 / whole.as_bps().max(1) as f64
}

impl Observation {
    /// Returns the direction of this name.
    pub fn direction(&self, name: &str) -> Option<&DirectionObservation> {
        self.directions.iter().find(|direction| direction.name == name)
    }
    /// Returns the limit of all that goes up, and of all that comes down, where they are known.
    pub fn limits(&self) -> [Option<Rate>; 2] {
        [false, true].map(|down| {
            let mut limits =
                self.directions.iter().filter(|one| arrives(&one.name) == down).map(|one| one.limit).peekable();
            limits.peek()?;
            limits.sum::<Option<Rate>>()
        })
    }
    /// Returns whether several hosts are behind this machine. One machine often has several addresses of IPv6.
    pub fn is_gateway(&self) -> bool {
        self.hosts.iter().filter(|host| host.address.is_ipv4()).count() > 1
    }
}

/// How far shaping is in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShapingState {
    /// Packets are shaped.
    InForce,
    /// The rules are in place, and no packet has proven either protocol of some direction yet.
    Unproven,
    /// None of the interfaces is there.
    Waiting,
    /// None of the interfaces that are there is up.
    Down,
    /// Packets pass unshaped.
    NotInForce,
}

impl Status {
    /// Returns how far shaping is in force.
    pub fn state(&self) -> ShapingState {
        let interfaces = || self.directions.iter().flat_map(|direction| &direction.interfaces);
        let is_any = interfaces().next().is_some();
        match self.in_force {
            false => ShapingState::NotInForce,
            true if is_any && interfaces().all(|interface| !interface.present) => ShapingState::Waiting,
            true if is_any && interfaces().all(|interface| !interface.present || interface.down) => ShapingState::Down,
            true if self.directions.iter().any(|direction| direction.unproven.len() > 1) => ShapingState::Unproven,
            true => ShapingState::InForce,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{Ceilings, FlowDrops, Queued};

    #[test]
    fn a_class_has_the_same_quantities_in_both_replies() {
        let drops = vec![
            DropCount { reason: "queue_limit".into(), packets: 3, bytes: Bytes::new(3_000) },
            DropCount { reason: "aqm".into(), packets: 4, bytes: Bytes::new(4_000) },
        ];
        let queue = Queued { packets: 2, bytes: Bytes::new(2_800) };
        let observed = ClassObservation {
            name: "calls".into(),
            promised: Some(Rate::from_mbit(2)),
            ceilings: Ceilings { host: Some(Rate::from_mbit(3)), ..Ceilings::default() },
            sent_packets: 9,
            queue,
            dropped: drops.clone(),
            ..ClassObservation::default()
        };
        let status: ClassStatus = serde_json::from_value(serde_json::json!({
            "name": "calls", "rate_bps": 2_000_000, "host_at_most_bps": 3_000_000, "enqueued_packets": 0, "enqueued_bytes": 0, "through_packets": 9,
            "through_bytes": 0, "queue_packets": 2, "queue_bytes": 2_800, "dropped": drops, "marked_packets": 0,
            "remarked_packets": 0, "wait_p50_ns": 0, "wait_p99_ns": 0,
        }))
        .unwrap();
        use ClassQuantity as Q;
        for quantity in [
            Q::Name,
            Q::Promised,
            Q::AtMost,
            Q::HostAtMost,
            Q::Flows,
            Q::QueuePackets,
            Q::Queue,
            Q::SentPackets,
            Q::Dropped,
            Q::WaitP99,
        ] {
            assert_eq!(observed.value(quantity), status.value(quantity), "{quantity:?}");
        }
        assert_eq!(status.value(Q::Dropped), Value::Packets(7));
        assert_eq!(status.value(Q::Rate), Value::Number(None));
    }

    #[test]
    fn flows_are_chosen_and_sorted() {
        let flow = |key: u8, kbit, queued| FlowObservation {
            flow: crate::calls::Flow { key: key.to_string(), ..Default::default() },
            rate: Rate::from_kbit(kbit),
            queue: Queued { packets: queued, bytes: Bytes::new(queued * 100) },
            dropped: vec![FlowDrops { reason: "aqm".into(), packets: kbit }],
            borrowed_bytes: Bytes::new(kbit),
            sent_bytes: Bytes::new(4 * kbit),
            ..FlowObservation::default()
        };
        let flows = vec![flow(1, 5, 0), flow(2, 0, 0), flow(3, 80, 1), flow(4, 0, 1)];
        let direction = DirectionObservation { flows, ..Default::default() };
        let keys = |most| -> Vec<String> {
            let top = direction.top_flows(FlowSort::Rate, most, |flow| !flow.is_idle());
            top.iter().map(|flow| flow.flow.key.clone()).collect()
        };
        assert_eq!((keys(9), keys(1)), (vec!["3".into(), "1".into(), "4".into()], vec!["3".into()]));
        assert_eq!(direction.flows[0].value(FlowQuantity::Borrowed), Value::Part(Some(0.25)));
        assert_eq!(direction.flows[1].value(FlowQuantity::Borrowed), Value::Part(None));
    }
}
