//! `tidegate doctor`: what on this machine would prevent shaping, and how to fix it.

use std::io::Write;
use std::path::PathBuf;

use tidegate_config::shaper::Config;
use tidegate_control::{Client, Place};
use tidegate_live::doctor::{self, Examination, Finding, Severity, Subject};
use tidegate_live::shaping::known_owners;

use crate::Failure;
use crate::commands::check;
use crate::commands::status::privileges_text;

/// Report what on this machine would prevent shaping, and how to fix it
///
/// Examines the kernel's packet filter and queue, privileges, scheduling, timers, and an interface: its state,
/// offloads and qdiscs, filters of tc and XDP programs, and rules of other programs before Tidegate's; and whether
/// the users and control groups that the file names exist. Changes nothing. The exit code is 1 if something prevents
/// shaping.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shaper file that is to be used
    file: Option<PathBuf>,
    /// The interface that is to be shaped, instead of the one in the file
    #[arg(long, short, value_name = "NAME")]
    interface: Option<String>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Show passed checks, too
    #[arg(long, short)]
    all: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let config = args.file.as_deref().map(check::load).transpose()?;
    let named = config.as_ref().and_then(|config| config.interface.name.as_deref());
    let mtu = config.as_ref().map(|config| config.interface.mtu.as_u64() as u32);
    let mut examination = doctor::examine(Subject { interface: args.interface.as_deref().or(named), mtu });
    if let Some(config) = config.as_ref().filter(|config| !config.rules.is_empty()) {
        examination.findings.push(owners(config));
    }
    examination.findings.extend(running(args.interface.as_deref().or(named)));
    if args.json {
        json(&examination)?
    } else {
        text(&examination, args.all)?
    }
    if examination.is_sound() { Ok(()) } else { Err(Failure::Negative) }
}

/// Checks that the users and control groups of the rules exist.
fn owners(config: &Config) -> Finding {
    let (severity, found, remedy) = match known_owners(config) {
        Ok(()) => (Severity::Fine, "all users and control groups of rules exist".to_owned(), ""),
        Err(error) => (Severity::Prevents, error.to_string(), "create what is missing, or change the rule"),
    };
    Finding { about: "owners", severity, found, remedy: remedy.into() }
}

/// What a tidegate that runs may do; nothing without one that answers.
fn running(interface: Option<&str>) -> Option<Finding> {
    let place = interface.map_or(Place::Any, |interface| Place::Interface(interface.to_owned()));
    let status = Client::connect(&place.find().ok()?).ok()?.status().ok()?;
    let privileges = status.privileges?;
    let text = format!("process {} has {}", status.pid, privileges_text(&privileges));
    let (severity, remedy) = match (privileges.no_new_privs, privileges.filtered) {
        (true, true) => (Severity::Note, ""),
        _ => (Severity::Weakens, "a kernel with CONFIG_SECCOMP_FILTER; what it said at its start has the reason"),
    };
    Some(Finding { about: "confinement", severity, found: text, remedy: remedy.into() })
}

fn json(examination: &Examination) -> Result<(), Failure> {
    let findings: Vec<_> = examination
        .findings
        .iter()
        .map(|finding| {
            serde_json::json!({
                "about": finding.about,
                "severity": finding.severity.name(),
                "found": finding.found,
                "mend": finding.remedy,
            })
        })
        .collect();
    let whole = serde_json::json!({ "sound": examination.is_sound(), "findings": findings });
    writeln!(std::io::stdout().lock(), "{whole:#}")?;
    Ok(())
}

fn text(examination: &Examination, all: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    // The most severe first, otherwise in the order of examination.
    let mut findings: Vec<_> = examination.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in findings.iter().filter(|finding| all || finding.severity > Severity::Fine) {
        writeln!(out, "{:<8}  {}: {}", finding.severity.name(), finding.about, finding.found)?;
        if !finding.remedy.is_empty() {
            writeln!(out, "{:<8}  -> {}", "", finding.remedy)?;
        }
    }
    let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (prevents, weakens) = (of(Severity::Prevents), of(Severity::Weakens));
    let fine = of(Severity::Fine);
    let verdict = match (prevents, weakens) {
        (0, 0) => "nothing prevents shaping".to_owned(),
        (0, n) => format!("shaping works; {n} of the results above weaken it"),
        (n, _) => format!("shaping does NOT work here: {n} to fix first"),
    };
    writeln!(out, "{verdict}; {fine} checks passed")?;
    Ok(())
}
