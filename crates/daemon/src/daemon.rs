//! [`Daemon`]: owns what is shaped, supervises it, and does what is asked over the socket.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use tidegate_config::shaper::{self, Config, Direction as Way};
use tidegate_control::calls::{self, ControlStatus, DirectionSeen, DirectionStatus, Event, EventKind};
use tidegate_control::protocol::{Code, Message, Refusal};
use tidegate_engine::ClassStatus;
use tidegate_live::rtnl::LinkMonitor;
use tidegate_live::shaping::{LiveEngine, Options, Shaping, StartError, WorkerCounts};
use tidegate_live::{netlink, timing};
use tidegate_units::Span;

use crate::apply;
use crate::hook::Hook;
use crate::observe::{self, Observer};
use crate::promise::{self, Desk};
use crate::requests::Caller;
use crate::reserve;
use crate::server::{Inbound, Outbound, Server};
use crate::service;
use crate::socket::{Listening, SocketError};
use crate::watchdog::{Recovery, Watchdog};
use crate::web::{Web, WebError, WebSettings};

mod supervise;

pub use supervise::modified;

/// How often things are looked at that nobody tells about.
const TICK: Duration = Duration::from_millis(50);
/// How often classes are shown to a [`Sampler`].
const SAMPLE: Duration = Duration::from_millis(250);
/// How often the rules are read back.
const INSPECT: Duration = Duration::from_secs(2);

/// Where the control socket is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Control {
    /// Where clients look for it. Without a directory for it, the daemon runs without.
    #[default]
    Default,
    /// Here.
    Path(PathBuf),
    /// There is none.
    Off,
}

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where the configuration came from; `-` for standard input.
    pub file: PathBuf,
    /// When that was last changed, taken before it was read.
    pub modified: Option<SystemTime>,
    /// End after this long.
    pub limit: Option<Duration>,
    /// How to shape.
    pub options: Options,
    /// Set by whoever wants the file to be read again.
    pub reload: Arc<AtomicBool>,
    /// The socket.
    pub control: Control,
    /// Where metrics and the web page are served, in the place of what the configuration says.
    pub web: Option<WebSettings>,
    /// A program to run on events, in the place of the one that the configuration names. It needs a socket.
    pub hook: Option<shaper::Hook>,
}

/// Why a daemon did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Shaping did not start, or failed.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The control socket cannot be.
    #[error("no control socket: {0}")]
    Socket(#[from] SocketError),
    /// The kernel refused something.
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
    /// Metrics and the web page cannot be served.
    #[error("no metrics: {0}")]
    Web(#[from] WebError),
    /// The program to run on events cannot be.
    #[error("the hook cannot run: {0}")]
    Hook(String),
    /// A thread cannot be started.
    #[error("cannot serve the control socket: {0}")]
    Serve(std::io::Error),
}

/// One direction of the traffic, shaped.
pub struct Direction {
    /// `up` for what leaves, `down` for what comes.
    pub name: String,
    /// What it is shaped by.
    pub config: Config,
    /// The text that was read from.
    pub text: String,
    /// The shaping; missing while it is started again.
    pub shaping: Option<Shaping>,
    pub(crate) recovery: Recovery,
    beat: (u64, Instant),
    /// What was said when a probe went out and did not come through.
    unproven: Option<String>,
    /// What was said when most packets began to pass the queue by.
    past: Option<String>,
    /// Its rules could not be read back, and that was said.
    unseen: bool,
}

impl Direction {
    /// The shaping.
    ///
    /// # Errors
    /// [`Code::Failed`] while there is none.
    pub fn shaping(&self) -> Result<&Shaping, Refusal> {
        let none = || Refusal::new(Code::Failed, "shaping is not in force at the moment").help("try again in a second");
        self.shaping.as_ref().ok_or_else(none)
    }

    /// How long the data path has not turned, to within a tick.
    pub(crate) fn silent_for(&self) -> Duration {
        let Some(shaping) = &self.shaping else { return Duration::ZERO };
        if shaping.heartbeat() == self.beat.0 { self.beat.1.elapsed() } else { Duration::ZERO }
    }

    /// What the data path counts about itself.
    ///
    /// # Errors
    /// [`Code::Failed`] when there is no shaping, or the data path does not answer.
    pub fn counts(&self) -> Result<WorkerCounts, Refusal> {
        self.shaping()?.counts().map_err(|error| Refusal::new(Code::Failed, error.to_string()))
    }

    /// Does `work` to the engine between two packets.
    ///
    /// # Errors
    /// [`Code::Failed`] when there is no shaping, or the data path does not answer.
    pub fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LiveEngine, tidegate_units::Instant) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        self.shaping()?.with(work).map_err(|error| Refusal::new(Code::Failed, error.to_string()))
    }
}

/// A shaper with all that runs beside its data path.
pub struct Daemon {
    pub(crate) settings: Settings,
    /// What is shaped.
    pub directions: Vec<Direction>,
    server: Option<Server>,
    inbox: Option<Receiver<Inbound>>,
    monitor: Option<LinkMonitor>,
    /// The number of the interface, by which it is known when it is renamed.
    index: Option<u32>,
    pub(crate) watchdog: Option<Watchdog>,
    talk: fn(&str),
    next: u64,
    inspected: Instant,
    pub(crate) started: Instant,
    /// What keeps shaping from being in force.
    pub trouble: Option<String>,
    /// The subscriptions of each client to events and feedback.
    pub(crate) subscriptions: HashMap<u64, Vec<u64>>,
    /// A change that goes back unless it is confirmed.
    pub(crate) trial: Option<apply::Trial>,
    /// The reservations that somebody holds.
    pub(crate) leases: reserve::Leases,
    /// Looks at what is shaped, for people.
    pub(crate) observer: Observer,
    web: Option<Web>,
    /// The program that is run on events.
    hook: Option<shaper::Hook>,
    /// Promises, and who watches flows.
    pub(crate) desk: Desk,
    pub(crate) status_cache: Option<(Instant, Vec<DirectionStatus>)>,
    /// Who sees the classes of each direction, four times a second.
    pub sampler: Option<Sampler>,
    sampled: Instant,
    /// Which look at the flows was shown to the sampler last.
    shown: u64,
}

/// Sees the name of a direction and its classes; and once a second its flows, as they were at most a second ago.
pub type Sampler = Box<dyn FnMut(&str, &[ClassStatus], Option<&DirectionSeen>) + Send>;

impl Daemon {
    /// Starts to shape, a data path for each of `configs` with its text, and to serve. `talk` gets what is said to people, a line at a
    /// time.
    ///
    /// # Errors
    /// See [`DaemonError`]; nothing is left behind then.
    pub fn start(configs: Vec<(Config, String)>, settings: Settings, talk: fn(&str)) -> Result<Self, DaemonError> {
        let mut directions = Vec::new();
        for (config, text) in configs {
            let shaping = Shaping::start(&config, &settings.options)?;
            let beat = (shaping.heartbeat(), Instant::now());
            let name = name_of(&config).into();
            directions.push(Direction {
                name,
                config,
                text,
                shaping: Some(shaping),
                recovery: Recovery::new(),
                beat,
                unproven: None,
                past: None,
                unseen: false,
            });
        }
        let Some(first) = directions.first() else { return Err(StartError::NoInterface.into()) };
        let interface = first.shaping.as_ref().map_or(String::new(), |shaping| shaping.interface().to_owned());
        let index = first.shaping.as_ref().map(Shaping::index);
        let mode = first.config.control.mode;
        let listening = match &settings.control {
            Control::Off => None,
            Control::Path(path) => Some(Listening::at(path, mode)?),
            Control::Default => match Listening::for_interface(&interface, mode) {
                Ok(listening) => Some(listening),
                Err(SocketError::NoDirectory(why)) => {
                    talk(&format!("no control socket, there is no directory for it ({why}); name a path by --control"));
                    None
                }
                Err(error) => return Err(error.into()),
            },
        };
        raise_file_limit();
        let (server, inbox) = match listening.map(Server::start).transpose().map_err(DaemonError::Serve)? {
            Some((server, inbox)) => (Some(server), Some(inbox)),
            None => (None, None),
        };
        let mut daemon = Self {
            directions,
            settings,
            server,
            inbox,
            monitor: LinkMonitor::open().ok(),
            index,
            watchdog: Some(Watchdog::start().map_err(DaemonError::Serve)?),
            talk,
            next: 1,
            inspected: Instant::now(),
            started: Instant::now(),
            trouble: None,
            subscriptions: HashMap::new(),
            trial: None,
            leases: reserve::Leases::default(),
            observer: Observer::default(),
            web: None,
            hook: None,
            desk: Desk::default(),
            status_cache: None,
            sampler: None,
            sampled: Instant::now(),
            shown: 0,
        };
        for direction in 0..daemon.directions.len() {
            daemon.guard(direction)?;
            daemon.listen(direction)?;
        }
        daemon.serve_web()?;
        daemon.serve_hook().map_err(DaemonError::Hook)?;
        Ok(daemon)
    }

    /// The interface.
    pub fn interface(&self) -> &str {
        let shaping = self.directions.iter().find_map(|direction| direction.shaping.as_ref()).map(Shaping::interface);
        let meant = || self.settings.options.interface.as_deref();
        let written = || self.directions.iter().find_map(|direction| direction.config.interface.name.as_deref());
        shaping.or_else(meant).or_else(written).unwrap_or_default()
    }
    /// Where the control socket is, if there is one.
    pub fn control_path(&self) -> Option<PathBuf> {
        self.server.as_ref().map(|server| server.listening().path())
    }
    /// Serves metrics and the web page where they are wanted now: by the command line, or by the configuration of the first
    /// direction that says so. Nothing changes where they are wanted as they are.
    ///
    /// # Errors
    /// When it cannot be listened there; nothing is served then.
    pub(crate) fn serve_web(&mut self) -> Result<(), WebError> {
        let written = || self.directions.iter().find_map(|direction| direction.config.metrics).map(WebSettings::from);
        let wanted = self.settings.web.or_else(written);
        if self.web.as_ref().map(Web::settings) != wanted {
            self.web = None;
            self.web = wanted.map(|at| Web::start(at, Arc::clone(self.observer.shared()))).transpose()?;
        }
        Ok(())
    }
    /// Has the program run on events that is wanted now: by the command line, or by the configuration of the first
    /// direction. One that is wanted as it is goes on.
    ///
    /// # Errors
    /// When it cannot be; none is run then.
    fn serve_hook(&mut self) -> Result<(), String> {
        let Some(server) = &self.server else { return Ok(()) };
        let written = || self.directions.first().and_then(|direction| direction.config.control.hook.clone());
        let wanted = self.settings.hook.clone().or_else(written);
        if wanted == self.hook {
            return Ok(());
        }
        let started = wanted.as_ref().map(|hook| Hook::start(hook, self.interface())).transpose();
        let (hook, outcome) = started.map_or_else(|error| (None, Err(error)), |hook| (hook, Ok(())));
        self.hook = wanted.filter(|_| hook.is_some());
        server.counters().hooked.store(hook.is_some(), Ordering::Relaxed);
        server.say(Outbound::Hook(hook));
        outcome
    }
    /// Does what the configuration now says of metrics, the mode of the control socket and the program to run on events.
    /// What cannot be is told, and harms nothing else.
    pub(crate) fn serve_as_written(&mut self) {
        if let Err(error) = self.serve_web() {
            self.say(&format!("metrics are not served any more: {error}"));
        }
        let mode = self.directions.first().map(|direction| direction.config.control.mode);
        let outcome = mode.zip(self.server.as_ref()).map(|(mode, server)| server.listening().set_mode(mode));
        if let Some(Err(error)) = outcome {
            self.say(&format!("who may connect to the control socket is as before: {error}"));
        }
        if let Err(error) = self.serve_hook() {
            self.say(&format!("no program is run on events any more: {error}"));
        }
    }
    /// Where metrics and the web page are, if anywhere.
    pub fn web_address(&self) -> Option<std::net::SocketAddr> {
        self.web.as_ref().map(Web::address)
    }
    /// How it was set up.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Watches, and answers, until `stop` is set or the time is over; then ends shaping in order, and gives the classes
    /// of every direction as they ended.
    ///
    /// # Errors
    /// See [`DaemonError`]; traffic passes unshaped then.
    pub fn run(mut self, stop: &AtomicBool) -> Result<Vec<(String, Vec<ClassStatus>)>, DaemonError> {
        service::notify(&format!("READY=1\nSTATUS=shaping {}", self.interface()));
        let mut next = Instant::now() + TICK;
        while !stop.load(Ordering::Relaxed) && self.settings.limit.is_none_or(|limit| self.started.elapsed() < limit) {
            let wake = self.desk.next().map_or(next, |due| due.min(next));
            let wait = wake.saturating_duration_since(Instant::now());
            match self.inbox.as_ref().map(|inbox| inbox.recv_timeout(wait)) {
                Some(Ok(inbound)) => self.take(inbound),
                Some(Err(RecvTimeoutError::Timeout)) => {}
                Some(Err(RecvTimeoutError::Disconnected)) => {
                    self.say("the control socket has failed; shaping goes on without it");
                    (self.server, self.inbox) = (None, None);
                }
                None => std::thread::sleep(wait),
            }
            if self.desk.next().is_some_and(|due| due <= Instant::now()) {
                promise::tick(&mut self);
            }
            if Instant::now() >= next {
                next = Instant::now() + TICK;
                self.tick();
            }
        }
        self.end()
    }

    fn end(mut self) -> Result<Vec<(String, Vec<ClassStatus>)>, DaemonError> {
        service::notify("STOPPING=1");
        let interface = self.interface().to_owned();
        if self.sampler.is_some() {
            // Of flows that began since the last look.
            let _ = observe::look(&mut self, true, false);
            self.show();
        }
        self.watchdog = None;
        let mut ended = Vec::new();
        for direction in &mut self.directions {
            if let Some(shaping) = direction.shaping.take() {
                let status = shaping.status()?;
                shaping.stop()?;
                ended.push((direction.name.clone(), status));
            }
        }
        (self.talk)(&format!("shaping {interface} has ended; nothing is left behind"));
        Ok(ended)
    }

    fn take(&mut self, inbound: Inbound) {
        match inbound {
            Inbound::Request { client, peer, request } => {
                let outcome = calls::answer(self, &Caller { client, peer }, &request);
                self.say_to_server(Outbound::Answer { client, message: Message::answer(request.id, outcome) });
            }
            Inbound::Gone { client } => self.gone(client),
            Inbound::FlowBegan => {
                if let Some(server) = &self.server {
                    server.counters().scent.store(false, Ordering::Release);
                }
                self.desk.scents();
            }
        }
    }

    /// A client is gone: what it held ends.
    fn gone(&mut self, client: u64) {
        promise::gone(self, client);
        self.subscriptions.remove(&client);
        reserve::gone(self, client);
    }

    /// What is due besides requests.
    fn tick(&mut self) {
        self.links();
        self.sample();
        self.heed();
        if self.settings.reload.swap(false, Ordering::Relaxed) {
            apply::reload(self);
        }
        for direction in &mut self.directions {
            let Some(shaping) = &direction.shaping else { continue };
            if shaping.heartbeat() != direction.beat.0 {
                direction.beat = (shaping.heartbeat(), Instant::now());
            }
        }
        (0..self.directions.len()).for_each(|at| self.prove(at));
        observe::tick(self);
        apply::tick(self);
        reserve::tick(self);
        if let Some(web) = &self.web {
            web.tell(self.server_counters());
        }
        if self.inspected.elapsed() >= INSPECT {
            self.inspected = Instant::now();
            self.file_changed();
            for direction in 0..self.directions.len() {
                self.inspect(direction);
            }
        }
    }

    /// Shows the classes to who wants to see them, and once a second the flows.
    fn sample(&mut self) {
        if self.sampler.is_some() && self.sampled.elapsed() >= SAMPLE {
            self.sampled = Instant::now();
            self.observer.shared().want_flows();
            self.show();
        }
    }
    fn show(&mut self) {
        let Some(sampler) = &mut self.sampler else { return };
        let seen = self.observer.shared().seen();
        let fresh = seen.time_ms != self.shown;
        self.shown = seen.time_ms;
        for direction in &self.directions {
            let flows = seen.directions.iter().find(|seen| fresh && seen.name == direction.name);
            // What does not answer is the watchdog's.
            if let Some(Ok(status)) = direction.shaping.as_ref().map(Shaping::status) {
                sampler(&direction.name, &status, flows);
            }
        }
    }

    /// Says something to the people who look after this, by standard error and as an event.
    pub fn say(&mut self, text: &str) {
        (self.talk)(&format!("tidegate: {text}"));
        let mut event = Event::new(EventKind::Log, Span::from_nanos(timing::now().as_nanos()));
        event.text = Some(text.into());
        self.publish(event);
    }

    /// Tells everybody who subscribed to such events.
    pub fn publish(&self, event: Event) {
        self.say_to_server(Outbound::Publish(Box::new(event)));
    }

    pub(crate) fn say_to_server(&self, word: Outbound) {
        if let Some(server) = &self.server {
            server.say(word);
        }
    }
    pub(crate) fn server_counters(&self) -> ControlStatus {
        self.server.as_ref().map(|server| server.counters().status()).unwrap_or_default()
    }
    /// Tells the server whether flows of processes are looked for.
    pub(crate) fn tell_hunting(&self) {
        if let Some(server) = &self.server {
            server.counters().hunting.store(self.desk.hunts(), Ordering::Relaxed);
        }
    }

    /// The place of the direction that is called so; of the first without a name.
    ///
    /// # Errors
    /// [`Code::NotFound`].
    pub fn direction_named(&self, name: Option<&str>) -> Result<usize, Refusal> {
        let Some(name) = name else { return Ok(0) };
        let names: Vec<&str> = self.directions.iter().map(|direction| direction.name.as_str()).collect();
        names.iter().position(|other| *other == name).ok_or_else(|| {
            Refusal::new(Code::NotFound, format!("nothing called `{name}` is shaped here"))
                .help(format!("there is {}", names.join(" and ")))
        })
    }

    /// Gives all promises of a direction again: after its engine was replaced by one that knows none.
    pub fn reinstate_promises(&mut self, at: usize) {
        promise::reinstate(self, at);
    }

    /// A number that was not given before: of a subscription, of a promise.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

/// What people call a direction.
fn name_of(config: &Config) -> &'static str {
    match config.interface.direction {
        Way::Egress => "up",
        Way::Ingress => "down",
    }
}

/// Room for a thousand clients: the soft limit on open files is often no more than that.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Fewer clients then; the server says so when it comes to that.
    let _ = setrlimit(Resource::Nofile, limit);
}
