//! A digest of departures.

use std::fmt;

/// A 128-bit digest of a sequence of numbers: equal sequences have equal digests, and different ones differ but for a
/// chance of about 2⁻¹²⁸. It guards against accidents, not against forgery.
///
/// It is FNV-1a with words of 64 bits in the place of bytes, and its upper half folded into the lower one after each
/// multiplication, so that every bit of a word reaches all others. Each step is a bijection of the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(u128);

const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl Default for Digest {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Digest {
    /// Takes in a number.
    #[inline]
    pub fn number(&mut self, number: u64) {
        let state = (self.0 ^ u128::from(number)).wrapping_mul(PRIME);
        self.0 = state ^ state >> 64;
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[u64]) -> Digest {
        let mut digest = Digest::default();
        numbers.iter().for_each(|number| digest.number(*number));
        digest
    }

    #[test]
    fn every_number_and_the_order_count() {
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
