use super::*;
use crate::fbq::flow::record;
use crate::random::Stream;
use alloc::collections::BTreeSet;
use tidegate_units::Instant;

/// Against an ordered set: the lesser of the wheel's first flow and of those that it did not take is the first.
fn run(seed: u64, flows_most: u64, lengths: &[u128]) -> (usize, usize, usize) {
    let mut random = Stream::named(seed, "wheel");
    let mut flows = Flows::new();
    (0..flows_most).for_each(|key| {
        flows.insert(record(key, 0, 0, Instant::ZERO));
    });
    let (mut wheel, mut far, mut model) = (Wheel::new(), BTreeSet::new(), BTreeSet::new());
    let mut tags: Vec<Option<u128>> = alloc::vec![None; flows_most as usize];
    let (mut near_count, mut far_count, mut tied_count) = (0, 0, 0);
    let mut now = 1_u128 << 100;
    for _ in 0..60_000 {
        // Half of the calls serve the first flow, which mostly has another packet; a few flows come, go or move.
        let (at, length) = match (random.below(16), model.first().copied()) {
            (0..12, Some((tag, at))) => {
                now = now.max(tag);
                (at, lengths[random.below(lengths.len() as u64) as usize])
            }
            _ => (random.below(flows_most) as u32, lengths[random.below(lengths.len() as u64) as usize]),
        };
        let before = tags[at as usize].take();
        let start = before.unwrap_or(now - length.min(u128::from(random.below(2)) << 40));
        let tag = start + length;
        let stays = random.below(16) > 0;
        if stays {
            tags[at as usize] = Some(tag);
            model.insert((tag, at));
        }
        if let Some(before) = before {
            model.remove(&(before, at));
            if Wheel::has(flows[at].share_at) {
                wheel.remove(&mut flows, at);
            } else {
                assert!(far.remove(&(before, at)), "a flow is in neither");
            }
        }
        if stays {
            let mut again = if wheel.has_room(&flows, length) { Vec::new() } else { wheel.grow(&mut flows, length) };
            again.push((tag, at));
            for (tag, at) in again {
                if wheel.insert(&mut flows, at, tag) {
                    near_count += 1;
                    tied_count += usize::from(flows[at].share_at & IN_TIES != 0);
                } else {
                    far.insert((tag, at));
                    far_count += 1;
                }
            }
        }
        let (near, near_first) = (wheel.peek(&mut flows), wheel.first(&mut flows));
        let first = [near, far.first().copied()].into_iter().flatten().min();
        assert_eq!(first, model.first().copied());
        assert_eq!(near_first, near.map(|(_, at)| at));
        assert_eq!(wheel.ties.iter().map(Ties::len).sum::<usize>(), wheel.tied);
        assert_eq!(wheel.len + wheel.tied + far.len(), model.len());
    }
    (near_count, far_count, tied_count)
}

#[test]
fn a_bucket_is_found_in_any_part_of_the_largest_wheel() {
    let mut wheel = Wheel::new();
    wheel.size(MOST, wheel.span);
    let marked = [70, 300_000, 300_001, 1_000_000];
    marked.into_iter().for_each(|at| wheel.mark(at));
    for at in [0, 70, 71, 4_096, 300_000, 300_001, 300_002, 999_999, 1_000_001] {
        assert_eq!(wheel.next_from(at), marked.into_iter().find(|&first| first >= at), "from {at}");
    }
}

#[test]
fn the_first_is_that_of_an_ordered_set() {
    // Equal packets tie; those of an Ethernet; superpackets; weights that put tags beyond every span.
    let mtu = 1_u128 << 51;
    let (near, far, tied) = run(1, 300, &[mtu]);
    assert!(near > 5_000 && tied > 1_000, "{near} places in the wheel, {tied} of ties, {far} beside it");
    let mixed: Vec<u128> = (1..24).map(|n| mtu / 24 * n + n).collect();
    let (near, far, ..) = run(2, 3_000, &mixed);
    assert!(near > 10_000, "{near} places in the wheel, {far} beside it");
    run(3, 300, &[mtu / 16, mtu, mtu * 40]);
    let (_, far, ..) = run(4, 300, &[mtu, mtu << 14, 3]);
    assert!(far > 1_000, "{far} flows beyond the span");
    run(5, 2, &[mtu, 1]);
    // Whole bytes, so that tags are equal; with weights above and below 1.0; for so long that the first byte moves.
    let bytes: Vec<u128> = (64..1_500).map(tag_of).collect();
    let (near, far, ..) = run(6, 20_000, &bytes);
    assert!(near > 10_000 && far < near / 100, "{near} places in the wheel, {far} beside it");
    run(7, 3_000, &[tag_of(1_000), tag_of(1_500), tag_of(1_500) / 3, tag_of(64) * 7 / 5]);
    run(8, 5, &[tag_of(1_500), tag_of(64), tag_of(64_000)]);
}
