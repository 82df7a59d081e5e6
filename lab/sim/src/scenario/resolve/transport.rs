//! Resolves the transport of flows and TCP's settings.

use std::sync::Arc;

use tidegate_core::Ecn;

use super::Resolver;
use crate::scenario::file::{FlowSection, RecoveryWord, TcpSection, TransportWord};
use crate::scenario::transport::FlowTransport;
use crate::tcp::{Algorithm, Config, EcnUse, Recovery, RtoBounds};
use crate::workload::{Needs, Transport, Workload};

impl Resolver<'_> {
    pub(super) fn transport(&mut self, flow: &FlowSection, workload: &Workload) -> Option<Transport> {
        let needs = workload.needs();
        let usual = match needs {
            Needs::Datagrams => TransportWord::Udp,
            _ if workload.usually_datagrams() && flow.tcp.is_none() => TransportWord::Udp,
            _ => TransportWord::Tcp,
        };
        let transport = flow.transport.unwrap_or(FlowTransport::Own(usual));
        let place = flow.workload.place;
        match (transport, needs) {
            (FlowTransport::Own(TransportWord::Udp), Needs::Connections) => {
                let help = "leave transport out, or use a workload of packets: constant, poisson, on-off, packets, phases, trace";
                self.error(place, "this workload needs TCP", "not over datagrams", help);
                return None;
            }
            (FlowTransport::Own(TransportWord::Tcp) | FlowTransport::Other(_), Needs::Datagrams) => {
                let help = "leave transport out, or use a workload of one direction";
                self.error(place, "this workload needs datagrams", "not over a connection", help);
                return None;
            }
            _ => {}
        }
        if let (Some(tcp), FlowTransport::Other(_) | FlowTransport::Own(TransportWord::Udp)) = (&flow.tcp, transport) {
            self.error(tcp.place, "settings of TCP for another transport", "not over TCP", "take one of them out");
        }
        match transport {
            FlowTransport::Other(protocol) => {
                Some(Transport::Other { protocol, ecn: flow.ecn.map(|word| word.value.0) })
            }
            FlowTransport::Own(TransportWord::Udp) => self.code_point(flow).map(|ecn| Transport::Udp { ecn }),
            FlowTransport::Own(TransportWord::Tcp) => {
                let ecn = flow.ecn.map(|word| word.value.0);
                let Some(tcp) = &flow.tcp else {
                    let ecn = ecn.unwrap_or_default();
                    return Some(Transport::Tcp(Arc::new(Config { ecn, ..Config::default() })));
                };
                let section = &tcp.value.0;
                let config = self.tcp(section)?;
                // Prague is for L4S, unless the file says otherwise.
                let usual = if matches!(config.algorithm, Algorithm::Prague) { EcnUse::L4s } else { EcnUse::No };
                let ecn = section.ecn.map(|word| word.0).or(ecn).unwrap_or(usual);
                Some(Transport::Tcp(Arc::new(Config { ecn, ..config })))
            }
        }
    }

    /// The code point of datagrams.
    fn code_point(&mut self, flow: &FlowSection) -> Option<Ecn> {
        let Some(word) = flow.ecn else { return Some(Ecn::NotEct) };
        match word.value.0 {
            EcnUse::No => Some(Ecn::NotEct),
            EcnUse::Classic => Some(Ecn::Ect0),
            EcnUse::L4s => Some(Ecn::Ect1),
            EcnUse::Accurate => {
                let help = "write true for ECT(0), or \"l4s\" for ECT(1)";
                self.error(word.place, "accurate feedback of datagrams", "datagrams have no feedback", help);
                None
            }
        }
    }

    pub(super) fn tcp(&mut self, tcp: &TcpSection) -> Option<Config> {
        self.positive(&tcp.mss, "a segment", "\"1460B\"");
        self.positive(&tcp.window, "a window", "\"64KiB\"");
        self.positive(&tcp.initial_window, "an initial window", "10");
        let by_time = matches!(tcp.congestion.algorithm(), Algorithm::Prague | Algorithm::Bbr);
        if by_time && matches!(tcp.recovery.value, RecoveryWord::Reno | RecoveryWord::NewReno) {
            let help = "leave recovery out";
            self.error(tcp.recovery.place, "this congestion control needs SACK", "without SACK", help);
            return None;
        }
        let Ok(mss) = u16::try_from(tcp.mss.value.as_u64()) else {
            self.error(tcp.mss.place, "a segment of more than 65535 B", "too large", "write for example \"1460B\"");
            return None;
        };
        Some(Config {
            mss,
            vintage: tcp.refinements,
            recovery: match tcp.recovery.value {
                RecoveryWord::Reno => Recovery::Reno,
                RecoveryWord::NewReno => Recovery::NewReno,
                RecoveryWord::Sack | RecoveryWord::Rack => Recovery::Sack,
            },
            algorithm: tcp.congestion.algorithm(),
            initial_window: tcp.initial_window.value,
            receive_buffer: tcp.window.value.as_u64(),
            delayed_ack: (!tcp.delayed_ack.is_zero()).then_some(tcp.delayed_ack),
            rto: RtoBounds { min: tcp.min_rto, granularity: tcp.rto_margin, ..RtoBounds::default() },
            growth: tcp.growth,
            rack_tlp: matches!(tcp.recovery.value, RecoveryWord::Rack),
            prr: tcp.prr,
            timestamps: tcp.timestamps,
            d_sack: tcp.d_sack,
            hystart: tcp.hystart,
            follow_advice: tcp.follow_advice,
            ..Config::default()
        })
    }
}
