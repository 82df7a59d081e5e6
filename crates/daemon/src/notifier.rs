//! [`Notifier`]: from the parts of the daemon to subscribers, and to the people who look after it.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_control::calls::{ControlStatus, Event, EventKind};
use tidegate_control::words;
use tidegate_live::guardian;
use tidegate_live::shaping::StartError;
use tidegate_live::timing;
use tidegate_units::Span;

use crate::directions::ShapedDirection;
use crate::server::event::{DirectionNames, FlowEvent, Selector};
use crate::server::{Handle, Outbound};
use crate::telemetry::notes::NoteKind;
use crate::telemetry::observer::Shared;

/// Sends events, and keeps subscriptions of the server.
pub(crate) struct Notifier {
    server: Option<Handle>,
    print: fn(&str),
    shared: Arc<Shared>,
    next_number: Cell<u64>,
    /// The file for `status` to read after this process has died ([`words`]), and its path.
    words: RefCell<Option<(PathBuf, File)>>,
}

impl Notifier {
    /// Notifies nobody yet; `print` receives what people are to read, a line at a time, and `shared` keeps it for the page.
    pub fn new(print: fn(&str), shared: Arc<Shared>) -> Self {
        Self { server: None, print, shared, next_number: Cell::new(1), words: RefCell::new(None) }
    }
    /// Notifies over `server` from now on.
    pub fn connect(&mut self, server: Handle) {
        self.server = Some(server);
    }
    /// Has everything that is reported appended to the file at `path`, which the guardians write to as well. Without it the
    /// lines are on standard error nevertheless.
    pub fn set_words(&self, path: &Path) {
        let file = guardian::open_log(path).ok();
        self.words.replace(file.map(|file| (path.to_owned(), file)));
    }
    /// Removes that file: after an orderly end nobody asks for last words.
    pub fn remove_words(&self) {
        if let Some((path, _)) = self.words.take() {
            let _ = std::fs::remove_file(path);
        }
    }

    /// The server, if there is one.
    pub fn server(&self) -> Option<&Handle> {
        self.server.as_ref()
    }
    /// The server has failed: there are no subscribers any more.
    pub fn disconnect(&mut self) {
        self.server = None;
    }

    /// Prints a line as it is.
    pub fn print(&self, line: &str) {
        (self.print)(line);
        self.last_word(line);
    }
    /// Appends a line to the file of last words.
    pub fn last_word(&self, text: &str) {
        let mut words = self.words.borrow_mut();
        let Some((path, file)) = words.as_mut() else { return };
        match file.metadata() {
            // The daemon of another direction has ended and removed it.
            Ok(data) if data.nlink() == 0 => match guardian::open_log(path) {
                Ok(again) => *file = again,
                Err(_) => return,
            },
            Ok(data) if data.len() > words::LARGEST => drop(file.set_len(0)),
            _ => {}
        }
        let (who, text) = (words::Speaker::Daemon.word(), text.replace('\n', " "));
        let _ = file.write_all(format!("{} {who} {} {text}\n", now().as_nanos(), std::process::id()).as_bytes());
    }
    /// Reports something to the people who look after the daemon: on standard error, as an event, and on the page.
    pub fn log(&self, text: &str) {
        self.report(NoteKind::Event, text, None);
    }
    /// Reports a change of the configuration, in the same places; `data` is that of the event.
    pub fn log_change(&self, text: &str, data: serde_json::Value) {
        self.report(NoteKind::Change, text, Some(data));
    }
    fn report(&self, kind: NoteKind, text: &str, data: Option<serde_json::Value>) {
        self.shared.notes().add(kind, text);
        self.last_word(text);
        (self.print)(&format!("tidegate: {text}"));
        let mut event = Event::new(EventKind::Log, now());
        (event.text, event.data) = (Some(text.into()), data);
        self.publish(event);
    }
    /// Sends an event to every subscription that selects it.
    pub fn publish(&self, event: Event) {
        self.send(Outbound::Publish(Box::new(event)));
    }
    /// Sends something to the server.
    pub fn send(&self, outbound: Outbound) {
        if let Some(server) = &self.server {
            server.send(outbound);
        }
    }

    /// Begins a subscription, or replaces what it selects. Events before the reply to the request in progress are sent
    /// after it.
    pub fn subscribe(&self, client: u64, subscription: u64, selector: Selector) {
        self.send(Outbound::Subscribe { client, subscription, selector });
    }
    /// Ends a subscription.
    pub fn unsubscribe(&self, client: u64, subscription: u64) {
        self.send(Outbound::Unsubscribe { client, subscription });
    }

    /// Connects the events of a data path to the server, with the names in them. After every start of a data path.
    ///
    /// # Errors
    /// When the data path has ended.
    pub fn attach(&self, index: usize, direction: &ShapedDirection) -> Result<(), StartError> {
        self.names_changed(index, direction);
        let (Some(server), Some(shaping)) = (&self.server, direction.shaping()) else { return Ok(()) };
        shaping.listen(|| {
            let events = server.events().clone();
            Box::new(move |time, event| !events.is_wanted() || events.send(FlowEvent::new(index, time, event)))
        })
    }
    /// The classes of a direction have changed.
    pub fn names_changed(&self, index: usize, direction: &ShapedDirection) {
        if let Some(shaping) = direction.shaping() {
            let names = DirectionNames { direction: direction.name.clone(), classes: shaping.class_names().to_vec() };
            self.send(Outbound::Names(index, names));
        }
    }

    /// The counters of the server.
    pub fn counters(&self) -> ControlStatus {
        self.server.as_ref().map(|server| server.counters().status()).unwrap_or_default()
    }

    /// The next number; lower ones may have been used.
    pub fn numbers_used(&self) -> u64 {
        self.next_number.get()
    }
    /// Has [`next_number`](Self::next_number) continue with `number`, to give again what a predecessor had given.
    pub fn continue_numbers(&self, number: u64) {
        self.next_number.set(number);
    }

    /// A number that was not used before: of a subscription, of a promise, of a reservation.
    pub fn next_number(&self) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        number
    }
}

/// The time of an event: the monotonic clock of the machine.
pub(crate) fn now() -> Span {
    Span::from_nanos(timing::now().as_nanos())
}
