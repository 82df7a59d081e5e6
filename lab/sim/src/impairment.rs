//! [`Impairment`]: what boxes on a path do to the ECN field and to TCP's accurate feedback, so that fallbacks can be tried.
//!
//! *Source*: RFC 9331, section 5.1, and RFC 9768, sections 3.2.2.3 (mangled fields), 3.2.2.4 (a zeroed ACE field), 3.2.3.2.3 (options
//! that are removed), 3.2.3.2.4 (a zeroed option) and A.4 (a field that is always cleared).
//! *Notes*: the encrypted feedback of QUIC cannot be changed on the way; its ECN field can.

use tidegate_core::Ecn;

use crate::packet::{Proto, SimPacket};
use crate::tcp::{AccEcnOption, EcnBytes, Flags};

tidegate_config::choices! {
    /// How a line changes the packets that it carries.
    pub enum Fault as "ECN impairment" {
        /// The ECN field is cleared to Not-ECT, that of marked packets included.
        Bleach = "bleach",
        /// ECT(0) and ECT(1) are cleared to Not-ECT; marks remain.
        ClearEct = "clear-ect",
        /// Marks are cleared: CE becomes ECT(0), as the box does not know what the packet was.
        ClearCe = "clear-ce",
        /// AccECN options are removed.
        StripOption = "strip-option",
        /// The counters of AccECN options are set to zero.
        ZeroOption = "zero-option",
        /// The flags AE, CWR and ECE are cleared in segments without SYN: the ACE field is zero.
        ZeroAce = "zero-ace",
    }
}

/// The faults of a line, a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Impairment(u8);

impl Impairment {
    /// All of `faults`.
    pub fn of(faults: &[Fault]) -> Self {
        Self(faults.iter().fold(0, |bits, fault| bits | 1 << *fault as u8))
    }
    fn has(self, fault: Fault) -> bool {
        self.0 & 1 << fault as u8 != 0
    }

    /// Changes `packet` as the line does.
    #[inline]
    pub(crate) fn apply(self, packet: &mut SimPacket) {
        if self != Self::default() {
            self.change(packet);
        }
    }

    fn change(self, packet: &mut SimPacket) {
        let ecn = &mut packet.segment.ecn;
        if self.has(Fault::ClearCe) && *ecn == Ecn::Ce {
            *ecn = Ecn::Ect0;
        }
        if self.has(Fault::Bleach) || self.has(Fault::ClearEct) && *ecn != Ecn::Ce {
            *ecn = Ecn::NotEct;
        }
        if packet.transport != Proto::Tcp {
            return;
        }
        let segment = &mut packet.segment;
        if self.has(Fault::StripOption) {
            // The box fills its place with no-operations, so that the length remains.
            segment.accecn = None;
        }
        if self.has(Fault::ZeroOption) && segment.accecn.is_some() {
            segment.accecn = Some(AccEcnOption::new(false, 3, EcnBytes::default()));
        }
        if self.has(Fault::ZeroAce) && !segment.flags.has(Flags::SYN) {
            segment.flags = segment.flags.without(Flags::AE | Flags::CWR | Flags::ECE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Segment;

    fn changed(faults: &[Fault], segment: Segment) -> Segment {
        let mut packet = SimPacket::datagram(0, 1_500);
        (packet.transport, packet.segment) = (Proto::Tcp, segment);
        Impairment::of(faults).apply(&mut packet);
        packet.segment
    }

    #[test]
    fn each_fault_changes_its_field_alone() {
        let fields = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];
        let ecn = |faults: &[Fault]| fields.map(|ecn| changed(faults, Segment { ecn, ..Segment::default() }).ecn);
        assert_eq!(ecn(&[]), fields);
        assert_eq!(ecn(&[Fault::Bleach]), [Ecn::NotEct; 4]);
        assert_eq!(ecn(&[Fault::ClearEct]), [Ecn::NotEct, Ecn::NotEct, Ecn::NotEct, Ecn::Ce]);
        assert_eq!(ecn(&[Fault::ClearCe]), [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ect0]);
        assert_eq!(ecn(&[Fault::ClearCe, Fault::ClearEct]), [Ecn::NotEct; 4]);

        let option = AccEcnOption::new(true, 3, EcnBytes { ect0: 1, ce: 7, ect1: 9 });
        let flags = Flags::ACK | Flags::AE | Flags::ECE;
        let segment = Segment { accecn: Some(option), flags, ecn: Ecn::Ect1, ..Segment::default() };
        assert_eq!(changed(&[Fault::StripOption], segment), Segment { accecn: None, ..segment });
        let zeroed = changed(&[Fault::ZeroOption], segment);
        assert_eq!(zeroed.accecn.map(|it| (it.ect0(), it.ce(), it.ect1())), Some((Some(0), Some(0), Some(0))));
        assert_eq!(Segment { accecn: None, ..zeroed }, Segment { accecn: None, ..segment });
        assert_eq!(changed(&[Fault::ZeroOption], Segment::default()), Segment::default());
        assert_eq!(changed(&[Fault::ZeroAce], segment), Segment { flags: Flags::ACK, ..segment });
        let syn = Segment { flags: flags | Flags::SYN, ..segment };
        assert_eq!(changed(&[Fault::ZeroAce], syn), syn);
    }
}
