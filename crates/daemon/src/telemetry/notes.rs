//! [`Notes`]: the last changes and faults, which the page marks in its charts.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// The maximum number of notes.
pub const MOST: usize = 256;

/// The subject of a note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoteKind {
    /// A change of the configuration.
    Change,
    /// Anything else that is logged: faults, recoveries, interfaces that come and go.
    Event,
}

#[derive(Clone, Debug)]
struct Note {
    /// Seconds since 1970.
    second: u64,
    kind: NoteKind,
    text: String,
}

/// The last changes and faults, at most [`MOST`].
#[derive(Clone, Debug, Default)]
pub struct Notes(VecDeque<Note>);

impl Notes {
    /// Adds a note at the present time.
    pub fn add(&mut self, kind: NoteKind, text: &str) {
        let second = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(Note { second, kind, text: text.into() });
    }

    /// Returns the notes from second `since` on, the oldest first, as JSON: `time_s`, `kind` (`change` or `event`), `text`.
    pub fn json(&self, since: u64) -> Value {
        let kind = |kind| match kind {
            NoteKind::Change => "change",
            NoteKind::Event => "event",
        };
        let notes = self.0.iter().filter(|note| note.second >= since);
        notes.map(|note| json!({ "time_s": note.second, "kind": kind(note.kind), "text": note.text })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_notes_are_kept_in_their_order() {
        let mut notes = Notes::default();
        for n in 0..MOST + 3 {
            notes.add(if n % 2 == 0 { NoteKind::Change } else { NoteKind::Event }, &n.to_string());
        }
        let all = notes.json(0);
        let all = all.as_array().unwrap();
        assert_eq!((all.len(), &all[0]["text"], &all[0]["kind"]), (MOST, &json!("3"), &json!("event")));
        assert_eq!(all[MOST - 1]["text"], json!((MOST + 2).to_string()));
        assert_eq!(notes.json(u64::MAX), json!([]));
    }
}
