//! [`Gate`]: a schedule that threads and tasks share.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_units::{Bytes, Instant, Span};

use super::schedule::{Schedule, Turn};
use super::{Backend, Paced, Settings};
use crate::algorithm::{ParamError, Wait};
use crate::clock::{Clock, MonotonicClock};
use crate::pacer::{Params, Status};

std::thread_local! {
    /// Asks, once in each thread, that its sleeps end within a nanosecond of their time.
    static EXACT: MonotonicClock = MonotonicClock::new();
}

/// The present time.
pub(crate) fn now() -> Instant {
    MonotonicClock.now()
}

/// A [`Schedule`] behind a lock that is held for a decision and the system call that follows it, never for a wait.
#[derive(Debug)]
pub(crate) struct Gate {
    schedule: Mutex<Schedule>,
    changed: Condvar,
    burst: Span,
    backend: Backend,
}

impl Gate {
    /// The longest datagram of IPv4 and of IPv6 without its headers, about: the most that a batch may have.
    const LONGEST: usize = 65_000;
    /// The most segments that the kernel accepts in one call.
    const SEGMENTS: usize = 64;

    /// # Errors
    /// `InvalidInput` with the reason.
    pub(crate) fn new(settings: &Settings, backend: Backend) -> io::Result<Self> {
        let lead = backend.lead(settings.params.rate);
        let schedule = Schedule::new(settings.params, lead, now()).map_err(invalid)?;
        Ok(Self { schedule: Mutex::new(schedule), changed: Condvar::new(), burst: settings.burst, backend })
    }
    /// Whether a datagram may be handed over now.
    #[cfg(feature = "quinn")]
    pub(crate) fn turn(&self) -> Turn {
        self.lock().turn(now())
    }
    /// Hands over by `send`, which gets the departure and returns the bytes that were accepted, if it is time.
    ///
    /// # Errors
    /// The error of `send`; nothing is charged then.
    pub(crate) fn pass(&self, send: impl FnOnce(Instant) -> io::Result<usize>) -> io::Result<Result<usize, Turn>> {
        let mut schedule = self.lock();
        match schedule.turn(now()) {
            Turn::Now(departs) => {
                let taken = send(departs)?;
                schedule.sent(departs, Bytes::new(taken as u64));
                Ok(Ok(taken))
            }
            not_yet => Ok(Err(not_yet)),
        }
    }
    /// Blocks until a datagram may be handed over, which another thread may do first, or until `end`; returns whether
    /// one may be.
    pub(crate) fn wait(&self, end: Instant) -> bool {
        EXACT.with(|_| ());
        let mut schedule = self.lock();
        loop {
            let from = now();
            let until = match schedule.turn(from) {
                Turn::Now(_) => return true,
                _ if from >= end => return false,
                Turn::At(until) => until.min(end),
                Turn::Paused => end,
            };
            let wait = schedule.plan(from, until);
            match wait {
                Wait::Sleep(until) => {
                    let span = Duration::from_nanos(until.since(from).as_nanos());
                    let slept = self.changed.wait_timeout(schedule, span);
                    (schedule, _) = slept.unwrap_or_else(PoisonError::into_inner);
                }
                Wait::Spin => {
                    while now() < until {
                        core::hint::spin_loop();
                    }
                }
            }
            schedule.waited(wait, from, now());
        }
    }
    /// How a task waits until a datagram may be handed over; `None` when one may be, and [`Instant::MAX`] in a pause.
    #[cfg(feature = "tokio")]
    pub(crate) fn plan(&self, from: Instant) -> Option<Wait> {
        let mut schedule = self.lock();
        match schedule.turn(from) {
            Turn::Now(_) => None,
            Turn::At(until) => Some(schedule.plan(from, until)),
            Turn::Paused => Some(Wait::Sleep(Instant::MAX)),
        }
    }
    /// Reports the end of a wait that [`plan`](Self::plan) returned.
    #[cfg(feature = "tokio")]
    pub(crate) fn waited(&self, wait: Wait, from: Instant) {
        self.lock().waited(wait, from, now());
    }
    /// The back end that keeps departures apart.
    pub(crate) fn backend(&self) -> Backend {
        self.backend
    }
    /// The most datagrams of `segment` bytes that may be sent at once.
    pub(crate) fn segments(&self, segment: usize) -> usize {
        let bytes = self.lock().rate().bytes_in_floor(self.burst).as_u64();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(Self::LONGEST);
        (bytes / segment.max(1)).clamp(1, Self::SEGMENTS)
    }
    fn lock(&self) -> MutexGuard<'_, Schedule> {
        // A panic can only come from `send`, before anything is charged: the schedule is whole.
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Paced for Gate {
    fn set_params(&self, params: Params) -> io::Result<()> {
        self.lock().set_params(now(), params, self.backend.lead(params.rate)).map_err(invalid)?;
        self.changed.notify_all();
        Ok(())
    }
    fn params(&self) -> Params {
        *self.lock().params()
    }
    fn pause(&self) {
        self.lock().pause(now());
        self.changed.notify_all();
    }
    fn resume(&self) {
        self.lock().resume(now());
        self.changed.notify_all();
    }
    fn status(&self) -> Status {
        self.lock().status(now())
    }
}

fn invalid(error: ParamError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
