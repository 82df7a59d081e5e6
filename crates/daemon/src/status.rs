//! `status`: the counts of every class, at most 20 ms old however many ask.

use std::time::{Duration, Instant};

use tidegate_config::shaper::Root;
use tidegate_control::calls::{ClassStatus, DirectionStatus, DropCount, Status, StatusQuery};
use tidegate_control::protocol::Refusal;
use tidegate_core::DropReason;
use tidegate_engine::ClassStatus as EngineStatus;
use tidegate_units::{Rate, Span};

use crate::apply::Trial;
use crate::daemon::{Daemon, Direction};

/// For so long the last answer is good enough: the data path is asked at most this often.
const FRESH: Duration = Duration::from_millis(20);

pub(crate) fn answer(daemon: &mut Daemon, _: StatusQuery) -> Result<Status, Refusal> {
    let cached = daemon.status_cache.as_ref().filter(|(time, _)| time.elapsed() < FRESH);
    let directions = match cached {
        Some((_, directions)) => directions.clone(),
        None => {
            let directions = daemon.directions.iter().map(direction).collect::<Vec<_>>();
            daemon.status_cache = Some((Instant::now(), directions.clone()));
            directions
        }
    };
    Ok(Status {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        interface: daemon.interface().into(),
        file: daemon.settings.file.display().to_string(),
        uptime: Span::from_nanos(u64::try_from(daemon.started.elapsed().as_nanos()).unwrap_or(u64::MAX)),
        in_force: daemon.trouble.is_none(),
        trouble: daemon.trouble.clone(),
        trial: daemon.trial.as_ref().map(Trial::left),
        directions,
        control: daemon.server_counters(),
    })
}

/// Without classes while it is not shaped; `trouble` says why.
fn direction(direction: &Direction) -> DirectionStatus {
    let asked = direction.ask(|pipeline, _| {
        let unpromised: Vec<Rate> = pipeline.tree().classes().iter().map(|class| class.unpromised).collect();
        (pipeline.status(), unpromised)
    });
    let (classes, unpromised) = asked.unwrap_or_default();
    let classes = classes.iter().enumerate().map(|(n, status)| class(status, unpromised.get(n).copied())).collect();
    let rate = match &direction.config.root {
        Root::Shaper(shaper) => Some(shaper.rate),
        Root::Discipline(_) => None,
    };
    let awaited = direction.shaping.iter().flat_map(|shaping| &shaping.proof().awaited);
    let unproven = awaited.map(|(version, why)| format!("{version}: {why}")).collect();
    DirectionStatus { name: direction.name.clone(), rate, unproven, classes }
}

/// A class in the words of the protocol.
pub fn class(status: &EngineStatus, unpromised: Option<Rate>) -> ClassStatus {
    let counts = &status.counts;
    let dropped = DropReason::ALL.iter().map(|reason| {
        let account = counts.accounts.dropped[*reason as usize];
        DropCount { reason: reason.name().into(), packets: account.packets, bytes: account.bytes }
    });
    ClassStatus {
        name: status.name.clone(),
        rate: status.rate,
        unpromised,
        flows: status.flows,
        enqueued_packets: counts.accounts.enqueued.packets,
        enqueued_bytes: counts.accounts.enqueued.bytes,
        through_packets: counts.through.packets,
        through_bytes: counts.through.bytes,
        queue_packets: counts.backlog.packets,
        queue_bytes: counts.backlog.bytes,
        dropped: dropped.filter(|count| count.packets > 0).collect(),
        marked_packets: counts.marked,
        remarked_packets: counts.remarked,
        wait_p50: counts.waited_at(0.5),
        wait_p99: counts.waited_at(0.99),
    }
}
