//! [`Speaker`]: writes the lines of a guardian to its log, in a thread of its own.
//!
//! A write to a file takes as long as the file system likes: while that is frozen for a snapshot, or its disk hangs, the writer
//! waits, and there is no flag against it. The guardian lets packets pass meanwhile; lines that find no room are dropped.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_sys::time::Readable;

use super::message;

/// The longest line, with its end.
pub(super) const LONGEST_LINE: usize = 256;
/// All of it is locked in memory.
const STACK: usize = 64 << 10;
/// How long the end of the process waits for lines that are not written yet.
const LAST: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(1);

/// See the [module](self).
pub(super) struct Speaker {
    lines: OwnedFd,
    thread: JoinHandle<()>,
}

impl Speaker {
    /// Starts the thread, which first restricts itself by `restrict`; returns also whether that is in force.
    ///
    /// # Errors
    /// When the system has no thread or no descriptor left.
    pub fn start(restrict: fn() -> bool) -> io::Result<(Self, bool)> {
        let (lines, received) = message::pair()?;
        let (to, restricted) = mpsc::channel();
        let write = move || {
            let _ = to.send(restrict());
            write_lines(&received);
        };
        let thread = thread::Builder::new().name("tidegate-log".into()).stack_size(STACK).spawn(write)?;
        let restricted = restricted.recv().unwrap_or(false);
        Ok((Self { lines, thread }, restricted))
    }

    /// Has a line written; never waits.
    pub fn say(&self, line: &[u8]) {
        let _ = message::send(self.lines.as_fd(), line, &[]);
    }

    /// Ends the thread when all lines are written, or leaves it to the end of the process when they cannot be.
    pub fn end(self) {
        drop(self.lines);
        for _ in 0..LAST.as_millis() / LOOK.as_millis() {
            if self.thread.is_finished() {
                return;
            }
            let _ = Readable::<1>::new([None]).wait(LOOK);
        }
    }
}

fn write_lines(received: &OwnedFd) {
    let mut line = [0; LONGEST_LINE];
    loop {
        match message::receive(received.as_fd(), &mut line, &mut []) {
            Ok(0) => return,
            // Not by the standard library, whose state of this stream is made with its first use.
            Ok(length) => drop(rustix::io::write(rustix::stdio::stderr(), &line[..length])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
