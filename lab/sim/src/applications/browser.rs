//! A browser: pages with objects, over a few connections that persist, and reading between.
//!
//! *Law*: a page begins with its main object; when that has come and is parsed, its other objects are requested, one on
//! each idle connection, and new connections are opened up to the limit. The page is loaded with its last object.
//! *Source*: Choi and Limb, "A behavioral model of Web traffic", 1999, with the parameters of 3GPP2's evaluation
//! (C.R1002-0, HTTP model; also 3GPP TR 25.892, table A.2.2.1): see [`Web`].

use std::collections::VecDeque;

use tidegate_core::Span;
use tidegate_core::random::Stream;
use tidegate_metrics::Histogram;

use crate::workload::Web;

/// What the browser waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Reading,
    Main,
    Parsing,
    Objects,
}

/// A connection of a browser, and the object that it has asked for on it.
#[derive(Debug)]
struct Line {
    slot: u32,
    object: Option<u64>,
}

/// What a browser does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// It requests what it can.
    Ask,
    /// It acts after this time.
    After(Span),
    /// Nothing: other objects are under way.
    Wait,
}

/// A browser.
#[derive(Debug)]
pub(crate) struct Browser {
    stage: Stage,
    lines: Vec<Line>,
    /// Sizes of the objects that are not requested yet, the main one first.
    todo: VecDeque<u64>,
    parse: Span,
    read: Span,
    begun: u64,
    warm_up: u64,
    pub pages: Pages,
}

/// The pages that a browser has loaded.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pages {
    /// Pages that were begun.
    pub begun: u64,
    /// Pages that were loaded, of those.
    pub loaded: u64,
    /// Objects of the pages begun, the main ones included.
    pub objects: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// From the first request to the last byte of a page, in nanoseconds.
    pub load_ns: Histogram,
}

impl Browser {
    pub fn new(warm_up: u64) -> Self {
        let (stage, parse, read) = (Stage::Reading, Span::ZERO, Span::ZERO);
        let pages = Pages::default();
        Self { stage, lines: Vec::new(), todo: VecDeque::new(), parse, read, begun: 0, warm_up, pages }
    }

    /// Its timer has run out: it has read or parsed.
    pub fn act(&mut self, now: u64, web: &Web, random: &mut Stream) {
        match self.stage {
            Stage::Reading => {
                self.stage = Stage::Main;
                self.begun = now;
                let size = |distribution: &crate::Distribution, random: &mut Stream| {
                    distribution.sample_bytes(random).min(web.largest).as_u64()
                };
                self.todo.push_back(size(&web.main, random));
                // To the nearest whole number.
                let count = (web.objects.sample(random) + 0.5) as u64;
                for _ in 0..count.min(Web::MOST_OBJECTS) {
                    let object = size(&web.object, random);
                    self.todo.push_back(object);
                }
                self.parse = web.parse.sample_span(random);
                self.read = web.read.sample_span(random);
                if now >= self.warm_up {
                    self.pages.begun += 1;
                    self.pages.objects += self.todo.len() as u64;
                    self.pages.bytes += self.todo.iter().sum::<u64>();
                }
            }
            Stage::Parsing => self.stage = Stage::Objects,
            Stage::Main | Stage::Objects => {}
        }
    }

    /// The size of the next object to request, and the connection that is idle; `None` for a new one.
    pub fn next(&self, most: usize) -> Option<(u64, Option<u32>)> {
        let object = *self.todo.front()?;
        let busy = self.lines.iter().any(|line| line.object.is_some());
        if matches!(self.stage, Stage::Reading | Stage::Parsing) || self.stage == Stage::Main && busy {
            return None;
        }
        match self.lines.iter().find(|line| line.object.is_none()) {
            Some(idle) => Some((object, Some(idle.slot))),
            None => (self.lines.len() < most).then_some((object, None)),
        }
    }

    /// It has requested the next object on the connection in `slot`.
    pub fn asked(&mut self, slot: u32) {
        let object = self.todo.pop_front();
        match self.lines.iter_mut().find(|line| line.slot == slot) {
            Some(line) => line.object = object,
            None => self.lines.push(Line { slot, object }),
        }
    }

    /// The object that was requested on the connection in `slot` has come.
    pub fn answered(&mut self, slot: u32, now: u64) -> Step {
        let Some(line) = self.lines.iter_mut().find(|line| line.slot == slot) else { return Step::Wait };
        line.object = None;
        if !self.todo.is_empty() {
            if self.stage == Stage::Main {
                self.stage = Stage::Parsing;
                return Step::After(self.parse);
            }
            return Step::Ask;
        }
        if self.lines.iter().any(|line| line.object.is_some()) {
            return Step::Wait;
        }
        self.stage = Stage::Reading;
        if self.begun >= self.warm_up {
            self.pages.loaded += 1;
            self.pages.load_ns.record(now - self.begun);
        }
        Step::After(self.read)
    }

    /// The connection in `slot` is over: what was requested on it is requested again. Whether anything was.
    pub fn lost(&mut self, slot: u32) -> bool {
        let Some(place) = self.lines.iter().position(|line| line.slot == slot) else { return false };
        match self.lines.swap_remove(place).object {
            Some(object) => {
                self.todo.push_front(object);
                true
            }
            None => false,
        }
    }

    /// Its connections.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.lines.iter().map(|line| line.slot)
    }
}
