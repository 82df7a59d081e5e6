//! Changes of rates and trees under load: no packet is lost, none overtakes another.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_config::shaper::{self, Config};
use tidegate_config::{Diagnostics, Source};
use tidegate_core::random::Stream;
use tidegate_engine::{Names, PreparedConfig, Setup, SwapKind};
use tidegate_live::shaping::Shaping;
use tidegate_live::timing;
use tidegate_testbed::{Pair, Senders, Sink};
use tidegate_units::Span;

use crate::flows::{dropped, measure, near, udp};
use crate::rates::shape;
use tidegate_testbed::Ended;
use tidegate_testbed::steady::patiently;

const CHANGES: u64 = 10_000;
const FLOWS: u16 = 6;

fn config(text: &str) -> Config {
    let source = Source::new("change.toml", text);
    let mut diagnostics = Diagnostics::new();
    shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

/// A shaper of one to four classes, or CBQ, or another discipline, with limits far above the load. `@` stands for a
/// rate.
fn draw(random: &mut Stream) -> String {
    let classes = 1 + random.below(4);
    let rules = |random: &mut Stream| {
        let rule = |port: u64, class: u64| format!("[[rule]]\nclass = \"c{class}\"\ndestination-port = {port}\n");
        (5_000..5_000 + u64::from(FLOWS)).map(|port| rule(port, random.below(classes))).collect::<String>()
    };
    match random.below(8) {
        0..4 => {
            let class = |n: u64, random: &mut Stream| {
                let default = if n == 0 { "default = true\n" } else { "" };
                let share = if random.below(4) == 0 { "share = \"strict\"\n" } else { "" };
                format!("[[class]]\nname = \"c{n}\"\nrate = \"@mbit\"\nlimit = \"9MB\"\n{default}{share}")
            };
            let all: String = (0..classes).map(|n| class(n, random)).collect();
            format!("version = 1\n{all}{}", rules(random))
        }
        4..7 => {
            let class = |n: u64, random: &mut Stream| {
                let borrow = if random.below(2) == 0 { "from-parent" } else { "never" };
                format!(
                    "{{ name = \"c{n}\", rate = \"@mbit\", borrow = \"{borrow}\", queue = {{ kind = \"fifo\", limit = \"9MB\" }} }},"
                )
            };
            let all: String = (0..classes).map(|n| class(n, random)).collect();
            let rules = rules(random);
            format!("version = 1\n{rules}[discipline]\nkind = \"cbq\"\nlink = \"120mbit\"\nclass = [{all}]\n")
        }
        _ => {
            let kinds = ["fifo\"\nlimit = \"9MB", "fq-codel", "sfq", "drr", "cake\"\nrate = \"40mbit"];
            format!("version = 1\n[discipline]\nkind = \"{}\"\n", kinds[random.below(5) as usize])
        }
    }
}

/// With a rate for each `@`: sometimes below the load, on the average above it.
fn fill(text: &str, random: &mut Stream) -> String {
    let mut parts = text.split('@');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| format!("{text}{}{part}", 1 + random.below(30)))
}

pub fn ten_thousand_changes_lose_nothing() -> Ended {
    let pair = Pair::create().expect("a pair of hosts");
    let before = dropped(&pair);
    let mut random = Stream::named(1, "changes");
    let shaping = shape(&pair, "version = 1\n[[class]]\nname = \"c0\"\nrate = \"20mbit\"\ndefault = true\n");
    let secret = shaping.with(|engine, _| engine.setup().clone()).expect("the setup").secret;
    let flows: Vec<_> = (0..FLOWS).map(|n| udp(n, 3_000, 300 + 100 * u64::from(n))).collect();
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    let start = Instant::now();
    let (mut replaced, mut in_place, mut rehomed, mut most, mut met) = (0_u64, 0_u64, 0_usize, 0_usize, 0_usize);
    let setup = Setup { seed: 1, secret, catch_up: Span::from_millis(5), most_queued: None, names: Names::default() };
    let mut text = draw(&mut random);
    for _ in 0..CHANGES {
        // Another tree, or only other rates in the same.
        if random.below(3) == 0 {
            text = draw(&mut random);
        }
        let next = PreparedConfig::new(&config(&fill(&text, &mut random)), &setup, timing::now()).expect("a tree");
        let swapped = shaping
            .change(move |engine, now, sink| {
                let waiting = engine.queued();
                engine.swap(next, now, sink).map(|(swapped, spare)| (swapped, waiting, spare))
            })
            .expect("an answer");
        let (swapped, waiting, _spare) = swapped.expect("a change");
        replaced += u64::from(swapped.how == SwapKind::Replaced);
        in_place += u64::from(swapped.how == SwapKind::InPlace);
        rehomed += swapped.rehomed;
        most = most.max(waiting);
        met += waiting;
        // Now and then what waits may get fewer.
        sleep(Duration::from_micros(random.below(2_000)));
    }
    let took = start.elapsed();
    senders_stop(&shaping, senders, &sink, || dropped(&pair) - before);
    println!(
        "  {CHANGES} changes in {took:.1?}: {replaced} trees, {in_place} in place; {met} packets waited, {rehomed} were rehomed, {most} at most"
    );
    let status = shaping.status().expect("the classes");
    for class in &status {
        let dropped: u64 = class.counts.accounts.dropped.iter().map(|account| account.packets).sum();
        assert_eq!(dropped, 0, "{} dropped {:?}", class.name, class.counts.accounts.dropped);
        assert_eq!(class.counts.backlog.packets, 0);
    }
    let counts = shaping.stop().expect("an orderly end");
    assert_eq!((counts.refused, counts.socket.refused_verdicts), (0, 0));
    assert!(replaced > 2_000 && in_place > 2_000 && met > 1_000 && rehomed > 300, "the changes must meet packets");
    Ended::Passed
}

/// Lets everything arrive, and compares what was sent with what came.
fn senders_stop(shaping: &Shaping, senders: Senders, sink: &Sink, dropped: impl Fn() -> u64) {
    use std::sync::atomic::Ordering;
    for n in 0..usize::from(FLOWS) {
        senders.set_rate(n, tidegate_units::Rate::ZERO);
    }
    // A rate that is on its way to a sender, what waits, and what the sink has not read.
    let sent = |n: usize| senders.sent(n).packets.load(Ordering::Relaxed);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut last = u64::MAX;
    loop {
        sleep(Duration::from_millis(100));
        let (all, arrived) = (0..usize::from(FLOWS))
            .map(|n| (sent(n), sink.report(n).packets))
            .fold((0, 0), |(all, arrived), (sent, report)| (all + sent, arrived + report));
        let waiting = shaping.with(|engine, _| engine.queued()).expect("an answer");
        // Twice the same: nobody sends any more.
        if waiting == 0 && all == arrived + dropped() && all == last {
            break;
        }
        last = all;
        if Instant::now() > deadline {
            println!("  {waiting} packets wait; {arrived} of {all} have arrived");
            break;
        }
    }
    let mut missing = 0;
    for n in 0..usize::from(FLOWS) {
        let report = sink.report(n);
        assert_eq!(report.reordered, 0, "flow {n}");
        missing += sent(n) - report.packets;
    }
    assert_eq!(missing, dropped(), "missing and dropped by the machine");
    senders.stop();
}

pub fn another_file_takes_over_and_a_broken_one_does_not() -> Ended {
    patiently(files)
}

fn files() -> Result<(), String> {
    let pair = Pair::create().expect("a pair of hosts");
    let mut shaping = shape(&pair, "version = 1\n[[class]]\nname = \"all\"\nrate = \"4mbit\"\ndefault = true\n");
    let flows = [udp(0, 9_000, 1_000), udp(1, 9_000, 1_000)];
    let sink = Sink::start(&pair.receiver, &flows).expect("a sink");
    let senders = Senders::start(&pair.sender, &pair.receiver, &flows).expect("senders");
    sleep(Duration::from_millis(500));
    let two = "version = 1\n[[class]]\nname = \"all\"\nrate = \"6mbit\"\ndefault = true\nborrow = false\n\
        [[class]]\nname = \"one\"\nrate = \"2mbit\"\nborrow = false\n[[rule]]\nclass = \"one\"\ndestination-port = 5001\n";
    let swapped = pair.sender.namespace.run(|| shaping.reconfigure(&config(two), Some(two))).expect("a thread");
    assert_eq!(swapped.expect("a change").how, SwapKind::Replaced);
    assert_eq!(shaping.class_names(), ["all", "one"]);
    assert!(
        shaping.interfaces()[0].proof().proven.iter().any(|(class, _)| class == "one"),
        "{:?}",
        shaping.interfaces()[0].proof()
    );
    let elsewhere = config(&format!("{two}\n[interface]\ndirection = \"ingress\"\n"));
    let refused = pair.sender.namespace.run(|| shaping.reconfigure(&elsewhere, None)).expect("a thread");
    assert!(refused.is_err_and(|error| error.to_string().contains("direction")));
    sleep(Duration::from_millis(600));
    let rates = measure(&sink, 2, Duration::from_secs(2));
    senders.stop();
    shaping.stop().expect("an orderly end");
    println!("  {rates:.0?}");
    near(rates[0], 6e6, 0.03)?;
    near(rates[1], 2e6, 0.03)
}
