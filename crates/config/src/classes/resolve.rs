//! Resolves the sections of classes to a [`Shaper`], or reports why its rates do not add up.

use std::collections::HashMap;

use tidegate_autorate::Bounds;
use tidegate_core::fbq::{Ceiling, Ceilings};
use tidegate_core::{Bytes, ClassId, Rate, Span};

use super::file::{FeedbackSection, FollowSection, ShaperSection};
use super::{Advice, Borrow, Bursts, Class, EcnFeedback, FairBy, Feedback, FlowBy, Follow, Shaper, Sharing};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};
use crate::discipline::ClassSection;
use crate::suggest;

/// The largest number of classes of a shaper.
const MOST_CLASSES: usize = 4096;

/// Returns 1 ms at `rate`, at least two packets of the largest size.
fn default_burst(rate: Rate, largest: Bytes) -> Bytes {
    rate.bytes_in_floor(Span::from_millis(1)).max(largest.saturating_mul(2))
}

/// A ceiling of `rate` for what has bursts of `burst` otherwise.
pub(crate) fn ceiling(rate: Rate, burst: Bytes) -> Ceiling {
    Ceiling { rate, burst: default_burst(rate, Bytes::ZERO).max(burst) }
}

/// Resolves the classes and their common settings, without rules.
pub(crate) fn resolve(
    section: Option<&Spanned<ShaperSection>>,
    sections: &[Spanned<ClassSection>],
    largest: Bytes,
    diagnostics: &mut Diagnostics,
) -> Shaper {
    let rates = rates(section, sections, diagnostics);
    let with_rates = sections.iter().zip(&rates);
    let classes: Vec<Class> = with_rates.map(|(class, rate)| self::class(class, *rate, largest, diagnostics)).collect();
    duplicate_names(sections, diagnostics);
    if let Some(class) = sections.get(MOST_CLASSES) {
        diagnostics
            .error(class.place, format!("there are {} classes", sections.len()))
            .label("one too many")
            .help(format!("a shaper has at most {MOST_CLASSES} classes; flows inside a class are free"));
    }
    if section.is_none_or(|section| section.fair_by.value == FairBy::Flow) {
        without_hosts(sections, diagnostics);
    }
    let rate = total(section, sections, &rates, diagnostics);
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
                .error(section.flows.place, "a table of this many flows is not possible")
                .label("not between 1 and 16777216")
                .help("write for example flows = 65536");
        }
    }
    let follow =
        section.and_then(|section| section.follow.as_ref().map(|line| follow(line, section, rate, diagnostics)));
    Shaper {
        rate,
        follow,
        burst: burst.map_or_else(|| default_burst(rate, largest), |burst| burst.value),
        flow_by: section.map_or(FlowBy::FiveTuple, |section| section.flow_by.value),
        fair_by: section.map_or(FairBy::Flow, |section| section.fair_by.value),
        idle_timeout: section.map_or(Span::from_secs(10), |section| section.idle_timeout.value),
        flows: section.map_or(65_536, |section| section.flows.value),
        classes,
    }
}

/// The most peers that may be probed.
const MOST_PEERS: usize = 8;

/// Checks the bounds of a rate that follows the line against its base.
fn follow(line: &Spanned<FollowSection>, section: &ShaperSection, base: Rate, diagnostics: &mut Diagnostics) -> Follow {
    let FollowSection { from, to, peers } = &line.value;
    if from.value.is_zero() {
        diagnostics
            .error(from.place, "the rate could fall to zero")
            .label("a rate of zero")
            .help("write what the line carries at its worst, for example \"2mbit\"");
    }
    if from.value > to.value {
        diagnostics
            .error(from.place, format!("the least rate {} is above the highest, {}", from.value, to.value))
            .label("out of order")
            .related(to.place, "the highest rate")
            .help("exchange them");
    } else if base < from.value || base > to.value {
        let place = section.rate.map_or(line.place, |rate| rate.place);
        diagnostics
            .error(place, format!("the base rate {base} is not between {} and {}", from.value, to.value))
            .label(if section.rate.is_some() { "the base" } else { "the base is the sum of the classes" })
            .related(from.place, "the least rate")
            .related(to.place, "the highest rate")
            .help("`rate` is what the shaper begins with and returns to when idle: choose it between the two");
    }
    for peer in peers.iter() {
        if !peer.is_one_address() {
            diagnostics
                .error(peer.place, "a peer is one host")
                .label("a network")
                .help("write an address, for example \"192.0.2.1\"");
        }
    }
    if let Some(beyond) = peers.get(MOST_PEERS) {
        diagnostics
            .error(beyond.place, format!("more than {MOST_PEERS} peers"))
            .label("one too many")
            .help("three are enough: the median of what they show counts");
    }
    let bounds = Bounds { least: from.value, base, most: to.value };
    Follow { bounds, peers: peers.iter().map(|peer| peer.address).collect() }
}

/// The guaranteed rate of each class: as written, or else an equal part of what the others leave of the total. Reports classes for which
/// nothing is left.
fn rates(
    section: Option<&Spanned<ShaperSection>>,
    classes: &[Spanned<ClassSection>],
    diagnostics: &mut Diagnostics,
) -> Vec<Spanned<Rate>> {
    let stated: Rate = classes.iter().filter_map(|class| class.rate).map(|rate| rate.value).sum();
    let total = section.and_then(|section| section.rate).map(|rate| rate.value);
    let part = equal_part(total.map_or(Rate::ZERO, |total| total.saturating_sub(stated)), classes);
    let mut unstated = |class: &Spanned<ClassSection>| {
        let (name, place) = (&class.name.value, class.name.place);
        // That the others are promised more than the total is an error of its own.
        if part.is_zero() && total.is_none_or(|total| stated <= total) {
            let (why, help) = match total {
                None => (
                    "no total is stated from which one follows".to_owned(),
                    "write rate = \"5mbit\" here, or under [shaper] the rate of the line: the class then gets what the others leave",
                ),
                Some(total) => (
                    format!("the others are promised {stated} of {total}"),
                    "lower the rate of another class, or write a small one here: it is what the class gets when all are busy",
                ),
            };
            diagnostics
                .error(place, format!("class `{name}` has no `rate`, and {why}"))
                .label("nothing is left for it")
                .help(help);
        }
        let most = class.at_most.map_or(part, |most| part.min(most.value));
        Spanned { value: most, place }
    };
    classes.iter().map(|class| class.rate.unwrap_or_else(|| unstated(class))).collect()
}

/// The equal part of `rest` for each class without a rate. A class whose ceiling is lower leaves the difference to the others.
fn equal_part(rest: Rate, classes: &[Spanned<ClassSection>]) -> Rate {
    let mut ceilings: Vec<Rate> = classes
        .iter()
        .filter(|class| class.rate.is_none())
        .map(|class| class.at_most.map_or(Rate::from_bps(u64::MAX), |most| most.value))
        .collect();
    ceilings.sort_unstable();
    let (mut left, mut part) = (rest.as_bps(), 0);
    for (before, ceiling) in ceilings.iter().enumerate() {
        part = left / (ceilings.len() - before) as u64;
        if ceiling.as_bps() >= part {
            break;
        }
        left -= ceiling.as_bps();
    }
    Rate::from_bps(part)
}

fn class(section: &Spanned<ClassSection>, rate: Spanned<Rate>, largest: Bytes, diagnostics: &mut Diagnostics) -> Class {
    let ClassSection { name, queue, .. } = &section.value;
    if name.is_empty() || name.chars().any(char::is_control) {
        diagnostics
            .error(name.place, "a class needs a name")
            .label("not a name")
            .help("write for example name = \"premium\"");
    }
    if section.rate.is_some() && rate.value.is_zero() {
        diagnostics
            .error(rate.place, format!("class `{}` has no guaranteed rate", name.value))
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
        refuse_flow_keys(section, queue.place, diagnostics);
    }
    if let Some(step) = section.l4s_step
        && step.value.is_zero()
    {
        diagnostics.error(step.place, "`l4s-step` must be above 0, for example 1ms").label("cannot work");
    }
    let feedback = section.feedback.as_ref().map(|section| feedback(section, diagnostics));
    let borrow = borrow(section);
    let at_most = ceilings(section, rate, (burst, flow_burst), diagnostics);
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
        is_rest: section.rate.is_none(),
        burst,
        flow_burst,
        priority: section.priority.value,
        dscp: section.dscp,
        bursts: section.bursts,
        share: section.share.value,
        borrow,
        at_most,
        limit,
        flow_limit,
        increment: section.increment,
        feedback,
        l4s_step: section.l4s_step.map(|step| step.value),
        advice: section.advice.value,
        queue: queue.as_ref().map(|queue| queue.value.clone()),
    }
}

/// Where advice is asked for that depends on the queue of the flow.
fn by_flow(advice: Spanned<Advice>) -> Option<Place> {
    matches!(advice.value, Advice::FairShare | Advice::Promise).then_some(advice.place)
}

/// Reports keys about single flows in a class whose packets wait in another discipline, given at `queue`.
fn refuse_flow_keys(section: &ClassSection, queue: Place, diagnostics: &mut Diagnostics) {
    let flow_keys = [
        ("flow-burst", section.flow_burst.map(|burst| burst.place)),
        ("flow-limit", section.flow_limit.map(|limit| limit.place)),
        ("flow-at-most", section.flow_at_most.map(|ceiling| ceiling.place)),
        ("host-at-most", section.host_at_most.map(|ceiling| ceiling.place)),
        ("feedback", section.feedback.as_ref().map(|feedback| feedback.above.place)),
        ("l4s-step", section.l4s_step.map(|step| step.place)),
        ("advice", by_flow(section.advice)),
    ];
    for (key, place) in flow_keys {
        if let Some(place) = place {
            diagnostics
                .error(place, format!("`{key}` in a class with a `queue` of its own"))
                .label("there is no queue per flow here")
                .related(queue, "because of this")
                .help(format!("remove `{key}` or `queue`"));
        }
    }
}

fn feedback(section: &FeedbackSection, diagnostics: &mut Diagnostics) -> Feedback {
    if section.below.value >= section.above.value {
        diagnostics
            .error(
                section.below.place,
                format!("`below` {} is not under `above` {}", section.below.value, section.above.value),
            )
            .label("out of order")
            .related(section.above.place, "the upper threshold")
            .help("lower `below` or raise `above`");
    }
    Feedback {
        above: section.above.value,
        below: section.below.value,
        ecn: if section.ecn { EcnFeedback::Mark } else { EcnFeedback::Off },
    }
}

fn borrow(section: &ClassSection) -> Borrow {
    let by_default = section.share.value != Sharing::Strict;
    if section.borrow.map_or(by_default, |borrow| borrow.value) { Borrow::Allowed } else { Borrow::Never }
}

/// The ceilings of a class, whose bursts are at least those of the class and of a flow. Reports those that contradict the
/// guarantee, the sharing or the borrowing of the class.
fn ceilings(
    section: &ClassSection,
    rate: Spanned<Rate>,
    (burst, flow_burst): (Bytes, Bytes),
    diagnostics: &mut Diagnostics,
) -> Ceilings {
    let ClassSection { name, share, at_most, host_at_most, flow_at_most, .. } = section;
    for (key, ceiling) in [("at-most", at_most), ("host-at-most", host_at_most), ("flow-at-most", flow_at_most)] {
        let Some(ceiling) = ceiling else { continue };
        if ceiling.value.is_zero() {
            diagnostics
                .error(ceiling.place, format!("`{key}` of zero lets nothing pass"))
                .label("a rate of zero")
                .help(format!("write a rate, for example {key} = \"5mbit\", or leave it out"));
        }
        if key != "at-most" && share.value == Sharing::Strict {
            diagnostics
                .error(ceiling.place, format!("`{key}` in a class with strict sharing"))
                .label("no flow gets more than its share here")
                .related(share.place, "because of this")
                .help(format!("remove `{key}`, or write share = \"work-conserving\""));
        }
    }
    if let Some(most) = at_most.filter(|most| !most.value.is_zero()) {
        let stays = section.borrow.filter(|borrow| !borrow.value && most.value > rate.value);
        if most.value < rate.value {
            diagnostics
                .error(
                    most.place,
                    format!("class `{}` is guaranteed {}, more than its ceiling of {}", name.value, rate.value, most.value),
                )
                .label("less than the guarantee")
                .related(rate.place, "the guarantee")
                .help(
                    "lower `rate`, which may be small: it is what the class gets even when the line is full; or raise `at-most`",
                );
        } else if let Some(borrow) = stays {
            diagnostics
                .error(
                    most.place,
                    format!("class `{}` does not borrow, so that it never gets {}", name.value, most.value),
                )
                .label("more than its rate")
                .related(borrow.place, "because of this")
                .help("remove `borrow`: `at-most` bounds what is borrowed; or remove `at-most`");
        }
    }
    if let (Some(most), Some(host)) = (at_most, host_at_most.as_ref())
        && host.value > most.value
    {
        diagnostics
            .warning(host.place, format!("a host of class `{}` never gets {}", name.value, host.value))
            .label("more than the class gets together")
            .related(most.place, "the ceiling of the class")
            .help("lower `host-at-most`, or leave it out");
    }
    if let (Some(most), Some(Spanned { value: true, place })) = (at_most, section.borrow)
        && share.value == Sharing::Strict
    {
        diagnostics
            .error(most.place, "`at-most` in a class that borrows with strict sharing")
            .label("each flow has its share of whatever the class gets at the time")
            .related(place, "because of this")
            .help("remove `at-most`, or write share = \"work-conserving\"");
    }
    let of = |rate: Option<Spanned<Rate>>, burst| rate.map(|rate| ceiling(rate.value, burst));
    Ceilings { class: of(*at_most, burst), host: of(*host_at_most, flow_burst), flow: of(*flow_at_most, flow_burst) }
}

/// Reports ceilings of hosts where nothing says what a host is.
fn without_hosts(classes: &[Spanned<ClassSection>], diagnostics: &mut Diagnostics) {
    for ceiling in classes.iter().filter_map(|class| class.value.host_at_most) {
        diagnostics
            .error(ceiling.place, "`host-at-most` where flows share the classes")
            .label("hosts do not count here")
            .help("write fair-by = \"host\" in [shaper]; or write flow-at-most, the ceiling of each flow");
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

/// The total rate: as written, or else the sum of the classes. Reports a total below that sum.
fn total(
    section: Option<&Spanned<ShaperSection>>,
    classes: &[Spanned<ClassSection>],
    rates: &[Spanned<Rate>],
    diagnostics: &mut Diagnostics,
) -> Rate {
    let sum: u128 = rates.iter().map(|rate| u128::from(rate.value.as_bps())).sum();
    let sum = Rate::from_bps(u64::try_from(sum).unwrap_or(u64::MAX));
    let Some(rate) = section.and_then(|section| section.rate) else { return sum };
    if sum > rate.value {
        let stated = classes.iter().zip(rates).filter(|(class, _)| class.rate.is_some());
        let parts: Vec<String> = stated.clone().take(8).map(|(_, rate)| rate.value.to_string()).collect();
        let more = if stated.clone().count() > 8 { " + ..." } else { "" };
        let error = diagnostics
            .error(rate.place, format!("the classes are promised {sum}, more than the total of {}", rate.value));
        error.label(format!("{} too little", sum.saturating_sub(rate.value)));
        for (class, of_class) in stated.take(8) {
            error.related(of_class.place, format!("`{}`", class.name.value));
        }
        let sum = if parts.len() > 1 { format!("{}{more} = {sum}: ", parts.join(" + ")) } else { String::new() };
        error.help(format!("{sum}raise the total or lower a class; a promise must fit even when all are busy"));
    }
    rate.value
}

/// Looks up the number of a class by its name.
pub(crate) fn lookup(
    name: &Spanned<String>,
    by_name: &HashMap<&str, u32>,
    listed: &[&str],
    diagnostics: &mut Diagnostics,
) -> ClassId {
    let found = by_name.get(name.as_str()).copied();
    if found.is_none() {
        diagnostics
            .error(name.place, format!("there is no class `{}`", name.value))
            .label("unknown class")
            .help(suggest::help(&name.value, listed));
    }
    ClassId(found.unwrap_or(0))
}
