//! Traces: every event of the selected packets, and the state of their connections and queues over time.
//!
//! *Law*: a trace does not change the digest of a run.
//! *Cost*: without a trace, one pointer is tested for each packet at a queue with a discipline and for each call of an
//! endpoint. With a trace, each event takes 200 bytes. No more than [`MOST`] are kept, and the trace records when it
//! was full.

mod headers;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::rc::Rc;

use tidegate_core::{Backlog, Instant};

use crate::ids::{FlowId, LinkId};
use crate::link::Stage;
use crate::packet::SimPacket;
use crate::shaper::{Identity, Population};
use crate::tcp::Segment;
use crate::transport::{Contents, Lost, SenderState};
use crate::workload::FlowSpec;

/// The largest number of packet events, of states and of losses that are kept.
pub const MOST: usize = 2_000_000;

/// The selection of events that a trace keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The flows; an empty set selects all flows.
    pub flows: BTreeSet<FlowId>,
    /// The links; an empty set selects all links.
    pub links: BTreeSet<LinkId>,
    /// The names of the variants that are run; an empty set selects all of them.
    pub variants: BTreeSet<String>,
    /// The time of the first event.
    pub from: Instant,
    /// The time of the last event.
    pub to: Instant,
}

impl Default for Selection {
    fn default() -> Self {
        let (flows, links, variants) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self { flows, links, variants, from: Instant::ZERO, to: Instant::MAX }
    }
}

impl Selection {
    fn has_flow(&self, flow: u32) -> bool {
        self.flows.is_empty() || self.flows.contains(&FlowId(flow))
    }
    fn has_link(&self, link: u32) -> bool {
        self.links.is_empty() || self.links.contains(&LinkId(link))
    }
    fn has_time(&self, time: Instant) -> bool {
        (self.from..=self.to).contains(&time)
    }
}

/// The kind of a packet event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Occurrence {
    /// The packet reached a stage at a link.
    At(LinkId, Stage),
    /// The packet reached its destination host.
    Delivered,
}

/// An event of a packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketEvent {
    /// The time of the event.
    pub time: Instant,
    /// The kind of event.
    pub what: Occurrence,
    /// The number of the packet in the trace, from 1. A retransmission has a number of its own.
    pub number: u32,
    /// The packet at that time.
    pub packet: SimPacket,
}

/// The state of a sending endpoint, recorded after an event that changed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionState {
    /// The time of the event that changed it.
    pub time: Instant,
    /// The flow of the scenario.
    pub flow: FlowId,
    /// The number of the connection in the run.
    pub connection: u64,
    /// The end: 0 for the one that opened the connection.
    pub side: u8,
    /// The sender.
    pub sender: SenderState,
}

/// A packet of a transport that the sender at one end of a connection declared lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The time of the event that showed the loss.
    pub time: Instant,
    /// The number of the connection in the run.
    pub connection: u64,
    /// The end that had sent the packet: 0 for the one that opened the connection.
    pub side: u8,
    /// The packet.
    pub packet: Lost,
}

/// The state of a queue, recorded after an event that changed it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QueueState {
    /// The time of the event that changed it.
    pub time: Instant,
    /// The link.
    pub link: LinkId,
    /// The packets and bytes in the queue.
    pub backlog: Backlog,
    /// The drop or mark probability of the AQM, if it has one.
    pub probability: Option<f64>,
}

/// The trace of a run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Events of packets, in the order of time.
    pub packets: Vec<PacketEvent>,
    /// States of connections, in the order of time.
    pub connections: Vec<ConnectionState>,
    /// Packets that transports declared lost, in the order of time. TCP declares none.
    pub losses: Vec<Loss>,
    /// States of queues, in the order of time.
    pub queues: Vec<QueueState>,
    /// When the limit was reached. Later events are missing.
    pub full: Option<Instant>,
    /// Names of links, by number.
    pub links: Vec<String>,
    /// Names of flows, by number.
    pub flows: Vec<String>,
    /// The packets of a transport inside of a packet, by its number in the trace. Those of TCP have none.
    pub contents: HashMap<u32, Vec<Contents>>,
    identities: Vec<Identity>,
}

impl Trace {
    /// The IP and TCP or UDP headers of a packet, as they would be on the wire. Checksums of TCP and UDP are zero.
    pub fn headers(&self, packet: &SimPacket) -> Vec<u8> {
        match self.identities.get(packet.group as usize) {
            Some(identity) => headers::bytes(packet, &identity.fields(packet)),
            None => Vec::new(),
        }
    }
}

/// Records a trace of a running network.
pub(crate) struct Tracer {
    selection: Selection,
    trace: Trace,
    /// Numbers of packets by flow, sending time, sequence number and length. An acknowledgement that is sent together with data
    /// has its sequence number, and no length.
    numbers: HashMap<(u64, u64, u32, u32), u32>,
    last_of_end: HashMap<(u64, u8), ConnectionState>,
    last_of_queue: HashMap<u32, QueueState>,
}

/// A tracer that the network and the taps of its links share.
pub(crate) type SharedTracer = Rc<RefCell<Tracer>>;

impl Tracer {
    pub fn new(selection: Selection, links: Vec<String>, addresses: Vec<IpAddr>, flows: &[FlowSpec]) -> SharedTracer {
        let identities = Population::new(addresses, flows, Default::default()).identities(&Default::default(), None);
        let flows = flows.iter().map(|flow| flow.name.clone()).collect();
        Rc::new(RefCell::new(Self {
            selection,
            trace: Trace { links, flows, identities, ..Trace::default() },
            numbers: HashMap::new(),
            last_of_end: HashMap::new(),
            last_of_queue: HashMap::new(),
        }))
    }

    /// Whether the trace has events of a link.
    pub fn wants_link(&self, link: u32) -> bool {
        self.selection.has_link(link)
    }

    fn has_room(&mut self, time: Instant) -> bool {
        let trace = &mut self.trace;
        let lengths = [trace.packets.len(), trace.connections.len(), trace.losses.len(), trace.queues.len()];
        let room = lengths.into_iter().all(|length| length < MOST);
        if !room {
            trace.full.get_or_insert(time);
        }
        room
    }

    /// The number of a packet in the trace, by flow, sending time and what does not change on the way.
    fn number(&mut self, flow: u64, sent: u64, segment: &Segment) -> u32 {
        let next = self.numbers.len() as u32 + 1;
        *self.numbers.entry((flow, sent, segment.seq, segment.len)).or_insert(next)
    }

    /// Records what is in a packet that is sent now, if its transport tells it.
    pub fn contents(
        &mut self,
        (flow, now, segment): (u64, Instant, &Segment),
        group: u32,
        contents: impl FnOnce() -> Vec<Contents>,
    ) {
        if !self.selection.has_time(now) || !self.selection.has_flow(group) || !self.has_room(now) {
            return;
        }
        let contents = contents();
        if !contents.is_empty() {
            let number = self.number(flow, now.as_nanos(), segment);
            self.trace.contents.insert(number, contents);
        }
    }

    /// Records an event of `packet`.
    pub fn packet(&mut self, time: Instant, what: Occurrence, packet: &SimPacket) {
        if !self.selection.has_time(time) || !self.selection.has_flow(packet.group) || !self.has_room(time) {
            return;
        }
        let number = self.number(packet.flow, packet.sent, &packet.segment);
        self.trace.packets.push(PacketEvent { time, what, number, packet: *packet });
    }

    /// Records the packets that one end of a connection declares lost.
    pub fn losses(&mut self, time: Instant, flow: u32, connection: u64, side: usize, lost: &[Lost]) {
        if lost.is_empty() || !self.selection.has_time(time) || !self.selection.has_flow(flow) || !self.has_room(time) {
            return;
        }
        let side = side as u8;
        self.trace.losses.extend(lost.iter().map(|packet| Loss { time, connection, side, packet: *packet }));
    }

    /// Records the state of one end of a connection if it has changed.
    pub fn connection(&mut self, time: Instant, flow: u32, connection: u64, side: usize, sender: Option<SenderState>) {
        // An end that has sent nothing has no interesting state.
        let Some(sender) = sender else { return };
        if !self.selection.has_time(time) || !self.selection.has_flow(flow) {
            return;
        }
        let state = ConnectionState { time, flow: FlowId(flow), connection, side: side as u8, sender };
        let last = self.last_of_end.get(&(connection, state.side));
        if last.is_some_and(|last| ConnectionState { time, ..*last } == state) || !self.has_room(time) {
            return;
        }
        self.last_of_end.insert((connection, state.side), state);
        self.trace.connections.push(state);
    }

    /// Records the state of the queue of `link` if it has changed.
    pub fn queue(&mut self, time: Instant, link: u32, backlog: Backlog, probability: Option<f64>) {
        if !self.selection.has_time(time) || !self.selection.has_link(link) {
            return;
        }
        let state = QueueState { time, link: LinkId(link), backlog, probability };
        let last = self.last_of_queue.get(&link);
        if last.is_some_and(|last| QueueState { time, ..*last } == state) || !self.has_room(time) {
            return;
        }
        self.last_of_queue.insert(link, state);
        self.trace.queues.push(state);
    }

    /// Takes the trace out, with its events in the order of time.
    pub fn finish(&mut self) -> Trace {
        let mut trace = std::mem::take(&mut self.trace);
        // The departures of links with a single feeder are computed ahead of time.
        trace.packets.sort_by_key(|event| event.time);
        trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_without_names_has_all() {
        let all = Selection::default();
        assert!(all.has_flow(3) && all.has_link(7) && all.has_time(Instant::ZERO));
        let one = Selection { flows: [FlowId(3)].into(), to: Instant::from_nanos(10), ..all };
        assert!(one.has_flow(3) && !one.has_flow(4) && !one.has_time(Instant::from_nanos(11)));
    }
}
