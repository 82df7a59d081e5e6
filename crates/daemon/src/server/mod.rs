//! The thread of the control socket: lines in, lines out, and every limit on clients.
//!
//! Nothing here touches the engine. A request goes to the [`Daemon`](crate::Daemon) over a channel, its answer comes
//! back over another. What a client does not read waits in a buffer of bounded size: pushes beyond it are counted and
//! lost, an answer beyond it ends the connection. What a client sends too fast waits in its own socket, unread.

mod client;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use tidegate_control::calls::{ControlStatus, Event};
use tidegate_control::protocol::{Code, Message, Refusal, Request};
use tidegate_core::Event as CoreEvent;
use tidegate_engine::NotificationKind;

use crate::events::{self, Interest, Notice, Scene};
use crate::hook::Hook;
use crate::socket::Listening;
use client::{Client, Taken};

/// The most clients.
pub const CLIENTS: usize = 4_096;
/// The most clients of one user who is not root.
pub const CLIENTS_OF_ONE: usize = 256;
/// The most subscriptions of one client to events and feedback; those that come with promises do not count.
pub const SUBSCRIPTIONS: usize = 16;
/// Events of the data path that wait to be fanned out; more are lost and counted.
const NOTICES: usize = 16_384;
/// Notices fanned out before the sockets are looked at again.
const NOTICES_A_TURN: usize = 1_024;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The user.
    pub uid: u32,
    /// The process.
    pub pid: i32,
}

/// What the server hands to the daemon.
#[derive(Debug)]
pub(crate) enum Inbound {
    /// A request. It must be answered exactly once.
    Request { client: u64, peer: Peer, request: Request },
    /// This client is gone, and all that it held must go.
    Gone { client: u64 },
    /// A flow began, while flows of processes are looked for.
    FlowBegan,
}

// Handed over one at a time, never kept in numbers.
#[allow(clippy::large_enum_variant)]
/// What the daemon hands to the server.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "an answer is the most frequent")]
pub(crate) enum Outbound {
    /// The answer to the oldest request of this client.
    Answer { client: u64, message: Message },
    /// From now on this client is told of these; what happens before its next answer, which is that to the request that led
    /// to this, is told after it.
    Subscribe { client: u64, subscription: u64, interest: Interest },
    /// And of these no more.
    Unsubscribe { client: u64, subscription: u64 },
    /// Everybody who subscribed to such events is told.
    Publish(Box<Event>),
    /// What names mean in the events of the data path.
    Scene(usize, Scene),
    /// The program that is run on events from now on, if any.
    Hook(Option<Hook>),
    /// End.
    Stop,
}

/// What is counted, for `status`.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    clients: AtomicU64,
    subscriptions: AtomicU64,
    pub requests: AtomicU64,
    pub refused: AtomicU64,
    cut: AtomicU64,
    pushes: AtomicU64,
    lost: AtomicU64,
    /// Whether flows of processes are looked for, and one that may be of them began.
    pub hunting: AtomicBool,
    pub scent: AtomicBool,
    /// Whether a program is run on events.
    pub hooked: AtomicBool,
}

impl Counters {
    pub fn status(&self) -> ControlStatus {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ControlStatus {
            clients: read(&self.clients),
            subscriptions: read(&self.subscriptions),
            requests: read(&self.requests),
            refused: read(&self.refused),
            cut: read(&self.cut),
            pushes: read(&self.pushes),
            lost: read(&self.lost),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Wakes the server, at the cost of one system call however often it is asked before the server looks.
#[derive(Clone, Debug)]
struct Bell {
    fd: Arc<OwnedFd>,
    rung: Arc<AtomicBool>,
}

impl Bell {
    fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd: Arc::new(fd), rung: Arc::default() })
    }
    fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            let _ = rustix::io::write(&*self.fd, &1_u64.to_ne_bytes());
        }
    }
    /// Before looking at what it was rung for.
    fn hear(&self) {
        let _ = rustix::io::read(&*self.fd, &mut [0_u8; 8]);
        self.rung.store(false, Ordering::Release);
    }
}

/// The data path's way to tell the server something. Never waits.
#[derive(Clone, Debug)]
pub(crate) struct Teller {
    notices: SyncSender<Notice>,
    bell: Bell,
    counters: Arc<Counters>,
}

impl Teller {
    /// Whether anybody listens at the moment.
    pub fn is_heard(&self) -> bool {
        self.counters.subscriptions.load(Ordering::Relaxed) > 0
            || self.counters.hunting.load(Ordering::Relaxed)
            || self.counters.hooked.load(Ordering::Relaxed)
    }
    /// Tells; `false` when the server has ended.
    pub fn tell(&self, notice: Notice) -> bool {
        match self.notices.try_send(notice) {
            Ok(()) => self.bell.ring(),
            Err(TrySendError::Full(_)) => count(&self.counters.lost),
            Err(TrySendError::Disconnected(_)) => return false,
        }
        true
    }
}

/// The daemon's end of the server. The server ends, and its socket goes, when this goes.
#[derive(Debug)]
pub(crate) struct Server {
    to: Sender<Outbound>,
    teller: Teller,
    listening: Arc<Listening>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to serve. Requests come out of the receiver.
    pub fn start(listening: Listening) -> io::Result<(Self, Receiver<Inbound>)> {
        let (to, outbox) = mpsc::channel();
        let (into, inbox) = mpsc::channel();
        let (notices, heard) = mpsc::sync_channel(NOTICES);
        let bell = Bell::new()?;
        let counters = Arc::new(Counters::default());
        let teller = Teller { notices, bell: bell.clone(), counters: Arc::clone(&counters) };
        let listening = Arc::new(listening);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, listening.listener(), epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &*bell.fd, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        let server = Serving {
            epoll,
            bell,
            listening: Arc::clone(&listening),
            clients: HashMap::new(),
            next: FIRST_CLIENT,
            outbox,
            notices: heard,
            into,
            counters,
            scenes: Vec::new(),
            hook: None,
            paused: Vec::new(),
            deaf_until: None,
        };
        let thread = thread::Builder::new().name("tidegate-control".into()).spawn(move || server.run())?;
        Ok((Self { to, teller, listening, thread: Some(thread) }, inbox))
    }

    pub fn say(&self, outbound: Outbound) {
        // A server that has ended has nobody to tell.
        if self.to.send(outbound).is_ok() {
            self.teller.bell.ring();
        }
    }
    pub fn teller(&self) -> &Teller {
        &self.teller
    }
    pub fn counters(&self) -> &Counters {
        &self.teller.counters
    }
    pub fn listening(&self) -> &Listening {
        &self.listening
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.say(Outbound::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

const LISTENER: u64 = 0;
const BELL: u64 = 1;
const FIRST_CLIENT: u64 = 2;

/// The server's own half.
struct Serving {
    epoll: OwnedFd,
    bell: Bell,
    listening: Arc<Listening>,
    clients: HashMap<u64, Client>,
    next: u64,
    outbox: Receiver<Outbound>,
    notices: Receiver<Notice>,
    into: Sender<Inbound>,
    counters: Arc<Counters>,
    scenes: Vec<Scene>,
    hook: Option<Hook>,
    /// Clients that sent too fast, until when.
    paused: Vec<(Instant, u64)>,
    /// No more file descriptors: nobody is accepted until then.
    deaf_until: Option<Instant>,
}

impl Serving {
    fn run(mut self) {
        let mut events = Vec::with_capacity(256);
        loop {
            let timeout = self.timeout();
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // Nothing can be waited for any more; the data path goes on without us.
                Err(_) => return,
            }
            for event in &events {
                let (token, flags): (u64, epoll::EventFlags) = (event.data.u64(), event.flags);
                match token {
                    LISTENER => self.accept(),
                    BELL => self.bell.hear(),
                    client => self.turn(client, flags),
                }
            }
            if !self.take_words() {
                return;
            }
            self.take_notices();
            self.resume();
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        let next = self.paused.iter().map(|(time, _)| *time).chain(self.deaf_until).min()?;
        let wait = next.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
        Some(Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() })
    }

    fn accept(&mut self) {
        // A few at a time, so that a storm of connections does not keep answers waiting.
        for _ in 0..64 {
            match self.listening.listener().accept() {
                Ok((stream, _)) => {
                    let Ok(mut client) = Client::new(stream) else { continue };
                    let uid = client.peer().uid;
                    let same = self.clients.values().filter(|other| other.peer().uid == uid).count();
                    let of_one = if uid == 0 { CLIENTS } else { CLIENTS_OF_ONE };
                    if self.clients.len() >= CLIENTS || same >= of_one {
                        count(&self.counters.cut);
                        let text = format!("there are {same} connections of this user already");
                        client.turn_away(Refusal::new(Code::TooMany, text).help("use one connection for all calls"));
                        continue;
                    }
                    let token = self.next;
                    self.next += 1;
                    if client.register(&self.epoll, token).is_ok() {
                        self.clients.insert(token, client);
                        self.counters.clients.store(self.clients.len() as u64, Ordering::Relaxed);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::CONNABORTED.raw_os_error()) => {}
                // Out of file descriptors or memory: those who are here go on, the others wait.
                Err(_) => {
                    let _ = epoll::delete(&self.epoll, self.listening.listener());
                    self.deaf_until = Some(Instant::now() + Duration::from_millis(100));
                    return;
                }
            }
        }
    }

    /// A client can be read or written.
    fn turn(&mut self, token: u64, flags: epoll::EventFlags) {
        let Some(client) = self.clients.get_mut(&token) else { return };
        if flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP) {
            self.cut(token);
            return;
        }
        let written = !flags.contains(epoll::EventFlags::OUT) || client.flush().is_ok();
        let read = !flags.contains(epoll::EventFlags::IN) || client.read().is_ok();
        if !written || !read {
            self.cut(token);
            return;
        }
        self.serve(token);
    }

    /// Takes what requests of the client there are.
    fn serve(&mut self, token: u64) {
        let Some(client) = self.clients.get_mut(&token) else { return };
        let now = Instant::now();
        loop {
            match client.take(now) {
                Taken::Request(request) => {
                    count(&self.counters.requests);
                    if self.into.send(Inbound::Request { client: token, peer: client.peer(), request }).is_err() {
                        break;
                    }
                }
                Taken::Wrong(id, refusal) => {
                    count(&self.counters.requests);
                    count(&self.counters.refused);
                    client.answer(&Message::Error { id, error: refusal });
                }
                Taken::Later(time) => {
                    self.paused.push((time, token));
                    break;
                }
                Taken::Nothing => break,
            }
        }
        self.settle(token);
    }

    /// After anything was done to a client: writes what can be written, ends it if it has ended.
    fn settle(&mut self, token: u64) {
        let Some(client) = self.clients.get_mut(&token) else { return };
        if client.settle(&self.epoll, token).is_err() {
            self.cut(token);
        }
    }

    fn cut(&mut self, token: u64) {
        let Some(client) = self.clients.remove(&token) else { return };
        if client.is_cut() {
            count(&self.counters.cut);
        }
        let _ = epoll::delete(&self.epoll, client.as_fd());
        self.counters.clients.store(self.clients.len() as u64, Ordering::Relaxed);
        self.count_subscriptions();
        let _ = self.into.send(Inbound::Gone { client: token });
    }

    fn count_subscriptions(&self) {
        let all: usize = self.clients.values().map(|client| client.subscriptions().len()).sum();
        self.counters.subscriptions.store(all as u64, Ordering::Relaxed);
    }

    /// What the daemon says; `false` at the end.
    fn take_words(&mut self) -> bool {
        while let Ok(word) = self.outbox.try_recv() {
            match word {
                Outbound::Answer { client: token, message } => {
                    if let Message::Error { .. } = message {
                        count(&self.counters.refused);
                    }
                    if let Some(client) = self.clients.get_mut(&token) {
                        client.answered(&message);
                        // Requests that waited for this one.
                        self.serve(token);
                    }
                }
                Outbound::Subscribe { client: token, subscription, interest } => {
                    if let Some(client) = self.clients.get_mut(&token) {
                        client.subscribe(subscription, interest);
                        self.count_subscriptions();
                    }
                }
                Outbound::Unsubscribe { client: token, subscription } => {
                    if let Some(client) = self.clients.get_mut(&token) {
                        client.unsubscribe(subscription);
                        self.count_subscriptions();
                    }
                }
                Outbound::Publish(event) => self.publish(&event, None),
                Outbound::Hook(hook) => self.hook = hook,
                Outbound::Scene(direction, scene) => {
                    self.scenes.resize_with(self.scenes.len().max(direction + 1), Scene::default);
                    self.scenes[direction] = scene;
                }
                Outbound::Stop => return false,
            }
        }
        true
    }

    fn take_notices(&mut self) {
        for n in 0.. {
            if n == NOTICES_A_TURN {
                // The rest in the next turn, after the sockets.
                self.bell.ring();
                break;
            }
            let Ok(notice) = self.notices.try_recv() else { break };
            let began = matches!(notice.kind, NotificationKind::Event(CoreEvent::FlowStarted { .. }));
            if began
                && self.counters.hunting.load(Ordering::Relaxed)
                && !self.counters.scent.swap(true, Ordering::AcqRel)
            {
                let _ = self.into.send(Inbound::FlowBegan);
            }
            if self.hook.is_some() || self.counters.subscriptions.load(Ordering::Relaxed) > 0 {
                let event = events::describe(&notice, self.scenes.get(notice.direction));
                self.publish(&event, Some(&notice));
            }
        }
    }

    fn publish(&mut self, event: &Event, notice: Option<&Notice>) {
        if let Some(hook) = &self.hook {
            hook.tell(event);
        }
        // Written once, however many are told.
        let mut written: Option<Vec<u8>> = None;
        let mut told = Vec::new();
        for (token, client) in &mut self.clients {
            let mut any = false;
            for place in 0..client.subscriptions().len() {
                let subscription = &client.subscriptions()[place];
                if !subscription.interest.wants(event, notice) {
                    continue;
                }
                let body = written.get_or_insert_with(|| serde_json::to_vec(event).unwrap_or_default());
                let mut line = format!("{{\"subscription\":{},\"event\":", subscription.id).into_bytes();
                line.extend_from_slice(body);
                line.extend_from_slice(b"}\n");
                let id = subscription.id;
                client.push_to(id, &line, &self.counters.pushes, &self.counters.lost);
                any = true;
            }
            if any {
                told.push(*token);
            }
        }
        told.into_iter().for_each(|token| self.settle(token));
    }

    fn resume(&mut self) {
        if self.paused.is_empty() && self.deaf_until.is_none() {
            return;
        }
        let now = Instant::now();
        if self.deaf_until.is_some_and(|time| time <= now) {
            self.deaf_until = None;
            let token = epoll::EventData::new_u64(LISTENER);
            let _ = epoll::add(&self.epoll, self.listening.listener(), token, epoll::EventFlags::IN);
        }
        let due: Vec<u64> = self.paused.iter().filter(|(time, _)| *time <= now).map(|(_, token)| *token).collect();
        self.paused.retain(|(time, _)| *time > now);
        due.into_iter().for_each(|token| self.serve(token));
    }
}
