use tidegate_control::calls::FollowStatus;
use tidegate_units::{Rate, Span};

use super::super::history::LINE;
use super::*;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn point(rate: f32) -> Point {
    Point::from_values([rate, 0.0, 100.0, 0.001, 0.002, 2.0, 1.0, 1.0, 0.0], [0; WAITS])
}

/// A folder of its own, which is removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-history-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
    fn file(&self) -> PathBuf {
        self.0.join("wan0.history")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Observes `seconds` until now, a class each, as the daemon does.
fn observe(file: &mut HistoryFile, shared: &Shared, seconds: std::ops::Range<u64>, class: &str) {
    for second in seconds {
        shared.history().push(second, [("up", class, point(second as f32 % 1_000.0))].into_iter());
        assert_eq!(file.keep(shared, false), None);
    }
}

fn rates(shared: &Shared, span: u64) -> Vec<serde_json::Value> {
    let json = shared.history().json(span, 0);
    json["series"][0]["rate_bps"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_day_survives_a_process_that_was_killed() {
    let folder = Folder::new("killed");
    let (shared, end) = (Shared::default(), now() / 60 * 60 - 1);
    let begin = end - 7_200;
    {
        let (mut file, wrong) = HistoryFile::open(&folder.file(), &shared).unwrap();
        assert_eq!(wrong, None);
        observe(&mut file, &shared, begin..end + 1, "calls");
        // Dropped without an end, in the last second of a minute: that minute is lost.
    }
    let next = Shared::default();
    let (_, wrong) = HistoryFile::open(&folder.file(), &next).unwrap();
    assert_eq!(wrong, None);
    for minute in 1..119 {
        let second = begin / 60 * 60 + 60 * minute;
        let (before, after) =
            (shared.history().at(2, "up", "calls", second), next.history().at(2, "up", "calls", second));
        assert_eq!(before, after, "minute {minute}");
        assert!(after.is_some(), "minute {minute}");
        // Finer steps have even parts: the packets that were dropped stay the same.
        let ten = next.history().at(1, "up", "calls", second);
        assert!(ten.is_none_or(|ten| (ten.drops - 20.0).abs() < 0.01 && ten.long == 0.002), "{ten:?}");
    }
    assert_eq!(next.history().at(2, "up", "calls", end), None);
}

/// The rate that follows the line is a series without the name of a class, with or without a known delay.
#[test]
fn a_rate_that_follows_the_line_is_kept_as_well() {
    let folder = Folder::new("line");
    let (shared, from) = (Shared::default(), now() / 60 * 60 - 600);
    let (mut file, _) = HistoryFile::open(&folder.file(), &shared).unwrap();
    for second in from..from + 130 {
        let delay = (second % 2 == 0).then_some(Span::from_millis(20));
        let follow = FollowStatus { allowed: Rate::from_mbit(5), delay, ..FollowStatus::default() };
        shared.history().push(second, [("up", LINE, Point::of_line(&follow))].into_iter());
        assert_eq!(file.keep(&shared, false), None);
    }
    drop(file);
    let next = Shared::default();
    let (_, wrong) = HistoryFile::open(&folder.file(), &next).unwrap();
    assert_eq!(wrong, None);
    let kept = next.history().at(2, "up", LINE, from).expect("a minute of the line");
    assert!((kept.rate - 5e6).abs() < 1.0 && (kept.long - 0.02).abs() < 1e-6, "{kept:?}");
}

#[test]
fn an_orderly_end_loses_nothing_and_a_successor_goes_on_in_the_same_minute() {
    let folder = Folder::new("ordered");
    let (shared, from) = (Shared::default(), now() / 60 * 60 - 600);
    let (mut file, _) = HistoryFile::open(&folder.file(), &shared).unwrap();
    observe(&mut file, &shared, from..from + 90, "calls");
    shared.notes().add(NoteKind::Change, "uid 1000 set it");
    assert_eq!(file.keep(&shared, true), None);
    drop(file);
    let next = Shared::default();
    let (mut file, wrong) = HistoryFile::open(&folder.file(), &next).unwrap();
    assert_eq!(wrong, None);
    observe(&mut file, &next, from + 90..from + 120, "calls");
    let (whole, split) = (Shared::default(), next.history().at(2, "up", "calls", from + 60).unwrap());
    (from + 60..from + 120)
        .for_each(|second| whole.history().push(second, [("up", "calls", point(second as f32 % 1_000.0))].into_iter()));
    let whole = whole.history().at(2, "up", "calls", from + 60).unwrap();
    assert!(
        (whole.rate - split.rate).abs() < 0.1 && (whole.drops, whole.long) == (split.drops, split.long),
        "{split:?}"
    );
    assert_eq!(next.notes().json(0)[0]["text"], "uid 1000 set it");
}

#[test]
fn changes_and_faults_are_read_while_no_daemon_runs() {
    let folder = Folder::new("stopped");
    let shared = Shared::default();
    let (mut file, _) = HistoryFile::open(&folder.file(), &shared).unwrap();
    shared.notes().add(NoteKind::Change, "uid 1000 set it");
    (0..2_000).for_each(|_| shared.notes().add(NoteKind::Event, "up: lost"));
    assert_eq!(file.keep(&shared, false), None);
    // As after a kill: nothing is written at an end.
    std::mem::forget(file);
    let bytes = fs::read(folder.file()).unwrap();
    let folder_of = folder.file().parent().unwrap().to_owned();
    assert_eq!(files(&folder_of, None), [folder.file()]);
    assert_eq!(files(&folder_of, Some("wan0")), [folder.file()]);
    assert!(files(&folder_of, Some("wan1")).is_empty());
    let notes = read_notes(&folder.file(), 0).unwrap();
    assert_eq!((notes.len(), notes[0].text.as_str()), (2, "uid 1000 set it"));
    assert!(notes[1].text.starts_with("up: lost ("), "{notes:?}");
    assert!(read_notes(&folder.file(), u64::MAX).unwrap().is_empty());
    assert_eq!(fs::read(folder.file()).unwrap(), bytes, "it is as it was");
    fs::write(folder.file(), "something else").unwrap();
    assert!(read_notes(&folder.file(), 0).unwrap_err().to_string().contains("not a history"));
}

#[test]
fn a_damaged_or_hostile_file_is_read_up_to_the_damage_and_begun_anew() {
    let folder = Folder::new("damaged");
    let (shared, from) = (Shared::default(), now() / 60 * 60 - 600);
    let (mut file, _) = HistoryFile::open(&folder.file(), &shared).unwrap();
    observe(&mut file, &shared, from..from + 300, "calls");
    let sound = fs::read(folder.file()).unwrap();
    let opened = |bytes: &[u8]| {
        fs::write(folder.file(), bytes).unwrap();
        let shared = Shared::default();
        let (_, wrong) = HistoryFile::open(&folder.file(), &shared).unwrap();
        let minutes = shared.history().minutes().len();
        // What is there now is sound.
        assert_eq!(HistoryFile::open(&folder.file(), &Shared::default()).unwrap().1, None);
        (minutes, wrong)
    };
    assert_eq!(opened(&sound), (4, None));
    let (minutes, wrong) = opened(&sound[..sound.len() - 3]);
    assert!(minutes == 3 && wrong.is_some_and(|wrong| wrong.contains("damaged from byte")));
    // Each byte matters, and none leads to a panic.
    for at in (0..sound.len()).step_by(7) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x41;
        let (minutes, wrong) = opened(&bytes);
        assert!(minutes < 4 && wrong.is_some(), "byte {at}");
    }
    let forged = |minute: &Minute| {
        let mut bytes = HEADING.to_vec();
        block(&mut bytes, MINUTE, &minute_bytes(minute));
        opened(&bytes).0
    };
    let record = Record { direction: "up".into(), class: "calls".into(), seconds: 60, point: point(1.0) };
    let minute = |record: Record| Minute { from, records: vec![record] };
    assert_eq!(forged(&minute(record.clone())), 1);
    // Of the future, without a number, with a name that does something to a terminal, longer than a minute.
    assert_eq!(forged(&Minute { from: from + 86_400, records: vec![record.clone()] }), 0);
    assert_eq!(forged(&minute(Record { point: point(f32::NAN), ..record.clone() })), 0);
    assert_eq!(forged(&minute(Record { class: "\u{1b}[2J".into(), ..record.clone() })), 0);
    assert_eq!(forged(&minute(Record { seconds: 61, ..record.clone() })), 0);
    assert_eq!(forged(&Minute { from, records: vec![record; MOST + 1] }), 0);
    assert_eq!(opened(b"").0, 0);
    assert_eq!(opened(&[0xff; 4096]).0, 0);
}

#[test]
fn files_that_others_may_have_written_and_links_are_not_read() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new("others");
    let (shared, from) = (Shared::default(), now() / 60 * 60 - 600);
    let (mut file, _) = HistoryFile::open(&folder.file(), &shared).unwrap();
    observe(&mut file, &shared, from..from + 300, "calls");
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o666)).unwrap();
    let next = Shared::default();
    let (_, wrong) = HistoryFile::open(&folder.file(), &next).unwrap();
    assert!(wrong.is_some_and(|wrong| wrong.contains("others may have written it")) && next.history().is_empty());
    // The link is replaced; what it points to stays as it is.
    let other = folder.0.join("precious");
    fs::write(&other, "mine").unwrap();
    fs::remove_file(folder.file()).unwrap();
    symlink(&other, folder.file()).unwrap();
    let (_, wrong) = HistoryFile::open(&folder.file(), &Shared::default()).unwrap();
    assert!(wrong.is_some() && fs::read(&other).unwrap() == b"mine");
    assert!(fs::symlink_metadata(folder.file()).unwrap().is_file());
}

#[test]
fn the_file_is_bounded() {
    let folder = Folder::new("bounded");
    let (shared, begin) = (Shared::default(), now() / 60 * 60 - 3 * DAY);
    let (mut file, _) = HistoryFile::open(&folder.file(), &shared).unwrap();
    let mut largest = 0;
    for minute in 0..3 * 1_440 {
        shared.history().push(begin + 60 * minute, [("up", "calls", point(1.0))].into_iter());
        assert_eq!(file.keep(&shared, false), None);
        largest = largest.max(fs::metadata(folder.file()).unwrap().len());
    }
    // A block of one class: 5 of the head, 8 + 9 + 1 + 36 + 21 of the payload, 32 of the digest.
    let block = 5 + 8 + 9 + 1 + 36 + WAITS as u64 + 32;
    assert!(largest <= BLOCKS as u64 * block + HEADING.len() as u64, "{largest}");
    let next = Shared::default();
    HistoryFile::open(&folder.file(), &next).unwrap();
    assert!((1_438..=1_440).contains(&rates(&next, DAY).iter().filter(|rate| !rate.is_null()).count()));
}
