//! A conditioned class live: a rate adaptive shaper before a trTCM that marks AF code points (RFC 2963).

use std::thread::sleep;
use std::time::Duration;

use tidegate_testbed::{FlowSpec, Pair, Senders, Sink};
use tidegate_units::{Bytes, Rate};

use crate::flows::{in_order, near};
use crate::rates::{HEADERS, shape};
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

pub fn an_assured_class_is_metered_and_marked() -> Ended {
    patiently(assured)
}

fn assured() -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping = shape(&pair, include_str!("../../../../examples/assured.toml"));
    // 28 Mbit/s of payload where 10 are committed and 20 are the peak.
    let flows = [FlowSpec::udp("bulk", 5_000, 0, Rate::from_mbit(28), Bytes::new(1_400))];
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    sleep(Duration::from_millis(800));
    let (reports, elapsed) = sink.measure(Duration::from_secs(3));
    let report = &reports[0];
    senders.stop();
    shaping.stop().expect("an orderly end");
    let rate = |dscp: usize| report.dscps[dscp] as f64 * (1_400 + HEADERS) as f64 * 8e9 / elapsed as f64 / 1e6;
    let [green, yellow, red] = [10, 12, 14].map(rate);
    println!("  AF11 {green:.2}, AF12 {yellow:.2}, AF13 {red:.2} Mbit/s");
    assert_eq!(report.dscps.iter().sum::<u64>(), report.dscps[10] + report.dscps[12] + report.dscps[14]);
    in_order(report);
    // RFC 2698: green up to CIR, green and yellow together up to PIR; the rest is red.
    near(green, 10.0, 0.03)?;
    near(green + yellow, 20.0, 0.03)?;
    if red > 5.0 { Ok(()) } else { Err(format!("{red} Mbit/s are red")) }
}
