//! The rows of the table of speed: what is measured, beside what, and what it must reach.

use super::peers::Peer;

/// Where our figure of a row comes from.
#[derive(Clone, Copy)]
pub enum Ours {
    /// A case of a benchmark, in ns a packet: package, benchmark, case.
    Case(&'static str, &'static str, &'static str),
    /// A figure of the shaper between two namespaces, flooded or paced.
    Live(Peer, &'static str),
}

/// What our figure is compared with.
#[derive(Clone, Copy)]
pub enum Against {
    /// A figure of a peer, measured in turn with ours.
    Peer(Peer, &'static str),
    /// Another case of the same benchmark.
    Case(&'static str),
    /// Nothing that does the same work.
    Nothing,
}

/// What a row must reach on a quiet machine.
#[derive(Clone, Copy)]
pub enum Aim {
    /// At most this figure.
    AtMost(f64),
    /// At most this part of what it is compared with.
    RatioAtMost(f64),
    /// At least this part of what it is compared with.
    RatioAtLeast(f64),
    /// For comparison only.
    None,
}

/// A row of the table.
pub struct Row {
    pub name: &'static str,
    pub unit: &'static str,
    pub ours: Ours,
    pub against: Against,
    pub aim: Aim,
}

const fn core(bench: &'static str, name: &'static str, case: &'static str, aim: Aim) -> Row {
    Row { name, unit: "ns", ours: Ours::Case("tidegate-core", bench, case), against: Against::Nothing, aim }
}

const fn beside(row: Row, against: Against) -> Row {
    Row { against, ..row }
}

const fn meter(name: &'static str, case: &'static str) -> Row {
    beside(core("conditioning", name, case, Aim::RatioAtMost(1.0)), Against::Peer(Peer::RteMeter, case))
}

const fn replay(name: &'static str, case: &'static str, base: &'static str, most: f64) -> Row {
    let ours = Ours::Case("tidegate-replay", "replay", case);
    Row { name, unit: "ns", ours, against: Against::Case(base), aim: Aim::RatioAtMost(most) }
}

const fn engine(name: &'static str, case: &'static str, most: f64) -> Row {
    let ours = Ours::Case("tidegate-engine", "engine", case);
    Row { name, unit: "ns", ours, against: Against::Nothing, aim: Aim::AtMost(most) }
}

const fn simulator(name: &'static str, bench: &'static str, case: &'static str, peer: Peer) -> Row {
    let ours = Ours::Case("tidegate-sim", bench, case);
    Row { name, unit: "ns", ours, against: Against::Peer(peer, "cpu"), aim: Aim::RatioAtMost(0.1) }
}

const fn live(name: &'static str, unit: &'static str, figure: &'static str, against: Against, aim: Aim) -> Row {
    Row { name, unit, ours: Ours::Live(Peer::Live, figure), against, aim }
}

const fn gap(name: &'static str, figure: &'static str) -> Row {
    let against = Against::Peer(Peer::HtbPaced, figure);
    Row { name, unit: "µs", ours: Ours::Live(Peer::LivePaced, figure), against, aim: Aim::None }
}

const fn share(name: &'static str, figure: &'static str, aim: Aim) -> Row {
    Row { name, unit: "%", ours: Ours::Live(Peer::LivePaced, figure), against: Against::Nothing, aim }
}

const SCHED_4K: Against = Against::Peer(Peer::RteSched(4_096), "packet");
const SCHED_32K: Against = Against::Peer(Peer::RteSched(32_768), "packet");

/// The rows, those of a benchmark together.
pub const ROWS: &[Row] = &[
    core("fbq", "FIFO, in and out", "fifo", Aim::None),
    core("fbq", "FBQ, 64 flows", "fbq Shared/64", Aim::None),
    beside(core("fbq", "FBQ, 4,096 flows", "fbq Shared/4096", Aim::RatioAtMost(0.5)), SCHED_4K),
    beside(core("fbq", "FBQ, 65,536 flows (peer: 32,768)", "fbq Shared/65536", Aim::AtMost(140.0)), SCHED_32K),
    core("fbq", "FBQ, 65,536 flows, batches of 64", "fbq batches/65536", Aim::None),
    core("fbq", "FBQ, 1,000,000 flows", "fbq Shared/1000000", Aim::AtMost(350.0)),
    core("fbq", "FBQ, 1,000,000 flows, batches of 64", "fbq batches/1000000", Aim::AtMost(130.0)),
    core("fbq", "FBQ, 4,096 flows, packets of mixed sizes", "fbq mixed/4096", Aim::None),
    core("fbq", "FBQ, 1,000,000 flows, packets of mixed sizes", "fbq mixed/1000000", Aim::None),
    core("fbq", "FBQ without sharing, 4,096 flows", "fbq Idle/4096", Aim::None),
    core("cbq", "CBQ, 10 classes busy", "all classes busy/10", Aim::AtMost(90.0)),
    core("cbq", "CBQ, 100 classes busy", "all classes busy/100", Aim::AtMost(90.0)),
    core("cbq", "CBQ, 1,000 classes busy", "all classes busy/1000", Aim::AtMost(90.0)),
    beside(
        core("cbq", "CBQ, 10,000 classes busy, to 10", "all classes busy/10000", Aim::RatioAtMost(1.5)),
        Against::Case("all classes busy/10"),
    ),
    core("cbq", "CBQ, depth 8", "depth/8", Aim::AtMost(150.0)),
    meter("srTCM", "srtcm"),
    meter("trTCM", "trtcm"),
    meter("RFC 4115", "rfc4115"),
    core("conditioning", "TSWTCM", "tswtcm", Aim::AtMost(8.0)),
    core("aqm", "DRR, 100,000 flows", "drr/100000", Aim::AtMost(45.0)),
    core("aqm", "SFQ, 100,000 flows", "sfq/100000", Aim::AtMost(45.0)),
    core("aqm", "FQ-CoDel, 100,000 flows", "fq_codel/100000", Aim::AtMost(45.0)),
    core("aqm", "CAKE-like, 100,000 flows", "cake/100000", Aim::AtMost(80.0)),
    core("aqm", "MERED, 100,000 flows", "mered/100000", Aim::AtMost(120.0)),
    core("aqm", "MEREDT, 100,000 flows", "meredt/100000", Aim::AtMost(120.0)),
    core("aqm", "ingress filter, 100,000 flows", "ingress/100000", Aim::AtMost(120.0)),
    core("aqm", "MERED, 1,000,000 flows", "mered/1000000", Aim::AtMost(150.0)),
    core("aqm", "MEREDT, 1,000,000 flows", "meredt/1000000", Aim::AtMost(150.0)),
    core("aqm", "ingress filter, 1,000,000 flows", "ingress/1000000", Aim::AtMost(150.0)),
    engine("engine, 10,000 flows, no statistics", "off/10000", 150.0),
    engine("engine, 10,000 flows, statistics of flows", "flows/10000", 200.0),
    Row {
        against: Against::Case("flows/10000"),
        aim: Aim::None,
        ..engine("one of two shards, 10,000 flows, statistics of flows", "shard/10000", 0.0)
    },
    Row {
        unit: "of one",
        aim: Aim::None,
        ..engine("two shards in two threads, 10,000 flows", "two threads/10000", 0.0)
    },
    Row { unit: "B", ..engine("bytes a flow, 10,000 flows, statistics of flows", "bytes", 256.0) },
    replay("replay through FIFO, to reading", "million/fifo", "million/read", 3.0),
    replay("replay through FBQ, to reading", "million/fbq", "million/read", 3.0),
    replay("replay through CBQ, to reading", "million/cbq", "million/read", 3.0),
    replay("replay through FQ-CoDel, to reading", "million/fq-codel", "million/read", 3.0),
    replay("recording, to the same without", "record/with", "record/without", 1.15),
    simulator("simulator, RFC 2963, a run", "rfc2963", "rfc2963", Peer::Ns2),
    simulator("simulator, 10,000 flows, a run", "scale", "flows/10000", Peer::Ns2Flows(10_000, 4)),
    live("live, 64 B UDP", "packets/s", "udp", Against::Peer(Peer::Htb, "udp"), Aim::RatioAtLeast(0.65)),
    live("live, TCP", "bit/s", "tcp", Against::Peer(Peer::Htb, "tcp"), Aim::RatioAtLeast(1.0)),
    live("live, processor time of a packet", "ns", "cpu", Against::Nothing, Aim::None),
    share("live, 20 Mbit/s in 1,400 B, of a processor", "cpu-20", Aim::AtMost(20.0)),
    share("live, 100 Mbit/s in 1,400 B, of a processor", "cpu-100", Aim::AtMost(20.0)),
    share("live, 500 Mbit/s in 1,400 B, of a processor", "cpu-500", Aim::AtMost(20.0)),
    gap("live, 20 Mbit/s in 1,400 B, error of gaps, 99 %", "gap-20"),
    gap("live, 100 Mbit/s in 1,400 B, error of gaps, 99 %", "gap-100"),
    gap("live, 500 Mbit/s in 1,400 B, error of gaps, 99 %", "gap-500"),
    live("tidegate run, in force", "ms", "start", Against::Nothing, Aim::AtMost(150.0)),
    live("tidegate status", "ms", "status", Against::Nothing, Aim::AtMost(10.0)),
];

/// What keeps rows from their aim, by the beginning of their names.
pub const LIMITS: &[(&str, &str)] = &[
    (
        "FBQ",
        "instructions, not misses: about 910 for a packet in and out with its deadline, at 64 flows as at 65,536, and five misses \
         of the first cache (see below). 680 send it (its buckets 75, its queue and counts 125, the wheel 115, the next flow and its \
         due time 85, the order of the classes and the next opening 110), 200 take it. Packets of mixed sizes take 1,160, and \
         what they take longer is memory: their flows are served in an order in which each line, and with many flows each page, \
         is another one.",
    ),
    (
        "CBQ",
        "instructions: about 1,460 for a packet in and out, with any number of classes, and 2,290 at depth 8, where each class \
         more on the way takes 113: it is charged and found to have no leaf that borrows. A leaf that is over limit takes more: \
         it has a place in the heap of each class that it may borrow from.",
    ),
    (
        "TSWTCM",
        "the estimate of a packet needs that of the packet before, through a multiplication and a division of 128 by 64 bits, \
         which take 6.3 ns alone where the whole takes 7.1 (processor time, in the same minute). The same quotient as a \
         correction of the estimate, a signed division of 64 bits, takes 11.4 where these take 7.0.",
    ),
    (
        "DRR",
        "650 instructions for a packet in and out, of which keeping the queues by size, for the longest, takes 125, a flow that \
         begins and ends with it in the index of flows 120; three misses of the first cache. By valgrind's model 1.5 branches a \
         packet are predicted wrongly, all in that index (3.8 when it was half full, which took a quarter of the time).",
    ),
    (
        "SFQ",
        "540 instructions for a packet in and out, of which keeping the queues by size takes 125. By valgrind's model 2.5 \
         branches a packet are predicted wrongly: with a packet a queue in the mean, which queue is empty is random on arrival, \
         on departure and when its turn comes.",
    ),
    (
        "FQ-CoDel",
        "600 instructions for a packet in and out, of which keeping the queues by size takes 130. By valgrind's model 2.2 \
         branches a packet are predicted wrongly, which is as random as with SFQ.",
    ),
    (
        "CAKE",
        "1,110 instructions for a packet in and out: tins, hosts and flows in turn 360, arrival with a set of eight queues 250, \
         COBALT and the queue 205, keeping the queues by size 125. Each flow here has one packet and hosts of its own: it goes \
         through the new flows, its host and its end, and about five branches of that are predicted wrongly (valgrind's model).",
    ),
    (
        "MERED",
        "760 instructions for a packet in and out (as many with MEREDT), of which the record of the flow takes 530. Its place \
         in the index, the record and the records before and after it in the order of eviction are reads that wait for each \
         other: eight misses of the first cache, two of the last, in valgrind's model, and 4.5 branches predicted wrongly, \
         most of them on what such a read returns, so that little is read ahead. With other programs on the machine, which \
         share its last cache, it takes twice the time.",
    ),
    (
        "ingress filter",
        "830 instructions for a packet in and out; the record of the flow as with MERED: six misses of the first cache, two \
         of the last, in valgrind's model.",
    ),
    (
        "replay",
        "instructions a packet, of which reading takes 980: 2,730 through FIFO, which decides nothing and takes 95 itself, 3,400 \
         through FQ-CoDel, 4,470 through FBQ, 4,680 through CBQ. So 1,650 are the engine and its loop: classifying and the key of \
         the flow 235 (350 with rules), counting what is sent, by class and by flow, 325, the digest and the report 55, the rest \
         of arrival and departure. The disciplines take 775, 1,840 and 2,050, rules included. Reading took 310 more when it looked \
         up hosts a second time; without these all four ratios are larger. And reading finds what \
         it needs in the first cache and decides little: it executes twice as many instructions in a nanosecond as the rest, which \
         has 16 misses of the first cache a packet, by valgrind's model, and 10 wrongly predicted branches with FBQ, since \
         whether a flow or a class has a queue is random at this load.",
    ),
    (
        "recording",
        "730 instructions a packet and six misses of the first cache, by valgrind's model, beside 4,240 and 20 without; 880 before a \
         record was written in its place and the checksum computed by carry-less multiplication. The records of arrival, departure \
         and outcome take 600 of them, the checksum 24. More than half of the packets define their flow again, since two thousand \
         flows share the 1,024 places of a chunk. An aim of 1.15 leaves some 45 ns. Of 140 (`perf record`, busy machine) the \
         records are 55, the kernel's writing 10; 75 are the engine and the reader, which execute about as \
         many instructions as without, and wait longer: the table of flows and the chunk are 450 KB more in the caches.",
    ),
    (
        "simulator, RFC 2963",
        "4.2 thousand million instructions for a run of 4.21 million events and 6.00 million packets and hops: 700 for a \
         packet and hop, in which it waits, is transmitted, counted, lands and finds its way, TCP at both ends included. The \
         loop and forwarding take 20 % of it, links 16, TCP 15, the event queue 12; the rest is rings and indexing within \
         these. Buckets of the event queue of four times the width save 2 % of the instructions and no time.",
    ),
    (
        "simulator, 10,000 flows",
        "2,190 million instructions for 828 thousand packets, which are transmitted 1.80 million times: 1,210 a transmission, where \
         RFC 2963 takes 700. TCP takes 40 % of it, links and forwarding as much, the event queue 9; that flows begin takes 1. TCP has \
         more to do because packets are lost: 770 thousand ranges enter scoreboards and queues out of order. And 14 reads a packet \
         miss the first cache (valgrind's model), most of them where it arrives at its connection: 2 KB for each flow, 20 MB in all, do \
         not fit into the second. At ten instructions a nanosecond, as they are executed here, a tenth of ns-2's time is 990 for a \
         packet, less than TCP takes. ns-2's time is that of its run, without its set-up of 20 s.",
    ),
    (
        "engine",
        "instructions: 2,620 for a packet in and out, 3,090 with statistics; before classes of one priority had one order, 3,660 and \
         4,120. The shaper with ten classes takes 1,510 (its departure 630, its arrival 240, the order of the classes 130, the wheel \
         340, when a class may borrow 70), classifying and hashing 390, the packet table, counters and calls 720, statistics of \
         flows 470. And 23 misses of the first cache, 38 with statistics, at 10,000 flows: 10 of the packet (its metadata 2, its \
         entry of three lines, its node in the shaper of two, classes and counters 3), the others of its flow (its place in the \
         index, three lines of its record as it arrives and as it leaves, those of the flow that is served next, its neighbours in \
         the wheel and among the idle), with statistics 13 more. Reading these ahead, for 32 \
         packets that arrive together and for the packets that leave next, saved 20 of 213 ns, half a per cent of the processor \
         time of a live packet, and is not done any more.",
    ),
    (
        "bytes a flow",
        "a flow with a packet queued is in five places: the record of statistics has 256 bytes, the flow of the shaper 192, its \
         identity in the registry 128, the queued packet 128, its entry in the packet table 192; beside them the places in three \
         indices and in the wheel, and what the engine has without flows. The fields that identify a flow are 80 bytes, and three \
         of the five have them: the record may be older than the packet, the registry is there without statistics, and a packet may \
         be classified again. Without any copy of them 680 bytes would be left: the counts, delays and rates of a flow, its place \
         in the order, and its packet.",
    ),
    (
        "live, 100 Mbit/s",
        "8,900 packets/s at 35 µs each: the thread sleeps before nearly every one of them, without spinning. A sleep takes 14 to 15 µs \
         of processor time in this virtual machine, whether it is of 20 or of 300 µs (`ppoll` without descriptors, alone; 18 \
         after a millisecond; the bench `data_path` measures it), where a `ppoll` that does not sleep takes 0.15: that is 13 % of a \
         processor at this rate. A turn of the loop had 4.7 system calls (`perf stat`, busy machine: 9,200 `ppoll`, 9,000 `recvmmsg`, \
         6,000 reads of the waker, 3,700 `sendto` in 6,000 turns for 10,700 packets, with 5,600 context switches and 171 ms of \
         processor time); the reads of the waker, 0.24 µs each, are not made any more.",
    ),
    (
        "live, 500 Mbit/s",
        "44,600 packets/s at 12.8 µs each. Under a flood, when a thread with work does not sleep, a packet takes 4.9 µs (the row \
         above), and of those the kernel's part alone, 91 % (see the next), would be 20 % of a processor at this rate. In 1.2 s \
         there are 18,300 context switches, at 14 µs of a sleep another 21 % (`perf stat`, busy machine, 36 % in all).",
    ),
    (
        "live, TCP",
        "of the processor time of the shaper, under a flood of small packets, 91 % is the kernel's (`perf record`): 44 % sends the \
         packets, up to the receiver's socket, which with HTB the sender's own call does; 16 % is the rest of the verdicts, 19 % \
         receiving, 9 % waiting. The program takes 9 %. Each packet, with TCP each superpacket, waits until another thread has run.",
    ),
];
