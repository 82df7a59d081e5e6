//! sqm-scripts: `/etc/config/sqm` of OpenWrt, or `/etc/sqm/INTERFACE.iface.conf` elsewhere.

use std::collections::BTreeMap;

use super::cake::Cake;
use super::{Import, ImportError, Input, is_interface, join, kbit, quoted, unquoted};
use crate::Source;

/// A queue: its settings by the names of OpenWrt, with their lines.
#[derive(Default)]
struct Queue {
    line: usize,
    settings: BTreeMap<String, (usize, String)>,
}

impl Queue {
    fn get(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
    fn line_of(&self, name: &str) -> usize {
        self.settings.get(name).map_or(self.line, |(line, _)| *line)
    }
    fn is(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| matches!(value, "1" | "on" | "true" | "yes" | "enabled"))
    }
}

/// The names of the shell variables of a `.iface.conf`, and those of OpenWrt for the same.
const VARIABLES: [(&str, &str); 22] = [
    ("UPLINK", "upload"),
    ("DOWNLINK", "download"),
    ("SCRIPT", "script"),
    ("QDISC", "qdisc"),
    ("IFACE", "interface"),
    ("LINKLAYER", "linklayer"),
    ("OVERHEAD", "overhead"),
    ("STAB_MPU", "tcMPU"),
    ("STAB_MTU", "tcMTU"),
    ("STAB_TSIZE", "tcTSIZE"),
    ("LLAM", "linklayer_adaptation_mechanism"),
    ("ILIMIT", "ilimit"),
    ("ELIMIT", "elimit"),
    ("ITARGET", "itarget"),
    ("ETARGET", "etarget"),
    ("IECN", "ingress_ecn"),
    ("EECN", "egress_ecn"),
    ("IQDISC_OPTS", "iqdisc_opts"),
    ("EQDISC_OPTS", "eqdisc_opts"),
    ("ZERO_DSCP_INGRESS", "squash_dscp"),
    ("IGNORE_DSCP_INGRESS", "squash_ingress"),
    ("ENABLED", "enabled"),
];

/// Settings that change nothing about the shaping, or of which the value here is a matter of course.
const SILENT: [&str; 13] = [
    "interface",
    "enabled",
    "upload",
    "download",
    "qdisc_advanced",
    "qdisc_really_really_advanced",
    "linklayer_advanced",
    "debug_logging",
    "verbosity",
    "tcMTU",
    "tcTSIZE",
    "linklayer_adaptation_mechanism",
    "squash_ingress",
];

/// Imports a queue of sqm-scripts. `interface` chooses where a file has several, and names it where it has none.
///
/// # Errors
/// With the line that is at fault, and where no queue or more than one is enabled.
pub fn sqm(source: &Source, interface: Option<&str>) -> Result<Import, ImportError> {
    let mut input = Input::new(source)?;
    let is_uci = input.lines().any(|(_, line)| line.split_whitespace().next() == Some("config"));
    let queues = if is_uci { uci(&mut input)? } else { vec![shell(&mut input)?] };
    let queue = choose(&mut input, queues, interface)?;
    let name = interface.or(queue.get("interface")).map(str::to_owned);
    if let Some(name) = name.as_deref().filter(|name| !is_interface(name)) {
        let message = format!("{} is not the name of an interface", quoted(name));
        return Err(input.error(queue.line_of("interface"), message, "write another, or choose one with --interface"));
    }
    let up = direction(&mut input, &queue, name.as_deref(), Way::Up)?;
    let down = direction(&mut input, &queue, name.as_deref(), Way::Down)?;
    let Some(body) = join(up, down) else {
        return Err(input.error(queue.line, "neither upload nor download has a rate", "set one above 0, in kbit/s"));
    };
    common(&mut input, &queue);
    Ok(input.finish("sqm-scripts", &body))
}

/// Reads the sections `config queue` of a file of OpenWrt.
fn uci(input: &mut Input<'_>) -> Result<Vec<Queue>, ImportError> {
    let mut queues: Vec<Queue> = Vec::new();
    let mut is_queue = false;
    for (at, line) in input.lines() {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "config" => {
                is_queue = rest.split_whitespace().next().map(unquoted) == Some("queue");
                if is_queue {
                    queues.push(Queue { line: at, ..Queue::default() });
                } else {
                    input.leave(at, format!("the section {}: it is not a queue", quoted(rest)));
                }
            }
            "option" | "list" => {
                let Some((name, value)) = rest.trim().split_once(char::is_whitespace) else {
                    return Err(input.error(at, "an option without a value", "write: option NAME 'VALUE'"));
                };
                if queues.is_empty() {
                    return Err(input.error(at, "an option before the first queue", "is it /etc/config/sqm?"));
                }
                if let Some(queue) = queues.last_mut().filter(|_| is_queue) {
                    queue.settings.insert(unquoted(name).to_owned(), (at, unquoted(value).to_owned()));
                }
            }
            "" | "package" => {}
            word if word.starts_with('#') => {}
            word => {
                let message = format!("{} does not begin a line of this file", quoted(word));
                return Err(input.error(at, message, "lines begin with `config` or `option`"));
            }
        }
    }
    Ok(queues)
}

/// Reads the variables of a `.iface.conf`. It is a shell script; only assignments are read, and nothing is executed.
fn shell(input: &mut Input<'_>) -> Result<Queue, ImportError> {
    let mut queue = Queue { line: 1, ..Queue::default() };
    let mut is_any = false;
    for (at, line) in input.lines() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            let message = format!("{} is no assignment", quoted(line));
            return Err(input.error(at, message, "lines are NAME=VALUE; is it a file of sqm-scripts?"));
        };
        // A comment after the value.
        let value = if value.starts_with(['"', '\'']) { value } else { value.split(" #").next().unwrap_or(value) };
        let value = unquoted(value);
        if value.contains(['$', '`']) {
            let message = format!("{name}: the value is computed by the shell, which is not run");
            return Err(input.error(at, message, "write the value itself"));
        }
        match VARIABLES.iter().find(|(variable, _)| *variable == name) {
            Some((_, setting)) => {
                is_any = true;
                queue.settings.insert((*setting).to_owned(), (at, value.to_owned()));
            }
            None => input.leave(at, format!("{}: not a setting that is known here", quoted(name))),
        }
    }
    if !is_any {
        return Err(input.whole("it has no setting of sqm-scripts", "name /etc/config/sqm or /etc/sqm/*.iface.conf"));
    }
    // A file for an interface is used unless it is disabled.
    queue.settings.entry("enabled".into()).or_insert_with(|| (1, "1".into()));
    Ok(queue)
}

/// The queue to import: the only one that is enabled, or that of `interface`.
fn choose(input: &mut Input<'_>, queues: Vec<Queue>, interface: Option<&str>) -> Result<Queue, ImportError> {
    let several = queues.len() > 1;
    let is_meant = |queue: &Queue| !several || interface.is_none_or(|name| queue.get("interface") == Some(name));
    let (meant, others): (Vec<_>, Vec<_>) = queues.into_iter().partition(is_meant);
    let (mut on, off): (Vec<_>, Vec<_>) = meant.into_iter().partition(|queue| queue.is("enabled"));
    let names = |queues: &[Queue]| {
        let names = queues.iter().filter_map(|queue| queue.get("interface")).map(quoted);
        names.collect::<Vec<_>>().join(", ")
    };
    if on.len() > 1 {
        let message = format!("several queues are enabled: {}", names(&on));
        return Err(input.error(on[1].line, message, "import each into a file of its own, with --interface"));
    }
    for queue in &others {
        input.leave(queue.line, "another queue: import it into a file of its own, with --interface");
    }
    match on.pop() {
        Some(queue) => {
            for queue in &off {
                input.leave(queue.line, "a queue that is not enabled");
            }
            Ok(queue)
        }
        // Someone who asks for it means it.
        None => match off.into_iter().next() {
            Some(queue) => {
                let text = "the queue is not enabled; it is imported as if it were";
                input.leave(queue.line_of("enabled"), text);
                Ok(queue)
            }
            None => Err(input.whole("there is no queue to import", "name the interface of one, or another file")),
        },
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// The file of a direction; `None` where it is not shaped.
fn direction(
    input: &mut Input<'_>,
    queue: &Queue,
    name: Option<&str>,
    way: Way,
) -> Result<Option<String>, ImportError> {
    let (rate, options, ecn, word) = match way {
        Way::Up => ("upload", "eqdisc_opts", "egress_ecn", "egress"),
        Way::Down => ("download", "iqdisc_opts", "ingress_ecn", "ingress"),
    };
    let Some(text) = queue.get(rate) else { return Ok(None) };
    let Some(value) = kbit(text) else {
        let message = format!("{} is not a rate", quoted(text));
        return Err(input.error(queue.line_of(rate), message, format!("write {rate} in kbit/s, 0 to leave it alone")));
    };
    if value.is_zero() {
        return Ok(None);
    }
    let mut cake = Cake { rate: Some(value), ..Cake::new() };
    cake.tins = match queue.get("script") {
        Some("layer_cake.qos" | "simple.qos") => "diffserv3",
        _ => "besteffort",
    };
    // Arriving code points are those of strangers, and ignored unless that is switched off.
    if way == Way::Down && queue.get("squash_ingress").is_none_or(|value| value != "0") {
        cake.tins = "besteffort";
    }
    line_layer(input, queue, &mut cake)?;
    if let Some(text) = queue.get(options) {
        let (line, text) = (queue.line_of(options), text.to_owned());
        cake.options(text.split_whitespace(), line, input)?;
        // The script sets the rate, whatever the options say.
        cake.rate = Some(value);
    }
    cake.drops = queue.get(ecn) == Some("NOECN");
    Ok(Some(cake.file(name, word)))
}

/// The overhead of the line for each packet.
fn line_layer(input: &Input<'_>, queue: &Queue, cake: &mut Cake) -> Result<(), ImportError> {
    let layer = queue.get("linklayer").unwrap_or("none");
    if matches!(layer, "none") {
        return Ok(());
    }
    cake.framing = match layer {
        "atm" | "adsl" => "atm",
        "ptm" | "ptm_ethernet" => "ptm",
        _ => "none",
    };
    for (name, target) in [("overhead", &mut cake.overhead), ("tcMPU", &mut cake.least)] {
        if let Some(text) = queue.get(name) {
            let number = text.parse().ok().filter(|number| *number <= 256);
            *target = number.ok_or_else(|| {
                input.error(queue.line_of(name), format!("{} is not a number of bytes", quoted(text)), "write 0 to 256")
            })?;
        }
    }
    Ok(())
}

/// Lists the settings that were not carried over.
fn common(input: &mut Input<'_>, queue: &Queue) {
    for (name, (line, value)) in &queue.settings {
        let (line, said) = (*line, quoted(value));
        match (name.as_str(), value.as_str()) {
            (name, _) if SILENT.contains(&name) => {}
            (_, "" | "auto" | "default") => {}
            ("script", "piece_of_cake.qos" | "layer_cake.qos") => {}
            ("script", "simple.qos" | "simplest.qos" | "simplest_tbf.qos") => {
                input
                    .leave(line, format!("script {said}: its HTB with one discipline for each class becomes one CAKE"));
            }
            ("script", _) => input.leave(line, format!("script {said}: not one of sqm-scripts; a plain CAKE is used")),
            ("qdisc", "cake") => {}
            ("qdisc", _) => {
                input.leave(line, format!("qdisc {said}: flows are queued by CAKE, which has COBALT as AQM"))
            }
            ("ilimit" | "elimit", _) => input.leave(line, format!("{name} {said}: CAKE limits bytes, by its rate")),
            ("itarget" | "etarget", _) => input.leave(line, format!("{name} {said}: CAKE sets it by its rate")),
            ("squash_dscp", "1") => input.leave(line, "squash_dscp: arriving code points are ignored, not cleared"),
            ("squash_dscp", _) => {}
            ("iqdisc_opts" | "eqdisc_opts" | "ingress_ecn" | "egress_ecn", _) => {}
            ("linklayer" | "overhead" | "tcMPU", _) => {}
            ("use_mq", "0") => {}
            _ => input.leave(line, format!("{} {said}: not a setting that is known here", quoted(name))),
        }
    }
}
