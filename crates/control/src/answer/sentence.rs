//! The answer in words.

use tidegate_units::Span;

use super::{Answer, Grade, TrafficAnswer};

/// From this part on a line is called full: what senders leave unused while they adapt.
pub(super) const FULL: u64 = 95;
/// From this part on the answer names the host that takes most.
const CROWDED: u64 = 50;

impl TrafficAnswer {
    /// Returns the kind, the grade and what it is derived from, as `calls: good, 3 ms`. Jitter and losses are in it where
    /// they are what makes the grade worse than the wait alone. `wait` formats a wait.
    pub fn sentence(&self, wait: impl Fn(Span) -> String) -> String {
        let mut text = format!("{}: ", self.traffic.name());
        if let Some(grade) = self.grade {
            text.push_str(&format!("{}, ", grade.word()));
        }
        text.push_str(&wait(self.evidence.wait));
        let alone = |evidence| self.traffic.grade(&evidence);
        let by_wait = alone(super::Evidence { wait: self.evidence.wait, ..Default::default() });
        if self.grade < by_wait {
            if alone(super::Evidence { jitter: self.evidence.jitter, ..Default::default() }) < by_wait {
                text.push_str(&format!(", jitter {}", wait(self.evidence.jitter)));
            }
            if alone(super::Evidence { lost_ppm: self.evidence.lost_ppm, ..Default::default() }) < by_wait {
                let tenths = self.evidence.lost_ppm.div_ceil(1_000);
                text.push_str(&format!(", {}.{} % lost", tenths / 10, tenths % 10));
            }
        }
        // Who is disturbed is the first question to a bad answer.
        if self.grade.is_some_and(|grade| grade < Grade::Good) && !self.class.is_empty() {
            text.push_str(&format!(" in {}", self.class));
        }
        if let Some(rival) = &self.rival {
            text.push_str(&format!(" ({})", rival.text()));
        }
        if self.grade.is_none() {
            text.push_str(", of a kind that is not known");
        }
        text
    }
}

impl Answer {
    /// Returns the answer in a word or two.
    pub fn word(&self) -> &'static str {
        match self.grade {
            _ if self.down.is_some() => "down",
            Some(grade) => grade.word(),
            None if !self.held.is_empty() => "at a ceiling",
            None if self.traffic.is_empty() && self.full_percent.is_none_or(|percent| percent == 0) => "idle",
            None => "not graded",
        }
    }
    /// Returns the answer as a sentence without a full stop: `calls: good, 3 ms; web: good, 26 ms; line full, by anna-laptop
    /// 61 %`. `wait` formats a wait.
    pub fn sentence(&self, wait: impl Fn(Span) -> String) -> String {
        let mut parts: Vec<String> = self.traffic.iter().map(|one| one.sentence(&wait)).collect();
        if let Some(down) = &self.down {
            return down.clone();
        }
        if parts.is_empty() && self.held.is_empty() {
            parts.push(self.silence().to_owned());
        }
        parts.extend(self.held());
        parts.extend(self.line());
        parts.join("; ")
    }

    /// Why there is neither a grade nor a ceiling. Every flow that sends has an answer, be it that its kind is not known.
    fn silence(&self) -> &'static str {
        match self.full_percent {
            Some(1..) => "not graded, since flows are not counted",
            _ => "nothing is sent",
        }
    }

    /// Returns which classes wait for a ceiling; `None` if none does.
    pub fn held(&self) -> Option<String> {
        let said: Vec<String> = self.held.iter().map(|one| format!("{} ({})", one.class, one.by.key())).collect();
        (!said.is_empty()).then(|| format!("at a ceiling: {}", said.join(", ")))
    }

    /// Returns how full the line is, and the host that takes most of a crowded one; `None` where neither is known.
    pub fn line(&self) -> Option<String> {
        let line = self.full_percent.map(|percent| match percent {
            FULL.. => "line full".to_owned(),
            percent => format!("line {percent} % full"),
        });
        // On a line with room to spare it does not matter who takes most.
        let crowded = self.full_percent.is_none_or(|percent| percent >= CROWDED);
        let taker = self.taker.as_ref().filter(|_| crowded && !(self.traffic.is_empty() && self.held.is_empty()));
        match (line, taker) {
            (Some(line), Some(taker)) => Some(format!("{line}, by {} {} %", taker.host, taker.percent)),
            (line, None) => line,
            (None, Some(taker)) => Some(format!("{} takes {} %", taker.host, taker.percent)),
        }
    }
}
