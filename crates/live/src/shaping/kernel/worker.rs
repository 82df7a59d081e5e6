//! The thread of a data path in the kernel: it reads what the program has counted, and answers the control plane.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use tidegate_core::accounts::Account;
use tidegate_core::qdisc::Backlog;
use tidegate_core::{Bytes, ClassId};
use tidegate_engine::guard::lock;
use tidegate_engine::{Sink, Totals};
use tidegate_units::{Instant, Span};

use super::options::FBQ_CLASSES;
use super::options::counters::{
    ARRIVED_PACKETS, EARLY_PACKETS, EMPTIED, FLUSHED_PACKETS, FULL_PACKETS, LONGEST, MOVED_IN_PACKETS,
    MOVED_OUT_PACKETS, OVERHEAD_BYTES, QUEUED_PACKETS, SENT_PACKETS, V4_PACKETS, V6_PACKETS, WAITS, WORDS as COUNTERS,
};
use super::programs::Discipline;
use crate::guardian::LONGEST_WAIT;
use crate::marks::MarkLayout;
use crate::netlink::Error;
use crate::shaping::interfaces::InterfaceCounters;
use crate::shaping::watchdog::WorkerState;
use crate::shaping::worker::{Command, LiveEngine, VerdictSink, WorkerCounts};
use crate::timing::{self, Priority, Readiness, Waiter};

const BUCKETS: usize = COUNTERS - WAITS;
/// The unit of waits in ns, as a power of two.
const UNIT_BITS: u32 = 10;
/// How often flows are read while some are watched.
const LOOK: Span = Span::from_millis(10);

/// What the thread needs.
pub(super) struct KernelWorker {
    pub engine: LiveEngine,
    pub discipline: Arc<Discipline>,
    pub commands: Receiver<Command>,
    pub waker: UnixStream,
    pub state: Arc<WorkerState>,
    pub counters: Arc<InterfaceCounters>,
    pub marks: MarkLayout,
    /// The number of the change that was in force when flows were read last.
    pub read_at: u64,
}

impl KernelWorker {
    /// Runs until [`Command::Stop`].
    pub fn run(mut self, ready: &Sender<Readiness>) -> Result<WorkerCounts, Error> {
        // The kernel shapes; this thread only counts.
        self.state.set_thread();
        let _ = ready.send(timing::prepare_thread(Priority::Normal));
        let mut sink = VerdictSink::new(self.marks, Arc::clone(&self.counters), timing::now());
        let (waiter, mut turns) = (Waiter::new(Span::ZERO), 0);
        let mut waits = vec![[0; BUCKETS]; FBQ_CLASSES as usize];
        let mut tables = 0;
        loop {
            // Who watches flows waits for what happens to them.
            let wait = if self.engine.next_poll().is_some() { LOOK } else { LONGEST_WAIT };
            let until = Some(timing::now() + wait);
            waiter
                .wait(&[&self.waker.as_fd()], until)
                .map_err(|source| Error::System { operation: "wait for a command".into(), source })?;
            let mut bytes = [0; 64];
            while (&self.waker).read(&mut bytes).is_ok_and(|n| n == bytes.len()) {}
            self.state.page.beat();
            turns += 1;
            if self.state.is_abandoned() {
                return Ok(self.counts(turns));
            }
            self.discipline.renew();
            let now = timing::now();
            sink.set_time(now);
            self.read(now, &mut waits);
            self.read_flows(now, &mut sink);
            loop {
                match self.commands.try_recv() {
                    Ok(Command::Do(work)) => {
                        work(&mut self.engine, now, &mut sink);
                        let now_are = self.engine.promises(now).tables();
                        if std::mem::replace(&mut tables, now_are) != now_are {
                            self.put_promises(now);
                            self.read_flows(now, &mut sink);
                        }
                    }
                    Ok(Command::Listen(listener)) => sink.listen(listener),
                    Ok(Command::Count(to)) => drop(to.send(self.counts(turns))),
                    Ok(Command::Pass(done)) => drop(done.send(())),
                    // No packet comes here.
                    Ok(Command::Groups(_) | Command::Watch(..) | Command::Leave(..)) => {}
                    Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                        self.read(now, &mut waits);
                        return Ok(self.counts(turns));
                    }
                    Err(TryRecvError::Empty) => break,
                }
            }
        }
    }

    /// Puts in force what the engine has promised.
    fn put_promises(&mut self, now: Instant) {
        let control = self.engine.promises(now);
        let (promised, table) = control.in_force();
        self.discipline.write(|written| match written.promises.replaced(&promised, table) {
            Ok(promises) => written.promises = promises,
            // It was checked before it was handed in.
            Err(why) => self.state.note(format!("the promises are not in force in the kernel: {why}")),
        });
    }

    /// Reads the flows and what is held for others.
    fn read_flows(&mut self, now: Instant, sink: &mut VerdictSink) {
        // A change that comes into force meanwhile may have come before or after what is read.
        let change = self.discipline.flows.in_force().0;
        let (flows, held) = self.discipline.flows.all();
        let continues = self.discipline.flows.in_force().0 == std::mem::replace(&mut self.read_at, change);
        self.engine.set_flows(now, &flows, &held, continues, sink);
    }

    /// Reads what the program has counted.
    fn read(&mut self, now: Instant, before: &mut [[u64; BUCKETS]]) {
        let names = self.engine.class_names();
        let accounts = lock(&self.discipline.accounts);
        // Of all accounts, also those of classes that there are no more.
        let mut all = Totals::default();
        let mut classes = Vec::new();
        for ((account, name), known) in accounts.iter().enumerate().zip(before) {
            let totals = self.totals(account, known);
            all.add(&totals);
            if let Some(class) = names.iter().position(|other| other == name) {
                classes.push((ClassId(class as u32), totals));
            }
        }
        drop(accounts);
        let bytes = all.sent.bytes.saturating_sub(all.overhead).as_u64();
        self.counters.set(0, all.sent.packets, bytes, all.dropped_packets());
        self.engine.set_totals(now, &classes, &all);
    }

    /// Reads what the program has counted in an account, of whose waits the `known` were read before.
    fn totals(&self, account: usize, known: &mut [u64; BUCKETS]) -> Totals {
        let counter = |at: usize| self.discipline.counters.get(account * COUNTERS + at);
        // The words of bytes are behind those of packets.
        let pair = |at: usize| Account { packets: counter(at), bytes: Bytes::new(counter(at + 1)) };
        let mut waits = Vec::new();
        for (bucket, known) in known.iter_mut().enumerate() {
            let count = counter(WAITS + bucket);
            // An account that began anew counts from zero.
            let new = count.checked_sub(*known).unwrap_or(count);
            if new > 0 {
                waits.push((middle(bucket), new));
            }
            *known = count;
        }
        for (version, ethertype) in [(V4_PACKETS, libc::ETH_P_IP), (V6_PACKETS, libc::ETH_P_IPV6)] {
            if counter(version) > 0 {
                self.counters.note(0, ethertype as u16);
            }
        }
        Totals {
            arrived: pair(ARRIVED_PACKETS),
            sent: pair(SENT_PACKETS),
            overhead: Bytes::new(counter(OVERHEAD_BYTES)),
            full: pair(FULL_PACKETS),
            early: pair(EARLY_PACKETS),
            flushed: pair(FLUSHED_PACKETS),
            moved_in: pair(MOVED_IN_PACKETS),
            moved_out: pair(MOVED_OUT_PACKETS),
            backlog: Backlog { packets: counter(QUEUED_PACKETS), bytes: Bytes::new(counter(QUEUED_PACKETS + 1)) },
            emptied: counter(EMPTIED),
            longest: Span::from_nanos(counter(LONGEST)),
            waits,
        }
    }

    fn counts(&self, turns: u64) -> WorkerCounts {
        WorkerCounts {
            passed: self.engine.sent().packets,
            refused: self.engine.dropped(),
            turns,
            usage: timing::thread_usage(),
            ..WorkerCounts::default()
        }
    }
}

/// The packets that wait.
pub(super) fn queued(discipline: &Discipline) -> u64 {
    (0..FBQ_CLASSES as usize).map(|account| discipline.counters.get(account * COUNTERS + QUEUED_PACKETS)).sum()
}

/// The middle of a bucket of waits.
fn middle(bucket: usize) -> Span {
    let lowest = |bucket: u64| match bucket {
        0..=3 => bucket << UNIT_BITS,
        _ => (4 + bucket % 4) << (bucket / 4 - 1) << UNIT_BITS,
    };
    Span::from_nanos(u64::midpoint(lowest(bucket as u64), lowest(bucket as u64 + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,024 ns up to four of them, then four buckets to each doubling.
    #[test]
    fn buckets_follow_each_other() {
        assert_eq!([0, 3, 4, 7, 8].map(|bucket| middle(bucket).as_nanos()), [512, 3_584, 4_608, 7_680, 9_216]);
        assert!((1..BUCKETS).all(|bucket| middle(bucket - 1) < middle(bucket)));
        assert!(middle(BUCKETS - 1) > Span::from_secs(200));
    }
}
