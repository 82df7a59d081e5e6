//! `notes`: the last changes and faults, which outlive the daemon.

use serde::{Deserialize, Serialize};

/// The request `notes`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Notes {
    /// Notes from this second on, since 1970. Default: all that are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_s: Option<u64>,
}

/// The reply to `notes`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NoteList {
    /// The oldest first.
    pub notes: Vec<Note>,
}

/// The subject of a note.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteKind {
    /// A change of the configuration.
    Change,
    /// Anything else that is logged: faults, recoveries, interfaces that come and go.
    Event,
    /// A kind of a newer daemon.
    #[serde(other)]
    Other,
}

impl NoteKind {
    /// Returns the name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Event => "event",
            Self::Other => "other",
        }
    }
}

/// A change or a fault.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// When it was, in seconds since 1970.
    pub time_s: u64,
    /// Its subject.
    pub kind: NoteKind,
    /// A text for display. That of a change begins with who made it, and by which command.
    pub text: String,
}
