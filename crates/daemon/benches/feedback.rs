//! How long after its cause feedback arrives: `cargo bench -p tidegate-daemon --bench feedback`.
//!
//! The cause is a packet: that of a newcomer, by which every other flow of the class is granted less. Measured is from
//! just before it is sent to when the owner of another flow has read his new rate.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source};
use tidegate_control::calls::{Feedback, Target};
use tidegate_control::{Client, EventKind, Pushed};
use tidegate_daemon::{Control, Daemon, Settings};
use tidegate_lab::Pair;
use tidegate_live::netns;
use tidegate_live::shaping::Options;

const SHAPER: &str = "version = 1\n[shaper]\nidle-timeout = \"300ms\"\n\
    [[class]]\nname = \"all\"\nrate = \"100mbit\"\ndefault = true\n";
const SAMPLES: usize = 400;

fn main() {
    if let Err(reason) = netns::enter() {
        eprintln!("SKIP: {reason}");
        return;
    }
    let pair = Pair::create().expect("namespaces");
    let path = std::env::temp_dir().join(format!("tidegate-bench-{}.sock", std::process::id()));
    let config = tidegate_config::shaper::load(&Source::new("bench", SHAPER), &mut Diagnostics::new()).expect("valid");
    let settings = Settings {
        file: "bench".into(),
        options: Options { interface: Some("tg0".into()), ..Options::default() },
        control: Control::Path(path.clone()),
        ..Settings::default()
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (ready, is_ready) = mpsc::channel();
    let (stopping, namespace) = (Arc::clone(&stop), pair.sender.namespace.try_clone().expect("a handle"));
    let daemon = thread::spawn(move || {
        namespace.enter_thread().expect("a namespace");
        let daemon =
            Daemon::start(vec![(config, SHAPER.into())], settings, |line| eprintln!("{line}")).expect("it starts");
        ready.send(()).expect("somebody waits");
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
    let mut micros = Vec::new();
    for n in 0..SAMPLES as u16 {
        thread::sleep(Duration::from_millis(40));
        // It stays, and nothing that was told before is taken for the answer.
        owner.send_to(&[0; 100], "10.77.0.2:9").expect("it is sent");
        while client.next_push(Some(Duration::from_millis(10))).expect("it runs").is_some() {}
        let newcomer = socket(10_000 + n);
        let began = Instant::now();
        newcomer.send_to(&[0; 100], "10.77.0.2:9").expect("it is sent");
        let deadline = began + Duration::from_millis(500);
        while Instant::now() < deadline {
            match client.next_push(Some(Duration::from_millis(100))).expect("it runs") {
                Some((_, Pushed::Event(event))) if event.kind == EventKind::Rate => {
                    micros.push(began.elapsed().as_micros());
                    break;
                }
                _ => {}
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    daemon.join().expect("it ends in order");
    micros.sort_unstable();
    let at = |part: f64| micros[((micros.len() - 1) as f64 * part) as usize];
    println!(
        "feedback after its cause, {} of {SAMPLES} samples: min {} us, p50 {} us, p90 {} us, p99 {} us, max {} us",
        micros.len(),
        at(0.0),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
}
