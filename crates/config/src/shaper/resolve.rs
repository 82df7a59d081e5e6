//! From the sections as written to a [`Config`] whose guarantees add up, or to errors with the reason why they do not.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::{Bytes, ClassId, Rate, Span};

use super::file::{ClassSection, File, InterfaceSection, ShaperSection, StatisticsSection};
use super::rules::{lookup, numbered, rules};
use super::{
    Borrow, Bursts, Class, Config, Direction, EcnFeedback, FairBy, Feedback, FlowBy, Interface, MOST_INTERFACES,
    MOST_THREADS, Root, Shaper, Sharing, Statistics, control, metrics,
};
use crate::decode::{Decode, Spanned};
use crate::diagnostic::{Diagnostics, Place};
use crate::node::Node;

/// The most classes of a shaper.
const MOST_CLASSES: usize = 4096;

/// Checks the tables of a file for one direction with this text.
pub(super) fn resolve(text: Arc<str>, tables: Node, diagnostics: &mut Diagnostics) -> Option<Config> {
    let file = File::decode(&tables, diagnostics)?;
    if let Some(section) = [&file.up, &file.down].into_iter().flatten().next() {
        diagnostics
            .error(section.place, "the file has tables for directions, and one direction is wanted here")
            .label("of a direction")
            .help("write what it contains at the top of a file of its own, and direction = \"ingress\" for [down]");
        return None;
    }
    resolve_file(&file, text, tables, &[], diagnostics)
}

/// Checks a file for one direction. `elsewhere` are classes of the other direction, which tables for both may name.
pub(super) fn resolve_file(
    file: &File,
    text: Arc<str>,
    tables: Node,
    elsewhere: &[String],
    diagnostics: &mut Diagnostics,
) -> Option<Config> {
    let before = diagnostics.errors();
    if file.version.value != 1 {
        diagnostics
            .error(file.version.place, format!("version {} of the language is not known here", file.version.value))
            .label("not 1")
            .help("write version = 1, or use a newer tidegate");
    }
    let interface = interface(file.interface.as_ref().map(|section| &section.value), diagnostics);
    let (root, names, default_class) = match &file.discipline {
        Some(discipline) => {
            let at = discipline.place;
            let section = file.shaper.as_ref().map(|section| ("[shaper]", section.place));
            let class = file.class.first().map(|class| ("[[class]]", class.place));
            if let Some((what, place)) = section.or(class) {
                diagnostics
                    .error(place, format!("{what} beside [discipline]"))
                    .label("a file has one or the other")
                    .related(at, "the discipline is here")
                    .help("remove one; a discipline can stand inside a class as `queue`");
                // Further errors depend on which of the two was meant.
                return None;
            }
            discipline.value.check(at, diagnostics);
            let names: Vec<String> = discipline.value.classes().into_iter().map(str::to_owned).collect();
            let default = match (&file.default_class, discipline.value.default_class()) {
                (Some(default), _) => {
                    let by_name = numbered(&names);
                    lookup(default, &by_name, &names.iter().map(String::as_str).collect::<Vec<_>>(), diagnostics)
                }
                // An unknown name is an error of the discipline's own check.
                (None, Some(default)) => {
                    names.iter().zip(0..).find(|(name, _)| *name == default).map_or(ClassId(0), |(_, n)| ClassId(n))
                }
                (None, None) => ClassId(0),
            };
            (Root::Discipline(Box::new(discipline.value.clone())), names, default)
        }
        None => {
            if let Some(default) = &file.default_class {
                diagnostics
                    .error(default.place, "`default-class` belongs to a file with a [discipline]")
                    .label("each class of a shaper specifies it")
                    .help("write default = true in the class");
            }
            let (shaper, default_class) = shaper(file, &interface, diagnostics);
            let names = shaper.classes.iter().map(|class| class.name.clone()).collect();
            (Root::Shaper(shaper), names, default_class)
        }
    };
    threads(file.interface.as_ref().map(|section| &section.value), &root, diagnostics);
    let rules = rules(file, &root, &names, diagnostics);
    without_owners(file, diagnostics);
    let statistics = statistics(file.statistics.as_ref(), diagnostics);
    let control = control::control(file.control.as_ref(), &names, elsewhere, diagnostics);
    let metrics = metrics::metrics(file.metrics.as_ref(), diagnostics);
    (diagnostics.errors() == before).then_some(Config {
        text,
        tables: Arc::new(tables),
        interface,
        root,
        rules,
        default_class,
        statistics,
        reverse_lookup: file.statistics.as_ref().is_some_and(|section| section.reverse_lookup),
        control,
        metrics,
    })
}

fn statistics(section: Option<&StatisticsSection>, diagnostics: &mut Diagnostics) -> Statistics {
    let Some(section) = section else { return Statistics::default() };
    let statistics = Statistics { detail: section.detail, flows: section.flows.value, idle: section.idle.value };
    if !(8..=1 << 20).contains(&statistics.flows) {
        diagnostics
            .error(section.flows.place, format!("{} flows cannot be remembered", statistics.flows))
            .label("not between 8 and 1048576")
            .help("write for example flows = 16384, or detail = \"classes\" to remember none");
    }
    if statistics.idle < Span::from_secs(1) {
        diagnostics
            .error(section.idle.place, format!("flows would be forgotten after {} already", statistics.idle))
            .label("less than a second, in which nobody can look at them")
            .help("write for example idle = \"60s\"");
    }
    statistics
}

fn interface(section: Option<&InterfaceSection>, diagnostics: &mut Diagnostics) -> Interface {
    let Some(section) = section else { return Interface::default() };
    for (at, name) in section.name.iter().enumerate() {
        // The kernel's own rule for names of interfaces.
        let bad = name.is_empty() || name.len() > 15 || name.chars().any(|c| c == '/' || c == ':' || c.is_whitespace());
        if bad || matches!(name.as_str(), "." | "..") {
            diagnostics
                .error(name.place, format!("`{}` cannot be the name of an interface", name.value))
                .label("1 to 15 characters without space, `/` and `:`")
                .help("`ip link` lists the interfaces");
        }
        if let Some(first) = section.name[..at].iter().find(|first| first.value == name.value) {
            diagnostics
                .error(name.place, format!("the interface `{}` is named twice", name.value))
                .label("the second time")
                .related(first.place, "the first time")
                .help("remove one; the traffic of an interface is shaped once");
        }
    }
    if let Some(beyond) = section.name.get(MOST_INTERFACES) {
        diagnostics
            .error(beyond.place, format!("more than {MOST_INTERFACES} interfaces under one total"))
            .label("one too many")
            .help("shape what carries all of them instead: their bridge, or the uplink");
    }
    if section.mtu.value < Bytes::new(68) || section.mtu.value > Bytes::new(65_535) {
        diagnostics
            .error(section.mtu.place, format!("no link has an MTU of {}", section.mtu.value))
            .label("not between 68 B and 65535 B")
            .help("`ip link` shows the MTU; Ethernet has 1500B");
    }
    if section.overhead.value > Bytes::new(256) {
        diagnostics
            .error(section.overhead.place, format!("no link adds {} to each packet", section.overhead.value))
            .label("more than 256 B")
            .help("Ethernet with preamble and gap adds 38B");
    }
    Interface {
        names: section.name.iter().map(|name| name.value.clone()).collect(),
        direction: section.direction.value,
        mtu: section.mtu.value,
        overhead: section.overhead.value,
        data_path: section.data_path,
        unattended: section.unattended,
        threads: section.threads.value,
    }
}

/// What cannot be divided over threads.
fn threads(section: Option<&InterfaceSection>, root: &Root, diagnostics: &mut Diagnostics) {
    let Some(threads) = section.map(|section| section.threads) else { return };
    if !(1..=MOST_THREADS).contains(&threads.value) {
        diagnostics
            .error(threads.place, format!("{} threads", threads.value))
            .label(format!("not between 1 and {MOST_THREADS}"))
            .help("write for example threads = 2, at most one for each processor");
    }
    let mut refuse = |why: &str, help: &str| {
        diagnostics.error(threads.place, "this shaper cannot be divided over threads").label(why).help(help);
    };
    match root {
        _ if threads.value == 1 => {}
        Root::Discipline(discipline) => refuse(
            &format!("the discipline `{}` has one queue for all", discipline.kind()),
            "remove `threads`, or write [[class]] with a `queue`",
        ),
        Root::Shaper(shaper) if shaper.divided_by().is_none() => refuse(
            &format!("a flow by {} has packets of any address, and flows are divided by addresses", shaper.flow_by),
            "remove `threads`, or `flow-by`",
        ),
        Root::Shaper(_) => {}
    }
}

/// On its way in a packet has no socket yet, so that nothing can go by its owner.
fn without_owners(file: &File, diagnostics: &mut Diagnostics) {
    let Some(direction) = file.interface.as_ref().map(|section| &section.value.direction) else { return };
    if direction.value == Direction::Egress {
        return;
    }
    let help = "go by destination-port or destination, or shape the other way with direction = \"egress\"";
    let mut refuse = |place, what: &str| {
        diagnostics
            .error(place, format!("{what} what arrives"))
            .label("a packet that arrives has no socket yet, and so no owner")
            .related(direction.place, "because of this")
            .help(help);
    };
    for rule in &file.rule {
        if !rule.uid.is_empty() {
            refuse(rule.place, "`uid` in a rule for");
        }
        if let Some(path) = rule.cgroup.first() {
            refuse(path.place, "`cgroup` in a rule for");
        }
    }
    if let Some(section) = &file.shaper
        && matches!(section.flow_by.value, FlowBy::User | FlowBy::ControlGroup)
    {
        refuse(section.place, "flows by owner for");
    }
}

/// 1 ms at `rate`, at least two of the largest packets.
fn default_burst(rate: Rate, largest: Bytes) -> Bytes {
    rate.bytes_in_floor(Span::from_millis(1)).max(largest.saturating_mul(2))
}

fn shaper(file: &File, interface: &Interface, diagnostics: &mut Diagnostics) -> (Shaper, ClassId) {
    let largest = interface.mtu + interface.overhead;
    if file.class.is_empty() {
        let place = file.shaper.as_ref().map_or(Place::default(), |section| section.place);
        diagnostics
            .error(place, "there is no class")
            .label("nothing to shape")
            .help("add [[class]] with a name, a rate and default = true, or one [discipline]");
    }
    let default_class = default_class(&file.class, diagnostics);
    let mut shaper = classes(file.shaper.as_ref(), &file.class, largest, diagnostics);
    if let Some(section) = &file.shaper {
        hosts(file, section, interface.direction, diagnostics);
    }
    if shaper.fair_by == FairBy::Host {
        shaper.fair_by = match interface.direction {
            Direction::Egress => FairBy::Source,
            Direction::Ingress => FairBy::Destination,
        };
    }
    (shaper, default_class)
}

/// What hosts that share classes do not go with, and files in which a flow is a host.
fn hosts(file: &File, section: &ShaperSection, direction: Direction, diagnostics: &mut Diagnostics) {
    let inner = match direction {
        Direction::Egress => FlowBy::Source,
        Direction::Ingress => FlowBy::Destination,
    };
    if section.flow_by.value == inner {
        diagnostics
            .warning(section.flow_by.place, "all that a host sends or receives in a class waits in one queue")
            .label("an upload of a host delays its other traffic of the same class, and drops it")
            .help("write fair-by = \"host\" instead: hosts share equally, and the flows of a host as well");
    }
    if section.fair_by.value == FairBy::Flow {
        return;
    }
    if matches!(section.flow_by.value, FlowBy::User | FlowBy::ControlGroup | FlowBy::Dscp | FlowBy::Mark) {
        diagnostics
            .error(section.fair_by.place, format!("hosts cannot share what flows by {} span", section.flow_by.value))
            .label("such a flow has packets of several hosts")
            .related(section.flow_by.place, "because of this")
            .help("remove one of the two");
    }
    if let Some(class) = file.class.iter().find(|class| class.share.value == Sharing::Strict) {
        diagnostics
            .error(class.share.place, format!("hosts cannot share class `{}`", class.name.value))
            .label("each of its flows is limited to its own share")
            .related(section.fair_by.place, "because of this")
            .help("write share = \"work-conserving\", or fair-by = \"flow\"");
    }
    if let Some(displace) = file.rule.iter().find_map(|rule| rule.displace.as_ref()) {
        diagnostics
            .error(displace.below.place, "a flow cannot be displaced where hosts share the classes")
            .label("its share depends on its host")
            .related(section.fair_by.place, "because of this")
            .help("remove `displace`, or write fair-by = \"flow\"");
    }
}

/// Classes and what they share, without the rules that lead to them.
pub(crate) fn classes(
    section: Option<&Spanned<ShaperSection>>,
    sections: &[Spanned<ClassSection>],
    largest: Bytes,
    diagnostics: &mut Diagnostics,
) -> Shaper {
    let classes: Vec<Class> = sections.iter().map(|class| self::class(class, largest, diagnostics)).collect();
    duplicate_names(sections, diagnostics);
    if let Some(class) = sections.get(MOST_CLASSES) {
        diagnostics
            .error(class.place, format!("there are {} classes", sections.len()))
            .label("one too many")
            .help(format!("a shaper has at most {MOST_CLASSES} classes; flows inside a class are free"));
    }
    let rate = total(section, sections, diagnostics);
    let burst = section.and_then(|section| section.burst);
    if let Some(burst) = burst {
        at_least_largest("burst", burst, largest, diagnostics);
    }
    if let Some(section) = section {
        if section.idle_timeout.value < Span::from_millis(10) {
            diagnostics
                .error(
                    section.idle_timeout.place,
                    format!("flows would end after {} already", section.idle_timeout.value),
                )
                .label("less than 10 ms, shorter than the pause between two packets of a call")
                .help("write for example idle-timeout = \"10s\"");
        }
        if section.flows.value == 0 || section.flows.value > 1 << 24 {
            diagnostics
                .error(section.flows.place, "this number of flows cannot be kept")
                .label("not between 1 and 16777216")
                .help("write for example flows = 65536");
        }
    }
    Shaper {
        rate,
        burst: burst.map_or_else(|| default_burst(rate, largest), |burst| burst.value),
        flow_by: section.map_or(FlowBy::FiveTuple, |section| section.flow_by.value),
        fair_by: section.map_or(FairBy::Flow, |section| section.fair_by.value),
        idle_timeout: section.map_or(Span::from_secs(10), |section| section.idle_timeout.value),
        flows: section.map_or(65_536, |section| section.flows.value),
        classes,
    }
}

fn class(section: &Spanned<ClassSection>, largest: Bytes, diagnostics: &mut Diagnostics) -> Class {
    let ClassSection { name, rate, queue, .. } = &section.value;
    if name.is_empty() || name.chars().any(char::is_control) {
        diagnostics
            .error(name.place, "a class needs a name")
            .label("not a name")
            .help("write for example name = \"premium\"");
    }
    if rate.value.is_zero() {
        diagnostics
            .error(rate.place, format!("class `{}` is promised nothing", name.value))
            .label("a rate of zero")
            .help(
                "write a rate; a class that only uses what others leave needs a small one to start, such as \"8kbit\"",
            );
    }
    for (key, burst) in [("burst", section.burst), ("flow-burst", section.flow_burst)] {
        if let Some(burst) = burst {
            at_least_largest(key, burst, largest, diagnostics);
        }
    }
    let burst = section.burst.map_or_else(|| default_burst(rate.value, largest), |burst| burst.value);
    let flow_burst = section.flow_burst.map_or(burst, |burst| burst.value);
    let default_limit = rate.value.bytes_in_floor(Span::from_millis(200)).max(largest.saturating_mul(64));
    let limit = section.limit.map_or(default_limit, |limit| limit.value);
    for (key, limit) in [("limit", section.limit), ("flow-limit", section.flow_limit)] {
        if let Some(limit) = limit {
            at_least_largest(key, limit, largest, diagnostics);
        }
    }
    if let (Some(flow_limit), Some(limit)) = (section.flow_limit, section.limit)
        && flow_limit.value > limit.value
    {
        diagnostics
            .error(
                flow_limit.place,
                format!("one flow may queue more than its whole class: {} of {}", flow_limit.value, limit.value),
            )
            .label("more than `limit`")
            .related(limit.place, "the limit of the class")
            .help("lower flow-limit or raise limit");
    }
    let flow_limit =
        section.flow_limit.map_or_else(|| Bytes::new(limit.as_u64() / 2).max(largest), |limit| limit.value);
    if let Some(queue) = queue {
        queue.value.check(queue.place, diagnostics);
        let flow_keys = [
            ("flow-burst", section.flow_burst.map(|burst| burst.place)),
            ("flow-limit", section.flow_limit.map(|limit| limit.place)),
            ("feedback", section.feedback.as_ref().map(|feedback| feedback.above.place)),
        ];
        for (key, place) in flow_keys {
            if let Some(place) = place {
                diagnostics
                    .error(place, format!("`{key}` in a class with a `queue` of its own"))
                    .label("there is no queue per flow here")
                    .related(queue.place, "because of this")
                    .help(format!("remove `{key}` or `queue`"));
            }
        }
    }
    let feedback = section.feedback.as_ref().map(|feedback| {
        if feedback.below.value >= feedback.above.value {
            diagnostics
                .error(
                    feedback.below.place,
                    format!("`below` {} is not under `above` {}", feedback.below.value, feedback.above.value),
                )
                .label("out of order")
                .related(feedback.above.place, "the upper threshold")
                .help("lower `below` or raise `above`");
        }
        Feedback {
            above: feedback.above.value,
            below: feedback.below.value,
            ecn: if feedback.ecn { EcnFeedback::Mark } else { EcnFeedback::Off },
        }
    });
    let strict = section.share.value == Sharing::Strict;
    if let Some(Spanned { value: true, place }) = section.borrow
        && strict
    {
        diagnostics
            .error(place, "a class with strict sharing cannot borrow")
            .label("its flows would get more than their shares")
            .related(section.share.place, "no flow gets more than its share")
            .help("remove `borrow`, or write share = \"work-conserving\"");
    }
    let borrows = section.borrow.map_or(!strict, |borrow| borrow.value);
    if section.bursts == Bursts::Loose
        && let Some(burst) = section.burst
    {
        diagnostics
            .warning(
                burst.place,
                format!("class `{}` has loose bursts, so that its `burst` bounds nothing", name.value),
            )
            .label("not used")
            .help("remove it, or write bursts = \"strict\"");
    }
    Class {
        name: name.value.clone(),
        rate: rate.value,
        burst,
        flow_burst,
        priority: section.priority.value,
        dscp: section.dscp,
        bursts: section.bursts,
        share: section.share.value,
        borrow: if borrows { Borrow::Allowed } else { Borrow::Never },
        limit,
        flow_limit,
        increment: section.increment,
        feedback,
        queue: queue.as_ref().map(|queue| queue.value.clone()),
    }
}

fn at_least_largest(key: &str, size: Spanned<Bytes>, largest: Bytes, diagnostics: &mut Diagnostics) {
    if size.value < largest {
        diagnostics
            .error(size.place, format!("`{key}` is smaller than the largest packet, {} B", largest.as_u64()))
            .label("the largest packet never fits")
            .help(format!("write at least \"{}B\", or lower the mtu of the interface", largest.as_u64()));
    }
}

fn duplicate_names(classes: &[Spanned<ClassSection>], diagnostics: &mut Diagnostics) {
    let mut first: HashMap<&str, Place> = HashMap::new();
    for class in classes {
        let name = &class.value.name;
        match first.get(name.as_str()) {
            Some(place) => {
                diagnostics
                    .error(name.place, format!("a second class is called `{}`", name.value))
                    .label("the same name")
                    .related(*place, "the first one")
                    .help("rename one of them; rules refer to classes by name");
            }
            None => {
                first.insert(name.as_str(), name.place);
            }
        }
    }
}

fn default_class(classes: &[Spanned<ClassSection>], diagnostics: &mut Diagnostics) -> ClassId {
    let mut found: Option<(usize, Place)> = None;
    for (i, class) in classes.iter().enumerate() {
        let Some(Spanned { value: true, place }) = class.default else { continue };
        match found {
            Some((_, first)) => {
                diagnostics
                    .error(place, "a second class is the default")
                    .label("only one class takes what no rule matches")
                    .related(first, "the first one")
                    .help("remove one of them");
            }
            None => found = Some((i, place)),
        }
    }
    if let (None, Some(last)) = (found, classes.last()) {
        diagnostics.error(last.place, "no class is the default").label("no class has default = true").help(format!(
            "add default = true to the class for packets that no rule matches, perhaps `{}`",
            last.value.name.value
        ));
    }
    ClassId(found.map_or(0, |(i, _)| i as u32))
}

/// The total: as written, at least the sum of the classes; else that sum.
fn total(
    section: Option<&Spanned<ShaperSection>>,
    classes: &[Spanned<ClassSection>],
    diagnostics: &mut Diagnostics,
) -> Rate {
    let sum: u128 = classes.iter().map(|class| u128::from(class.rate.value.as_bps())).sum();
    let sum = Rate::from_bps(u64::try_from(sum).unwrap_or(u64::MAX));
    let Some(rate) = section.and_then(|section| section.rate) else { return sum };
    if sum > rate.value {
        let parts: Vec<String> = classes.iter().take(8).map(|class| class.rate.value.to_string()).collect();
        let more = if classes.len() > 8 { " + ..." } else { "" };
        let error = diagnostics
            .error(rate.place, format!("the classes are promised {sum}, more than the total of {}", rate.value));
        error.label(format!("{} too little", sum.saturating_sub(rate.value)));
        for class in classes.iter().take(8) {
            error.related(class.rate.place, format!("`{}`", class.name.value));
        }
        error.help(format!(
            "{}{more} = {sum}: raise the total or lower a class; a promise must fit even when all are busy",
            parts.join(" + ")
        ));
    }
    rate.value
}
