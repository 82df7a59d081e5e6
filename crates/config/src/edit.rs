//! Edits of a file, and the differences between two files: for changes of a shaper that runs.
//!
//! An edit makes another document, whose text is then read and checked like any file. Comments and the order of keys are
//! lost.
//!
//! ```
//! use tidegate_config::edit::{Document, Edit};
//! let old = Document::parse("version = 1\n[[class]]\nname = \"all\"\nrate = \"5mbit\"\ndefault = true\n").unwrap();
//! let edit = Edit::Set { section: "class".into(), name: Some("all".into()), key: "rate".into(), value: "8mbit".into() };
//! let all = old.differences(&old.edited(&[edit]).unwrap());
//! assert_eq!(all.iter().map(ToString::to_string).collect::<Vec<_>>(), ["class all: rate 5mbit -> 8mbit"]);
//! ```

use std::collections::BTreeMap;
use std::fmt;

use toml::{Table, Value};

use crate::decode::Scalar;
use crate::shaper::Match;
use crate::suggest;

/// One edit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edit {
    /// Gives a key another value.
    Set {
        /// `class`, `rule`, or the name of a table such as `shaper` or `discipline`.
        section: String,
        /// The name of the class, or the number of the rule, from 1.
        name: Option<String>,
        /// The key; dots lead into tables.
        key: String,
        /// The value, as it would stand in the file; a text needs no quotes.
        value: String,
    },
    /// Adds a class, as the last, or a rule, as the first.
    Add {
        /// `class` or `rule`.
        section: String,
        /// Its keys and values.
        values: Vec<(String, String)>,
    },
    /// Removes a class, a rule, or a key of a table.
    Remove {
        /// `class` or `rule`.
        section: String,
        /// The name of the class, or the number of the rule, from 1.
        name: String,
    },
}

/// What is different in one place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Difference {
    /// The place: `class calls`, `rule`, `shaper`.
    pub what: String,
    /// The key; none for all of it.
    pub key: Option<String>,
    /// What stood there.
    pub from: Option<String>,
    /// What stands there.
    pub to: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map(|key| format!(": {key}")).unwrap_or_default();
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "{}{key} {from} -> {to}", self.what),
            (None, Some(to)) => write!(f, "+ {}{key} {to}", self.what),
            (Some(from), None) => write!(f, "- {}{key} {from}", self.what),
            (None, None) => write!(f, "{}{key}", self.what),
        }
    }
}

/// A parsed file.
#[derive(Clone, PartialEq, Debug)]
pub struct Document(Table);

impl Document {
    /// Parses a text.
    ///
    /// # Errors
    /// When it is not TOML.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.parse::<Table>().map(Self).map_err(|error| error.message().to_owned())
    }

    /// Returns the document after `edits`, one after the other.
    ///
    /// # Errors
    /// What is not there, and what is.
    pub fn edited(&self, edits: &[Edit]) -> Result<Self, String> {
        let mut root = self.0.clone();
        for edit in edits {
            one(&mut root, edit)?;
        }
        Ok(Self(root))
    }

    /// Returns the text of the document.
    ///
    /// # Errors
    /// When an edit has made values that cannot be written as TOML.
    pub fn text(&self) -> Result<String, String> {
        toml::to_string(&self.0).map_err(|error| error.to_string())
    }

    /// Returns the differences of `new` from this document: classes and rules that were added or removed, and values.
    pub fn differences(&self, new: &Self) -> Vec<Difference> {
        differences(self.0.clone(), new.0.clone())
    }
}

/// A value as it would stand in a file; what is none is a text.
fn value(text: &str) -> Value {
    let wrapped = format!("v = {text}").parse::<Table>();
    match wrapped.ok().and_then(|mut table| table.remove("v")) {
        Some(value) => value,
        None => Value::String(text.to_owned()),
    }
}

/// The list of classes or rules, wherever this file has it.
fn list<'a>(root: &'a mut Table, section: &str) -> Result<&'a mut Vec<Value>, String> {
    let inside = section == "class" && root.contains_key("discipline");
    let table = if inside { root.get_mut("discipline").and_then(Value::as_table_mut) } else { Some(root) };
    let table = table.ok_or("`discipline` is not a table")?;
    let entry = table.entry(section.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
    entry.as_array_mut().ok_or_else(|| format!("`{section}` is not a list"))
}

/// The place of a class or rule in its list.
fn find(list: &[Value], section: &str, name: &str) -> Result<usize, String> {
    if section == "rule" {
        let number: usize = name.parse().map_err(|_| format!("rules are named by their number, not `{name}`"))?;
        return match number {
            n if (1..=list.len()).contains(&n) => Ok(n - 1),
            n => Err(match list.len() {
                0 => format!("there is no rule {n}; there are none"),
                1 => format!("there is no rule {n}; there is one, number 1"),
                last => format!("there is no rule {n}; they are numbered from 1 to {last}"),
            }),
        };
    }
    let names: Vec<&str> = list.iter().filter_map(|one| one.get("name")?.as_str()).collect();
    list.iter()
        .position(|one| one.get("name").and_then(Value::as_str) == Some(name))
        .ok_or_else(|| format!("there is no class `{name}`; {}", suggest::help(name, &names)))
}

fn one(root: &mut Table, edit: &Edit) -> Result<(), String> {
    match edit {
        Edit::Set { section, name: Some(name), key, value: text } => {
            let list = list(root, section)?;
            let at = find(list, section, name)?;
            let table = list[at].as_table_mut().ok_or("not a table")?;
            set(table, key, value(text))
        }
        Edit::Set { section, name: None, key, value: text } => {
            let entry = root.entry(section.clone()).or_insert_with(|| Value::Table(Table::new()));
            set(entry.as_table_mut().ok_or_else(|| format!("`{section}` is not a table"))?, key, value(text))
        }
        Edit::Add { section, values } => {
            let mut table = Table::new();
            for (key, text) in values {
                set(&mut table, key, value(text))?;
            }
            let list = list(root, section)?;
            // Of rules the first that matches wins: one that is added means something only before the others.
            let at = if section == "rule" { 0 } else { list.len() };
            list.insert(at, Value::Table(table));
            Ok(())
        }
        Edit::Remove { section, name } => {
            let list = list(root, section)?;
            let at = find(list, section, name)?;
            list.remove(at);
            Ok(())
        }
    }
}

/// Sets `key` of `table`, or takes it out for an empty text.
fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    match key.split_once('.') {
        Some((first, rest)) => {
            let entry = table.entry(first.to_owned()).or_insert_with(|| Value::Table(Table::new()));
            set(entry.as_table_mut().ok_or_else(|| format!("`{first}` is not a table"))?, rest, value)
        }
        None if value.as_str() == Some("") => {
            table.remove(key);
            Ok(())
        }
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
    }
}

/// A value in a line.
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

/// The keys of a table, those of tables within with dots.
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
    let all: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for key in all {
        let (from, to) = (old.get(key).cloned(), new.get(key).cloned());
        if from != to {
            into.push(Difference { what: what.to_owned(), key: Some(key.clone()), from, to });
        }
    }
}

/// Takes the classes of a file out of it, by name and in their order.
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

fn differences(mut old: Table, mut new: Table) -> Vec<Difference> {
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
            None => all.push(Difference { what, key: None, from: whole(table), to: None }),
        }
    }
    for (name, table) in after.iter().filter(|(name, _)| of(&before, name).is_none()) {
        all.push(Difference { what: format!("class {name}"), key: None, from: None, to: whole(table) });
    }
    let rules = |root: &mut Table| -> Vec<String> {
        let list = root.remove("rule").and_then(|list| list.as_array().cloned()).unwrap_or_default();
        list.iter().map(shown).collect()
    };
    let (before, after) = (rules(&mut old), rules(&mut new));
    let mut left = after.clone();
    let mut kept = Vec::new();
    for rule in &before {
        match left.iter().position(|other| other == rule) {
            Some(at) => kept.push(left.remove(at)),
            None => all.push(Difference { what: "rule".into(), key: None, from: Some(rule.clone()), to: None }),
        }
    }
    for rule in &left {
        all.push(Difference { what: "rule".into(), key: None, from: None, to: Some(rule.clone()) });
    }
    if after.iter().filter(|rule| kept.contains(rule)).ne(kept.iter()) {
        all.push(Difference { what: "rules: another order".into(), key: None, from: None, to: None });
    }
    let sections: std::collections::BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
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

/// What a packet must be, from keys and values as a rule has them.
///
/// # Errors
/// What is wrong, and the way out.
pub fn matching(conditions: &[(String, String)]) -> Result<Match, String> {
    fn one<T: Scalar>(text: &str) -> Result<T, String> {
        T::from_text(text).map_err(|wrong| format!("`{text}`: {}; {}", wrong.message, wrong.help))
    }
    let mut all = Match::default();
    for (key, text) in conditions {
        match key.as_str() {
            "dscp" => all.dscps.push(one(text)?),
            "protocol" => all.protocols.push(one(text)?),
            "source" => all.sources.push(one(text)?),
            "destination" => all.destinations.push(one(text)?),
            "source-port" => all.source_ports.push(one(text)?),
            "destination-port" => all.destination_ports.push(one(text)?),
            "mark" => all.marks.push(one(text)?),
            "uid" => all.users.push(one(text)?),
            "cgroup" => all.cgroups.push(text.trim_matches('/').to_owned()),
            other => {
                const KEYS: [&str; 9] = [
                    "dscp",
                    "protocol",
                    "source",
                    "destination",
                    "source-port",
                    "destination-port",
                    "mark",
                    "uid",
                    "cgroup",
                ];
                return Err(format!("`{other}` is no condition; {}", suggest::help(other, &KEYS)));
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "version = 1\n[shaper]\nrate = \"20mbit\"\n[[class]]\nname = \"calls\"\nrate = \"2mbit\"\n\
        [[class]]\nname = \"rest\"\nrate = \"8mbit\"\ndefault = true\n[[rule]]\nclass = \"calls\"\ndscp = \"ef\"\n";

    fn told(edits: &[Edit]) -> Vec<String> {
        let old = Document::parse(FILE).unwrap();
        let new = Document::parse(&old.edited(edits).unwrap().text().unwrap()).unwrap();
        old.differences(&new).iter().map(ToString::to_string).collect()
    }
    fn set(section: &str, name: Option<&str>, key: &str, value: &str) -> Edit {
        Edit::Set { section: section.into(), name: name.map(Into::into), key: key.into(), value: value.into() }
    }

    #[test]
    fn a_difference_names_its_place() {
        let values = |all: &[(&str, &str)]| all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let edits = [
            set("class", Some("calls"), "rate", "3mbit"),
            set("class", Some("rest"), "priority", "3"),
            set("shaper", None, "rate", ""),
            Edit::Add { section: "class".into(), values: values(&[("name", "backup"), ("rate", "1mbit")]) },
            Edit::Add {
                section: "rule".into(),
                values: values(&[("class", "backup"), ("destination-port", "[873, 22]")]),
            },
            Edit::Remove { section: "rule".into(), name: "2".into() },
        ];
        assert_eq!(
            told(&edits),
            [
                "class calls: rate 2mbit -> 3mbit",
                "+ class rest: priority 3",
                "+ class backup rate 1mbit",
                "- rule class calls, dscp ef",
                "+ rule class backup, destination-port [873, 22]",
                "- shaper: rate 20mbit",
            ]
        );
        assert_eq!(told(&[]), [""; 0]);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let edited = |edits: &[Edit]| Document::parse(FILE).unwrap().edited(edits);
        let wrong = edited(&[set("class", Some("call"), "rate", "3mbit")]).unwrap_err();
        assert!(wrong.contains("no class `call`") && wrong.contains("calls"), "{wrong}");
        let wrong = edited(&[Edit::Remove { section: "rule".into(), name: "7".into() }]).unwrap_err();
        assert!(wrong.contains("no rule 7; there is one, number 1"), "{wrong}");
    }

    #[test]
    fn classes_of_a_discipline_are_found_there() {
        let text = "version = 1\n[discipline]\nkind = \"cbq\"\nlink = \"5mbit\"\nclass = [{ name = \"a\", rate = \"5mbit\" }]\n";
        let old = Document::parse(text).unwrap();
        let edits = [set("class", Some("a"), "rate", "4mbit"), set("discipline", None, "link", "6mbit")];
        let all: Vec<_> = old.differences(&old.edited(&edits).unwrap()).iter().map(ToString::to_string).collect();
        assert_eq!(all, ["class a: rate 5mbit -> 4mbit", "discipline: link 5mbit -> 6mbit"]);
    }

    #[test]
    fn conditions_are_read_as_in_a_rule() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let all = matching(&[pair("destination-port", "5000-5010"), pair("protocol", "udp")]).unwrap();
        assert_eq!(all.to_string(), "protocol udp destination-port 5000-5010");
        assert!(matching(&[pair("dport", "1")]).unwrap_err().contains("destination-port"));
        assert!(matching(&[pair("destination-port", "70000")]).is_err());
    }
}
