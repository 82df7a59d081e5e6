//! The output of `tidegate explain`.

use std::io::Write;

use tidegate_capture::scone::Signal;
use tidegate_config::values::dscp_name;
use tidegate_control::calls::{Explained, Rival};
use tidegate_core::DropReason;
use tidegate_engine::Disposition;
use tidegate_replay::explain::{Belongs, End, Explanation, level_bytes};
use tidegate_replay::meter::Departure;
use tidegate_units::Span;

use crate::commands::top::{coupled, show};
use crate::output;

/// Prints the queues that the packet would meet. `rival` is the class that has the rate which its class waits for.
pub fn print_state(out: &mut dyn Write, explained: &Explained, rival: Option<&Rival>) -> std::io::Result<()> {
    writeln!(
        out,
        "at this moment, {} packets ({} bytes) wait in all{}",
        explained.queue.packets,
        explained.queue.bytes.as_u64(),
        match explained.due {
            None => String::new(),
            Some(Span::ZERO) => "; the next may leave at once".to_owned(),
            Some(due) => format!("; the next may leave in {}", output::wait(due)),
        }
    )?;
    if let Some(waiting) = &explained.class_queue {
        let rate = explained.class_rate.map_or(String::new(), |rate| format!("; it has {}", show::rate(rate)));
        writeln!(out, "    in its class {} packets ({} bytes){rate}", waiting.packets, waiting.bytes.as_u64())?;
    }
    let width = output::width().map(|width| width.saturating_sub(4));
    for line in coupled::text([(explained.class.as_str(), explained.coupled.as_ref())], width).lines() {
        writeln!(out, "    {line}")?;
    }
    if let Some(rival) = rival {
        writeln!(out, "    its class waits for its share of the line: {}", rival.text())?;
    }
    if let Some(buckets) = &explained.buckets {
        writeln!(
            out,
            "    the bucket of its class holds {} of {} bytes, that of all {} of {}",
            buckets.class_bytes, buckets.class_depth_bytes, buckets.all_bytes, buckets.all_depth_bytes
        )?;
        if let (Some(level), Some(depth)) = (buckets.ceiling_bytes, buckets.ceiling_depth_bytes) {
            writeln!(out, "    that of its class's ceiling holds {level} of {depth}")?;
        }
    }
    if let Some(by) = explained.held_by {
        writeln!(out, "    its flow waits for a ceiling: {}", by.key())?;
    }
    if let Some(rate) = explained.outlook {
        let more = explained.at_most.filter(|most| *most > rate);
        let more =
            more.map_or(String::new(), |most| format!(", and up to {} while others leave theirs", show::rate(most)));
        let whom =
            if explained.shares_queue { "all of its flows together, which share its queue," } else { "its flow" };
        writeln!(out, "    as things stand its class gives {whom} {}{more}", show::rate(rate))?;
    }
    if let (Some(rate), Some(policy)) = (explained.advice, &explained.advised_by) {
        let signal = Signal::at_most(rate);
        writeln!(
            out,
            "    its class advises {policy} to flows of QUIC: {} of payload, told as {} (signal {})",
            show::rate(rate),
            show::rate(signal.rate()),
            signal.number()
        )?;
    }
    let Some(seen) = &explained.seen else {
        return writeln!(out, "its flow is not there, or flows are not counted; `tidegate top` lists them");
    };
    writeln!(
        out,
        "its flow: {} packets came, {} left, {} wait ({} bytes); it sends at {}",
        seen.arrived_packets,
        seen.sent_packets,
        seen.queue.packets,
        seen.queue.bytes.as_u64(),
        show::rate(seen.rate)
    )?;
    if let Some(through) = &seen.through {
        writeln!(out, "    it is displaced, and leaves through class {through}")?;
    }
    if let Some(minimum) = seen.minimum {
        let state = if seen.granted { "is promised" } else { "is asked for and cannot be promised yet" };
        writeln!(out, "    {} {state}", show::rate(minimum))?;
    }
    writeln!(
        out,
        "    of its last packets half waited at most {}, 99 of 100 {}",
        output::wait(seen.wait.p50),
        output::wait(seen.wait.p99)
    )?;
    for drops in &seen.dropped {
        let known = DropReason::ALL.into_iter().find(|reason| reason.name() == drops.reason);
        writeln!(out, "    {} were dropped: {}", drops.packets, known.map_or(drops.reason.clone(), because))?;
    }
    if seen.marked_packets > 0 {
        writeln!(out, "    congestion was marked on {}", seen.marked_packets)?;
    }
    Ok(())
}

/// Prints the rules that were compared with a packet.
pub fn print_rules(out: &mut dyn Write, belongs: &Belongs) -> std::io::Result<()> {
    for rule in &belongs.rules {
        let verdict = if rule.matches() { "matches" } else { "does not match" };
        writeln!(out, "rule {} (class {}) {verdict}", rule.number, rule.class)?;
        if rule.conditions.is_empty() {
            writeln!(out, "    it has no conditions")?;
        }
        for condition in &rule.conditions {
            let word = if condition.holds { "yes" } else { "no" };
            writeln!(out, "    {word:<3} {} is {}; wanted: {}", condition.key, condition.has, condition.wanted)?;
        }
    }
    Ok(())
}

pub fn print_belongs(out: &mut dyn Write, belongs: &Belongs) -> std::io::Result<()> {
    print_rules(out, belongs)?;
    match belongs.by_default {
        true if belongs.rules.is_empty() => writeln!(out, "class {}: there are no rules", belongs.class)?,
        true => writeln!(out, "class {}: no rule matches, and it is the default", belongs.class)?,
        false => writeln!(out, "class {}", belongs.class)?,
    }
    writeln!(out, "flow {:016x}", belongs.flow)
}

fn seconds(span: Span) -> String {
    format!("{:.9} s", span.as_secs_f64())
}

pub fn print_explanation(out: &mut dyn Write, explained: &Explanation) -> std::io::Result<()> {
    writeln!(out, "packet {} at {}: {}", explained.packet, seconds(explained.time), explained.meta_line())?;
    print_belongs(out, &explained.belongs)?;
    let state = &explained.state;
    writeln!(out, "when it came, {} packets ({} bytes) waited in all", state.packets, state.bytes.as_u64())?;
    if let Some(class) = &state.class {
        writeln!(
            out,
            "    in its class {} packets ({} bytes), of {} flows; it has {}, {} of it not promised",
            class.backlog.packets,
            class.backlog.bytes.as_u64(),
            class.flows,
            show::rate(class.rate),
            show::rate(class.unpromised)
        )?;
    }
    if let Some(levels) = &state.levels {
        writeln!(
            out,
            "    the bucket of its class held {} of {} bytes, that of all {} of {}",
            level_bytes(levels.class),
            levels.class_depth.as_u64(),
            level_bytes(levels.all),
            levels.all_depth.as_u64()
        )?;
        if let Some((level, depth)) = levels.ceiling {
            writeln!(out, "    that of its class's ceiling held {} of {}", level_bytes(level), depth.as_u64())?;
        }
    }
    match &state.flow {
        Some(flow) => writeln!(
            out,
            "    of its flow {} packets ({} bytes) waited; its rate was {}{}",
            flow.backlog.packets,
            flow.backlog.bytes.as_u64(),
            show::rate(flow.rate),
            match (flow.minimum.is_zero(), flow.granted) {
                (true, _) => String::new(),
                (false, true) => format!(", of which {} is promised", show::rate(flow.minimum)),
                (false, false) => format!("; {} is asked for and cannot be promised yet", show::rate(flow.minimum)),
            }
        )?,
        None if state.class.is_some() => writeln!(out, "    its flow was new")?,
        None => {}
    }
    if let Some(by) = explained.held_by {
        writeln!(out, "    with it its flow waited for a ceiling: that of its {}", by.name())?;
    }
    match &explained.end {
        End::WentBack => writeln!(out, "it was returned to be cut; its segments follow as separate packets"),
        End::Unknown => writeln!(out, "it is still queued at the end of the file"),
        End::Cut(segments, None) => {
            writeln!(out, "it was cut into {segments} segments, which are still queued at the end of the file")
        }
        End::Cut(segments, Some(departure)) => {
            writeln!(out, "it was cut into {segments} segments; of the last of them:")?;
            print_departure(out, explained, departure, None)
        }
        End::Left { departure, behind } => print_departure(out, explained, departure, Some(behind)),
    }
}

fn print_departure(
    out: &mut dyn Write,
    explained: &Explanation,
    departure: &Departure,
    behind: Option<&[u64; 3]>,
) -> std::io::Result<()> {
    let at = seconds(departure.time.since(explained.start));
    let packet = &departure.packet;
    writeln!(out, "the meters coloured it {}", packet.colour.name())?;
    if packet.segments > 1 {
        writeln!(out, "it represents {} packets and {} bytes on the link", packet.segments, packet.size.as_u64())?;
    }
    match departure.fate {
        Disposition::Dropped(reason) if departure.waited == Span::ZERO => {
            writeln!(out, "dropped as it came: {}", because(reason))?;
        }
        Disposition::Dropped(reason) => {
            writeln!(out, "dropped at {at}, after {}: {}", output::wait(departure.waited), because(reason))?;
        }
        Disposition::Sent(change) => {
            if departure.waited == Span::ZERO {
                writeln!(out, "it left at once")?;
            } else {
                writeln!(out, "it waited {} and left at {at}", output::wait(departure.waited))?;
                if let Some([flow, class, others]) = behind {
                    writeln!(
                        out,
                        "    in between left {flow} of its flow, {class} others of its class, {others} of other classes"
                    )?;
                }
                if let Some(due) = explained.due
                    && due > explained.time
                {
                    writeln!(
                        out,
                        "    nothing could leave before {}: the credit was used up until then",
                        seconds(due)
                    )?;
                }
            }
            if packet.left_by != packet.class {
                let by = explained.classes.get(packet.left_by.0 as usize).map_or("?", String::as_str);
                writeln!(out, "    through class {by}, to which its flow is displaced")?;
            }
            if let Some(dscp) = change.dscp {
                writeln!(out, "    its code point was changed to {}", dscp_name(dscp))?;
            }
            if change.congestion {
                writeln!(out, "    congestion was marked on it")?;
            }
        }
    }
    Ok(())
}

/// The explanation of a drop reason.
pub(super) fn because(reason: DropReason) -> String {
    let words = match reason {
        DropReason::QueueLimit => "the queue was full",
        DropReason::FlowLimit => "the queue of its flow was full, or exceeded its share of the buffer",
        DropReason::ClassLimit => "the queue of its class was full",
        DropReason::LargerThanBurst => "it is larger than the burst of its bucket",
        DropReason::Early => "the AQM dropped it early, to keep the queue short",
        DropReason::Forced => "the average exceeded the hard limit of the AQM",
        DropReason::TooOld => "it had waited longer than is allowed",
        DropReason::Policed => "it exceeded its profile",
        DropReason::AckFiltered => "a later acknowledgement supersedes it",
        DropReason::NoClass => "no class accepts it",
        DropReason::Flushed => "the discipline was replaced, or the interface went down",
        _ => "",
    };
    format!("{words} ({})", reason.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_a_flow_are_told_beside_its_drops() {
        let reply = |marked: u64| {
            format!(
                r#"{{"direction":"up","rule":1,"class":"media","flow":{{"key":"9f3c7a1e00b24d55","protocol":17}},"queue_packets":0,
                "queue_bytes":0,"seen":{{"flow":{{"key":"fa0ed18152d9aae1","protocol":17}},"class":"media","age_ns":2116908144,
                "idle_ns":19603544,"rate_bps":3899966,"share_bps":4000000,"granted":false,"preferred":0,"arrived_packets":1273,
                "arrived_bytes":1308644,"sent_packets":1023,"sent_bytes":1051644,"borrowed_bytes":0,"queue_packets":0,"queue_bytes":0,
                "wait_p50_ns":92274688,"wait_p90_ns":92274688,"wait_p99_ns":92274688,"wait_longest_ns":100479302,"jitter_ns":679336,
                "dropped":[{{"reason":"flow_limit","packets":250}}],"dropped_bytes":257000,"marked_packets":{marked},
                "remarked_packets":0,"promise_kept_seconds":0,"promise_missed_seconds":0}}}}"#
            )
        };
        let told = |marked| {
            let explained: Explained = serde_json::from_str(&reply(marked)).expect("a reply");
            let mut out = Vec::new();
            print_state(&mut out, &explained, None).expect("memory");
            String::from_utf8(out).expect("text")
        };
        let text = told(17);
        assert!(text.contains("250 were dropped") && text.contains("congestion was marked on 17\n"), "{text}");
        assert!(!told(0).contains("marked"));
    }

    /// In a class with a queue of its own the shaper has one flow, of which a rate is not that of each flow in the queue.
    #[test]
    fn the_rate_of_a_class_whose_flows_share_a_queue_is_not_that_of_a_flow() {
        let told = |shares_queue: bool| {
            let reply = format!(
                r#"{{"direction":"up","class":"all","flow":{{"key":"9f3c7a1e00b24d55","protocol":17}},"queue_packets":0,
                "queue_bytes":0,"outlook_bps":19000000,"shares_queue":{shares_queue},"coupled":{{"low_latency":{{"queue_packets":7,
                "queue_bytes":9000,"delay_ns":900000,"wait_mean_ns":1,"wait_sum_ns":1,"enqueued_packets":1,"sent_packets":1,
                "marked_packets":1,"dropped_packets":0}},"classic":{{"queue_packets":0,"queue_bytes":0,"delay_ns":0,"wait_mean_ns":0,
                "wait_sum_ns":0,"enqueued_packets":0,"sent_packets":0,"marked_packets":0,"dropped_packets":0}},"sanctioned":{{
                "queue_packets":0,"queue_bytes":0,"delay_ns":0,"wait_mean_ns":0,"wait_sum_ns":0,"enqueued_packets":0,"sent_packets":0,
                "marked_packets":0,"dropped_packets":0}},"coupled_ppm":250000,"classic_ppm":15625}}}}"#
            );
            let explained: Explained = serde_json::from_str(&reply).expect("a reply");
            let mut out = Vec::new();
            print_state(&mut out, &explained, None).expect("memory");
            String::from_utf8(out).expect("text")
        };
        let shared = told(true);
        assert!(
            shared.contains("its class gives all of its flows together, which share its queue, 19.0 Mbit/s"),
            "{shared}"
        );
        assert!(shared.contains("low-latency") && shared.contains("900 µs") && shared.contains("25 %"), "{shared}");
        assert!(told(false).contains("its class gives its flow 19.0 Mbit/s"));
    }
}
