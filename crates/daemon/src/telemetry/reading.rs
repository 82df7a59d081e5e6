//! The counts of the engine in the form of the protocol. Everything that the daemon reports of classes, flows and interfaces is
//! made of them here.

use tidegate_config::shaper::{Borrow, Class, Config, Root, Rule};
use tidegate_control::calls::{
    Ceilings, ClassObservation, ClassStatus, CoupledQueue, CoupledQueues, DropCount, Flow, FlowDrops, FlowObservation,
    FlowTableState, HeldBy, InterfaceStatus, Protocol, Queued, RuleObservation, SharedClassStatus, WaitTimes, Waits,
};
use tidegate_core::dualpi2::QueueState;
use tidegate_core::{Account, Backlog, ClassId, DropReason, fbq};
use tidegate_engine::{
    ClassCounts, ClassRow, ClassStatus as EngineStatus, CoupledClass, FlowIdentity, FlowRow, SharedClass,
};
use tidegate_live::shaping::{LiveEngine, ShapedInterface};
use tidegate_units::{Bytes, Instant, Rate, Span};

use crate::audit::short;
use crate::directions::ShapedDirection;

/// The rate at which a count of bytes grew from `old` to `new`. A data path that was started again counts from zero.
pub(super) fn rate_between(new: Bytes, old: Bytes, time: Span) -> Rate {
    let bytes = new.as_u64().saturating_sub(old.as_u64());
    let bps = u128::from(bytes) * 8_000_000_000 / u128::from(time.as_nanos().max(1));
    Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

pub(super) fn queued(backlog: Backlog) -> Queued {
    Queued { packets: backlog.packets, bytes: backlog.bytes }
}

pub(super) fn held_by(ceiling: fbq::HeldBy) -> HeldBy {
    match ceiling {
        fbq::HeldBy::Class => HeldBy::Class,
        fbq::HeldBy::Host => HeldBy::Host,
        fbq::HeldBy::Rule => HeldBy::Rule,
        fbq::HeldBy::Flow => HeldBy::Flow,
    }
}

fn drops(counts: &ClassCounts) -> Vec<DropCount> {
    let reasons = DropReason::ALL.iter().map(|reason| {
        let account = counts.accounts.dropped[*reason as usize];
        DropCount { reason: reason.name().into(), packets: account.packets, bytes: account.bytes }
    });
    reasons.filter(|count| count.packets > 0).collect()
}

/// The rules of a direction with the packets that each has `matched`.
pub(super) fn rules(direction: &ShapedDirection, matched: &[Account]) -> Vec<RuleObservation> {
    let Some(shaping) = direction.shaping() else { return Vec::new() };
    let (config, off) = (shaping.config(), shaping.rules_off());
    let classes = shaping.class_names();
    let one = |(at, (rule, matched)): (u32, (&Rule, &Account))| RuleObservation {
        rule: at + 1,
        name: rule.name.clone(),
        // A rule may list thousands of addresses, and an observation goes to many readers.
        label: short(&rule.label()),
        class: classes.get(rule.class.0 as usize).cloned().unwrap_or_default(),
        in_force: !off.contains(&at),
        packets: matched.packets,
        bytes: matched.bytes,
    };
    (0..).zip(config.rules.iter().zip(matched)).map(one).collect()
}

/// A class with its counts since the start, without its ceilings and its priority. `quantiles` are those of the waits of the last second, `borrowing` is its rate of
/// borrowing in it.
pub(super) fn class(
    name: &str,
    row: &ClassRow,
    now: Instant,
    quantiles: [Span; 3],
    borrowing: Rate,
) -> ClassObservation {
    let counts = &row.counts;
    ClassObservation {
        name: name.into(),
        priority: None,
        promised: row.view.map(|view| view.rate),
        ceilings: Ceilings::default(),
        unpromised: row.view.map(|view| view.unpromised),
        flows: row.view.map(|view| view.flows),
        rate: counts.rate(now),
        borrowed: borrowing,
        enqueued_packets: counts.accounts.enqueued.packets,
        enqueued_bytes: counts.accounts.enqueued.bytes,
        sent_packets: counts.through.packets,
        sent_bytes: counts.through.bytes,
        borrowed_bytes: row.borrowed.map_or(Bytes::ZERO, |account| account.bytes),
        queue: queued(counts.backlog),
        held_by: row.view.and_then(|view| view.held_by).map(held_by),
        dropped: drops(counts),
        marked_packets: counts.marked,
        remarked_packets: counts.remarked,
        advised_packets: counts.advised,
        wait: WaitTimes {
            p50: quantiles[0],
            p90: quantiles[1],
            p99: quantiles[2],
            longest: counts.waited.longest(),
            jitter: counts.jitter(),
        },
        waits: Waits {
            count: counts.waited.count(),
            sum: counts.waited.sum(),
            up_to: counts.waited.cumulative().to_vec(),
        },
        coupled: row.coupled.as_ref().map(coupled),
        promise_kept_seconds: counts.promise().kept().into(),
        promise_missed_seconds: counts.promise().missed().into(),
    }
}

/// A class of the configuration. A reservation is none.
fn configured(config: &Config, class: ClassId) -> Option<&Class> {
    let Root::Shaper(shaper) = &config.root else { return None };
    shaper.classes.get(class.0 as usize)
}

/// The priority that the configuration sets for a class.
pub(super) fn priority(config: &Config, class: ClassId) -> Option<u8> {
    configured(config, class).map(|class| class.priority)
}

/// The rate of a class that does not borrow, which is a ceiling unless the class has the whole line.
fn own_ceiling(config: &Config, class: &Class) -> Option<Rate> {
    let is_part = config.limit().is_none_or(|line| class.rate < line);
    (class.borrow == Borrow::Never && is_part).then_some(class.rate)
}

/// The ceilings that the configuration sets for a class.
pub(super) fn ceilings(config: &Config, class: ClassId) -> Ceilings {
    let of = |ceiling: Option<fbq::Ceiling>| ceiling.map(|ceiling| ceiling.rate);
    configured(config, class).map_or_else(Ceilings::default, |class| Ceilings {
        class: own_ceiling(config, class).or(of(class.at_most.class)),
        host: of(class.at_most.host),
        flow: of(class.at_most.flow),
    })
}

/// The ceiling that what is queued in a class waits for: where the data path knows none, the rate of a class that does not borrow.
pub(super) fn held(config: &Config, class: ClassId, known: Option<HeldBy>, queued_packets: u64) -> Option<HeldBy> {
    let own = || configured(config, class).and_then(|class| own_ceiling(config, class));
    known.or_else(|| (queued_packets > 0 && own().is_some()).then_some(HeldBy::Class))
}

/// The flow table of an engine.
pub(super) fn table(engine: &LiveEngine) -> FlowTableState {
    let Some(flows) = engine.flows() else { return FlowTableState::default() };
    let stats = flows.table();
    FlowTableState {
        counted: true,
        uncounted: None,
        flows: flows.len() as u64,
        created: stats.created,
        expired: stats.expired,
        evicted: stats.evicted.iter().sum(),
        untracked_packets: flows.untracked(),
    }
}

/// A flow in the form of the protocol.
pub(super) fn flow(row: &FlowRow, now: Instant, names: &[String], config: &Config) -> FlowObservation {
    let record = &row.record;
    let name = |class: ClassId| names.get(class.0 as usize).cloned().unwrap_or_default();
    let drops = DropReason::ALL.iter().map(|reason| {
        let packets = u64::from(record.dropped[*reason as usize]);
        FlowDrops { reason: reason.name().into(), packets }
    });
    FlowObservation {
        flow: who(row.key, &record.who),
        class: name(record.class),
        through: (record.through != record.class).then(|| name(record.through)),
        rule: record.rule.and_then(|rule| config.rules.get(rule as usize)).map(|rule| rule.label()),
        dscp: Some(record.who.dscp.value()),
        age: now.since(record.began),
        idle: now.since(record.last),
        rate: record.rate(now),
        share: row.view.map(|view| view.rate),
        minimum: row.view.map(|view| view.minimum).filter(|minimum| !minimum.is_zero()),
        granted: row.view.is_some_and(|view| view.granted),
        preferred: row.view.map_or(0, |view| view.preferred),
        arrived_packets: record.arrived.packets,
        arrived_bytes: record.arrived.bytes,
        sent_packets: record.sent.packets,
        sent_bytes: record.sent.bytes,
        borrowed_bytes: row.view.map_or(Bytes::ZERO, |view| view.counts.borrowed.bytes),
        queue: Queued { packets: record.waits.packets, bytes: record.waits.bytes },
        held_by: held(
            config,
            record.through,
            row.view.and_then(|view| view.held_by).map(held_by),
            record.waits.packets,
        ),
        wait: WaitTimes {
            p50: record.delays.quantile(0.5).min(record.longest),
            p90: record.delays.quantile(0.9).min(record.longest),
            p99: record.delays.quantile(0.99).min(record.longest),
            longest: record.longest,
            jitter: record.jitter(),
        },
        dropped: drops.filter(|count| count.packets > 0).collect(),
        dropped_bytes: record.dropped_bytes,
        marked_packets: record.marked.into(),
        remarked_packets: record.remarked.into(),
        promise_kept_seconds: record.promise().kept().into(),
        promise_missed_seconds: record.promise().missed().into(),
    }
}

pub(super) fn who(key: u64, who: &FlowIdentity) -> Flow {
    Flow {
        key: format!("{key:016x}"),
        protocol: who.protocol.map(Protocol),
        source: who.hosts.source(),
        source_port: who.source_port,
        destination: who.hosts.destination(),
        destination_port: who.destination_port,
        uid: who.uid,
    }
}

/// The interfaces of a direction in the form of the protocol.
pub(super) fn interfaces(direction: &ShapedDirection) -> Vec<InterfaceStatus> {
    let status = |interface: &ShapedInterface| {
        let counts = interface.counts();
        InterfaceStatus {
            name: interface.name().into(),
            present: interface.index().is_some(),
            down: interface.is_down(),
            sent_packets: counts.sent_packets,
            sent_bytes: Bytes::new(counts.sent_bytes),
            dropped_packets: counts.dropped_packets,
        }
    };
    direction.interfaces_running().iter().map(status).collect()
}

/// A class with its counts since the start, without the rate that is still unpromised, the ceiling that it waits for and its
/// coupled queues, which other calls of the engine return, and without its ceilings.
pub fn class_status(status: &EngineStatus) -> ClassStatus {
    let counts = &status.counts;
    ClassStatus {
        name: status.name.clone(),
        rate: status.rate,
        unpromised: None,
        ceilings: Ceilings::default(),
        flows: status.flows,
        enqueued_packets: counts.accounts.enqueued.packets,
        enqueued_bytes: counts.accounts.enqueued.bytes,
        through_packets: counts.through.packets,
        through_bytes: counts.through.bytes,
        queue: queued(counts.backlog),
        held_by: None,
        dropped: drops(counts),
        marked_packets: counts.marked,
        remarked_packets: counts.remarked,
        advised_packets: counts.advised,
        wait_p50: counts.waited_at(0.5),
        wait_p99: counts.waited_at(0.99),
        coupled: None,
    }
}

/// The coupled queues of a class, with the mean waits since the start.
pub(super) fn coupled(class: &CoupledClass) -> CoupledQueues {
    let CoupledClass { state, flows } = class;
    let queue = |state: &QueueState| {
        let QueueState { backlog, delay, stats } = state;
        let counts = CoupledQueue {
            queue: queued(*backlog),
            delay: *delay,
            wait: Span::ZERO,
            waited: stats.waited,
            enqueued_packets: stats.enqueued,
            sent_packets: stats.sent,
            marked_packets: stats.marked,
            dropped_packets: stats.dropped,
        };
        counts.since(&CoupledQueue::default())
    };
    CoupledQueues {
        low_latency: queue(&state.low),
        classic: queue(&state.classic),
        sanctioned: queue(&state.sanctioned),
        coupled_ppm: state.coupled.of(1_000_000),
        classic_ppm: state.squared.of(1_000_000),
        flows: flows.iter().map(|(key, identity)| who(*key, identity)).collect(),
    }
}

/// A class of CBQ in the sharing of the link.
pub(super) fn shared_class(row: &SharedClass, now: Instant) -> SharedClassStatus {
    let (stats, status) = (&row.state.stats, &row.state.status);
    let wait = status.under_time.since(now);
    SharedClassStatus {
        name: row.name.clone(),
        parent: row.parent.clone(),
        rate: row.state.rate,
        sent_packets: stats.sent.packets,
        sent_bytes: stats.sent.bytes,
        borrowed_packets: stats.borrowed.packets,
        borrowed_bytes: stats.borrowed.bytes,
        lent_packets: stats.lent.packets,
        lent_bytes: stats.lent.bytes,
        rescued_packets: stats.rescued.packets,
        overlimit_packets: stats.overlimit,
        regulated: stats.regulated,
        under_time: (wait > Span::ZERO).then_some(wait),
        average_idle_ns: status.estimate.idle_nanos(),
        credit_bytes: status.estimate.credit_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_config::{Diagnostics, Source, shaper};

    use super::*;

    /// A rate that somebody is held to on purpose is a ceiling, whichever of the two ways the file says it in.
    #[test]
    fn the_rate_of_a_class_that_does_not_borrow_is_a_ceiling() {
        let text = "version = 1\n[shaper]\nrate = \"10mbit\"\n[[class]]\nname = \"slow\"\nrate = \"1mbit\"\nborrow = false\n\
                    [[class]]\nname = \"rest\"\nrate = \"9mbit\"\ndefault = true\n";
        let load = |text: &str| shaper::load(&Source::new("own.toml", text), &mut Diagnostics::new()).expect("valid");
        let config = load(text);
        assert_eq!(ceilings(&config, ClassId(0)).class, Some(Rate::from_mbit(1)));
        assert_eq!(ceilings(&config, ClassId(1)), Ceilings::default());
        assert_eq!(held(&config, ClassId(0), None, 3), Some(HeldBy::Class));
        assert_eq!(held(&config, ClassId(0), Some(HeldBy::Host), 3), Some(HeldBy::Host));
        // Without a queue nothing waits, and who may borrow waits for the line.
        assert_eq!(held(&config, ClassId(0), None, 0), None);
        assert_eq!(held(&config, ClassId(1), None, 3), None);
        // A class that has the whole line waits for that.
        let whole = load("version = 1\n[[class]]\nname = \"all\"\nrate = \"10mbit\"\nborrow = false\ndefault = true\n");
        assert_eq!((ceilings(&whole, ClassId(0)), held(&whole, ClassId(0), None, 3)), (Ceilings::default(), None));
    }
}
