//! Random packets under random rules: dissected, classified and hashed by the C and by the core.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use tidegate_capture::dissect::MAX_TUNNELS;
use tidegate_capture::link::{LinkType, frame};
use tidegate_core::Dscp;
use tidegate_core::classify::{
    Classifier, Fields, FlagMatch, Hosts, IcmpType, MarkMatch, Match, Prefix, Rule, Signal, Target, Version, beside,
    image,
};
use tidegate_core::flow::{FlowBy, FlowHash};
use tidegate_core::random::Stream;
use tidegate_kernel::options::{RULE_STEPS, RULES};

use super::equal::{Difference, Host};
use super::reference::Decision;

/// The kinds of records, as `kernel/host.c` numbers them.
const TAKE_RULES: u64 = 5;
const CLASSIFY: u64 = 6;
/// Packets under the same rules, and those that are sent before their decisions are read.
const UNDER_RULES: u64 = 4_000;
const BLOCK: u64 = 250;
/// Packets that may come again.
const BEFORE: u64 = 64;

const EVERY_FLOW: [FlowBy; 9] = [
    FlowBy::FiveTuple,
    FlowBy::HostPair,
    FlowBy::Source,
    FlowBy::Destination,
    FlowBy::Socket,
    FlowBy::Uid,
    FlowBy::Cgroup,
    FlowBy::Dscp,
    FlowBy::Mark,
];

/// How many packets of each kind were compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    packets: u64,
    rule_sets: u64,
    /// Rule sets that do not fit.
    refused: u64,
    v4: u64,
    v6: u64,
    with_ports: u64,
    fragments: u64,
    /// Those in which the packet of a tunnel was found.
    tunnels: u64,
    /// Acknowledgements without data, and messages of ICMP.
    acks: u64,
    messages: u64,
    matched: u64,
}

impl Counts {
    /// Whether there is enough of everything for a comparison to mean something; of few packets it is not asked.
    pub fn are_mixed(&self) -> bool {
        self.packets < 100_000
            || [
                self.v4,
                self.v6,
                self.with_ports,
                self.fragments * 3,
                self.tunnels * 4,
                self.acks * 20,
                self.messages * 4,
                self.matched,
                self.rule_sets * 1_000,
            ]
            .iter()
            .all(|count| count * 8 > self.packets)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, rule_sets, refused, v4, v6, with_ports, fragments, tunnels, acks, messages, matched } =
            self;
        write!(
            f,
            "{packets} packets under {rule_sets} sets of rules ({refused} more were too large): class, profile and flow are \
             equal; {v4} of IPv4, {v6} of IPv6, {with_ports} with ports, {fragments} fragments, {tunnels} in tunnels, {acks} pure \
             acknowledgements, {messages} of ICMP, {matched} matched a rule"
        )
    }
}

/// Draws values from few, so that rules match packets, with the ends of ranges among them.
struct Draw<'a> {
    random: &'a mut Stream,
    /// About how many values a field has.
    spread: u64,
}

impl Draw<'_> {
    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }
    fn v4(&mut self) -> Ipv4Addr {
        let base = [0x0a00_0000_u32, 0x0a01_0000, 0xc000_0200, 0xffff_ff00, 0][self.below(5) as usize];
        Ipv4Addr::from_bits(base.wrapping_add(self.below(self.spread) as u32))
    }
    fn v6(&mut self) -> Ipv6Addr {
        let base: [u128; 4] = [0x2001_0db8 << 96, 0x2001_0db8 << 96 | 7 << 64, 0, !0xffff];
        Ipv6Addr::from_bits(base[self.below(4) as usize].wrapping_add(self.below(self.spread).into()))
    }
    fn prefix(&mut self, version: Version) -> Option<Prefix> {
        let (address, lengths): (IpAddr, [u8; 8]) = match version {
            Version::V4 => (self.v4().into(), [0, 1, 8, 15, 16, 24, 31, 32]),
            Version::V6 => (self.v6().into(), [0, 3, 32, 48, 64, 127, 128, 120]),
        };
        Prefix::covering(address, lengths[self.below(8) as usize])
    }
    fn port(&mut self) -> u16 {
        let low = self.below(self.spread) as u16;
        if self.one_in(4) { u16::MAX - low % 3 } else { low }
    }
    fn ports(&mut self) -> Vec<std::ops::RangeInclusive<u16>> {
        let range = |draw: &mut Self| {
            let (a, b) = (draw.port(), draw.port());
            if draw.one_in(2) { a..=a } else { a.min(b)..=a.max(b) }
        };
        (0..1 + self.below(3)).map(|_| range(self)).collect()
    }
    fn protocol(&mut self) -> u8 {
        [6, 6, 17, 132, 33, 136, 1, 58, 255][self.below(9) as usize]
    }
    fn dscp(&mut self) -> Dscp {
        Dscp::new([0, 10, 46, 63][self.below(4) as usize]).unwrap_or_default()
    }
    fn mark(&mut self) -> u32 {
        self.below(0x300) as u32
    }
    /// A control group, which the one with half of the number has, or an interface by which a forwarded packet came in.
    fn cgroup(&mut self) -> u64 {
        if self.one_in(4) { 1 << 63 | self.below(6) } else { ((1 << 40) + self.below(12)) >> self.below(4) }
    }
    /// Flags of TCP, of few kinds.
    fn flags(&mut self) -> u8 {
        [0x10, 0x18, 0x02, 0x12, 0x11, 0x14, 0x50, 0xd0][self.below(8) as usize]
    }

    /// A rule in which each condition stands with a probability of 1/`sparsity`.
    fn matching(&mut self, sparsity: u64) -> Match {
        let version = if self.one_in(2) { Version::V4 } else { Version::V6 };
        let mut m = Match { version: self.one_in(4 * sparsity).then_some(version), ..Match::default() };
        if self.one_in(sparsity) {
            m.source = self.prefix(version);
        }
        if self.one_in(sparsity) {
            m.destination = self.prefix(version);
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
            let mask = [u32::MAX, 0xff, 0xff00, 0x0f0f, 0][self.below(5) as usize];
            m.mark = Some(MarkMatch { value: self.mark() & mask, mask });
        }
        if self.one_in(2 * sparsity) {
            let (a, b) = (self.below(9) as u32 * 500, self.below(9) as u32 * 500);
            m.uid = Some(a.min(b)..=a.max(b));
        }
        if self.one_in(2 * sparsity) {
            m.cgroup = Some(self.cgroup());
        }
        self.traits(2 * sparsity, &mut m);
        m
    }

    /// Conditions on what differs from packet to packet.
    fn traits(&mut self, sparsity: u64, m: &mut Match) {
        if self.one_in(sparsity) {
            let (a, b) = (self.below(150) as u16, self.below(2_200) as u16);
            m.lengths.push(a.min(b)..=a.max(b));
        }
        match self.below(3 * sparsity) {
            0 => m.pure_ack = true,
            1 => {
                let mask = [0xff, 0x17, 0x12, 0x02][self.below(4) as usize];
                m.tcp_flags.push(FlagMatch { value: self.flags() & mask, mask });
            }
            2 => {
                let version = if self.one_in(2) { Version::V4 } else { Version::V6 };
                m.icmp_types.push(IcmpType { version, number: self.below(4) as u8 });
            }
            _ => {}
        }
    }

    /// A frame of Ethernet: its bytes as captured, and its length.
    fn frame(&mut self) -> (Vec<u8>, usize) {
        let is_v6 = self.one_in(2);
        let (ethernet, ppp): (u16, u16) = if is_v6 { (0x86dd, 0x0057) } else { (0x0800, 0x0021) };
        let mut bytes = vec![0; 12];
        let tags = if self.one_in(4) { self.below(11) } else { 0 };
        for _ in 0..tags {
            bytes.extend([[0x81, 0x00], [0x88, 0xa8], [0x91, 0x00]][self.below(3) as usize]);
            bytes.extend([0, 1]);
        }
        if self.one_in(16) {
            bytes.extend([0x88, 0x64, 0x11, 0, 0, 1, 0, 0]);
            bytes.extend(if self.one_in(8) { 0xc021 } else { ppp }.to_be_bytes());
        } else {
            bytes.extend(if self.one_in(32) { 0x0806 } else { ethernet }.to_be_bytes());
        }
        self.packet(is_v6, 0, &mut bytes);
        if self.one_in(16) {
            let at = self.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << self.below(8);
        }
        let length = bytes.len() + if self.one_in(4) { self.below(2_000) as usize } else { 0 };
        if self.one_in(8) {
            bytes.truncate(self.below(bytes.len() as u64 + 1) as usize);
        }
        (bytes, length)
    }

    /// A packet of IP. Some are those of tunnels, up to one more in each other than are looked into.
    fn packet(&mut self, is_v6: bool, depth: u64, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        let carrier =
            if depth <= MAX_TUNNELS as u64 && self.one_in(3) { [4, 41, 47][self.below(3) as usize] } else { 0 };
        if is_v6 {
            self.ip_v6(carrier, bytes);
        } else {
            self.ip_v4(carrier, bytes);
        }
        if carrier == 0 {
            self.transport_header(bytes);
        } else {
            let inside = self.one_in(2);
            if carrier == 47 {
                let flags = if self.one_in(8) {
                    self.random.next_u64() as u8
                } else {
                    [0, 0x80, 0x20, 0xb0][self.below(4) as usize]
                };
                let kind: u16 = if self.one_in(16) { 0x6558 } else { [0x0800, 0x86dd][usize::from(inside)] };
                bytes.extend([flags, u8::from(self.one_in(16))]);
                bytes.extend(kind.to_be_bytes());
                bytes.extend(vec![0; 4 * (flags & 0xb0).count_ones() as usize]);
            }
            self.packet(inside, depth + 1, bytes);
        }
        let stated = match self.below(8) {
            0 => 0,
            1 => self.below(100) as usize,
            _ => bytes.len() - start - if is_v6 { 40 } else { 0 },
        };
        let at = if is_v6 { start + 4 } else { start + 2 };
        bytes[at..at + 2].copy_from_slice(&(stated as u16).to_be_bytes());
    }

    /// Transport headers begin with the ports or with a type, or are cut.
    fn transport_header(&mut self, bytes: &mut Vec<u8>) {
        let transport = bytes.len();
        bytes.extend(self.port().to_be_bytes());
        bytes.extend(self.port().to_be_bytes());
        if !self.one_in(3) {
            // The length of a header of TCP in words, and flags; some have options, and some data.
            let words = if self.one_in(8) { self.below(16) as u8 } else { 5 };
            bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, words << 4, self.flags(), 0, 0, 0, 0, 0, 0]);
            bytes.resize((transport + usize::from(words) * 4).max(bytes.len()), 1);
            bytes.extend((0..self.below(2) * self.below(20)).map(|n| n as u8));
        } else {
            bytes[transport] = if self.one_in(2) { self.below(4) as u8 } else { bytes[transport] };
            bytes.extend((0..self.below(20)).map(|n| n as u8));
        }
    }

    /// The protocol of a packet that carries nothing in a tunnel, or in one of kind `carrier`.
    fn transport(&mut self, carrier: u8) -> u8 {
        if carrier == 0 { self.protocol() } else { carrier }
    }

    fn ip_v4(&mut self, carrier: u8, bytes: &mut Vec<u8>) {
        let options = if self.one_in(4) { self.below(12) as u8 } else { 0 };
        let service = self.dscp().value() << 2 | self.below(4) as u8;
        let place: u16 = match self.below(8) {
            0 => 0x2000,
            1 => self.below(3) as u16 | 0x2000,
            2 => self.below(0x2000) as u16,
            _ => 0x4000,
        };
        let has_ah = self.one_in(8);
        let protocol = self.transport(carrier);
        bytes.extend([0x45 + options.min(10), service, 0, 0]);
        bytes.extend((self.random.next_u64() as u16).to_be_bytes());
        bytes.extend(place.to_be_bytes());
        bytes.extend([64, if has_ah { 51 } else { protocol }, 0, 0]);
        bytes.extend(self.v4().octets());
        bytes.extend(self.v4().octets());
        bytes.extend(vec![1; usize::from(options.min(10)) * 4]);
        if has_ah {
            self.extension(51, protocol, bytes);
        }
    }

    fn ip_v6(&mut self, carrier: u8, bytes: &mut Vec<u8>) {
        let class = self.dscp().value() << 2 | self.below(4) as u8;
        let count = if self.one_in(2) {
            0
        } else if self.one_in(8) {
            self.below(15)
        } else {
            1 + self.below(3)
        };
        let extensions: Vec<u8> =
            (0..count).map(|_| [0, 43, 44, 44, 51, 60, 135, 139, 140][self.below(9) as usize]).collect();
        let protocol = if self.one_in(16) { 59 } else { self.transport(carrier) };
        let mut next: Vec<u8> = extensions.clone();
        next.push(protocol);
        bytes.extend([0x60 | class >> 4, class << 4, 0, 0, 0, 0, next[0], 64]);
        bytes.extend(self.v6().octets());
        bytes.extend(self.v6().octets());
        for (at, &kind) in extensions.iter().enumerate() {
            self.extension(kind, next[at + 1], bytes);
        }
    }

    fn extension(&mut self, kind: u8, next: u8, bytes: &mut Vec<u8>) {
        if kind == 44 {
            let place: u16 = match self.below(4) {
                0 => 0,
                1 => 1,
                _ => self.random.next_u64() as u16 & if self.one_in(2) { 7 } else { 0xffff },
            };
            bytes.extend([next, 0]);
            bytes.extend(place.to_be_bytes());
            bytes.extend((self.random.next_u64() as u32).to_be_bytes());
            return;
        }
        let length = self.below(3) as u8;
        let size = if kind == 51 { (usize::from(length) + 2) * 4 } else { (usize::from(length) + 1) * 8 };
        bytes.extend([next, length]);
        bytes.extend(vec![0; size - 2]);
    }
}

/// Whether the program has room for the numbers of rules and for the steps through their tables.
fn has_room(numbers: &[u64]) -> bool {
    numbers.len() <= RULES as usize && numbers[1] <= RULE_STEPS
}

/// Rules with what they lead to.
struct RuleSet {
    classifier: Classifier,
    targets: Vec<Target>,
    default: Target,
    hash: FlowHash,
    /// The control groups that are named, in the order of the rules.
    groups: Vec<u64>,
    /// Conditions of promises, which are looked up as well. The target of each is the place of the promise.
    promises: Option<Classifier>,
}

impl RuleSet {
    /// At random, with their numbers; `None` where they do not fit.
    fn random(random: &mut Stream) -> Option<(Self, Vec<u64>)> {
        let spread = [3, 20, 300][random.below(3) as usize];
        let mut draw = Draw { random, spread };
        let sparsity = 1 + draw.below(4);
        let most = [6, 40, 200][draw.below(3) as usize];
        let count = draw.below(most);
        let target = |draw: &mut Draw<'_>| Target {
            class: draw.below(64) as u32,
            profile: draw.below(256) as u32,
            salt: draw.random.next_u64(),
        };
        // Several conjunctions of one rule have its target.
        let targets: Vec<Target> = (0..1 + count / 2).map(|_| target(&mut draw)).collect();
        let rules: Vec<Rule> = (0..count)
            .map(|_| Rule { matching: draw.matching(sparsity), target: draw.below(targets.len() as u64) as u32 })
            .collect();
        let default = target(&mut draw);
        let by = if draw.one_in(2) { FlowBy::FiveTuple } else { EVERY_FLOW[draw.below(9) as usize] };
        let hash = FlowHash::new([random.next_u64(), random.next_u64()], by);
        let mut groups = Vec::new();
        for group in rules.iter().filter_map(|rule| rule.matching.cgroup) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        let numbers = image(&rules, &targets, default, &hash, &groups).ok().filter(|numbers| has_room(numbers))?;
        let classifier = Classifier::new(rules).ok()?;
        let mut draw = Draw { random, spread };
        if draw.one_in(3) {
            return Some((Self { classifier, targets, default, hash, groups, promises: None }, numbers));
        }
        // Control groups are those of the rules.
        let condition = |draw: &mut Draw<'_>| Match { cgroup: None, ..draw.matching(sparsity) };
        let promised: Vec<Rule> = (0..1 + draw.below(30))
            .map(|place| Rule { matching: condition(&mut draw), target: place as u32 })
            .collect();
        let place = |place: u32| Target { class: place + 1, ..Target::default() };
        let places: Vec<Target> = (0..promised.len() as u32).map(place).collect();
        let second =
            image(&promised, &places, Target::default(), &hash, &[]).ok().filter(|numbers| has_room(numbers))?;
        let numbers = Some(beside(numbers, &second, false)).filter(|numbers| has_room(numbers))?;
        let promises = Some(Classifier::new(promised).ok()?);
        Some((Self { classifier, targets, default, hash, groups, promises }, numbers))
    }

    /// The decision of the core, and whether a rule matched.
    fn decide(&self, fields: &Fields) -> (Decision, bool) {
        let rule = self.classifier.classify(fields);
        let place = rule.map(|rule| self.classifier.rules()[rule as usize].target as usize);
        let target = place.map_or(self.default, |place| self.targets[place]);
        let key = self.hash.key(fields);
        let fragment = fields.fragment.map_or(0, |fragment| {
            1 << 49 | u64::from(fragment.more) << 48 | u64::from(fragment.offset) << 32 | u64::from(fragment.id)
        });
        let promise =
            self.promises.as_ref().and_then(|promises| promises.classify(fields)).map_or(0, |place| place + 1);
        let (class, profile) = (target.class.into(), u64::from(target.profile) | u64::from(promise) << 32);
        ([class, profile, key.flow ^ target.salt, key.source, key.destination, fragment], rule.is_some())
    }
}

/// Compares `packets` random packets. The first difference ends it.
pub fn compare(program: &Path, packets: u64, seed: u64) -> io::Result<(Option<Difference>, Counts)> {
    let mut host = Host::start(program)?;
    let mut random = Stream::named(seed, "packets");
    let mut counts = Counts::default();
    let mut before = Vec::new();
    while counts.packets < packets {
        let Some((rules, numbers)) = RuleSet::random(&mut random) else {
            counts.refused += 1;
            continue;
        };
        counts.rule_sets += 1;
        let mut bytes = Vec::new();
        put(&mut bytes, &[TAKE_RULES, numbers.len() as u64, 0, 0, 0, 0]);
        put(&mut bytes, &numbers);
        let end = (counts.packets + UNDER_RULES).min(packets);
        let mut draw = Draw { random: &mut random, spread: [3, 20, 300][(counts.rule_sets % 3) as usize] };
        while counts.packets < end {
            let count = (end - counts.packets).min(BLOCK);
            let mut all = Vec::new();
            for _ in 0..count {
                let (captured, length, mark) = packet(&mut draw, &mut before);
                let seen = frame(LinkType::Ethernet, &captured, length);
                let mut fields = seen.fields;
                fields.mark = mark;
                fields.uid = (!draw.one_in(3)).then(|| draw.below(4_500) as u32 / 250 * 250);
                let own = (!draw.one_in(3)).then(|| draw.cgroup());
                // An interface is in no group.
                let outer = |group: &u64| Some(group / 2).filter(|outer| *outer != 0 && *group >> 63 == 0);
                let all_groups = || std::iter::successors(own, outer);
                fields.cgroup = rules.groups.iter().copied().find(|named| all_groups().any(|group| group == *named));
                let (uid, cgroup) = (fields.uid.map_or(u64::MAX, u64::from), own.unwrap_or(u64::MAX));
                put(&mut bytes, &[CLASSIFY, captured.len() as u64, length as u64, fields.mark.into(), uid, cgroup]);
                bytes.extend(&captured);
                counts.tunnels += u64::from(seen.tunnel.is_some());
                all.push((captured, fields));
            }
            for ((captured, fields), theirs) in all.iter().zip(host.send(std::mem::take(&mut bytes), all.len())?) {
                let (ours, matched) = rules.decide(fields);
                if ours != theirs {
                    let what = "class, profile and promise, flow, source, destination, fragment";
                    let text = format!(
                        "packet {}, {captured:02x?}, {fields:?}, of {} rules by {:?}: {what}\n    the C:    {theirs:x?}\n    \
                         the core: {ours:x?}",
                        counts.packets,
                        rules.classifier.rules().len(),
                        rules.hash.by()
                    );
                    return Ok((Some(Difference(text)), counts));
                }
                counts.packets += 1;
                counts.matched += u64::from(matched);
                counts.with_ports += u64::from(fields.source_port.is_some());
                counts.fragments += u64::from(fields.fragment.is_some());
                let signal = fields.traits.signal;
                counts.acks += u64::from(matches!(signal, Signal::Tcp { pure_ack: true, .. }));
                counts.messages += u64::from(matches!(signal, Signal::Icmp(_)));
                match fields.hosts {
                    Hosts::Unknown => {}
                    Hosts::V4 { .. } => counts.v4 += 1,
                    Hosts::V6 { .. } => counts.v6 += 1,
                }
            }
        }
    }
    Ok((None, counts))
}

/// A captured packet, the length that it had on the wire, and its mark.
type Captured = (Vec<u8>, usize, u32);

/// Draws a packet, and keeps it in `before`. Some are equal to an earlier one, which other rules may have classified, and some
/// of these differ from it in a bit or in the mark.
fn packet(draw: &mut Draw<'_>, before: &mut Vec<Captured>) -> Captured {
    let packet = match draw.below(4) {
        0 if !before.is_empty() => {
            let place = draw.below(before.len() as u64) as usize;
            let (mut captured, length, mut mark) = before[place].clone();
            let bit = draw.below(16 * captured.len().max(1) as u64) as usize;
            if let Some(byte) = captured.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            if draw.one_in(4) {
                mark = draw.mark();
            }
            (captured, length, mark)
        }
        _ => {
            let (captured, length) = draw.frame();
            (captured, length, draw.mark())
        }
    };
    let place = draw.below(BEFORE) as usize;
    match before.get_mut(place) {
        Some(one) => *one = packet.clone(),
        None => before.push(packet.clone()),
    }
    packet
}

fn put(bytes: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_ne_bytes()));
}
