//! [`Daemon`]: the five parts that run beside the data paths, and the loop that drives them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use tidegate_config::decode::printable;
use tidegate_config::shaper::{self, Config};
use tidegate_control::calls::{self, NoteKind};
use tidegate_control::protocol::Message;
use tidegate_control::words;
use tidegate_engine::ClassStatus;
use tidegate_live::privileges;
use tidegate_live::shaping::{Options, StartError, Successor, are_there};

use crate::caller::Caller;
use crate::config_store::{ConfigStore, Followers};
use crate::directions::ShapedDirection;
use crate::follower::{Follower, LineRecorders};
use crate::handover::{self, Handover};
use crate::notifier::Notifier;
use crate::promises::Promises;
use crate::promises::lookup::Lookup;
use crate::quotas::QuotaFile;
use crate::reservations::Reservations;
use crate::server::{Inbound, Listening, Outbound, Server, SocketError};
use crate::service;
use crate::supervisor::{Grants, Supervisor};
use crate::telemetry::web::{WebError, WebSettings};
use crate::telemetry::{Sampler, Telemetry, history_file};

/// The interval of everything that no event triggers.
const TICK: Duration = Duration::from_millis(50);
/// The interval at which the shaper file is checked for changes, and whether the control socket is there.
const FILE: Duration = Duration::from_secs(2);

/// The interval at which the times and quotas of rules are looked at.
const TIMES: Duration = Duration::from_secs(1);

/// The place of the control socket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ControlSocket {
    /// Where clients look for it. Without a directory for it, the daemon runs without a socket.
    #[default]
    Default,
    /// This path.
    Path(PathBuf),
    /// No socket.
    Off,
}

/// A shaper file and the configurations in it.
#[derive(Clone, Debug, Default)]
pub struct ShaperFile {
    /// Where it was read from; `-` for standard input.
    pub path: PathBuf,
    /// When it was changed last, taken before it was read.
    pub modified: Option<SystemTime>,
    /// A configuration for each direction.
    pub configs: Vec<Config>,
}

/// Where the history of the last day and the use of quotas are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum HistoryPlace {
    /// In memory alone.
    #[default]
    Memory,
    /// In the directory of the system, if there is one for this network namespace ([`history_file::default_path`]).
    Default,
    /// In this directory.
    Directory(PathBuf),
}

impl HistoryPlace {
    /// The file of the use of quotas. It is kept in the directory of the system where the history is kept in memory.
    fn quotas(&self, interface: &str, direction: Option<&str>) -> Option<PathBuf> {
        let folder = match self {
            Self::Memory | Self::Default => history_file::state_directory()?,
            Self::Directory(folder) => folder.clone(),
        };
        Some(folder.join(history_file::file_name(interface, direction)).with_extension("quotas"))
    }
    fn path(&self, interface: &str, direction: Option<&str>) -> Option<PathBuf> {
        match self {
            Self::Memory => None,
            Self::Default => history_file::default_path(interface, direction),
            Self::Directory(folder) => Some(folder.join(history_file::file_name(interface, direction))),
        }
    }
}

/// How to run a daemon.
#[derive(Debug, Default)]
pub struct Settings {
    /// End after this time.
    pub limit: Option<Duration>,
    /// How to shape.
    pub options: Options,
    /// Set from outside to have the file read again.
    pub reload: Arc<AtomicBool>,
    /// Set from outside to leave queues, promises and reservations to a successor at the end.
    pub leave: Arc<AtomicBool>,
    /// The control socket.
    pub control: ControlSocket,
    /// Where metrics and the web page are served, in the place of what the configuration specifies.
    pub web: Option<WebSettings>,
    /// A program to run on events, in the place of the one that the configuration specifies. It needs a control socket.
    pub hook: Option<shaper::Hook>,
    /// Whether hosts have names by the resolver of the system, also where the configuration does not request it.
    pub reverse_lookup: bool,
    /// Where the history of the last day is kept over restarts.
    pub history: HistoryPlace,
    /// The process that reads the sockets of other users' processes, for promises to these. Without it those of this user's
    /// processes are known, or of all if this process may look into others.
    pub sockets: Option<Lookup>,
}

/// Errors that keep a daemon from starting, or end it.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Shaping did not start, or failed.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The control socket cannot be made.
    #[error("cannot make the control socket: {0}")]
    Socket(#[from] SocketError),
    /// Metrics and the web page cannot be served.
    #[error("cannot serve metrics: {0}")]
    Web(#[from] WebError),
    /// The program to run on events cannot be run.
    #[error("cannot run the hook: {0}")]
    Hook(String),
    /// A thread cannot be started.
    #[error("cannot serve the control socket: {0}")]
    Serve(std::io::Error),
}

/// Shaped directions, and the parts that run beside their data paths. Each part has its own state; a handler takes the
/// parts that it uses.
pub struct Daemon {
    /// The shaped directions.
    pub directions: Vec<ShapedDirection>,
    pub(crate) store: ConfigStore,
    pub(crate) promises: Promises,
    pub(crate) reservations: Reservations,
    pub(crate) telemetry: Telemetry,
    pub(crate) supervisor: Supervisor,
    pub(crate) notifier: Notifier,
    server: Option<(Server, Receiver<Inbound>)>,
    follower: Follower,
    handover: Handover,
    kept: Instant,
    limit: Option<Duration>,
    leave: Arc<AtomicBool>,
    checked: Instant,
    quotas: QuotaFile,
    /// When the times and quotas of rules were looked at last.
    timed: Instant,
}

impl Daemon {
    /// Starts a data path for each direction of each of `files`, and serves. `print` receives what people are to read, a
    /// line at a time. No two files have the same direction of an interface. Who may connect, the hook and where metrics
    /// are served is as in the first file that specifies it.
    ///
    /// # Errors
    /// See [`DaemonError`]; nothing is left behind then.
    pub fn start(files: Vec<ShaperFile>, settings: Settings, print: fn(&str)) -> Result<Self, DaemonError> {
        let Settings { limit, options, reload, leave, control, web, hook, reverse_lookup, history, sockets } = settings;
        let several = files.len() > 1;
        let mut quotas = quotas_of(&files, &options, &history);
        let words = options.guardian.as_ref().and_then(|guardian| guardian.log.clone());
        let died = words.as_deref().and_then(words::unexpected_end);
        // A missing interface is told before anything is attached: to end again would drop what waits in other queues.
        for config in files.iter().flat_map(|file| &file.configs) {
            are_there(config, &options)?;
        }
        // Before anything is attached; the socket itself comes later, since a predecessor has it until the data paths run.
        check_socket(&control, first_interface(&files, &options))?;
        let mut telemetry = Telemetry::new(web, hook, reverse_lookup);
        let mut notifier = Notifier::new(print, Arc::clone(telemetry.observer.shared()));
        let (mut promises, mut reservations) = (Promises::new(sockets), Reservations::default());
        let (mut directions, mut paths, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        for (number, ShaperFile { path, modified, configs }) in files.into_iter().enumerate() {
            paths.push((path, modified));
            for config in configs {
                let name = match config.interface.names.first().filter(|_| several) {
                    Some(interface) => format!("{interface}.{}", crate::directions::name_of(&config)),
                    None => crate::directions::name_of(&config).into(),
                };
                directions.push(ShapedDirection::prepare(config, number, name, &options)?);
                // Before packets are taken over, of which those of a flow with a promise would otherwise be queued without it.
                let (promises, reservations) = (&mut promises, &mut reservations);
                let mut grants = Grants { promises, reservations, notifier: &notifier };
                lost.extend(handover::restore(&directions, &mut grants));
                directions.last_mut().map_or(Ok(()), ShapedDirection::begin)?;
            }
        }
        // A direction whose predecessor has ended passes unshaped until it begins.
        directions.iter_mut().try_for_each(ShapedDirection::prove)?;
        let Some(first) = directions.first() else { return Err(StartError::NoInterface.into()) };
        let mode = first.config.control.mode;
        let interface = crate::directions::interface(&directions);
        let direction = match &*directions {
            [one] => Some(crate::directions::name_of(&one.config)),
            _ => None,
        };
        let named_after = crate::directions::interfaces(&directions).first().copied().unwrap_or_default();
        let listening = listen(&control, named_after, direction, mode, print)?;
        for message in privileges::raise_limits(options.priority) {
            print(&message);
        }
        let server = listening.map(Server::start).transpose().map_err(DaemonError::Serve)?;
        if let Some((server, _)) = &server {
            notifier.connect(server.handle().clone());
            promises.note_follows(&notifier);
        }
        if let Some(path) = &words {
            notifier.set_words(path);
            notifier.last_word(&format!("shaping {interface} has begun"));
        }
        // The predecessor, if there was one, has ended with the start of the data paths, and has written its last minute.
        if let Some(wrong) = quotas.read() {
            notifier.log(&wrong);
        }
        if let Some(path) = history.path(named_after, direction) {
            telemetry.keep_history(&path, &notifier);
        }
        if let Some(word) = died {
            let ago = tidegate_display::wait(tidegate_live::timing::now().as_nanos().saturating_sub(word.nanos));
            // The guardian says what became of packets: they pass, or the kernel goes on shaping.
            notifier.log(&format!("before this start, {ago} ago: {}", printable(&word.text)));
        }
        lost.iter().for_each(|text| notifier.log(text));
        telemetry.observer.shared().notes().add(NoteKind::Change, &crate::audit::start());
        let supervisor = Supervisor::start(&directions, options).map_err(DaemonError::Serve)?;
        for (at, direction) in directions.iter().enumerate() {
            notifier.attach(at, direction)?;
        }
        telemetry.serve_web(&directions)?;
        telemetry.serve_hook(&directions, &notifier, &interface).map_err(DaemonError::Hook)?;
        Ok(Self {
            directions,
            store: ConfigStore::new(paths, reload),
            promises,
            reservations,
            follower: Follower::default(),
            handover: Handover::default(),
            kept: Instant::now(),
            telemetry,
            supervisor,
            notifier,
            server,
            limit,
            leave,
            checked: Instant::now(),
            quotas,
            timed: Instant::now(),
        })
    }

    /// The names of the shaped interfaces, for people.
    pub fn interface(&self) -> String {
        crate::directions::interface(&self.directions)
    }
    /// The path of the file of a direction; `-` for standard input.
    pub fn file_of(&self, direction: &ShapedDirection) -> &std::path::Path {
        self.store.path(direction.file)
    }
    /// The path of the control socket, if there is one.
    pub fn control_path(&self) -> Option<PathBuf> {
        self.notifier.server().map(|server| server.listening().path())
    }
    /// The address of metrics and the web page, if they are served.
    pub fn web_address(&self) -> Option<std::net::SocketAddr> {
        self.telemetry.web_address()
    }
    /// Has the classes of each direction passed to `sampler` four times a second.
    pub fn set_sampler(&mut self, sampler: Sampler) {
        self.telemetry.sampler = Some(sampler);
    }

    /// Has the calls of the controllers of rates that follow their line recorded.
    pub fn set_line_recorders(&mut self, recorders: LineRecorders) {
        self.follower.recorders = Some(recorders);
    }

    /// Supervises, and handles requests, until `stop` is set or the time is over; then ends shaping in order, and returns
    /// the final counts of the classes of every direction.
    ///
    /// # Errors
    /// See [`DaemonError`]; traffic passes unshaped then.
    pub fn run(mut self, stop: &AtomicBool) -> Result<Vec<(String, Vec<ClassStatus>)>, DaemonError> {
        service::notify(&format!("READY=1\nSTATUS=shaping {}", self.interface()));
        let mut next = Instant::now() + TICK;
        while !stop.load(Ordering::Relaxed)
            && !self.supervisor.has_successor()
            && self.limit.is_none_or(|limit| self.supervisor.uptime() < limit)
        {
            let wake = self.promises.next().map_or(next, |due| due.min(next));
            let wait = wake.saturating_duration_since(Instant::now());
            match self.server.as_ref().map(|(_, inbox)| inbox.recv_timeout(wait)) {
                Some(Ok(inbound)) => self.handle(inbound),
                Some(Err(RecvTimeoutError::Timeout)) => {}
                Some(Err(RecvTimeoutError::Disconnected)) => {
                    self.notifier.log("the control socket has failed; shaping goes on without it");
                    self.notifier.disconnect();
                    self.server = None;
                }
                None => std::thread::sleep(wait),
            }
            if self.promises.next().is_some_and(|due| due <= Instant::now()) {
                self.promises.tick(&self.directions, &self.notifier);
            }
            if Instant::now() >= next {
                next = Instant::now() + TICK;
                self.tick();
            }
        }
        self.end()
    }

    fn handle(&mut self, inbound: Inbound) {
        match inbound {
            Inbound::Request { client, peer, request } => {
                let outcome = calls::answer(self, &Caller { client, peer }, &request);
                self.notifier.send(Outbound::Answer { client, message: Message::answer(request.id, outcome) });
            }
            Inbound::Gone { client } => {
                self.promises.disconnected(&self.directions, &self.notifier, client);
                self.telemetry.subscriptions.disconnected(client);
                self.reservations.disconnected(&self.directions, client);
            }
            Inbound::FlowBegan => {
                if let Some(server) = self.notifier.server() {
                    server.counters().flow_began.store(false, Ordering::Release);
                }
                self.promises.flow_began();
            }
        }
    }

    /// Everything that is due besides requests.
    fn tick(&mut self) {
        let Self {
            directions,
            store,
            promises,
            reservations,
            telemetry,
            supervisor,
            notifier,
            follower,
            handover,
            kept,
            quotas,
            timed,
            ..
        } = self;
        supervisor
            .tick(directions, &mut Grants { promises: &mut *promises, reservations: &mut *reservations, notifier });
        follower.tick(directions, notifier);
        let interface = crate::directions::interface(directions);
        telemetry.tick(directions, &supervisor.health(&interface), notifier);
        store.tick(
            directions,
            Followers {
                promises,
                reservations: &mut *reservations,
                telemetry,
                notifier,
                supervisor,
                interface: &interface,
            },
        );
        reservations.tick(directions);
        if timed.elapsed() >= TIMES {
            *timed = Instant::now();
            quotas.settle(directions, notifier, false);
            renew_rules(directions, notifier);
        }
        if kept.elapsed() >= handover::EVERY {
            *kept = Instant::now();
            handover.keep(directions, promises, reservations, notifier);
        }
        if self.checked.elapsed() >= FILE {
            self.checked = Instant::now();
            self.store.look_at_files(&self.notifier);
            let mode = self.directions.first().map(|direction| direction.config.control.mode);
            match mode.zip(self.notifier.server()).map(|(mode, server)| server.listen_again(mode)) {
                Some(Ok(true)) => self.notifier.log("the control socket was removed, and has been made again"),
                Some(Err(error)) => self.notifier.log(&format!("the control socket was removed, and {error}")),
                Some(Ok(false)) | None => {}
            }
        }
    }

    fn end(mut self) -> Result<Vec<(String, Vec<ClassStatus>)>, DaemonError> {
        service::notify("STOPPING=1");
        let interface = self.interface();
        self.telemetry.finish(&self.directions, &self.supervisor.health(&interface), &self.notifier);
        self.quotas.settle(&self.directions, &self.notifier, true);
        let successor = if self.supervisor.has_successor() { Successor::Ready } else { Successor::Later };
        let leaves = self.leave.load(Ordering::Relaxed) || successor == Successor::Ready;
        // The watchdog ends first: data paths that end on purpose are no failures.
        drop(self.supervisor);
        let mut ended = Vec::new();
        if leaves {
            self.handover.keep(&self.directions, &self.promises, &self.reservations, &self.notifier);
            for direction in &self.directions {
                if let Some(shaping) = direction.shaping() {
                    ended.push((direction.name.clone(), shaping.status()?));
                }
            }
            // A successor needs the addresses of the sockets; one that waits has them before packets wait for it.
            self.notifier.disconnect();
            drop((self.telemetry, self.server));
            for direction in &mut self.directions {
                direction.leave(successor);
            }
            let left: Vec<_> = self.directions.iter_mut().filter_map(ShapedDirection::take_left).collect();
            let text = match successor {
                _ if left.is_empty() => None,
                Successor::Ready => Some("is left to a successor"),
                Successor::Later => Some("is left to a successor; packets pass unshaped until then"),
            };
            drop(left);
            if let Some(text) = text {
                self.notifier.print(&format!("shaping {interface} {text}"));
            }
            if successor == Successor::Later {
                self.notifier.remove_words();
            }
            return Ok(ended);
        }
        for direction in &mut self.directions {
            if let Some(shaping) = direction.take_shaping() {
                let status = shaping.status()?;
                shaping.stop()?;
                ended.push((direction.name.clone(), status));
            }
        }
        self.notifier.print(&format!("shaping {interface} has ended; nothing is left behind"));
        self.notifier.remove_words();
        Ok(ended)
    }
}

/// Puts the rules in force that hold now, and logs what has changed; once of a count that several directions share.
fn renew_rules(directions: &mut [ShapedDirection], notifier: &Notifier) {
    let lines: Vec<_> = directions.iter_mut().map(|one| (one.name.clone(), one.renew_rules())).collect();
    let counts = || directions.iter().flat_map(|one| one.quotas()).map(|quota| quota.count);
    let mut told = BTreeSet::new();
    for (direction, (count, line)) in lines.iter().flat_map(|(name, lines)| lines.iter().map(move |line| (name, line)))
    {
        let is_shared = count.as_ref().is_some_and(|count| counts().filter(|other| other == count).count() > 1);
        if count.as_ref().is_none_or(|count| told.insert(count)) {
            let name = if is_shared { "both directions" } else { direction.as_str() };
            notifier.log(&format!("{name}: {line}"));
        }
    }
}

/// The use of quotas so far, for data paths that are to start.
fn quotas_of(files: &[ShaperFile], options: &Options, history: &HistoryPlace) -> QuotaFile {
    let configs: Vec<&Config> = files.iter().flat_map(|file| &file.configs).collect();
    let direction = match *configs {
        [one] => Some(crate::directions::name_of(one)),
        _ => None,
    };
    let path = first_interface(files, options).and_then(|interface| history.quotas(interface, direction));
    QuotaFile::new(options.quotas.clone(), path)
}

/// The first of the interfaces that are to be shaped.
fn first_interface<'a>(files: &'a [ShaperFile], options: &'a Options) -> Option<&'a String> {
    let of_file = files.iter().flat_map(|file| &file.configs).next().and_then(|config| config.interface.names.first());
    options.interfaces.first().or(of_file)
}

/// Checks that files can be made in the directory of the control socket. Without a directory there will be no socket.
fn check_socket(control: &ControlSocket, interface: Option<&String>) -> Result<(), SocketError> {
    let checked = match (control, interface) {
        (ControlSocket::Path(path), _) => Listening::check(path),
        (ControlSocket::Default, Some(interface)) => Listening::check_for_interface(interface),
        (ControlSocket::Off, _) | (ControlSocket::Default, None) => Ok(()),
    };
    if let Err(SocketError::NoDirectory(_)) = checked { Ok(()) } else { checked }
}

/// Makes the control socket.
fn listen(
    control: &ControlSocket,
    interface: &str,
    direction: Option<&'static str>,
    mode: u32,
    print: fn(&str),
) -> Result<Option<Listening>, SocketError> {
    match control {
        ControlSocket::Off => Ok(None),
        ControlSocket::Path(path) => Listening::at(path, mode).map(Some),
        ControlSocket::Default => match Listening::for_interface(interface, direction, mode) {
            Ok(listening) => Ok(Some(listening)),
            Err(SocketError::NoDirectory(why)) => {
                print(&format!(
                    "no control socket is served, because its directory does not exist ({why}); choose a path with --control"
                ));
                Ok(None)
            }
            Err(error) => Err(error),
        },
    }
}
