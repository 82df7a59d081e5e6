//! What a scenario can measure, known before its first run.

use tidegate_config::Diagnostics;

use super::file::Measure;
use super::model::{FlowGroup, Scenario};
use super::outcome::{fairness_with, ratio_to, spread_names};
use crate::ids::NodeId;
use crate::metrics::SizeClass;
use crate::workload::Workload;

impl Scenario {
    /// The subjects of its results, each with the measures that it can have. A run may lack some: the completion time of transfers of
    /// which none was completed. What links count by reasons, colours and classes, of which neither more nor less is better, is left out.
    pub fn measurable(&self) -> Vec<(String, Vec<String>)> {
        let flows = self.sections.iter().enumerate().map(|(number, section)| {
            let mut all = self.of_flows(section);
            if self.wants(Measure::Share) {
                all.push("share".to_owned());
                let others = || self.sections[number + 1..].iter().map(|other| &other.name);
                all.extend(others().map(|other| ratio_to(other)).chain(others().map(|other| fairness_with(other))));
            }
            (format!("flow {}", section.name), all)
        });
        let watched = (0..self.wires.len()).filter(|wire| self.wires[*wire].watch);
        let links = watched.map(|wire| (format!("link {}", self.wire_name(wire)), self.of_links()));
        flows.chain(links).filter(|(_, measures)| !measures.is_empty()).collect()
    }

    /// Checks that the quantities of `primary`, and one of `until`, mean something, which otherwise no run but only its answer would report. `check` says why
    /// one means nothing among those that are [measurable](Self::measurable): `tidegate_report::check_planned`. Returns whether all do.
    pub fn check_primary(
        &self,
        check: impl Fn(&str, &[(String, Vec<String>)]) -> Result<(), String>,
        diagnostics: &mut Diagnostics,
    ) -> bool {
        let (before, measurable) = (diagnostics.errors(), self.measurable());
        for (quantity, place) in self.primary.iter().zip(&self.primary_places) {
            if let Err(why) = check(quantity, &measurable) {
                let help = "name a measure of a flow or a link, such as \"goodput of flow NAME\"";
                diagnostics.error(*place, why).label("means no quantity").help(help);
            }
        }
        if let Some((until, place)) = self.until.as_ref().zip(self.until_place)
            && let Err(why) = until.quantity(&measurable)
        {
            let help = "name a measure of a flow or a link, such as \"goodput of flow NAME +- 2 %\"";
            diagnostics.error(place, format!("until: {why}")).label("means no quantity").help(help);
        }
        diagnostics.errors() == before
    }

    /// States which direction of a flow is up, with the hosts of up to four flows with data both ways; `None` without such flows.
    pub fn directions(&self) -> Option<String> {
        let flow = |section: &FlowGroup| self.flows.get(section.flows.start);
        let both = self.sections.iter().filter(|section| flow(section).is_some_and(|of| of.workload.goes_both_ways()));
        let name = |node: NodeId| self.nodes[node.0 as usize].0.as_str();
        let ends = |section: &FlowGroup| {
            let of = flow(section)?;
            // The flows of one section may have different hosts.
            let mut all = self.flows[section.flows.clone()].iter();
            let is_one = all.all(|other| (other.from, other.to) == (of.from, of.to));
            is_one.then(|| format!("{}: {}->{}", section.name, name(of.from), name(of.to)))
        };
        let both: Vec<&FlowGroup> = both.collect();
        let named: Vec<String> = both.iter().filter_map(|section| ends(section)).take(4).collect();
        let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
        (!both.is_empty()).then(|| format!("up is from a flow's `from` to its `to`{named}, and down is back"))
    }

    fn of_flows(&self, section: &FlowGroup) -> Vec<String> {
        let Some(spec) = self.flows.get(section.flows.start) else { return Vec::new() };
        // An action may give a flow another workload.
        let changes = !self.actions.is_empty();
        let both = spec.workload.goes_both_ways();
        // Without data both ways by its workload it may be seen to go both ways.
        let delays: &[&str] = if both && !changes { &[" up", " down"] } else { &["", " up", " down"] };
        let mut found: Vec<String> = Vec::new();
        let mut add = |measure: Measure, names: &mut dyn Iterator<Item = String>| {
            if self.wants(measure) {
                found.extend(names);
            }
        };
        let each = |name: &'static str| ["", " up", " down"].map(|way| format!("{name}{way}"));
        let words = |all: &'static [&'static str]| all.iter().map(|name| (*name).to_owned());
        add(Measure::Goodput, &mut each("goodput").into_iter());
        add(Measure::Colours, &mut words(&["throughput green", "throughput yellow", "throughput red"]));
        if section.flows.len() > 1 {
            add(Measure::Fairness, &mut words(&["fairness"]));
        }
        add(
            Measure::Delay,
            &mut delays.iter().flat_map(|way| spread_names(&format!("delay{way}")).collect::<Vec<_>>()),
        );
        add(Measure::Loss, &mut words(&["sent", "dropped", "marked", "retransmitted", "timeouts"]).chain(each("loss")));
        add(
            Measure::Queueing,
            &mut delays.iter().flat_map(|way| spread_names(&format!("queueing{way}")).collect::<Vec<_>>()),
        );
        add(Measure::Feedback, &mut words(&["marks arrived", "marks reported"]));
        if spec.transport.has_connections() {
            let classes = SizeClass::ALL.map(|class| format!(" {}", class.name()));
            let sizes = || std::iter::once(String::new()).chain(classes.clone());
            let lasting =
                ["completion", "slowdown"].into_iter().flat_map(|of| sizes().map(move |size| format!("{of}{size}")));
            let spreads = std::iter::once("connect".to_owned()).chain(lasting);
            let counts = words(&["opened", "completed", "failed", "refused"]);
            add(Measure::Completion, &mut counts.chain(spreads.flat_map(|of| spread_names(&of).collect::<Vec<_>>())));
        }
        add(Measure::Application, &mut of_applications(&spec.workload, changes).into_iter());
        found
    }

    fn of_links(&self) -> Vec<String> {
        if !self.wants(Measure::Links) {
            return Vec::new();
        }
        let counts =
            ["throughput", "utilisation", "dropped", "marked", "lost", "duplicated", "sanctions"].map(str::to_owned);
        counts.into_iter().chain(spread_names("queueing")).collect()
    }
}

/// The measures of the application of a workload; of all applications if `any` is set.
fn of_applications(workload: &Workload, any: bool) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |all: &[&str]| found.extend(all.iter().map(|name| (*name).to_owned()));
    if let (Workload::Call(_), _) | (_, true) = (workload, any) {
        let of_calls = ["R factor", "MOS", "mouth to ear", "not played", "late"];
        let both = !any && workload.both_ways();
        let ways: &[&str] = if any {
            &["", " up", " down"]
        } else if both {
            &[" up", " down"]
        } else {
            &[""]
        };
        for way in ways {
            of_calls.iter().for_each(|name| add(&[&format!("{name}{way}")]));
            add(&[&format!("R factor{way} lowest"), &format!("MOS{way} lowest")]);
        }
    }
    if let (Workload::Web(_), _) | (_, true) = (workload, any) {
        add(&["pages begun", "pages loaded", "objects a page", "bytes a page"]);
        spread_names("page load").for_each(|name| add(&[&name]));
    }
    if let (Workload::Video(_), _) | (_, true) = (workload, any) {
        add(&["startup mean", "played", "rebuffering", "stalls", "bit rate mean", "switches"]);
    }
    if let (Workload::Media(_), _) | (_, true) = (workload, any) {
        add(&["frames", "frames complete", "frames incomplete"]);
        spread_names("frame delay").for_each(|name| add(&[&name]));
    }
    found
}
