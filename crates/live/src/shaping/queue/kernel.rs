//! [`Kernel`]: the queues of the kernel and the time, as a data path over NFQUEUE needs them.
//!
//! Two implement it: [`Nfqueue`], which is the kernel, and the model of the `referee`, in virtual time, for tests.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use tidegate_units::{Instant, Span};

use crate::netlink::Error;
use crate::nfqueue::{QueueSocket, Ring, SocketCounters, Verdicts};
use crate::timing::{self, Waiter, Woken};

/// See the [module](self).
pub(super) trait Kernel {
    /// The time of the system's clock.
    fn time(&mut self) -> Instant;
    /// Waits for packets and commands until a time; returns whether a command came.
    ///
    /// # Errors
    /// When the system call fails.
    fn wait(&mut self, until: Instant) -> Result<bool, Error>;
    /// Waits for commands alone.
    ///
    /// # Errors
    /// When the system call fails.
    fn wait_for_commands(&mut self, until: Instant) -> Result<(), Error>;
    /// Waits for packets alone; returns whether none came.
    ///
    /// # Errors
    /// When the system call fails.
    fn wait_for_packets(&mut self, until: Instant) -> Result<bool, Error>;
    /// Forgets that commands came, before they are received.
    fn forget_commands(&mut self);
    /// Sleeps.
    fn pause(&mut self, time: Span);

    /// See [`QueueSocket::receive`].
    ///
    /// # Errors
    /// An error after which the queue cannot be read any more.
    fn receive(&mut self, ring: &mut Ring) -> Result<usize, Error>;
    /// See [`QueueSocket::send`].
    ///
    /// # Errors
    /// When the system call fails.
    fn send(&mut self, verdicts: &mut Verdicts) -> Result<(), Error>;
    /// See [`QueueSocket::set_copy_range`].
    ///
    /// # Errors
    /// When the kernel refuses it.
    fn set_copy_range(&mut self, queue: u16, copy_range: u32) -> Result<(), Error>;
    /// See [`QueueSocket::close`].
    ///
    /// # Errors
    /// When the system call fails.
    fn close(&mut self, queues: [u16; 2], received: u32) -> Result<(), Error>;
    /// See [`QueueSocket::counters`].
    fn counters(&self) -> SocketCounters;
}

/// The kernel of this machine.
pub(super) struct Nfqueue {
    pub socket: QueueSocket,
    /// Readable when there is a command.
    pub waker: UnixStream,
    pub waiter: Waiter,
}

fn wait_failed(source: io::Error) -> Error {
    Error::System { operation: "wait for packets".into(), source }
}

impl Kernel for Nfqueue {
    fn time(&mut self) -> Instant {
        timing::now()
    }
    fn wait(&mut self, until: Instant) -> Result<bool, Error> {
        let woken = self.waiter.wait(&[&self.socket.as_fd(), &self.waker.as_fd()], Some(until)).map_err(wait_failed)?;
        Ok(matches!(woken, Woken::Ready(ready) if ready & 2 != 0))
    }
    fn wait_for_commands(&mut self, until: Instant) -> Result<(), Error> {
        self.waiter.wait(&[&self.waker.as_fd()], Some(until)).map_err(wait_failed).map(drop)
    }
    fn wait_for_packets(&mut self, until: Instant) -> Result<bool, Error> {
        let woken = self.waiter.wait(&[&self.socket.as_fd()], Some(until)).map_err(wait_failed)?;
        Ok(woken == Woken::Deadline)
    }
    /// It does not matter how often the waker was written to.
    fn forget_commands(&mut self) {
        let mut bytes = [0; 64];
        while (&self.waker).read(&mut bytes).is_ok_and(|n| n == bytes.len()) {}
    }
    fn pause(&mut self, time: Span) {
        std::thread::sleep(std::time::Duration::from_nanos(time.as_nanos()));
    }

    fn receive(&mut self, ring: &mut Ring) -> Result<usize, Error> {
        self.socket.receive(ring)
    }
    fn send(&mut self, verdicts: &mut Verdicts) -> Result<(), Error> {
        self.socket.send(verdicts)
    }
    fn set_copy_range(&mut self, queue: u16, copy_range: u32) -> Result<(), Error> {
        self.socket.set_copy_range(queue, copy_range)
    }
    fn close(&mut self, queues: [u16; 2], received: u32) -> Result<(), Error> {
        self.socket.close(queues, received)
    }
    fn counters(&self) -> SocketCounters {
        self.socket.counters()
    }
}
