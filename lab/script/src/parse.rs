//! Parses text into a [`Script`], and reports all errors of a text at once.
//!
//! # Grammar
//! A line is a statement; `#` begins a comment; commas count as spaces.
//!
//! ```text
//! statement   = setup | [when] action
//! setup       = "discipline" table | "config" (table | "FILE") | "seed" N
//!             | "flow" NAME... field...      | "until" TIME
//! when        = "at" TIME | "after" TIME
//! action      = "send" item... ["every" TIME] field... | "send" [N] NAME ":" field...
//!             | "link" (RATE | "open" | "closed") ["late" TIME]
//!             | "reconfigure" (table | "FILE")
//!             | "take" [N] | "serve" | "advance" TIME | "time" "back" TIME | "expect" expectation
//! field       = "udp" | "tcp" | "icmp" | "protocol" N | ADDRESS[:PORT] ">" ADDRESS[:PORT] | "size" BYTES
//!             | "dscp" NAME | "ecn" NAME | "colour" NAME | "mark" N | "uid" N | "class" NAME | "profile" N
//!             | "segments" N | "ack"
//! item        = [N] NAME["#"N]
//! expectation = item... [window] | "drop" item... ["by" REASON] [window]
//!             | NAME"#"N ("leaves" window | "dropped" ["by" REASON] [window] | "waits" bound
//!                         | "ecn" NAME | "dscp" NAME | "colour" NAME | "stays")
//!             | who ("left" (N | BYTES) | "dropped" N ["by" REASON] | "marked" N) [tolerance] [window]
//!             | who "rate" RATE [tolerance] "from" TIME "to" TIME | who "waits" bound
//!             | "nothing" ["else" | window]
//!             | "backlog" N [BYTES] | "deadline" ("now" | "idle" | TIME)
//!             | "class" NAME (("borrowed" | "lent" | "overlimit" | "regulated") N | "avgidle" ["-"]TIME [tolerance]
//!                         | "credit" ["-"]BYTES [tolerance] | "under-time" (TIME [tolerance] | "none"))
//! who         = NAME | "all"
//! window      = "at" TIME [tolerance] | "from" TIME "to" TIME
//! bound       = "<" TIME | TIME [tolerance]
//! tolerance   = "+-" (N | TIME | PERCENT)
//! table       = a TOML table on the line, or TOML between "{" and a line "}"
//! ```

mod cursor;
mod expectation;
pub(crate) mod fields;
mod parser;

use std::collections::HashMap;

use tidegate_config::discipline::Discipline;
use tidegate_config::node::{Node, Value};
use tidegate_config::shaper::{self, Config};
use tidegate_config::{Decode, Diagnostics, Place, Source, suggest};
use tidegate_core::{Instant, Rate, Span};

use crate::findings::Findings;
use crate::lex::{self, Kind};
use crate::script::{Action, Files, Flow, Limits, Link, Script, Step, Subject};
use cursor::Cursor;
use parser::{Parsed, Parser, Reported};

impl Script {
    /// Parses `source`. `files` opens the files to which it refers.
    ///
    /// # Errors
    /// [`Findings`] with all errors of the text.
    pub fn parse(source: Source, limits: &Limits, files: &mut Files<'_>) -> Result<Self, Findings> {
        let mut parser = Parser::new(&source, *limits);
        for line in lex::lines(source.text(), &mut parser.diagnostics) {
            let mut cursor = Cursor::new(&line);
            // The error of a statement has been reported; parsing continues with the next line.
            let _ = parser.statement(&mut cursor, files);
        }
        let Parser { diagnostics, foreign, mut script, .. } = parser;
        if diagnostics.errors() > 0 || !foreign.is_empty() {
            let mut list = foreign;
            list.push((source.clone(), diagnostics));
            return Err(Findings { list });
        }
        // Steps at equal times keep the order of the text.
        script.steps.sort_by_key(|step| step.time);
        script.source = source;
        Ok(script)
    }
}

/// The statements, for "did you mean".
const STATEMENTS: [&str; 15] = [
    "send",
    "at",
    "after",
    "discipline",
    "config",
    "reconfigure",
    "seed",
    "flow",
    "until",
    "link",
    "take",
    "serve",
    "advance",
    "time",
    "expect",
];

/// Other words that have a meaning where the name of a flow may stand. The words of statements and fields are reserved
/// as well.
const RESERVED: [&str; 10] = ["every", "drop", "by", "from", "all", "nothing", "backlog", "deadline", "to", "else"];

impl Parser<'_> {
    fn statement(&mut self, line: &mut Cursor<'_>, files: &mut Files<'_>) -> Parsed<()> {
        let place = line.place();
        let mut timed = false;
        loop {
            let word = line.word(self, "a statement", "at 0ms send a")?;
            match word.text {
                "at" if !timed => {
                    self.now = self.time_of_statement(line)?;
                    timed = true;
                }
                "after" if !timed => {
                    let span = line.scalar::<Span>(self)?;
                    self.now += span;
                    timed = true;
                }
                "advance" => {
                    let span = line.scalar::<Span>(self)?;
                    self.now += span;
                    self.step(place, Action::Pass);
                    return line.end(self);
                }
                "discipline" | "config" | "seed" | "flow" | "until" if timed => {
                    let name = word.text;
                    return self.error(
                        word.place,
                        format!("`{name}` applies to the whole script and has no time"),
                        "put it on a line of its own, without `at` or `after`",
                    );
                }
                "discipline" => return self.discipline(line, word.place),
                "config" => return self.config(line, word.place, files),
                "reconfigure" => return self.reconfigure(line, word.place, files),
                "seed" => {
                    self.script.seed = line.number(self, u64::MAX)?;
                    return line.end(self);
                }
                "until" => {
                    self.script.until = Some(Instant::from_nanos(line.scalar::<Span>(self)?.as_nanos()));
                    return line.end(self);
                }
                "flow" => return self.flow(line),
                "send" => return self.send(line, place),
                "link" => {
                    let action = self.link(line)?;
                    self.step(place, action);
                    return line.end(self);
                }
                "take" => {
                    let most = self.script.limits.calls;
                    let times = if line.is_done() { 1 } else { line.number(self, most)? };
                    self.step(place, Action::Take(times));
                    return line.end(self);
                }
                "serve" => {
                    self.step(place, Action::Serve);
                    return line.end(self);
                }
                "time" => {
                    line.expect_word(self, "back")?;
                    let span = line.scalar::<Span>(self)?;
                    self.step(place, Action::Back(span));
                    return line.end(self);
                }
                "expect" => {
                    let expectation = expectation::parse(self, line, timed.then_some(self.now))?;
                    let number = self.script.expectations.len();
                    let about_state = expectation.is_about_state();
                    self.script.expectations.push(expectation);
                    if about_state {
                        self.step(place, Action::CheckState(number));
                    }
                    return line.end(self);
                }
                other => {
                    let help = suggest::help(other, &STATEMENTS);
                    return self.error(word.place, format!("`{other}` is not a statement"), help);
                }
            }
        }
    }

    /// The time after `at`, which must not be earlier than the statement before.
    fn time_of_statement(&mut self, line: &mut Cursor<'_>) -> Parsed<Instant> {
        let place = line.place();
        let time = Instant::from_nanos(line.scalar::<Span>(self)?.as_nanos());
        if time < self.now {
            let now = crate::log::clock(self.now);
            return self.error(
                place,
                format!("this is earlier than {now}, where the script is already"),
                "statements must be in the order of time; `time back 1ms` makes a call with an earlier time",
            );
        }
        Ok(time)
    }

    fn step(&mut self, place: Place, action: Action) {
        self.script.steps.push(Step { time: self.now, place, action });
    }

    fn link(&mut self, line: &mut Cursor<'_>) -> Parsed<Action> {
        let link = match line.peek_word() {
            Some("open") => Link::Open,
            Some("closed") => Link::Closed,
            _ => {
                let place = line.place();
                let rate = line.scalar::<Rate>(self)?;
                if rate == Rate::from_bps(0) {
                    return self.error(place, "nothing can leave through a link of rate 0", "write `link closed`");
                }
                line.back();
                Link::Rate(rate)
            }
        };
        line.skip();
        let late = if line.take_word("late") { line.scalar::<Span>(self)? } else { Span::ZERO };
        Ok(Action::Link { link, late })
    }

    fn once(&mut self, place: Place) -> Parsed<()> {
        if self.script.subject.is_some() {
            let first = self.script.subject_place;
            self.diagnostics
                .error(place, "a script runs on one discipline or one configuration")
                .label("a second one")
                .related(first, "the first is here")
                .help("write a second script, or compare configurations with `tidegate replay`");
            return Err(Reported);
        }
        self.script.subject_place = place;
        Ok(())
    }

    /// The text of the script with everything but a table blanked out, so that positions in it are positions in the
    /// script.
    fn masked(&self, place: Place, kind: Kind) -> String {
        let mut bytes: Vec<u8> = self.text.bytes().map(|b| if b == b'\n' { b } else { b' ' }).collect();
        bytes[place.start..place.end].copy_from_slice(&self.text.as_bytes()[place.start..place.end]);
        if kind == Kind::Inline {
            // The word before the table leaves room for a key; a statement never begins with a table.
            bytes[place.start - 2..place.start].copy_from_slice(b"t=");
        }
        // The text remains valid: whole characters were kept or replaced.
        String::from_utf8(bytes).unwrap_or_default()
    }

    fn table(&mut self, place: Place, kind: Kind) -> Parsed<Node> {
        let source = Source::new("", self.masked(place, kind));
        let node = Node::parse(&source, &mut self.diagnostics).ok_or(Reported)?;
        match node.value {
            Value::Table(mut entries) if kind == Kind::Inline && !entries.is_empty() => Ok(entries.swap_remove(0).node),
            value => Ok(Node { place, value }),
        }
    }

    fn discipline(&mut self, line: &mut Cursor<'_>, word: Place) -> Parsed<()> {
        let Some(token) = line.take_kind(&[Kind::Inline, Kind::Block]) else {
            return self.error(word, "`discipline` lacks its table", "write discipline { kind = \"fifo\" }");
        };
        self.once(word)?;
        let node = self.table(token.place, token.kind)?;
        let discipline = Discipline::decode(&node, &mut self.diagnostics).ok_or(Reported)?;
        discipline.check(node.place, &mut self.diagnostics);
        self.script.subject = Some(Subject::Discipline(Box::new(discipline)));
        line.end(self)
    }

    fn config(&mut self, line: &mut Cursor<'_>, word: Place, files: &mut Files<'_>) -> Parsed<()> {
        self.once(word)?;
        let config = self.shaper_file(line, word, files)?;
        self.script.subject = Some(Subject::Config(Box::new(config)));
        line.end(self)
    }

    fn reconfigure(&mut self, line: &mut Cursor<'_>, word: Place, files: &mut Files<'_>) -> Parsed<()> {
        if !matches!(self.script.subject, Some(Subject::Config(_))) {
            return self.error(
                word,
                "only a script that runs on a configuration can change it",
                "begin the script with config { and the lines of a shaper file and }",
            );
        }
        let config = self.shaper_file(line, word, files)?;
        self.script.configs.push(config);
        self.step(word, Action::Reconfigure(self.script.configs.len() - 1));
        line.end(self)
    }

    /// The shaper file that a statement names or contains between braces.
    fn shaper_file(&mut self, line: &mut Cursor<'_>, word: Place, files: &mut Files<'_>) -> Parsed<Config> {
        let Some(token) = line.take_kind(&[Kind::Text, Kind::Block]) else {
            return self.error(
                word,
                "the shaper file is missing",
                "write config \"shaper.toml\", or config { and the lines of the file and }",
            );
        };
        if token.kind == Kind::Block {
            let source = Source::new("", self.masked(token.place, token.kind));
            return shaper::load(&source, &mut self.diagnostics).ok_or(Reported);
        }
        let source = match files(token.text) {
            Ok(source) => source,
            Err(why) => return self.error(token.place, why, "the path is relative to the script"),
        };
        let mut diagnostics = Diagnostics::new();
        let config = shaper::load(&source, &mut diagnostics);
        if config.is_none() {
            self.foreign.push((source, diagnostics));
            self.diagnostics.error(token.place, "this file has errors").help("they are listed with it");
        }
        config.ok_or(Reported)
    }

    fn flow(&mut self, line: &mut Cursor<'_>) -> Parsed<()> {
        let mut names = Vec::new();
        while line.peek_word().is_some_and(|word| !fields::begins(word)) {
            let word = line.word(self, "the name of a flow", "flow a")?;
            names.push((word.text, word.place));
            line.take_kind(&[Kind::Colon]);
        }
        if names.is_empty() {
            return self.error(line.place(), "`flow` lacks a name", "write for example flow a, b size 1000");
        }
        let start = line.mark();
        for (name, place) in names {
            line.reset(start);
            self.define(name, place, line)?;
        }
        line.end(self)
    }

    /// Defines flow `name` with the fields that follow.
    fn define(&mut self, name: &str, place: Place, line: &mut Cursor<'_>) -> Parsed<usize> {
        if let Some(known) = self.names.get(name) {
            let first = self.script.flows[*known].place;
            self.diagnostics
                .error(place, format!("flow `{name}` is defined twice"))
                .related(first, "first here")
                .help("choose another name; `send a size 500` changes a field of some packets only");
            return Err(Reported);
        }
        let sound = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        let reserved = [&STATEMENTS[..], &fields::FIELDS, &RESERVED].iter().any(|words| words.contains(&name));
        if !sound || reserved {
            return self.error(
                place,
                format!("`{name}` cannot name a flow"),
                "a name begins with a letter and has letters, digits, _ and -; words of the language are taken",
            );
        }
        let number = self.script.flows.len();
        // A flow with an error in its fields is defined nevertheless, so that its uses cause no further errors.
        let (header, whole) = match fields::parse(self, line, fields::default(number)) {
            Ok(header) => (header, Ok(number)),
            Err(wrong) => (fields::default(number), Err(wrong)),
        };
        self.names.insert(name.to_owned(), number);
        self.script.headers.push(header);
        let header = self.script.headers.len() - 1;
        self.script.flows.push(Flow { name: name.to_owned(), place, header });
        whole
    }

    fn send(&mut self, line: &mut Cursor<'_>, place: Place) -> Parsed<()> {
        let mut sequence: Vec<(u64, usize)> = Vec::new();
        let mut total: u64 = 0;
        let mut define = false;
        while let Some(word) = line.peek_word().filter(|word| *word != "every" && !fields::begins(word)) {
            let count = if word.starts_with(|c: char| c.is_ascii_digit()) {
                line.number(self, self.script.limits.packets as u64)?
            } else {
                1
            };
            let name = line.word(self, "the name of a flow", "send 3 a")?;
            total = total.saturating_add(count);
            let flow = if line.take_kind(&[Kind::Colon]).is_some() {
                define = true;
                self.define(name.text, name.place, line)?
            } else {
                self.lookup(name.text, name.place)?
            };
            sequence.push((count, flow));
            if define {
                break;
            }
        }
        if sequence.is_empty() {
            return self.error(line.place(), "`send` lacks what to send", "write for example send 3 a");
        }
        let sent = self.script.steps.len() as u64;
        if sent.saturating_add(total) > self.script.limits.packets as u64 {
            let most = self.script.limits.packets;
            return self.error(
                place,
                format!("a script sends at most {most} packets"),
                "a scenario of `tidegate simulate` has no such limit",
            );
        }
        let mut every = if line.take_word("every") { Some(line.scalar::<Span>(self)?) } else { None };
        let mut headers: HashMap<usize, usize> = HashMap::new();
        if !line.is_done() && line.peek_word() != Some("every") {
            let start = line.mark();
            for &(_, flow) in &sequence {
                line.reset(start);
                let own = self.script.headers[self.script.flows[flow].header].clone();
                let header = fields::parse(self, line, own)?;
                headers.insert(flow, self.script.headers.len());
                self.script.headers.push(header);
            }
        }
        if every.is_none() && line.take_word("every") {
            every = Some(line.scalar::<Span>(self)?);
        }
        let mut time = self.now;
        for (count, flow) in sequence {
            let header = headers.get(&flow).copied().unwrap_or(self.script.flows[flow].header);
            for _ in 0..count {
                self.script.steps.push(Step { time, place, action: Action::Send { flow, header } });
                time += every.unwrap_or(Span::ZERO);
            }
        }
        line.end(self)
    }
}
