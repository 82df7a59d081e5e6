//! The history of the last day and the use of quotas outlive a restart of the machine, which empties `/run` and leaves `/var/lib`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::at_pair::{command, succeeds};
use crate::running::{PATIENCE, Running, Traffic};
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::veth::{DEVICE, Pair};

const FILE: &str = "version = 1\n\
    [metrics]\nlisten = \"127.0.0.1:9435\"\n\
    [[class]]\nname = \"all\"\nrate = \"4mbit\"\ndefault = true\n\
    [[rule]]\nname = \"allowance\"\nclass = \"all\"\nprotocol = \"udp\"\nquota = \"100GB/month\"\n";

/// A machine: network and `/run` of its own, the state of the one before.
struct Machine<'a> {
    pair: Pair,
    file: String,
    run: Folder,
    state: &'a Path,
}

impl<'a> Machine<'a> {
    fn boot(scratch: &Folder, state: &'a Path) -> Self {
        let file = scratch.write("reboot.toml", FILE).to_str().expect("a path").to_owned();
        Self { pair: Pair::new(), file, run: Folder::new("reboot-run"), state }
    }
    fn socket(&self) -> String {
        self.run.0.join("s").to_str().expect("a path").to_owned()
    }
    fn start(&self) -> Running {
        let mut run = command(&self.pair, &["run", &self.file, "--interface", DEVICE, "--control", &self.socket()]);
        run.arg("--history").arg(self.state);
        let mut running = Running::start(run);
        running.says("control socket");
        running
    }
    /// A rule whose count was refused has one again with the first look at quotas, after a second.
    fn used(&self) -> u64 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = succeeds(&self.pair, &["status", "--json", "--control", &self.socket()]);
            let status: Value = serde_json::from_str(&status).expect("JSON");
            if let Some(used) = status["directions"][0]["quotas"][0]["used_bytes"].as_u64() {
                return used;
            }
            assert!(Instant::now() < deadline, "{status:#}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    /// The seconds of the last ten minutes at which the history knows that packets were sent.
    fn busy(&self) -> Vec<u64> {
        let mut stream = self.pair.left.run(|| TcpStream::connect("127.0.0.1:9435").expect("the page")).unwrap();
        stream.write_all(b"GET /api/history?span=600 HTTP/1.0\r\nHost: 127.0.0.1:9435\r\n\r\n").expect("a request");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("a reply");
        let (_, json) = reply.split_once("\r\n\r\n").expect("a body");
        let history: Value = serde_json::from_str(json).expect("JSON");
        let [from, step] = ["from_s", "step_s"].map(|key| history[key].as_u64().expect("seconds"));
        let rates = history["series"][0]["rate_bps"].as_array().cloned().unwrap_or_default();
        let sent = (0..).zip(&rates).filter(|(_, rate)| rate.as_f64().is_some_and(|rate| rate > 1_000.0));
        sent.map(|(number, _)| from + number * step).collect()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

pub fn history_and_quotas_outlive_a_reboot() -> Ended {
    let (scratch, state) = (Folder::new("reboot"), Folder::new("reboot-state"));
    let first = Machine::boot(&scratch, &state.0);
    let running = first.start();
    let traffic = Traffic::start(&first.pair, 500, Duration::from_millis(5));
    let deadline = Instant::now() + PATIENCE;
    while first.used() < 200_000 || first.busy().is_empty() {
        assert!(Instant::now() < deadline, "{} {:?}", first.used(), first.busy());
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(traffic.stop());
    running.stops();
    let ended = now();
    // Network, rules, the control socket and all that lay beside it go with the machine.
    drop(first);
    std::thread::sleep(Duration::from_secs(2));

    let second = Machine::boot(&scratch, &state.0);
    let running = second.start();
    assert!(second.used() >= 200_000, "{}", second.used());
    let busy = second.busy();
    assert!(busy.iter().any(|second| *second <= ended), "{busy:?} {ended}");
    let said = running.stops();
    assert!(!said.contains("damaged") && !said.contains("begun anew"), "{said}");
    drop(second);

    // A file that cannot be believed is told, and begun anew: a link, and one that others may write.
    for entry in fs::read_dir(&state.0).expect("the state").map(|entry| entry.expect("an entry").path()) {
        let elsewhere = scratch.0.join(entry.file_name().expect("a name"));
        fs::rename(&entry, &elsewhere).expect("moved");
        symlink(&elsewhere, &entry).expect("a link");
    }
    let third = Machine::boot(&scratch, &state.0);
    let running = third.start();
    assert!(third.used() < 200_000, "{}", third.used());
    assert!(!third.busy().iter().any(|second| *second <= ended), "{:?} {ended}", third.busy());
    let said = running.stops();
    assert!(said.contains(".history") && said.contains(".quotas"), "{said}");
    Ended::Passed
}
