//! The preparation of a guardian's process: it leaves its shaper, requests what lets it run at any time, and gives up the rest.

use rustix::mm::MlockAllFlags;
use rustix::process::{Resource, Rlimit};
use tidegate_sys::process::{ignore_signals, set_real_time};

use super::Granted;
use crate::privileges::{self, Calls, Capabilities, Restriction, Scope};
use crate::timing;

/// Leaves the shaper's terminal, process group and signals.
pub(super) fn become_independent() {
    // The leader of a group of processes stays in its session.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"tidegate-guard");
    // It ends with its shaper. What a terminal or a service manager sends to all processes concerns the shaper.
    ignore_signals(&[
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
    ]);
}

/// Requests what lets the guardian run at any time, then gives up every privilege but CAP_NET_ADMIN, which verdicts need.
pub(super) fn prepare(queue: u16) -> Granted {
    // On the processor of the data path: packets that two processors send may overtake each other.
    let _ = timing::stay_on_a_processor(usize::from(queue) / 2);
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let _ = timing::shortest_timer_slack();
    // Before the data path, which may be what does not stop running.
    let real_time = set_real_time(2, false).is_ok();
    // Nothing is mapped later; a stack that grows needs no more than what is mapped already.
    let _ = rustix::process::setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
    let locked = rustix::mm::mlockall(MlockAllFlags::CURRENT).is_ok();
    Granted { locked, real_time, dropped: restrict(Capabilities::NET_ADMIN) }
}

/// Gives up every privilege of this thread but `keep`; returns whether that is in force.
pub(super) fn restrict(keep: Capabilities) -> bool {
    let restricted = privileges::restrict(&Restriction { keep, calls: Calls::Only(CALLS), scope: Scope::Process });
    restricted.capabilities.in_force() && restricted.calls.in_force()
}

/// The system calls of a guardian that watches, and of its end.
const CALLS: &[libc::c_long] = &[
    libc::SYS_ppoll,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    // The log.
    libc::SYS_write,
    libc::SYS_accept4,
    libc::SYS_getsockopt,
    libc::SYS_geteuid,
    libc::SYS_clock_gettime,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_madvise,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_futex,
    libc::SYS_membarrier,
    libc::SYS_exit,
    libc::SYS_exit_group,
];
