//! `tidegate exec` as a shell sees it: real programs, and servers on the loopback of a namespace that represents the
//! host. The programs are this test itself, selected as a client by its environment.

pub mod roles;
mod terminal;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::running::PATIENCE;
use roles::{pattern, whole};
use terminal::Terminal;
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::netns::Namespace;
use tidegate_live::nft;
use tidegate_live::rtnl::{Address, Rtnl, sysctl};
use tidegate_sys::process;
use tidegate_testbed::Ended;
use tidegate_testbed::files::Folder;
use tidegate_testbed::harness::skip;
use tidegate_testbed::steady::{Measurements, patiently};

pub const ROLE: &str = "TIDEGATE_EXEC_ROLE";
const V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
/// A TCP segment of the relay is 1,500 bytes with 1,460 of payload.
const OF_TCP: f64 = 1_460.0 / 1_500.0;

/// The host: a namespace with a loopback, which also has an IPv6 address that is not only local.
fn host() -> Namespace {
    // The node may be missing, or not open to the user that runs the tests.
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        skip(format!("/dev/net/tun: {error}"));
    }
    let host = Namespace::create().unwrap();
    host.run(|| {
        let mut rtnl = Rtnl::open().unwrap();
        let lo = rtnl.index("lo").unwrap();
        rtnl.up(lo).unwrap();
        rtnl.add_address(Address { index: lo, address: V6.into(), prefix: 128 }).unwrap();
    })
    .unwrap();
    host
}

fn command(host: &Namespace, flags: &[&str], program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = host.command(env!("CARGO_BIN_EXE_tidegate")).unwrap();
    command.arg("exec").args(flags).arg("--").arg(program).stdin(Stdio::null());
    command
}

/// This test as a client behind the command.
fn client(host: &Namespace, flags: &[&str], role: &str) -> Output {
    command(host, flags, std::env::current_exe().unwrap()).env(ROLE, role).output().unwrap()
}

/// The output of a client, which must have succeeded.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn numbers(output: &Output) -> Vec<f64> {
    printed(output).split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// Asserts that the rate measured by `measure` is `meant`, within `share`.
fn keeps(measured: &mut Measurements, what: &str, meant: f64, share: f64, measure: impl Fn() -> f64) {
    measured.hold(|| {
        let found = measure();
        println!("{what}: {found:.0}, meant {meant:.0}");
        if (found / meant - 1.0).abs() < share {
            Ok(())
        } else {
            Err(format!("{what}: {found:.0} instead of {meant:.0}"))
        }
    });
}

/// Sends `bytes` to every connection, `connections` times; each byte depends on its position.
fn sender(host: &Namespace, address: impl Into<std::net::IpAddr>, bytes: usize, connections: usize) -> SocketAddr {
    let address = address.into();
    let listener = host.run(|| TcpListener::bind((address, 0)).unwrap()).unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().take(connections) {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let data: Vec<u8> = (0..bytes).map(pattern).collect();
                let _ = stream.write_all(&data);
            });
        }
    });
    at
}

/// Reads a connection to its end.
fn taker(host: &Namespace) -> (SocketAddr, JoinHandle<(Vec<u8>, Duration)>) {
    let listener = host.run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap();
    let at = listener.local_addr().unwrap();
    let taker = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut all, began) = (Vec::new(), Instant::now());
        stream.read_to_end(&mut all).unwrap();
        (all, began.elapsed())
    });
    (at, taker)
}

fn echo_server(host: &Namespace, address: impl Into<std::net::IpAddr>) -> SocketAddr {
    let address = address.into();
    let socket = host.run(|| UdpSocket::bind((address, 0)).unwrap()).unwrap();
    let at = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    });
    at
}

// The tests.

pub fn downloads_keep_the_rate() -> Ended {
    let (host, mut measured) = (host(), Measurements::new());
    for address in [std::net::IpAddr::from(Ipv4Addr::LOCALHOST), V6.into()] {
        // IPv6 has 20 bytes more of header.
        let payload = if address.is_ipv4() { OF_TCP } else { 1_440.0 / 1_500.0 };
        keeps(&mut measured, &format!("down from {address}, bit/s"), 4e6 * payload, 0.05, || {
            let at = sender(&host, address, 1_000_000, 1);
            let result = numbers(&client(&host, &["--down", "4mbit"], &format!("download {at}")));
            assert_eq!((result[0], result[2]), (1_000_000.0, 1.0), "all of it, and right");
            result[0] * 8.0 / result[1]
        });
    }
    measured.ended()
}

pub fn uploads_keep_the_rate_and_nothing_is_lost_at_the_end() -> Ended {
    let (host, mut measured) = (host(), Measurements::new());
    keeps(&mut measured, "up, bit/s", 2e6 * OF_TCP, 0.12, || {
        let (at, taker) = taker(&host);
        let began = Instant::now();
        // The program ends long before its data has left: 500 kB at 2 Mbit/s take 2 s.
        printed(&client(&host, &["--up", "2mbit"], &format!("upload {at} 500000")));
        let (data, _) = taker.join().unwrap();
        assert!(whole(&data, 500_000), "{} bytes", data.len());
        500_000.0 * 8.0 / began.elapsed().as_secs_f64()
    });
    measured.ended()
}

pub fn datagrams_keep_the_rate_in_both_directions() -> Ended {
    let (host, mut measured) = (host(), Measurements::new());
    // Down: the server sends 8 Mbit/s of datagrams of 972 + 28 bytes, for 3 s.
    keeps(&mut measured, "down, bit/s", 2e6 * 0.972, 0.06, || {
        let socket = host.run(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap();
        let at = socket.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (_, from) = socket.recv_from(&mut [0; 8]).unwrap();
            let began = Instant::now();
            for sent in 1..=3_000 {
                let _ = socket.send_to(&[7; 972], from);
                thread::sleep((began + Duration::from_millis(sent)).saturating_duration_since(Instant::now()));
            }
        });
        let result = numbers(&client(&host, &["--down", "2mbit"], &format!("receive {at} 2500")));
        server.join().unwrap();
        result[0] * 8.0 / result[1]
    });

    // Up: what arrives between the first and the last.
    keeps(&mut measured, "up, bit/s", 1e6 * 0.972, 0.06, || {
        let socket = host.run(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap();
        let at = socket.local_addr().unwrap();
        let counter = thread::spawn(move || {
            let mut buffer = [0; 2_000];
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.recv(&mut buffer).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let (began, mut last, mut bytes) = (Instant::now(), Instant::now(), 0);
            while let Ok(length) = socket.recv(&mut buffer) {
                bytes += length;
                last = Instant::now();
            }
            bytes as f64 * 8.0 / (last - began).as_secs_f64()
        });
        printed(&client(&host, &["--up", "1mbit"], &format!("flood {at} 2500")));
        counter.join().unwrap()
    });
    measured.ended()
}

/// 8 Mbit/s of datagrams, whose sender does not learn whether they arrive, at 1 Mbit/s: the queue could hold a second of them.
pub fn datagrams_that_heed_no_drop_do_not_wait() -> Ended {
    let host = host();
    let socket = host.run(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap();
    let role = format!("flood {} 4000", socket.local_addr().unwrap());
    patiently(|| {
        let output = client(&host, &["--up", "1mbit", "--json"], &role);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let totals: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
        let median = totals["up"]["classes"][0]["wait_p50_ns"].as_f64().unwrap_or_else(|| panic!("no wait in {text}"));
        let median = median / 1e6;
        println!("  {median} ms at the median");
        if median < 300.0 { Ok(()) } else { Err(format!("datagrams wait {median} ms at the median")) }
    })
}

pub fn a_call_beside_a_download_does_not_wait() -> Ended {
    let host = host();
    let echo = echo_server(&host, Ipv4Addr::LOCALHOST);
    let own = std::env::current_exe().unwrap();
    patiently(|| {
        let bulk = sender(&host, Ipv4Addr::LOCALHOST, 300_000, 3);
        // Three downloads and an echo in one program's children.
        let script = format!(
            "for i in 1 2 3; do {ROLE}='download {bulk}' '{own}' >/dev/null & done; sleep 0.3; {ROLE}='echo {echo} 60' \
             '{own}'; wait",
            own = own.display()
        );
        let mut command = command(&host, &["--down", "2mbit", "--up", "500kbit"], "sh");
        let times = numbers(&command.args(["-c", &script]).output().unwrap());
        let found = format!(
            "echo beside three downloads at 2 Mbit/s: {:.1} ms median, {:.1} ms at the 95th percentile",
            times[0], times[1]
        );
        println!("{found}");
        // A packet of each download, 6 ms each, may precede it; in a shared queue it would be 30 ms and more of each.
        if times[0] < 25.0 && times[1] < 60.0 { Ok(()) } else { Err(found) }
    })
}

pub fn exit_codes_and_signals_are_passed_through() -> Ended {
    let host = host();
    let sh = |script: &str| command(&host, &["--up", "1mbit"], "sh").args(["-c", script]).output().unwrap();
    assert_eq!(sh("exit 3").status.code(), Some(3));
    assert_eq!(sh("kill -TERM $$").status.code(), Some(128 + 15));
    let none = command(&host, &[], "/nosuch/program").output().unwrap();
    assert_eq!(none.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&none.stderr).contains("/nosuch/program"));
    assert_eq!(command(&host, &[], "/etc/passwd").output().unwrap().status.code(), Some(126));
    assert_eq!(command(&host, &["--up", "fast"], "true").output().unwrap().status.code(), Some(2));
    // A signal to the command is for the program.
    let mut child = command(&host, &[], "sh")
        .args(["-c", "trap 'echo heard; exit 7' USR1; echo ready; while :; do sleep 0.05; done"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut ready = [0; 6];
    out.read_exact(&mut ready).unwrap();
    process::signal(child.id(), libc::SIGUSR1).unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!((child.wait().unwrap().code(), rest.trim()), (Some(7), "heard"));
    Ended::Passed
}

pub fn standard_input_and_output_pass_through() -> Ended {
    let host = host();
    let mut child = command(&host, &["--up", "1mbit"], "tr")
        .args(["a-z", "A-Z"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // More than pipes hold, so that it must be read while it is written.
    let data = vec![b'x'; 300_000];
    let mut to = child.stdin.take().unwrap();
    let writer = thread::spawn(move || to.write_all(&data).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(0), vec![b'X'; 300_000]));
    Ended::Passed
}

/// Input is echoed, so the awaited text is written so that only the shell's output contains it.
pub fn a_terminal_works_as_without() -> Ended {
    let host = host();
    let mut terminal = Terminal::open(&host);
    let exec = format!("{} exec --up 1mbit --", env!("CARGO_BIN_EXE_tidegate"));
    terminal.shows("$ ");
    // Ctrl-C reaches the program, and its exit code is ours.
    terminal.types(&format!(
        "{exec} sh -c 'trap \"exit 9\" INT; echo rea\"\"dy; while :; do sleep 0.05; done'; echo co\"\"de=$?\n"
    ));
    terminal.shows("ready");
    terminal.types("\x03");
    terminal.shows("code=9");
    terminal.shows("$ ");
    // A program without a handler is killed: 128 and the number of the signal.
    terminal.types(&format!("{exec} sh -c 'echo rea\"\"dy; exec sleep 100'; echo co\"\"de=$?\n"));
    terminal.shows("ready");
    terminal.types("\x03");
    terminal.shows("code=130");
    terminal.shows("$ ");
    // Ctrl-Z stops it, the shell continues, `fg` resumes it, and it reads what is typed then; a reader that has not
    // stopped yet would read a character meant for the shell.
    terminal.types(&format!("{exec} sh -c 'trap c=1 CONT; echo rea\"\"dy; while [ -z $c ]; do sleep 0.05; done; read x; echo go\"\"t $x; exit 5'\n"));
    terminal.shows("ready");
    terminal.types("\x1a");
    terminal.shows("Stopped");
    terminal.shows("$ ");
    terminal.types("echo she\"\"ll goes on\n");
    terminal.shows("shell goes on");
    terminal.shows("$ ");
    terminal.types("fg; echo co\"\"de=$?\n");
    terminal.types("hello\n");
    terminal.shows("got hello");
    terminal.shows("code=5");
    terminal.shows("$ ");
    terminal.types("exit\n");
    assert!(terminal.shell.wait().unwrap().success());
    Ended::Passed
}

pub fn pings_pass_where_the_host_lets_everybody_ping() -> Ended {
    let host = host();
    // No group may, which is the initial state of a namespace.
    let refused = printed(&client(&host, &["--up", "1mbit"], "ping 127.0.0.1"));
    assert!(["PermissionDenied", "HostUnreachable"].contains(&refused.as_str()), "{refused}");
    let allowed = host.run(|| {
        let all = sysctl::write("ipv4/ping_group_range", "0 2147483647");
        // In a user namespace there may be one group.
        all.or_else(|_| sysctl::write("ipv4/ping_group_range", "0 0"))
    });
    if let Err(error) = allowed.unwrap() {
        return Ended::Skipped(format!("nobody can be allowed to ping: {error}"));
    }
    let answer = printed(&client(&host, &["--up", "1mbit", "--down", "1mbit"], "ping 127.0.0.1"));
    assert_eq!(answer, "type 0 sequence 7 data [1, 2, 3, 4, 5, 6, 7, 8]");
    Ended::Passed
}

pub fn the_program_is_who_it_was() -> Ended {
    let host = host();
    let own = std::env::current_exe().unwrap();
    let expected = Command::new(&own).env(ROLE, "identity").output().unwrap();
    assert_eq!(printed(&client(&host, &[], "identity")), printed(&expected));
    if process::effective_user() == 0 && std::fs::read_to_string("/proc/self/uid_map").unwrap().contains("4294967295") {
        if std::fs::metadata("/dev/net/tun").unwrap().mode() & 0o006 != 0o006 {
            return Ended::Skipped("only root may open /dev/net/tun".into());
        }
        // Without any privilege, in a user namespace that the command makes by itself.
        let as_nobody = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
            command.args(["exec", "--down", "1mbit", "--"]).arg(&own).env(ROLE, "identity");
            command.uid(65_534).gid(65_534).current_dir("/").stdin(Stdio::null()).output().unwrap()
        };
        // From a thread inside: an unprivileged user cannot enter any more.
        let output = host.run(as_nobody).unwrap();
        assert!(printed(&output).contains("Uid:\t65534\t65534\t65534\t65534"), "{}", printed(&output));
    }
    Ended::Passed
}

pub fn what_cannot_be_reached_is_said_at_once() -> Ended {
    let host = host();
    // A port that was just free.
    let free = host.run(|| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()).unwrap();
    // Without a limit it waits as long as possible, and reports the timeout.
    assert_eq!(printed(&client(&host, &[], &format!("connect {free}"))), "ConnectionRefused");
    let unreachable = printed(&client(&host, &[], "connect 203.0.113.1:80"));
    assert!(["NetworkUnreachable", "HostUnreachable"].contains(&unreachable.as_str()), "{unreachable}");
    Ended::Passed
}

pub fn large_datagrams_and_ipv6_pass() -> Ended {
    let host = host();
    let echo = echo_server(&host, Ipv4Addr::LOCALHOST);
    assert_eq!(printed(&client(&host, &["--up", "10mbit", "--down", "10mbit"], &format!("large {echo}"))), "true");
    let echo = echo_server(&host, V6);
    // All replies must return, each while the client waits, from the first one on, which is sent when the address is
    // new. Several at once would delay the kernel, which adds addresses on a separate thread.
    let several = || {
        for _ in 0..4 {
            let result = numbers(&client(&host, &["--up", "1mbit", "--down", "1mbit"], &format!("echo {echo} 2")));
            println!("echo over IPv6: {:.1} ms median", result[0]);
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(several))));
    Ended::Passed
}

pub fn the_loopback_is_the_hosts_or_its_own() -> Ended {
    let host = host();
    assert_eq!(printed(&client(&host, &["--loopback", "own"], "own")), "true");
    let at = sender(&host, Ipv4Addr::LOCALHOST, 10, 2);
    assert_eq!(printed(&client(&host, &["--loopback", "own"], &format!("connect {at}"))), "ConnectionRefused");
    assert_eq!(printed(&client(&host, &["--loopback", "host"], &format!("connect {at}"))), "connected");
    Ended::Passed
}

pub fn the_host_is_not_touched_and_a_dead_relay_lets_nothing_out() -> Ended {
    let host = host();
    let seen = || {
        host.run(|| {
            let links: Vec<_> = Rtnl::open().unwrap().links().unwrap().into_iter().map(|link| link.name).collect();
            let tables = nft::tables(&mut Socket::open(Protocol::Netfilter).unwrap()).unwrap().len();
            (links, Rtnl::open().unwrap().addresses().unwrap().len(), tables)
        })
        .unwrap()
    };
    let before = seen();
    let at = echo_server(&host, Ipv4Addr::LOCALHOST);
    let scratch = Folder::new("test");
    let own = std::env::current_exe().unwrap();
    let script = format!(
        "echo started; read x < '{fifo}'; {ROLE}='connect {at}' '{own}' > '{out}'; echo done >> '{out}'",
        fifo = scratch.0.join("fifo").display(),
        out = scratch.0.join("out").display(),
        own = own.display()
    );
    let owner = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, scratch.0.join("fifo"), rustix::fs::FileType::Fifo, owner, 0).unwrap();
    let mut child =
        command(&host, &["--up", "1mbit"], "sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut started = [0; 7];
    child.stdout.take().unwrap().read_exact(&mut started).unwrap();
    assert_eq!(seen(), before, "while it runs");
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(scratch.0.join("fifo"), "\n").unwrap();
    let deadline = Instant::now() + PATIENCE;
    let said = loop {
        let said = std::fs::read_to_string(scratch.0.join("out")).unwrap_or_default();
        if said.contains("done") || Instant::now() > deadline {
            break said;
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert!(said.starts_with("NetworkUnreachable"), "{said}");
    assert_eq!(seen(), before, "afterwards");
    Ended::Passed
}

/// A program without a dynamic linker, made here.
fn static_program(scratch: &Path) -> Result<PathBuf, String> {
    let (source, program) = (scratch.join("static.rs"), scratch.join("static"));
    let text = "use std::io::Read; fn main() { let mut all = Vec::new(); \
        std::net::TcpStream::connect(std::env::args().nth(1).unwrap()).unwrap().read_to_end(&mut all).unwrap(); \
        println!(\"{}\", all.len()); }";
    std::fs::write(&source, text).unwrap();
    let output = Command::new("rustc")
        .args(["-C", "target-feature=+crt-static", "-O", "-o"])
        .arg(&program)
        .arg(&source)
        .output()
        .map_err(|error| format!("no rustc: {error}"))?;
    if !output.status.success() {
        return Err(format!("no static program can be linked: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let interpreter = has_interpreter(&std::fs::read(&program).unwrap());
    if interpreter { Err("the program that was made is not static".into()) } else { Ok(program) }
}

/// Whether a 64-bit ELF file names a dynamic linker: a program header of type 3, `PT_INTERP`.
fn has_interpreter(file: &[u8]) -> bool {
    let number = |at: usize, length: usize| {
        file[at..at + length].iter().rev().fold(0_usize, |number, &byte| number << 8 | usize::from(byte))
    };
    let (first, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    (0..count).any(|header| number(first + header * size, 4) == 3)
}

pub fn a_static_program_is_shaped() -> Ended {
    let (host, scratch) = (host(), Folder::new("test"));
    let program = match static_program(&scratch.0) {
        Ok(program) => program,
        Err(why) => return Ended::Skipped(why),
    };
    let at = sender(&host, Ipv4Addr::LOCALHOST, 250_000, 1);
    let began = Instant::now();
    let output = command(&host, &["--down", "2mbit", "--verbose"], &program).arg(at.to_string()).output().unwrap();
    assert_eq!(printed(&output), "250000");
    let seconds = began.elapsed().as_secs_f64();
    // 250,000 * 8 / 2,000,000 / 0.973 = 1.03 s; unshaped it would take some milliseconds.
    assert!(seconds > 0.95, "{seconds} s");
    let summary = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(summary.contains("1 TCP connections") && summary.contains("down:"), "{summary}");
    Ended::Passed
}

pub fn a_shaper_file_shapes() -> Ended {
    let (host, scratch, mut measured) = (host(), Folder::new("test"), Measurements::new());
    let file = scratch.write(
        "shaper.toml",
        "version = 1\n[[class]]\nname = \"all\"\nrate = \"1mbit\"\ndefault = true\nqueue = { kind = \"fifo\" }\n",
    );
    let flags = ["--config-down", file.to_str().unwrap()];
    keeps(&mut measured, "by a file, bit/s", 1e6 * OF_TCP, 0.06, || {
        let at = sender(&host, Ipv4Addr::LOCALHOST, 200_000, 1);
        let result = numbers(&client(&host, &flags, &format!("download {at}")));
        result[0] * 8.0 / result[1]
    });
    measured.ended()
}

pub fn processes_left_behind_are_served_until_they_end() -> Ended {
    let host = host();
    let (at, taker) = taker(&host);
    let own = std::env::current_exe().unwrap();
    let script = format!("(sleep 0.5; {ROLE}='upload {at} 50000' '{}') & exit 4", own.display());
    let output = command(&host, &["--up", "2mbit"], "sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(whole(&taker.join().unwrap().0, 50_000));
    Ended::Passed
}
