//! The scalars of the language: quantities, code points, protocols, addresses, ports, marks, users.

use std::fmt;
use std::net::IpAddr;

use serde_json::{Value as Json, json};
use tidegate_core::units::UnitError;
use tidegate_core::{Bytes, Dscp, Rate, Span};

use crate::decode::{Scalar, Wrong};
use crate::suggest;

mod mac;
mod names;
mod quota;
mod times;
mod traits;

pub use mac::Mac;
pub use names::{DnsName, HostName};
pub use quota::{Date, Period, Quota};
pub use times::{Times, WallStart, WeekMinute};
pub use traits::{Lengths, MessageType, TcpFlags, icmp_type_name, tcp_flag_names};

impl From<UnitError> for Wrong {
    fn from(error: UnitError) -> Self {
        let help = format!("write for example {}", error.example());
        let message = error.to_string();
        let message = message.strip_suffix(&format!("; {help}")).unwrap_or(&message).to_owned();
        Self { message, help }
    }
}

macro_rules! quantities {
    ($($ty:ty, $wanted:literal, $example:literal;)*) => {$(
        impl Scalar for $ty {
            const WANTED: &'static str = $wanted;
            const EXAMPLE: &'static str = $example;
            fn from_text(text: &str) -> Result<Self, Wrong> {
                Ok(text.parse::<$ty>()?)
            }
            fn scalar_schema() -> Json {
                json!({
                    "type": "string",
                    "pattern": "^\\s*[0-9._]*[0-9][0-9._]*\\s*[A-Za-z\\u00b5\\u03bc]+(/s)?\\s*$",
                    "examples": [$example],
                })
            }
        }
    )*};
}
quantities! {
    Rate, "rate with a unit", "20mbit";
    Bytes, "size with a unit", "3kB";
    Span, "time with a unit", "10ms";
}

fn example_of<T: Scalar>() -> String {
    format!("write for example \"{}\"", T::EXAMPLE)
}

/// A part of a whole, in millionths; at most the whole. Written `12.5%`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Percent(u32);

impl Percent {
    /// `n` millionths; `None` above the whole.
    pub const fn from_millionths(n: u32) -> Option<Self> {
        if n <= 1_000_000 { Some(Self(n)) } else { None }
    }
    /// Returns the share in millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }
    /// This part of `n`, rounded down.
    pub const fn of(self, n: u64) -> u64 {
        // At most n, so that it fits.
        (n as u128 * self.0 as u128 / 1_000_000) as u64
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000, self.0 % 10_000);
        if rest == 0 {
            return f.pad(&format!("{whole}%"));
        }
        f.pad(&format!("{whole}.{}%", format!("{rest:04}").trim_end_matches('0')))
    }
}

impl Scalar for Percent {
    const WANTED: &'static str = "percentage";
    const EXAMPLE: &'static str = "10%";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let wrong = |message: String| Wrong { message, help: example_of::<Self>() };
        let number =
            text.trim().strip_suffix('%').ok_or_else(|| wrong(format!("`{text}` has no percent sign")))?.trim();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) {
            return Err(wrong(format!("`{text}` is not a percentage")));
        }
        if fraction.len() > 4 {
            return Err(wrong(format!("`{text}` is finer than a millionth")));
        }
        let millionths = format!("{whole}{fraction:0<4}").parse().ok().and_then(Self::from_millionths);
        millionths.ok_or_else(|| wrong(format!("`{text}` is more than 100%")))
    }
    fn scalar_schema() -> Json {
        json!({ "type": "string", "pattern": "^[0-9]+(\\.[0-9]{1,4})?\\s*%$", "examples": [Self::EXAMPLE] })
    }
}

/// The names of code points and their values.
const DSCPS: &[(&str, u8)] = &[
    ("be", 0),
    ("df", 0),
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("le", 1),
    ("va", 44),
    ("nqb", 45),
    ("ef", 46),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
];

/// The name of a code point, or its number.
pub fn dscp_name(dscp: Dscp) -> String {
    let name = DSCPS.iter().find(|(_, value)| *value == dscp.value()).map(|(name, _)| (*name).to_owned());
    name.unwrap_or_else(|| dscp.value().to_string())
}

impl Scalar for Dscp {
    const WANTED: &'static str = "code point";
    const EXAMPLE: &'static str = "ef";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let lower = text.trim().to_lowercase();
        if let Some((_, value)) = DSCPS.iter().find(|(name, _)| *name == lower) {
            return Ok(Self::new(*value).unwrap_or_default());
        }
        if let Some(value) = number(&lower) {
            return u8::try_from(value).ok().and_then(Self::new).ok_or_else(|| Wrong {
                message: format!("code point {value} does not fit six bits"),
                help: "write a number up to 63; the traffic class octet is four times the code point".into(),
            });
        }
        let names: Vec<&str> = DSCPS.iter().map(|(name, _)| *name).collect();
        Err(Wrong { message: format!("unknown code point `{text}`"), help: suggest::help(&lower, &names) })
    }
}

/// A whole number, decimal or `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16).ok(),
        None if !text.starts_with('+') => text.parse().ok(),
        _ => None,
    }
}

/// The number of an IP protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Protocol(pub u8);

const PROTOCOLS: &[(&str, u8)] = &[
    ("tcp", 6),
    ("udp", 17),
    ("icmp", 1),
    ("icmpv6", 58),
    ("ipv6-icmp", 58),
    ("sctp", 132),
    ("dccp", 33),
    ("udplite", 136),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("igmp", 2),
    ("ipip", 4),
    ("ipv6", 41),
    ("ospf", 89),
];

impl Protocol {
    /// Whether its packets carry port numbers.
    pub const fn has_ports(self) -> bool {
        matches!(self.0, 6 | 17 | 33 | 132 | 136)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|(_, value)| *value == self.0) {
            Some((name, _)) => f.pad(name),
            None => f.pad(&self.0.to_string()),
        }
    }
}

impl Scalar for Protocol {
    const WANTED: &'static str = "protocol";
    const EXAMPLE: &'static str = "udp";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let lower = text.trim().to_lowercase();
        if let Some((_, value)) = PROTOCOLS.iter().find(|(name, _)| *name == lower) {
            return Ok(Self(*value));
        }
        if let Some(value) = number(&lower) {
            return u8::try_from(value).map(Self).map_err(|_| Wrong {
                message: format!("there is no protocol {value}"),
                help: "write a number up to 255, or a name such as \"tcp\"".into(),
            });
        }
        let names: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
        Err(Wrong { message: format!("unknown protocol `{text}`"), help: suggest::help(&lower, &names) })
    }
}

/// An address prefix. The bits after it are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Prefix {
    /// The first address of the prefix.
    pub address: IpAddr,
    /// The prefix length in bits.
    pub length: u8,
}

impl Prefix {
    /// Whether the prefix is one address.
    pub fn is_one_address(self) -> bool {
        self.length == if self.address.is_ipv4() { 32 } else { 128 }
    }
    /// Whether the prefix contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && masked(address, self.length) == self.address
    }
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)).into()),
        IpAddr::V6(v6) => {
            IpAddr::V6((v6.to_bits() & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)).into())
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.address, self.length))
    }
}

impl Scalar for Prefix {
    const WANTED: &'static str = "address or prefix";
    const EXAMPLE: &'static str = "10.0.0.0/8";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let (address, length) = match text.trim().split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.parse().map_err(|_| Wrong {
            message: format!("`{text}` is not an address or a prefix"),
            help: "write for example \"10.0.0.0/8\", \"192.0.2.1\" or \"2001:db8::/32\"; for a device by its name write `host-name`, for a site `dns-name`"
                .into(),
        })?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(text) => text.parse().ok().filter(|n| *n <= most && !text.starts_with('+')).ok_or_else(|| Wrong {
                message: format!("`{text}` is not the length of a prefix"),
                help: format!("write a number from 0 to {most} after the slash"),
            })?,
        };
        let first = masked(address, length);
        if first != address {
            return Err(Wrong {
                message: format!("`{text}` has bits set after the prefix"),
                help: format!("write {first}/{length} for the network, or {address} for the one address"),
            });
        }
        Ok(Self { address, length })
    }
    fn scalar_schema() -> Json {
        json!({ "type": "string", "examples": [Self::EXAMPLE, "2001:db8::/32"] })
    }
}

/// Ports from `first` to `last`, both included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ports {
    /// The first port.
    pub first: u16,
    /// The last port, included.
    pub last: u16,
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            f.pad(&self.first.to_string())
        } else {
            f.pad(&format!("{}-{}", self.first, self.last))
        }
    }
}

impl Scalar for Ports {
    const WANTED: &'static str = "port or range of ports";
    const EXAMPLE: &'static str = "5000-5100";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let wrong = |message: String| Wrong { message, help: "write for example 443 or \"5000-5100\"".into() };
        let (first, last) = text.split_once(['-', ':']).unwrap_or((text, text));
        let port = |text: &str| {
            let value = text.trim();
            let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
            if !digits {
                return Err(wrong(format!("`{value}` is not a port")));
            }
            value.parse::<u16>().map_err(|_| wrong(format!("port {value} is above 65535")))
        };
        let (first, last) = (port(first)?, port(last)?);
        if first > last {
            return Err(Wrong {
                message: format!("the range {first}-{last} runs backwards"),
                help: format!("write \"{last}-{first}\""),
            });
        }
        Ok(Self { first, last })
    }
}

/// A firewall mark under a mask: a packet matches when its mark ANDed with the mask equals the value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mark {
    /// The value under the mask.
    pub value: u32,
    /// The bits that are compared.
    pub mask: u32,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mask == u32::MAX {
            f.pad(&format!("{:#x}", self.value))
        } else {
            f.pad(&format!("{:#x}/{:#x}", self.value, self.mask))
        }
    }
}

impl Scalar for Mark {
    const WANTED: &'static str = "mark";
    const EXAMPLE: &'static str = "0x10/0xff";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let part = |text: &str| {
            let value = number(&text.trim().to_lowercase()).and_then(|n| u32::try_from(n).ok());
            value.ok_or_else(|| Wrong {
                message: format!("`{text}` is not a mark of 32 bits"),
                help: "write for example 16, \"0x10\" or \"0x10/0xff\"".into(),
            })
        };
        let (value, mask) = match text.split_once('/') {
            Some((value, mask)) => (part(value)?, part(mask)?),
            None => (part(text)?, u32::MAX),
        };
        if value & !mask != 0 {
            return Err(Wrong {
                message: format!("`{text}` can never match: the value has bits outside the mask"),
                help: format!("write {:#x}/{mask:#x}", value & mask),
            });
        }
        Ok(Self { value, mask })
    }
}

/// The mode of a file, in octal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mode(pub u32);

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:03o}", self.0))
    }
}

impl Scalar for Mode {
    const WANTED: &'static str = "file mode";
    const EXAMPLE: &'static str = "660";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let octal = text.len() <= 4 && text.bytes().all(|b| (b'0'..=b'7').contains(&b));
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| octal && *mode <= 0o777);
        let wrong = || Wrong { message: format!("`{text}` is not the mode of a file"), help: example_of::<Self>() };
        mode.map(Self).ok_or_else(wrong)
    }
}

/// The owner of a socket.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum User {
    /// A user id as a number.
    Id(u32),
    /// A name, which the live data path looks up when it starts.
    Name(String),
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => f.pad(&id.to_string()),
            Self::Name(name) => f.pad(name),
        }
    }
}

impl Scalar for User {
    const WANTED: &'static str = "user";
    const EXAMPLE: &'static str = "alice";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let wrong = |message| Wrong { message, help: "write a name such as \"alice\" or a number such as 1000".into() };
        if text.bytes().all(|b| b.is_ascii_digit()) {
            // The largest value means "none" to the kernel.
            let id = text.parse().ok().filter(|id| *id != u32::MAX);
            return id.map(Self::Id).ok_or_else(|| wrong(format!("`{text}` is not the number of a user")));
        }
        if text.starts_with('-') || text.chars().any(|c| c.is_whitespace() || c.is_control() || c == ':') {
            return Err(wrong(format!("`{text}` is not the name of a user")));
        }
        Ok(Self::Name(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_people_write() {
        assert_eq!(Percent::from_text("12.5%").map(Percent::millionths), Ok(125_000));
        assert_eq!(Percent::from_text("100%").map(|p| p.of(u64::MAX)), Ok(u64::MAX));
        assert_eq!(Dscp::from_text("AF41").map(Dscp::value), Ok(34));
        assert_eq!(Dscp::from_integer(46), Ok(Dscp::EF));
        assert_eq!(Protocol::from_text("UDP"), Ok(Protocol(17)));
        assert_eq!(Ports::from_text("5000-5100"), Ok(Ports { first: 5000, last: 5100 }));
        assert_eq!(Mark::from_text("0x10/0xff"), Ok(Mark { value: 16, mask: 255 }));
        assert_eq!(User::from_text("1000"), Ok(User::Id(1000)));
        let everything = Prefix::from_text("0.0.0.0/0").unwrap();
        assert!(everything.contains("255.255.255.255".parse().unwrap()));
        assert!(!everything.contains("::1".parse().unwrap()));
        assert!(Prefix::from_text("2001:db8::/32").unwrap().contains("2001:db8::1".parse().unwrap()));
    }

    #[test]
    fn refusals_have_the_remedy() {
        let help = |result: Result<String, Wrong>| result.unwrap_err().help;
        assert!(help(Prefix::from_text("10.1.0.0/8").map(|p| p.to_string())).contains("10.0.0.0/8"));
        assert!(help(Ports::from_text("9-3").map(|p| p.to_string())).contains("\"3-9\""));
        assert!(help(Mark::from_text("0x110/0xff").map(|p| p.to_string())).contains("0x10/0xff"));
        assert!(help(Dscp::from_text("af44").map(dscp_name)).contains("`af4"));
        assert!(help(Protocol::from_text("utp").map(|p| p.to_string())).contains("`udp`"));
        assert!(help(Percent::from_text("7").map(|p| p.to_string())).contains("10%"));
        assert!(Percent::from_text("101%").is_err() && Percent::from_text("100.0001%").is_err());
        assert!(Dscp::from_integer(64).is_err() && Dscp::from_integer(-1).is_err());
    }

    #[test]
    fn what_is_printed_parses_back() {
        for text in ["12.5%", "0.0001%", "100%"] {
            assert_eq!(Percent::from_text(text).unwrap().to_string(), text);
        }
        for (name, _) in DSCPS {
            let dscp = Dscp::from_text(name).unwrap();
            assert_eq!(Dscp::from_text(&dscp_name(dscp)), Ok(dscp));
        }
    }
}
