//! `kind = "fbq"`: [`tidegate_core::fbq`], the end-system shaper, as a discipline among others.
//!
//! The keys are those of `[shaper]` and `[[class]]` of a shaper file. What rules set for flows there, profiles set
//! here: packets carry the number of theirs.

use std::collections::HashMap;

use tidegate_core::nested::Nested;
use tidegate_core::{Bytes, ClassId, Packet, Qdisc, Rate, Span};

use super::section::{Section, Site};
use crate::classes::file::{ClassSection, DisplaceSection, ShaperSection};
use crate::classes::{self, Displace, FairBy, FlowBy, Match, Rule, Shaper};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

crate::record! {
    /// Classes in the order of their priorities, and in each the flows by their shares: FBC over FBQ.
    pub struct FbqQueue as "fbq" {
        /// The total that is never exceeded. Default: the sum of the rates of the classes.
        pub rate: Option<Spanned<Rate>>,
        /// What may leave at once over all classes. Default: 1 ms at the total rate, at least two of the largest
        /// packets.
        pub burst: Option<Spanned<Bytes>>,
        /// The largest packet, which bursts must hold. Default 1500 B, Ethernet.
        pub mtu: Spanned<Bytes> = "1500B",
        /// A flow without packets for so long is over, and its share goes back. Default 10 s.
        pub idle_timeout: Spanned<Span> = "10s",
        /// How many flows are remembered at once, over all classes. Default 65536.
        pub flows: Spanned<u32> = 65536,
        /// The classes. Packets carry the number of theirs, from 0.
        pub class: Vec<Spanned<ClassSection>>,
        /// What flows are promised. Packets carry the number of theirs, from 1; 0 is that of flows without a profile.
        /// In a shaper file the packets of rule `i` carry number `i`.
        pub profile: Vec<Spanned<ProfileSection>>,
    }
}

crate::record! {
    /// The promise for the flows of a profile.
    pub struct ProfileSection as "profile" {
        /// Shown as the rule of its flows.
        pub name: Spanned<String>,
        /// How much of the class each flow gets beside flows of weight 1. Default 1.
        pub weight: Spanned<u32> = 1,
        /// What each flow is promised at least. Default: nothing.
        pub minimum: Option<Spanned<Rate>>,
        /// Where a flow goes when its share has fallen too low. Default: it stays.
        pub displace: Option<DisplaceSection>,
    }
}

impl FbqQueue {
    /// The parameters, with what is wrong with them.
    fn resolve(&self, diagnostics: &mut Diagnostics) -> (Shaper, Vec<Rule>) {
        let largest = self.mtu.value;
        for class in &self.class {
            if let Some(default) = class.default {
                diagnostics
                    .error(default.place, "`default` belongs to the classes of a shaper file")
                    .label("packets carry the number of their class here")
                    .help("leave it out; in a shaper file with this discipline write default-class");
            }
        }
        let total = ShaperSection {
            rate: self.rate,
            burst: self.burst,
            flow_by: Spanned { value: FlowBy::FiveTuple, place: self.mtu.place },
            fair_by: Spanned { value: FairBy::Flow, place: self.mtu.place },
            idle_timeout: self.idle_timeout,
            flows: self.flows,
        };
        let total = Spanned { value: total, place: self.mtu.place };
        let shaper = classes::resolve(Some(&total), &self.class, largest, diagnostics);
        let names: HashMap<&str, u32> = self.classes().into_iter().zip(0..).collect();
        let listed = self.classes();
        let rules = self.profile.iter().map(|profile| {
            let minimum = profile.minimum.map_or(Rate::ZERO, |minimum| minimum.value);
            if profile.weight.value == 0 {
                diagnostics
                    .error(profile.weight.place, "a weight of zero is no share")
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
                .help("add class = [{ name = \"all\", rate = \"10mbit\" }]");
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
