//! The link-sharing experiments of Floyd and Jacobson, 1995: a flat structure and two agencies, under the formal, the
//! ancestor-only and the top-level guidelines.
//!
//! The classes have 99 % of the link together; in the simulations of the authors it is 98 %. Otherwise the class at the
//! top would never be over its limit, and the approximations would never regulate a class.

use tidegate_core::cbq::{Borrow, Class, Conserving, Heuristic, Params, Sharing};
use tidegate_core::{Bytes, ClassId, Rate, Span};

use super::rig::{Leaf, Load, Outcome, ROOT, Rig};
use super::{Item, Options, Paper, draw};
use crate::Failure;
use crate::reproduce::item::{Bound, paper, theory};

const LINK: Rate = Rate::from_mbit(10);
const TOP: ClassId = ClassId(100);
const SECONDS: u64 = 30;

/// A class with `part` hundredths of the 99 %.
fn class(part: u64, priority: u8) -> Class {
    Class::new(Rate::from_bps(LINK.as_bps() / 10_000 * 99 * part)).with_priority(priority).borrowing()
}

/// UDP traffic that exceeds the link, in packets of this size.
fn greedy(packet: u64) -> Load {
    Load::Udp { rate: Rate::from_mbit(11), packet }
}

fn rig(sharing: Sharing, inner: Vec<(u32, ClassId, Class)>, leaves: Vec<Leaf>) -> Outcome {
    let params = Params { sharing, conserving: Conserving::WhenLinkIdle, ..Params::new(LINK, Bytes::new(1_000), ROOT) };
    let top = Class { borrow: Borrow::Never, max_burst: 2, min_burst: 1, ..class(100, 1) };
    let mut classes = vec![(TOP.0, ROOT, top)];
    classes.extend(inner);
    let rig = Rig { inner: classes, input: Rate::from_mbit(100), seconds: SECONDS, ..Rig::new(params, leaves) };
    rig.run()
}

const GUIDELINES: [(&str, Sharing); 4] = [
    ("formal", Sharing::Formal),
    ("ancestor-only", Sharing::AncestorOnly),
    ("top-level", Sharing::TopLevel(Heuristic::Floyd1995)),
    ("top-level-altq", Sharing::TopLevel(Heuristic::Altq)),
];

/// The least rate of a class in any second with demand, in percent of its allocation. Seconds in which its demand
/// begins or ends do not count, nor do the first `settling` seconds after each change of demand (every 5 s).
fn least(outcome: &Outcome, leaf: &Leaf, settling: u64) -> f64 {
    let bins = outcome.bins(leaf.id, Span::from_secs(1));
    let has_demand = |second: u64| {
        let (from, until) = (second as f64, second as f64 + 1.0);
        leaf.when.is_empty() || leaf.when.iter().any(|&(a, b)| a + 0.999 < from && until <= b)
    };
    let part = leaf.class.rate.as_bps() as f64 / 8.0;
    // The first second does not count, because it contains the initial bursts.
    let seconds = (1..SECONDS).filter(|&second| second % 5 >= settling && has_demand(second));
    seconds.map(|second| bins[second as usize] as f64 / part * 100.0).fold(f64::MAX, f64::min)
}

/// The mean rate of a class between two seconds, in percent of the link.
fn part(outcome: &Outcome, id: u32, from: u64, until: u64) -> f64 {
    let bins = outcome.bins(id, Span::from_secs(1));
    let bytes: u64 = bins[from as usize..until as usize].iter().sum();
    bytes as f64 * 8.0 / (LINK.as_bps() * (until - from)) as f64 * 100.0
}

pub fn run(options: &Options, _: &Paper) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    if options.wants("ls.flat") {
        flat(options, &mut items)?;
    }
    if options.wants("ls.agencies") {
        agencies(options, &mut items)?;
    }
    if options.wants("ls.borrow") {
        who_borrows(&mut items);
    }
    Ok(items)
}

fn shares(
    items: &mut Vec<Item>,
    prefix: &str,
    outcome: &Outcome,
    leaves: &[Leaf],
    names: &[(u32, &str)],
    settling: u64,
) {
    for leaf in leaves {
        let name = names.iter().find(|(id, _)| *id == leaf.id).map_or("", |(_, name)| name);
        items.push(
            Item::measured(
                format!("{prefix}.{}", leaf.id),
                format!("{name}: the least rate in a second with demand, in percent of the allocation"),
                "%",
                least(outcome, leaf, settling),
            )
            .paper(100.0)
            .bound(Bound::at_least(
                98.0,
                paper("1995, sections 5 and 6: each class gets its allocation; 2 % of a second are 2 packets"),
            )),
        );
    }
}

fn flat(options: &Options, items: &mut Vec<Item>) -> Result<(), Failure> {
    let names = [(1, "audio, 3 %"), (2, "video, 32 %"), (3, "data, 65 %")];
    for (name, sharing) in GUIDELINES {
        let leaf = |id, part, priority, packet, when: &[(f64, f64)]| Leaf {
            parent: TOP,
            when: when.to_vec(),
            ..Leaf::new(id, class(part, priority), greedy(packet))
        };
        // Audio pauses from 10 to 15 s, video from 15 to 20 s, and data from 20 to 25 s.
        let leaves = vec![
            leaf(1, 3, 0, 190, &[(0.0, 10.0), (15.0, 30.0)]),
            leaf(2, 32, 0, 500, &[(0.0, 15.0), (20.0, 30.0)]),
            leaf(3, 65, 1, 1_000, &[(0.0, 20.0), (25.0, 30.0)]),
        ];
        let outcome = rig(sharing, Vec::new(), leaves.clone());
        draw(options, &format!("flat-{name}"), &format!("Audio, video and data, {name}"), &outcome, &names)?;
        shares(items, &format!("ls.flat.{name}"), &outcome, &leaves, &names, 0);
        items.push(
            Item::measured(
                format!("ls.flat.{name}.used"),
                "the utilisation of the link while two of three classes have demand",
                "%",
                (1..=3).map(|id| part(&outcome, id, 11, 15)).sum(),
            )
            .bound(Bound::between(
                99.0,
                100.5,
                paper("1995, section 2: unused bandwidth is distributed; the classes have 99 %"),
            )),
        );
    }
    Ok(())
}

fn agencies(options: &Options, items: &mut Vec<Item>) -> Result<(), Failure> {
    let names = [(11, "A video, 30 %"), (12, "A data, 40 %"), (21, "B video, 10 %"), (22, "B data, 20 %")];
    for (name, sharing) in GUIDELINES {
        let leaf = |id, agency, part, priority, packet, when: &[(f64, f64)]| Leaf {
            parent: ClassId(agency),
            when: when.to_vec(),
            ..Leaf::new(id, class(part, priority), greedy(packet))
        };
        let leaves = vec![
            leaf(11, 10, 30, 0, 500, &[(0.0, 10.0), (15.0, 30.0)]),
            leaf(12, 10, 40, 1, 1_000, &[(0.0, 20.0), (25.0, 30.0)]),
            leaf(21, 20, 10, 0, 500, &[(0.0, 15.0), (20.0, 30.0)]),
            leaf(22, 20, 20, 1, 1_000, &[]),
        ];
        let inner = vec![(10, TOP, class(70, 1)), (20, TOP, class(30, 1))];
        let outcome = rig(sharing, inner, leaves.clone());
        draw(options, &format!("agencies-{name}"), &format!("Two agencies, {name}"), &outcome, &names)?;
        // The ancestor-only guideline ignores siblings. Until the agency is over its limit, too, its class of higher
        // priority gets the whole rate of the agency, and that lasts for seconds after each change.
        let settling = if sharing == Sharing::AncestorOnly { 3 } else { 0 };
        shares(items, &format!("ls.agencies.{name}"), &outcome, &leaves, &names, settling);
        let worst = leaves.iter().map(|leaf| least(&outcome, leaf, 0)).fold(f64::MAX, f64::min);
        let what = "the least rate of any class in a second with demand, including the seconds after a change";
        let item = Item::measured(format!("ls.agencies.{name}.least"), what, "%", worst);
        items.push(if settling > 0 {
            item.bound(Bound::below(
                98.0,
                paper("1995, section 4: ancestor-only may borrow although a class is unsatisfied"),
            ))
        } else {
            item.bound(Bound::at_least(
                98.0,
                paper("1995, sections 3 and 4: no class is unsatisfied for long; 2 % as above"),
            ))
        });
        // The rate that A's video leaves from 10 to 15 s is for A's data, that of B's video from 15 to 20 s for B's
        // data.
        let kept = |id: &str, what: &str, value: f64, of: f64| {
            Item::measured(format!("ls.agencies.{name}.{id}"), what, "% of the link", value).paper(of).bound(
                Bound::near(of, 0.04, paper("1995, section 2: what a class leaves goes to its own agency first")),
            )
        };
        if name == "formal" || name.starts_with("top-level") {
            items.push(kept("a-keeps", "A's data while A's video rests: what A has", part(&outcome, 12, 11, 15), 69.3));
            items.push(kept("b-keeps", "B's data while B's video rests: what B has", part(&outcome, 22, 16, 20), 29.7));
        }
    }
    Ok(())
}

fn who_borrows(items: &mut Vec<Item>) {
    // A's video (priority 0) demands the whole link, B's data (priority 1) no more than its allocation. Under the
    // formal guideline A's video may not borrow while B's data is unsatisfied. Under the ancestor-only guideline it
    // borrows as long as the class at the top is below its limit, and B's packets wait.
    let mut waits = Vec::new();
    for (name, sharing) in GUIDELINES {
        let leaves = vec![
            Leaf { parent: ClassId(10), ..Leaf::new(11, class(35, 0), greedy(500)) },
            Leaf {
                parent: ClassId(20),
                ..Leaf::new(22, class(30, 1), Load::Udp { rate: Rate::from_kbit(2_900), packet: 1_000 })
            },
        ];
        let top = 16;
        let inner = vec![(10, TOP, Class { max_burst: top, ..class(70, 1) }), (20, TOP, class(30, 1))];
        let params = Params { sharing, ..Params::new(LINK, Bytes::new(1_000), ROOT) };
        let mut classes = vec![(TOP.0, ROOT, Class { borrow: Borrow::Never, max_burst: top, ..class(100, 1) })];
        classes.extend(inner);
        let rig = Rig { inner: classes, input: Rate::from_mbit(100), seconds: SECONDS, ..Rig::new(params, leaves) };
        let outcome = rig.run();
        let wait = outcome.longest_wait_ms(22, 1);
        waits.push(wait);
        let item = Item::measured(
            format!("ls.borrow.{name}.wait"),
            format!("{name}: the longest wait of a packet of B's data while A's video demands the whole link"),
            "ms",
            wait,
        );
        // Under the formal guideline a packet waits for the one on the link and for a lead of two, at most 2.4 ms.
        items.push(if name == "formal" {
            item.bound(Bound::at_most(
                2.5,
                theory("the packet on the link and the lead of two: 0.4 + 0.8 + 0.8 ms, and its own"),
            ))
        } else {
            item
        });
        items.push(
            Item::measured(
                format!("ls.borrow.{name}.part"),
                format!("{name}: the rate of B's data in percent of its demand"),
                "%",
                outcome.kbit(22, 2) / 29.0,
            )
            .bound(Bound::between(
                98.0,
                100.5,
                paper("1995, section 2: a class within its allocation gets what it asks for"),
            )),
        );
    }
    items.push(Item::claim(
        "ls.borrow.ancestor-only.later",
        "ancestor-only: A's video borrows while B's data is unsatisfied, and B's packets wait longer than by the formal guideline",
        waits[1] > waits[0],
        paper("1995, section 4: ancestor-only borrows although another class is unsatisfied"),
    ));
    items.push(Item::claim(
        "ls.borrow.top-level.as-formal",
        "top-level: an arrival for B's data stops the borrowing at once, and B's packets wait no longer than by the formal guideline",
        waits[2] <= waits[0] * 1.01 && waits[3] <= waits[0] * 1.01,
        paper("1995, section 4: top-level approximates the formal guidelines"),
    ));
}
