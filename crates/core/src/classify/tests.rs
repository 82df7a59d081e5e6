use super::*;
use crate::packet::Dscp;
use crate::random::Stream;

use alloc::{string::ToString as _, vec};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The meaning of a list of rules.
fn naive(rules: &[Rule], packet: &Fields) -> Option<u32> {
    rules.iter().position(|rule| rule.matching.matches(packet)).map(|at| at as u32)
}

/// Draws values from a small range, so that rules match packets, including the ends of ranges.
struct Draw {
    stream: Stream,
    /// The approximate number of distinct values of a field.
    spread: u64,
}

impl Draw {
    fn one_in(&mut self, n: u64) -> bool {
        self.stream.below(n) == 0
    }
    fn v4(&mut self) -> Ipv4Addr {
        let base = [0x0a00_0000_u32, 0x0a01_0000, 0xc000_0200, 0xffff_ff00, 0][self.stream.below(5) as usize];
        Ipv4Addr::from_bits(base.wrapping_add(self.stream.below(self.spread) as u32))
    }
    fn v6(&mut self) -> Ipv6Addr {
        let base: [u128; 4] = [0x2001_0db8 << 96, 0x2001_0db8 << 96 | 7 << 64, 0, !0xffff];
        Ipv6Addr::from_bits(base[self.stream.below(4) as usize].wrapping_add(self.stream.below(self.spread).into()))
    }
    fn prefix(&mut self, version: Version) -> Prefix {
        let (address, lengths): (IpAddr, [u8; 8]) = match version {
            Version::V4 => (self.v4().into(), [0, 1, 8, 15, 16, 24, 31, 32]),
            Version::V6 => (self.v6().into(), [0, 3, 32, 48, 64, 127, 128, 120]),
        };
        Prefix::covering(address, lengths[self.stream.below(8) as usize]).unwrap()
    }
    fn port(&mut self) -> u16 {
        let low = self.stream.below(self.spread) as u16;
        if self.one_in(4) { u16::MAX - low % 3 } else { low }
    }
    fn ports(&mut self) -> Vec<core::ops::RangeInclusive<u16>> {
        (0..1 + self.stream.below(3))
            .map(|_| {
                let (a, b) = (self.port(), self.port());
                if self.one_in(2) { a..=a } else { a.min(b)..=a.max(b) }
            })
            .collect()
    }
    fn protocol(&mut self) -> u8 {
        [6, 17, 132, 255][self.stream.below(4) as usize]
    }
    fn dscp(&mut self) -> Dscp {
        Dscp::new([0, 10, 46, 63][self.stream.below(4) as usize]).unwrap()
    }

    fn flags(&mut self) -> FlagMatch {
        let mask = [2, 0x12, 7, 0xff, 0][self.stream.below(5) as usize];
        let stray = u8::from(self.one_in(20)) << 7;
        FlagMatch { value: [2, 0x10, 0x12, 1][self.stream.below(4) as usize] & mask | stray, mask }
    }
    fn icmp(&mut self) -> IcmpType {
        let version = if self.one_in(2) { Version::V4 } else { Version::V6 };
        IcmpType { version, number: [0, 8, 128, 255][self.stream.below(4) as usize] }
    }
    fn traits(&mut self) -> Traits {
        let signal = match self.stream.below(4) {
            0 => Signal::Unknown,
            1 => Signal::Icmp(self.icmp()),
            _ => {
                let flags = [2, 0x10, 0x12, 0x11, 4, 0][self.stream.below(6) as usize];
                Signal::Tcp { flags, pure_ack: flags == 0x10 && self.one_in(2) }
            }
        };
        Traits { length: if self.one_in(6) { 0 } else { self.port() }, signal }
    }

    /// A rule in which each condition is present with a probability of 1/`sparsity`.
    fn rule(&mut self, sparsity: u64) -> Rule {
        let mut m = Match::default();
        let version = if self.one_in(2) { Version::V4 } else { Version::V6 };
        let other = if version == Version::V4 { Version::V6 } else { Version::V4 };
        m.version = self.one_in(4 * sparsity).then_some(version);
        if self.one_in(sparsity) {
            m.source = Some(self.prefix(version));
        }
        if self.one_in(sparsity) {
            let mixed = self.one_in(40);
            m.destination = Some(self.prefix(if mixed { other } else { version }));
        }
        if self.one_in(sparsity) {
            m.source_ports = self.ports();
        }
        if self.one_in(sparsity) {
            m.destination_ports = self.ports();
        }
        if self.one_in(sparsity) {
            m.protocol = Some(self.protocol());
        }
        if self.one_in(sparsity) {
            m.dscp = Some([self.dscp(), self.dscp()].into_iter().collect());
        }
        if self.one_in(2 * sparsity) {
            let mask = [u32::MAX, 0xff, 0xff00, 0x0f0f, 0][self.stream.below(5) as usize];
            let stray = u32::from(self.one_in(30)) << 31;
            m.mark = Some(MarkMatch { value: self.stream.below(0x300) as u32 & mask | stray, mask });
        }
        if self.one_in(2 * sparsity) {
            let (a, b) = (self.stream.below(9) as u32, self.stream.below(9) as u32);
            m.uid = Some(a * 500..=b * 500);
        }
        if self.one_in(2 * sparsity) {
            m.cgroup = Some(self.stream.below(5) << 30);
        }
        if self.one_in(2 * sparsity) {
            m.lengths = self.ports();
        }
        match self.stream.below(5 * sparsity) {
            0 => m.tcp_flags = (0..1 + self.stream.below(2)).map(|_| self.flags()).collect(),
            1 => m.pure_ack = true,
            2 => m.icmp_types = (0..1 + self.stream.below(2)).map(|_| self.icmp()).collect(),
            3 if self.one_in(9) => (m.pure_ack, m.icmp_types) = (true, vec![self.icmp()]),
            _ => {}
        }
        Rule { matching: m, target: 0 }
    }

    fn packet(&mut self) -> Fields {
        let hosts = match self.stream.below(9) {
            0 => Hosts::Unknown,
            1..=4 => Hosts::V4 { source: self.v4(), destination: self.v4() },
            _ => Hosts::V6 { source: self.v6(), destination: self.v6() },
        };
        let ports = !self.one_in(6);
        Fields {
            hosts,
            dscp: self.dscp(),
            protocol: (!self.one_in(9)).then(|| self.protocol()),
            source_port: ports.then(|| self.port()),
            destination_port: ports.then(|| self.port()),
            mark: self.stream.below(0x300) as u32,
            uid: (!self.one_in(3)).then(|| self.stream.below(4500) as u32 / 250 * 250),
            cgroup: (!self.one_in(3)).then(|| self.stream.below(5) << 30),
            fragment: None,
            traits: self.traits(),
        }
    }
    /// A packet at an edge of `rule`: it matches, or one condition fails by one.
    fn packet_at(&mut self, rule: &Rule) -> Fields {
        let mut packet = self.packet();
        let m = &rule.matching;
        let step = |n: u128, low: u128, high: u128, pick: u64| match pick {
            0 => low.wrapping_sub(1),
            1 => high.wrapping_add(1),
            2 => low,
            3 => high,
            _ => low + n % high.saturating_sub(low).saturating_add(1),
        };
        let pick = |draw: &mut Self, low, high| {
            let choice = draw.stream.below(24);
            step(draw.stream.next_u64().into(), low, high, choice)
        };
        let source = m.source.map(|p| p.range()).map(|(v, low, high)| (v, pick(self, low, high)));
        let destination = m.destination.map(|p| p.range()).map(|(v, low, high)| (v, pick(self, low, high)));
        let v4 = |n: u128| Ipv4Addr::from_bits(n as u32);
        if let Some((version, _)) = source.or(destination) {
            let end = |given: Option<(Version, u128)>, other: u128| given.map_or(other, |given| given.1);
            packet.hosts = if version == Version::V4 {
                let (a, b) = (self.v4().to_bits().into(), self.v4().to_bits().into());
                Hosts::V4 { source: v4(end(source, a)), destination: v4(end(destination, b)) }
            } else {
                let (a, b) = (self.v6().to_bits(), self.v6().to_bits());
                let v6 = Ipv6Addr::from_bits;
                Hosts::V6 { source: v6(end(source, a)), destination: v6(end(destination, b)) }
            };
        }
        if let Some(range) = m.source_ports.first() {
            packet.source_port = Some(pick(self, (*range.start()).into(), (*range.end()).into()) as u16);
        }
        if let Some(range) = m.destination_ports.last() {
            packet.destination_port = Some(pick(self, (*range.start()).into(), (*range.end()).into()) as u16);
        }
        packet.protocol = m.protocol.or(packet.protocol);
        if let Some(set) = m.dscp.filter(|set| set.bits() != 0) {
            packet.dscp = Dscp::new(set.bits().trailing_zeros() as u8).unwrap();
        }
        packet.mark = m.mark.map_or(packet.mark, |mark| mark.value | packet.mark & !mark.mask);
        packet.uid = m
            .uid
            .as_ref()
            .map(|uid| pick(self, (*uid.start()).into(), (*uid.start().max(uid.end())).into()) as u32)
            .or(packet.uid);
        packet.cgroup = m.cgroup.or(packet.cgroup);
        if let Some(range) = m.lengths.first() {
            packet.traits.length = pick(self, (*range.start()).into(), (*range.end()).into()) as u16;
        }
        if (m.has_tcp() || !m.icmp_types.is_empty()) && !self.one_in(4) {
            packet.traits.signal = m.example().traits.signal;
        }
        packet
    }
}

fn agree(rules: Vec<Rule>, draw: &mut Draw, packets: usize) -> usize {
    let classifier = Classifier::new(rules).unwrap();
    let rules = classifier.rules();
    let mut hit = vec![false; rules.len()];
    for n in 0..packets {
        let packet = if n % 4 == 0 || rules.is_empty() {
            draw.packet()
        } else {
            let at = draw.stream.below(rules.len() as u64) as usize;
            draw.packet_at(&rules[at])
        };
        let expected = naive(rules, &packet);
        assert_eq!(classifier.classify(&packet), expected, "{packet:?} {:?}", classifier.cost());
        if let Some(rule) = expected {
            hit[rule as usize] = true;
        }
    }
    for rule in rules {
        assert_eq!(rule.matching.matches(&rule.matching.example()), !rule.matching.is_contradiction(), "{rule:?}");
    }
    for shadowed in classifier.shadowed() {
        assert!(!hit[shadowed.rule as usize], "{shadowed:?} matched");
        if let Cause::Rule(by) = shadowed.cause {
            assert!(rules[by as usize].matching.covers(&rules[shadowed.rule as usize].matching));
        }
    }
    hit.into_iter().filter(|hit| *hit).count()
}

#[test]
fn agrees_with_the_rules_read_one_by_one() {
    let mut reached = 0;
    for seed in 0..400 {
        let mut draw = Draw { stream: Stream::named(seed, "classify"), spread: [3, 20, 300][seed as usize % 3] };
        let sparsity = 1 + draw.stream.below(4);
        let count = draw.stream.below([6, 40, 120][seed as usize / 3 % 3]);
        let rules = (0..count).map(|_| draw.rule(sparsity)).collect();
        reached += agree(rules, &mut draw, 600);
    }
    assert!(reached > 4_000, "rules matched: {reached}");
}

/// Thousands of rules with conditions on few fields each, so that most can match.
#[test]
fn agrees_with_large_rule_sets() {
    for seed in 0..6 {
        let mut draw = Draw { stream: Stream::named(seed, "large"), spread: 4_000 };
        let rules: Vec<Rule> = (0..1_500)
            .map(|_| {
                let mut rule = draw.rule(2);
                // Narrow: hosts and single ports.
                let m = &mut rule.matching;
                for prefix in [&mut m.source, &mut m.destination].into_iter().flatten() {
                    *prefix = Prefix::host(prefix.address());
                }
                m.source_ports
                    .iter_mut()
                    .chain(&mut m.destination_ports)
                    .for_each(|range| *range = *range.start()..=*range.start());
                // Those of single packets are wide: many of them, each with other fields, would be refused.
                m.lengths.clear();
                m.tcp_flags.clear();
                m.icmp_types.clear();
                m.pure_ack = false;
                if (m.source, m.destination) == (None, None)
                    && m.source_ports.is_empty()
                    && m.destination_ports.is_empty()
                {
                    m.destination_ports = vec![draw.port()..=draw.port()];
                }
                rule
            })
            .collect();
        let reached = agree(rules, &mut draw, 6_000);
        assert!(reached > 300, "rules matched: {reached}");
    }
}

/// Wide rectangles over two fields, which make the tables large: groups are split, and the result stays right.
#[test]
fn splits_what_would_explode() {
    let mut draw = Draw { stream: Stream::named(3, "wide"), spread: 60_000 };
    let rules: Vec<Rule> = (0..700)
        .map(|_| {
            let mut wide = |limit: u64| {
                let (at, width) = (draw.stream.below(60_000), draw.stream.below(limit));
                vec![at as u16..=(at + width).min(65_535) as u16]
            };
            let matching = Match { source_ports: wide(30_000), destination_ports: wide(2_000), ..Match::default() };
            Rule { matching, target: 0 }
        })
        .collect();
    assert!(Classifier::new(rules.clone()).unwrap().cost().groups > 1);
    agree(rules, &mut draw, 4_000);
}

#[test]
fn an_unbearable_set_is_refused_in_bounded_time() {
    let mut stream = Stream::named(5, "unbearable");
    let rules = (0..8_000)
        .map(|_| {
            let mut wide = || {
                let (a, b) = (stream.below(65_536) as u16, stream.below(65_536) as u16);
                vec![a.min(b)..=a.max(b)]
            };
            let (source_ports, destination_ports) = (wide(), wide());
            let uid = Some(u32::from(*wide()[0].start())..=70_000);
            Rule { matching: Match { source_ports, destination_ports, uid, ..Match::default() }, target: 0 }
        })
        .collect();
    assert_eq!(Classifier::new(rules).unwrap_err(), BuildError::TooComplex);
}

fn rule(matching: Match) -> Rule {
    Rule { matching, target: 0 }
}

#[test]
fn no_rule_and_a_rule_for_all() {
    assert_eq!(Classifier::new(vec![]).unwrap().classify(&Fields::default()), None);
    let all =
        Classifier::new(vec![rule(Match::default()), rule(Match { protocol: Some(6), ..Match::default() })]).unwrap();
    assert_eq!(all.classify(&Fields::default()), Some(0));
    assert_eq!(all.shadowed(), [Shadowed { rule: 1, cause: Cause::Rule(0) }]);
}

#[test]
fn what_is_not_known_matches_no_condition() {
    let full = |ports| Match { destination_ports: ports, ..Match::default() };
    let rules = vec![rule(full(vec![0..=65_535])), rule(Match { uid: Some(0..=u32::MAX), ..Match::default() })];
    let classifier = Classifier::new(rules).unwrap();
    assert_eq!(classifier.classify(&Fields::default()), None);
    assert_eq!(classifier.classify(&Fields { uid: Some(7), ..Fields::default() }), Some(1));
    assert_eq!(classifier.classify(&Fields { destination_port: Some(0), ..Fields::default() }), Some(0));
}

/// Properties of a packet beside those of its flow, IPv4 and IPv6.
#[test]
fn packets_of_one_flow_are_told_apart() {
    let tcp = |flags, pure_ack| Signal::Tcp { flags, pure_ack };
    let echo = |version, number| IcmpType { version, number };
    let rules = vec![
        rule(Match { tcp_flags: vec![FlagMatch { value: 0x02, mask: 0x12 }], ..Match::default() }),
        rule(Match { pure_ack: true, protocol: Some(6), ..Match::default() }),
        rule(Match { icmp_types: vec![echo(Version::V4, 8), echo(Version::V6, 128)], ..Match::default() }),
        rule(Match { lengths: vec![0..=200, 1_400..=1_500], ..Match::default() }),
    ];
    let classifier = Classifier::new(rules).unwrap();
    let v4 = Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let v6 = Hosts::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };
    for hosts in [v4, v6] {
        let class = |length, signal| {
            let traits = Traits { length, signal };
            classifier.classify(&Fields { hosts, protocol: Some(6), traits, ..Fields::default() })
        };
        assert_eq!(class(60, tcp(0x02, false)), Some(0), "a SYN");
        assert_eq!(class(60, tcp(0x12, false)), Some(3), "a SYN with ACK is only short");
        assert_eq!(class(600, tcp(0x12, false)), None);
        assert_eq!(class(52, tcp(0x10, true)), Some(1), "a pure acknowledgement");
        assert_eq!(class(52, tcp(0x10, false)), Some(3));
        assert_eq!(
            [201, 1_399, 1_400, 1_501].map(|length| class(length, tcp(0x10, false))),
            [None, None, Some(3), None]
        );
        assert_eq!(class(0, Signal::Unknown), None, "an unknown length matches no range");
        assert_eq!(class(84, Signal::Icmp(echo(Version::V4, 8))), Some(2));
        assert_eq!(class(84, Signal::Icmp(echo(Version::V6, 128))), Some(2));
        assert_eq!(class(600, Signal::Icmp(echo(Version::V4, 128))), None, "128 is an echo request of ICMPv6 alone");
    }
}

#[test]
fn shadows_are_explained() {
    let source = |text: &str| Some(text.parse::<Prefix>().unwrap());
    let rules = vec![
        rule(Match { source: source("10.0.0.0/9"), protocol: Some(6), ..Match::default() }),
        rule(Match { source: source("10.128.0.0/9"), protocol: Some(6), ..Match::default() }),
        rule(Match { source: source("10.0.0.0/8"), protocol: Some(6), ..Match::default() }),
        rule(Match { source: source("10.1.0.0/16"), protocol: Some(6), mark: None, ..Match::default() }),
        rule(Match { source: source("10.1.0.0/16"), destination: source("::/0"), ..Match::default() }),
        rule(Match { source: source("10.1.0.0/16"), protocol: Some(17), ..Match::default() }),
    ];
    let shadowed = Classifier::new(rules).unwrap().shadowed();
    let expect = |rule, cause| Shadowed { rule, cause };
    assert_eq!(shadowed, [expect(2, Cause::Several), expect(3, Cause::Rule(0)), expect(4, Cause::Contradiction),]);
}

#[test]
fn prefixes_from_text() {
    assert_eq!("10.0.0.0/8".parse::<Prefix>().unwrap().to_string(), "10.0.0.0/8");
    assert_eq!("::1".parse::<Prefix>().unwrap().length(), 128);
    let meant = "10.0.0.0/8".parse().unwrap();
    assert_eq!("10.0.0.1/8".parse::<Prefix>(), Err(PrefixError::HostBits(meant)));
    assert_eq!("10.0.0.0/33".parse::<Prefix>(), Err(PrefixError::Length));
    assert_eq!("ten/8".parse::<Prefix>(), Err(PrefixError::Address));
    assert!("::/0".parse::<Prefix>().unwrap().contains("ffff::1".parse().unwrap()));
    assert!(!"::/0".parse::<Prefix>().unwrap().contains("1.2.3.4".parse().unwrap()));
}

#[test]
fn mark_masks_have_a_limit() {
    let marks = |n: u32| {
        (0..n)
            .map(|bit| rule(Match { mark: Some(MarkMatch { value: 0, mask: 1 << bit }), ..Match::default() }))
            .collect()
    };
    assert!(Classifier::new(marks(16)).is_ok());
    assert_eq!(Classifier::new(marks(17)).unwrap_err(), BuildError::Masks { rule: 16 });
}

/// A thousand rules on hosts and ports have room in a program of the kernel: 65,536 numbers (`TWIN_RULES` of kernel/classify.h).
#[test]
fn the_image_of_a_thousand_rules_fits() {
    let rules: Vec<Rule> = (0..1_000_u32)
        .map(|at| {
            let host = Prefix::host(Ipv4Addr::from_bits(0x0a00_0000 + at * 7).into());
            let port = 1_000 + at as u16 % 50;
            rule(Match { destination: Some(host), destination_ports: vec![port..=port], ..Match::default() })
        })
        .collect();
    let hash = flow::FlowHash::new([1, 2], flow::FlowBy::FiveTuple);
    let targets = [Target { class: 3, profile: 4, salt: 5 }];
    let numbers = image(&rules, &targets, Target::default(), &hash, &[]).unwrap();
    assert!((10_000..30_000).contains(&numbers.len()), "{}", numbers.len());
    // Two fields, and the results after the head: the default, then that of each rule.
    let at = numbers[4] as usize;
    assert_eq!((numbers[0], &numbers[at..at + 4]), (2, &[0, 0, 4 << 32 | 3, 5][..]));
}
