//! [`Wire`]: what a packet takes on the line, by the line's framing.

use crate::params::ParamError;
use tidegate_units::{Bytes, Rate};

/// How the line cuts packets up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Framing {
    /// Bytes as they are: Ethernet, DOCSIS, fibre.
    #[default]
    None,
    /// ATM cells: 48 bytes of payload in 53, the last cell padded (ADSL).
    Atm,
    /// 64/65 coding of PTM: a byte more for each 64 or part of them (VDSL2).
    Ptm,
}

/// The bytes that a packet takes on the line.
///
/// *Units*: bytes. `overhead` is added to [`Packet::size`](crate::Packet::size), so it is what the line adds beyond
/// what the size counts already; it may be negative where the size counts more than the line carries.
/// *Source*: ITU-T I.361 and RFC 2684 (ATM), IEEE 802.3 clause 61.3.3 (64/65 coding); the worked numbers of the tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wire {
    /// Added to each packet.
    pub overhead: i16,
    /// The least a packet takes, overhead included; padding makes up the rest.
    pub least: Bytes,
    /// The framing, after overhead and padding.
    pub framing: Framing,
}

impl Wire {
    /// Packets count with their size unchanged.
    pub const RAW: Self = Self { overhead: 0, least: Bytes::ZERO, framing: Framing::None };

    /// Checks what cannot work.
    ///
    /// # Errors
    /// An overhead outside -64 to 256 bytes.
    pub fn validate(self) -> Result<Self, ParamError> {
        if !(-64..=256).contains(&self.overhead) {
            return Err(ParamError::new("overhead", "must be -64 to 256 bytes; 44 is right or safe on most DSL lines"));
        }
        Ok(self)
    }

    fn one(&self, size: u64) -> u64 {
        let overhead = i64::from(self.overhead).unsigned_abs();
        let whole = if self.overhead < 0 { size.saturating_sub(overhead) } else { size.saturating_add(overhead) };
        let size = whole.max(self.least.as_u64());
        match self.framing {
            Framing::None => size,
            Framing::Atm => size.div_ceil(48) * 53,
            Framing::Ptm => size + size.div_ceil(64),
        }
    }

    /// Returns the rate of the line while packets of `packet` bytes pass it at `rate`, rounded down.
    pub fn line_rate(&self, rate: Rate, packet: Bytes) -> Rate {
        let packet = packet.as_u64().max(1);
        let bps = u128::from(rate.as_bps()) * u128::from(self.one(packet)) / u128::from(packet);
        Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
    }

    /// The bytes on the line for `size` bytes in `segments` packets of about equal size.
    #[inline]
    pub fn bytes(&self, size: Bytes, segments: u32) -> Bytes {
        if segments <= 1 {
            return Bytes::new(self.one(size.as_u64()));
        }
        let before = u64::from(segments) - 1;
        let full = size.as_u64().div_ceil(u64::from(segments));
        let last = size.as_u64().saturating_sub(full * before);
        Bytes::new(self.one(full) * before + self.one(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_numbers() {
        let wire = |overhead, framing, size| {
            Wire { overhead, framing, least: Bytes::ZERO }.bytes(Bytes::new(size), 1).as_u64()
        };
        // 1500 + 40 = 1540 B are 32.08 cells, so 33: 33 * 53.
        assert_eq!(wire(40, Framing::Atm, 1_500), 1_749);
        // A 40 B acknowledgement: 80 B are 1.67 cells, so 2.
        assert_eq!(wire(40, Framing::Atm, 40), 106);
        // With 8 B (bridged VC-MUX) exactly one cell; one byte more takes a second.
        assert_eq!((wire(8, Framing::Atm, 40), wire(8, Framing::Atm, 41)), (53, 106));
        // 1500 + 30 = 1530 = 23.9 * 64: 24 bytes more.
        assert_eq!(wire(30, Framing::Ptm, 1_500), 1_554);
        assert_eq!(wire(-14, Framing::None, 1_514), 1_500);
        // Ethernet: 38 B with preamble and gap, at least 84.
        let ethernet = Wire { overhead: 38, least: Bytes::new(84), framing: Framing::None };
        assert_eq!(ethernet.bytes(Bytes::new(40), 1), Bytes::new(84));
        // A superpacket of 3 * 1500 pays three times.
        assert_eq!(ethernet.bytes(Bytes::new(4_500), 3), Bytes::new(3 * 1_538));
        // Packets of 1500 B at 15 Mbit/s: 1749, 1554 and 1538 bytes on the line for 1500.
        let line = |overhead, framing| {
            let wire = Wire { overhead, framing, least: Bytes::ZERO };
            wire.line_rate(Rate::from_mbit(15), Bytes::new(1_500)).as_bps()
        };
        assert_eq!(line(40, Framing::Atm), 17_490_000);
        assert_eq!(line(30, Framing::Ptm), 15_540_000);
        assert_eq!(line(38, Framing::None), 15_380_000);
        assert_eq!(line(0, Framing::None), 15_000_000);
        assert!(Wire { overhead: 300, ..Wire::RAW }.validate().is_err());
    }
}
