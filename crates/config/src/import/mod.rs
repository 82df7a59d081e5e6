//! Shaper files from the configurations of other shapers: sqm-scripts, `tc`, CAKE and wondershaper.
//!
//! An import reads text and makes text. What has no counterpart in a shaper file is listed with its line; nothing is left
//! out silently. The input may have been written by anybody: its size, its lines and what is listed of it are bounded.
//!
//! ```
//! use tidegate_config::{Source, import};
//! let source = Source::new("options", "bandwidth 20Mbit diffserv4 dual-srchost nat rtt 50ms overhead 44");
//! let found = import::cake(&source, Some("wan0"))?;
//! assert!(found.text.contains("rate = \"20mbit\"") && found.text.contains("tins = \"diffserv4\""));
//! assert!(found.left.iter().any(|left| left.text.contains("rtt 50ms")));
//! # Ok::<(), import::ImportError>(())
//! ```

mod cake;
mod quantity;
mod sqm;
mod tc;
mod wondershaper;

use std::fmt;

use tidegate_core::Rate;

use crate::Source;
use crate::decode::printable;

pub use cake::cake;
pub use sqm::sqm;
pub use tc::tc;
pub use wondershaper::{wondershaper, wondershaper_arguments};

/// The largest text that is read, in bytes: a hundred times what a gateway with hundreds of classes prints.
pub const LARGEST: usize = 1 << 20;
/// The longest line, in bytes.
const LONGEST_LINE: usize = 64 << 10;
/// How many things that could not be carried over are listed.
const MOST_LEFT: usize = 200;
/// How much of a foreign word is quoted, in characters.
const QUOTED: usize = 80;

/// A shaper file that was made of another configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// The text of the file. Its first comment names what could not be carried over.
    pub text: String,
    /// Settings that could not be carried over, in the order of the input.
    pub left: Vec<Left>,
}

/// Something that could not be carried over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// The line of the input, from 1.
    pub line: usize,
    /// Its name, and a remedy.
    pub text: String,
}

/// Why nothing could be imported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportError {
    /// The file, and its line where one is at fault.
    pub place: String,
    /// The problem in a sentence.
    pub message: String,
    /// The way out.
    pub help: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.message, self.help)
    }
}

impl std::error::Error for ImportError {}

/// An input: its lines, and what was not carried over so far.
struct Input<'a> {
    source: &'a Source,
    left: Vec<Left>,
    more: usize,
}

impl<'a> Input<'a> {
    /// # Errors
    /// When the text is empty or too large.
    fn new(source: &'a Source) -> Result<Self, ImportError> {
        let input = Self { source, left: Vec::new(), more: 0 };
        if source.text().len() > LARGEST {
            let kib = LARGEST >> 10;
            return Err(input.whole(format!("it is larger than {kib} KiB"), "is it the right file?"));
        }
        if let Some(at) = source.text().lines().position(|line| line.len() > LONGEST_LINE) {
            return Err(input.error(at + 1, "the line is longer than 64 KiB", "is it the right file?"));
        }
        if source.text().trim().is_empty() {
            return Err(input.whole("it is empty", "name the file, or pipe it to standard input"));
        }
        Ok(input)
    }

    /// The lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &'a str)> + use<'a> {
        self.source.text().lines().enumerate().map(|(at, line)| (at + 1, line))
    }

    fn error(&self, line: usize, message: impl Into<String>, help: impl Into<String>) -> ImportError {
        let place = format!("{}:{line}", printable(self.source.name()));
        ImportError { place, message: message.into(), help: help.into() }
    }
    fn whole(&self, message: impl Into<String>, help: impl Into<String>) -> ImportError {
        ImportError { place: printable(self.source.name()).into_owned(), message: message.into(), help: help.into() }
    }

    /// Notes that something of this line was not carried over.
    fn leave(&mut self, line: usize, text: impl Into<String>) {
        if self.left.len() < MOST_LEFT {
            self.left.push(Left { line, text: text.into() });
        } else {
            self.more += 1;
        }
    }

    /// The file: a heading, what was not carried over, and `body`.
    fn finish(mut self, from: &str, body: &str) -> Import {
        self.left.sort_by_key(|left| left.line);
        if self.more > 0 {
            let (line, more) = (self.left.last().map_or(0, |left| left.line), self.more);
            self.left.push(Left { line, text: format!("and {more} more of these, which are not listed") });
        }
        let name = printable(self.source.name());
        let mut text = format!("# Made of {from} by `tidegate import`, from {name}.\n");
        for left in &self.left {
            text.push_str(&format!("# Not carried over, line {}: {}\n", left.line, left.text.replace('\n', " ")));
        }
        text.push_str(body);
        Import { text, left: self.left }
    }
}

/// A foreign word in an error: printable, and not longer than a line.
fn quoted(word: &str) -> String {
    let short: String = printable(word).chars().take(QUOTED).collect();
    if short.chars().count() < QUOTED { format!("`{short}`") } else { format!("`{short}...`") }
}

/// A text as a TOML string.
fn toml(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

/// The table `[interface]` of a file for one direction.
fn interface(name: Option<&str>, direction: &str) -> String {
    let name = name.map_or(String::new(), |name| format!("name = {}\n", toml(name)));
    format!("version = 1\n\n[interface]\n{name}direction = \"{direction}\"\n")
}

/// Whether the kernel would take this as the name of an interface.
fn is_interface(name: &str) -> bool {
    (1..=15).contains(&name.len()) && !name.contains(|c: char| c == '/' || c.is_whitespace() || !c.is_ascii_graphic())
}

/// The files of both directions as one; `None` without any.
fn join(up: Option<String>, down: Option<String>) -> Option<String> {
    match (up, down) {
        (Some(up), Some(down)) => crate::shaper::join(&up, &down),
        (up, down) => up.or(down),
    }
}

/// A rate in kbit/s as sqm-scripts and wondershaper write it; `None` where it is not a number of at most twelve digits.
fn kbit(text: &str) -> Option<Rate> {
    let is_number = (1..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number).map(Rate::from_kbit)
}

/// Takes the quotation marks around a value away.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    let inside = |mark| value.strip_prefix(mark).and_then(|rest: &str| rest.strip_suffix(mark));
    inside('"').or_else(|| inside('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests;
