//! `tidegate setup`: from a machine to a service that shapes its uplink, and back.

use std::io::Write;
use std::path::PathBuf;
use std::slice;

use tidegate_config::Source;
use tidegate_config::preset::{self, LINKS, LineRate};
use tidegate_config::shaper::Direction;
use tidegate_control::{Client, Place};
use tidegate_live::doctor::{self, Severity, Subject};
use tidegate_live::rtnl::Rtnl;
use tidegate_live::uplink::{Kind, Uplink, Uplinks};
use tidegate_units::{Bytes, Rate, UnitError};

pub(super) mod dialogue;
pub mod service;

use crate::Failure;
use crate::commands::{check, interfaces, line, measure as responsive};
use crate::measure::peer::Peer;
use crate::measure::rate::{Measured, measure};
use crate::measure::responsiveness::Responsiveness;
use crate::measure::wire::Trust;
use crate::output::rate;
use dialogue::Dialogue;
use service::{Instance, Manager};

/// Set up shaping of this machine's uplink as a service: find it, write its file, start it, prove it
///
/// Finds the interface of the default route and the one below it, takes the rates of the line or measures them, checks
/// what prevents shaping, shows the file, writes it, enables and starts the service, and reports its status. Asks on a
/// terminal for what is not given; with `--yes` it asks nothing. `--undo` removes it again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The interface to shape, instead of that of the default route; it need not be there yet
    #[arg(long, short, value_name = "NAME")]
    interface: Option<String>,
    /// The upstream rate of the line; without it what leaves is not shaped. Of a line whose rate varies, as a mobile one's, both
    /// rates are needed as a range, such as 1mbit-20mbit, and are followed
    #[arg(long, value_name = "RATE")]
    up: Option<LineRate>,
    /// The downstream rate of the line; without it what arrives is not shaped
    #[arg(long, value_name = "RATE")]
    down: Option<LineRate>,
    /// The type of the line, for its overhead per packet; by default what the interface suggests
    #[arg(long, value_name = "KIND", value_parser = line::kinds())]
    link: Option<String>,
    /// The overhead of the line per packet in bytes, if it differs from --link
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(i16).range(0..=256))]
    overhead: Option<i16>,
    /// Mark packets of ECT(1), which scalable senders (L4S) send, from 1 ms of delay of their flow on
    #[arg(long)]
    l4s: bool,
    /// Measure the rates that are not given with this peer: http://HOST[:PORT]/FILE, https://HOST[:PORT]/FILE, or HOST:PORT of
    /// a `tidegate measure --serve`. Downwards the file is requested (GET), upwards data is sent (POST), a few seconds each.
    /// Then, where it is agreed to, the responsiveness under load before and after
    #[arg(long, value_name = "URL")]
    measure: Option<String>,
    /// The certificates (PEM) of the authorities to trust for https, instead of those of the system
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Do it without asking
    #[arg(long, short)]
    yes: bool,
    /// Show what would be done, and change nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Stop and disable the service that was set up, and rename its file
    #[arg(long, conflicts_with_all = ["up", "down", "link", "overhead", "l4s", "measure", "ca"])]
    undo: bool,
    /// The directory of the file; the unit of systemd reads that in /etc/tidegate
    #[arg(long, value_name = "DIRECTORY", default_value = "/etc/tidegate")]
    directory: PathBuf,
    /// The service manager; by default systemd where it runs
    #[arg(long, value_name = "MANAGER")]
    service: Option<Manager>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let dialogue = Dialogue::new(args.yes);
    if !args.yes && !args.dry_run && !dialogue.asks() {
        return Err(Failure::Usage(
            "there is no terminal for the questions; write --yes to do it, or --dry-run to see what would be done"
                .into(),
        ));
    }
    let manager = args.service.unwrap_or_else(Manager::detect);
    if args.undo {
        return undo(args, manager, &dialogue);
    }
    let uplinks = Uplinks::find().map_err(|error| Failure::Failed(error.to_string()))?;
    let interface = choose(args, &uplinks, &dialogue)?;
    let uplink = uplinks.get(&interface);
    describe(&uplinks, uplink, &interface);
    let instance = Instance::new(&args.directory, &interface, manager);
    instance.check()?;
    let sound = examine(&interface)?;
    if !sound && !args.dry_run {
        return Err(Failure::Failed(format!("{interface} cannot be shaped in its present state; nothing was changed")));
    }
    let kind = kind_of_line(args, &uplinks, uplink, &dialogue)?;
    let varies = uplink.is_some_and(|uplink| uplink.kind == Kind::Mobile);
    let (rates, peer) = rates(args, &interface, (&kind, varies), &dialogue)?;
    let preset = line::source(rates, &kind, args.overhead, args.l4s, &[], line::mtu(slice::from_ref(&interface)))?;
    let text = format!("{}{}", instance.heading(), preset.text());
    // `run` must accept the file that is written.
    let configs = check::load_all(&Source::new(instance.file.display().to_string(), &text))?;
    message!("{}:", instance.file.display());
    let mut out = crate::output::stdout();
    write!(out, "{text}")?;
    out.flush()?;
    for line in instance.plan() {
        message!("{line}");
    }
    if args.dry_run {
        message!("nothing was changed");
        return if sound { Ok(()) } else { Err(Failure::Negative) };
    }
    if !dialogue.agrees("write the file and start?")? {
        message!("nothing was changed");
        return Ok(());
    }
    let before = before(peer, &interface, manager, &dialogue)?;
    for line in instance.set_up(&text, &configs)? {
        message!("{line}");
    }
    match before {
        Some((peer, trust, before)) => after(&peer, trust.as_ref(), &interface, &before),
        None => Ok(()),
    }
}

/// A peer, whom it believes, and the responsiveness down and up before shaping.
type Before = (Peer, Option<Trust>, [Responsiveness; 2]);

/// The responsiveness without shaping, where there is a peer and it is agreed to. Only a service still shapes afterwards.
fn before(
    peer: Option<(Peer, Option<Trust>)>,
    interface: &str,
    manager: Manager,
    dialogue: &Dialogue,
) -> Result<Option<Before>, Failure> {
    let Some((peer, trust)) = peer.filter(|_| manager == Manager::Systemd && !is_shaped(interface)) else {
        return Ok(None);
    };
    let question = "measure how responsive the line is under load, before and after, 40 s each?";
    if !dialogue.agrees(question)? {
        return Ok(None);
    }
    match responsive::both(&peer, Some(interface), trust.as_ref()) {
        Ok(found) => Ok(Some((peer, trust, found))),
        // Nothing but the comparison is lost.
        Err(error) => {
            message!("  {error}");
            Ok(None)
        }
    }
}

/// Measures with shaping, and ends with the answer: pages under load before and after.
fn after(peer: &Peer, trust: Option<&Trust>, interface: &str, before: &[Responsiveness; 2]) -> Result<(), Failure> {
    let after = responsive::both(peer, Some(interface), trust)?;
    for (at, word) in ["down", "up"].into_iter().enumerate() {
        let [was, is] = [&before[at], &after[at]].map(responsive::verdict);
        message!("{word}, pages while the line is full: before {was}; now {is}");
    }
    Ok(())
}

fn is_shaped(interface: &str) -> bool {
    Place::Interface(interface.into()).find().is_ok_and(|path| Client::connect(&path).is_ok())
}

/// Stops the service, and reports which files remain.
fn undo(args: &Args, manager: Manager, dialogue: &Dialogue) -> Result<(), Failure> {
    let interface = match &args.interface {
        Some(interface) => interface.clone(),
        None => {
            let mut all = service::set_up_in(&args.directory);
            match (all.pop(), all.is_empty()) {
                (Some(only), true) => only,
                (None, _) => {
                    let nothing = format!("nothing in {} was written by `tidegate setup`", args.directory.display());
                    return Err(Failure::Failed(nothing));
                }
                (Some(last), false) => {
                    all.push(last);
                    let text =
                        format!("several interfaces were set up: {}; choose one with --interface", all.join(", "));
                    return Err(Failure::Usage(text));
                }
            }
        }
    };
    let instance = Instance::new(&args.directory, &interface, manager);
    instance.is_set_up()?;
    for line in instance.plan_of_undo() {
        message!("{line}");
    }
    if args.dry_run || !dialogue.agrees(&format!("stop shaping {interface}?"))? {
        message!("nothing was changed");
        return Ok(());
    }
    for line in instance.undo()? {
        message!("{line}");
    }
    Ok(())
}

/// The interface to shape.
fn choose(args: &Args, uplinks: &Uplinks, dialogue: &Dialogue) -> Result<String, Failure> {
    if let Some(named) = &args.interface {
        return Ok(named.clone());
    }
    let Some(first) = uplinks.all.first() else {
        message!("there is no default route, so the uplink is not known");
        return Err(Failure::Usage(interfaces::which(&std::env::args().skip(1).collect::<Vec<_>>())));
    };
    if uplinks.all.len() == 1 || !dialogue.asks() {
        return Ok(first.name.clone());
    }
    message!("there are several uplinks:");
    for uplink in &uplinks.all {
        message!("  {uplink}");
    }
    loop {
        let answer = dialogue.ask("which one is to be set up?", Some(&first.name))?;
        if uplinks.get(&answer).is_some() {
            return Ok(answer);
        }
        message!("{answer} is none of them");
    }
}

fn describe(uplinks: &Uplinks, uplink: Option<&Uplink>, interface: &str) {
    match uplink {
        Some(uplink) => {
            message!("uplink: {uplink}; the default route leaves by it");
            for remark in uplinks.remarks(uplink) {
                message!("  {remark}");
            }
        }
        None => {
            message!("interface: {interface}, which has no default route");
            if let Some(first) = uplinks.all.first() {
                message!("  that leaves by {first}");
            }
        }
    }
}

/// Prints what `doctor` finds and returns whether nothing prevents shaping. An interface that is not there yet is no
/// finding: the service waits for it.
fn examine(interface: &str) -> Result<bool, Failure> {
    let is_there = is_there(interface)?;
    if !is_there {
        message!("  {interface} does not exist yet; the service waits for it");
    }
    let examination = doctor::examine(Subject {
        interfaces: &[interface.to_owned()],
        mtu: None,
        offload: Some(tidegate_kernel::finding),
        // The service that is installed takes the place of one that has ended.
        ended: None,
    });
    let is_known = |about: &str| about == "place" || !is_there && about == "interface";
    let mut findings: Vec<_> = examination.findings.iter().filter(|finding| !is_known(finding.about)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in findings.iter().filter(|finding| finding.severity >= Severity::Weakens) {
        message!("  {} {}: {}", finding.severity.name(), finding.about, finding.found);
        finding.remedy.lines().for_each(|line| message!("    -> {line}"));
    }
    let sound = findings.iter().all(|finding| finding.severity < Severity::Prevents);
    if sound {
        message!("  nothing prevents shaping; `tidegate doctor --interface {interface}` shows everything");
    }
    Ok(sound)
}

fn is_there(interface: &str) -> Result<bool, Failure> {
    let link = Rtnl::open().and_then(|mut rtnl| rtnl.link(interface));
    link.map(|link| link.is_some()).map_err(|error| Failure::Failed(error.to_string()))
}

/// The word of `--link`: as given, as answered, or as the place suggests.
fn kind_of_line(
    args: &Args,
    uplinks: &Uplinks,
    uplink: Option<&Uplink>,
    dialogue: &Dialogue,
) -> Result<String, Failure> {
    if let Some(kind) = &args.link {
        return Ok(kind.clone());
    }
    let suggested = uplink.and_then(|uplink| uplinks.line_kind(uplink)).unwrap_or(LINKS[0].0);
    if !dialogue.asks() {
        message!("kind of line: {suggested}; --link names another");
        return Ok(suggested.into());
    }
    message!("kinds of line:");
    for (word, what, _) in LINKS {
        message!("  {word}: {what}");
    }
    loop {
        let answer = dialogue.ask("which one is it?", Some(suggested))?;
        if preset::wire_of(&answer).is_some() {
            return Ok(answer);
        }
        message!("{answer} is none of them");
    }
}

/// The rates up and down and the peer that they were measured with.
type Line = ([Option<LineRate>; 2], Option<(Peer, Option<Trust>)>);

/// The rates up and down: as given, as measured, as answered. Those of a line that `varies` are ranges.
fn rates(args: &Args, interface: &str, (kind, varies): (&str, bool), dialogue: &Dialogue) -> Result<Line, Failure> {
    if varies {
        message!(
            "  the rate of a mobile line varies: write what it carries at its worst and at its best, such as 1mbit-20mbit"
        );
    }
    let given = [args.up, args.down];
    let is_given = given.iter().any(Option::is_some);
    let mut rates = given;
    let peer = match (&args.measure, is_given) {
        (Some(peer), _) => Some(Peer::parse(peer).map_err(|error| Failure::Usage(error.to_string()))?),
        (None, true) => return Ok((given, None)),
        (None, false) if !dialogue.asks() => {
            return Err(Failure::Usage("write the rates of the line, --up and --down, or --measure URL".into()));
        }
        (None, false) => loop {
            let question = "a peer to measure with, https://HOST/FILE or HOST:PORT; none to enter the rates";
            let answer = dialogue.ask(question, Some("none"))?;
            // One who knows the rate need not be asked twice.
            rates[0] = line_rate(&answer).ok().filter(|rate| !rate.is_zero());
            match Peer::parse(&answer) {
                Ok(peer) => break Some(peer),
                Err(_) if rates[0].is_some() || matches!(answer.as_str(), "none" | "no" | "-") => break None,
                // A number without a unit is meant as a rate.
                Err(_) if is_number(&answer) => message!("{}", line_rate(&answer).err().unwrap_or_default()),
                Err(error) => message!("{error}"),
            }
        },
    };
    let trust = peer.as_ref().map(|peer| Trust::of(peer, args.ca.as_deref())).transpose();
    let trust = trust.map_err(|error| Failure::Failed(error.to_string()))?.flatten();
    if let Some(peer) = peer.as_ref().filter(|_| rates.iter().any(Option::is_none)) {
        if is_shaped(interface) {
            let text = format!("{interface} is shaped already, so its shaper would be measured: end that first");
            return Err(Failure::Failed(text));
        }
        for (direction, rate, word) in directions(&mut rates) {
            if rate.is_some() {
                continue;
            }
            message!("measuring {word} with {peer} ...");
            match measure(peer, direction, interface, trust.as_ref()) {
                Ok(measured) => *rate = Some(report(&measured, (kind, varies), args.overhead, word)),
                Err(error) if dialogue.asks() => message!("  {error}"),
                Err(error) => return Err(Failure::Failed(format!("{error}; give --{word} instead"))),
            }
        }
    }
    if dialogue.asks() && !is_given {
        for (_, rate, word) in directions(&mut rates) {
            *rate = ask_rate(word, *rate, varies, dialogue)?;
        }
    }
    if rates == [None, None] {
        return Err(Failure::Failed("no rate was given, so there is nothing to shape; nothing was changed".into()));
    }
    Ok((rates, peer.map(|peer| (peer, trust))))
}

fn directions(rates: &mut [Option<LineRate>; 2]) -> [(Direction, &mut Option<LineRate>, &'static str); 2] {
    let [up, down] = rates;
    [(Direction::Egress, up, "up"), (Direction::Ingress, down, "down")]
}

fn ask_rate(
    word: &str,
    measured: Option<LineRate>,
    varies: bool,
    dialogue: &Dialogue,
) -> Result<Option<LineRate>, Failure> {
    let example = if varies { "1mbit-20mbit" } else { "20mbit" };
    let default = measured.map_or(String::new(), |rate| rate.to_string());
    loop {
        let question = format!("the rate of the line {word}, such as {example}; - to leave that direction alone");
        let answer = dialogue.ask(&question, Some(default.as_str()).filter(|text| !text.is_empty()))?;
        match line_rate(&answer) {
            _ if answer == "-" => return Ok(None),
            Ok(rate) if !rate.is_zero() => return Ok(Some(rate)),
            Ok(_) => message!("a rate of zero lets nothing pass"),
            Err(error) => message!("{error}"),
        }
    }
}

/// Whether an answer begins with a number and is no address.
fn is_number(answer: &str) -> bool {
    answer.starts_with(|c: char| c.is_ascii_digit()) && !answer.contains([':', '/']) && answer.matches('.').count() < 2
}

/// A rate of a line as people write it: beside the forms of a file, `20M` and `20 Mbps`, which providers mean in bits.
fn line_rate(text: &str) -> Result<LineRate, String> {
    match text.split_once('-') {
        Some((from, to)) if !from.trim().is_empty() => {
            let [from, to] =
                [provider_rate(from), provider_rate(to)].map(|rate| rate.map_err(|error| error.to_string()));
            format!("{}-{}", from?, to?).parse()
        }
        _ => provider_rate(text).map(LineRate::Constant).map_err(|error| error.to_string()),
    }
}

/// A single rate as people write it.
fn provider_rate(text: &str) -> Result<Rate, UnitError> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..at], text[at..].trim().to_ascii_lowercase());
    let prefix = ["k", "m", "g"].into_iter().find(|prefix| unit == *prefix || unit == format!("{prefix}bps"));
    match prefix {
        Some(prefix) => format!("{number}{prefix}bit").parse(),
        None => text.parse(),
    }
}

/// Prints the measured rate; returns that of the line, in three digits and never more than was measured. Of a line that `varies` the
/// bounds are a quarter of the lower quartile and twice the upper one: wide bounds cost little.
fn report(measured: &Measured, (kind, varies): (&str, bool), overhead: Option<i16>, word: &str) -> LineRate {
    let on_line = |rate: Rate| {
        let line = line::wire(kind, overhead).line_rate(rate, Bytes::new(measured.packet.into()));
        let step = 10_u64.pow(line.as_bps().checked_ilog10().unwrap_or(0).saturating_sub(2));
        Rate::from_bps(line.as_bps() / step * step)
    };
    let line = on_line(measured.rate);
    let [low, high] = measured.quartiles.map(rate);
    let steady = if measured.is_steady { "steady" } else { "NOT steady: measure again while the line is idle" };
    message!(
        "  {word}: {} of TCP content with {}, {:.1} s; half of the samples within {low} and {high}, {steady}",
        rate(measured.content),
        measured.peer,
        measured.time.as_secs_f64()
    );
    message!(
        "  that is {} in packets of {} B, and {} on a line of kind {kind}; the file uses a part of it",
        rate(measured.rate),
        measured.packet,
        rate(line)
    );
    if !varies {
        return LineRate::Constant(line);
    }
    let [low, high] = measured.quartiles;
    let found = LineRate::Varies {
        from: on_line(Rate::from_bps(low.as_bps() / 4)).max(Rate::from_kbit(100)),
        to: on_line(Rate::from_bps(high.as_bps().saturating_mul(2))).max(Rate::from_kbit(200)),
    };
    message!(
        "  a few seconds say little about a line that varies: {found}, a quarter of the lower and twice the higher of these"
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_line_may_be_written_as_providers_do() {
        for (text, mbit) in
            [("20M", 20), ("20 Mbps", 20), ("20mbps", 20), ("1g", 1_000), ("512000k", 512), ("20mbit", 20)]
        {
            assert_eq!(line_rate(text), Ok(LineRate::Constant(Rate::from_mbit(mbit))), "{text}");
        }
        assert_eq!(line_rate("1.5M"), Ok(LineRate::Constant(Rate::from_kbit(1_500))));
        assert_eq!(line_rate("2MB/s"), Ok(LineRate::Constant(Rate::from_mbit(16))));
        let varies = LineRate::Varies { from: Rate::from_mbit(1), to: Rate::from_mbit(20) };
        assert_eq!(line_rate("1M - 20 Mbps"), Ok(varies));
        for text in ["20", "20M-1M", "1M-", "none", "fast", "20 parsec", ""] {
            assert!(line_rate(text).is_err(), "{text}");
        }
    }
}
