//! [`Drawing::pgf`]: a figure as a `pgfpicture` for LaTeX. Its text is set in the font of the document, and its lengths are in the
//! points of TeX, as is the width of a column.

use std::collections::BTreeMap;

use crate::drawing::{Anchor, Drawing, OPACITY, Shape, corners, push};

impl Drawing {
    /// Formats the drawing as a `pgfpicture`, which a document inserts by `\input` after `\usepackage{pgf}`.
    pub fn pgf(&self) -> String {
        let mut pgf = format!(
            "% \\input this in a document with \\usepackage{{pgf}}.\n\\begingroup\n\\makeatletter\n\\begin{{pgfpicture}}\n\
             \\pgfpathrectangle{{\\pgfpointorigin}}{{\\pgfqpoint{{{:.2}pt}}{{{:.2}pt}}}}\n\
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
                    dash.iter().map(|length| format!("{{{:.2}pt}}", f64::from(*length) * width / 1.8)).collect();
                push(
                    pgf,
                    format_args!(
                        "\\pgfsetdash{{{}}}{{0pt}}\\pgfsetlinewidth{{{width:.2}pt}}\\pgfsetstrokecolor{{{colour}}}\n",
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
                            push(pgf, format_args!("\\pgfpathcircle{{{centre}}}{{{radius:.2}pt}}"));
                        }
                    }
                    pgf.push_str("\\pgfusepath{fill}\n");
                }
            }
            // In a wide font a line of a note is as narrow as it has to be. A picture of PGF has no font outside `\pgftext`, so the
            // line is measured inside.
            Shape::Text { x, y, size, text, most: Some(width), .. } => push(
                pgf,
                format_args!(
                    "\\pgftext[x={x:.2}pt,y={:.2}pt,left,base]{{\\setbox0\\hbox{{{{\\color{{{colour}}}\\fontsize{{{size:.2}pt}}{{{:.2}pt}}\
                     \\selectfont {}}}}}%\n\\ifdim\\wd0>{width:.2}pt\\resizebox{{{width:.2}pt}}{{\\height}}{{\\box0}}\\else\\box0\\fi}}\n",
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
                        "\\pgftext[x={:.2}pt,y={:.2}pt,{side}]{{\\color{{{colour}}}\\fontsize{{{size:.2}pt}}{{{:.2}pt}}\
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
        format!("\\pgfqpoint{{{x:.2}pt}}{{{:.2}pt}}", self.height - y)
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
            'α'..='ω' | 'Α'..='Ω' => match greek(character) {
                Some(name) => out.push_str(&format!("$\\{name}$")),
                None => out.push(character),
            },
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

/// The name of a Greek letter that the alphabet of LaTeX has. Those of the capitals that look like Latin letters have none.
pub(crate) fn greek(letter: char) -> Option<&'static str> {
    const SMALL: [&str; 25] = [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "varepsilon",
        "zeta",
        "eta",
        "theta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "omicron",
        "pi",
        "rho",
        "varsigma",
        "sigma",
        "tau",
        "upsilon",
        "varphi",
        "chi",
        "psi",
        "omega",
    ];
    const GREAT: [(char, &str); 10] = [
        ('Γ', "Gamma"),
        ('Δ', "Delta"),
        ('Θ', "Theta"),
        ('Λ', "Lambda"),
        ('Ξ', "Xi"),
        ('Π', "Pi"),
        ('Σ', "Sigma"),
        ('Φ', "Phi"),
        ('Ψ', "Psi"),
        ('Ω', "Omega"),
    ];
    if let Some((_, name)) = GREAT.iter().find(|(great, _)| *great == letter) {
        return Some(name);
    }
    let at = (letter as usize).checked_sub('α' as usize)?;
    // LaTeX has no command for omicron, which looks like its Latin sister.
    SMALL.get(at).copied().filter(|name| *name != "omicron")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;
    use std::process::Command;

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
            "{\\pgfqpoint{100.00pt}{50.00pt}}\n\\pgfusepath{use as bounding box}",
            // The rectangle is 10 from the top, that is 40 from the bottom.
            "\\pgfpathmoveto{\\pgfqpoint{10.00pt}{40.00pt}}",
            "\\pgfsetdash{{4.00pt}{2.00pt}}{0pt}",
            "\\pgfpathcircle{\\pgfqpoint{50.00pt}{25.00pt}}{2.00pt}",
            "\\pgftext[x=99.00pt,y=30.00pt,right,base]",
            "50 \\% of \\textbackslash{}input\\{x\\} a\\_b",
        ] {
            assert!(pgf.contains(part), "{part} in {pgf}");
        }
        assert_eq!(pgf.matches("\\definecolor").count(), 2, "a colour and black");
        assert_eq!(pgf.matches('{').count(), pgf.matches('}').count(), "{pgf}");
    }

    /// Sets `body` in a column of 252 pt after a preamble. Returns what TeX says of characters it misses and lines that are too wide; `None`, with a line
    /// SKIP, where there is no pdflatex.
    pub(crate) fn set_in_a_column(name: &str, preamble: &str, body: &str) -> Option<Vec<String>> {
        let tex = |arguments: &[&str], folder: &Path| {
            Command::new("timeout").arg("120").arg("pdflatex").args(arguments).current_dir(folder).output()
        };
        if !tex(&["--version"], &std::env::temp_dir()).is_ok_and(|said| said.status.success()) {
            eprintln!("SKIP: {name}: no pdflatex here");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let document = format!(
            "\\documentclass{{article}}\n{preamble}\n\\tracinglostchars=2\n\\begin{{document}}\n\
             \\noindent\\begin{{minipage}}{{252pt}}%\n{body}\\end{{minipage}}\n\\end{{document}}\n"
        );
        std::fs::write(folder.join("a.tex"), document).expect("written");
        let made = tex(&["-interaction=nonstopmode", "a.tex"], &folder).expect("it starts");
        let log = String::from_utf8_lossy(&std::fs::read(folder.join("a.log")).unwrap_or_default()).into_owned();
        std::fs::remove_dir_all(&folder).expect("removed");
        if log.contains(".sty' not found") {
            eprintln!("SKIP: {name}: a package of LaTeX is missing here");
            return None;
        }
        assert!(made.status.success(), "{log}");
        let wrong = |line: &&str| line.contains("Missing character") || line.contains("Overfull");
        Some(log.lines().filter(wrong).map(str::to_owned).collect())
    }

    /// A figure of a column, with a note that is wider in the font of the document, is set without a word about characters or widths.
    #[test]
    fn tex_sets_the_note_of_a_figure_in_a_column() {
        let mut drawing = Drawing { width: 252.0, height: 60.0, ..Drawing::default() };
        drawing.text((240.0, 20.0), Anchor::End, 8.0, Ink::Text, "delay, ms");
        let notes = ["Bars: means of 5 runs; bands: 95 % intervals", "short"].map(str::to_owned);
        drawing.note(&notes, (12.0, 30.0), 7.0);
        drawing.note(&["MMMMMMMMMMMM".to_owned()], (12.0, 50.0), 7.0);
        let said = set_in_a_column("note", "\\usepackage{pgf}", &drawing.pgf());
        assert_eq!(said.unwrap_or_default(), Vec::<String>::new());
    }

    #[test]
    fn latex_has_no_ligature_and_no_active_character_left() {
        assert_eq!(
            latex("a->b 5 \u{b1} 1 \u{b5}s ~ 30^2"),
            "a-\\textgreater{}b 5 $\\pm$ 1 $\\mu$s \\textasciitilde{} 30\\textasciicircum{}2"
        );
        assert_eq!(latex("--"), "-{}-");
        assert_eq!(latex("α = 0.5, Δ, ω"), "$\\alpha$ = 0.5, $\\Delta$, $\\omega$");
    }
}
