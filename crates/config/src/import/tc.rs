//! The queueing disciplines, classes and filters that `tc` shows: a root of HTB, CAKE, TBF or one of the queues.

mod filter;
mod queue;
mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tidegate_core::{Bytes, Rate, Span};

use super::cake::{Cake, behind_ifb};
use super::quantity::{rate, size};
use super::{Import, ImportError, Input, interface as heading, is_interface, quoted, toml};
use crate::Source;
use read::{Kind, Record};

/// The most classes of a tree that are imported: HTB here has room for them all, and a tree of `tc` rarely has more.
const MOST_CLASSES: usize = 1_000;
/// The most filters that are imported.
const MOST_FILTERS: usize = 4_000;

/// Imports what `tc qdisc show`, `tc class show` and `tc filter show` print, one after the other, as text or as JSON
/// (`-j`). `interface` chooses the interface where several are shown, and names it where none is.
///
/// # Errors
/// With the line that is at fault; and where there is no root that has a counterpart.
pub fn tc(source: &Source, interface: Option<&str>) -> Result<Import, ImportError> {
    let mut input = Input::new(source)?;
    let records = read::records(&input)?;
    let count = |kind| records.iter().filter(|record| record.what == kind).count();
    if count(Kind::Class) > MOST_CLASSES || count(Kind::Filter) > MOST_FILTERS {
        let message = format!("more than {MOST_CLASSES} classes or {MOST_FILTERS} filters");
        return Err(input.whole(message, "import a part of them, and write rules for networks instead of hosts"));
    }
    let root = root(&input, &records, interface)?;
    let device = interface.or(root.device.as_deref());
    if let Some(name) = device.filter(|name| !is_interface(name)) {
        return Err(input.error(
            root.line,
            format!("{} is not the name of an interface", quoted(name)),
            "choose another",
        ));
    }
    let arrives = device.and_then(behind_ifb);
    let direction = if arrives.is_some() { "ingress" } else { "egress" };
    if arrives.is_some() {
        input.leave(root.line, "the redirection to the ifb device: what arrives is taken at the interface itself");
    }
    let of_device = |record: &&Record| record.device.is_none() || record.device == root.device;
    let records: Vec<&Record> = records.iter().filter(of_device).collect();
    let mut body = heading(arrives.or(device), direction);
    body.push_str("\n[discipline]\n");
    match root.kind.as_str() {
        "htb" => body.push_str(&htb(&mut input, root, &records)?),
        "cake" => {
            let mut cake = Cake::new();
            cake.options(root.words(), root.line, &mut input)?;
            body.push_str(&cake.keys());
        }
        "tbf" => body.push_str(&tbf(&mut input, root)?),
        _ => {
            let queue = queue::keys(&mut input, root)?.ok_or_else(|| no_counterpart(&input, root))?;
            input.leave(root.line, "no rate: it queues, and something else must shape");
            body.push_str(&queue.join("\n"));
            body.push('\n');
        }
    }
    for record in records.iter().filter(|record| record.what == Kind::Qdisc && record.id == "ffff:") {
        let text = format!("{}: what arrives; shape it by [down], see `tidegate book import`", quoted(&record.kind));
        input.leave(record.line, text);
    }
    Ok(input.finish("what `tc` shows", &body))
}

fn no_counterpart(input: &Input<'_>, root: &Record) -> ImportError {
    let message = format!("the root is {}, which is not imported", quoted(&root.kind));
    input.error(
        root.line,
        message,
        "htb, cake, tbf, fq_codel, codel, pie, sfq, pfifo and bfifo are; write a file for it",
    )
}

/// The root of the device, or of the only one that has a root of its own.
fn root<'r>(input: &Input<'_>, records: &'r [Record], device: Option<&str>) -> Result<&'r Record, ImportError> {
    const PLAIN: [&str; 4] = ["noqueue", "mq", "pfifo_fast", "fq"];
    let roots: Vec<&Record> = records.iter().filter(|record| record.what == Kind::Qdisc && record.is_root()).collect();
    let is_named = roots.iter().any(|root| root.device.is_some());
    let wanted = |root: &&&Record| device.is_none_or(|name| !is_named || root.device.as_deref() == Some(name));
    let all: Vec<&Record> = roots.iter().filter(wanted).copied().collect();
    let set: Vec<&Record> = all.iter().filter(|root| !PLAIN.contains(&root.kind.as_str())).copied().collect();
    match (&set[..], &all[..]) {
        ([root], _) => Ok(*root),
        ([], []) if roots.is_empty() => {
            let help = "give the output of `tc qdisc show dev NAME; tc class show dev NAME; tc filter show dev NAME`";
            Err(input.whole("there is no root queueing discipline", help))
        }
        ([], []) => Err(input.whole("the interface is not among those that are shown", "name another by --interface")),
        ([], [root, ..]) => {
            let message = format!("the root is {}: nothing is shaped there", quoted(&root.kind));
            Err(input.error(root.line, message, "`tidegate setup` begins from nothing"))
        }
        ([_, second, ..], _) => {
            let names: Vec<String> = set.iter().filter_map(|root| root.device.as_deref()).map(quoted).collect();
            let message = format!("several interfaces have a root of their own: {}", names.join(", "));
            Err(input.error(second.line, message, "choose one with --interface"))
        }
    }
}

/// A class of an HTB tree.
struct Class<'r> {
    record: &'r Record,
    rate: Rate,
    ceil: Rate,
}

/// The keys of an HTB, its classes and rules.
fn htb(input: &mut Input<'_>, root: &Record, records: &[&Record]) -> Result<String, ImportError> {
    let mut classes = Vec::new();
    let mut known = BTreeSet::new();
    for record in records.iter().filter(|record| record.what == Kind::Class && record.kind == "htb") {
        let value = |name: &str| match record.get(name) {
            None => Ok(None),
            Some(text) => rate(text).map(Some).ok_or_else(|| cannot_read(input, record, name, text)),
        };
        let rate = value("rate")?.filter(|rate| !rate.is_zero()).ok_or_else(|| {
            let message = format!("the class {} has no rate", quoted(&record.id));
            input.error(record.line, message, "is this the output of `tc class show`?")
        })?;
        let ceil = value("ceil")?.unwrap_or(rate).max(rate);
        if known.insert(record.id.as_str()) {
            classes.push(Class { record, rate, ceil });
        }
    }
    if classes.is_empty() {
        let help = "add the output of `tc class show dev NAME`";
        return Err(input.error(root.line, "the HTB has no classes", help));
    }
    for class in &classes {
        let parent = class.record.parent.as_str();
        if !parent.is_empty() && !parent.ends_with(':') && !known.contains(parent) {
            let message =
                format!("the class {} is below {}, which is not shown", quoted(&class.record.id), quoted(parent));
            return Err(input.error(class.record.line, message, "give the output of `tc class show` as a whole"));
        }
    }
    let inner: BTreeSet<&str> = classes.iter().map(|class| class.record.parent.as_str()).collect();
    let leaves: Vec<&Class<'_>> = classes.iter().filter(|class| !inner.contains(class.record.id.as_str())).collect();
    let names: BTreeSet<&str> = leaves.iter().map(|class| class.record.id.as_str()).collect();
    let (rules, last) = filter::rules(input, root, records, &names);
    let default = last.unwrap_or_else(|| default_class(input, root, &leaves));
    let mut text = format!("kind = \"htb\"\ndefault = {}\n", toml(&default));
    let queues: BTreeMap<&str, &Record> = records
        .iter()
        .filter(|record| record.what == Kind::Qdisc && !record.is_root())
        .map(|record| (record.parent.as_str(), *record))
        .collect();
    for class in &classes {
        let is_leaf = names.contains(class.record.id.as_str());
        let queue = queues.get(class.record.id.as_str()).filter(|_| is_leaf).copied();
        text.push_str(&section(input, class, queue)?);
    }
    for record in records.iter().filter(|record| record.what == Kind::Class && record.kind != "htb") {
        input.leave(record.line, format!("the class {} of {}", quoted(&record.id), quoted(&record.kind)));
    }
    text.push_str(&rules);
    Ok(text)
}

/// The class of packets that no filter matches. The kernel sends them past HTB where there is none; that is not possible
/// here, so that they go last.
fn default_class(input: &mut Input<'_>, root: &Record, leaves: &[&Class<'_>]) -> String {
    let written = root.get("default").and_then(|text| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let (major, _) = root.id.split_once(':')?;
        Some(format!("{major}:{}", digits.trim_start_matches('0')))
    });
    let is_leaf = |name: &String| leaves.iter().any(|class| class.record.id == *name);
    if let Some(name) = written.filter(is_leaf) {
        return name;
    }
    let priority =
        |class: &&&Class<'_>| class.record.get("prio").and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let last = leaves.iter().max_by_key(priority).map_or_else(String::new, |class| class.record.id.clone());
    let text = format!("packets that no filter matches went past the HTB unshaped; here they go to {}", quoted(&last));
    input.leave(root.line, text);
    last
}

/// The section of a class with its queue.
fn section(input: &mut Input<'_>, class: &Class<'_>, queue: Option<&Record>) -> Result<String, ImportError> {
    let Class { record, rate, ceil } = class;
    let mut text = format!("\n[[discipline.class]]\nname = {}\n", toml(&record.id));
    if !record.parent.is_empty() && !record.parent.ends_with(':') {
        let _ = writeln!(text, "parent = {}", toml(&record.parent));
    }
    let _ = writeln!(text, "rate = \"{rate}\"");
    if ceil != rate {
        let _ = writeln!(text, "ceil = \"{ceil}\"");
    }
    if let Some(priority) = record.get("prio").filter(|text| *text != "0") {
        let number = priority.parse::<u8>().ok().filter(|number| *number < 8);
        let number = number.ok_or_else(|| cannot_read(input, record, "prio", priority))?;
        let _ = writeln!(text, "priority = {number}");
    }
    for (name, key, of) in [("burst", "burst", rate), ("cburst", "cburst", ceil)] {
        let Some(value) = record.get(name) else { continue };
        // With `-d` the cells of the rate table follow.
        let bytes =
            size(value.split('/').next().unwrap_or(value)).ok_or_else(|| cannot_read(input, record, name, value))?;
        // The kernel's timers are finer than those of a process: what is below the default here would cost rate.
        if bytes > of.bytes_in_floor(Span::from_millis(1)) + Bytes::new(1_600) {
            let _ = writeln!(text, "{key} = \"{}B\"", bytes.as_u64());
        }
    }
    if let Some(value) = record.get("quantum") {
        let bytes = size(value).filter(|bytes| *bytes >= Bytes::new(1_000) && *bytes <= Bytes::new(200_000));
        match bytes {
            Some(bytes) => text.push_str(&format!("quantum = \"{}B\"\n", bytes.as_u64())),
            None => input.leave(record.line, format!("quantum {} of class {}", quoted(value), quoted(&record.id))),
        }
    }
    for name in ["overhead", "mpu"] {
        if let Some(value) = record.get(name).filter(|value| !matches!(*value, "0" | "0b")) {
            let text = format!(
                "{name} {} of class {}: `overhead` of [interface] counts for all",
                quoted(value),
                quoted(&record.id)
            );
            input.leave(record.line, text);
        }
    }
    if let Some(queue) = queue {
        match queue::keys(input, queue)? {
            Some(keys) => text.push_str(&format!("queue = {{ {} }}\n", keys.join(", "))),
            None => {
                let text = format!(
                    "the {} of class {}: not imported, a FIFO takes its place",
                    quoted(&queue.kind),
                    quoted(&record.id)
                );
                input.leave(queue.line, text);
            }
        }
    }
    Ok(text)
}

fn cannot_read(input: &Input<'_>, record: &Record, name: &str, text: &str) -> ImportError {
    input.error(record.line, format!("{} is no value of `{name}`", quoted(text)), "give the output of `tc` as it is")
}

/// A token bucket becomes an HTB of one class.
fn tbf(input: &mut Input<'_>, root: &Record) -> Result<String, ImportError> {
    let text = root.get("rate").unwrap_or_default();
    let value = rate(text).filter(|rate| !rate.is_zero()).ok_or_else(|| cannot_read(input, root, "rate", text))?;
    let mut body =
        format!("kind = \"htb\"\ndefault = \"all\"\n\n[[discipline.class]]\nname = \"all\"\nrate = \"{value}\"\n");
    if let Some(bytes) = root.get("burst").and_then(size)
        && bytes > value.bytes_in_floor(Span::from_millis(1)) + Bytes::new(1_600)
    {
        let _ = writeln!(body, "burst = \"{}B\"", bytes.as_u64());
    }
    let by_time = root.get("lat").and_then(super::quantity::time).map(|time| value.bytes_in_floor(time));
    if let Some(limit) = root.get("limit").and_then(size).or(by_time).filter(|limit| *limit >= Bytes::new(1_500)) {
        let _ = writeln!(body, "queue = {{ kind = \"fifo\", limit = \"{}B\" }}", limit.as_u64());
    }
    for name in ["peakrate", "overhead"] {
        if let Some(value) = root.get(name) {
            input.leave(root.line, format!("{name} {}", quoted(value)));
        }
    }
    Ok(body)
}
