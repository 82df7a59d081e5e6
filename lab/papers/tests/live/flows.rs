//! Single flows may ask for a minimum, preference, another class when theirs is full.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_live::shaping::Shaping;
use tidegate_testbed::{FlowReport, FlowSpec, Pair, Senders, Sink, dropped_between};
use tidegate_units::{Bytes, Rate};

use crate::rates::{HEADERS, shape};
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

/// Whether a rate is within a part `tolerance` of what it should be.
pub fn near(rate: f64, wanted: f64, tolerance: f64) -> Result<(), String> {
    let deviation = rate / wanted - 1.0;
    if deviation.abs() < tolerance { Ok(()) } else { Err(format!("{rate:.0} is not {wanted:.0}")) }
}

/// Bit/s on the wire of each flow, over `time`, in which each arrives in its order.
pub fn measure(sink: &Sink, flows: usize, time: Duration) -> Vec<f64> {
    let (reports, elapsed) = sink.measure(time);
    reports.iter().for_each(in_order);
    reports.iter().take(flows).map(|report| wire_rate(report, elapsed)).collect()
}

/// Bit/s on the wire of what arrived of a flow in so many nanoseconds.
pub fn wire_rate(report: &FlowReport, elapsed: u64) -> f64 {
    (report.bytes + report.packets * HEADERS) as f64 * 8e9 / elapsed as f64
}

/// Runs `work` and sees that no more than `rate` got through meanwhile, by the count of the data path itself: no other
/// work on the machine excuses that.
pub fn at_most<T>(rate: Rate, shaping: &Shaping, work: impl FnOnce() -> T) -> T {
    let through = || {
        let status = shaping.status().expect("the classes");
        status.iter().map(|class| class.counts.through.bytes.as_u64()).sum::<u64>()
    };
    // What is saved up: the bucket, the lateness that is made up for, and a few packets.
    const SAVED: Duration = Duration::from_millis(50);
    const PACKETS: f64 = 15_000.0;
    let (began, before) = (Instant::now(), through());
    let done = work();
    let (passed, took) = (through() - before, began.elapsed());
    let most = rate.as_bps() as f64 / 8.0 * (took + SAVED).as_secs_f64() + PACKETS;
    assert!(passed as f64 <= most, "{passed} bytes in {took:?}; at {rate} no more than {most:.0}");
    done
}

/// That a flow which left by a data path arrived in its order, which no load on the machine excuses. (What only arrives
/// by one is another matter: the kernel may have moved its sender to another processor between two packets.)
pub fn in_order(report: &FlowReport) {
    assert_eq!(report.reordered, 0, "were overtaken");
}

/// Returns how many packets the machine itself dropped between the hosts after the data path had released them.
pub fn dropped(pair: &Pair) -> u64 {
    dropped_between(&pair.sender.namespace, &pair.receiver.namespace).expect("the counters of both hosts")
}

/// Waits for what must come, however long the machine takes for it.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        sleep(Duration::from_millis(10));
    }
}

/// How several parts of a test ended, each of which measures and has been run: unsteady when one was.
pub fn all(parts: impl IntoIterator<Item = Ended>) -> Ended {
    let unsteady = |part| if let Ended::Unsteady(why) = part { Some(why) } else { None };
    let whys: Vec<String> = parts.into_iter().filter_map(unsteady).collect();
    if whys.is_empty() { Ended::Passed } else { Ended::Unsteady(whys.join("; ")) }
}

pub fn udp(n: u16, kbit: u64, payload: u64) -> FlowSpec {
    FlowSpec::udp(format!("u{n}"), 5_000 + n, 0, Rate::from_kbit(kbit), Bytes::new(payload))
}

pub fn a_minimum_is_held_against_fifty_greedy_flows() -> Ended {
    patiently(minimum)
}

fn minimum() -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping = shape(&pair, include_str!("../../../sim/tests/shapers/minimum.toml"));
    // Without its minimum the first would get what the others get, 196 kbit/s.
    let flows: Vec<_> = std::iter::once(udp(0, 2_200, 1_000)).chain((1..=50).map(|n| udp(n, 400, 700))).collect();
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    sleep(Duration::from_millis(700));
    let rates = measure(&sink, flows.len(), Duration::from_millis(2_500));
    senders.stop();
    shaping.stop().expect("an orderly end");
    let total: f64 = rates.iter().sum();
    println!("  {:.3} of {:.3} Mbit/s", rates[0] / 1e6, total / 1e6);
    near(rates[0].min(2e6), 2e6, 0.02)?;
    near(total, 10e6, 0.02)
}

pub fn preference_raises_a_share_at_once() -> Ended {
    patiently(preference)
}

fn preference() -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping = shape(&pair, include_str!("../../../sim/tests/shapers/preference.toml"));
    let flows: Vec<_> = (0..4).map(|n| udp(n, 12_000, 1_000)).collect();
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    sleep(Duration::from_millis(700));
    let before = measure(&sink, 4, Duration::from_secs(1));
    // Its part of what those get who send: the neighbours' protocols are flows of the class as well, and are silent.
    let part = shaping
        .with(|engine, now| {
            let shaper = engine.tree_mut().shaper_mut()?;
            // Rule i is profile i + 1.
            let key = shaper.flows().find(|flow| flow.profile == 1)?.key;
            shaper.prefer(now, key, 2).ok()?;
            let all: u64 =
                shaper.flows().filter(|flow| flow.counts.sent.packets > 100).map(|flow| flow.rate.as_bps()).sum();
            shaper.flow(key).map(|flow| flow.rate.as_bps() as f64 / all as f64)
        })
        .expect("an answer")
        .expect("a flow to prefer");
    // At once: without a pause in between.
    let after = measure(&sink, 4, Duration::from_millis(1_500));
    senders.stop();
    shaping.stop().expect("an orderly end");
    println!("  {:.3} to {:.3} Mbit/s, {part:.3} of all", before[0] / 1e6, after[0] / 1e6);
    assert!(part > 0.4, "{part}");
    near(before[0], 2.5e6, 0.03)?;
    near(after[0], part * 10e6, 0.03)?;
    near(after.iter().sum(), 10e6, 0.02)
}

const AF11: usize = 10;
const AF21: usize = 18;

pub fn a_displaced_flow_keeps_its_order_and_comes_back() -> Ended {
    patiently(displacement)
}

fn displacement() -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping = shape(&pair, include_str!("../../../sim/tests/shapers/displacement.toml"));
    let flows: Vec<_> = (0..5).map(|n| udp(n, 5_000, 1_000)).collect();
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let seen = |dscp: usize| sink.report(0).dscps[dscp];
    // Waits until the flow arrives with `dscp` and nothing else for a while.
    let settles = |dscp: usize, other: usize| {
        until(&format!("only {dscp} arrives"), || {
            let (wanted, unwanted) = (seen(dscp), seen(other));
            sleep(Duration::from_millis(200));
            seen(dscp) > wanted + 20 && seen(other) == unwanted
        });
    };
    let mover = Senders::start(&pair.sender, &pair.receiver, &flows[..1]).expect("a sender");
    settles(AF11, AF21);
    assert_eq!(seen(AF21), 0);
    let others = Senders::start(&pair.sender, &pair.receiver, &flows[1..]).expect("senders");
    settles(AF21, AF11);
    // Alone in the other class it gets all it asks for.
    let rate = measure(&sink, 1, Duration::from_millis(700))[0];
    near(rate, 5.14e6, 0.04)?;
    others.stop();
    settles(AF11, AF21);
    let report = sink.report(0);
    in_order(&report);
    assert_eq!(report.packets, report.dscps[AF11] + report.dscps[AF21]);
    mover.stop();
    shaping.stop().expect("an orderly end");
    Ok(())
}
