//! Explanations as JSON.

use serde_json::{Value, json};
use tidegate_config::values::{Protocol, dscp_name};
use tidegate_core::Credit;
use tidegate_core::classify::Hosts;
use tidegate_core::fbq::HeldBy;
use tidegate_engine::{Disposition, PacketMeta};

use super::{Belongs, End, Explanation};
use crate::flows::end;
use crate::meter::Departure;

impl Belongs {
    /// The rules up to the one that matched, the class and the flow, as `tidegate explain --json` prints them.
    pub fn json(&self) -> Value {
        let rules: Vec<_> = self
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
            "class": self.class,
            "by_default": self.by_default,
            "flow": format!("{:016x}", self.flow),
            "rules": rules,
        })
    }
}

impl Explanation {
    /// The explanation, as `tidegate explain --json` prints it. Keys have the units of their values.
    pub fn json(&self) -> Value {
        let state = &self.state;
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
                "class_bytes": level_bytes(levels.class),
                "class_depth_bytes": levels.class_depth.as_u64(),
                "all_bytes": level_bytes(levels.all),
                "all_depth_bytes": levels.all_depth.as_u64(),
                "ceiling_bytes": levels.ceiling.map(|(level, _)| level_bytes(level)),
                "ceiling_depth_bytes": levels.ceiling.map(|(_, depth)| depth.as_u64()),
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
                "at_ns": departure.time.since(self.start).as_nanos(),
                "waited_ns": departure.waited.as_nanos(),
                "colour": departure.packet.colour.name(),
                "through": self.classes.get(departure.packet.left_by.0 as usize),
                "dscp": change.and_then(|change| change.dscp).map(dscp_name),
                "marked": change.is_some_and(|change| change.congestion),
            })
        };
        let end = match &self.end {
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
            "packet": self.packet,
            "at_ns": self.time.as_nanos(),
            "is": self.meta_line(),
            "belongs": self.belongs.json(),
            "waiting_packets": state.packets,
            "waiting_bytes": state.bytes.as_u64(),
            "class": class,
            "buckets": buckets,
            "flow": flow,
            "due_ns": self.due.map(|due| due.as_nanos()),
            "held_by": self.held_by.map(HeldBy::name),
            "end": end,
        })
    }

    /// A description of the packet in one line.
    pub fn meta_line(&self) -> String {
        packet_line(&self.meta)
    }
}

fn packet_line(seen: &PacketMeta) -> String {
    let fields = &seen.fields;
    if fields.hosts == Hosts::Unknown {
        return format!("not IP, or its headers cannot be read; {} bytes", seen.length);
    }
    let protocol = fields.protocol.map_or("?".into(), |number| Protocol(number).to_string());
    let fragment = match fields.fragment {
        Some(fragment) => format!(", fragment {} at {}", fragment.id, fragment.offset),
        None => String::new(),
    };
    format!(
        "{} > {} {protocol}, dscp {}, {} bytes{fragment}",
        end(fields.hosts.source(), fields.source_port),
        end(fields.hosts.destination(), fields.destination_port),
        dscp_name(fields.dscp),
        seen.length
    )
}

/// The level of a bucket in whole bytes, negative if it is in debt.
pub fn level_bytes(credit: Credit) -> i64 {
    i64::try_from(credit.as_raw() / 8_000_000_000).unwrap_or(i64::MAX)
}
