//! `tidegate run --record`: records the calls of the engine.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_config::shaper::Config;
use tidegate_daemon::LineRecorders;
use tidegate_engine::guard::lock;
use tidegate_engine::{Recorder, Setup as EngineSetup};
use tidegate_live::shaping::{Options, RecorderFactory};
use tidegate_live::timing;
use tidegate_replay::recording::{Counts, Payload, Recording, Settings, Setup, open_file};
use tidegate_units::{Bytes, Instant};

use crate::Failure;
use crate::output::spare;
use crate::progress::StatusLine;

/// The bytes per packet requested from the kernel when payload is recorded: all.
const WHOLE: u32 = 65_535;
/// The number of chunks of 256 KiB that may wait for the disk.
const BUFFERS: usize = 32;

/// Options of the recording.
// Not a group of its own: it would have the same name as that of the command.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Record every call of the engine into this file, for `tidegate replay` and `tidegate explain`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Record payload as well as headers
    #[arg(long, requires = "record")]
    record_payload: bool,
    /// Start another file (FILE.1, FILE.2, ...) when one reaches this size
    #[arg(long, value_name = "SIZE", requires = "record")]
    record_limit: Option<Bytes>,
    /// Keep this number of files; the oldest are removed
    #[arg(long, value_name = "N", requires = "record_limit", value_parser = clap::value_parser!(u64).range(1..))]
    record_files: Option<u64>,
}

impl Args {
    /// Whether there is to be a recording.
    pub fn is_wanted(&self) -> bool {
        self.record.is_some()
    }

    /// The files that may be written: of one direction, of the other, and the one that follows when it is full.
    pub fn paths(&self) -> Vec<PathBuf> {
        let with = |end: &str| {
            self.record.clone().map(|mut path| {
                path.as_mut_os_string().push(end);
                path
            })
        };
        [".ingress", ".egress", ".1", ""].into_iter().filter_map(with).collect()
    }
}

/// One recording for each direction: its interface's name with the direction, and the file.
type Recordings = Arc<Mutex<Vec<(String, PathBuf, Recording)>>>;

/// The recordings in progress, and the interfaces of the options.
#[derive(Default)]
pub struct Recorders(Option<(Recordings, Vec<String>)>);

/// The interfaces of a direction, `interfaces` in place of the configuration's unless they are empty, and the name of its recording.
fn recorded(config: &Config, interfaces: &[String]) -> (String, String) {
    let names = if interfaces.is_empty() { &config.interface.names } else { interfaces };
    (names.join(" + "), format!("{:?}", config.interface.direction).to_lowercase())
}

/// Starts recording if requested, and sets `options` to create a recorder for every engine.
///
/// # Errors
/// When the file cannot be written, or is one of those that are `read`.
pub fn start(args: &Args, read: &[PathBuf], options: &mut Options) -> Result<Recorders, Failure> {
    let Some(path) = &args.record else { return Ok(Recorders::default()) };
    spare(path, read.iter().map(PathBuf::as_path))?;
    let wall_clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let settings = Settings {
        of: String::new(),
        payload: if args.record_payload { Payload::All } else { Payload::Headers },
        limit: args.record_limit,
        files: args.record_files,
        clock: (timing::now(), wall_clock),
        buffers: BUFFERS,
        failed: |why| message!("tidegate: the recording stops here, and shaping goes on: {why}"),
    };
    // At the start, not with the first packet: a file that cannot be written ends the command.
    if let Err(error) = open_file(path) {
        return Err(Failure::Usage(format!("{}: {error}", path.display())));
    }
    let recordings: Recordings = Arc::default();
    let recorders = Recorders(Some((Arc::clone(&recordings), options.interfaces.clone())));
    let (path, shared, interfaces) = (path.clone(), recordings, options.interfaces.clone());
    let make = move |config: &Config, setup: &EngineSetup, now: Instant| -> Option<Box<dyn Recorder>> {
        let (names, direction) = recorded(config, &interfaces);
        let of = format!("{names} {direction}");
        let mut recordings = lock(&shared);
        let known = recordings.iter().position(|(known, ..)| *known == of);
        let at = match known {
            Some(at) => at,
            None => {
                let mut path = path.clone();
                if !recordings.is_empty() {
                    path.as_mut_os_string().push(format!(".{direction}"));
                    // Another file shapes other interfaces in this direction.
                    if recordings.iter().any(|(_, known, _)| *known == path) {
                        path.as_mut_os_string().push(format!(".{}", names.replace(' ', "")));
                    }
                }
                match Recording::create(&path, Settings { of: of.clone(), ..settings.clone() }) {
                    Ok(recording) => recordings.push((of, path, recording)),
                    Err(error) => {
                        message!("tidegate: {}: {error}; {of} is not recorded", path.display());
                        return None;
                    }
                }
                recordings.len() - 1
            }
        };
        let setup = Setup::new(setup, &config.text, now);
        recordings.get(at).map(|(_, _, recording)| Box::new(recording.recorder(setup)) as Box<dyn Recorder>)
    };
    options.recorder = Some(RecorderFactory(Arc::new(make)));
    if args.record_payload {
        options.copy_range = Some(WHOLE);
    }
    Ok(recorders)
}

impl Recorders {
    /// Records the calls of the controller of a rate that follows the line, in the recording of each direction of the line.
    pub fn lines(&self) -> Option<LineRecorders> {
        let (recordings, interfaces) = self.0.clone()?;
        Some(Box::new(move |config| {
            let (names, direction) = recorded(config, &interfaces);
            let of = format!("{names} {direction}");
            let recordings = lock(&recordings);
            let own = recordings.iter().find(|(known, ..)| *known == of);
            own.map(|(_, _, recording)| Box::new(recording.line()) as Box<dyn tidegate_autorate::calls::Recorder>)
        }))
    }

    /// Shows on a terminal how much has been recorded. Begins a thread, so that privileges must have been given up.
    pub fn show(&self) -> Option<StatusLine> {
        let recordings = Arc::clone(&self.0.as_ref()?.0);
        let (begin, all) = (std::time::Instant::now(), move || -> Vec<_> {
            lock(&recordings).iter().map(|(_, _, recording)| recording.counts()).collect()
        });
        Some(StatusLine::show(move || {
            let counts = all();
            let sum = |part: fn(&Counts) -> u64| counts.iter().map(part).sum::<u64>();
            let (records, megabytes, lost) = (sum(|c| c.records), sum(|c| c.bytes) as f64 / 1e6, sum(|c| c.lost));
            let lost = if lost == 0 { String::new() } else { format!(", {lost} LOST") };
            let seconds = begin.elapsed().as_secs();
            // A data path that is being started has no recording yet.
            (!counts.is_empty())
                .then(|| format!("recording for {seconds} s: {records} records, {megabytes:.1} MB{lost}"))
        }))
    }

    /// Ends the recording after the engine has ended, and reports the totals.
    ///
    /// # Errors
    /// When one of them stopped before its engine.
    pub fn finish(self) -> Result<(), Failure> {
        let Some((recordings, _)) = self.0 else { return Ok(()) };
        let recordings = std::mem::take(&mut *lock(&recordings));
        let mut outcome = Ok(());
        for (of, path, recording) in recordings {
            let (counts, lost) = match recording.finish() {
                Ok(counts) if counts.lost == 0 => (counts, "none was lost".to_owned()),
                Ok(counts) => (counts, format!("{} were LOST, the disk was too slow", counts.lost)),
                Err(stopped) => {
                    outcome = Err(Failure::Failed(stopped.to_string()));
                    (stopped.counts, format!("{} were LOST, it stopped", stopped.counts.lost))
                }
            };
            let files = match counts.files {
                1 => String::new(),
                files => format!(" in {files} files"),
            };
            message!(
                "recorded {of} into {}{files}: {} records, {} bytes; {lost}",
                path.display(),
                counts.records,
                counts.bytes
            );
        }
        outcome
    }
}
