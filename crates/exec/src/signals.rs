//! Signals: those of other processes are passed on to the program; those of the terminal reach it directly.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

/// The signals that are passed on.
const PASSED_ON: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
];

/// The handling of a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SignalAction {
    /// A child has ended.
    Child,
    /// Sent to this process by another; to be passed on to the program.
    PassOn(Signal),
    /// Sent by the terminal to the whole foreground group, the program included.
    Terminal(Signal),
}

/// Signals as a descriptor to wait for. Suspension (Ctrl-Z) is left to the kernel: it stops the program and the relay
/// together, and `fg` resumes both.
pub(crate) struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// Blocks them for this thread and its children.
    pub fn new() -> io::Result<Self> {
        let mut set = SigSet::empty();
        PASSED_ON.into_iter().chain([Signal::SIGCHLD]).for_each(|signal| set.add(signal));
        set.thread_block()?;
        Ok(Self { descriptor: SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)? })
    }

    /// The next pending signal.
    pub fn next(&self) -> Option<SignalAction> {
        let info = self.descriptor.read_signal().ok()??;
        let signal = Signal::try_from(info.ssi_signo as i32).ok()?;
        // The code is 0 (kill) or negative for signals of processes, and positive for those of the kernel.
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

/// Sends a signal to the program; it may have ended already.
pub(crate) fn pass_on(process: u32, signal: Signal) {
    let _ = kill(Pid::from_raw(process as i32), signal);
}
