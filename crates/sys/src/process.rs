//! Forks, steps between fork and exec, scheduling, and the filter of system calls.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::thread::{CapabilitiesSecureBits, CpuSet, LinkNameSpaceType};

use crate::checked;

/// A namespace that a process can leave for one of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Namespace {
    /// Interfaces, addresses, rules.
    Network,
    /// Users and capabilities. Only a process with one thread may.
    User,
}

/// A step on the way into namespaces. It makes system calls alone, so that it may be taken between fork and exit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<'a> {
    /// Leaves a namespace for a new one.
    Unshare(Namespace),
    /// Writes a file that exists.
    Write(&'a CStr, &'a [u8]),
    /// Writes a file if it exists.
    WriteIfThere(&'a CStr, &'a [u8]),
}

impl Step<'_> {
    fn take(&self) -> io::Result<()> {
        match *self {
            Self::Unshare(namespace) => {
                let flag = match namespace {
                    Namespace::Network => libc::CLONE_NEWNET,
                    Namespace::User => libc::CLONE_NEWUSER,
                };
                // SAFETY: unshare(2) takes no pointers, and neither flag parts what the threads of a process share of memory
                // and descriptors.
                checked(unsafe { libc::unshare(flag) }).map(drop)
            }
            Self::Write(path, bytes) => write(path, bytes),
            Self::WriteIfThere(path, bytes) => match write(path, bytes) {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
                result => result,
            },
        }
    }
}

/// Writes a file without allocation.
fn write(path: &CStr, bytes: &[u8]) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    match rustix::io::write(&file, bytes)? {
        written if written == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Takes steps in this process.
///
/// # Errors
/// That of the first step that fails; the others are not taken then.
pub fn take(steps: &[Step<'_>]) -> io::Result<()> {
    steps.iter().try_for_each(Step::take)
}

/// Takes steps in a child process, which then ends: nothing changes in this one.
///
/// # Errors
/// As [`take`].
pub fn try_in_child(steps: &[Step<'_>]) -> io::Result<()> {
    // SAFETY: the child takes steps, which make system calls only and neither allocate nor take locks, and then ends without
    // running anything of the parent's; so it is sound although other threads may exist. The parent waits for it.
    let status = unsafe {
        let child = checked(libc::fork())? as libc::pid_t;
        if child == 0 {
            let code = take(steps).map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| 0);
            libc::_exit(code);
        }
        let mut status = 0;
        while libc::waitpid(child, &raw mut status, 0) < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        status
    };
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => Ok(()),
        (true, errno) => Err(io::Error::from_raw_os_error(errno)),
        (false, _) => Err(io::Error::other("the child that tried it was killed")),
    }
}

/// Moves the calling thread into a network namespace.
///
/// # Errors
/// `EPERM` without the right, `EINVAL` when it is no network namespace.
pub fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::thread::move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?)
}

/// A step of a command between fork and exec.
#[derive(Debug)]
pub enum AtExec {
    /// It moves into a network namespace.
    Enter(OwnedFd),
    /// It becomes the leader of a session whose terminal is its standard input, and takes the signals of the keyboard, which
    /// a background process ignores.
    LeadTerminal,
    /// Root gives it no capabilities, for good.
    WithoutRoot,
}

/// Has a command do this between fork and exec.
pub fn at_exec(command: &mut Command, what: AtExec) -> &mut Command {
    // SAFETY: the closure makes system calls only, on what it owns and on standard input, which the command has by then.
    unsafe { command.pre_exec(move || what.run()) }
}

impl AtExec {
    fn run(&self) -> io::Result<()> {
        match self {
            Self::Enter(namespace) => enter_network(namespace.as_fd()),
            Self::LeadTerminal => {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                [libc::SIGINT, libc::SIGQUIT].into_iter().for_each(|signal| handle(signal, libc::SIG_DFL));
                Ok(())
            }
            Self::WithoutRoot => {
                let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
                Ok(rustix::thread::set_capabilities_secure_bits(bits)?)
            }
        }
    }
}

/// Ignores signals from now on.
pub fn ignore_signals(signals: &[i32]) {
    signals.iter().for_each(|signal| handle(*signal, libc::SIG_IGN));
}

/// Leaves the signals that the process gets to its other threads: none interrupts a call of this thread, but those that end or stop the
/// process.
pub fn block_signals() {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call initializes the set, which the second one reads.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut());
    }
}

/// Sets the default or no reaction to a signal.
fn handle(signal: i32, reaction: libc::sighandler_t) {
    assert!([libc::SIG_DFL, libc::SIG_IGN].contains(&reaction), "no function");
    // SAFETY: neither reaction runs code of this process. A number that is no signal is refused.
    unsafe { libc::signal(signal, reaction) };
}

/// Schedules the calling thread before every normal thread (`SCHED_FIFO`), with a priority from 1 to 99. `reset_on_fork`
/// keeps what it starts from inheriting that.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE` and beyond the limit of resources.
pub fn set_real_time(priority: i32, reset_on_fork: bool) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    let policy = libc::SCHED_FIFO | if reset_on_fork { libc::SCHED_RESET_ON_FORK } else { 0 };
    // SAFETY: the parameter is live for the call, which concerns this thread.
    checked(unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) }).map(drop)
}

/// Requests time slices of this length for the calling thread, and keeps all its other scheduling attributes.
///
/// # Errors
/// Those of sched_setattr(2).
pub fn set_time_slice(length: Duration) -> io::Result<()> {
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: all-zero attributes are valid; both calls receive the size of what they read and write, which is live for them,
    // and concern the calling thread (0).
    unsafe {
        let mut attributes: libc::sched_attr = std::mem::zeroed();
        checked(libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0))?;
        attributes.sched_runtime = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        checked(libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0)).map(drop)
    }
}

/// The processors that the calling thread may run on.
///
/// # Errors
/// Those of sched_getaffinity(2).
pub fn processors() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect())
}

/// Keeps the calling thread on these processors.
///
/// # Errors
/// Those of sched_setaffinity(2), also for none.
pub fn stay_on(processors: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &processor in processors {
        if processor >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(processor);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Turns no memory of this process into code from now on (Linux 6.3); a program that it runs may again.
///
/// # Errors
/// `EINVAL` on an older kernel.
pub fn refuse_new_code() -> io::Result<()> {
    // PR_SET_MDWE, with PR_MDWE_REFUSE_EXEC_GAIN and PR_MDWE_NO_INHERIT, which libc does not have.
    // SAFETY: takes numbers only. What it refuses fails like any other call.
    checked(unsafe { libc::prctl(65, 0b11, 0, 0, 0) }).map(drop)
}

/// The threads that give up privileges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Every thread of the process.
    Process,
    /// The calling thread, and those that it starts.
    Thread,
}

/// Filters the system calls of the threads in `scope`, which takes `no_new_privs` or `CAP_SYS_ADMIN`. The program must let a call pass
/// or make it fail.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] when it can do something else to a call, and those of seccomp(2).
pub fn filter_calls(program: &[libc::sock_filter], scope: Scope) -> io::Result<()> {
    const RETURN: u32 = libc::BPF_RET;
    const CLASS: u32 = 7;
    const ERRORS: std::ops::RangeInclusive<u32> = libc::SECCOMP_RET_ERRNO | 1..=libc::SECCOMP_RET_ERRNO | 4_095;
    // A call that is left out and reported as successful would make every caller of it unsound.
    let harmless = |step: &libc::sock_filter| {
        u32::from(step.code) & CLASS != RETURN
            || u32::from(step.code) == RETURN | libc::BPF_K
                && (step.k == libc::SECCOMP_RET_ALLOW || ERRORS.contains(&step.k))
    };
    let length = u16::try_from(program.len()).ok().filter(|_| program.iter().all(harmless));
    let whole = libc::sock_fprog {
        len: length.ok_or(io::ErrorKind::InvalidInput)?,
        // The kernel does not write to it.
        filter: program.as_ptr().cast_mut(),
    };
    // Without the last flag kernels before 5.16 make every call of a filtered process slower, against a leak from one
    // part of a process to another part; here all parts trust each other.
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW
        | match scope {
            Scope::Process => libc::SECCOMP_FILTER_FLAG_TSYNC,
            Scope::Thread => 0,
        };
    // SAFETY: `whole` and the program it points to are live for the call, which copies them. A filtered call passes or
    // fails, which every caller of it expects.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const whole) };
    match checked(result)? {
        0 => Ok(()),
        thread => Err(io::Error::other(format!("thread {thread} has another filter"))),
    }
}

/// A child process that runs the same program, for tests.
#[derive(Debug)]
pub struct Child(rustix::process::Pid);

impl Child {
    /// Forks; the child does `work` and ends with its result, or with 101 after a panic.
    ///
    /// # Panics
    /// When this process has several threads, because the child would have one of them, and the locks of the others for
    /// ever; and when the system refuses it.
    pub fn fork(work: impl FnOnce() -> i32) -> Self {
        let began = Instant::now();
        // A thread that was joined is listed for a moment longer.
        while std::fs::read_dir("/proc/self/task").expect("a list of threads").count() != 1 {
            assert!(began.elapsed() < Duration::from_secs(2), "a process with several threads does not fork");
            std::thread::sleep(Duration::from_micros(100));
        }
        // SAFETY: the process has one thread, so the child may do anything the parent may; it never returns from here.
        let child = checked(unsafe { libc::fork() }).expect("a child process");
        if let Some(child) = rustix::process::Pid::from_raw(child as i32) {
            return Self(child);
        }
        let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(101);
        // SAFETY: ends this process without running what the parent has still to run.
        unsafe { libc::_exit(code) }
    }

    /// The number of the process.
    pub fn id(&self) -> i32 {
        self.0.as_raw_nonzero().get()
    }

    /// Kills it as `kill -9` does and waits until it is gone.
    pub fn kill(&self) {
        // It is our own child, so that neither fails but for one that was waited for.
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::KILL);
        let _ = rustix::process::waitpid(Some(self.0), rustix::process::WaitOptions::empty());
    }

    /// How it ended, if it has: its exit code, or the signal.
    pub fn try_wait(&self) -> Option<Result<i32, i32>> {
        let ended = rustix::process::waitpid(Some(self.0), rustix::process::WaitOptions::NOHANG);
        let (_, status) = ended.ok().flatten()?;
        status.exit_status().map(Ok).or_else(|| status.terminating_signal().map(Err))
    }
}

/// Sends a signal to a process.
///
/// # Errors
/// Those of kill(2), and when `process` is no number of one process.
pub fn signal(process: u32, signal: i32) -> io::Result<()> {
    let process = i32::try_from(process).ok().filter(|number| *number > 0).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: kill(2) takes no pointers.
    checked(unsafe { libc::kill(process, signal) }).map(drop)
}

/// The effective user of the process.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Becomes a user, with all threads and for good.
///
/// # Errors
/// `EPERM` without `CAP_SETUID`.
pub fn set_user(user: u32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    checked(unsafe { libc::setresuid(user, user, user) }).map(drop)
}

/// Becomes a user and a group without other groups, with all threads and for good. `/proc/self` can be written afterwards,
/// which a change of the user alone prevents.
///
/// # Errors
/// `EPERM` without `CAP_SETUID` and `CAP_SETGID`.
pub fn set_user_and_group(user: u32, group: u32) -> io::Result<()> {
    // SAFETY: these take numbers only; a zero count needs no list.
    unsafe {
        checked(libc::setgroups(0, std::ptr::null()))?;
        checked(libc::setresgid(group, group, group))?;
    }
    set_user(user)?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)?;
    Ok(())
}

/// Sets by whom the files and sockets of the calling thread are made.
pub fn set_file_user(user: u32) {
    // SAFETY: takes a number only, and returns the one before.
    unsafe { libc::setfsuid(user) };
}

/// Writes standard output and standard error to a file from now on.
///
/// # Errors
/// Those of dup2(2).
pub fn redirect_output(file: impl AsFd) -> io::Result<()> {
    rustix::stdio::dup2_stdout(&file)?;
    Ok(rustix::stdio::dup2_stderr(&file)?)
}

/// Standard input as a descriptor of its own: standard input itself reads nothing from then on. For a process that was
/// started with a socket there.
///
/// # Errors
/// Those of dup(2).
pub fn take_stdin() -> io::Result<OwnedFd> {
    let taken = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    debug_assert_ne!(taken.as_raw_fd(), 0);
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_in_a_child_changes_nothing_here() {
        let namespace = || std::fs::read_link("/proc/self/ns/net").unwrap();
        let before = namespace();
        let missing = Step::Write(c"/nosuch/file", b"x");
        assert_eq!(try_in_child(&[missing]).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        try_in_child(&[Step::WriteIfThere(c"/nosuch/file", b"x"), Step::Write(c"/dev/null", b"x")]).unwrap();
        // With the right to it, or without.
        let _ = try_in_child(&[Step::Unshare(Namespace::Network)]);
        assert_eq!(namespace(), before);
    }

    #[test]
    fn a_process_with_several_threads_does_not_fork() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || told.recv());
        assert!(catch_unwind(|| Child::fork(|| 0)).is_err());
        drop(tell);
        assert!(other.join().unwrap().is_err());
    }

    #[test]
    fn a_filter_that_pretends_success_is_refused() {
        let returns = |k| libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k };
        let of_a = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_A) as u16, jt: 0, jf: 0, k: 0 };
        for step in [returns(libc::SECCOMP_RET_ERRNO), returns(libc::SECCOMP_RET_TRACE), of_a] {
            let refused = filter_calls(&[step, returns(libc::SECCOMP_RET_ALLOW)], Scope::Process).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{:#x}", step.k);
        }
    }

    #[test]
    fn signals_go_to_one_process_only() {
        for number in [0, u32::MAX, i32::MAX as u32 + 1] {
            assert_eq!(signal(number, 0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        signal(std::process::id(), 0).unwrap();
    }

    #[test]
    fn a_thread_stays_on_one_of_its_processors() {
        let ours = processors().unwrap();
        std::thread::spawn(move || {
            stay_on(&ours[..1]).unwrap();
            assert_eq!(processors().unwrap(), [ours[0]]);
        })
        .join()
        .unwrap();
        assert!(stay_on(&[1 << 20]).is_err() && stay_on(&[]).is_err());
    }

    #[test]
    fn short_slices_leave_the_rest_of_the_scheduling_alone() {
        std::thread::spawn(|| {
            rustix::process::setpriority_process(Some(rustix::thread::gettid()), 5).unwrap();
            // A kernel may refuse it.
            let _ = set_time_slice(Duration::from_micros(100));
            assert_eq!(rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap(), 5);
        })
        .join()
        .unwrap();
    }
}
