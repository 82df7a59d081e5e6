//! Resolves the sections of a file to a [`Config`], or reports why its guarantees do not add up.

use std::sync::Arc;

use tidegate_core::{Bytes, ClassId, Span};

use super::config::{Config, Interface, MOST_INTERFACES, MOST_THREADS, Root, Statistics};
use super::file::{Direction, File, InterfaceSection, StatisticsSection};
use super::rules::{numbered, rules};
use super::{control, metrics};
use crate::classes::file::ShaperSection;
use crate::classes::{self, Advice, Borrow, Class, FairBy, FlowBy, Rule, Shaper, Sharing, lookup};
use crate::decode::{Decode, Spanned};
use crate::diagnostic::{Diagnostics, Place};
use crate::discipline::ClassSection;
use crate::node::Node;

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
                // Further errors would depend on which of the two was meant.
                return None;
            }
            discipline.value.check(at, diagnostics);
            if discipline.value.only_queues() {
                diagnostics
                    .warning(at, "nothing gives this discipline a rate, so that packets wait in it only where the interface is slow")
                    .label("its queues stay empty behind a faster one")
                    .help(format!(
                        "put it into a class with a little less than the rate of the line: [[class]] with name = \"all\", \
                         rate = \"19mbit\", default = true, queue = {{ kind = \"{}\" }}",
                        discipline.value.kind()
                    ));
            }
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
    let rules = rules(file, &root, &names, (elsewhere, interface.direction), diagnostics);
    threads(file.interface.as_ref().map(|section| &section.value), &root, &rules, diagnostics);
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
            .error(section.flows.place, format!("a table of {} flows is not possible", statistics.flows))
            .label("not between 8 and 1048576")
            .help("write for example flows = 16384, or detail = \"classes\" to remember none");
    }
    if statistics.idle < Span::from_secs(1) {
        diagnostics
            .error(section.idle.place, format!("flows would be forgotten after {} already", statistics.idle))
            .label("less than a second is too short to look at them")
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

/// Reports a configuration that cannot be divided over threads.
fn threads(section: Option<&InterfaceSection>, root: &Root, rules: &[Rule], diagnostics: &mut Diagnostics) {
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
        Root::Shaper(shaper) => {
            if shaper.classes.iter().any(|class| class.at_most.class.is_some())
                || rules.iter().any(|rule| rule.at_most.is_some())
            {
                refuse(
                    "each thread would keep a ceiling of a class or a rule for itself",
                    "remove `threads` or `at-most`; `host-at-most` and `flow-at-most` are possible",
                );
            }
            let borrows = |class: &&Class| class.share == Sharing::Strict && class.borrow == Borrow::Allowed;
            if let Some(class) = shaper.classes.iter().find(borrows) {
                refuse(
                    &format!(
                        "class `{}` borrows with strict shares, and no thread knows what others leave",
                        class.name
                    ),
                    "remove `threads`, or `borrow` or `share` of the class",
                );
            }
        }
    }
}

/// An arriving packet has no socket yet, so nothing can depend on its owner.
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
    let mut shaper = classes::resolve(file.shaper.as_ref(), &file.class, largest, diagnostics);
    if interface.threads > 1 {
        without_shares(&file.class, diagnostics);
    }
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

/// Reports advice that one of several threads cannot give.
fn without_shares(classes: &[Spanned<ClassSection>], diagnostics: &mut Diagnostics) {
    for class in classes.iter().filter(|class| class.advice.value == Advice::FairShare) {
        diagnostics
            .error(class.advice.place, "a fair share cannot be advised by one of several threads")
            .label("a thread knows its own flows only")
            .help("write advice = \"ceiling\", or threads = 1");
    }
}

/// Reports settings that conflict with sharing by hosts, and files in which each flow is a host.
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
