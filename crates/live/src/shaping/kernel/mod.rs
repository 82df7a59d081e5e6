//! The data path in the kernel: a queueing discipline in BPF at the root of the interface, and a thread that reads what it
//! counts. `kernel/` has the discipline, and shows that it decides as that of the core.
//!
//! *Law*: where a start returns, the kernel has confirmed that the discipline is at the root.
//! *Notes*: the program is loaded and registered before the process gives up privileges ([`KernelPrograms`]). Afterwards its
//! maps are memory of this process, and the interface is changed over rtnetlink; no call of bpf(2) is left. An attached
//! discipline lasts as long as it is attached, whatever becomes of the process; [`Unattended::Pass`] has it pass packets
//! unless that is renewed every few seconds.

mod classes;
mod flows;
#[allow(dead_code)] // The checks use another part of it.
#[rustfmt::skip]
#[path = "../../../../../kernel/generated/options.rs"]
mod options;
mod plan;
mod programs;
mod promises;
mod start;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_config::shaper::{Config, Unattended};
use tidegate_engine::guard::lock;
use tidegate_engine::{Names, PromiseTable, Setup, rules};
use tidegate_units::Span;

use super::error::StartError;
use super::owners::resolve;
use crate::netlink::Error;
use crate::rtnl::{RootQdisc, Rtnl};
use crate::rules::{Difference, InterfaceLock};
use options::fbq_options::STRUCTURE;
use options::link::{FROM_NETWORK, OVERHEAD, UNTIL};
use options::{FBQ_PROMISES, Options};
use plan::Plan;
use programs::{Discipline, PREFIX};
use promises::{Promises, room_for};

pub use programs::{KernelPrograms, examine};
pub(super) use start::choose;

/// How long the queue may take to empty at an end.
const EMPTYING: Duration = Duration::from_secs(2);

/// Whether the program can do what a configuration asks for.
///
/// # Errors
/// [`StartError::NotInKernel`] with what it cannot.
pub fn check(config: &Config) -> Result<(), StartError> {
    Plan::new(config, None, 0)?;
    let setup = Setup { seed: 0, secret: [0; 2], catch_up: Span::ZERO, names: Names::default() };
    image(config, &setup).map(drop)
}

/// The rules as the program has them; the names of owners are looked up anew.
fn image(config: &Config, setup: &Setup) -> Result<Vec<u64>, StartError> {
    let (names, _, groups) = resolve(config, Vec::new())?;
    let image = rules::image(config, &Setup { names, ..setup.clone() }, &groups)?;
    room_for(&image, &Promises::default()).map_err(too_large)?;
    Ok(image)
}

/// The refusal of rules for which there is no room.
fn too_large(numbers: String) -> StartError {
    let what =
        format!("rules and promises whose tables have {numbers}; leave out some, or let them combine fewer fields");
    StartError::NotInKernel { what }
}

/// A configuration made ready for the program.
#[derive(Debug)]
pub(super) struct Prepared {
    plan: Plan,
    /// The rules.
    image: Vec<u64>,
    unattended: Unattended,
}

/// A discipline at the root of an interface.
#[derive(Debug)]
pub(super) struct KernelPath {
    discipline: Arc<Discipline>,
    index: u32,
    /// Its seed is that of random streams, its secret that of keys of flows.
    setup: Setup,
    /// Other data paths are kept from this interface, by each name that it has had.
    locks: Vec<InterfaceLock>,
}

impl KernelPath {
    /// Puts a discipline at the root of an interface, configured by `plan`. Returns notes for people as well.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind then.
    fn attach(
        discipline: Arc<Discipline>,
        name: &str,
        index: u32,
        config: &Config,
        setup: Setup,
    ) -> Result<(Self, Vec<String>), StartError> {
        // What an earlier data path counted.
        lock(&discipline.accounts).clear();
        discipline.write(|written| written.promises = written.promises.ended());
        let lock = InterfaceLock::acquire(name, config.interface.direction)?;
        let mut path = Self { discipline, index, setup, locks: vec![lock] };
        let notes = path.put(name, config)?;
        Ok((path, notes))
    }

    /// The name of the discipline.
    pub fn name(&self) -> &str {
        &self.discipline.name
    }

    /// Puts the discipline at the root of the interface, in the place of one that an earlier run has left.
    fn put(&mut self, name: &str, config: &Config) -> Result<Vec<String>, StartError> {
        let mut rtnl = Rtnl::open()?;
        let prepared = self.prepared(config, &mut rtnl)?;
        let mut notes = prepared.plan.notes.clone();
        match rtnl.root_qdisc(self.index)? {
            Some(root) if root.kind.starts_with(PREFIX) => {
                rtnl.clear_qdisc(self.index)?;
                notes.push(format!(
                    "the kernel went on shaping {name} as an earlier run had configured it, which ended without ending that; \
                     this one has taken over, and {} packets that waited there were dropped",
                    root.queued_packets
                ));
            }
            Some(RootQdisc { kind, handle, .. }) if handle != 0 => {
                return Err(StartError::RootConfigured { interface: name.into(), kind });
            }
            _ => {}
        }
        self.configure(prepared);
        rtnl.set_plain(self.index, &self.discipline.name)?;
        match rtnl.root_qdisc(self.index)? {
            Some(root) if root.kind == self.discipline.name => Ok(notes),
            other => {
                let kind = other.map_or("nothing".into(), |root| root.kind);
                let text = format!("the root of {name} is {kind} although {} was put there", self.discipline.name);
                Err(StartError::DataPath(text))
            }
        }
    }

    fn prepared(&self, config: &Config, rtnl: &mut Rtnl) -> Result<Prepared, StartError> {
        let plan = Plan::new(config, superpacket(rtnl, self.index)?, self.setup.seed)?;
        Ok(Prepared { plan, image: image(config, &self.setup)?, unattended: config.interface.unattended })
    }

    /// Puts another configuration in force. What waits stays: no packet is lost, and those of a flow stay in order.
    pub fn configure(&self, Prepared { plan, image, unattended }: Prepared) {
        let Discipline { classes, link, .. } = &*self.discipline;
        let accounts = self.discipline.accounts_of(&plan.names);
        link.set(FROM_NETWORK, 1);
        link.set(OVERHEAD, plan.overhead);
        let account = accounts.first().map_or(0, |&account| account as u64);
        let before = |at| classes.get(at);
        let numbers = plan.classes.as_ref().map(|plan| plan.numbers(&accounts, before));
        // Classes may have other numbers then; the control plane makes the promises again.
        let is_other = numbers.as_ref().is_none_or(|numbers| numbers[STRUCTURE] != before(STRUCTURE));
        self.discipline.write(|written| {
            written.options = Options { account, ..plan.options };
            written.classes = numbers;
            written.rule_changes += u64::from(written.rules != image);
            written.rules = image;
            if is_other {
                written.promises = written.promises.ended();
            }
        });
        self.discipline.leased.store(unattended == Unattended::Pass, Ordering::Relaxed);
        self.discipline.renew();
    }

    /// Another configuration, ready to be put in force.
    ///
    /// # Errors
    /// [`StartError::NotInKernel`] or [`StartError::Change`] with what this program cannot do.
    pub fn prepare(&self, config: &Config) -> Result<Prepared, StartError> {
        if plan::is_mered(config) && !self.discipline.has_mered {
            let text = "the memory that `mered` needs in the kernel is taken at the start only; stop, and start again";
            return Err(StartError::Change(text.into()));
        }
        let prepared = self.prepared(config, &mut Rtnl::open()?)?;
        self.discipline.has_room(Some(&prepared.image), None).map_err(too_large)?;
        Ok(prepared)
    }

    /// Whether flows are told apart: in classes that have a queue for each.
    pub fn has_flows(&self) -> bool {
        self.discipline.has_classes()
    }

    /// Whether the program has room for these conditions beside its rules.
    ///
    /// # Errors
    /// The numbers that there are and may be.
    pub fn check_promises(&self, table: &PromiseTable) -> Result<(), String> {
        let none = Promises::default().replaced(&[], table)?;
        if table.numbers.len() > FBQ_PROMISES as usize {
            return Err(format!("{} promises, of which {FBQ_PROMISES} are possible", table.numbers.len()));
        }
        self.discipline.has_room(None, Some(&none))
    }

    /// What another program has changed, if anything. An interface that is not there has not been changed.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn difference(&self) -> Result<Option<Difference>, Error> {
        let mut rtnl = Rtnl::open()?;
        if rtnl.link_by_index(self.index)?.is_none() {
            return Ok(None);
        }
        let found = rtnl.root_qdisc(self.index)?.map_or("nothing".into(), |root| root.kind);
        let meant = self.discipline.name.clone();
        Ok((found != meant).then_some(Difference::Root { found, meant }))
    }

    /// Follows an interface that has another name, or has returned with another index.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn follow(&mut self, name: &str, index: u32, config: &Config) -> Result<(), StartError> {
        // The lock of the earlier name stays. Without that of the new one it is shaped all the same.
        self.locks.extend(InterfaceLock::acquire(name, config.interface.direction));
        if self.index != index {
            self.index = index;
            self.put(name, config)?;
        }
        Ok(())
    }

    /// Ends shaping: what waits passes, in order, then the interface gets its default discipline.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn detach(&self) -> Result<(), Error> {
        self.discipline.link.set(UNTIL, 1);
        let began = Instant::now();
        while worker::queued(&self.discipline) > 0 && began.elapsed() < EMPTYING {
            thread::sleep(Duration::from_millis(1));
        }
        let mut rtnl = Rtnl::open()?;
        match rtnl.root_qdisc(self.index) {
            Ok(Some(root)) if root.kind == self.discipline.name => rtnl.clear_qdisc(self.index),
            _ => Ok(()),
        }
    }
}

impl Drop for KernelPath {
    fn drop(&mut self) {
        let _ = self.detach();
    }
}

/// Removes the discipline that an earlier run has left at the root of an interface; returns whether there was one.
fn remove_left(rtnl: &mut Rtnl, index: u32) -> Result<bool, Error> {
    let left = rtnl.root_qdisc(index)?.is_some_and(|root| root.kind.starts_with(PREFIX));
    if left {
        rtnl.clear_qdisc(index)?;
    }
    Ok(left)
}

/// The bytes of a superpacket on a link, at most.
fn superpacket(rtnl: &mut Rtnl, index: u32) -> Result<Option<u64>, Error> {
    let gso = rtnl.link_by_index(index)?.map(|link| link.gso).unwrap_or_default();
    Ok(gso.bytes.max(gso.ipv4_bytes).map(u64::from))
}
