//! MERED: Mice and Elephants by RED, with one threshold.
//!
//! *Law*: a flow that sent more than `threshold` bytes is an elephant. Packets of mice leave before those of
//! elephants, except that elephants with queued packets get at least `floor` of the bytes served, less `floor_credit` and one packet,
//! over any interval. A mouse is dropped only when the whole queue is full; elephants are dropped by ARED.
//! *Source*: "Implementation of AQMs on Linux made Easy" (Braithwaite), section "Mice and Elephants Strategies";
//! Guo and Matta, "The war between mice and elephants" (2001), for the idea.
//! *Units*: bytes, packets, bit/s; the floor is a fraction.
//! *Example*: below.
//! *Cost*: O(1) a call, that of [`meredt`].
//! *Notes*: the threshold should be a little above what a short exchange takes: 100 kB covers most web objects; on a
//! dialup line of 56 kbit/s that is 14 s, and 15 kB is better ([`Params::for_link`] takes 2 s of the link between
//! 15 and 100 kB).
//! *Departures from the source, and why*: those of [`meredt`]: the floor and the rules against false
//! mice. ARED spreads drops uniformly, as its own paper does.
//! *See also*: [`meredt`], where an elephant grows gradually.
//!
//! ```
//! use tidegate_core::{mered::{Mered, Params}, qdisc::{Discard, Qdisc}, *};
//! # #[derive(Debug)] struct P(u64);
//! # impl Packet for P { fn size(&self) -> Bytes { Bytes::new(1_000) } fn flow(&self) -> FlowKey { FlowKey::numbered(self.0) } }
//! let mut queue = Mered::new(Params { threshold: Bytes::new(2_000), ..Params::for_link(Rate::from_mbit(10)) }, 1, "up")?;
//! for flow in [1, 1, 1, 2] {
//!     queue.enqueue(Instant::ZERO, P(flow), &mut Discard);
//! }
//! let order: Vec<_> = (0..4).map(|_| queue.dequeue(Instant::ZERO, &mut Discard).unwrap().0).collect();
//! // The third packet of flow 1 makes it an elephant.
//! assert_eq!(order, [1, 1, 2, 1]);
//! # Ok::<(), ParamError>(())
//! ```

use crate::ared::{self, Ared};
use crate::elephants::{self, FlowBy, Measure, PairRule, ValueTable};
use crate::fifo::Limit;
use crate::flow_table;
use crate::meredt::{self, Meredt};
use crate::packet::Packet;
use crate::params::ParamError;
use crate::probability::Probability;
use crate::qdisc::{Backlog, Deadline, Outlet, Qdisc, Queued};
use tidegate_units::{Bytes, Instant, Rate, Span};

/// Parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// The packets that count as one flow.
    pub flow_by: FlowBy,
    /// Whether the length of a flow is counted in packets or in bytes.
    pub measure: Measure,
    /// The most a mouse may have sent; with [`Measure::Packets`] a byte stands for a packet.
    pub threshold: Bytes,
    /// How many flows have records, and for how long.
    pub table: flow_table::Params,
    /// Against splitting a transfer into mice; `None` for no such rule.
    pub pair: Option<PairRule>,
    /// How elephants are dropped.
    pub ared: ared::Params,
    /// The most the whole queue holds.
    pub limit: Limit,
    /// The most bytes elephants may hold of it.
    pub elephant_limit: Bytes,
    /// The least share of the bytes served that elephants get while they have queued packets.
    pub floor: Probability,
    /// Service beyond the floor that counts for it later.
    pub floor_credit: Bytes,
}

impl Params {
    /// For a link of `link`: a threshold of what it carries in 2 s, between 15 and 100 kB, and ten times that for
    /// all mice of a pair of hosts; the rest as [`meredt::Params::for_link`].
    pub fn for_link(link: Rate) -> Self {
        let table = meredt::Params::for_link(link);
        let threshold = link.bytes_in_floor(Span::from_secs(2)).clamp(Bytes::new(15_000), Bytes::new(100_000));
        Self {
            flow_by: FlowBy::Flow,
            measure: Measure::Bytes,
            threshold,
            table: table.elephants.table,
            pair: Some(PairRule::for_link(link, threshold.saturating_mul(10))),
            ared: ared::Params { delay: meredt::DELAY, ..ared::Params::for_link(link) },
            limit: table.limit,
            elephant_limit: table.elephant_limit,
            floor: table.floor,
            floor_credit: table.floor_credit,
        }
    }
    /// These parameters, as parameters of [`meredt`].
    pub fn table_driven(self) -> meredt::Params {
        meredt::Params {
            elephants: elephants::Params {
                flow_by: self.flow_by,
                measure: self.measure,
                value: ValueTable::step(self.threshold),
                table: self.table,
                pair: self.pair,
            },
            ared: self.ared,
            limit: self.limit,
            elephant_limit: self.elephant_limit,
            floor: self.floor,
            floor_credit: self.floor_credit,
            fairness: Probability::ZERO,
        }
    }
    /// Checks the parameters.
    ///
    /// # Errors
    /// As [`meredt::Params::validate`].
    pub fn validate(self) -> Result<Self, ParamError> {
        self.table_driven().validate()?;
        Ok(self)
    }
}

/// Mice and Elephants with one threshold. See the [module](self).
#[derive(Clone, Debug)]
pub struct Mered<P>(Meredt<P>);

impl<P: Packet> Mered<P> {
    /// An empty queue, drawing from the random stream `name` under `seed`.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn new(params: Params, seed: u64, name: &str) -> Result<Self, ParamError> {
        Ok(Self(Meredt::new(params.table_driven(), seed, name)?))
    }
    /// An empty queue whose elephants `ared` drops, in place of one by its parameters.
    ///
    /// # Errors
    /// As [`Params::validate`].
    pub fn around(params: Params, ared: Ared) -> Result<Self, ParamError> {
        Ok(Self(Meredt::around(params.table_driven(), ared)?))
    }
    /// The discipline as [`Meredt`]: statistics, state, the measure of flows.
    pub fn inner(&self) -> &Meredt<P> {
        &self.0
    }
}

impl<P: Packet> Qdisc<P> for Mered<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) -> Queued {
        self.0.enqueue(now, packet, out)
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        self.0.dequeue(now, out)
    }
    fn deadline(&self, now: Instant) -> Deadline {
        self.0.deadline(now)
    }
    fn backlog(&self) -> Backlog {
        self.0.backlog()
    }
}
