//! The encoding of numbers and checksums in a recording.

/// The body of a chunk that is being written: the bytes up to `end`, and room behind them.
#[derive(Debug)]
pub(crate) struct Body {
    bytes: Vec<u8>,
    end: usize,
}

impl Body {
    /// Begins an empty body in the memory of `bytes`.
    pub fn new(mut bytes: Vec<u8>) -> Self {
        let capacity = bytes.capacity();
        bytes.resize(capacity, 0);
        Self { bytes, end: 0 }
    }
    pub fn len(&self) -> usize {
        self.end
    }
    pub fn clear(&mut self) {
        self.end = 0;
    }
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.truncate(self.end);
        self.bytes
    }
    /// Appends the bytes that `write` writes.
    #[inline]
    pub fn append(&mut self, write: impl FnOnce(&mut Short<'_>)) {
        if self.bytes.len() - self.end < Short::MOST {
            self.grow(Short::MOST);
        }
        let room = self.bytes[self.end..].first_chunk_mut().expect("there is room");
        let mut short = Short { bytes: room, length: 0 };
        write(&mut short);
        self.end += short.length;
    }
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.bytes.len() - self.end < bytes.len() {
            self.grow(bytes.len());
        }
        self.bytes[self.end..][..bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }
    #[cold]
    fn grow(&mut self, more: usize) {
        self.bytes.resize((self.end + more).max(2 * self.bytes.len()), 0);
    }
}

/// Writes a few numbers at the end of a chunk. The length of the chunk is updated once afterwards, which is faster than with each
/// byte.
pub(crate) struct Short<'a> {
    bytes: &'a mut [u8; Short::MOST],
    length: usize,
}

impl Short<'_> {
    /// More bytes than the numbers of a record take.
    pub const MOST: usize = 128;

    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }
    #[inline]
    pub fn array<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.length..][..N].copy_from_slice(&bytes);
        self.length += N;
    }
    /// Appends `value` in LEB128: seven bits a byte, the lowest first, with the top bit set in all bytes but the last.
    #[inline]
    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }
    /// Appends a signed number in zigzag encoding, so that small numbers of either sign are short.
    #[inline]
    pub fn signed(&mut self, value: i64) {
        self.number((value << 1 ^ value >> 63) as u64);
    }
    /// Appends, for each eight bytes, a mask of the bytes of `now` that differ from `before`, and these bytes.
    #[inline]
    pub fn difference(&mut self, before: &[u8], now: &[u8]) {
        for (before, now) in before.chunks(8).zip(now.chunks(8)) {
            let mut differing = word(before) ^ word(now);
            let at = self.length;
            self.byte(0);
            let mut mask = 0;
            while differing != 0 {
                let bit = differing.trailing_zeros() / 8;
                mask |= 1 << bit;
                self.byte(now[bit as usize]);
                differing &= !(0xff << (8 * bit));
            }
            self.bytes[at] = mask;
        }
    }
}

/// Up to eight bytes as a little-endian number.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(whole) => u64::from_le_bytes(*whole),
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// Reads the encoding of [`Short`]. Methods return `None` at the end of the bytes and for an invalid number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    pub rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }
    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
    pub fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }
    pub fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(taken)
    }
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.small()?;
        self.take(n)
    }
}

/// The CRC-32 of IEEE 802.3, reflected, of the concatenated parts.
pub(crate) fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    parts.iter().for_each(|part| crc.update(part));
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decoded_as_they_were_encoded() {
        let edges = [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX];
        for value in edges {
            let mut out = Body::new(Vec::new());
            out.append(|out| {
                out.number(value);
                out.signed(value as i64);
                out.signed((value as i64).wrapping_neg());
            });
            let out = out.into_bytes();
            let mut cursor = Cursor { rest: &out };
            assert_eq!(cursor.number(), Some(value));
            assert_eq!(cursor.signed(), Some(value as i64));
            assert_eq!(cursor.signed(), Some((value as i64).wrapping_neg()));
            assert!(cursor.rest.is_empty());
        }
        assert_eq!(Cursor { rest: &[0x80; 12] }.number(), None, "no end");
        assert_eq!(Cursor { rest: &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2] }.number(), None, "2^65");
        assert_eq!(Cursor { rest: &[5, 1, 2] }.bytes(), None, "five bytes of which two are there");
    }

    /// The check value of the catalogue of parametrised CRC algorithms: 0xcbf43926 for "123456789".
    #[test]
    fn the_checksum_is_that_of_ieee_802_3() {
        assert_eq!(crc32(&[b"1234", b"56789"]), 0xcbf4_3926);
    }

    #[test]
    fn a_difference_has_each_differing_byte() {
        let before: Vec<u8> = (0..21).collect();
        let mut now = before.clone();
        (now[0], now[7], now[10], now[20]) = (100, 101, 102, 103);
        let mut out = Body::new(Vec::new());
        out.append(|out| out.difference(&before, &now));
        assert_eq!(out.into_bytes(), [1 | 1 << 7, 100, 101, 1 << 2, 102, 1 << 4, 103]);
    }
}
