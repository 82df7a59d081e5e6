//! Capture files, written as pcapng with times in nanoseconds.
//!
//! *Law*: [`read`](crate::read) returns what was written: the link type of each interface, and for each packet the
//! time to the nanosecond, the bytes and the length.
//! *Source*: the pcapng format (IETF opsawg draft), by way of the `pcap-file` crate.
//! *Notes*: times up to the year 2554. The writer is not buffered: use a `BufWriter` for a file.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock as _, PcapNgWriteError, PcapNgWriter};
use pcap_file::{DataLink, Endianness};
use tidegate_core::Instant;

use crate::link::LinkType;

/// An interface of a capture that is being written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interface(u32);

/// Writing failed.
#[derive(Debug)]
pub struct WriteError(PcapNgWriteError);

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            PcapNgWriteError::Io(error) => write!(f, "writing the capture failed: {error}"),
            other => write!(f, "writing the capture failed: {other}"),
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl WriteError {
    /// The I/O error, if it was one: a full disk, a closed pipe.
    pub fn io(&self) -> Option<&std::io::Error> {
        match &self.0 {
            PcapNgWriteError::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// Writes a capture. See the [module](self).
pub struct CaptureWriter<W: Write> {
    writer: PcapNgWriter<W>,
    interfaces: u32,
}

impl<W: Write> CaptureWriter<W> {
    /// Starts a file.
    ///
    /// # Errors
    /// When writing to `sink` fails.
    pub fn new(sink: W) -> Result<Self, WriteError> {
        let section = SectionHeaderBlock {
            endianness: Endianness::Little,
            options: vec![SectionHeaderOption::UserApplication("tidegate".into())],
            ..SectionHeaderBlock::default()
        };
        let writer = PcapNgWriter::with_section_header(sink, section).map_err(WriteError)?;
        Ok(Self { writer, interfaces: 0 })
    }

    /// Adds an interface; packets refer to it.
    ///
    /// # Errors
    /// When writing fails.
    pub fn add_interface(&mut self, name: &str, link: LinkType) -> Result<Interface, WriteError> {
        let mut block = InterfaceDescriptionBlock::new(DataLink::from(link.number()), 0);
        block.options.push(InterfaceDescriptionOption::IfName(name.into()));
        block.options.push(InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO));
        self.writer.write_block(&block.into_block()).map_err(WriteError)?;
        self.interfaces += 1;
        Ok(Interface(self.interfaces - 1))
    }

    /// Writes a packet of `length` bytes, of which `bytes` are available, with an optional comment (viewers show it
    /// with the packet).
    ///
    /// # Errors
    /// When writing fails.
    pub fn write(
        &mut self,
        interface: Interface,
        time: Instant,
        bytes: &[u8],
        length: u32,
        remark: Option<&str>,
    ) -> Result<(), WriteError> {
        let comment = |text: &str| EnhancedPacketOption::Common(CommonOption::Comment(text.to_owned().into()));
        let block = EnhancedPacketBlock {
            interface_id: interface.0,
            timestamp: Duration::from_nanos(time.as_nanos()),
            original_len: length.max(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
            data: bytes.into(),
            options: remark.map(comment).into_iter().collect(),
        };
        self.writer.write_pcapng_block(block).map(drop).map_err(WriteError)
    }

    /// Flushes and returns the sink.
    ///
    /// # Errors
    /// When flushing fails.
    pub fn finish(self) -> Result<W, WriteError> {
        let mut sink = self.writer.into_inner();
        sink.flush().map_err(|error| WriteError(PcapNgWriteError::Io(error)))?;
        Ok(sink)
    }
}
