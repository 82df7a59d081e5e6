//! Writes departures to a capture: each packet at the time at which it left, with the changes that were made to it.
//!
//! *Notes*: the capture has an interface for each configuration, with its name. Every packet has a comment: its number in the
//! source, from 1, its class, and its delay. Frames of an unknown link type are left out, and counted.

use std::collections::HashMap;
use std::io::Write;

use tidegate_capture::write::{Interface, WriteError};
use tidegate_capture::{CaptureWriter, LinkType, rewrite};
use tidegate_engine::{Disposition, PacketMeta};
use tidegate_units::Instant;

use crate::cut;
use crate::meter::Departure;

/// A packet that has not left all configurations yet.
struct Frame {
    link: Option<LinkType>,
    bytes: Box<[u8]>,
    length: u32,
    network: usize,
    meta: PacketMeta,
    /// The number of its tickets that have not come back yet.
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
pub struct Origin<'a> {
    /// The number of the configuration. Together with the link type it identifies an interface.
    pub number: usize,
    /// The name of the configuration, and of its interfaces in the file.
    pub name: &'a str,
    /// The names of its classes.
    pub classes: &'a [String],
    /// The MTU of its interface.
    pub mtu: u32,
    /// Its time zero, in ns since 1970.
    pub wall_clock: u64,
    /// Its time zero, as an instant.
    pub start: Instant,
    /// The number of the engine in a recording, from 1; each numbers its packets from 0. It is 0 for a source, which numbers
    /// its packets from 1.
    pub engine: u64,
}

impl<W: Write> Departures<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// If `sink` fails.
    pub fn new(sink: W) -> Result<Self, WriteError> {
        let (interfaces, frames) = (HashMap::new(), HashMap::new());
        Ok(Self { writer: CaptureWriter::new(sink)?, interfaces, frames, written: 0, left_out: 0 })
    }

    /// Keeps a packet until `out` tickets have come back.
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
    /// Forgets a packet that will not leave.
    pub fn forget(&mut self, key: (u64, u64)) {
        self.frames.remove(&key);
    }

    /// Writes a departure, unless it is a drop.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn write(&mut self, from: &Origin<'_>, departure: &Departure) -> Result<(), WriteError> {
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
            // Users count packets from 1.
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

    /// The number of packets written.
    pub fn written(&self) -> u64 {
        self.written
    }
    /// The number of packets left out because their link type is not known.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
    /// Flushes, and returns the sink.
    ///
    /// # Errors
    /// If flushing fails.
    pub fn finish(self) -> Result<W, WriteError> {
        self.writer.finish()
    }
}
