//! Time: reading it, and waiting for a packet or an instant, whichever comes first.
//!
//! *Law*: [`Waiter::wait`] never returns [`Woken::Deadline`] before the deadline, and after it by no more than one poll
//! of the descriptors (under a microsecond) if the thread is on a core.
//! *Units*: nanoseconds of `CLOCK_MONOTONIC`, which stops while the machine is suspended: packets queued before a
//! suspension are not released in one burst after it.
//! *Cost*: one `ppoll` and up to the spin limit of processor time per wait that ends by its deadline; none of it for a
//! wait that a packet ends.
//! *Notes*: a sleep alone is 36 µs late at the median with a timer slack of 1 ns, 83 µs with the default of 50 µs
//! (measured on two cores); hence the spin, at most [`MAX_SPIN`]. A thread that spins more under `SCHED_FIFO` runs
//! into the kernel's real-time throttling, which takes 35 to 40 ms at once.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::mm::MlockAllFlags;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, Timespec};
use tidegate_config::values::{Date, WeekMinute};
use tidegate_sys::time::Readable;
use tidegate_sys::{process, time};
use tidegate_units::{Instant, Span};

use crate::nfqueue::{FIRST_QUEUE, Outcome};

/// The longest spin before a deadline.
pub const MAX_SPIN: Span = Span::from_micros(50);

/// The longest single sleep: a thread wakes at least this often and observes other changes.
const LONGEST_SLEEP: Span = Span::from_secs(1);

/// A clock of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Stops while the machine is suspended.
    Monotonic,
    /// Continues while the machine is suspended: for ages and leases, not for shaping.
    Boot,
    /// The processor time of the calling thread.
    ThreadCpu,
    /// The processor time of the process.
    ProcessCpu,
}

/// Reads a clock; about 20 ns for the first two.
#[inline]
pub fn read(clock: Clock) -> Instant {
    let id = match clock {
        Clock::Monotonic => ClockId::Monotonic,
        Clock::Boot => ClockId::Boottime,
        Clock::ThreadCpu => ClockId::ThreadCPUTime,
        Clock::ProcessCpu => ClockId::ProcessCPUTime,
    };
    Instant::from_nanos(nanos(rustix::time::clock_gettime(id)))
}

/// The minute of the week on the wall clock of the host, in its time zone: `TZ`, else `/etc/localtime`, else UTC. It jumps with the
/// clock of the system and with summer time.
pub fn week_minute() -> WeekMinute {
    let now = jiff::Zoned::now();
    let number = |n: i8| u32::from(n.unsigned_abs());
    WeekMinute::new(number(now.weekday().to_monday_zero_offset()), number(now.hour()) * 60 + number(now.minute()))
}

/// The date on the wall clock of the host, in its time zone, as [`week_minute`] has it.
pub fn today() -> Date {
    let now = jiff::Zoned::now();
    let number = |n: i8| u32::from(n.unsigned_abs());
    let date = Date::new(u32::from(now.year().unsigned_abs()), number(now.month()), number(now.day()));
    // Before 1970 the clock is wrong in any case.
    date.or_else(|| Date::new(1970, 1, 1)).unwrap_or_else(|| unreachable!("a date"))
}

/// The beginning of a day on the wall clock of the host, in seconds since 1970.
pub fn midnight(date: Date) -> Option<u64> {
    let date: jiff::civil::Date = date.to_string().parse().ok()?;
    let begins = date.to_zoned(jiff::tz::TimeZone::system()).ok()?;
    u64::try_from(begins.timestamp().as_second()).ok()
}

/// The difference of the host's wall clock from UTC, in seconds, at a second since 1970.
pub fn offset_at(second: u64) -> i64 {
    let time = i64::try_from(second).ok().and_then(|second| jiff::Timestamp::from_second(second).ok());
    time.map_or(0, |time| jiff::tz::TimeZone::system().to_offset(time).seconds().into())
}

/// The second since 1970 at which the host's wall clock shows what a clock of UTC shows at `second`.
pub fn from_local(second: u64) -> Option<u64> {
    let shown = jiff::Timestamp::from_second(i64::try_from(second).ok()?).ok()?;
    let local = shown.to_zoned(jiff::tz::TimeZone::UTC).datetime().to_zoned(jiff::tz::TimeZone::system()).ok()?;
    u64::try_from(local.timestamp().as_second()).ok()
}

/// The time of the clock used for shaping.
#[inline]
pub fn now() -> Instant {
    read(Clock::Monotonic)
}

/// The step of the kernel's timers: 1 ns where they are exact, several milliseconds where they follow the tick.
pub fn resolution() -> Span {
    Span::from_nanos(nanos(rustix::time::clock_getres(ClockId::Monotonic)))
}

#[inline]
fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The processor time that the calling thread has used, and its context switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadUsage {
    /// Time in user mode.
    pub user: Span,
    /// Time in the kernel.
    pub system: Span,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

/// The usage of the calling thread so far.
pub fn thread_usage() -> ThreadUsage {
    let usage = time::thread_usage();
    ThreadUsage {
        user: span(usage.user),
        system: span(usage.system),
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
    }
}

fn span(time: Duration) -> Span {
    Span::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// The calling thread's number, for [`Scheduled::of`].
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// How long a thread has run and has waited for a processor, by the kernel's scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheduled {
    /// Time on a processor.
    pub ran: Span,
    /// Time in which it could have run and others did; a wait counts when it has ended.
    pub waited: Span,
    /// Whether it runs now or waits for a processor; otherwise it sleeps in the kernel.
    pub is_ready: bool,
}

impl Scheduled {
    /// The times of a thread of this process so far; nothing where the kernel does not count them. Reads two files.
    pub fn of(thread: i32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        let mut nanos = text.split_ascii_whitespace().map(|number| number.parse().ok().map(Span::from_nanos));
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
        let is_ready = stat.rsplit_once(") ")?.1.starts_with('R');
        Some(Self { ran: nanos.next()??, waited: nanos.next()??, is_ready })
    }

    /// The times since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        let less = |now: Span, then: Span| Span::from_nanos(now.as_nanos().saturating_sub(then.as_nanos()));
        Self { ran: less(self.ran, earlier.ran), waited: less(self.waited, earlier.waited), ..self }
    }
}

/// The reason for which a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// At least one descriptor is ready; bit `i` represents the `i`-th.
    Ready(u64),
    /// The deadline has come.
    Deadline,
    /// Neither: a signal arrived, or a second has passed. The caller waits again.
    Nothing,
}

/// Waits for descriptors to become readable and for a deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiter {
    spin: Span,
}

impl Default for Waiter {
    fn default() -> Self {
        Self { spin: MAX_SPIN }
    }
}

impl Waiter {
    /// A waiter that wakes `spin` before a deadline and polls the clock from there; at most [`MAX_SPIN`]. Zero saves
    /// power and makes deadlines tens of microseconds late.
    pub fn new(spin: Span) -> Self {
        Self { spin: spin.min(MAX_SPIN) }
    }

    /// Waits until one of at most 64 descriptors is readable (or has an error to be read) or `deadline` has come.
    ///
    /// A deadline in the past returns at once, after one poll of the descriptors: ready descriptors take precedence.
    ///
    /// # Errors
    /// Those of `ppoll` except interruption, which is [`Woken::Nothing`].
    pub fn wait(&self, descriptors: &[&dyn AsFd], deadline: Option<Instant>) -> io::Result<Woken> {
        let mut polled = Readable::<64>::new(descriptors.iter().map(|descriptor| Some(descriptor.as_fd())));
        loop {
            let now = now();
            let left = deadline.map(|d| d.saturating_since(now));
            let sleep = match left {
                None => LONGEST_SLEEP,
                Some(left) => left.saturating_sub(self.spin).min(LONGEST_SLEEP),
            };
            match polled.wait(Duration::from_nanos(sleep.as_nanos())) {
                Ok(0) => match left {
                    Some(left) if left.is_zero() => return Ok(Woken::Deadline),
                    Some(left) if left <= LONGEST_SLEEP => {}
                    _ => return Ok(Woken::Nothing),
                },
                Ok(bits) => return Ok(Woken::Ready(bits)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Woken::Nothing),
                Err(error) => return Err(error),
            }
        }
    }
}

trait Saturating {
    fn saturating_since(self, earlier: Self) -> Span;
}

impl Saturating for Instant {
    fn saturating_since(self, earlier: Self) -> Span {
        Span::from_nanos(self.as_nanos().saturating_sub(earlier.as_nanos()))
    }
}

/// The privileges that the calling thread was granted. None is required; each makes deadlines more precise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Readiness {
    /// Timers fire at once instead of up to 50 µs late.
    pub timer_slack: Outcome,
    /// The thread precedes all normal ones (`SCHED_FIFO`). Without it a loaded machine delivered 60 to 76 of 100
    /// Mbit/s, with it 97.5.
    pub real_time: Outcome,
    /// Time slices of 0.1 ms among normal threads, which are scheduled the sooner the shorter they are. Requested where
    /// real-time scheduling is refused or not wanted; kernels before 6.12 accept and ignore it. Four busy programs on
    /// two processors delay voice by 9 ms at the 99th percentile with it, by 12 ms without.
    pub short_turns: Outcome,
    /// Memory stays resident.
    pub locked_memory: Outcome,
}

/// The time slice that a worker requests among normal threads: the shortest that the kernel supports.
const TURN: Span = Span::from_micros(100);

/// The privileges that a worker thread requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Priority {
    /// Real-time scheduling and locked memory where the system grants them.
    #[default]
    RealTime,
    /// Neither real-time scheduling nor locked memory.
    Normal,
}

/// Prepares the calling thread for precise deadlines as far as the system allows, and returns what was granted.
pub fn prepare_thread(priority: Priority) -> Readiness {
    let timer_slack = shortest_timer_slack();
    if priority == Priority::Normal {
        let (real_time, locked_memory) = (Outcome::NotAsked, Outcome::NotAsked);
        return Readiness { timer_slack, real_time, short_turns: ask_for_short_turns(), locked_memory };
    }
    // The lowest real-time priority: before every normal thread, after all other real-time threads.
    let real_time = granted(process::set_real_time(1, true));
    let short_turns = if real_time.in_force() { Outcome::NotAsked } else { ask_for_short_turns() };
    Readiness { timer_slack, real_time, short_turns, locked_memory: lock_memory() }
}

/// Has timers of the calling thread fire at once.
pub(crate) fn shortest_timer_slack() -> Outcome {
    granted(rustix::thread::set_current_timer_slack(NonZeroU64::new(1)))
}

/// Requests time slices of [`TURN`] and keeps all other scheduling attributes of the calling thread.
fn ask_for_short_turns() -> Outcome {
    granted(process::set_time_slice(Duration::from_nanos(TURN.as_nanos())))
}

/// Keeps the calling thread on one of the processors it may run on, the `nth` in turn.
///
/// Packets that a thread releases on one processor may overtake those that it released on another just before: the
/// kernel has a queue for each processor, and serves it when that processor is free. On a loaded machine that happened
/// about once in a hundred thousand packets.
pub fn stay_on_a_processor(nth: usize) -> Outcome {
    granted(process::processors().and_then(|ours| process::stay_on(&[ours[nth % ours.len()]])))
}

/// Keeps the calling thread off the processors on which the first `threads` threads of data paths [stay](stay_on_a_processor), as far as
/// it may run on others: for work that the kernel does not interrupt.
pub fn stay_off_data_paths(threads: usize) -> Outcome {
    let first = usize::from(FIRST_QUEUE) / 2;
    granted(process::processors().and_then(|ours| {
        let is_free = |at: &usize| (first..first + threads).all(|nth| nth % ours.len() != *at);
        let free: Vec<usize> = (0..ours.len()).filter(is_free).map(|at| ours[at]).collect();
        if free.is_empty() { Ok(()) } else { process::stay_on(&free) }
    }))
}

/// Locks what is and what will be mapped, but only where no limit can make a later allocation fail for it.
fn lock_memory() -> Outcome {
    if getrlimit(Resource::Memlock).current.is_some() && !is_exempt_from_memory_limit() {
        let text = "the limit on locked memory (ulimit -l) is not \"unlimited\": later allocations could fail";
        return Outcome::Refused(text.into());
    }
    granted(rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT))
}

/// Whether the process has `CAP_IPC_LOCK` where it counts, in the initial user namespace.
fn is_exempt_from_memory_limit() -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let initial = std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_ascii_whitespace().eq(["0", "0", "4294967295"]));
    let capable = std::fs::read_to_string("/proc/thread-self/status").is_ok_and(|status| {
        let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
        effective.and_then(|c| u64::from_str_radix(c.trim(), 16).ok()).is_some_and(|c| c >> CAP_IPC_LOCK & 1 == 1)
    });
    initial && capable
}

/// The outcome of a request to the system.
pub(crate) fn granted(result: Result<(), impl Into<io::Error>>) -> Outcome {
    result.map_or_else(|error| Outcome::Refused(error.into().to_string()), |()| Outcome::InForce)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn clocks_go_forward_and_work_uses_processor_time() {
        let (time, cpu) = (now(), read(Clock::ThreadCpu));
        let sum = (0..2_000_000_u64).fold(0_u64, |a, b| std::hint::black_box(a ^ b));
        std::hint::black_box(sum);
        assert!(now() > time && read(Clock::ThreadCpu) > cpu);
        assert!(read(Clock::Boot) >= time && read(Clock::ProcessCpu) >= cpu);
    }

    #[test]
    fn a_deadline_is_never_early() {
        let waiter = Waiter::default();
        for micros in [0, 1, 30, 70, 300, 2_000] {
            let deadline = now() + Span::from_micros(micros);
            while waiter.wait(&[], Some(deadline)).unwrap() != Woken::Deadline {}
            assert!(now() >= deadline, "{micros} µs");
        }
    }

    #[test]
    fn what_is_readable_ends_the_wait_before_the_deadline_and_also_after_it() {
        let (a, b) = UnixDatagram::pair().unwrap();
        let (c, d) = UnixDatagram::pair().unwrap();
        d.send(b"x").unwrap();
        let waiter = Waiter::default();
        let deadline = now() + Span::from_secs(10);
        assert_eq!(waiter.wait(&[&a, &c], Some(deadline)).unwrap(), Woken::Ready(2));
        b.send(b"x").unwrap();
        assert_eq!(waiter.wait(&[&a, &c], None).unwrap(), Woken::Ready(3));
        assert_eq!(waiter.wait(&[&a], Some(Instant::ZERO)).unwrap(), Woken::Ready(1));
        assert!(now() < deadline);
    }

    #[test]
    fn a_spin_is_bounded() {
        assert_eq!(Waiter::new(Span::from_millis(9)), Waiter::default());
    }

    #[test]
    fn each_privilege_is_granted_or_refused_with_a_reason() {
        std::thread::spawn(|| {
            let readiness = prepare_thread(Priority::Normal);
            assert!(readiness.timer_slack.in_force());
            assert_eq!(readiness.real_time, Outcome::NotAsked);
            assert_ne!(readiness.short_turns, Outcome::NotAsked);
        })
        .join()
        .unwrap();
    }
}
