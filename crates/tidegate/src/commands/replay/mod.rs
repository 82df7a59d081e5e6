//! `tidegate replay`: a capture or a recording through one configuration or several.

pub(super) mod configurations;
mod output;
pub(super) mod page;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tidegate_core::classify::Prefix;
use tidegate_replay::decisions;
use tidegate_replay::departures::Departures;
use tidegate_replay::exact::Verdict;
pub(super) use tidegate_replay::files::next_part;
use tidegate_replay::meter::Keep;
use tidegate_replay::recording::{Reader, part_path};
use tidegate_replay::session::{self, Again, Hooks, Part};
use tidegate_replay::source::{Choice, Direction, Kind, Notice, Source, SourceError, sniff};
use tidegate_units::Rate;

use crate::Failure;
use crate::output::{Files, spare};
use crate::progress::Reading;

/// Run the packets of a capture or a recording through configurations, in virtual time
///
/// FILE is a pcap or pcapng capture (Ethernet, VLAN, raw IP, Linux cooked, loopback), or a recording of `tidegate run
/// --record`. Each configuration receives every packet at its time, and the results are shown side by side. A
/// recording is also repeated with its own configuration: the departures must equal those of the recording, bit for
/// bit, and a rate that follows the line must be decided as there; otherwise the exit code is 1. The digest of departures is equal for equal input on every machine.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The capture or recording; - for standard input
    file: PathBuf,
    /// A shaper file, or a kind of discipline and the rate of the link: fifo@20mbit, fq-codel@20mbit, fbq@20mbit. A
    /// shaper file may have a rate as well
    #[arg(long, value_name = "CONFIG", num_args = 1..)]
    with: Vec<String>,
    /// The rate of the link for configurations that do not specify one. Default: infinite
    #[arg(long, value_name = "RATE")]
    link: Option<Rate>,
    /// Only packets from these sources: an address or a prefix
    #[arg(long, value_name = "ADDRESS", num_args = 1..)]
    from: Vec<Prefix>,
    /// Only packets in this direction, if the capture has it (Linux cooked)
    #[arg(long, value_name = "WAY", value_enum, default_value_t = Way::Any)]
    direction: Way,
    /// The seed of random streams and flow keys; a recording has its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// In real time, or SPEED times as fast
    #[arg(long, value_name = "SPEED", num_args = 0..=1, default_missing_value = "1", value_parser = speed)]
    real_time: Option<f64>,
    /// Write the departures as pcapng; - for standard output
    #[arg(long, value_name = "FILE")]
    departures: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Print the results as CSV, one line for each class of each configuration
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print only the digests
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    hash: bool,
}

/// The direction of packets.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Way {
    /// Both
    Any,
    /// Sent by the capturing host
    Sent,
    /// Received by the capturing host
    Received,
}

/// The lowest speed, a second in eleven days: times of every capture, divided by it, fit a `Duration`.
const SLOWEST: f64 = 1e-6;

/// The number of warnings shown; the rest is counted.
const SHOWN: u64 = 10;

/// The results of a replay: the repetition of a recording, and the configurations.
struct Results {
    again: Option<Again>,
    session: Option<session::Session>,
    notices: u64,
}

impl Results {
    /// The seed that was used: that of a recording, or `given`.
    fn seed(&self, given: u64) -> u64 {
        let recorded = self.again.as_ref().and_then(|again| again.setup.as_ref());
        recorded.map_or(given, |setup| setup.seed)
    }
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed >= SLOWEST => Ok(speed),
        Ok(speed) if speed > 0.0 && speed < SLOWEST => Err(format!("--real-time takes a number from {SLOWEST} on")),
        Ok(_) => Err("--real-time takes a number above zero".into()),
        Err(_) => Err("not a number; write the file before --real-time, or --real-time=1".into()),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let read = || std::iter::once(args.file.as_path()).chain(args.with.iter().map(Path::new));
    args.files.try_them(read())?;
    if let Some(path) = &args.departures {
        spare(path, read())?;
    }
    configurations::input_once(&args.file, args.with.iter())?;
    let parts = configurations::load(args)?;
    let text = |part: &Part| tidegate_report::Source { name: part.name.clone(), text: part.config.text.to_string() };
    let texts: Vec<_> = parts.iter().map(text).collect();
    let mut departures = match &args.departures {
        None => None,
        Some(path) => {
            let sink = sink(path)?;
            // A reader in real time gets each packet when it leaves.
            let sink = if args.real_time.is_some() { Box::new(Prompt(sink)) } else { sink };
            Some(Departures::new(sink).map_err(write_failed)?)
        }
    };
    let results = replay(args, parts, departures.as_mut())?;
    if let Some(departures) = departures {
        if departures.left_out() > 0 {
            message!("tidegate: {} departures of an unknown link type were left out", departures.left_out());
        }
        departures.finish().map_err(write_failed)?;
    }
    if args.files.wanted() {
        let outcomes = output::outcomes(&results);
        args.files.write(|| page::page(args, &results, &outcomes, texts), || page::tidy(args, &outcomes))?;
    }
    if args.departures.as_ref().is_none_or(|path| path.as_os_str() != "-") {
        output::print(args, &results)?;
    }
    verdict(args, &results)
}

/// The failure that the results mean, if any.
fn verdict(args: &Args, results: &Results) -> Result<(), Failure> {
    let name = args.file.display();
    if let Some(error) = results.session.as_ref().and_then(|session| session.broken.as_ref()) {
        return Err(Failure::Failed(format!("{name}: {error}")));
    }
    let Some(again) = &results.again else { return Ok(()) };
    if let Verdict::Different(difference) = &again.exact.verdict {
        return Err(Failure::Failed(format!("{name}: the replay differs from the recording: {difference}")));
    }
    if let decisions::Verdict::Different(difference) = again.decisions.verdict() {
        return Err(Failure::Failed(format!("{name}: the replay decides otherwise than the recording: {difference}")));
    }
    if let Some(error) = &again.broken {
        return Err(Failure::Failed(format!("{name}: {error}")));
    }
    match &again.exact.verdict {
        Verdict::EqualUpTo { why: tidegate_replay::exact::Unrepeatable::Build(why), .. } => {
            Err(Failure::Failed(format!("{name}: {why}")))
        }
        _ => Ok(()),
    }
}

fn replay(
    args: &Args,
    parts: Vec<Part>,
    mut departures: Option<&mut Departures<Box<dyn Write>>>,
) -> Result<Results, Failure> {
    let unreadable = |error: SourceError| Failure::Usage(format!("{}: {error}", args.file.display()));
    let mut notices = 0;
    let mut notice = |notice: Notice| {
        notices += 1;
        if notices <= SHOWN {
            message!("tidegate: {}: {notice}", args.file.display());
        }
    };
    let choice = choice(args);
    let (mut again, mut source) = (None, None);
    match look(&args.file)? {
        Kind::Capture(_) if parts.is_empty() => {
            return Err(Failure::Usage(
                "a capture contains no configuration; choose one with --with, for example --with fifo@20mbit".into(),
            ));
        }
        Kind::Capture(whole) => source = Some(Source::capture(whole, choice).map_err(unreadable)?),
        Kind::Recording(whole) => {
            let recording = |error| unreadable(SourceError::Recording(error));
            let mut reader = Reader::with_parts(whole, next_part(&args.file)).map_err(recording)?;
            // The whole recording is repeated: a selection of its packets would have another result.
            let to = departures.as_deref_mut();
            let keep = Keep { series: args.files.wanted() || args.json, ..Keep::default() };
            again = Some(session::again(&mut reader, "recorded", keep, to).map_err(write_failed)?);
            if !parts.is_empty() {
                if args.file.as_os_str() == "-" {
                    return Err(Failure::Usage(
                        "a recording is read twice, so it cannot come from standard input; give a file".into(),
                    ));
                }
                let Kind::Recording(whole) = look(&args.file)? else {
                    return Err(Failure::Failed(format!("{} changes while it is read", args.file.display())));
                };
                let reader = Reader::with_parts(whole, next_part(&args.file)).map_err(recording)?;
                source = Some(Source::recording(reader, choice));
            }
        }
    }
    let mut session = None;
    if let Some(mut source) = source {
        let mut parts = parts;
        if let Some(again) = &again
            && let Some(setup) = &again.setup
        {
            parts.iter_mut().for_each(|part| part.settings.like_recorded(setup));
        }
        let began = Instant::now();
        let mut wait = |time: tidegate_units::Instant| {
            let speed = args.real_time.unwrap_or(1.0);
            let due = Duration::from_secs_f64(time.as_nanos() as f64 / 1e9 / speed);
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        };
        let pace: Option<&mut dyn FnMut(tidegate_units::Instant)> = match args.real_time {
            Some(_) => Some(&mut wait),
            None => None,
        };
        let hooks = Hooks { notice: &mut notice, pace, departures };
        session = Some(session::replay(&mut source, &parts, hooks).map_err(|error| match error {
            session::SessionError::Build(..) => Failure::Usage(error.to_string()),
            session::SessionError::Write(error) => write_failed(error),
        })?);
    }
    if let Some(session) = &session
        && session.packets == 0
        && session.broken.is_none()
    {
        let chosen = !args.from.is_empty() || !matches!(args.direction, Way::Any);
        let what = if chosen { "of its packets none is chosen by --from or --direction" } else { "it has no packets" };
        message!("tidegate: {}: {what}", args.file.display());
    }
    if notices > SHOWN {
        message!("tidegate: {}: and {} more warnings", args.file.display(), notices - SHOWN);
    }
    Ok(Results { again, session, notices })
}

fn choice(args: &Args) -> Choice {
    Choice {
        from: args.from.clone(),
        direction: match args.direction {
            Way::Any => Direction::Any,
            Way::Sent => Direction::Sent,
            Way::Received => Direction::Received,
        },
    }
}

/// Opens a file of the command line, and detects whether it is a capture or a recording.
pub(super) fn look(path: &Path) -> Result<Kind<Box<dyn Read>>, Failure> {
    sniff(open(path)?).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

/// Opens a file of the command line.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    let missing = |error: io::Error| {
        // The first file of a recording with limited files may have been removed.
        let older = (1..10_000).find(|part| part_path(path, *part).exists());
        let help = match older {
            Some(part) if error.kind() == io::ErrorKind::NotFound => {
                format!("; the oldest part that is left is {}", part_path(path, part).display())
            }
            _ => String::new(),
        };
        Failure::Usage(format!("{}: {error}{help}", path.display()))
    };
    let file = File::open(path).map_err(missing)?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Failure::Usage(format!("{} is a directory", path.display())));
    }
    let length = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
    let read: Box<dyn Read> = match length {
        Some(length) => Box::new(Reading::new(file, length)),
        None => Box::new(file),
    };
    Ok(Box::new(BufReader::with_capacity(256 << 10, read)))
}

fn sink(path: &Path) -> Result<Box<dyn Write>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdout().lock()));
    }
    let file = File::create(path).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    Ok(Box::new(BufWriter::new(file)))
}

/// Flushes after every write.
struct Prompt(Box<dyn Write>);

impl Write for Prompt {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes)?;
        self.0.flush()?;
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn write_failed(error: tidegate_capture::write::WriteError) -> Failure {
    match error.io().map(io::Error::kind) {
        Some(io::ErrorKind::BrokenPipe) => Failure::BrokenPipe,
        _ => Failure::Failed(error.to_string()),
    }
}
