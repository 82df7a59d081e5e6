//! The output of `tc` as records: its text, which has a line for each object and indented ones below it, and its JSON.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::super::{ImportError, Input, quoted};

/// The sort of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Qdisc,
    Class,
    Filter,
}

/// An object that `tc` shows.
#[derive(Clone, Debug)]
pub struct Record {
    pub line: usize,
    pub what: Kind,
    /// The name of the discipline or of the classifier.
    pub kind: String,
    /// The handle, or the number of the class.
    pub id: String,
    /// The class or the discipline above it; empty at the root.
    pub parent: String,
    pub device: Option<String>,
    /// Options in their order; those without a value have an empty one.
    pub options: Vec<(String, String)>,
}

impl Record {
    fn new(line: usize, what: Kind) -> Self {
        Self {
            line,
            what,
            kind: String::new(),
            id: String::new(),
            parent: String::new(),
            device: None,
            options: Vec::new(),
        }
    }
    pub fn get(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
    pub fn is_root(&self) -> bool {
        self.parent.is_empty() && self.id != "ffff:"
    }
    /// The options as words.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.options.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]).filter(|word| !word.is_empty())
    }
    fn set(&mut self, name: &str, value: &str) {
        match name {
            "parent" => self.parent = value.to_owned(),
            "dev" => self.device = Some(value.to_owned()),
            "root" | "ingress_block" | "egress_block" => {}
            name => self.options.push((name.to_owned(), value.to_owned())),
        }
    }
}

/// The options of disciplines and classes that have a value.
const VALUED: [&str; 40] = [
    "alpha",
    "bands",
    "bandwidth",
    "beta",
    "burst",
    "cburst",
    "ce_threshold",
    "ceil",
    "default",
    "depth",
    "dev",
    "direct_packets_stat",
    "direct_qlen",
    "divisor",
    "drop_batch",
    "flows",
    "fwmark",
    "interval",
    "lat",
    "latency",
    "leaf",
    "level",
    "limit",
    "linklayer",
    "memlimit",
    "memory_limit",
    "minburst",
    "mpu",
    "mtu",
    "overhead",
    "parent",
    "peakrate",
    "perturb",
    "prio",
    "quantum",
    "r2q",
    "rate",
    "refcnt",
    "rtt",
    "target",
];
/// Those of filters.
const VALUED_OF_FILTERS: [&str; 16] = [
    "parent", "protocol", "pref", "chain", "fh", "order", "ht", "bkt", "flowid", "classid", "handle", "dev", "divisor",
    "link", "block", "police",
];

/// Reads all records.
///
/// # Errors
/// For a line that `tc` does not print, with its number.
pub fn records(input: &Input<'_>) -> Result<Vec<Record>, ImportError> {
    let mut records: Vec<Record> = Vec::new();
    let text = input.source.text();
    let (mut at, mut line) = (0, 1);
    while at < text.len() {
        let rest = &text[at..];
        let end = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let one = &rest[..end];
        let used = if one.trim_start().starts_with('[') {
            json(input, rest, line, &mut records)?
        } else {
            text_line(input, one.trim_end(), line, &mut records)?;
            end
        };
        line += rest[..used].matches('\n').count();
        at += used;
    }
    Ok(records)
}

/// Reads a line of the text form.
fn text_line(input: &Input<'_>, text: &str, line: usize, records: &mut Vec<Record>) -> Result<(), ImportError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let Some((first, rest)) = words.split_first() else { return Ok(()) };
    let what = match *first {
        "qdisc" => Kind::Qdisc,
        "class" => Kind::Class,
        "filter" => Kind::Filter,
        word if word.starts_with('#') => return Ok(()),
        _ if text.starts_with([' ', '\t']) && !records.is_empty() => {
            if let Some(record) = records.last_mut() {
                below(record, &words);
            }
            return Ok(());
        }
        "tc" => {
            let help = "run it, then import what `tc` shows: `tidegate import tc --interface NAME`";
            return Err(input.error(line, "this is a command, and not what `tc` shows", help));
        }
        // Statistics of `-s` in some versions begin at the margin.
        "Sent" | "backlog" | "rate" | "lended:" | "tokens:" if !records.is_empty() => return Ok(()),
        // Continuations of a filter that some versions do not indent.
        "match" | "action" | "police" | "not_in_hw" | "in_hw" if !records.is_empty() => {
            if let Some(record) = records.last_mut() {
                below(record, &words);
            }
            return Ok(());
        }
        word => {
            let message = format!("{} does not begin a line of `tc`", quoted(word));
            return Err(input.error(
                line,
                message,
                "give the output of `tc qdisc show`, `tc class show` or `tc filter show`",
            ));
        }
    };
    let mut record = Record::new(line, what);
    let mut rest = rest.iter().copied();
    if what != Kind::Filter {
        let mut next = || rest.next().ok_or_else(|| input.error(line, "the line ends too early", "copy it as a whole"));
        record.kind = next()?.to_owned();
        record.id = next()?.to_owned();
    }
    let mut rest = rest.peekable();
    while let Some(word) = rest.next() {
        let word = word.trim_start_matches('*');
        let valued = if what == Kind::Filter { &VALUED_OF_FILTERS[..] } else { &VALUED[..] };
        let value = if valued.contains(&word) { rest.next().unwrap_or_default() } else { "" };
        record.set(word, value);
        // The name of the classifier has no key before it.
        if word == "pref" && what == Kind::Filter {
            record.kind = rest.next().unwrap_or_default().to_owned();
        }
    }
    records.push(record);
    Ok(())
}

/// A line below a record: a match or an action of a filter, or statistics.
fn below(record: &mut Record, words: &[&str]) {
    if record.what != Kind::Filter {
        return;
    }
    match words {
        ["match", rest @ ..] => record.options.push(("match".into(), rest.join(" "))),
        ["not_in_hw" | "in_hw" | "in_hw_count" | "success" | "skip_hw" | "skip_sw", ..] => {}
        ["action", ..] | ["police", ..] => record.options.push(("action".into(), words.join(" "))),
        // Details of an action.
        _ if record.has("action") => {}
        [key, rest @ ..] => record.options.push(((*key).into(), rest.join(" "))),
        [] => {}
    }
}

/// Reads an array of objects; returns the bytes that it has.
fn json(input: &Input<'_>, text: &str, line: usize, records: &mut Vec<Record>) -> Result<usize, ImportError> {
    let mut all = serde_json::Deserializer::from_str(text).into_iter::<Json>();
    let help = "give the output of `tc -j` as it is";
    let list = match all.next() {
        Some(Ok(Json::List(list))) => list,
        Some(Err(error)) => {
            return Err(input.error(line + error.line().saturating_sub(1), format!("it is not JSON: {error}"), help));
        }
        _ => return Err(input.error(line, "it is not a list of objects", help)),
    };
    for object in list {
        let Json::Object(pairs) = object else { return Err(input.error(line, "it is not a list of objects", help)) };
        // Empty objects stand for what some versions print as text instead.
        if !pairs.is_empty() {
            records.push(object_of(pairs, line));
        }
    }
    Ok(all.byte_offset())
}

fn object_of(pairs: Vec<(String, Json)>, line: usize) -> Record {
    let has = |name: &str| pairs.iter().any(|(key, _)| key == name);
    let what = match (has("class"), has("protocol") || has("pref")) {
        (true, _) => Kind::Class,
        (false, true) => Kind::Filter,
        (false, false) => Kind::Qdisc,
    };
    let mut record = Record::new(line, what);
    for (key, value) in pairs {
        match (key.as_str(), value) {
            ("kind" | "class", value) => record.kind = value.text(),
            ("handle", value) if what != Kind::Filter => record.id = value.text(),
            ("options", Json::Object(options)) => {
                options.into_iter().for_each(|(key, value)| option(&mut record, &key, value))
            }
            ("stats" | "bytes" | "packets" | "drops" | "overlimits" | "requeues" | "backlog" | "qlen", _) => {}
            (key, value) => option(&mut record, key, value),
        }
    }
    record
}

/// Takes an option of the JSON form in that of the text: rates are in B/s there, and times in microseconds.
fn option(record: &mut Record, key: &str, value: Json) {
    let is_queue = record.what != Kind::Filter;
    match (key, value) {
        ("keys", Json::Object(keys)) => keys.into_iter().for_each(|(key, value)| record.set(&key, &value.text())),
        ("match", Json::Object(parts)) => {
            let part = |name: &str| {
                let found = parts.iter().find(|(key, _)| key == name);
                found.map(|(_, value)| value.text()).unwrap_or_default()
            };
            let text = format!("{}/{} at {}{}", part("value"), part("mask"), part("offmask"), part("off"));
            record.options.push(("match".into(), text));
        }
        ("actions" | "police", _) => record.options.push(("action".into(), key.to_owned())),
        ("rate" | "ceil" | "bandwidth" | "peakrate", Json::Number(number)) if is_queue => {
            let bits = number.parse::<u64>().ok().and_then(|bytes| bytes.checked_mul(8));
            record.set(key, &bits.map_or(number, |bits| format!("{bits}bit")));
        }
        ("target" | "interval" | "rtt" | "lat" | "ce_threshold", Json::Number(number)) if is_queue => {
            record.set(key, &format!("{number}us"));
        }
        ("perturb", Json::Number(number)) => record.set(key, &format!("{number}sec")),
        // The names of CAKE's choices are values there.
        ("diffserv" | "flowmode" | "atm", Json::Text(word)) => record.set(&word, ""),
        ("ack-filter", Json::Text(word)) => {
            let word = match word.as_str() {
                "enabled" => "ack-filter",
                "aggressive" => "ack-filter-aggressive",
                _ => "no-ack-filter",
            };
            record.set(word, "");
        }
        ("raw", Json::Bool(_)) => {}
        (key, Json::Bool(true)) => record.set(&key.replace('_', if key == "split_gso" { "-" } else { "_" }), ""),
        (_, Json::Bool(false) | Json::Null) => {}
        (key, value) => record.set(key, &value.text()),
    }
}

/// A value of JSON that keeps all members of an object: `tc` repeats keys.
#[derive(Debug)]
enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    fn text(&self) -> String {
        match self {
            Self::Number(text) | Self::Text(text) => text.clone(),
            Self::Bool(value) => value.to_string(),
            Self::Null | Self::List(_) | Self::Object(_) => String::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Json;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
                Ok(Json::Bool(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
                Ok(Json::Number(value.to_string()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
                Ok(Json::Number(value.to_string()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
                Ok(Json::Number(value.to_string()))
            }
            fn visit_str<E>(self, value: &str) -> Result<Json, E> {
                Ok(Json::Text(value.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = list.next_element()? {
                    all.push(one);
                }
                Ok(Json::List(all))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Json::Object(pairs))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
