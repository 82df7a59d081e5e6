//! The kernel's counters of each queue.

use std::io;

/// A line of `/proc/net/netfilter/nfnetlink_queue`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueCounters {
    /// The number of the queue.
    pub queue: u16,
    /// The netlink port that serves it.
    pub port: u32,
    /// Packets that wait for a verdict.
    pub waiting: u32,
    /// How many bytes of each packet are copied.
    pub copy_range: u32,
    /// Packets dropped because the queue was full.
    pub dropped_full: u32,
    /// Packets dropped because the socket's receive buffer was full.
    pub dropped_receiver: u32,
    /// Packets queued so far, modulo 2^32: the id of the last one.
    pub sequence: u32,
}

impl QueueCounters {
    /// From a line of the kernel's file.
    pub fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let mut next = || fields.next()?.parse::<u32>().ok();
        let (queue, port, waiting, _mode) = (next()?, next()?, next()?, next()?);
        Some(Self {
            queue: u16::try_from(queue).ok()?,
            port,
            waiting,
            copy_range: next()?,
            dropped_full: next()?,
            dropped_receiver: next()?,
            sequence: next()?,
        })
    }
}

/// The counters of every queue in the calling thread's network namespace.
///
/// # Errors
/// `PermissionDenied` inside an unprivileged user namespace, where the file belongs to the host's root.
pub fn queue_counters() -> io::Result<Vec<QueueCounters>> {
    let text = std::fs::read_to_string("/proc/thread-self/net/netfilter/nfnetlink_queue")?;
    Ok(text.lines().filter_map(QueueCounters::parse).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let counters = QueueCounters::parse("  100  28716     3 2   128     0     7     4711  1").unwrap();
        assert_eq!(
            counters,
            QueueCounters {
                queue: 100,
                port: 28_716,
                waiting: 3,
                copy_range: 128,
                dropped_full: 0,
                dropped_receiver: 7,
                sequence: 4_711
            }
        );
        assert_eq!(QueueCounters::parse(""), None);
        assert_eq!(QueueCounters::parse("70000 1 2 3 4 5 6 7 8"), None);
        assert_eq!(QueueCounters::parse("1 2 x"), None);
    }
}
