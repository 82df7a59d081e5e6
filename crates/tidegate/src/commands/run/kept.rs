//! Files that a run leaves behind: reports of it, and recordings of the engine's calls.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tidegate_config::Source;
use tidegate_daemon::Daemon;
use tidegate_engine::ClassStatus;
use tidegate_engine::guard::lock;
use tidegate_live::shaping::Options;

use super::record::{self, Recorders};
use super::watch::Watch;
use crate::Failure;
use crate::output::Files;
use crate::progress::StatusLine;

// Not a group of its own: it would have the same name as that of the command.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    record: record::Args,
}

impl Args {
    /// Every file that may be written.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files.paths().map(Path::to_owned).chain(self.record.paths()).collect()
    }

    /// Whether the calls of the engines are recorded.
    pub fn records(&self) -> bool {
        self.record.is_wanted()
    }

    /// Checks that the reports can be written and overwrite none of the files that are `read`.
    ///
    /// # Errors
    /// Invalid usage, with the file.
    pub fn try_them(&self, read: &[PathBuf]) -> Result<(), Failure> {
        self.files.try_them(read.iter().map(PathBuf::as_path))
    }

    /// Creates the recordings; with the returned options every engine is recorded.
    ///
    /// # Errors
    /// When a recording cannot be written, or is one of the files that are `read`.
    pub fn start(&self, read: &[PathBuf], mut options: Options) -> Result<(Kept<'_>, Options), Failure> {
        let recorders = record::start(&self.record, read, &mut options)?;
        let (interface, watch) = (String::new(), Arc::new(Mutex::new(Watch::new())));
        Ok((Kept { files: &self.files, interface, watch, recorders, status: None }, options))
    }
}

/// The files of one run.
pub struct Kept<'a> {
    files: &'a Files,
    interface: String,
    watch: Arc<Mutex<Watch>>,
    recorders: Recorders,
    status: Option<StatusLine>,
}

impl Kept<'_> {
    /// Observes `daemon`, which is about to run. Begins a thread, so that privileges must have been given up.
    pub fn observe(mut self, mut daemon: Daemon) -> (Self, Daemon) {
        self.interface = daemon.interface();
        if self.files.wanted() {
            let (watch, several) = (Arc::clone(&self.watch), daemon.directions.len() > 1);
            daemon.set_sampler(Box::new(move |direction, classes, seen| {
                lock(&watch).look(direction, several, classes, seen);
            }));
        }
        if let Some(recorders) = self.recorders.lines() {
            daemon.set_line_recorders(recorders);
        }
        self.status = self.recorders.show();
        (self, daemon)
    }

    /// Ends the recordings after the engines have ended, and reports the totals.
    ///
    /// # Errors
    /// When one of them stopped before its engine.
    pub fn finish_recording(&mut self) -> Result<(), Failure> {
        self.status = None;
        std::mem::take(&mut self.recorders).finish()
    }

    /// Writes the reports; `ended` has the final counts of the classes of each direction.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(self, ended: &[(String, Vec<ClassStatus>)], sources: &[Source]) -> Result<(), Failure> {
        if !self.files.wanted() {
            return Ok(());
        }
        let mut watch = lock(&self.watch);
        ended.iter().for_each(|(direction, classes)| watch.look(direction, ended.len() > 1, classes, None));
        self.files.write(|| watch.report(&self.interface, ended, sources), || watch.table())
    }
}
