//! No bytes panic the readers of netlink messages, of dumps (links, neighbours, rules) and of queued packets, whose payload is
//! untrusted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_live::netlink::{Attributes, Messages, Reply};
use tidegate_live::nfqueue::Packet;
use tidegate_live::nft::Rule;
use tidegate_live::rtnl::{Link, Neighbour};

/// Reads attributes as every kind of value and as nested attributes.
fn read(attributes: Attributes<'_>, depth: usize) {
    for attribute in attributes {
        let _ = (attribute.u8(), attribute.u16(), attribute.u32(), attribute.be16(), attribute.be32(), attribute.be64());
        let _ = attribute.string();
        if depth > 0 {
            read(attribute.nested(), depth - 1);
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    for message in Messages::new(bytes) {
        let _ = message.verdict();
        for header in [0, 4, 16] {
            read(message.attributes(header), 4);
        }
        // Links have names that their users chose, and rules of other programs are read as well.
        let reply = Reply { kind: message.kind, body: message.body.to_vec() };
        let _ = (Link::parse(message.body), Neighbour::parse(&reply), Rule::decode(&reply));
        if let Some(packet) = Packet::parse(&message) {
            let _ = tidegate_capture::dissect::network(packet.payload, packet.payload.len());
        }
    }
});
