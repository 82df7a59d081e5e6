//! One connection: its buffers, its rate of requests, its subscriptions.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::event::epoll;
use tidegate_control::protocol::{Code, LONGEST, Message, Refusal, Request};

use super::allowance::{Allowance, REQUESTS};
use super::event::Selector;
use crate::caller::Peer;

/// Requests without a reply; further ones are not read.
const OUTSTANDING: u32 = 8;
/// Unread bytes beyond which notifications are lost.
pub const UNREAD_EVENTS: usize = 256 << 10;
/// Unread bytes beyond which no further request is read.
const UNREAD_REPLIES: usize = 256 << 10;
/// Unread bytes beyond which the connection is closed: more than the replies to all requests that were read before.
const UNREAD: usize = 8 << 20;

/// A subscription of a client.
#[derive(Debug)]
pub struct Subscription {
    pub id: u64,
    pub selector: Selector,
    lost: u64,
    /// Notifications that precede the reply by which the client learns the number of the subscription.
    early: Option<Vec<u8>>,
}

/// The next input of a client.
pub enum Taken {
    Request(Request),
    /// The number of a line that is not a request, and its refusal.
    Wrong(u64, Refusal),
    /// The client exceeds its rate of requests until then.
    Later(Instant),
    Nothing,
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    peer: Peer,
    input: Vec<u8>,
    /// The bytes of `input` without the end of a line.
    searched: usize,
    output: Vec<u8>,
    written: usize,
    outstanding: u32,
    allowance: Allowance,
    /// The refusal of a line that is not a request, sent after the outstanding replies.
    deferred: Option<(u64, Refusal)>,
    subscriptions: Vec<Subscription>,
    interest: epoll::EventFlags,
    /// The client has closed its side.
    ended: bool,
    /// No more is read; the connection is closed when everything is written.
    closing: bool,
    /// Requests wait for replies to be read.
    blocked: bool,
    /// The bytes of the buffers that were counted for its user last.
    counted: usize,
    /// Too much is unread; the connection is closed now.
    overflowed: bool,
    paused: bool,
}

impl Client {
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let found = tidegate_sys::net::peer(&stream)?;
        let peer = Peer { uid: found.uid, pid: found.pid };
        Ok(Self {
            stream,
            peer,
            input: Vec::new(),
            searched: 0,
            output: Vec::new(),
            written: 0,
            outstanding: 0,
            allowance: Allowance::new(REQUESTS),
            deferred: None,
            subscriptions: Vec::new(),
            interest: epoll::EventFlags::empty(),
            ended: false,
            closing: false,
            blocked: false,
            counted: 0,
            overflowed: false,
            paused: false,
        })
    }

    /// Whether the other end has closed without sending anything.
    pub fn is_gone(&self) -> bool {
        let mut first = [0; 1];
        let peeked = rustix::net::recv(&self.stream, &mut first[..], rustix::net::RecvFlags::PEEK);
        matches!(peeked, Ok((0, _)) | Err(rustix::io::Errno::CONNRESET))
    }

    pub fn peer(&self) -> Peer {
        self.peer
    }
    pub fn subscriptions(&self) -> &[Subscription] {
        &self.subscriptions
    }
    /// Whether the connection ends because of a limit.
    pub fn is_cut(&self) -> bool {
        self.overflowed || self.closing
    }

    pub fn register(&mut self, epoll: &OwnedFd, token: u64) -> io::Result<()> {
        self.interest = epoll::EventFlags::IN;
        epoll::add(epoll, &self.stream, epoll::EventData::new_u64(token), self.interest)?;
        Ok(())
    }

    /// Sends a refusal to a connection that is not accepted.
    pub fn reject(&mut self, refusal: Refusal) {
        let _ = self.stream.write(&Message::Error { id: 0, error: refusal }.to_line());
    }

    /// Reads once, so that clients that send much are served in turn with others.
    pub fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(n) => self.input.extend_from_slice(&buffer[..n]),
            Err(error) if is_later(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns the next complete request, if one may be taken; `user` is what the user of the connection has left.
    pub fn take(&mut self, now: Instant, mut user: Option<&mut Allowance>) -> Taken {
        self.paused = false;
        self.blocked = self.unread() >= UNREAD_REPLIES;
        if self.is_full() || (self.deferred.is_some() && self.outstanding > 0) {
            return Taken::Nothing;
        }
        if let Some((id, refusal)) = self.deferred.take() {
            return Taken::Wrong(id, refusal);
        }
        if self.closing {
            return Taken::Nothing;
        }
        let Some(end) = self.input[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.input.len();
            if self.input.len() >= LONGEST {
                return self.too_long();
            }
            return Taken::Nothing;
        };
        let end = self.searched + end;
        if end >= LONGEST {
            return self.too_long();
        }
        // If only one of the two buckets permits it, neither is charged.
        let of_user = user.as_ref().and_then(|user| user.empty_until(now));
        if let Some(time) = of_user.max(self.allowance.empty_until(now)) {
            self.paused = true;
            return Taken::Later(time);
        }
        self.allowance.take(now);
        if let Some(user) = &mut user {
            user.take(now);
        }
        let line: Vec<u8> = self.input.drain(..=end).collect();
        self.searched = 0;
        let line = line[..end].trim_ascii();
        if line.is_empty() {
            // Counts against the rate of requests.
            return self.take(now, user);
        }
        match Request::parse(line) {
            Ok(request) => {
                self.outstanding += 1;
                Taken::Request(request)
            }
            Err((id, refusal)) => self.wrong(id, refusal),
        }
    }

    /// Refusals keep the order of the requests: after the replies to what preceded them.
    fn wrong(&mut self, id: u64, refusal: Refusal) -> Taken {
        if self.outstanding == 0 {
            return Taken::Wrong(id, refusal);
        }
        self.deferred = Some((id, refusal));
        Taken::Nothing
    }

    fn too_long(&mut self) -> Taken {
        self.closing = true;
        self.input = Vec::new();
        self.searched = 0;
        let text = format!("a line of more than {LONGEST} bytes");
        self.wrong(0, Refusal::new(Code::TooLong, text).help("the connection ends here"))
    }

    /// Queues the reply to a request that was taken.
    pub fn answered(&mut self, message: &Message) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.answer(message);
        for subscription in &mut self.subscriptions {
            self.output.extend(subscription.early.take().unwrap_or_default());
        }
    }
    pub fn answer(&mut self, message: &Message) {
        self.output.extend_from_slice(&message.to_line());
        self.overflowed |= self.unread() > UNREAD;
    }

    /// Begins a subscription, or replaces the selector of one.
    pub fn subscribe(&mut self, id: u64, selector: Selector) {
        match self.subscriptions.iter_mut().find(|subscription| subscription.id == id) {
            Some(subscription) => subscription.selector = selector,
            None => self.subscriptions.push(Subscription { id, selector, lost: 0, early: Some(Vec::new()) }),
        }
    }
    pub fn unsubscribe(&mut self, id: u64) {
        self.subscriptions.retain(|subscription| subscription.id != id);
    }

    /// Queues a notification of subscription `id`, or counts it as lost.
    pub fn push_to(&mut self, id: u64, line: &[u8], limit: usize, pushes: &AtomicU64, lost: &AtomicU64) {
        let unread = self.unread();
        let Some(subscription) = self.subscriptions.iter_mut().find(|one| one.id == id) else { return };
        let room = unread + subscription.early.as_ref().map_or(0, Vec::len) + line.len() <= limit;
        // A loss is reported before the next notification, and not before the buffer has space for more.
        if !room || subscription.lost > 0 {
            subscription.lost += 1;
            lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        pushes.fetch_add(1, Ordering::Relaxed);
        match &mut subscription.early {
            Some(early) => early.extend_from_slice(line),
            None => self.output.extend_from_slice(line),
        }
    }

    /// Returns the bytes of the buffers when this was called last, and now.
    pub fn count_buffers(&mut self) -> (usize, usize) {
        let now = self.unread() + self.input.len();
        (std::mem::replace(&mut self.counted, now), now)
    }
    /// Its user exceeds a limit: the connection is to be closed.
    pub fn overflow(&mut self) {
        self.overflowed = true;
    }

    /// Whether no further request is read before replies are.
    fn is_full(&self) -> bool {
        self.outstanding >= OUTSTANDING || self.unread() >= UNREAD_REPLIES
    }

    fn unread(&self) -> usize {
        self.output.len() - self.written
    }

    /// Writes what the socket accepts.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.unread() > 0 {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if self.unread() == 0 {
            self.output.clear();
            self.written = 0;
            // Memory of a large reply is returned.
            self.output.shrink_to(4 << 10);
        } else if self.written > UNREAD_EVENTS {
            self.output.drain(..self.written);
            self.written = 0;
        }
        if self.unread() < UNREAD_EVENTS / 2 {
            for subscription in self.subscriptions.iter_mut().filter(|one| one.lost > 0 && one.early.is_none()) {
                let lost = std::mem::take(&mut subscription.lost);
                self.output.extend(Message::Lost { subscription: subscription.id, lost }.to_line());
            }
        }
        Ok(())
    }

    /// Writes, and sets what the server waits for next. An error means that the connection has ended.
    pub fn settle(&mut self, epoll: &OwnedFd, token: u64) -> io::Result<()> {
        if self.overflowed {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.flush()?;
        let done = self.unread() == 0 && self.outstanding == 0 && self.deferred.is_none();
        let is_gone = self.ended && self.subscriptions.is_empty() && !self.paused && !self.input.contains(&b'\n');
        if done && (self.closing || is_gone) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut interest = epoll::EventFlags::empty();
        let unreadable = self.ended || self.closing || self.paused || self.deferred.is_some() || self.is_full();
        interest.set(epoll::EventFlags::IN, !unreadable);
        interest.set(epoll::EventFlags::OUT, self.unread() > 0 || self.blocked);
        if interest != self.interest {
            self.interest = interest;
            epoll::modify(epoll, &self.stream, epoll::EventData::new_u64(token), interest)?;
        }
        Ok(())
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;
    use std::time::Duration;

    const STATUS: &str = "{\"id\":7,\"version\":1,\"call\":\"status\"}\n";

    fn sent(text: &str) -> (Client, UnixStream) {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(text.as_bytes()).unwrap();
        let mut client = Client::new(near).unwrap();
        // Each read takes a part.
        while client.input.len() < text.len() {
            client.read().unwrap();
        }
        (client, far)
    }

    /// The number of the next message that is taken, and whether it is a request.
    fn next(client: &mut Client) -> Option<(u64, bool)> {
        match client.take(Instant::now(), None) {
            Taken::Request(request) => Some((request.id, true)),
            Taken::Wrong(id, _) => Some((id, false)),
            Taken::Later(_) | Taken::Nothing => None,
        }
    }

    #[test]
    fn what_is_no_request_is_answered_in_its_turn() {
        let (mut client, _far) = sent(&format!("hello\n{STATUS}{STATUS}hello\n{STATUS}"));
        assert_eq!(next(&mut client), Some((0, false)), "nothing came before it");
        let done = Message::answer(7, Ok(serde_json::Value::Null));
        assert_eq!([next(&mut client), next(&mut client)], [Some((7, true)); 2]);
        for _ in 0..2 {
            assert_eq!(next(&mut client), None, "replies to what came before are outstanding");
            client.answered(&done);
        }
        assert_eq!([next(&mut client), next(&mut client)], [Some((0, false)), Some((7, true))]);
    }

    #[test]
    fn a_connection_that_was_closed_unused_is_gone() {
        let (client, far) = sent("");
        assert!(!client.is_gone(), "it may send something yet");
        drop(far);
        assert!(client.is_gone());
        let (client, mut far) = sent("");
        far.write_all(STATUS.as_bytes()).unwrap();
        drop(far);
        assert!(!client.is_gone(), "it has sent a request");
    }

    #[test]
    fn the_connections_of_a_user_share_an_allowance() {
        let (now, mut user) = (Instant::now(), Allowance::new(2));
        let [(mut one, _far), (mut other, _far_too)] = [sent(&STATUS.repeat(3)), sent(STATUS)];
        for client in [&mut one, &mut other] {
            assert!(matches!(client.take(now, Some(&mut user)), Taken::Request(_)));
        }
        let Taken::Later(time) = one.take(now, Some(&mut user)) else { panic!("a third request of two") };
        // The bucket of the connection is not charged if that of the user is empty.
        assert!(time > now && matches!(one.take(now, None), Taken::Request(_)));
        assert!(matches!(one.take(time, Some(&mut user)), Taken::Request(_)));
    }

    #[test]
    fn requests_wait_until_replies_are_read() {
        let (mut client, far) = sent(&STATUS.repeat(3));
        assert_eq!(next(&mut client), Some((7, true)));
        // More than the socket and the limit hold.
        let reply = Message::answer(7, Ok("x".repeat(UNREAD_REPLIES + (4 << 20)).into()));
        client.answered(&reply);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        client.register(&epoll, 1).unwrap();
        client.settle(&epoll, 1).unwrap();
        assert_eq!(next(&mut client), None, "the reply is unread");
        assert!(client.count_buffers().1 > UNREAD_REPLIES);
        let reader = std::thread::spawn(move || {
            let mut line = Vec::new();
            io::BufReader::new(far).read_until(b'\n', &mut line).unwrap();
            line.len()
        });
        let deadline = Instant::now() + Duration::from_secs(30);
        while client.unread() > 0 {
            assert!(Instant::now() < deadline);
            client.flush().unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(reader.join().unwrap(), reply.to_line().len());
        assert_eq!(next(&mut client), Some((7, true)));
        assert_eq!(client.count_buffers().1, STATUS.len());
        assert!(client.output.capacity() <= 4 << 10, "its memory is returned");
    }

    #[test]
    fn a_line_that_is_too_long_ends_the_connection_after_the_answers() {
        let (mut client, _far) = sent(&format!("{STATUS}{}", "x".repeat(LONGEST)));
        assert_eq!([next(&mut client), next(&mut client)], [Some((7, true)), None]);
        client.answered(&Message::answer(7, Ok(serde_json::Value::Null)));
        assert_eq!([next(&mut client), next(&mut client)], [Some((0, false)), None]);
        assert!(client.is_cut());
    }
}
