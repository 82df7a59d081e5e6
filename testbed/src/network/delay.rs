//! A line with a propagation delay, where the kernel has no netem: two TUN devices in two namespaces, and a thread for each
//! direction that hands every packet over when its time has come. A direction can have a rate that varies, behind a buffer, as a
//! recorded line has ([`Capacity`]).
//!
//! *Law*: packets arrive in their order, each `delay` after it was sent; none is lost as long as less than
//! `WAITING` of them come while the thread does not run. The error is the time in which a thread wakes up: some 60 us,
//! and what a busy machine takes.
//! *Notes*: a TUN device has no offloads, so packets have the size that the MTU allows, as on a slow line.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::unistd::{read, write};
use tidegate_live::netns::Namespace;
use tidegate_live::rtnl::Rtnl;
use tidegate_live::tun;

/// The packets that a device holds while its thread does not run: two seconds of 50 Mbit/s.
const WAITING: u32 = 10_000;

/// The capacity of a direction of a line, and the buffer before it.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// The bytes of IP packets that it carries in each millisecond; it begins again after the last one. What is not used in a
    /// millisecond is lost, but for a packet that has begun.
    pub bytes: Arc<[u32]>,
    /// The packets for which the buffer has room. Those beyond it are dropped.
    pub room: usize,
}

/// A packet that left the buffer of a line.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// When it left, since [`DelayLine::restart`].
    pub at: Duration,
    /// How long it was in the buffer.
    pub wait: Duration,
    /// Bytes of the IP packet.
    pub bytes: usize,
}

/// The packets that left, and the moment at which the capacity began.
#[derive(Debug)]
struct Record {
    began: Instant,
    carried: Vec<Carried>,
}

/// A line between two interfaces. They go away with it.
#[derive(Debug)]
pub struct DelayLine {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    records: [Arc<Mutex<Record>>; 2],
}

impl DelayLine {
    /// Makes an interface in each of two namespaces, down and without addresses, and a line of `delay` each way between
    /// them.
    ///
    /// # Errors
    /// When the machine has no TUN devices, or refuses one.
    pub fn create(ends: [(&Namespace, &str); 2], delay: Duration) -> io::Result<Self> {
        Self::create_with(ends, delay, [None, None])
    }

    /// As [`DelayLine::create`], with a capacity from the first end to the second, and one back.
    ///
    /// # Errors
    /// When the machine has no TUN devices, or refuses one.
    pub fn create_with(
        ends: [(&Namespace, &str); 2],
        delay: Duration,
        capacities: [Option<Capacity>; 2],
    ) -> io::Result<Self> {
        let device = |(namespace, name): (&Namespace, &str)| {
            namespace.run(|| -> io::Result<Arc<OwnedFd>> {
                let device = tun::create(name)?;
                let mut rtnl = Rtnl::open().map_err(io::Error::other)?;
                let index = rtnl.index(name).map_err(io::Error::other)?;
                rtnl.set_queue_length(index, WAITING).map_err(io::Error::other)?;
                Ok(Arc::new(device))
            })?
        };
        let [near, far] = [device(ends[0])?, device(ends[1])?];
        let stop = Arc::new(AtomicBool::new(false));
        let record = || Arc::new(Mutex::new(Record { began: Instant::now(), carried: Vec::new() }));
        let records = [record(), record()];
        let [forth, back] = capacities;
        let way = |from: &Arc<OwnedFd>, to: &Arc<OwnedFd>, capacity: Option<Capacity>, record: &Arc<Mutex<Record>>| {
            let (from, to, stop) = (Arc::clone(from), Arc::clone(to), Arc::clone(&stop));
            let buffer = capacity.map(|capacity| Buffer::new(capacity, Arc::clone(record)));
            thread::Builder::new().name("delay".into()).spawn(move || carry(&from, &to, delay, buffer, &stop))
        };
        let threads = vec![way(&near, &far, forth, &records[0])?, way(&far, &near, back, &records[1])?];
        Ok(Self { stop, threads, records })
    }

    /// Begins with the first millisecond of the capacities, and forgets what was carried.
    pub fn restart(&self) {
        for record in &self.records {
            *lock(record) = Record { began: Instant::now(), carried: Vec::new() };
        }
    }

    /// The packets that were carried since [`DelayLine::restart`], in each direction that has a capacity.
    pub fn carried(&self) -> [Vec<Carried>; 2] {
        self.records.each_ref().map(|record| lock(record).carried.clone())
    }
}

impl Drop for DelayLine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The buffer before a direction with a capacity.
struct Buffer {
    capacity: Capacity,
    record: Arc<Mutex<Record>>,
    waiting: VecDeque<(Instant, Box<[u8]>)>,
    /// Bytes of the packet at the front that have gone.
    begun: usize,
    /// The beginning of the capacity, and the milliseconds of it that are over.
    over: (Instant, u64),
}

impl Buffer {
    fn new(capacity: Capacity, record: Arc<Mutex<Record>>) -> Self {
        let began = lock(&record).began;
        Self { capacity, record, waiting: VecDeque::new(), begun: 0, over: (began, 0) }
    }

    fn add(&mut self, now: Instant, packet: &[u8]) {
        if self.waiting.len() < self.capacity.room {
            self.waiting.push_back((now, packet.into()));
        }
    }

    /// The time until the present millisecond is over.
    fn next(&self, now: Instant) -> Duration {
        let next = self.over.0 + Duration::from_millis(self.over.1 + 1);
        next.saturating_duration_since(now)
    }

    /// Passes the packets that have gone by `now` to `leaves`.
    fn run(&mut self, now: Instant, mut leaves: impl FnMut(Box<[u8]>)) {
        let mut record = lock(&self.record);
        if record.began != self.over.0 {
            self.over = (record.began, 0);
        }
        let millis = now.saturating_duration_since(self.over.0).as_millis() as u64;
        while self.over.1 < millis {
            let mut bytes = self.capacity.bytes[(self.over.1 % self.capacity.bytes.len() as u64) as usize] as usize;
            self.over.1 += 1;
            let at = Duration::from_millis(self.over.1);
            while let Some((came, packet)) = self.waiting.front() {
                // Packets that came later would go back in time.
                let wait = (self.over.0 + at).saturating_duration_since(*came);
                if *came > self.over.0 + at || packet.len() - self.begun > bytes {
                    break;
                }
                bytes -= packet.len() - self.begun;
                self.begun = 0;
                record.carried.push(Carried { at, wait, bytes: packet.len() });
                if let Some((_, packet)) = self.waiting.pop_front() {
                    leaves(packet);
                }
            }
            let has_begun = self.waiting.front().is_some_and(|(came, _)| *came <= self.over.0 + at);
            self.begun = if has_begun { self.begun + bytes } else { 0 };
        }
    }
}

fn carry(from: &OwnedFd, to: &OwnedFd, delay: Duration, mut line: Option<Buffer>, stop: &AtomicBool) {
    /// How soon the end is noticed.
    const IDLE: Duration = Duration::from_millis(50);
    let _ = nix::sys::prctl::set_timerslack(1);
    let mut on_the_way = VecDeque::<(Instant, Box<[u8]>)>::new();
    let mut buffer = vec![0; tun::MAX_MTU as usize];
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        let wait = on_the_way.front().map_or(IDLE, |(due, _)| due.saturating_duration_since(now).min(IDLE));
        let wait = line.as_ref().map_or(wait, |line| line.next(now).min(wait));
        let _ = ppoll(&mut [PollFd::new(from.as_fd(), PollFlags::POLLIN)], Some(wait.into()), None);
        loop {
            let now = Instant::now();
            if let Some(line) = &mut line {
                line.run(now, |packet| on_the_way.push_back((now + delay, packet)));
            }
            while let Some((_, packet)) = on_the_way.pop_front_if(|(due, _)| *due <= now) {
                // A device that is down takes nothing, as a cable without a plug.
                let _ = write(to, &packet);
            }
            match read(from, &mut buffer) {
                Ok(length) => match &mut line {
                    Some(line) => line.add(now, &buffer[..length]),
                    None => on_the_way.push_back((now + delay, buffer[..length].into())),
                },
                Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
    }
}
