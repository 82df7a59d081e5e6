//! A line with a propagation delay, where the kernel has no netem: two TUN devices in two namespaces, and a thread for each
//! direction that hands every packet over when its time has come.
//!
//! *Law*: packets arrive in their order, each `delay` after it was sent; none is lost as long as less than
//! `WAITING` of them come while the thread does not run. The error is the time in which a thread wakes up: some 60 us,
//! and what a busy machine takes.
//! *Notes*: a TUN device has no offloads, so packets have the size that the MTU allows, as on a slow line.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// A line between two interfaces. They go away with it.
#[derive(Debug)]
pub struct DelayLine {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl DelayLine {
    /// Makes an interface in each of two namespaces, down and without addresses, and a line of `delay` each way between
    /// them.
    ///
    /// # Errors
    /// When the machine has no TUN devices, or refuses one.
    pub fn create(ends: [(&Namespace, &str); 2], delay: Duration) -> io::Result<Self> {
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
        let way = |from: &Arc<OwnedFd>, to: &Arc<OwnedFd>| {
            let (from, to, stop) = (Arc::clone(from), Arc::clone(to), Arc::clone(&stop));
            thread::Builder::new().name("delay".into()).spawn(move || carry(&from, &to, delay, &stop))
        };
        let threads = vec![way(&near, &far)?, way(&far, &near)?];
        Ok(Self { stop, threads })
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

fn carry(from: &OwnedFd, to: &OwnedFd, delay: Duration, stop: &AtomicBool) {
    /// How soon the end is noticed.
    const IDLE: Duration = Duration::from_millis(50);
    let _ = nix::sys::prctl::set_timerslack(1);
    let mut on_the_way = VecDeque::<(Instant, Box<[u8]>)>::new();
    let mut buffer = vec![0; tun::MAX_MTU as usize];
    while !stop.load(Ordering::Relaxed) {
        let wait = on_the_way.front().map_or(IDLE, |(due, _)| due.saturating_duration_since(Instant::now()).min(IDLE));
        let _ = ppoll(&mut [PollFd::new(from.as_fd(), PollFlags::POLLIN)], Some(wait.into()), None);
        loop {
            let now = Instant::now();
            while let Some((_, packet)) = on_the_way.pop_front_if(|(due, _)| *due <= now) {
                // A device that is down takes nothing, as a cable without a plug.
                let _ = write(to, &packet);
            }
            match read(from, &mut buffer) {
                Ok(length) => on_the_way.push_back((now + delay, buffer[..length].into())),
                Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
    }
}
