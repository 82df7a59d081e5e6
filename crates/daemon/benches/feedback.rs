//! How long after its cause feedback arrives: `cargo bench -p tidegate-daemon --bench feedback`.
//!
//! The cause is a packet: that of a newcomer, by which every other flow of the class is granted less. Measured is from
//! just before it is sent to when the owner of another flow has read his new rate. Between two samples the newcomer is
//! forgotten: a sample in which one flow joins while another leaves changes no rate, and no notification is sent.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source};
use tidegate_control::calls::{Feedback, Target};
use tidegate_control::{Client, EventKind, Pushed};
use tidegate_daemon::{ControlSocket, Daemon, Settings, ShaperFile};
use tidegate_live::netns;
use tidegate_live::shaping::Options;
use tidegate_testbed::Pair;
use tidegate_units::Rate;

const SHAPER: &str = "version = 1\n[shaper]\nidle-timeout = \"250ms\"\n\
    [[class]]\nname = \"all\"\nrate = \"100mbit\"\ndefault = true\n";
const SAMPLES: usize = 300;
/// The owner's rate while he is alone.
const ALONE: Rate = Rate::from_mbit(100);
const TWO: Rate = Rate::from_mbit(50);
/// Longer than a flow is remembered.
const PAUSE: Duration = Duration::from_millis(280);
/// A sample counts when the machine lets the newcomer follow so soon: well before the owner is forgotten.
const SOON: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(1);

/// Waits until the owner is notified of the granted rate `rate`.
fn told(client: &mut Client, rate: Rate) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some((_, Pushed::Event(event))) = client.next_push(Some(Duration::from_millis(100))).expect("it runs")
            && event.kind == EventKind::Rate
            && event.granted == Some(rate)
        {
            return true;
        }
    }
    false
}

fn main() {
    if let Err(reason) = netns::enter() {
        eprintln!("SKIP: {reason}");
        return;
    }
    let pair = Pair::create().expect("namespaces");
    let path = std::env::temp_dir().join(format!("tidegate-bench-{}.sock", std::process::id()));
    let config = tidegate_config::shaper::load(&Source::new("bench", SHAPER), &mut Diagnostics::new()).expect("valid");
    let file = ShaperFile { path: "bench".into(), modified: None, configs: vec![config] };
    let settings = Settings {
        options: Options { interfaces: vec!["tg0".into()], ..Options::default() },
        control: ControlSocket::Path(path.clone()),
        ..Settings::default()
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (ready, is_ready) = mpsc::channel();
    let (stopping, namespace) = (Arc::clone(&stop), pair.sender.namespace.try_clone().expect("a handle"));
    let daemon = thread::spawn(move || {
        namespace.enter_thread().expect("a namespace");
        let daemon = Daemon::start(vec![file], settings, |line| eprintln!("{line}")).expect("it starts");
        ready.send(()).expect("the receiver exists");
        daemon.run(&stopping).expect("it ends");
    });
    is_ready.recv().expect("it is ready");
    let socket =
        |n: u16| pair.sender.namespace.run(|| UdpSocket::bind(("10.77.0.1", n)).expect("a port")).expect("a thread");
    let owner = socket(9_000);
    owner.send_to(&[0; 100], "10.77.0.2:9").expect("it is sent");
    let mut client = Client::connect(&path).expect("a socket");
    let target = Target { source_port: Some(9_000), ..Target::default() };
    let (_, events) = client.feedback(&Feedback { target, ..Feedback::default() }).expect("feedback");
    let _ = events.id();
    assert!(told(&mut client, ALONE), "how it stands at the beginning");
    let (mut micros, mut lost) = (Vec::new(), 0);
    let newcomer = socket(9_001);
    while micros.len() + lost < SAMPLES {
        let sent = Instant::now();
        owner.send_to(&[0; 100], "10.77.0.2:9").expect("it is sent");
        thread::sleep(Duration::from_millis(10));
        let began = Instant::now();
        newcomer.send_to(&[0; 100], "10.77.0.2:9").expect("it is sent");
        if told(&mut client, TWO) {
            micros.push(began.elapsed().as_micros());
        } else if began.duration_since(sent) < SOON {
            lost += 1;
        }
        // The newcomer is forgotten with the next packet.
        thread::sleep(PAUSE);
        owner.send_to(&[0; 100], "10.77.0.2:9").expect("it is sent");
        told(&mut client, ALONE);
    }
    stop.store(true, Ordering::Relaxed);
    daemon.join().expect("it ends in order");
    micros.sort_unstable();
    let at = |part: f64| micros[((micros.len() - 1) as f64 * part) as usize];
    println!(
        "feedback after its cause, {} samples, {lost} never came: min {} us, p50 {} us, p90 {} us, p99 {} us, max {} us",
        micros.len(),
        at(0.0),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
}
