//! The book. It consists of chapters, the manuals at the heads of the disciplines' files, and pages of the experiments.
//! It can be read in the terminal, as HTML that needs no network, and as sources for mdbook.
//!
//! The code in the book is compiled and run: `rust` blocks as doctests of this crate, `toml` blocks by the tests of
//! this crate, and `sh` blocks by the tests of the command.

pub mod blocks;
mod html;
pub mod search;
pub mod synonyms;
mod terminal;

use std::borrow::Cow;

pub use terminal::{Ink, render};

include!(concat!(env!("OUT_DIR"), "/chapters.rs"));

/// A chapter of the book.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chapter {
    /// The path in the book without an extension, such as `cookbook/home-uplink` or `disciplines/fifo`.
    pub slug: String,
    /// The first heading.
    pub title: String,
    /// The depth in the contents, from 0.
    pub depth: usize,
    /// The title of the part of the book, if a part begins with this chapter.
    pub part: Option<&'static str>,
    /// The text, in Markdown.
    pub text: Cow<'static, str>,
}

impl Chapter {
    fn new(slug: impl Into<String>, depth: usize, text: Cow<'static, str>) -> Self {
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default().trim().to_owned();
        Self { slug: slug.into(), title, depth, part: None, text }
    }
    /// The last component of the slug, which `tidegate book` takes as its argument.
    pub fn topic(&self) -> &str {
        self.slug.rsplit_once('/').map_or(&self.slug, |(_, name)| name)
    }
}

/// The text of `SUMMARY.md`.
fn summary() -> &'static str {
    written("SUMMARY").unwrap_or_default()
}

fn written(slug: &str) -> Option<&'static str> {
    CHAPTERS.iter().find(|(name, _)| *name == slug).map(|(_, text)| *text)
}

/// The chapter after which the manuals of selectable disciplines are inserted.
const MANUALS_AFTER: &str = "disciplines";
/// The chapter after which the manuals of the disciplines' building blocks are inserted.
const PARTS_AFTER: &str = "parts";
/// The chapter after which the pages of the experiments are inserted.
const EXPERIMENTS_AFTER: &str = "experiments";

/// The book, together with the texts that the program adds.
#[derive(Clone, Debug, Default)]
pub struct Book {
    appended: Vec<(String, String)>,
}

impl Book {
    /// Returns the book without additions.
    pub fn new() -> Self {
        Self::default()
    }
    /// Appends `text` to the chapter `slug`, for reference material that the program generates.
    #[must_use]
    pub fn append(mut self, slug: impl Into<String>, text: impl Into<String>) -> Self {
        self.appended.push((slug.into(), text.into()));
        self
    }
    /// All chapters, in the order of the contents.
    pub fn chapters(&self) -> Vec<Chapter> {
        let mut chapters = chapters();
        for (slug, text) in &self.appended {
            for chapter in chapters.iter_mut().filter(|chapter| chapter.slug == *slug) {
                chapter.text.to_mut().push_str(text);
            }
        }
        chapters
    }
    /// The figures of the chapters: their paths in the book, with the extension, and their SVG texts.
    pub fn figures(&self) -> &'static [(&'static str, &'static str)] {
        FIGURES
    }
    /// Finds the chapter with this slug, or else the one whose slug ends with it.
    pub fn find(&self, topic: &str) -> Option<Chapter> {
        let topic = topic.trim_end_matches(".md");
        let chapters = self.chapters();
        let exact = chapters.iter().find(|chapter| chapter.slug == topic);
        let named = || chapters.iter().find(|chapter| chapter.topic() == topic);
        // Manuals are named after modules (`fq_codel`), whose names differ from those in configuration files
        // (`fq-codel`).
        let alike = || chapters.iter().find(|chapter| chapter.topic().replace('_', "-") == topic.replace('_', "-"));
        exact.or_else(named).or_else(alike).cloned()
    }
    /// Returns the section of a chapter whose heading has this anchor, with those below it.
    pub fn section(&self, topic: &str, anchor: &str) -> Option<String> {
        let chapter = self.find(topic)?;
        let (mut inside, mut fenced, mut text) = (0, false, String::new());
        for line in chapter.text.split_inclusive('\n') {
            fenced ^= line.trim_start().starts_with("```");
            let level = if fenced { 0 } else { line.bytes().take_while(|c| *c == b'#').count() };
            let heading = line.trim_start_matches('#').trim();
            if level > 0 && (inside == 0 || level <= inside) {
                inside = if inside == 0 && html::anchor(&heading.replace('`', "")) == anchor { level } else { 0 };
                if inside == 0 && !text.is_empty() {
                    break;
                }
            }
            if inside > 0 {
                text.push_str(line);
            }
        }
        (!text.is_empty()).then_some(text)
    }
    /// Returns the paths and contents of the HTML pages and of the search index. The pages need no network.
    pub fn pages(&self) -> Vec<(String, String)> {
        html::pages(&self.chapters(), &self.sections())
    }
    /// Returns the paths and contents of the sources for mdbook, manuals and experiments included.
    pub fn sources(&self) -> Vec<(String, String)> {
        let chapters = self.chapters();
        let mut contents = String::from("# Contents\n\n");
        for chapter in &chapters {
            if let Some(part) = chapter.part {
                contents.push_str(&format!("\n# {part}\n\n"));
            }
            let indent = "  ".repeat(chapter.depth);
            let title = chapter.title.replace(['[', ']'], "");
            contents.push_str(&format!("{indent}- [{title}]({}.md)\n", chapter.slug));
        }
        let mut files = vec![
            ("book.toml".to_owned(), include_str!("../../../book/book.toml").to_owned()),
            ("src/SUMMARY.md".to_owned(), contents),
        ];
        let texts = chapters.into_iter().map(|chapter| (format!("src/{}.md", chapter.slug), chapter.text.into_owned()));
        files.extend(texts);
        files.extend(FIGURES.iter().map(|(path, svg)| (format!("src/{path}"), (*svg).to_owned())));
        files
    }
}

/// Returns all chapters in the order of the contents.
///
/// A chapter is listed in `SUMMARY.md` as `- [Title](path.md)`, indented by two spaces for each level, and `# Title`
/// begins a part of the book. The manuals linked from the chapter `disciplines` follow that chapter, the other manuals
/// follow `parts`, and the pages of the experiments follow
/// `experiments`.
fn chapters() -> Vec<Chapter> {
    let (mut chapters, mut part) = (Vec::new(), None);
    for line in summary().lines().skip(1) {
        part = line.strip_prefix("# ").or(part);
        let Some((depth, slug)) = entry(line) else { continue };
        let Some(text) = written(slug) else { continue };
        chapters.push(Chapter { part: part.take(), ..Chapter::new(slug, depth, Cow::Borrowed(text)) });
        if slug == MANUALS_AFTER || slug == PARTS_AFTER {
            // Disciplines that a configuration can select follow the first of these chapters, their building blocks the
            // second.
            let wanted = MANUALS.iter().filter(|(name, _)| is_offered(name) == (slug == MANUALS_AFTER));
            chapters.extend(wanted.map(|(name, text)| {
                Chapter::new(format!("disciplines/{name}"), depth + 1, Cow::Owned(manual(name, text)))
            }));
        }
        if slug == EXPERIMENTS_AFTER {
            let pages = EXPERIMENTS
                .iter()
                .map(|(name, text)| Chapter::new(format!("lab/papers/{name}"), depth + 1, Cow::Borrowed(*text)));
            chapters.extend(pages);
        }
    }
    chapters
}

/// Whether the chapter about choosing a discipline links to this manual.
fn is_offered(name: &str) -> bool {
    written(MANUALS_AFTER).is_some_and(|text| text.contains(&format!("](disciplines/{name}.md)")))
}

/// Parses an entry of the contents into its depth and its slug.
fn entry(line: &str) -> Option<(usize, &str)> {
    let (_, rest) = line.split_once("](")?;
    let (path, _) = rest.split_once(')')?;
    let indent = line.len() - line.trim_start().len();
    let depth = if line.trim_start().starts_with('-') { indent / 2 } else { 0 };
    Some((depth, path.strip_prefix("./").unwrap_or(path).strip_suffix(".md")?))
}

/// Converts a manual to a chapter, without the markup that only rustdoc interprets.
fn manual(name: &str, head: &str) -> String {
    let mut out = String::new();
    let mut lines = head.lines().peekable();
    if let Some(first) = lines.next() {
        // The first sentence becomes the heading, such as "FIFO: first in, first out" or "[`Mered`]: ...".
        let mut title = first.to_owned();
        while !title.ends_with('.') && lines.peek().is_some_and(|line| !line.trim().is_empty()) {
            title.push(' ');
            title.push_str(lines.next().unwrap_or_default());
        }
        out.push_str(&format!("# `{name}`: {}\n", plain_links(title.trim_end_matches('.'))));
    }
    let mut code = false;
    for line in lines {
        if line.trim_start().starts_with("```") {
            code = !code;
            let tag = line.trim_start().trim_start_matches('`').trim();
            let rust = code && (tag.is_empty() || tag.starts_with("should_panic") || tag == "no_run");
            out.push_str(if rust { "```rust" } else { line });
        } else if code {
            // rustdoc hides these lines of a doctest.
            if line == "#" || line.starts_with("# ") {
                continue;
            }
            out.push_str(line);
        } else {
            // A part such as *Law* becomes a paragraph of its own.
            if line.starts_with('*') && !line.starts_with("**") && !line.starts_with("* ") && !out.ends_with("\n\n") {
                out.push('\n');
            }
            out.push_str(&plain_links(line));
        }
        out.push('\n');
    }
    out
}

/// Replaces each link that only rustdoc can resolve by its text: ``[`X`](crate::x)`` becomes `` `X` ``.
fn plain_links(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('[') {
        let Some(close) = rest[at..].find(']').map(|end| at + end) else { break };
        let (inside, after) = (&rest[at + 1..close], &rest[close + 1..]);
        let target = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        let rustdoc = match target {
            Some((target, _)) => !target.contains('/') && !target.contains('#'),
            None => inside.starts_with('`') && inside.ends_with('`'),
        };
        out.push_str(&rest[..at]);
        if rustdoc {
            out.push_str(inside);
            rest = target.map_or(after, |(_, after)| after);
        } else {
            out.push_str(&rest[at..=close]);
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_in_the_contents_and_the_other_way_round() {
        let listed: Vec<&str> = summary().lines().filter_map(entry).map(|(_, slug)| slug).collect();
        for (slug, _) in CHAPTERS.iter().filter(|(slug, _)| *slug != "SUMMARY") {
            assert!(listed.contains(slug), "book/src/{slug}.md is not in book/src/SUMMARY.md");
        }
        for slug in &listed {
            assert!(written(slug).is_some(), "book/src/SUMMARY.md has {slug}.md, which is not there");
        }
        for after in [MANUALS_AFTER, PARTS_AFTER, EXPERIMENTS_AFTER] {
            assert!(listed.contains(&after), "{after}");
        }
        let manuals = chapters().iter().filter(|chapter| chapter.slug.starts_with("disciplines/")).count();
        assert_eq!(manuals, MANUALS.len(), "each manual once");
    }

    #[test]
    fn every_kind_of_the_configuration_has_a_manual() {
        let have: Vec<&str> = MANUALS.iter().map(|(name, _)| *name).collect();
        for kind in tidegate_config::discipline::Discipline::KINDS {
            let name = kind.trim_end_matches("-filter").replace('-', "_");
            assert!(have.contains(&name.as_str()), "{kind} of {have:?}");
        }
    }

    #[test]
    fn chapters_have_titles_and_no_two_the_same_path() {
        let chapters = chapters();
        for (n, chapter) in chapters.iter().enumerate() {
            assert!(!chapter.title.is_empty(), "{} has no heading", chapter.slug);
            assert!(chapters[..n].iter().all(|other| other.slug != chapter.slug), "{} twice", chapter.slug);
        }
        let book = Book::new();
        assert!(book.find("fifo").is_some_and(|chapter| chapter.slug == "disciplines/fifo"));
        assert!(book.find("fq-codel").is_some_and(|chapter| chapter.slug == "disciplines/fq_codel"));
        assert!(book.find("no such thing").is_none());
    }

    #[test]
    fn a_manual_is_for_readers() {
        let head = "[`X`]: does it.\n\n*Law*: see [`Y`](crate::y) and [RFC 1](#a).\n*Source*: [1].\n```\n# hidden\nshown\n```\n";
        assert_eq!(
            manual("x", head),
            "# `x`: `X`: does it\n\n*Law*: see `Y` and [RFC 1](#a).\n\n*Source*: [1].\n```rust\nshown\n```\n"
        );
    }
}
