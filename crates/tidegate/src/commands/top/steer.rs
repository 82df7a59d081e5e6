//! Changes from the screen: the rate of a class or of the line, and the preference of a flow. Each is shown before it is
//! made, and can be taken back.

use tidegate_control::Client;
use tidegate_control::calls::{Apply, Edit, Flow, PromiseCall, Target};

use crate::commands::connect::Connect;

/// The object whose rate is set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Goal {
    /// A class of this name.
    Class(String),
    /// The whole direction, in the table `shaper` or `discipline` of its file.
    Line(&'static str),
}

impl Goal {
    /// The name for people.
    pub fn name(&self) -> String {
        match self {
            Self::Class(name) => format!("class {name}"),
            Self::Line(_) => "the whole line".into(),
        }
    }

    fn edit(&self, value: &str) -> Edit {
        let (section, name) = match self {
            Self::Class(name) => ("class".to_owned(), Some(name.clone())),
            Self::Line(table) => ((*table).to_owned(), None),
        };
        Edit::Set { section, name, key: "rate".into(), value: value.into() }
    }
}

/// A change that has been checked and not been made yet.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The changes, a line each.
    pub lines: Vec<String>,
    action: Action,
}

impl Planned {
    /// How long the change lasts.
    pub const fn lasts(&self) -> &'static str {
        match self.action {
            Action::Edit(_) => "until the shaper ends; `tidegate status --file` prints the file to keep",
            Action::Prefer(_) => "until top ends; `tidegate promise --prefer 1` keeps one",
        }
    }
}

#[derive(Clone, Debug)]
enum Action {
    Edit(Box<Reversible>),
    Prefer(Box<PromiseCall>),
}

/// An edit of a direction's file, and the edit that takes it back.
#[derive(Clone, Debug)]
struct Reversible {
    direction: String,
    edit: Edit,
    back: Edit,
}

/// The call that takes a change back.
enum Undo {
    Edit(Box<Reversible>),
    Promise(u64),
}

/// Makes changes, over a connection of its own: a preference ends with it.
pub struct Steering {
    connect: Option<Connect>,
    client: Option<Client>,
    done: Vec<(String, Undo)>,
}

impl Steering {
    /// Changes the shaper that `connect` selects; none without it.
    pub const fn new(connect: Option<Connect>) -> Self {
        Self { connect, client: None, done: Vec::new() }
    }

    fn client(&mut self) -> Result<&mut Client, String> {
        if self.client.is_none() {
            let connect = self.connect.as_ref().ok_or("there is no shaper to change")?;
            self.client = Some(connect.open().map_err(|error| error.to_string())?);
        }
        self.client.as_mut().ok_or_else(|| "there is no connection".into())
    }

    fn apply(&mut self, direction: &str, edit: &Edit, dry_run: bool) -> Result<Vec<(String, Option<String>)>, String> {
        let (direction, edits) = (Some(direction.to_owned()), vec![edit.clone()]);
        let applied = self.client()?.apply(&Apply { direction, edits, dry_run, ..Apply::default() });
        let applied = applied.map_err(|error| self.failed(&error))?;
        Ok(applied.differences.into_iter().map(|one| (one.text, one.from)).collect())
    }

    /// The text of an error; the next call connects again unless the daemon refused this one.
    fn failed(&mut self, error: &tidegate_control::ClientError) -> String {
        if !matches!(error, tidegate_control::ClientError::Refused(_)) {
            self.client = None;
        }
        error.to_string()
    }

    /// Checks another rate for `goal`, and returns the change.
    pub fn rate(&mut self, direction: &str, goal: &Goal, value: &str) -> Result<Planned, String> {
        let edit = goal.edit(value.trim());
        let differences = self.apply(direction, &edit, true)?;
        let Some((_, before)) = differences.first() else { return Err("nothing changes".into()) };
        // An empty value removes a key that was not there.
        let back = goal.edit(before.as_deref().unwrap_or(""));
        let lines = differences.iter().map(|(text, _)| text.clone()).collect();
        let action = Action::Edit(Box::new(Reversible { direction: direction.into(), edit, back }));
        Ok(Planned { lines, action })
    }

    /// A step of preference for a flow, until it is taken back or this program ends.
    pub fn prefer(direction: &str, flow: &Flow) -> Planned {
        let target = Target {
            protocol: flow.protocol,
            source: flow.source,
            source_port: flow.source_port,
            destination: flow.destination,
            destination_port: flow.destination_port,
            ..Target::default()
        };
        let call = PromiseCall { target, direction: Some(direction.into()), prefer: 1, ..PromiseCall::default() };
        let lines = vec![format!("prefer {flow} by one step")];
        Planned { lines, action: Action::Prefer(Box::new(call)) }
    }

    /// Makes a change, and describes it.
    pub fn make(&mut self, planned: Planned) -> Result<String, String> {
        let what = planned.lines.first().cloned().unwrap_or_default();
        let undo = match planned.action {
            Action::Edit(change) => {
                self.apply(&change.direction, &change.edit, false)?;
                Undo::Edit(change)
            }
            Action::Prefer(call) => {
                let promised = self.client()?.call(&*call);
                Undo::Promise(promised.map_err(|error| self.failed(&error))?.promise)
            }
        };
        self.done.push((what.clone(), undo));
        Ok(format!("{what}: in force; z takes it back"))
    }

    /// Takes the last change back, and returns which.
    pub fn undo(&mut self) -> Result<String, String> {
        let (what, undo) = self.done.pop().ok_or("there is no change to undo")?;
        let taken = match &undo {
            Undo::Edit(change) => self.apply(&change.direction, &change.back, false).map(drop),
            Undo::Promise(promise) => {
                let released = self.client()?.release(*promise);
                released.map(drop).map_err(|error| self.failed(&error))
            }
        };
        match taken {
            Ok(()) if self.done.is_empty() => Ok(format!("{what}: taken back")),
            Ok(()) => Ok(format!("{what}: taken back; z takes the change before it back")),
            Err(error) => {
                self.done.push((what, undo));
                Err(error)
            }
        }
    }
}
