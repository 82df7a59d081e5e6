//! Plots of measured curves: which of them are compared in one plot, and how it is titled.

use tidegate_metrics::Curve as Measured;

use crate::model::{Axis, Curve, Fold, Plot, Scale, Section, Style};

/// The most curves of one plot; further curves are in another plot.
const CURVES: usize = 16;

/// Removes what is before `begin`: bins of a time that was not measured are empty, and would be drawn as zeros.
pub fn measured(curves: &[Measured], begin: f64) -> Vec<Measured> {
    let mut curves = curves.to_vec();
    for curve in curves.iter_mut().filter(|curve| curve.x == "time_s") {
        curve.points.retain(|point| point.0 >= begin);
    }
    curves
}

/// The plots of a run: over time, and distributions. Curves to compare are in one plot.
pub fn sections(title: &str, note: &str, curves: &[Measured], fold: Fold) -> Vec<Section> {
    let (mut over_time, mut distributions) = (Vec::<Group<'_>>::new(), Vec::<Group<'_>>::new());
    for curve in curves {
        let (kind, groups) = match curve.x {
            "time_s" => (Kind::of(curve), &mut over_time),
            _ if !curve.part.is_empty() => {
                let (subject, variant) = (&curve.subject, &curve.variant);
                (Kind::PartsSpread(subject, curve.measure, variant, family(&curve.part)), &mut distributions)
            }
            _ => (Kind::Distribution(curve.measure, family(&curve.subject)), &mut distributions),
        };
        match groups.iter_mut().find(|group| group.kind == kind) {
            Some(group) => group.curves.push(curve),
            None => groups.push(Group { kind, curves: vec![curve] }),
        }
    }
    let section = |name: &str, groups: Vec<Group<'_>>| {
        let plots: Vec<Plot> = groups.iter().flat_map(Group::plots).collect();
        let title = if title.is_empty() { capital(name) } else { format!("{title}{name}") };
        let mut section = Section::new(title).note(note);
        section.fold = fold;
        section.parts = plots.into_iter().map(Into::into).collect();
        section
    };
    let sections = [section("over time", over_time), section("distributions", distributions)];
    sections.into_iter().filter(|section| !section.parts.is_empty()).collect()
}

/// `flow` or `link`.
fn family(subject: &str) -> &str {
    subject.split_once(' ').map_or(subject, |(family, _)| family)
}

/// The key that groups curves into one plot.
#[derive(PartialEq, Clone, Copy, Debug)]
enum Kind<'a> {
    /// A measure of all flows, or of all links, of all variants.
    Distribution(&'a str, &'a str),
    /// A measure of the parts of a subject, in one variant: subject, measure, variant, kind of part.
    PartsSpread(&'a str, &'a str, &'a str, &'a str),
    /// The goodput of all flows of a variant.
    Goodput(&'a str),
    /// A measure of a link, all variants beside each other.
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

struct Group<'a> {
    kind: Kind<'a>,
    curves: Vec<&'a Measured>,
}

/// The text of a measure in a title.
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

impl Group<'_> {
    fn plots(&self) -> Vec<Plot> {
        let many = self.curves.len().div_ceil(CURVES);
        let chunks = self.curves.chunks(CURVES).enumerate();
        chunks
            .map(|(n, curves)| {
                let mut plot = self.plot(curves);
                if many > 1 {
                    plot.title = format!("{} ({} of {many})", plot.title, n + 1);
                }
                plot
            })
            .collect()
    }

    fn plot(&self, curves: &[&Measured]) -> Plot {
        let of = |variant: &str| if variant.is_empty() { String::new() } else { format!(", {variant}") };
        // A single colour needs no distinction.
        let whole = matches!(self.kind, Kind::Parts(_, _, _, "colour")) && curves.len() == 1;
        let title = match self.kind {
            Kind::Distribution(measure, "flow") => capital(words(measure)) + ", distribution",
            Kind::Distribution(measure, family) => {
                format!("{} of each {family}, distribution", capital(words(measure)))
            }
            Kind::PartsSpread(subject, measure, variant, part) => {
                format!("{} of each {part}, {subject}{}, distribution", capital(words(measure)), of(variant))
            }
            Kind::Goodput(variant) => format!("Goodput of the flows that are watched{}", of(variant)),
            Kind::Whole(subject, measure) => format!("{}, {subject}", capital(words(measure))),
            Kind::Parts(subject, measure, variant, _) if whole => {
                format!("{}, {subject}{}", capital(words(measure)), of(variant))
            }
            Kind::Parts(subject, measure, variant, part) => {
                format!("{} of each {part}, {subject}{}", capital(words(measure)), of(variant))
            }
        };
        let label = |curve: &Measured| match self.kind {
            Kind::Distribution(..) => join(&curve.variant, &curve.subject),
            Kind::Goodput(_) => format!("{} {}", curve.subject, curve.part).trim_end().to_owned(),
            Kind::Whole(subject, _) => join(&curve.variant, if curve.variant.is_empty() { subject } else { "" }),
            Kind::Parts(..) if whole => "all".to_owned(),
            Kind::Parts(..) | Kind::PartsSpread(..) => curve.part.clone(),
        };
        let (y, scale, unit) = match curves[0].y {
            "rate_bps" => ("rate", 1.0, "bit/s"),
            "delay_ns" => ("delay", 1e-9, "s"),
            "share" => ("share of the values", 1.0, "1"),
            "bytes" => ("queue", 1.0, "B"),
            other => (other, 1.0, "packets"),
        };
        let y = Axis::new(y, if y == "packets" { "" } else { unit });
        let distribution = matches!(self.kind, Kind::Distribution(..) | Kind::PartsSpread(..));
        let (x, x_scale) = if distribution { (Axis::log("time", "s"), 1e-9) } else { (Axis::new("time", "s"), 1.0) };
        let scaled = |curve: &Measured| {
            let points = curve.points.iter().map(|&(x, y)| (x * x_scale, y * scale));
            Curve::new(label(curve), points.collect::<Vec<_>>())
        };
        let mut plot = Plot {
            title,
            x,
            y,
            style: if distribution { Style::Cdf } else { Style::Lines },
            curves: curves.iter().map(|curve| scaled(curve)).collect(),
        };
        // Without arrivals there is no delay.
        if !distribution && curves[0].y == "delay_ns" {
            plot = plot.with_gaps();
        }
        // A logarithmic axis only if the values span more than a decade.
        if distribution {
            let values =
                || plot.curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).filter(|x| *x > 0.0);
            let (least, most) = values().fold((f64::MAX, 0.0_f64), |(least, most), x| (least.min(x), most.max(x)));
            if most < least * 10.0 {
                plot.x.scale = Scale::Linear;
            }
        }
        plot
    }
}
