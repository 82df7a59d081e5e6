//! TCP in the simulator against what is known of TCP: each test names its law and argues for its bounds.

use tidegate_config::{Diagnostics, Source};
use tidegate_core::aqm::AqmFifo;
use tidegate_core::ared::{self, Ared};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::red::{EarlyDrop, Params, Red, Thresholds};
use tidegate_core::{Backlog, Deadline, Instant, Outlet, Packet, Qdisc, Queued, Rate, Span};
use tidegate_metrics::jain;
use tidegate_sim::scenario::Scenario;
use tidegate_sim::tcp::{Config, EcnUse};
use tidegate_sim::{FlowId, FlowSpec, Line, LinkId, Loss, Network, SimPacket, Simulation, Workload};

pub fn secs(s: u64) -> Instant {
    Instant::ZERO + Span::from_secs(s)
}

/// `flows` bulk transfers, each from its own host with its own delay, over one bottleneck.
pub fn dumbbell(seed: u64, bottleneck: Line, flows: &[(Config, Span)]) -> (Network, LinkId) {
    let (net, link, _) = dumbbell_of(seed, bottleneck, flows);
    (net, link)
}

/// Like [`dumbbell`], with the flows.
pub fn dumbbell_of(seed: u64, bottleneck: Line, flows: &[(Config, Span)]) -> (Network, LinkId, Vec<FlowId>) {
    let mut ids = Vec::new();
    let mut net = Network::new(seed);
    let (left, right) = (net.router("left"), net.router("right"));
    let (there, _) = net.duplex(left, right, bottleneck);
    for (index, (config, delay)) in flows.iter().enumerate() {
        let (from, to) = (net.host(format!("s{index}")), net.host(format!("d{index}")));
        net.duplex(from, left, Line::new(Rate::from_mbit(10_000), *delay));
        net.duplex(right, to, Line::new(Rate::from_mbit(10_000), Span::from_micros(10)));
        // Spread over a second, by an irrational step, so that nothing is in step.
        let start = Instant::from_nanos(index as u64 * 618_033_989 % 1_000_000_000);
        ids.push(net.flow(FlowSpec::tcp(format!("{index}"), from, to, *config, Workload::BULK).starting(start)));
    }
    (net, there, ids)
}

pub fn run(mut net: Network, warm_up: u64, end: u64) -> Simulation {
    net.warm_up(Span::from_secs(warm_up));
    let mut sim = net.build().expect("a network that works");
    sim.run_until(secs(end));
    sim
}

pub fn goodputs(sim: &Simulation) -> Vec<f64> {
    sim.flows().map(|(_, flow)| flow.goodput(sim.measured()).as_bps() as f64).collect()
}

/// Mathis, Semke, Mahdavi and Ott (1997): rate = MSS / RTT * C / sqrt(p), C = sqrt(3/2) = 1.22 for periodic losses and
/// an acknowledgement for every segment. Independent losses make the window vary: C between 1.22 and sqrt(2 * 0.866)
/// = 1.31 (their section 3 and figure 2 find the same spread); timeouts at large p take some away.
#[test]
fn the_rate_follows_one_over_the_root_of_the_loss() {
    let mut constants = Vec::new();
    for (p, end) in [(0.0004, 3000), (0.0016, 1500), (0.0064, 1000), (0.0256, 1000)] {
        let line = Line::new(Rate::from_mbit(1000), Span::from_micros(49_980)).loss(Loss::RandomData(p));
        let config = Config { delayed_ack: None, receive_buffer: 1 << 30, ..Config::sack() };
        let (net, _) = dumbbell(4, line, &[(config, Span::from_micros(10))]);
        let sim = run(net, 20, end);
        let rate = goodputs(&sim)[0];
        constants.push(rate * 0.1 * f64::sqrt(p) / (1460.0 * 8.0));
    }
    // A fourfold loss, half the rate: the constant stays, until timeouts at 2.6 % of loss.
    assert!(constants[..3].iter().all(|c| (1.15..1.40).contains(c)), "{constants:?}");
    assert!((0.8..1.3).contains(&constants[3]), "{constants:?}");
}

/// Appenzeller, Keslassy and McKeown (2004), section 2: one Reno flow keeps a link busy exactly when the buffer is at
/// least one bandwidth-delay product; without a buffer it uses 3/4.
#[test]
fn one_bandwidth_delay_product_of_buffer_keeps_the_link_busy() {
    // 20 Mbit/s and 100 ms: 250 kB, 167 packets.
    let utilisation = |packets: u64| {
        let line = Line::new(Rate::from_mbit(20), Span::from_millis(49)).limit(Limit::packets(packets));
        // SACK: NewReno repairs one loss a round trip, and the overshoot of slow start alone takes it a minute.
        let config = Config { receive_buffer: 1 << 30, delayed_ack: None, ..Config::sack() };
        let (net, link) = dumbbell(1, line, &[(config, Span::from_millis(1))]);
        let sim = run(net, 60, 260);
        sim.link(link).sent_total().rate(sim.measured()).as_bps() as f64 / 20e6
    };
    let (full, tenth) = (utilisation(170), utilisation(8));
    assert!(full > 0.99, "{full}");
    assert!((0.70..0.88).contains(&tenth), "{tenth}");
}

/// Equal flows share equally in the long run, of every kind.
#[test]
fn equal_flows_share_equally() {
    for config in [Config::new_reno(), Config::sack(), Config::cubic()] {
        let line = Line::new(Rate::from_mbit(50), Span::from_millis(10)).limit(Limit::packets(100));
        let (net, _) = dumbbell(2, line, &[(config, Span::from_millis(10)); 10]);
        let sim = run(net, 20, 220);
        let shares = goodputs(&sim);
        let index = jain(shares.iter().copied());
        assert!(index > 0.9, "{index} {config:?}");
        // All of the link: 1460 of 1500 bytes are data, of 50 Mbit/s.
        assert!(shares.iter().sum::<f64>() > 0.95 * 50e6 * 1460.0 / 1500.0, "{shares:?}");
    }
}

/// Lakshman and Madhow (1997): on a drop-tail queue the share goes with RTT^-a, a between 1 and 2.
#[test]
fn a_short_path_takes_more() {
    let line = Line::new(Rate::from_mbit(20), Span::from_millis(1)).limit(Limit::packets(20));
    let config = Config { delayed_ack: None, ..Config::sack() };
    let (short, long) = (Span::from_millis(19), Span::from_millis(79));
    let (net, _) = dumbbell(3, line, &[(config, short), (config, long), (config, short), (config, long)]);
    let sim = run(net, 50, 850);
    let shares = goodputs(&sim);
    let ratio = (shares[0] + shares[2]) / (shares[1] + shares[3]);
    // 160 / 40 ms without a queue, which adds at most 12 ms to both: 4 to 3.3, to a power of 1 to 2.
    assert!((3.0..16.5).contains(&ratio), "{ratio}");
}

/// RFC 9438, section 5.2 (table 2): with an RTT of 100 ms, CUBIC's average window at a loss of 1e-4 and 1e-5 is 187
/// and 1054 segments, Reno's 120 and 379: nearly 3 times as much. In the friendly region both are equal.
#[test]
fn cubic_takes_what_reno_leaves_on_long_fat_paths_and_is_friendly_elsewhere() {
    let window = |config: Config, p: f64, end: u64| {
        let line = Line::new(Rate::from_mbit(10_000), Span::from_micros(49_980)).loss(Loss::RandomData(p));
        let config = Config { receive_buffer: 1 << 30, delayed_ack: None, ..config };
        let (net, _) = dumbbell(7, line, &[(config, Span::from_micros(10))]);
        let sim = run(net, 50, end);
        goodputs(&sim)[0] * 0.1 / (1460.0 * 8.0)
    };
    let (cubic, reno) = (window(Config::cubic(), 1e-4, 1250), window(Config::sack(), 1e-4, 1250));
    // The table's figures are for periodic losses; independent ones vary by a fifth.
    assert!((150.0..250.0).contains(&cubic), "{cubic}");
    assert!((100.0..150.0).contains(&reno), "{reno}");
    let (cubic, reno) = (window(Config::cubic(), 1e-2, 600), window(Config::sack(), 1e-2, 600));
    assert!((0.8..1.35).contains(&(cubic / reno)), "friendly at small windows: {cubic} {reno}");
}

/// `flows` transfers over RED with thresholds of 20 and 60 packets and the weight as published (0.002), on 20 Mbit/s with
/// an RTT of 50 ms (83 packets), for 120 s after the first 10 s: throughput of the line in Mbit/s, packets dropped.
fn over_red(config: Config, flows: usize, seed: u64) -> (f64, u64) {
    let line = Line::new(Rate::from_mbit(20), Span::from_millis(23));
    let config = Config { delayed_ack: None, ..config };
    let (mut net, link) = dumbbell(seed, line, &vec![(config, Span::from_millis(2)); flows]);
    let thresholds = Thresholds::Packets { min: 20, max: 60 };
    let early = EarlyDrop { idle_packet: Span::from_micros(600), ..EarlyDrop::RECOMMENDED };
    let params = Params { early, ..Params::new(thresholds) };
    net.queue(link, AqmFifo::new(Limit::packets(1000), Red::new(params, seed, "red").expect("valid parameters")));
    let sim = run(net, 10, 130);
    let metrics = sim.link(link);
    (metrics.sent_total().rate(sim.measured()).as_bps() as f64 / 1e6, metrics.dropped_total().packets)
}

/// One flow over RED oscillates between W/2 and W with W = 112 segments, where the average queue passes 20 packets: 56
/// RTTs of 50 to 67 ms, 3.2 s. The line is idle while the window is below 83, half of the RTTs: 1 - (27 * 50 ms *
/// 14/83) / 3.2 s = 93 % of 20 Mbit/s, with 1460 of 1500 bytes data: 18.1 Mbit/s. A drop in the window after, or the
/// loss of a retransmission, costs 1 % each, and the loss of two retransmissions in a row 2.5 % (RTOs of 1 and 2 s). 120 s
/// are 37 cycles with one or two drops.
///
/// ns-2.35 with the same spacing of drops (`wait_` false): 17.6 to 17.8 Mbit/s and 63 to 66 drops for both.
#[test]
fn one_flow_over_red_keeps_the_line_busy_with_two_drops_a_cycle() {
    let text = r#"
        version = 1
        duration = "130s"
        warm-up = "10s"
        hosts = ["a", "b"]
        routers = ["r"]
        link = [
          { from = "a", to = "r", rate = "10gbit", delay = "2ms" },
          { from = "r", to = "b", rate = "20mbit", delay = "23ms", queue = { kind = "red", min-th = "20 packets",
            max-th = "60 packets", early = { idle-packet = "0.6ms" } } },
        ]
        flow = [
          { name = "bulk", from = "a", to = "b", workload = { kind = "bulk" },
            tcp = { recovery = "RECOVERY", delayed-ack = "0s" } },
        ]
    "#;
    for recovery in ["sack", "newreno"] {
        let source = Source::new("red.toml", text.replace("RECOVERY", recovery));
        let mut diagnostics = Diagnostics::new();
        let scenario = Scenario::load(&source, None, &mut diagnostics);
        let scenario = scenario.unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
        let mut mean = 0.0;
        for seed in 1..=3 {
            let outcome = scenario.run(seed, |_| ());
            let value = |measure: &str| {
                let found =
                    outcome.values.iter().find(|value| value.subject == "flow bulk" && value.measure == measure);
                found.map_or(f64::NAN, |value| value.value)
            };
            let (goodput, dropped) = (value("goodput"), value("dropped"));
            mean += goodput / 3.0;
            assert!(goodput >= 17.2e6, "{recovery}: {goodput} bit/s");
            assert!((37.0..100.0).contains(&dropped), "{recovery}: {dropped} drops");
        }
        assert!(mean >= 17.5e6, "{recovery}: {mean} bit/s");
    }
}

/// ns-2.35 (`wait_` false, means of seeds 1 to 3) drops 987, 2,836 and 6,512 packets of 5, 10 and 20 SACK flows over
/// the same RED; that many losses follow from the windows, 1.5 / W^2 for a window of W.
#[test]
fn several_flows_over_red_lose_what_ns_2_loses() {
    for (flows, ns2) in [(5, 987.0), (10, 2836.0), (20, 6512.0)] {
        let (throughput, dropped) = over_red(Config::sack(), flows, 1);
        let ratio = dropped as f64 / ns2;
        assert!((0.9..1.1).contains(&ratio), "{flows} flows: {dropped} drops");
        assert!(throughput > 18.5, "{flows} flows: {throughput} Mbit/s");
    }
}

/// 100 flows on 100 Mbit/s with an RTT of 100 ms: ARED keeps the line busy. Where it drops into an empty queue as well, all
/// flows halve, the queue stays empty, and the line is used to 69 %; ns-2.35 has 99 % in a setup of this kind.
#[test]
fn many_flows_over_ared_do_not_fall_into_step() {
    let line = Line::new(Rate::from_mbit(100), Span::from_millis(48));
    let (mut net, link) = dumbbell(1, line, &[(Config::sack(), Span::from_millis(2)); 100]);
    let ared = Ared::new(ared::Params::for_link(Rate::from_mbit(100)), 1, "ared").expect("valid parameters");
    net.queue(link, AqmFifo::new(Limit::packets(1000), ared));
    let sim = run(net, 10, 60);
    let used = sim.link(link).sent_total().rate(sim.measured()).as_bps() as f64 / 100e6;
    assert!(used > 0.95, "{used}");
}

/// 100 flows on 1 Mbit/s with a queue of 50 packets: half a packet of queue for each, so that the backed-off timers alone
/// keep the load down. ns-2.35 loses 27 % in a setup of this kind; timers that forget the back-off with the next
/// acknowledgement lose 38 %.
#[test]
fn backed_off_timers_keep_the_load_down() {
    for config in [Config::sack(), Config::new_reno()] {
        let line = Line::new(Rate::from_mbit(1), Span::from_millis(23)).limit(Limit::packets(50));
        let (net, link) = dumbbell(1, line, &[(config, Span::from_millis(2)); 100]);
        let sim = run(net, 10, 60);
        let metrics = sim.link(link);
        let (sent, dropped) = (metrics.sent_total().packets as f64, metrics.dropped_total().packets as f64);
        let lost = dropped / (sent + dropped);
        assert!((0.22..0.32).contains(&lost), "{lost}");
    }
}

/// Marks what arrives at more than a backlog: the simplest of active queue managements.
pub struct MarkAbove {
    pub queue: Fifo<SimPacket>,
    pub packets: u64,
}

impl Qdisc<SimPacket> for MarkAbove {
    fn enqueue(&mut self, now: Instant, mut packet: SimPacket, out: &mut dyn Outlet<SimPacket>) -> Queued {
        if self.queue.backlog().packets >= self.packets && packet.mark_ce() {
            out.event(tidegate_core::Event::Marked { flow: packet.flow });
        }
        self.queue.enqueue(now, packet, out)
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<SimPacket>) -> Option<SimPacket> {
        self.queue.dequeue(now, out)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.queue.deadline(now)
    }
    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

/// RFC 3168: marks in place of losses keep the link as busy without losing anything.
#[test]
fn marks_do_the_work_of_losses() {
    let line = Line::new(Rate::from_mbit(20), Span::from_millis(10));
    let config = Config { ecn: EcnUse::Classic, ..Config::sack() };
    let (mut net, link) = dumbbell(5, line, &[(config, Span::from_millis(5)); 4]);
    net.queue(link, MarkAbove { queue: Fifo::new(Limit::packets(1000)), packets: 60 });
    net.watch(link);
    let sim = run(net, 10, 70);
    let metrics = sim.link(link);
    assert_eq!(metrics.dropped_total().packets, 0);
    assert!(metrics.marked > 100);
    assert!(sim.flows().all(|(_, flow)| flow.retransmitted.packets == 0 && flow.timeouts == 0));
    assert!(metrics.sent_total().rate(sim.measured()).as_bps() > 19_500_000);
    // 60 packets are 36 ms; the windows oscillate around what holds the queue there.
    let worst = metrics.delay_ns.quantile(0.99).unwrap();
    assert!(worst < 90_000_000, "{worst}");
}

/// Alizadeh et al., "Data center TCP" (2010), section 3.3: N flows of DCTCP over a threshold of K packets hold the queue
/// below K + N with an amplitude of 1/2 sqrt(2 N (C·RTT + K)), and keep the link busy from K = C·RTT/7 on. A control that
/// halves its window at the first mark needs K = C·RTT.
#[test]
fn dctcp_keeps_the_link_busy_over_a_shallow_threshold() {
    // 20 Mbit/s and 30 ms: 50 packets; a seventh is 7.1.
    let run_with = |config: Config| {
        let line = Line::new(Rate::from_mbit(20), Span::from_millis(10));
        let config = Config { delayed_ack: None, ecn: EcnUse::Classic, ..config };
        let (mut net, link) = dumbbell(6, line, &[(config, Span::from_millis(5)); 2]);
        net.queue(link, MarkAbove { queue: Fifo::new(Limit::packets(1000)), packets: 12 });
        net.watch(link);
        let sim = run(net, 10, 70);
        let metrics = sim.link(link);
        let busy = metrics.sent_total().rate(sim.measured()).as_bps() as f64 / 20e6;
        (busy, metrics.delay_ns.quantile(0.99).unwrap() as f64 / 0.6e6)
    };
    let (busy, queue) = run_with(Config::dctcp());
    let (halving, _) = run_with(Config::sack());
    // K + N and a packet of each that is on its way; 2 % for what the amplitude of 8 packets takes below zero.
    assert!(busy > 0.98, "{busy}");
    assert!(queue < 12.0 + 2.0 + 3.0, "{queue} packets");
    assert!(halving < busy - 0.01, "{halving} {busy}");
}

/// HyStart++ (RFC 9406, section 1): slow start overshoots a path by up to its capacity and loses as much; leaving it when the
/// RTT rises loses a small part of that.
#[test]
fn hystart_does_not_overshoot() {
    let lost = |hystart: bool| {
        // 50 Mbit/s and 100 ms: 417 packets, and 2000 in the queue. The least RTT of a round rises a round after the queue
        // does, and five rounds follow in which the window grows by a quarter each: 3.05 times in all.
        let line = Line::new(Rate::from_mbit(50), Span::from_millis(40)).limit(Limit::packets(2000));
        let config = Config { hystart, receive_buffer: 1 << 30, ..Config::cubic() };
        let (net, link) = dumbbell(8, line, &[(config, Span::from_millis(10))]);
        let sim = run(net, 0, 6);
        let sent = sim.link(link).sent_total().rate(sim.measured()).as_bps() as f64 / 50e6;
        (sim.link(link).dropped_total().packets, sent)
    };
    let ((with, busy), (without, _)) = (lost(true), lost(false));
    assert!(without > 2000 && with < without / 4, "{with} {without}");
    assert!(busy > 0.75, "{busy}");
}
