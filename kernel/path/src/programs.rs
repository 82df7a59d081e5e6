//! [`KernelPrograms`]: the programs in BPF of this process, loaded before it gives up the privilege to load any, or by a thread that
//! keeps it until they are loaded.

mod later;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::thread;

use tidegate_config::shaper::{Config, Match};
use tidegate_engine::OffloadedReservation;
use tidegate_engine::guard::lock;
use tidegate_engine::quota::Key;
use tidegate_live::privileges::{Calls, LOADER, Restriction, Scope, restrict};
use tidegate_live::rtnl::OnLink;
use tidegate_live::shaping::StartError;
use tidegate_live::shaping::backend::{DISCIPLINE, OffloadBackend, OffloadProvider};
use tidegate_live::timing;
use tidegate_sys::process::block_signals;
use tidegate_units::Span;

use self::later::Loaded;
use super::classes::rate_numbers;
use super::flows::Flows;
use super::matched::{Count, Matched};
use super::options::counters::WORDS as COUNTERS;
use super::options::link::UNTIL;
use super::options::{FBQ_CLASSES, MANY_QUEUES, Options, QUEUES, RULES, fbq_class_options, fbq_options};
use super::path::{KernelPath, check};
use super::plan;
use super::promises::{Promises, room_for};
use super::reservations::Places;
use super::shards::{self, Rates, Shards};
use crate::bpf::{self, Attached, LoadError, Mapped, Needs, Program};

/// The chassis, compiled from kernel/chassis.bpf.c by kernel/build, under the licence of that file.
const OBJECT: &[u8] = include_bytes!("../../generated/chassis.o");
/// The chassis with room for [`MANY_QUEUES`](super::options::MANY_QUEUES) flows in place of [`QUEUES`].
const OF_MANY: &[u8] = include_bytes!("../../generated/chassis-many.o");
/// The chassis with CBQ alone.
const OF_TREES: &[u8] = include_bytes!("../../generated/chassis-trees.o");
/// The chassis with CAKE besides.
const OF_CAKE: &[u8] = include_bytes!("../../generated/chassis-cake.o");
const NEEDS: Needs = Needs {
    operations: "Qdisc_ops",
    functions: &[
        "bpf_qdisc_skb_drop",
        "bpf_kfree_skb",
        "bpf_qdisc_watchdog_schedule",
        "bpf_qdisc_bstats_update",
        "bpf_dynptr_from_skb",
    ],
    since: (6, 16),
    option: "CONFIG_NET_SCH_BPF",
};
/// The number of names that are tried.
const NAMES: u32 = 1_000;
/// How long packets are shaped after the last renewal.
const LEASE: Span = Span::from_secs(5);

/// The map of the records of mice and elephants, of some megabytes, which other disciplines do not need.
const RECORDS: &str = "twin_tables";

/// The values that are written to the maps of a program.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Its options, except for the counters of changes in them.
    pub options: Options,
    /// `struct twin_fbq_options` without promises, where there are classes.
    pub classes: Option<Vec<u64>>,
    /// `struct twin_cbq_options`, where these are leaves of CBQ.
    pub tree: Option<Vec<u64>>,
    /// The rules of classes, and how often they have changed.
    pub rules: Vec<u64>,
    pub rule_changes: u64,
    /// The counts to which they belong, in the order of the file.
    pub rule_keys: Vec<Key>,
    /// The promises in force.
    pub promises: Promises,
    /// The reservations, the oldest first, and the leaves for them where the configuration has any.
    pub reservations: Vec<OffloadedReservation>,
    pub places: Option<Places>,
}

impl Written {
    /// Gives reservations their leaves and rules, beside those of the configuration.
    ///
    /// # Errors
    /// When there is no room; nothing has changed then.
    pub fn reserve(&mut self) -> Result<(), String> {
        let Some(places) = &self.places else { return Ok(()) };
        let image = places.image(&self.reservations, None).map_err(|error| error.to_string())?;
        room_for(&image, &self.promises)?;
        if let Some(classes) = &mut self.classes {
            places.limit(&self.reservations, classes);
        }
        self.tree = Some(places.tree(&self.reservations));
        self.rules = image;
        Ok(())
    }
}

/// A program that is registered with the kernel as a discipline.
#[derive(Debug)]
pub(crate) struct Discipline {
    /// The name of the discipline.
    pub name: String,
    /// `struct twin_options` of kernel/options.h.
    pub options: Mapped,
    /// `struct twin_fbq_options` of kernel/classes.h.
    pub classes: Mapped,
    /// `struct twin_cbq_options` of kernel/tree.h, in the program that has CBQ.
    pub tree: Option<Mapped>,
    /// `struct twin_link` of kernel/chassis.bpf.c.
    pub link: Mapped,
    /// `struct twin_marks` of kernel/marks.h.
    pub marks: Mapped,
    /// `struct twin_advice` of kernel/advice.h.
    pub advice: Mapped,
    /// `struct twin_counters` of kernel/chassis.bpf.c, for each account.
    pub counters: Mapped,
    /// The names of the classes that have accounts. A class that was removed keeps its account until another class needs it.
    pub accounts: Mutex<Vec<String>>,
    /// Whether it was loaded with the map of records of mice and elephants.
    pub has_records: bool,
    /// The flows that it tells apart.
    pub queues: u64,
    /// The object that it was loaded from: ours, or one with the decider of another crate besides.
    pub object: &'static [u8],
    /// `struct twin_rules` of kernel/classify.h.
    rules: Mapped,
    /// The variables of the program, which this process only reads.
    pub flows: Flows,
    /// Packets and bytes that each of its rules has matched.
    matched: Mutex<Matched>,
    /// The values that were written last.
    written: Mutex<Written>,
    /// Whether packets pass unshaped unless the lease is renewed.
    pub leased: AtomicBool,
    _attached: Attached,
    program: Program,
}

/// The programs that are loaded for a configuration.
struct Choice {
    object: &'static [u8],
    /// The flows that it tells apart.
    queues: u64,
    /// The maps that it does not need.
    without: &'static [&'static str],
}

impl Choice {
    /// The object that `config` alone needs, or the one for its flows, or for fewer where there is no memory for so many.
    fn new(config: &Config) -> Self {
        let without: &[&str] = if plan::measures(config) { &[] } else { &[RECORDS] };
        let is_many = plan::flows(config) > QUEUES && bpf::check_memory(OF_MANY, without).is_ok();
        let (object, queues) = match needed(config) {
            Some(object) => (object, QUEUES),
            None if is_many => (OF_MANY, MANY_QUEUES),
            None => (OBJECT, QUEUES),
        };
        Self { object, queues, without }
    }
}

impl Discipline {
    fn load(config: &Config) -> Result<Self, LoadError> {
        let Choice { object, queues, without } = Choice::new(config);
        let has_records = !without.contains(&RECORDS);
        let program = load(object, without)?;
        let maps = program.filters();
        let (options, link) = (maps.map("twin_options")?, maps.map("twin_link")?);
        let (counters, classes) = (maps.map("twin_counters")?, maps.map("twin_classes")?);
        let tree = plan::is_tree(config).then(|| maps.map("twin_tree")).transpose()?;
        let (rules, marks, advice) = (maps.map("twin_rules")?, maps.map("twin_marks")?, maps.map("twin_advice")?);
        let flows = Flows::new(maps.map(".bss")?, object)?;
        let mut number = 1;
        let (name, attached) = loop {
            let name = if number == 1 { DISCIPLINE.to_owned() } else { format!("{DISCIPLINE}_{number}") };
            match program.attach(&name) {
                Err(error) if error.is_taken() && number < NAMES => number += 1,
                attached => break (name, attached?),
            }
        };
        let leased = AtomicBool::new(false);
        let accounts = Mutex::default();
        Ok(Self {
            name,
            options,
            classes,
            tree,
            link,
            marks,
            advice,
            counters,
            accounts,
            has_records,
            queues,
            object,
            rules,
            flows,
            matched: Mutex::default(),
            written: Mutex::default(),
            leased,
            _attached: attached,
            program,
        })
    }

    /// Whether it has all that `config` needs of a program.
    pub fn can_have(&self, config: &Config) -> bool {
        // The program with CBQ has nothing else.
        (self.has_records || !plan::measures(config))
            && needed(config).is_none_or(|object| self.object == object)
            && plan::is_tree(config) == self.tree.is_some()
    }

    /// The accounts of classes, in the order of their names. New ones begin at zero.
    pub fn accounts_of(&self, names: &[String]) -> Vec<usize> {
        let mut accounts = lock(&self.accounts);
        let mut account_of = |name: &String| {
            if let Some(known) = accounts.iter().position(|other| other == name) {
                return known;
            }
            let unused = accounts.iter().position(|other| !names.contains(other));
            let new = match unused {
                Some(unused) if accounts.len() >= FBQ_CLASSES as usize => unused,
                _ => accounts.len(),
            };
            for at in 0..COUNTERS {
                self.counters.set(new * COUNTERS + at, 0);
            }
            if new < accounts.len() {
                accounts[new].clone_from(name);
            } else {
                accounts.push(name.clone());
            }
            new
        };
        names.iter().map(&mut account_of).collect()
    }

    /// A counter of an account, by its place in `options::counters`.
    pub fn counter(&self, account: usize, at: usize) -> u64 {
        self.counters.get(account * COUNTERS + at)
    }

    /// Begins a change, and returns the number of the last one, to which 2 is added at its end. Packets pass meanwhile: while the number is
    /// odd the program goes on with its copy of the options, and with the half of the rules that is in force.
    fn begin_change(&self) -> u64 {
        let changes = self.options.get(Options::NUMBERS - 1);
        self.options.set(Options::NUMBERS - 1, changes + 1);
        fence(Ordering::SeqCst);
        changes
    }

    /// Changes the values written last, and puts them in force.
    pub fn write(&self, change: impl FnOnce(&mut Written)) {
        let mut written = lock(&self.written);
        let before = written.rules.clone();
        change(&mut written);
        written.rule_changes += u64::from(written.rules != before);
        let Written { options, classes, tree, rules, rule_changes, rule_keys, promises, .. } = &*written;
        let changes = self.begin_change();
        let half = 1 - self.flows.in_force().1;
        lock(&self.matched).replace(half as usize, rule_keys.clone(), |at| self.flows.matched(at));
        let image = promises.beside(rules.clone());
        for (at, number) in (half as usize * RULES as usize..).zip(image) {
            self.rules.set(at, number);
        }
        for (at, number) in classes.iter().flat_map(|classes| promises.among(classes.clone())).enumerate() {
            self.classes.set(at, number);
        }
        if let (Some(map), Some(numbers)) = (&self.tree, tree) {
            numbers.iter().enumerate().for_each(|(at, number)| map.set(at, *number));
        }
        let whole = Options { rules: rule_changes << 1 | half, changes: changes + 2, ..*options };
        for (at, number) in whole.numbers().into_iter().enumerate() {
            self.options.set(at, number);
        }
    }

    /// Replaces the reservations, and puts them in force.
    ///
    /// # Errors
    /// See [`Written::reserve`]; the earlier ones stay in force then.
    pub fn reserve(&self, reservations: Vec<OffloadedReservation>) -> Result<(), String> {
        let mut reserved = Ok(());
        self.write(|written| {
            let before = std::mem::replace(&mut written.reservations, reservations);
            reserved = written.reserve();
            if reserved.is_err() {
                written.reservations = before;
            }
        });
        reserved
    }

    /// Whether there is room for a reservation of packets with these conditions.
    ///
    /// # Errors
    /// The condition that is not known, or the room that is missing.
    pub fn check_reservation(&self, matches: &Match) -> Result<(), String> {
        let written = lock(&self.written);
        // Without places the engine has none either.
        let Some(places) = &written.places else { return Ok(()) };
        if let Some(what) = places.lacks(matches) {
            return Err(what.into());
        }
        let image = places.image(&written.reservations, Some(matches)).map_err(|error| error.to_string());
        image
            .and_then(|image| room_for(&image, &written.promises))
            .map_err(|why| format!("room for its rule beside the others: {why}"))
    }

    /// The reservations in force.
    pub fn reservations(&self) -> Vec<OffloadedReservation> {
        lock(&self.written).reservations.clone()
    }

    /// Changes the rates of classes alone, and puts them in force. It writes two numbers and those of the rates, and the program looks
    /// up no packet anew.
    pub fn write_rates(&self, rates: &Rates) {
        let mut written = lock(&self.written);
        let changes = self.begin_change();
        for (at, rate) in rate_numbers(rates) {
            self.classes.set(at, rate);
            if let Some(number) = written.classes.as_mut().and_then(|classes| classes.get_mut(at)) {
                *number = rate;
            }
        }
        self.options.set(Options::NUMBERS - 1, changes + 2);
    }

    /// The program at tc for packets that leave or arrive.
    ///
    /// # Errors
    /// When the object has none.
    pub fn filter(&self, direction: OnLink) -> Result<BorrowedFd<'_>, LoadError> {
        self.program.filters().program(match direction {
            OnLink::Leaving => "twin_leaving",
            OnLink::Arriving => "twin_arriving",
        })
    }

    /// The program at tc for what comes back by the other end of our device.
    ///
    /// # Errors
    /// When the object has none.
    pub fn returning(&self) -> Result<BorrowedFd<'_>, LoadError> {
        self.program.filters().program("twin_returning")
    }

    /// Whether there are classes, whose flows are told apart.
    pub fn has_classes(&self) -> bool {
        self.tree.is_none() && lock(&self.written).classes.is_some()
    }

    /// Whether the owners of flows are told of their queues.
    pub fn feeds_back(&self) -> bool {
        let first = fbq_options::WORDS + fbq_class_options::FEEDBACK_ABOVE;
        let above = |numbers: &Vec<u64>| {
            (0..FBQ_CLASSES as usize).any(|class| numbers[first + class * fbq_class_options::WORDS] != 0)
        };
        lock(&self.written).classes.as_ref().is_some_and(above)
    }

    /// Whether rules of `rules` numbers have room beside promises, and promises beside the rules that were written.
    ///
    /// # Errors
    /// See [`room_for`].
    pub fn has_room(&self, rules: Option<&[u64]>, promises: Option<&Promises>) -> Result<(), String> {
        let written = lock(&self.written);
        room_for(rules.unwrap_or(&written.rules), promises.unwrap_or(&written.promises))
    }

    /// Packets and bytes that rules have matched since the last call.
    pub fn matched(&self) -> Vec<Count> {
        lock(&self.matched).take(|at| self.flows.matched(at))
    }

    /// Renews the lease, if there is one.
    pub fn renew(&self) {
        let until = (timing::now() + LEASE).as_nanos();
        self.link.set(UNTIL, if self.leased.load(Ordering::Relaxed) { until } else { 0 });
    }
}

/// Programs for data paths in the kernel: one for each data path, which uses it again when it is started again. Clones share the
/// programs.
#[derive(Clone, Debug, Default)]
pub struct KernelPrograms(Arc<Mutex<Loaded<Discipline>>>);

impl KernelPrograms {
    /// Loads the programs of `config`: one, or for several threads one for each queue of the interface, at the same time.
    ///
    /// # Errors
    /// The reason for which the kernel does not take it. [`take`](OffloadProvider::take) reports it again.
    pub fn load(&self, config: &Config) -> Result<(), LoadError> {
        let mut all = lock(&self.0);
        let load = || Discipline::load(config);
        let loaded: Result<Vec<_>, LoadError> = thread::scope(|scope| {
            let others: Vec<_> = (1..shards::wanted(config)).map(|_| scope.spawn(load)).collect();
            let first = load();
            std::iter::once(first)
                .chain(others.into_iter().map(|other| other.join().unwrap_or_else(|_| panicked())))
                .collect()
        });
        let loaded = loaded.inspect_err(|error| all.missing = Some(error.to_string()))?;
        all.programs.extend(loaded.into_iter().map(Arc::new));
        Ok(())
    }

    /// Checks what can be known of a program that can have `config` before the kernel has verified it, which takes the kernel seconds.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn check(&self, config: &Config) -> Result<(), LoadError> {
        let Choice { object, without, .. } = Choice::new(config);
        let checked = bpf::check_memory(object, without)
            .and_then(|()| bpf::check_kernel(&NEEDS))
            .and_then(|()| Program::check_types(object));
        checked.inspect_err(|error| lock(&self.0).missing = Some(error.to_string()))
    }

    /// Loads the programs of each of `configs`, one after the other, in a thread of its own, which keeps the privileges for that and no
    /// others. [`take`](OffloadProvider::take) says so until they are loaded. Programs that are loaded when nobody has a clone of this any
    /// more are closed.
    ///
    /// The thread must be started before the process is restricted, and each restricts itself ([`Scope::Thread`]).
    ///
    /// # Errors
    /// When there is no such thread.
    pub fn load_later(&self, configs: Vec<Config>) -> io::Result<()> {
        let threads = configs.iter().map(|config| config.interface.threads as usize).sum();
        let begin = move || {
            block_signals();
            // What the kernel does between its checks of a program it does at one go, for a second on a slow machine.
            let _ = timing::stay_off_data_paths(threads);
            // Where the kernel refuses that, the process is told of it as well, and goes on.
            restrict(&Restriction { keep: LOADER, calls: Calls::Loader, scope: Scope::Thread });
        };
        let each = |config: Config| vec![config.clone(); shards::wanted(&config)];
        later::load(&self.0, configs.into_iter().flat_map(each).collect(), begin, |config| {
            Discipline::load(config).map_err(|error| error.to_string())
        })
    }
}

impl OffloadProvider for KernelPrograms {
    fn take(&self, config: &Config) -> Result<Box<dyn OffloadBackend>, StartError> {
        check(config)?;
        let count = shards::number(config)?;
        let free = lock(&self.0).free(count, |program| program.can_have(config))?;
        Ok(Box::new(KernelPath::new(Shards::new(free))))
    }

    fn loading(&self) -> usize {
        lock(&self.0).loading
    }
}

fn panicked<T>() -> Result<T, LoadError> {
    Err(LoadError::Object("its loading panicked".into()))
}

/// The object that alone has the discipline of a configuration, if one has: CBQ, CAKE, or that of another crate.
fn needed(config: &Config) -> Option<&'static [u8]> {
    if plan::is_tree(config) {
        return Some(OF_TREES);
    }
    plan::is_cake(config).then_some(OF_CAKE).or_else(|| plan::own_program(config))
}

/// Checks whether this process can have a data path in the kernel, and leaves nothing behind.
///
/// # Errors
/// Why not.
pub fn examine() -> Result<(), LoadError> {
    load(OBJECT, &[RECORDS]).map(drop)
}

fn load(object: &[u8], without: &[&str]) -> Result<Program, LoadError> {
    bpf::check_memory(object, without)?;
    bpf::check_kernel(&NEEDS)?;
    Program::load(object, without)
}
