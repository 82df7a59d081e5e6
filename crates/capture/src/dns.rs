//! Messages of the Domain Name System: the name that was asked for, and the addresses in the answer.
//!
//! *Law*: no byte beyond the message is read, and the work is bounded by [`MOST_RECORDS`] records, each with a name of at most
//! 255 bytes whose pointers lead backwards only.
//! *Source*: RFC 1035, sections 4.1 and 4.1.4; RFC 3596 (`AAAA`); RFC 2181, section 8 (times to live).
//! *Units*: times to live in seconds.
//! *Notes*: only questions for `A` and `AAAA` in the class `IN` are of interest. Aliases (`CNAME`) are followed within the
//! message, so that the addresses belong to the name that was asked for. Names with other characters than those of hosts are
//! not read.
//!
//! ```
//! use tidegate_capture::dns::{Message, read};
//! // A question for the address of `a.test`.
//! let bytes = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";
//! let Some(Message::Question(question)) = read(bytes) else { panic!() };
//! assert_eq!((question.id, question.name.as_str()), (0x1234, "a.test"));
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The UDP port of the Domain Name System.
pub const PORT: u16 = 53;
/// The most records of a message that are read.
pub const MOST_RECORDS: usize = 64;
/// The most aliases that are followed.
const MOST_ALIASES: usize = 16;
const HEADER: usize = 12;
/// The longest name, with the length of each label.
const LONGEST_NAME: usize = 255;
const LONGEST_LABEL: usize = 63;

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const IN: u16 = 1;

/// A question.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Question {
    /// The number by which an answer belongs to it.
    pub id: u16,
    /// The name in lower case, without a dot at its end.
    pub name: String,
    /// The type of the records that are wanted: 1 for `A`, 28 for `AAAA`.
    pub kind: u16,
}

/// A message, as far as it is of interest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// A question for addresses.
    Question(Question),
    /// The answer to a question, with the addresses of the name and how long they hold.
    Answer(Question, Vec<(IpAddr, u32)>),
}

/// Reads the payload of a UDP datagram. Returns `None` for everything else, and for an answer that reports an error.
pub fn read(bytes: &[u8]) -> Option<Message> {
    let half = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let (id, flags, questions, answers) = (half(0)?, half(2)?, half(4)?, half(6)?);
    let (is_answer, operation, error) = (flags >> 15 == 1, flags >> 11 & 0xf, flags & 0xf);
    if questions != 1 || operation != 0 || is_answer && error != 0 {
        return None;
    }
    let (name, at) = name(bytes, HEADER)?;
    let (kind, class) = (half(at)?, half(at + 2)?);
    if class != IN || ![A, AAAA].contains(&kind) {
        return None;
    }
    let question = Question { id, name: name?, kind };
    if !is_answer {
        return Some(Message::Question(question));
    }
    let records = records(bytes, at + 4, answers);
    let addresses = addresses(&question, &records);
    Some(Message::Answer(question, addresses))
}

/// The content of a record.
enum Content {
    Alias(String),
    Address(IpAddr),
}

/// A record with its owner and its time to live.
struct Record {
    owner: String,
    seconds: u32,
    content: Content,
}

/// The records of interest from the offset `at` on, up to the first one that is cut off or malformed.
fn records(bytes: &[u8], mut at: usize, count: u16) -> Vec<Record> {
    let mut records = Vec::new();
    for _ in 0..usize::from(count).min(MOST_RECORDS) {
        let Some((record, next)) = record(bytes, at) else { break };
        records.extend(record);
        at = next;
    }
    records
}

/// The record at `at`, if it is of interest, and the offset behind it.
fn record(bytes: &[u8], at: usize) -> Option<(Option<Record>, usize)> {
    let (owner, at) = name(bytes, at)?;
    let (head, rest) = bytes.get(at..)?.split_first_chunk::<10>()?;
    let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (kind, class, length) = (half(0), half(2), usize::from(half(8)));
    let data = rest.get(..length)?;
    let begin = at + head.len();
    let content = match (class, kind) {
        (IN, A) => <[u8; 4]>::try_from(data).ok().map(|bytes| Content::Address(Ipv4Addr::from(bytes).into())),
        (IN, AAAA) => <[u8; 16]>::try_from(data).ok().map(|bytes| Content::Address(Ipv6Addr::from(bytes).into())),
        // The name must end where the record does.
        (IN, CNAME) => {
            name(bytes, begin).filter(|(_, end)| *end == begin + length).and_then(|(name, _)| name).map(Content::Alias)
        }
        _ => None,
    };
    let seconds = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    // A time with its highest bit set counts as zero.
    let seconds = if seconds >> 31 == 1 { 0 } else { seconds };
    let record = owner.zip(content).map(|(owner, content)| Record { owner, seconds, content });
    Some((record, begin + length))
}

/// The addresses of the name that was asked for, behind its aliases. An address holds no longer than each alias that leads to it.
fn addresses(question: &Question, records: &[Record]) -> Vec<(IpAddr, u32)> {
    let (mut name, mut least) = (question.name.as_str(), u32::MAX);
    let mut found = Vec::new();
    for _ in 0..=MOST_ALIASES {
        let mut alias = None;
        for record in records.iter().filter(|record| record.owner == name) {
            match &record.content {
                Content::Address(address) => found.push((*address, record.seconds.min(least))),
                Content::Alias(target) => alias = Some((target, record.seconds)),
            }
        }
        let Some((target, seconds)) = alias else { break };
        (name, least) = (target, least.min(seconds));
    }
    found
}

/// The name at `at`, or `None` in its place if it has characters that hosts do not have, and the offset behind it. Returns `None`
/// for a name that is cut off, too long, or whose pointers do not lead backwards.
fn name(bytes: &[u8], at: usize) -> Option<(Option<String>, usize)> {
    let (mut name, mut is_of_host) = (String::new(), true);
    let (mut at, mut end, mut length) = (at, None, 1);
    // Where the part of the name that is being read begins: a pointer must lead to before it.
    let mut begin = at;
    loop {
        let first = usize::from(*bytes.get(at)?);
        match first {
            0 => {
                let end = end.unwrap_or(at + 1);
                return Some(((is_of_host && !name.is_empty()).then_some(name), end));
            }
            1..=LONGEST_LABEL => {
                length += first + 1;
                if length > LONGEST_NAME {
                    return None;
                }
                let label = bytes.get(at + 1..at + 1 + first)?;
                let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
                is_of_host &= label.iter().all(allowed);
                if !name.is_empty() {
                    name.push('.');
                }
                name.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
                at += 1 + first;
            }
            0xc0.. => {
                let target = (first & 0x3f) << 8 | usize::from(*bytes.get(at + 1)?);
                if target >= begin {
                    return None;
                }
                end = end.or(Some(at + 2));
                (at, begin) = (target, target);
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests;
