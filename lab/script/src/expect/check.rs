//! [`Checker`]: compares expectations with the log of a run.

use tidegate_config::{Diagnostics, Place};
use tidegate_core::cbq::ClassState;
use tidegate_core::{Backlog, Deadline, DropReason, Instant, Span};

use super::{ClassFact, Counted, Element, Expect, Expectation, Fact, Window};
use crate::log::{EventKind, Log, clock, span};
use crate::parse::fields::{COLOURS, ECN};

/// Adds an error to `failures` if the state differs from the expectation. `class` finds a class of CBQ by its name.
pub(crate) fn check_state(
    expectation: &Expectation,
    now: Instant,
    backlog: Backlog,
    deadline: Deadline,
    class: impl FnOnce(&str) -> Option<ClassState>,
    failures: &mut Diagnostics,
) {
    match expectation.expect {
        Expect::Class { ref name, fact } => {
            let found = match class(name) {
                None => Some(format!("no class of CBQ is called `{name}`")),
                Some(state) => differs(fact, &state, now).map(|text| format!("at {} class {name} {text}", clock(now))),
            };
            if let Some(message) = found {
                failures.error(expectation.place, message).label("expected otherwise");
            }
        }
        Expect::Backlog { packets, bytes }
            if backlog.packets != packets || bytes.is_some_and(|bytes| bytes != backlog.bytes) =>
        {
            let message = format!("at {} {} packets are queued, {}", clock(now), backlog.packets, backlog.bytes);
            failures.error(expectation.place, message).label("expected otherwise");
        }
        Expect::Deadline(wanted) => {
            // A deadline that is due counts as now.
            let wanted = wanted.instant(now).map_or(Deadline::Idle, |time| Deadline::at(time, now));
            if deadline != wanted {
                let text = match deadline {
                    Deadline::Now => "now".into(),
                    Deadline::Idle => "idle".into(),
                    Deadline::At(time) => clock(time),
                };
                let message = format!("at {} the deadline is {text}", clock(now));
                failures.error(expectation.place, message).label("expected otherwise");
            }
        }
        _ => {}
    }
}

/// The value that `state` has instead of `fact`, if it differs.
fn differs(fact: ClassFact, state: &ClassState, now: Instant) -> Option<String> {
    let (stats, estimate) = (&state.stats, state.status.estimate);
    let count =
        |wanted: u64, found: u64, what: &str| (wanted != found).then(|| format!("has {found} {what}, not {wanted}"));
    let within = |(low, high): (i64, i64), found: Option<i64>, what: &str, unit: &str| match found {
        None => Some(format!("has no {what}: its use is measured otherwise")),
        Some(found) => (!(low..=high).contains(&found)).then(|| format!("has {what} {found}{unit}")),
    };
    match fact {
        ClassFact::Borrowed(wanted) => count(wanted, stats.borrowed.packets, "packets borrowed"),
        ClassFact::Lent(wanted) => count(wanted, stats.lent.packets, "packets lent"),
        ClassFact::Overlimit(wanted) => count(wanted, stats.overlimit, "packets over limit"),
        ClassFact::Regulated(wanted) => count(wanted, stats.regulated, "suspensions"),
        ClassFact::Idle(low, high) => within((low, high), estimate.idle_nanos(), "avgidle", "ns"),
        ClassFact::Credit(low, high) => within((low, high), estimate.credit_bytes(), "credit", "B"),
        ClassFact::UnderTime(wanted) => {
            let found = Some(state.status.under_time).filter(|time| *time > now);
            let same = match (wanted, found) {
                (None, None) => true,
                (Some(window), Some(time)) => window.holds(time),
                _ => false,
            };
            let text = found.map_or("is not over its limit".into(), |time| format!("has under-time {}", clock(time)));
            (!same).then_some(text)
        }
    }
}

/// Compares a log with expectations.
pub(crate) struct Checker<'a> {
    log: &'a Log,
    departures: Vec<usize>,
    drops: Vec<usize>,
    departed: usize,
    dropped: usize,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(log: &'a Log) -> Self {
        Self {
            log,
            departures: log.departures().map(|(index, _)| index).collect(),
            drops: log.drops().map(|(index, _)| index).collect(),
            departed: 0,
            dropped: 0,
        }
    }

    pub(crate) fn check(&mut self, expectation: &Expectation, failures: &mut Diagnostics) {
        let place = expectation.place;
        match &expectation.expect {
            Expect::Order { elements, window } => {
                let claimed = self.order(&self.departures[self.departed..], elements, *window, None, "leave", failures);
                self.departed += claimed;
            }
            Expect::Drops { elements, reason, window } => {
                let claimed =
                    self.order(&self.drops[self.dropped..], elements, *window, *reason, "be dropped", failures);
                self.dropped += claimed;
            }
            Expect::Packet { packet, fact } => self.packet(packet, *fact, place, failures),
            Expect::Count { flow, what, low, high, window } => {
                self.count(*flow, *what, (*low, *high), *window, place, failures);
            }
            Expect::Waits { flow, low, high } => self.waits(*flow, *low, *high, place, failures),
            Expect::Nothing(window) => {
                let happened = |record: &crate::Record| record.kind != EventKind::Arrived && window.holds(record.time);
                if let Some(index) = self.log.records.iter().position(happened) {
                    self.fail(failures, place, format!("a departure or drop happened {window}"), index);
                }
            }
            Expect::NothingElse => {
                let next = self.departures.get(self.departed).or(self.drops.get(self.dropped));
                if let Some(&index) = next {
                    let more = self.departures.len() - self.departed + self.drops.len() - self.dropped;
                    let message = format!("{more} departures and drops were not expected");
                    self.fail(failures, place, message, index);
                }
            }
            Expect::Backlog { .. } | Expect::Deadline(_) | Expect::Class { .. } => {}
        }
    }

    /// Adds an error at `place`, with the records around number `index`.
    fn fail(&self, failures: &mut Diagnostics, place: Place, message: String, index: usize) {
        let error = failures.error(place, message).label("expected here");
        if !self.log.records.is_empty() {
            error.help(format!("what happened around that time:\n{}", self.log.around(index).trim_end()));
        }
    }

    fn fits(&self, element: &Element, id: u32) -> bool {
        let packet = &self.log.packets[id as usize];
        packet.flow == element.flow && element.number.is_none_or(|number| number == packet.number)
    }

    fn wanted(&self, element: &Element) -> String {
        let name = &self.log.names[element.flow];
        element.number.map_or(name.clone(), |number| format!("{name}#{number}"))
    }

    /// Compares `happened` with the expected elements. Returns how many records the elements take up, right or wrong,
    /// so that later expectations are not affected.
    fn order(
        &self,
        happened: &[usize],
        elements: &[Element],
        window: Option<Window>,
        reason: Option<DropReason>,
        verb: &str,
        failures: &mut Diagnostics,
    ) -> usize {
        for (n, element) in elements.iter().enumerate() {
            let wanted = self.wanted(element);
            let Some(&index) = happened.get(n) else {
                let done = if n == 0 { "none did".into() } else { format!("only {n} did") };
                let message = format!("{} packets should {verb} here, and {done}", elements.len());
                self.fail(failures, element.place, message, self.log.records.len().saturating_sub(1));
                break;
            };
            let record = &self.log.records[index];
            let (time, name) = (clock(record.time), self.log.name(record.id));
            let past = if verb == "leave" { "left" } else { "was dropped" };
            if !self.fits(element, record.id) {
                let message = format!("{wanted} should {verb} here, but {name} {past}, at {time}");
                self.fail(failures, element.place, message, index);
                // Further errors would only repeat this one.
                break;
            }
            if let Some(window) = window.filter(|window| !window.holds(record.time)) {
                let message = format!("{wanted} should {verb} {window}, but {name} {past} at {time}");
                self.fail(failures, element.place, message, index);
            }
            if let (Some(reason), EventKind::Dropped(actual)) = (reason, record.kind)
                && reason != actual
            {
                let reasons = [reason, actual].map(|reason| reason.name().replace('_', "-"));
                let message = format!("{name} should be dropped by {}, but it was {}", reasons[0], reasons[1]);
                self.fail(failures, element.place, message, index);
            }
        }
        elements.len().min(happened.len())
    }

    fn packet(&self, element: &Element, fact: Fact, place: Place, failures: &mut Diagnostics) {
        let name = self.wanted(element);
        let Some(id) = (0..self.log.packets.len() as u32).find(|id| self.fits(element, *id)) else {
            let error = failures.error(place, format!("{name} was never sent"));
            error.label("expected here").help("packets of a flow are counted from 1");
            return;
        };
        let packet = self.log.packets[id as usize];
        let end = match packet.end {
            None => "is still queued at the end".to_owned(),
            Some((time, EventKind::Dropped(reason))) => {
                format!("was dropped by {} at {}", reason.name().replace('_', "-"), clock(time))
            }
            Some((time, _)) => format!("left at {}", clock(time)),
        };
        let waited = packet.end.map(|(time, _)| time.since(packet.arrived));
        let left = matches!(packet.end, Some((_, EventKind::Left)));
        let problem = match fact {
            Fact::Leaves(window) => match packet.end {
                Some((time, EventKind::Left)) if window.holds(time) => None,
                _ if window == Window::ALWAYS => Some(format!("{name} should leave, but it {end}")),
                _ => Some(format!("{name} should leave {window}, but it {end}")),
            },
            Fact::Dropped(reason, window) => match packet.end {
                Some((time, EventKind::Dropped(actual)))
                    if window.holds(time) && reason.is_none_or(|reason| reason == actual) =>
                {
                    None
                }
                _ => Some(format!("{name} should be dropped, but it {end}")),
            },
            Fact::Waits(low, high) => match waited.filter(|_| left) {
                Some(waited) if low <= waited && waited <= high => None,
                Some(waited) => Some(format!("{name} waited {}, not {}", span(waited), range(low, high))),
                None => Some(format!("{name} should leave, but it {end}")),
            },
            Fact::Ecn(ecn) if left && packet.ecn == ecn => None,
            Fact::Dscp(dscp) if left && packet.dscp == dscp => None,
            Fact::Colour(colour) if left && packet.colour == colour => None,
            Fact::Ecn(_) => Some(format!("{name} {end} with ECN field {}", word(&ECN, packet.ecn))),
            Fact::Dscp(_) => {
                Some(format!("{name} {end} with code point {}", tidegate_config::values::dscp_name(packet.dscp)))
            }
            Fact::Colour(_) => Some(format!("{name} {end}, {}", word(&COLOURS, packet.colour))),
            Fact::Stays if packet.end.is_none() => None,
            Fact::Stays => Some(format!("{name} should stay queued, but it {end}")),
        };
        if let Some(problem) = problem {
            let time = packet.end.map_or(packet.arrived, |(time, _)| time);
            let from = self.log.at(time);
            let index = self.log.records[from..].iter().position(|r| r.id == id && r.time == time).unwrap_or(0) + from;
            self.fail(failures, place, problem, index);
        }
    }

    fn belongs_to(&self, flow: Option<usize>, id: u32) -> bool {
        flow.is_none_or(|flow| flow == self.log.packets[id as usize].flow)
    }

    fn subject(&self, flow: Option<usize>) -> &str {
        flow.map_or("all", |flow| &self.log.names[flow])
    }

    fn count(
        &self,
        flow: Option<usize>,
        what: Counted,
        (low, high): (u64, u64),
        window: Window,
        place: Place,
        failures: &mut Diagnostics,
    ) {
        let records =
            self.log.records.iter().filter(|record| window.holds(record.time) && self.belongs_to(flow, record.id));
        let left = records.clone().filter(|record| record.kind == EventKind::Left);
        let bytes = |record: &crate::Record| self.log.packets[record.id as usize].size.as_u64();
        let (found, text) = match what {
            Counted::Left => (left.count() as u64, "packets left"),
            Counted::LeftBytes => (left.map(bytes).sum(), "bytes left"),
            Counted::Marked => (
                left.filter(|record| self.log.packets[record.id as usize].marked).count() as u64,
                "packets were marked",
            ),
            Counted::Dropped(reason) => {
                let is = |record: &&crate::Record| match (record.kind, reason) {
                    (EventKind::Dropped(actual), Some(reason)) => actual == reason,
                    (EventKind::Dropped(_), None) => true,
                    _ => false,
                };
                (records.filter(is).count() as u64, "packets were dropped")
            }
            Counted::Rate => {
                // The window is half open, so that rates of adjacent windows add up. It is not empty.
                let bits: u128 = left.filter(|r| r.time < window.to).map(|r| u128::from(bytes(r)) * 8).sum();
                let nanos = u128::from(window.to.since(window.from).as_nanos());
                ((bits * 1_000_000_000 / nanos.max(1)) as u64, "bit/s")
            }
        };
        if !(low..=high).contains(&found) {
            let wanted = if low == high { low.to_string() } else { format!("{low} to {high}") };
            let message = format!("of {}, {found} {text} {window}; expected {wanted}", self.subject(flow));
            // The first record that was counted, or the start of the window.
            let drops = matches!(what, Counted::Dropped(_));
            let counted = |record: &crate::Record| match record.kind {
                EventKind::Arrived => false,
                EventKind::Left => !drops,
                EventKind::Dropped(_) => drops,
            };
            let matching = |record: &crate::Record| {
                window.holds(record.time) && self.belongs_to(flow, record.id) && counted(record)
            };
            let index = self.log.records.iter().position(matching).unwrap_or_else(|| self.log.at(window.from));
            self.fail(failures, place, message, index);
        }
    }

    fn waits(&self, flow: Option<usize>, low: Span, high: Span, place: Place, failures: &mut Diagnostics) {
        let waited = |record: &crate::Record| record.time.since(self.log.packets[record.id as usize].arrived);
        let bad = |index: &&usize| {
            let record = &self.log.records[**index];
            self.belongs_to(flow, record.id) && !(low..=high).contains(&waited(record))
        };
        if let Some(&index) = self.departures.iter().find(bad) {
            let record = &self.log.records[index];
            let name = self.log.name(record.id);
            let message = format!("{name} waited {}, not {}", span(waited(record)), range(low, high));
            self.fail(failures, place, message, index);
        } else if !self.departures.iter().any(|index| self.belongs_to(flow, self.log.records[*index].id)) {
            self.fail(failures, place, format!("no packet of {} left", self.subject(flow)), 0);
        }
    }
}

fn range(low: Span, high: Span) -> String {
    if low == high { span(low) } else { format!("{} to {}", span(low), span(high)) }
}

fn word<T: PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("?", |(word, _)| word)
}
