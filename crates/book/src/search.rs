//! Searches the sections of the book, for the terminal, and builds the search index for the HTML pages.

use std::cmp::Reverse;

use pulldown_cmark::{Event, Tag, TagEnd};

use crate::{Book, html};

/// The number of mentions of a word that count. Otherwise long sections would rank first because of their length.
const MENTIONS: usize = 5;
/// A word in the heading counts as this many mentions in the text.
const HEADING: usize = 20;

/// A section: a heading and the text below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// The slug of its chapter.
    pub slug: String,
    /// The title of its chapter.
    pub title: String,
    /// The heading without markup. For the first section of a chapter it is the title.
    pub heading: String,
    /// The anchor of the heading in the chapter's page; empty for the first section.
    pub anchor: String,
    /// The text without markup and link targets.
    pub text: String,
}

/// A search result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The section.
    pub section: Section,
    /// The first line that contains one of the words; empty if only the heading does.
    pub line: String,
}

impl Book {
    /// Returns the sections of all chapters, in the order of the contents.
    pub fn sections(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        for chapter in self.chapters() {
            let first = sections.len();
            let mut in_heading = false;
            for event in html::parser(&chapter.text) {
                if matches!(event, Event::Start(Tag::Heading { .. })) {
                    in_heading = true;
                    sections.push(Section {
                        slug: chapter.slug.clone(),
                        title: chapter.title.replace('`', ""),
                        heading: String::new(),
                        anchor: String::new(),
                        text: String::new(),
                    });
                    continue;
                }
                let at_first = sections.len() == first + 1;
                let Some(section) = sections.get_mut(first..).and_then(<[Section]>::last_mut) else { continue };
                let text = if in_heading { &mut section.heading } else { &mut section.text };
                match event {
                    Event::Text(words) | Event::Code(words) => text.push_str(&words),
                    Event::End(TagEnd::Heading(_)) => {
                        in_heading = false;
                        section.anchor = if at_first { String::new() } else { html::anchor(&section.heading) };
                    }
                    Event::End(TagEnd::TableCell) => text.push_str("  "),
                    Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::TableHead | TagEnd::TableRow)
                    | Event::SoftBreak
                    | Event::HardBreak => text.push('\n'),
                    _ => {}
                }
            }
        }
        sections
    }

    /// Finds the sections that contain all of `words`. The best come first; equally good ones keep the order of the
    /// contents.
    pub fn search(&self, words: &str) -> Vec<Found> {
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        let mut found = Vec::new();
        for section in self.sections() {
            let (head, text) = (section.heading.to_lowercase(), section.text.to_lowercase());
            if words.is_empty() || !words.iter().all(|word| head.contains(word) || text.contains(word)) {
                continue;
            }
            let often = |word: &String| {
                HEADING * head.matches(word.as_str()).count() + text.matches(word.as_str()).count().min(MENTIONS)
            };
            let score: usize = words.iter().map(often).sum();
            let has = |line: &&str| words.iter().any(|word| line.to_lowercase().contains(word));
            let line = section.text.lines().find(has).unwrap_or_default().trim().to_owned();
            found.push((score, Found { section, line }));
        }
        found.sort_by_key(|(score, _)| Reverse(*score));
        found.into_iter().map(|(_, found)| found).collect()
    }
}

/// Returns the sections as a script. Unlike JSON, a page opened from a file can load a script.
pub(crate) fn index(sections: &[Section]) -> String {
    let mut out = String::from("// Slug, title of the chapter, heading, anchor, text.\nwindow.bookSections = [\n");
    for Section { slug, title, heading, anchor, text } in sections {
        let parts = [slug, title, heading, anchor, text].map(|part| quoted(part));
        out.push_str(&format!("[{}],\n", parts.join(",")));
    }
    out.push_str("];\n");
    out
}

/// Quotes a string for JavaScript.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() || matches!(c, '<' | '\u{2028}' | '\u{2029}') => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_headings_first_and_all_words() {
        let found = Book::new().search("classes over flows");
        assert!(!found.is_empty());
        for Found { section, .. } in &found {
            let text = format!("{}\n{}", section.heading, section.text).to_lowercase();
            assert!(["classes", "over", "flows"].iter().all(|word| text.contains(word)), "{}", section.heading);
        }
        let fifo = &Book::new().search("FIFO")[0].section;
        assert!(fifo.heading.to_lowercase().contains("fifo"), "{fifo:?}");
        assert_eq!(Book::new().search("  "), vec![]);
        assert_eq!(Book::new().search("nosuchwordanywhere"), vec![]);
    }

    #[test]
    fn every_section_has_its_place_in_its_page() {
        let pages = Book::new().pages();
        for Section { slug, anchor, .. } in Book::new().sections() {
            let (_, page) = pages.iter().find(|(path, _)| *path == format!("{slug}.html")).expect("a page");
            assert!(anchor.is_empty() || page.contains(&format!("id=\"{anchor}\"")), "{slug}#{anchor}");
        }
    }

    #[test]
    fn sections_have_the_words_of_links_and_not_their_addresses() {
        let sections = Book::new().sections();
        let sections_of = |slug: &'static str| sections.iter().filter(move |section| section.slug == slug);
        let seen = sections_of("seeing").map(|section| section.text.as_str()).collect::<String>();
        assert!(!seen.contains("](") && !seen.contains("**") && !seen.contains("```"), "{seen}");
        assert!(
            sections_of("concepts").count() > 3
                && sections_of("concepts").skip(1).all(|section| !section.anchor.is_empty())
        );
    }

    #[test]
    fn text_in_a_script_ends_neither_the_string_nor_the_script() {
        assert_eq!(quoted("a\"b\\c\n</script>\u{2028}ü"), "\"a\\\"b\\\\c\\n\\u003c/script>\\u2028ü\"");
    }
}
