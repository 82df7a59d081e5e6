//! The calls in Go.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use tidegate_control::calls::{CALLS, Declaration, capitals};

use super::declared::{Declared, Field, Kind, Shape};
use super::{commented, limit};

const HEAD: &str =
    "// Code generated from the declarations in crates/control/src/calls; DO NOT EDIT.\n\npackage tidegate\n\n";
/// Words that are written in capitals.
const CAPITALS: [&str; 6] = ["dscp", "icmp", "pid", "tcp", "uid", "p50"];

type Types = BTreeMap<String, Declared>;

/// The types and the methods of the client.
pub fn calls(types: &Types) -> String {
    let mut out = format!("{HEAD}import (\n\t\"context\"\n\t\"encoding/json\"\n\t\"net/netip\"\n\t\"time\"\n)\n");
    for call in CALLS {
        method(&mut out, types, call);
    }
    for declared in types.values() {
        write(&mut out, &commented(&declared.documentation, "//"), declared, types);
    }
    out
}

fn method(out: &mut String, types: &Types, call: &Declaration) {
    let name = capitals(call.name);
    let has = |of: &str| !types[of].fields().is_empty();
    let (parameter, request) = match has(call.request_type) {
        true => (format!(", request {}", call.request_type), "request"),
        false => (String::new(), "nil"),
    };
    let seconds = limit(call);
    let documentation = commented(call.documentation, "//");
    let head = format!("\n{documentation}func (c *Client) {name}(ctx context.Context{parameter})");
    let made = format!("c.call(ctx, {:?}, {request}", call.name);
    match has(call.reply_type) {
        true => write!(
            out,
            "{head} ({0}, error) {{\n\tvar reply {0}\n\terr := {made}, &reply, {seconds}*time.Second)\n\treturn reply, err\n}}\n",
            call.reply_type
        ),
        false => write!(out, "{head} error {{\n\treturn {made}, nil, {seconds}*time.Second)\n}}\n"),
    }
    .expect("a string");
}

fn write(out: &mut String, documentation: &str, declared: &Declared, types: &Types) {
    let name = &declared.name;
    let mut put = |text: &str| out.push_str(text);
    match &declared.shape {
        // A request or a reply without parameters.
        Shape::Record(fields) if fields.is_empty() => {}
        Shape::Record(own) => put(&format!("\n{documentation}type {name} struct {{\n{}}}\n", fields(name, own, types))),
        Shape::Alias(kind) => put(&format!("\n{documentation}type {name} {}\n", type_of(kind))),
        Shape::Names(names) => {
            let constant = |(value, documentation): &(String, String)| {
                format!("{}\t{name}{} {name} = {value:?}\n", commented(documentation, "\t//"), capitals(value))
            };
            let constants: Vec<String> = names.iter().map(constant).collect();
            put(&format!("\n{documentation}type {name} string\n\nconst (\n{})\n", constants.join("\n")));
        }
        Shape::Tagged { tag, variants } => {
            let all: Vec<String> = variants.iter().map(|(value, ..)| format!("{name}{}", capitals(value))).collect();
            put(&format!("\n{documentation}// It is one of {}.\n", all.join(", ")));
            put(&format!("type {name} interface{{ is{name}() }}\n"));
            for ((value, documentation, own), name_of) in variants.iter().zip(all) {
                put(&format!(
                    "\n{}type {name_of} struct {{\n{}}}\n",
                    commented(documentation, "//"),
                    fields(&name_of, own, types)
                ));
                put(&format!("\nfunc ({name_of}) is{name}() {{}}\n"));
                put("\n// MarshalJSON writes the key by which the kinds are told apart, too.\n");
                put(&format!("func (value {name_of}) MarshalJSON() ([]byte, error) {{\n\ttype plain {name_of}\n"));
                put(&format!("\treturn json.Marshal(struct {{\n\t\tTag string `json:{tag:?}`\n\t\tplain\n"));
                put(&format!("\t}}{{{value:?}, plain(value)}})\n}}\n"));
            }
        }
    }
}

/// The fields of a struct, with an empty line between them, which gofmt does not align.
fn fields(record: &str, fields: &[Field], types: &Types) -> String {
    let line = |field: &Field| {
        let tag = if field.may_be_absent { format!("{},omitempty", field.key) } else { field.key.clone() };
        let pointer = if is_pointer(record, field, types) { "*" } else { "" };
        let of = if is_time(field) { "time.Duration".into() } else { type_of(&field.kind) };
        format!("{}\t{} {pointer}{of} `json:{tag:?}`\n", commented(&field.documentation, "\t//"), go_name(&field.key))
    };
    fields.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Whether zero is a value, and not the same as nothing. A rate or a time of zero is left out, as is an empty text.
fn is_pointer(record: &str, field: &Field, types: &Types) -> bool {
    let is_quantity = ["_bps", "_ns"].iter().any(|unit| field.key.ends_with(unit));
    let is_name = |name: &str| matches!(types[name].shape, Shape::Names(_));
    let can = match &field.kind {
        Kind::Text | Kind::Any | Kind::List(_) => false,
        Kind::Named(name) => !is_name(name),
        Kind::Integer(_) => !is_quantity,
        Kind::Bool | Kind::Address | Kind::Pair => true,
    };
    can && (field.is_option || has_default(record, &field.key))
}

/// Whether the daemon takes a number other than zero where a request leaves the key out.
fn has_default(record: &str, key: &str) -> bool {
    let Some(call) = CALLS.iter().find(|call| call.request_type == record) else { return false };
    (call.read_request)(&json!({})).is_ok_and(|whole| whole[key].as_u64().is_some_and(|default| default != 0))
}

fn is_time(field: &Field) -> bool {
    field.key.ends_with("_ns") && matches!(field.kind, Kind::Integer(_))
}

/// `destination_port` as `DestinationPort`; a time in nanoseconds has a type with its unit.
fn go_name(key: &str) -> String {
    let key = key.strip_suffix("_ns").unwrap_or(key);
    let word = |word: &str| if CAPITALS.contains(&word) { word.to_uppercase() } else { capitals(word) };
    key.split('_').map(word).collect()
}

fn type_of(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "bool".into(),
        Kind::Integer("i64") => "int64".into(),
        Kind::Integer(unsigned) => unsigned.replace('u', "uint"),
        Kind::Text => "string".into(),
        Kind::Address => "netip.Addr".into(),
        Kind::Pair => "[2]string".into(),
        Kind::Any => "json.RawMessage".into(),
        Kind::List(of) => format!("[]{}", type_of(of)),
        Kind::Named(name) => name.clone(),
    }
}

/// The example of each call, for the test that the types lose nothing.
pub fn examples(types: &Types) -> String {
    let mut out = format!(
        "{HEAD}// examples has the example of each call, and values of the types of its parameters and its reply.\n"
    );
    out.push_str("var examples = []struct {\n\tcall, with, reply      string\n\trequestType, replyType any\n}{\n");
    for call in CALLS {
        let value = |of: &str| {
            match types[of].fields() {
            [] => "nil".into(),
            // What is an interface in Go cannot be read.
            fields if fields.iter().any(|field| matches!(&field.kind, Kind::List(of) if matches!(&**of, Kind::Named(name) if matches!(types[name].shape, Shape::Tagged { .. })))) => "nil".into(),
            _ => format!("new({of})"),
        }
        };
        let (request, reply) = (value(call.request_type), value(call.reply_type));
        writeln!(out, "\t{{{:?}, `{}`, `{}`, {request}, {reply}}},", call.name, call.request, call.reply)
            .expect("a string");
    }
    out + "}\n"
}
