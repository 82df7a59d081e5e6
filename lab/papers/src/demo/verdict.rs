//! The result of the demonstration in plain words.

use serde::Serialize;
use tidegate_control::answer::kind::of_code_point;
use tidegate_control::answer::{Evidence, Grade, Traffic};
use tidegate_display::{part, rate, wait};
use tidegate_units::Span;

use super::table::Row;

/// A flow is sent all that it asks for if no more than this part of its rate is missing, which is what a short measurement misses.
const ALL: f64 = 0.95;

/// The verdict: a sentence for each call, one for the transfers, one for those that ask for too much, and what follows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// The worst grade of the calls that stay within what they are promised.
    pub grade: Option<Grade>,
    /// The worst grade of the same calls without shaping.
    pub unshaped_grade: Option<Grade>,
    /// The load that kept this machine from sending and receiving in time; absent if nothing did.
    pub disturbance: Option<String>,
    /// The sentences, the conclusion last.
    pub text: Vec<String>,
}

/// The delay and the losses of a call in one part of the demonstration.
struct Measured {
    grade: Option<Grade>,
    delay: String,
    lost: String,
}

fn measured(delay_ns: u64, received: u64, missing: u64) -> Measured {
    let sent = (received + missing).max(1);
    let evidence = Evidence {
        wait: Span::from_nanos(delay_ns),
        jitter: Span::ZERO,
        lost_ppm: (u128::from(missing) * 1_000_000 / u128::from(sent)) as u64,
    };
    let lost = match missing {
        0 => "none is".to_owned(),
        _ => format!("{} are", part(missing as f64 / sent as f64)),
    };
    Measured { grade: Traffic::Calls.grade(&evidence), delay: wait(delay_ns), lost }
}

impl Measured {
    fn word(&self) -> &'static str {
        self.grade.map_or("not graded", Grade::word)
    }
}

/// Returns what the rows of the table mean. The wait that is graded is the 99th percentile of the delay. With a `disturbance` of
/// the machine, delays may be its own, and only what is good in spite of it is a result.
pub fn verdict(rows: &[Row], disturbance: Option<&str>) -> Verdict {
    let (mut text, mut greedy) = (Vec::new(), Vec::new());
    let (mut worst, mut unshaped): (Option<Grade>, Option<Grade>) = (None, None);
    for row in rows {
        let (Some(now), Some(before)) = (row.delay_p99_ns, row.unshaped_delay_p99_ns) else { continue };
        if !row.stays_within() {
            greedy.push(row);
            continue;
        }
        let Some(offered) = row.offered_bps else { continue };
        if of_code_point(row.dscp) == Some(Traffic::Calls) {
            let now = measured(now, row.packets_received, row.packets_missing);
            let before = measured(before, row.unshaped_packets_received, row.unshaped_packets_missing);
            worst = worst.into_iter().chain(now.grade).min();
            unshaped = unshaped.into_iter().chain(before.grade).min();
            text.push(format!(
                "{}: {}. 99 of 100 packets arrive within {}, and {} lost. Before shaping: {}, {}, and {} lost.",
                row.flow,
                now.word(),
                now.delay,
                now.lost,
                before.word(),
                before.delay,
                before.lost
            ));
        } else if row.achieved_bps >= offered * ALL {
            text.push(format!(
                "{}: receives all of its {}. Before shaping: {}.",
                row.flow,
                rate(offered as u64),
                rate(row.unshaped_bps as u64)
            ));
        }
    }
    let transfers: Vec<&Row> = rows.iter().filter(|row| row.offered_bps.is_none()).collect();
    if !transfers.is_empty() {
        let sum = |of: fn(&Row) -> f64| rate(transfers.iter().map(|row| of(row)).sum::<f64>() as u64);
        text.push(format!(
            "transfers ({}): {} together. Before shaping: {}.",
            names(&transfers),
            sum(|row| row.achieved_bps),
            sum(|row| row.unshaped_bps)
        ));
    }
    if !greedy.is_empty() {
        text.push(format!(
            "More than their share: {}. What they send too much waits in their own queues and is dropped there. This is why \
             their delays are long, and those of the others are not.",
            names(&greedy)
        ));
    }
    text.push(conclusion(worst, unshaped, disturbance));
    Verdict { grade: worst, unshaped_grade: unshaped, disturbance: disturbance.map(String::from), text }
}

fn conclusion(now: Option<Grade>, before: Option<Grade>, disturbance: Option<&str>) -> String {
    match (now, before) {
        (Some(now), Some(before)) if now > before => format!(
            "Verdict: on the full line calls are {} with shaping, and were {} without it.",
            now.word(),
            before.word()
        ),
        (Some(Grade::Good), _) => {
            "Verdict: calls are good with and without shaping. The line was not full enough to tell the \
             difference."
                .to_owned()
        }
        (Some(now), before) => {
            let before = before.map_or("not measured", Grade::word);
            let (now, why) = match disturbance {
                Some(why) => (now.word(), format!("this machine did not send and receive in time: {why}")),
                None => (now.word(), "the demonstration did not see why".to_owned()),
            };
            format!(
                "Verdict: none. Calls were {now} with shaping and {before} without it, which shaping does not explain: {why}. Run \
                 the demonstration again when the machine is idle."
            )
        }
        _ => "Verdict: no call was measured. Run the demonstration for longer, with --seconds 30.".to_owned(),
    }
}

fn names(rows: &[&Row]) -> String {
    rows.iter().map(|row| row.flow.as_str()).collect::<Vec<_>>().join(", ")
}

impl Row {
    /// Whether the flow sends no more than it is promised, so that it need not wait for its own packets.
    fn stays_within(&self) -> bool {
        match (self.offered_bps, self.promised_bps) {
            (Some(offered), Some(promised)) => offered <= promised,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(flow: &str, dscp: u8, offered: f64, promised: f64, now_ms: u64, before_ms: u64) -> Row {
        Row {
            flow: flow.into(),
            dscp,
            offered_bps: Some(offered),
            promised_bps: Some(promised),
            achieved_bps: offered.min(promised),
            unshaped_bps: offered / 2.0,
            delay_p99_ns: Some(now_ms * 1_000_000),
            unshaped_delay_p99_ns: Some(before_ms * 1_000_000),
            packets_received: 1_000,
            unshaped_packets_received: 860,
            unshaped_packets_missing: 140,
            ..Row::default()
        }
    }

    #[test]
    fn it_says_who_is_well_and_why_others_wait() {
        let tcp = |flow: &str| Row { flow: flow.into(), achieved_bps: 10e6, unshaped_bps: 1e6, ..Row::default() };
        let rows = [
            udp("voice", 46, 5e5, 2e6, 2, 21),
            udp("greedy", 46, 14e6, 5e6, 166, 21),
            udp("video", 10, 8e6, 9e6, 12, 21),
            tcp("web"),
            tcp("backup"),
        ];
        let found = verdict(&rows, None);
        assert_eq!(
            found.text,
            [
                "voice: good. 99 of 100 packets arrive within 2.00 ms, and none is lost. Before shaping: poor, 21.0 ms, and 14 % \
                 are lost.",
                "video: receives all of its 8.00 Mbit/s. Before shaping: 4.00 Mbit/s.",
                "transfers (web, backup): 20.0 Mbit/s together. Before shaping: 2.00 Mbit/s.",
                "More than their share: greedy. What they send too much waits in their own queues and is dropped there. This is \
                 why their delays are long, and those of the others are not.",
                "Verdict: on the full line calls are good with shaping, and were poor without it.",
            ]
        );
        assert_eq!((found.grade, found.unshaped_grade), (Some(Grade::Good), Some(Grade::Poor)));
    }

    #[test]
    fn it_does_not_praise_what_did_not_help() {
        let mut calm = udp("voice", 46, 5e5, 2e6, 2, 2);
        calm.unshaped_packets_missing = 0;
        let last = |rows: &[Row], why| verdict(rows, why).text.last().cloned().unwrap();
        assert!(verdict(std::slice::from_ref(&calm), None).text[0].contains("Before shaping: good"));
        assert!(last(&[calm.clone()], None).contains("not full enough"));
        assert!(last(&[], None).contains("no call was measured"));
        // A machine that stands still makes calls as bad with shaping as without it.
        let worse = Row { delay_p99_ns: Some(80_000_000), ..calm };
        let bad = Row { unshaped_delay_p99_ns: Some(90_000_000), ..worse.clone() };
        for rows in [worse, bad] {
            let said = last(std::slice::from_ref(&rows), Some("one processor stood still for 9 % of 6.0 s"));
            assert!(
                said.starts_with("Verdict: none.") && said.contains("in time: one processor stood still"),
                "{said}"
            );
            let said = last(&[rows], None);
            assert!(said.starts_with("Verdict: none.") && said.contains("did not see why"), "{said}");
        }
    }
}
