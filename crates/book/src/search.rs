//! The sections of the book, and those in which words are found: for the terminal, and as an index for the pages.

use std::cmp::Reverse;

use crate::{Book, html};

/// A long section is not better for mentioning a word more often than this.
const MENTIONS: usize = 5;
/// A heading is what a section is about: a word in it counts as this many mentions.
const HEADING: usize = 20;

/// A section: a heading with what follows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// The slug of its chapter.
    pub slug: String,
    /// The title of its chapter.
    pub title: String,
    /// The heading, without marks; of the first section of a chapter its title.
    pub heading: String,
    /// The anchor of the heading in the page of the chapter; empty for its beginning.
    pub anchor: String,
    /// The text in Markdown, without the lines that only rule tables and blocks of code.
    pub text: String,
}

/// A section that has the words of a search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The section.
    pub section: Section,
    /// The first line that has one of the words; empty where they are in the heading alone.
    pub line: String,
}

impl Book {
    /// The sections of all chapters, in the order of the contents.
    pub fn sections(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        for chapter in self.chapters() {
            let (mut fenced, first) = (false, sections.len());
            for line in chapter.text.lines() {
                let fence = line.trim_start().starts_with("```");
                fenced ^= fence;
                if let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) {
                    let heading = heading.trim_start_matches('#').replace('`', "").trim().to_owned();
                    let anchor = if sections.len() == first { String::new() } else { html::anchor(&heading) };
                    let (slug, title, text) = (chapter.slug.clone(), chapter.title.replace('`', ""), String::new());
                    sections.push(Section { slug, title, heading, anchor, text });
                } else if let Some(section) = sections.get_mut(first..).and_then(<[Section]>::last_mut) {
                    let rule = fence || line.trim().chars().all(|c| matches!(c, '|' | '-' | ' ' | ':'));
                    if !rule && !line.starts_with('<') {
                        section.text.push_str(line);
                        section.text.push('\n');
                    }
                }
            }
        }
        sections
    }

    /// The sections that contain all words of `words`, the best first, equal ones in the order of the contents.
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

/// The sections as a script, which pages can load from files as well.
pub(crate) fn index(sections: &[Section]) -> String {
    let mut out = String::from("// Slug, title of the chapter, heading, anchor, text.\nwindow.bookSections = [\n");
    for Section { slug, title, heading, anchor, text } in sections {
        let parts = [slug, title, heading, anchor, text].map(|part| quoted(part));
        out.push_str(&format!("[{}],\n", parts.join(",")));
    }
    out.push_str("];\n");
    out
}

/// A string of JavaScript.
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
    fn text_in_a_script_ends_neither_the_string_nor_the_script() {
        assert_eq!(quoted("a\"b\\c\n</script>\u{2028}ü"), "\"a\\\"b\\\\c\\n\\u003c/script>\\u2028ü\"");
    }
}
