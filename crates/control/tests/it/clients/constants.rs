//! The constants of the protocol, under a name in each language: its version, places, time limits, units, codes of refusals and
//! kinds of events.

use std::fmt::Write as _;
use std::time::Duration;

use tidegate_control::calls::{Protocol, capitals};
use tidegate_control::protocol::{CHANGE_TIMEOUT, CONNECT_TIMEOUT, DIRECTORY, LONGEST, REPLY_TIMEOUT, VERSION};

use super::commented;
use super::declared::{Declared, Shape, constants, declared_in};

const SOURCE: &str = include_str!("../../../src/protocol.rs");
const KINDS: &str = "What an event reports.";
const MARK: &str = "Generated from crates/control/src/protocol.rs and calls; do not edit.";

enum Value {
    Number(u64),
    Text(&'static str),
    Time(Duration),
}

/// Name, value and documentation of each constant. The names are those of the crate.
fn all() -> Vec<(&'static str, Value, String)> {
    let documented = constants(SOURCE);
    let of_source = [
        ("VERSION", Value::Number(VERSION.into())),
        ("LONGEST", Value::Number(LONGEST as u64)),
        ("DIRECTORY", Value::Text(DIRECTORY)),
        ("CONNECT_TIMEOUT", Value::Time(CONNECT_TIMEOUT)),
        ("REPLY_TIMEOUT", Value::Time(REPLY_TIMEOUT)),
        ("CHANGE_TIMEOUT", Value::Time(CHANGE_TIMEOUT)),
    ];
    let of_source = of_source.into_iter().map(|(name, value)| {
        let documentation = documented[name].replace("`", "");
        (name, value, documentation)
    });
    let number = |name, value: u64, text: &str| (name, Value::Number(value), text.to_owned());
    let others = [
        number("TCP", Protocol::TCP.0.into(), "The protocol of a target or a flow: TCP."),
        number("UDP", Protocol::UDP.0.into(), "The protocol of a target or a flow: UDP."),
        number("KBIT", 1_000, "A kilobit a second, in bit/s."),
        number("MBIT", 1_000_000, "A megabit a second, in bit/s."),
        number("GBIT", 1_000_000_000, "A gigabit a second, in bit/s."),
    ];
    of_source.chain(others).collect()
}

/// The codes of refusals with their meanings.
fn codes() -> (String, Vec<(String, String)>) {
    let Declared { documentation, shape: Shape::Names(names), .. } = declared_in(SOURCE, "Code") else {
        panic!("Code has names")
    };
    (
        documentation,
        names.into_iter().map(|(name, text)| (name, text.replace("`LONGEST`", "the longest request"))).collect(),
    )
}

/// The kinds of events with their meanings.
fn kinds() -> Vec<(String, String)> {
    let Shape::Names(names) = declared_in(include_str!("../../../src/calls/events.rs"), "EventKind").shape else {
        panic!("EventKind has names")
    };
    names
}

/// `no-room` as `NO_ROOM`.
fn upper(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

/// `CONNECT_TIMEOUT` as `ConnectTimeout`; protocols have the prefix that Go gives the values of a type.
fn go_name(name: &str) -> String {
    match name {
        "TCP" | "UDP" => format!("Protocol{name}"),
        _ => capitals(&name.to_lowercase()),
    }
}

pub fn go() -> String {
    let mut out = String::from(
        "// Code generated from crates/control/src/protocol.rs and calls; DO NOT EDIT.\n\npackage tidegate\n\nimport \"time\"\n\nconst (\n",
    );
    let lines: Vec<String> = all()
        .into_iter()
        .map(|(name, value, text)| {
            let of = if matches!(name, "TCP" | "UDP") { " Protocol" } else { "" };
            let value = match value {
                Value::Number(value) => value.to_string(),
                Value::Text(value) => format!("{value:?}"),
                Value::Time(value) => format!("{} * time.Second", value.as_secs()),
            };
            format!("{}\t{}{of} = {value}\n", commented(&text, "\t//"), go_name(name))
        })
        .collect();
    out += &lines.join("\n");
    let (documentation, names) = codes();
    write!(out, ")\n\n{}type Code string\n\nconst (\n", commented(&documentation, "//")).expect("a string");
    let lines: Vec<String> = names
        .iter()
        .map(|(name, text)| format!("{}\tCode{} Code = {name:?}\n", commented(text, "\t//"), capitals(name)))
        .collect();
    out + &lines.join("\n") + ")\n"
}

pub fn javascript() -> String {
    let mut out = format!("// {MARK}\n");
    for (name, value, text) in all() {
        let value = match value {
            Value::Number(value) => value.to_string(),
            Value::Text(value) => format!("{value:?}"),
            Value::Time(value) => value.as_millis().to_string(),
        };
        write!(out, "\n/** {text} */\nexport const {name} = {value};\n").expect("a string");
    }
    let (documentation, names) = codes();
    let lines: String = names.iter().map(|(name, _)| format!("  {}: {name:?},\n", upper(name))).collect();
    write!(out, "\n/** {documentation} */\nexport const Code = Object.freeze({{\n{lines}}});\n").expect("a string");
    let lines: String = kinds().iter().map(|(name, _)| format!("  {}: {name:?},\n", upper(name))).collect();
    out + &format!("\n/** {KINDS} */\nexport const Kind = Object.freeze({{\n{lines}}});\n")
}

pub fn typescript() -> String {
    let mut out = format!("// {MARK}\n");
    for (name, value, text) in all() {
        let (of, unit) = match value {
            Value::Number(_) => ("number", ""),
            Value::Text(_) => ("string", ""),
            Value::Time(_) => ("number", " In milliseconds."),
        };
        write!(out, "\n/** {text}{unit} */\nexport const {name}: {of};\n").expect("a string");
    }
    let (documentation, names) = codes();
    let lines: String =
        names.iter().map(|(name, text)| format!("  /** {text} */\n  readonly {}: {name:?};\n", upper(name))).collect();
    write!(out, "\n/** {documentation} */\nexport const Code: {{\n{lines}}};\n").expect("a string");
    let lines: String = kinds()
        .iter()
        .map(|(name, text)| format!("  /** {text} */\n  readonly {}: {name:?};\n", upper(name)))
        .collect();
    out + &format!("\n/** {KINDS} */\nexport const Kind: {{\n{lines}}};\n")
}

/// The constants are described in the docstrings, because `help()` shows no comments.
pub fn python() -> String {
    let defined = |indent: &str, name: &str, text: &str| format!("\n{indent}``{name}``\n{indent}    {text}\n");
    let (mut about, mut values) = (String::new(), String::new());
    for (name, value, text) in all() {
        let (value, unit) = match value {
            Value::Number(value) => (value.to_string(), ""),
            Value::Text(value) => (format!("{value:?}"), ""),
            Value::Time(value) => (format!("{:.1}", value.as_secs_f64()), " In seconds."),
        };
        about += &defined("", name, &format!("{text}{unit}")).replacen('\n', "", usize::from(!about.is_empty()));
        writeln!(values, "{name} = {value}").expect("a string");
    }
    let class = |name: &str, documentation: &str, members: &[(String, String)]| {
        let (mut about, mut values) = (String::new(), String::new());
        for (member, text) in members {
            about += &defined("    ", &upper(member), text).replacen('\n', "", usize::from(!about.is_empty()));
            writeln!(values, "    {} = {member:?}", upper(member)).expect("a string");
        }
        format!(
            "\n\nclass {name}(str, Enum):\n    \"\"\"{documentation} A member is equal to its text.\n{about}    \"\"\"\n\n{values}"
        )
    };
    let (documentation, codes) = codes();
    let kinds: Vec<_> = kinds();
    format!(
        "\"\"\"What is fixed in the control protocol: version, places, time limits, units, codes of refusals and kinds of events.\n{about}\"\"\"\n\n\
         # {MARK}\n\nfrom __future__ import annotations\n\nfrom enum import Enum\n\n{values}{}{}",
        class("Code", &documentation, &codes),
        class("Kind", KINDS, &kinds)
    )
}

/// The table of the protocol's page: what is fixed, and its name in each language.
pub fn table() -> String {
    let mut out = String::from("| constant | value | Go |\n| --- | --- | --- |\n");
    for (name, value, _) in all() {
        let value = match value {
            Value::Number(value) => value.to_string(),
            Value::Text(value) => format!("`{value}`"),
            Value::Time(value) => format!("{} s", value.as_secs()),
        };
        writeln!(out, "| `{name}` | {value} | `{}` |", go_name(name)).expect("a string");
    }
    out
}
