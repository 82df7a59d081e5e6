//! Parses expectations: the text after `expect` in a script.

use tidegate_config::values::Percent;
use tidegate_config::{Place, Scalar, suggest};
use tidegate_core::{Bytes, Deadline, DropReason, Instant, Rate, Span};

use super::cursor::Cursor;
use super::fields::{COLOURS, ECN, one_of};
use super::parser::{Parsed, Parser};
use crate::expect::{ClassFact, Counted, Element, Expect, Expectation, Fact, Window};

/// The words that end a list of packets.
const AFTER_ITEMS: [&str; 3] = ["at", "from", "by"];
/// The words that follow one packet or one flow.
const VERBS: [&str; 10] = ["leaves", "dropped", "waits", "ecn", "dscp", "colour", "stays", "left", "marked", "rate"];

/// Parses the text after `expect`. `at` is the time that precedes it on the line.
pub(super) fn parse(parser: &mut Parser<'_>, line: &mut Cursor<'_>, at: Option<Instant>) -> Parsed<Expectation> {
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
        Some("class") => {
            line.skip();
            let name = line.word(parser, "a class", "class voice lent 3")?.text.to_owned();
            Expect::Class { name, fact: class_fact(parser, line)? }
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

/// The quantities of a class of CBQ, for "did you mean".
const CLASS_FACTS: [&str; 7] = ["borrowed", "lent", "overlimit", "regulated", "avgidle", "credit", "under-time"];

/// Parses a quantity of a class of CBQ: `lent 3`, `avgidle -2ms +-1us`, `under-time 12ms`, `under-time none`.
fn class_fact(parser: &mut Parser<'_>, line: &mut Cursor<'_>) -> Parsed<ClassFact> {
    let quantity = line.word(parser, "a quantity of the class", "lent 3")?;
    Ok(match quantity.text {
        "borrowed" => ClassFact::Borrowed(line.number(parser, u64::MAX)?),
        "lent" => ClassFact::Lent(line.number(parser, u64::MAX)?),
        "overlimit" => ClassFact::Overlimit(line.number(parser, u64::MAX)?),
        "regulated" => ClassFact::Regulated(line.number(parser, u64::MAX)?),
        "avgidle" => {
            let (low, high) = signed(parser, line, Span::as_nanos)?;
            ClassFact::Idle(low, high)
        }
        "credit" => {
            let (low, high) = signed(parser, line, Bytes::as_u64)?;
            ClassFact::Credit(low, high)
        }
        "under-time" if line.take_word("none") => ClassFact::UnderTime(None),
        "under-time" => {
            let time = instant(parser, line)?;
            let slack = tolerance(parser, line)?.unwrap_or(Span::ZERO);
            ClassFact::UnderTime(Some(Window::around(time, slack)))
        }
        other => {
            let help = suggest::help(other, &CLASS_FACTS);
            return parser.error(quantity.place, format!("a class of CBQ has no quantity `{other}`"), help);
        }
    })
}

/// Parses a quantity that may be negative, `-2ms +-1us`, and returns the lower and the upper bound, both included.
fn signed<T: Scalar>(parser: &mut Parser<'_>, line: &mut Cursor<'_>, raw: fn(T) -> u64) -> Parsed<(i64, i64)> {
    let place = line.place();
    let number = |value: T| i64::try_from(raw(value)).unwrap_or(i64::MAX);
    let middle = match line.peek_word().and_then(|word| word.strip_prefix('-')) {
        Some(rest) => {
            line.skip();
            match T::from_text(rest) {
                Ok(value) => -number(value),
                Err(wrong) => return parser.error(place, wrong.message, wrong.help),
            }
        }
        None => number(line.scalar(parser)?),
    };
    let slack = tolerance(parser, line)?.map_or(0, number);
    Ok((middle.saturating_sub(slack), middle.saturating_add(slack)))
}

fn instant(parser: &mut Parser<'_>, line: &mut Cursor<'_>) -> Parsed<Instant> {
    Ok(Instant::from_nanos(line.scalar::<Span>(parser)?.as_nanos()))
}

/// Parses a tolerance, if there is one: `+-10us`, `+- 10us` or `±10us`.
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

/// Parses the reason of a drop, if there is one: `by early`.
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

/// Parses one packet: `a` or `a#3`.
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

/// Parses packets up to the end of the line or to a word that ends the list.
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
            return parser.error(place, "one packet cannot have a count", "write 3 a, or a#1 a#2 a#3");
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

/// Parses an expectation about one packet or flow: `a#3 leaves at 5ms`, `a left 30`, `all waits < 5ms`.
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
                let help = "leave out its number to refer to the flow";
                return parser.error(verb.place, format!("`{other}` counts packets of a flow, not one packet"), help);
            }
        };
        return Ok(Expect::Packet { packet, fact });
    }
    let flow = subject.map(|element| element.flow);
    // Counts up to a given time begin at the start of the run.
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
            format!("`{other}` applies to one packet, not to a flow"),
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

/// Parses `< 5ms`, `5ms` or `5ms +-1us` and returns the lower and the upper bound, both included.
fn bound(parser: &mut Parser<'_>, line: &mut Cursor<'_>) -> Parsed<(Span, Span)> {
    if line.take_word("<") {
        let place = line.place();
        let high: Span = line.scalar(parser)?;
        if high.is_zero() {
            return parser.error(place, "no packet waits less than 0", "write 0ms for what leaves at once");
        }
        return Ok((Span::ZERO, high.saturating_sub(Span::from_nanos(1))));
    }
    let middle: Span = line.scalar(parser)?;
    let slack: Span = tolerance(parser, line)?.unwrap_or(Span::ZERO);
    Ok((middle.saturating_sub(slack), middle + slack))
}
