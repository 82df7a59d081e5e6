//! How the kernel finds a packet for its verdict, and how many packets can therefore wait.
//!
//! *Law*: where the kernel walks through its queue, at most [`MOST_WALKED`] packets and the parts of the other classes wait; a
//! class loses nothing of its part by rate, a flow nothing of its granted minimum.
//! *Cost*: on Linux 6.1 in a virtual machine 10 ns for each packet that waits before the one that leaves.

use std::fs;

/// The most packets that wait where each is walked past: 49 ms of full-sized packets at 1 Gbit/s. A verdict then costs half
/// as much again as with an empty queue.
pub(crate) const MOST_WALKED: u32 = 4_096;

/// How a kernel finds a packet in its queue when the verdict about it comes out of order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Search {
    /// By a hash, in constant time.
    Hash,
    /// By the hash as it was first backported, whose entries may be used after they were freed.
    UnsafeHash,
    /// By a walk through all that is queued before it.
    Walk,
}

impl Search {
    /// The search of the kernel of this release: Linux 7.0 has the hash, and so have 6.12 from its 107th update and 6.18 from its
    /// 14th, which was repaired in the 25th. `None` for what is no release.
    pub(crate) fn of(release: &str) -> Option<Self> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let (major, minor): (u32, u32) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        let update = numbers.next().and_then(Result::ok).unwrap_or(0);
        Some(match (major, minor, update) {
            (7.., ..) | (6, 12, 107..) | (6, 18, 25..) => Self::Hash,
            (6, 18, 14..) => Self::UnsafeHash,
            _ => Self::Walk,
        })
    }
}

/// The release of the running kernel.
pub(crate) fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// The most packets that may wait in the running kernel, if the cost of a verdict depends on it.
pub(crate) fn most_affordable() -> Option<u32> {
    (Search::of(&release()) == Some(Search::Walk)).then_some(MOST_WALKED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each branch of the stable series is judged by its own updates.
    #[test]
    fn kernels_that_walk_the_queue_are_known() {
        for (release, search) in [
            ("6.1.0-50-amd64", Search::Walk),
            ("6.12.94+deb13-amd64", Search::Walk),
            ("6.12.107+deb13-amd64", Search::Hash),
            ("6.17.9", Search::Walk),
            ("6.18.13", Search::Walk),
            ("6.18.14", Search::UnsafeHash),
            ("6.18.24-arch1-1", Search::UnsafeHash),
            ("6.18.25", Search::Hash),
            ("6.19-rc3", Search::Walk),
            ("7.0.0-rc1", Search::Hash),
            ("10.2", Search::Hash),
        ] {
            assert_eq!(Search::of(release), Some(search), "{release}");
        }
        assert_eq!(Search::of("custom"), None);
    }
}
