//! Memory that is shared with another process or with the kernel.

use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// An empty file in memory that other processes can be given.
///
/// # Errors
/// When the system refuses it.
pub fn memory_file(name: &CStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?)
}

/// Numbers of 64 bits in shared memory. Each is read and written as a whole.
#[derive(Debug)]
pub struct Shared {
    first: NonNull<AtomicU64>,
    count: usize,
    /// The length of the mapping in bytes.
    length: usize,
}

// SAFETY: every access to the memory is an atomic operation; the mapping lives as long as the value.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Gives a file in memory a length of `count` numbers for good, and maps it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn seal(file: BorrowedFd<'_>, count: usize) -> io::Result<Self> {
        rustix::fs::ftruncate(file, count as u64 * 8)?;
        rustix::fs::fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW)?;
        Self::sealed(file, count)
    }

    /// Maps a file in memory of another process, which has `count` numbers and is sealed: a file that can shrink would end
    /// this process at the next access.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] when it has another length or can shrink; otherwise the kernel's.
    pub fn sealed(file: BorrowedFd<'_>, count: usize) -> io::Result<Self> {
        // Files that are not in memory have no seals.
        let seals = rustix::fs::fcntl_get_seals(file).unwrap_or(SealFlags::empty());
        let size = rustix::fs::fstat(file)?.st_size;
        if !seals.contains(SealFlags::SHRINK) || u64::try_from(size) != Ok(count as u64 * 8) {
            let text = format!("it is no sealed memory of {count} numbers");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Self::map(file, count * 8)
    }

    /// Maps so many bytes of a descriptor that cannot become shorter.
    pub(crate) fn map(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses a place where nothing is mapped.
        let memory = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0)
        }?;
        let first = NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(Self { first, count: length / 8, length })
    }

    /// The numbers.
    #[inline]
    pub fn numbers(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, at least as long, and lives as long as `self`; all bit patterns of atomic
        // integers are valid.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and no reference to it outlives `self`. That it cannot be
        // removed would leave memory mapped, which is sound.
        let _ = unsafe { rustix::mm::munmap(self.first.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_maps_of_a_file_share_its_numbers() {
        let file = memory_file(c"test").unwrap();
        let one = Shared::seal(file.as_fd(), 512).unwrap();
        let other = Shared::sealed(file.as_fd(), 512).unwrap();
        one.numbers()[511].store(7, Ordering::Release);
        assert_eq!(other.numbers()[511].load(Ordering::Acquire), 7);
        assert_eq!(other.numbers().len(), 512);
    }

    #[test]
    fn a_file_that_can_shrink_or_has_another_length_is_refused() {
        let refused = |file: BorrowedFd<'_>| Shared::sealed(file, 512).unwrap_err().kind();
        let file = memory_file(c"test").unwrap();
        rustix::fs::ftruncate(&file, 4_096).unwrap();
        assert_eq!(refused(file.as_fd()), io::ErrorKind::InvalidData, "without seals");
        rustix::fs::fcntl_add_seals(&file, SealFlags::GROW).unwrap();
        assert_eq!(refused(file.as_fd()), io::ErrorKind::InvalidData, "it can shrink");
        let file = memory_file(c"test").unwrap();
        Shared::seal(file.as_fd(), 511).unwrap();
        assert_eq!(refused(file.as_fd()), io::ErrorKind::InvalidData, "of another length");
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(refused(file.as_fd()), io::ErrorKind::InvalidData, "of a disk");
    }
}
