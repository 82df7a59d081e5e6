//! A daemon in this process, between two hosts, and functions for tests.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_config::diagnostic::{Diagnostics, Source};
use tidegate_control::calls::{PromiseCall, Target};
use tidegate_control::{Client, ClientError};
use tidegate_daemon::{ControlSocket, Daemon, Settings, ShaperFile};
use tidegate_live::shaping::Options;
use tidegate_testbed::topology::Pair;
use tidegate_testbed::{FlowSpec, Sink};
use tidegate_units::{Bytes, Rate};

use tidegate_testbed::steady::Measurements;

/// How long to wait for an expected result on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// One class of the whole 8 Mbit/s, and one for displaced flows.
pub const SHAPER: &str = "version = 1\n\
    [shaper]\nidle-timeout = \"1s\"\n\
    [[class]]\nname = \"media\"\nrate = \"8mbit\"\nborrow = false\n\
    [[class]]\nname = \"rest\"\nrate = \"4mbit\"\ndefault = true\nborrow = false\n\
    [[rule]]\nclass = \"media\"\ndestination-port = \"5000-5999\"\n\
    [control]\nminimum = \"1mbit\"\npreference = 1\n";

/// A daemon on a thread of its own.
pub struct Running {
    pub path: PathBuf,
    pub stop: Arc<AtomicBool>,
    pub thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(pair: &Pair, text: &str) -> Self {
        Self::start_with(pair, text, Options::default())
    }
    pub fn start_with(pair: &Pair, text: &str, options: Options) -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-{}-{number}.sock", std::process::id()));
        let mut diagnostics = Diagnostics::default();
        let config = tidegate_config::shaper::load(&Source::new("test.toml", text), &mut diagnostics).expect("valid");
        let file = ShaperFile { path: "test.toml".into(), modified: None, configs: vec![config] };
        let settings = Settings {
            options: Options { interfaces: vec!["tg0".into()], ..options },
            control: ControlSocket::Path(path.clone()),
            ..Settings::default()
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let stopping = Arc::clone(&stop);
        let namespace = pair.sender.namespace.try_clone().unwrap();
        let thread = thread::spawn(move || {
            namespace.enter_thread().unwrap();
            let daemon = Daemon::start(vec![file], settings, |line| eprintln!("{line}")).unwrap();
            ready.send(()).unwrap();
            daemon.run(&stopping).unwrap();
        });
        is_ready.recv_timeout(PATIENCE).expect("it starts");
        Self { path, stop, thread: Some(thread) }
    }
    pub fn client(&self) -> Client {
        Client::connect(&self.path).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        assert!(!self.path.exists(), "the socket is taken away");
    }
}

pub fn udp(port: u16, mbit: u64) -> FlowSpec {
    FlowSpec::udp(format!("to {port}"), port, 0, Rate::from_mbit(mbit), Bytes::new(1_200))
}

pub fn target(port: u16) -> Target {
    Target { port: Some(port), ..Target::default() }
}

pub fn minimum(port: u16, kbit: u64) -> PromiseCall {
    PromiseCall { target: target(port), minimum: Some(Rate::from_kbit(kbit)), ..PromiseCall::default() }
}

/// Payload in kbit/s that arrives of each flow within a second and a half.
pub fn rates(sink: &Sink, flows: usize) -> Vec<u64> {
    let before: Vec<u64> = (0..flows).map(|n| sink.bytes(n)).collect();
    let began = Instant::now();
    thread::sleep(Duration::from_millis(1_500));
    let nanos = began.elapsed().as_nanos() as u64;
    (0..flows).map(|n| (sink.bytes(n) - before[n]) * 8 * 1_000_000 / nanos).collect()
}

/// Waits until the rates are as expected.
pub fn settles(measured: &mut Measurements, sink: &Sink, flows: usize, what: &str, right: impl Fn(&[u64]) -> bool) {
    measured.hold(|| {
        let found = rates(sink, flows);
        if right(&found) { Ok(()) } else { Err(format!("{what}, in kbit/s: {found:?}")) }
    });
}

/// Waits until a condition holds.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} does not come");
        thread::sleep(Duration::from_millis(20));
    }
}

pub fn refusal(error: ClientError) -> tidegate_control::Refusal {
    match error {
        ClientError::Refused(refusal) => refusal,
        other => panic!("not refused, but {other}"),
    }
}

pub const OTHER: u32 = 12_345;

pub fn is_root_of_the_machine() -> bool {
    tidegate_sys::process::effective_user() == 0
        && std::fs::read_to_string("/proc/self/uid_map").unwrap().contains("4294967295")
}
