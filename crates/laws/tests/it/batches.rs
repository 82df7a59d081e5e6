//! A batch has the effects of its calls one after the other: departures, drops, events, backlog and deadlines.

use tidegate_core::cbq::{self, Cbq};
use tidegate_core::fbq::{Borrow, ClassParams, Fbc, FbcParams, Profile};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::fq_codel::{self, FqCodel};
use tidegate_core::random::Stream;
use tidegate_core::{Bytes, ClassId, DropReason, Event, Instant, Outlet, Qdisc, Rate, Span};
use tidegate_laws::TestPacket;

#[derive(Default, PartialEq, Debug)]
struct Seen {
    dropped: Vec<(TestPacket, DropReason)>,
    events: Vec<Event>,
}

impl Outlet<TestPacket> for Seen {
    fn dropped(&mut self, packet: TestPacket, reason: DropReason) {
        self.dropped.push((packet, reason));
    }
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// Random groups of arrivals and departures, through one copy in batches and through the other one by one.
fn agree(mut batched: Box<dyn Qdisc<TestPacket>>, mut single: Box<dyn Qdisc<TestPacket>>) {
    let mut random = Stream::named(7, "batches");
    let (mut now, mut id, mut departed, mut dropped) = (Instant::ZERO, 0, 0, 0);
    for _ in 0..4_000 {
        let (mut one, mut other) = (Seen::default(), Seen::default());
        let mut arrivals: Vec<TestPacket> = (0..random.below(12))
            .map(|_| {
                id += 1;
                let flow = random.below(40);
                TestPacket::new(id, flow, 60 + random.below(1_440))
                    .in_class((flow % 2) as u32)
                    .with_profile(flow as u32 % 3)
            })
            .collect();
        for packet in &arrivals {
            single.enqueue(now, *packet, &mut one);
        }
        batched.enqueue_batch(now, &mut arrivals, &mut other);
        assert!(arrivals.is_empty(), "a batch leaves no packet behind");
        assert_eq!((one, batched.backlog()), (other, single.backlog()), "after enqueueing at {now:?}");
        assert_eq!(batched.deadline(now), single.deadline(now));
        now = match random.below(3) {
            0 => single.deadline(now).instant(now).unwrap_or(now),
            _ => now + Span::from_nanos(random.below(12_000_000)),
        };
        let (mut one, mut other) = (Seen::default(), Seen::default());
        let most = random.below(16) as usize;
        let expected: Vec<TestPacket> = (0..most).map_while(|_| single.dequeue(now, &mut one)).collect();
        let mut left = Vec::new();
        assert_eq!(batched.dequeue_batch(now, most, &mut left, &mut other), left.len());
        dropped += one.dropped.len();
        assert_eq!((&left, &one), (&expected, &other), "after dequeueing up to {most} at {now:?}");
        assert_eq!((batched.deadline(now), batched.backlog()), (single.deadline(now), single.backlog()));
        departed += left.len();
    }
    assert!(departed > 2_000, "only {departed} packets left, {dropped} were dropped on departure");
}

fn both<Q: Qdisc<TestPacket> + 'static>(make: impl Fn() -> Q) {
    agree(Box::new(make()), Box::new(make()));
}

#[test]
fn of_the_end_system_shaper() {
    let class = |mbit| ClassParams {
        borrow: Borrow::FromOthers,
        limit: Bytes::new(60_000),
        ..ClassParams::new(Rate::from_mbit(mbit))
    };
    let profiles = vec![
        Profile { minimum: Rate::from_kbit(100), ..Profile::default() },
        Profile { weight: 200_000, ..Profile::default() },
    ];
    both(|| {
        let params =
            FbcParams { idle_timeout: Span::from_millis(50), max_flows: 24, ..FbcParams::new(Rate::from_mbit(8)) };
        Fbc::new(params, vec![class(3), class(5)], profiles.clone(), Instant::ZERO).expect("valid")
    });
}

#[test]
fn of_other_disciplines() {
    both(|| Fifo::new(Limit::packets(50)));
    both(|| FqCodel::new(fq_codel::Params::default()).expect("valid"));
    both(|| {
        let root = ClassId(9);
        let mut tree = Cbq::new(cbq::Params::new(Rate::from_mbit(8), Bytes::new(1_500), root)).expect("valid");
        for id in 0..2 {
            let class = cbq::Class::new(Rate::from_mbit(4)).borrowing();
            tree.add_leaf(Instant::ZERO, ClassId(id), root, class, Fifo::new(Limit::packets(20))).expect("fits");
        }
        tree
    });
}
