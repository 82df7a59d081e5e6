//! Runs of a scenario that record a trace.

use tidegate_core::{Instant, Span};

use super::control::Control;
use super::model::Scenario;
use crate::ids::{FlowId, LinkId};
use crate::trace::{Selection, Trace};

/// The keys of a selection.
const KEYS: &str = "variant, flow, link, from and to";

impl Scenario {
    /// Reads the selection of a trace: `variant=red,flow=web,link=r->b,from=10s,to=20s`, or `all`. Every key is optional. `variant`, `flow`
    /// (a section, or with a number one flow of it) and `link` may be repeated.
    ///
    /// # Errors
    /// The key, the problem, and the alternatives.
    pub fn selection(&self, text: &str) -> Result<Selection, String> {
        let mut selection = Selection::default();
        // Names may contain commas: a part without an equals sign belongs to the part before it.
        let mut parts: Vec<String> = Vec::new();
        for part in text.split(',') {
            match parts.last_mut() {
                Some(before) if !part.contains('=') => *before += &format!(",{part}"),
                _ => parts.push(part.to_owned()),
            }
        }
        for part in parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty() && *part != "all") {
            let Some((key, value)) = part.split_once('=') else {
                return Err(format!("`{part}` is not KEY=VALUE; the keys are {KEYS}"));
            };
            let time = || value.parse::<Span>().map_err(|error| format!("{key}={value}: {error}"));
            match key {
                "variant" => {
                    let known: Vec<&str> = self.variants.iter().map(|variant| variant.name.as_str()).collect();
                    if !known.contains(&value) {
                        let there = if known.is_empty() { "none".to_owned() } else { listed(&known) };
                        return Err(format!("variant={value}: no such variant; there are {there}"));
                    }
                    selection.variants.insert(value.to_owned());
                }
                "flow" => {
                    let flows = self.flows_named(value).ok_or_else(|| {
                        let known: Vec<&str> = self.sections.iter().map(|section| section.name.as_str()).collect();
                        format!("flow={value}: no such flow; there are {}", listed(&known))
                    })?;
                    selection.flows.extend(flows.map(|number| FlowId(number as u32)));
                }
                "link" => {
                    let all: Vec<String> = (0..self.wires.len()).map(|number| self.wire_name(number)).collect();
                    let number = all.iter().position(|name| name == value).ok_or_else(|| {
                        let known: Vec<&str> = all.iter().map(String::as_str).collect();
                        format!("link={value}: no such link; there are {}", listed(&known))
                    })?;
                    selection.links.insert(LinkId(number as u32));
                }
                "from" => selection.from = Instant::ZERO + time()?,
                "to" => selection.to = Instant::ZERO + time()?,
                _ => return Err(format!("`{key}` is not a key of a trace; the keys are {KEYS}")),
            }
        }
        if selection.from > selection.to {
            return Err("from is later than to: the trace would be empty".into());
        }
        if selection.from > Instant::ZERO + self.duration {
            return Err(format!("from is later than the end of the scenario, at {}", self.duration));
        }
        Ok(selection)
    }

    /// Runs the scenario with `seed` and returns the name and the trace of each variant that is selected, or a single trace without
    /// variants. The events are those of [`Scenario::run`].
    pub fn traced(&self, seed: u64, selection: &Selection) -> Vec<(String, Trace)> {
        let is_wanted = |name: &String| selection.variants.is_empty() || selection.variants.contains(name);
        let wanted = self.variants.iter().filter(|variant| is_wanted(&variant.name));
        let variants = if self.variants.is_empty() { vec![None] } else { wanted.map(Some).collect() };
        let end = (Instant::ZERO + self.duration).min(selection.to);
        let trace = |variant: Option<&super::model::Variant>| {
            let mut net = self.network(seed, variant);
            net.trace(selection.clone());
            let mut sim = net.build().expect("built when it was loaded");
            let mut control = Control::new(self, variant);
            while !control.run_some(self, &mut sim, end, u64::MAX) {}
            (variant.map_or(String::new(), |variant| variant.name.clone()), sim.take_trace().unwrap_or_default())
        };
        variants.into_iter().map(trace).collect()
    }
}

/// Lists the first few of `known`.
fn listed(known: &[&str]) -> String {
    let shown = known.iter().take(8).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if known.len() > 8 { format!("{shown}, ...") } else { shown }
}
