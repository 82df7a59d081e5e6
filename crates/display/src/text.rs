//! Tables as text for a terminal or a pipe.

use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::table::{Align, Cell, Table};

/// The space between two columns.
const GAP: usize = 2;
/// The least width of a column that is shortened beyond its own limit, when all that remain are needed.
const LEAST: usize = 3;

impl Table {
    /// The columns to leave out where the terminal is too narrow, in this order. Names that are no column are ignored.
    #[must_use]
    pub fn optional<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        for (n, name) in names.into_iter().enumerate() {
            for column in self.columns.iter_mut().filter(|column| column.name == name) {
                column.optional = Some(n);
            }
        }
        self
    }

    /// A column whose cells are shortened in the middle, to `least` characters, before a column is left out.
    #[must_use]
    pub fn shorten(mut self, name: &str, least: usize) -> Self {
        for column in self.columns.iter_mut().filter(|column| column.name == name) {
            column.least = Some(least);
        }
        self
    }

    /// The table as lines of text, each ended by a line feed.
    ///
    /// With the `width` of a terminal in characters, a line separates the header, and no line is wider: cells of columns
    /// that may be [shortened](Self::shorten) are, then columns without a value are left out, then
    /// [optional](Self::optional) ones, which are named in a last line, then the widest of the others are shortened. Without a width nothing is left out.
    pub fn text(&self, width: Option<usize>) -> String {
        self.aligned().lines(width)
    }

    /// The table with its intervals below each other: in a column of numbers in which some have a `±`, all means end at one place.
    fn aligned(&self) -> Self {
        let mut table = self.clone();
        for n in (0..self.columns.len()).filter(|n| self.columns[*n].align == Align::Right) {
            let split = |row: &Vec<Cell>| parts(&row[n].text).map(|(mean, rest)| (mean.to_owned(), rest.to_owned()));
            let all: Vec<_> = self.rows.iter().map(split).collect();
            if !all.iter().flatten().any(|(_, rest)| rest.starts_with(BETWEEN)) {
                continue;
            }
            let width = all.iter().flatten().map(|(_, rest)| rest.width()).max().unwrap_or(0);
            for (row, (mean, rest)) in table.rows.iter_mut().zip(all).filter_map(|(row, parts)| Some((row, parts?))) {
                row[n].text = format!("{mean}{rest}{}", " ".repeat(width - rest.width()));
            }
        }
        table
    }

    fn lines(&self, width: Option<usize>) -> String {
        let natural: Vec<usize> = (0..self.columns.len()).map(|n| self.natural(n)).collect();
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let mut widths = natural.clone();
        let mut left_out = Vec::new();
        if let Some(width) = width {
            let least = |n: usize| self.columns[n].least.map_or(natural[n], |least| least.min(natural[n]));
            let is_empty = |n: usize| self.rows.iter().all(|row| matches!(row[n].text.as_str(), "" | "-"));
            while !self.rows.is_empty() && total(shown.iter().map(|&n| natural[n])) > width {
                let Some(at) = shown.iter().rposition(|&n| is_empty(n)) else { break };
                shown.remove(at);
            }
            while total(shown.iter().map(|&n| least(n))) > width {
                let next = shown.iter().filter_map(|&n| Some((self.columns[n].optional?, n))).min();
                let Some((_, next)) = next else { break };
                shown.retain(|&n| n != next);
                left_out.push(next);
            }
            let shrinks = |n: usize| self.columns[n].least.is_some();
            for limit in [true, false] {
                // The widest first, so that short columns stay whole.
                while total(shown.iter().map(|&n| widths[n])) > width {
                    let may = |n: &usize| widths[*n] > if limit { least(*n) } else { LEAST } && (!limit || shrinks(*n));
                    let Some(widest) = shown.iter().copied().filter(may).max_by_key(|&n| widths[n]) else { break };
                    widths[widest] -= 1;
                }
            }
        }
        let mut out = String::new();
        let heads: Vec<Cell> = self.columns.iter().map(|column| column.name.as_str().into()).collect();
        self.line(&mut out, &shown, &widths, &heads);
        if width.is_some() {
            out.extend(std::iter::repeat_n('─', total(shown.iter().map(|&n| widths[n]))));
            out.push('\n');
        }
        for row in &self.rows {
            self.line(&mut out, &shown, &widths, row);
        }
        if let (Some(width), false) = (width, left_out.is_empty()) {
            left_out.sort_unstable();
            let names: Vec<&str> = left_out.iter().map(|&n| self.columns[n].name.as_str()).collect();
            let text = format!("(too narrow for: {})", names.join(", "));
            let _ = writeln!(out, "{}", middle(&text, width));
        }
        out
    }

    /// The width of its text where nothing is shortened or left out, in characters.
    pub fn width(&self) -> usize {
        let aligned = self.aligned();
        total((0..self.columns.len()).map(|n| aligned.natural(n)))
    }

    /// The width of a column in which nothing is shortened.
    fn natural(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].text.width());
        cells.chain([self.columns[column].name.width()]).max().unwrap_or(0)
    }

    fn line(&self, out: &mut String, shown: &[usize], widths: &[usize], cells: &[Cell]) {
        let begin = out.len();
        for (place, &n) in shown.iter().enumerate() {
            if place > 0 {
                out.extend(std::iter::repeat_n(' ', GAP));
            }
            let text = middle(&cells[n].text, widths[n]);
            let space = std::iter::repeat_n(' ', widths[n].saturating_sub(text.width()));
            match self.columns[n].align {
                Align::Left => {
                    out.push_str(&text);
                    out.extend(space);
                }
                Align::Right => {
                    out.extend(space);
                    out.push_str(&text);
                }
            }
        }
        out.truncate(begin + out[begin..].trim_end().len());
        out.push('\n');
    }
}

/// The sign between a mean and half the width of its interval.
const BETWEEN: &str = " \u{b1} ";

/// The number at the beginning of a cell such as `13.0 ± 2.0 ms (2 runs)`, and what follows it.
fn parts(text: &str) -> Option<(&str, &str)> {
    let (mean, rest) = text.split_at(text.find(' ').unwrap_or(text.len()));
    let is_number = mean.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '\u{2212}'))
        && mean.ends_with(|last: char| last.is_ascii_digit());
    is_number.then_some((mean, rest))
}

/// The width of a line with columns of these widths.
fn total(widths: impl ExactSizeIterator<Item = usize>) -> usize {
    let gaps = GAP * widths.len().saturating_sub(1);
    widths.sum::<usize>() + gaps
}

/// A paragraph in lines of at most `width` characters, or in one; those after the first are indented by two. A longer word
/// has a line for itself.
pub fn wrapped(text: &str, width: Option<usize>) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        if used > 0 && width.is_some_and(|width| used + 1 + word.width() > width) {
            out.push_str("\n  ");
            used = 2;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += word.width();
    }
    out
}

/// `text` in at most `width` characters of a terminal: of a longer one the beginning and the end.
pub fn middle(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let Some(room) = width.checked_sub(1) else { return String::new() };
    fn take(chars: impl Iterator<Item = char>, room: usize) -> Vec<char> {
        let mut used = 0;
        chars
            .take_while(|char| {
                used += char.width().unwrap_or(0);
                used <= room
            })
            .collect()
    }
    let mut out: String = take(text.chars(), room.div_ceil(2)).into_iter().collect();
    out.push('…');
    out.extend(take(text.chars().rev(), room / 2).into_iter().rev());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows() -> Table {
        let mut table = Table::new("", ["flow", ">rate", "class", ">dropped", ">marked"])
            .optional(["marked", "dropped"])
            .shorten("flow", 12);
        table.row(["udp 192.168.178.23:51234 > 203.0.113.77:3478", "1.5mbit", "calls", "0", "12"].map(Cell::from));
        table.row(["tcp :443", "98mbit", "best-effort", "1024", "0"].map(Cell::from));
        table
    }

    #[test]
    fn a_pipe_receives_everything() {
        let expected = "\
flow                                             rate  class        dropped  marked
udp 192.168.178.23:51234 > 203.0.113.77:3478  1.5mbit  calls              0      12
tcp :443                                       98mbit  best-effort     1024       0
";
        assert_eq!(flows().text(None), expected);
    }

    #[test]
    fn a_narrow_terminal_has_shorter_cells_then_fewer_columns() {
        let sixty = flows().text(Some(60));
        assert!(sixty.lines().all(|line| line.width() <= 60), "{sixty}");
        assert!(sixty.contains("marked") && sixty.contains("udp 192.1") && sixty.contains("…"), "{sixty}");
        let forty = flows().text(Some(40));
        assert!(forty.lines().all(|line| line.width() <= 40), "{forty}");
        assert!(!forty.contains("1024") && forty.ends_with("(too narrow for: dropped, marked)\n"), "{forty}");
        let ten = flows().text(Some(16));
        assert!(ten.lines().all(|line| line.width() <= 16), "{ten}");
    }

    #[test]
    fn intervals_stand_below_each_other() {
        let mut table = Table::new("", ["queue", ">delay", ">lost"]);
        for (queue, delay) in [
            ("fifo", "1085.3 \u{b1} 107.8 ms"),
            ("codel", "13.0 \u{b1} < 0.1 ms"),
            ("pie", "9.1 \u{b1} 2.0 ms (2 runs)"),
            ("red", "8.0 ms"),
            ("cake", "not reached"),
        ] {
            table.row([queue, delay, "1"].map(Cell::from));
        }
        let expected = "\
queue                     delay  lost
fifo   1085.3 \u{b1} 107.8 ms            1
codel    13.0 \u{b1} < 0.1 ms            1
pie       9.1 \u{b1} 2.0 ms (2 runs)     1
red       8.0 ms                    1
cake                not reached     1
";
        assert_eq!(table.text(None), expected);
        assert_eq!(table.width(), expected.lines().next().map_or(0, UnicodeWidthStr::width));
    }

    #[test]
    fn a_paragraph_is_broken_between_words() {
        assert_eq!(wrapped("one two three four", Some(9)), "one two\n  three\n  four");
        assert_eq!(wrapped("one two", None), "one two");
        assert_eq!(wrapped("unbreakable word", Some(4)), "unbreakable\n  word");
    }

    #[test]
    fn a_text_is_shortened_in_the_middle_by_its_width() {
        assert_eq!(middle("abcdefgh", 5), "ab…gh");
        assert_eq!(middle("abcdefgh", 4), "ab…h");
        assert_eq!(middle("日本語日本語", 7), "日…語");
        assert_eq!(middle("ab", 0), "");
        assert_eq!(middle("ab", 2), "ab");
    }
}
