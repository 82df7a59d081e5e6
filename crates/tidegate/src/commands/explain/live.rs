//! `tidegate explain --live`: a packet or a flow of the running shaper.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::json;
use tidegate_config::shaper::Config;
use tidegate_config::values::{Protocol, User};
use tidegate_control::Client;
use tidegate_control::calls::{DirectionObservation, Explain, Explained, Flow, FlowObservation, Flows, InForce, Rival};
use tidegate_core::Dscp;
use tidegate_core::classify::Fields;
use tidegate_engine::Names;
use tidegate_live::shaping::Addresses;
use tidegate_replay::explain::{self, Belongs};
use tidegate_replay::run::{Run, Settings};
use tidegate_units::Instant;

use super::names::End;
use super::output::{print_belongs, print_rules, print_state};
use super::{Args, fields, names};
use crate::{Failure, output};

/// Queries the running shaper.
pub fn explain(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut client = args.connect.open()?;
    let known = names::of_hosts(args, &mut client)?;
    let (args, chosen) = &completed(&names::resolved(args, known)?, &mut client)?;
    let described = fields(args)?;
    if let Some(chosen) = chosen.as_ref().filter(|_| !args.json) {
        writeln!(out, "{chosen}")?;
    }
    let explained = client.explain(&request(args))?;
    let text = client.in_force(&InForce { direction: Some(explained.direction.clone()) })?;
    let config = tidegate_replay::exact::configuration(&text).map_err(Failure::Failed)?;
    let asks_interface = config.rules.iter().any(|rule| !rule.matches.from_interfaces.is_empty());
    if args.from_interface.is_none() && !explained.recorded && asks_interface {
        message!(
            "tidegate: rules ask by which interface a forwarded packet came in; without --from-interface none is assumed"
        );
    }
    let named = names::of_running(&config, &explained.direction, &mut client)?;
    // A reservation precedes the rules of the file at all times.
    if args.time.is_some() && !is_reservation(explained.rule, &config) {
        let names = known_names(&config, named);
        let fields = recorded_fields(&explained, described);
        return at_another_time(args, (&config, &explained.direction), fields, names, &mut client, out);
    }
    let seen = client.classes()?;
    let rival = seen.direction(&explained.direction).and_then(|direction| Rival::of_class(direction, &explained.class));
    let belongs = belongs(&explained, &config, described, named);
    if args.json {
        let mut state = serde_json::to_value(&explained).map_err(std::io::Error::from)?;
        if let Some(rival) = rival {
            state["rival"] = json!(rival);
        }
        writeln!(out, "{:#}", json!({ "belongs": belongs.json(), "stands": state }))?;
        return Ok(());
    }
    if is_reservation(explained.rule, &config) && !explained.recorded {
        writeln!(out, "class {}, a reservation, whose rule precedes those of the file", explained.class)?;
        writeln!(out, "flow {}", explained.flow.key)?;
    } else if explained.recorded {
        print_rules(out, &belongs)?;
        write!(out, "{}", recorded(&explained, &config))?;
        writeln!(out, "flow {}", explained.flow.key)?;
    } else {
        print_belongs(out, &belongs)?;
    }
    print_state(out, &explained, rival.as_ref())?;
    Ok(())
}

fn request(args: &Args) -> Explain {
    Explain {
        direction: args.direction.clone(),
        protocol: args.protocol().map(tidegate_control::calls::Protocol),
        source: args.source(),
        source_port: args.source_port,
        destination: args.destination(),
        destination_port: args.destination_port,
        dscp: args.dscp.map(Dscp::value),
        mark: args.mark,
        uid: args.uid,
        from_interface: args.from_interface.clone(),
        length_bytes: args.length,
        tcp_flags: args.flags(),
        pure_ack: args.pure_ack,
        icmp_type: args.kind().map(|kind| kind.number),
    }
}

/// Whether a rule is one of a reservation; these are numbered after the rules of the file.
fn is_reservation(rule: Option<u32>, config: &Config) -> bool {
    rule.is_some_and(|rule| rule as usize > config.rules.len())
}

/// The fields of the packet that is described. Where the shaper knows the flow, they are those of its record.
fn recorded_fields(explained: &Explained, described: Fields) -> Fields {
    match &explained.seen {
        Some(seen) if explained.recorded => Fields {
            dscp: seen.dscp.and_then(Dscp::new).unwrap_or_default(),
            uid: seen.flow.uid,
            mark: explained.mark.unwrap_or(0),
            cgroup: explained.from_interface.as_deref().map(tidegate_engine::interface_number),
            ..described
        },
        _ => described,
    }
}

/// Compares the rules with the packet.
fn belongs(explained: &Explained, config: &Config, described: Fields, named: Addresses) -> Belongs {
    let fields = recorded_fields(explained, described);
    let mut names = known_names(config, named);
    names.off = explained.rules_off.iter().map(|rule| rule.saturating_sub(1)).collect();
    let chosen = explained.now.as_ref().map_or(explained.rule, |now| now.rule);
    Belongs {
        fields,
        rules: explain::rules(config, &names, &fields, chosen),
        class: explained.class.clone(),
        by_default: explained.rule.is_none(),
        flow: u64::from_str_radix(&explained.flow.key, 16).unwrap_or_default(),
    }
}

/// The addresses that the names in rules stand for.
fn known_names(config: &Config, named: Addresses) -> Names {
    let mut names = Names { named, ..Names::default() };
    names.macs = tidegate_live::shaping::devices(config).unwrap_or_default();
    for user in config.rules.iter().flat_map(|rule| &rule.matches.users) {
        if let User::Name(name) = user {
            names.users.insert(name.clone(), tidegate_live::shaping::user_number(name).unwrap_or(u32::MAX));
        }
    }
    names
}

/// Says what the rules of the running shaper choose for a packet at the time of the options. The state of queues is of now, and is
/// left out.
fn at_another_time(
    args: &Args,
    (config, direction): (&Config, &str),
    fields: Fields,
    names: Names,
    client: &mut Client,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let status = client.status()?;
    let of_direction = status.directions.iter().filter(|one| one.name == direction);
    let used_up = of_direction.flat_map(|one| &one.quotas).filter(|quota| quota.is_used_up());
    let mut settings = Settings::seeded(args.seed);
    settings.setup.names = Names { off: config.rules_off(args.minute()), interfaces: Some(BTreeMap::new()), ..names };
    settings.setup.names.off.extend(used_up.map(|quota| quota.rule - 1));
    settings.invent_names(config);
    let run = Run::new(config, &settings, Instant::ZERO).map_err(|error| Failure::Failed(error.to_string()))?;
    let belongs = explain::belongs(&run, config, &settings.setup.names, &fields);
    names::warn_of_time(config);
    if args.json {
        let moment = args.minute().to_string();
        writeln!(out, "{:#}", json!({ "belongs": belongs.json(), "at": moment }))?;
        return Ok(());
    }
    print_rules(out, &belongs)?;
    let by = if belongs.by_default { ": no rule matches, and it is the default" } else { "" };
    Ok(writeln!(out, "class {} on {}{by}", belongs.class, args.minute())?)
}

/// The class and the rule that the shaper recorded, and those that the rules choose now if they differ.
fn recorded(explained: &Explained, config: &Config) -> String {
    let by = |rule: Option<u32>| match rule {
        None => "no rule matched".to_owned(),
        Some(_) if is_reservation(rule, config) => "by its reservation".to_owned(),
        Some(rule) => format!("by rule {rule}"),
    };
    let ago = explained.seen.as_ref().map_or_else(String::new, |seen| format!(" {} ago", output::wait(seen.idle)));
    let mut text = format!("class {}, {}, as the shaper recorded it{ago}\n", explained.class, by(explained.rule));
    if let Some(now) = &explained.now {
        let rule = explained.rule.and_then(|rule| config.rules.get(rule as usize - 1));
        let keys: Vec<&str> = rule.iter().flat_map(|rule| rule.matches.keys_of_packets()).collect();
        let why = match &keys[..] {
            [] => {
                "since then a time, a quota or the addresses of a device have changed, or its packets differ".to_owned()
            }
            keys => {
                format!("the rule is about single packets ({}), and the last one of the flow was such", keys.join(", "))
            }
        };
        let (class, by) = (&now.class, by(now.rule).replace("matched", "matches"));
        text.push_str(&format!("    a packet as above would now be in class {class} ({by}): {why}\n"));
    }
    text
}

/// The packet that is asked for: what an address or a port leaves open is as in the fastest flow that has them, which is the second
/// part of the result.
fn completed(args: &Args, client: &mut Client) -> Result<(Args, Option<String>), Failure> {
    let mut args = args.clone();
    let is_flow = [
        args.source.is_some(),
        args.destination.is_some(),
        args.source_port.is_some(),
        args.destination_port.is_some(),
    ];
    if !is_flow.contains(&true) || (!is_flow.contains(&false) && args.protocol.is_some()) {
        return Ok((args, None));
    }
    let seen =
        client.flows(&Flows { direction: args.direction.clone(), limit: Some(Flows::MOST), ..Flows::default() })?;
    let wanted = |flow: &Flow| {
        fn is<T: PartialEq>(asked: Option<T>, has: Option<T>) -> bool {
            asked.is_none() || asked == has
        }
        is(args.protocol.map(|protocol| protocol.0), flow.protocol.map(|protocol| protocol.0))
            && is(args.source(), flow.source)
            && is(args.destination(), flow.destination)
            && is(args.source_port, flow.source_port)
            && is(args.destination_port, flow.destination_port)
    };
    let of = |direction: &'_ DirectionObservation| -> Vec<(String, FlowObservation)> {
        let flows = direction.flows.iter().filter(|flow| wanted(&flow.flow));
        flows.map(|flow| (direction.name.clone(), flow.clone())).collect()
    };
    let mut found: Vec<(String, FlowObservation)> = seen.directions.iter().flat_map(of).collect();
    found.sort_by_key(|(_, flow)| std::cmp::Reverse(flow.rate));
    let Some((direction, fastest)) = found.first() else {
        return match args.source.is_some() == args.destination.is_some() {
            true => Ok((args, None)),
            // The choice of the rules depends on both ends.
            false => Err(Failure::Failed(
                "no flow that has this is known now; to ask what the rules choose, give --source and --destination"
                    .into(),
            )),
        };
    };
    let others = match found.len() - 1 {
        0 => String::new(),
        n => format!(", the fastest of {} that have this", n + 1),
    };
    let chosen = format!("{direction}: {}{others}", fastest.flow);
    (args.source, args.destination) =
        (fastest.flow.source.map(End::Address), fastest.flow.destination.map(End::Address));
    (args.source_port, args.destination_port) = (fastest.flow.source_port, fastest.flow.destination_port);
    args.protocol = fastest.flow.protocol.map(|protocol| Protocol(protocol.0));
    args.uid = args.uid.or(fastest.flow.uid);
    args.direction = Some(direction.clone());
    Ok((args, Some(chosen)))
}
