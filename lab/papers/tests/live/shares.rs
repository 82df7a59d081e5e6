//! Who gets what.

use std::thread::sleep;
use std::time::Duration;

use tidegate_testbed::{FlowSpec, Pair, Senders, Sink};
use tidegate_units::{Bytes, Rate};

use crate::flows::{measure, near};
use crate::rates::shape;
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

pub fn eight_flows_share_evenly() -> Ended {
    patiently(evenly)
}

fn evenly() -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping = shape(&pair, "version = 1\n[[class]]\nname = \"all\"\nrate = \"40mbit\"\ndefault = true\n");
    // Packets of very different sizes, all flows asking for more than their 5 Mbit/s.
    let flows: Vec<_> = (0..8_u16)
        .map(|n| {
            let size = 200 + 170 * u64::from(n);
            FlowSpec::udp(format!("u{n}"), 5_000 + n, 0, Rate::from_mbit(6 + u64::from(n)), Bytes::new(size))
        })
        .collect();
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    sleep(Duration::from_millis(700));
    let rates = measure(&sink, 8, Duration::from_secs(3));
    senders.stop();
    shaping.stop().expect("an orderly end");
    println!("  {:?}", rates.iter().map(|rate| (rate / 1e4).round() / 100.0).collect::<Vec<_>>());
    rates.into_iter().try_for_each(|rate| near(rate, 5e6, 0.03))
}
