//! [`Drawing::pgf`]: a figure as a `pgfpicture` for LaTeX. Its text is set in the font of the document.

use std::collections::BTreeMap;

use crate::drawing::{Anchor, Drawing, OPACITY, Shape, corners, push};

impl Drawing {
    /// Formats the drawing as a `pgfpicture`, which a document inserts by `\input` after `\usepackage{pgf}`.
    pub fn pgf(&self) -> String {
        let mut pgf = format!(
            "% \\input this in a document with \\usepackage{{pgf}}.\n\\begingroup\n\\makeatletter\n\\begin{{pgfpicture}}\n\
             \\pgfpathrectangle{{\\pgfpointorigin}}{{\\pgfqpoint{{{:.2}bp}}{{{:.2}bp}}}}\n\
             \\pgfusepath{{use as bounding box}}\n\\pgfsetroundjoin\n",
            self.width, self.height
        );
        // Each colour is defined once.
        let mut colours: BTreeMap<[u8; 3], String> = BTreeMap::new();
        for shape in &self.shapes {
            let rgb = shape.ink().rgb(self.finish.grey);
            let next = colours.len();
            let name = colours.entry(rgb).or_insert_with(|| {
                let name = format!("tidegate{next}");
                push(&mut pgf, format_args!("\\definecolor{{{name}}}{{RGB}}{{{},{},{}}}\n", rgb[0], rgb[1], rgb[2]));
                name
            });
            let name = name.clone();
            self.shape(shape, &name, &mut pgf);
        }
        pgf.push_str("\\end{pgfpicture}\n\\makeatother\n\\endgroup\n");
        pgf
    }

    fn shape(&self, shape: &Shape, colour: &str, pgf: &mut String) {
        match shape {
            Shape::Rectangle { x, y, width, height, .. } => {
                self.pgf_path(&[(*x, *y), (x + width, *y), (x + width, y + height), (*x, y + height)], true, pgf);
                push(pgf, format_args!("\\pgfsetfillcolor{{{colour}}}\\pgfusepath{{fill}}\n"));
            }
            Shape::Area { outline, .. } => {
                push(pgf, format_args!("\\pgfsetfillopacity{{{OPACITY}}}"));
                self.pgf_path(outline, true, pgf);
                push(pgf, format_args!("\\pgfsetfillcolor{{{colour}}}\\pgfusepath{{fill}}\\pgfsetfillopacity{{1}}\n"));
            }
            Shape::Lines { lines, width, dash, .. } => {
                let lengths: Vec<String> =
                    dash.iter().map(|length| format!("{{{:.2}bp}}", f64::from(*length) * width / 1.8)).collect();
                push(
                    pgf,
                    format_args!(
                        "\\pgfsetdash{{{}}}{{0bp}}\\pgfsetlinewidth{{{width:.2}bp}}\\pgfsetstrokecolor{{{colour}}}\n",
                        lengths.concat()
                    ),
                );
                for line in lines.iter().filter(|line| line.len() > 1) {
                    self.pgf_path(line, false, pgf);
                }
                pgf.push_str("\\pgfusepath{stroke}\n");
            }
            Shape::Marks { points, radius, mark, .. } => {
                push(pgf, format_args!("\\pgfsetfillcolor{{{colour}}}\n"));
                for &(x, y) in points {
                    match corners(*mark, (x, y), *radius) {
                        Some(outline) => self.pgf_path(&outline, true, pgf),
                        None => {
                            let centre = self.pgf_point((x, y));
                            push(pgf, format_args!("\\pgfpathcircle{{{centre}}}{{{radius:.2}bp}}"));
                        }
                    }
                    pgf.push_str("\\pgfusepath{fill}\n");
                }
            }
            // In a wide font a line of a note is as narrow as it has to be. `pgf` loads `graphicx`.
            Shape::Text { x, y, size, text, width: Some(width), .. } => push(
                pgf,
                format_args!(
                    "\\pgftext[x={x:.2}bp,y={:.2}bp,left,base]{{\\setbox0\\hbox{{\\color{{{colour}}}\\fontsize{{{size:.2}bp}}{{{:.2}bp}}\
                     \\selectfont {}}}%\n\\ifdim\\wd0>{width:.2}bp\\resizebox{{{width:.2}bp}}{{\\height}}{{\\box0}}\\else\\box0\\fi}}\n",
                    self.height - y,
                    size * 1.2,
                    latex(text)
                ),
            ),
            Shape::Text { x, y, anchor, size, text, .. } => {
                let side = match anchor {
                    Anchor::Start => "left,base",
                    Anchor::Middle => "base",
                    Anchor::End => "right,base",
                };
                push(
                    pgf,
                    format_args!(
                        "\\pgftext[x={:.2}bp,y={:.2}bp,{side}]{{\\color{{{colour}}}\\fontsize{{{size:.2}bp}}{{{:.2}bp}}\
                         \\selectfont {}}}\n",
                        x,
                        self.height - y,
                        size * 1.2,
                        latex(text)
                    ),
                );
            }
        }
    }

    fn pgf_point(&self, (x, y): (f64, f64)) -> String {
        format!("\\pgfqpoint{{{x:.2}bp}}{{{:.2}bp}}", self.height - y)
    }

    fn pgf_path(&self, points: &[(f64, f64)], closed: bool, pgf: &mut String) {
        for (n, point) in points.iter().enumerate() {
            let step = if n == 0 { "move" } else { "line" };
            // A line of this file has a few points, which keeps it readable for TeX and for people.
            let end = if n % 4 == 3 { "%\n" } else { "" };
            push(pgf, format_args!("\\pgfpath{step}to{{{}}}{end}", self.pgf_point(*point)));
        }
        if closed {
            pgf.push_str("\\pgfpathclose");
        }
    }
}

/// Escapes a text for LaTeX. What others wrote cannot call a command.
pub(crate) fn latex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\textbackslash{}"),
            '{' | '}' | '$' | '&' | '#' | '%' | '_' => out.extend(['\\', character]),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            '|' => out.push_str("\\textbar{}"),
            '"' => out.push_str("''"),
            '\u{b1}' => out.push_str("$\\pm$"),
            '\u{b5}' | '\u{3bc}' => out.push_str("$\\mu$"),
            '\u{d7}' => out.push_str("$\\times$"),
            '\u{2212}' => out.push_str("$-$"),
            '\u{2264}' => out.push_str("$\\leq$"),
            '\u{2265}' => out.push_str("$\\geq$"),
            '\u{2026}' => out.push_str("\\ldots{}"),
            '\u{2013}' => out.push_str("--"),
            '-' if out.ends_with('-') => out.push_str("{}-"),
            character if character.is_control() => out.push(' '),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::Ink;
    use crate::palette::Pen;

    #[test]
    fn a_picture_has_its_size_its_shapes_and_no_commands_of_others() {
        let mut drawing = Drawing { width: 100.0, height: 50.0, ..Drawing::default() };
        drawing.rectangle((10.0, 10.0), 20.0, 10.0, Ink::Curve(0));
        drawing.shapes.push(Shape::Lines {
            lines: vec![vec![(0.0, 50.0), (100.0, 0.0)]],
            width: 0.9,
            ink: Ink::Curve(0),
            dash: &[8, 4],
        });
        drawing.marks(vec![(50.0, 25.0)], 2.0, Pen::default());
        drawing.text((99.0, 20.0), Anchor::End, 8.0, Ink::Text, "50 % of \\input{x} a_b");
        let pgf = drawing.pgf();
        for part in [
            "{\\pgfqpoint{100.00bp}{50.00bp}}\n\\pgfusepath{use as bounding box}",
            // The rectangle is 10 from the top, that is 40 from the bottom.
            "\\pgfpathmoveto{\\pgfqpoint{10.00bp}{40.00bp}}",
            "\\pgfsetdash{{4.00bp}{2.00bp}}{0bp}",
            "\\pgfpathcircle{\\pgfqpoint{50.00bp}{25.00bp}}{2.00bp}",
            "\\pgftext[x=99.00bp,y=30.00bp,right,base]",
            "50 \\% of \\textbackslash{}input\\{x\\} a\\_b",
        ] {
            assert!(pgf.contains(part), "{part} in {pgf}");
        }
        assert_eq!(pgf.matches("\\definecolor").count(), 2, "a colour and black");
        assert_eq!(pgf.matches('{').count(), pgf.matches('}').count(), "{pgf}");
    }

    #[test]
    fn latex_has_no_ligature_and_no_active_character_left() {
        assert_eq!(
            latex("a->b 5 \u{b1} 1 \u{b5}s ~ 30^2"),
            "a-\\textgreater{}b 5 $\\pm$ 1 $\\mu$s \\textasciitilde{} 30\\textasciicircum{}2"
        );
        assert_eq!(latex("--"), "-{}-");
    }
}
