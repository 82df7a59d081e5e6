//! [`Digest`]: whether two results are equal, in 128 bits.

use std::fmt;

use crate::{Histogram, Occupancy, Series};

/// A 128-bit digest of a sequence of numbers: equal sequences have equal digests on every machine, and different ones
/// differ but for a chance of about 2⁻¹²⁸. It guards against accidents, not against forgery.
///
/// [`bytes`](Self::bytes) and what is built on it are FNV-1a. [`word`](Self::word) is FNV-1a with words of 64 bits in the
/// place of bytes, whose upper half is folded into the lower one after each multiplication, so that every bit of a word
/// reaches all others: an eighth of the cost, for what is digested packet by packet. Each step is a bijection of the
/// state. The two give different digests of the same number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(u128);

const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl Default for Digest {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Digest {
    /// The digest that is shown as `text`; `None` for any other text.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(text, 16).ok().filter(|_| digits).map(Self)
    }
    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(PRIME);
        }
    }
    /// Adds a number as its eight bytes.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }
    /// Adds a number in one step.
    #[inline]
    pub fn word(&mut self, word: u64) {
        let state = (self.0 ^ u128::from(word)).wrapping_mul(PRIME);
        self.0 = state ^ state >> 64;
    }
    /// Adds another digest.
    pub fn digest(&mut self, other: Self) {
        self.bytes(&other.0.to_le_bytes());
    }
    /// Adds a distribution.
    pub fn histogram(&mut self, histogram: &Histogram) {
        self.number(histogram.count());
        for (value, share) in histogram.distribution() {
            self.number(value);
            self.number(share.to_bits());
        }
    }
    /// Adds the steps of a number.
    pub fn occupancy(&mut self, occupancy: &Occupancy) {
        self.number(occupancy.width().as_nanos());
        for number in occupancy.numbers() {
            self.bytes(&number.to_le_bytes());
        }
    }
    /// Adds the sums of a series.
    pub fn series(&mut self, series: &Series) {
        self.number(series.width().as_nanos());
        for (_, sum) in series.sums() {
            self.number(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_and_the_order_count() {
        for add in [Digest::number, Digest::word] {
            let of = |numbers: &[u64]| {
                let mut digest = Digest::default();
                numbers.iter().for_each(|number| add(&mut digest, *number));
                digest
            };
            assert_eq!(of(&[1, 2, 3]), of(&[1, 2, 3]));
            let others = [&[1, 3, 2][..], &[1, 2], &[1, 2, 3, 0], &[0, 1, 2, 3], &[1, 2, 1 << 63 | 3]];
            for (at, other) in others.iter().enumerate() {
                assert_ne!(of(other), of(&[1, 2, 3]));
                assert!(others[..at].iter().all(|earlier| of(earlier) != of(other)));
            }
            // The value on every machine.
            assert_eq!(of(&[]).to_string(), "6c62272e07bb014262b821756295c58d");
            assert_eq!(of(&[7]).to_string().len(), 32);
        }
    }

    /// The test vectors of FNV-1a with 128 bits (draft-eastlake-fnv, appendix C).
    #[test]
    fn bytes_are_fnv_1a() {
        let of = |text: &str| {
            let mut digest = Digest::default();
            digest.bytes(text.as_bytes());
            digest.to_string()
        };
        assert_eq!(of("a"), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(of("foobar"), "343e1662793c64bf6f0d3597ba446f18");
    }
}
