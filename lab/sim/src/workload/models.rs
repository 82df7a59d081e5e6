//! The parameters of applications.

use tidegate_core::{Bytes, Rate, Span};

use crate::applications::emodel::Codec;
use crate::distribution::Distribution;

/// Packets of drawn sizes after drawn gaps.
#[derive(Clone, PartialEq, Debug)]
pub struct Arrivals {
    /// The time from one packet to the next, in seconds.
    pub gap: Distribution,
    /// The size of a packet on the link, in bytes; what is above 65,535 is sent as that.
    pub size: Distribution,
}

/// A constant rate for a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Phase {
    /// The rate, headers included; zero for silence.
    pub rate: Rate,
    /// How long it lasts, in seconds.
    pub lasts: Distribution,
}

/// Pages of the web. The defaults are those of 3GPP2's evaluation (C.R1002-0; 3GPP TR 25.892, table A.2.2.1), which
/// follow Choi and Limb, 1999.
#[derive(Clone, PartialEq, Debug)]
pub struct Web {
    /// The size of a main object, in bytes. Default lognormal, mean 10,710, deviation 25,032.
    pub main: Distribution,
    /// The size of another object, in bytes. Default lognormal, mean 7,758, deviation 126,168.
    pub object: Distribution,
    /// Other objects on a page, to the nearest whole number. Default a Pareto distribution of shape 1.1 from 2 to 55,
    /// less 2: mean 5.64.
    pub objects: Distribution,
    /// Larger objects are cut to this. Default 2 MB.
    pub largest: Bytes,
    /// From the main object to the first request for another, in seconds. Default exponential, mean 0.13.
    pub parse: Distribution,
    /// From a page to the next, in seconds. Default exponential, mean 30.
    pub read: Distribution,
    /// The size of a request, headers of HTTP included. Default 350 B, the mean of the same model.
    pub request: Bytes,
    /// Connections at once at most. Default 6, as browsers have to one server.
    pub connections: u32,
}

impl Web {
    /// The most objects of a page beside the main one.
    pub(crate) const MOST_OBJECTS: u64 = 100_000;
}

impl Default for Web {
    fn default() -> Self {
        // The share of pages with at most `count` objects, 1 - (2 / (count + 2)) ^ 1.1; the rest has 53.
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

/// A video whose rate follows the buffer of its player. The defaults are those of Huang et al., 2014.
#[derive(Clone, PartialEq, Debug)]
pub struct Video {
    /// The rates in which it is there, rising.
    pub ladder: Vec<Rate>,
    /// The length of a segment. Default 4 s.
    pub segment: Span,
    /// The most that the player keeps. Default 240 s.
    pub buffer: Span,
    /// Up to so much in the buffer the lowest rate is requested. Default 90 s.
    pub reservoir: Span,
    /// From the reservoir to the buffer with which the highest rate is requested. Default 126 s.
    pub cushion: Span,
    /// What must be there before it plays, at the beginning and after it stood still. Default a segment.
    pub start: Span,
    /// The size of a request. Default 350 B.
    pub request: Bytes,
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
        }
    }
}

/// Speech.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// The codec: sizes, times and robustness of its packets.
    pub codec: Codec,
    /// The lengths of talk spurts and of silences, in seconds; `None` for speech without a pause.
    pub spurts: Option<(Distribution, Distribution)>,
    /// Whether both ends speak; otherwise only the flow's `from`.
    pub both_ways: bool,
    /// How long the first packet of a spurt waits before it is played. Default 60 ms.
    pub buffer: Span,
}
