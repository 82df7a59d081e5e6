//! Resolves the conditions of lines: rates over time, jitter, loss, failures.

use std::sync::Arc;

use tidegate_config::values::Percent;
use tidegate_config::{Place, Spanned};
use tidegate_core::{Instant, Span};

use super::Resolver;
use super::distributions::Quantity;
use crate::conditions::{Cellular, Conditions, Failures, Jitter, LineChange, MarkovState, RateProcess};
use crate::distribution::Distribution;
use crate::loss::Loss;
use crate::scenario::actions::{AtSection, LineSection};
use crate::scenario::file::{LinkSection, LossLaw, LossSection, RateSection, SameOrDrawn, TraceBegin};
use crate::scenario::model::Trace;

/// A delay: a constant, or a distribution from which each link draws its own.
pub(super) type Delay = (Span, Option<Distribution>);

fn probability(share: Percent) -> f64 {
    f64::from(share.millionths()) / 1e6
}

/// Reads the rate over time that a trace has.
type Read<'a> = &'a dyn Fn(&str) -> Result<RateProcess, String>;

impl Resolver<'_> {
    /// The conditions that both directions of a link have in common. The rate over time and the numbers of lost packets are added for
    /// each direction.
    pub(super) fn conditions(&mut self, link: &Spanned<LinkSection>) -> Option<Conditions> {
        let jitter = match &link.jitter {
            Some(section) => Some(Jitter {
                distribution: self.distribution(&section.delay, Quantity::Time)?,
                correlation: section.correlation.value,
                reorders: section.reorder,
            }),
            None => None,
        };
        let failures = match &link.failures {
            Some(section) => {
                let works = self.distribution(&section.works, Quantity::Time)?;
                let fails = self.distribution(&section.fails, Quantity::Time)?;
                let cycle = works.mean() + fails.mean();
                if cycle > 0.0 && !self.fails_rarely(section.works.place, 1.0 / cycle) {
                    return None;
                }
                Some(Failures { works, fails })
            }
            None => None,
        };
        let outage = |from: Span, to: Span| (Instant::ZERO + from, Instant::ZERO + to);
        let conditions = Conditions {
            jitter,
            duplication: link.duplication.map_or(0.0, probability),
            outages: link.outage.iter().map(|section| outage(section.from.value, section.to.value)).collect(),
            failures,
            frame: link.frame.as_ref().map(|frame| frame.value),
            ..Conditions::default()
        };
        self.valid(conditions, link.place)
    }

    /// The conditions of a direction whose rate may change over time.
    pub(super) fn over_time(
        &mut self,
        conditions: &Conditions,
        section: Option<&Spanned<RateSection>>,
    ) -> Option<Conditions> {
        let Some(section) = section else { return Some(conditions.clone()) };
        let rate = self.rate_process(section)?;
        let conditions = self.valid(Conditions { rate: Some(rate), ..conditions.clone() }, section.place)?;
        let mean_rate = conditions.rate.as_ref().and_then(|rate| rate.mean(self.scenario.duration));
        Some(Conditions { mean_rate, ..conditions })
    }

    fn valid(&mut self, conditions: Conditions, place: Place) -> Option<Conditions> {
        if let Err(problem) = conditions.validate() {
            self.error(place, format!("no such line: {problem}"), "cannot be", "change the value");
            return None;
        }
        Some(conditions)
    }

    pub(super) fn delay(&mut self, section: Option<&Spanned<SameOrDrawn<Span>>>) -> Option<Delay> {
        match section.map(|section| (&section.value, section.place)) {
            None => Some((Span::from_millis(1), None)),
            Some((SameOrDrawn::Same(span), _)) => Some((*span, None)),
            Some((SameOrDrawn::Drawn(distribution), place)) => {
                let section = Spanned { value: distribution.clone(), place };
                self.distribution(&section, Quantity::Time).map(|distribution| (Span::ZERO, Some(distribution)))
            }
        }
    }

    /// The loss model of a line, and the numbers of the packets that are lost in addition.
    pub(super) fn loss(&mut self, section: Option<&Spanned<LossSection>>) -> (Loss, Arc<[u64]>) {
        let random =
            |share: Percent| if share.millionths() == 0 { Loss::None } else { Loss::Random(probability(share)) };
        let none: Arc<[u64]> = Arc::default();
        let Some(section) = section else { return (Loss::None, none) };
        match &section.value {
            LossSection::Share(share) => (Loss::Random(probability(*share)), none),
            LossSection::Law(LossLaw::Random(law)) if law.data_only => {
                (Loss::RandomData(probability(law.probability)), none)
            }
            LossSection::Law(LossLaw::Random(law)) => (random(law.probability), none),
            LossSection::Law(LossLaw::GilbertElliott(law)) => {
                if law.begin.millionths() > 0 && law.end.millionths() == 0 {
                    let help = "write for example end = \"25%\", for bursts of four packets on average";
                    self.error(law.end.place, "the line stays in the bad state for ever", "never good again", help);
                }
                let [begin, end] = [law.begin.value, law.end.value].map(probability);
                (Loss::Bursts { begin, end, losses: [law.good, law.bad].map(probability) }, none)
            }
            LossSection::Law(LossLaw::List(list)) => {
                let rising = list.packets.windows(2).all(|pair| pair[0] < pair[1]);
                if !rising || list.packets.first() == Some(&0) {
                    let help = "write for example [3, 4, 90]: the first packet is number 1";
                    self.error(list.packets.place, "the numbers of lost packets must rise from 1 on", "here", help);
                }
                (Loss::None, list.packets.value.as_slice().into())
            }
        }
    }

    /// Warns of a run that begins in a trace and goes beyond its end: then what follows is the beginning of the trace.
    fn warn_of_wrapping(&mut self, process: &RateProcess, from: &Spanned<TraceBegin>) {
        let (RateProcess::Steps { repeat: Some(period), .. }, TraceBegin::At(at)) = (process, from.value) else {
            return;
        };
        let left = period.saturating_sub(at);
        // A run that is longer than the trace has it several times, wherever it begins.
        if self.scenario.duration <= left || self.scenario.duration > *period {
            return;
        }
        let message = format!("the trace ends {left} after this time, and the run goes on at its beginning");
        let help = format!(
            "begin at {} or earlier, or make the duration shorter",
            period.saturating_sub(self.scenario.duration)
        );
        self.diagnostics.warning(from.place, message).label("less than the duration before the end").help(help);
    }

    /// The rate of a trace, or of one of several, which `read` takes from the text of a file; `lines` says how its lines are written. `place` is
    /// that of the table that names them.
    fn traces(
        &mut self,
        (files, place): (&[Spanned<String>], Place),
        from: &Spanned<TraceBegin>,
        (read, lines): (Read<'_>, &str),
    ) -> Option<RateProcess> {
        // What is wrong may be the name, a line of the file, or the time at which it is to begin: each has its mark and its remedy.
        let refuse = |this: &mut Self, file: &Spanned<String>, place, why: String, label, help| {
            this.error(place, format!("the trace `{}` cannot be used: {why}", file.value), label, help);
            None
        };
        let mut all = Vec::new();
        for file in files {
            match self.open(&file.value).map(|source| read(source.text())) {
                Err(why) => {
                    return refuse(self, file, file.place, why, "this file", "name a file beside the scenario");
                }
                Ok(Err(why)) => return refuse(self, file, file.place, why, "what is in this file", lines),
                Ok(Ok(process)) => {
                    if let Some(n) = all.iter().position(|known| *known == process) {
                        let why = format!("`{}` has the same rates", files[n].value);
                        let help = "name recordings of other times or lines: the same windows once more are no further samples";
                        return refuse(self, file, file.place, why, "the same recording", help);
                    }
                    all.push(process);
                }
            }
        }
        let lengths: Vec<Span> = all.iter().filter_map(RateProcess::lasts).collect();
        let process = match (from.value, files) {
            (_, []) => {
                self.error(place, "a trace without a file", "of which file?", "name one: file = \"lte.mahimahi\"");
                return None;
            }
            (TraceBegin::At(at), [file]) => match all.remove(0).begun_at(at) {
                Ok(process) => process,
                Err(why) => {
                    return refuse(self, file, from.place, why, "too late", "begin at an earlier time of the trace");
                }
            },
            (TraceBegin::At(_), [_, second, ..]) => {
                let help = "with from = \"drawn\" each run has a part of one of them by its seed";
                self.error(second.place, "runs that begin at one time have one trace", "one too many", help);
                return None;
            }
            (TraceBegin::Drawn, files) => match RateProcess::drawn(all, self.scenario.duration) {
                Ok(process) => process,
                Err((number, why)) => {
                    let help = "make the duration shorter, or let the trace repeat";
                    let file = &files[number];
                    let place = if files.len() == 1 { from.place } else { file.place };
                    return refuse(self, file, place, why, "not longer than a run", help);
                }
            },
        };
        self.warn_of_wrapping(&process, from);
        let names = files.iter().map(|file| file.value.clone()).collect();
        let drawn = match &process {
            RateProcess::Drawn { windows, .. } => Some((lengths, windows.clone())),
            _ => None,
        };
        let trace = Trace { names, drawn, place: from.place };
        if !self.scenario.traces.iter().any(|known| (&known.names, &known.drawn) == (&trace.names, &trace.drawn)) {
            self.scenario.traces.push(trace);
        }
        Some(process)
    }

    fn rate_process(&mut self, section: &Spanned<RateSection>) -> Option<RateProcess> {
        let mahimahi = "each line is a whole number of milliseconds, none less than the one before";
        let rates = "each line is `seconds,rate`, such as `0.5,2mbit`, each later than the one before";
        Some(match &section.value {
            RateSection::Steps(it) => RateProcess::Steps {
                steps: it.steps.iter().map(|step| (step.at, step.rate)).collect(),
                repeat: it.repeat,
            },
            RateSection::Sine(it) => {
                RateProcess::Sine { mean: it.mean, amplitude: it.amplitude, period: it.period, step: it.step }
            }
            RateSection::Mahimahi(it) => {
                self.traces((&it.file, section.place), &it.from, (&RateProcess::mahimahi, mahimahi))?
            }
            RateSection::Csv(it) => {
                self.traces((&it.file, section.place), &it.from, (&|text| RateProcess::csv(text, it.repeat), rates))?
            }
            RateSection::Markov(it) => {
                let state = |state: &crate::scenario::file::MarkovStateSection| MarkovState {
                    rate: state.rate,
                    mean: state.mean,
                    next: state.next.clone(),
                };
                RateProcess::Markov(it.states.iter().map(state).collect())
            }
            RateSection::Cellular(it) => RateProcess::Cellular(Cellular {
                deviation: it.deviation,
                escape: it.escape,
                most: it.most,
                tick: it.tick,
            }),
        })
    }

    /// Adds a change of a link at a time. Returns the first wire of the link, and the change.
    pub(super) fn line_change(
        &mut self,
        at: &Spanned<AtSection>,
        section: &LineSection,
    ) -> Option<(usize, LineChange)> {
        let (Some(from), Some(to)) = (&at.from, &at.to) else {
            let help = "add from and to, as in the [[link]]";
            self.error(at.place, "the line that changes is not specified", "which of them?", help);
            return None;
        };
        let (a, b) = (self.node(from)?, self.node(to)?);
        if section.rate.is_none() && section.delay.is_none() && section.loss.is_none() {
            self.error(
                at.action.place,
                "the action changes nothing about the line",
                "changes nothing",
                "give a rate, delay or loss",
            );
        }
        let (loss, listed) = self.loss(section.loss.as_ref());
        if let (Some(section), false) = (&section.loss, listed.is_empty()) {
            let help = "move the list to the [[link]]: its numbers count from the beginning";
            self.error(section.place, "a list of losses cannot begin later", "not a share", help);
        }
        let change = LineChange {
            at: Instant::ZERO + at.time.value,
            rate: section.rate.as_ref().map(|rate| rate.value),
            delay: section.delay,
            loss: section.loss.as_ref().map(|_| loss),
        };
        let mut first = None;
        for (number, wire) in self.scenario.wires.iter_mut().enumerate() {
            let is_back = section.both_ways && (wire.from, wire.to) == (b, a);
            if (wire.from, wire.to) != (a, b) && !is_back {
                continue;
            }
            if !is_back {
                first = first.or(Some(number));
            }
            let conditions = wire.conditions.get_or_insert_default();
            conditions.add_change(change.clone());
        }
        if let Some(rate) = &section.rate
            && rate.value.is_zero()
        {
            self.error(rate.place, "a rate of zero", "must be above zero", "let the line fail: [[link.outage]]");
        }
        if first.is_none() {
            self.no_link(from, to);
        }
        first.map(|first| (first, change))
    }
}
