//! Clocks: reading the time and sleeping.

use rustix::io::Errno;
use rustix::thread::ClockId;
use rustix::time::Timespec;
use tidegate_units::{Instant, Span};

/// A clock that can also sleep.
pub trait Clock {
    /// The present time.
    fn now(&mut self) -> Instant;
    /// Sleeps until `until`; may end late, and early when a signal arrives.
    fn sleep_until(&mut self, until: Instant);
    /// One iteration of a spin.
    fn relax(&mut self);
}

/// `CLOCK_MONOTONIC` of the machine: it is never set, and stops while the machine is suspended.
///
/// *Cost*: about 20 ns per reading; a system call per sleep.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl MonotonicClock {
    /// Returns the clock. Requests that sleeps of the calling thread end within 1 ns of their time instead of the
    /// usual 50 us, if the kernel permits it.
    pub fn new() -> Self {
        // If the kernel refuses, the present slack remains, which the pacer learns.
        let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
        Self
    }
}

impl Clock for MonotonicClock {
    fn now(&mut self) -> Instant {
        let time = rustix::time::clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Instant::from_nanos(
            seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0)),
        )
    }
    fn sleep_until(&mut self, until: Instant) {
        let nanos = until.as_nanos();
        let request = Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (nanos % 1_000_000_000) as _,
        };
        // EINTR: woken early, as the contract allows. No other error is possible for a valid time on this clock.
        let outcome = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &request);
        debug_assert!(matches!(outcome, Ok(()) | Err(Errno::INTR)), "{outcome:?}");
    }
    fn relax(&mut self) {
        core::hint::spin_loop();
    }
}

/// The accuracy of sleeps of a [`VirtualClock`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sleeping {
    /// Sleeps end at the requested nanosecond.
    Exact,
    /// Wakes at a tick: a sleep of `x` takes `ceil(x / granularity) + extra` ticks from the tick before it, and one more if
    /// the thread would run before the requested time, its latency included.
    Ticks {
        /// The time between ticks, G in the paper.
        granularity: Span,
        /// The time of the first tick.
        phase: Span,
        /// Additional ticks: 1 where, as in Unix, the present tick does not count.
        extra: u32,
    },
}

/// The latency of the scheduler, added to a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Latency {
    /// None.
    None,
    /// Constant.
    Fixed(Span),
    /// Uniform from zero to this, from a generator with this seed.
    Uniform(Span, u64),
}

/// Whether the clock counts a suspend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuspendClock {
    /// It stops, as `CLOCK_MONOTONIC`.
    Stops,
    /// It continues, as `CLOCK_BOOTTIME`.
    Counts,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The reading jumps by this many nanoseconds.
    Step(i64),
    /// The machine is suspended.
    Suspend(Span),
}

/// A deterministic clock for tests: time advances only by calls, and sleeps have configurable errors.
///
/// *Cost*: O(1), and O(log n) in the number of scheduled events.
/// *Notes*: `running` is the time the machine has been awake; events are scheduled in it.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    running: u64,
    suspended: u64,
    offset: i64,
    sleeping: Sleeping,
    latency: Latency,
    draw: u64,
    reading: u64,
    spin: u64,
    suspend_clock: SuspendClock,
    /// Latest first.
    events: Vec<(u64, Event)>,
    slept: Span,
    asked: Span,
}

impl VirtualClock {
    /// Sleeps as `sleeping` specifies, plus `latency`.
    pub fn new(sleeping: Sleeping, latency: Latency) -> Self {
        let draw = if let Latency::Uniform(_, seed) = latency { seed } else { 0 };
        Self {
            running: 0,
            suspended: 0,
            offset: 0,
            sleeping,
            latency,
            draw,
            reading: 1,
            spin: 20,
            suspend_clock: SuspendClock::Stops,
            events: Vec::new(),
            slept: Span::ZERO,
            asked: Span::ZERO,
        }
    }
    /// Sleeps to the nanosecond.
    pub fn exact() -> Self {
        Self::new(Sleeping::Exact, Latency::None)
    }
    /// The platform of the paper: a sleep takes whole ticks of 10 ms, and the thread runs 6 ms after its tick.
    ///
    /// The paper states the ticks alone. The 6 ms follow from its figure 7: 400 ms of oversleep in 100 packets of 1000
    /// bytes, and 819 ms of sleep with 500 bytes, where a sleep begins 4 ms later and must miss a tick.
    pub fn paper() -> Self {
        let granularity = Span::from_millis(10);
        let ticks = Sleeping::Ticks { granularity, phase: Span::ZERO, extra: 0 };
        Self::new(ticks, Latency::Fixed(Span::from_millis(6))).with_spin(Span::from_micros(10))
    }
    /// Sets the duration of one spin iteration, at least 1 ns. Default 20 ns, about the reading of a clock.
    #[must_use]
    pub fn with_spin(mut self, span: Span) -> Self {
        self.spin = span.as_nanos().max(1);
        self
    }
    /// Restricts readings to whole multiples of `granularity`.
    #[must_use]
    pub fn with_reading(mut self, granularity: Span) -> Self {
        self.reading = granularity.as_nanos().max(1);
        self
    }
    /// Sets the present reading.
    #[must_use]
    pub fn starting_at(mut self, start: Instant) -> Self {
        self.offset = i64::try_from(start.as_nanos()).unwrap_or(i64::MAX);
        self
    }
    /// Sets whether a suspend is counted.
    #[must_use]
    pub fn with_suspend(mut self, suspend_clock: SuspendClock) -> Self {
        self.suspend_clock = suspend_clock;
        self
    }
    /// Schedules a jump of the reading by `nanos` when the machine has been running for `at`.
    pub fn step_at(&mut self, at: Span, nanos: i64) {
        self.schedule(at, Event::Step(nanos));
    }
    /// Schedules a suspend of `length` when the machine has been running for `at`.
    pub fn suspend_at(&mut self, at: Span, length: Span) {
        self.schedule(at, Event::Suspend(length));
    }
    /// The true time since construction, suspends included.
    pub fn elapsed(&self) -> Span {
        Span::from_nanos(self.running + self.suspended)
    }
    /// The time the machine has been awake.
    pub fn running(&self) -> Span {
        Span::from_nanos(self.running)
    }
    /// The sum of the requested sleeps.
    pub fn asked(&self) -> Span {
        self.asked
    }
    /// The sum of the actual sleeps.
    pub fn slept(&self) -> Span {
        self.slept
    }
    /// Advances by `span` of work.
    pub fn advance(&mut self, span: Span) {
        self.pass(span.as_nanos());
    }

    fn schedule(&mut self, at: Span, event: Event) {
        let place = self.events.partition_point(|(other, _)| *other > at.as_nanos());
        self.events.insert(place, (at.as_nanos(), event));
    }
    fn shown(&self) -> u64 {
        let shown = i128::from(self.running) + i128::from(self.offset);
        u64::try_from(shown.max(0)).unwrap_or(u64::MAX)
    }
    /// Advances by `nanos`. A suspend shortens the rest of them on a clock that counts it.
    fn pass(&mut self, mut nanos: u64) {
        while let Some((at, event)) = self.events.last().copied().filter(|(at, _)| *at <= self.running + nanos) {
            self.events.pop();
            let before = at.saturating_sub(self.running);
            self.running += before;
            nanos -= before;
            match event {
                Event::Step(step) => self.offset += step,
                Event::Suspend(length) => {
                    self.suspended += length.as_nanos();
                    if self.suspend_clock == SuspendClock::Counts {
                        self.offset += i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
                        nanos = nanos.saturating_sub(length.as_nanos());
                    }
                }
            }
        }
        self.running += nanos;
    }
    /// SplitMix64: 64 uniform bits.
    fn random(&mut self) -> u64 {
        self.draw = self.draw.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.draw;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Clock for VirtualClock {
    fn now(&mut self) -> Instant {
        let shown = self.shown();
        Instant::from_nanos(shown - shown % self.reading)
    }
    fn sleep_until(&mut self, until: Instant) {
        let span = until.as_nanos().saturating_sub(self.shown());
        if span == 0 {
            return;
        }
        let mut real = match self.sleeping {
            Sleeping::Exact => span,
            Sleeping::Ticks { granularity, phase, extra } => {
                let tick = granularity.as_nanos().max(1);
                let since_tick = (self.running + tick - phase.as_nanos() % tick) % tick;
                let ticks = span.div_ceil(tick) + u64::from(extra);
                ticks.saturating_mul(tick).saturating_sub(since_tick)
            }
        };
        real = real.saturating_add(match self.latency {
            Latency::None => 0,
            Latency::Fixed(span) => span.as_nanos(),
            Latency::Uniform(most, _) => {
                let bound = u128::from(most.as_nanos()) + 1;
                ((u128::from(self.random()) * bound) >> 64) as u64
            }
        });
        if let Sleeping::Ticks { granularity, .. } = self.sleeping
            && real < span
        {
            // Without the extra tick, the present tick may end too early: never run before the time.
            real += granularity.as_nanos().max(1);
        }
        self.asked += Span::from_nanos(span);
        self.slept += Span::from_nanos(real);
        self.pass(real);
    }
    fn relax(&mut self) {
        self.pass(self.spin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Span::from_millis(n)
    }

    #[test]
    fn the_ticks_of_the_paper() {
        let mut clock = VirtualClock::paper();
        clock.advance(Span::from_millis(4));
        // 3 ms from 4 ms on: one tick, and 6 ms until the thread runs.
        clock.sleep_until(ms(7));
        assert_eq!((clock.now(), clock.asked(), clock.slept()), (ms(16), Span::from_millis(3), Span::from_millis(12)));
        // Every sleep of 2 ms after another takes one of 10 ms, as in figure 5.
        clock.sleep_until(ms(18));
        assert_eq!(clock.now(), ms(26));
        let ticks = Sleeping::Ticks { granularity: Span::from_millis(10), phase: Span::from_millis(1), extra: 0 };
        let mut clock = VirtualClock::new(ticks, Latency::None);
        clock.advance(Span::from_millis(4));
        clock.sleep_until(ms(7));
        assert_eq!(clock.now(), ms(11));
        clock.advance(Span::from_millis(9));
        clock.sleep_until(ms(22));
        assert_eq!(clock.now(), ms(31), "21 ms would be too soon");
    }

    #[test]
    fn steps_and_suspends() {
        let mut clock = VirtualClock::exact().starting_at(ms(1000)).with_suspend(SuspendClock::Counts);
        clock.step_at(Span::from_millis(10), -500_000_000);
        clock.suspend_at(Span::from_millis(20), Span::from_secs(1));
        clock.advance(Span::from_millis(15));
        assert_eq!(clock.now(), ms(515));
        clock.advance(Span::from_millis(5));
        assert_eq!((clock.now(), clock.elapsed()), (ms(1520), Span::from_millis(1020)));
        let mut clock = VirtualClock::exact();
        clock.suspend_at(Span::from_millis(20), Span::from_secs(1));
        clock.sleep_until(ms(30));
        assert_eq!((clock.now(), clock.elapsed()), (ms(30), Span::from_millis(1030)));
    }

    #[test]
    fn the_clock_of_the_machine_sleeps_at_least_as_long() {
        let mut clock = MonotonicClock::new();
        let until = clock.now() + Span::from_millis(2);
        clock.sleep_until(until);
        assert!(clock.now() >= until);
    }
}
