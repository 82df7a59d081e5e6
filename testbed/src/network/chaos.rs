//! The schedule of a chaos run: random faults, changes, promises, clients and loads. It is a function of its seed alone, so that
//! a run that failed can be repeated.

use std::time::Duration;

use tidegate_core::random::Stream;

/// One step of a chaos run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A class of what leaves gets another rate by `tidegate set`.
    Rate {
        /// The name of the class.
        class: &'static str,
        /// Its rate in kbit/s.
        kbit: u64,
    },
    /// The file is replaced by one with this number of additional classes, and read again.
    Reload {
        /// How many classes are added to those that every file has.
        classes: u64,
    },
    /// A file that is not valid is applied, and refused.
    Broken,
    /// The rate of a class changes on trial.
    Trial {
        /// Its rate in kbit/s meanwhile.
        kbit: u64,
        /// Whether the change is confirmed; otherwise it is taken back.
        confirmed: bool,
    },
    /// A minimum for the video flow is requested, unless it has one.
    Promise,
    /// The minimum of the video flow is released, if it has one.
    Withdraw,
    /// A load starts, or stops if it runs.
    Toggle(Load),
    /// The shaper is killed by SIGKILL, and another one starts after this time.
    Kill {
        /// How long there is no shaper.
        absent: Duration,
    },
    /// The shaper is killed by SIGKILL, and another one starts when its guardian has waited in vain and removed the rules.
    Desert,
    /// Shaper and guardian are killed in one moment, and another shaper starts.
    KillBoth,
    /// Another process takes over from the running shaper.
    Upgrade,
    /// The shaper is stopped by SIGSTOP for this time.
    Stop {
        /// How long it is stopped.
        time: Duration,
    },
    /// The guardian is killed by SIGKILL.
    KillGuardian,
    /// Another program adds a table to the packet filter and removes it.
    Table,
    /// Another program adds a chain to the packet filter and removes it: the kernel drops what its queues hold.
    Chain,
    /// The interface goes down for this time.
    Down {
        /// How long it is down.
        time: Duration,
    },
    /// The interface is deleted, and made again after this time.
    Vanish {
        /// How long there is none.
        time: Duration,
    },
    /// The interface gets another MTU.
    Mtu {
        /// Bytes, at least the 1280 that IPv6 needs.
        bytes: u32,
    },
    /// A client of the control socket misbehaves for a second.
    Hostile(Client),
    /// A command reads the state.
    Read(Reader),
}

/// Traffic beside the flows that are measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Load {
    /// Datagrams at twice the rate of the default class of what leaves.
    FloodUp,
    /// Datagrams at twice the rate of the default class of what arrives.
    FloodDown,
    /// Datagrams in the class of the video flow, more than its rate.
    Rivals,
    /// A TCP upload.
    Upload,
    /// A TCP download.
    Download,
    /// Datagrams each of which is the first of a new flow.
    NewFlows,
}

/// How a client of the control socket misbehaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Client {
    /// It sends half a request and waits.
    Half,
    /// It sends random bytes.
    Garbage,
    /// It sends a line that is longer than allowed.
    Long,
    /// It opens many connections.
    Many,
    /// It sends requests and reads no answer.
    Deaf,
}

/// A command that reads the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// `tidegate status`.
    Status,
    /// `tidegate top --once`.
    Top,
    /// `tidegate promise`.
    Promises,
    /// The page with metrics.
    Metrics,
}

/// The steps of a run, without end, each with the pause before it.
#[derive(Clone, Debug)]
pub struct Schedule(Stream);

impl Schedule {
    /// The schedule of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Stream::named(seed, "chaos"))
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len() as u64) as usize]
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.below(to - from)
    }

    fn step(&mut self) -> Step {
        use {Client as C, Load as L, Reader as R};
        match self.0.below(100) {
            0..10 => {
                let class = self.one_of(&["calls", "media", "rest"]);
                // Enough for the flows that are measured.
                let least = if class == "calls" { 500 } else { 1_200 };
                Step::Rate { class, kbit: self.between(least, 4_000) }
            }
            10..15 => Step::Reload { classes: self.0.below(6) },
            15 => Step::Broken,
            16..18 => Step::Trial { kbit: self.between(1_200, 4_000), confirmed: self.0.below(2) == 0 },
            18..24 => Step::Promise,
            24..28 => Step::Withdraw,
            28..48 => {
                Step::Toggle(self.one_of(&[L::FloodUp, L::FloodDown, L::Rivals, L::Upload, L::Download, L::NewFlows]))
            }
            48 => Step::Desert,
            49 => Step::KillBoth,
            50..55 => Step::Kill { absent: Duration::from_millis(self.between(0, 3_000)) },
            55..61 => Step::Upgrade,
            // Shorter than the guardian's patience.
            61..65 => Step::Stop { time: Duration::from_millis(self.between(10, 150)) },
            65..71 => Step::Stop { time: Duration::from_millis(self.between(500, 4_000)) },
            71..75 => Step::KillGuardian,
            75..78 => Step::Table,
            78..81 => Step::Chain,
            81..83 => Step::Down { time: Duration::from_millis(self.between(50, 2_000)) },
            83 => Step::Vanish { time: Duration::from_millis(self.between(50, 3_000)) },
            84..87 => Step::Mtu { bytes: self.one_of(&[1_280, 1_400, 1_500]) },
            87..94 => Step::Hostile(self.one_of(&[C::Half, C::Garbage, C::Long, C::Many, C::Deaf])),
            _ => Step::Read(self.one_of(&[R::Status, R::Top, R::Promises, R::Metrics])),
        }
    }
}

impl Iterator for Schedule {
    type Item = (Duration, Step);

    fn next(&mut self) -> Option<Self::Item> {
        let pause = Duration::from_millis(self.between(0, 800));
        Some((pause, self.step()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::mem::discriminant;

    use super::*;

    #[test]
    fn a_seed_has_one_schedule_and_another_seed_another_one() {
        let first = |seed| Schedule::new(seed).take(1_000).collect::<Vec<_>>();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }

    #[test]
    fn every_kind_of_step_comes_and_five_minutes_have_most_of_them() {
        // A step takes two seconds or three.
        let kinds = |seed| Schedule::new(seed).take(100).map(|(_, step)| discriminant(&step)).collect::<HashSet<_>>();
        let all: HashSet<_> = (0..20).flat_map(kinds).collect();
        assert_eq!(all.len(), 20);
        assert!((0..20).all(|seed| kinds(seed).len() > 11));
    }
}
