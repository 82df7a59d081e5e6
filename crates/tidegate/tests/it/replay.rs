//! `tidegate replay`: in real time, and with invalid files.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::tidegate;
use tidegate_testbed::files::{Folder, text};

/// The header of a capture of raw IP.
fn header(snap: u32, link: u32) -> Vec<u8> {
    [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, snap, link].into_iter().flat_map(u32::to_le_bytes).collect()
}

/// A datagram of `length` bytes.
fn datagram(length: u16) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x10, 0, 0, 53];
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet.extend((length - 20).to_be_bytes());
    packet.resize(length.into(), 0);
    packet
}

/// A packet of a capture: the time in microseconds, the captured and the original length, the bytes.
fn packet(micros: u32, there: u32, length: u32, bytes: &[u8]) -> Vec<u8> {
    let head = [micros / 1_000_000, micros % 1_000_000, there, length].into_iter().flat_map(u32::to_le_bytes);
    head.chain(bytes.iter().copied()).collect()
}

/// A capture with datagrams of 500 bytes at these times, in microseconds.
fn capture(times: &[u32]) -> Vec<u8> {
    let bytes = datagram(500);
    times.iter().fold(header(65_535, 101), |file, time| [file, packet(*time, 500, 500, &bytes)].concat())
}

#[test]
fn real_time_takes_its_time_and_changes_nothing() {
    let folder = Folder::new("time");
    // Bursts with gaps between them, 900 ms in all: 50 kB at 400 kbit/s leave over a second.
    let times: Vec<u32> = (0..100).map(|n| n / 10 * 100_000 + n % 10 * 100).collect();
    fs::write(folder.path("c.pcap"), capture(&times)).expect("written");
    let file = folder.path("c.pcap");
    let run = |name: &str, more: &[&str]| {
        let (left, begin) = (folder.path(name), Instant::now());
        let with = ["fifo@400kbit", "fq-codel@400kbit"];
        let args: &[&str] = &["replay", &file, "--json", "--departures", &left, "--with"];
        let output = tidegate(&[args, &with, more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        (output.stdout, fs::read(&left).expect("departures"), begin.elapsed())
    };
    let (virtually, left, _) = run("virtual.pcapng", &[]);
    let told: serde_json::Value = serde_json::from_slice(&virtually).expect("JSON");
    assert_eq!(told["packets"], 100);
    // The last of 50 kB at 400 kbit/s begins to leave 990 ms after the first.
    assert_eq!(told["configurations"][0]["time_ns"], 990_000_000);
    assert!(left.len() > 100 * 500);
    let (really, left_really, took) = run("real.pcapng", &["--real-time"]);
    assert!(took >= Duration::from_millis(990), "{took:?} for a capture of 900 ms that leaves in 990 ms");
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(really == virtually, "{}", text(&really));
    assert!(left == left_really, "the departures are others");
    let (faster, left_faster, took) = run("faster.pcapng", &["--real-time", "3"]);
    assert!(took >= Duration::from_millis(330) && took < Duration::from_secs(60), "{took:?}");
    assert!(faster == virtually && left == left_faster);
    for wrong in ["0", "-1", "nan", "inf", "1e-7", "1e-300"] {
        let output = tidegate(&["replay", &file, "--with", "fifo", &format!("--real-time={wrong}")]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
}

/// In real time a packet is written when it leaves: long before the last one arrives.
#[test]
fn in_real_time_departures_come_when_they_leave() {
    let folder = Folder::new("piped");
    // The last arrives after an hour, and the test does not wait for it.
    fs::write(folder.path("c.pcap"), capture(&[0, 1_000, 3_600_000_000])).expect("written");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["replay", &folder.path("c.pcap"), "--with", "fifo@10mbit", "--real-time", "--departures", "-"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("tidegate runs");
    // The first two, of 500 bytes each, with the blocks around them.
    let mut two = vec![0; 1_000];
    child.stdout.take().expect("a pipe").read_exact(&mut two).expect("departures");
    assert!(two.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]));
    assert!(child.try_wait().expect("a child").is_none(), "the last has not come");
    child.kill().expect("a child");
    child.wait().expect("an end");
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_packet_and_what_came_before_is_shown() {
    let folder = Folder::new("hostile");
    let d = datagram(100);
    let good = |n: u32| packet(n * 1_000, 100, 100, &d);
    let of = |packets: &[Vec<u8>]| [header(65_535, 101), packets.concat()].concat();
    let three = || vec![good(0), good(1), good(2)];
    let and = |packet: Vec<u8>, after: u32| of(&[three(), vec![packet], (4..4 + after).map(good).collect()].concat());
    let cut = |mut file: Vec<u8>, by: usize| {
        file.truncate(file.len() - by);
        file
    };
    // The file, the exit code, the number of packets processed, and the message.
    let cases: Vec<(&str, Vec<u8>, i32, u64, &str)> = vec![
        ("whole", of(&three()), 0, 3, ""),
        ("nothing", Vec::new(), 2, 0, "the file is empty"),
        ("a header that is cut", cut(header(65_535, 101), 9), 2, 0, "the file ends within its header"),
        ("no packets", header(65_535, 101), 0, 0, "it has no packets"),
        ("a packet of no length", and(packet(3_000, 0, 0, &[]), 2), 0, 6, "packet 4 at byte 372: zero length"),
        ("a packet of which nothing is there", and(packet(3_000, 0, 100, &[]), 2), 0, 6, ""),
        ("time that runs back", and(packet(500, 100, 100, &d), 2), 0, 6, "packet 4 at byte 372: 1500000 ns before"),
        ("more there than was", and(packet(3_000, 100, 60, &d), 2), 0, 6, "packet 4 at byte 372: 100 bytes were"),
        ("a packet that is cut", cut(of(&three()), 30), 1, 2, "packet 3 at byte 256: the file ends within it"),
        ("a packet header that is cut", cut(of(&three()), 110), 1, 2, "packet 3 at byte 256: the file ends within it"),
        (
            "a length of 4 GB",
            and(packet(3_000, u32::MAX - 15, u32::MAX - 15, &d), 9),
            1,
            3,
            "packet 4 at byte 372: the file ends within it, or its length is damaged",
        ),
        ("a snaplen of 4 GB", [header(u32::MAX, 101), three().concat()].concat(), 0, 3, ""),
        ("another link", [header(65_535, 147), three().concat()].concat(), 0, 3, "link type 147 is not supported"),
        ("text", b"this is no capture at all\n".repeat(9), 2, 0, "not a pcap, pcapng or recording: it begins with"),
        ("compressed", [&[0x1f, 0x8b, 8, 0][..], &[7; 90]].concat(), 2, 0, "unpack it first, with `gzip -d`"),
        ("a recording without a chunk", b"\x89TGR\r\n\x1a\n".to_vec(), 2, 0, "record 0: the file ends"),
        ("a recording as text", b"\x89TGR\n\x1a\nxxxxxxxx".to_vec(), 2, 0, "as text is; copy it again, as binary"),
    ];
    for (name, file, code, packets, say) in cases {
        let path = folder.path("f");
        fs::write(&path, &file).expect("written");
        let output = tidegate(&["replay", &path, "--with", "fifo@10mbit", "--json"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{name}: {said}");
        assert!(said.contains(say) && say.is_empty() == said.is_empty(), "{name}: {said}");
        assert!(said.is_empty() || said.contains(&path), "{name}: {said} names the file");
        if code < 2 {
            let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(told["packets"], packets, "{name}");
        }
        // The same for explaining one of its packets.
        let explained = tidegate(&["explain", &path, "--packet", "2", "--with", "/dev/null"]);
        assert!(explained.status.code().is_some_and(|code| code <= 2), "{name}: {}", text(&explained.stderr));
    }
    let fails = |args: &[&str], code: i32, say: &str| {
        let output = tidegate(&[&["replay"], args, &["--with", "fifo@10mbit"]].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(say), "{args:?}: {:?} {said}", output.status);
    };
    let folder_itself = folder.0.display().to_string();
    fails(&[&folder_itself], 2, &format!("{folder_itself} is a directory"));
    let missing = folder.path("missing.pcap");
    fails(&[&missing], 2, &format!("{missing}: No such file"));
    // A file that can be opened but not read: address 0 is not mapped.
    fails(&["/proc/self/mem"], 2, "/proc/self/mem: ");
    fails(&["/dev/null"], 2, "/dev/null: the file is empty");
    let path = folder.path("whole.pcap");
    fs::write(&path, of(&three())).expect("written");
    fails(&[&path, "--from", "192.0.2.1"], 0, "none is chosen by --from or --direction");
    fails(&[&path, "--report", "/nowhere/x.html"], 2, "/nowhere/x.html");
    fails(&[&path, "--departures", "/nowhere/x.pcapng"], 2, "/nowhere/x.pcapng");
}

/// Reading and writing the same file would destroy the capture.
#[test]
fn what_is_read_is_not_written_over() {
    let folder = Folder::new("over");
    let (file, shaper) = (folder.path("c.csv"), folder.path("shaper.toml"));
    let before = capture(&[0, 1_000]);
    let config = "version = 1\n[discipline]\nkind = \"fifo\"\n";
    fs::write(&file, &before).expect("written");
    fs::write(&shaper, config).expect("written");
    std::os::unix::fs::symlink("c.csv", folder.path("link.csv")).expect("a link");
    for flag in ["--departures", "--report", "--table", "--parquet"] {
        for name in ["c.csv", "link.csv"] {
            let output = tidegate(&["replay", &file, flag, &folder.path(name), "--with", "fifo@1mbit"]);
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{flag} {name}: {told}");
            assert!(told.contains("c.csv is read") && told.contains("name another file"), "{told}");
        }
    }
    let output = tidegate(&["replay", &file, "--departures", &shaper, "--with", &shaper]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let output = tidegate(&["simulate", &shaper, "--report", &shaper]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let output = tidegate(&["run", &shaper, "--interface", "lo", "--record", &shaper, "--duration", "1ms"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("shaper.toml is read"), "{}", text(&output.stderr));
    assert!(fs::read(&file).expect("there") == before, "the capture is another");
    assert_eq!(fs::read_to_string(&shaper).expect("there"), config);
    let beside = tidegate(&["replay", &file, "--departures", &folder.path("left.pcapng"), "--with", "fifo@1mbit"]);
    assert!(beside.status.success(), "{}", text(&beside.stderr));
}

#[test]
fn the_seed_that_is_told_is_the_one_that_was_used() {
    let small = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/fuzz/seeds/recording/small.tgr");
    let folder = Folder::new("seed");
    let file = folder.path("c.pcap");
    fs::write(&file, capture(&[0, 1_000])).expect("written");
    // The recording has seed 7, whatever is requested.
    for (file, seed) in [(small, 7), (file.as_str(), 3)] {
        let report = folder.path("r.html");
        let output = tidegate(&["replay", file, "--seed", "3", "--json", "--report", &report, "--with", "fifo@1mbit"]);
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(told["seed"], seed, "{file}: {}", text(&output.stderr));
        let page = fs::read_to_string(&report).expect("a report");
        let fact = &page[page.find(">seed<").expect("the page tells the seed")..];
        assert!(fact[..80].contains(&format!(">{seed}<")), "{}", &fact[..80]);
    }
}

/// Reading it twice would wait for itself.
#[test]
fn standard_input_is_one_thing() {
    let of = |args: &[&str], input: &[u8]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let mut child = command.args(args).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tidegate runs");
        // It may end without reading.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        let end = Instant::now() + Duration::from_secs(60);
        while child.try_wait().expect("it can be asked").is_none() {
            assert!(Instant::now() < end || child.kill().is_err(), "{args:?} waits for itself");
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait_with_output().expect("an end")
    };
    for args in [&["replay", "-", "--with", "-"][..], &["explain", "-", "--packet", "1", "--with", "-"]] {
        let output = of(args, &capture(&[0, 1_000]));
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains("not both"), "{}", text(&output.stderr));
    }
    let small =
        fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/fuzz/seeds/recording/small.tgr")).expect("there");
    let output = of(&["explain", "-", "--event", "3"], &small);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot come from standard input"), "{}", text(&output.stderr));
}

/// `new-qdisc my-red` makes a folder `my-red` in which `--with my-red@20mbit` is used.
#[test]
fn a_folder_called_as_a_kind_is_not_in_the_way() {
    let folder = Folder::new("kind");
    fs::write(folder.path("c.pcap"), capture(&[0, 1_000])).expect("written");
    fs::create_dir(folder.path("fifo")).expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["replay", "c.pcap", "--hash", "--with", "fifo@1mbit", "--link", "1mbit"])
        .current_dir(&folder.0)
        .output()
        .expect("tidegate runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("fifo@1mbit"));
}

#[test]
fn a_link_without_rate_is_wrong_usage() {
    let folder = Folder::new("rate");
    let file = folder.path("c.pcap");
    fs::write(&file, capture(&[0, 1_000])).expect("written");
    for args in [&["--with", "fifo@0mbit"][..], &["--with", "fifo", "--link", "0bit"]] {
        let output = tidegate(&[&["replay", &file], args].concat());
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains("link of rate 0"), "{args:?}: {told}");
    }
}

#[test]
fn a_pipe_is_read_like_a_file() {
    let file = capture(&[0, 1_000, 2_000]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["replay", "-", "--with", "fifo@10mbit", "--hash"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("tidegate runs");
    let mut pipe = child.stdin.take().expect("a pipe");
    // One byte at a time: reads never return the requested pieces.
    let writing = std::thread::spawn(move || file.iter().for_each(|byte| pipe.write_all(&[*byte]).expect("read")));
    let piped = child.wait_with_output().expect("an end");
    writing.join().expect("written");
    let folder = Folder::new("pipe");
    fs::write(folder.path("c.pcap"), capture(&[0, 1_000, 2_000])).expect("written");
    let read = tidegate(&["replay", &folder.path("c.pcap"), "--with", "fifo@10mbit", "--hash"]);
    assert!(piped.status.success() && read.status.success());
    assert_eq!(text(&piped.stdout), text(&read.stdout));
}
