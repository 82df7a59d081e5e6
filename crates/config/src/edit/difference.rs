//! [`differences`] of two files, by class, rule and key.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_control::calls::Difference;
use toml::{Table, Value};

use crate::shaper::Config;

/// A value on one line.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let one = |(key, value): (&String, &Value)| format!("{key} {}", shown(value));
            table.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// The keys of a table, those of nested tables with dots.
fn flat(prefix: &str, table: &Table, into: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(table) => flat(&key, table, into),
            value => {
                into.insert(key, shown(value));
            }
        }
    }
}

fn compare(what: &str, old: Option<&Table>, new: Option<&Table>, into: &mut Vec<Difference>) {
    let keys = |table: Option<&Table>| {
        let mut keys = BTreeMap::new();
        table.into_iter().for_each(|table| flat("", table, &mut keys));
        keys
    };
    let (old, new) = (keys(old), keys(new));
    let all: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for key in all {
        let (from, to) = (old.get(key).cloned(), new.get(key).cloned());
        if from != to {
            into.push(Difference::new(what.to_owned(), Some(key.clone()), from, to));
        }
    }
}

/// Removes the classes from a file and returns them, by name and in their order.
fn classes(root: &mut Table) -> Vec<(String, Table)> {
    let outer = root.remove("class");
    let inner = root.get_mut("discipline").and_then(Value::as_table_mut).and_then(|table| table.remove("class"));
    let all = [outer, inner].into_iter().flatten().filter_map(|list| list.as_array().cloned()).flatten();
    all.filter_map(|class| {
        let mut class = class.as_table()?.clone();
        let name = class.remove("name")?.as_str()?.to_owned();
        Some((name, class))
    })
    .collect()
}

/// Lists the differences between `old` and `new`: added and removed classes and rules, and changed values.
pub fn differences(old: &Config, new: &Config) -> Vec<Difference> {
    let (mut old, mut new) = (old.tables.to_table(), new.tables.to_table());
    let mut all = Vec::new();
    let (before, after) = (classes(&mut old), classes(&mut new));
    let of = |list: &[(String, Table)], name: &str| {
        list.iter().find(|(other, _)| other == name).map(|(_, table)| table.clone())
    };
    let whole = |table: &Table| Some(shown(&Value::Table(table.clone())));
    for (name, table) in &before {
        let what = format!("class {name}");
        match of(&after, name) {
            Some(now) => compare(&what, Some(table), Some(&now), &mut all),
            None => all.push(Difference::new(what, None, whole(table), None)),
        }
    }
    for (name, table) in after.iter().filter(|(name, _)| of(&before, name).is_none()) {
        all.push(Difference::new(format!("class {name}"), None, None, whole(table)));
    }
    let rules = |root: &mut Table| root.remove("rule").and_then(|list| list.as_array().cloned()).unwrap_or_default();
    let (mut before, after) = (rules(&mut old), rules(&mut new));
    compare_named(&mut before, &after, &mut all);
    let [before, after] = [before, after].map(|list| list.iter().map(shown).collect::<Vec<_>>());
    let mut left = after.clone();
    let mut kept = Vec::new();
    for rule in &before {
        match left.iter().position(|other| other == rule) {
            Some(at) => kept.push(left.remove(at)),
            None => all.push(Difference::new("rule".into(), None, Some(rule.clone()), None)),
        }
    }
    for rule in &left {
        all.push(Difference::new("rule".into(), None, None, Some(rule.clone())));
    }
    if after.iter().filter(|rule| kept.contains(rule)).ne(kept.iter()) {
        all.push(Difference::new("rules: another order".into(), None, None, None));
    }
    let sections: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
    for section in sections {
        let table = |root: &Table| match root.get(&section) {
            Some(Value::Table(table)) => Some(table.clone()),
            Some(value) => Some(Table::from_iter([(String::new(), value.clone())])),
            None => None,
        };
        compare(&section, table(&old).as_ref(), table(&new).as_ref(), &mut all);
    }
    all
}

/// Compares key by key the rules that have the same name in both lists, once in each, and leaves in `before` what is in `after`.
fn compare_named(before: &mut [Value], after: &[Value], all: &mut Vec<Difference>) {
    let name = |rule: &Value| rule.get("name").and_then(Value::as_str).map(str::to_owned);
    let is_once =
        |list: &[Value], wanted: &String| list.iter().filter(|rule| name(rule).as_ref() == Some(wanted)).count() == 1;
    for at in 0..before.len() {
        let Some(wanted) = name(&before[at]).filter(|wanted| is_once(before, wanted) && is_once(after, wanted)) else {
            continue;
        };
        let Some(now) = after.iter().find(|rule| name(rule).as_ref() == Some(&wanted)) else { continue };
        compare(&format!("rule {wanted}"), before[at].as_table(), now.as_table(), all);
        before[at] = now.clone();
    }
}
