//! Proportional rate reduction (RFC 6937, section 3.1), with the slow start reduction bound.

/// The state during a recovery, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Prr {
    /// RecoverFS.
    flight_size: u64,
    delivered: u64,
    out: u64,
    /// How many bytes may be sent in addition to pipe.
    send: u64,
}

impl Prr {
    /// Recovery begins with `flight_size` bytes outstanding.
    pub fn new(flight_size: u64, mss: u64) -> Self {
        Self { flight_size: flight_size.max(1), delivered: 0, out: 0, send: mss }
    }

    /// Handles an acknowledgement during recovery that delivers `delivered` bytes.
    pub fn on_ack(&mut self, delivered: u64, pipe: u64, ssthresh: u64, mss: u64) {
        self.delivered += delivered;
        self.send = if pipe > ssthresh {
            let part = u128::from(self.delivered) * u128::from(ssthresh);
            (part.div_ceil(u128::from(self.flight_size)) as u64).saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(delivered) + mss;
            limit.min(ssthresh - pipe)
        };
    }

    /// Records that `bytes` were sent.
    pub fn on_send(&mut self, bytes: u64) {
        self.out += bytes;
        self.send = self.send.saturating_sub(bytes);
    }

    /// The window, rounded up to whole segments, in which RFC 6937 counts as well.
    pub fn window(&self, pipe: u64, mss: u64) -> u64 {
        pipe + self.send.div_ceil(mss) * mss
    }
}
