//! The Rust sources that are translated: their types, functions and constants, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use syn::spanned::Spanned;
use syn::{Expr, Fields, ImplItem, Item, ItemEnum, ItemFn, ItemStruct, Signature, Type, UseTree, Visibility};

use super::problem::{Outside, Problem, Result};

/// One file.
#[derive(Clone)]
pub struct File {
    pub path: String,
    /// The innermost module around it that is public: private ones are parts of it.
    pub module: String,
    /// Imported names with the module that they are imported from.
    imports: BTreeMap<String, String>,
}

/// A type by the module and the name of its definition.
pub type Name = (String, String);

/// The definition of a type.
#[derive(Clone)]
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

/// The crates whose code may be translated: the file that begins each, its module, and whether all of it is that one module.
const CRATES: [(&str, &str, bool); 2] = [("crates/units/src", "units", true), ("crates/core/src", "core", false)];

/// All files.
#[derive(Clone, Default)]
pub struct Sources {
    pub files: Vec<File>,
    pub types: BTreeMap<Name, (usize, Definition)>,
    pub functions: BTreeMap<Key, Code<(Signature, syn::Block)>>,
    pub constants: BTreeMap<Key, Code<(Type, Expr)>>,
    /// The names that each module has.
    names: BTreeSet<Name>,
    /// Items that two files of a module define, with both files.
    twice: BTreeMap<Name, String>,
}

impl Sources {
    /// The crates of Tidegate whose source is under `root`.
    pub fn of_tidegate(root: &Path) -> io::Result<Self> {
        let mut sources = Self::default();
        for (folder, module, is_one) in CRATES {
            sources.add_tree(root, &format!("{folder}/lib.rs"), folder, &[module.to_owned()], is_one)?;
        }
        Ok(sources)
    }

    /// Adds a file, whose modules lie in `folder`, and these. `around` are the modules around it and its own, outermost first.
    fn add_tree(&mut self, root: &Path, path: &str, folder: &str, around: &[String], is_one: bool) -> io::Result<()> {
        let text = fs::read_to_string(root.join(path)).map_err(|error| io::Error::other(format!("{path}: {error}")))?;
        for (name, is_private) in self.add(path, around, &text)? {
            // The integers of `wide` have their C in integers.h.
            if name == WIDE {
                continue;
            }
            let own = if is_private || is_one { around.last().cloned().unwrap_or_default() } else { name.clone() };
            let around = [around, &[own]].concat();
            self.add_tree(root, &format!("{folder}/{name}.rs"), &format!("{folder}/{name}"), &around, is_one)?;
        }
        Ok(())
    }

    /// Reads `text`, the file at `path`, within modules. Returns the modules that lie in files of their own, each with whether it
    /// is private.
    pub fn add(&mut self, path: &str, around: &[String], text: &str) -> Result<Vec<(String, bool)>> {
        let parsed = syn::parse_file(text).map_err(|error| Outside {
            problem: None,
            path: path.to_owned(),
            text: format!("{path}:{}: {error}", error.span().start().line),
        })?;
        let module = around.last().cloned().unwrap_or_default();
        let mut file = File { path: path.to_owned(), module: module.clone(), imports: BTreeMap::new() };
        for item in &parsed.items {
            if let Item::Use(item) = item {
                imports(&item.tree, around, &module, &mut file.imports);
            }
        }
        let number = self.files.len();
        self.files.push(file);
        let name = |ident: &syn::Ident| (module.clone(), ident.to_string());
        let mut modules = Vec::new();
        for item in parsed.items {
            match item {
                Item::Struct(item) => {
                    self.note(number, name(&item.ident));
                    self.types.insert(name(&item.ident), (number, Definition::Struct(item)));
                }
                Item::Enum(item) => {
                    self.note(number, name(&item.ident));
                    self.types.insert(name(&item.ident), (number, Definition::Enum(item)));
                }
                Item::Fn(ItemFn { sig, block, .. }) => {
                    self.note(number, name(&sig.ident));
                    let key = self.key(&module, None, &sig.ident);
                    self.functions.insert(key, Code { file: number, of: None, item: (sig, *block) });
                }
                Item::Const(item) => {
                    self.note(number, name(&item.ident));
                    let key = self.key(&module, None, &item.ident);
                    self.constants.insert(key, Code { file: number, of: None, item: (*item.ty, *item.expr) });
                }
                Item::Impl(item) => self.add_impl(number, item),
                Item::Mod(item) if item.content.is_none() && !is_test(&item.attrs) => {
                    modules.push((item.ident.to_string(), matches!(item.vis, Visibility::Inherited)));
                }
                _ => {}
            }
        }
        Ok(modules)
    }

    /// Notes a name of a module, and whether another file of it has the same.
    fn note(&mut self, file: usize, name: Name) {
        let first = self.types.get(&name).map(|(file, _)| *file);
        let key = Key { module: name.0.clone(), of: None, name: name.1.clone(), right: None };
        let first = first.or(self.functions.get(&key).map(|code| code.file));
        let first = first.or(self.constants.get(&key).map(|code| code.file));
        if let Some(first) = first {
            let both = format!("{} and {}", self.files[first].path, self.files[file].path);
            self.twice.insert(name.clone(), both);
        }
        self.names.insert(name);
    }

    /// Fails when two files of a module define `name`.
    pub fn single(&self, file: usize, at: &impl Spanned, name: &Name) -> Result<()> {
        self.twice
            .get(name)
            .map_or(Ok(()), |both| Err(self.outside(file, at, Problem::Twice, &format!("`{}` of {both}", name.1))))
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
        let name = (self.module_of(file, name), name.to_owned());
        self.types.contains_key(&name).then_some(name)
    }

    /// The module that defines what `name` means in `file`: a type, a constant or a function.
    pub fn module_of(&self, file: usize, name: &str) -> String {
        let file = &self.files[file];
        let of = |module: &str| (module.to_owned(), name.to_owned());
        if self.names.contains(&of(&file.module)) {
            return file.module.clone();
        }
        let Some(mut module) = file.imports.get(name) else { return file.module.clone() };
        // What a module passes on from another, by `pub use`.
        for _ in 0..4 {
            let known = self.files.iter().filter(|other| other.module == *module);
            if module == WIDE || self.names.contains(&of(module)) {
                return module.clone();
            }
            let mut next = known.filter_map(|other| other.imports.get(name)).peekable();
            match next.peek() {
                Some(next) => module = next,
                // A private module is a part of the one around it.
                None => return file.module.clone(),
            }
        }
        module.clone()
    }

    /// An error about the code at `at` in `file`.
    pub fn outside(&self, file: usize, at: &impl Spanned, problem: Problem, detail: &str) -> Outside {
        let span = at.span();
        let code = span.source_text().unwrap_or_default();
        let first = code.lines().next().unwrap_or_default();
        let mut shown: String = first.chars().take(LONGEST_CODE).collect();
        if shown.len() < code.len() {
            shown += " ...";
        }
        Outside::new(&self.files[file].path, span.start().line, &shown, problem, detail)
    }
}

/// The module of `tidegate_units` whose functions are methods of integers in C.
pub const WIDE: &str = "wide";
/// The characters of code that an error shows.
const LONGEST_CODE: usize = 50;

fn is_test(attributes: &[syn::Attribute]) -> bool {
    let is_it = |list: &syn::MetaList| list.tokens.to_string() == "test";
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && matches!(&attribute.meta, syn::Meta::List(list) if is_it(list))
    })
}

/// Each imported name with the last module of its path. `around` are the modules around the file.
fn imports(tree: &UseTree, around: &[String], module: &str, into: &mut BTreeMap<String, String>) {
    match tree {
        UseTree::Path(path) => {
            let name = path.ident.to_string();
            let outermost = around.first().map_or("", String::as_str);
            let (around, module) = match name.as_str() {
                "tidegate_units" => (around, "units"),
                "tidegate_core" => (around, "core"),
                "crate" => (around, outermost),
                "self" => (around, module),
                "super" => {
                    let outer = &around[..around.len().saturating_sub(1)];
                    (outer, outer.last().map_or(outermost, String::as_str))
                }
                name => (around, name),
            };
            imports(&path.tree, around, module, into);
        }
        UseTree::Name(name) => {
            into.insert(name.ident.to_string(), module.to_owned());
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| imports(tree, around, module, into)),
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
