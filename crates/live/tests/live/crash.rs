//! Traffic and stale rules after the program is killed.

use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::time::Duration;

use rustix::thread::{CapabilitySet, CapabilitySets};
use tidegate_live::netlink::{Protocol, Socket};
use tidegate_live::netns::Namespace;
use tidegate_live::nfqueue::{QueueSettings, QueueSocket};
use tidegate_live::nft::{self, Family, Ownership, Table};
use tidegate_live::rules::{self, Attempt, Rules, RulesError, Spec, TagRule, attempts, remove_all_stale, remove_stale};

use crate::queue::{PATIENCE, QUEUE, texts, udp};
use tidegate_testbed::Ended;
use tidegate_testbed::harness::Child;
use tidegate_testbed::veth::{DEVICE, Pair};

/// A process that shapes and never sends a verdict. Returns when its rules are in force.
fn hung_instance(pair: &Pair, ownership: Ownership) -> Child {
    hung(&pair.left, Spec::new(DEVICE, QUEUE), ownership)
}

fn hung(host: &Namespace, spec: Spec, ownership: Ownership) -> Child {
    let (mut ready, mut tell) = UnixStream::pair().unwrap();
    let child = Child::fork(|| {
        host.enter_thread().unwrap();
        let mut socket = QueueSocket::open(1 << 16).unwrap();
        socket.bind(QUEUE, &QueueSettings::default()).unwrap();
        let rules = Rules::install_by(&spec, owned_by(ownership)).unwrap();
        std::io::Write::write_all(&mut tell, b"r").unwrap();
        std::thread::sleep(Duration::from_secs(200));
        drop((socket, rules));
        0
    });
    ready.set_read_timeout(Some(PATIENCE)).unwrap();
    ready.read_exact(&mut [0]).unwrap();
    child
}

/// The ways to install rules with `ownership`.
pub fn owned_by(ownership: Ownership) -> impl Iterator<Item = Attempt> {
    attempts().filter(move |a| a.ownership == ownership)
}

fn tables(pair: &Pair) -> usize {
    pair.left.run(|| nft::tables(&mut Socket::open(Protocol::Netfilter).unwrap()).unwrap().len()).unwrap()
}

pub fn kill_leaves_traffic_passing_and_nothing_behind() -> Ended {
    let pair = Pair::new();
    for ownership in [Ownership::Socket, Ownership::Persistent] {
        let child = hung_instance(&pair, ownership);
        for family in [0, 1] {
            let (sender, receiver) = udp(&pair, family);
            sender.send(b"held").unwrap();
            assert!(texts(&receiver, 0).is_empty());
        }
        child.kill();
        for family in [0, 1] {
            let (sender, receiver) = udp(&pair, family);
            sender.send(b"passes").unwrap();
            assert_eq!(texts(&receiver, 1), ["passes"], "{ownership:?}, family {family}");
        }
        let left = tables(&pair);
        assert_eq!(left, usize::from(ownership == Ownership::Persistent), "{ownership:?}");
        let removed = pair.left.run(|| remove_stale(DEVICE).unwrap()).unwrap();
        assert_eq!(removed, ownership == Ownership::Persistent);
    }
    Ended::Passed
}

/// Arriving packets pass as well: the other host is the one that shapes.
pub fn kill_leaves_arrivals_passing_and_nothing_behind() -> Ended {
    let pair = Pair::new();
    let tables =
        || pair.right.run(|| nft::tables(&mut Socket::open(Protocol::Netfilter).unwrap()).unwrap().len()).unwrap();
    for ownership in [Ownership::Socket, Ownership::Persistent] {
        let child = hung(&pair.right, Spec::arriving("peer0", QUEUE), ownership);
        // The other direction of the interface, and other interfaces, are free.
        let error = pair.right.run(|| Rules::install(&Spec::arriving("peer0", QUEUE)).unwrap_err()).unwrap();
        assert!(error.to_string().contains("what arrives by peer0"), "{error}");
        drop(pair.right.run(|| Rules::install(&Spec::new("peer0", QUEUE + 1)).unwrap()).unwrap());
        for family in [0, 1] {
            let (sender, receiver) = udp(&pair, family);
            sender.send(b"held").unwrap();
            assert!(texts(&receiver, 0).is_empty());
        }
        child.kill();
        for family in [0, 1] {
            let (sender, receiver) = udp(&pair, family);
            sender.send(b"passes").unwrap();
            assert_eq!(texts(&receiver, 1), ["passes"], "{ownership:?}, family {family}");
        }
        assert_eq!(tables(), usize::from(ownership == Ownership::Persistent), "{ownership:?}");
        let removed = pair.right.run(|| remove_all_stale().unwrap()).unwrap();
        assert_eq!(removed.is_empty(), ownership == Ownership::Socket);
        assert_eq!(tables(), 0);
    }
    let tagged = TagRule { sender: rules::Sender::Uid(0), tag: 0 };
    let spec = Spec { tags: vec![tagged], ..Spec::arriving("peer0", QUEUE) };
    assert!(matches!(Rules::install(&spec), Err(RulesError::Invalid(_))), "arriving packets have no owner");
    Ended::Passed
}

pub fn what_a_killed_instance_left_is_removed() -> Ended {
    let pair = Pair::new();
    hung_instance(&pair, Ownership::Persistent).kill();
    // By the next start on the same interface ...
    let rules = pair.left.run(|| Rules::install(&Spec::new(DEVICE, QUEUE)).unwrap()).unwrap();
    assert_eq!(tables(&pair), rules.installed().attempt.families.len());
    rules.remove().unwrap();
    assert_eq!(tables(&pair), 0);
    // ... or by a sweep over all.
    hung_instance(&pair, Ownership::Persistent).kill();
    let strange = pair.left.run(|| Rules::install(&Spec::new("br-x.7", 50)).unwrap()).unwrap();
    let removed = pair.left.run(|| remove_all_stale().unwrap()).unwrap();
    assert_eq!(removed, [DEVICE]);
    assert!(tables(&pair) > 0, "the living instance keeps its table");
    drop(strange);
    assert_eq!(tables(&pair), 0);
    Ended::Passed
}

pub fn a_living_instance_is_not_disturbed() -> Ended {
    let pair = Pair::new();
    for ownership in [Ownership::Socket, Ownership::Persistent] {
        not_disturbed(&pair, ownership);
    }
    for (name, queue, count) in [("", 1, 1), ("a/b", 1, 1), ("sixteen_letters_", 1, 1), ("x", 65_533, 2), ("x", 1, 0)] {
        let spec = Spec { threads: count, ..Spec::new(name, queue) };
        assert!(matches!(Rules::install(&spec), Err(RulesError::Invalid(_))));
    }
    Ended::Passed
}

fn not_disturbed(pair: &Pair, ownership: Ownership) {
    let child = hung_instance(pair, ownership);
    pair.left
        .run(|| {
            let error = Rules::install(&Spec::new(DEVICE, QUEUE)).unwrap_err();
            assert!(matches!(&error, RulesError::Busy { interface, .. } if interface == DEVICE), "{error}");
            assert!(matches!(remove_stale(DEVICE), Err(RulesError::Busy { .. })));
            assert!(remove_all_stale().unwrap().is_empty());
            // Another interface, and the same name in another namespace, are free.
            Rules::install(&Spec::new("other", QUEUE + 1)).unwrap();
        })
        .unwrap();
    pair.right.run(|| Rules::install(&Spec::new(DEVICE, QUEUE)).unwrap()).unwrap();
    assert_eq!(tables(pair), 1, "{ownership:?}");
    child.kill();
}

/// A user without privileges had the names of locks when these were sockets of the abstract namespace.
pub fn a_user_cannot_keep_an_instance_from_starting() -> Ended {
    let pair = Pair::new();
    let squatter = Child::fork(|| {
        pair.left.enter_thread().unwrap();
        let names = ["tidegate/live/tg0".to_owned(), "tidegate/live/tg0/in".to_owned()];
        let locks = names.map(|name| {
            let address = SocketAddr::from_abstract_name(name).unwrap();
            UnixDatagram::bind_addr(&address).unwrap()
        });
        // Without capabilities nothing that an instance needs can be had: no table, and no queue.
        drop_capabilities();
        let table = Table { family: Family::Inet, name: format!("tidegate_{DEVICE}"), chains: vec![], rules: vec![] };
        for ownership in [Ownership::Socket, Ownership::Persistent] {
            let mut socket = Socket::open(Protocol::Netfilter).unwrap();
            let error = nft::create(&mut socket, std::slice::from_ref(&table), ownership).unwrap_err();
            assert_eq!(error.errno(), Some(libc::EPERM));
        }
        let error = QueueSocket::open(1 << 16).unwrap().bind(QUEUE, &QueueSettings::default()).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EPERM));
        std::thread::sleep(Duration::from_secs(200));
        drop(locks);
        0
    });
    let installs = |spec: &Spec| pair.left.run(|| drop(Rules::install(spec).unwrap())).unwrap();
    let waits = std::time::Instant::now();
    // Until it has its names, or for the time that it had for it.
    let taken = || {
        let address = SocketAddr::from_abstract_name("tidegate/live/tg0/in").unwrap();
        pair.left.run(|| UnixDatagram::bind_addr(&address).is_err()).unwrap()
    };
    while !taken() {
        assert!(waits.elapsed() < PATIENCE, "the other user has no names");
        std::thread::sleep(Duration::from_millis(1));
    }
    installs(&Spec::new(DEVICE, QUEUE));
    installs(&Spec::arriving(DEVICE, QUEUE));
    squatter.kill();
    Ended::Passed
}

/// Drops every capability of the calling thread, in effect and permitted.
fn drop_capabilities() {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).unwrap();
}

/// The lock is two sockets: with those, another process holds it on.
pub fn the_lock_lasts_as_long_as_a_process_has_its_socket() -> Ended {
    let pair = Pair::new();
    for ownership in [Ownership::Socket, Ownership::Persistent] {
        let (mut ready, mut tell) = UnixStream::pair().unwrap();
        let child = Child::fork(|| {
            pair.left.enter_thread().unwrap();
            let mut socket = QueueSocket::open(1 << 16).unwrap();
            socket.bind(QUEUE, &QueueSettings::default()).unwrap();
            let rules = Rules::install_by(&Spec::new(DEVICE, QUEUE), owned_by(ownership)).unwrap();
            // The heir has every descriptor of its parent, which is killed.
            let heir = Child::fork(|| {
                std::thread::sleep(Duration::from_secs(200));
                0
            });
            std::io::Write::write_all(&mut tell, &heir.id().to_ne_bytes()).unwrap();
            std::thread::sleep(Duration::from_secs(200));
            drop((socket, rules));
            0
        });
        ready.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut heir = [0; 4];
        ready.read_exact(&mut heir).unwrap();
        child.kill();
        pair.left
            .run(|| {
                let install = || Rules::install(&Spec::new(DEVICE, QUEUE + 2));
                assert!(matches!(install(), Err(RulesError::Busy { .. })), "{ownership:?}");
                tidegate_sys::process::signal(u32::from_ne_bytes(heir), libc::SIGKILL).unwrap();
                let began = std::time::Instant::now();
                // Not a child of this process: the lock itself shows that it has ended.
                while let Err(error) = install() {
                    assert!(matches!(error, RulesError::Busy { .. }) && began.elapsed() < PATIENCE, "{error}");
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
            .unwrap();
    }
    Ended::Passed
}
