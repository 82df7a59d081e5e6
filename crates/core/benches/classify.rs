//! Nanoseconds to classify a packet, for 10, 100, 1,000 and 10,000 rules of one kind; and the time to build them.
//!
//! Each packet belongs to another flow: 1,024 (and 4,096) of them in turn, three of four drawn from the rules, spread
//! over all of them, one of four unrelated. `cargo bench -p tidegate-core --bench classify -- ratio` runs the sizes
//! of each kind in turn, so that other load affects all alike, and prints the ratio of 10,000 to 10.
//!
//! Results on two busy cores of a server, 1,024 flows: 9 to 83 ns with ten thousand rules, 1.0 to 1.4 times the cost of
//! ten rules. Builds take 2 to 110 ms.

use std::cmp::Reverse;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use tidegate_core::Dscp;
use tidegate_core::classify::{Classifier, Fields, Hosts, MarkMatch, Match, Prefix, Rule};
use tidegate_core::random::Stream;

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];

type Make = fn(usize, &mut Stream) -> Match;

/// Each makes the rule of an index.
const KINDS: [(&str, Make); 11] = [
    ("distinct destination ports", |i, _| Match { destination_ports: vec![i as u16..=i as u16], ..Match::default() }),
    ("protocol and destination port", |i, draw| Match {
        protocol: Some([6, 17][i % 2]),
        destination_ports: port(draw),
        ..Match::default()
    }),
    ("distinct hosts", |_, draw| Match { destination: Some(v4(draw, 32)), ..Match::default() }),
    ("pairs of hosts", |_, draw| Match {
        source: Some(v4(draw, 32)),
        destination: Some(v4(draw, 32)),
        ..Match::default()
    }),
    ("prefixes of all lengths", |_, draw| {
        let length = 8 + draw.below(25) as u8;
        Match { destination: Some(v4(draw, length)), ..Match::default() }
    }),
    ("pairs of prefixes of all lengths", |_, draw| {
        let (a, b) = (8 + draw.below(25) as u8, 8 + draw.below(25) as u8);
        Match { source: Some(v4(draw, a)), destination: Some(v4(draw, b)), ..Match::default() }
    }),
    ("IPv6 prefixes in one /32", |_, draw| {
        let length = [48, 56, 64, 128][draw.below(4) as usize];
        let low = u128::from(draw.next_u64()) << 64 | u128::from(draw.next_u64());
        let address = Ipv6Addr::from_bits(0x2001_0db8 << 96 | low >> 32);
        Match { destination: Prefix::covering(IpAddr::V6(address), length), ..Match::default() }
    }),
    ("port ranges", |_, draw| {
        let low = draw.below(65_000) as u16;
        Match { destination_ports: vec![low..=low + draw.below(500) as u16], ..Match::default() }
    }),
    ("prefix, protocol and port range", |_, draw| {
        let low = draw.below(65_000) as u16;
        let length = 16 + draw.below(17) as u8;
        Match {
            destination: Some(v4(draw, length)),
            protocol: Some([6, 17][draw.below(2) as usize]),
            destination_ports: vec![low..=low + draw.below(500) as u16],
            ..Match::default()
        }
    }),
    ("five fields", |_, draw| {
        let (a, b) = (draw.below(65_536) as u16, draw.below(65_536) as u16);
        Match {
            source: Some(v4(draw, 32)),
            destination: Some(v4(draw, 32)),
            protocol: Some([6, 17][draw.below(2) as usize]),
            source_ports: vec![a..=a],
            destination_ports: vec![b..=b],
            ..Match::default()
        }
    }),
    ("different fields", |i, draw| {
        let mut m = Match::default();
        match i % 10 {
            0 => m.dscp = Some([Dscp::new(draw.below(64) as u8).unwrap_or_default()].into_iter().collect()),
            1 => m.destination_ports = port(draw),
            2 => m.source = Some(v4(draw, 24)),
            3 => (m.source, m.destination) = (Some(v4(draw, 24)), Some(v4(draw, 16))),
            4 => (m.destination, m.destination_ports) = (Some(v4(draw, 32)), port(draw)),
            5 => (m.source, m.source_ports) = (Some(v4(draw, 32)), port(draw)),
            6 => m.mark = Some(MarkMatch { value: draw.below(1 << 20) as u32, mask: u32::MAX }),
            7 => m.uid = Some(1_000 + i as u32..=1_000 + i as u32),
            8 => (m.protocol, m.destination_ports) = (Some(6), port(draw)),
            _ => (m.source, m.destination, m.destination_ports) = (Some(v4(draw, 32)), Some(v4(draw, 24)), port(draw)),
        }
        m
    }),
];

fn port(draw: &mut Stream) -> Vec<RangeInclusive<u16>> {
    let port = draw.below(65_536) as u16;
    vec![port..=port]
}

fn v4(draw: &mut Stream, length: u8) -> Prefix {
    let address = Ipv4Addr::from_bits((draw.next_u64() >> 32) as u32);
    Prefix::covering(IpAddr::V4(address), length).unwrap_or(Prefix::host(IpAddr::V4(address)))
}

fn rules(name: &str, make: Make, count: usize) -> Vec<Rule> {
    let mut draw = Stream::named(11, "rules");
    let mut rules: Vec<Rule> = (0..count).map(|i| Rule { matching: make(i, &mut draw), target: i as u32 }).collect();
    if name.contains("prefix") || name.contains("range") {
        // Narrow rules before wide ones, as people write them; otherwise the wide would shadow the narrow.
        rules.sort_by_key(|rule| {
            let bits = |prefix: Option<Prefix>| prefix.map_or(0, |prefix| u16::from(prefix.length()));
            let ports = rule.matching.destination_ports.first().map_or(0, |range| range.end() - range.start());
            (Reverse(bits(rule.matching.source) + bits(rule.matching.destination)), ports)
        });
    }
    rules
}

/// An address of `prefix`, with the other bits from `noise`.
fn inside(prefix: Prefix, noise: u128) -> IpAddr {
    let behind = |bits: u32| noise & ((1 << (bits - u32::from(prefix.length()))) - 1);
    match prefix.address() {
        IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() | behind(32) as u32)),
        // No rule here covers more than half of all addresses.
        IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() | behind(128))),
    }
}

fn packets(rules: &[Rule], flows: usize) -> Vec<Fields> {
    let mut draw = Stream::named(12, "packets");
    let foreign = Match::default();
    (0..flows)
        .map(|i| {
            let rule = &rules[draw.below(rules.len() as u64) as usize].matching;
            let m = if i % 4 == 3 { &foreign } else { rule };
            let noise = u128::from(draw.next_u64()) << 64 | u128::from(draw.next_u64());
            // Unrelated packets have the IP version of the rules.
            let v6 = rule.destination.is_some_and(|prefix| prefix.length() > 32);
            let any =
                if v6 { IpAddr::V6(Ipv6Addr::from_bits(noise)) } else { IpAddr::V4(Ipv4Addr::from_bits(noise as u32)) };
            let end = |prefix: Option<Prefix>, other| prefix.map_or(other, |prefix| inside(prefix, noise));
            let hosts = match (end(m.source, any), end(m.destination, any)) {
                (IpAddr::V4(source), IpAddr::V4(destination)) => Hosts::V4 { source, destination },
                (_, IpAddr::V6(destination)) => Hosts::V6 { source: Ipv6Addr::from_bits(noise), destination },
                _ => Hosts::Unknown,
            };
            let mut port = |ranges: &[RangeInclusive<u16>]| match ranges.first() {
                Some(range) => Some(range.start() + draw.below(u64::from(range.end() - range.start()) + 1) as u16),
                None => Some(draw.below(65_536) as u16),
            };
            Fields {
                hosts,
                source_port: port(&m.source_ports),
                destination_port: port(&m.destination_ports),
                protocol: m.protocol.or(Some(6)),
                dscp: m.dscp.and_then(|set| Dscp::new(set.bits().trailing_zeros() as u8)).unwrap_or_default(),
                mark: m.mark.map_or(0, |mark| mark.value),
                uid: m.uid.as_ref().map(|uid| *uid.start()).or(Some(0)),
                ..Fields::default()
            }
        })
        .collect()
}

fn lookups(criterion: &mut Criterion) {
    for (name, make) in KINDS {
        let mut group = criterion.benchmark_group(format!("classify/{name}"));
        for (count, flows) in SIZES.map(|count| (count, 1_024)) {
            let classifier = Classifier::new(rules(name, make, count)).expect("the rules fit");
            let packets = packets(classifier.rules(), flows);
            group.throughput(Throughput::Elements(packets.len() as u64));
            group.bench_with_input(BenchmarkId::from_parameter(count), &packets, |bencher, packets| {
                bencher
                    .iter(|| packets.iter().filter(|packet| classifier.classify(black_box(packet)).is_some()).count());
            });
        }
    }
}

fn builds(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("classify/build 10,000 rules");
    group.sample_size(10);
    for (name, make) in KINDS {
        let rules = rules(name, make, 10_000);
        group.bench_function(name, |bencher| bencher.iter(|| Classifier::new(rules.clone()).is_ok()));
    }
}

/// The sizes of a kind in turn, the best of many rounds of each.
fn ratios(flows: usize) {
    println!("\n{flows} flows; ns a packet{:11} 10 to 10,000 rules, ratio       build      MB", "");
    for (name, make) in KINDS {
        let mut build = Duration::ZERO;
        let sets = SIZES.map(|count| {
            let rules = rules(name, make, count);
            let start = Instant::now();
            let classifier = Classifier::new(rules).expect("the rules fit");
            build = start.elapsed();
            let packets = packets(classifier.rules(), flows);
            (classifier, packets)
        });
        let mut best = [f64::INFINITY; 4];
        let mut answers = vec![None; flows];
        for _ in 0..150 {
            for (size, (classifier, packets)) in sets.iter().enumerate() {
                let start = Instant::now();
                for _ in 0..4 {
                    answers.iter_mut().zip(packets).for_each(|(answer, p)| *answer = classifier.classify(p));
                    black_box(&answers);
                }
                best[size] = best[size].min(start.elapsed().as_nanos() as f64 / (4 * packets.len()) as f64);
            }
        }
        let cost = sets[3].0.cost();
        let [a, b, c, d] = best;
        let text = format!("{a:6.1} {b:6.1} {c:6.1} {d:6.1} {:5.2}", d / a);
        let (ms, mb) = (build.as_secs_f64() * 1e3, cost.memory as f64 / 1e6);
        println!("{name:32} {text} {ms:6.1} ms {mb:6.2}  {} groups, {} stages", cost.groups, cost.stages);
    }
}

/// Operations when rules are read: the most expensive build (one that is rejected), and the search for rules that
/// cannot match.
fn once() {
    let mut draw = Stream::named(5, "unbearable");
    let mut wide = || {
        let (a, b) = (draw.below(65_536) as u16, draw.below(65_536) as u16);
        vec![a.min(b)..=a.max(b)]
    };
    let entangled: Vec<Rule> = (0..8_000)
        .map(|_| {
            let (source_ports, destination_ports) = (wide(), wide());
            let uid = Some(u32::from(*wide()[0].start())..=70_000);
            Rule { matching: Match { source_ports, destination_ports, uid, ..Match::default() }, target: 0 }
        })
        .collect();
    let start = Instant::now();
    let refused = Classifier::new(entangled).is_err();
    println!("8,000 entangled rules, refused: {refused}, in {:?}", start.elapsed());
    for (name, make) in KINDS {
        let classifier = Classifier::new(rules(name, make, 10_000)).expect("the rules fit");
        let start = Instant::now();
        let count = classifier.shadowed().len();
        println!("10,000 rules, {name}: {count} cannot match, found in {:?}", start.elapsed());
    }
}

fn main() {
    if std::env::args().any(|arg| arg == "once") {
        return once();
    }
    if std::env::args().any(|arg| arg == "ratio") {
        ratios(1_024);
        return ratios(4_096);
    }
    let mut criterion = Criterion::default().configure_from_args();
    lookups(&mut criterion);
    builds(&mut criterion);
    criterion.final_summary();
}
