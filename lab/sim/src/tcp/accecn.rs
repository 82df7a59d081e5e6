//! Accurate ECN feedback: the counters of both ends, and how they are carried in three header bits and an option.
//!
//! *Source*: RFC 9768; section numbers are in the code. The endpoint negotiates it and decides what follows from it
//! (`endpoint/ecn.rs`).
//! *Units*: packets for `cep`, bytes of data for the other counters.
//! *Notes*: without an option, a jump of the ACE field is ambiguous by multiples of eight. The sender then assumes the
//! most marks that the newly acknowledged data allows (A.2.1), and takes a packet for a full segment (A.3).
//! *Departures from the source*: acknowledgements are never ECN-capable, so no acknowledgement of acknowledgements is
//! sent (3.2.2.5.1). Whether `ceb` may have grown without `cep` (3.2.3.2.5) is not tested: the sender does not know for
//! certain how many packets an acknowledgement covers.

use tidegate_core::Ecn;

use super::segment::{AccEcnOption, EcnBytes, Flags, Segment};

/// DIVACE: the ACE field counts modulo this (A.2.1).
const DIVACE: u64 = 8;
/// DIVOPT: the fields of the option count modulo this (A.1).
const DIVOPT: u64 = 1 << 24;
/// SAFETY_FACTOR of A.2.2.
const SAFETY_FACTOR: u64 = 2;
/// The initial value of `cep`, of which the ACE field has the low bits (3.2.1).
const FIRST_CEP: u64 = 5;
/// The initial values of the byte counters (3.2.1). A middlebox that zeroes the option is found by them.
const FIRST_BYTES: EcnBytes = EcnBytes { ect0: 1, ce: 0, ect1: 1 };
/// Acknowledged segments after which an unchanged count of all code points shows that the path clears the field.
const BLEACHED_AFTER: u64 = 10;

/// The flags (AE, CWR, ECE) of a segment as a number, AE first: the ACE field if SYN is not set (3.2.2).
pub(super) fn ace(flags: Flags) -> u64 {
    let bit = |flag: Flags, value| if flags.has(flag) { value } else { 0 };
    bit(Flags::AE, 4) | bit(Flags::CWR, 2) | bit(Flags::ECE, 1)
}

/// The flags whose number is `ace`, modulo eight.
pub(super) fn flags(ace: u64) -> Flags {
    let bit = |value, flag| if ace & value != 0 { flag } else { Flags::NONE };
    bit(4, Flags::AE) | bit(2, Flags::CWR) | bit(1, Flags::ECE)
}

/// The handshake encoding of the ECN field of the SYN or the SYN-ACK (tables 2 and 3).
pub(super) fn handshake(field: Ecn) -> u64 {
    match field {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    }
}

/// Decodes the ECN field that the SYN or the SYN-ACK had on arrival from its handshake encoding. `None`: not used.
pub(super) fn reflected(ace: u64) -> Option<Ecn> {
    [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce].into_iter().find(|field| handshake(*field) == ace)
}

/// The counters of a data receiver, and what it has reported of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiver {
    /// r.cep.
    cep: u64,
    /// r.e0b, r.ceb, r.e1b.
    bytes: EcnBytes,
    /// The byte counters in the last option.
    reported: EcnBytes,
    /// The ECN field of the last packet.
    last: Ecn,
    /// Marks since the last acknowledgement.
    unreported: u32,
}

impl Default for Receiver {
    fn default() -> Self {
        Self { cep: FIRST_CEP, bytes: FIRST_BYTES, reported: FIRST_BYTES, last: Ecn::NotEct, unreported: 0 }
    }
}

impl Receiver {
    /// Counts a marked SYN-ACK, once (3.2.2.2).
    pub fn on_marked_syn_ack(&mut self) {
        self.cep = FIRST_CEP + 1;
    }
    /// Counts a packet. Returns whether it is acknowledged at once: a mark after a packet without one, or the second
    /// mark that is not acknowledged (3.2.2.5.1).
    pub fn on_packet(&mut self, segment: &Segment) -> bool {
        let len = u64::from(segment.len);
        let before = core::mem::replace(&mut self.last, segment.ecn);
        match segment.ecn {
            Ecn::NotEct => return false,
            Ecn::Ect0 => self.bytes.ect0 += len,
            Ecn::Ect1 => self.bytes.ect1 += len,
            Ecn::Ce => {
                self.bytes.ce += len;
                self.cep += 1;
                self.unreported += 1;
                return len > 0 && before != Ecn::Ce || self.unreported >= 2;
            }
        }
        false
    }
    /// The ACE field of a segment that is sent now, which reports all marks.
    pub fn report(&mut self) -> Flags {
        self.unreported = 0;
        flags(self.cep)
    }
    /// The option of a segment that is sent now, unless nothing has changed since the last one. It has the counters that
    /// ever changed (3.2.3.3, the simple scheme), in the order that makes it short; `whole` asks for all of them.
    pub fn option(&mut self, whole: bool) -> Option<AccEcnOption> {
        if !whole && self.bytes == self.reported {
            return None;
        }
        self.reported = self.bytes;
        let (ect0, ce, ect1) = (self.bytes.ect0 > 1, self.bytes.ce > 0, self.bytes.ect1 > 1);
        let first_is_ect1 = ect1 && !ect0;
        let fields = match (ect0 && ect1 || whole, ce) {
            (true, _) => 3,
            (false, true) => 2,
            (false, false) => 1,
        };
        Some(AccEcnOption::new(first_is_ect1, fields, self.bytes))
    }
    /// Takes back the report of an option that did not fit into the segment.
    pub fn not_reported(&mut self) {
        self.reported = EcnBytes { ect0: u64::MAX, ..self.bytes };
    }
}

/// Whether a data sender can rely on options of its peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Options {
    /// None has arrived: none is expected (3.2.3.2.3).
    Absent,
    /// They arrive.
    Present,
    /// The first one had a counter of zero: a middlebox clears them (3.2.3.2.4).
    Ignored,
}

/// The marks that an acknowledgement reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Marks {
    /// Packets that were newly marked.
    pub packets: u64,
    /// Bytes of data delivered with an ECN-capable code point, marked or not.
    pub capable: u64,
    /// Bytes of data delivered with a mark.
    pub ce: u64,
}

/// A data sender's copies of the receiver's counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    /// s.cep.
    cep: u64,
    /// s.e0b, s.ceb, s.e1b.
    bytes: EcnBytes,
    options: Options,
    /// Capable and marked bytes that were estimated since the last option and that its counters contain.
    estimated: (u64, u64),
    /// Bytes acknowledged so far; `None` once some of them were reported with a code point.
    silent: Option<u64>,
}

impl Default for Sender {
    fn default() -> Self {
        Self { cep: FIRST_CEP, bytes: FIRST_BYTES, options: Options::Absent, estimated: (0, 0), silent: Some(0) }
    }
}

impl Sender {
    /// Counts the mark of the SYN-ACK (table 4).
    pub fn on_marked_syn_ack(&mut self) {
        self.cep = FIRST_CEP + 1;
    }
    /// Reads the option of the first segment of the peer that can have one.
    pub fn on_first_option(&mut self, option: Option<AccEcnOption>) {
        if let Some(option) = option {
            let zeroed = |field: Option<u32>| field == Some(0);
            self.options =
                if zeroed(option.ect0()) || zeroed(option.ect1()) { Options::Ignored } else { Options::Present };
        }
    }
    /// Whether all data so far has lost its code point on the path, although it was sent with one (A.4).
    pub fn is_bleached(&self, mss: u64) -> bool {
        self.options == Options::Present && self.silent.is_some_and(|bytes| bytes >= BLEACHED_AFTER * mss)
    }

    /// Reads the feedback of an acknowledgement that newly acknowledges `newly_acked` bytes, cumulatively or
    /// selectively. One that acknowledges nothing new may have been overtaken by another, and is ignored (3.2.2.2).
    pub fn on_ack(&mut self, ace: u64, option: Option<AccEcnOption>, newly_acked: u64, mss: u64) -> Marks {
        if newly_acked == 0 {
            return Marks::default();
        }
        if option.is_some() && self.options == Options::Absent {
            self.options = Options::Present;
        }
        let option = option.filter(|_| self.options == Options::Present);
        let delta = option.map(|option| self.advance(option));
        let packets = newly_cep(self.cep, ace, newly_acked.div_ceil(mss), delta.map(|delta| delta.ce), mss);
        self.cep += packets;
        let marks = match delta {
            Some(delta) => {
                let capable = delta.ect0 + delta.ce + delta.ect1;
                let (before, marked) = core::mem::take(&mut self.estimated);
                Marks { packets, capable: capable.saturating_sub(before), ce: delta.ce.saturating_sub(marked) }
            }
            None => {
                let ce = (packets * mss).min(newly_acked);
                // An option is due whenever a counter has grown: without one, nothing but marks is known to have come.
                let capable = if self.options == Options::Present { ce } else { newly_acked };
                self.estimated = (self.estimated.0 + capable, self.estimated.1 + ce);
                Marks { packets, capable, ce }
            }
        };
        self.silent = self.silent.filter(|_| marks.capable == 0).map(|bytes| bytes + newly_acked);
        marks
    }

    /// Adds the least growth of each counter that leads to the option's fields (A.1), and returns it.
    fn advance(&mut self, option: AccEcnOption) -> EcnBytes {
        let grow = |counter: &mut u64, field: Option<u32>| {
            let growth = field.map_or(0, |field| (u64::from(field) + DIVOPT - *counter % DIVOPT) % DIVOPT);
            *counter += growth;
            growth
        };
        EcnBytes {
            ect0: grow(&mut self.bytes.ect0, option.ect0()),
            ce: grow(&mut self.bytes.ce, option.ce()),
            ect1: grow(&mut self.bytes.ect1, option.ect1()),
        }
    }
}

/// How many packets were newly marked, if `packets` were acknowledged and the ACE field is `ace`: the safest likely case
/// (3.2.2.5.2, A.2). `ceb` is the growth of the marked bytes, if an option reports it.
fn newly_cep(cep: u64, ace: u64, packets: u64, ceb: Option<u64>, mss: u64) -> u64 {
    let least = (ace + DIVACE - cep % DIVACE) % DIVACE;
    if least > packets {
        // The estimate of the packets is wrong (A.2.1).
        return least;
    }
    let safer = packets - (packets - least) % DIVACE;
    match ceb {
        // s <= MSS and sSafer < MSS / SAFETY_FACTOR.
        Some(ceb) if safer > least && ceb <= mss * least && ceb * SAFETY_FACTOR < mss * safer => least,
        _ => safer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1460;

    fn option(ect0: u64, ce: u64, ect1: u64) -> Option<AccEcnOption> {
        Some(AccEcnOption::new(false, 3, EcnBytes { ect0, ce, ect1 }))
    }

    #[test]
    fn the_worked_numbers_of_appendix_a1() {
        let mut sender = Sender { bytes: EcnBytes { ce: 33_554_433, ..FIRST_BYTES }, ..Sender::default() };
        sender.on_first_option(option(1, 0, 1));
        let marks = sender.on_ack(6, option(1, 1461, 1), 1460, MSS);
        assert_eq!((sender.bytes.ce, marks.ce), (33_555_893, 1460));
    }

    #[test]
    fn the_worked_numbers_of_appendix_a2() {
        // A.2.1: nine segments and two marks at least: two; ten segments: ten.
        assert_eq!(newly_cep(5, 7, 9, None, MSS), 2);
        assert_eq!(newly_cep(5, 7, 10, None, MSS), 10);
        // More marks than packets: the field is right.
        assert_eq!(newly_cep(5, 7, 1, None, MSS), 2);
        // A.2.2: with d.ceb. s is infinite: eight.
        assert_eq!(newly_cep(5, 5, 8, Some(1460), MSS), 8);
        // s = 730, sSafer = 146: two.
        assert_eq!(newly_cep(5, 7, 10, Some(1460), MSS), 2);
        // s = 1457, sSafer = 680: seven.
        assert_eq!(newly_cep(5, 12 % 8, 15, Some(10_200), MSS), 7);
    }

    #[test]
    fn counters_survive_any_wrap_with_options_and_without() {
        for with_options in [true, false] {
            let (mut receiver, mut sender) = (Receiver::default(), Sender::default());
            sender.on_first_option(receiver.option(true).filter(|_| with_options));
            let (mut marked, mut total) = (0, Marks::default());
            for number in 0..200_000_u64 {
                // Two segments for each acknowledgement, a third of them marked: 24 bits wrap 17 times.
                let mut marks = 0;
                for part in 0..2 {
                    let ecn = if (2 * number + part) % 3 == 0 { Ecn::Ce } else { Ecn::Ect1 };
                    marks += u64::from(ecn == Ecn::Ce);
                    receiver.on_packet(&Segment { len: 1460, ecn, ..Segment::default() });
                }
                marked += marks;
                let reported = ace(receiver.report());
                let option = receiver.option(false).filter(|_| with_options);
                let news = sender.on_ack(reported, option, 2 * MSS, MSS);
                assert_eq!(news.packets, marks);
                total.capable += news.capable;
                total.ce += news.ce;
            }
            assert_eq!((total.ce, total.capable), (marked * MSS, 400_000 * MSS), "{with_options}");
            assert!(!sender.is_bleached(MSS));
        }
    }

    #[test]
    fn an_estimate_is_not_counted_again_with_the_next_option() {
        let (mut receiver, mut sender) = (Receiver::default(), Sender::default());
        sender.on_first_option(receiver.option(true));
        receiver.on_packet(&Segment { len: 1460, ecn: Ecn::Ce, ..Segment::default() });
        // The option of this acknowledgement has no room.
        let marks = sender.on_ack(ace(receiver.report()), None, MSS, MSS);
        assert_eq!(marks, Marks { packets: 1, capable: MSS, ce: MSS });
        receiver.on_packet(&Segment { len: 1000, ecn: Ecn::Ect1, ..Segment::default() });
        let marks = sender.on_ack(ace(receiver.report()), receiver.option(false), 1000, MSS);
        assert_eq!(marks, Marks { packets: 0, capable: 1000, ce: 0 });
    }

    #[test]
    fn the_option_has_what_has_changed_and_no_more() {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.option(false), None);
        receiver.on_packet(&Segment { len: 10, ecn: Ecn::Ect1, ..Segment::default() });
        let option = receiver.option(false).expect("a counter has grown");
        assert_eq!((option.bytes(), option.ect1(), option.ce(), option.ect0()), (5, Some(11), None, None));
        assert_eq!(receiver.option(false), None, "nothing new");
        receiver.on_packet(&Segment { len: 10, ecn: Ecn::Ce, ..Segment::default() });
        let option = receiver.option(false).expect("a counter has grown");
        assert_eq!((option.bytes(), option.ect1(), option.ce(), option.ect0()), (8, Some(11), Some(10), None));
        receiver.on_packet(&Segment { len: 10, ecn: Ecn::Ect0, ..Segment::default() });
        assert_eq!(receiver.option(false).map(|option| option.bytes()), Some(11));
    }

    #[test]
    fn marks_trigger_acknowledgements() {
        let mut receiver = Receiver::default();
        let mut arrives = |ecn| receiver.on_packet(&Segment { len: 1, ecn, ..Segment::default() });
        assert!(!arrives(Ecn::Ect1));
        assert!(arrives(Ecn::Ce), "the first after one without a mark");
        assert!(arrives(Ecn::Ce), "two marks that are not acknowledged");
        receiver.report();
        let mut arrives = |ecn| receiver.on_packet(&Segment { len: 1, ecn, ..Segment::default() });
        assert!(!arrives(Ecn::Ce));
        assert!(!arrives(Ecn::Ect1));
    }

    #[test]
    fn zeroed_options_are_ignored_and_cleared_code_points_noticed() {
        let mut sender = Sender::default();
        sender.on_first_option(option(0, 0, 1));
        let marks = sender.on_ack(6, option(0, 0, 0), 1460, MSS);
        assert_eq!(marks, Marks { packets: 1, capable: 1460, ce: 1460 }, "by the ACE field alone");
        let mut sender = Sender::default();
        sender.on_first_option(option(1, 0, 1));
        for _ in 0..9 {
            sender.on_ack(5, None, MSS, MSS);
            assert!(!sender.is_bleached(MSS));
        }
        sender.on_ack(5, None, MSS, MSS);
        assert!(sender.is_bleached(MSS));
    }
}
