//! Renders a chapter for a terminal: headings, paragraphs broken between words, lists, tables and code.

use pulldown_cmark::{Alignment, Event, HeadingLevel, Tag, TagEnd};

use crate::html;

/// How rendered text marks headings, code and emphasis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ink {
    /// Characters alone, for a terminal without attributes.
    Plain,
    /// Bold, underline and colour by escape sequences (ECMA-48).
    Ansi,
}

/// Marks in gathered text that take no room. They are of a private area, which no chapter uses.
const BOLD: char = '\u{e000}';
const CODE: char = '\u{e001}';
const SLANTED: char = '\u{e002}';
const END: char = '\u{e003}';

/// The widest text: longer lines are hard to read.
const WIDEST: usize = 100;
/// The narrowest column to which a table that is too wide is reduced, and the least room that margins leave.
const NARROWEST: usize = 4;

/// Returns the Markdown `text` as lines of at most `width` characters, if code and single words fit. A chapter to which a link
/// leads is named in brackets: the argument of `tidegate book`.
pub fn render(text: &str, width: usize, ink: Ink) -> String {
    let mut page = Page { out: String::new(), width: width.clamp(20, WIDEST), ..Page::default() };
    html::parser(text).for_each(|event| page.event(event));
    let text = page.out.trim_matches('\n').to_owned() + "\n";
    coloured(&text, ink)
}

/// The text with its marks as escape sequences, or without them.
fn coloured(text: &str, ink: Ink) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let sequence = match c {
            BOLD => "\x1b[1m",
            CODE => "\x1b[36m",
            SLANTED => "\x1b[4m",
            END => "\x1b[0m",
            c => {
                out.push(c);
                continue;
            }
        };
        if ink == Ink::Ansi {
            out.push_str(sequence);
        }
    }
    out
}

#[derive(Default)]
struct Page {
    out: String,
    width: usize,
    /// The text of the block that is being read.
    text: String,
    /// The beginnings of lines of the enclosing lists and quotations.
    margins: Vec<String>,
    /// The sign of a list item that has not been written yet.
    sign: Option<String>,
    /// For each enclosing list the number of the next item; `None` where items have no numbers.
    lists: Vec<Option<u64>>,
    links: Vec<String>,
    table: Option<Grid>,
}

#[derive(Default)]
struct Grid {
    aligned: Vec<Alignment>,
    rows: Vec<Vec<String>>,
}

impl Page {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text.push_str(&text),
            Event::Code(code) => self.text.extend([CODE.to_string().as_str(), &code, &END.to_string()]),
            Event::SoftBreak => self.text.push(' '),
            Event::HardBreak => self.text.push('\n'),
            Event::FootnoteReference(name) => self.text.extend(["[", &name, "]"]),
            Event::Rule => {
                let line = "─".repeat(self.room());
                self.line(&line);
                self.gap();
            }
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => {
                self.gap();
                self.text.push(BOLD);
            }
            Tag::CodeBlock(_) => self.flush(),
            Tag::List(first) => {
                self.flush();
                self.lists.push(first);
            }
            Tag::Item => {
                let sign = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "- ".to_owned(),
                };
                self.margins.push(" ".repeat(sign.len()));
                self.sign = Some(sign);
            }
            Tag::BlockQuote(_) => self.margins.push("│ ".to_owned()),
            Tag::FootnoteDefinition(name) => self.text.extend(["[", &name, "] "]),
            Tag::Emphasis => self.text.push(SLANTED),
            Tag::Strong => self.text.push(BOLD),
            Tag::Link { dest_url, .. } => self.links.push(dest_url.into_string()),
            Tag::Table(aligned) => self.table = Some(Grid { aligned, rows: Vec::new() }),
            Tag::TableHead | Tag::TableRow => {
                if let Some(grid) = &mut self.table {
                    grid.rows.push(Vec::new());
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                self.text.push(END);
                let width = shown(&self.text).min(self.room());
                self.flush();
                let under = match level {
                    HeadingLevel::H1 => "═",
                    HeadingLevel::H2 => "─",
                    _ => "",
                };
                if !under.is_empty() {
                    self.line(&under.repeat(width));
                }
                self.gap();
            }
            TagEnd::Paragraph => {
                self.flush();
                self.gap();
            }
            TagEnd::CodeBlock => self.code(),
            TagEnd::Item => {
                self.flush();
                self.margins.pop();
                self.sign = None;
            }
            TagEnd::List(_) => {
                self.lists.pop();
                if self.lists.is_empty() {
                    self.gap();
                }
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.margins.pop();
            }
            TagEnd::Emphasis | TagEnd::Strong => self.text.push(END),
            TagEnd::Link => {
                if let Some(name) = self.links.pop().and_then(|to| named(&to)) {
                    self.text.push_str(&format!(" [{name}]"));
                }
            }
            TagEnd::TableCell => {
                let text = std::mem::take(&mut self.text);
                if let Some(row) = self.table.as_mut().and_then(|grid| grid.rows.last_mut()) {
                    row.push(text);
                }
            }
            TagEnd::Table => {
                if let Some(grid) = self.table.take() {
                    grid.lines(self.room()).iter().for_each(|line| self.line(line));
                    self.gap();
                }
            }
            _ => {}
        }
    }

    /// The characters that a line has for text.
    fn room(&self) -> usize {
        let margins: usize = self.margins.iter().map(|margin| shown(margin)).sum();
        self.width.saturating_sub(margins).max(NARROWEST)
    }

    /// Writes the text that was gathered, as a paragraph.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() {
            for line in wrap(&text, self.room()) {
                self.line(&line);
            }
        }
    }

    fn code(&mut self) {
        let text = std::mem::take(&mut self.text);
        for line in text.lines() {
            self.line(&format!("    {CODE}{line}{END}"));
        }
        self.gap();
    }

    fn line(&mut self, line: &str) {
        let last = self.margins.len().saturating_sub(1);
        for (n, margin) in self.margins.iter().enumerate() {
            match self.sign.take_if(|_| n == last) {
                Some(sign) => self.out.push_str(&sign),
                None => self.out.push_str(margin),
            }
        }
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// An empty line, unless there is one. Items of a list have none between them.
    fn gap(&mut self) {
        if self.lists.is_empty() && !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }
}

/// The target of a link, put behind its text: the chapter that it leads to, or an address outside of the book.
fn named(to: &str) -> Option<String> {
    if to.contains("://") {
        return Some(to.to_owned());
    }
    let path = to.split('#').next()?.strip_suffix(".md")?;
    let name = path.rsplit('/').next()?;
    (name != "README").then(|| name.to_owned())
}

/// The characters of a text that a terminal shows.
fn shown(text: &str) -> usize {
    text.chars().filter(|c| !(BOLD..=END).contains(c)).count()
}

/// The text in lines of at most `width` characters. A longer word has a line for itself.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for part in text.split('\n') {
        let (mut line, mut used) = (String::new(), 0);
        for word in part.split_whitespace() {
            let room = shown(word);
            if used > 0 && used + 1 + room > width {
                lines.push(std::mem::take(&mut line));
                used = 0;
            } else if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += room;
        }
        lines.push(line);
    }
    lines
}

impl Grid {
    /// The table in lines of at most `width` characters: where cells do not fit beside each other they are broken between
    /// words, and a line separates the rows.
    fn lines(&self, width: usize) -> Vec<String> {
        const GAP: usize = 2;
        let columns = self.aligned.len();
        let natural = |n: usize| self.rows.iter().filter_map(|row| row.get(n)).map(|cell| shown(cell)).max();
        let mut widths: Vec<usize> = (0..columns).map(|n| natural(n).unwrap_or(0)).collect();
        let total = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * columns.saturating_sub(1);
        let is_broken = total(&widths) > width;
        // No column is narrower than its longest word, which would stand out of it.
        let word = |n: usize| {
            self.rows.iter().filter_map(move |row| row.get(n)).flat_map(|cell| cell.split_whitespace()).map(shown)
        };
        let least: Vec<usize> = (0..columns).map(|n| word(n).max().unwrap_or(0).max(NARROWEST)).collect();
        while total(&widths) > width {
            let may = |(n, own): &(usize, &mut usize)| **own > least[*n];
            let Some((_, widest)) = widths.iter_mut().enumerate().filter(may).max_by_key(|(_, own)| **own) else {
                break;
            };
            *widest -= 1;
        }
        let rule = "─".repeat(total(&widths).min(width));
        let mut lines = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<Vec<String>> = row.iter().zip(&widths).map(|(cell, &width)| wrap(cell, width)).collect();
            for at in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let mut line = String::new();
                for ((cell, &width), aligned) in cells.iter().zip(&widths).zip(&self.aligned) {
                    let text = cell.get(at).map_or("", String::as_str);
                    let space = " ".repeat(width.saturating_sub(shown(text)));
                    let parts = if *aligned == Alignment::Right { [&space, text] } else { [text, &space] };
                    line.extend(parts);
                    line.push_str(&" ".repeat(GAP));
                }
                lines.push(line.trim_end().to_owned());
            }
            if number == 0 || is_broken && number + 1 < self.rows.len() {
                lines.push(rule.clone());
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Book;

    #[test]
    fn headings_lists_tables_and_code_are_shown_without_markup() {
        let text = "# One `two`\n\nA *line* of **words**, see\n[there](../setup.md).\n\n- first\n- second\n  one\n\n\
                    ```sh\ntidegate run\n```\n\n| a | b |\n| --- | ---: |\n| x | 10 |\n";
        assert_eq!(
            render(text, 80, Ink::Plain),
            "One two\n═══════\n\nA line of words, see there [setup].\n\n- first\n- second one\n\n    tidegate run\n\n\
             a   b\n─────\nx  10\n"
        );
        let coloured = render(text, 80, Ink::Ansi);
        assert!(coloured.starts_with("\x1b[1mOne \x1b[36mtwo\x1b[0m"), "{coloured:?}");
    }

    #[test]
    fn tables_that_are_too_wide_are_broken_between_words() {
        let text = "| key | meaning |\n| --- | --- |\n| rate | the rate of the line in bits per second |\n| b | c |\n";
        assert_eq!(
            render(text, 24, Ink::Plain),
            "key   meaning\n────────────────────────\nrate  the rate of the\n      line in bits per\n      second\n\
             ────────────────────────\nb     c\n"
        );
    }

    #[test]
    fn every_chapter_fits_a_terminal_except_code_and_long_words() {
        // Tables of measurements have more columns of numbers than a terminal has room for.
        for chapter in Book::new().chapters().iter().filter(|chapter| !chapter.slug.starts_with("lab/")) {
            let shown = render(&chapter.text, 80, Ink::Plain);
            for line in shown.lines().filter(|line| !line.starts_with("    ")) {
                let is_long =
                    line.chars().count() > 80 && line.split_whitespace().all(|word| word.chars().count() < 30);
                assert!(!is_long, "{}: {line}", chapter.slug);
            }
            assert!(!shown.contains("](") && !shown.contains("| --- |"), "{}:\n{shown}", chapter.slug);
            assert!(!render(&chapter.text, 80, Ink::Plain).contains('\x1b'));
        }
    }
}
