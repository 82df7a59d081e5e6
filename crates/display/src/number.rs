//! Numbers for people. Infinity is a percentile of which the measurement saw no end: *not reached*.

/// Formats a value in a suitable unit with four digits: `12.35 ms`, `9.733 Mbit/s`. Units are those of
/// machine-readable output (`bps`, `ns`) or of an axis (`bit/s`, `s`, `B`, `packets`, `1`).
pub fn human(value: f64, unit: &str) -> String {
    let (scale, unit) = unit_of(value, unit);
    with_unit(digits(value / scale), unit)
}

/// Formats a value in a unit that [`unit_of_all`] has chosen for several.
pub fn human_in(value: f64, unit: (f64, &str)) -> String {
    human_known(value, None, 0.0, unit)
}

/// Formats a mean with half the width of its interval in one unit, with the digits of [`known`]: `41.0 ± 4.3 ms`. Equal values have no
/// interval, and no `±`.
pub fn human_interval(mean: f64, half: f64, unit: &str) -> String {
    human_known(mean, Some(half), 0.0, unit_of(mean.abs().max(half.abs()), unit))
}

/// Formats a mean, with half the width of its interval if there is one, in a unit that [`unit_of_all`] has chosen for several. The mean
/// may be wrong by a share of itself, such as the width of a bin of a histogram, whose first digit is the last one that is written.
pub fn human_known(mean: f64, half: Option<f64>, share: f64, (scale, unit): (f64, &str)) -> String {
    match known(mean / scale, half.map(|half| half / scale), share) {
        (mean, Some(half)) => with_unit(format!("{mean} \u{b1} {half}"), unit),
        (mean, None) => with_unit(mean, unit),
    }
}

/// Formats a mean and half the width of its interval like [`human_known`], for columns of their own. The second is empty without an
/// interval.
pub fn human_columns(mean: f64, half: Option<f64>, share: f64, (scale, unit): (f64, &str)) -> [String; 2] {
    let (mean, half) = known(mean / scale, half.map(|half| half / scale), share);
    [with_unit(mean, unit), half.map_or(String::new(), |half| with_unit(half, unit))]
}

/// Formats a mean and half the width of its interval, which are in one unit: the latter with two significant digits, and the mean to the
/// same place, whether that is a decimal, tens or hundreds (the *Guide to the Expression of Uncertainty in Measurement*, 7.2.6). Decimals
/// end where the greater of both has five digits, and digits where `share` says that the mean may be wrong. There is no interval of values
/// that are equal.
pub fn known(mean: f64, half: Option<f64>, share: f64) -> (String, Option<String>) {
    let most = most_places(mean, share);
    let Some(half) = half.filter(|half| *half > 0.0) else {
        return (if most < 0 { rounded(mean, most) } else { digits_to(mean, most as usize) }, None);
    };
    written(mean, half, places_by(mean, half).min(most))
}

/// The decimals of a mean by half the width of its interval, or tens, hundreds and so on if they are negative.
fn places_by(mean: f64, half: f64) -> i32 {
    // Rounding to two digits may add one before them: 9.96 is 10.
    let first = power(half);
    let first = if half / 10_f64.powi(first) < 9.95 { first } else { first + 1 };
    (1 - first).min((4 - power(mean.abs().max(half))).max(0)).min(9)
}

/// Formats a mean and half the width of its interval to the same place.
fn written(mean: f64, half: f64, places: i32) -> (String, Option<String>) {
    let step = 10_f64.powi(-places);
    let half = if half < step / 2.0 { format!("< {}", rounded(step, places)) } else { rounded(half, places) };
    (rounded(mean, places), Some(half))
}

/// How several values of one quantity are written, so that a column of them can be compared: in one unit and to the same place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Alike<'a> {
    unit: (f64, &'a str),
    places: i32,
    share: f64,
}

impl<'a> Alike<'a> {
    /// Chooses the unit of means, each with half the width of its interval if there is one, and the most decimals that [`known`] gives to any
    /// of them, as far as the greatest has five digits. `share` is that of [`human_known`].
    pub fn of(values: &[(f64, Option<f64>)], share: f64, unit: &'a str) -> Self {
        Self::in_unit(values, share, unit_of_all(values.iter().map(|(mean, _)| *mean), unit))
    }

    /// Chooses the decimals as [`of`](Self::of) does, in a unit that [`unit_of_all`] has chosen for more values than these.
    pub fn in_unit(values: &[(f64, Option<f64>)], share: f64, unit: (f64, &'a str)) -> Self {
        let scaled = values.iter().filter(|(mean, _)| mean.is_finite()).map(|(mean, half)| {
            let half = half.filter(|half| *half > 0.0);
            (mean / unit.0, half.map(|half| half / unit.0))
        });
        let decimals = |text: &str| text.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
        let places = scaled.clone().filter_map(|(mean, half)| match half {
            Some(half) => Some(places_by(mean, half).min(most_places(mean, share))),
            None => Some(known(mean, None, share).0).filter(|text| !text.contains('e')).map(|text| decimals(&text)),
        });
        let greatest = scaled.map(|(mean, half)| mean.abs().max(half.unwrap_or(0.0))).fold(0.0, f64::max);
        // Where values may be wrong by a share of themselves, the greatest has four.
        let first = if share > 0.0 { 3 } else { 4 };
        let most = if greatest > 0.0 { (first - power(greatest)).max(0) } else { 9 };
        Self { unit, places: places.max().unwrap_or(0).min(most), share }
    }

    /// Formats one of the values: `41.0 ± 4.3 ms`.
    pub fn text(&self, mean: f64, half: Option<f64>) -> String {
        match self.numbers(mean, half) {
            (mean, Some(half)) => with_unit(format!("{mean} \u{b1} {half}"), self.unit.1),
            (mean, None) => with_unit(mean, self.unit.1),
        }
    }

    /// Formats one of the values for columns of their own. The second is empty without an interval.
    pub fn columns(&self, mean: f64, half: Option<f64>) -> [String; 2] {
        let (mean, half) = self.numbers(mean, half);
        [with_unit(mean, self.unit.1), half.map_or(String::new(), |half| with_unit(half, self.unit.1))]
    }

    /// Formats one of the values without the unit.
    pub fn numbers(&self, mean: f64, half: Option<f64>) -> (String, Option<String>) {
        let (mean, half) = (mean / self.unit.0, half.filter(|half| *half > 0.0).map(|half| half / self.unit.0));
        match half {
            // An interval that these places would hide has its own, and so has its mean.
            Some(half) if half < 0.5 * 10_f64.powi(-self.places) => {
                written(mean, half, self.places.max(places_by(mean, half).min(most_places(mean, self.share))))
            }
            Some(half) => written(mean, half, self.places),
            // A number that these places would round to 0 keeps its own.
            None if mean.is_infinite() || (mean != 0.0 && mean.abs() < 0.5 * 10_f64.powi(-self.places)) => {
                (digits(mean), None)
            }
            None => (rounded(mean, self.places), None),
        }
    }
}

/// The most decimals of a mean that may be wrong by a share of itself: the last is that of the first digit that may be wrong.
fn most_places(mean: f64, share: f64) -> i32 {
    let wrong = mean.abs() * share;
    if wrong > 0.0 && wrong.is_finite() { -power(wrong) } else { 9 }
}

/// The place of the first digit of a positive number: 2 for hundreds, -1 for tenths.
fn power(value: f64) -> i32 {
    value.log10().floor() as i32
}

/// Formats a number with so many decimals or, if `places` is negative, rounded to tens, hundreds and so on.
fn rounded(value: f64, places: i32) -> String {
    if places >= 0 {
        return without_sign(format!("{value:.0$}", places as usize));
    }
    let step = 10_f64.powi(-places);
    without_sign(format!("{:.0}", (value / step).round() * step))
}

/// A number that was rounded to zero has no sign.
fn without_sign(text: String) -> String {
    let is_zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
    text.strip_prefix('-').filter(|_| is_zero).map(str::to_owned).unwrap_or(text)
}

/// Text for an infinite value.
pub const NOT_REACHED: &str = "not reached";

/// A number and its unit, which shares and numbers that were not reached do not have.
pub fn with_unit(number: String, unit: &str) -> String {
    match unit {
        "1" | "" => number,
        _ if number == NOT_REACHED => number,
        "packets" if number == "1" => "1 packet".to_owned(),
        _ => format!("{number} {unit}"),
    }
}

/// The scale and the name of the unit in which a value is read best. Several values in one unit take that of the greatest.
pub fn unit_of(value: f64, unit: &str) -> (f64, &str) {
    let steps: &[(f64, &str)] = match unit {
        "bps" | "bit/s" => &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")],
        "ns" => &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")],
        "s" if value == 0.0 => &[(1.0, "s")],
        "s" => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")],
        "B" => &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")],
        "1" => return (1.0, ""),
        unit => return (1.0, unit),
    };
    *steps.iter().find(|(scale, _)| value.abs() >= *scale).unwrap_or(&steps[steps.len() - 1])
}

/// The scale and the name of the unit in which several values can be compared: that of the greatest, or a smaller one in which the least
/// has no more than two zeros behind the point.
pub fn unit_of_all(values: impl Iterator<Item = f64>, unit: &str) -> (f64, &str) {
    let none = (0.0_f64, f64::INFINITY);
    let sizes = values.map(f64::abs).filter(|value| value.is_finite() && *value > 0.0);
    let (most, least) = sizes.fold(none, |(most, least), value| (most.max(value), least.min(value)));
    let (by_most, by_least) = (unit_of(most, unit), unit_of((least * 1e3).min(most), unit));
    if by_least.0 < by_most.0 { by_least } else { by_most }
}

/// Three digits in the first unit of `units`, each a thousand of the one before, in which the value is below a thousand. Whole
/// numbers in the first unit have no point.
fn scaled(value: u64, units: &[&str]) -> String {
    let (mut value, mut step) = (value as f64, 0);
    while value >= 999.5 && step + 1 < units.len() {
        (value, step) = (value / 1e3, step + 1);
    }
    let places = match value {
        _ if step == 0 => 0,
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.places$} {}", units[step])
}

/// Formats a rate with three digits: `19.0 Mbit/s`. Screens, pages and messages have this form for all rates.
pub fn rate(bps: u64) -> String {
    scaled(bps, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

/// Formats a rate like [`rate`], with as many more digits as its value has: for sums, whose terms must add up.
pub fn exact_rate(bps: u64) -> String {
    let units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
    let step = (1..units.len()).take_while(|step| bps >= 10_u64.pow(3 * *step as u32)).count();
    let unit = 10_u64.pow(3 * step as u32);
    let (whole, rest) = (bps / unit, bps % unit);
    if step == 0 {
        return format!("{whole} {}", units[step]);
    }
    let decimals = format!("{rest:0width$}", width = 3 * step);
    // At least three digits in all, as other rates have.
    let least = 3_usize.saturating_sub(whole.to_string().len());
    let needed = decimals.trim_end_matches('0').len().max(least);
    let point = if needed == 0 { "" } else { "." };
    format!("{whole}{point}{} {}", &decimals[..needed], units[step])
}

/// Formats bytes with three digits: `209 kB`.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes, &["B", "kB", "MB", "GB", "TB"])
}

/// Formats a wait with up to three digits: `3.21 ms`.
pub fn wait(nanos: u64) -> String {
    match nanos {
        0 => "0 ms".to_owned(),
        nanos if nanos < 999_500 => format!("{:.0} µs", nanos as f64 / 1e3),
        // The first unit of `scaled` is whole.
        nanos => scaled(nanos.saturating_add(500) / 1_000, &["µs", "ms", "s", "ks"]),
    }
}

/// Formats a count: all digits up to 99,999, three of a greater one.
pub fn count(count: u64) -> String {
    if count < 100_000 { count.to_string() } else { scaled(count, &["", "k", "M", "G", "T"]).trim_end().to_owned() }
}

/// Formats a part of a whole in percent: `61 %`, with a decimal below ten.
pub fn part(part: f64) -> String {
    let percent = part * 100.0;
    if percent == 0.0 {
        "0 %".to_owned()
    } else if percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// Formats a number with four digits, without trailing zeros after the point.
pub fn digits(value: f64) -> String {
    digits_to(value, usize::MAX)
}

/// Formats a number like [`digits`], with at most so many decimals.
fn digits_to(value: f64, most: usize) -> String {
    let places = match value.abs() {
        f64::INFINITY => return NOT_REACHED.to_owned(),
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        v if v >= 1.0 || v == 0.0 => 3,
        v if v >= 1e-3 => 4,
        _ => return format!("{value:.3e}"),
    };
    let places = places.min(most);
    let text = without_sign(format!("{value:.places$}"));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_and_its_interval_have_one_unit_and_the_digits_of_the_interval() {
        for ((mean, half, unit), text) in [
            ((41e6, 4.279e6, "ns"), "41.0 ± 4.3 ms"),
            ((9.707e6, 87e3, "bps"), "9.707 ± 0.087 Mbit/s"),
            ((900.0, 5e6, "ns"), "0.0 ± 5.0 ms"),
            ((-900.0, 5e6, "ns"), "0.0 ± 5.0 ms"),
            ((129.0, 0.0, "packets"), "129 packets"),
            ((1.0, 0.0, "packets"), "1 packet"),
            ((10_160_173.0, 39.0, "ns"), "10.160 ± < 0.001 ms"),
            ((8_325.0, 43.0, "packets"), "8325 ± 43 packets"),
            // Two digits of the interval before the point, too.
            ((698e6, 1393e6, "ns"), "0.7 ± 1.4 s"),
            ((698.0, 1393.0, "packets"), "700 ± 1400 packets"),
            ((123_456.0, 789.0, "packets"), "123460 ± 790 packets"),
            ((123_456.0, 7.0, "packets"), "123456 ± 7 packets"),
            ((41e6, 9.96e6, "ns"), "41 ± 10 ms"),
            ((412.0, 99.6, "packets"), "410 ± 100 packets"),
        ] {
            assert_eq!(human_interval(mean, half, unit), text);
        }
    }

    /// A percentile is one of bins that are 1/64 apart: 0.33 at 20.97.
    #[test]
    fn a_number_has_no_digits_below_the_width_of_its_bin() {
        let said = |mean: f64, half| human_known(mean, half, 1.0 / 64.0, (1e6, "ms"));
        assert_eq!(said(20.97e6, Some(5e3)), "21.0 \u{b1} < 0.1 ms");
        assert_eq!(said(20.97e6, Some(250e3)), "21.0 \u{b1} 0.2 ms");
        assert_eq!(said(20.97e6, Some(4.28e6)), "21.0 \u{b1} 4.3 ms");
        assert_eq!(
            (said(20.97e6, None), said(1.2126e6, None), said(1_043e6, None)),
            ("21 ms".into(), "1.21 ms".into(), "1040 ms".into())
        );
        assert_eq!(human_known(20.97e6, Some(5e3), 0.0, (1e6, "ms")), "20.970 \u{b1} 0.005 ms");
        assert_eq!(said(f64::INFINITY, None), NOT_REACHED);
        assert_eq!(said(0.0, None), "0 ms");
    }

    /// The values of a column can be compared digit by digit, though each alone would have its own number of digits.
    #[test]
    fn values_of_one_quantity_have_equally_many_decimals() {
        let all = |values: &[(f64, Option<f64>)], share, unit| {
            let alike = Alike::of(values, share, unit);
            values.iter().map(|(mean, half)| alike.text(*mean, *half)).collect::<Vec<_>>()
        };
        let said = all(&[(5e6, Some(1e4)), (80e3, None), (4.9e6, Some(3e5))], 0.0, "bps");
        assert_eq!(said, ["5.000 \u{b1} 0.010 Mbit/s", "0.080 Mbit/s", "4.900 \u{b1} 0.300 Mbit/s"]);
        // The greatest has five digits. An interval that would be hidden by that has its own.
        let said = all(&[(1_085.3e6, Some(107.8e6)), (13.012e6, Some(2e3)), (f64::INFINITY, None)], 0.0, "ns");
        assert_eq!(said, ["1.0853 \u{b1} 0.1078 s", "0.013012 \u{b1} 0.000002 s", NOT_REACHED]);
        // A percentile is one of bins, of which 86 has no decimal.
        assert_eq!(all(&[(86.3e6, Some(5e6)), (22e6, None)], 1.0 / 64.0, "ns"), ["86 \u{b1} 5 ms", "22 ms"]);
        assert_eq!(all(&[(249.56e6, None), (3.181e6, None)], 1.0 / 64.0, "ns"), ["249.6 ms", "3.2 ms"]);
        assert_eq!(all(&[(698.0, Some(1393.0)), (1e4, Some(2e3))], 0.0, "packets")[0], "700 \u{b1} 1400 packets");
        assert_eq!(Alike::of(&[(1.0, Some(0.5))], 0.0, "1").columns(0.001, None), ["0.001".to_owned(), String::new()]);
        assert_eq!(all(&[], 0.0, "ns"), Vec::<String>::new());
        assert_eq!(all(&[(0.0, None)], 0.0, "ns"), ["0 ns"]);
    }

    /// A percentile that was not reached has no unit, and does not choose that of others.
    #[test]
    fn infinity_is_not_reached() {
        assert_eq!(
            (human(f64::INFINITY, "ns").as_str(), human_in(f64::INFINITY, (1e6, "ms")).as_str()),
            (NOT_REACHED, NOT_REACHED)
        );
        assert_eq!(unit_of_all([2e6, f64::INFINITY].into_iter(), "ns"), (1e6, "ms"));
    }

    #[test]
    fn several_values_have_one_unit_in_which_the_least_has_digits() {
        for (values, unit, said) in [
            (&[9.4e6, 80e3][..], "bps", "9.4 Mbit/s, 0.08 Mbit/s"),
            (&[2e9, 12e3], "ns", "2000 ms, 0.012 ms"),
            (&[0.0, 5e6], "ns", "0 ms, 5 ms"),
            (&[0.0], "s", "0 s"),
            (&[120.0, 3.0], "packets", "120 packets, 3 packets"),
        ] {
            let one = unit_of_all(values.iter().copied(), unit);
            let all: Vec<String> = values.iter().map(|value| human_in(*value, one)).collect();
            assert_eq!(all.join(", "), said);
        }
        assert_eq!(human_known(80e3, Some(1e3), 0.0, (1e6, "Mbit/s")), "0.0800 \u{b1} 0.0010 Mbit/s");
    }

    #[test]
    fn a_quantity_has_three_digits_and_a_unit() {
        let rates = [0, 999, 999_499, 999_500, 19_000_000, 208_864_000, 1_234_567_890].map(rate);
        assert_eq!(
            rates,
            ["0 bit/s", "999 bit/s", "999 kbit/s", "1.00 Mbit/s", "19.0 Mbit/s", "209 Mbit/s", "1.23 Gbit/s"]
        );
        let exact = [0, 999, 19_000_000, 999_500, 7_992_000, 100_000_000, 1_234_567_891].map(exact_rate);
        assert_eq!(
            exact,
            ["0 bit/s", "999 bit/s", "19.0 Mbit/s", "999.5 kbit/s", "7.992 Mbit/s", "100 Mbit/s", "1.234567891 Gbit/s"]
        );
        assert_eq!([0, 780, 45_208, 208_864].map(bytes), ["0 B", "780 B", "45.2 kB", "209 kB"]);
        let waits = [0, 400, 15_000, 999_499, 999_500, 3_210_000, 12_340_000, 123_400_000, 2_500_000_000].map(wait);
        assert_eq!(waits, ["0 ms", "0 µs", "15 µs", "999 µs", "1.00 ms", "3.21 ms", "12.3 ms", "123 ms", "2.50 s"]);
        assert_eq!([0, 99_999, 100_000, 1_234_567].map(count), ["0", "99999", "100 k", "1.23 M"]);
        assert_eq!([0.0, 0.031, 0.0995, 0.614, 1.0].map(part), ["0 %", "3.1 %", "10 %", "61 %", "100 %"]);
    }

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
