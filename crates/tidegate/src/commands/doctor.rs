//! `tidegate doctor`: what on this machine would keep shaping from working, and how to mend it.

use std::io::Write;
use std::path::PathBuf;

use tidegate_config::shaper::Config;
use tidegate_live::doctor::{self, Examination, Finding, Severity, Subject};
use tidegate_live::shaping::known_owners;

use crate::Failure;
use crate::commands::check;

/// Say what on this machine would keep shaping from working, and how to mend it
///
/// Looks at the kernel's packet filter and queue, privileges, scheduling, timers, and at an interface: its state,
/// offloads and qdiscs, filters of tc and XDP programs, and rules of others in front of ours; and whether users and
/// control groups that the file names are there. Changes nothing. Ends with 1 if something prevents shaping.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shaper file that is to be used
    file: Option<PathBuf>,
    /// The interface that is to be shaped, instead of the one the file names
    #[arg(long, short, value_name = "NAME")]
    interface: Option<String>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Show what is fine, too
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
    if args.json {
        json(&examination)?
    } else {
        text(&examination, args.all)?
    }
    if examination.is_sound() { Ok(()) } else { Err(Failure::Negative) }
}

/// Whether those whom the rules name are there.
fn owners(config: &Config) -> Finding {
    let (severity, found, mend) = match known_owners(config) {
        Ok(()) => (Severity::Fine, "all that rules name are there".to_owned(), ""),
        Err(error) => (Severity::Prevents, error.to_string(), "create what is missing, or change the rule"),
    };
    Finding { about: "owners", severity, found, mend: mend.into() }
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
                "mend": finding.mend,
            })
        })
        .collect();
    let whole = serde_json::json!({ "sound": examination.is_sound(), "findings": findings });
    writeln!(std::io::stdout().lock(), "{whole:#}")?;
    Ok(())
}

fn text(examination: &Examination, all: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    // What is worst first, and otherwise in the order in which it was looked at.
    let mut findings: Vec<_> = examination.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in findings.iter().filter(|finding| all || finding.severity > Severity::Fine) {
        writeln!(out, "{:<8}  {}: {}", finding.severity.name(), finding.about, finding.found)?;
        if !finding.mend.is_empty() {
            writeln!(out, "{:<8}  -> {}", "", finding.mend)?;
        }
    }
    let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (prevents, weakens) = (of(Severity::Prevents), of(Severity::Weakens));
    let fine = of(Severity::Fine);
    let verdict = match (prevents, weakens) {
        (0, 0) => "nothing stands in the way".to_owned(),
        (0, n) => format!("shaping works; {n} weakened by what stands above"),
        (n, _) => format!("shaping does NOT work here: {n} to mend first"),
    };
    writeln!(out, "{verdict}; {fine} found in order")?;
    Ok(())
}
