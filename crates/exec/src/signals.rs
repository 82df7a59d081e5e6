//! Signals. Those sent by other processes are passed on to the program; those of the terminal reach it directly.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

const PASSED_ON: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
];

/// The reaction to a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalAction {
    /// A child has ended.
    Child,
    /// Another process sent the signal to this one, so it is passed on to the program.
    PassOn(Signal),
    /// The terminal sent the signal to the whole foreground process group, which includes the program.
    Terminal(Signal),
}

/// A signalfd for the signals that are handled. Suspension (Ctrl-Z) is left to the kernel, which stops the program and this
/// process together; `fg` resumes both.
#[derive(Debug)]
pub struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// Blocks the signals for this thread and its children, and opens the signalfd.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let mut set = SigSet::empty();
        PASSED_ON.into_iter().chain([Signal::SIGCHLD]).for_each(|signal| set.add(signal));
        set.thread_block()?;
        Ok(Self { descriptor: SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)? })
    }

    /// The next pending signal; `None` when none is pending.
    pub fn pending(&self) -> Option<SignalAction> {
        let info = self.descriptor.read_signal().ok()??;
        let signal = Signal::try_from(info.ssi_signo as i32).ok()?;
        // `si_code` is 0 (`kill`) or negative for signals from processes, and positive for signals from the kernel.
        Some(match signal {
            Signal::SIGCHLD => SignalAction::Child,
            signal if info.ssi_code > 0 => SignalAction::Terminal(signal),
            signal => SignalAction::PassOn(signal),
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Sends a signal to the program. It is no error if the program has exited already.
pub fn pass_on(process: u32, signal: Signal) {
    let _ = kill(Pid::from_raw(process as i32), signal);
}
