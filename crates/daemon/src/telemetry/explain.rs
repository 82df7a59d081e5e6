//! `explain`: the class and flow of a packet, as recorded or by the rules, and the queues that it would meet now.

use tidegate_config::shaper::Config;
use tidegate_control::calls::{Buckets, Choice, Explain, Explained, Queued};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_core::classify::{Fields, Hosts, IcmpType, Signal, Traits, Version};
use tidegate_core::{ClassId, Credit, Dscp, FlowKey, Qdisc};
use tidegate_engine::{Classification, FlowIdentity, FlowRow, interface_number};
use tidegate_live::shaping::LiveEngine;
use tidegate_units::Instant;

use super::reading::{coupled, flow, held_by, queued, who};
use crate::directions::{ShapedDirection, direction_named, not_in_force};

/// Answers `explain`, with what the engine returns between two packets.
pub(crate) fn explain(directions: &[ShapedDirection], request: &Explain) -> Result<Explained, Refusal> {
    let direction = &directions[direction_named(directions, request.direction.as_deref())?];
    let fields = fields_of(request)?;
    let explain = |config: Config, request: Explain| {
        move |engine: &mut LiveEngine, now| of_engine(engine, now, &config, (&request, fields))
    };
    let all = direction.ask_each(|| explain(direction.config.clone(), request.clone()))?;
    let sum = |of: &dyn Fn(&Explained) -> Option<Queued>| {
        all.iter()
            .filter_map(of)
            .reduce(|sum, one| Queued { packets: sum.packets + one.packets, bytes: sum.bytes + one.bytes })
    };
    let (queue, class_queue) = (sum(&|one| Some(one.queue)), sum(&|one| one.class_queue));
    // The shard that has the flow knows more than those where it would be a new one.
    let of_flow = all.iter().position(|one| one.seen.is_some()).unwrap_or(0);
    let explained = all.into_iter().nth(of_flow).ok_or_else(not_in_force)?;
    let queue = queue.unwrap_or(explained.queue);
    let off = direction.shaping().map(|shaping| shaping.rules_off().iter().map(|rule| rule + 1).collect());
    Ok(Explained {
        direction: direction.name.clone(),
        rules_off: off.unwrap_or_default(),
        queue,
        class_queue,
        ..explained
    })
}

/// The class and the flow of a packet: those that the shaper recorded of its flow, or what the rules choose.
struct Chosen {
    classification: Classification,
    /// The flow by its key, if it is known.
    row: Option<FlowRow>,
    /// The fields of the flow's first packet, where class and rule are recorded.
    recorded: Option<FlowIdentity>,
    /// The choice of the rules for a packet with the recorded fields, where it differs.
    now: Option<Classification>,
}

fn choose(engine: &LiveEngine, request: &Explain, fields: &Fields) -> Chosen {
    let asked = |row: &FlowRow| request.uid.is_none() || request.uid == row.record.who.uid;
    let known = fields.hosts != Hosts::Unknown && !request.is_of_a_packet();
    let Some(row) = known.then(|| engine.recorded_flow(fields)).flatten().filter(asked) else {
        let classification = engine.classify(fields);
        return Chosen { classification, row: engine.flow_row(classification.flow.flow), recorded: None, now: None };
    };
    let who = row.record.who;
    let now = engine.classify(&Fields { dscp: who.dscp, uid: who.uid, cgroup: who.cgroup, mark: who.mark, ..*fields });
    let (class, rule) = (row.record.class, row.record.rule);
    let classification = Classification { class, rule, flow: FlowKey { flow: row.key, ..now.flow } };
    let differs = (now.class, now.rule) != (class, rule);
    Chosen { classification, row: Some(row), recorded: Some(who), now: differs.then_some(now) }
}

/// The interface of a rule by which the packets of a flow came in.
fn came_by(config: &Config, who: &FlowIdentity) -> Option<String> {
    let mut named = config.rules.iter().flat_map(|rule| &rule.matches.from_interfaces);
    named.find(|name| who.cgroup == Some(interface_number(name))).map(ToString::to_string)
}

/// The reply of one engine.
fn of_engine(
    engine: &mut LiveEngine,
    now: Instant,
    config: &Config,
    (request, fields): (&Explain, Fields),
) -> Explained {
    let chosen = choose(engine, request, &fields);
    let (class, key) = (chosen.classification.class, chosen.classification.flow.flow);
    let mut rows = Vec::new();
    if (class.0 as usize) < engine.class_names().len() {
        engine.class_rows(now, class.0, 1, &mut rows);
    }
    // The name is that of the engine, which has one for the one class of a discipline without classes.
    let known = engine.class_names();
    let name = |class: ClassId| {
        let lease = engine.leases().find(|lease| lease.grant.id == class).map(|lease| lease.name.clone());
        lease.or_else(|| known.get(class.0 as usize).cloned()).unwrap_or_default()
    };
    let tree = engine.tree();
    let (shaper, backlog) = (tree.shaper(), tree.backlog());
    let advice = engine.advice(&fields);
    let (scheduled_as, coupled_class) = (tree.scheduled_as(key, class), engine.coupled(class, now));
    let bytes_of = |credit: Credit| i64::try_from(credit.as_raw() / 8_000_000_000).unwrap_or(i64::MAX);
    Explained {
        direction: String::new(),
        rule: chosen.classification.rule.map(|rule| rule + 1),
        recorded: chosen.recorded.is_some(),
        now: chosen.now.map(|now| Choice { rule: now.rule.map(|rule| rule + 1), class: name(now.class) }),
        mark: chosen.recorded.map(|who| who.mark).filter(|mark| *mark != 0),
        from_interface: chosen.recorded.and_then(|who| came_by(config, &who)),
        rules_off: Vec::new(),
        class: name(class),
        flow: who(key, &FlowIdentity::from(&fields)),
        queue: queued(backlog),
        class_queue: rows.first().map(|row| queued(row.counts.backlog)),
        coupled: coupled_class.as_ref().map(coupled),
        class_rate: tree.class_rate(class),
        buckets: shaper.and_then(|shaper| shaper.levels(now, class)).map(|levels| Buckets {
            class_bytes: bytes_of(levels.class),
            class_depth_bytes: levels.class_depth.as_u64(),
            all_bytes: bytes_of(levels.all),
            all_depth_bytes: levels.all_depth.as_u64(),
            ceiling_bytes: levels.ceiling.map(|(level, _)| bytes_of(level)),
            ceiling_depth_bytes: levels.ceiling.map(|(_, depth)| depth.as_u64()),
        }),
        held_by: shaper.and_then(|shaper| shaper.flow(scheduled_as)?.held_by).map(held_by),
        shares_queue: scheduled_as != key,
        outlook: shaper.and_then(|shaper| shaper.outlook(scheduled_as, class)),
        at_most: shaper.and_then(|shaper| shaper.ceiling_of(scheduled_as, class)),
        advice: advice.map(|(_, rate)| rate),
        advised_by: advice.map(|(policy, _)| policy.word().to_owned()),
        due: (backlog.packets > 0).then(|| tree.deadline(now).instant(now)).flatten().map(|due| due.since(now)),
        seen: chosen.row.map(|row| flow(&row, now, known, config)),
    }
}

/// The fields of the packet in the request.
fn fields_of(request: &Explain) -> Result<Fields, Refusal> {
    use std::net::IpAddr::{V4, V6};
    let invalid = |text: &str, help: &str| Err(Refusal::new(Code::Invalid, text).help(help));
    let hosts = match (request.source, request.destination) {
        (Some(V4(source)), Some(V4(destination))) => Hosts::V4 { source, destination },
        (Some(V6(source)), Some(V6(destination))) => Hosts::V6 { source, destination },
        (None, None) => Hosts::Unknown,
        _ => {
            return invalid(
                "source and destination are not of the same version of IP",
                "give both, of one version of IP, or neither",
            );
        }
    };
    let Some(dscp) = Dscp::new(request.dscp.unwrap_or(0)) else {
        return invalid("a code point has six bits", "give 0 to 63");
    };
    let version = hosts.version().unwrap_or(Version::V4);
    let signal = match (request.tcp_flags, request.icmp_type) {
        (Some(_), Some(_)) => return invalid("no packet has TCP flags and an ICMP type", "give one of them"),
        (Some(flags), None) => Signal::Tcp { flags, pure_ack: request.pure_ack },
        (None, Some(number)) => Signal::Icmp(IcmpType { version, number }),
        (None, None) => Signal::Unknown,
    };
    Ok(Fields {
        hosts,
        dscp,
        protocol: request.protocol.map(|protocol| protocol.0),
        source_port: request.source_port,
        destination_port: request.destination_port,
        mark: request.mark.unwrap_or(0),
        uid: request.uid,
        cgroup: request.from_interface.as_deref().map(interface_number),
        traits: Traits { length: request.length_bytes.unwrap_or(0), signal },
        ..Fields::default()
    })
}
