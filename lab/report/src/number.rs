//! Numbers for people.

/// Formats a value in a suitable unit with four digits: `12.35 ms`, `9.733 Mbit/s`. Units are those of
/// machine-readable output (`bps`, `ns`) or of an [axis](crate::Axis) (`bit/s`, `s`, `B`, `packets`, `1`).
pub fn human(value: f64, unit: &str) -> String {
    let scaled = |steps: &[(f64, &str)]| {
        let (scale, unit) = steps.iter().find(|(scale, _)| value.abs() >= *scale).unwrap_or(&steps[steps.len() - 1]);
        format!("{} {unit}", digits(value / scale))
    };
    match unit {
        "bps" | "bit/s" => scaled(&[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")]),
        "ns" => scaled(&[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")]),
        "s" if value == 0.0 => "0 s".to_owned(),
        "s" => scaled(&[(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")]),
        "B" => scaled(&[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")]),
        "1" | "" => digits(value),
        unit => format!("{} {unit}", digits(value)),
    }
}

/// Formats a number with four digits, without trailing zeros after the point.
pub fn digits(value: f64) -> String {
    let places = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        v if v >= 1.0 || v == 0.0 => 3,
        v if v >= 1e-3 => 4,
        _ => return format!("{value:.3e}"),
    };
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Least, lower quartile, median, upper quartile and greatest of `values`, which are sorted; between two values in
/// proportion. `None` without any.
pub(crate) fn quantiles(values: &mut [f64]) -> Option<[f64; 5]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)? as f64;
    let at = |part: f64| {
        let place = part * last;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        values[below] + (values[above] - values[below]) * (place - place.floor())
    };
    Some([0.0, 0.25, 0.5, 0.75, 1.0].map(at))
}

/// The shortest text that parses to `value` rounded to nine significant digits.
pub(crate) fn exact(value: f64) -> String {
    let rounded: f64 = format!("{value:.8e}").parse().unwrap_or(value);
    if rounded == 0.0 {
        "0".to_owned()
    } else if (1e-4..1e15).contains(&rounded.abs()) {
        rounded.to_string()
    } else {
        format!("{rounded:e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people_have_four_digits_and_a_unit() {
        assert_eq!(human(9_733_333.0, "bps"), "9.733 Mbit/s");
        assert_eq!(human(0.0, "bit/s"), "0 bit/s");
        assert_eq!(human(12_345_678.0, "ns"), "12.35 ms");
        assert_eq!(human(0.012_345_678, "s"), "12.35 ms");
        assert_eq!(human(0.0, "s"), "0 s");
        assert_eq!(human(123_456.0, "packets"), "123456 packets");
        assert_eq!(human(1_500.0, "B"), "1.5 kB");
        assert_eq!(human(0.97, "1"), "0.97");
        assert_eq!(human(0.000_012_3, "1"), "1.230e-5");
    }

    #[test]
    fn numbers_for_machines_keep_nine_digits() {
        assert_eq!(exact(0.1 + 0.2), "0.3");
        assert_eq!(exact(1_234_567_891.4), "1234567890");
        assert_eq!(exact(1e-9), "1e-9");
        assert_eq!(exact(-0.0), "0");
    }
}
