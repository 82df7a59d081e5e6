//! The controller of a rate that follows the line, by its laws; and mutants of it, which the laws must notice.

use tidegate_autorate::{Bounds, Controller, Side};
use tidegate_core::{Bytes, Instant, Rate, Span};
use tidegate_laws::autorate::{Follows, check, check_reaction};

fn floors() -> impl Iterator<Item = Span> {
    [5, 20, 40, 100, 300].into_iter().map(Span::from_millis)
}

#[test]
fn the_controller_obeys_its_laws() {
    let coverage = check::<Controller>(0..60, 1_500).unwrap();
    assert!(coverage.rises > 1_000 && coverage.falls > 1_000, "{coverage:?}");
    assert!(coverage.compared > 500 && coverage.backwards > 500, "{coverage:?}");
    for floor in floors() {
        check_reaction::<Controller>(floor).unwrap();
    }
}

/// A controller with a fault, chosen by `FAULT`.
#[derive(Clone)]
struct Mutant<const FAULT: u8> {
    inner: Controller,
    now: Instant,
    calls: u64,
}

const ABOVE: u8 = 0;
const HASTY: u8 = 1;
const CONTRARY: u8 = 2;
const SLUGGISH: u8 = 3;
const FICKLE: u8 = 4;

thread_local! {
    /// Not a function of the inputs.
    static LUCK: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl<const FAULT: u8> Follows for Mutant<FAULT> {
    fn with_bounds(bounds: Bounds) -> Self {
        Self { inner: Controller::with_bounds(bounds), now: Instant::ZERO, calls: 0 }
    }
    fn round_trip(&mut self, now: Instant, peer: u64, round_trip: Span, down: Option<u64>) {
        self.now = self.now.max(now);
        self.calls += 1;
        let round_trip = match FAULT {
            // The more delay, the less is reported.
            CONTRARY => Span::from_millis(4_000).saturating_sub(round_trip).max(Span::from_millis(1)),
            // One answer in 64: most of what happens is missed.
            SLUGGISH if self.calls % 2_048 >= 3 => return,
            _ => round_trip,
        };
        let luck = FAULT == FICKLE && LUCK.replace(LUCK.get() + 1).is_multiple_of(257);
        let more = if luck { Span::from_millis(80) } else { Span::ZERO };
        self.inner.round_trip(now, peer, round_trip + more, down);
    }
    fn carried(&mut self, side: Side, bytes: Bytes, waiting: bool) {
        self.inner.carried(side, bytes, waiting);
    }
    fn decide(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.inner.decide(now);
    }
    fn allowed(&self, side: Side) -> Rate {
        let rate = self.inner.allowed(side).unwrap_or_default();
        match FAULT {
            ABOVE => Rate::from_bps(rate.as_bps() / 16 * 17),
            // Follows the clock between two decisions.
            HASTY => {
                let most = self.inner.state(side).map_or(rate, |state| state.bounds.most);
                Rate::from_bps(rate.as_bps() + self.now.as_nanos() / 1_000_000 % 2).min(most)
            }
            _ => rate,
        }
    }
}

/// Whether a law notices the fault; the law's text must contain `law`.
fn noticed<const FAULT: u8>(law: &str) {
    let random = check::<Mutant<FAULT>>(0..60, 1_500).err();
    let reaction = floors().find_map(|floor| check_reaction::<Mutant<FAULT>>(floor).err());
    let found: Vec<String> = random.into_iter().chain(reaction).collect();
    assert!(found.iter().any(|text| text.contains(law)), "fault {FAULT}, {law}: {found:?}");
}

#[test]
fn the_laws_notice_mutants() {
    noticed::<ABOVE>("not within");
    noticed::<HASTY>("changed twice");
    noticed::<CONTRARY>("of delay lead to");
    noticed::<SLUGGISH>("after");
    noticed::<FICKLE>("two runs differ");
}
