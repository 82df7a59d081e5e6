//! The layout of a TOML text: lines, comments, sections, and the entries of inline lists.

use std::ops::Range;

use toml_edit::{Array, InlineTable, Item, Key, Table, Value};

/// Replaces a range of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Splice {
    pub(super) range: Range<usize>,
    pub(super) with: String,
}

impl Splice {
    pub(super) fn insert(at: usize, with: impl Into<String>) -> Self {
        Self { range: at..at, with: with.into() }
    }
    pub(super) fn remove(range: Range<usize>) -> Self {
        Self { range, with: String::new() }
    }
}

/// `text` with `splices`, which do not overlap.
pub(super) fn apply(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|splice| splice.range.start);
    let mut new = text.to_owned();
    for splice in splices.into_iter().rev() {
        new.replace_range(splice.range, &splice.with);
    }
    new
}

/// The text of a document and the ends of its values and headers, behind which comments begin.
pub(super) struct Layout<'a> {
    pub(super) text: &'a str,
    ends: Vec<usize>,
}

impl<'a> Layout<'a> {
    pub(super) fn new(text: &'a str, root: &Table) -> Self {
        let mut ends = Vec::new();
        collect_ends(root, &mut ends);
        ends.sort_unstable();
        Self { text, ends }
    }
    /// The line break of the document.
    pub(super) fn line_break(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }
    /// Where the text begins, after a byte order mark.
    pub(super) fn start(&self) -> usize {
        if self.text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
    }
    pub(super) fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(self.start(), |line_break| line_break + 1)
    }
    /// The start of the next line; the end of the text on the last one.
    pub(super) fn line_end(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |line_break| at + line_break + 1)
    }
    pub(super) fn indent(&self, at: usize) -> &'a str {
        let line = &self.text[self.line_start(at)..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }
    /// The start of the comment lines directly above the line of `at`, or else of that line.
    pub(super) fn with_comments(&self, at: usize) -> usize {
        let mut start = self.line_start(at);
        let floor = self.ends[..self.ends.partition_point(|end| *end <= start)].last().copied().unwrap_or(0);
        while start > floor.max(self.start()) {
            let above = self.line_start(start - 1);
            if above < floor || !self.text[above..start].trim_start().starts_with('#') {
                break;
            }
            start = above;
        }
        start
    }
    /// Whole lines, and the blank lines after them if there are some before them; at the end of the text those before
    /// them.
    fn with_blank_lines(&self, mut range: Range<usize>) -> Range<usize> {
        let blank = |line: &str| line.trim().is_empty();
        let above = |at: usize| self.line_start(at.saturating_sub(1))..at;
        let parted = range.start <= self.start() || blank(&self.text[above(range.start)]);
        let mut end = range.end;
        while end < self.text.len() && blank(&self.text[end..self.line_end(end)]) {
            end = self.line_end(end);
        }
        if parted || end == self.text.len() {
            range.end = end;
        }
        while range.end == self.text.len() && range.start > self.start() && blank(&self.text[above(range.start)]) {
            range.start = above(range.start).start;
        }
        range
    }
    /// Removes sections, with the comments above them and the blank lines after them.
    pub(super) fn remove_sections(&self, mut sections: Vec<Range<usize>>) -> Vec<Splice> {
        sections.sort_by_key(|section| section.start);
        let mut all: Vec<Range<usize>> = Vec::new();
        for section in sections {
            let lines = self.with_blank_lines(self.with_comments(section.start)..self.line_end(section.end));
            match all.last_mut() {
                Some(last) if lines.start <= last.end => last.end = last.end.max(lines.end),
                _ => all.push(lines),
            }
        }
        all.into_iter().map(Splice::remove).collect()
    }
    /// `lines`, each ended by a line break, as an insertion at the line start `at`.
    pub(super) fn insert_lines(&self, at: usize, lines: &str) -> Splice {
        let open = at > self.start() && !self.text[..at].ends_with('\n');
        Splice::insert(at, if open { format!("{}{lines}", self.line_break()) } else { lines.to_owned() })
    }

    /// The sections of `table` and of the tables within it, each from its header to the end of its last value.
    pub(super) fn sections(&self, table: &Table, into: &mut Vec<Range<usize>>) {
        if !table.is_implicit()
            && !table.is_dotted()
            && let Some(header) = table.span()
        {
            into.push(header.start..last_entry(table).map_or(header.end, |entry| entry.end));
        }
        for (_, item) in table.iter() {
            match item {
                Item::Table(table) => self.sections(table, into),
                Item::ArrayOfTables(list) => list.iter().for_each(|table| self.sections(table, into)),
                Item::None | Item::Value(_) => {}
            }
        }
    }
}

fn collect_ends(table: &Table, ends: &mut Vec<usize>) {
    ends.extend(table.span().map(|span| span.end));
    for (_, item) in table.iter() {
        match item {
            Item::Value(value) => ends.extend(value.span().map(|span| span.end)),
            Item::Table(table) => collect_ends(table, ends),
            Item::ArrayOfTables(list) => list.iter().for_each(|table| collect_ends(table, ends)),
            Item::None => {}
        }
    }
}

/// The keys and values under the header of `table`, each from the last part of its key to the end of its value. (The
/// other parts of dotted keys have the place of the first key that has them.)
fn entries(table: &Table) -> impl Iterator<Item = Range<usize>> {
    let entry = |(keys, value): (Vec<&Key>, &Value)| Some(keys.last()?.span()?.start..value.span()?.end);
    table.get_values().into_iter().filter_map(entry)
}

/// The last key and value under the header of `table`.
pub(super) fn last_entry(table: &Table) -> Option<Range<usize>> {
    entries(table).max_by_key(|entry| entry.end)
}

/// The key and value that contain `at`.
pub(super) fn entry_at(table: &Table, at: usize) -> Option<Range<usize>> {
    entries(table).find(|entry| entry.contains(&at))
}

/// The entries of an array or an inline table.
pub(super) struct Entries {
    /// The brackets and all between them.
    span: Range<usize>,
    all: Vec<Range<usize>>,
    trailing_comma: bool,
}

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    First,
    Last,
}

/// The first byte from `at` on that is neither space nor a comment, nor, if so wished, a comma.
fn skip_space(text: &str, mut at: usize, comma: bool) -> usize {
    loop {
        let rest = &text[at..];
        let next = rest.trim_start_matches(|c: char| c.is_whitespace() || comma && c == ',');
        at += rest.len() - next.len();
        if !next.starts_with('#') {
            return at;
        }
        at += next.find('\n').unwrap_or(next.len());
    }
}

impl Entries {
    pub(super) fn of_array(array: &Array) -> Option<Self> {
        let all = array.iter().filter_map(Value::span).collect();
        Some(Self { span: array.span()?, all, trailing_comma: array.trailing_comma() })
    }
    pub(super) fn of_table(text: &str, table: &InlineTable) -> Option<Self> {
        let span = table.span()?;
        let mut all: Vec<Range<usize>> = table.get_values().iter().filter_map(|(_, value)| value.span()).collect();
        all.sort_by_key(|entry| entry.start);
        let mut from = span.start + 1;
        for entry in &mut all {
            entry.start = skip_space(text, from, true);
            from = entry.end;
        }
        Some(Self { span, all, trailing_comma: table.trailing_comma() })
    }
    /// The number of the entry that contains `at`.
    pub(super) fn at(&self, at: usize) -> Option<usize> {
        self.all.iter().position(|entry| entry.contains(&at))
    }

    /// The end of the entry's comma, or of the entry where none follows.
    fn comma_end(&self, layout: &Layout, n: usize) -> usize {
        let end = self.all[n].end;
        let at = skip_space(layout.text, end, false);
        if layout.text[at..].starts_with(',') { at + 1 } else { end }
    }
    /// The lines of an entry that shares them with no other.
    fn own_lines(&self, layout: &Layout, n: usize) -> Option<Range<usize>> {
        let (start, end) = (layout.line_start(self.all[n].start), layout.line_end(self.comma_end(layout, n)));
        let before = &layout.text[start..self.all[n].start];
        let after = layout.text[self.comma_end(layout, n)..end].trim_start();
        let alone = before.trim().is_empty() && (after.is_empty() || after.starts_with('#'));
        alone.then_some(start..end)
    }

    /// Removes entry `n` with its comma.
    pub(super) fn remove(&self, layout: &Layout, n: usize) -> Splice {
        if let Some(lines) = self.own_lines(layout, n) {
            return Splice::remove(layout.with_comments(lines.start)..lines.end);
        }
        Splice::remove(match n {
            0 if self.all.len() > 1 => self.all[0].start..self.all[1].start,
            0 => self.all[0].start..self.comma_end(layout, 0),
            n => self.all[n - 1].end..self.all[n].end,
        })
    }

    /// Adds an entry.
    pub(super) fn insert(&self, layout: &Layout, end: End, entry: &str) -> Vec<Splice> {
        let Some(last) = self.all.len().checked_sub(1) else {
            return vec![Splice::insert(self.span.start + 1, format!(" {entry} "))];
        };
        let line_break = layout.line_break();
        match (end, self.own_lines(layout, if end == End::First { 0 } else { last })) {
            (End::First, Some(lines)) => {
                let line = format!("{}{entry},{line_break}", layout.indent(lines.start));
                vec![Splice::insert(layout.with_comments(lines.start), line)]
            }
            (End::First, None) => vec![Splice::insert(self.all[0].start, format!("{entry}, "))],
            (End::Last, Some(lines)) => {
                let comma = if self.trailing_comma { "," } else { "" };
                let line = format!("{}{entry}{comma}{line_break}", layout.indent(lines.start));
                let mut splices = vec![Splice::insert(lines.end, line)];
                if !self.trailing_comma {
                    splices.push(Splice::insert(self.all[last].end, ","));
                }
                splices
            }
            (End::Last, None) => vec![Splice::insert(self.all[last].end, format!(", {entry}"))],
        }
    }
}
