//! The font of figures in PDF and PNG, so that they look alike on every machine and in every reader. It is a subset of
//! Roboto (`assets/roboto.LICENSE`) with Latin-1, a few Greek letters and signs.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use deunicode::deunicode_char;
use skrifa::charmap::Charmap;
use skrifa::instance::{LocationRef, Size};
use skrifa::metrics::{GlyphMetrics, Metrics};
use skrifa::{FontRef, MetadataProvider as _};

use crate::tikz::greek;

/// The font as a TrueType file.
pub(crate) const FILE: &[u8] = include_bytes!("../assets/roboto.ttf");

struct Font {
    characters: Charmap<'static>,
    glyphs: GlyphMetrics<'static>,
    metrics: Metrics,
}

static FONT: LazyLock<Font> = LazyLock::new(|| {
    let font = FontRef::new(FILE).expect("the file is part of the program");
    let (size, location) = (Size::unscaled(), LocationRef::default());
    Font {
        characters: font.charmap(),
        glyphs: font.glyph_metrics(size, location),
        metrics: font.metrics(size, location),
    }
});

/// The metrics of the font, in units of the font.
pub(crate) fn metrics() -> &'static Metrics {
    &FONT.metrics
}

/// Converts a length in units of the font to thousandths of the font size.
pub(crate) fn thousandths(units: f32) -> f64 {
    f64::from(units) * 1000.0 / f64::from(FONT.metrics.units_per_em)
}

/// Whether the font has a character.
pub(crate) fn has(character: char) -> bool {
    FONT.characters.map(character).is_some()
}

/// The width of a character, in thousandths of the font size.
pub(crate) fn advance(character: char) -> f64 {
    let glyph = FONT.characters.map(character).unwrap_or_default();
    thousandths(FONT.glyphs.advance_width(glyph).unwrap_or(0.0))
}

/// Texts for signs that the font lacks. The transliteration of letters would lose their meaning: an unequal sign becomes `=` there.
const SPELLED: [(char, &str); 43] = [
    ('\u{1e9e}', "SS"),
    ('\u{259}', "e"),
    ('\u{18f}', "E"),
    ('\u{2190}', "<-"),
    ('\u{2192}', "->"),
    ('\u{2194}', "<->"),
    ('\u{21d0}', "<="),
    ('\u{21d2}', "=>"),
    ('\u{21d4}', "<=>"),
    ('\u{2191}', "up"),
    ('\u{2193}', "down"),
    ('\u{2260}', "!="),
    ('\u{2261}', "=="),
    ('\u{223c}', "~"),
    ('\u{221a}', "sqrt "),
    ('\u{2211}', "sum "),
    ('\u{220f}', "product "),
    ('\u{2206}', "\u{394}"),
    ('\u{2202}', "d"),
    ('\u{2208}', " in "),
    ('\u{2022}', "\u{b7}"),
    ('\u{22c5}', "\u{b7}"),
    ('\u{2219}', "\u{b7}"),
    ('\u{2032}', "'"),
    ('\u{2033}', "\""),
    ('\u{2030}', " per mille"),
    ('\u{2122}', "(TM)"),
    ('\u{20ac}', "EUR"),
    ('\u{2010}', "-"),
    ('\u{2011}', "-"),
    ('\u{2015}', "\u{2014}"),
    ('\u{201a}', "'"),
    ('\u{201e}', "\""),
    ('\u{2039}', "<"),
    ('\u{203a}', ">"),
    ('\u{2044}', "/"),
    ('\u{2215}', "/"),
    ('\u{2126}', "Ohm"),
    ('\u{3bf}', "omicron"),
    ('\u{2713}', "yes"),
    ('\u{2717}', "no"),
    ('\u{226a}', "<<"),
    ('\u{226b}', ">>"),
];

/// Replaces the characters that the font lacks: letters and digits by Latin ones, Greek letters by their names, signs by others, and
/// anything else by its code point, such as `U+2318`.
pub(crate) fn spelled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            known if has(known) && !known.is_control() => out.push(known),
            space if space.is_whitespace() || space.is_control() => out.push(' '),
            // Accents that stand behind their letter, joiners, and marks of direction.
            '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => {}
            sup @ ('\u{2070}' | '\u{2074}'..='\u{2079}') => {
                out.extend(['^', char::from(b'0' + (sup as u32 - 0x2070) as u8)]);
            }
            other => match SPELLED.iter().find(|(known, _)| *known == other) {
                Some((_, text)) => out.push_str(text),
                None => match (greek(other), deunicode_char(other).filter(|_| other.is_alphanumeric())) {
                    (Some(name), _) => out.push_str(name.trim_start_matches("var")),
                    (None, Some(letters)) => out.push_str(letters),
                    (None, None) => out.push_str(&format!("U+{:04X}", other as u32)),
                },
            },
        }
    }
    out
}

/// The widths of the characters from the space to `~` in DejaVu Sans, in thousandths of the font size. It is the sans-serif font of
/// most Linux systems, and the widest that a reader of an SVG usually has: Arial, Helvetica and this one are narrower.
const WIDEST: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636,
    636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863,
    748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635,
    615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636,
    337, 636, 838,
];
/// The factor by which any other character, such as a sign, may be wider there than in this one.
const WIDER: f64 = 1.6;

/// The width to reserve for a text of this size, because the reader's font may be wider.
pub(crate) fn room(text: &str, size: f64) -> f64 {
    let widest = |character: char| {
        let known = (character as usize).checked_sub(usize::from(b' ')).and_then(|at| WIDEST.get(at));
        known.map_or(advance(character) * WIDER, |widest| f64::from(*widest).max(advance(character)))
    };
    text.chars().map(widest).sum::<f64>() * size / 1000.0
}

/// Omits the middle of `text` if it is wider than `most`.
pub(crate) fn fitted(text: &str, size: f64, most: f64) -> String {
    let chars: Vec<char> = text.chars().collect();
    let shortened = |kept: usize| -> String {
        if kept == chars.len() {
            return text.to_owned();
        }
        let (begin, end) = (&chars[..kept.div_ceil(2)], &chars[chars.len() - kept / 2..]);
        begin.iter().chain(&['\u{2026}']).chain(end).collect()
    };
    (0..=chars.len()).rev().map(shortened).find(|text| room(text, size) <= most).unwrap_or_default()
}

/// Several texts, each [`fitted`]; without what they begin and end with in common where some would look alike.
pub(crate) fn fitted_apart<'a>(texts: impl Iterator<Item = &'a str>, size: f64, most: f64) -> Vec<String> {
    let texts: Vec<Vec<char>> = texts.map(|text| text.chars().collect()).collect();
    let fit = |from: usize, until: usize| -> Vec<String> {
        let part = |text: &Vec<char>| {
            let left_out = |is_so: bool| is_so.then_some('\u{2026}');
            let kept = text[from..text.len() - until].iter().copied();
            let whole: String = left_out(from > 0).into_iter().chain(kept).chain(left_out(until > 0)).collect();
            fitted(&whole, size, most)
        };
        texts.iter().map(part).collect()
    };
    let count = |texts: &[String]| texts.iter().collect::<BTreeSet<_>>().len();
    let (plain, distinct) = (fit(0, 0), texts.iter().collect::<BTreeSet<_>>().len());
    let Some((first, others)) = texts.split_first().filter(|_| count(&plain) < distinct) else { return plain };
    let alike = |at: &dyn Fn(&Vec<char>, usize) -> Option<char>, most: usize| {
        let is_common = |n: &usize| others.iter().all(|other| at(other, *n) == at(first, *n));
        (0..most).take_while(is_common).count()
    };
    let shortest = texts.iter().map(Vec::len).min().unwrap_or(0);
    let from = alike(&|text, n| text.get(n).copied(), shortest);
    let until = alike(&|text, n| text.len().checked_sub(n + 1).map(|at| text[at]), shortest - from);
    let apart = fit(from, until);
    if count(&apart) > count(&plain) { apart } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_would_look_alike_lose_what_they_have_in_common() {
        let kinds = ["fq-codel", "codel", "pie"].map(|kind| format!("{{\"kind\": \"{kind}\", \"limit\": \"100kB\"}}"));
        let fitted = |most| fitted_apart(kinds.iter().map(String::as_str), 10.0, most);
        assert_eq!(fitted(1e3), kinds);
        let narrow = fitted(90.0);
        assert_eq!(narrow, ["\u{2026}fq-codel\u{2026}", "\u{2026}codel\u{2026}", "\u{2026}pie\u{2026}"]);
        // Equal texts stay alike, and those that differ in the middle of nothing are as they were.
        assert_eq!(fitted_apart(["a", "a"].into_iter(), 10.0, 90.0), ["a", "a"]);
    }

    #[test]
    fn every_character_that_figures_use_is_there() {
        for character in (' '..='~').chain('\u{a1}'..='\u{ff}').chain("\u{2212}\u{2013}\u{2026}\u{3bc}\u{2264}".chars())
        {
            assert!(has(character), "{character}");
        }
        // Digits have equal widths, so that numbers with the same number of digits align.
        assert!("0123456789".chars().all(|digit| advance(digit) == advance('0')));
    }

    #[test]
    fn what_the_font_lacks_is_spelled() {
        for (text, expected) in [
            ("\u{2264} 5 \u{b5}s, \u{b1} \u{3b1}", "\u{2264} 5 \u{b5}s, \u{b1} \u{3b1}"),
            ("a \u{2192} b, \u{2260}", "a -> b, !="),
            ("\u{141}\u{f3}d\u{17a}, \u{130}stanbul, \u{11f}\u{131}\u{15f}", "L\u{f3}dz, Istanbul, gis"),
            ("e\u{301}, Vi\u{1ec7}t, c\u{153}ur", "e, Viet, coeur"),
            ("\u{3b8}, \u{3a9}, \u{3bf}", "theta, Omega, omicron"),
            ("x\u{2081}\u{2074}\u{2009}ms", "x1^4 ms"),
            ("\u{41c}\u{43e}\u{441}\u{43a}\u{432}\u{430}, \u{3ac}", "Moskva, a"),
            ("\u{4e2d}\u{6587}", "Zhong Wen "),
            ("\u{2318}", "U+2318"),
        ] {
            assert_eq!(spelled(text), expected);
            assert_eq!(spelled(expected), expected);
        }
    }

    /// Signs are wider in DejaVu Sans by more than letters: `a=b, c=d` has a quarter more than in the font of figures, `Mbit/s` hardly more.
    #[test]
    fn the_room_of_a_text_is_its_width_in_dejavu_sans() {
        for (text, thousandths) in [("a=b, c=d", 4_745.0), ("Mbit/s", 3_026.0), ("5 \u{b1} 1", 2_746.0)] {
            let room = room(text, 1_000.0);
            assert!(room >= thousandths && room < thousandths * 1.1, "{text}: {room}");
        }
    }
}
