//! A live run, recorded and repeated: the departures are equal, bit for bit.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::at_pair::{command, succeeds};
use crate::running::Running;
use nix::sys::socket::{setsockopt, sockopt};
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT};

const SHAPER: &str = "version = 1\n\
    [[class]]\nname = \"gold\"\nrate = \"4mbit\"\ndscp = \"af11\"\nlimit = \"30kB\"\n\
    [[class]]\nname = \"rest\"\nrate = \"16mbit\"\ndefault = true\n\
    [[rule]]\nclass = \"gold\"\nprotocol = \"udp\"\n";
/// The time limit of an expected event on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(40);

/// A folder with the shaper file.
fn folder() -> Folder {
    let folder = Folder::new("record");
    folder.write("shaper.toml", SHAPER);
    folder
}

fn tidegate(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg(arguments[0]).arg(file).args(&arguments[1..]).output().expect("it runs")
}

/// Real TCP and UDP through the shaped link, more than its rate.
fn traffic(pair: &Pair) {
    let listener = pair.right.run(|| TcpListener::bind((RIGHT[0], 0)).unwrap()).unwrap();
    let to = listener.local_addr().unwrap();
    let reading = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all.len()
    });
    let connect = || TcpStream::connect_timeout(&to, PATIENCE).unwrap();
    let mut stream = pair.left.run(connect).unwrap();
    let receiver = pair.right.run(|| UdpSocket::bind((RIGHT[1], 0)).unwrap()).unwrap();
    let sender = pair.left.run(|| UdpSocket::bind((LEFT[1], 0)).unwrap()).unwrap();
    let datagrams_to = receiver.local_addr().unwrap();
    let sending = thread::spawn(move || {
        for n in 0..1_200_u32 {
            let _ = sender.send_to(&[n as u8; 700], datagrams_to);
            // Bursts of twice the queue limit of the class, so that some packets are dropped even if sent slowly.
            if n % 80 == 0 {
                thread::sleep(Duration::from_millis(15));
            }
        }
    });
    stream.write_all(&vec![7; 1_500_000]).unwrap();
    drop(stream);
    assert_eq!(reading.join().unwrap(), 1_500_000);
    sending.join().unwrap();
}

/// Runs the shaper with `more` arguments during traffic; returns its messages.
fn recorded(pair: &Pair, folder: &Folder, more: &[&str]) -> String {
    recorded_while(pair, folder, "class gold: a packet came through", &[&["--control", "off"], more].concat(), || {
        traffic(pair)
    })
}

/// Runs an action meanwhile, from `ready` on.
fn recorded_while(pair: &Pair, folder: &Folder, ready: &str, more: &[&str], during: impl FnOnce()) -> String {
    let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    command.arg("run").arg(folder.file("shaper.toml")).args(["--interface", DEVICE, "--record"]);
    command.arg(folder.file("run.tgr")).args(more);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut talk = BufReader::new(child.stderr.take().unwrap());
    let deadline = Instant::now() + PATIENCE;
    while !said.contains(ready) {
        assert!(talk.read_line(&mut said).unwrap() > 0 && Instant::now() < deadline, "{said}");
    }
    during();
    tidegate_sys::process::signal(child.id(), libc::SIGINT).unwrap();
    talk.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    said
}

pub fn live_record_and_replay_are_equal() -> Ended {
    let (pair, folder) = (Pair::new(), folder());
    let said = recorded(&pair, &folder, &[]);
    assert!(
        said.contains("recorded left0 egress into") || said.contains(&format!("recorded {DEVICE} egress into")),
        "{said}"
    );
    assert!(said.contains("none was lost"), "{said}");
    let file = folder.file("run.tgr");

    let output = tidegate(&["replay", "--json"], &file);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said} {told:#}");
    let recording = &told["recording"];
    assert_eq!(recording["verdict"], "equal", "{told:#}");
    assert_eq!(recording["digest_recorded"], recording["digest_here"]);
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    assert!(number(&recording["compared"]) > 1_500, "{told:#}");
    let run = &told["configurations"][0];
    assert!(number(&run["dropped_packets"]) > 10, "the queue of gold was too short: {told:#}");
    assert!(number(&run["classes"][0]["remarked_packets"]) > 100, "{told:#}");
    assert!(number(&run["classes"][1]["packets"]) > 500, "{told:#}");

    // As text, and again: the same digest.
    let words = tidegate(&["replay"], &file);
    let text = String::from_utf8_lossy(&words.stdout).into_owned();
    assert!(text.contains("equal: all") && text.contains("bit for bit"), "{text}");
    let [first, again] = [(); 2].map(|()| tidegate(&["replay", "--hash"], &file).stdout);
    assert_eq!(first, again);
    assert!(String::from_utf8_lossy(&first).starts_with(run["digest"].as_str().unwrap()));

    // Beside another configuration, and the departures as a capture.
    let capture = folder.file("left.pcapng");
    let to = capture.to_str().unwrap();
    let beside = tidegate(&["replay", "--with", "fifo@20mbit", "--departures", to], &file);
    let text = String::from_utf8_lossy(&beside.stdout).into_owned();
    assert!(beside.status.success() && text.contains("fifo@20mbit"), "{text}");
    let fifo = tidegate(&["replay", "--with", "fifo@100mbit", "--json"], &capture);
    let told: serde_json::Value = serde_json::from_slice(&fifo.stdout).unwrap();
    assert!(number(&told["packets"]) > 3_000, "of both: {told:#}");

    // Why a datagram was dropped.
    let explained = tidegate(&["explain", "--packet", "1", "--json"], &file);
    let told: serde_json::Value = serde_json::from_slice(&explained.stdout).unwrap();
    assert!(explained.status.success() && told["end"]["how"] != "unknown", "{told:#}");
    Ended::Passed
}

/// Runs `tidegate COMMAND...` beside the shaper, with traffic before and after each command.
fn through(pair: &Pair, folder: &Folder, ready: &str, commands: &[&[&str]]) -> serde_json::Value {
    let socket = folder.file("control.sock");
    let socket = socket.to_str().unwrap();
    let said = recorded_while(pair, folder, ready, &["--control", socket], || {
        thread::scope(|scope| {
            let sending = scope.spawn(|| {
                for _ in 0..2 {
                    traffic(pair);
                }
            });
            for arguments in commands {
                let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
                command.arg(arguments[0]).args(["--control", socket]).args(&arguments[1..]);
                let output = command.stdin(Stdio::null()).output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "{arguments:?}: {said}");
                // Some packets between two changes; the number does not matter.
                thread::sleep(Duration::from_millis(60));
            }
            sending.join().unwrap();
        });
    });
    assert!(said.contains("none was lost"), "{said}");
    let output = tidegate(&["replay", "--json"], &folder.file("run.tgr"));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{} {told:#}", String::from_utf8_lossy(&output.stderr));
    let recording = &told["recording"];
    assert_eq!(recording["verdict"], "equal", "{told:#}");
    assert_eq!(recording["digest_recorded"], recording["digest_here"]);
    assert!(recording["compared"].as_u64().unwrap() > 3_000, "{told:#}");
    told
}

pub fn live_changes_and_promises_are_replayed() -> Ended {
    let (pair, folder) = (Pair::new(), folder());
    // Another class, so that the tree differs.
    let other = SHAPER
        .replace("[[rule]]", "[[class]]\nname = \"silver\"\nrate = \"3mbit\"\n[[rule]]")
        .replace("16mbit", "12mbit");
    fs::write(folder.file("other.toml"), other).unwrap();
    let other = folder.file("other.toml");
    let told = through(
        &pair,
        &folder,
        "class gold: a packet came through",
        &[
            &["promise", "--protocol", "udp", "--min", "1mbit", "--prefer", "1", "--for", "400ms"],
            &["set", "class", "gold", "rate", "3mbit"],
            &["promise", "--protocol", "tcp", "--class", "rest", "--min", "2mbit", "--flows", "2", "--for", "60s"],
            &["apply", other.to_str().unwrap()],
            &["add", "rule", "silver", "destination-port", "9"],
            &["promise", "--protocol", "udp", "--min", "500kbit", "--for", "60s"],
            &["remove", "rule", "1"],
            &["set", "class", "silver", "rate", "2mbit"],
        ],
    );
    assert_eq!(told["configurations"][0]["classes"].as_array().unwrap().len(), 3, "{told:#}");
    Ended::Passed
}

const RESERVING: &str = "version = 1\n[discipline]\nkind = \"cbq\"\nlink = \"20mbit\"\n\
    class = [{ name = \"rest\", rate = \"12mbit\", borrow = \"from-parent\" }, { name = \"reserved\", rate = \"8mbit\" }]\n\
    reservations = { class = \"reserved\", flows = 4, max-rate = \"4mbit\" }\n";

pub fn live_reservations_are_replayed() -> Ended {
    let (pair, folder) = (Pair::new(), folder());
    fs::write(folder.file("shaper.toml"), RESERVING).unwrap();
    through(
        &pair,
        &folder,
        "is in force:",
        &[
            &["reserve", "--rate", "2mbit", "--flow", "protocol=udp", "--name", "calls", "--for", "300ms"],
            &["reserve", "--rate", "3mbit", "--flow", "protocol=tcp", "--name", "bulk", "--for", "60s"],
            &["set", "class", "rest", "rate", "11mbit"],
        ],
    );
    Ended::Passed
}

pub fn files_of_a_limited_size() -> Ended {
    let (pair, folder) = (Pair::new(), folder());
    let said = recorded(&pair, &folder, &["--record-payload", "--record-limit", "300kB"]);
    assert!(said.contains("files: "), "{said}");
    let file = folder.file("run.tgr");
    let output = tidegate(&["replay"], &file);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("bit for bit"), "{text}");
    // From the second file on the comparison is not possible.
    let second = tidegate(&["replay"], &folder.file("run.tgr.1"));
    let text = String::from_utf8_lossy(&second.stdout).into_owned();
    assert!(text.contains("goes on from another"), "{text}");
    Ended::Passed
}

/// Explains packets of a flow on the running shaper.
pub fn a_flow_is_explained_live() -> Ended {
    let (pair, folder) = (Pair::new(), folder());
    let socket = folder.file("control.sock");
    let socket = socket.to_str().unwrap();
    let ready = "class gold: a packet came through";
    recorded_while(&pair, &folder, ready, &["--control", socket], || {
        traffic(&pair);
        // The UDP flow that was just active, as the shaper has seen it.
        let ask = |arguments: &[&str]| {
            let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
            command.args(["explain", "--live", "--control", socket]).args(arguments).output().unwrap()
        };
        let mut top = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
        let seen = top.args(["top", "--control", socket, "--once", "--json"]).output().unwrap();
        let seen: serde_json::Value = serde_json::from_slice(&seen.stdout).unwrap();
        let flows = seen["directions"][0]["flows"].as_array().unwrap_or_else(|| panic!("{seen:#}"));
        let flow = flows.iter().find(|flow| flow["class"] == "gold").unwrap_or_else(|| panic!("{seen:#}"));
        let (flow, text) = (&flow["flow"], |key: &str| flow["flow"][key].to_string().replace('"', ""));
        assert_eq!(flow["protocol"], 17, "{seen:#}");
        let (source, destination) = (text("source"), text("destination"));
        let (from, to) = (text("source_port"), text("destination_port"));
        let uid = text("uid");
        let mut arguments = vec!["--protocol", "udp", "--source", &source, "--destination", &destination];
        arguments.extend(["--source-port", &from, "--destination-port", &to]);
        if flow["uid"].is_number() {
            arguments.extend(["--uid", &uid]);
        }
        let told = ask(&arguments);
        let said = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        for part in [
            "rule 1 (class gold) matches",
            "yes protocol is udp; wanted: udp",
            "class gold",
            "wait in all",
            "the bucket of its class holds ",
            "as things stand its class gives its flow ",
            "packets came, ",
            "were dropped: the queue of its flow was full",
        ] {
            assert!(said.contains(part), "{part} is not in {said}");
        }
        // The same by its port: the rest is as in the flow.
        let told = ask(&["--destination-port", &to]);
        let from = std::net::SocketAddr::new(source.parse().unwrap(), from.parse().unwrap());
        let (said, from) = (String::from_utf8_lossy(&told.stdout), format!("udp {from} > "));
        assert!(said.contains("class gold") && said.contains("packets came, "), "{said}");
        assert!(said.contains(&from), "{said}");
        // A flow that never existed, and an impossible one.
        let told = ask(&["--protocol", "tcp", "--source", "192.0.2.1", "--destination", "192.0.2.2", "--json"]);
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        assert_eq!(told["belongs"]["by_default"], true, "{told:#}");
        assert_eq!((&told["stands"]["class"], &told["stands"]["seen"]), (&"rest".into(), &serde_json::Value::Null));
        assert_eq!(ask(&["--source", "192.0.2.1", "--destination", "2001:db8::1"]).status.code(), Some(2));
    });
    Ended::Passed
}

const MARKED: &str = "version = 1\n\
    [[class]]\nname = \"gold\"\nrate = \"4mbit\"\n\
    [[class]]\nname = \"rest\"\nrate = \"4mbit\"\ndefault = true\n\
    [[rule]]\nclass = \"gold\"\nmark = 7\n";

/// A flow is explained by what the shaper recorded, where its class depends on a mark that nobody names on the command line.
pub fn a_flow_is_explained_as_it_was_recorded() -> Ended {
    let (pair, folder) = (Pair::new(), Folder::new("recorded"));
    let file = folder.write("marked.toml", MARKED);
    let socket = folder.file("control.sock");
    let at = ["--control", socket.to_str().unwrap()];
    let mut running =
        Running::start(command(&pair, &["run", file.to_str().unwrap(), "--interface", DEVICE, at[0], at[1]]));
    running.says("control socket");
    let send = |mark: u32, packets: usize| {
        let bound = pair.left.run(move || {
            let sender = UdpSocket::bind((LEFT[0], 0)).unwrap();
            setsockopt(&sender, sockopt::Mark, &mark).unwrap();
            for _ in 0..packets {
                sender.send_to(&[0; 500], (RIGHT[0], 6_001)).unwrap();
            }
            sender.local_addr().unwrap().port()
        });
        bound.unwrap().to_string()
    };
    let (marked, plain) = (send(7, 20), send(0, 20));
    let ask = |more: &[&str]| succeeds(&pair, &[&["explain", "--live", at[0], at[1]], more].concat());
    let until = |port: &str, part: &str| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = ask(&["--source-port", port, "--protocol", "udp"]);
            if said.contains(part) {
                return said;
            }
            assert!(Instant::now() < deadline, "{part} is not in {said}");
            thread::sleep(Duration::from_millis(100));
        }
    };
    let said = until(&marked, "class gold, by rule 1, as the shaper recorded it");
    assert!(said.contains("rule 1 (class gold) matches") && said.contains("20 packets came"), "{said}");
    assert!(!said.contains("would now be"), "{said}");
    let said = until(&plain, "class rest, no rule matched, as the shaper recorded it");
    assert!(said.contains("rule 1 (class gold) does not match"), "{said}");
    // A packet that is described by its mark is classified by the rules.
    let said = ask(&["--source-port", &plain, "--protocol", "udp", "--mark", "7"]);
    assert!(said.contains("class gold\n") && !said.contains("recorded"), "{said}");
    // After a change the numbers in the record mean nothing, and the rules decide.
    succeeds(&pair, &["remove", "rule", "1", at[0], at[1]]);
    let said = ask(&["--source-port", &marked, "--protocol", "udp"]);
    assert!(said.contains("class rest: there are no rules"), "{said}");
    running.stops();
    Ended::Passed
}

/// The report of a live run has its classes and its flows, and works in a browser.
pub fn the_report_of_a_live_run() -> Ended {
    let (pair, folder) = (Pair::new(), folder());
    let (page, csv) = (folder.file("live.html"), folder.file("live.csv"));
    let (page_text, csv_text) = (page.to_str().unwrap(), csv.to_str().unwrap());
    recorded(&pair, &folder, &["--report", page_text, "--table", csv_text]);
    let report = fs::read_to_string(&page).unwrap();
    for part in ["Rate of each class", "Rate of each flow", "Queue of each flow", "Drops of each flow", "flow udp "] {
        assert!(report.contains(part), "{part}");
    }
    // Rows are of a class or of a flow; the flow of TCP and that of UDP sent as much as their classes, except for
    // others.
    let table = fs::read_to_string(&csv).unwrap();
    let mut lines = table.lines();
    assert!(lines.next().unwrap().starts_with("class,flow,end_s,width_s,sent_bytes,dropped_packets,"));
    let sent = |of: &dyn Fn(&str, &str) -> bool| -> u64 {
        let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
        rows.filter(|row| of(row[0], row[1])).map(|row| row[4].parse::<u64>().unwrap()).sum()
    };
    let classes = sent(&|class, _| !class.is_empty());
    let flows = sent(&|_, flow| !flow.is_empty());
    assert!(classes > 1_500_000, "{classes}\n{table}");
    assert!(flows <= classes && flows > classes / 2, "{flows} of {classes}\n{table}");
    assert!(sent(&|_, flow| flow.starts_with("flow tcp ")) > 1_500_000, "{table}");
    tidegate_testbed::browser::look_at(&page, 10);
    Ended::Passed
}

pub fn a_file_that_cannot_be_written() -> Ended {
    let (pair, folder) = (Pair::new(), folder());
    let mut command = pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    command.arg("run").arg(folder.file("shaper.toml")).args(["--interface", DEVICE, "--record", "/nowhere/run.tgr"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("/nowhere/run.tgr"), "{said}");
    Ended::Passed
}

/// A rate that follows a line without a queue: it rises.
const FOLLOWING: &str = "version = 1\n\
    [up.shaper]\nrate = \"6mbit\"\nfollow = { from = \"1mbit\", to = \"20mbit\" }\n\
    [[up.class]]\nname = \"all\"\nrate = \"6mbit\"\ndefault = true\n\
    [[down.class]]\nname = \"all\"\nrate = \"90mbit\"\ndefault = true\n";

pub fn live_decisions_of_a_rate_are_made_again() -> Ended {
    let (pair, folder) = (Pair::new(), folder());
    folder.write("shaper.toml", FOLLOWING);
    let said = recorded_while(&pair, &folder, "what arrives by", &["--control", "off"], || traffic(&pair));
    assert!(said.matches("none was lost").count() == 2, "{said}");
    for name in ["run.tgr", "run.tgr.ingress"] {
        let file = folder.file(name);
        let output = tidegate(&["replay", "--json"], &file);
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(output.status.success(), "{told:#}");
        let decisions = &told["recording"]["decisions"];
        assert_eq!(decisions["verdict"], "equal", "{told:#}");
        assert!(decisions["compared"].as_u64() >= Some(5), "{decisions:#}");
        let explained = tidegate(&["explain", "--rate"], &file);
        let text = String::from_utf8_lossy(&explained.stdout).into_owned();
        assert!(explained.status.success() && text.starts_with("up: ") && text.contains("\nbecause "), "{text}");
        assert!(text.contains("between 1.00 Mbit/s and 20.0 Mbit/s") && text.contains("quiet"), "{text}");
    }
    Ended::Passed
}
