//! The limits of the grades, each with its source.
//!
//! A shaper delays packets at one place and in one direction. Recommendations limit the whole path, so each limit here is the
//! part that remains for one queue.

use tidegate_units::Span;

use super::Traffic;

/// Mouth-to-ear delay below which most applications are not significantly affected: ITU-T G.114 (05/2003),
/// clause 4, as texts quote it.
pub const G114_GOOD: Span = Span::from_millis(150);
/// The part of [`G114_GOOD`] that terminals take: packets of 20 ms, playout buffer and codec, ITU-T G.114, Appendix II,
/// written from memory: its text was not at hand.
pub const G114_TERMINALS: Span = Span::from_millis(80);
/// The delay of 5,000 km, a route within a continent, at 6.2 us/km with detours and equipment: ITU-T G.114, Annex A and
/// Appendix II, as little checked.
pub const G114_DISTANCE: Span = Span::from_millis(31);
/// Good for a call: the queues at the two ends of the path share equally what terminals and distance leave of
/// [`G114_GOOD`], rounded up from 19.5 ms.
pub const CALL_GOOD: Span = Span::from_millis(20);
/// Fair for a call: all that the terminals leave of [`G114_GOOD`].
pub const CALL_FAIR: Span = Span::from_millis(70);
/// Jitter that a playout buffer of one packet absorbs: the packet of 20 ms of ITU-T G.114, Appendix II.
pub const JITTER_GOOD: Span = Span::from_millis(20);
/// Delay variation of ITU-T Y.1541 (12/2011), table 1, classes 0 and 1. The text of the recommendation was not at hand; the
/// value is that of several texts that quote it.
pub const JITTER_FAIR: Span = Span::from_millis(50);
/// Losses of a video call, in a million packets: ITU-T G.1010 (11/2001), table I.1, below 1 %. The table was not at hand, and
/// no text that quotes it was found.
pub const LOSS_GOOD: u64 = 10_000;
/// Losses of conversational voice, in a million packets: the same table, below 3 %, as little checked.
pub const LOSS_FAIR: u64 = 30_000;
/// Fair for a game: the packet delay budget of real-time gaming (5QI 3), which is for the access network alone: 3GPP TS
/// 23.501, table 5.7.4-1, checked in its copy in TR 26.925.
pub const GAME_FAIR: Span = Span::from_millis(50);
/// "Good" responsiveness begins at 1,000 round trips a minute (draft-ietf-ippm-responsiveness-09, "Round-Trips per Minute
/// (RPM)", checked): a round trip of 60 ms, half of it in each direction.
pub const WEB_GOOD: Span = Span::from_millis(30);
/// "Poor" responsiveness begins at 300 round trips a minute (same section): 200 ms, half of it in each direction.
pub const WEB_FAIR: Span = Span::from_millis(100);
/// The least retransmission time-out of Linux (`TCP_RTO_MIN`), below which a delay that rises does not cause retransmissions.
pub const BULK_GOOD: Span = Span::from_millis(200);
/// The least retransmission time-out of RFC 6298, 2.4.
pub const BULK_FAIR: Span = Span::from_secs(1);

/// The limits of a kind of traffic: the greatest values of "good" and of "fair".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The wait.
    pub wait: [Span; 2],
    /// The jitter, where it matters.
    pub jitter: Option<[Span; 2]>,
    /// Losses in a million packets, where they matter. A transfer adapts to them: an AQM controls it by dropping.
    pub lost_ppm: Option<[u64; 2]>,
}

impl Limits {
    /// Returns the limits of a kind; `None` for traffic of unknown kind.
    pub const fn of(traffic: Traffic) -> Option<Self> {
        const fn live(fair: Span) -> Limits {
            Limits {
                wait: [CALL_GOOD, fair],
                jitter: Some([JITTER_GOOD, JITTER_FAIR]),
                lost_ppm: Some([LOSS_GOOD, LOSS_FAIR]),
            }
        }
        match traffic {
            Traffic::Calls => Some(live(CALL_FAIR)),
            // The stricter of both, where a game cannot be told from a call.
            Traffic::Games | Traffic::Live => Some(live(GAME_FAIR)),
            Traffic::Web => Some(Self { wait: [WEB_GOOD, WEB_FAIR], jitter: None, lost_ppm: None }),
            Traffic::Bulk => Some(Self { wait: [BULK_GOOD, BULK_FAIR], jitter: None, lost_ppm: None }),
            Traffic::Unknown => None,
        }
    }
}
