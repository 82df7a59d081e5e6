//! The parameters of applications.

use tidegate_core::{Bytes, Rate, Span};

use crate::applications::emodel::Codec;
use crate::distribution::Distribution;

/// Packets with random gaps and sizes.
#[derive(Clone, PartialEq, Debug)]
pub struct Arrivals {
    /// The time from one packet to the next, in seconds.
    pub gap: Distribution,
    /// The size of a packet on the link, in bytes. Larger values are reduced to 65,535.
    pub size: Distribution,
}

/// A constant rate for a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Phase {
    /// The rate, headers included; zero for silence.
    pub rate: Rate,
    /// The length of the phase, in seconds.
    pub lasts: Distribution,
}

/// Web browsing. The defaults are those of 3GPP2's evaluation (C.R1002-0; 3GPP TR 25.892, table A.2.2.1), which follow
/// Choi and Limb, 1999.
#[derive(Clone, PartialEq, Debug)]
pub struct Web {
    /// The size of a main object, in bytes. Default lognormal, mean 10,710, deviation 25,032.
    pub main: Distribution,
    /// The size of an embedded object, in bytes. Default lognormal, mean 7,758, deviation 126,168.
    pub object: Distribution,
    /// The number of embedded objects of a page, rounded. Default a Pareto distribution of shape 1.1 from 2 to 55,
    /// minus 2: mean 5.64.
    pub objects: Distribution,
    /// The largest object; larger ones are reduced to this size. Default 2 MB.
    pub largest: Bytes,
    /// The time from the main object to the first request for an embedded one, in seconds. Default exponential, mean
    /// 0.13.
    pub parse: Distribution,
    /// The reading time between two pages, in seconds. Default exponential, mean 30.
    pub read: Distribution,
    /// The size of a request, including HTTP headers. Default 350 B, the mean of the same model.
    pub request: Bytes,
    /// The largest number of parallel connections. Default 6, as browsers open to one server.
    pub connections: u32,
}

impl Web {
    /// The largest number of embedded objects of a page.
    pub(crate) const MOST_OBJECTS: u64 = 100_000;
}

impl Default for Web {
    fn default() -> Self {
        // The share of pages with at most `count` objects is 1 - (2 / (count + 2)) ^ 1.1; the rest have 53.
        let point = |count: u32| {
            let count = f64::from(count);
            (count, 1.0 - libm::pow(2.0 / (count + 2.0), 1.1))
        };
        let objects = (0..=53).map(point).chain([(53.0, 1.0)]).collect();
        Self {
            main: Distribution::LogNormal { mean: 10_710.0, deviation: 25_032.0 },
            object: Distribution::LogNormal { mean: 7_758.0, deviation: 126_168.0 },
            objects: Distribution::Empirical(objects),
            largest: Bytes::new(2_000_000),
            parse: Distribution::Exponential { mean: 0.13 },
            read: Distribution::Exponential { mean: 30.0 },
            request: Bytes::new(350),
            connections: 6,
        }
    }
}

/// A video whose bit rate follows the buffer of its player. The defaults are those of Huang et al., 2014.
#[derive(Clone, PartialEq, Debug)]
pub struct Video {
    /// The available bit rates, rising.
    pub ladder: Vec<Rate>,
    /// The length of a segment. Default 4 s.
    pub segment: Span,
    /// The capacity of the player's buffer. Default 240 s.
    pub buffer: Span,
    /// The buffer level up to which the lowest rate is requested. Default 90 s.
    pub reservoir: Span,
    /// The distance from the reservoir to the level at which the highest rate is requested. Default 126 s.
    pub cushion: Span,
    /// The buffer level at which playback begins, initially and after a stall. Default one segment.
    pub start: Span,
    /// The size of a request. Default 350 B.
    pub request: Bytes,
    /// Whether the player asks for rate advice and follows it. Default no.
    pub follow_advice: bool,
}

impl Default for Video {
    fn default() -> Self {
        Self {
            ladder: Vec::new(),
            segment: Span::from_secs(4),
            buffer: Span::from_secs(240),
            reservoir: Span::from_secs(90),
            cushion: Span::from_secs(126),
            start: Span::from_secs(4),
            request: Bytes::new(350),
            follow_advice: false,
        }
    }
}

/// A live video of an encoder that follows the network (SCReAMv2).
#[derive(Clone, PartialEq, Debug)]
pub struct Media {
    /// The least bit rate of the encoder.
    pub least: Rate,
    /// The largest bit rate of the encoder.
    pub most: Rate,
    /// The time from one frame to the next.
    pub frame: Span,
    /// By which part frames are larger or smaller than the rate asks for, at most.
    pub variation: f64,
    /// The largest datagram, headers included.
    pub unit: u32,
}

/// A voice call.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// The codec: packet sizes, times, and robustness against loss.
    pub codec: Codec,
    /// The lengths of talk spurts and of silences, in seconds; `None` for speech without a pause.
    pub spurts: Option<(Distribution, Distribution)>,
    /// Whether both ends speak; otherwise only the flow's `from`.
    pub both_ways: bool,
    /// How long the first packet of a spurt waits before it is played. Default 60 ms.
    pub buffer: Span,
}
