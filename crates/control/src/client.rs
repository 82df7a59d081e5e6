//! [`Client`]: one connection with a method for each call.
//!
//! The declarations of the calls generate the methods, except those of calls that concern subscriptions.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::calls::{CALLS, Event, Events, Feedback, FlowState, Permission, ReservationsQuery, Unsubscribe};
use crate::place::{Place, PlaceError};
use crate::protocol::{CHANGE_TIMEOUT, CONNECT_TIMEOUT, Call, Message, REPLY_TIMEOUT, Refusal, Request, VERSION};

/// How long a connection waits for its place in the queue of the socket, and a call for a daemon that is stopped.
const STOPPED: Duration = CONNECT_TIMEOUT;
/// After this time without a notification the daemon is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(5);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No shaper was found, or more than one.
    #[error(transparent)]
    NotFound(#[from] PlaceError),
    /// No connection to the socket.
    #[error("cannot reach tidegate at {}: {source}{}", .path.display(), advice(.source))]
    Connect {
        /// Path of the socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A read or write on the connection failed.
    #[error("the connection to tidegate broke: {0}")]
    Io(#[from] io::Error),
    /// The daemon does not answer.
    #[error("tidegate does not answer: {0}")]
    Silent(Silent),
    /// The daemon closed the connection.
    #[error("tidegate closed the connection; it may have ended, see `tidegate status`")]
    Closed,
    /// A message of the daemon is not in the protocol.
    #[error("this client does not understand a message of tidegate: {0}")]
    Protocol(String),
    /// The daemon refused the call.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; is it running?",
        io::ErrorKind::ConnectionRefused => {
            "; its process has ended: `tidegate status` shows its last words and whether traffic is shaped"
        }
        io::ErrorKind::InvalidInput => "; the path of a socket has at most 107 bytes",
        io::ErrorKind::PermissionDenied => "; its file mode keeps you out, see [control] in the shaper file",
        io::ErrorKind::TimedOut => "; the process that listens there is stopped or hangs: `kill -CONT` lets it go on",
        _ => "",
    }
}

/// A daemon that does not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Silent {
    /// How long an answer was waited for.
    pub waited: Duration,
    /// Its process, and the state of it as in proc_pid_stat(5), where that can be read.
    pub process: Option<(i32, char)>,
}

impl Silent {
    /// Whether its process is stopped.
    pub fn is_stopped(&self) -> bool {
        matches!(self.process, Some((_, 'T' | 't')))
    }
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            Some((pid, state)) if self.is_stopped() => {
                write!(f, "its process {pid} is stopped (state {state}); `kill -CONT {pid}` lets it go on")
            }
            Some((pid, state)) => {
                let waited = waited(self.waited);
                write!(f, "its process {pid} has been silent for {waited} (state {state}); if it does not recover, ")?;
                write!(f, "`kill -KILL {pid}` ends it, and packets pass unshaped")
            }
            None => write!(f, "it has been silent for {}; if it does not recover, restart it", waited(self.waited)),
        }
    }
}

fn waited(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds => format!("{seconds} s"),
    }
}

/// Connects to a socket; waits for [`STOPPED`] if its process does not accept connections.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    connect_within(path, STOPPED)
}

/// Like [`connect`], and waits for at most `limit`.
fn connect_within(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let (made, is_made) = mpsc::channel();
    let path = path.to_owned();
    // The standard library has no limit for it. A thread that still waits ends with this process.
    thread::Builder::new().name("connect".into()).spawn(move || made.send(UnixStream::connect(path)))?;
    let stream = is_made.recv_timeout(limit).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    stream.set_write_timeout(Some(limit))?;
    Ok(stream)
}

/// A notification of a subscription.
#[derive(Clone, PartialEq, Debug)]
pub enum Pushed {
    /// An event.
    Event(Box<Event>),
    /// The number of events lost because this client did not read in time.
    Lost(u64),
}

/// A connection to a daemon. Subscriptions, promises and reservations end with it, unless they were requested to last.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
    next: u64,
    /// Notifications that preceded a reply.
    pending: VecDeque<(u64, Pushed)>,
    /// The part received of the line being read; a timeout may have interrupted it.
    line: Vec<u8>,
    /// The process at the other end, where it is known.
    process: Option<i32>,
    /// When the last message came.
    heard: Instant,
    /// When the daemon was asked whether it is there, if no message came since.
    asked: Option<Instant>,
    /// The longest wait for a reply, if that is shorter than what a call may take.
    limit: Option<Duration>,
}

impl Client {
    /// Connects to the shaper of `interface`; without one, to the only shaper that runs.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] and [`ClientError::Connect`].
    pub fn open(interface: Option<&str>) -> Result<Self, ClientError> {
        let place = interface.map_or(Place::Any, |interface| Place::Interface(interface.into()));
        Self::connect(&place.find()?)
    }

    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = connect(path).map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        Ok(Self::over(stream))
    }

    /// Uses a stream that is connected already.
    pub fn over(stream: UnixStream) -> Self {
        Self {
            reader: BufReader::new(stream),
            next: 1,
            pending: VecDeque::new(),
            line: Vec::new(),
            process: None,
            heard: Instant::now(),
            asked: None,
            limit: None,
        }
    }

    /// Connects to the socket at `path` within `limit`, which later calls have as well ([`set_limit`](Self::set_limit)).
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    pub fn connect_within(path: &Path, limit: Duration) -> Result<Self, ClientError> {
        let stream = connect_within(path, limit);
        let stream = stream.map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        let mut client = Self::over(stream);
        client.set_limit(limit);
        Ok(client)
    }

    /// Has later calls wait for their replies for at most `limit`, where that is shorter than what they may take. It is for
    /// commands that must answer soon, whatever the daemon does.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = Some(limit.max(Duration::from_millis(1)));
    }

    /// Names the process at the other end, so that a call beside one that is stopped fails after two seconds. The standard
    /// library cannot read it from the socket (`SO_PEERCRED`).
    pub fn set_process(&mut self, process: i32) {
        self.process = Some(process);
    }

    /// Returns the stream, for polling.
    pub fn stream(&self) -> &UnixStream {
        self.reader.get_ref()
    }

    /// Makes a call and waits for its reply.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn call<C: Call>(&mut self, call: &C) -> Result<C::Reply, ClientError> {
        let with = serde_json::to_value(call).map_err(io::Error::other)?;
        let reply = self.exchange(C::NAME, with, &C::PERMISSION)?;
        serde_json::from_value(reply).map_err(|error| ClientError::Protocol(error.to_string()))
    }

    /// Makes the call of a name with parameters that others have written, and returns the reply as it came: for what passes calls on.
    ///
    /// # Errors
    /// See [`ClientError`]; of a name that no call has, the refusal of the daemon.
    pub fn call_named(&mut self, name: &str, with: Value) -> Result<Value, ClientError> {
        let known = CALLS.iter().find(|call| call.name == name);
        self.exchange(name, with, known.map_or(&Permission::Anyone, |call| &call.permission))
    }

    /// Makes a call for which this permission is needed, by which its reply may take longer.
    fn exchange(&mut self, name: &str, with: Value, permission: &Permission) -> Result<Value, ClientError> {
        let limit = if let Permission::Operator(_) = permission { CHANGE_TIMEOUT } else { REPLY_TIMEOUT };
        let limit = self.limit.map_or(limit, |own| own.min(limit));
        let begun = Instant::now();
        // A refusal of the connection precedes the request and must be read even if the write fails.
        let (id, written) = self.send(name, with)?;
        self.stream().set_read_timeout(Some(STOPPED.min(limit)))?;
        loop {
            match self.receive() {
                Ok(Some(Message::Ok { id: of, ok })) if of == id => return Ok(ok),
                Ok(Some(Message::Error { id: of, error })) if of == id || of == 0 => return Err(error.into()),
                Ok(Some(message)) => self.handle(message)?,
                Ok(None) => {}
                Err(error) => {
                    written?;
                    return Err(error);
                }
            }
            self.expect(begun, limit)?;
        }
    }

    /// Writes a request; returns its number, and whether it could be written.
    fn send(&mut self, name: &str, with: Value) -> io::Result<(u64, io::Result<()>)> {
        let id = self.next;
        self.next += 1;
        let request = Request { id, version: VERSION, call: name.into(), with };
        let mut line = serde_json::to_vec(&request).map_err(io::Error::other)?;
        line.push(b'\n');
        Ok((id, self.reader.get_ref().write_all(&line)))
    }

    /// Fails if an answer that was requested at `begun` can be waited for no longer.
    fn expect(&self, begun: Instant, limit: Duration) -> Result<(), ClientError> {
        let waited = begun.elapsed();
        if waited < STOPPED.min(limit) {
            return Ok(());
        }
        let process = self.process.and_then(|process| {
            let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            Some((process, text.rsplit_once(") ")?.1.chars().next()?))
        });
        let silent = Silent { waited, process };
        if silent.is_stopped() || waited >= limit { Err(ClientError::Silent(silent)) } else { Ok(()) }
    }

    /// Asks a daemon that has sent nothing for a while whether it is there, and fails if it is not.
    fn probe(&mut self) -> Result<(), ClientError> {
        match self.asked {
            Some(asked) => self.expect(asked, REPLY_TIMEOUT)?,
            None if self.heard.elapsed() >= SILENCE => {
                self.asked = Some(Instant::now());
                self.send(ReservationsQuery::NAME, Value::Null)?.1?;
            }
            None => {}
        }
        Ok(())
    }

    /// Subscribes to events. The iterator blocks until the next one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn events(&mut self, which: &Events) -> Result<Subscription<'_>, ClientError> {
        let id = self.call(which)?.subscription;
        Ok(Subscription { client: self, id })
    }

    /// Subscribes to everything that happens to some flows, and returns those that are present. The iterator blocks until
    /// the next event.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn feedback(&mut self, which: &Feedback) -> Result<(Vec<FlowState>, Subscription<'_>), ClientError> {
        let watching = self.call(which)?;
        Ok((watching.flows, Subscription { client: self, id: watching.subscription }))
    }

    /// Ends a subscription, and discards its notifications that were received.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn unsubscribe(&mut self, subscription: u64) -> Result<(), ClientError> {
        self.call(&Unsubscribe { subscription })?;
        self.pending.retain(|(of, _)| *of != subscription);
        Ok(())
    }

    /// Returns the next notification of any subscription, with the subscription's number; `None` when none came within
    /// `timeout`. Without a timeout it waits for as long as the daemon is there.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn next_push(&mut self, timeout: Option<Duration>) -> Result<Option<(u64, Pushed)>, ClientError> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(push) = self.pending.pop_front() {
                return Ok(Some(push));
            }
            let remaining = deadline.map_or(STOPPED, |deadline| deadline.saturating_duration_since(Instant::now()));
            // A timeout of zero would mean none at all, and the least one is a tick of the kernel, some milliseconds.
            let received = if remaining.is_zero() {
                self.stream().set_nonblocking(true)?;
                let received = self.receive();
                self.stream().set_nonblocking(false)?;
                received
            } else {
                self.stream().set_read_timeout(Some(remaining.clamp(Duration::from_micros(1), STOPPED)))?;
                self.receive()
            };
            match received? {
                Some(message) => self.handle(message)?,
                None => {
                    self.probe()?;
                    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn handle(&mut self, message: Message) -> Result<(), ClientError> {
        match message {
            Message::Push { subscription, event } => {
                self.pending.push_back((subscription, Pushed::Event(Box::new(event))))
            }
            Message::Lost { subscription, lost } => self.pending.push_back((subscription, Pushed::Lost(lost))),
            Message::Error { id: 0, error } => return Err(error.into()),
            // A reply to a call that was abandoned.
            Message::Ok { .. } | Message::Error { .. } => {}
        }
        Ok(())
    }

    /// Returns the next message; `None` when the timeout of the stream came first.
    fn receive(&mut self) -> Result<Option<Message>, ClientError> {
        match self.reader.read_until(b'\n', &mut self.line) {
            Ok(_) if self.line.last() != Some(&b'\n') => Err(ClientError::Closed),
            Ok(_) => {
                let message = serde_json::from_slice(&self.line);
                let text = message.map_err(|error| {
                    let start = String::from_utf8_lossy(&self.line[..self.line.len().min(120)]).into_owned();
                    ClientError::Protocol(format!("{error}: {start}"))
                });
                self.line.clear();
                (self.heard, self.asked) = (Instant::now(), None);
                text.map(Some)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(ClientError::Closed),
            Err(error) => Err(error.into()),
        }
    }
}

/// The notifications of one subscription, as a blocking iterator. It ends with the connection.
#[derive(Debug)]
pub struct Subscription<'a> {
    client: &'a mut Client,
    id: u64,
}

impl Subscription<'_> {
    /// Returns the number that its notifications carry.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Iterator for Subscription<'_> {
    type Item = Result<Pushed, ClientError>;
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            return match self.client.next_push(None) {
                Ok(Some((of, pushed))) if of == self.id => Some(Ok(pushed)),
                Ok(_) => continue,
                Err(ClientError::Closed) => None,
                Err(error) => Some(Err(error)),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least timeout of a socket is a tick of the kernel, 4 ms or 10: a hundred of them would take half a second.
    #[test]
    fn a_look_for_notifications_without_time_does_not_wait() {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let mut client = Client::over(near);
        let begun = Instant::now();
        for _ in 0..100 {
            assert!(client.next_push(Some(Duration::ZERO)).expect("it is there").is_none());
        }
        assert!(begun.elapsed() < Duration::from_millis(300), "{:?}", begun.elapsed());
        // A part of a line stays for later, and whoever waits then waits again.
        far.write_all(b"{\"subscription\": 2, ").expect("it is read");
        assert!(client.next_push(Some(Duration::ZERO)).expect("it is there").is_none());
        far.write_all(b"\"lost\": 7}\n").expect("it is read");
        let pushed = client.next_push(Some(Duration::from_secs(5))).expect("it is there");
        assert_eq!(pushed, Some((2, Pushed::Lost(7))));
    }
}
