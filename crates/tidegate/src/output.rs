//! Writes to the terminal and to files.

use std::io::{IsTerminal, Write};
use std::path::Path;

use tidegate_config::decode::printable;
use tidegate_display::wrapped;
use tidegate_units::{Bytes, Rate, Span};
use unicode_width::UnicodeWidthStr;

use crate::Failure;

#[cfg(feature = "lab")]
mod files;
#[cfg(feature = "live")]
mod quantities;
#[cfg(feature = "lab")]
pub use files::{Files, Paper, TableFile, draw, look, spare};
#[cfg(feature = "live")]
pub use quantities::{addresses, shown, table};

/// Standard output for text: what others wrote, names above all, does nothing to a terminal ([`printable`]).
pub fn stdout() -> Text {
    Text(std::io::stdout().lock())
}

/// See [`stdout`].
pub struct Text(std::io::StdoutLock<'static>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Parts of a formatted text are whole characters.
        self.0.write_all(printable(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Writes text to standard error, like [`stdout`]; on a terminal, lines that are wider are broken between words. Errors
/// are ignored: if standard error is closed, nobody reads them.
pub fn say(text: &str) {
    let text = printable(text);
    if !std::io::stderr().is_terminal() {
        return styled(&text);
    }
    let lines = broken(&text, columns());
    styled(if text.ends_with('\n') { &lines } else { lines.trim_end_matches('\n') });
}

/// Writes text with colours of this program's own to standard error.
pub fn styled(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The width of the terminal that is standard output, in characters; `None` where that is none: a pipe or a file receives
/// whole tables.
pub fn width() -> Option<usize> {
    std::io::stdout().is_terminal().then(columns)
}

/// The columns of the terminal; of one that does not report them, those that most have.
fn columns() -> usize {
    let width = rustix::termios::tcgetwinsize(std::io::stderr())
        .or_else(|_| rustix::termios::tcgetwinsize(std::io::stdout()))
        .map_or(0, |size| usize::from(size.ws_col));
    if width == 0 { 80 } else { width }
}

/// Writes `text` to standard output; on a terminal, lines that are wider are broken between words. Tables fit already.
///
/// # Errors
/// When it cannot be written.
pub fn print(text: &str) -> std::io::Result<()> {
    let (mut out, text) = (stdout(), printable(text));
    match width() {
        None => out.write_all(text.as_bytes())?,
        Some(width) => out.write_all(broken(&text, width).as_bytes())?,
    }
    out.flush()
}

/// `text` for a terminal of `width` characters. A command to be copied, on an indented line of its own, stays one line.
pub fn broken(text: &str, width: usize) -> String {
    let line = |line: &str| {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let is_command = indent > 0 && line[indent..].starts_with("tidegate ");
        match is_command || line.width() <= width {
            true => format!("{line}\n"),
            false => format!("{}\n", hanging(line, Some(width), indent + 2)),
        }
    };
    text.lines().map(line).collect()
}

/// Names the command that is often the next one, to people at a terminal.
pub fn hint(text: &str) {
    if std::io::stdout().is_terminal() && std::io::stderr().is_terminal() {
        message!("{}", hanging(&format!("next: {text}"), width(), 6));
    }
}

/// `text` in lines of at most `width` characters, or in one; those after the first begin with `indent` spaces.
pub fn hanging(text: &str, width: Option<usize>, indent: usize) -> String {
    let room = width.map(|width| width.saturating_sub(indent.saturating_sub(2)));
    let words = text.trim_start_matches(' ');
    let lines = wrapped(words, room).replace("\n  ", &format!("\n{:indent$}", ""));
    format!("{}{lines}", &text[..text.len() - words.len()])
}

/// A rate with its unit.
pub fn rate(rate: Rate) -> String {
    tidegate_display::rate(rate.as_bps())
}

/// A rate with all of its digits, for sums.
pub fn exact_rate(rate: Rate) -> String {
    tidegate_display::exact_rate(rate.as_bps())
}

/// A size with its unit.
pub fn bytes(bytes: Bytes) -> String {
    tidegate_display::bytes(bytes.as_u64())
}

/// A wait with its unit.
pub fn wait(span: Span) -> String {
    tidegate_display::wait(span.as_nanos())
}

/// Writes a file; the error names it.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_after_the_first_are_indented() {
        assert_eq!(hanging("note one two three", Some(12), 5), "note one\n     two\n     three");
        assert_eq!(hanging("   -> one two", Some(12), 6), "   -> one\n      two");
        assert_eq!(hanging("one two", None, 5), "one two");
    }

    #[test]
    fn wide_lines_are_broken_between_words_and_keep_their_indent() {
        assert_eq!(broken("one two\n  three four five\n", 12), "one two\n  three four\n    five\n");
        assert_eq!(broken("  tidegate run one.toml\n", 12), "  tidegate run one.toml\n");
        // Without room for a word, that word alone is wider.
        assert_eq!(broken("a incomprehensibilities b", 10), "a\n  incomprehensibilities\n  b\n");
    }
}
