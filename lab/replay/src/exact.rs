//! A recording repeated: every call of the engine at its time, and its outcome compared with the recorded one.
//!
//! *Law*: the engine is a function of its calls, so that the departures are equal bit for bit; where they are not, the
//! first record at which they part is named. What cannot be repeated (records that are missing, a change that was not
//! recorded) ends the comparison, and is reported.
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
    /// The record, from 0.
    pub record: u64,
    /// The recorded outcome of the call, and its packet; none when there is no further one.
    pub recorded: Option<(u64, PacketOutcome)>,
    /// The outcome here.
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
    /// All departures are those of the recording, bit for bit.
    Equal,
    /// They are up to this record; what follows cannot be compared.
    EqualUpTo {
        /// The record behind which nothing was compared, from 0.
        record: u64,
        /// The reason.
        why: Unrepeatable,
    },
    /// They are not equal: the first difference.
    Different(Difference),
}

/// A recording and its repetition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exact {
    /// Whether they are equal.
    pub verdict: Verdict,
    /// Departures and drops that were compared.
    pub compared: u64,
    /// The digest of the recorded departures, as far as they were compared.
    pub recorded: Digest,
    /// The digest of what leaves here.
    pub here: Digest,
}

/// An engine of a recording, set up as it was.
///
/// # Errors
/// When this version cannot build it.
pub fn engine(setup: &Setup, keep: crate::meter::Keep) -> Result<Run, String> {
    let config = configuration(&setup.configuration)?;
    let settings = Settings { setup: setup.engine(), link: None, keep };
    Run::new(&config, &settings, setup.now()).map_err(|error| error.to_string())
}

/// Reads the shaper file of a recording.
///
/// # Errors
/// The errors that this version finds in it.
pub fn configuration(text: &str) -> Result<shaper::Config, String> {
    let source = Text::new("the recorded configuration", text);
    let mut diagnostics = Diagnostics::new();
    shaper::load(&source, &mut diagnostics).ok_or_else(|| diagnostics.render(&source))
}

/// Measures what leaves, and keeps the outcomes of a call.
struct Both<'a> {
    meter: &'a mut Meter,
    outcomes: &'a mut VecDeque<(u64, PacketOutcome)>,
}

impl Sink<Ticket> for Both<'_> {
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
    /// Engines that were built.
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
            setup: EngineSetup { seed: 0, secret: [0; 2], catch_up: Span::ZERO, names: Names::default() },
            engines: 0,
        }
    }

    /// The engine; none before the first record that sets one up.
    pub fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }
    /// The same, to take departures from it.
    pub fn run_mut(&mut self) -> Option<&mut Run> {
        self.run.as_mut()
    }
    /// How many engines have been set up so far.
    pub fn engines(&self) -> u64 {
        self.engines
    }
    /// Outcomes of the last call that the recording has not confirmed yet.
    pub fn outcomes(&self) -> impl Iterator<Item = &(u64, PacketOutcome)> {
        self.outcomes.iter()
    }
    /// Whether there is still something to compare.
    pub fn is_comparing(&self) -> bool {
        self.verdict == Verdict::Equal
    }

    /// Repeats record number `record`; `false` when the comparison has ended, with it or before.
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
        // Before a gap the outcome of the last call may be missing as well.
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
        let mut both = Both { meter, outcomes: &mut self.outcomes };
        match call {
            Record::Arrives { now, number, meta } => {
                self.now = *now;
                both.set_time(*now);
                let ticket = Ticket { packet: *number, segment: 0 };
                if let Admission::TooLong { .. } = engine.enqueue(*now, ticket, meta, &mut both) {
                    self.outcomes.push_back((*number, PacketOutcome::TooLong));
                }
            }
            Record::Departs { now } => {
                self.now = *now;
                both.set_time(*now);
                engine.dequeue(*now, &mut both);
            }
            Record::ReleaseAll => engine.release_all(&mut both),
            Record::Adjustment { now, adjustment } => engine.adjust(*now, *adjustment),
            Record::Reconfigure { now, to } => {
                self.now = *now;
                both.set_time(*now);
                let setup = EngineSetup { names: to.names(), ..self.setup.clone() };
                let next = configuration(&to.configuration).and_then(|config| {
                    PreparedConfig::new(&config, &setup, Instant::from_nanos(to.built_ns))
                        .map_err(|error| error.to_string())
                });
                let done = next.and_then(|next| {
                    engine.swap(next, *now, &mut both).map(drop).map_err(|refused| refused.to_string())
                });
                if let Err(why) = done {
                    self.verdict = Verdict::EqualUpTo { record, why: Unrepeatable::Build(why) };
                }
            }
            Record::Control { now, control } => {
                self.now = *now;
                both.set_time(*now);
                if let Err(why) = control.again(engine, *now, &mut both) {
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

    /// Returns the result. `records` have been read; `whole`: the recording ended in order, not within a call.
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

/// Repeats a whole recording.
///
/// # Errors
/// When it cannot be read to its end; what was found up to there is beside it.
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
