//! Hosts that share the classes of a gateway: none hurts a call of its own or of another.

use std::thread::sleep;
use std::time::Duration;

use tidegate_config::shaper::{Direction, split};
use tidegate_testbed::{FlowSpec, Pair, Senders, Sink};
use tidegate_units::{Bytes, Rate};

use crate::rates::shape;
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

pub fn a_host_keeps_its_call_beside_its_own_uploads() -> Ended {
    patiently(call)
}

/// 100 packets/s to the class `calls` beside four uploads of the same host.
fn call() -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let up = split(include_str!("../../../../examples/gateway.toml"), Direction::Egress).expect("a file for both");
    let shaping = shape(&pair, &up);
    let rate = Rate::from_bps(100 * 200 * 8);
    let mut flows = vec![FlowSpec::udp("call", 10_000, 0, rate, Bytes::new(172))];
    flows.extend((0..4).map(|n| FlowSpec::tcp(format!("upload{n}"), 5_001 + n, 0)));
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    sleep(Duration::from_millis(700));
    let (reports, elapsed) = sink.measure(Duration::from_secs(3));
    senders.stop();
    shaping.stop().expect("an orderly end");
    let call = &reports[0];
    let p99 = Duration::from_nanos(call.delays.value_at_quantile(0.99));
    let uploads: u64 = reports[1..].iter().map(|report| report.bytes).sum();
    let uploads = uploads as f64 * 8e9 / elapsed as f64;
    println!("  call: {} of {} missing, p99 {p99:?}; uploads {:.1} Mbit/s", call.missing, call.packets, uploads / 1e6);
    if call.packets < 250 || call.missing > 0 {
        return Err(format!("{} packets of the call arrived, {} are missing", call.packets, call.missing));
    }
    if uploads < 35e6 {
        return Err(format!("the uploads have {uploads:.0} bit/s, and the call has no competition"));
    }
    if p99 >= Duration::from_millis(10) { Err(format!("the call waited {p99:?}")) } else { Ok(()) }
}
