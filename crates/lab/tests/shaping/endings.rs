//! An orderly end loses nothing, neither what is held nor what comes meanwhile.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_lab::{Pair, Senders, Sink};
use tidegate_live::shaping::Shaping;

use crate::flows::udp;
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
    sleep(Duration::from_millis(800));
    let status = shaping.status().expect("an answer");
    let held = status[0].counts.backlog.packets;
    assert!(held > 80, "{held}");
    let before = sink.report(1).packets;
    how(shaping);
    sleep(Duration::from_millis(300));
    let sent = |n| senders.sent(n).packets.load(std::sync::atomic::Ordering::Relaxed);
    assert!(sink.report(1).packets > before + 500, "traffic passes afterwards");
    // The last datagrams may still be on their way; a gap never closes.
    let deadline = Instant::now() + Duration::from_secs(2);
    while [0, 1].iter().any(|&n| sink.report(n).packets + 100 < sent(n)) && Instant::now() < deadline {
        sleep(Duration::from_millis(20));
    }
    senders.stop();
    sleep(Duration::from_millis(100));
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
