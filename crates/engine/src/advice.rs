//! Rate advice: the rate that a class advises to a flow, and when a flow is told.
//!
//! A data path that can write into packets asks here whether a flow is to be told ([`Engine::is_told`]), and for the rate
//! ([`Engine::tell`]); which bytes of a packet carry it is the data path's concern.
//!
//! *Law*: a flow is told at most [`AT_ONCE`] + 8 times in a [`PERIOD`], except that a rate which has fallen by more than an
//! eighth is told at once. The rate includes no header, so that a flow that sends at it is not shaped for its headers.
//! *Source*: draft-ietf-scone-protocol, *Monitoring Period*, *Applying Throughput Advice Signals* and *Damage to Other
//! Protocols* ("a few times each monitoring period"); RFC 9000, section 14.1 (1,200 bytes).
//! *Units*: bit/s of UDP payload.
//! *Cost*: nothing while no class advises. A packet that carries advice costs a classification and a look-up in a table of
//! at most [`FLOWS`] flows.
//! *Notes*: of several threads each knows its own flows only, so that `fair-share` is refused there by the configuration.
//! Endpoints follow the lowest advice of a period: `fair-share` is the flow's lowest share of that time.

use std::net::Ipv6Addr;

use tidegate_config::shaper::{Advice, Class, Config, Root};
use tidegate_core::classify::{Fields, Hosts};
use tidegate_core::fbq::FlowView;
use tidegate_core::flow_table::{FlowTable, Params};
use tidegate_core::{ClassId, Instant, Rate, Span};

use crate::engine::Engine;
use crate::rules::Classification;

/// How long endpoints follow advice.
pub const PERIOD: Span = Span::from_secs(67);
/// How often a new flow is told in a row, because datagrams may be lost and advice is to come early.
pub const AT_ONCE: u8 = 4;
/// The pause after which a flow may be told once more: an eighth of a period.
const PAUSE: Span = Span::from_nanos(PERIOD.as_nanos() / 8);
/// The most flows of which is known when they were told.
pub const FLOWS: u32 = 16_384;
/// Superpackets of a new flow whose segments are looked at for a question.
const LOOKED_AT: u8 = 8;
/// The least payload of the first datagrams of a connection, by which the part of headers is estimated.
const PAYLOAD: u64 = 1_200;

/// When a flow was told, and what.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Whether it has ever asked.
    asks: bool,
    /// How many of its superpackets were looked at before it asked.
    looked_at: u8,
    /// How many of [`AT_ONCE`] are used up, as of `since`.
    used: u8,
    since: Instant,
    /// The last rate, and when it was told.
    last: Option<(Rate, Instant)>,
}

impl Told {
    /// How many of [`AT_ONCE`] are used up at `now`, and as of when.
    fn used(&self, now: Instant) -> (u8, Instant) {
        let pauses = now.since(self.since).as_nanos() / PAUSE.as_nanos();
        match u8::try_from(pauses).ok().and_then(|pauses| self.used.checked_sub(pauses)) {
            Some(used) if used > 0 => (used, self.since + Span::from_nanos(pauses * PAUSE.as_nanos())),
            _ => (0, now),
        }
    }
    /// Whether `rate` is to be told at `now`.
    fn is_due(&self, now: Instant, rate: Rate) -> bool {
        let fallen = self.last.is_some_and(|(last, told)| {
            now.since(told) < PERIOD && u128::from(rate.as_bps()) * 9 < u128::from(last.as_bps()) * 8
        });
        fallen || self.used(now).0 < AT_ONCE
    }
    fn tell(&mut self, now: Instant, rate: Rate) {
        let (used, since) = self.used(now);
        (self.used, self.since) = ((used + 1).min(AT_ONCE), since);
        self.last = Some((rate, now));
    }
}

/// Any hosts of IPv6.
const V6: Hosts = Hosts::V6 { source: Ipv6Addr::UNSPECIFIED, destination: Ipv6Addr::UNSPECIFIED };

/// The rates that a scheduler outside of the engine is to advise.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OffloadedAdvice {
    /// The names of the classes that advise, each with the rates for flows of IPv4 and IPv6 that are not among `flows`.
    pub classes: Vec<(String, [Option<Rate>; 2])>,
    /// The keys of known flows, each with its rate.
    pub flows: Vec<(u64, Option<Rate>)>,
}

/// The flows that were told; present while a class advises.
pub(crate) struct ToldFlows(FlowTable<Told>);

impl ToldFlows {
    /// A table, if a class of `config` advises.
    pub(crate) fn of(config: &Config) -> Option<Self> {
        let Root::Shaper(shaper) = &config.root else { return None };
        let advises = shaper.classes.iter().any(|class| class.advice != Advice::None);
        let params = Params { capacity: FLOWS, idle: PERIOD + PERIOD };
        advises.then(|| FlowTable::new(params).ok()).flatten().map(Self)
    }
    /// The table for `config` after `old`: flows stay told.
    pub(crate) fn succeed(old: Option<Self>, config: &Config) -> Option<Self> {
        let new = Self::of(config)?;
        Some(old.unwrap_or(new))
    }
}

/// The part of `rate` that is left for the payload of datagrams between `hosts`.
fn payload_of(rate: Rate, hosts: Hosts, overhead: u64) -> Rate {
    let headers = 8 + if matches!(hosts, Hosts::V6 { .. }) { 40 } else { 20 };
    let part = u128::from(rate.as_bps()) * u128::from(PAYLOAD) / u128::from(PAYLOAD + headers + overhead);
    Rate::from_bps(u64::try_from(part).unwrap_or(u64::MAX))
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Whether any class advises a rate.
    #[inline]
    pub fn advises(&self) -> bool {
        self.told.is_some()
    }

    /// The rate advised to the flow of packets with these fields, and by which policy; `None` if nothing is advised.
    pub fn advice(&self, fields: &Fields) -> Option<(Advice, Rate)> {
        self.advice_to(&self.classify(fields), fields)
    }

    fn advice_to(&self, classified: &Classification, fields: &Fields) -> Option<(Advice, Rate)> {
        let flow = self.tree.shaper()?.flow(classified.flow.flow);
        self.advice_in(flow.map_or(classified.class, |flow| flow.class), classified.rule, flow.as_ref(), fields.hosts)
    }

    /// The advice of `class` to a flow of `rule` between `hosts`, which is not known yet without a `flow`.
    fn advice_in(
        &self,
        class: ClassId,
        rule: Option<u32>,
        flow: Option<&FlowView>,
        hosts: Hosts,
    ) -> Option<(Advice, Rate)> {
        let Root::Shaper(shaper) = &self.config.root else { return None };
        let fbc = self.tree.shaper()?;
        let section = shaper.classes.get(class.0 as usize)?;
        let most = rule.and_then(|rule| self.config.rules.get(rule as usize)?.at_most).map(|most| most.rate);
        let ceiling = most.into_iter().fold(fbc.ceiling(class)?, Rate::min);
        let rate = match section.advice {
            Advice::None => return None,
            Advice::Ceiling => ceiling,
            Advice::FairShare => {
                flow.map_or_else(|| fbc.prospect(class, rule.map_or(0, |rule| rule + 1)), |flow| Some(flow.rate))?
            }
            Advice::Promise => flow.filter(|flow| flow.granted).map(|flow| flow.minimum)?,
        };
        // A share never exceeds what the class may send.
        let rate = rate.min(ceiling);
        Some((section.advice, payload_of(rate, hosts, self.config.interface.overhead.as_u64())))
    }

    /// The rates for the scheduler of an [`Offload`](crate::Offload) to write, by the last reading of its flows. Cost: linear in the
    /// flows, and nothing while no class advises.
    pub(crate) fn offloaded_advice(&self) -> OffloadedAdvice {
        let (Root::Shaper(shaper), Some(fbc), true) = (&self.config.root, self.tree.shaper(), self.advises()) else {
            return OffloadedAdvice::default();
        };
        // The share and the promise of a flow are known once it is.
        let early = |class: u32, section: &Class| {
            let rate = |hosts| {
                let advice = self.advice_in(ClassId(class), None, None, hosts).map(|(_, rate)| rate);
                advice.filter(|_| section.advice == Advice::Ceiling)
            };
            [Hosts::Unknown, V6].map(rate)
        };
        let advises = |(_, section): &(u32, &Class)| section.advice != Advice::None;
        let classes = (0..).zip(&shaper.classes).filter(advises);
        let flows = self.admit.registry.offloaded().into_iter().flatten().map(|flow| {
            let advice =
                self.advice_in(flow.class, flow.profile.checked_sub(1), fbc.flow(flow.key).as_ref(), flow.fields.hosts);
            (flow.key, advice.map(|(_, rate)| rate))
        });
        OffloadedAdvice {
            classes: classes.map(|(number, class)| (class.name.clone(), early(number, class))).collect(),
            flows: flows.collect(),
        }
    }

    /// Whether the flow of packets with these fields is to be told now, if the packet at hand has a place for it.
    pub fn is_told(&self, now: Instant, fields: &Fields) -> bool {
        let Some(ToldFlows(flows)) = &self.told else { return false };
        let classified = self.classify(fields);
        let Some((_, rate)) = self.advice_to(&classified, fields) else { return false };
        flows.find(classified.flow.flow).is_none_or(|at| flows.get(at).is_due(now, rate))
    }

    /// Whether the segments of a superpacket with these fields are to be looked at one by one for a place: of the first
    /// superpackets of a flow, and after the flow has asked once, whenever it is to be told.
    pub fn is_looked_at(&mut self, now: Instant, fields: &Fields) -> bool {
        let classified = self.classify(fields);
        let Some((_, rate)) = self.advice_to(&classified, fields) else { return false };
        let Some(ToldFlows(flows)) = &mut self.told else { return false };
        let Some(at) = flows.touch(now, classified.flow.flow) else { return false };
        let told = flows.get_mut(at);
        if told.asks {
            return told.is_due(now, rate);
        }
        told.looked_at = told.looked_at.saturating_add(1);
        told.looked_at <= LOOKED_AT
    }

    /// The rate for a packet with these fields that has a place for it; `None` if the flow need not be told now. The flow counts as
    /// told.
    pub fn tell(&mut self, now: Instant, fields: &Fields) -> Option<(ClassId, Rate)> {
        let classified = self.classify(fields);
        let (_, rate) = self.advice_to(&classified, fields)?;
        let ToldFlows(flows) = self.told.as_mut()?;
        let at = flows.touch(now, classified.flow.flow)?;
        let told = flows.get_mut(at);
        told.asks = true;
        told.is_due(now, rate).then(|| {
            told.tell(now, rate);
            (classified.class, rate)
        })
    }

    /// Counts a packet of `class` in which a rate was written.
    pub fn count_advised(&mut self, class: ClassId) {
        self.account.classes.of(class).advised += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    /// Four at once, then one in each eighth of 67 s, 8.375 s.
    #[test]
    fn a_flow_is_told_a_few_times_a_period() {
        let (mut told, rate) = (Told::default(), Rate::from_mbit(5));
        let mut times = Vec::new();
        for second in 0..134 {
            for part in 0..10 {
                let now = at(1_000_000 + second * 1_000 + part * 100);
                if told.is_due(now, rate) {
                    told.tell(now, rate);
                    times.push((second * 10 + part) * 100);
                }
            }
        }
        assert_eq!(times[..6], [0, 100, 200, 300, 8_400, 16_800]);
        let first = times.iter().filter(|time| **time < 67_000).count();
        assert!(first <= 12 && times.len() <= 20, "{times:?}");
    }

    #[test]
    fn a_lower_rate_is_told_at_once_and_a_higher_one_is_not() {
        let mut told = Told::default();
        for _ in 0..AT_ONCE {
            told.tell(at(1_000), Rate::from_mbit(9));
        }
        assert!(!told.is_due(at(1_001), Rate::from_mbit(9)));
        assert!(!told.is_due(at(1_001), Rate::from_mbit(100)));
        assert!(!told.is_due(at(1_001), Rate::from_mbit(8)), "an eighth less");
        assert!(told.is_due(at(1_001), Rate::from_kbit(7_999)));
    }

    /// 5 Mbit/s leave 1,200 of 1,228 bytes with IPv4, and 1,200 of 1,266 with IPv6 and 18 bytes of Ethernet.
    #[test]
    fn headers_are_left_out() {
        let v4 = Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
        let v6 = Hosts::V6 { source: 1.into(), destination: 2.into() };
        assert_eq!(payload_of(Rate::from_mbit(5), v4, 0).as_bps(), 4_885_993);
        assert_eq!(payload_of(Rate::from_mbit(5), v6, 18).as_bps(), 4_739_336);
    }
}
