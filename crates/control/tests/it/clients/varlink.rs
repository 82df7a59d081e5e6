//! The calls as an interface of Varlink.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tidegate_control::calls::{CALLS, capitals};

use super::commented;
use super::declared::{Declared, Field, Kind, Shape};

type Types = BTreeMap<String, Declared>;

const HEAD: &str = "\
# The calls of Tidegate's control socket, by `tidegate varlink`.
# Generated from the declarations in crates/control/src/calls; do not edit.
interface invalid.tidegate.Control

# The daemon, or the way to it, refuses a call. `code` is for programs, `help` says what would work.
error Refused (code: string, message: string, help: ?string)
";

/// The description of the interface.
pub fn interface(types: &Types) -> String {
    let mut out = HEAD.to_owned();
    for call in CALLS {
        let mut reply = members(types, &types[call.reply_type]);
        let mut documentation = call.documentation.to_owned();
        if call.name == "events" {
            // Its notifications are further replies.
            documentation += "\nWith `more` each event is a further reply, or the number of those that were lost.";
            reply.extend(["event: ?Event".into(), "lost: ?int".into()]);
        }
        let request = members(types, &types[call.request_type]);
        let text = format!("method {} {} -> {}", capitals(call.name), joined(&request), joined(&reply));
        write!(out, "\n{}{text}\n", commented(documentation.trim(), "#")).expect("a string");
    }
    let messages: Vec<&str> = CALLS.iter().flat_map(|call| [call.request_type, call.reply_type]).collect();
    let mut used: Vec<&Declared> = types.values().filter(|declared| is_used(types, declared, &messages)).collect();
    used.sort_by_key(|declared| &declared.name);
    for declared in used {
        let text = match &declared.shape {
            Shape::Record(_) | Shape::Tagged { .. } => joined(&members(types, declared)),
            Shape::Names(_) | Shape::Alias(_) => continue,
        };
        let documentation = commented(declared.documentation.trim(), "#");
        write!(out, "\n{documentation}type {} {text}\n", declared.name).expect("a string");
    }
    out
}

/// Whether a type is that of a member somewhere: the messages themselves have no types of their own.
fn is_used(types: &Types, declared: &Declared, messages: &[&str]) -> bool {
    let uses = |field: &Field| named(&field.kind) == Some(&declared.name);
    !messages.contains(&declared.name.as_str())
        || types.values().any(|other| match &other.shape {
            Shape::Record(fields) => fields.iter().any(uses),
            Shape::Tagged { variants, .. } => variants.iter().flat_map(|(_, _, fields)| fields).any(uses),
            Shape::Alias(kind) => named(kind) == Some(&declared.name),
            Shape::Names(_) => false,
        })
}

fn named(kind: &Kind) -> Option<&String> {
    match kind {
        Kind::Named(name) => Some(name),
        Kind::List(of) => named(of),
        _ => None,
    }
}

/// The members of an object. One of several variants has all their members, of which each may be missing.
fn members(types: &Types, declared: &Declared) -> Vec<String> {
    match &declared.shape {
        Shape::Record(fields) => fields.iter().map(|field| member(types, field, field.may_be_absent)).collect(),
        Shape::Tagged { tag, variants } => {
            let mut members = vec![format!("{tag}: string")];
            for field in variants.iter().flat_map(|(_, _, fields)| fields) {
                let text = member(types, field, true);
                if !members.contains(&text) {
                    members.push(text);
                }
            }
            members
        }
        Shape::Names(_) | Shape::Alias(_) => panic!("{} is no object", declared.name),
    }
}

fn member(types: &Types, field: &Field, may_be_absent: bool) -> String {
    format!("{}: {}{}", field.key, if may_be_absent { "?" } else { "" }, type_of(types, &field.kind))
}

fn joined(members: &[String]) -> String {
    let line = members.join(", ");
    if line.len() < 90 { format!("({line})") } else { format!("(\n  {}\n)", members.join(",\n  ")) }
}

fn type_of(types: &Types, kind: &Kind) -> String {
    match kind {
        Kind::Bool => "bool".into(),
        Kind::Integer(_) => "int".into(),
        Kind::Text | Kind::Address => "string".into(),
        Kind::Pair => panic!("pairs come in lists"),
        Kind::Any => "object".into(),
        // Varlink has no lists of lists.
        Kind::List(of) if matches!(**of, Kind::Pair) => "[string]string".into(),
        Kind::List(of) => format!("[]{}", type_of(types, of)),
        Kind::Named(name) => match &types[name].shape {
            // Names have hyphens, which those of Varlink's enumerations may not.
            Shape::Names(_) => "string".into(),
            Shape::Alias(kind) => type_of(types, kind),
            Shape::Record(_) | Shape::Tagged { .. } => name.clone(),
        },
    }
}
