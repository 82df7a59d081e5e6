//! [`Client`]: one connection with a method for each call.
//!
//! The declarations of the calls generate the methods, except those of calls that concern subscriptions.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::calls::{Event, Events, Feedback, FlowState, Unsubscribe};
use crate::protocol::{Call, Message, Refusal, Request};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
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
    /// The daemon closed the connection.
    #[error("tidegate closed the connection; it may have ended")]
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
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => "; is it running?",
        io::ErrorKind::InvalidInput => "; the path of a socket has at most 107 bytes",
        io::ErrorKind::PermissionDenied => "; its file mode keeps you out, see [control] in the shaper file",
        _ => "",
    }
}

/// A notification of a subscription.
#[derive(Clone, PartialEq, Debug)]
pub enum Pushed {
    /// What happened.
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
}

impl Client {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream =
            UnixStream::connect(path).map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        Ok(Self::over(stream))
    }

    /// Uses a stream that is connected already.
    pub fn over(stream: UnixStream) -> Self {
        Self { reader: BufReader::new(stream), next: 1, pending: VecDeque::new(), line: Vec::new() }
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
        let id = self.next;
        self.next += 1;
        let mut line = serde_json::to_vec(&Request::new(id, call)).map_err(io::Error::other)?;
        line.push(b'\n');
        self.stream().set_read_timeout(None)?;
        // A refusal of the connection precedes the request and must be read even if the write fails.
        let written = self.reader.get_ref().write_all(&line);
        loop {
            match self.receive() {
                Ok(Some(Message::Ok { id: of, ok })) if of == id => {
                    return serde_json::from_value(ok).map_err(|error| ClientError::Protocol(error.to_string()));
                }
                Ok(Some(Message::Error { id: of, error })) if of == id || of == 0 => return Err(error.into()),
                Ok(Some(message)) => self.handle(message)?,
                Ok(None) => {}
                Err(error) => {
                    written?;
                    return Err(error);
                }
            }
        }
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
    /// `timeout`. Without a timeout it waits without limit.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn next_push(&mut self, timeout: Option<Duration>) -> Result<Option<(u64, Pushed)>, ClientError> {
        if let Some(push) = self.pending.pop_front() {
            return Ok(Some(push));
        }
        // A timeout of zero would mean none at all.
        self.stream().set_read_timeout(timeout.map(|timeout| timeout.max(Duration::from_micros(1))))?;
        loop {
            match self.receive()? {
                Some(message) => self.handle(message)?,
                None => return Ok(None),
            }
            if let Some(push) = self.pending.pop_front() {
                return Ok(Some(push));
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
