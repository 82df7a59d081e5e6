//! [`Drawing::png`]: a figure as pixels, with the font of the crate.

use tiny_skia::{Color, FillRule, LineJoin, Paint, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};

use crate::drawing::{Anchor, Drawing, Ink, OPACITY, Shape, corners};
use crate::font::{self, Outline};

/// The most pixels of a picture: 256 MB while it is drawn.
const MOST: f64 = 64e6;

impl Outline for PathBuilder {
    fn move_to(&mut self, x: f32, y: f32) {
        self.move_to(x, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.line_to(x, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.quad_to(x1, y1, x, y);
    }
    fn close(&mut self) {
        self.close();
    }
}

fn paint(ink: Ink, opacity: f64) -> Paint<'static> {
    let [r, g, b] = ink.rgb();
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(r, g, b, (opacity * 255.0).round() as u8);
    paint
}

/// A path along `lines`, closed or not.
fn path<'a>(lines: impl IntoIterator<Item = &'a [(f64, f64)]>, closed: bool) -> PathBuilder {
    let mut path = PathBuilder::new();
    for line in lines {
        for (n, (x, y)) in line.iter().enumerate() {
            let (x, y) = (*x as f32, *y as f32);
            if n == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
        }
        if closed {
            path.close();
        }
    }
    path
}

impl Drawing {
    /// Formats it as PNG on white with `scale` pixels a point: 2 for a page, 4 for print.
    ///
    /// # Errors
    /// The picture would have more than 64 million pixels.
    pub fn png(&self, scale: f64) -> Result<Vec<u8>, String> {
        let (width, height) = ((self.width * scale).ceil(), (self.height * scale).ceil());
        let large =
            || format!("a picture of {width:.0} by {height:.0} pixels is too large; write the figure as SVG or PDF");
        if width * height > MOST {
            return Err(large());
        }
        let mut pixels = Pixmap::new(width as u32, height as u32).ok_or_else(large)?;
        pixels.fill(Color::WHITE);
        let to_pixels = Transform::from_scale(scale as f32, scale as f32);
        let fill = |pixels: &mut Pixmap, path: PathBuilder, ink: Ink, opacity: f64| {
            if let Some(path) = path.finish() {
                pixels.fill_path(&path, &paint(ink, opacity), FillRule::Winding, to_pixels, None);
            }
        };
        for shape in &self.shapes {
            match shape {
                Shape::Rectangle { x, y, width, height, ink } => {
                    let (right, bottom) = (x + width, y + height);
                    let corners = [(*x, *y), (right, *y), (right, bottom), (*x, bottom)];
                    fill(&mut pixels, path([&corners[..]], true), *ink, 1.0);
                }
                Shape::Area { outline, ink } => fill(&mut pixels, path([&outline[..]], true), *ink, OPACITY),
                Shape::Lines { lines, width, ink, dash } => {
                    let dash = dash.iter().map(|length| *length as f32).collect();
                    let stroke = Stroke {
                        width: *width as f32,
                        line_join: LineJoin::Round,
                        dash: StrokeDash::new(dash, 0.0),
                        ..Stroke::default()
                    };
                    if let Some(path) = path(lines.iter().map(Vec::as_slice), false).finish() {
                        pixels.stroke_path(&path, &paint(*ink, 1.0), &stroke, to_pixels, None);
                    }
                }
                Shape::Marks { points, radius, pen } => {
                    let mut marks = PathBuilder::new();
                    for &(x, y) in points {
                        match corners(*pen, (x, y), *radius) {
                            None => marks.push_circle(x as f32, y as f32, *radius as f32),
                            Some(corners) => {
                                let mark = path([&corners[..]], true).finish();
                                mark.into_iter().for_each(|mark| marks.push_path(&mark));
                            }
                        }
                    }
                    fill(&mut pixels, marks, Ink::Curve(pen.colour), 1.0);
                }
                Shape::Text { x, y, anchor, size, ink, text } => {
                    let mut outline = PathBuilder::new();
                    font::outline(text, (anchor.begin(*x, font::width(text, *size)), *y), *size, &mut outline);
                    fill(&mut pixels, outline, *ink, 1.0);
                }
            }
        }
        pixels.encode_png().map_err(|error| error.to_string())
    }
}

impl Anchor {
    /// Where a text of this width begins.
    pub(crate) fn begin(self, x: f64, width: f64) -> f64 {
        match self {
            Self::Start => x,
            Self::Middle => x - width / 2.0,
            Self::End => x - width,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palette::Pen;

    #[test]
    fn shapes_are_where_they_are_in_the_drawing() {
        let mut drawing = Drawing { width: 100.0, height: 50.0, ..Drawing::default() };
        drawing.rectangle((10.0, 10.0), 20.0, 10.0, Ink::Text);
        drawing
            .shapes
            .push(Shape::Area { outline: vec![(50.0, 0.0), (60.0, 0.0), (60.0, 50.0), (50.0, 50.0)], ink: Ink::Text });
        drawing.shapes.push(Shape::Marks { points: vec![(80.0, 40.0)], radius: 4.0, pen: Pen { colour: 0, dash: 2 } });
        drawing.text((99.0, 20.0), Anchor::End, 12.0, Ink::Text, "MMM");
        let pixels = Pixmap::decode_png(&drawing.png(2.0).expect("a picture")).expect("a PNG");
        assert_eq!((pixels.width(), pixels.height()), (200, 100));
        let at = |x: u32, y: u32| pixels.pixel(x, y).map(|pixel| [pixel.red(), pixel.green(), pixel.blue()]);
        assert_eq!((at(40, 30), at(16, 30)), (Some([0; 3]), Some([255; 3])), "a rectangle, and what is left of it");
        let grey = at(110, 50).expect("a pixel")[0];
        assert!((190..210).contains(&grey), "an area of 22 %: {grey}");
        assert_eq!(at(160, 80), Some(Ink::Curve(0).rgb()), "a mark");
        // Text before its end, and none behind it.
        let dark = |range: std::ops::Range<u32>| {
            range.flat_map(|x| (20..44).map(move |y| (x, y))).any(|(x, y)| at(x, y).is_some_and(|c| c[0] < 100))
        };
        assert!(dark(130..198) && !dark(199..200));
        assert!(Drawing { width: 9e4, height: 9e4, ..Drawing::default() }.png(1.0).is_err());
    }
}
