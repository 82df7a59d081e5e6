//! H-FSC: the laws, its guarantee by the definition of a service curve, and the example of its paper.

use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::hfsc::{Class, Curve, Hfsc, Node};
use tidegate_core::random::Stream;
use tidegate_core::sessions::Params;
use tidegate_core::wf2q::Wf2q;
use tidegate_core::{Accounted, Bytes, Credit, Instant, Packet, Qdisc, Rate, Span};
use tidegate_laws::{Shape, TestPacket, check_seeds};
use tidegate_testbed::share;

type Tree = Hfsc<TestPacket, Fifo<TestPacket>>;

fn queue(packets: u64) -> Fifo<TestPacket> {
    Fifo::new(Limit::packets(packets))
}

fn kbit(rate: u64) -> Curve {
    Curve::linear(Rate::from_kbit(rate))
}

#[test]
fn hfsc_obeys_the_laws() {
    let concave = Curve::burst_within(Rate::from_kbit(400), Bytes::new(3_000), Span::from_millis(10));
    let convex = Curve::burst_within(Rate::from_kbit(1_000), Bytes::new(500), Span::from_millis(30));
    let shapes = [
        Shape { classes: 5, ..Shape::default() },
        Shape { classes: 5, flows: 200, enqueues: 140, ..Shape::default() },
        Shape { classes: 6, sizes: (1, 9_000), longest_wait: Span::from_secs(2), enqueues: 120, ..Shape::default() },
    ];
    for shape in shapes {
        for lead in [Span::ZERO, Span::from_millis(2)] {
            let tree = || {
                let tree = vec![
                    Node::leaf(Class::new(concave), None, queue(6)),
                    Node::inner(Class::sharing(kbit(3_000)), None),
                    Node::leaf(Class::new(convex), Some(1), queue(6)),
                    Node::leaf(Class::sharing(kbit(700)), Some(1), queue(6)),
                    Node::leaf(Class::guaranteed(kbit(500)), Some(1), queue(6)),
                    Node::leaf(Class::guaranteed(convex), None, queue(6)),
                ];
                Accounted::new(Tree::new(Rate::from_kbit(8_000), lead, tree, None).unwrap())
            };
            let report = check_seeds(tree, &shape, share(100), 2_000);
            assert!(
                report.dropped > share(1_000) && report.dequeued > share(5_000) && report.deadlines > share(1_000),
                "{report:?}"
            );
        }
    }
}

/// A leaf as the definition of a service curve sees it (equation (2) of the paper): when it became backlogged, and with
/// how many bytes sent; and the packets that it has sent.
#[derive(Default)]
struct Seen {
    periods: Vec<(Instant, u64)>,
    sent: u64,
    inside: u64,
}

impl Seen {
    /// When the guarantee has asked for `bytes`: the first time at which all the curves begun so far have.
    fn due(&self, curve: &Curve, bytes: u64) -> Instant {
        let asked = |at: Instant| {
            let from = |(begun, sent): &(Instant, u64)| Credit::of(Bytes::new(*sent)) + curve.service(at.since(*begun));
            self.periods.iter().map(from).min().expect("it was backlogged")
        };
        let (mut least, mut most) = (0, 1 << 45);
        while least < most {
            let middle = (least + most) / 2;
            if asked(Instant::from_nanos(middle)) >= Credit::of(Bytes::new(bytes)) {
                most = middle;
            } else {
                least = middle + 1;
            }
        }
        Instant::from_nanos(least)
    }
}

/// Theorem 2 of the paper: every packet leaves by its deadline and a largest packet. The guarantees take all of the link;
/// the tests for concave and convex curves, with leaves that send too much, too little and in bursts.
#[test]
fn a_guarantee_is_missed_by_a_packet_time_at_most() {
    let link = Rate::from_mbit(8);
    let curves = [
        Curve::burst_within(Rate::from_kbit(500), Bytes::new(2_000), Span::from_millis(8)),
        Curve::burst_within(Rate::from_kbit(3_000), Bytes::new(1_000), Span::from_millis(20)),
        kbit(1_500),
        Curve::burst_within(Rate::from_kbit(2_600), Bytes::new(1_500), Span::from_millis(12)),
    ];
    let packet_time = Span::from_micros(1_500);
    let (mut checked, mut near) = (0, 0);
    for seed in 0..4 {
        let mut random = Stream::named(seed, "hfsc");
        let tree = vec![
            Node::inner(Class::sharing(kbit(4_000)), None),
            Node::leaf(Class::new(curves[0]), Some(0), queue(1_000)),
            Node::leaf(Class::new(curves[1]), Some(0), queue(1_000)),
            Node::leaf(Class::new(curves[2]), None, queue(1_000)),
            Node::leaf(Class::guaranteed(curves[3]), None, queue(1_000)),
            Node::leaf(Class::sharing(kbit(4_000)), None, queue(1_000)),
        ];
        let mut hfsc = Tree::new(link, Span::ZERO, tree, None).unwrap();
        let mut seen: [Seen; 5] = Default::default();
        let mut now = Instant::ZERO;
        let mut id = 0;
        while now < Instant::ZERO + Span::from_secs(6) {
            let next = now + Span::from_micros(random.below(2_000));
            while let Some(due) = hfsc.deadline(now).instant(now).filter(|due| *due < next) {
                now = due;
                let packet = hfsc.dequeue(now, &mut vec![]).expect("the deadline is exact");
                let leaf = &mut seen[packet.class.0 as usize];
                leaf.sent += packet.size().as_u64();
                leaf.inside -= 1;
                let Some(curve) = curves.get(packet.class.0 as usize) else { continue };
                let left = now + Span::from_nanos(packet.size().as_u64() * 1_000);
                let due = leaf.due(curve, leaf.sent);
                assert!(left <= due + packet_time, "seed {seed}: {packet:?} due {due:?} left {left:?}");
                (checked, near) = (checked + 1, near + usize::from(left > due));
            }
            now = next;
            // The fifth leaf always has packets; the others in phases of half a second.
            for class in 0..5_u64 {
                let phase = (now.as_nanos() / 500_000_000 + class + seed) % 3;
                let wanted = if class == 4 { 20 } else { [0, 2, 30][phase as usize] };
                if seen[class as usize].inside < wanted && (class == 4 || random.below(3) > 0) {
                    let size = [100, 40 + random.below(1_460), 1_500][random.below(3) as usize];
                    let leaf = &mut seen[class as usize];
                    if leaf.inside == 0 {
                        leaf.periods.push((now, leaf.sent));
                    }
                    leaf.inside += 1;
                    hfsc.enqueue(now, TestPacket::new(id, class, size).in_class(class as u32), &mut vec![]);
                    id += 1;
                }
            }
        }
    }
    assert!(checked > 5_000 && near > 20, "{checked} {near}");
}

/// Section VI of the paper, figure 1: 45 Mbit/s, of which CMU has 25 and U. Pitt 20. At CMU a call (160 B each 20 ms), a
/// video of 2 Mbit/s (frames of 8 kB, 30 a second), and transfers that take what is left. Returns the greatest delay of a
/// packet of the call and of the end of a frame.
fn delays(mut queue: impl Qdisc<TestPacket>) -> [Span; 2] {
    let mut greatest = [Span::ZERO; 2];
    let mut arrived = std::collections::HashMap::new();
    let mut id = 0;
    for tick in 0..20_000_u64 {
        // A tick is 0.1 ms.
        let at = Instant::ZERO + Span::from_micros(tick * 100);
        let mut send = |class: u32, size: u64| {
            queue.enqueue(at, TestPacket::new(id, class.into(), size).in_class(class), &mut vec![]);
            arrived.insert(id, at);
            id += 1;
        };
        if tick % 200 == 7 {
            send(0, 160);
        }
        if tick % 333 == 50 {
            (0..8).for_each(|_| send(1, 1_000));
        }
        for class in [2, 3] {
            (0..8).for_each(|_| send(class, 1_500));
        }
        let mut now = at;
        while let Some(due) = queue.deadline(now).instant(now).filter(|due| *due < at + Span::from_micros(100)) {
            now = due;
            let packet = queue.dequeue(now, &mut vec![]).expect("the deadline is exact");
            let left = now + Rate::from_mbit(45).time_for_ceil(packet.size()).expect("a rate");
            if let Some(greatest) = greatest.get_mut(packet.class.0 as usize) {
                *greatest = (*greatest).max(left.since(arrived[&packet.id]));
            }
        }
    }
    greatest
}

#[test]
fn delay_does_not_follow_from_the_rate() {
    let call = Curve::burst_within(Rate::from_kbit(64), Bytes::new(160), Span::from_millis(5));
    let video = Curve::burst_within(Rate::from_kbit(2_000), Bytes::new(8_000), Span::from_millis(10));
    let tree = vec![
        Node::inner(Class::sharing(kbit(25_000)), None),
        Node::leaf(Class::new(call), Some(0), queue(100)),
        Node::leaf(Class::new(video), Some(0), queue(100)),
        Node::leaf(Class::sharing(kbit(22_936)), Some(0), queue(100)),
        Node::leaf(Class::new(kbit(20_000)), None, queue(100)),
    ];
    let link = Rate::from_mbit(45);
    // A packet of 1500 B takes 267 us.
    let packet = Span::from_micros(267);
    let [audio, frame] = delays(Tree::new(link, Span::ZERO, tree, None).unwrap());
    assert!(audio <= Span::from_millis(5) + packet && frame <= Span::from_millis(10) + packet, "{audio} {frame}");
    // Of a fair queue with the same rates 160 B take up to 20 ms, and 8 kB 32 ms.
    let params = Params { limit: Limit::packets(400), ..Params::classes(link, vec![64, 2_000, 22_936, 20_000]) };
    let [audio, frame] = delays(Wf2q::new(params).unwrap());
    assert!(audio > Span::from_millis(10) && frame > Span::from_millis(25), "{audio} {frame}");
}

#[test]
fn guarantees_that_do_not_fit_are_refused() {
    let tree = |curve| {
        vec![Node::leaf(Class::new(kbit(6_000)), None, queue(1)), Node::leaf(Class::new(curve), None, queue(1))]
    };
    let refused = |curve| Tree::new(Rate::from_mbit(8), Span::ZERO, tree(curve), None).err().map(|error| error.problem);
    assert_eq!(refused(kbit(2_000)), None);
    assert!(refused(kbit(2_001)).is_some_and(|problem| problem.contains("in the long run")));
    // 10 ms of 3 Mbit/s and 6 Mbit/s do not fit, although 1 and 6 do.
    let burst = Curve::burst_within(Rate::from_mbit(1), Bytes::new(3_750), Span::from_millis(10));
    assert!(refused(burst).is_some_and(|problem| problem.contains("in the first")));
}
