//! [`Client`]: one connection, one method per call.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::calls::{
    Classes, Event, Events, Feedback, FlowState, Flows, PromiseCall, PromiseState, Promised, Promises, Release, Renew,
    Seen, Status, StatusQuery, Unsubscribe,
};
use crate::protocol::{Call, Message, Refusal, Request};
use tidegate_units::Span;

/// Why a call gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket cannot be reached.
    #[error("cannot reach tidegate at {}: {source}{}", .path.display(), advice(.source))]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to tidegate broke: {0}")]
    Io(#[from] io::Error),
    /// The daemon ended the connection.
    #[error("tidegate ended the connection; perhaps it ended itself")]
    Closed,
    /// The daemon said something that is not in the protocol.
    #[error("tidegate said something that this client does not understand: {0}")]
    Protocol(String),
    /// The daemon refused.
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

/// What arrived on a subscription.
#[derive(Clone, PartialEq, Debug)]
pub enum Pushed {
    /// An event.
    Event(Box<Event>),
    /// So many events were lost, because this client did not read in time.
    Lost(u64),
}

/// A connection to a daemon. What was asked for with it ends with it.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
    next: u64,
    /// Pushes that came before an answer.
    waiting: VecDeque<(u64, Pushed)>,
    /// What has come of the line being read; a timeout may have cut it.
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

    /// Speaks over a stream that is connected already.
    pub fn over(stream: UnixStream) -> Self {
        Self { reader: BufReader::new(stream), next: 1, waiting: VecDeque::new(), line: Vec::new() }
    }

    /// The stream, to poll it.
    pub fn stream(&self) -> &UnixStream {
        self.reader.get_ref()
    }

    /// Makes any call.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn call<C: Call>(&mut self, call: &C) -> Result<C::Reply, ClientError> {
        let id = self.next;
        self.next += 1;
        let mut line = serde_json::to_vec(&Request::new(id, call)).map_err(io::Error::other)?;
        line.push(b'\n');
        self.stream().set_read_timeout(None)?;
        // An answer that came before the request (we were turned away) must be read even if the write fails.
        let written = self.reader.get_ref().write_all(&line);
        loop {
            match self.receive() {
                Ok(Some(Message::Ok { id: of, ok })) if of == id => {
                    return serde_json::from_value(ok).map_err(|error| ClientError::Protocol(error.to_string()));
                }
                Ok(Some(Message::Error { id: of, error })) if of == id || of == 0 => return Err(error.into()),
                Ok(Some(message)) => self.put_aside(message)?,
                Ok(None) => {}
                Err(error) => {
                    written?;
                    return Err(error);
                }
            }
        }
    }

    /// What is in force.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn status(&mut self) -> Result<Status, ClientError> {
        self.call(&StatusQuery {})
    }

    /// What is measured of the classes.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn classes(&mut self) -> Result<Seen, ClientError> {
        self.call(&Classes {})
    }

    /// What is measured of the flows, and of the classes at the same time.
    ///
    /// ```no_run
    /// use tidegate_control::{Client, Place, calls::Flows};
    /// let mut client = Client::connect(&Place::Interface("eth0".into()).find()?)?;
    /// for flow in client.flows(&Flows { limit: Some(10), ..Flows::default() })?.directions[0].flows.iter() {
    ///     println!("{}: {} of {:?}", flow.flow, flow.rate, flow.share);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn flows(&mut self, which: &Flows) -> Result<Seen, ClientError> {
        self.call(which)
    }

    /// Subscribes to events; the iterator blocks until the next.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn events(&mut self, which: &Events) -> Result<Subscription<'_>, ClientError> {
        let id = self.call(which)?.subscription;
        Ok(Subscription { client: self, id })
    }

    /// Asks for a promise. It ends with this client, unless it is detached; changes come by [`Client::next_push`].
    ///
    /// # Errors
    /// See [`ClientError`]; [`Code::NoRoom`](crate::Code::NoRoom) says what is free.
    pub fn promise(&mut self, call: &PromiseCall) -> Result<Promised, ClientError> {
        self.call(call)
    }

    /// Another lease for a promise, from now on.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn renew(&mut self, promise: u64, lease: Span) -> Result<PromiseState, ClientError> {
        self.call(&Renew { promise, lease })
    }

    /// Ends a promise.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn release(&mut self, promise: u64) -> Result<(), ClientError> {
        self.call(&Release { promise }).map(|_| ())
    }

    /// All promises.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn promises(&mut self) -> Result<Vec<PromiseState>, ClientError> {
        Ok(self.call(&Promises {})?.promises)
    }

    /// Subscribes to all that happens to some flows, and gives those that are there; the iterator blocks until the next
    /// event.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn feedback(&mut self, which: &Feedback) -> Result<(Vec<FlowState>, Subscription<'_>), ClientError> {
        let watching = self.call(which)?;
        Ok((watching.flows, Subscription { client: self, id: watching.subscription }))
    }

    /// Ends a subscription.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn unsubscribe(&mut self, subscription: u64) -> Result<(), ClientError> {
        self.call(&Unsubscribe { subscription })?;
        self.waiting.retain(|(of, _)| *of != subscription);
        Ok(())
    }

    /// The next push of any subscription, with its number; `None` when none came within `patience`, which is without
    /// end when it is `None`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn next_push(&mut self, patience: Option<Duration>) -> Result<Option<(u64, Pushed)>, ClientError> {
        if let Some(push) = self.waiting.pop_front() {
            return Ok(Some(push));
        }
        // A timeout of zero would mean none at all.
        self.stream().set_read_timeout(patience.map(|patience| patience.max(Duration::from_micros(1))))?;
        loop {
            match self.receive()? {
                Some(message) => self.put_aside(message)?,
                None => return Ok(None),
            }
            if let Some(push) = self.waiting.pop_front() {
                return Ok(Some(push));
            }
        }
    }

    fn put_aside(&mut self, message: Message) -> Result<(), ClientError> {
        match message {
            Message::Push { subscription, event } => {
                self.waiting.push_back((subscription, Pushed::Event(Box::new(event))))
            }
            Message::Lost { subscription, lost } => self.waiting.push_back((subscription, Pushed::Lost(lost))),
            Message::Error { id: 0, error } => return Err(error.into()),
            // An answer to a call that was given up.
            Message::Ok { .. } | Message::Error { .. } => {}
        }
        Ok(())
    }

    /// The next message; `None` when the timeout of the stream came first.
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

/// The events of one subscription, as an iterator that blocks. It ends with the connection.
#[derive(Debug)]
pub struct Subscription<'a> {
    client: &'a mut Client,
    id: u64,
}

impl Subscription<'_> {
    /// Its number.
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
