//! [`Notes`]: the last changes and faults, which the page marks in its charts.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
pub use tidegate_control::calls::{Note, NoteKind};

/// The maximum number of notes.
pub const MOST: usize = 256;

/// The last changes and faults, at most [`MOST`].
#[derive(Clone, Debug, Default)]
pub struct Notes {
    all: VecDeque<Note>,
    /// How many of the last ones have not been taken.
    new: usize,
}

impl Notes {
    /// Adds a note at the present time.
    pub fn add(&mut self, kind: NoteKind, text: &str) {
        let time_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        self.new = (self.new + 1).min(MOST);
        if self.all.len() == MOST {
            self.all.pop_front();
        }
        self.all.push_back(Note { time_s, kind, text: text.into() });
    }

    /// Adds notes of an earlier process before those of this one.
    pub(super) fn restore(&mut self, mut earlier: VecDeque<Note>) {
        earlier.append(&mut self.all);
        earlier.drain(..earlier.len().saturating_sub(MOST));
        self.all = earlier;
    }

    /// The notes that were added since the last call.
    pub(super) fn take_new(&mut self) -> Vec<Note> {
        let from = self.all.len() - std::mem::take(&mut self.new).min(self.all.len());
        self.all.range(from..).cloned().collect()
    }

    /// All of them, the oldest first.
    pub(super) fn all(&self) -> Vec<Note> {
        self.all.iter().cloned().collect()
    }

    /// Returns the notes from second `since` on, the oldest first.
    pub fn since(&self, since: u64) -> impl Iterator<Item = &Note> {
        self.all.iter().filter(move |note| note.time_s >= since)
    }

    /// Returns the notes from second `since` on, the oldest first, as JSON: `time_s`, `kind` (`change` or `event`), `text`.
    pub fn json(&self, since: u64) -> Value {
        let one = |note: &Note| json!({ "time_s": note.time_s, "kind": note.kind.name(), "text": note.text });
        self.since(since).map(one).collect()
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
