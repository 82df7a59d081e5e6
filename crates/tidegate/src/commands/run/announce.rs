//! Reports, line by line, what was put in force at the start, and what the kernel refused.

use tidegate_config::shaper::Unattended;
use tidegate_daemon::Daemon;
use tidegate_live::nfqueue::Outcome;
use tidegate_live::rules::Direction;
use tidegate_live::shaping::{ShapedInterface, Shaping};

use super::Args;

pub(super) fn announce(daemon: &Daemon, args: &Args) {
    for direction in &daemon.directions {
        if let Some(shaping) = direction.shaping() {
            let file = daemon.file_of(direction).display().to_string();
            let by = if args.file.is_empty() { format!("the preset --{}", direction.name) } else { file };
            announce_one(shaping, &by);
        }
    }
    if let Some(path) = daemon.control_path() {
        let place = match &args.control {
            Some(path) => format!(" --control {}", path.display()),
            None => String::new(),
        };
        message!("  control socket: {}; try `tidegate status{place}` and `tidegate top{place}`", path.display());
    }
    if let Some(address) = daemon.web_address() {
        message!("  web page: http://{address}/, metrics: http://{address}/metrics");
    }
}

fn announce_one(shaping: &Shaping, by: &str) {
    let interfaces = shaping.interfaces();
    let unproven = interfaces.iter().filter(|interface| interface.proof().proven.is_empty());
    let unproven: Vec<&str> = unproven.map(ShapedInterface::name).collect();
    let state = match (unproven.len(), shaping.may_be_bypassed()) {
        (0, true) => "is in place, and a flow table may take forwarded packets past it".to_owned(),
        (0, false) => "is in force".to_owned(),
        (all, _) if all == interfaces.len() => "is installed, but no packet has come through it yet".to_owned(),
        _ => format!("is installed, but no packet of {} has come through it yet", unproven.join(" or ")),
    };
    // Below the lines about what is in force it would be overlooked.
    for warning in shaping.slower() {
        message!("warning: {warning}");
    }
    match shaping.direction() {
        Direction::Egress => message!("shaping {} by {by} {state}:", shaping.interface()),
        Direction::Ingress => message!("shaping what arrives by {}, by {by}, {state}:", shaping.interface()),
    }
    if let Some(rate) = shaping.config().limit() {
        message!("  at most {} in all", tidegate_display::rate(rate.as_bps()));
    }
    if let Some(discipline) = shaping.in_kernel() {
        let place = match shaping.direction() {
            Direction::Egress if interfaces.len() > 1 => {
                "at the root of a device of its own, to which what leaves is led"
            }
            Direction::Egress => "at the root of the interface",
            Direction::Ingress => "at the root of a device of its own, to which what arrives is led",
        };
        message!("  in the kernel: {discipline} is {place}; read back and verified");
        message!(
            "  if this process ends unexpectedly, {}",
            match shaping.config().interface.unattended {
                Unattended::Keep => "the kernel goes on shaping as configured last, and the next run takes over",
                Unattended::Pass => "packets pass unshaped after 5s",
            }
        );
    }
    if let Some(installed) = shaping.installed() {
        message!("  rules: {installed}; read back and verified");
    }
    for interface in interfaces {
        // With a single interface there is no need to name it.
        let of = if interfaces.len() > 1 { format!("{}: ", interface.name()) } else { String::new() };
        let proof = interface.proof();
        for (class, versions) in &proof.proven {
            let versions: Vec<_> = versions.iter().map(ToString::to_string).collect();
            message!("  {of}class {class}: a packet came through ({})", versions.join(", "));
        }
        for (class, why) in &proof.unprobed {
            message!("  {of}class {class}: not probed, {why}");
        }
        for (version, why) in &proof.not_carried {
            message!("  {of}{version}: not carried by this interface ({why})");
        }
        for (version, why) in &proof.awaited {
            message!(
                "  {of}{version}: not proven yet, {why}; it will be tried again, and the first packet will be reported"
            );
        }
    }
    for warning in shaping.warnings() {
        message!("  note: {warning}");
    }
    if shaping.direction() == Direction::Ingress {
        message!("  its rate must be below the line's: arriving packets have used the line already");
    }
    if let threads @ 2.. = shaping.shards() {
        message!("  {threads} threads, with the rates in common");
    }
    match (shaping.guardians().next(), shaping.unguarded()) {
        (_, Some(why)) => {
            message!(
                "  guardian: there is none ({why}); the packets that it holds are lost if this process ends unexpectedly"
            );
        }
        (Some(guardian), None) => {
            let process = guardian.process().map_or("-".into(), |process| process.to_string());
            message!("  guardian: process {process} lets packets pass if this one stops, hangs or ends");
        }
        (None, None) => {}
    }
    announce_refusals(shaping);
}

/// Reports what the system refused, and what that means.
fn announce_refusals(shaping: &Shaping) {
    let readiness = shaping.readiness();
    for (what, outcome, effect) in [
        ("real-time scheduling", &readiness.real_time, "on a busy machine rates may fall short"),
        ("exact timers", &readiness.timer_slack, "packets may leave up to 50us late"),
    ] {
        if let Outcome::Refused(why) = outcome {
            message!("  {what}: refused ({why}); {effect}");
        }
    }
    for report in shaping.queue_reports() {
        if let Outcome::Refused(why) = &report.gso {
            message!("  superpackets: refused ({why}); TCP needs more processor time");
        }
        if let Outcome::Refused(why) = &report.fail_open {
            message!("  fail-open: refused ({why}); a hung process would drop packets instead of letting them pass");
        }
    }
}
