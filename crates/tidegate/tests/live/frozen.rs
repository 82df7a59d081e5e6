//! Shaper and guardian stopped together, as a freezer of control groups does: nobody is left to let packets pass. And a file system that
//! is frozen, as for a snapshot.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::at_pair::succeeds;
use crate::running::{Running, Traffic};
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::veth::{DEVICE, Pair};

/// 250 packets of 500 bytes leave in a second, and 50 may wait.
const SHAPER: &str = "version = 1\n[shaper]\nrate = \"1mbit\"\n\
    [[class]]\nname = \"rest\"\nrate = \"1mbit\"\ndefault = true\nlimit = \"25000B\"\nflow-limit = \"25000B\"\n";
const PAYLOAD: usize = 472;
/// Fewer than leave.
const EVERY: Duration = Duration::from_millis(5);
const FROZEN: Duration = Duration::from_secs(2);

/// Packets wait in the kernel until the freeze is over. Then those that the limits of their class do not admit are dropped, and each of
/// them is counted there; the others leave in order.
pub fn a_freeze_of_both_processes_is_counted_packet_by_packet() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let control = scratch.0.join("control").display().to_string();
    let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    command.arg("run").arg(scratch.write("shaper.toml", SHAPER)).args(["--interface", DEVICE, "--control", &control]);
    let mut running = Running::start(command);
    running.says("is in force");
    let direction = || {
        let mut shown: Value =
            serde_json::from_str(&succeeds(&pair, &["status", "--json", "--control", &control])).unwrap();
        shown["directions"][0].take()
    };
    let dropped = |direction: &Value| {
        let reasons = direction["classes"][0]["dropped"].as_array().unwrap();
        reasons.iter().map(|of| of["packets"].as_u64().unwrap()).sum::<u64>()
            + direction["kernel_dropped_packets"].as_u64().unwrap()
    };
    let traffic = Traffic::start(&pair, PAYLOAD, EVERY);
    traffic.until(100);
    let before = direction();
    let guardian = before["guardian"]["pid"].as_u64().unwrap() as u32;
    let stop = |signal| {
        tidegate_sys::process::signal(guardian, signal).unwrap();
        running.signal(signal);
    };
    stop(libc::SIGSTOP);
    thread::sleep(FROZEN);
    stop(libc::SIGCONT);
    thread::sleep(FROZEN);
    let arrivals = traffic.stop_lossy();
    let counted = dropped(&direction());
    running.signal(libc::SIGINT);
    let (status, _, said) = running.end();
    assert!(status.success() && said.contains("nothing is left behind"), "{status}: {said}");
    println!("{counted} of {} packets dropped, {} before the freeze", arrivals.sent, dropped(&before));
    assert_eq!(arrivals.reordered(), 0, "of {} sent", arrivals.sent);
    assert!(counted > 100, "{counted} of some 400 that came meanwhile");
    assert_eq!(arrivals.lost(), counted, "of {} sent", arrivals.sent);
    Ended::Passed
}

/// A file system in a file, which is not frozen any more and gone on drop.
struct Mounted<'a>(&'a Path);

impl Mounted<'_> {
    fn freeze(&self) {
        run("fsfreeze", &["--freeze".as_ref(), self.0]).unwrap();
    }
    fn thaw(&self) -> Result<(), String> {
        run("fsfreeze", &["--unfreeze".as_ref(), self.0])
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = self.thaw();
        let _ = run("umount", &["--lazy".as_ref(), self.0]);
    }
}

fn run(program: &str, arguments: &[&Path]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let said = || format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(said()) }
}

/// The guardian writes what it does to a file beside the control socket, and that file system may hold it up for as long as it likes.
pub fn a_frozen_file_system_holds_no_packet_up() -> Ended {
    let (pair, scratch) = (Pair::new(), Folder::new("test"));
    let (image, folder) = (scratch.write("image", vec![0; 4 << 20]), scratch.file("mounted"));
    std::fs::create_dir(&folder).unwrap();
    let mounted = run("mkfs.ext4", &["-q".as_ref(), &image])
        .and_then(|()| run("mount", &["-o".as_ref(), "loop".as_ref(), &image, &folder]));
    if let Err(why) = mounted {
        return Ended::Skipped(why);
    }
    let mounted = Mounted(&folder);
    let control = folder.join("control");
    let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    command.arg("run").arg(scratch.write("shaper.toml", SHAPER)).args(["--interface", DEVICE]);
    command.arg("--control").arg(&control);
    let mut running = Running::start(command);
    running.says("is in force");
    let traffic = Traffic::start(&pair, PAYLOAD, EVERY);
    traffic.until(100);
    mounted.freeze();
    running.signal(libc::SIGSTOP);
    thread::sleep(FROZEN);
    mounted.thaw().unwrap();
    running.signal(libc::SIGCONT);
    thread::sleep(FROZEN / 4);
    let arrivals = traffic.stop();
    running.signal(libc::SIGINT);
    let (status, _, said) = running.end();
    assert!(status.success() && said.contains("nothing is left behind"), "{status}: {said}");
    println!("nothing passed for {:?} of {FROZEN:?}", arrivals.longest_gap());
    assert!(arrivals.longest_gap() < FROZEN / 2, "nothing passed for {:?}", arrivals.longest_gap());
    assert_eq!((arrivals.lost(), arrivals.reordered()), (0, 0), "lost and reordered of {}", arrivals.sent);
    drop(mounted);
    Ended::Passed
}
