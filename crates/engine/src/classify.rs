//! [`Classify`] finds the class, the flow and the size on the link of a packet from its metadata.
//!
//! *Law*: all fragments of a datagram are classified by the fields of the first. Fragments that arrive before the first wait
//! for it, up to a time limit ([`fragments`]).
//! *Notes*: every packet is classified by itself; nothing is remembered for its flow. Where rules ask for properties of single
//! packets (code point, mark, length, TCP flags, ICMP type), packets of one connection go to several classes. They are then a flow
//! of its own in each of them, whose order is kept.
//! *Cost*: a look-up in the rules and a keyed hash. Only fragments touch the table of fragments.

use tidegate_config::shaper::{Config, Match};
use tidegate_core::classify::Fields;
use tidegate_core::fragments::{self, Fragments};
use tidegate_core::{Backlog, Bytes, ClassId, FlowKey, Instant};

use crate::rules::{BuildFailure, Classification, Names, Rules, Setup};
use crate::sink::PacketMeta;
use crate::wire::{OnWire, on_wire};

/// A fragment that waits: the data path's handle, the number of its arrival, and its metadata.
pub(crate) type Fragment<H> = (H, u64, PacketMeta);

/// See the [module](self).
pub(crate) struct Classify<H> {
    rules: Rules,
    fragments: Fragments<Fragment<H>, Fields>,
    /// Fragments released in this call, with the fields that classify them; empty between calls.
    released: Vec<(Fragment<H>, Fields)>,
    mtu: u32,
    overhead: u32,
}

/// The MTU of the link, at least 68 (RFC 791), and its overhead for each packet, in bytes.
fn link_of(config: &Config) -> (u32, u32) {
    let bytes = |n: Bytes| u32::try_from(n.as_u64()).unwrap_or(u32::MAX);
    (bytes(config.interface.mtu), bytes(config.interface.overhead))
}

impl<H: Copy> Classify<H> {
    pub(crate) fn new(config: &Config, setup: &Setup) -> Result<Self, BuildFailure> {
        let (mtu, overhead) = link_of(config);
        let fragments = Fragments::new(fragments::Params::default(), setup.secret);
        Ok(Self {
            rules: Rules::new(config, setup)?,
            fragments: fragments.map_err(|error| BuildFailure::Tree(error.to_string()))?,
            released: Vec::new(),
            mtu,
            overhead,
        })
    }

    /// The class and flow of a packet with these fields.
    #[inline]
    pub(crate) fn classify(&self, fields: &Fields) -> Classification {
        self.rules.classify(fields)
    }
    /// The part of the flow key that does not depend on the class.
    pub(crate) fn flow_key(&self, fields: &Fields) -> FlowKey {
        self.rules.flow_key(fields)
    }
    /// The flow that a packet with these fields belongs to if it is in `class`.
    pub(crate) fn key_in(&self, class: ClassId, fields: &Fields) -> FlowKey {
        self.rules.key_in(class, fields)
    }
    /// Returns the bytes and packets of a packet on the link.
    #[inline]
    pub(crate) fn on_wire(&self, meta: &PacketMeta) -> OnWire {
        on_wire(meta, self.mtu, self.overhead)
    }

    /// The length of the longest segment of a superpacket with `length` bytes.
    pub(crate) fn wire_length(&self, length: u16) -> u16 {
        length.min(u16::try_from(self.mtu).unwrap_or(u16::MAX))
    }

    /// Takes a fragment, and releases it, now or later, with the fields of the first one.
    pub(crate) fn fragment(&mut self, now: Instant, handle: H, number: u64, meta: &PacketMeta) {
        let released = &mut self.released;
        let size = Bytes::new(meta.length.into());
        let release = &mut |fragment, fields| released.push((fragment, fields));
        self.fragments.arrive(now, &meta.fields, (handle, number, *meta), size, &mut |fields| *fields, release);
    }
    /// When [`Classify::expire`] will next release a fragment.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.fragments.deadline()
    }
    /// Releases fragments that have waited long enough.
    pub(crate) fn expire(&mut self, now: Instant) {
        let released = &mut self.released;
        self.fragments.expire(now, &mut |fragment, fields| released.push((fragment, fields)));
    }
    /// Releases all fragments.
    pub(crate) fn drain(&mut self) {
        let released = &mut self.released;
        self.fragments.drain(&mut |fragment, fields| released.push((fragment, fields)));
    }
    /// Takes the fragments that were released. Give the vector back with [`Classify::recycle`].
    pub(crate) fn take_released(&mut self) -> Vec<(Fragment<H>, Fields)> {
        std::mem::take(&mut self.released)
    }
    /// Gives back the emptied vector of [`Classify::take_released`], so that its memory is used again.
    pub(crate) fn recycle(&mut self, released: Vec<(Fragment<H>, Fields)>) {
        self.released = released;
    }
    /// The fragments that wait, and counts of fragments so far.
    pub(crate) fn fragments(&self) -> (Backlog, fragments::Counts) {
        (self.fragments.backlog(), self.fragments.counts())
    }

    /// Sets the rules of reservations, which are matched before those of the configuration.
    pub(crate) fn set_reserved(&mut self, rules: &[(&Match, ClassId)], names: &Names) -> Result<(), BuildFailure> {
        self.rules.set_reserved(rules, names)
    }
    /// Replaces the rules by those of `config`; returns the old ones.
    pub(crate) fn replace(&mut self, rules: Rules, config: &Config) -> Rules {
        (self.mtu, self.overhead) = link_of(config);
        std::mem::replace(&mut self.rules, rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::{Diagnostics, Source, shaper};
    use tidegate_core::Span;
    use tidegate_core::classify::{Fragment as Piece, Hosts};

    fn stage() -> Classify<u32> {
        let text = "version = 1\n[interface]\noverhead = \"14B\"\n[[class]]\nname = \"a\"\nrate = \"1mbit\"\n\
                    [[class]]\nname = \"b\"\nrate = \"1mbit\"\ndefault = true\n\
                    [[rule]]\nclass = \"a\"\ndestination-port = 53\n";
        let source = Source::new("classify.toml", text);
        let mut diagnostics = Diagnostics::new();
        let config =
            shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
        let setup = Setup { seed: 1, secret: [1, 2], catch_up: Span::ZERO, most_queued: None, names: Names::default() };
        Classify::new(&config, &setup).expect("valid")
    }
    fn meta(port: Option<u16>, fragment: Option<Piece>) -> PacketMeta {
        let hosts = Hosts::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
        let fields = Fields {
            hosts,
            protocol: Some(17),
            destination_port: port,
            source_port: port,
            fragment,
            ..Fields::default()
        };
        PacketMeta { fields, length: 1_000, network_header: 20, headers: 28, ..PacketMeta::default() }
    }

    #[test]
    fn a_packet_has_the_class_of_its_rule_and_the_size_on_the_link() {
        let stage = stage();
        let dns = stage.classify(&meta(Some(53), None).fields);
        let other = stage.classify(&meta(Some(54), None).fields);
        assert_eq!((dns.rule, dns.class, other.rule, other.class), (Some(0), ClassId(0), None, ClassId(1)));
        assert_ne!(dns.flow.flow, other.flow.flow);
        let wire = stage.on_wire(&meta(Some(53), None));
        assert_eq!((wire.size, wire.packets), (Bytes::new(1_014), 1));
    }

    #[test]
    fn fragments_are_released_with_the_fields_of_the_first() {
        let mut stage = stage();
        let first = Piece { id: 7, offset: 0, more: true };
        let second = Piece { offset: 1_480, more: false, ..first };
        stage.fragment(Instant::ZERO, 2, 0, &meta(None, Some(second)));
        assert!(stage.take_released().is_empty(), "held until the first arrives");
        assert_eq!(stage.fragments().0.packets, 1);
        stage.fragment(Instant::ZERO, 1, 1, &meta(Some(53), Some(first)));
        let released = stage.take_released();
        let ports: Vec<_> = released.iter().map(|((handle, ..), fields)| (*handle, fields.destination_port)).collect();
        assert_eq!(ports, [(1, Some(53)), (2, Some(53))]);
    }

    #[test]
    fn a_fragment_without_a_first_is_released_at_its_deadline() {
        let mut stage = stage();
        let piece = Piece { id: 7, offset: 1_480, more: false };
        stage.fragment(Instant::ZERO, 2, 0, &meta(None, Some(piece)));
        let deadline = stage.deadline().expect("one is held");
        stage.expire(Instant::from_nanos(deadline.as_nanos() - 1));
        assert!(stage.take_released().is_empty());
        stage.expire(deadline);
        assert_eq!((stage.take_released().len(), stage.deadline()), (1, None));
    }
}
