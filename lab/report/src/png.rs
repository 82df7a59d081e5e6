//! [`Drawing::png`]: a figure as PNG, rendered from its SVG with the font of the crate.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

use crate::drawing::{Drawing, Shape};
use crate::font;

/// The maximum number of pixels. Rendering that many takes 256 MB.
const MOST: f64 = 64e6;

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(font::FILE.to_vec());
    fonts.set_sans_serif_family("Roboto");
    Arc::new(fonts)
});

impl Drawing {
    /// Renders the drawing as PNG on white, with `scale` pixels per point, such as 2 for a page and 4 for print.
    ///
    /// # Errors
    /// If the picture would have more than 64 million pixels.
    pub fn png(&self, scale: f64) -> Result<Vec<u8>, String> {
        let (width, height) = ((self.width * scale).ceil(), (self.height * scale).ceil());
        let large =
            || format!("a picture of {width:.0} by {height:.0} pixels is too large; write the figure as SVG or PDF");
        if width * height > MOST {
            return Err(large());
        }
        // Round joins avoid spikes where a curve turns back.
        let style_sheet = Some("path { stroke-linejoin: round }".to_owned());
        let options = Options { fontdb: Arc::clone(&FONTS), style_sheet, ..Options::default() };
        let mut drawing = self.clone();
        for shape in &mut drawing.shapes {
            if let Shape::Text { text, .. } = shape {
                *text = font::spelled(text);
            }
        }
        let tree = Tree::from_str(&drawing.svg(), &options).map_err(|error| error.to_string())?;
        let mut pixels = Pixmap::new(width as u32, height as u32).ok_or_else(large)?;
        // A figure on paper states its size in points, which are pixels of 1/96 inch in the tree.
        let (x, y) = (width as f32 / tree.size().width(), height as f32 / tree.size().height());
        resvg::render(&tree, Transform::from_scale(x, y), &mut pixels.as_mut());
        pixels.encode_png().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::{Anchor, Ink};

    #[test]
    fn shapes_are_where_they_are_in_the_drawing() {
        let mut drawing = Drawing { width: 100.0, height: 50.0, ..Drawing::default() };
        drawing.rectangle((10.0, 10.0), 20.0, 10.0, Ink::Text);
        drawing
            .shapes
            .push(Shape::Area { outline: vec![(50.0, 0.0), (60.0, 0.0), (60.0, 50.0), (50.0, 50.0)], ink: Ink::Text });
        drawing.shapes.push(Shape::Marks { points: vec![(80.0, 40.0)], radius: 4.0, ink: Ink::Curve(0), mark: 2 });
        drawing.text((99.0, 20.0), Anchor::End, 12.0, Ink::Text, "MMM");
        let pixels = Pixmap::decode_png(&drawing.png(2.0).expect("a picture")).expect("a PNG");
        assert_eq!((pixels.width(), pixels.height()), (200, 100));
        let at = |x: u32, y: u32| pixels.pixel(x, y).map(|pixel| [pixel.red(), pixel.green(), pixel.blue()]);
        assert_eq!((at(40, 30), at(16, 30)), (Some([0; 3]), Some([255; 3])), "a rectangle, and what is left of it");
        let grey = at(110, 50).expect("a pixel")[0];
        assert!((190..210).contains(&grey), "an area of 22 %: {grey}");
        assert_eq!(at(160, 80), Some(Ink::Curve(0).rgb(false)), "a mark");
        // There is text before the anchor, and none behind it.
        let dark = |range: std::ops::Range<u32>| {
            range.flat_map(|x| (20..44).map(move |y| (x, y))).any(|(x, y)| at(x, y).is_some_and(|c| c[0] < 100))
        };
        assert!(dark(130..198) && !dark(199..200));
        // An arrow, which the font lacks, is written as PDF has it.
        let arrow = |text: &str| {
            let mut drawing = Drawing { width: 40.0, height: 20.0, ..Drawing::default() };
            drawing.text((2.0, 15.0), Anchor::Start, 12.0, Ink::Text, text);
            drawing.png(1.0).expect("a picture")
        };
        assert!(arrow("\u{2192}") == arrow("->") && arrow("->") != arrow(" "));
        // A drawing that states its size on paper is as large.
        let finish = crate::drawing::Finish { on_paper: true, ..drawing.finish };
        let paper = Pixmap::decode_png(&Drawing { finish, ..drawing.clone() }.png(2.0).expect("a picture"));
        assert_eq!(paper.expect("a PNG").pixel(40, 30), pixels.pixel(40, 30));
        assert!(Drawing { width: 9e4, height: 9e4, ..Drawing::default() }.png(1.0).is_err());
    }
}
