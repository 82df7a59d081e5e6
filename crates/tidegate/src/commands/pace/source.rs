//! The source of bytes, divided into the data of single writes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use tidegate_pace::sender::wait_for_data;
use tidegate_units::{Bytes, Span};

/// The payload of the largest IPv4 datagram: 65,535 bytes less 20 of IP and 8 of UDP.
pub const LARGEST_DATAGRAM: Bytes = Bytes::new(65_507);
/// The longest line, a bound on memory.
const LONGEST_LINE: usize = 1 << 20;

/// How the bytes are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// At most this many at once, or what is available: a stream.
    UpTo(usize),
    /// Exactly this many, except the last: datagrams.
    Exactly(usize),
    /// Lines, with or without their newlines.
    Lines {
        /// Whether the newline is sent.
        with_end: bool,
    },
}

/// A source of bytes that can be waited for.
#[derive(Debug)]
pub struct Source {
    file: File,
    cut: Cut,
    buffer: Vec<u8>,
    /// The start of the data that is read and not yet returned.
    start: usize,
    end: usize,
    /// The position up to which no newline was found.
    searched: usize,
    ended: bool,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes of the buffer.
    Bytes(std::ops::Range<usize>),
    /// No data yet.
    NotYet,
    /// The end of the source.
    End,
}

impl Source {
    pub fn new(file: File, cut: Cut) -> Self {
        Self { file, cut, buffer: vec![0; 1 << 16], start: 0, end: 0, searched: 0, ended: false }
    }
    /// The remaining size, if known; `None` for a pipe.
    pub fn size(&self) -> Option<Bytes> {
        let metadata = self.file.metadata().ok()?;
        metadata.is_file().then(|| Bytes::new(metadata.len()))
    }
    /// Changes the division from here on.
    pub fn set_cut(&mut self, cut: Cut) {
        self.cut = cut;
    }
    /// The bytes of a piece.
    pub fn bytes(&self, range: &std::ops::Range<usize>) -> &[u8] {
        &self.buffer[range.clone()]
    }
    /// The next piece, waiting for at most `patience` for it.
    pub fn next(&mut self, patience: Span) -> io::Result<Piece> {
        loop {
            if let Some(piece) = self.take()? {
                return Ok(piece);
            }
            self.make_room();
            if !wait_for_data(self.file.as_fd(), patience)? {
                return Ok(Piece::NotYet);
            }
            // Reading no more than needed prevents bursts at the writer of a stream.
            let room = match self.cut {
                Cut::UpTo(size) | Cut::Exactly(size) => size - (self.end - self.start),
                Cut::Lines { .. } => self.buffer.len() - self.end,
            };
            let to = self.end + room;
            match self.file.read(&mut self.buffer[self.end..to]) {
                Ok(0) => self.ended = true,
                Ok(n) => self.end += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another process made it non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Piece::NotYet),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a piece from the data that is read.
    fn take(&mut self) -> io::Result<Option<Piece>> {
        let held = self.end - self.start;
        let (length, skip) = match self.cut {
            Cut::UpTo(size) if held > 0 => (held.min(size), 0),
            Cut::Exactly(size) if held >= size || (self.ended && held > 0) => (held.min(size), 0),
            Cut::Lines { with_end } => {
                let unsearched = &self.buffer[self.searched.max(self.start)..self.end];
                match unsearched.iter().position(|byte| *byte == b'\n') {
                    Some(at) => {
                        let line = self.searched.max(self.start) + at - self.start;
                        if with_end { (line + 1, 0) } else { (line, 1) }
                    }
                    None if self.ended && held > 0 => (held, 0),
                    None if held >= LONGEST_LINE => {
                        return Err(io::Error::other(format!("a line is longer than {LONGEST_LINE} byte")));
                    }
                    None => {
                        self.searched = self.end;
                        (0, 0)
                    }
                }
            }
            Cut::UpTo(_) | Cut::Exactly(_) => (0, 0),
        };
        if length == 0 && skip == 0 {
            return Ok(self.ended.then_some(Piece::End));
        }
        let range = self.start..self.start + length;
        self.start += length + skip;
        self.searched = self.start;
        Ok(Some(Piece::Bytes(range)))
    }
    /// Makes space for the next read. No returned piece is in use any more.
    fn make_room(&mut self) {
        let held = self.end - self.start;
        let wanted = match self.cut {
            Cut::UpTo(size) | Cut::Exactly(size) => size.max(held),
            Cut::Lines { .. } => held + (1 << 14),
        };
        if self.start + wanted > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.searched = self.searched.saturating_sub(self.start);
            (self.start, self.end) = (0, held);
        }
        if wanted > self.buffer.len() {
            self.buffer.resize(wanted, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::OwnedFd;

    fn pieces(cut: Cut, writes: &[&[u8]]) -> Vec<Vec<u8>> {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut source = Source::new(File::from(OwnedFd::from(reader)), cut);
        let mut pieces = Vec::new();
        let mut collect = |source: &mut Source, until_end: bool| loop {
            match source.next(Span::ZERO).unwrap() {
                Piece::Bytes(range) => pieces.push(source.bytes(&range).to_vec()),
                Piece::NotYet if !until_end => break,
                Piece::NotYet => {}
                Piece::End => break,
            }
        };
        for write in writes {
            writer.write_all(write).unwrap();
            collect(&mut source, false);
        }
        drop(writer);
        collect(&mut source, true);
        pieces
    }

    #[test]
    fn streams_datagrams_and_lines() {
        assert_eq!(pieces(Cut::UpTo(4), &[b"abcdef", b"g"]), [b"abcd".to_vec(), b"ef".to_vec(), b"g".to_vec()]);
        assert_eq!(pieces(Cut::Exactly(4), &[b"abcdef", b"g"]), [b"abcd".to_vec(), b"efg".to_vec()]);
        let lines = pieces(Cut::Lines { with_end: false }, &[b"one\ntw", b"o\n\nlast"]);
        assert_eq!(lines, [b"one".to_vec(), b"two".to_vec(), b"".to_vec(), b"last".to_vec()]);
        let lines = pieces(Cut::Lines { with_end: true }, &[b"one\ntw", b"o\nlast"]);
        assert_eq!(lines, [b"one\n".to_vec(), b"two\n".to_vec(), b"last".to_vec()]);
    }

    #[test]
    fn long_lines_and_large_pieces_survive_the_edge_of_the_buffer() {
        let long = vec![b'x'; 50_000];
        let input: Vec<&[u8]> = vec![&long, b"\n", &long, b"\nend\n"];
        let lines = pieces(Cut::Lines { with_end: false }, &input);
        assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [50_000, 50_000, 3]);
        let large = pieces(Cut::Exactly(60_000), &[&long, &long, &long]);
        assert_eq!(large.iter().map(Vec::len).collect::<Vec<_>>(), [60_000, 60_000, 30_000]);
    }
}
