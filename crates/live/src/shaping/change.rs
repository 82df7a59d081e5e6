//! Replacing the configuration of a running shaper.

use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tidegate_config::shaper::{Config, DataPath, Rule};
use tidegate_config::values::{Mac, Times, WeekMinute};
use tidegate_engine::guard::lock;
use tidegate_engine::{Names, PreparedConfig, QuotaState, Setup, SwapKind, SwapReport, guarded};
use tidegate_units::{Instant, Rate};

use super::command::{LiveEngine, VerdictSink};
use super::named::{has_answered, has_names};
use super::owners::{devices, has_macs};
use super::{Beside, Shaping, StartError, offload};
use crate::{netlink, timing};

/// A change that is not proven yet.
#[derive(Debug)]
#[must_use]
pub struct Change {
    /// The earlier configuration, to go back to.
    before: (Config, Setup),
}

/// A move to another data path that has not ended.
#[derive(Debug)]
#[must_use]
pub struct Move {
    /// The data path that has the packets until then.
    earlier: Box<Shaping>,
    /// Whether this data path can have the configuration as well.
    is_choice: bool,
}

impl Shaping {
    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.running.config
    }

    /// Replaces the configuration by `config` without losing or reordering a packet (see [`tidegate_engine::swap`]),
    /// and proves it as at the start. Rules and tree are built on the calling thread; the data path only exchanges
    /// them. `text` is the source of `config`, for recordings. The caller informs listeners of the names of classes
    /// afterwards.
    ///
    /// # Errors
    /// See [`StartError`]; the earlier configuration is in force again then. Interface and direction cannot change.
    pub fn reconfigure(&mut self, config: &Config, text: Option<&str>) -> Result<SwapReport, StartError> {
        let (swapped, change) = self.begin_change(config, text)?;
        self.prove_change(change).map(|()| swapped)
    }

    /// Does a change up to its proof, which is to follow by [`prove_change`](Self::prove_change). In between, engines that have lost what
    /// flows had been promised can be given it again: a proof takes its time, and packets pass meanwhile.
    ///
    /// # Errors
    /// As [`reconfigure`](Self::reconfigure).
    pub fn begin_change(&mut self, config: &Config, text: Option<&str>) -> Result<(SwapReport, Change), StartError> {
        self.check_change(config)?;
        let mut names = self.backend.prepare(config)?;
        names.off = self.options.quotas.rules_off(config);
        names.named = self.options.known_names.addresses(config)?;
        if has_answered(config) {
            self.copy_answers()?;
        }
        let before = (self.running.config.clone(), self.running.setup.clone());
        let setup = Setup { names, ..before.1.clone() };
        let next = self.prepared(config, &setup, text)?;
        self.backend.begin_change(&self.running, &setup.names)?;
        let swapped = self.exchange(next, None).inspect_err(|_| {
            let _ = self.backend.revert(&before.0, &before.1.names);
        })?;
        self.backend.finish_change();
        (self.running.config, self.running.setup) = (config.clone(), setup);
        self.running.class_names = self.with(|engine, _| engine.class_names().to_vec())?;
        Ok((swapped, Change { before }))
    }

    /// Proves a change.
    ///
    /// # Errors
    /// When it is not in force; the earlier configuration is again then.
    pub fn prove_change(&mut self, change: Change) -> Result<(), StartError> {
        match self.backend.prove(&mut self.running) {
            Ok(()) => Ok(()),
            Err(error) => {
                (self.running.config, self.running.setup) = change.before;
                let back = self.prepared(&self.running.config, &self.running.setup, None)?;
                self.exchange(back, None)?;
                self.backend.revert(&self.running.config, &self.running.setup.names)?;
                self.running.class_names = self.with(|engine, _| engine.class_names().to_vec())?;
                Err(error)
            }
        }
    }

    /// Has answers of the Domain Name System copied by the rules of this data path, unless those of another one do.
    pub(super) fn copy_answers(&mut self) -> Result<(), netlink::Error> {
        let Self { running, backend, options, copies, .. } = self;
        let interface = running.interfaces.first().map_or("", |interface| interface.name());
        options.known_names.copied_by(copies, backend.queue_mut(), (interface, running.direction))
    }

    /// Puts the rules in force that hold at this minute and have not used up their quota, with the addresses that devices and the numbers
    /// that interfaces have now, if these are others than before: by the same change as [`reconfigure`](Self::reconfigure), so that no
    /// packet is lost or overtaken.
    /// `rate` is the total rate of a line that varies, which stays. Returns whether other rules hold than before; devices choose
    /// their addresses, so that these are not worth a line in a log. Without a change it costs a look at the clock, with `mac` at
    /// the table of neighbours, and with `dns-name` at the answers since the last call.
    ///
    /// # Errors
    /// When the data path does not answer; the next call tries again.
    pub fn renew_rules(&mut self, rate: Option<Rate>) -> Result<bool, StartError> {
        self.options.known_names.forget_unwanted();
        if has_answered(&self.running.config) {
            // The data path whose rules copied them may have ended. A failure is tried again in a second.
            let _ = self.copy_answers();
        }
        let (config, before) = (&self.running.config, &self.running.setup.names);
        let (has_macs, has_names) = (has_macs(config), has_names(config));
        if config.timed_rule().is_none() && !has_macs && !has_names && before.interfaces.is_none() {
            return Ok(false);
        }
        let off = self.options.quotas.rules_off(config);
        // A table that cannot be read now is no reason to forget devices.
        let macs = has_macs.then(|| devices(config).ok()).flatten().unwrap_or_else(|| before.macs.clone());
        let named = self.options.known_names.addresses(config).unwrap_or_else(|_| before.named.clone());
        let mut names = Names { off, macs, named, ..before.clone() };
        if let (Some(numbers), Ok(found)) = (&mut names.interfaces, self.backend.interfaces(config)) {
            *numbers = found;
        }
        if names == *before {
            return Ok(false);
        }
        let others_hold = names.off != before.off;
        let setup = Setup { names, ..self.running.setup.clone() };
        let next = self.prepared(&self.running.config, &setup, None)?;
        self.backend.renew_rules(&self.running.config, &setup.names)?;
        self.exchange(next, rate)?;
        self.running.setup = setup;
        Ok(others_hold)
    }
    /// The indices of the rules that do not hold now, by their times or their quotas.
    pub fn rules_off(&self) -> &std::collections::BTreeSet<u32> {
        &self.running.setup.names.off
    }
    /// The names in rules, with the addresses that they have in the data path.
    pub fn named(&self) -> &super::Addresses {
        &self.running.setup.names.named
    }
    /// The addresses that the table of neighbours had for the device of a rule, in the data path.
    pub fn addresses_of(&self, device: &Mac) -> Vec<IpAddr> {
        self.running.setup.names.macs.get(device).into_iter().flatten().copied().collect()
    }
    /// The rules with a quota, and how far they have used it up.
    pub fn quotas(&self) -> Vec<QuotaState> {
        self.options.quotas.states(&self.running.config)
    }
    /// The rules that hold at some times only: their indices, whether they hold now, and the minute of the week at which this
    /// changes next.
    pub fn timed_rules(&self) -> Vec<(usize, bool, Option<WeekMinute>)> {
        let now = timing::week_minute();
        let timed = |(at, rule): (usize, &Rule)| {
            let when = &rule.matches.when;
            // A rule that is off by its quota may be within its times.
            let is_off = self.running.setup.names.off.contains(&(at as u32));
            let holds = !is_off || rule.matches.quota.is_some() && rule.matches.holds_at(now);
            (!when.is_empty()).then(|| (at, holds, Times::next_change(when, now)))
        };
        self.running.config.rules.iter().enumerate().filter_map(timed).collect()
    }

    /// Sets the total rate of all classes, which keep their shares of it, until the next change of the configuration. Packets and
    /// flows are not touched. Returns `false` for a discipline without a total.
    ///
    /// # Errors
    /// When the data path does not answer, or the scheduler in the kernel refuses the rate.
    pub fn set_line_rate(&mut self, rate: Rate) -> Result<bool, StartError> {
        if self.in_kernel().is_none() {
            let done =
                self.each(|| move |engine: &mut LiveEngine, now, _: &mut VerdictSink| engine.follow(now, rate))?;
            return Ok(done.into_iter().all(|done| done));
        }
        let Some(config) = self.running.config.at_rate(rate) else { return Ok(false) };
        self.backend.prepare(&config)?;
        let next = self.prepared(&config, &self.running.setup, None)?;
        self.backend.begin_change(&self.running, &self.running.setup.names)?;
        self.exchange(next, None).inspect_err(|_| {
            let _ = self.backend.revert(&self.running.config, &self.running.setup.names);
        })?;
        self.backend.finish_change();
        Ok(true)
    }

    /// Checks that a running data path can change to `config`.
    fn check_change(&self, config: &Config) -> Result<(), StartError> {
        let names = &config.interface.names;
        let is_other = || names.iter().ne(self.running.interfaces.iter().map(|interface| interface.name()));
        if !self.named && !names.is_empty() && is_other() {
            return Err(StartError::Change(format!(
                "{} is being shaped, and the file is for {}; stop, and start again for another interface",
                self.interface(),
                names.join(" + ")
            )));
        }
        if config.interface.direction != self.running.direction {
            return Err(StartError::Change("a running shaper cannot change its direction; start another".into()));
        }
        Ok(())
    }

    /// Whether `config` is to be put in force by [`begin_move`](Self::begin_move): its packets are queued in the kernel and not in this
    /// process, or the other way round.
    ///
    /// # Errors
    /// Why the kernel, where `config` must be, does not take it.
    pub fn moves(&self, config: &Config) -> Result<bool, StartError> {
        let wanted = self.options.data_path.unwrap_or(config.interface.data_path);
        let taken = || offload::take(config, &self.options, wanted).map(drop);
        match (wanted, self.in_kernel()) {
            (DataPath::UserSpace, here) => Ok(here.is_some()),
            (DataPath::Kernel, Some(_)) => Ok(false),
            (DataPath::Kernel, None) => taken().map(|()| true),
            // Its own program is in use, so that only a file is a reason to leave it.
            (DataPath::Auto, Some(_)) => Ok(matches!(taken(), Err(StartError::NotInKernel { .. }))),
            (DataPath::Auto, None) => Ok(taken().is_ok()),
        }
    }

    /// Whether a scheduler in the kernel is being made ready for this data path, which queues packets here until then.
    pub fn awaits_kernel(&self) -> bool {
        self.awaited.is_some()
    }

    /// Whether the scheduler in the kernel that is awaited is there now, so that the configuration in force is to be put in force by
    /// [`begin_move`](Self::begin_move); an error says why it is awaited no longer. `None` while there is nothing new.
    pub fn awaited(&mut self) -> Option<Result<(), StartError>> {
        let before = self.awaited?;
        let now = offload::loading(&self.options);
        let is_missing = self.running.interfaces.iter().any(|interface| interface.index().is_none());
        // There is no place for it while an interface is missing.
        if now == before || is_missing {
            return None;
        }
        let config = &self.running.config;
        let wanted = self.options.data_path.unwrap_or(config.interface.data_path);
        if wanted != DataPath::Auto {
            self.awaited = None;
            return None;
        }
        let taken = match offload::take(config, &self.options, wanted) {
            Err(StartError::KernelLoading) => {
                self.awaited = Some(now);
                return None;
            }
            taken => taken.map(drop),
        };
        self.awaited = None;
        Some(taken)
    }

    /// Makes another data path by `config` ready, which takes the place of this one in `self`. Until
    /// [`finish_move`](Self::finish_move) this one has the packets; meanwhile the other one can be given promises and reservations, so that
    /// no packet of these is queued without them. The counters of classes begin anew, and whoever has handles of this data
    /// path needs new ones. `None` where the kernel was chosen and cannot be had after all: `self` is as before, with a warning that
    /// says why, and the change is for [`begin_change`](Self::begin_change).
    ///
    /// # Errors
    /// See [`StartError`]; the earlier configuration stays in force then.
    pub fn begin_move(&mut self, config: &Config) -> Result<Option<Move>, StartError> {
        let mut options = self.options.clone();
        if self.named {
            options.interfaces = self.running.interfaces.iter().map(|one| one.name().to_owned()).collect();
        }
        let is_choice = self.in_kernel().is_none() && !offload::must(config, &options);
        match Self::prepare_by(config, &options, None, Beside::Earlier) {
            Ok(other) => Ok(Some(Move { earlier: Box::new(std::mem::replace(self, other)), is_choice })),
            Err(error) if is_choice => {
                self.warnings = vec![error.reason()];
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Ends a move before the other data path shapes, for this reason. `None` as for [`begin_move`](Self::begin_move).
    ///
    /// # Errors
    /// The reason, where `config` must be there.
    pub fn cancel_move(&mut self, change: Move, why: String) -> Result<Option<SwapReport>, StartError> {
        self.restore(*change.earlier);
        if !change.is_choice {
            return Err(StartError::Change(why));
        }
        self.warnings = vec![why];
        Ok(None)
    }

    /// Ends this data path, and goes on with the earlier one. The table of holds stays: with its chain would go what waits in the queue of
    /// the earlier one.
    fn restore(&mut self, earlier: Self) {
        let mut other = std::mem::replace(self, earlier);
        // The earlier one shapes whether or not this one could leave the interface in order.
        let _ = other.backend.end(&mut other.running);
    }

    /// Has the other data path shape, proves it, and ends the earlier one, which lets packets that wait pass in order: nothing is lost
    /// or overtaken. `None` as for [`begin_move`](Self::begin_move).
    ///
    /// # Errors
    /// See [`StartError`]; the earlier data path is in `self` again then, as before the move.
    pub fn finish_move(&mut self, change: Move) -> Result<Option<SwapReport>, StartError> {
        let Move { mut earlier, is_choice } = change;
        // Rules of the same name are the lock from then on.
        earlier.running.locks.clear();
        if let Err(error) = self.begin_beside(Beside::Earlier).and_then(|()| self.prove()) {
            self.restore(*earlier);
            if self.in_kernel().is_some() {
                self.running.lock()?;
            }
            if !is_choice {
                return Err(error);
            }
            self.warnings = vec![error.reason()];
            return Ok(None);
        }
        earlier.backend.end(&mut earlier.running)?;
        if self.in_kernel().is_some() {
            self.running.lock()?;
        }
        Ok(Some(SwapReport { how: SwapKind::Replaced, rehomed: 0 }))
    }

    /// A configuration for each thread.
    fn prepared(&self, config: &Config, setup: &Setup, text: Option<&str>) -> Result<Vec<PreparedConfig>, StartError> {
        // The numbers are those of the backend. Engines are asked by the names of interfaces.
        let mut setup = setup.clone();
        setup.names.interfaces.iter_mut().for_each(|numbers| numbers.clear());
        let one = |_| {
            let next = PreparedConfig::new(config, &setup, timing::now())?;
            Ok(match text {
                Some(text) => next.with_text(text),
                None => next,
            })
        };
        self.running.threads.iter().map(one).collect()
    }

    /// Exchanges the configurations of all threads. A line that varies has the total `rate`, if it is given.
    fn exchange(&mut self, next: Vec<PreparedConfig>, rate: Option<Rate>) -> Result<SwapReport, StartError> {
        let barrier = Arc::new(Barrier::new(next));
        let outcomes = self.each(|| {
            let barrier = Arc::clone(&barrier);
            move |engine: &mut LiveEngine, now, sink: &mut VerdictSink| match barrier.next(now) {
                Some(next) => {
                    let done = engine.swap(next, now, sink).map_err(|refused| refused.to_string())?;
                    rate.map(|rate| engine.follow(now, rate));
                    Ok(done)
                }
                None => Err("there is no configuration for this thread".into()),
            }
        })?;
        let mut all = SwapReport { how: SwapKind::InPlace, rehomed: 0 };
        for outcome in outcomes {
            // Reservations, which alone can be in the way, are made where there is one thread.
            let (swapped, spare) = outcome.map_err(StartError::Change)?;
            // The replaced tree is freed here and not on the data path, where a panic of a discipline would stop shaping.
            let _ = guarded(|| drop(spare));
            all = SwapReport { how: swapped.how, rehomed: all.rehomed + swapped.rehomed };
        }
        Ok(all)
    }
}

/// Lets the threads of a data path wait for each other before they exchange their configurations, so that no thread sends at the
/// earlier rates when another one already sends at the new ones.
struct Barrier {
    state: Mutex<Waiting>,
    all_are_here: Condvar,
}

struct Waiting {
    next: Vec<PreparedConfig>,
    missing: usize,
    begun: bool,
}

/// The longest wait for a thread that the system does not run.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

impl Barrier {
    fn new(next: Vec<PreparedConfig>) -> Self {
        let state = Waiting { missing: next.len(), next, begun: false };
        Self { state: Mutex::new(state), all_are_here: Condvar::new() }
    }

    /// Waits for the other threads, and returns the configuration of this one. Several have a pool in common, which begins
    /// without credit.
    fn next(&self, now: Instant) -> Option<PreparedConfig> {
        let mut state = lock(&self.state);
        state.missing -= 1;
        if state.missing > 0 {
            let wait = self.all_are_here.wait_timeout_while(state, LONGEST_WAIT, |state| !state.begun);
            state = wait.map_or_else(|error| error.into_inner().0, |(state, _)| state);
        }
        if !state.begun {
            state.begun = true;
            if state.next.len() > 1 {
                PreparedConfig::share(&mut state.next, now);
            }
            self.all_are_here.notify_all();
        }
        state.next.pop()
    }
}
