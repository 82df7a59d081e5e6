//! Section 6.3 again, with other values of what the paper leaves open: whether the other class sends too, and the resolution of
//! the kernel timer.

use tidegate_core::Bytes;
use tidegate_core::Rate;
use tidegate_core::cbq::{Class, Finish, Params};
use tidegate_sim::Driver;

use super::rig::{Leaf, Load, Rig};
use super::{Item, at_500_hz, exact, kernel, percent};
use crate::reproduce::item::{Bound, paper, theory};

/// A class with the configured packet size, of this percentage of the link.
fn class(share: u64, configured: u64) -> Class {
    Class { packet_size: Some(Bytes::new(configured)), ..percent(share) }
}

fn udp(size: u64) -> Load {
    Load::Udp { rate: Rate::from_mbit(3), packet: size }
}

/// The part of its rate that a class has beside one with the rest of the link, which sends packets of the same size. Neither borrows.
fn beside(params: Params, share: u64, configured: u64, size: u64) -> f64 {
    let leaf = |id, share| Leaf::new(id, class(share, configured), udp(size));
    let rig = Rig::new(params, vec![leaf(1, share), leaf(2, 100 - share)]).with_driver(at_500_hz(Driver::MODIFIED));
    rig.run().kbit(1, 2) / (20.0 * share as f64)
}

pub fn run(items: &mut Vec<Item>) {
    let old = kernel(9_180);
    let new = Params { finish: Finish::Actual, ..old };
    // Alone on the link a class finds the buffers of the driver empty after each suspension, so that the expected finish is late by its
    // own burst at most. The packets of another class fill them.
    for share in [75, 25] {
        let range = |params: Params| {
            let parts = [128, 540, 1_500].map(|size| beside(params, share, 9_180, size));
            parts.into_iter().fold(0.0, f64::max) - parts.into_iter().fold(1.0, f64::min)
        };
        let what = format!(
            "class of {share} %, 9180 B configured, 128 to 1500 B sent, expected finish, while the other class sends: range of the \
             parts of its rate"
        );
        let basis = paper(
            "section 6.3, figure 22: with the original under-time clearly less predictable than with the new one",
        );
        items.push(
            Item::measured(format!("s6.3.old.{share}.beside"), what, "part", range(old))
                .bound(Bound::above(range(new), basis)),
        );
    }
    let what = "class of 75 %, 9180 B configured, 1500 B sent, while the other class sends: part of its rate";
    let less = paper("section 6.3, figure 22: less where packets are smaller than configured; 2 % in a plot");
    items.push(
        Item::measured("s6.3.9180.1500.75.beside", what, "part", beside(new, 75, 9_180, 1_500))
            .bound(Bound::below(0.98, less)),
    );

    // The suspension of 16 packets of 128 B is 3.5 ms, and that for a packet of 540 B 2.9 ms: on a timer of 2 ms they are equal.
    let off = |min_burst: u32, driver: Driver| {
        let params = Params { finish: Finish::Actual, ..kernel(1_500) };
        let class = Class { min_burst, max_burst: 32, ..class(75, 128) };
        let part = Rig::new(params, vec![Leaf::new(1, class, udp(540))]).with_driver(driver).run().kbit(1, 2);
        (part / 1_500.0 - 1.0).abs()
    };
    let exact = exact(Driver::MODIFIED);
    let what = "class of 75 %, 128 B configured, 540 B sent, minburst 16, an exact timer: how far from its rate";
    let closer =
        theory("the statement of section 6.3, on a timer that notices the longer suspension: closer than with 2");
    items.push(
        Item::measured("s6.3.minburst.75.exact", what, "part", off(16, exact))
            .bound(Bound::below(off(2, exact), closer)),
    );
    for min_burst in [8, 24, 32] {
        let what = format!("class of 75 %, 128 B configured, 540 B sent, minburst {min_burst}: how far from its rate");
        let value = off(min_burst, at_500_hz(Driver::MODIFIED));
        items.push(Item::measured(format!("s6.3.minburst.75.{min_burst}"), what, "part", value));
    }
}
