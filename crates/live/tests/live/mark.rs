//! Marks: DSCP and CE written behind the queue, senders recognised before it.

use std::net::UdpSocket;
use std::path::Path;

use tidegate_live::marks::{Action, MarkLayout};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nfqueue::QueueSocket;
use tidegate_live::nft::{self, Chain, Compare, Expression, Family, MetaKey, Ownership, Rule, Table};
use tidegate_live::rtnl::sysctl;
use tidegate_live::rules::{Rules, Sender, Spec, TagRule, attempts, cgroup};
use tidegate_sys::net::{set_header_options, set_option};

use crate::queue::{QUEUE, default_queue, serve, shaped, stream, texts, transport, udp};
use crate::wire::{Tap, disable_offloads, is_sound, traffic_class};
use tidegate_testbed::Ended;
use tidegate_testbed::veth::{DEVICE, Pair};

fn set_class(socket: &UdpSocket, family: usize, class: i32) {
    match family {
        0 => set_option(socket, libc::IPPROTO_IP, libc::IP_TOS, class).unwrap(),
        _ => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class).unwrap(),
    }
}

pub fn dscp_and_ce_are_written_with_right_checksums() -> Ended {
    let pair = Pair::new();
    pair.left.run(|| disable_offloads(DEVICE)).unwrap();
    // In one table for both protocols, and in one for each.
    for count in [1, 2] {
        let (mut socket, rules) = shaped(&pair, &Spec::new(DEVICE, QUEUE), &default_queue());
        drop(rules);
        let ways = || attempts().filter(|a| a.families.len() == count);
        let rules = pair.left.run(|| Rules::install_by(&Spec::new(DEVICE, QUEUE), ways()).unwrap()).unwrap();
        rewrite_all(&pair, &mut socket, rules);
    }
    Ended::Passed
}

fn rewrite_all(pair: &Pair, socket: &mut QueueSocket, mut rules: Rules) {
    let marks = MarkLayout::default();
    assert_eq!(rules.verify().unwrap(), []);
    let tap = pair.right.run(Tap::open).unwrap();
    let mut applied = 0;
    for family in [0, 1, 2] {
        let options = family == 2; // IPv4 with options: the header is longer than 20 bytes
        let family = family % 2;
        let (sender, _receiver) = udp(pair, family);
        if options {
            set_header_options(&sender, &[1, 1, 1, 0]).unwrap();
        }
        // (class as sent, action, DSCP and ECN as they must arrive)
        let cases = [
            (0, Action { dscp: None, congestion: false }, (0, 0)),
            (0, Action { dscp: Some(46), congestion: false }, (46, 0)),
            (0b101110 << 2 | 0b10, Action { dscp: Some(0), congestion: false }, (0, 0b10)),
            (0b010101 << 2 | 0b01, Action { dscp: Some(0b101010), congestion: true }, (0b101010, 3)),
            (0b111111 << 2 | 0b10, Action { dscp: None, congestion: true }, (63, 3)),
            (0b000111 << 2, Action { dscp: Some(63), congestion: true }, (63, 0)), // not ECN-capable: never marked
            (0b000111 << 2 | 0b11, Action { dscp: Some(1), congestion: false }, (1, 3)),
        ];
        for (i, (class, action, expected)) in cases.into_iter().enumerate() {
            set_class(&sender, family, class);
            let text = format!("case {i} {family} {options}");
            sender.send(text.as_bytes()).unwrap();
            serve(socket, 1, |packet, verdicts| {
                let ours = transport(packet).0 == 17;
                match ours && !action.is_none() {
                    true => verdicts.accept_marked(QUEUE, packet.id, marks.with_action(packet.mark, action)),
                    false => verdicts.accept(QUEUE, packet.id),
                }
                ours
            });
            applied += u64::from(!action.is_none());
            let packet = tap.find(|p| p.ends_with(text.as_bytes())).expect("it arrives");
            assert_eq!(traffic_class(&packet), expected, "{text}");
            assert!(is_sound(&packet), "{text}: {packet:02x?}");
            assert_eq!(options, packet[0] == 0x46);
        }
    }
    assert_eq!(rules.counters().unwrap().applied, applied);
}

pub fn superpackets_are_rewritten_in_every_segment() -> Ended {
    let pair = Pair::new();
    let marks = MarkLayout::default();
    for namespace in [&pair.left, &pair.right] {
        namespace.run(|| sysctl::write("ipv4/tcp_ecn", "1").unwrap()).unwrap();
    }
    let (mut socket, _rules) = shaped(&pair, &Spec::new(DEVICE, QUEUE), &default_queue());
    for (offload, congestion) in [(true, false), (true, true), (false, false), (false, true)] {
        if !offload {
            pair.left.run(|| disable_offloads(DEVICE)).unwrap();
        }
        for family in [0, 1] {
            let tap = pair.right.run(Tap::open).unwrap();
            let mut whole = 0;
            let action = Action { dscp: Some(34), congestion };
            let good = stream(&pair, &mut socket, family, 1_000_000, |packet, verdicts| {
                whole += u32::from(packet.gso);
                verdicts.accept_marked(QUEUE, packet.id, marks.with_action(packet.mark, action));
            });
            assert!(good && whole > 0, "family {family}, {whole} superpackets");
            let wanted = |p: &&Vec<u8>| p[0] >> 4 == [4, 6][family] && p[if family == 0 { 9 } else { 6 }] == 6;
            let packets = tap.packets();
            let packets: Vec<_> = packets.iter().filter(wanted).collect();
            assert!(packets.len() > 10);
            // TCP's packets without data (the handshake, acknowledgements) and retransmissions are not ECN-capable (RFC
            // 3168, sections 6.1.1 and 6.1.5), and must not be marked.
            let expected = if congestion { 3 } else { 2 };
            for packet in &packets {
                let (dscp, ecn) = traffic_class(packet);
                assert_eq!(dscp, 34);
                assert!(ecn == expected || ecn == 0, "ECN {ecn} where {expected} was meant");
            }
            assert!(packets.iter().filter(|p| traffic_class(p).1 == expected).count() > 5);
            if offload {
                assert!(packets.iter().any(|p| p.len() > 1500), "nothing was whole on the wire");
            } else {
                for packet in &packets {
                    assert!(packet.len() <= 1500 && is_sound(packet), "{} bytes: {:02x?}", packet.len(), &packet[..60]);
                }
            }
        }
    }
    Ended::Passed
}

/// Counts packets by their whole mark behind our chains.
fn observer(marks: &[u32]) -> Table {
    let chain = "observe".to_owned();
    let rule = |mark: &u32| Rule {
        chain: chain.clone(),
        comment: format!("{mark:#x}"),
        expressions: vec![
            Expression::Meta(MetaKey::Transport, 1),
            Expression::Compare(1, Compare::Equal, vec![17]),
            Expression::Meta(MetaKey::Mark, 1),
            Expression::Compare(1, Compare::Equal, mark.to_ne_bytes().into()),
            Expression::Counter,
        ],
    };
    Table {
        family: Family::Inet,
        name: "observer".into(),
        chains: vec![Chain { name: chain.clone(), hook: Some((4, 90)) }],
        rules: marks.iter().map(rule).collect(),
    }
}

pub fn the_callers_bits_come_back() -> Ended {
    let pair = Pair::new();
    let marks = MarkLayout::default();
    let (mut socket, mut rules) = shaped(&pair, &Spec::new(DEVICE, QUEUE), &default_queue());
    // As sent, the action, as it must be behind our chains. 0x123 lies in the mask without a stamp; 0x800 and 0x400
    // in the mask are our stamps.
    let cases = [
        (0x0000_beef, Action { dscp: Some(10), congestion: false }, 0x0000_beef),
        (0x123f_beef, Action::default(), 0x123f_beef),
        (0x123f_beef, Action { dscp: Some(10), congestion: false }, 0x000f_beef),
        (0x800a_0001, Action::default(), 0x000a_0001),
        (0x4e0b_0001, Action::default(), 0x000b_0001),
    ];
    let ends: Vec<u32> = cases.iter().map(|c| c.2).collect();
    let mut netfilter = pair.left.run(|| Socket::open(Protocol::Netfilter)).unwrap().unwrap();
    nft::create(&mut netfilter, &[observer(&ends)], Ownership::Socket).unwrap();
    let (sender, receiver) = udp(&pair, 0);
    for (mark, action, _) in cases {
        set_option(&sender, libc::SOL_SOCKET, libc::SO_MARK, u32::cast_signed(mark)).unwrap();
        sender.send(b"x").unwrap();
        serve(&mut socket, 1, |packet, verdicts| {
            let ours = transport(packet).0 == 17;
            match ours && !action.is_none() {
                true => verdicts.accept_marked(QUEUE, packet.id, marks.with_action(packet.mark, action)),
                false => verdicts.accept(QUEUE, packet.id),
            }
            ours
        });
    }
    assert_eq!(texts(&receiver, cases.len()).len(), cases.len());
    let found = nft::read(&mut netfilter, Family::Inet, "observer").unwrap().unwrap();
    let counted: Vec<_> = found.counters.iter().map(|c| c.unwrap().0).collect();
    assert_eq!(counted, [1; 5]);
    let counters = rules.counters().unwrap();
    assert_eq!((counters.foreign, counters.applied), (2, 2), "{counters:?}");
    Ended::Passed
}

fn tags_seen(pair: &Pair, tags: Vec<TagRule>) -> Vec<Option<u16>> {
    let spec = Spec { tags, ..Spec::new(DEVICE, QUEUE) };
    let (mut socket, _rules) = shaped(pair, &spec, &default_queue());
    let mut seen = vec![];
    for family in [0, 1] {
        let (sender, receiver) = udp(pair, family);
        sender.send(b"x").unwrap();
        serve(&mut socket, 1, |packet, verdicts| {
            verdicts.accept(QUEUE, packet.id);
            let ours = transport(packet).0 == 17;
            if ours {
                seen.push(spec.marks.tag(packet.mark));
            }
            ours
        });
        // A tag that the verdict leaves alone is not taken for an action.
        assert_eq!(texts(&receiver, 1), ["x"]);
    }
    seen
}

pub fn senders_are_identified_by_uid() -> Ended {
    let pair = Pair::new();
    let tag = |uid, tag| TagRule { sender: Sender::Uid(uid), tag };
    assert_eq!(tags_seen(&pair, vec![tag(4_711, 9), tag(0, 1023), tag(0, 5)]), [Some(1023), Some(1023)]);
    assert_eq!(tags_seen(&pair, vec![tag(4_711, 9)]), [None, None]);
    Ended::Passed
}

pub fn senders_are_identified_by_control_group() -> Ended {
    let Some(root) = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|p| Path::new(p).join("cgroup.subtree_control").exists())
    else {
        return Ended::Skipped("control groups of version 2 are not mounted".into());
    };
    assert!(cgroup(Path::new(root)).is_err());
    assert!(cgroup(Path::new("/tmp")).is_err());
    let outer = Path::new(root).join(format!("tidegate-test-{}", std::process::id()));
    let inner = outer.join("inner");
    if let Err(error) = std::fs::create_dir(&outer).and_then(|()| std::fs::create_dir(&inner)) {
        let _ = std::fs::remove_dir(&outer);
        return Ended::Skipped(format!("cannot make a control group in {root}: {error}"));
    }
    let home = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let home = home.lines().find_map(|l| l.strip_prefix("0::")).unwrap_or("/").trim_start_matches('/').to_owned();
    let pid = std::process::id().to_string();
    let result = std::fs::write(inner.join("cgroup.procs"), &pid).map(|()| {
        let pair = Pair::new();
        let tag = |sender, tag| TagRule { sender, tag };
        let (outer, inner) = (cgroup(&outer).unwrap(), cgroup(&inner).unwrap());
        assert!(matches!((outer, inner), (Sender::Cgroup { level: 1, .. }, Sender::Cgroup { level: 2, .. })));
        let other = Sender::Cgroup { id: u64::MAX, level: 1 };
        let tags = |rules| tags_seen(&pair, rules);
        (tags(vec![tag(other, 1), tag(inner, 2)]), tags(vec![tag(outer, 3), tag(inner, 4)]), tags(vec![tag(other, 1)]))
    });
    std::fs::write(Path::new(root).join(home).join("cgroup.procs"), &pid).unwrap();
    std::fs::remove_dir(&inner).and_then(|()| std::fs::remove_dir(&outer)).unwrap();
    match result {
        Ok(seen) => assert_eq!(seen, (vec![Some(2); 2], vec![Some(3); 2], vec![None; 2])),
        Err(error) => return Ended::Skipped(format!("cannot enter a control group: {error}")),
    }
    Ended::Passed
}
