//! Names of measures and subjects as they stand in the heads of printed tables.

/// The names of measures by their first words, where these are not a name themselves.
const NAMES: [(&str, &str); 8] = [
    ("completion", "Completion time"),
    ("connect", "Connection time"),
    ("frames incomplete", "Incomplete frames"),
    ("page load", "Page load time"),
    ("queueing", "Queueing delay"),
    ("startup", "Startup time"),
    ("wait", "Waiting time"),
    ("rebuffering", "Rebuffering ratio"),
];

/// The name of a measure, of a subject unless it is empty: `Delay up of call, 99th pct.` for `delay up p99` of `flow call`.
pub(crate) fn measure(name: &str, of: &str) -> String {
    let (rest, statistic) = match name.rsplit_once(' ') {
        Some((rest, last)) => statistic(last).map_or((name, String::new()), |text| (rest, format!(", {text}"))),
        None => (name, String::new()),
    };
    let known = NAMES.iter().find_map(|(word, text)| {
        let after = rest.strip_prefix(word).filter(|after| after.is_empty() || after.starts_with(' '))?;
        Some(format!("{text}{after}"))
    });
    let mut text = known.unwrap_or_else(|| {
        let mut letters = rest.chars();
        letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
    });
    text += &statistic;
    if of.is_empty() { text } else { self::of(&text, subject(of)) }
}

/// A readable measure of a subject: `Delay of call, 99th pct.`.
pub(crate) fn of(measure: &str, of: &str) -> String {
    match measure.split_once(", ") {
        Some((name, statistic)) => format!("{name} of {of}, {statistic}"),
        None => format!("{measure} of {of}"),
    }
}

/// The last word of a measure, if it is a mean or a percentile.
fn statistic(word: &str) -> Option<String> {
    match word {
        "mean" => Some("mean".to_owned()),
        "p50" => Some("median".to_owned()),
        _ => {
            let share = word.strip_prefix('p').filter(|share| share.parse::<f64>().is_ok())?;
            Some(format!("{share}th pct."))
        }
    }
}

/// The name of a subject: a flow by its name alone.
pub(crate) fn subject(name: &str) -> &str {
    name.strip_prefix("flow ").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_words_and_not_keys() {
        for (name, of, expected) in [
            ("goodput", "", "Goodput"),
            ("delay up p99", "flow call", "Delay up of call, 99th pct."),
            ("completion <10kB p50", "", "Completion time <10kB, median"),
            ("queueing p99.9", "link a->b", "Queueing delay of link a->b, 99.9th pct."),
            ("bit rate mean", "", "Bit rate, mean"),
            ("MOS up lowest", "", "MOS up lowest"),
            ("R factor", "flow call", "R factor of call"),
            ("page load p90", "", "Page load time, 90th pct."),
            ("mean", "", "Mean"),
        ] {
            assert_eq!(measure(name, of), expected);
        }
    }
}
