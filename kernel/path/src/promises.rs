//! [`Promises`]: promises and their conditions as numbers for the program.

use tidegate_core::classify;
use tidegate_engine::{PromiseTable, Promised};

use super::classes::{PROMISES, displacement};
use super::options::fbq_options::CONDITIONS;
use super::options::fbq_promise::WORDS as PROMISE;
use super::options::{FBQ_PROMISES, RULE_STEPS, RULES};

/// Promises in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promises {
    /// `struct twin_fbq_promise` of each place that was ever taken.
    places: Vec<[u64; PROMISE]>,
    /// Their conditions, as an image of rules.
    conditions: Option<Vec<u64>>,
    /// Whether conditions or watches need the users of flows.
    users: bool,
    /// The number of changes so far.
    changes: u64,
}

impl Promises {
    /// Replaces the promises. A promise that stays keeps its place.
    ///
    /// # Errors
    /// When there is no place, or the conditions cannot be looked up.
    pub fn replaced(&self, promised: &[Promised], table: &PromiseTable) -> Result<Self, String> {
        if promised.len() > FBQ_PROMISES as usize {
            return Err(format!("{} promises (up to {FBQ_PROMISES} are possible in the kernel)", promised.len()));
        }
        let mut places = self.places.clone();
        for place in &mut places {
            if !promised.iter().any(|promise| promise.number == place[0]) {
                *place = [0; PROMISE];
            }
        }
        for promise in promised {
            let (number, class, terms) = (promise.number, promise.class.0.into(), promise.terms);
            let [below, to] = displacement(terms.displace);
            let numbers = [number, class, terms.minimum.as_bps(), promise.flows.into(), terms.steps.into(), below, to];
            let free = |wanted: u64| places.iter().position(|place| place[0] == wanted);
            match free(promise.number).or_else(|| free(0)) {
                Some(place) => places[place] = numbers,
                None => places.push(numbers),
            }
        }
        // A condition without its promise leads to none.
        let place_of = |number| places.iter().position(|place| place[0] == number).map(|place| place as u32);
        let conditions = table.image(place_of).map_err(|error| error.to_string())?;
        Ok(Self { conditions, users: table.watches_users(), changes: self.changes + 1, places })
    }

    /// No promises, as a change of these.
    pub fn ended(&self) -> Self {
        Self { changes: self.changes + 1, ..Self::default() }
    }

    /// The rules of classes, followed by the conditions.
    pub fn beside(&self, rules: Vec<u64>) -> Vec<u64> {
        if rules.is_empty() {
            return rules;
        }
        classify::beside(rules, self.conditions.as_deref().unwrap_or_default(), self.users)
    }

    /// Writes these promises into the numbers of classes.
    pub fn among(&self, mut classes: Vec<u64>) -> Vec<u64> {
        classes[CONDITIONS] = self.changes;
        for (at, number) in (PROMISES..).zip(self.places.iter().flatten()) {
            classes[at] = *number;
        }
        classes
    }
}

/// Whether the rules of classes and the conditions of promises have room in the program together.
///
/// # Errors
/// The numbers that they have and may have.
pub(super) fn room_for(rules: &[u64], promises: &Promises) -> Result<(), String> {
    let conditions = promises.conditions.as_deref().unwrap_or_default();
    let steps = |image: &[u64]| image.get(1).copied().unwrap_or(0);
    let (size, steps) = ((rules.len() + conditions.len()) as u64, steps(rules).max(steps(conditions)));
    if size <= RULES && steps <= RULE_STEPS {
        return Ok(());
    }
    Err(format!("{size} numbers and {steps} steps (up to {RULES} and {RULE_STEPS} are possible)"))
}
