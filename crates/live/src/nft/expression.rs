//! The expressions that rules are made of.

use std::fmt;

use crate::netlink::{Attributes, Body};

const ELEM_NAME: u16 = 1;
const ELEM_DATA: u16 = 2;
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT_DROP: i32 = libc::NF_DROP;
const VERDICT_ACCEPT: i32 = libc::NF_ACCEPT;
const VERDICT_JUMP: i32 = libc::NFT_JUMP;
const VERDICT_RETURN: i32 = libc::NFT_RETURN;
const CSUM_INET: u32 = libc::NFT_PAYLOAD_CSUM_INET as u32;
const SOCKET_CGROUPV2: u32 = 3;
const ROUTE_XFRM: u32 = 4;
const QUEUE_BYPASS: u16 = libc::NFT_QUEUE_FLAG_BYPASS as u16;
const LIMIT_BYTES: u32 = libc::NFT_LIMIT_PKT_BYTES as u32;

/// Metadata of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetaKey {
    /// The firewall mark.
    Mark,
    /// The index of the interface it arrived by; 0 for what this host sends.
    InIndex,
    /// The name of the interface it arrived by.
    InName,
    /// The index of the interface it leaves by.
    OutIndex,
    /// The name of the interface it leaves by.
    OutName,
    /// The uid of the socket that sent it.
    SocketUid,
    /// Its network protocol: 2 is IPv4, 10 is IPv6.
    Protocol,
    /// Its transport protocol, behind any extension headers.
    Transport,
    /// Whether it was decrypted by IPsec on this host: one byte, 0 or 1.
    Decrypted,
    /// Another one.
    Other(u32),
}

impl MetaKey {
    fn number(self) -> u32 {
        match self {
            Self::Mark => 3,
            Self::InIndex => 4,
            Self::InName => 6,
            Self::OutIndex => 5,
            Self::OutName => 7,
            Self::SocketUid => 10,
            Self::Protocol => 15,
            Self::Transport => 16,
            Self::Decrypted => 25,
            Self::Other(n) => n,
        }
    }
    fn from_number(n: u32) -> Self {
        [
            Self::Mark,
            Self::InIndex,
            Self::InName,
            Self::OutIndex,
            Self::OutName,
            Self::SocketUid,
            Self::Protocol,
            Self::Transport,
            Self::Decrypted,
        ]
        .into_iter()
        .find(|k| k.number() == n)
        .unwrap_or(Self::Other(n))
    }
}

/// How a register is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// Continues if equal.
    Equal,
    /// Continues if not.
    NotEqual,
    /// Continues if the register is at most this.
    AtMost,
    /// Continues if it is at least this.
    AtLeast,
}

impl Compare {
    fn number(self) -> u32 {
        match self {
            Self::Equal => 0,
            Self::NotEqual => 1,
            Self::AtMost => 3,
            Self::AtLeast => 5,
        }
    }
}

/// The base of an offset into a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// The IP header.
    Network,
    /// The header behind it.
    Transport,
}

/// Bytes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// The base of the offset.
    pub base: Base,
    /// The first byte.
    pub offset: u32,
    /// The number of bytes.
    pub length: u32,
}

/// One expression. Registers are numbered 1 to 4, sixteen bytes each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expression {
    /// Loads metadata of the packet.
    Meta(MetaKey, u32),
    /// Sets metadata of the packet.
    SetMeta(MetaKey, u32),
    /// Loads whether IPsec will encrypt the packet on this host: one byte, 0 or 1.
    IsToEncrypt(u32),
    /// Continues if the register compares so.
    Compare(u32, Compare, Vec<u8>),
    /// register = register & mask ^ flip.
    Bitwise {
        /// The register that is read or written, 1 to 4.
        register: u32,
        /// The bits that are kept.
        mask: Vec<u8>,
        /// The bits that are then inverted.
        flip: Vec<u8>,
    },
    /// Loads bytes of the packet.
    Load(Field, u32),
    /// Writes bytes of the packet; with the offset of an Internet checksum, updates it.
    Store(Field, u32, Option<u32>),
    /// Loads the id of the control group of the sending socket at a level of the hierarchy.
    Cgroup {
        /// Its depth: 1 is a child of the root.
        level: u32,
        /// The register that is read or written, 1 to 4.
        register: u32,
    },
    /// register = the hash of its first bytes, below a modulus (Jenkins).
    Hash {
        /// The register that is read or written, 1 to 4.
        register: u32,
        /// The number of bytes, which may reach into the next register.
        length: u32,
        /// The number of values.
        modulus: u32,
        /// The seed of the hash; not 0.
        seed: u32,
    },
    /// Puts a value into a register.
    Immediate(u32, Vec<u8>),
    /// Counts packets and bytes.
    Counter,
    /// Continues while the packets that come here are within a rate.
    Limit {
        /// The rate, in bytes a second.
        rate: u64,
        /// The burst allowed beyond one second's worth, in bytes.
        burst: u32,
    },
    /// Lets the packet pass this chain.
    Accept,
    /// Drops the packet.
    Drop,
    /// Goes back to the calling chain, or to the chain's policy.
    Return,
    /// Continues in another chain.
    Jump(String),
    /// Queues the packet to user space; if the queue is not served, the packet passes. nf_tables' own expression.
    Queue {
        /// The first queue.
        first: u16,
        /// How many queues share the flows.
        count: u16,
    },
    /// Like `Queue`, through the compatibility layer: the `NFQUEUE` target, revision 3, of x_tables.
    QueueTarget {
        /// The first queue.
        first: u16,
        /// How many queues share the flows.
        count: u16,
    },
    /// Copies the packet to the socket of a log group, if there is one.
    Log {
        /// The group.
        group: u16,
        /// The most bytes that are copied.
        copied: u32,
    },
    /// Puts the connection of the packet into the flow table of that name.
    AddFlow(String),
    /// An expression that Tidegate does not use, by its name.
    Unknown(String),
}

impl Expression {
    fn name(&self) -> &str {
        match self {
            Self::Meta(..) | Self::SetMeta(..) => "meta",
            Self::IsToEncrypt(_) => "rt",
            Self::Compare(..) => "cmp",
            Self::Bitwise { .. } => "bitwise",
            Self::Load(..) | Self::Store(..) => "payload",
            Self::Cgroup { .. } => "socket",
            Self::Hash { .. } => "hash",
            Self::Immediate(..) | Self::Accept | Self::Drop | Self::Return | Self::Jump(_) => "immediate",
            Self::Counter => "counter",
            Self::Limit { .. } => "limit",
            Self::Queue { .. } => "queue",
            Self::QueueTarget { .. } => "target",
            Self::Log { .. } => "log",
            Self::AddFlow(_) => "flow_offload",
            Self::Unknown(name) => name,
        }
    }

    pub(super) fn encode(&self, e: &mut Body<'_>) {
        e.string(ELEM_NAME, self.name()).nest(ELEM_DATA, |d| self.encode_data(d));
    }

    fn encode_data(&self, d: &mut Body<'_>) {
        match self {
            Self::Meta(key, register) => d.be32(2, key.number()).be32(1, *register),
            Self::SetMeta(key, register) => d.be32(2, key.number()).be32(3, *register),
            Self::IsToEncrypt(register) => d.be32(1, *register).be32(2, ROUTE_XFRM),
            Self::Compare(register, how, data) => d.be32(1, *register).be32(2, how.number()).nest(3, |v| {
                v.attr(DATA_VALUE, data);
            }),
            Self::Bitwise { register, mask, flip } => d
                .be32(1, *register)
                .be32(2, *register)
                .be32(3, mask.len() as u32)
                .nest(4, |v| {
                    v.attr(DATA_VALUE, mask);
                })
                .nest(5, |v| {
                    v.attr(DATA_VALUE, flip);
                }),
            Self::Load(field, register) => {
                d.be32(1, *register).be32(2, field.base as u32 + 1).be32(3, field.offset).be32(4, field.length)
            }
            Self::Store(field, register, checksum) => {
                d.be32(5, *register).be32(2, field.base as u32 + 1).be32(3, field.offset).be32(4, field.length);
                match checksum {
                    Some(offset) => d.be32(6, CSUM_INET).be32(7, *offset),
                    None => d,
                }
            }
            Self::Cgroup { level, register } => d.be32(1, SOCKET_CGROUPV2).be32(2, *register).be32(3, *level),
            Self::Hash { register, length, modulus, seed } => {
                d.be32(1, *register).be32(2, *register).be32(3, *length).be32(4, *modulus).be32(5, *seed)
            }
            Self::Immediate(register, data) => d.be32(1, *register).nest(2, |v| {
                v.attr(DATA_VALUE, data);
            }),
            Self::Counter => d.be64(1, 0).be64(2, 0),
            Self::Limit { rate, burst } => d.be64(1, *rate).be64(2, 1).be32(3, *burst).be32(4, LIMIT_BYTES),
            Self::Accept => verdict(d, VERDICT_ACCEPT, None),
            Self::Drop => verdict(d, VERDICT_DROP, None),
            Self::Return => verdict(d, VERDICT_RETURN, None),
            Self::Jump(chain) => verdict(d, VERDICT_JUMP, Some(chain)),
            Self::Queue { first, count } => d.be16(1, *first).be16(2, *count).be16(3, QUEUE_BYPASS),
            Self::QueueTarget { first, count } => {
                // struct xt_NFQ_info_v3 { queuenum, queues_total, flags }, in host order, padded to eight bytes.
                let mut info = [0; 8];
                info[..2].copy_from_slice(&first.to_ne_bytes());
                info[2..4].copy_from_slice(&count.to_ne_bytes());
                info[4..6].copy_from_slice(&QUEUE_BYPASS.to_ne_bytes());
                d.string(1, "NFQUEUE").be32(2, 3).attr(3, &info)
            }
            Self::Log { group, copied } => d.be16(1, *group).be32(3, *copied),
            Self::AddFlow(name) => d.string(1, name),
            Self::Unknown(_) => d,
        };
    }

    /// Reads an expression of a dump, and the packets and bytes if it is a counter.
    pub(super) fn decode(element: Attributes<'_>) -> (Self, Option<(u64, u64)>) {
        let name = element.find(ELEM_NAME).and_then(|a| a.string()).unwrap_or_default();
        let data = element.find(ELEM_DATA).map_or(Attributes::new(&[]), |a| a.nested());
        if name == "counter" {
            let number = |kind| data.find(kind).and_then(|a| a.be64());
            return (Self::Counter, number(2).zip(number(1)));
        }
        (Self::decode_data(&name, data).unwrap_or(Self::Unknown(name)), None)
    }

    fn decode_data(name: &str, data: Attributes<'_>) -> Option<Self> {
        let number = |kind| data.find(kind).and_then(|a| a.be32());
        let half = |kind| data.find(kind).and_then(|a| a.be16());
        let value = |kind| Some(data.find(kind)?.nested().find(DATA_VALUE)?.payload.to_vec());
        Some(match name {
            "meta" => {
                let key = MetaKey::from_number(number(2)?);
                match (number(1), number(3)) {
                    (Some(register), None) => Self::Meta(key, register),
                    (None, Some(register)) => Self::SetMeta(key, register),
                    _ => return None,
                }
            }
            "rt" if number(2)? == ROUTE_XFRM => Self::IsToEncrypt(number(1)?),
            "cmp" => {
                let all = [Compare::Equal, Compare::NotEqual, Compare::AtMost, Compare::AtLeast];
                let code = number(2)?;
                let how = all.into_iter().find(|how| how.number() == code)?;
                Self::Compare(number(1)?, how, value(3)?)
            }
            "bitwise" => {
                // Operation 0 (mask and flip) is the only one there was before the attribute existed.
                if number(1)? != number(2)? || number(6).unwrap_or(0) != 0 {
                    return None;
                }
                Self::Bitwise { register: number(1)?, mask: value(4)?, flip: value(5)? }
            }
            "payload" => {
                let base = match number(2)? {
                    1 => Base::Network,
                    2 => Base::Transport,
                    _ => return None,
                };
                let field = Field { base, offset: number(3)?, length: number(4)? };
                match (number(1), number(5)) {
                    (Some(register), None) => Self::Load(field, register),
                    (None, Some(register)) => {
                        let checksum = (number(6).unwrap_or(0) == CSUM_INET).then(|| number(7)).flatten();
                        Self::Store(field, register, checksum)
                    }
                    _ => return None,
                }
            }
            "hash" if number(1)? == number(2)? && number(6).unwrap_or(0) == 0 && number(7).unwrap_or(0) == 0 => {
                Self::Hash { register: number(1)?, length: number(3)?, modulus: number(4)?, seed: number(5)? }
            }
            "socket" if number(1)? == SOCKET_CGROUPV2 => Self::Cgroup { level: number(3)?, register: number(2)? },
            "immediate" => match number(1)? {
                0 => {
                    let verdict = data.find(2)?.nested().find(DATA_VERDICT)?.nested();
                    match verdict.find(1)?.be32()? as i32 {
                        VERDICT_ACCEPT => Self::Accept,
                        VERDICT_DROP => Self::Drop,
                        VERDICT_RETURN => Self::Return,
                        VERDICT_JUMP => Self::Jump(verdict.find(2)?.string()?),
                        _ => return None,
                    }
                }
                register => Self::Immediate(register, value(2)?),
            },
            "limit" if number(4)? == LIMIT_BYTES && number(5).unwrap_or(0) == 0 => {
                let long = |kind| data.find(kind).and_then(|a| a.be64());
                if long(2)? != 1 {
                    return None;
                }
                Self::Limit { rate: long(1)?, burst: number(3)? }
            }
            "log" => Self::Log { group: half(1)?, copied: number(3)? },
            "flow_offload" => Self::AddFlow(data.find(1)?.string()?),
            "queue" if half(3).unwrap_or(0) == QUEUE_BYPASS => Self::Queue { first: half(1)?, count: half(2)? },
            "target" if data.find(1)?.string()? == "NFQUEUE" && number(2)? == 3 => {
                let info = data.find(3)?.payload.first_chunk::<6>()?;
                let field = |at: usize| u16::from_ne_bytes([info[at], info[at + 1]]);
                if field(4) != QUEUE_BYPASS {
                    return None;
                }
                Self::QueueTarget { first: field(0), count: field(2) }
            }
            _ => return None,
        })
    }
}

fn verdict<'a, 'b>(d: &'a mut Body<'b>, code: i32, chain: Option<&str>) -> &'a mut Body<'b> {
    d.be32(1, 0).nest(2, |v| {
        v.nest(DATA_VERDICT, |v| {
            v.be32(1, code as u32);
            if let Some(chain) = chain {
                v.string(2, chain);
            }
        });
    })
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "an unknown \"{name}\""),
            other => write!(f, "{other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Builder, Messages};
    use proptest::prelude::*;

    fn round(expression: &Expression) -> Expression {
        let mut builder = Builder::new();
        builder.message(0, 0, 0, |m| {
            m.nest(1, |e| expression.encode(e));
        });
        let message = Messages::new(builder.bytes()).next().unwrap();
        Expression::decode(message.attributes(0).find(1).unwrap().nested()).0
    }

    #[test]
    fn each_expression_is_read_as_it_was_written() {
        let field = Field { base: Base::Network, offset: 0, length: 2 };
        for expression in [
            Expression::Meta(MetaKey::OutName, 1),
            Expression::SetMeta(MetaKey::Mark, 2),
            Expression::Compare(1, Compare::NotEqual, b"eth0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec()),
            Expression::Bitwise { register: 1, mask: vec![0xff, 3], flip: vec![0, 0xb8] },
            Expression::Load(field, 3),
            Expression::Load(Field { base: Base::Transport, offset: 0, length: 1 }, 3),
            Expression::Compare(1, Compare::AtLeast, vec![133]),
            Expression::Compare(1, Compare::AtMost, vec![137]),
            Expression::Store(field, 3, Some(10)),
            Expression::Store(field, 3, None),
            Expression::Cgroup { level: 2, register: 1 },
            Expression::Immediate(2, vec![1, 2, 3, 4]),
            Expression::Hash { register: 1, length: 32, modulus: 2, seed: 7 },
            Expression::Counter,
            Expression::Limit { rate: 64_000, burst: 9_000 },
            Expression::Log { group: 7, copied: 1_500 },
            Expression::AddFlow("fast".into()),
            Expression::Accept,
            Expression::Return,
            Expression::Jump("write4".into()),
            Expression::Queue { first: 7, count: 2 },
            Expression::QueueTarget { first: 7, count: 1 },
        ] {
            assert_eq!(round(&expression), expression);
        }
    }

    proptest! {
        #[test]
        fn random_bytes_decode_to_something_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Expression::decode(Attributes::new(&bytes));
            for name in ["meta", "cmp", "bitwise", "payload", "socket", "immediate", "limit", "queue", "target", "hash", "log"] {
                let _ = Expression::decode_data(name, Attributes::new(&bytes));
            }
        }
    }
}
