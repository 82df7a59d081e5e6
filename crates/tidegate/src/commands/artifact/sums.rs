//! `SHA256SUMS` of an artifact: the SHA-256 of every file that was packed, in the form that `sha256sum --check` reads.
//!
//! Whoever changes a file can also change its sum. Therefore the sum of `SHA256SUMS` itself is printed, which a paper can cite.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use super::inputs::inside;
use crate::Failure;

/// The name of the file.
pub const NAME: &str = "SHA256SUMS";
/// The most files and folders that an artifact may have, and the deepest folder.
const MOST: usize = 100_000;
const DEEPEST: usize = 64;

/// The SHA-256 of some bytes, in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of the program that runs. A version has many builds; this one is the one.
///
/// # Errors
/// If its file cannot be read.
pub fn of_program() -> std::io::Result<String> {
    fs::read(std::env::current_exe()?).map(|bytes| sha256(&bytes))
}

/// The sums of the files of an artifact, by their names in it.
#[derive(Debug, Default)]
pub struct Sums(BTreeMap<PathBuf, String>);

impl Sums {
    /// Adds a file.
    ///
    /// # Errors
    /// Invalid usage, if a line cannot have its name as it is.
    pub fn add(&mut self, name: &Path, bytes: &[u8]) -> Result<(), Failure> {
        let plain = name.to_str().filter(|text| !text.contains(|c: char| c.is_control() || c == '\\'));
        if plain.is_none() {
            let why = "an artifact takes no file whose name has a backslash or a control character; rename it";
            return Err(Failure::Usage(format!("{}: {why}", name.display())));
        }
        self.0.insert(name.to_owned(), sha256(bytes));
        Ok(())
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        self.0.iter().map(|(name, sum)| format!("{sum}  {}\n", name.display())).collect()
    }

    /// The names of the files.
    pub fn names(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// The sum of the file itself, which stands for the whole artifact.
    pub fn of_all(&self) -> String {
        sha256(self.text().as_bytes())
    }

    /// Checks the folder of an artifact: each file of the list is there as it was packed, and nothing in the folder is a symbolic
    /// link or a device. Returns the list, and the files that are not in it. What an earlier repetition wrote into `reproduced` is
    /// no part of the artifact.
    ///
    /// # Errors
    /// Invalid usage, with what is wrong.
    pub fn check(folder: &Path) -> Result<(Self, Vec<PathBuf>), Failure> {
        let wrong = |why: String| Failure::Usage(format!("{}: {why}", folder.display()));
        let there = files(folder).map_err(wrong)?;
        let path = inside(folder, Path::new(NAME)).map_err(|error| wrong(format!("{NAME}: {error}")))?;
        let text = fs::read_to_string(path).map_err(|error| wrong(format!("{NAME}: {error}")))?;
        let mut sums = Self::default();
        for line in text.lines() {
            let (sum, name) = line
                .split_once("  ")
                .ok_or_else(|| wrong(format!("{NAME}: a line is not a sum, two spaces and a name: {line:?}")))?;
            sums.0.insert(name.into(), sum.to_owned());
        }
        let mut changed = Vec::new();
        for (name, sum) in &sums.0 {
            let read = inside(folder, name).and_then(fs::read);
            match read.map(|bytes| sha256(&bytes)) {
                Ok(found) if found == *sum => {}
                Ok(_) => changed.push(format!("{} was changed after it was packed", name.display())),
                Err(error) => changed.push(format!("{}: {error}", name.display())),
            }
        }
        if !changed.is_empty() {
            return Err(wrong(format!(
                "{}\nThe artifact is not as it was packed. `sha256sum --check {NAME}` in its folder says the same",
                changed.join("\n")
            )));
        }
        let other = there.into_iter().filter(|name| !sums.0.contains_key(name) && name != Path::new(NAME)).collect();
        Ok((sums, other))
    }
}

/// The files below a folder but those in `reproduced`, by their names in it.
///
/// # Errors
/// Why an artifact cannot have one of them.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![(PathBuf::new(), 0)];
    let mut seen = 0;
    while let Some((name, depth)) = folders.pop() {
        let failed = |error: std::io::Error| format!("{}: {error}", name.display());
        for entry in fs::read_dir(folder.join(&name)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = name.join(entry.file_name());
            let kind = entry.file_type().map_err(failed)?;
            seen += 1;
            if seen > MOST || depth > DEEPEST {
                return Err(format!("an artifact has at most {MOST} files, in folders at most {DEEPEST} deep"));
            }
            // A part of an artifact of several has a folder of its own for it, beside that of its inputs.
            let is_of_part = path.components().count() == 2 && path.ends_with("reproduced");
            let is_single = || folder.join("artifact.json").exists();
            if kind.is_dir() && (path == Path::new("reproduced") || (is_of_part && !is_single())) {
                continue;
            }
            if kind.is_dir() {
                folders.push((path, depth + 1));
            } else if kind.is_file() {
                found.push(path);
            } else {
                let what = if kind.is_symlink() { "a symbolic link" } else { "neither a file nor a folder" };
                return Err(format!("{} is {what}, which an artifact must not have", path.display()));
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_the_form_of_sha256sum() {
        let mut sums = Sums::default();
        sums.add(Path::new("input/a"), b"abc").expect("a name");
        // FIPS 180-2, B.1.
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sums.text(), format!("{sum}  input/a\n"));
        assert!(sums.add(Path::new("a\nb"), b"").is_err());
    }
}
