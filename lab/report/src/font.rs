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

/// The width of a text of this size.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size / 1000.0
}

/// The factor by which a text may be wider in the reader's font than in this one.
const WIDER: f64 = 1.18;

/// The width to reserve for a text of this size, because the reader's font may be wider.
pub(crate) fn room(text: &str, size: f64) -> f64 {
    width(text, size) * WIDER
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
        assert!((width("00", 10.0) - 2.0 * advance('0') / 100.0).abs() < 1e-9);
    }
}
