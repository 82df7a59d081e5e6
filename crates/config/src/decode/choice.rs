//! Values that are one of several: [`choices!`](crate::choices) and [`choice!`](crate::choice).

use serde_json::{Value as Json, json};

use super::mismatch;
use crate::diagnostic::Diagnostics;
use crate::node::{Node, Value};
use crate::schema::Schemas;
use crate::suggest;

/// Declares a choice between words: an enum without payload, its decoder and its schema.
///
/// With `impl "title" for Type` it declares the words for an existing enum, such as one of the core:
///
/// ```
/// tidegate_config::choices! {
///     /// Which way round.
///     pub enum Turn as "turn" {
///         /// With the clock.
///         Right = "right",
///         /// Against it.
///         Left = "left",
///     }
/// }
/// assert_eq!(Turn::Left.word(), "left");
/// ```
#[macro_export]
macro_rules! choices {
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

        $crate::choices! {
            impl $title for $name {
                $( $(#[doc = $vdoc])* $variant = $word, )*
            }
        }
    };
    (
        impl $title:literal for $name:ty {
            $( $(#[doc = $vdoc:literal])* $variant:ident = $word:literal ),* $(,)?
        }
    ) => {
        impl $crate::Decode for $name {
            fn decode(
                node: &$crate::node::Node,
                diagnostics: &mut $crate::Diagnostics,
            ) -> ::core::option::Option<Self> {
                $crate::decode::word(node, $title, &[$(($word, Self::$variant)),*], diagnostics)
            }
            fn example() -> String {
                format!("\"{}\"", [$($word),*][0])
            }
            fn schema(_schemas: &mut $crate::Schemas) -> $crate::serde_json::Value {
                $crate::serde_json::json!({ "oneOf": [$({
                    "const": $word, "description": $crate::schema::paragraph(&[$($vdoc),*]),
                }),*] })
            }
        }
    };
}

/// Looks up the word in `node`. For [`choices!`](crate::choices).
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
            .label(format!("not {}", suggest::with_article(title)))
            .help(suggest::help(text, &names));
    }
    found
}

/// Kinds of a [`choice!`](crate::choice) that are added at run time.
pub trait Open: Sized {
    /// The words of the kinds that exist now.
    fn kinds() -> Vec<&'static str>;
    /// The word of this kind.
    fn kind(&self) -> &'static str;
    /// Reads the table of one of [`Open::kinds`]. The table does not contain the word.
    fn decode(kind: &str, node: &Node, diagnostics: &mut Diagnostics) -> Option<Self>;
    /// The schemas of the tables, with the key that selects each.
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
        #[derive(Clone, PartialEq, Debug)]
        $vis enum $name {
            $( $(#[doc = $vdoc])* $variant($ty), )*
            $( $(#[doc = $odoc])* $open($openty), )?
        }

        impl $name {
            /// The kinds of the declaration.
            pub const KINDS: &'static [&'static str] = &[$($word),*];
            /// All kinds that exist now.
            pub fn kinds() -> Vec<&'static str> {
                #[allow(unused_mut)]
                let mut kinds = Self::KINDS.to_vec();
                $( kinds.extend(<$openty as $crate::decode::Open>::kinds()); )?
                kinds
            }
            /// The kind, as the file names it.
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

/// Returns the kind of a table, and the table without that key. For [`choice!`](crate::choice).
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
            &format!("the table of {}", suggest::with_article(title)),
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

/// Adds the key that selects a record to its schema. For [`choice!`](crate::choice).
pub fn tagged(mut object: Json, tag: &str, word: &str) -> Json {
    object["properties"][tag] = json!({ "const": word });
    if let Some(required) = object["required"].as_array_mut() {
        required.insert(0, tag.into());
    }
    object
}
