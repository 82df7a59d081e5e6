//! What left, as a capture: each packet at the time at which it left, with the changes that were made to it.
//!
//! *Notes*: a capture of several configurations has an interface for each, by its name. Every packet has a remark: which
//! one of the source it is, from 1, its class, and how long it waited. Frames of a link type that is not known are left
//! out, and counted.

use std::collections::HashMap;
use std::io::Write;

use tidegate_capture::write::{Interface, WriteError};
use tidegate_capture::{CaptureWriter, LinkType, rewrite};
use tidegate_engine::{Disposition, PacketMeta};
use tidegate_units::Instant;

use crate::cut;
use crate::meter::Departure;

/// A packet that waits in some of the configurations.
struct Frame {
    link: Option<LinkType>,
    bytes: Box<[u8]>,
    length: u32,
    network: usize,
    meta: PacketMeta,
    /// How many tickets of it are still out.
    out: u64,
}

/// Writes departures. See the [module](self).
pub struct Departures<W: Write> {
    writer: CaptureWriter<W>,
    interfaces: HashMap<(usize, LinkType), Interface>,
    frames: HashMap<(u64, u64), Frame>,
    written: u64,
    left_out: u64,
}

/// A configuration whose departures are written.
#[derive(Clone, Copy, Debug)]
pub struct From<'a> {
    /// The number of the configuration among those that are written; with the link type it is the key of an interface.
    pub number: usize,
    /// The name of the configuration, and of its interfaces in the file.
    pub name: &'a str,
    /// The names of its classes.
    pub classes: &'a [String],
    /// The largest packet of its interface.
    pub mtu: u32,
    /// Its time zero in ns since 1970.
    pub wall_clock: u64,
    /// The instant that is its time zero.
    pub start: Instant,
    /// Which engine of a recording it is, from 1; packets are numbered anew with each, from 0. 0 where packets are
    /// those of a source, which are numbered from 1.
    pub engine: u64,
}

impl<W: Write> Departures<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// When `sink` does not take it.
    pub fn new(sink: W) -> Result<Self, WriteError> {
        let (interfaces, frames) = (HashMap::new(), HashMap::new());
        Ok(Self { writer: CaptureWriter::new(sink)?, interfaces, frames, written: 0, left_out: 0 })
    }

    /// Keeps a packet until `out` tickets have returned.
    #[allow(clippy::too_many_arguments)]
    pub fn keep(
        &mut self,
        key: (u64, u64),
        link: Option<LinkType>,
        bytes: &[u8],
        length: u32,
        network: usize,
        meta: &PacketMeta,
        out: u64,
    ) {
        if out > 0 {
            self.frames.insert(key, Frame { link, bytes: bytes.into(), length, network, meta: *meta, out });
        }
    }
    /// Forgets a packet that will not come back.
    pub fn forget(&mut self, key: (u64, u64)) {
        self.frames.remove(&key);
    }

    /// Writes a departure, unless it is a drop.
    ///
    /// # Errors
    /// When the sink does not take it.
    pub fn write(&mut self, from: &From<'_>, departure: &Departure) -> Result<(), WriteError> {
        let ticket = departure.ticket;
        let key = (from.engine, ticket.packet);
        let Some(frame) = self.frames.get_mut(&key) else { return Ok(()) };
        frame.out -= 1;
        let is_last = frame.out == 0;
        if let Disposition::Sent(change) = departure.fate {
            let Some(link) = frame.link else {
                self.left_out += 1;
                return Ok(());
            };
            let (before, inside) = frame.bytes.split_at(frame.network.min(frame.bytes.len()));
            let (mut inside, length) = match ticket.segment {
                0 => (inside.to_vec(), frame.length),
                segment => {
                    let cut = cut::segments(&frame.meta, from.mtu).nth(segment as usize - 1);
                    let length = cut.map_or(0, |meta| meta.length) + before.len() as u32;
                    (cut::segment_bytes(inside, &frame.meta, from.mtu, segment), length)
                }
            };
            if let Some(dscp) = change.dscp {
                rewrite::set_dscp(&mut inside, dscp);
            }
            if change.congestion {
                rewrite::mark_ce(&mut inside);
            }
            let interface = match self.interfaces.get(&(from.number, link)) {
                Some(interface) => *interface,
                None => {
                    let interface = self.writer.add_interface(from.name, link)?;
                    self.interfaces.insert((from.number, link), interface);
                    interface
                }
            };
            let through = departure.packet.left_by.0 as usize;
            let class = from.classes.get(through).map_or("?", String::as_str);
            // As people count them, whatever they are counted from here.
            let packet = ticket.packet + u64::from(from.engine > 0);
            let waited = departure.waited.as_nanos();
            let remark = match ticket.segment {
                0 => format!("packet {packet}, class {class}, waited {waited} ns"),
                segment => format!("packet {packet}, segment {segment}, class {class}, waited {waited} ns"),
            };
            let time = from.wall_clock.saturating_add(departure.time.since(from.start).as_nanos());
            let bytes = [before, &inside].concat();
            self.writer.write(interface, Instant::from_nanos(time), &bytes, length, Some(&remark))?;
            self.written += 1;
        }
        if is_last {
            self.frames.remove(&key);
        }
        Ok(())
    }

    /// Packets written.
    pub fn written(&self) -> u64 {
        self.written
    }
    /// Packets left out because their link type is not known.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
    /// Flushes, and returns the sink.
    ///
    /// # Errors
    /// When flushing fails.
    pub fn finish(self) -> Result<W, WriteError> {
        self.writer.finish()
    }
}
