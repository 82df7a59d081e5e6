//! Edits of a file's text, and the differences between two files, for changes of a running shaper.
//!
//! An edit produces a new text, which is then read and checked like any file. Comments, the order of keys and all text
//! outside the edit stay byte for byte. `toml_edit` finds the place of an edit, which then replaces the bytes there;
//! its own printer is not used, because it turns `\r\n` into `\n`, drops a byte order mark, and moves dotted keys of
//! one table together.
//!
//! ```
//! use tidegate_config::{Diagnostics, Source, edit, shaper};
//! let old = "version = 1\n[[class]]\nname = \"all\"\nrate = \"5mbit\" # for now\ndefault = true\n";
//! let mut file = edit::Document::parse(old)?;
//! file.set("class", Some("all"), "rate", "8mbit")?;
//! assert_eq!(file.text(), old.replace("5mbit", "8mbit"));
//! let load = |text| shaper::load(&Source::new("office.toml", text), &mut Diagnostics::new()).ok_or("it is not valid");
//! let all = edit::differences(&load(old)?, &load(file.text())?);
//! assert_eq!(all.iter().map(ToString::to_string).collect::<Vec<_>>(), ["class all: rate 5mbit -> 8mbit"]);
//! # Ok::<(), String>(())
//! ```

mod alike;
mod difference;
mod layout;

use std::ops::Range;

use toml_edit::{Array, ArrayOfTables, InlineTable, Item, Key, Table, Value};

use crate::decode::Scalar;
use crate::shaper::Match;
use crate::suggest;
use layout::{End, Entries, Layout, Splice};

pub use difference::differences;
pub use tidegate_control::calls::{Difference, Edit};

/// A file that is being edited.
#[derive(Clone, Debug)]
pub struct Document(toml_edit::Document<String>);

impl Document {
    /// Parses a text.
    ///
    /// # Errors
    /// When it is not TOML.
    pub fn parse(text: impl Into<String>) -> Result<Self, String> {
        toml_edit::Document::parse(text.into()).map(Self).map_err(|error| error.message().to_owned())
    }
    /// Returns the text with all edits so far.
    pub fn text(&self) -> &str {
        self.0.raw()
    }
    /// Returns the file after `edits`, applied one after the other.
    ///
    /// # Errors
    /// Lists the missing keys and the keys that exist.
    pub fn edited(&self, edits: &[Edit]) -> Result<Self, String> {
        let mut new = self.clone();
        for edit in edits {
            new.apply(edit)?;
        }
        new.check_removed(edits)?;
        Ok(new)
    }

    fn apply(&mut self, edit: &Edit) -> Result<(), String> {
        match edit {
            Edit::Set { section, name, key, value } => self.set(section, name.as_deref(), key, value),
            Edit::Add { section, values } => self.add(section, values),
            Edit::Remove { section, name } => self.remove(section, name),
        }
    }

    /// Fails where rules still lead to a class that one of `edits` has removed, and names them.
    fn check_removed(&self, edits: &[Edit]) -> Result<(), String> {
        let removed = edits.iter().filter_map(|edit| match edit {
            Edit::Remove { section, name } if section == "class" => Some(name.as_str()),
            _ => None,
        });
        let root = self.0.as_table();
        for class in removed.filter(|class| find(root, "class", Some(class)).is_err()) {
            let Ok(rules) = list(root, "rule") else { continue };
            let uses = |node: &Option<Node<'_>>| node.and_then(|node| node.get("class")?.as_str()) == Some(class);
            let nodes = rules.nodes();
            let places = nodes.iter().enumerate().filter(|(_, node)| uses(node)).map(|(at, _)| (at + 1).to_string());
            match &places.collect::<Vec<_>>()[..] {
                [] => {}
                [one] => {
                    return Err(format!(
                        "rule {one} still uses the class `{class}`; remove it, or set its class, first"
                    ));
                }
                [all @ .., last] => {
                    let all = all.join(", ");
                    return Err(format!(
                        "rules {all} and {last} still use the class `{class}`; remove them, or set their class, first"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The numbers, from 1, that the rules added by `edits` have after all of them, in the order of the edits.
    pub fn added_rules(edits: &[Edit]) -> Vec<u32> {
        let mut added: Vec<u32> = Vec::new();
        for edit in edits {
            match edit {
                Edit::Add { section, .. } if section == "rule" => {
                    added.iter_mut().for_each(|number| *number += 1);
                    added.push(1);
                }
                Edit::Remove { section, name } if section == "rule" => {
                    let removed: u32 = name.parse().unwrap_or(u32::MAX);
                    added.retain(|number| *number != removed);
                    added.iter_mut().filter(|number| **number > removed).for_each(|number| *number -= 1);
                }
                _ => {}
            }
        }
        added
    }

    /// Sets the value of a key; an empty value removes the key. `section` is `class`, `rule`, or a table such as
    /// `shaper` or `discipline`; `name` is the name of the class, or the number of the rule, from 1, or its name. Dots in `key` lead
    /// into tables. `value` is TOML; a text needs no quotes.
    ///
    /// # Errors
    /// Lists the missing keys and the keys that exist. Nothing has changed then.
    pub fn set(&mut self, section: &str, name: Option<&str>, key: &str, value: &str) -> Result<(), String> {
        self.check_section(section, name, key, value)?;
        let key: Vec<&str> = key.split('.').collect();
        let value = Some(toml(value)).filter(|value| !is_empty(value));
        let mut new = self.clone();
        // The value that replaces a table is written where a new key would be.
        while (value.is_none() || new.is_table(section, name, &key)?)
            && new.change(|layout, root| match find(root, section, name) {
                Err(_) if name.is_none() && !root.contains_key(section) => Ok(Vec::new()),
                node => set(layout, node?, section, &key, None),
            })?
        {}
        if let Some(value) = value {
            new.change(|layout, root| match find(root, section, name) {
                Err(_) if name.is_none() && !root.contains_key(section) => {
                    let line = format!("{} = {value}", path(&key));
                    Ok(vec![append(layout, &format!("[{}]", Key::new(section)), &[line])])
                }
                node => set(layout, node?, section, &key, Some(&value)),
            })?;
        }
        *self = new;
        Ok(())
    }

    /// Refuses keys of `shaper` in a file with a `discipline`, as a preset has: the table would be made, and the file be
    /// refused as a whole.
    fn check_section(&self, section: &str, name: Option<&str>, key: &str, value: &str) -> Result<(), String> {
        let root = self.0.as_table();
        let Some(discipline) = root.get("discipline").and_then(Node::of) else { return Ok(()) };
        if section != "shaper" || name.is_some() || root.contains_key(section) {
            return Ok(());
        }
        let kind =
            discipline.get("kind").and_then(Item::as_str).map_or(String::new(), |kind| format!(" of kind `{kind}`"));
        let first = key.split('.').next().unwrap_or(key);
        let way = match discipline.get(first) {
            Some(_) => format!("write `set discipline {key} {value}`"),
            None => format!(
                "it has no `{first}`; `set discipline KEY VALUE` changes {}",
                suggest::listed(&discipline.keys())
            ),
        };
        Err(format!("this configuration has no `shaper`, but a `discipline`{kind}: {way}"))
    }

    /// Appends a class, or adds a rule before all others, with these keys and values.
    ///
    /// # Errors
    /// When the file cannot have such a section.
    pub fn add(&mut self, section: &str, values: &[(String, String)]) -> Result<(), String> {
        let mut all: Vec<(String, String)> = Vec::new();
        for (key, value) in values {
            let key = path(&key.split('.').collect::<Vec<_>>());
            all.retain(|(other, _)| *other != key);
            all.push((key, toml(value)));
        }
        all.retain(|(_, value)| !is_empty(value));
        let lines: Vec<String> = all.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        // The first rule that matches applies, so an added rule has an effect only before the others.
        let end = if section == "rule" { End::First } else { End::Last };
        self.change(|layout, root| {
            let inside = is_inside(root, section);
            let parent = match root.get("discipline") {
                Some(discipline) if inside => Node::of(discipline).ok_or("`discipline` is not a table")?,
                _ => Node::Table(root),
            };
            let header = if inside { format!("[[discipline.{section}]]") } else { format!("[[{section}]]") };
            let inline = format!("{{ {} }}", lines.join(", "));
            match (parent.get(section), parent) {
                (None, Node::Inline(table)) => {
                    let list = format!("{section} = [{inline}]");
                    Ok(entries_of(layout, table)?.insert(layout, End::Last, &list))
                }
                (None, Node::Table(_)) => Ok(vec![append(layout, &header, &lines)]),
                (Some(item), _) => match List::of(item).ok_or_else(|| format!("`{section}` is not a list"))? {
                    List::Tables(list) => Ok(vec![add_table(layout, list, end, &header, &lines)]),
                    List::Array(array) => {
                        let entries = Entries::of_array(array).ok_or("the list has no place")?;
                        Ok(entries.insert(layout, end, &inline))
                    }
                },
            }
        })?;
        Ok(())
    }

    /// Removes a class, by its name, or a rule, by its number from 1 or its name.
    ///
    /// # Errors
    /// Lists the missing keys and the keys that exist.
    pub fn remove(&mut self, section: &str, name: &str) -> Result<(), String> {
        self.change(|layout, root| {
            let list = list(root, section)?;
            let at = list.find(section, name)?;
            match list {
                List::Tables(list) => Ok(remove_sections(layout, list.get(at).ok_or("not a table")?)),
                List::Array(array) => {
                    Ok(vec![Entries::of_array(array).ok_or("the list has no place")?.remove(layout, at)])
                }
            }
        })?;
        Ok(())
    }

    /// Whether `key` is a table of several lines or keys.
    fn is_table(&self, section: &str, name: Option<&str>, key: &[&str]) -> Result<bool, String> {
        let Ok(mut node) = find(self.0.as_table(), section, name) else { return Ok(false) };
        for key in key {
            let Some(item) = node.get(key) else { return Ok(false) };
            match Node::of(item) {
                Some(next) => node = next,
                None => return Ok(matches!(item, Item::ArrayOfTables(_))),
            }
        }
        Ok(matches!(node, Node::Table(_)) || node.is_dotted())
    }

    /// Applies the splices that `work` makes, if the result is TOML. Returns whether there were any.
    fn change(&mut self, work: impl FnOnce(&Layout, &Table) -> Result<Vec<Splice>, String>) -> Result<bool, String> {
        let splices = work(&Layout::new(self.text(), self.0.as_table()), self.0.as_table())?;
        if splices.is_empty() {
            return Ok(false);
        }
        *self = Self::parse(layout::apply(self.text(), splices))?;
        Ok(true)
    }
}

/// Parses a value as TOML, or else takes it as a text.
fn toml(text: &str) -> String {
    let text = text.trim();
    if text.parse::<Value>().is_ok() { text.to_owned() } else { Value::from(text).to_string() }
}

/// Keys with dots between them, quoted where they must be.
fn path(keys: &[&str]) -> String {
    keys.iter().map(|key| Key::new(*key).to_string()).collect::<Vec<_>>().join(".")
}

/// Whether a value is the empty text.
fn is_empty(value: &str) -> bool {
    matches!(value, "\"\"" | "''")
}

/// A table, with a header or in braces.
#[derive(Clone, Copy)]
enum Node<'a> {
    Table(&'a Table),
    Inline(&'a InlineTable),
}

impl<'a> Node<'a> {
    fn of(item: &'a Item) -> Option<Self> {
        match item {
            Item::Table(table) => Some(Self::Table(table)),
            Item::Value(Value::InlineTable(table)) => Some(Self::Inline(table)),
            _ => None,
        }
    }
    fn get(self, key: &str) -> Option<&'a Item> {
        match self {
            Self::Table(table) => table.get(key),
            Self::Inline(table) => table.get_key_value(key).map(|(_, item)| item),
        }
    }
    fn keys(self) -> Vec<&'a str> {
        match self {
            Self::Table(table) => table.iter().map(|(key, _)| key).collect(),
            Self::Inline(table) => table.iter().map(|(key, _)| key).collect(),
        }
    }
    /// Whether it is made by dotted keys of the table around it.
    fn is_dotted(self) -> bool {
        match self {
            Self::Table(table) => table.is_dotted(),
            Self::Inline(table) => table.is_dotted(),
        }
    }
}

/// The classes or rules.
enum List<'a> {
    Tables(&'a ArrayOfTables),
    Array(&'a Array),
}

impl<'a> List<'a> {
    fn of(item: &'a Item) -> Option<Self> {
        match item {
            Item::ArrayOfTables(list) => Some(Self::Tables(list)),
            Item::Value(Value::Array(list)) => Some(Self::Array(list)),
            _ => None,
        }
    }
    fn nodes(&self) -> Vec<Option<Node<'a>>> {
        match self {
            Self::Tables(list) => list.iter().map(|table| Some(Node::Table(table))).collect(),
            Self::Array(list) => list.iter().map(|value| value.as_inline_table().map(Node::Inline)).collect(),
        }
    }
    /// The place of a class or rule.
    fn find(&self, section: &str, name: &str) -> Result<usize, String> {
        let nodes = self.nodes();
        let names = nodes.iter().map(|node| node.as_ref()?.get("name")?.as_str());
        let names: Vec<Option<&str>> = names.collect();
        if section == "rule" {
            return rule(&names, name);
        }
        let found = names.iter().position(|other| *other == Some(name));
        found.ok_or_else(|| no_class(name, &names.into_iter().flatten().collect::<Vec<_>>()))
    }
}

/// The place of the rule with this number, from 1, or this name, among rules with `names`.
fn rule(names: &[Option<&str>], name: &str) -> Result<usize, String> {
    let Ok(number) = name.parse::<usize>() else {
        let mut places = (0..names.len()).filter(|at| names[*at] == Some(name));
        return match (places.next(), places.next()) {
            (Some(only), None) => Ok(only),
            (Some(one), Some(two)) => Err(format!(
                "several rules have the name `{name}`, as {} and {}; name one by its number",
                one + 1,
                two + 1
            )),
            _ => {
                let known: Vec<&str> = names.iter().copied().flatten().collect();
                let names = if known.is_empty() { "none has a name".into() } else { suggest::help(name, &known) };
                Err(format!("there is no rule `{name}`; rules are named by their number, or by their `name`: {names}"))
            }
        };
    };
    match number {
        n if (1..=names.len()).contains(&n) => Ok(n - 1),
        n => Err(match names.len() {
            0 => format!("there is no rule {n}; there are none"),
            1 => format!("there is no rule {n}; there is one, number 1"),
            last => format!("there is no rule {n}; they are numbered from 1 to {last}"),
        }),
    }
}

fn no_class(name: &str, names: &[&str]) -> String {
    format!("there is no class `{name}`; {}", suggest::help(name, names))
}

/// Whether the list is a part of the section `discipline`.
fn is_inside(root: &Table, section: &str) -> bool {
    section == "class" && root.contains_key("discipline")
}

/// The list of classes or rules, wherever this file has it.
fn list<'a>(root: &'a Table, section: &str) -> Result<List<'a>, String> {
    let inside = is_inside(root, section);
    let parent = match root.get("discipline") {
        Some(discipline) if inside => Node::of(discipline).ok_or("`discipline` is not a table")?,
        _ => Node::Table(root),
    };
    match parent.get(section) {
        Some(item) => List::of(item).ok_or_else(|| format!("`{section}` is not a list")),
        None => Err(format!("this configuration has no `{section}`; `tidegate status --file` prints it")),
    }
}

/// The table that an edit changes.
fn find<'a>(root: &'a Table, section: &str, name: Option<&str>) -> Result<Node<'a>, String> {
    let Some(name) = name else {
        let known: Vec<&str> = root.iter().filter(|(_, item)| Node::of(item).is_some()).map(|(key, _)| key).collect();
        let item = root.get(section);
        let item = item.ok_or_else(|| format!("there is no `{section}`; {}", suggest::help(section, &known)))?;
        return Node::of(item).ok_or_else(|| format!("`{section}` is not a table"));
    };
    let list = list(root, section)?;
    let at = list.find(section, name)?;
    list.nodes().into_iter().nth(at).flatten().ok_or_else(|| "not a table".to_owned())
}

fn entries_of(layout: &Layout, table: &InlineTable) -> Result<Entries, String> {
    Entries::of_table(layout.text, table).ok_or_else(|| "the table has no place".to_owned())
}

/// Sets `key` of `node`, which is in `section`; without a value it removes the key, or the first part of it.
fn set(layout: &Layout, node: Node, section: &str, key: &[&str], value: Option<&str>) -> Result<Vec<Splice>, String> {
    // The table with a header or braces, and the dotted keys from there on.
    let (mut base, mut header, mut dotted) = (node, vec![section], Vec::new());
    let mut node = node;
    for (at, name) in key.iter().enumerate() {
        let Some(item) = node.get(name) else {
            let Some(value) = value else { return Ok(Vec::new()) };
            dotted.extend(&key[at..]);
            return insert(layout, base, &header, &format!("{} = {value}", path(&dotted)));
        };
        if at + 1 == key.len() {
            return match (value, item.as_value().and_then(Value::span)) {
                (Some(value), Some(range)) => Ok(vec![Splice { range, with: value.to_owned() }]),
                (Some(_), None) => Err(format!("`{name}` is a table")),
                (None, _) => remove(layout, base, item),
            };
        }
        node = Node::of(item).ok_or_else(|| format!("`{name}` is not a table"))?;
        dotted.push(name);
        if !node.is_dotted() {
            base = node;
            header.append(&mut dotted);
        }
    }
    Ok(Vec::new())
}

/// Adds a line, or an entry, to `base`.
fn insert(layout: &Layout, base: Node, header: &[&str], line: &str) -> Result<Vec<Splice>, String> {
    let line_break = layout.line_break();
    let table = match base {
        Node::Inline(table) => return Ok(entries_of(layout, table)?.insert(layout, End::Last, line)),
        Node::Table(table) => table,
    };
    if table.is_implicit() {
        let mut sections = Vec::new();
        layout.sections(table, &mut sections);
        let first = sections.iter().map(|section| section.start).min().ok_or("the table has no place")?;
        let lines = format!("[{}]{line_break}{line}{line_break}{line_break}", path(header));
        return Ok(vec![layout.insert_lines(layout.with_comments(first), &lines)]);
    }
    let last = layout::last_entry(table);
    let indent = last.as_ref().map_or("", |entry| layout.indent(entry.start));
    let end = last.as_ref().map(|entry| entry.end).or(table.span().map(|span| span.end));
    let at = layout.line_end(end.ok_or("the table has no place")?);
    Ok(vec![layout.insert_lines(at, &format!("{indent}{line}{line_break}"))])
}

/// Removes `item`, which is in `base`; of a table that is dotted keys, the first of them.
fn remove(layout: &Layout, base: Node, item: &Item) -> Result<Vec<Splice>, String> {
    let span = match item {
        Item::None => None,
        Item::ArrayOfTables(list) => {
            let mut sections = Vec::new();
            list.iter().for_each(|table| layout.sections(table, &mut sections));
            return Ok(layout.remove_sections(sections));
        }
        Item::Table(table) if !table.is_dotted() => return Ok(remove_sections(layout, table)),
        Item::Table(table) => first_value(table.get_values()),
        Item::Value(Value::InlineTable(table)) if table.is_dotted() => first_value(table.get_values()),
        Item::Value(value) => value.span(),
    };
    let span = span.ok_or("the key has no place")?;
    match base {
        Node::Inline(table) => {
            let entries = entries_of(layout, table)?;
            Ok(vec![entries.remove(layout, entries.at(span.start).ok_or("the key has no place")?)])
        }
        Node::Table(table) => {
            let entry = layout::entry_at(table, span.start).ok_or("the key has no place")?;
            Ok(vec![Splice::remove(layout.with_comments(entry.start)..layout.line_end(entry.end))])
        }
    }
}

fn first_value(values: Vec<(Vec<&Key>, &Value)>) -> Option<Range<usize>> {
    values.first().and_then(|(_, value)| value.span())
}

fn remove_sections(layout: &Layout, table: &Table) -> Vec<Splice> {
    let mut sections = Vec::new();
    layout.sections(table, &mut sections);
    layout.remove_sections(sections)
}

/// Appends a section to the file.
fn append(layout: &Layout, header: &str, lines: &[String]) -> Splice {
    let empty = layout.text[layout.start()..].trim().is_empty();
    let line_break = layout.line_break();
    let before = if empty { "" } else { line_break };
    layout.insert_lines(layout.text.len(), &format!("{before}{}", section(header, lines, line_break)))
}

fn section(header: &str, lines: &[String], line_break: &str) -> String {
    std::iter::once(header).chain(lines.iter().map(String::as_str)).map(|line| format!("{line}{line_break}")).collect()
}

/// Adds a table to a list that is not empty.
fn add_table(layout: &Layout, list: &ArrayOfTables, end: End, header: &str, lines: &[String]) -> Splice {
    let line_break = layout.line_break();
    let text = section(header, lines, line_break);
    let mut sections = Vec::new();
    list.iter().for_each(|table| layout.sections(table, &mut sections));
    if end == End::First {
        let first = sections.iter().map(|section| section.start).min().unwrap_or(layout.text.len());
        return layout.insert_lines(layout.with_comments(first), &format!("{text}{line_break}"));
    }
    let last = sections.iter().map(|section| section.end).max().unwrap_or(layout.text.len());
    layout.insert_lines(layout.line_end(last), &format!("{line_break}{text}"))
}

/// Parses the conditions of a rule from keys and values.
///
/// # Errors
/// The error, and its remedy.
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
            "host" => all.hosts.push(one(text)?),
            "port" => all.ports.push(one(text)?),
            "both-ways" if text == "true" => all.both_ways = true,
            "mark" => all.marks.push(one(text)?),
            "uid" => all.users.push(one(text)?),
            "cgroup" => all.cgroups.push(text.trim_matches('/').to_owned()),
            "length" => all.lengths.push(one(text)?),
            "tcp-flags" => all.tcp_flags.push(one(text)?),
            "pure-ack" if text == "true" => all.pure_ack = true,
            "icmp-type" => all.icmp_types.push(one(text)?),
            other => {
                const KEYS: [&str; 16] = [
                    "dscp",
                    "protocol",
                    "source",
                    "destination",
                    "source-port",
                    "destination-port",
                    "host",
                    "port",
                    "both-ways",
                    "mark",
                    "uid",
                    "cgroup",
                    "length",
                    "tcp-flags",
                    "pure-ack",
                    "icmp-type",
                ];
                return Err(format!("`{other}` is no condition; {}", suggest::key(other, &KEYS)));
            }
        }
    }
    Ok(all)
}
