//! A live video: an encoder that follows the rate of [`Scream`], and a receiver that reports what arrives.
//!
//! *Law*: a frame is complete when all of its data units have arrived; its delay is the time from its capture until then.
//! *Source*: draft-ietf-ccwg-rfc8298bis-screamv2, "Status Update on Receiving Feedback" and "Receiver Requirements on
//! Feedback Intensity"; the reports are those of RFC 8888.
//! *Notes*: nothing is sent again. A report covers the last [`COVERED`] data units, so that a lost one takes nothing away.

use std::collections::VecDeque;

use tidegate_core::Ecn;
use tidegate_core::random::Stream;
use tidegate_metrics::Survival;

use super::scream::{Feedback, Marking, Scream};
use crate::packet::{SimPacket, UDP_HEADER};
use crate::workload::Media;

/// A report is due after so many data units, after the last one of a frame, and after so many ns.
const MOST_UNREPORTED: u32 = 16;
const LONGEST_SILENCE: u64 = 40_000_000;
/// The data units that a report covers.
const COVERED: usize = 128;
/// Bytes of a report beside two for each data unit: headers, and RTCP of RFC 8888 for one source.
const REPORT: u32 = UDP_HEADER + 20;
/// Frames whose data units are awaited.
const AWAITED: usize = 256;
/// A frame that waits longer in the sender, in ns, is discarded: the link is far below the least rate.
const STALE: u64 = 1_000_000_000;
const NEVER: u64 = u64::MAX;

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A data unit.
#[derive(Clone, Copy, Debug)]
struct Unit {
    size: u32,
    frame: u64,
    sent: u64,
    acknowledged: bool,
    /// When it was considered lost.
    lost: Option<u64>,
}

/// A frame on its way.
#[derive(Clone, Copy, Debug)]
struct Frame {
    captured: u64,
    missing: u32,
    counted: bool,
}

/// A report on the network: the number of its first data unit, and what became of each from there.
#[derive(Clone, Debug)]
struct Report {
    number: u32,
    first: u32,
    arrived: Vec<Option<Ecn>>,
    /// When the newest data unit arrived, and how long it waited for the report.
    newest_at: u64,
    held: u64,
}

/// The quality of a live video.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MediaQuality {
    /// Frames captured, except those of the last second that have not arrived.
    pub frames: u64,
    /// Frames that arrived completely.
    pub complete: u64,
    /// The time from capture to complete arrival, in ns. A frame that does not arrive completely is endless.
    pub delay_ns: Survival,
}

/// A datagram to send.
pub(crate) struct Outgoing {
    /// 0: from the sender, 1: from the receiver.
    pub side: usize,
    pub number: u32,
    pub size: u32,
}

/// Both ends of a live video.
pub(crate) struct Live {
    scream: Scream,
    random: Stream,
    warm_up: u64,
    // The sender.
    next_frame: u64,
    next_send: u64,
    /// Data units that wait: frame, size.
    queue: VecDeque<(u64, u32)>,
    /// Data units sent, from the number `first_unit` on.
    units: VecDeque<Unit>,
    first_unit: u32,
    in_flight: u64,
    /// The number after the highest acknowledged one.
    acknowledged: u32,
    reordering: u64,
    // The receiver.
    frames: VecDeque<Frame>,
    first_frame: u64,
    arrived: VecDeque<Option<Ecn>>,
    first_arrived: u32,
    newest_at: u64,
    unreported: u32,
    report_at: u64,
    reports: VecDeque<Report>,
    next_report: u32,
    quality: MediaQuality,
}

impl Live {
    pub fn new(media: &Media, ecn: Ecn, random: Stream, now: u64, warm_up: u64) -> Self {
        let marking = if ecn == Ecn::Ect1 { Marking::Scalable } else { Marking::Classic };
        let mss = f64::from(media.unit - UDP_HEADER);
        let rates = [media.least, media.most].map(|rate| rate.as_bps() as f64);
        Self {
            scream: Scream::new(mss, marking, rates),
            random,
            warm_up,
            next_frame: now,
            next_send: now,
            queue: VecDeque::new(),
            units: VecDeque::new(),
            first_unit: 0,
            in_flight: 0,
            acknowledged: 0,
            reordering: 0,
            frames: VecDeque::new(),
            first_frame: 0,
            arrived: VecDeque::new(),
            first_arrived: 0,
            newest_at: 0,
            unreported: 0,
            report_at: NEVER,
            reports: VecDeque::new(),
            next_report: 0,
            quality: MediaQuality::default(),
        }
    }

    /// The quality until `now`. Frames that may still arrive are not counted.
    pub fn quality(&self, now: u64) -> MediaQuality {
        let on_its_way = |frame: &&Frame| frame.counted && frame.missing > 0 && now - frame.captured < STALE;
        let waiting = self.frames.iter().filter(on_its_way).count() as u64;
        let (frames, mut delay_ns) = (self.quality.frames - waiting, self.quality.delay_ns.clone());
        delay_ns.endless = frames.saturating_sub(self.quality.complete);
        MediaQuality { frames, delay_ns, ..self.quality }
    }

    /// When [`Live::act`] is due.
    pub fn deadline(&self) -> u64 {
        let sends = !self.queue.is_empty() && self.scream.may_send(self.in_flight as f64);
        self.next_frame.min(if sends { self.next_send } else { NEVER }).min(self.report_at)
    }

    /// Captures a frame that is due, and returns the next datagram to send at `now`.
    pub fn act(&mut self, now: u64, media: &Media) -> Option<Outgoing> {
        if self.next_frame <= now {
            self.capture(now, media);
        }
        if self.report_at <= now {
            return Some(self.report(now));
        }
        if self.next_send > now || !self.scream.may_send(self.in_flight as f64) {
            return None;
        }
        let (frame, size) = self.queue.pop_front()?;
        let number = self.first_unit.wrapping_add(self.units.len() as u32);
        self.units.push_back(Unit { size, frame, sent: now, acknowledged: false, lost: None });
        self.in_flight += u64::from(size);
        let gap = f64::from(size) * 8e9 / self.scream.pace();
        self.next_send = now.saturating_add(gap as u64);
        Some(Outgoing { side: 0, number, size: size + UDP_HEADER })
    }

    /// Encodes a frame at the target rate, larger or smaller by a uniform part.
    fn capture(&mut self, now: u64, media: &Media) {
        let period = media.frame.as_nanos();
        self.next_frame = now + period;
        let captured = |frames: &VecDeque<Frame>, first: u64, frame: u64| {
            frame.checked_sub(first).and_then(|index| frames.get(index as usize)).map(|frame| frame.captured)
        };
        while let Some((frame, _)) = self.queue.front()
            && captured(&self.frames, self.first_frame, *frame).is_none_or(|at| now - at > STALE)
        {
            self.queue.pop_front();
        }
        let oldest = self.queue.front().and_then(|(frame, _)| captured(&self.frames, self.first_frame, *frame));
        let queued = oldest.map_or(0, |at| now - at);
        let part = self.random.below(2_000_001) as f64 / 1e6 - 1.0;
        let nominal = self.scream.target_bitrate() * seconds(period) / 8.0;
        let size = (nominal * (1.0 + media.variation * part)).max(1.0);
        self.scream.on_frame(size, seconds(period), seconds(queued));
        let unit = media.unit - UDP_HEADER;
        let (mut left, mut count) = (size as u32, 0);
        let number = self.first_frame + self.frames.len() as u64;
        while left > 0 {
            let bytes = left.min(unit);
            self.queue.push_back((number, bytes));
            (left, count) = (left - bytes, count + 1);
        }
        let counted = now >= self.warm_up;
        self.quality.frames += u64::from(counted);
        self.frames.push_back(Frame { captured: now, missing: count, counted });
        if self.frames.len() > AWAITED {
            self.frames.pop_front();
            self.first_frame += 1;
        }
    }

    /// Handles a datagram that arrives at the end `side`.
    pub fn receive(&mut self, now: u64, packet: &SimPacket, side: usize) {
        if side == 1 { self.on_unit(now, packet) } else { self.on_report(now, packet.segment.seq) }
    }

    fn on_unit(&mut self, now: u64, packet: &SimPacket) {
        let number = packet.segment.seq;
        let Some(index) = number.checked_sub(self.first_arrived).map(|index| index as usize) else { return };
        if index >= self.arrived.len() {
            self.arrived.resize(index + 1, None);
            self.newest_at = now;
        }
        if self.arrived[index].replace(packet.segment.ecn).is_some() {
            return;
        }
        while self.arrived.len() > COVERED {
            self.arrived.pop_front();
            self.first_arrived += 1;
        }
        self.unreported += 1;
        let last = self.frame_of(number).is_some_and(|frame| {
            frame.missing -= 1;
            frame.missing == 0
        });
        if last && let Some(frame) = self.frame_of(number).map(|frame| *frame).filter(|frame| frame.counted) {
            self.quality.complete += 1;
            self.quality.delay_ns.finish(now - frame.captured);
        }
        let due = if last || self.unreported >= MOST_UNREPORTED { now } else { now + LONGEST_SILENCE };
        self.report_at = self.report_at.min(due);
    }

    /// The frame of a data unit that has arrived.
    fn frame_of(&mut self, number: u32) -> Option<&mut Frame> {
        let frame = self.units.get(number.checked_sub(self.first_unit)? as usize)?.frame;
        self.frames.get_mut(frame.checked_sub(self.first_frame)? as usize)
    }

    fn report(&mut self, now: u64) -> Outgoing {
        let number = self.next_report;
        self.next_report += 1;
        (self.report_at, self.unreported) = (NEVER, 0);
        let arrived: Vec<_> = self.arrived.iter().copied().collect();
        let size = REPORT + 2 * arrived.len() as u32;
        let (newest_at, held) = (self.newest_at, now - self.newest_at);
        self.reports.push_back(Report { number, first: self.first_arrived, arrived, newest_at, held });
        Outgoing { side: 1, number, size }
    }

    fn on_report(&mut self, now: u64, number: u32) {
        // Reports that were overtaken or lost are superseded.
        while self.reports.front().is_some_and(|report| report.number < number) {
            self.reports.pop_front();
        }
        let Some(report) = self.reports.pop_front().filter(|report| report.number == number) else { return };
        let end = report.first + report.arrived.len() as u32;
        let mut feedback = Feedback::default();
        let Some(newest) = end.checked_sub(self.first_unit + 1).and_then(|index| self.units.get(index as usize)) else {
            return;
        };
        feedback.rtt = seconds(now - newest.sent - report.held);
        feedback.delay = seconds(report.newest_at - newest.sent);
        for (offset, arrived) in report.arrived.iter().enumerate() {
            let Some(index) = (report.first + offset as u32).checked_sub(self.first_unit) else { continue };
            let unit = &mut self.units[index as usize];
            let Some(ecn) = arrived.filter(|_| !unit.acknowledged) else { continue };
            unit.acknowledged = true;
            if let Some(lost) = unit.lost {
                self.reordering = self.reordering.max(now - lost);
            }
            feedback.units += 1.0;
            if ecn == Ecn::Ce {
                feedback.units_ce += 1.0;
                feedback.acked_ce += f64::from(unit.size);
            }
        }
        for number in self.acknowledged.max(self.first_unit)..end {
            let size = self.units[(number - self.first_unit) as usize].size;
            self.in_flight -= u64::from(size);
            feedback.acked += f64::from(size);
        }
        self.acknowledged = self.acknowledged.max(end);
        feedback.lost = self.find_losses(now, end);
        feedback.in_flight = self.in_flight as f64;
        self.scream.on_feedback(seconds(now), &feedback);
    }

    /// Considers data units lost that are older than an acknowledged one by more than the reordering that was seen.
    fn find_losses(&mut self, now: u64, end: u32) -> bool {
        let mut found = false;
        let newest = self.units[(end - 1 - self.first_unit) as usize].sent;
        let before = (end - self.first_unit) as usize;
        for unit in self.units.iter_mut().take(before).filter(|unit| !unit.acknowledged && unit.lost.is_none()) {
            if newest - unit.sent >= self.reordering {
                unit.lost = Some(now);
                found = true;
            }
        }
        // Nothing can be reported of older ones any more.
        while self.units.len() > 4 * COVERED && self.first_unit + (2 * COVERED as u32) < self.acknowledged {
            self.units.pop_front();
            self.first_unit += 1;
        }
        found
    }
}
