//! The cycle of the paper around an algorithm and a clock.

use tidegate_units::{Bytes, Instant};

use crate::algorithm::{Algorithm, Wait};
use crate::clock::Clock;

/// Waits until `due`, as the algorithm plans it, tells it that it woke, and returns when. Returns at once, and tells
/// nothing, when that is not in the future.
///
/// When the clock is set back meanwhile, the algorithm says how much there is left to wait.
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

/// Sends `sizes` one after another: `send` does it, and takes the time it takes.
///
/// The cycle of the paper's figures: send, ask the algorithm, wait. It does not wait after the last packet. Whoever
/// has a queue that may be empty, several destinations or a rate to change writes this loop out.
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
