//! The laws for FIFO; and for disciplines that violate one law each, as a test of the laws.

use tidegate_core::fifo::{Fifo, Limit};
use tidegate_core::{Accounted, Backlog, Bytes, Deadline, Instant, Outlet, Qdisc, Span};
use tidegate_laws::{Shape, TestPacket, check, check_seeds};

#[test]
fn fifo_obeys_the_laws() {
    let limit = Limit { packets: 20, bytes: Bytes::new(12_000) };
    let report = check_seeds(|| Accounted::new(Fifo::new(limit)), &Shape::default(), 520, 2_000);
    assert!(report.dropped > 1_000 && report.dequeued > 10_000, "{report:?}");
}

/// A FIFO with one fault.
struct Broken {
    inner: Fifo<TestPacket>,
    fault: Fault,
    calls: u64,
    latest: Instant,
}

#[derive(Clone, Copy)]
enum Fault {
    LosesAPacket,
    ForgetsTheBacklog,
    IsLate,
    IsEarly,
    Reorders,
    LooksBack,
}

impl Qdisc<TestPacket> for Broken {
    fn enqueue(&mut self, now: Instant, packet: TestPacket, out: &mut dyn Outlet<TestPacket>) {
        self.calls += 1;
        let backwards = now < self.latest;
        self.latest = self.latest.max(now);
        match self.fault {
            Fault::LosesAPacket if self.calls.is_multiple_of(50) => {}
            Fault::LooksBack if backwards => out.dropped(packet, tidegate_core::DropReason::TooOld),
            _ => self.inner.enqueue(now, packet, out),
        }
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<TestPacket>) -> Option<TestPacket> {
        self.latest = self.latest.max(now);
        let first = self.inner.dequeue(now, out)?;
        if matches!(self.fault, Fault::Reorders)
            && let Some(second) = self.inner.dequeue(now, out)
        {
            self.inner.enqueue(now, first, out);
            return Some(second);
        }
        Some(first)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        match (self.fault, self.inner.deadline(now)) {
            (Fault::IsLate, Deadline::Now) => Deadline::At(now + Span::from_micros(1)),
            (Fault::IsEarly, Deadline::Idle) => Deadline::Now,
            (_, deadline) => deadline,
        }
    }
    fn backlog(&self) -> Backlog {
        let mut backlog = self.inner.backlog();
        if matches!(self.fault, Fault::ForgetsTheBacklog) && backlog.packets > 3 {
            backlog.bytes = backlog.bytes.saturating_sub(Bytes::new(1));
        }
        backlog
    }
}

#[test]
fn every_fault_is_found_and_shrunk() {
    for (fault, law) in [
        (Fault::LosesAPacket, "law 1"),
        (Fault::ForgetsTheBacklog, "law 1"),
        (Fault::IsLate, "law 3"),
        (Fault::IsEarly, "law 3"),
        (Fault::Reorders, "law 6"),
        (Fault::LooksBack, "law 2"),
    ] {
        let fresh = || Broken { inner: Fifo::new(Limit::NONE), fault, calls: 0, latest: Instant::ZERO };
        let violation = (0..20)
            .find_map(|seed| check(fresh, &Shape::default(), seed, 2_000).err())
            .expect("the laws must find the fault");
        assert!(violation.what.starts_with(law), "{violation:?}");
        assert!(violation.script.len() <= 60, "not shrunk: {violation:?}");
    }
}
