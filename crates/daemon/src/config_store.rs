//! `apply`, `confirm`, `rollback` and `in-force`: the configuration in force, changes of it, and the trial of a change.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tidegate_config::edit::{self, Document};
use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source};
use tidegate_control::calls::{Applied, Apply, Confirmed, InForce, Text};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_engine::{SwapKind, SwapReport};
use tidegate_live::shaping::StartError;
use tidegate_live::timing;
use tidegate_units::Span;

use crate::directions::{ShapedDirection, direction_named, not_in_force};
use crate::notifier::Notifier;
use crate::promises::Promises;
use crate::service;
use crate::telemetry::Telemetry;

/// The interval between attempts to take back a change that could not be taken back.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest trial.
const LONGEST: Duration = Duration::from_secs(3600);

/// Changes of the configurations in force, and the file that they came from.
#[derive(Debug)]
pub(crate) struct ConfigStore {
    /// `-` for standard input.
    file: PathBuf,
    /// When the file was changed last before it was read.
    modified: Option<SystemTime>,
    /// Set from outside to have the file read again.
    reload: Arc<AtomicBool>,
    trial: Option<Trial>,
}

/// What was in force before a change on trial.
#[derive(Debug)]
struct Trial {
    direction: usize,
    config: Config,
    until: Instant,
    /// It could not be taken back so far, which was logged.
    overdue: bool,
}

/// The parts of the daemon that follow the configuration in force.
pub(crate) struct Followers<'a> {
    pub promises: &'a mut Promises,
    pub telemetry: &'a mut Telemetry,
    pub notifier: &'a Notifier,
    pub interface: &'a str,
}

impl Followers<'_> {
    /// Metrics, the web page, the hook and the mode of the socket become those of the configurations in force.
    fn follow_config(&mut self, directions: &[ShapedDirection]) {
        self.telemetry.follow_config(directions, self.notifier, self.interface);
        let mode = directions.first().map(|direction| direction.config.control.mode);
        let outcome = mode.zip(self.notifier.server()).map(|(mode, server)| server.listening().set_mode(mode));
        if let Some(Err(error)) = outcome {
            self.notifier.log(&format!("who may connect to the control socket is as before: {error}"));
        }
    }
}

impl ConfigStore {
    pub fn new(file: PathBuf, modified: Option<SystemTime>, reload: Arc<AtomicBool>) -> Self {
        Self { file, modified, reload, trial: None }
    }

    /// The shaper file; `-` for standard input.
    pub fn file(&self) -> &Path {
        &self.file
    }
    /// The time left of the trial, if a change is on trial.
    pub fn trial_left(&self) -> Option<Span> {
        let left = self.trial.as_ref()?.until.saturating_duration_since(Instant::now());
        Some(Span::from_nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Answers `in-force`.
    pub fn in_force(directions: &[ShapedDirection], request: &InForce) -> Result<Text, Refusal> {
        let at = direction_named(directions, request.direction.as_deref())?;
        Ok(Text { text: directions[at].config.text.to_string() })
    }

    /// Answers `apply`.
    pub fn apply(
        &mut self,
        directions: &mut [ShapedDirection],
        mut followers: Followers<'_>,
        request: Apply,
    ) -> Result<Applied, Refusal> {
        let at = direction_named(directions, request.direction.as_deref())?;
        let confirm = request.confirm.map(|span| Duration::from_nanos(span.as_nanos()));
        if confirm.is_some_and(|confirm| confirm > LONGEST || confirm.is_zero()) {
            return Err(invalid("a trial lasts from a moment to an hour"));
        }
        let in_force = &directions[at].config;
        let (config, warnings) = match (request.text, &request.edits[..]) {
            (None, []) => return Err(invalid("neither a file nor an edit was given")),
            (Some(text), []) => load("the new file", &text)?,
            (text, edits) => {
                let base = Document::parse(text.as_deref().unwrap_or(&in_force.text)).map_err(invalid)?;
                let new = base.edited(edits).map_err(invalid)?;
                // The text that was edited is that in force, which the user does not see.
                load("what runs (`tidegate status --file`), changed", new.text())?
            }
        };
        let differences = edit::differences(in_force, &config);
        let mut applied = Applied { differences, warnings, applied: false, in_place: false, rehomed: 0 };
        if request.dry_run || applied.differences.is_empty() {
            return Ok(applied);
        }
        if let Some(left) = self.trial_left() {
            let left = left.as_nanos().div_ceil(1_000_000_000);
            return Err(invalid(format!("a change is on trial for another {left} s"))
                .help("run `tidegate confirm` or `tidegate confirm --rollback` first"));
        }
        let before = directions[at].config.clone();
        let swapped = change(directions, &mut followers, at, config)?;
        applied.applied = true;
        applied.in_place = swapped.how == SwapKind::InPlace;
        applied.rehomed = swapped.rehomed as u64;
        if let Some(confirm) = confirm {
            let until = Instant::now() + confirm;
            self.trial = Some(Trial { direction: at, config: before, until, overdue: false });
        }
        let differences = match applied.differences.len() {
            1 => "1 difference".to_owned(),
            n => format!("{n} differences"),
        };
        followers.notifier.log(&format!("another configuration is in force, {differences}"));
        Ok(applied)
    }

    /// Answers `confirm`.
    pub fn confirm(&mut self, directions: &[ShapedDirection], notifier: &Notifier) -> Result<Confirmed, Refusal> {
        let trial = self.trial.take().ok_or_else(no_trial)?;
        notifier.log("the change is confirmed");
        Ok(Confirmed { direction: directions[trial.direction].name.clone() })
    }

    /// Answers `rollback`.
    pub fn rollback(
        &mut self,
        directions: &mut [ShapedDirection],
        followers: Followers<'_>,
    ) -> Result<Confirmed, Refusal> {
        let trial = self.trial.take().ok_or_else(no_trial)?;
        let direction = directions[trial.direction].name.clone();
        self.take_back(directions, followers, trial)?;
        Ok(Confirmed { direction })
    }

    /// Takes back a change that was not confirmed in time, and reads the file again where that is requested.
    pub fn tick(&mut self, directions: &mut [ShapedDirection], followers: Followers<'_>) {
        if self.reload.swap(false, Ordering::Relaxed) {
            self.read_again(directions, followers);
            return;
        }
        let Some(trial) = self.trial.take_if(|trial| trial.until <= Instant::now()) else { return };
        let (logged, notifier) = (trial.overdue, followers.notifier);
        if let Err(refusal) = self.take_back(directions, followers, trial) {
            if let Some(trial) = &mut self.trial {
                trial.overdue = true;
            }
            if !logged {
                notifier.log(&format!(
                    "the change was not confirmed, and cannot be taken back yet: {refusal}; that is tried again and \
                     again, until it can, or `tidegate confirm` keeps the change"
                ));
            }
        }
    }

    /// Logs when the file was changed since it was read.
    pub fn look_at_file(&mut self, notifier: &Notifier) {
        let now = modified(&self.file);
        if now.is_some() && now != self.modified {
            self.modified = now;
            notifier.log(&format!(
                "{} has changed; what runs is what was read at the start. Check it with `tidegate check`, then start \
                 again to use it",
                self.file.display()
            ));
        }
    }

    /// Reads the file again and applies it; one that is not valid changes nothing. A service manager's reload.
    fn read_again(&mut self, directions: &mut [ShapedDirection], mut followers: Followers<'_>) {
        let micros = timing::now().as_nanos() / 1_000;
        service::notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
        let file = self.file.clone();
        let outcome = Source::open(&file)
            .map_err(|error| invalid(error.to_string()))
            .and_then(|source| load(source.name(), source.text()))
            .and_then(|(config, _)| match &*directions {
                [one] if one.config.interface.direction == config.interface.direction => {
                    change(directions, &mut followers, 0, config)
                }
                _ => Err(invalid("it shapes another direction; start again for that")),
            });
        match outcome {
            Ok(_) => {
                self.trial = None;
                self.modified = modified(&file);
                followers.notifier.log(&format!("{} was read again and is in force", file.display()));
            }
            Err(refusal) => {
                let text = format!("{} is not applied, nothing has changed: {refusal}", file.display());
                followers.notifier.log(&text);
            }
        }
        service::notify("READY=1");
    }

    /// Puts in force what was in force before a trial. Where that is not possible now, the trial continues until it is: a
    /// change that was not confirmed must not stay because the interface was absent, or a reservation conflicted, at
    /// the moment of its end.
    fn take_back(
        &mut self,
        directions: &mut [ShapedDirection],
        mut followers: Followers<'_>,
        trial: Trial,
    ) -> Result<(), Refusal> {
        let at = trial.direction;
        if directions[at].shaping().is_none() {
            // The next start of the data path uses it.
            directions[at].config = trial.config;
            followers.follow_config(directions);
        } else if let Err(refusal) = change(directions, &mut followers, at, trial.config.clone()) {
            self.trial = Some(Trial { until: Instant::now() + AGAIN, ..trial });
            return Err(refusal);
        }
        followers.notifier.log("the change was taken back; what was in force before is in force again");
        Ok(())
    }
}

/// Puts a configuration in force, with everything that follows it.
fn change(
    directions: &mut [ShapedDirection],
    followers: &mut Followers<'_>,
    at: usize,
    config: Config,
) -> Result<SwapReport, Refusal> {
    let shaping = directions[at].shaping_mut().ok_or_else(not_in_force)?;
    let outcome = shaping.reconfigure(&config, Some(&config.text));
    if outcome.is_ok() {
        directions[at].config = config;
        followers.follow_config(directions);
    }
    followers.notifier.names_changed(at, &directions[at]);
    if !outcome.as_ref().is_ok_and(|swapped| swapped.how == SwapKind::InPlace) {
        followers.promises.reinstate(directions, followers.notifier, at);
    }
    outcome.map_err(|error| match error {
        StartError::Change(text) => invalid(text),
        StartError::Build(failure) => invalid(failure.to_string()),
        error => Refusal::new(Code::Failed, format!("{error}; what was in force is in force again")),
    })
}

/// When a file was changed last; none for standard input.
pub fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}

fn invalid(text: impl Into<String>) -> Refusal {
    Refusal::new(Code::Invalid, text)
}

fn no_trial() -> Refusal {
    Refusal::new(Code::NotFound, "no change is on trial").help("it was confirmed, or its time was over")
}

/// Reads a text as a shaper file of this name, and returns it with warnings for people.
fn load(name: &str, text: &str) -> Result<(Config, String), Refusal> {
    let source = Source::new(name, text);
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&source, &mut diagnostics);
    let warnings = diagnostics.render(&source);
    match config {
        Some(config) => Ok((config, warnings)),
        None => Err(invalid(warnings.trim_end())),
    }
}
