//! How a crate that stands on Tidegate's is written: its name, the source of Tidegate's crates, and its files from templates.

use std::fs;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use tidegate_config::discipline::is_kind_name;

use crate::Failure;

/// The crates that the new one may depend on, as the placeholders name them: a name, and a word where there are several forms of
/// the dependency. Then their folders, and the rest of the line of Cargo.toml.
const CRATES: [(&str, &str, &str); 10] = [
    ("tidegate", "crates/tidegate", ", default-features = false, features = [\"lab\"], optional = true"),
    ("tidegate-core", "crates/core", ""),
    ("tidegate-config", "crates/config", ""),
    ("tidegate-laws", "crates/laws", ""),
    ("tidegate-metrics", "crates/metrics", ""),
    // Reports without Parquet and PNG need few packages.
    ("tidegate-report", "lab/report", ", default-features = false"),
    ("tidegate-script", "lab/script", ""),
    ("tidegate-sim", "lab/sim", ""),
    ("tidegate-translator", "kernel/translator", ", default-features = false, features = [\"translate\"]"),
    ("tidegate-translator equal", "kernel/translator", ", default-features = false, features = [\"equal\"]"),
];

/// Names that a crate or a module cannot have: keywords of Rust, and crates that are always present.
const KEYWORDS: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "union",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// Names of folders that Cargo reserves in the target directory.
const FOLDERS: [&str; 4] = ["build", "deps", "examples", "incremental"];

/// The source of the crates of Tidegate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A source tree.
    Tree(PathBuf),
    /// A git repository.
    Git(String),
    /// A version of a registry.
    Version(String),
}

impl Origin {
    /// The origin as a crate in `folder` names it: a source tree by its path from there, so that both can be moved together, and no
    /// path of this machine is in the crate.
    fn seen_from(&self, folder: &Path) -> Self {
        match (self, folder.canonicalize()) {
            (Self::Tree(root), Ok(folder)) => Self::Tree(relative(root, &folder)),
            _ => self.clone(),
        }
    }
    /// The dependency on `name` in `folder`, as a line of Cargo.toml that ends in `rest`. Cargo refuses a tree that has become another version
    /// than the one that wrote the crate.
    fn dependency(&self, name: &str, folder: &str, rest: &str) -> String {
        let source = match self {
            Self::Tree(root) => {
                let path = quoted(&root.join(folder).display().to_string());
                format!("path = {path}, version = \"{}\"", env!("CARGO_PKG_VERSION"))
            }
            Self::Git(url) => format!("git = {}", quoted(url)),
            Self::Version(version) => format!("version = {}", quoted(version)),
        };
        format!("{name} = {{ {source}{rest} }}")
    }
}

/// The path from `folder` to `to`, both absolute and without links.
fn relative(to: &Path, folder: &Path) -> PathBuf {
    let common = to.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

/// Quotes a word for a shell.
pub(super) fn for_shell(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Quotes a text for TOML.
fn quoted(text: &str) -> String {
    let escaped: String = text
        .chars()
        .flat_map(|c| match c {
            '"' | '\\' => vec!['\\', c],
            c => vec![c],
        })
        .collect();
    format!("\"{escaped}\"")
}

/// The name of the crate for a name that was given, which may have the form of an identifier.
pub(super) fn crate_name(given: &str) -> String {
    given.replace('_', "-")
}

/// Why the name that was given is not valid for a crate with these files, which is `what`, with a remedy.
pub(super) fn wrong_crate_name(given: &str, what: &str, files: &[(&str, String)]) -> Option<String> {
    let is_name = |name: &str| is_kind_name(name) && name.len() <= 48;
    let name = &*crate_name(given);
    if !is_name(name) {
        let lower = name.to_lowercase();
        return Some(format!(
            "`{given}` cannot name {what}: use up to 48 lower case letters, digits and -, and begin with a letter, \
             for example {}",
            if is_name(&lower) { &lower } else { "my-red" }
        ));
    }
    if KEYWORDS.contains(&name) {
        return Some(format!("`{name}` is a word of Rust and cannot name a crate; try my-{name}"));
    }
    if FOLDERS.contains(&name) {
        return Some(format!("`{name}` is a folder that Cargo builds in and cannot name a program; try my-{name}"));
    }
    let type_name = type_name(name);
    if taken_types(files).any(|taken| taken == type_name) {
        return Some(format!("the crate has another `{type_name}` already; try my-{name}"));
    }
    if name == "tidegate" || name.starts_with("tidegate-") {
        return Some(format!("`{name}` is the name of one of Tidegate's own crates; try another"));
    }
    None
}

/// Type-like names in the code of the new crate and in its examples.
fn taken_types<'a>(files: &'a [(&'a str, String)]) -> impl Iterator<Item = &'a str> {
    let sources = files.iter().filter(|(path, _)| path.ends_with(".rs"));
    let code = sources.flat_map(|(_, text)| {
        let mut example = false;
        text.lines().filter(move |line| {
            let line = line.trim_start();
            let fence = line.starts_with("//! ```");
            example ^= fence;
            !fence && (example || !line.starts_with("//"))
        })
    });
    let words = code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| word.starts_with(|c: char| c.is_uppercase()) && *word != "Type")
}

/// Says that the crate depends on a folder of this machine, unless its source was given.
pub(super) fn origin_note(said: Option<&str>) -> Option<String> {
    let text = "Cargo.toml names the source tree that this tidegate was built from, by its path, which others do not have. For a crate \
                that you give away write it with --tidegate URL or VERSION.";
    said.is_none().then(|| tidegate_display::wrapped(text, crate::output::width()))
}

/// The source of the crates: the option, or the tree this was built from.
pub(super) fn origin(said: Option<&str>) -> Result<Origin, Failure> {
    let is_tree = |path: &Path| path.join("crates/core/Cargo.toml").is_file();
    let Some(said) = said else {
        let built = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        return match built.canonicalize() {
            Ok(root) if is_tree(&root) => Ok(Origin::Tree(root)),
            _ => Err(Failure::Usage(format!(
                "the source tree that this tidegate was built from ({}) is not here, and the new crate needs \
                 Tidegate's crates; specify where they are with --tidegate: the path of a source tree, the address of a \
                 git repository, or a version of a registry",
                built.display()
            ))),
        };
    };
    let path = Path::new(said);
    if said.contains("://") || said.starts_with("git@") {
        Ok(Origin::Git(said.into()))
    } else if is_tree(path) {
        path.canonicalize().map(Origin::Tree).map_err(|error| Failure::Usage(format!("{said}: {error}")))
    } else if said.starts_with(|c: char| c.is_ascii_digit()) && !path.exists() {
        Ok(Origin::Version(said.into()))
    } else {
        Err(Failure::Usage(format!(
            "--tidegate {said}: neither a source tree of Tidegate (a folder with crates/core), nor an address with \
             ://, nor a version like 0.1.0"
        )))
    }
}

/// `my-red` as `MyRed`.
fn type_name(name: &str) -> String {
    let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
    name.split('-').map(capital).collect()
}

/// Replaces the placeholders in `text`.
pub(super) fn filled(text: &str, name: &str, origin: &Origin, kernel: bool) -> String {
    let mut parts = text.split("{{kernel:");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (only, rest) = part.split_once(":kernel}}").unwrap_or(("", part));
        text += if kernel { only } else { "" };
        text += rest;
    }
    let mut text = text
        .replace("{{name}}", name)
        .replace("{{snake}}", &name.replace('-', "_"))
        .replace("{{Type}}", &type_name(name))
        .replace("{{rust}}", env!("CARGO_PKG_RUST_VERSION"));
    for (place, folder, rest) in CRATES {
        let crate_name = place.split(' ').next().unwrap_or(place);
        text = text.replace(&format!("{{{{dependency {place}}}}}"), &origin.dependency(crate_name, folder, rest));
    }
    text
}

/// Writes the files of a crate, with what only those for the kernel have or without it. Nothing that exists is overwritten.
pub(super) fn write_all(
    folder: &Path,
    files: &[(&str, String)],
    name: &str,
    origin: &Origin,
    kernel: bool,
) -> Result<(), Failure> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| Failure::Failed(format!("{path}: {error}"))
    };
    if folder.exists() && fs::read_dir(folder).map_err(failed(folder))?.next().is_some() {
        return Err(Failure::Usage(format!(
            "{} exists and is not empty; nothing is overwritten. Choose another folder with --path",
            folder.display()
        )));
    }
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let seen = &origin.seen_from(folder);
    for (path, text) in files {
        let path = folder.join(filled(path, name, seen, kernel));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        let mut file = fs::File::create_new(&path).map_err(failed(&path))?;
        file.write_all(filled(text, name, seen, kernel).as_bytes()).map_err(failed(&path))?;
    }
    if let Origin::Tree(root) = origin {
        // The versions that Tidegate itself is tested with, so that nothing has to be resolved. Without the file
        // Cargo resolves versions itself.
        let _ = fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of this machine is named as such; a source that was given is known.
    #[test]
    fn a_crate_that_names_the_tree_of_the_build_says_so() {
        assert!(origin_note(None).is_some_and(|note| note.contains("--tidegate")));
        assert_eq!(origin_note(Some("https://example.com/tidegate")), None);
    }

    #[test]
    fn the_crates_come_from_where_the_user_says() {
        let line = |said: &str| origin(Some(said)).map(|origin| origin.dependency("tidegate-core", "crates/core", ""));
        assert_eq!(
            line("https://example.org/t.git").ok().as_deref(),
            Some("tidegate-core = { git = \"https://example.org/t.git\" }")
        );
        assert_eq!(line("0.1.0").ok().as_deref(), Some("tidegate-core = { version = \"0.1.0\" }"));
        assert!(line("/nowhere/at/all").is_err());
        // The tree that this test is built from.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is here");
        assert_eq!(origin(None).ok(), Some(Origin::Tree(root.clone())));
        let said = root.display().to_string();
        assert!(line(&said).is_ok_and(|line| line.contains("crates/core")));
        assert_eq!(quoted("a \"b\" \\c"), "\"a \\\"b\\\" \\\\c\"");
        // A crate names the tree by its place beside it, and no path of this machine.
        let path = |to: &str, folder: &str| relative(Path::new(to), Path::new(folder)).display().to_string();
        assert_eq!(path("/home/a/tidegate", "/home/a/papers/my-red"), "../../tidegate");
        assert_eq!(path("/home/a/tidegate", "/home/a/tidegate/my-red"), "..");
        let seen = Origin::Tree(root.clone()).seen_from(&root.join("lab"));
        assert_eq!(
            seen.dependency("tidegate-core", "crates/core", ""),
            format!("tidegate-core = {{ path = \"../crates/core\", version = \"{}\" }}", env!("CARGO_PKG_VERSION"))
        );
    }

    #[test]
    fn types_and_words_are_quoted() {
        assert_eq!(type_name("my-red2-x"), "MyRed2X");
        assert_eq!(for_shell("/tmp/my-red_2"), "/tmp/my-red_2");
        assert_eq!(for_shell("it's my red"), "'it'\\''s my red'");
    }
}
