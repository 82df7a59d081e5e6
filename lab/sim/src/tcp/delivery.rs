//! [`Delivery`]: how fast a connection delivers, for TCP and for transports from outside.
//!
//! *Source*: draft-cheng-iccrg-delivery-rate-estimation-02, section 3.
//! *Units*: bytes, ns.
//! *Cost*: O(1) for a packet.

use tidegate_core::{Bytes, Instant, Rate, Span};

use super::congestion::DeliverySample;

/// The state of the connection when a packet was sent, which the sender keeps with the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// When it was sent.
    pub at: Instant,
    /// Bytes in flight after it was sent, as [`Departure::with_in_flight`] sets them.
    pub tx_in_flight: u64,
    /// Whether the application had no more data (P.is_app_limited).
    pub app_limited: bool,
    /// P.delivered, P.delivered_time and P.first_sent_time.
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Bytes considered lost before.
    lost_before: u64,
}

impl Departure {
    /// This departure with so many bytes in flight after it was sent.
    pub fn with_in_flight(self, tx_in_flight: u64) -> Self {
        Self { tx_in_flight, ..self }
    }
}

/// The delivery rate of a connection, as draft-cheng-iccrg-delivery-rate-estimation-02 derives it.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    /// C.delivered, C.delivered_time and C.first_sent_time.
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// C.app_limited: samples are lower bounds until as much is delivered.
    app_limited_until: u64,
    /// C.lost.
    lost: u64,
    /// The newest packet delivered since the last sample, and whether it was a retransmission.
    newest: Option<(Departure, bool)>,
    /// Bytes delivered since the last sample.
    newly_delivered: u64,
}

impl Delivery {
    /// A packet is sent while `in_flight` bytes are in flight.
    pub fn on_send(&mut self, now: Instant, in_flight: u64) -> Departure {
        if in_flight == 0 {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        Departure {
            at: now,
            tx_in_flight: in_flight,
            app_limited: self.app_limited_until > 0,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost_before: self.lost,
        }
    }

    /// `size` bytes of a packet are delivered.
    pub fn on_delivered(&mut self, now: Instant, packet: &Departure, size: u64, retransmitted: bool) {
        self.delivered += size;
        self.newly_delivered += size;
        self.delivered_at = now;
        if self.newest.is_none_or(|(newest, _)| packet.delivered >= newest.delivered) {
            self.newest = Some((*packet, retransmitted));
            self.first_sent_at = packet.at;
        }
    }

    /// `size` bytes of a packet are considered lost. Returns the bytes lost since it was sent, these included.
    pub fn on_lost(&mut self, packet: &Departure, size: u64) -> u64 {
        self.lost += size;
        self.lost - packet.lost_before
    }

    /// The application has no more data. Until the `in_flight` bytes are delivered, samples are lower bounds of the rate.
    pub fn limited_by_application(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }
    /// Whether samples are lower bounds of the rate, because the application had no more data.
    pub fn is_limited_by_application(&self) -> bool {
        self.app_limited_until > 0
    }
    /// Bytes delivered so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The sample since the last call, if any data was delivered (section 3.3 of the draft). `in_flight` bytes are in flight now, and
    /// `min_rtt` is the least round trip, [`Span::MAX`] if none is known.
    pub fn sample(&mut self, in_flight: u64, min_rtt: Span) -> Option<DeliverySample> {
        let (newest, retransmitted) = self.newest.take()?;
        if self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let sending = newest.at.since(newest.first_sent_at);
        let acknowledging = self.delivered_at.since(newest.delivered_at);
        let interval = sending.max(acknowledging);
        let delivered = self.delivered - newest.delivered;
        // An interval shorter than a round trip is caused by a burst of acknowledgements.
        let valid = !interval.is_zero() && (min_rtt == Span::MAX || interval >= min_rtt);
        let rate = || {
            let bits = u128::from(Bytes::new(delivered).bits()) * 1_000_000_000 / u128::from(interval.as_nanos());
            Rate::from_bps(u64::try_from(bits).unwrap_or(u64::MAX))
        };
        Some(DeliverySample {
            rate: valid.then(rate),
            delivered,
            prior_delivered: newest.delivered,
            interval,
            rtt: (!retransmitted).then(|| self.delivered_at.since(newest.at)),
            in_flight,
            app_limited: newest.app_limited,
            retransmitted,
            newly_acked: core::mem::take(&mut self.newly_delivered),
            lost: self.lost - newest.lost_before,
            tx_in_flight: newest.tx_in_flight,
        })
    }
}
