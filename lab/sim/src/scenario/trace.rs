//! Workload traces: times and sizes from a file.

use tidegate_core::{Bytes, Span};

use crate::conditions::{seconds, timed_lines};

/// Reads lines `seconds,bytes` (see [`timed_lines`]), or JSON.
///
/// # Errors
/// The line or entry, and the problem.
pub fn parse(text: &str) -> Result<Vec<(Span, Bytes)>, String> {
    let entries = if text.trim_start().starts_with('[') { json(text)? } else { csv(text)? };
    match entries.windows(2).position(|pair| pair[0].0 > pair[1].0) {
        Some(index) => Err(format!("entry {}: earlier than the one before", index + 2)),
        None => Ok(entries),
    }
}

/// A number of bytes, where a packet or transfer can have that many.
fn size(bytes: f64) -> Option<Bytes> {
    (1.0..1e15).contains(&bytes).then(|| Bytes::new(bytes as u64))
}

fn csv(text: &str) -> Result<Vec<(Span, Bytes)>, String> {
    timed_lines(text, "seconds,bytes", |fields| size(fields.split([',', ';', '\t']).next()?.trim().parse().ok()?))
}

fn json(text: &str) -> Result<Vec<(Span, Bytes)>, String> {
    let list: Vec<serde_json::Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let read = |(index, value): (usize, &serde_json::Value)| {
        let pick = |at: usize, key: &str| value.get(at).or_else(|| value.get(key)).and_then(serde_json::Value::as_f64);
        let found = pick(0, "time").zip(pick(1, "size")).and_then(|(time, bytes)| Some((seconds(time)?, size(bytes)?)));
        found.ok_or_else(|| format!("entry {}: neither {{\"time\", \"size\"}} nor [seconds, bytes]", index + 1))
    };
    list.iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_and_json_are_equal() {
        let expected = vec![(Span::ZERO, Bytes::new(1500)), (Span::from_millis(250), Bytes::new(40_000))];
        assert_eq!(parse("time,size\n0,1500\n# pause\n0.25, 40000\n").unwrap(), expected);
        assert_eq!(parse("[[0, 1500], [0.25, 40000]]").unwrap(), expected);
        assert_eq!(parse(r#"[{"time": 0, "size": 1500}, {"size": 4e4, "time": 0.25}]"#).unwrap(), expected);
    }

    #[test]
    fn errors_have_the_line() {
        assert!(parse("0,1500\nsoon,1500").unwrap_err().starts_with("line 2"));
        assert!(parse("0,1500\n1").unwrap_err().starts_with("line 2"));
        assert!(parse("1,1500\n0,1500").unwrap_err().starts_with("entry 2: earlier"));
        assert!(parse("[[0, -1]]").unwrap_err().starts_with("entry 1"));
    }
}
