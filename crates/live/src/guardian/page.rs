//! [`Page`]: the memory that a shaper and its guardian share.
//!
//! *Law*: [`Turn`] is that of the two that receives packets and sends verdicts. The guardian takes the turn of a shaper that makes
//! no progress, and asks one that does for it, which leaves it between two of its turns; only the
//! shaper asks for it back, and the guardian returns it between two batches. So no packet has two readers. Held packets go
//! to the next data path, or the guardian lets them pass: never both.
//! *See also*: `tools/interleave`, which compiles this file with atomics that try every order of threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::memory::{AtomicU64, Ordering, Shared, memory_file};

/// The version of the [`Field`]s and of the list of held packets. A shaper does not take over from a guardian with another
/// one.
const LAYOUT: u64 = 3;
/// The numbers of a page.
const NUMBERS: usize = 512;

const SHAPER: u64 = 0;
const GUARDIAN: u64 = 1;
const RETURN: u64 = 2;
const YIELD: u64 = 3;

/// Who receives packets and sends verdicts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The shaper.
    Shaper,
    /// The guardian, which accepts everything.
    Guardian,
    /// The guardian, and the shaper asks for the turn.
    Return,
    /// The shaper, and the guardian asks for the turn.
    Yield,
}

impl Turn {
    /// Whether the shaper receives packets and sends verdicts.
    pub fn is_of_shaper(self) -> bool {
        matches!(self, Self::Shaper | Self::Yield)
    }
}

/// Why the guardian took the turn last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
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

/// The numbers of a page, by their places.
#[derive(Clone, Copy)]
enum Field {
    Layout,
    Turn,
    Reason,
    Ending,
    /// The id of the last packet of the first queue that the shaper received and whose segmentation it requested.
    Received,
    /// Turns of the data path.
    Beats,
    /// Turns of the guardian.
    GuardianBeats,
    /// How often the guardian took the turn.
    Takeovers,
    /// Packets that the guardian accepted after they had arrived during its turn.
    Passed,
    /// The length of the list of packets that wait for the next data path; 0 if they are not to wait.
    Held,
    /// Packets that data paths have taken from the one before.
    Adopted,
}

/// A page of shared memory with the state that a shaper and its guardian need of each other.
#[derive(Debug)]
pub struct Page {
    shared: Shared,
    descriptor: OwnedFd,
}

impl Page {
    /// A new page. The turn is the shaper's.
    ///
    /// # Errors
    /// When the system refuses memory or a descriptor.
    pub fn create() -> io::Result<Self> {
        let descriptor = memory_file(c"tidegate-page")?;
        let page = Self { shared: Shared::seal(descriptor.as_fd(), NUMBERS)?, descriptor };
        page.field(Field::Layout).store(LAYOUT, Ordering::Release);
        Ok(page)
    }

    /// Maps the page of another process.
    ///
    /// # Errors
    /// When it is not a page, or has another layout.
    pub fn open(descriptor: OwnedFd) -> io::Result<Self> {
        let shared = Shared::sealed(descriptor.as_fd(), NUMBERS)
            .map_err(|error| io::Error::new(error.kind(), format!("it is no page of a shaper: {error}")))?;
        let page = Self { shared, descriptor };
        if page.field(Field::Layout).load(Ordering::Acquire) != LAYOUT {
            return Err(io::Error::other("the page is of another version of Tidegate"));
        }
        Ok(page)
    }

    #[inline]
    fn field(&self, field: Field) -> &AtomicU64 {
        &self.shared.numbers()[field as usize]
    }

    /// Whose turn it is.
    pub fn turn(&self) -> Turn {
        match self.field(Field::Turn).load(Ordering::Acquire) {
            SHAPER => Turn::Shaper,
            GUARDIAN => Turn::Guardian,
            YIELD => Turn::Yield,
            _ => Turn::Return,
        }
    }
    /// Takes the turn for the guardian, and counts it; `false` if it has it already. A shaper that asks for the turn is not
    /// silent, so that its request stands; that of one which has ended or leaves does not.
    pub fn take(&self, reason: Reason) -> bool {
        let turn = self.field(Field::Turn);
        let take_from = |of| turn.compare_exchange(of, GUARDIAN, Ordering::AcqRel, Ordering::Acquire).is_ok();
        let taken = match reason {
            Reason::Silent => take_from(SHAPER) || take_from(YIELD),
            Reason::Gone | Reason::Asked => [SHAPER, YIELD].contains(&turn.swap(GUARDIAN, Ordering::AcqRel)),
        };
        if taken || reason != Reason::Silent {
            self.field(Field::Reason).store(reason as u64, Ordering::Relaxed);
        }
        self.field(Field::Takeovers).fetch_add(u64::from(taken), Ordering::Relaxed);
        taken
    }
    /// Leaves the turn to the guardian, and so many held packets, whose list is valid, to the next data path. Returns whether it
    /// gets them: a guardian that took the turn before has let them pass.
    pub fn leave(&self, held: u64) -> bool {
        // Before the turn, so that the guardian which gets the turn sees the list.
        self.set_held(held);
        let left = self.take(Reason::Asked);
        if !left {
            self.take_held();
        }
        left
    }
    /// The guardian asks the shaper for the turn, if that has it.
    pub fn ask(&self) {
        let turn = self.field(Field::Turn);
        let _ = turn.compare_exchange(SHAPER, YIELD, Ordering::AcqRel, Ordering::Acquire);
    }
    /// The guardian does not ask for the turn any more.
    pub fn withdraw(&self) {
        let turn = self.field(Field::Turn);
        let _ = turn.compare_exchange(YIELD, SHAPER, Ordering::AcqRel, Ordering::Acquire);
    }
    /// The shaper leaves the turn to the guardian, if that asks for it.
    pub fn yield_turn(&self) {
        if self.turn() == Turn::Yield {
            self.take(Reason::Asked);
        }
    }
    /// The shaper asks for the turn.
    pub fn ask_back(&self) {
        let turn = self.field(Field::Turn);
        let _ = turn.compare_exchange(GUARDIAN, RETURN, Ordering::AcqRel, Ordering::Acquire);
    }
    /// Gives the turn to the shaper, if it asks for it.
    pub fn give_back(&self) -> bool {
        let turn = self.field(Field::Turn);
        turn.compare_exchange(RETURN, SHAPER, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Counts a turn of the data path.
    pub fn beat(&self) {
        self.field(Field::Beats).fetch_add(1, Ordering::Relaxed);
    }
    /// Turns of the data path so far.
    pub fn beats(&self) -> u64 {
        self.field(Field::Beats).load(Ordering::Relaxed)
    }
    /// Counts a turn of the guardian.
    pub fn guardian_beat(&self) {
        self.field(Field::GuardianBeats).fetch_add(1, Ordering::Relaxed);
    }
    /// Turns of the guardian so far.
    pub fn guardian_beats(&self) -> u64 {
        self.field(Field::GuardianBeats).load(Ordering::Relaxed)
    }

    /// Notes that the shaper has received all packets of the first queue up to `id`.
    pub fn set_received(&self, id: u32) {
        self.field(Field::Received).store(id.into(), Ordering::Release);
    }
    /// See [`set_received`](Self::set_received).
    pub fn received(&self) -> u32 {
        self.field(Field::Received).load(Ordering::Acquire) as u32
    }

    /// Announces that the process ends in order.
    pub fn end(&self) {
        self.field(Field::Ending).store(1, Ordering::Release);
    }
    /// How the process of the shaper ends.
    pub fn ending(&self) -> Ending {
        match self.field(Field::Ending).load(Ordering::Acquire) {
            0 => Ending::Unannounced,
            _ => Ending::Orderly,
        }
    }

    /// Notes that the list of held packets is valid and has this length.
    fn set_held(&self, packets: u64) {
        self.field(Field::Held).store(packets, Ordering::Release);
    }
    /// Returns the length of the list of held packets, if that is valid; 0 otherwise.
    pub fn held(&self) -> u64 {
        self.field(Field::Held).load(Ordering::Acquire)
    }
    /// Takes the list, which is not valid any more; returns its length. Only who has the turn may.
    pub fn take_held(&self) -> u64 {
        self.field(Field::Held).swap(0, Ordering::AcqRel)
    }
    /// Counts packets that a data path has taken from the one before.
    pub fn add_adopted(&self, packets: u64) {
        self.field(Field::Adopted).fetch_add(packets, Ordering::Relaxed);
    }
    /// Packets that data paths have taken from the one before, to shape them.
    pub fn adopted(&self) -> u64 {
        self.field(Field::Adopted).load(Ordering::Relaxed)
    }

    /// Counts packets that the guardian accepted.
    pub fn add_passed(&self, packets: u64) {
        self.field(Field::Passed).fetch_add(packets, Ordering::Relaxed);
    }
    /// Packets that arrived during the guardian's turns, and were accepted.
    pub fn passed(&self) -> u64 {
        self.field(Field::Passed).load(Ordering::Relaxed)
    }
    /// How often the guardian took the turn.
    pub fn takeovers(&self) -> u64 {
        self.field(Field::Takeovers).load(Ordering::Relaxed)
    }
    /// Why the guardian took the turn last; `None` if it never has.
    pub fn reason(&self) -> Option<Reason> {
        match self.field(Field::Reason).load(Ordering::Relaxed) {
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
        assert!(!other.take(Reason::Silent) && page.reason() == Some(Reason::Gone));
        assert_eq!(other.turn(), Turn::Return, "a shaper that asks is not silent");
        assert!(other.give_back());
        assert_eq!(page.turn(), Turn::Shaper);
    }

    #[test]
    fn a_shaper_that_is_asked_for_the_turn_keeps_it_until_it_yields() {
        let page = Page::create().unwrap();
        page.yield_turn();
        assert_eq!(page.turn(), Turn::Shaper, "nobody asked");
        page.ask();
        assert_eq!((page.turn(), page.takeovers()), (Turn::Yield, 0));
        page.withdraw();
        page.yield_turn();
        assert_eq!((page.turn(), page.takeovers()), (Turn::Shaper, 0));
        page.ask();
        page.yield_turn();
        assert_eq!((page.turn(), page.takeovers(), page.reason()), (Turn::Guardian, 1, Some(Reason::Asked)));
        page.ask();
        page.withdraw();
        assert_eq!(page.turn(), Turn::Guardian, "it has it");
        // One that becomes silent meanwhile loses it.
        let page = Page::create().unwrap();
        page.ask();
        assert!(page.take(Reason::Silent) && page.turn() == Turn::Guardian);
        let page = Page::create().unwrap();
        page.ask();
        assert!(page.leave(2), "what it holds is for the next data path all the same");
    }

    #[test]
    fn packets_that_the_guardian_has_let_pass_are_not_left() {
        let page = Page::create().unwrap();
        assert!(page.leave(3));
        assert_eq!((page.turn(), page.reason(), page.take_held()), (Turn::Guardian, Some(Reason::Asked), 3));
        let page = Page::create().unwrap();
        assert!(page.take(Reason::Silent));
        assert!(!page.leave(3));
        assert_eq!((page.held(), page.takeovers()), (0, 1));
    }

    #[test]
    fn another_file_is_no_page() {
        let empty = memory_file(c"test").unwrap();
        assert!(Page::open(empty).is_err());
        // One that can shrink would end its reader at the next access.
        let unsealed = std::fs::File::from(memory_file(c"test").unwrap());
        unsealed.set_len(NUMBERS as u64 * 8).unwrap();
        std::os::unix::fs::FileExt::write_at(&unsealed, &LAYOUT.to_ne_bytes(), 0).unwrap();
        let error = Page::open(unsealed.into()).unwrap_err();
        assert!(error.to_string().contains("no sealed memory"), "{error}");
        let page = Page::create().unwrap();
        page.field(Field::Layout).store(LAYOUT + 1, Ordering::Relaxed);
        let error = Page::open(page.as_fd().try_clone_to_owned().unwrap()).unwrap_err();
        assert!(error.to_string().contains("another version"), "{error}");
    }
}
