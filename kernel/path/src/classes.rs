//! [`Classes`]: the classes of a configuration as numbers for the program.

use std::ops::Range;

use tidegate_config::discipline::Discipline;
use tidegate_config::discipline::cbq::{CbqClass, CbqQueue};
use tidegate_config::shaper::{Class, Config, Shaper};
use tidegate_core::fbq::{Borrow, Ceiling, Ceilings, Displace, FairBy, Marking, Spare};
use tidegate_core::{Bytes, ClassId, Span};

use super::discipline::{PACKETS, Place, options_of};
use super::options::fbq_class_options::{ACCOUNT, BORROWS, BURST, INSIDE, RATE, WORDS as CLASS};
use super::options::fbq_options::{
    BURST as TOTAL_BURST, CLASSES as COUNT, CONDITIONS, DEFAULT_CLASS, FLOWS, RATE as TOTAL, STRUCTURE, WORDS as HEAD,
};
use super::options::fbq_profile::WORDS as PROFILE;
use super::options::fbq_promise::WORDS as PROMISE;
use super::options::{CAKE, CBQ_LEAVES, FBQ_CLASSES, FBQ_PROFILES, FBQ_PROMISES, FIFO, INGRESS, MERED, Options, SPACE};
use super::shards::{Granted, Rates};

const CLASSES: usize = FBQ_CLASSES as usize;
const PROFILES: usize = FBQ_PROFILES as usize;
/// The lateness that the program makes up for, equal to that of the data path in user space.
pub(super) const CATCH_UP: Span = Span::from_millis(5);
/// The first word of promises.
pub(super) const PROMISES: usize = HEAD + CLASSES * CLASS + PROFILES * PROFILE;
/// The first word of the disciplines in classes.
const INSIDES: usize = PROMISES + FBQ_PROMISES as usize * PROMISE;

/// `struct twin_fbq_options`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Classes {
    numbers: Vec<u64>,
    /// Whether a discipline in a class marks packets, and whether one gives them code points by their colours.
    marks: bool,
    remarks: bool,
    /// The leaves of CBQ that reservations get. The limits of their queues change in place.
    pub reserved: Range<u64>,
}

impl Classes {
    /// The classes of `shaper`, whose packets have up to `largest` bytes. Random streams are derived from `seed`. Settings that the
    /// program does not support are reported to `lack`, differences in its behaviour to `note`.
    pub fn new(
        config: &Config,
        shaper: &Shaper,
        largest: u64,
        seed: u64,
        lack: &mut dyn FnMut(String),
        note: &mut dyn FnMut(String),
    ) -> Self {
        if shaper.classes.len() > CLASSES {
            lack(format!("{} classes (up to {CLASSES} are possible)", shaper.classes.len()));
        }
        let insides: Vec<_> = shaper.classes.iter().map(|class| inside(class, largest, seed, lack)).collect();
        examine(&insides, lack);
        let profiles = config.profiles();
        if profiles.len() > PROFILES {
            lack(format!("{} rules (up to {} are possible)", config.rules.len(), PROFILES - 1));
        }
        let smallest = shaper.classes.iter().map(|class| class.params().burst).min().unwrap_or(Bytes::ZERO);
        if smallest.min(shaper.burst).as_u64() < largest {
            note(format!(
                "up to {} may leave at once of a class, although less is asked for: the kernel does not segment superpackets \
                 here",
                Bytes::new(largest)
            ));
        }
        let params = shaper.params(CATCH_UP);
        let mut numbers = vec![
            params.rate.as_bps(),
            params.burst.as_u64().max(largest),
            params.idle_timeout.as_nanos(),
            params.max_flows as u64,
            params.catch_up.as_nanos(),
            shaper.classes.len() as u64,
            profiles.len() as u64,
            0,
            config.default_class.0.into(),
            0,
            match params.fair_by {
                FairBy::Flow => 0,
                FairBy::Source => 1,
                FairBy::Destination => 2,
            },
        ];
        for (class, inside) in shaper.classes.iter().zip(&insides).take(CLASSES) {
            let params = class.params();
            let Ceilings { class, host, flow } = params.at_most;
            numbers.extend([
                0,
                params.rate.as_bps(),
                params.burst.as_u64().max(largest),
                params.flow_burst.as_u64().max(largest),
                params.priority.into(),
                u64::from(params.borrow == Borrow::FromOthers),
                params.limit.as_u64(),
                params.flow_limit.as_u64(),
                u64::from(params.spare == Spare::Idle),
                params.increment,
            ]);
            numbers.extend([class, host, flow].into_iter().flat_map(ceiling));
            numbers.push(u64::from(inside.is_some()));
            numbers.extend(params.feedback.map_or([0; 3], |feedback| {
                let marks = u64::from(feedback.mark == Marking::EcnCapable);
                [feedback.above.as_u64().max(1), feedback.below.as_u64(), marks]
            }));
            numbers.push(params.step.map_or(0, |step| step.full.as_nanos()));
        }
        numbers.resize(HEAD + CLASSES * CLASS, 0);
        numbers.extend(profiles.iter().take(PROFILES).flat_map(|profile| {
            let [below, to] = displacement(profile.displace);
            let [most, burst] = ceiling(profile.at_most);
            [profile.weight, profile.minimum.as_bps(), below, to, most, burst]
        }));
        Self::with(numbers, &insides)
    }

    /// The leaves of CBQ, of which each has nothing but a discipline: named here with their queues. Behind them are those for
    /// reservations, each with a queue. See [`new`](Self::new).
    pub fn leaves(
        cbq: &CbqQueue,
        default: ClassId,
        largest: u64,
        seed: u64,
        lack: &mut dyn FnMut(String),
        note: &mut dyn FnMut(String),
    ) -> Self {
        let plain = Discipline::plain();
        let leaves: Vec<_> = cbq.leaves().collect();
        let reserved = cbq.reservations.as_ref().map_or(0, |section| section.value.flows.value as usize);
        let count = leaves.len() + reserved;
        if count > CBQ_LEAVES as usize {
            let beside = if reserved > 0 { format!(" with {reserved} reservations") } else { String::new() };
            lack(format!("{} classes with queues{beside} (up to {CBQ_LEAVES} are possible)", leaves.len()));
        }
        let mut one = |class: &CbqClass| {
            let name = &class.name.value;
            let discipline = class.queue.as_ref().map_or(&plain, |queue| &queue.value.0);
            // The engine names it by its place in the tree.
            discipline_of(
                discipline,
                Place { stream: &format!("root.{name}"), ..Place::class(name, seed) },
                largest,
                lack,
            )
        };
        let mut insides: Vec<_> = leaves.iter().copied().take(CLASSES).map(&mut one).collect();
        let queue = Options { kind: FIFO, limit_packets: PACKETS, limit_bytes: largest, ..Options::default() };
        insides.resize(count.min(CLASSES), Some(queue));
        examine(&insides, lack);
        // CAKE has a program of its own, as CBQ has.
        if insides.iter().flatten().any(|options| options.kind == CAKE) {
            lack("kind = \"cake\" in a class of cbq".into());
        }
        note(format!(
            "up to {} may leave at once of a class, although less is asked for: the kernel does not segment superpackets here",
            Bytes::new(largest)
        ));
        let mut numbers = vec![0; HEAD + CLASSES * CLASS];
        numbers[COUNT] = insides.len() as u64;
        numbers[DEFAULT_CLASS] = default.0.into();
        for class in 0..insides.len() {
            numbers[HEAD + class * CLASS + INSIDE] = 1;
        }
        Self { reserved: leaves.len() as u64..insides.len() as u64, ..Self::with(numbers, &insides) }
    }

    /// Sets the limit of the queue of a leaf in bytes; it has room for a superpacket in any case.
    pub fn set_limit(&self, numbers: &mut [u64], leaf: usize, limit: Bytes) {
        let words = inside_words(leaf);
        let (Some(now), Some(own)) = (numbers.get_mut(words.clone()), self.numbers.get(words)) else { return };
        let mut options = Options::of_numbers(std::array::from_fn(|word| own[word]));
        options.limit_bytes = options.limit_bytes.max(limit.as_u64());
        now.copy_from_slice(&options.numbers());
    }

    /// The numbers so far, with those of disciplines behind them.
    fn with(mut numbers: Vec<u64>, insides: &[Option<Options>]) -> Self {
        numbers.resize(INSIDES, 0);
        let options = insides.iter().take(CLASSES).map(|inside| inside.unwrap_or_default());
        numbers.extend(options.flat_map(|options| options.numbers()));
        numbers.resize(INSIDES + CLASSES * Options::NUMBERS, 0);
        let has = |what: fn(&Options) -> bool| insides.iter().flatten().any(what);
        Self { numbers, marks: has(Options::marks_any), remarks: has(Options::remarks), reserved: 0..0 }
    }

    /// Whether a discipline in a class marks packets.
    pub fn mark_inside(&self) -> bool {
        self.marks
    }

    /// Whether a discipline in a class gives packets code points by their colours.
    pub fn remark_inside(&self) -> bool {
        self.remarks
    }

    /// The rates of these classes, which are divided over shards; the classes have these `names`.
    pub fn granted(&self, names: &[String]) -> Granted {
        let each =
            |word: usize| (0..self.numbers[COUNT] as usize).map(move |class| self.numbers[HEAD + class * CLASS + word]);
        Granted {
            rates: Rates { total: self.numbers[TOTAL], classes: each(RATE).collect() },
            bursts: std::iter::once(self.numbers[TOTAL_BURST]).chain(each(BURST)).collect(),
            borrows: each(BORROWS).map(|borrows| borrows != 0).collect(),
            names: names.to_vec(),
        }
    }

    /// Fits the classes to a program that tells up to `queues` flows apart; fewer than are asked for are reported to `note`.
    pub fn within(mut self, queues: u64, note: &mut dyn FnMut(String)) -> Self {
        if self.numbers[FLOWS] > queues {
            note(format!("up to {queues} flows are told apart instead of {}", self.numbers[FLOWS]));
            self.numbers[FLOWS] = queues;
        }
        self
    }

    /// The numbers without promises, with the accounts of the classes in their order. `before` returns the numbers written last: if
    /// anything but rates and promises differs, or what belongs to the classes does not continue, the structure gets a new number.
    pub fn numbers(&self, accounts: &[usize], continues: bool, before: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut numbers = self.numbers.clone();
        for (class, account) in accounts.iter().enumerate().take(CLASSES) {
            numbers[HEAD + class * CLASS + ACCOUNT] = *account as u64;
        }
        let reserved = inside_words(self.reserved.start as usize).start..inside_words(self.reserved.end as usize).start;
        let changes_in_place = |at: usize| {
            [TOTAL, STRUCTURE, CONDITIONS].contains(&at)
                || (HEAD..HEAD + CLASSES * CLASS).contains(&at) && (at - HEAD) % CLASS == RATE
                || reserved.contains(&at)
        };
        let mut kept = (0..PROMISES).chain(INSIDES..numbers.len());
        let continues = continues && kept.all(|at| changes_in_place(at) || numbers[at] == before(at));
        numbers[STRUCTURE] = before(STRUCTURE) + u64::from(!continues);
        numbers
    }
}

/// The words of the discipline in a class.
fn inside_words(class: usize) -> Range<usize> {
    let at = INSIDES + class * Options::NUMBERS;
    at..at + Options::NUMBERS
}

/// The places of rates among the numbers of classes, with these rates.
pub(super) fn rate_numbers(rates: &Rates) -> impl Iterator<Item = (usize, u64)> + '_ {
    let classes = rates.classes.iter().enumerate().map(|(class, rate)| (HEAD + class * CLASS + RATE, *rate));
    std::iter::once((TOTAL, rates.total)).chain(classes)
}

/// The threshold of a displacement, and its class plus 1, as the program has them; zeros for none.
pub(super) fn displacement(displace: Option<Displace>) -> [u64; 2] {
    displace.map_or([0; 2], |displace| [displace.below.as_bps(), u64::from(displace.to) + 1])
}

/// A ceiling as the program has it; zeros for none.
fn ceiling(of: Option<Ceiling>) -> [u64; 2] {
    of.map_or([0; 2], |of| [of.rate.as_bps(), of.burst.as_u64()])
}

/// The discipline of a class that has one, with room for a superpacket at least.
fn inside(class: &Class, largest: u64, seed: u64, lack: &mut dyn FnMut(String)) -> Option<Options> {
    discipline_of(class.queue.as_ref()?, Place::class(&class.name, seed), largest, lack)
}

/// The options of the discipline of a class at `place`.
fn discipline_of(
    discipline: &Discipline,
    place: Place<'_>,
    largest: u64,
    lack: &mut dyn FnMut(String),
) -> Option<Options> {
    if matches!(discipline, Discipline::Outside(_)) {
        lack(format!(
            "kind = \"{}\" in {}, beside others (in a file of one class it is possible)",
            discipline.kind(),
            place.shown
        ));
        return None;
    }
    let options = options_of(discipline, &place, lack)?;
    if options.kind == CAKE && options.rate != 0 {
        lack(format!("`rate` of kind = \"cake\" in {}, which has a rate of its own", place.shown));
    }
    Some(Options {
        limit_packets: options.limit_packets.min(PACKETS),
        limit_bytes: options.limit_bytes.max(largest),
        ..options
    })
}

/// Reports disciplines that the program has no room for to `lack`.
fn examine(insides: &[Option<Options>], lack: &mut dyn FnMut(String)) {
    let queues: u64 = insides.iter().flatten().map(Options::queues_needed).sum();
    if queues > SPACE {
        lack(format!("{queues} queues of the disciplines in classes (up to {SPACE} are possible)"));
    }
    for (kinds, names) in
        [(&[MERED, INGRESS][..], "\"mered\", \"meredt\" or \"ingress-filter\""), (&[CAKE], "\"cake\"")]
    {
        if insides.iter().flatten().filter(|options| kinds.contains(&options.kind)).count() > 1 {
            lack(format!("kind = {names} in more than one class"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::PIE;
    use super::super::options::fbq_class_options::{BORROWS, FEEDBACK_ABOVE, INCREMENT, MOST, STRICT};
    use super::super::options::fbq_options::FAIR_BY;
    use super::super::plan::Plan;
    use super::super::plan::tests::plan;
    use super::*;

    const FILE: &str = "[interface]\ndata-path = \"kernel\"\n[shaper]\nrate = \"20mbit\"\nburst = \"200kB\"\nflows = 5000\n\
                        [[class]]\nname = \"calls\"\nrate = \"2mbit\"\npriority = 0\nborrow = false\n\
                        [[class]]\nname = \"rest\"\nrate = \"10mbit\"\ndefault = true\nlimit = \"90kB\"\n";

    fn numbers(plan: &Plan, before: &[u64]) -> Vec<u64> {
        plan.classes.as_ref().unwrap().numbers(&[3, 4], true, |at| before.get(at).copied().unwrap_or(0))
    }

    #[test]
    fn classes_are_those_of_the_file() {
        let found = plan(FILE).unwrap().within(4_096);
        assert_eq!(found.names, ["calls", "rest"]);
        let numbers = numbers(&found, &[]);
        assert_eq!(numbers[..HEAD], [20_000_000, 200_000, 10_000_000_000, 4_096, 5_000_000, 2, 1, 1, 1, 0, 0]);
        let (calls, rest) = (&numbers[HEAD..HEAD + CLASS], &numbers[HEAD + CLASS..HEAD + 2 * CLASS]);
        assert_eq!([rest[0], rest[1], rest[5], rest[6]], [4, 10_000_000, 1, 90_000]);
        assert_eq!([calls[0], calls[1], calls[4], calls[5]], [3, 2_000_000, 0, 0]);
        // A superpacket fits into every bucket.
        assert_eq!([rest[2], rest[3], calls[2], calls[3]], [81_920; 4]);
        assert!(found.notes.iter().any(|note| note.contains("superpackets")), "{:?}", found.notes);
        assert!(found.notes.iter().any(|note| note.contains("4096 flows")), "{:?}", found.notes);
        let profiles = HEAD + CLASSES * CLASS;
        assert_eq!(
            (&numbers[profiles..profiles + PROFILE], numbers.len()),
            (&[65_536, 0, 0, 0, 0, 0][..], INSIDES + CLASSES * Options::NUMBERS)
        );
    }

    /// Hosts, strict shares and displacement are numbers of the program, and as many flows as it has queues.
    #[test]
    fn hosts_strict_shares_and_displacement_are_those_of_the_file() {
        let found = plan(
            "[interface]\ndata-path = \"kernel\"\n[shaper]\nfair-by = \"destination\"\n[[class]]\nname = \"a\"\nrate = \"2mbit\"\nincrement = \"25%\"\n\
             [[class]]\nname = \"b\"\nrate = \"1mbit\"\ndefault = true\n",
        );
        let numbers = numbers(&found.unwrap().within(65_536), &[]);
        assert_eq!((numbers[FAIR_BY], numbers[FLOWS]), (2, 65_536));
        assert_eq!(numbers[HEAD + INCREMENT], 1 << 30);
        let found = plan(
            "[interface]\ndata-path = \"kernel\"\n[[class]]\nname = \"a\"\nrate = \"2mbit\"\nshare = \"strict\"\nborrow = true\ndefault = true\n\
             [[class]]\nname = \"b\"\nrate = \"1mbit\"\n\
             [[rule]]\nclass = \"a\"\nprotocol = \"udp\"\ndisplace = { below = \"300kbit\", to = \"b\" }\n",
        );
        let found = found.unwrap().within(4_096);
        assert!(found.notes.iter().any(|note| note.contains("4096 flows")), "{:?}", found.notes);
        let numbers = self::numbers(&found, &[]);
        assert_eq!((numbers[HEAD + STRICT], numbers[HEAD + BORROWS], numbers[FLOWS]), (1, 1, 4_096));
        let profile = HEAD + CLASSES * CLASS + PROFILE;
        assert_eq!(numbers[profile..profile + PROFILE], [65_536, 0, 300_000, 2, 0, 0]);
    }

    /// Ceilings are numbers of the program. Their bursts are those of the file: a superpacket leaves a debt.
    #[test]
    fn ceilings_are_those_of_the_file() {
        let found = plan(
            "[interface]\ndata-path = \"kernel\"\n[shaper]\nfair-by = \"source\"\n[[class]]\nname = \"a\"\nrate = \"2mbit\"\n\
             at-most = \"5mbit\"\nhost-at-most = \"1mbit\"\nflow-at-most = \"300kbit\"\n\
             [[class]]\nname = \"b\"\nrate = \"1mbit\"\ndefault = true\n\
             [[rule]]\nclass = \"b\"\nprotocol = \"udp\"\nat-most = \"400kbit\"\n",
        );
        let numbers = numbers(&found.unwrap(), &[]);
        let [most, burst, host_most, host_burst, flow_most, flow_burst] =
            std::array::from_fn(|at| numbers[HEAD + MOST + at]);
        assert_eq!((most, host_most, flow_most), (5_000_000, 1_000_000, 300_000));
        let rule = &numbers[HEAD + CLASSES * CLASS + PROFILE..][..PROFILE];
        assert_eq!(rule[4], 400_000);
        for burst in [burst, host_burst, flow_burst, rule[5]] {
            assert!((1..81_920).contains(&burst), "{burst}");
        }
        assert_eq!(numbers[HEAD + CLASS + MOST..HEAD + CLASS + MOST + 6], [0; 6]);
    }

    /// The discipline of a class, which has room for a superpacket at least, feedback and the step are numbers of the program; who marks
    /// needs the program at tc.
    #[test]
    fn disciplines_and_feedback_are_those_of_the_file() {
        let text = "[interface]\ndata-path = \"kernel\"\n\
             [[class]]\nname = \"a\"\nrate = \"2mbit\"\nqueue = { kind = \"fifo\", limit = \"50kB\", packets = 9 }\n\
             [[class]]\nname = \"b\"\nrate = \"1mbit\"\ndefault = true\nflow-limit = \"100kB\"\n\
             l4s-step = \"1ms\"\nfeedback = { above = \"50%\", below = \"10%\", ecn = true }\n";
        let found = plan(text).unwrap();
        assert!(found.marks());
        let all = numbers(&found, &[]);
        let of = |class: usize| &all[HEAD + class * CLASS + INSIDE..HEAD + (class + 1) * CLASS];
        assert_eq!((of(0), of(1)), (&[1, 0, 0, 0, 0][..], &[0, 50_000, 10_000, 1, 1_000_000][..]));
        assert_eq!(FEEDBACK_ABOVE, INSIDE + 1);
        assert_eq!(all[INSIDES..INSIDES + 3], [FIFO, 9, 81_920]);
        let text = text.replace("ecn = true", "ecn = false");
        let steps = |text: &str| plan(text).unwrap().marks();
        let without = text.replace("l4s-step = \"1ms\"\n", "");
        assert!(steps(&text) && !steps(&without));
        let early = without.replace("kind = \"fifo\", limit = \"50kB\", packets = 9", "kind = \"pie\"");
        assert!(steps(&early) && !steps(&early.replace("\"pie\"", "\"pie\", signal = \"drop\"")));
        let next = numbers(&plan(&early).unwrap(), &all);
        assert_eq!((next[INSIDES], next[STRUCTURE]), (PIE, all[STRUCTURE] + 1));
        // Its stream is that of the class in the engine.
        let pie = Options::of_numbers(std::array::from_fn(|at| next[INSIDES + at]));
        assert_eq!(pie.random, tidegate_core::random::Stream::named(7, "a").parts());
    }

    /// Each is refused, and the error names it.
    #[test]
    fn disciplines_beyond_the_room_are_named() {
        let class = |name: usize, queue: &str| {
            format!("[[class]]\nname = \"c{name}\"\nrate = \"1mbit\"\nqueue = {{ kind = \"{queue}\" }}\n")
        };
        let of = |count, queue: &str| {
            let classes: String = (0..count).map(|name| class(name, queue)).collect();
            plan(&format!(
                "[interface]\ndata-path = \"kernel\"\n[shaper]\nrate = \"100mbit\"\n{classes}[[class]]\nname = \"d\"\nrate = \"1mbit\"\ndefault = true\n"
            ))
        };
        assert!(of(8, "fq-codel").is_ok());
        assert!(of(9, "fq-codel").unwrap_err().contains("9216 queues"));
        let mered = "mered\", link = \"1mbit\", memory = { pair-rule = \"off\" }, signal = \"drop";
        assert!(of(1, mered).is_ok());
        assert!(of(2, mered).unwrap_err().contains("in more than one class"));
        assert!(of(1, "cake").is_ok());
        assert!(of(2, "cake").unwrap_err().contains("kind = \"cake\" in more than one class"));
        assert!(of(1, "cake\", rate = \"1mbit").unwrap_err().contains("`rate` of kind = \"cake\" in class `c0`"));
    }

    /// Rates change in place; anything else is another structure.
    #[test]
    fn another_structure_has_another_number() {
        let first = numbers(&plan(FILE).unwrap(), &[]);
        for (from, to, continues) in [
            ("10mbit", "12mbit", true),
            ("20mbit", "30mbit", true),
            ("90kB", "91kB", false),
            ("calls", "voice", false),
            ("priority = 0", "priority = 1", false),
        ] {
            let next = plan(&FILE.replace(from, to)).unwrap();
            let next = next.classes.unwrap().numbers(&[if from == "calls" { 5 } else { 3 }, 4], true, |at| first[at]);
            assert_eq!(next[STRUCTURE] == first[STRUCTURE], continues, "{from} to {to}");
            assert_ne!(next, first, "{from} to {to}");
        }
    }
}
