//! [`Transmissions`]: records of all segments in flight, for RACK, delivery rates and HyStart++.
//!
//! *Source*: RFC 8985, sections 5 and 6 (RACK); [`Delivery`] for delivery rates.
//! *Units*: bytes, ns.
//! *Cost*: O(1) for a segment while nothing is lost or reordered, otherwise O(window) for an acknowledgement.

use std::collections::VecDeque;

use tidegate_core::{Instant, Span};

use super::congestion::{DeliverySample, LostSegment};
use super::delivery::{Delivery, Departure};

/// The number of duplicate acknowledgements after which reordering is ruled out if none was seen (RFC 8985, 6.2, step
/// 4).
const DUP_THRESH: usize = 3;
/// The number of recoveries for which a wider reordering window persists.
const PERSIST: u32 = 16;

#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u64,
    end: u64,
    departure: Departure,
    /// Its number among all transmissions of the connection.
    order: u64,
    retransmitted: bool,
    lost: bool,
    sacked: bool,
}

impl Sent {
    /// Considers it lost, and reports it.
    fn lose(&mut self, delivery: &mut Delivery) -> LostSegment {
        self.lost = true;
        let (size, Departure { tx_in_flight, app_limited, .. }) = (self.end - self.start, self.departure);
        LostSegment {
            start: self.start,
            size,
            tx_in_flight,
            lost: delivery.on_lost(&self.departure, size),
            app_limited,
        }
    }
}

/// The segments that are not cumulatively acknowledged. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Transmissions {
    segments: VecDeque<Sent>,
    in_flight: u64,
    sacked: usize,
    retransmitted: usize,
    lost: usize,
    transmissions: u64,
    // RACK (RFC 8985, 5.2). RACK.xmit_ts is a number here: the RFC tells transmissions of one tick apart by their sequence
    // numbers, which a retransmission does not have in the order of sending.
    xmit: u64,
    rtt: Span,
    min_rtt: Span,
    fack: u64,
    reordering_seen: bool,
    reo_wnd_mult: u64,
    reo_wnd_persist: u32,
    dsack_round: Option<u64>,
    /// When a segment will be considered lost unless it is acknowledged.
    pub reorder_at: Option<Instant>,
    delivery: Delivery,
    /// Segments considered lost since the last call of [`Transmissions::take_losses`], if `reports_losses`.
    losses: Vec<LostSegment>,
    reports_losses: bool,
}

impl Default for Transmissions {
    fn default() -> Self {
        Self {
            segments: VecDeque::new(),
            in_flight: 0,
            sacked: 0,
            retransmitted: 0,
            lost: 0,
            transmissions: 0,
            xmit: 0,
            rtt: Span::ZERO,
            min_rtt: Span::MAX,
            fack: 0,
            reordering_seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            dsack_round: None,
            reorder_at: None,
            delivery: Delivery::default(),
            losses: Vec::new(),
            reports_losses: false,
        }
    }
}

impl Transmissions {
    /// Without a segment. `reports` asks for each segment that is considered lost.
    pub fn reporting(reports: bool) -> Self {
        Self { reports_losses: reports, ..Self::default() }
    }
    /// The segments that were considered lost since the last call.
    pub fn take_losses(&mut self) -> Vec<LostSegment> {
        core::mem::take(&mut self.losses)
    }
    /// Whether samples are lower bounds of the rate, because the application had no more data.
    pub fn is_limited_by_application(&self) -> bool {
        self.delivery.is_limited_by_application()
    }
    /// Bytes sent that are neither acknowledged, nor SACKed, nor considered lost.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }
    /// The RTT of the most recently sent segment that has been delivered.
    pub fn rtt(&self) -> Option<Span> {
        (!self.rtt.is_zero()).then_some(self.rtt)
    }
    /// Records that the application has no more data. Until all current data is delivered, samples are lower bounds of
    /// the rate.
    pub fn limited_by_application(&mut self) {
        self.delivery.limited_by_application(self.in_flight);
    }

    /// Records that `[start, end)` is sent.
    pub fn on_send(&mut self, now: Instant, start: u64, end: u64) {
        let departure = self.delivery.on_send(now, self.in_flight);
        self.transmissions += 1;
        let new =
            Sent { start, end, departure, order: self.transmissions, retransmitted: false, lost: false, sacked: false };
        let known = self.segments.back().map_or(0, |last| last.end);
        let first = self.segments.partition_point(|sent| sent.end <= start);
        for sent in self.segments.iter_mut().skip(first).take_while(|sent| sent.start < end) {
            if sent.sacked {
                continue;
            }
            if sent.lost {
                self.in_flight += sent.end - sent.start;
                self.lost -= 1;
            }
            self.retransmitted += usize::from(!sent.retransmitted);
            let departure = departure.with_in_flight(self.in_flight);
            *sent = Sent { start: sent.start, end: sent.end, retransmitted: true, departure, ..new };
        }
        if end > known {
            let start = start.max(known);
            self.in_flight += end - start;
            let departure = departure.with_in_flight(self.in_flight);
            self.segments.push_back(Sent { start, departure, ..new });
        }
    }

    fn deliver(&mut self, now: Instant, sent: &Sent) {
        if sent.lost {
            self.lost -= 1;
        } else {
            self.in_flight -= sent.end - sent.start;
        }
        self.retransmitted -= usize::from(sent.retransmitted);
        self.delivery.on_delivered(now, &sent.departure, sent.end - sent.start, sent.retransmitted);
        // RFC 8985, 6.2, steps 1 to 3.
        let rtt = now.since(sent.departure.at);
        if !sent.retransmitted {
            self.min_rtt = self.min_rtt.min(rtt);
        }
        // An acknowledgement that arrives too early belongs to the original transmission.
        let is_first = sent.retransmitted && rtt < self.min_rtt;
        if !is_first && sent.order >= self.xmit {
            self.xmit = sent.order;
            self.rtt = rtt;
        }
        if sent.end > self.fack {
            self.fack = sent.end;
        } else if sent.end < self.fack && !sent.retransmitted {
            self.reordering_seen = true;
        }
    }

    /// Records that all data below `una` is acknowledged.
    pub fn on_cumulative(&mut self, now: Instant, una: u64) {
        while let Some(&front) = self.segments.front()
            && front.start < una
        {
            if front.end > una {
                // Only a part of the segment is acknowledged.
                let part = Sent { end: una, ..front };
                self.retransmitted += usize::from(part.retransmitted && !part.sacked);
                self.lost += usize::from(part.lost && !part.sacked);
                if !part.sacked {
                    self.deliver(now, &part);
                }
                self.segments[0].start = una;
                break;
            }
            self.segments.pop_front();
            if front.sacked {
                self.sacked -= 1;
            } else {
                self.deliver(now, &front);
            }
        }
    }

    /// Records that `[start, end)` is SACKed.
    pub fn on_sacked(&mut self, now: Instant, start: u64, end: u64) {
        let first = self.segments.partition_point(|sent| sent.start < start);
        for at in first..self.segments.len() {
            let sent = self.segments[at];
            if sent.end > end {
                break;
            }
            if !sent.sacked {
                self.deliver(now, &sent);
                let sent = &mut self.segments[at];
                (sent.sacked, sent.lost, sent.retransmitted) = (true, false, false);
                self.sacked += 1;
            }
        }
    }

    /// Handles a D-SACK, which shows that a retransmission was unnecessary (RFC 8985, 6.2, step 4): widens the
    /// reordering window, at most once in a round trip.
    pub fn on_dsack(&mut self, una: u64, nxt: u64) {
        if self.dsack_round.is_none_or(|round| una >= round) {
            self.dsack_round = Some(nxt);
            self.reo_wnd_mult += 1;
            self.reo_wnd_persist = PERSIST;
        }
    }
    /// Handles the end of a recovery.
    pub fn on_recovered(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    fn reo_wnd(&self, in_recovery: bool, srtt: Span) -> Span {
        if !self.reordering_seen && (in_recovery || self.sacked >= DUP_THRESH) || self.min_rtt == Span::MAX {
            return Span::ZERO;
        }
        Span::from_nanos(self.min_rtt.as_nanos().saturating_mul(self.reo_wnd_mult) / 4).min(srtt)
    }

    /// Marks segments as lost that were sent long enough before one that was delivered (6.2, step 5). Returns whether
    /// there are any.
    pub fn detect_losses(&mut self, now: Instant, in_recovery: bool, srtt: Span) -> bool {
        self.reorder_at = None;
        if self.sacked == 0 && self.retransmitted == 0 && !in_recovery {
            return false;
        }
        let wait = self.rtt + self.reo_wnd(in_recovery, srtt);
        let mut found = false;
        for sent in self.segments.iter_mut().filter(|sent| !sent.sacked && !sent.lost) {
            if sent.order >= self.xmit {
                continue;
            }
            let due = sent.departure.at + wait;
            if due <= now {
                self.lost += 1;
                self.in_flight -= sent.end - sent.start;
                let lost = sent.lose(&mut self.delivery);
                if self.reports_losses {
                    self.losses.push(lost);
                }
                found = true;
            } else {
                self.reorder_at = Some(self.reorder_at.map_or(due, |at| at.max(due)));
            }
        }
        found
    }

    /// Handles the expiry of the retransmission timer (6.3): the first segment is lost, and so are those sent long
    /// enough ago.
    pub fn on_timeout(&mut self, now: Instant) {
        let wait = self.rtt + self.reo_wnd(true, Span::MAX);
        self.reorder_at = None;
        let mut first = true;
        for sent in self.segments.iter_mut().filter(|sent| !sent.sacked) {
            if !sent.lost && (core::mem::take(&mut first) || sent.departure.at + wait <= now) {
                self.lost += 1;
                self.in_flight -= sent.end - sent.start;
                let lost = sent.lose(&mut self.delivery);
                if self.reports_losses {
                    self.losses.push(lost);
                }
            }
            first = false;
        }
    }

    /// The first segment that is considered lost.
    pub fn first_lost(&self) -> Option<(u64, u64)> {
        if self.lost == 0 {
            return None;
        }
        self.segments.iter().find(|sent| sent.lost).map(|sent| (sent.start, sent.end))
    }
    /// The last segment that is not SACKed.
    pub fn last(&self) -> Option<(u64, u64)> {
        self.segments.iter().rfind(|sent| !sent.sacked).map(|sent| (sent.start, sent.end))
    }

    /// The delivery rate sample since the last call, if any data was delivered (section 3.3 of the draft).
    pub fn sample(&mut self) -> Option<DeliverySample> {
        self.delivery.sample(self.in_flight, self.min_rtt)
    }
}
