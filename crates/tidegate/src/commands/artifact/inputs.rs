//! The input files of an artifact: the scenario, and what it reads by names relative to itself.
//!
//! A scenario may name `../traces/lte.mahimahi`. In an artifact the same name must lead to the same file. Therefore the folders
//! below the deepest one that contains all files are kept. An artifact that came from elsewhere must not read, or write,
//! anything outside of its folder: names that leave it, and symbolic links in it, are refused.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::path::{Component, Path, PathBuf};

use tidegate_config::{Diagnostics, Source};
use tidegate_report::check_planned;
use tidegate_sim::scenario::Scenario;
use tidegate_sim::scenario::sweep::Sweep;

use super::super::check::{refusal, say};
use crate::Failure;

/// The longest file of an artifact, in bytes.
const LONGEST: u64 = 256 << 20;

/// A path without `.` and `..`; `None` if it leads out of its beginning.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Prefix(_) | Component::RootDir => return None,
            Component::CurDir => {}
            Component::ParentDir => {
                if !whole.pop() {
                    return None;
                }
            }
            Component::Normal(name) => whole.push(name),
        }
    }
    Some(whole)
}

/// The path of a file inside `folder` that an artifact names. No part of it may be a symbolic link.
///
/// # Errors
/// If the name leads out of the folder, or through a link.
pub fn inside(folder: &Path, name: &Path) -> std::io::Result<PathBuf> {
    let refused = |why: String| Error::new(ErrorKind::InvalidInput, why);
    let name = normal(name).ok_or_else(|| refused(format!("{} leads out of the artifact", name.display())))?;
    let mut path = folder.to_owned();
    for part in name.components() {
        path.push(part);
        if path.symlink_metadata()?.file_type().is_symlink() {
            return Err(refused(format!("{} is a symbolic link, which an artifact must not have", path.display())));
        }
    }
    let data = path.metadata()?;
    if !data.is_file() || data.len() > LONGEST {
        return Err(refused(format!("{} is no file of at most {} MB", path.display(), LONGEST >> 20)));
    }
    Ok(path)
}

/// The folder with the inputs of an artifact, and the name of its scenario there.
pub struct Inside<'a> {
    pub folder: &'a Path,
    pub name: &'a Path,
}

impl Inside<'_> {
    /// The scenario of a text that stands in the place of the file.
    ///
    /// # Errors
    /// If it is wrong, or names files outside of the folder.
    pub fn scenario(&self, source: &Source) -> Result<Scenario, Failure> {
        let beside = self.name.parent().unwrap_or(Path::new(""));
        let open = |other: &str| {
            let path = inside(self.folder, &beside.join(other))?;
            Source::open(&path)
        };
        let mut diagnostics = Diagnostics::new();
        let scenario = Scenario::load(source, Some(&open), &mut diagnostics);
        say(&diagnostics, source);
        scenario.ok_or_else(|| refusal(&diagnostics, source))
    }
}

/// Loads the scenario of an artifact.
///
/// # Errors
/// If it is wrong, or names files outside of the folder.
pub fn load(at: &Inside<'_>) -> Result<(Source, Scenario), Failure> {
    let wrong = |error: Error| Failure::Usage(format!("{}: {error}", at.name.display()));
    let path = inside(at.folder, at.name).map_err(wrong)?;
    let source = Source::new(at.name.display().to_string(), std::fs::read_to_string(path).map_err(wrong)?);
    let scenario = at.scenario(&source)?;
    Ok((source, scenario))
}

/// Files to pack, each by its path inside of the folder `input`.
pub struct Inputs {
    /// The path of the scenario.
    pub scenario: PathBuf,
    /// The text of each file.
    pub files: BTreeMap<PathBuf, String>,
}

impl Inputs {
    /// Reads a scenario and the files that it names, or that one of the values of its sweep does.
    ///
    /// # Errors
    /// If the scenario is wrong, also with a value of the sweep, or names a file by an absolute path, which another machine does not have.
    pub fn read(
        file: &Path,
        sweep: impl Fn(&Source, &Scenario) -> Result<Option<Sweep>, Failure>,
    ) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::Usage(format!("{}: {why}", file.display()));
        let source = Source::open(file).map_err(|error| wrong(error.to_string()))?;
        let folder = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let read: RefCell<Vec<(PathBuf, String)>> = RefCell::new(Vec::new());
        let open = |name: &str| {
            let found = Source::open(&folder.join(name))?;
            read.borrow_mut().push((name.into(), found.text().to_owned()));
            Ok(found)
        };
        let loaded = |source: &Source| {
            let mut diagnostics = Diagnostics::new();
            let scenario = Scenario::load(source, Some(&open), &mut diagnostics);
            let scenario = scenario.filter(|scenario| scenario.check_primary(check_planned, &mut diagnostics));
            say(&diagnostics, source);
            scenario.ok_or_else(|| refusal(&diagnostics, source))
        };
        let scenario = loaded(&source)?;
        if let Some(sweep) = sweep(&source, &scenario)? {
            for point in sweep.samples().map_err(wrong)? {
                loaded(&Source::new(point.named(source.name()), &*point.text))?;
            }
        }
        let read = read.into_inner();
        // The folders above that of the scenario which the names of files lead to.
        let up = |name: &Path| {
            let steps = name.components().map(|part| match part {
                Component::ParentDir => -1_i32,
                Component::Normal(_) => 1,
                _ => 0,
            });
            let mut depth = 0;
            steps
                .map(|step| {
                    depth += step;
                    -depth
                })
                .max()
                .unwrap_or(0)
                .max(0) as usize
        };
        if let Some((name, _)) = read.iter().find(|(name, _)| name.is_absolute()) {
            return Err(wrong(format!(
                "{} is an absolute path, which is not on other machines; put the file beside the scenario and name it \
                 relative to it",
                name.display()
            )));
        }
        let levels = read.iter().map(|(name, _)| up(name)).max().unwrap_or(0);
        // What these folders are called matters only if a name leads down into one of them again.
        let whole = folder.canonicalize().map_err(|error| wrong(error.to_string()))?;
        let names: Vec<_> = whole.iter().rev().take(levels).collect();
        if names.len() < levels {
            return Err(wrong("a file is named by more `..` than there are folders".into()));
        }
        let own: PathBuf = names.iter().rev().collect();
        let name = file.file_name().ok_or_else(|| wrong("it has no name".into()))?;
        let scenario = own.join(name);
        let mut files = BTreeMap::from([(scenario.clone(), source.text().to_owned())]);
        for (name, text) in read {
            let path = normal(&own.join(&name)).ok_or_else(|| wrong(format!("{} leads nowhere", name.display())))?;
            files.insert(path, text);
        }
        Ok(Self { scenario, files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside_or_are_refused() {
        for (name, plain) in [
            ("a/b", Some("a/b")),
            ("./a/./b", Some("a/b")),
            ("a/../b", Some("b")),
            ("../a", None),
            ("a/../../b", None),
            ("/etc/passwd", None),
        ] {
            assert_eq!(normal(Path::new(name)).as_deref(), plain.map(Path::new), "{name}");
        }
    }
}
