//! Explanations as JSON.

use serde_json::{Value, json};
use tidegate_config::values::dscp_name;
use tidegate_engine::Disposition;
use tidegate_replay::explain::{Belongs, End, Explanation, colour_name};
use tidegate_replay::meter::Departure;

use super::{bytes_of, packet_line};

pub fn belongs_json(belongs: &Belongs) -> Value {
    let rules: Vec<_> = belongs
        .rules
        .iter()
        .map(|rule| {
            let conditions: Vec<_> = rule
                .conditions
                .iter()
                .map(|c| json!({ "key": c.key, "wanted": c.wanted, "has": c.has, "holds": c.holds }))
                .collect();
            json!({ "rule": rule.number, "class": rule.class, "matches": rule.matches(), "conditions": conditions })
        })
        .collect();
    json!({
        "class": belongs.class,
        "by_default": belongs.by_default,
        "flow": format!("{:016x}", belongs.flow),
        "rules": rules,
    })
}

pub fn explanation_json(explained: &Explanation) -> Value {
    let state = &explained.state;
    let class = state.class.as_ref().map(|class| {
        json!({
            "packets": class.backlog.packets,
            "bytes": class.backlog.bytes.as_u64(),
            "flows": class.flows,
            "rate_bps": class.rate.as_bps(),
            "unpromised_bps": class.unpromised.as_bps(),
        })
    });
    let flow = state.flow.as_ref().map(|flow| {
        json!({
            "packets": flow.backlog.packets,
            "bytes": flow.backlog.bytes.as_u64(),
            "rate_bps": flow.rate.as_bps(),
            "minimum_bps": flow.minimum.as_bps(),
            "granted": flow.granted,
        })
    });
    let buckets = state.levels.as_ref().map(|levels| {
        json!({
            "class_bytes": bytes_of(levels.class),
            "class_depth_bytes": levels.class_depth.as_u64(),
            "all_bytes": bytes_of(levels.all),
            "all_depth_bytes": levels.all_depth.as_u64(),
        })
    });
    let left = |departure: &Departure| {
        let (how, reason, change) = match departure.fate {
            Disposition::Sent(change) => ("passed", None, Some(change)),
            Disposition::Dropped(reason) => ("dropped", Some(reason.name()), None),
        };
        json!({
            "how": how,
            "reason": reason,
            "at_ns": departure.time.since(explained.start).as_nanos(),
            "waited_ns": departure.waited.as_nanos(),
            "colour": colour_name(departure.packet.colour),
            "through": explained.classes.get(departure.packet.left_by.0 as usize),
            "dscp": change.and_then(|change| change.dscp).map(dscp_name),
            "marked": change.is_some_and(|change| change.congestion),
        })
    };
    let end = match &explained.end {
        End::Left { departure, behind } => {
            let mut end = left(departure);
            end["behind_packets"] = json!({ "flow": behind[0], "class": behind[1], "others": behind[2] });
            end
        }
        End::Cut(segments, last) => {
            json!({ "how": "cut", "segments": segments, "last": last.as_deref().map(left) })
        }
        End::WentBack => json!({ "how": "went-back" }),
        End::Unknown => json!({ "how": "unknown" }),
    };
    json!({
        "packet": explained.packet,
        "at_ns": explained.time.as_nanos(),
        "is": packet_line(&explained.meta),
        "belongs": belongs_json(&explained.belongs),
        "waiting_packets": state.packets,
        "waiting_bytes": state.bytes.as_u64(),
        "class": class,
        "buckets": buckets,
        "flow": flow,
        "due_ns": explained.due.map(|due| due.as_nanos()),
        "end": end,
    })
}
