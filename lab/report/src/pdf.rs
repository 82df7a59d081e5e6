//! [`Drawing::pdf`]: a figure as a PDF of one page that embeds its font, as journals require.

use pdf_writer::types::{FontFlags, LineJoinStyle};
use pdf_writer::writers::ExtGraphicsState;
use pdf_writer::{Content, Finish as _, Name, Pdf, Rect, Ref, Str};

use crate::drawing::{Drawing, Ink, OPACITY, POINT, Shape, corners};
use crate::font;

/// Characters of the font that WinAnsiEncoding lacks, with their names in the Adobe Glyph List. They take the bytes from 0x80 on, whose
/// characters the font lacks.
const MORE: [(char, &str); 11] = [
    // The name `Delta` is that of the increment, U+2206.
    ('\u{394}', "uni0394"),
    ('\u{3b1}', "alpha"),
    ('\u{3b2}', "beta"),
    ('\u{3bb}', "lambda"),
    ('\u{3c3}', "sigma"),
    // 0x85 is the ellipsis.
    ('\u{2026}', "ellipsis"),
    ('\u{221e}', "infinity"),
    ('\u{2248}', "approxequal"),
    ('\u{2264}', "lessequal"),
    ('\u{2265}', "greaterequal"),
    ('\u{2212}', "minus"),
];
/// The byte of the first of them.
const FIRST: u8 = 0x80;

/// Decodes a byte of the encoding of the font: WinAnsiEncoding, as far as figures use it, and [`MORE`].
fn character(byte: u8) -> char {
    match byte {
        0x91 => '\u{2018}',
        0x92 => '\u{2019}',
        0x93 => '\u{201c}',
        0x94 => '\u{201d}',
        0x96 => '\u{2013}',
        0x97 => '\u{2014}',
        byte => match byte.checked_sub(FIRST).and_then(|at| MORE.get(usize::from(at))) {
            Some((known, _)) => *known,
            None => char::from(byte),
        },
    }
}

/// Encodes a text in which all characters are in the font.
fn bytes(text: &str) -> Vec<u8> {
    let byte = |wanted: char| match wanted {
        '\u{3bc}' => Some(0xb5),
        _ => (b' '..=255).find(|byte| character(*byte) == wanted && *byte != 0x7f),
    };
    font::spelled(text).chars().filter_map(byte).collect()
}

/// The names of the font and of the graphics state for areas in the resources of the page.
const FONT: Name<'_> = Name(b"F");
const AREA: Name<'_> = Name(b"A");

const FONT_NAME: Name<'_> = Name(b"TIDEGT+Roboto-Regular");

impl Drawing {
    /// Formats the drawing as a PDF of one page of its size. Characters that the font lacks are spelled with others.
    pub fn pdf(&self) -> Vec<u8> {
        let [catalog, pages, page, content, font, descriptor, file] = [1, 2, 3, 4, 5, 6, 7].map(Ref::new);
        let mut pdf = Pdf::new();
        // What it has is of version 1.4, and pdfTeX warns of files above 1.5.
        pdf.set_version(1, 5);
        pdf.catalog(catalog).pages(pages);
        pdf.pages(pages).kids([page]).count(1);
        let mut writer = pdf.page(page);
        let [width, height] = [self.width, self.height].map(|length| (length * POINT * 1e3).round() as f32 / 1e3);
        writer.parent(pages).media_box(Rect::new(0.0, 0.0, width, height)).contents(content);
        let mut resources = writer.resources();
        resources.fonts().pair(FONT, font);
        resources.ext_g_states().insert(AREA).start::<ExtGraphicsState<'_>>().non_stroking_alpha(OPACITY as f32);
        resources.finish();
        writer.finish();
        pdf.stream(content, &self.content());
        let mut dictionary = pdf.indirect(font).dict();
        dictionary
            .pair(Name(b"Type"), Name(b"Font"))
            .pair(Name(b"Subtype"), Name(b"TrueType"))
            .pair(Name(b"BaseFont"), FONT_NAME)
            .pair(Name(b"FirstChar"), 32)
            .pair(Name(b"LastChar"), 255)
            .pair(Name(b"FontDescriptor"), descriptor);
        let mut encoding = dictionary.insert(Name(b"Encoding")).dict();
        encoding.pair(Name(b"Type"), Name(b"Encoding")).pair(Name(b"BaseEncoding"), Name(b"WinAnsiEncoding"));
        let mut differences = encoding.insert(Name(b"Differences")).array();
        differences.item(i32::from(FIRST)).items(MORE.iter().map(|(_, name)| Name(name.as_bytes())));
        differences.finish();
        encoding.finish();
        let widths = (b' '..=255).map(|byte| font::advance(character(byte)).round() as f32);
        dictionary.insert(Name(b"Widths")).array().items(widths);
        dictionary.finish();
        let metrics = font::metrics();
        let thousandths = |units| font::thousandths(units).round() as f32;
        let bounds = metrics.bounds.unwrap_or_default();
        pdf.font_descriptor(descriptor)
            .name(FONT_NAME)
            .flags(FontFlags::NON_SYMBOLIC)
            .bbox(Rect::new(
                thousandths(bounds.x_min),
                thousandths(bounds.y_min),
                thousandths(bounds.x_max),
                thousandths(bounds.y_max),
            ))
            .italic_angle(0.0)
            .ascent(thousandths(metrics.ascent))
            .descent(thousandths(metrics.descent))
            .cap_height(thousandths(metrics.cap_height.unwrap_or(0.0)))
            .stem_v(80.0)
            .font_file2(file);
        pdf.stream(file, font::FILE).pair(Name(b"Length1"), font::FILE.len() as i32);
        pdf.finish()
    }

    /// Converts the shapes to PDF operators.
    fn content(&self) -> Vec<u8> {
        let mut page = Content::new();
        let point = POINT as f32;
        page.transform([point, 0.0, 0.0, point, 0.0, 0.0]).set_line_join(LineJoinStyle::RoundJoin);
        for shape in &self.shapes {
            match shape {
                Shape::Rectangle { x, y, width, height, ink } => {
                    let (x, y) = self.point((*x, y + height));
                    self.fill_colour(&mut page, *ink).rect(x, y, *width as f32, *height as f32).fill_nonzero();
                }
                Shape::Area { outline, ink } => {
                    self.fill_colour(page.save_state().set_parameters(AREA), *ink);
                    self.path(&mut page, outline).fill_nonzero().restore_state();
                }
                Shape::Lines { lines, width, ink, dash } => {
                    let [r, g, b] = self.rgb(*ink);
                    page.set_stroke_rgb(r, g, b).set_line_width(*width as f32);
                    page.set_dash_pattern(dash.iter().map(|length| (f64::from(*length) * width / 1.8) as f32), 0.0);
                    for line in lines {
                        self.path(&mut page, line);
                    }
                    page.stroke();
                }
                Shape::Marks { points, radius, ink, mark } => {
                    self.fill_colour(&mut page, *ink);
                    for &(x, y) in points {
                        let outline = corners(*mark, (x, y), *radius).unwrap_or_else(|| {
                            let at = |n: u32| (f64::from(n) * std::f64::consts::TAU / 12.0).sin_cos();
                            (0..12).map(at).map(|(sin, cos)| (x + radius * cos, y + radius * sin)).collect()
                        });
                        self.path(&mut page, &outline).fill_nonzero();
                    }
                }
                Shape::Text { x, y, anchor, size, ink, text, .. } => {
                    let bytes = bytes(text);
                    let width = bytes.iter().map(|byte| font::advance(character(*byte))).sum::<f64>() * size / 1000.0;
                    let (x, y) = self.point((anchor.begin(*x, width), *y));
                    self.fill_colour(page.begin_text(), *ink)
                        .set_font(FONT, *size as f32)
                        .next_line(x, y)
                        .show(Str(&bytes))
                        .end_text();
                }
            }
        }
        page.finish().into_vec()
    }

    /// Converts a point to PDF coordinates, which start at the lower left, rounded to hundredths.
    fn point(&self, (x, y): (f64, f64)) -> (f32, f32) {
        let rounded = |length: f64| ((length * 100.0).round() / 100.0) as f32;
        (rounded(x), rounded(self.height - y))
    }

    fn path<'a>(&self, page: &'a mut Content, points: &[(f64, f64)]) -> &'a mut Content {
        for (n, point) in points.iter().enumerate() {
            let (x, y) = self.point(*point);
            if n == 0 {
                page.move_to(x, y)
            } else {
                page.line_to(x, y)
            };
        }
        page
    }

    fn rgb(&self, ink: Ink) -> [f32; 3] {
        ink.rgb(self.finish.grey).map(|part| f32::from(part) / 255.0)
    }

    fn fill_colour<'a>(&self, page: &'a mut Content, ink: Ink) -> &'a mut Content {
        let [r, g, b] = self.rgb(ink);
        page.set_fill_rgb(r, g, b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::Anchor;

    #[test]
    fn characters_are_encoded_or_spelled() {
        let text =
            "\u{3b1} \u{2264} 5 \u{3bc}s \u{2212} \u{394}, \u{3b8} \u{2192} \u{141}\u{f3}d\u{17a}, \u{2318}?\u{2026}";
        assert_eq!(bytes(text), b"\x81 \x88 5 \xb5s \x8a \x80, theta -> L\xf3dz, U+2318?\x85");
        // Each character of the font has one byte, which leads back to it.
        for character in (b' '..=255).map(character).filter(|character| font::has(*character)) {
            assert_eq!(
                bytes(&character.to_string()).into_iter().map(self::character).collect::<String>(),
                character.to_string()
            );
        }
        assert!(MORE.iter().all(|(character, _)| font::has(*character)));
    }

    #[test]
    fn a_pdf_has_its_shapes_and_its_font() {
        let mut drawing = Drawing { width: 200.0, height: 100.0, ..Drawing::default() };
        drawing.text((10.0, 20.0), Anchor::Start, 12.0, Ink::Text, "50 % of 2 s");
        drawing.text((10.0, 40.0), Anchor::Start, 12.0, Ink::Text, "\u{b1}\u{3bc}");
        drawing.rectangle((0.0, 90.0), 20.0, 10.0, Ink::Curve(0));
        drawing.shapes.push(Shape::Area { outline: vec![(0.0, 0.0), (5.0, 0.0), (5.0, 5.0)], ink: Ink::Curve(1) });
        let pdf = drawing.pdf();
        let text: String = pdf.iter().map(|byte| char::from(*byte)).collect();
        // The second text has characters beyond ASCII, which are written in hexadecimal. The rectangle is at the
        // bottom. 200 points of TeX are 199.25 of PDF.
        for part in [
            "/MediaBox [0 0 199.253 99.626]",
            "(50 % of 2 s) Tj",
            "<B1B5> Tj",
            "0 0 20 10 re",
            "/A gs",
            "/Differences [128 /uni0394 /alpha",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(pdf.windows(font::FILE.len()).any(|part| part == font::FILE), "the font, whole");
    }

    #[test]
    fn a_text_ends_where_it_is_to_end() {
        let mut drawing = Drawing { width: 100.0, height: 50.0, ..Drawing::default() };
        drawing.text((50.0, 10.0), Anchor::End, 10.0, Ink::Text, "123");
        let begin = 50.0 - 3.0 * font::advance('1') / 100.0;
        let text: String = drawing.pdf().iter().map(|byte| char::from(*byte)).collect();
        assert!(text.contains(&format!("{begin:.2} 40 Td\n(123)")), "{begin}");
    }
}
