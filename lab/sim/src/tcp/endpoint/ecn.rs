//! ECN: its negotiation, the feedback of marks, and which segments are ECN-capable. Classic (RFC 3168), packet by packet
//! (RFC 8257, section 3.2), and accurate (RFC 9768).

use tidegate_core::{Ecn, Instant};

use super::{AckPending, EcnUse, Endpoint, NEVER, Phase};
use crate::tcp::accecn::{self, Marks, Receiver, Sender};
use crate::tcp::congestion::{Algorithm, CongestionSignal, EcnFeedback};
use crate::tcp::segment::{Flags, Segment};

/// The handshake encoding of a SYN-ACK that is reserved and means accurate feedback (3.1.3).
const RESERVED: u64 = 0b101;
/// Timeouts of a SYN or of a SYN-ACK after which it is sent without flags (3.1.4.1, 3.2.3.2.2).
const FLAGS_UNTIL: u32 = 2;

/// The state of a connection with accurate feedback.
#[derive(Clone, Debug)]
pub(super) struct Accurate {
    pub receiver: Receiver,
    pub sender: Sender,
    /// Whether data is sent as ECN-capable.
    capable: bool,
    /// Whether feedback is heeded.
    heeded: bool,
    /// The ECN field in which the peer's SYN or SYN-ACK arrived.
    arrived: Ecn,
    /// A pure acknowledgement of the SYN-ACK is due, with the handshake encoding.
    acknowledges_syn_ack: bool,
    /// The next segment has all counters: the first data of a client (3.2.3.2.1).
    whole_option: bool,
    /// Whether the first feedback after the handshake was examined.
    examined: bool,
}

impl Accurate {
    fn new(arrived: Ecn) -> Box<Self> {
        Box::new(Self {
            receiver: Receiver::default(),
            sender: Sender::default(),
            capable: true,
            heeded: true,
            arrived,
            acknowledges_syn_ack: false,
            whole_option: false,
            examined: false,
        })
    }
}

impl Endpoint {
    /// The flags of the SYN or SYN-ACK that is sent now (table 2).
    pub(super) fn syn_flags(&mut self) -> Flags {
        let classic = Flags::ECE | Flags::CWR;
        if self.rcv_nxt == 0 {
            return match self.config.ecn {
                EcnUse::No => Flags::NONE,
                EcnUse::Classic => classic,
                _ if self.retries >= FLAGS_UNTIL => Flags::NONE,
                EcnUse::Accurate | EcnUse::L4s => classic | Flags::AE,
            };
        }
        let expired = self.retries >= FLAGS_UNTIL;
        match self.feedback {
            EcnFeedback::None => Flags::NONE,
            EcnFeedback::Classic => Flags::ECE,
            EcnFeedback::Accurate => match &mut self.extensions.accurate {
                Some(accurate) if expired => {
                    // A server that has sent a SYN-ACK without flags does not know the client's mode (3.1.5).
                    accurate.capable = false;
                    Flags::NONE
                }
                Some(accurate) => accecn::flags(accecn::handshake(accurate.arrived)),
                None => Flags::NONE,
            },
        }
    }

    /// Enters the mode that a SYN requests (table 2, 3.1.3).
    pub(super) fn negotiate_ecn_of_syn(&mut self, segment: &Segment) {
        let requested = accecn::ace(segment.flags);
        self.feedback = match self.config.ecn {
            // RFC 3168, 6.1.1: ECE and CWR request ECN.
            EcnUse::Classic | EcnUse::Accurate | EcnUse::L4s if requested == 0b011 => EcnFeedback::Classic,
            EcnUse::Classic if requested == 0b111 => EcnFeedback::Classic,
            EcnUse::Accurate | EcnUse::L4s if requested != 0 => EcnFeedback::Accurate,
            _ => EcnFeedback::None,
        };
        if self.feedback == EcnFeedback::Accurate {
            self.extensions.accurate = Some(Accurate::new(segment.ecn));
        }
    }

    /// Handles another SYN in SYN-RECEIVED. A server that was asked in two ways does not send ECT (3.1.5).
    pub(super) fn on_syn_again(&mut self, segment: &Segment) {
        if self.feedback != EcnFeedback::Accurate {
            return;
        }
        if let Some(accurate) = &mut self.extensions.accurate {
            accurate.arrived = segment.ecn;
            accurate.capable &= accecn::ace(segment.flags) != 0;
        }
    }

    /// Enters the mode that a SYN-ACK confirms (table 2).
    pub(super) fn negotiate_ecn_of_syn_ack(&mut self, segment: &Segment) {
        let confirmed = accecn::ace(segment.flags);
        let accurate = matches!(self.config.ecn, EcnUse::Accurate | EcnUse::L4s);
        let reflected = accecn::reflected(confirmed);
        self.feedback = match self.config.ecn {
            EcnUse::No => EcnFeedback::None,
            // RFC 3168, 6.1.1: ECE alone confirms ECN.
            _ if confirmed == 0b001 => EcnFeedback::Classic,
            EcnUse::Classic if segment.flags.has(Flags::ECE) && !segment.flags.has(Flags::CWR) => EcnFeedback::Classic,
            _ if accurate && (reflected.is_some() || confirmed == RESERVED) => EcnFeedback::Accurate,
            _ => EcnFeedback::None,
        };
        if self.feedback != EcnFeedback::Accurate {
            return;
        }
        let mut state = Accurate::new(segment.ecn);
        // The SYN was sent without a code point: another one is a path that changes the field (3.2.2.3).
        state.capable = reflected.is_none_or(|field| field == Ecn::NotEct);
        if segment.ecn == Ecn::Ce {
            state.receiver.on_marked_syn_ack();
        }
        state.sender.on_first_option(segment.accecn);
        (state.acknowledges_syn_ack, state.whole_option) = (true, true);
        self.extensions.accurate = Some(state);
    }

    /// Reads the acknowledgement of the SYN-ACK (table 4). Only a pure acknowledgement has the handshake encoding.
    pub(super) fn on_ack_of_syn_ack(&mut self, segment: &Segment) {
        if self.feedback != EcnFeedback::Accurate {
            return;
        }
        let Some(accurate) = &mut self.extensions.accurate else { return };
        accurate.sender.on_first_option(segment.accecn);
        if segment.len > 0 || segment.flags.has(Flags::FIN) || !segment.sack.as_slice().is_empty() {
            return;
        }
        match accecn::ace(segment.flags) {
            0 => (accurate.capable, accurate.heeded) = (false, false),
            encoding => match accecn::reflected(encoding) {
                Some(Ecn::NotEct) | None => {}
                Some(field) => {
                    accurate.capable = false;
                    if field == Ecn::Ce {
                        accurate.sender.on_marked_syn_ack();
                    }
                }
            },
        }
    }

    /// The code point of a data segment that is sent now. Classic ECN excludes retransmissions (RFC 3168, 6.1.5); with
    /// accurate feedback they are capable as well (draft-ietf-tcpm-generalized-ecn, section 3.2).
    pub(super) fn code_point(&self, retransmission: bool) -> Ecn {
        match self.feedback {
            EcnFeedback::None => Ecn::NotEct,
            EcnFeedback::Classic if retransmission && !self.echoes_each_mark() => Ecn::NotEct,
            EcnFeedback::Classic => Ecn::Ect0,
            EcnFeedback::Accurate if !self.extensions.accurate.as_ref().is_some_and(|state| state.capable) => {
                Ecn::NotEct
            }
            EcnFeedback::Accurate if self.config.ecn == EcnUse::L4s => Ecn::Ect1,
            EcnFeedback::Accurate => Ecn::Ect0,
        }
    }

    /// Counts the ECN field of a received segment that is not a SYN.
    pub(super) fn on_ecn_field(&mut self, segment: &Segment) {
        match self.feedback {
            EcnFeedback::None => {}
            EcnFeedback::Accurate => {
                if let Some(accurate) = &mut self.extensions.accurate
                    && accurate.receiver.on_packet(segment)
                {
                    // The acknowledgement follows when the segment itself has been processed.
                    self.segments_since_ack = 2;
                }
            }
            EcnFeedback::Classic if segment.len > 0 => {
                // RFC 3168, 6.1.3: ECN-Echo from a CE mark until the sender's CWR.
                if segment.flags.has(Flags::CWR) {
                    self.ece_pending = false;
                }
                if segment.ecn == Ecn::Ce {
                    self.ece_pending = true;
                }
                if self.echoes_each_mark() {
                    self.note_mark(segment);
                }
            }
            EcnFeedback::Classic => {}
        }
    }

    /// Reads the feedback of an acknowledgement of `newly_acked` bytes. Returns whether it reports marks.
    fn take_feedback(&mut self, segment: &Segment, newly_acked: u64) -> bool {
        let Some(accurate) = &mut self.extensions.accurate else { return false };
        let ace = accecn::ace(segment.flags);
        if newly_acked > 0 && !core::mem::replace(&mut accurate.examined, true) && ace == 0 {
            // A counter begins at five: something on the path clears the field (3.2.2.4).
            (accurate.capable, accurate.heeded) = (false, false);
            self.controller.on_ecn_feedback(EcnFeedback::None);
        }
        let marks = accurate.sender.on_ack(ace, segment.accecn, newly_acked, self.mss);
        if accurate.capable && accurate.sender.is_bleached(self.mss) {
            // Nothing that is sent from now on can be marked: a large acknowledgement, of which the ACE field alone does not exclude
            // eight marks (A.2.1), reports none.
            (accurate.capable, accurate.heeded) = (false, false);
            self.controller.on_ecn_feedback(EcnFeedback::None);
        }
        if !accurate.heeded || marks == Marks::default() {
            return false;
        }
        let counts = &mut self.extensions.ecn.counts;
        counts.capable += marks.capable;
        counts.ce += marks.ce;
        if marks.packets > 0 {
            self.counters.marks_reported += marks.packets;
        }
        marks.packets > 0
    }

    /// Lets the congestion control respond to the marks that an acknowledgement of `ack` reports.
    pub(super) fn respond_to_marks(&mut self, now: Instant, segment: &Segment, ack: u64, newly_acked: u64) {
        let echoed = match self.feedback {
            EcnFeedback::None => return,
            EcnFeedback::Classic => {
                let (acked, echoed) = (ack - self.snd_una, segment.flags.has(Flags::ECE));
                let counts = &mut self.extensions.ecn.counts;
                counts.capable += acked;
                counts.ce += if echoed { acked } else { 0 };
                echoed
            }
            EcnFeedback::Accurate => self.take_feedback(segment, newly_acked),
        };
        // Prague reads the counts themselves.
        let counted = self.feedback == EcnFeedback::Accurate && matches!(self.config.algorithm, Algorithm::Prague);
        if echoed && !counted && ack > self.extensions.ecn.recovery_point && self.phase == Phase::Open {
            // RFC 3168, 6.1.2: once for each window of data.
            self.controller.on_congestion(now, self.flight_within_cwnd(), CongestionSignal::Ecn);
            self.counters.ecn_reductions += 1;
            self.extensions.ecn.recovery_point = self.high_data;
            self.cwr_pending = self.feedback == EcnFeedback::Classic;
            self.cwnd_limited = false;
        }
    }

    /// Whether marks are echoed packet by packet.
    pub(super) fn echoes_each_mark(&self) -> bool {
        self.feedback == EcnFeedback::Classic && matches!(self.config.algorithm, Algorithm::Dctcp)
    }

    /// RFC 8257, 3.2, figure 1: when the mark changes, data before the change is acknowledged with the earlier mark,
    /// and the change is acknowledged at once.
    fn note_mark(&mut self, segment: &Segment) {
        let marked = segment.ecn == Ecn::Ce;
        if marked != self.extensions.ce_echo.marked {
            if matches!(self.ack_pending, AckPending::Until(_)) {
                self.extensions.ce_echo.before = Some((self.rcv_nxt, self.extensions.ce_echo.marked));
            }
            self.extensions.ce_echo.marked = marked;
            self.segments_since_ack = 2;
        }
    }

    /// The feedback in the flags of a segment that is sent now and is not a SYN.
    pub(super) fn feedback_flags(&mut self) -> Flags {
        if self.feedback == EcnFeedback::Accurate {
            return self.extensions.accurate.as_mut().map_or(Flags::NONE, |accurate| accurate.receiver.report());
        }
        let echoed = if self.echoes_each_mark() { self.extensions.ce_echo.marked } else { self.ece_pending };
        if echoed { Flags::ECE } else { Flags::NONE }
    }

    /// Adds the AccECN option to a segment that is about to be sent, if one is due and there is room beside two SACK
    /// blocks (3.2.3.3).
    pub(super) fn add_option(&mut self, segment: &mut Segment) {
        if self.feedback != EcnFeedback::Accurate {
            return;
        }
        let again = self.timed_at == NEVER;
        let Some(accurate) = &mut self.extensions.accurate else { return };
        let is_syn = segment.flags.has(Flags::SYN);
        if is_syn && again {
            // The first SYN-ACK may have been dropped because of the option (3.2.3.2.2).
            return;
        }
        let whole = core::mem::take(&mut accurate.whole_option) || is_syn;
        let Some(option) = accurate.receiver.option(whole) else { return };
        let mut with = Segment { accecn: Some(option), ..*segment };
        while with.option_bytes() > Segment::OPTION_BYTES && with.sack.as_slice().len() > 2 {
            with.sack.truncate(with.sack.as_slice().len() - 1);
        }
        if with.option_bytes() > Segment::OPTION_BYTES {
            accurate.receiver.not_reported();
        } else {
            *segment = with;
        }
    }

    /// Sends the acknowledgement of the SYN-ACK with the handshake encoding, before any data (3.2.2.1).
    pub(super) fn poll_ack_of_syn_ack(&mut self, now: Instant) -> Option<Segment> {
        let accurate = self.extensions.accurate.as_ref().filter(|accurate| accurate.acknowledges_syn_ack)?;
        let encoding = accecn::flags(accecn::handshake(accurate.arrived));
        let mut segment = Segment { seq: self.wire(self.snd_nxt), ..self.header(now) };
        segment.flags = Flags::ACK | encoding;
        if let Some(accurate) = &mut self.extensions.accurate {
            accurate.acknowledges_syn_ack = false;
            // The acknowledgement is not delivered reliably; the first data has the option again.
            accurate.whole_option = true;
        }
        Some(segment)
    }

    /// Acknowledges a repeated SYN-ACK.
    pub(super) fn on_syn_ack_again(&mut self) {
        if self.feedback == EcnFeedback::Accurate
            && let Some(accurate) = &mut self.extensions.accurate
        {
            accurate.acknowledges_syn_ack = true;
        }
        self.ack_pending = AckPending::Now;
    }

    /// Sends the acknowledgement of the data before a change of the mark.
    pub(super) fn poll_ack_before(&mut self, now: Instant) -> Option<Segment> {
        let (ack, marked) = self.extensions.ce_echo.before?;
        self.extensions.ce_echo.before = None;
        let pending = self.ack_pending;
        let mut segment = Segment { seq: self.wire(self.snd_nxt), ..self.header(now) };
        segment.ack = (ack as u32).wrapping_add(self.peer_isn);
        segment.flags = if marked { Flags::ACK | Flags::ECE } else { Flags::ACK };
        self.ack_pending = pending;
        Some(segment)
    }
}
