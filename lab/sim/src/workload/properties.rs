//! Properties of workloads that the rest of the simulator needs, each defined for all kinds in one place.

use tidegate_core::{Bytes, Rate};

use super::{Arrivals, Direction, FlowSpec, Transport, Workload};
use crate::packet::TCP_HEADER;

/// The transports over which a workload can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    Connections,
    Datagrams,
    Either,
}

impl Workload {
    /// The transport that the workload needs.
    pub(crate) fn needs(&self) -> Needs {
        match self {
            Self::Bulk { .. }
            | Self::Transfer { .. }
            | Self::Mice { .. }
            | Self::Requests { .. }
            | Self::Web(_)
            | Self::Video(_) => Needs::Connections,
            Self::Call(_) | Self::Media(_) => Needs::Datagrams,
            Self::Packets { directions } if directions[1].is_some() => Needs::Datagrams,
            Self::Constant { .. }
            | Self::Poisson { .. }
            | Self::OnOff { .. }
            | Self::Packets { .. }
            | Self::Phases { .. }
            | Self::Trace(_) => Needs::Either,
        }
    }

    /// Whether the workload uses datagrams unless TCP is requested, as packet patterns do.
    pub(crate) fn usually_datagrams(&self) -> bool {
        match self.needs() {
            Needs::Connections => false,
            Needs::Datagrams => true,
            Needs::Either => !matches!(self, Self::Trace(_)),
        }
    }

    /// Whether the workload sends datagrams in both directions.
    pub(crate) fn both_ways(&self) -> bool {
        match self {
            Self::Call(call) => call.both_ways,
            Self::Media(_) => true,
            Self::Packets { directions } => directions[1].is_some(),
            _ => false,
        }
    }

    /// Whether the workload opens several connections, in sequence or in parallel.
    pub(crate) fn many_connections(&self) -> bool {
        matches!(self, Self::Mice { .. } | Self::Trace(_) | Self::Web(_))
    }

    /// The direction of most of its bytes: forward (0) or reverse (1).
    pub(crate) fn data_side(&self) -> usize {
        match self {
            Self::Mice { direction: Direction::Download { .. }, .. }
            | Self::Requests { .. }
            | Self::Web(_)
            | Self::Video(_) => 1,
            Self::Packets { directions: [None, Some(_)] } => 1,
            _ => 0,
        }
    }

    /// Whether the data carries places for rate advice.
    pub(crate) fn asks_for_advice(&self) -> bool {
        matches!(self, Self::Video(video) if video.follow_advice)
    }

    /// The mean offered rate in a direction, in bit/s, that does not depend on congestion; 0 for a workload that waits
    /// for acknowledgements.
    pub(crate) fn offered(&self, transport: &Transport, side: usize) -> f64 {
        let datagrams = matches!(transport, Transport::Udp { .. });
        let bits = |rate: &Rate| rate.as_bps() as f64;
        match self {
            Self::Mice { interval, size, .. } if side == self.data_side() => size.mean() * 8.0 / interval.mean(),
            _ if !datagrams => 0.0,
            Self::Packets { directions } => directions[side].as_ref().map_or(0.0, Arrivals::mean_rate),
            Self::Call(call) if side == 0 || call.both_ways => {
                let rate = f64::from(call.codec.packet) * 8.0 / call.codec.interval.as_secs_f64();
                call.spurts.as_ref().map_or(rate, |(talk, rest)| rate * talk.mean() / (talk.mean() + rest.mean()))
            }
            _ if side == 1 => 0.0,
            Self::Constant { rate, .. } | Self::Poisson { rate, .. } => bits(rate),
            Self::OnOff { rate, on, off, .. } => bits(rate) * on.mean() / (on.mean() + off.mean()),
            Self::Phases { phases, .. } => {
                let time: f64 = phases.iter().map(|phase| phase.lasts.mean()).sum();
                phases.iter().map(|phase| bits(&phase.rate) * phase.lasts.mean()).sum::<f64>() / time
            }
            _ => 0.0,
        }
    }
}

impl Arrivals {
    /// The mean rate in bit/s.
    pub(crate) fn mean_rate(&self) -> f64 {
        self.size.mean() * 8.0 / self.gap.mean()
    }
}

impl FlowSpec {
    /// The size of the largest packet on the link, in bytes.
    pub(crate) fn largest_packet(&self) -> u32 {
        let of_transport = match &self.transport {
            Transport::Tcp(config) => return u32::from(config.mss) + TCP_HEADER,
            Transport::Other { protocol, .. } => return protocol.largest_packet(),
            Transport::Udp { .. } => 1500,
        };
        match &*self.workload {
            Workload::Constant { packet, .. }
            | Workload::Poisson { packet, .. }
            | Workload::OnOff { packet, .. }
            | Workload::Phases { packet, .. } => packet.as_u64() as u32,
            Workload::Packets { directions } => {
                // Few packets are much larger than the mean.
                let means = directions.iter().flatten().map(|way| way.size.mean().min(65_535.0) as u32);
                means.max().unwrap_or(of_transport)
            }
            Workload::Call(call) => call.codec.packet,
            Workload::Media(media) => media.unit,
            Workload::Trace(entries) => {
                entries.iter().map(|entry| entry.1.as_u64().min(65_535) as u32).max().unwrap_or(of_transport)
            }
            _ => of_transport,
        }
    }

    /// Whether the flow can replace `before` in a running network, which requires that it needs no path that `before`
    /// does not have.
    pub(crate) fn replaces(&self, before: &Self) -> bool {
        before.workload.both_ways() || !self.workload.both_ways() || before.transport.has_connections()
    }

    /// Checks the specification; the error is a short text.
    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        match (self.workload.needs(), &self.transport) {
            (Needs::Connections, Transport::Udp { .. }) => {
                return Err("this workload needs TCP or another transport with connections");
            }
            (Needs::Datagrams, Transport::Tcp(_) | Transport::Other { .. }) => {
                return Err("this workload needs datagrams");
            }
            _ => {}
        }
        match &*self.workload {
            Workload::Bulk { bytes: Some(bytes) } if *bytes == Bytes::ZERO => Err("a transfer of no bytes"),
            Workload::Constant { rate, packet } | Workload::Poisson { rate, packet } => pace(*rate, *packet),
            Workload::OnOff { rate, packet, on, off } => {
                pace(*rate, *packet)?;
                on.validate()?;
                off.validate()?;
                if on.mean() + off.mean() > 0.0 { Ok(()) } else { Err("on and off must not both be zero") }
            }
            Workload::Mice { interval, size, most_open, .. } => {
                interval.validate()?;
                size.validate()?;
                if *most_open == 0 {
                    return Err("most_open must be above zero");
                }
                if interval.mean() > 0.0 { Ok(()) } else { Err("interval must be above zero") }
            }
            Workload::Requests { request, response, think } => {
                request.validate()?;
                response.validate()?;
                think.validate()
            }
            Workload::Packets { directions } => directions.iter().flatten().try_for_each(|way| {
                way.size.validate()?;
                way.gap.validate()?;
                if way.gap.mean() > 0.0 { Ok(()) } else { Err("gap must be above zero") }
            }),
            Workload::Phases { packet, phases } => {
                phases.iter().try_for_each(|phase| phase.lasts.validate())?;
                let fastest = phases.iter().map(|phase| phase.rate).max().unwrap_or(Rate::ZERO);
                pace(fastest, *packet)?;
                let sum: f64 = phases.iter().map(|phase| phase.lasts.mean()).sum();
                if sum > 0.0 { Ok(()) } else { Err("phases must last longer than zero") }
            }
            Workload::Web(web) => {
                let all = [&web.main, &web.object, &web.objects, &web.parse, &web.read];
                all.into_iter().try_for_each(|distribution| distribution.validate())?;
                if web.connections == 0 { Err("connections must be above zero") } else { Ok(()) }
            }
            Workload::Video(video) => {
                let rising = video.ladder.windows(2).all(|pair| pair[0] < pair[1]);
                if video.ladder.is_empty() || video.ladder[0].is_zero() || !rising {
                    Err("ladder must have rates above zero, rising")
                } else if video.segment.is_zero() {
                    Err("segment must be above zero")
                } else if video.reservoir + video.cushion > video.buffer || video.cushion.is_zero() {
                    Err("buffer must be at least reservoir and cushion, and cushion above zero")
                } else if video.start + video.segment > video.buffer {
                    Err("buffer must be at least start and a segment")
                } else {
                    Ok(())
                }
            }
            Workload::Call(call) => match &call.spurts {
                Some((talk, silence)) => {
                    talk.validate()?;
                    silence.validate()
                }
                None => Ok(()),
            },
            Workload::Media(media) => {
                if media.least.is_zero() || media.least > media.most {
                    Err("least must be above zero and at most most")
                } else if media.frame.is_zero() {
                    Err("frame must be above zero")
                } else if !(0.0..=1.0).contains(&media.variation) {
                    Err("variation must be between 0 and 1")
                } else if !(100..=65_535).contains(&media.unit) {
                    Err("unit must be between 100 B and 65535 B")
                } else {
                    Ok(())
                }
            }
            Workload::Trace(entries) => {
                if entries.windows(2).all(|pair| pair[0].0 <= pair[1].0) {
                    Ok(())
                } else {
                    Err("the times of a trace must not fall")
                }
            }
            Workload::Transfer { size } => size.validate(),
            Workload::Bulk { .. } => Ok(()),
        }
    }
}

fn pace(rate: Rate, packet: Bytes) -> Result<(), &'static str> {
    if rate.is_zero() {
        Err("rate must be above zero")
    } else if packet == Bytes::ZERO || packet.as_u64() > 65_535 {
        Err("packet must be between 1 B and 65535 B")
    } else {
        Ok(())
    }
}
