//! The permissions of clients, and their isolation from the data path and from each other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_control::calls::{CALLS, Displacement, Events, Feedback, Permission, PromiseCall, Reserve, Target};
use tidegate_control::{Client, ClientError, Code, EventKind, Pushed};
use tidegate_daemon::Listening;
use tidegate_testbed::topology::Pair;
use tidegate_testbed::{Senders, Sink};
use tidegate_units::{Rate, Span};

use crate::recovery::CBQ;
use crate::running::{OTHER, PATIENCE, Running, SHAPER, is_root_of_the_machine, minimum, refusal, target, udp, until};
use tidegate_testbed::Ended;
use tidegate_testbed::harness::Child;
use tidegate_testbed::steady::patiently;

pub fn users_may_query_and_control_their_own_flows_within_bounds() -> Ended {
    if !is_root_of_the_machine() {
        return Ended::Skipped("only root of the machine can be two users".into());
    }
    let pair = Pair::create().unwrap();
    let path = std::env::temp_dir().join(format!("tidegate-{}-0.sock", std::process::id()));
    let (mut go, mut waits) = UnixStream::pair().unwrap();
    // While this process has one thread.
    let child = Child::fork(|| {
        let mut byte = [0];
        waits.read_exact(&mut byte).unwrap();
        tidegate_sys::process::set_user(OTHER).unwrap();
        as_another(&path);
        0
    });
    let running = Running::start(&pair, SHAPER);
    assert_eq!(running.path, path);
    let of_root = running.client();
    go.write_all(b"!").unwrap();
    ends_well(child);
    drop(of_root);
    Ended::Passed
}

/// Waits until the process of the other user has ended, which must have succeeded.
fn ends_well(child: Child) {
    let deadline = Instant::now() + PATIENCE;
    let code = loop {
        if let Some(ended) = child.try_wait() {
            break ended;
        }
        assert!(Instant::now() < deadline, "the other user does not come to an end");
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(code, Ok(0), "what the other user found");
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
    // Calls of operators are refused with any parameters.
    for call in CALLS.iter().filter(|call| matches!(call.permission, Permission::Operator(_))) {
        let mut stream = UnixStream::connect(path).unwrap();
        writeln!(stream, "{{\"id\":7,\"version\":1,\"call\":\"{}\",\"with\":{}}}", call.name, call.request).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert!(line.starts_with("{\"id\":7,\"error\":{\"code\":\"not-allowed\""), "{line}");
    }
    // Within the bounds it is granted, and the grant counts.
    let given = client.promise(&PromiseCall { prefer: 1, ..minimum(5_000, 800) }).unwrap();
    assert_eq!(given.state.uid, 12_345);
    not_allowed(client.promise(&minimum(5_001, 300)));
    client.promise(&minimum(5_001, 200)).unwrap();
    client.release(given.promise).unwrap();
}

/// The payload in kbit/s that is sent and that arrives within a second and a half, for each flow.
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

pub fn hostile_clients_change_nothing_for_the_data_path() -> Ended {
    patiently(hostile_clients)
}

fn hostile_clients() -> Result<(), String> {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let flows = [udp(5_000, 2), udp(5_001, 4), udp(80, 3)];
    let sink = Sink::start(&pair.receiver, &flows).unwrap();
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).unwrap();
    thread::sleep(Duration::from_millis(500));
    sink.restart();
    // Flows expire when it next receives.
    thread::sleep(Duration::from_millis(200));
    let quiet = carried(&senders, &sink, 3);
    let lateness = |sink: &Sink| sink.report(0).delays.value_at_quantile(0.99);
    let quiet_delay = lateness(&sink);
    // A thousand connected clients, of which a hundred send requests all the time; some send garbage, some send without
    // an end of line, some never read what they subscribed to.
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
    // Other clients still receive replies, which count all clients.
    let control = || running.client().status().unwrap().control;
    until("a thousand clients and refusals", || {
        let control = control();
        control.clients >= 1_000 && control.refused > 100
    });
    stop.store(true, Ordering::Relaxed);
    asking.into_iter().for_each(|thread| thread.join().unwrap());
    let summary = format!(
        "kbit/s {quiet:?} -> {loud:?}; delay p99 {} -> {} us; {:?}",
        quiet_delay / 1_000,
        loud_delay / 1_000,
        control()
    );
    println!("{summary}");
    drop(idle);
    senders.stop();
    sink.stop();
    // Senders share the processors with these clients, so that they may send less; what they send arrives.
    let arrives = quiet
        .iter()
        .zip(&loud)
        .all(|((_, quiet), (sent, arrived))| arrived * 100 > sent * 97 && arrived * 100 > quiet * 50);
    // The senders and the sink are on the same two processors as the clients: the test distinguishes a data path that
    // waits for a client, which would take seconds, not milliseconds.
    if arrives && loud_delay < quiet_delay + 100_000_000 { Ok(()) } else { Err(summary) }
}

/// Sends requests, garbage or lines without an end, or connects and disconnects, until stopped.
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

pub fn a_slow_reader_receives_the_number_of_lost_events() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let mut slow = running.client();
    let id = {
        let events = slow.events(&Events { kinds: vec![EventKind::FlowStarted], ..Events::default() }).unwrap();
        events.id()
    };
    let came = || running.client().status().unwrap().directions[0].classes[1].enqueued_packets;
    // Each socket is a flow, and each flow an event of some 300 bytes: more than all buffers on the way hold.
    pair.sender
        .namespace
        .run(|| {
            for n in 0..6_000_u16 {
                let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
                socket.send_to(&[0; 32], ("10.77.0.2", 10_000 + n)).unwrap();
                // No more in flight than the buffers hold.
                if n % 256 == 255 {
                    until("what was sent", || came() > u64::from(n));
                }
            }
        })
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
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

pub fn promises_and_subscriptions_of_a_connection_have_limits_of_their_own() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let mut client = running.client();
    let preference = |port| PromiseCall { prefer: 1, target: target(port), ..PromiseCall::default() };
    let promises: Vec<u64> = (0..256).map(|n| client.promise(&preference(5_000 + n)).unwrap().promise).collect();
    let refused = refusal(client.promise(&preference(5_900)).unwrap_err());
    assert_eq!(refused.code, Code::TooMany);
    assert!(refused.message.contains("256 promises") && refused.help.is_some(), "{refused}");
    // A client with any number of promises may query and subscribe.
    let events: Vec<u64> = (0..15).map(|_| client.events(&Events::default()).unwrap().id()).collect();
    let which = Feedback { target: target(5_000), ..Feedback::default() };
    client.feedback(&which).unwrap();
    for refused in [client.events(&Events::default()).map(drop), client.feedback(&which).map(drop)] {
        let refused = refusal(refused.unwrap_err());
        assert_eq!(refused.code, Code::TooMany);
        assert!(refused.message.contains("16 subscriptions") && refused.help.is_some(), "{refused}");
    }
    // Each one that is released permits another of its kind, and another connection has its own limit.
    client.release(promises[7]).unwrap();
    assert_eq!(refusal(client.events(&Events::default()).map(drop).unwrap_err()).code, Code::TooMany);
    let given = client.promise(&preference(5_900)).unwrap();
    client.unsubscribe(events[3]).unwrap();
    client.events(&Events::default()).unwrap();
    let mut other = running.client();
    other.promise(&preference(5_901)).unwrap();
    // A client may unsubscribe from the events of its promise.
    client.unsubscribe(given.subscription).unwrap();
    assert_eq!(running.client().promises().unwrap().len(), 257);
    drop((client, other));
    until("the end of what connections hold", || running.client().promises().unwrap().is_empty());
    Ended::Passed
}

/// A shaper, and beside it a process of another user that does `what` with its control socket, once that exists. Both
/// receive the channel between them.
fn beside_another_user(text: &str, what: impl FnOnce(&Path, &mut UnixStream)) -> (Pair, Running, UnixStream, Child) {
    let pair = Pair::create().unwrap();
    let path = std::env::temp_dir().join(format!("tidegate-{}-0.sock", std::process::id()));
    let (mut go, mut waits) = UnixStream::pair().unwrap();
    // While this process has one thread.
    let child = Child::fork(|| {
        waits.read_exact(&mut [0]).unwrap();
        tidegate_sys::process::set_user(OTHER).unwrap();
        what(&path, &mut waits);
        0
    });
    let running = Running::start(&pair, text);
    assert_eq!(running.path, path);
    go.write_all(b"!").unwrap();
    (pair, running, go, child)
}

pub fn one_user_cannot_take_all_connections() -> Ended {
    if !is_root_of_the_machine() {
        return Ended::Skipped("only root of the machine can be two users".into());
    }
    let (_pair, running, mut go, child) = beside_another_user(SHAPER, |path, waits| {
        let connect = || {
            let mut client = Client::connect(path)?;
            client.status().map(|_| client)
        };
        let mut clients: Vec<Client> = (0..256).map(|_| connect().unwrap()).collect();
        let refused = refusal(connect().unwrap_err());
        assert_eq!(refused.code, Code::TooMany);
        assert!(refused.message.contains("256 connections of this user") && refused.help.is_some(), "{refused}");
        // Root is not subject to the limit.
        waits.write_all(b"?").unwrap();
        waits.read_exact(&mut [0]).unwrap();
        // One that disconnects permits another.
        clients.pop();
        until("room again", || connect().is_ok());
    });
    go.set_read_timeout(Some(PATIENCE)).unwrap();
    go.read_exact(&mut [0]).expect("the other user has all that he may have");
    assert!(running.client().status().unwrap().control.clients >= 256);
    go.write_all(b"!").unwrap();
    ends_well(child);
    Ended::Passed
}

/// 250 connections that request large replies, and read nothing.
pub fn one_user_does_not_delay_root() -> Ended {
    if !is_root_of_the_machine() {
        return Ended::Skipped("only root of the machine can be two users".into());
    }
    let lasting = SHAPER.replace("idle-timeout = \"1s\"", "idle-timeout = \"10min\"");
    let (pair, running, mut go, child) = beside_another_user(&lasting, |path, waits| {
        let request = "{\"id\":1,\"version\":1,\"call\":\"flows\",\"with\":{\"limit\":1000}}\n".repeat(8);
        let connect = |_| {
            let stream = UnixStream::connect(path).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        };
        let clients: Vec<UnixStream> = (0..250).map(connect).collect();
        let send = || clients.iter().for_each(|mut client| drop(client.write(request.as_bytes())));
        send();
        waits.write_all(b"?").unwrap();
        waits.set_nonblocking(true).unwrap();
        while waits.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
            send();
            thread::sleep(Duration::from_millis(5));
        }
    });
    // Before the other user requests them.
    let flows = || running.client().status().unwrap().directions[0].classes[1].flows.unwrap_or_default();
    let make_flows = || {
        for n in 0..1_000_u16 {
            let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
            socket.send_to(&[0; 32], ("10.77.0.2", 10_000 + n)).unwrap();
        }
    };
    go.set_read_timeout(Some(PATIENCE)).unwrap();
    go.read_exact(&mut [0]).expect("the other user is connected");
    pair.sender.namespace.run(make_flows).unwrap();
    until("flows", || flows() >= 500);
    thread::sleep(Duration::from_secs(1));
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim().to_owned();
        line.trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let mut times: Vec<Duration> = (0..100)
        .map(|_| {
            let began = Instant::now();
            running.client().status().unwrap();
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("status: median {:?}, 99th percentile {:?}; {} kB resident", times[50], times[98], resident());
    // In the order of arrival it would wait for 2,000 requests, which takes seconds.
    assert!(times[50] < Duration::from_millis(250), "median {:?}", times[50]);
    assert!(times[98] < Duration::from_secs(1), "99th percentile {:?}", times[98]);
    assert!(resident() < 128 << 10, "{} kB", resident());
    go.write_all(b"!").unwrap();
    ends_well(child);
    Ended::Passed
}

pub fn one_user_cannot_take_all_reservations() -> Ended {
    if !is_root_of_the_machine() {
        return Ended::Skipped("only root of the machine can be two users".into());
    }
    let reserve = |port: u16, lasts: Option<Span>| Reserve {
        matches: vec![("destination-port".into(), port.to_string())],
        rate: Rate::from_kbit(100),
        lasts,
        ..Reserve::default()
    };
    let text = format!("{CBQ}[control]\nreservations = 2\nreserved = \"250kbit\"\nlease = \"10min\"\n");
    let (_pair, running, mut go, child) = beside_another_user(&text, |path, waits| {
        let mut client = Client::connect(path).unwrap();
        for lasts in [Span::from_secs(601), Span::from_nanos(u64::MAX)] {
            let refused = refusal(client.reserve(&reserve(5_000, Some(lasts))).unwrap_err());
            assert_eq!(refused.code, Code::NotAllowed);
            assert!(refused.message.contains("is longer than 600s"), "{refused}");
        }
        let beyond = |client: &mut Client, kbit: u64, left: &str| {
            let more = Reserve { rate: Rate::from_kbit(kbit), ..reserve(5_001, None) };
            let refused = refusal(client.reserve(&more).unwrap_err());
            assert_eq!(refused.code, Code::NotAllowed);
            assert!(refused.message.contains(&format!("may reserve {left} more, not {kbit}kbit")), "{refused}");
        };
        beyond(&mut client, 251, "250kbit");
        let first = client.reserve(&reserve(5_000, Some(Span::from_secs(600)))).unwrap();
        beyond(&mut client, 151, "150kbit");
        client.reserve(&reserve(5_001, None)).unwrap();
        // Over another connection as well.
        let refused = refusal(Client::connect(path).unwrap().reserve(&reserve(5_002, None)).unwrap_err());
        assert_eq!(refused.code, Code::NotAllowed);
        assert!(refused.message.contains("may hold 2 reservations"), "{refused}");
        // One that ends permits another.
        client.unreserve(first.reservation).unwrap();
        client.reserve(&reserve(5_002, None)).unwrap();
        waits.write_all(b"?").unwrap();
        waits.read_exact(&mut [0]).unwrap();
    });
    go.set_read_timeout(Some(PATIENCE)).unwrap();
    go.read_exact(&mut [0]).expect("the other user has all that he may have");
    running.client().reserve(&reserve(5_003, Some(Span::from_secs(3_600)))).expect("root has no such bounds");
    go.write_all(b"!").unwrap();
    ends_well(child);
    Ended::Passed
}

/// The sockets of processes are read repeatedly and result in many conditions: since every user may watch, one user
/// must not occupy the daemon with them.
pub fn one_user_cannot_have_all_processes_followed() -> Ended {
    if !is_root_of_the_machine() {
        return Ended::Skipped("only root of the machine can be two users".into());
    }
    let (_pair, running, _go, child) = beside_another_user(SHAPER, |path, _| {
        let own = Target { pid: Some(std::process::id()), ..Target::default() };
        let mut clients = vec![Client::connect(path).unwrap(), Client::connect(path).unwrap()];
        let watch = |client: &mut Client, target: &Target| {
            let which = Feedback { target: target.clone(), ..Feedback::default() };
            client.feedback(&which).map(|(_, events)| events.id())
        };
        let first = watch(&mut clients[0], &own).unwrap();
        for _ in 1..16 {
            watch(&mut clients[0], &own).unwrap();
        }
        let refused = refusal(watch(&mut clients[1], &own).unwrap_err());
        assert_eq!(refused.code, Code::TooMany);
        assert!(refused.message.contains("16 processes") && refused.help.is_some(), "{refused}");
        // Flows with another kind of target have a limit of their own, and one that ends permits another.
        for _ in 0..15 {
            watch(&mut clients[1], &target(5_000)).unwrap();
        }
        clients[0].unsubscribe(first).unwrap();
        watch(&mut clients[1], &own).unwrap();
        let refused = loop {
            let mut client = Client::connect(path).unwrap();
            let outcome = (0..16).try_for_each(|_| watch(&mut client, &target(5_000)).map(drop));
            clients.push(client);
            if let Err(error) = outcome {
                break refusal(error);
            }
            assert!(clients.len() < 30);
        };
        assert!(refused.message.contains("256 subscriptions"), "{refused}");
    });
    ends_well(child);
    // Root is not counted among them.
    let which =
        Feedback { target: Target { pid: Some(std::process::id()), ..Target::default() }, ..Feedback::default() };
    running.client().feedback(&which).unwrap();
    Ended::Passed
}

pub fn the_socket_of_the_dead_is_replaced_and_of_the_living_is_not() -> Ended {
    let pair = Pair::create().unwrap();
    let running = Running::start(&pair, SHAPER);
    let living = Listening::at(&running.path, 0o600).unwrap_err().to_string();
    assert!(living.contains("another tidegate is running"), "{living}");
    let stale = std::env::temp_dir().join(format!("tidegate-stale-{}.sock", std::process::id()));
    // The process that made it has ended; its socket has not.
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
