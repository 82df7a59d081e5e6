//! Groups measured curves into plots and small multiples, and titles them.

use tidegate_display::human;
use tidegate_metrics::Curve as Measured;

use crate::model::{Axis, Curve, Fold, Panels, Part, Plot, Scale, Section, Style};
use crate::simulation::counted_by;

mod runs;

pub use runs::Runs;
use runs::is_count;

/// The maximum number of curves of one plot. Further curves are in another plot.
const CURVES: usize = 16;
/// The maximum number of curves over time in one plot. If there are more, each has a panel of its own.
const OVERLAID: usize = 4;

/// The beginning of the title of an axis of packets that are counted over a step.
const COUNTED: &str = "packets in ";

/// Removes the points before `begin`. Bins of the time that was not measured are empty, and would be drawn as zeros.
pub fn measured(curves: &[Measured], begin: f64) -> Vec<Measured> {
    let mut curves = curves.to_vec();
    for curve in curves.iter_mut().filter(|curve| curve.x == "time_s") {
        curve.points.retain(|point| point.0 >= begin);
    }
    curves
}

/// The beginning of the titles of plots of goodput.
const GOODPUT: &str = "Goodput of the flows that are watched";
/// The number of points of a line of goodput, above which neighbouring bins are drawn as one.
const POINTS: usize = 100;

/// Merges neighbouring bins of goodput, 2, 5, 10, ... at a time, until no curve has more than a hundred: in short bins goodput is
/// mostly noise. Returns the width of the merged bins in seconds, if there are any.
pub(crate) fn smooth(curves: &mut [Measured]) -> Option<f64> {
    let is_goodput = |curve: &Measured| curve.x == "time_s" && curve.measure == "goodput";
    let most = curves.iter().filter(|curve| is_goodput(curve)).map(|curve| curve.points.len()).max()?;
    let steps = (0..).flat_map(|power| [1, 2, 5].map(|step| step * 10_usize.pow(power)));
    let step = steps.take(24).find(|step| most.div_ceil(*step) <= POINTS).filter(|step| *step > 1)?;
    let mut width = None;
    for curve in curves.iter_mut().filter(|curve| is_goodput(curve)) {
        let bin = curve.points.windows(2).next().map(|two| two[1].0 - two[0].0);
        // The times of bins are not exact in binary fractions.
        width = width.or(bin.map(|bin| (bin * step as f64 * 1e9).round() / 1e9));
        let mean = |bins: &[(f64, f64)]| (bins[0].0, bins.iter().map(|bin| bin.1).sum::<f64>() / bins.len() as f64);
        curve.points = curve.points.chunks(step).map(mean).collect();
    }
    width
}

/// Says below plots of goodput that their points are means over `width` seconds.
pub(crate) fn note_means(sections: &mut [Section], width: f64) {
    let means = format!("Goodput: means over {}.", human(width, "s"));
    let plots = sections.iter_mut().flat_map(Section::plots_mut);
    for plot in plots.filter(|plot| plot.title.starts_with(GOODPUT)) {
        plot.note = Some(plot.note.take().map_or_else(|| means.clone(), |note| format!("{note} {means}")));
    }
}

/// Returns sections with the plots of a run, over time and of distributions. Curves to compare share a plot, or are in
/// panels beside each other.
pub fn sections(title: &str, note: &str, curves: &[Measured], fold: Fold) -> Vec<Section> {
    sections_with_bands(title, note, curves, None, fold)
}

/// Like [`sections`], for runs with several seeds.
pub fn sections_of_runs(title: &str, note: &str, runs: &Runs, fold: Fold) -> Vec<Section> {
    sections_with_bands(title, note, &runs.medians, Some(runs), fold)
}

fn sections_with_bands(title: &str, note: &str, curves: &[Measured], runs: Option<&Runs>, fold: Fold) -> Vec<Section> {
    let (mut over_time, mut distributions) = (Vec::<Group<'_>>::new(), Vec::<Group<'_>>::new());
    for (n, measured) in curves.iter().enumerate() {
        let of = if measured.variant.is_empty() { String::new() } else { format!("{}: ", measured.variant) };
        let counted = counted_by(measured.measure).filter(|_| measured.x != "time_s");
        let left = runs.zip(counted).and_then(|(runs, what)| runs.left.get(&(of + &measured.subject, what)));
        let left = left.map_or("", String::as_str);
        let band = runs.map_or((&[][..], ""), |runs| (runs.bands[n].as_slice(), runs.bands_are()));
        let curve = Banded { measured, band, left };
        let (kind, groups) = match measured.x {
            "time_s" => (Kind::of(measured), &mut over_time),
            // The directions of a flow are compared with those of others.
            _ if is_direction(&measured.part) => {
                (Kind::Distribution(measured.measure, &measured.part), &mut distributions)
            }
            _ if !measured.part.is_empty() => {
                let (subject, variant) = (&measured.subject, &measured.variant);
                (Kind::PartsSpread(subject, measured.measure, variant, family(&measured.part)), &mut distributions)
            }
            _ => (Kind::Distribution(measured.measure, family(&measured.subject)), &mut distributions),
        };
        match groups.iter_mut().find(|group| group.kind == kind) {
            Some(group) => group.curves.push(curve),
            None => groups.push(Group { kind, curves: vec![curve] }),
        }
    }
    let section = |name: &str, groups: Vec<Group<'_>>| {
        let title = if title.is_empty() { capital(name) } else { format!("{title}{name}") };
        let mut section = Section::new(title).note(note);
        section.fold = fold;
        section.parts = parts(&groups);
        for plot in section.plots_mut() {
            let are_counts = plot.y.title.starts_with(COUNTED);
            let notes = [plot.note.take(), runs.and_then(|runs| runs.note(are_counts)), plot.open_end()];
            plot.note = notes.into_iter().flatten().reduce(|notes, note| format!("{notes} {note}"));
        }
        section
    };
    let sections = [section("over time", over_time), section("distributions", distributions)];
    sections.into_iter().filter(|section| !section.parts.is_empty()).collect()
}

/// Returns the plots of `groups`. Those that differ in the variant alone become small multiples at the place of the
/// first.
fn parts(groups: &[Group<'_>]) -> Vec<Part> {
    let mut parts: Vec<(Option<String>, Panels)> = Vec::new();
    for group in groups {
        for (panel, plot) in group.plots() {
            let shared = group.kind.without_variant().map(|kind| kind.title(group.is_whole()));
            match parts.iter_mut().find(|(known, _)| shared.is_some() && *known == shared) {
                Some((_, panels)) => panels.panels.push((panel, plot)),
                None => {
                    let title = shared.clone().unwrap_or_default();
                    parts.push((shared, Panels { title, panels: vec![(panel, plot)] }));
                }
            }
        }
    }
    let part = |(_, mut panels): (_, Panels)| match panels.panels.len() {
        1 => panels.panels.pop().map(|(_, plot)| Part::from(plot)),
        _ => Some(Part::from(panels)),
    };
    parts.into_iter().filter_map(part).collect()
}

/// The kind of a subject: `flow` or `link`.
fn family(subject: &str) -> &str {
    subject.split_once(' ').map_or(subject, |(family, _)| family)
}

fn is_direction(part: &str) -> bool {
    matches!(part, "up" | "down")
}

/// The key that groups curves into one plot.
#[derive(PartialEq, Clone, Copy, Debug)]
enum Kind<'a> {
    /// A measure of all flows, or of all links, in all variants.
    Distribution(&'a str, &'a str),
    /// The distribution of a measure over the parts of a subject, in one variant: subject, measure, variant, kind of
    /// part.
    PartsSpread(&'a str, &'a str, &'a str, &'a str),
    /// The goodput of all flows of a variant.
    Goodput(&'a str),
    /// A measure of a link, in all variants.
    Whole(&'a str, &'a str),
    /// A measure of the parts of a link, in one variant: subject, measure, variant, kind of part.
    Parts(&'a str, &'a str, &'a str, &'a str),
}

impl<'a> Kind<'a> {
    fn of(curve: &'a Measured) -> Self {
        let part = match curve.part.as_str() {
            "green" | "yellow" | "red" => "colour",
            part => family(part),
        };
        match curve.measure {
            "goodput" => Self::Goodput(&curve.variant),
            measure if part.is_empty() => Self::Whole(&curve.subject, measure),
            measure => Self::Parts(&curve.subject, measure, &curve.variant, part),
        }
    }
}

/// A curve with the band around it, which may be empty, and what the band is.
#[derive(Clone, Copy)]
struct Banded<'a> {
    measured: &'a Measured,
    band: (&'a [(f64, f64, f64)], &'a str),
    left: &'a str,
}

struct Group<'a> {
    kind: Kind<'a>,
    curves: Vec<Banded<'a>>,
}

/// The name of a measure in titles.
fn words(measure: &str) -> &str {
    match measure {
        "queueing" => "queueing delay",
        "backlog" => "queue",
        "drops" => "drops",
        "marks" => "congestion marks",
        "completion" => "completion time",
        "delay" => "one-way delay",
        other => other,
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn join(variant: &str, rest: &str) -> String {
    match (variant, rest) {
        ("", rest) => rest.to_owned(),
        (variant, "") => variant.to_owned(),
        (variant, rest) => format!("{variant}: {rest}"),
    }
}

impl Kind<'_> {
    /// The key without the variant; `None` if all variants share one plot.
    fn without_variant(self) -> Option<Self> {
        match self {
            Self::Whole(..) => Some(self),
            _ if self.variant().is_empty() => None,
            Self::PartsSpread(subject, measure, _, part) => Some(Self::PartsSpread(subject, measure, "", part)),
            Self::Goodput(_) => Some(Self::Goodput("")),
            Self::Parts(subject, measure, _, part) => Some(Self::Parts(subject, measure, "", part)),
            Self::Distribution(..) => None,
        }
    }
    fn variant(&self) -> &str {
        match self {
            Self::PartsSpread(_, _, variant, _) | Self::Goodput(variant) | Self::Parts(_, _, variant, _) => variant,
            Self::Whole(..) | Self::Distribution(..) => "",
        }
    }
    /// The title of the plot. `whole` is set for a link with packets of a single colour.
    fn title(&self, whole: bool) -> String {
        let suffix = |subject: &str, variant: &str| {
            [subject, variant]
                .iter()
                .filter(|name| !name.is_empty())
                .map(|name| format!(", {name}"))
                .collect::<String>()
        };
        match *self {
            Self::Distribution(measure, "flow") => capital(words(measure)) + ", distribution",
            Self::Distribution(measure, direction) if is_direction(direction) => {
                format!("{} {direction}, distribution", capital(words(measure)))
            }
            Self::Distribution(measure, family) => {
                format!("{} of each {family}, distribution", capital(words(measure)))
            }
            Self::PartsSpread(subject, measure, variant, part) => {
                format!("{} of each {part}{}, distribution", capital(words(measure)), suffix(subject, variant))
            }
            Self::Goodput(variant) => format!("{GOODPUT}{}", suffix("", variant)),
            Self::Whole(subject, measure) => capital(words(measure)) + &suffix(subject, ""),
            Self::Parts(subject, measure, variant, _) if whole => capital(words(measure)) + &suffix(subject, variant),
            Self::Parts(subject, measure, variant, part) => {
                format!("{} of each {part}{}", capital(words(measure)), suffix(subject, variant))
            }
        }
    }
}

impl Group<'_> {
    /// Whether the packets have a single colour, which need not be named.
    fn is_whole(&self) -> bool {
        matches!(self.kind, Kind::Parts(_, _, _, "colour")) && self.curves.len() == 1
    }

    /// The plots of the group, each with the name that distinguishes it from the other variants.
    fn plots(&self) -> Vec<(String, Plot)> {
        if matches!(self.kind, Kind::Whole(..)) && self.curves.len() > OVERLAID {
            let alone = |curve: &Banded<'_>| {
                let (name, mut plot) = (curve.measured.variant.clone(), self.plot(std::slice::from_ref(curve)));
                plot.title = format!("{}, {name}", plot.title);
                (name, plot)
            };
            return self.curves.iter().map(alone).collect();
        }
        let many = self.curves.len().div_ceil(CURVES);
        let chunk = |(n, curves): (usize, &[Banded<'_>])| {
            let (mut name, mut plot) = (self.kind.variant().to_owned(), self.plot(curves));
            if many > 1 {
                let place = format!(" ({} of {many})", n + 1);
                plot.title += &place;
                name += &place;
            }
            (name, plot)
        };
        self.curves.chunks(CURVES).enumerate().map(chunk).collect()
    }

    fn plot(&self, curves: &[Banded<'_>]) -> Plot {
        let whole = self.is_whole();
        let label = |curve: &Measured| match self.kind {
            Kind::Distribution(..) => join(&curve.variant, &curve.subject),
            Kind::Goodput(_) => format!("{} {}", curve.subject, curve.part).trim_end().to_owned(),
            Kind::Whole(subject, _) => join(&curve.variant, if curve.variant.is_empty() { subject } else { "" }),
            Kind::Parts(..) if whole => "all".to_owned(),
            Kind::Parts(..) | Kind::PartsSpread(..) => curve.part.clone(),
        };
        let first = curves[0].measured;
        let (y, scale, unit) = match first.y {
            "rate_bps" => ("rate", 1.0, "bit/s"),
            "delay_ns" => ("delay", 1e-9, "s"),
            "share" => ("share of the values", 1.0, "1"),
            "bytes" => ("queue", 1.0, "B"),
            other => (other, 1.0, "packets"),
        };
        let distribution = matches!(self.kind, Kind::Distribution(..) | Kind::PartsSpread(..));
        let y = match y {
            "share of the values" if distribution => Axis::tail(y),
            // Packets that wait are there at a time, others are counted over a step.
            "packets" if !is_count(first) => Axis::new(y, ""),
            "packets" => match first.points.as_slice() {
                // The times of bins are not exact in binary fractions.
                [(a, _), (b, _), ..] => {
                    Axis::new(format!("{COUNTED}{}", human(((b - a) * 1e9).round() / 1e9, "s")), "")
                }
                _ => Axis::new(y, ""),
            },
            _ => Axis::new(y, unit),
        };
        let (x, x_scale) =
            if distribution { (Axis::log(words(first.measure), "s"), 1e-9) } else { (Axis::new("time", "s"), 1.0) };
        let scaled = |curve: &Banded<'_>| {
            let points = curve.measured.points.iter().map(|&(x, y)| (x * x_scale, y * scale)).collect();
            let (band, band_is) = curve.band;
            let band = band.iter().map(|&(x, low, high)| (x * x_scale, low * scale, high * scale)).collect();
            let (band_is, left) = (band_is.to_owned(), curve.left.to_owned());
            Curve { name: label(curve.measured), points, band, band_is, left, ..Curve::default() }
        };
        let mut plot = Plot {
            title: self.kind.title(whole),
            x,
            y,
            style: if distribution { Style::Cdf } else { Style::Lines },
            // A queue that drops more has shorter delays.
            note: (distribution && first.measure == "delay").then(|| "Delays of the packets that arrived.".to_owned()),
            curves: curves.iter().map(scaled).collect(),
        };
        // While no packets arrive, there is no delay to plot.
        if !distribution && first.y == "delay_ns" {
            plot = plot.with_gaps();
        }
        // The axis is logarithmic only if the values span more than a decade.
        if distribution {
            let values =
                || plot.curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).filter(|x| *x > 0.0);
            let (least, most) = values().fold((f64::MAX, 0.0_f64), |(least, most), x| (least.min(x), most.max(x)));
            if most < least * 10.0 {
                plot.x.scale = Scale::Linear;
            } else if most > 10.0 * INSTANT {
                // A packet that found the line free by a nanosecond would otherwise give the axis decades of nothing.
                for curve in &mut plot.curves {
                    curve.points.iter_mut().for_each(|point| point.0 = point.0.max(INSTANT));
                    curve.band.iter_mut().for_each(|point| point.0 = point.0.max(INSTANT));
                }
            }
        }
        plot
    }
}

/// The least time in seconds that a logarithmic axis shows: what is shorter is drawn as this.
const INSTANT: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A wait of a nanosecond does not stretch the axis by four decades; one of microseconds among such has its place.
    #[test]
    fn a_logarithmic_axis_of_times_begins_at_a_microsecond() {
        let plot_of = |points: &[(f64, f64)]| {
            let curves = [Measured { subject: "link a->b".into(), ..measured("", "queueing", "value_ns", points) }];
            sections("", "", &curves, Fold::Open).iter().flat_map(Section::plots).next().expect("a plot").clone()
        };
        let xs = |points: &[(f64, f64)]| -> Vec<f64> {
            plot_of(points).curves[0].points.iter().map(|point| point.0).collect()
        };
        assert_eq!(xs(&[(1.0, 0.1), (40_000.0, 0.5), (5e6, 1.0)]), [1e-6, 4e-5, 5e-3]);
        assert_eq!(xs(&[(100.0, 0.5), (9_000.0, 1.0)]), [100.0 * 1e-9, 9_000.0 * 1e-9]);
    }

    fn measured(variant: &str, measure: &'static str, x: &'static str, points: &[(f64, f64)]) -> Measured {
        Measured {
            name: format!("{variant} {measure}"),
            variant: variant.into(),
            subject: if x == "time_s" { "link a->b".into() } else { "flow call".into() },
            measure,
            part: String::new(),
            x,
            y: if x == "time_s" { "rate_bps" } else { "share" },
            points: points.to_vec(),
        }
    }

    /// A flow of pages has transfers, too: each plot counts its own.
    #[test]
    fn a_distribution_says_what_of_its_own_was_not_completed() {
        let points = [(1e9, 0.5), (2e9, 1.0)];
        let run = ["completion", "page load", "delay"].map(|measure| measured("fifo", measure, "value_ns", &points));
        let left = [("transfers", "2 of 30 transfers"), ("pages", "1 of 5 pages")]
            .map(|(what, text)| (("fifo: flow call".to_owned(), what), text.to_owned()));
        let runs = Runs::new([run.as_slice(), run.as_slice()]).with_left(left.into());
        let sections = sections_of_runs("", "", &runs, Fold::Open);
        let plots = sections.iter().flat_map(|section| &section.parts).filter_map(|part| match part {
            Part::Plot(plot) => Some((plot.title.as_str(), plot.curves[0].left.as_str())),
            _ => None,
        });
        let found: BTreeMap<&str, &str> = plots.collect();
        let said = |title: &str| found.iter().find(|(known, _)| known.starts_with(title)).map(|(_, left)| *left);
        assert_eq!(said("Completion time"), Some("2 of 30 transfers"), "{found:?}");
        assert_eq!(said("Page load"), Some("1 of 5 pages"), "{found:?}");
        assert_eq!(said("One-way delay"), Some(""), "{found:?}");
    }

    #[test]
    fn goodput_is_drawn_with_at_most_a_hundred_points_which_are_means() {
        let points: Vec<(f64, f64)> = (0..600).map(|n| (f64::from(n) * 0.1, f64::from(n % 2) * 2e6)).collect();
        let both = ["goodput", "throughput"].map(|measure| measured("", measure, "time_s", &points));
        let mut curves = both.to_vec();
        let width = smooth(&mut curves).expect("merged");
        assert!((width - 1.0).abs() < 1e-9, "{width}");
        assert_eq!((curves[0].points.len(), curves[0].points[1].1), (60, 1e6));
        assert!((curves[0].points[1].0 - 1.0).abs() < 1e-9 && curves[1] == both[1]);
        let mut sections = sections("", "", &curves, Fold::Open);
        note_means(&mut sections, width);
        let notes: Vec<Option<&str>> =
            sections.iter_mut().flat_map(Section::plots_mut).map(|plot| plot.note.as_deref()).collect();
        assert_eq!(notes, [Some("Goodput: means over 1 s."), None]);
        // Few points stay as they were measured.
        let mut few = [measured("", "goodput", "time_s", &points[..100])];
        assert_eq!((smooth(&mut few), few[0].points.len()), (None, 100));
    }

    #[test]
    fn runs_have_their_median_and_how_far_they_are_apart() {
        let run = |by: f64| [measured("", "throughput", "time_s", &[(0.0, by), (1.0, 2.0 * by)])];
        let runs: Vec<_> = [1.0, 2.0, 3.0, 4.0, 100.0].map(run).into();
        let merged = |count: usize| Runs::new(runs[..count].iter().map(<[Measured; 1]>::as_slice));
        let three = merged(3);
        assert_eq!(three.medians[0].points, [(0.0, 2.0), (1.0, 4.0)]);
        assert_eq!(three.bands[0], [(0.0, 1.0, 3.0), (1.0, 2.0, 6.0)]);
        // Five runs have a band of quartiles, which a single outlier does not move.
        assert_eq!(merged(5).bands[0], [(0.0, 2.0, 4.0), (1.0, 4.0, 8.0)]);
        // The share of a distribution is valid up to its next value, and 0 below its first.
        let shares = |points: &[(f64, f64)]| [measured("", "delay", "value_ns", points)];
        let (a, b) = (shares(&[(10.0, 0.5), (30.0, 1.0)]), shares(&[(20.0, 1.0)]));
        let both = Runs::new([a.as_slice(), b.as_slice()]);
        assert_eq!(both.bands[0], [(10.0, 0.0, 0.5), (20.0, 0.5, 1.0), (30.0, 1.0, 1.0)]);
        // Where nothing was completed the curve of a run stays at zero, and counts in the median.
        let (a, b) = (shares(&[(10.0, 0.5), (30.0, 1.0)]), shares(&[(40.0, 0.0)]));
        let most = Runs::new([a.as_slice(), b.as_slice(), b.as_slice()]);
        assert_eq!(most.medians[0].points, [(10.0, 0.0), (30.0, 0.0), (40.0, 0.0)]);
        // Between a run without greater values and one with a tenth of them, a quantile has no share that no run can have.
        let (a, b) = (shares(&[(10.0, 1.0)]), shares(&[(10.0, 0.9), (30.0, 1.0)]));
        assert_eq!(Runs::new([a.as_slice(), b.as_slice()]).medians[0].points, [(10.0, 1.0), (30.0, 1.0)]);
        // A series has no value where none was measured.
        let (a, b) = (
            [measured("", "wait", "time_s", &[(0.0, 1.0), (1.0, 1.0)])],
            [measured("", "wait", "time_s", &[(1.0, 3.0)])],
        );
        assert_eq!(Runs::new([a.as_slice(), b.as_slice()]).bands[0], [(0.0, 1.0, 1.0), (1.0, 1.0, 3.0)]);
    }

    /// Where most runs drop nothing at a time a median would hide all drops.
    #[test]
    fn counts_have_their_mean_and_the_step_they_are_counted_over() {
        let run =
            |drops: f64| [Measured { y: "packets", ..measured("", "drops", "time_s", &[(0.0, drops), (0.1, 0.0)]) }];
        let runs = [run(0.0), run(0.0), run(6.0)];
        let merged = Runs::new(runs.iter().map(<[Measured; 1]>::as_slice));
        assert_eq!(merged.medians[0].points, [(0.0, 2.0), (0.1, 0.0)]);
        let sections = sections_of_runs("", "", &merged, Fold::Open);
        let plot = sections.iter().flat_map(Section::plots).next().expect("a plot");
        assert_eq!(
            (plot.y.title.as_str(), plot.note.as_deref()),
            ("packets in 100 ms", Some("Lines: means of 3 runs."))
        );
    }

    #[test]
    fn a_run_in_which_nothing_was_sent_counts_as_zero() {
        let run = |points: &[(f64, f64)]| [measured("", "goodput", "time_s", points)];
        let (sends, silent) = (run(&[(0.0, 8.0), (1.0, 8.0)]), []);
        for runs in [[sends.as_slice(), &silent, &silent], [&silent, &silent, sends.as_slice()]] {
            let merged = Runs::new(runs);
            assert_eq!(merged.medians[0].points, [(0.0, 0.0), (1.0, 0.0)]);
            assert_eq!(merged.bands[0], [(0.0, 0.0, 8.0), (1.0, 0.0, 8.0)]);
        }
    }

    #[test]
    fn few_variants_are_laid_over_each_other_and_many_are_panels() {
        let variants = |count: usize| -> Vec<Measured> {
            (0..count).map(|n| measured(&format!("v{n}"), "throughput", "time_s", &[(0.0, 1.0)])).collect()
        };
        let few = sections("", "", &variants(OVERLAID), Fold::Open);
        assert!(matches!(&few[0].parts[..], [Part::Plot(plot)] if plot.curves.len() == OVERLAID), "{few:?}");
        let many = sections("", "", &variants(OVERLAID + 1), Fold::Open);
        let [Part::Panels(panels)] = &many[0].parts[..] else { panic!("{many:?}") };
        assert_eq!((panels.title.as_str(), panels.panels.len()), ("Throughput, link a->b", OVERLAID + 1));
        assert_eq!(
            (panels.panels[1].0.as_str(), panels.panels[1].1.title.as_str()),
            ("v1", "Throughput, link a->b, v1")
        );
    }
}
