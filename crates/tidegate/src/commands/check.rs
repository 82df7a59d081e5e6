//! `tidegate check`: the promises of a shaper file, and the proof that they fit.

use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_config::discipline::Discipline;
use tidegate_config::shaper::guarantees::{Guarantees, guarantees};
use tidegate_config::shaper::{Advice, Borrow, Config, Direction, DividedBy, FairBy, Root, Shaper};
use tidegate_config::values::dscp_name;
use tidegate_config::{Diagnostic, Diagnostics, Severity, Source, shaper};
use tidegate_core::{ClassId, Rate, Span};
use tidegate_display::Table;

mod branches;
#[cfg(feature = "live")]
mod changing;
mod htb;
mod link_sharing;
mod meaning;

use crate::Failure;
#[cfg(feature = "live")]
use crate::commands::line::LineArgs;
use crate::output::{self, width};
pub use meaning::Meaning;
use meaning::{check_scenario, refuse_scenario};

/// Read a shaper file, show its tree, and add up its promises; or read a scenario of the simulator, and show its parts
///
/// With `--up` and `--down` instead of a file, it prints the file that `tidegate run` generates from them, to be kept and
/// changed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shaper file, or the scenario of `tidegate simulate`; - for standard input
    #[cfg_attr(feature = "live", arg(required_unless_present_any = ["up", "down"]))]
    #[cfg_attr(not(feature = "live"), arg(required = true))]
    file: Option<PathBuf>,
    #[cfg(feature = "live")]
    #[command(flatten)]
    line: LineArgs,
    /// The interface that the file of --up and --down names; several, with commas between them, share the rates
    #[arg(long, short, value_name = "NAME", value_delimiter = ',', conflicts_with = "file")]
    #[cfg(feature = "live")]
    interface: Vec<String>,
    /// Print the tree, the sums and the diagnostics as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut out = output::stdout();
    let Some(file) = &args.file else {
        #[cfg(feature = "live")]
        presets(args, &mut out)?;
        return Ok(());
    };
    let source = open(file)?;
    if Meaning::of(&source) == Some(Meaning::Scenario) {
        return check_scenario(args.json, file, &source, &mut out);
    }
    let mut diagnostics = Diagnostics::new();
    let configs = shaper::load_all(&source, &mut diagnostics);
    if args.json {
        let whole = whole_json(&source, &diagnostics, configs.as_deref());
        writeln!(out, "{whole:#}")?;
        out.flush()?;
    } else {
        say(&diagnostics, &source);
        let (mut text, mut told) = (Vec::new(), HashSet::new());
        for (at, config) in configs.iter().flatten().enumerate() {
            let gap = if at > 0 { "\n" } else { "" };
            write!(text, "{gap}")?;
            print(&mut text, &source, config, &mut told)?;
        }
        drop(out);
        output::print(&String::from_utf8_lossy(&text))?;
        #[cfg(feature = "live")]
        say_of_kernel(configs.as_deref().unwrap_or_default());
    }
    match configs {
        Some(configs) => {
            let named = configs.iter().all(|config| !config.interface.names.is_empty());
            if !args.json && file.as_os_str() != "-" {
                let interface = if named { "" } else { " --interface NAME" };
                output::hint(&format!("`sudo tidegate run {}{interface}` shapes by it", file.display()));
            }
            Ok(())
        }
        None => Err(refusal(&diagnostics, &source)),
    }
}

/// Says why the kernel does not take a file that asks for it, or would be taken there by default.
#[cfg(feature = "live")]
fn say_of_kernel(configs: &[Config]) {
    use std::collections::BTreeSet;
    use tidegate_config::shaper::DataPath;
    use tidegate_live::shaping::StartError;
    // Both directions usually have the same reason.
    let mut notes = BTreeSet::new();
    for config in configs {
        match (config.interface.data_path, tidegate_kernel::check(config)) {
            (DataPath::Kernel, Err(error)) => _ = notes.insert(format!("`tidegate run` refuses it: {error}")),
            // Other errors are not about the kernel: user space answers them as well.
            (DataPath::Auto, Err(error @ StartError::NotInKernel { .. })) => {
                notes.insert(format!("note: {}", error.reason()));
            }
            _ => {}
        }
    }
    notes.iter().for_each(|note| message!("{note}"));
}

/// Writes the file that `--up` and `--down` stand for; as JSON with its text.
#[cfg(feature = "live")]
fn presets(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let source = args.line.source(&args.interface)?;
    let configs = load_all(&source)?;
    if args.json {
        let mut whole = whole_json(&source, &Diagnostics::new(), Some(&configs));
        whole["text"] = source.text().into();
        writeln!(out, "{whole:#}")?;
    } else {
        write!(out, "{}", source.text())?;
    }
    out.flush()?;
    Ok(())
}

/// `configuration` is that of a file for one direction, `configurations` are those of both.
fn whole_json(source: &Source, diagnostics: &Diagnostics, configs: Option<&[Config]>) -> Value {
    let findings: Vec<Value> = diagnostics.iter().map(|d| finding_json(d, source)).collect();
    json!({
        "file": source.name(),
        "valid": configs.is_some(),
        "findings": findings,
        "configuration": configs.filter(|configs| configs.len() == 1).map(|configs| config_json(&configs[0])),
        "configurations": configs.map(|configs| configs.iter().map(config_json).collect::<Vec<_>>()),
    })
}

/// Reads the shaper file at `path`; warnings and errors go to standard error.
///
/// # Errors
/// [`Failure::Usage`] when it cannot be read or is not valid.
pub fn load(path: &Path) -> Result<Config, Failure> {
    load_source(&open(path)?)
}

/// Reads a shaper file whose text is in memory.
///
/// # Errors
/// [`Failure::Usage`] when it is not valid.
pub fn load_source(source: &Source) -> Result<Config, Failure> {
    load_with(source, shaper::load)
}

/// Reads a shaper file for one direction or both.
///
/// # Errors
/// [`Failure::Usage`] when it is not valid.
#[cfg(feature = "live")]
pub fn load_all(source: &Source) -> Result<Vec<Config>, Failure> {
    load_with(source, shaper::load_all)
}

/// Reads a shaper file by `load`. Whether it is a scenario is asked only of one that is not valid.
fn load_with<T>(source: &Source, load: impl Fn(&Source, &mut Diagnostics) -> Option<T>) -> Result<T, Failure> {
    let mut diagnostics = Diagnostics::new();
    let loaded = load(source, &mut diagnostics);
    if loaded.is_none() {
        refuse_scenario(source)?;
    }
    say(&diagnostics, source);
    loaded.ok_or_else(|| refusal(&diagnostics, source))
}

/// Opens a file named on the command line.
///
/// # Errors
/// [`Failure::Usage`] with the name of the file.
pub fn open(path: &Path) -> Result<Source, Failure> {
    Source::open(path).map_err(|error| Failure::Usage(error.to_string()))
}

/// Writes diagnostics to standard error, in colours on a terminal.
pub fn say(diagnostics: &Diagnostics, source: &Source) {
    if diagnostics.is_empty() {
        return;
    }
    let styled = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let text = if styled { diagnostics.render_styled(source) } else { diagnostics.render(source) };
    // If standard error is closed, the exit code still reports the failure.
    output::styled(&text);
}

/// The last line of the message about an invalid file.
pub fn refusal(diagnostics: &Diagnostics, source: &Source) -> Failure {
    let errors = diagnostics.errors();
    Failure::Usage(format!("{}: {errors} error{}", source.name(), if errors == 1 { "" } else { "s" }))
}

/// Prints a direction. `told` are the lines of both directions that were printed already.
fn print(out: &mut dyn Write, source: &Source, config: &Config, told: &mut HashSet<String>) -> Result<(), Failure> {
    let interface = &config.interface;
    let name = match &interface.names[..] {
        [] => "interface from the command line".into(),
        [name] => format!("interface {name}"),
        names => format!("interfaces {} under one total", names.join(" + ")),
    };
    if told.insert(source.name().to_owned()) {
        writeln!(out, "{}: valid\n", source.name())?;
    }
    writeln!(
        out,
        "{name}, what {}, packets up to {} B and {} B on top of each",
        match interface.direction {
            Direction::Egress => "leaves",
            Direction::Ingress => "arrives",
        },
        interface.mtu.as_u64(),
        interface.overhead.as_u64()
    )?;
    match &config.root {
        Root::Shaper(shaper) => {
            if let (2.., Some(by)) = (interface.threads, shaper.divided_by()) {
                let by = match by {
                    DividedBy::Source => "source address",
                    DividedBy::Destination => "destination address",
                    DividedBy::HostPair => "both addresses",
                };
                writeln!(out, "{} threads with the rates in common, flows divided by {by}", interface.threads)?;
            }
            let Shaper { rate, burst, flow_by, fair_by, idle_timeout, flows, .. } = shaper;
            let hosts = match fair_by {
                FairBy::Flow => "",
                FairBy::Host | FairBy::Source => ", sending hosts share equally",
                FairBy::Destination => ", receiving hosts share equally",
            };
            writeln!(
                out,
                "shaper {}, bursts up to {}; flows by {flow_by}{hosts}, over after {}, up to {flows}\n",
                output::rate(*rate),
                output::bytes(*burst),
                output::wait(*idle_timeout),
            )?;
            if let Some(sums) = guarantees(config) {
                writeln!(out, "{}", tree(config, shaper, &sums).text(width()))?;
                write_sums(out, config, shaper, &sums)?;
            }
        }
        Root::Discipline(discipline) => {
            let classes = discipline.classes();
            let classes =
                if classes.is_empty() { "no classes".into() } else { format!("classes {}", classes.join(", ")) };
            writeln!(out, "discipline {}, {classes}{}", discipline.kind(), on_line(discipline))?;
            match &**discipline {
                Discipline::Cbq(cbq) => write!(out, "\n{}", link_sharing::table(cbq).text(width()))?,
                Discipline::Htb(tree) => {
                    writeln!(out)?;
                    htb::write(out, tree, width())?;
                }
                _ => {}
            }
        }
    }
    writeln!(out)?;
    if config.rules.is_empty() {
        writeln!(out, "no rules: every packet goes to {}", default_name(config))?;
    } else {
        write!(out, "{}", rules(config).text(width()))?;
        #[cfg(feature = "live")]
        changing::write(out, config, told)?;
    }
    if let Some(metrics) = config.metrics.filter(|_| told.insert("metrics".to_owned())) {
        let who = if metrics.anywhere { "whoever reaches it" } else { "this machine" };
        writeln!(out, "metrics and a web page at http://{}/, for {who}", metrics.listen)?;
    }
    Ok(())
}

/// The rate of a discipline that has one, and what it counts for a packet on the line.
fn on_line(discipline: &Discipline) -> String {
    let (wire, line) = discipline.wire();
    let rate = discipline.line().map_or_else(String::new, |rate| format!(", at {}", output::rate(rate)));
    let of = line.map_or_else(String::new, |line| format!(" of a line of {}", output::rate(line)));
    let bytes = match wire.overhead {
        0 => String::new(),
        overhead => format!(", {overhead} B on top of each packet"),
    };
    format!("{rate}{of}{bytes}")
}

fn default_name(config: &Config) -> String {
    class_name(config, config.default_class).unwrap_or_else(|| "the discipline".into())
}

fn class_name(config: &Config, class: ClassId) -> Option<String> {
    config.class_names().get(class.0 as usize).map(|name| (*name).to_owned())
}

fn tree(config: &Config, shaper: &Shaper, sums: &Guarantees) -> Table {
    let heads = [
        "class",
        ">prio",
        ">rate",
        ">of total",
        ">at most",
        ">a host",
        ">a flow",
        ">burst",
        ">wait up to",
        ">minimums",
        ">shared",
        "writes",
    ];
    let mut table = Table::new("", heads)
        .optional(["writes", "burst", "prio", "shared", "of total", "wait up to"])
        .shorten("class", 22);
    let total = output::rate(sums.total);
    table.row(["total", "", &total, "100 %", &total, "", "", &output::bytes(shaper.burst)].map(Into::into));
    let bound = |rate: Option<Rate>| rate.map_or_else(|| "-".into(), output::rate);
    for (i, (class, sum)) in shaper.classes.iter().zip(&sums.classes).enumerate() {
        let branch = if i + 1 == shaper.classes.len() && sums.left.is_zero() { "└─" } else { "├─" };
        let default = if config.default_class == sum.class { " (default)" } else { "" };
        let writes = class.dscp.map_or_else(String::new, |dscp| format!("dscp {}", dscp_name(dscp)));
        let burst = sum.burst.map_or_else(|| format!("{} a flow", output::bytes(class.flow_burst)), output::bytes);
        let row = [
            format!("{branch} {}{default}", class.name),
            class.priority.to_string(),
            output::rate(class.rate),
            tidegate_display::part(f64::from(sum.part.millionths()) / 1e6),
            output::rate(sum.at_most),
            bound(sum.host_at_most),
            bound(sum.flow_at_most),
            burst,
            sum.longest_wait.map_or_else(|| class.queue.as_ref().map_or("", |q| q.kind()).into(), output::wait),
            if sum.minimums.is_zero() { "-".into() } else { output::rate(sum.minimums) },
            output::rate(sum.shared),
            writes,
        ];
        table.row(row.map(Into::into));
    }
    if !sums.left.is_zero() {
        table.row(["└─ not promised", "", &output::rate(sums.left)].map(Into::into));
    }
    table.if_any(["a host", "a flow"])
}

fn write_sums(out: &mut dyn Write, config: &Config, shaper: &Shaper, sums: &Guarantees) -> Result<(), Failure> {
    let rates: Vec<String> = shaper.classes.iter().map(|class| output::exact_rate(class.rate)).collect();
    let (rates, promised, total) =
        (rates.join(" + "), output::exact_rate(sums.promised), output::exact_rate(sums.total));
    let left = if sums.left.is_zero() { "nothing".into() } else { output::exact_rate(sums.left) };
    writeln!(out, "promised to classes: {rates} = {promised} of {total}: it fits, {left} left over")?;
    for class in shaper.classes.iter().filter(|class| class.is_rest) {
        let (name, rate) = (&class.name, output::exact_rate(class.rate));
        let less = if class.at_most.class.is_some() { "; write a lower `rate` if it is to have less then" } else { "" };
        writeln!(
            out,
            "`{name}` has no rate of its own: while all are busy it has {rate} of what the others leave of the total{less}"
        )?;
    }
    for (class, sum) in shaper.classes.iter().zip(&sums.classes) {
        for promise in &sum.rules {
            let what = &config.rules[promise.rule].matches;
            let left = output::exact_rate(sum.shared);
            writeln!(
                out,
                "promised in `{}`: {} x {} to flows of rule {} ({what}); full at {} such flows; {left} of {} shared by weight",
                class.name,
                promise.flows,
                output::exact_rate(promise.minimum),
                promise.rule + 1,
                promise.full_at,
                output::exact_rate(class.rate),
            )?;
        }
        if class.advice != Advice::None {
            let what = match class.advice {
                Advice::Ceiling | Advice::None => format!("{}, less headers", output::rate(sum.at_most)),
                Advice::FairShare => "what each has now, less headers".into(),
                Advice::Promise => "the minimum of those that have one, less headers".into(),
            };
            writeln!(out, "advised in `{}` to flows of QUIC: {}, {what}", class.name, class.advice.word())?;
        }
    }
    write_service(out, shaper, sums)
}

/// A longer wait in a queue is told.
const LONG: Span = Span::from_millis(500);

/// Two things that readers of other shapers do not expect: that priority decides nothing about spare rate, and how long a queue is that follows
/// from a small rate.
fn write_service(out: &mut dyn Write, shaper: &Shaper, sums: &Guarantees) -> Result<(), Failure> {
    let borrowing = || shaper.classes.iter().filter(|class| class.borrow == Borrow::Allowed);
    let first = borrowing().map(|class| class.priority).min();
    if borrowing().any(|class| Some(class.priority) != first) {
        writeln!(
            out,
            "what classes leave is lent in proportion to the rates of those that borrow, whatever their priority"
        )?;
    }
    for (class, sum) in shaper.classes.iter().zip(&sums.classes) {
        if let Some(wait) = sum.longest_wait.filter(|wait| *wait > LONG) {
            writeln!(
                out,
                "a packet of `{}` may wait {} while all are busy: a smaller `limit` or `flow-limit` keeps that short",
                class.name,
                output::wait(wait)
            )?;
        }
    }
    Ok(())
}

fn rules(config: &Config) -> Table {
    let mut table =
        Table::new("", ["rule", "name", "packets with", "class", "weight", "minimum", "at most", "displaced"])
            .optional(["weight"])
            .shorten("packets with", 24)
            .shorten("displaced", 12);
    for (i, rule) in config.rules.iter().enumerate() {
        let minimum = if rule.minimum.is_zero() {
            "-".into()
        } else {
            format!("{} x {}", rule.flows, output::rate(rule.minimum))
        };
        let displaced = rule.displace.map(|displace| {
            format!("below {} to {}", output::rate(displace.below), class_name(config, displace.to).unwrap_or_default())
        });
        let row = [
            (i + 1).to_string(),
            rule.name.clone().unwrap_or_default(),
            rule.matches.to_string(),
            class_name(config, rule.class).unwrap_or_default(),
            rule.weight.to_string(),
            minimum,
            rule.at_most.map_or_else(|| "-".into(), |ceiling| output::rate(ceiling.rate)),
            displaced.unwrap_or_else(|| "-".into()),
        ];
        table.row(row.map(Into::into));
    }
    table.row(["-", "", "no rule matches", &default_name(config)].map(Into::into));
    table.if_any(["at most", "name"])
}

fn finding_json(finding: &Diagnostic, source: &Source) -> Value {
    let (line, column) = source.line_column(finding.place.start);
    let (end_line, end_column) = source.line_column(finding.place.end);
    json!({
        "severity": match finding.severity { Severity::Error => "error", Severity::Warning => "warning" },
        "message": finding.message,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "text": source.text().get(finding.place.start..finding.place.end),
        "label": finding.label,
        "help": finding.help,
    })
}

fn config_json(config: &Config) -> Value {
    let root = match &config.root {
        Root::Shaper(shaper) => shaper_json(config, shaper),
        Root::Discipline(discipline) => json!({
            "discipline": discipline.kind(),
            "classes": discipline.classes(),
            "tree": match &**discipline {
                Discipline::Cbq(cbq) => link_sharing::json(cbq),
                Discipline::Htb(tree) => htb::json(tree),
                _ => Value::Null,
            },
        }),
    };
    let rules: Vec<Value> = config
        .rules
        .iter()
        .map(|rule| {
            json!({
                "class": class_name(config, rule.class),
                "matches": rule.matches.to_string(),
                "weight": rule.weight,
                "minimum_bps": rule.minimum.as_bps(),
                "flows": rule.flows,
                "at_most_bps": rule.at_most.map(|ceiling| ceiling.rate.as_bps()),
                "displace_below_bps": rule.displace.map(|displace| displace.below.as_bps()),
                "displace_to": rule.displace.and_then(|displace| class_name(config, displace.to)),
            })
        })
        .collect();
    json!({
        "interface": {
            "name": match &config.interface.names[..] {
                [] => None,
                [name] => Some(json!(name)),
                names => Some(json!(names)),
            },
            "direction": config.interface.direction.word(),
            "mtu_bytes": config.interface.mtu.as_u64(),
            "overhead_bytes": config.interface.overhead.as_u64(),
            "threads": config.interface.threads,
        },
        "root": root,
        "default_class": class_name(config, config.default_class),
        "rules": rules,
        "metrics": config.metrics.map(|metrics| {
            json!({ "listen": metrics.listen.to_string(), "anywhere": metrics.anywhere })
        }),
    })
}

fn shaper_json(config: &Config, shaper: &Shaper) -> Value {
    let sums = guarantees(config);
    let classes: Vec<Value> = shaper
        .classes
        .iter()
        .enumerate()
        .map(|(i, class)| {
            let sum = sums.as_ref().and_then(|sums| sums.classes.get(i));
            let promises: Vec<Value> = sum.map_or_else(Vec::new, |sum| {
                sum.rules
                    .iter()
                    .map(|rule| {
                        json!({
                            "rule": rule.rule,
                            "minimum_bps": rule.minimum.as_bps(),
                            "flows": rule.flows,
                            "full_at_flows": rule.full_at,
                        })
                    })
                    .collect()
            });
            json!({
                "name": class.name,
                "rate_bps": class.rate.as_bps(),
                "part_millionths": sum.map(|sum| sum.part.millionths()),
                "at_most_bps": sum.map(|sum| sum.at_most.as_bps()),
                "host_at_most_bps": class.at_most.host.map(|ceiling| ceiling.rate.as_bps()),
                "flow_at_most_bps": class.at_most.flow.map(|ceiling| ceiling.rate.as_bps()),
                "burst_bytes": class.burst.as_u64(),
                "flow_burst_bytes": class.flow_burst.as_u64(),
                "bursts": class.bursts.word(),
                "share": class.share.word(),
                "borrow": class.borrow == Borrow::Allowed,
                "priority": class.priority,
                "advice": class.advice.word(),
                "dscp": class.dscp.map(|dscp| dscp.value()),
                "limit_bytes": class.limit.as_u64(),
                "flow_limit_bytes": class.flow_limit.as_u64(),
                "longest_wait_ns": sum.and_then(|sum| sum.longest_wait).map(Span::as_nanos),
                "increment_millionths": class.increment.millionths(),
                "queue": class.queue.as_ref().map(|queue| queue.kind()),
                "minimums_bps": sum.map(|sum| sum.minimums.as_bps()),
                "shared_bps": sum.map(|sum| sum.shared.as_bps()),
                "promises": promises,
            })
        })
        .collect();
    json!({
        "rate_bps": shaper.rate.as_bps(),
        "burst_bytes": shaper.burst.as_u64(),
        "promised_bps": sums.as_ref().map(|sums| sums.promised.as_bps()),
        "left_bps": sums.as_ref().map(|sums| sums.left.as_bps()),
        "flow_by": shaper.flow_by.word(),
        "fair_by": shaper.fair_by.word(),
        "idle_timeout_ns": shaper.idle_timeout.as_nanos(),
        "flows": shaper.flows,
        "classes": classes,
    })
}
