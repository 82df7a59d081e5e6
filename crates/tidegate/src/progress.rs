//! The progress of what takes longer than a second, on standard error if that is a terminal.

use std::io::{IsTerminal, Read};
#[cfg(feature = "papers")]
use std::sync::mpsc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidegate_config::decode::printable;

#[cfg(feature = "live")]
mod status_line;
#[cfg(feature = "live")]
pub use status_line::{StatusLine, clear_status};

/// A bar that appears after a second, with the time that is left; nothing where standard error is no terminal.
pub struct Progress {
    begin: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Begins now.
    pub fn new() -> Self {
        Self { begin: Instant::now(), bar: None }
    }
    /// Shows that `done` of `total` is done, both in the same unit; `text` says it in words.
    pub fn show(&mut self, done: u64, total: u64, text: impl FnOnce() -> String) {
        if self.begin.elapsed() < Duration::from_secs(1) || !std::io::stderr().is_terminal() {
            return;
        }
        let elapsed = self.begin.elapsed();
        // Before the first part is done nothing is known of the others.
        let remaining = (done > 0).then(|| elapsed.mul_f64(total.saturating_sub(done) as f64 / done as f64));
        let text = match remaining {
            Some(remaining) => format!("{}, {} s left", text(), remaining.as_secs()),
            None => format!("{}, for {} s so far", text(), elapsed.as_secs()),
        };
        let is_first = self.bar.is_none();
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
            let style = ProgressStyle::with_template("{bar:20} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        // A bar of no length would be full.
        bar.set_length(total.max(1));
        bar.set_message(printable(&text).into_owned());
        // Another target would not know of the line that is there, and begin a new one.
        if is_first {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.set_position(done);
    }
}

/// Shows the progress that `state` reports, done and total with a text, ten times a second while `work` runs.
#[cfg(feature = "papers")]
pub fn during<T>(state: impl Fn() -> (u64, u64, String) + Send, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let (ended, waits) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut progress = Progress::new();
            // The sender is dropped at the end of the work.
            while waits.recv_timeout(Duration::from_millis(100)) == Err(mpsc::RecvTimeoutError::Timeout) {
                let (done, total, text) = state();
                progress.show(done, total, || text);
            }
        });
        // Dropped by a panic as well.
        let _ended = ended;
        work()
    })
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A reader of a file that shows how much of it has been read.
pub struct Reading<R> {
    inner: R,
    done: u64,
    total: u64,
    progress: Progress,
}

impl<R: Read> Reading<R> {
    /// Reads `total` bytes from `inner`.
    pub fn new(inner: R, total: u64) -> Self {
        Self { inner, done: 0, total, progress: Progress::new() }
    }
}

impl<R: Read> Read for Reading<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.done += read as u64;
        let (done, total) = (self.done, self.total);
        self.progress.show(done, total, || format!("{:.0} of {:.0} MB read", done as f64 / 1e6, total as f64 / 1e6));
        Ok(read)
    }
}
