//! FBC over FBQ with the parameters that `struct twin_fbq_options` of `kernel/classes.h` has.

use tidegate_core::fbq::{
    Borrow, Ceiling, Ceilings, ClassParams, Displace, FairBy, Fbc, FbcParams, Feedback, Marking, Profile, Spare,
    WEIGHT_ONE,
};
use tidegate_core::nested::Nested;
use tidegate_core::random::Stream;
use tidegate_core::step::Step;
use tidegate_core::{Bytes, ClassId, Instant, Packet, Rate, Span};
use tidegate_kernel::options::fbq_class_options::INSIDE;
use tidegate_kernel::options::{
    ARED, CAKE, CODEL, DRR, DUALPI2, FBQ_CLASSES, FBQ_PROFILES, FBQ_PROMISES, FIFO, FQ_CODEL, FQ_PIE, INGRESS, MERED,
    Options, PIE, RAS, RED, RIO, SFQ, SPACE, WRED,
};
use tidegate_kernel::options::{fbq_class_options, fbq_options, fbq_profile, fbq_promise};

use super::equal::{options_within, spread};
use super::reference::Specification;

const CLASSES: usize = FBQ_CLASSES as usize;
const PROFILES: usize = FBQ_PROFILES as usize;
const PROMISES: usize = FBQ_PROMISES as usize;
/// The numbers before the classes, of a class, of a profile and of a promise, and of all.
const HEAD: usize = fbq_options::WORDS;
const CLASS: usize = fbq_class_options::WORDS;
const PROFILE: usize = fbq_profile::WORDS;
const PROMISE: usize = fbq_promise::WORDS;
/// Where the disciplines in classes begin.
const INSIDES: usize = HEAD + CLASSES * CLASS + PROFILES * PROFILE + PROMISES * PROMISE;
pub const NUMBERS: usize = INSIDES + CLASSES * Options::NUMBERS;

/// The parameters: in numbers, as the C has them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Classes {
    rate: u64,
    burst: u64,
    idle_timeout: u64,
    flows: u64,
    catch_up: u64,
    fair_by: u64,
    classes: Vec<[u64; CLASS]>,
    profiles: Vec<[u64; PROFILE]>,
    /// The discipline of each class that has one.
    insides: Vec<Option<Options>>,
}

/// The kinds of disciplines in classes.
const KINDS: [u64; 16] =
    [FIFO, CODEL, RED, ARED, PIE, DRR, SFQ, FQ_CODEL, FQ_PIE, MERED, INGRESS, DUALPI2, WRED, RIO, RAS, CAKE];

/// The discipline of a class at random, for packets of which one lasts about `typical` nanoseconds at the total rate. `room` are the
/// queues that are left; only one has records, and only one is CAKE, or none where `left` says so.
pub fn inside(random: &mut Stream, typical: u64, room: &mut u64, left: &mut [bool; 2]) -> Options {
    let [records, cake] = left;
    let mut kind = KINDS[random.below(KINDS.len() as u64) as usize];
    if [MERED, INGRESS].contains(&kind) && !std::mem::take(records) {
        kind = RED;
    }
    if kind == CAKE && !std::mem::take(cake) {
        kind = FQ_CODEL;
    }
    let least = if matches!(kind, PIE | FQ_PIE | DUALPI2) { 10_000_000 } else { 1_000 };
    let interval = typical.saturating_mul(spread(random, 1, 200)).clamp(least, 4_000_000_000);
    let mut options = options_within(random, kind, interval);
    let packets = spread(random, 1, 200);
    options.limit_packets = packets;
    // As in a file, a class with a discipline has room for each of its packets.
    if kind != RAS {
        options.limit_bytes = spread(random, 100, 1_000_000);
    }
    if random.below(2) == 0 {
        options.idle_packet = typical;
    }
    options.records = options.records.max(packets + 1);
    if kind == CAKE {
        (options.rate, options.burst) = (0, 0);
    }
    options.queues = if kind == DRR { packets + 2 } else { options.queues.min(1_024) };
    let queues = if matches!(kind, DRR | SFQ | FQ_CODEL | FQ_PIE | CAKE) { options.queues } else { 3 };
    if queues + CLASSES as u64 > *room {
        return Options { kind: FIFO, ..options };
    }
    *room -= queues;
    options
}

impl Classes {
    /// At random, for packets of which one lasts about `typical` nanoseconds at the total `rate`.
    pub fn random(random: &mut Stream, rate: u64, typical: u64) -> Self {
        let count = if random.below(8) == 0 { 1 + random.below(CLASSES as u64) } else { 1 + random.below(5) };
        let each = rate / count;
        let fair_by = random.below(6) / 3 * (1 + random.below(2));
        // In half of the others some classes are strict, which fit no hosts.
        let strict = if fair_by == 0 && random.below(2) == 0 { 2 } else { 1 };
        // And neither fits ceilings of flows and rules.
        let limits = strict == 1 && random.below(2) == 0;
        let class = |random: &mut Stream| {
            let inside = u64::from(random.below(3) == 0);
            let limit = if inside == 0 { spread(random, 100, 2_000_000) } else { 2_000_000 };
            let above = if inside == 0 { random.below(2) * spread(random, 1, limit) } else { 0 };
            let strict = random.below(strict);
            let ceiling = |random: &mut Stream, may: bool| {
                let most = u64::from(may) * random.below(2) * spread(random, 1, rate.max(1));
                [most, random.below(10).min(1) * spread(random, 1, 200_000)]
            };
            let own = if random.below(10) == 0 { 0 } else { each / (1 + random.below(3)) };
            let borrows = random.below(2);
            // Classes that borrow although they are strict have none.
            let most = random.below(2)
                * (1 - strict * borrows)
                * spread(random, own.max(1), rate.max(own).max(1).saturating_mul(2));
            let ([host_most, host_burst], [flow_most, flow_burst]) =
                (ceiling(random, fair_by != 0), ceiling(random, limits));
            [
                0,
                own,
                spread(random, 1, 200_000),
                random.below(2) * spread(random, 1, 200_000),
                random.below(3),
                borrows,
                limit,
                if random.below(2) == 0 { u64::MAX } else { spread(random, 100, limit) },
                strict,
                spread(random, 1, 1 << 32),
                most,
                random.below(10).min(1) * spread(random, 1, 200_000),
                host_most,
                host_burst,
                flow_most,
                flow_burst,
                inside,
                above,
                if above == 0 { 0 } else { random.below(above) },
                random.below(2),
                random.below(2) * spread(random, 1, typical.saturating_mul(20).max(1)),
            ]
        };
        let profile = |random: &mut Stream| {
            let weight = match random.below(3) {
                0 => WEIGHT_ONE,
                1 => WEIGHT_ONE * (1 + random.below(4)),
                _ => spread(random, 1, 1 << 40),
            };
            let minimum = random.below(2) * random.below(each / 2 + 2);
            let displaces = random.below(3) == 0;
            let below = minimum + 1 + random.below(each + 1);
            let to = 1 + random.below(count);
            let most = u64::from(limits) * random.below(2) * spread(random, 1, rate.max(1));
            let burst = random.below(10).min(1) * spread(random, 1, 200_000);
            [weight, minimum, if displaces { below } else { 0 }, if displaces { to } else { 0 }, most, burst]
        };
        let profiles = random.below(6);
        let classes: Vec<_> = (0..count).map(|_| class(random)).collect();
        let (mut room, mut left) = (SPACE, [true; 2]);
        let mut inside =
            |class: &[u64; CLASS]| (class[INSIDE] == 1).then(|| inside(random, typical, &mut room, &mut left));
        let insides = classes.iter().map(&mut inside).collect();
        Self {
            rate,
            burst: spread(random, 1, 200_000),
            idle_timeout: typical.saturating_mul(spread(random, 1, 2_000)).max(1),
            flows: spread(random, 1, 300),
            catch_up: random.below(2) * random.below(typical.saturating_mul(20).max(1)),
            fair_by,
            classes,
            profiles: (0..profiles).map(|_| profile(random)).collect(),
            insides,
        }
    }
    /// As the C reads them, without promises.
    pub fn record(&self) -> Vec<u64> {
        let counts = [self.classes.len() as u64, self.profiles.len() as u64];
        let mut record = vec![self.rate, self.burst, self.idle_timeout, self.flows, self.catch_up];
        record.extend(counts);
        record.extend([0, 0, 0, self.fair_by]);
        record.extend(self.classes.iter().flatten());
        record.resize(HEAD + CLASSES * CLASS, 0);
        record.extend(self.profiles.iter().flatten());
        record.resize(INSIDES, 0);
        record.extend(self.insides.iter().flat_map(|inside| inside.unwrap_or_default().numbers()));
        record.resize(NUMBERS, 0);
        record
    }
    /// From what the C reads.
    pub fn of_record(record: &[u64; NUMBERS]) -> Self {
        let [rate, burst, idle_timeout, flows, catch_up, classes, profiles, ..] = *record;
        let fair_by = record[fbq_options::FAIR_BY];
        let (of_classes, of_profiles) = record[HEAD..].split_at(CLASSES * CLASS);
        let classes: Vec<[u64; CLASS]> = of_classes.as_chunks().0.iter().copied().take(classes as usize).collect();
        let options = record[INSIDES..].as_chunks().0.iter().map(|numbers| Options::of_numbers(*numbers));
        let insides = classes.iter().zip(options).map(|(class, options)| Some(options).filter(|_| class[INSIDE] == 1));
        Self {
            rate,
            burst,
            idle_timeout,
            flows,
            catch_up,
            fair_by,
            insides: insides.collect(),
            classes,
            profiles: of_profiles.as_chunks().0.iter().copied().take(profiles as usize).collect(),
        }
    }
    /// The number of classes.
    pub fn count(&self) -> u64 {
        self.classes.len() as u64
    }
    /// A class and a profile for a packet of `flow`: mostly those of the flow, seldom one that there is not.
    pub fn of_flow(&self, random: &mut Stream, flow: u64) -> (u64, u64) {
        let other = random.below(200) == 0;
        let class = if other { random.below(self.count() + 1) } else { flow % self.count() };
        let profiles = self.profiles.len() as u64 + 1;
        (class, if random.below(200) == 0 { random.below(profiles) } else { flow / 3 % profiles })
    }
    /// The discipline of the core, empty.
    ///
    /// # Errors
    /// As [`Fbc::new`].
    pub fn discipline<P: Packet + 'static>(&self) -> Result<Nested<P>, String> {
        let params = FbcParams {
            burst: Bytes::new(self.burst),
            idle_timeout: Span::from_nanos(self.idle_timeout),
            max_flows: usize::try_from(self.flows).unwrap_or(usize::MAX),
            catch_up: Span::from_nanos(self.catch_up),
            fair_by: [FairBy::Flow, FairBy::Source, FairBy::Destination][(self.fair_by % 3) as usize],
            ..FbcParams::new(Rate::from_bps(self.rate))
        };
        let class = |&[
            _,
            rate,
            burst,
            flow_burst,
            priority,
            borrows,
            limit,
            flow_limit,
            strict,
            increment,
            most,
            most_burst,
            host_most,
            host_burst,
            flow_most,
            flow_ceiling_burst,
            _,
            above,
            below,
            _,
            step,
        ]: &[u64; CLASS]| {
            ClassParams {
                at_most: Ceilings {
                    class: ceiling(most, most_burst),
                    host: ceiling(host_most, host_burst),
                    flow: ceiling(flow_most, flow_ceiling_burst),
                },
                step: (step != 0).then_some(Step::at(Span::from_nanos(step))),
                feedback: (above != 0).then_some(Feedback {
                    above: Bytes::new(above),
                    below: Bytes::new(below),
                    mark: Marking::Never,
                }),
                spare: if strict == 1 { Spare::Idle } else { Spare::Shared },
                increment,
                burst: Bytes::new(burst),
                flow_burst: Bytes::new(flow_burst),
                priority: u32::try_from(priority).unwrap_or(u32::MAX),
                borrow: if borrows == 1 { Borrow::FromOthers } else { Borrow::Never },
                limit: Bytes::new(limit),
                flow_limit: Bytes::new(flow_limit),
                ..ClassParams::new(Rate::from_bps(rate))
            }
        };
        let profile = |&[weight, minimum, below, to, most, burst]: &[u64; PROFILE]| Profile {
            weight,
            minimum: Rate::from_bps(minimum),
            displace: displace(below, to),
            at_most: ceiling(most, burst),
        };
        let (classes, profiles) = (self.classes.iter().map(class), self.profiles.iter().map(profile));
        let fbc = Fbc::new(params, classes.collect(), profiles.collect(), Instant::ZERO);
        let mut queues = Vec::new();
        for inside in &self.insides {
            let queue = inside.as_ref().map(|options| Specification(options).discipline()).transpose();
            queues.push(queue.map_err(|error| error.to_string())?.flatten());
        }
        Ok(Nested::new(fbc.map_err(|error| error.to_string())?, queues))
    }
}

/// Classes that have nothing but disciplines, as the C reads them.
pub fn record_of(insides: &[Options]) -> Vec<u64> {
    let mut record = vec![0; NUMBERS];
    record[fbq_options::CLASSES] = insides.len() as u64;
    for (class, options) in insides.iter().enumerate() {
        record[HEAD + class * CLASS + INSIDE] = 1;
        let at = INSIDES + class * Options::NUMBERS;
        record[at..at + Options::NUMBERS].copy_from_slice(&options.numbers());
    }
    record
}

/// A ceiling; 0 for none.
fn ceiling(rate: u64, burst: u64) -> Option<Ceiling> {
    (rate != 0).then_some(Ceiling { rate: Rate::from_bps(rate), burst: Bytes::new(burst) })
}

/// A displacement to the class with this number, plus 1; 0 for none.
pub fn displace(below: u64, to: u64) -> Option<Displace> {
    let to = u32::try_from(to.checked_sub(1)?).unwrap_or(u32::MAX);
    Some(Displace { below: Rate::from_bps(below), to })
}

/// Changes the rate of class `number - 1`, or with 0 the total.
pub fn set_rate<P: Packet>(fbc: &mut Fbc<P>, now: Instant, number: u64, rate: u64) {
    let rate = Rate::from_bps(rate);
    match number.checked_sub(1) {
        None => fbc.set_rate(now, rate),
        Some(class) => fbc.set_class_rate(now, ClassId(u32::try_from(class).unwrap_or(u32::MAX)), rate),
    };
}
