//! How much a run of the tests does: a short form for every change, and `TIDEGATE_TESTS=nightly` for everything.

/// Whether the environment asks for the nightly form.
pub fn is_nightly() -> bool {
    std::env::var_os("TIDEGATE_TESTS").is_some_and(|form| form == "nightly")
}

/// How many of `all` seeds or operations to run: all of them nightly, otherwise a tenth, but at least one.
pub fn share(all: u64) -> u64 {
    if is_nightly() { all } else { all.div_ceil(10) }
}

/// How long a chaos run takes, and the seed of its schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chaos {
    /// Seconds of steps; the start and the end come in addition.
    pub seconds: u64,
    /// The seed.
    pub seed: u64,
}

impl Chaos {
    /// Reads `TIDEGATE_CHAOS=SECONDS[:SEED]`. By default it takes five minutes, and each day has a seed of its own, so that
    /// the nightly runs of a month are of 30 schedules.
    ///
    /// # Panics
    /// When the variable has another form.
    pub fn read() -> Self {
        let text = std::env::var("TIDEGATE_CHAOS").unwrap_or_else(|_| "300".into());
        let day = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs() / 86_400);
        Self::parse(&text, day).unwrap_or_else(|| panic!("TIDEGATE_CHAOS is SECONDS or SECONDS:SEED, not {text:?}"))
    }

    fn parse(text: &str, seed: u64) -> Option<Self> {
        match text.split_once(':') {
            Some((seconds, seed)) => Some(Self { seconds: seconds.parse().ok()?, seed: seed.parse().ok()? }),
            None => Some(Self { seconds: text.parse().ok()?, seed }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chaos_run_is_seconds_and_a_seed() {
        assert_eq!(Chaos::parse("60", 7), Some(Chaos { seconds: 60, seed: 7 }));
        assert_eq!(Chaos::parse("3600:12", 7), Some(Chaos { seconds: 3_600, seed: 12 }));
        for wrong in ["", "x", "60:", ":1", "60:1:2"] {
            assert_eq!(Chaos::parse(wrong, 7), None, "{wrong}");
        }
    }
}
