//! The classes of CBQ in the sharing of the link: who lends, who borrows, and who is over its limit.

use tidegate_control::calls::SharedClassStatus;
use tidegate_display::Table;

use crate::commands::top::show;

/// The classes as a tree, with what they lent and borrowed since the tree was built.
pub fn table(classes: &[SharedClassStatus]) -> Table {
    let measure = if classes.iter().any(|class| class.credit_bytes.is_some()) { ">credit" } else { ">avgidle" };
    let columns =
        ["class", ">promised", ">sent", ">borrowed", ">lent", ">overlimit", ">regulated", measure, ">over limit for"];
    let table = Table::new("", columns);
    let mut table = table.optional(["sent", "overlimit", &measure[1..], "promised"]).shorten("class", 12);
    // A class follows the one above it, so that this one's depth is known.
    let mut above: Vec<&str> = Vec::new();
    for class in classes {
        let depth = class.parent.as_deref().and_then(|parent| above.iter().position(|name| *name == parent));
        above.truncate(depth.map_or(0, |depth| depth + 1));
        let name = format!("{}{}", "  ".repeat(above.len()), class.name);
        above.push(&class.name);
        let measure = class.credit_bytes.map(credit).or_else(|| class.average_idle_ns.map(idle));
        let bytes = |bytes: tidegate_units::Bytes| tidegate_display::bytes(bytes.as_u64());
        table.row(
            [
                name,
                show::rate(class.rate),
                bytes(class.sent_bytes),
                bytes(class.borrowed_bytes),
                bytes(class.lent_bytes),
                tidegate_display::count(class.overlimit_packets),
                tidegate_display::count(class.regulated),
                measure.unwrap_or_default(),
                class.under_time.map(|wait| tidegate_display::wait(wait.as_nanos())).unwrap_or_default(),
            ]
            .map(Into::into),
        );
    }
    table
}

fn signed(value: i64, text: impl Fn(u64) -> String) -> String {
    format!("{}{}", if value < 0 { "-" } else { "" }, text(value.unsigned_abs()))
}

fn credit(bytes: i64) -> String {
    signed(bytes, tidegate_display::bytes)
}

fn idle(nanos: i64) -> String {
    signed(nanos, tidegate_display::wait)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_units::{Bytes, Rate, Span};

    #[test]
    fn the_tree_shows_lenders_and_borrowers() {
        let class = |name: &str, parent: Option<&str>| SharedClassStatus {
            name: name.into(),
            parent: parent.map(Into::into),
            rate: Rate::from_mbit(2),
            ..SharedClassStatus::default()
        };
        let classes = [
            SharedClassStatus { lent_bytes: Bytes::new(3_000_000), credit_bytes: Some(24_000), ..class("root", None) },
            class("agency", Some("root")),
            SharedClassStatus {
                borrowed_bytes: Bytes::new(3_000_000),
                credit_bytes: Some(-1_500),
                overlimit_packets: 2_000,
                regulated: 7,
                under_time: Some(Span::from_millis(6)),
                ..class("video", Some("agency"))
            },
            SharedClassStatus { credit_bytes: Some(0), ..class("data", Some("root")) },
        ];
        let text = table(&classes).text(None);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[3],
            "video 2.00 Mbit/s 0 B 3.00 MB 0 B 2000 7 -1.50 kB 6.00 ms".split(' ').collect::<Vec<_>>(),
            "{text}"
        );
        assert!(text.contains("\n    video ") && text.contains("\n  data "), "{text}");
        assert!(table(&classes).text(Some(60)).lines().all(|line| line.chars().count() <= 60));
    }
}
