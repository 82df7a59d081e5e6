//! The laws for FIFO; and for disciplines that violate one law each, as a test of the laws.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::fbq::{ClassParams, Fbc, FbcParams};
use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{
    Accounted, Backlog, Bytes, Deadline, DropReason, Ecn, Event, Instant, Outlet, Qdisc, Queued, Rate, Span,
};
use tidegate_laws::script::{Op, make};
use tidegate_laws::{CodePoints, Report, Shape, TestPacket, check, check_seeds};
use tidegate_testbed::share;

#[test]
fn fifo_obeys_the_laws() {
    let limit = Limit { packets: 20, bytes: Bytes::new(12_000) };
    let report = check_seeds(|| Accounted::new(Fifo::new(limit)), &Shape::default(), share(520), 2_000);
    assert!(report.dropped > share(1_000) && report.dequeued > share(10_000), "{report:?}");
}

/// A FIFO with one fault.
struct Broken {
    inner: Fifo<TestPacket>,
    fault: Fault,
    calls: u64,
    latest: Instant,
    /// The packet that left last.
    last: Option<TestPacket>,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    LosesAPacket,
    Duplicates,
    DropsTwice,
    ChangesTheSize,
    ChangesTheFlow,
    ForgetsTheBacklog,
    MiscountsPackets,
    KeepsAPacket,
    IsLate,
    IsEarly,
    IsNeverReady,
    NamesThePast,
    PromisesTooSoon,
    IsIdleWithPackets,
    DependsOnTheRun,
    Reorders,
    LooksBack,
}

/// Dequeues of all copies together: what a discipline must not depend on.
static DEQUEUES: AtomicU64 = AtomicU64::new(0);

impl Qdisc<TestPacket> for Broken {
    fn enqueue(&mut self, now: Instant, packet: TestPacket, out: &mut dyn Outlet<TestPacket>) -> Queued {
        self.calls += 1;
        let backwards = now < self.latest;
        self.latest = self.latest.max(now);
        match self.fault {
            Fault::LosesAPacket if self.calls.is_multiple_of(50) => Queued::default(),
            Fault::LooksBack if backwards => out.refused(packet, DropReason::TooOld),
            Fault::DropsTwice if self.calls.is_multiple_of(50) => {
                out.dropped(packet, DropReason::Early);
                out.refused(packet, DropReason::Early)
            }
            _ => self.inner.enqueue(now, packet, out),
        }
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<TestPacket>) -> Option<TestPacket> {
        self.latest = self.latest.max(now);
        let backlog = self.inner.backlog().packets;
        match self.fault {
            Fault::Duplicates if backlog == 0 && self.last.is_some() => return self.last.take(),
            Fault::KeepsAPacket if backlog == 1 => return None,
            Fault::IsNeverReady => return None,
            Fault::DependsOnTheRun if DEQUEUES.fetch_add(1, Ordering::Relaxed).is_multiple_of(7) => {
                let packet = self.inner.dequeue(now, out)?;
                out.dropped(packet, DropReason::Early);
                return None;
            }
            _ => {}
        }
        let mut first = self.inner.dequeue(now, out)?;
        if self.fault == Fault::Reorders
            && let Some(second) = self.inner.dequeue(now, out)
        {
            self.inner.enqueue(now, first, out);
            return Some(second);
        }
        self.last = Some(first);
        match self.fault {
            Fault::ChangesTheSize => first.size += Bytes::new(1),
            Fault::ChangesTheFlow => first.flow.flow += 1,
            _ => {}
        }
        Some(first)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        match (self.fault, self.inner.deadline(now)) {
            (Fault::IsLate, Deadline::Now) => Deadline::At(now + Span::from_micros(1)),
            (Fault::IsEarly, Deadline::Idle) => Deadline::Now,
            (Fault::NamesThePast, Deadline::Now) => Deadline::At(now),
            (Fault::PromisesTooSoon, Deadline::Idle) => Deadline::At(now + Span::from_micros(1)),
            (Fault::IsIdleWithPackets, _) => Deadline::Idle,
            (_, deadline) => deadline,
        }
    }
    fn backlog(&self) -> Backlog {
        let mut backlog = self.inner.backlog();
        match self.fault {
            Fault::ForgetsTheBacklog if backlog.packets > 3 => {
                backlog.bytes = backlog.bytes.saturating_sub(Bytes::new(1));
            }
            Fault::MiscountsPackets if backlog.packets > 3 => backlog.packets += 1,
            _ => {}
        }
        backlog
    }
}

#[test]
fn every_fault_is_found_and_shrunk() {
    for (fault, law) in [
        (Fault::LosesAPacket, "law 1: the backlog"),
        (Fault::Duplicates, "law 1: packet 0 left, but it was not queued"),
        (Fault::DropsTwice, "law 1: packet 49 dropped, but it was not queued"),
        (Fault::ChangesTheSize, "law 1: packet 0 left with another size or flow"),
        (Fault::ChangesTheFlow, "law 1: packet 0 left with another size or flow"),
        (Fault::ForgetsTheBacklog, "law 1: the backlog"),
        (Fault::MiscountsPackets, "law 1: the backlog"),
        (Fault::KeepsAPacket, "law 3: deadline Now"),
        (Fault::IsLate, "law 3: dequeue had an effect 1 ns before"),
        (Fault::IsEarly, "law 3: deadline Now"),
        (Fault::IsNeverReady, "law 3: deadline Now"),
        (Fault::NamesThePast, "law 3: deadline At"),
        (Fault::PromisesTooSoon, "law 3: dequeue had no effect at the deadline"),
        (Fault::IsIdleWithPackets, "law 3: "),
        (Fault::DependsOnTheRun, "law 5"),
        (Fault::Reorders, "law 6: packet 0 left after 1 of its flow"),
        (Fault::LooksBack, "law 2"),
    ] {
        let fresh = || Broken { inner: Fifo::new(Limit::NONE), fault, calls: 0, latest: Instant::ZERO, last: None };
        let violation = (0..20)
            .find_map(|seed| check(fresh, &Shape::default(), seed, 2_000).err())
            .expect("the laws must find the fault");
        assert!(violation.what.starts_with(law), "{violation:?}");
        // A wrong deadline of an empty queue shows without a step; every other fault needs a packet.
        let at_rest = matches!(fault, Fault::IsEarly | Fault::PromisesTooSoon);
        let has_packets = violation.script.iter().any(|op| matches!(op, Op::Enqueue(_)));
        assert_eq!(has_packets, !at_rest, "{violation:?}");
        // A fault that shows at every fiftieth packet needs fifty; every other needs a few steps.
        let most = if matches!(fault, Fault::LosesAPacket | Fault::DropsTwice) { 52 } else { 12 };
        assert!(violation.script.len() <= most, "not shrunk: {violation:?}");
        let text = format!("{violation:?}");
        assert!(text.starts_with(&violation.what) && text.lines().count() == 1 + violation.script.len(), "{text}");
    }
}

/// A discipline that keeps a packet for ever violates law 3 even where no script asks for its deadline.
#[test]
fn what_stays_behind_is_found_at_the_end() {
    let fresh = || Broken {
        inner: Fifo::new(Limit::NONE),
        fault: Fault::IsIdleWithPackets,
        calls: 0,
        latest: Instant::ZERO,
        last: None,
    };
    // Hardly any step of these scripts asks for a deadline.
    let shape = Shape { enqueues: 250, ..Shape::default() };
    let violation = check(fresh, &shape, 1, 12).expect_err("packets are queued at the end");
    assert_eq!(violation.what, "law 3: Idle, but a dequeue a second later had an effect");
    assert_eq!(violation.script.len(), 1, "one packet suffices: {violation:?}");
}

/// The deadline that a discipline reports instead of its own.
type WrongDeadline = fn(Deadline) -> Deadline;

/// A shaper whose deadlines are wrong where they are in the future, or that reports an event that depends on the run.
struct Wrong {
    inner: Fbc<TestPacket>,
    fault: WrongDeadline,
    reports: bool,
}

impl Qdisc<TestPacket> for Wrong {
    fn enqueue(&mut self, now: Instant, packet: TestPacket, out: &mut dyn Outlet<TestPacket>) -> Queued {
        if self.reports {
            let flow = DEQUEUES.fetch_add(1, Ordering::Relaxed);
            out.event(Event::FlowStarted { flow, class: packet.class });
        }
        self.inner.enqueue(now, packet, out)
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<TestPacket>) -> Option<TestPacket> {
        self.inner.dequeue(now, out)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        (self.fault)(self.inner.deadline(now))
    }
    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }
}

#[test]
fn a_deadline_wrong_by_a_nanosecond_and_an_event_of_chance_are_found() {
    let late = |deadline| match deadline {
        Deadline::At(t) => Deadline::At(t + Span::from_nanos(1)),
        other => other,
    };
    let idle = |deadline| match deadline {
        Deadline::At(_) => Deadline::Idle,
        other => other,
    };
    let cases: [(WrongDeadline, bool, &str); 3] = [
        (late, false, "law 3: dequeue had an effect 1 ns before the deadline"),
        (idle, false, "law 3: Idle, but a dequeue a second later had an effect"),
        (|deadline| deadline, true, "law 5: the same script gave different outputs"),
    ];
    for (fault, reports, law) in cases {
        let fresh = || {
            let class = ClassParams::new(Rate::from_mbit(10));
            let inner = Fbc::new(FbcParams::new(Rate::from_mbit(10)), vec![class], vec![], Instant::ZERO);
            Wrong { inner: inner.expect("valid parameters"), fault, reports }
        };
        let shape = Shape { classes: 1, ..Shape::default() };
        let violation = check(fresh, &shape, 1, 500).expect_err("the laws must find the fault");
        assert!(violation.what.starts_with(law), "{violation:?}");
    }
}

/// A queue for ECT(1) and CE with precedence over one for other packets, as in RFC 9332.
struct TwoQueues([Fifo<TestPacket>; 2]);

impl Qdisc<TestPacket> for TwoQueues {
    fn enqueue(&mut self, now: Instant, packet: TestPacket, out: &mut dyn Outlet<TestPacket>) -> Queued {
        let queue = usize::from(!matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce));
        self.0[queue].enqueue(now, packet, out)
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<TestPacket>) -> Option<TestPacket> {
        self.0.iter_mut().find_map(|queue| queue.dequeue(now, out))
    }
    fn deadline(&self, _now: Instant) -> Deadline {
        if self.backlog().packets > 0 { Deadline::Now } else { Deadline::Idle }
    }
    fn backlog(&self) -> Backlog {
        let [first, second] = self.0.each_ref().map(|queue| queue.backlog());
        Backlog { packets: first.packets + second.packets, bytes: first.bytes + second.bytes }
    }
}

/// A discipline that queues by the ECN field keeps the order of a flow as long as its packets keep their code point.
#[test]
fn two_queues_by_code_point_need_flows_that_keep_theirs() {
    let fresh = || TwoQueues([Fifo::new(Limit::packets(20)), Fifo::new(Limit::packets(20))]);
    let kept = Shape { ecn: CodePoints::OfFlows, ..Shape::default() };
    let report = check_seeds(fresh, &kept, share(100), 2_000);
    assert!(report.dropped > share(200) && report.dequeued > share(2_000), "{report:?}");
    let violation = check(fresh, &Shape::default(), 0, 2_000).expect_err("the packets of a flow overtake");
    assert!(violation.what.starts_with("law 6"), "{violation:?}");
}

#[test]
fn reports_add_up() {
    // A shaper with a short queue: it drops, and it has deadlines in the future.
    let class = ClassParams { limit: Bytes::new(6_000), ..ClassParams::new(Rate::from_mbit(10)) };
    let params = FbcParams::new(Rate::from_mbit(10));
    let fresh = || Fbc::new(params, vec![class], vec![], Instant::ZERO).expect("valid parameters");
    let shape = Shape { classes: 1, ..Shape::default() };
    let one: Vec<Report> = (0..3).map(|seed| check(fresh, &shape, seed, 500).expect("it obeys the laws")).collect();
    let all = check_seeds(fresh, &shape, 3, 500);
    let script = make(&shape, 0, 500);
    let count = |of: fn(&Op) -> bool| script.iter().filter(|op| of(op)).count() as u64;
    assert_eq!(one[0].backwards, count(|op| matches!(op, Op::Back(_))));
    assert_eq!(one[0].enqueued, count(|op| matches!(op, Op::Enqueue(_))));
    let sum = |of: fn(&Report) -> u64| one.iter().map(of).sum::<u64>();
    assert_eq!(all.steps, 1_500);
    assert_eq!((all.enqueued, all.dequeued), (sum(|r| r.enqueued), sum(|r| r.dequeued)));
    assert_eq!((all.dropped, all.backwards), (sum(|r| r.dropped), sum(|r| r.backwards)));
    assert_eq!((all.deadlines, all.most_drops_a_call), (sum(|r| r.deadlines), 1));
    // At a deadline of this shaper one packet leaves.
    assert!(one.iter().all(|r| r.deadlines > 0 && r.deadlines <= r.dequeued), "{one:?}");
    assert_eq!(all.enqueued, all.dequeued + all.dropped, "every packet leaves or is dropped");
    assert!(one.iter().all(|r| r.backwards > 0 && r.dropped > 0 && r.dequeued > 0), "{one:?}");
}
