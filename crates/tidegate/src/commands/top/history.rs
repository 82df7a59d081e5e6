//! The last minute of each class, as a line of blocks.

use std::collections::{BTreeMap, VecDeque};

use tidegate_control::calls::Observation;

use super::columns::MINUTE;

/// The number of updates that are kept: a minute of one a second.
const KEPT: usize = 60;

/// The rates of the classes of each direction in the last updates, in bit/s.
#[derive(Debug, Default)]
pub struct History {
    rates: BTreeMap<(String, String), VecDeque<u64>>,
}

impl History {
    /// Adds an update.
    pub fn add(&mut self, seen: &Observation) {
        let mut known = BTreeMap::new();
        for direction in &seen.directions {
            for class in &direction.classes {
                let key = (direction.name.clone(), class.name.clone());
                let mut rates = self.rates.remove(&key).unwrap_or_default();
                rates.push_back(class.rate.as_bps());
                if rates.len() > KEPT {
                    rates.pop_front();
                }
                known.insert(key, rates);
            }
        }
        // Classes that are gone are forgotten.
        self.rates = known;
    }

    /// The rates of a class in `width` characters: blocks, the newest at the right, and where there is room the rate of the highest
    /// one. The greatest rate of the minute is the highest block, so that a class with little traffic is seen as well as one
    /// with much. A block is the greatest of the rates that it stands for.
    pub fn line(&self, direction: &str, class: &str, width: usize) -> String {
        const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let Some(rates) = self.rates.get(&(direction.to_owned(), class.to_owned())) else { return String::new() };
        let most = rates.iter().copied().max().unwrap_or(0);
        let peak = if width >= MINUTE {
            format!(" max {:>1$}", tidegate_display::rate(most), PEAK - 5)
        } else {
            String::new()
        };
        let blocks = if peak.is_empty() { width } else { width - PEAK };
        let each = KEPT.div_ceil(blocks.max(1));
        let full = u128::from(most.max(1));
        let rates: Vec<u64> = rates.iter().copied().collect();
        // A rate above zero is seen.
        let block = |rate: u64| BLOCKS[(u128::from(rate) * 8).div_ceil(full) as usize];
        let line: String =
            rates.rchunks(each).rev().map(|some| block(some.iter().copied().max().unwrap_or(0))).collect();
        format!("{line:>blocks$}{peak}")
    }
}

/// The width of the greatest rate behind the blocks, with the word before it.
const PEAK: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_control::calls::{ClassObservation, DirectionObservation};
    use tidegate_units::Rate;

    #[test]
    fn a_minute_is_in_proportion_and_the_newest_at_the_right() {
        let mut history = History::default();
        for second in 0..70_u64 {
            let rate = if second < 60 { 0 } else { second - 59 };
            let class = ClassObservation { name: "a".into(), rate: Rate::from_mbit(rate), ..Default::default() };
            let direction = DirectionObservation { name: "up".into(), classes: vec![class], ..Default::default() };
            history.add(&Observation { directions: vec![direction], ..Default::default() });
        }
        // A block stands for six of the last 60 s, or for five: at most 4 or 5 and 10 Mbit/s in the last two.
        assert_eq!(history.line("up", "a", 10), "        ▄█");
        assert_eq!(history.line("up", "a", 28), "          ▄█ max 10.0 Mbit/s");
        assert_eq!(history.line("down", "a", 10), "");
    }
}
