//! Resolves the workloads of browsers, players, calls and games.

use tidegate_config::{Place, Spanned};
use tidegate_core::{Rate, Span};

use super::Resolver;
use super::distributions::Quantity;
use crate::applications::emodel::Codec;
use crate::distribution::Distribution;
use crate::scenario::file::{
    CallSection, DistributionSection, GameSection, MediaSection, PacketsSection, PhasesSection, VideoSection,
    WebSection,
};
use crate::workload::{Arrivals, Call, Media, Phase, Video, Web, Workload};

impl Resolver<'_> {
    pub(super) fn packets(&mut self, section: &PacketsSection) -> Option<Arrivals> {
        let gap = self.distribution(&section.gap, Quantity::Time)?;
        let size = self.distribution(&section.size, Quantity::Size)?;
        self.lasting(section.gap.place, gap.mean(), "a gap", "10ms")?;
        self.arrives(section.gap.place, 1.0 / gap.mean(), "packets").then_some(Arrivals { gap, size })
    }

    pub(super) fn phases(&mut self, section: &PhasesSection, place: Place) -> Option<Workload> {
        let (mut phases, mut time, mut sends) = (Vec::new(), 0.0, false);
        for Spanned { value: phase, .. } in &section.phases {
            let rate = match &phase.rate {
                Some(rate) => self.pace(rate, &section.packet)?.0,
                None => Rate::ZERO,
            };
            let lasts = self.distribution(&phase.lasts, Quantity::Time)?;
            time += lasts.mean();
            sends |= !rate.is_zero();
            phases.push(Phase { rate, lasts });
        }
        if !sends {
            let help =
                "write for example phases = [{ rate = \"1mbit\", lasts = { kind = \"constant\", value = \"1s\" } }]";
            self.error(place, "no phase has a rate", "nothing is sent", help);
            return None;
        }
        self.lasting(place, time, "the sum of all phases", "1s")?;
        let changes = phases.len() as f64 / time;
        self.arrives(place, changes, "phases").then_some(Workload::Phases { packet: section.packet.value, phases })
    }

    pub(super) fn web(&mut self, section: &WebSection) -> Option<Web> {
        let mut drawn = |given: &Option<Spanned<DistributionSection>>, kind, usual: Distribution| match given {
            Some(section) => self.distribution(section, kind),
            None => Some(usual),
        };
        let usual = Web::default();
        let web = Web {
            main: drawn(&section.main, Quantity::Size, usual.main)?,
            object: drawn(&section.object, Quantity::Size, usual.object)?,
            objects: drawn(&section.objects, Quantity::Count, usual.objects)?,
            parse: drawn(&section.parse, Quantity::Time, usual.parse)?,
            read: drawn(&section.think, Quantity::Time, usual.read)?,
            largest: section.largest.value,
            request: section.request.value,
            connections: section.connections.value,
        };
        self.positive(&section.largest, "a largest object", "\"2MB\"");
        self.positive(&section.request, "a request", "\"350B\"");
        self.positive(&section.connections, "a number of connections", "6");
        if let Some(objects) = &section.objects
            && web.objects.mean() > Web::MOST_OBJECTS as f64
        {
            let message = format!("a page has more than {} objects", Web::MOST_OBJECTS);
            self.error(objects.place, message, "too many", "give fewer");
        }
        Some(web)
    }

    pub(super) fn video(&mut self, section: &VideoSection, place: Place) -> Option<Video> {
        self.positive(&section.segment, "a segment", "\"4s\"");
        self.positive(&section.request, "a request", "\"350B\"");
        let ladder = &section.ladder.value;
        if ladder.is_empty() || ladder[0].is_zero() || !ladder.windows(2).all(|pair| pair[0] < pair[1]) {
            let help = "write for example ladder = [\"400kbit\", \"1mbit\", \"2.5mbit\"]";
            self.error(section.ladder.place, "the rates of the ladder must rise, from above zero", "here", help);
            return None;
        }
        let buffer = section.buffer.value;
        let part = |parts: u64| Span::from_nanos(buffer.as_nanos() / 40 * parts);
        let video = Video {
            ladder: ladder.clone(),
            segment: section.segment.value,
            buffer,
            reservoir: section.reservoir.unwrap_or(part(15)),
            cushion: section.cushion.unwrap_or(part(21)),
            start: section.start.unwrap_or(section.segment.value),
            request: section.request.value,
            follow_advice: section.follow_advice,
        };
        let wanted = (video.reservoir + video.cushion).max(video.start + video.segment);
        if video.cushion.is_zero() {
            self.error(place, "a cushion of zero", "the rate cannot follow the buffer", "leave cushion out");
        } else if buffer < wanted {
            let message = format!(
                "a buffer of {buffer} is too short: reservoir and cushion, or start and a segment, take {wanted}"
            );
            self.error(section.buffer.place, message, "too short", "make it longer, or the others shorter");
        }
        Some(video)
    }

    pub(super) fn call(&mut self, section: &CallSection) -> Option<Call> {
        let codec = *Codec::ALL.iter().find(|codec| codec.name == section.codec.word())?;
        let spurts = match (&section.talk, &section.silence) {
            (Some(talk), Some(silence)) => {
                let place = talk.place;
                let talk = self.distribution(talk, Quantity::Time)?;
                self.lasting(place, talk.mean(), "a talk spurt", "1s")?;
                Some((talk, self.distribution(silence, Quantity::Time)?))
            }
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => {
                let help = "give both, or neither for speech without a pause";
                self.error(one.place, "talk and silence belong together", "the other is missing", help);
                return None;
            }
        };
        Some(Call { codec, spurts, both_ways: section.both_ways, buffer: section.buffer })
    }

    pub(super) fn media(&mut self, section: &MediaSection) -> Option<Media> {
        let [least, most] = [&section.least, &section.most];
        if least.value.is_zero() || least.value > most.value {
            let help = "write for example least = \"200kbit\" and most = \"10mbit\"";
            self.error(least.place, "the least rate must be above zero and at most the largest", "here", help);
            return None;
        }
        self.lasting(section.frame.place, section.frame.value.as_secs_f64(), "a frame", "20ms")?;
        let unit = section.unit.value.as_u64();
        if !(100..=65_535).contains(&unit) {
            let help = "write for example \"1228B\"";
            self.error(section.unit.place, "a datagram must have 100 B to 65535 B", "here", help);
            return None;
        }
        let variation = section.variation.value;
        if !(0.0..=1.0).contains(&variation) {
            self.error(section.variation.place, "a variation is between 0 and 1", "here", "write for example 0.1");
            return None;
        }
        let (least, most, frame) = (least.value, most.value, section.frame.value);
        Some(Media { least, most, frame, variation, unit: unit as u32 })
    }

    pub(super) fn game(&mut self, section: &GameSection) -> Option<Workload> {
        let usual = [
            Arrivals { gap: Distribution::Constant(0.040), size: Distribution::Extreme { mode: 80.0, scale: 5.7 } },
            Arrivals {
                gap: Distribution::Extreme { mode: 0.055, scale: 0.006 },
                size: Distribution::Extreme { mode: 120.0, scale: 36.0 },
            },
        ];
        let [up, down] = usual;
        let mut way = |given: &Option<PacketsSection>, usual| match given {
            Some(section) => self.packets(section),
            None => Some(usual),
        };
        let directions = [Some(way(&section.up, up)?), Some(way(&section.down, down)?)];
        Some(Workload::Packets { directions })
    }

    /// Checks that a time is above zero, and reports an error otherwise.
    fn lasting(&mut self, place: Place, seconds: f64, what: &str, example: &str) -> Option<()> {
        if seconds > 0.0 {
            return Some(());
        }
        let help = format!("write for example a constant \"{example}\"");
        self.error(place, format!("{what} of no time"), "must be above zero", help);
        None
    }
}
