//! `tidegate doctor`: what on this machine would prevent shaping, and how to fix it.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate_config::shaper::{self, Config, DataPath, Direction};
use tidegate_config::{Diagnostics, Source};
use tidegate_control::{ClientError, Place};
use tidegate_live::doctor::{self, Examination, Finding, Severity, Subject};
use tidegate_live::probe::Version;
use tidegate_live::rtnl::sysctl;
use tidegate_live::shaping::{Options, Shaping, known_owners};

use crate::Failure;
use crate::commands::connect::connect;
use crate::commands::status::{guardian_text, last_words, privileges_text};
use crate::commands::{check, interfaces};
use crate::output::{hanging, width};

/// Report what on this machine would prevent shaping, and how to fix it
///
/// It examines the kernel's packet filter and queue, privileges, scheduling and timers; of an interface its state, offloads
/// and qdiscs, filters of tc and XDP programs, and rules of other programs before Tidegate's; which interface is the uplink,
/// which one is below it, and the commands that shape it; and whether the users and control groups that the file names
/// exist. It changes nothing, except with `--try`. The exit code is 1 if something prevents shaping.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shaper file that is to be used
    file: Option<PathBuf>,
    /// The interface that is to be shaped, instead of the one in the file; without either, that of the default route.
    /// Several, with commas between them, share the rates
    #[arg(long, short, value_name = "NAME", value_delimiter = ',')]
    interface: Vec<String>,
    /// Start shaping in both directions, report whether packets came through, and remove it again
    #[arg(long = "try")]
    attempt: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Show passed checks, too
    #[arg(long, short)]
    all: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let configs = match &args.file {
        Some(file) => check::load_all(&check::open(file)?)?,
        None => Vec::new(),
    };
    let config = configs.first();
    let written = config.map(|config| &config.interface.names[..]).unwrap_or_default();
    let interfaces = if args.interface.is_empty() { written } else { &args.interface };
    let mtu = config.map(|config| config.interface.mtu.as_u64() as u32);
    let mut examination =
        doctor::examine(Subject { interfaces, mtu, offload: Some(tidegate_kernel::finding), ended: Some(ended) });
    for config in configs.iter().filter(|config| !config.rules.is_empty()) {
        examination.findings.push(owners(config));
    }
    examination.findings.extend(signals(&configs));
    examination.findings.extend(running(interfaces.first().map(String::as_str)));
    if args.attempt {
        if interfaces.is_empty() {
            return Err(Failure::Usage(interfaces::which(&std::env::args().skip(1).collect::<Vec<_>>())));
        }
        let own = |direction: Direction| configs.iter().find(|config| config.interface.direction == direction).cloned();
        for direction in [Direction::Egress, Direction::Ingress] {
            let config = own(direction).or_else(|| passing(direction));
            examination.findings.extend(config.map(|config| attempt(&config, interfaces)));
        }
    }
    if args.json {
        json(&examination)?
    } else {
        text(&examination, args.all)?
    }
    if examination.is_sound() { Ok(()) } else { Err(Failure::Negative) }
}

/// A configuration that lets everything pass, for a direction without a file.
fn passing(direction: Direction) -> Option<Config> {
    let text = format!(
        "version = 1\n[interface]\ndirection = \"{}\"\n[discipline]\nkind = \"fifo\"\nlimit = \"4MB\"\n",
        direction.word()
    );
    shaper::load(&Source::new("what passes everything", text), &mut Diagnostics::new())
}

/// Starts shaping of `interfaces` by `config`, and ends it.
pub fn attempt(config: &Config, interfaces: &[String]) -> Finding {
    let way = match config.interface.direction {
        Direction::Egress => "what leaves",
        Direction::Ingress => "what arrives",
    };
    let options = Options { interfaces: interfaces.to_vec(), ..Options::default() };
    let finding = |severity, found: String, remedy: &str| Finding {
        about: "try",
        severity,
        found: format!("{way}: {found}"),
        remedy: remedy.into(),
    };
    let shaping = match Shaping::start(config, &options) {
        Ok(shaping) => shaping,
        Err(error) => return finding(Severity::Prevents, error.to_string(), ""),
    };
    let proofs: Vec<_> =
        shaping.interfaces().iter().map(|each| (each.name().to_owned(), each.proof().clone())).collect();
    if let Err(error) = shaping.stop() {
        return finding(Severity::Prevents, format!("it was started, but did not end properly: {error}"), "");
    }
    // With a single interface there is no need to name it.
    let of = |name: &str| if proofs.len() > 1 { format!(" of {name}") } else { String::new() };
    let (mut came, mut awaited, mut silent) = (Vec::new(), Vec::new(), false);
    for (name, proof) in &proofs {
        let versions = [Version::V4, Version::V6].into_iter().filter(|version| proof.has(*version));
        let versions: Vec<String> = versions.map(|version| format!("{version}{}", of(name))).collect();
        silent |= versions.is_empty();
        came.extend(versions);
        awaited.extend(proof.awaited.iter().map(|(version, why)| format!("{version}{} ({why})", of(name))));
    }
    let (came, awaited) = (came.join(", "), awaited.join(", "));
    match (silent, awaited.is_empty()) {
        (false, true) => finding(Severity::Note, format!("packets came through ({came})"), ""),
        (false, false) => {
            finding(Severity::Note, format!("packets came through ({came}), but none yet of {awaited}"), "")
        }
        (true, _) => finding(
            Severity::Weakens,
            match came.is_empty() {
                true => format!("it starts, but no packet has come through yet: {awaited}"),
                false => format!("it starts, packets came through ({came}), and none yet of {awaited}"),
            },
            "an address, a route or a filter that lets probes pass; then try again",
        ),
    }
}

/// Checks that the users and control groups of the rules exist.
fn owners(config: &Config) -> Finding {
    let (severity, found, remedy) = match known_owners(config) {
        Ok(()) => (Severity::Fine, "all users and control groups of rules exist".to_owned(), ""),
        Err(error) => (Severity::Prevents, error.to_string(), "create what is missing, or change the rule"),
    };
    Finding { about: "owners", severity, found, remedy: remedy.into() }
}

/// The signals by which a rate will follow the line: passing traffic, and probes to peers.
fn signals(configs: &[Config]) -> Option<Finding> {
    let follows: Vec<_> = configs.iter().filter_map(|config| Some((config, config.follow()?))).collect();
    if follows.is_empty() {
        return None;
    }
    let is_seen = follows.iter().all(|(config, _)| config.interface.data_path != DataPath::Kernel);
    let peers: BTreeSet<_> = follows.iter().flat_map(|(_, follow)| &follow.peers).collect();
    let own = rustix::process::getegid().as_raw();
    let may_probe = sysctl::read("ipv4/ping_group_range").is_ok_and(|range| may_ping(&range, own));
    let passing = match (configs.len(), is_seen) {
        (2, true) => "round trips of passing TCP and QUIC",
        (_, true) => "no passing traffic, since round trips show only where both directions are shaped by one file",
        (_, false) => "no passing traffic, which the kernel does not show to this process",
    };
    let (probes, remedy) = match (peers.len(), may_probe) {
        (0, _) => ("no probes, since no `peers` are named".to_owned(), ""),
        (n, true) => (format!("probes to {n} peers, where nothing passes that shows a round trip"), ""),
        (n, false) => (
            format!("no probes to the {n} peers, since the group {own} may not send them"),
            "sysctl -w net.ipv4.ping_group_range=\"0 2147483647\"",
        ),
    };
    let has_passing = configs.len() == 2 && is_seen;
    let severity = if has_passing && (may_probe || peers.is_empty()) { Severity::Note } else { Severity::Weakens };
    // Without any the rate is the base, always.
    let remedy =
        if has_passing || !remedy.is_empty() { remedy } else { "shape both directions by one file, or name `peers`" };
    let found = format!("the rate follows the line by {passing}; {probes}");
    Some(Finding { about: "signals", severity, found, remedy: remedy.into() })
}

/// Whether a group is in a range as the kernel writes it: `0\t2147483647`.
fn may_ping(range: &str, group: u32) -> bool {
    let mut ends = range.split_whitespace().map(|end| end.parse::<u32>());
    let (Some(Ok(first)), Some(Ok(last))) = (ends.next(), ends.next()) else { return false };
    (first..=last).contains(&group)
}

/// Reports the shaper of an interface whose process was killed, while its guardian keeps its rules.
fn ended(interface: &str) -> Option<Finding> {
    let paths = Place::Interface(interface.to_owned()).find_all().unwrap_or_default();
    let process = paths.iter().find_map(|path| {
        let error = connect(path).err()?;
        last_words::ended(path, &error)
    })?;
    Some(Finding {
        about: "instance",
        severity: Severity::Prevents,
        found: format!("process {process}, which shaped {interface}, died; its guardian lets packets pass unshaped"),
        remedy: "start it again with `tidegate run`; `tidegate status` shows its last words".into(),
    })
}

/// Reports the shaper of a socket whose process was killed and whose guardian has ended too, so that no rules are left. While
/// there are rules, [`ended`] reports it.
fn abandoned(socket: &Path, error: &ClientError) -> Option<Finding> {
    let process = last_words::ended(socket, error)?;
    if last_words::is_guarded(socket) {
        return None;
    }
    let name = socket.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    Some(Finding {
        about: "instance",
        severity: Severity::Weakens,
        found: format!("process {process}, which shaped {name}, ended unexpectedly; traffic passes unshaped"),
        remedy: format!(
            "start it again with `tidegate run`; `tidegate status` shows its last words; if it is not to shape any more, remove {}",
            socket.display()
        ),
    })
}

/// The privileges of a running tidegate, and its guardians, or its end, if it was killed.
fn running(interface: Option<&str>) -> Vec<Finding> {
    let place = interface.map_or(Place::Any, |interface| Place::Interface(interface.to_owned()));
    let mut found = Vec::new();
    for path in place.find_all().unwrap_or_default() {
        let status = match connect(&path).and_then(|mut client| client.status()) {
            Ok(status) => status,
            Err(error) => {
                found.extend(abandoned(&path, &error));
                continue;
            }
        };
        let mut add = |about, severity, text: String, remedy: &str| {
            found.push(Finding { about, severity, found: text, remedy: remedy.into() });
        };
        if let Some(privileges) = &status.privileges {
            let (severity, remedy) = match (privileges.no_new_privs, privileges.filtered) {
                (true, true) => (Severity::Note, ""),
                _ => {
                    (Severity::Weakens, "a kernel with CONFIG_SECCOMP_FILTER; its message at the start has the reason")
                }
            };
            let text = format!("process {} has {}", status.pid, privileges_text(privileges));
            add("confinement", severity, text, remedy);
        }
        for direction in &status.directions {
            let Some((text, is_there)) = direction.guardian.as_ref().and_then(guardian_text) else { continue };
            let text = format!("{} of {}: {text}", direction.name, status.interface);
            if is_there {
                add("guardian", Severity::Note, text, "");
            } else {
                let remedy =
                    "packets that are held are lost if tidegate ends unexpectedly; restart it when that is mended";
                add("guardian", Severity::Weakens, text, remedy);
            }
        }
    }
    found
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
    writeln!(crate::output::stdout(), "{whole:#}")?;
    Ok(())
}

pub fn text(examination: &Examination, all: bool) -> Result<(), Failure> {
    let mut out = crate::output::stdout();
    // The most severe first, otherwise in the order of examination.
    let mut findings: Vec<_> = examination.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in findings.iter().filter(|finding| all || finding.severity > Severity::Fine) {
        let found = format!("{:<8}  {}: {}", finding.severity.name(), finding.about, finding.found);
        writeln!(out, "{}", hanging(&found, width(), 10))?;
        for (at, line) in finding.remedy.lines().enumerate() {
            let line = format!("{:<8}  {} {line}", "", if at == 0 { "->" } else { "  " });
            // Commands stay in one line, to be copied.
            writeln!(out, "{}", if at == 0 { hanging(&line, width(), 13) } else { line })?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(Severity, String)> {
        let configs = check::load_all(&Source::new("shaper.toml", text)).expect("a valid file");
        signals(&configs).map(|finding| (finding.severity, finding.found))
    }

    #[test]
    fn a_rate_that_follows_needs_a_signal() {
        let class = |way: &str| format!("[[{way}.class]]\nname = \"all\"\nrate = \"5mbit\"\ndefault = true\n");
        let up = format!(
            "version = 1\n[up.shaper]\nrate = \"5mbit\"\nfollow = {{ from = \"1mbit\", to = \"20mbit\" }}\n{}",
            class("up")
        );
        let (severity, text) = found(&format!("{up}{}", class("down"))).expect("a finding");
        assert!(severity == Severity::Note && text.contains("passing TCP and QUIC; no probes"), "{text}");
        let one = up.replace("up.", "");
        let (severity, text) = found(&one).expect("a finding");
        assert!(severity == Severity::Weakens && text.contains("both directions are shaped by one file"), "{text}");
        assert!(found(&format!("version = 1\n{}", class("x").replace("x.", ""))).is_none());
    }

    #[test]
    fn the_range_of_groups_is_read_as_the_kernel_writes_it() {
        assert!(may_ping("0\t2147483647\n", 1_000) && may_ping("1000 1000", 1_000));
        // The default: nobody.
        assert!(!may_ping("1\t0\n", 0) && !may_ping("", 0));
    }
}
