//! Another configuration for a shaping that runs.

use tidegate_config::shaper::Config;
use tidegate_engine::{PreparedConfig, Setup, SwapReport, guarded};

use super::{Command, Rules, Shaping, Spec, StartError, find, permission, resolve};
use crate::timing;

impl Shaping {
    /// What is in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Goes on with `config`, without losing or reordering a packet (see [`tidegate_engine::swap`]), and proves it as at the
    /// start. Rules and tree are built here; the data path only exchanges them. `text` is what `config` was read from, for
    /// recordings. Tell the listeners of the names of classes afterwards.
    ///
    /// # Errors
    /// See [`StartError`]; what was in force is in force again then. Interface and direction must stay what they are.
    pub fn reconfigure(&mut self, config: &Config, text: Option<&str>) -> Result<SwapReport, StartError> {
        let named = config.interface.name.as_ref().filter(|name| !self.named && **name != self.interface);
        if let Some(name) = named {
            return Err(StartError::Change(format!(
                "{} is being shaped, and the file is for {name}; stop, and start again for another interface",
                self.interface
            )));
        }
        if config.interface.direction != self.direction {
            return Err(StartError::Change("a running shaper cannot change its direction; start another".into()));
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
        // Tags of old groups keep their meaning, and packets come with new ones only after the next step.
        self.groups.clone_from(&groups);
        self.say(Command::Groups(groups))?;
        self.retag(&spec)?;
        let swapped = self.exchange(next).inspect_err(|_| {
            let _ = self.retag(&before.2);
        })?;
        (self.config, self.setup, self.spec) = (config.clone(), setup, spec);
        self.class_names = self.with(|engine, _| engine.class_names().to_vec())?;
        let proof = find(&self.interface).and_then(|index| self.prove(config, index));
        match proof {
            Ok(proof) => {
                self.proof = proof;
                Ok(swapped)
            }
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

    fn exchange(&mut self, next: PreparedConfig<super::Handle>) -> Result<SwapReport, StartError> {
        let outcome = self.change(move |engine, now, gate| engine.swap(next, now, gate))?;
        // What is left over is freed here and not on the data path; a discipline that panics at that harms nobody.
        let swapped = outcome.map(|(swapped, spare)| {
            let _ = guarded(|| drop(spare));
            swapped
        });
        swapped.map_err(|refused| StartError::Change(refused.to_string()))
    }

    fn retag(&mut self, spec: &Spec) -> Result<(), StartError> {
        super::lifeline::lock(&self.rules)
            .as_mut()
            .map_or(Ok(()), |rules: &mut Rules| rules.retag(spec))
            .map_err(permission)
    }
}
