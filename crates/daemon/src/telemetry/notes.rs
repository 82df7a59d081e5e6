//! [`Notes`]: the last changes and faults, which the page marks in its charts.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
pub use tidegate_control::calls::{Note, NoteKind};

/// The maximum number of changes, and of faults.
pub const MOST: usize = 256;

/// The last changes and the last faults, at most [`MOST`] of each, so that faults that repeat leave the changes there. Equal
/// faults are one note, at the time of the last of them.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    changes: VecDeque<Kept>,
    others: VecDeque<Kept>,
    /// Notes that have not been taken, each as it was added.
    new: Vec<Note>,
    /// The number of the next note.
    next: u64,
}

#[derive(Clone, Debug)]
struct Kept {
    /// Orders notes of the same second.
    number: u64,
    /// Without the number of times in its text.
    note: Note,
    /// How many equal notes it is.
    times: u64,
}

impl Kept {
    fn shown(&self) -> Note {
        let mut note = self.note.clone();
        if self.times > 1 {
            note.text.push_str(&format!(" ({} times)", self.times));
        }
        note
    }
}

/// Splits the number of times from a text that [`Kept::shown`] has made.
fn times(text: &str) -> (&str, u64) {
    let split = || {
        let (base, times) = text.strip_suffix(" times)")?.rsplit_once(" (")?;
        Some((base, times.parse().ok()?))
    };
    split().unwrap_or((text, 1))
}

impl Notes {
    /// Adds a note at the present time.
    pub fn add(&mut self, kind: NoteKind, text: &str) {
        let time_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let note = Note { time_s, kind, text: text.into() };
        self.push(note.clone());
        let waiting = self.new.iter().filter(|other| other.kind == kind).count();
        if waiting < MOST {
            self.new.push(note);
        }
    }

    fn push(&mut self, mut note: Note) {
        let (number, mut times_of) = (self.next, 1);
        self.next += 1;
        let kept = if note.kind == NoteKind::Change { &mut self.changes } else { &mut self.others };
        if note.kind != NoteKind::Change {
            let (base, times) = times(&note.text);
            (note.text, times_of) = (base.to_owned(), times);
            if let Some(at) = kept.iter().position(|other| other.note.text == note.text) {
                times_of = kept.remove(at).map_or(times_of, |other| times_of.saturating_add(other.times));
            }
        }
        if kept.len() == MOST {
            kept.pop_front();
        }
        kept.push_back(Kept { number, note, times: times_of });
    }

    /// Adds notes of an earlier process before those of this one.
    pub(super) fn restore(&mut self, earlier: Vec<Note>) {
        let own = std::mem::take(self);
        earlier.into_iter().chain(own.all()).for_each(|note| self.push(note));
        self.new = own.new;
    }

    /// The notes that were added since the last call.
    pub(super) fn take_new(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.new)
    }

    /// All of them, the oldest first.
    pub(super) fn all(&self) -> Vec<Note> {
        self.since(0)
    }

    /// Returns the notes from second `since` on, the oldest first.
    pub fn since(&self, since: u64) -> Vec<Note> {
        let mut kept: Vec<&Kept> =
            self.changes.iter().chain(&self.others).filter(|kept| kept.note.time_s >= since).collect();
        kept.sort_by_key(|kept| kept.number);
        kept.into_iter().map(Kept::shown).collect()
    }

    /// Returns the notes from second `since` on, the oldest first, as JSON: `time_s`, `kind` (`change` or `event`), `text`.
    pub fn json(&self, since: u64) -> Value {
        let one = |note: Note| json!({ "time_s": note.time_s, "kind": note.kind.name(), "text": note.text });
        self.since(since).into_iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_notes_are_kept_in_their_order() {
        let mut notes = Notes::default();
        for n in 0..2 * MOST + 3 {
            notes.add(if n % 2 == 0 { NoteKind::Change } else { NoteKind::Event }, &n.to_string());
        }
        let all = notes.json(0);
        let all = all.as_array().unwrap();
        assert_eq!((all.len(), &all[0]["text"], &all[0]["kind"]), (2 * MOST, &json!("3"), &json!("event")));
        assert_eq!(all[2 * MOST - 1]["text"], json!((2 * MOST + 2).to_string()));
        assert_eq!(notes.json(u64::MAX), json!([]));
    }

    #[test]
    fn faults_leave_changes_there_and_equal_ones_are_one_note() {
        let mut notes = Notes::default();
        notes.add(NoteKind::Change, "root (uid 0), process 7: set class calls rate 8mbit");
        notes.add(NoteKind::Event, "up: it does not answer");
        for n in 0..3 * MOST {
            notes.add(NoteKind::Event, if n % 2 == 0 { "up: lost" } else { "down: lost" });
        }
        let texts = |notes: &Notes| notes.since(0).into_iter().map(|note| note.text).collect::<Vec<_>>();
        let wanted = [
            "root (uid 0), process 7: set class calls rate 8mbit",
            "up: it does not answer",
            "up: lost (384 times)",
            "down: lost (384 times)",
        ];
        assert_eq!(texts(&notes), wanted);
        // They are one after a restart, too, and go on to be.
        let mut next = Notes::default();
        next.add(NoteKind::Event, "up: lost");
        next.restore(notes.all());
        assert_eq!(texts(&next)[2..], ["down: lost (384 times)", "up: lost (385 times)"]);
        for n in 0..2 * MOST {
            next.add(NoteKind::Event, &format!("fault {n}"));
        }
        assert_eq!((next.since(0).len(), texts(&next)[0].as_str()), (MOST + 1, wanted[0]));
        // Equal changes were made by somebody each time.
        next.add(NoteKind::Change, wanted[0]);
        assert_eq!(next.since(0).iter().filter(|note| note.text == wanted[0]).count(), 2);
    }
}
