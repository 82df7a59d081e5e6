//! `apply`, `confirm`, `rollback`, `in-force`: another configuration for what runs, on trial if so wished.

use std::time::{Duration, Instant};

use tidegate_config::edit;
use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source};
use tidegate_control::calls::{Applied, Apply, Confirmed, Difference, Edit, InForce, Text};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_engine::SwapKind;
use tidegate_live::timing;
use tidegate_units::Span;

use crate::daemon::Daemon;
use crate::service;

/// What was in force before a change on trial.
#[derive(Debug)]
pub(crate) struct Trial {
    direction: usize,
    text: String,
    config: Config,
    until: Instant,
    /// It could not be taken back so far, and that was told.
    overdue: bool,
}

impl Trial {
    /// For how long it goes on.
    pub(crate) fn left(&self) -> Span {
        let left = self.until.saturating_duration_since(Instant::now());
        Span::from_nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A change that cannot be taken back is tried to be taken back again after this.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest trial.
const LONGEST: Duration = Duration::from_secs(3600);

fn invalid(text: impl Into<String>) -> Refusal {
    Refusal::new(Code::Invalid, text)
}

impl From<Edit> for EditOf {
    fn from(edit: Edit) -> Self {
        Self(match edit {
            Edit::Set { section, name, key, value } => edit::Edit::Set { section, name, key, value },
            Edit::Add { section, values } => edit::Edit::Add { section, values },
            Edit::Remove { section, name } => edit::Edit::Remove { section, name },
        })
    }
}

struct EditOf(edit::Edit);

/// Reads a text as a shaper file, which people know by `name`; with warnings for them.
fn load(name: &str, text: &str) -> Result<(Config, String), Refusal> {
    let source = Source::new(name, text);
    let mut diagnostics = Diagnostics::new();
    let config = shaper::load(&source, &mut diagnostics);
    let told = diagnostics.render(&source);
    match config {
        Some(config) => Ok((config, told)),
        None => Err(invalid(told.trim_end())),
    }
}

pub(crate) fn apply(daemon: &mut Daemon, call: Apply) -> Result<Applied, Refusal> {
    let at = daemon.direction_named(call.direction.as_deref())?;
    let confirm = call.confirm.map(|span| Duration::from_nanos(span.as_nanos()));
    if confirm.is_some_and(|confirm| confirm > LONGEST || confirm.is_zero()) {
        return Err(invalid("a trial lasts from a moment to an hour"));
    }
    let old = &daemon.directions[at].text;
    let edits: Vec<_> = call.edits.into_iter().map(|edit| EditOf::from(edit).0).collect();
    // What is edited is the text of what runs, which nobody has before their eyes.
    let name = if edits.is_empty() { "the new file" } else { "what runs (`tidegate status --file`), changed" };
    let new = match (call.text, edits.is_empty()) {
        (Some(text), true) => text,
        (None, true) => return Err(invalid("neither a file nor an edit was given")),
        (text, false) => edit::apply(text.as_deref().unwrap_or(old), &edits).map_err(invalid)?,
    };
    let (config, warnings) = load(name, &new)?;
    let differences = edit::differences(old, &new).map_err(invalid)?;
    let differences = differences.into_iter().map(|difference| Difference {
        text: difference.to_string(),
        what: difference.what,
        key: difference.key,
        from: difference.from,
        to: difference.to,
    });
    let mut applied =
        Applied { differences: differences.collect(), warnings, applied: false, in_place: false, rehomed: 0 };
    if call.dry_run || applied.differences.is_empty() {
        return Ok(applied);
    }
    if let Some(trial) = &daemon.trial {
        let left = trial.left().as_nanos().div_ceil(1_000_000_000);
        return Err(invalid(format!("a change is on trial for another {left} s"))
            .help("run `tidegate confirm` or `tidegate confirm --rollback` first"));
    }
    let before = (daemon.directions[at].text.clone(), daemon.directions[at].config.clone());
    let swapped = change(daemon, at, config, new)?;
    applied.applied = true;
    applied.in_place = swapped.how == SwapKind::InPlace;
    applied.rehomed = swapped.rehomed as u64;
    if let Some(confirm) = confirm {
        let (text, config) = before;
        daemon.trial = Some(Trial { direction: at, text, config, until: Instant::now() + confirm, overdue: false });
    }
    let differences = match applied.differences.len() {
        1 => "1 difference".to_owned(),
        n => format!("{n} differences"),
    };
    daemon.say(&format!("another configuration is in force, {differences}"));
    Ok(applied)
}

/// Reads the file again and applies it; one that is not valid changes nothing. What a service manager calls a reload.
pub(crate) fn reload(daemon: &mut Daemon) {
    let micros = timing::now().as_nanos() / 1_000;
    service::notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    let file = daemon.settings.file.clone();
    let outcome = Source::open(&file)
        .map_err(|error| invalid(error.to_string()))
        .and_then(|source| Ok((load(source.name(), source.text())?, source.text().to_owned())))
        .and_then(|((config, _), text)| match daemon.directions.as_slice() {
            [one] if one.config.interface.direction == config.interface.direction => change(daemon, 0, config, text),
            _ => Err(invalid("it shapes another direction; start again for that")),
        });
    match outcome {
        Ok(_) => {
            daemon.trial = None;
            daemon.settings.modified = crate::modified(&file);
            daemon.say(&format!("{} was read again and is in force", file.display()));
        }
        Err(refusal) => daemon.say(&format!("{} is not applied, nothing has changed: {refusal}", file.display())),
    }
    service::notify("READY=1");
}

fn change(
    daemon: &mut Daemon,
    at: usize,
    config: Config,
    text: String,
) -> Result<tidegate_engine::SwapReport, Refusal> {
    let direction = &mut daemon.directions[at];
    let none = || Refusal::new(Code::Failed, "shaping is not in force at the moment").help("try again in a second");
    let shaping = direction.shaping.as_mut().ok_or_else(none)?;
    let outcome = shaping.reconfigure(&config, Some(&text));
    if outcome.is_ok() {
        (direction.config, direction.text) = (config, text);
    }
    if outcome.is_ok() {
        daemon.serve_as_written();
    }
    daemon.scene_changed(at);
    if !outcome.as_ref().is_ok_and(|swapped| swapped.how == SwapKind::InPlace) {
        daemon.reinstate_promises(at);
    }
    outcome.map_err(|error| match error {
        tidegate_live::shaping::StartError::Change(text) => invalid(text),
        tidegate_live::shaping::StartError::Build(failure) => invalid(failure.to_string()),
        error => Refusal::new(Code::Failed, format!("{error}; what was in force is in force again")),
    })
}

pub(crate) fn confirm(daemon: &mut Daemon) -> Result<Confirmed, Refusal> {
    let trial = daemon.trial.take().ok_or_else(no_trial)?;
    daemon.say("the change is confirmed");
    Ok(Confirmed { direction: daemon.directions[trial.direction].name.clone() })
}

pub(crate) fn rollback(daemon: &mut Daemon) -> Result<Confirmed, Refusal> {
    let trial = daemon.trial.take().ok_or_else(no_trial)?;
    let direction = daemon.directions[trial.direction].name.clone();
    go_back(daemon, trial)?;
    Ok(Confirmed { direction })
}

fn no_trial() -> Refusal {
    Refusal::new(Code::NotFound, "no change is on trial").help("it was confirmed, or its time was over")
}

/// Puts in force what was in force before a trial. Where that cannot be now, the trial goes on until it can: a change that
/// nobody confirmed must not stay because the interface was away, or a reservation in the way, in the moment of its end.
fn go_back(daemon: &mut Daemon, trial: Trial) -> Result<(), Refusal> {
    let at = trial.direction;
    if daemon.directions[at].shaping.is_none() {
        // It is what will be begun anew with.
        (daemon.directions[at].config, daemon.directions[at].text) = (trial.config, trial.text);
        daemon.serve_as_written();
    } else if let Err(refusal) = change(daemon, at, trial.config.clone(), trial.text.clone()) {
        daemon.trial = Some(Trial { until: Instant::now() + AGAIN, ..trial });
        return Err(refusal);
    }
    daemon.say("the change was taken back; what was in force before is in force again");
    Ok(())
}

/// Takes back what was not confirmed in time.
pub(crate) fn tick(daemon: &mut Daemon) {
    let Some(trial) = daemon.trial.take_if(|trial| trial.until <= Instant::now()) else { return };
    let told = trial.overdue;
    if let Err(refusal) = go_back(daemon, trial) {
        if let Some(trial) = &mut daemon.trial {
            trial.overdue = true;
        }
        if !told {
            daemon.say(&format!(
                "the change was not confirmed, and cannot be taken back yet: {refusal}; that is tried again and again, \
                 until it can, or `tidegate confirm` keeps the change"
            ));
        }
    }
}

pub(crate) fn in_force(daemon: &Daemon, call: &InForce) -> Result<Text, Refusal> {
    let at = daemon.direction_named(call.direction.as_deref())?;
    Ok(Text { text: daemon.directions[at].text.clone() })
}
