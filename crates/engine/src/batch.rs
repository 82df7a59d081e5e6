//! Packets that arrive together, and packets that leave together.
//!
//! *Law*: the effects are those of one call after the other, but that what a discipline drops on the way, and its events, are
//! reported before the packets that leave with it.
//! *Cost*: that of the single calls, without what these repeat. Of packets that arrive together all are classified and all
//! flows looked up first, and of packets that leave together all records are read first: the processor waits for their memory
//! at the same time, not in turn.
//! *Notes*: packets are enqueued in the tree one after the other all the same: whether a superpacket is too long, and what a
//! flow is granted, depends on the packets before it.

use tidegate_core::classify::Fields;
use tidegate_core::{Instant, Qdisc};

use crate::engine::Engine;
use crate::flows::FlowSlots;
use crate::packet::QueuedPacket;
use crate::rules::Classification;
use crate::schedule::TreeOutlet;
use crate::sink::{PacketMeta, Sink};

/// What is known of a packet before it is enqueued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefetched {
    pub(crate) classification: Classification,
    /// Where its flow is, until another packet is enqueued.
    pub(crate) slots: FlowSlots,
}

/// Memory for the packets of a batch; empty between calls but for what was prefetched.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    fields: Vec<Fields>,
    classifications: Vec<Classification>,
    prefetched: Vec<Prefetched>,
    leaving: Vec<QueuedPacket>,
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Classifies packets that are about to be enqueued, and reads what belongs to their flows.
    pub(crate) fn prefetch<'a>(&mut self, packets: impl Iterator<Item = &'a PacketMeta>) {
        let Self { classify, account, tree, batch, .. } = self;
        batch.fields.clear();
        batch.fields.extend(packets.map(|meta| meta.fields));
        classify.classify_all(&batch.fields, &mut batch.classifications);
        batch.prefetched.clear();
        batch.prefetched.extend(batch.classifications.iter().map(|&classification| {
            let slots = account.find(classification.flow.flow, |slot| tree.read_ahead(slot));
            Prefetched { classification, slots }
        }));
    }
    /// The packet that was in this place when packets were last prefetched.
    #[inline]
    pub(crate) fn prefetched(&self, at: usize) -> Prefetched {
        self.batch.prefetched[at]
    }

    /// Sends packets that may leave at `now`, `most` at most, and returns how many there were. See the
    /// [module](crate::batch).
    pub(crate) fn dequeue_batch(&mut self, now: Instant, most: usize, out: &mut impl Sink<H>) -> usize {
        // A recorder has each call.
        if self.recorder.is_some() {
            return self.dequeue(now, out).into();
        }
        self.expire(now, out);
        // Held packets and promises may change with each packet that leaves.
        if !self.admit.hold.is_empty() || self.admit.registry.has_promises() {
            return self.dequeue(now, out).into();
        }
        let mut leaving = std::mem::take(&mut self.batch.leaving);
        let Self { tree, account, admit, recorder, .. } = self;
        let mut outlet = TreeOutlet { now, account, admit, current: None, recorder, sink: out };
        let sent = tree.dequeue_batch(now, most, &mut leaving, &mut outlet);
        admit.registry.settle(tree);
        for packet in &leaving {
            admit.packets.read_ahead(packet.slot);
            account.read_ahead(packet.record);
        }
        leaving.iter().for_each(|packet| self.send(now, packet, out));
        leaving.clear();
        self.batch.leaving = leaving;
        sent
    }
}
