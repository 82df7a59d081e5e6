//! What a script expects, and whether it happened.
//!
//! Expectations of order are taken one after the other: each claims the departures (or drops) behind those that the
//! one before it claimed. All others look at the whole log, or at the state at their time.

use tidegate_config::values::Percent;
use tidegate_config::{Diagnostics, Place, Scalar, suggest};
use tidegate_core::{Backlog, Bytes, Colour, Deadline, DropReason, Dscp, Ecn, Instant, Rate, Span};

use crate::log::{Log, What, clock, span};
use crate::parse::fields::{COLOURS, ECN, one_of};
use crate::parse::{Cursor, Parsed, Parser};

/// A span of time, both ends in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    from: Instant,
    to: Instant,
}

impl Window {
    const ALWAYS: Self = Self { from: Instant::ZERO, to: Instant::MAX };
    fn around(time: Instant, slack: Span) -> Self {
        Self { from: time.saturating_sub(slack), to: time + slack }
    }
    fn holds(&self, time: Instant) -> bool {
        self.from <= time && time <= self.to
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.from == self.to {
            write!(f, "at {}", clock(self.from))
        } else if self.to == Instant::MAX {
            write!(f, "from {}", clock(self.from))
        } else {
            write!(f, "from {} to {}", clock(self.from), clock(self.to))
        }
    }
}

/// A packet of an order: any of its flow, or one by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Element {
    flow: usize,
    number: Option<u32>,
    place: Place,
}

/// What is expected of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fact {
    Leaves(Window),
    Dropped(Option<DropReason>, Window),
    Waits(Span, Span),
    Ecn(Ecn),
    Dscp(Dscp),
    Colour(Colour),
    Stays,
}

/// What is counted of flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counted {
    Left,
    LeftBytes,
    Dropped(Option<DropReason>),
    Marked,
    Rate,
}

/// What is expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    Order {
        elements: Vec<Element>,
        window: Option<Window>,
    },
    Drops {
        elements: Vec<Element>,
        reason: Option<DropReason>,
        window: Option<Window>,
    },
    Packet {
        packet: Element,
        fact: Fact,
    },
    /// `None` is all flows.
    Count {
        flow: Option<usize>,
        what: Counted,
        low: u64,
        high: u64,
        window: Window,
    },
    Waits {
        flow: Option<usize>,
        low: Span,
        high: Span,
    },
    Nothing(Window),
    NothingElse,
    Backlog {
        packets: u64,
        bytes: Option<Bytes>,
    },
    Deadline(Deadline),
}

/// An expectation and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expectation {
    pub(crate) place: Place,
    pub(crate) expect: Expect,
}

impl Expectation {
    pub(crate) fn looks_at_state(&self) -> bool {
        matches!(self.expect, Expect::Backlog { .. } | Expect::Deadline(_))
    }
}

/// The words that end a list of packets.
const AFTER_ITEMS: [&str; 3] = ["at", "from", "by"];
/// The words that follow one packet or one flow.
const VERBS: [&str; 10] = ["leaves", "dropped", "waits", "ecn", "dscp", "colour", "stays", "left", "marked", "rate"];

/// Reads what follows `expect`. `at` is the time before it on the line.
pub(crate) fn parse(parser: &mut Parser<'_>, line: &mut Cursor<'_>, at: Option<Instant>) -> Parsed<Expectation> {
    let begin = line.place();
    let expect = match line.peek_word() {
        Some("nothing") => {
            line.skip();
            if line.take_word("else") {
                Expect::NothingElse
            } else {
                Expect::Nothing(window(parser, line, at)?.unwrap_or(Window::ALWAYS))
            }
        }
        Some("backlog") => {
            line.skip();
            let packets = line.number(parser, u64::MAX)?;
            let _ = line.take_word("packets") || line.take_word("packet");
            Expect::Backlog { packets, bytes: if line.is_done() { None } else { Some(line.scalar(parser)?) } }
        }
        Some("deadline") => {
            line.skip();
            Expect::Deadline(if line.take_word("now") {
                Deadline::Now
            } else if line.take_word("idle") {
                Deadline::Idle
            } else {
                Deadline::At(instant(parser, line)?)
            })
        }
        Some("drop") => {
            line.skip();
            let elements = elements(parser, line)?;
            let reason = reason(parser, line)?;
            Expect::Drops { elements, reason, window: window(parser, line, at)? }
        }
        Some(_) if line.peek_second().is_some_and(|word| VERBS.contains(&word)) => about(parser, line, at)?,
        _ => Expect::Order { elements: elements(parser, line)?, window: window(parser, line, at)? },
    };
    let end = line.place().start.max(begin.end);
    Ok(Expectation { place: Place { start: begin.start, end }, expect })
}

fn instant(parser: &mut Parser<'_>, line: &mut Cursor<'_>) -> Parsed<Instant> {
    Ok(Instant::from_nanos(line.scalar::<Span>(parser)?.as_nanos()))
}

/// `+-10us`, `+- 10us` or `±10us`: what follows the sign.
fn tolerance<T: Scalar>(parser: &mut Parser<'_>, line: &mut Cursor<'_>) -> Parsed<Option<T>> {
    let Some(word) = line.peek_word() else { return Ok(None) };
    let Some(rest) = word.strip_prefix("+-").or_else(|| word.strip_prefix('±')) else { return Ok(None) };
    let place = line.place();
    line.skip();
    if rest.is_empty() {
        return line.scalar(parser).map(Some);
    }
    match T::from_text(rest) {
        Ok(value) => Ok(Some(value)),
        Err(wrong) => parser.error(place, wrong.message, wrong.help),
    }
}

fn window(parser: &mut Parser<'_>, line: &mut Cursor<'_>, at: Option<Instant>) -> Parsed<Option<Window>> {
    if line.take_word("at") {
        let time = instant(parser, line)?;
        let slack = tolerance(parser, line)?.unwrap_or(Span::ZERO);
        return Ok(Some(Window::around(time, slack)));
    }
    if line.take_word("from") {
        let place = line.place();
        let from = instant(parser, line)?;
        line.expect_word(parser, "to")?;
        let to = instant(parser, line)?;
        if to < from {
            return parser.error(place, "this time ends before it begins", "write the earlier time first");
        }
        return Ok(Some(Window { from, to }));
    }
    Ok(at.map(|time| Window::around(time, Span::ZERO)))
}

/// `by early`.
fn reason(parser: &mut Parser<'_>, line: &mut Cursor<'_>) -> Parsed<Option<DropReason>> {
    if !line.take_word("by") {
        return Ok(None);
    }
    let word = line.word(parser, "the reason of a drop", "by queue-limit")?;
    let wanted = word.text.replace('-', "_");
    match DropReason::ALL.into_iter().find(|reason| reason.name() == wanted) {
        Some(reason) => Ok(Some(reason)),
        None => {
            let names = DropReason::ALL.map(|reason| reason.name().replace('_', "-"));
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let message = format!("`{}` is not the reason of a drop", word.text);
            parser.error(word.place, message, suggest::help(word.text, &names))
        }
    }
}

/// One packet: `a` or `a#3`.
fn element(parser: &mut Parser<'_>, line: &mut Cursor<'_>) -> Parsed<Element> {
    let word = line.word(parser, "a packet", "a, or a#3 for the third of a")?;
    let (name, number) = match word.text.split_once('#') {
        None => (word.text, None),
        Some((name, number)) => match number.parse::<u32>() {
            Ok(number) if number > 0 => (name, Some(number)),
            _ => {
                let message = format!("`{number}` is not the number of a packet");
                return parser.error(word.place, message, "packets of a flow are counted from 1: a#1 is the first");
            }
        },
    };
    Ok(Element { flow: parser.lookup(name, word.place)?, number, place: word.place })
}

/// Packets up to the end of the line or a word that ends them.
fn elements(parser: &mut Parser<'_>, line: &mut Cursor<'_>) -> Parsed<Vec<Element>> {
    let mut elements: Vec<Element> = Vec::new();
    while let Some(word) = line.peek_word().filter(|word| !AFTER_ITEMS.contains(word)) {
        let place = line.place();
        let mut count = 1;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            count = line.number(parser, 1_000_000)?;
        }
        let element = element(parser, line)?;
        if count != 1 && element.number.is_some() {
            return parser.error(place, "one packet cannot be several", "write 3 a, or a#1 a#2 a#3");
        }
        if elements.len() as u64 + count > 1_000_000 {
            return parser.error(place, "more packets than a script can send", "expect a count: expect a left 3000");
        }
        elements.extend((0..count).map(|_| element));
    }
    if elements.is_empty() {
        return parser.error(line.place(), "what to expect is missing", "write for example expect a b a");
    }
    Ok(elements)
}

/// `a#3 leaves at 5ms`, `a left 30`, `all waits < 5ms`.
fn about(parser: &mut Parser<'_>, line: &mut Cursor<'_>, at: Option<Instant>) -> Parsed<Expect> {
    let place = line.place();
    let subject = if line.take_word("all") { None } else { Some(element(parser, line)?) };
    let verb = line.word(parser, "a verb", "leaves")?;
    if let Some(packet @ Element { number: Some(_), .. }) = subject {
        let fact = match verb.text {
            "leaves" => Fact::Leaves(window(parser, line, at)?.unwrap_or(Window::ALWAYS)),
            "dropped" => {
                let reason = reason(parser, line)?;
                Fact::Dropped(reason, window(parser, line, at)?.unwrap_or(Window::ALWAYS))
            }
            "waits" => {
                let (low, high) = bound(parser, line)?;
                Fact::Waits(low, high)
            }
            "ecn" => Fact::Ecn(one_of(parser, line, "an ECN field", &ECN)?),
            "dscp" => Fact::Dscp(line.scalar(parser)?),
            "colour" => Fact::Colour(one_of(parser, line, "a colour", &COLOURS)?),
            "stays" => Fact::Stays,
            other => {
                let help = "leave out its number to speak of the flow";
                return parser.error(verb.place, format!("one packet cannot be counted by `{other}`"), help);
            }
        };
        return Ok(Expect::Packet { packet, fact });
    }
    let flow = subject.map(|element| element.flow);
    // What is counted up to a time is counted from the beginning.
    let until = |time: Option<Window>| match time {
        Some(window) => window,
        None => Window { from: Instant::ZERO, to: at.unwrap_or(Instant::MAX) },
    };
    match verb.text {
        "waits" => {
            let (low, high) = bound(parser, line)?;
            Ok(Expect::Waits { flow, low, high })
        }
        "rate" => {
            let rate = line.scalar::<Rate>(parser)?.as_bps();
            let slack = tolerance::<Percent>(parser, line)?.map_or(0, |part| part.of(rate));
            let place = line.place();
            match window(parser, line, None)? {
                Some(window) if window.from < window.to => Ok(Expect::Count {
                    flow,
                    what: Counted::Rate,
                    low: rate - slack,
                    high: rate.saturating_add(slack),
                    window,
                }),
                _ => parser.error(place, "a rate needs a time to be measured over", "end with from 1s to 2s"),
            }
        }
        "left" | "dropped" | "marked" => {
            let in_bytes = verb.text == "left" && line.peek_word().is_some_and(|word| word.parse::<u64>().is_err());
            let count = if in_bytes { line.scalar::<Bytes>(parser)?.as_u64() } else { line.number(parser, u64::MAX)? };
            let slack = if in_bytes {
                tolerance::<Bytes>(parser, line)?.map_or(0, Bytes::as_u64)
            } else {
                tolerance::<Whole>(parser, line)?.map_or(0, |whole| whole.0)
            };
            let what = match verb.text {
                "left" if in_bytes => Counted::LeftBytes,
                "left" => Counted::Left,
                "marked" => Counted::Marked,
                _ => Counted::Dropped(reason(parser, line)?),
            };
            let window = until(window(parser, line, None)?);
            Ok(Expect::Count {
                flow,
                what,
                low: count.saturating_sub(slack),
                high: count.saturating_add(slack),
                window,
            })
        }
        other => parser.error(
            place,
            format!("`{other}` is said of one packet, not of a flow"),
            "name the packet: a#1 is the first of flow a",
        ),
    }
}

/// A whole number as a tolerance.
struct Whole(u64);

impl Scalar for Whole {
    const WANTED: &'static str = "whole number";
    const EXAMPLE: &'static str = "2";
    fn from_text(text: &str) -> Result<Self, tidegate_config::decode::Wrong> {
        text.parse().map(Self).map_err(|_| tidegate_config::decode::Wrong {
            message: format!("`{text}` is not a whole number"),
            help: "write for example +-2".into(),
        })
    }
}

/// `< 5ms`, `5ms`, `5ms +-1us`: from and to, both allowed.
fn bound(parser: &mut Parser<'_>, line: &mut Cursor<'_>) -> Parsed<(Span, Span)> {
    if line.take_word("<") {
        let high: Span = line.scalar(parser)?;
        return Ok((Span::ZERO, high.saturating_sub(Span::from_nanos(1))));
    }
    let middle: Span = line.scalar(parser)?;
    let slack: Span = tolerance(parser, line)?.unwrap_or(Span::ZERO);
    Ok((middle.saturating_sub(slack), middle + slack))
}

/// Tells in `failures` what the state is, if it is not what was expected.
pub(crate) fn look(
    expectation: &Expectation,
    now: Instant,
    backlog: Backlog,
    deadline: Deadline,
    failures: &mut Diagnostics,
) {
    match expectation.expect {
        Expect::Backlog { packets, bytes }
            if backlog.packets != packets || bytes.is_some_and(|bytes| bytes != backlog.bytes) =>
        {
            let message = format!("at {} {} packets wait, {}", clock(now), backlog.packets, backlog.bytes);
            failures.error(expectation.place, message).label("expected otherwise");
        }
        Expect::Deadline(wanted) => {
            // A deadline that has come is now.
            let wanted = wanted.instant(now).map_or(Deadline::Idle, |time| Deadline::at(time, now));
            if deadline != wanted {
                let text = match deadline {
                    Deadline::Now => "now".into(),
                    Deadline::Idle => "idle: nothing will happen".into(),
                    Deadline::At(time) => clock(time),
                };
                let message = format!("at {} the deadline is {text}", clock(now));
                failures.error(expectation.place, message).label("expected otherwise");
            }
        }
        _ => {}
    }
}

/// Compares a log with expectations.
pub(crate) struct Judge<'a> {
    log: &'a Log,
    departures: Vec<usize>,
    drops: Vec<usize>,
    departed: usize,
    dropped: usize,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(log: &'a Log) -> Self {
        Self {
            log,
            departures: log.departures().map(|(index, _)| index).collect(),
            drops: log.drops().map(|(index, _)| index).collect(),
            departed: 0,
            dropped: 0,
        }
    }

    pub(crate) fn judge(&mut self, expectation: &Expectation, failures: &mut Diagnostics) {
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
                let happened = |record: &crate::Record| record.what != What::Arrived && window.holds(record.time);
                if let Some(index) = self.log.records.iter().position(happened) {
                    self.fail(failures, place, format!("something happened {window}"), index);
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
            Expect::Backlog { .. } | Expect::Deadline(_) => {}
        }
    }

    /// An error at `place`, with what happened around record `index`.
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

    /// How many of `happened` the elements claim: all of theirs, right or wrong, so that what follows is not blamed.
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
                // The rest would only say the same again.
                break;
            }
            if let Some(window) = window.filter(|window| !window.holds(record.time)) {
                let message = format!("{wanted} should {verb} {window}, but {name} {past} at {time}");
                self.fail(failures, element.place, message, index);
            }
            if let (Some(reason), What::Dropped(actual)) = (reason, record.what)
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
            None => "still waits at the end".to_owned(),
            Some((time, What::Dropped(reason))) => {
                format!("was dropped by {} at {}", reason.name().replace('_', "-"), clock(time))
            }
            Some((time, _)) => format!("left at {}", clock(time)),
        };
        let waited = packet.end.map(|(time, _)| time.since(packet.arrived));
        let left = matches!(packet.end, Some((_, What::Left)));
        let problem = match fact {
            Fact::Leaves(window) => match packet.end {
                Some((time, What::Left)) if window.holds(time) => None,
                _ if window == Window::ALWAYS => Some(format!("{name} should leave, but it {end}")),
                _ => Some(format!("{name} should leave {window}, but it {end}")),
            },
            Fact::Dropped(reason, window) => match packet.end {
                Some((time, What::Dropped(actual)))
                    if window.holds(time) && reason.is_none_or(|reason| reason == actual) =>
                {
                    None
                }
                _ => Some(format!("{name} should be dropped otherwise: it {end}")),
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
            Fact::Stays => Some(format!("{name} should wait to the end, but it {end}")),
        };
        if let Some(problem) = problem {
            let time = packet.end.map_or(packet.arrived, |(time, _)| time);
            let from = self.log.at(time);
            let index = self.log.records[from..].iter().position(|r| r.id == id && r.time == time).unwrap_or(0) + from;
            self.fail(failures, place, problem, index);
        }
    }

    fn of(&self, flow: Option<usize>, id: u32) -> bool {
        flow.is_none_or(|flow| flow == self.log.packets[id as usize].flow)
    }

    fn who(&self, flow: Option<usize>) -> &str {
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
        let records = self.log.records.iter().filter(|record| window.holds(record.time) && self.of(flow, record.id));
        let left = records.clone().filter(|record| record.what == What::Left);
        let bytes = |record: &crate::Record| self.log.packets[record.id as usize].size.as_u64();
        let (found, text) = match what {
            Counted::Left => (left.count() as u64, "packets left"),
            Counted::LeftBytes => (left.map(bytes).sum(), "bytes left"),
            Counted::Marked => (
                left.filter(|record| self.log.packets[record.id as usize].marked).count() as u64,
                "packets were marked",
            ),
            Counted::Dropped(reason) => {
                let is = |record: &&crate::Record| match (record.what, reason) {
                    (What::Dropped(actual), Some(reason)) => actual == reason,
                    (What::Dropped(_), None) => true,
                    _ => false,
                };
                (records.filter(is).count() as u64, "packets were dropped")
            }
            Counted::Rate => {
                // Half open, so that rates of neighbouring times add up; the window is not empty.
                let bits: u128 = left.filter(|r| r.time < window.to).map(|r| u128::from(bytes(r)) * 8).sum();
                let nanos = u128::from(window.to.since(window.from).as_nanos());
                ((bits * 1_000_000_000 / nanos.max(1)) as u64, "bit/s")
            }
        };
        if !(low..=high).contains(&found) {
            let wanted = if low == high { low.to_string() } else { format!("{low} to {high}") };
            let message = format!("of {}, {found} {text} {window}; expected {wanted}", self.who(flow));
            // The first that was counted, or where the counting began.
            let drops = matches!(what, Counted::Dropped(_));
            let counted = |record: &crate::Record| match record.what {
                What::Arrived => false,
                What::Left => !drops,
                What::Dropped(_) => drops,
            };
            let of = |record: &crate::Record| window.holds(record.time) && self.of(flow, record.id) && counted(record);
            let index = self.log.records.iter().position(of).unwrap_or_else(|| self.log.at(window.from));
            self.fail(failures, place, message, index);
        }
    }

    fn waits(&self, flow: Option<usize>, low: Span, high: Span, place: Place, failures: &mut Diagnostics) {
        let waited = |record: &crate::Record| record.time.since(self.log.packets[record.id as usize].arrived);
        let bad = |index: &&usize| {
            let record = &self.log.records[**index];
            self.of(flow, record.id) && !(low..=high).contains(&waited(record))
        };
        if let Some(&index) = self.departures.iter().find(bad) {
            let record = &self.log.records[index];
            let name = self.log.name(record.id);
            let message = format!("{name} waited {}, not {}", span(waited(record)), range(low, high));
            self.fail(failures, place, message, index);
        } else if !self.departures.iter().any(|index| self.of(flow, self.log.records[*index].id)) {
            self.fail(failures, place, format!("nothing of {} left at all", self.who(flow)), 0);
        }
    }
}

fn range(low: Span, high: Span) -> String {
    if low == high { span(low) } else { format!("{} to {}", span(low), span(high)) }
}

fn word<T: PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("?", |(word, _)| word)
}
