//! Future work of the paper: an initial configuration from an agreement, and its tunable parameters. What a policer at the boundary
//! drops by the rate and the bucket of a class, and what `incr` and the thresholds of the feedback do to an application that asks
//! for more.

use tidegate_core::fbq::{ClassParams, Fbc, FbcParams, Feedback, Marking, Profile};
use tidegate_core::meter::{Meter, Mode};
use tidegate_core::qdisc::Discard;
use tidegate_core::random::Stream;
use tidegate_core::srtcm::{self, SrTcm};
use tidegate_core::{Bytes, Colour, DropReason, Event, Instant, Outlet, Qdisc, Rate, Span};
use tidegate_sim::SimPacket;

use crate::reproduce::item::{Bound, theory};
use crate::reproduce::{Item, Options};

/// The agreement: CIR and CBS of a class.
const CIR: Rate = Rate::from_mbit(10);
const CBS: u64 = 15_000;
const SIZE: u32 = 1_000;
const SECONDS: u64 = 20;
/// Twenty senders, with bursts of eight packets at random gaps.
const SENDERS: u64 = 20;
const BURST: u64 = 8;

/// A class before a boundary.
#[derive(Clone, Copy)]
struct Class {
    /// The rate of the class in percent of CIR; `None` without a shaper.
    percent: Option<u64>,
    /// The bucket of the class in bytes.
    bucket: u64,
    /// Bytes that the boundary counts for each packet beyond those that the shaper counts.
    overhead: u32,
    /// The rate that is sent, in percent of CIR.
    load: u64,
}

/// The part of the bytes that the policer drops, in percent, and the mean wait in the shaper in ms.
fn policed(class: Class, seed: u64) -> (f64, f64) {
    let mut random = Stream::named(seed, "fbq.agreement");
    let params = srtcm::Params { cir: CIR, cbs: Bytes::new(CBS), ebs: Bytes::ZERO, mode: Mode::Blind };
    let mut policer = SrTcm::new(params, Instant::ZERO).expect("valid parameters");
    // Without a shaper: a rate that nothing reaches.
    let rate = Rate::from_bps(CIR.as_bps() * class.percent.unwrap_or(10_000) / 100);
    let burst = Bytes::new(class.bucket);
    let own = ClassParams {
        burst,
        flow_burst: burst,
        flow_limit: Bytes::MAX,
        limit: Bytes::new(1_000_000),
        ..ClassParams::new(rate)
    };
    let mut shaper: Fbc<SimPacket> =
        Fbc::new(FbcParams { burst, ..FbcParams::new(rate) }, vec![own], vec![Profile::default()], Instant::ZERO)
            .expect("one class");
    let mean = (BURST * u64::from(SIZE) * 8) as f64 / (CIR.as_bps() * class.load / 100 / SENDERS) as f64;
    let mut next: Vec<f64> = (0..SENDERS).map(|_| mean * random.unit()).collect();
    let (mut sent, mut red, mut waited, mut packets) = (0_u64, 0_u64, 0.0, 0_u64);
    let mut now = Instant::ZERO;
    loop {
        let (sender, at) = (0..).zip(&next).min_by(|a, b| a.1.total_cmp(b.1)).map_or((0, 0.0), |(n, at)| (n, *at));
        let arrival = Instant::from_nanos((at * 1e9) as u64);
        while let Some(due) = shaper.deadline(now).instant(now).filter(|due| *due <= arrival) {
            now = now.max(due);
            let Some(packet) = shaper.dequeue(now, &mut Discard) else { continue };
            let counted = SimPacket::datagram(sender as u64, packet.size + class.overhead);
            sent += u64::from(packet.size);
            red += if policer.meter(now, &counted) == Colour::Red { u64::from(packet.size) } else { 0 };
            waited += now.since(Instant::from_nanos(packet.queued)).as_secs_f64() * 1e3;
            packets += 1;
        }
        if at >= SECONDS as f64 {
            return (100.0 * red as f64 / sent.max(1) as f64, waited / packets.max(1) as f64);
        }
        now = arrival;
        for _ in 0..BURST {
            let mut packet = SimPacket::datagram(sender as u64, SIZE);
            packet.queued = arrival.as_nanos();
            shaper.enqueue(arrival, packet, &mut Discard);
        }
        next[sender] += -mean * (1.0 - random.unit()).ln();
    }
}

fn boundary(options: &Options, items: &mut Vec<Item>) {
    let exact = Class { percent: Some(100), bucket: CBS, overhead: 0, load: 90 };
    let nothing = || Bound::at_most(0.0, theory("a class within CIR and CBS conforms, by the law of its bucket"));
    let some = |least| Bound::above(least, theory("what exceeds CIR or CBS is dropped at the boundary"));
    for (id, what, class, bound) in [
        ("raw", "no shaper", Class { percent: None, ..exact }, Some(some(1.0))),
        ("exact", "the rate CIR, the bucket CBS", exact, Some(nothing())),
        ("two-packets", "the rate CIR, a bucket of two packets", Class { bucket: 2_000, ..exact }, Some(nothing())),
        ("twice", "the rate CIR, a bucket of twice CBS", Class { bucket: 2 * CBS, ..exact }, Some(some(0.1))),
        ("faster", "2 % more than CIR, beyond it", Class { percent: Some(102), load: 150, ..exact }, Some(some(1.0))),
        (
            "overhead",
            "the rate CIR, where the boundary counts 18 bytes more for each packet",
            Class { overhead: 18, load: 150, ..exact },
            Some(some(1.0)),
        ),
        (
            "less",
            "2 % less than CIR, where the boundary counts 18 bytes more for each packet, a bucket of 2 % less than CBS",
            Class { percent: Some(98), bucket: CBS * 98 / 100, overhead: 18, load: 150 },
            Some(nothing()),
        ),
    ] {
        let (dropped, waited) = policed(class, options.seed);
        let item =
            Item::measured(format!("agreement.{id}.dropped"), format!("{what}: dropped at the boundary"), "%", dropped);
        items.push(match bound {
            Some(bound) => item.bound(bound),
            None => item,
        });
        let what = format!("{what}: mean wait in the shaper at {} % of CIR", class.load);
        items.push(Item::measured(format!("agreement.{id}.wait"), what, "ms", waited));
    }
}

/// The events of the feedback.
#[derive(Default)]
struct Signals(Vec<bool>);

impl Outlet<SimPacket> for Signals {
    fn dropped(&mut self, _: SimPacket, _: DropReason) {}
    fn event(&mut self, event: Event) {
        match event {
            Event::QueueAbove { flow: 0, .. } => self.0.push(true),
            Event::QueueBelow { flow: 0, .. } => self.0.push(false),
            _ => {}
        }
    }
}

/// The steps that an application took until its queue stayed short.
struct Adaptation {
    /// Messages to the shaper.
    messages: u64,
    /// The time until the last of them, in ms.
    settled: f64,
    /// The longest queue in ms of its rate.
    longest: f64,
    /// Its share beyond what it sends, in percent of the class.
    excess: f64,
}

/// An application with an equal share of a class of ten greedy flows, 1 Mbit/s, begins to send 3. It asks for a step when its
/// queue passes a threshold, and again after each round trip of asking, 20 ms, while it is above; it gives one back when the queue is
/// below the lower threshold for a second.
fn adapt(increment: u64, above: u64, below: u64) -> Adaptation {
    const GREEDY: u64 = 9;
    let wanted = 3_000_000_u64;
    let feedback = Feedback { above: Bytes::new(above), below: Bytes::new(below), mark: Marking::Never };
    let own = ClassParams {
        feedback: Some(feedback),
        increment: (increment << 32) / 100,
        limit: Bytes::new(10_000_000),
        flow_limit: Bytes::new(500_000),
        ..ClassParams::new(CIR)
    };
    let mut shaper: Fbc<SimPacket> =
        Fbc::new(FbcParams::new(CIR), vec![own], vec![Profile::default()], Instant::ZERO).expect("one class");
    let (mut signals, mut steps, mut is_above) = (Signals::default(), 0_u32, false);
    let mut found = Adaptation { messages: 0, settled: 0.0, longest: 0.0, excess: 0.0 };
    let (mut asked, mut quiet) = (Instant::ZERO, Instant::ZERO);
    let mut now = Instant::ZERO;
    let gap = Span::from_nanos(u64::from(SIZE) * 8 * 1_000_000_000 / wanted);
    while now < Instant::ZERO + Span::from_secs(20) {
        for key in 1..=GREEDY {
            let queued = shaper.flow(key).map_or(0, |flow| flow.backlog.packets);
            for _ in queued..8 {
                shaper.enqueue(now, SimPacket::datagram(key, SIZE), &mut signals);
            }
        }
        shaper.enqueue(now, SimPacket::datagram(0, SIZE), &mut signals);
        let end = now + gap;
        while let Some(due) = shaper.deadline(now).instant(now).filter(|due| *due <= end) {
            now = now.max(due);
            let Some(packet) = shaper.dequeue(now, &mut signals) else { continue };
            if packet.flow != 0 {
                shaper.enqueue(now, SimPacket::datagram(packet.flow, SIZE), &mut signals);
            }
        }
        now = end;
        for signal in std::mem::take(&mut signals.0) {
            is_above = signal;
            quiet = now;
        }
        let queue = shaper.flow(0).map_or(0, |flow| flow.backlog.bytes.as_u64());
        found.longest = found.longest.max(queue as f64 * 8e3 / wanted as f64);
        let wants = if is_above && now.since(asked) >= Span::from_millis(20) {
            Some(steps + 1)
        } else if !is_above && steps > 0 && now.since(quiet.max(asked)) >= Span::from_secs(1) {
            Some(steps - 1)
        } else {
            None
        };
        if let Some(wants) = wants {
            (steps, asked) = (wants, now);
            shaper.prefer(now, 0, steps).expect("the flow is there");
            found.messages += 1;
            found.settled = now.since(Instant::ZERO).as_secs_f64() * 1e3;
        }
    }
    let share = shaper.flow(0).map_or(0, |flow| flow.rate.as_bps());
    found.excess = (share as f64 - wanted as f64) / CIR.as_bps() as f64 * 100.0;
    found
}

fn tuning(items: &mut Vec<Item>) {
    for increment in [2, 5, 10, 20] {
        for (name, above, below) in [("6kB", 6_000, 2_000), ("30kB", 30_000, 10_000), ("30kB-narrow", 30_000, 28_000)] {
            let found = adapt(increment, above, below);
            let id = format!("agreement.incr{increment}.{name}");
            let text = format!("incr {increment} %, thresholds {above} and {below} B");
            items.extend([
                Item::measured(
                    format!("{id}.messages"),
                    format!("{text}: messages in 20 s"),
                    "messages",
                    found.messages as f64,
                ),
                Item::measured(format!("{id}.settled"), format!("{text}: when the last was sent"), "ms", found.settled),
                Item::measured(format!("{id}.longest"), format!("{text}: the longest queue"), "ms", found.longest),
                Item::measured(
                    format!("{id}.excess"),
                    format!("{text}: its share beyond its rate, of the class"),
                    "%",
                    found.excess,
                ),
            ]);
        }
    }
}

pub fn run(options: &Options) -> Vec<Item> {
    let mut items = Vec::new();
    boundary(options, &mut items);
    tuning(&mut items);
    items
}
