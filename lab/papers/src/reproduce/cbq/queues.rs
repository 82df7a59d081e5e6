//! The queues of the classes in section 5.4: their backlog (figure 16b), and RED in them. Also figure 8, the turns of
//! round robin, the rate that a class leaves unused, and the row of table 2 with links of 45, 45 and 10 Mbit/s.

use tidegate_core::cbq::{Cbq, Class, General, Params};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::qdisc::Discard;
use tidegate_core::red::Thresholds;
use tidegate_core::{Bytes, ClassId, Instant, Qdisc, Rate};
use tidegate_report::{Axis, Curve, Plot, Style};
use tidegate_sim::{Driver, SimPacket, Stage};

use super::rig::{Leaf, Load, Outcome, ROOT, Rig};
use super::{Item, LINK, Options, Paper, TCP, UDP, at_500_hz, kernel, percent};
use crate::Failure;
use crate::reproduce::figure::Figure;
use crate::reproduce::item::{Bound, paper, theory};

const PARTS: [(u32, u64); 3] = [(1, 50), (2, 30), (3, 20)];
const FIVE: Load = Load::Tcp { connections: 5, mss: 1_460, window: 16_384 };
/// RED's thresholds in ALTQ, which cannot be configured together with CBQ.
const ALTQ: Thresholds = Thresholds::Packets { min: 5, max: 15 };

fn three(load: Load) -> Rig {
    let leaves = PARTS.iter().map(|&(id, share)| Leaf::new(id, percent(share).borrowing(), load)).collect();
    Rig { seconds: 60, ..Rig::new(kernel(1_500), leaves) }.with_driver(at_500_hz(Driver::MODIFIED))
}

/// Section 2: the class with 20 % has traffic for half a second, the other two always.
pub fn left_over(_: &Options, _: &Paper) -> Result<Vec<Item>, Failure> {
    let run = |borrow: bool, general: General| {
        let class = |share| if borrow { percent(share).borrowing() } else { percent(share) };
        let mut leaves: Vec<Leaf> = PARTS.iter().map(|&(id, share)| Leaf::new(id, class(share), UDP)).collect();
        leaves[2].when = vec![(0.0, 0.5)];
        Rig::new(Params { general, ..kernel(1_500) }, leaves).with_driver(at_500_hz(Driver::MODIFIED)).run()
    };
    let [alone, lent] = [false, true].map(|borrow| run(borrow, General::WeightedRoundRobin));
    let by_packets = run(true, General::PacketRoundRobin);
    let used = |outcome: &Outcome| 100.0 * (outcome.kbit(1, 5) + outcome.kbit(2, 5)) * 1e3 / LINK.as_bps() as f64;
    let part = |outcome: &Outcome| outcome.kbit(1, 5) / outcome.kbit(2, 5) / (50.0 / 30.0);
    let wasted = paper("section 2.1: without borrowing the excess is simply wasted; 3 % in a plot");
    let proportion = paper("section 2: the excess is redistributed by the relative allocations; 3 % in a plot");
    let redistributed = paper("section 2: the excess of a class is redistributed; the 80 % without it, and 3 %");
    let of_link = |id: &str, what: &str, value| Item::measured(format!("s2.{id}"), what, "%", value);
    let excess = |id: &str, how: &str, outcome: &Outcome| {
        let what =
            format!("the rate of the class of 50 % over that of 30 %, relative to their allocations, borrow, {how}");
        Item::measured(format!("s2.{id}"), what, "ratio", part(outcome))
    };
    let what = "the part of the link that classes of 50 and 30 % use while a third is idle, no borrow";
    Ok(vec![
        of_link("wasted", what, used(&alone)).paper(80.0).bound(Bound::near(80.0, 0.03, wasted)),
        of_link(
            "used",
            "the part of the link that classes of 50 and 30 % use while a third is idle, borrow",
            used(&lent),
        )
        .bound(Bound::above(82.4, redistributed)),
        excess("excess", "weighted round robin", &lent).paper(1.0).bound(Bound::near(1.0, 0.03, proportion)),
        excess("by-packets", "packet round robin", &by_packets),
    ])
}

/// The bytes that a class may send in a round of weighted round robin (section 2.1).
fn allotment(share: u64) -> f64 {
    3.0 * 1_500.0 * share as f64 / 100.0
}

pub fn run(options: &Options, items: &mut Vec<Item>) -> Result<(), Failure> {
    let wanted = |group| options.wants(group);
    if wanted("s5.4.queue") || wanted("s5.4.red") {
        let five = three(FIVE).run();
        if wanted("s5.4.queue") {
            backlogs(options, &five, items)?;
        }
        if wanted("s5.4.red") {
            red(&five, items);
        }
    }
    if wanted("s5.4.classes") || wanted("s5.4.sparse") {
        classes(options, items)?;
    }
    if wanted("s5.45mbit") {
        fast_links(items);
    }
    Ok(())
}

/// Figure 16b: the median backlog of each class.
fn backlogs(options: &Options, five: &Outcome, items: &mut Vec<Item>) -> Result<(), Failure> {
    let one = three(TCP).run();
    if options.plots.wanted() {
        let curves = PARTS.iter().map(|&(id, share)| Curve::new(format!("{share} %"), five.backlog(id)));
        let plot = Plot {
            note: None,
            title: "Bytes that wait in each class, five TCPs a class, borrow (figure 16b)".to_owned(),
            x: Axis::new("time", "s"),
            y: Axis::new("queue", "B"),
            style: Style::Steps,
            curves: curves.map(|curve| seconds_of(curve, 10.0, 20.0)).collect(),
        };
        options.plots.add("figure-16b", plot)?;
    }
    for (id, share) in PARTS {
        let what =
            |how: &str| format!("bytes in the queue of the class of {share} %, {how}: median over its allotment");
        let basis =
            paper("section 5.4, figure 16b: there is now enough backlog to fully exploit the allotment of each class");
        items.push(
            Item::measured(
                format!("s5.4.queue.five.{id}"),
                what("five TCPs"),
                "ratio",
                five.median_backlog(id, 5) / allotment(share),
            )
            .bound(Bound::at_least(1.0, basis)),
        );
        let item = Item::measured(
            format!("s5.4.queue.one.{id}"),
            what("one TCP"),
            "ratio",
            one.median_backlog(id, 5) / allotment(share),
        );
        let basis = paper("section 5.3: the output buffers provide insufficient backlog in the input queues");
        items.push(item.bound(Bound::below(1.0, basis)));
    }
    Ok(())
}

/// Restricts a curve to the seconds `from` to `until`.
fn seconds_of(mut curve: Curve, from: f64, until: f64) -> Curve {
    curve.points.retain(|point| point.0 >= from && point.0 < until);
    curve
}

/// RED in the queues of the classes.
fn red(plain: &Outcome, items: &mut Vec<Item>) {
    let with = |thresholds| Rig { red: Some(thresholds), ..three(FIVE) }.run();
    let early = with(ALTQ);
    let high = with(Thresholds::Packets { min: 15, max: 45 });
    for (id, share) in PARTS {
        let what =
            format!("share of the class of {share} % with RED at three times these thresholds over that without");
        items.push(Item::measured(
            format!("s5.4.red.high.{id}"),
            what,
            "ratio",
            high.share(id, 5) / plain.share(id, 5),
        ));
    }
    let low = with(Thresholds::Bytes { min: Bytes::new(500), max: Bytes::new(1_500) });
    for (id, share) in PARTS {
        let part = |outcome: &Outcome| outcome.share(id, 5);
        let basis =
            paper("section 5.4: with RED the experiments did not show any change in the class share; 3 % in a plot");
        items.push(
            Item::measured(
                format!("s5.4.red.{id}"),
                format!(
                    "share of the class of {share} % with RED (5 and 15 packets) over that without, five TCPs a class"
                ),
                "ratio",
                part(&early) / part(plain),
            )
            .paper(1.0)
            .bound(Bound::near(1.0, 0.03, basis)),
        );
    }
    let basis =
        paper("section 5.4: with min_thresh below its allotment WRR may not be able to sustain the class's share");
    items.push(
        Item::measured(
            "s5.4.red.low",
            "share of the class of 50 % with RED below its allotment of 2250 B (500 and 1500 B) over that without",
            "ratio",
            low.share(1, 5) / plain.share(1, 5),
        )
        .bound(Bound::below(0.97, basis)),
    );
}

/// The delay under weighted round robin among classes that are always backlogged: of a TCP at the rate of its class, which
/// waits for its turn, and of a class that sends a packet now and then.
fn classes(options: &Options, items: &mut Vec<Item>) -> Result<(), Failure> {
    /// One packet every 243 ms, which is not a multiple of the 6 ms that a packet takes on the link. The rate is below
    /// that of one of 20 classes, so that the class is under its limit and goes first where others borrow.
    const SPARSE: Load = Load::Udp { rate: Rate::from_bps(49_300), packet: 1_500 };
    let run = |classes: u32, borrow: bool, load: Load, at: u32| {
        let class = || {
            let class = Class::new(Rate::from_bps(LINK.as_bps() / u64::from(classes)));
            if borrow { class.borrowing() } else { class }
        };
        let rate = Rate::from_bps(3 * LINK.as_bps() / 2 / u64::from(classes));
        let busy = Load::Udp { rate, packet: 1_500 };
        let leaves = (1..=classes).map(|id| Leaf::new(id, class(), if id == at { load } else { busy })).collect();
        let rig = Rig { seconds: 60, ..Rig::new(kernel(1_500), leaves) }.with_driver(at_500_hz(Driver::SMALL));
        rig.run()
    };
    for (id, how, borrow) in [("no-borrow", "no borrow", false), ("borrow", "borrow", true)] {
        let mut before: Option<f64> = None;
        for n in [3, 5, 10, 20] {
            // The last one in the ring. With few classes the longest waits are suspensions.
            let wait = run(n, borrow, TCP, n).longest_turn_ms(n, 5);
            let what =
                format!("the longest wait of a packet of TCP for the turn of its class, {n} full classes, {how}");
            let item = Item::measured(format!("s5.4.classes.{n}.{id}"), what, "ms", wait);
            let basis = paper("section 5.4: the more classes there are, the larger the delay guaranteed to each class");
            items.push(match before {
                Some(fewer) => item.bound(Bound::above(fewer, basis)),
                None => item,
            });
            before = Some(wait);
            let wait = run(n, borrow, SPARSE, 1).longest_until_ms(1, 5, Stage::Dequeued);
            let what = format!(
                "the longest wait in the scheduler of a class that sends now and then, {n} full classes, {how}"
            );
            items.push(Item::measured(format!("s5.4.sparse.{n}.{id}"), what, "ms", wait));
        }
    }
    let curve = |how: &str| {
        let points = [3, 5, 10, 20].map(|n| (f64::from(n), format!("s5.4.classes.{n}.{how}")));
        (how.to_owned(), points.into())
    };
    Figure {
        name: "delay-against-classes".to_owned(),
        title: "The longest wait for a turn against the number of full classes (section 5.4)".to_owned(),
        curves: ["borrow", "no-borrow"].map(curve).into(),
        ..Figure::default()
    }
    .draw(options, items, Axis::new("classes", ""), Axis::new("longest wait", "ms"))
}

/// The second row of table 2, with sources at 45 Mbit/s and the link of CBQ at 10 Mbit/s.
fn fast_links(items: &mut Vec<Item>) {
    let link = Rate::from_mbit(10);
    let class = |share: u64| Class::new(Rate::from_bps(link.as_bps() / 100 * share));
    let run = |load: Load, borrow: bool| {
        let class = |share| if borrow { class(share).borrowing() } else { class(share) };
        let leaves = PARTS.iter().map(|&(id, share)| Leaf::new(id, class(share), load)).collect();
        let params = Params::altq(link, Bytes::new(1_500), ROOT);
        let rig = Rig { input: Rate::from_mbit(45), seconds: 20, ..Rig::new(params, leaves) };
        rig.with_driver(at_500_hz(Driver::MODIFIED)).run()
    };
    let udp = Load::Udp { rate: Rate::from_mbit(15), packet: 1_500 };
    for (id, how, load, borrow, source) in [
        ("udp.no-borrow", "three UDP classes, no borrow", udp, false, "section 5.1"),
        ("udp.borrow", "three UDP classes, borrow", udp, true, "section 5.1"),
        ("tcp.no-borrow", "a TCP with a window of 64 KB in each class, no borrow", wide(1), false, "section 5.3"),
        ("tcp.five", "five TCPs in each class, borrow", FIVE, true, "section 5.4"),
    ] {
        let outcome = run(load, borrow);
        let parts = PARTS.iter().map(|&(id, share)| (outcome.share(id, 5) * 100.0 / share as f64 - 1.0).abs() * 100.0);
        let basis = paper(format!("{source}, and table 2: the rules are respected on all links; a plot hides 3 %"));
        items.push(
            Item::measured(
                format!("s5.45mbit.{id}"),
                format!(
                    "links of 45, 45 and 10 Mbit/s, {how}: the worst deviation from a class's share of the traffic"
                ),
                "%",
                parts.fold(0.0, f64::max),
            )
            .bound(Bound::at_most(3.0, basis)),
        );
    }
}

fn wide(connections: u32) -> Load {
    Load::Tcp { connections, mss: 1_460, window: 65_535 }
}

/// Tests the order of weighted round robin alone. Classes of 75 and 25 % have 20 packets each, and the link takes eight
/// packets at once, which is less than a burst.
pub fn turns(items: &mut Vec<Item>) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let mut tree = Cbq::<SimPacket, Fifo<SimPacket>>::new(kernel(1_500)).map_err(|error| failed(&error))?;
    for (id, share) in [(1, 75), (2, 25)] {
        let queue = Fifo::new(Limit::packets(50));
        let class = percent(share).borrowing();
        tree.add_leaf(Instant::ZERO, ClassId(id), ROOT, class, queue).map_err(|error| failed(&error))?;
        for _ in 0..20 {
            let mut packet = SimPacket::datagram(u64::from(id), 1_500);
            packet.class = id as u16;
            tree.enqueue(Instant::ZERO, packet, &mut Discard);
        }
    }
    let left: Vec<u16> =
        (0..8).filter_map(|_| tree.dequeue(Instant::ZERO, &mut Discard)).map(|packet| packet.class).collect();
    for (id, packets) in [(1, 6.0), (2, 2.0)] {
        let count = left.iter().filter(|class| **class == id).count() as f64;
        let basis =
            paper("section 2.1: in a round as many bytes as classes times the largest packet, by allocation: 3 and 1");
        let what = format!("of the first eight packets, those of the class of {} %", if id == 1 { 75 } else { 25 });
        items.push(
            Item::measured(format!("s5.round.first.{id}"), what, "packets", count)
                .paper(packets)
                .bound(Bound::around(packets, 0.0, basis)),
        );
    }
    Ok(())
}

/// Figure 8: packets leave the scheduler faster than the link for a short time.
pub fn ahead_of_the_link(options: &Options, items: &mut Vec<Item>, outcome: &Outcome) -> Result<(), Failure> {
    if options.plots.wanted() {
        let curve = |name: &str, stage| Curve::new(name, outcome.passed(stage, (10.0, 11.0)));
        let plot = Plot {
            note: None,
            title: "Behind the scheduler and at the other end of the link (figure 8)".to_owned(),
            x: Axis::new("time", "s"),
            y: Axis::new("sent so far", "B"),
            style: Style::Steps,
            curves: vec![curve("behind CBQ", Stage::Dequeued), curve("on the link", Stage::Transmitting)],
        };
        options.plots.add("figure-8", plot)?;
    }
    let basis = paper("section 4.2, figure 8: packets are served faster than the link's capacity in short intervals");
    items.push(
        Item::measured(
            "s4.2.ahead.cbq",
            "the highest rate over 30 ms at which packets leave the scheduler",
            "kbit/s",
            outcome.fastest(Stage::Dequeued, 30.0),
        )
        .bound(Bound::above(2_000.5, basis)),
    );
    let basis = theory("the link has 2 Mbit/s");
    items.push(
        Item::measured(
            "s4.2.ahead.link",
            "the highest rate over 30 ms on the link",
            "kbit/s",
            outcome.fastest(Stage::Transmitting, 30.0),
        )
        .bound(Bound::at_most(2_000.5, basis)),
    );
    Ok(())
}
