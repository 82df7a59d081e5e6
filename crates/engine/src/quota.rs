//! Counts of rules, and their quotas: a meter in each engine counts packets, a [`Ledger`] adds up those of quotas by period.
//!
//! *Law*: a byte that the meter of an engine has counted reaches the ledger once, also when the rules change in between; and a rule
//! that is the same before and after a change goes on with its count.
//! *Units*: bytes of packets on the link, with its overhead, as the classes count them, when they arrive. Packets that are dropped
//! later count as well.
//! *Cost*: two additions for each packet that matches a rule, whatever their number.
//! *Notes*: whoever drives the engine takes the counts from time to time and switches off the rules that have used up their quota
//! ([`Names::off`](crate::Names)). A rule may therefore take as much more as arrives between two of these times.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;

use tidegate_config::shaper::{Config, Rule};
use tidegate_config::values::{Date, Period, Quota};
use tidegate_core::{Account, Bytes};
use tidegate_metrics::Digest;

/// The most rules with a quota that a ledger keeps. When there are more, those whose period is the oldest are forgotten.
pub const MOST: usize = 4_096;

/// The heading of a ledger as text.
const HEADING: &str = "tidegate quotas 1";

/// The rule to which a count belongs: the digest of [`Config::quota_key`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(String);

impl Key {
    fn new(config: &Config, rule: &Rule) -> Self {
        let mut digest = Digest::default();
        digest.bytes(config.quota_key(rule).as_bytes());
        Self(digest.to_string())
    }
}

/// The counts to which the rules of `config` belong, in the order of the file.
pub fn keys(config: &Config) -> Vec<Key> {
    config.rules.iter().map(|rule| Key::new(config, rule)).collect()
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The packets that each rule has matched, and which of them the ledger does not have yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// By rule.
    keys: Vec<Key>,
    /// By rule.
    counts: Vec<Account>,
    /// The rules with a quota, and the bytes of each that were taken.
    quotas: Vec<(u32, u64)>,
    /// Counts of earlier rules that were not taken.
    left: Vec<(Key, u64)>,
}

impl Meter {
    pub fn new(config: &Config) -> Self {
        let keys = keys(config);
        let quotas = config.quotas().map(|(at, ..)| (at, 0)).collect();
        Self { counts: vec![Account::default(); keys.len()], keys, quotas, left: Vec::new() }
    }
    /// Counts a packet that matched `rule`.
    #[inline]
    pub fn count(&mut self, rule: Option<u32>, size: Bytes) {
        // The rules of reservations are numbered after those of the file.
        if let Some(count) = rule.and_then(|rule| self.counts.get_mut(rule as usize)) {
            count.count(size);
        }
    }
    /// Counts packets that another classifier has counted for the rule of `key`: for the first of those that are alike. Those of a rule
    /// that is gone are kept for its quota.
    pub fn add(&mut self, key: &Key, counted: Account) {
        match self.keys.iter().position(|known| known == key) {
            Some(rule) => self.counts[rule].add(counted),
            None => self.left.push((key.clone(), counted.bytes.as_u64())),
        }
    }
    /// The packets that each rule has matched, in the order of the file.
    pub fn counts(&self) -> &[Account] {
        &self.counts
    }
    /// Goes on with the rules of `next`, which has counted nothing yet. Of rules that are alike, the first one continues the first.
    /// Returns the new number of each rule, `None` of one that is gone; or nothing if all keep theirs.
    pub fn continue_as(&mut self, mut next: Self) -> Option<Vec<Option<u32>>> {
        next.left = self.take();
        let mut moved = None;
        if next.keys == self.keys {
            next.counts = std::mem::take(&mut self.counts);
        } else {
            let mut known: HashMap<&Key, VecDeque<usize>> = HashMap::new();
            self.keys.iter().zip(0..).for_each(|(key, rule)| known.entry(key).or_default().push_back(rule));
            let mut to = vec![None; self.keys.len()];
            for (number, (key, count)) in (0..).zip(next.keys.iter().zip(&mut next.counts)) {
                if let Some(rule) = known.get_mut(key).and_then(VecDeque::pop_front) {
                    (*count, to[rule]) = (self.counts[rule], Some(number));
                }
            }
            moved = Some(to);
        }
        for (rule, taken) in &mut next.quotas {
            *taken = next.counts[*rule as usize].bytes.as_u64();
        }
        *self = next;
        moved
    }
    /// Returns what rules with a quota have counted since the last call.
    pub fn take(&mut self) -> Vec<(Key, u64)> {
        let mut all = std::mem::take(&mut self.left);
        for (rule, taken) in &mut self.quotas {
            let counted = self.counts[*rule as usize].bytes.as_u64();
            let new = counted - std::mem::replace(taken, counted);
            all.extend((new > 0).then(|| (self.keys[*rule as usize].clone(), new)));
        }
        all
    }
}

/// The bytes of a period so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    period: Period,
    /// The first day of the period.
    begun: Date,
    used: u64,
}

impl Entry {
    fn new(period: Period, today: Date) -> Self {
        Self { period, begun: period.begin(today), used: 0 }
    }
    /// Begins anew if another period has begun. A clock that is behind by up to a period was set back or is about to be, as at the
    /// end of summer time, and one before 2026 is not set yet: the count goes on.
    fn roll(&mut self, today: Date) {
        let is_later = self.period.begin(today) > self.begun;
        let was_ahead =
            self.begun > self.period.next(today) && Date::new(2026, 1, 1).is_some_and(|first| today >= first);
        if is_later || was_ahead {
            *self = Self::new(self.period, today);
        }
    }
}

/// How far a rule has used up its quota.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotaState {
    /// The index of the rule.
    pub rule: u32,
    /// Names the count. Rules with the same one share it.
    pub key: Key,
    /// Its quota.
    pub quota: Quota,
    /// The bytes that it has taken since the period began. They exceed the quota by those that arrived until it was switched off.
    pub used: Bytes,
    /// The day on which the quota begins anew.
    pub next: Date,
}

impl QuotaState {
    /// Whether nothing is left.
    pub fn is_used_up(&self) -> bool {
        self.used >= self.quota.amount
    }
    /// The bytes that are left of it.
    pub fn left(&self) -> Bytes {
        Bytes::new(self.quota.amount.as_u64().saturating_sub(self.used.as_u64()))
    }
}

/// The counts of all rules with a quota, by period. As text ([`fmt::Display`], [`Ledger::parse`]) it outlives the process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ledger(BTreeMap<Key, Entry>);

impl Ledger {
    /// Adds what engines by `config` have counted ([`Engine::take_quotas`](crate::Engine::take_quotas)), and begins the periods that
    /// begin at `today` or have begun since the last call.
    pub fn settle(&mut self, config: &Config, today: Date, counted: impl IntoIterator<Item = (Key, u64)>) {
        let keys: Vec<(Key, Quota)> = config.quotas().map(|(_, rule, quota)| (Key::new(config, rule), quota)).collect();
        for (key, quota) in &keys {
            self.0.entry(key.clone()).or_insert(Entry::new(quota.period, today));
        }
        // What was counted since the last call belongs to the period before.
        for (key, bytes) in counted {
            if let Some(entry) = self.0.get_mut(&key) {
                entry.used = entry.used.saturating_add(bytes);
            }
        }
        for (key, _) in &keys {
            if let Some(entry) = self.0.get_mut(key) {
                entry.roll(today);
            }
        }
        while self.0.len() > MOST {
            let oldest = self.0.iter().min_by_key(|(_, entry)| entry.begun).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.0.remove(&key));
        }
    }
    /// The rules of `config` with a quota, as [`settle`](Self::settle) has left them.
    pub fn states(&self, config: &Config) -> Vec<QuotaState> {
        let state = |(rule, one, quota): (u32, &Rule, Quota)| {
            let key = Key::new(config, one);
            let entry = self.0.get(&key)?;
            Some(QuotaState { rule, key, quota, used: Bytes::new(entry.used), next: entry.period.next(entry.begun) })
        };
        config.quotas().filter_map(state).collect()
    }
    /// The indices of the rules of `config` whose quota is used up.
    pub fn used_up(&self, config: &Config) -> BTreeSet<u32> {
        self.states(config).iter().filter(|state| state.is_used_up()).map(|state| state.rule).collect()
    }

    /// Reads a ledger that was written as text. Lines that are not as they should be are left out; the number of the first of them
    /// is returned as well.
    pub fn parse(text: &str) -> (Self, Option<usize>) {
        let (mut ledger, mut wrong) = (Self::default(), None);
        for (number, line) in (1..).zip(text.lines()) {
            let entry = (number > 1).then(|| entry(line)).flatten();
            match entry {
                Some((key, entry)) if ledger.0.len() < MOST => drop(ledger.0.insert(key, entry)),
                None if number == 1 && line == HEADING => {}
                _ => wrong = wrong.or(Some(number)),
            }
            if wrong == Some(1) {
                break;
            }
        }
        (ledger, wrong)
    }
}

fn entry(line: &str) -> Option<(Key, Entry)> {
    let [key, period, begun, used] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
    Digest::from_hex(key)?;
    let (period, begun) = (Period::of_word(period)?, Date::parse(begun)?);
    let is_begin = period.begin(begun) == begun && used.bytes().all(|c| c.is_ascii_digit());
    let used = used.parse().ok().filter(|_| is_begin)?;
    Some((Key(key.to_ascii_lowercase()), Entry { period, begun, used }))
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADING}")?;
        for (key, Entry { period, begun, used }) in &self.0 {
            writeln!(f, "{} {} {begun} {used}", key.0, period.word())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::{Diagnostics, Source, shaper};

    fn config(rules: &str) -> Config {
        let classes = "version = 1\n[[class]]\nname = \"a\"\nrate = \"1mbit\"\ndefault = true\n";
        let source = Source::new("quota.toml", format!("{classes}{rules}"));
        let mut diagnostics = Diagnostics::new();
        shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
    }
    fn rule(conditions: &str) -> String {
        format!("[[rule]]\nclass = \"a\"\n{conditions}\n")
    }
    fn date(text: &str) -> Date {
        Date::parse(text).unwrap_or_else(|| panic!("{text}"))
    }
    fn counted(config: &Config, rule: u32, bytes: u64) -> Vec<(Key, u64)> {
        let mut meter = Meter::new(config);
        meter.count(Some(rule), Bytes::new(bytes));
        meter.take()
    }

    #[test]
    fn a_quota_is_used_up_and_begins_anew() {
        let config = config(&(rule("port = 1") + &rule("port = 2\nquota = \"1kB/month\"")));
        let mut ledger = Ledger::default();
        ledger.settle(&config, date("2026-11-30"), counted(&config, 1, 999));
        let state = ledger.states(&config).remove(0);
        assert_eq!((state.rule, state.left().as_u64(), state.next), (1, 1, date("2026-12-01")));
        assert!(ledger.used_up(&config).is_empty());
        ledger.settle(&config, date("2026-11-30"), counted(&config, 1, 1));
        assert_eq!(ledger.used_up(&config), [1].into());
        // These bytes arrived before midnight.
        ledger.settle(&config, date("2026-12-01"), counted(&config, 1, 5_000));
        assert_eq!((ledger.used_up(&config), ledger.states(&config)[0].used), (BTreeSet::new(), Bytes::ZERO));
        assert_eq!(counted(&config, 0, 7), [], "a rule without a quota");
    }

    #[test]
    fn a_count_stays_with_its_rule() {
        let old = config(&rule("port = 2\nquota = \"1kB/month\""));
        let (mut ledger, today) = (Ledger::default(), date("2026-11-30"));
        ledger.settle(&old, today, counted(&old, 0, 600));
        let used = |rules: &str| {
            let next = config(rules);
            let mut ledger = ledger.clone();
            ledger.settle(&next, today, []);
            ledger.states(&next).iter().map(|state| (state.rule, state.used.as_u64())).collect::<Vec<_>>()
        };
        assert_eq!(used(&(rule("port = 1") + &rule("port = 2\nquota = \"5kB/month\""))), [(1, 600)]);
        assert_eq!(used(&rule("port = 3\nquota = \"1kB/month\"")), [(0, 0)]);
        assert_eq!(used(&rule("port = 2\nquota = \"1kB/week\"")), [(0, 0)]);
        let named = |port: u16| config(&rule(&format!("name = \"n\"\nport = {port}\nquota = \"1kB/day\"")));
        ledger.settle(&named(1), today, counted(&named(1), 0, 5));
        assert_eq!(ledger.states(&named(2))[0].used.as_u64(), 5, "a name keeps the count when conditions change");
    }

    /// A packet for which two rules are alike is counted by the first; the quota of a rule that is gone keeps its count.
    #[test]
    fn counts_of_another_classifier_are_added_by_rule() {
        let port = |port: u16| rule(&format!("port = {port}\nquota = \"1kB/month\""));
        let (old, new) = (config(&(port(1) + &port(2))), config(&(port(2) + &port(2))));
        let mut meter = Meter::new(&old);
        meter.continue_as(Meter::new(&new));
        let added = Account { packets: 2, bytes: Bytes::new(300) };
        keys(&old).iter().for_each(|key| meter.add(key, added));
        assert_eq!(meter.counts(), [added, Account::default()]);
        assert_eq!(meter.take(), [(keys(&old)[0].clone(), 300), (keys(&old)[1].clone(), 300)]);
    }

    #[test]
    fn what_was_not_taken_outlives_a_change_of_the_rules() {
        let (old, new) = (config(&rule("port = 2\nquota = \"1kB/day\"")), config(&rule("port = 1")));
        let mut meter = Meter::new(&old);
        meter.count(Some(0), Bytes::new(40));
        meter.continue_as(Meter::new(&new));
        meter.count(Some(0), Bytes::new(2));
        meter.count(None, Bytes::new(2));
        let taken = meter.take();
        assert_eq!(taken.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), [40]);
        assert!(meter.take().is_empty());
    }

    #[test]
    fn every_rule_counts_and_goes_on_when_it_moves() {
        let counts =
            |meter: &Meter| meter.counts().iter().map(|one| (one.packets, one.bytes.as_u64())).collect::<Vec<_>>();
        let old = config(
            &(rule("port = 1") + &rule("port = 2\nquota = \"1kB/day\"") + &rule("port = 3") + &rule("port = 3")),
        );
        let mut meter = Meter::new(&old);
        for (number, size) in [(0, 100), (1, 40), (1, 2), (2, 7), (3, 9), (4, 1_000)] {
            meter.count(Some(number), Bytes::new(size));
        }
        meter.count(None, Bytes::new(1_000));
        assert_eq!(counts(&meter), [(1, 100), (2, 42), (1, 7), (1, 9)], "no rule has number 4");
        // Where a quota is used up the rules stay as they are.
        assert_eq!(meter.continue_as(Meter::new(&old)), None);
        assert_eq!(counts(&meter), [(1, 100), (2, 42), (1, 7), (1, 9)]);
        let new = config(
            &(rule("port = 3") + &rule("port = 9") + &rule("port = 2\nquota = \"5kB/day\"") + &rule("port = 3")),
        );
        assert_eq!(meter.continue_as(Meter::new(&new)), Some(vec![None, Some(2), Some(0), Some(3)]));
        meter.count(Some(2), Bytes::new(8));
        assert_eq!(counts(&meter), [(1, 7), (0, 0), (3, 50), (1, 9)]);
        // The ledger has each byte once.
        assert_eq!(meter.take().iter().map(|(_, bytes)| *bytes).sum::<u64>(), 50);
        assert!(meter.take().is_empty());
    }

    #[test]
    fn a_clock_that_is_behind_does_not_renew_a_quota() {
        let config = config(&rule("quota = \"1kB/day\""));
        let used = |days: &[&str]| {
            let mut ledger = Ledger::default();
            ledger.settle(&config, date("2026-11-26"), counted(&config, 0, 5));
            days.iter().for_each(|day| ledger.settle(&config, date(day), []));
            ledger.states(&config)[0].used.as_u64()
        };
        // Midnight comes twice, or the machine has no clock of its own.
        assert_eq!((used(&["2026-11-25"]), used(&["1970-01-01", "2026-11-26"])), (5, 5));
        // The clock was wrong when the count began.
        assert_eq!((used(&["2026-11-20"]), used(&["2026-11-27"])), (0, 0));
    }

    #[test]
    fn a_ledger_is_written_and_read_and_nothing_in_it_is_trusted() {
        let config = config(&rule("quota = \"1kB/week\""));
        let mut ledger = Ledger::default();
        ledger.settle(&config, date("2026-11-26"), counted(&config, 0, 77));
        let text = ledger.to_string();
        assert!(text.ends_with(" week 2026-11-23 77\n"), "{text}");
        assert_eq!(Ledger::parse(&text), (ledger.clone(), None));
        let bad = ["x week 2026-11-23 7", "week", "", &text[18..40]];
        for line in bad {
            assert_eq!(Ledger::parse(&format!("{text}{line}\n")), (ledger.clone(), Some(3)), "{line}");
        }
        let key = &text.lines().nth(1).unwrap_or_default()[..32];
        for rest in [
            "week 2026-11-24 7",
            "day 2026-11-24 -7",
            "day 2026-11-24 +7",
            "year 2026-01-01 7",
            "day 2026-11-24 99999999999999999999",
        ] {
            assert_eq!(Ledger::parse(&format!("{HEADING}\n{key} {rest}\n")), (Ledger::default(), Some(2)), "{rest}");
        }
        assert_eq!(Ledger::parse(&format!("other\n{text}")), (Ledger::default(), Some(1)));
        let many: String = (0..MOST + 1).map(|n| format!("{n:032x} day 2026-11-26 1\n")).collect();
        let (read, wrong) = Ledger::parse(&format!("{HEADING}\n{many}"));
        assert_eq!((read.0.len(), wrong), (MOST, Some(MOST + 2)));
    }

    #[test]
    fn the_oldest_counts_are_forgotten_first() {
        let many: String = (0..MOST).map(|n| format!("{n:032x} day 2026-11-{:02} 1\n", 1 + n % 20)).collect();
        let (mut ledger, _) = Ledger::parse(&format!("{HEADING}\n{many}"));
        let config = config(&rule("quota = \"1kB/day\""));
        ledger.settle(&config, date("2026-11-26"), counted(&config, 0, 9));
        assert_eq!((ledger.0.len(), ledger.states(&config)[0].used.as_u64()), (MOST, 9));
        assert!(!ledger.0.contains_key(&Key(format!("{:032x}", 0))));
    }
}
