//! [`Division`]: how the rates of a file are divided over shards, and divided anew by demand.
//!
//! *Law*: the rates that packets can leave by in all shards together never exceed those of the file, neither the total nor that of any
//! class, also while the division changes: what one shard gives up is given to others when the first is known to keep to less. In each
//! shard the classes fit into its total. So all shards together send within τ at most `rate·τ` and the burst of each shard. While the
//! file changes, the total is at most the larger of the two.
//! *Source*: flow proportional share, of Raghavan et al., "Cloud Control with Distributed Rate Limiting", SIGCOMM 2007. Shards are
//! limiters here whose demand everybody can read, so that nothing is estimated by gossip.
//! *Units*: bits and bytes per second, ns.
//! *Cost*: linear in shards and classes, with a factor of the number of shards where demand exceeds the rates.
//! *Notes*: a shard has no more than its part until the next look, and one that begins to send has its bucket and a small part of
//! the rates until then. What a shard keeps without demand is 1/128 of the rates for all such shards together. A class that begins
//! to use its rate in one shard, while others borrow it, waits for a look as well.
//! *See also*: the pool of credit of threads in user space (`tidegate_core::pool`), from which slices of 2 ms are taken.

use tidegate_units::{Instant, Span};

/// The part of all rates that shards without demand keep together.
const KEPT: f64 = 1.0 / 128.0;
/// The rate of a shard whose demand can be satisfied, as a multiple of that demand.
const HEADROOM: f64 = 1.0 + 1.0 / 16.0;
/// The times over which demand and the number of flows are averaged, in seconds.
const AVERAGED: f64 = 0.04;
const FLOWS_AVERAGED: f64 = 0.3;
/// The least time between two measurements of demand.
const LEAST_MEASURED: Span = Span::from_millis(10);
/// A change of less than this part of each rate is none, and one of less than the second waits until [`REPOSE`] after the last one:
/// a change is a pass of the program over all of its options, some 20,000 steps.
const LEAST_CHANGE: f64 = 1.0 / 128.0;
const SMALL_CHANGE: f64 = 1.0 / 16.0;
const REPOSE: Span = Span::from_millis(100);
/// After this time without a packet the rates are divided equally again.
const IDLE: Span = Span::from_secs(1);

/// The total and the rate of each class, in bits per second.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rates {
    pub total: u64,
    pub classes: Vec<u64>,
}

impl Rates {
    /// The total, then the classes.
    fn all(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.total).chain(self.classes.iter().copied())
    }
    fn of(all: &[u64]) -> Self {
        Self { total: all[0], classes: all[1..].to_vec() }
    }
    /// The part of each rate of the file that one of so many shards has at the beginning.
    fn part(&self, shards: usize) -> Self {
        let part = |rate: u64| rate / shards as u64;
        Self { total: part(self.total), classes: self.classes.iter().map(|rate| part(*rate)).collect() }
    }
}

/// The rates of a file, which are divided, with all that each shard has whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Granted {
    pub rates: Rates,
    /// The bursts in bytes, the total first and then those of classes.
    pub bursts: Vec<u64>,
    /// Whether each class uses what others leave.
    pub borrows: Vec<bool>,
    /// The names of the classes, by which they keep their parts in a change.
    pub names: Vec<String>,
}

/// The counters of a class in a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Load {
    /// The bytes that it has sent so far.
    pub sent: u64,
    /// The packets that wait.
    pub waiting: u64,
    /// The flows that have some of them.
    pub flows: u64,
}

/// The state of a shard at a look.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Look {
    pub classes: Vec<Load>,
    /// The rates that are in force, the total first.
    pub in_force: Vec<u64>,
}

/// The demand of a class in a shard.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Demand {
    sent: u64,
    /// The rate that it sends, in bits per second.
    rate: f64,
    /// The flows that wait, on average over the looks at which some do.
    flows: f64,
    waits: bool,
    /// It sent nothing before the last measurement.
    is_silent: bool,
}

impl Demand {
    /// The rate that it can use.
    fn limit(&self) -> f64 {
        if self.waits { f64::INFINITY } else { self.rate * HEADROOM }
    }
}

#[derive(Clone, PartialEq, Debug)]
struct Shard {
    /// The rates that were written last, the total first.
    written: Vec<u64>,
    /// At the last look: the rates that were in force, and the most by which packets may have left since.
    in_force: Vec<u64>,
    held: Vec<u64>,
    demands: Vec<Demand>,
    /// Since when it has sent nothing, if it has not.
    idle_since: Option<Instant>,
}

impl Shard {
    /// Whether it could use more than it has.
    fn is_short(&self) -> bool {
        self.demands.iter().any(|demand| demand.waits)
            || self.demands.iter().map(Demand::limit).sum::<f64>() > self.written[0] as f64
    }
}

/// See the [module](self).
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Division {
    granted: Granted,
    shards: Vec<Shard>,
    /// When demand was measured last.
    measured: Option<Instant>,
    changed: Instant,
    /// Whether the last look had more to give than there was.
    lacks: bool,
}

/// Rates that are to be written to a shard.
pub(crate) type Write = (usize, Rates);

impl Division {
    /// Divides the rates equally over so many shards.
    pub fn new(granted: Granted, shards: usize) -> Self {
        let written: Vec<u64> = granted.rates.part(shards).all().collect();
        let demands = vec![Demand::default(); granted.rates.classes.len()];
        let shard = Shard { held: written.clone(), in_force: written.clone(), written, demands, idle_since: None };
        Self { shards: vec![shard; shards], granted, measured: None, changed: Instant::ZERO, lacks: false }
    }

    /// The rates of a shard as they were written last.
    pub fn rates(&self, shard: usize) -> Rates {
        Rates::of(&self.shards[shard].written)
    }

    /// The names of the classes.
    pub fn names(&self) -> &[String] {
        &self.granted.names
    }

    /// The division of another file: each class of the same name keeps its parts, and so does the total. All shards are to be written.
    pub fn renew(&mut self, granted: Granted) {
        let before = std::mem::replace(&mut self.granted, granted);
        let (granted, shards) = (&self.granted, self.shards.len());
        let rates: Vec<u64> = before.rates.all().collect();
        for shard in &mut self.shards {
            let part = |at: usize, rate: u64| {
                u64::try_from(u128::from(rate) * u128::from(shard.written[at]) / u128::from(rates[at].max(1)))
                    .unwrap_or(rate)
            };
            let earlier = |name: &String| before.names.iter().position(|other| other == name);
            let total = part(0, granted.rates.total);
            let mut classes: Vec<u64> = Vec::new();
            let mut demands = Vec::new();
            for (name, rate) in granted.names.iter().zip(&granted.rates.classes) {
                let at = earlier(name);
                classes.push(at.map_or(rate / shards as u64, |at| part(at + 1, *rate)));
                demands.push(at.map_or_else(Demand::default, |at| shard.demands[at]));
            }
            // They fit into the total of the file, and need not fit into that of each shard.
            let sum: u64 = classes.iter().sum();
            if sum > total {
                classes
                    .iter_mut()
                    .for_each(|rate| *rate = (u128::from(*rate) * u128::from(total) / u128::from(sum)) as u64);
            }
            shard.written = std::iter::once(total).chain(classes).collect();
            shard.demands = demands;
        }
    }

    /// Looks at all shards, and returns the rates that are to be written to some of them, at once and in this order.
    pub fn look(&mut self, now: Instant, looks: &[Look]) -> Vec<Write> {
        self.measure(now, looks);
        let is_idle = |shard: &Shard| shard.idle_since.is_some_and(|since| now.since(since) >= IDLE);
        if self.shards.iter().any(Shard::is_short) || self.shards.iter().all(is_idle) {
            let target = self.target();
            self.approach(now, &target)
        } else {
            self.lacks = false;
            Vec::new()
        }
    }

    /// Whether a shard has sent something in the last second, so that the rates may be divided by a demand that has gone.
    pub fn is_busy(&self) -> bool {
        let is_busy = |shard: &Shard| match (shard.idle_since, self.measured) {
            (Some(since), Some(now)) => now < since + IDLE,
            _ => true,
        };
        self.shards.iter().any(is_busy)
    }

    /// Whether more is to be given as soon as shards are known to have given it up.
    pub fn lacks(&self) -> bool {
        self.lacks
    }

    fn measure(&mut self, now: Instant, looks: &[Look]) {
        let since = self.measured.map(|measured| now.since(measured));
        // In less time a shard of a low rate may send nothing.
        let measures = since.is_none_or(|since| since >= LEAST_MEASURED);
        let passed = since.map_or(0.0, |since| since.as_nanos() as f64 / 1e9);
        let [share, flows_share] = [AVERAGED, FLOWS_AVERAGED].map(|averaged| 1.0 - (-passed / averaged).exp());
        for (shard, look) in self.shards.iter_mut().zip(looks) {
            // It follows a change with its next packet, whichever was in force before.
            shard.held = look.in_force.iter().zip(&shard.written).map(|(is, to)| *is.max(to)).collect();
            shard.in_force.clone_from(&look.in_force);
            let mut is_idle = true;
            for (demand, load) in shard.demands.iter_mut().zip(&look.classes) {
                // Counters begin anew with a class of another name.
                let sent = load.sent.checked_sub(demand.sent).unwrap_or(load.sent);
                is_idle &= sent == 0 && load.waiting == 0;
                let waited = std::mem::replace(&mut demand.waits, load.waiting > 0);
                if !measures {
                    continue;
                }
                demand.sent = load.sent;
                let was_silent = std::mem::replace(&mut demand.is_silent, sent == 0 && load.waiting == 0);
                demand.rate += (sent as f64 * 8.0 / passed.max(1e-9) - demand.rate) * share;
                if was_silent && demand.is_silent {
                    demand.rate = 0.0;
                }
                if demand.waits {
                    let flows = load.flows.max(1) as f64;
                    demand.flows = if waited { demand.flows + (flows - demand.flows) * flows_share } else { flows };
                }
            }
            shard.idle_since = is_idle.then(|| shard.idle_since.unwrap_or(now));
        }
        if measures {
            self.measured = Some(now);
        }
    }

    /// The division that the demand of now asks for.
    fn target(&self) -> Vec<Vec<f64>> {
        let (shards, Granted { rates, borrows, .. }) = (self.shards.len(), &self.granted);
        let kept = KEPT / (shards - 1).max(1) as f64;
        // First each class uses its own rate where its flows are.
        let mut parts = vec![vec![0.0]; shards];
        let (mut wants, mut weights) = (Vec::new(), Vec::new());
        let mut left = Vec::new();
        for (class, rate) in rates.classes.iter().enumerate() {
            let of = |shard: &Shard| shard.demands[class];
            let rate = *rate as f64;
            let limits: Vec<f64> = self.shards.iter().map(|shard| of(shard).limit().max(rate * kept)).collect();
            let flows: Vec<f64> = self.shards.iter().map(|shard| of(shard).flows.max(1.0)).collect();
            let own = filled(rate, &limits, &flows);
            left.push(rate - own.iter().sum::<f64>());
            let wanted = limits.iter().zip(&own).map(|(limit, own)| if borrows[class] { limit - own } else { 0.0 });
            let wanted: Vec<f64> = wanted.collect();
            let borrowing: f64 =
                wanted.iter().zip(&flows).filter(|(wanted, _)| **wanted > 0.0).map(|(_, flows)| flows).sum();
            // The classes borrow in proportion to their rates, and the flows of each alike.
            weights.extend(flows.iter().map(|flows| rate.max(1.0) * flows / borrowing.max(1.0)));
            wants.extend(wanted);
            for (part, own) in parts.iter_mut().zip(own) {
                part[0] += own;
                part.push(own);
            }
        }
        // Then they borrow, and the total follows those who do.
        let total = rates.total as f64;
        let own: Vec<f64> = parts.iter().map(|part| part[0]).collect();
        let spare = filled((total - own.iter().sum::<f64>()).max(0.0), &wants, &weights);
        for (at, more) in spare.into_iter().enumerate() {
            parts[at % shards][0] += more;
        }
        let sum: f64 = parts.iter().map(|part| part[0]).sum();
        for part in &mut parts {
            part[0] *= if sum > 0.0 { total / sum } else { 0.0 };
        }
        // Classes keep the rate that they do not use where there is room, so that they have it when they begin.
        let room: Vec<f64> = parts.iter().zip(&own).map(|(part, own)| (part[0] - own).max(0.0)).collect();
        let all: f64 = room.iter().sum();
        for (part, room) in parts.iter_mut().zip(room).filter(|_| all > 0.0) {
            part[1..].iter_mut().zip(&left).for_each(|(own, left)| *own += left.max(0.0) * room / all);
        }
        parts
    }

    /// Takes what is to be taken, and gives what nobody has any more.
    fn approach(&mut self, now: Instant, target: &[Vec<f64>]) -> Vec<Write> {
        let granted: Vec<u64> = self.granted.rates.all().collect();
        let in_bits = |part: &Vec<f64>| {
            let mut part: Vec<u64> = part.iter().map(|rate| *rate as u64).collect();
            fit(&vec![0; part.len()], &mut part);
            part
        };
        let target: Vec<Vec<u64>> = target.iter().map(in_bits).collect();
        let least = |at: usize, part: f64| (granted[at] as f64 * part) as u64;
        let is_far = |part: f64| {
            let is_far = |(at, (is, to)): (usize, (&u64, &u64))| is.abs_diff(*to) > least(at, part);
            self.shards
                .iter()
                .zip(&target)
                .any(|(shard, target)| shard.written.iter().zip(target).enumerate().any(is_far))
        };
        let is_due = self.lacks || now.since(self.changed) >= REPOSE;
        if !is_far(if is_due { LEAST_CHANGE } else { SMALL_CHANGE }) {
            self.lacks &= !is_due;
            return Vec::new();
        }
        let mut next: Vec<Vec<u64>> = Vec::new();
        for (shard, target) in self.shards.iter_mut().zip(&target) {
            let lower: Vec<u64> = shard.written.iter().zip(target).map(|(is, to)| *is.min(to)).collect();
            for (at, lower) in lower.iter().enumerate() {
                // Its next packet follows the change, and until then a full bucket gains nothing from a higher rate.
                let gains_nothing = |since| {
                    shard.in_force[at] <= *lower
                        || now.since(since) >= time_to_fill(self.granted.bursts[at], shard.in_force[at])
                };
                if shard.idle_since.is_some_and(gains_nothing) {
                    shard.held[at] = *lower;
                }
            }
            next.push(lower);
        }
        let mut lacks = false;
        for at in 0..granted.len() {
            let held: u64 = self.shards.iter().map(|shard| shard.held[at]).sum();
            let free = granted[at].saturating_sub(held);
            let wanted: u64 = next.iter().zip(&target).map(|(next, target)| target[at] - next[at]).sum();
            lacks |= wanted.saturating_sub(free) > least(at, LEAST_CHANGE);
            for (next, target) in next.iter_mut().zip(&target) {
                let more = target[at] - next[at];
                next[at] += match wanted <= free {
                    true => more,
                    false => (u128::from(more) * u128::from(free) / u128::from(wanted)) as u64,
                };
            }
        }
        self.lacks = lacks;
        let earlier: Vec<u64> = self.shards.iter().map(|shard| shard.written[0]).collect();
        let mut writes = Vec::new();
        for (number, (shard, mut next)) in self.shards.iter_mut().zip(next).enumerate() {
            fit(&shard.written, &mut next);
            if next != shard.written {
                writes.push((number, Rates::of(&next)));
                shard.written = next;
                self.changed = now;
            }
        }
        // First the shards that give something up.
        writes.sort_by_key(|(shard, rates)| rates.total > earlier[*shard]);
        writes
    }
}

/// Lowers what classes get in `next` beyond what they have had in `written`, until they fit into the total.
fn fit(written: &[u64], next: &mut [u64]) {
    let kept: u64 = next[1..].iter().zip(&written[1..]).map(|(next, written)| next.min(written)).sum();
    let more: u64 = next[1..].iter().sum::<u64>() - kept;
    let room = next[0].saturating_sub(kept);
    if more <= room {
        return;
    }
    for (next, written) in next[1..].iter_mut().zip(&written[1..]) {
        let kept = (*next).min(*written);
        *next = kept + (u128::from(*next - kept) * u128::from(room) / u128::from(more)) as u64;
    }
}

/// How long a bucket of so many bytes takes to fill at a rate.
fn time_to_fill(burst: u64, rate: u64) -> Span {
    let nanos = u128::from(burst) * 8_000_000_000 / u128::from(rate.max(1));
    Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Divides an amount by weights, to nobody more than its limit.
fn filled(amount: f64, limits: &[f64], weights: &[f64]) -> Vec<f64> {
    let mut parts = vec![0.0; limits.len()];
    let mut open: Vec<usize> = (0..limits.len()).filter(|at| limits[*at] > 0.0).collect();
    let mut left = amount;
    while !open.is_empty() && left > 0.0 {
        let level = left / open.iter().map(|at| weights[*at]).sum::<f64>();
        let full: Vec<usize> = open.iter().copied().filter(|at| limits[*at] <= level * weights[*at]).collect();
        if full.is_empty() {
            open.iter().for_each(|at| parts[*at] = level * weights[*at]);
            break;
        }
        for at in full {
            parts[at] = limits[at];
            left -= limits[at];
            open.retain(|other| *other != at);
        }
    }
    parts
}

#[cfg(test)]
mod tests;
