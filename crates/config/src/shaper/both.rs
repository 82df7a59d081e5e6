//! A file for both directions: `[up]` and `[down]` hold the tables that a file for one direction has at the top level.
//!
//! A running shaper has a text for each direction, which is edited and recorded. [`split`] and [`join`] convert between
//! these and the text for both. Comments are kept if all tables have headers on lines of their own.

use super::config::Config;
use super::file::{DataPath, Direction, File, InterfaceSection, RuleSection, ShapedDirection, Unattended};
use super::{resolve, rules};
use crate::decode::{Decode, Many, Spanned};
use crate::diagnostic::{Diagnostics, Place, Source};
use crate::node::{Entry, Node, Value};

/// The tables that both directions share and that stay at the top level.
const SHARED: [&str; 5] = ["version", "interface", "statistics", "control", "metrics"];
/// The table of rules, which both directions share if it is at the top level.
const RULE: &str = "rule";
const RULES: &str = "[[rule]]";
/// The directions in the order of a file, with their tables.
const DIRECTIONS: [(Direction, &str); 2] = [(Direction::Egress, "up"), (Direction::Ingress, "down")];

/// Reads and checks a shaper file for one direction or both. Returns a configuration for each direction that is shaped,
/// egress first, or `None` exactly if there are errors in `diagnostics`.
pub(super) fn load_all(source: &Source, diagnostics: &mut Diagnostics) -> Option<Vec<Config>> {
    let tables = Node::parse(source, diagnostics)?;
    let Some(file) = File::decode(&tables, diagnostics) else {
        errors_elsewhere(source.text(), tables, diagnostics);
        return None;
    };
    resolve(source.text(), tables, &file, diagnostics)
}

fn resolve(text: &str, tables: Node, file: &File, diagnostics: &mut Diagnostics) -> Option<Vec<Config>> {
    if is_for_both(file) {
        return resolve_all(text, &tables, file, diagnostics);
    }
    resolve::resolve_file(file, text.into(), tables, &[], diagnostics).map(|config| vec![config])
}

/// Adds the errors that the file has without the rules that cannot be read, so that a typing error in one rule does not hide an unknown
/// class in another. Nothing that is wrong elsewhere follows from a missing rule, as it may from a missing class.
fn errors_elsewhere(text: &str, mut tables: Node, diagnostics: &mut Diagnostics) {
    remove_unreadable_rules(&mut tables);
    let mut found = Diagnostics::new();
    if let Some(file) = File::decode(&tables, &mut found) {
        resolve(text, tables, &file, &mut found);
        diagnostics.add_errors(found);
    }
}

fn remove_unreadable_rules(table: &mut Node) {
    let Value::Table(entries) = &mut table.value else { return };
    for Entry { key, node, .. } in entries {
        match &mut node.value {
            Value::List(rules) if key == RULE => {
                rules.retain(|rule| RuleSection::decode(rule, &mut Diagnostics::new()).is_some());
            }
            Value::Table(_) if DIRECTIONS.iter().any(|(_, name)| key == name) => remove_unreadable_rules(node),
            _ => {}
        }
    }
}

/// Whether the file has a table for a direction.
fn is_for_both(file: &File) -> bool {
    file.up.is_some() || file.down.is_some()
}

/// The configuration of each direction of a file that has tables for them.
fn resolve_all(text: &str, tables: &Node, file: &File, diagnostics: &mut Diagnostics) -> Option<Vec<Config>> {
    let before = diagnostics.errors();
    outside(file, diagnostics);
    let sections = [&file.up, &file.down];
    let names = |section: &Option<Spanned<ShapedDirection>>| -> Vec<String> {
        section.iter().flat_map(|section| &section.class).map(|class| class.name.value.clone()).collect()
    };
    let mut configs = Vec::new();
    for (at, (direction, _)) in DIRECTIONS.into_iter().enumerate() {
        let Some(Spanned { value: section, place }) = sections[at] else { continue };
        let written = file.interface.as_ref().map(|section| &section.value);
        let direction = Spanned { value: direction, place: *place };
        let interface = InterfaceSection {
            name: written.map_or(Many(Vec::new()), |interface| interface.name.clone()),
            direction,
            mtu: written
                .map_or(Spanned { value: super::config::DEFAULT_MTU, place: *place }, |interface| interface.mtu),
            overhead: written.map_or(Spanned { value: tidegate_core::Bytes::ZERO, place: *place }, |one| one.overhead),
            data_path: written.map_or(DataPath::Auto, |interface| interface.data_path),
            unattended: written.map_or(Unattended::Keep, |interface| interface.unattended),
            threads: written.map_or(Spanned { value: 1, place: *place }, |interface| interface.threads),
        };
        let one = File {
            interface: Some(Spanned { value: interface, place: *place }),
            shaper: section.shaper.clone(),
            class: section.class.clone(),
            discipline: section.discipline.clone(),
            default_class: section.default_class.clone(),
            rule: in_order(section.rule.iter().chain(&file.rule).cloned(), |rule| rule.place),
            up: None,
            down: None,
            ..file.clone()
        };
        let text = split(text, direction.value).unwrap_or_default();
        let tables = of_direction(tables, direction.value).unwrap_or_else(|| tables.clone());
        configs.extend(resolve::resolve_file(&one, text.into(), tables, &names(sections[1 - at]), diagnostics));
    }
    // Both directions have reported the faults of the shared tables.
    diagnostics.remove_duplicates();
    (diagnostics.errors() == before).then_some(configs)
}

/// Rules of one direction and of both in the order in which they are written.
fn in_order<T>(rules: impl Iterator<Item = T>, place: impl Fn(&T) -> Place) -> Vec<T> {
    let mut rules: Vec<T> = rules.collect();
    rules.sort_by_key(|rule| place(rule).start);
    rules
}

/// Whether a key belongs into the table of a direction.
fn outside(file: &File, diagnostics: &mut Diagnostics) {
    let found = [
        ("[shaper]", file.shaper.as_ref().map(|section| section.place)),
        ("[[class]]", file.class.first().map(|class| class.place)),
        ("[discipline]", file.discipline.as_ref().map(|discipline| discipline.place)),
        ("`default-class`", file.default_class.as_ref().map(|class| class.place)),
    ];
    let table = [&file.up, &file.down].into_iter().flatten().next().map(|section| section.place).unwrap_or_default();
    for (what, place) in found {
        let Some(place) = place else { continue };
        diagnostics
            .error(place, format!("{what} beside [up] or [down]"))
            .label("of which direction?")
            .related(table, "directions have tables of their own here")
            .help("put it into the table of its direction, as in [[up.class]] or [down.discipline]");
    }
    rules::one_sided(&file.rule, diagnostics);
    if let Some(interface) = &file.interface
        && interface.value.direction.place != interface.place
    {
        diagnostics
            .error(interface.value.direction.place, "a `direction` beside [up] or [down]")
            .label("[up] and [down] specify it")
            .help("remove it");
    }
}

/// A part of a text: a header with the comments before it, and the lines after it.
struct Block<'a> {
    before: String,
    /// The path of the table, with its brackets; none for the part before all tables.
    header: Option<&'a str>,
    body: String,
}

impl Block<'_> {
    /// The first key of the path.
    fn root(&self) -> &str {
        let path = self.header.map_or("", |header| header.trim_start_matches('['));
        path.split(['.', ']']).next().unwrap_or_default().trim()
    }
    /// The block with another header.
    fn text(&self, header: &str) -> String {
        format!("{}{header}\n{}", self.before, self.body)
    }
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = vec![Block { before: String::new(), header: None, body: String::new() }];
    let mut comments = String::new();
    for line in text.lines() {
        let last = blocks.len() - 1;
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            blocks.push(Block { before: std::mem::take(&mut comments), header: Some(trimmed), body: String::new() });
        } else if trimmed.starts_with('#') {
            comments.push_str(line);
            comments.push('\n');
        } else {
            let body = &mut blocks[last].body;
            body.push_str(&std::mem::take(&mut comments));
            body.push_str(line);
            body.push('\n');
        }
    }
    if let Some(last) = blocks.last_mut() {
        last.body.push_str(&comments);
    }
    blocks
}

/// Extracts the file for one direction from a file for both. `None` if the text is no table or has no such direction.
pub(super) fn split(text: &str, direction: Direction) -> Option<String> {
    let (_, own) = DIRECTIONS.into_iter().find(|(other, _)| *other == direction)?;
    let wanted = of_direction(&parse(text)?, direction)?;
    let arrives = direction == Direction::Ingress;
    let (mut top, mut tables, mut has_interface) = (String::new(), String::new(), false);
    for block in blocks(text) {
        let root = block.root();
        match block.header {
            None => top.push_str(&block.body),
            Some(header) if root == own => match header.replacen(&format!("{own}."), "", 1) {
                // The keys of the table itself.
                same if same == header => top.push_str(&format!("{}{}", block.before, block.body)),
                inner => tables.push_str(&block.text(&inner)),
            },
            Some(_) if DIRECTIONS.iter().any(|(_, other)| *other == root) => {}
            Some(header) if root == RULE => {
                // The table before it may be one of the other direction.
                if !tables.is_empty() && !tables.ends_with("\n\n") {
                    tables.push('\n');
                }
                tables.push_str(&block.text(header));
            }
            Some(header) => {
                let direction = if root == "interface" && arrives { "\ndirection = \"ingress\"" } else { "" };
                has_interface |= root == "interface";
                tables.push_str(&block.text(&format!("{header}{direction}")));
            }
        }
    }
    if arrives && !has_interface {
        tables.insert_str(0, "[interface]\ndirection = \"ingress\"\n\n");
    }
    let sliced = format!("{top}{tables}");
    match parse(&sliced) {
        Some(node) if node.is_equal(&wanted) => Some(sliced),
        // Tables in a row, inline or with other headers: comments are lost.
        _ => Some(wanted.to_text()),
    }
}

/// Joins the files for each direction into one for both. `None` if the tables that both share differ.
pub(super) fn join(up: &str, down: &str) -> Option<String> {
    let nodes = [parse(up)?, parse(down)?];
    let (mut shared, mut own) = (String::new(), String::new());
    let (first, last) = common_rules(up, down);
    for (at, text) in [up, down].into_iter().enumerate() {
        let table = DIRECTIONS[at].1;
        let (mut number, own_rules) = (0, first.len()..rules_of(text).len() - last.len());
        for block in blocks(text) {
            number += usize::from(block.header == Some(RULES));
            match block.header {
                Some(RULES) if !own_rules.contains(&(number - 1)) => {}
                None => {
                    // A comment on the whole file is in both; others belong to the keys of this direction.
                    let is_common = |line: &&str| {
                        let is_comment = line.trim_start().starts_with('#');
                        line.trim().is_empty()
                            || line.starts_with("version")
                            || is_comment && [up, down].iter().all(|text| has_line_at_top(text, line))
                    };
                    let (common, keys): (Vec<&str>, Vec<&str>) = block.body.lines().partition(is_common);
                    if at == 0 {
                        common.iter().for_each(|line| shared.push_str(&format!("{line}\n")));
                    }
                    // Comments alone belong to the table that follows.
                    let has_keys = keys.iter().any(|line| !line.trim_start().starts_with('#'));
                    if has_keys {
                        own.push_str(&format!("[{table}]\n"));
                    }
                    keys.iter().for_each(|line| own.push_str(&format!("{line}\n")));
                    if has_keys {
                        own.push('\n');
                    }
                }
                Some(_) if SHARED.contains(&block.root()) => {
                    let body: Vec<&str> =
                        block.body.lines().filter(|line| !line.trim_start().starts_with("direction")).collect();
                    let empty = block.root() == "interface" && body.iter().all(|line| line.trim().is_empty());
                    if at == 0 && !empty {
                        shared.push_str(&format!("{}{}\n", block.before, block.header.unwrap_or_default()));
                        body.iter().for_each(|line| shared.push_str(&format!("{line}\n")));
                    }
                }
                Some(header) => {
                    let brackets = header.len() - header.trim_start_matches('[').len();
                    let (open, path) = header.split_at(brackets);
                    own.push_str(&block.text(&format!("{open}{table}.{path}")));
                }
            }
        }
        if !own.ends_with("\n\n") {
            own.push('\n');
        }
    }
    let written = |rules: &[String]| rules.iter().map(|rule| format!("\n{rule}\n")).collect::<String>();
    let (head, first, last) = (shared.trim_end(), written(&first), written(&last));
    let text = format!("{head}\n{first}\n{}\n{last}", own.trim_end());
    let joined = parse(&text)?;
    let same = DIRECTIONS.into_iter().zip(&nodes).all(|((direction, _), node)| {
        of_direction(&joined, direction).is_some_and(|of| of.is_equal(&with_direction(node, direction)))
    });
    same.then_some(text)
}

/// The rules of a text that have headers on lines of their own.
fn rules_of(text: &str) -> Vec<String> {
    let text_of = |block: Block<'_>| (block.header == Some(RULES)).then(|| block.text(RULES).trim_end().to_owned());
    blocks(text).into_iter().filter_map(text_of).collect()
}

/// The first and the last rules of two texts as far as they are equal and one rule can stand for both directions.
fn common_rules(up: &str, down: &str) -> (Vec<String>, Vec<String>) {
    let [up, down] = [up, down].map(|text| {
        // A table of a rule, as `[rule.displace]`, would have to move with its rule.
        let has_parts = blocks(text).iter().any(|block| block.root() == RULE && block.header != Some(RULES));
        if has_parts { Vec::new() } else { rules_of(text) }
    });
    let is_common = |(up, down): &(&String, &String)| up == down && is_for_either(up);
    let last = up.iter().rev().zip(down.iter().rev()).take_while(is_common).count();
    let (up, last) = up.split_at(up.len() - last);
    let first = up.iter().zip(&down[..down.len() - last.len()]).take_while(is_common).count();
    (up[..first].to_vec(), last.to_vec())
}

/// Whether a rule means the same in both directions.
fn is_for_either(rule: &str) -> bool {
    let Some(node) = parse(rule) else { return false };
    let keys: Vec<&Entry> = entries(&node).iter().flat_map(|rules| list(&rules.node)).flat_map(entries).collect();
    let has_end = keys.iter().any(|entry| rules::ENDS.contains(&&*entry.key));
    !has_end || keys.iter().any(|entry| entry.key == "both-ways" && matches!(entry.node.value, Value::Truth(true)))
}

/// Whether `line` precedes all tables of `text`.
fn has_line_at_top(text: &str, line: &str) -> bool {
    text.lines().take_while(|other| !other.trim_start().starts_with('[')).any(|other| other == line)
}

fn parse(text: &str) -> Option<Node> {
    Node::parse(&Source::new("", text), &mut Diagnostics::new())
}

fn entries(node: &Node) -> &[Entry] {
    if let Value::Table(entries) = &node.value { entries } else { &[] }
}

fn list(node: &Node) -> &[Node] {
    if let Value::List(list) = &node.value { list } else { &[] }
}

/// The table of a direction with the tables of both, as a file for one direction.
fn of_direction(node: &Node, direction: Direction) -> Option<Node> {
    let (_, own) = DIRECTIONS.into_iter().find(|(other, _)| *other == direction)?;
    let table = entries(node).iter().find(|entry| entry.key == own)?;
    let others = |entry: &&Entry| DIRECTIONS.iter().all(|(_, name)| *name != entry.key) && entry.key != RULE;
    let mut all: Vec<Entry> = entries(node).iter().filter(others).chain(entries(&table.node)).cloned().collect();
    if let Some(shared) = entries(node).iter().find(|entry| entry.key == RULE) {
        match all.iter_mut().find(|entry| entry.key == RULE).map(|own| &mut own.node.value) {
            Some(Value::List(own)) => {
                let both = own.drain(..).chain(list(&shared.node).iter().cloned()).collect::<Vec<_>>();
                *own = in_order(both.into_iter(), |rule| rule.place);
            }
            _ => all.push(shared.clone()),
        }
    }
    Some(with_direction(&Node { place: node.place, value: Value::Table(all) }, direction))
}

/// The file with the direction in its interface, left out where it is the default.
fn with_direction(node: &Node, direction: Direction) -> Node {
    let key = |key: &str, value: Value| Entry {
        key: key.into(),
        key_place: Place::default(),
        node: Node { place: Place::default(), value },
    };
    let mut all: Vec<Entry> = entries(node).to_vec();
    let written = all.iter().position(|entry| entry.key == "interface");
    let mut interface: Vec<Entry> = written.map(|at| entries(&all.remove(at).node).to_vec()).unwrap_or_default();
    interface.retain(|entry| entry.key != "direction");
    if direction == Direction::Ingress {
        interface.push(key("direction", Value::Text("ingress".into())));
    }
    if !interface.is_empty() {
        all.push(key("interface", Value::Table(interface)));
    }
    Node { place: node.place, value: Value::Table(all) }
}
