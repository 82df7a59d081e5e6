//! Waiting for descriptors, and the processor time of a thread.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::checked;

/// Descriptors to wait for, at most `N` of them and at most 64.
#[derive(Debug)]
pub struct Readable<'fd, const N: usize> {
    entries: [libc::pollfd; N],
    count: usize,
    descriptors: PhantomData<BorrowedFd<'fd>>,
}

impl<'fd, const N: usize> Readable<'fd, N> {
    /// The first `N` of the descriptors. An absent one is never ready.
    #[inline]
    pub fn new(descriptors: impl IntoIterator<Item = Option<BorrowedFd<'fd>>>) -> Self {
        const { assert!(N <= 64, "a bit for each") };
        let mut entries = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; N];
        let mut count = 0;
        for (entry, descriptor) in entries.iter_mut().zip(descriptors) {
            entry.fd = descriptor.map_or(-1, |descriptor| descriptor.as_raw_fd());
            count += 1;
        }
        Self { entries, count, descriptors: PhantomData }
    }

    /// Waits until one of them is readable, or has an error to be read, but no longer than `at_most`. Bit `i` of the result
    /// represents the `i`-th descriptor; no bit is set when the time has passed.
    ///
    /// # Errors
    /// Those of ppoll(2); [`io::ErrorKind::Interrupted`] when a signal has arrived.
    #[inline]
    pub fn wait(&mut self, at_most: Duration) -> io::Result<u64> {
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(at_most.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let count = self.count as libc::nfds_t;
        // SAFETY: the entries and the time-out are live for the call, and there are so many entries.
        let ready = unsafe { libc::ppoll(self.entries.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) };
        if checked(ready)? == 0 {
            return Ok(0);
        }
        let entries = self.entries[..self.count].iter().enumerate();
        Ok(entries.filter(|(_, entry)| entry.revents != 0).fold(0, |bits, (at, _)| bits | 1 << at))
    }
}

/// The processor time of a thread, and its context switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadUsage {
    /// Time in user mode.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

/// The usage of the calling thread so far.
pub fn thread_usage() -> ThreadUsage {
    // SAFETY: an all-zero rusage is valid and live for the call, which cannot fail with this argument.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| Duration::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64);
    ThreadUsage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn the_bits_are_those_of_the_descriptors_that_can_be_read() {
        let (a, b) = UnixDatagram::pair().unwrap();
        let mut readable = Readable::<3>::new([None, Some(a.as_fd()), Some(b.as_fd()), Some(a.as_fd())]);
        assert_eq!(readable.wait(Duration::ZERO).unwrap(), 0);
        a.send(b"x").unwrap();
        assert_eq!(readable.wait(Duration::from_secs(10)).unwrap(), 0b100);
        b.send(b"x").unwrap();
        assert_eq!(readable.wait(Duration::from_secs(10)).unwrap(), 0b110);
        assert_eq!(Readable::<4>::new([]).wait(Duration::from_micros(1)).unwrap(), 0);
    }
}
