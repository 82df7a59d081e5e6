//! Replacing the configuration of a running shaper.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tidegate_config::shaper::{Config, DataPath};
use tidegate_engine::guard::lock;
use tidegate_engine::{PreparedConfig, Setup, SwapKind, SwapReport, guarded};
use tidegate_units::Instant;

use super::{Command, Division, LiveEngine, Shaping, Spec, StartError, VerdictSink, permission, resolve};
use crate::timing;

impl Shaping {
    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Replaces the configuration by `config` without losing or reordering a packet (see [`tidegate_engine::swap`]),
    /// and proves it as at the start. Rules and tree are built on the calling thread; the data path only exchanges
    /// them. `text` is the source of `config`, for recordings. The caller informs listeners of the names of classes
    /// afterwards.
    ///
    /// # Errors
    /// See [`StartError`]; the earlier configuration is in force again then. Interface and direction cannot change.
    pub fn reconfigure(&mut self, config: &Config, text: Option<&str>) -> Result<SwapReport, StartError> {
        let names = &config.interface.names;
        let is_other = || names.iter().ne(self.interfaces.iter().map(|interface| interface.name()));
        if !self.named && !names.is_empty() && is_other() {
            return Err(StartError::Change(format!(
                "{} is being shaped, and the file is for {}; stop, and start again for another interface",
                self.interface(),
                names.join(" + ")
            )));
        }
        if config.interface.direction != self.direction {
            return Err(StartError::Change("a running shaper cannot change its direction; start another".into()));
        }
        let wanted = config.interface.data_path;
        if wanted != self.config.interface.data_path
            && wanted != DataPath::Auto
            && (wanted == DataPath::Kernel) != self.kernel.is_some()
        {
            let text = "a running shaper cannot change where packets are queued; stop, and start again";
            return Err(StartError::Change(text.into()));
        }
        let in_kernel = self.kernel.as_ref().map(|path| path.prepare(config)).transpose()?;
        if Division::of(config) != Division::of(&self.config) {
            let text = "flows would have to move between threads, with another number of them or other addresses to divide \
                        flows by; stop, and start again";
            return Err(StartError::Change(text.into()));
        }
        let before = (self.config.clone(), self.setup.clone(), self.spec.clone());
        let (names, tags, groups) = resolve(config, self.groups.clone())?;
        let setup = Setup { names, ..self.setup.clone() };
        let spec = Spec { tags, ..self.spec.clone() };
        let next = self.prepared(config, &setup, text)?;
        // Tags of earlier groups keep their meaning; packets bear new ones only after the next step.
        self.groups.clone_from(&groups);
        for thread in &self.threads {
            thread.send(Command::Groups(groups.clone()))?;
        }
        self.retag(&spec)?;
        let swapped = self.exchange(next).inspect_err(|_| {
            let _ = self.retag(&before.2);
        })?;
        if let Some((path, prepared)) = self.kernel.as_ref().zip(in_kernel) {
            path.configure(prepared);
        }
        (self.config, self.setup, self.spec) = (config.clone(), setup, spec);
        self.class_names = self.with(|engine, _| engine.class_names().to_vec())?;
        match self.prove(config) {
            Ok(()) => Ok(swapped),
            Err(error) => {
                (self.config, self.setup, self.spec) = before;
                let back = self.prepared(&self.config, &self.setup, None)?;
                self.exchange(back)?;
                let spec = self.spec.clone();
                self.retag(&spec)?;
                if let Some(path) = &self.kernel {
                    path.configure(path.prepare(&self.config)?);
                }
                self.class_names = self.with(|engine, _| engine.class_names().to_vec())?;
                Err(error)
            }
        }
    }

    /// A configuration for each thread.
    fn prepared(&self, config: &Config, setup: &Setup, text: Option<&str>) -> Result<Vec<PreparedConfig>, StartError> {
        let one = |_| {
            let next = PreparedConfig::new(config, setup, timing::now())?;
            Ok(match text {
                Some(text) => next.with_text(text),
                None => next,
            })
        };
        self.threads.iter().map(one).collect()
    }

    fn exchange(&mut self, next: Vec<PreparedConfig>) -> Result<SwapReport, StartError> {
        let barrier = Arc::new(Barrier::new(next));
        let outcomes = self.each(|| {
            let barrier = Arc::clone(&barrier);
            move |engine: &mut LiveEngine, now, sink: &mut VerdictSink| match barrier.next(now) {
                Some(next) => engine.swap(next, now, sink).map_err(|refused| refused.to_string()),
                None => Err("there is no configuration for this thread".into()),
            }
        })?;
        let mut all = SwapReport { how: SwapKind::InPlace, rehomed: 0 };
        for outcome in outcomes {
            // Reservations, which alone can be in the way, are made where there is one thread.
            let (swapped, spare) = outcome.map_err(StartError::Change)?;
            // What was replaced is freed here and not on the data path, where a panic of a discipline would stop shaping.
            let _ = guarded(|| drop(spare));
            all = SwapReport { how: swapped.how, rehomed: all.rehomed + swapped.rehomed };
        }
        Ok(all)
    }

    fn retag(&mut self, spec: &Spec) -> Result<(), StartError> {
        self.rules.as_mut().map_or(Ok(()), |rules| rules.retag(spec)).map_err(permission)
    }
}

/// Where the threads of a data path wait for each other before they exchange their configurations: none sends by the rates of
/// the earlier one once another has those of the next.
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
