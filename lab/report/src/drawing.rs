//! A figure as shapes, and its output as SVG. The modules [`pdf`](crate::pdf), [`png`](crate::png) and
//! [`tikz`](crate::tikz) have the other formats.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use crate::font::{advance, fitted, room};
use crate::palette::{self, Pen};
use tidegate_display::escape;

/// A figure: its size, and its shapes from back to front. Positions are in points of TeX (1/72.27 inch) from
/// the upper left.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Drawing {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// A description for readers who cannot see the drawing.
    pub(crate) title: String,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) finish: Finish,
    /// The number of curves of its fullest plot.
    pub(crate) curves: usize,
    /// The text that its look leaves to a caption, of those that would be below it; empty if it is there.
    pub(crate) left_out: String,
}

/// The parts of a [`Look`](crate::Look) that matter when shapes are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Finish {
    pub(crate) grey: bool,
    pub(crate) on_paper: bool,
}

/// A point of TeX in points of PDF and SVG: 72.27 and 72 are an inch.
pub(crate) const POINT: f64 = 72.0 / 72.27;

/// The format of a figure as a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Scalable Vector Graphics.
    Svg,
    /// Portable Document Format, with the font.
    Pdf,
    /// A picture of pixels.
    Png,
    /// A `pgfpicture` for LaTeX, with text in the font of the document.
    Pgf,
}

impl Format {
    /// The ending of the names of its files.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Pdf => "pdf",
            Self::Png => "png",
            Self::Pgf => "pgf",
        }
    }
    /// The format by the ending of a file's name.
    ///
    /// # Errors
    /// If it is none of these, or one without which this was built, with those that are there.
    pub fn of(path: &Path) -> Result<Self, String> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("svg") => Ok(Self::Svg),
            Some("pdf") => Ok(Self::Pdf),
            Some("png") if cfg!(feature = "png") => Ok(Self::Png),
            Some("png") => {
                Err("this program was built without PNG; write the figure as .svg, .pdf, .pgf or .tikz".into())
            }
            Some("pgf" | "tikz") => Ok(Self::Pgf),
            _ => Err("the name of the file of a figure must end in .svg, .pdf, .png, .pgf or .tikz".into()),
        }
    }
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
    /// The colour of the bar of a curve with this index. Only its grey is another one.
    Bar(usize),
    /// A shade between the ground, 0, and a dark blue, 255, for the cells of a heat map.
    Shade(u8),
    /// A shade of a ratio: between a dark orange, -127, the ground at 0, and a dark blue, 127.
    Diverging(i8),
}

/// The greys of the curves of a figure, of which the first five are far apart. All have a contrast of at least 3:1 against white. A
/// colour has no grey of its own: two that a figure has could then be alike, and dashes and marks are the same in all figures.
pub(crate) const GREYS: [u8; 8] = [0x00, 0x94, 0x49, 0x6d, 0x26, 0x80, 0x5a, 0x38];
/// The grey of each bar: eight steps of equal lightness (L* 0, 13, ..., 91), with neighbours far apart. Bars have an outline, so that
/// they may be lighter than lines.
pub(crate) const BAR_GREYS: [u8; 8] = [0x00, 0x7c, 0x3e, 0xc1, 0x22, 0x9e, 0x5c, 0xe5];
/// The ends of the shades of a heat map; their lightness decreases evenly, so that it can be printed in grey.
const SHADES: [[f64; 3]; 2] = [[247.0, 251.0, 255.0], [8.0, 48.0, 107.0]];
/// The dark end of the shades of ratios below 1. Those who do not tell red from green tell orange from blue.
const BELOW: [f64; 3] = [127.0, 59.0, 8.0];

impl Ink {
    /// Red, green and blue, from 0 to 255.
    pub(crate) fn rgb(self, grey: bool) -> [u8; 3] {
        let hex = match self {
            Self::Text => "#000000",
            Self::Muted => "#5a6270",
            Self::Grid => "#dddddd",
            Self::Ground => palette::LIGHT_GROUND,
            Self::Curve(index) if grey => return [GREYS[index % GREYS.len()]; 3],
            Self::Bar(index) if grey => return [BAR_GREYS[index % BAR_GREYS.len()]; 3],
            Self::Curve(index) | Self::Bar(index) => palette::LIGHT[index % palette::LIGHT.len()],
            Self::Shade(depth) => {
                let part = f64::from(depth) / 255.0;
                if grey {
                    return [(255.0 - 215.0 * part).round() as u8; 3];
                }
                return [0, 1, 2].map(|n| (SHADES[0][n] + (SHADES[1][n] - SHADES[0][n]) * part).round() as u8);
            }
            Self::Diverging(depth) => {
                let part = f64::from(depth) / 127.0;
                if grey {
                    // Two dark ends would be alike: in grey the least is light.
                    return [(147.5 - 107.5 * part).round() as u8; 3];
                }
                let (end, part) = if part < 0.0 { (BELOW, -part) } else { (SHADES[1], part) };
                return [0, 1, 2].map(|n| (SHADES[0][n] + (end[n] - SHADES[0][n]) * part).round() as u8);
            }
        };
        let rgb = [1, 3, 5].map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap_or(0));
        let light = rgb.map(f64::from);
        match grey {
            true => [(0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2]).round() as u8; 3],
            false => rgb,
        }
    }
    /// Whether light type is read better on this ink than dark type.
    pub(crate) fn is_dark(self, grey: bool) -> bool {
        let [r, g, b] = self.rgb(grey).map(f64::from);
        0.2126 * r + 0.7152 * g + 0.0722 * b < 140.0
    }
    /// The colour in hexadecimal digits, for SVG.
    fn hex(self, grey: bool) -> String {
        let [r, g, b] = self.rgb(grey);
        format!("#{r:02x}{g:02x}{b:02x}")
    }
    /// The CSS variable of the page's theme.
    fn variable(self) -> String {
        match self {
            Self::Text => "var(--tg-ink)".into(),
            Self::Muted => "var(--tg-muted)".into(),
            Self::Grid => "var(--tg-grid)".into(),
            Self::Ground => "var(--tg-surface)".into(),
            Self::Curve(index) | Self::Bar(index) => format!("var(--tg-c{})", index % palette::LIGHT.len() + 1),
            Self::Shade(_) | Self::Diverging(_) => self.hex(false),
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
    /// A mark of this radius and this [shape](corners) at each point.
    Marks {
        points: Vec<(f64, f64)>,
        radius: f64,
        ink: Ink,
        mark: usize,
    },
    Text {
        x: f64,
        y: f64,
        anchor: Anchor,
        size: f64,
        ink: Ink,
        text: String,
        /// The width that it may have in the font of a document, if its line was broken for this width.
        most: Option<f64>,
    },
}

impl Shape {
    /// The colour.
    pub(crate) fn ink(&self) -> Ink {
        match self {
            Self::Rectangle { ink, .. }
            | Self::Lines { ink, .. }
            | Self::Area { ink, .. }
            | Self::Marks { ink, .. }
            | Self::Text { ink, .. } => *ink,
        }
    }
    fn ink_mut(&mut self) -> &mut Ink {
        match self {
            Self::Rectangle { ink, .. }
            | Self::Lines { ink, .. }
            | Self::Area { ink, .. }
            | Self::Marks { ink, .. }
            | Self::Text { ink, .. } => ink,
        }
    }
    /// The colour of curves that it has.
    fn curve(&self) -> Option<usize> {
        match self.ink() {
            Ink::Curve(index) => Some(index),
            _ => None,
        }
    }
}

/// The opacity of an area.
pub(crate) const OPACITY: f64 = 0.22;

/// The outlines of marks around their centre, for a radius of 1; none for a circle. From the fifth on they are hollow, or
/// consist of strokes.
const OUTLINES: [&[(f64, f64)]; 8] = [
    &[],
    &[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
    &[(0.0, -1.3), (1.2, 1.0), (-1.2, 1.0)],
    &[(0.0, -1.4), (1.4, 0.0), (0.0, 1.4), (-1.4, 0.0)],
    &[],
    &[
        (-1.25, -0.85),
        (-0.85, -1.25),
        (0.0, -0.4),
        (0.85, -1.25),
        (1.25, -0.85),
        (0.4, 0.0),
        (1.25, 0.85),
        (0.85, 1.25),
        (0.0, 0.4),
        (-0.85, 1.25),
        (-1.25, 0.85),
        (-0.4, 0.0),
    ],
    &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    &[(0.0, 1.3), (1.2, -0.9), (-1.2, -0.9)],
];
/// The shapes whose inside has the colour of the ground.
const HOLLOW: [usize; 3] = [4, 6, 7];

/// The corners of a mark around its centre, or `None` if the mark is a circle.
pub(crate) fn corners(mark: usize, (x, y): (f64, f64), r: f64) -> Option<Vec<(f64, f64)>> {
    let outline = OUTLINES[mark % OUTLINES.len()];
    (!outline.is_empty()).then(|| outline.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect())
}

pub(crate) fn push(to: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = to.write_fmt(text);
}

/// Rounds a length to hundredths.
fn short(length: f64) -> f64 {
    (length * 100.0).round() / 100.0
}

/// The height of the text of a page, in points: nine inches.
const PAGE: f64 = 9.0 * 72.27;

impl Drawing {
    /// The height in points, if it is a figure of a paper and longer than a page of one.
    pub fn beyond_page(&self) -> Option<f64> {
        (self.finish.on_paper && self.height > PAGE).then_some(self.height)
    }
    /// The number of curves of one plot, if they are more than can be told apart by their dashes and marks.
    pub fn crowded(&self) -> Option<usize> {
        (self.curves > palette::DASHES.len()).then_some(self.curves)
    }
    pub(crate) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: f64, ink: Ink, text: impl Into<String>) {
        self.shapes.push(Shape::Text { x, y, anchor, size, ink, text: text.into(), most: None });
    }
    /// Writes the title of an axis, moved inwards where it would end outside, and without its middle where it is wider than the figure.
    pub(crate) fn title_of_axis(&mut self, (x, y): (f64, f64), anchor: Anchor, size: f64, title: &str) {
        let edge = 0.4 * size;
        // A reader's font may be wider; that is no reason to leave out words that most readers see.
        let (most, wide) = (self.width - 2.0 * edge, title.chars().map(advance).sum::<f64>() * size / 1000.0);
        let (title, wide) = match wide > most {
            true => (fitted(title, size, most), most),
            false => (title.to_owned(), wide),
        };
        let begin = anchor.begin(x, wide);
        let inside = begin.min(self.width - edge - wide).max(edge);
        self.text((x + inside - begin, y), anchor, size, Ink::Text, title);
    }
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), width: f64, ink: Ink) {
        self.shapes.push(Shape::Lines { lines: vec![vec![from, to]], width, ink, dash: &[] });
    }
    /// Draws a mark of this radius at each point in the shape and the colour of a pen.
    pub(crate) fn marks(&mut self, points: Vec<(f64, f64)>, radius: f64, pen: Pen) {
        let (ink, mark) = (Ink::Curve(pen.colour), pen.dash % OUTLINES.len());
        let inner = HOLLOW.contains(&mark).then(|| points.clone());
        self.shapes.push(Shape::Marks { points, radius, ink, mark });
        if let Some(points) = inner {
            self.shapes.push(Shape::Marks { points, radius: radius * 0.5, ink: Ink::Ground, mark });
        }
    }
    /// Writes lines of less important text below `y`.
    /// The text that belongs into the caption, because its look leaves it out below the drawing: what lines and bands are, of how many
    /// runs, and what marks mean. `None` if it is there, or there is none.
    pub fn left_out(&self) -> Option<&str> {
        Some(self.left_out.as_str()).filter(|text| !text.is_empty())
    }
    pub(crate) fn note(&mut self, lines: &[String], (x, y): (f64, f64), size: f64) {
        for (n, line) in lines.iter().enumerate() {
            let (y, most) = (y + size * 1.3 * (n + 1) as f64, Some(room(line, size)));
            let (anchor, text) = (Anchor::Start, line.clone());
            self.shapes.push(Shape::Text { x, y, anchor, size, ink: Ink::Muted, text, most });
        }
    }
    pub(crate) fn rectangle(&mut self, (x, y): (f64, f64), width: f64, height: f64, ink: Ink) {
        self.shapes.push(Shape::Rectangle { x, y, width, height, ink });
    }
    /// Draws a fine line around a rectangle, which may be as light as the ground.
    pub(crate) fn outline(&mut self, (x, y): (f64, f64), width: f64, height: f64) {
        let edge = vec![(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)];
        self.shapes.push(Shape::Lines { lines: vec![edge], width: 0.5, ink: Ink::Muted, dash: &[] });
    }

    /// Appends the shapes of `other` below the present ones.
    pub(crate) fn append(&mut self, other: Self) {
        let by = self.height;
        self.width = self.width.max(other.width);
        self.height += other.height;
        self.curves = self.curves.max(other.curves);
        if self.shapes.is_empty() {
            (self.title, self.finish) = (other.title, other.finish);
        }
        // Plots below each other mostly leave out the same.
        if !self.left_out.contains(&other.left_out) {
            let between = if self.left_out.is_empty() { "" } else { " " };
            self.left_out += &format!("{between}{}", other.left_out);
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
        self.with_greys().svg_in(|ink| ink.hex(self.finish.grey))
    }
    /// The drawing with the colours of its curves numbered from 0 if it is grey, so that few have greys that are far apart.
    pub(crate) fn with_greys(&self) -> Self {
        let mut grey = self.clone();
        let used: BTreeSet<usize> = self.shapes.iter().filter_map(|shape| shape.curve()).collect();
        let rank = |index: usize| used.iter().position(|known| *known == index).unwrap_or(0);
        for ink in grey.shapes.iter_mut().map(Shape::ink_mut).filter(|_| self.finish.grey) {
            if let Ink::Curve(index) = ink {
                *index = rank(*index);
            }
        }
        grey
    }
    /// Formats the drawing as a file.
    ///
    /// # Errors
    /// If the picture is too large.
    pub fn bytes(&self, format: Format) -> Result<Vec<u8>, String> {
        match format {
            Format::Svg => Ok(self.svg().into_bytes()),
            Format::Pdf => Ok(self.with_greys().pdf()),
            // On paper 300 pixels to the inch are usual; pages have two to the point.
            #[cfg(feature = "png")]
            Format::Png => self.png(if self.finish.on_paper { 300.0 / 72.27 } else { 2.0 }),
            #[cfg(not(feature = "png"))]
            Format::Png => Err("this program was built without PNG".into()),
            Format::Pgf => Ok(self.with_greys().pgf().into_bytes()),
        }
    }
    /// Formats the drawing as SVG in the colours of a page's theme.
    pub(crate) fn svg_of_page(&self) -> String {
        self.svg_in(Ink::variable)
    }

    fn svg_in(&self, colour: impl Fn(Ink) -> String) -> String {
        let Self { width, height, .. } = self;
        let (size, digits) = match self.finish.on_paper {
            true => {
                let [width, height] = [width, height].map(|length| length * POINT);
                (format!(" width=\"{width:.2}pt\" height=\"{height:.2}pt\""), 2)
            }
            false => (String::new(), 1),
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\"{size} viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             role=\"img\">\n<title>{}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n",
            escape(&self.title),
            colour(Ink::Ground),
        );
        for shape in &self.shapes {
            shape.write_svg(&colour, digits, &mut svg);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl Shape {
    fn write_svg(&self, colour: &impl Fn(Ink) -> String, p: usize, svg: &mut String) {
        match self {
            Shape::Rectangle { x, y, width, height, ink } => push(
                svg,
                format_args!(
                    "<rect x=\"{x:.p$}\" y=\"{y:.p$}\" width=\"{width:.p$}\" height=\"{height:.p$}\" fill=\"{}\"/>\n",
                    colour(*ink)
                ),
            ),
            Shape::Lines { lines, width, ink, dash } => {
                let mut path = String::new();
                for line in lines {
                    for (n, (x, y)) in line.iter().enumerate() {
                        push(&mut path, format_args!("{}{x:.p$},{y:.p$}", if n == 0 { "M" } else { "L" }));
                    }
                }
                // Dashes are given for lines of 1.8 points.
                let scaled = |length: &u32| short(f64::from(*length) * width / 1.8).to_string();
                let dash: Vec<String> = dash.iter().map(scaled).collect();
                let dash = match dash.is_empty() {
                    true => String::new(),
                    false => format!(" stroke-dasharray=\"{}\"", dash.join(" ")),
                };
                push(
                    svg,
                    format_args!(
                        "<path d=\"{path}\" fill=\"none\" stroke-width=\"{}\" stroke=\"{}\"{dash}/>\n",
                        short(*width),
                        colour(*ink)
                    ),
                );
            }
            Shape::Area { outline, ink } => {
                let corners: Vec<String> = outline.iter().map(|(x, y)| format!("{x:.p$},{y:.p$}")).collect();
                push(
                    svg,
                    format_args!(
                        "<path d=\"M{}Z\" fill=\"{}\" fill-opacity=\"{OPACITY}\"/>\n",
                        corners.join("L"),
                        colour(*ink)
                    ),
                );
            }
            Shape::Marks { points, radius, ink, mark } => {
                push(svg, format_args!("<g fill=\"{}\">", colour(*ink)));
                for &(x, y) in points {
                    match corners(*mark, (x, y), *radius) {
                        None => push(svg, format_args!("<circle cx=\"{x:.p$}\" cy=\"{y:.p$}\" r=\"{radius:.p$}\"/>")),
                        Some(corners) => {
                            let corners = corners.iter().map(|(x, y)| format!("{x:.p$},{y:.p$}"));
                            let corners: Vec<String> = corners.collect();
                            push(svg, format_args!("<path d=\"M{}Z\"/>", corners.join("L")));
                        }
                    }
                }
                svg.push_str("</g>\n");
            }
            Shape::Text { x, y, anchor, size, ink, text, .. } => {
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                push(
                    svg,
                    format_args!(
                        "<text x=\"{x:.p$}\" y=\"{y:.p$}\" text-anchor=\"{anchor}\" font-size=\"{}\" \
                         fill=\"{}\">{}</text>\n",
                        short(*size),
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
            let width = room(text, *size);
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
