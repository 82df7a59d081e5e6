//! Telemetry: what the daemon measures and reports. Events, status, the observer with its history, metrics and the web
//! page, and the program that is run on events.

mod answers;
mod ceilings;
mod connections;
pub(crate) mod explain;
pub mod history;
pub mod history_file;
pub(crate) mod hook;
pub(crate) mod hosts;
pub mod metrics;
pub(crate) mod names;
pub mod notes;
pub mod observer;
mod reading;
mod response;
pub(crate) mod status;
pub(crate) mod subscriptions;
pub mod web;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_config::shaper;
use tidegate_control::calls::DirectionObservation;
use tidegate_engine::ClassStatus;
use tidegate_live::shaping::Shaping;

use crate::directions::ShapedDirection;
use crate::notifier::Notifier;
use crate::server::Outbound;
use history_file::HistoryFile;
use hook::Hook;
use observer::{Health, Observer};
pub use reading::class_status;
use status::StatusCache;
use subscriptions::Subscriptions;
use web::{Web, WebError, WebSettings};

/// The interval at which a [`Sampler`] receives the classes.
const SAMPLE: Duration = Duration::from_millis(250);

/// Receives the name of a direction and its classes; and once a second its flows, at most a second old.
pub type Sampler = Box<dyn FnMut(&str, &[ClassStatus], Option<&DirectionObservation>) + Send>;

/// The state of all that measures and reports.
pub(crate) struct Telemetry {
    pub observer: Observer,
    pub status: StatusCache,
    pub subscriptions: Subscriptions,
    pub sampler: Option<Sampler>,
    sampled: Instant,
    /// The time of the observation whose flows the sampler received last.
    shown: u64,
    web: Option<Web>,
    /// Where the history is kept.
    file: Option<HistoryFile>,
    /// Settings of the command line, in the place of those of the configuration.
    web_override: Option<WebSettings>,
    hook_override: Option<shaper::Hook>,
    /// The program that is run on events.
    hook: Option<shaper::Hook>,
}

impl Telemetry {
    pub fn new(web_override: Option<WebSettings>, hook_override: Option<shaper::Hook>, reverse_lookup: bool) -> Self {
        Self {
            observer: Observer::new(reverse_lookup),
            status: StatusCache::default(),
            subscriptions: Subscriptions::default(),
            sampler: None,
            sampled: Instant::now(),
            shown: 0,
            web: None,
            file: None,
            web_override,
            hook_override,
            hook: None,
        }
    }

    /// Serves metrics and the web page as specified: by the command line, or by the configuration of the first direction
    /// that specifies it. An unchanged specification changes nothing.
    ///
    /// # Errors
    /// When the address cannot be listened on; nothing is served then.
    pub fn serve_web(&mut self, directions: &[ShapedDirection]) -> Result<(), WebError> {
        let written = || directions.iter().find_map(|direction| direction.config.metrics).map(WebSettings::from);
        let wanted = self.web_override.or_else(written);
        if self.web.as_ref().map(Web::settings) != wanted {
            self.web = None;
            self.web = wanted.map(|at| Web::start(at, Arc::clone(self.observer.shared()))).transpose()?;
        }
        Ok(())
    }

    /// Keeps the history in the file at `path`, and continues the one that is there. Failures are logged, and affect nothing
    /// else.
    pub fn keep_history(&mut self, path: &Path, notifier: &Notifier) {
        match HistoryFile::open(path, self.observer.shared()) {
            Ok((file, wrong)) => {
                self.file = Some(file);
                if let Some(wrong) = wrong {
                    notifier.log(&format!("the history in {}: {wrong}", path.display()));
                }
            }
            Err(error) => {
                notifier.log(&format!("the history in {} is not kept over restarts: {error}", path.display()));
            }
        }
    }

    /// Runs the program on events that is specified: by the command line, or by the configuration of the first direction.
    /// An unchanged specification changes nothing.
    ///
    /// # Errors
    /// When it cannot be run; none is run then.
    pub fn serve_hook(
        &mut self,
        directions: &[ShapedDirection],
        notifier: &Notifier,
        interface: &str,
    ) -> Result<(), String> {
        let Some(server) = notifier.server() else { return Ok(()) };
        let written = || directions.first().and_then(|direction| direction.config.control.hook.clone());
        let wanted = self.hook_override.clone().or_else(written);
        if wanted == self.hook {
            return Ok(());
        }
        let started = wanted.as_ref().map(|hook| Hook::start(hook, interface)).transpose();
        let (hook, outcome) = started.map_or_else(|error| (None, Err(error)), |hook| (hook, Ok(())));
        self.hook = wanted.filter(|_| hook.is_some());
        server.counters().hooked.store(hook.is_some(), Ordering::Relaxed);
        server.send(Outbound::Hook(hook));
        outcome
    }

    /// Applies what the configurations in force specify of metrics, the web page and the hook. What fails is logged, and
    /// affects nothing else.
    pub fn follow_config(&mut self, directions: &[ShapedDirection], notifier: &Notifier, interface: &str) {
        if let Err(error) = self.serve_web(directions) {
            notifier.log(&format!("metrics are no longer served: {error}"));
        }
        if let Err(error) = self.serve_hook(directions, notifier, interface) {
            notifier.log(&format!("the hook is no longer run on events: {error}"));
        }
    }

    /// The address of metrics and the web page, if they are served.
    pub fn web_address(&self) -> Option<SocketAddr> {
        self.web.as_ref().map(Web::address)
    }

    /// Everything that is due. Called with every tick.
    pub fn tick(&mut self, directions: &[ShapedDirection], health: &Health<'_>, notifier: &Notifier) {
        if self.sampler.is_some() && self.sampled.elapsed() >= SAMPLE {
            self.sampled = Instant::now();
            self.observer.shared().want_flows();
            self.sample(directions);
        }
        self.observer.tick(directions, health);
        self.write_history(notifier, false);
        if let Some(web) = &self.web {
            web.set_control(notifier.counters());
        }
    }

    /// Writes what is new of the history; with `end` all of it.
    fn write_history(&mut self, notifier: &Notifier, end: bool) {
        let shared = self.observer.shared();
        if let Some(failed) = self.file.as_mut().and_then(|file| file.keep(shared, end)) {
            notifier.log(&failed);
        }
    }

    /// Passes the classes to the sampler, and flows that it has not received yet.
    fn sample(&mut self, directions: &[ShapedDirection]) {
        let Some(sampler) = &mut self.sampler else { return };
        let observation = self.observer.shared().observation();
        let fresh = observation.time_ms != self.shown;
        self.shown = observation.time_ms;
        for direction in directions {
            let flows = observation.directions.iter().find(|observed| fresh && observed.name == direction.name);
            // A data path that does not reply is left to the watchdog.
            if let Some(Ok(status)) = direction.shaping().map(Shaping::status) {
                sampler(&direction.name, &status, flows);
            }
        }
    }

    /// Writes the history, and passes the last state to the sampler, with flows that began since the last observation.
    pub fn finish(&mut self, directions: &[ShapedDirection], health: &Health<'_>, notifier: &Notifier) {
        self.write_history(notifier, true);
        if self.sampler.is_some() {
            let _ = self.observer.observe(directions, health, true, false);
            self.sample(directions);
        }
    }
}
