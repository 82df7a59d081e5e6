//! Resolves the workloads of flows.

use tidegate_config::{Place, Spanned};
use tidegate_core::{Bytes, Rate, Span};

use super::Resolver;
use super::distributions::Quantity;
use crate::distribution::Distribution;
use crate::scenario::file::{DirectionWord, MiceSection, SameOrDrawn, WorkloadSection};
use crate::scenario::trace;
use crate::workload::{Direction, Workload};

impl Resolver<'_> {
    pub(super) fn workload(&mut self, workload: &Spanned<WorkloadSection>) -> Option<Workload> {
        let place = workload.place;
        Some(match &workload.value {
            WorkloadSection::Bulk(bulk) => {
                let Some(Spanned { value, place }) = bulk.bytes.as_ref() else { return Some(Workload::BULK) };
                let place = *place;
                match value {
                    SameOrDrawn::Same(value) => {
                        self.positive(&Spanned { value: *value, place }, "a transfer", "\"1MB\"");
                        Workload::Bulk { bytes: Some(*value) }
                    }
                    SameOrDrawn::Drawn(value) => {
                        let size = self.distribution(&Spanned { value: value.clone(), place }, Quantity::Size)?;
                        Workload::Transfer { size }
                    }
                }
            }
            WorkloadSection::Constant(constant) => {
                let (rate, packet) = self.pace(&constant.rate, &constant.packet)?;
                Workload::Constant { rate, packet }
            }
            WorkloadSection::Poisson(poisson) => {
                let (rate, packet) = self.pace(&poisson.rate, &poisson.packet)?;
                Workload::Poisson { rate, packet }
            }
            WorkloadSection::OnOff(bursts) => {
                let (rate, packet) = self.pace(&bursts.rate, &bursts.packet)?;
                let (on, off) =
                    (self.distribution(&bursts.on, Quantity::Time)?, self.distribution(&bursts.off, Quantity::Time)?);
                if !self.arrives(bursts.on.place, 1.0 / (on.mean() + off.mean()), "bursts") {
                    return None;
                }
                Workload::OnOff { rate, packet, on, off }
            }
            WorkloadSection::Mice(mice) => self.mice(mice, place)?,
            WorkloadSection::Requests(requests) => Workload::Requests {
                request: self.distribution(&requests.request, Quantity::Size)?,
                response: self.distribution(&requests.response, Quantity::Size)?,
                think: self.distribution(&requests.think, Quantity::Time)?,
            },
            WorkloadSection::Packets(section) => Workload::Packets { directions: [Some(self.packets(section)?), None] },
            WorkloadSection::Phases(section) => self.phases(section, place)?,
            WorkloadSection::Web(section) => Workload::Web(Box::new(self.web(section)?)),
            WorkloadSection::Video(section) => Workload::Video(self.video(section, place)?),
            WorkloadSection::Call(section) => Workload::Call(Box::new(self.call(section)?)),
            WorkloadSection::Media(section) => Workload::Media(self.media(section)?),
            WorkloadSection::Game(section) => self.game(section)?,
            WorkloadSection::Trace(section) => Workload::Trace(self.trace(&section.file)?),
        })
    }

    fn mice(&mut self, mice: &MiceSection, place: Place) -> Option<Workload> {
        let interval = match (&mice.per_second, &mice.interval) {
            (Some(rate), None) if rate.value > 0.0 => Distribution::Exponential { mean: 1.0 / rate.value },
            (Some(rate), None) => {
                let what = if rate.value < 0.0 { "a negative rate of mice" } else { "no mice at all" };
                self.error(rate.place, what, "must be above zero", "write for example 10.0");
                return None;
            }
            (None, Some(interval)) => self.distribution(interval, Quantity::Time)?,
            (None, None) => {
                let help = "add per-second = 10.0, or interval = { ... }";
                self.error(place, "the rate of mice is not specified", "per-second is missing", help);
                return None;
            }
            (Some(_), Some(interval)) => {
                let (message, label) = ("the rate of mice is specified twice", "per-second specifies it too");
                self.error(interval.place, message, label, "leave one of them out");
                return None;
            }
        };
        let often = mice.per_second.as_ref().map_or(place, |rate| rate.place);
        if !self.arrives(often, 1.0 / interval.mean(), "mice") {
            return None;
        }
        let size = self.distribution(&mice.size, Quantity::Size)?;
        self.positive(&mice.most_open, "a bound", "10000");
        let direction = match mice.direction {
            DirectionWord::Upload => Direction::Upload,
            DirectionWord::Download => Direction::Download { request: mice.request },
        };
        Some(Workload::Mice { interval, size, direction, most_open: mice.most_open.value })
    }

    pub(super) fn trace(&mut self, file: &Spanned<String>) -> Option<Vec<(Span, Bytes)>> {
        match self.open(&file.value).and_then(|source| trace::parse(source.text())) {
            Ok(entries) => Some(entries),
            Err(error) => {
                let message = format!("the trace `{}` cannot be used: {error}", file.value);
                let help = "name a file beside the scenario, with lines `seconds,bytes`";
                self.error(file.place, message, "this file", help);
                None
            }
        }
    }

    pub(super) fn pace(&mut self, rate: &Spanned<Rate>, packet: &Spanned<Bytes>) -> Option<(Rate, Bytes)> {
        self.positive(rate, "a rate", "\"1mbit\"");
        if packet.value == Bytes::ZERO || packet.value.as_u64() > 65_535 {
            let label = "not between 1 B and 65535 B";
            self.error(packet.place, "no such packet", label, "write for example \"1500B\"");
            return None;
        }
        let per_second = rate.value.as_bps() as f64 / (packet.value.as_u64() * 8) as f64;
        self.arrives(rate.place, per_second, "packets").then_some((rate.value, packet.value))
    }
}
