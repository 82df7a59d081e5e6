//! Replacing the configuration of a running shaper.

use tidegate_config::shaper::{Config, DataPath};
use tidegate_engine::{PreparedConfig, Setup, SwapReport, guarded};

use super::{Command, Shaping, Spec, StartError, kernel, permission, resolve};
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
        if self.kernel.is_some() {
            kernel::check(config)?;
        }
        let before = (self.config.clone(), self.setup.clone(), self.spec.clone());
        let (names, tags, groups) = resolve(config, self.groups.clone())?;
        let setup = Setup { names, ..self.setup.clone() };
        let spec = Spec { tags, ..self.spec.clone() };
        let next = PreparedConfig::new(config, &setup, timing::now())?;
        let next = match text {
            Some(text) => next.with_text(text),
            None => next,
        };
        // Tags of earlier groups keep their meaning; packets bear new ones only after the next step.
        self.groups.clone_from(&groups);
        self.send(Command::Groups(groups))?;
        self.retag(&spec)?;
        let swapped = self.exchange(next).inspect_err(|_| {
            let _ = self.retag(&before.2);
        })?;
        if let Some(path) = &mut self.kernel {
            path.reconfigure(config)?;
        }
        (self.config, self.setup, self.spec) = (config.clone(), setup, spec);
        self.class_names = self.with(|engine, _| engine.class_names().to_vec())?;
        match self.prove(config) {
            Ok(()) => Ok(swapped),
            Err(error) => {
                (self.config, self.setup, self.spec) = before;
                let back = PreparedConfig::new(&self.config, &self.setup, timing::now())?;
                self.exchange(back)?;
                let spec = self.spec.clone();
                self.retag(&spec)?;
                self.class_names = self.with(|engine, _| engine.class_names().to_vec())?;
                Err(error)
            }
        }
    }

    fn exchange(&mut self, next: PreparedConfig) -> Result<SwapReport, StartError> {
        let outcome = self.change(move |engine, now, sink| engine.swap(next, now, sink))?;
        // What was replaced is freed here and not on the data path, where a panic of a discipline would stop shaping.
        let swapped = outcome.map(|(swapped, spare)| {
            let _ = guarded(|| drop(spare));
            swapped
        });
        swapped.map_err(|refused| StartError::Change(refused.to_string()))
    }

    fn retag(&mut self, spec: &Spec) -> Result<(), StartError> {
        self.rules.as_mut().map_or(Ok(()), |rules| rules.retag(spec)).map_err(permission)
    }
}
