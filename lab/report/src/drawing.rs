//! A figure as shapes, and its output as SVG. The modules [`pdf`](crate::pdf) and [`png`](crate::png) have the other
//! formats.

use std::fmt::Write as _;

use crate::palette::{self, Pen};
use tidegate_display::escape;

/// A figure: its size, and its shapes from back to front. Positions are in points (1/72 inch) from the upper left.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Drawing {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// A description for readers who cannot see the drawing.
    pub(crate) title: String,
    pub(crate) shapes: Vec<Shape>,
}

/// A colour, named by its use, so that an SVG on a page can take the colours of the reader's theme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ink {
    Text,
    Muted,
    Grid,
    Ground,
    /// The colour of curves with this index.
    Curve(usize),
}

impl Ink {
    pub(crate) const fn hex(self) -> &'static str {
        match self {
            Self::Text => "#000000",
            Self::Muted => "#5a6270",
            Self::Grid => "#dddddd",
            Self::Ground => palette::LIGHT_GROUND,
            Self::Curve(index) => palette::LIGHT[index % palette::LIGHT.len()],
        }
    }
    /// Red, green and blue, from 0 to 255.
    pub(crate) fn rgb(self) -> [u8; 3] {
        [1, 3, 5].map(|at| u8::from_str_radix(&self.hex()[at..at + 2], 16).unwrap_or(0))
    }
    /// The CSS variable of the page's theme.
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

/// The alignment of a text relative to its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    /// The x at which a text of this width begins.
    pub(crate) fn begin(self, x: f64, width: f64) -> f64 {
        match self {
            Self::Start => x,
            Self::Middle => x - width / 2.0,
            Self::End => x - width,
        }
    }
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
    /// Open polylines drawn with one pen.
    Lines {
        lines: Vec<Vec<(f64, f64)>>,
        width: f64,
        ink: Ink,
        dash: &'static [u32],
    },
    /// A translucent area.
    Area {
        outline: Vec<(f64, f64)>,
        ink: Ink,
    },
    /// A mark of this radius at each point. The pen determines its shape.
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

/// The opacity of an area.
pub(crate) const OPACITY: f64 = 0.22;

/// The corners of a mark around its centre, or `None` if the mark is a circle.
pub(crate) fn corners(pen: Pen, (x, y): (f64, f64), r: f64) -> Option<Vec<(f64, f64)>> {
    Some(match pen.dash % 4 {
        0 => return None,
        1 => vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
        2 => vec![(x, y - 1.3 * r), (x + 1.2 * r, y + r), (x - 1.2 * r, y + r)],
        _ => vec![(x, y - 1.4 * r), (x + 1.4 * r, y), (x, y + 1.4 * r), (x - 1.4 * r, y)],
    })
}

pub(crate) fn push(to: &mut String, text: std::fmt::Arguments<'_>) {
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

    /// Appends the shapes of `other` below the present ones.
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
                Shape::Area { outline: points, .. } | Shape::Marks { points, .. } => {
                    points.iter_mut().for_each(|point| point.1 += by);
                }
            }
            shape
        }));
    }

    /// Formats the drawing as SVG on a white background.
    pub fn svg(&self) -> String {
        self.svg_in(|ink| ink.hex().to_owned())
    }
    /// Formats the drawing as SVG in the colours of a page's theme.
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
            shape.write_svg(&colour, &mut svg);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl Shape {
    fn write_svg(&self, colour: &impl Fn(Ink) -> String, svg: &mut String) {
        match self {
            Shape::Rectangle { x, y, width, height, ink } => push(
                svg,
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
                    svg,
                    format_args!(
                        "<path d=\"{path}\" fill=\"none\" stroke-width=\"{width}\" stroke=\"{}\"{dash}/>\n",
                        colour(*ink)
                    ),
                );
            }
            Shape::Area { outline, ink } => {
                let corners: Vec<String> = outline.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
                push(
                    svg,
                    format_args!(
                        "<path d=\"M{}Z\" fill=\"{}\" fill-opacity=\"{OPACITY}\"/>\n",
                        corners.join("L"),
                        colour(*ink)
                    ),
                );
            }
            Shape::Marks { points, radius, pen } => {
                push(svg, format_args!("<g fill=\"{}\">", colour(Ink::Curve(pen.colour))));
                for &(x, y) in points {
                    match corners(*pen, (x, y), *radius) {
                        None => push(svg, format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"/>")),
                        Some(corners) => {
                            let corners = corners.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
                            let corners: Vec<String> = corners.collect();
                            push(svg, format_args!("<path d=\"M{}Z\"/>", corners.join("L")));
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
                    svg,
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
}

#[cfg(test)]
impl Drawing {
    /// Returns the texts that exceed the drawing or overlap each other.
    pub(crate) fn misplaced(&self) -> Vec<String> {
        let mut texts: Vec<(&str, [f64; 4])> = Vec::new();
        let mut found = Vec::new();
        for shape in &self.shapes {
            let Shape::Text { x, y, anchor, size, text, .. } = shape else { continue };
            let width = crate::font::room(text, *size);
            let begin = anchor.begin(*x, width);
            let own = [begin, y - size * 0.75, begin + width, *y];
            if own[0] < 0.0 || own[1] < 0.0 || own[2] > self.width || own[3] > self.height {
                found.push(format!("{text} is outside"));
            }
            let over = |[left, top, right, bottom]: &[f64; 4]| {
                right.min(own[2]) - left.max(own[0]) > 1.0 && bottom.min(own[3]) - top.max(own[1]) > 1.0
            };
            found.extend(
                texts.iter().filter(|(_, other)| over(other)).map(|(other, _)| format!("{text} is over {other}")),
            );
            texts.push((text, own));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misplaced_texts_are_found() {
        let mut drawing = Drawing { width: 100.0, height: 50.0, ..Drawing::default() };
        drawing.text((10.0, 20.0), Anchor::Start, 10.0, Ink::Text, "good");
        assert_eq!(drawing.misplaced(), Vec::<String>::new());
        drawing.text((15.0, 24.0), Anchor::Start, 10.0, Ink::Text, "over");
        drawing.text((5.0, 40.0), Anchor::End, 10.0, Ink::Text, "outside");
        assert_eq!(drawing.misplaced(), ["over is over good", "outside is outside"]);
    }

    #[test]
    fn what_is_appended_is_below() {
        let mut drawing = Drawing { width: 10.0, height: 20.0, ..Drawing::default() };
        let mut other = Drawing { width: 30.0, height: 5.0, ..Drawing::default() };
        other.line((0.0, 1.0), (30.0, 1.0), 1.0, Ink::Text);
        drawing.append(other);
        assert_eq!((drawing.width, drawing.height), (30.0, 25.0));
        assert!(drawing.svg().contains("M0.0,21.0L30.0,21.0"), "{}", drawing.svg());
    }
}
