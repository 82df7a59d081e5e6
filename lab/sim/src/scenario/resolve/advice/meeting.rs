//! Warnings about flows that meet at a link: phase effects, where a queue drops what does not fit and nothing is random on their way,
//! windows that cannot fill the link, and one queue that marks flows of L4S and others alike.

use std::collections::BTreeMap;

use tidegate_config::discipline::Discipline;
use tidegate_core::red::Signal;
use tidegate_core::{Bytes, Rate, Span};

use super::Advice;
use crate::scenario::model::Variant;
use crate::scenario::queue::LinkQueue;
use crate::tcp::EcnUse;
use crate::workload::{FlowSpec, Transport, Workload};

/// Among more flows the phase of one is lost in those of the others.
const MOST_FLOWS: usize = 8;
/// A window is data, and lines carry headers besides; it also has room for less than a segment more.
const HEADERS: f64 = 1.1;
/// The size of a packet of most flows.
const PACKET: Bytes = Bytes::new(1_500);

/// The flows whose data crosses each link.
type Crossings = BTreeMap<usize, Vec<usize>>;

impl Advice<'_> {
    /// Warns about flows that meet.
    pub(super) fn meetings(&mut self) {
        let crossings = self.crossing();
        self.phases(&crossings);
        self.windows(&crossings);
        self.one_queue(&crossings);
    }

    /// Warns where flows of several sections without end meet in a FIFO with round trips that nothing varies: the same flow may lose again and again (Floyd and
    /// Jacobson, *On traffic phase effects in packet-switched gateways*, 1992).
    fn phases(&mut self, crossings: &Crossings) {
        for (&index, crossing) in crossings {
            let wire = &self.scenario.wires[index];
            let variants = &self.scenario.variants;
            let rate_of = |link: usize| self.rate_of(link, variants.first());
            let rate = rate_of(index);
            let meets = |number: &usize| {
                let flow = &self.scenario.flows[*number];
                let is_long = matches!(*flow.workload, Workload::Bulk { bytes: None });
                let way = self.sim.path(*number, flow.workload.data_side());
                is_long && way.map(rate_of).min() == Some(rate)
            };
            let long: Vec<usize> = crossing.iter().copied().filter(meets).collect();
            // Flows of one section are measured together, and what one loses another has.
            let sections = self.scenario.sections.iter();
            let several =
                sections.filter(|section| long.iter().any(|number| section.flows.contains(number))).count() > 1;
            let is_drop_tail = |variant: Option<&Variant>| match self.scenario.queue_of(index, variant) {
                None => true,
                Some(LinkQueue::Discipline(discipline)) => matches!(**discipline, Discipline::Fifo(_)),
                Some(LinkQueue::Shaper(..)) => false,
            };
            let drops_tail = match variants.is_empty() {
                true => is_drop_tail(None),
                false => variants.iter().any(|variant| is_drop_tail(Some(variant))),
            };
            let is_random = |number: &usize| {
                let flow = &self.scenario.flows[*number];
                let mut ways = (0..2).flat_map(|side| self.sim.path(*number, side));
                let is_drawn = match *flow.workload {
                    Workload::Poisson { .. }
                    | Workload::OnOff { .. }
                    | Workload::Mice { .. }
                    | Workload::Packets { .. }
                    | Workload::Phases { .. }
                    | Workload::Trace(_)
                    | Workload::Web(_) => true,
                    _ => !matches!(flow.transport, Transport::Tcp(_) | Transport::Udp { .. }),
                };
                is_drawn || ways.any(|link| self.scenario.wires[link].conditions.is_some())
            };
            if !several || long.len() > MOST_FLOWS || !drops_tail || crossing.iter().any(is_random) {
                continue;
            }
            let name = self.scenario.wire_name(index);
            let packet = rate.time_for_ceil(PACKET).unwrap_or(Span::ZERO);
            let message = format!(
                "{} flows meet in a FIFO at the link {name}, and nothing on their way is random: which of them loses may depend on the phase \
                 of their round trips, and so may every share",
                long.len()
            );
            let help = format!(
                "let a link before it have jitter = {{ delay = {{ kind = \"uniform\", low = \"0s\", high = \"{packet}\" }} }}, about one \
                 packet, as real hosts have; `tidegate help reports` has what it changes"
            );
            self.warn(17, wire.place, message, "phase effects", help);
        }
    }

    /// Warns about flows of L4S and others in one queue that marks both: each mark halves the window of these, and takes little of those.
    fn one_queue(&mut self, crossings: &Crossings) {
        let variants = || [None].into_iter().chain(self.scenario.variants.iter().map(Some));
        let marks_alike = |index: usize, variant: Option<&Variant>| {
            let is_run = variant.is_some() || self.scenario.variants.is_empty();
            let Some(LinkQueue::Discipline(discipline)) = self.scenario.queue_of(index, variant) else { return false };
            is_run
                && match &**discipline {
                    Discipline::CoDel(codel) => codel.signal == Signal::Mark,
                    Discipline::Pie(pie) => pie.signal == Signal::Mark,
                    _ => false,
                }
        };
        for (&index, crossing) in crossings {
            let ecn = |number: &usize| match &self.scenario.flows[*number].transport {
                Transport::Tcp(tcp) => Some(tcp.ecn == EcnUse::L4s),
                Transport::Other { protocol, ecn } => Some(protocol.ecn(*ecn) == EcnUse::L4s),
                Transport::Udp { .. } => None,
            };
            let of = |is_l4s: bool| crossing.iter().any(|number| ecn(number) == Some(is_l4s));
            let found = variants().find(|variant| marks_alike(index, *variant));
            let Some(variant) = found.filter(|_| of(true) && of(false)) else { continue };
            let name = self.scenario.wire_name(index);
            let place = variant.map_or(self.scenario.wires[index].place, |variant| variant.place);
            let message = format!(
                "flows of L4S and others share the one queue of the link {name}: it marks or drops by one law for both, and the others starve"
            );
            let help = "RFC 9331, 5.2, wants a law for each: kind = \"dualpi2\", or a discipline with queues of flows and an l4s-step".to_owned();
            self.warn(19, place, message, "Prague answers a mark by less than a halved window", help);
        }
    }

    /// Warns about receive windows that together are less than the line carries in a round trip: it is never full, and the
    /// queue that somebody studies there stays empty.
    fn windows(&mut self, crossings: &Crossings) {
        for (&index, crossing) in crossings {
            let wire = &self.scenario.wires[index];
            if self.scenario.queue_of(index, self.scenario.variants.first()).is_none() {
                continue;
            }
            let flows = || crossing.iter().map(|number| (*number, &self.scenario.flows[*number]));
            let window = |(number, flow): (usize, &FlowSpec)| {
                let window = match (&flow.transport, &*flow.workload) {
                    (Transport::Tcp(tcp), Workload::Bulk { bytes: None }) => tcp.receive_buffer,
                    (Transport::Other { protocol, .. }, Workload::Bulk { bytes: None }) => protocol.receive_window(),
                    _ => return None,
                };
                Some(window as f64 * 8.0 / self.sim.round_trip(number).as_secs_f64())
            };
            // Others may send what these do not.
            let Some(all) = flows().map(window).collect::<Option<Vec<f64>>>().filter(|all| !all.is_empty()) else {
                continue;
            };
            let most: f64 = all.iter().sum();
            let is_slowest = |(number, flow): (usize, &FlowSpec)| {
                self.sim.slowest(number, flow.workload.data_side()) == wire.line.rate
            };
            if wire.conditions.is_some() || !flows().any(is_slowest) || most * HEADERS >= wire.line.rate.as_bps() as f64
            {
                continue;
            }
            let (name, carries, most) = (self.scenario.wire_name(index), wire.line.rate, Rate::from_bps(most as u64));
            let message = format!(
                "the windows of the flows through the link {name} allow {most} together, and it carries {carries}: it is never full"
            );
            let help = "give the flows a larger window, such as tcp = { window = \"4MiB\" } or transport = { kind = \"quic\", window = \"4MB\" }, or \
                        defaults = \"linux\""
                .to_owned();
            self.warn(18, wire.place, message, "the receivers are the bottleneck", help);
        }
    }
}
