//! HTB: the laws, the bound of its ceil, and the rates that Linux gives to the classes of the same trees.

use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::htb::{Class, Htb, Node};
use tidegate_core::{Accounted, Bytes, ClassId, Instant, Packet, Qdisc, Rate, Span};
use tidegate_laws::{Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

type Tree = Htb<TestPacket, Fifo<TestPacket>>;

fn class(rate: u64, ceil: u64, priority: u8, quantum: u64) -> Class {
    Class {
        ceil: Rate::from_kbit(ceil),
        burst: Bytes::new(10_000),
        cburst: Bytes::new(10_000),
        priority,
        quantum: Bytes::new(quantum),
        ..Class::new(Rate::from_kbit(rate))
    }
}

fn leaf(class: Class, parent: u32) -> Node<Fifo<TestPacket>> {
    Node::leaf(class, Some(parent), Fifo::new(Limit::packets(50)))
}

#[test]
fn htb_obeys_the_laws() {
    let small = |class: Class, burst| Class { burst: Bytes::new(burst), cburst: Bytes::new(burst), ..class };
    let shapes = [
        Shape { classes: 5, ..Shape::default() },
        Shape { classes: 5, flows: 200, enqueues: 140, ..Shape::default() },
        Shape { classes: 6, sizes: (1, 9_000), longest_wait: Span::from_secs(2), enqueues: 120, ..Shape::default() },
    ];
    for shape in shapes {
        for burst in [1, 3_000] {
            let tree = || {
                let queue = || Fifo::new(Limit::packets(6));
                let class = |rate, ceil, priority, quantum| small(class(rate, ceil, priority, quantum), burst);
                let tree = vec![
                    Node::inner(class(1_000, 1_200, 0, 1), None),
                    Node::inner(class(500, 900, 0, 1), Some(0)),
                    Node::leaf(class(100, 900, 0, 300), Some(1), queue()),
                    Node::leaf(class(300, 400, 1, 1_500), Some(1), queue()),
                    Node::leaf(class(300, 300, 0, 1_500), Some(0), queue()),
                    Node::inner(class(700, 2_000, 0, 1), None),
                    Node::leaf(class(50, 2_000, 7, 900), Some(5), queue()),
                    Node::leaf(class(10, 20, 2, 900), None, queue()),
                ];
                Accounted::new(Tree::new(tree, None).unwrap())
            };
            let report = check_seeds(tree, &shape, share(100), 2_000);
            assert!(
                report.dropped > share(1_000) && report.dequeued > share(5_000) && report.deadlines > share(1_000),
                "{report:?}"
            );
        }
    }
}

/// The rates of the leaves in kbit/s between 2 s and 12 s, each offered 8 Mbit/s in packets of 1000 B.
fn rates(tree: Vec<Node<Fifo<TestPacket>>>, leaves: usize) -> Vec<u64> {
    let mut htb = Tree::new(tree, None).unwrap();
    let mut sent = vec![0; leaves];
    for ms in 0..12_000 {
        let at = Instant::ZERO + Span::from_millis(ms);
        for class in 0..leaves {
            htb.enqueue(at, TestPacket::new(0, class as u64, 1_000).in_class(class as u32), &mut vec![]);
        }
        // The driver takes a packet whenever there is one.
        let mut now = at;
        while let Some(due) = htb.deadline(now).instant(now).filter(|due| *due < at + Span::from_millis(1)) {
            now = due;
            let packet = htb.dequeue(now, &mut vec![]).expect("the deadline is exact");
            if ms >= 2_000 {
                sent[packet.class.0 as usize] += packet.size().bits();
            }
        }
    }
    sent.into_iter().map(|bits| bits / 10_000).collect()
}

fn near(ours: &[u64], theirs: &[u64]) {
    assert!(ours.iter().zip(theirs).all(|(a, b)| a.abs_diff(*b) * 100 <= *b), "{ours:?} and not {theirs:?}");
}

/// Linux 7.3.4 with iproute2 6.15, 22 November 2026: `tc htb` on veth between two namespaces, bursts of 10,000 B, a FIFO
/// of 50 packets for each leaf, UDP of 1000 B (headers included) at 8 Mbit/s to each, in a virtual machine whose time is
/// counted in instructions. Bytes of `tc -s class show` between 2 s and 12 s. `testbed/field/htb` measures it again.
#[test]
fn the_classes_have_the_rates_that_linux_gives_them() {
    let root = || Node::inner(class(10_000, 10_000, 0, 1_000), None);
    let three = |tree: [Class; 3]| std::iter::once(root()).chain(tree.map(|class| leaf(class, 0))).collect();
    // What the leaves do not have by themselves, 4 Mbit/s, goes by quantum.
    let quantum = [class(1_000, 10_000, 0, 1_000), class(2_000, 10_000, 0, 2_000), class(3_000, 10_000, 0, 3_000)];
    near(&rates(three(quantum), 3), &[1_666, 3_334, 5_000]);
    // To the first priority.
    let priority = [class(1_000, 10_000, 1, 1_000), class(2_000, 10_000, 0, 1_000), class(3_000, 10_000, 1, 1_000)];
    near(&rates(three(priority), 3), &[1_001, 5_999, 3_000]);
    // Up to its ceil, and then to the others in equal parts.
    let ceil = [class(1_000, 10_000, 1, 1_000), class(2_000, 4_000, 0, 1_000), class(3_000, 10_000, 1, 1_000)];
    near(&rates(three(ceil), 3), &[2_000, 4_001, 4_000]);

    // A tree: under 2 (4 to 6 Mbit/s) leaves of 1 and 2, under 3 (5 to 10) leaves of 1 and 3, this one with its rate as
    // its ceil. The first has 4 of its own and the second 5. Linux gives all of the root's last 1 Mbit/s to class 2
    // (2000, 3000, 2000, 3000): its place in the root's list moves on only when a round of leaves ends there, and each
    // second packet of that round is class 2's own. Here the two borrow in turn.
    let inner = |rate, ceil| Node::inner(class(rate, ceil, 0, 1_000), Some(0));
    let tree = vec![
        root(),
        inner(4_000, 6_000),
        leaf(class(1_000, 6_000, 0, 1_000), 1),
        leaf(class(2_000, 6_000, 0, 1_000), 1),
        inner(5_000, 10_000),
        leaf(class(1_000, 10_000, 0, 1_000), 4),
        leaf(class(3_000, 3_000, 0, 1_000), 4),
    ];
    near(&rates(tree, 4), &[1_750, 2_750, 2_500, 3_000]);
    // Three leaves of 1 Mbit/s under 4, and one under 4: Linux gives 6 to the first three, for the same reason; here the
    // inner classes have 5 each.
    let tree = vec![
        root(),
        inner(4_000, 10_000),
        leaf(class(1_000, 10_000, 0, 1_000), 1),
        leaf(class(1_000, 10_000, 0, 1_000), 1),
        leaf(class(1_000, 10_000, 0, 1_000), 1),
        inner(4_000, 10_000),
        leaf(class(1_000, 10_000, 0, 1_000), 5),
    ];
    near(&rates(tree, 4), &[1_667, 1_667, 1_667, 5_000]);
}

/// cburst + ceil·t and one packet, and burst and one packet for each class below, which sends within its rate whatever
/// those above have sent; over every interval between two departures.
#[test]
fn no_class_exceeds_its_ceil() {
    let tree = vec![
        Node::inner(class(8_000, 8_000, 0, 1_000), None),
        Node::inner(class(2_000, 5_000, 0, 1_000), Some(0)),
        leaf(class(500, 3_000, 0, 1_000), 1),
        leaf(class(500, 4_000, 1, 1_000), 1),
        leaf(class(100, 8_000, 1, 1_000), 0),
    ];
    let mut htb = Tree::new(tree, None).unwrap();
    let mut departures = Vec::new();
    let mut now = Instant::ZERO;
    for n in 0..40_000_u64 {
        now += Span::from_micros(n * 7 % 400);
        // Bursts and silences.
        for class in (0..3).filter(|class| (n / 500 + class) % 3 != 0) {
            let packet = TestPacket::new(n, class, 200 + n * 131 % 1_300).in_class(class as u32);
            htb.enqueue(now, packet, &mut vec![]);
        }
        while let Some(packet) = htb.dequeue(now, &mut vec![]) {
            departures.push((now, packet.class, packet.size().as_u64()));
        }
    }
    assert!(departures.len() > 4_000, "{}", departures.len());
    let groups: [(&[u32], u64, i128); 4] =
        [(&[0], 3_000, 0), (&[1], 4_000, 0), (&[0, 1], 5_000, 2), (&[0, 1, 2], 8_000, 4)];
    for (classes, ceil, below) in groups {
        // Bytes beyond ceil·t since the moment at which that was least.
        let (mut sent, mut least) = (0_i128, 0_i128);
        for (at, _, size) in departures.iter().filter(|(_, class, _)| classes.contains(&class.0)) {
            let allowed = Rate::from_kbit(ceil).credit_in(at.since(Instant::ZERO)).as_raw();
            least = least.min(sent - allowed);
            sent += i128::from(*size) * 8_000_000_000;
            assert!(sent - allowed - least <= (below + 1) * (10_000 + 1_500) * 8_000_000_000, "{classes:?} at {at:?}");
        }
    }
}

#[test]
fn a_packet_of_no_class_goes_to_the_default_or_nowhere() {
    let tree = || vec![Node::inner(class(1, 1, 0, 1), None), leaf(class(1, 1, 0, 1), 0)];
    let send = |default| {
        let mut htb = Tree::new(tree(), default).unwrap();
        htb.enqueue(Instant::ZERO, TestPacket::new(0, 0, 100).in_class(7), &mut vec![]);
        htb.backlog().packets
    };
    assert_eq!((send(None), send(Some(ClassId(0)))), (0, 1));
}
