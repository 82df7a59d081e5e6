//! Renders a schema as text: every key with its meaning, whether it is required, its default, and the reason.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;

use serde_json::Value;

/// The columns of a line.
const WIDTH: usize = 100;

/// Renders `document` as plain text: the file itself first, then each section in the order in which it is first
/// mentioned.
pub fn reference(document: &Value) -> String {
    let mut out = String::new();
    let mut queue: VecDeque<String> = VecDeque::new();
    let mut listed: BTreeSet<String> = BTreeSet::new();
    let title = document["title"].as_str().unwrap_or_default();
    section(&mut out, title, document, &mut queue);
    while let Some(name) = queue.pop_front() {
        if listed.insert(name.clone()) {
            section(&mut out, &name.replace('-', " "), &document["$defs"][&name], &mut queue);
        }
    }
    out
}

fn section(out: &mut String, title: &str, schema: &Value, queue: &mut VecDeque<String>) {
    // Writing into a string does not fail; so below.
    let _ = writeln!(out, "{}{}", if out.is_empty() { "" } else { "\n" }, title.to_uppercase());
    paragraph(out, schema["description"].as_str().unwrap_or_default(), 0);
    if schema["properties"].is_object() {
        keys(out, schema, 0, queue);
    }
    // A table of one of several kinds: each is listed by the word that selects it.
    schema["oneOf"].as_array().into_iter().flatten().for_each(|kind| of_a_kind(out, kind, 2, queue));
}

/// The keys of a table of a kind, below the word that selects it; nothing of what is no table.
fn of_a_kind(out: &mut String, kind: &Value, indent: usize, queue: &mut VecDeque<String>) {
    let Some(properties) = kind["properties"].as_object() else { return };
    if let Some((key, value)) = properties.iter().find(|(_, value)| value["const"].is_string()) {
        let _ = writeln!(out, "\n{:indent$}{key} = {}", "", value["const"]);
    }
    paragraph(out, kind["description"].as_str().unwrap_or_default(), indent);
    keys(out, kind, indent, queue);
}

fn keys(out: &mut String, object: &Value, indent: usize, queue: &mut VecDeque<String>) {
    let is_required = |key: &str| object["required"].as_array().is_some_and(|list| list.iter().any(|one| one == key));
    for (key, schema) in object["properties"].as_object().into_iter().flatten() {
        if schema["const"].is_string() && is_required(key) {
            continue;
        }
        let default = match &schema["default"] {
            Value::Null if is_required(key) => ", required".to_owned(),
            Value::Null => String::new(),
            default => format!(", default {default}"),
        };
        let _ = writeln!(out, "\n{:indent$}  {key}  ({}{default})", "", kind(schema, queue));
        paragraph(out, schema["description"].as_str().unwrap_or_default(), indent + 6);
        for word in words(schema) {
            paragraph(
                out,
                &format!("{}: {}", word["const"], word["description"].as_str().unwrap_or_default()),
                indent + 6,
            );
        }
        // A table that stands in the place of a word, such as a congestion control of a crate.
        schema["anyOf"].as_array().into_iter().flatten().for_each(|one| of_a_kind(out, one, indent + 6, queue));
    }
}

/// The words that a value can be, or one of its alternatives or of the elements of a list.
fn words(schema: &Value) -> Vec<&Value> {
    let own = schema["oneOf"].as_array().into_iter().flatten().filter(|word| word["const"].is_string());
    let alternatives = schema["anyOf"].as_array().into_iter().flatten().filter(|one| one["type"] != "array");
    let inside = alternatives.chain(schema.get("items"));
    own.chain(inside.flat_map(words)).collect()
}

/// Describes the type of a value in a few words. Sections that it refers to are appended to the queue.
fn kind(schema: &Value, queue: &mut VecDeque<String>) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        queue.push_back(name.to_owned());
        return format!("table: {}", name.replace('-', " ").to_uppercase());
    }
    if let Some(alternatives) = schema["anyOf"].as_array() {
        let is_list = alternatives.iter().skip(1).all(|other| other["type"] == "array");
        if is_list && !words(schema).is_empty() {
            return "a word, or a list of them".into();
        }
        let all: Vec<String> = alternatives.iter().map(|one| kind(one, queue)).collect();
        return if is_list { format!("{}, or a list", all[0]) } else { all.join(", or ") };
    }
    if schema["oneOf"].is_array() {
        return "a word".into();
    }
    if schema["type"] == "array" {
        if !words(&schema["items"]).is_empty() {
            return "list of words".into();
        }
        return format!("list of {}", kind(&schema["items"], queue));
    }
    let example = schema["examples"][0].as_str().map(|example| format!(" like \"{example}\"")).unwrap_or_default();
    let name = match &schema["type"] {
        Value::Array(_) => "text or number",
        Value::String(name) if name == "string" => "text",
        Value::String(name) if name == "integer" => "whole number",
        Value::String(name) if name == "boolean" => "true or false",
        Value::String(name) if name == "object" => "table",
        Value::String(name) => name,
        _ => "value",
    };
    format!("{name}{example}")
}

fn paragraph(out: &mut String, text: &str, indent: usize) {
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            out.push('\n');
            column = 0;
        }
        if column == 0 {
            let _ = write!(out, "{:indent$}{word}", "");
            column = indent + length;
        } else {
            let _ = write!(out, " {word}");
            column += 1 + length;
        }
    }
    if column > 0 {
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a value that may also be `true`, and of the elements of a list.
    #[test]
    fn words_are_listed_wherever_they_are() {
        let word = |word: &str| serde_json::json!({ "const": word, "description": format!("It is {word}.") });
        let words = serde_json::json!({ "oneOf": [word("classic"), word("l4s")] });
        let document = serde_json::json!({
            "title": "flow",
            "properties": {
                "ecn": { "anyOf": [{ "type": "boolean" }, words] },
                "faults": { "type": "array", "items": words },
                "names": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] },
            },
        });
        let text = reference(&document);
        assert!(text.contains("ecn  (true or false, or a word)\n"), "{text}");
        assert!(text.contains("faults  (list of words)\n"), "{text}");
        assert!(text.contains("names  (text, or a list)\n"), "{text}");
        assert_eq!(text.matches("\"l4s\": It is l4s.").count(), 2, "{text}");
    }

    /// The control of a crate has its keys below its word, as the built-in kinds of other tables.
    #[test]
    fn a_table_in_the_place_of_a_word_has_its_keys() {
        let table = serde_json::json!({
            "type": "object",
            "description": "A control of a crate.",
            "properties": {
                "kind": { "const": "bold" },
                "times": { "type": "integer", "description": "Times the usual window.", "default": 4 },
            },
            "required": ["kind"],
        });
        let document = serde_json::json!({
            "title": "flow",
            "properties": { "congestion": { "anyOf": [{ "oneOf": [{ "const": "reno", "description": "Reno." }] }, table] } },
        });
        let text = reference(&document);
        assert!(text.contains("congestion  (a word, or table)\n"), "{text}");
        let below = text.split_once("kind = \"bold\"\n").map(|(_, below)| below).expect("its word");
        assert!(
            below.contains("A control of a crate.") && below.contains("times  (whole number, default 4)"),
            "{text}"
        );
    }
}
