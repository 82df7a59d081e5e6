//! The types of the calls as the sources declare them: what serde writes of each, and its documentation.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use syn::{Attribute, Expr, ExprLit, Fields, Item, Lit, LitStr, Meta, Type};
use tidegate_control::calls::CALLS;

/// The files with the types that requests, replies and events consist of.
const SOURCES: [&str; 13] = [
    include_str!("../../../src/calls/change.rs"),
    include_str!("../../../src/calls/coupled.rs"),
    include_str!("../../../src/calls/events.rs"),
    include_str!("../../../src/calls/explain.rs"),
    include_str!("../../../src/calls/hosts.rs"),
    include_str!("../../../src/calls/notes.rs"),
    include_str!("../../../src/calls/observation.rs"),
    include_str!("../../../src/calls/promise.rs"),
    include_str!("../../../src/calls/reserve.rs"),
    include_str!("../../../src/calls/rival.rs"),
    include_str!("../../../src/calls/status.rs"),
    include_str!("../../../src/answer.rs"),
    include_str!("../../../src/answer/kind.rs"),
];

/// A type of the protocol.
pub struct Declared {
    pub name: String,
    pub documentation: String,
    pub shape: Shape,
}

pub enum Shape {
    /// An object.
    Record(Vec<Field>),
    /// One of these strings. A newer daemon may send others.
    Names(Vec<(String, String)>),
    /// An object whose key `tag` has the name of a variant: the name, its documentation, and the other keys.
    Tagged { tag: String, variants: Vec<(String, String, Vec<Field>)> },
    /// Another type under a name of its own.
    Alias(Kind),
}

/// A key of an object.
pub struct Field {
    pub key: String,
    pub documentation: String,
    pub kind: Kind,
    /// Whether the key may be missing.
    pub may_be_absent: bool,
    /// Whether that it is missing has a meaning of its own: an `Option`.
    pub is_option: bool,
}

/// The type of a key's value.
#[derive(Clone)]
pub enum Kind {
    Bool,
    /// An integer, by its name in Rust.
    Integer(&'static str),
    Text,
    Address,
    /// A pair of texts.
    Pair,
    Any,
    List(Box<Self>),
    Named(String),
}

/// The types that the calls and the events use, by name.
pub fn types() -> BTreeMap<String, Declared> {
    let items: Vec<Item> =
        SOURCES.iter().flat_map(|source| syn::parse_file(source).expect("it compiles").items).collect();
    let mut found = BTreeMap::new();
    let mut open: Vec<String> =
        CALLS.iter().flat_map(|call| [call.request_type, call.reply_type]).map(Into::into).collect();
    open.push("Event".into());
    while let Some(name) = open.pop() {
        if let Entry::Vacant(entry) = found.entry(name) {
            let declared = declared(&items, entry.key());
            open.extend(declared.uses());
            entry.insert(declared);
        }
    }
    found
}

/// A type that one source declares.
pub fn declared_in(source: &str, name: &str) -> Declared {
    declared(&syn::parse_file(source).expect("it compiles").items, name)
}

/// The public constants of a source with their documentation, in one line.
pub fn constants(source: &str) -> BTreeMap<String, String> {
    let items = syn::parse_file(source).expect("it compiles").items.into_iter();
    let constants = items.filter_map(|item| match item {
        Item::Const(one) => Some((one.ident.to_string(), documentation(&one.attrs).replace('\n', " "))),
        _ => None,
    });
    constants.collect()
}

impl Declared {
    /// The fields of an object.
    pub fn fields(&self) -> &[Field] {
        match &self.shape {
            Shape::Record(fields) => fields,
            _ => &[],
        }
    }

    fn uses(&self) -> Vec<String> {
        let kinds: Vec<&Kind> = match &self.shape {
            Shape::Record(fields) => fields.iter().map(|field| &field.kind).collect(),
            Shape::Tagged { variants, .. } => {
                variants.iter().flat_map(|(_, _, fields)| fields).map(|field| &field.kind).collect()
            }
            Shape::Alias(kind) => vec![kind],
            Shape::Names(_) => Vec::new(),
        };
        kinds.into_iter().filter_map(Kind::named).collect()
    }
}

impl Kind {
    fn named(&self) -> Option<String> {
        match self {
            Self::Named(name) => Some(name.clone()),
            Self::List(of) => of.named(),
            _ => None,
        }
    }
}

fn declared(items: &[Item], name: &str) -> Declared {
    let found = items.iter().find_map(|item| match item {
        Item::Struct(one) if one.ident == name => Some((&one.attrs, structure(items, one))),
        Item::Enum(one) if one.ident == name => Some((&one.attrs, enumeration(items, one))),
        _ => None,
    });
    let (attributes, shape) = found.unwrap_or_else(|| panic!("no source in SOURCES declares {name}"));
    Declared { name: name.into(), documentation: documentation(attributes), shape }
}

fn structure(items: &[Item], one: &syn::ItemStruct) -> Shape {
    let whole = Serde::of(&one.attrs);
    match &one.fields {
        Fields::Named(fields) => {
            Shape::Record(fields.named.iter().flat_map(|one| field(items, one, whole.default)).collect())
        }
        Fields::Unnamed(fields) if whole.transparent => Shape::Alias(kind(&fields.unnamed[0].ty).0),
        _ => panic!("{}: not an object", one.ident),
    }
}

fn enumeration(items: &[Item], one: &syn::ItemEnum) -> Shape {
    let whole = Serde::of(&one.attrs);
    assert!(whole.kebab, "{}: names are in kebab-case", one.ident);
    // `Other` stands for a name of a newer daemon, and is never sent.
    let variants = one.variants.iter().filter(|variant| variant.ident != "Other");
    match whole.tag {
        None => Shape::Names(
            variants.map(|variant| (kebab(&variant.ident.to_string()), documentation(&variant.attrs))).collect(),
        ),
        Some(tag) => {
            let variants = variants.map(|variant| {
                let fields = variant.fields.iter().flat_map(|one| field(items, one, false)).collect();
                (kebab(&variant.ident.to_string()), documentation(&variant.attrs), fields)
            });
            Shape::Tagged { tag, variants: variants.collect() }
        }
    }
}

/// A field; of one that is flattened, those of its type.
fn field(items: &[Item], one: &syn::Field, default: bool) -> Vec<Field> {
    let serde = Serde::of(&one.attrs);
    let (kind, is_option) = kind(&one.ty);
    if serde.flatten {
        let name = serde.with.or_else(|| kind.named()).expect("a type");
        let Shape::Record(fields) = declared(items, &name).shape else { panic!("{name} is flattened") };
        return fields;
    }
    let key = serde.rename.or_else(|| one.ident.as_ref().map(ToString::to_string)).expect("a name");
    let documentation = documentation(&one.attrs);
    vec![Field { key, documentation, kind, may_be_absent: default || is_option || serde.default, is_option }]
}

/// The kind of a type, and whether it may be missing.
fn kind(of: &Type) -> (Kind, bool) {
    let Type::Path(path) = of else {
        assert!(matches!(of, Type::Tuple(pair) if pair.elems.len() == 2), "a pair of texts");
        return (Kind::Pair, false);
    };
    let last = path.path.segments.last().expect("a name");
    let inner = || match &last.arguments {
        syn::PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
            Some(syn::GenericArgument::Type(inner)) => kind(inner).0,
            _ => panic!("no type"),
        },
        _ => panic!("no arguments"),
    };
    let kind = match last.ident.to_string().as_str() {
        "Option" => return (inner(), true),
        "Vec" => Kind::List(Box::new(inner())),
        "bool" => Kind::Bool,
        "String" => Kind::Text,
        "IpAddr" => Kind::Address,
        "Value" => Kind::Any,
        // Quantities are integers, and their keys have the unit.
        "u64" | "Rate" | "Bytes" | "Span" => Kind::Integer("u64"),
        "u32" => Kind::Integer("u32"),
        "u16" => Kind::Integer("u16"),
        "u8" => Kind::Integer("u8"),
        "i64" => Kind::Integer("i64"),
        name => Kind::Named(name.into()),
    };
    (kind, false)
}

/// The attributes of serde that decide what is written.
#[derive(Default)]
struct Serde {
    rename: Option<String>,
    with: Option<String>,
    tag: Option<String>,
    default: bool,
    flatten: bool,
    kebab: bool,
    transparent: bool,
}

impl Serde {
    fn of(attributes: &[Attribute]) -> Self {
        let mut serde = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            let read = attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
                let value = meta.value().ok().and_then(|value| value.parse::<LitStr>().ok()).map(|text| text.value());
                match name.as_str() {
                    "rename" => serde.rename = value,
                    "with" => serde.with = value,
                    "tag" => serde.tag = value,
                    "default" => serde.default = true,
                    // A field that is skipped is one that may be missing.
                    "skip_serializing_if" => serde.default = true,
                    "flatten" => serde.flatten = true,
                    "transparent" => serde.transparent = true,
                    "rename_all" => serde.kebab = value.as_deref() == Some("kebab-case"),
                    "deny_unknown_fields" | "deserialize_with" | "remote" | "other" => {}
                    other => panic!("serde({other}) is new: it must be considered here"),
                }
                Ok(())
            });
            read.expect("it compiles");
        }
        serde
    }
}

/// The documentation of an item, without links into the sources.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n").replace("[`", "`").replace("`]", "`")
}

fn kebab(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}
