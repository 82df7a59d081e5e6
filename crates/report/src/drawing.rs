//! A figure as shapes, written as SVG and as PDF without fonts or libraries.

use std::fmt::Write as _;

use crate::escape::escape;
use crate::palette::{self, Pen};

/// A figure: its size and its shapes, from back to front. Positions are in points of 1/72 inch from the upper left.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Drawing {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// What it shows, for readers who do not see it.
    pub(crate) title: String,
    pub(crate) shapes: Vec<Shape>,
}

/// A colour by its use: an SVG on a page has those of the reader's theme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ink {
    Text,
    Muted,
    Grid,
    Ground,
    /// The index of a colour of curves.
    Curve(usize),
}

impl Ink {
    const fn hex(self) -> &'static str {
        match self {
            Self::Text => "#000000",
            Self::Muted => "#5a6270",
            Self::Grid => "#dddddd",
            Self::Ground => palette::LIGHT_GROUND,
            Self::Curve(index) => palette::LIGHT[index % palette::LIGHT.len()],
        }
    }
    /// The variable of the page's theme.
    fn variable(self) -> String {
        match self {
            Self::Text => "var(--tg-ink)".into(),
            Self::Muted => "var(--tg-muted)".into(),
            Self::Grid => "var(--tg-grid)".into(),
            Self::Ground => "var(--tg-surface)".into(),
            Self::Curve(index) => format!("var(--tg-c{})", index % palette::LIGHT.len() + 1),
        }
    }
}

/// Where a text begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Shape {
    Rectangle {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        ink: Ink,
    },
    /// Open lines of one pen.
    Lines {
        lines: Vec<Vec<(f64, f64)>>,
        width: f64,
        ink: Ink,
        dash: &'static [u32],
    },
    /// A mark at each point, of this radius; the shape is that of the pen.
    Marks {
        points: Vec<(f64, f64)>,
        radius: f64,
        pen: Pen,
    },
    Text {
        x: f64,
        y: f64,
        anchor: Anchor,
        size: f64,
        ink: Ink,
        text: String,
    },
}

/// The corners of a mark around its centre; `None` for a circle.
fn corners(pen: Pen, (x, y): (f64, f64), r: f64) -> Option<Vec<(f64, f64)>> {
    Some(match pen.dash % 4 {
        0 => return None,
        1 => vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
        2 => vec![(x, y - 1.3 * r), (x + 1.2 * r, y + r), (x - 1.2 * r, y + r)],
        _ => vec![(x, y - 1.4 * r), (x + 1.4 * r, y), (x, y + 1.4 * r), (x - 1.4 * r, y)],
    })
}

fn push(to: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = to.write_fmt(text);
}

impl Drawing {
    pub(crate) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: f64, ink: Ink, text: impl Into<String>) {
        self.shapes.push(Shape::Text { x, y, anchor, size, ink, text: text.into() });
    }
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), width: f64, ink: Ink) {
        self.shapes.push(Shape::Lines { lines: vec![vec![from, to]], width, ink, dash: &[] });
    }
    pub(crate) fn rectangle(&mut self, (x, y): (f64, f64), width: f64, height: f64, ink: Ink) {
        self.shapes.push(Shape::Rectangle { x, y, width, height, ink });
    }

    /// Adds the shapes of `other` below those that there are.
    pub(crate) fn append(&mut self, other: Self) {
        let by = self.height;
        self.width = self.width.max(other.width);
        self.height += other.height;
        if self.title.is_empty() {
            self.title = other.title;
        }
        self.shapes.extend(other.shapes.into_iter().map(|mut shape| {
            match &mut shape {
                Shape::Rectangle { y, .. } | Shape::Text { y, .. } => *y += by,
                Shape::Lines { lines, .. } => lines.iter_mut().flatten().for_each(|point| point.1 += by),
                Shape::Marks { points, .. } => points.iter_mut().for_each(|point| point.1 += by),
            }
            shape
        }));
    }

    /// Formats it as SVG on white.
    pub fn svg(&self) -> String {
        self.svg_in(|ink| ink.hex().to_owned())
    }
    /// Formats it as SVG in the colours of a page's theme.
    pub(crate) fn svg_of_page(&self) -> String {
        self.svg_in(Ink::variable)
    }

    fn svg_in(&self, colour: impl Fn(Ink) -> String) -> String {
        let Self { width, height, .. } = self;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             role=\"img\">\n<title>{}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n",
            escape(&self.title),
            colour(Ink::Ground),
        );
        for shape in &self.shapes {
            match shape {
                Shape::Rectangle { x, y, width, height, ink } => push(
                    &mut svg,
                    format_args!(
                        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{}\"/>\n",
                        colour(*ink)
                    ),
                ),
                Shape::Lines { lines, width, ink, dash } => {
                    let mut path = String::new();
                    for line in lines {
                        for (n, (x, y)) in line.iter().enumerate() {
                            push(&mut path, format_args!("{}{x:.1},{y:.1}", if n == 0 { "M" } else { "L" }));
                        }
                    }
                    let dash: Vec<String> = dash.iter().map(u32::to_string).collect();
                    let dash = match dash.is_empty() {
                        true => String::new(),
                        false => format!(" stroke-dasharray=\"{}\"", dash.join(" ")),
                    };
                    push(
                        &mut svg,
                        format_args!(
                            "<path d=\"{path}\" fill=\"none\" stroke-width=\"{width}\" stroke=\"{}\"{dash}/>\n",
                            colour(*ink)
                        ),
                    );
                }
                Shape::Marks { points, radius, pen } => {
                    push(&mut svg, format_args!("<g fill=\"{}\">", colour(Ink::Curve(pen.colour))));
                    for &(x, y) in points {
                        match corners(*pen, (x, y), *radius) {
                            None => {
                                push(&mut svg, format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"/>"))
                            }
                            Some(corners) => {
                                let corners = corners.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
                                let corners: Vec<String> = corners.collect();
                                push(&mut svg, format_args!("<path d=\"M{}Z\"/>", corners.join("L")));
                            }
                        }
                    }
                    svg.push_str("</g>\n");
                }
                Shape::Text { x, y, anchor, size, ink, text } => {
                    let anchor = match anchor {
                        Anchor::Start => "start",
                        Anchor::Middle => "middle",
                        Anchor::End => "end",
                    };
                    push(
                        &mut svg,
                        format_args!(
                            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" \
                             fill=\"{}\">{}</text>\n",
                            colour(*ink),
                            escape(text)
                        ),
                    );
                }
            }
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Formats it as a PDF of one page of its size. Text is in Helvetica, which every reader of PDF has; characters
    /// beyond Latin-1 are question marks.
    pub fn pdf(&self) -> Vec<u8> {
        let mut page = Vec::new();
        // PDF counts from the lower left.
        let up = |y: f64| self.height - y;
        let rgb = |ink: Ink| {
            let part = |at: usize| f64::from(u8::from_str_radix(&ink.hex()[at..at + 2], 16).unwrap_or(0)) / 255.0;
            format!("{:.3} {:.3} {:.3}", part(1), part(3), part(5))
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
                    let latin: Vec<u8> = text.chars().map(latin1).collect();
                    let width = latin.iter().map(|byte| helvetica(*byte)).sum::<f64>() * size / 1000.0;
                    let x = match anchor {
                        Anchor::Start => *x,
                        Anchor::Middle => x - width / 2.0,
                        Anchor::End => x - width,
                    };
                    page.extend(format!("BT {} rg /F {size} Tf {x:.2} {:.2} Td (", rgb(*ink), up(*y)).into_bytes());
                    for byte in latin {
                        if matches!(byte, b'(' | b')' | b'\\') {
                            page.push(b'\\');
                        }
                        page.push(byte);
                    }
                    page.extend(b") Tj ET\n");
                }
            }
        }
        let objects: [Vec<u8>; 5] = [
            b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
            format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {} {}] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>",
                self.width, self.height
            )
            .into_bytes(),
            [format!("<< /Length {} >>\nstream\n", page.len()).as_bytes(), &page, b"\nendstream"].concat(),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_vec(),
        ];
        // The second line has bytes beyond ASCII: programs that copy files must not take it for text.
        let mut pdf = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n".to_vec();
        let mut table = String::from("xref\n0 6\n0000000000 65535 f \n");
        for (n, object) in objects.iter().enumerate() {
            push(&mut table, format_args!("{:010} 00000 n \n", pdf.len()));
            pdf.extend(format!("{} 0 obj\n", n + 1).into_bytes());
            pdf.extend(object);
            pdf.extend(b"\nendobj\n");
        }
        let at = pdf.len();
        pdf.extend(format!("{table}trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{at}\n%%EOF\n").into_bytes());
        pdf
    }
}

/// The byte of a character in WinAnsiEncoding, where it is that of Latin-1.
fn latin1(c: char) -> u8 {
    match c {
        '\u{2013}' => 0x96,
        '\u{2212}' => b'-',
        '\u{3bc}' => 0xb5,
        ' '..='~' | '\u{a0}'..='\u{ff}' => c as u8,
        _ => b'?',
    }
}

/// The width of a character in Helvetica, in thousandths of its size (Adobe's metrics of the font); beyond ASCII that of
/// most letters.
fn helvetica(byte: u8) -> f64 {
    #[rustfmt::skip]
    const WIDTHS: [u16; 95] = [
        278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
        556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
        1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
        667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
        333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
        556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
    ];
    f64::from(byte.checked_sub(b' ').and_then(|at| WIDTHS.get(usize::from(at))).copied().unwrap_or(556))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pdf_has_its_objects_where_its_table_names_them() {
        let mut drawing = Drawing { width: 200.0, height: 100.0, ..Drawing::default() };
        drawing.text((10.0, 20.0), Anchor::Start, 12.0, Ink::Text, "50 % (\u{b1} 2 \u{3bc}s)");
        drawing.rectangle((0.0, 90.0), 20.0, 10.0, Ink::Curve(0));
        let pdf = drawing.pdf();
        let text: String = pdf.iter().map(|byte| char::from(*byte)).collect();
        assert!(
            text.contains("/MediaBox [0 0 200 100]") && text.contains("(50 % \\(\u{b1} 2 \u{b5}s\\)) Tj"),
            "{text}"
        );
        // At the bottom, ten points high.
        assert!(text.contains("0.00 0.00 20.00 10.00 re f"), "{text}");
        let table = text.split_once("xref\n0 6\n").expect("a table").1;
        for (n, line) in table.lines().skip(1).take(5).enumerate() {
            let at: usize = line[..10].parse().expect("an offset");
            assert!(text[..].chars().skip(at).collect::<String>().starts_with(&format!("{} 0 obj\n", n + 1)));
        }
        let at: usize = text.rsplit("startxref\n").next().and_then(|end| end.lines().next()?.parse().ok()).expect("it");
        assert!(pdf[at..].starts_with(b"xref"));
    }

    #[test]
    fn a_text_ends_where_it_is_to_end() {
        let mut drawing = Drawing { width: 100.0, height: 50.0, ..Drawing::default() };
        // Three digits of 556 thousandths of 10.
        drawing.text((50.0, 10.0), Anchor::End, 10.0, Ink::Text, "123");
        assert!(String::from_utf8_lossy(&drawing.pdf()).contains("33.32 40.00 Td (123)"));
    }
}
