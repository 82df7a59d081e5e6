//! Tables with known keys: [`record!`](crate::record).

use serde_json::Value as Json;

use super::{Decode, mismatch};
use crate::diagnostic::{Diagnostics, Place};
use crate::node::{Entry, Node, Value};
use crate::suggest;

/// A default of a declaration.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// A string.
    Text(&'static str),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Truth(bool),
}

impl Literal {
    fn node(self, place: Place) -> Node {
        let value = match self {
            Self::Text(text) => Value::Text(text.into()),
            Self::Integer(n) => Value::Integer(Some(n)),
            Self::Float(x) => Value::Float(x),
            Self::Truth(truth) => Value::Truth(truth),
        };
        Node { place, value }
    }
    /// The default as it appears in a schema.
    pub fn json(self) -> Json {
        match self {
            Self::Text(text) => text.into(),
            Self::Integer(n) => n.into(),
            Self::Float(x) => x.into(),
            Self::Truth(truth) => truth.into(),
        }
    }
}

impl From<&'static str> for Literal {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}
impl From<i64> for Literal {
    fn from(n: i64) -> Self {
        Self::Integer(n)
    }
}
impl From<f64> for Literal {
    fn from(x: f64) -> Self {
        Self::Float(x)
    }
}
impl From<bool> for Literal {
    fn from(truth: bool) -> Self {
        Self::Truth(truth)
    }
}

/// The keys of a table, which are taken one by one. Keys that are left at the end are unknown.
#[derive(Debug)]
pub struct Fields<'a> {
    title: &'static str,
    place: Place,
    entries: &'a [Entry],
    known: Vec<String>,
    missing: Vec<(String, String)>,
    diagnostics: &'a mut Diagnostics,
}

impl<'a> Fields<'a> {
    /// The keys of `node`, which errors call `title`. Reports an error if it is not a table.
    pub fn of(node: &'a Node, title: &'static str, diagnostics: &'a mut Diagnostics) -> Option<Self> {
        match &node.value {
            Value::Table(entries) => {
                Some(Self { title, place: node.place, entries, known: Vec::new(), missing: Vec::new(), diagnostics })
            }
            _ => {
                mismatch(
                    node,
                    &format!("the table of {}", suggest::with_article(title)),
                    "write { key = value, ... } or a [section]",
                    diagnostics,
                );
                None
            }
        }
    }

    /// Takes the value of `key`, or else the default, or else [`Decode::absent`], or else reports an error.
    pub fn take<T: Decode>(&mut self, key: &str, default: Option<Literal>) -> Option<T> {
        self.known.push(key.to_owned());
        if let Some(entry) = self.entries.iter().find(|entry| entry.key == key) {
            return T::decode(&entry.node, self.diagnostics);
        }
        if let Some(literal) = default {
            return T::decode(&literal.node(self.place), self.diagnostics);
        }
        let absent = T::absent();
        if absent.is_none() {
            self.missing.push((key.to_owned(), T::example()));
        }
        absent
    }

    /// Reports every key that was not taken and every one that is missing; `None` if there is any.
    pub fn finish(self) -> Option<()> {
        let known: Vec<&str> = self.known.iter().map(String::as_str).collect();
        let is_unknown = |entry: &&Entry| !known.contains(&entry.key.as_str());
        let unknown: Vec<&Entry> = self.entries.iter().filter(is_unknown).collect();
        for entry in &unknown {
            self.diagnostics
                .error(entry.key_place, format!("unknown key `{}` in {}", entry.key, self.title))
                .label("unknown key")
                .help(suggest::key(&entry.key, &known));
        }
        for (key, example) in &self.missing {
            // When the key is there but mistyped, that has been reported.
            let mistyped = unknown.iter().any(|entry| suggest::nearest(&entry.key, known.iter().copied()) == Some(key));
            if !mistyped {
                self.diagnostics
                    .error(self.place, format!("{} lacks `{key}`", self.title))
                    .label(format!("`{key}` is missing"))
                    .help(format!("add for example {key} = {example}"));
            }
        }
        (unknown.is_empty() && self.missing.is_empty()).then_some(())
    }
}

/// The key of a field: `flow_burst` is written `flow-burst`.
pub fn key(field: &str) -> String {
    field.trim_start_matches("r#").replace('_', "-")
}

/// Declares a section of a file: a struct, its documentation, its defaults, how it is read, and its schema.
///
/// `struct Name as "title"`: the title is in errors ("unknown key `x` in title") and names the definition in
/// the schema, so it must be unique. A field `a_b: T` is the key `a-b`. It is optional when its type is `Option`,
/// `Vec` or [`Many`](crate::Many), or when it has a default, `= literal`, which is read as if the file had it. See
/// the [crate](crate) for an example.
#[macro_export]
macro_rules! record {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident as $title:literal {
            $( $(#[doc = $fdoc:literal])* $fvis:vis $field:ident : $ty:ty $(= $default:literal)? ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, PartialEq, Debug)]
        $vis struct $name {
            $( $(#[doc = $fdoc])* $fvis $field: $ty, )*
        }

        impl $crate::Decode for $name {
            fn decode(
                node: &$crate::node::Node,
                diagnostics: &mut $crate::Diagnostics,
            ) -> ::core::option::Option<Self> {
                let mut fields = $crate::decode::Fields::of(node, $title, diagnostics)?;
                $(
                    let $field: ::core::option::Option<$ty> = fields.take(
                        &$crate::decode::key(stringify!($field)),
                        ::core::option::Option::None
                            $(.or(::core::option::Option::Some($crate::decode::Literal::from($default))))?,
                    );
                )*
                fields.finish()?;
                ::core::option::Option::Some(Self { $( $field: $field?, )* })
            }
            fn example() -> String {
                "{ ... }".into()
            }
            fn schema(schemas: &mut $crate::Schemas) -> $crate::serde_json::Value {
                schemas.define::<Self>($title, <Self as $crate::Record>::object)
            }
        }

        impl $crate::Record for $name {
            #[allow(unused_mut, unused_variables)]
            fn object(schemas: &mut $crate::Schemas) -> $crate::serde_json::Value {
                let mut properties = $crate::serde_json::Map::new();
                let mut required: Vec<String> = Vec::new();
                $(
                    let key = $crate::decode::key(stringify!($field));
                    let default: ::core::option::Option<$crate::decode::Literal> = ::core::option::Option::None
                        $(.or(::core::option::Option::Some($crate::decode::Literal::from($default))))?;
                    if default.is_none() && <$ty as $crate::Decode>::absent().is_none() {
                        required.push(key.clone());
                    }
                    let schema = <$ty as $crate::Decode>::schema(schemas);
                    let default = default.map($crate::decode::Literal::json);
                    properties.insert(key, $crate::schema::describe(schema, &[$($fdoc),*], default));
                )*
                $crate::serde_json::json!({
                    "type": "object",
                    "description": $crate::schema::paragraph(&[$($doc),*]),
                    "properties": properties,
                    "required": required,
                    "additionalProperties": false,
                })
            }
        }
    };
}
