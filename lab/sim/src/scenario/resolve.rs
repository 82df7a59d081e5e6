//! Turns the sections of a file into a [`Scenario`], and reports every error with its place.

mod actions;
mod advice;
mod applications;
mod conditions;
mod distributions;
mod flows;
mod limits;
mod links;
mod transport;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tidegate_config::decode::read;
use tidegate_config::node::{Entry, Node, Value};
use tidegate_config::values::Prefix;
use tidegate_config::{Decode, Diagnostics, Place, Source, Spanned, suggest};
use tidegate_core::Span;

use super::actions::AtSection;
use super::file::{File, HostSection, Measure};
use super::model::{Action, Detail, Scenario};
use super::names;
use super::until::{FoundWarmUp, WarmUp};
use crate::network::NetworkError;

/// Opens a file that a scenario refers to, by name. The simulator itself reads no files.
pub type Files<'a> = &'a dyn Fn(&str) -> std::io::Result<Source>;

impl Scenario {
    /// Reads and checks a scenario. `files` opens the files to which it refers; without it, a scenario may refer to
    /// none. Errors are added to `diagnostics`, and the result is then `None`.
    pub fn load(source: &Source, files: Option<Files<'_>>, diagnostics: &mut Diagnostics) -> Option<Self> {
        let file: File = read(source, diagnostics)?;
        let mut resolver = Resolver::new(Self::empty(&file), files, diagnostics);
        resolver.resolve(&file);
        let (errors, mut scenario, nodes) = (resolver.diagnostics.errors(), resolver.scenario, resolver.node_places);
        if errors > 0 {
            return None;
        }
        if let Err((place, why)) = scenario.align_windows() {
            diagnostics.error(place, why).label("as many files for each line");
            return None;
        }
        if let Err(why) = scenario.check_runs(scenario.runs as usize) {
            diagnostics.error(file.runs.place, why).label("more than there are windows");
            return None;
        }
        for variant in [None].into_iter().chain(scenario.variants.iter().map(Some)) {
            match scenario.probe(variant) {
                Ok(mut sim) => advice::advise(&scenario, variant, &mut sim, &nodes, diagnostics),
                Err(error) => {
                    refuse(&error, &file, diagnostics);
                    return None;
                }
            }
        }
        Some(scenario)
    }

    /// Reads one action for a running scenario: a table of `[[at]]`, whose time is ignored and optional.
    pub(super) fn action(
        &self,
        source: &Source,
        files: Option<Files<'_>>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Action> {
        let before = diagnostics.errors();
        let mut node = Node::parse(source, diagnostics)?;
        let place = node.place;
        if let Value::Table(entries) = &mut node.value
            && entries.iter().all(|entry| entry.key != "time")
        {
            let time = Node { place, value: Value::Text("0s".into()) };
            entries.push(Entry { key: "time".into(), key_place: place, node: time });
        }
        let section = AtSection::decode(&node, diagnostics)?;
        let mut resolver = Resolver::new(self.clone(), files, diagnostics);
        let action = resolver.resolved_action(&Spanned { value: section, place });
        action.filter(|_| diagnostics.errors() == before)
    }

    fn empty(file: &File) -> Self {
        Self {
            sentence: file.sentence.clone(),
            duration: file.duration.value,
            warm_up: match file.warm_up.value {
                WarmUp::Lasts(span) => span,
                WarmUp::Mser5 => Span::ZERO,
            },
            found_warm_up: (file.warm_up.value == WarmUp::Mser5).then(FoundWarmUp::default),
            seed: file.seed,
            workload_seed: file.workload_seed,
            starts: file.starts.unwrap_or_default(),
            runs: file.runs.value,
            until: file.until.as_ref().map(|until| until.value.clone()),
            until_place: file.until.as_ref().map(|until| until.place),
            most_runs: file.most_runs.value,
            primary: file.primary.iter().map(|quantity| quantity.value.clone()).collect(),
            primary_places: file.primary.iter().map(|quantity| quantity.place).collect(),
            traces: Vec::new(),
            detail: Detail::default(),
            measures: file.measure.clone(),
            has_usual_bin: file.bin.is_none(),
            bin: file.bin.as_ref().map_or_else(|| limits::usual_bin(file.duration.value), |bin| bin.value),
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

    /// Whether `measure` appears in the results.
    pub(super) fn wants(&self, measure: Measure) -> bool {
        self.measures.contains(&measure) || self.measures.is_empty() && !measure.is_further()
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
            ("cannot be reached", "add a link, or both-ways = true if replies must come back")
        }
        NetworkError::Loop { .. } => ("its packets would never arrive", "remove the route that leads back"),
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
    /// The names of the sections of flows so far.
    sections: BTreeSet<String>,
    /// The hosts that have been given an address, and these addresses.
    addressed: (BTreeSet<usize>, BTreeSet<IpAddr>),
    /// The place of each node in the file.
    node_places: Vec<Place>,
    pub(super) scenario: Scenario,
}

impl<'a> Resolver<'a> {
    /// Continues from `scenario`, which may already have nodes.
    fn new(scenario: Scenario, files: Option<Files<'a>>, diagnostics: &'a mut Diagnostics) -> Self {
        let known = scenario.nodes.iter().enumerate().map(|(number, (name, _))| (name.clone(), number)).collect();
        let (sections, addressed, node_places) = (BTreeSet::new(), Default::default(), Vec::new());
        Self { diagnostics, files, known, sections, addressed, node_places, scenario }
    }

    fn resolve(&mut self, file: &File) {
        self.header(file);
        for (list, host) in [(&file.hosts, true), (&file.routers, false)] {
            for pattern in list {
                self.nodes(pattern, host);
            }
        }
        for link in &file.link {
            self.link(link);
        }
        for queue in &file.shared_queue {
            self.shared_queue(queue);
        }
        for route in &file.route {
            let [at, to, via] = [&route.at, &route.to, &route.via].map(|name| self.node(name));
            let (Some(at), Some(to), Some(via)) = (at, to, via) else { continue };
            match self.scenario.wire_between(at, via) {
                Some(wire) => self.scenario.routes.push((at, to, wire)),
                None => self.no_link(&route.at, &route.via),
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
            self.error(file.version.place, "nothing is sent", "the scenario has no flow", "add a [[flow]]");
        }
    }

    pub(super) fn error(&mut self, place: Place, message: impl Into<String>, label: &str, help: impl Into<String>) {
        self.diagnostics.error(place, message).label(label).help(help);
    }

    /// Reports that no link leads from one node to another.
    pub(super) fn no_link(&mut self, from: &Spanned<String>, to: &Spanned<String>) {
        let message = format!("no link leads from `{}` to `{}`", from.value, to.value);
        self.error(to.place, message, "not a neighbour", "name a node that a link leads to");
    }

    fn positive<T: Default + PartialEq>(&mut self, value: &Spanned<T>, what: &str, example: &str) {
        if value.value == T::default() {
            let help = format!("write for example {example}");
            self.error(value.place, format!("{what} of zero"), "must be above zero", help);
        }
    }

    fn header(&mut self, file: &File) {
        if file.version.value != 1 {
            let message = format!("version {} of the language is not known here", file.version.value);
            self.error(file.version.place, message, "not 1", "write version = 1, or use a newer tidegate");
        }
        self.positive(&file.duration, "a duration", "\"60s\"");
        self.positive(&file.runs, "a number of runs", "5");
        if let Some(bin) = &file.bin {
            self.positive(bin, "a bin", "\"100ms\"");
        }
        self.positive(&file.most_runs, "a number of runs", "200");
        for quantity in &file.primary {
            let parts = quantity.value.split_once(" of ");
            if parts.is_none_or(|(measure, subject)| measure.trim().is_empty() || subject.trim().is_empty()) {
                let message = format!("`{}` is no quantity", quantity.value);
                self.error(quantity.place, message, "no measure of a subject", "write \"delay p99 of flow call\"");
            }
        }
        self.limits(file);
        if self.scenario.warm_up >= file.duration.value {
            self.diagnostics
                .error(file.warm_up.place, "the warm-up takes up the whole duration")
                .label("nothing is left to measure")
                .related(file.duration.place, "this is all there is")
                .help("make the warm-up shorter, or the duration longer");
        }
    }

    fn expand(&mut self, pattern: &Spanned<String>) -> Vec<String> {
        match names::expand(&pattern.value) {
            Ok(names) => names,
            Err(message) => {
                self.error(pattern.place, message, "not a name", "write for example \"s{1..10}\"");
                Vec::new()
            }
        }
    }

    fn nodes(&mut self, pattern: &Spanned<String>, host: bool) {
        for name in self.expand(pattern) {
            // The name stays that of the first node: it may be used before the errors are reported.
            if self.known.contains_key(&name) {
                let message = format!("two nodes are called `{name}`");
                self.error(pattern.place, message, "the second", "give each its own name");
                return;
            }
            self.known.insert(name.clone(), self.scenario.nodes.len());
            self.scenario.nodes.push((name, host));
            self.node_places.push(pattern.place);
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
            self.error(place, format!("no host or router is called `{name}`"), "unknown", help);
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

    /// Opens a file to which the scenario refers.
    pub(super) fn open(&self, name: &str) -> Result<Source, String> {
        match self.files {
            Some(open) => open(name).map_err(|error| error.to_string()),
            None => Err("a scenario that is not in a file cannot refer to files".into()),
        }
    }

    /// Sets the address of a host, or of each of several.
    fn address(&mut self, host: &Spanned<HostSection>) {
        let Prefix { address, length } = host.address.value;
        if length != if address.is_ipv4() { 32 } else { 128 } {
            let help = "write for example \"10.0.0.1\"; further hosts of a range have the addresses after it";
            self.error(host.address.place, "this is a network, not a single address", "not one address", help);
            return;
        }
        for (n, name) in (0..).zip(self.expand(&host.name)) {
            let Some(node) = self.lookup(&name, host.name.place) else { return };
            let next = match address {
                IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits().wrapping_add(n))),
                IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits().wrapping_add(n.into()))),
            };
            if !(self.addressed.0.insert(node) && self.addressed.1.insert(next)) {
                let message = format!("`{name}` already has an address, or another host has {next}");
                self.error(host.address.place, message, "given twice", "give each host one address of its own");
                return;
            }
            self.scenario.addresses.push((node, next));
        }
    }
}
