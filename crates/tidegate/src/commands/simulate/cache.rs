//! Results of runs in a folder, so that a simulation that was stopped goes on where it was.
//!
//! A file is named by the digest of all that its run depends on: the program, the scenario with the files that it names,
//! the seed and the variant.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tidegate_metrics::Digest;
use tidegate_sim::scenario::Outcome;

/// The name of a file with an outcome ends so, and no other file of the folder is read or removed.
const ENDING: &str = ".outcome.json";

/// Without `--cache`, a run that takes less is made again: reading it would not be noticeably faster.
const WORTH_KEEPING: Duration = Duration::from_secs(1);

/// `tidegate/simulate` in the cache folder of the user (XDG Base Directory Specification); `None` where there is none.
pub fn default_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("tidegate").join("simulate"))
}

/// Removes the outcomes in `folder` and returns how many there were.
pub fn clear(folder: &Path) -> io::Result<usize> {
    let mut removed = 0;
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(ENDING) {
            std::fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// The folder, and the digest of what all runs share.
pub struct Cache {
    folder: PathBuf,
    shared: Digest,
    /// Runs that took less are not kept.
    least: Duration,
}

impl Cache {
    /// In `folder`, or in the default one, for runs of the scenario and files with these texts. The folder is made with the
    /// first file in it.
    pub fn new<'a>(
        folder: Option<&Path>,
        texts: impl Iterator<Item = &'a str>,
        with_parts: bool,
    ) -> io::Result<Option<Self>> {
        let least = if folder.is_some() { Duration::ZERO } else { WORTH_KEEPING };
        let Some(folder) = folder.map(Path::to_owned).or_else(default_folder) else { return Ok(None) };
        let mut shared = Digest::default();
        shared.bytes(env!("CARGO_PKG_VERSION").as_bytes());
        // Another build of the same version may have other results.
        let program = std::env::current_exe()?.metadata()?;
        shared.number(program.len());
        let built = program.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        shared.number(built.as_nanos() as u64);
        shared.number(u64::from(with_parts));
        for text in texts {
            shared.number(text.len() as u64);
            shared.bytes(text.as_bytes());
        }
        Ok(Some(Self { folder, shared, least }))
    }

    fn file(&self, seed: u64, part: usize) -> PathBuf {
        let mut digest = self.shared;
        digest.number(seed);
        digest.number(part as u64);
        self.folder.join(format!("{digest}{ENDING}"))
    }

    /// The outcome of a run that was made before. A file that is not whole counts as none.
    pub fn take(&self, seed: u64, part: usize) -> Option<Outcome> {
        read(&std::fs::read(self.file(seed, part)).ok()?)
    }

    /// Keeps the outcome of a run that took `elapsed`.
    pub fn keep(&self, seed: u64, part: usize, outcome: &Outcome, elapsed: Duration) -> io::Result<()> {
        let text = outcome.to_json().to_string();
        // The parser may read a float of a report with another last bit; such an outcome is computed again.
        if elapsed < self.least || read(text.as_bytes()).as_ref() != Some(outcome) {
            return Ok(());
        }
        std::fs::create_dir_all(&self.folder)?;
        write_whole(&self.file(seed, part), text.as_bytes())
    }
}

/// Writes a file of results, which appears whole or not at all.
pub fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = file.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&new, bytes)?;
    std::fs::rename(new, file)
}

fn read(text: &[u8]) -> Option<Outcome> {
    Outcome::from_json(&serde_json::from_slice(text).ok()?)
}
