//! [`Tree`]: the discipline of a configuration, built.

use tidegate_config::discipline::Site;
use tidegate_config::shaper::{self, Bursts, Config, EcnFeedback, Root, Sharing};
use tidegate_core::fbq::{
    Borrow, ClassParams, ClassView, Displace, Fbc, FbcParams, Feedback, FlowView, Marking, Profile, Spare, WEIGHT_ONE,
};
use tidegate_core::nested::{Nested, Staged};
use tidegate_core::{Backlog, Bytes, ClassId, Deadline, Instant, Outlet, Packet, Qdisc, Rate, Span};

/// A class with loose bursts may save up this many flow bursts: its flows are bounded each by itself, the class
/// only against the sum of all of them.
const LOOSE_FLOWS: u64 = 64;

/// The discipline at the root: the end-system shaper with all that can be asked of it, or any other.
pub enum Tree<P: Packet> {
    /// Classes of flows.
    Shaper(Box<Nested<P>>),
    /// Any discipline.
    Any(Box<dyn Qdisc<P>>),
}

impl<P: Packet + 'static> Tree<P> {
    /// Builds the discipline of `config`. `catch_up` is the lateness a live data path makes up for.
    ///
    /// # Errors
    /// A text that says which parameters contradict each other; a configuration that passed its checks has none.
    pub fn build(config: &Config, seed: u64, now: Instant, catch_up: Span) -> Result<Self, String> {
        match &config.root {
            Root::Shaper(shaper) => build_shaper(config, shaper, seed, now, catch_up).map(Box::new).map(Self::Shaper),
            Root::Discipline(discipline) => Ok(Self::Any(discipline.build(&Site { seed, name: "root".into(), now }))),
        }
    }

    /// The end-system shaper, when that is what it is.
    pub fn shaper(&self) -> Option<&Fbc<Staged<P>>> {
        match self {
            Self::Shaper(nested) => Some(nested.fbc()),
            Self::Any(_) => None,
        }
    }
    /// The same, to steer it.
    pub fn shaper_mut(&mut self) -> Option<&mut Fbc<Staged<P>>> {
        match self {
            Self::Shaper(nested) => Some(nested.fbc_mut()),
            Self::Any(_) => None,
        }
    }
    /// The classes of the end-system shaper; nothing for another discipline.
    pub fn classes(&self) -> Vec<ClassView> {
        self.shaper().map(|fbc| fbc.classes().collect()).unwrap_or_default()
    }
    /// The flows of the end-system shaper; nothing for another discipline. Cost: linear.
    pub fn flows(&self) -> Vec<FlowView> {
        self.shaper().map(|fbc| fbc.flows().collect()).unwrap_or_default()
    }
    /// The rate at which flow `flow` of `class` sends, or would as a newcomer; `None` where flows have no rates.
    pub fn rate_of(&self, flow: u64, class: ClassId) -> Option<Rate> {
        self.shaper()?.outlook(flow, class)
    }
}

fn build_shaper<P: Packet + 'static>(
    config: &Config,
    shaper: &shaper::Shaper,
    seed: u64,
    now: Instant,
    catch_up: Span,
) -> Result<Nested<P>, String> {
    let params = FbcParams {
        rate: shaper.rate,
        burst: shaper.burst,
        idle_timeout: shaper.idle_timeout,
        max_flows: shaper.flows as usize,
        catch_up,
    };
    let classes = shaper.classes.iter().map(class_params).collect();
    let fbc = Fbc::new(params, classes, profiles(config), now).map_err(|error| error.to_string())?;
    let queues = shaper.classes.iter().map(|class| {
        let site = Site { seed, name: class.name.clone(), now };
        class.queue.as_ref().map(|queue| queue.build(&site))
    });
    Ok(Nested::new(fbc, queues.collect()))
}

fn class_params(class: &shaper::Class) -> ClassParams {
    let spare = match class.share {
        Sharing::WorkConserving => Spare::Shared,
        Sharing::Strict => Spare::Idle,
    };
    ClassParams {
        rate: class.rate,
        burst: match class.bursts {
            Bursts::Strict => class.burst,
            Bursts::Loose => class.burst.max(class.flow_burst.saturating_mul(LOOSE_FLOWS)),
        },
        flow_burst: class.flow_burst,
        priority: u32::from(class.priority),
        dscp: class.dscp,
        spare,
        borrow: match (class.borrow, spare) {
            (shaper::Borrow::Allowed, Spare::Shared) => Borrow::FromOthers,
            _ => Borrow::Never,
        },
        limit: class.limit,
        flow_limit: class.flow_limit,
        increment: (u64::from(class.increment.millionths()) << 32) / 1_000_000,
        feedback: class.feedback.map(|feedback| Feedback {
            above: Bytes::new(feedback.above.of(class.flow_limit.as_u64())),
            below: Bytes::new(feedback.below.of(class.flow_limit.as_u64())),
            mark: match feedback.ecn {
                EcnFeedback::Mark => Marking::EcnCapable,
                EcnFeedback::Off => Marking::Never,
            },
        }),
    }
}

/// Profile 0 is nobody's rule; rule `i` is profile `i + 1`.
fn profiles(config: &Config) -> Vec<Profile> {
    let of_rule = |rule: &shaper::Rule| Profile {
        weight: u64::from(rule.weight) * WEIGHT_ONE,
        minimum: rule.minimum,
        displace: rule.displace.map(|displace| Displace { below: displace.below, to: displace.to.0 }),
    };
    std::iter::once(Profile::default()).chain(config.rules.iter().map(of_rule)).collect()
}

impl<P: Packet + 'static> Qdisc<P> for Tree<P> {
    fn enqueue(&mut self, now: Instant, packet: P, out: &mut dyn Outlet<P>) {
        match self {
            Self::Shaper(shaper) => shaper.enqueue(now, packet, out),
            Self::Any(any) => any.enqueue(now, packet, out),
        }
    }
    fn dequeue(&mut self, now: Instant, out: &mut dyn Outlet<P>) -> Option<P> {
        match self {
            Self::Shaper(shaper) => shaper.dequeue(now, out),
            Self::Any(any) => any.dequeue(now, out),
        }
    }
    fn deadline(&self, now: Instant) -> Deadline {
        match self {
            Self::Shaper(shaper) => shaper.deadline(now),
            Self::Any(any) => any.deadline(now),
        }
    }
    fn backlog(&self) -> Backlog {
        match self {
            Self::Shaper(shaper) => shaper.backlog(),
            Self::Any(any) => any.backlog(),
        }
    }
}
