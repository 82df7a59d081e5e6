//! The cases of the suite, in the order of the sections of RFC 9743.

use super::{Bound, Case, Criterion, Values};

/// The line of most cases, in bit/s.
const LINE: f64 = 20e6;
/// The round trip of most cases, in seconds.
const ROUND_TRIP: f64 = 0.04;
/// Bytes of data of a full segment.
const SEGMENT: f64 = 1460.0;
/// Ratios of what a criterion compares.
const ONE: &str = "1";
const BOTTLENECK: &str = "link r->s";

const fn criterion(
    (figure, unit): (&'static str, &'static str),
    section: &'static str,
    of: fn(&Values<'_>) -> Option<f64>,
    bound: Bound,
    reason: &'static str,
) -> Criterion {
    Criterion { figure, unit, section, bound, reason, compares: false, of }
}

const fn compared(
    (figure, unit): (&'static str, &'static str),
    section: &'static str,
    of: fn(&Values<'_>) -> Option<f64>,
    bound: Bound,
    reason: &'static str,
) -> Criterion {
    Criterion { compares: true, ..criterion((figure, unit), section, of, bound, reason) }
}

macro_rules! case {
    ($name:literal, $criteria:expr) => {
        Case { name: $name, template: include_str!(concat!("../../../conform/", $name, ".toml")), criteria: $criteria }
    };
}

/// See [`matrix`](super::matrix).
pub(super) const MATRIX: Case = case!("matrix", &[]);

/// See [`suite`](super::suite).
pub(super) const CASES: &[Case] = &[
    case!(
        "single",
        &[
            criterion(
                ("utilisation", ONE),
                "6.1, 6.3",
                |values| values.get(BOTTLENECK, "utilisation"),
                Bound::AtLeast(0.9),
                "a queue of one bandwidth-delay product lets even a sender that halves its window use the line",
            ),
            criterion(
                ("loss", "%"),
                "5.1.3",
                |values| values.get("flow new", "loss"),
                Bound::AtMost(1.0),
                "a flow alone that loses more than a packet of a hundred for good probes too hard",
            ),
        ]
    ),
    case!(
        "deep-queue",
        &[criterion(
            ("queueing p50", "ns"),
            "5.1.2",
            |values| values.get(BOTTLENECK, "queueing p50"),
            Bound::AtMost(ROUND_TRIP * 1e9),
            "a standing queue longer than the round trip is excessive; of Reno and CUBIC the RFC itself says that they fill it",
        )]
    ),
    case!(
        "outage",
        &[criterion(
            ("packets with data sent in 18 s without any acknowledgement", "packets"),
            "5.1.1, 5.2",
            |values| values.get("flow new", "sent"),
            Bound::AtMost(30.0),
            "a timer of 200 ms that doubles expires seven times in 18 s; QUIC sends two probes each time",
        )]
    ),
    case!(
        "half-lost",
        &[criterion(
            ("packets sent in a round trip", "packets"),
            "5.1.1",
            |values| Some(values.get("flow new", "sent")? / (100.0 / ROUND_TRIP)),
            Bound::AtMost(4.0),
            "at a loss of a half the least windows of the standards (two to four packets, RFC 9002) are the most",
        )]
    ),
    case!(
        "fair",
        &[
            criterion(
                ("fairness (Jain) of four flows", ONE),
                "5.1.4",
                |values| values.get("flow new", "fairness"),
                Bound::AtLeast(0.9),
                "0.9 of four flows is one with half of what the others have",
            ),
            criterion(
                ("loss", "%"),
                "5.1.3",
                |values| values.get("flow new", "loss"),
                Bound::AtMost(2.0),
                "BBRv1 lost packets for good where several flows shared a queue of one bandwidth-delay product",
            ),
        ]
    ),
    case!(
        "short-beside-long",
        &[compared(
            ("completion time of short transfers, over that beside CUBIC", ONE),
            "5.2.3",
            |values| values.over_reference("flow short", "completion p50"),
            Bound::AtMost(1.5),
            "a long flow must not delay short ones much more than CUBIC does",
        )]
    ),
    case!(
        "long-beside-short",
        &[
            compared(
                ("goodput of a long flow of CUBIC, over that beside short ones of CUBIC", ONE),
                "5.2.3",
                |values| values.over_reference("flow long", "goodput"),
                Bound::AtLeast(0.8),
                "short flows must not take much more from a long one than those of CUBIC do",
            ),
            compared(
                ("completion time of short transfers, over that of CUBIC", ONE),
                "5.1.5",
                |values| values.over_reference("flow short", "completion p50"),
                Bound::AtMost(1.5),
                "a control that does not serve short flows is of use to few",
            ),
        ]
    ),
    case!(
        "coexistence",
        &[
            compared(
                ("goodput of CUBIC, over that beside another CUBIC", ONE),
                "5.2.1",
                |values| values.over_reference("flow cubic", "goodput"),
                Bound::AtLeast(0.5),
                "half of the fair share is what flows of one control with different round trips leave each other",
            ),
            criterion(
                ("own part of the line", ONE),
                "5.2",
                |values| Some(values.get("flow new", "goodput")? / LINE),
                Bound::AtLeast(0.1),
                "less is starvation beside the control that most flows have",
            ),
            compared(
                ("loss of CUBIC, above that beside another CUBIC", "%"),
                "5.2",
                |values| values.above_reference("flow cubic", "loss"),
                Bound::AtMost(1.0),
                "harm is loss, too",
            ),
        ]
    ),
    case!(
        "marking-queues",
        &[
            compared(
                ("goodput of CUBIC with ECN, over that beside another CUBIC, the least of CoDel and PIE", ONE),
                "5.2",
                |values| values.least_over_reference("flow cubic", "goodput"),
                Bound::AtLeast(0.5),
                "a control that yields less to a mark than to a loss starves those that RFC 3168 binds (RFC 9331, section 4.3). Scalable \
                 controls do by design: they need DualQ or a queue for each flow",
            ),
            criterion(
                ("own part of the line, the least of CoDel and PIE", ONE),
                "5.2",
                |values| Some(values.least("flow new", "goodput")? / LINE),
                Bound::AtLeast(0.1),
                "less is starvation beside the control that most flows have",
            ),
        ]
    ),
    case!(
        "real-time",
        &[
            compared(
                ("delay p99 of speech, over that beside CUBIC", ONE),
                "5.2.2",
                |values| values.over_reference("flow speech", "delay p99"),
                Bound::AtMost(1.25),
                "a stream that cannot adapt must not wait much longer than beside CUBIC",
            ),
            compared(
                ("loss of speech, above that beside CUBIC", "%"),
                "5.2.2",
                |values| values.above_reference("flow speech", "loss"),
                Bound::AtMost(1.0),
                "codecs hide single lost packets, not many",
            ),
            compared(
                ("goodput of live video, over that beside CUBIC", ONE),
                "5.2.2",
                |values| values.over_reference("flow video", "goodput up"),
                Bound::AtLeast(0.5),
                "a sender that backs off early must not be driven out",
            ),
        ]
    ),
    case!(
        "parking-lot",
        &[criterion(
            ("part of a flow over three bottlenecks", ONE),
            "5.1.4",
            |values| Some(values.get("flow long", "goodput")? / LINE),
            Bound::AtLeast(0.02),
            "proportional fairness gives it a quarter, Reno's law a sixth, and queues that drop in step less: a fiftieth is starvation",
        )]
    ),
    case!(
        "variable-rate",
        &[
            criterion(
                ("utilisation", ONE),
                "7.9",
                |values| values.get(BOTTLENECK, "utilisation"),
                Bound::AtLeast(0.7),
                "most of the rate that comes back must be found within five seconds",
            ),
            criterion(
                ("loss", "%"),
                "5.1.3, 7.9",
                |values| values.get("flow new", "loss"),
                Bound::AtMost(5.0),
                "when three quarters of the rate go, the excess of some round trips is lost, and no more",
            ),
        ]
    ),
    case!(
        "lossy",
        &[criterion(
            ("goodput, over that of Reno's law", ONE),
            "6.4",
            // Mathis et al. 1997: MSS / RTT * 1.22 / sqrt(p), with p = 0.01.
            |values| Some(values.get("flow new", "goodput")? / (SEGMENT * 8.0 / ROUND_TRIP * 1.22 / 0.1)),
            Bound::AtLeast(0.7),
            "losses of the radio must not stop a sender more than they stop Reno",
        )]
    ),
    case!(
        "on-off",
        &[criterion(
            ("utilisation", ONE),
            "7.8",
            |values| values.get(BOTTLENECK, "utilisation"),
            Bound::AtLeast(0.85),
            "what others leave for two seconds must be found in that time",
        )]
    ),
    case!(
        "reverse",
        &[criterion(
            ("part of the line", ONE),
            "6.3",
            |values| Some(values.get("flow new", "goodput")? / LINE),
            Bound::AtLeast(0.5),
            "acknowledgements that wait behind a full queue and come in bursts must not stop the sender",
        )]
    ),
    case!(
        "active-queues",
        &[
            criterion(
                ("utilisation, the least of CoDel, PIE, FQ-CoDel and DualPI2", ONE),
                "7.1",
                |values| values.least(BOTTLENECK, "utilisation"),
                Bound::AtLeast(0.8),
                "early signals must not make a sender leave the line unused",
            ),
            criterion(
                ("queueing p50, the largest of them", "ns"),
                "7.1",
                |values| values.most(BOTTLENECK, "queueing p50"),
                Bound::AtMost(30e6),
                "twice the target of 15 ms that PIE and DualPI2 have: who queues more ignores their signals",
            ),
        ]
    ),
    case!(
        "varying-delay",
        &[criterion(
            ("utilisation", ONE),
            "7.3",
            |values| values.get(BOTTLENECK, "utilisation"),
            Bound::AtLeast(0.7),
            "delay that has other reasons than a queue must not be taken for one",
        )]
    ),
    case!(
        "satellite",
        &[criterion(
            ("utilisation from the second minute on", ONE),
            "7.5",
            |values| values.get(BOTTLENECK, "utilisation"),
            Bound::AtLeast(0.5),
            "a hundred round trips after its start a sender should use half of the line",
        )]
    ),
    case!(
        "reordering",
        &[criterion(
            ("utilisation", ONE),
            "7.7",
            |values| values.get(BOTTLENECK, "utilisation"),
            Bound::AtLeast(0.25),
            "packets that overtake each other by less than the round trip are not lost: loss recovery waits (RFC 8985)",
        )]
    ),
];
