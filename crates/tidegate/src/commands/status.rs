//! `tidegate status`: the configuration in force, and its counts so far.

use std::io::Write;
use std::time::{Duration, Instant};

use tidegate_control::Status;
use tidegate_control::calls::{
    ClassStatus, DirectionObservation, DirectionStatus, Flows, FollowStatus, GuardianStatus, InForce, InterfaceStatus,
    NameStatus, Observation, PrivilegeStatus,
};
use tidegate_control::view::{ClassQuantity, ShapingState, Shown, Value};
use tidegate_units::Rate;

use crate::Failure;
use crate::commands::connect::Connect;
use crate::commands::top::{coupled, hosts, show};
use crate::output::{self, width};

pub mod last_words;
mod rules;
mod sharing;

/// Show what running tidegates do: their classes, rates, queues, drops and waits
///
/// It answers within two seconds. Of a tidegate that was killed or does not answer it shows the last words, and what its
/// guardian does.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    connect: Connect,
    /// Print the replies of the control socket as JSON, with hosts; as a list where several tidegates are running
    #[arg(long)]
    json: bool,
    /// Print the shaper file that is in force instead, with every change since the start
    #[arg(long, conflicts_with = "json")]
    file: bool,
    /// Print the rules instead, with the packets and bytes that each has matched since the start; with --json as well
    #[arg(long, conflicts_with = "file")]
    rules: bool,
    /// The direction whose file is printed: up or down; with several files an interface, or wan0.up
    #[arg(long, value_name = "NAME", requires = "file")]
    direction: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut out = output::stdout();
    if args.file {
        let mut client = args.connect.open()?;
        client.set_limit(LIMIT);
        let text = client.in_force(&InForce { direction: args.direction.clone() })?;
        write!(out, "{text}")?;
        return Ok(());
    }
    let begun = Instant::now();
    let left = || LIMIT.saturating_sub(begun.elapsed()).max(Duration::from_millis(50));
    let asked = args.connect.ask_all(LIMIT / 2, |client| {
        client.set_limit(left());
        let status = client.status()?;
        client.set_limit(left());
        // Hosts and lines are left out where flows are not counted or the data path is busy.
        Ok((status, client.flows(&Flows { limit: Some(1), ..Flows::default() }).ok()))
    })?;
    let (mut all, mut silent) = (Vec::new(), Vec::new());
    for (path, outcome) in asked {
        match outcome {
            Ok(answer) => all.push(answer),
            Err(error) => silent.push(last_words::describe(&path, &error)),
        }
    }
    if all.is_empty() {
        return Err(Failure::Failed(silent.join("\n")));
    }
    silent.iter().for_each(|text| message!("tidegate: {text}"));
    if args.json {
        let each: Vec<serde_json::Value> = all
            .iter()
            .map(|(status, seen)| match args.rules {
                true => rules::json(status, seen.as_ref()),
                false => json(status, seen.as_ref()),
            })
            .collect::<Result<_, _>>()?;
        let text = match &each[..] {
            [one] => serde_json::to_string_pretty(one),
            several => serde_json::to_string_pretty(several),
        };
        writeln!(out, "{}", text.map_err(|error| Failure::Failed(error.to_string()))?)?;
        return Ok(());
    }
    let mut text = Vec::new();
    for (number, (status, seen)) in all.iter().enumerate() {
        if number > 0 {
            writeln!(text)?;
        }
        match (args.rules, seen) {
            (false, seen) => print(&mut text, status, seen.as_ref(), width())?,
            (true, Some(seen)) => rules::print(&mut text, status, seen, width())?,
            (true, None) => writeln!(text, "{}", rules::silent(status))?,
        }
    }
    drop(out);
    output::print(&String::from_utf8_lossy(&text))?;
    let flows = "`tidegate top` shows flows, with --hosts hosts";
    if cfg!(feature = "lab") {
        output::hint(&format!("{flows}; `tidegate explain --live --source ADDRESS` why packets wait"));
    } else {
        output::hint(flows);
    }
    Ok(())
}

/// How long all daemons have together, to connect and to reply: with the rest of the command less than two seconds.
const LIMIT: Duration = Duration::from_millis(1_800);

/// The guardian of a direction as text, and whether there is one; `None` while it is being started.
pub fn guardian_text(guardian: &GuardianStatus) -> Option<(String, bool)> {
    match guardian {
        GuardianStatus { missing: Some(why), .. } => Some((format!("there is no guardian, {why}"), false)),
        GuardianStatus { pid: Some(pid), takeovers, passed_packets, .. } => {
            let often = match takeovers {
                0 => String::new(),
                1 => format!("; let packets pass once, {passed_packets} of them"),
                n => format!("; let packets pass {n} times, {passed_packets} of them"),
            };
            Some((format!("guardian, process {pid}{often}"), true))
        }
        _ => None,
    }
}

/// The reply of the socket, with the `rules`, the `line` and the `answer` of each direction and the `hosts`, where they were observed.
fn json(status: &Status, seen: Option<&Observation>) -> Result<serde_json::Value, Failure> {
    let value = |part: serde_json::Result<serde_json::Value>| part.map_err(|error| Failure::Failed(error.to_string()));
    let mut object = value(serde_json::to_value(status))?;
    let Some(seen) = seen else { return Ok(object) };
    for (direction, known) in status.directions.iter().enumerate() {
        if let Some(observed) = seen.direction(&known.name) {
            object["directions"][direction]["rules"] = value(serde_json::to_value(&observed.rules))?;
            object["directions"][direction]["line"] = value(serde_json::to_value(observed.line))?;
            object["directions"][direction]["answer"] = value(serde_json::to_value(&observed.answer))?;
        }
    }
    object["hosts"] = value(serde_json::to_value(&seen.hosts))?;
    Ok(object)
}

fn print(
    out: &mut impl Write,
    status: &Status,
    seen: Option<&Observation>,
    width: Option<usize>,
) -> Result<(), Failure> {
    // First whether it is good; without shaping the next line says why it is not.
    for line in seen.filter(|_| status.in_force).map(show::answers).unwrap_or_default() {
        writeln!(out, "{line}")?;
    }
    head(out, status)?;
    for direction in &status.directions {
        let observed = seen.and_then(|seen| seen.direction(&direction.name));
        print_direction(out, direction, observed, status.directions.len() > 1)?;
        rules::quotas(out, direction, &status.directions)?;
        let classes: Vec<Row> = direction.classes.iter().map(|class| lately(class, observed)).collect();
        let table = output::table(&CLASSES, &classes, output::shown)
            .if_any(["now", "held by", "at-most", "host-at-most", "flow-at-most"])
            .optional([
                "bytes",
                "marked",
                "wait p50",
                "flow-at-most",
                "host-at-most",
                "unpromised",
                "at-most",
                "flows",
                "packets",
            ])
            .shorten("class", 12);
        write!(out, "{}", table.text(width))?;
        write!(
            out,
            "{}",
            coupled::text(classes.iter().map(|row| (row.class.name.as_str(), row.class.coupled.as_ref())), width)
        )?;
        if !direction.shared_classes.is_empty() {
            writeln!(out, "{}: sharing of the link", direction.name)?;
            write!(out, "{}", sharing::table(&direction.shared_classes).text(width))?;
        }
    }
    // With a single host the table of classes has everything.
    if let Some(seen) = seen.filter(|seen| seen.hosts.len() > 1) {
        writeln!(out, "hosts, the fastest first:")?;
        hosts::table(out, seen, &seen.hosts[..seen.hosts.len().min(HOSTS)], width)?;
        if seen.hosts.len() > HOSTS {
            writeln!(out, "and more; `tidegate top --hosts` shows them")?;
        }
    }
    Ok(())
}

/// The lines about the daemon itself.
fn head(out: &mut impl Write, status: &Status) -> Result<(), Failure> {
    let uptime = status.uptime.as_nanos() / 1_000_000_000;
    writeln!(
        out,
        "{}: shaping{} {}, for {}:{:02}:{:02}, process {}, {} client{}",
        status.interface,
        // No file: a preset or standard input.
        if status.file == "-" { String::new() } else { format!(" by {}", status.file) },
        match status.state() {
            ShapingState::Waiting => "waits for the interface, which is gone",
            ShapingState::Down => "is in force, but the interface is down",
            ShapingState::Unproven => "is installed, but no packet has come through it yet",
            ShapingState::InForce => "is in force",
            ShapingState::NotInForce => "is NOT in force",
        },
        uptime / 3600,
        uptime / 60 % 60,
        uptime % 60,
        status.pid,
        status.control.clients,
        if status.control.clients == 1 { "" } else { "s" },
    )?;
    if let Some(trouble) = &status.trouble {
        writeln!(out, "trouble: {trouble}")?;
    }
    if let Some(trial) = status.trial {
        let seconds = trial.as_nanos().div_ceil(1_000_000_000);
        writeln!(out, "a change is on trial for another {seconds} s; `tidegate confirm` keeps it")?;
    }
    if let Some(privileges) = &status.privileges {
        writeln!(out, "privileges: {}", privileges_text(privileges))?;
    }
    Ok(())
}

/// The lines above the classes of a direction, which is one of `several`.
fn print_direction(
    out: &mut impl Write,
    direction: &DirectionStatus,
    observed: Option<&DirectionObservation>,
    several: bool,
) -> Result<(), Failure> {
    match direction.rate {
        Some(rate) => writeln!(out, "{}: {} in total", direction.name, show::rate(rate))?,
        // A single table needs no name.
        None if several => writeln!(out, "{}:", direction.name)?,
        None => {}
    }
    if let Some(observed) = observed {
        writeln!(out, "{}: now {}", direction.name, show::line(observed))?;
    }
    if let Some(follow) = &direction.follow {
        let FollowStatus { least, most, changes, reason, .. } = follow;
        let (least, most) = (show::rate(*least), show::rate(*most));
        writeln!(out, "{}: between {least} and {most}, {changes} changes; last: {reason}", direction.name)?;
    }
    // With a single interface the table of classes has everything.
    for interface in direction.interfaces.iter().filter(|_| direction.interfaces.len() > 1) {
        let InterfaceStatus { name, present, down, sent_packets, sent_bytes, dropped_packets } = interface;
        let absent = match (present, down) {
            (false, _) => "; it is not there now",
            (true, true) => "; it is down",
            (true, false) => "",
        };
        writeln!(
            out,
            "{}: of {name} {sent_packets} packets, {}, {dropped_packets} dropped{absent}",
            direction.name,
            tidegate_display::bytes(sent_bytes.as_u64()),
        )?;
    }
    for unproven in &direction.unproven {
        writeln!(out, "{}: not proven yet, {unproven}", direction.name)?;
    }
    for unshaped in &direction.unshaped {
        writeln!(out, "{}: {unshaped}", direction.name)?;
    }
    for rule in &direction.timed_rules {
        writeln!(out, "{}: {rule}", direction.name)?;
    }
    for NameStatus { rule, key, name, addresses } in &direction.names {
        let listed = output::addresses(addresses);
        writeln!(out, "{}: rule {rule}, {key} {name} {listed}", direction.name)?;
    }
    if direction.kernel_dropped_packets > 0 {
        writeln!(
            out,
            "{}: {} packets that waited were dropped by the kernel, because a chain of the packet filter, the interface or \
             their route was removed",
            direction.name, direction.kernel_dropped_packets
        )?;
    }
    for class in direction.classes.iter().filter(|class| class.advised_packets > 0) {
        let (packets, name) = (class.advised_packets, &class.name);
        writeln!(out, "{}: class {name} wrote its advice into {packets} datagrams of QUIC", direction.name)?;
    }
    if let Some(discipline) = &direction.in_kernel {
        let place = match (direction.name.ends_with("down"), direction.interfaces.len()) {
            (true, _) => "a device for what arrives",
            (false, 2..) => "a device for what leaves by them",
            (false, _) => "the interface",
        };
        writeln!(out, "{}: in the kernel, {discipline} at the root of {place}", direction.name)?;
    }
    if direction.awaits_kernel {
        writeln!(
            out,
            "{}: the kernel path is being loaded; packets are queued in user space until then",
            direction.name
        )?;
    }
    if let Some((text, _)) = direction.guardian.as_ref().and_then(guardian_text) {
        writeln!(out, "{}: {text}", direction.name)?;
    }
    Ok(())
}

/// A class, and its rate in the last second where it was observed.
struct Row {
    class: ClassStatus,
    rate: Option<Rate>,
}

impl Shown<ClassQuantity> for Row {
    fn value(&self, quantity: ClassQuantity) -> Value<'_> {
        match quantity {
            ClassQuantity::Rate => Value::Rate(self.rate),
            quantity => self.class.value(quantity),
        }
    }
}

/// The class with the rate and the waits of the last second, as `top` and the page show them. Waits since the start would be of times
/// long gone.
fn lately(class: &ClassStatus, seen: Option<&DirectionObservation>) -> Row {
    let seen = seen.and_then(|seen| seen.classes.iter().find(|seen| seen.name == class.name));
    let [wait_p50, wait_p99] = seen.map_or([class.wait_p50, class.wait_p99], |seen| [seen.wait.p50, seen.wait.p99]);
    let coupled = seen.and_then(|seen| seen.coupled.clone()).or_else(|| class.coupled.clone());
    Row { class: ClassStatus { wait_p50, wait_p99, coupled, ..class.clone() }, rate: seen.map(|seen| seen.rate) }
}

const CLASSES: [(&str, ClassQuantity); 16] = [
    ("class", ClassQuantity::Name),
    (">now", ClassQuantity::Rate),
    (">promised", ClassQuantity::Promised),
    (">at-most", ClassQuantity::AtMost),
    (">host-at-most", ClassQuantity::HostAtMost),
    (">flow-at-most", ClassQuantity::FlowAtMost),
    (">unpromised", ClassQuantity::Unpromised),
    (">flows", ClassQuantity::Flows),
    (">packets", ClassQuantity::SentPackets),
    (">bytes", ClassQuantity::SentBytes),
    (">queue", ClassQuantity::Queue),
    ("held by", ClassQuantity::HeldBy),
    (">dropped", ClassQuantity::Dropped),
    (">marked", ClassQuantity::Marked),
    (">wait p50", ClassQuantity::WaitP50),
    (">wait p99", ClassQuantity::WaitP99),
];

/// The maximum number of hosts in the output.
const HOSTS: usize = 10;

/// The privileges of a process, in a line.
pub fn privileges_text(privileges: &PrivilegeStatus) -> String {
    let capabilities = match privileges.capabilities.as_slice() {
        [] => "no capability".to_owned(),
        some => some.join(", "),
    };
    let filtered = if privileges.filtered { "system calls are filtered" } else { "system calls are NOT filtered" };
    match privileges.no_new_privs {
        true => format!("{capabilities}; none is gained (no_new_privs); {filtered}"),
        false => format!("{capabilities}; more CAN be gained by running programs; {filtered}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fits_the_terminal() {
        let (status, seen) = crate::snapshots::gateway();
        crate::snapshots::check("status", |columns| {
            let mut out = Vec::new();
            print(&mut out, &status, Some(&seen), Some(columns.into())).unwrap();
            output::broken(std::str::from_utf8(&out).unwrap(), columns.into())
        });
    }

    #[test]
    fn each_of_two_directions_has_its_name() {
        let direction = |name: &str, rate: Option<u64>| {
            let mut class = serde_json::json!({
                "name": "all", "enqueued_packets": 0, "enqueued_bytes": 0, "through_packets": 0, "through_bytes": 0,
                "queue_packets": 0, "queue_bytes": 0, "dropped": [], "marked_packets": 0, "remarked_packets": 0,
                "wait_p50_ns": 0, "wait_p99_ns": 0,
            });
            if name == "bounded" {
                class["flow_at_most_bps"] = 3_000_000.into();
            }
            serde_json::json!({ "name": name, "rate_bps": rate, "classes": [class] })
        };
        let shown = |directions: &[serde_json::Value]| {
            let status = serde_json::json!({
                "version": "1", "pid": 1, "interface": "eth0", "file": "-", "uptime_ns": 0, "in_force": true,
                "directions": directions,
                "control": { "clients": 1, "subscriptions": 0, "requests": 0, "refused": 0, "cut": 0, "pushes": 0, "lost": 0 },
            });
            let mut out = Vec::new();
            print(&mut out, &serde_json::from_value(status).unwrap(), None, None).unwrap();
            String::from_utf8(out).unwrap()
        };
        // As `tidegate run --up 20mbit --down 100mbit` has them: disciplines, without a total.
        let both = shown(&[direction("up", None), direction("down", None)]);
        assert!(both.contains("\nup:\n") && both.contains("\ndown:\n"), "{both}");
        assert!(!shown(&[direction("up", None)]).contains("up:"));
        // A ceiling is a column where some class has one.
        let bounded = shown(&[direction("bounded", None)]);
        assert!(bounded.contains("flow-at-most") && bounded.contains("3.00 Mbit/s"), "{bounded}");
        assert!(!bounded.contains("host-at-most") && !both.contains("at-most"), "{bounded}{both}");
        assert!(shown(&[direction("up", Some(1_000_000))]).contains("\nup: 1.00 Mbit/s in total\n"));
    }
}
