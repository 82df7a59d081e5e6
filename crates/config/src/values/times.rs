//! The times of a week at which a rule holds.

use std::fmt;

use serde_json::{Value as Json, json};

use super::quota::Date;
use crate::decode::{Scalar, Wrong};
use crate::suggest;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY: u32 = 24 * 60;
const WEEK: u32 = 7 * DAY;

/// A minute of the week on a wall clock: 0 is Monday 00:00.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WeekMinute(u32);

impl WeekMinute {
    /// The minute `minute` of the day `day`, 0 for Monday. Larger numbers go on into the next days and weeks.
    pub const fn new(day: u32, minute: u32) -> Self {
        Self((day % 7 * DAY + minute % WEEK) % WEEK)
    }
    /// Reads `sat 07:00`, and `07:00` for the day of `today`.
    pub fn parse(text: &str, today: Self) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let (on, time) = match text.split_once(char::is_whitespace) {
            Some((name, time)) => (day(name).ok()? as u32, time.trim()),
            None => (today.0 / DAY, text.as_str()),
        };
        let minute = clock(time).ok().map(u32::from).filter(|minute| time.contains(':') && *minute < DAY)?;
        Some(Self::new(on, minute))
    }
    /// The minute that follows after `minutes`.
    #[must_use]
    pub const fn after(self, minutes: u64) -> Self {
        Self((self.0 + (minutes % WEEK as u64) as u32) % WEEK)
    }
}

impl fmt::Display for WeekMinute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", DAYS[(self.0 / DAY) as usize], Clock((self.0 % DAY) as u16))
    }
}

/// Minutes since midnight, written as a time of day.
struct Clock(u16);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

/// A span of time on some days of each week. Written `mon-fri 08:00-18:00`, `sat,sun`, `22:00-06:00`. One that goes over midnight
/// belongs to the day on which it begins: `mon-fri 18:00-08:00` ends on Saturday at 8, and Monday before 8 is not in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Times {
    /// The days on which the span begins; bit 0 is Monday.
    days: u8,
    /// The minute of the day at which it begins.
    from: u16,
    /// The minute of the day at which it ends. If it is not after `from`, the span ends on the next day.
    to: u16,
}

impl Times {
    /// Whether `now` is within the span of one of the days. The last minute is not.
    pub fn contains(self, now: WeekMinute) -> bool {
        let (from, to) = (u32::from(self.from), u32::from(self.to));
        let length = if to > from { to - from } else { to + DAY - from };
        let begins = (0..7).filter(|day| self.days >> day & 1 == 1).map(|day| day * DAY + from);
        begins.into_iter().any(|begin| (now.0 + WEEK - begin) % WEEK < length)
    }

    /// The parts of each day of the week, from Monday, in which one of `all` holds: from when until when, as `00:00-08:00`.
    pub fn week(all: &[Self]) -> [(&'static str, Vec<String>); 7] {
        std::array::from_fn(|day| {
            let holds = |minute: u32| all.iter().any(|times| times.contains(WeekMinute::new(day as u32, minute)));
            let (mut parts, mut begun) = (Vec::new(), None);
            for minute in 0..=DAY {
                match (begun, minute < DAY && holds(minute)) {
                    (None, true) => begun = Some(minute),
                    (Some(from), false) => {
                        parts.push(format!("{}-{}", Clock(from as u16), Clock(minute as u16)));
                        begun = None;
                    }
                    _ => {}
                }
            }
            (DAYS[day], parts)
        })
    }

    /// When the first of `all` begins, or the last one that holds at `now` ends. `None` if neither ever happens.
    pub fn next_change(all: &[Self], now: WeekMinute) -> Option<WeekMinute> {
        let holds = |at| all.iter().any(|times| times.contains(at));
        (1..u64::from(WEEK)).map(|minutes| now.after(minutes)).find(|&at| holds(at) != holds(now))
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut parts, mut day) = (Vec::new(), 0);
        while day < 7 {
            let length = (day..7).take_while(|day| self.days >> day & 1 == 1).count();
            match length {
                0 => {}
                1 => parts.push(DAYS[day].to_owned()),
                _ => parts.push(format!("{}-{}", DAYS[day], DAYS[day + length - 1])),
            }
            day += length.max(1);
        }
        let is_whole = (self.from, self.to) == (0, DAY as u16);
        let hours = format!("{}-{}", Clock(self.from), Clock(self.to));
        f.pad(&match (self.days == 0x7f, is_whole) {
            (true, false) => hours,
            (_, true) => parts.join(","),
            (false, false) => format!("{} {hours}", parts.join(",")),
        })
    }
}

fn wrong(message: String) -> Wrong {
    Wrong { message, help: format!("write for example \"{}\"", Times::EXAMPLE) }
}

/// The number of a day, from its name in full or its first three letters.
fn day(text: &str) -> Result<usize, Wrong> {
    const NAMES: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let found = NAMES.iter().position(|name| text.len() >= 3 && name.starts_with(text));
    found.ok_or_else(|| Wrong {
        message: format!("`{text}` is not a day of the week"),
        help: match text.strip_prefix('!') {
            Some(_) => "there is no `not`: a rule for these times first, and after it one without `when`".into(),
            None => format!("{}; for example \"{}\"", suggest::help(text, &DAYS), Times::EXAMPLE),
        },
    })
}

fn days(text: &str) -> Result<u8, Wrong> {
    let mut days = 0;
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (day(first)?, day(last)?);
        let number = (last + 7 - first) % 7;
        (0..=number).for_each(|n| days |= 1 << ((first + n) % 7));
    }
    if days == 0 { Err(wrong("no day of the week".into())) } else { Ok(days) }
}

/// The minute of the day, at most 24:00.
fn clock(text: &str) -> Result<u16, Wrong> {
    let two = |text: &str| (text.len() <= 2 && text.bytes().all(|c| c.is_ascii_digit())).then(|| text.parse().ok())?;
    let parsed = || -> Option<u16> {
        let (hours, minutes): (u16, u16) = match text.split_once(':') {
            Some((hours, minutes)) if minutes.len() == 2 => (two(hours)?, two(minutes)?),
            Some(_) => return None,
            None => (two(text)?, 0),
        };
        (minutes < 60 && hours * 60 + minutes <= DAY as u16).then_some(hours * 60 + minutes)
    };
    parsed().ok_or_else(|| wrong(format!("`{text}` is not a time of day between 00:00 and 24:00")))
}

impl Scalar for Times {
    const WANTED: &'static str = "span of the week";
    const EXAMPLE: &'static str = "mon-fri 08:00-18:00";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let lower = text.to_lowercase();
        let words: Vec<&str> = lower.split_whitespace().collect();
        let is_clock = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
        let (of_days, hours) = match words[..] {
            [hours] if is_clock(hours) => (None, Some(hours)),
            [days] => (Some(days), None),
            [days, hours] => (Some(days), Some(hours)),
            _ => return Err(wrong(format!("`{text}` is not days and hours; several spans are a list"))),
        };
        let (from, to) = match hours {
            None => (0, DAY as u16),
            Some(hours) => {
                let ends = hours.split_once('-').ok_or_else(|| wrong(format!("`{hours}` does not say until when")))?;
                (clock(ends.0)?, clock(ends.1)?)
            }
        };
        if from == to || from == DAY as u16 {
            return Err(Wrong {
                message: format!("`{text}` begins when it ends; leave the hours out for whole days"),
                help: format!(
                    "write for example \"{}\"; hours that end before they begin, as 18:00-08:00, end on the next day",
                    Self::EXAMPLE
                ),
            });
        }
        Ok(Self { days: of_days.map_or(Ok(0x7f), days)?, from, to })
    }
    fn scalar_schema() -> Json {
        json!({ "type": "string", "examples": [Self::EXAMPLE, "sat,sun", "22:00-06:00"] })
    }
}

/// The wall clock at which a simulation starts. Written `2026-11-23T08:00:00`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WallStart {
    date: Date,
    /// The seconds since midnight.
    second: u32,
}

impl Default for WallStart {
    /// Midnight of a Monday that is the first day of a month.
    fn default() -> Self {
        Self { date: Date::new(2024, 1, 1).unwrap_or_else(|| unreachable!("a date")), second: 0 }
    }
}

impl WallStart {
    /// The minute of the week when `seconds` have passed since the start, and the seconds until the next minute, at least 1.
    pub fn after(self, seconds: u64) -> (WeekMinute, u64) {
        let passed = seconds.saturating_add(self.second.into());
        (WeekMinute::new(self.date.weekday(), 0).after(passed / 60), 60 - passed % 60)
    }
    /// The seconds since 1970 of a clock that shows this in UTC.
    pub fn since_1970(self) -> u64 {
        u64::from(self.date.days()) * u64::from(DAY) * 60 + u64::from(self.second)
    }
    /// The date when `seconds` have passed since the start.
    pub fn date_after(self, seconds: u64) -> Date {
        self.date.after(seconds.saturating_add(self.second.into()) / (u64::from(DAY) * 60))
    }
}

impl fmt::Display for WallStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:02}", self.after(0).0, self.second % 60)
    }
}

impl Scalar for WallStart {
    const WANTED: &'static str = "date and time";
    const EXAMPLE: &'static str = "2026-11-23T08:00:00";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let parsed = || -> Option<Self> {
            let (date, time) = text.trim().split_once(['T', ' '])?;
            let number = |text: &str| text.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
            let clock: Vec<u32> = time.split(':').map(number).collect::<Option<_>>()?;
            let (hour, minute, second) = match clock[..] {
                [hour, minute] => (hour, minute, 0),
                [hour, minute, second] => (hour, minute, second),
                _ => return None,
            };
            if hour > 23 || minute > 59 || second > 59 {
                return None;
            }
            Some(Self { date: Date::parse(date)?, second: (hour * 60 + minute) * 60 + second })
        };
        parsed().ok_or_else(|| Wrong {
            message: format!("`{text}` is not a date with a time of day"),
            help: format!("write for example \"{}\"", Self::EXAMPLE),
        })
    }
    fn scalar_schema() -> Json {
        json!({ "type": "string", "examples": [Self::EXAMPLE], "pattern": "^\\d{4}-\\d{2}-\\d{2}[T ]\\d{2}:\\d{2}(:\\d{2})?$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_of_the_week_is_a_day_and_a_clock() {
        let wednesday = WeekMinute::new(2, 5);
        let said = |text| WeekMinute::parse(text, wednesday).map(|minute| minute.to_string());
        assert_eq!(said("sat 07:00").as_deref(), Some("sat 07:00"));
        assert_eq!(said("Saturday 7:05").as_deref(), Some("sat 07:05"));
        assert_eq!(said("23:59").as_deref(), Some("wed 23:59"));
        for wrong in ["sat", "24:00", "sat 07:60", "sat+7:00", "7", "so 07:00", "sat 007:00", ""] {
            assert_eq!(said(wrong), None, "{wrong}");
        }
    }

    fn times(text: &str) -> Times {
        Times::from_text(text).unwrap_or_else(|wrong| panic!("{text}: {}", wrong.message))
    }
    fn at(day: u32, hour: u32, minute: u32) -> WeekMinute {
        WeekMinute::new(day, hour * 60 + minute)
    }

    #[test]
    fn office_hours_begin_and_end_to_the_minute() {
        let office = times("mon-fri 08:00-18:00");
        let on = [at(0, 8, 0), at(4, 17, 59)];
        let off = [at(0, 7, 59), at(4, 18, 0), at(5, 12, 0)];
        assert!(on.iter().all(|&now| office.contains(now)) && !off.iter().any(|&now| office.contains(now)));
        assert_eq!(Times::next_change(&[office], at(4, 18, 0)), Some(at(0, 8, 0)));
        assert_eq!(Times::next_change(&[office], at(0, 8, 0)), Some(at(0, 18, 0)));
    }

    #[test]
    fn a_night_ends_on_the_next_day_and_over_the_end_of_the_week() {
        let night = times("sun 22:00-06:00");
        assert!(night.contains(at(6, 23, 0)) && night.contains(at(0, 5, 59)));
        assert!(!night.contains(at(0, 6, 0)) && !night.contains(at(6, 5, 0)));
    }

    #[test]
    fn a_span_over_midnight_belongs_to_the_day_it_begins_on() {
        let nights = times("mon-fri 18:00-08:00");
        assert!(nights.contains(at(5, 7, 59)), "Saturday morning");
        assert!(!nights.contains(at(0, 7, 0)), "Monday morning");
        let week =
            |all: &[Times]| Times::week(all).map(|(day, parts)| format!("{day} {}", parts.join(", "))).join("; ");
        assert_eq!(
            week(&[nights]),
            "mon 18:00-24:00; tue 00:00-08:00, 18:00-24:00; wed 00:00-08:00, 18:00-24:00; thu 00:00-08:00, 18:00-24:00; \
             fri 00:00-08:00, 18:00-24:00; sat 00:00-08:00; sun "
        );
        let with_sunday = [nights, times("sun"), times("sat 18:00-08:00")];
        assert!(
            week(&with_sunday).ends_with("sat 00:00-08:00, 18:00-24:00; sun 00:00-24:00"),
            "{}",
            week(&with_sunday)
        );
    }

    #[test]
    fn spans_that_touch_are_one_and_a_whole_week_never_changes() {
        let day = [times("mon 08:00-12:00"), times("mon 12:00-18:00")];
        assert_eq!(Times::next_change(&day, at(0, 9, 0)), Some(at(0, 18, 0)));
        assert_eq!(Times::next_change(&[times("mon-sun")], at(0, 9, 0)), None);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["mon-fri 08:00-18:00", "sat-sun", "22:00-06:00", "mon,wed-thu 00:00-12:30", "fri 20:00-24:00"] {
            assert_eq!(times(text).to_string(), text);
        }
        assert_eq!(times("Friday-Monday 8-17").to_string(), "mon,fri-sun 08:00-17:00");
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for text in
            ["", "mon 25:00-26:00", "mon 08:00", "08:00-08:00", "mo", "mon fri 08:00-09:00", "24:00-02:00", "1é-2"]
        {
            assert!(Times::from_text(text).is_err(), "{text}");
        }
        for text in ["2026-02-29T08:00", "2026-13-01T08:00", "2026-11-23", "2026-11-23T24:00", "0000-01-01T00:00"] {
            assert!(WallStart::from_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn dates_have_their_day_of_the_week() {
        let start = |text| WallStart::from_text(text).unwrap_or_else(|_| panic!("{text}")).to_string();
        assert_eq!(start("2026-11-23T08:00:30"), "mon 08:00:30");
        assert_eq!(start("2024-02-29 23:59"), "thu 23:59:00");
        assert_eq!(start("2000-01-01T00:00:00"), "sat 00:00:00");
        let eve = WallStart::from_text("2026-11-29T23:59:30").unwrap_or_else(|_| unreachable!("a date"));
        assert_eq!(eve.after(31), (at(0, 0, 0), 59));
        assert_eq!(
            (eve.date_after(29).to_string(), eve.date_after(30).to_string()),
            ("2026-11-29".into(), "2026-11-30".into())
        );
        assert_eq!(WallStart::default().to_string(), "mon 00:00:00");
        assert_eq!(eve.since_1970(), 1_795_996_770, "as `date -u -d` has it");
    }
}
