//! The copy of the repository with the mutants in it, without those that do not compile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Part;
use super::operators::{self, Place};
use super::schema::{self, Mutant, Schema};
use super::tests::{self, Test};

/// How often mutants that do not compile are removed before giving up: the compiler stops at the first stage with errors.
const ROUNDS: u32 = 20;

const ALLOWED: &[u8] = b"#![allow(warnings, arithmetic_overflow, unconditional_panic)]\n";

/// The copy, built.
pub struct Mutated {
    pub mutants: Vec<Mutant>,
    pub unviable: BTreeSet<String>,
    /// The test programs, with the directories of their packages.
    programs: Vec<(PathBuf, PathBuf)>,
}

impl Mutated {
    /// The tests of all programs.
    pub fn tests(&self) -> io::Result<Vec<Test>> {
        let mut all = Vec::new();
        for (program, folder) in &self.programs {
            all.extend(tests::list(program, folder)?);
        }
        Ok(all)
    }
}

/// Makes the copy in `folder/tree` and builds its tests.
pub fn build(part: &Part, folder: &Path) -> io::Result<Mutated> {
    let tree = folder.join("tree");
    let sources = sources(part)?;
    // What did not compile is tried again when there are other mutants than then.
    let list = folder.join("unviable");
    let text = fs::read_to_string(&list).unwrap_or_default();
    let of = digest(&sources);
    let mut unviable: BTreeSet<String> = match text.split_once('\n') {
        Some((first, rest)) if first == of => rest.lines().map(str::to_owned).collect(),
        _ => BTreeSet::new(),
    };
    let library = format!("{}/src/lib.rs", part.root);
    for round in 0..ROUNDS {
        let (mut next, mut mutants, mut schemas) = (1, Vec::new(), BTreeMap::new());
        for (file, text, places) in &sources {
            schemas.insert(file.clone(), schema::write(file, text, places, &unviable, &mut next, &mut mutants));
        }
        crate::tree::copy(&tree, |file, content| {
            let mut content = schemas.get(file).map_or(content, |schema| schema.text.clone().into_bytes());
            for (_, old, new) in part.changes.iter().filter(|(of, ..)| *of == file) {
                let text = String::from_utf8_lossy(&content).replacen(old, new, 1);
                assert!(!text.as_bytes().eq(&content), "{file} has no `{old}`");
                content = text.into_bytes();
            }
            if file == library {
                // Some mutants overflow or panic for certain, which is for the tests to find.
                content = [ALLOWED, &content, include_bytes!("runtime.rs")].concat();
            }
            content
        })?;
        let errors = cargo(&tree, &["check", "-p", part.package, "--lib"])?.errors;
        let blamed = blamed(&errors, &schemas)?;
        eprintln!("round {round}: {} mutants, {} do not compile", mutants.len(), blamed.len());
        if blamed.is_empty() {
            let names: Vec<&str> = unviable.iter().map(String::as_str).collect();
            fs::write(list, format!("{of}\n{}\n", names.join("\n")))?;
            let built = cargo(&tree, &[&["test", "--no-run"], part.tests].concat())?;
            if let Some(error) = built.errors.first() {
                return Err(io::Error::other(error["rendered"].as_str().unwrap_or_default().to_owned()));
            }
            return Ok(Mutated { mutants, unviable, programs: keep(built.programs, folder)? });
        }
        unviable.extend(blamed);
    }
    Err(io::Error::other(format!("still errors after {ROUNDS} rounds")))
}

/// A file, its text and its places.
type Source = (String, String, Vec<Place>);

/// A digest of all mutants of `sources`.
fn digest(sources: &[Source]) -> String {
    let mut hasher = DefaultHasher::new();
    for place in sources.iter().flat_map(|(_, _, places)| places) {
        (place.at, &place.within, &place.instead).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// Copies the programs to `folder`, where another build does not replace them.
fn keep(programs: Vec<(PathBuf, PathBuf)>, folder: &Path) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let folder = fs::canonicalize(folder)?.join("programs");
    fs::create_dir_all(&folder)?;
    let kept = programs.into_iter().map(|(program, package)| {
        let to = folder.join(program.file_name().unwrap_or_default());
        fs::copy(&program, &to)?;
        Ok((to, package))
    });
    kept.collect()
}

/// The files of a part. Directories in them have tests of their own.
fn sources(part: &Part) -> io::Result<Vec<Source>> {
    let mut files = Vec::new();
    for source in part.sources {
        let path = Path::new(part.root).join("src").join(source);
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                files.push(entry?.path());
            }
            files.retain(|path| path.is_file());
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path)?;
            let places = operators::places(&text).map_err(io::Error::other)?;
            Ok((path.to_string_lossy().into_owned(), text, places))
        })
        .collect()
}

/// The names of the mutants that the errors are in.
fn blamed(errors: &[Value], schemas: &BTreeMap<String, Schema>) -> io::Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for error in errors {
        let mut names = Vec::new();
        for span in error["spans"].as_array().into_iter().flatten().filter(|span| span["is_primary"] == true) {
            let (from, to) = (span["byte_start"].as_u64(), span["byte_end"].as_u64());
            if let (Some(schema), Some(from), Some(to)) =
                (span["file_name"].as_str().and_then(|file| schemas.get(file)), from, to)
            {
                names.extend(schema.blamed(&(from as usize..to as usize)));
            }
        }
        // "Aborting due to previous errors" has no place.
        if names.is_empty() && error["spans"].as_array().is_some_and(|spans| !spans.is_empty()) {
            return Err(io::Error::other(error["rendered"].as_str().unwrap_or_default().to_owned()));
        }
        all.extend(names);
    }
    Ok(all)
}

struct Built {
    errors: Vec<Value>,
    programs: Vec<(PathBuf, PathBuf)>,
}

/// Runs cargo in the copy, with a target directory apart from that of the repository: cargo does not distinguish copies
/// of a package. The parts share it, so that dependencies are built once.
fn cargo(tree: &Path, arguments: &[&str]) -> io::Result<Built> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--locked", "--quiet", "--message-format=json", "--target-dir"])
        .arg(fs::canonicalize(tree)?.join("../../build"))
        .current_dir(tree)
        .stderr(Stdio::piped())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let messages: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |reason: &'static str| messages.iter().filter(move |message| message["reason"] == reason);
    let errors: Vec<Value> = of("compiler-message")
        .map(|message| message["message"].clone())
        .filter(|message| message["level"] == "error")
        .collect();
    if !output.status.success() && errors.is_empty() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let mut programs = Vec::new();
    for artifact in of("compiler-artifact") {
        if let (Some(program), Some(manifest)) = (artifact["executable"].as_str(), artifact["manifest_path"].as_str())
            && artifact["profile"]["test"] == true
        {
            programs.push((program.into(), Path::new(manifest).parent().unwrap_or(tree).to_owned()));
        }
    }
    Ok(Built { errors, programs })
}
