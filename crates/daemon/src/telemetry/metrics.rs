//! Metrics in the OpenMetrics text format, for Prometheus and compatible collectors.
//!
//! Counters only grow while the daemon runs; collectors derive rates from them. Each set of labels is a time series that a collector keeps
//! for weeks, so that of the hosts only the fastest [`HOSTS`] are exported, and of flows none: their ports would make new series without
//! end. Units are those of Prometheus: seconds and bytes.

mod rules;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tidegate_control::answer::TrafficAnswer;
use tidegate_control::calls::{
    Ceilings, ControlStatus, DirectionObservation, HeldBy, HostDirection, HostObservation, InterfaceObservation,
    Observation, Waits,
};
use tidegate_control::view::{
    ClassQuantity, CoupledQuantity, CoupledRow, FollowQuantity, Promise, Shown, TrafficQuantity, Value,
};
use tidegate_units::{Rate, Span};

/// The content type of [`text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The maximum number of hosts, both directions of each.
pub const HOSTS: usize = 20;

/// Returns an observation as text.
///
/// # Errors
/// None: writing to a string does not fail.
pub fn text(observation: &Arc<Observation>, control: &ControlStatus) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("tidegate");
    registry.register_collector(Box::new(Collected { observation: Arc::clone(observation), control: *control }));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Collected {
    observation: Arc<Observation>,
    control: ControlStatus,
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// The labels of a direction. Its name has the interface in front where a process shapes several.
fn of<'a>(observation: &'a Observation, direction: &'a str) -> Labels<'a> {
    let (interface, direction) = direction.rsplit_once('.').unwrap_or((&observation.interface, direction));
    vec![("interface", interface), ("direction", direction)]
}

/// `labels` and one more.
fn with<'a>(mut labels: Labels<'a>, key: &'static str, value: &'a str) -> Labels<'a> {
    labels.push((key, value));
    labels
}

/// Encodes metric families.
struct Family<'a, 'b> {
    encoder: &'a mut DescriptorEncoder<'b>,
}

impl Family<'_, '_> {
    /// Encodes a family of `kind` with one value for each of `items`.
    fn each<T>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut MetricEncoder<'_>, T) -> fmt::Result,
    ) -> fmt::Result {
        let mut items = items.peekable();
        if items.peek().is_none() {
            return Ok(());
        }
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        for item in items {
            write(&mut family, item)?;
        }
        Ok(())
    }
    fn counters<'a>(&mut self, name: &str, help: &str, items: impl Iterator<Item = (Labels<'a>, u64)>) -> fmt::Result {
        self.each(name, help, MetricType::Counter, items, |family, (labels, value)| {
            if labels.is_empty() {
                return family.encode_counter::<[(&str, &str); 0], u64, u64>(&value, None);
            }
            family.encode_family(&labels)?.encode_counter::<[(&str, &str); 0], u64, u64>(&value, None)
        })
    }
    fn gauges<'a>(&mut self, name: &str, help: &str, items: impl Iterator<Item = (Labels<'a>, f64)>) -> fmt::Result {
        self.each(name, help, MetricType::Gauge, items, |family, (labels, value)| {
            if labels.is_empty() {
                return family.encode_gauge(&value);
            }
            family.encode_family(&labels)?.encode_gauge(&value)
        })
    }
    /// Encodes each of `families`, a name, a help text and a quantity, with a sample for each of `items`.
    fn quantities<'a, Q: Copy, T: Shown<Q> + 'a>(
        &mut self,
        families: &[(&str, &str, Q)],
        items: impl Iterator<Item = (Labels<'a>, &'a T)> + Clone,
    ) -> fmt::Result {
        for &(name, help, quantity) in families {
            let numbers = items.clone().filter_map(|(labels, item)| Some((labels, Number::of(&item.value(quantity))?)));
            let gauges = numbers.clone().filter_map(|(labels, number)| match number {
                Number::Gauge(value) => Some((labels, value)),
                Number::Counter(_) => None,
            });
            let counters = numbers.filter_map(|(labels, number)| match number {
                Number::Counter(value) => Some((labels, value)),
                Number::Gauge(_) => None,
            });
            // A quantity is one or the other for all items.
            self.gauges(name, help, gauges)?;
            self.counters(name, help, counters)?;
        }
        Ok(())
    }
    fn seconds<'a>(&mut self, name: &str, help: &str, items: impl Iterator<Item = (Labels<'a>, Span)>) -> fmt::Result {
        self.each(name, help, MetricType::Counter, items, |family, (labels, value)| {
            let value = value.as_secs_f64();
            family.encode_family(&labels)?.encode_counter::<[(&str, &str); 0], f64, f64>(&value, None)
        })
    }
}

/// The number that a sample has: rates in bytes a second, waits in seconds.
#[derive(Clone, Copy)]
enum Number {
    Gauge(f64),
    Counter(u64),
}

impl Number {
    fn of(value: &Value<'_>) -> Option<Self> {
        match value {
            Value::Rate(rate) => rate.map(bytes_per_second).map(Self::Gauge),
            Value::Number(number) => number.map(|number| Self::Gauge(number as f64)),
            Value::Backlog(bytes) => Some(Self::Gauge(bytes.as_u64() as f64)),
            Value::Wait(wait) => Some(Self::Gauge(wait.as_secs_f64())),
            Value::Part(part) => part.map(Self::Gauge),
            Value::Grade(grade) => grade.map(|grade| Self::Gauge(grade.number().into())),
            Value::Packets(packets) => Some(Self::Counter(*packets)),
            Value::Bytes(bytes) => Some(Self::Counter(bytes.as_u64())),
            Value::Text(_) | Value::Promise(_) => None,
        }
    }
}

fn bytes_per_second(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 8.0
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let observation = &*self.observation;
        let info = [("version", env!("CARGO_PKG_VERSION")), ("interface", observation.interface.as_str())];
        let mut family = encoder.encode_descriptor("build", "What runs, and where", None, MetricType::Info)?;
        family.encode_info(&&info[..])?;
        let mut to = Family { encoder: &mut encoder };
        let one = |value: f64| std::iter::once((Vec::new(), value));
        to.gauges(
            "in_force",
            "Whether shaping is in force: 1, or 0 while traffic passes unshaped",
            one(f64::from(u8::from(observation.in_force))),
        )?;
        to.gauges("uptime_seconds", "Since the start", one(observation.uptime.as_secs_f64()))?;
        lines(&mut to, observation)?;
        traffic(&mut to, observation)?;
        classes(&mut to, observation)?;
        rules::rules(&mut to, observation)?;
        hosts(&mut to, observation)?;
        interfaces(&mut to, observation)?;
        data_path(&mut to, observation)?;
        control(&mut to, &self.control)
    }
}

const CLASSES: [(&str, &str, ClassQuantity); 14] = [
    ("class_promised_bytes_per_second", "What the class is promised", ClassQuantity::Promised),
    (
        "class_unpromised_bytes_per_second",
        "What could still be promised to flows of the class",
        ClassQuantity::Unpromised,
    ),
    ("class_flows", "Flows present", ClassQuantity::Flows),
    ("class_queue_packets", "Packets that wait", ClassQuantity::QueuePackets),
    ("class_queue_bytes", "Bytes that wait", ClassQuantity::Queue),
    (
        "class_jitter_seconds",
        "How much the wait differs from packet to packet of a flow (RFC 3550)",
        ClassQuantity::Jitter,
    ),
    ("class_enqueued_packets", "Packets that the rules put into the class", ClassQuantity::EnqueuedPackets),
    ("class_enqueued_bytes", "Their bytes", ClassQuantity::EnqueuedBytes),
    ("class_sent_packets", "Packets that left through the class", ClassQuantity::SentPackets),
    ("class_sent_bytes", "Their bytes", ClassQuantity::SentBytes),
    ("class_borrowed_bytes", "Bytes that left on rate that other classes did not use", ClassQuantity::BorrowedBytes),
    ("class_marked_packets", "Packets marked congestion experienced", ClassQuantity::Marked),
    (
        "class_remarked_packets",
        "Packets that left with another code point than they came with",
        ClassQuantity::Remarked,
    ),
    ("class_advised_packets", "QUIC datagrams into which a rate was written as advice", ClassQuantity::Advised),
];

/// Each of the coupled queues of DualPI2.
const COUPLED: [(&str, &str, CoupledQuantity); 8] = [
    ("coupled_queue_packets", "Packets that wait", CoupledQuantity::QueuePackets),
    ("coupled_queue_bytes", "Bytes that wait", CoupledQuantity::QueueBytes),
    ("coupled_delay_seconds", "The wait of the oldest packet", CoupledQuantity::Delay),
    ("coupled_enqueued_packets", "Packets that were put into the queue", CoupledQuantity::EnqueuedPackets),
    ("coupled_sent_packets", "Packets that left", CoupledQuantity::SentPackets),
    ("coupled_marked_packets", "Packets marked congestion experienced", CoupledQuantity::Marked),
    ("coupled_dropped_packets", "Packets dropped by a probability", CoupledQuantity::Dropped),
    (
        "coupled_probability_ratio",
        "The coupled probability of the low-latency queue, and that of the classic queue",
        CoupledQuantity::Probability,
    ),
];

/// A rate that follows the line.
const FOLLOW: [(&str, &str, FollowQuantity); 6] = [
    ("follow_allowed_bytes_per_second", "The rate that follows the line", FollowQuantity::Allowed),
    ("follow_achieved_bytes_per_second", "The rate that the line carried lately", FollowQuantity::Achieved),
    ("follow_delay_seconds", "The delay of the queue of the line", FollowQuantity::Delay),
    ("follow_peers", "Peers that have answered within 300 ms", FollowQuantity::Peers),
    ("follow_changes", "Changes of the rate", FollowQuantity::Changes),
    ("follow_probes", "Probes sent", FollowQuantity::Probes),
];

/// How well each kind of traffic works.
const TRAFFIC: [(&str, &str, TrafficQuantity); 6] = [
    (
        "traffic_grade",
        "How well calls, games, web and bulk work, as far as the shaper affects it: 0 poor, 1 fair, 2 good",
        TrafficQuantity::Grade,
    ),
    ("traffic_wait_seconds", "The wait in the shaper that the grade is derived from", TrafficQuantity::Wait),
    ("traffic_jitter_seconds", "The jitter that the grade is derived from (RFC 3550)", TrafficQuantity::Jitter),
    ("traffic_lost_ratio", "The part of the packets that was dropped in the last seconds", TrafficQuantity::Lost),
    ("traffic_bytes_per_second", "The rate of this kind of traffic", TrafficQuantity::Rate),
    ("traffic_flows", "Flows of this kind of traffic", TrafficQuantity::Flows),
];

fn traffic(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    let each = observation.directions.iter().flat_map(|direction| {
        let traffic = direction.answer.iter().flat_map(|answer| &answer.traffic);
        traffic
            .map(move |one: &TrafficAnswer| (with(of(observation, &direction.name), "traffic", one.traffic.key()), one))
    });
    to.quantities(&TRAFFIC, each)
}

fn lines(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    let ways = |value: fn(&DirectionObservation) -> Option<Rate>| {
        let directions = observation.directions.iter();
        directions.filter_map(move |one| Some((of(observation, &one.name), bytes_per_second(value(one)?))))
    };
    to.gauges("limit_bytes_per_second", "The total that is never exceeded", ways(|way| way.limit))?;
    to.gauges(
        "line_bytes_per_second",
        "What the line itself carries, where the configuration states it",
        ways(|way| way.line.carries),
    )?;
    to.gauges(
        "line_used_bytes_per_second",
        "What was sent in the last second, with what the line adds to each packet",
        ways(|way| Some(way.line.used)),
    )?;
    to.gauges(
        "line_overhead_bytes_per_second",
        "The part of it that the line adds",
        ways(|way| Some(way.line.overhead)),
    )?;
    let directions = observation.directions.iter();
    let following = directions.filter_map(|one| Some((of(observation, &one.name), one.follow.as_ref()?)));
    to.quantities(&FOLLOW, following)
}

fn classes(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    let each = || {
        observation.directions.iter().flat_map(|direction| {
            let classes = direction.classes.iter();
            classes.map(move |class| (with(of(observation, &direction.name), "class", &class.name), class))
        })
    };
    to.quantities(&CLASSES, each())?;
    coupled(to, observation)?;
    let drops = || {
        each().flat_map(|(labels, class)| {
            class.dropped.iter().map(move |drops| (with(labels.clone(), "reason", &drops.reason), drops))
        })
    };
    to.counters(
        "class_dropped_packets",
        "Packets that were not delivered, by reason; a reason that was never met is missing",
        drops().map(|(labels, drops)| (labels, drops.packets)),
    )?;
    to.counters("class_dropped_bytes", "Their bytes", drops().map(|(labels, drops)| (labels, drops.bytes.as_u64())))?;
    to.gauges(
        "class_held",
        "Whether all packets of the class that wait do so for this ceiling (1), or not (0)",
        each().flat_map(|(labels, class)| {
            HeldBy::ALL.into_iter().map(move |ceiling| {
                let is_held = class.held_by == Some(ceiling);
                (with(labels.clone(), "ceiling", ceiling.key()), f64::from(u8::from(is_held)))
            })
        }),
    )?;
    to.gauges(
        "class_ceiling_bytes_per_second",
        "The ceiling that the configuration sets for the class, or for each of its hosts or flows",
        each().flat_map(|(labels, class)| {
            let Ceilings { class, host, flow } = class.ceilings;
            let all = [(HeldBy::Class, class), (HeldBy::Host, host), (HeldBy::Flow, flow)];
            all.into_iter().filter_map(move |(ceiling, rate)| {
                Some((with(labels.clone(), "ceiling", ceiling.key()), bytes_per_second(rate?)))
            })
        }),
    )?;
    to.counters(
        "class_promise_seconds",
        "Seconds in which the class asked for what it is promised, and got it (kept) or not (missed)",
        each().flat_map(|(labels, class)| kept(labels, class.promise())),
    )?;
    to.each(
        "class_wait_seconds",
        "How long packets waited",
        MetricType::Histogram,
        each(),
        |family, (labels, class)| {
            let waits = &class.waits;
            // The encoder takes what is in each bucket, and sums up.
            let mut before = 0;
            let mut buckets: Vec<(f64, u64)> = Vec::with_capacity(waits.up_to.len() + 1);
            for (n, &up_to) in waits.up_to.iter().enumerate() {
                buckets.push((Waits::bound(n).as_secs_f64(), up_to - before));
                before = up_to;
            }
            buckets.push((f64::INFINITY, waits.count - before));
            family.encode_family(&labels)?.encode_histogram::<[(&str, &str); 0]>(
                waits.sum.as_secs_f64(),
                waits.count,
                &buckets,
                None,
            )
        },
    )
}

/// The coupled queues of DualPI2, and the flows under sanction.
fn coupled(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    let classes = || {
        observation.directions.iter().flat_map(|direction| {
            direction.classes.iter().filter_map(move |class| {
                Some((with(of(observation, &direction.name), "class", &class.name), class.coupled.as_ref()?))
            })
        })
    };
    let rows: Vec<(Labels<'_>, CoupledRow<'_>)> = classes()
        .flat_map(|(labels, queues)| {
            CoupledRow::of("", queues).map(|row| (with(labels.clone(), "queue", row.name), row))
        })
        .collect();
    to.quantities(&COUPLED, rows.iter().map(|(labels, row)| (labels.clone(), row)))?;
    to.seconds(
        "coupled_wait_seconds",
        "The sum of the waits of the packets that were sent",
        rows.iter().map(|(labels, row)| (labels.clone(), row.queue.waited)),
    )?;
    to.gauges(
        "coupled_sanctioned_flows",
        "Flows that queue protection has under sanction, of those that own a bucket",
        classes().map(|(labels, queues)| (labels, queues.flows.len() as f64)),
    )
}

fn kept(labels: Labels<'_>, promise: Promise) -> [(Labels<'_>, u64); 2] {
    [("kept", promise.kept), ("missed", promise.missed)]
        .map(|(outcome, seconds)| (with(labels.clone(), "outcome", outcome), seconds))
}

/// The fastest hosts that send, receive or wait, each direction with its labels.
fn hosts(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    let active = observation.hosts.iter().filter(|host| !host.is_idle());
    let top: Vec<(String, &HostObservation)> =
        active.take(HOSTS).map(|host| (host.address.to_string(), host)).collect();
    let each = || {
        top.iter().flat_map(|(address, host)| {
            [("up", &host.up), ("down", &host.down)].map(|(direction, way)| {
                let name = host.name.as_deref().unwrap_or("");
                let labels: Labels<'_> = vec![("direction", direction), ("host", address), ("name", name)];
                (labels, way)
            })
        })
    };
    let gauge =
        |value: fn(&HostDirection) -> Option<f64>| each().filter_map(move |(labels, way)| Some((labels, value(way)?)));
    to.gauges("host_flows", "Flows that are remembered", gauge(|way| Some(way.flows as f64)))?;
    to.gauges("host_queue_bytes", "Bytes that wait", gauge(|way| Some(way.queue_bytes.as_u64() as f64)))?;
    to.gauges(
        "host_share_bytes_per_second",
        "What the flows of the host would get if everybody asked for what they are promised",
        gauge(|way| way.share.map(bytes_per_second)),
    )?;
    to.gauges(
        "host_wait_p99_seconds",
        "The longest of the waits that 99 of 100 packets of a flow did not exceed",
        gauge(|way| Some(way.wait_p99.as_secs_f64())),
    )?;
    to.counters(
        "host_sent_bytes",
        "Bytes that left, of the fastest hosts",
        each().map(|(labels, way)| (labels, way.sent_bytes.as_u64())),
    )?;
    to.counters(
        "host_dropped_packets",
        "Packets that were not delivered",
        each().map(|(labels, way)| (labels, way.dropped_packets)),
    )
}

fn interfaces(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    let each = |value: fn(&InterfaceObservation) -> u64| {
        observation.directions.iter().flat_map(move |direction| {
            direction.interfaces.iter().map(move |interface| {
                let mut labels = of(observation, &direction.name);
                labels[0].1 = &interface.counts.name;
                (labels, value(interface))
            })
        })
    };
    to.gauges(
        "interface_present",
        "Whether the interface is there: 1, or 0 while the rules wait for it",
        each(|i| u64::from(i.counts.present)).map(|(labels, value)| (labels, value as f64)),
    )?;
    to.counters("interface_sent_packets", "Packets of the interface that were sent", each(|i| i.counts.sent_packets))?;
    to.counters("interface_sent_bytes", "Their bytes", each(|i| i.counts.sent_bytes.as_u64()))?;
    to.counters(
        "interface_dropped_packets",
        "Packets of the interface that were dropped",
        each(|i| i.counts.dropped_packets),
    )
}

fn data_path(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    let each = |value: fn(&DirectionObservation) -> u64| {
        observation.directions.iter().map(move |direction| (of(observation, &direction.name), value(direction)))
    };
    to.counters("data_path_passed_packets", "Packets that passed", each(|d| d.data_path.passed_packets))?;
    to.counters("data_path_refused_packets", "Packets that were refused", each(|d| d.data_path.refused_packets))?;
    to.counters(
        "data_path_cut_packets",
        "Superpackets sent back to be cut, and packets that had to follow them",
        each(|d| d.data_path.cut_packets),
    )?;
    to.counters(
        "data_path_unreadable_packets",
        "Packets whose headers could not be read",
        each(|d| d.data_path.unreadable_packets),
    )?;
    to.counters(
        "data_path_unclassified_packets",
        "Packets that no rule matched",
        each(|d| d.data_path.unclassified_packets),
    )?;
    to.counters("data_path_turns", "Turns of the loop of the data path", each(|d| d.data_path.turns))?;
    to.counters(
        "data_path_lost_messages",
        "Messages of the kernel that were lost because the data path was too slow; packets passed unshaped then",
        each(|d| d.data_path.lost_messages),
    )?;
    to.counters(
        "data_path_kernel_dropped_packets",
        "Packets that the kernel dropped while they waited, because a chain of the packet filter or their route was removed",
        each(|d| d.data_path.kernel_dropped_packets),
    )?;
    to.seconds(
        "data_path_processor_seconds",
        "Processor time of the data path",
        observation
            .directions
            .iter()
            .map(|direction| (of(observation, &direction.name), direction.data_path.processor)),
    )?;
    let guardians =
        || observation.directions.iter().filter_map(|d| Some((of(observation, &d.name), d.guardian.as_ref()?)));
    let present = guardians().map(|(labels, guardian)| (labels, f64::from(u8::from(guardian.pid.is_some()))));
    to.gauges(
        "guardian_present",
        "Whether there is a guardian, which lets packets pass when the shaper cannot",
        present,
    )?;
    to.counters(
        "guardian_takeovers",
        "How often the guardian let packets pass",
        guardians().map(|(labels, guardian)| (labels, guardian.takeovers)),
    )?;
    to.counters(
        "guardian_passed_packets",
        "Packets that arrived while the guardian let them pass",
        guardians().map(|(labels, guardian)| (labels, guardian.passed_packets)),
    )?;
    to.counters(
        "guardian_restarts",
        "How often another guardian was started",
        guardians().map(|(labels, guardian)| (labels, guardian.restarts)),
    )?;
    let records = observation.directions.iter().map(|d| (of(observation, &d.name), d.table.flows as f64));
    to.gauges("flow_records", "Flows that are remembered", records)?;
    to.counters("flow_records_created", "Flows that were remembered since the start", each(|d| d.table.created))?;
    to.counters("flow_records_expired", "Flows forgotten because they were silent", each(|d| d.table.expired))?;
    to.counters("flow_records_evicted", "Flows forgotten to make room for others", each(|d| d.table.evicted))?;
    to.counters(
        "flow_untracked_packets",
        "Packets of flows that there was no room to remember",
        each(|d| d.table.untracked_packets),
    )
}

fn control(to: &mut Family<'_, '_>, status: &ControlStatus) -> fmt::Result {
    let one = |value: u64| std::iter::once((Vec::new(), value));
    to.gauges("control_clients", "Clients of the control socket", one(status.clients).map(|(l, n)| (l, n as f64)))?;
    to.gauges("control_subscriptions", "Their subscriptions", one(status.subscriptions).map(|(l, n)| (l, n as f64)))?;
    to.counters("control_requests", "Requests at the control socket", one(status.requests))?;
    to.counters("control_requests_refused", "Of them, refused", one(status.refused))?;
    to.counters("control_clients_cut", "Clients that were turned away or cut", one(status.cut))?;
    to.counters("control_events", "Events written to clients", one(status.pushes))?;
    to.counters("control_events_lost", "Events that clients did not read in time", one(status.lost))
}
