//! `kind = "fbq"`: [`tidegate_core::fbq`], the end-system shaper, as a discipline among others.
//!
//! The keys are those of `[shaper]` and `[[class]]` of a shaper file. Profiles take the place of rules: a packet
//! carries the number of its profile.

use std::collections::HashMap;

use tidegate_core::nested::Nested;
use tidegate_core::{ClassId, Packet, Qdisc, Rate, Span};

pub use super::kinds::{FbqQueue, ProfileSection};
use super::section::{Section, Site};
use crate::classes::file::ShaperSection;
use crate::classes::{self, Advice, Displace, FairBy, FlowBy, Match, Rule, Shaper};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

impl FbqQueue {
    /// Resolves the parameters, and reports their faults.
    fn resolve(&self, diagnostics: &mut Diagnostics) -> (Shaper, Vec<Rule>) {
        let largest = self.mtu.value;
        for class in &self.class {
            if let Some(default) = class.default {
                diagnostics
                    .error(default.place, "`default` belongs to the classes of a shaper file")
                    .label("packets carry the number of their class here")
                    .help("leave it out; in a shaper file with this discipline write default-class");
            }
            if class.advice.value != Advice::None {
                diagnostics
                    .error(class.advice.place, "`advice` belongs to the classes of a shaper file")
                    .label("this discipline does not write into packets")
                    .help("leave it out, or write the classes as [[class]]");
            }
        }
        let total = ShaperSection {
            rate: self.rate,
            burst: self.burst,
            flow_by: Spanned { value: FlowBy::FiveTuple, place: self.mtu.place },
            fair_by: Spanned { value: FairBy::Flow, place: self.mtu.place },
            idle_timeout: self.idle_timeout,
            flows: self.flows,
            follow: None,
        };
        let total = Spanned { value: total, place: self.mtu.place };
        let shaper = classes::resolve(Some(&total), &self.class, largest, diagnostics);
        let names: HashMap<&str, u32> = self.classes().into_iter().zip(0..).collect();
        let listed = self.classes();
        let rules = self.profile.iter().map(|profile| {
            let minimum = profile.minimum.map_or(Rate::ZERO, |minimum| minimum.value);
            if profile.weight.value == 0 {
                diagnostics
                    .error(profile.weight.place, "a weight of zero gives no share")
                    .label("must be above zero")
                    .help("write at least 1");
            }
            let displace = profile.displace.as_ref().map(|displace| {
                let to = classes::lookup(&displace.to, &names, &listed, diagnostics);
                if displace.below.value <= minimum {
                    diagnostics
                        .error(
                            displace.below.place,
                            format!("the threshold {} is not above the minimum {minimum}", displace.below.value),
                        )
                        .label("a share never falls below the minimum, so that this never happens")
                        .help("raise `below` or lower `minimum`");
                }
                Displace { below: displace.below.value, to }
            });
            Rule {
                name: Some(profile.name.value.clone()),
                class: ClassId(0),
                matches: Match::default(),
                weight: profile.weight.value,
                minimum,
                flows: 1,
                displace,
                at_most: profile.at_most.map(|most| classes::ceiling(most.value, largest.saturating_mul(2))),
            }
        });
        let rules = rules.collect();
        (shaper, rules)
    }

    /// Builds it with its own type, for callers that make promises to its flows.
    pub fn build_nested<P: Packet + 'static>(&self, site: &Site, catch_up: Span) -> Result<Nested<P>, String> {
        let (shaper, rules) = self.resolve(&mut Diagnostics::new());
        shaper.build(&rules, site, catch_up, |class| format!("{} {class}", site.name))
    }
}

impl Section for FbqQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if self.class.is_empty() {
            diagnostics
                .error(place, "there is no class")
                .label("nothing to shape")
                .help(
                    "add class = [{ name = \"all\", rate = \"10mbit\" }], with the rate of the line: a slower class leaves some \
                     of it unused",
                );
            return;
        }
        self.resolve(diagnostics);
    }
    fn classes(&self) -> Vec<&str> {
        self.class.iter().map(|class| class.name.value.as_str()).collect()
    }
    fn profiles(&self) -> Vec<&str> {
        self.profile.iter().map(|profile| profile.name.value.as_str()).collect()
    }
    fn line(&self) -> Option<Rate> {
        Some(self.resolve(&mut Diagnostics::new()).0.rate)
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(self.build_nested(site, Span::ZERO).expect("parameters that were checked"))
    }
}
