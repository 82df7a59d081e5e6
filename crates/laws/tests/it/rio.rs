//! The laws for RIO, coupled and uncoupled, and WRED in a FIFO.

use tidegate_core::aqm::AqmFifo;
use tidegate_core::fifo::Limit;
use tidegate_core::red::{AboveMax, EarlyDrop, Profile, Signal, Sizing, Spacing, Thresholds};
use tidegate_core::rio::{Coupling, Params, Rio};
use tidegate_core::wred::{self, Selector, Wred};
use tidegate_core::{Accounted, Bytes, Probability};
use tidegate_laws::{Shape, check_seeds};
use tidegate_testbed::share;

fn profile(min: u64, max: u64) -> Profile {
    Profile { thresholds: Thresholds::Packets { min, max }, max_p: Probability::from_ratio(1, 10).unwrap() }
}

#[test]
fn rio_obeys_the_laws() {
    let bytes = Thresholds::Bytes { min: Bytes::new(2_000), max: Bytes::new(8_000) };
    let packets = Params {
        green: profile(20, 40),
        yellow: profile(10, 20),
        red: profile(3, 10),
        early: EarlyDrop { weight: Probability::from_ratio(1, 8).unwrap(), ..Params::rfc2963().early },
        ..Params::rfc2963()
    };
    let mixed = Params {
        red: Profile { thresholds: bytes, ..packets.red },
        coupling: Coupling::Uncoupled,
        early: EarlyDrop {
            above_max: AboveMax::Gentle,
            spacing: Spacing::Geometric,
            sizing: Sizing::PerByte { mean: Bytes::new(700) },
            signal: Signal::Mark,
            ..packets.early
        },
        ..packets
    };
    let crowded = Shape { enqueues: 150, ..Shape::default() };
    for (params, shape) in [(packets, Shape::default()), (packets, crowded), (mixed, crowded)] {
        let fresh = || Accounted::new(AqmFifo::new(Limit::packets(60), Rio::new(params, 1, "rio").unwrap()));
        let report = check_seeds(fresh, &shape, share(4 * 50), 2_000);
        assert!(
            report.dropped > share(1_000) && report.dequeued > share(10_000) && report.backwards > share(100),
            "{report:?}"
        );
    }
}

#[test]
fn wred_obeys_the_laws() {
    let profiles = vec![profile(20, 40), profile(10, 20), profile(3, 10)];
    let by_colour = wred::Params {
        early: EarlyDrop { weight: Probability::from_ratio(1, 8).unwrap(), ..EarlyDrop::RECOMMENDED },
        ..wred::Params::new(profiles, Selector::Colour)
    };
    let table = core::array::from_fn(|dscp| (dscp % 3) as u8);
    let by_dscp = wred::Params { selector: Selector::Dscp(Box::new(table)), ..by_colour.clone() };
    let crowded = Shape { enqueues: 150, ..Shape::default() };
    for params in [by_colour, by_dscp] {
        let fresh = || Accounted::new(AqmFifo::new(Limit::packets(60), Wred::new(params.clone(), 1, "wred").unwrap()));
        let report = check_seeds(fresh, &crowded, share(4 * 50), 2_000);
        assert!(
            report.dropped > share(1_000) && report.dequeued > share(10_000) && report.backwards > share(100),
            "{report:?}"
        );
    }
}
