//! [`Tree`]: the discipline of a configuration. It is compiled here once, not with each data path.

use tidegate_config::discipline::{Discipline, Site};
use tidegate_config::shaper::{Config, Root};
use tidegate_core::accounts::Account;
use tidegate_core::cbq::{Cbq, Stats};
use tidegate_core::dualpi2::Coupled;
use tidegate_core::fbq::{ClassView, Fbc, FlowView};
use tidegate_core::nested::{Nested, Staged};
use tidegate_core::{Backlog, ClassId, Credit, Deadline, Instant, Outlet, Qdisc, Queued, Rate, Span};

use crate::flows::FlowSlots;
use crate::guard::guarded;
use crate::packet::QueuedPacket;
use crate::wire::OnWire;

/// A superpacket that would occupy the rate of its flow for longer than this is segmented first.
pub const LONGEST_WHOLE: Span = Span::from_millis(1);

/// The discipline at the root of a configuration.
pub enum Tree {
    /// The end-system shaper.
    Shaper(Box<Nested<QueuedPacket>>),
    /// CBQ, in which flows may have reservations.
    Cbq(Box<Cbq<QueuedPacket>>),
    /// Another discipline.
    Any {
        /// The discipline.
        discipline: Box<dyn Qdisc<QueuedPacket>>,
        /// The rate of the link that it shapes, if that is configured.
        line: Option<Rate>,
    },
}

impl Tree {
    /// Builds the discipline of `config`. `catch_up` is the lateness for which it makes up.
    ///
    /// # Errors
    /// If parameters contradict each other, which a checked configuration excludes, or if a discipline of another crate panics.
    pub fn build(config: &Config, seed: u64, now: Instant, catch_up: Span) -> Result<Self, String> {
        let built = guarded(|| Self::assemble(config, seed, now, catch_up));
        built.unwrap_or_else(|text| Err(format!("it panicked: {text}")))
    }

    fn assemble(config: &Config, seed: u64, now: Instant, catch_up: Span) -> Result<Self, String> {
        match &config.root {
            Root::Shaper(shaper) => {
                let site = Site { seed, name: String::new(), now };
                let nested = shaper.build(&config.rules, &site, catch_up, str::to_owned)?;
                Ok(Self::Shaper(Box::new(nested)))
            }
            Root::Discipline(discipline) => {
                let site = Site { seed, name: "root".into(), now };
                Ok(match &**discipline {
                    Discipline::Cbq(section) => {
                        let mut cbq = section.build_tree(&site);
                        cbq.set_catch_up(catch_up);
                        Self::Cbq(Box::new(cbq))
                    }
                    Discipline::Fbq(section) => Self::Shaper(Box::new(section.build_nested(&site, catch_up)?)),
                    other => Self::Any { discipline: other.build(&site), line: other.line() },
                })
            }
        }
    }

    /// The end-system shaper, if the discipline is that.
    pub fn shaper(&self) -> Option<&Fbc<Staged<QueuedPacket>>> {
        match self {
            Self::Shaper(nested) => Some(nested.fbc()),
            Self::Cbq(_) | Self::Any { .. } => None,
        }
    }
    /// Mutable access to the end-system shaper.
    pub fn shaper_mut(&mut self) -> Option<&mut Fbc<Staged<QueuedPacket>>> {
        match self {
            Self::Shaper(nested) => Some(nested.fbc_mut()),
            Self::Cbq(_) | Self::Any { .. } => None,
        }
    }
    /// CBQ, if the discipline is that.
    pub fn cbq(&self) -> Option<&Cbq<QueuedPacket>> {
        match self {
            Self::Cbq(cbq) => Some(cbq),
            Self::Shaper(_) | Self::Any { .. } => None,
        }
    }
    /// Mutable access to CBQ. Only the [`Engine`](crate::Engine) may change the classes of reservations.
    pub fn cbq_mut(&mut self) -> Option<&mut Cbq<QueuedPacket>> {
        match self {
            Self::Cbq(cbq) => Some(cbq),
            Self::Shaper(_) | Self::Any { .. } => None,
        }
    }
    /// The flow that the shaper takes packets of `flow` in `class` for: all of a class with a discipline of its own are one.
    pub fn scheduled_as(&self, flow: u64, class: ClassId) -> u64 {
        match self {
            Self::Shaper(nested) => nested.scheduled_as(flow, class),
            Self::Cbq(_) | Self::Any { .. } => flow,
        }
    }
    /// The allocated rate of a class; `None` if the discipline does not report it.
    pub fn class_rate(&self, class: ClassId) -> Option<Rate> {
        match self {
            Self::Shaper(nested) => nested.fbc().class(class).map(|view| view.rate),
            Self::Cbq(cbq) => cbq.class(class).map(|class| class.rate),
            Self::Any { .. } => None,
        }
    }
    /// Packets and bytes that a class has sent with borrowed rate; `None` if the discipline does not report it.
    pub fn borrowed(&self, class: ClassId) -> Option<Account> {
        match self {
            Self::Shaper(nested) => nested.fbc().class(class).map(|view| view.borrowed),
            Self::Cbq(cbq) => cbq.stats(class).map(Stats::beyond_own),
            Self::Any { .. } => None,
        }
    }
    /// Sets the lateness for which the discipline makes up; returns `false` if it makes up for none.
    pub fn set_catch_up(&mut self, catch_up: Span) -> bool {
        match self {
            Self::Shaper(nested) => nested.fbc_mut().set_catch_up(catch_up),
            Self::Cbq(cbq) => cbq.set_catch_up(catch_up),
            Self::Any { .. } => return false,
        }
        true
    }
    /// The credit with which packets may leave at once now; `None` if the discipline has no such bound.
    pub fn allowance(&self, now: Instant) -> Option<Credit> {
        match self {
            Self::Shaper(nested) => Some(nested.fbc().allowance(now)),
            Self::Cbq(cbq) => cbq.allowance(now),
            Self::Any { .. } => None,
        }
    }
    /// Takes over the used credit of `old`, in total and for each class that has a `predecessor` there, so that no flow gains a
    /// burst by the change. The tree must be empty.
    pub(crate) fn succeed(&mut self, now: Instant, old: &Self, predecessor: impl Fn(ClassId) -> Option<ClassId>) {
        match (self, old) {
            (Self::Shaper(new), Self::Shaper(old)) => new.fbc_mut().succeed(now, old.fbc(), predecessor),
            (Self::Cbq(new), Self::Cbq(old)) => new.succeed(now, old, predecessor),
            (new, old) => {
                let Some(allowance) = old.allowance(now) else { return };
                match new {
                    Self::Shaper(new) => new.fbc_mut().limit_allowance(now, allowance),
                    Self::Cbq(new) => new.limit_allowance(now, allowance),
                    Self::Any { .. } => {}
                }
            }
        }
    }
    /// The classes of the end-system shaper; empty for another discipline.
    pub fn classes(&self) -> Vec<ClassView> {
        self.shaper().map(|fbc| fbc.classes().collect()).unwrap_or_default()
    }
    /// The flows of the end-system shaper; empty for another discipline. Cost: linear in the number of flows.
    pub fn flows(&self) -> Vec<FlowView> {
        self.shaper().map(|fbc| fbc.flows().collect()).unwrap_or_default()
    }
    /// The rate at which flow `flow` of `class` sends, or would send if it began now. In CBQ that is the rate of the class, in
    /// another discipline the rate of its line. `None` if no rate is known.
    pub fn rate_of(&self, flow: u64, class: ClassId) -> Option<Rate> {
        match self {
            Self::Shaper(nested) => nested.fbc().outlook(nested.scheduled_as(flow, class), class),
            Self::Cbq(cbq) => cbq.class(class).map(|class| class.rate),
            Self::Any { line, .. } => *line,
        }
    }
    /// Whether `wire` is more than a flow of `class` may send in one piece. If the shaper knows the flow, `slots` has its slot
    /// afterwards.
    pub(crate) fn is_too_long(&self, flow: u64, class: ClassId, wire: OnWire, slots: &mut FlowSlots) -> bool {
        let rate = match self.shaper() {
            Some(shaper) => {
                let slot = shaper.find(flow, slots.scheduler);
                slots.scheduler = slot.unwrap_or(slots.scheduler);
                shaper.outlook_at(slot, class)
            }
            None => self.rate_of(flow, class),
        };
        rate.is_some_and(|rate| rate.time_for_ceil(wire.size).is_none_or(|time| time > LONGEST_WHOLE))
    }
}

impl Qdisc<QueuedPacket> for Tree {
    fn enqueue(&mut self, now: Instant, packet: QueuedPacket, out: &mut dyn Outlet<QueuedPacket>) -> Queued {
        match self {
            Self::Shaper(shaper) => shaper.enqueue(now, packet, out),
            Self::Cbq(cbq) => cbq.enqueue(now, packet, out),
            Self::Any { discipline, .. } => discipline.enqueue(now, packet, out),
        }
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<QueuedPacket>) -> Option<QueuedPacket> {
        match self {
            Self::Shaper(shaper) => shaper.dequeue(now, out),
            Self::Cbq(cbq) => cbq.dequeue(now, out),
            Self::Any { discipline, .. } => discipline.dequeue(now, out),
        }
    }
    fn deadline(&self, now: Instant) -> Deadline {
        match self {
            Self::Shaper(shaper) => shaper.deadline(now),
            Self::Cbq(cbq) => cbq.deadline(now),
            Self::Any { discipline, .. } => discipline.deadline(now),
        }
    }
    fn backlog(&self) -> Backlog {
        match self {
            Self::Shaper(shaper) => shaper.backlog(),
            Self::Cbq(cbq) => cbq.backlog(),
            Self::Any { discipline, .. } => discipline.backlog(),
        }
    }
    fn coupled(&self, class: ClassId, now: Instant) -> Option<Coupled> {
        match self {
            Self::Shaper(shaper) => shaper.coupled(class, now),
            Self::Cbq(cbq) => cbq.coupled(class, now),
            Self::Any { discipline, .. } => discipline.coupled(class, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::{Diagnostics, Source, shaper};
    use tidegate_core::packet::NO_SLOT;
    use tidegate_core::qdisc::Discard;
    use tidegate_core::{Bytes, FlowKey};

    fn tree() -> Tree {
        let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\ndefault = true\n";
        let config = shaper::load(&Source::new("tree.toml", text), &mut Diagnostics::new()).expect("valid");
        Tree::build(&config, 1, Instant::ZERO, Span::ZERO).expect("valid")
    }

    /// At 8 Mbit/s 1,000 bytes take 1 ms.
    #[test]
    fn a_superpacket_is_too_long_beyond_a_millisecond() {
        let tree = tree();
        let mut slots = FlowSlots::NONE;
        let mut is_long =
            |bytes| tree.is_too_long(1, ClassId(0), OnWire { size: Bytes::new(bytes), packets: 2 }, &mut slots);
        assert_eq!((is_long(1_000), is_long(1_001)), (false, true));
    }

    /// A packet is queued in its own flow, even if it carries the slot of another one.
    #[test]
    fn a_wrong_slot_costs_only_a_look_up() {
        let mut tree = tree();
        let mut enqueue = |flow, claimed| {
            let flow = FlowKey::numbered(flow);
            let packet = QueuedPacket { flow, flow_slot: claimed, size: Bytes::new(100), ..QueuedPacket::example() };
            tree.enqueue(Instant::ZERO, packet, &mut Discard).slot
        };
        let (one, two) = (enqueue(1, NO_SLOT), enqueue(2, NO_SLOT));
        assert_ne!(one, two);
        assert_eq!((enqueue(1, one), enqueue(1, two), enqueue(2, 77), enqueue(2, one)), (one, one, two, two));
        let flows = tree.flows();
        let packets = |flow: u64| flows.iter().find(|view| view.key == flow).map(|view| view.backlog.packets);
        assert_eq!((packets(1), packets(2)), (Some(3), Some(3)));
    }
}
