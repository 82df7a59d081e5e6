//! Reservations: a flow declares its traffic and gets a class of its own under a class set aside for this purpose, or
//! a refusal with what is free.
//!
//! *Law*: a flow that conforms to its traffic specification never waits longer than the granted delay bound, whatever
//! other flows send. A reservation that is not refreshed in time ends.
//! *Source*: Risso and Gevros 1999, section 7.2; RFC 2210 to 2212 and RFC 2215 for the specification, the services
//! and the delay bound.
//! *Units*: rates in bit/s, sizes in bytes with all headers, delays in ns from the arrival at the discipline to the
//! last bit on the link.
//! *Cost*: O(log n) to reserve, refresh and expire, and what the tree needs to add or remove a leaf.
//! *Notes*: bounds need [`Accounting::Bytes`], weighted turns, priority 0, and a [`LinkClock`] that is not set back
//! before it leads by [`Lead`] and a packet. Otherwise controlled load is granted without a bound. A bound holds as
//! long as no class of priority 0 is added outside the class of the reservations, and the link is not slower than the
//! tree's rate.
//!
//! # The bound
//! RFC 2212: a flow of token rate r, bucket b, peak p and largest packet M, served at a rate R with the error terms C
//! and D, waits at most
//!
//! `(b - M)/R x (p - R)/(p - r) + (M + C)/R + D` if `p > R >= r`, and `(M + C)/R + D` if `R >= p >= r`.
//!
//! For a leaf of priority 0 in this CBQ: while it is backlogged and not over limit it takes its turns. In k rounds of
//! `F = n x mtu` bytes it may send `k q`, with `q = F R / (all rates of priority 0)`, and every other leaf its own
//! part and a packet, before the round is over. So within `t` of link time `B t` it is served at least `(q / F)(B t -
//! X) - M`, where `X = mtu` (a packet in transmission) `+ (n - 1) mtu` (the others' last packets) `+ 2 (F - q)` (the
//! current round and the next), and `B q / F >= R`. While it is over limit it has been served at `R` by definition,
//! less one packet of debt at the start. Together: `C = 2 M`, `D = X / B`. A driver that takes packets before it can
//! send them gets as many as [`Lead`] allows: that time is added to `D`. What it holds in addition, a parameter, adds
//! its bytes to `X`; so does, for each leaf, what another parameter says that its longest packet has beyond the mtu.
//!
//! `n` is its largest possible value, and the rates are the largest that the class of the reservations allows, so
//! that later reservations do not break the bounds of earlier ones.
//!
//! *Departures from the source*: the paper's system used the link's largest packet as the packet size of every
//! reservation and could not provide guaranteed service. Here the packet size of the class is the minimum policed
//! unit m: with an estimator that needs a packet size, a flow then gets at least what it reserved
//! ([`Accounting::IdleTime`] provides too little when packets are smaller than configured).
//! *See also*: [`cbq`](crate::cbq), which has the classes.
//!
//! ```
//! use tidegate_core::{cbq::{Cbq, Class, Params}, fifo::Fifo, reservation::*, *};
//! # struct P;
//! # impl Packet for P {
//! #     fn size(&self) -> Bytes { Bytes::new(1) }
//! #     fn flow(&self) -> FlowKey { FlowKey::default() }
//! # }
//! let (root, reserved) = (ClassId(1), ClassId(2));
//! let mut cbq = Cbq::<P, Fifo<P>>::new(cbq::Params::new(Rate::from_mbit(10), Bytes::new(1500), root))?;
//! cbq.add_inner(Instant::ZERO, reserved, root, Class::new(Rate::from_mbit(4)))?;
//! let mut reservations = Reservations::new(Policy::new(reserved)).unwrap();
//! let tspec = TSpec {
//!     rate: Rate::from_kbit(64), bucket: Bytes::new(640), peak: Rate::from_kbit(256),
//!     min_unit: Bytes::new(160), max_packet: Bytes::new(320),
//! };
//! let request = Request { tspec, service: Service::ControlledLoad };
//! let grant = reservations.reserve(Instant::ZERO, &mut cbq, &request, Fifo::new).unwrap();
//! assert_eq!(grant.rate, Rate::from_kbit(64));
//! assert!(grant.bound.is_some());
//! # Ok::<(), cbq::TreeError>(())
//! ```

mod bound;

pub use bound::{ErrorTerms, delay_bound};

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use crate::cbq::{Accounting, Borrow, Cbq, Class, General, IdleBounds, Lead, LinkClock, Removal, TreeError};
use crate::fifo::Limit;
use crate::packet::{ClassId, Packet};
use crate::params::ParamError;
use crate::qdisc::{Outlet, Qdisc};
use tidegate_units::{Bytes, Instant, Rate, Span};

/// The traffic specification of a flow (RFC 2215): in any time t it sends at most min(M + p t, b + r t) bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TSpec {
    /// r, the token rate.
    pub rate: Rate,
    /// b, the token bucket.
    pub bucket: Bytes,
    /// p, the peak rate.
    pub peak: Rate,
    /// m, the minimum policed unit: smaller packets count as m.
    pub min_unit: Bytes,
    /// M, the largest packet.
    pub max_packet: Bytes,
}

impl TSpec {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn validate(&self) -> Result<(), ParamError> {
        if self.rate.is_zero() {
            return Err(ParamError::new("rate", "a flow of token rate zero needs no reservation"));
        }
        if self.peak < self.rate {
            return Err(ParamError::new("peak", "the peak rate may not be below the token rate"));
        }
        if self.max_packet == Bytes::ZERO {
            return Err(ParamError::new("max_packet", "must be at least 1 byte"));
        }
        if self.min_unit == Bytes::ZERO || self.min_unit > self.max_packet {
            return Err(ParamError::new("min_unit", "must be from 1 byte to the largest packet"));
        }
        if self.bucket < self.max_packet {
            return Err(ParamError::new("bucket", "the bucket must hold the largest packet"));
        }
        Ok(())
    }
}

/// The service of a request: controlled load or guaranteed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// The service of an unloaded link (RFC 2211): the token rate, and the bound that follows from it.
    ControlledLoad,
    /// A bound on the delay (RFC 2212).
    Guaranteed {
        /// R, the rate to reserve; with `None` the least that keeps `delay`.
        rate: Option<Rate>,
        /// The largest acceptable delay; with `None` that of `rate`.
        delay: Option<Span>,
    },
}

/// A request for a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The traffic of the flow.
    pub tspec: TSpec,
    /// The requested service.
    pub service: Service,
}

/// A granted reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The class for the packets of the flow.
    pub id: ClassId,
    /// The reserved rate.
    pub rate: Rate,
    /// The largest delay of a packet, to its last bit on the link; `None` where the tree cannot guarantee one.
    pub bound: Option<Span>,
    /// The rate-dependent error term C of RFC 2212.
    pub error_bytes: Bytes,
    /// The rate-independent error term D.
    pub error_time: Span,
    /// The limit of its queue.
    pub buffer: Bytes,
    /// When it ends unless refreshed.
    pub expires: Instant,
}

/// The class of reservations and their limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// The class under which their leaves are; its rate is the sum that can be reserved.
    pub parent: ClassId,
    /// Their priority. Only 0 has bounds. Default 0.
    pub priority: u8,
    /// Whether they may borrow, as in the paper. Default yes.
    pub borrow: Borrow,
    /// Their first class number; they use this and the `flows - 1` following ones. Default 32768.
    pub first_id: ClassId,
    /// The largest rate of one reservation, also where it follows from a delay. Default: what is free.
    pub max_rate: Option<Rate>,
    /// The most reservations at a time. Bounds increase with it. Default 64.
    pub flows: u32,
    /// The sum of their queue limits. Default 4 MiB.
    pub buffer: Bytes,
    /// The lifetime without a refresh. Default 90 s: three times RSVP's refresh period.
    pub lifetime: Span,
    /// Bytes held behind the discipline beyond what its [`Lead`] allows; with [`Lead::Unbounded`], all that the
    /// driver may hold. Default 0.
    pub device: Bytes,
    /// The longest packet of other classes, where these send superpackets whole that exceed the link's largest packet.
    /// Bounds increase with it. Default 0.
    pub longest: Bytes,
}

impl Policy {
    /// The defaults, under `parent`.
    pub const fn new(parent: ClassId) -> Self {
        Self {
            parent,
            priority: 0,
            borrow: Borrow::FromParent,
            first_id: ClassId(32_768),
            max_rate: None,
            flows: 64,
            buffer: Bytes::new(4 << 20),
            lifetime: Span::from_secs(90),
            device: Bytes::ZERO,
            longest: Bytes::ZERO,
        }
    }
    /// Checks the fields that do not depend on the tree.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn validate(&self) -> Result<(), ParamError> {
        if usize::from(self.priority) >= crate::cbq::PRIORITIES {
            return Err(ParamError::new("priority", "priorities are 0, which goes first, to 7"));
        }
        if self.flows == 0 || self.flows > 1 << 16 {
            return Err(ParamError::new("flows", "the most reservations must be 1 to 65536"));
        }
        if self.lifetime.is_zero() {
            return Err(ParamError::new("lifetime", "must be above 0, for example 90s"));
        }
        Ok(())
    }
}

/// Why a request was refused, with what is free.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// The traffic specification is invalid.
    TSpec(ParamError),
    /// The rate exceeds what is free.
    Rate {
        /// The free rate.
        free: Rate,
        /// The required rate.
        asked: Rate,
    },
    /// The buffer exceeds what is free.
    Buffer {
        /// The free buffer.
        free: Bytes,
        /// The required buffer.
        asked: Bytes,
    },
    /// The number of reservations is at its limit.
    Flows {
        /// The largest number of reservations.
        most: u32,
    },
    /// The delay cannot be guaranteed.
    Delay {
        /// The requested delay.
        asked: Span,
        /// The smallest delay with the free rate.
        least: Span,
    },
    /// The flow's packets exceed the link's largest.
    PacketSize {
        /// The link's largest packet.
        mtu: Bytes,
    },
    /// The tree cannot guarantee delays: this needs `Accounting::Bytes`, `General::WeightedRoundRobin`, priority 0,
    /// and a link clock that is not set back within the lead.
    NoBounds,
    /// There is no such reservation.
    Unknown(ClassId),
    /// The tree rejected the class.
    Tree(TreeError),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The field by its name in files and on the command line.
            Self::TSpec(error) => {
                write!(f, "traffic specification, {}: {}", error.field.replace('_', "-"), error.problem)
            }
            Self::Rate { free, asked } => {
                write!(f, "needs {asked}, {free} is free")
            }
            Self::Buffer { free, asked } => {
                write!(f, "needs {} B of buffer, {} B are free", asked.as_u64(), free.as_u64())
            }
            Self::Flows { most } => write!(f, "all {most} reservations are taken"),
            Self::Delay { asked, least } => {
                // Rounded up to a microsecond: a request for the printed value succeeds.
                let least = Span::from_nanos(least.as_nanos().div_ceil(1_000).saturating_mul(1_000));
                write!(f, "a delay of {asked} cannot be kept; the least is {least}")
            }
            Self::PacketSize { mtu } => write!(f, "packets above {} B do not fit the link", mtu.as_u64()),
            Self::NoBounds => {
                f.write_str("delays need priority 0, byte accounting, weighted turns, and a clock-lead above lead")
            }
            Self::Unknown(id) => write!(f, "no reservation has class {}", id.0),
            Self::Tree(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Refusal {}

/// A granted reservation.
#[derive(Clone, Copy, Debug)]
struct Entry {
    request: Request,
    grant: Grant,
    class: Class,
}

/// Admission control for reservations. The tree is an argument of each call and must be the same one every time.
#[derive(Clone, Debug)]
pub struct Reservations {
    policy: Policy,
    entries: BTreeMap<ClassId, Entry>,
    expiries: BTreeSet<(Instant, ClassId)>,
    buffer: Bytes,
}

impl Reservations {
    /// Returns an empty set of reservations.
    ///
    /// # Errors
    /// When the policy is invalid.
    pub fn new(policy: Policy) -> Result<Self, ParamError> {
        policy.validate()?;
        Ok(Self { policy, entries: BTreeMap::new(), expiries: BTreeSet::new(), buffer: Bytes::ZERO })
    }

    /// Returns the policy of admission.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The requests and grants, by class.
    pub fn grants(&self) -> impl Iterator<Item = (&Request, &Grant)> {
        self.entries.values().map(|entry| (&entry.request, &entry.grant))
    }

    /// Returns when the next reservation expires without a refresh.
    #[inline]
    pub fn next_expiry(&self) -> Option<Instant> {
        self.expiries.first().map(|&(at, _)| at)
    }

    /// The error terms of a leaf of `rate` under this policy, in the worst case.
    fn errors<P: Packet, Q: Qdisc<P>>(&self, cbq: &Cbq<P, Q>, rate: Rate, packet: Bytes) -> ErrorTerms {
        let params = cbq.params();
        let (leaves, rates) = cbq.load(self.policy.priority);
        // Without those to which a previous policy assigned another priority.
        let own = || self.entries.values().filter(|entry| entry.class.priority == self.policy.priority);
        let outside = leaves - own().count() as u64;
        let own: Rate = own().map(|entry| entry.grant.rate).sum();
        let all = cbq.class(self.policy.parent).map_or(Rate::ZERO, |class| class.rate) + rates.saturating_sub(own);
        let leaves = outside + u64::from(self.policy.flows);
        // The last packet of each leaf in its turn, and the one in transmission.
        let beyond = self.policy.longest.saturating_sub(params.mtu).saturating_mul(leaves);
        let device = self.policy.device + beyond;
        let errors = ErrorTerms::of(params.link, params.mtu, device, leaves, all, rate, packet);
        let lead = match params.lead {
            Lead::Within(lead) => lead,
            Lead::Unbounded => Span::ZERO,
        };
        ErrorTerms { time: errors.time + lead, ..errors }
    }

    /// Adds a leaf for a flow. Nothing changes when the request is refused. `queue` makes the queue of the class with
    /// the given limit, which suffices for a conforming flow.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn reserve<P: Packet, Q: Qdisc<P>>(
        &mut self,
        now: Instant,
        cbq: &mut Cbq<P, Q>,
        request: &Request,
        queue: impl FnOnce(Limit) -> Q,
    ) -> Result<Grant, Refusal> {
        let tspec = request.tspec;
        tspec.validate().map_err(Refusal::TSpec)?;
        let mtu = cbq.params().mtu;
        if tspec.max_packet > mtu {
            return Err(Refusal::PacketSize { mtu });
        }
        if self.entries.len() as u64 >= u64::from(self.policy.flows) {
            return Err(Refusal::Flows { most: self.policy.flows });
        }
        let free = cbq.free_rate(self.policy.parent).ok_or(Refusal::Tree(TreeError::Unknown(self.policy.parent)))?;
        let free = self.policy.max_rate.map_or(free, |most| free.min(most));
        let rate = self.rate_for(cbq, request, free)?;
        if rate > free {
            return Err(Refusal::Rate { free, asked: rate });
        }
        let errors = self.errors(cbq, rate, tspec.max_packet);
        let bound = self.bounds_delays(cbq).then(|| delay_bound(&tspec, rate, errors));
        if let Service::Guaranteed { delay: Some(asked), .. } = request.service
            && let Some(least) = bound.filter(|&bound| bound > asked)
        {
            return Err(Refusal::Delay { asked, least });
        }

        // The largest backlog of a conforming flow: the bucket, and the arrivals while it waits for service.
        let latency = rate.time_for_ceil(errors.bytes).unwrap_or(Span::MAX) + errors.time;
        let buffer = tspec.bucket + tspec.rate.bytes_in_floor(latency) + tspec.max_packet;
        let left = self.policy.buffer.saturating_sub(self.buffer);
        if buffer > left {
            return Err(Refusal::Buffer { free: left, asked: buffer });
        }

        // The class may be ahead by its bucket, and by its deficit while other classes take their turns.
        let owed = rate.bytes_in_floor(errors.time) + errors.bytes + Bytes::new(1);
        let burst = tspec.bucket.max(owed).as_u64().div_ceil(mtu.as_u64());
        let burst = u32::try_from(burst).unwrap_or(u32::MAX);
        let class = Class {
            rate,
            priority: self.policy.priority,
            borrow: self.policy.borrow,
            packet_size: Some(tspec.min_unit),
            max_burst: burst,
            min_burst: 1,
            idle: IdleBounds::DERIVED,
        };
        if let Err(error) = class.validate() {
            return Err(Refusal::TSpec(ParamError::new(
                "bucket",
                format!(
                    "{} B and what waits beside it are a burst of more than 256 packets: {error}",
                    tspec.bucket.as_u64()
                ),
            )));
        }
        let first = self.policy.first_id.0;
        let id = (first..first + self.policy.flows).map(ClassId).find(|id| !self.entries.contains_key(id));
        let id = id.ok_or(Refusal::Flows { most: self.policy.flows })?;
        cbq.add_leaf(now, id, self.policy.parent, class, queue(Limit::bytes(buffer))).map_err(Refusal::Tree)?;
        let expires = now + self.policy.lifetime;
        let grant = Grant { id, rate, bound, error_bytes: errors.bytes, error_time: errors.time, buffer, expires };
        self.buffer += buffer;
        self.entries.insert(id, Entry { request: *request, grant, class });
        self.expiries.insert((expires, id));
        Ok(grant)
    }

    /// Whether a tree bounds the delays of reservations; otherwise they have their rates alone.
    pub fn bounds_delays<P: Packet, Q: Qdisc<P>>(&self, cbq: &Cbq<P, Q>) -> bool {
        let params = cbq.params();
        // A clock that is set back before the lead is used up does not count the driver's packets, and releases more.
        let lead_holds = match (params.lead, params.link_clock) {
            (Lead::Within(lead), LinkClock::Reset(most)) => {
                params.link.time_for_ceil(params.mtu).is_some_and(|packet| most >= lead + packet)
            }
            (Lead::Within(_), LinkClock::Clamp(_)) | (Lead::Unbounded, _) => true,
        };
        self.policy.priority == 0
            && params.accounting == Accounting::Bytes
            && params.general == General::WeightedRoundRobin
            && lead_holds
    }

    /// The rate to reserve.
    fn rate_for<P: Packet, Q: Qdisc<P>>(
        &self,
        cbq: &Cbq<P, Q>,
        request: &Request,
        free: Rate,
    ) -> Result<Rate, Refusal> {
        let tspec = &request.tspec;
        let Service::Guaranteed { rate, delay } = request.service else { return Ok(tspec.rate) };
        if !self.bounds_delays(cbq) {
            return Err(Refusal::NoBounds);
        }
        if let Some(rate) = rate {
            return Ok(rate.max(tspec.rate));
        }
        let Some(delay) = delay else { return Ok(tspec.rate) };
        if tspec.rate > free {
            return Err(Refusal::Rate { free, asked: tspec.rate });
        }
        let bound = |rate: Rate| delay_bound(tspec, rate, self.errors(cbq, rate, tspec.max_packet));
        // The delay decreases with the rate: bisection finds the least rate.
        let (mut low, mut high) = (tspec.rate.as_bps(), free.as_bps());
        if bound(free) > delay {
            return Err(Refusal::Delay { asked: delay, least: bound(free) });
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if bound(Rate::from_bps(middle)) <= delay {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(Rate::from_bps(low))
    }

    /// Extends the lifetime of a reservation from `now`; returns its end.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] when it has ended.
    pub fn refresh(&mut self, now: Instant, id: ClassId) -> Result<Instant, Refusal> {
        let entry = self.entries.get_mut(&id).ok_or(Refusal::Unknown(id))?;
        self.expiries.remove(&(entry.grant.expires, id));
        entry.grant.expires = entry.grant.expires.max(now + self.policy.lifetime);
        self.expiries.insert((entry.grant.expires, id));
        Ok(entry.grant.expires)
    }

    /// Adds the leaves of all reservations to another tree that replaces theirs, under `policy` from now on. Numbers,
    /// rates and bounds stay as granted; a bound holds as long as the new tree has the same link and no more classes
    /// of priority 0.
    ///
    /// # Errors
    /// The error of the tree or the policy. The tree must then be discarded; the reservations have not changed.
    pub fn replant<P: Packet, Q: Qdisc<P>>(
        &mut self,
        now: Instant,
        cbq: &mut Cbq<P, Q>,
        policy: Policy,
        mut queue: impl FnMut(Limit) -> Q,
    ) -> Result<(), Refusal> {
        policy.validate().map_err(Refusal::TSpec)?;
        let ids = policy.first_id.0..policy.first_id.0.saturating_add(policy.flows);
        if self.entries.keys().any(|id| !ids.contains(&id.0)) {
            return Err(Refusal::Flows { most: policy.flows });
        }
        for (id, Entry { grant, class, .. }) in &self.entries {
            let leaf = queue(Limit::bytes(grant.buffer));
            cbq.add_leaf(now, *id, policy.parent, *class, leaf).map_err(Refusal::Tree)?;
        }
        self.policy = policy;
        Ok(())
    }

    /// Ends a reservation. `packets` specifies what happens to its queued packets.
    ///
    /// # Errors
    /// [`Refusal::Unknown`], or the error of the tree.
    pub fn release<P: Packet, Q: Qdisc<P>>(
        &mut self,
        now: Instant,
        cbq: &mut Cbq<P, Q>,
        id: ClassId,
        packets: Removal,
        out: &mut dyn Outlet<P>,
    ) -> Result<(), Refusal> {
        let entry = *self.entries.get(&id).ok_or(Refusal::Unknown(id))?;
        cbq.remove(now, id, packets, out).map_err(Refusal::Tree)?;
        self.entries.remove(&id);
        self.expiries.remove(&(entry.grant.expires, id));
        self.buffer -= entry.grant.buffer;
        Ok(())
    }

    /// Ends the reservations that were not refreshed by `now`, and returns them. `packets` specifies what happens to
    /// their queued packets.
    ///
    /// # Errors
    /// The error of the tree; the other reservations have ended.
    pub fn expire<P: Packet, Q: Qdisc<P>>(
        &mut self,
        now: Instant,
        cbq: &mut Cbq<P, Q>,
        packets: Removal,
        out: &mut dyn Outlet<P>,
    ) -> Result<Vec<ClassId>, Refusal> {
        let mut ended = Vec::new();
        while let Some(&(at, id)) = self.expiries.first() {
            if at > now {
                break;
            }
            self.release(now, cbq, id, packets, out)?;
            ended.push(id);
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests;
