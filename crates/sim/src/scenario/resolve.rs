//! From the sections of a file to a [`Scenario`], with a place for everything that is wrong.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use tidegate_config::decode::read;
use tidegate_config::shaper::{self, Embedded};
use tidegate_config::values::{Ports, Prefix};
use tidegate_config::{Diagnostics, Place, Source, Spanned, suggest};
use tidegate_core::fifo::Limit;
use tidegate_core::{Bytes, Instant, Rate, Span};

use super::file::{
    AlgorithmWord, Amount, DirectionWord, DistributionSection, DriverSection, File, FlowSection, HostSection,
    LinkSection, Measure, RecoveryWord, ServiceWord, TcpSection, TransportWord, VariantSection, VintageWord,
    WorkloadSection,
};
use super::queue::{LinkQueue, QueueSection};
use super::{Detail, Scenario, Section, Variant, Wire, names, trace};
use crate::NodeId;
use crate::distribution::Distribution;
use crate::driver::{Driver, Service};
use crate::link::{Line, Loss};
use crate::network::NetworkError;
use crate::tcp::{Algorithm, Config, Recovery, RtoBounds, Vintage};
use crate::workload::{Direction, FlowSpec, PORT, Transport, Workload};

/// Opens a file that a scenario names, by that name. The simulator itself reads no files.
pub type Files<'a> = &'a dyn Fn(&str) -> std::io::Result<Source>;

/// The most flows of one scenario.
const MOST_FLOWS: usize = 1 << 16;

impl Scenario {
    /// Reads and checks a scenario. `files` opens files that it names; without it, it may name none. What is wrong goes
    /// to
    /// `diagnostics`, and the result is then `None`.
    pub fn load(source: &Source, files: Option<Files<'_>>, diagnostics: &mut Diagnostics) -> Option<Self> {
        let file: File = read(source, diagnostics)?;
        let mut resolver = Resolver { diagnostics, files, known: BTreeMap::new(), scenario: Self::empty(&file) };
        resolver.all(&file);
        let (errors, scenario) = (resolver.diagnostics.errors(), resolver.scenario);
        if errors > 0 {
            return None;
        }
        if let Err(error) = scenario.probe() {
            refuse(&error, &file, diagnostics);
            return None;
        }
        Some(scenario)
    }

    fn empty(file: &File) -> Self {
        Self {
            sentence: file.sentence.clone(),
            duration: file.duration.value,
            warm_up: file.warm_up.value,
            seed: file.seed,
            runs: file.runs.value,
            detail: Detail::default(),
            measures: file.measure.clone(),
            bin: file.bin.value,
            nodes: Vec::new(),
            wires: Vec::new(),
            routes: Vec::new(),
            flows: Vec::new(),
            sections: Vec::new(),
            variants: Vec::new(),
            addresses: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Whether the table shows `measure`.
    pub(super) fn wants(&self, measure: Measure) -> bool {
        self.measures.is_empty() || self.measures.contains(&measure)
    }
}

/// Reports an error of the network at the place in the file that caused it.
fn refuse(error: &NetworkError, file: &File, diagnostics: &mut Diagnostics) {
    let flow = match error {
        NetworkError::Unreachable { flow, .. }
        | NetworkError::Loop { flow, .. }
        | NetworkError::Endpoint { flow, .. }
        | NetworkError::Addresses { flow, .. }
        | NetworkError::Workload { flow, .. } => Some(flow),
        _ => None,
    };
    // Flows of a section are called `name.1`, `name.2`, ...
    let section = flow.and_then(|flow| {
        file.flow.iter().find(|section| {
            let rest = flow.strip_prefix(section.name.value.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    });
    let place = section.map_or(file.version.place, |section| match error {
        NetworkError::Workload { .. } => section.workload.place,
        _ => section.to.place,
    });
    let (label, help) = match error {
        NetworkError::Unreachable { .. } => {
            ("cannot be reached", "add a link, or both-ways = true where replies have to come back")
        }
        NetworkError::Loop { .. } => ("the packets would never arrive", "take out the route that leads back"),
        NetworkError::Endpoint { .. } => ("not a host of its own", "let flows begin and end at two hosts"),
        NetworkError::Addresses { .. } => ("of two versions of IP", "give both hosts addresses of one version"),
        _ => ("here", "see the message"),
    };
    diagnostics.error(place, error.to_string()).label(label).help(help);
}

pub(super) struct Resolver<'a> {
    pub(super) diagnostics: &'a mut Diagnostics,
    files: Option<Files<'a>>,
    known: BTreeMap<String, usize>,
    pub(super) scenario: Scenario,
}

impl Resolver<'_> {
    fn all(&mut self, file: &File) {
        self.header(file);
        for (list, host) in [(&file.hosts, true), (&file.routers, false)] {
            for pattern in list {
                self.nodes(pattern, host);
            }
        }
        for link in &file.link {
            self.link(link);
        }
        for route in &file.route {
            let [at, to, via] = [&route.at, &route.to, &route.via].map(|name| self.node(name));
            let (Some(at), Some(to), Some(via)) = (at, to, via) else { continue };
            match self.scenario.wires.iter().position(|wire| (wire.from, wire.to) == (at, via)) {
                Some(wire) => self.scenario.routes.push((at, to, wire)),
                None => {
                    let message = format!("no link leads from `{}` to `{}`", route.at.value, route.via.value);
                    self.wrong(route.via.place, message, "not a neighbour", "name a node that a link leads to");
                }
            }
        }
        for flow in &file.flow {
            self.flow(flow);
        }
        for host in &file.host {
            self.address(host);
        }
        for variant in &file.variant {
            self.variant(variant);
        }
        self.actions(&file.at);
        if file.flow.is_empty() {
            self.wrong(file.version.place, "nothing is sent", "the scenario has no flow", "add a [[flow]]");
        }
    }

    pub(super) fn wrong(&mut self, place: Place, message: impl Into<String>, label: &str, help: impl Into<String>) {
        self.diagnostics.error(place, message).label(label).help(help);
    }

    fn positive<T: Default + PartialEq>(&mut self, value: &Spanned<T>, what: &str, example: &str) {
        if value.value == T::default() {
            let help = format!("write for example {example}");
            self.wrong(value.place, format!("{what} of zero"), "must be above zero", help);
        }
    }

    fn header(&mut self, file: &File) {
        if file.version.value != 1 {
            let message = format!("version {} of the language is not known here", file.version.value);
            self.wrong(file.version.place, message, "not 1", "write version = 1, or use a newer tidegate");
        }
        self.positive(&file.duration, "a duration", "\"60s\"");
        self.positive(&file.runs, "a number of runs", "5");
        self.positive(&file.bin, "a bin", "\"100ms\"");
        if file.warm_up.value >= file.duration.value {
            self.diagnostics
                .error(file.warm_up.place, "the warm-up takes all of the duration")
                .label("nothing is left to measure")
                .related(file.duration.place, "this is all there is")
                .help("make the warm-up shorter, or the duration longer");
        }
    }

    fn expand(&mut self, pattern: &Spanned<String>) -> Vec<String> {
        match names::expand(&pattern.value) {
            Ok(names) => names,
            Err(message) => {
                self.wrong(pattern.place, message, "not a name", "write for example \"s{1..10}\"");
                Vec::new()
            }
        }
    }

    fn nodes(&mut self, pattern: &Spanned<String>, host: bool) {
        for name in self.expand(pattern) {
            let number = self.scenario.nodes.len();
            if self.known.insert(name.clone(), number).is_some() {
                let message = format!("two nodes are called `{name}`");
                self.wrong(pattern.place, message, "the second", "give each its own name");
                return;
            }
            self.scenario.nodes.push((name, host));
        }
    }

    fn lookup(&mut self, name: &str, place: Place) -> Option<usize> {
        let found = self.known.get(name).copied();
        if found.is_none() {
            let names: Vec<&str> = self.known.keys().map(String::as_str).collect();
            let help = if names.is_empty() {
                "list hosts = [...] and routers = [...] first".to_owned()
            } else {
                suggest::help(name, &names)
            };
            self.wrong(place, format!("no host or router is called `{name}`"), "unknown", help);
        }
        found
    }

    pub(super) fn node(&mut self, name: &Spanned<String>) -> Option<usize> {
        self.lookup(&name.value, name.place)
    }

    /// The pairs of nodes that two patterns match.
    fn pairs(&mut self, from: &Spanned<String>, to: &Spanned<String>) -> Vec<(usize, usize)> {
        let (starts, ends) = (self.expand(from), self.expand(to));
        if starts.is_empty() || ends.is_empty() {
            return Vec::new();
        }
        let Some(pairs) = names::pair(&starts, &ends) else {
            self.diagnostics
                .error(to.place, format!("{} nodes cannot be paired with {}", ends.len(), starts.len()))
                .label("not as many")
                .related(from.place, "as these")
                .help("name as many on both sides, or one on one side");
            return Vec::new();
        };
        let mut found = Vec::with_capacity(pairs.len());
        for (a, b) in pairs {
            // One error for a pattern is enough.
            let (Some(a), Some(b)) = (self.lookup(&a, from.place), self.lookup(&b, to.place)) else { break };
            found.push((a, b));
        }
        found
    }

    fn link(&mut self, link: &Spanned<LinkSection>) {
        self.positive(&link.rate, "a rate", "\"10mbit\"");
        let queue = link.queue.as_ref().and_then(|queue| self.queue(queue));
        let queue_back = link.queue_back.as_ref().and_then(|queue| self.queue(queue));
        if let (Some(back), false) = (&link.queue_back, link.both_ways) {
            self.wrong(back.place, "a queue on a link that is not there", "both-ways is false", "take one of them out");
        }
        let timer = link.timer.as_ref();
        if let Some(timer) = timer {
            self.positive(timer, "a timer", "\"10ms\"");
        }
        let driver = link.driver.as_ref().and_then(|driver| self.driver(driver, timer));
        let loss = link.loss.map_or(Loss::None, |p| Loss::Random(f64::from(p.millionths()) / 1e6));
        let line = Line::new(link.rate.value, link.delay).limit(Limit::packets(link.limit.value)).loss(loss);
        let timer = timer.map(|timer| timer.value);
        for (a, b) in self.pairs(&link.from, &link.to) {
            let queue = queue.clone();
            let watch = link.watch.unwrap_or(queue.is_some());
            self.scenario.wires.push(Wire { from: a, to: b, line, queue, driver, timer, watch });
            if link.both_ways {
                let queue = queue_back.clone();
                let watch = queue.is_some();
                self.scenario.wires.push(Wire { from: b, to: a, line, queue, driver: None, timer, watch });
            }
        }
    }

    fn variant(&mut self, variant: &Spanned<VariantSection>) {
        let queue = self.queue(&variant.queue);
        if self.scenario.variants.iter().any(|known| known.name == variant.name.value) {
            let message = format!("two variants are called `{}`", variant.name.value);
            self.wrong(variant.name.place, message, "the second", "give each its own name");
            return;
        }
        let (Some(from), Some(to)) = (self.node(&variant.from), self.node(&variant.to)) else { return };
        let Some(wire) = self.scenario.wires.iter().position(|wire| (wire.from, wire.to) == (from, to)) else {
            let message = format!("no link leads from `{}` to `{}`", variant.from.value, variant.to.value);
            self.wrong(variant.to.place, message, "not a neighbour", "name a node that a link leads to");
            return;
        };
        self.scenario.wires[wire].watch = true;
        let (name, Some(queue)) = (variant.name.value.clone(), queue) else { return };
        self.scenario.variants.push(Variant { name, wire, queue });
    }

    fn driver(&mut self, driver: &Spanned<DriverSection>, timer: Option<&Spanned<Span>>) -> Option<Driver> {
        self.positive(&driver.hardware, "a hardware buffer", "\"32KiB\"");
        if let Some(hz) = &driver.timer_hz {
            self.positive(hz, "a timer", "100");
            if let Some(timer) = timer {
                self.wrong(timer.place, "two timers on one link", "the driver has one too", "leave one of them out");
            }
        }
        let service = match driver.service {
            ServiceWord::DrainAll => Service::DrainAll,
            ServiceWord::OnePerCall => Service::OnePerCall,
        };
        Some(Driver {
            software: driver.software,
            hardware: driver.hardware.value,
            service,
            on_receive: driver.on_receive,
            forwarding: driver.forwarding,
            timer_hz: driver.timer_hz.as_ref().map(|hz| hz.value),
        })
    }

    fn flow(&mut self, flow: &Spanned<FlowSection>) {
        self.positive(&flow.count, "a number of flows", "1");
        if self.scenario.sections.iter().any(|section| section.name == flow.name.value) {
            let message = format!("two flows are called `{}`", flow.name.value);
            self.wrong(flow.name.place, message, "the second", "give each its own name");
            return;
        }
        let Some(transport) = self.transport(flow) else { return };
        let Some(workload) = self.workload(&flow.workload) else { return };
        let (class, profile) = (self.class(flow), self.profile(flow));
        let pairs = self.pairs(&flow.from, &flow.to);
        let total = pairs.len() * flow.count.value as usize;
        let begin = self.scenario.flows.len();
        if begin + total > MOST_FLOWS {
            let message = format!("more than {MOST_FLOWS} flows");
            self.wrong(flow.count.place, message, "too many", "let a source of mice stand for many");
            return;
        }
        for ports in [&flow.port, &flow.source_port].into_iter().flatten() {
            let count = usize::from(ports.last - ports.first) + 1;
            if count != 1 && count != total {
                let message = format!("{count} ports for {total} flows");
                let help = format!("give one port, or a range of {total}");
                self.wrong(ports.place, message, "neither one nor one for each", help);
            }
        }
        for number in 0..total {
            let (from, to) = pairs[number % pairs.len()];
            let name = if total == 1 { flow.name.value.clone() } else { format!("{}.{}", flow.name.value, number + 1) };
            let [from, to] = [from, to].map(|node| NodeId(node as u32));
            let start = Instant::ZERO + flow.start + flow.stagger.saturating_mul(number as u64);
            let mut spec = FlowSpec::new(name, from, to, transport, workload.clone()).starting(start).in_class(class);
            spec.stop = flow.stop.as_ref().map(|stop| Instant::ZERO + stop.value);
            spec.dscp = flow.dscp.unwrap_or_default();
            spec.watch = flow.watch;
            spec.jitter = flow.jitter;
            spec.profile = profile;
            spec.port = flow.port.as_ref().map_or(PORT, |ports| nth_port(&ports.value, number));
            spec.source_port = flow.source_port.as_ref().map(|ports| nth_port(&ports.value, number));
            spec.mark = flow.mark;
            spec.user.clone_from(&flow.user);
            spec.control_group.clone_from(&flow.control_group);
            if let Some(stop) = &flow.stop
                && spec.stop.is_some_and(|stop| stop <= start)
            {
                self.wrong(stop.place, "it stops before it starts", "not after the start", "make it later");
                return;
            }
            self.scenario.flows.push(spec);
        }
        if let WorkloadSection::Bulk(_) | WorkloadSection::Mice(_) | WorkloadSection::Requests(_) = flow.workload.value
            && matches!(transport, Transport::Udp { .. })
        {
            let help = "leave transport out, or use constant, poisson, on-off or trace";
            self.wrong(flow.workload.place, "this workload needs TCP", "not over datagrams", help);
        }
        let flows = begin..self.scenario.flows.len();
        self.scenario.sections.push(Section { name: flow.name.value.clone(), flows });
    }

    /// The number of a flow's class, from 0.
    fn class(&mut self, flow: &FlowSection) -> u16 {
        flow.class.as_ref().map_or(0, |class| self.numbered(class, "class", "es", 0, LinkQueue::classes))
    }

    /// The number of a flow's profile, from 1; 0 for none.
    fn profile(&mut self, flow: &FlowSection) -> u16 {
        flow.profile.as_ref().map_or(0, |profile| self.numbered(profile, "profile", "s", 1, LinkQueue::profiles))
    }

    /// A number as it is written, or the place of a name in the list of some discipline, counted from `first`.
    fn numbered(
        &mut self,
        name: &Spanned<String>,
        what: &str,
        plural: &str,
        first: u16,
        list: fn(&LinkQueue) -> Vec<&str>,
    ) -> u16 {
        if let Ok(number) = name.value.parse() {
            return number;
        }
        let queues = || self.scenario.wires.iter().filter_map(|wire| wire.queue.as_ref());
        let mut places = queues().filter_map(|queue| list(queue).iter().position(|known| *known == name.value));
        let Some(place) = places.next() else {
            let names: Vec<&str> = queues().flat_map(list).collect();
            let help = if names.is_empty() {
                format!("no discipline of the scenario has {what}{plural}: write a number")
            } else {
                suggest::help(&name.value, &names)
            };
            self.wrong(name.place, format!("no {what} is called `{}`", name.value), "unknown", help);
            return 0;
        };
        if places.any(|other| other != place) {
            let message = format!("{what} `{}` has different numbers on different links", name.value);
            self.wrong(name.place, message, "ambiguous", "write the number");
        }
        u16::try_from(place).unwrap_or(u16::MAX).saturating_add(first)
    }

    fn transport(&mut self, flow: &FlowSection) -> Option<Transport> {
        match flow.transport {
            TransportWord::Udp => {
                if let Some(tcp) = &flow.tcp {
                    self.wrong(tcp.place, "settings of TCP for datagrams", "transport is udp", "take one of them out");
                }
                Some(Transport::Udp { ecn: flow.ecn })
            }
            TransportWord::Tcp => {
                let Some(tcp) = &flow.tcp else {
                    return Some(Transport::Tcp(Config { ecn: flow.ecn, ..Config::default() }));
                };
                self.tcp(&tcp.value).map(|config| Transport::Tcp(Config { ecn: config.ecn || flow.ecn, ..config }))
            }
        }
    }

    fn tcp(&mut self, tcp: &TcpSection) -> Option<Config> {
        self.positive(&tcp.mss, "a segment", "\"1460B\"");
        self.positive(&tcp.window, "a window", "\"64KiB\"");
        self.positive(&tcp.initial_window, "an initial window", "10");
        let Ok(mss) = u16::try_from(tcp.mss.value.as_u64()) else {
            self.wrong(tcp.mss.place, "a segment of more than 65535 B", "too large", "write for example \"1460B\"");
            return None;
        };
        Some(Config {
            mss,
            vintage: match tcp.refinements {
                VintageWord::Current => Vintage::Current,
                VintageWord::Rfc2581 => Vintage::Rfc2581,
            },
            recovery: match tcp.recovery {
                RecoveryWord::Reno => Recovery::Reno,
                RecoveryWord::NewReno => Recovery::NewReno,
                RecoveryWord::Sack => Recovery::Sack,
            },
            algorithm: match tcp.congestion {
                AlgorithmWord::Reno => Algorithm::Reno,
                AlgorithmWord::Cubic => Algorithm::Cubic,
            },
            initial_window: tcp.initial_window.value,
            receive_buffer: tcp.window.value.as_u64(),
            delayed_ack: (!tcp.delayed_ack.is_zero()).then_some(tcp.delayed_ack),
            rto: RtoBounds { min: tcp.min_rto, ..RtoBounds::default() },
            ecn: tcp.ecn,
            ..Config::default()
        })
    }

    fn workload(&mut self, workload: &Spanned<WorkloadSection>) -> Option<Workload> {
        let place = workload.place;
        Some(match &workload.value {
            WorkloadSection::Bulk(bulk) => {
                if let Some(bytes) = &bulk.bytes {
                    self.positive(bytes, "a transfer", "\"1MB\"");
                }
                Workload::Bulk { bytes: bulk.bytes.as_ref().map(|bytes| bytes.value) }
            }
            WorkloadSection::Constant(constant) => {
                let (rate, packet) = self.pace(&constant.rate, &constant.packet)?;
                Workload::Constant { rate, packet }
            }
            WorkloadSection::Poisson(poisson) => {
                let (rate, packet) = self.pace(&poisson.rate, &poisson.packet)?;
                Workload::Poisson { rate, packet }
            }
            WorkloadSection::OnOff(bursts) => {
                let (rate, packet) = self.pace(&bursts.rate, &bursts.packet)?;
                let (on, off) =
                    (self.distribution(&bursts.on, Kind::Time)?, self.distribution(&bursts.off, Kind::Time)?);
                Workload::OnOff { rate, packet, on, off }
            }
            WorkloadSection::Mice(mice) => {
                let interval = match (&mice.per_second, &mice.interval) {
                    (Some(rate), None) if rate.value > 0.0 => Distribution::Exponential { mean: 1.0 / rate.value },
                    (Some(rate), None) => {
                        self.wrong(rate.place, "no mice at all", "must be above zero", "write for example 10.0");
                        return None;
                    }
                    (None, Some(interval)) => self.distribution(interval, Kind::Time)?,
                    (None, None) => {
                        let help = "add per-second = 10.0, or interval = { ... }";
                        self.wrong(place, "nothing says how often mice come", "per-second is missing", help);
                        return None;
                    }
                    (Some(_), Some(interval)) => {
                        let help = "leave one of them out";
                        self.wrong(interval.place, "mice come at two rates", "per-second says it too", help);
                        return None;
                    }
                };
                let size = self.distribution(&mice.size, Kind::Size)?;
                self.positive(&mice.most_open, "a bound", "10000");
                let direction = match mice.direction {
                    DirectionWord::Upload => Direction::Upload,
                    DirectionWord::Download => Direction::Download { request: mice.request },
                };
                Workload::Mice { interval, size, direction, most_open: mice.most_open.value }
            }
            WorkloadSection::Requests(requests) => Workload::Requests {
                request: self.distribution(&requests.request, Kind::Size)?,
                response: self.distribution(&requests.response, Kind::Size)?,
                think: self.distribution(&requests.think, Kind::Time)?,
            },
            WorkloadSection::Trace(section) => Workload::Trace(self.trace(&section.file)?),
        })
    }

    fn trace(&mut self, file: &Spanned<String>) -> Option<Vec<(Span, Bytes)>> {
        match self.open(&file.value).and_then(|source| trace::parse(source.text())) {
            Ok(entries) => Some(entries),
            Err(error) => {
                let message = format!("the trace `{}` cannot be used: {error}", file.value);
                let help = "name a file beside the scenario, with lines `seconds,bytes`";
                self.wrong(file.place, message, "this file", help);
                None
            }
        }
    }

    /// Opens a file that the scenario names.
    pub(super) fn open(&self, name: &str) -> Result<Source, String> {
        match self.files {
            Some(open) => open(name).map_err(|error| error.to_string()),
            None => Err("a scenario without a place of its own names no files".into()),
        }
    }

    /// Sets the address of a host, or of each of several.
    fn address(&mut self, host: &Spanned<HostSection>) {
        let Prefix { address, length } = host.address.value;
        if length != if address.is_ipv4() { 32 } else { 128 } {
            let help = "write for example \"10.0.0.1\"; further hosts of a range have the addresses after it";
            self.wrong(host.address.place, "a network is not an address", "not one address", help);
            return;
        }
        for (n, name) in (0..).zip(self.expand(&host.name)) {
            let Some(node) = self.lookup(&name, host.name.place) else { return };
            let next = match address {
                IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits().wrapping_add(n))),
                IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits().wrapping_add(n.into()))),
            };
            if self.scenario.addresses.iter().any(|known| known.0 == node || known.1 == next) {
                let message = format!("`{name}` has an address already, or another host has {next}");
                self.wrong(host.address.place, message, "given twice", "give each host one address of its own");
                return;
            }
            self.scenario.addresses.push((node, next));
        }
    }

    /// What waits before a transmitter; a shaper file is opened and checked.
    fn queue(&mut self, queue: &Spanned<QueueSection>) -> Option<LinkQueue> {
        match &queue.value {
            QueueSection::Discipline(discipline) => {
                discipline.check(queue.place, self.diagnostics);
                Some(LinkQueue::Discipline(discipline.clone()))
            }
            QueueSection::Shaper(section) => self.shaper(&section.shaper).map(LinkQueue::Shaper),
        }
    }

    /// A shaper file, opened and checked. What is wrong with it is shown in its own text.
    pub(super) fn shaper(&mut self, shaper: &Spanned<Embedded>) -> Option<Arc<shaper::Config>> {
        let name = match &shaper.value {
            Embedded::Tables(config) => return Some(Arc::new((**config).clone())),
            Embedded::File(name) => name,
        };
        let source = match self.open(name) {
            Ok(source) => source,
            Err(error) => {
                let help = "name a shaper file beside the scenario, or write its tables here";
                self.wrong(
                    shaper.place,
                    format!("the shaper file `{name}` cannot be used: {error}"),
                    "this file",
                    help,
                );
                return None;
            }
        };
        let mut found = Diagnostics::new();
        let config = shaper::load(&source, &mut found);
        self.diagnostics.include(&source, found);
        config.map(Arc::new)
    }

    fn pace(&mut self, rate: &Spanned<Rate>, packet: &Spanned<Bytes>) -> Option<(Rate, Bytes)> {
        self.positive(rate, "a rate", "\"1mbit\"");
        if packet.value == Bytes::ZERO || packet.value.as_u64() > 65_535 {
            let label = "not between 1 B and 65535 B";
            self.wrong(packet.place, "no such packet", label, "write for example \"1500B\"");
            return None;
        }
        Some((rate.value, packet.value))
    }

    fn distribution(&mut self, section: &Spanned<DistributionSection>, kind: Kind) -> Option<Distribution> {
        let mut number = |amount: &Spanned<Amount>| self.number(amount, kind);
        let distribution = match &section.value {
            DistributionSection::Constant(it) => Distribution::Constant(number(&it.value)?),
            DistributionSection::Uniform(it) => {
                Distribution::Uniform { low: number(&it.low)?, high: number(&it.high)? }
            }
            DistributionSection::Exponential(it) => Distribution::Exponential { mean: number(&it.mean)? },
            DistributionSection::Pareto(it) => {
                let (mean, shape) = (number(&it.mean)?, it.shape.value);
                if shape <= 1.0 {
                    let help = "write for example 1.5, or use a bounded-pareto";
                    self.wrong(it.shape.place, "a Pareto distribution without a mean", "must be above 1", help);
                    return None;
                }
                Distribution::pareto_of_mean(mean, shape)
            }
            DistributionSection::BoundedPareto(it) => {
                Distribution::BoundedPareto { shape: it.shape, least: number(&it.least)?, most: number(&it.most)? }
            }
            DistributionSection::Normal(it) => {
                Distribution::Normal { mean: number(&it.mean)?, deviation: number(&it.deviation)? }
            }
            DistributionSection::LogNormal(it) => {
                Distribution::LogNormal { mean: number(&it.mean)?, deviation: number(&it.deviation)? }
            }
            DistributionSection::Empirical(it) => {
                let points = it.points.iter().map(|point| Some((number(&point.value)?, point.share)));
                Distribution::Empirical(points.collect::<Option<_>>()?)
            }
        };
        match distribution.validate() {
            Ok(()) => Some(distribution),
            Err(problem) => {
                self.wrong(section.place, format!("no such distribution: {problem}"), "here", "change the value");
                None
            }
        }
    }

    fn number(&mut self, amount: &Spanned<Amount>, kind: Kind) -> Option<f64> {
        match (amount.value, kind) {
            (Amount::Size(size), Kind::Size) => Some(size.as_u64() as f64),
            (Amount::Time(time), Kind::Time) => Some(time.as_secs_f64()),
            (Amount::Time(_), Kind::Size) => {
                self.wrong(amount.place, "a time where a size is wanted", "not a size", "write for example \"4kB\"");
                None
            }
            (Amount::Size(_), Kind::Time) => {
                self.wrong(amount.place, "a size where a time is wanted", "not a time", "write for example \"250ms\"");
                None
            }
        }
    }
}

/// The port of the flow of this number in its section.
fn nth_port(ports: &Ports, number: usize) -> u16 {
    ports.first + (number as u16).min(ports.last - ports.first)
}

/// The quantity that a distribution describes.
#[derive(Clone, Copy)]
enum Kind {
    Size,
    Time,
}
