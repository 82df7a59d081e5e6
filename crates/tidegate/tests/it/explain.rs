//! `tidegate explain` on a capture: the rule, the class, the queues, and the fate of the packet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SHAPER: &str = r#"
version = 1
[shaper]
rate = "2mbit"
[[class]]
name = "names"
rate = "1mbit"
priority = 0
[[class]]
name = "rest"
rate = "1mbit"
borrow = false
limit = "4kB"
default = true
[[rule]]
class = "names"
protocol = "udp"
destination-port = 53
"#;

/// A record of a pcap file at `micros`: a UDP packet of `size` bytes to `port`, with no link header.
fn record(micros: u32, port: u16, size: u16) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend(size.to_be_bytes());
    packet.extend([0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 7, 198, 51, 100, 1]);
    packet.extend(4_000_u16.to_be_bytes());
    packet.extend(port.to_be_bytes());
    packet.extend((size - 20).to_be_bytes());
    packet.resize(size.into(), 0);
    let header = [0, micros, u32::from(size), u32::from(size)];
    header.iter().flat_map(|word| word.to_le_bytes()).chain(packet).collect()
}

/// A folder with the capture and the shaper file.
fn folder(name: &str, records: &[Vec<u8>], shaper: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tidegate-explain-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    // Microseconds, version 2.4, raw IP.
    let head = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101];
    let mut capture: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
    capture.extend(records.concat());
    fs::write(folder.join("all.pcap"), capture).expect("a capture");
    fs::write(folder.join("shaper.toml"), shaper).expect("a file");
    folder
}

/// The exit code and the output of `explain` for packet `packet`.
fn explain_in(folder: &Path, packet: &str) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["explain", "all.pcap", "--packet", packet, "--with", "shaper.toml"])
        .current_dir(folder)
        .output()
        .expect("the command runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

/// Two packets leave at once, and the third waits for the ceiling when the fifth comes: of the burst of 3000 B there are 200
/// left, and 1 Mbit/s adds 625 in 5 ms.
#[test]
fn a_packet_that_waits_for_a_ceiling_is_explained() {
    let shaper = "version = 1\n[[class]]\nname = \"guests\"\nrate = \"500kbit\"\nat-most = \"1mbit\"\n\
                  default = true\n[shaper]\nrate = \"20mbit\"\n";
    let mut records = vec![record(0, 9_000, 1_400); 4];
    records.push(record(5_000, 9_000, 1_400));
    let folder = folder("ceiling", &records, shaper);
    let (code, text) = explain_in(&folder, "5");
    assert_eq!(code, Some(0), "{text}");
    for line in ["that of its class's ceiling held 825 of 3000", "its flow waited for a ceiling: that of its class\n"] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    let (_, text) = explain_in(&folder, "1");
    assert!(!text.contains("waited for a ceiling"), "{text}");
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn a_packet_of_a_capture_is_explained() {
    let mut records = vec![record(0, 9_000, 1_000); 4];
    records.push(record(0, 53, 100));
    let folder = folder("packet", &records, SHAPER);
    let explain = |packet: &str| explain_in(&folder, packet);

    // One flow of a class of 4 kB may hold half of it: with two packets of 1,000 bytes the third is dropped.
    let (code, text) = explain("3");
    assert_eq!(code, Some(0), "{text}");
    for line in [
        "rule 1 (class names) does not match",
        "no  destination-port is 9000; wanted: 53",
        "class rest: no rule matches, and it is the default",
        "in its class 2 packets (2000 bytes), of 1 flows; it has 1.00 Mbit/s",
        "of its flow 2 packets (2000 bytes) waited; its rate was 1.00 Mbit/s",
        "dropped as it came: the queue of its flow was full",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }

    let (code, text) = explain("5");
    assert_eq!(code, Some(0), "{text}");
    for line in ["rule 1 (class names) matches", "its flow was new", "it left at once"] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }

    // A packet without addresses is not IP, and rules do not examine it: a question about its ports is invalid.
    let described = |more: &[&str]| {
        let args = ["explain", "--with", "shaper.toml", "--protocol", "udp", "--destination-port", "53"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.args(args).args(more).current_dir(&folder).output().expect("the command runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    };
    let (code, text) = described(&[]);
    assert!(code == Some(2) && text.contains("give --source and --destination"), "{code:?} {text}");
    let (code, text) = described(&["--source", "192.0.2.7", "--destination", "198.51.100.1"]);
    assert!(
        code == Some(0) && text.contains("rule 1 (class names) matches\n") && text.contains("\nclass names\n"),
        "{text}"
    );

    let (code, text) = explain("6");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("they are numbered 1 to 5"), "{text}");
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn a_described_packet_is_compared_at_another_time_and_an_end_may_be_a_name() {
    let shaper = "version = 1\n[[class]]\nname = \"day\"\nrate = \"1mbit\"\n\
                  [[class]]\nname = \"rest\"\nrate = \"1mbit\"\ndefault = true\n\
                  [[rule]]\nclass = \"day\"\nwhen = \"mon-fri 08:00-18:00\"\n";
    let folder = folder("time", &[], shaper);
    let explain = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["explain", "--with", "shaper.toml", "--destination", "198.51.100.1"]).args(more);
        let output = command.current_dir(&folder).output().expect("the command runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    };
    // A Monday.
    for (time, class, when) in [
        ("2026-11-30 07:59", "rest", "no  when is another time"),
        ("2026-11-30 08:00", "day", "yes when is within its times"),
        ("mon 08:00", "day", "yes when is within its times"),
        ("sat 08:00", "rest", "no  when is another time"),
    ] {
        let (code, text) = explain(&["--source", "192.0.2.7", "--time", time]);
        assert!(code == Some(0) && text.contains(&format!("\nclass {class}")) && text.contains(when), "{time}: {text}");
    }
    for (more, why) in [
        (&["--source", "192.0.2.7", "--time", "monday"][..], "`monday` is no time; write"),
        (&["--source", "02:00:5e:00:53"], "nor the hardware address of a device"),
        (&["--source", "192.0.2.300"], "neither an address, nor the name of a host"),
        (&["--source", "nobody-has-this-name"], "no address is known here for `nobody-has-this-name`"),
    ] {
        let (code, text) = explain(more);
        assert!(code == Some(2) && text.contains(why), "{more:?}: {text}");
    }
    let _ = fs::remove_dir_all(&folder);
}

/// A device that this machine has not met is explained all the same: an address stands for it.
#[test]
fn an_end_may_be_a_device() {
    let shaper = "version = 1\n[[class]]\nname = \"tv\"\nrate = \"1mbit\"\n\
                  [[class]]\nname = \"rest\"\nrate = \"1mbit\"\ndefault = true\n\
                  [[rule]]\nclass = \"tv\"\nmac = \"02:00:5e:00:53:01\"\n";
    let folder = folder("device", &[], shaper);
    for (mac, class) in [("02:00:5e:00:53:01", "tv"), ("02:00:5e:00:53:02", "rest")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["explain", "--with", "shaper.toml", "--source", mac, "--destination", "198.51.100.1"]);
        let output = command.current_dir(&folder).output().expect("the command runs");
        let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.contains(&format!("\nclass {class}")), "{mac}: {out}{said}");
        assert!(said.contains("192.0.2.254 stands for it"), "{said}");
    }
    let _ = fs::remove_dir_all(&folder);
}
