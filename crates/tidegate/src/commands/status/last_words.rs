//! The end of a daemon that does not answer: its last words, and those of its guardian.

use std::path::Path;

use tidegate_control::ClientError;
use tidegate_control::words::{self, Speaker, Word};
use tidegate_live::timing;
use tidegate_units::Span;

use crate::commands::events::moment;

/// How many lines are shown.
const SHOWN: usize = 8;

/// Describes the daemon at the socket `path`, which failed with `error`, in some lines.
pub fn describe(path: &Path, error: &ClientError) -> String {
    let words = words::last_words(&words::found_of(path)).unwrap_or_default();
    let is_gone = is_gone(error);
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let begin = match (is_gone, process_of(&words)) {
        (true, Some(process)) => {
            format!("{name}: process {process}, which listened at {}, has ended unexpectedly", path.display())
        }
        (true, None) => format!("{name}: nothing listens at {} any more; its process left no words", path.display()),
        (false, _) => error.to_string(),
    };
    lines(begin, &words, words::guards, is_gone)
}

/// The process of a daemon that was killed and left its socket at `path`, as `error` of a connection shows; nothing if it is
/// running, or left no words.
pub fn ended(path: &Path, error: &ClientError) -> Option<u32> {
    if !is_gone(error) {
        return None;
    }
    process_of(&words::last_words(&words::found_of(path)).ok()?)
}

/// Whether the guardian of the daemon that left its socket at `path` is running.
pub fn is_guarded(path: &Path) -> bool {
    let words = words::last_words(&words::found_of(path)).unwrap_or_default();
    words.iter().rev().find(|word| word.speaker == Speaker::Guardian).is_some_and(|word| words::guards(word.process))
}

/// Whether no process is behind the socket.
fn is_gone(error: &ClientError) -> bool {
    match error {
        ClientError::Connect { source, .. } => source.kind() == std::io::ErrorKind::ConnectionRefused,
        ClientError::Closed => true,
        _ => false,
    }
}

/// The process of the last daemon that wrote.
fn process_of(words: &[Word]) -> Option<u32> {
    words.iter().rev().find(|word| word.speaker == Speaker::Daemon).map(|word| word.process)
}

fn lines(begin: String, words: &[Word], guards: impl Fn(u32) -> bool, is_gone: bool) -> String {
    let mut text = begin;
    let guardian = words.iter().rev().find(|word| word.speaker == Speaker::Guardian).map(|word| word.process);
    let state = match guardian {
        Some(process) if guards(process) && is_gone => {
            format!("its guardian, process {process}, lets packets pass unshaped and waits for a successor")
        }
        Some(process) if guards(process) => format!("its guardian is process {process}"),
        Some(_) if is_gone => {
            "its guardian has ended as well; traffic passes unshaped; start it again with `tidegate run`".into()
        }
        // Without a guardian packets are queued in the kernel, or it could not be started.
        None if is_gone && !words.is_empty() => {
            "it had no guardian; what the kernel shapes goes on as configured last, all else passes unshaped".into()
        }
        _ => String::new(),
    };
    if !state.is_empty() {
        text.push_str(&format!("\n{state}"));
    }
    let shown = &words[words.len().saturating_sub(SHOWN)..];
    if !shown.is_empty() {
        text.push_str("\nthe last words:");
    }
    for word in shown {
        // Of a clock that began again nothing is known.
        let time = match word.nanos <= timing::now().as_nanos() {
            true => moment(Span::from_nanos(word.nanos)),
            false => "earlier".into(),
        };
        text.push_str(&format!("\n  {time} {} {}: {}", word.speaker.word(), word.process, word.text));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_both_are_shown_and_the_guardian_is_found() {
        let word = |speaker, process, text: &str| Word { nanos: 1, speaker, process, text: text.into() };
        let words = [
            word(Speaker::Guardian, 8, "watches process 7"),
            word(Speaker::Daemon, 7, "root (uid 0), process 12: set class calls rate 8mbit: in force"),
            word(Speaker::Guardian, 8, "process 7 has ended unexpectedly; packets pass unshaped"),
        ];
        assert_eq!(process_of(&words), Some(7));
        let text = lines("gone".into(), &words, |process| process == 8, true);
        assert!(text.contains("its guardian, process 8, lets packets pass unshaped and waits"), "{text}");
        assert!(
            text.contains("guardian 8: process 7 has ended unexpectedly") && text.contains("daemon 7: root (uid 0)"),
            "{text}"
        );
        let text = lines("gone".into(), &words, |_| false, true);
        assert!(text.contains("its guardian has ended as well; traffic passes unshaped"), "{text}");
        let text = lines("gone".into(), &words[1..2], |_| false, true);
        assert!(text.contains("it had no guardian; what the kernel shapes goes on"), "{text}");
        let path = std::env::temp_dir().join(format!("tidegate-gone-{}.sock", std::process::id()));
        let refused = ClientError::Connect { path: path.clone(), source: std::io::ErrorKind::ConnectionRefused.into() };
        let text = describe(&path, &refused);
        assert!(text.contains("nothing listens at") && !text.contains("os error"), "{text}");
    }
}
