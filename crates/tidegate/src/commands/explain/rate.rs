//! `tidegate explain --rate`: why a rate that follows the line is what it is.

use std::io::Write;

use tidegate_control::calls::{FollowDecision, FollowStatus};
use tidegate_display::Table;

use crate::Failure;
use crate::commands::connect::Connect;
use crate::commands::top::show;
use crate::output::width;

/// Explains the rates of the directions that follow their line.
pub(super) fn explain(connect: &Connect, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let status = connect.open()?.status()?;
    let following: Vec<_> =
        status.directions.iter().filter_map(|one| Some((&one.name, one.follow.as_ref()?))).collect();
    if following.is_empty() {
        let text = "no rate follows the line; add `follow = { from = \"5mbit\", to = \"80mbit\" }` to [shaper]";
        return Err(Failure::Failed(text.into()));
    }
    if json {
        let object: serde_json::Map<_, _> =
            following.iter().map(|(name, follow)| ((*name).clone(), serde_json::json!(follow))).collect();
        writeln!(out, "{:#}", serde_json::Value::Object(object))?;
        return Ok(());
    }
    for (name, follow) in following {
        write!(out, "{}", text(name, follow, width()))?;
    }
    Ok(())
}

/// The state and the last decisions of a direction.
fn text(name: &str, follow: &FollowStatus, width: Option<usize>) -> String {
    let FollowStatus { allowed, least, base, most, achieved, peers, probes, reason, .. } = follow;
    let [allowed, least, base, most, achieved] = [allowed, least, base, most, achieved].map(|rate| show::rate(*rate));
    let time = |span: Option<tidegate_units::Span>| span.map_or("unknown".into(), crate::output::wait);
    let mut text = format!(
        "{name}: {allowed} allowed, between {least} and {most}, base {base}\n\
         because {reason} ({} ago)\n\
         carried lately: {achieved}; delay of the line's queue: {}; least round trip: {}\n\
         peers that answered within 300 ms: {peers}; probes sent: {probes}\n",
        crate::output::wait(follow.changed),
        time(follow.delay),
        time(follow.floor),
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
        let text = text("up", &follow, None);
        assert!(
            text.starts_with(
                "up: 9.00 Mbit/s allowed, between 1.00 Mbit/s and 20.0 Mbit/s, base 5.00 Mbit/s\nbecause the line"
            ),
            "{text}"
        );
        assert!(text.contains("least round trip: unknown") && text.contains("42.0 ms"), "{text}");
    }
}
