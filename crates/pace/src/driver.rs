//! The cycle of the paper around an algorithm and a clock.

use tidegate_units::{Bytes, Instant};

use crate::algorithm::{Algorithm, Wait};
use crate::clock::Clock;

/// Waits until `due` as the algorithm plans it, reports the wake-up and returns its time. Returns at once, without a
/// report, when `due` is not in the future.
///
/// When the clock is set back meanwhile, the algorithm determines the rest of the wait.
pub fn wait_until(clock: &mut impl Clock, algorithm: &mut (impl Algorithm + ?Sized), mut due: Instant) -> Instant {
    let mut now = clock.now();
    while now < due {
        let mut latest = now;
        while now < due && now >= latest {
            latest = now;
            let wait = algorithm.plan(now, due);
            match wait {
                Wait::Sleep(until) => {
                    clock.sleep_until(until);
                    now = clock.now();
                }
                Wait::Spin => {
                    while now < due && now >= latest {
                        clock.relax();
                        now = clock.now();
                    }
                }
            }
            algorithm.waited(wait, latest, now);
        }
        due = algorithm.woke(now);
    }
    now
}

/// Sends packets of the given `sizes` one after another by calling `send`.
///
/// The cycle of the paper's figures: send, call the algorithm, wait. It does not wait after the last packet. A
/// program with a queue that may be empty, several destinations or a changing rate needs its own loop.
pub fn pace<C: Clock>(
    clock: &mut C,
    algorithm: &mut (impl Algorithm + ?Sized),
    sizes: impl IntoIterator<Item = Bytes>,
    mut send: impl FnMut(&mut C, Bytes),
) {
    let mut due = None;
    for size in sizes {
        if let Some(due) = due {
            wait_until(clock, algorithm, due);
        }
        send(clock, size);
        let now = clock.now();
        due = Some(algorithm.next(now, size));
    }
}
