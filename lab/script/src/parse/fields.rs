//! Parses the fields of a packet in a script.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tidegate_config::suggest;
use tidegate_config::values::{Mark, MessageType, Protocol, TcpFlags};
use tidegate_core::classify::{Fields, Hosts, Signal, Version};
use tidegate_core::{Bytes, Colour, Dscp, Ecn};

use super::cursor::Cursor;
use super::parser::{Parsed, Parser};
use crate::packet::Header;

/// The words that begin a field.
pub(super) const FIELDS: [&str; 16] = [
    "udp",
    "tcp",
    "icmp",
    "protocol",
    "size",
    "dscp",
    "ecn",
    "colour",
    "mark",
    "uid",
    "class",
    "profile",
    "segments",
    "ack",
    "flags",
    "icmp-type",
];

/// The largest packet, which is larger than a superpacket of 64 KiB.
const LARGEST: Bytes = Bytes::new(1 << 20);

/// The names of the ECN field.
pub(crate) const ECN: [(&str, Ecn); 4] =
    [("not-ect", Ecn::NotEct), ("ect0", Ecn::Ect0), ("ect1", Ecn::Ect1), ("ce", Ecn::Ce)];
/// The names of colours.
pub(crate) const COLOURS: [(&str, Colour); 3] =
    [("green", Colour::Green), ("yellow", Colour::Yellow), ("red", Colour::Red)];

/// Whether `word` begins a field.
pub(super) fn begins(word: &str) -> bool {
    FIELDS.contains(&word) || address(word).is_some() || is_meant_as_address(word)
}

/// Whether `word` looks like an address. No number has a colon, or two dots.
fn is_meant_as_address(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || c == '[') && (word.contains(':') || word.matches('.').count() > 1)
}

/// The default packet of flow number `n`: UDP, 1000 B, from a host and port of its own.
pub(super) fn default(n: usize) -> Header {
    let n = n as u32;
    let source = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 1).to_bits() + n % (1 << 16));
    let destination = Ipv4Addr::new(10, 1, 0, 1);
    Header {
        fields: Fields {
            hosts: Hosts::V4 { source, destination },
            protocol: Some(17),
            source_port: Some(1_000 + (n % 60_000) as u16),
            destination_port: Some(5_000),
            ..Fields::default()
        },
        size: Bytes::new(1_000),
        ecn: Ecn::NotEct,
        class: None,
        colour: None,
        profile: 0,
        segments: 1,
        pure_ack: false,
    }
}

/// An address with or without a port: `10.0.0.1`, `10.0.0.1:80`, `2001:db8::1`, `[2001:db8::1]:80`.
fn address(text: &str) -> Option<(IpAddr, Option<u16>)> {
    let with_port = || text.parse::<SocketAddr>().ok().map(|both| (both.ip(), Some(both.port())));
    text.parse::<IpAddr>().ok().map(|ip| (ip, None)).or_else(with_port)
}

/// Parses one of `words`, and returns its value.
pub(super) fn one_of<T: Copy>(
    parser: &mut Parser<'_>,
    line: &mut Cursor<'_>,
    what: &str,
    words: &[(&str, T)],
) -> Parsed<T> {
    let word = line.word(parser, what, words[0].0)?;
    match words.iter().find(|(name, _)| *name == word.text) {
        Some((_, value)) => Ok(*value),
        None => {
            let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
            parser.error(word.place, format!("`{}` is not {what}", word.text), suggest::help(word.text, &names))
        }
    }
}

/// Parses fields up to the first word that is not a field.
pub(super) fn parse(parser: &mut Parser<'_>, line: &mut Cursor<'_>, mut header: Header) -> Parsed<Header> {
    while let Some(word) = line.peek_word().filter(|word| *word != "every") {
        let place = line.place();
        if let Some((source, source_port)) = address(word) {
            line.skip();
            line.expect_word(parser, ">")?;
            let to = line.word(parser, "where it goes to", "10.0.0.2:5004")?;
            let Some((destination, destination_port)) = address(to.text) else {
                let message = format!("`{}` is not an address", to.text);
                return parser.error(to.place, message, "write for example 10.0.0.2:5004 or [2001:db8::2]:5004");
            };
            header.fields.hosts = match (source, destination) {
                (IpAddr::V4(source), IpAddr::V4(destination)) => Hosts::V4 { source, destination },
                (IpAddr::V6(source), IpAddr::V6(destination)) => Hosts::V6 { source, destination },
                _ => return parser.error(place, "the two addresses are of different versions", "use IPv4 or IPv6"),
            };
            header.fields.source_port = source_port.or(header.fields.source_port);
            header.fields.destination_port = destination_port.or(header.fields.destination_port);
            continue;
        }
        line.skip();
        match word {
            "udp" => header.fields.protocol = Some(17),
            "tcp" => header.fields.protocol = Some(6),
            "icmp" => {
                header.fields.protocol = Some(1);
                (header.fields.source_port, header.fields.destination_port) = (None, None);
            }
            "protocol" => header.fields.protocol = Some(line.scalar::<Protocol>(parser)?.0),
            "size" => {
                let place = line.place();
                // A bare number can only be bytes here.
                header.size = match line.peek_word().and_then(|word| word.parse::<u64>().ok()) {
                    Some(bytes) => {
                        line.skip();
                        Bytes::new(bytes)
                    }
                    None => line.scalar(parser)?,
                };
                if header.size == Bytes::ZERO || header.size > LARGEST {
                    let message = format!("no packet has {}", header.size);
                    return parser.error(place, message, format!("write a size from 1B to {LARGEST}"));
                }
            }
            "dscp" => header.fields.dscp = line.scalar::<Dscp>(parser)?,
            "ecn" => header.ecn = one_of(parser, line, "an ECN field", &ECN)?,
            "colour" => header.colour = Some(one_of(parser, line, "a colour", &COLOURS)?),
            "mark" => header.fields.mark = line.scalar::<Mark>(parser)?.value,
            "uid" => header.fields.uid = Some(line.number(parser, u64::from(u32::MAX))? as u32),
            "class" => {
                let word = line.word(parser, "a class", "class voice")?;
                header.class = Some((word.text.to_owned(), word.place));
            }
            "profile" => header.profile = line.number(parser, u64::from(u32::MAX))? as u32,
            "segments" => {
                let place = line.place();
                header.segments = line.number(parser, 1_024)? as u32;
                if header.segments == 0 {
                    return parser.error(
                        place,
                        "a packet represents at least one segment",
                        "write segments 1, or leave it out",
                    );
                }
            }
            "ack" => header.pure_ack = true,
            "flags" => {
                let place = line.place();
                let flags = line.scalar::<TcpFlags>(parser)?;
                if flags.clear != 0 {
                    let help = "name the flags that are set, for example flags syn+ack";
                    return parser.error(place, "a packet has flags or has them not", help);
                }
                header.fields.protocol = Some(6);
                header.fields.traits.signal = Signal::Tcp { flags: flags.set, pure_ack: false };
            }
            "icmp-type" => {
                let (place, kind) = (line.place(), line.scalar::<MessageType>(parser)?);
                let version = header.fields.hosts.version().unwrap_or(Version::V4);
                let Some(kind) = kind.types().find(|kind| kind.version == version) else {
                    let help = "write addresses of the other version of IP before it";
                    return parser.error(place, format!("this version of ICMP has no `{kind}`"), help);
                };
                header.fields.protocol = Some(if version == Version::V4 { 1 } else { 58 });
                (header.fields.source_port, header.fields.destination_port) = (None, None);
                header.fields.traits.signal = Signal::Icmp(kind);
            }
            other if is_meant_as_address(other) => {
                let help = "write for example 10.0.0.1:5004 or [2001:db8::1]:5004, with a port up to 65535";
                return parser.error(place, format!("`{other}` is not an address"), help);
            }
            other => {
                let help = suggest::help(other, &FIELDS);
                return parser.error(place, format!("`{other}` is not a field of a packet"), help);
            }
        }
    }
    Ok(header)
}
