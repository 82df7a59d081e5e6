//! The properties of single packets: TCP flags, lengths, ICMP types.

use std::fmt;

use serde_json::{Value as Json, json};
use tidegate_core::classify::{FlagMatch, IcmpType, Version};

use super::number;
use crate::decode::{Scalar, Wrong};
use crate::suggest;

/// The flags of TCP from the lowest bit on.
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

/// TCP flags that must be set, and others that must not be. Written `syn`, `syn !ack`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TcpFlags {
    /// The flags that must be set.
    pub set: u8,
    /// The flags that must not be set.
    pub clear: u8,
}

impl TcpFlags {
    /// The condition that a classifier takes.
    pub const fn condition(self) -> FlagMatch {
        FlagMatch { value: self.set, mask: self.set | self.clear }
    }
    /// Whether a segment with these flags meets the condition.
    pub const fn holds(self, flags: u8) -> bool {
        flags & (self.set | self.clear) == self.set
    }
}

/// The names of the flags that are set, for a person.
pub fn tcp_flag_names(flags: u8) -> String {
    let names: Vec<&str> = names_of(flags).collect();
    if names.is_empty() { "none".into() } else { names.join(" ") }
}

fn names_of(flags: u8) -> impl Iterator<Item = &'static str> {
    FLAGS.into_iter().enumerate().filter(move |(bit, _)| flags >> bit & 1 == 1).map(|(_, name)| name)
}

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = names_of(self.set).map(str::to_owned);
        let all: Vec<String> = set.chain(names_of(self.clear).map(|name| format!("!{name}"))).collect();
        f.pad(&all.join(" "))
    }
}

impl Scalar for TcpFlags {
    const WANTED: &'static str = "list of TCP flags";
    const EXAMPLE: &'static str = "syn !ack";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let (mut set, mut clear) = (0, 0);
        for word in text.split([' ', ',', '+']).filter(|word| !word.is_empty()) {
            let (to, name) = match word.strip_prefix('!') {
                Some(name) => (&mut clear, name),
                None => (&mut set, word),
            };
            let name = name.to_lowercase();
            match FLAGS.iter().position(|flag| *flag == name) {
                Some(bit) => *to |= 1 << bit,
                None => {
                    return Err(Wrong {
                        message: format!("`{name}` is not a flag of TCP"),
                        help: suggest::help(&name, &FLAGS),
                    });
                }
            }
        }
        if set & clear != 0 {
            return Err(Wrong {
                message: format!("`{text}` can never match: a flag must be set and must not be"),
                help: "write for example \"syn !ack\" for the first packet of a connection".into(),
            });
        }
        if set | clear == 0 {
            return Err(Wrong {
                message: "no flag of TCP".into(),
                help: "write for example \"syn\", or \"syn !ack\" for the first packet of a connection".into(),
            });
        }
        Ok(Self { set, clear })
    }
    fn from_integer(n: i64) -> Result<Self, Wrong> {
        Err(Wrong {
            message: format!("{n} is not a list of TCP flags"),
            help: "write names, for example \"syn !ack\"".into(),
        })
    }
    fn scalar_schema() -> Json {
        json!({ "type": "string", "examples": [Self::EXAMPLE, "rst"] })
    }
}

/// Lengths of packets from `first` to `last` bytes, both included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lengths {
    /// The shortest length, in bytes.
    pub first: u16,
    /// The longest length, in bytes; 65,535 stands for all that are longer, too.
    pub last: u16,
}

impl Lengths {
    /// Whether `length` is in the range; 0 is an unknown length.
    pub const fn contains(self, length: u16) -> bool {
        length != 0 && self.first <= length && length <= self.last
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (first, u16::MAX) => f.pad(&format!("{first}-")),
            (first, last) if first == last => f.pad(&first.to_string()),
            (first, last) => f.pad(&format!("{first}-{last}")),
        }
    }
}

impl Scalar for Lengths {
    const WANTED: &'static str = "length or range of lengths";
    const EXAMPLE: &'static str = "0-200";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let example = "write bytes with the IP header, for example \"0-200\", \"1400-\" or 52";
        let range = text.split_once('-').filter(|(first, last)| !(first.trim().is_empty() && last.trim().is_empty()));
        let (first, last) = range.unwrap_or((text, text));
        let bytes = |text: &str, open: u16| {
            if range.is_some() && text.trim().is_empty() {
                return Ok(open);
            }
            let value = text.trim();
            let value = value.strip_suffix('B').unwrap_or(value).trim_end();
            let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
            if !digits {
                return Err(Wrong {
                    message: format!("`{}` is not a length in bytes", text.trim()),
                    help: example.into(),
                });
            }
            value.parse::<u16>().map_err(|_| Wrong {
                message: format!("no packet has {value} bytes"),
                help: "write at most 65535; \"1400-\" has no upper end".into(),
            })
        };
        let (first, last) = (bytes(first, 0)?, bytes(last, u16::MAX)?);
        if first > last {
            return Err(Wrong {
                message: format!("the range {first}-{last} runs backwards"),
                help: format!("write \"{last}-{first}\""),
            });
        }
        if last == 0 {
            return Err(Wrong { message: "no packet has 0 bytes".into(), help: example.into() });
        }
        Ok(Self { first, last })
    }
}

/// The names of message types, with the numbers of ICMP (RFC 792) and of ICMPv6 (RFC 4443, RFC 4861).
const TYPES: [(&str, Option<u8>, Option<u8>); 13] = [
    ("echo-request", Some(8), Some(128)),
    ("echo-reply", Some(0), Some(129)),
    ("destination-unreachable", Some(3), Some(1)),
    ("time-exceeded", Some(11), Some(3)),
    ("parameter-problem", Some(12), Some(4)),
    ("redirect", Some(5), Some(137)),
    ("router-solicitation", Some(10), Some(133)),
    ("router-advertisement", Some(9), Some(134)),
    ("packet-too-big", None, Some(2)),
    ("neighbour-solicitation", None, Some(135)),
    ("neighbour-advertisement", None, Some(136)),
    ("timestamp-request", Some(13), None),
    ("timestamp-reply", Some(14), None),
];

/// A type of message, by its numbers in ICMP and in ICMPv6. A name stands for both, a number for the same one in both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageType {
    /// The number in ICMP, if ICMP has it.
    pub v4: Option<u8>,
    /// The number in ICMPv6, if ICMPv6 has it.
    pub v6: Option<u8>,
}

impl MessageType {
    /// The types of both versions.
    pub fn types(self) -> impl Iterator<Item = IcmpType> {
        let of = |version, number: Option<u8>| number.map(|number| IcmpType { version, number });
        [of(Version::V4, self.v4), of(Version::V6, self.v6)].into_iter().flatten()
    }
}

/// The name of a type, or its number.
pub fn icmp_type_name(kind: IcmpType) -> String {
    let is = |(_, v4, v6): &&(&str, Option<u8>, Option<u8>)| {
        *(if kind.version == Version::V4 { v4 } else { v6 }) == Some(kind.number)
    };
    TYPES.iter().find(is).map_or_else(|| kind.number.to_string(), |(name, ..)| (*name).to_owned())
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match TYPES.iter().find(|(_, v4, v6)| (*v4, *v6) == (self.v4, self.v6)) {
            Some((name, ..)) => f.pad(name),
            None => f.pad(&self.v4.or(self.v6).unwrap_or(0).to_string()),
        }
    }
}

impl Scalar for MessageType {
    const WANTED: &'static str = "type of ICMP message";
    const EXAMPLE: &'static str = "echo-request";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let lower = text.trim().to_lowercase().replace('_', "-").replace("neighbor", "neighbour");
        if let Some((_, v4, v6)) = TYPES.iter().find(|(name, ..)| *name == lower) {
            return Ok(Self { v4: *v4, v6: *v6 });
        }
        if let Some(value) = number(&lower) {
            let value = u8::try_from(value).map_err(|_| Wrong {
                message: format!("there is no ICMP type {value}"),
                help: "write a number up to 255, or a name such as \"echo-request\"".into(),
            })?;
            return Ok(Self { v4: Some(value), v6: Some(value) });
        }
        let names: Vec<&str> = TYPES.iter().map(|(name, ..)| *name).collect();
        let help = if lower == "ping" { "write \"echo-request\"".into() } else { suggest::help(&lower, &names) };
        Err(Wrong { message: format!("unknown ICMP type `{text}`"), help })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_people_write() {
        assert_eq!(TcpFlags::from_text("syn"), Ok(TcpFlags { set: 2, clear: 0 }));
        assert_eq!(TcpFlags::from_text("SYN,!ack"), Ok(TcpFlags { set: 2, clear: 16 }));
        assert_eq!(Lengths::from_text("0-200"), Ok(Lengths { first: 0, last: 200 }));
        assert_eq!(Lengths::from_text("-200B"), Ok(Lengths { first: 0, last: 200 }));
        assert_eq!(Lengths::from_text("1400-"), Ok(Lengths { first: 1_400, last: u16::MAX }));
        assert_eq!(Lengths::from_integer(52), Ok(Lengths { first: 52, last: 52 }));
        assert_eq!(MessageType::from_text("echo-request"), Ok(MessageType { v4: Some(8), v6: Some(128) }));
        assert_eq!(MessageType::from_text("packet-too-big").map(|one| one.types().count()), Ok(1));
        assert_eq!(MessageType::from_integer(8), Ok(MessageType { v4: Some(8), v6: Some(8) }));
    }

    #[test]
    fn refusals_have_the_remedy() {
        let help = |wrong: Wrong| format!("{}; {}", wrong.message, wrong.help);
        assert!(help(TcpFlags::from_text("sin").unwrap_err()).contains("did you mean `"), "sin");
        assert!(help(TcpFlags::from_text("syn !syn").unwrap_err()).contains("can never match"));
        assert!(help(TcpFlags::from_text("").unwrap_err()).contains("no flag"));
        assert!(help(TcpFlags::from_integer(2).unwrap_err()).contains("names"));
        for (text, wanted) in [
            ("200-0", "\"0-200\""),
            ("70000", "65535"),
            ("short", "0-200"),
            ("", "0-200"),
            ("0", "no packet has 0 bytes"),
            ("+5", "0-200"),
        ] {
            let wrong = help(Lengths::from_text(text).unwrap_err());
            assert!(wrong.contains(wanted), "{text}: {wrong}");
        }
        assert!(help(MessageType::from_text("ping").unwrap_err()).contains("echo-request"));
        assert!(help(MessageType::from_text("echo").unwrap_err()).contains("echo-re"));
        assert!(help(MessageType::from_text("300").unwrap_err()).contains("255"));
    }

    #[test]
    fn what_is_printed_parses_back() {
        for text in ["syn !ack", "fin rst"] {
            assert_eq!(TcpFlags::from_text(text).unwrap().to_string(), text);
        }
        for text in ["0-200", "52", "1400-"] {
            assert_eq!(Lengths::from_text(text).unwrap().to_string(), text);
        }
        for (name, ..) in TYPES {
            let kind = MessageType::from_text(name).unwrap();
            assert_eq!(kind.to_string(), name);
            assert!(kind.types().all(|kind| icmp_type_name(kind) == name));
        }
        assert_eq!(MessageType::from_text("200").unwrap().to_string(), "200");
        assert_eq!((tcp_flag_names(0), tcp_flag_names(0x12)), ("none".into(), "syn ack".into()));
    }
}
