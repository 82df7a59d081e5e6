//! [`History`]: the last day of every class, in memory of a fixed size.
//!
//! *Law*: three rings for each class: a point a second for 10 minutes, one for 10 s over 2 hours, one a minute over
//! 24 hours. A coarser point is made of the finer ones under it: rates, queue and median are their means, the long wait
//! is their largest, drops, marks, kept and missed promises and the packets of each wait are their sums. Where nothing was measured (the machine slept,
//! the class did not exist) there is a gap, not a zero.
//! *Cost*: 2,760 points of 60 B, 166 kB a class; at most [`MOST`] classes are remembered, 10.6 MB. Everything is allocated
//! when a class first appears. A push is constant for each class, except after a gap, which is filled.
//! *Notes*: the clock is that of the wall, in whole seconds; when it is set back, history begins anew. Minutes that are
//! over are kept in a file ([`history_file`](super::history_file)), and restored from there: the finer
//! rings are filled with even parts of them.

use serde_json::{Value, json};
use tidegate_control::calls::{ClassObservation, FollowStatus};
use tidegate_metrics::Delays;

/// The maximum number of classes with a history, of all directions.
pub const MOST: usize = 64;
/// An observation up to this many seconds after the previous one is late; after more there is a gap.
const LATE: u64 = 3;
/// Seconds in a point, and points, of each ring.
pub const RINGS: [(u64, usize); 3] = [(1, 600), (10, 720), (60, 1_440)];

/// The measurements of a class in a step of time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Rate sent, in bit/s.
    pub rate: f32,
    /// The part of it that was borrowed.
    pub borrowed: f32,
    /// Bytes queued.
    pub queue: f32,
    /// The median wait in seconds.
    pub median: f32,
    /// The 99th percentile of the waits, in seconds.
    pub long: f32,
    /// Packets dropped in the step.
    pub drops: f32,
    /// Packets marked in the step.
    pub marks: f32,
    /// Seconds of the step in which the promise was kept.
    pub kept: f32,
    /// Seconds of the step in which the promise was missed.
    pub missed: f32,
    /// How many packets waited at most each of [`Delays::BOUNDS`] and longer than the one before, by [`encode`].
    pub waits: [u8; WAITS],
}

/// The number of ranges of waits.
pub(super) const WAITS: usize = Delays::BOUNDS.len();

/// Packets by their waits, of a cumulative histogram: eight times the binary logarithm of their number, and 1; or 0 for
/// none. That is 9 % from one code to the next.
pub fn encode(cumulative: [u64; WAITS]) -> [u8; WAITS] {
    let mut before = 0;
    cumulative.map(|up_to| {
        let count = up_to.saturating_sub(before);
        before = up_to;
        code(count as f32)
    })
}
fn code(count: f32) -> u8 {
    // A step of a coarse ring may have less than one, of an observation that covers several seconds.
    if count < 0.5 { 0 } else { (count.log2() * 8.0).round().clamp(0.0, 254.0) as u8 + 1 }
}
fn packets(code: u8) -> f32 {
    if code == 0 { 0.0 } else { (f32::from(code - 1) / 8.0).exp2() }
}

/// The name of the series of a rate that follows the line, beside those of classes, which have a name.
pub const LINE: &str = "";

impl Point {
    /// A second of a rate that follows the line: what is allowed, what was carried (as `borrowed`), and the delay of the line's queue
    /// (as the waits; zero where it is not known).
    pub fn of_line(follow: &FollowStatus) -> Self {
        let delay = follow.delay.map_or(0.0, |delay| delay.as_secs_f64() as f32);
        Self {
            rate: follow.allowed.as_bps() as f32,
            borrowed: follow.achieved.as_bps() as f32,
            median: delay,
            long: delay,
            ..Self::from_values([0.0; 9], [0; WAITS])
        }
    }
    pub(super) const GAP: Self = Self {
        rate: f32::NAN,
        borrowed: f32::NAN,
        queue: f32::NAN,
        median: f32::NAN,
        long: f32::NAN,
        drops: f32::NAN,
        marks: f32::NAN,
        kept: f32::NAN,
        missed: f32::NAN,
        waits: [0; WAITS],
    };
    /// The second from `past` to `now`, in which packets waited as in `waits`.
    pub fn between(past: &ClassObservation, now: &ClassObservation, waits: [u8; WAITS]) -> Self {
        let more = |new: u64, old: u64| new.saturating_sub(old) as f32;
        Self {
            rate: now.rate.as_bps() as f32,
            borrowed: now.borrowed.as_bps() as f32,
            queue: now.queue.bytes.as_u64() as f32,
            median: now.wait.p50.as_secs_f64() as f32,
            long: now.wait.p99.as_secs_f64() as f32,
            drops: more(now.dropped_packets(), past.dropped_packets()),
            marks: more(now.marked_packets, past.marked_packets),
            kept: more(now.promise_kept_seconds, past.promise_kept_seconds),
            missed: more(now.promise_missed_seconds, past.promise_missed_seconds),
            waits,
        }
    }
    fn is_gap(&self) -> bool {
        self.rate.is_nan()
    }
    /// One of `parts` equal parts of the step.
    fn part(self, parts: f32) -> Self {
        let of = |count: f32| count / parts;
        Self {
            drops: of(self.drops),
            marks: of(self.marks),
            kept: of(self.kept),
            missed: of(self.missed),
            waits: self.waits.map(|packets_of| code(of(packets(packets_of)))),
            ..self
        }
    }
    /// The names of the values in the JSON form, in the order of [`Point::values`].
    const NAMES: [&'static str; 9] =
        ["rate_bps", "borrowed_bps", "queue_bytes", "wait_p50_s", "wait_p99_s", "drops", "marks", "kept_s", "missed_s"];
    pub(super) fn values(&self) -> [f32; 9] {
        let Self { rate, borrowed, queue, median, long, drops, marks, kept, missed, waits: _ } = *self;
        [rate, borrowed, queue, median, long, drops, marks, kept, missed]
    }
    /// The point with these values, in the order of [`Point::values`].
    pub(super) fn from_values(values: [f32; 9], waits: [u8; WAITS]) -> Self {
        let [rate, borrowed, queue, median, long, drops, marks, kept, missed] = values;
        Self { rate, borrowed, queue, median, long, drops, marks, kept, missed, waits }
    }
    /// The waits as text: the number of the first range with packets and the codes up to the last, each in two hexadecimal
    /// digits; nothing without packets, `None` in gaps.
    fn waits_text(&self) -> Option<String> {
        let first = self.waits.iter().position(|&code| code > 0);
        let text = first.map_or_else(String::new, |first| {
            let end = self.waits.iter().rposition(|&code| code > 0).unwrap_or(first);
            std::iter::once(first as u8)
                .chain(self.waits[first..=end].iter().copied())
                .map(|byte| format!("{byte:02x}"))
                .collect()
        });
        (!self.is_gap()).then_some(text)
    }
}

/// Points that are combined into a coarser one.
#[derive(Clone, Copy, Debug)]
struct Sum {
    point: Point,
    count: f32,
    /// Packets in each range of waits.
    waits: [f32; WAITS],
}

impl Sum {
    const NOTHING: Self = Self { point: Point::GAP, count: 0.0, waits: [0.0; WAITS] };
    fn add(&mut self, point: Point) {
        if point.is_gap() {
            return;
        }
        if self.count == 0.0 {
            *self = Self { point, count: 1.0, waits: point.waits.map(packets) };
            return;
        }
        self.count += 1.0;
        let sum = &mut self.point;
        let mean = |mean: &mut f32, value: f32| *mean += (value - *mean) / self.count;
        mean(&mut sum.rate, point.rate);
        mean(&mut sum.borrowed, point.borrowed);
        mean(&mut sum.queue, point.queue);
        mean(&mut sum.median, point.median);
        sum.long = sum.long.max(point.long);
        sum.drops += point.drops;
        sum.marks += point.marks;
        sum.kept += point.kept;
        sum.missed += point.missed;
        for ((all, new), code_of) in self.waits.iter_mut().zip(point.waits).zip(&mut sum.waits) {
            *all += packets(new);
            *code_of = code(*all);
        }
    }
}

#[derive(Clone, Debug)]
struct Series {
    direction: String,
    class: String,
    /// The point of step s is at s modulo the length.
    rings: [Vec<Point>; 3],
    sums: [Sum; 3],
    /// The second of the last push.
    last: u64,
}

impl Series {
    fn new(direction: &str, class: &str) -> Self {
        Self {
            direction: direction.into(),
            class: class.into(),
            rings: RINGS.map(|(_, length)| vec![Point::GAP; length]),
            sums: [Sum::NOTHING; 3],
            last: 0,
        }
    }
}

/// A class in a minute, or in the beginning of one.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Record {
    pub direction: String,
    pub class: String,
    /// How many seconds of the minute were measured, 1 to 60.
    pub seconds: u8,
    pub point: Point,
}

/// The classes in a minute.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Minute {
    /// Its first second since 1970.
    pub from: u64,
    pub records: Vec<Record>,
}

/// The history of the last day. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct History {
    series: Vec<Series>,
    /// The second that was pushed last.
    now: u64,
    /// The first second.
    began: u64,
    /// The last minute that is over, until it is taken.
    over: Option<Minute>,
}

impl History {
    /// Adds second `second` (since 1970) of the present classes: direction, name, measurements. A second that was pushed
    /// already is unchanged.
    pub fn push<'a>(&mut self, second: u64, classes: impl Iterator<Item = (&'a str, &'a str, Point)>) {
        if second < self.now.saturating_sub(1) {
            *self = Self::default();
        }
        if second <= self.now {
            return;
        }
        if self.now == 0 {
            self.began = second;
        }
        // A late observation covers the seconds before it as well.
        let late = second - self.now;
        if self.now != 0 && (2..=LATE).contains(&late) {
            let part = |point: Point| point.part(late as f32);
            let classes: Vec<_> = classes.map(|(direction, class, point)| (direction, class, part(point))).collect();
            for between in self.now + 1..=second {
                self.remember(between, classes.iter().copied());
            }
        } else {
            self.remember(second, classes);
        }
    }

    fn remember<'a>(&mut self, second: u64, classes: impl Iterator<Item = (&'a str, &'a str, Point)>) {
        self.pass(second);
        for (direction, class, point) in classes {
            let Some(place) = self.place(direction, class, second) else { continue };
            let series = &mut self.series[place];
            series.last = second;
            for ((ring, sum), (step, length)) in series.rings.iter_mut().zip(&mut series.sums).zip(RINGS) {
                sum.add(point);
                // A step that is not over has the mean so far.
                ring[(second / step) as usize % length] = sum.point;
            }
        }
    }

    /// The place of a class, which is new or has been observed before `second`; `None` where there is no room.
    fn place(&mut self, direction: &str, class: &str, second: u64) -> Option<usize> {
        let found = self.series.iter().position(|series| series.direction == direction && series.class == class);
        if found.is_some() {
            return found;
        }
        if self.series.len() < MOST {
            self.series.push(Series::new(direction, class));
            return Some(self.series.len() - 1);
        }
        // The class that has been absent for longest is replaced.
        let (place, oldest) = self.series.iter_mut().enumerate().min_by_key(|(_, series)| series.last)?;
        if oldest.last + 60 >= second {
            return None;
        }
        *oldest = Series::new(direction, class);
        Some(place)
    }

    /// Advances to `second`: steps between become gaps, and a new step begins empty.
    fn pass(&mut self, second: u64) {
        if self.now > 0 && second / 60 > self.now / 60 {
            self.over = Some(self.minute()).filter(|minute| !minute.records.is_empty());
        }
        for series in &mut self.series {
            for ((ring, sum), (step, length)) in series.rings.iter_mut().zip(&mut series.sums).zip(RINGS) {
                let (from, to) = (self.now / step, second / step);
                if to > from {
                    *sum = Sum::NOTHING;
                }
                for gap in (from + 1..=to).rev().take(length) {
                    ring[gap as usize % length] = Point::GAP;
                }
            }
        }
        self.now = second;
    }

    /// The last minute that is over; `None` if it was taken.
    pub(super) fn take_over(&mut self) -> Option<Minute> {
        self.over.take()
    }
    /// The minute of the last push, so far.
    pub(super) fn minute(&self) -> Minute {
        let measured = self.series.iter().filter(|series| series.sums[2].count > 0.0);
        let record = |series: &Series| Record {
            direction: series.direction.clone(),
            class: series.class.clone(),
            seconds: series.sums[2].count.min(60.0) as u8,
            point: series.sums[2].point,
        };
        Minute { from: self.now / 60 * 60, records: measured.map(record).collect() }
    }

    /// Every minute of the last day.
    pub(super) fn minutes(&self) -> Vec<Minute> {
        let (step, length) = RINGS[2];
        let last = self.now / step;
        let first = (last + 1).saturating_sub(length as u64).max(self.began / step);
        let minute = |place: u64| {
            let of = |series: &Series| {
                let point = series.rings[2][place as usize % length];
                let (direction, class) = (series.direction.clone(), series.class.clone());
                (!point.is_gap()).then_some(Record { direction, class, seconds: 60, point })
            };
            Minute { from: place * step, records: self.series.iter().filter_map(of).collect() }
        };
        let mut minutes: Vec<Minute> = (first..last).map(minute).filter(|minute| !minute.records.is_empty()).collect();
        minutes.extend(Some(self.minute()).filter(|minute| !minute.records.is_empty()));
        minutes
    }

    /// Adds a minute of an earlier process, later than all before. Of one that is not over the rest may be pushed. The finer
    /// rings receive even parts of it if it is `recent`.
    pub(super) fn restore(&mut self, minute: &Minute, recent: bool) {
        let longest = minute.records.iter().map(|record| u64::from(record.seconds)).max().unwrap_or(0);
        if self.now == 0 {
            self.began = minute.from;
        }
        for second in (minute.from..minute.from + longest).filter(|_| recent) {
            let covered = minute.records.iter().filter(|record| minute.from + u64::from(record.seconds) > second);
            let part = |record: &Record| record.point.part(record.seconds.into());
            let points = covered.map(|record| (record.direction.as_str(), record.class.as_str(), part(record)));
            self.remember(second, points);
        }
        let last = (minute.from + longest).saturating_sub(1).max(self.now);
        self.pass(last);
        // The whole is exact; the sum of its parts is not.
        for record in &minute.records {
            let Some(place) = self.place(&record.direction, &record.class, last) else { continue };
            let (step, length) = RINGS[2];
            let series = &mut self.series[place];
            series.last = last;
            series.rings[2][(minute.from / step) as usize % length] = record.point;
            let waits = record.point.waits.map(packets);
            series.sums[2] = Sum { point: record.point, count: record.seconds.into(), waits };
        }
        self.over = None;
    }

    /// The number of classes with a history.
    pub fn len(&self) -> usize {
        self.series.len()
    }
    /// Whether no class has a history.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Returns the point of a class in ring `ring` at the step of second `second`; `None` in gaps and outside of the ring.
    pub fn at(&self, ring: usize, direction: &str, class: &str, second: u64) -> Option<Point> {
        let (step, length) = RINGS[ring];
        let inside = second <= self.now && second / step + length as u64 > self.now / step;
        let series = self.series.iter().find(|series| series.direction == direction && series.class == class)?;
        let point = series.rings[ring][(second / step) as usize % length];
        (inside && !point.is_gap()).then_some(point)
    }

    /// Returns the finest ring that covers `span` seconds, after second `since`, as JSON: `step_s`, `from_s` (the first step, in
    /// seconds since 1970), and for each class its values step by step, `null` in gaps; and `waits`, the packets in each range
    /// of waits as hexadecimal text: two digits for the first range, then two for the code of each ([`encode`]).
    pub fn json(&self, span: u64, since: u64) -> Value {
        let ring = RINGS.iter().position(|&(step, length)| step * length as u64 >= span).unwrap_or(RINGS.len() - 1);
        let (step, length) = RINGS[ring];
        let last = self.now / step;
        let first = (last + 1).saturating_sub((span.max(1).div_ceil(step)).min(length as u64));
        let first =
            first.max(self.began / step).max(since.checked_div(step).map_or(0, |s| if since == 0 { 0 } else { s }));
        let series = self.series.iter().map(|series| {
            let points = (first..=last).map(|place| &series.rings[ring][place as usize % length]);
            let mut columns: [Vec<Value>; 9] = Default::default();
            let mut waits = Vec::new();
            for point in points {
                waits.push(point.waits_text().map_or(Value::Null, Value::from));
                for (column, value) in columns.iter_mut().zip(point.values()) {
                    column.push(number(value));
                }
            }
            let mut object = json!({ "direction": series.direction, "class": series.class, "waits": waits });
            for (name, column) in Point::NAMES.into_iter().zip(columns) {
                object[name] = Value::Array(column);
            }
            object
        });
        let series: Vec<Value> = if self.now == 0 { Vec::new() } else { series.collect() };
        json!({ "step_s": step, "from_s": first * step, "series": series })
    }
}

/// Four digits are enough for a pixel.
fn number(value: f32) -> Value {
    if value.is_nan() {
        Value::Null
    } else if value >= 1_000.0 {
        Value::from(f64::from(value).round() as u64)
    } else {
        let scale = 1e6;
        Value::from((f64::from(value) * scale).round() / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(rate: f32, long: f32, drops: f32) -> Point {
        let mut waits = [0; WAITS];
        waits[3] = code(100.0);
        let queue = 2.0 * rate;
        Point { rate, borrowed: 0.0, queue, median: long / 2.0, long, drops, marks: 1.0, kept: 1.0, missed: 0.0, waits }
    }

    fn push(history: &mut History, second: u64, point: Point) {
        history.push(second, [("up", "calls", point)].into_iter());
    }

    const START: u64 = 1_800_000_000;

    #[test]
    fn coarse_points_are_made_of_fine_ones() {
        let mut history = History::default();
        for s in 0..60 {
            push(&mut history, START + s, point(s as f32, if s == 33 { 9.0 } else { 1.0 }, 2.0));
        }
        let at = |ring, second| history.at(ring, "up", "calls", second).unwrap();
        assert_eq!(at(0, START + 41).rate, 41.0);
        // 30 to 39: mean 34.5, the largest wait, the sum of the drops.
        let ten = at(1, START + 30);
        assert_eq!((ten.rate, ten.long, ten.drops, ten.queue), (34.5, 9.0, 20.0, 69.0));
        let minute = at(2, START);
        assert!((minute.rate - 29.5).abs() < 1e-3);
        assert_eq!((minute.long, minute.drops, minute.marks, minute.kept), (9.0, 120.0, 60.0, 60.0));
        // 60 times 100 packets: 1 + 8 log2 6000 = 101.4, and 100 is 1 + 8 log2 100 = 54.2 = 0x36.
        assert_eq!((minute.waits[3], minute.waits[2], code(100.0)), (101, 0, 54));
    }

    #[test]
    fn waits_are_few_characters() {
        // 5 packets in the second range, 1,000 in the fourth: 8 log2 5 = 18.6, 8 log2 1000 = 79.7.
        let mut cumulative = [1_005; WAITS];
        (cumulative[0], cumulative[1], cumulative[2]) = (0, 5, 5);
        let point = Point { waits: encode(cumulative), ..point(1.0, 1.0, 0.0) };
        assert_eq!(point.waits_text().as_deref(), Some("01140051"));
        assert!((packets(0x14) / 5.0 - 1.0).abs() < 0.09 && (packets(0x51) / 1_000.0 - 1.0).abs() < 0.09);
        assert_eq!(Point { waits: [0; WAITS], ..point }.waits_text().as_deref(), Some(""));
        assert_eq!(Point::GAP.waits_text(), None);
    }

    #[test]
    fn a_day_and_no_more_is_remembered() {
        let mut history = History::default();
        for s in 0..100_000 {
            push(&mut history, START + s, point(s as f32, 1.0, 0.0));
        }
        let end = START + 99_999;
        let known = |ring, second| history.at(ring, "up", "calls", second).is_some();
        for (ring, (step, length)) in RINGS.into_iter().enumerate() {
            let span = step * (length as u64 - 1);
            assert!(known(ring, end - span) && !known(ring, end - span - step), "ring {ring}");
        }
        assert_eq!(RINGS.map(|(step, length)| step * length as u64), [600, 7_200, 86_400]);
        // 2,760 points of 60 bytes a class.
        let bytes: usize = history.series[0].rings.iter().map(|ring| ring.capacity() * size_of::<Point>()).sum();
        assert_eq!(bytes, 165_600);
    }

    #[test]
    fn a_sleep_is_a_gap_and_a_clock_set_back_a_new_beginning() {
        let mut history = History::default();
        push(&mut history, START, point(1.0, 1.0, 0.0));
        push(&mut history, START + 3, point(6.0, 1.0, 6.0));
        // Three seconds in one look: each had a third of the drops, and the same rate.
        let late = history.at(0, "up", "calls", START + 1).unwrap();
        assert_eq!((late.rate, late.drops), (6.0, 2.0));
        push(&mut history, START + 100, point(2.0, 1.0, 0.0));
        for between in [START + 4, START + 50, START + 99] {
            assert_eq!(history.at(0, "up", "calls", between), None);
        }
        assert_eq!(history.at(1, "up", "calls", START + 50), None);
        assert_eq!(history.at(0, "up", "calls", START).unwrap().rate, 1.0);
        // Longer than everything: nothing is left.
        push(&mut history, START + 1_000_000, point(3.0, 1.0, 0.0));
        let json = history.json(86_400, 0);
        let rates = json["series"][0]["rate_bps"].as_array().unwrap();
        assert_eq!((rates.len(), rates.iter().filter(|rate| !rate.is_null()).count()), (1_440, 1));
        push(&mut history, START, point(4.0, 1.0, 0.0));
        assert_eq!((history.len(), history.json(600, 0)["from_s"].as_u64()), (1, Some(START)));
    }

    #[test]
    fn classes_come_and_go_within_bounds() {
        let mut history = History::default();
        for s in 0..200 {
            let name = format!("class {s}");
            history.push(START + s, [("up", name.as_str(), point(1.0, 1.0, 0.0))].into_iter());
        }
        assert_eq!(history.len(), MOST);
        assert!(history.at(0, "up", "class 199", START + 199).is_some(), "the newest are there");
        assert!(history.at(0, "up", "class 0", START).is_none(), "the oldest made room");
        // More classes at once than are remembered: the first stay.
        let names: Vec<String> = (0..100).map(|n| format!("at once {n}")).collect();
        let mut history = History::default();
        for s in 0..100 {
            history.push(START + s, names.iter().map(|name| ("up", name.as_str(), point(1.0, 1.0, 0.0))));
        }
        assert!(history.at(0, "up", "at once 63", START + 99).is_some());
        assert!(history.at(0, "up", "at once 64", START + 99).is_none());
    }

    #[test]
    fn only_what_is_new_is_returned() {
        let mut history = History::default();
        for s in 0..50 {
            push(&mut history, START + s, point(s as f32, 0.001_234_7, 0.0));
        }
        let all = history.json(600, 0);
        assert_eq!((all["step_s"].as_u64(), all["from_s"].as_u64()), (Some(1), Some(START)));
        assert_eq!(all["series"][0]["rate_bps"].as_array().unwrap().len(), 50);
        assert_eq!(all["series"][0]["wait_p99_s"][3], json!(0.001_235));
        let new = history.json(600, START + 48);
        assert_eq!(new["series"][0]["rate_bps"], json!([48.0, 49.0]));
        assert_eq!(history.json(7_200, 0)["step_s"], 10);
        assert_eq!(History::default().json(600, 0)["series"], json!([]));
    }
}
