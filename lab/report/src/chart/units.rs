//! The units of numbers in tables, and the axes in these units.

use tidegate_display::unit_of_all;

use crate::model::Axis;

/// The units that texts of numbers may have, such as those of the axes of a sweep: each as a multiple of a unit of results.
const UNITS: [(&str, f64, &str); 13] = [
    ("kbit", 1e3, "bps"),
    ("mbit", 1e6, "bps"),
    ("gbit", 1e9, "bps"),
    ("bit", 1.0, "bps"),
    ("ns", 1.0, "ns"),
    ("us", 1e3, "ns"),
    ("ms", 1e6, "ns"),
    ("s", 1e9, "ns"),
    ("kB", 1e3, "B"),
    ("MB", 1e6, "B"),
    ("B", 1.0, "B"),
    ("%", 0.01, ""),
    ("", 1.0, ""),
];

/// The unit of results that the name of a quantity of curves ends with.
pub(super) fn of_results(unit: &str) -> &str {
    match unit {
        "rate_bps" => "bps",
        "delay_ns" | "value_ns" => "ns",
        "time_s" => "s",
        unit => unit,
    }
}

/// The name of a column without the unit that it ends with, and this unit.
pub(super) fn named_unit(name: &str) -> Option<(&str, &'static str)> {
    let ends = [("_ns", "ns"), ("_s", "s"), ("_bytes", "B"), ("_bps", "bps")];
    ends.into_iter().find_map(|(end, unit)| Some((name.strip_suffix(end)?, unit)))
}

/// The number that a text means, in its unit of results.
pub(crate) fn number_in(text: &str) -> Option<(f64, &'static str)> {
    let read = |(word, scale, unit): (&str, f64, &'static str)| {
        Some((text.strip_suffix(word)?.trim().parse::<f64>().ok()? * scale, unit))
    };
    UNITS.into_iter().find_map(read).filter(|(value, _)| value.is_finite())
}

/// The number that a text means, with its unit.
pub(super) fn number(text: &str) -> Option<f64> {
    number_in(text).map(|(value, _)| value)
}

/// The labels of texts along an axis: numbers of one kind in one unit, which is in the title then.
pub(super) struct Labels {
    pub(super) texts: Vec<String>,
    unit: String,
}

impl Labels {
    pub(super) fn new(texts: &[String]) -> Self {
        let found: Option<Vec<(f64, &str)>> = texts.iter().map(|text| number_in(text)).collect();
        let found = found.filter(|all| all.iter().all(|(_, unit)| *unit == all[0].1 && !unit.is_empty()));
        let Some(all) = found else { return Self { texts: texts.to_vec(), unit: String::new() } };
        let values = || all.iter().map(|(value, _)| *value);
        let (scale, unit) = unit_of_all(values(), all.first().map_or("", |(_, unit)| unit));
        // Nine digits are more than people write, and leave out what division by the unit adds.
        let text = |value: f64| ((value / scale * 1e9).round() / 1e9).to_string();
        Self { texts: values().map(text).collect(), unit: unit.to_owned() }
    }
    /// The title with the unit, unless it has it.
    pub(super) fn titled(&self, title: String) -> String {
        match self.unit.is_empty() || title.ends_with(&self.unit) {
            true => title,
            false => format!("{title}, {}", self.unit),
        }
    }
}

/// The axis of values in a unit of results, and the factor for them. Times are in the unit in which the greatest is at
/// least 1.
pub(super) fn scaled_axis(title: String, unit: &str, log: bool, most: f64) -> (Axis, f64) {
    let (unit, scale) = match unit {
        "ns" if most >= 1e9 => ("s", 1e-9),
        "ns" if most >= 1e6 => ("ms", 1e-6),
        "ns" if most >= 1e3 => ("\u{b5}s", 1e-3),
        "bps" => ("bit/s", 1.0),
        "1" => ("", 1.0),
        unit => (unit, 1.0),
    };
    (if log { Axis::log(title, unit) } else { Axis::new(title, unit) }, scale)
}
