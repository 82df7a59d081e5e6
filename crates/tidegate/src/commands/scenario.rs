//! Scenario files, as several subcommands read them: loaded and described.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use tidegate_config::{Diagnostics, Source};
use tidegate_display::{Table, human, wrapped};
use tidegate_report::check_planned;
use tidegate_sim::scenario::{Files, OutlinedFlow, OutlinedQueue, Scenario};
use tidegate_units::Span;

use super::check::{Meaning, refusal, say};
use crate::Failure;
use crate::output::{rate, wait, width};

/// The folder in which a scenario finds the files that it names; `None` for standard input.
pub fn beside(file: &Path) -> Option<&Path> {
    file.parent().filter(|_| file.as_os_str() != "-")
}

/// A scenario and its name, with the other files that it was loaded from.
pub struct Loaded {
    pub scenario: Scenario,
    /// The name and the text of each file.
    pub files: Vec<(String, String)>,
}

/// Loads a scenario, whose diagnostics are added to `diagnostics`.
pub fn read(source: &Source, beside: Option<&Path>, diagnostics: &mut Diagnostics) -> Option<Loaded> {
    let files = RefCell::new(Vec::new());
    let open_beside = |name: &str| {
        let found = Source::open(&beside.unwrap_or(Path::new("")).join(name))?;
        files.borrow_mut().push((name.to_owned(), found.text().to_owned()));
        Ok(found)
    };
    let scenario = Scenario::load(source, beside.map(|_| &open_beside as Files<'_>), diagnostics);
    let scenario = scenario.filter(|scenario| scenario.check_primary(check_planned, diagnostics));
    scenario.map(|scenario| Loaded { scenario, files: files.take() })
}

/// The messages of files that were said.
pub type Said = Mutex<BTreeSet<String>>;

/// Loads a scenario, whose diagnostics go to standard error.
///
/// # Errors
/// [`Failure::Usage`] when it is not valid.
pub fn load(source: &Source, beside: Option<&Path>) -> Result<Loaded, Failure> {
    load_besides(source, beside, &Said::default())
}

/// Loads a scenario as [`load`] does, without warnings that are in `said`, which are added to it: the points of a sweep have those of its file.
pub fn load_besides(source: &Source, beside: Option<&Path>, said: &Said) -> Result<Loaded, Failure> {
    if Meaning::of(source) == Some(Meaning::Shaper) {
        let text = "this is a shaper file; a scenario has a link with `queue = { shaper = \"FILE\" }`, and `tidegate book trying` an example";
        return Err(Failure::Usage(format!("{}: {text}", source.name())));
    }
    let mut diagnostics = Diagnostics::new();
    let loaded = read(source, beside, &mut diagnostics);
    let mut known = said.lock().unwrap_or_else(PoisonError::into_inner);
    let new = diagnostics.iter().filter(|found| known.insert(found.message.clone())).count();
    drop(known);
    if new > 0 || diagnostics.errors() > 0 {
        say(&diagnostics, source);
    }
    loaded.ok_or_else(|| refusal(&diagnostics, source))
}

/// Describes a scenario to people.
pub fn describe(out: &mut impl Write, source: &Source, loaded: &Loaded) -> std::io::Result<()> {
    let (scenario, outline) = (&loaded.scenario, loaded.scenario.outline());
    writeln!(out, "{}: a valid scenario\n", source.name())?;
    if let Some(sentence) = &scenario.sentence {
        writeln!(out, "{}", wrapped(sentence, width()))?;
    }
    let several = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let (runs, most) = scenario.planned_runs();
    let runs = match most > runs {
        true => format!("{runs} to {most} runs"),
        false => several(runs as usize, "run"),
    };
    let variants = match outline.variants.as_slice() {
        [] => String::new(),
        all => format!(", each with {}: {}", several(all.len(), "variant"), all.join(", ")),
    };
    let duration = human(scenario.duration.as_secs_f64(), "s");
    let warm_up = match scenario.finds_warm_up() {
        true => ", of which those at the beginning are not measured that a rule finds (MSER-5)".to_owned(),
        false if scenario.warm_up().is_zero() => String::new(),
        false => format!(", of which the first {} are not measured", human(scenario.warm_up().as_secs_f64(), "s")),
    };
    writeln!(
        out,
        "{}",
        wrapped(&format!("{duration}{warm_up}, {runs} from seed {}{variants}", scenario.seed), width())
    )?;
    writeln!(
        out,
        "{}, {}, {}",
        several(outline.hosts, "host"),
        several(outline.routers, "router"),
        several(outline.links, "link")
    )?;
    if !scenario.primary.is_empty() {
        writeln!(out, "{}", wrapped(&format!("the answer is about {}", scenario.primary.join(", ")), width()))?;
    }
    if !loaded.files.is_empty() {
        let names: Vec<&str> = loaded.files.iter().map(|(name, _)| name.as_str()).collect();
        writeln!(out, "{}", wrapped(&format!("it reads {}", names.join(", ")), width()))?;
    }
    if let Some(directions) = scenario.directions() {
        writeln!(out, "{}", wrapped(&directions, width()))?;
    }
    let mut flows = Table::new("", ["flow", ">flows", "from", "to", ">round trip", ">BDP"]);
    for OutlinedFlow { name, count, between: [from, to], round_trips: [shortest, longest], product, .. } in
        &outline.flows
    {
        let round_trip = match shortest == longest {
            true => wait(*longest),
            false => format!("{} to {}", wait(*shortest), wait(*longest)),
        };
        let product = human(product.as_u64() as f64, "B");
        flows.row([name.clone(), count.to_string(), from.clone(), to.clone(), round_trip, product].map(Into::into));
    }
    let mut queues = Table::new("", ["queue of link", ">rate", ">delay", "discipline"]).shorten("discipline", 12);
    for queue in outline.queues.iter().take(QUEUES) {
        let OutlinedQueue { link, rate: line, changes, both_change, delay, kinds } = queue;
        let changing = match (*changes, *both_change) {
            (false, _) => "",
            (true, false) => " in the mean, changing",
            (true, true) => " in the mean, changing both ways",
        };
        let line = format!("{}{changing}", rate(*line));
        // A variant that is called as its discipline needs no second name.
        let kind = |(kind, variants): &(String, Vec<String>)| match variants.as_slice() {
            [] => kind.clone(),
            [only] if only == kind => kind.clone(),
            variants => format!("{kind} ({})", variants.join(", ")),
        };
        let kinds = kinds.iter().map(kind).collect::<Vec<_>>().join(", ");
        queues.row([link.clone(), line, wait(*delay), kinds].map(Into::into));
    }
    for table in [flows, queues].into_iter().filter(|table| !table.rows.is_empty()) {
        write!(out, "\n{}", table.text(width()))?;
    }
    if outline.queues.len() > QUEUES {
        writeln!(out, "and {} more", outline.queues.len() - QUEUES)?;
    }
    describe_transports(out, &outline.flows)
}

/// Writes the settings of TCP and QUIC that are in force, once for all flows that have the same, and how to have those of Linux if some do not
/// repair losses as it does.
fn describe_transports(out: &mut impl Write, flows: &[OutlinedFlow]) -> std::io::Result<()> {
    let mut all: Vec<((&str, &str), Vec<&str>)> = Vec::new();
    for flow in flows {
        let tcp = flow.tcp.as_ref().map(|tcp| ("TCP", tcp.settings.as_str()));
        let other = flow.other.as_ref().map(|(name, settings)| (*name, settings.as_str()));
        let Some(transport) = tcp.or(other) else { continue };
        match all.iter_mut().find(|(known, _)| *known == transport) {
            Some((_, names)) => names.push(&flow.name),
            None => all.push((transport, vec![&flow.name])),
        }
    }
    for (n, ((transport, settings), names)) in all.iter().enumerate() {
        let gap = if n == 0 { "\n" } else { "" };
        writeln!(out, "{gap}{}", wrapped(&format!("{transport} of {}: {settings}", names.join(", ")), width()))?;
    }
    if flows.iter().any(|flow| flow.tcp.as_ref().is_some_and(|tcp| !tcp.repairs_as_linux)) {
        let linux = "Linux repairs losses by RACK-TLP and PRR with a timeout of at least 200 ms: tcp = { defaults = \"linux\" } is TCP as \
                     Linux has it.";
        writeln!(out, "{}", wrapped(linux, width()))?;
    }
    Ok(())
}

/// The most links that are listed.
const QUEUES: usize = 16;

/// Describes a scenario as JSON.
pub fn to_json(loaded: &Loaded) -> Value {
    let (scenario, outline) = (&loaded.scenario, loaded.scenario.outline());
    let flow = |OutlinedFlow { name, count, between: [from, to], round_trips, product, tcp, other }: &OutlinedFlow| {
        let tcp = tcp.as_ref().map(|tcp| &tcp.settings);
        let quic = other.as_ref().filter(|(name, _)| *name == "QUIC").map(|(_, settings)| settings);
        json!({ "name": name, "flows": count, "from": from, "to": to, "round_trips_ns": round_trips.map(Span::as_nanos),
        "product_bytes": product.as_u64(), "tcp": tcp, "quic": quic })
    };
    let queue = |OutlinedQueue { link, rate, changes, both_change, delay, kinds }: &OutlinedQueue| {
        json!({ "link": link, "rate_bps": rate.as_bps(), "changes": changes, "both_change": both_change, "delay_ns": delay.as_nanos(),
        "disciplines": kinds.iter().map(|(kind, _)| kind).collect::<Vec<_>>() })
    };
    json!({
        "sentence": scenario.sentence,
        "duration_ns": scenario.duration.as_nanos(),
        "seed": scenario.seed,
        "runs": scenario.planned_runs().0,
        "most_runs": scenario.planned_runs().1,
        "primary": scenario.primary,
        "variants": outline.variants,
        "hosts": outline.hosts,
        "routers": outline.routers,
        "links": outline.links,
        "flows": outline.flows.iter().map(flow).collect::<Vec<_>>(),
        "queues": outline.queues.iter().map(queue).collect::<Vec<_>>(),
        "files": loaded.files.iter().map(|(name, _)| name).collect::<Vec<_>>(),
    })
}
