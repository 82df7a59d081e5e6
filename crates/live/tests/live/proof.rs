//! Proof that shaping is in force, and that its absence is noticed.

use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::nft::{self, Ownership};
use tidegate_live::probe::{Failure, Probe, ProbeTable, Prober, QueueState, Version, inspect, recognise};
use tidegate_live::rtnl::{Rtnl, sysctl};
use tidegate_live::rules::{Difference, Rules, Spec};

use crate::crash::owned_by;
use crate::queue::{QUEUE, default_queue, drain, serve, shaped};
use tidegate_testbed::Ended;
use tidegate_testbed::veth::{DEVICE, LEFT, Pair, RIGHT};

pub fn tampering_is_found() -> Ended {
    let pair = Pair::new();
    pair.left
        .run(|| {
            let mut rules = Rules::install_by(&Spec::new(DEVICE, QUEUE), owned_by(Ownership::Persistent)).unwrap();
            assert_eq!(rules.verify().unwrap(), []);
            let family = rules.installed().attempt.families[0];
            let mut other = Socket::open(Protocol::Netfilter).unwrap();
            let name = format!("tidegate_{DEVICE}");
            let chain = "shape".to_owned();
            nft::flush(&mut other, family, &name, &chain).unwrap();
            let differences = rules.verify().unwrap();
            assert!(differences.contains(&Difference::MissingRule { chain, rule: "queue".into() }), "{differences:?}");
            let is_of_it = |one: &Difference| matches!(one, Difference::MissingRule { chain, .. } if chain == "shape");
            assert!(differences.len() >= 5 && differences.iter().all(is_of_it), "{differences:?}");
            nft::delete(&mut other, family, &name).unwrap();
            assert!(matches!(rules.verify().unwrap()[..], [Difference::MissingTable { .. }]));
            // Removing rules that are gone is no error.
            rules.remove().unwrap();

            // A table with an owner cannot be changed by another process.
            let mut rules = Rules::install_by(&Spec::new(DEVICE, QUEUE), owned_by(Ownership::Socket)).unwrap();
            let error = nft::flush(&mut other, family, &name, "shape").unwrap_err();
            assert_eq!(error.errno(), Some(libc::EPERM), "{error}");
            assert_eq!(rules.verify().unwrap(), []);
        })
        .unwrap();
    Ended::Passed
}

pub fn probes_of_each_class_come_through() -> Ended {
    let pair = Pair::new();
    for device in [DEVICE, "lo"] {
        let (mut socket, mut rules) = shaped(&pair, &Spec::new(device, QUEUE), &default_queue());
        let inspection = pair.left.run(|| inspect(&mut rules, &[QUEUE, 99]).unwrap()).unwrap();
        assert_eq!(inspection.differences, []);
        match &inspection.queues[0].1 {
            QueueState::Served(counters) => {
                assert_eq!(counters.port, socket.port());
                assert_eq!(inspection.queues[1].1, QueueState::Unserved);
                assert!(!inspection.is_sound());
            }
            QueueState::Hidden(reason) => eprintln!("the kernel's list of queues is hidden: {reason}"),
            QueueState::Unserved => panic!("our own queue is not listed"),
        }
        let index = pair.left.run(|| Rtnl::open().unwrap().index(device).unwrap()).unwrap();
        let prober = Prober::new(device, index, 0x0123_4567_89ab_cdef);
        let mut sent_probes = ProbeTable::new();
        let mut probes = vec![];
        for version in [Version::V4, Version::V6] {
            for dscp in [0, 10, 46] {
                let marked = Probe { mark: Some(7), source_port: Some(4_000), ..Probe::new(0, version, dscp) };
                probes.push(sent_probes.expect(marked, dscp));
            }
        }
        if device == DEVICE {
            let to = Probe { to: Some(RIGHT[0]), port: Some(5_060), ..Probe::new(0, Version::V4, 8) };
            probes.push(sent_probes.expect(to, 8));
        }
        for probe in &probes {
            pair.left.run(|| prober.send(probe)).unwrap().unwrap();
        }
        let seen = serve(&mut socket, probes.len(), |packet, verdicts| {
            let Some(number) = recognise(packet.payload, prober.cookie()) else {
                verdicts.accept(QUEUE, packet.id);
                return false;
            };
            let class = match packet.hw_protocol {
                0x0800 => packet.payload[1],
                _ => packet.payload[0] << 4 | packet.payload[1] >> 4,
            };
            assert_eq!(packet.mark, probes[number as usize].mark.unwrap_or(0));
            sent_probes.arrived(number, class >> 2);
            verdicts.drop(QUEUE, packet.id);
            true
        });
        assert_eq!((seen, sent_probes.failures()), (probes.len(), vec![]), "{device}");
    }
    Ended::Passed
}

pub fn probes_that_take_another_way_are_missed() -> Ended {
    let pair = Pair::new();
    // The rules name one interface, the traffic takes another.
    let (mut socket, _rules) = shaped(&pair, &Spec::new("other0", QUEUE), &default_queue());
    let index = pair.left.run(|| Rtnl::open().unwrap().index(DEVICE).unwrap()).unwrap();
    let prober = Prober::new(DEVICE, index, 1);
    let mut sent_probes = ProbeTable::new();
    let probe = sent_probes.expect(Probe::new(0, Version::V6, 46), "voice");
    pair.left.run(|| prober.send(&probe)).unwrap().unwrap();
    drain(&mut socket, |packet, _| panic!("it has come: {packet:?}"));
    assert_eq!(sent_probes.failures(), [Failure::Lost { probe, class: "voice" }]);
    // Without IPv6 there is nothing to prove, and without an IPv4 address there still is.
    let change = || {
        sysctl::write("ipv6/conf/tg0/disable_ipv6", "1").unwrap();
        let mut rtnl = Rtnl::open().unwrap();
        let address = rtnl.addresses().unwrap().into_iter().find(|a| a.address == LEFT[0]).unwrap();
        rtnl.delete_address(address).unwrap();
        (prober.send(&probe).unwrap_err(), prober.send(&Probe::new(0, Version::V4, 0)))
    };
    let (v6, v4) = pair.left.run(change).unwrap();
    assert!(v6.to_string().starts_with("probe IPv6 by tg0 (send)") && v4.is_ok(), "{v6}, {v4:?}");
    // An interface that does not exist is an error at once.
    let error = pair.left.run(|| Prober::new("absent0", 99, 1).send(&probe)).unwrap().unwrap_err();
    assert!(error.to_string().contains("bind to the interface"), "{error}");
    Ended::Passed
}
