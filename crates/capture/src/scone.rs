//! SCONE packets: rate advice to the endpoints of QUIC flows, in the bytes of passing datagrams.
//!
//! A SCONE packet is a long-header packet that comes first in a UDP datagram. Endpoints send it with an unknown rate, and a
//! network element that has a lower rate to advise writes it in place.
//!
//! *Law*: [`lower`] changes the seven bits of the signal and the UDP checksum, nothing else, and only to a lower rate. A
//! checksum that was wrong stays wrong by the same amount; a UDP checksum of zero stays zero.
//! *Source*: draft-ietf-scone-protocol, *SCONE Packet*, *Rate Signals* and *Applying Throughput Advice Signals*; RFC 8999,
//! sections 5.1 and 5.2 (QUIC invariants); RFC 1624, equation 3; RFC 768.
//! *Units*: rates in bit/s. Signal n is 100 kbit/s · 10^(n/20).
//! *Cost*: a few loads, and the comparison of two connection ids; no allocation.
//! *Notes*: a datagram is taken for QUIC if a packet with the same connection ids follows the SCONE packet. More cannot be
//! known without the keys of the connection. For fragments, superpackets, and packets whose checksum the kernel has yet to
//! fill in, the caller must have the kernel finish them first.
//!
//! ```
//! use tidegate_capture::scone::{Signal, read};
//! use tidegate_units::Rate;
//! // A SCONE packet for connection id 07, and the beginning of a short-header packet.
//! let datagram = [0xff, 0xef, 0x7d, 0xc0, 0xfd, 1, 7, 0, 0x41, 7, 0, 0, 0];
//! let packet = read(&datagram).unwrap();
//! assert_eq!((packet.signal, packet.destination_id), (None, &[7][..]));
//! assert_eq!(Signal::at_most(Rate::from_mbit(5)).rate(), Rate::from_bps(4_466_835));
//! ```

use core::fmt;

use tidegate_units::Rate;

use crate::dissect::{outer, protocol};
use crate::rewrite::adjusted;

/// The bits of the version that are the same in every SCONE packet; the most significant bit belongs to the signal.
pub const VERSION: u32 = 0x6f7d_c0fd;

/// Bytes from the beginning of a datagram that [`begins`] must see.
pub const PREFIX: usize = 5;

/// The number that endpoints send: no rate is known.
const UNKNOWN: u8 = 127;

/// The rates of the signals from 0 to 126 in bit/s, rounded down. Every twentieth is exact.
const RATES: [u64; 127] = [
    100_000,
    112_201,
    125_892,
    141_253,
    158_489,
    177_827,
    199_526,
    223_872,
    251_188,
    281_838,
    316_227,
    354_813,
    398_107,
    446_683,
    501_187,
    562_341,
    630_957,
    707_945,
    794_328,
    891_250,
    1_000_000,
    1_122_018,
    1_258_925,
    1_412_537,
    1_584_893,
    1_778_279,
    1_995_262,
    2_238_721,
    2_511_886,
    2_818_382,
    3_162_277,
    3_548_133,
    3_981_071,
    4_466_835,
    5_011_872,
    5_623_413,
    6_309_573,
    7_079_457,
    7_943_282,
    8_912_509,
    10_000_000,
    11_220_184,
    12_589_254,
    14_125_375,
    15_848_931,
    17_782_794,
    19_952_623,
    22_387_211,
    25_118_864,
    28_183_829,
    31_622_776,
    35_481_338,
    39_810_717,
    44_668_359,
    50_118_723,
    56_234_132,
    63_095_734,
    70_794_578,
    79_432_823,
    89_125_093,
    100_000_000,
    112_201_845,
    125_892_541,
    141_253_754,
    158_489_319,
    177_827_941,
    199_526_231,
    223_872_113,
    251_188_643,
    281_838_293,
    316_227_766,
    354_813_389,
    398_107_170,
    446_683_592,
    501_187_233,
    562_341_325,
    630_957_344,
    707_945_784,
    794_328_234,
    891_250_938,
    1_000_000_000,
    1_122_018_454,
    1_258_925_411,
    1_412_537_544,
    1_584_893_192,
    1_778_279_410,
    1_995_262_314,
    2_238_721_138,
    2_511_886_431,
    2_818_382_931,
    3_162_277_660,
    3_548_133_892,
    3_981_071_705,
    4_466_835_921,
    5_011_872_336,
    5_623_413_251,
    6_309_573_444,
    7_079_457_843,
    7_943_282_347,
    8_912_509_381,
    10_000_000_000,
    11_220_184_543,
    12_589_254_117,
    14_125_375_446,
    15_848_931_924,
    17_782_794_100,
    19_952_623_149,
    22_387_211_385,
    25_118_864_315,
    28_183_829_312,
    31_622_776_601,
    35_481_338_923,
    39_810_717_055,
    44_668_359_215,
    50_118_723_362,
    56_234_132_519,
    63_095_734_448,
    70_794_578_438,
    79_432_823_472,
    89_125_093_813,
    100_000_000_000,
    112_201_845_430,
    125_892_541_179,
    141_253_754_462,
    158_489_319_246,
    177_827_941_003,
    199_526_231_496,
];

/// A rate on the scale of SCONE, from 100 kbit/s (0) to 199.5 Gbit/s (126) in steps of a twentieth of a decade.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Signal(u8);

impl Signal {
    /// The lowest signal, 100 kbit/s.
    pub const LOWEST: Self = Self(0);

    /// The signal with a number from 0 to 126; `None` for others, and for 127, which stands for an unknown rate.
    pub const fn new(number: u8) -> Option<Self> {
        if number < UNKNOWN { Some(Self(number)) } else { None }
    }
    /// The highest signal whose rate is not above `rate`. Below 100 kbit/s it is [`Signal::LOWEST`]: no signal stands for less.
    pub fn at_most(rate: Rate) -> Self {
        let bps = rate.as_bps();
        // The rate of a signal is an integer only every twentieth time, and otherwise above its entry.
        let fits = |number: usize| RATES[number] < bps || RATES[number] == bps && number.is_multiple_of(20);
        let above = RATES.partition_point(|&entry| entry <= bps);
        let highest = (0..above).rev().find(|&number| fits(number));
        Self(highest.map_or(0, |number| number as u8))
    }
    /// The number of the signal, 0 to 126.
    pub const fn number(self) -> u8 {
        self.0
    }
    /// The rate that the signal stands for, rounded down to whole bit/s.
    pub const fn rate(self) -> Rate {
        Rate::from_bps(RATES[self.0 as usize])
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rate())
    }
}

/// A SCONE packet at the beginning of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scone<'a> {
    /// The rate that the path advises so far; `None` while it is unknown.
    pub signal: Option<Signal>,
    /// The connection id of the receiver.
    pub destination_id: &'a [u8],
    /// The connection id of the sender; most senders leave it empty where a short-header packet follows.
    pub source_id: &'a [u8],
    /// The packets that follow in the datagram; never empty.
    pub coalesced: &'a [u8],
}

/// The long header of RFC 8999, section 5.1: destination and source connection id, and the bytes after them.
fn long_header(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let after_version = bytes.get(PREFIX..)?;
    let (&length, rest) = after_version.split_first()?;
    let (destination, rest) = rest.split_at_checked(length.into())?;
    let (&length, rest) = rest.split_first()?;
    let (source, rest) = rest.split_at_checked(length.into())?;
    Some((destination, source, rest))
}

/// Whether a UDP payload begins as a SCONE packet does. Five bytes suffice; [`read`] tells whether a whole one is there.
#[inline]
pub fn begins(payload: &[u8]) -> bool {
    let Some(&[first, a, b, c, d]) = payload.first_chunk() else { return false };
    first & 0x80 != 0 && u32::from_be_bytes([a & 0x7f, b, c, d]) == VERSION
}

/// Whether a packet, seen from its IP header on, carries a datagram that begins with a SCONE packet. `packet` may be cut short after
/// the first bytes of the datagram, whose place is `payload`.
#[inline]
pub fn begins_in(packet: &[u8], headers: &crate::Dissection) -> bool {
    headers.fields.protocol == Some(protocol::UDP)
        && headers.transport_header == 8
        && headers.tunnel.is_none()
        && packet.get(headers.payload_offset()..).is_some_and(begins)
}

/// Reads the SCONE packet at the beginning of the payload of a UDP datagram. `None` if there is none, if it is cut short, or
/// if no QUIC packet of the same connection follows: an endpoint ignores such advice.
pub fn read(datagram: &[u8]) -> Option<Scone<'_>> {
    let (&[first, version, ..], true) = (datagram.first_chunk::<PREFIX>()?, begins(datagram)) else { return None };
    let (destination_id, source_id, coalesced) = long_header(datagram)?;
    let (&next, after) = coalesced.split_first()?;
    let belongs = if next & 0x80 == 0 {
        // A short header has no source connection id, and does not tell the length of the other one. The draft leaves the first one
        // empty in front of it, but picoquic does not, and takes the advice.
        after.starts_with(destination_id)
    } else {
        !begins(coalesced)
            && long_header(coalesced).is_some_and(|(to, from, _)| (to, from) == (destination_id, source_id))
    };
    let signal = Signal::new((first & 0x3f) << 1 | version >> 7);
    belongs.then_some(Scone { signal, destination_id, source_id, coalesced })
}

/// Reads the SCONE packet of `packet`, a whole packet from its IP header on. `None` if it has none that may be written to.
pub fn find(packet: &[u8]) -> Option<Scone<'_>> {
    datagram(packet).and_then(|at| read(&packet[at]))
}

/// The result of [`lower`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The packet carries no SCONE packet that may be written to. It is unchanged.
    NoScone,
    /// The SCONE packet has this rate already, or a lower one. It is unchanged.
    Kept(Signal),
    /// The signal was written. Before, the rate was this one, or unknown.
    Lowered(Option<Signal>),
}

/// Writes `signal` into the SCONE packet of `packet`, a whole packet from its IP header on, if it has one with a higher or an
/// unknown rate.
pub fn lower(packet: &mut [u8], signal: Signal) -> Outcome {
    let Some(at) = datagram(packet) else { return Outcome::NoScone };
    let Some(found) = read(&packet[at.clone()]) else { return Outcome::NoScone };
    let before = match found.signal {
        Some(lower) if lower <= signal => return Outcome::Kept(lower),
        before => before,
    };
    let start = at.start;
    let old = [packet[start], packet[start + 1]];
    let new = [old[0] & 0xc0 | signal.0 >> 1, old[1] & 0x7f | signal.0 << 7];
    packet[start..start + 2].copy_from_slice(&new);
    // The payload follows a header of eight bytes, so that these two are one word of the checksum.
    let checksum = &mut packet[start - 2..start];
    let value = u16::from_be_bytes([checksum[0], checksum[1]]);
    if value != 0 {
        let value = adjusted(value, u16::from_be_bytes(old), u16::from_be_bytes(new));
        // Zero would say that there is no checksum.
        checksum.copy_from_slice(&if value == 0 { 0xffff } else { value }.to_be_bytes());
    }
    Outcome::Lowered(before)
}

/// The payload of the whole UDP datagram that `packet` is.
fn datagram(packet: &[u8]) -> Option<core::ops::Range<usize>> {
    let headers = outer(packet, packet.len()).ok()?;
    let is_udp = headers.fields.protocol == Some(protocol::UDP) && headers.transport_header == 8;
    if !is_udp || headers.fields.fragment.is_some() {
        return None;
    }
    let start = headers.payload_offset();
    let length = packet.get(start.checked_sub(4)?..start - 2)?;
    let payload = usize::from(u16::from_be_bytes([length[0], length[1]])).checked_sub(8)?;
    let end = start.checked_add(payload).filter(|&end| end <= packet.len() && end <= headers.total as usize)?;
    Some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `base` to the power of `exponent`, in limbs of 32 bits, the lowest first.
    fn power(base: u64, exponent: u32) -> Vec<u32> {
        let mut limbs = vec![1_u32];
        for _ in 0..exponent {
            let mut carry = 0_u128;
            for limb in &mut limbs {
                let sum = u128::from(*limb) * u128::from(base) + carry;
                *limb = sum as u32;
                carry = sum >> 32;
            }
            while carry > 0 {
                limbs.push(carry as u32);
                carry >>= 32;
            }
        }
        limbs
    }

    fn is_above(a: &[u32], b: &[u32]) -> bool {
        (a.len(), a.iter().rev().collect::<Vec<_>>()) > (b.len(), b.iter().rev().collect())
    }

    /// r = 10^5 · 10^(n/20) is r^20 = 10^(100+n), so that r rounded down is the greatest integer whose 20th power is not above.
    #[test]
    fn every_rate_is_the_formula_of_the_draft() {
        for (number, &rate) in (0..).zip(&RATES) {
            let exact = power(10, 100 + number);
            assert!(!is_above(&power(rate, 20), &exact), "{number}: {rate} is above");
            assert!(is_above(&power(rate + 1, 20), &exact), "{number}: {rate} is below");
            assert_eq!(power(rate, 20) == exact, number % 20 == 0, "{number}: {rate}");
        }
    }

    /// The examples of the draft.
    #[test]
    fn the_table_of_the_draft() {
        let kbit = |number| Signal::new(number).unwrap().rate().as_bps() / 1_000;
        assert_eq!([0, 1, 2, 3, 20, 40, 60, 80].map(kbit), [100, 112, 125, 141, 1_000, 10_000, 100_000, 1_000_000]);
        assert_eq!([100, 120, 126].map(kbit), [10_000_000, 100_000_000, 199_526_231]);
        assert_eq!(Signal::new(127), None);
    }

    #[test]
    fn a_signal_is_never_above_the_rate() {
        for number in 0..127 {
            let signal = Signal::new(number).unwrap();
            let bps = RATES[usize::from(number)];
            // Between two signals the lower one holds; at the very rate only if it is whole.
            assert_eq!(Signal::at_most(Rate::from_bps(bps + 1)), signal);
            let below = Signal::new(number.saturating_sub(1)).unwrap();
            let exact = if number % 20 == 0 { signal } else { below };
            assert_eq!(Signal::at_most(Rate::from_bps(bps)), exact);
            assert_eq!(Signal::at_most(Rate::from_bps(bps - 1)), below);
        }
        assert_eq!(Signal::at_most(Rate::from_bps(u64::MAX)).number(), 126);
        assert_eq!(Signal::at_most(Rate::from_bps(0)), Signal::LOWEST);
    }
}
