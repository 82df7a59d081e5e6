//! Netlink: the kernel's own protocol, built and parsed here and nowhere else.
//!
//! *Building*: a [`Builder`] holds one message or a batch of them; attributes nest with closures, so that a length can
//! not be forgotten. *Parsing*: [`Messages`] and [`Attributes`] walk untrusted bytes; what does not fit ends the walk,
//! nothing panics. *Exchanging*: a [`Socket`] numbers its requests, waits for acknowledgements, converts the kernel's
//! messages (extended acknowledgements) into errors, and repeats a dump that was interrupted by a change.
//!
//! *Source*: RFC 3549; the kernel's `Documentation/userspace-api/netlink`.
//! *Notes*: an attribute holds at most 65,531 bytes; one reply datagram at most 64 KiB here; a kernel that does not
//! reply is an error after five seconds.

use std::fmt;
use std::io;

mod socket;

pub(crate) use socket::send_bytes;
pub use socket::{Protocol, Socket};

/// The size of a message header.
pub const HEADER: usize = 16;
/// A request ([`libc::NLM_F_REQUEST`]).
pub const REQUEST: u16 = libc::NLM_F_REQUEST as u16;
/// Requests an acknowledgement.
pub const ACK: u16 = libc::NLM_F_ACK as u16;
/// Requests a dump of all objects.
pub const DUMP: u16 = libc::NLM_F_DUMP as u16;
/// Create the object if it does not exist.
pub const CREATE: u16 = libc::NLM_F_CREATE as u16;
/// Fail if the object exists.
pub const EXCL: u16 = libc::NLM_F_EXCL as u16;
/// Replace the object that exists.
pub const REPLACE: u16 = libc::NLM_F_REPLACE as u16;
/// Add behind the last one.
pub const APPEND: u16 = libc::NLM_F_APPEND as u16;

const KIND_ERROR: u16 = libc::NLMSG_ERROR as u16;
const KIND_DONE: u16 = libc::NLMSG_DONE as u16;
const KIND_NOOP: u16 = libc::NLMSG_NOOP as u16;
const CAPPED: u16 = libc::NLM_F_CAPPED as u16;
const ACK_TLVS: u16 = libc::NLM_F_ACK_TLVS as u16;
const NESTED: u16 = libc::NLA_F_NESTED as u16;
const KIND_MASK: u16 = libc::NLA_TYPE_MASK as u16;

/// An error in the exchange with the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{operation}: {source}")]
    System {
        /// The operation, as a verb and its object.
        operation: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// The kernel understood the request and refused it.
    #[error("{operation}: {} (errno {errno}){}{}", io::Error::from_raw_os_error(*.errno).to_string().split(" (os").next().unwrap_or(""),
        .text.as_ref().map(|t| format!(": {t}")).unwrap_or_default(), advice(*.errno))]
    Refused {
        /// The operation, as a verb and its object.
        operation: String,
        /// The error number.
        errno: i32,
        /// The kernel's message, if there is one.
        text: Option<String>,
    },
    /// A message is too long for the format: an attribute above 65,531 bytes.
    #[error("{operation}: the message does not fit netlink's 16-bit lengths")]
    TooLong {
        /// The operation that the message was for.
        operation: String,
    },
    /// A reply violates the protocol.
    #[error("{operation}: the kernel's reply cannot be read: {what}")]
    Malformed {
        /// The operation, as a verb and its object.
        operation: String,
        /// The fault.
        what: &'static str,
    },
    /// The state changed during every attempt to read it.
    #[error("{operation}: the state kept changing while it was read; try again")]
    Interrupted {
        /// The state that was being read.
        operation: String,
    },
}

fn advice(errno: i32) -> &'static str {
    match errno {
        libc::EPERM | libc::EACCES => "; this needs CAP_NET_ADMIN in the network namespace (run as root)",
        libc::EOPNOTSUPP => "; this kernel lacks the feature",
        _ => "",
    }
}

impl Error {
    /// The error number behind this error, if there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::System { source, .. } => source.raw_os_error(),
            Self::Refused { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}

/// The result of an exchange with the kernel.
pub type Result<T> = std::result::Result<T, Error>;

/// Rounds up to netlink's alignment of four bytes.
pub const fn align(n: usize) -> usize {
    (n + 3) & !3
}

/// One message or a batch of them, being built.
#[derive(Clone, Default)]
pub struct Builder {
    buffer: Vec<u8>,
    oversized: bool,
    messages: usize,
}

impl Builder {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a message whose body `fill` writes.
    pub fn message(&mut self, kind: u16, flags: u16, sequence: u32, fill: impl FnOnce(&mut Body<'_>)) -> &mut Self {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        self.buffer.extend_from_slice(&kind.to_ne_bytes());
        self.buffer.extend_from_slice(&flags.to_ne_bytes());
        self.buffer.extend_from_slice(&sequence.to_ne_bytes());
        self.buffer.extend_from_slice(&[0; 4]);
        fill(&mut Body { buffer: &mut self.buffer, oversized: &mut self.oversized });
        let length = self.buffer.len() - start;
        match u32::try_from(length) {
            Ok(length) => self.buffer[start..start + 4].copy_from_slice(&length.to_ne_bytes()),
            Err(_) => self.oversized = true,
        }
        self.buffer.resize(start + align(length), 0);
        self.messages += 1;
        self
    }

    /// The bytes built so far.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// How many messages were built.
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Whether a message did not fit; such a batch must not be sent, and [`Socket`] refuses it.
    pub fn oversized(&self) -> bool {
        self.oversized
    }

    /// Removes the messages and keeps the allocation.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.oversized = false;
        self.messages = 0;
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Builder({} messages, {} bytes)", self.messages, self.buffer.len())
    }
}

/// The body of a message, or of a nested attribute, being built.
pub struct Body<'a> {
    buffer: &'a mut Vec<u8>,
    oversized: &'a mut bool,
}

impl Body<'_> {
    /// A fixed header of the protocol, padded to four bytes.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.buffer.extend_from_slice(bytes);
        self.pad(bytes.len());
        self
    }

    /// An attribute of any bytes.
    pub fn attr(&mut self, kind: u16, payload: &[u8]) -> &mut Self {
        match u16::try_from(payload.len() + 4) {
            Ok(length) => {
                self.buffer.extend_from_slice(&length.to_ne_bytes());
                self.buffer.extend_from_slice(&kind.to_ne_bytes());
                self.buffer.extend_from_slice(payload);
                self.pad(payload.len());
            }
            Err(_) => *self.oversized = true,
        }
        self
    }

    /// An attribute of one byte.
    pub fn u8(&mut self, kind: u16, value: u8) -> &mut Self {
        self.attr(kind, &[value])
    }
    /// An attribute of two bytes in host order.
    pub fn u16(&mut self, kind: u16, value: u16) -> &mut Self {
        self.attr(kind, &value.to_ne_bytes())
    }
    /// An attribute of four bytes in host order.
    pub fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attr(kind, &value.to_ne_bytes())
    }
    /// An attribute of two bytes in network order.
    pub fn be16(&mut self, kind: u16, value: u16) -> &mut Self {
        self.attr(kind, &value.to_be_bytes())
    }
    /// An attribute of four bytes in network order.
    pub fn be32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attr(kind, &value.to_be_bytes())
    }
    /// An attribute of eight bytes in network order.
    pub fn be64(&mut self, kind: u16, value: u64) -> &mut Self {
        self.attr(kind, &value.to_be_bytes())
    }

    /// A string attribute, with the zero byte the kernel requires.
    pub fn string(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut bytes = Vec::with_capacity(value.len() + 1);
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
        self.attr(kind, &bytes)
    }

    /// An attribute that holds attributes.
    pub fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Body<'_>)) -> &mut Self {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0, 0]);
        self.buffer.extend_from_slice(&(kind | NESTED).to_ne_bytes());
        fill(&mut Body { buffer: self.buffer, oversized: self.oversized });
        match u16::try_from(self.buffer.len() - start) {
            Ok(length) => self.buffer[start..start + 2].copy_from_slice(&length.to_ne_bytes()),
            Err(_) => *self.oversized = true,
        }
        self
    }

    fn pad(&mut self, length: usize) {
        self.buffer.extend_from_slice(&[0; 3][..align(length) - length]);
    }
}

/// A received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// The type of the message.
    pub kind: u16,
    /// The flags of the message (`NLM_F_*`).
    pub flags: u16,
    /// The number of the request it answers.
    pub sequence: u32,
    /// The port it is addressed to.
    pub port: u32,
    /// The bytes after the header.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// The attributes behind a fixed header of `skip` bytes.
    pub fn attributes(&self, skip: usize) -> Attributes<'a> {
        Attributes::new(self.body.get(align(skip)..).unwrap_or(&[]))
    }

    /// If this message is an acknowledgement or an error: its error number (0 is success) and the kernel's message.
    pub fn verdict(&self) -> Option<(i32, Option<String>)> {
        if self.kind != KIND_ERROR {
            return None;
        }
        let errno = i32::from_ne_bytes(self.body.get(..4)?.try_into().ok()?).wrapping_neg();
        let mut text = None;
        if self.flags & ACK_TLVS != 0 {
            // The request's own header follows, and its body too unless the kernel indicates that it is capped.
            let inner = self.body.get(4..8).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes) as usize;
            let skip = 4 + if self.flags & CAPPED != 0 { HEADER } else { align(inner.max(HEADER)) };
            for attribute in Attributes::new(self.body.get(skip..).unwrap_or(&[])) {
                if attribute.kind == 1 {
                    text = attribute.string();
                }
            }
        }
        Some((errno, text))
    }
}

/// The messages of a datagram. Ends at the first that does not fit.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Walks `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let (header, _) = self.rest.split_first_chunk::<HEADER>()?;
        let word = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let length = word(0) as usize;
        if length < HEADER || length > self.rest.len() {
            self.rest = &[];
            return None;
        }
        let body = &self.rest[HEADER..length];
        self.rest = self.rest.get(align(length)..).unwrap_or(&[]);
        Some(Message { kind: half(4), flags: half(6), sequence: word(8), port: word(12), body })
    }
}

/// A received attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attribute<'a> {
    /// Its type, without the two flag bits.
    pub kind: u16,
    /// The value, without padding.
    pub payload: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// The value as one byte.
    pub fn u8(&self) -> Option<u8> {
        self.payload.first().copied()
    }
    /// The value as two bytes in host order.
    pub fn u16(&self) -> Option<u16> {
        Some(u16::from_ne_bytes(*self.payload.first_chunk()?))
    }
    /// The value as four bytes in host order.
    pub fn u32(&self) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.payload.first_chunk()?))
    }
    /// The value as two bytes in network order.
    pub fn be16(&self) -> Option<u16> {
        Some(u16::from_be_bytes(*self.payload.first_chunk()?))
    }
    /// The value as four bytes in network order.
    pub fn be32(&self) -> Option<u32> {
        Some(u32::from_be_bytes(*self.payload.first_chunk()?))
    }
    /// The value as eight bytes in network order.
    pub fn be64(&self) -> Option<u64> {
        Some(u64::from_be_bytes(*self.payload.first_chunk()?))
    }
    /// The value as text, up to its zero byte; bytes that are not UTF-8 are replaced.
    pub fn string(&self) -> Option<String> {
        let end = self.payload.iter().position(|&b| b == 0).unwrap_or(self.payload.len());
        Some(String::from_utf8_lossy(&self.payload[..end]).into_owned())
    }
    /// The attributes inside.
    pub fn nested(&self) -> Attributes<'a> {
        Attributes::new(self.payload)
    }
}

/// A run of attributes. Ends at the first that does not fit.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Walks `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The first attribute of that type.
    pub fn find(mut self, kind: u16) -> Option<Attribute<'a>> {
        Iterator::find(&mut self, |a| a.kind == kind)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    #[inline]
    fn next(&mut self) -> Option<Attribute<'a>> {
        let header = self.rest.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        if length < 4 || length > self.rest.len() {
            self.rest = &[];
            return None;
        }
        let attribute =
            Attribute { kind: u16::from_ne_bytes([header[2], header[3]]) & KIND_MASK, payload: &self.rest[4..length] };
        self.rest = self.rest.get(align(length)..).unwrap_or(&[]);
        Some(attribute)
    }
}

/// A reply that outlives the receive buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The type of the message.
    pub kind: u16,
    /// The bytes after its header.
    pub body: Vec<u8>,
}

impl Reply {
    /// The attributes behind a fixed header of `skip` bytes.
    pub fn attributes(&self, skip: usize) -> Attributes<'_> {
        Attributes::new(self.body.get(align(skip)..).unwrap_or(&[]))
    }
}

#[cfg(test)]
mod tests;
