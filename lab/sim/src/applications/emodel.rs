//! The E-model: from delay and loss to a listener's rating of a call.
//!
//! *Source*: ITU-T G.107 (12/2011), sections 7.2 to 7.5 and annex B, with the default values of its table 2 but for the
//! delay (both absolute delays and the delay of the echo's path are the same), the codec and the loss; ITU-T G.113
//! appendix I for the codecs.
//! *Units*: delays in milliseconds inside the formulas; ratings from 0 to 93.2, opinions from 1 to 4.5.
//! *Notes*: losses are assumed to be independent (BurstR of 1). At every end an echo of 65 dB (TELR) is heard, so delay
//! has a cost even below the 100 ms from which it disturbs the conversation itself.

use tidegate_core::Span;

/// A speech codec.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Codec {
    /// Its name in scenarios.
    pub name: &'static str,
    /// The duration of the speech in a packet.
    pub interval: Span,
    /// The look-ahead: how much of the following speech the encoder needs.
    pub look_ahead: Span,
    /// Bytes of a packet on the link: speech, RTP, UDP and IPv4.
    pub packet: u32,
    /// The impairment of the equipment, Ie.
    pub impairment: f64,
    /// Its robustness against loss, Bpl, in percent.
    pub robustness: f64,
}

/// Bytes of the headers of RTP, UDP and IPv4.
const HEADERS: u32 = 40;

const fn codec(name: &'static str, times: [u64; 2], speech: u32, impairment: f64, robustness: f64) -> Codec {
    let [interval, look_ahead] = [Span::from_micros(times[0]), Span::from_micros(times[1])];
    Codec { name, interval, look_ahead, packet: speech + HEADERS, impairment, robustness }
}

impl Codec {
    /// The codecs of G.113 appendix I, tables I.1 and I.3, with packets of 20 ms (G.723.1: 30 ms).
    pub const ALL: [Self; 5] = [
        codec("g711", [20_000, 0], 160, 0.0, 4.3),
        codec("g711-plc", [20_000, 0], 160, 0.0, 25.1),
        codec("g729a", [20_000, 5_000], 20, 11.0, 19.0),
        codec("g723.1", [30_000, 7_500], 24, 15.0, 16.1),
        codec("gsm-efr", [20_000, 0], 31, 5.0, 10.0),
    ];
}

/// The signal-to-noise ratio Ro and the simultaneous impairment Is for the default values (G.107, 7.2 and 7.3).
const RO: f64 = 94.7688;
const IS: f64 = 1.4136;
/// The talker's echo, TELR, and the listener's, WEPL, in dB; the receive loudness rating, RLR; and all noise, No.
const TELR: f64 = 65.0;
const WEPL: f64 = 110.0;
const RLR: f64 = 2.0;
const NO: f64 = -61.1792;

/// The transmission rating R of a call with a mouth-to-ear delay of `delay`, of which a share of `loss` is not played
/// (G.107, 7.1).
pub fn rating(codec: &Codec, delay: Span, loss: f64) -> f64 {
    (RO - IS - delay_impairment(delay) - equipment_impairment(codec, loss)).max(0.0)
}

/// The impairment by loss and the codec, Ie-eff (7.5).
fn equipment_impairment(codec: &Codec, loss: f64) -> f64 {
    let percent = loss.clamp(0.0, 1.0) * 100.0;
    codec.impairment + (95.0 - codec.impairment) * percent / (percent + codec.robustness)
}

/// The impairment by delay, Id: the talker's echo, the listener's echo, and delay itself (7.4).
fn delay_impairment(delay: Span) -> f64 {
    let ms = delay.as_secs_f64() * 1e3;
    let log10 = |x: f64| libm::log10(x);
    let terv = TELR - 40.0 * log10((1.0 + ms / 10.0) / (1.0 + ms / 150.0)) + 6.0 * libm::exp(-0.3 * ms * ms);
    let half = (-1.5 * (NO - RLR) - (80.0 + 2.5 * (terv - 14.0))) / 2.0;
    let talker = (half + (half * half + 100.0).sqrt() - 1.0) * (1.0 - libm::exp(-ms));
    let half = (RO - 10.5 * (WEPL + 7.0) * libm::pow(2.0 * ms + 1.0, -0.25)) / 2.0;
    let listener = half + (half * half + 169.0).sqrt();
    let absolute = if ms <= 100.0 {
        0.0
    } else {
        let x = log10(ms / 100.0) / log10(2.0);
        let root = |base: f64| libm::pow(1.0 + libm::pow(base, 6.0), 1.0 / 6.0);
        25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
    };
    talker + listener + absolute
}

/// The mean opinion score of a rating (annex B).
pub fn opinion(rating: f64) -> f64 {
    match rating {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        r => (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, expected: f64, by: f64, what: &str) {
        assert!((got - expected).abs() <= by, "{what}: {got}, not {expected}");
    }

    #[test]
    fn opinions_and_ratings_are_the_published_ones() {
        // G.107, table B.1.
        for (r, mos) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            close(opinion(r), mos, 0.0075, "MOS");
        }
        let [plain, ..] = Codec::ALL;
        // The rating of all default values, 93.2, and its opinion, 4.41.
        close(rating(&plain, Span::ZERO, 0.0), 93.2, 0.05, "default");
        close(opinion(rating(&plain, Span::ZERO, 0.0)), 4.41, 0.01, "default opinion");
        // Of equipment alone: Ie-eff of G.729A at 2 % is 11 + 84 * 2 / 21 = 19.
        close(equipment_impairment(&Codec::ALL[2], 0.02), 19.0, 1e-9, "Ie-eff");
    }

    #[test]
    fn delay_costs_what_was_fitted_to_the_model() {
        // Cole and Rosenbluth, "Voice over IP performance monitoring", 2001: 0.024 d + 0.11 (d - 177.3) above 177.3 ms,
        // fitted to the model with its defaults, below 400 ms.
        let zero = delay_impairment(Span::ZERO);
        for ms in (0..400).step_by(25) {
            let d = ms as f64;
            let fitted = 0.024 * d + 0.11 * (d - 177.3).max(0.0);
            close(delay_impairment(Span::from_millis(ms)) - zero, fitted, 2.5, &format!("{ms} ms"));
        }
    }
}
