//! The font of figures in PDF and PNG, so that they look alike on every machine and in every reader. It is a subset of
//! Roboto (`assets/roboto.LICENSE`) with Latin-1, a few Greek letters and signs.

use std::sync::LazyLock;

use skrifa::charmap::Charmap;
use skrifa::instance::{LocationRef, Size};
use skrifa::metrics::{GlyphMetrics, Metrics};
use skrifa::{FontRef, MetadataProvider as _};

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

/// The width of a character, in thousandths of the font size.
pub(crate) fn advance(character: char) -> f64 {
    let glyph = FONT.characters.map(character).unwrap_or_default();
    thousandths(FONT.glyphs.advance_width(glyph).unwrap_or(0.0))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_that_figures_use_is_there() {
        for character in (' '..='~').chain('\u{a1}'..='\u{ff}').chain("\u{2212}\u{2013}\u{2026}\u{3bc}\u{2264}".chars())
        {
            assert!(FONT.characters.map(character).is_some(), "{character}");
        }
        // Digits have equal widths, so that numbers with the same number of digits align.
        assert!("0123456789".chars().all(|digit| advance(digit) == advance('0')));
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
