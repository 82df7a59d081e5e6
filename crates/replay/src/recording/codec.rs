//! Numbers and checksums as a recording has them.

/// Appends `value` in LEB128: seven bits a byte, low ones first, the top bit set in all but the last.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a difference: zigzag, so that small ones of either sign are short.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63) as u64);
}

/// Appends bytes behind their number.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the functions above wrote; none at the end, or for a number that is none.
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

/// CRC-32 as in IEEE 802.3, reflected, of the parts one after the other.
pub(crate) fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = !0_u32;
    for part in parts {
        // Eight bytes at once, whose look-ups do not wait for each other (Kounavis and Berry, 2005).
        let (eights, rest) = part.as_chunks::<8>();
        for &[a, b, c, d, after @ ..] in eights {
            let [a, b, c, d] = (crc ^ u32::from_le_bytes([a, b, c, d])).to_le_bytes();
            let all = [a, b, c, d, after[0], after[1], after[2], after[3]];
            crc = (0..8).fold(0, |crc, at| crc ^ TABLES[7 - at][usize::from(all[at])]);
        }
        for &byte in rest {
            crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
        }
    }
    !crc
}

/// What a byte does to the checksum that has so many bytes behind it.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut n = 0;
    while n < 256 {
        let mut crc = n as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][n] = crc;
        n += 1;
    }
    let mut at = 0;
    while at < 7 * 256 {
        let before = tables[at / 256][at % 256];
        tables[at / 256 + 1][at % 256] = before >> 8 ^ tables[0][(before & 0xff) as usize];
        at += 1;
    }
    tables
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let edges = [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX];
        for value in edges {
            let mut out = Vec::new();
            put(&mut out, value);
            put_signed(&mut out, value as i64);
            put_signed(&mut out, (value as i64).wrapping_neg());
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
        // Eight bytes at once, or one by one.
        let text: Vec<u8> = (0..100).map(|n| (n * n % 251) as u8).collect();
        for length in 0..text.len() {
            let bytes: Vec<&[u8]> = text[..length].chunks(1).collect();
            assert_eq!(crc32(&[&text[..length]]), crc32(&bytes), "{length} bytes");
        }
    }
}
