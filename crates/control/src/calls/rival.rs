//! [`Rival`]: the class that has the rate which the packets of another class wait for.

use serde::{Deserialize, Serialize};
use tidegate_units::Rate;

use super::observation::{ClassObservation, DirectionObservation};

/// The class that has most of the rate which another class waits for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rival {
    /// Its name.
    pub class: String,
    /// The reason for which it comes before the other.
    pub by: RivalBy,
    /// The part of the line that it takes for this reason, in percent.
    pub percent: u64,
}

/// The reason for which a class has rate that another one waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RivalBy {
    /// Its priority is a smaller number, so that it is served first.
    Priority,
    /// It borrows rate that no class uses for itself.
    Borrowing,
    /// It uses the rate that it is promised.
    Promise,
}

/// From this part of the limit on the packets of a class may wait for other classes, in percent.
const BUSY: u64 = 90;
/// A class with a smaller part of the line is not why others wait, in percent.
const LEAST: u64 = 20;

impl Rival {
    /// Returns the class that has most of what `waiting` waits for. `None` where nothing of it is queued, a ceiling holds it, the line
    /// has room, or no other class takes a fifth of it.
    ///
    /// All the rate of a class that is served first counts, and of another what it borrows. Only where neither exists, the promised
    /// rate of another class does.
    pub fn of(direction: &DirectionObservation, waiting: &ClassObservation) -> Option<Self> {
        if waiting.queue.packets == 0 || waiting.held_by.is_some() {
            return None;
        }
        let sum = direction.classes.iter().fold(0, |sum: u64, class| sum.saturating_add(class.rate.as_bps()));
        let line = direction.limit.map_or(sum, Rate::as_bps);
        let percent = |rate: Rate| percent(rate.as_bps(), line);
        let used = if direction.line.used.is_zero() { sum } else { direction.line.used.as_bps() };
        if percent(Rate::from_bps(used)) < BUSY {
            return None;
        }
        let rival = |class: &ClassObservation| {
            let is_first = class.priority.zip(waiting.priority).is_some_and(|(other, own)| other < own);
            let (by, rate) = match is_first {
                true => (RivalBy::Priority, class.rate),
                false if !class.borrowed.is_zero() => (RivalBy::Borrowing, class.borrowed),
                false => (RivalBy::Promise, class.rate),
            };
            Self { class: class.name.clone(), by, percent: percent(rate) }
        };
        let others = direction.classes.iter().filter(|class| class.name != waiting.name).map(rival);
        let others = others.filter(|rival| rival.percent >= LEAST);
        // The first in the file of equal ones.
        others.rev().max_by_key(|rival| (rival.by != RivalBy::Promise, rival.percent))
    }

    /// Returns the class that has what a class of this name waits for.
    pub fn of_class(direction: &DirectionObservation, waiting: &str) -> Option<Self> {
        Self::of(direction, direction.classes.iter().find(|class| class.name == waiting)?)
    }

    /// Returns it in two words or three, for tables: `calls first`.
    pub fn short(&self) -> String {
        let word = match self.by {
            RivalBy::Priority => "first",
            RivalBy::Borrowing => "borrows",
            RivalBy::Promise => "has it",
        };
        format!("{} {word}", self.class)
    }
    /// Returns it with its part of the line: `calls is served first, 61 %`, `guests borrows 50 %`.
    pub fn text(&self) -> String {
        let Self { class, by, percent } = self;
        match by {
            RivalBy::Priority => format!("{class} is served first, {percent} %"),
            RivalBy::Borrowing => format!("{class} borrows {percent} %"),
            RivalBy::Promise => format!("{class} has {percent} %, as promised"),
        }
    }
}

/// The rounded part of `whole`, in percent.
pub(crate) fn percent(part: u64, whole: u64) -> u64 {
    let whole = u128::from(whole.max(1));
    u64::try_from((u128::from(part) * 100 + whole / 2) / whole).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{HeldBy, LineObservation, Queued};
    use tidegate_units::Bytes;

    fn class(name: &str, priority: u8, kbit: [u64; 2], packets: u64) -> ClassObservation {
        let [rate, borrowed] = kbit.map(Rate::from_kbit);
        let queue = Queued { packets, bytes: Bytes::new(1_500 * packets) };
        ClassObservation {
            name: name.into(),
            priority: Some(priority),
            rate,
            borrowed,
            queue,
            ..ClassObservation::default()
        }
    }

    fn direction(classes: Vec<ClassObservation>) -> DirectionObservation {
        let used = classes.iter().map(|class| class.rate).sum();
        let line = LineObservation { carries: None, used, overhead: Rate::ZERO };
        DirectionObservation {
            name: "up".into(),
            limit: Some(Rate::from_mbit(8)),
            line,
            classes,
            ..DirectionObservation::default()
        }
    }

    #[test]
    fn the_class_that_has_the_rate_is_named_with_the_reason() {
        let said = |classes| Rival::of_class(&direction(classes), "web").map(|rival| rival.text());
        let web = |kbit| class("web", 1, [kbit, 0], 9);
        let first = vec![class("calls", 0, [5_000, 0], 0), web(3_000)];
        assert_eq!(said(first).as_deref(), Some("calls is served first, 63 %"));
        let lent = vec![class("calls", 0, [500, 0], 0), web(3_500), class("guests", 1, [4_000, 4_000], 3)];
        assert_eq!(said(lent).as_deref(), Some("guests borrows 50 %"));
        // Promised rate is named only where nobody borrows or is served first.
        let promised = vec![web(3_000), class("house", 1, [5_000, 0], 0)];
        assert_eq!(said(promised).as_deref(), Some("house has 63 %, as promised"));
        // A class that is alone waits for itself.
        assert_eq!(said(vec![web(7_000), class("calls", 0, [1_000, 0], 0)]), None);
    }

    #[test]
    fn nobody_is_named_where_the_class_does_not_wait_for_others() {
        let calls = || class("calls", 0, [5_000, 0], 0);
        let named = |web: ClassObservation| Rival::of_class(&direction(vec![calls(), web]), "web").is_some();
        assert!(named(class("web", 1, [3_000, 0], 1)));
        assert!(!named(class("web", 1, [3_000, 0], 0)), "nothing is queued");
        assert!(!named(class("web", 1, [1_000, 0], 1)), "the line has room");
        assert!(!named(ClassObservation { held_by: Some(HeldBy::Host), ..class("web", 1, [3_000, 0], 1) }));
    }
}
