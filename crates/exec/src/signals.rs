//! Signals: those of others are passed on to the program, those of the terminal it gets by itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

/// Those that are passed on.
const PASSED_ON: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
];

/// What is to be done about a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// A child has ended.
    Child,
    /// Somebody sent this to us and means the program.
    PassOn(Signal),
    /// The terminal sent it to everybody in the foreground, the program included.
    Terminal(Signal),
}

/// Signals as something to wait for. Suspension (Ctrl-Z) stays with the kernel: it stops the program and the relay
/// together, and `fg` resumes both.
pub(crate) struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// Blocks them for this thread and all that it starts.
    pub fn new() -> io::Result<Self> {
        let mut set = SigSet::empty();
        PASSED_ON.into_iter().chain([Signal::SIGCHLD]).for_each(|signal| set.add(signal));
        set.thread_block()?;
        Ok(Self { descriptor: SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)? })
    }

    /// The next one, if there is one.
    pub fn next(&self) -> Option<Word> {
        let info = self.descriptor.read_signal().ok()??;
        let signal = Signal::try_from(info.ssi_signo as i32).ok()?;
        // What processes send has a code of 0 (kill) or below; what the kernel sends is above.
        Some(match signal {
            Signal::SIGCHLD => Word::Child,
            signal if info.ssi_code > 0 => Word::Terminal(signal),
            signal => Word::PassOn(signal),
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Sends a signal to the program; it may have ended already.
pub(crate) fn pass_on(process: u32, signal: Signal) {
    let _ = kill(Pid::from_raw(process as i32), signal);
}
