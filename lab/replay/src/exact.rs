//! Repeats a recording: makes every call of the engine at its time, and compares the outcomes with the recorded ones.
//!
//! *Law*: the engine is a deterministic function of its calls, so that the departures are equal bit for bit. If they are not,
//! the first record that differs is reported. The comparison ends where the recording cannot be repeated, because records are
//! missing or a change was not recorded.
//! *Cost*: that of the engine, and some 50 ns a record.

use std::collections::VecDeque;
use std::fmt;
use std::io::Read;

use tidegate_config::{Diagnostics, Source as Text, shaper};
use tidegate_core::DropReason;
use tidegate_core::classify::Fields;
use tidegate_engine::{
    Admission, Change, Disposition, Names, PreparedConfig, QueuedPacket, Setup as EngineSetup, Sink,
};
use tidegate_metrics::Digest;
use tidegate_units::{Instant, Span};

use crate::meter::{Meter, Ticket, code_of, code_of_drop, digest_one};
use crate::recording::{Missing, PacketOutcome, Reader, Record, RecordingError, Setup};
use crate::run::{Run, Settings};

/// The first difference between a replay and its recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The number of the record, from 0.
    pub record: u64,
    /// The next recorded outcome with its packet; `None` if the call has no more.
    pub recorded: Option<(u64, PacketOutcome)>,
    /// The next outcome in the replay.
    pub here: Option<(u64, PacketOutcome)>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |outcome: &Option<(u64, PacketOutcome)>| {
            let Some((number, outcome)) = outcome else { return "nothing more".to_owned() };
            // Arrivals are counted from 0 in the file, and packets from 1 everywhere else.
            let packet = number + 1;
            match outcome {
                PacketOutcome::Passed(change) if *change == Change::default() => format!("packet {packet} passes"),
                PacketOutcome::Passed(change) => format!("packet {packet} passes with {change:?}"),
                PacketOutcome::Refused(reason) => format!("packet {packet} is dropped ({})", reason.name()),
                PacketOutcome::TooLong => format!("packet {packet} goes back to be cut"),
            }
        };
        write!(f, "record {}: {} in the recording, {} here", self.record, shown(&self.recorded), shown(&self.here))
    }
}

/// Why the comparison ended before the recording did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unrepeatable {
    /// Records are missing.
    Missing(Missing),
    /// The running shaper was changed in a way that is not recorded.
    Unrecorded,
    /// This version cannot build the engine.
    Build(String),
}

impl fmt::Display for Unrepeatable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(missing) => missing.fmt(f),
            Self::Unrecorded => f.write_str("the running shaper was changed in a way that recordings do not keep"),
            Self::Build(why) => write!(f, "its configuration cannot be built here: {why}"),
        }
    }
}

/// The result of repeating a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All departures are equal to those of the recording, bit for bit.
    Equal,
    /// They are equal up to a record; what follows cannot be compared.
    EqualUpTo {
        /// The number of the last record that was compared, from 0.
        record: u64,
        /// The reason.
        why: Unrepeatable,
    },
    /// They differ, for the first time as described.
    Different(Difference),
}

/// The comparison of a recording with its repetition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exact {
    /// The result.
    pub verdict: Verdict,
    /// The number of departures and drops that were compared.
    pub compared: u64,
    /// The digest of the recorded departures, as far as they were compared.
    pub recorded: Digest,
    /// The digest of the departures in the replay.
    pub here: Digest,
}

/// Builds an engine of a recording with its recorded setup.
///
/// # Errors
/// If this version cannot build it.
pub fn engine(setup: &Setup, keep: crate::meter::Keep) -> Result<Run, String> {
    let config = configuration(&setup.configuration)?;
    let settings = Settings { setup: setup.engine(), link: None, keep };
    Run::new(&config, &settings, setup.now()).map_err(|error| error.to_string())
}

/// Loads the shaper file of a recording.
///
/// # Errors
/// The diagnostics of this version.
pub fn configuration(text: &str) -> Result<shaper::Config, String> {
    let source = Text::new("the recorded configuration", text);
    let mut diagnostics = Diagnostics::new();
    shaper::load(&source, &mut diagnostics).ok_or_else(|| diagnostics.render(&source))
}

/// Passes the departures and drops of a call to the meter, and keeps them for the comparison.
struct Comparing<'a> {
    meter: &'a mut Meter,
    outcomes: &'a mut VecDeque<(u64, PacketOutcome)>,
}

impl Sink<Ticket> for Comparing<'_> {
    fn set_time(&mut self, now: Instant) {
        self.meter.set_time(now);
    }
    fn transmit(&mut self, ticket: Ticket, change: Change) {
        self.outcomes.push_back((ticket.packet, PacketOutcome::Passed(change)));
        self.meter.transmit(ticket, change);
    }
    fn drop_packet(&mut self, ticket: Ticket, reason: DropReason) {
        self.outcomes.push_back((ticket.packet, PacketOutcome::Refused(reason)));
        self.meter.drop_packet(ticket, reason);
    }
    fn observe(&mut self, ticket: Ticket, packet: &QueuedPacket, fields: &Fields, fate: Disposition) {
        self.meter.observe(ticket, packet, fields, fate);
    }
}

/// Repeats a recording, record by record.
pub struct Replayer {
    run: Option<Run>,
    keep: crate::meter::Keep,
    outcomes: VecDeque<(u64, PacketOutcome)>,
    recorded: Digest,
    here: Digest,
    compared: u64,
    verdict: Verdict,
    start: Instant,
    now: Instant,
    /// The setup of the current engine.
    setup: EngineSetup,
    /// The number of engines that were built.
    engines: u64,
}

impl Replayer {
    /// Before the first record.
    pub fn new(keep: crate::meter::Keep) -> Self {
        Self {
            run: None,
            keep,
            outcomes: VecDeque::new(),
            recorded: Digest::default(),
            here: Digest::default(),
            compared: 0,
            verdict: Verdict::Equal,
            start: Instant::ZERO,
            now: Instant::ZERO,
            setup: EngineSetup {
                seed: 0,
                secret: [0; 2],
                catch_up: Span::ZERO,
                most_queued: None,
                names: Names::default(),
            },
            engines: 0,
        }
    }

    /// The present run; `None` before the first record that sets up an engine.
    pub fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }
    /// Mutable access to the present run, to take departures from it.
    pub fn run_mut(&mut self) -> Option<&mut Run> {
        self.run.as_mut()
    }
    /// The number of engines that have been set up so far.
    pub fn engines(&self) -> u64 {
        self.engines
    }
    /// Outcomes of the last call that have not been compared yet.
    pub fn outcomes(&self) -> impl Iterator<Item = &(u64, PacketOutcome)> {
        self.outcomes.iter()
    }
    /// Whether the comparison goes on.
    pub fn is_comparing(&self) -> bool {
        self.verdict == Verdict::Equal
    }

    /// Repeats record number `record`. Returns `false` once the comparison has ended.
    pub fn record(&mut self, record: u64, next: &Record) -> bool {
        if !self.is_comparing() {
            return false;
        }
        if let Record::Outcome { number, outcome } = next {
            let here = self.outcomes.pop_front();
            self.recorded_one(*number, *outcome);
            if here != Some((*number, *outcome)) {
                self.verdict = Verdict::Different(Difference { record, recorded: Some((*number, *outcome)), here });
            }
            self.compared += 1;
            return self.is_comparing();
        }
        // Before a gap, outcomes of the last call may be missing too.
        if !matches!(next, Record::Gap(_))
            && let Some(here) = self.outcomes.pop_front()
        {
            self.verdict = Verdict::Different(Difference { record, recorded: None, here: Some(here) });
            return false;
        }
        match next {
            Record::Setup(setup) => {
                self.engines += 1;
                if self.engines == 1 {
                    self.start = setup.now();
                }
                self.now = setup.now();
                self.setup = setup.engine();
                match engine(setup, self.keep) {
                    Ok(run) => self.run = Some(run),
                    Err(why) => self.verdict = Verdict::EqualUpTo { record, why: Unrepeatable::Build(why) },
                }
            }
            Record::Gap(missing) => {
                self.verdict = Verdict::EqualUpTo { record, why: Unrepeatable::Missing(missing.clone()) };
            }
            Record::Unrecorded => self.verdict = Verdict::EqualUpTo { record, why: Unrepeatable::Unrecorded },
            call => self.call(record, call),
        }
        self.is_comparing()
    }

    fn call(&mut self, record: u64, call: &Record) {
        let Some(run) = &mut self.run else {
            self.verdict = Verdict::EqualUpTo { record, why: Unrepeatable::Missing(Missing::Before) };
            return;
        };
        let (engine, meter) = run.parts();
        let mut sink = Comparing { meter, outcomes: &mut self.outcomes };
        match call {
            Record::Arrives { now, number, meta } => {
                self.now = *now;
                sink.set_time(*now);
                let ticket = Ticket { packet: *number, segment: 0 };
                if let Admission::TooLong { .. } = engine.enqueue(*now, ticket, meta, &mut sink) {
                    self.outcomes.push_back((*number, PacketOutcome::TooLong));
                }
            }
            Record::Departs { now } => {
                self.now = *now;
                sink.set_time(*now);
                engine.dequeue(*now, &mut sink);
            }
            Record::ReleaseAll => engine.release_all(&mut sink),
            Record::Adjustment { now, adjustment } => engine.adjust(*now, *adjustment),
            Record::Reconfigure { now, to } => {
                self.now = *now;
                sink.set_time(*now);
                let setup = EngineSetup { names: to.names(), ..self.setup.clone() };
                let next = configuration(&to.configuration).and_then(|config| {
                    PreparedConfig::new(&config, &setup, Instant::from_nanos(to.built_ns))
                        .map_err(|error| error.to_string())
                });
                let done = next.and_then(|next| {
                    engine.swap(next, *now, &mut sink).map(drop).map_err(|refused| refused.to_string())
                });
                if let Err(why) = done {
                    self.verdict = Verdict::EqualUpTo { record, why: Unrepeatable::Build(why) };
                }
            }
            Record::Control { now, control } => {
                self.now = *now;
                sink.set_time(*now);
                if let Err(why) = control.repeat(engine, *now, &mut sink) {
                    self.verdict = Verdict::EqualUpTo { record, why: Unrepeatable::Build(why) };
                }
            }
            _ => {}
        }
        let at = self.now.since(self.start);
        for (number, outcome) in &self.outcomes {
            digest_one(&mut self.here, at, Ticket { packet: *number, segment: 0 }, outcome_code(*outcome));
        }
    }

    fn recorded_one(&mut self, number: u64, outcome: PacketOutcome) {
        let at = self.now.since(self.start);
        digest_one(&mut self.recorded, at, Ticket { packet: number, segment: 0 }, outcome_code(outcome));
    }

    /// Returns the result after `records` records. `whole` is whether the recording ended in order, not within a call.
    pub fn finish(mut self, records: u64, whole: bool) -> Exact {
        if whole
            && self.is_comparing()
            && let Some(here) = self.outcomes.pop_front()
        {
            self.verdict = Verdict::Different(Difference { record: records, recorded: None, here: Some(here) });
        }
        Exact { verdict: self.verdict, compared: self.compared, recorded: self.recorded, here: self.here }
    }
}

fn outcome_code(outcome: PacketOutcome) -> u64 {
    match outcome {
        PacketOutcome::Passed(change) => code_of(change),
        PacketOutcome::Refused(reason) => code_of_drop(reason),
        PacketOutcome::TooLong => 1 << 17,
    }
}

/// Repeats a whole recording. Returns an error beside the result if the recording cannot be read to its end.
pub fn replay<R: Read>(reader: &mut Reader<R>) -> (Exact, Option<RecordingError>) {
    let mut replayer = Replayer::new(crate::meter::Keep::default());
    let mut broken = None;
    loop {
        let record = reader.position().0;
        match reader.next_record() {
            Some(Ok(next)) => {
                if !replayer.record(record, &next) {
                    break;
                }
            }
            Some(Err(error)) => {
                broken = Some(error);
                break;
            }
            None => break,
        }
    }
    let whole = broken.is_none() && reader.counts().is_some();
    (replayer.finish(reader.position().0, whole), broken)
}
