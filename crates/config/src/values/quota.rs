//! Quotas of rules, and the days of the calendar by which they are counted.

use std::fmt;

use serde_json::{Value as Json, json};
use tidegate_core::Bytes;

use crate::decode::{Scalar, Wrong};
use crate::suggest;

/// A day of the Gregorian calendar from 1970 to 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Date {
    /// Days since 1 January 1970.
    days: u32,
}

/// Days before the year `year` since 1 January of year 1.
const fn days_before(year: u32) -> u32 {
    let past = year - 1;
    past * 365 + past / 4 - past / 100 + past / 400
}

const fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

const LAST_YEAR: u32 = 9_999;

impl Date {
    /// The day `day` of `month` (both from 1) of `year`; `None` if there is no such day in the years 1970 to 9999.
    pub fn new(year: u32, month: u32, day: u32) -> Option<Self> {
        let is_there = (1970..=LAST_YEAR).contains(&year) && (1..=12).contains(&month);
        if !is_there || day == 0 || day > days_in(year, month) {
            return None;
        }
        let before: u32 = (1..month).map(|month| days_in(year, month)).sum();
        Some(Self { days: days_before(year) - days_before(1970) + before + day - 1 })
    }
    /// Year, month and day.
    pub fn parts(self) -> (u32, u32, u32) {
        // A year has at least 365 days, so that this year is the right one or one too late.
        let mut year = 1970 + self.days / 365;
        while days_before(year) - days_before(1970) > self.days {
            year -= 1;
        }
        let (mut month, mut day) = (1, self.days - (days_before(year) - days_before(1970)));
        while day >= days_in(year, month) {
            day -= days_in(year, month);
            month += 1;
        }
        (year, month, day + 1)
    }
    /// The day of the week: 0 is Monday.
    pub const fn weekday(self) -> u32 {
        // 1 January 1970 was a Thursday.
        (self.days + 3) % 7
    }
    /// The day that follows after `days`, at most the last one of 9999.
    #[must_use]
    pub fn after(self, days: u64) -> Self {
        let last = u64::from(days_before(LAST_YEAR + 1) - days_before(1970) - 1);
        Self { days: u64::from(self.days).saturating_add(days).min(last) as u32 }
    }
    /// The days from 1 January 1970 to this one.
    pub const fn days(self) -> u32 {
        self.days
    }
    /// Reads a date that is written `2026-11-23`.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| text.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
        let [year, month, day] = text.split('-').map(number).collect::<Option<Vec<_>>>()?[..] else { return None };
        Self::new(year, month, day)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.parts();
        f.pad(&format!("{year:04}-{month:02}-{day:02}"))
    }
}

/// How often a quota begins anew.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Period {
    /// At midnight.
    Day,
    /// On Mondays.
    Week,
    /// On the first day of the month.
    Month,
}

impl Period {
    const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    /// `day`, `week` or `month`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }
    /// The period with this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|period| period.word() == word)
    }
    /// The first day of the period that `date` is in.
    pub fn begin(self, date: Date) -> Date {
        let back = match self {
            Self::Day => 0,
            Self::Week => date.weekday(),
            Self::Month => date.parts().2 - 1,
        };
        // The first week of 1970 has its Monday in 1969.
        Date { days: date.days.saturating_sub(back) }
    }
    /// The first day of the period after the one that `date` is in.
    pub fn next(self, date: Date) -> Date {
        let begin = self.begin(date);
        match self {
            Self::Day => begin.after(1),
            Self::Week => date.after(u64::from(7 - date.weekday())),
            Self::Month => begin.after(u64::from(days_in(begin.parts().0, begin.parts().1))),
        }
    }
}

/// A number of bytes in each period. Written `100GB/month`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Quota {
    /// The bytes of a period.
    pub amount: Bytes,
    /// How often it begins anew.
    pub period: Period,
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.amount, self.period.word()))
    }
}

impl Scalar for Quota {
    const WANTED: &'static str = "amount for each period";
    const EXAMPLE: &'static str = "100GB/month";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let help = || format!("write for example \"{}\"", Self::EXAMPLE);
        let Some((amount, period)) = text.split_once('/') else {
            let message = format!("`{text}` does not say how often the quota begins anew");
            return Err(Wrong { message, help: help() });
        };
        let word = period.trim().to_ascii_lowercase();
        let period = Period::of_word(&word).ok_or_else(|| Wrong {
            message: format!("`{}` is not a period of a quota", period.trim()),
            help: suggest::help(&word, &Period::ALL.map(Period::word)),
        })?;
        let amount = Bytes::from_text(amount).map_err(|wrong| Wrong { help: help(), ..wrong })?;
        if amount == Bytes::ZERO {
            let message = "a quota of zero is always used up".into();
            return Err(Wrong { message, help: "remove the rule, or write how much it may use".into() });
        }
        Ok(Self { amount, period })
    }
    fn scalar_schema() -> Json {
        json!({ "type": "string", "examples": [Self::EXAMPLE, "5GB/day", "1TB/week"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> Date {
        Date::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn days_of_the_calendar_are_written_and_read_again() {
        let mut day = date("1970-01-01");
        let mut weekday = 3;
        // Two turns of the years that are divisible by 100 and not by 400.
        while day < date("2210-01-01") {
            assert_eq!((date(&day.to_string()), day.weekday()), (day, weekday), "{day}");
            (day, weekday) = (day.after(1), (weekday + 1) % 7);
        }
        assert_eq!(day.after(u64::MAX), date("9999-12-31"));
        for text in ["2026-02-29", "2026-13-01", "1969-12-31", "10000-01-01", "2026-11", "2026-11-00", "+2026-11-1"] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }

    #[test]
    fn periods_begin_at_midnight_on_mondays_and_on_the_first() {
        let now = date("2026-11-26");
        let of = |period: Period| (period.begin(now).to_string(), period.next(now).to_string());
        assert_eq!(of(Period::Day), ("2026-11-26".into(), "2026-11-27".into()));
        assert_eq!(of(Period::Week), ("2026-11-23".into(), "2026-11-30".into()));
        assert_eq!(of(Period::Month), ("2026-11-01".into(), "2026-12-01".into()));
        assert_eq!(Period::Month.next(date("2026-12-31")), date("2027-01-01"));
        assert_eq!(Period::Month.next(date("2028-02-29")), date("2028-03-01"));
    }

    #[test]
    fn an_amount_and_a_period_are_read() {
        let quota = |text: &str| Quota::from_text(text).map_err(|wrong| wrong.message);
        let month = Quota { amount: Bytes::new(100_000_000_000), period: Period::Month };
        assert_eq!((quota("100GB/month"), quota(" 0.1 TB / Month ")), (Ok(month), Ok(month)));
        assert_eq!(quota("100GB/month").map(|quota| quota.to_string()), Ok("100GB/month".into()));
        for (text, why) in [
            ("100GB", "how often"),
            ("100GB/fortnight", "not a period"),
            ("0B/day", "always used up"),
            ("100/day", "unit"),
            ("", "how often"),
        ] {
            assert!(quota(text).is_err_and(|message| message.contains(why)), "{text}");
        }
    }
}
