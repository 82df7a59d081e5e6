//! The service of an interface: its file, its instance of the unit, and the proof by its status.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tidegate_config::shaper::Config;
use tidegate_control::{Place, Status};
use tidegate_live::doctor::Severity;

use crate::Failure;
use crate::commands::connect::connect;
use crate::commands::doctor::attempt;

/// The begin of every file that is written here.
const MARK: &str = "# Written by `tidegate setup`";
/// How long a service that has started may take to answer.
const ANSWER: Duration = Duration::from_secs(15);

/// The service manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Manager {
    /// systemd: the instance tidegate@INTERFACE
    Systemd,
    /// Nothing: the file is written, and a start by another service manager is described
    None,
}

impl Manager {
    /// systemd where it runs.
    pub fn detect() -> Self {
        if Path::new("/run/systemd/system").exists() { Self::Systemd } else { Self::None }
    }
}

/// The service for an interface.
pub struct Instance {
    interface: String,
    pub file: PathBuf,
    manager: Manager,
}

/// The interfaces for which a file in `directory` was written here.
pub fn set_up_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<String> = entries
        .filter(|path| path.extension().is_some_and(|end| end == "toml") && is_ours(path))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    all.sort();
    all
}

fn is_ours(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.starts_with(MARK))
}

fn failed(what: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| Failure::Failed(format!("{}: {error}; nothing is shaped by it", what.display()))
}

/// Runs `systemctl`, which has time limits of its own; the error has what it reports.
pub fn systemctl(words: &[&str]) -> Result<String, String> {
    let output = Command::new("systemctl").args(words).output().map_err(|error| format!("systemctl: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("systemctl {}: {}{}", words.join(" "), text(&output.stderr), text(&output.stdout)))
    }
}

impl Instance {
    pub fn new(directory: &Path, interface: &str, manager: Manager) -> Self {
        Self { interface: interface.into(), file: directory.join(format!("{interface}.toml")), manager }
    }

    pub fn unit(&self) -> String {
        format!("tidegate@{}", self.interface)
    }

    fn aside(&self) -> PathBuf {
        self.file.with_extension("toml.old")
    }

    /// Checks that neither a file of the administrator's would be replaced nor a unit is missing.
    ///
    /// # Errors
    /// With the way out.
    pub fn check(&self) -> Result<(), Failure> {
        if self.interface.is_empty() || self.interface.contains(['/', '\0']) || self.interface.starts_with('.') {
            return Err(Failure::Usage(format!("`{}` is not the name of an interface", self.interface)));
        }
        let file = self.file.display();
        if self.file.exists() && !is_ours(&self.file) {
            let unit = self.unit();
            return Err(Failure::Failed(format!(
                "{file} is there and was not written by `tidegate setup`: change it, then `systemctl reload {unit}`, or move \
                 it away"
            )));
        }
        if self.manager == Manager::Systemd && systemctl(&["cat", "tidegate@.service"]).is_err() {
            return Err(Failure::Failed(
                "systemd has no unit tidegate@.service: install the package, or copy packaging/systemd/tidegate@.service to \
                 /etc/systemd/system and the program to /usr/bin; or --service none"
                    .into(),
            ));
        }
        Ok(())
    }

    /// Checks that the file was written here.
    ///
    /// # Errors
    /// When there is none, or another one.
    pub fn is_set_up(&self) -> Result<(), Failure> {
        if is_ours(&self.file) {
            return Ok(());
        }
        let unit = self.unit();
        Err(Failure::Failed(format!(
            "{} was not written by `tidegate setup`; to stop the service: systemctl disable --now {unit}",
            self.file.display()
        )))
    }

    /// The first lines of the file.
    pub fn heading(&self) -> String {
        format!("{MARK}.\n# `tidegate setup --undo --interface {}` takes it back.\n", self.interface)
    }

    /// Describes the steps of the set-up, for people.
    pub fn plan(&self) -> Vec<String> {
        let mut plan = vec![format!("to write: {}", self.file.display())];
        if self.file.exists() {
            plan.push(format!("  the existing file becomes {}", self.aside().display()));
        }
        match self.manager {
            Manager::Systemd => plan.push(format!("to enable and start: {}", self.unit())),
            Manager::None => plan.push("to try: a start in each direction, which is ended again".into()),
        }
        plan
    }

    /// Describes the steps of an undo, for people.
    pub fn plan_of_undo(&self) -> Vec<String> {
        let mut plan = vec![format!("to put aside: {}", self.file.display())];
        if self.manager == Manager::Systemd {
            plan.insert(0, format!("to stop and disable: {}", self.unit()));
        }
        plan
    }

    /// Writes the file, starts the service, and proves it; returns what to print. A failure leaves everything as before.
    pub fn set_up(&self, text: &str, configs: &[Config]) -> Result<Vec<String>, Failure> {
        let before = fs::read(&self.file).ok();
        let unit = self.unit();
        let was_enabled = self.manager == Manager::Systemd && systemctl(&["is-enabled", &unit]).is_ok();
        self.write(text)?;
        let outcome = match self.manager {
            Manager::Systemd => self.start(),
            Manager::None => self.attempt(configs),
        };
        outcome.map(|proof| self.said(proof)).map_err(|why| {
            let restored =
                self.take_back(before, was_enabled).err().unwrap_or_else(|| "everything is as before".into());
            Failure::Failed(format!("{why}\n{restored}"))
        })
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        if let Some(directory) = self.file.parent() {
            fs::create_dir_all(directory).map_err(failed(directory))?;
        }
        let new = self.file.with_extension("toml.new");
        fs::write(&new, text).map_err(failed(&new))?;
        if self.file.exists() {
            fs::rename(&self.file, self.aside()).map_err(failed(&self.file))?;
        }
        fs::rename(&new, &self.file).map_err(failed(&self.file))
    }

    /// Enables and starts the instance; returns the status that it reports.
    fn start(&self) -> Result<Vec<String>, String> {
        let unit = self.unit();
        systemctl(&["enable", &unit])?;
        // A running one is replaced: what it holds passes to the new one.
        systemctl(&["restart", &unit]).map_err(|why| {
            let log = Command::new("journalctl").args(["-u", &unit, "-n", "12", "-o", "cat", "--no-pager"]).output();
            let log = log.map(|log| String::from_utf8_lossy(&log.stdout).trim().to_owned()).unwrap_or_default();
            if log.is_empty() { why } else { format!("{why}\n{log}") }
        })?;
        let deadline = Instant::now() + ANSWER;
        loop {
            match self.status() {
                Some(status) if status.in_force => return Ok(proof(&status)),
                status if Instant::now() > deadline => {
                    return match status.and_then(|status| status.trouble) {
                        Some(trouble) => Err(format!("{unit} runs, but does not shape: {trouble}")),
                        None if !self.is_there() => Ok(vec![format!("{unit} runs and waits for {}", self.interface)]),
                        None => Err(format!("{unit} runs, but does not answer; see `journalctl -u {unit}`")),
                    };
                }
                None if !self.is_there() => {
                    return Ok(vec![format!("{unit} runs and waits for {}", self.interface)]);
                }
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Whether there is the interface; assumed where the kernel does not answer.
    fn is_there(&self) -> bool {
        super::is_there(&self.interface).unwrap_or(true)
    }

    fn status(&self) -> Option<Status> {
        let path = Place::Interface(self.interface.clone()).find().ok()?;
        connect(&path).ok()?.status().ok()
    }

    /// Starts shaping for a moment in each direction.
    fn attempt(&self, configs: &[Config]) -> Result<Vec<String>, String> {
        if !self.is_there() {
            return Ok(vec![format!("{} is not there yet, so it was not tried", self.interface)]);
        }
        let mut said = Vec::new();
        for config in configs {
            let finding = attempt(config, std::slice::from_ref(&self.interface));
            if finding.severity >= Severity::Prevents {
                return Err(finding.found);
            }
            said.push(format!("tried, and ended again: {}", finding.found));
        }
        Ok(said)
    }

    fn said(&self, mut said: Vec<String>) -> Vec<String> {
        let (unit, file, interface) = (self.unit(), self.file.display(), &self.interface);
        said.insert(0, format!("written: {file}"));
        match self.manager {
            Manager::Systemd => {
                said.push(format!("{unit} starts at boot, and when {interface} appears"));
                said.push("to see it: tidegate status, tidegate top".into());
                said.push(format!("to change it: edit {file}, then systemctl reload {unit}"));
            }
            Manager::None => {
                said.push("nothing starts it yet. Have your service manager run, and start again when it ends:".into());
                said.push(format!("  tidegate run {file} --interface {interface} --wait --hand-over"));
                said.push("to see it then: tidegate status, tidegate top".into());
            }
        }
        said.push(format!("to undo it: tidegate setup --undo --interface {interface}"));
        said
    }

    /// Restores the previous file.
    fn take_back(&self, before: Option<Vec<u8>>, was_enabled: bool) -> Result<(), String> {
        let unit = self.unit();
        let write = |error: std::io::Error| format!("{} cannot be restored: {error}", self.file.display());
        match &before {
            Some(_) => fs::rename(self.aside(), &self.file).map_err(write)?,
            None => fs::remove_file(&self.file).map_err(write)?,
        }
        match (self.manager, &before, was_enabled) {
            (Manager::None, ..) => Ok(()),
            (Manager::Systemd, Some(_), true) => systemctl(&["restart", &unit]).map(drop),
            (Manager::Systemd, ..) => systemctl(&["disable", "--now", &unit]).map(drop),
        }
    }

    /// Stops and disables the service, and puts the file aside; returns what to print.
    pub fn undo(&self) -> Result<Vec<String>, Failure> {
        let unit = self.unit();
        let mut said = Vec::new();
        if self.manager == Manager::Systemd {
            systemctl(&["disable", "--now", &unit]).map_err(Failure::Failed)?;
            said.push(format!("{unit} is stopped and disabled"));
        }
        fs::rename(&self.file, self.aside()).map_err(failed(&self.file))?;
        said.push(format!("the file is kept as {}", self.aside().display()));
        match self.status() {
            Some(status) => said.push(format!(
                "process {} still shapes {}: end it, and do not start it again",
                status.pid, self.interface
            )),
            None => said.push(format!("{} is not shaped any more", self.interface)),
        }
        Ok(said)
    }
}

/// The conclusion from the status of a service.
fn proof(status: &Status) -> Vec<String> {
    let mut said = vec![format!("{}: shaping is in force, process {}", status.interface, status.pid)];
    for direction in &status.directions {
        let rate = direction.rate.map_or(String::new(), |rate| format!(" {rate},"));
        if direction.unproven.is_empty() {
            said.push(format!(
                "  {}:{rate} a packet of each protocol that it carries came through the queue",
                direction.name
            ));
        }
        for why in &direction.unproven {
            said.push(format!("  {}:{rate} not proven yet, {why}; it will be tried again", direction.name));
        }
    }
    said
}
