//! A daemon between namespaces: what it answers, what it promises, and what its clients cannot do to the data path.

#[path = "../../live/tests/support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use support::Ended;
use tidegate_config::diagnostic::{Diagnostics, Source};
use tidegate_control::calls::{
    Apply, Displacement, Events, Feedback, PromiseCall, Refresh, ReservationsQuery, Reserve, Target, Unreserve,
};
use tidegate_control::{Client, ClientError, Code, EventKind, Pushed};
use tidegate_daemon::{Control, Daemon, Listening, Settings};
use tidegate_lab::topology::Pair;
use tidegate_lab::{FlowSpec, Senders, Sink};
use tidegate_live::shaping::{Injection, Options};
use tidegate_units::{Bytes, Rate, Span};

/// One class of 8 Mbit/s that is all there is, and one to be displaced to.
const SHAPER: &str = "version = 1\n\
    [shaper]\nidle-timeout = \"1s\"\n\
    [[class]]\nname = \"media\"\nrate = \"8mbit\"\nborrow = false\n\
    [[class]]\nname = \"rest\"\nrate = \"4mbit\"\ndefault = true\nborrow = false\n\
    [[rule]]\nclass = \"media\"\ndestination-port = \"5000-5999\"\n\
    [control]\nminimum = \"1mbit\"\npreference = 1\n";

/// A daemon on a thread of its own.
struct Running {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(pair: &Pair, text: &str) -> Self {
        Self::start_with(pair, text, Options::default())
    }
    fn start_with(pair: &Pair, text: &str, options: Options) -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-{}-{number}.sock", std::process::id()));
        let mut diagnostics = Diagnostics::default();
        let config = tidegate_config::shaper::load(&Source::new("test.toml", text), &mut diagnostics).expect("valid");
        let settings = Settings {
            file: "test.toml".into(),
            options: Options { interface: Some("tg0".into()), ..options },
            control: Control::Path(path.clone()),
            ..Settings::default()
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let (stopping, text) = (Arc::clone(&stop), text.to_owned());
        let namespace = pair.sender.namespace.try_clone().unwrap();
        let thread = thread::spawn(move || {
            namespace.enter_thread().unwrap();
            let daemon = Daemon::start(vec![(config, text)], settings, |line| eprintln!("{line}")).unwrap();
            ready.send(()).unwrap();
            daemon.run(&stopping).unwrap();
        });
        is_ready.recv_timeout(Duration::from_secs(10)).expect("it starts");
        Self { path, stop, thread: Some(thread) }
    }
    fn client(&self) -> Client {
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

fn udp(port: u16, mbit: u64) -> FlowSpec {
    FlowSpec::udp(format!("to {port}"), port, 0, Rate::from_mbit(mbit), Bytes::new(1_200))
}

fn target(port: u16) -> Target {
    Target { port: Some(port), ..Target::default() }
}

fn minimum(port: u16, kbit: u64) -> PromiseCall {
    PromiseCall { target: target(port), minimum: Some(Rate::from_kbit(kbit)), ..PromiseCall::default() }
}

/// Payload in kbit/s that arrives of each flow within a second and a half.
fn rates(sink: &Sink, flows: usize) -> Vec<u64> {
    let before: Vec<u64> = (0..flows).map(|n| sink.bytes(n)).collect();
    let began = Instant::now();
    thread::sleep(Duration::from_millis(1_500));
    let nanos = began.elapsed().as_nanos() as u64;
    (0..flows).map(|n| (sink.bytes(n) - before[n]) * 8 * 1_000_000 / nanos).collect()
}

fn refusal(error: ClientError) -> tidegate_control::Refusal {
    match error {
        ClientError::Refused(refusal) => refusal,
        other => panic!("not refused, but {other}"),
    }
}

fn status_counts_and_events_tell() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let mut listener = running.client();
    let which = Events { kinds: vec![EventKind::FlowStarted], port: Some(5_004), ..Events::default() };
    let mut events = listener.events(&which).unwrap();
    let sink = Sink::start(&pair.receiver, &[udp(5_004, 1)]).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &[udp(5_004, 1)]).unwrap();
    let Some(Ok(Pushed::Event(event))) = events.next() else { panic!("no event") };
    assert_eq!((event.kind, event.class.as_deref()), (EventKind::FlowStarted, Some("media")));
    let flow = event.flow.expect("of a flow");
    assert_eq!((flow.destination_port, flow.destination), (Some(5_004), Some("10.77.0.2".parse().unwrap())));
    thread::sleep(Duration::from_millis(300));
    let status = running.client().status().unwrap();
    assert!(status.in_force && status.interface == "tg0");
    let media = &status.directions[0].classes[0];
    assert!(media.through_packets > 10 && media.flows == Some(1), "{media:?}");
    assert_eq!(status.control.subscriptions, 1);
    senders.stop();
    sink.stop();
    Ended::Passed
}

fn a_promise_holds_before_and_after_the_first_packet_and_ends_with_its_connection() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    // Four greedy flows of 8 Mbit/s, each worth 2: about 1.95 of payload.
    let flows: Vec<FlowSpec> = (0..4).map(|n| udp(5_000 + n, 8)).collect();
    let mut early = running.client();
    // Before the first packet.
    let given = early.promise(&minimum(5_000, 4_000)).unwrap();
    assert_eq!((given.state.class.as_str(), given.state.flows, given.state.held), ("media", 0, 1));
    assert_eq!(given.state.free, Rate::from_mbit(4), "half of the class is held");
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    thread::sleep(Duration::from_millis(500));
    let seen = rates(&sink, 4);
    // 4 Mbit/s at IP level are 4 * 1200/1228 = 3.9 of payload; the others share 4, 1.3 each, although they
    // always find the buffer in the same order.
    assert!(seen[0] > 3_600, "{seen:?}");
    assert!((3_400..4_100).contains(&seen[1..].iter().sum::<u64>()), "{seen:?}");
    assert!(seen[1..].iter().all(|rate| (900..1_700).contains(rate)), "{seen:?}");
    // After it, for another flow; then there is no more than a megabit left.
    let mut late = running.client();
    let given = late.promise(&minimum(5_001, 3_000)).unwrap();
    assert_eq!((given.state.flows, given.state.waiting), (1, 0));
    let refused = refusal(late.promise(&minimum(5_002, 2_000)).unwrap_err());
    assert_eq!(refused.code, Code::NoRoom);
    assert!(refused.message.contains("1mbit"), "{refused}");
    let seen = rates(&sink, 4);
    assert!(seen[0] > 3_600 && seen[1] > 2_700, "{seen:?}");
    assert!(seen[2] + seen[3] < 1_300, "{seen:?}");
    // One that waits gets its minimum as soon as somebody leaves; leaving is closing the connection.
    let mut patient = running.client();
    let given = patient.promise(&PromiseCall { wait: true, ..minimum(5_002, 3_000) }).unwrap();
    assert_eq!((given.state.waiting, given.state.free), (1, Rate::from_mbit(1)));
    drop(late);
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match patient.next_push(Some(Duration::from_millis(100))).unwrap() {
            Some((_, Pushed::Event(event))) if event.kind == EventKind::Promised => {
                assert_eq!((event.promise, event.minimum), (Some(given.promise), Some(Rate::from_mbit(3))));
                break;
            }
            _ => assert!(Instant::now() < deadline, "it is never told"),
        }
    }
    let seen = rates(&sink, 4);
    assert!(seen[0] > 3_600 && seen[2] > 2_700 && seen[1] + seen[3] < 1_300, "{seen:?}");
    assert_eq!(running.client().promises().unwrap().len(), 2);
    senders.stop();
    sink.stop();
    Ended::Passed
}

fn preference_displacement_and_leases() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let flows: Vec<FlowSpec> = (0..4).map(|n| udp(5_000 + n, 8)).collect();
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    let mut client = running.client();
    // A step is a tenth of the class at the cost of the others: they must be there.
    thread::sleep(Duration::from_millis(500));
    // Two steps of 10% of 8 Mbit/s: 2 + 1.6 = 3.6, and 1.47 for each of the others.
    let call = PromiseCall { prefer: 2, target: target(5_000), ..PromiseCall::default() };
    let given = client.promise(&call).unwrap();
    thread::sleep(Duration::from_millis(300));
    let seen = rates(&sink, 4);
    assert!((3_200..3_800).contains(&seen[0]), "{seen:?}");
    assert!(seen[1..].iter().all(|rate| (1_200..1_700).contains(rate)), "{seen:?}");
    client.release(given.promise).unwrap();
    let seen = rates(&sink, 4);
    assert!(seen.iter().all(|rate| (1_700..2_200).contains(rate)), "{seen:?}");
    // With 2 Mbit/s it is granted less than 3, and `rest` is empty.
    let displace = Some(Displacement { below: Rate::from_mbit(3), to: "rest".into() });
    let call = PromiseCall {
        displace,
        target: target(5_001),
        lease: Some(Span::from_millis(2_500)),
        detached: true,
        ..PromiseCall::default()
    };
    let given = client.promise(&call).unwrap();
    let mut moved = false;
    while let Some((_, pushed)) = client.next_push(Some(Duration::from_millis(500))).unwrap() {
        if let Pushed::Event(event) = pushed
            && event.kind == EventKind::Moved
        {
            assert_eq!((event.from_class.as_deref(), event.class.as_deref()), (Some("media"), Some("rest")));
            moved = true;
            break;
        }
    }
    assert!(moved, "it is told of the displacement");
    drop(client);
    let seen = rates(&sink, 4);
    assert!(seen[1] > 3_500 && seen[0] > 2_300, "alone in rest with 4: {seen:?}");
    // It outlives its connection, and ends with its lease.
    let state = &running.client().promises().unwrap()[0];
    assert_eq!((state.promise, state.detached), (given.promise, true));
    thread::sleep(Duration::from_millis(1_200));
    assert!(running.client().promises().unwrap().is_empty());
    senders.stop();
    sink.stop();
    Ended::Passed
}

/// A child process that waits for a line, then sends to a port for as long as it lives.
const CHILD: &str = "read go; while :; do printf '%01200d' 0 >/dev/udp/10.77.0.2/5003 || true; done";

fn a_process_tree_has_its_promise_before_it_sends() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let mut command = pair.sender.namespace.command("bash").unwrap();
    // The one that sends is a child of the one that is named.
    command.args(["-c", &format!("bash -c \"{CHILD}\""), "outer"]);
    let Ok(mut outer) = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        return Ended::Skipped("there is no bash".into());
    };
    let call = PromiseCall {
        minimum: Some(Rate::from_mbit(4)),
        flows: 1,
        class: Some("media".into()),
        target: Target { pid: Some(outer.id()), ..Target::default() },
        ..PromiseCall::default()
    };
    let mut client = running.client();
    let given = client.promise(&call).unwrap();
    assert_eq!((given.state.flows, given.state.held), (0, 1));
    // The shell opens a socket for each datagram: the flows come and go, and are found again and again.
    outer.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut found = false;
    while !found && Instant::now() < deadline {
        if let Some((_, Pushed::Event(event))) = client.next_push(Some(Duration::from_millis(200))).unwrap() {
            found = event.kind == EventKind::Promised && event.minimum == Some(Rate::from_mbit(4));
        }
    }
    outer.kill().unwrap();
    outer.wait().unwrap();
    // The inner shell ends with its pipe or is killed with the namespace.
    assert!(found, "a flow of the tree is promised its minimum");
    let missing = PromiseCall { target: Target { pid: Some(4_000_000), ..Target::default() }, ..call };
    assert_eq!(refusal(client.promise(&missing).unwrap_err()).code, Code::NotFound);
    Ended::Passed
}

fn who_is_not_root_may_look_and_steer_his_own_within_bounds() -> Ended {
    if !is_root_of_the_machine() {
        return Ended::Skipped("only root of the machine can be two users".into());
    }
    let pair = Pair::create().unwrap();
    let path = std::env::temp_dir().join(format!("tidegate-{}-0.sock", std::process::id()));
    let (mut go, mut waits) = UnixStream::pair().unwrap();
    // While this process has one thread.
    let child = support::Child::fork(|| {
        let mut byte = [0];
        waits.read_exact(&mut byte).unwrap();
        // SAFETY: changes this process to a user without privileges.
        assert_eq!(unsafe { libc::setresuid(OTHER, OTHER, OTHER) }, 0);
        as_another(&path);
        0
    });
    let running = Running::start(&pair, SHAPER);
    assert_eq!(running.path, path);
    let of_root = running.client();
    go.write_all(b"!").unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let code = loop {
        if let Some(ended) = child.try_wait() {
            break ended;
        }
        assert!(Instant::now() < deadline, "the other user does not come to an end");
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(code, Ok(0), "what the other user found");
    drop(of_root);
    Ended::Passed
}

fn as_another(path: &Path) {
    let mut client = Client::connect(path).unwrap();
    assert!(client.status().unwrap().in_force, "everybody may look");
    let not_allowed = |outcome: Result<_, ClientError>| {
        let refused = refusal(outcome.map(|_: tidegate_control::calls::Promised| ()).unwrap_err());
        assert_eq!(refused.code, Code::NotAllowed, "{refused}");
    };
    not_allowed(client.promise(&minimum(5_000, 1_001)));
    let more = PromiseCall { prefer: 2, ..minimum(5_000, 100) };
    not_allowed(client.promise(&more));
    let displace = Some(Displacement { below: Rate::from_mbit(3), to: "rest".into() });
    not_allowed(client.promise(&PromiseCall { displace, ..minimum(5_000, 100) }));
    let root = Target { uid: Some(0), ..target(5_000) };
    not_allowed(client.promise(&PromiseCall { target: root, ..minimum(5_000, 100) }));
    not_allowed(
        client.promise(&PromiseCall { target: Target { pid: Some(1), ..Target::default() }, ..minimum(5_000, 100) }),
    );
    // Within them it is given, and what is given counts.
    let given = client.promise(&PromiseCall { prefer: 1, ..minimum(5_000, 800) }).unwrap();
    assert_eq!(given.state.uid, 12_345);
    not_allowed(client.promise(&minimum(5_001, 300)));
    client.promise(&minimum(5_001, 200)).unwrap();
    client.release(given.promise).unwrap();
}

/// Payload in kbit/s that senders hand in and that arrives, within a second and a half, for each flow.
fn carried(senders: &Senders, sink: &Sink, flows: usize) -> Vec<(u64, u64)> {
    let sent = |n: usize| senders.sent(n).bytes.load(Ordering::Relaxed);
    let before: Vec<_> = (0..flows).map(|n| (sent(n), sink.bytes(n))).collect();
    let began = Instant::now();
    thread::sleep(Duration::from_millis(1_500));
    let nanos = began.elapsed().as_nanos() as u64;
    let rate = |bytes: u64| bytes * 8 * 1_000_000 / nanos;
    let sent: Vec<u64> = (0..flows).map(sent).collect();
    (0..flows).map(|n| (rate(sent[n] - before[n].0), rate(sink.bytes(n) - before[n].1))).collect()
}

fn hostile_clients_change_nothing_for_the_data_path() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let flows = [udp(5_000, 2), udp(5_001, 4), udp(80, 3)];
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    thread::sleep(Duration::from_millis(500));
    sink.restart();
    // It forgets when it next receives.
    thread::sleep(Duration::from_millis(200));
    let quiet = carried(&senders, &sink, 3);
    let lateness = |sink: &Sink| sink.report(0).delays.value_at_quantile(0.99);
    let quiet_delay = lateness(&sink);
    // A thousand clients that are there, of whom a hundred ask all the time; some send garbage, some send without an
    // end of line, some never read what they subscribed to.
    let stop = Arc::new(AtomicBool::new(false));
    let mut idle = Vec::new();
    for n in 0..1_000 {
        let stream = UnixStream::connect(&running.path).unwrap_or_else(|error| panic!("client {n}: {error}"));
        if n % 10 == 0 {
            // Subscribed, and never read.
            (&stream).write_all(b"{\"id\":1,\"version\":1,\"call\":\"events\"}\n").unwrap();
        }
        idle.push(stream);
    }
    let asking: Vec<_> = (0..4)
        .map(|kind| {
            let (path, stop) = (running.path.clone(), Arc::clone(&stop));
            thread::spawn(move || bother(kind, &path, &stop))
        })
        .collect();
    thread::sleep(Duration::from_millis(300));
    sink.restart();
    thread::sleep(Duration::from_millis(200));
    let loud = carried(&senders, &sink, 3);
    let loud_delay = lateness(&sink);
    let began = Instant::now();
    let status = running.client().status().unwrap();
    let answer = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    asking.into_iter().for_each(|thread| thread.join().unwrap());
    println!(
        "kbit/s {quiet:?} -> {loud:?}; delay p99 {} -> {} us; answer in {answer:?}; {:?}",
        quiet_delay / 1_000,
        loud_delay / 1_000,
        status.control
    );
    assert!(status.control.clients >= 1_000, "{:?}", status.control);
    assert!(status.control.refused > 100, "{:?}", status.control);
    assert!(answer < Duration::from_secs(2), "others still get answers");
    // Senders share the processors with those who bother, so that they may send less; what they send arrives.
    for ((_, quiet), (sent, arrived)) in quiet.iter().zip(&loud) {
        assert!(
            arrived * 100 > sent * 97 && arrived * 100 > quiet * 70,
            "{sent} sent, {arrived} arrived, {quiet} before"
        );
    }
    // The senders and the sink are on the same two processors as the clients: what is told apart is a data path that
    // waits for somebody, which would wait for a full buffer, not for milliseconds.
    assert!(loud_delay < quiet_delay + 20_000_000, "{quiet_delay} -> {loud_delay} ns");
    drop(idle);
    senders.stop();
    sink.stop();
    Ended::Passed
}

/// Asks, sends garbage, sends lines without an end, or connects and goes, until told to stop.
fn bother(kind: u32, path: &Path, stop: &AtomicBool) {
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut stream) = UnixStream::connect(path) else { continue };
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
        for _ in 0..50 {
            let text: Vec<u8> = match kind {
                0 => b"{\"id\":1,\"version\":1,\"call\":\"status\"}\n".to_vec(),
                1 => (0..200)
                    .map(|_| {
                        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (noise >> 56) as u8
                    })
                    .chain([b'\n'])
                    .collect(),
                2 => vec![b'['; 40_000],
                _ => b"{\"id\":2,\"version\":1,\"call\":\"promise\",\"with\":{\"target\":{\"port\":9},\"prefer\":1}}\n"
                    .to_vec(),
            };
            if stream.write_all(&text).is_err() || stop.load(Ordering::Relaxed) {
                break;
            }
            if kind != 1 {
                let _ = stream.read(&mut [0; 4_096]);
            }
        }
    }
}

fn a_slow_reader_is_told_what_it_lost() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let mut slow = running.client();
    let id = {
        let events = slow.events(&Events { kinds: vec![EventKind::FlowStarted], ..Events::default() }).unwrap();
        events.id()
    };
    // Each socket is a flow, and each flow an event of some 300 bytes: more than all buffers on the way hold.
    pair.sender
        .namespace
        .run(|| {
            for n in 0..6_000_u16 {
                let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
                socket.send_to(&[0; 32], ("10.77.0.2", 10_000 + n)).unwrap();
                if n % 16 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        })
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let (mut read, mut lost) = (0, 0);
    while read + lost < 6_000 {
        match slow.next_push(Some(Duration::from_millis(500))).unwrap() {
            Some((of, Pushed::Event(_))) if of == id => read += 1,
            Some((of, Pushed::Lost(n))) if of == id => lost += n,
            _ => assert!(Instant::now() < deadline, "{read} and {lost} are not all"),
        }
    }
    assert!(read > 500 && lost > 500, "{read} read, {lost} lost");
    assert_eq!(running.client().status().unwrap().control.lost, lost);
    Ended::Passed
}

fn feedback_comes_within_milliseconds() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let flows = [udp(5_000, 6), udp(5_001, 8)];
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows[..1]).unwrap();
    thread::sleep(Duration::from_millis(200));
    let mut client = running.client();
    let which = Feedback { target: target(5_000), ..Feedback::default() };
    let (flows_now, events) = client.feedback(&which).unwrap();
    assert_eq!(flows_now.len(), 1);
    assert_eq!(flows_now[0].granted, Rate::from_mbit(8), "alone in its class");
    let second = Senders::start(&pair.sender, &pair.receiver, &flows[1..]).unwrap();
    let mut kinds = std::collections::BTreeMap::new();
    let mut latencies = Vec::new();
    let mut granted = Vec::new();
    let began = Instant::now();
    for pushed in events {
        let Ok(Pushed::Event(event)) = pushed else { panic!("{pushed:?}") };
        let now = tidegate_live::timing::now().as_nanos();
        latencies.push(now.saturating_sub(event.time.as_nanos()));
        *kinds.entry(event.kind.name()).or_insert(0) += 1;
        if event.kind == EventKind::Rate {
            granted.extend(event.granted);
        }
        let all = ["rate", "queue-above", "dropped", "delay-above"].iter().all(|kind| kinds.contains_key(kind));
        if (all && latencies.len() > 50) || began.elapsed() > Duration::from_secs(8) {
            break;
        }
    }
    second.stop();
    latencies.sort_unstable();
    let at = |part: usize| latencies[(latencies.len() - 1) * part / 100] / 1_000;
    println!("{kinds:?}; pushed after p50 {} us, p90 {} us, p99 {} us", at(50), at(90), at(99));
    for kind in ["rate", "queue-above", "dropped", "delay-above"] {
        assert!(kinds.contains_key(kind), "no {kind} in {kinds:?}");
    }
    assert!(granted.contains(&Rate::from_mbit(4)), "half of the class with two: {granted:?}");
    assert!(at(50) < 5_000, "half of them within 5 ms even on a loaded machine");
    senders.stop();
    sink.stop();
    Ended::Passed
}

fn what_happens_right_after_a_subscription_is_told() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, LASTING);
    // So many busy threads that whoever tells may be interrupted at any place.
    let busy = Arc::new(AtomicBool::new(true));
    let spinning = || {
        let busy = Arc::clone(&busy);
        thread::spawn(move || while busy.load(Ordering::Relaxed) {})
    };
    let spinning: Vec<_> = (0..4).map(|_| spinning()).collect();
    let mut client = running.client();
    let mut missed = Vec::new();
    for port in 9_000..9_100 {
        let owner = pair.sender.namespace.run(move || UdpSocket::bind(("10.77.0.1", port)).unwrap()).unwrap();
        let target = Target { source_port: Some(port), ..Target::default() };
        let subscription = client.feedback(&Feedback { target, ..Feedback::default() }).unwrap().1.id();
        owner.send_to(&[0; 100], "10.77.0.2:9").unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            match client.next_push(Some(Duration::from_millis(100))).unwrap() {
                Some((of, Pushed::Event(event))) if of == subscription && event.kind == EventKind::Rate => break,
                _ if Instant::now() > deadline => {
                    missed.push(port);
                    break;
                }
                _ => {}
            }
        }
        client.unsubscribe(subscription).unwrap();
        if missed.len() > 2 {
            break;
        }
    }
    busy.store(false, Ordering::Relaxed);
    spinning.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(missed.is_empty(), "no news of the flows from {missed:?}");
    Ended::Passed
}

fn promises_and_subscriptions_of_a_connection_have_limits_of_their_own() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let mut client = running.client();
    let preference = |port| PromiseCall { prefer: 1, target: target(port), ..PromiseCall::default() };
    let promises: Vec<u64> = (0..256).map(|n| client.promise(&preference(5_000 + n)).unwrap().promise).collect();
    let refused = refusal(client.promise(&preference(5_900)).unwrap_err());
    assert_eq!(refused.code, Code::TooMany);
    assert!(refused.message.contains("256 promises") && refused.help.is_some(), "{refused}");
    // However many promises it holds, it may look and be told.
    let events: Vec<u64> = (0..15).map(|_| client.events(&Events::default()).unwrap().id()).collect();
    let which = Feedback { target: target(5_000), ..Feedback::default() };
    client.feedback(&which).unwrap();
    for refused in [client.events(&Events::default()).map(drop), client.feedback(&which).map(drop)] {
        let refused = refusal(refused.unwrap_err());
        assert_eq!(refused.code, Code::TooMany);
        assert!(refused.message.contains("16 subscriptions") && refused.help.is_some(), "{refused}");
    }
    // What is given up makes room for one of its kind, and another connection has its own.
    client.release(promises[7]).unwrap();
    assert_eq!(refusal(client.events(&Events::default()).map(drop).unwrap_err()).code, Code::TooMany);
    let given = client.promise(&preference(5_900)).unwrap();
    client.unsubscribe(events[3]).unwrap();
    client.events(&Events::default()).unwrap();
    let mut other = running.client();
    other.promise(&preference(5_901)).unwrap();
    // Who does not want to hear of a promise need not.
    client.unsubscribe(given.subscription).unwrap();
    assert_eq!(running.client().promises().unwrap().len(), 257);
    drop((client, other));
    let deadline = Instant::now() + Duration::from_secs(10);
    while !running.client().promises().unwrap().is_empty() {
        assert!(Instant::now() < deadline, "they end with their connections");
        thread::sleep(Duration::from_millis(20));
    }
    Ended::Passed
}

/// Waits until the log says `text`.
fn logs(client: &mut Client, text: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some((_, Pushed::Event(event))) = client.next_push(Some(Duration::from_millis(100))).unwrap()
            && event.text.is_some_and(|said| said.contains(text))
        {
            return;
        }
    }
    panic!("nobody says {text:?}");
}

/// A data path that panics three seconds after each start, as soon as packets wait.
fn mortal() -> Options {
    Options { inject: Some(Injection::parse("panic:3s").unwrap()), ..Options::default() }
}

fn promises_outlive_the_data_path_and_the_tree() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start_with(&pair, SHAPER, mortal());
    let flows: Vec<FlowSpec> = (0..4).map(|n| udp(5_000 + n, 8)).collect();
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let mut owner = running.client();
    let given = owner.promise(&PromiseCall { prefer: 1, ..minimum(5_000, 4_000) }).unwrap();
    let mut listener = running.client();
    let _ = listener.events(&Events { kinds: vec![EventKind::Log], ..Events::default() }).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    let in_force_for_its_flow = |what: &str| {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            // While the data path is begun anew there is no answer.
            let states = running.client().promises().unwrap_or_default();
            if let [state] = &states[..]
                && (state.flows, state.waiting) == (1, 0)
            {
                assert_eq!((state.promise, state.minimum, state.prefer), (given.promise, Rate::from_mbit(4), 1));
                assert!(state.granted >= Rate::from_mbit(4), "{state:?}");
                return;
            }
            assert!(Instant::now() < deadline, "not in force {what}: {states:?}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    in_force_for_its_flow("at first");
    logs(&mut listener, "is in force again, after: the discipline panicked");
    in_force_for_its_flow("after the data path was begun anew");
    // Before the others find out that it shapes no longer, and after: at least what was promised.
    let seen = rates(&sink, 4);
    assert!(seen[0] > 3_400, "{seen:?}");
    // Its owner is told by the subscription that he has had all the time.
    let mut told = false;
    while let Some((of, pushed)) = owner.next_push(Some(Duration::from_millis(50))).unwrap() {
        let Pushed::Event(event) = pushed else { continue };
        told |= of == given.subscription && event.kind == EventKind::Promised;
    }
    assert!(told, "it is told");
    // Another tree, with a class more: it is met anew there.
    let more = "[[class]]\nname = \"new\"\nrate = \"1mbit\"\nborrow = false\n[[rule]]\n";
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let text = Some(SHAPER.replacen("[[rule]]\n", more, 1));
        match running.client().call(&Apply { text, ..Apply::default() }) {
            Ok(applied) => {
                assert!(!applied.in_place, "{applied:?}");
                break;
            }
            // Nothing is changed while nothing is in force.
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        thread::sleep(Duration::from_millis(50));
    }
    in_force_for_its_flow("in another tree");
    senders.stop();
    sink.stop();
    Ended::Passed
}

/// 8 Mbit/s, 3 of them for reservations.
const CBQ: &str = "version = 1\n[discipline]\nkind = \"cbq\"\nlink = \"8mbit\"\n\
    class = [{ name = \"rest\", rate = \"5mbit\" }, { name = \"reserved\", rate = \"3mbit\" }]\n\
    reservations = { class = \"reserved\", flows = 4, max-rate = \"2.5mbit\" }\n";

fn reservations_outlive_the_data_path() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start_with(&pair, CBQ, mortal());
    let mut holder = running.client();
    let ask = |port: u16, lasts| Reserve {
        direction: None,
        name: Some(format!("to {port}")),
        matches: vec![("destination-port".into(), port.to_string())],
        rate: Rate::from_kbit(700),
        bucket: None,
        peak: None,
        min_unit: None,
        max_packet: None,
        guaranteed: false,
        delay: None,
        lasts,
    };
    let kept = holder.call(&ask(5_000, None)).unwrap();
    let lasting = running.client().call(&ask(5_001, Some(Span::from_secs(120)))).unwrap();
    let mut listener = running.client();
    let _ = listener.events(&Events { kinds: vec![EventKind::Log], ..Events::default() }).unwrap();
    let flows = [udp(6_000, 12)];
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    logs(&mut listener, "is in force again, after: the discipline panicked");
    // Not to be interrupted again while it is looked at.
    senders.stop();
    sink.stop();
    let mut list = || {
        let listed = holder.call(&ReservationsQuery {}).unwrap().reservations;
        let mut listed: Vec<(u64, String)> = listed.into_iter().map(|one| (one.reservation, one.name)).collect();
        listed.sort();
        listed
    };
    let both = [(kept.reservation, "to 5000".to_owned()), (lasting.reservation, "to 5001".to_owned())];
    assert_eq!(list(), both);
    // It holds the rate, and its holder keeps it and gives it back by the number that it knows.
    holder.call(&Refresh { reservation: kept.reservation }).unwrap();
    let more = Reserve { rate: Rate::from_mbit(2), ..ask(5_002, None) };
    assert_eq!(refusal(holder.call(&more).unwrap_err()).code, Code::NoRoom);
    holder.call(&Unreserve { reservation: lasting.reservation }).unwrap();
    holder.call(&more).unwrap();
    drop(holder);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !running.client().call(&ReservationsQuery {}).unwrap().reservations.is_empty() {
        assert!(Instant::now() < deadline, "they end with their connection");
        thread::sleep(Duration::from_millis(20));
    }
    Ended::Passed
}

const OTHER: u32 = 12_345;

fn is_root_of_the_machine() -> bool {
    // SAFETY: cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    root && std::fs::read_to_string("/proc/self/uid_map").unwrap().contains("4294967295")
}

fn a_user_has_his_promise_and_nobody_else() -> Ended {
    if !is_root_of_the_machine() {
        return Ended::Skipped("only root of the machine can be two users".into());
    }
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let call = PromiseCall {
        minimum: Some(Rate::from_mbit(3)),
        class: Some("media".into()),
        target: Target { uid: Some(OTHER), ..Target::default() },
        ..PromiseCall::default()
    };
    let mut client = running.client();
    let given = client.promise(&call).unwrap();
    assert_eq!((given.state.flows, given.state.held), (0, 1));
    let socket = |uid: u32| {
        let bind = move || {
            // SAFETY: changes by whom the files of this thread, which ends soon, are made.
            unsafe { libc::setfsuid(uid) };
            UdpSocket::bind("10.77.0.1:0").unwrap()
        };
        pair.sender.namespace.run(bind).unwrap()
    };
    let (own, of_root) = (socket(OTHER), socket(0));
    of_root.send_to(&[0; 100], "10.77.0.2:5000").unwrap();
    own.send_to(&[0; 100], "10.77.0.2:5000").unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let flow = loop {
        assert!(Instant::now() < deadline, "he is never promised anything");
        match client.next_push(Some(Duration::from_millis(100))).unwrap() {
            Some((_, Pushed::Event(event))) if event.kind == EventKind::Promised => {
                break event.flow.expect("of a flow");
            }
            _ => {}
        }
    };
    assert_eq!((flow.uid, flow.source_port), (Some(OTHER), Some(own.local_addr().unwrap().port())));
    assert_eq!(running.client().promises().unwrap()[0].flows, 1, "that of root is not his");
    Ended::Passed
}

/// A control group that goes with this.
struct Group {
    path: PathBuf,
    below_root: String,
}

impl Group {
    fn create() -> Result<Self, String> {
        let root = Path::new("/sys/fs/cgroup");
        // On some machines the unified hierarchy is beside the older ones.
        let below = if root.join("cgroup.procs").exists() { "" } else { "unified/" };
        let below_root = format!("{below}tidegate-test-{}", std::process::id());
        let path = root.join(&below_root);
        std::fs::create_dir(&path).map_err(|error| format!("no control group can be made here: {error}"))?;
        let group = Self { path, below_root };
        match group.path.join("cgroup.procs").exists() {
            true => Ok(group),
            false => Err("there are no control groups of the second version".into()),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while std::fs::remove_dir(&self.path).is_err() && self.path.exists() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn a_control_group_has_its_promise() -> Ended {
    let group = match Group::create() {
        Ok(group) => group,
        Err(reason) => return Ended::Skipped(reason),
    };
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let mut command = pair.sender.namespace.command("bash").unwrap();
    command.args(["-c", CHILD]);
    let Ok(mut child) = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        return Ended::Skipped("there is no bash".into());
    };
    if let Err(error) = std::fs::write(group.path.join("cgroup.procs"), child.id().to_string()) {
        child.kill().unwrap();
        child.wait().unwrap();
        return Ended::Skipped(format!("a process cannot be put into a control group here: {error}"));
    }
    let call = PromiseCall {
        minimum: Some(Rate::from_mbit(4)),
        class: Some("media".into()),
        target: Target { cgroup: Some(group.below_root.clone()), ..Target::default() },
        ..PromiseCall::default()
    };
    let mut client = running.client();
    let given = client.promise(&call);
    let mut found = false;
    if given.is_ok() {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while !found && Instant::now() < deadline {
            if let Some((_, Pushed::Event(event))) = client.next_push(Some(Duration::from_millis(200))).unwrap() {
                found = event.kind == EventKind::Promised && event.minimum == Some(Rate::from_mbit(4));
            }
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(given.unwrap().state.held, 1);
    assert!(found, "a flow of the group is promised its minimum");
    let missing = Target { cgroup: Some("tidegate-test/not-there".into()), ..Target::default() };
    let refused = refusal(client.promise(&PromiseCall { target: missing, ..call }).unwrap_err());
    assert!(refused.code == Code::NotFound && refused.help.is_some(), "{refused}");
    Ended::Passed
}

fn one_user_cannot_take_all_connections() -> Ended {
    if !is_root_of_the_machine() {
        return Ended::Skipped("only root of the machine can be two users".into());
    }
    let pair = Pair::create().unwrap();
    let path = std::env::temp_dir().join(format!("tidegate-{}-0.sock", std::process::id()));
    let (mut go, mut waits) = UnixStream::pair().unwrap();
    let of_other = path.clone();
    // While this process has one thread.
    let child = support::Child::fork(move || {
        let mut byte = [0];
        waits.read_exact(&mut byte).unwrap();
        // SAFETY: changes this process to a user without privileges.
        assert_eq!(unsafe { libc::setresuid(OTHER, OTHER, OTHER) }, 0);
        let connect = || {
            let mut client = Client::connect(&of_other)?;
            client.status().map(|_| client)
        };
        let mut clients: Vec<Client> = (0..256).map(|_| connect().unwrap()).collect();
        let refused = refusal(connect().unwrap_err());
        assert_eq!(refused.code, Code::TooMany);
        assert!(refused.message.contains("256 connections of this user") && refused.help.is_some(), "{refused}");
        // Root is not kept out, and says so.
        waits.write_all(b"?").unwrap();
        waits.read_exact(&mut byte).unwrap();
        // One that goes makes room for another.
        clients.pop();
        let deadline = Instant::now() + Duration::from_secs(10);
        while connect().is_err() {
            assert!(Instant::now() < deadline, "there is never room again");
            thread::sleep(Duration::from_millis(20));
        }
        0
    });
    let running = Running::start(&pair, SHAPER);
    assert_eq!(running.path, path);
    go.write_all(b"!").unwrap();
    let mut byte = [0];
    go.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    go.read_exact(&mut byte).expect("the other user has all that he may have");
    assert!(running.client().status().unwrap().control.clients >= 256);
    go.write_all(b"!").unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let code = loop {
        if let Some(ended) = child.try_wait() {
            break ended;
        }
        assert!(Instant::now() < deadline, "the other user does not come to an end");
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(code, Ok(0), "what the other user found");
    Ended::Passed
}

/// What a GET of the metrics at `port` answers, from inside; `None` when nobody listens there.
fn metrics_at(pair: &Pair, port: u16) -> Option<String> {
    let fetch = move || {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        Some(answer)
    };
    pair.sender.namespace.run(fetch).unwrap()
}

fn metrics_are_served_where_the_file_says() -> Ended {
    let pair = Pair::create().unwrap();
    let with = |section: &str| format!("{SHAPER}{section}");
    let running = Running::start(&pair, &with("[metrics]\nlisten = \"127.0.0.1:9435\"\n"));
    let answer = metrics_at(&pair, 9_435).expect("somebody listens");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("tidegate_"), "{answer}");
    let apply = |section: &str| {
        let call = Apply { text: Some(with(section)), ..Apply::default() };
        running.client().call(&call)
    };
    // Another file, another place; and a file that is refused changes nothing.
    let applied = apply("[metrics]\nlisten = \"127.0.0.1:9436\"\n").unwrap();
    assert!(applied.differences.iter().any(|difference| difference.text.contains("9436")), "{applied:?}");
    assert!(metrics_at(&pair, 9_435).is_none() && metrics_at(&pair, 9_436).is_some());
    let refused = refusal(apply("[metrics]\nlisten = \"0.0.0.0:9436\"\n").unwrap_err());
    assert!(refused.message.contains(":20:10") && refused.message.contains("anywhere = true"), "{refused}");
    assert!(metrics_at(&pair, 9_436).is_some());
    apply("").unwrap();
    assert!(metrics_at(&pair, 9_436).is_none());
    Ended::Passed
}

/// Flows are remembered for so long that none leaves during the test, and what else the namespace says is in `rest`.
const LASTING: &str = "version = 1\n[shaper]\nidle-timeout = \"600s\"\n\
    [[class]]\nname = \"ours\"\nrate = \"60mbit\"\nborrow = false\n\
    [[class]]\nname = \"rest\"\nrate = \"1mbit\"\ndefault = true\n\
    [[rule]]\nclass = \"ours\"\ndestination-port = 9\n";

fn the_owner_is_told_of_each_flow_that_joins() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, LASTING);
    let from = |port: u16| pair.sender.namespace.run(move || UdpSocket::bind(("10.77.0.1", port)).unwrap()).unwrap();
    let owner = from(9_000);
    let mut client = running.client();
    let target = Target { source_port: Some(9_000), ..Target::default() };
    let (_, events) = client.feedback(&Feedback { target, ..Feedback::default() }).unwrap();
    let subscription = events.id();
    let next = |client: &mut Client, n: u64| {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            match client.next_push(Some(Duration::from_millis(100))).unwrap() {
                Some((of, Pushed::Event(event))) if event.kind == EventKind::Rate => {
                    assert_eq!((of, event.granted), (subscription, Some(Rate::from_bps(60_000_000 / n))), "flow {n}");
                    return;
                }
                _ => {}
            }
        }
        panic!("the owner was never told of flow {n}");
    };
    owner.send_to(&[0; 100], "10.77.0.2:9").unwrap();
    next(&mut client, 1);
    // Each takes more than a 64th of what the owner had: news at once, and none is left out or told twice.
    for n in 2..=50 {
        from(9_000 + n).send_to(&[0; 100], "10.77.0.2:9").unwrap();
        next(&mut client, n.into());
    }
    Ended::Passed
}

fn the_socket_of_the_dead_is_replaced_and_of_the_living_is_not() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let living = Listening::at(&running.path, 0o600).unwrap_err().to_string();
    assert!(living.contains("another tidegate is running"), "{living}");
    let stale = std::env::temp_dir().join(format!("tidegate-stale-{}.sock", std::process::id()));
    // Whoever made it is gone, its socket is not.
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let again = Listening::at(&stale, 0o600).unwrap();
    drop(again);
    assert!(!stale.exists());
    std::fs::write(&stale, "a file").unwrap();
    let file = Listening::at(&stale, 0o600).unwrap_err().to_string();
    assert!(file.contains("is not a socket"), "{file}");
    std::fs::remove_file(&stale).unwrap();
    Ended::Passed
}

fn a_hook_is_run_with_the_facts() -> Ended {
    let pair = Pair::create().unwrap();
    let base = std::env::temp_dir().join(format!("tidegate-hook-{}", std::process::id()));
    let (program, told) = (base.with_extension("sh"), base.with_extension("told"));
    let script = format!(
        "#!/bin/sh\necho $TIDEGATE_EVENT $TIDEGATE_CLASS $TIDEGATE_FLOW_DESTINATION_PORT $TIDEGATE_INTERFACE >> {}\n",
        told.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let hook = format!("[control.hook]\nprogram = \"{}\"\nevents = [\"flow-started\"]\nrate = 2\n", program.display());
    let running = Running::start(&pair, &format!("{SHAPER}{hook}"));
    pair.sender
        .namespace
        .run(|| {
            let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
            // Many at once; no more than two a second are told.
            for n in 0..50_u16 {
                socket.send_to(&[0; 32], ("10.77.0.2", 5_000 + n)).unwrap();
            }
        })
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    let text = loop {
        let text = std::fs::read_to_string(&told).unwrap_or_default();
        if text.lines().count() >= 1 {
            break text;
        }
        assert!(Instant::now() < deadline, "the hook never ran");
        thread::sleep(Duration::from_millis(20));
    };
    assert!(text.starts_with("flow-started media 50") && text.contains(" tg0"), "{text}");
    assert!(text.lines().count() <= 3, "{text}");
    drop(running);
    let _ = (std::fs::remove_file(&program), std::fs::remove_file(&told));
    Ended::Passed
}

#[allow(dead_code)] // An example with a main of its own.
#[path = "../../control/examples/video.rs"]
mod video;

/// Frames that were not whole 200 ms after they were sent: what a viewer sees as a stall.
fn stalls(pair: &Pair, running: &Running, mode: video::Mode) -> (u64, u64) {
    let receiver = pair.receiver.namespace.run(|| UdpSocket::bind("10.77.0.2:5000").unwrap()).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    let greedy: Vec<FlowSpec> = (1..4).map(|n| udp(5_000 + n, 8)).collect();
    let sink = Sink::start(&pair.receiver, &greedy).unwrap();
    let (path, namespace) = (running.path.clone(), pair.sender.namespace.try_clone().unwrap());
    let sender = thread::spawn(move || {
        namespace.enter_thread().unwrap();
        video::send("10.77.0.2:5000".parse().unwrap(), mode, &path, Duration::from_secs(5)).unwrap()
    });
    let watching = thread::spawn(move || {
        let mut frames = std::collections::BTreeMap::new();
        let mut buffer = [0; 2_000];
        while let Ok(n) = receiver.recv(&mut buffer) {
            let header = video::Header::read(&buffer[..n]).expect("a packet of the video");
            let late = tidegate_live::timing::now().as_nanos().saturating_sub(header.sent) > 200_000_000;
            let frame = frames.entry(header.frame).or_insert((header.packets, 0));
            frame.1 += u32::from(!late);
        }
        frames
    });
    // Alone for two seconds, then with three that take all they get.
    thread::sleep(Duration::from_secs(2));
    let senders = Senders::start(&pair.sender, &pair.receiver, &greedy).unwrap();
    let frames = sender.join().unwrap();
    let arrived = watching.join().unwrap();
    senders.stop();
    sink.stop();
    let whole = arrived.values().filter(|(packets, in_time)| packets == in_time).count() as u64;
    (frames - whole, frames)
}

fn video_that_heeds_its_grants_does_not_stall_where_blind_video_does() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let (blind, of_blind) = stalls(&pair, &running, video::Mode::Blind);
    // Flows are forgotten after a second.
    thread::sleep(Duration::from_millis(1_500));
    let (heeding, of_heeding) = stalls(&pair, &running, video::Mode::Heeding);
    println!("stalled: blind {blind} of {of_blind} frames, heeding {heeding} of {of_heeding}");
    // Three of five seconds at half of what it sends: most of these 75 frames are spoilt.
    assert!(blind > 40, "{blind} of {of_blind}");
    // On a machine with two busy processors the sender itself may be late for a frame.
    assert!(heeding <= 2, "{heeding} of {of_heeding}");
    Ended::Passed
}

macro_rules! tests {
    ($($test:ident),* ; once: $($once:ident),*) => {
        support::main_with(&[$((stringify!($test), $test)),*], &[$(stringify!($once)),*])
    };
}

fn main() {
    tests!(
        who_is_not_root_may_look_and_steer_his_own_within_bounds,
        status_counts_and_events_tell,
        a_promise_holds_before_and_after_the_first_packet_and_ends_with_its_connection,
        preference_displacement_and_leases,
        a_process_tree_has_its_promise_before_it_sends,
        hostile_clients_change_nothing_for_the_data_path,
        a_slow_reader_is_told_what_it_lost,
        feedback_comes_within_milliseconds,
        what_happens_right_after_a_subscription_is_told,
        promises_and_subscriptions_of_a_connection_have_limits_of_their_own,
        the_owner_is_told_of_each_flow_that_joins,
        metrics_are_served_where_the_file_says,
        promises_outlive_the_data_path_and_the_tree,
        reservations_outlive_the_data_path,
        a_user_has_his_promise_and_nobody_else,
        a_control_group_has_its_promise,
        one_user_cannot_take_all_connections,
        video_that_heeds_its_grants_does_not_stall_where_blind_video_does,
        the_socket_of_the_dead_is_replaced_and_of_the_living_is_not,
        a_hook_is_run_with_the_facts;
        once: who_is_not_root_may_look_and_steer_his_own_within_bounds,
        a_promise_holds_before_and_after_the_first_packet_and_ends_with_its_connection,
        preference_displacement_and_leases,
        promises_outlive_the_data_path_and_the_tree,
        reservations_outlive_the_data_path,
        hostile_clients_change_nothing_for_the_data_path,
        a_slow_reader_is_told_what_it_lost,
        feedback_comes_within_milliseconds,
        the_owner_is_told_of_each_flow_that_joins,
        video_that_heeds_its_grants_does_not_stall_where_blind_video_does,
        the_socket_of_the_dead_is_replaced_and_of_the_living_is_not
    );
}
