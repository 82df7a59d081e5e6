//! [`Timer`]: a file descriptor that becomes readable at an instant, for event loops.
//!
//! *Source*: timerfd_create(2).
//! *Cost*: a system call to arm it and one to read it. Event loops have timers of their own, but these commonly round up
//! to a millisecond, in which 100 Mbit/s send nine packets.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tidegate_units::Instant;

/// A timer of `CLOCK_MONOTONIC`, the clock of [`MonotonicClock`](crate::MonotonicClock), whose descriptor is readable
/// from its instant on.
///
/// ```
/// use tidegate_pace::sender::wait_for_data;
/// use tidegate_pace::{Clock, MonotonicClock, Span, Timer};
///
/// let timer = Timer::new()?;
/// let until = MonotonicClock::new().now() + Span::from_millis(2);
/// timer.arm(until)?;
/// assert!(wait_for_data(&timer, Span::from_secs(5))?);
/// assert!(timer.expired()? && MonotonicClock::new().now() >= until);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// Returns a timer that is not armed.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }
    /// Arms it for `until`, in place of the instant that it was armed for. An instant that has passed is reached at
    /// once.
    ///
    /// # Errors
    /// None that a valid timer returns.
    pub fn arm(&self, until: Instant) -> io::Result<()> {
        // Zero would disarm it.
        let nanos = until.as_nanos().max(1);
        let value = Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (nanos % 1_000_000_000) as _,
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }
    /// Returns whether its instant has been reached, once for each time that it is armed; then it is no longer
    /// readable.
    ///
    /// # Errors
    /// None that a valid timer returns.
    pub fn expired(&self) -> io::Result<bool> {
        let mut count = [0_u8; 8];
        match rustix::io::read(&self.0, &mut count) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
