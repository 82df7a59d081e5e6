//! [`Op`], and the generation of scripts.

use tidegate_core::random::Stream;
use tidegate_core::{Bytes, ClassId, Colour, Dscp, Ecn, FlowKey, Span};

use crate::TestPacket;

/// One step of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Enqueue a packet; its id is assigned when the script runs.
    Enqueue(TestPacket),
    /// One `dequeue` now.
    Dequeue,
    /// Check that `dequeue` has no effect 1 ns before the deadline, and has one at the deadline.
    ToDeadline,
    /// Let time pass.
    Wait(Span),
    /// Make the next call carry an instant this much in the past.
    Back(Span),
}

/// Which ECN code points packets carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CodePoints {
    /// Each packet draws its own, so that a discipline that queues by the ECN field breaks law 6.
    #[default]
    OfPackets,
    /// All packets of a flow carry the same, and with many flows each class has all four. This is for disciplines
    /// that may send the packets of a flow through two queues when their code points differ, as in RFC 9332.
    OfFlows,
}

/// The shape of scripts. The default has few flows and classes, small and large packets, and every kind of step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The number of flows, at least 1. A flow has one class and one profile.
    pub flows: u64,
    /// The number of classes, at least 1.
    pub classes: u32,
    /// The number of profiles, at least 1.
    pub profiles: u32,
    /// The smallest and the largest packet in bytes.
    pub sizes: (u64, u64),
    /// The longest wait. The magnitudes of waits are uniform below it.
    pub longest_wait: Span,
    /// The number of enqueues per 256 steps; the rest is mostly dequeues.
    pub enqueues: u8,
    /// Which ECN code points packets carry. The other properties of a script do not depend on it.
    pub ecn: CodePoints,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            flows: 8,
            classes: 3,
            profiles: 3,
            sizes: (40, 1_514),
            longest_wait: Span::from_millis(50),
            enqueues: 110,
            ecn: CodePoints::OfPackets,
        }
    }
}

/// The script of `seed` with `length` steps.
pub fn make(shape: &Shape, seed: u64, length: usize) -> Vec<Op> {
    let mut random = Stream::named(seed, "laws");
    (0..length)
        .map(|_| {
            let kind = random.below(256);
            let enqueues = u64::from(shape.enqueues);
            if kind < enqueues {
                Op::Enqueue(packet(shape, &mut random))
            } else if kind < enqueues + (256 - enqueues) / 3 {
                Op::ToDeadline
            } else if kind < enqueues + (256 - enqueues) * 2 / 3 {
                Op::Dequeue
            } else if kind < 250 {
                Op::Wait(magnitude(shape.longest_wait, &mut random))
            } else {
                Op::Back(magnitude(shape.longest_wait, &mut random))
            }
        })
        .collect()
}

/// A span whose magnitude is uniform below `longest`.
fn magnitude(longest: Span, random: &mut Stream) -> Span {
    let bits = 64 - longest.as_nanos().leading_zeros();
    let cap = 1_u64.checked_shl(random.below(u64::from(bits) + 1) as u32).unwrap_or(u64::MAX);
    Span::from_nanos(random.below(cap.min(longest.as_nanos()).saturating_add(1)))
}

fn packet(shape: &Shape, random: &mut Stream) -> TestPacket {
    // Half of the packets come from a quarter of the flows.
    let busy = random.below(2) == 0;
    let flow = random.below(if busy { shape.flows.div_ceil(4) } else { shape.flows });
    let (least, most) = shape.sizes;
    let size = match random.below(4) {
        0 => least,
        1 => most,
        _ => least + random.below(most - least + 1),
    };
    let dscp = Dscp::new(random.below(64) as u8).expect("below 64");
    let drawn = random.below(4);
    let ecn = match shape.ecn {
        CodePoints::OfPackets => drawn,
        // The quotient shifts the code point where the number of classes is a multiple of four.
        CodePoints::OfFlows => (flow + flow / 4) % 4,
    };
    TestPacket {
        id: 0,
        size: Bytes::new(size),
        flow: FlowKey { flow, source: flow / 4, destination: flow / 8 },
        class: ClassId((flow % u64::from(shape.classes)) as u32),
        profile: (flow / u64::from(shape.classes) % u64::from(shape.profiles)) as u32,
        dscp,
        ecn: Ecn::from_bits(ecn as u8),
        colour: [Colour::Green, Colour::Yellow, Colour::Red][random.below(3) as usize],
        pure_ack: random.below(4) == 0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// A seed in a report of a violation must make the same script on every machine and with every compiler.
    #[test]
    fn a_seed_makes_the_same_script_everywhere() {
        let digest = |shape: &Shape| {
            let text = (0..8).map(|seed| format!("{:?}", make(shape, seed, 2_000))).collect::<String>();
            text.bytes()
                .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        };
        let longest = Shape { longest_wait: Span::from_nanos(u64::MAX), flows: 300, ..Shape::default() };
        let digests = [digest(&Shape::default()), digest(&longest)];
        // The digests of scripts in which each packet draws its code point.
        assert_eq!(digests, [0x433b_7ac3_f1e0_b11a, 0x49fe_d603_be8e_b686], "{digests:#x?}");
    }

    /// The scripts of a seed differ in the code points alone, and each class has flows of all four.
    #[test]
    fn the_packets_of_a_flow_keep_their_code_point() {
        for classes in [1, 3, 4] {
            let drawn = Shape { classes, flows: 64, ..Shape::default() };
            let kept = Shape { ecn: CodePoints::OfFlows, ..drawn };
            let mut of_flow = BTreeMap::new();
            let mut of_class = BTreeSet::new();
            for (drawn, kept) in make(&drawn, 1, 4_000).into_iter().zip(make(&kept, 1, 4_000)) {
                let (Op::Enqueue(drawn), Op::Enqueue(kept)) = (drawn, kept) else {
                    assert_eq!(drawn, kept);
                    continue;
                };
                assert_eq!(drawn, TestPacket { ecn: drawn.ecn, ..kept });
                assert_eq!(*of_flow.entry(kept.flow.flow).or_insert(kept.ecn), kept.ecn);
                of_class.insert((kept.class.0, kept.ecn.bits()));
            }
            assert_eq!((of_flow.len(), of_class.len()), (64, 4 * classes as usize));
        }
    }
}
