//! The crate of a program with disciplines or congestion controls of its own, for artifacts: without its source nobody could repeat them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::Failure;
use crate::cli::own_crate;

/// The largest file that is taken for source.
const LARGEST: u64 = 1 << 20;
/// The most files of a crate.
const MOST: usize = 1_000;

/// The ends of the names of files beside the source: what its tests, scenarios and scripts read. Results have other ones.
const FILES: [&str; 5] = ["lock", "md", "rs", "tgs", "toml"];
/// The folders of a crate; builds and results are not among them.
const FOLDERS: [&str; 4] = ["demo", "scripts", "src", "tests"];

/// The folder of an artifact in which the crate is.
pub const FOLDER: &str = "crate";

/// A crate that adds kinds to Tidegate.
pub struct Own {
    folder: PathBuf,
    /// The name of its program.
    pub program: String,
    /// When that was built.
    built: Option<SystemTime>,
}

impl Own {
    /// The crate of this program; `None` if it is Tidegate alone.
    pub fn of_this_program() -> Option<Self> {
        let path = std::env::current_exe().ok()?;
        let program = path.file_name()?.to_string_lossy().into_owned();
        let built = path.metadata().and_then(|metadata| metadata.modified()).ok();
        Some(Self { folder: own_crate()?.into(), program, built })
    }

    /// Reads the files of the crate: its manifest and versions, source and tests, scenarios, scripts and shaper files. The path of Tidegate's tree is replaced by that of a tree beside the
    /// artifact.
    ///
    /// # Errors
    /// If the folder that it was built from is not there or cannot be read, or its source has changed since the program was built.
    pub fn files(&self) -> Result<BTreeMap<PathBuf, Vec<u8>>, Failure> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = PathBuf::from(entry.file_name());
            if name.extension().is_some_and(|end| FILES.iter().any(|known| end == *known)) {
                self.add(&name, &mut found)?;
            }
        }
        for name in FOLDERS {
            self.walk(Path::new(name), &mut found)?;
        }
        let manifest = found.get_mut(Path::new("Cargo.toml")).ok_or_else(|| {
            Failure::Usage(format!(
                "{}: this program was built from there, and the source of its kinds belongs into the artifact; build it again where the crate is",
                self.folder.display()
            ))
        })?;
        let text = String::from_utf8_lossy(manifest).into_owned();
        // The tree, as the line of `tidegate-core` has it.
        let tree =
            text.split("path = \"").skip(1).find_map(|rest| rest.split_once("/crates/core\"").map(|(tree, _)| tree));
        if let Some(tree) = tree.filter(|tree| !tree.contains('"')) {
            *manifest = text.replace(&format!("path = \"{tree}/"), "path = \"../../tidegate/").into_bytes();
        }
        Ok(found)
    }

    fn walk(&self, inside: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), Failure> {
        let folder = self.folder.join(inside);
        let Ok(entries) = fs::read_dir(&folder) else { return Ok(()) };
        for entry in entries.flatten() {
            let path = inside.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.walk(&path, found)?,
                Ok(kind) if kind.is_file() => self.add(&path, found)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn add(&self, inside: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), Failure> {
        let path = self.folder.join(inside);
        let Some(metadata) = path.symlink_metadata().ok().filter(fs::Metadata::is_file) else { return Ok(()) };
        let is_source = inside.extension().is_some_and(|end| end == "rs") && !inside.starts_with("tests");
        if is_source && self.built.zip(metadata.modified().ok()).is_some_and(|(built, changed)| changed > built) {
            return Err(Failure::Usage(format!(
                "{}: changed since this program was built, which has not run what would be packed: build it again",
                path.display()
            )));
        }
        if metadata.len() > LARGEST || found.len() == MOST {
            return Err(Failure::Usage(format!(
                "{}: the source of a crate that is packed has at most {MOST} files of {LARGEST} B each",
                path.display()
            )));
        }
        let bytes = fs::read(&path).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        found.insert(inside.to_owned(), bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_testbed::files::Folder;

    use super::*;

    /// The manifest, the source and the tests of a crate are packed, to be built beside a tree of Tidegate; its builds and results are not.
    #[test]
    fn the_source_of_a_crate_is_packed_with_the_tree_beside_it() {
        let scratch = Folder::new("own");
        let folder = scratch.file("my-own");
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        let manifest = |tree: &str| {
            format!(
                "[dependencies]\ntidegate-core = {{ path = \"{tree}/crates/core\", version = \"0.1.0\" }}\n\
                 tidegate-sim = {{ path = \"{tree}/lab/sim\" }}\nother = {{ path = \"../other\" }}\n"
            )
        };
        for (name, text) in [
            ("Cargo.toml", manifest("../../src").as_str()),
            ("Cargo.lock", ""),
            ("src/lib.rs", "pub fn own() {}"),
            ("src/deep/part.rs", ""),
            ("tests/laws.rs", ""),
            ("scenario.toml", ""),
            ("scripts/limit.tgs", ""),
            ("results.csv", ""),
            ("target/debug/own", "built"),
            ("out/results.json", "{}"),
        ] {
            write(name, text);
        }
        let later = SystemTime::now() + Duration::from_secs(60);
        let own = |built| Own { folder: folder.clone(), program: "own-tidegate".into(), built: Some(built) };
        let stale = own(SystemTime::UNIX_EPOCH).files();
        assert!(stale.is_err_and(|why| why.to_string().contains("changed since this program was built")));
        let own = own(later);
        let found = own.files().expect("read");
        let names: Vec<String> = found.keys().map(|path| path.display().to_string()).collect();
        assert_eq!(
            names,
            [
                "Cargo.lock",
                "Cargo.toml",
                "scenario.toml",
                "scripts/limit.tgs",
                "src/deep/part.rs",
                "src/lib.rs",
                "tests/laws.rs"
            ]
        );
        assert_eq!(String::from_utf8_lossy(&found[Path::new("Cargo.toml")]), manifest("../../tidegate"));
        fs::remove_dir_all(&folder).expect("removed");
        assert!(own.files().is_err_and(|why| why.to_string().contains("build it again where the crate is")));
    }
}
