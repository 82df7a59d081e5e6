//! [`Shards`]: the programs of one data path. An interface with several queues has one for each queue, as a child of `mq`; each has the
//! packets of its queue, and a part of the rates, which a thread divides by demand ([`division`]).
//!
//! *Law*: see [`division`]. When this process ends, the last division stays in force.
//! *Notes*: they are the same program, loaded several times: its packets and classes are in maps and variables, which the verifier has
//! seen as those of this program, so that another copy is verified anew. They have no state in common: no lock and no line of cache.

mod division;

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_config::shaper::Config;
use tidegate_engine::guard::lock;
use tidegate_live::shaping::StartError;
use tidegate_live::timing;

use self::division::{Division, Load, Look};
use crate::counters::{queued, sent};
use crate::programs::Discipline;

pub(crate) use self::division::{Granted, Rates};

/// How often the division is looked at while packets pass, and once none have passed for a second.
const LOOK: Duration = Duration::from_millis(20);
const IDLE_LOOK: Duration = Duration::from_millis(100);
/// How soon it is looked at whether a shard has followed a lower rate.
const FOLLOWED: Duration = Duration::from_millis(2);

/// The number of queues by which packets leave an interface; `None` where it is not there.
pub(crate) fn transmit_queues(interface: &str) -> Option<usize> {
    let queues = Path::new("/sys/class/net").join(interface).join("queues");
    let count = (0..).take_while(|queue| queues.join(format!("tx-{queue}")).exists()).count();
    Some(count).filter(|count| *count > 0)
}

/// The number of programs that a configuration needs: that of its threads while its interface is not there.
///
/// # Errors
/// [`StartError::NotInKernel`] where its interface has one queue, or more than it has threads.
pub(crate) fn number(config: &Config) -> Result<usize, StartError> {
    let threads = config.interface.threads as usize;
    let Some(name) = config.interface.names.first().filter(|_| threads > 1) else { return Ok(threads) };
    transmit_queues(name).map_or(Ok(threads), |queues| fitting(name, queues, threads))
}

/// The number of programs for an interface with so many queues, for which there are `threads` at most.
///
/// # Errors
/// See [`number`].
pub(crate) fn fitting(name: &str, queues: usize, threads: usize) -> Result<usize, StartError> {
    let what = match queues {
        ..=1 => format!("several threads for {name}, which has one queue to send by"),
        more if more > threads => format!(
            "{threads} threads for {name}, which has {more} queues to send by: a thread for each is needed (`ethtool -L {name}` \
             changes their number)"
        ),
        _ => return Ok(queues),
    };
    Err(StartError::NotInKernel { what })
}

/// The number of programs to load; one where the kernel will not be used.
pub(crate) fn wanted(config: &Config) -> usize {
    number(config).unwrap_or(1)
}

/// The programs of a data path.
#[derive(Debug)]
pub(crate) struct Shards {
    all: Vec<Arc<Discipline>>,
    /// For people.
    name: String,
    /// Once there are rates to divide, of several.
    division: Arc<Mutex<Option<Division>>>,
    divider: Option<Divider>,
}

/// The thread that divides rates, which ends when this is dropped.
#[derive(Debug)]
struct Divider {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Divider {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shards {
    /// # Panics
    /// Without a program.
    pub fn new(mut all: Vec<Arc<Discipline>>) -> Self {
        // They were loaded at the same time.
        all.sort_by(|one, other| one.name.cmp(&other.name));
        let mut shards = Self { name: String::new(), division: Arc::default(), divider: None, all };
        shards.keep(shards.all.len());
        shards
    }

    /// Keeps the first of them, so many as the interface has queues.
    pub fn keep(&mut self, count: usize) {
        self.all.truncate(count);
        let names: Vec<&str> = self.all.iter().map(|one| one.name.as_str()).collect();
        self.name = if names.len() > 1 { format!("mq with {}", names.join(", ")) } else { names.concat() };
    }

    /// The first, and mostly the only one.
    pub fn first(&self) -> &Arc<Discipline> {
        &self.all[0]
    }
    pub fn all(&self) -> &[Arc<Discipline>] {
        &self.all
    }
    pub fn are_several(&self) -> bool {
        self.all.len() > 1
    }
    /// Their names, for people.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The packets that wait.
    pub fn queued(&self) -> u64 {
        self.all.iter().map(|one| queued(one)).sum()
    }

    /// Has each of them written by `write`, which gets the rates of a shard where there are several. They divide what is `granted`.
    pub fn configure(&self, granted: Option<Granted>, write: impl Fn(&Discipline, Option<&Rates>)) {
        let mut division = lock(&self.division);
        match (&mut *division, granted.filter(|_| self.are_several())) {
            (Some(division), Some(granted)) => division.renew(granted),
            (division, granted) => *division = granted.map(|granted| Division::new(granted, self.all.len())),
        }
        for (shard, discipline) in self.all.iter().enumerate() {
            let rates = division.as_ref().map(|division| division.rates(shard));
            write(discipline, rates.as_ref());
        }
    }

    /// Divides rates anew by demand from now on, where there are several.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn divide(&mut self) -> Result<(), StartError> {
        if !self.are_several() || self.divider.is_some() {
            return Ok(());
        }
        let (stop, stopped) = channel::<()>();
        let (all, division) = (self.all.clone(), Arc::clone(&self.division));
        let run = move || loop {
            let wait = look(&all, &division);
            if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        };
        let thread = thread::Builder::new().name("kernel-rates".into()).spawn(run);
        let thread =
            thread.map_err(|error| StartError::DataPath(format!("start the thread that divides rates: {error}")))?;
        self.divider = Some(Divider { stop: Some(stop), thread: Some(thread) });
        Ok(())
    }

    /// Leaves the division as it is.
    pub fn stop_dividing(&mut self) {
        self.divider = None;
    }

    /// Forgets the division, and all that was promised and counted by classes.
    pub fn begin_anew(&self) {
        *lock(&self.division) = None;
        for one in &self.all {
            lock(&one.accounts).clear();
            drop(one.matched());
            one.write(|written| {
                written.promises = written.promises.ended();
                written.reservations.clear();
            });
        }
    }
}

/// Divides the rates anew where demand has changed; returns how long to wait until the next look.
fn look(all: &[Arc<Discipline>], division: &Mutex<Option<Division>>) -> Duration {
    let mut division = lock(division);
    let Some(division) = &mut *division else { return IDLE_LOOK };
    let looks: Vec<Look> = all.iter().map(|one| read(one, division.names())).collect();
    for (shard, rates) in division.look(timing::now(), &looks) {
        all[shard].write_rates(&rates);
    }
    match (division.lacks(), division.is_busy()) {
        (true, _) => FOLLOWED,
        (false, true) => LOOK,
        (false, false) => IDLE_LOOK,
    }
}

/// Reads the demand of a shard, whose classes have these names.
fn read(one: &Discipline, names: &[String]) -> Look {
    let accounts = lock(&one.accounts);
    let load = |(class, name): (usize, &String)| {
        let Some(account) = accounts.iter().position(|other| other == name) else { return Load::default() };
        let (sent, waiting) = sent(one, account);
        Load { sent, waiting, flows: one.flows.waiting(class) }
    };
    Look { in_force: one.flows.rates(names.len()), classes: names.iter().enumerate().map(load).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_program_for_each_queue_where_there_is_a_thread_for_each() {
        assert_eq!(fitting("eth0", 2, 2).ok(), Some(2));
        assert_eq!(fitting("eth0", 2, 4).ok(), Some(2));
        for (queues, named) in [(1, "one queue"), (8, "8 queues")] {
            let why = fitting("eth0", queues, 4).expect_err(named).to_string();
            assert!(why.contains("eth0") && why.contains(named), "{why}");
        }
        assert_eq!(transmit_queues("no such interface"), None);
        assert_eq!(transmit_queues("lo"), Some(1));
    }

    /// An interface that is not there yet may have as many queues as there are threads.
    #[test]
    fn a_file_is_refused_for_an_interface_that_has_one_queue() {
        let of = |name: &str| {
            let class = "[[class]]\nname = \"all\"\nrate = \"100mbit\"\ndefault = true\n";
            crate::plan::tests::config(&format!("[interface]\nname = \"{name}\"\nthreads = 2\n{class}"))
        };
        assert!(crate::check(&of("lo")).expect_err("one queue").to_string().contains("one queue"));
        crate::check(&of("none0")).unwrap();
        assert_eq!([wanted(&of("lo")), wanted(&of("none0"))], [1, 2]);
    }
}
