//! An orderly end loses nothing, neither what is held nor what comes meanwhile.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use tidegate_lab::{Pair, Senders, Sink};
use tidegate_live::shaping::Shaping;
use tidegate_units::Rate;

use crate::flows::{udp, until};
use crate::rates::shape;
use crate::support::Ended;

/// A flow whose packets wait, as many as its socket may have on the way, and one that hardly waits: both go on while shaping ends.
fn end(how: impl FnOnce(Shaping)) -> Ended {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping = shape(
        &pair,
        "version = 1\n[[class]]\nname = \"slow\"\nrate = \"100kbit\"\nlimit = \"4MB\"\nflow-limit = \"4MB\"\n\
         borrow = false\n[[class]]\nname = \"fast\"\nrate = \"100mbit\"\ndefault = true\n\
         [[rule]]\nclass = \"slow\"\ndestination-port = 5000\n",
    );
    let flows = [udp(0, 4_000, 1_000), udp(1, 20_000, 500)];
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    until("packets wait", || shaping.status().expect("an answer")[0].counts.backlog.packets > 80);
    let before = sink.report(1).packets;
    how(shaping);
    until("traffic passes afterwards", || sink.report(1).packets > before + 500);
    for n in 0..flows.len() {
        senders.set_rate(n, Rate::ZERO);
    }
    let sent = |n| senders.sent(n).packets.load(Ordering::Relaxed);
    // A rate that is on its way to a sender, and the last datagrams; a gap never closes.
    until("all that was sent has arrived", || {
        let before = [0, 1].map(sent);
        sleep(Duration::from_millis(100));
        let arrived = [0, 1].map(|n| sink.report(n).packets);
        before == arrived && arrived == [0, 1].map(sent)
    });
    senders.stop();
    for report in sink.stop() {
        println!("  {} arrived, {} missing, {} behind", report.packets, report.missing, report.reordered);
        assert_eq!(report.missing, 0);
        assert!(report.packets > 80, "{}", report.packets);
    }
    Ended::Passed
}

pub fn stop_loses_nothing() -> Ended {
    end(|shaping| {
        let counts = shaping.stop().expect("an orderly end");
        assert_eq!(counts.refused, 0);
    })
}

pub fn dropping_the_handle_loses_nothing() -> Ended {
    end(drop)
}
