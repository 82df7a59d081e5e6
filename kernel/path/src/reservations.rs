//! [`Places`]: the leaves that a configuration has for reservations, and the numbers of those that are made.

use tidegate_config::discipline::cbq::CbqQueue;
use tidegate_config::shaper::{Config, Match};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{AnyPacket, Bytes, ClassId, Instant};
use tidegate_engine::{BuildFailure, OffloadedReservation, Setup, rules};

use super::classes::Classes;
use super::options::cbq_class_options::POSITION;
use super::plan::{self, Plan};
use super::tree;

/// The configuration in force, by which leaves for reservations are made and have rules. A reservation has the leaf of its place behind
/// the leaves of the file.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    cbq: CbqQueue,
    config: Config,
    setup: Setup,
    classes: Classes,
    /// The tree, whose leaves for reservations are vacant.
    tree: Vec<u64>,
}

/// The name of the account of a place. No class is called that, since names have no control characters.
pub(crate) fn account(place: u64) -> String {
    format!("\0reservation {place}")
}

impl Places {
    /// `None` for a configuration without reservations.
    pub fn new(config: &Config, setup: &Setup, plan: &Plan) -> Option<Self> {
        let cbq = plan::cbq_of(&config.root).filter(|cbq| cbq.reservations.is_some())?.clone();
        let (config, setup) = (config.clone(), setup.clone());
        Some(Self { cbq, config, setup, classes: plan.classes.clone()?, tree: plan.tree.clone()? })
    }

    /// The leaf of a reservation.
    fn leaf(&self, place: u32) -> u64 {
        self.classes.reserved.start + u64::from(place)
    }

    /// The number that a class has in the program.
    fn number(&self, class: ClassId) -> u32 {
        class.0.checked_sub(self.cbq.first_reserved()).map_or(class.0, |place| self.leaf(place) as u32)
    }

    /// The rules, those of reservations first, with those of one more that has these conditions.
    ///
    /// # Errors
    /// As [`rules::image`].
    pub fn image(&self, made: &[OffloadedReservation], more: Option<&Match>) -> Result<Vec<u64>, BuildFailure> {
        let of = |one: &OffloadedReservation| (one.class, one.place);
        debug_assert!(made.iter().map(of).all(|(class, place)| u64::from(self.number(class)) == self.leaf(place)));
        let rules = made.iter().map(|one| (&one.matches, one.class));
        // Which class it gets makes no difference for the room.
        let rules: Vec<_> = rules.chain(more.map(|matches| (matches, ClassId(self.cbq.first_reserved())))).collect();
        rules::image(&self.config, &self.setup, &rules, |class| self.number(class))
    }

    /// The condition of a reservation that the program does not know.
    pub fn lacks(&self, matches: &Match) -> Option<&'static str> {
        plan::unknown(&self.config, matches)
    }

    /// Sets the limits of the queues of reservations in the numbers of classes.
    pub fn limit(&self, made: &[OffloadedReservation], classes: &mut [u64]) {
        for place in 0..(self.classes.reserved.end - self.classes.reserved.start) as u32 {
            let limit = made.iter().find(|one| one.place == place).map_or(Bytes::ZERO, |one| one.buffer);
            self.classes.set_limit(classes, self.leaf(place) as usize, limit);
        }
    }

    /// The tree with the leaves of reservations.
    pub fn tree(&self, made: &[OffloadedReservation]) -> Vec<u64> {
        let mut numbers = self.tree.clone();
        let Some(policy) = self.cbq.policy() else { return numbers };
        let mut cbq = self.cbq.build_tree::<AnyPacket>(&plan::site());
        let of_file = self.classes.reserved.start;
        for one in made {
            let queue = Box::new(Fifo::new(Limit::bytes(one.buffer)));
            if cbq.add_leaf(Instant::ZERO, one.class, policy.parent, one.params, queue).is_err() {
                continue;
            }
            let mut words = tree::class_numbers(&cbq, one.class, of_file);
            // Its place in the round tells it from an earlier one.
            words[POSITION] = of_file + one.serial;
            if let Some(leaf) = numbers.get_mut(tree::words_of(self.leaf(one.place))) {
                leaf.copy_from_slice(&words);
            }
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::cbq_class_options::{LEVEL, PARENT, RATE};
    use crate::options::cbq_options::LEAVES;
    use crate::plan::tests::{config, reserving};
    use tidegate_config::edit;
    use tidegate_core::cbq::Class;
    use tidegate_core::{Rate, Span};
    use tidegate_engine::Names;

    fn places(keys: &str) -> Places {
        let config = config(&format!("[interface]\ndata-path = \"kernel\"\n{}", reserving(keys)));
        let names = Names::default();
        let setup = Setup { seed: 7, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names };
        let plan = Plan::new(&config, None, 7).unwrap();
        Places::new(&config, &setup, &plan).expect("reservations")
    }

    fn made(place: u32, serial: u64) -> OffloadedReservation {
        let matches = edit::matching(&[("destination-port".into(), "5004".into())]).expect("a port");
        let params = Class::new(Rate::from_mbit(3)).borrowing();
        let (class, buffer) = (ClassId(32_768 + place), Bytes::new(200_000));
        OffloadedReservation { place, serial, class, params, buffer, matches }
    }

    /// They are behind those of the file, vacant until they are made, and the tree goes on meanwhile.
    #[test]
    fn a_reservation_has_the_leaf_of_its_place() {
        let places = places("flows = 4");
        let (vacant, one) = (places.tree(&[]), places.tree(&[made(1, 9)]));
        assert_eq!((vacant[LEAVES], one[LEAVES]), (6, 6));
        let leaf = |tree: &[u64], leaf| tree[tree::words_of(leaf)].to_vec();
        assert!((2..6).flat_map(|at| leaf(&vacant, at)).all(|word| word == 0));
        let words = leaf(&one, 3);
        // Its class is below the first one that is no leaf.
        assert_eq!([PARENT, LEVEL, POSITION, RATE].map(|at| words[at]), [65, 1, 11, 3_000_000]);
        let mut others = (0..vacant.len()).filter(|at| vacant[*at] != one[*at]);
        assert!(others.all(|at| tree::words_of(3).contains(&at)));
        assert!(tree::continues(|at| vacant[at], &one, &places.classes.reserved));
        assert!(!tree::continues(|at| vacant[at], &one, &(2..3)), "another leaf is another tree");
        assert_ne!(leaf(&places.tree(&[made(1, 10)]), 3), words, "another reservation in its place");
    }

    /// The limit of its queue is another, and the structure is not.
    #[test]
    fn its_queue_has_the_buffer_of_the_reservation() {
        use crate::options::fbq_options::STRUCTURE;
        let places = places("flows = 4");
        let before = places.classes.numbers(&[], true, |_| 0);
        let mut limited = before.clone();
        places.limit(&[made(1, 9)], &mut limited);
        let changed: Vec<_> = (0..before.len()).filter(|at| before[*at] != limited[*at]).collect();
        assert_eq!(changed.iter().map(|at| (before[*at], limited[*at])).collect::<Vec<_>>(), [(81_920, 200_000)]);
        let again = places.classes.numbers(&[], true, |at| limited[at]);
        assert_eq!(again[STRUCTURE], before[STRUCTURE]);
        places.limit(&[], &mut limited);
        assert_eq!(limited, before);
    }

    /// The first result is of packets without a rule, then each rule has one: class and profile.
    #[test]
    fn its_rule_is_ahead_of_those_of_the_file() {
        let places = places("flows = 4");
        let results = |image: &[u64], rules: usize| -> Vec<(u64, u64)> {
            let at = image[4] as usize;
            (0..=rules).map(|rule| image[at + 2 * rule]).map(|pair| (pair & 0xffff_ffff, pair >> 32)).collect()
        };
        assert_eq!(results(&places.image(&[], None).unwrap(), 1), [(1, 0), (0, 1)]);
        assert_eq!(results(&places.image(&[made(1, 9)], None).unwrap(), 2), [(1, 0), (3, 2), (0, 1)]);
        assert_eq!(places.lacks(&made(1, 9).matches), None);
    }
}
