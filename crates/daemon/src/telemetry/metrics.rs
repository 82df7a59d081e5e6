//! Metrics in the OpenMetrics text format, for Prometheus and compatible collectors.
//!
//! Counters only grow while the daemon runs; collectors derive rates from them. Of the flows of each direction only the
//! fastest [`FLOWS`] are exported, and of the hosts the fastest [`HOSTS`], since each is a time series of its own. Units are those of Prometheus: seconds and bytes.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tidegate_control::calls::{
    ClassObservation, ControlStatus, DirectionObservation, FlowObservation, HostDirection, HostObservation,
    InterfaceObservation, Observation, Waits,
};
use tidegate_units::{Bytes, Rate, Span};

/// The content type of [`text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The maximum number of flows of each direction.
pub const FLOWS: usize = 20;
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
    fn seconds<'a>(&mut self, name: &str, help: &str, items: impl Iterator<Item = (Labels<'a>, Span)>) -> fmt::Result {
        self.each(name, help, MetricType::Counter, items, |family, (labels, value)| {
            let value = value.as_secs_f64();
            family.encode_family(&labels)?.encode_counter::<[(&str, &str); 0], f64, f64>(&value, None)
        })
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
        classes(&mut to, observation)?;
        flows(&mut to, observation)?;
        hosts(&mut to, observation)?;
        interfaces(&mut to, observation)?;
        data_path(&mut to, observation)?;
        control(&mut to, &self.control)
    }
}

fn classes(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    let each = || {
        observation.directions.iter().flat_map(|direction| {
            direction.classes.iter().map(move |class| {
                let labels: Labels<'_> = vec![("direction", &direction.name), ("class", &class.name)];
                (labels, class)
            })
        })
    };
    let ways = |value: fn(&DirectionObservation) -> Option<Rate>| {
        observation.directions.iter().filter_map(move |direction| {
            Some((vec![("direction", direction.name.as_str())], bytes_per_second(value(direction)?)))
        })
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
    let gauge = |value: fn(&ClassObservation) -> Option<f64>| {
        each().filter_map(move |(labels, class)| Some((labels, value(class)?)))
    };
    to.gauges(
        "class_promised_bytes_per_second",
        "What the class is promised",
        gauge(|class| class.promised.map(bytes_per_second)),
    )?;
    to.gauges(
        "class_unpromised_bytes_per_second",
        "What could still be promised to flows of the class",
        gauge(|class| class.unpromised.map(bytes_per_second)),
    )?;
    to.gauges("class_flows", "Flows present", gauge(|class| class.flows.map(|flows| flows as f64)))?;
    to.gauges("class_queue_packets", "Packets that wait", gauge(|class| Some(class.queue.packets as f64)))?;
    to.gauges("class_queue_bytes", "Bytes that wait", gauge(|class| Some(class.queue.bytes.as_u64() as f64)))?;
    to.gauges(
        "class_jitter_seconds",
        "How much the wait differs from packet to packet of a flow (RFC 3550)",
        gauge(|class| Some(class.wait.jitter.as_secs_f64())),
    )?;
    let counter = |value: fn(&ClassObservation) -> u64| each().map(move |(labels, class)| (labels, value(class)));
    to.counters(
        "class_enqueued_packets",
        "Packets that the rules put into the class",
        counter(|c| c.enqueued_packets),
    )?;
    to.counters("class_enqueued_bytes", "Their bytes", counter(|c| c.enqueued_bytes.as_u64()))?;
    to.counters("class_sent_packets", "Packets that left through the class", counter(|c| c.sent_packets))?;
    to.counters("class_sent_bytes", "Their bytes", counter(|c| c.sent_bytes.as_u64()))?;
    to.counters(
        "class_borrowed_bytes",
        "Bytes that left on rate that other classes did not use",
        counter(|c| c.borrowed_bytes.as_u64()),
    )?;
    to.counters("class_marked_packets", "Packets marked congestion experienced", counter(|c| c.marked_packets))?;
    to.counters(
        "class_remarked_packets",
        "Packets that left with another code point than they came with",
        counter(|c| c.remarked_packets),
    )?;
    let drops = || {
        each().flat_map(|(labels, class)| {
            class.dropped.iter().map(move |drops| {
                let mut labels = labels.clone();
                labels.push(("reason", drops.reason.as_str()));
                (labels, drops)
            })
        })
    };
    to.counters(
        "class_dropped_packets",
        "Packets that were not delivered, by reason; a reason that was never met is missing",
        drops().map(|(labels, drops)| (labels, drops.packets)),
    )?;
    to.counters("class_dropped_bytes", "Their bytes", drops().map(|(labels, drops)| (labels, drops.bytes.as_u64())))?;
    to.counters(
        "class_promise_seconds",
        "Seconds in which the class asked for what it is promised, and got it (kept) or not (missed)",
        each().flat_map(|(labels, class)| kept(labels, class.promise_kept_seconds, class.promise_missed_seconds)),
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

fn kept<'a>(labels: Labels<'a>, kept: u64, missed: u64) -> [(Labels<'a>, u64); 2] {
    [("kept", kept), ("missed", missed)].map(|(outcome, seconds)| {
        let mut labels = labels.clone();
        labels.push(("outcome", outcome));
        (labels, seconds)
    })
}

/// A flow with its labels.
struct Top<'a> {
    direction: &'a DirectionObservation,
    flow: &'a FlowObservation,
    protocol: String,
    source: String,
    source_port: String,
    destination: String,
    destination_port: String,
}

impl Top<'_> {
    fn labels(&self) -> Labels<'_> {
        vec![
            ("direction", &self.direction.name),
            ("class", &self.flow.class),
            ("rule", self.flow.rule.as_deref().unwrap_or("")),
            // Where a flow is not a connection, only its key is unique.
            ("flow", &self.flow.flow.key),
            ("protocol", &self.protocol),
            ("source", &self.source),
            ("source_port", &self.source_port),
            ("destination", &self.destination),
            ("destination_port", &self.destination_port),
        ]
    }
}

fn flows(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    let mut top = Vec::new();
    for direction in &observation.directions {
        let mut flows: Vec<&FlowObservation> = direction.flows.iter().collect();
        // By their present rates; flows that have stopped sending are left out.
        flows.retain(|flow| !flow.rate.is_zero() || flow.queue.packets > 0);
        flows.sort_by(|a, b| b.rate.cmp(&a.rate).then_with(|| a.flow.key.cmp(&b.flow.key)));
        let text = |value: Option<String>| value.unwrap_or_default();
        top.extend(flows.into_iter().take(FLOWS).map(|flow| Top {
            direction,
            flow,
            protocol: text(flow.flow.protocol.map(|protocol| protocol.to_string())),
            source: text(flow.flow.source.map(|address| address.to_string())),
            source_port: text(flow.flow.source_port.map(|port| port.to_string())),
            destination: text(flow.flow.destination.map(|address| address.to_string())),
            destination_port: text(flow.flow.destination_port.map(|port| port.to_string())),
        }));
    }
    let gauge = |value: fn(&FlowObservation) -> Option<f64>| {
        top.iter().filter_map(move |top| Some((top.labels(), value(top.flow)?)))
    };
    let counter = |value: fn(&FlowObservation) -> u64| top.iter().map(move |top| (top.labels(), value(top.flow)));
    to.gauges(
        "flow_share_bytes_per_second",
        "What the flow would get if everybody asked for what they are promised",
        gauge(|flow| flow.share.map(bytes_per_second)),
    )?;
    to.gauges(
        "flow_minimum_bytes_per_second",
        "What the flow shall have at least",
        gauge(|flow| flow.minimum.map(bytes_per_second)),
    )?;
    to.gauges("flow_queue_bytes", "Bytes that wait", gauge(|flow| Some(flow.queue.bytes.as_u64() as f64)))?;
    to.gauges(
        "flow_wait_p99_seconds",
        "The wait that 99 of 100 packets of the last seconds did not exceed",
        gauge(|flow| Some(flow.wait.p99.as_secs_f64())),
    )?;
    to.gauges(
        "flow_jitter_seconds",
        "How much the wait differs from packet to packet (RFC 3550)",
        gauge(|flow| Some(flow.wait.jitter.as_secs_f64())),
    )?;
    to.counters("flow_sent_packets", "Packets that left", counter(|flow| flow.sent_packets))?;
    to.counters("flow_sent_bytes", "Their bytes", counter(|flow| flow.sent_bytes.as_u64()))?;
    to.counters("flow_dropped_packets", "Packets that were not delivered", counter(FlowObservation::dropped_packets))?;
    to.counters("flow_marked_packets", "Packets marked congestion experienced", counter(|flow| flow.marked_packets))?;
    to.counters(
        "flow_promise_seconds",
        "Seconds in which the flow asked for its minimum, and got it (kept) or not (missed)",
        top.iter()
            .filter(|top| top.flow.minimum.is_some())
            .flat_map(|top| kept(top.labels(), top.flow.promise_kept_seconds, top.flow.promise_missed_seconds)),
    )
}

/// The fastest hosts that send, receive or wait, each direction with its labels.
fn hosts(to: &mut Family<'_, '_>, observation: &Observation) -> fmt::Result {
    let waits = |way: &HostDirection| way.queue_bytes > Bytes::ZERO;
    let active = observation.hosts.iter().filter(|host| !host.rate().is_zero() || waits(&host.up) || waits(&host.down));
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
                let labels: Labels<'_> = vec![("direction", &direction.name), ("interface", &interface.counts.name)];
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
        observation
            .directions
            .iter()
            .map(move |direction| (vec![("direction", direction.name.as_str())], value(direction)))
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
    to.seconds(
        "data_path_processor_seconds",
        "Processor time of the data path",
        observation
            .directions
            .iter()
            .map(|direction| (vec![("direction", direction.name.as_str())], direction.data_path.processor)),
    )?;
    let guardians = || {
        observation.directions.iter().filter_map(|d| Some((vec![("direction", d.name.as_str())], d.guardian.as_ref()?)))
    };
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
    let records = observation.directions.iter().map(|d| (vec![("direction", d.name.as_str())], d.table.flows as f64));
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
