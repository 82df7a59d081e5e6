//! CBQ live: shares of classes, and reservations that come and go.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_config::shaper::Match;
use tidegate_config::values::Ports;
use tidegate_core::DropReason;
use tidegate_core::reservation::{Refusal, Request, Service, TSpec};
use tidegate_engine::ReserveError;
use tidegate_testbed::{FlowSpec, Pair, Senders, Sink};
use tidegate_units::{Bytes, Rate};

use crate::flows::{measure, near, udp, until, wire_rate};
use crate::rates::{HEADERS, shape};
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

/// Three classes of 2, 4 and 6 Mbit/s on a link of 12; the rule of class n is port 500n.
fn three(borrow: &str) -> String {
    let class = |n: u64| {
        format!(
            "{{ name = \"c{n}\", rate = \"{}mbit\", borrow = \"{borrow}\", queue = {{ kind = \"fifo\", limit = \"40kB\" }} }},",
            2 + 2 * n
        )
    };
    let classes: String = (0..3).map(class).collect();
    with_rules(&format!("kind = \"cbq\"\nlink = \"12mbit\"\nmtu = \"1500B\"\nclass = [{classes}]\n"))
}

/// A shaper file with `discipline`, whose class cn has port 500n.
pub fn with_rules(discipline: &str) -> String {
    let rule = |n: u64| format!("[[rule]]\nclass = \"c{n}\"\ndestination-port = 500{n}\n");
    format!("version = 1\n{}\n[discipline]\n{discipline}", (0..3).map(rule).collect::<String>())
}

pub fn classes_share_with_and_without_borrowing() -> Ended {
    patiently(|| {
        shares("never", &three("never"), [2e6, 4e6])?;
        shares("from-parent", &three("from-parent"), [4e6, 8e6])
    })
}

/// The classes c0, c1 and c2 of `file`, which have 2, 4 and 6 Mbit/s: all three greedy, then two of them; `two` is what
/// those two get then.
pub fn shares(name: &str, file: &str, two: [f64; 2]) -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping = shape(&pair, file);
    let flows: Vec<_> = (0..3).map(|n| udp(n, 15_000, 1_000)).collect();
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let greedy = Senders::start(&pair.sender, &pair.receiver, &flows[..2]).expect("senders");
    let third = Senders::start(&pair.sender, &pair.receiver, &flows[2..]).expect("a sender");
    sleep(Duration::from_millis(600));
    let all = measure(&sink, 3, Duration::from_secs(2));
    third.stop();
    until("the third has nothing left", || {
        let status = shaping.status().expect("the classes");
        status.iter().any(|class| class.name == "c2" && class.counts.backlog.packets == 0)
    });
    sleep(Duration::from_millis(300));
    let left = measure(&sink, 3, Duration::from_secs(2));
    greedy.stop();
    shaping.stop().expect("an orderly end");
    println!("  {name}: {all:.0?}, then {left:.0?}");
    for (rate, own) in all.iter().zip([2e6, 4e6, 6e6]) {
        near(*rate, own, 0.03)?;
    }
    for (rate, wanted) in left.iter().zip(two) {
        near(*rate, wanted, 0.03)?;
    }
    if left[2] == 0.0 { Ok(()) } else { Err(format!("the third goes on at {} bit/s", left[2])) }
}

pub fn tcp_shares_with_and_without_borrowing() -> Ended {
    patiently(|| {
        tcp("never", [2e6, 4e6])?;
        tcp("from-parent", [4e6, 8e6])
    })
}

fn tcp(borrow: &str, two: [f64; 2]) -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping = shape(&pair, &three(borrow));
    let flows: Vec<_> = (0..3).map(|n| FlowSpec::tcp(format!("t{n}"), 5_000 + n, 0)).collect();
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let greedy = Senders::start(&pair.sender, &pair.receiver, &flows[..2]).expect("senders");
    let third = Senders::start(&pair.sender, &pair.receiver, &flows[2..]).expect("a sender");
    // What leaves through each class. What TCP hands to its reader comes in leaps, whenever a hole is filled.
    let left_so_far = || {
        let status = shaping.status().expect("the classes");
        let bytes = status.iter().map(|class| class.counts.through.bytes.as_u64()).collect::<Vec<_>>();
        (Instant::now(), bytes)
    };
    let rates = |time: Duration| {
        let (start, before) = left_so_far();
        sleep(time);
        let (end, after) = left_so_far();
        let elapsed = end.duration_since(start).as_secs_f64();
        before.iter().zip(&after).map(|(before, after)| (after - before) as f64 * 8.0 / elapsed).collect::<Vec<_>>()
    };
    sleep(Duration::from_millis(1_500));
    let all = rates(Duration::from_secs(3));
    third.stop();
    sleep(Duration::from_secs(1));
    let left = rates(Duration::from_secs(3));
    greedy.stop();
    shaping.stop().expect("an orderly end");
    println!("  TCP, {borrow}: {all:.0?}, then {left:.0?}");
    if (0..3).any(|n| sink.bytes(n) < 200_000) {
        return Err(format!("{:?} bytes arrived", [0, 1, 2].map(|n| sink.bytes(n))));
    }
    for (rate, own) in all.iter().zip([2e6, 4e6, 6e6]) {
        near(*rate, own, 0.03)?;
    }
    for (rate, wanted) in left.iter().zip(two) {
        near(*rate, wanted, 0.03)?;
    }
    Ok(())
}

pub fn a_reservation_is_made_and_dropped_under_load() -> Ended {
    patiently(reservation)
}

/// Two greedy flows and one of 2 Mbit/s in a class of 6 that borrows on a link of 8. The third gets a third of 8 at the
/// most and loses what does not fit; with a reservation it gets all it sends.
fn reservation() -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping = shape(
        &pair,
        "version = 1\n[discipline]\nkind = \"cbq\"\nlink = \"8mbit\"\nmtu = \"1500B\"\n\
         class = [{ name = \"rest\", rate = \"5mbit\", borrow = \"from-parent\", queue = { kind = \"fifo\", limit = \"60kB\" } },\
         { name = \"reserved\", rate = \"3mbit\" }]\n\
         reservations = { class = \"reserved\", flows = 4, max-rate = \"2.5mbit\", borrow = \"never\" }\n",
    );
    let flows = [udp(0, 10_000, 1_000), udp(1, 10_000, 1_000), udp(2, 2_000, 972)];
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    sleep(Duration::from_millis(800));
    let before = measure(&sink, 3, Duration::from_millis(1_500));

    let tspec = TSpec {
        rate: Rate::from_kbit(2_100),
        bucket: Bytes::new(6_000),
        peak: Rate::from_mbit(100),
        min_unit: Bytes::new(1_000),
        max_packet: Bytes::new(1_000),
    };
    let ask = move |rate: u64, port: u16, name: &'static str| {
        let tspec = TSpec { rate: Rate::from_kbit(rate), ..tspec };
        let request = Request { tspec, service: Service::ControlledLoad };
        let ports = Ports { first: port, last: port };
        let matches = Match { destination_ports: vec![ports], ..Match::default() };
        shaping_reserve(name, request, matches)
    };
    let lease = shaping.change(ask(2_100, 5_002, "video")).expect("an answer").expect("a reservation");
    assert!(lease.grant.bound.is_some(), "priority 0 and bytes have a bound");
    // Too much for one, and too much for all.
    let refused = shaping.change(ask(2_600, 5_003, "more")).expect("an answer");
    assert!(matches!(&refused, Err(ReserveError::Bounds(text)) if text.contains("2.5mbit")), "{refused:?}");
    let refused = shaping.change(ask(1_000, 5_003, "more")).expect("an answer");
    let free = Rate::from_kbit(900);
    assert!(matches!(refused, Err(ReserveError::Admission(Refusal::Rate { free: f, .. })) if f == free), "{refused:?}");

    // What waited before it is on its way first.
    sleep(Duration::from_millis(300));
    let (reports, elapsed) = sink.measure(Duration::from_millis(2_500));
    let during: Vec<f64> = reports.iter().map(|report| wire_rate(report, elapsed)).collect();
    let video = &reports[2];
    let id = lease.grant.id;
    shaping.change(move |engine, now, sink| engine.release(now, id, sink)).expect("an answer").expect("its end");
    sleep(Duration::from_millis(400));
    let after = measure(&sink, 3, Duration::from_millis(1_500));
    senders.stop();
    let classes = || shaping.status().expect("the classes");
    until("the class of the reservation is gone", || classes().len() == 1);
    let status = classes();
    let reasons = status[0].counts.accounts.dropped;
    let by_limit = reasons[DropReason::QueueLimit as usize].packets;
    assert_eq!(reasons.iter().map(|account| account.packets).sum::<u64>(), by_limit, "only a full queue drops");
    shaping.stop().expect("an orderly end");
    println!("  {before:.0?}, reserved {during:.0?} ({} missing), then {after:.0?}", video.missing);
    println!("  bound {:?}, longest {} us", lease.grant.bound, video.delays.max() / 1_000);
    // What is reserved loses nothing, as long as it keeps to what it asked for: a sender that gets no processor for
    // 24 ms makes up for it with a burst beyond its bucket of 6,000 bytes.
    if video.missing > 0 {
        return Err(format!("{} packets of what is reserved are missing", video.missing));
    }
    near(during[2], 2e6 * (972 + HEADERS) as f64 / 972.0, 0.03)?;
    near(during.iter().sum(), 8e6, 0.02)?;
    near(before.iter().sum(), 8e6, 0.02)?;
    // Which of two that send evenly gets the places of a full FIFO is chance, and may be one of them only.
    near(after.iter().sum(), 8e6, 0.02)
}

/// A request, as a word to the data path.
fn shaping_reserve(
    name: &'static str,
    request: Request,
    matches: Match,
) -> impl FnOnce(
    &mut tidegate_live::shaping::LiveEngine,
    tidegate_units::Instant,
    &mut tidegate_live::shaping::VerdictSink,
) -> Result<tidegate_engine::Lease, ReserveError>
+ Send
+ 'static {
    move |engine, now, sink| engine.reserve(now, name, &request, matches, sink)
}
