//! Applications: what browsers, players, calls and games send.

use tidegate_config::Spanned;
use tidegate_core::{Bytes, Rate, Span};

use super::distribution::DistributionSection;

tidegate_config::record! {
    /// Packets of drawn sizes after drawn gaps: datagrams, or over TCP data written in such pieces.
    pub struct PacketsSection as "packets workload" {
        /// The time from one packet to the next, above zero on average.
        pub gap: Spanned<DistributionSection>,
        /// The size of a packet, headers included; above 65535 B it is cut to that.
        pub size: Spanned<DistributionSection>,
    }
}

tidegate_config::record! {
    /// Constant rates, one after the other for random times, and again from the first: several periods of activity.
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
        /// How long it lasts; drawn anew each time.
        pub lasts: Spanned<DistributionSection>,
    }
}

tidegate_config::record! {
    /// Pages of the web: a main object, after parsing the other objects over a few connections, then reading. The
    /// defaults are the HTTP model of 3GPP2 (C.R1002-0; 3GPP TR 25.892, table A.2.2.1), after Choi and Limb, "A
    /// behavioral model of Web traffic", 1999.
    pub struct WebSection as "web workload" {
        /// The size of a main object. Default lognormal, mean 10710 B, deviation 25032 B, at most 2 MB.
        pub main: Option<Spanned<DistributionSection>>,
        /// The size of another object. Default lognormal, mean 7758 B, deviation 126168 B, at most 2 MB.
        pub object: Option<Spanned<DistributionSection>>,
        /// How many other objects a page has, rounded. Default Pareto of shape 1.1 from 2 to 55, less 2: mean 5.64.
        pub objects: Option<Spanned<DistributionSection>>,
        /// Objects drawn larger are cut to this. Default 2 MB.
        pub largest: Spanned<Bytes> = "2MB",
        /// From the main object to the first request for another. Default exponential, mean 130 ms.
        pub parse: Option<Spanned<DistributionSection>>,
        /// From a loaded page to the next. Default exponential, mean 30 s.
        pub think: Option<Spanned<DistributionSection>>,
        /// The size of a request. Default 350 B.
        pub request: Spanned<Bytes> = "350B",
        /// Connections to the server at most; they persist from page to page. Default 6, as of today's browsers.
        pub connections: Spanned<u32> = 6,
    }
}

tidegate_config::record! {
    /// A video in segments, each in a rate that follows the buffer of the player: algorithm BBA-0 of Huang et al., "A
    /// buffer-based approach to rate adaptation", SIGCOMM 2014, with its settings as defaults.
    pub struct VideoSection as "video workload" {
        /// The rates in which the video is there, rising.
        pub ladder: Spanned<Vec<Rate>>,
        /// The length of a segment. Default 4 s.
        pub segment: Spanned<Span> = "4s",
        /// The most that the player keeps. Default 240 s.
        pub buffer: Spanned<Span> = "240s",
        /// Up to so much in the buffer the lowest rate is requested. Default three eighths of the buffer: 90 s of 240 s.
        pub reservoir: Option<Span>,
        /// From the reservoir up to so much more the rate rises to the highest. Default 21 fortieths of the buffer:
        /// 126 s of 240 s.
        pub cushion: Option<Span>,
        /// What must be in the buffer before it plays, at the beginning and after a stall. Default a segment.
        pub start: Option<Span>,
        /// The size of a request. Default 350 B.
        pub request: Spanned<Bytes> = "350B",
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
        /// Whether both ends speak. Default yes; otherwise only `from`.
        pub both_ways: bool = true,
        /// How long the first packet of a talk spurt waits at the receiver, so that later ones may be delayed by so
        /// much more. In a spurt without end the wait is set anew every second. Default 60 ms.
        pub buffer: Span = "60ms",
    }
}

tidegate_config::choices! {
    /// A codec of speech, with the impairment and the robustness of ITU-T G.113 appendix I.
    pub enum CodecWord as "codec" {
        /// G.711, 64 kbit/s in 200 B packets every 20 ms, what is lost is silent: Ie 0, Bpl 4.3.
        G711 = "g711",
        /// G.711 with concealment of what is lost: Ie 0, Bpl 25.1.
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
    /// Small packets in both directions. The defaults are those of a game of the first person: Faerber, "Network game
    /// traffic modelling", NetGames 2002.
    pub struct GameSection as "game workload" {
        /// From the player, `from`, to the server. Default: every 40 ms, sizes extreme of mode 80 B and scale 5.7 B.
        pub up: Option<PacketsSection>,
        /// From the server. Default: gaps extreme of mode 55 ms and scale 6 ms, sizes extreme of mode 120 B and scale
        /// 36 B.
        pub down: Option<PacketsSection>,
    }
}
