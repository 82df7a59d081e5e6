//! `tidegate explain --rate`: why a rate that follows the line is what it is.

use std::io::Write;
use std::path::Path;

use tidegate_autorate::Side;
use tidegate_control::calls::{FollowDecision, FollowStatus};
use tidegate_daemon::follow_status;
use tidegate_display::Table;
use tidegate_replay::decisions::Verdict;
use tidegate_replay::recording::{Reader, RecordingError};
use tidegate_replay::source::Kind;

use crate::Failure;
use crate::commands::connect::Connect;
use crate::commands::replay::{look, next_part};
use crate::commands::top::show;
use crate::output::width;

/// Explains the rates of the running shaper.
pub(super) fn explain(connect: &Connect, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let status = connect.open()?.status()?;
    let following = status.directions.into_iter().filter_map(|one| Some((one.name, one.follow?))).collect::<Vec<_>>();
    if following.is_empty() {
        let text = "no rate follows the line; add `follow = { from = \"5mbit\", to = \"80mbit\" }` to [shaper]";
        return Err(Failure::Failed(text.into()));
    }
    print(&following, true, json, out)
}

/// Explains the rates at the end of a recording, by decisions that are made again.
pub(super) fn of_recording(file: &Path, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let name = file.display();
    let Kind::Recording(whole) = look(file)? else {
        return Err(Failure::Usage(format!("{name}: --rate is for a recording of `tidegate run --record`")));
    };
    let wrong = |error: RecordingError| Failure::Failed(format!("{name}: {error}"));
    let mut reader = Reader::with_parts(whole, next_part(file)).map_err(wrong)?;
    while let Some(record) = reader.next_record() {
        if let Err(error) = record {
            message!("tidegate: {name}: {error}");
        }
    }
    let decisions = reader.decisions();
    match decisions.verdict() {
        Verdict::Equal => {}
        Verdict::EqualUpTo(0) => {
            return Err(Failure::Failed(format!(
                "{name}: the beginning of the recording is missing; give its first file"
            )));
        }
        Verdict::EqualUpTo(call) => {
            message!("tidegate: {name}: from call {call} on calls are missing; this is before it")
        }
        Verdict::Different(difference) => {
            return Err(Failure::Failed(format!("{name}: this version decides otherwise: {difference}")));
        }
    }
    let status = |side: Side| {
        let status = follow_status(decisions.controller(), side, decisions.now(), decisions.recent(side), 0)?;
        Some((side.name().to_owned(), status))
    };
    let following: Vec<_> = Side::BOTH.into_iter().filter_map(status).collect();
    if following.is_empty() {
        return Err(Failure::Failed(format!("{name}: no rate follows the line in this recording")));
    }
    print(&following, false, json, out)
}

/// Prints states; `probes` is whether it is known how many probes were sent.
fn print(following: &[(String, FollowStatus)], probes: bool, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if json {
        let mut object = serde_json::Map::new();
        for (name, follow) in following {
            let mut follow = serde_json::json!(follow);
            if let Some(follow) = follow.as_object_mut().filter(|_| !probes) {
                follow.remove("probes");
            }
            object.insert(name.clone(), follow);
        }
        writeln!(out, "{:#}", serde_json::Value::Object(object))?;
        return Ok(());
    }
    for (name, follow) in following {
        write!(out, "{}", text(name, follow, probes, width()))?;
    }
    Ok(())
}

/// The state and the last decisions of a direction.
fn text(name: &str, follow: &FollowStatus, probed: bool, width: Option<usize>) -> String {
    let FollowStatus { allowed, least, base, most, achieved, peers, probes, reason, .. } = follow;
    let [allowed, least, base, most, achieved] = [allowed, least, base, most, achieved].map(|rate| show::rate(*rate));
    let time = |span: Option<tidegate_units::Span>| span.map_or("unknown".into(), crate::output::wait);
    let mut text = format!(
        "{name}: {allowed} allowed, between {least} and {most}, base {base}\n\
         because {reason} ({} ago)\n\
         carried lately: {achieved}; delay of the line's queue: {}; least round trip: {}\n\
         peers that answered within 300 ms: {peers}{}\n",
        crate::output::wait(follow.changed),
        time(follow.delay),
        time(follow.floor),
        if probed { format!("; probes sent: {probes}") } else { String::new() },
    );
    if !follow.recent.is_empty() {
        let mut table = Table::new("", [">ago", ">from", ">to", "cause", ">carried", ">delay"]);
        for FollowDecision { ago, from, to, cause, achieved, delay } in &follow.recent {
            let delay = delay.map_or("-".into(), crate::output::wait);
            let row = [
                crate::output::wait(*ago),
                show::rate(*from),
                show::rate(*to),
                cause.clone(),
                show::rate(*achieved),
                delay,
            ];
            table.row(row.map(Into::into));
        }
        text.push_str(&table.text(width));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_units::{Rate, Span};

    #[test]
    fn the_reason_and_the_last_changes_are_there() {
        let decision = FollowDecision {
            ago: Span::from_millis(400),
            from: Rate::from_mbit(12),
            to: Rate::from_mbit(9),
            cause: "delay".into(),
            achieved: Rate::from_mbit(11),
            delay: Some(Span::from_millis(42)),
        };
        let follow = FollowStatus {
            allowed: Rate::from_mbit(9),
            least: Rate::from_mbit(1),
            base: Rate::from_mbit(5),
            most: Rate::from_mbit(20),
            reason: "the line has a queue".into(),
            recent: vec![decision],
            ..FollowStatus::default()
        };
        let text = text("up", &follow, true, None);
        assert!(
            text.starts_with(
                "up: 9.00 Mbit/s allowed, between 1.00 Mbit/s and 20.0 Mbit/s, base 5.00 Mbit/s\nbecause the line"
            ),
            "{text}"
        );
        assert!(text.contains("least round trip: unknown") && text.contains("42.0 ms"), "{text}");
    }
}
