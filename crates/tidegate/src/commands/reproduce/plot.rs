//! [`Plot`]: curves on logarithmic axes, as SVG without fonts or libraries.

use std::fmt::Write as _;
use std::path::Path;

use crate::Failure;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 55.0;

/// Told apart also without colour: every other curve is dashed.
const COLOURS: [&str; 7] = ["#1b6ca8", "#c8442a", "#2f8f4e", "#8a4fa3", "#b07d12", "#3a3a3a", "#d1588f"];

/// Curves of positive values on two logarithmic axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Its caption.
    pub title: String,
    /// What the horizontal axis shows, with the unit.
    pub x: String,
    /// What the vertical axis shows, with the unit.
    pub y: String,
    /// Names and points; points that are not positive are left out.
    pub curves: Vec<(String, Vec<(f64, f64)>)>,
}

/// The powers of ten around what `values` hold.
fn decades(values: impl Iterator<Item = f64>) -> (i32, i32) {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return (0, 1);
    }
    let (low, high) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    (low, high.max(low + 1))
}

impl Plot {
    /// The plot as SVG.
    pub fn svg(&self) -> String {
        let positive = |(x, y): &(f64, f64)| *x > 0.0 && *y > 0.0;
        let points = || self.curves.iter().flat_map(|(_, points)| points.iter().filter(|p| positive(p)));
        let (x0, x1) = decades(points().map(|point| point.0));
        let (y0, y1) = decades(points().map(|point| point.1));
        let at_x = |x: f64| LEFT + (x.log10() - f64::from(x0)) / f64::from(x1 - x0) * (WIDTH - LEFT - RIGHT);
        let at_y =
            |y: f64| HEIGHT - BOTTOM - (y.log10() - f64::from(y0)) / f64::from(y1 - y0) * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        );
        let mut text = |x: f64, y: f64, anchor: &str, text: &str| {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>")
        };
        // Writing to a string cannot fail.
        let mut ok = text(LEFT, 24.0, "start", &self.title);
        ok = ok.and(text((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0, "middle", &self.x));
        ok = ok.and(text(LEFT - 55.0, TOP - 6.0, "start", &self.y));
        let number = |power: i32| format!("{}", 10_f64.powi(power));
        for power in x0..=x1 {
            ok = ok.and(text(at_x(10_f64.powi(power)), HEIGHT - BOTTOM + 18.0, "middle", &number(power)));
        }
        for power in y0..=y1 {
            ok = ok.and(text(LEFT - 8.0, at_y(10_f64.powi(power)) + 4.0, "end", &number(power)));
        }
        for (n, (name, _)) in self.curves.iter().enumerate() {
            ok = ok.and(text(WIDTH - RIGHT + 44.0, TOP + 14.0 + 20.0 * n as f64, "start", name));
        }
        for power in x0..=x1 {
            let x = at_x(10_f64.powi(power));
            ok = ok.and(writeln!(svg, "<path d=\"M{x:.1},{TOP}V{:.1}\" stroke=\"#ddd\"/>", HEIGHT - BOTTOM));
        }
        for power in y0..=y1 {
            let y = at_y(10_f64.powi(power));
            ok = ok.and(writeln!(svg, "<path d=\"M{LEFT},{y:.1}H{:.1}\" stroke=\"#ddd\"/>", WIDTH - RIGHT));
        }
        for (n, (_, points)) in self.curves.iter().enumerate() {
            let style = format!(
                "fill=\"none\" stroke-width=\"1.8\" stroke=\"{}\"{}",
                COLOURS[n % COLOURS.len()],
                if n % 2 == 1 { " stroke-dasharray=\"6 3\"" } else { "" }
            );
            let mut path = String::new();
            for (x, y) in points.iter().filter(|point| positive(point)) {
                let command = if path.is_empty() { 'M' } else { 'L' };
                ok = ok.and(write!(path, "{command}{:.1},{:.1}", at_x(*x), at_y(*y)));
            }
            ok = ok.and(writeln!(svg, "<path d=\"{path}\" {style}/>"));
            let y = TOP + 10.0 + 20.0 * n as f64;
            let x = WIDTH - RIGHT + 10.0;
            ok = ok.and(writeln!(svg, "<path d=\"M{x:.1},{y:.1}h28\" {style}/>"));
        }
        debug_assert!(ok.is_ok());
        svg.push_str("</svg>\n");
        svg
    }

    /// Writes the plot as `name`.svg into `folder`, which is made if need be.
    pub fn write(&self, folder: &Path, name: &str) -> Result<(), Failure> {
        let path = folder.join(format!("{name}.svg"));
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, self.svg()))
            .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_curves_its_decades_and_no_markup_of_others() {
        let plot = Plot {
            title: "a < b & c".into(),
            x: "s".into(),
            y: "share".into(),
            curves: vec![("one".into(), vec![(0.02, 1.0), (3.0, 0.1), (5.0, 0.0)]), ("two".into(), vec![])],
        };
        let svg = plot.svg();
        assert!(svg.contains("a &lt; b &amp; c"));
        // 0.02 to 3 needs 0.01 to 10, and 0.1 to 1 one decade; the point at zero is left out.
        for label in [">0.01<", ">0.1<", ">1<", ">10<"] {
            assert!(svg.contains(label), "{label}");
        }
        // 0.02 is log10(2) / 3 = 0.1003 of the way of 660 pixels from 70: 136.2; the share of 1 is at the top.
        assert!(svg.contains("M136.2,40.0L"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
