//! [`Waker`]: interrupts the wait of the server's thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Wakes the server, with one system call however often it is called before the server looks.
#[derive(Clone, Debug)]
pub(super) struct Waker {
    fd: Arc<OwnedFd>,
    pending: Arc<AtomicBool>,
}

impl Waker {
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd: Arc::new(fd), pending: Arc::default() })
    }
    pub fn wake(&self) {
        if !self.pending.swap(true, Ordering::AcqRel) {
            let _ = rustix::io::write(&*self.fd, &1_u64.to_ne_bytes());
        }
    }
    /// Called before the server reads what it was woken for.
    pub fn clear(&self) {
        let _ = rustix::io::read(&*self.fd, &mut [0_u8; 8]);
        self.pending.store(false, Ordering::Release);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
