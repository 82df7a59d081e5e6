//! [`Ruler`]: an axis with its range and its ticks.

use crate::model::{Axis, Curve, Plot, Scale, Style};

/// An axis with its range and its ticks.
pub(crate) struct Ruler {
    scale: Scale,
    /// The ends of the range, transformed by the scale.
    low: f64,
    high: f64,
    /// The values of the ticks and their labels.
    pub(crate) ticks: Vec<(f64, String)>,
    /// The values of ticks without labels: on a logarithmic axis 2 to 9 times each power of ten.
    pub(crate) minor: Vec<f64>,
    /// The title of the axis with the unit of the labels.
    pub(crate) title: String,
}

/// The position of a share on an axis with a logarithmic tail, which is 1 at 90 % and 2 at 99 %.
fn tail(share: f64) -> f64 {
    -(1.0 - share).clamp(1e-12, 1.0).log10()
}

/// The round numbers in a range, and their step: 1, 2 or 5 times a power of ten, so that there are five to ten.
fn round(low: f64, high: f64) -> (Vec<f64>, f64) {
    let rough = (high - low) / 6.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough).unwrap_or(rough);
    let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    ((first..=last).map(|n| n as f64 * step).collect(), step)
}

/// The share of its length by which a linear axis may become longer to end at a tick.
const END: f64 = 0.05;

/// Where a linear axis ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// At the values, or at ticks that are near them.
    Values,
    /// At zero, and at the tick above the greatest value.
    Zero,
    /// At the ticks around the values, or at zero if that is no farther from the values than they are from each other.
    Ticks,
}

impl Ends {
    /// Those of an axis of points with these ends.
    fn around(self, low: f64, high: f64) -> Self {
        match self {
            Self::Ticks if low >= 0.0 && low <= high - low => Self::Zero,
            ends => ends,
        }
    }
}
/// The number of decades of a logarithmic axis above which ticks between the powers of ten would be a grey bar.
const DECADES: f64 = 8.0;

/// The ratio of the ends of a logarithmic axis up to which all labels have the prefix of the greatest value.
const DECADES_OF_PREFIX: f64 = 100.0;

/// The ticks without labels of a logarithmic axis: the multiples of powers of ten that are none of `ticks`.
fn between(begin: f64, end: f64, ticks: &[f64]) -> Vec<f64> {
    let (first, last) = (begin.log10().floor(), end.log10().ceil());
    if !(first.is_finite() && last.is_finite()) || last - first > DECADES {
        return Vec::new();
    }
    let all =
        (first as i32..=last as i32).flat_map(|power| (1..=9).map(move |mark| f64::from(mark) * 10_f64.powi(power)));
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    all.filter(|value| (begin..=end).contains(value) && !ticks.iter().any(|tick| near(*tick, *value))).collect()
}

/// How far down a logarithmic axis with this least point is stretched by bands: an interval that reaches nearly to zero takes it no more than a
/// decade below that of the point.
pub(crate) fn least_of_bands(least: f64) -> f64 {
    if least.is_finite() { 10_f64.powf(least.log10().floor() - 1.0) } else { f64::NEG_INFINITY }
}

impl Ruler {
    pub(crate) fn new(axis: &Axis, values: impl Iterator<Item = f64> + Clone, ends: Ends) -> Self {
        let scale = axis.scale;
        let range = values.clone().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let (mut low, mut high) = if range.0 > range.1 { (1.0, 10.0) } else { range };
        let [from, to] = axis.range;
        (low, high) = (from.unwrap_or(low), to.unwrap_or(high));
        let shown = axis.shown(low.abs(), high.abs());
        let title = axis.titled(shown.1);
        let tick = |value: f64| (value, axis.tick(value / shown.0, shown.1));
        let mut ruler = match scale {
            Scale::Log => {
                // The range ends at 1, 2 or 5 times a power of ten. Ticks are at the powers or, where these are few, at all of them.
                let few = high / low <= 100.0;
                let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
                let powers = (first..=last.max(first + 1)).map(|power| 10_f64.powi(power));
                let marks: Vec<f64> =
                    powers.clone().flat_map(|power| [1.0, 2.0, 5.0].map(|mark| mark * power)).collect();
                let near = 1.0 + 1e-9;
                let begin = marks.iter().rposition(|mark| *mark <= low * near).unwrap_or(0);
                let end = marks.iter().position(|mark| *mark * near >= high).unwrap_or(marks.len() - 1);
                let end = end.max(begin + 1).min(marks.len() - 1);
                let mut ticks = if few { marks[begin..=end].to_vec() } else { powers.collect() };
                let (begin, end) = (from.unwrap_or(marks[begin]), to.unwrap_or(marks[end]));
                ticks.retain(|tick| (begin / near..=end * near).contains(tick));
                // A range that was chosen may have none of these.
                if ticks.len() < 2 {
                    ticks = round(begin, end).0;
                }
                let minor = between(begin, end, &ticks);
                let (low, high) = (begin.log10(), end.log10());
                Self { scale, low, high, ticks: ticks.into_iter().map(tick).collect(), minor, title }
            }
            Scale::Tail => {
                // A share of 1 would be at infinity, so the end of a distribution is at the end of the axis.
                let deepest = values.filter(|share| *share < 1.0).map(tail).fold(1.0, f64::max);
                let high = deepest * 1.04;
                let nines = (1..=high as i32).map(|nines| 1.0 - 10_f64.powi(-nines));
                let label = |share: f64| format!("{} %", plain(share * 100.0));
                let ticks = [0.0, 0.5].into_iter().chain(nines).map(|share| (share, label(share))).collect();
                Self { scale, low: 0.0, high, ticks, minor: Vec::new(), title }
            }
            Scale::Linear => {
                let ends = ends.around(low, high);
                if ends == Ends::Zero && from.is_none() {
                    low = low.min(0.0);
                }
                if high <= low {
                    high = low + 1.0;
                }
                if ends == Ends::Zero && to.is_none() {
                    let step = round(low, high).1;
                    high = (high / step - 1e-9).ceil() * step;
                }
                if ends != Ends::Zero {
                    // An axis whose values end a little before a tick, as the last bin of a run does, ends at this tick.
                    let reach = if ends == Ends::Ticks { f64::INFINITY } else { END * (high - low) };
                    let step = round(low, high).1;
                    let [before, next] = [(low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step];
                    low = if from.is_none() && low - before <= reach { before } else { low };
                    high = if to.is_none() && next - high <= reach { next } else { high };
                }
                let ticks = round(low, high).0.into_iter().map(tick).collect();
                Self { scale, low, high, ticks, minor: Vec::new(), title }
            }
        };
        if let ([first, .., last], true) = (axis.taken.as_slice(), scale != Scale::Tail) {
            if scale == Scale::Log && from.is_none() && to.is_none() {
                (ruler.low, ruler.high) = (first.log10(), last.log10());
            }
            let is_seen = |value: &f64| (-1e-9..=1.0 + 1e-9).contains(&ruler.at(*value));
            ruler.ticks = axis.taken.iter().copied().filter(is_seen).map(tick).collect();
            ruler.minor = Vec::new();
        }
        ruler
    }
    /// Creates the horizontal and the vertical axis, whose ranges cover the points of all `plots`.
    pub(crate) fn pair<'a>(plots: impl Iterator<Item = &'a Plot> + Clone, first: &Plot) -> (Self, Self) {
        let curves = || plots.clone().flat_map(|plot| &plot.curves);
        let outlines = curves().flat_map(|curve| &curve.outline).copied();
        let outlines = outlines.filter(|point| first.x.has(point.0) && first.y.has(point.1));
        let placed: Vec<_> = curves().flat_map(|curve| curve.placed(&first.x, &first.y)).chain(outlines).collect();
        let bands = plots.clone().flat_map(|plot| &plot.curves).flat_map(|curve| &curve.band);
        // A band may go on where its curve has ended.
        let along = bands.clone().filter(|(at, _, high)| first.x.has(*at) && first.y.has(*high)).map(|band| band.0);
        // The curve of a complement ends on the axis, where a logarithmic one has no place.
        let last = |curve: &'a Curve| curve.points.last().map(|point| point.0).filter(|at| first.x.has(*at));
        let ends =
            plots.clone().filter(|plot| plot.style == Style::Ccdf).flat_map(|plot| &plot.curves).filter_map(last);
        let along: Vec<f64> = placed.iter().map(|point| point.0).chain(along).chain(ends).collect();
        let least = placed.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
        let floor = if first.y.scale == Scale::Log { least_of_bands(least) } else { f64::NEG_INFINITY };
        let ends: Vec<f64> = bands
            .flat_map(|(_, low, high)| [*low, *high])
            .filter(|value| first.y.has(*value))
            .map(|value| value.max(floor))
            .collect();
        let (along_x, along_y) = match first.style {
            Style::Cdf | Style::Ccdf => (Ends::Zero, Ends::Zero),
            Style::Marks => (Ends::Ticks, Ends::Ticks),
            Style::Lines | Style::Steps => (Ends::Values, Ends::Zero),
        };
        let x = Self::new(&first.x, along.iter().copied(), along_x);
        (x, Self::new(&first.y, placed.iter().map(|point| point.1).chain(ends.iter().copied()), along_y))
    }
    /// Creates an axis without ticks.
    pub(crate) fn none() -> Self {
        Self { scale: Scale::Linear, low: 0.0, high: 1.0, ticks: Vec::new(), minor: Vec::new(), title: String::new() }
    }
    /// Labels the ticks of an axis in one unit of results, with the digits that tell neighbours apart, and returns this unit.
    pub(crate) fn label(&mut self, unit: &str) -> String {
        let most = self.ticks.iter().map(|(value, _)| value.abs()).fold(0.0, f64::max);
        let (scale, unit) = tidegate_display::unit_of(most, unit);
        self.label_in(scale);
        unit.to_owned()
    }
    /// Labels the ticks of an axis divided by `scale`, with the digits that tell neighbours apart.
    pub(crate) fn label_in(&mut self, scale: f64) {
        let step = self.ticks.windows(2).map(|two| two[1].0 - two[0].0).fold(f64::INFINITY, f64::min) / scale;
        let places = if step.is_finite() { (-(step.log10() + 1e-9).floor()).clamp(0.0, 12.0) as usize } else { 0 };
        // Of ticks from 0.02 to 5 each has its own.
        let is_log = self.scale == Scale::Log;
        for (value, label) in &mut self.ticks {
            let value = *value / scale;
            *label = if step.is_finite() && !is_log { format!("{value:.places$}") } else { plain(value) };
        }
    }
    /// Whether its ticks are evenly spaced, as those of a linear axis are unless they are values that were taken.
    pub(crate) fn has_even_ticks(&self) -> bool {
        let steps: Vec<f64> = self.ticks.windows(2).map(|two| two[1].0 - two[0].0).collect();
        self.scale == Scale::Linear && steps.iter().all(|step| (step - steps[0]).abs() <= 1e-6 * steps[0].abs())
    }
    /// The position of a value along the axis, from 0 to 1.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
            Scale::Tail => tail(value).min(self.high),
        };
        (value - self.low) / (self.high - self.low)
    }
}

impl Axis {
    /// The unit of the labels, and how much of the axis's own it is, for values between these ends: times below a second are in
    /// milliseconds or less, and rates and sizes have the prefix of the greatest.
    fn shown(&self, low: f64, high: f64) -> (f64, &str) {
        let most = low.max(high);
        // A logarithmic axis of many decades has a prefix in each label.
        let is_long = self.scale == Scale::Log && high > low * DECADES_OF_PREFIX;
        match self.unit.as_str() {
            "s" => tidegate_display::unit_of(most, "s"),
            "bit/s" | "B" if !is_long => tidegate_display::unit_of(most, &self.unit),
            unit => (1.0, unit),
        }
    }
    /// The label of a tick in the unit `shown`. On a logarithmic axis rates and sizes have a decimal prefix.
    fn tick(&self, value: f64, shown: &str) -> String {
        let prefixed = [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(scale, _)| value.abs() >= *scale);
        match prefixed.filter(|_| shown == "bit/s" || shown == "B") {
            Some((scale, prefix)) => format!("{} {prefix}", plain(value / scale)),
            None => plain(value),
        }
    }
}

/// Formats a tick's number without rounding errors of binary fractions.
pub(crate) fn plain(value: f64) -> String {
    let rounded: f64 = format!("{value:.6e}").parse().unwrap_or(value);
    if rounded == 0.0 { "0".to_owned() } else { rounded.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_axes_have_ticks_at_1_2_and_5_or_between_the_powers_of_ten() {
        let said = |values: &[f64], range: [Option<f64>; 2]| {
            let ruler = Ruler::new(&Axis { range, ..Axis::log("loss", "") }, values.iter().copied(), Ends::Zero);
            let labels: Vec<String> = ruler.ticks.into_iter().map(|(_, label)| label).collect();
            (labels.join(" "), ruler.minor)
        };
        let (labels, minor) = said(&[1.0, 100.0], [None; 2]);
        assert_eq!(labels, "1 2 5 10 20 50 100");
        assert_eq!(minor.len(), 12, "3, 4, 6, 7, 8, 9 and their tenfold: {minor:?}");
        let (labels, minor) = said(&[1.0, 500.0], [None; 2]);
        // It ends at 500 and not at 1000, which nothing is near.
        assert_eq!((labels.as_str(), minor.len()), ("1 10 100", 20));
        // Twelve decades have no room for more than their ends.
        assert!(said(&[1e-6, 1e6], [None; 2]).1.is_empty());
        // A range that was chosen has the multiples that are in it.
        let (_, minor) = said(&[1.0, 500.0], [Some(15.0), Some(120.0)]);
        assert!(minor.iter().all(|value| (15.0..=120.0).contains(value)) && minor.contains(&30.0), "{minor:?}");
    }

    /// A run of 20 s in bins of 0.2 s, with 5 s of warm-up, has its last point at 19.8 s.
    #[test]
    fn an_axis_that_ends_near_a_tick_ends_at_it() {
        let ends = |values: &[f64], range: [Option<f64>; 2]| {
            let axis = Axis { range, ..Axis::new("time", "s") };
            let ruler = Ruler::new(&axis, values.iter().copied(), Ends::Values);
            (ruler.low, ruler.high, ruler.ticks.last().map(|(_, label)| label.clone()))
        };
        assert_eq!(ends(&[5.0, 19.8], [None; 2]), (5.0, 20.0, Some("20".into())));
        assert_eq!(ends(&[0.1, 29.9], [None; 2]), (0.0, 30.0, Some("30".into())));
        assert_eq!(ends(&[0.0, 17.0], [None; 2]).1, 17.0, "far from a tick");
        assert_eq!(ends(&[5.0, 19.8], [Some(5.1), Some(19.9)]).1, 19.9, "a range that was chosen");
    }

    /// Points between 9.41 and 9.57 would be in one line on an axis from zero, and on its edge on one that ends at them.
    #[test]
    fn axes_of_points_end_at_ticks_around_them() {
        let ends = |values: &[f64]| {
            let ruler = Ruler::new(&Axis::new("goodput", ""), values.iter().copied(), Ends::Ticks);
            let labels: Vec<String> = ruler.ticks.into_iter().map(|(_, label)| label).collect();
            (ruler.low, ruler.high, labels.join(" "))
        };
        let near = |found: (f64, f64, String), low: f64, high: f64, labels: &str| {
            assert!((found.0 - low).abs() < 1e-9 && (found.1 - high).abs() < 1e-9 && found.2 == labels, "{found:?}");
        };
        near(ends(&[9.41, 9.57]), 9.4, 9.6, "9.4 9.45 9.5 9.55 9.6");
        near(ends(&[21.0, 330.0]), 0.0, 400.0, "0 100 200 300 400");
        near(ends(&[-3.0, 2.0]), -3.0, 2.0, "-3 -2 -1 0 1 2");
    }

    #[test]
    fn times_below_a_second_are_in_milliseconds_or_less() {
        let said = |axis: &Axis, values: &[f64]| {
            let ruler = Ruler::new(axis, values.iter().copied(), Ends::Zero);
            let labels: Vec<String> = ruler.ticks.into_iter().map(|(_, label)| label).collect();
            (ruler.title, labels.join(" "))
        };
        let delay = Axis::new("delay", "s");
        assert_eq!(said(&delay, &[0.02, 0.24]), ("delay, ms".into(), "0 50 100 150 200 250".into()));
        assert_eq!(said(&delay, &[2e-5, 1e-4]), ("delay, µs".into(), "0 20 40 60 80 100".into()));
        assert_eq!(said(&delay, &[0.5, 4.0]), ("delay, s".into(), "0 1 2 3 4".into()));
        let log = Axis::log("delay", "s");
        assert_eq!(said(&log, &[0.001, 0.5]), ("delay, ms (logarithmic)".into(), "1 10 100".into()));
        // A title that has its unit already has it once.
        assert_eq!(said(&Axis::new("time, s", "s"), &[4.0]).0, "time, s");
        assert_eq!(said(&Axis::new("time (s)", "s"), &[4.0]).0, "time (s)");
        // Rates and sizes have the prefix of the greatest in the title, or on a logarithmic axis each its own.
        assert_eq!(said(&Axis::new("rate", "bit/s"), &[4e6]), ("rate, Mbit/s".into(), "0 1 2 3 4".into()));
        assert_eq!(said(&Axis::new("queue", "B"), &[36e3]).0, "queue, kB");
        let log = Axis::log("rate", "bit/s");
        assert_eq!(said(&log, &[1e3, 1e6]), ("rate, bit/s (logarithmic)".into(), "1 k 10 k 100 k 1 M".into()));
    }

    #[test]
    fn a_logarithmic_axis_of_one_prefix_has_it_in_its_title() {
        let ruler = Ruler::new(&Axis::log("rate", "bit/s"), [5e6, 50e6].into_iter(), Ends::Zero);
        let labels: Vec<&str> = ruler.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!((ruler.title.as_str(), labels), ("rate, Mbit/s (logarithmic)", vec!["5", "10", "20", "50"]));
    }

    /// A line does not pass over a value that has no place on its axis, and a distribution that has none is named.
    #[test]
    fn zeros_are_gaps_of_a_logarithmic_axis() {
        let plot = |x, y, style| {
            let curves = vec![
                Curve::new("cake", [(1.0, 0.5), (2.0, 0.0), (3.0, 0.2)]),
                Curve { band: vec![(0.0, -1.0, 0.4)], ..Curve::new("pie", [(0.0, 0.5)]) },
            ];
            let mut plot = Plot { title: String::new(), x, y, style, note: None, curves };
            // Twice is as once.
            plot.leave_gaps();
            plot.leave_gaps();
            plot
        };
        let lines = plot(Axis::new("x", ""), Axis::log("loss", ""), Style::Lines);
        assert!(lines.curves[0].points[1].1.is_nan() && lines.curves[0].points[2] == (3.0, 0.2));
        assert_eq!(lines.note.as_deref(), Some("Values of 0, which a logarithmic axis has not: cake 1; gaps."));
        assert_eq!(lines.curves[1].band_is, "; those that reach further down end at the axis");
        let shares = plot(Axis::log("loss", ""), Axis::new("share", ""), Style::Cdf);
        assert_eq!(shares.note.as_deref(), Some("All values are 0, which a logarithmic axis has not: pie."));
        assert_eq!(plot(Axis::new("x", ""), Axis::new("y", ""), Style::Lines).note, None);
    }

    /// The lower end of an interval is a tenth of a millisecond, or below zero.
    #[test]
    fn a_band_does_not_stretch_a_logarithmic_axis() {
        for low in [1e-4, -0.1] {
            let mut curve = Curve::new("one", [(1.0, 0.02), (2.0, 0.3)]);
            curve.band = vec![(1.0, low, 0.04), (2.0, 0.2, 0.4)];
            let axis = |scale| Axis { scale, ..Axis::new("x", "s") };
            let (x, y) = (axis(Scale::Linear), axis(Scale::Log));
            let plot = Plot { title: String::new(), x, y, style: Style::Lines, note: None, curves: vec![curve] };
            let (x, y) = Ruler::pair(std::iter::once(&plot), &plot);
            // The least point is in the decade from 0.01 on, and the band takes the axis one further at most.
            assert!(y.low >= -3.0 - 1e-9, "{}", y.low);
            let frame = crate::frame::Frame { left: 0.0, top: 0.0, right: 9.0, bottom: 9.0, unit: 1.0 };
            let mut drawing = crate::drawing::Drawing::default();
            frame.band(&mut drawing, &plot.curves[0], &plot, (&x, &y), crate::palette::Pen::default());
            let [crate::drawing::Shape::Area { outline, .. }] = &drawing.shapes[..] else { panic!("{low}: no band") };
            // The band goes down to the axis and not below.
            assert!(outline.len() == 4 && outline.iter().any(|point| point.1 == 9.0), "{outline:?}");
            assert!(outline.iter().all(|point| point.1 <= 9.0), "{outline:?}");
        }
    }
}
