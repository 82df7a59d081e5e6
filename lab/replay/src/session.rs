//! Replays a source through several configurations at once, or a recording through its own configuration.

use std::io::{Read, Write};

use tidegate_capture::write::WriteError;
use tidegate_config::shaper::Config;
use tidegate_engine::BuildFailure;
use tidegate_units::Instant;

use crate::decisions::Decisions;
use crate::departures::{Departures, Origin};
use crate::exact::{Exact, Replayer};
use crate::meter::{Departure, Keep};
use crate::recording::{PacketOutcome, Reader, Record, RecordingError, Setup};
use crate::run::{Outcome, Run, Settings};
use crate::source::{Notice, Source, SourceError};

/// A configuration through which a source is replayed.
pub struct Part {
    /// The name of the configuration in reports.
    pub name: String,
    /// The configuration.
    pub config: Config,
    /// The settings of its run.
    pub settings: Settings,
}

/// Callbacks and outputs of a session.
pub struct Hooks<'a, W: Write> {
    /// Receives remarks about the source.
    pub notice: &'a mut dyn FnMut(Notice),
    /// Waits for this time of the source in real time; `None` in virtual time.
    pub pace: Option<&'a mut dyn FnMut(Instant)>,
    /// The capture to which departures are written.
    pub departures: Option<&'a mut Departures<W>>,
}

/// The result of a session.
#[derive(Debug)]
pub struct Session {
    /// The number of packets of the source.
    pub packets: u64,
    /// The results of each configuration.
    pub outcomes: Vec<Outcome>,
    /// The error because of which the source was not read to its end.
    pub broken: Option<SourceError>,
}

/// Why a session failed.
#[derive(Debug)]
pub enum SessionError {
    /// The engine of the named configuration cannot be built.
    Build(String, BuildFailure),
    /// Departures cannot be written.
    Write(WriteError),
}

impl std::fmt::Display for SessionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Build(name, failure) => write!(f, "{name}: {failure}"),
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SessionError {}

/// Replays every packet of `source` through every configuration.
///
/// # Errors
/// If an engine cannot be built, or departures cannot be written. A source that cannot be read to its end is reported in the
/// result.
pub fn replay<R: Read, W: Write>(
    source: &mut Source<R>,
    parts: &[Part],
    mut hooks: Hooks<'_, W>,
) -> Result<Session, SessionError> {
    let mut runs = Vec::new();
    for part in parts {
        let run = Run::new(&part.config, &part.settings, Instant::ZERO);
        runs.push(run.map_err(|failure| SessionError::Build(part.name.clone(), failure))?);
    }
    let (mut packets, mut broken) = (0, None);
    let mut batch = Vec::new();
    loop {
        let wall_clock = source.wall_clock();
        let arrival = match source.next_arrival(hooks.notice) {
            None => break,
            Some(Err(error)) => {
                broken = Some(error);
                break;
            }
            Some(Ok(arrival)) => arrival,
        };
        if hooks.pace.is_some() {
            keep_pace(Some(arrival.time), parts, &mut runs, &mut hooks, wall_clock, &mut batch)?;
        }
        packets += 1;
        let mut out = 0;
        for run in &mut runs {
            out += run.arrive(arrival.time, arrival.number, &arrival.meta);
        }
        if let Some(departures) = &mut hooks.departures {
            let key = (0, arrival.number);
            departures.keep(key, arrival.link, arrival.bytes, arrival.length, arrival.network, &arrival.meta, out);
            let wall_clock = source.wall_clock();
            drain(parts, &mut runs, departures, wall_clock, &mut batch).map_err(SessionError::Write)?;
        }
    }
    if hooks.pace.is_some() {
        keep_pace(None, parts, &mut runs, &mut hooks, source.wall_clock(), &mut batch)?;
    }
    for run in &mut runs {
        run.finish();
    }
    if let Some(departures) = &mut hooks.departures {
        drain(parts, &mut runs, departures, source.wall_clock(), &mut batch).map_err(SessionError::Write)?;
    }
    let outcomes = runs.iter().zip(parts).map(|(run, part)| run.outcome(&part.name)).collect();
    Ok(Session { packets, outcomes, broken })
}

/// Sends the packets that are due before `until`, or all if that is `None`, each at its time in real time; then waits until
/// `until`.
fn keep_pace<W: Write>(
    until: Option<Instant>,
    parts: &[Part],
    runs: &mut [Run],
    hooks: &mut Hooks<'_, W>,
    wall_clock: u64,
    batch: &mut Vec<(usize, Departure)>,
) -> Result<(), SessionError> {
    let Some(pace) = &mut hooks.pace else { return Ok(()) };
    let mut before = None;
    while let Some(due) = runs.iter().filter_map(Run::due).min().filter(|due| until.is_none_or(|until| *due < until)) {
        // A discipline that returns the same deadline again and again makes no progress.
        if before.replace(due) == Some(due) {
            break;
        }
        pace(due);
        for run in &mut *runs {
            run.run_until(due + tidegate_units::Span::from_nanos(1));
        }
        if let Some(departures) = &mut hooks.departures {
            drain(parts, runs, departures, wall_clock, batch).map_err(SessionError::Write)?;
        }
    }
    if let Some(until) = until {
        pace(until);
    }
    Ok(())
}

/// Writes the departures since the last call, of all configurations in the order of time.
fn drain<W: Write>(
    parts: &[Part],
    runs: &mut [Run],
    to: &mut Departures<W>,
    wall_clock: u64,
    batch: &mut Vec<(usize, Departure)>,
) -> Result<(), WriteError> {
    for (number, run) in runs.iter_mut().enumerate() {
        batch.extend(run.take_departures().map(|departure| (number, departure)));
    }
    batch.sort_by_key(|(number, departure)| (departure.time, *number));
    for (number, departure) in batch.drain(..) {
        let run = &runs[number];
        let from = Origin {
            number,
            name: &parts[number].name,
            classes: run.engine().class_names(),
            mtu: run.mtu(),
            wall_clock,
            start: Instant::ZERO,
            engine: 0,
        };
        to.write(&from, &departure)?;
    }
    Ok(())
}

/// The result of repeating a recording.
#[derive(Debug)]
pub struct Again {
    /// The comparison of its departures with those of the recording.
    pub exact: Exact,
    /// The measurements of its last engine; `None` if none was built.
    pub outcome: Option<Outcome>,
    /// The setup of its first engine.
    pub setup: Option<Setup>,
    /// The number of packets that arrived.
    pub packets: u64,
    /// The number of records that were read.
    pub records: u64,
    /// The decisions of a rate that follows the line, made again.
    pub decisions: Decisions,
    /// The error because of which the recording was not read to its end.
    pub broken: Option<RecordingError>,
}

/// Repeats a recording with its own configuration ([`exact`](crate::exact)), and writes what leaves to `departures`, on an
/// interface called `name`.
///
/// # Errors
/// If departures cannot be written.
pub fn again<R: Read, W: Write>(
    reader: &mut Reader<R>,
    name: &str,
    keep: Keep,
    mut departures: Option<&mut Departures<W>>,
) -> Result<Again, WriteError> {
    let keep = Keep { departures: departures.is_some(), ..keep };
    let mut replayer = Replayer::new(keep);
    let (mut broken, mut packets, mut setup) = (None, 0, reader.head().setup.clone());
    loop {
        let record = reader.position().0;
        let next = match reader.next_record() {
            Some(Ok(next)) => next,
            Some(Err(error)) => {
                broken = Some(error);
                break;
            }
            None => break,
        };
        let engine = replayer.engines();
        if let (Some(to), Record::Arrives { number, meta, .. }) = (&mut departures, &next) {
            let length = meta.length.max(u32::try_from(reader.bytes().len()).unwrap_or(u32::MAX));
            let raw = Some(tidegate_capture::LinkType::Raw);
            to.keep((engine, *number), raw, reader.bytes(), length, 0, meta, 1);
        }
        if let Record::Setup(built) = &next {
            setup.get_or_insert_with(|| built.clone());
        }
        packets += u64::from(matches!(next, Record::Arrives { .. }));
        let goes_on = replayer.record(record, &next);
        if let Some(to) = &mut departures {
            for (number, outcome) in replayer.outcomes() {
                if *outcome == PacketOutcome::TooLong {
                    to.forget((engine, *number));
                }
            }
            let head = reader.head();
            if let Some(run) = replayer.run_mut() {
                let start = run.start();
                let wall_clock = head.wall_clock_ns.wrapping_add(start.as_nanos().wrapping_sub(head.instant_ns));
                let left: Vec<_> = run.take_departures().collect();
                let from = Origin {
                    number: usize::MAX,
                    name,
                    classes: run.engine().class_names(),
                    mtu: run.mtu(),
                    wall_clock,
                    start,
                    engine,
                };
                for departure in left {
                    to.write(&from, &departure)?;
                }
            }
        }
        if !goes_on {
            break;
        }
    }
    let outcome = replayer.run().map(|run| run.outcome(name));
    let (records, whole) = (reader.position().0, broken.is_none() && reader.counts().is_some());
    // Where departures can no longer be compared, decisions still can.
    while let Some(Ok(_)) = reader.next_record() {}
    let decisions = reader.decisions().clone();
    Ok(Again { exact: replayer.finish(records, whole), outcome, setup, packets, records, decisions, broken })
}
