//! `apply`, `confirm`, `rollback`, `undo` and `in-force`: the configuration in force, changes of it, and the trial of a change.

mod edited;
mod exchange;
mod undo;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tidegate_config::edit::{self, Document};
use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source};
use tidegate_control::calls::{Applied, Apply, Change, Confirmed, Difference, InForce, Text};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_live::shaping::Shaping;
use tidegate_live::timing;
use tidegate_units::{Rate, Span};

use crate::audit::{self, Author};
use crate::directions::{ShapedDirection, direction_named};
use crate::notifier::Notifier;
use crate::promises::Promises;
use crate::reservations::Reservations;
use crate::service;
use crate::supervisor::Supervisor;
use crate::telemetry::Telemetry;

use edited::{CHANGED, edited, edited_in_both};
use exchange::{change, change_all, move_to_loaded};
use undo::Earlier;

/// The interval between attempts to take back a change that could not be taken back.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest trial.
const LONGEST: Duration = Duration::from_secs(3600);

/// Changes of the configurations in force, and the files that they came from.
#[derive(Debug)]
pub(crate) struct ConfigStore {
    /// The paths, `-` for standard input, and when each file was changed last before it was read.
    files: Vec<(PathBuf, Option<SystemTime>)>,
    /// Set from outside to have the files read again.
    reload: Arc<AtomicBool>,
    trial: Option<Trial>,
    earlier: Earlier,
}

/// The name of the direction in a request that means both.
const BOTH: &str = "both";

/// The configuration that was in force before a change on trial.
#[derive(Debug)]
struct Trial {
    /// The directions that were changed, with their configurations before.
    before: Vec<(usize, Config)>,
    /// Who made the change.
    change: Change,
    until: Instant,
    /// It could not be taken back so far, which was logged.
    overdue: bool,
}

/// The parts of the daemon that follow the configuration in force.
pub(crate) struct Followers<'a> {
    pub promises: &'a mut Promises,
    pub reservations: &'a mut Reservations,
    pub telemetry: &'a mut Telemetry,
    pub notifier: &'a Notifier,
    pub supervisor: &'a Supervisor,
    pub interface: &'a str,
}

impl Followers<'_> {
    /// Connects what a direction has instead of its earlier data path.
    fn moved(&self, directions: &[ShapedDirection], at: usize) {
        let direction = &directions[at];
        if direction.shaping().is_none() {
            return;
        }
        if let Err(error) = self.notifier.attach(at, direction) {
            self.notifier.log(&format!("{}: its events are not reported: {error}", direction.name));
        }
        self.notifier.log(&direction.moved());
        self.warn(direction);
    }

    /// Logs the warnings of a data path.
    fn warn(&self, direction: &ShapedDirection) {
        for warning in direction.shaping().into_iter().flat_map(Shaping::warnings) {
            self.notifier.log(&format!("{}: {warning}", direction.name));
        }
    }

    /// Metrics, the web page, the hook and the mode of the socket become those of the configurations in force.
    fn follow_config(&mut self, directions: &[ShapedDirection]) {
        self.telemetry.follow_config(directions, self.notifier, self.interface);
        let mode = directions.first().map(|direction| direction.config.control.mode);
        let outcome = mode.zip(self.notifier.server()).map(|(mode, server)| server.listening().set_mode(mode));
        if let Some(Err(error)) = outcome {
            self.notifier.log(&format!("the mode of the control socket is unchanged: {error}"));
        }
    }
}

impl ConfigStore {
    pub fn new(files: Vec<(PathBuf, Option<SystemTime>)>, reload: Arc<AtomicBool>) -> Self {
        Self { files, reload, trial: None, earlier: Earlier::default() }
    }

    /// The path of file number `file`; `-` for standard input.
    pub fn path(&self, file: usize) -> &Path {
        &self.files[file].0
    }
    /// The paths of the shaper files, for people.
    pub fn paths(&self) -> String {
        self.files.iter().map(|(path, _)| path.display().to_string()).collect::<Vec<_>>().join(" + ")
    }
    /// Whether every user may read the files; not so where a configuration came from standard input.
    pub fn is_public(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        self.files
            .iter()
            .all(|(path, _)| fs::metadata(path).is_ok_and(|data| data.is_file() && data.mode() & 0o004 != 0))
    }
    /// The time left of the trial, if a change is on trial.
    pub fn trial_left(&self) -> Option<Span> {
        let left = self.trial.as_ref()?.until.saturating_duration_since(Instant::now());
        Some(Span::from_nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Answers `in-force`.
    pub fn in_force(directions: &[ShapedDirection], request: &InForce) -> Result<Text, Refusal> {
        let wanted: Vec<&ShapedDirection> = match &request.direction {
            None => directions.iter().collect(),
            Some(name) => {
                let named: Vec<_> = directions.iter().filter(|direction| direction.name == *name).collect();
                let by_interface = directions.iter().filter(|direction| direction.interfaces().contains(name));
                if named.is_empty() { by_interface.collect() } else { named }
            }
        };
        match wanted[..] {
            [one] => Ok(Text { text: one.config.text.to_string() }),
            [up, down] if up.file == down.file => {
                let text = shaper::join(&up.config.text, &down.config.text).ok_or_else(|| {
                    Refusal::new(Code::Invalid, "the directions differ in [interface] or another table that both have")
                        .help("ask for one of them, up or down")
                })?;
                Ok(Text { text })
            }
            [] => direction_named(directions, request.direction.as_deref())
                .map(|index| Text { text: directions[index].config.text.to_string() }),
            _ => Err(invalid("several files are in force").help(format!(
                "ask for one by an interface or a direction: {}",
                directions.iter().map(|direction| direction.name.as_str()).collect::<Vec<_>>().join(", ")
            ))),
        }
    }

    /// Answers `apply`.
    pub fn apply(
        &mut self,
        directions: &mut [ShapedDirection],
        mut followers: Followers<'_>,
        author: Author,
        request: Apply,
    ) -> Result<Applied, Refusal> {
        let command = audit::command(&request);
        let named = request.direction.as_deref().filter(|name| *name != BOTH || directions.len() > 2);
        let both = request.direction.is_some() && named.is_none();
        let confirm = request.confirm.map(|span| Duration::from_nanos(span.as_nanos()));
        if confirm.is_some_and(|confirm| confirm > LONGEST || confirm.is_zero()) {
            return Err(invalid("a trial must last more than 0 s and at most an hour"));
        }
        let added_rules = Document::added_rules(&request.edits);
        let (configs, warnings) = match (request.text, &request.edits[..]) {
            (None, []) => return Err(invalid("the call contains neither a file nor an edit")),
            (Some(text), []) => {
                let (configs, warnings) = load("the new file", &text)?;
                (placed(directions, configs, named)?, warnings)
            }
            (text, edits) => {
                let edited = match both {
                    true => edited_in_both(directions, text.as_deref(), edits, 0),
                    false => edited(directions, text.as_deref(), edits, named),
                };
                let (mut all, mut warnings) = (Vec::new(), String::new());
                for (index, new) in edited? {
                    let (mut configs, more) = load(CHANGED, new.text())?;
                    all.extend(configs.pop().map(|config| (index, config)));
                    // Both directions are warned about what they have in common.
                    warnings.push_str(if warnings.contains(&more) { "" } else { &more });
                }
                (all, warnings)
            }
        };
        let compared = configs.iter().map(|(at, config)| (*at, directions[*at].config.clone(), config));
        let differences = differences_of(directions, compared);
        let is_new = |(at, config): &(usize, Config)| !edit::differences(&directions[*at].config, config).is_empty();
        let changes: Vec<(usize, Config)> = configs.into_iter().filter(is_new).collect();
        let mut applied = Applied { differences, warnings, added_rules, ..Applied::default() };
        if request.dry_run {
            return Ok(applied);
        }
        if applied.differences.is_empty() {
            // A value that is in force on trial only would be taken back later.
            return self.no_trial().map(|()| applied);
        }
        let before = self.put_in_force(directions, &mut followers, changes, &mut applied)?;
        let change = audit::change(author, &command);
        if let Some(confirm) = confirm {
            let until = Instant::now() + confirm;
            self.trial = Some(Trial { before, change, until, overdue: false });
        } else {
            self.earlier.push(before, change);
        }
        let outcome = if confirm.is_some() { "in force, on trial" } else { "in force" };
        audit::report(followers.notifier, author, &command, outcome, &applied.differences);
        Ok(applied)
    }

    /// Answers `confirm`.
    pub fn confirm(
        &mut self,
        directions: &[ShapedDirection],
        notifier: &Notifier,
        author: Author,
    ) -> Result<Confirmed, Refusal> {
        let trial = self.trial.take().ok_or_else(no_trial)?;
        audit::report(notifier, author, "confirm", "the change is confirmed", &[]);
        let direction = trial.names(directions);
        self.earlier.push(trial.before, trial.change);
        Ok(Confirmed { direction })
    }

    /// Answers `rollback`.
    pub fn rollback(
        &mut self,
        directions: &mut [ShapedDirection],
        followers: Followers<'_>,
        author: Author,
    ) -> Result<Confirmed, Refusal> {
        let trial = self.trial.take().ok_or_else(no_trial)?;
        let direction = trial.names(directions);
        self.take_back(directions, followers, trial, author)?;
        Ok(Confirmed { direction })
    }

    /// Takes back a change that was not confirmed in time, and reads the file again where that is requested. Moves traffic to the kernel
    /// path once that is loaded.
    pub fn tick(&mut self, directions: &mut [ShapedDirection], mut followers: Followers<'_>) {
        move_to_loaded(directions, &mut followers);
        if self.reload.swap(false, Ordering::Relaxed) {
            self.read_again(directions, followers);
            return;
        }
        let Some(trial) = self.trial.take_if(|trial| trial.until <= Instant::now()) else { return };
        let (logged, notifier) = (trial.overdue, followers.notifier);
        if let Err(refusal) = self.take_back(directions, followers, trial, Author::Time) {
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

    /// Logs when a file was changed since it was read.
    pub fn look_at_files(&mut self, notifier: &Notifier) {
        for (path, known) in &mut self.files {
            let now = modified(path);
            if now.is_some() && now != *known {
                *known = now;
                notifier.log(&format!(
                    "{file} has changed, and what runs is what was read before; `tidegate check {file}` checks it, `tidegate \
                     apply {file}` puts it in force, and so does a reload (SIGHUP)",
                    file = path.display()
                ));
            }
        }
    }

    /// The configurations of the files as they are now, with the directions that they are for.
    fn read(&self, directions: &[ShapedDirection]) -> Result<Vec<(usize, Config)>, Refusal> {
        let mut changes = Vec::new();
        for (number, (path, _)) in self.files.iter().enumerate() {
            let source = Source::open(path).map_err(|error| invalid(error.to_string()))?;
            let (configs, _) = load(source.name(), source.text())?;
            let running: Vec<usize> = (0..directions.len()).filter(|&at| directions[at].file == number).collect();
            let way = |config: &Config| config.interface.direction;
            if !configs.iter().map(way).eq(running.iter().map(|&at| way(&directions[at].config))) {
                return Err(invalid("it shapes another direction; restart the shaper for that"));
            }
            changes.extend(running.into_iter().zip(configs));
        }
        Ok(changes)
    }

    /// Reads the files again and applies them; one that is not valid changes nothing. A service manager's reload.
    fn read_again(&mut self, directions: &mut [ShapedDirection], mut followers: Followers<'_>) {
        let micros = timing::now().as_nanos() / 1_000;
        service::notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
        let mut differences = Vec::new();
        let outcome = self.read(directions).and_then(|changes| {
            let compared = changes.iter().map(|(at, config)| (*at, directions[*at].config.clone(), config));
            differences = differences_of(directions, compared);
            change_all(directions, &mut followers, changes)
        });
        match outcome {
            Ok((before, _)) => {
                // A reload ends a trial; before it was what the trial would have gone back to.
                if let Some(trial) = self.trial.take() {
                    self.earlier.push(trial.before, trial.change);
                }
                self.earlier.push(before, audit::change(Author::Signal, "reload"));
                self.files.iter_mut().for_each(|(path, known)| *known = modified(path));
                let outcome = match differences.len() {
                    0 => format!("{} was reloaded and is in force; nothing is different", self.paths()),
                    _ => format!("{} was reloaded and is in force", self.paths()),
                };
                audit::report(followers.notifier, Author::Signal, "reload", &outcome, &differences);
            }
            Err(refusal) => {
                let text = format!("{} was refused, and nothing has changed: {refusal}", self.paths());
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
        author: Author,
    ) -> Result<(), Refusal> {
        let mut left = trial.before.clone();
        let before = trial.before.iter().map(|(at, config)| (*at, directions[*at].config.clone(), config));
        let differences = differences_of(directions, before);
        while let Some((at, config)) = left.pop() {
            if directions[at].shaping().is_none() {
                // The next start of the data path uses it.
                directions[at].config = config;
                followers.follow_config(directions);
            } else if let Err(refusal) = change(directions, &mut followers, at, config.clone()) {
                left.push((at, config));
                self.trial = Some(Trial { before: left, until: Instant::now() + AGAIN, ..trial });
                return Err(refusal);
            }
        }
        let command = match author {
            Author::Time => "not confirmed",
            Author::Client(_) | Author::Signal => "confirm --rollback",
        };
        let outcome = "the change was taken back; what was in force before is in force again";
        audit::report(followers.notifier, author, command, outcome, &differences);
        Ok(())
    }
}

impl Trial {
    /// The names of the directions that were changed.
    fn names(&self, directions: &[ShapedDirection]) -> String {
        let names: Vec<_> = self.before.iter().map(|(at, _)| directions[*at].name.as_str()).collect();
        names.join(" and ")
    }
}

/// The directions that `configs` of a file are for.
fn placed(
    directions: &[ShapedDirection],
    configs: Vec<Config>,
    named: Option<&str>,
) -> Result<Vec<(usize, Config)>, Refusal> {
    let running = |config: &Config| {
        let same = |direction: &ShapedDirection| {
            direction.config.interface.direction == config.interface.direction
                && (config.interface.names.is_empty() || direction.interfaces() == config.interface.names)
        };
        let mut ways =
            (0..directions.len()).filter(|&at| directions[at].config.interface.direction == config.interface.direction);
        // The only one of its direction is meant whatever it is called: another interface is refused with both names.
        let only = ways.next().filter(|_| ways.next().is_none());
        only.or_else(|| directions.iter().position(same).filter(|_| !config.interface.names.is_empty()))
    };
    let several = directions.iter().any(|direction| direction.file != 0);
    let wanted = named.map(|name| direction_named(directions, Some(name))).transpose()?;
    if configs.len() == 1 {
        if several && wanted.is_none() && configs.iter().any(|config| running(config).is_none()) {
            let names: Vec<&str> = directions.iter().map(|direction| direction.name.as_str()).collect();
            return Err(invalid("the file does not name an interface that is shaped here")
                .help(format!("name its interface, or choose a direction with --direction: {}", names.join(", "))));
        }
        // A file for another direction than the one it is for is refused where it is put in force.
        let place = |config| (wanted.or_else(|| running(&config)).unwrap_or(0), config);
        return Ok(configs.into_iter().map(place).collect());
    }
    let mut placed = Vec::new();
    for config in configs {
        let Some(at) = running(&config) else {
            let way = config.interface.direction.word();
            return Err(invalid(format!("the file also shapes {way}, which this shaper does not"))
                .help("restart the shaper with the file, or leave its table out"));
        };
        if wanted.is_none_or(|wanted| wanted == at) {
            placed.push((at, config));
        }
    }
    Ok(placed)
}

/// The differences of configurations of some directions from others, with the names of the directions where there are several.
fn differences_of<'a>(
    directions: &[ShapedDirection],
    compared: impl Iterator<Item = (usize, Config, &'a Config)>,
) -> Vec<Difference> {
    let mut all = Vec::new();
    for (at, old, new) in compared {
        let of = if directions.len() > 1 { format!("{}: ", directions[at].name) } else { String::new() };
        let named = |it: Difference| {
            let what = format!("{of}{}", it.what);
            let [from, to] = [&it.from, &it.to].map(|value| value.as_deref().map(for_people));
            let text = Difference::new(what.clone(), it.key.clone(), from, to).text;
            Difference { text, ..Difference::new(what, it.key, it.from, it.to) }
        };
        all.extend(edit::differences(&old, new).into_iter().map(named));
    }
    all
}

/// A value of a shaper file as screens and messages have it: a rate as `19.0 Mbit/s`.
fn for_people(value: &str) -> String {
    match value.parse::<Rate>() {
        Ok(rate) => tidegate_display::exact_rate(rate.as_bps()),
        Err(_) => value.to_owned(),
    }
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

/// Reads a text as a shaper file of this name, for one direction or both, and returns it with warnings for people.
fn load(name: &str, text: &str) -> Result<(Vec<Config>, String), Refusal> {
    let source = Source::new(name, text);
    let mut diagnostics = Diagnostics::new();
    let configs = shaper::load_all(&source, &mut diagnostics);
    let warnings = diagnostics.render(&source);
    match configs {
        Some(configs) => Ok((configs, warnings)),
        None => Err(invalid(warnings.trim_end())),
    }
}
