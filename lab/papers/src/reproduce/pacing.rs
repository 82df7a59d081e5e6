//! *Experiences in Programming a Traffic Shaper* (SMLI TR-99-77, 1999): its figures on a virtual clock, and its grid of
//! rates and packet sizes on the clock of this machine. The README is `lab/papers/pacing/README.md`.

mod burst;
mod bursts;
mod figures;

use serde::Deserialize;
use tidegate_pace::{
    Algorithm, At0, At1, Clock, Dt2, Kind, Latency, MonotonicClock, Sleeping, VirtualClock, pace, wait_until,
};
use tidegate_units::{Bytes, Instant, Rate, Span};

use super::item::{Bound, paper, theory};
use super::{Item, Options};
use crate::Failure;

#[derive(Deserialize)]
struct Paper {
    send_time_ms: u64,
    sleep_granularity_ms: u64,
    grid: Grid,
    figure_7: Figure7,
    figure_14: Figure14,
}

#[derive(Deserialize)]
struct Grid {
    sizes_byte: Vec<u64>,
    at_rate_byte_per_s: u64,
    rates_byte_per_s: Vec<u64>,
    at_size_byte: u64,
}

#[derive(Deserialize)]
struct Figure7 {
    packets: usize,
    #[serde(rename = "500_byte")]
    at_500: Sleep500,
    #[serde(rename = "1000_byte")]
    at_1000: Sleep1000,
}

#[derive(Deserialize)]
struct Sleep500 {
    requested_ms: f64,
    slept_ms: f64,
    overslept_ms: f64,
}

#[derive(Deserialize)]
struct Sleep1000 {
    overslept_ms: f64,
    slept_ms: f64,
}

#[derive(Deserialize)]
struct Figure14 {
    packets_per_batch: u64,
    size_byte: u64,
    batch_every_s: u64,
    rate_byte_per_s: u64,
    gap_ms: f64,
}

/// A point of the grid: the part of an id that names it, the rate in byte/s, and the packet size in byte.
struct Point {
    id: String,
    rate: u64,
    size: u64,
}

impl Point {
    fn what(&self) -> String {
        format!("R = {} byte/s, S = {} byte", self.rate, self.size)
    }
}

impl Paper {
    fn read() -> Result<Self, Failure> {
        serde_json::from_str(include_str!("../../pacing/paper.json"))
            .map_err(|error| Failure::Failed(format!("lab/papers/pacing/paper.json: {error}")))
    }
    fn send_time(&self) -> Span {
        Span::from_millis(self.send_time_ms)
    }
    fn points(&self) -> Vec<Point> {
        let (rate, size) = (self.grid.at_rate_byte_per_s, self.grid.at_size_byte);
        let sizes = self.grid.sizes_byte.iter().map(|size| Point { id: format!("size{size}"), rate, size: *size });
        let rates =
            self.grid.rates_byte_per_s.iter().map(|rate| Point { id: format!("rate{rate}"), rate: *rate, size });
        sizes.chain(rates).collect()
    }
    /// The ideal throughput min(S/T, R), in byte/s.
    fn ideal(&self, point: &Point) -> f64 {
        (point.size as f64 / self.send_time().as_secs_f64()).min(point.rate as f64)
    }
    /// Sends `packets` on `clock`. Returns the throughput in byte/s, and the clock with its totals of sleep.
    fn send(&self, clock: VirtualClock, kind: Kind, point: &Point, packets: usize) -> (f64, VirtualClock) {
        self.send_in(clock, kind, point, packets, self.send_time())
    }
    /// [`send`](Self::send) where sending a packet takes `send_time`.
    fn send_in(
        &self,
        mut clock: VirtualClock,
        kind: Kind,
        point: &Point,
        packets: usize,
        send_time: Span,
    ) -> (f64, VirtualClock) {
        let mut algorithm = build(kind, point.rate);
        let sizes = std::iter::repeat_n(Bytes::new(point.size), packets);
        pace(&mut clock, &mut algorithm, sizes, |clock, _| clock.advance(send_time));
        (packets as f64 * point.size as f64 / clock.elapsed().as_secs_f64(), clock)
    }
}

fn build(kind: Kind, rate: u64) -> Box<dyn Algorithm + Send> {
    kind.build(Rate::from_bytes_per_sec(rate), Instant::ZERO).expect("no rate of the paper is zero")
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<Vec<Item>, Failure> {
    let numbers = Paper::read()?;
    let granularity = Span::from_millis(numbers.sleep_granularity_ms);
    let mut items = Vec::new();
    if options.wants("fig4") {
        figure_4(&numbers, &mut items);
    }
    if options.wants("fig5") {
        figure_5(&numbers, &mut items);
    }
    if options.wants("fig6") {
        figure_6(&numbers, &mut items);
    }
    if options.wants("fig7") {
        figure_7(&numbers, &mut items);
    }
    if options.wants("fig12") || options.wants("section4") {
        figure_12(&numbers, options, &mut items);
    }
    if options.wants("fig14") {
        figure_14(&numbers, &mut items);
        live_dt2(&numbers.figure_14, &mut items);
    }
    if options.wants("fig15") {
        burst::run(&mut items);
    }
    if options.wants("fig") {
        figures::draw(&numbers, options)?;
    }
    if options.wants("real") {
        real(&numbers, options, granularity, &mut items);
    }
    Ok(items)
}

/// The expected performance, which DT0 reaches if sleeps are exact.
fn figure_4(numbers: &Paper, items: &mut Vec<Item>) {
    // The grid ends at the rate at which the throughput saturates, S/T. One point is beyond it.
    let size = numbers.grid.at_size_byte;
    let most = numbers.grid.rates_byte_per_s.iter().max().copied().unwrap_or_default();
    let saturated = Point { id: "saturated".to_owned(), rate: 2 * most, size };
    for point in numbers.points().into_iter().chain([saturated]) {
        let (reached, _) = numbers.send(VirtualClock::exact(), Kind::Dt0, &point, 10_000);
        let ideal = numbers.ideal(&point);
        items.push(
            Item::measured(
                format!("fig4.{}", point.id),
                format!("DT0, exact sleep, {}", point.what()),
                "byte/s",
                reached,
            )
            .paper(ideal)
            .bound(Bound::near(
                ideal,
                0.001,
                paper("figure 4: min(S/T, R); of 10,000 packets the last is not waited for"),
            )),
        );
    }
}

/// Measures sleeps of 2 ms, one after another and from every phase of the clock, and what figure 7 would be if each sleep
/// took exactly one tick.
fn figure_5(numbers: &Paper, items: &mut Vec<Item>) {
    let tick = numbers.sleep_granularity_ms as f64;
    let sleep = |clock: &mut VirtualClock| {
        let before = clock.slept();
        let until = clock.now() + Span::from_millis(2);
        clock.sleep_until(until);
        clock.slept().saturating_sub(before).as_nanos() as f64 / 1e6
    };
    let mut clock = VirtualClock::paper();
    // The first one begins at a tick, all others where the one before ended.
    sleep(&mut clock);
    let after_another = (0..20).map(|_| sleep(&mut clock)).fold(0.0, f64::max);
    let basis =
        paper("section 3, figure 5: sleep(2 milliseconds) results in a sleep of 10 milliseconds; by a clock of 1 ms");
    items.push(
        Item::measured("fig5.sleep2", "the longest of twenty sleeps of 2 ms, one after another", "ms", after_another)
            .paper(tick)
            .bound(Bound::around(tick, 1.0, basis)),
    );
    let alone = (0..numbers.sleep_granularity_ms).map(|phase| {
        let mut clock = VirtualClock::paper();
        clock.advance(Span::from_millis(phase));
        sleep(&mut clock)
    });
    let what = "the longest sleep of 2 ms from any phase of the clock";
    items.push(
        Item::measured("fig5.alone", what, "ms", alone.fold(0.0, f64::max))
            .note("figure 7 has 16.4 ms for each sleep of 3 ms"),
    );
    // Here the ticks are aligned to every sleep, so that each sleep takes exactly one tick.
    let slept = |numbers: &Paper| {
        let point = Point { id: String::new(), rate: numbers.grid.at_rate_byte_per_s, size: 500 };
        let mut algorithm = build(Kind::Dt0, point.rate);
        let mut clock = VirtualClock::exact();
        let mut slept = Span::ZERO;
        for _ in 0..numbers.figure_7.packets {
            clock.advance(numbers.send_time());
            let due = algorithm.next(clock.now(), Bytes::new(point.size));
            if due > clock.now() {
                clock.advance(Span::from_millis(numbers.sleep_granularity_ms));
                slept += Span::from_millis(numbers.sleep_granularity_ms);
                algorithm.woke(clock.now());
            }
        }
        slept.as_nanos() as f64 / 1e6
    };
    let what = "the sleep of 100 packets in figure 7, S = 500, if a short sleep took one tick; the paper has 819 ms";
    items.push(Item::measured("fig5.one-tick", what, "ms", slept(numbers)));
}

/// The rates of the plateau in figure 6, whose ends the paper's text states.
const PLATEAU: std::ops::Range<u64> = 150_000..700_000;

/// Figure 6 above 900 bytes with slightly other phases: sending takes 2.05 ms, and the thread runs 5.9 ms after its
/// tick. No time is then a whole number of ticks.
fn phase(numbers: &Paper, items: &mut Vec<Item>) {
    let send_time = numbers.send_time() + Span::from_micros(50);
    for point in numbers.points().into_iter().filter(|point| point.id.starts_with("size") && point.size > 1_000) {
        let granularity = Span::from_millis(numbers.sleep_granularity_ms);
        let ticks = Sleeping::Ticks { granularity, phase: Span::ZERO, extra: 0 };
        let clock = VirtualClock::new(ticks, Latency::Fixed(Span::from_micros(5_900)));
        let (reached, _) = numbers.send_in(clock, Kind::Dt0, &point, 10_000, send_time);
        let ideal = numbers.ideal(&point);
        let what = format!("DT0, {}, sending takes 2.05 ms and waking 5.9", point.what());
        let basis = paper("section 3: oversleeping does not seem to affect throughput above 900 bytes; 5 % in a plot");
        items.push(
            Item::measured(format!("fig6.phase.{}", point.id), what, "byte/s", reached)
                .paper(ideal)
                .bound(Bound::near(ideal, 0.05, basis)),
        );
    }
}

/// The throughput that DT0 loses because a sleep takes at least 10 ms.
fn figure_6(numbers: &Paper, items: &mut Vec<Item>) {
    let packets = numbers.figure_7.packets as f64;
    let mut plateau = Vec::new();
    for point in numbers.points() {
        let (reached, _) = numbers.send(VirtualClock::paper(), Kind::Dt0, &point, 10_000);
        let ideal = numbers.ideal(&point);
        let item = Item::measured(format!("fig6.{}", point.id), format!("DT0, {}", point.what()), "byte/s", reached);
        let by_size = point.rate == numbers.grid.at_rate_byte_per_s && point.id.starts_with("size");
        // A plot of the range does not show a difference of 5 %.
        let on_the_ideal = |text: &'static str| Bound::near(ideal, 0.05, paper(text));
        items.push(match (by_size, point.size, point.rate) {
            // 100 packets take 200 ms of sending and, by figure 7, 819 ms of sleep. That is the sum of 50 sleeps, each
            // measured with a clock of 1 ms.
            (true, 500, _) => {
                let sending = packets * numbers.send_time().as_secs_f64();
                let rate = |slept_ms: f64| packets * 500.0 / (sending + slept_ms / 1e3);
                let slept = numbers.figure_7.at_500.slept_ms;
                let basis = paper("figure 7 a: 819 ms slept for 100 packets, 50 times, by a clock of 1 ms");
                item.paper(rate(slept)).bound(Bound::between(rate(slept + CLOCK_MS), rate(slept - CLOCK_MS), basis))
            }
            (true, ..=200, _) => {
                item.paper(ideal).bound(on_the_ideal("section 3: up to S = R T it follows the ideal quite closely"))
            }
            (true, 1000, _) => {
                item.paper(ideal).bound(Bound::near(ideal, 0.01, paper("section 3: very close to ideal throughput")))
            }
            // Two packets are sent for each sleep, which takes one to two ticks.
            (true, ..1000, _) => {
                let cycle = |sleep: Span| {
                    2.0 * point.size as f64 / (2.0 * numbers.send_time().as_secs_f64() + sleep.as_secs_f64())
                };
                let tick = Span::from_millis(numbers.sleep_granularity_ms);
                let basis = theory("section 3: two packets a sleep, of one tick to two; less than the ideal");
                item.bound(Bound::between(cycle(tick + tick), cycle(tick).min(0.95 * ideal), basis))
            }
            (true, ..) => item
                .paper(ideal)
                .bound(on_the_ideal("section 3: oversleeping does not seem to affect throughput above 900 bytes"))
                .because("fig6.phase", 0.85 * ideal, ideal),
            (false, _, rate) if PLATEAU.contains(&rate) => {
                plateau.push(reached);
                let basis = paper("section 3: constant from where it leaves the ideal at 150,000, on a grid of 50,000");
                item.paper(PLATEAU.start as f64).bound(Bound::around(PLATEAU.start as f64, 25_000.0, basis))
            }
            (false, _, rate) if rate < PLATEAU.start => {
                item.paper(ideal).bound(on_the_ideal("section 3: below 150,000 the error is insignificant"))
            }
            (false, ..) => item.paper(ideal).bound(on_the_ideal("section 3: the throughput returns to the ideal")),
        });
    }
    let (least, most) =
        plateau.iter().fold((f64::MAX, 0.0_f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
    let what = "DT0, S = 1400 byte: the largest rate over the least, R from 150,000 to 650,000 byte/s";
    let basis = paper("section 3: apparent constant throughput for a whole range of R");
    items.push(
        Item::measured("fig6.plateau", what, "ratio", most / least).paper(1.0).bound(Bound::between(1.0, 1.05, basis)),
    );
    phase(numbers, items);
}

/// The error of a sum of 50 sleeps: half of the granularity of the paper's clock for each of them.
const CLOCK_MS: f64 = 25.0;

/// The sleep that was requested and the sleep that was taken, for 100 packets.
fn figure_7(numbers: &Paper, items: &mut Vec<Item>) {
    let milliseconds = |span: Span| span.as_nanos() as f64 / 1e6;
    let packets = numbers.figure_7.packets;
    for point in numbers.points() {
        let (_, clock) = numbers.send(VirtualClock::paper(), Kind::Dt0, &point, packets);
        let (asked, slept) = (milliseconds(clock.asked()), milliseconds(clock.slept()));
        let item = |name: &str, what: &str, value| {
            let what = format!("DT0, {what} for {packets} packets, {}", point.what());
            Item::measured(format!("fig7.{}.{name}", point.id), what, "ms", value)
        };
        let near = |item: Item, value: f64| {
            let basis = paper("section 3 and figure 7 a; 50 sleeps by a clock of 1 ms, half of it each");
            item.paper(value).bound(Bound::around(value, CLOCK_MS, basis))
        };
        let mut rows = [
            item("asked", "sleep requested", asked),
            item("slept", "slept", slept),
            item("overslept", "overslept", slept - asked),
        ];
        match point.id.as_str() {
            "size500" => {
                let figure = &numbers.figure_7.at_500;
                // The requested sleep does not depend on the model of sleep, so it must equal the paper's to the last
                // digit.
                let basis = paper("section 3: 152 ms requested; to the millisecond");
                rows[0] =
                    rows[0].clone().paper(figure.requested_ms).bound(Bound::around(figure.requested_ms, 0.5, basis));
                rows[1] = near(rows[1].clone(), figure.slept_ms);
                rows[2] = near(rows[2].clone(), figure.overslept_ms);
            }
            "size1000" => {
                let figure = &numbers.figure_7.at_1000;
                // The paper: "400 milliseconds of oversleeping (as much as the total sleep time)", that is, as much as
                // requested.
                rows[0] = near(rows[0].clone(), figure.overslept_ms);
                rows[1] = near(rows[1].clone(), figure.slept_ms);
                rows[2] = near(rows[2].clone(), figure.overslept_ms);
            }
            _ => {}
        }
        items.extend(rows);
    }
}

/// The throughput of the algorithms that correct for oversleeping.
fn figure_12(numbers: &Paper, options: &Options, items: &mut Vec<Item>) {
    let (short, long) = (10_000, 300_000);
    for point in numbers.points() {
        let ideal = numbers.ideal(&point);
        let reaches = || Bound::near(ideal, 0.01, paper("section 5, figure 12: they validate min(S/T, R)"));
        for kind in [Kind::Dt1, Kind::Dt2, Kind::At0, Kind::Pacer] {
            let id = format!("fig12.{}.{kind}", point.id);
            if !options.wants(&id) {
                continue;
            }
            let (reached, _) = numbers.send(VirtualClock::paper(), kind, &point, short);
            let what = format!("{}, {}", kind.name().to_uppercase(), point.what());
            let item = Item::measured(id, what, "byte/s", reached);
            // The pacer is our own algorithm, for which the paper has no value.
            items.push(match kind {
                Kind::Pacer => item.bound(Bound::near(ideal, 0.01, theory("section 2: min(S/T, R)"))),
                Kind::Dt2 => item.paper(ideal).bound(reaches()).because("fig12.long", 0.9 * ideal, ideal),
                _ => item.paper(ideal).bound(reaches()),
            });
        }
        // If sending takes exactly as long as the rate allows, DT2 converges to not sleeping only as 1/sqrt(time).
        if point.size * 1_000 == point.rate * numbers.send_time_ms && options.wants("fig12.long") {
            let (reached, _) = numbers.send(VirtualClock::paper(), Kind::Dt2, &point, long);
            let what = format!("DT2, {}, 300,000 packets instead of 10,000", point.what());
            items.push(
                Item::measured(format!("fig12.long.{}", point.id), what, "byte/s", reached)
                    .paper(ideal)
                    .bound(reaches()),
            );
        }
    }
    if options.wants("section4") {
        bursts::run(numbers, items);
    }
}

/// The times at which the packets of the live-data example are sent.
fn live(figure: &Figure14, mut algorithm: Box<dyn Algorithm + Send>) -> Vec<Instant> {
    let mut clock = VirtualClock::exact();
    let (mut sent, mut due) = (Vec::new(), Instant::ZERO);
    for k in 0..3 * figure.packets_per_batch {
        let arrival = Instant::ZERO + Span::from_secs(figure.batch_every_s * (k / figure.packets_per_batch));
        wait_until(&mut clock, &mut *algorithm, due);
        let since = clock.now();
        if since < arrival {
            clock.advance(arrival.since(since));
            algorithm.refilled(since, arrival);
        }
        sent.push(clock.now());
        due = algorithm.next(clock.now(), Bytes::new(figure.size_byte));
    }
    sent
}

/// The departures under each of the algorithms that the paper compares.
fn live_data(figure: &Figure14) -> Vec<(&'static str, Vec<Instant>)> {
    let rate = Rate::from_bytes_per_sec(figure.rate_byte_per_s);
    let at0 = At0::new(rate, Instant::ZERO).expect("the rate of the paper is not zero");
    let at1 = At1::new(rate, At1::THRESHOLD, Instant::ZERO).expect("the rate of the paper is not zero");
    let dt2 = Dt2::live(rate, At1::THRESHOLD, Instant::ZERO).expect("the rate of the paper is not zero");
    vec![
        ("at0", live(figure, Box::new(at0))),
        ("at1", live(figure, Box::new(at1))),
        ("dt0", live(figure, build(Kind::Dt0, figure.rate_byte_per_s))),
        ("dt1", live(figure, build(Kind::Dt1, figure.rate_byte_per_s))),
        ("dt2-live", live(figure, Box::new(dt2))),
    ]
}

fn figure_14(numbers: &Paper, items: &mut Vec<Item>) {
    let figure = &numbers.figure_14;
    let reinitiated = "section 6: re-initiated after each gap, which affects no later packet";
    for (name, sent) in live_data(figure) {
        let (later, source) = match name {
            "at0" => (0.0, "section 7: hardly any gap after the first batch; by a clock of 1 ms"),
            "at1" => (figure.gap_ms, "section 7: approximately 500 ms; by a clock of 1 ms"),
            "dt2-live" => (figure.gap_ms, "section 7: DT2 with the modification of AT1; by a clock of 1 ms"),
            _ => (figure.gap_ms, reinitiated),
        };
        for (batch, times) in sent.chunks(figure.packets_per_batch as usize).enumerate() {
            let mut gaps: Vec<f64> =
                times.windows(2).map(|pair| pair[1].since(pair[0]).as_nanos() as f64 / 1e6).collect();
            // DT0 and DT1 take the pause for the send time of one packet, so one gap is missing. According to the paper
            // no other gap is affected.
            if matches!(name, "dt0" | "dt1") && batch > 0 {
                gaps.sort_by(f64::total_cmp);
                gaps.remove(0);
            }
            let (least, most) =
                gaps.iter().fold((f64::MAX, 0.0_f64), |(least, most), gap| (least.min(*gap), most.max(*gap)));
            let expected = if batch == 0 { figure.gap_ms } else { later };
            for (end, value) in [("least", least), ("most", most)] {
                let what = format!("{}, {end} gap between packets of batch {}", name.to_uppercase(), batch + 1);
                items.push(
                    Item::measured(format!("fig14.{name}.batch{}.{end}", batch + 1), what, "ms", value)
                        .paper(expected)
                        .bound(Bound::around(expected, 1.0, paper(source))),
                );
            }
        }
    }
}

/// DT2 as published, with the live data. Section 7 modifies it for such data, as it does AT0.
fn live_dt2(figure: &Figure14, items: &mut Vec<Item>) {
    let sent = live(figure, build(Kind::Dt2, figure.rate_byte_per_s));
    let later = sent[figure.packets_per_batch as usize..].windows(2);
    let least = later.map(|pair| pair[1].since(pair[0]).as_nanos() as f64 / 1e6).fold(f64::MAX, f64::min);
    let basis =
        paper("section 7: AT0 and DT2 need a modification for live data; less than the gap, by a clock of 1 ms");
    items.push(
        Item::measured("fig14.dt2.least", "DT2, least gap between packets after the first batch", "ms", least)
            .bound(Bound::below(figure.gap_ms - 1.0, basis)),
    );
}

/// The grid on the clock of this machine, with 2 ms of work per packet. The items have no bounds, because a machine
/// that is busy with other work would violate them without any defect.
fn real(paper: &Paper, options: &Options, granularity: Span, items: &mut Vec<Item>) {
    const PACKETS: u64 = 20;
    for point in paper.points() {
        for kind in [Kind::Dt0, Kind::Dt1, Kind::Dt2, Kind::At0, Kind::Pacer] {
            let id = format!("real.{}.{kind}", point.id);
            if !options.wants(&id) {
                continue;
            }
            let mut clock = MonotonicClock::new();
            let start = clock.now();
            let mut algorithm =
                kind.build(Rate::from_bytes_per_sec(point.rate), start).expect("no rate of the paper is zero");
            for _ in 0..PACKETS {
                let done = clock.now() + paper.send_time();
                while clock.now() < done {
                    clock.relax();
                }
                let due = algorithm.next(clock.now(), Bytes::new(point.size));
                wait_until(&mut clock, &mut algorithm, due);
            }
            let elapsed = clock.now().since(start).as_secs_f64();
            let what = format!("{}, {}", kind.name().to_uppercase(), point.what());
            let reached = (PACKETS * point.size) as f64 / elapsed;
            items.push(
                Item::measured(id, what, "byte/s", reached)
                    .paper(paper.ideal(&point))
                    .note(format!("real clock, no bound; `paper` is the ideal, its own sleep took {granularity}")),
            );
        }
    }
}
