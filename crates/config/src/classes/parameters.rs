//! From a resolved shaper to the parameters of [`tidegate_core::fbq`], and to the discipline itself.

use tidegate_core::fbq::{self, Borrow, ClassParams, Fbc, FbcParams, Feedback, Marking, Profile, Spare, WEIGHT_ONE};
use tidegate_core::nested::Nested;
use tidegate_core::step::Step;
use tidegate_core::{Bytes, Packet, Span};

use super::{Bursts, Class, EcnFeedback, FairBy, Rule, Shaper, Sharing};
use crate::discipline::Site;

/// A class with loose bursts may save up this many flow bursts: each of its flows is bounded, the class
/// only against the sum of all of them.
const LOOSE_FLOWS: u64 = 64;

impl Shaper {
    /// The parameters of the FBC. `catch_up` is the lateness that a live data path compensates.
    pub fn params(&self, catch_up: Span) -> FbcParams {
        FbcParams {
            rate: self.rate,
            burst: self.burst,
            idle_timeout: self.idle_timeout,
            max_flows: self.flows as usize,
            catch_up,
            fair_by: match self.fair_by {
                FairBy::Flow => fbq::FairBy::Flow,
                FairBy::Host | FairBy::Source => fbq::FairBy::Source,
                FairBy::Destination => fbq::FairBy::Destination,
            },
        }
    }

    /// Builds the discipline, empty, with the profiles of `rules`. `name` names the discipline of a class, for random
    /// streams.
    ///
    /// # Errors
    /// Names parameters that contradict each other. A shaper that has passed its checks has none.
    pub fn build<P: Packet + 'static>(
        &self,
        rules: &[Rule],
        site: &Site,
        catch_up: Span,
        name: impl Fn(&str) -> String,
    ) -> Result<Nested<P>, String> {
        let Site { seed, now, .. } = *site;
        let classes = self.classes.iter().map(Class::params).collect();
        let fbc = Fbc::new(self.params(catch_up), classes, profiles(rules), now).map_err(|error| error.to_string())?;
        let queues = self.classes.iter().map(|class| {
            let site = Site { seed, name: name(&class.name), now };
            class.queue.as_ref().map(|queue| queue.build(&site))
        });
        Ok(Nested::new(fbc, queues.collect()))
    }
}

impl Class {
    /// The parameters of the class.
    pub fn params(&self) -> ClassParams {
        let spare = match self.share {
            Sharing::WorkConserving => Spare::Shared,
            Sharing::Strict => Spare::Idle,
        };
        ClassParams {
            rate: self.rate,
            burst: match self.bursts {
                Bursts::Strict => self.burst,
                Bursts::Loose => self.burst.max(self.flow_burst.saturating_mul(LOOSE_FLOWS)),
            },
            flow_burst: self.flow_burst,
            priority: u32::from(self.priority),
            dscp: self.dscp,
            spare,
            borrow: match self.borrow {
                super::Borrow::Allowed => Borrow::FromOthers,
                super::Borrow::Never => Borrow::Never,
            },
            limit: self.limit,
            flow_limit: self.flow_limit,
            increment: (u64::from(self.increment.millionths()) << 32) / 1_000_000,
            feedback: self.feedback.map(|feedback| Feedback {
                above: Bytes::new(feedback.above.of(self.flow_limit.as_u64())),
                below: Bytes::new(feedback.below.of(self.flow_limit.as_u64())),
                mark: match feedback.ecn {
                    EcnFeedback::Mark => Marking::EcnCapable,
                    EcnFeedback::Off => Marking::Never,
                },
            }),
            step: self.l4s_step.map(Step::at),
            at_most: self.at_most,
        }
    }
}

/// The profiles of the rules: profile 0 is for packets that match no rule, rule `i` is profile `i + 1`.
pub(crate) fn profiles(rules: &[Rule]) -> Vec<Profile> {
    let of_rule = |rule: &Rule| Profile {
        weight: u64::from(rule.weight) * WEIGHT_ONE,
        minimum: rule.minimum,
        displace: rule.displace.map(|displace| fbq::Displace { below: displace.below, to: displace.to.0 }),
        at_most: rule.at_most,
    };
    std::iter::once(Profile::default()).chain(rules.iter().map(of_rule)).collect()
}
