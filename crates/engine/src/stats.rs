//! What the engine counts of each class: accounts, drops by reason, and how long packets waited.

use hdrhistogram::Histogram;
use tidegate_core::books::{Account, Accounts};
use tidegate_core::qdisc::Backlog;
use tidegate_core::{Bytes, DropReason, Rate, Span};

/// The longest wait that is told apart; longer ones count as this.
const LONGEST: u64 = 100_000_000_000;

/// The counts of one class.
#[derive(Clone, Debug)]
pub struct ClassCounts {
    /// Handed in, given out, dropped, of the packets that the rules put into this class.
    pub accounts: Accounts,
    /// What left through this class, flows that were displaced to it included.
    pub through: Account,
    /// What waits, of the packets that the rules put into this class.
    pub backlog: Backlog,
    /// Of what was given out, marked congestion experienced here.
    pub marked: u64,
    /// Of what was given out, with another code point than it came with.
    pub remarked: u64,
    /// How long what left through this class had waited, in nanoseconds; two significant digits.
    pub waited: Histogram<u64>,
}

impl Default for ClassCounts {
    fn default() -> Self {
        Self {
            accounts: Accounts::default(),
            through: Account::default(),
            backlog: Backlog::default(),
            marked: 0,
            remarked: 0,
            waited: Histogram::new_with_bounds(1, LONGEST, 2).expect("constant bounds that are valid"),
        }
    }
}

impl ClassCounts {
    pub(crate) fn arrived(&mut self, size: Bytes) {
        self.accounts.enqueued.count(size);
        self.backlog.add(size);
    }
    pub(crate) fn left(&mut self, size: Bytes) {
        self.accounts.dequeued.count(size);
        self.backlog.remove(size);
    }
    pub(crate) fn sent(&mut self, size: Bytes, waited: Span) {
        self.through.count(size);
        self.waited.saturating_record(waited.as_nanos().max(1));
    }
    pub(crate) fn dropped(&mut self, size: Bytes, reason: DropReason) {
        self.accounts.dropped[reason as usize].count(size);
        self.backlog.remove(size);
    }
    /// The wait that `part` (0 to 1) of the packets did not exceed.
    pub fn waited_at(&self, part: f64) -> Span {
        if self.waited.is_empty() {
            return Span::ZERO;
        }
        Span::from_nanos(self.waited.value_at_quantile(part))
    }
}

/// A class, as a name and what it is doing.
#[derive(Clone, Debug)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// What it is promised; `None` where the discipline does not say.
    pub rate: Option<Rate>,
    /// Flows present, where the discipline knows flows.
    pub flows: Option<u64>,
    /// Its counts since the start.
    pub counts: ClassCounts,
}
