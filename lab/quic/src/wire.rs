//! [`Wire`]: the datagrams between the ends of a connection, which the packets of the simulation carry by number.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::BytesMut;
use tidegate_core::{Instant, Span};

/// How long a datagram may be on its way: the maximum segment lifetime of RFC 9293, section 3.4.2. One that was dropped is
/// forgotten after this time, because nobody reports drops.
const LIFETIME: Span = Span::from_secs(120);

/// A datagram without the zeros at its end.
struct Datagram {
    sent: Instant,
    bytes: Box<[u8]>,
    length: usize,
}

/// The datagrams of one direction that are under way.
#[derive(Default)]
struct Way {
    /// The number of the first one in the list.
    first: u32,
    datagrams: VecDeque<Option<Datagram>>,
}

/// The datagrams of both directions.
#[derive(Default)]
pub(crate) struct Wire([Way; 2]);

/// A wire that both ends hold.
pub(crate) type SharedWire = Rc<RefCell<Wire>>;

impl Wire {
    /// Keeps a datagram that end `side` sends, and returns its number.
    pub fn put(&mut self, now: Instant, side: usize, datagram: &[u8]) -> u32 {
        let way = &mut self.0[side];
        while let Some(front) = way.datagrams.front()
            && front.as_ref().is_none_or(|front| front.sent + LIFETIME < now)
        {
            way.datagrams.pop_front();
            way.first = way.first.wrapping_add(1);
        }
        let end = datagram.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        way.datagrams.push_back(Some(Datagram { sent: now, bytes: datagram[..end].into(), length: datagram.len() }));
        way.first.wrapping_add(way.datagrams.len() as u32 - 1)
    }

    /// Takes out datagram `number` of end `side`. A second copy of a packet finds none: QUIC discards it, too.
    pub fn take(&mut self, side: usize, number: u32) -> Option<BytesMut> {
        let way = &mut self.0[side];
        let place = number.wrapping_sub(way.first) as usize;
        let datagram = way.datagrams.get_mut(place)?.take()?;
        let mut bytes = BytesMut::with_capacity(datagram.length);
        bytes.extend_from_slice(&datagram.bytes);
        bytes.resize(datagram.length, 0);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_arrive_once_in_any_order_and_lost_ones_are_forgotten() {
        let (mut wire, start) = (Wire::default(), Instant::ZERO);
        let numbers: Vec<u32> = (1..=3).map(|size| wire.put(start, 0, &vec![size; usize::from(size)])).collect();
        assert_eq!(wire.take(1, numbers[0]), None, "the other direction");
        assert_eq!(wire.take(0, numbers[2]).unwrap()[..], [3, 3, 3]);
        assert_eq!(wire.take(0, numbers[0]).unwrap()[..], [1]);
        assert_eq!(wire.take(0, numbers[0]), None, "a copy");
        // The second one is lost. Nothing but the new one is left when its lifetime is over.
        let zeros = wire.put(start + LIFETIME + Span::from_nanos(1), 0, &[0; 1200]);
        assert_eq!((zeros, wire.0[0].datagrams.len()), (3, 1));
        assert_eq!(wire.0[0].datagrams[0].as_ref().unwrap().bytes.len(), 0, "zeros take no memory");
        assert_eq!(wire.take(0, numbers[1]), None);
        assert_eq!(wire.take(0, zeros).unwrap()[..], [0; 1200]);
    }
}
