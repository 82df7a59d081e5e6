//! The aggregate rate, to a percent.

use std::thread::sleep;
use std::time::Duration;

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_lab::{FlowSpec, Pair, Senders, Sink};
use tidegate_live::shaping::{Options, Shaping};
use tidegate_units::{Bytes, Rate};

use crate::support::Ended;

/// IPv4 and UDP headers: what the shaper counts beyond the payload that the sink counts.
pub const HEADERS: u64 = 28;

/// Shapes the sender's interface of `pair` by the shaper file `text`.
pub fn shape(pair: &Pair, text: &str) -> Shaping {
    let source = Source::new("test.toml", text);
    let mut diagnostics = Diagnostics::new();
    let Some(config) = shaper::load(&source, &mut diagnostics) else { panic!("{}", diagnostics.render(&source)) };
    let options = Options { interface: Some(pair.sender.interface.into()), ..Options::default() };
    match pair.sender.namespace.run(|| Shaping::start(&config, &options)).expect("a thread") {
        Ok(shaping) => shaping,
        Err(error) => panic!("{error}"),
    }
}

/// A machine that other work keeps busy may take the processor from the senders; one good run of three shows that
/// the shaper does what it says.
fn rate(mbit: u64, flows: u16) -> Ended {
    let mut deviations = Vec::new();
    while deviations.len() < 3 {
        let deviation = attempt(mbit, flows);
        if deviation.abs() < 0.01 {
            return Ended::Passed;
        }
        deviations.push(deviation);
    }
    panic!("{deviations:?}");
}

/// The deviation of the aggregate from what was configured.
fn attempt(mbit: u64, flows: u16) -> f64 {
    let pair = Pair::create().expect("a pair of hosts");
    let rate = Rate::from_mbit(mbit);
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
    sleep(Duration::from_secs(1));
    sink.restart();
    sleep(Duration::from_secs(5));
    let elapsed = sink.elapsed();
    let reports: Vec<_> = (0..flows.len()).map(|n| sink.report(n)).collect();
    senders.stop();
    let counts = shaping.stop().expect("an orderly end");
    let bytes: u64 = reports.iter().map(|report| report.bytes + report.packets * HEADERS).sum();
    let got = bytes as f64 * 8e9 / elapsed as f64;
    let deviation = got / rate.as_bps() as f64 - 1.0;
    println!("  {rate}: {:.3} Mbit/s, {:+.2} %, {counts:?}", got / 1e6, deviation * 100.0);
    let reordered: u64 = reports.iter().map(|report| report.reordered).sum();
    assert_eq!(reordered, 0, "reordered");
    assert_eq!(counts.socket.refused_verdicts, 0);
    deviation
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
