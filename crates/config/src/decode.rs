//! [`Decode`] turns a [`Node`] into a Rust value and reports all errors at once. The macros declare sections of a file.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::diagnostic::{Diagnostics, Place, Source};
use crate::node::{Node, Value};
use crate::schema::Schemas;
use crate::suggest::with_article;

mod choice;
mod fields;

pub use crate::printable::{is_bidi_control, is_printable, printable};
pub use choice::{Open, kind, tagged, word};
pub use fields::{Fields, Literal, key};

/// Reads a whole text as a `T`. Returns `None` exactly if there are errors in `diagnostics`.
pub fn read<T: Decode>(source: &Source, diagnostics: &mut Diagnostics) -> Option<T> {
    let node = Node::parse(source, diagnostics)?;
    T::decode(&node, diagnostics)
}

/// A type that can be read from a configuration.
pub trait Decode: Sized {
    /// Reads `node`. On errors, which go to `diagnostics`, the result is `None`.
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self>;
    /// The value of an absent key; `None` if the key is required.
    fn absent() -> Option<Self> {
        None
    }
    /// A valid value as TOML, for the advice if the key is missing.
    fn example() -> String;
    /// Its JSON Schema.
    fn schema(schemas: &mut Schemas) -> Json;
}

/// A [`Decode`] that reads a table: [`record!`](crate::record) implements it.
pub trait Record: Decode {
    /// The JSON Schema of the table itself, instead of a reference to it.
    fn object(schemas: &mut Schemas) -> Json;
}

/// A value that is written as one text or number: a quantity, a code point, an address.
pub trait Scalar: Sized {
    /// The name of the quantity, without an article: `rate`.
    const WANTED: &'static str;
    /// A valid text.
    const EXAMPLE: &'static str;
    /// Parses a text.
    ///
    /// # Errors
    /// The error, and its remedy.
    fn from_text(text: &str) -> Result<Self, Wrong>;
    /// Converts a whole number; by default parses its text.
    ///
    /// # Errors
    /// The error, and its remedy.
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
    /// The error message.
    pub message: String,
    /// The remedy.
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
                mismatch(node, &with_article(T::WANTED), &format!("write for example \"{}\"", T::EXAMPLE), diagnostics);
                return None;
            }
        };
        match result {
            Ok(value) => Some(value),
            Err(wrong) => {
                diagnostics
                    .error(node.place, wrong.message)
                    .label(format!("not {}", with_article(T::WANTED)))
                    .help(wrong.help);
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

/// A value and its place in the file, for errors that are found later. Its `Debug` form omits the place, so that
/// sections with equal values look the same.
#[derive(Clone, Copy, Eq)]
pub struct Spanned<T> {
    /// The value that was read, or the default.
    pub value: T,
    /// The place in the file; for a default, that of the table without the key.
    pub place: Place,
}

impl<T: std::fmt::Debug> std::fmt::Debug for Spanned<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value.fmt(f)
    }
}

/// Values are equal wherever they are written.
impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
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

/// Allows sections that contain themselves.
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
            Value::Table(_) => {
                mismatch(
                    node,
                    "a list",
                    "write double brackets around its name, as in [[class]] or [[rule]]",
                    diagnostics,
                );
                None
            }
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

/// One value, or a list of them. An absent key is an empty list.
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
    // Every element is read before the first failure counts, so that all errors are reported.
    let decoded: Vec<Option<T>> = list.iter().map(|node| T::decode(node, diagnostics)).collect();
    decoded.into_iter().collect()
}

impl Decode for String {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        match &node.value {
            Value::Text(text) if text.chars().any(is_bidi_control) => {
                diagnostics
                    .error(node.place, "the characters of this text are not shown in the order in which they are read")
                    .label("has characters that change the direction of writing")
                    .help("remove them: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069");
                None
            }
            // A terminal would obey an escape sequence in a name.
            Value::Text(text) if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) => {
                diagnostics
                    .error(node.place, "this text has characters that are not shown")
                    .label("has control characters")
                    .help("remove them: U+0000 to U+001F but for line feed and tab, U+007F to U+009F");
                None
            }
            Value::Text(text) => Some(text.clone()),
            value => {
                let help = match value {
                    Value::List(_) => "write one text; where several are meant, write a section for each",
                    _ => "put it in quotation marks",
                };
                mismatch(node, "a text", help, diagnostics);
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

/// Reports that `node` has another type than `wanted`.
pub fn mismatch(node: &Node, wanted: &str, help: &str, diagnostics: &mut Diagnostics) {
    diagnostics
        .error(node.place, format!("expected {wanted}, found {}", node.what()))
        .label(format!("not {wanted}"))
        .help(help);
}
