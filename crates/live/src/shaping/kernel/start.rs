//! Starting, proving and ending a data path in the kernel.

use std::sync::Arc;

use tidegate_config::shaper::{Config, DataPath};
use tidegate_engine::{Engine, Setup};

use super::programs::Discipline;
use super::worker::KernelWorker;
use super::{KernelPath, remove_left};
use crate::guardian::Page;
use crate::probe::Version;
use crate::rtnl::Rtnl;
use crate::rules::Spec;
use crate::shaping::error::{StartError, Unproven, system};
use crate::shaping::find::{find, wanted};
use crate::shaping::interfaces::{InterfaceCounters, Proof, ShapedInterface};
use crate::shaping::options::Options;
use crate::shaping::owners::resolve;
use crate::shaping::prove::{Retry, is_carried};
use crate::shaping::thread::PathThread;
use crate::shaping::watchdog::WorkerState;
use crate::shaping::worker::{Command, WorkerCounts};
use crate::shaping::{Shaping, random};
use crate::timing;

/// The program for a data path that is to be in the kernel; or why it is in user space, where either is possible.
///
/// # Errors
/// Why it cannot be in the kernel, where it must.
pub(in crate::shaping) fn choose(
    config: &Config,
    options: &Options,
) -> Result<(Option<Arc<Discipline>>, Option<String>), StartError> {
    let wanted = options.data_path.unwrap_or(config.interface.data_path);
    if wanted == DataPath::UserSpace {
        return Ok((None, None));
    }
    let refused = |what: &str| StartError::NotInKernel { what: what.into() };
    let found = super::check(config)
        .and_then(|()| if options.recorder.is_some() { Err(refused("recording")) } else { Ok(()) })
        .and_then(|()| options.kernel.take(config).map_err(StartError::NoKernelProgram));
    match (found, wanted) {
        (Ok(discipline), _) => Ok((Some(discipline), None)),
        (Err(error), DataPath::Auto) => Ok((None, Some(error.reason()))),
        (Err(error), _) => Err(error),
    }
}

impl Shaping {
    /// As [`start`](Self::start), in the kernel.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind then.
    pub(in crate::shaping) fn start_in_kernel(
        config: &Config,
        options: &Options,
        discipline: Arc<Discipline>,
    ) -> Result<Self, StartError> {
        let names = wanted(config, options)?;
        let [name] = &names[..] else {
            return Err(StartError::NotInKernel { what: "several interfaces under one total".into() });
        };
        let (index, direction) = (find(name)?, config.interface.direction);
        let (mut counters, interfaces) = InterfaceCounters::new(direction, &[(name.clone(), Some(index))], 1);
        let (owners, _, groups) = resolve(config, Vec::new())?;
        let secret = match options.secret {
            Some(secret) => secret,
            None => random()?,
        };
        let setup = Setup { seed: secret[0], secret, catch_up: options.catch_up, names: owners };
        let engine = Engine::new(config, &setup, timing::now())?;
        let class_names = engine.class_names().to_vec();
        let page = Page::create().map_err(system("share memory"))?;
        let state = Arc::new(WorkerState::new(Arc::new(page)));
        // From here on a failure drops `path`, which gives the interface its default discipline.
        let (path, warnings) = KernelPath::attach(Arc::clone(&discipline), name, index, config, setup.clone())?;
        let (counters, of_thread, marks) = (counters.remove(0), Arc::clone(&state), options.marks);
        let run = move |commands, waker, ready: &_| {
            KernelWorker { engine, discipline, commands, waker, state: of_thread, counters, marks, read_at: 0 }
                .run(ready)
        };
        let (thread, readiness) = PathThread::start([0, 0], state, run)?;
        let mut shaping = Self {
            interfaces,
            direction,
            rules: None,
            installed: None,
            kernel: Some(path),
            threads: vec![thread],
            reports: Vec::new(),
            readiness,
            warnings,
            may_be_bypassed: false,
            retry: Retry::start(),
            class_names,
            config: config.clone(),
            setup,
            spec: Spec::new(name, 0),
            groups,
            named: !options.interfaces.is_empty(),
            unguarded: None,
        };
        shaping.prove(config)?;
        Ok(shaping)
    }

    /// The name of the discipline in the kernel, for a data path that is there.
    pub fn in_kernel(&self) -> Option<&str> {
        self.kernel.as_ref().map(KernelPath::name)
    }

    /// Reads back what is at the root of the interface, and which protocols have come through.
    pub(in crate::shaping) fn prove_in_kernel(&mut self) -> Result<(), StartError> {
        let inspection = self.inspect()?;
        if !inspection.differences.is_empty() {
            let failures = inspection.differences.iter().map(|it| Unproven::Rule(it.to_string())).collect();
            return Err(StartError::Unproven { interface: self.interface(), failures });
        }
        let class = self.class_names.first().cloned().unwrap_or_default();
        for interface in &mut self.interfaces {
            let mut proof = Proof::default();
            let mut came = Vec::new();
            for version in [Version::V4, Version::V6] {
                match is_carried(interface.name(), version) {
                    Err(why) => proof.not_carried.push((version, why)),
                    Ok(()) if interface.has_received(version) => came.push(version),
                    Ok(()) => proof.awaited.push((version, "no packet has left since".into())),
                }
            }
            if !came.is_empty() {
                proof.proven.push((class.clone(), came));
            }
            interface.proof = proof;
        }
        Ok(())
    }

    /// Removes what an earlier run has left in the kernel, for a data path in user space. Returns notes for people.
    pub(in crate::shaping) fn remove_left_in_kernel(&self) -> Vec<String> {
        let remove = |index| Rtnl::open().and_then(|mut rtnl| remove_left(&mut rtnl, index));
        let left = |interface: &&ShapedInterface| interface.index().is_some_and(|index| remove(index).unwrap_or(false));
        let note = |name: &str| {
            format!("the kernel went on shaping {name} as an earlier run had configured it; that has been removed")
        };
        self.interfaces.iter().filter(left).map(|interface| note(interface.name())).collect()
    }

    /// Ends the thread, and then shaping.
    pub(in crate::shaping) fn end_in_kernel(&mut self, path: &KernelPath) -> Result<WorkerCounts, StartError> {
        let thread = &mut self.threads[0];
        let _ = thread.send(Command::Stop);
        let ended = if thread.state.is_abandoned() {
            thread.detach(std::time::Instant::now());
            Err(StartError::DataPath("it was given up".into()))
        } else {
            thread.join()
        };
        path.detach()?;
        ended
    }
}
