//! [`Drawing::pdf`]: a figure as a PDF of one page, with its font in it, as journals require.

use crate::drawing::{Drawing, Ink, OPACITY, Shape, corners, push};
use crate::font;

/// The characters of WinAnsiEncoding that figures use: Latin-1 and a few others.
fn character(byte: u8) -> char {
    match byte {
        0x85 => '\u{2026}',
        0x91 => '\u{2018}',
        0x92 => '\u{2019}',
        0x93 => '\u{201c}',
        0x94 => '\u{201d}',
        0x96 => '\u{2013}',
        0x97 => '\u{2014}',
        byte => char::from(byte),
    }
}

/// The byte of a character in WinAnsiEncoding.
fn byte(wanted: char) -> u8 {
    match wanted {
        '\u{2212}' => b'-',
        '\u{3bc}' => 0xb5,
        _ => (b' '..=255).find(|byte| character(*byte) == wanted && *byte != 0x7f).unwrap_or(b'?'),
    }
}

impl Drawing {
    /// Formats it as a PDF of one page of its size. Characters beyond Latin-1 are question marks.
    pub fn pdf(&self) -> Vec<u8> {
        let page = self.content();
        let font::Metrics { ascent, descent, capital_height, bounds: [left, bottom, right, top] } = font::metrics();
        let widths: Vec<String> = (b' '..=255).map(|byte| format!("{:.0}", font::advance(character(byte)))).collect();
        let stream = |entries: String, content: &[u8]| {
            [format!("<< {entries} >>\nstream\n").as_bytes(), content, b"\nendstream"].concat()
        };
        let objects: [Vec<u8>; 7] = [
            b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
            format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {} {}] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> \
                 /ExtGState << /A << /ca {OPACITY} >> /O << /ca 1 >> >> >> >>",
                self.width, self.height
            )
            .into_bytes(),
            stream(format!("/Length {}", page.len()), &page),
            format!(
                "<< /Type /Font /Subtype /TrueType /BaseFont /TIDEGT+Roboto-Regular /FirstChar 32 /LastChar 255 /Widths [{}] \
                 /FontDescriptor 6 0 R /Encoding /WinAnsiEncoding >>",
                widths.join(" ")
            )
            .into_bytes(),
            format!(
                "<< /Type /FontDescriptor /FontName /TIDEGT+Roboto-Regular /Flags 32 /FontBBox [{left:.0} {bottom:.0} {right:.0} \
                 {top:.0}] /ItalicAngle 0 /Ascent {ascent:.0} /Descent {descent:.0} /CapHeight {capital_height:.0} /StemV 80 \
                 /FontFile2 7 0 R >>"
            )
            .into_bytes(),
            stream(format!("/Length {0} /Length1 {0}", font::FILE.len()), font::FILE),
        ];
        // The second line has bytes beyond ASCII: programs that copy files must not take it for text.
        let mut pdf = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n".to_vec();
        let size = objects.len() + 1;
        let mut table = format!("xref\n0 {size}\n0000000000 65535 f \n");
        for (n, object) in objects.iter().enumerate() {
            push(&mut table, format_args!("{:010} 00000 n \n", pdf.len()));
            pdf.extend(format!("{} 0 obj\n", n + 1).into_bytes());
            pdf.extend(object);
            pdf.extend(b"\nendobj\n");
        }
        let at = pdf.len();
        pdf.extend(format!("{table}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{at}\n%%EOF\n").into_bytes());
        pdf
    }

    /// The shapes as operators of PDF.
    fn content(&self) -> Vec<u8> {
        let mut page = Vec::new();
        // PDF counts from the lower left.
        let up = |y: f64| self.height - y;
        let rgb = |ink: Ink| {
            let [r, g, b] = ink.rgb().map(|part| f64::from(part) / 255.0);
            format!("{r:.3} {g:.3} {b:.3}")
        };
        let path = |points: &[(f64, f64)]| {
            let mut text = String::new();
            for (n, (x, y)) in points.iter().enumerate() {
                push(&mut text, format_args!("{x:.2} {:.2} {}\n", up(*y), if n == 0 { "m" } else { "l" }));
            }
            text
        };
        for shape in &self.shapes {
            match shape {
                Shape::Rectangle { x, y, width, height, ink } => page.extend(
                    format!("{} rg {x:.2} {:.2} {width:.2} {height:.2} re f\n", rgb(*ink), up(y + height)).into_bytes(),
                ),
                Shape::Area { outline, ink } => {
                    page.extend(format!("/A gs {} rg\n{}f\n/O gs\n", rgb(*ink), path(outline)).into_bytes());
                }
                Shape::Lines { lines, width, ink, dash } => {
                    let dash: Vec<String> = dash.iter().map(u32::to_string).collect();
                    page.extend(format!("{} RG {width} w [{}] 0 d\n", rgb(*ink), dash.join(" ")).into_bytes());
                    lines.iter().for_each(|line| page.extend(path(line).into_bytes()));
                    page.extend(b"S\n");
                }
                Shape::Marks { points, radius, pen } => {
                    page.extend(format!("{} rg\n", rgb(Ink::Curve(pen.colour))).into_bytes());
                    for &(x, y) in points {
                        let outline = corners(*pen, (x, y), *radius).unwrap_or_else(|| {
                            let at = |n: u32| (f64::from(n) * std::f64::consts::TAU / 12.0).sin_cos();
                            (0..12).map(at).map(|(sin, cos)| (x + radius * cos, y + radius * sin)).collect()
                        });
                        page.extend(path(&outline).into_bytes());
                        page.extend(b"f\n");
                    }
                }
                Shape::Text { x, y, anchor, size, ink, text } => {
                    let bytes: Vec<u8> = text.chars().map(byte).collect();
                    let width = bytes.iter().map(|byte| font::advance(character(*byte))).sum::<f64>() * size / 1000.0;
                    let x = anchor.begin(*x, width);
                    page.extend(format!("BT {} rg /F {size} Tf {x:.2} {:.2} Td (", rgb(*ink), up(*y)).into_bytes());
                    for byte in bytes {
                        if matches!(byte, b'(' | b')' | b'\\') {
                            page.push(b'\\');
                        }
                        page.push(byte);
                    }
                    page.extend(b") Tj ET\n");
                }
            }
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::Anchor;

    #[test]
    fn a_pdf_has_its_objects_where_its_table_names_them() {
        let mut drawing = Drawing { width: 200.0, height: 100.0, ..Drawing::default() };
        drawing.text((10.0, 20.0), Anchor::Start, 12.0, Ink::Text, "50 % (\u{b1} 2 \u{3bc}s)");
        drawing.rectangle((0.0, 90.0), 20.0, 10.0, Ink::Curve(0));
        drawing.shapes.push(Shape::Area { outline: vec![(0.0, 0.0), (5.0, 0.0), (5.0, 5.0)], ink: Ink::Curve(1) });
        let pdf = drawing.pdf();
        let text: String = pdf.iter().map(|byte| char::from(*byte)).collect();
        assert!(
            text.contains("/MediaBox [0 0 200 100]") && text.contains("(50 % \\(\u{b1} 2 \u{b5}s\\)) Tj"),
            "{text}"
        );
        // At the bottom, ten points high.
        assert!(text.contains("0.00 0.00 20.00 10.00 re f") && text.contains("/A gs"), "{text}");
        let table = text.split_once("xref\n0 8\n").expect("a table").1;
        for (n, line) in table.lines().skip(1).take(7).enumerate() {
            let at: usize = line[..10].parse().expect("an offset");
            assert!(pdf[at..].starts_with(format!("{} 0 obj\n", n + 1).as_bytes()));
        }
        let at: usize = text.rsplit("startxref\n").next().and_then(|end| end.lines().next()?.parse().ok()).expect("it");
        assert!(pdf[at..].starts_with(b"xref"));
        // The font is in it, whole.
        assert!(pdf.windows(font::FILE.len()).any(|part| part == font::FILE));
    }

    #[test]
    fn a_text_ends_where_it_is_to_end() {
        let mut drawing = Drawing { width: 100.0, height: 50.0, ..Drawing::default() };
        drawing.text((50.0, 10.0), Anchor::End, 10.0, Ink::Text, "123");
        let begin = 50.0 - font::width("123", 10.0);
        let text: String = drawing.pdf().iter().map(|byte| char::from(*byte)).collect();
        assert!(text.contains(&format!("{begin:.2} 40.00 Td (123)")), "{begin}");
    }
}
