//! The line of a shaper that runs in a terminal.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_config::decode::printable;

/// Whether a [`StatusLine`] is on the terminal.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Removes the status line, so that something else can be printed in its place.
pub fn clear_status() {
    if SHOWN.swap(false, Ordering::Relaxed) {
        // Nobody is left to be informed of a terminal that is gone.
        let _ = std::io::stderr().write_all(b"\r\x1b[K");
    }
}

/// The line that a function returns, on standard error once a second until it is dropped; nothing where that is no
/// terminal. Messages take its place until it is printed again.
pub struct StatusLine(Option<(mpsc::Sender<()>, JoinHandle<()>)>);

impl StatusLine {
    /// Begins to show `text`, at most 60 characters.
    pub fn show(text: impl Fn() -> Option<String> + Send + 'static) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("status".into()).spawn(move || {
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
                let Some(text) = text() else { continue };
                SHOWN.store(true, Ordering::Relaxed);
                let _ = write!(std::io::stderr(), "\r\x1b[K{:.60}", printable(&text));
            }
        });
        Self(thread.ok().map(|thread| (stop, thread)))
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            let _ = thread.join();
            clear_status();
        }
    }
}
