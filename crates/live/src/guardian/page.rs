//! [`Page`]: the memory that a shaper and its guardian share.
//!
//! *Law*: [`Turn`] is that of the two that receives packets and sends verdicts. The guardian takes the turn; only the
//! shaper asks for it back, and the guardian returns it between two batches. So no packet has two readers.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The version of [`Fields`] and of the list of held packets. A shaper does not take over from a guardian with another one.
const LAYOUT: u32 = 2;
const SIZE: usize = 4_096;

const SHAPER: u32 = 0;
const GUARDIAN: u32 = 1;
const RETURN: u32 = 2;

/// Who receives packets and sends verdicts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The shaper.
    Shaper,
    /// The guardian, which accepts everything.
    Guardian,
    /// The guardian, and the shaper asks for the turn.
    Return,
}

/// Why the guardian took the turn last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Reason {
    /// The shaper has made no progress.
    Silent = 1,
    /// The process of the shaper has ended.
    Gone = 2,
    /// The shaper asked for it: it is replaced, or its data path has failed.
    Asked = 3,
}

/// How the process of the shaper ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It has not reported it: a fault.
    Unannounced,
    /// Its rules are removed, and no packet is held.
    Orderly,
}

#[repr(C)]
struct Fields {
    layout: AtomicU32,
    turn: AtomicU32,
    reason: AtomicU32,
    ending: AtomicU32,
    /// The id of the last packet of the first queue that the shaper received and whose segmentation it requested.
    received: AtomicU32,
    /// Turns of the data path.
    beats: AtomicU64,
    /// Turns of the guardian.
    guardian_beats: AtomicU64,
    /// How often the guardian took the turn.
    takeovers: AtomicU64,
    /// Packets that the guardian accepted after they had arrived during its turn.
    passed: AtomicU64,
    /// The length of the list of packets that wait for the next data path; 0 if they are not to wait.
    held: AtomicU64,
    /// Packets that data paths have taken from the one before.
    adopted: AtomicU64,
}

/// A page of shared memory with the state that a shaper and its guardian need of each other.
#[derive(Debug)]
pub struct Page {
    fields: NonNull<Fields>,
    descriptor: OwnedFd,
}

// SAFETY: every access to the memory is an atomic operation; the mapping lives as long as the value.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// A new page. The turn is the shaper's.
    ///
    /// # Errors
    /// When the system refuses memory or a descriptor.
    pub fn create() -> io::Result<Self> {
        let descriptor = memory_file(c"tidegate-page")?;
        // SAFETY: a number and a length; the file is ours.
        if unsafe { libc::ftruncate(descriptor.as_raw_fd(), SIZE as libc::off_t) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above. A file that cannot shrink cannot make an access of the mapping fail.
        unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW) };
        let page = Self::map(descriptor)?;
        page.fields().layout.store(LAYOUT, Ordering::Release);
        Ok(page)
    }

    /// Maps the page of another process.
    ///
    /// # Errors
    /// When it is not a page, or has another layout.
    pub fn open(descriptor: OwnedFd) -> io::Result<Self> {
        // SAFETY: an all-zero stat is valid and live for the call.
        let size = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::fstat(descriptor.as_raw_fd(), &mut stat) < 0 {
                return Err(io::Error::last_os_error());
            }
            stat.st_size
        };
        if size != SIZE as libc::off_t {
            return Err(io::Error::other("it is no page of a shaper"));
        }
        let page = Self::map(descriptor)?;
        if page.fields().layout.load(Ordering::Acquire) != LAYOUT {
            return Err(io::Error::other("the page is of another version of Tidegate"));
        }
        Ok(page)
    }

    fn map(descriptor: OwnedFd) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that is at least as long; it overlaps nothing.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), SIZE, access, libc::MAP_SHARED, descriptor.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let fields = NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(Self { fields, descriptor })
    }

    fn fields(&self) -> &Fields {
        // SAFETY: the mapping is page-aligned, longer than the fields, and lives as long as `self`; all bit patterns of
        // atomic integers are valid.
        unsafe { self.fields.as_ref() }
    }

    /// Whose turn it is.
    pub fn turn(&self) -> Turn {
        match self.fields().turn.load(Ordering::Acquire) {
            SHAPER => Turn::Shaper,
            GUARDIAN => Turn::Guardian,
            _ => Turn::Return,
        }
    }
    /// Takes the turn for the guardian, and counts it; `false` if it has it already.
    pub fn take(&self, reason: Reason) -> bool {
        let fields = self.fields();
        fields.reason.store(reason as u32, Ordering::Relaxed);
        let before = fields.turn.swap(GUARDIAN, Ordering::AcqRel);
        let taken = before == SHAPER;
        fields.takeovers.fetch_add(u64::from(taken), Ordering::Relaxed);
        taken
    }
    /// The shaper asks for the turn.
    pub fn ask_back(&self) {
        let turn = &self.fields().turn;
        let _ = turn.compare_exchange(GUARDIAN, RETURN, Ordering::AcqRel, Ordering::Acquire);
    }
    /// Gives the turn to the shaper, if it asks for it.
    pub fn give_back(&self) -> bool {
        let turn = &self.fields().turn;
        turn.compare_exchange(RETURN, SHAPER, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Counts a turn of the data path.
    pub fn beat(&self) {
        self.fields().beats.fetch_add(1, Ordering::Relaxed);
    }
    /// Turns of the data path so far.
    pub fn beats(&self) -> u64 {
        self.fields().beats.load(Ordering::Relaxed)
    }
    /// Counts a turn of the guardian.
    pub fn guardian_beat(&self) {
        self.fields().guardian_beats.fetch_add(1, Ordering::Relaxed);
    }
    /// Turns of the guardian so far.
    pub fn guardian_beats(&self) -> u64 {
        self.fields().guardian_beats.load(Ordering::Relaxed)
    }

    /// Notes that the shaper has received all packets of the first queue up to `id`.
    pub fn set_received(&self, id: u32) {
        self.fields().received.store(id, Ordering::Release);
    }
    /// See [`set_received`](Self::set_received).
    pub fn received(&self) -> u32 {
        self.fields().received.load(Ordering::Acquire)
    }

    /// Announces that the process ends in order.
    pub fn end(&self) {
        self.fields().ending.store(1, Ordering::Release);
    }
    /// How the process of the shaper ends.
    pub fn ending(&self) -> Ending {
        match self.fields().ending.load(Ordering::Acquire) {
            0 => Ending::Unannounced,
            _ => Ending::Orderly,
        }
    }

    /// Notes that the list of held packets is valid and has this length: the guardian leaves them to the next data path.
    pub fn set_held(&self, packets: u64) {
        self.fields().held.store(packets, Ordering::Release);
    }
    /// See [`set_held`](Self::set_held).
    pub fn held(&self) -> u64 {
        self.fields().held.load(Ordering::Acquire)
    }
    /// Takes the list, which is not valid any more; returns its length. Only who has the turn may.
    pub fn take_held(&self) -> u64 {
        self.fields().held.swap(0, Ordering::AcqRel)
    }
    /// Counts packets that a data path has taken from the one before.
    pub fn add_adopted(&self, packets: u64) {
        self.fields().adopted.fetch_add(packets, Ordering::Relaxed);
    }
    /// Packets that data paths have taken from the one before, to shape them.
    pub fn adopted(&self) -> u64 {
        self.fields().adopted.load(Ordering::Relaxed)
    }

    /// Counts packets that the guardian accepted.
    pub fn add_passed(&self, packets: u64) {
        self.fields().passed.fetch_add(packets, Ordering::Relaxed);
    }
    /// Packets that arrived during the guardian's turns, and were accepted.
    pub fn passed(&self) -> u64 {
        self.fields().passed.load(Ordering::Relaxed)
    }
    /// How often the guardian took the turn.
    pub fn takeovers(&self) -> u64 {
        self.fields().takeovers.load(Ordering::Relaxed)
    }
    /// Why the guardian took the turn last; `None` if it never has.
    pub fn reason(&self) -> Option<Reason> {
        match self.fields().reason.load(Ordering::Relaxed) {
            1 => Some(Reason::Silent),
            2 => Some(Reason::Gone),
            3 => Some(Reason::Asked),
            _ => None,
        }
    }
}

impl AsFd for Page {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this size, and no reference to it outlives `self`.
        unsafe { libc::munmap(self.fields.as_ptr().cast(), SIZE) };
    }
}

/// An empty file in memory that other processes can be given.
///
/// # Errors
/// When the system refuses it.
pub(super) fn memory_file(name: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string; the descriptor has no other owner.
    unsafe {
        let descriptor = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        if descriptor < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(descriptor)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_goes_to_the_guardian_and_back_on_request() {
        let page = Page::create().unwrap();
        let other = Page::open(page.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert!(!other.give_back(), "nobody asked");
        assert!(other.take(Reason::Silent) && !other.take(Reason::Gone));
        assert_eq!((page.turn(), page.takeovers(), page.reason()), (Turn::Guardian, 1, Some(Reason::Gone)));
        assert!(!other.give_back(), "the shaper has not asked yet");
        page.ask_back();
        assert_eq!(other.turn(), Turn::Return);
        assert!(other.give_back());
        assert_eq!(page.turn(), Turn::Shaper);
    }

    #[test]
    fn another_file_is_no_page() {
        let empty = memory_file(c"test").unwrap();
        assert!(Page::open(empty).is_err());
        let page = Page::create().unwrap();
        page.fields().layout.store(LAYOUT + 1, Ordering::Relaxed);
        let error = Page::open(page.as_fd().try_clone_to_owned().unwrap()).unwrap_err();
        assert!(error.to_string().contains("another version"), "{error}");
    }
}
