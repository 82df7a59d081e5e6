//! Formats numbers for machines, and computes quantiles.

/// Sorts `values` and returns the least, the lower quartile, the median, the upper quartile and the greatest, with
/// linear interpolation. Values that were not reached are infinite, and so is what lies between one of them and another. Returns `None` if
/// there are no values.
pub(crate) fn quantiles(values: &mut [f64]) -> Option<[f64; 5]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)? as f64;
    let at = |part: f64| {
        let place = part * last;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        match values[above] {
            above if above.is_infinite() => above,
            above => values[below] + (above - values[below]) * (place - place.floor()),
        }
    };
    Some([0.0, 0.25, 0.5, 0.75, 1.0].map(at))
}

/// Formats `value`, rounded to nine significant digits, as the shortest text that parses to it.
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
    fn numbers_for_machines_keep_nine_digits() {
        assert_eq!(exact(0.1 + 0.2), "0.3");
        assert_eq!(exact(1_234_567_891.4), "1234567890");
        assert_eq!(exact(1e-9), "1e-9");
        assert_eq!(exact(-0.0), "0");
    }
}
