//! The aggregate rate, to a percent.

use std::thread::sleep;
use std::time::Duration;

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::shaping::{Options, Shaping};
use tidegate_testbed::{FlowSpec, Pair, Senders, Sink};
use tidegate_units::{Bytes, Rate};

use crate::flows::{at_most, in_order, near};
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

/// IPv4 and UDP headers: what the shaper counts beyond the payload that the sink counts.
pub const HEADERS: u64 = 28;

/// Shapes the sender's interface of `pair` by the shaper file `text`.
pub fn shape(pair: &Pair, text: &str) -> Shaping {
    let source = Source::new("test.toml", text);
    let mut diagnostics = Diagnostics::new();
    let Some(config) = shaper::load(&source, &mut diagnostics) else { panic!("{}", diagnostics.render(&source)) };
    let options = Options { interfaces: vec![pair.sender.interface.into()], ..Options::default() };
    match pair.sender.namespace.run(|| Shaping::start(&config, &options)).expect("a thread") {
        Ok(shaping) => shaping,
        Err(error) => panic!("{error}"),
    }
}

/// Shapes `flows` UDP flows, which ask for half as much again, to `mbit`; the sum must arrive within a per cent of it.
fn rate(mbit: u64, flows: u16) -> Ended {
    patiently(|| attempt(Rate::from_mbit(mbit), flows))
}

fn attempt(rate: Rate, flows: u16) -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let shaping = shape(
        &pair,
        &format!("version = 1\n[[class]]\nname = \"all\"\nrate = \"{rate}\"\nborrow = false\ndefault = true\n"),
    );
    // Each flow alone would fill the rate and half of it again.
    let offered = Rate::from_bps(rate.as_bps() * 3 / 2 / u64::from(flows));
    let flows: Vec<_> =
        (0..flows).map(|n| FlowSpec::udp(format!("u{n}"), 5_000 + n, 0, offered, Bytes::new(1_400))).collect();
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    sleep(Duration::from_millis(600));
    let (reports, elapsed) = at_most(rate, &shaping, || sink.measure(Duration::from_secs(4)));
    senders.stop();
    let counts = shaping.stop().expect("an orderly end");
    let bytes: u64 = reports.iter().map(|report| report.bytes + report.packets * HEADERS).sum();
    let got = bytes as f64 * 8e9 / elapsed as f64;
    println!("  {rate}: {:.3} Mbit/s, {counts:?}", got / 1e6);
    reports.iter().for_each(in_order);
    assert_eq!(counts.socket.refused_verdicts, 0);
    near(got, rate.as_bps() as f64, 0.01)
}

pub fn one_megabit() -> Ended {
    rate(1, 2)
}
pub fn ten_megabits() -> Ended {
    rate(10, 4)
}
pub fn a_hundred_megabits() -> Ended {
    rate(100, 4)
}
pub fn five_hundred_megabits() -> Ended {
    rate(500, 4)
}
