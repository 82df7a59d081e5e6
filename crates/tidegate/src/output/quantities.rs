//! Quantities of a running shaper, as every table, screen and message shows them.

use std::net::IpAddr;

use tidegate_control::view::{Promise, Shown, Value};
use tidegate_display::Table;
use tidegate_units::Span;

use super::wait;

/// The addresses that a name has, as the end of a sentence: the first eight of them.
pub fn addresses(all: &[IpAddr]) -> String {
    const SHOWN: usize = 8;
    let first: Vec<String> = all.iter().take(SHOWN).map(ToString::to_string).collect();
    match all.len() {
        0 => "has no address that is known now".into(),
        1..=SHOWN => format!("has {} now", first.join(", ")),
        more => format!("has {} and {} more now", first.join(", "), more - SHOWN),
    }
}

/// A quantity as every table, screen and message shows it, with its unit.
pub fn shown(value: &Value<'_>) -> String {
    let none = || "-".to_owned();
    match value {
        Value::Text(text) => text.to_string(),
        Value::Rate(rate) => rate.map_or_else(none, |rate| tidegate_display::rate(rate.as_bps())),
        Value::Number(number) => number.map_or_else(none, tidegate_display::count),
        Value::Backlog(bytes) | Value::Bytes(bytes) => tidegate_display::bytes(bytes.as_u64()),
        // A wait that was measured is never zero.
        Value::Wait(Span::ZERO) => none(),
        Value::Wait(span) => wait(*span),
        Value::Part(part) => part.map_or_else(none, tidegate_display::part),
        Value::Packets(packets) => tidegate_display::count(*packets),
        Value::Promise(promise) => kept(*promise),
        Value::Grade(grade) => grade.map_or_else(none, |grade| grade.word().to_owned()),
    }
}

/// Whether a promise was kept: in how many seconds not, if not in all.
fn kept(promise: Promise) -> String {
    match promise {
        Promise { kept: 0, missed: 0 } => "-".into(),
        Promise { missed: 0, .. } => "kept".into(),
        Promise { missed, .. } => format!("-{} s", tidegate_display::count(missed)),
    }
}

/// A table with these columns, a heading and a quantity each, and a row for each of `items`.
pub fn table<'a, Q: Copy, T: Shown<Q> + 'a>(
    columns: &[(&str, Q)],
    items: impl IntoIterator<Item = &'a T>,
    text: fn(&Value<'_>) -> String,
) -> Table {
    let mut table = Table::new("", columns.iter().map(|(heading, _)| *heading));
    for item in items {
        table.row(columns.iter().map(|(_, quantity)| text(&item.value(*quantity)).into()));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_kept_or_its_missed_seconds_are_counted() {
        assert_eq!(
            [(0, 0), (5, 0), (5, 12)].map(|(kept, missed)| shown(&Value::Promise(Promise { kept, missed }))),
            ["-", "kept", "-12 s"]
        );
    }
}
