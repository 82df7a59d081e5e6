//! Numbers for people.

/// Formats a value in a suitable unit with four digits: `12.35 ms`, `9.733 Mbit/s`. Units are those of
/// machine-readable output (`bps`, `ns`) or of an axis (`bit/s`, `s`, `B`, `packets`, `1`).
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
}
