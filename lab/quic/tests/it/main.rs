//! QUIC in scenarios: what is transferred, repaired, marked and shared.

use std::time::Instant;

use tidegate_config::{Diagnostics, Source, record};
use tidegate_sim::scenario::congestion::{self, Kind};
use tidegate_sim::scenario::{Outcome, Scenario};
use tidegate_sim::tcp::{CongestionControl, Reno};
use tidegate_sim::trace::Selection;

/// One line of 20 Mbit/s and 20 ms between two hosts, with `queue` and `flows`.
fn line(queue: &str, flows: &str) -> String {
    format!(
        "version = 1\nduration = \"20s\"\nhosts = [\"a\", \"b\"]\n\
         [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"20mbit\"\ndelay = \"10ms\"\nwatch = true\n{queue}\n{flows}"
    )
}

fn flow(name: &str, transport: &str, workload: &str) -> String {
    format!("[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\n{transport}\nworkload = {workload}\n")
}

fn load(text: &str) -> Result<Scenario, String> {
    tidegate_quic::register(Instant::now());
    let (source, mut diagnostics) = (Source::new("test.toml", text), Diagnostics::new());
    Scenario::load(&source, None, &mut diagnostics).ok_or_else(|| diagnostics.render(&source))
}

fn run(text: &str, seed: u64) -> Outcome {
    load(text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}")).run(seed, |_| ())
}

fn value(outcome: &Outcome, subject: &str, measure: &str) -> f64 {
    let found = outcome.values.iter().find(|value| value.subject == subject && value.measure == measure);
    let known =
        || outcome.values.iter().map(|value| format!("{} {}", value.subject, value.measure)).collect::<Vec<_>>();
    found.unwrap_or_else(|| panic!("{measure} of {subject}; there are {:?}", known())).value
}

/// Windows of QUIC and its use of L4S count in what is warned of as those of TCP do.
#[test]
fn warnings_are_of_quic_too() {
    let warnings = |queue: &str, flows: &str| {
        tidegate_quic::register(Instant::now());
        let (source, mut found) = (Source::new("test.toml", line(queue, flows)), Diagnostics::new());
        assert!(Scenario::load(&source, None, &mut found).is_some());
        found.render(&source)
    };
    let window = |size: &str| {
        let transport = format!("transport = {{ kind = \"quic\", window = \"{size}\" }}");
        warnings("queue = { kind = \"codel\" }", &flow("x", &transport, BULK))
    };
    // 20 Mbit/s over 20 ms are 50 kB.
    let said = window("20kB");
    assert!(said.contains("the windows of the flows through the link a->b allow") && said.contains("quic"), "{said}");
    assert_eq!(window("1250kB"), "");
    for (control, ecn, expected) in [
        ("prague", "true", "has Prague with the ECN of others"),
        ("prague", "false", "has Prague without ECN, which is Reno"),
        ("quinn-cubic", "\"l4s\"", "asks for the low latency of L4S and is not scalable"),
        ("bbr", "\"l4s\"", "asks for the low latency of L4S and is not scalable"),
    ] {
        let of = flow("x", &format!("{}\necn = {ecn}", with(control)), BULK);
        let said = warnings("queue = { kind = \"dualpi2\" }", &of);
        assert!(said.contains(expected), "{control} {ecn}: {said}");
    }
    CONTROLS.iter().filter(|control| **control != "dctcp").for_each(|control| {
        assert_eq!(warnings("queue = { kind = \"dualpi2\" }", &flow("x", &with(control), BULK)), "", "{control}");
    });
    let both = flow("p", &with("prague"), BULK) + &flow("c", "tcp = { congestion = \"cubic\" }", BULK);
    assert!(warnings("queue = { kind = \"codel\" }", &both).contains("flows of L4S and others share the one queue"));
}

const FIFO: &str = "queue = { kind = \"fifo\", limit = \"50kB\" }";
const BULK: &str = "{ kind = \"bulk\" }";
const QUIC: &str = "transport = \"quic\"";

/// QUIC with a congestion control.
fn with(control: &str) -> String {
    format!("transport = {{ kind = \"quic\", congestion = \"{control}\" }}")
}

/// The controls of quinn, and those of the simulator.
const CONTROLS: [&str; 7] = ["quinn-cubic", "quinn-newreno", "reno", "cubic", "dctcp", "prague", "bbr"];

#[test]
fn a_transfer_arrives_in_full() {
    let outcome = run(&line(FIFO, &flow("x", QUIC, "{ kind = \"bulk\", bytes = \"5MB\" }")), 1);
    let measured = |measure| value(&outcome, "flow x", measure);
    assert_eq!((measured("completed"), measured("failed"), measured("timeouts")), (1.0, 0.0, 0.0));
    // Each byte counts once, whatever was sent again.
    assert_eq!(measured("goodput") * 20.0 / 8.0, 5e6);
    // A round trip of 20 ms, and the transmission of two datagrams of 1200 B and of the server's certificates.
    assert!((21e6..24e6).contains(&measured("connect mean")), "{}", measured("connect mean"));
    assert!(measured("slowdown mean") < 1.2);
}

/// Packets that the queue drops are sent again, and every control uses the line.
#[test]
fn each_control_fills_the_line_and_repairs_losses() {
    for control in CONTROLS {
        let outcome = run(&line(FIFO, &flow("x", &with(control), BULK)), 1);
        let measured = |measure| value(&outcome, "flow x", measure);
        assert!(measured("goodput") > 18.5e6, "{control}: {}", measured("goodput"));
        let (dropped, again) = (measured("dropped"), measured("retransmitted"));
        assert!(
            dropped > 10.0 && again >= dropped - 5.0 && again < 1.5 * dropped + 10.0,
            "{control}: {dropped}, {again}"
        );
        // 50 kB take 20 ms.
        assert!(measured("delay p99") < 32e6, "{control}: {}", measured("delay p99"));
    }
}

#[test]
fn losses_of_the_line_are_repaired() {
    let lossy = FIFO.replace("queue =", "loss = \"2%\"\nqueue =");
    for control in CONTROLS {
        let outcome = run(&line(&lossy, &flow("x", &with(control), "{ kind = \"bulk\", bytes = \"2MB\" }")), 1);
        let measured = |measure| value(&outcome, "flow x", measure);
        assert_eq!(measured("completed"), 1.0, "{control}");
        assert_eq!(measured("goodput") * 20.0 / 8.0, 2e6, "{control}");
    }
}

#[test]
fn marks_are_seen_and_replace_drops() {
    let codel = "queue = { kind = \"codel\" }";
    for control in CONTROLS.into_iter().filter(|control| !["dctcp", "prague", "bbr"].contains(control)) {
        let outcome = run(&line(codel, &flow("x", &with(control), BULK)), 1);
        let measured = |measure| value(&outcome, "flow x", measure);
        assert!(measured("marked") > 10.0 && measured("dropped") == 0.0, "{control}");
        assert!(measured("goodput") > 14e6, "{control}: {}", measured("goodput"));
        // Without a response to marks the queue of 1 MB would fill: 400 ms. Slow start overshoots before CoDel's first mark.
        assert!(measured("delay p50") < 20e6 && measured("delay p99") < 150e6, "{control}: {}", measured("delay p99"));
    }
    let outcome = run(&line(codel, &flow("x", "transport = \"quic\"\necn = false", BULK)), 1);
    assert_eq!(value(&outcome, "flow x", "marked"), 0.0);
    assert!(value(&outcome, "flow x", "dropped") > 10.0);
}

/// Prague reads the counts of marks that QUIC's acknowledgements carry, and sends ECT(1).
#[test]
fn prague_has_a_short_queue() {
    let marks = "queue = { kind = \"dualpi2\", protection = false }";
    let outcome = run(&line(marks, &flow("x", &with("prague"), BULK)), 1);
    let measured = |measure| value(&outcome, "flow x", measure);
    assert!(measured("goodput") > 18e6 && measured("marked") > 500.0, "{}", measured("goodput"));
    // 10 ms of line, 0.6 ms of transmission, and about 1 ms of queue.
    assert!(measured("delay p50") < 12e6, "{}", measured("delay p50"));
    let classic = format!("{}\necn = true", with("prague"));
    let outcome = run(&line(marks, &flow("x", &classic, BULK)), 1);
    assert!(value(&outcome, "flow x", "delay p50") > 15e6, "ECT(0) is for the other queue");
}

/// Two flows that begin within 200 ms, for a minute of which the first 10 s are not measured.
fn two(queue: &str, one: &str, other: &str) -> String {
    let flows = [("one", one), ("other", other)]
        .map(|(name, transport)| flow(name, &format!("jitter = \"200ms\"\n{transport}"), BULK));
    line(queue, &flows.concat()).replace("\"20s\"", "\"60s\"\nwarm-up = \"10s\"")
}

/// The rate of one flow over that of the other.
fn ratio(text: &str, seed: u64) -> f64 {
    let outcome = run(text, seed);
    value(&outcome, "flow one", "goodput") / value(&outcome, "flow other", "goodput")
}

/// Controls of one kind share a queue about evenly, whoever wrote them, over QUIC and beside TCP.
#[test]
fn quic_beside_tcp_at_one_bottleneck() {
    let cubic =
        "tcp = { congestion = \"cubic\", recovery = \"rack\", prr = true, hystart = true, min-rto = \"200ms\" }";
    let reno = "tcp = { congestion = \"reno\", recovery = \"rack\", prr = true, min-rto = \"200ms\" }";
    for (one, other) in [
        (QUIC, cubic),
        (&*with("cubic"), cubic),
        (QUIC, &*with("cubic")),
        (&*with("quinn-newreno"), reno),
        (&*with("reno"), &*with("quinn-newreno")),
    ] {
        // 1.5 times what the path holds.
        let text = two("queue = { kind = \"fifo\", limit = \"75kB\" }", one, other);
        let ratios: Vec<f64> = (1..=3).map(|seed| ratio(&text, seed)).collect();
        println!("{one} / {other}: {ratios:.2?}");
        assert!(ratios.iter().all(|ratio| (0.5..=2.0).contains(ratio)), "{one} / {other}: {ratios:.2?}");
    }
}

/// Prague is the same over both. A sender that grows for marked packets, too, or is paced without its headers, or keeps one packet less in
/// flight than its window would have a third more or less.
#[test]
fn prague_over_quic_and_over_tcp_share_evenly() {
    let queue = "queue = { kind = \"dualpi2\", protection = false }";
    let text = two(queue, &with("prague"), "tcp = { congestion = \"prague\" }");
    let text = text.replace("20mbit", "40mbit").replace("\"10ms\"", "\"20ms\"").replace("\"60s\"", "\"30s\"");
    let ratios: Vec<f64> = (1..=2).map(|seed| ratio(&text, seed)).collect();
    assert!(ratios.iter().all(|ratio| (0.85..=1.18).contains(ratio)), "{ratios:.2?}");
}

/// The workloads of connections: requests and answers, pages, downloads, data at a rate, and one that stops.
#[test]
fn every_workload_of_connections_runs() {
    let answered = |workload: &str, least: f64| {
        let outcome = run(&line(FIFO, &flow("x", QUIC, workload)), 1);
        let measured = |measure| value(&outcome, "flow x", measure);
        let (completed, failed) = (measured("completed"), measured("failed"));
        assert!(completed >= least && failed == 0.0, "{workload}: {completed}, {failed}");
    };
    answered(
        "{ kind = \"requests\", request = { kind = \"constant\", value = \"200B\" }, response = { kind = \"constant\", value = \"50kB\" }, think = { kind = \"constant\", value = \"100ms\" } }",
        100.0,
    );
    answered("{ kind = \"web\" }", 1.0);
    answered("{ kind = \"mice\", per-second = 10, size = { kind = \"constant\", value = \"20kB\" } }", 150.0);
    answered(
        "{ kind = \"mice\", per-second = 10, size = { kind = \"constant\", value = \"20kB\" }, direction = \"download\" }",
        150.0,
    );
    let stream = flow("x", QUIC, "{ kind = \"constant\", rate = \"2mbit\", packet = \"1000B\" }");
    let outcome = run(&line(FIFO, &stream), 1);
    let goodput = value(&outcome, "flow x", "goodput");
    assert!((1.95e6..2.01e6).contains(&goodput), "{goodput}");
    let stopped = flow("x", &format!("{QUIC}\nstop = \"5s\""), BULK);
    let outcome = run(&line(FIFO, &stopped), 1);
    let goodput = value(&outcome, "flow x", "goodput") * 20.0 / 5.0;
    assert!((17e6..20e6).contains(&goodput), "a flow that stops sends nothing any more: {goodput}");
}

/// The digest of a run with a control of the simulator is the same on every machine. Those of quinn's are the same whenever
/// they run, but compute with the mathematics of the platform.
#[test]
fn the_same_seed_has_the_same_digest() {
    let digest = |control: &str, seed| {
        let queue = "loss = \"0.5%\"\nqueue = { kind = \"dualpi2\" }";
        let flows =
            flow("x", &with(control), BULK) + &flow("y", "jitter = \"1s\"\ntransport = \"quic\"", "{ kind = \"web\" }");
        run(&line(queue, &flows).replace("\"20s\"", "\"5s\""), seed).digest.to_string()
    };
    for control in CONTROLS {
        assert_eq!(digest(control, 1), digest(control, 1), "{control}");
        assert_ne!(digest(control, 1), digest(control, 2), "{control}");
    }
    let alone = run(&line(FIFO, &flow("x", &with("cubic"), BULK)), 1);
    assert_eq!(
        alone.digest.to_string(),
        "253f7b90ba3fd6186199243efb300b64",
        "a change of results belongs into the changelog"
    );
}

#[test]
fn what_cannot_be_is_refused_with_its_remedy() {
    let refused =
        |transport: &str, workload: &str| load(&line(FIFO, &flow("x", transport, workload))).expect_err("refused");
    assert!(refused("transport = \"quik\"", BULK).contains("did you mean `quic`?"));
    assert!(refused("transport = { kind = \"quic\", congestion = \"quinn\" }", BULK).contains("quinn-cubic"));
    let bbr = refused("transport = { kind = \"quic\", congestion = \"quinn-bbr\" }", BULK);
    assert!(bbr.contains("no run could be repeated") && bbr.contains("write \"bbr\""), "{bbr}");
    assert!(refused("transport = { kind = \"quic\", datagram = \"1100B\" }", BULK).contains("1200 B to 65527 B"));
    assert!(refused("transport = \"quic\"\ntcp.mss = \"1000B\"", BULK).contains("not over TCP"));
    assert!(refused(QUIC, "{ kind = \"call\" }").contains("needs datagrams"));
}

record! {
    /// Reno that begins with more.
    struct Bold as "bold control" {
        /// Times the usual initial window. Default 2.
        times: u64 = 2,
    }
}

record! {
    /// Reno, without settings.
    struct Plain as "plain control" {}
}

record! {
    /// Reno that begins with four packets, without settings.
    struct Timid as "timid control" {}
}

impl Kind for Bold {
    const KIND: &'static str = "bold";
    fn make(&self, mss: u64, initial: u64) -> Box<dyn CongestionControl> {
        Box::new(Reno::new(mss, self.times * initial))
    }
}

impl Kind for Plain {
    const KIND: &'static str = "plain";
    fn make(&self, mss: u64, initial: u64) -> Box<dyn CongestionControl> {
        Box::new(Reno::new(mss, initial))
    }
}

impl Kind for Timid {
    const KIND: &'static str = "timid";
    fn make(&self, mss: u64, _initial: u64) -> Box<dyn CongestionControl> {
        Box::new(Reno::new(mss, 4 * mss))
    }
}

#[test]
fn controls_of_one_process_are_told_apart() {
    congestion::register::<Bold>();
    congestion::register::<Plain>();
    congestion::register::<Timid>();
    let time = |control: &str| {
        let transport = format!("transport = {{ kind = \"quic\", congestion = {{ {control} }} }}");
        value(
            &run(&line(FIFO, &flow("x", &transport, "{ kind = \"bulk\", bytes = \"100kB\" }")), 1),
            "flow x",
            "slowdown mean",
        )
    };
    let controls = ["kind = \"timid\"", "kind = \"plain\"", "kind = \"bold\"", "kind = \"bold\", times = 4"];
    let times = controls.map(time);
    assert!(times.is_sorted_by(|slower, faster| slower > faster), "{times:?}");
    assert_eq!(controls.map(time), times, "the same controls once more");
}

/// On a line that loses many packets, quinn probes for losses, by frames that no other packet has.
#[test]
fn a_trace_has_the_contents_of_every_packet() {
    let lossy = FIFO.replace("queue =", "loss = \"10%\"\nqueue =");
    let scenario = load(&line(&lossy, &flow("x", QUIC, BULK))).unwrap_or_else(|wrong| panic!("{wrong}"));
    let trace = scenario.traced(3, &Selection::default()).remove(0).1;
    assert!(trace.packets.len() > 1_000, "{}", trace.packets.len());
    let without = trace.packets.iter().find(|event| !trace.contents.contains_key(&event.number));
    assert!(without.is_none(), "{without:?}");
}
