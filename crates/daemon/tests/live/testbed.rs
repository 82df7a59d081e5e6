//! Two hosts, a shaped link of 10 Mbit/s, and flows that ask for more.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_control::Client;
use tidegate_daemon::web::{Reach, WebSettings};
use tidegate_daemon::{ControlSocket, Daemon, Settings, ShaperFile};
use tidegate_testbed::{FlowSpec, Pair, Senders, Sink};
use tidegate_units::{Bytes, Rate};

use tidegate_testbed::harness::note_report;

const SHAPER: &str = r#"
version = 1
[interface]
name = "tg0"
[shaper]
rate = "10mbit"
[[class]]
name = "calls"
rate = "2mbit"
priority = 0
dscp = "EF"
[[class]]
name = "web"
rate = "5mbit"
[[class]]
name = "besteffort"
rate = "3mbit"
default = true
[[rule]]
name = "video call"
class = "calls"
protocol = "udp"
destination-port = 5004
minimum = "1mbit"
[[rule]]
class = "web"
destination-port = [8080, 8081]
[[rule]]
name = "allowance"
class = "web"
destination-port = 9
quota = "50GB/month"
[[rule]]
name = "weekend"
class = "web"
destination-port = 7
when = "sat,sun"
"#;

/// How long to wait for an expected result on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// Waits until a condition holds.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} does not come");
        sleep(Duration::from_millis(50));
    }
}

/// A running testbed. Its parts end with it.
pub struct Testbed {
    pub pair: Pair,
    pub sink: Sink,
    pub web: SocketAddr,
    pub control: PathBuf,
    // They end in this order, the senders first.
    _senders: Senders,
    stop: Arc<AtomicBool>,
    daemon: Option<JoinHandle<std::io::Result<()>>>,
}

impl Testbed {
    /// Starts everything: a call of 1.2 Mbit/s, three flows of the web that together ask for more than there is, and one
    /// of best effort that is dropped from.
    pub fn start(name: &str) -> Self {
        let udp = |name, port, kbit| FlowSpec::udp(name, port, 0, Rate::from_kbit(kbit), Bytes::new(1_000));
        let flows = [
            udp("call", 5004, 1_200),
            udp("film", 8080, 3_000),
            udp("page", 8081, 600),
            FlowSpec::tcp("backup", 9_000, 0),
            udp("flood", 9_001, 6_000),
        ];
        Self::with(name, SHAPER, &flows)
    }

    /// Starts a daemon with a shaper file, for one direction or both, and flows through it.
    pub fn with(name: &str, text: &str, flows: &[FlowSpec]) -> Self {
        let pair = Pair::create().expect("a pair of hosts");
        let sink = Sink::start(&pair.receiver, flows).expect("a sink");
        let senders = Senders::start(&pair.sender, &pair.receiver, flows).expect("senders");
        let control = std::env::temp_dir().join(format!("tidegate-{name}-{}.sock", std::process::id()));
        let mut diagnostics = Diagnostics::new();
        let configs = shaper::load_all(&Source::new("test.toml", text), &mut diagnostics);
        let configs = configs.unwrap_or_else(|| panic!("{:?}", diagnostics.iter().collect::<Vec<_>>()));
        let file = ShaperFile { path: "test.toml".into(), modified: None, configs };
        let settings = Settings {
            control: ControlSocket::Path(control.clone()),
            web: Some(WebSettings { address: "127.0.0.1:0".parse().expect("an address"), reach: Reach::Loopback }),
            ..Settings::default()
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (told, started) = std::sync::mpsc::channel();
        let daemon = pair
            .sender
            .namespace
            .spawn("daemon", {
                let stop = Arc::clone(&stop);
                move || {
                    let report = |line: &str| {
                        note_report(line);
                        eprintln!("{line}");
                    };
                    let daemon = Daemon::start(vec![file], settings, report).expect("a daemon");
                    told.send(daemon.web_address().expect("a page")).expect("heard");
                    daemon.run(&stop).expect("an orderly end");
                }
            })
            .expect("a thread");
        let web = started.recv().expect("it started");
        Self { pair, sink, web, control, _senders: senders, stop, daemon: Some(daemon) }
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.control).expect("a client")
    }

    /// A connection to the page.
    pub fn connect(&self) -> TcpStream {
        let stream = self.pair.sender.namespace.run(|| TcpStream::connect(self.web)).expect("the namespace");
        let stream = stream.expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// The reply to `request`: head and body.
    pub fn ask(&self, request: &str) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("read");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {answer:?}"));
        (head.to_ascii_lowercase(), body.to_owned())
    }

    /// The reply to a GET of `path`.
    pub fn get(&self, path: &str) -> (String, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.web))
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(daemon) = self.daemon.take()
            && daemon.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the daemon panicked");
        }
    }
}
