//! Section 6 of the paper: the utilisation of the link, the cost of a packet, and the effects of packet sizes and
//! bursts.

use std::cmp::Ordering;
use std::hint::black_box;
use std::time::Instant as Clock;

use tidegate_core::cbq::{Cbq, Class, Conserving, Finish, IdleBounds, Params, Regulation};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::qdisc::Discard;
use tidegate_core::{Bytes, ClassId, Instant, Qdisc, Rate, Span};
use tidegate_sim::{Driver, SimPacket};

use super::bursts::Bursts;
use super::rig::{Leaf, Load, Rig};
use super::{
    Item, Options, Paper, TCP, UDP, at_500_hz, cured, draw_pattern, exact, held_clock, kernel, open, overload, percent,
};
use crate::Failure;
use crate::reproduce::item::{Bound, paper, spread, theory};

pub fn run(options: &Options, numbers: &Paper) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    if options.wants("s6.1") {
        utilisation(&mut items);
    }
    if options.wants("s6.2") {
        cost(numbers, &mut items);
        items.extend(overload::run(options));
    }
    if options.wants("s6.3") {
        packet_sizes(options, &mut items)?;
        open::run(&mut items);
    }
    if options.wants("s6.4") {
        bursts(numbers, &mut items);
    }
    Ok(items)
}

/// The rate in kbit/s of a flow alone on the link, in a class that borrows.
fn alone(params: Params, driver: Driver, share: u64, load: Load) -> f64 {
    Rig::new(params, vec![Leaf::new(1, percent(share).borrowing(), load)]).with_driver(driver).run().kbit(1, 2)
}

fn utilisation(items: &mut Vec<Item>) {
    let old = held_clock(1_500);
    let new = Params { finish: Finish::Actual, ..old };
    let at_100_hz = |driver| Driver { timer_hz: Some(100), ..driver };
    let standard = Driver::MODIFIED;
    // A plot shows 95 % as the whole link, and anything below as less.
    let whole = || {
        Bound::at_least(1_900.0, paper("section 6.1, figure 18: UDP into the big class does not suffer; 5 % in a plot"))
    };
    let poor = || {
        Bound::below(1_900.0, paper("section 6.1, figure 18: with a small share the link becomes idle; 5 % in a plot"))
    };
    let link = |basis| Bound::between(1_980.0, 2_000.5, basis);
    for (name, share) in [("big", 75), ("small", 25), ("tiny", 5)] {
        let id = |what: &str| format!("s6.1.{name}.{what}");
        let udp = |how: &str| format!("UDP alone in a class of {share} % that borrows, {how}");
        let kbit = |params, driver| alone(params, driver, share, UDP);
        let before = kbit(old, at_100_hz(standard));
        let after = kbit(new, at_100_hz(standard));
        // The tests of section 6 are of the kernel with the actual finish, unless the paper says otherwise.
        let item = Item::measured(id("expected"), udp("under-time from the expected finish"), "kbit/s", before);
        items.push(if name == "big" { item } else { item.bound(poor()) });
        let item = Item::measured(id("actual"), udp("under-time from the actual finish"), "kbit/s", after);
        let evident = paper("section 6.1.1, figure 18: with both at 100 Hz the improvement is evident; 5 % in a plot");
        items.push(match name {
            "big" => item.bound(whole()),
            "small" => item.bound(Bound::above(before * 1.05, evident)),
            _ => item,
        });
        let literal = kbit(kernel(1_500), at_100_hz(standard));
        let what = udp("a clock that is set back, as the paper states it");
        let item = Item::measured(id("set-back"), what, "kbit/s", literal);
        items.push(item.bound(if name == "big" { whole() } else { poor() }).because(
            "s6.1.small.expected",
            1_900.0,
            2_000.5,
        ));
        let small = "section 6.1: with 2 + 16 KB even UDP uses the entire bandwidth, whatever its class has";
        let full = [
            (
                "efficient",
                "efficient",
                Params { conserving: Conserving::Efficient, ..old },
                at_100_hz(standard),
                paper("section 6.1: efficient makes the scheduler work conserving"),
            ),
            ("small-buffers", "2 + 16 KB", old, at_100_hz(Driver::SMALL), paper(small)),
            (
                "recheck",
                "no sleeping, actual finish",
                Params { regulation: Regulation::Recheck, ..new },
                at_100_hz(standard),
                theory("a class that does not sleep leaves no link idle"),
            ),
            (
                "cure",
                "with the cures, a timer of nanoseconds",
                cured(1_500),
                exact(standard),
                theory("a class alone borrows the whole link"),
            ),
        ];
        for (what, how, params, driver, basis) in full {
            items.push(Item::measured(id(what), udp(how), "kbit/s", kbit(params, driver)).bound(link(basis)));
        }
        items.push(
            Item::measured(
                id("tcp"),
                format!("TCP alone in a class of {share} % that borrows"),
                "kbit/s",
                alone(old, at_100_hz(standard), share, TCP),
            )
            .bound(link(paper("section 6.1, figure 18: TCP flows are not affected by this problem"))),
        );
    }
    // The faster the input, the more often the clock of expected finish times is corrected. One that is held at its lead is
    // never corrected.
    let mut slower: Option<f64> = None;
    for mbit in [3, 6, 12] {
        let load = Load::Udp { rate: Rate::from_mbit(mbit), packet: 1_500 };
        let rig = Rig::new(kernel(1_500), vec![Leaf::new(1, percent(10).borrowing(), load)]);
        let rig = Rig { input: Rate::from_mbit(mbit), ..rig }.with_driver(at_100_hz(standard));
        let value = rig.run().kbit(1, 2);
        let what = format!("UDP of {mbit} Mbit/s alone in a class of 10 % that borrows, a clock that is set back");
        let basis = paper(
            "section 6.1: the faster the input link compared with the output one, the more often the link is idle",
        );
        let item = Item::measured(format!("s6.1.mismatch.{mbit}m"), what, "kbit/s", value);
        items.push(match slower {
            Some(slower) => item.bound(Bound::below(slower, basis)),
            None => item,
        });
        slower = Some(value);
    }
    timer(items, new);
}

/// The effect of the kernel's timer on UDP and on a TCP that waits for its acknowledgements.
fn timer(items: &mut Vec<Item>, new: Params) {
    for (name, share) in [("big", 75), ("small", 25)] {
        let hz = |timer_hz| alone(new, Driver { timer_hz: Some(timer_hz), ..Driver::MODIFIED }, share, UDP);
        let (slow, fast) = (hz(100), hz(500));
        let item = |id: &str, value| {
            let what = format!("UDP alone in a class of {share} % that borrows, actual finish, a timer of {id}");
            Item::measured(format!("s6.1.timer.{name}.{id}"), what, "kbit/s", value)
        };
        let ideal =
            paper("section 6.1.1, figure 18: almost the ideal behaviour with the 500 Hz kernel timer; 5 % in a plot");
        let less = paper("section 6.1.1, figure 18: throughput of the small class decreases with the 100 Hz timer");
        let same = paper("section 6.1.1, figure 18: the big class does not suffer from this problem; 5 % in a plot");
        items.push(item("500hz", fast).bound(Bound::at_least(1_900.0, ideal)));
        items.push(item("100hz", slow).bound(if name == "small" {
            Bound::below(0.95 * fast, less)
        } else {
            Bound::at_least(0.95 * fast, same)
        }));
        // Every tick of 50 Hz is two of 100.
        items.push(item("two-ticks", hz(50)));
    }
    // An arrival resumes a class whose suspension has ended. Packets of 9180 B arrive 24 ms apart, so arrivals are
    // fewer.
    for (id, share) in [("big", 75), ("small", 25)] {
        let load = Load::Udp { rate: Rate::from_mbit(3), packet: 9_180 };
        // The lead is as long in time as in the runs above.
        let params = Params { finish: Finish::Actual, link_clock: held_clock(1_500).link_clock, ..kernel(9_180) };
        let hz = |timer_hz| alone(params, Driver { timer_hz, ..Driver::MODIFIED }, share, load);
        for (timer, value) in [("500hz", hz(Some(500))), ("100hz", hz(Some(100))), ("10hz", hz(Some(10)))] {
            let what =
                format!("UDP of 9180 B alone in a class of {share} % that borrows, actual finish, a timer of {timer}");
            items.push(Item::measured(format!("s6.1.timer.arrivals.{id}.{timer}"), what, "kbit/s", value));
        }
    }
    // If arrivals do not call the driver, only a tick of the timer ends a suspension.
    for (id, share) in [("big", 75), ("small", 25)] {
        let hz = |timer_hz| {
            alone(
                new,
                Driver { timer_hz: Some(timer_hz), on_receive: false, on_enqueue: false, ..Driver::ORIGINAL },
                share,
                UDP,
            )
        };
        let mut faster: Option<f64> = None;
        for timer in [500, 100, 10] {
            let value = hz(timer);
            let what = format!(
                "UDP alone in a class of {share} % that borrows, actual finish, resumed by a timer of {timer} Hz alone"
            );
            let item = Item::measured(format!("s6.1.timer.alone.{id}.{timer}hz"), what, "kbit/s", value);
            let basis = paper("section 6.1.1: the higher the clock frequency, the better the precision obtained");
            items.push(match faster {
                Some(faster) if id == "small" => item.bound(Bound::below(faster, basis)),
                _ => item,
            });
            faster = Some(value);
        }
    }
    let tcp = |params, timer_hz| {
        let rig = Rig::new(params, vec![Leaf::new(1, percent(75), TCP)]);
        rig.with_driver(Driver { timer_hz, ..Driver::MODIFIED }).run().kbit(1, 2)
    };
    let actual = Params { finish: Finish::Actual, ..kernel(1_500) };
    for (id, what, params, timer_hz) in [
        ("100hz", "a timer of 100 Hz", kernel(1_500), Some(100)),
        ("500hz", "a timer of 500 Hz", kernel(1_500), Some(500)),
        ("ns", "a timer of nanoseconds", kernel(1_500), None),
        ("100hz.actual", "a timer of 100 Hz, actual finish", actual, Some(100)),
    ] {
        let what = format!("TCP in a class of 75 % that does not borrow, {what}");
        items.push(Item::measured(format!("s6.1.timer.tcp.{id}"), what, "kbit/s", tcp(params, timer_hz)));
    }
}

/// One packet of each of `classes` classes.
fn packets(classes: u32, size: u32) -> Vec<SimPacket> {
    let packet = |n: u32| {
        let mut packet = SimPacket::datagram(u64::from(n), size);
        packet.class = n as u16;
        packet
    };
    (0..classes).map(packet).collect()
}

/// Measures the time in ns that each of several disciplines takes to enqueue and dequeue a packet. The disciplines run
/// in turn, and the shortest of many short runs counts, because other load of the machine can only add to it.
fn nanoseconds(disciplines: &mut [(&mut dyn Qdisc<SimPacket>, &[SimPacket])]) -> Vec<f64> {
    const RUN: u32 = 5_000;
    // The time between two packets is so long that the smallest class here is never over its limit.
    const STEP: Span = Span::from_millis(20);
    let mut best = vec![f64::MAX; disciplines.len()];
    let mut now = Instant::ZERO;
    // A few packets are always queued, as on a busy link.
    for (qdisc, packets) in &mut *disciplines {
        for packet in packets.iter().cycle().take(16) {
            qdisc.enqueue(now, *packet, &mut Discard);
        }
    }
    for _ in 0..200 {
        for ((qdisc, packets), best) in disciplines.iter_mut().zip(&mut best) {
            let start = Clock::now();
            for packet in packets.iter().cycle().skip(16).take(RUN as usize) {
                now += STEP;
                qdisc.enqueue(now, *packet, &mut Discard);
                black_box(qdisc.dequeue(now, &mut Discard));
            }
            *best = best.min(start.elapsed().as_nanos() as f64 / f64::from(RUN));
        }
    }
    best
}

fn flat(classes: u32) -> Cbq<SimPacket, Fifo<SimPacket>> {
    let mut tree = Cbq::new(Params::new(Rate::from_mbit(1_000), Bytes::new(1_500), ClassId(100_000))).expect("valid");
    for id in 0..classes {
        let class = Class::new(Rate::from_bps(1_000_000_000 / u64::from(classes))).borrowing();
        let queue = Fifo::new(Limit::packets(64));
        tree.add_leaf(Instant::ZERO, ClassId(id), ClassId(100_000), class, queue).expect("fits");
    }
    tree
}

fn cost(numbers: &Paper, items: &mut Vec<Item>) {
    for row in &numbers.table_4_pps {
        let packets = packets(1, row.bytes);
        let (mut fifo, mut cbq) = (Fifo::new(Limit::packets(64)), flat(1));
        let times = nanoseconds(&mut [(&mut fifo, &packets), (&mut cbq, &packets)]);
        let (fifo, cbq) = (times[0], times[1]);
        let theirs = 1e9 / row.cbq - 1e9 / row.fifo;
        items.push(
            Item::measured(
                format!("s6.2.fifo.{}", row.bytes),
                format!("what CBQ costs a packet of {} B beyond FIFO", row.bytes),
                "ns",
                cbq - fifo,
            )
            .paper(theirs)
            .note(format!("CBQ {cbq:.0} ns, FIFO {fifo:.0} ns; the paper's are whole routers, 10 to 14 % apart")),
        );
    }
    let theirs = |classes: u32| {
        let pps = |n| numbers.table_5_pps.iter().find(|row| row.classes == n).map(|row| row.pps);
        Some(pps(classes)? / pps(1)?)
    };
    let one_flow = packets(1, 60);
    for classes in [5, 10, 20, 50, 100, 1_000, 10_000] {
        let (mut one, mut many) = (flat(1), flat(classes));
        let times = nanoseconds(&mut [(&mut one, &one_flow), (&mut many, &one_flow)]);
        let item = Item::measured(
            format!("s6.2.classes.{classes}"),
            format!("packets a second with {classes} classes, of those with one; one flow, as in the paper"),
            "part",
            times[0] / times[1],
        )
        .note(format!(
            "{:.0} ns and {:.0} ns; the class is known, the paper's router searches for it",
            times[1], times[0]
        ));
        items.push(match theirs(classes) {
            Some(part) => {
                item.paper(part).bound(Bound::near(part, 0.05, paper("table 5; 5 % for what one router measures")))
            }
            None => item,
        });
    }
    for classes in [100, 1_000, 10_000] {
        let times = nanoseconds(&mut [(&mut flat(classes), &packets(classes, 60))]);
        items.push(
            Item::measured(
                format!("s6.2.spread.{classes}"),
                format!("ns a packet, with the packets spread over all of {classes} classes"),
                "ns",
                times[0],
            )
            .note("beyond the caches, memory counts"),
        );
    }
}

fn packet_sizes(options: &Options, items: &mut Vec<Item>) -> Result<(), Failure> {
    // There is one flow, which does not borrow, with a configured and a real packet size. The items are its share of
    // the class's rate.
    let run = |params: Params, share: u64, configured: u64, size: u64| {
        let class = Class { packet_size: Some(Bytes::new(configured)), ..percent(share) };
        let load = Load::Udp { rate: Rate::from_mbit(3), packet: size };
        Rig::new(params, vec![Leaf::new(1, class, load)]).with_driver(at_500_hz(Driver::MODIFIED)).run()
    };
    let actual = |mtu| Params { finish: Finish::Actual, ..kernel(mtu) };
    for (mtu, configured, size, share) in [
        (9_180, 9_180, 128, 75),
        (9_180, 9_180, 540, 75),
        (9_180, 9_180, 1_500, 75),
        (9_180, 9_180, 128, 25),
        (9_180, 9_180, 540, 25),
        (1_500, 1_500, 1_500, 75),
        (1_500, 1_500, 1_500, 25),
        (1_500, 128, 540, 75),
        (1_500, 128, 540, 25),
        (1_500, 128, 1_500, 25),
    ] {
        let rate = 20.0 * share as f64;
        let id = format!("s6.3.{configured}.{size}.{share}");
        let what = |how: &str| {
            format!("class of {share} %, {configured} B configured, {size} B sent, {how}: part of its rate")
        };
        let value = run(actual(mtu), share, configured, size).kbit(1, 2) / rate;
        items.push(Item::measured(&id, what("average idle time"), "part", value).bound(match size.cmp(&configured) {
            Ordering::Less => Bound::below(
                0.98,
                paper("section 6.3, figure 22: less where packets are smaller than configured; 2 % in a plot"),
            ),
            Ordering::Equal => {
                Bound::near(1.0, 0.02, paper("section 6.3, figure 22: the expected value; 2 % in a plot"))
            }
            Ordering::Greater => Bound::above(
                1.02,
                paper("section 6.3, figure 22: more where packets are bigger than configured; 2 % in a plot"),
            ),
        }));
        let cure = run(cured(mtu), share, configured, size).kbit(1, 2) / rate;
        items.push(Item::measured(format!("{id}.cure"), what("bytes"), "part", cure).bound(Bound::near(
            1.0,
            0.015,
            theory("bytes are counted; 1.5 % for bursts"),
        )));
    }

    // ALTQ's later source has a minidle of a packet, 32 times as deep: a class then forgets next to nothing.
    for (configured, size, share) in [(128, 540, 75), (128, 540, 25), (128, 1_500, 25)] {
        let class = percent(share);
        let min = class.rate.time_for_ceil(Bytes::new(configured));
        let class =
            Class { packet_size: Some(Bytes::new(configured)), idle: IdleBounds { min, ..class.idle }, ..class };
        let load = Load::Udp { rate: Rate::from_mbit(3), packet: size };
        let rig = Rig::new(actual(1_500), vec![Leaf::new(1, class, load)]).with_driver(at_500_hz(Driver::MODIFIED));
        let what = format!(
            "class of {share} %, {configured} B configured, {size} B sent, a minidle of a packet: part of its rate"
        );
        let part = rig.run().kbit(1, 2) / (20.0 * share as f64);
        items.push(Item::measured(format!("s6.3.minidle.{configured}.{size}.{share}"), what, "part", part));
    }

    // Figure 22 with the old kernel: how far the shares of the rate differ between packet sizes.
    for share in [75, 25] {
        let spread = |params: Params| {
            let parts =
                [128, 540, 1_500].map(|size| run(params, share, 9_180, size).kbit(1, 2) / (20.0 * share as f64));
            parts.iter().fold(0.0, |most: f64, part| most.max(*part))
                - parts.iter().fold(1.0, |least: f64, part| least.min(*part))
        };
        let basis = paper(
            "section 6.3, figure 22: with the original under-time clearly less predictable than with the new one",
        );
        let what = format!(
            "class of {share} %, 9180 B configured, 128 to 1500 B sent, expected finish: range of the parts of its rate"
        );
        items.push(
            Item::measured(format!("s6.3.old.{share}"), what, "part", spread(kernel(9_180)))
                .bound(Bound::above(spread(actual(9_180)), basis)),
        );
    }

    // The class of 25 % again, without ALTQ's bound on maxburst, which is 4 there instead of 16.
    let spread = |params: Params| {
        let part = |size: u64| {
            let class = Class { packet_size: Some(Bytes::new(9_180)), ..percent(25) };
            let load = Load::Udp { rate: Rate::from_mbit(3), packet: size };
            let rig = Rig { bursts: Bursts::Unlimited, ..Rig::new(params, vec![Leaf::new(1, class, load)]) };
            rig.with_driver(at_500_hz(Driver::MODIFIED)).run().kbit(1, 2) / 500.0
        };
        let parts = [128, 540, 1_500].map(part);
        parts.into_iter().fold(0.0, f64::max) - parts.into_iter().fold(1.0, f64::min)
    };
    let what =
        "class of 25 % without a bound on maxburst: the range of the parts of its rate, expected over actual finish";
    let over = spread(kernel(9_180)) / spread(actual(9_180));
    items.push(Item::measured("s6.3.old.25.bursts", what, "ratio", over));

    // A larger minburst, while packets are bigger than configured.
    for share in [75, 25] {
        let with = |min_burst| {
            let packet_size = Some(Bytes::new(128));
            let class = Class { packet_size, min_burst, max_burst: 32, ..percent(share) };
            let load = Load::Udp { rate: Rate::from_mbit(3), packet: 540 };
            Rig::new(actual(1_500), vec![Leaf::new(1, class, load)]).with_driver(at_500_hz(Driver::MODIFIED)).run()
        };
        let (short, long) = (with(2), with(16));
        let rate = 20.0 * share as f64;
        let (before, after) = ((short.kbit(1, 2) / rate - 1.0).abs(), (long.kbit(1, 2) / rate - 1.0).abs());
        let what = format!("class of {share} %, 128 B configured, 540 B sent");
        let closer = paper("section 6.3: with a higher minburst the throughput is closer to the expected one");
        let item = |id: &str, what: String, unit, value| {
            Item::measured(format!("s6.3.minburst.{share}.{id}"), what, unit, value)
        };
        let what_rate = format!("{what}, minburst 16: how far from its rate; {before:.3} with 2");
        // In the class of 75 % a burst of 16 lengthens the suspension by less than the tick of the timer: `s6.3.minburst.75.exact`.
        items.push(item("rate", what_rate, "part", after).bound(Bound::below(before, closer)));
        let longer = paper("section 6.3: followed by a longer suspension time");
        items.push(
            item("rest", format!("{what}, minburst 16: the longest rest"), "ms", long.longest_gap_ms(1))
                .bound(Bound::above(short.longest_gap_ms(1), longer)),
        );
    }

    // In figure 21 the smallest class sends more than one packet in its turn.
    let names = [(1, "75 %"), (2, "25 %")];
    let two = |mtu: u64| {
        let leaves = vec![Leaf::new(1, percent(75).borrowing(), UDP), Leaf::new(2, percent(25).borrowing(), UDP)];
        Rig::new(Params { finish: Finish::Actual, ..kernel(mtu) }, leaves).with_driver(at_500_hz(Driver::SMALL)).run()
    };
    let (bursty, smooth) = (two(9_180), two(1_500));
    draw_pattern(
        options,
        "figure-21",
        "Turns of 9180 B, packets of 1500 B (figure 21)",
        &bursty,
        &names,
        (10.0, 11.0),
    )?;
    draw_pattern(options, "figure-21-cured", "Turns of 1500 B, packets of 1500 B", &smooth, &names, (10.0, 11.0))?;
    items.push(
        Item::measured(
            "s6.3.round.9180",
            "packets of the class of 25 % in a row, a round made of 9180 B",
            "packets",
            bursty.longest_row(2) as f64,
        )
        .bound(Bound::at_least(
            2.0,
            paper("section 6.3, figure 21: even the smallest class sends more than one packet each round"),
        ))
        .note("defect: the round is made of the link's largest packet"),
    );
    items.push(
        Item::measured(
            "s6.3.round.1500",
            "packets of the class of 25 % in a row, a round made of 1500 B",
            "packets",
            smooth.longest_row(2) as f64,
        )
        .bound(Bound::at_most(
            2.0,
            theory("a round of one packet; a second one when the other class is over its limit"),
        ))
        .note("cure: the round is made of the largest packet that comes"),
    );

    // Figure 23 shows pauses in the transmission.
    let names = [(1, "25 %")];
    let broken = run(actual(9_180), 25, 9_180, 128);
    let cure = run(cured(9_180), 25, 9_180, 128);
    draw_pattern(
        options,
        "figure-23",
        "Packets of 128 B where 9180 B are configured (figure 23)",
        &broken,
        &names,
        (10.0, 12.0),
    )?;
    draw_pattern(options, "figure-23-cured", "The same, with byte accounting", &cure, &names, (10.0, 12.0))?;
    let (broken, cure) = (broken.longest_gap_ms(1), cure.longest_gap_ms(1));
    items.push(
        Item::measured("s6.3.gap", "longest rest of a class of 25 % with 128 B sent, 9180 B configured", "ms", broken)
            .bound(Bound::above(
                cure,
                paper("section 6.3, figure 23: it becomes suspended and the output link idle; more than by bytes"),
            )),
    );
    items.push(
        Item::measured(
            "s6.3.gap.cure",
            "longest rest of the class of 25 %, byte accounting, a burst of one packet",
            "ms",
            cure,
        )
        .bound(Bound::at_most(147.0, theory("9180 B at 500 kbit/s: a burst of one packet as configured"))),
    );
    Ok(())
}

fn bursts(numbers: &Paper, items: &mut Vec<Item>) {
    for row in &numbers.table_6_kbit {
        for (name, share, theirs) in [("big", 75, row.big), ("small", 25, row.small)] {
            let class = Class { min_burst: row.min_burst, ..percent(share) };
            let run = |params: Params, driver, bursts| {
                let rig = Rig { bursts, ..Rig::new(params, vec![Leaf::new(1, class, UDP)]) };
                rig.with_driver(driver).run().kbit(1, 2)
            };
            let rate = 20.0 * share as f64;
            // With c = s/r - s/B, the offtime of m packets is c (1 + 32 ((32/31)^(m-1) - 1)), which is more than the m
            // c that m packets are worth. So the class loses the fraction (1 - share) (offtime / c - m) / m of its
            // rate. ALTQ has m at most 16, or 4 where c exceeds 10 ms, which it does in the small class: 18 ms.
            let m = f64::from(row.min_burst.min(if share == 25 { 4 } else { 16 }));
            let offtime = 1.0 + 32.0 * ((32.0_f64 / 31.0).powf(m - 1.0) - 1.0);
            let loss = (1.0 - share as f64 / 100.0) * (offtime - m).max(0.0) / m;
            let expected = rate * (1.0 / (1.0 + loss));
            let measured = run(kernel(1_500), at_500_hz(Driver::MODIFIED), Bursts::Limited);
            let id = format!("s6.4.{}.{name}", row.min_burst);
            items.push(
                Item::measured(&id, format!("class of {share} %, minburst {}", row.min_burst), "kbit/s", measured)
                    .paper(theirs)
                    .bound(Bound::near(
                        theirs,
                        0.03,
                        spread("table 6; section 3: repeated several times, the results were almost identical"),
                    ))
                    .note(format!(
                        "defect; {expected:.0} kbit/s follow from offtime and the limits of ALTQ by arithmetic"
                    )),
            );
            let unlimited = run(kernel(1_500), at_500_hz(Driver::MODIFIED), Bursts::Unlimited);
            let what = format!("class of {share} %, minburst {}, without ALTQ's limit", row.min_burst);
            items.push(Item::measured(format!("s6.4.unlimited.{}.{name}", row.min_burst), what, "kbit/s", unlimited));
            items.push(
                Item::measured(
                    format!("{id}.cure"),
                    format!("class of {share} %, minburst {}, bytes", row.min_burst),
                    "kbit/s",
                    run(cured(1_500), exact(Driver::MODIFIED), Bursts::Limited),
                )
                .bound(Bound::between(
                    rate * 0.98,
                    rate * 1.01,
                    theory("bytes are counted: the rate does not depend on the burst"),
                ))
                .note("cure: the rate does not depend on the burst"),
            );
        }
    }
}
