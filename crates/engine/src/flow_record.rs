//! The record of a flow: [`FlowRecord`], which is reported, and the compact [`Record`] of the flow table.
//!
//! *Cost*: 216 B; with 32 B of the table that is four cache lines. An arrival touches the first two, a departure the first
//! three; the identity is in the last. A flow with drops or a granted minimum takes 104 B more, one whose delays are in more
//! than eight buckets 208 B.

use tidegate_core::accounts::Account;
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::{Backlog, Bytes, ClassId, DropReason, Dscp, Instant, Rate, Span};
use tidegate_metrics::{FewDelays, RecentDelays};

use crate::measure::{CHECKED, Jitter, MinimumMeter, RateMeter};

mod offload;

pub(crate) use offload::Counted;

/// The identity of a flow, from its first packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowIdentity {
    /// The addresses.
    pub hosts: Hosts,
    /// The transport protocol.
    pub protocol: Option<u8>,
    /// The sending port.
    pub source_port: Option<u16>,
    /// The receiving port.
    pub destination_port: Option<u16>,
    /// The code point at arrival.
    pub dscp: Dscp,
    /// The user that owns the sending socket.
    pub uid: Option<u32>,
    /// The control group that owns the sending socket.
    pub cgroup: Option<u64>,
    /// The packet mark.
    pub mark: u32,
}

impl From<&Fields> for FlowIdentity {
    fn from(fields: &Fields) -> Self {
        Self {
            hosts: fields.hosts,
            protocol: fields.protocol,
            source_port: fields.source_port,
            destination_port: fields.destination_port,
            dscp: fields.dscp,
            uid: fields.uid,
            cgroup: fields.cgroup,
            mark: fields.mark,
        }
    }
}

/// The identity, counts and measurements of a flow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FlowRecord {
    /// The fields that identify the flow.
    pub who: FlowIdentity,
    /// The class of its last packet by the rules.
    pub class: ClassId,
    /// The class through which its last packet left: a different one while the flow is displaced.
    pub through: ClassId,
    /// The rule that its last packet matched, by its number in the configuration.
    pub rule: Option<u32>,
    /// The arrival of its first packet.
    pub began: Instant,
    /// When its last packet arrived or left.
    pub last: Instant,
    /// Packets and bytes that arrived.
    pub arrived: Account,
    /// Packets and bytes that left.
    pub sent: Account,
    /// Packets and bytes queued.
    pub waits: Backlog,
    /// Packets dropped, by [`DropReason`] in the order of [`DropReason::ALL`].
    pub dropped: [u32; DropReason::ALL.len()],
    /// Bytes dropped.
    pub dropped_bytes: Bytes,
    /// Packets that left marked congestion experienced here.
    pub marked: u32,
    /// Packets that left with a changed code point.
    pub remarked: u32,
    /// Queueing delays of its packets in the last seconds.
    pub delays: RecentDelays,
    /// The longest queueing delay since the flow began.
    pub longest: Span,
    rate: RateMeter,
    jitter: Jitter,
    promise: MinimumMeter,
}

impl FlowRecord {
    /// The rate at which its packets leave. See [`RateMeter`].
    pub fn rate(&self, now: Instant) -> Rate {
        self.rate.rate(now)
    }
    /// Its jitter. See [`Jitter`].
    pub fn jitter(&self) -> Span {
        self.jitter.value()
    }
    /// How many seconds its minimum was kept or missed. See [`MinimumMeter`].
    pub fn promise(&self) -> &MinimumMeter {
        &self.promise
    }
    /// Packets dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().map(|&packets| u64::from(packets)).sum()
    }
}

/// [`FlowIdentity`] without padding.
#[derive(Clone, Debug)]
struct Identity {
    cgroup: u64,
    uid: u32,
    mark: u32,
    source_port: u16,
    destination_port: u16,
    hosts: Hosts,
    protocol: u8,
    dscp: Dscp,
    /// The optional fields that are known, as flags.
    known: u8,
}

const CGROUP: u8 = 1;
const UID: u8 = 2;
const SOURCE_PORT: u8 = 4;
const DESTINATION_PORT: u8 = 8;
const PROTOCOL: u8 = 16;

impl From<&Fields> for Identity {
    fn from(fields: &Fields) -> Self {
        let known = |flag, known| if known { flag } else { 0 };
        Self {
            cgroup: fields.cgroup.unwrap_or(0),
            uid: fields.uid.unwrap_or(0),
            mark: fields.mark,
            source_port: fields.source_port.unwrap_or(0),
            destination_port: fields.destination_port.unwrap_or(0),
            hosts: fields.hosts,
            protocol: fields.protocol.unwrap_or(0),
            dscp: fields.dscp,
            known: known(CGROUP, fields.cgroup.is_some())
                | known(UID, fields.uid.is_some())
                | known(SOURCE_PORT, fields.source_port.is_some())
                | known(DESTINATION_PORT, fields.destination_port.is_some())
                | known(PROTOCOL, fields.protocol.is_some()),
        }
    }
}

impl From<&Identity> for FlowIdentity {
    fn from(identity: &Identity) -> Self {
        let has = |flag| identity.known & flag != 0;
        Self {
            hosts: identity.hosts,
            protocol: has(PROTOCOL).then_some(identity.protocol),
            source_port: has(SOURCE_PORT).then_some(identity.source_port),
            destination_port: has(DESTINATION_PORT).then_some(identity.destination_port),
            dscp: identity.dscp,
            uid: has(UID).then_some(identity.uid),
            cgroup: has(CGROUP).then_some(identity.cgroup),
            mark: identity.mark,
        }
    }
}

/// Queueing delays: a small histogram that is replaced by a large one if delays are widely spread.
#[derive(Clone, Debug)]
enum FlowDelays {
    Few(FewDelays),
    Many(Box<RecentDelays>),
}

/// The parts of a record that most flows do not need.
#[derive(Clone, Debug, Default)]
struct Rare {
    /// Packets by [`DropReason`].
    dropped: [u32; DropReason::ALL.len()],
    dropped_total: Account,
    /// Present once the minimum of the flow was found granted.
    promise: Option<MinimumMeter>,
}

/// A packet that departs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub size: Bytes,
    pub waited: Span,
    pub through: ClassId,
    pub marked: bool,
    pub remarked: bool,
}

/// Memory of records that ended, for later records to use without an allocation.
#[derive(Clone, Debug, Default)]
#[expect(clippy::vec_box, reason = "the boxes are used again")]
pub(crate) struct Spare {
    rare: Vec<Box<Rare>>,
    delays: Vec<Box<RecentDelays>>,
}

impl Spare {
    fn rare(&mut self) -> Box<Rare> {
        let mut rare = self.rare.pop().unwrap_or_default();
        *rare = Rare::default();
        rare
    }
    fn delays(&mut self, few: &FewDelays) -> Box<RecentDelays> {
        let mut delays = self.delays.pop().unwrap_or_default();
        *delays = few.into();
        delays
    }
}

/// The record of a flow in the flow table. Each queued packet pins it there once.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Record {
    arrived: Account,
    waiting_bytes: Bytes,
    class: ClassId,
    /// The number of the rule plus one; 0 for none.
    rule: u32,
    // The second cache line begins here.
    through: ClassId,
    /// The largest packet that left.
    largest: u32,
    marked: u32,
    remarked: u32,
    last: Instant,
    /// When its minimum was last checked; zero if never.
    checked: Instant,
    rate: RateMeter,
    jitter: Jitter,
    // The third cache line.
    /// The delay of the last packet; [`Span::MAX`] before the first departure.
    last_wait: Span,
    longest: Span,
    delays: FlowDelays,
    rare: Option<Box<Rare>>,
    began: Instant,
    // The last cache line.
    who: Identity,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            arrived: Account::default(),
            waiting_bytes: Bytes::ZERO,
            class: ClassId(0),
            through: ClassId(0),
            rule: 0,
            largest: 0,
            last: Instant::ZERO,
            checked: Instant::ZERO,
            rate: RateMeter::default(),
            jitter: Jitter::default(),
            last_wait: Span::MAX,
            longest: Span::ZERO,
            delays: FlowDelays::Few(FewDelays::default()),
            marked: 0,
            remarked: 0,
            rare: None,
            began: Instant::ZERO,
            who: Identity::from(&Fields::default()),
        }
    }
}

impl Record {
    /// Counts an arrival.
    #[inline]
    pub fn arrived(&mut self, now: Instant, fields: &Fields, (class, rule): (ClassId, Option<u32>), size: Bytes) {
        if self.arrived.packets == 0 {
            self.who = fields.into();
            self.began = now;
            self.through = class;
        }
        // The kernel does not know the owner of every packet: the first that has one counts.
        if let Some(uid) = fields.uid
            && self.who.known & UID == 0
        {
            self.who.uid = uid;
            self.who.known |= UID;
        }
        (self.class, self.rule, self.last) = (class, rule.map_or(0, |rule| rule + 1), now);
        self.arrived.count(size);
        self.waiting_bytes += size;
    }

    /// Counts a departure, after which another packet `waits` or none; returns the difference between its delay and that of the
    /// packet before it.
    #[inline]
    pub fn departed(&mut self, now: Instant, leaving: &Leaving, waits: bool, spare: &mut Spare) -> Option<Span> {
        self.waiting_bytes -= leaving.size;
        self.rate.count(now, leaving.size);
        self.waited(now, leaving.waited, spare);
        self.marked = self.marked.saturating_add(leaving.marked.into());
        self.remarked = self.remarked.saturating_add(leaving.remarked.into());
        (self.last, self.through) = (now, leaving.through);
        self.largest = self.largest.max(u32::try_from(leaving.size.as_u64()).unwrap_or(u32::MAX));
        if let Some(promise) = self.rare.as_mut().and_then(|rare| rare.promise.as_mut()) {
            promise.delivered(leaving.size, waits);
        }
        let last = std::mem::replace(&mut self.last_wait, leaving.waited);
        let difference =
            (last != Span::MAX).then(|| Span::from_nanos(last.as_nanos().abs_diff(leaving.waited.as_nanos())));
        if let Some(difference) = difference {
            self.jitter.differ(difference);
        }
        difference
    }

    #[inline]
    fn waited(&mut self, now: Instant, waited: Span, spare: &mut Spare) {
        match &mut self.delays {
            FlowDelays::Few(few) => {
                if !few.record(now, waited) {
                    let mut many = spare.delays(few);
                    many.record(now, waited);
                    self.delays = FlowDelays::Many(many);
                }
            }
            FlowDelays::Many(many) => many.record(now, waited),
        }
        self.longest = self.longest.max(waited);
    }

    /// Counts a drop.
    pub fn dropped(&mut self, now: Instant, size: Bytes, reason: DropReason, spare: &mut Spare) {
        self.waiting_bytes -= size;
        self.last = now;
        let rare = self.rare.get_or_insert_with(|| spare.rare());
        let count = &mut rare.dropped[reason as usize];
        *count = count.saturating_add(1);
        rare.dropped_total.count(size);
    }

    /// Gives the rule that it matched and its classes their numbers among the present ones. The rules of reservations have no place
    /// among `rules`.
    pub fn renumber(&mut self, rules: &[Option<u32>], class: impl Fn(ClassId) -> ClassId) {
        if let Some(rule) = self.rule.checked_sub(1).and_then(|rule| rules.get(rule as usize)) {
            self.rule = rule.map_or(0, |rule| rule + 1);
        }
        (self.class, self.through) = (class(self.class), class(self.through));
    }

    /// Whether it is time to check its minimum.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        now.since(self.checked) >= CHECKED
    }
    /// Checks the minimum, if it is time. `promised` is the minimum that is granted now; `waits`, whether a packet is queued.
    pub fn check(&mut self, now: Instant, promised: Rate, waits: bool, spare: &mut Spare) {
        if !self.is_due(now) {
            return;
        }
        self.checked = now;
        match self.rare.as_mut().and_then(|rare| rare.promise.as_mut()) {
            Some(promise) => promise.check(now, promised, waits),
            // Nothing was due in a second that began without a granted minimum.
            None if promised.is_zero() => {}
            None => {
                let begun = MinimumMeter::begun(now, promised, waits, self.largest);
                self.rare.get_or_insert_with(|| spare.rare()).promise = Some(begun);
            }
        }
    }

    /// Ends the record: the memory that it had allocated goes to `spare`.
    pub fn end(&mut self, spare: &mut Spare) {
        spare.rare.extend(self.rare.take());
        if let FlowDelays::Many(many) = std::mem::replace(&mut self.delays, FlowDelays::Few(FewDelays::default())) {
            spare.delays.push(many);
        }
    }

    /// Returns the record as it is reported; `queued` packets are queued.
    pub fn report(&self, queued: u32) -> FlowRecord {
        let waits = Backlog { packets: queued.into(), bytes: self.waiting_bytes };
        let rare = self.rare.as_deref();
        let (dropped, dropped_total) = rare.map_or_else(Default::default, |rare| (rare.dropped, rare.dropped_total));
        FlowRecord {
            who: (&self.who).into(),
            class: self.class,
            through: self.through,
            rule: self.rule.checked_sub(1),
            began: self.began,
            last: self.last,
            arrived: self.arrived,
            sent: Account {
                packets: self.arrived.packets - waits.packets - dropped_total.packets,
                bytes: self.arrived.bytes - waits.bytes - dropped_total.bytes,
            },
            waits,
            dropped,
            dropped_bytes: dropped_total.bytes,
            marked: self.marked,
            remarked: self.remarked,
            delays: match &self.delays {
                FlowDelays::Few(few) => few.into(),
                FlowDelays::Many(many) => **many,
            },
            longest: self.longest,
            rate: self.rate,
            jitter: self.jitter,
            promise: rare.and_then(|rare| rare.promise).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_documented_size() {
        assert_eq!((size_of::<Record>(), size_of::<Rare>()), (216, 104));
    }

    /// Every combination of known and unknown fields; some values are zero.
    #[test]
    fn an_identity_keeps_every_field() {
        for known in 0..32_u8 {
            let has = |flag: u8| known & flag != 0;
            let hosts = Hosts::V6 { source: [1; 8].into(), destination: [2; 8].into() };
            let fields = Fields {
                hosts: if has(1) { hosts } else { Hosts::Unknown },
                dscp: Dscp::EF,
                protocol: has(16).then_some(0),
                source_port: has(4).then_some(0),
                destination_port: has(8).then_some(9),
                mark: 7,
                uid: has(2).then_some(0),
                cgroup: has(1).then_some(u64::MAX),
                ..Fields::default()
            };
            assert_eq!(FlowIdentity::from(&Identity::from(&fields)), FlowIdentity::from(&fields));
        }
    }

    /// The minimum is granted after 2.5 s. The counts equal those of a meter that has run from the beginning.
    #[test]
    fn a_minimum_is_measured_as_from_the_beginning() {
        let (mut record, mut spare, mut whole) = (Record::default(), Spare::default(), MinimumMeter::default());
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let leaving = Leaving {
            size: Bytes::new(1_000),
            waited: Span::ZERO,
            through: ClassId(0),
            marked: false,
            remarked: false,
        };
        for tenth in 0..80 {
            let now = at(tenth * 100);
            let promised = Rate::from_kbit(if (25..55).contains(&tenth) { 80 } else { 0 });
            record.arrived(now, &Fields::default(), (ClassId(0), None), leaving.size);
            record.arrived(now, &Fields::default(), (ClassId(0), None), leaving.size);
            if !(40..50).contains(&tenth) {
                record.departed(now, &leaving, true, &mut spare);
                whole.delivered(leaving.size, true);
            }
            record.check(now, promised, true, &mut spare);
            whole.check(now, promised, true);
            let promise = *record.report(1).promise();
            assert_eq!((promise.kept(), promise.missed()), (whole.kept(), whole.missed()), "at {now:?}");
        }
        assert!(whole.kept() > 0 && whole.missed() > 0, "{whole:?}");
    }
}
