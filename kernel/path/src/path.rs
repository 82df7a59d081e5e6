//! [`KernelPath`]: the discipline at the root of an interface.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_config::shaper::{Config, DataPath, Unattended};
use tidegate_engine::guard::lock;
use tidegate_engine::quota::{self, Key};
use tidegate_engine::{Names, PromiseTable, Setup, rules};
use tidegate_live::netlink::Error;
use tidegate_live::probe::Inspection;
use tidegate_live::rtnl::{OnLink, RootQdisc, Rtnl};
use tidegate_live::rules::{Difference, Direction};
use tidegate_live::shaping::backend::{
    Backend, DEVICE, DISCIPLINE, OffloadBackend, OffloadCounters, clear_root, device_name, remove_device,
};
use tidegate_live::shaping::{Hold, Running, StartError, WorkerCounts, resolve, wait_until_empty};
use tidegate_units::Span;

use crate::counters::{Counters, queued};
use crate::options::fbq_options::STRUCTURE;
use crate::options::link::{FROM_NETWORK, OVERHEAD, UNTIL};
use crate::options::{FBQ_PROMISES, Options, marks};
use crate::plan::{self, Plan};
use crate::programs::Discipline;
use crate::promises::{Promises, room_for};

/// How long the queue may take to empty at an end.
const EMPTYING: Duration = Duration::from_secs(2);
/// The number of an interface by which packets came in is its index above this number: `TWIN_INTERFACES` of kernel/classify.h.
const INTERFACES: u64 = 1 << 63;
/// How long packets that have left the queue of our device may take to arrive.
const ARRIVING: Duration = Duration::from_millis(20);

/// Whether the program can do what a configuration asks for, and with `auto` whether it does it as user space does.
///
/// # Errors
/// [`StartError::NotInKernel`] with everything that it cannot.
pub fn check(config: &Config) -> Result<(), StartError> {
    Plan::new(config, None, 0)?;
    if config.interface.data_path == DataPath::Auto {
        plan::examine_choice(config)?;
    }
    let names = resolve(config, Vec::new())?.0;
    image(config, &Setup { seed: 0, secret: [0; 2], catch_up: Span::ZERO, most_queued: None, names }).map(drop)
}

/// The rules as the program has them.
fn image(config: &Config, setup: &Setup) -> Result<Vec<u64>, StartError> {
    let image = rules::image(config, setup)?;
    room_for(&image, &Promises::default()).map_err(too_large)?;
    Ok(image)
}

/// The refusal of rules for which there is no room.
fn too_large(numbers: String) -> StartError {
    let what =
        format!("rules and promises whose tables have {numbers}; leave out some, or let them combine fewer fields");
    StartError::NotInKernel { what }
}

/// A configuration in the form that the program takes.
#[derive(Debug)]
struct Prepared {
    plan: Plan,
    /// The rules, and the counts to which they belong.
    image: Vec<u64>,
    keys: Vec<Key>,
    unattended: Unattended,
}

/// A change that has not come into force.
#[derive(Debug)]
struct Change {
    config: Config,
    /// What its rules depend on.
    names: Names,
    prepared: Prepared,
}

/// A discipline, and the interface that it is attached to.
#[derive(Debug)]
pub(crate) struct KernelPath {
    discipline: Arc<Discipline>,
    attached: Option<Attachment>,
    /// The next configuration, while a change is going on.
    next: Option<Change>,
}

#[derive(Debug)]
struct Attachment {
    /// The index of the interface.
    line: u32,
    /// The index of the device whose root the discipline is: the interface, or for what arrives a device of ours.
    index: u32,
    direction: OnLink,
    /// Whether packets get code points or marks.
    marks: bool,
    /// What the rules in force depend on, the seed of random streams, and the secret of flow keys.
    setup: Setup,
}

impl KernelPath {
    pub fn new(discipline: Arc<Discipline>) -> Self {
        Self { discipline, attached: None, next: None }
    }

    /// Puts the discipline at the root of the interface, or of a device of ours to which what arrives is led, in the place of one that
    /// an earlier run has left.
    fn put(&self, to: &mut Attachment, name: &str, config: &Config) -> Result<Vec<String>, StartError> {
        let mut rtnl = Rtnl::open()?;
        let mut notes = Vec::new();
        to.index = to.line;
        if to.direction == OnLink::Arriving {
            let left = remove_device(&mut rtnl, to.line)?;
            notes.extend(left.map(|queued| taken_over(name, queued)));
            let device = device_name(to.line);
            rtnl.create(&device, DEVICE)?;
            to.index = rtnl.link(&device)?.map_or(0, |link| link.index);
            notes.push(format!("what arrives by {name} waits at {device}, a device made for that"));
        }
        let prepared = prepared(to.index, &to.setup, config, self.discipline.queues)?;
        notes.extend(prepared.plan.notes.clone());
        to.marks = prepared.plan.marks();
        self.discipline.marks.set(marks::DEVICE, to.index.into());
        self.configure(prepared);
        if to.direction == OnLink::Leaving {
            notes.extend(make_room(&mut rtnl, to.line, name)?);
        }
        let hold = Hold::begin(&mut rtnl, to.line);
        wait_until_empty(&mut rtnl, to.line);
        rtnl.set_plain(to.index, &self.discipline.name)?;
        match rtnl.root_qdisc(to.index)? {
            Some(root) if root.kind == self.discipline.name => {}
            other => {
                let kind = other.map_or("nothing".into(), |root| root.kind);
                let text = format!("the root of {name} is {kind} although {} was put there", self.discipline.name);
                return Err(StartError::DataPath(text));
            }
        }
        if to.direction == OnLink::Arriving {
            rtnl.up(to.index)?;
        }
        // Whoever adds it later loses what waits.
        rtnl.add_clsact(to.line)?;
        self.set_program(&mut rtnl, to, to.marks)?;
        match hold {
            Ok(hold) => hold.end()?,
            Err(error) => notes.push(format!("what left by {name} while its queue was exchanged may be lost: {error}")),
        }
        Ok(notes)
    }

    /// Puts the discipline at an interface that has returned, and was number `earlier` before.
    fn put_again(&self, to: &mut Attachment, earlier: u32, name: &str, config: &Config) -> Result<(), StartError> {
        if to.direction == OnLink::Arriving {
            remove_device(&mut Rtnl::open()?, earlier)?;
        }
        self.put(to, name, config).map(drop)
    }

    /// Has our program see packets at the interface where that is needed: all that arrive, and those that leave where they are
    /// marked.
    fn set_program(&self, rtnl: &mut Rtnl, to: &Attachment, marks: bool) -> Result<(), StartError> {
        if to.direction == OnLink::Leaving && !marks {
            return Ok(rtnl.remove_program(to.line, to.direction, DISCIPLINE)?);
        }
        let program = self.discipline.filter(to.direction);
        let program = program.map_err(|error| StartError::NoKernelProgram(error.to_string()))?;
        Ok(rtnl.set_program(to.line, to.direction, DISCIPLINE, program)?)
    }

    /// Puts another configuration in force. Queued packets stay: none is lost, and packets of a flow stay in order.
    fn configure(&self, Prepared { plan, image, keys, unattended }: Prepared) {
        let Discipline { classes, link, marks, .. } = &*self.discipline;
        let accounts = self.discipline.accounts_of(&plan.names);
        for (account, dscp) in accounts.iter().zip(&plan.dscp) {
            marks.set(marks::DSCP + account, dscp.map_or(0, |dscp| dscp + 1));
        }
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
            written.rule_keys = keys;
            if is_other {
                written.promises = written.promises.ended();
            }
        });
        self.discipline.leased.store(unattended == Unattended::Pass, Ordering::Relaxed);
        self.discipline.renew();
    }

    /// Another configuration in the form that the program takes, whose rules have these names.
    ///
    /// # Errors
    /// [`StartError::NotInKernel`] or [`StartError::Change`] with what this program cannot do.
    fn other(&self, config: &Config, names: &Names) -> Result<Prepared, StartError> {
        if plan::is_mered(config) && !self.discipline.has_mered {
            let text = "the memory that `mered` needs in the kernel is taken at the start only; stop, and start again";
            return Err(StartError::Change(text.into()));
        }
        if !self.discipline.can_have(config) {
            let text = "a discipline of another crate has a program of its own, which is loaded at the start only; stop, and start again";
            return Err(StartError::Change(text.into()));
        }
        let to = self.attached.as_ref().ok_or_else(detached)?;
        let setup = Setup { names: names.clone(), ..to.setup.clone() };
        let prepared = prepared(to.index, &setup, config, self.discipline.queues)?;
        self.discipline.has_room(Some(&prepared.image), None).map_err(too_large)?;
        Ok(prepared)
    }

    /// Lets queued packets pass, in order, gives the interface its default discipline, and removes our program and our device.
    fn detach(&mut self) -> Result<(), Error> {
        let Some(to) = self.attached.take() else { return Ok(()) };
        let mut rtnl = Rtnl::open()?;
        self.discipline.link.set(UNTIL, 1);
        self.wait_until_empty();
        let hold = Hold::begin(&mut rtnl, to.line).ok();
        let removed = rtnl.remove_program(to.line, to.direction, DISCIPLINE);
        if to.direction == OnLink::Leaving {
            self.wait_until_empty();
            let root = rtnl.root_qdisc(to.index).ok().flatten();
            if root.is_some_and(|root| root.kind == self.discipline.name) {
                rtnl.clear_qdisc(to.index)?;
            }
        }
        // With it goes what waits at the root, where the other direction may have a discipline of ours.
        let root = rtnl.root_qdisc(to.line).ok().flatten();
        let removed = match root.is_some_and(|root| root.kind.starts_with(DISCIPLINE)) {
            true => removed,
            false => removed.and(rtnl.remove_clsact(to.line)),
        };
        drop(hold);
        if to.direction == OnLink::Arriving {
            thread::sleep(ARRIVING);
            remove_device(&mut rtnl, to.line)?;
        }
        removed
    }

    /// Waits until nothing is queued, for [`EMPTYING`] at most.
    fn wait_until_empty(&self) {
        let began = Instant::now();
        while queued(&self.discipline) > 0 && began.elapsed() < EMPTYING {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Backend for KernelPath {
    fn discipline(&self) -> Option<&str> {
        Some(&self.discipline.name)
    }

    /// Another discipline at the root is a difference. An interface that is not there has not been changed.
    fn inspect(&mut self) -> Result<Inspection, Error> {
        let mut inspection = Inspection { differences: Vec::new(), queues: Vec::new() };
        let Some(Attachment { line, index, direction, marks, .. }) = self.attached else { return Ok(inspection) };
        let mut rtnl = Rtnl::open()?;
        if rtnl.link_by_index(line)?.is_some() {
            let found = rtnl.root_qdisc(index)?.map_or("nothing".into(), |root| root.kind);
            let meant = self.discipline.name.clone();
            inspection.differences.extend((found != meant).then_some(Difference::Root { found, meant }));
            let has_program = marks || direction == OnLink::Arriving;
            if has_program && rtnl.program(line, direction, DISCIPLINE)?.is_none() {
                inspection.differences.push(Difference::MissingProgram { program: DISCIPLINE.into() });
            }
        }
        Ok(inspection)
    }

    fn interfaces(&self, config: &Config) -> Result<BTreeMap<String, u64>, Error> {
        let names = config.rules.iter().flat_map(|rule| &rule.matches.from_interfaces);
        let mut rtnl = Rtnl::open()?;
        // By one that is not there no packet comes.
        let mut number = |name: &String| Ok(INTERFACES | rtnl.link(name)?.map_or(0, |link| u64::from(link.index)));
        names.map(|name| Ok((name.clone(), number(name)?))).collect()
    }

    fn prepare(&mut self, config: &Config) -> Result<Names, StartError> {
        let mut names = resolve(config, Vec::new())?.0;
        if let Some(numbers) = &mut names.interfaces {
            *numbers = self.interfaces(config)?;
        }
        let prepared = self.other(config, &names)?;
        // A program that finds no code point and owes no mark changes nothing.
        if let Some(to) = self.attached.as_ref().filter(|_| prepared.plan.marks()) {
            self.set_program(&mut Rtnl::open()?, to, true)?;
        }
        self.next = Some(Change { config: config.clone(), names: names.clone(), prepared });
        Ok(names)
    }

    fn begin_change(&mut self, _running: &Running, names: &Names) -> Result<(), StartError> {
        let Some(Change { config, .. }) = self.next.take() else { return Ok(()) };
        let prepared = self.other(&config, names)?;
        self.next = Some(Change { config, names: names.clone(), prepared });
        Ok(())
    }

    fn finish_change(&mut self) {
        if let Some(Change { names, prepared, .. }) = self.next.take() {
            let marks = prepared.plan.marks();
            self.configure(prepared);
            if let Some(to) = &mut self.attached {
                (to.marks, to.setup.names) = (marks, names);
            }
            if let Some(to) = self.attached.as_ref().filter(|_| !marks)
                && let Ok(mut rtnl) = Rtnl::open()
            {
                // One that stays does nothing.
                let _ = self.set_program(&mut rtnl, to, false);
            }
        }
    }

    fn revert(&mut self, config: &Config, names: &Names) -> Result<(), StartError> {
        if self.next.take().is_some() {
            return Ok(());
        }
        self.renew_rules(config, names)
    }

    fn renew_rules(&mut self, config: &Config, names: &Names) -> Result<(), StartError> {
        self.configure(self.other(config, names)?);
        self.attached.iter_mut().for_each(|to| to.setup.names = names.clone());
        Ok(())
    }

    fn follow(&mut self, _at: usize, name: &str, index: u32, running: &Running) -> Result<(), StartError> {
        let Some(mut to) = self.attached.take() else { return Err(detached()) };
        let earlier = std::mem::replace(&mut to.line, index);
        let put = if earlier == index { Ok(()) } else { self.put_again(&mut to, earlier, name, running.config()) };
        self.attached = Some(to);
        put
    }

    fn end(&mut self, running: &mut Running) -> Result<WorkerCounts, StartError> {
        let ended = running.stop();
        self.detach()?;
        ended
    }

    /// Flows are told apart in classes that have a queue for each.
    fn has_flows(&self) -> bool {
        self.discipline.has_classes()
    }

    fn check_promises(&self, table: &PromiseTable) -> Result<(), String> {
        let none = Promises::default().replaced(&[], table)?;
        if table.numbers.len() > FBQ_PROMISES as usize {
            return Err(format!("{} promises, of which {FBQ_PROMISES} are possible", table.numbers.len()));
        }
        self.discipline.has_room(None, Some(&none))
    }
}

impl OffloadBackend for KernelPath {
    fn attach(
        &mut self,
        interface: &str,
        index: u32,
        config: &Config,
        setup: &Setup,
    ) -> Result<Vec<String>, StartError> {
        // An earlier data path may have left its accounts.
        lock(&self.discipline.accounts).clear();
        drop(self.discipline.matched());
        self.discipline.write(|written| written.promises = written.promises.ended());
        let direction = match config.interface.direction {
            Direction::Egress => OnLink::Leaving,
            Direction::Ingress => OnLink::Arriving,
        };
        let mut to = Attachment { line: index, index, direction, marks: false, setup: setup.clone() };
        let put = self.put(&mut to, interface, config);
        self.attached = Some(to);
        put
    }

    fn counters(&self) -> Box<dyn OffloadCounters> {
        Box::new(Counters::new(Arc::clone(&self.discipline)))
    }
}

impl Drop for KernelPath {
    fn drop(&mut self) {
        let _ = self.detach();
    }
}

/// A configuration for a program that tells up to `queues` flows apart.
fn prepared(index: u32, setup: &Setup, config: &Config, queues: u64) -> Result<Prepared, StartError> {
    let plan = Plan::new(config, superpacket(index)?, setup.seed)?.within(queues);
    let (image, keys) = (image(config, setup)?, quota::keys(config));
    Ok(Prepared { plan, image, keys, unattended: config.interface.unattended })
}

/// Removes what an earlier run has left at the root of the interface. Returns a note for people.
fn make_room(rtnl: &mut Rtnl, line: u32, name: &str) -> Result<Option<String>, StartError> {
    match rtnl.root_qdisc(line)? {
        Some(root) if root.kind.starts_with(DISCIPLINE) => Ok(Some(taken_over(name, clear_root(rtnl, line)?))),
        Some(RootQdisc { kind, handle, .. }) if handle != 0 => {
            Err(StartError::RootConfigured { interface: name.into(), kind })
        }
        _ => Ok(None),
    }
}

fn taken_over(name: &str, lost: u32) -> String {
    let lost = match lost {
        0 => String::new(),
        lost => format!(", and {lost} packets that waited there were dropped"),
    };
    format!(
        "the kernel went on shaping {name} as an earlier run had configured it, which ended without ending that; this one has taken \
         over{lost}"
    )
}

fn detached() -> StartError {
    StartError::DataPath("it is at no interface".into())
}

/// The bytes of a superpacket on a link, at most.
fn superpacket(index: u32) -> Result<Option<u64>, Error> {
    let gso = Rtnl::open()?.link_by_index(index)?.map(|link| link.gso).unwrap_or_default();
    Ok(gso.bytes.max(gso.ipv4_bytes).map(u64::from))
}
