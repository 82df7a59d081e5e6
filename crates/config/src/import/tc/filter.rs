//! Filters of `tc` as rules: u32, flower, fw and matchall.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::super::{Input, quoted, toml};
use super::read::{Kind, Record};

/// Conditions of a rule: keys and values, as they stand in the file.
type Conditions = Vec<(&'static str, String)>;

/// The rules for the filters at `root`, in the order in which the kernel asks them, and the class that takes all other
/// packets, if a filter leads them to one. What is not a rule here is left.
pub fn rules(
    input: &mut Input<'_>,
    root: &Record,
    records: &[&Record],
    leaves: &BTreeSet<&str>,
) -> (String, Option<String>) {
    let mut filters: Vec<&Record> = records.iter().filter(|record| record.what == Kind::Filter).copied().collect();
    filters.sort_by_key(|filter| filter.get("pref").and_then(|text| text.parse::<u32>().ok()).unwrap_or(u32::MAX));
    let (mut text, mut is_noted) = (String::new(), false);
    let mut taken: Option<String> = None;
    for filter in filters {
        let name = format!("the filter {} of pref {}", quoted(&filter.kind), filter.get("pref").unwrap_or("?"));
        let Some(class) = filter.get("flowid").or(filter.get("classid")).filter(|class| class.contains(':')) else {
            // Heads of hash tables and of chains classify nothing.
            if filter.has("match") || filter.has("action") || filter.has("handle") {
                input.leave(filter.line, format!("{name}: it leads to no class"));
            }
            continue;
        };
        if !filter.parent.is_empty() && filter.parent != root.id {
            input.leave(filter.line, format!("{name}: it is below {}; rules here are for all", quoted(&filter.parent)));
            continue;
        }
        if taken.is_some() {
            input.leave(filter.line, format!("{name}: a filter before it takes every packet"));
            continue;
        }
        if !leaves.contains(class) {
            input.leave(filter.line, format!("{name}: {} is not a class with a queue", quoted(class)));
            continue;
        }
        if filter.has("action") {
            input.leave(filter.line, format!("an action of {name}: it only classifies here"));
        }
        match conditions(filter) {
            Ok(conditions) if conditions.is_empty() => taken = Some(class.to_owned()),
            Ok(conditions) => {
                let has_address = conditions.iter().any(|(key, _)| matches!(*key, "source" | "destination"));
                if filter.get("protocol") == Some("ip") && !has_address && !is_noted {
                    is_noted = true;
                    input.leave(filter.line, "filters of `protocol ip` that name no address match IPv6 here as well");
                }
                let _ = writeln!(text, "\n[[rule]]\nclass = {}", toml(class));
                for (key, value) in conditions {
                    let _ = writeln!(text, "{key} = {value}");
                }
            }
            Err(why) => input.leave(filter.line, format!("{name} to {}: {why}", quoted(class))),
        }
    }
    (text, taken)
}

/// # Errors
/// Parts of filters without a counterpart.
fn conditions(filter: &Record) -> Result<Conditions, String> {
    match filter.kind.as_str() {
        "u32" => u32_matches(filter),
        "flower" => flower(filter),
        "matchall" => Ok(Vec::new()),
        "fw" => match filter.get("handle") {
            Some(mark) if is_mark(mark) => Ok(vec![("mark", toml(mark))]),
            _ => Err("the mark is not shown".into()),
        },
        _ => Err("rules have no such condition".into()),
    }
}

fn is_mark(text: &str) -> bool {
    text.split('/').all(|part| number(part).is_some()) && text.matches('/').count() < 2
}

/// A number, in hexadecimal with `0x`.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The conditions of a flower.
fn flower(filter: &Record) -> Result<Conditions, String> {
    let mut found = Conditions::new();
    for (key, value) in &filter.options {
        let condition = match key.as_str() {
            "eth_type" if matches!(value.as_str(), "ipv4" | "ipv6") => continue,
            "ip_proto" => ("protocol", toml(value)),
            "src_ip" => ("source", toml(value)),
            "dst_ip" => ("destination", toml(value)),
            "src_port" => ("source-port", ports(value)?),
            "dst_port" => ("destination-port", ports(value)?),
            "ip_tos" => {
                let (value, mask) = value.split_once('/').unwrap_or((value, "0xff"));
                let hex = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok();
                match hex(value).zip(hex(mask)) {
                    Some((value, mask)) if mask & 0xfc == 0xfc => ("dscp", (value >> 2 & 63).to_string()),
                    _ => return Err(format!("ip_tos {}", quoted(value))),
                }
            }
            "protocol" | "pref" | "chain" | "handle" | "classid" | "flowid" | "not_in_hw" | "action" | "fh" => continue,
            other => return Err(format!("rules have no condition like {}", quoted(other))),
        };
        found.push(condition);
    }
    Ok(found)
}

fn ports(text: &str) -> Result<String, String> {
    let parts: Vec<Option<u16>> = text.split('-').map(|part| part.parse().ok()).collect();
    match parts[..] {
        [Some(one)] => Ok(one.to_string()),
        [Some(from), Some(to)] => Ok(format!("\"{from}-{to}\"")),
        _ => Err(format!("{} is no port", quoted(text))),
    }
}

/// A match of 32 bits of a packet.
struct Word {
    value: u32,
    mask: u32,
    at: u32,
}

impl Word {
    /// `00000016/0000ffff at 20`, or `at nexthdr+0`, which begins behind a header of `header` bytes.
    fn read(text: &str, header: u32) -> Option<Self> {
        let (bits, at) = text.split_once(" at ")?;
        let (value, mask) = bits.split_once('/')?;
        let hex = |text: &str| u32::from_str_radix(text, 16).ok();
        let at = match at.trim().strip_prefix("nexthdr+") {
            Some(behind) => header.checked_add(number(behind)?)?,
            None => number(at.trim())?,
        };
        Some(Self { value: hex(value)?, mask: hex(mask)?, at })
    }
}

/// The conditions of a u32, by the places of the fields in the headers of IPv4 (RFC 791) without options, or IPv6 (RFC 8200).
fn u32_matches(filter: &Record) -> Result<Conditions, String> {
    let is_v6 = filter.get("protocol") == Some("ipv6");
    let header = if is_v6 { 40 } else { 20 };
    let matches = || filter.options.iter().filter(|(key, _)| key == "match").map(|(_, text)| text);
    let mut words = Vec::new();
    for text in matches() {
        words.push(Word::read(text, header).ok_or_else(|| format!("{} cannot be read", quoted(text)))?);
    }
    let mut found = Conditions::new();
    let mut addresses = [([0_u32; 4], [0_u32; 4]); 2];
    for word in words.iter().filter(|word| word.mask != 0) {
        let Word { value, mask, at } = *word;
        let place = format!("{value:08x}/{mask:08x} at {at} is no field that rules have");
        match (is_v6, at) {
            (false, 0) if mask & !0x00ff_0000 == 0 && mask & 0x00fc_0000 == 0x00fc_0000 => {
                found.push(("dscp", (value >> 18 & 63).to_string()));
            }
            (true, 0) if mask & !0x0ff0_0000 == 0 && mask & 0x0fc0_0000 == 0x0fc0_0000 => {
                found.push(("dscp", (value >> 22 & 63).to_string()));
            }
            (false, 8) if mask == 0x00ff_0000 => found.push(("protocol", (value >> 16 & 255).to_string())),
            (true, 4) if mask == 0x0000_ff00 => found.push(("protocol", (value >> 8 & 255).to_string())),
            (false, 12 | 16) => {
                let (values, masks) = &mut addresses[(at as usize - 12) / 4];
                (values[0], masks[0]) = (value, mask);
            }
            (true, 8..=36) if at % 4 == 0 => {
                let (values, masks) = &mut addresses[(at as usize - 8) / 16];
                let part = (at as usize - 8) % 16 / 4;
                (values[part], masks[part]) = (value, mask);
            }
            (_, at) if at == header => {
                for (key, shift) in [("source-port", 16), ("destination-port", 0)] {
                    let (value, mask) = ((value >> shift) as u16, (mask >> shift) as u16);
                    if mask != 0 {
                        found.push((key, port_range(value, mask).ok_or(place.clone())?));
                    }
                }
            }
            _ => return Err(place),
        }
    }
    for (key, (values, masks)) in ["source", "destination"].into_iter().zip(addresses) {
        if masks != [0; 4] {
            let text = prefix(values, masks, is_v6).ok_or("the mask of an address is no prefix")?;
            found.push((key, toml(&text)));
        }
    }
    Ok(found)
}

/// The ports of a value under a mask, where they follow each other.
fn port_range(value: u16, mask: u16) -> Option<String> {
    let first = value & mask;
    let last = first | !mask;
    let is_prefix = mask.leading_ones() + mask.trailing_zeros() == 16;
    is_prefix.then(|| if first == last { first.to_string() } else { format!("\"{first}-{last}\"") })
}

/// An address and the length of its prefix.
fn prefix(values: [u32; 4], masks: [u32; 4], is_v6: bool) -> Option<String> {
    let whole = |parts: [u32; 4]| parts.iter().fold(0_u128, |sum, part| sum << 32 | u128::from(*part));
    let (value, mask) = (whole(values), whole(masks));
    if mask.leading_ones() + mask.trailing_zeros() != 128 {
        return None;
    }
    let (value, length) = (value & mask, mask.leading_ones());
    Some(match is_v6 {
        true => format!("{}/{length}", Ipv6Addr::from_bits(value)),
        false => format!("{}/{length}", Ipv4Addr::from_bits((value >> 96) as u32)),
    })
}
