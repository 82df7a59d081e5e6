//! Searches the sections of the book, for the terminal, and builds the search index for the HTML pages.

use std::cmp::Reverse;

use pulldown_cmark::{Event, Tag, TagEnd};

use crate::{Book, html, synonyms};

/// The number of mentions of a word that count. Otherwise long sections would rank first because of their length.
const MENTIONS: usize = 5;
/// A word in the heading counts as this many mentions in the text.
const HEADING: usize = 20;
/// A mention of the word itself counts as this many of a word that means the same: more than one of these in a heading.
const ITSELF: usize = 25;
/// A word of this many letters or fewer must be a whole one: `mac` is no `machine`.
const SHORT: usize = 3;
/// A word in the title of the chapter counts as this many mentions in the text.
const TITLE: usize = 4;
/// A section without one of the words is worth this part of what it would be, so that it comes after those that are about all.
const LACKING: usize = 4;
/// References and manuals of disciplines name almost every word: they come after a chapter that explains as much.
const LISTS: [&str; 3] = ["reference/", "disciplines/", "lab/papers/"];
/// Words that no section is about.
const FILLING: [&str; 16] =
    ["a", "an", "and", "by", "do", "for", "how", "i", "in", "is", "my", "of", "or", "the", "to", "with"];

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

    /// Finds the sections that contain `words`, half of them at least, or for a word one that means the same ([`synonyms`]). A word
    /// matches where a word of the text begins with it: `shap` finds "shaper", and `per` does not; a short one must be whole. The
    /// best come first; equally good ones keep the order of the contents.
    pub fn search(&self, words: &str) -> Vec<Found> {
        let (words, sections) = (wanted(words), self.sections());
        let all: Vec<Vec<usize>> = sections.iter().map(|section| section.scores(&words)).collect();
        // A word that half of the book has says little about what is looked for.
        let rarity = |n: usize| {
            let with = all.iter().filter(|scores| scores[n] > 0).count();
            (all.len() / with.max(1)).ilog2() as usize + 1
        };
        let rarities: Vec<usize> = (0..words.len()).map(rarity).collect();
        let mut found = Vec::new();
        for (section, scores) in sections.into_iter().zip(&all) {
            let lacking = scores.iter().filter(|score| **score == 0).count();
            if scores.is_empty() || lacking > words.len() / 2 {
                continue;
            }
            let whole = if LISTS.iter().any(|list| section.slug.starts_with(list)) { 1 } else { 2 };
            let sum: usize = scores.iter().zip(&rarities).map(|(score, rarity)| score * rarity).sum();
            let score = whole * sum / LACKING.pow(lacking as u32);
            let has = |line: &&str| {
                let line = line.to_lowercase();
                words.iter().any(|word| mentions(&line, word) > 0)
            };
            let alike = |line: &&str| {
                let line = line.to_lowercase();
                words.iter().flat_map(|word| synonyms::of(word)).any(|word| mentions(&line, word) > 0)
            };
            let line = section.text.lines().find(has).or_else(|| section.text.lines().find(alike));
            let line = line.unwrap_or_default().trim().to_owned();
            found.push((score, Found { section, line }));
        }
        found.sort_by_key(|(score, _)| Reverse(*score));
        found.into_iter().map(|(_, found)| found).collect()
    }
}

impl Section {
    /// How well it fits each word.
    fn scores(&self, words: &[String]) -> Vec<usize> {
        let [title, head, text] = [&self.title, &self.heading, &self.text].map(|text| text.to_lowercase());
        words.iter().map(|word| Place { title: &title, head: &head, text: &text }.score(word)).collect()
    }
}

/// The texts of a section, in lower case.
struct Place<'a> {
    title: &'a str,
    head: &'a str,
    text: &'a str,
}

impl Place<'_> {
    /// How well the section fits `word`; 0 where it has neither the word nor one that means the same.
    fn score(&self, word: &str) -> usize {
        let of = |word: &str| {
            HEADING * mentions(self.head, word)
                + TITLE * mentions(self.title, word).min(1)
                + mentions(self.text, word).min(MENTIONS)
        };
        ITSELF * of(word) + synonyms::of(word).iter().map(|word| of(word)).sum::<usize>()
    }
}

/// The words to look for, in lower case, without those that no section is about; all if nothing else is left.
fn wanted(text: &str) -> Vec<String> {
    let words = text.split(|c: char| c.is_whitespace() || c == '/').filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_lowercase).collect();
    let some: Vec<String> = words.iter().filter(|word| !FILLING.contains(&word.as_str())).cloned().collect();
    if some.is_empty() { words } else { some }
}

/// How many words of `text` begin with `word`, or are it or its plural where it is short.
fn mentions(text: &str, word: &str) -> usize {
    let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let begins = |at: usize| ends(text[..at].chars().next_back());
    let is_whole = |at: usize| {
        let after = &text[at + word.len()..];
        word.chars().count() > SHORT || ends(after.strip_prefix('s').unwrap_or(after).chars().next())
    };
    text.match_indices(word).filter(|(at, _)| begins(*at) && is_whole(*at)).count()
}

/// Returns the sections as a script. Unlike JSON, a page opened from a file can load a script.
pub(crate) fn index(sections: &[Section]) -> String {
    let mut out = String::from("// Slug, title of the chapter, heading, anchor, text.\nwindow.bookSections = [\n");
    for Section { slug, title, heading, anchor, text } in sections {
        let parts = [slug, title, heading, anchor, text].map(|part| quoted(part));
        out.push_str(&format!("[{}],\n", parts.join(",")));
    }
    out.push_str("];\n// Words of readers, and those of the book.\nwindow.bookSynonyms = {\n");
    for (word, others) in synonyms::SYNONYMS {
        let others: Vec<String> = others.iter().map(|other| quoted(other)).collect();
        out.push_str(&format!("{}:[{}],\n", quoted(word), others.join(",")));
    }
    out.push_str("};\n");
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
        let words_of = |Found { section, .. }: &Found| {
            let text = format!("{}\n{}", section.heading, section.text).to_lowercase();
            ["classes", "over", "flows"].iter().filter(|word| mentions(&text, word) > 0).count()
        };
        assert_eq!(words_of(&found[0]), 3, "{:?}", found[0]);
        assert!(found.iter().any(|one| words_of(one) == 2), "a section that lacks a word comes later");
        let fifo = &Book::new().search("FIFO")[0].section;
        assert!(fifo.heading.to_lowercase().contains("fifo"), "{fifo:?}");
        assert_eq!(Book::new().search("  "), vec![]);
        assert_eq!(Book::new().search("nosuchwordanywhere"), vec![]);
    }

    #[test]
    fn words_match_from_their_beginning_and_synonyms_are_found() {
        assert_eq!(mentions("shaper, per class: per-flow; supper", "per"), 2);
        assert_eq!(mentions("fq_codel is codel", "codel"), 2);
        assert_eq!(mentions("the shapers shape", "shap"), 2);
        assert_eq!(mentions("a mac, macs and a machine", "mac"), 2);
        let per = Book::new().search("per");
        assert!(per.len() < Book::new().search("shaper").len(), "{} sections have the word `per`", per.len());
        for word in ["SQM", "quota", "bufferbloat", "OpenWrt"] {
            assert!(!Book::new().search(word).is_empty(), "{word}");
        }
        // The word itself comes before what means the same.
        let with_heading = |head| Place { title: "", head, text: "" }.score("quota");
        assert!(with_heading("a quota") > with_heading("an allowance"));
    }

    #[test]
    fn words_of_operators_find_where_they_are_explained() {
        let slugs = |words: &str| -> Vec<String> {
            Book::new().search(words).into_iter().take(5).map(|found| found.section.slug).collect()
        };
        for (words, slug) in [
            ("by MAC address", "cookbook/rules"),
            ("MAC", "cookbook/rules"),
            ("before/after measurement", "measure"),
            ("before after", "measure"),
            ("undo", "setup"),
            ("undo", "changing"),
            ("audit", "changing"),
            ("prioritize video calls", "cookbook/office-gateway"),
            ("per device limit", "cookbook/limits"),
            ("work hours", "cookbook/rules"),
            ("schedule", "cookbook/rules"),
            ("star", "reports"),
            ("cite", "paper-figures"),
            ("citation", "paper-figures"),
            ("bibtex", "paper-figures"),
            ("censored", "reports"),
            ("starlink", "follow"),
            ("bufferbloat", "concepts"),
            ("uninstall", "service"),
            ("docker", "places"),
            ("ack first", "cookbook/rules"),
            ("hotspot", "cookbook/limits"),
            ("masquerade", "places"),
            ("game console", "cookbook/rules"),
            ("lower the rate while running", "changing"),
        ] {
            assert!(slugs(words).contains(&slug.to_owned()), "{words}: {:?}", slugs(words));
        }
        for (words, slug) in [("quota", "cookbook/rules"), ("limit", "cookbook/limits")] {
            assert_eq!(slugs(words)[0], slug, "{words}");
        }
    }

    #[test]
    fn a_section_is_had_by_the_anchor_of_its_heading() {
        let book = Book::new();
        let quotas = book.section("rules", "quotas").expect("a section");
        assert!(quotas.starts_with("## Quotas") && !quotas.contains("\n## "), "{quotas}");
        assert_eq!(book.section("rules", "nothing"), None);
        // Comments in files are no headings.
        for Section { slug, anchor, .. } in book.sections() {
            assert!(anchor.is_empty() || book.section(&slug, &anchor).is_some(), "{slug}#{anchor}");
        }
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
