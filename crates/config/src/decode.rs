//! [`Decode`]: from a [`Node`] to a Rust value, all errors in one go; the macros that declare sections of a file.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::diagnostic::{Diagnostics, Place, Source};
use crate::node::{Entry, Node, Value};
use crate::schema::Schemas;
use crate::suggest;

/// Reads a whole text as a `T`. `None` exactly when errors went to `diagnostics`.
pub fn read<T: Decode>(source: &Source, diagnostics: &mut Diagnostics) -> Option<T> {
    let node = Node::parse(source, diagnostics)?;
    T::decode(&node, diagnostics)
}

/// What can be read from a configuration.
pub trait Decode: Sized {
    /// Reads `node`. What is wrong goes to `diagnostics`, and the result is then `None`.
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self>;
    /// The value when the key is not there; `None` when it must be.
    fn absent() -> Option<Self> {
        None
    }
    /// A value that would be right, as TOML, for the advice when it is missing.
    fn example() -> String;
    /// Its JSON Schema.
    fn schema(schemas: &mut Schemas) -> Json;
}

/// A [`Decode`] that reads a table: [`record!`](crate::record) implements it.
pub trait Record: Decode {
    /// Its JSON Schema as an object on its own, not as a reference.
    fn object(schemas: &mut Schemas) -> Json;
}

/// What stands as one text (or number) in a file: quantities, code points, addresses.
pub trait Scalar: Sized {
    /// What it is, without an article: `rate`.
    const WANTED: &'static str;
    /// A text that would be right.
    const EXAMPLE: &'static str;
    /// From text.
    ///
    /// # Errors
    /// What is wrong, and the way out.
    fn from_text(text: &str) -> Result<Self, Wrong>;
    /// From a whole number; by default as from its text.
    ///
    /// # Errors
    /// What is wrong, and the way out.
    fn from_integer(n: i64) -> Result<Self, Wrong> {
        Self::from_text(&n.to_string())
    }
    /// Its JSON Schema.
    fn scalar_schema() -> Json {
        json!({ "type": ["string", "integer"], "examples": [Self::EXAMPLE] })
    }
}

/// Why a text is not a [`Scalar`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// What is wrong with it.
    pub message: String,
    /// The way out.
    pub help: String,
}

impl<T: Scalar> Decode for T {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        let result = match &node.value {
            Value::Text(text) => T::from_text(text),
            Value::Integer(Some(n)) => T::from_integer(*n),
            Value::Integer(None) => Err(Wrong {
                message: "this number is too large".into(),
                help: format!("write for example {}", T::EXAMPLE),
            }),
            Value::Float(x) => T::from_text(&x.to_string()),
            Value::Truth(_) | Value::Date | Value::List(_) | Value::Table(_) => {
                mismatch(
                    node,
                    &format!("a {}", T::WANTED),
                    &format!("write for example \"{}\"", T::EXAMPLE),
                    diagnostics,
                );
                return None;
            }
        };
        match result {
            Ok(value) => Some(value),
            Err(wrong) => {
                diagnostics.error(node.place, wrong.message).label(format!("not a {}", T::WANTED)).help(wrong.help);
                None
            }
        }
    }
    fn example() -> String {
        format!("\"{}\"", T::EXAMPLE)
    }
    fn schema(_schemas: &mut Schemas) -> Json {
        T::scalar_schema()
    }
}

/// A value and where it stood, for errors that are found later. Its `Debug` form is the value's, so that two sections
/// that say the same look the same wherever they stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it stood; for a default, the table that does not hold the key.
    pub place: Place,
}

impl<T: std::fmt::Debug> std::fmt::Debug for Spanned<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value.fmt(f)
    }
}

impl<T> std::ops::Deref for Spanned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Decode> Decode for Spanned<T> {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        T::decode(node, diagnostics).map(|value| Self { value, place: node.place })
    }
    fn example() -> String {
        T::example()
    }
    fn schema(schemas: &mut Schemas) -> Json {
        T::schema(schemas)
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        T::decode(node, diagnostics).map(Some)
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
    fn example() -> String {
        T::example()
    }
    fn schema(schemas: &mut Schemas) -> Json {
        T::schema(schemas)
    }
}

/// For sections that contain themselves.
impl<T: Decode> Decode for Arc<T> {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        T::decode(node, diagnostics).map(Arc::new)
    }
    fn example() -> String {
        T::example()
    }
    fn schema(schemas: &mut Schemas) -> Json {
        T::schema(schemas)
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        match &node.value {
            Value::List(list) => decode_all(list, diagnostics),
            _ => {
                mismatch(node, "a list", &format!("write for example [{}]", T::example()), diagnostics);
                None
            }
        }
    }
    fn absent() -> Option<Self> {
        Some(Vec::new())
    }
    fn example() -> String {
        format!("[{}]", T::example())
    }
    fn schema(schemas: &mut Schemas) -> Json {
        json!({ "type": "array", "items": T::schema(schemas) })
    }
}

/// One value, or a list of them. Absent: none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Many<T>(pub Vec<T>);

impl<T> std::ops::Deref for Many<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Decode> Decode for Many<T> {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        match &node.value {
            Value::List(list) if list.is_empty() => {
                diagnostics
                    .error(node.place, "this list is empty, so that nothing can match it")
                    .help(format!("leave the key out, or write for example {}", T::example()));
                None
            }
            Value::List(list) => decode_all(list, diagnostics).map(Self),
            _ => T::decode(node, diagnostics).map(|one| Self(vec![one])),
        }
    }
    fn absent() -> Option<Self> {
        Some(Self(Vec::new()))
    }
    fn example() -> String {
        T::example()
    }
    fn schema(schemas: &mut Schemas) -> Json {
        let one = T::schema(schemas);
        json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

fn decode_all<T: Decode>(list: &[Node], diagnostics: &mut Diagnostics) -> Option<Vec<T>> {
    // Every element is read before the first failure counts, so that all errors are told.
    let decoded: Vec<Option<T>> = list.iter().map(|node| T::decode(node, diagnostics)).collect();
    decoded.into_iter().collect()
}

impl Decode for String {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        match &node.value {
            Value::Text(text) => Some(text.clone()),
            _ => {
                mismatch(node, "a text", "put it in quotation marks", diagnostics);
                None
            }
        }
    }
    fn example() -> String {
        "\"name\"".into()
    }
    fn schema(_schemas: &mut Schemas) -> Json {
        json!({ "type": "string" })
    }
}

impl Decode for bool {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        match &node.value {
            Value::Truth(truth) => Some(*truth),
            _ => {
                mismatch(node, "true or false", "write true or false, without quotation marks", diagnostics);
                None
            }
        }
    }
    fn example() -> String {
        "true".into()
    }
    fn schema(_schemas: &mut Schemas) -> Json {
        json!({ "type": "boolean" })
    }
}

impl Decode for f64 {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        match &node.value {
            Value::Float(x) if x.is_finite() => Some(*x),
            Value::Integer(Some(n)) => Some(*n as f64),
            _ => {
                mismatch(node, "a number", "write for example 0.002", diagnostics);
                None
            }
        }
    }
    fn example() -> String {
        "0.5".into()
    }
    fn schema(_schemas: &mut Schemas) -> Json {
        json!({ "type": "number" })
    }
}

macro_rules! whole_numbers {
    ($($ty:ty),*) => {$(
        impl Decode for $ty {
            fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
                match &node.value {
                    Value::Integer(Some(n)) if <$ty>::try_from(*n).is_ok() => <$ty>::try_from(*n).ok(),
                    Value::Integer(_) => {
                        let largest = i64::try_from(<$ty>::MAX).unwrap_or(i64::MAX);
                        diagnostics.error(node.place, "this number is out of range")
                            .label(format!("not between 0 and {largest}"))
                            .help(format!("write a whole number between 0 and {largest}"));
                        None
                    }
                    _ => {
                        mismatch(node, "a whole number", "write for example 8, without quotation marks", diagnostics);
                        None
                    }
                }
            }
            fn example() -> String {
                "1".into()
            }
            fn schema(_schemas: &mut Schemas) -> Json {
                json!({ "type": "integer", "minimum": 0 })
            }
        }
    )*};
}
whole_numbers!(u8, u16, u32, u64);

/// Reports that `node` is not what was `wanted`.
pub fn mismatch(node: &Node, wanted: &str, help: &str, diagnostics: &mut Diagnostics) {
    diagnostics
        .error(node.place, format!("expected {wanted}, found {}", node.what()))
        .label(format!("not {wanted}"))
        .help(help);
}

/// A default as it is written in a declaration.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// A text.
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
    /// As it stands in a schema.
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

/// The keys of a table, taken one by one; what is left over at the end is unknown.
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
    /// The keys of `node`, which is called `title` in errors; an error when it is not a table.
    pub fn of(node: &'a Node, title: &'static str, diagnostics: &'a mut Diagnostics) -> Option<Self> {
        match &node.value {
            Value::Table(entries) => {
                Some(Self { title, place: node.place, entries, known: Vec::new(), missing: Vec::new(), diagnostics })
            }
            _ => {
                mismatch(
                    node,
                    &format!("the table of a {title}"),
                    "write { key = value, ... } or a [section]",
                    diagnostics,
                );
                None
            }
        }
    }

    /// Takes `key`: its value, else the default, else what [`Decode::absent`] says, else an error.
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

    /// Reports every key that was not taken, and every one that is missing; `None` when there is one.
    pub fn finish(self) -> Option<()> {
        let known: Vec<&str> = self.known.iter().map(String::as_str).collect();
        let is_unknown = |entry: &&Entry| !known.contains(&entry.key.as_str());
        let unknown: Vec<&Entry> = self.entries.iter().filter(is_unknown).collect();
        for entry in &unknown {
            self.diagnostics
                .error(entry.key_place, format!("unknown key `{}` in {}", entry.key, self.title))
                .label("unknown key")
                .help(suggest::help(&entry.key, &known));
        }
        for (key, example) in &self.missing {
            // When the key is there but mistyped, that has been said.
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
/// `struct Name as "title"`: the title stands in errors ("unknown key `x` in title") and names the definition in
/// the schema, so it must be unique. A field `a_b: T` is the key `a-b`. It is optional when its type says so
/// (`Option`, `Vec`, [`Many`](crate::Many)) or when it has a default, `= literal`, which is read as if it stood in
/// the file. See the [crate](crate) for an example.
#[macro_export]
macro_rules! record {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident as $title:literal {
            $( $(#[doc = $fdoc:literal])* $fvis:vis $field:ident : $ty:ty $(= $default:literal)? ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
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

/// Declares a choice between words: an enum without payload, how it is read, and its schema.
#[macro_export]
macro_rules! words {
    (
        $(#[doc = $doc:literal])*
        $vis:vis enum $name:ident as $title:literal {
            $( $(#[doc = $vdoc:literal])* $variant:ident = $word:literal ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        $vis enum $name {
            $( $(#[doc = $vdoc])* $variant, )*
        }

        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// The word in the file.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad(self.word())
            }
        }

        impl $crate::Decode for $name {
            fn decode(
                node: &$crate::node::Node,
                diagnostics: &mut $crate::Diagnostics,
            ) -> ::core::option::Option<Self> {
                $crate::decode::word(node, $title, &[$(($word, Self::$variant)),*], diagnostics)
            }
            fn example() -> String {
                format!("\"{}\"", Self::ALL[0].word())
            }
            fn schema(_schemas: &mut $crate::Schemas) -> $crate::serde_json::Value {
                $crate::serde_json::json!({ "oneOf": [$({
                    "const": $word, "description": $crate::schema::paragraph(&[$($vdoc),*]),
                }),*] })
            }
        }
    };
}

/// The one of `words` that `node` is. For [`words!`](crate::words).
pub fn word<T: Copy>(
    node: &Node,
    title: &str,
    words: &[(&'static str, T)],
    diagnostics: &mut Diagnostics,
) -> Option<T> {
    let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    let Value::Text(text) = &node.value else {
        mismatch(
            node,
            &format!("the {title} as a text"),
            &format!("choose from {}", suggest::listed(&names)),
            diagnostics,
        );
        return None;
    };
    let found = words.iter().find(|(name, _)| name == text).map(|(_, value)| *value);
    if found.is_none() {
        diagnostics
            .error(node.place, format!("unknown {title} `{text}`"))
            .label(format!("not a {title}"))
            .help(suggest::help(text, &names));
    }
    found
}

/// The kinds of a [`choice!`](crate::choice) that are not known when it is compiled.
pub trait Open: Sized {
    /// The words that there are now.
    fn kinds() -> Vec<&'static str>;
    /// The word of this one.
    fn kind(&self) -> &'static str;
    /// Reads the table of one of [`Open::kinds`], without its word.
    fn decode(kind: &str, node: &Node, diagnostics: &mut Diagnostics) -> Option<Self>;
    /// The schemas of their tables, the word included.
    fn schemas(schemas: &mut Schemas) -> Vec<Json>;
}

/// Declares a table of one of several kinds: an enum whose payloads are [`record!`](crate::record)s, chosen by the
/// key in `by`. A last variant after `..` takes kinds that are added later: its payload is [`Open`](crate::decode::Open).
///
/// ```
/// use tidegate_config::{choice, record};
/// use tidegate_core::{Rate, Span};
///
/// record! {
///     /// Constant bit rate.
///     pub struct Constant as "constant source" {
///         /// The rate.
///         pub rate: Rate,
///     }
/// }
/// record! {
///     /// On and off.
///     pub struct OnOff as "on-off source" {
///         /// How long it is on.
///         pub on: Span = "1s",
///     }
/// }
/// choice! {
///     /// Who sends.
///     pub enum Sender as "sender" by "kind" {
///         /// At one rate.
///         Constant(Constant) = "constant",
///         /// In turns.
///         OnOff(OnOff) = "on-off",
///     }
/// }
/// ```
#[macro_export]
macro_rules! choice {
    (
        $(#[doc = $doc:literal])*
        $vis:vis enum $name:ident as $title:literal by $tag:literal {
            $( $(#[doc = $vdoc:literal])* $variant:ident($ty:ty) = $word:literal ),* $(,)?
            $( .. $(#[doc = $odoc:literal])* $open:ident($openty:ty) $(,)? )?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
        $vis enum $name {
            $( $(#[doc = $vdoc])* $variant($ty), )*
            $( $(#[doc = $odoc])* $open($openty), )?
        }

        impl $name {
            /// The kinds that are declared here.
            pub const KINDS: &'static [&'static str] = &[$($word),*];
            /// All kinds that exist now.
            pub fn kinds() -> Vec<&'static str> {
                #[allow(unused_mut)]
                let mut kinds = Self::KINDS.to_vec();
                $( kinds.extend(<$openty as $crate::decode::Open>::kinds()); )?
                kinds
            }
            /// Its kind, as the file names it.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $word,)*
                    $(Self::$open(open) => $crate::decode::Open::kind(open),)?
                }
            }
        }

        impl $crate::Decode for $name {
            fn decode(
                node: &$crate::node::Node,
                diagnostics: &mut $crate::Diagnostics,
            ) -> ::core::option::Option<Self> {
                let (kind, rest) = $crate::decode::kind(node, $title, $tag, &Self::kinds(), diagnostics)?;
                match kind {
                    $($word => <$ty as $crate::Decode>::decode(&rest, diagnostics).map(Self::$variant),)*
                    $(other => {
                        <$openty as $crate::decode::Open>::decode(other, &rest, diagnostics).map(Self::$open)
                    })?
                    #[allow(unreachable_patterns)]
                    _ => ::core::option::Option::None,
                }
            }
            fn example() -> String {
                format!("{{ {} = \"{}\" }}", $tag, Self::KINDS[0])
            }
            fn schema(schemas: &mut $crate::Schemas) -> $crate::serde_json::Value {
                schemas.define::<Self>($title, |schemas| {
                    #[allow(unused_mut)]
                    let mut kinds: Vec<$crate::serde_json::Value> = vec![$(
                        $crate::decode::tagged(<$ty as $crate::Record>::object(schemas), $tag, $word)
                    ),*];
                    $( kinds.extend(<$openty as $crate::decode::Open>::schemas(schemas)); )?
                    $crate::serde_json::json!({
                        "description": $crate::schema::paragraph(&[$($doc),*]),
                        "oneOf": kinds,
                    })
                })
            }
        }
    };
}

/// The kind of a table and the table without it. For [`choice!`](crate::choice).
pub fn kind(
    node: &Node,
    title: &str,
    tag: &str,
    kinds: &[&'static str],
    diagnostics: &mut Diagnostics,
) -> Option<(&'static str, Node)> {
    let Value::Table(entries) = &node.value else {
        mismatch(
            node,
            &format!("the table of a {title}"),
            &format!("write {{ {tag} = \"{}\" }}", kinds[0]),
            diagnostics,
        );
        return None;
    };
    let Some(entry) = entries.iter().find(|entry| entry.key == tag) else {
        diagnostics
            .error(node.place, format!("{title} lacks `{tag}`"))
            .label(format!("`{tag}` is missing"))
            .help(format!("add {tag} = ..., one of {}", suggest::listed(kinds)));
        return None;
    };
    let pairs: Vec<(&'static str, &'static str)> = kinds.iter().map(|kind| (*kind, *kind)).collect();
    let kind = word(&entry.node, &format!("{tag} of {title}"), &pairs, diagnostics)?;
    let rest = entries.iter().filter(|entry| entry.key != tag).cloned().collect();
    Some((kind, Node { place: node.place, value: Value::Table(rest) }))
}

/// The schema of a record with the key that chooses it. For [`choice!`](crate::choice).
pub fn tagged(mut object: Json, tag: &str, word: &str) -> Json {
    object["properties"][tag] = json!({ "const": word });
    if let Some(required) = object["required"].as_array_mut() {
        required.insert(0, tag.into());
    }
    object
}
