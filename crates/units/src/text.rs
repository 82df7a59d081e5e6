//! Text forms of rates, sizes and spans. A number without a unit is an error, because a wrong guess is a factor of
//! eight.
//!
//! | quantity | units |
//! | --- | --- |
//! | rate, in bits | `bit`, `kbit`, `mbit`, `gbit`, `tbit` (powers of 1000), `kibit`, `mibit`, `gibit` (of 1024); also with `/s`, and `b/s`, `kb/s`, `Mb/s`, `Gb/s` where the small `b` is a bit |
//! | rate, in bytes | `B/s`, `kB/s`, `KB/s`, `MB/s`, `GB/s` (powers of 1000), `KiB/s`, `MiB/s`, `GiB/s` |
//! | size | `B`, `kB`, `KB`, `MB`, `GB`, `TB` (powers of 1000), `KiB`, `MiB`, `GiB`, `TiB`; and as in `tc`, in small letters: `b`, `k`, `kb`, `m`, `mb`, `g`, `gb` (powers of 1024) |
//! | span | `ns`, `us`, `µs`, `ms`, `s`, `min`, `h`, `d` |
//!
//! `mbps`, with letters of any size, is an error: people read it as megabits and `tc` as megabytes.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use crate::quantity::{Bytes, Rate, Span};

/// Why a text is not a valid quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnitProblem {
    /// The text does not begin with a number.
    NoNumber,
    /// The number is negative.
    Negative,
    /// The number has no unit.
    NoUnit,
    /// The unit is unknown.
    UnknownUnit,
    /// `M` and the like, without bits or bytes.
    NoBase,
    /// `mbps` and the like: bits to people, bytes to `tc`.
    AmbiguousUnit,
    /// More than 64 bits of the base unit.
    TooLarge,
    /// Finer than the base unit: half a bit, a tenth of a nanosecond.
    TooFine,
}

/// An invalid quantity. `Display` states the problem and a valid example.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitError {
    /// The reason.
    pub problem: UnitProblem,
    /// The expected quantity: `rate`, `size` or `time`.
    pub wanted: &'static str,
    /// The invalid text.
    pub text: String,
}

impl UnitError {
    /// The number and the prefix of a rate without bits or bytes: `20` and `m` of `20 M`.
    fn without_base(&self) -> Option<(&str, char)> {
        let text = self.text.trim();
        let at = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').filter(|_| self.wanted == "rate")?;
        let (number, unit) = text.split_at(at);
        let prefix = unit.trim().chars().next()?.to_ascii_lowercase();
        matches!(prefix, 'k' | 'm' | 'g' | 't').then_some((number, prefix))
    }
    /// A valid text for this quantity.
    pub fn example(&self) -> &'static str {
        match self.wanted {
            "rate" => "20mbit, 512kbit or 2MB/s",
            "size" => "1500B, 64KiB or 3kB",
            _ => "10ms, 250us or 30s",
        }
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { problem, wanted, text } = self;
        match problem {
            UnitProblem::NoNumber => write!(f, "{wanted} `{text}` does not begin with a number"),
            UnitProblem::Negative => write!(f, "{wanted} `{text}` is negative"),
            UnitProblem::NoUnit => write!(f, "{wanted} `{text}` has no unit"),
            UnitProblem::UnknownUnit => write!(f, "{wanted} `{text}` has an unknown unit"),
            UnitProblem::NoBase => {
                write!(f, "{wanted} `{text}` does not say whether it is in bits or in bytes")?;
                if let Some((number, prefix)) = self.without_base() {
                    return write!(
                        f,
                        "; write {number}{prefix}bit for bits per second, {number}{}B/s for bytes",
                        if prefix == 'k' { 'k' } else { prefix.to_ascii_uppercase() }
                    );
                }
                Ok(())
            }
            UnitProblem::AmbiguousUnit => {
                write!(f, "{wanted} `{text}` is ambiguous: people mean bits by it, tc means bytes")
            }
            UnitProblem::TooLarge => write!(f, "{wanted} `{text}` is too large"),
            UnitProblem::TooFine => write!(f, "{wanted} `{text}` is finer than the smallest unit"),
        }?;
        write!(f, "; write for example {}", self.example())
    }
}

impl core::error::Error for UnitError {}

/// Splits `text` into number and unit and multiplies exactly by the `scale` of the unit.
fn parse(wanted: &'static str, text: &str, scale: impl Fn(&str) -> Result<u64, UnitProblem>) -> Result<u64, UnitError> {
    let fail = |problem| UnitError { problem, wanted, text: text.to_string() };
    let trimmed = text.trim();
    if let Some(rest) = trimmed.strip_prefix(['-', '\u{2212}']) {
        let negative = rest.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '.');
        return Err(fail(if negative { UnitProblem::Negative } else { UnitProblem::NoNumber }));
    }
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.bytes().filter(u8::is_ascii_digit).count();
    if digits(whole) + digits(fraction) == 0 || fraction.contains('.') {
        return Err(fail(UnitProblem::NoNumber));
    }
    let unit = unit.trim();
    if unit.is_empty() {
        return Err(fail(UnitProblem::NoUnit));
    }
    let scale = u128::from(scale(unit).map_err(fail)?);
    // value = mantissa * scale / tens, where the division must come out even.
    let fraction = fraction.trim_end_matches(['0', '_']);
    let (mut mantissa, mut tens) = (0_u128, 1_u128);
    for (part, below_one) in [(whole, false), (fraction, true)] {
        for digit in part.bytes().filter(u8::is_ascii_digit) {
            mantissa = mantissa * 10 + u128::from(digit - b'0');
            if below_one {
                tens *= 10;
            }
            // Every 64-bit number has at most 20 digits; more are too many on either side of the point.
            if mantissa > 1_u128 << 80 || tens > 1_u128 << 80 {
                return Err(fail(if below_one { UnitProblem::TooFine } else { UnitProblem::TooLarge }));
            }
        }
    }
    // 80 bits of mantissa times at most 47 bits of scale.
    let scaled = mantissa * scale;
    if !scaled.is_multiple_of(tens) {
        return Err(fail(UnitProblem::TooFine));
    }
    u64::try_from(scaled / tens).map_err(|_| fail(UnitProblem::TooLarge))
}

const K: u64 = 1_000;
const KI: u64 = 1_024;

fn rate_scale(unit: &str) -> Result<u64, UnitProblem> {
    let bits = |prefix: &str| match prefix {
        "" => Some(1),
        "k" | "K" => Some(K),
        "m" | "M" => Some(K * K),
        "g" | "G" => Some(K * K * K),
        "t" | "T" => Some(K * K * K * K),
        "ki" | "Ki" => Some(KI),
        "mi" | "Mi" => Some(KI * KI),
        "gi" | "Gi" => Some(KI * KI * KI),
        _ => None,
    };
    if unit.to_ascii_lowercase().ends_with("bps") {
        return Err(UnitProblem::AmbiguousUnit);
    }
    let base = unit.strip_suffix("/s").unwrap_or(unit);
    if bits(base).is_some() {
        return Err(UnitProblem::NoBase);
    }
    let per_second = base.len() != unit.len();
    if let Some(prefix) = base.strip_suffix("bits").or_else(|| base.strip_suffix("bit")) {
        return bits(prefix).ok_or(UnitProblem::UnknownUnit);
    }
    if let Some(prefix) = base.strip_suffix("Bit") {
        return bits(prefix).ok_or(UnitProblem::UnknownUnit);
    }
    if per_second {
        if let Some(prefix) = base.strip_suffix('B') {
            return bits(prefix).map(|n| 8 * n).ok_or(UnitProblem::UnknownUnit);
        }
        if let Some(prefix) = base.strip_suffix('b') {
            return bits(prefix).ok_or(UnitProblem::UnknownUnit);
        }
    }
    Err(UnitProblem::UnknownUnit)
}

fn size_scale(unit: &str) -> Result<u64, UnitProblem> {
    Ok(match unit {
        "b" | "B" | "byte" | "bytes" => 1,
        "k" | "kb" | "KiB" | "Ki" => KI,
        "m" | "mb" | "MiB" | "Mi" => KI * KI,
        "g" | "gb" | "GiB" | "Gi" => KI * KI * KI,
        "kB" | "KB" => K,
        "MB" => K * K,
        "GB" => K * K * K,
        "TiB" => KI * KI * KI * KI,
        "TB" => K * K * K * K,
        _ => return Err(UnitProblem::UnknownUnit),
    })
}

fn span_scale(unit: &str) -> Result<u64, UnitProblem> {
    Ok(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" | "sec" | "secs" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(UnitProblem::UnknownUnit),
    })
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse("rate", text, rate_scale).map(Rate::from_bps)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse("size", text, size_scale).map(Bytes::new)
    }
}

impl FromStr for Span {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse("time", text, span_scale).map(Span::from_nanos)
    }
}

/// Writes `value` in the largest of `units` in which it needs at most three decimals, so that the text is exact.
fn write_exact(f: &mut fmt::Formatter<'_>, value: u64, units: &[(u64, &str)], base: &str) -> fmt::Result {
    for (scale, unit) in units {
        let step = scale / 1_000;
        if value >= *scale && step > 0 && value.is_multiple_of(step) {
            let (whole, thousandths) = (value / scale, value % scale / step);
            let mut text = alloc::format!("{whole}");
            if thousandths != 0 {
                text.push_str(alloc::format!(".{thousandths:03}").trim_end_matches('0'));
            }
            text.push_str(unit);
            return f.pad(&text);
        }
    }
    f.pad(&alloc::format!("{value}{base}"))
}

impl fmt::Display for Rate {
    /// Exact, in the largest unit that needs at most three decimals; parses back to the same rate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_exact(f, self.as_bps(), &[(K * K * K, "gbit"), (K * K, "mbit"), (K, "kbit")], "bit")
    }
}

impl fmt::Display for Bytes {
    /// Exact, in the largest decimal unit that needs at most three decimals; parses back to the same size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_exact(f, self.as_u64(), &[(K * K * K, "GB"), (K * K, "MB"), (K, "kB")], "B")
    }
}

impl fmt::Display for Span {
    /// Exact, in the largest unit up to seconds that needs at most three decimals; parses back to the same span.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_exact(f, self.as_nanos(), &[(K * K * K, "s"), (K * K, "ms"), (K, "us")], "ns")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn rates_people_write() {
        for (text, bps) in [
            ("20mbit", 20_000_000),
            ("20Mbit/s", 20_000_000),
            ("1.5mbit", 1_500_000),
            ("0.1gbit", 100_000_000),
            ("512 kbit", 512_000),
            ("1_000bit", 1_000),
            ("2MB/s", 16_000_000),
            ("2 MiB/s", 16_777_216),
            ("1.5MiB/s", 12_582_912),
            ("0.25kibit", 256),
            ("10Mb/s", 10_000_000),
            ("56kbit", 56_000),
            (".5mbit", 500_000),
        ] {
            assert_eq!(text.parse::<Rate>().map(Rate::as_bps), Ok(bps), "{text}");
        }
    }

    #[test]
    fn a_rate_without_bits_or_bytes_is_told_what_to_write() {
        let said = "20M".parse::<Rate>().unwrap_err().to_string();
        assert!(said.ends_with("; write 20mbit for bits per second, 20MB/s for bytes"), "{said}");
        let said = "1.5 k/s".parse::<Rate>().unwrap_err().to_string();
        assert!(said.ends_with("; write 1.5kbit for bits per second, 1.5kB/s for bytes"), "{said}");
        assert_eq!("1.5kB/s".parse::<Rate>().map(Rate::as_bps), Ok(12_000));
    }

    #[test]
    fn refusals_say_why() {
        for (text, problem) in [
            ("20", UnitProblem::NoUnit),
            ("", UnitProblem::NoNumber),
            ("fast", UnitProblem::NoNumber),
            ("-5mbit", UnitProblem::Negative),
            ("5parsec", UnitProblem::UnknownUnit),
            ("20M", UnitProblem::NoBase),
            ("20 k/s", UnitProblem::NoBase),
            ("10Mbps", UnitProblem::AmbiguousUnit),
            ("19mbps", UnitProblem::AmbiguousUnit),
            ("19bps", UnitProblem::AmbiguousUnit),
            ("0.5bit", UnitProblem::TooFine),
            ("1.2.3mbit", UnitProblem::NoNumber),
            ("99999999999gbit", UnitProblem::TooLarge),
            ("10MB", UnitProblem::UnknownUnit),
        ] {
            assert_eq!(text.parse::<Rate>().map_err(|e| e.problem), Err(problem), "{text}");
        }
        let error = "20".parse::<Rate>().unwrap_err().to_string();
        assert_eq!(error, "rate `20` has no unit; write for example 20mbit, 512kbit or 2MB/s");
    }

    #[test]
    fn sizes_and_spans() {
        assert_eq!("1500B".parse(), Ok(Bytes::new(1500)));
        assert_eq!("64k".parse(), Ok(Bytes::new(65_536)));
        assert_eq!("3kB".parse(), Ok(Bytes::new(3_000)));
        assert_eq!("0.5KiB".parse(), Ok(Bytes::new(512)));
        assert_eq!("2.5ms".parse(), Ok(Span::from_micros(2_500)));
        assert_eq!("10\u{b5}s".parse(), Ok(Span::from_micros(10)));
        assert!("10".parse::<Span>().is_err());
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_back(n in any::<u64>()) {
            prop_assert_eq!(Rate::from_bps(n).to_string().parse(), Ok(Rate::from_bps(n)));
            prop_assert_eq!(Bytes::new(n).to_string().parse(), Ok(Bytes::new(n)));
            prop_assert_eq!(Span::from_nanos(n).to_string().parse(), Ok(Span::from_nanos(n)));
        }

        #[test]
        fn no_text_panics(text in "[-0-9.]{0,25}[a-zA-Z/ ]{0,6}") {
            let _ = text.parse::<Rate>();
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Span>();
        }
    }
}
