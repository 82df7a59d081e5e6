//! An orderly end loses nothing, neither what is held nor what comes meanwhile.

use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use tidegate_live::shaping::Shaping;
use tidegate_testbed::{Family, Host, Pair, Senders, Sink};
use tidegate_units::Rate;

use crate::flows::{dropped, udp, until};
use crate::rates::shape;
use tidegate_testbed::Ended;

/// A flow whose packets wait, as many as its socket may have on the way, and one that hardly waits: both go on while shaping ends.
fn end(how: impl FnOnce(Shaping)) -> Ended {
    let pair = Pair::create().expect("a pair of hosts");
    let before = dropped(&pair);
    let lost = || dropped(&pair) - before;
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
        let before: u64 = [0, 1].map(sent).iter().sum();
        sleep(Duration::from_millis(100));
        let after: u64 = [0, 1].map(sent).iter().sum();
        let arrived: u64 = [0, 1].map(|n| sink.report(n).packets).iter().sum();
        before == after && after == arrived + lost()
    });
    senders.stop();
    let reports = sink.stop();
    for report in &reports {
        println!("  {} arrived, {} missing, {} behind", report.packets, report.missing, report.reordered);
        assert!(report.packets > 80, "{}", report.packets);
    }
    assert!(reports.iter().map(|report| report.missing).sum::<u64>() <= lost());
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

/// Tests hold nothing against a data path that a receiver without time had no room for.
pub fn what_the_machine_drops_is_counted() -> Ended {
    const SENT: u64 = 400;
    let pair = Pair::create().expect("a pair of hosts");
    let before = dropped(&pair);
    let mut missing = 0;
    for family in [Family::V4, Family::V6] {
        let (to, from) = (pair.receiver.address(family), pair.sender.address(family));
        let bind =
            |host: &Host, address: IpAddr| host.namespace.run(|| UdpSocket::bind((address, 0)).expect("a socket"));
        let (receiver, sender) =
            (bind(&pair.receiver, to).expect("a thread"), bind(&pair.sender, from).expect("a thread"));
        setsockopt(&receiver, sockopt::RcvBuf, &4_096).expect("a small buffer");
        let target = receiver.local_addr().expect("an address");
        for _ in 0..SENT {
            sender.send_to(&[0; 500], target).expect("sent");
        }
        // All have come: the last one is counted or can be read.
        receiver.set_read_timeout(Some(Duration::from_millis(500))).expect("a time-out");
        let arrived = std::iter::from_fn(|| receiver.recv(&mut [0; 1_000]).ok()).count() as u64;
        assert!(arrived > 0 && arrived < SENT, "{arrived}");
        missing += SENT - arrived;
    }
    assert_eq!(dropped(&pair) - before, missing);
    Ended::Passed
}
