/// Chooses the mutant that the environment names.
#[doc(hidden)]
#[allow(missing_docs, warnings, clippy::all)]
pub mod tidegate_mutant {
    extern crate std;
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    const UNKNOWN: u32 = u32::MAX;
    const RECORDING: u32 = u32::MAX - 1;
    static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);
    /// By the first mutant of a place. A part has fewer.
    static REACHED: [AtomicBool; 1 << 14] = [const { AtomicBool::new(false) }; 1 << 14];

    /// Returns which of the `count` mutants from `first` on is chosen, from 1; 0 for none of them.
    #[inline]
    pub fn at(first: u32, count: u32) -> u32 {
        let chosen = CHOSEN.load(Ordering::Relaxed);
        if chosen >= RECORDING {
            return rare(chosen, first, count);
        }
        let nth = chosen.wrapping_sub(first);
        if nth < count { nth + 1 } else { 0 }
    }

    #[cold]
    #[inline(never)]
    fn rare(chosen: u32, first: u32, count: u32) -> u32 {
        if chosen == UNKNOWN {
            let text = std::env::var("TIDEGATE_MUTANT").unwrap_or_default();
            let chosen = if text.starts_with("record:") { RECORDING } else { text.parse().unwrap_or(0) };
            CHOSEN.store(chosen, Ordering::Relaxed);
            return at(first, count);
        }
        let reached = &REACHED[first as usize];
        if !reached.load(Ordering::Relaxed) && !reached.swap(true, Ordering::Relaxed) {
            let text = std::env::var("TIDEGATE_MUTANT").unwrap_or_default();
            let path = text.strip_prefix("record:").unwrap_or_default();
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            // One write, so that the lines of two threads are not mixed.
            let _ = file.and_then(|mut file| file.write_all(std::format!("{first}\n").as_bytes()));
        }
        0
    }
}
