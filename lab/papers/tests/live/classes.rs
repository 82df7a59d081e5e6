//! Classes side by side, and both protocols.

use std::thread::sleep;
use std::time::Duration;

use tidegate_testbed::{Family, FlowSpec, Pair, Senders, Sink};

use crate::flows::{in_order, measure, near, udp, until};
use crate::rates::shape;
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

pub fn greedy_classes_get_their_rates_and_borrow_within_the_total() -> Ended {
    patiently(borrowing)
}

fn borrowing() -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let class = |n: u64| {
        format!(
            "[[class]]\nname = \"c{n}\"\nrate = \"{}mbit\"\n{}[[rule]]\nclass = \"c{n}\"\ndestination-port = 500{n}\n",
            2 + 2 * n,
            if n == 0 { "default = true\n" } else { "" }
        )
    };
    let shaping = shape(&pair, &format!("version = 1\n{}", (0..3).map(class).collect::<String>()));
    let flows: Vec<_> = (0..3).map(|n| udp(n, 15_000, 1_000)).collect();
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let greedy = Senders::start(&pair.sender, &pair.receiver, &flows[..2]).expect("senders");
    let third = Senders::start(&pair.sender, &pair.receiver, &flows[2..]).expect("a sender");
    sleep(Duration::from_millis(800));
    let all = measure(&sink, 3, Duration::from_millis(2_500));
    third.stop();
    // What it has queued, 200 ms at its rate, leaves first.
    let waits = || shaping.status().expect("the classes")[2].counts.backlog.packets > 0;
    until("the third has nothing left", || !waits());
    sleep(Duration::from_millis(200));
    let two = measure(&sink, 3, Duration::from_secs(2));
    greedy.stop();
    shaping.stop().expect("an orderly end");
    println!("  {all:.0?}, then {two:.0?}");
    for (rate, own) in all.iter().zip([2e6, 4e6, 6e6]) {
        near(*rate, own, 0.03)?;
    }
    if two[0] < 2.1e6 || two[1] < 4.1e6 || two[2] > 0.0 {
        return Err(format!("the two share what the third leaves: {two:?}"));
    }
    near(two.iter().sum(), 12e6, 0.02)
}

pub fn both_protocols_are_shaped_and_re_marked() -> Ended {
    patiently(protocols)
}

fn protocols() -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping =
        shape(&pair, "version = 1\n[[class]]\nname = \"all\"\nrate = \"8mbit\"\ndscp = \"af31\"\ndefault = true\n");
    // Datagrams with a wrong checksum would not reach the receiver's sockets. The headers of IPv6 are larger by 20.
    let flows = [udp(0, 10_000, 972), FlowSpec { family: Family::V6, ..udp(1, 10_000, 952) }];
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    sleep(Duration::from_millis(700));
    let (reports, elapsed) = sink.measure(Duration::from_secs(2));
    senders.stop();
    shaping.stop().expect("an orderly end");
    for report in reports {
        in_order(&report);
        assert_eq!(report.dscps[26], report.packets);
        near(report.packets as f64 * 1_000.0 * 8e9 / elapsed as f64, 4e6, 0.03)?;
    }
    Ok(())
}

/// The probes that prove the classes are no flows, however many packets are read beside them: none leaves the host or
/// takes what is promised to others.
pub fn probes_are_no_flows() -> Ended {
    let pair = Pair::create().expect("a pair of hosts");
    let text = "version = 1\n[[class]]\nname = \"calls\"\nrate = \"2mbit\"\n\
         [[class]]\nname = \"rest\"\nrate = \"8mbit\"\ndefault = true\n\
         [[rule]]\nclass = \"calls\"\ndestination-port = 5000\nminimum = \"1mbit\"\n";
    // Nothing of this goes to port 5000, and it keeps the data path busy.
    let flows = [udp(5, 40_000, 200), udp(6, 6_000, 1_000), FlowSpec::tcp("bulk", 5_007, 0)];
    let _sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    for n in 0..60 {
        let shaping = shape(&pair, text);
        // Rule 0 is profile 1.
        let promised = shaping
            .with(|engine, _| engine.tree().shaper().map(|all| all.flows().filter(|one| one.profile == 1).count()))
            .expect("an answer");
        assert_eq!(promised, Some(0), "start {n}");
        shaping.stop().expect("an orderly end");
    }
    senders.stop();
    Ended::Passed
}
