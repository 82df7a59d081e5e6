//! Shards: several engines of one configuration that share its rates, each with a part of the flows.
//!
//! Each shard is an engine with its own driver and thread. All share a pool of credit. [`Engine::shard_of`] assigns
//! all packets of a flow to one shard, and so all packets of a host if hosts share a class equally: order within a flow and
//! fairness between hosts are as in one engine.
//!
//! *Law*: see [`pool`](tidegate_core::pool).
//! *Notes*: the limit of a queue applies to each shard. Only the end-system shaper can be shared: other disciplines cannot
//! keep their credit apart from their queues.

mod shared;
mod sync {
    pub(super) use std::sync::{Mutex, MutexGuard};

    pub(super) use crate::guard::lock;
}

use std::fmt;
use std::sync::Arc;

use tidegate_config::shaper::{Config, Root};
use tidegate_core::classify::Fields;
use tidegate_core::fbq::FairBy;
use tidegate_core::pool::PoolAccess;
use tidegate_core::{ClassId, Instant, Rate, Span};

use crate::engine::Engine;
use crate::rules::BuildFailure;
use crate::stats::ClassStatus;
use crate::swap::PreparedConfig;
use crate::tree::Tree;

use shared::SharedPool;

/// Returns the reason why a configuration cannot run in several shards; `None` if it can.
pub fn not_sharable(config: &Config) -> Option<String> {
    match &config.root {
        Root::Shaper(_) => None,
        Root::Discipline(discipline) => Some(format!(
            "the discipline `{}` has one queue for all; classes of a shaper can be divided",
            discipline.kind()
        )),
    }
}

/// The place of an engine among the shards of a configuration.
#[derive(Clone)]
pub struct Shard {
    pool: Arc<SharedPool>,
    number: u32,
}

impl Shard {
    /// Makes a pool that begins at `now`, with places for `shards` engines of `config`. Each engine takes its place with
    /// [`Engine::join`] before its first packet.
    ///
    /// # Errors
    /// If the configuration cannot run, or cannot be divided.
    pub fn all(config: &Config, shards: usize, now: Instant) -> Result<Vec<Self>, BuildFailure> {
        let tree = Tree::build(config, 0, now, Span::ZERO).map_err(BuildFailure::Tree)?;
        Self::of(&tree, shards, now, true).ok_or_else(|| {
            BuildFailure::Tree(not_sharable(config).unwrap_or_else(|| "this discipline cannot be divided".into()))
        })
    }
    /// Makes a pool with the rates of `tree`, and with places for `shards` engines. It begins with full buckets or, unless
    /// `full`, without credit. `None` if the discipline cannot be divided.
    fn of(tree: &Tree, shards: usize, now: Instant, full: bool) -> Option<Vec<Self>> {
        let mut pool = tree.shaper()?.pool(shards, now);
        if !full {
            pool.empty(now);
        }
        let pool = Arc::new(SharedPool::new(pool));
        Some((0..shards as u32).map(|number| Self { pool: Arc::clone(&pool), number }).collect())
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}", self.number)
    }
}

impl Tree {
    fn join(&mut self, shard: &Shard) -> bool {
        let pool: Arc<dyn PoolAccess> = Arc::clone(&shard.pool) as _;
        self.shaper_mut().map(|shaper| shaper.share(pool, shard.number)).is_some()
    }

    /// The rate that `class` is due regardless of other classes. It is zero in a shard, since other shards may use the rate.
    pub(crate) fn due_rate(&self, class: ClassId) -> Rate {
        if self.shaper().is_some_and(tidegate_core::fbq::Fbc::is_shard) {
            return Rate::ZERO;
        }
        self.class_rate(class).unwrap_or(Rate::ZERO)
    }
    /// Whether all that waits in `class` waits for a ceiling.
    #[inline]
    pub(crate) fn is_held(&self, class: ClassId) -> bool {
        self.shaper().is_some_and(|shaper| shaper.held_by(class).is_some())
    }
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Takes a place among the shards of the configuration. Must precede the first packet. Returns `false` if the discipline
    /// cannot be divided.
    pub fn join(&mut self, shard: &Shard) -> bool {
        self.tree.join(shard)
    }

    /// Returns the number of the shard, of `shards`, for a packet with these fields. It is the same for all packets of a flow,
    /// and for all packets of a host if hosts share a class equally; and in all engines with the same secret.
    pub fn shard_of(&self, fields: &Fields, shards: usize) -> usize {
        let key = self.classify.flow_key(fields);
        let hash = match self.tree.shaper().map(tidegate_core::fbq::Fbc::fair_by) {
            Some(FairBy::Source) => key.source,
            Some(FairBy::Destination) => key.destination,
            Some(FairBy::Flow) | None => key.flow,
        };
        // All bits of the keyed hash are equally good.
        ((u128::from(hash) * shards as u128) >> 64) as usize
    }
}

impl PreparedConfig {
    /// Gives the configurations that will replace those of shards a common pool, which begins without credit. Returns `false` if
    /// the discipline cannot be divided.
    pub fn share(prepared: &mut [Self], now: Instant) -> bool {
        let Some(first) = prepared.first() else { return true };
        let Some(shards) = Shard::of(&first.tree, prepared.len(), now, false) else { return false };
        prepared.iter_mut().zip(&shards).all(|(next, shard)| next.tree.join(shard))
    }
}

/// Adds up the classes of several shards. Rates are common to the shards and are not added.
pub fn merged(all: impl IntoIterator<Item = Vec<ClassStatus>>, now: Instant) -> Vec<ClassStatus> {
    let mut all = all.into_iter();
    let mut sums = all.next().unwrap_or_default();
    for classes in all {
        for (sum, class) in sums.iter_mut().zip(&classes) {
            sum.add(class, now);
        }
    }
    sums
}
