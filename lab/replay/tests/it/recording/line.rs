//! The decisions of a rate that follows the line are made again from a recording.

use tidegate_autorate::calls::{Call, Decided, Recorder};
use tidegate_autorate::{Bounds, Controller, Side};
use tidegate_replay::decisions::{Decisions, Verdict};
use tidegate_replay::recording::raw_chunk;

use super::*;

/// A controller and the recorder of its calls.
struct Recorded<R> {
    controller: Controller,
    recorder: R,
    number: u64,
}

impl<R: Recorder> Recorded<R> {
    fn new(recorder: R) -> Self {
        Self { controller: Controller::new([None; 2], Instant::ZERO), recorder, number: 0 }
    }
    fn call(&mut self, call: &Call) {
        let decided = self.controller.call(call);
        self.recorder.call(self.number, call, &decided);
        self.number += 1;
    }
}

fn bounds(mbit: [u64; 3]) -> Option<Bounds> {
    let [least, base, most] = mbit.map(Rate::from_mbit);
    Some(Bounds { least, base, most })
}

/// A minute of a line whose rate changes every seven seconds: a saturated way up with a buffer, packets of 1500 bytes whose answers come
/// after 40 ms and the queue, a gap of half a second without answers, an idle pause, and other bounds in the middle.
fn minute<R: Recorder>(to: &mut Recorded<R>) {
    let mut draw = Stream::named(3, "line");
    let start = Instant::from_nanos(5_000_000_000);
    to.call(&Call::Start { now: start });
    to.call(&Call::Bounds { side: Side::Up, bounds: bounds([1, 6, 40]) });
    to.call(&Call::Bounds { side: Side::Down, bounds: bounds([5, 20, 90]) });
    let mut queue = 0_u64;
    for tick in 0..1_200_u64 {
        let now = start + Span::from_millis(50 * tick);
        let seconds = tick / 20;
        let line = [12, 4, 25, 9][(seconds / 7) as usize % 4] * 1_000_000;
        let idle = (30..45).contains(&seconds);
        let sent = if idle { 2_000 } else { to.controller.allowed(Side::Up).unwrap().as_bps() / 160 };
        queue = (queue + sent).saturating_sub(line / 160);
        let silent = (600..610).contains(&(tick % 1_000));
        for n in 0..if silent { 0 } else { 1 + tick % 2 } {
            let delay = 40_000_000 + queue * 8_000_000_000 / line + draw.below(400_000);
            let (round_trip, peer) = (Span::from_nanos(delay), draw.below(3));
            let down = (peer == 1).then(|| draw.below(1_000_000));
            to.call(&Call::RoundTrip { now: now + Span::from_millis(n), peer, round_trip, down });
        }
        to.call(&Call::Carried { side: Side::Up, bytes: Bytes::new(sent), waiting: !idle });
        to.call(&Call::Carried { side: Side::Down, bytes: Bytes::new(draw.below(150_000)), waiting: tick % 100 < 60 });
        if tick == 500 {
            to.call(&Call::Bounds { side: Side::Down, bounds: bounds([5, 20, 30]) });
        }
        to.call(&Call::Decide { now: now + Span::from_millis(10) });
    }
}

/// Passes calls on as a controller with a fault would have made them.
struct Faulty<R, F>(R, F);

impl<R: Recorder, F: FnMut(u64, &Decided) -> Decided + Send> Recorder for Faulty<R, F> {
    fn call(&mut self, number: u64, call: &Call, decided: &Decided) {
        let decided = (self.1)(number, decided);
        self.0.call(number, call, &decided);
    }
}

/// Records the line in two parts with the calls of an engine between them.
fn record_line(
    folder: &Folder,
    settings: Settings,
    fault: impl FnMut(u64, &Decided) -> Decided + Send,
) -> (Counts, u64) {
    let recording = Recording::create(&folder.file("run.tgr"), settings).unwrap();
    let mut line = Recorded::new(Faulty(recording.line(), fault));
    minute(&mut line);
    drive(&recording, 2, 2_000);
    let calls = line.number;
    drop(line);
    (recording.finish().unwrap(), calls)
}

fn read_to_end<R: std::io::Read>(mut reader: Reader<R>) -> Decisions {
    while reader.next_record().is_some() {}
    reader.decisions().clone()
}

#[test]
fn the_decisions_of_a_line_are_made_again() {
    let folder = Folder::new("line");
    let (counts, _) = record_line(&folder, settings(), |_, decided| *decided);
    assert_eq!(counts.lost, 0);
    let decisions = read_to_end(reader(&folder));
    assert_eq!(decisions.verdict(), Verdict::Equal);
    assert!(decisions.compared() > 150, "{}", decisions.compared());
    for side in Side::BOTH {
        let last = decisions.recent(side).last().unwrap();
        assert_eq!(decisions.allowed(side), Some(last.to), "{side:?}");
        assert_eq!(decisions.recent(side).count(), 20, "{side:?}");
    }
    // Calls of a controller stand between those of the engine, and disturb none of them.
    let (exact, broken) = exact::replay(&mut reader(&folder));
    assert!(broken.is_none());
    assert_eq!(exact.verdict, exact::Verdict::Equal);
    assert!(exact.compared > 1_500);
    assert!(!decisions.is_empty());
    record(&folder, settings(), 2, 10);
    assert!(read_to_end(reader(&folder)).is_empty());
}

#[test]
fn decisions_go_on_in_the_next_file() {
    let folder = Folder::new("line-parts");
    let limited = Settings { limit: Some(Bytes::new(20_000)), ..settings() };
    let (counts, _) = record_line(&folder, limited, |_, decided| *decided);
    assert!(counts.files > 2, "{counts:?}");
    let path = folder.file("run.tgr");
    let first = File::open(&path).unwrap();
    let all = Reader::with_parts(first, move |part| File::open(part_path(&path, part)).ok()).unwrap();
    let decisions = read_to_end(all);
    assert_eq!(decisions.verdict(), Verdict::Equal);
    assert!(decisions.compared() > 150);
    // The second file alone has no beginning.
    let second = Reader::new(File::open(part_path(&folder.file("run.tgr"), 1)).unwrap()).unwrap();
    assert_eq!(read_to_end(second).verdict(), Verdict::EqualUpTo(0));
}

#[test]
fn a_decision_that_this_version_does_not_make_is_found() {
    let folder = Folder::new("line-fault");
    type Fault = fn(u64, &Decided) -> Decided;
    // Each fault from call 2,000 on: another rate, another time, another cause, a decision that was not made, and one too many.
    let faults: [Fault; 5] = [
        |_, decided| decided.map(|one| one.map(|one| tidegate_autorate::Decision { to: one.from, ..one })),
        |_, decided| decided.map(|one| one.map(|one| tidegate_autorate::Decision { at: Instant::ZERO, ..one })),
        |_, decided| {
            decided
                .map(|one| one.map(|one| tidegate_autorate::Decision { cause: tidegate_autorate::Cause::Start, ..one }))
        },
        |_, _| [None; 2],
        |_, decided| [decided[0].or(decided[1]), decided[1]],
    ];
    for (n, fault) in faults.into_iter().enumerate() {
        record_line(&folder, settings(), move |number, decided| match number {
            2_000.. => fault(number, decided),
            _ => *decided,
        });
        let decisions = read_to_end(reader(&folder));
        let Verdict::Different(difference) = decisions.verdict() else { panic!("{n}: {:?}", decisions.verdict()) };
        // The next decision may be that after the pause.
        assert!((2_000..4_000).contains(&difference.call), "{n}: {difference}");
        assert!(difference.to_string().contains(" in the recording, "), "{n}: {difference}");
        assert_ne!(difference.recorded, difference.here, "{n}");
    }
}

#[test]
fn missing_calls_end_the_comparison() {
    let folder = Folder::new("line-gap");
    let recording = Recording::create(&folder.file("run.tgr"), settings()).unwrap();
    struct Without<R>(R);
    impl<R: Recorder> Recorder for Without<R> {
        fn call(&mut self, number: u64, call: &Call, decided: &Decided) {
            // As if a chunk had been lost: the number of its first call tells.
            self.0.call(if number < 3_000 { number } else { number + 1 }, call, decided);
        }
    }
    let mut line = Recorded::new(Without(recording.line()));
    minute(&mut line);
    drop(line);
    recording.finish().unwrap();
    let verdict = read_to_end(reader(&folder)).verdict();
    // The first chunk that begins behind the loss.
    assert!(matches!(verdict, Verdict::EqualUpTo(3_000..3_400)), "{verdict:?}");
}

/// The head of a recording with one chunk of calls.
fn with_calls(head: &[u8], body: &[u8]) -> Vec<u8> {
    [head, &raw_chunk(b'L', body)].concat()
}

#[test]
fn hostile_calls_are_refused() {
    let folder = Folder::new("line-hostile");
    record_line(&folder, settings(), |_, decided| *decided);
    let all = fs::read(folder.file("run.tgr")).unwrap();
    let length = |at: usize| u32::from_le_bytes(all[at + 1..at + 5].try_into().unwrap()) as usize;
    let end = 8 + 9 + length(8);
    let head = &all[..end];
    let mut at = end;
    while all[at] != b'L' {
        at += 9 + length(at);
    }
    let body = &all[at + 9..at + 9 + length(at)];
    assert_eq!(read_to_end(Reader::new(&with_calls(head, body)[..]).unwrap()).verdict(), Verdict::Equal);
    // A call of no kind, a side that is none, a cause that is none, an optional value that is neither there nor not.
    let none: [&[u8]; 5] =
        [&[0, 0, 9], &[0, 0, 4, 4, 0], &[0, 0, 5, 0, 1, 0, 0, 0, 0, 7, 0, 0], &[0, 0, 5, 0, 4], &[0, 0, 2, 2, 1]];
    for body in none {
        let file = with_calls(head, body);
        let mut reader = Reader::new(&file[..]).unwrap();
        let first = reader.next_record();
        assert!(matches!(first, Some(Ok(Record::Gap(Missing::Damaged { .. })))), "{body:?}: {first:?}");
    }
    // Changed bytes with a right checksum: each file ends, and the controller takes any value.
    let mut draw = Stream::named(9, "hostile");
    let mut different = 0;
    for _ in 0..3_000 {
        let mut body = body.to_vec();
        for _ in 0..1 + draw.below(4) {
            let (at, value) = (draw.below(body.len() as u64) as usize, draw.next_u64() as u8);
            body[at] = value;
        }
        body.truncate(body.len() - draw.below(20) as usize);
        let decisions = read_to_end(Reader::new(&with_calls(head, &body)[..]).unwrap());
        different += u64::from(decisions.verdict() != Verdict::Equal);
    }
    assert!(different > 1_000, "{different}");
}

#[test]
fn a_controller_takes_extreme_values() {
    let mut draw = Stream::named(4, "extreme");
    let edges = [0, 1, 7, 1_000, 1_000_000_000, 1 << 40, 1 << 62, u64::MAX - 1, u64::MAX];
    for _ in 0..300 {
        let mut controller = Controller::new([None; 2], Instant::ZERO);
        for _ in 0..400 {
            let mut value = || match draw.below(3) {
                0 => edges[draw.below(edges.len() as u64) as usize],
                1 => draw.below(1 << 36),
                _ => draw.next_u64() >> draw.below(64),
            };
            let (a, b, c) = (value(), value(), value());
            let (now, rate) = (Instant::from_nanos(a), |value| Rate::from_bps(value));
            let side = Side::BOTH[(b & 1) as usize];
            let call = match draw.below(12) {
                0 => Call::Start { now },
                1 | 2 => Call::Bounds { side, bounds: Some(Bounds { least: rate(a), base: rate(b), most: rate(c) }) },
                3 => Call::Bounds { side, bounds: None },
                4..7 => Call::RoundTrip { now, peer: b % 5, round_trip: Span::from_nanos(c), down: Some(b) },
                7..9 => Call::Carried { side, bytes: Bytes::new(c), waiting: true },
                _ => Call::Decide { now },
            };
            controller.call(&call);
        }
    }
}

/// The recording of an earlier controller: a constant of the controller that is changed makes other decisions. After a deliberate
/// change, `TIDEGATE_WRITE_SEED=1` writes it anew.
#[test]
fn the_controller_still_decides_as_it_was_recorded() {
    let path = repeated::seed("line.tgr");
    if std::env::var_os("TIDEGATE_WRITE_SEED").is_some() {
        let recording = Recording::create(&path, settings()).unwrap();
        minute(&mut Recorded::new(recording.line()));
        recording.finish().unwrap();
    }
    let decisions = read_to_end(Reader::new(File::open(path).unwrap()).unwrap());
    if let Verdict::Different(difference) = decisions.verdict() {
        panic!("{difference}");
    }
    assert_eq!((decisions.verdict(), decisions.compared() > 150), (Verdict::Equal, true));
}
