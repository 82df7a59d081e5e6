//! Sections of applications: browsers, players, calls and games.

use tidegate_config::Spanned;
use tidegate_core::{Bytes, Rate, Span};

use super::distribution::DistributionSection;

tidegate_config::record! {
    /// Packets with random gaps and sizes: datagrams, or data written to TCP in such pieces.
    pub struct PacketsSection as "packets workload" {
        /// The time from one packet to the next, above zero on average.
        pub gap: Spanned<DistributionSection>,
        /// The size of a packet, headers included. Larger values are reduced to 65535 B.
        pub size: Spanned<DistributionSection>,
    }
}

tidegate_config::record! {
    /// A cycle of phases, each with a constant rate for a random time: several periods of activity.
    pub struct PhasesSection as "phases workload" {
        /// The size of a packet, headers included. Default 1500 B.
        pub packet: Spanned<Bytes> = "1500B",
        /// The phases, in order; at least one with a rate.
        pub phases: Vec<Spanned<PhaseSection>>,
    }
}

tidegate_config::record! {
    /// A constant rate for a time.
    pub struct PhaseSection as "phase" {
        /// The rate, headers included. Default: silence.
        pub rate: Option<Spanned<Rate>>,
        /// How long the phase lasts, drawn anew each time.
        pub lasts: Spanned<DistributionSection>,
    }
}

tidegate_config::record! {
    /// Web pages: a main object, after parsing the other objects over a few connections, then reading. The defaults are
    /// the HTTP model of 3GPP2 (C.R1002-0; 3GPP TR 25.892, table A.2.2.1), after Choi and Limb, "A behavioral model of
    /// Web traffic", 1999.
    pub struct WebSection as "web workload" {
        /// The size of a main object. Default lognormal, mean 10710 B, deviation 25032 B, at most 2 MB.
        pub main: Option<Spanned<DistributionSection>>,
        /// The size of another object. Default lognormal, mean 7758 B, deviation 126168 B, at most 2 MB.
        pub object: Option<Spanned<DistributionSection>>,
        /// The number of other objects of a page, rounded. Default Pareto of shape 1.1 from 2 to 55, minus 2: mean
        /// 5.64.
        pub objects: Option<Spanned<DistributionSection>>,
        /// The largest object; larger ones are reduced to this size. Default 2 MB.
        pub largest: Spanned<Bytes> = "2MB",
        /// The time from the main object to the first request for another. Default exponential, mean 130 ms.
        pub parse: Option<Spanned<DistributionSection>>,
        /// The time from a loaded page to the next. Default exponential, mean 30 s.
        pub think: Option<Spanned<DistributionSection>>,
        /// The size of a request. Default 350 B.
        pub request: Spanned<Bytes> = "350B",
        /// The largest number of connections to the server, which persist from page to page. Default 6, as in today's
        /// browsers.
        pub connections: Spanned<u32> = 6,
    }
}

tidegate_config::record! {
    /// A video in segments, each at a bit rate that follows the buffer of the player: algorithm BBA-0 of Huang et al.,
    /// "A buffer-based approach to rate adaptation", SIGCOMM 2014, with its settings as defaults.
    pub struct VideoSection as "video workload" {
        /// The available bit rates, rising.
        pub ladder: Spanned<Vec<Rate>>,
        /// The length of a segment. Default 4 s.
        pub segment: Spanned<Span> = "4s",
        /// The capacity of the player's buffer. Default 240 s.
        pub buffer: Spanned<Span> = "240s",
        /// The buffer level up to which the lowest rate is requested. Default three eighths of the buffer: 90 s of 240
        /// s.
        pub reservoir: Option<Span>,
        /// The distance above the reservoir over which the rate rises to the highest. Default 21 fortieths of the
        /// buffer: 126 s of 240 s.
        pub cushion: Option<Span>,
        /// The buffer level at which playback begins, initially and after a stall. Default one segment.
        pub start: Option<Span>,
        /// The size of a request. Default 350 B.
        pub request: Spanned<Bytes> = "350B",
        /// Whether the player asks for rate advice, as an endpoint of QUIC does with SCONE packets, and requests the highest
        /// rate that is not above the lowest advice of the last 67 s; without advice it follows its buffer. Default no. A
        /// class of a shaper file on the path advises by its `advice`.
        pub follow_advice: bool = false,
    }
}

tidegate_config::record! {
    /// Speech in packets, rated by the E-model (ITU-T G.107) from what arrives in time to be played.
    pub struct CallSection as "call workload" {
        /// The codec, which determines the cost of loss in the E-model (ITU-T G.113 appendix I). Default g711-plc.
        pub codec: CodecWord = "g711-plc",
        /// The length of a talk spurt; with `silence`. Default: speech without a pause. ITU-T P.59 has exponential times
        /// with means of 1.004 s and 1.587 s.
        pub talk: Option<Spanned<DistributionSection>>,
        /// The length of a silence; with `talk`.
        pub silence: Option<Spanned<DistributionSection>>,
        /// Whether both ends speak. Otherwise only `from` does. Default yes.
        pub both_ways: bool = true,
        /// How long the first packet of a talk spurt waits at the receiver, so that later packets may be delayed by
        /// this much more. In an endless spurt the wait is recomputed every second. Default 60 ms.
        pub buffer: Span = "60ms",
    }
}

tidegate_config::record! {
    /// A live video whose encoder follows the network by SCReAMv2 (draft-ietf-ccwg-rfc8298bis-screamv2). With the flow's
    /// `ecn = "l4s"` it responds to marks in proportion, with `ecn = true` as to classic ECN.
    pub struct MediaSection as "media workload" {
        /// The largest bit rate of the encoder.
        pub most: Spanned<Rate>,
        /// The least bit rate of the encoder. Default 200 kbit/s.
        pub least: Spanned<Rate> = "200kbit",
        /// The time from one frame to the next. Default 20 ms, as in the draft.
        pub frame: Spanned<Span> = "20ms",
        /// By which part frames are larger or smaller than the rate asks for, at most. Default 0.2.
        pub variation: Spanned<f64> = 0.2,
        /// The largest datagram, headers included. Default 1228 B: 1200 B of data.
        pub unit: Spanned<Bytes> = "1228B",
    }
}

tidegate_config::choices! {
    /// A speech codec, with the impairment and robustness of ITU-T G.113 appendix I.
    pub enum CodecWord as "codec" {
        /// G.711, 64 kbit/s in 200 B packets every 20 ms, silent when packets are lost: Ie 0, Bpl 4.3.
        G711 = "g711",
        /// G.711 with packet loss concealment: Ie 0, Bpl 25.1.
        G711Plc = "g711-plc",
        /// G.729A, 8 kbit/s in 60 B packets every 20 ms: Ie 11, Bpl 19.
        G729a = "g729a",
        /// G.723.1, 6.3 kbit/s in 64 B packets every 30 ms: Ie 15, Bpl 16.1.
        G723 = "g723.1",
        /// GSM enhanced full rate, 12.2 kbit/s in 71 B packets every 20 ms: Ie 5, Bpl 10.
        GsmEfr = "gsm-efr",
    }
}

tidegate_config::record! {
    /// Small packets in both directions. The defaults are those of a first-person game: Faerber, "Network game traffic
    /// modelling", NetGames 2002.
    pub struct GameSection as "game workload" {
        /// The packets from the player, `from`, to the server. Default: every 40 ms, sizes extreme of mode 80 B and
        /// scale 5.7 B.
        pub up: Option<PacketsSection>,
        /// The packets from the server. Default: gaps extreme of mode 55 ms and scale 6 ms, sizes extreme of mode 120 B
        /// and scale 36 B.
        pub down: Option<PacketsSection>,
    }
}
