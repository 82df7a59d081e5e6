//! [`Control`]: the recorded form of calls about promises and reservations.

use serde::{Deserialize, Serialize};
use tidegate_config::edit;
use tidegate_config::shaper;
use tidegate_core::classify::{Classifier, DscpSet, FlagMatch, IcmpType, MarkMatch, Match, Prefix, Rule, Version};
use tidegate_core::fbq::{Displace, Terms};
use tidegate_core::reservation::{Request, Service, TSpec};
use tidegate_core::{Bytes, ClassId, Dscp, Rate};
use tidegate_engine::{ControlCall, Engine, PromiseTable, Sink};
use tidegate_units::{Instant, Span};

/// A call of the control plane. See [`tidegate_engine::ControlCall`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case")]
pub enum Control {
    /// A promise is made.
    Promise {
        /// The number of the promise.
        number: u64,
        /// The minimum in bit/s.
        minimum_bps: u64,
        /// Steps of preference.
        prefer: u32,
        /// Displacement: the share below which a flow is displaced, and the class to which.
        displace: Option<(u64, u32)>,
        /// The number of the class.
        class: u32,
        /// The number of flows for which rate is held.
        flows: u32,
        /// Whether the promise may wait for free rate.
        anyway: bool,
    },
    /// A promise ends.
    End {
        /// The number of the promise.
        number: u64,
    },
    /// The conditions of all promises.
    #[serde(rename = "book")]
    PromiseTable {
        /// The number of the promise for each target.
        numbers: Vec<u64>,
        /// The conditions; the first match counts.
        rules: Vec<Conditions>,
    },
    /// The conditions are applied to the flows that are present.
    Review {
        /// The first place of the registry.
        from: u32,
        /// The largest number of places.
        most: u32,
    },
    /// All promises are forgotten.
    Forget,
    /// A reservation is requested.
    Reserve {
        /// The name of the reservation.
        name: String,
        /// Token rate, bucket, peak rate, minimum policed unit, largest packet: bit/s and bytes.
        tspec: [u64; 5],
        /// For guaranteed service, the rate in bit/s and the longest delay in ns.
        guaranteed: Option<(Option<u64>, Option<u64>)>,
        /// The conditions, as keys and values of a rule in a shaper file.
        matches: Vec<(String, String)>,
    },
    /// A reservation is refreshed.
    Refresh {
        /// The number of its class.
        class: u32,
    },
    /// A reservation ends.
    Release {
        /// The number of its class.
        class: u32,
    },
}

/// Conditions on the packets of a promise. A missing field is no condition.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// The index of the promise in `numbers`.
    target: u32,
    /// 4 or 6.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u8>,
    /// The code points, one bit each.
    #[serde(skip_serializing_if = "Option::is_none")]
    dscp: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    source_ports: Vec<(u16, u16)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    destination_ports: Vec<(u16, u16)>,
    /// Value and mask.
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lengths: Vec<(u16, u16)>,
    /// Values and masks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tcp_flags: Vec<(u8, u8)>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pure_ack: bool,
    /// 4 or 6, and the number of the type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    icmp_types: Vec<(u8, u8)>,
}

fn version_number(version: Version) -> u8 {
    match version {
        Version::V4 => 4,
        Version::V6 => 6,
    }
}

fn version_of(number: u8) -> Result<Version, String> {
    match number {
        4 => Ok(Version::V4),
        6 => Ok(Version::V6),
        other => Err(format!("version {other} of IP")),
    }
}

impl From<&Rule> for Conditions {
    fn from(rule: &Rule) -> Self {
        let matching = &rule.matching;
        let ports = |ranges: &[core::ops::RangeInclusive<u16>]| {
            ranges.iter().map(|range| (*range.start(), *range.end())).collect::<Vec<_>>()
        };
        Self {
            target: rule.target,
            version: matching.version.map(version_number),
            dscp: matching.dscp.map(DscpSet::bits),
            protocol: matching.protocol,
            source: matching.source.map(|prefix| prefix.to_string()),
            destination: matching.destination.map(|prefix| prefix.to_string()),
            source_ports: ports(&matching.source_ports),
            destination_ports: ports(&matching.destination_ports),
            mark: matching.mark.map(|mark| (mark.value, mark.mask)),
            uid: matching.uid.as_ref().map(|range| (*range.start(), *range.end())),
            cgroup: matching.cgroup,
            lengths: ports(&matching.lengths),
            tcp_flags: matching.tcp_flags.iter().map(|flags| (flags.value, flags.mask)).collect(),
            pure_ack: matching.pure_ack,
            icmp_types: matching.icmp_types.iter().map(|kind| (version_number(kind.version), kind.number)).collect(),
        }
    }
}

impl Conditions {
    fn rule(&self) -> Result<Rule, String> {
        let prefix = |text: &Option<String>| {
            let parse = |text: &String| text.parse::<Prefix>().map_err(|error| format!("`{text}`: {error}"));
            text.as_ref().map(parse).transpose()
        };
        let ports = |ranges: &[(u16, u16)]| ranges.iter().map(|(first, last)| *first..=*last).collect::<Vec<_>>();
        let codes = |bits: u64| (0..64).filter(move |code| bits >> code & 1 == 1).filter_map(Dscp::new).collect();
        let matching = Match {
            version: self.version.map(version_of).transpose()?,
            dscp: self.dscp.map(codes),
            protocol: self.protocol,
            source: prefix(&self.source)?,
            destination: prefix(&self.destination)?,
            source_ports: ports(&self.source_ports),
            destination_ports: ports(&self.destination_ports),
            mark: self.mark.map(|(value, mask)| MarkMatch { value, mask }),
            uid: self.uid.map(|(first, last)| first..=last),
            cgroup: self.cgroup,
            lengths: ports(&self.lengths),
            tcp_flags: self.tcp_flags.iter().map(|&(value, mask)| FlagMatch { value, mask }).collect(),
            pure_ack: self.pure_ack,
            icmp_types: self
                .icmp_types
                .iter()
                .map(|&(version, number)| Ok(IcmpType { version: version_of(version)?, number }))
                .collect::<Result<_, String>>()?,
        };
        Ok(Rule { matching, target: self.target })
    }
}

/// The conditions as keys and values of a rule in a shaper file.
fn pairs(matches: &shaper::Match) -> Vec<(String, String)> {
    fn of<T: ToString>(key: &'static str, list: &[T]) -> impl Iterator<Item = (String, String)> {
        list.iter().map(move |one| (key.to_owned(), one.to_string())).collect::<Vec<_>>().into_iter()
    }
    let dscps: Vec<u8> = matches.dscps.iter().map(|dscp| dscp.value()).collect();
    of("dscp", &dscps)
        .chain(of("protocol", &matches.protocols))
        .chain(of("source", &matches.sources))
        .chain(of("destination", &matches.destinations))
        .chain(of("source-port", &matches.source_ports))
        .chain(of("destination-port", &matches.destination_ports))
        .chain(of("host", &matches.hosts))
        .chain(of("port", &matches.ports))
        .chain(of("both-ways", matches.both_ways.then_some(true).as_slice()))
        .chain(of("mark", &matches.marks))
        .chain(of("uid", &matches.users))
        .chain(of("cgroup", &matches.cgroups))
        .chain(of("length", &matches.lengths))
        .chain(of("tcp-flags", &matches.tcp_flags))
        .chain(of("pure-ack", matches.pure_ack.then_some(true).as_slice()))
        .chain(of("icmp-type", &matches.icmp_types))
        .collect()
}

impl From<&ControlCall<'_>> for Control {
    fn from(call: &ControlCall<'_>) -> Self {
        match call {
            ControlCall::Promise { number, terms, class, flows, anyway } => Self::Promise {
                number: *number,
                minimum_bps: terms.minimum.as_bps(),
                prefer: terms.steps,
                displace: terms.displace.map(|displace| (displace.below.as_bps(), displace.to)),
                class: class.0,
                flows: *flows,
                anyway: *anyway,
            },
            ControlCall::End(number) => Self::End { number: *number },
            ControlCall::PromiseTable(table) => Self::PromiseTable {
                numbers: table.numbers.clone(),
                rules: table.promises.iter().flat_map(Classifier::rules).map(Conditions::from).collect(),
            },
            ControlCall::Review { from, most } => Self::Review { from: *from, most: *most },
            ControlCall::Forget => Self::Forget,
            ControlCall::Reserve { name, request: Request { tspec, service }, matches } => Self::Reserve {
                name: (*name).to_owned(),
                tspec: [
                    tspec.rate.as_bps(),
                    tspec.bucket.as_u64(),
                    tspec.peak.as_bps(),
                    tspec.min_unit.as_u64(),
                    tspec.max_packet.as_u64(),
                ],
                guaranteed: match service {
                    Service::ControlledLoad => None,
                    Service::Guaranteed { rate, delay } => Some((rate.map(Rate::as_bps), delay.map(Span::as_nanos))),
                },
                matches: pairs(matches),
            },
            ControlCall::Refresh(class) => Self::Refresh { class: class.0 },
            ControlCall::Release(class) => Self::Release { class: class.0 },
        }
    }
}

impl Control {
    /// Repeats the call. Whether it is refused shows only in later outcomes.
    ///
    /// # Errors
    /// If this version cannot make the call.
    pub(crate) fn repeat<H: Copy + Send + 'static>(
        &self,
        engine: &mut Engine<H>,
        now: Instant,
        out: &mut impl Sink<H>,
    ) -> Result<(), String> {
        match self {
            Self::Promise { number, minimum_bps, prefer, displace, class, flows, anyway } => {
                let displace = displace.map(|(below, to)| Displace { below: Rate::from_bps(below), to });
                let terms = Terms { minimum: Rate::from_bps(*minimum_bps), steps: *prefer, displace };
                let _refused = engine.promises(now).promise(*number, terms, ClassId(*class), *flows, *anyway);
            }
            Self::End { number } => engine.promises(now).end(*number),
            Self::PromiseTable { numbers, rules } => {
                let rules = rules.iter().map(Conditions::rule).collect::<Result<Vec<_>, _>>()?;
                let promises = match rules.is_empty() {
                    true => None,
                    false => Some(Classifier::new(rules).map_err(|error| error.to_string())?),
                };
                let table = PromiseTable { promises, numbers: numbers.clone(), ..PromiseTable::default() };
                drop(engine.promises(now).set_table(table));
            }
            Self::Review { from, most } => drop(engine.promises(now).review(*from, *most)),
            Self::Forget => engine.promises(now).clear(),
            Self::Reserve { name, tspec: [rate, bucket, peak, least, most], guaranteed, matches } => {
                let tspec = TSpec {
                    rate: Rate::from_bps(*rate),
                    bucket: Bytes::new(*bucket),
                    peak: Rate::from_bps(*peak),
                    min_unit: Bytes::new(*least),
                    max_packet: Bytes::new(*most),
                };
                let service = match guaranteed {
                    None => Service::ControlledLoad,
                    Some((rate, delay)) => {
                        Service::Guaranteed { rate: rate.map(Rate::from_bps), delay: delay.map(Span::from_nanos) }
                    }
                };
                let matches = edit::matching(matches)?;
                drop(engine.reserve(now, name, &Request { tspec, service }, matches, out));
            }
            Self::Refresh { class } => drop(engine.refresh(now, ClassId(*class))),
            Self::Release { class } => drop(engine.release(now, ClassId(*class), out)),
        }
        Ok(())
    }
}
