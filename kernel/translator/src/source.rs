//! The Rust sources that are translated: their types, functions and constants, by name.

use std::collections::BTreeMap;
use std::io;

use syn::spanned::Spanned;
use syn::{Expr, Fields, ImplItem, Item, ItemEnum, ItemFn, ItemStruct, Signature, Type, UseTree};

/// A construct that the subset does not have.
#[derive(Debug)]
pub struct Outside(pub String);

pub type Result<T> = std::result::Result<T, Outside>;

impl From<Outside> for io::Error {
    fn from(error: Outside) -> Self {
        Self::other(error.0)
    }
}

/// One file. Several files may have one module name: that of the folder.
pub struct File {
    pub path: String,
    pub module: String,
    /// Imported names with the module that they are imported from.
    imports: BTreeMap<String, String>,
}

/// A type by the module and the name of its definition.
pub type Name = (String, String);

/// The definition of a type.
pub enum Definition {
    Struct(ItemStruct),
    Enum(ItemEnum),
}

/// A function or a constant with what is needed to translate it.
#[derive(Clone)]
pub struct Code<T> {
    pub file: usize,
    /// The type in whose `impl` it is.
    pub of: Option<Name>,
    pub item: T,
}

/// Where a function is: its module, its type, its name, and for an operator the type of the right side.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    pub module: String,
    pub of: Option<String>,
    pub name: String,
    pub right: Option<String>,
}

/// All files.
#[derive(Default)]
pub struct Sources {
    pub files: Vec<File>,
    pub types: BTreeMap<Name, (usize, Definition)>,
    pub functions: BTreeMap<Key, Code<(Signature, syn::Block)>>,
    pub constants: BTreeMap<Key, Code<(Type, Expr)>>,
}

impl Sources {
    /// Reads `text`, the file at `path`, as a part of `module`.
    pub fn add(&mut self, path: &str, module: &str, text: &str) -> Result<()> {
        let parsed =
            syn::parse_file(text).map_err(|error| Outside(format!("{path}:{}: {error}", error.span().start().line)))?;
        let mut file = File { path: path.to_owned(), module: module.to_owned(), imports: BTreeMap::new() };
        for item in &parsed.items {
            if let Item::Use(item) = item {
                imports(&item.tree, "", &mut file.imports);
            }
        }
        let number = self.files.len();
        self.files.push(file);
        let name = |ident: &syn::Ident| (module.to_owned(), ident.to_string());
        for item in parsed.items {
            match item {
                Item::Struct(item) => {
                    self.types.insert(name(&item.ident), (number, Definition::Struct(item)));
                }
                Item::Enum(item) => {
                    self.types.insert(name(&item.ident), (number, Definition::Enum(item)));
                }
                Item::Fn(ItemFn { sig, block, .. }) => {
                    let key = self.key(module, None, &sig.ident);
                    self.functions.insert(key, Code { file: number, of: None, item: (sig, *block) });
                }
                Item::Const(item) => {
                    let key = self.key(module, None, &item.ident);
                    self.constants.insert(key, Code { file: number, of: None, item: (*item.ty, *item.expr) });
                }
                Item::Impl(item) => self.add_impl(number, item),
                _ => {}
            }
        }
        Ok(())
    }

    fn key(&self, module: &str, of: Option<&str>, ident: &syn::Ident) -> Key {
        Key { module: module.to_owned(), of: of.map(str::to_owned), name: ident.to_string(), right: None }
    }

    /// Inherent methods, and those of traits; of an operator with the type of its right side.
    fn add_impl(&mut self, file: usize, item: syn::ItemImpl) {
        let Type::Path(path) = &*item.self_ty else { return };
        let Some(of) = path.path.get_ident().map(ToString::to_string) else { return };
        let module = self.files[file].module.clone();
        let right = item.trait_.as_ref().and_then(|(_, path, _)| {
            let last = path.segments.last()?;
            let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return Some(of.clone()) };
            match arguments.args.first()? {
                syn::GenericArgument::Type(Type::Path(path)) => path.path.get_ident().map(ToString::to_string),
                _ => None,
            }
        });
        let name = Some((module.clone(), of.clone()));
        for part in item.items {
            match part {
                ImplItem::Fn(part) => {
                    let key = Key { right: right.clone(), ..self.key(&module, Some(&of), &part.sig.ident) };
                    let code = Code { file, of: name.clone(), item: (part.sig, part.block) };
                    self.functions.insert(key, code);
                }
                ImplItem::Const(part) => {
                    let key = self.key(&module, Some(&of), &part.ident);
                    self.constants.insert(key, Code { file, of: name.clone(), item: (part.ty, part.expr) });
                }
                _ => {}
            }
        }
    }

    /// The definition of the type that `name` means in `file`.
    pub fn resolve(&self, file: usize, name: &str) -> Option<Name> {
        let file = &self.files[file];
        let known = |module: &str| {
            let name = (module.to_owned(), name.to_owned());
            self.types.contains_key(&name).then_some(name)
        };
        known(&file.module).or_else(|| known(file.imports.get(name)?))
    }

    /// The module in which a constant or a function that `name` means in `file` is.
    pub fn module_of(&self, file: usize, name: &str) -> &str {
        let file = &self.files[file];
        file.imports.get(name).map_or(&file.module, String::as_str)
    }

    /// An error about the code at `at` in `file`.
    pub fn outside(&self, file: usize, at: &impl Spanned, what: &str) -> Outside {
        let line = at.span().start().line;
        Outside(format!(
            "{}:{line}: {what}; kernel/translator/src/main.rs describes what is translated",
            self.files[file].path
        ))
    }
}

/// Each imported name with the last module of its path. Names of `tidegate_units` are in module `units`.
fn imports(tree: &UseTree, module: &str, into: &mut BTreeMap<String, String>) {
    match tree {
        UseTree::Path(path) => {
            let name = path.ident.to_string();
            let module = match name.as_str() {
                "tidegate_units" => "units",
                "crate" | "super" | "self" => module,
                name => name,
            };
            imports(&path.tree, module, into);
        }
        UseTree::Name(name) => {
            into.insert(name.ident.to_string(), module.to_owned());
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| imports(tree, module, into)),
        UseTree::Rename(_) | UseTree::Glob(_) => {}
    }
}

/// The fields of a struct with names; one without names has `0`.
pub fn fields(item: &ItemStruct) -> Vec<(String, &Type)> {
    let name = |(at, field): (usize, &syn::Field)| field.ident.as_ref().map_or(at.to_string(), ToString::to_string);
    item.fields.iter().enumerate().map(|(at, field)| (name((at, field)), &field.ty)).collect()
}

/// Whether it is a struct of one field without a name.
pub fn is_newtype(item: &ItemStruct) -> bool {
    matches!(&item.fields, Fields::Unnamed(fields) if fields.unnamed.len() == 1)
}
