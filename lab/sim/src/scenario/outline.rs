//! [`Outline`]: what a scenario consists of, for people who check a file before they run it.

use tidegate_core::{Bytes, Ecn, Rate, Span};

use super::model::{Scenario, Wire};
use super::queue::LinkQueue;
use crate::tcp::{Algorithm, Config, EcnUse, Recovery};
use crate::workload::Transport;

/// The parts of a scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Outline {
    /// The number of hosts.
    pub hosts: usize,
    /// The number of routers.
    pub routers: usize,
    /// The number of links, each in one direction.
    pub links: usize,
    /// The links that have a discipline or a shaper, in the scenario itself or in a variant.
    pub queues: Vec<OutlinedQueue>,
    /// The sections of flows.
    pub flows: Vec<OutlinedFlow>,
    /// The names of the variants.
    pub variants: Vec<String>,
}

/// A link with queues.
#[derive(Clone, PartialEq, Debug)]
pub struct OutlinedQueue {
    /// Its name.
    pub link: String,
    /// Its rate, or the mean of one over time, for which the other is a placeholder.
    pub rate: Rate,
    /// Whether the rate changes.
    pub changes: bool,
    /// Whether that of the other direction changes in the same way.
    pub both_change: bool,
    /// Its propagation delay.
    pub delay: Span,
    /// The different kinds of its queue, in the order of the variants, each with the names of those that have it.
    pub kinds: Vec<(String, Vec<String>)>,
}

/// A section of flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutlinedFlow {
    /// Its name.
    pub name: String,
    /// The number of flows.
    pub count: usize,
    /// The hosts of the first flow.
    pub between: [String; 2],
    /// The shortest and the longest round trip of its flows over idle links, without the times that packets take to be sent.
    pub round_trips: [Span; 2],
    /// The product of the longest round trip and the rate of the slowest link of that flow's data.
    pub product: Bytes,
    /// TCP's settings that are in force, if it is over TCP.
    pub tcp: Option<OutlinedTcp>,
    /// The name of another transport, and its settings in one line.
    pub other: Option<(&'static str, String)>,
}

/// TCP's settings that are in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutlinedTcp {
    /// The settings in one line.
    pub settings: String,
    /// Whether it repairs losses as Linux does: by RACK-TLP and PRR, with a timer of at most 200 ms.
    pub repairs_as_linux: bool,
}

impl OutlinedTcp {
    fn of(config: &Config) -> Self {
        let control = config.algorithm.name();
        let recovery = match config.recovery {
            _ if config.rack() => "RACK-TLP",
            Recovery::Sack => "SACK",
            Recovery::NewReno => "NewReno",
            Recovery::Reno => "Reno's recovery",
        };
        let ecn = match config.ecn {
            EcnUse::No => "",
            EcnUse::Classic => "ECN",
            EcnUse::Accurate => "accurate ECN",
            EcnUse::L4s => "L4S",
        };
        // BBR has neither: it leaves its startup by its model, and decides itself how much it sends while it repairs losses.
        let is_bbr = matches!(config.algorithm, Algorithm::Bbr);
        let refinements = [
            (config.prr && !is_bbr, "PRR"),
            (config.hystart && !is_bbr, "HyStart"),
            (config.timestamps, "timestamps"),
            (config.d_sack, "D-SACK"),
            (!ecn.is_empty(), ecn),
        ];
        let has = refinements.iter().filter(|(has, _)| *has).map(|(_, name)| *name);
        let parts = [control.as_str(), recovery].into_iter().chain(has).collect::<Vec<_>>().join(", ");
        let (rto, window) = (config.rto, config.receive_buffer / 1024);
        let above = if rto.granularity >= rto.min { " above the round trip" } else { "" };
        let rto = rto.min.max(rto.granularity);
        let settings =
            format!("{parts}, timeout of at least {rto}{above}, segments of {} B, window of {window} KiB", config.mss);
        // Prague and BBR decide themselves how much they send while they repair losses.
        let in_proportion = config.prr || matches!(config.algorithm, Algorithm::Prague | Algorithm::Bbr);
        let is_quick = config.rto.min <= Span::from_millis(200);
        Self { settings, repairs_as_linux: config.rack() && in_proportion && is_quick }
    }
}

impl Scenario {
    /// The parts of the scenario.
    pub fn outline(&self) -> Outline {
        let hosts = self.nodes.iter().filter(|(_, is_host)| *is_host).count();
        let kind = |queue: &LinkQueue| match queue {
            LinkQueue::Discipline(discipline) => discipline.kind().to_owned(),
            LinkQueue::Shaper(..) => "shaper file".to_owned(),
        };
        let queue = |number: usize| {
            let variants =
                self.variants.iter().map(|of| Some((self.queue_of(number, Some(of))?, Some(of.name.clone()))));
            let own = std::iter::once(self.queue_of(number, None).map(|queue| (queue, None)));
            let own = own.filter(|_| self.variants.is_empty());
            let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
            for (queue, variant) in variants.chain(own).flatten() {
                match kinds.iter_mut().find(|(known, _)| *known == kind(queue)) {
                    Some((_, variants)) => variants.extend(variant),
                    None => kinds.push((kind(queue), Vec::from_iter(variant))),
                }
            }
            let (wire, link) = (&self.wires[number], self.wire_name(number));
            let mean = wire.conditions.as_ref().and_then(|conditions| conditions.mean_rate);
            let (rate, delay, changes) = (mean.unwrap_or(wire.line.rate), wire.line.delay, wire.conditions.is_some());
            let over_time = |wire: &Wire| wire.conditions.as_ref().and_then(|conditions| conditions.rate.clone());
            let back = self.wires.iter().find(|other| (other.from, other.to) == (wire.to, wire.from));
            let both_change = over_time(wire).is_some() && back.and_then(over_time) == over_time(wire);
            (!kinds.is_empty()).then_some(OutlinedQueue { link, rate, changes, both_change, delay, kinds })
        };
        let sim = self.probe(None).ok();
        let carried = |wire: &Wire| {
            wire.conditions.as_ref().and_then(|conditions| conditions.mean_rate).unwrap_or(wire.line.rate)
        };
        // The round trip of a flow, and the rate of the slowest link of its data.
        let way = |number: usize| {
            let sim = sim.as_ref()?;
            let side = self.flows[number].workload.data_side();
            let slowest = sim.path(number, side).map(|link| carried(&self.wires[link])).min()?;
            Some((sim.round_trip(number), slowest))
        };
        let host = |node: u32| self.nodes.get(node as usize).map_or_else(String::new, |(name, _)| name.clone());
        let flow = |section: &super::model::FlowGroup| {
            let first = self.flows.get(section.flows.start);
            let between = first.map_or_else(Default::default, |flow| [host(flow.from.index()), host(flow.to.index())]);
            let tcp = first.and_then(|flow| match &flow.transport {
                Transport::Tcp(config) => Some(OutlinedTcp::of(config)),
                _ => None,
            });
            let other = first.and_then(|flow| match &flow.transport {
                Transport::Other { protocol, ecn } => Some(protocol.settings(*ecn)),
                Transport::Udp { ecn: Ecn::Ect0 } => Some(("UDP", "ECT(0)".to_owned())),
                Transport::Udp { ecn: Ecn::Ect1 } => Some(("UDP", "ECT(1), as of L4S".to_owned())),
                _ => None,
            });
            let ways = || section.flows.clone().filter_map(way);
            let shortest = ways().map(|(round_trip, _)| round_trip).min().unwrap_or(Span::ZERO);
            let (longest, slowest) = ways().max().unwrap_or((Span::ZERO, Rate::ZERO));
            OutlinedFlow {
                name: section.name.clone(),
                count: section.flows.len(),
                between,
                round_trips: [shortest, longest],
                product: slowest.bytes_in_floor(longest),
                tcp,
                other,
            }
        };
        Outline {
            hosts,
            routers: self.nodes.len() - hosts,
            links: self.wires.iter().filter(|wire| wire.serves.is_empty()).count(),
            queues: (0..self.wires.len()).filter_map(queue).collect(),
            flows: self.sections.iter().map(flow).collect(),
            variants: self.variants.iter().map(|variant| variant.name.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::{Diagnostics, Source};

    #[test]
    fn an_outline_counts_and_names_the_parts() {
        let text = r#"
            version = 1
            duration = "5s"
            hosts = ["s{1..3}", "far"]
            routers = ["gate"]
            link = [
              { from = "s{1..3}", to = "gate", rate = "100mbit" },
              { from = "gate", to = "far", rate = "10mbit", delay = "5ms", queue = { kind = "fifo" } },
            ]
            flow = [{ name = "bulk", from = "s{1..3}", to = "far", workload = { kind = "bulk" } }]
            variant = [
              { name = "a", from = "gate", to = "far", queue = { kind = "codel" } },
              { name = "b", from = "gate", to = "far", queue = { kind = "codel", target = "9ms" } },
              { name = "c", from = "gate", to = "far", queue = { kind = "pie" } },
            ]
        "#;
        let (source, mut diagnostics) = (Source::new("s.toml", text), Diagnostics::new());
        let scenario = Scenario::load(&source, None, &mut diagnostics)
            .unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
        let outline = scenario.outline();
        assert_eq!((outline.hosts, outline.routers, outline.links), (4, 1, 8));
        assert_eq!(outline.variants, ["a", "b", "c"]);
        let line = outline.queues.iter().find(|queue| queue.link == "gate->far").expect("the bottleneck");
        assert_eq!((line.rate, line.delay, line.changes), (Rate::from_mbit(10), Span::from_millis(5), false));
        let of =
            |kind: &str, variants: &[&str]| (kind.to_owned(), variants.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(line.kinds, [of("codel", &["a", "b"]), of("pie", &["c"])]);
        let between = ["s1", "far"].map(str::to_owned);
        let tcp = OutlinedTcp {
            settings: "reno, SACK, timeout of at least 1s, segments of 1460 B, window of 1024 KiB".into(),
            repairs_as_linux: false,
        };
        assert_eq!(
            outline.flows,
            [OutlinedFlow {
                name: "bulk".into(),
                count: 3,
                between,
                // 5 ms of the bottleneck and 1 ms of the link before it, there and back.
                round_trips: [Span::from_millis(12); 2],
                product: Bytes::new(15_000),
                tcp: Some(tcp),
                other: None
            }]
        );
        // The defaults of Linux are those keys, each of which can be written otherwise; what is wrong beside them is reported.
        let of = |tcp: &str| {
            let text = text.replace("workload = { kind", &format!("tcp = {{ {tcp} }}, workload = {{ kind"));
            let (source, mut diagnostics) = (Source::new("s.toml", text.as_str()), Diagnostics::new());
            let outlined = Scenario::load(&source, None, &mut diagnostics).map(|scenario| scenario.outline());
            outlined.and_then(|all| all.flows[0].tcp.clone()).ok_or_else(|| diagnostics.render(&source))
        };
        let linux = of("defaults = \"linux\"").expect("a scenario");
        assert_eq!(
            linux.settings,
            "cubic, RACK-TLP, PRR, HyStart, timestamps, D-SACK, timeout of at least 200ms above the round trip, segments of 1448 B, window of 4096 KiB"
        );
        assert!(linux.repairs_as_linux);
        let whole = "congestion = \"cubic\", recovery = \"rack\", prr = true, hystart = true, timestamps = true, mss = \"1448B\", \
                     d-sack = true, min-rto = \"200ms\", rto-margin = \"200ms\", delayed-ack = \"40ms\", window = \"4MiB\"";
        assert_eq!(of(whole), Ok(linux));
        let other = of("congestion = \"bbr\", prr = false, defaults = \"linux\"").expect("a scenario");
        assert!(other.settings.starts_with("bbr, RACK-TLP, timestamps,"), "{other:?}");
        assert_eq!(of("congestion = \"bbr\", defaults = \"linux\"").expect("a scenario").settings, other.settings);
        let wrong = of("defaults = \"linux\", min-rto = \"2 parsecs\"").expect_err("no time");
        assert!(wrong.contains("2 parsecs") && wrong.matches("error").count() == 1, "{wrong}");
    }
}
