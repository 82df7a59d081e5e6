//! The shaper between two namespaces beside the kernel's HTB in the same place, and on a gateway: see `tools/benches/live.sh` and
//! `gateway.sh`. It needs root, and the program at `target/release/tidegate`.

use tidegate_benches::Harness;
use tidegate_benches::peers::{Peer, measure};

/// The shaper, its peer, and the figures of both with their units.
type Comparison = (Peer, Peer, &'static [(&'static str, &'static str)]);

fn main() {
    let mut harness = Harness::from_args();
    let figures: [Comparison; 2] = [
        (
            Peer::Live,
            Peer::Htb,
            &[("udp", "packets/s"), ("tcp", "bit/s"), ("cpu", "ns"), ("start", "ms"), ("status", "ms")],
        ),
        (
            Peer::LivePaced,
            Peer::HtbPaced,
            &[
                ("cpu-20", "%"),
                ("cpu-100", "%"),
                ("cpu-500", "%"),
                ("gap-20", "µs"),
                ("gap-100", "µs"),
                ("gap-500", "µs"),
            ],
        ),
    ];
    for (ours, theirs, figures) in figures {
        let (ours, htb) = match (measure(ours), measure(theirs)) {
            (Ok(ours), htb) => (ours, htb),
            (Err(reason), _) => {
                println!("{ours:?}: not measured: {reason}");
                continue;
            }
        };
        for &(name, unit) in figures {
            let Some(figure) = ours.get(name) else { continue };
            harness.figure(name, unit, || figure.median);
            match &htb {
                Ok(htb) => {
                    if let Some(peer) = htb.get(name) {
                        harness.ratio(name, figure.median, "HTB", peer.median);
                    }
                }
                Err(reason) => println!("  HTB: not measured: {reason}"),
            }
        }
    }
    gateway(&mut harness);
}

/// Shaping costs the whole system what it takes more than forwarding alone.
fn gateway(harness: &mut Harness) {
    let [bare, htb, ours] = match ["nothing", "htb", "tidegate"].map(|shaper| measure(Peer::Gateway(shaper))) {
        [Ok(bare), Ok(htb), Ok(ours)] => [bare, htb, ours],
        results => {
            results.iter().filter_map(|result| result.as_ref().err()).for_each(|why| println!("gateway: {why}"));
            return;
        }
    };
    for rate in [100, 500] {
        let (system, call) = (format!("system-{rate}"), format!("call-{rate}"));
        if let (Some(bare), Some(ours)) = (bare.get(&system), ours.get(&system)) {
            harness.figure(&format!("gateway-{rate}"), "%", || ours.median - bare.median);
        }
        if let (Some(htb), Some(ours)) = (htb.get(&call), ours.get(&call)) {
            harness.figure(&call, "µs", || ours.median);
            harness.ratio(&call, ours.median, "HTB", htb.median);
        }
    }
}
