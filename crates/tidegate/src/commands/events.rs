//! `tidegate events`: what happens, as it happens, and what happened.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tidegate_config::Scalar;
use tidegate_config::values::{Date, WallStart};
use tidegate_control::calls::{Events, Note, NoteKind, Notes, Status};
use tidegate_control::{Event, EventKind, Pushed};
use tidegate_daemon::telemetry::history_file;
use tidegate_display::Table;
use tidegate_live::timing;
use tidegate_units::Span;

use crate::Failure;
use crate::commands::connect::Connect;
use crate::output::rate;

/// Show events of a running tidegate as they occur: flows, queues that fill, moves, marks, faults
///
/// A line is an event: the date and time with its difference from UTC, the kind, the class, the flow, and its state. Standard
/// error reports when the subscription has begun. With `--since` it shows what was before instead: who changed what, and faults,
/// also where no tidegate is running.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    connect: Connect,
    /// Only these kinds; `tidegate events --kind ?` lists them
    #[arg(long, short, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<Wanted>,
    /// Only events of these classes
    #[arg(long, short, value_name = "NAME", value_delimiter = ',')]
    class: Vec<String>,
    /// Only events of flows of this user
    #[arg(long, value_name = "NUMBER")]
    uid: Option<u32>,
    /// Only events of flows from or to this port
    #[arg(long, value_name = "NUMBER")]
    port: Option<u16>,
    /// Only events of this direction: up or down
    #[arg(long, value_name = "NAME")]
    direction: Option<String>,
    /// Print the changes, with who made them, and the faults since this time, and end: how long ago, as 2h or 30m, or a local
    /// date and time, as "2026-11-27 07:30". A day is kept, also over restarts
    #[arg(
        long, value_name = "TIME", value_parser = since,
        conflicts_with_all = ["class", "uid", "port", "direction", "count"]
    )]
    since: Option<u64>,
    /// The directory of the history for --since, as `tidegate run --history` has it, where no tidegate answers
    #[arg(long, value_name = "DIRECTORY", requires = "since")]
    history: Option<PathBuf>,
    /// End after this many events
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print each event as JSON in a line of its own
    #[arg(long)]
    json: bool,
}

/// A value of `--kind`.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    /// `?`
    List,
    Kind(EventKind),
    /// A kind of `--since`, as its lines show it.
    Note(NoteKind),
}

impl std::str::FromStr for Wanted {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let note = [NoteKind::Change, NoteKind::Event].into_iter().find(|kind| kind.name() == text);
        match note {
            Some(kind) => Ok(Self::Note(kind)),
            None if text == "?" => Ok(Self::List),
            None => text.parse().map(Self::Kind),
        }
    }
}

/// The second since 1970 that a value of `--since` means.
fn since(text: &str) -> Result<u64, String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    // A month is no unit, so that `m` can only mean minutes here.
    let minutes = text.strip_suffix('m').filter(|number| number.ends_with(|c: char| c.is_ascii_digit()));
    let ago = minutes.map_or_else(|| text.parse::<Span>(), |number| format!("{number}min").parse());
    if let Ok(ago) = ago {
        return Ok(now.saturating_sub(ago.as_nanos().div_ceil(1_000_000_000)));
    }
    let time = WallStart::from_text(text).ok().and_then(|time| timing::from_local(time.since_1970()));
    time.ok_or_else(|| {
        format!("`{text}` is neither a time ago, as 2h or 30min, nor a local date and time, as \"2026-11-27 07:30\"")
    })
}

/// Returns the notes since a second since 1970: by the daemon, or by the files of one that does not answer.
fn kept(args: &Args, since: u64) -> Result<Vec<Note>, Failure> {
    let asked = args.connect.open().and_then(|mut client| Ok(client.notes(&Notes { since_s: Some(since) })?));
    let error = match asked {
        Ok(notes) => return Ok(notes),
        // Which one is meant is not known, so that it cannot be looked up in files either.
        Err(error @ Failure::Failed(_)) if args.connect.are_several() => return Err(error),
        Err(error) => error,
    };
    let folder = args.history.clone().or_else(history_file::state_directory);
    let files = folder.map_or_else(Vec::new, |folder| history_file::files(&folder, args.connect.interface()));
    let (mut notes, mut read): (Vec<(String, Vec<Note>)>, Vec<String>) = Default::default();
    for path in files {
        match history_file::read_notes(&path, since) {
            Ok(of_one) => {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                notes.push((name, of_one));
                read.push(path.display().to_string());
            }
            Err(wrong) => message!("tidegate: {}: {wrong}", path.display()),
        }
    }
    if read.is_empty() {
        let help = "the history of the last day is in the directory of `tidegate run --history`; name it by --history";
        return Err(match error {
            Failure::Failed(text) => Failure::Failed(format!("{text}\n{help}")),
            other => other,
        });
    }
    message!("tidegate: {error}\ntidegate: what follows is read from the history in {}", read.join(" and "));
    // Each note of several interfaces says which it is about.
    let is_one = notes.len() == 1;
    let named = notes.into_iter().flat_map(|(name, of_one)| {
        of_one.into_iter().map(move |note| match is_one {
            true => note,
            false => Note { text: format!("{name}: {}", note.text), ..note },
        })
    });
    let mut notes: Vec<Note> = named.collect();
    notes.sort_by_key(|note| note.time_s);
    Ok(notes)
}

/// Prints what is kept since a second since 1970, of these kinds; without any, of all.
fn print_kept(args: &Args, since: u64, kinds: &[NoteKind]) -> Result<(), Failure> {
    let mut kept = kept(args, since)?;
    kept.retain(|note| kinds.is_empty() || kinds.contains(&note.kind));
    let mut out = crate::output::stdout();
    for note in &kept {
        if args.json {
            let line = serde_json::to_string(note).map_err(|error| Failure::Failed(error.to_string()))?;
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{}", noted(note))?;
        }
    }
    out.flush()?;
    if kept.is_empty() {
        let what = match kinds {
            [NoteKind::Change] => "no change",
            [NoteKind::Event] => "no fault",
            _ => "no change and no fault",
        };
        message!("tidegate: {what} since {}; a day is kept", second(since));
    }
    Ok(())
}

/// A change or a fault in a line, for people.
fn noted(note: &Note) -> String {
    format!("{} {:<6} {}", second(note.time_s), note.kind.name(), note.text.replace('\n', " "))
}

/// Lists the kinds of events.
fn kinds() -> Result<(), Failure> {
    let mut table = Table::new("", ["kind", "when"]).shorten("when", 20);
    for kind in EventKind::ALL {
        table.row([kind.name(), kind.meaning()].map(Into::into));
    }
    Ok(crate::output::stdout().write_all(table.text(crate::output::width()).as_bytes())?)
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (mut wanted, mut noted) = (Vec::new(), Vec::new());
    for kind in &args.kind {
        match kind {
            Wanted::List => return kinds(),
            Wanted::Kind(kind) => wanted.push(*kind),
            Wanted::Note(kind) => noted.push(*kind),
        }
    }
    if let Some(time) = args.since {
        // Both are of the kind log while they happen.
        let kinds = if wanted.contains(&EventKind::Log) { &[] } else { &noted[..] };
        return match wanted.iter().find(|kind| **kind != EventKind::Log) {
            Some(kind) => Err(Failure::Usage(format!(
                "events of the kind {} are not kept; --since prints those of the kinds change and event (a fault)",
                kind.name()
            ))),
            None => print_kept(args, time, kinds),
        };
    }
    if let Some(kind) = noted.first() {
        return Err(Failure::Usage(format!(
            "the kind {} is for what is kept: add --since, as --since 2h; while they happen, changes and faults are of the kind \
             log",
            kind.name()
        )));
    }
    let which = Events {
        kinds: wanted,
        classes: args.class.clone(),
        direction: args.direction.clone(),
        uid: args.uid,
        port: args.port,
    };
    let mut client = args.connect.open()?;
    if !args.class.is_empty() {
        hint(args, &client.status()?);
    }
    let mut remaining = args.count.unwrap_or(u64::MAX);
    let subscription = client.events(&which)?;
    // A script that causes an event and wants to see it has to know from when on it would.
    message!("subscribed: events are printed from now on");
    for pushed in subscription {
        let mut out = crate::output::stdout();
        match pushed? {
            Pushed::Event(event) if args.json => {
                let line = serde_json::to_string(&event).map_err(|error| Failure::Failed(error.to_string()))?;
                writeln!(out, "{line}")?;
                remaining -= 1;
            }
            Pushed::Event(event) => {
                writeln!(out, "{}", line(&event))?;
                remaining -= 1;
            }
            Pushed::Lost(lost) if args.json => writeln!(out, "{{\"lost\":{lost}}}")?,
            Pushed::Lost(lost) => writeln!(out, "... {lost} events were lost: this reader is too slow")?,
        }
        // A reader of the pipe wants each event at once.
        out.flush()?;
        if remaining == 0 {
            return Ok(());
        }
    }
    Err(Failure::Failed("no more events, because this tidegate has ended".into()))
}

/// Classes come and go, so one that is not there is no error; but it may be a typing error.
fn hint(args: &Args, status: &Status) {
    let there: Vec<&str> =
        status.directions.iter().flat_map(|direction| &direction.classes).map(|class| class.name.as_str()).collect();
    for class in args.class.iter().filter(|class| !there.contains(&class.as_str())) {
        message!("tidegate: there is no class `{class}` yet, only {}; waiting for it", there.join(", "));
    }
}

/// The local date and time, with its difference from UTC, of an instant of the monotonic clock.
pub(super) fn moment(time: Span) -> String {
    let ago = timing::now().as_nanos().saturating_sub(time.as_nanos());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let then = now.saturating_sub(Duration::from_nanos(ago));
    let (local, offset) = local(then.as_secs());
    format!("{local}.{:06}{offset}", then.subsec_micros())
}

/// The local date and time, with its difference from UTC, of a second since 1970.
pub(super) fn second(time: u64) -> String {
    let (local, offset) = local(time);
    format!("{local}{offset}")
}

/// The local date and time, and its difference from UTC as `+01:00`.
fn local(time: u64) -> (String, String) {
    let offset = timing::offset_at(time);
    let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs() / 60);
    (clock(time.saturating_add_signed(offset)), format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
}

/// The date and the time of day of a clock that shows this many seconds since 1970.
fn clock(time: u64) -> String {
    let date = Date::new(1970, 1, 1).map(|first| first.after(time / 86_400)).unwrap_or_else(|| unreachable!("a date"));
    let day = time % 86_400;
    format!("{date} {:02}:{:02}:{:02}", day / 3600, day / 60 % 60, day % 60)
}

/// A message of a running shaper, with the local time where it is read on a terminal: a service's log has its own.
pub(super) fn logged(text: &str) -> String {
    match std::io::stderr().is_terminal() {
        true => format!("{} {text}", &moment(Span::from_nanos(timing::now().as_nanos()))[..SECONDS]),
        false => text.to_owned(),
    }
}

/// The length of a moment without the part of a second.
const SECONDS: usize = "2026-01-31 09:00:00".len();

/// An event in a line, for people.
pub(super) fn line(event: &Event) -> String {
    let mut line = format!("{} {:<12}", moment(event.time), event.kind.name());
    let class = event.class.as_deref().unwrap_or_default();
    match &event.from_class {
        Some(from) => line += &format!(" {from} -> {class}"),
        None if !class.is_empty() => line += &format!(" {class}"),
        None => {}
    }
    if let Some(flow) = &event.flow {
        line += &format!(" {flow}");
    }
    if let Some(granted) = event.granted {
        line += &format!(" granted {}", rate(granted));
    }
    if let Some(minimum) = event.minimum.filter(|minimum| !minimum.is_zero()) {
        line += &format!(" minimum {minimum}");
    }
    if let Some(delay) = event.delay {
        line += &format!(" delay {:.1} ms", delay.as_nanos() as f64 / 1e6);
    }
    if let Some(dropped) = event.dropped.filter(|dropped| *dropped > 0) {
        line += &format!(" dropped {dropped}");
    }
    if let Some(queue) = event.queue {
        line += &format!(" queue {queue}");
    }
    // Events of a flow name the promise by its flow.
    if let Some(promise) = event.promise.filter(|_| event.flow.is_none()) {
        line += &format!(" promise {promise}:");
    }
    if let Some(text) = &event.text {
        line += &format!(" {text}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_units::Rate;

    #[test]
    fn a_second_has_its_date_and_is_read_again() {
        for (time, expected) in [(0, "1970-01-01 00:00:00"), (951_868_799, "2000-02-29 23:59:59")] {
            assert_eq!(clock(time), expected);
        }
        // As this machine has it, wherever it is.
        for time in [86_400, 951_868_799, 1_795_320_638] {
            let shown = second(time);
            assert_eq!(since(&shown[..SECONDS]), Ok(time), "{shown}");
            assert!(shown[SECONDS..].len() == "+01:00".len() && shown[SECONDS..].starts_with(['+', '-']), "{shown}");
        }
        assert_eq!(since("90m"), since("90min"));
        assert!(since("m").is_err() && since("-m").is_err());
        let hour_ago = since("1h").expect("a time ago");
        assert!(second(hour_ago) < second(hour_ago + 3_600));
        assert!(since("yesterday").unwrap_err().contains("neither a time ago, as 2h"));
        let note = Note { time_s: 0, kind: NoteKind::Change, text: "root (uid 0), process 7: undo:\nin force".into() };
        assert_eq!(&noted(&note)[second(0).len()..], " change root (uid 0), process 7: undo: in force");
        let now = moment(Span::from_nanos(timing::now().as_nanos()));
        assert!(now.starts_with("20") && now.len() == SECONDS + ".000000+01:00".len(), "{now}");
    }

    #[test]
    fn the_kinds_that_lines_show_can_be_wanted() {
        let wanted = |text: &str| text.parse::<Wanted>();
        assert!(matches!(wanted(NoteKind::Change.name()), Ok(Wanted::Note(NoteKind::Change))));
        assert!(matches!(wanted(NoteKind::Event.name()), Ok(Wanted::Note(NoteKind::Event))));
        assert!(matches!(wanted("log"), Ok(Wanted::Kind(EventKind::Log))));
        assert!(wanted("changes").is_err());
    }

    #[test]
    fn a_line_names_the_promise_that_ended_and_rates_with_four_digits() {
        let mut ended = Event::new(EventKind::PromiseEnded, Span::ZERO);
        (ended.class, ended.promise) = (Some("media".into()), Some(6));
        ended.text = Some("its lease is over".into());
        assert!(line(&ended).ends_with(" promise-ended media promise 6: its lease is over"), "{}", line(&ended));
        let mut rate = Event::new(EventKind::Rate, Span::ZERO);
        rate.granted = Some(Rate::from_bps(27_999_981));
        assert!(line(&rate).ends_with(" granted 28.0 Mbit/s"), "{}", line(&rate));
    }
}
