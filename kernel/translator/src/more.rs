//! Random options of the disciplines that have some of their own: DualPI2, WRED, RIO, RAS, CAKE, and meters.

use tidegate_core::cake::Tins;
use tidegate_core::random::Stream;
use tidegate_core::{Rate, Span};
use tidegate_kernel::options::Options;

use super::equal::spread;

/// A meter before a discipline or behind it, about as fast as packets come.
pub fn metered(random: &mut Stream, options: Options) -> Options {
    let packet = (options.interval / 20).max(1);
    let rate = (12_000_000_000_000 / packet).max(1);
    let mut near = |most: u64| spread(random, (rate / 16).max(1), rate.saturating_mul(16).min(1 << 39)).min(most);
    let slow = near(1 << 39);
    let fast = slow + near(1 << 39);
    let does = |random: &mut Stream| if random.below(3) == 0 { random.below(2) } else { 2 + random.below(64) };
    let actions = std::array::from_fn(|_| does(random));
    // A mark that is decided on when a packet leaves is not given where that is dropped behind it.
    Options {
        meter: 1 + random.below(4),
        meter_exit: if options.marks_late() { 0 } else { random.below(2) },
        meter_aware: random.below(2),
        meter_rates: [slow, fast],
        meter_bursts: [spread(random, 1, 200_000), spread(random, 1, 400_000)],
        meter_window: packet.saturating_mul(spread(random, 1, 1_000)).min(60_000_000_000),
        meter_random: Stream::named(random.next_u64(), "meter").parts(),
        actions,
        ..options
    }
}

/// Adds the options of RAS: rates about as fast as packets come, thresholds that its queue passes, and mostly a meter, its own behind it or
/// that of a marker before it.
pub fn shaping(random: &mut Stream, options: Options) -> Options {
    let packet = (options.interval / 20).max(1);
    let rate = (12_000_000_000_000 / packet).max(1);
    let mut near = || spread(random, (rate / 16).max(1), rate.saturating_mul(16).min(1 << 38));
    let (committed, above, most) = (near(), near(), near());
    let has_peak = random.below(2);
    let peak = committed + has_peak * above;
    let mut threshold = || random.below(4).min(1) * spread(random, 1, 100_000);
    let (first, second, third) = (threshold(), threshold(), threshold());
    let options = Options {
        interval: options.interval.saturating_mul(spread(random, 1, 100)) / 10,
        shaping_rates: [committed, has_peak * peak, peak + random.below(2) * most],
        shaping_bytes: [first, first + second, first + second + third],
        limit_bytes: first + second + third + spread(random, 1, 100_000),
        slack: random.below(2) * random.below(packet * 4),
        green: random.below(2),
        ..options
    };
    match random.below(5) {
        0 => options,
        1 => Options { meter_exit: 0, ..metered(random, options) },
        _ => Options { meter_exit: 2, ..metered(random, options) },
    }
}

/// Adds the options that only WRED and RIO have: curves and random streams for yellow and red.
pub fn coloured(random: &mut Stream, options: Options) -> Options {
    let one = 1 << 32;
    let mut curve = || {
        let unit = if options.in_bytes == 1 { spread(random, 60, 40_000) } else { 1 };
        let min = random.below(20) * unit;
        (min, min + spread(random, 1, 40 * unit), spread(random, 1, one))
    };
    let ((yellow_min, yellow_max, yellow_max_p), (red_min, red_max, red_max_p)) = (curve(), curve());
    let mut more_random = [0; 8];
    for parts in more_random.chunks_exact_mut(4) {
        parts.copy_from_slice(&Stream::named(random.next_u64(), "packets").parts());
    }
    let coupled = random.below(2);
    Options { yellow_min, yellow_max, yellow_max_p, red_min, red_max, red_max_p, more_random, coupled, ..options }
}

/// Adds the options of DualPI2, whose alpha and beta are in another range than those of PIE.
pub fn coupled(random: &mut Stream, options: Options) -> Options {
    let interval = options.interval;
    // Delays of L are of the order of the target, and a step may be a ramp.
    let step_full = spread(random, 1, options.target.max(1).saturating_mul(2));
    let critical = random.below(2) * spread(random, 1, step_full.min(1_000_000_000));
    Options {
        target: options.target.max(1),
        alpha: if random.below(2) == 0 { 160 } else { random.below(100_001) },
        beta: if random.below(2) == 0 { 3_200 } else { random.below(100_001) },
        coupling: if random.below(2) == 0 { 2 } else { 1 + random.below(16) },
        step_from: if random.below(3) == 0 { step_full } else { random.below(step_full + 1) },
        step_full,
        parts: if random.below(3) == 0 { 0 } else { spread(random, 2, 1_000) },
        shift: spread(random, 0, interval * 4),
        nqb: random.below(2),
        critical,
        score: spread(random, 0, critical.saturating_mul(100).min(5_000_000_000)),
        ageing: spread(random, 1, 1_000_000_000),
        ..options
    }
}

/// Adds a step for packets of ECT(1), about as long as packets wait, or none.
pub fn stepped(random: &mut Stream, options: Options) -> Options {
    Options { step_full: random.below(2) * spread(random, 1, options.interval), ..options }
}

/// Numbers of queues of CAKE.
const CAKE_QUEUES: [u64; 4] = [8, 16, 64, 1_024];

/// Adds the options of CAKE, with the law of a queue of these.
pub fn cake(random: &mut Stream, options: Options) -> Options {
    let tins = [Tins::BestEffort, Tins::Diffserv3, Tins::Diffserv4][random.below(3) as usize];
    // Up to a byte a nanosecond: the reference finds the lateness by the depth.
    let rate = Rate::from_bps((random.below(4).min(1)) * spread(random, 100_000, 8_000_000_000));
    let lateness = Span::from_nanos(random.below(2) * random.below(20_000_000));
    Options {
        rate: rate.as_bps(),
        burst: rate.bytes_in_floor(lateness).as_u64(),
        queues: CAKE_QUEUES[random.below(CAKE_QUEUES.len() as u64) as usize],
        overhead: if random.below(4) == 0 { 0_u64.wrapping_sub(random.below(65)) } else { random.below(257) },
        least: random.below(2) * random.below(200),
        framing: random.below(3),
        hosts: random.below(4),
        ack_filter: random.below(2),
        ..stepped(random, options)
    }
    .with_tins(tins)
}

/// A code point, of those that disciplines tell apart more often than others, and bits of congestion.
pub fn service(random: &mut Stream) -> u64 {
    const POINTS: [u64; 8] = [0, 0, 45, 10, 12, 14, 36, 38];
    let dscp = if random.below(8) == 0 { random.below(64) } else { POINTS[random.below(8) as usize] };
    dscp << 2 | random.below(4)
}

/// The traits of a packet of `flow` that matter to CAKE: its service; from bit 8 on whether it is an acknowledgement without data; and in the
/// upper half its packets on the line. Packets of a flow mostly have the same code point, one of the first `points`.
pub fn cake_traits(random: &mut Stream, flow: u64, points: u64) -> u64 {
    const POINTS: [u64; 8] = [46, 0, 8, 34, 1, 48, 16, 10];
    let point = if random.below(40) == 0 { random.below(64) } else { POINTS[(flow % points) as usize] };
    let is_ack = u64::from(flow.is_multiple_of(3) && random.below(3) != 0);
    let segments = if random.below(4) == 0 { random.below(45) } else { 1 };
    point << 2 | random.below(4) | is_ack << 8 | segments << 32
}
