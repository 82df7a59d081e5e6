//! The calls in JavaScript, and their types for TypeScript.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tidegate_control::calls::{CALLS, capitals};

use super::declared::{Declared, Field, Kind, Shape};
use super::{commented, limit};

const HEAD: &str = "// Generated from the declarations in crates/control/src/calls; do not edit.\n\n";

/// The calls, of which the client makes its methods.
pub fn calls() -> String {
    let mut out = format!(
        "{HEAD}/** Each call: the method of the client, its name in a request, and how long its reply may take, in milliseconds. */\n\
         export const calls = [\n"
    );
    for call in CALLS {
        writeln!(out, "  [{:?}, {:?}, {}000],", method(call.name), call.name, limit(call)).expect("a string");
    }
    out + "];\n"
}

/// The types of the requests, the replies and the methods.
pub fn types(types: &BTreeMap<String, Declared>) -> String {
    let mut out = format!("{HEAD}/** The methods for the calls. */\nexport interface Calls {{\n");
    for (at, call) in CALLS.iter().enumerate() {
        let fields = types[call.request_type].fields();
        let optional = if fields.iter().all(|field| field.may_be_absent) { "?" } else { "" };
        let request =
            if fields.is_empty() { String::new() } else { format!("request{optional}: {}", call.request_type) };
        let reply = if types[call.reply_type].fields().is_empty() { "void" } else { call.reply_type };
        let gap = if at == 0 { "" } else { "\n" };
        let documentation = documented(call.documentation, "  ");
        writeln!(out, "{gap}{documentation}  {}({request}): Promise<{reply}>;", method(call.name)).expect("a string");
    }
    out += "}\n";
    for declared in types.values() {
        let (documentation, name) = (documented(&declared.documentation, ""), &declared.name);
        let text = match &declared.shape {
            Shape::Record(own) if own.is_empty() => continue,
            Shape::Record(own) => format!("export interface {name} {{\n{}}}\n", fields(own, "  ")),
            Shape::Alias(kind) => format!("export type {name} = {};\n", type_of(kind)),
            Shape::Names(names) => {
                let names: String = names.iter().map(|(name, _)| format!("\n  | {name:?}")).collect();
                format!("export type {name} ={names}\n  | (string & {{}});\n")
            }
            Shape::Tagged { tag, variants } => {
                let variant = |(value, documentation, own): &(String, String, Vec<Field>)| {
                    let documentation = documented(documentation, "  ");
                    format!("\n{documentation}  | {{\n      {tag}: {value:?};\n{}    }}", fields(own, "      "))
                };
                format!("export type {name} ={};\n", variants.iter().map(variant).collect::<String>())
            }
        };
        write!(out, "\n{documentation}{text}").expect("a string");
    }
    out
}

fn method(name: &str) -> String {
    let name = capitals(name);
    name[..1].to_lowercase() + &name[1..]
}

fn documented(documentation: &str, indent: &str) -> String {
    match documentation.trim() {
        line if !line.contains('\n') => format!("{indent}/** {line} */\n"),
        lines => format!("{indent}/**\n{}{indent} */\n", commented(lines, &format!("{indent} *"))),
    }
}

fn fields(fields: &[Field], indent: &str) -> String {
    let line = |field: &Field| {
        let optional = if field.may_be_absent { "?" } else { "" };
        let documentation = documented(&field.documentation, indent);
        format!("{documentation}{indent}{}{optional}: {};\n", field.key, type_of(&field.kind))
    };
    fields.iter().map(line).collect()
}

fn type_of(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "boolean".into(),
        Kind::Integer(_) => "number".into(),
        Kind::Text | Kind::Address => "string".into(),
        Kind::Pair => "[string, string]".into(),
        Kind::Any => "unknown".into(),
        Kind::List(of) => format!("{}[]", type_of(of)),
        Kind::Named(name) => name.clone(),
    }
}
