//! The curves of an outcome, with their names.

use tidegate_metrics::{Curve, Points};

/// A curve over time of a subject, or of one of its parts.
pub(super) fn over_time(
    subject: &str,
    measure: &'static str,
    part: impl Into<String>,
    y: &'static str,
    points: Points,
) -> Curve {
    let part = part.into();
    // Colours and flow numbers have no "of": scripts parse files with these names.
    let name = match part.as_str() {
        "" => format!("{subject} {measure}"),
        "green" | "yellow" | "red" => format!("{subject} {measure} {part}"),
        _ if measure == "goodput" => format!("{subject} {part} {measure}"),
        _ => format!("{subject} {measure} of {part}"),
    };
    let (name, variant) = (format!("{name} over time"), String::new());
    Curve { name, variant, subject: subject.to_owned(), measure, part, x: "time_s", y, points }
}

/// The distribution of a measure of a subject.
pub(super) fn distribution(subject: &str, measure: &'static str, points: Points) -> Curve {
    Curve {
        name: format!("{subject} {measure} distribution"),
        variant: String::new(),
        subject: subject.to_owned(),
        measure,
        part: String::new(),
        x: "value_ns",
        y: "share",
        points,
    }
}
