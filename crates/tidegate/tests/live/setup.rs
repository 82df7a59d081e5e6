//! `tidegate setup` between namespaces: the interface, the file, the service, the proof, and back. The service manager is
//! a script that runs what the unit runs; everything else is real.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::running::PATIENCE;
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft;
use tidegate_live::rtnl::{Route, Rtnl};
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::steady::patiently;
use tidegate_testbed::terminal::Terminal;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT, bring_up};
use tidegate_units::{Bytes, Rate};

/// Does what systemd does with the unit, as far as `setup` asks for it.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$*" >>"$STATE/calls"
pid=$(cat "$STATE/pid" 2>/dev/null)
runs() { [ -n "$pid" ] && grep -q '^State:[[:space:]]*[^Z]' "/proc/$pid/status" 2>/dev/null; }
end() {
    runs || return 0
    kill -TERM "$pid"
    while runs; do sleep 0.05; done
}
case $1 in
cat) [ ! -e "$STATE/no-unit" ] ;;
is-enabled) [ -e "$STATE/enabled" ] ;;
enable) touch "$STATE/enabled" ;;
disable) rm -f "$STATE/enabled"; end ;;
restart)
    name=${2#tidegate@}
    end
    "$TIDEGATE" run "$STATE/etc/$name.toml" --interface "$name" --wait $MORE >"$STATE/log" 2>&1 </dev/null &
    pid=$!
    echo $pid >"$STATE/pid"
    until grep -q 'control socket\|waiting for' "$STATE/log"; do
        runs || { echo "it has ended" >&2; exit 1; }
        sleep 0.05
    done ;;
*) exit 3 ;;
esac
"#;

/// A machine with an uplink, and a service manager.
struct Machine {
    pair: Pair,
    scratch: Folder,
}

impl Machine {
    fn new() -> Self {
        let (pair, scratch) = (Pair::new(), Folder::new("test"));
        pair.left.run(default_route).unwrap();
        for directory in ["bin", "run", "etc"] {
            fs::create_dir(scratch.0.join(directory)).unwrap();
        }
        let script = scratch.write("bin/systemctl", SYSTEMCTL);
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
        Self { pair, scratch }
    }

    fn file(&self) -> PathBuf {
        self.scratch.0.join(format!("etc/{DEVICE}.toml"))
    }

    fn command(&self, words: &[&str]) -> Command {
        let path = format!("{}/bin:{}", self.scratch.0.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = self.pair.left.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
        command.args(words).stdin(Stdio::null()).env("PATH", path).env("STATE", &self.scratch.0);
        command.env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate")).env("XDG_RUNTIME_DIR", self.scratch.0.join("run"));
        command
    }

    fn setup(&self, words: &[&str]) -> Command {
        let directory = self.scratch.0.join("etc");
        let fixed = ["setup", "--directory", directory.to_str().unwrap()];
        self.command(&[&fixed, words].concat())
    }
}

impl Drop for Machine {
    /// Ends the service that a failed test leaves.
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.scratch.0.join("pid")).ok().and_then(|pid| pid.trim().parse().ok());
        if let Some(pid) = pid {
            // A process that this test has started; one that has ended is still this test's, unless its number was given away
            // again within the seconds that the test takes.
            let _ = tidegate_sys::process::signal(pid, libc::SIGKILL);
        }
    }
}

fn default_route() {
    let mut rtnl = Rtnl::open().unwrap();
    for via in RIGHT {
        rtnl.add_route(Route { to: None, via: Some(via), index: None }).unwrap();
    }
}

fn output(mut command: Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr).into_owned())
}

pub fn a_gateway_is_set_up_and_back() -> Ended {
    let machine = Machine::new();
    let calls = || fs::read_to_string(machine.scratch.0.join("calls")).unwrap_or_default();
    let rates = ["--up", "20mbit", "--down", "100mbit", "--link", "ethernet"];
    let systemd = ["--service", "systemd"];

    // A dry run shows the file and changes nothing.
    let (code, file, said) = output(machine.setup(&[&rates[..], &systemd, &["--dry-run"]].concat()));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("uplink: {DEVICE}, a network card; the default route leaves by it")), "{said}");
    assert!(said.contains("nothing was changed") && !machine.file().exists(), "{said}");
    assert!(file.contains("[up.discipline]") && file.contains("[down.discipline]"), "{file}");
    assert_eq!(calls(), "cat tidegate@.service\n");

    let (code, out, said) = output(machine.setup(&[&rates[..], &systemd, &["--yes"]].concat()));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!((out.as_str(), fs::read_to_string(machine.file()).unwrap().as_str()), (file.as_str(), file.as_str()));
    assert!(calls().ends_with(&format!("enable tidegate@{DEVICE}\nrestart tidegate@{DEVICE}\n")), "{}", calls());
    assert!(said.contains(&format!("{DEVICE}: shaping is in force")), "{said}");
    for direction in ["up: ", "down: "] {
        assert!(said.contains(direction), "{said}");
    }
    assert!(said.matches("a packet of each protocol that it carries came through the queue").count() == 2, "{said}");
    assert!(said.contains(&format!("to undo it: tidegate setup --undo --interface {DEVICE}")), "{said}");
    let status = || output(machine.command(&["status", "--interface", DEVICE]));
    let (code, shown, _) = status();
    assert!(code == Some(0) && shown.contains("is in force"), "{shown}");

    let (_, found, _) = output(machine.command(&["doctor", "--interface", DEVICE]));
    for way in ["up", "down"] {
        assert!(found.contains(&format!("guardian: {way} of {DEVICE}: guardian, process ")), "{found}");
    }

    // Again with other rates: the service has them, and the file before is kept.
    let other = ["--up", "10mbit", "--down", "50mbit", "--yes"];
    let (code, _, said) = output(machine.setup(&[&other[..], &systemd].concat()));
    assert_eq!(code, Some(0), "{said}");
    let (_, shown, _) = output(machine.command(&["status", "--interface", DEVICE, "--file"]));
    assert!(shown.contains("rate = \"9.5mbit\""), "{shown}");
    let aside = machine.file().with_extension("toml.old");
    assert_eq!(fs::read_to_string(&aside).unwrap(), file);

    let (code, _, said) = output(machine.setup(&["--undo", "--yes", "--service", "systemd"]));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("{DEVICE} is not shaped any more")), "{said}");
    assert!(!machine.file().exists() && fs::read_to_string(&aside).unwrap().contains("9.5mbit"));
    assert!(calls().ends_with(&format!("disable --now tidegate@{DEVICE}\n")), "{}", calls());
    assert_eq!(status().0, Some(1));
    let ours = || nft::tables(&mut Socket::open(Protocol::Netfilter).unwrap()).unwrap();
    assert_eq!(machine.pair.left.run(ours).unwrap(), [], "nothing is left behind");
    // There is nothing to undo any more.
    let (code, _, said) = output(machine.setup(&["--undo", "--yes", "--service", "systemd"]));
    assert!(code == Some(1) && said.contains("nothing in "), "{said}");
    Ended::Passed
}

pub fn a_failure_leaves_everything_as_it_was() -> Ended {
    let machine = Machine::new();
    let words = ["--up", "20mbit", "--yes", "--service", "systemd"];
    // Without the unit nothing is begun.
    let no_unit = machine.scratch.write("no-unit", "");
    let (code, _, said) = output(machine.setup(&words));
    assert!(code == Some(1) && said.contains("install the package"), "{said}");
    fs::remove_file(no_unit).unwrap();
    // A service that does not start: an option that there is not.
    let mut fails = machine.setup(&words);
    let (code, _, said) = output({
        fails.env("MORE", "--no-such-option");
        fails
    });
    assert!(code == Some(1) && said.contains("it has ended") && said.contains("everything is as before"), "{said}");
    assert!(!machine.file().exists() && !machine.scratch.0.join("enabled").exists());
    // A file of the administrator's is not replaced, nor removed.
    fs::write(machine.file(), "version = 1\n").unwrap();
    for words in [&words[..], &["--undo", "--yes", "--interface", DEVICE, "--service", "systemd"]] {
        let (code, _, said) = output(machine.setup(words));
        assert!(code == Some(1) && said.contains("not written by `tidegate setup`"), "{said}");
    }
    assert_eq!(fs::read_to_string(machine.file()).unwrap(), "version = 1\n");
    Ended::Passed
}

pub fn the_uppermost_interface_is_set_up() -> Ended {
    let machine = Machine::new();
    let bridge = || {
        let mut rtnl = Rtnl::open().unwrap();
        if let Err(error) = rtnl.create("br0", "bridge") {
            return Err(error.to_string());
        }
        let (port, bridge) = (rtnl.index(DEVICE).unwrap(), rtnl.index("br0").unwrap());
        for address in rtnl.addresses().unwrap() {
            if LEFT.contains(&address.address) {
                rtnl.delete_address(address).unwrap();
            }
        }
        rtnl.set_master(port, bridge).unwrap();
        bring_up("br0", LEFT);
        default_route();
        Ok(())
    };
    if let Err(error) = machine.pair.left.run(bridge).unwrap() {
        return Ended::Skipped(format!("no bridges here: {error}"));
    }
    let rates = ["--up", "20mbit", "--down", "100mbit", "--dry-run", "--service", "none"];
    let (code, _, said) = output(machine.setup(&rates));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("uplink: br0, a bridge with {DEVICE}")), "{said}");
    assert!(said.contains("etc/br0.toml"), "{said}");
    let (code, _, said) = output(machine.setup(&[&rates[..], &["--interface", DEVICE]].concat()));
    assert!(code == Some(1) && said.contains("--interface br0"), "{said}");
    // Doctor gives the same advice.
    let (code, said, _) = output(machine.command(&["doctor"]));
    assert_eq!(code, Some(0), "{said}");
    for part in
        ["the uplink is br0, a bridge", "shape br0", "/etc/tidegate/br0.toml", "systemctl enable --now tidegate@br0"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    Ended::Passed
}

pub fn an_interface_may_come_later() -> Ended {
    let machine = Machine::new();
    let words = ["--interface", "ppp0", "--up", "20mbit", "--link", "vdsl", "--yes", "--service", "systemd"];
    let (code, _, said) = output(machine.setup(&words));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("tidegate@ppp0 runs and waits for ppp0"), "{said}");
    let appear = || {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.index(DEVICE).unwrap();
        rtnl.down(index).unwrap();
        rtnl.rename(index, "ppp0").unwrap();
        rtnl.up(index).unwrap();
    };
    machine.pair.left.run(appear).unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, shown, _) = output(machine.command(&["status", "--interface", "ppp0"]));
        if shown.contains("ppp0: shaping by") && shown.contains("is in force") {
            break;
        }
        assert!(Instant::now() < deadline, "{shown}");
        thread::sleep(Duration::from_millis(100));
    }
    let (code, _, said) = output(machine.setup(&["--undo", "--yes", "--service", "systemd"]));
    assert_eq!(code, Some(0), "{said}");
    Ended::Passed
}

pub fn questions_are_asked_at_a_terminal() -> Ended {
    let machine = Machine::new();
    let mut terminal = Terminal::start(machine.setup(&["--service", "none"]), None);
    terminal.answer("which one is it? [unknown]", "token-ring");
    terminal.answer("token-ring is none of them", "vdsl");
    terminal.answer("none to enter the rates [none]", "ftp://192.0.2.1/file");
    terminal.answer("none to enter the rates [none]", "none");
    terminal.answer("the line up, such as 20mbit", "20");
    terminal.answer("has no unit", "20 parsec");
    terminal.answer("has an unknown unit", "20M");
    terminal.answer("the line down, such as 20mbit", "100mbit");
    terminal.answer("write the file and start? [yes]", "maybe");
    terminal.answer("answer yes or no", "");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    // Without a service manager it is tried, and what to do is said.
    for part in ["tried, and ended again: what leaves: packets came through", "what arrives: packets came through"] {
        assert!(shown.contains(part), "{shown}");
    }
    let run = format!("tidegate run {} --interface {DEVICE} --wait --hand-over", machine.file().display());
    assert!(shown.replace("\r\n", "\n").contains(&run), "{shown}");
    let text = fs::read_to_string(machine.file()).unwrap();
    assert!(text.contains("rate = \"19mbit\"") && text.contains("framing = \"ptm\""), "{text}");

    // One who does not agree changes nothing; nor one who goes away.
    let mut terminal = Terminal::start(machine.setup(&["--service", "none", "--undo"]), None);
    terminal.answer(&format!("stop shaping {DEVICE}? [yes]"), "no");
    let (code, shown) = terminal.end();
    assert!(code == Some(0) && shown.contains("nothing was changed"), "{shown}");
    let mut terminal = Terminal::start(machine.setup(&["--service", "none"]), None);
    terminal.answer("which one is it? [unknown]", "");
    terminal.answer("none to enter the rates [none]", "20mbit");
    terminal.answer("the line up, such as 20mbit; - to leave that direction alone [20mbit]", "\u{4}\u{4}");
    let (code, shown) = terminal.end();
    assert!(code == Some(1) && shown.contains("there is no answer"), "{shown}");
    assert_eq!(fs::read_to_string(machine.file()).unwrap(), text);
    Ended::Passed
}

/// A peer that sends without end on GET, and receives on POST.
struct WebServer(Arc<AtomicBool>);

impl WebServer {
    fn start(pair: &Pair) -> (Self, u16) {
        let listener = pair.right.run(|| TcpListener::bind((RIGHT[0], 0)).unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        listener.set_nonblocking(true).unwrap();
        let ends = Arc::clone(&stop);
        thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => drop(thread::spawn(move || drop(serve(stream)))),
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        (Self(stop), port)
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut head = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            length => head.extend_from_slice(&buffer[..length]),
        }
    }
    match &head[..] {
        head if head.starts_with(b"GET /large ") => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")?;
            loop {
                stream.write_all(&buffer)?;
            }
        }
        head if head.starts_with(b"POST /large ") => {
            while stream.read(&mut buffer)? > 0 {}
            Ok(())
        }
        _ => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
    }
}

pub fn a_line_is_measured() -> Ended {
    patiently(|| {
        let machine = Machine::new();
        // The line: 8 Mbit/s up, 16 Mbit/s down, by the kernel's TBF.
        for (namespace, device, mbit) in [(&machine.pair.left, DEVICE, 8), (&machine.pair.right, "peer0", 16)] {
            let limit = move || {
                let mut rtnl = Rtnl::open().unwrap();
                let index = rtnl.index(device).unwrap();
                rtnl.set_tbf(index, Rate::from_mbit(mbit), Bytes::new(6_000), Bytes::new(60_000))
            };
            namespace.run(limit).unwrap().expect("a qdisc");
        }
        let (_server, port) = WebServer::start(&machine.pair);
        let peer = |path: &str| format!("http://{}:{port}/{path}", RIGHT[0]);
        let words = |peer: &str| {
            let words = ["--measure", peer, "--link", "ip", "--dry-run", "--service", "none"];
            let deadline = Instant::now() + PATIENCE;
            loop {
                let (code, file, said) = output(machine.setup(&words));
                // Another test may shape an interface of this name, with its socket in the directory of the system.
                if !said.contains("is shaped already") || Instant::now() > deadline {
                    return (code, file, said);
                }
                thread::sleep(Duration::from_millis(500));
            }
        };
        // What the peer refuses is no rate.
        let (code, _, said) = words(&peer("small"));
        assert!(code == Some(1) && said.contains("it answers `HTTP/1.1 404 Not Found`"), "{said}");
        let (code, file, said) = words(&peer("large"));
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains("measuring up with http://") && said.contains("of TCP content with 10.77.0.2:"),
            "{said}"
        );
        // "# What leaves, for a line of 7.9mbit."
        let line = |what: &str| -> f64 {
            let text = file.split_once(what).unwrap_or_else(|| panic!("{file}")).1;
            let rate: Rate = text.split_once(".\n").expect("a line").0.parse().expect("a rate");
            rate.as_bps() as f64 / 1e6
        };
        let (up, down) = (line("What leaves, for a line of "), line("What arrives, for a line of "));
        println!("  up {up} Mbit/s of 8, down {down} of 16");
        // TBF counts Ethernet headers, 14 of 1514 B; acknowledgements of one direction are in the other.
        for (is, should) in [(up, 8.0), (down, 16.0)] {
            if !(should * 0.85..should * 1.02).contains(&is) {
                return Err(format!("{is} Mbit/s were measured on a line of {should}: {said}"));
            }
        }
        Ok(())
    })
}
