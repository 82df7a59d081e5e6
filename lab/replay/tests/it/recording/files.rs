//! Recordings are read back as they were written; anything missing, damaged or impossible is counted and named.

use super::*;
use tidegate_testbed::files::skip;

#[test]
fn everything_is_read_as_it_was_written() {
    let folder = Folder::new("told");
    let (sink, _) = record(&folder, Settings { payload: Payload::All, ..settings() }, 1, 2_000);
    assert!(sink.passed > 0);
    let mut reader = reader(&folder);
    assert_eq!((reader.head().of.as_str(), reader.head().part), ("test0", 0));
    let mut draw = Stream::named(1, "recording");
    let (mut arrivals, mut steered) = (0, Vec::new());
    let mut now = 1_000_000_000;
    while let Some(record) = reader.next_record() {
        match record.unwrap() {
            Record::Setup(built) => {
                assert_eq!(built, Setup::new(&setup(), SHAPER, Instant::from_nanos(1_000_000_000)));
                assert_eq!(built.engine().names.users["alice"], 1000);
            }
            Record::Arrives { now: at, number, meta } => {
                now += draw.below(400_000);
                let (expected, bytes) = packet(&mut draw);
                assert_eq!((at.as_nanos(), number, meta), (now, arrivals, expected));
                assert_eq!(reader.bytes(), bytes);
                arrivals += 1;
            }
            Record::Adjustment { adjustment: steer, .. } => steered.push(steer),
            Record::Gap(missing) => panic!("{missing}"),
            _ => {}
        }
    }
    assert_eq!(arrivals, 2_000);
    let has = |kind: fn(&Adjustment) -> bool| steered.iter().any(kind);
    assert!(
        has(|steer| matches!(steer, Adjustment::Minimum(flow, rate) if *flow != 0 && *rate == kbit(200))),
        "{steered:?}"
    );
    assert!(has(|steer| matches!(steer, Adjustment::Rate(rate) if *rate == kbit(20_000))), "{steered:?}");
}

#[test]
fn files_of_a_limited_size_follow_each_other() {
    let folder = Folder::new("parts");
    // 60 KB hold no whole chunk of 256 KB: a file for each.
    let limited = Settings { limit: Some(Bytes::new(60_000)), ..settings() };
    let (_, counts) = record(&folder, limited.clone(), 3, 30_000);
    assert!(counts.files >= 4, "{counts:?}");
    let open = {
        let path = folder.file("run.tgr");
        move |part| File::open(part_path(&path, part)).ok()
    };
    let mut whole = Reader::with_parts(File::open(folder.file("run.tgr")).unwrap(), open.clone()).unwrap();
    let (exact, broken) = exact::replay(&mut whole);
    assert!(broken.is_none());
    assert_eq!(exact.verdict, Verdict::Equal);
    assert_eq!(whole.head().part, counts.files - 1);
    assert_eq!(whole.position().0, counts.records);

    // Read from the middle, the gap is reported and the configuration is still known.
    let mut middle = Reader::new(open(2).unwrap()).unwrap();
    assert_eq!(middle.head().setup.as_ref().unwrap().configuration, SHAPER);
    assert_eq!(middle.next_record().unwrap().unwrap(), Record::Gap(Missing::Before));
    let (exact, _) = exact::replay(&mut Reader::new(open(2).unwrap()).unwrap());
    assert_eq!(exact.verdict, Verdict::EqualUpTo { record: 0, why: Unrepeatable::Missing(Missing::Before) });

    // And that something follows.
    let mut last = None;
    let mut first = Reader::new(open(0).unwrap()).unwrap();
    while let Some(record) = first.next_record() {
        last = Some(record.unwrap());
    }
    assert_eq!(last, Some(Record::Gap(Missing::Behind)));

    // Two files are kept.
    let (_, counts) = record(&folder, Settings { files: Some(2), ..limited }, 3, 30_000);
    let kept: Vec<u64> =
        (0..counts.files + 2).filter(|part| part_path(&folder.file("run.tgr"), *part).exists()).collect();
    assert_eq!(kept, [counts.files - 2, counts.files - 1]);
}

#[test]
fn what_cannot_be_kept_is_counted_and_said() {
    let folder = Folder::new("lost");
    // A pipe without a reader: the writer blocks, and the data path goes on.
    let recording = Recording::create(&folder.file("run.tgr"), Settings { buffers: 2, ..settings() }).unwrap();
    let path = folder.file("run.tgr");
    drive(&recording, 1, 100);
    drop(recording);
    let whole = fs::metadata(&path).unwrap().len();
    assert!(whole > 0);

    let fifo = folder.0.join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip("mkfifo is not there");
    }
    let to_read = fifo.clone();
    let reading = std::thread::spawn(move || {
        let mut file = File::open(to_read).unwrap();
        // Not before the recording has lost something.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let mut all = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut all).unwrap();
        all
    });
    let recording = Recording::create(&fifo, Settings { buffers: 2, ..settings() }).unwrap();
    let sink = drive(&recording, 1, 60_000);
    assert!(sink.passed > 0);
    let counts = recording.finish().unwrap();
    assert!(counts.lost > 0 && counts.lost < counts.records, "{counts:?}");
    let all = reading.join().unwrap();
    let mut reader = Reader::new(&all[..]).unwrap();
    let (mut read, mut missing) = (0, 0);
    while let Some(record) = reader.next_record() {
        match record.unwrap() {
            Record::Gap(Missing::NotKept { records }) => missing += records,
            Record::Gap(other) => panic!("{other}"),
            _ => read += 1,
        }
    }
    let end = reader.counts().unwrap();
    assert_eq!((end.records, end.lost), (counts.records, counts.lost));
    assert!(missing == counts.lost && read + missing == counts.records, "{read} {missing} {counts:?}");
    let (exact, _) = exact::replay(&mut Reader::new(&all[..]).unwrap());
    let Verdict::EqualUpTo { record, why: Unrepeatable::Missing(Missing::NotKept { .. }) } = exact.verdict else {
        panic!("{:?}", exact.verdict)
    };
    assert!(record > 1_000);
}

#[test]
fn a_full_disk_stops_the_recording_and_nothing_else() {
    let full = PathBuf::from("/dev/full");
    if !full.exists() {
        return skip("there is no /dev/full");
    }
    // Already the head cannot be written.
    assert!(Recording::create(&full, settings()).is_err());
}

#[test]
fn a_failure_to_write_is_reported_at_once_and_later_records_are_counted() {
    static FAILURES: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
    let folder = Folder::new("stopped");
    let fifo = folder.0.join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip("mkfifo is not there");
    }
    // Its reader goes after 600 kB: two whole chunks of 256 KiB, and part of a third.
    const READ: usize = 600_000;
    let to_read = fifo.clone();
    let reading = std::thread::spawn(move || {
        let mut read = vec![0; READ];
        std::io::Read::read_exact(&mut File::open(to_read).unwrap(), &mut read).unwrap();
        read
    });
    let failed = |why: &str| FAILURES.lock().unwrap().push(why.to_owned());
    let recording = Recording::create(&fifo, Settings { failed, ..settings() }).unwrap();
    drive(&recording, 1, 60_000);
    let read = reading.join().unwrap();
    // It is over, and only now is it asked to end.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while recording.failure().is_none() {
        assert!(std::time::Instant::now() < deadline, "{:?}", recording.counts());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let message = FAILURES.lock().unwrap().clone();
    let [message] = message.as_slice() else { panic!("{message:?}") };
    assert!(message.contains(fifo.to_str().unwrap()), "{message}");
    let stopped = recording.finish().unwrap_err();
    assert_eq!((&stopped.why, FAILURES.lock().unwrap().len()), (message, 1));
    // What was written in whole chunks, and what was not, are all there were.
    let mut reader = Reader::new(&read[..]).unwrap();
    let kept = std::iter::from_fn(|| reader.next_record()).take_while(Result::is_ok).count() as u64;
    let counts = stopped.counts;
    assert!(kept > 1_000 && counts.lost > 1_000, "{kept} {counts:?}");
    // The pipe holds up to 64 KiB that its reader never took: a chunk may have been written and not read.
    assert!(counts.records - counts.lost >= kept, "{kept} {counts:?}");
    assert!(counts.lost >= counts.records / 4, "{kept} {counts:?}");
}

#[test]
fn a_file_that_was_cut_off_is_read_up_to_the_cut() {
    let folder = Folder::new("cut");
    let (_, counts) = record(&folder, settings(), 2, 30_000);
    let all = fs::read(folder.file("run.tgr")).unwrap();
    let mut last = 0;
    for part in [1, 3, 5, 7, 9] {
        let cut = all.len() * part / 10;
        let mut reader = Reader::new(&all[..cut]).unwrap();
        let (exact, broken) = exact::replay(&mut reader);
        assert_eq!(exact.verdict, Verdict::Equal);
        assert_eq!(exact.here.to_string().len(), 32);
        let Some(RecordingError::Truncated { record, offset }) = broken else { panic!("{broken:?}") };
        assert!(record >= last && record < counts.records && offset as usize <= cut);
        last = record;
    }
    assert!(last > counts.records / 2);
    // Within the head.
    for cut in [0, 3, 8, 12, 40] {
        assert!(Reader::new(&all[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn a_damaged_chunk_is_left_out_and_named() {
    let folder = Folder::new("damaged");
    record(&folder, settings(), 2, 30_000);
    let whole = fs::read(folder.file("run.tgr")).unwrap();
    let mut all = whole.clone();
    let middle = all.len() / 2;
    all[middle] ^= 0x10;
    let mut reader = Reader::new(&all[..]).unwrap();
    let mut gaps = Vec::new();
    let mut behind = 0;
    while let Some(record) = reader.next_record() {
        match record.unwrap() {
            Record::Gap(missing) => gaps.push(missing),
            _ => behind += u64::from(!gaps.is_empty()),
        }
    }
    let [Missing::Damaged { offset, why }] = &gaps[..] else { panic!("{gaps:?}") };
    assert!((*offset as usize) < middle && why.contains("checksum"));
    assert!(behind > 1_000, "what is behind it can be read: {behind}");
    // A replay reports up to where it is equal.
    let (exact, _) = exact::replay(&mut Reader::new(&all[..]).unwrap());
    assert!(matches!(exact.verdict, Verdict::EqualUpTo { why: Unrepeatable::Missing(_), .. }));
    // Packets behind it are there, and cannot be explained.
    let message = explain::arrival(&mut Reader::new(&all[..]).unwrap(), 1, 29_000).unwrap_err().to_string();
    assert!(message.starts_with("only packets 1 to ") && message.contains("checksum"), "{message}");
    assert!(explain::arrival(&mut Reader::new(&all[..]).unwrap(), 1, 100).is_ok());
    let message = explain::arrival(&mut Reader::new(&whole[..]).unwrap(), 1, 30_000).unwrap_err().to_string();
    assert_eq!(message, "there is no such packet; they are numbered 1 to 30000");
}

/// A datagram of 4,028 bytes from a program, which the kernel sends in fragments and no segmenter cuts: the recording
/// knows it from a superpacket, and so other configurations get as many packets as the recorded one.
#[test]
fn a_long_datagram_of_a_recording_stays_one() {
    let folder = Folder::new("datagram");
    let slow = "version = 1\n[[class]]\nname = \"all\"\nrate = \"500kbit\"\ndefault = true\n";
    let recording = Recording::create(&folder.file("run.tgr"), settings()).unwrap();
    let mut now = Instant::from_nanos(1_000);
    let mut engine = Engine::new(&load(slow), &setup(), now).unwrap();
    engine.set_recorder(Some(Box::new(recording.recorder(Setup::new(&setup(), slow, now)))));
    let (mut meta, bytes) = packet(&mut Stream::named(1, "datagram"));
    (meta.fields.protocol, meta.fields.fragment) = (Some(17), None);
    (meta.length, meta.headers, meta.shape) = (4_028, 28, Shape::Single);
    let mut sink = Outcomes::default();
    for handle in 0..3 {
        engine.recorder().unwrap().packet_bytes(&bytes);
        assert!(matches!(engine.enqueue(now, handle, &meta, &mut sink), tidegate_engine::Admission::Consumed));
        while engine.dequeue(now, &mut sink) {}
        now += Span::from_millis(200);
    }
    engine.release_all(&mut sink);
    drop(engine);
    recording.finish().unwrap();
    assert_eq!(sink.passed, 3);

    let part = Part { name: "same".into(), config: load(slow), settings: run::Settings::seeded(1) };
    let mut source = Source::recording(reader(&folder), Choice::default());
    let hooks = Hooks::<Vec<u8>> { notice: &mut |notice| panic!("{notice}"), pace: None, departures: None };
    let session = session::replay(&mut source, &[part], hooks).unwrap();
    assert_eq!((session.packets, session.outcomes[0].passed), (3, 3), "none is cut");
}

/// Packets of a recording are counted from 1 for people, as `explain` does.
#[test]
fn departures_of_a_recording_are_numbered_from_1() {
    let folder = Folder::new("numbers");
    record(&folder, settings(), 2, 300);
    let mut departures = Departures::new(Vec::new()).unwrap();
    session::again(&mut reader(&folder), "recorded", Keep::default(), Some(&mut departures)).unwrap();
    let part = Part { name: "beside".into(), config: load(SHAPER), settings: run::Settings::seeded(1) };
    let part =
        Part { settings: run::Settings { keep: Keep { series: false, departures: true }, ..part.settings }, ..part };
    let mut source = Source::recording(reader(&folder), Choice::default());
    let hooks = Hooks { notice: &mut |_| (), pace: None, departures: Some(&mut departures) };
    session::replay(&mut source, &[part], hooks).unwrap();
    let file = String::from_utf8_lossy(&departures.finish().unwrap()).into_owned();
    assert!(!file.contains("packet 0,"), "the first is 1");
    // The last packet that arrived is in both, by the same name.
    let last = |from: &str| {
        let all = from.match_indices("packet ").filter_map(|(at, _)| from[at + 7..].split(',').next()?.parse().ok());
        all.max().unwrap_or(0_u64)
    };
    let begins = file.rfind("packet 1,").expect("the first of the second pass");
    assert_eq!(last(&file[..begins]), last(&file[begins..]));
}

#[test]
fn impossible_counts_are_damage() {
    use tidegate_replay::recording::{FORMAT, MAGIC, raw_chunk};
    let head = format!(
        "{{\"format\":{FORMAT},\"tidegate\":\"\",\"recording\":\"\",\"part\":0,\"of\":\"\",\"instant_ns\":0,\
         \"wall_clock_ns\":0,\"payload\":\"all\",\"reasons\":[]}}"
    );
    // The number of the first record, how many were lost, the time, and the packets before: one of them is 2^64 - 1.
    let largest = [&[0xff; 9][..], &[1]].concat();
    for place in [0, 1, 3] {
        for tag in 0..32 {
            let mut body: Vec<u8> = Vec::new();
            (0..4).for_each(|n| if n == place { body.extend(&largest) } else { body.push(0) });
            body.extend([tag, 0, 0, 0, 0]);
            let all = [&MAGIC[..], &raw_chunk(b'H', head.as_bytes()), &raw_chunk(b'R', &body)].concat();
            let mut reader = Reader::new(&all[..]).unwrap();
            let first = reader.next_record().unwrap().unwrap();
            assert!(matches!(first, Record::Gap(Missing::Damaged { .. })), "{place} {tag}: {first:?}");
            assert!(reader.next_record().is_none(), "{place} {tag}");
        }
    }
}

/// A recording that was cut off in front of its first record, as when the recording process was killed.
#[test]
fn of_a_recording_without_records_none_is_explained() {
    let folder = Folder::new("nothing");
    record(&folder, settings(), 2, 10);
    let all = fs::read(folder.file("run.tgr")).unwrap();
    // The first chunk behind the magic is the head.
    let head = &all[..8 + 9 + u32::from_le_bytes(all[9..13].try_into().unwrap()) as usize];
    let none = |event| explain::packet_of_record(&mut Reader::new(head).unwrap(), event).unwrap_err().to_string();
    assert_eq!([none(0), none(7)], ["there are no records", "there are no records"]);
    let message = explain::arrival(&mut Reader::new(head).unwrap(), 1, 0).unwrap_err().to_string();
    assert_eq!(message, "there are no packets");
}

#[test]
fn a_link_of_another_user_is_not_followed() {
    use std::os::unix::fs::{lchown, symlink};

    let folder = Folder::new("link");
    let (target, link) = (folder.file("target"), folder.file("link"));
    fs::write(&target, "kept").unwrap();
    symlink(&target, &link).unwrap();
    open_file(&link).expect("a link of this user is followed");
    // To a file that is not there, which would be made.
    let (absent, dangling) = (folder.file("absent"), folder.file("dangling"));
    symlink(&absent, &dangling).unwrap();
    assert!(open_file(&dangling).is_err() && !absent.exists());
    if lchown(&link, Some(65_534), None).is_err() {
        return skip("a_link_of_another_user_is_not_followed: only root can give a link away");
    }
    let error = open_file(&link).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
    let refused = Recording::create(&link, settings()).map(drop).unwrap_err();
    assert!(refused.to_string().contains("symbolic link of another user"), "{refused}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
}
