//! [`Answers`]: the answer of each direction ([`answer`]), with the counts from which losses of the last seconds follow.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tidegate_control::answer::{Before, answer};
use tidegate_control::calls::Observation;

/// Losses are those of the last one to two periods: at fifty packets a second a single loss is 0.2 % of one.
const PERIOD: Duration = Duration::from_secs(10);

/// The counts of each direction, by its name, and when they were read.
type Counts = (Instant, HashMap<String, Before>);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Answers {
    old: Option<Counts>,
    new: Option<Counts>,
}

impl Answers {
    /// Gives each direction of `observation` its answer. Its flows must be all that are known, and its hosts be set.
    pub fn give(&mut self, observation: &mut Observation, now: Instant) {
        let nothing = Before::default();
        let known = self.old.as_ref().or(self.new.as_ref()).map(|(_, counts)| counts);
        for direction in &mut observation.directions {
            let before = known.and_then(|counts| counts.get(&direction.name)).unwrap_or(&nothing);
            let mut found = answer(direction, &observation.hosts, before);
            found.text = found.sentence(|wait| tidegate_display::wait(wait.as_nanos()));
            direction.answer = Some(found);
        }
        if self.new.as_ref().is_none_or(|(time, _)| now.duration_since(*time) >= PERIOD) {
            let counts = observation.directions.iter().map(|one| (one.name.clone(), Before::of(one))).collect();
            self.old = self.new.replace((now, counts));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_control::answer::Grade;
    use tidegate_control::calls::{ClassObservation, DirectionObservation, DropCount};
    use tidegate_units::{Bytes, Rate};

    #[test]
    fn a_loss_is_forgotten_after_two_periods() {
        let mut answers = Answers::default();
        let begin = Instant::now();
        let mut grade = |second: u32, arrived: u64, dropped: u64| {
            let class = ClassObservation {
                name: "calls".into(),
                rate: Rate::from_kbit(100),
                enqueued_packets: arrived,
                dropped: vec![DropCount { reason: "aqm".into(), packets: dropped, bytes: Bytes::ZERO }],
                ..ClassObservation::default()
            };
            let direction = DirectionObservation { name: "up".into(), classes: vec![class], ..Default::default() };
            let mut observation = Observation { directions: vec![direction], ..Observation::default() };
            answers.give(&mut observation, begin + Duration::from_secs(1) * second);
            observation.directions[0].answer.as_ref().and_then(|answer| answer.grade)
        };
        // 50 of 500 packets are lost in the first seconds, none later.
        assert_eq!(grade(0, 500, 50), Some(Grade::Poor), "since the start");
        assert_eq!(grade(5, 750, 50), Some(Grade::Good), "since the first observation");
        assert_eq!(grade(10, 1_000, 100), Some(Grade::Poor), "50 of 500");
        assert_eq!(grade(15, 1_250, 100), Some(Grade::Poor));
        assert_eq!(grade(20, 1_500, 100), Some(Grade::Poor));
        assert_eq!(grade(30, 2_000, 100), Some(Grade::Good));
    }
}
