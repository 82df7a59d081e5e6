//! The coupled queues of DualPI2, in `status`, `top` and `explain`.

use tidegate_control::calls::{CoupledQueues, Flow};
use tidegate_control::view::{CoupledQuantity, CoupledRow};
use tidegate_display::{Table, wrapped};

use crate::output::{self, shown};

const COLUMNS: [(&str, CoupledQuantity); 9] = [
    ("class", CoupledQuantity::Class),
    ("queue", CoupledQuantity::Queue),
    (">packets", CoupledQuantity::QueuePackets),
    (">oldest", CoupledQuantity::Delay),
    (">mean wait", CoupledQuantity::Wait),
    (">sent", CoupledQuantity::SentPackets),
    (">marked", CoupledQuantity::Marked),
    (">dropped", CoupledQuantity::Dropped),
    (">probability", CoupledQuantity::Probability),
];

/// The flows under sanction that are listed.
const FLOWS: usize = 8;

/// The queues of `classes`, each with its name, and the flows under sanction. Empty where no class has such queues.
pub fn text<'a>(
    classes: impl IntoIterator<Item = (&'a str, Option<&'a CoupledQueues>)>,
    width: Option<usize>,
) -> String {
    let classes: Vec<_> = classes.into_iter().filter_map(|(name, queues)| Some((name, queues?))).collect();
    if classes.is_empty() {
        return String::new();
    }
    let rows: Vec<CoupledRow<'_>> = classes.iter().flat_map(|(name, queues)| CoupledRow::of(name, queues)).collect();
    let table: Table = output::table(&COLUMNS, &rows, shown)
        .optional(["sent", "class", "dropped", "mean wait", "probability"])
        .shorten("class", 12);
    let mut text = table.text(width);
    for flows in classes.iter().map(|(_, queues)| &queues.flows).filter(|flows| !flows.is_empty()) {
        let mut names: Vec<String> = flows.iter().take(FLOWS).map(Flow::to_string).collect();
        if flows.len() > FLOWS {
            names.push(format!("{} more", flows.len() - FLOWS));
        }
        text.push_str(&wrapped(&format!("under sanction: {}", names.join(", ")), width));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_control::calls::{CoupledQueue, Queued};
    use tidegate_units::{Bytes, Span};

    #[test]
    fn the_queues_and_who_is_under_sanction_are_shown() {
        let queue = |packets: u64, delay: u64, marked: u64| CoupledQueue {
            queue: Queued { packets, bytes: Bytes::new(1_500 * packets) },
            delay: Span::from_micros(delay),
            wait: Span::from_micros(delay / 2),
            sent_packets: 1_000,
            marked_packets: marked,
            ..CoupledQueue::default()
        };
        let flow = |n: u16| Flow { key: format!("{n:016x}"), ..Flow::default() };
        let queues = CoupledQueues {
            low_latency: queue(3, 840, 77),
            classic: CoupledQueue { dropped_packets: 9, ..queue(21, 15_200, 0) },
            coupled_ppm: 123_000,
            classic_ppm: 3_782,
            flows: (0..10).map(flow).collect(),
            ..CoupledQueues::default()
        };
        let classes = [("web", None), ("all", Some(&queues))];
        let told = text(classes, None);
        let lines: Vec<String> =
            told.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines[1..4],
            [
                "all low-latency 3 840 µs 420 µs 1000 77 0 12 %",
                "all classic 21 15.2 ms 7.60 ms 1000 0 9 0.4 %",
                "all sanctioned 0 - - 0 0 0 -"
            ],
            "{told}"
        );
        assert!(lines[4].starts_with("under sanction: flow 0000000000000000, ") && lines[4].ends_with(", 2 more"));
        assert!(text(classes, Some(60)).lines().all(|line| line.chars().count() <= 60));
        assert_eq!(text([("web", None)], None), "");
    }
}
