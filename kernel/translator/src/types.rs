//! Types of the subset, and their form in C.

use std::fmt;

use super::problem::{Problem, Result};
use super::source::{Definition, Name, Sources, fields, is_newtype};

/// A type of the subset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ty {
    /// An integer, by its Rust name.
    Int(&'static str),
    Bool,
    Unit,
    /// The type of an expression that does not end, such as `return`.
    Never,
    Named(Name),
    Option(Box<Ty>),
    Ref {
        to: Box<Ty>,
        mutable: bool,
    },
}

/// The integers of the subset with their C types; floats are none.
const INTEGERS: [(&str, &str); 9] = [
    ("u8", "u8"),
    ("u16", "u16"),
    ("u32", "u32"),
    ("u64", "u64"),
    ("u128", "u128"),
    ("usize", "u64"),
    ("i16", "s16"),
    ("i32", "s32"),
    ("i64", "s64"),
];

pub fn integer(name: &str) -> Option<Ty> {
    INTEGERS.iter().find(|(rust, _)| *rust == name).map(|(rust, _)| Ty::Int(rust))
}

impl Ty {
    pub fn is_signed(&self) -> bool {
        matches!(self, Self::Int(name) if name.starts_with('i'))
    }
    /// The type that a reference refers to, or the type itself.
    pub fn target(&self) -> &Self {
        match self {
            Self::Ref { to, .. } => to,
            other => other,
        }
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(name) => f.write_str(name),
            Self::Bool => f.write_str("bool"),
            Self::Unit => f.write_str("()"),
            Self::Never => f.write_str("!"),
            Self::Named((_, name)) => f.write_str(name),
            Self::Option(inner) => write!(f, "Option<{inner}>"),
            Self::Ref { to, mutable } => write!(f, "&{}{to}", if *mutable { "mut " } else { "" }),
        }
    }
}

/// `SomeName` as `some_name`.
pub fn snake(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() && !text.ends_with('_') {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// The prefix of what belongs to a type.
pub fn prefix((module, name): &Name) -> String {
    format!("{module}_{}", snake(name))
}

/// The definitions of types in C, in an order in which each stands before its uses.
#[derive(Default)]
pub struct Types {
    pub text: String,
    done: Vec<String>,
}

impl Types {
    /// The type that `ty` is in `file`, within the `impl` of `of`.
    pub fn read(&mut self, sources: &Sources, file: usize, of: Option<&Name>, ty: &syn::Type) -> Result<Ty> {
        let outside = |problem, detail: &str| sources.outside(file, ty, problem, detail);
        match ty {
            syn::Type::Tuple(tuple) if tuple.elems.is_empty() => Ok(Ty::Unit),
            syn::Type::Reference(reference) => {
                let to = Box::new(self.read(sources, file, of, &reference.elem)?);
                Ok(Ty::Ref { to, mutable: reference.mutability.is_some() })
            }
            syn::Type::Path(path) => {
                let Some(last) = path.path.segments.last() else { return Err(outside(Problem::OtherType, "")) };
                let name = last.ident.to_string();
                match (name.as_str(), of) {
                    ("bool", _) => return Ok(Ty::Bool),
                    ("Self", Some(of)) => {
                        let ty = Ty::Named(of.clone());
                        self.define(sources, &ty)?;
                        return Ok(ty);
                    }
                    ("i128", _) => return Err(outside(Problem::Wide, "")),
                    ("f32" | "f64", _) => return Err(outside(Problem::Float, "")),
                    _ => {}
                }
                if let Some(ty) = integer(&name) {
                    return Ok(ty);
                }
                if name == "Option"
                    && let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
                    && let Some(syn::GenericArgument::Type(inner)) = arguments.args.first()
                {
                    let inner = self.read(sources, file, of, inner)?;
                    let ty = Ty::Option(Box::new(inner));
                    self.define(sources, &ty)?;
                    return Ok(ty);
                }
                if !last.arguments.is_none() {
                    return Err(outside(Problem::TypeArguments, ""));
                }
                let within =
                    path.path.segments.iter().rev().nth(1).map(|module| (module.ident.to_string(), name.clone()));
                let within = within.filter(|named| sources.types.contains_key(named));
                let named = within.or_else(|| sources.resolve(file, &name));
                let named = named.ok_or_else(|| outside(Problem::UnknownType, ""))?;
                sources.single(file, ty, &named)?;
                let ty = Ty::Named(named);
                self.define(sources, &ty)?;
                Ok(ty)
            }
            _ => Err(outside(Problem::OtherType, "")),
        }
    }

    /// The type in C.
    pub fn c(&self, ty: &Ty) -> String {
        match ty {
            Ty::Int(name) => INTEGERS.iter().find(|(rust, _)| rust == name).map_or("", |(_, c)| c).to_owned(),
            Ty::Bool => "bool".into(),
            Ty::Unit | Ty::Never => "void".into(),
            Ty::Named(name) => prefix(name),
            Ty::Option(inner) => format!("option_{}", self.c(inner)),
            Ty::Ref { to, mutable: true } => format!("{} *", self.c(to)),
            Ty::Ref { to, mutable: false } => format!("const {} *", self.c(to)),
        }
    }

    /// Writes the definition of a type, once, after those of its parts.
    fn define(&mut self, sources: &Sources, ty: &Ty) -> Result<()> {
        let c = self.c(ty);
        if self.done.contains(&c) {
            return Ok(());
        }
        self.done.push(c.clone());
        let text = match ty {
            Ty::Option(inner) => format!("typedef struct {{\n\tbool some;\n\t{} value;\n}} {c};\n\n", self.c(inner)),
            Ty::Named(name) => {
                let (file, definition) = &sources.types[name];
                match definition {
                    Definition::Struct(item) if !item.generics.params.is_empty() => {
                        return Err(sources.outside(*file, &item.ident, Problem::GenericType, ""));
                    }
                    Definition::Struct(item) => {
                        let parts = fields(item)
                            .into_iter()
                            .map(|(field, ty)| Ok((field, self.read(sources, *file, Some(name), ty)?)))
                            .collect::<Result<Vec<_>>>()?;
                        if is_newtype(item) {
                            format!("typedef {} {c};\n\n", self.c(&parts[0].1))
                        } else {
                            let lines = parts.iter().map(|(field, ty)| format!("\t{} {};\n", self.c(ty), local(field)));
                            format!("typedef struct {{\n{}}} {c};\n\n", lines.collect::<String>())
                        }
                    }
                    Definition::Enum(item) => {
                        if let Some(numbered) = item.variants.iter().find(|variant| variant.discriminant.is_some()) {
                            return Err(sources.outside(*file, numbered, Problem::NumberedVariant, ""));
                        }
                        let names =
                            item.variants.iter().map(|v| format!("\t{},\n", variant(name, &v.ident.to_string())));
                        let kinds = names.collect::<String>();
                        if has_fields(item) {
                            let mut members = String::new();
                            for variant in &item.variants {
                                for (member, _, ty) in payload(variant) {
                                    let ty = self.read(sources, *file, Some(name), ty)?;
                                    members += &format!("\t{} {member};\n", self.c(&ty));
                                }
                            }
                            format!(
                                "typedef enum {{\n{kinds}}} {c}_kind;\n\ntypedef struct {{\n\t{c}_kind kind;\n{members}}} {c};\n\n"
                            )
                        } else {
                            format!("typedef enum {{\n{kinds}}} {c};\n\n")
                        }
                    }
                }
            }
            _ => return Ok(()),
        };
        self.text += &text;
        Ok(())
    }
}

/// A variant of an enum in C.
pub fn variant(of: &Name, name: &str) -> String {
    format!("{}_{}", prefix(of), snake(name)).to_uppercase()
}

/// Whether a variant of an enum has fields: in C it is a struct of its kind and of all fields.
pub fn has_fields(item: &syn::ItemEnum) -> bool {
    item.variants.iter().any(|variant| !variant.fields.is_empty())
}

/// The fields of a variant: the member of C, the name in Rust (`0` where it has none), the type.
pub fn payload(variant: &syn::Variant) -> Vec<(String, String, &syn::Type)> {
    let of = snake(&variant.ident.to_string());
    let member = |(at, field): (usize, &'_ syn::Field)| match &field.ident {
        Some(name) => (format!("{of}_{name}"), name.to_string()),
        None if at == 0 => (of.clone(), "0".into()),
        None => (format!("{of}_{at}"), at.to_string()),
    };
    let fields = variant.fields.iter().enumerate();
    fields
        .map(|(at, field)| {
            let (c, rust) = member((at, field));
            (c, rust, &field.ty)
        })
        .collect()
}

/// The type inside a newtype.
pub fn inner(sources: &Sources, types: &mut Types, name: &Name) -> Result<Option<Ty>> {
    match &sources.types[name] {
        (file, Definition::Struct(item)) if is_newtype(item) => {
            types.read(sources, *file, Some(name), fields(item)[0].1).map(Some)
        }
        _ => Ok(None),
    }
}

/// The type of a field.
pub fn field(sources: &Sources, types: &mut Types, name: &Name, wanted: &str) -> Result<Option<Ty>> {
    match &sources.types[name] {
        (file, Definition::Struct(item)) => match fields(item).into_iter().find(|(field, _)| field == wanted) {
            Some((_, ty)) => types.read(sources, *file, Some(name), ty).map(Some),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Whether a type derives `Default`, and that is all zeros.
pub fn default_is_zero(sources: &Sources, name: &Name) -> bool {
    let derives = |attributes: &[syn::Attribute]| {
        attributes.iter().any(|attribute| {
            attribute.path().is_ident("derive")
                && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string().contains("Default"))
        })
    };
    match &sources.types[name].1 {
        Definition::Struct(item) => {
            let all = fields(item).into_iter().all(|(_, ty)| match ty {
                syn::Type::Path(path) => {
                    let last = path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
                    last == "bool"
                        || last == "Option"
                        || integer(&last).is_some()
                        || sources
                            .resolve(sources.types[name].0, &last)
                            .is_some_and(|name| default_is_zero(sources, &name))
                }
                _ => false,
            });
            derives(&item.attrs) && all
        }
        Definition::Enum(item) => {
            let first = item.variants.first();
            derives(&item.attrs) && first.is_some_and(|v| v.attrs.iter().any(|a| a.path().is_ident("default")))
        }
    }
}

/// A name that is no word of C.
pub fn local(name: &str) -> String {
    const WORDS: [&str; 12] =
        ["auto", "char", "default", "double", "float", "int", "long", "register", "short", "signed", "switch", "void"];
    if WORDS.contains(&name) { format!("{name}_") } else { name.to_owned() }
}
