//! The thread of the control socket: lines in, lines out, and every limit on clients.
//!
//! Nothing here touches the engine. A request goes to the [`Daemon`](crate::Daemon) over a channel, and its reply returns
//! over another. What a client does not read is kept in a buffer of limited size: notifications beyond it are counted and
//! lost, a reply beyond it closes the connection. What a client sends too fast stays in its own socket, unread.

mod allowance;
mod client;
pub(crate) mod event;
mod socket;
mod turns;
mod waker;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use tidegate_control::calls::{ControlStatus, Event};
use tidegate_control::protocol::{Code, Message, Refusal, Request};
use tidegate_core::Event as CoreEvent;
use tidegate_engine::NotificationKind;
use tidegate_engine::guard::lock;

use crate::caller::Peer;
use crate::telemetry::hook::Hook;
use allowance::{Allowance, REQUESTS_OF_ONE};
use client::{Client, Taken, UNREAD_EVENTS};
use event::{DirectionNames, FlowEvent, Selector};
use turns::Turns;
use waker::Waker;

pub use socket::{Listening, SocketError};

/// The maximum number of connections.
pub const CLIENTS: usize = 4_096;
/// The maximum number of connections of one user who is not root.
pub const CLIENTS_OF_ONE: usize = 256;
/// The maximum of bytes that one user who is not root leaves unread, or sends without being read, over all connections.
pub const UNREAD_OF_ONE: usize = 8 << 20;
/// The maximum number of subscriptions of one connection to events and feedback; those of promises do not count.
pub const SUBSCRIPTIONS: usize = 16;
/// The maximum number of such subscriptions of one user who is not root, over all connections.
pub const SUBSCRIPTIONS_OF_ONE: usize = 512;
/// Events of the data path that are queued for the server; further ones are lost and counted.
const EVENTS: usize = 16_384;
/// Events handled before the sockets are served again.
const EVENTS_A_TURN: usize = 1_024;
/// The most connections of users who are not root that are served between two looks at those of root.
const OTHERS_A_TURN: usize = 64;

/// From the server to the daemon.
#[derive(Debug)]
pub(crate) enum Inbound {
    /// A request, which needs exactly one reply.
    Request { client: u64, peer: Peer, request: Request },
    /// A connection has ended, and with it its promises, reservations and subscriptions.
    Gone { client: u64 },
    /// A flow began, while the sockets of processes are followed.
    FlowBegan,
}

/// From the daemon to the server.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a reply is the most frequent")]
pub(crate) enum Outbound {
    /// The reply to the oldest request of this client.
    Answer { client: u64, message: Message },
    /// Begins a subscription, or replaces its selector. Events before the next reply to this client, which is the one to the
    /// request that subscribes, are sent after it.
    Subscribe { client: u64, subscription: u64, selector: Selector },
    /// Ends a subscription.
    Unsubscribe { client: u64, subscription: u64 },
    /// An event for every subscription that selects it.
    Publish(Box<Event>),
    /// The names in the events of a direction.
    Names(usize, DirectionNames),
    /// The program that is run on events from now on, if any.
    Hook(Option<Hook>),
    /// Clients connect to this socket from now on.
    Listen(Arc<Listening>),
    /// Ends the server.
    Stop,
}

/// Counters for `status`, and flags between the threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    clients: AtomicU64,
    subscriptions: AtomicU64,
    pub requests: AtomicU64,
    pub refused: AtomicU64,
    cut: AtomicU64,
    pushes: AtomicU64,
    lost: AtomicU64,
    /// Whether sockets of processes are followed.
    pub follows: AtomicBool,
    /// A flow began since the daemon last read those sockets.
    pub flow_began: AtomicBool,
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

/// Sends the events of a data path to the server. Never waits.
#[derive(Clone, Debug)]
pub(crate) struct EventSender {
    queue: SyncSender<FlowEvent>,
    waker: Waker,
    counters: Arc<Counters>,
}

impl EventSender {
    /// Whether anything would be done with an event now.
    pub fn is_wanted(&self) -> bool {
        self.counters.subscriptions.load(Ordering::Relaxed) > 0
            || self.counters.follows.load(Ordering::Relaxed)
            || self.counters.hooked.load(Ordering::Relaxed)
    }
    /// Queues an event, or counts it as lost; returns `false` when the server has ended.
    pub fn send(&self, event: FlowEvent) -> bool {
        match self.queue.try_send(event) {
            Ok(()) => self.waker.wake(),
            Err(TrySendError::Full(_)) => count(&self.counters.lost),
            Err(TrySendError::Disconnected(_)) => return false,
        }
        true
    }
}

/// The daemon's access to the server.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    queue: Sender<Outbound>,
    events: EventSender,
    listening: Arc<Mutex<Arc<Listening>>>,
}

impl Handle {
    pub fn send(&self, outbound: Outbound) {
        // A server that has ended has no clients.
        if self.queue.send(outbound).is_ok() {
            self.events.waker.wake();
        }
    }
    pub fn events(&self) -> &EventSender {
        &self.events
    }
    pub fn counters(&self) -> &Counters {
        &self.events.counters
    }
    pub fn listening(&self) -> Arc<Listening> {
        Arc::clone(&lock(&self.listening))
    }
    /// Makes the socket again if its file was removed; returns whether it was.
    ///
    /// # Errors
    /// See [`Listening::again`].
    pub fn listen_again(&self, mode: u32) -> Result<bool, SocketError> {
        let Some(again) = self.listening().again(mode)?.map(Arc::new) else { return Ok(false) };
        *lock(&self.listening) = Arc::clone(&again);
        self.send(Outbound::Listen(again));
        Ok(true)
    }
}

/// A running server. Dropping it ends the server and removes the socket.
#[derive(Debug)]
pub(crate) struct Server {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to serve. The receiver returns requests.
    pub fn start(listening: Listening) -> io::Result<(Self, Receiver<Inbound>)> {
        let (queue, outbound) = mpsc::channel();
        let (inbound, requests) = mpsc::channel();
        let (sender, events) = mpsc::sync_channel(EVENTS);
        let waker = Waker::new()?;
        let counters = Arc::new(Counters::default());
        let sender = EventSender { queue: sender, waker: waker.clone(), counters: Arc::clone(&counters) };
        let listening = Arc::new(listening);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, listening.listener(), epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &waker, epoll::EventData::new_u64(WAKER), epoll::EventFlags::IN)?;
        let server = Serving {
            epoll,
            waker,
            listening: Arc::clone(&listening),
            clients: HashMap::new(),
            next: FIRST_CLIENT,
            outbound,
            events,
            inbound,
            counters,
            names: Vec::new(),
            turns: Turns::default(),
            users: HashMap::new(),
            hook: None,
            paused: Vec::new(),
            accept_after: None,
            next_other: 0,
        };
        let thread = thread::Builder::new().name("tidegate-control".into()).spawn(move || server.run())?;
        let handle = Handle { queue, events: sender, listening: Arc::new(Mutex::new(listening)) };
        Ok((Self { handle, thread: Some(thread) }, requests))
    }

    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.handle.send(Outbound::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

const LISTENER: u64 = 0;
const WAKER: u64 = 1;
const FIRST_CLIENT: u64 = 2;

/// The connections and subscriptions of one user.
#[derive(Debug)]
struct User {
    connections: usize,
    unread: usize,
    /// The requests of all connections; none is counted for operators.
    allowance: Allowance,
}

impl Default for User {
    fn default() -> Self {
        Self { connections: 0, unread: 0, allowance: Allowance::new(REQUESTS_OF_ONE) }
    }
}

/// The state of the server's thread.
struct Serving {
    epoll: OwnedFd,
    waker: Waker,
    listening: Arc<Listening>,
    clients: HashMap<u64, Client>,
    next: u64,
    outbound: Receiver<Outbound>,
    events: Receiver<FlowEvent>,
    inbound: Sender<Inbound>,
    counters: Arc<Counters>,
    names: Vec<DirectionNames>,
    turns: Turns,
    /// Connections and unread bytes of each user.
    users: HashMap<u32, User>,
    hook: Option<Hook>,
    /// Clients that exceeded their rate of requests, and until when they are not read.
    paused: Vec<(Instant, u64)>,
    /// The listening socket is not waited for until then: out of file descriptors, or it is another one.
    accept_after: Option<Instant>,
    /// Where the next turn begins among the connections that are ready, where there are more than one turn serves.
    next_other: usize,
}

impl Serving {
    fn run(mut self) {
        let mut events = Vec::with_capacity(256);
        loop {
            let timeout = self.timeout();
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // No wait is possible any more; the data path continues without the server.
                Err(_) => return,
            }
            // Operators do not wait for the lines of others that arrived first.
            events.sort_by_key(|event| !self.is_of_operator(event.data.u64()));
            let operators = events.partition_point(|event| self.is_of_operator(event.data.u64()));
            let others = events.len() - operators;
            if others > OTHERS_A_TURN {
                // Those that are left out are ready again in the next turn, which begins with others of them.
                events[operators..].rotate_left(self.next_other % others);
                events.truncate(operators + OTHERS_A_TURN);
                self.next_other = self.next_other.wrapping_add(OTHERS_A_TURN);
            }
            for event in &events {
                let (token, flags): (u64, epoll::EventFlags) = (event.data.u64(), event.flags);
                match token {
                    LISTENER => self.accept(),
                    WAKER => self.waker.clear(),
                    client => self.ready(client, flags),
                }
            }
            if !self.handle_outbound() {
                return;
            }
            self.handle_events();
            self.resume();
            self.hand_over();
        }
    }

    /// Whether the source of an event is a connection of an operator, or none of a client.
    fn is_of_operator(&self, token: u64) -> bool {
        token < FIRST_CLIENT || self.clients.get(&token).is_some_and(|client| client.peer().is_operator())
    }

    fn timeout(&self) -> Option<Timespec> {
        let next = self.paused.iter().map(|(time, _)| *time).chain(self.accept_after).min()?;
        let wait = next.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
        Some(Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() })
    }

    fn accept(&mut self) {
        // A few at a time, so that many new connections do not delay replies.
        for _ in 0..64 {
            match self.listening.listener().accept() {
                Ok((stream, _)) => {
                    let Ok(mut client) = Client::new(stream) else { continue };
                    // One that is closed again costs no more than this.
                    if client.is_gone() {
                        continue;
                    }
                    let uid = client.peer().uid;
                    let same = self.users.get(&uid).map_or(0, |user| user.connections);
                    let of_one = if uid == 0 { CLIENTS } else { CLIENTS_OF_ONE };
                    if self.clients.len() >= CLIENTS || same >= of_one {
                        count(&self.counters.cut);
                        let text = format!("there are {same} connections of this user already");
                        client.reject(Refusal::new(Code::TooMany, text).help("use one connection for all calls"));
                        continue;
                    }
                    let token = self.next;
                    self.next += 1;
                    if self.users.len() >= CLIENTS {
                        let now = Instant::now();
                        self.users.retain(|_, user| user.connections > 0 || !user.allowance.is_full(now));
                    }
                    if client.register(&self.epoll, token).is_ok() {
                        self.users.entry(uid).or_default().connections += 1;
                        self.clients.insert(token, client);
                        self.counters.clients.store(self.clients.len() as u64, Ordering::Relaxed);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::CONNABORTED.raw_os_error()) => {}
                // Out of file descriptors or memory: present clients are served, others wait.
                Err(_) => {
                    let _ = epoll::delete(&self.epoll, self.listening.listener());
                    self.accept_after = Some(Instant::now() + Duration::from_millis(100));
                    return;
                }
            }
        }
    }

    /// A client is ready to be read or written.
    fn ready(&mut self, token: u64, flags: epoll::EventFlags) {
        let Some(client) = self.clients.get_mut(&token) else { return };
        if flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP) {
            self.close(token);
            return;
        }
        let written = !flags.contains(epoll::EventFlags::OUT) || client.flush().is_ok();
        let read = !flags.contains(epoll::EventFlags::IN) || client.read().is_ok();
        if !written || !read {
            self.close(token);
            return;
        }
        self.serve(token);
    }

    /// Takes the complete requests of a client.
    fn serve(&mut self, token: u64) {
        let Some(client) = self.clients.get_mut(&token) else { return };
        let now = Instant::now();
        let user = self.users.entry(client.peer().uid).or_default();
        loop {
            let allowance = (!client.peer().is_operator()).then_some(&mut user.allowance);
            match client.take(now, allowance) {
                Taken::Request(request) => {
                    count(&self.counters.requests);
                    let peer = client.peer();
                    self.turns.add(peer, Inbound::Request { client: token, peer, request });
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

    /// After any change of a client: writes what the socket accepts, and closes a connection that has ended.
    fn settle(&mut self, token: u64) {
        let Some(client) = self.clients.get_mut(&token) else { return };
        let mut ended = client.settle(&self.epoll, token).is_err();
        let user = self.users.entry(client.peer().uid).or_default();
        let (before, now) = client.count_buffers();
        user.unread = user.unread - before + now;
        if now > 0 && user.unread > UNREAD_OF_ONE && !client.peer().is_operator() {
            client.overflow();
            ended = true;
        }
        if ended {
            self.close(token);
        }
    }

    fn close(&mut self, token: u64) {
        let Some(mut client) = self.clients.remove(&token) else { return };
        if client.is_cut() {
            count(&self.counters.cut);
        }
        let _ = epoll::delete(&self.epoll, client.as_fd());
        self.counters.clients.store(self.clients.len() as u64, Ordering::Relaxed);
        if !client.subscriptions().is_empty() {
            self.count_subscriptions();
        }
        let peer = client.peer();
        let (before, _) = client.count_buffers();
        if let Some(user) = self.users.get_mut(&peer.uid) {
            (user.connections, user.unread) = (user.connections - 1, user.unread - before);
            // One that connects again goes on with the allowance that it had left.
            if user.connections == 0 && user.allowance.is_full(Instant::now()) {
                self.users.remove(&peer.uid);
            }
        }
        self.turns.add(peer, Inbound::Gone { client: token });
    }

    /// Hands requests over to the daemon, as many as it may have.
    fn hand_over(&mut self) {
        while let Some(inbound) = self.turns.next() {
            if self.inbound.send(inbound).is_err() {
                return;
            }
        }
    }

    fn count_subscriptions(&self) {
        let all: usize = self.clients.values().map(|client| client.subscriptions().len()).sum();
        self.counters.subscriptions.store(all as u64, Ordering::Relaxed);
    }

    /// Handles what the daemon sent; returns `false` at the end.
    fn handle_outbound(&mut self) -> bool {
        while let Ok(outbound) = self.outbound.try_recv() {
            match outbound {
                Outbound::Answer { client: token, message } => {
                    self.turns.answered();
                    if let Message::Error { .. } = message {
                        count(&self.counters.refused);
                    }
                    if let Some(client) = self.clients.get_mut(&token) {
                        client.answered(&message);
                        // Requests that waited for this one.
                        self.serve(token);
                    }
                }
                Outbound::Subscribe { client: token, subscription, selector } => {
                    if let Some(client) = self.clients.get_mut(&token) {
                        client.subscribe(subscription, selector);
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
                Outbound::Names(direction, names) => {
                    self.names.resize_with(self.names.len().max(direction + 1), DirectionNames::default);
                    self.names[direction] = names;
                }
                Outbound::Listen(listening) => {
                    // Those that connected before the file was removed.
                    self.accept();
                    let _ = epoll::delete(&self.epoll, self.listening.listener());
                    self.listening = listening;
                    self.accept_after = Some(Instant::now());
                }
                Outbound::Stop => return false,
            }
        }
        true
    }

    fn handle_events(&mut self) {
        for n in 0.. {
            if n == EVENTS_A_TURN {
                // The rest in the next turn, after the sockets.
                self.waker.wake();
                break;
            }
            let Ok(source) = self.events.try_recv() else { break };
            let began = matches!(source.kind, NotificationKind::Event(CoreEvent::FlowStarted { .. }));
            if began
                && self.counters.follows.load(Ordering::Relaxed)
                && !self.counters.flow_began.swap(true, Ordering::AcqRel)
            {
                let _ = self.inbound.send(Inbound::FlowBegan);
            }
            if self.hook.is_some() || self.counters.subscriptions.load(Ordering::Relaxed) > 0 {
                let event = event::to_event(&source, self.names.get(source.direction));
                self.publish(&event, Some(&source));
            }
        }
    }

    fn publish(&mut self, event: &Event, source: Option<&FlowEvent>) {
        if let Some(hook) = &self.hook {
            hook.run(event);
        }
        // Written once, however many receive it.
        let mut written: Option<Vec<u8>> = None;
        let mut receivers = Vec::new();
        for (token, client) in &mut self.clients {
            let mut any = false;
            // A user with much unread loses notifications before connections.
            let unread = self.users.get(&client.peer().uid).map_or(0, |user| user.unread);
            let crowded = unread > UNREAD_OF_ONE / 2 && !client.peer().is_operator();
            let limit = if crowded { 0 } else { UNREAD_EVENTS };
            for place in 0..client.subscriptions().len() {
                let subscription = &client.subscriptions()[place];
                if !subscription.selector.selects(event, source) {
                    continue;
                }
                let body = written.get_or_insert_with(|| serde_json::to_vec(event).unwrap_or_default());
                let mut line = format!("{{\"subscription\":{},\"event\":", subscription.id).into_bytes();
                line.extend_from_slice(body);
                line.extend_from_slice(b"}\n");
                let id = subscription.id;
                client.push_to(id, &line, limit, &self.counters.pushes, &self.counters.lost);
                any = true;
            }
            if any {
                receivers.push(*token);
            }
        }
        receivers.into_iter().for_each(|token| self.settle(token));
    }

    fn resume(&mut self) {
        if self.paused.is_empty() && self.accept_after.is_none() {
            return;
        }
        let now = Instant::now();
        if self.accept_after.is_some_and(|time| time <= now) {
            self.accept_after = None;
            let token = epoll::EventData::new_u64(LISTENER);
            let _ = epoll::add(&self.epoll, self.listening.listener(), token, epoll::EventFlags::IN);
        }
        let due: Vec<u64> = self.paused.iter().filter(|(time, _)| *time <= now).map(|(_, token)| *token).collect();
        self.paused.retain(|(time, _)| *time > now);
        due.into_iter().for_each(|token| self.serve(token));
    }
}
