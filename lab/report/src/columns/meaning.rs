//! The meaning of columns, each with its unit, in one place for all tables.

/// The meaning of a column with this name; `None` for a column of somebody else's.
pub(crate) fn meaning(name: &str) -> Option<&'static str> {
    Some(match name {
        "scenario" => "the file of the scenario",
        "file" => "the file that was replayed",
        "configuration" => "the configuration that it was replayed through",
        "seed" => "the seed of the run; runs with the same seed met the same random numbers",
        "kind" => {
            "what the row is: a value of the run, a point of a series over time or of a distribution; in a trace the change of a packet, a \
             connection or a queue"
        }
        "variant" => "the variant of the scenario; empty if it has none",
        "subject" => "the flow, link or class that was measured",
        "point" => "the point of a sweep",
        "measure" => "what was measured of the subject",
        "part" => "the flow or class of the subject, for its share of a measurement; empty for all of it",
        "x" => "the time or the value of a point, in x_unit",
        "x_unit" => "the unit of x: time_s for a time in seconds, value_ns for a value in nanoseconds",
        "value" => "the value, in unit; infinite for a percentile that was not reached",
        "mean" => "the mean over the runs, in unit",
        "half_width_95" => "half the width of the 95 % interval of the mean, in unit",
        "unit" => "the unit of value or mean: bps is bit/s, ns nanoseconds, 1 a number without unit",
        "digest" => "the digest of what the run measured, equal on every machine",
        "flow" => "the name of the flow",
        "class" => "the name of the class",
        "link" => "the link in one direction; empty where a packet has arrived",
        "begun_ns" => "ns: when it began, since the start of the run",
        "size_bytes" => "bytes: its size",
        "completion_ns" => {
            "ns: how long it took or, if it is not finished, how long it had lasted when it was last seen"
        }
        "load_ns" => "ns: how long the page took to load or, if it is not finished, how long it had been loading",
        "finished" => "whether it was completed",
        "aborted" => "whether it was given up, so that it can never be completed",
        "ideal_ns" => "ns: how long it would have taken alone on the line",
        "slowdown" => "1: completion_ns divided by ideal_ns",
        "time_s" => "s: the time since the start of the run",
        "time_ns" => "ns: the time since the start of the run",
        "event" => "what happened to the packet",
        "reason" => "why it was dropped",
        "colour" => "its colour: green, yellow or red",
        "ecn" => "its ECN field",
        "packet" => "the number of the packet; a retransmission is a packet of its own",
        "seq" => "bytes: its sequence number; of datagrams and QUIC the number of the packet",
        "ack" => "bytes: its acknowledgement number",
        "connection" => {
            "the number of the connection in the run of its seed and variant, also of a packet; that of a transfer may carry several, each from \
             begun_ns on"
        }
        "side" => "the end of the connection, of a packet that which sent it: 0 opened it",
        "cwnd_bytes" => "bytes: the congestion window",
        "ssthresh_bytes" => "bytes: the slow start threshold; empty before the first loss",
        "srtt_ns" => "ns: the smoothed round-trip time",
        "rto_ns" => "ns: the retransmission timeout",
        "pipe_bytes" => "bytes: what is in flight",
        "pacing_bps" => "bit/s: the pacing rate; empty where nothing is paced",
        "queue_packets" => "packets in the queue",
        "queue_bytes" => "bytes in the queue",
        "probability" => "1: the probability of dropping or marking",
        "end_s" => "s: the end of the sample, since the start",
        "width_s" => "s: the length of the sample",
        "sent_bytes" => "bytes sent in the sample",
        "sent_packets" => "packets sent in the sample",
        "dropped_packets" => "packets dropped in the sample",
        "marked_packets" => "packets marked in the sample",
        "backlog_packets" => "packets in the queue at the end of the sample",
        "backlog_bytes" => "bytes in the queue at the end of the sample",
        "wait_mean_s" => "s: the mean wait in the queue",
        "wait_p99_s" => "s: the 99th percentile of the wait in the queue",
        _ => return None,
    })
}
