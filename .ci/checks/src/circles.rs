//! Files of a crate that import each other in a circle.
//!
//! An import is a `use` of a name that another file of the same crate defines; re-exports are followed to the file of
//! the definition, and are no imports of a file that does not use the name itself. Tests and macros are left out. A
//! circle is a strongly connected component.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Item, UseTree, Visibility};

/// The most files that may import each other.
const MOST: usize = 3;

/// A line for each circle that is too large.
pub fn check(root: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut crates: Vec<PathBuf> =
        std::fs::read_dir(root.join("crates"))?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    crates.sort();
    for source in crates.iter().map(|folder| folder.join("src")) {
        let name = source.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let mut graph = Graph::default();
        for file in ["lib.rs", "main.rs"] {
            if source.join(file).exists() {
                graph.read(&source.join(file), &source, &mut Vec::new())?;
                break;
            }
        }
        let edges = graph.edges();
        let circles = circles(&edges);
        for circle in circles.iter().filter(|circle| circle.len() > MOST) {
            found.push(format!("crates/{name}: {} files import each other, of at most {MOST}", circle.len()));
            for &from in circle {
                for (to, names) in edges[from].iter().filter(|(to, _)| circle.contains(to)) {
                    let names = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                    found.push(format!("    {} -> {}: {names}", graph.shown(from, &source), graph.shown(*to, &source)));
                }
            }
        }
    }
    Ok(found)
}

type Name = Vec<String>;

/// The modules of a crate.
#[derive(Default)]
struct Graph {
    files: Vec<PathBuf>,
    /// How often each identifier stands in each file.
    idents: Vec<BTreeMap<String, usize>>,
    modules: BTreeMap<Name, Module>,
}

/// What a module has and imports, paths absolute in the crate.
#[derive(Default)]
struct Module {
    file: usize,
    defines: BTreeSet<String>,
    imports: Vec<Import>,
    globs: Vec<Name>,
}

struct Import {
    /// The name in the module.
    name: String,
    /// The path that it stands for.
    path: Name,
    /// Whether others may import it from here.
    is_public: bool,
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Meta>().is_ok_and(|meta| meta.path().is_ident("test"))
    })
}

/// The file that `#[path = "FILE"]` names.
fn path_of(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    })
}

impl Graph {
    /// Reads a file, the module `path`, and the files of its modules, which lie in `folder`.
    fn read(&mut self, file: &Path, folder: &Path, path: &mut Name) -> io::Result<()> {
        let text = std::fs::read_to_string(file)?;
        let parsed =
            syn::parse_file(&text).map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
        self.files.push(file.to_owned());
        let tokens = text.parse().map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
        let mut idents = BTreeMap::new();
        count(tokens, &mut idents);
        self.idents.push(idents);
        self.module(&parsed.items, self.files.len() - 1, folder, path)
    }

    fn module(&mut self, items: &[Item], file: usize, folder: &Path, path: &mut Name) -> io::Result<()> {
        let mut module = Module { file, ..Module::default() };
        // Names first: a path that begins with one of them is relative.
        for item in items {
            module.defines.extend(defined(item));
        }
        for item in items {
            match item {
                Item::Use(item) if !is_test(&item.attrs) => {
                    let mut leaves = Vec::new();
                    flatten(&item.tree, &mut Vec::new(), &mut leaves);
                    for (name, leaf) in leaves {
                        let Some(leaf) = absolute(leaf, path, &module.defines) else { continue };
                        match name {
                            Some(name) => {
                                let is_public = !matches!(item.vis, Visibility::Inherited);
                                module.imports.push(Import { name, path: leaf, is_public });
                            }
                            None => module.globs.push(leaf),
                        }
                    }
                }
                Item::Mod(item) if !is_test(&item.attrs) => {
                    let name = item.ident.to_string();
                    let inner = folder.join(&name);
                    path.push(name.clone());
                    match &item.content {
                        Some((_, items)) => self.module(items, file, &inner, path)?,
                        None => {
                            let flat = folder.join(format!("{name}.rs"));
                            let usual = if flat.exists() { flat } else { inner.join("mod.rs") };
                            let beside = self.files[file].parent().unwrap_or(folder);
                            let named = path_of(&item.attrs).map(|path| beside.join(path));
                            self.read(&named.unwrap_or(usual), &inner, path)?;
                        }
                    }
                    path.pop();
                }
                _ => {}
            }
        }
        self.modules.insert(path.clone(), module);
        Ok(())
    }

    /// The file that defines what a path names.
    fn file_of(&self, path: &[String], depth: usize) -> Option<usize> {
        if depth > 16 {
            return None;
        }
        if let Some(module) = self.modules.get(path) {
            return Some(module.file);
        }
        let (name, parent) = path.split_last()?;
        let Some(module) = self.modules.get(parent) else {
            // A variant, or an associated item: of what the parent names.
            return self.file_of(parent, depth + 1);
        };
        if module.defines.contains(name) {
            return Some(module.file);
        }
        if let Some(import) = module.imports.iter().find(|import| import.name == *name) {
            return self.file_of(&import.path, depth + 1);
        }
        module.globs.iter().find_map(|glob| {
            let target: Name = glob.iter().chain([name]).cloned().collect();
            self.modules.get(glob)?;
            self.file_of(&target, depth + 1)
        })
    }

    /// For each file those that it imports, with the names.
    fn edges(&self) -> Vec<BTreeMap<usize, BTreeSet<String>>> {
        let mut edges = vec![BTreeMap::<usize, BTreeSet<String>>::new(); self.files.len()];
        for module in self.modules.values() {
            let idents = &self.idents[module.file];
            // A name that stands once stands in the re-export.
            let is_used = |import: &&Import| !import.is_public || idents.get(&import.name).is_some_and(|&n| n > 1);
            for import in module.imports.iter().filter(is_used) {
                if let Some(to) = self.file_of(&import.path, 0).filter(|&to| to != module.file) {
                    edges[module.file].entry(to).or_default().insert(import.name.clone());
                }
            }
            for path in &module.globs {
                if let Some(to) = self.modules.get(path).map(|module| module.file).filter(|&to| to != module.file) {
                    edges[module.file].entry(to).or_default().insert("*".to_owned());
                }
            }
        }
        edges
    }

    fn shown(&self, file: usize, source: &Path) -> String {
        self.files[file].strip_prefix(source).unwrap_or(&self.files[file]).display().to_string()
    }
}

/// Counts identifiers, without methods and fields: what follows a single point is no name of a module.
fn count(tokens: TokenStream, idents: &mut BTreeMap<String, usize>) {
    let mut points = 0;
    for token in tokens {
        let point = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '.');
        match token {
            TokenTree::Ident(ident) if points != 1 => *idents.entry(ident.to_string()).or_default() += 1,
            TokenTree::Group(group) => count(group.stream(), idents),
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        points = if point { points + 1 } else { 0 };
    }
}

/// The name that an item defines in its module.
fn defined(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => return item.ident.as_ref().map(ToString::to_string),
        Item::Mod(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// The leaves of a `use`: the name that each brings, none for a glob, and the path as written.
fn flatten(tree: &UseTree, before: &mut Name, leaves: &mut Vec<(Option<String>, Name)>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, leaves);
            before.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, before, leaves)),
        UseTree::Glob(_) => leaves.push((None, before.clone())),
        UseTree::Name(leaf) => named(&leaf.ident.to_string(), &leaf.ident.to_string(), before, leaves),
        UseTree::Rename(leaf) => named(&leaf.ident.to_string(), &leaf.rename.to_string(), before, leaves),
    }
}

fn named(ident: &str, name: &str, before: &Name, leaves: &mut Vec<(Option<String>, Name)>) {
    let mut path = before.clone();
    if ident != "self" {
        path.push(ident.to_owned());
    }
    let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name.to_owned() };
    leaves.push((Some(name), path));
}

/// The path from the root of the crate; none for a path into another crate.
fn absolute(path: Name, module: &[String], defines: &BTreeSet<String>) -> Option<Name> {
    let mut base = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" => module.to_vec(),
        "super" => module[..module.len().checked_sub(1)?].to_vec(),
        first if defines.contains(first) => {
            let mut base = module.to_vec();
            base.extend(path);
            return Some(base);
        }
        _ => return None,
    };
    for part in &path[1..] {
        if part == "super" {
            base.pop()?;
        } else {
            base.push(part.clone());
        }
    }
    Some(base)
}

/// The strongly connected components of more than one file.
fn circles(edges: &[BTreeMap<usize, BTreeSet<String>>]) -> Vec<Vec<usize>> {
    // Crates have a few dozen files: what reaches each other is found by reaching.
    let reach: Vec<BTreeSet<usize>> = (0..edges.len())
        .map(|from| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(file) = open.pop() {
                open.extend(edges[file].keys().filter(|&&to| seen.insert(to)));
            }
            seen
        })
        .collect();
    let mut found: Vec<Vec<usize>> = Vec::new();
    for file in 0..edges.len() {
        let circle: Vec<usize> = reach[file].iter().copied().filter(|&other| reach[other].contains(&file)).collect();
        if circle.len() > 1 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate of these files, by their names.
    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = std::env::temp_dir().join(format!("tidegate-circles-{}-{}", std::process::id(), files.len()));
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().expect("a file of a folder")).expect("a folder can be made");
            std::fs::write(path, text).expect("a file can be written");
        }
        let mut graph = Graph::default();
        graph.read(&folder.join("lib.rs"), &folder, &mut Vec::new()).expect("it parses");
        std::fs::remove_dir_all(&folder).expect("the folder is ours");
        let name = |&file: &usize| graph.shown(file, &folder);
        circles(&graph.edges()).iter().map(|circle| circle.iter().map(name).collect()).collect()
    }

    #[test]
    fn a_circle_is_found_through_a_re_export_and_a_parent() {
        let found = circles_of(&[
            ("lib.rs", "mod a; mod b; pub use b::B;"),
            ("a.rs", "mod c; use crate::B; pub struct A(B);"),
            ("a/c.rs", "use super::A; pub fn c(_: A) {}"),
            ("b.rs", "use crate::a::c::c; pub struct B; fn f() { c() }"),
        ]);
        assert_eq!(found, [["a.rs", "a/c.rs", "b.rs"]]);
    }

    #[test]
    fn tests_and_bare_re_exports_make_no_circle() {
        let found = circles_of(&[
            ("lib.rs", "mod a; pub use a::A; pub struct Root;"),
            ("a.rs", "use crate::Root; pub struct A(Root); #[cfg(test)] mod tests { use crate::b::B; }"),
            ("b.rs", "use crate::A; pub struct B(A);"),
        ]);
        assert!(found.is_empty(), "{found:?}");
        let found = circles_of(&[
            ("lib.rs", "mod b; pub use b::join; pub struct Root; fn f(words: Vec<String>) { words.join(\",\"); }"),
            ("b.rs", "use crate::Root; pub fn join(_: Root) {}"),
        ]);
        assert!(found.is_empty(), "a method is no import: {found:?}");
    }
}
