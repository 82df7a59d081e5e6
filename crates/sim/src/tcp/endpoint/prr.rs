//! Proportional rate reduction (RFC 6937, section 3.1), with the slow start reduction bound.

use super::{Endpoint, Phase};

/// The state during a recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    /// RecoverFS.
    flight_size: u64,
    delivered: u64,
    out: u64,
    /// What may be sent beyond pipe.
    send: u64,
}

impl Endpoint {
    /// Recovery begins with `flight_size` bytes outstanding.
    pub(super) fn begin_prr(&mut self, flight_size: u64) {
        self.prr = self
            .config
            .prr
            .then(|| Box::new(Prr { flight_size: flight_size.max(1), delivered: 0, out: 0, send: self.mss }));
    }

    /// An acknowledgement in recovery delivers so many bytes.
    pub(super) fn prr_on_ack(&mut self, delivered: u64) {
        let (pipe, ssthresh, mss) = (self.pipe(), self.controller.ssthresh(), self.mss);
        let Some(prr) = &mut self.prr else { return };
        prr.delivered += delivered;
        prr.send = if pipe > ssthresh {
            let part = u128::from(prr.delivered) * u128::from(ssthresh);
            (part.div_ceil(u128::from(prr.flight_size)) as u64).saturating_sub(prr.out)
        } else {
            let limit = prr.delivered.saturating_sub(prr.out).max(delivered) + mss;
            limit.min(ssthresh - pipe)
        };
    }

    /// `bytes` were sent.
    pub(super) fn prr_on_send(&mut self, bytes: u64) {
        if let Some(prr) = &mut self.prr {
            prr.out += bytes;
            prr.send = prr.send.saturating_sub(bytes);
        }
    }

    /// The window of what may be in the network: cwnd, or in fast recovery what PRR makes of it.
    pub(super) fn window(&self, pipe: u64) -> u64 {
        match (&self.prr, self.phase) {
            // Whole segments: RFC 6937 counts in them as well.
            (Some(prr), Phase::FastRecovery { .. }) => pipe + prr.send.div_ceil(self.mss) * self.mss,
            _ => self.cwnd(),
        }
    }
}
