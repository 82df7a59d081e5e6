//! Prague and BBRv3 over one bottleneck, against the figures of their drafts. Each test names its source.

use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{Rate, Span};
use tidegate_sim::tcp::{BbrState, Config};
use tidegate_sim::{Conditions, FlowId, Line, LineChange, LinkId, Simulation};

use crate::tcp_laws::{MarkAbove, dumbbell, dumbbell_of, goodputs, run, secs};

/// Data of a full segment with timestamps, as a part of the bytes on the line.
const PAYLOAD: f64 = 1460.0 / 1512.0;

fn bbr() -> Config {
    Config { receive_buffer: 1 << 30, ..Config::bbr() }
}
fn cubic() -> Config {
    Config { receive_buffer: 1 << 30, ..Config::current() }
}
fn prague() -> Config {
    Config { receive_buffer: 1 << 30, ..Config::prague() }
}

/// One flow of BBR over a line of so many Mbit/s, 40 ms of round trip and a queue of so many packets.
fn lone(rate: u64, packets: u64) -> (Simulation, FlowId) {
    let line = Line::new(Rate::from_mbit(rate), Span::from_millis(19)).limit(Limit::packets(packets));
    let (net, _, flows) = dumbbell_of(1, line, &[(bbr(), Span::from_millis(1))]);
    (net.build().expect("a network that works"), flows[0])
}

/// Runs to `end` and returns the states in their order, each with the time in ms at which it was first seen.
fn states(sim: &mut Simulation, flow: FlowId, end: u64) -> Vec<(BbrState, u64)> {
    let mut seen: Vec<(BbrState, u64)> = Vec::new();
    for milliseconds in sim.now().as_nanos() / 1_000_000..end * 1_000 {
        sim.run_until(secs(0) + Span::from_millis(milliseconds));
        let Some([sender, _]) = sim.endpoints(flow) else { continue };
        let state = sender.bbr().expect("it uses BBR").state();
        if seen.last().is_none_or(|last| last.0 != state) {
            seen.push((state, milliseconds));
        }
    }
    seen
}

fn model(sim: &Simulation, flow: FlowId) -> (f64, Span, f64, u64) {
    let [sender, _] = sim.endpoints(flow).expect("a connection");
    let bbr = sender.bbr().expect("it uses BBR");
    (bbr.max_bw() * 8e-6, bbr.min_rtt().expect("measured"), bbr.inflight_longterm(), sender.cwnd())
}

/// "Exiting STARTUP on Bandwidth Plateau", "Exiting DRAIN Based on Inflight", "Exiting PROBE_DOWN on Inflight" (appendix
/// "BBR Example Test Cases").
#[test]
fn bbr_finds_the_bandwidth_and_drains_its_queue() {
    let (mut sim, flow) = lone(20, 400);
    let seen = states(&mut sim, flow, 2);
    // ProbeBW_DOWN lasts until what is in flight is the path's capacity, which it is after Drain.
    let order: Vec<BbrState> = seen.iter().map(|(state, _)| *state).filter(|state| *state != BbrState::Down).collect();
    assert_eq!(order[..3], [BbrState::Startup, BbrState::Drain, BbrState::Cruise], "{seen:?}");
    // The handshake; the window of ten segments doubles in each round trip to 67 and fills a queue of as many; three round
    // trips of then 80 ms on the plateau. Drain takes two at most.
    assert!((300..600).contains(&seen[1].1) && seen[2].1 - seen[1].1 <= 100, "{seen:?}");
    // max_bw within 2 % of the line, and min_rtt that of the path: 40 ms and the time of a segment on each line.
    let (bandwidth, rtt, longterm, _) = model(&sim, flow);
    assert!((bandwidth / (20.0 * PAYLOAD) - 1.0).abs() < 0.02, "{bandwidth}");
    assert!(rtt >= Span::from_millis(40) && rtt < Span::from_millis(42), "{rtt:?}");
    assert_eq!(longterm, f64::INFINITY, "nothing was lost");
}

/// "Entering and Exiting PROBE_RTT": every 5 s without a lower RTT, for 200 ms and a round trip; "ProbeRTT Design
/// Rationale": throughput is about 0.98 of the bandwidth, beside the 1 % of the pacing margin.
#[test]
fn bbr_measures_the_round_trip_every_five_seconds() {
    let (mut sim, flow) = lone(20, 400);
    let seen = states(&mut sim, flow, 31);
    let probes: Vec<u64> = seen.iter().filter(|(state, _)| *state == BbrState::ProbeRtt).map(|(_, at)| *at).collect();
    assert!(probes.len() >= 5, "{probes:?}");
    for pair in probes.windows(2) {
        assert!((5_000..=5_600).contains(&(pair[1] - pair[0])), "{probes:?}");
    }
    for (number, (state, at)) in seen.iter().enumerate().filter(|(_, (state, _))| *state == BbrState::ProbeRtt) {
        let Some((next, left)) = seen.get(number + 1) else { continue };
        assert!((200..=400).contains(&(left - at)) && *next == BbrState::Cruise, "{state:?} {at} {left} {next:?}");
    }
    let goodput = goodputs(&sim)[0] / 20e6 / PAYLOAD;
    assert!((0.955..1.0).contains(&goodput), "{goodput}");
    // "Time Scale for Bandwidth Probing": at 40 ms a probe after 2 to 3 s, or 63 round trips, which are 2.5 s.
    let ups: Vec<u64> = seen.iter().filter(|(state, _)| *state == BbrState::Up).map(|(_, at)| *at).collect();
    // ProbeRTT begins the cycle anew: one or two probes in 5 s.
    assert!((5..=12).contains(&ups.len()), "{ups:?}");
    assert!(ups.windows(2).all(|pair| pair[1] - pair[0] >= 2_000), "{ups:?}");
}

/// "Exiting Startup Based on Packet Loss" and "ProbeBW_UP": over a queue of a tenth of the path's capacity losses bound the
/// data in flight; 0.7 of CUBIC's decrease is never undercut, and the line stays busy.
#[test]
fn bbr_bounds_what_is_in_flight_over_a_shallow_queue() {
    let line = Line::new(Rate::from_mbit(50), Span::from_millis(19)).limit(Limit::packets(17));
    let (net, link, flows) = dumbbell_of(1, line, &[(bbr(), Span::from_millis(1))]);
    let flow = flows[0];
    let sim = run(net, 5, 35);
    let (bandwidth, _, longterm, _) = model(&sim, flow);
    assert!(longterm < 1.6 * 250_000.0, "{longterm}");
    assert!((bandwidth / (50.0 * PAYLOAD) - 1.0).abs() < 0.05, "{bandwidth}");
    let metrics = sim.link(link);
    let lost = metrics.dropped_total().packets as f64 / metrics.sent_total().packets as f64;
    assert!(lost < 0.01, "probes lose up to 2 % of a round trip, a few times a minute: {lost}");
    let busy = metrics.sent_total().rate(sim.measured()).as_bps() as f64 / 50e6;
    assert!(busy > 0.9, "{busy}");
}

/// "Correctly Managing Sub-Packet BDPs": four segments, and the line is used.
#[test]
fn bbr_keeps_four_segments_on_a_slow_line() {
    let line = Line::new(Rate::from_kbit(128), Span::from_millis(4)).limit(Limit::packets(100));
    let (net, link, flows) = dumbbell_of(1, line, &[(bbr(), Span::from_millis(1))]);
    let flow = flows[0];
    let sim = run(net, 20, 120);
    let (_, _, _, cwnd) = model(&sim, flow);
    assert!(cwnd >= 4 * 1460, "{cwnd}");
    let busy = sim.link(link).sent_total().rate(sim.measured()).as_bps() as f64 / 128e3;
    assert!(busy > 0.95, "{busy}");
    // Two segments in the queue and two on their way.
    let queue = sim.link(link).sent_total().packets;
    assert!(queue > 0 && sim.link(link).dropped_total().packets == 0);
}

/// "Increasing Bandwidth 10x and Ensuring Full Bandwidth is Reached", "Decreasing Bandwidth 10x and Ensuring Max Bandwidth
/// Adapts Down".
#[test]
fn bbr_follows_the_rate_of_the_line() {
    let line = Line::new(Rate::from_mbit(10), Span::from_millis(19)).limit(Limit::packets(200));
    let (mut net, link, flows) = dumbbell_of(1, line, &[(bbr(), Span::from_millis(1))]);
    let flow = flows[0];
    let change = |at, rate| LineChange { at: secs(at), rate: Some(Rate::from_mbit(rate)), ..LineChange::default() };
    let changes = [change(8, 100), change(20, 10)].into();
    net.conditions(link, Conditions { changes, ..Conditions::default() });
    let mut sim = net.build().expect("a network that works");
    // A probe begins within 3 s, and each round trip of it adds 25 %: ten of them, 0.4 s, for a factor of ten; a probe may
    // end early.
    sim.run_until(secs(20));
    let (bandwidth, ..) = model(&sim, flow);
    assert!(bandwidth > 0.95 * 100.0 * PAYLOAD, "{bandwidth}");
    // The filter forgets after two cycles of 2 to 3 s, and the queue of 200 packets is lost to several times.
    sim.run_until(secs(40));
    let (bandwidth, ..) = model(&sim, flow);
    assert!((bandwidth / (10.0 * PAYLOAD) - 1.0).abs() < 0.05, "{bandwidth}");
}

/// "Bandwidth Probing and Coexistence with Reno/CUBIC": Reno and CUBIC get up to 25 Mbit/s at 30 ms beside BBR, here half of
/// a line of 50 Mbit/s whose queue holds one and a half times the path's capacity.
#[test]
fn cubic_has_its_25_mbit_beside_bbr() {
    let mut shares = Vec::new();
    for seed in 1..=3 {
        let line = Line::new(Rate::from_mbit(50), Span::from_millis(14)).limit(Limit::packets(188));
        let flows = [(bbr(), Span::from_millis(1)), (cubic(), Span::from_millis(1))];
        let (net, link) = dumbbell(seed, line, &flows);
        let sim = run(net, 20, 140);
        let both = goodputs(&sim);
        println!("seed {seed}: BBR {:.1}, CUBIC {:.1} Mbit/s", both[0] / 1e6, both[1] / 1e6);
        shares.push(both[1]);
        let busy = sim.link(link).sent_total().rate(sim.measured()).as_bps() as f64 / 50e6;
        assert!(busy > 0.95, "{busy}");
    }
    assert!(shares.iter().all(|share| (15e6..40e6).contains(share)), "{shares:?}");
}

/// Many flows of BBR share a line as evenly as the draft's "Bandwidth convergence" has it: Jain's index.
#[test]
fn flows_of_bbr_converge() {
    let line = Line::new(Rate::from_mbit(50), Span::from_millis(14)).limit(Limit::packets(400));
    let (net, _) = dumbbell(3, line, &[(bbr(), Span::from_millis(1)); 4]);
    let sim = run(net, 20, 80);
    let index = tidegate_metrics::jain(goodputs(&sim));
    assert!(index > 0.95, "{index} {:?}", goodputs(&sim));
}

fn over_step(rate: u64, delay: Span, flows: &[Config], packets: u64) -> (Simulation, LinkId) {
    let line = Line::new(Rate::from_mbit(rate), delay);
    let flows: Vec<_> = flows.iter().map(|config| (*config, Span::from_millis(1))).collect();
    let (mut net, link) = dumbbell(6, line, &flows);
    net.queue(link, MarkAbove { queue: Fifo::new(Limit::packets(2000)), packets });
    net.watch(link);
    (run(net, 10, 70), link)
}

/// RFC 9331, section 4.3: marks at a shallow threshold keep the queue there and the line busy, without a loss.
#[test]
fn prague_holds_the_queue_at_a_step() {
    // 40 Mbit/s and 20 ms: 66 packets in flight; the step is at 1 ms, 3.3 packets.
    let (sim, link) = over_step(40, Span::from_millis(9), &[prague()], 4);
    let metrics = sim.link(link);
    let busy = metrics.sent_total().rate(sim.measured()).as_bps() as f64 / 40e6;
    let p99 = metrics.delay_ns.quantile(0.99).expect("watched") as f64 / 1e6;
    println!("busy {busy:.3}, p99 {p99:.2} ms, marked {}", metrics.marked);
    assert!(busy > 0.95, "{busy}");
    assert!(p99 < 2.5, "{p99}");
    assert_eq!(
        (metrics.dropped_total().packets, sim.flows().next().map(|(_, flow)| flow.retransmitted.packets)),
        (0, Some(0))
    );
    // Alizadeh et al. (2010), section 3.3: over a step, marks come in bursts of a round trip, and their fraction is
    // sqrt(2 / W): of a window of 66 packets 11.5.
    let rounds = 60.0 / 0.021;
    let marks = metrics.marked as f64 / rounds;
    assert!((8.0..14.0).contains(&marks), "{marks}");
}

/// 2.4.4 of the draft: of flows of 5 and 25 ms that share a step, neither has twice as much; with DCTCP's growth the rates
/// are as the inverse of the round trips, or more.
#[test]
fn prague_shares_a_line_among_round_trips() {
    let ratio = |config: Config| {
        let line = Line::new(Rate::from_mbit(40), Span::from_millis(1));
        let flows = [(config, Span::from_micros(1_400)), (config, Span::from_micros(11_400))];
        let (mut net, link) = dumbbell(6, line, &flows);
        net.queue(link, MarkAbove { queue: Fifo::new(Limit::packets(2000)), packets: 4 });
        let sim = run(net, 20, 80);
        let rates = goodputs(&sim);
        rates[0] / rates[1]
    };
    let (independent, dctcp) = (ratio(prague()), ratio(Config { receive_buffer: 1 << 30, ..Config::dctcp() }));
    println!("Prague {independent:.2}, DCTCP {dctcp:.2}");
    assert!((0.5..2.0).contains(&independent), "{independent}");
    assert!(dctcp > 2.0, "{dctcp}");
}

/// Over a queue that drops alone, Prague is Reno (2.4.1): it shares a line with Reno, although CUBIC's window grows faster
/// where it is large.
#[test]
fn prague_beside_reno_over_a_tail_drop() {
    let line = Line::new(Rate::from_mbit(20), Span::from_millis(19)).limit(Limit::packets(70));
    let reno = Config { receive_buffer: 1 << 30, timestamps: true, d_sack: true, rack_tlp: true, ..Config::sack() };
    let flows = [(prague(), Span::from_millis(1)), (reno, Span::from_millis(1))];
    let (net, link) = dumbbell(2, line, &flows);
    let sim = run(net, 20, 200);
    let rates = goodputs(&sim);
    println!("Prague {:.1}, Reno {:.1} Mbit/s", rates[0] / 1e6, rates[1] / 1e6);
    assert!((0.4..2.5).contains(&(rates[0] / rates[1])), "{rates:?}");
    assert_eq!(sim.link(link).marked, 0);
}
