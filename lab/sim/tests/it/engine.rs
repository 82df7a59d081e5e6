//! The engine: timing of links, drivers, sources, connections, determinism, what is refused.

use std::cell::RefCell;
use std::rc::Rc;

use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{Backlog, Bytes, Colour, Deadline, DropReason, Instant, Outlet, Packet, Qdisc, Queued, Rate, Span};
use tidegate_sim::metrics::SizeClass;
use tidegate_sim::{
    Direction, Distribution, Driver, FlowSpec, Line, Loss, Network, NetworkError, SimPacket, Stage, Verdict, Workload,
    tcp,
};

fn millis(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(ms)
}

fn constant(rate: Rate) -> Workload {
    Workload::Constant { rate, packet: Bytes::new(1500) }
}

type Log = Rc<RefCell<Vec<(u64, Stage, u32)>>>;

/// Everything that happens on a link: microseconds, what, and the number of the datagram.
fn logged(net: &mut Network, link: tidegate_sim::LinkId) -> Log {
    let log = Log::default();
    let writer = Rc::clone(&log);
    net.tap(link, move |at, stage, packet: &SimPacket| {
        writer.borrow_mut().push((at.as_nanos() / 1000, stage, packet.segment.seq));
    });
    log
}

fn times(log: &Log, wanted: Stage) -> Vec<u64> {
    log.borrow().iter().filter(|(_, stage, _)| *stage == wanted).map(|(at, _, _)| *at).collect()
}

#[test]
fn a_link_takes_the_time_of_its_rate_and_delay() {
    for discipline in [false, true] {
        let mut net = Network::new(1);
        let (a, r, b) = (net.host("a"), net.router("r"), net.host("b"));
        // 1500 B take 1 ms on the first link and 4 ms on the second.
        net.simplex(a, r, Line::new(Rate::from_mbit(12), Span::from_millis(5)));
        let second = net.simplex(r, b, Line::new(Rate::from_mbit(3), Span::from_millis(7)));
        if discipline {
            net.queue(second, Fifo::new(Limit::packets(10)));
        }
        let log = logged(&mut net, second);
        let entries = vec![(Span::ZERO, Bytes::new(1500)); 4];
        let flow = net.flow(FlowSpec::udp("four", a, b, Workload::Trace(entries)));
        let mut sim = net.build().unwrap();
        sim.run_until(millis(100));
        assert_eq!(times(&log, Stage::Arrived), [6_000, 7_000, 8_000, 9_000]);
        assert_eq!(times(&log, Stage::Transmitting), [6_000, 10_000, 14_000, 18_000]);
        // The last: 18 + 4 + 7 = 29 ms after all were sent.
        let delay = &sim.flow(flow).delay_ns[0];
        assert_eq!((delay.count(), delay.least(), delay.most()), (4, Some(17_000_000), Some(29_000_000)));
    }
}

#[test]
fn a_full_queue_drops_what_comes() {
    for discipline in [false, true] {
        let mut net = Network::new(1);
        let (a, r, b) = (net.host("a"), net.router("r"), net.host("b"));
        net.simplex(a, r, Line::new(Rate::from_mbit(1200), Span::ZERO));
        let line = Line::new(Rate::from_mbit(12), Span::ZERO);
        let second = if discipline {
            let link = net.simplex(r, b, line);
            net.queue(link, Fifo::new(Limit::packets(3)));
            link
        } else {
            net.simplex(r, b, line.limit(Limit::packets(3)))
        };
        let log = logged(&mut net, second);
        let entries = vec![(Span::ZERO, Bytes::new(1500)); 10];
        let flow = net.flow(FlowSpec::udp("ten", a, b, Workload::Trace(entries)));
        let mut sim = net.build().unwrap();
        sim.run_until(millis(100));
        // One is on the transmitter, three wait, six exceed the limit; both kinds of queue agree on all of it.
        assert_eq!(sim.flow(flow).arrived_total().packets, 4);
        assert_eq!(sim.link(second).dropped_total().packets, 6);
        assert_eq!(sim.link(second).dropped_because(DropReason::QueueLimit), 6);
        assert_eq!(times(&log, Stage::Dropped(DropReason::QueueLimit)), [50, 60, 70, 80, 90, 100]);
        assert_eq!(sim.flow(flow).dropped_total().packets, 6);
    }
}

/// Links with a single feeder are computed ahead, with the results that they would have otherwise.
#[test]
fn computing_ahead_changes_nothing() {
    let run = |ahead: bool| {
        let mut net = Network::new(9);
        let (left, right) = (net.router("left"), net.router("right"));
        net.duplex(left, right, Line::new(Rate::from_mbit(20), Span::from_millis(3)).limit(Limit::packets(40)));
        let mut lasts = Vec::new();
        for index in 0..4_u64 {
            let (from, mid, to) =
                (net.host(format!("s{index}")), net.router(format!("m{index}")), net.host(format!("d{index}")));
            net.duplex(from, left, Line::new(Rate::from_mbit(50), Span::from_millis(index)));
            // A tighter queue behind the bottleneck than the rate asks for, and random loss.
            let line = Line::new(Rate::from_mbit(7 + index), Span::from_millis(2)).limit(Limit::packets(10));
            lasts.push(net.duplex(right, mid, line).0);
            lasts.push(net.duplex(mid, to, line.loss(Loss::Random(0.002))).0);
            let start = millis(index * 37);
            net.flow(FlowSpec::tcp(format!("{index}"), from, to, tcp::Config::sack(), Workload::BULK).starting(start));
        }
        if !ahead {
            for &link in &lasts {
                net.at_entry(link, |_, _| Verdict::Pass);
            }
        }
        let mut sim = net.build().unwrap();
        sim.run_until(millis(20_000));
        let flows: Vec<_> =
            sim.flows().map(|(_, flow)| (flow.goodput_total() / 100_000, flow.arrived_total().packets / 100)).collect();
        (flows, sim.events(), sim.hops())
    };
    let (ahead, at_time) = (run(true), run(false));
    assert_eq!(ahead.0, at_time.0);
    assert!(ahead.1 < at_time.1, "and it saves events: {} of {}", ahead.1, at_time.1);
}

#[test]
fn runs_are_equal_for_equal_seeds_only() {
    let run = |seed| {
        let mut net = Network::new(seed);
        let (a, r, b) = (net.host("a"), net.router("r"), net.host("b"));
        net.duplex(a, r, Line::new(Rate::from_mbit(100), Span::from_millis(1)));
        net.duplex(r, b, Line::new(Rate::from_mbit(10), Span::from_millis(5)).loss(Loss::Random(0.001)));
        let sizes = Distribution::BoundedPareto { shape: 1.2, least: 1e3, most: 1e6 };
        net.flow(FlowSpec::tcp("mice", a, b, tcp::Config::cubic(), Workload::mice(20.0, sizes)).watched());
        net.flow(FlowSpec::tcp("bulk", a, b, tcp::Config::sack(), Workload::BULK));
        let mut sim = net.build().unwrap();
        sim.run_until(millis(10_000));
        let flows: Vec<_> = sim.flows().map(|(_, flow)| flow.clone()).collect();
        let links: Vec<_> = sim.links().map(|(_, link)| link.clone()).collect();
        (flows, links, sim.events())
    };
    let once = run(1);
    assert_eq!(once, run(1));
    assert_ne!(once.2, run(2).2);
    assert!(once.0[0].completed > 100);
}

#[test]
fn memory_does_not_grow_with_time() {
    let mut net = Network::new(1);
    let (a, r, b) = (net.host("a"), net.router("r"), net.host("b"));
    net.duplex(a, r, Line::new(Rate::from_mbit(100), Span::from_millis(1)));
    let (link, _) = net.duplex(r, b, Line::new(Rate::from_mbit(2), Span::from_millis(5)).limit(Limit::packets(50)));
    net.watch(link);
    let sizes = Distribution::Exponential { mean: 8e3 };
    net.flow(FlowSpec::tcp("mice", a, b, tcp::Config::sack(), Workload::mice(20.0, sizes)).watched());
    let mut sim = net.build().unwrap();
    sim.run_until(millis(60_000));
    let early = sim.footprint();
    sim.run_until(millis(1_200_000));
    assert!(sim.flows().next().unwrap().1.completed > 20_000, "a busy twenty minutes");
    // Twenty times the time; random peaks may double what is in flight at once.
    assert!(sim.footprint() < 2 * early, "{} from {early}", sim.footprint());
}

#[test]
fn lines_lose_packets_as_configured() {
    let run = |loss: Loss| {
        let mut net = Network::new(5);
        let (a, b) = (net.host("a"), net.host("b"));
        let link = net.simplex(a, b, Line::new(Rate::from_mbit(1000), Span::ZERO).loss(loss));
        let log = logged(&mut net, link);
        let packets = Workload::Constant { rate: Rate::from_mbit(80), packet: Bytes::new(100) };
        net.flow(FlowSpec::udp("cbr", a, b, packets));
        let mut sim = net.build().unwrap();
        sim.run_until(millis(2_000));
        let lost: Vec<u32> = log.borrow().iter().filter(|one| one.1 == Stage::Lost).map(|one| one.2).collect();
        assert_eq!(sim.link(link).lost, lost.len() as u64);
        let bursts = 1 + lost.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        (lost.len() as f64 / 200_000.0, lost.len() as f64 / bursts as f64, lost)
    };
    // 200,000 packets: a deviation of sqrt(0.05 * 0.95 / 200,000) = 0.0005 at 5 %, five of them are 0.0025.
    let (share, burst, _) = run(Loss::Random(0.05));
    assert!((share - 0.05).abs() < 0.0025, "{share}");
    // Independent losses come in bursts of 1 / 0.95.
    assert!((burst - 1.0526).abs() < 0.02, "{burst}");
    // Bad for 4 packets on average, good for 76: 5 % too, in bursts of 4.
    let (share, burst, _) = run(Loss::Bursts { begin: 1.0 / 76.0, end: 0.25, losses: [0.0, 1.0] });
    assert!((share - 0.05).abs() < 0.005 && (burst - 4.0).abs() < 0.2, "{share} {burst}");
    let numbers = [3, 7, 8, 1000, u64::MAX, u64::MAX, u64::MAX, u64::MAX];
    assert_eq!(run(Loss::Numbers(numbers)).2, [3, 7, 8, 1000]);
}

/// Two priorities: class 1 before class 0.
struct Priority([Fifo<SimPacket>; 2]);

impl Qdisc<SimPacket> for Priority {
    fn enqueue(&mut self, now: Instant, packet: SimPacket, out: &mut dyn Outlet<SimPacket>) -> Queued {
        self.0[packet.class().0 as usize].enqueue(now, packet, out)
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<SimPacket>) -> Option<SimPacket> {
        self.0[1].dequeue(now, out).or_else(|| self.0[0].dequeue(now, out))
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.0[1].deadline(now).min(self.0[0].deadline(now))
    }
    fn backlog(&self) -> Backlog {
        let (a, b) = (self.0[0].backlog(), self.0[1].backlog());
        Backlog { packets: a.packets + b.packets, bytes: a.bytes + b.bytes }
    }
}

/// Risso and Gevros, section 4: what a buffer behind the scheduler does to the packet that should go first.
#[test]
fn a_drivers_buffers_hold_up_what_the_scheduler_prefers() {
    let ahead = |driver: Driver| {
        let mut net = Network::new(1);
        let (a, c, r, b) = (net.host("a"), net.host("c"), net.router("r"), net.host("b"));
        net.simplex(a, r, Line::new(Rate::from_mbit(100), Span::ZERO));
        net.simplex(c, r, Line::new(Rate::from_mbit(100), Span::ZERO));
        let link = net.simplex(r, b, Line::new(Rate::from_mbit(2), Span::ZERO));
        net.queue(link, Priority([Fifo::new(Limit::packets(100)), Fifo::new(Limit::packets(100))]));
        net.driver(link, driver);
        // Packets that leave the software buffer, where the paper's captures look: the class, in order.
        let log = Rc::new(RefCell::new(Vec::new()));
        let writer = Rc::clone(&log);
        net.tap(link, move |_, stage, packet: &SimPacket| match stage {
            Stage::Arrived if packet.class == 1 => writer.borrow_mut().push(2),
            Stage::Hardware => writer.borrow_mut().push(packet.class),
            _ => {}
        });
        net.flow(FlowSpec::udp("udp", a, b, constant(Rate::from_mbit(4))));
        net.flow(
            FlowSpec::udp("tcp", c, b, Workload::Trace(vec![(Span::from_millis(700), Bytes::new(1500))])).in_class(1),
        );
        let mut sim = net.build().unwrap();
        sim.run_until(millis(1500));
        let log = log.borrow();
        let arrived = log.iter().position(|class| *class == 2).expect("it came");
        let left = log.iter().position(|class| *class == 1).expect("it left");
        left - arrived - 1
    };
    // 20 KB hold 14 packets of 1500 B: 14 * 1500 = 21,000 is the first sum beyond 20,480.
    let original = ahead(Driver::ORIGINAL);
    assert!((13..=16).contains(&original), "{original}");
    assert!(ahead(Driver::MODIFIED) <= original);
    // 2 KB: at most two (section 4.2, figure 7).
    assert!(ahead(Driver::SMALL) <= 2);
}

/// A shaper that lets one packet out each 3 ms.
struct EveryThree(Fifo<SimPacket>, Instant);

impl Qdisc<SimPacket> for EveryThree {
    fn enqueue(&mut self, now: Instant, packet: SimPacket, out: &mut dyn Outlet<SimPacket>) -> Queued {
        self.0.enqueue(now, packet, out)
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<SimPacket>) -> Option<SimPacket> {
        if now < self.1 {
            return None;
        }
        let packet = self.0.dequeue(now, out)?;
        self.1 = now + Span::from_millis(3);
        Some(packet)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        if self.0.backlog().is_empty() { Deadline::Idle } else { Deadline::at(self.1, now) }
    }
    fn backlog(&self) -> Backlog {
        self.0.backlog()
    }
}

#[test]
fn a_shaper_is_asked_at_its_deadlines_or_at_the_ticks_after_them() {
    let departures = |tick: Option<Span>, driver: Option<Driver>| {
        let mut net = Network::new(1);
        let (a, b) = (net.host("a"), net.host("b"));
        let link = net.simplex(a, b, Line::new(Rate::from_mbit(100), Span::ZERO));
        net.queue(link, EveryThree(Fifo::new(Limit::NONE), Instant::ZERO));
        if let Some(tick) = tick {
            net.timer(link, tick);
        }
        if let Some(driver) = driver {
            net.driver(link, driver);
        }
        let log = logged(&mut net, link);
        let entries = vec![(Span::ZERO, Bytes::new(1000)); 5];
        net.flow(FlowSpec::udp("five", a, b, Workload::Trace(entries)));
        let mut sim = net.build().unwrap();
        sim.run_until(millis(100));
        times(&log, Stage::Transmitting)
    };
    assert_eq!(departures(None, None), [0, 3_000, 6_000, 9_000, 12_000]);
    // A kernel timer of 100 Hz: one packet a tick, and 0.8 Mbit/s of 2.67.
    assert_eq!(departures(Some(Span::from_millis(10)), None), [0, 10_000, 20_000, 30_000, 40_000]);
    let driver = Driver { forwarding: Span::ZERO, ..Driver::MODIFIED };
    assert_eq!(departures(None, Some(driver)), [0, 10_000, 20_000, 30_000, 40_000]);
    let exact = Driver { timer_hz: None, ..driver };
    assert_eq!(departures(None, Some(exact)), [0, 3_000, 6_000, 9_000, 12_000]);
    // 500 Hz: at multiples of 2 ms, and each next is 3 ms after the one before.
    let fast = Driver { timer_hz: Some(500), ..driver };
    assert_eq!(departures(None, Some(fast)), [0, 4_000, 8_000, 12_000, 16_000]);
}

#[test]
fn conditioners_colour_and_police() {
    let mut net = Network::new(1);
    let (a, b) = (net.host("a"), net.host("b"));
    let link = net.simplex(a, b, Line::new(Rate::from_mbit(12), Span::ZERO));
    let mut count = 0;
    net.at_entry(link, move |_, packet| {
        count += 1;
        if count % 4 == 0 {
            return Verdict::Drop(DropReason::Policed);
        }
        packet.colour = if count % 2 == 0 { Colour::Red } else { Colour::Green };
        Verdict::Pass
    });
    let flow = net.flow(FlowSpec::udp("cbr", a, b, constant(Rate::from_mbit(6))));
    let mut sim = net.build().unwrap();
    // A packet each 2 ms from 0 to 398 ms: 200.
    sim.run_until(millis(399));
    let arrived = sim.flow(flow).arrived;
    assert_eq!([arrived[0].packets, arrived[1].packets, arrived[2].packets], [100, 0, 50]);
    assert_eq!(sim.link(link).dropped_because(DropReason::Policed), 50);
}

#[test]
fn an_unloaded_transfer_takes_the_time_of_its_path() {
    for (direction, round_trips) in [(Direction::Upload, 1), (Direction::Download { request: Bytes::new(100) }, 1)] {
        let mut net = Network::new(1);
        let (a, b) = (net.host("a"), net.host("b"));
        net.duplex(a, b, Line::new(Rate::from_mbit(10), Span::from_millis(20)));
        let mice = Workload::Mice {
            interval: Distribution::Constant(1.0),
            size: Distribution::Constant(7300.0),
            direction,
            most_open: 10,
        };
        let flow = net.flow(FlowSpec::tcp("mice", a, b, tcp::Config::sack(), mice));
        let mut sim = net.build().unwrap();
        sim.run_until(millis(9_900));
        let metrics = sim.flow(flow);
        assert_eq!((metrics.opened, metrics.completed, metrics.failed), (10, 10, 0));
        assert_eq!(sim.open_connections(), 0, "and all of them are closed");
        assert_eq!(metrics.goodput_total(), 10 * (7300 + if direction == Direction::Upload { 0 } else { 100 }));
        // SYN there and back: 40 ms and two headers of 48 B (77 us).
        let connect = metrics.connect_ns.most().unwrap();
        assert!((40_000_000..40_100_000).contains(&connect), "{connect}");
        // Then the five segments of 1500 B (6 ms), one way (20 ms), and for a download the request (20 ms) before.
        let more = if direction == Direction::Upload { 0 } else { 20_150_000 };
        let completion = metrics.completion_ns.most().unwrap();
        let expected = 40_000_000 * round_trips + 20_000_000 + 6_000_000 + more;
        assert!((expected..expected + 300_000).contains(&completion), "{completion} for {expected}");
        let slowdown = metrics.slowdown_micro[SizeClass::Tiny as usize].most().unwrap();
        assert!(slowdown < 1_400_000, "{slowdown}");
    }
}

#[test]
fn sources_send_as_configured() {
    let mut net = Network::new(3);
    let (a, b) = (net.host("a"), net.host("b"));
    net.duplex(a, b, Line::new(Rate::from_mbit(1000), Span::from_millis(1)));
    let packet = Bytes::new(1000);
    let rate = Rate::from_mbit(8);
    let (on, off) = (Distribution::Exponential { mean: 0.5 }, Distribution::Exponential { mean: 1.5 });
    let pareto = Distribution::pareto_of_mean(0.5, 1.9);
    let flows = [
        (FlowSpec::udp("constant", a, b, Workload::Constant { rate, packet }), 8e6, 0.0),
        (FlowSpec::udp("poisson", a, b, Workload::Poisson { rate, packet }), 8e6, 0.01),
        (FlowSpec::udp("voice", a, b, Workload::OnOff { rate, packet, on, off: off.clone() }), 2e6, 0.1),
        (FlowSpec::udp("pareto", a, b, Workload::OnOff { rate, packet, on: pareto, off }), 2e6, 0.2),
        (FlowSpec::tcp("over tcp", a, b, tcp::Config::sack(), Workload::Constant { rate, packet }), 8e6, 0.001),
    ];
    let ids: Vec<_> = flows.iter().map(|(flow, ..)| (net.flow(flow.clone()), flow.transport.clone())).collect();
    let half = FlowSpec::udp("half", a, b, Workload::Constant { rate, packet })
        .starting(millis(200_000))
        .stopping(millis(400_000));
    let half = net.flow(half);
    let mut sim = net.build().unwrap();
    sim.run_until(millis(1_000_000));
    for ((id, transport), (spec, expected, tolerance)) in ids.into_iter().zip(&flows) {
        let sent = match transport {
            tidegate_sim::Transport::Udp { .. } => sim.flow(id).sent_total().bytes,
            _ => sim.flow(id).goodput_total(),
        };
        let rate = sent as f64 * 8.0 / 1000.0;
        assert!((rate / expected - 1.0).abs() <= tolerance + 1e-5, "{}: {rate}", spec.name);
    }
    // From 200 s on, a packet each millisecond, none at or after 400 s.
    assert_eq!(sim.flow(half).sent_total().packets, 200_000);
}

#[test]
fn requests_are_answered_one_after_the_other() {
    let mut net = Network::new(3);
    let (a, b) = (net.host("a"), net.host("b"));
    net.duplex(a, b, Line::new(Rate::from_mbit(100), Span::from_millis(10)));
    let workload = Workload::Requests {
        request: Distribution::Constant(200.0),
        response: Distribution::Constant(5000.0),
        think: Distribution::Constant(0.08),
    };
    let flow = net.flow(FlowSpec::tcp("web", a, b, tcp::Config::sack(), workload));
    let mut sim = net.build().unwrap();
    sim.run_until(millis(10_000));
    let metrics = sim.flow(flow);
    // 20 ms of round trip and 80 ms of thinking: ten a second, the first 20 ms later.
    assert!((98..=100).contains(&metrics.completed), "{}", metrics.completed);
    // The last may be under way.
    assert!((metrics.completed..=metrics.completed + 1).contains(&metrics.opened), "{}", metrics.opened);
    let median = metrics.completion_ns.quantile(0.5).unwrap();
    assert!((20_000_000..21_000_000).contains(&median), "{median}");
}

#[test]
fn a_trace_over_tcp_is_a_transfer_for_each_line() {
    let mut net = Network::new(3);
    let (a, b) = (net.host("a"), net.host("b"));
    net.duplex(a, b, Line::new(Rate::from_mbit(100), Span::from_millis(10)));
    let entries = vec![(Span::from_millis(5), Bytes::new(3000)), (Span::from_millis(5), Bytes::new(20_000))];
    let flow =
        net.flow(FlowSpec::tcp("trace", a, b, tcp::Config::sack(), Workload::Trace(entries)).starting(millis(100)));
    let mut sim = net.build().unwrap();
    sim.run_until(millis(104));
    assert_eq!(sim.flow(flow).opened, 0);
    sim.run_until(millis(5_000));
    let metrics = sim.flow(flow);
    assert_eq!((metrics.opened, metrics.completed, metrics.goodput_total()), (2, 2, 23_000));
    assert_eq!(metrics.completion_by_size_ns[SizeClass::Small as usize].count(), 1);
}

#[test]
fn too_many_mice_are_refused_and_counted() {
    let mut net = Network::new(1);
    let (a, b) = (net.host("a"), net.host("b"));
    net.duplex(a, b, Line::new(Rate::from_kbit(56), Span::from_millis(20)));
    let mice = Workload::Mice {
        interval: Distribution::Constant(0.1),
        size: Distribution::Constant(10_000.0),
        direction: Direction::Upload,
        most_open: 25,
    };
    let flow = net.flow(FlowSpec::tcp("mice", a, b, tcp::Config::sack(), mice));
    let mut sim = net.build().unwrap();
    sim.run_until(millis(60_000));
    assert!(sim.open_connections() <= 25);
    assert!(sim.flow(flow).refused > 300, "800 kbit/s do not fit into 56");
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    let line = Line::new(Rate::from_mbit(1), Span::ZERO);
    let refused = |make: &dyn Fn(&mut Network)| {
        let mut net = Network::new(1);
        make(&mut net);
        net.build().expect_err("refused")
    };
    let error = refused(&|net| {
        let (a, b) = (net.host("a"), net.host("b"));
        net.duplex(a, b, Line::new(Rate::ZERO, Span::ZERO));
    });
    assert_eq!(error, NetworkError::ZeroRate("a->b".into()));
    let error = refused(&|net| {
        let (a, r, b) = (net.host("a"), net.router("r"), net.host("b"));
        net.duplex(a, r, line);
        net.simplex(r, b, line);
        net.flow(FlowSpec::tcp("one way", a, b, tcp::Config::sack(), Workload::BULK));
    });
    assert!(error.to_string().contains("flow one way: no path leads from b to a"), "{error}");
    let error = refused(&|net| {
        let (a, m, b) = (net.host("a"), net.host("m"), net.host("b"));
        net.duplex(a, m, line);
        net.duplex(m, b, line);
        net.flow(FlowSpec::udp("through a host", a, b, constant(Rate::from_mbit(1))));
    });
    assert!(matches!(error, NetworkError::Unreachable { .. }), "{error}");
    let error = refused(&|net| {
        let (a, r1, r2, b) = (net.host("a"), net.router("r1"), net.router("r2"), net.host("b"));
        net.duplex(a, r1, line);
        let (_, back) = net.duplex(r1, r2, line);
        net.duplex(r2, b, line);
        net.route(r2, b, back);
        net.flow(FlowSpec::udp("lost", a, b, constant(Rate::from_mbit(1))));
    });
    assert!(error.to_string().contains("form a loop: r1 -> r2 -> r1"), "{error}");
    let error = refused(&|net| {
        let (a, r) = (net.host("a"), net.router("r"));
        net.duplex(a, r, line);
        net.flow(FlowSpec::udp("into a router", a, r, constant(Rate::from_mbit(1))));
    });
    assert!(error.to_string().contains("r is a router"), "{error}");
    let error = refused(&|net| {
        let (a, b) = (net.host("a"), net.host("b"));
        net.duplex(a, b, line);
        net.flow(FlowSpec::udp("bulk", a, b, Workload::BULK));
    });
    assert!(error.to_string().contains("needs TCP"), "{error}");
    let error = refused(&|net| {
        net.host("a");
        net.host("a");
    });
    assert_eq!(error.to_string(), "two nodes are called a");
}

/// Breaks law 3: announces a departure and releases nothing.
struct Liar(Fifo<SimPacket>);

impl Qdisc<SimPacket> for Liar {
    fn enqueue(&mut self, now: Instant, packet: SimPacket, out: &mut dyn Outlet<SimPacket>) -> Queued {
        self.0.enqueue(now, packet, out)
    }
    fn dequeue(&mut self, _now: Instant, _out: &mut dyn Outlet<SimPacket>) -> Option<SimPacket> {
        None
    }
    fn deadline(&self, _now: Instant) -> Deadline {
        Deadline::Now
    }
    fn backlog(&self) -> Backlog {
        self.0.backlog()
    }
}

#[test]
#[should_panic(expected = "link a->b keeps promising a packet")]
fn a_discipline_that_breaks_its_promise_is_named() {
    let mut net = Network::new(1);
    let (a, b) = (net.host("a"), net.host("b"));
    let link = net.simplex(a, b, Line::new(Rate::from_mbit(1), Span::ZERO));
    net.queue(link, Liar(Fifo::new(Limit::NONE)));
    net.flow(FlowSpec::udp("one", a, b, constant(Rate::from_mbit(1))));
    net.build().unwrap().run_until(millis(10));
}

#[test]
fn a_shared_discipline_can_be_changed_on_the_way() {
    let mut net = Network::new(1);
    let (a, b) = (net.host("a"), net.host("b"));
    let link = net.simplex(a, b, Line::new(Rate::from_mbit(100), Span::ZERO));
    let shaper = tidegate_sim::Shared::new(EveryThree(Fifo::new(Limit::packets(1000)), Instant::ZERO));
    net.queue(link, shaper.clone());
    let flow = net.flow(FlowSpec::udp("cbr", a, b, constant(Rate::from_mbit(12))));
    let mut sim = net.build().unwrap();
    sim.run_until(millis(299));
    // A packet each millisecond; one in three leaves, at 0, 3, ..., 297 ms.
    assert_eq!((sim.flow(flow).arrived_total().packets, shaper.borrow().backlog().packets), (100, 200));
    // Held for a second, then let go.
    shaper.borrow_mut().1 = millis(1_300);
    sim.kick(link);
    sim.run_until(millis(1_299));
    assert_eq!(sim.flow(flow).arrived_total().packets, 100);
    shaper.borrow_mut().1 = millis(1_299);
    sim.kick(link);
    sim.run_until(millis(1_300));
    assert_eq!(sim.flow(flow).arrived_total().packets, 101);
}
