//! `undo`: takes back changes that were kept, the last one first.
//!
//! *Notes*: the configurations of the last [`MOST`] changes are kept in memory, each with who made it. A restart reads the files, and begins without any.

use tidegate_config::edit;
use tidegate_config::shaper::Config;
use tidegate_control::calls::{Applied, Change, Undo};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_engine::SwapKind;
use tidegate_live::shaping::Shaping;

use super::{ConfigStore, Followers, change_all, differences_of, invalid};
use crate::audit::{self, Author};
use crate::directions::ShapedDirection;

/// How many changes can be taken back one after the other.
const MOST: usize = 16;

/// The directions that a change was of, with their configurations before it.
pub(super) type Before = Vec<(usize, Config)>;

/// The last changes, each with the configurations that were in force before it, the latest last.
#[derive(Debug, Default)]
pub(super) struct Earlier(Vec<(Before, Change)>);

impl Earlier {
    /// Remembers what was in force before a change. A change of nothing is none.
    pub fn push(&mut self, before: Before, change: Change) {
        if before.is_empty() {
            return;
        }
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push((before, change));
    }
}

impl ConfigStore {
    /// Answers `undo`.
    pub fn undo(
        &mut self,
        directions: &mut [ShapedDirection],
        mut followers: Followers<'_>,
        author: Author,
        request: &Undo,
    ) -> Result<Applied, Refusal> {
        self.no_trial()?;
        // Files that were read again without a difference were no change for anybody.
        let is_other = |(at, config): &(usize, Config)| !edit::differences(&directions[*at].config, config).is_empty();
        while self.earlier.0.last().is_some_and(|(before, _)| !before.iter().any(is_other)) {
            self.earlier.0.pop();
        }
        let (before, change) = self.earlier.0.last().cloned().ok_or_else(|| {
            Refusal::new(Code::NotFound, "no change was made since the start, or all were taken back")
                .help("`tidegate apply FILE` puts another file in force")
        })?;
        let compared = before.iter().map(|(at, config)| (*at, directions[*at].config.clone(), config));
        let differences = differences_of(directions, compared);
        let mut applied = Applied { differences, undone: Some(change), ..Applied::default() };
        if request.dry_run {
            return Ok(applied);
        }
        self.put_in_force(directions, &mut followers, before, &mut applied)?;
        self.earlier.0.pop();
        let outcome = "the last change was taken back; what was in force before it is in force again";
        audit::report(followers.notifier, author, "undo", outcome, &applied.differences);
        Ok(applied)
    }

    /// Refuses what is not done while a change is on trial.
    pub(super) fn no_trial(&self) -> Result<(), Refusal> {
        let Some(left) = self.trial_left() else { return Ok(()) };
        let left = left.as_nanos().div_ceil(1_000_000_000);
        Err(invalid(format!("a change is on trial for another {left} s"))
            .help("run `tidegate confirm` or `tidegate confirm --rollback` first"))
    }

    /// Puts configurations in force, all or none, unless a change is on trial. Completes `applied`, and returns what was in
    /// force before.
    pub(super) fn put_in_force(
        &self,
        directions: &mut [ShapedDirection],
        followers: &mut Followers<'_>,
        changes: Vec<(usize, Config)>,
        applied: &mut Applied,
    ) -> Result<Before, Refusal> {
        let shapings = directions.iter().filter_map(ShapedDirection::shaping);
        for warning in shapings.flat_map(Shaping::slower) {
            applied.warnings += &format!("warning: {warning}\n");
        }
        self.no_trial()?;
        let in_kernel = |directions: &[ShapedDirection]| -> Vec<Option<bool>> {
            directions.iter().map(ShapedDirection::in_kernel).collect()
        };
        let earlier = in_kernel(directions);
        let (before, swapped) = change_all(directions, followers, changes)?;
        let places = earlier.into_iter().zip(in_kernel(directions)).zip(&*directions);
        for (_, direction) in places.filter(|((before, after), _)| before.is_some() && before != after) {
            applied.warnings += &format!("note: {}\n", direction.moved());
        }
        applied.applied = true;
        applied.in_place = swapped.iter().all(|swapped| swapped.how == SwapKind::InPlace);
        applied.rehomed = swapped.iter().map(|swapped| swapped.rehomed as u64).sum();
        Ok(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::shaper;
    use tidegate_config::{Diagnostics, Source};

    #[test]
    fn the_oldest_changes_are_forgotten_and_changes_of_nothing_are_none() {
        let text = "version = 1\n[discipline]\nkind = \"fifo\"\nlimit = \"4MB\"\n";
        let config = shaper::load(&Source::new("undo.toml", text), &mut Diagnostics::new()).expect("valid");
        let mut earlier = Earlier::default();
        let change = |at: usize| audit::change(Author::Signal, &format!("reload {at}"));
        (0..MOST + 3).for_each(|at| earlier.push(vec![(at, config.clone())], change(at)));
        earlier.push(Vec::new(), change(MOST + 3));
        assert_eq!(earlier.0.len(), MOST);
        let last = earlier.0.last().map(|(before, change)| (before[0].0, &*change.author, &*change.command));
        assert_eq!(last, Some((MOST + 2, "SIGHUP", &*format!("reload {}", MOST + 2))));
    }
}
