//! [`Source`]: a text with a name; [`Diagnostics`]: what is wrong with it, and where.

use std::fmt::{Display, Write as _};
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::printable::{is_unprintable, printable};

/// The most findings that are shown: they fit a terminal, and later ones often follow from the first. Each costs a pass over
/// the text.
const MOST_SHOWN: usize = 10;

/// The largest file that is read: a hundred times what a large scenario has, and read in a fraction of a second.
pub const LARGEST_FILE: u64 = 16 << 20;

/// A text to read a configuration from, and the name that errors call it by.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
}

impl Source {
    /// `text`, called `name` in errors.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
    /// Reads the file at `path`, at most [`LARGEST_FILE`] bytes; `-` is standard input.
    ///
    /// # Errors
    /// When it cannot be read, is too large, or is not UTF-8; the error names the file.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        // A pipe has no size; so the end is looked for beyond the limit, and no more is read.
        let mut read = |from: &mut dyn Read| from.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map(drop);
        let read = match name.as_str() {
            "-" => read(&mut std::io::stdin()),
            _ => std::fs::File::open(path).and_then(|mut file| match file.metadata()?.len() {
                0..=LARGEST_FILE => read(&mut file),
                _ => Err(ErrorKind::FileTooLarge.into()),
            }),
        };
        let read = match read {
            Ok(()) if bytes.len() as u64 > LARGEST_FILE => Err(ErrorKind::FileTooLarge.into()),
            other => other,
        };
        let name = if name == "-" { "<stdin>".into() } else { name };
        let failed = |kind, why: &dyn Display| std::io::Error::new(kind, format!("cannot read {name}: {why}"));
        read.map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => {
                let why =
                    format!("it is larger than {} MiB, which is the most; is it the right file?", LARGEST_FILE >> 20);
                failed(ErrorKind::FileTooLarge, &why)
            }
            kind => failed(kind, &error),
        })?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(name, text)),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
                let why = format!("line {line}, byte {valid} of the file, is not UTF-8; save it as UTF-8");
                Err(failed(ErrorKind::InvalidData, &why))
            }
        }
    }
    /// The name at the beginning of errors: the path of a file, or a substitute.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The text, into which places point by byte.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// Line and column of a byte, both from 1, the column in characters.
    pub fn line_column(&self, byte: usize) -> (usize, usize) {
        let before = &self.text[..self.text.floor_char_boundary(byte)];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// A piece of a source: bytes from `start` up to, not including, `end`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Place {
    /// The offset of the first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl From<Range<usize>> for Place {
    fn from(range: Range<usize>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

/// Whether a finding forbids the use of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but is probably not what was meant.
    Warning,
}

/// One finding: severity, place, message, and remedy.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// Whether the text can be used nevertheless.
    pub severity: Severity,
    /// The text that is marked.
    pub place: Place,
    /// The fault in one line, without place and remedy.
    pub message: String,
    /// The text at the mark.
    pub label: Option<String>,
    /// Other places that are involved.
    pub related: Vec<(Place, String)>,
    /// The remedy.
    pub help: Option<String>,
}

impl Diagnostic {
    /// The text at the mark.
    pub fn label(&mut self, label: impl Into<String>) -> &mut Self {
        self.label = Some(label.into());
        self
    }
    /// Marks another place that is involved.
    pub fn related(&mut self, place: Place, label: impl Into<String>) -> &mut Self {
        self.related.push((place, label.into()));
        self
    }
    /// Adds a remedy.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }
    /// Returns the finding with control characters escaped, because it quotes untrusted text.
    fn printable(&self) -> Self {
        let text = |text: &String| printable(text).into_owned();
        Self {
            message: text(&self.message),
            label: self.label.as_ref().map(text),
            related: self.related.iter().map(|(place, label)| (*place, text(label))).collect(),
            help: self.help.as_ref().map(text),
            ..*self
        }
    }
}

/// All findings in one source.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    /// The findings in files that the source names.
    others: Vec<(Source, Diagnostics)>,
}

impl Diagnostics {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds an error at `place`. The methods of the result add details.
    pub fn error(&mut self, place: Place, message: impl Into<String>) -> &mut Diagnostic {
        self.push(Severity::Error, place, message.into())
    }
    /// Adds a warning at `place`. The methods of the result add details.
    pub fn warning(&mut self, place: Place, message: impl Into<String>) -> &mut Diagnostic {
        self.push(Severity::Warning, place, message.into())
    }

    /// Adds the findings in another file that the source names. They are rendered with the name and the text of that
    /// file.
    pub fn include(&mut self, source: &Source, found: Self) {
        if !found.is_empty() {
            self.others.push((source.clone(), found));
        }
    }

    /// Adds the errors of `found`, without its warnings.
    pub(crate) fn add_errors(&mut self, found: Self) {
        self.list.extend(found.list.into_iter().filter(|one| one.severity == Severity::Error));
    }

    fn push(&mut self, severity: Severity, place: Place, message: String) -> &mut Diagnostic {
        self.list.push(Diagnostic { severity, place, message, label: None, related: Vec::new(), help: None });
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    /// Removes findings that repeat an earlier one.
    pub(crate) fn remove_duplicates(&mut self) {
        let mut seen = std::collections::HashSet::new();
        self.list.retain(|found| seen.insert((found.place, found.message.clone())));
    }

    /// The findings in the order in which they were added, without those in other files.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }
    /// Returns the number of errors.
    pub fn errors(&self) -> usize {
        let others: usize = self.others.iter().map(|(_, found)| found.errors()).sum();
        self.list.iter().filter(|d| d.severity == Severity::Error).count() + others
    }
    /// Returns the number of warnings.
    pub fn warnings(&self) -> usize {
        let others: usize = self.others.iter().map(|(_, found)| found.warnings()).sum();
        self.list.iter().filter(|d| d.severity == Severity::Warning).count() + others
    }
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.others.is_empty()
    }

    /// All findings as plain text, in the order of their places.
    pub fn render(&self, source: &Source) -> String {
        self.render_with(source, &Renderer::plain())
    }
    /// All findings with colours for a terminal.
    pub fn render_styled(&self, source: &Source) -> String {
        self.render_with(source, &Renderer::styled())
    }

    fn render_with(&self, source: &Source, renderer: &Renderer) -> String {
        let mut sorted: Vec<_> = self.list.iter().collect();
        sorted.sort_by_key(|d| (d.severity == Severity::Warning, d.place));
        let mut out = String::new();
        let name = printable(source.name());
        for diagnostic in sorted.iter().take(MOST_SHOWN) {
            let diagnostic = diagnostic.printable();
            let text = renderer.render(&[report(&diagnostic, source, &name)]);
            // The renderer shows control characters of the source as symbols, but not all of them. Colours are its own.
            let text = text.replace(|c| c != '\x1b' && is_unprintable(c), "\u{fffd}");
            // Writing into a string does not fail.
            let _ = writeln!(out, "{text}\n");
        }
        if sorted.len() > MOST_SHOWN {
            let _ = writeln!(
                out,
                "... and {} more, which are shown when some of these are mended",
                sorted.len() - MOST_SHOWN
            );
        }
        for (source, found) in &self.others {
            out.push_str(&found.render_with(source, renderer));
        }
        out
    }
}

fn report<'a>(diagnostic: &'a Diagnostic, source: &'a Source, name: &'a str) -> Group<'a> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let primary = AnnotationKind::Primary.span(visible(diagnostic.place, source.text()));
    let mut snippet = Snippet::source(source.text()).path(name).annotation(primary.label(diagnostic.label.as_deref()));
    for (place, label) in &diagnostic.related {
        let context = AnnotationKind::Context.span(visible(*place, source.text()));
        snippet = snippet.annotation(context.label(label.as_str()));
    }
    let mut group = level.primary_title(diagnostic.message.as_str()).element(snippet);
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    group
}

/// The place within the text, on character boundaries and on one line. A table is marked by its first line.
fn visible(place: Place, text: &str) -> Range<usize> {
    let start = text.floor_char_boundary(place.start);
    let end = text.ceil_char_boundary(place.end).max(start);
    let end = text[start..end].find('\n').map_or(end, |line| start + line);
    start..end
}
