//! [`Node`]: a parsed text with the place of everything in it.

use std::collections::HashSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Diagnostics, Place, Source};

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its position in the text.
    pub place: Place,
    /// The value with the positions of its parts.
    pub value: Value,
}

/// A value of TOML.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number; `None` when it does not fit 64 bits.
    Integer(Option<i64>),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Truth(bool),
    /// A date or a time, which is not used here.
    Date,
    /// An array, or an array of tables.
    List(Vec<Node>),
    /// A table with a header, in braces or made by dotted keys, in the order of the text.
    Table(Vec<Entry>),
}

/// A key of a table, and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// One part of a dotted key, without quotation marks.
    pub key: String,
    /// Its place, without that of the value.
    pub key_place: Place,
    /// The value.
    pub node: Node,
}

impl Node {
    /// Parses a whole text. All errors of syntax that can be distinguished go to `diagnostics`.
    pub fn parse(source: &Source, diagnostics: &mut Diagnostics) -> Option<Self> {
        let (table, errors) = DeTable::parse_recoverable(source.text());
        // A table that stands twice is an error for each of its keys that is there already.
        let mut again = HashSet::new();
        for error in &errors {
            let place = error.span().map(Place::from).unwrap_or_default();
            let is_twice = error.message().starts_with("duplicate key");
            let table = source.text().get(..place.start).and_then(|before| before.rfind("\n[")).unwrap_or_default();
            if is_twice && !again.insert(table) {
                continue;
            }
            diagnostics.error(place, error.message()).label("here").help(match is_twice {
                true => "each key may be there once; tables that may, as those of classes and rules, have double brackets: [[rule]]",
                false => "this is not TOML; see https://toml.io for the syntax",
            });
        }
        errors.is_empty().then(|| Self { place: table.span().into(), value: Value::Table(entries(table.get_ref())) })
    }

    /// Writes a table as a file of its own. Comments and the spelling of values are lost.
    pub fn to_text(&self) -> String {
        self.to_table().to_string()
    }

    /// The table without places; empty if this is no table.
    pub(crate) fn to_table(&self) -> toml::Table {
        match self.plain() {
            Some(toml::Value::Table(table)) => table,
            _ => toml::Table::new(),
        }
    }

    /// The value as it is written in a file; a text without its quotation marks.
    pub fn value_text(&self) -> String {
        match self.plain() {
            Some(toml::Value::String(text)) => text,
            Some(value) => value.to_string(),
            None => String::new(),
        }
    }

    fn plain(&self) -> Option<toml::Value> {
        Some(match &self.value {
            Value::Text(text) => text.clone().into(),
            Value::Integer(number) => (*number)?.into(),
            Value::Float(number) => (*number).into(),
            Value::Truth(truth) => (*truth).into(),
            Value::Date => return None,
            Value::List(list) => toml::Value::Array(list.iter().filter_map(Self::plain).collect()),
            Value::Table(entries) => toml::Value::Table(
                entries.iter().filter_map(|entry| Some((entry.key.clone(), entry.node.plain()?))).collect(),
            ),
        })
    }

    /// Whether both have the same values, regardless of places and of the order in tables.
    pub(crate) fn is_equal(&self, other: &Self) -> bool {
        match (self.plain(), other.plain()) {
            (Some(one), Some(other)) => one == other,
            _ => false,
        }
    }

    /// The type with an article, for errors.
    pub fn what(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a text",
            Value::Integer(_) => "a whole number",
            Value::Float(number) if number.is_nan() => "nan, which is not a number",
            Value::Float(number) if number.is_infinite() => "infinity",
            Value::Float(_) => "a number",
            Value::Truth(_) => "true or false",
            Value::Date => "a date",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

fn entries(table: &DeTable<'_>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry { key: key.get_ref().to_string(), key_place: key.span().into(), node: node(value) })
        .collect();
    entries.sort_by_key(|entry| entry.key_place);
    entries
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let inner = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(n) => Value::Integer(i64::from_str_radix(n.as_str(), n.radix()).ok()),
        DeValue::Float(x) => Value::Float(x.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(truth) => Value::Truth(*truth),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(list) => Value::List(list.iter().map(node).collect()),
        DeValue::Table(table) => Value::Table(entries(table)),
    };
    Node { place: value.span().into(), value: inner }
}
