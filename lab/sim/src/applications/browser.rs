//! A browser: loads pages with objects over a few persistent connections, with reading times in between.
//!
//! *Law*: a page begins with its main object. After it has arrived and been parsed, the other objects are requested,
//! one on each idle connection, and new connections are opened up to the limit. The page is complete with its last
//! object.
//! *Source*: Choi and Limb, "A behavioral model of Web traffic", 1999, with the parameters of 3GPP2's evaluation
//! (C.R1002-0, HTTP model; also 3GPP TR 25.892, table A.2.2.1): see [`Web`].

use std::collections::VecDeque;

use tidegate_core::Span;
use tidegate_core::random::Stream;
use tidegate_metrics::Survival;

use crate::workload::Web;

/// The stage of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PageStage {
    Reading,
    Main,
    Parsing,
    Objects,
}

/// A connection of a browser, and the size of the object that is requested on it.
#[derive(Debug)]
struct BrowserConnection {
    slot: u32,
    object: Option<u64>,
}

/// The next action of a browser.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// It sends all requests that it can.
    Ask,
    /// It continues after this time.
    After(Span),
    /// It waits for other objects.
    Wait,
}

#[derive(Debug)]
pub(crate) struct Browser {
    stage: PageStage,
    connections: Vec<BrowserConnection>,
    /// The sizes of the objects that have not been requested yet, the main one first.
    todo: VecDeque<u64>,
    parse: Span,
    read: Span,
    begun: u64,
    /// The objects of the current page, and their bytes.
    size: (u64, u64),
    warm_up: u64,
    pages: Pages,
}

/// The pages that a browser has loaded.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pages {
    /// Pages that were begun after the warm-up, or were still loading when it ended.
    pub begun: u64,
    /// Pages among them that were loaded completely.
    pub loaded: u64,
    /// Objects of the pages begun, including the main ones.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// The load time of pages, from the first request to the last byte, in nanoseconds.
    pub load_ns: Survival,
    /// The pages one by one, in the order of their end; at most `MOST_PAGES` of each browser.
    pub each: Vec<PageLoad>,
}

/// How many pages of a browser are kept one by one. The distribution has all of them.
pub const MOST_PAGES: usize = 100_000;

/// A page of a browser.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageLoad {
    /// When it was begun, in nanoseconds.
    pub begun_ns: u64,
    /// The time until its last byte arrived or, if it was not loaded, until the run ended, in nanoseconds.
    pub load_ns: u64,
    /// Whether its last byte arrived.
    pub finished: bool,
}

impl Pages {
    /// Counts a page of so many objects and bytes, when it is loaded or the run ends.
    fn add(&mut self, (objects, bytes): (u64, u64)) {
        self.begun += 1;
        self.objects += objects;
        self.bytes += bytes;
    }
}

impl Browser {
    pub fn new(warm_up: u64) -> Self {
        let (stage, parse, read) = (PageStage::Reading, Span::ZERO, Span::ZERO);
        let pages = Pages::default();
        Self {
            stage,
            connections: Vec::new(),
            todo: VecDeque::new(),
            parse,
            read,
            begun: 0,
            size: (0, 0),
            warm_up,
            pages,
        }
    }

    /// Handles the timer: the browser has finished reading or parsing.
    pub fn act(&mut self, now: u64, web: &Web, random: &mut Stream) {
        match self.stage {
            PageStage::Reading => {
                self.stage = PageStage::Main;
                self.begun = now;
                let size = |distribution: &crate::Distribution, random: &mut Stream| {
                    distribution.sample_bytes(random).min(web.largest).as_u64()
                };
                self.todo.push_back(size(&web.main, random));
                // Rounded to the nearest whole number.
                let count = (web.objects.sample(random) + 0.5) as u64;
                for _ in 0..count.min(Web::MOST_OBJECTS) {
                    let object = size(&web.object, random);
                    self.todo.push_back(object);
                }
                self.parse = web.parse.sample_span(random);
                self.read = web.read.sample_span(random);
                self.size = (self.todo.len() as u64, self.todo.iter().sum());
            }
            PageStage::Parsing => self.stage = PageStage::Objects,
            PageStage::Main | PageStage::Objects => {}
        }
    }

    /// The size of the next object to request, and the idle connection for it; `None` for a new connection.
    pub fn next(&self, most: usize) -> Option<(u64, Option<u32>)> {
        let object = *self.todo.front()?;
        let busy = self.connections.iter().any(|connection| connection.object.is_some());
        if matches!(self.stage, PageStage::Reading | PageStage::Parsing) || self.stage == PageStage::Main && busy {
            return None;
        }
        match self.connections.iter().find(|connection| connection.object.is_none()) {
            Some(idle) => Some((object, Some(idle.slot))),
            None => (self.connections.len() < most).then_some((object, None)),
        }
    }

    /// Records that the next object was requested on the connection in `slot`.
    pub fn asked(&mut self, slot: u32) {
        let object = self.todo.pop_front();
        match self.connections.iter_mut().find(|connection| connection.slot == slot) {
            Some(connection) => connection.object = object,
            None => self.connections.push(BrowserConnection { slot, object }),
        }
    }

    /// Handles the arrival of the object on the connection in `slot`.
    pub fn answered(&mut self, slot: u32, now: u64) -> Step {
        let Some(connection) = self.connections.iter_mut().find(|connection| connection.slot == slot) else {
            return Step::Wait;
        };
        connection.object = None;
        if !self.todo.is_empty() {
            if self.stage == PageStage::Main {
                self.stage = PageStage::Parsing;
                return Step::After(self.parse);
            }
            return Step::Ask;
        }
        if self.connections.iter().any(|connection| connection.object.is_some()) {
            return Step::Wait;
        }
        self.stage = PageStage::Reading;
        if now >= self.warm_up {
            self.pages.add(self.size);
            self.pages.loaded += 1;
            self.pages.load_ns.finish(now - self.begun);
            if self.pages.each.len() < MOST_PAGES {
                self.pages.each.push(self.load(now, true));
            }
        }
        Step::After(self.read)
    }

    /// Handles the end of the connection in `slot`. The object that was requested on it is requested again. Returns
    /// whether there was one.
    pub fn lost(&mut self, slot: u32) -> bool {
        let Some(place) = self.connections.iter().position(|connection| connection.slot == slot) else { return false };
        match self.connections.swap_remove(place).object {
            Some(object) => {
                self.todo.push_front(object);
                true
            }
            None => false,
        }
    }

    fn load(&self, now: u64, finished: bool) -> PageLoad {
        PageLoad { begun_ns: self.begun, load_ns: now - self.begun, finished }
    }

    /// The pages until `now`. A page that was still loading when the warm-up ended counts, whether or not it has come since: without those
    /// the longest pages would be missing, and a browser that waits for one of them has begun no other.
    pub fn pages(&self, now: u64) -> Pages {
        let mut pages = self.pages.clone();
        if self.stage != PageStage::Reading && now >= self.warm_up {
            pages.add(self.size);
            pages.load_ns.leave_open(now - self.begun);
            pages.each.push(self.load(now, false));
        }
        pages
    }

    /// The slots of its connections.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.connections.iter().map(|connection| connection.slot)
    }
}
