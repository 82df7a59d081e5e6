//! Events and feedback: their content, recipients and delay.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_control::calls::{Apply, Events, Feedback, Flows, Target};
use tidegate_control::{Client, Code, EventKind, Pushed};
use tidegate_testbed::topology::Pair;
use tidegate_testbed::{FlowSpec, Senders, Sink};
use tidegate_units::Rate;

use crate::recovery::mortal;
use crate::running::{PATIENCE, Running, SHAPER, refusal, target, udp, until};
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

pub fn status_counts_and_events_are_reported() -> Ended {
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
    until("packets that are counted", || {
        let media = &running.client().status().unwrap().directions[0].classes[0];
        media.through_packets > 10 && media.flows == Some(1)
    });
    let status = running.client().status().unwrap();
    assert!(status.in_force && status.interface == "tg0");
    assert_eq!(status.control.subscriptions, 1);
    let which = Flows { direction: Some("down".into()), ..Flows::default() };
    assert_eq!(refusal(running.client().flows(&which).unwrap_err()).code, Code::NotFound);
    senders.stop();
    sink.stop();
    Ended::Passed
}

pub fn feedback_comes_within_milliseconds() -> Ended {
    patiently(feedback)
}

fn feedback() -> Result<(), String> {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let flows = [udp(5_000, 6), udp(5_001, 8)];
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows[..1]).unwrap();
    until("the first flow", || running.client().status().unwrap().directions[0].classes[0].flows == Some(1));
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
        if (all && latencies.len() > 50 && granted.contains(&Rate::from_mbit(4))) || began.elapsed() > PATIENCE {
            break;
        }
    }
    second.stop();
    latencies.sort_unstable();
    let at = |part: usize| latencies[(latencies.len() - 1) * part / 100] / 1_000;
    let pushed = format!("{kinds:?}; pushed after p50 {} us, p90 {} us, p99 {} us", at(50), at(90), at(99));
    println!("{pushed}");
    for kind in ["rate", "queue-above", "dropped", "delay-above"] {
        assert!(kinds.contains_key(kind), "no {kind} in {kinds:?}");
    }
    assert!(granted.contains(&Rate::from_mbit(4)), "half of the class with two: {granted:?}");
    senders.stop();
    sink.stop();
    // Half of them within 5 ms.
    if at(50) < 5_000 { Ok(()) } else { Err(pushed) }
}

pub fn events_right_after_a_subscription_are_reported() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, LASTING);
    // Enough busy threads that the notifying thread may be interrupted anywhere.
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
        let deadline = Instant::now() + PATIENCE / 2;
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
    assert!(missed.is_empty(), "no event of the flows from {missed:?}");
    Ended::Passed
}

/// The reply to a GET of the metrics at `port`, from inside; `None` when no socket listens there.
fn metrics_at(pair: &Pair, port: u16) -> Option<String> {
    let fetch = move || {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        Some(answer)
    };
    pair.sender.namespace.run(fetch).unwrap()
}

pub fn metrics_are_served_where_the_file_specifies() -> Ended {
    let pair = Pair::create().unwrap();
    let with = |section: &str| format!("{SHAPER}{section}");
    let running = Running::start(&pair, &with("[metrics]\nlisten = \"127.0.0.1:9435\"\n"));
    let answer = metrics_at(&pair, 9_435).expect("the metrics are served");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("tidegate_"), "{answer}");
    let apply = |section: &str| {
        let call = Apply { text: Some(with(section)), ..Apply::default() };
        running.client().call(&call)
    };
    // Another file moves the metrics; a file that is refused changes nothing.
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

/// A monitoring system must be able to detect from the metrics that a machine is not shaped.
pub fn metrics_report_that_shaping_is_not_in_force() -> Ended {
    let pair = Pair::create().unwrap();
    let text = format!("{SHAPER}[metrics]\nlisten = \"127.0.0.1:9435\"\n");
    let running = Running::start_with(&pair, &text, mortal());
    let tells = |line: &str| metrics_at(&pair, 9_435).is_some_and(|answer| answer.contains(line));
    until("shaping in metrics", || tells("\ntidegate_in_force 1"));
    let flows = [udp(5_000, 1)];
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    // It panics after each start, and the pauses grow.
    until("the outage in metrics", || tells("\ntidegate_in_force 0"));
    senders.stop();
    sink.stop();
    until("its end in metrics", || tells("\ntidegate_in_force 1"));
    assert!(running.client().status().is_ok());
    Ended::Passed
}

/// Flows expire so late that none leaves during the test, and other traffic of the namespace is in `rest`.
const LASTING: &str = "version = 1\n[shaper]\nidle-timeout = \"600s\"\n\
    [[class]]\nname = \"ours\"\nrate = \"60mbit\"\nborrow = false\n\
    [[class]]\nname = \"rest\"\nrate = \"1mbit\"\ndefault = true\n\
    [[rule]]\nclass = \"ours\"\ndestination-port = 9\n";

pub fn the_owner_is_notified_of_each_flow_that_joins() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, LASTING);
    let from = |port: u16| pair.sender.namespace.run(move || UdpSocket::bind(("10.77.0.1", port)).unwrap()).unwrap();
    let owner = from(9_000);
    let mut client = running.client();
    let target = Target { source_port: Some(9_000), ..Target::default() };
    let (_, events) = client.feedback(&Feedback { target, ..Feedback::default() }).unwrap();
    let subscription = events.id();
    let next = |client: &mut Client, n: u64| {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match client.next_push(Some(Duration::from_millis(100))).unwrap() {
                Some((of, Pushed::Event(event))) if event.kind == EventKind::Rate => {
                    assert_eq!((of, event.granted), (subscription, Some(Rate::from_bps(60_000_000 / n))), "flow {n}");
                    return;
                }
                _ => {}
            }
        }
        panic!("the owner was never notified of flow {n}");
    };
    owner.send_to(&[0; 100], "10.77.0.2:9").unwrap();
    next(&mut client, 1);
    // Each takes more than a 64th of the owner's rate: every change is reported at once, and exactly once.
    for n in 2..=50 {
        from(9_000 + n).send_to(&[0; 100], "10.77.0.2:9").unwrap();
        next(&mut client, n.into());
    }
    Ended::Passed
}

pub fn a_hook_is_run_with_the_facts() -> Ended {
    let pair = Pair::create().unwrap();
    let base = std::env::temp_dir().join(format!("tidegate-hook-{}", std::process::id()));
    let (program, output) = (base.with_extension("sh"), base.with_extension("output"));
    let script = format!(
        "#!/bin/sh\necho $TIDEGATE_EVENT $TIDEGATE_CLASS $TIDEGATE_FLOW_DESTINATION_PORT $TIDEGATE_INTERFACE >> {}\n",
        output.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let hook = format!("[control.hook]\nprogram = \"{}\"\nevents = [\"flow-started\"]\nrate = 2\n", program.display());
    let running = Running::start(&pair, &format!("{SHAPER}{hook}"));
    let began = Instant::now();
    let deadline = Instant::now() + PATIENCE;
    let text = loop {
        pair.sender
            .namespace
            .run(|| {
                let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
                // Many at once; at most two a second are reported.
                for n in 0..50_u16 {
                    socket.send_to(&[0; 32], ("10.77.0.2", 5_000 + n)).unwrap();
                }
            })
            .unwrap();
        thread::sleep(Duration::from_millis(500));
        let text = std::fs::read_to_string(&output).unwrap_or_default();
        // The host itself may begin flows too, and these may be the ones that are reported.
        if text.lines().any(|line| line.starts_with("flow-started media 50") && line.ends_with(" tg0")) {
            break text;
        }
        assert!(Instant::now() < deadline, "the hook did not run for a flow of ours: {text}");
    };
    // Two at once, and two for each second since.
    let most = 2 + 2 * (began.elapsed().as_secs() as usize + 1);
    assert!(text.lines().count() <= most, "{text}");
    drop(running);
    let _ = (std::fs::remove_file(&program), std::fs::remove_file(&output));
    Ended::Passed
}

pub fn access_and_the_hook_follow_the_file_in_force() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let mode = || std::fs::metadata(&running.path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o666);
    let base = std::env::temp_dir().join(format!("tidegate-hooks-{}", std::process::id()));
    let output = |name: &str| base.with_extension(format!("{name}.output"));
    let program = |name: &str| base.with_extension(format!("{name}.sh"));
    for name in ["first", "second"] {
        std::fs::write(program(name), format!("#!/bin/sh\necho $TIDEGATE_TEXT >> {}\n", output(name).display()))
            .unwrap();
        std::fs::set_permissions(program(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let apply = |section: &str| {
        let call = Apply { text: Some(format!("{SHAPER}{section}")), ..Apply::default() };
        running.client().call(&call).unwrap()
    };
    let hook = |name: &str| {
        let program = program(name);
        format!("[control.hook]\nprogram = \"{}\"\nevents = [\"log\"]\nrate = 1000\n", program.display())
    };
    let lines = |name: &str| {
        let text = std::fs::read_to_string(output(name)).unwrap_or_default();
        text.lines().filter(|line| line.contains(": apply: in force")).count()
    };
    apply(&format!("mode = \"600\"\n{}", hook("first")));
    assert_eq!(mode(), 0o600);
    until("the first hook", || lines("first") == 1);
    // The other file replaces it, and settings that it does not contain have their defaults.
    apply(&hook("second"));
    assert_eq!(mode(), 0o666);
    until("the second hook", || lines("second") == 1);
    apply("");
    apply(&hook("second"));
    until("the second hook again", || lines("second") == 2);
    assert_eq!(lines("first"), 1);
    drop(running);
    for name in ["first", "second"] {
        let _ = (std::fs::remove_file(program(name)), std::fs::remove_file(output(name)));
    }
    Ended::Passed
}

#[allow(dead_code)] // An example with a main of its own.
#[path = "../../examples/video.rs"]
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
    // Alone for two seconds, then with three greedy flows.
    thread::sleep(Duration::from_secs(2));
    let senders = Senders::start(&pair.sender, &pair.receiver, &greedy).unwrap();
    let frames = sender.join().unwrap();
    let arrived = watching.join().unwrap();
    senders.stop();
    sink.stop();
    let whole = arrived.values().filter(|(packets, in_time)| packets == in_time).count() as u64;
    (frames - whole, frames)
}

pub fn video_that_follows_its_grants_does_not_stall_where_blind_video_does() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let (blind, of_blind) = stalls(&pair, &running, video::Mode::Blind);
    // Three of five seconds at half of what it sends: most of these 75 frames are spoilt.
    assert!(blind > 40, "{blind} of {of_blind}");
    patiently(|| {
        // Flows are forgotten after a second.
        thread::sleep(Duration::from_millis(1_500));
        let (heeding, of_heeding) = stalls(&pair, &running, video::Mode::Heeding);
        let summary = format!("stalled: blind {blind} of {of_blind} frames, heeding {heeding} of {of_heeding}");
        println!("{summary}");
        if heeding <= 2 { Ok(()) } else { Err(summary) }
    })
}
