//! The font of figures as PDF and PNG: a part of Roboto (`assets/roboto.LICENSE`), so that they look alike on every machine
//! and in every reader. It has Latin-1, a few Greek letters and signs.

use std::sync::LazyLock;

use ttf_parser::{Face, OutlineBuilder};

/// The font as TrueType.
pub(crate) const FILE: &[u8] = include_bytes!("../assets/roboto.ttf");

static FACE: LazyLock<Face<'static>> = LazyLock::new(|| Face::parse(FILE, 0).expect("the file is part of the program"));

/// What an outline of a text is drawn with, in the coordinates of the figure.
pub(crate) trait Outline {
    fn move_to(&mut self, x: f32, y: f32);
    fn line_to(&mut self, x: f32, y: f32);
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32);
    fn close(&mut self);
}

/// Metrics of the font for a PDF, in thousandths of its size.
pub(crate) struct Metrics {
    pub(crate) ascent: f64,
    pub(crate) descent: f64,
    pub(crate) capital_height: f64,
    /// Left, bottom, right and top of what contains every character.
    pub(crate) bounds: [f64; 4],
}

fn thousandths(units: impl Into<f64>) -> f64 {
    units.into() * 1000.0 / f64::from(FACE.units_per_em())
}

pub(crate) fn metrics() -> Metrics {
    let bounds = FACE.global_bounding_box();
    Metrics {
        ascent: thousandths(FACE.ascender()),
        descent: thousandths(FACE.descender()),
        capital_height: thousandths(FACE.capital_height().unwrap_or(0)),
        bounds: [bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max].map(thousandths),
    }
}

/// The width of a character, in thousandths of the size of the text.
pub(crate) fn advance(character: char) -> f64 {
    let glyph = FACE.glyph_index(character).unwrap_or_default();
    thousandths(FACE.glyph_hor_advance(glyph).unwrap_or(0))
}

/// The width of a text of this size.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size / 1000.0
}

/// The part that a text may be wider in a reader's font than in this one.
const WIDER: f64 = 1.18;

/// The width that a text of this size may have in a reader's font.
pub(crate) fn room(text: &str, size: f64) -> f64 {
    width(text, size) * WIDER
}

/// `text` without its middle, where it is wider than `most`.
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

/// Draws the outlines of a text whose first character begins at `(x, y)`, `y` downwards; returns nothing where the font has no
/// glyph but its sign for a missing one.
pub(crate) fn outline(text: &str, (x, y): (f64, f64), size: f64, to: &mut impl Outline) {
    struct Placed<'a, T>(&'a mut T, f64, f64, f64);
    impl<T: Outline> Placed<'_, T> {
        fn at(&self, x: f32, y: f32) -> (f32, f32) {
            ((self.1 + f64::from(x) * self.3) as f32, (self.2 - f64::from(y) * self.3) as f32)
        }
    }
    impl<T: Outline> OutlineBuilder for Placed<'_, T> {
        fn move_to(&mut self, x: f32, y: f32) {
            let (x, y) = self.at(x, y);
            self.0.move_to(x, y);
        }
        fn line_to(&mut self, x: f32, y: f32) {
            let (x, y) = self.at(x, y);
            self.0.line_to(x, y);
        }
        fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
            let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
            self.0.quad_to(x1, y1, x, y);
        }
        // TrueType has quadratic curves alone.
        fn curve_to(&mut self, _: f32, _: f32, _: f32, _: f32, x: f32, y: f32) {
            self.line_to(x, y);
        }
        fn close(&mut self) {
            self.0.close();
        }
    }
    let scale = size / f64::from(FACE.units_per_em());
    let mut at = x;
    for character in text.chars() {
        let glyph = FACE.glyph_index(character).unwrap_or_default();
        FACE.outline_glyph(glyph, &mut Placed(to, at, y, scale));
        at += advance(character) * size / 1000.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_that_figures_use_is_there() {
        for character in (' '..='~').chain('\u{a1}'..='\u{ff}').chain("\u{2212}\u{2013}\u{2026}\u{3bc}\u{2264}".chars())
        {
            assert!(FACE.glyph_index(character).is_some(), "{character}");
        }
        // Digits are of equal width, so that numbers of equal length end alike.
        assert!("0123456789".chars().all(|digit| advance(digit) == advance('0')));
        assert!((width("00", 10.0) - 2.0 * advance('0') / 100.0).abs() < 1e-9);
    }
}
