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
    TestPacket {
        id: 0,
        size: Bytes::new(size),
        flow: FlowKey { flow, source: flow / 4, destination: flow / 8 },
        class: ClassId((flow % u64::from(shape.classes)) as u32),
        profile: (flow / u64::from(shape.classes) % u64::from(shape.profiles)) as u32,
        dscp: Dscp::new(random.below(64) as u8).expect("below 64"),
        ecn: Ecn::from_bits(random.below(4) as u8),
        colour: [Colour::Green, Colour::Yellow, Colour::Red][random.below(3) as usize],
        pure_ack: random.below(4) == 0,
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(digests, [0x433b_7ac3_f1e0_b11a, 0x49fe_d603_be8e_b686], "{digests:#x?}");
    }
}
