//! Ceilings on a real interface: each host below its own, all together below that of their class, while the line is idle.

use std::time::{Duration, Instant};

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::fbq::HeldBy;
use tidegate_live::shaping::Shaping;
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;
use tidegate_testbed::veth::{DEVICE, Pair};

use crate::arrivals::hosts;
use crate::threads::{flood, sockets, start};

const BURST: u64 = 6_000;

/// A line of 20 Mbit/s, of which the hosts are promised half a Mbit/s.
fn config(class: &str, host: &str) -> shaper::Config {
    let text = format!(
        "version = 1\n[interface]\nname = \"{DEVICE}\"\n[shaper]\nrate = \"20mbit\"\nfair-by = \"destination\"\n[[class]]\n\
         name = \"guests\"\nrate = \"500kbit\"\nburst = \"{BURST}B\"\nat-most = \"{class}\"\nhost-at-most = \"{host}\"\n\
         default = true\n[[class]]\nname = \"rest\"\nrate = \"1mbit\"\n"
    );
    shaper::load(&Source::new("ceilings.toml", &text), &mut Diagnostics::new()).expect("a file")
}

fn held_by(shaping: &Shaping) -> Option<HeldBy> {
    shaping.with_shard(0, |engine, _| engine.tree().classes()[0].held_by).expect("an engine")
}

/// Waits until nothing is queued: hosts of an earlier part would send beside those of the next.
fn drained(shaping: &Shaping) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while shaping.with_shard(0, |engine, _| engine.queued()).expect("an engine") > 0 {
        assert!(Instant::now() < deadline, "packets still wait");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn hosts_and_their_class_stay_below_their_ceilings_through_a_change() -> Ended {
    patiently(|| {
        let pair = Pair::new();
        let mut shaping = start(&pair, &config("3mbit", "1mbit"));
        let all = sockets(&pair, &hosts(&pair, 6));
        let second = Duration::from_secs(1);
        // Two hosts have 1 Mbit/s each; six would have six, and have the 3 of their class.
        let two = flood(&shaping, &all[..2], second, (2_000_000, 2 * BURST + 1_514));
        let held = [held_by(&shaping)];
        drained(&shaping);
        let six = flood(&shaping, &all, second, (3_000_000, BURST + 1_514));
        let held = [held[0], held_by(&shaping)];
        drained(&shaping);
        pair.left.run(|| shaping.reconfigure(&config("8mbit", "1500kbit"), None)).unwrap().unwrap();
        let raised = flood(&shaping, &all[..4], second, (6_000_000, 6 * BURST + 1_514));
        pair.left.run(|| shaping.stop()).unwrap().unwrap();
        println!("  {two:.3}, {six:.3} and {raised:.3} of the ceilings; held by {held:?}");
        assert_eq!(held, [Some(HeldBy::Host), Some(HeldBy::Class)]);
        let parts = [two, six, raised];
        if parts.iter().all(|part| *part > 0.93) { Ok(()) } else { Err(format!("{parts:?} of the ceilings")) }
    })
}
