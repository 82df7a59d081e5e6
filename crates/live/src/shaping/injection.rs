//! Faults that tests inject into a running data path, to show that traffic passes nevertheless.
//!
//! Compiled in builds with debug assertions only: releases and packages hold none of it (`tools/checks`).

use tidegate_units::{Instant, Span};

use super::watchdog::MonotonicClock;

/// A fault to inject into the data path, to test that traffic passes nevertheless.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Injection {
    /// The time after the start; the fault occurs then, as soon as a packet is queued.
    pub after: Span,
    /// The fault to inject.
    pub fault: Fault,
}

/// The kind of an injected fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The thread sleeps for this long.
    Stall(Span),
    /// The discipline panics while packets are queued in it.
    Panic,
    /// The clock jumps forward.
    Forward(Span),
    /// The clock jumps back.
    Back(Span),
    /// The system refuses memory.
    Memory,
}

impl Injection {
    /// Reads `KIND:AFTER[:LENGTH]`: `stall:1s:3s`, `panic:1s`, `forward:1s:5s`, `back:1s:5s`, `memory:1s`.
    ///
    /// # Errors
    /// The forms that are expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let usage =
            || "expected stall:AFTER:TIME, panic:AFTER, forward:AFTER:TIME, back:AFTER:TIME or memory:AFTER".to_owned();
        let mut parts = text.split(':');
        let kind = parts.next().unwrap_or_default();
        let mut span = || parts.next().and_then(|part| part.parse::<Span>().ok()).ok_or_else(usage);
        let after = span()?;
        let fault = match kind {
            "stall" => Fault::Stall(span()?),
            "panic" => Fault::Panic,
            "forward" => Fault::Forward(span()?),
            "back" => Fault::Back(span()?),
            "memory" => Fault::Memory,
            _ => return Err(usage()),
        };
        Ok(Self { after, fault })
    }
}

impl Fault {
    /// Makes the fault happen on the calling thread.
    pub(super) fn happen(self, clock: &mut MonotonicClock) {
        match self {
            Self::Stall(time) => std::thread::sleep(std::time::Duration::from_nanos(time.as_nanos())),
            Self::Panic => panic!("a fault was injected"),
            Self::Forward(forward) => clock.inject(Step { forward, back: Span::ZERO }),
            Self::Back(back) => clock.inject(Step { forward: Span::ZERO, back }),
            // More memory than any machine has: its refusal has the same effect as that of a small allocation.
            Self::Memory => drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 46))),
        }
    }
}

/// A step of the system's clock.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Step {
    pub forward: Span,
    pub back: Span,
}

impl Step {
    /// The time of the clock after the step.
    pub fn add(self, time: Instant) -> Instant {
        Instant::from_nanos((time + self.forward).as_nanos().saturating_sub(self.back.as_nanos()))
    }
    /// The inverse of [`add`](Self::add).
    pub fn subtract(self, time: Instant) -> Instant {
        Instant::from_nanos((time + self.back).as_nanos().saturating_sub(self.forward.as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn injections_are_parsed_and_invalid_ones_are_refused() {
        let read = Injection::parse("stall:1s:300ms").unwrap();
        assert_eq!((read.after, read.fault), (Span::from_secs(1), Fault::Stall(Span::from_millis(300))));
        for wrong in ["", "stall", "stall:1s", "panic:soon", "fire:1s"] {
            assert!(Injection::parse(wrong).is_err(), "{wrong}");
        }
    }
}
