// SPDX-License-Identifier: MIT OR Apache-2.0
// Made from kernel/*.h by `cargo run -p tidegate-translator -- --write`. Changes belong there: `.ci/run` compares.

/// `TWIN_SLOTS` of kernel/queues.h.
pub const SLOTS: u64 = 65536;
/// `TWIN_QUEUES` of kernel/queues.h.
pub const QUEUES: u64 = 4096;
/// `TWIN_MANY_QUEUES` of kernel/queues.h.
pub const MANY_QUEUES: u64 = 65536;
/// `TWIN_SPACE` of kernel/queues.h.
pub const SPACE: u64 = 8192;
/// `TWIN_OWN_NUMBERS` of kernel/options.h.
pub const OWN_NUMBERS: u64 = 16;
/// `TWIN_POINTS` of kernel/options.h.
pub const POINTS: u64 = 16;
/// `TWIN_RECORDS` of kernel/records.h.
pub const RECORDS: u64 = 65536;
/// `TWIN_FBQ_CLASSES` of kernel/classes.h.
pub const FBQ_CLASSES: u64 = 64;
/// `TWIN_FBQ_PROFILES` of kernel/classes.h.
pub const FBQ_PROFILES: u64 = 256;
/// `TWIN_FBQ_PROMISES` of kernel/classes.h.
pub const FBQ_PROMISES: u64 = 256;
/// `TWIN_CBQ_LEAVES` of kernel/tree.h.
pub const CBQ_LEAVES: u64 = 64;
/// `TWIN_CBQ_INNER` of kernel/tree.h.
pub const CBQ_INNER: u64 = 64;
/// `TWIN_LINES` of kernel/chassis.bpf.c.
pub const LINES: u64 = 16;
/// `TWIN_RULES` of kernel/classify.h.
pub const RULES: u64 = 65536;
/// `TWIN_RULE_STEPS` of kernel/classify.h.
pub const RULE_STEPS: u64 = 256;

// `enum twin_kind` of kernel/options.h.
pub const FIFO: u64 = 0;
pub const TBF: u64 = 1;
pub const CODEL: u64 = 2;
pub const RED: u64 = 3;
pub const ARED: u64 = 4;
pub const PIE: u64 = 5;
pub const DRR: u64 = 6;
pub const SFQ: u64 = 7;
pub const FQ_CODEL: u64 = 8;
pub const MERED: u64 = 9;
pub const FQ_PIE: u64 = 10;
pub const DUALPI2: u64 = 11;
pub const WRED: u64 = 12;
pub const RIO: u64 = 13;
pub const INGRESS: u64 = 14;
pub const RAS: u64 = 15;
pub const KINDS: u64 = 16;
pub const FBQ: u64 = 16;
pub const OWN: u64 = 17;
pub const CBQ: u64 = 18;
pub const CAKE: u64 = 19;

/// `struct twin_options` of kernel/options.h, which describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    pub kind: u64,
    pub limit_packets: u64,
    pub limit_bytes: u64,
    pub rate: u64,
    pub burst: u64,
    pub target: u64,
    pub interval: u64,
    pub mtu: u64,
    pub longest: u64,
    pub marks: u64,
    pub min: u64,
    pub max: u64,
    pub in_bytes: u64,
    pub max_p: u64,
    pub weight: u64,
    pub above_max: u64,
    pub spacing: u64,
    pub idle_packet: u64,
    pub mean: u64,
    pub allowance: u64,
    pub alpha: u64,
    pub beta: u64,
    pub least_queue_mean: u64,
    pub most_marked: u64,
    pub quantum: u64,
    pub queues: u64,
    pub perturb: u64,
    pub seed: u64,
    pub random: [u64; 4],
    pub longest_mouse: u64,
    pub counts_packets: u64,
    pub by_pair: u64,
    pub records: u64,
    pub idle: u64,
    pub pair_threshold: u64,
    pub pair_rate: u64,
    pub elephant_limit: u64,
    pub floor: u64,
    pub floor_credit: u64,
    pub points: u64,
    pub values: [u64; 16],
    pub fairness: u64,
    pub coupling: u64,
    pub step_from: u64,
    pub step_full: u64,
    pub parts: u64,
    pub shift: u64,
    pub nqb: u64,
    pub critical: u64,
    pub score: u64,
    pub ageing: u64,
    pub yellow_min: u64,
    pub yellow_max: u64,
    pub yellow_max_p: u64,
    pub red_min: u64,
    pub red_max: u64,
    pub red_max_p: u64,
    pub more_random: [u64; 8],
    pub coupled: u64,
    pub shaping_rates: [u64; 3],
    pub shaping_bytes: [u64; 3],
    pub slack: u64,
    pub green: u64,
    pub meter: u64,
    pub meter_exit: u64,
    pub meter_aware: u64,
    pub meter_rates: [u64; 2],
    pub meter_bursts: [u64; 2],
    pub meter_window: u64,
    pub meter_random: [u64; 4],
    pub actions: [u64; 3],
    pub own: [u64; 16],
    pub overhead: u64,
    pub least: u64,
    pub framing: u64,
    pub tins: u64,
    pub tin: [u64; 4],
    pub tin_of: [u64; 2],
    pub hosts: u64,
    pub ack_filter: u64,
    pub account: u64,
    pub rules: u64,
    pub changes: u64,
}

impl Options {
    /// How many numbers they are.
    pub const NUMBERS: usize = 138;

    /// The numbers in their order.
    pub fn numbers(&self) -> [u64; Self::NUMBERS] {
        let Self {
            kind, limit_packets, limit_bytes, rate, burst,
            target, interval, mtu, longest, marks,
            min, max, in_bytes, max_p, weight,
            above_max, spacing, idle_packet, mean, allowance,
            alpha, beta, least_queue_mean, most_marked, quantum,
            queues, perturb, seed, random: [random_0, random_1, random_2, random_3], longest_mouse,
            counts_packets, by_pair, records, idle, pair_threshold,
            pair_rate, elephant_limit, floor, floor_credit, points,
            values: [values_0, values_1, values_2, values_3, values_4, values_5, values_6, values_7, values_8, values_9, values_10, values_11, values_12, values_13, values_14, values_15], fairness, coupling, step_from, step_full,
            parts, shift, nqb, critical, score,
            ageing, yellow_min, yellow_max, yellow_max_p, red_min,
            red_max, red_max_p, more_random: [more_random_0, more_random_1, more_random_2, more_random_3, more_random_4, more_random_5, more_random_6, more_random_7], coupled, shaping_rates: [shaping_rates_0, shaping_rates_1, shaping_rates_2],
            shaping_bytes: [shaping_bytes_0, shaping_bytes_1, shaping_bytes_2], slack, green, meter, meter_exit,
            meter_aware, meter_rates: [meter_rates_0, meter_rates_1], meter_bursts: [meter_bursts_0, meter_bursts_1], meter_window, meter_random: [meter_random_0, meter_random_1, meter_random_2, meter_random_3],
            actions: [actions_0, actions_1, actions_2], own: [own_0, own_1, own_2, own_3, own_4, own_5, own_6, own_7, own_8, own_9, own_10, own_11, own_12, own_13, own_14, own_15], overhead, least, framing,
            tins, tin: [tin_0, tin_1, tin_2, tin_3], tin_of: [tin_of_0, tin_of_1], hosts, ack_filter,
            account, rules, changes,
        } = *self;
        [
            kind, limit_packets, limit_bytes, rate, burst,
            target, interval, mtu, longest, marks,
            min, max, in_bytes, max_p, weight,
            above_max, spacing, idle_packet, mean, allowance,
            alpha, beta, least_queue_mean, most_marked, quantum,
            queues, perturb, seed, random_0, random_1,
            random_2, random_3, longest_mouse, counts_packets, by_pair,
            records, idle, pair_threshold, pair_rate, elephant_limit,
            floor, floor_credit, points, values_0, values_1,
            values_2, values_3, values_4, values_5, values_6,
            values_7, values_8, values_9, values_10, values_11,
            values_12, values_13, values_14, values_15, fairness,
            coupling, step_from, step_full, parts, shift,
            nqb, critical, score, ageing, yellow_min,
            yellow_max, yellow_max_p, red_min, red_max, red_max_p,
            more_random_0, more_random_1, more_random_2, more_random_3, more_random_4,
            more_random_5, more_random_6, more_random_7, coupled, shaping_rates_0,
            shaping_rates_1, shaping_rates_2, shaping_bytes_0, shaping_bytes_1, shaping_bytes_2,
            slack, green, meter, meter_exit, meter_aware,
            meter_rates_0, meter_rates_1, meter_bursts_0, meter_bursts_1, meter_window,
            meter_random_0, meter_random_1, meter_random_2, meter_random_3, actions_0,
            actions_1, actions_2, own_0, own_1, own_2,
            own_3, own_4, own_5, own_6, own_7,
            own_8, own_9, own_10, own_11, own_12,
            own_13, own_14, own_15, overhead, least,
            framing, tins, tin_0, tin_1, tin_2,
            tin_3, tin_of_0, tin_of_1, hosts, ack_filter,
            account, rules, changes,
        ]
    }
    /// Options of numbers in their order.
    pub fn of_numbers(numbers: [u64; Self::NUMBERS]) -> Self {
        let [
            kind, limit_packets, limit_bytes, rate, burst,
            target, interval, mtu, longest, marks,
            min, max, in_bytes, max_p, weight,
            above_max, spacing, idle_packet, mean, allowance,
            alpha, beta, least_queue_mean, most_marked, quantum,
            queues, perturb, seed, random_0, random_1,
            random_2, random_3, longest_mouse, counts_packets, by_pair,
            records, idle, pair_threshold, pair_rate, elephant_limit,
            floor, floor_credit, points, values_0, values_1,
            values_2, values_3, values_4, values_5, values_6,
            values_7, values_8, values_9, values_10, values_11,
            values_12, values_13, values_14, values_15, fairness,
            coupling, step_from, step_full, parts, shift,
            nqb, critical, score, ageing, yellow_min,
            yellow_max, yellow_max_p, red_min, red_max, red_max_p,
            more_random_0, more_random_1, more_random_2, more_random_3, more_random_4,
            more_random_5, more_random_6, more_random_7, coupled, shaping_rates_0,
            shaping_rates_1, shaping_rates_2, shaping_bytes_0, shaping_bytes_1, shaping_bytes_2,
            slack, green, meter, meter_exit, meter_aware,
            meter_rates_0, meter_rates_1, meter_bursts_0, meter_bursts_1, meter_window,
            meter_random_0, meter_random_1, meter_random_2, meter_random_3, actions_0,
            actions_1, actions_2, own_0, own_1, own_2,
            own_3, own_4, own_5, own_6, own_7,
            own_8, own_9, own_10, own_11, own_12,
            own_13, own_14, own_15, overhead, least,
            framing, tins, tin_0, tin_1, tin_2,
            tin_3, tin_of_0, tin_of_1, hosts, ack_filter,
            account, rules, changes,
        ] = numbers;
        Self {
            kind, limit_packets, limit_bytes, rate, burst,
            target, interval, mtu, longest, marks,
            min, max, in_bytes, max_p, weight,
            above_max, spacing, idle_packet, mean, allowance,
            alpha, beta, least_queue_mean, most_marked, quantum,
            queues, perturb, seed, random: [random_0, random_1, random_2, random_3], longest_mouse,
            counts_packets, by_pair, records, idle, pair_threshold,
            pair_rate, elephant_limit, floor, floor_credit, points,
            values: [values_0, values_1, values_2, values_3, values_4, values_5, values_6, values_7, values_8, values_9, values_10, values_11, values_12, values_13, values_14, values_15], fairness, coupling, step_from, step_full,
            parts, shift, nqb, critical, score,
            ageing, yellow_min, yellow_max, yellow_max_p, red_min,
            red_max, red_max_p, more_random: [more_random_0, more_random_1, more_random_2, more_random_3, more_random_4, more_random_5, more_random_6, more_random_7], coupled, shaping_rates: [shaping_rates_0, shaping_rates_1, shaping_rates_2],
            shaping_bytes: [shaping_bytes_0, shaping_bytes_1, shaping_bytes_2], slack, green, meter, meter_exit,
            meter_aware, meter_rates: [meter_rates_0, meter_rates_1], meter_bursts: [meter_bursts_0, meter_bursts_1], meter_window, meter_random: [meter_random_0, meter_random_1, meter_random_2, meter_random_3],
            actions: [actions_0, actions_1, actions_2], own: [own_0, own_1, own_2, own_3, own_4, own_5, own_6, own_7, own_8, own_9, own_10, own_11, own_12, own_13, own_14, own_15], overhead, least, framing,
            tins, tin: [tin_0, tin_1, tin_2, tin_3], tin_of: [tin_of_0, tin_of_1], hosts, ack_filter,
            account, rules, changes,
        }
    }
}

/// Words of `struct twin_link` of kernel/chassis.bpf.c.
pub mod link {
    pub const FROM_NETWORK: usize = 0;
    pub const OVERHEAD: usize = 1;
    pub const UNTIL: usize = 2;
    pub const HANDS_OVER: usize = 3;
    pub const LINES: usize = 4;
    /// The words of the struct.
    pub const WORDS: usize = 20;
}

/// Words of `struct twin_marks` of kernel/marks.h.
pub mod marks {
    pub const DEVICE: usize = 0;
    pub const RETURNS: usize = 1;
    pub const DSCP: usize = 2;
    /// The words of the struct.
    pub const WORDS: usize = 66;
}

/// Words of `struct twin_advice` of kernel/advice.h.
pub mod advice {
    pub const CLASSES: usize = 0;
    pub const FLOWS: usize = 64;
    /// The words of the struct.
    pub const WORDS: usize = 4160;
}

/// Words of `struct twin_counters` of kernel/chassis.bpf.c.
pub mod counters {
    pub const ARRIVED_PACKETS: usize = 0;
    pub const ARRIVED_BYTES: usize = 1;
    pub const SENT_PACKETS: usize = 2;
    pub const SENT_BYTES: usize = 3;
    pub const DROPPED: usize = 4;
    pub const MOVED_IN_PACKETS: usize = 26;
    pub const MOVED_IN_BYTES: usize = 27;
    pub const MOVED_OUT_PACKETS: usize = 28;
    pub const MOVED_OUT_BYTES: usize = 29;
    pub const QUEUED_PACKETS: usize = 30;
    pub const QUEUED_BYTES: usize = 31;
    pub const EMPTIED: usize = 32;
    pub const OVERHEAD_BYTES: usize = 33;
    pub const V4_PACKETS: usize = 34;
    pub const V6_PACKETS: usize = 35;
    pub const MARKED_PACKETS: usize = 36;
    pub const REMARKED_PACKETS: usize = 37;
    pub const ADVISED_PACKETS: usize = 38;
    pub const LONGEST: usize = 39;
    pub const WAITS: usize = 40;
    /// The words of the struct.
    pub const WORDS: usize = 148;
}

/// Words of `struct twin_fbq_options` of kernel/classes.h.
pub mod fbq_options {
    pub const RATE: usize = 0;
    pub const BURST: usize = 1;
    pub const IDLE_TIMEOUT: usize = 2;
    pub const FLOWS: usize = 3;
    pub const CATCH_UP: usize = 4;
    pub const CLASSES: usize = 5;
    pub const PROFILES: usize = 6;
    pub const STRUCTURE: usize = 7;
    pub const DEFAULT_CLASS: usize = 8;
    pub const CONDITIONS: usize = 9;
    pub const FAIR_BY: usize = 10;
    /// The words of the struct.
    pub const WORDS: usize = 11;
}

/// Words of `struct twin_fbq_class_options` of kernel/classes.h.
pub mod fbq_class_options {
    pub const ACCOUNT: usize = 0;
    pub const RATE: usize = 1;
    pub const BURST: usize = 2;
    pub const FLOW_BURST: usize = 3;
    pub const PRIORITY: usize = 4;
    pub const BORROWS: usize = 5;
    pub const LIMIT: usize = 6;
    pub const FLOW_LIMIT: usize = 7;
    pub const STRICT: usize = 8;
    pub const INCREMENT: usize = 9;
    pub const MOST: usize = 10;
    pub const MOST_BURST: usize = 11;
    pub const HOST_MOST: usize = 12;
    pub const HOST_MOST_BURST: usize = 13;
    pub const FLOW_MOST: usize = 14;
    pub const FLOW_MOST_BURST: usize = 15;
    pub const INSIDE: usize = 16;
    pub const FEEDBACK_ABOVE: usize = 17;
    pub const FEEDBACK_BELOW: usize = 18;
    pub const FEEDBACK_MARKS: usize = 19;
    pub const STEP: usize = 20;
    /// The words of the struct.
    pub const WORDS: usize = 21;
}

/// Words of `struct twin_fbq_profile` of kernel/classes.h.
pub mod fbq_profile {
    pub const WEIGHT: usize = 0;
    pub const MINIMUM: usize = 1;
    pub const BELOW: usize = 2;
    pub const TO: usize = 3;
    pub const MOST: usize = 4;
    pub const MOST_BURST: usize = 5;
    /// The words of the struct.
    pub const WORDS: usize = 6;
}

/// Words of `struct twin_fbq_promise` of kernel/classes.h.
pub mod fbq_promise {
    pub const NUMBER: usize = 0;
    pub const CLASS: usize = 1;
    pub const MINIMUM: usize = 2;
    pub const FLOWS: usize = 3;
    pub const STEPS: usize = 4;
    pub const BELOW: usize = 5;
    pub const TO: usize = 6;
    /// The words of the struct.
    pub const WORDS: usize = 7;
}

/// Words of `struct twin_cbq_options` of kernel/tree.h.
pub mod cbq_options {
    pub const LINK: usize = 0;
    pub const MTU: usize = 1;
    pub const SHARING: usize = 2;
    pub const BY_PACKETS: usize = 3;
    pub const GAIN: usize = 4;
    pub const FROM_ZERO: usize = 5;
    pub const EXPECTED: usize = 6;
    pub const SLEEPS: usize = 7;
    pub const CONSERVING: usize = 8;
    pub const RESETS: usize = 9;
    pub const CLOCK_LEAD: usize = 10;
    pub const LEAD: usize = 11;
    pub const CATCH_UP: usize = 12;
    pub const FALLBACK: usize = 13;
    pub const LEAVES: usize = 14;
    pub const INNER: usize = 15;
    /// The words of the struct.
    pub const WORDS: usize = 16;
}

/// Words of `struct twin_cbq_class_options` of kernel/tree.h.
pub mod cbq_class_options {
    pub const PARENT: usize = 0;
    pub const LEVEL: usize = 1;
    pub const BORROWS: usize = 2;
    pub const PRIORITY: usize = 3;
    pub const POSITION: usize = 4;
    pub const RATE: usize = 5;
    pub const WHOLE_LINK: usize = 6;
    pub const MAX_IDLE: usize = 7;
    pub const MIN_IDLE: usize = 8;
    pub const OFF_TIME: usize = 9;
    pub const DEPTH_HIGH: usize = 10;
    pub const DEPTH: usize = 11;
    pub const RESUME_HIGH: usize = 12;
    pub const RESUME: usize = 13;
    /// The words of the struct.
    pub const WORDS: usize = 14;
}
