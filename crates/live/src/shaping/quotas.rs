//! [`Quotas`]: what rules with a quota have used, shared by all data paths of a process.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tidegate_config::shaper::Config;
use tidegate_engine::guard::lock;
use tidegate_engine::{Ledger, QuotaState};

use super::command::{LiveEngine, VerdictSink};
use super::{Shaping, StartError};
use crate::timing;

/// The counts of all rules with a quota. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Quotas(Arc<Mutex<Ledger>>);

impl Quotas {
    /// Goes on with the counts of `ledger`.
    pub fn restore(&self, ledger: Ledger) {
        *lock(&self.0) = ledger;
    }
    /// The counts so far.
    pub fn ledger(&self) -> Ledger {
        lock(&self.0).clone()
    }
    /// The rules of `config` with a quota. One that was not counted before begins now.
    pub fn states(&self, config: &Config) -> Vec<QuotaState> {
        let mut ledger = lock(&self.0);
        ledger.settle(config, timing::today(), []);
        ledger.states(config)
    }
    /// The indices of the rules of `config` that match nothing now: it is not their time, or their quota is used up.
    pub(super) fn rules_off(&self, config: &Config) -> BTreeSet<u32> {
        let mut off = config.rules_off(timing::week_minute());
        if config.quotas().next().is_some() {
            let mut ledger = lock(&self.0);
            ledger.settle(config, timing::today(), []);
            off.extend(ledger.used_up(config));
        }
        off
    }
}

impl Shaping {
    /// Adds what the rules with a quota have taken since the last call to the quotas of the options.
    ///
    /// # Errors
    /// When the data path does not answer; the next call has the rest.
    pub fn settle_quotas(&self) -> Result<(), StartError> {
        if self.running.config.quotas().next().is_none() {
            return Ok(());
        }
        let counted = self.each(|| |engine: &mut LiveEngine, _, _: &mut VerdictSink| engine.take_quotas())?;
        lock(&self.options.quotas.0).settle(&self.running.config, timing::today(), counted.into_iter().flatten());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::{Diagnostics, Source, shaper};

    /// As where the file of an earlier process was refused: `status` is asked before the first second is over.
    #[test]
    fn a_rule_that_was_not_counted_before_has_its_whole_quota() {
        let text = "version = 1\n[[class]]\nname = \"a\"\nrate = \"1mbit\"\ndefault = true\n\
                    [[rule]]\nclass = \"a\"\nquota = \"1kB/day\"\n";
        let config = shaper::load(&Source::new("quota.toml", text), &mut Diagnostics::new()).expect("valid");
        let quotas = Quotas::default();
        quotas.restore(Ledger::default());
        let states = quotas.states(&config);
        assert_eq!(states.iter().map(|state| state.left().as_u64()).collect::<Vec<_>>(), [1_000]);
    }
}
