//! [`QuotaFile`]: keeps the bytes that rules with a quota have used, over restarts.
//!
//! *Law*: the file has the counts of a moment at most [`EVERY`] ago, and at an orderly end those of the end. A crash therefore
//! forgets what rules took since then, and nothing else.
//! *Notes*: the file is replaced at once, never appended to. It is read at the start, and again once a predecessor has ended,
//! which writes it last.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidegate_control::calls::QuotaStatus;
use tidegate_engine::{Ledger, QuotaState, quota};
use tidegate_live::shaping::{Quotas, Shaping};
use tidegate_live::timing;

use crate::directions::ShapedDirection;
use crate::notifier::Notifier;
use crate::state_file;

/// The longest time between a count and its place in the file.
const EVERY: Duration = Duration::from_secs(30);
/// The largest file that is read: a line has less than 80 bytes.
const LARGEST: u64 = (quota::MOST as u64 + 1) * 80;

/// The quotas of all directions, and their file.
#[derive(Debug)]
pub(crate) struct QuotaFile {
    quotas: Quotas,
    path: Option<PathBuf>,
    /// The counts that stand in the file.
    written: Ledger,
    looked: Instant,
    /// A failure to write, or that there is no file, has been reported.
    is_reported: bool,
}

impl QuotaFile {
    /// Goes on with the counts in the file at `path`; without one they are kept in memory alone.
    pub fn new(quotas: Quotas, path: Option<PathBuf>) -> Self {
        let mut file = Self { quotas, path, written: Ledger::default(), looked: Instant::now(), is_reported: false };
        file.read();
        file
    }
    /// Reads the file. Returns what is wrong with it.
    pub fn read(&mut self) -> Option<String> {
        let path = self.path.as_deref()?;
        let (ledger, wrong) = match state_file::read(path, LARGEST) {
            Ok(bytes) => {
                let (ledger, wrong) = Ledger::parse(&String::from_utf8_lossy(&bytes));
                (ledger, wrong.map(|line| format!("line {line} is damaged; what it had counted begins anew")))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => (Ledger::default(), Some(format!("{error}; quotas begin anew"))),
        };
        self.written = ledger.clone();
        self.quotas.restore(ledger);
        wrong.map(|wrong| format!("the quotas in {}: {wrong}", path.display()))
    }
    /// Adds what rules have taken since the last call; called once a second. `end` writes the file in any case.
    pub fn settle(&mut self, directions: &[ShapedDirection], notifier: &Notifier, end: bool) {
        // A data path that does not answer is the business of the watchdog.
        let used =
            directions.iter().filter_map(ShapedDirection::shaping).filter(|shaping| !shaping.quotas().is_empty());
        let mut has_quotas = false;
        for shaping in used {
            has_quotas = true;
            let _ = shaping.settle_quotas();
        }
        if end || self.looked.elapsed() >= EVERY {
            self.looked = Instant::now();
            let problem = if has_quotas { self.write() } else { None };
            if let Some(problem) = problem.filter(|_| !self.is_reported) {
                self.is_reported = true;
                notifier.log(&problem);
            }
        }
    }
    /// Writes the counts if they have changed; returns why that failed.
    fn write(&mut self) -> Option<String> {
        let Some(path) = &self.path else {
            return Some("the use of quotas is not kept over restarts here; --history DIRECTORY keeps it".into());
        };
        let ledger = self.quotas.ledger();
        if ledger == self.written {
            return None;
        }
        match replace(path, &ledger) {
            Ok(()) => {
                self.written = ledger;
                self.is_reported = false;
                None
            }
            Err(error) => Some(format!("the use of quotas is not written to {}: {error}", path.display())),
        }
    }
}

fn replace(path: &Path, ledger: &Ledger) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    state_file::replace(path, ledger.to_string().as_bytes()).map(drop)
}

/// The quotas of a data path, in the form of the protocol.
pub(crate) fn status(shaping: &Shaping) -> Vec<QuotaStatus> {
    let label = |rule: u32| shaping.config().rules.get(rule as usize).map(|rule| rule.label()).unwrap_or_default();
    let one = |state: QuotaState| QuotaStatus {
        rule: state.rule + 1,
        label: label(state.rule),
        count: state.key.to_string(),
        used: state.used,
        left: state.left(),
        quota: state.quota.amount,
        period: state.quota.period.word().into(),
        next: state.next.to_string(),
        next_s: timing::midnight(state.next),
    };
    shaping.quotas().into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tidegate_testbed::files::Folder;

    const TEXT: &str = "tidegate quotas 1\n0123456789abcdef0123456789abcdef month 2026-11-01 77\n";

    #[test]
    fn counts_are_read_written_and_read_again() {
        let folder = Folder::new("quotas");
        let path = folder.write("wan0.quotas", TEXT);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("mode");
        let quotas = Quotas::default();
        let mut file = QuotaFile::new(quotas.clone(), Some(path.clone()));
        assert_eq!((file.read(), quotas.ledger().to_string()), (None, TEXT.into()));
        let more = TEXT.replace(" 77", " 78");
        quotas.restore(Ledger::parse(&more).0);
        assert_eq!(file.write(), None);
        assert_eq!(fs::read_to_string(&path).expect("the file"), more);
        assert_eq!(fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_others_can_have_written_begins_anew() {
        let folder = Folder::new("quotas");
        let refused = |path: &Path, why: &str| {
            let quotas = Quotas::default();
            let mut file = QuotaFile::new(quotas.clone(), Some(path.into()));
            assert!(file.read().is_some_and(|text| text.contains(why)), "{why}");
            assert_eq!(quotas.ledger(), Ledger::default(), "{why}");
        };
        let path = folder.write("open.quotas", TEXT);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("mode");
        refused(&path, "others may have written it");
        symlink(&path, folder.0.join("link.quotas")).expect("a link");
        refused(&folder.0.join("link.quotas"), "quotas begin anew");
        let long = folder.write("long.quotas", "x".repeat(LARGEST as usize + 1));
        fs::set_permissions(&long, fs::Permissions::from_mode(0o600)).expect("mode");
        refused(&long, "larger");
        let binary = folder.write("binary.quotas", "\u{0}\u{1}\n");
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o600)).expect("mode");
        refused(&binary, "line 1 is damaged");
    }

    #[test]
    fn without_a_place_it_is_said_once_that_nothing_is_kept() {
        let mut file = QuotaFile::new(Quotas::default(), None);
        assert!(file.write().is_some_and(|text| text.contains("--history DIRECTORY")));
    }
}
