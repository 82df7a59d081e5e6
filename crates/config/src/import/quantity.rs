//! Rates, sizes and times as `tc` writes and reads them.

use tidegate_core::{Bytes, Rate, Span};

/// `text` times `scale`, exact but for what is below one; `None` where it is not a decimal number or does not fit.
fn scaled(text: &str, scale: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(part) {
        return None;
    }
    let whole = whole.parse::<u128>().ok()?.checked_mul(scale.into())?;
    let below = if part.is_empty() { 0 } else { part.parse::<u128>().ok()? };
    let part = below * u128::from(scale) / 10_u128.pow(part.len() as u32);
    u64::try_from(whole + part).ok()
}

/// The number and the unit of a quantity.
fn split(text: &str) -> (&str, String) {
    let at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    (&text[..at], text[at..].to_ascii_lowercase())
}

/// A rate such as `20Mbit`; a number alone is in bit/s, and `bps` means bytes, as in tc(8).
pub(super) fn rate(text: &str) -> Option<Rate> {
    let (number, unit) = split(text);
    let scale = match unit.as_str() {
        "" | "bit" => 1,
        "kbit" => 1_000,
        "mbit" => 1_000_000,
        "gbit" => 1_000_000_000,
        "tbit" => 1_000_000_000_000,
        "kibit" => 1 << 10,
        "mibit" => 1 << 20,
        "gibit" => 1 << 30,
        "bps" => 8,
        "kbps" => 8_000,
        "mbps" => 8_000_000,
        "gbps" => 8_000_000_000,
        _ => return None,
    };
    scaled(number, scale).map(Rate::from_bps)
}

/// A size such as `15Kb`, in powers of 1024; a number alone is in bytes.
pub(super) fn size(text: &str) -> Option<Bytes> {
    let (number, unit) = split(text);
    let scale = match unit.as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        _ => return None,
    };
    scaled(number, scale).map(Bytes::new)
}

/// A time such as `5ms`; a number alone is in microseconds.
pub(super) fn time(text: &str) -> Option<Span> {
    let (number, unit) = split(text);
    let scale = match unit.as_str() {
        "" | "us" | "usec" | "usecs" => 1_000,
        "ns" | "nsec" | "nsecs" => 1,
        "ms" | "msec" | "msecs" => 1_000_000,
        "s" | "sec" | "secs" => 1_000_000_000,
        _ => return None,
    };
    scaled(number, scale).map(Span::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_those_of_tc() {
        let bps = |text| rate(text).map(|rate| rate.as_bps());
        assert_eq!(bps("20Mbit"), Some(20_000_000));
        assert_eq!(bps("1.5mbit"), Some(1_500_000));
        // Bytes per second, as in tc(8).
        assert_eq!(bps("1mbps"), Some(8_000_000));
        assert_eq!((bps("5000"), bps("1furlong"), bps("-1mbit"), bps(".5mbit")), (Some(5_000), None, None, None));
        assert_eq!(bps("99999999999999999999gbit"), None);
        assert_eq!(size("15Kb"), Some(Bytes::new(15 * 1024)));
        assert_eq!((size("1600b"), size("10p")), (Some(Bytes::new(1_600)), None));
        assert_eq!((time("5ms"), time("4.99ms")), (Some(Span::from_millis(5)), Some(Span::from_micros(4_990))));
        assert_eq!((time("100"), time("10sec")), (Some(Span::from_micros(100)), Some(Span::from_millis(10_000))));
    }
}
