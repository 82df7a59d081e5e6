//! [`Flows`]: the flows of classes as the program in the kernel has them, read from its variables.

use std::net::{Ipv4Addr, Ipv6Addr};

use tidegate_core::accounts::Account;
use tidegate_core::cbq::{self, Measured};
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::dualpi2::{Coupled, QueueState, Stats};
use tidegate_core::fbq::{FlowCounts, HeldBy};
use tidegate_core::qdisc::{Backlog, Event};
use tidegate_core::{Bytes, ClassId, Dscp, Instant, Rate, Span};
use tidegate_engine::OffloadedFlow;
use tidegate_live::shaping::InterfaceCounts;

use super::options::{CBQ_INNER, CBQ_LEAVES, DUALPI2, FBQ, FBQ_CLASSES, FBQ_PROMISES, SPACE};
use crate::bpf::{LoadError, Mapped, Place, Variables};

/// Bits of `known` of `struct twin_flow_fields`, by `enum twin_field` of kernel/classify.h.
const SOURCE: u64 = 0;
const SOURCE_PORT: u64 = 2;
const DESTINATION_PORT: u64 = 3;
const UID: u64 = 4;
const KIND: u64 = 6;
const DSCP: u64 = 7;
/// The kind of IPv6 without its protocol, and of a packet whose protocol is not known.
const V6_KINDS: u64 = 257;
const UNKNOWN_PROTOCOL: u64 = 256;
/// `TOLD` of kernel/chassis.bpf.c.
const TOLD: u64 = 1_024;
/// `TWIN_NONE` of kernel/queues.h, in place of a slot.
const NO_SLOT: u64 = u32::MAX as u64;

macro_rules! places {
    ($(#[$doc:meta])* $set:ident; $($name:ident: $path:literal),* $(,)?) => {
        $(#[$doc])*
        #[derive(Debug)]
        struct $set { $($name: Place),* }

        impl $set {
            fn of(variables: &Variables<'_>) -> Result<Self, LoadError> {
                Ok(Self { $($name: variables.place($path)?),* })
            }
        }
    };
}

places! {
    /// The places of the variables that are read.
    Places;
    kind: "in_force.kind",
    changes: "in_force.changes",
    rules: "in_force.rules",
    used: "state.held.flows.used",
    key: "state.held.queues.key",
    packets: "state.held.queues.backlog.packets",
    bytes: "state.held.queues.backlog.bytes",
    head: "state.held.queues.head",
    arrived: "state.held.packets.at",
    present: "fbq.flows.present",
    class: "fbq.flows.class",
    home: "fbq.flows.home",
    special: "fbq.flows.special",
    steps: "fbq.specials.steps",
    host: "fbq.flows.host",
    host_waits: "fbq.hosts.waits",
    host_rule: "fbq.hosts.rule",
    flow_waits: "fbq.flows.held",
    has_candidate: "fbq.classes.has_candidate",
    queued: "fbq.classes.queued",
    class_rate: "fbq.classes.bucket.rate",
    total_rate: "fbq.root.rate",
    since: "fbq.classes.since",
    ready: "fbq.classes.ready",
    latest: "state.held.latest",
    profile: "fbq.flows.profile",
    promise: "fbq.flows.promise",
    minimum: "fbq.flows.minimum",
    granted: "fbq.flows.granted",
    sent_packets: "fbq.flows.sent.packets",
    sent_bytes: "fbq.flows.sent.bytes",
    waited: "fbq.flows.waited",
    told_count: "told_count",
    told_flow: "told.flow",
    told_bytes: "told.bytes",
    told_above: "told.above",
    matched_packets: "matched.packets",
    matched_bytes: "matched.bytes",
    line_packets: "lines.packets",
    line_bytes: "lines.bytes",
    line_dropped: "lines.dropped",
    classes: "classes.classes",
    inside_kind: "classes.inside.kind",
    inside_coupling: "classes.inside.coupling",
    first_queue: "state.disciplines.room.first",
    base: "state.disciplines.dualpi2.base",
    squared: "state.disciplines.dualpi2.squared",
    coupled_enqueued: "state.held.controls.counts.enqueued",
    coupled_sent: "state.held.controls.counts.sent",
    coupled_waited: "state.held.controls.counts.waited",
    coupled_marked: "state.held.controls.counts.marked",
    coupled_dropped: "state.held.controls.counts.dropped",
    dropped_packets: "fbq.flows.dropped.packets",
    dropped_bytes: "fbq.flows.dropped.bytes",
    promised: "classes.promise.number",
    held: "fbq.slots.held",
    known: "flow_fields.known",
    is_v6: "flow_fields.is_v6",
    source_high: "flow_fields.source_high",
    source_low: "flow_fields.source_low",
    destination_high: "flow_fields.destination_high",
    destination_low: "flow_fields.destination_low",
    source_port: "flow_fields.source_port",
    destination_port: "flow_fields.destination_port",
    ip_kind: "flow_fields.kind",
    dscp: "flow_fields.dscp",
    uid: "flow_fields.uid",
    mark: "flow_fields.mark",
}

places! {
    /// Places of the classes of CBQ, which only the program with trees has.
    SharedPlaces;
    leaves: "cbq.leaf_count",
    nodes: "cbq.node_count",
    sent_packets: "cbq.nodes.counts.sent.packets",
    sent_bytes: "cbq.nodes.counts.sent.bytes",
    borrowed_packets: "cbq.nodes.counts.borrowed.packets",
    borrowed_bytes: "cbq.nodes.counts.borrowed.bytes",
    lent_packets: "cbq.nodes.counts.lent.packets",
    lent_bytes: "cbq.nodes.counts.lent.bytes",
    rescued_packets: "cbq.nodes.counts.rescued.packets",
    rescued_bytes: "cbq.nodes.counts.rescued.bytes",
    overlimit: "cbq.nodes.counts.overlimit",
    regulated: "cbq.nodes.counts.regulated",
    under_time: "cbq.nodes.estimator.under_time",
    average: "cbq.nodes.estimator.average",
    // The lower half, which has every credit of less than 2 GB.
    used: "cbq.nodes.estimator.used",
    at: "cbq.nodes.estimator.at",
}

/// A flow with the number of its queue.
type PlacedFlow = (usize, OffloadedFlow);

/// The variables of a program.
#[derive(Debug)]
pub(crate) struct Flows {
    variables: Mapped,
    places: Places,
    shared: Option<SharedPlaces>,
}

impl Flows {
    /// Reads the flows of the program of `object` from its mapped variables.
    ///
    /// # Errors
    /// When a variable that is read is missing.
    pub fn new(variables: Mapped, object: &[u8]) -> Result<Self, LoadError> {
        let all = Variables::of(object)?;
        let shared = all.place("cbq.leaf_count").is_ok().then(|| SharedPlaces::of(&all)).transpose()?;
        Ok(Self { variables, places: Places::of(&all)?, shared })
    }

    /// The number of the change that is in force, and the half of the rules.
    pub fn in_force(&self) -> (u64, u64) {
        (self.read(&self.places.changes, 0), self.read(&self.places.rules, 0) % 2)
    }

    /// The flows with the numbers of their queues, and for how many more flows each promise in force reserves rate. Nothing while another discipline than FBQ is in
    /// force.
    pub fn all(&self) -> (Vec<PlacedFlow>, Vec<(u64, u32)>) {
        let at = &self.places;
        if self.read(&at.kind, 0) != FBQ {
            return (Vec::new(), Vec::new());
        }
        let number = |place| self.read(&at.promised, place);
        let held = (0..FBQ_PROMISES as usize).filter(|place| number(*place) != 0);
        let held = held.map(|place| (number(place), self.read(&at.held, place) as u32)).collect();
        let used = self.read(&at.used, 0) as usize;
        // Meanwhile the place may have been given to another flow.
        let is_there = |place, flow: &OffloadedFlow| flow.key == self.read(&at.key, place);
        let flow = |place| Some((place, self.flow(place))).filter(|(place, flow)| is_there(*place, flow));
        // The flows of classes with a discipline have the last keys, and tell nothing of its packets.
        let is_one = |place: &usize| self.read(&at.key, *place) > u64::MAX - FBQ_CLASSES;
        let present = (0..used).filter(|place| self.read(&at.present, *place) != 0 && !is_one(place));
        (present.filter_map(flow).collect(), held)
    }

    /// The flows of a class that have packets.
    pub fn waiting(&self, class: usize) -> u64 {
        self.read(&self.places.queued, class)
    }

    /// The rates in force: of all packets, and of so many classes.
    pub fn rates(&self, classes: usize) -> Vec<u64> {
        let classes = (0..classes).map(|class| self.read(&self.places.class_rate, class));
        std::iter::once(self.read(&self.places.total_rate, 0)).chain(classes).collect()
    }

    /// The counter of packets that a rule has matched: of the first set of rules, then of the second.
    pub fn matched(&self, counter: usize) -> Account {
        let packets = self.read(&self.places.matched_packets, counter);
        Account { packets, bytes: Bytes::new(self.read(&self.places.matched_bytes, counter)) }
    }

    /// The packets of one of several interfaces.
    pub fn line(&self, at: usize) -> InterfaceCounts {
        let read = |place| self.read(place, at);
        let Places { line_packets, line_bytes, line_dropped, .. } = &self.places;
        InterfaceCounts {
            sent_packets: read(line_packets),
            sent_bytes: read(line_bytes),
            dropped_packets: read(line_dropped),
        }
    }

    /// The coupled queues of each class that has DualPI2, without the flows under sanction.
    pub fn coupled(&self, now: Instant) -> Vec<(ClassId, Coupled)> {
        let at = &self.places;
        let classes = self.read(&at.classes, 0).min(FBQ_CLASSES) as usize;
        let coupled = |class: usize| {
            let first = self.read(&at.first_queue, class) as usize;
            let queues = [0, 1, 2].map(|queue| self.coupled_queue(first + queue, now));
            let [base, squared, coupling] =
                [&at.base, &at.squared, &at.inside_coupling].map(|place| self.read(place, class));
            (ClassId(class as u32), Coupled::new(queues, base, squared, coupling))
        };
        (0..classes).filter(|class| self.read(&at.inside_kind, *class) == DUALPI2).map(coupled).collect()
    }

    /// One of the queues of DualPI2.
    fn coupled_queue(&self, queue: usize, now: Instant) -> QueueState {
        let at = &self.places;
        // As twin_control_of of kernel/queues.h: queues of disciplines alone have counts.
        let read = |place: &Place| self.read(place, queue % SPACE as usize);
        QueueState {
            backlog: self.backlog(queue),
            delay: self.head_arrived(queue).map_or(Span::ZERO, |arrived| now.since(arrived)),
            stats: Stats {
                enqueued: read(&at.coupled_enqueued),
                sent: read(&at.coupled_sent),
                waited: Span::from_nanos(read(&at.coupled_waited)),
                marked: read(&at.coupled_marked),
                dropped: read(&at.coupled_dropped),
            },
        }
    }

    /// The leaves of CBQ, those of reservations behind those of the file, and its other classes.
    pub fn shared(&self) -> [Vec<Measured>; 2] {
        let Some(at) = &self.shared else { return Default::default() };
        let measured = |node: usize| {
            let read = |place: &Place| self.read(place, node);
            let account = |packets, bytes| Account { packets: read(packets), bytes: Bytes::new(read(bytes)) };
            let stats = cbq::Stats {
                arrived: Account::default(),
                sent: account(&at.sent_packets, &at.sent_bytes),
                borrowed: account(&at.borrowed_packets, &at.borrowed_bytes),
                lent: account(&at.lent_packets, &at.lent_bytes),
                rescued: account(&at.rescued_packets, &at.rescued_bytes),
                overlimit: read(&at.overlimit),
                regulated: read(&at.regulated),
            };
            Measured {
                stats,
                under_time: Instant::from_nanos(read(&at.under_time)),
                average: read(&at.average) as i64,
                used: read(&at.used).into(),
                at: Instant::from_nanos(read(&at.at)),
            }
        };
        let leaves = self.read(&at.leaves, 0).min(CBQ_LEAVES);
        let inner = self.read(&at.nodes, 0).saturating_sub(leaves).min(CBQ_INNER);
        [0..leaves, CBQ_LEAVES..CBQ_LEAVES + inner].map(|nodes| nodes.map(|node| measured(node as usize)).collect())
    }

    fn backlog(&self, queue: usize) -> Backlog {
        let Places { packets, bytes, .. } = &self.places;
        Backlog { packets: self.read(packets, queue), bytes: Bytes::new(self.read(bytes, queue)) }
    }

    /// How many events of feedback there ever were.
    pub fn told(&self) -> u64 {
        self.read(&self.places.told_count, 0)
    }

    /// The events of feedback from number `from` to before `to`, without those whose place others have by now.
    pub fn crossed(&self, from: u64, to: u64) -> Vec<Event> {
        let at = &self.places;
        let event = |number: u64| {
            let read = |place| self.read(place, (number % TOLD) as usize);
            let (flow, bytes) = (read(&at.told_flow), Bytes::new(read(&at.told_bytes)));
            let is_above = read(&at.told_above) != 0;
            let event = if is_above { Event::QueueAbove { flow, bytes } } else { Event::QueueBelow { flow, bytes } };
            // The next one is written before it is counted.
            Some(event).filter(|_| self.told() - number < TOLD)
        };
        (from..to).filter_map(event).collect()
    }

    fn read(&self, place: &Place, element: usize) -> u64 {
        self.variables.read(place, element)
    }

    fn flow(&self, of: usize) -> OffloadedFlow {
        let at = &self.places;
        let read = |place: &Place| self.read(place, of);
        let account = |packets, bytes| Account { packets: read(packets), bytes: Bytes::new(read(bytes)) };
        let counts = FlowCounts {
            sent: account(&at.sent_packets, &at.sent_bytes),
            dropped: account(&at.dropped_packets, &at.dropped_bytes),
            ..FlowCounts::default()
        };
        let key = read(&at.key);
        let backlog = self.backlog(of);
        let promise = read(&at.promise).checked_sub(1).map(|place| self.read(&at.promised, place as usize));
        OffloadedFlow {
            key,
            class: ClassId(read(&at.class) as u32),
            home: ClassId(read(&at.home) as u32),
            profile: read(&at.profile) as u32,
            fields: self.fields(of),
            promise: promise.filter(|number| *number != 0),
            minimum: Rate::from_bps(read(&at.minimum)),
            granted: read(&at.granted) != 0,
            steps: read(&at.special).checked_sub(1).map_or(0, |place| self.read(&at.steps, place as usize) as u32),
            backlog,
            head_arrived: self.head_arrived(of),
            held_by: self.held_by(of).filter(|_| !backlog.is_empty()),
            counts,
            waited: Span::from_nanos(read(&at.waited)),
        }
    }

    /// The ceiling that the flow waited for when a packet last arrived or left.
    fn held_by(&self, of: usize) -> Option<HeldBy> {
        let at = &self.places;
        let class = self.read(&at.class, of) as usize;
        let of_group = |place, group| self.read(place, group as usize);
        let group = Some(self.read(&at.host, of)).filter(|group| *group != NO_SLOT);
        let ready = self.read(&at.ready, class);
        // A group waits also where all its flows wait for theirs.
        if self.read(&at.flow_waits, of) != 0 {
            Some(HeldBy::Flow)
        } else if let Some(group) = group.filter(|group| of_group(&at.host_waits, *group) != 0) {
            Some(if of_group(&at.host_rule, group) == 0 { HeldBy::Host } else { HeldBy::Rule })
        } else if self.read(&at.has_candidate, class) != 0
            && ready > self.read(&at.since, class).max(self.read(&at.latest, 0))
        {
            Some(HeldBy::Class)
        } else {
            None
        }
    }

    /// The arrival of the oldest packet that is queued. The slot may be given to another packet before it is read.
    fn head_arrived(&self, of: usize) -> Option<Instant> {
        let head = || Some(self.read(&self.places.head, of)).filter(|slot| *slot != NO_SLOT);
        let mut slot = head()?;
        loop {
            let arrived = self.read(&self.places.arrived, slot as usize);
            let now = head()?;
            if now == slot {
                return Some(Instant::from_nanos(arrived));
            }
            slot = now;
        }
    }

    fn fields(&self, of: usize) -> Fields {
        let at = &self.places;
        let read = |place: &Place| self.read(place, of);
        let (bits, is_v6) = (read(&at.known), read(&at.is_v6) != 0);
        let known = |field: u64, place: &Place| (bits >> field & 1 == 1).then(|| read(place));
        let v6 = |high, low| Ipv6Addr::from_bits(u128::from(read(high)) << 64 | u128::from(read(low)));
        let hosts = match known(SOURCE, &at.source_low) {
            None => Hosts::Unknown,
            Some(_) if is_v6 => Hosts::V6 {
                source: v6(&at.source_high, &at.source_low),
                destination: v6(&at.destination_high, &at.destination_low),
            },
            Some(source) => Hosts::V4 {
                source: Ipv4Addr::from_bits(source as u32),
                destination: Ipv4Addr::from_bits(read(&at.destination_low) as u32),
            },
        };
        let protocol = known(KIND, &at.ip_kind).map(|kind| if is_v6 { kind.saturating_sub(V6_KINDS) } else { kind });
        Fields {
            hosts,
            protocol: protocol.filter(|kind| *kind != UNKNOWN_PROTOCOL).map(|kind| kind as u8),
            source_port: known(SOURCE_PORT, &at.source_port).map(|port| port as u16),
            destination_port: known(DESTINATION_PORT, &at.destination_port).map(|port| port as u16),
            dscp: known(DSCP, &at.dscp).and_then(|dscp| Dscp::new(dscp as u8)).unwrap_or_default(),
            mark: read(&at.mark) as u32,
            uid: known(UID, &at.uid).map(|uid| uid as u32),
            ..Fields::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_the_variables_that_are_read() {
        for object in [
            &include_bytes!("../../generated/chassis.o")[..],
            include_bytes!("../../generated/chassis-many.o"),
            include_bytes!("../../generated/chassis-trees.o"),
            include_bytes!("../../generated/chassis-cake.o"),
        ] {
            Places::of(&Variables::of(object).unwrap()).unwrap();
        }
        let of_trees = Variables::of(include_bytes!("../../generated/chassis-trees.o")).unwrap();
        SharedPlaces::of(&of_trees).unwrap();
    }
}
