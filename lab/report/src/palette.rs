//! The eight colours of curves, which are the same in the browser ([`THEME_CSS`](tidegate_display::assets::THEME_CSS))
//! and in SVG.
//!
//! Curves with the same name are drawn with the same [pen](Pens) in all plots of a report, and disciplines have the
//! same pen in all reports.
//!
//! Each colour has a contrast of at least 3:1 against its background (WCAG 2.2, 1.4.11 for graphics), and any two can
//! be distinguished even if one of the three kinds of cones is missing. Neighbours also differ in their [dash](DASHES),
//! or in the shape of their marks, so colour is never the only distinction.

use std::collections::{BTreeMap, BTreeSet};

/// The background of plots on light pages and in SVG.
pub const LIGHT_GROUND: &str = "#ffffff";
/// The background of plots on dark pages.
pub const DARK_GROUND: &str = "#14171c";
/// The colours on [`LIGHT_GROUND`].
pub const LIGHT: [&str; 8] = ["#0072b2", "#e0401c", "#0ca348", "#75704a", "#35207a", "#8f80f0", "#5a2f5c", "#6a1210"];
/// The colours on [`DARK_GROUND`]: those of [`LIGHT`] in their hue, so that a reader who changes the theme finds each curve
/// again.
pub const DARK: [&str; 8] = ["#1b8de2", "#d92e0a", "#9bf0b4", "#e0c107", "#813ef8", "#cdbff3", "#996591", "#be5052"];
/// The dash patterns, as pixels drawn and skipped in turn. An empty pattern is a solid line.
pub const DASHES: [&[u32]; 8] =
    [&[], &[8, 4], &[2, 3], &[8, 3, 2, 3], &[16, 4], &[8, 3, 2, 3, 2, 3], &[2, 8], &[16, 3, 5, 3]];

/// The disciplines, each of which has the same pen in every report, whatever else the report contains. Those that are
/// often compared come first, since the first eight have distinct colours.
const DISCIPLINES: [&str; 24] = [
    "fifo", "fq-codel", "red", "codel", "pie", "cake", "fbq", "mice", "cbq", "drr", "sfq", "htb", "hfsc", "wfq",
    "wf2q", "fq-pie", "ared", "mered", "meredt", "rio", "wred", "srr", "tail", "priority",
];

/// The colour and the dash of a curve. For marks the dash selects the shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pen {
    /// The index of the colour in [`LIGHT`] and [`DARK`].
    pub colour: usize,
    /// The index in [`DASHES`].
    pub dash: usize,
}

impl Pen {
    /// The `n`-th of 64 pens. Neighbours differ in colour and in dash.
    const fn nth(n: usize) -> Self {
        let (n, colours) = (n % (LIGHT.len() * DASHES.len()), LIGHT.len());
        Self { colour: n % colours, dash: (n % colours + n / colours) % DASHES.len() }
    }
    /// The dash pattern in pixels.
    pub const fn dashes(self) -> &'static [u32] {
        DASHES[self.dash % DASHES.len()]
    }
}

/// The pens of a report. A name has the same colour in every plot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pens {
    known: BTreeMap<String, usize>,
}

/// Splits a curve's name into its subject and the rest, which distinguishes it from other curves of that subject, as in
/// `red: flow bulk` and `red, the paper`.
fn split(name: &str) -> (&str, &str) {
    let end = name.find(": ").into_iter().chain(name.find(", ")).min().unwrap_or(name.len());
    name.split_at(end)
}

/// The index in [`DISCIPLINES`] of the discipline with this name.
fn discipline(name: &str) -> Option<usize> {
    let name = name.to_lowercase().replace('_', "-");
    let kind = name.split(['@', ' ']).next()?;
    DISCIPLINES.iter().position(|known| *known == kind)
}

impl Pens {
    /// Chooses pens for `names`, first for disciplines, then for the others in the order of their first appearance.
    pub fn named<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Self {
        let mut known = BTreeMap::new();
        for key in names.clone().map(|name| split(name).0) {
            if let Some(place) = discipline(key) {
                known.insert(key.to_owned(), place);
            }
        }
        let mut taken: BTreeSet<usize> = known.values().copied().collect();
        for key in names.map(|name| split(name).0) {
            if !known.contains_key(key) {
                let free = (0..).find(|n| !taken.contains(n)).unwrap_or(0);
                taken.insert(free);
                known.insert(key.to_owned(), free);
            }
        }
        Self { known }
    }
    /// The pen of a curve's name.
    pub fn pen(&self, name: &str) -> Pen {
        Pen::nth(self.known.get(split(name).0).copied().unwrap_or(0))
    }
    /// The pens of the curves of one plot. Curves with the same subject have the same colour. Up to eight curves all differ
    /// in the dash, so that they can be distinguished without colours. No two curves have the same pen as long as there
    /// are unused ones. A single curve is solid.
    pub fn of_curves(&self, names: &[&str]) -> Vec<Pen> {
        if let [only] = names {
            return vec![Pen { dash: 0, ..self.pen(only) }];
        }
        let mut pens: Vec<Pen> = Vec::with_capacity(names.len());
        for name in names {
            let wanted = self.pen(name);
            let other_dashes = || (0..DASHES.len()).map(|n| Pen { dash: (wanted.dash + n) % DASHES.len(), ..wanted });
            let others = (0..LIGHT.len() * DASHES.len()).map(Pen::nth);
            let unlike = other_dashes().find(|pen| pens.iter().all(|other| other.dash != pen.dash));
            let free = || other_dashes().chain(others).find(|pen| !pens.contains(pen));
            pens.push(unlike.or_else(free).unwrap_or(wanted));
        }
        pens
    }
}

impl Pens {
    /// The pens of curves that are laid over each other. Curves of one subject alone, such as the flows of one variant, have colours of their
    /// own: that of the subject would tell none apart.
    pub fn of_overlay(&self, names: &[&str]) -> Vec<Pen> {
        let is_of_one = names.len() > 1 && names.iter().all(|name| split(name).0 == split(names[0]).0);
        if is_of_one { (0..names.len()).map(Pen::nth).collect() } else { self.of_curves(names) }
    }
    /// The colours of bars beside each other, which have no dash. Up to eight names all have different ones: that of the name, or
    /// else the first that is free. In `grey` they are numbered from 0, so that few have greys that are far apart.
    pub fn of_bars(&self, names: &[&str], grey: bool) -> Vec<usize> {
        let mut colours: Vec<usize> = Vec::with_capacity(names.len());
        for name in names {
            let wanted = self.pen(name).colour;
            let mut free = (0..LIGHT.len()).map(|n| (wanted + n) % LIGHT.len()).filter(|n| !colours.contains(n));
            colours.push(free.next().unwrap_or(wanted));
        }
        let used: BTreeSet<usize> = colours.iter().copied().collect();
        if grey {
            let rank = |colour: &usize| used.iter().position(|known| known == colour).unwrap_or(0);
            return colours.iter().map(rank).collect();
        }
        colours
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The red, green and blue components of a colour in linear light.
    fn linear(hex: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }
    fn luminance(hex: &str) -> f64 {
        let [r, g, b] = linear(hex);
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }
    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }
    fn times(matrix: &[[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(v).map(|(m, v)| m * v).sum::<f64>().clamp(0.0, 1.0))
    }
    /// Converts a colour to CIE L*a*b* under D65.
    fn lab(c: [f64; 3]) -> [f64; 3] {
        let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = f((0.4124 * c[0] + 0.3576 * c[1] + 0.1805 * c[2]) / 0.9505);
        let y = f(0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]);
        let z = f((0.0193 * c[0] + 0.1192 * c[1] + 0.9505 * c[2]) / 1.089);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }
    /// Normal colour vision, and vision without one of the kinds of cones (Machado, Oliveira, Fernandes 2009, severity
    /// 1).
    const EYES: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    #[test]
    fn curves_stand_out_and_are_told_apart_by_all_eyes() {
        for (ground, colours) in [(LIGHT_GROUND, LIGHT), (DARK_GROUND, DARK)] {
            for (i, colour) in colours.iter().enumerate() {
                assert!(contrast(colour, ground) >= 3.0, "{colour} on {ground}");
                for other in &colours[..i] {
                    for eyes in &EYES {
                        let (a, b) = (lab(times(eyes, linear(colour))), lab(times(eyes, linear(other))));
                        let distance = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                        // A difference of 2.3 is just noticeable side by side; separate lines need several times that.
                        assert!(distance >= 14.0, "{colour} and {other}: {distance}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_colour_has_its_hue_on_both_grounds() {
        let hue = |colour| {
            let [_, a, b] = lab(linear(colour));
            b.atan2(a).to_degrees()
        };
        for (light, dark) in LIGHT.iter().zip(DARK) {
            let apart = (hue(light) - hue(dark) + 540.0) % 360.0 - 180.0;
            assert!(apart.abs() <= 15.0, "{light} and {dark}: {apart} degrees");
        }
    }

    /// Lightness is what a grey print leaves of a colour.
    #[test]
    fn eight_bars_are_told_apart_in_a_grey_print() {
        let greys = crate::drawing::BAR_GREYS.map(|grey| lab(linear(&format!("#{grey:02x}{grey:02x}{grey:02x}")))[0]);
        for (n, a) in greys.iter().enumerate() {
            assert!(greys[..n].iter().all(|b| (a - b).abs() >= 12.0), "{greys:?}");
        }
        // Lines are on white alone, so that they have less room; their dashes and marks differ too.
        let lines = crate::drawing::GREYS.map(|grey| format!("#{grey:02x}{grey:02x}{grey:02x}"));
        for (n, a) in lines.iter().enumerate() {
            assert!(contrast(a, LIGHT_GROUND) >= 3.0, "{a}");
            let apart = |b: &String| (lab(linear(a))[0] - lab(linear(b))[0]).abs();
            assert!(lines[..n].iter().all(|b| apart(b) >= if n < 5 { 12.0 } else { 6.0 }), "{a} in {lines:?}");
        }
        // Whichever curves a grey figure has, few of them are as far apart as the first greys.
        let mut drawing = crate::drawing::Drawing::default();
        drawing.finish.grey = true;
        for pen in Pens::named(["fifo", "fq-codel", "cake"].into_iter()).of_curves(&["fifo", "fq-codel", "cake"]) {
            drawing.marks(vec![(1.0, 1.0)], 1.0, pen);
        }
        let shown: BTreeSet<[u8; 3]> = drawing
            .with_greys()
            .shapes
            .iter()
            .map(|shape| shape.ink().rgb(true))
            .filter(|grey| *grey != [255; 3])
            .collect();
        assert_eq!(shown.into_iter().collect::<Vec<_>>(), [[0x00; 3], [0x49; 3], [0x94; 3]]);
        // So are bars: four of them have every second of the eight steps.
        let four = ["codel", "pie", "cake", "fbq"];
        let colours = Pens::named(four.into_iter()).of_bars(&four, true);
        let shown: BTreeSet<[u8; 3]> =
            colours.into_iter().map(|colour| crate::drawing::Ink::Bar(colour).rgb(true)).collect();
        assert_eq!(shown.into_iter().collect::<Vec<_>>(), [[0x00; 3], [0x3e; 3], [0x7c; 3], [0xc1; 3]]);
        // Disciplines that share a colour in other figures have their own beside each other.
        let eight = ["fifo", "cbq", "fq-codel", "drr", "red", "sfq", "pie", "htb"];
        let colours: BTreeSet<usize> = Pens::named(eight.into_iter()).of_bars(&eight, false).into_iter().collect();
        assert_eq!(colours.len(), 8);
    }

    #[test]
    fn a_name_has_its_pen_in_every_plot() {
        let plots: [&[&str]; 4] = [
            &["mine", "red", "fq_codel"],
            &["red"],
            &["red: flow a", "red: flow b", "fq_codel: flow a", "mine: flow a"],
            &["fifo", "fifo, the paper"],
        ];
        let pens = Pens::named(plots.iter().copied().flatten().copied());
        let pens_of = plots.map(|names| pens.of_curves(names));
        // Red is the third of the disciplines in every report.
        assert_eq!(
            (pens_of[0][1].colour, pens_of[1][0].colour, pens_of[2][0].colour, pens_of[2][1].colour),
            (2, 2, 2, 2)
        );
        assert_eq!(Pens::named(["red"].into_iter()).pen("red").colour, 2);
        assert_eq!(pens_of[0][0].colour, pens_of[2][3].colour, "the same name, the same colour");
        assert_eq!(pens_of[1][0].dash, 0, "alone");
        assert!(
            pens_of[2][0].dash != pens_of[2][1].dash
                && pens_of[3][0].dash != pens_of[3][1].dash
                && pens_of[3][0].colour == pens_of[3][1].colour
        );
        // Eight disciplines of which several share a colour and a dash elsewhere differ in the dash.
        let eight = ["fifo", "cbq", "fq-codel", "drr", "red", "sfq", "pie", "htb"];
        let pens = Pens::named(eight.into_iter()).of_curves(&eight);
        let dashes: BTreeSet<usize> = pens.iter().map(|pen| pen.dash).collect();
        assert_eq!(dashes.len(), 8, "{pens:?}");
        // All 64 pens differ, and neighbours differ in both colour and dash.
        let all: Vec<Pen> = (0..64).map(Pen::nth).collect();
        assert!(all.iter().enumerate().all(|(n, pen)| !all[..n].contains(pen)));
        assert!(all.windows(2).all(|two| two[0].colour != two[1].colour && two[0].dash != two[1].dash));
    }

    #[test]
    fn text_can_be_read() {
        let light = [("#1a1d23", "#f6f7f9"), ("#5a6270", "#f6f7f9"), ("#0060a0", "#f6f7f9"), ("#b3261e", "#ffffff")];
        let dark = [("#e8eaee", "#14171c"), ("#a2a9b5", "#14171c"), ("#7cc4f5", "#14171c"), ("#ff8a80", "#14171c")];
        let more = [("#0a6e34", "#ffffff"), ("#8a5a00", "#ffffff"), ("#5fd08f", "#14171c"), ("#f0c050", "#14171c")];
        for (ink, ground) in light.into_iter().chain(dark).chain(more) {
            assert!(
                tidegate_display::assets::THEME_CSS.contains(ink)
                    && tidegate_display::assets::THEME_CSS.contains(ground)
            );
            assert!(contrast(ink, ground) >= 4.5, "{ink} on {ground}");
        }
    }

    #[test]
    fn the_browser_has_the_same_colours() {
        for (n, (light, dark)) in LIGHT.iter().zip(DARK).enumerate() {
            let declared = |colour: &str| {
                tidegate_display::assets::THEME_CSS.matches(&format!("--tg-c{}: {colour};", n + 1)).count()
            };
            // The dark colours are declared twice, for the system's setting and for the reader's.
            assert_eq!((declared(light), declared(dark)), (1, 2), "{}", n + 1);
        }
    }
}
