//! [`KernelPath`]: the discipline at the root of an interface.

mod devices;
mod queues;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_config::shaper::{Config, DataPath, Match, Unattended};
use tidegate_engine::quota::{self, Key};
use tidegate_engine::{Names, PromiseTable, Setup, rules};
use tidegate_live::netlink::Error;
use tidegate_live::probe::Inspection;
use tidegate_live::rtnl::{OnLink, Rtnl, sysctl};
use tidegate_live::rules::{Difference, Direction};
use tidegate_live::shaping::backend::{
    Backend, DISCIPLINE, OffloadBackend, OffloadCounters, device_name, has_discipline, remove_device,
};
use tidegate_live::shaping::{Hold, Running, StartError, WorkerCounts, resolve, wait_until_empty};
use tidegate_units::{Bytes, Span};

use self::devices::{lead_nowhere, make_device, make_room, other_end, remove_own_device};
use crate::classes::rate_numbers;
use crate::counters::{Counters, Sums};
use crate::options::fbq_options::STRUCTURE;
use crate::options::link::{self, FROM_NETWORK, HANDS_OVER, OVERHEAD, UNTIL};
use crate::options::{FBQ_PROMISES, LINES, Options, marks};
use crate::plan::{self, Plan};
use crate::programs::Discipline;
use crate::promises::{Promises, room_for};
use crate::reservations::Places;
use crate::shards::{self, Rates, Shards};
use crate::tree;

/// The largest packets that a device of ours takes.
const LARGEST_MTU: u32 = 65_535;
/// How long the queue may take to empty at an end.
const EMPTYING: Duration = Duration::from_secs(2);
/// How long a device with two ends may take until it sends what it is given.
const RUNNING: Duration = Duration::from_secs(2);
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
    shards::number(config)?;
    if config.interface.data_path == DataPath::Auto {
        plan::examine_choice(config)?;
    }
    let names = resolve(config, Vec::new())?.0;
    image(config, &Setup { seed: 0, secret: [0; 2], catch_up: Span::ZERO, most_queued: None, names }).map(drop)
}

/// The rules as the program has them.
fn image(config: &Config, setup: &Setup) -> Result<Vec<u64>, StartError> {
    let image = rules::image(config, setup, &[], |class| class.0)?;
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
    places: Option<Places>,
    unattended: Unattended,
}

impl Prepared {
    /// Puts it in force in a program, with other rates where it is one of several.
    fn write(&self, discipline: &Discipline, rates: Option<&Rates>) {
        let (plan, Discipline { classes, link, marks, .. }) = (&self.plan, discipline);
        let accounts = discipline.accounts_of(&plan.names);
        for (account, dscp) in accounts.iter().zip(&plan.dscp) {
            marks.set(marks::DSCP + account, dscp.map_or(0, |dscp| dscp + 1));
        }
        link.set(FROM_NETWORK, 1);
        link.set(OVERHEAD, plan.overhead);
        link.set(HANDS_OVER, u64::from(plan.remarks));
        let account = accounts.first().map_or(0, |&account| account as u64);
        let before = |at| classes.get(at);
        let same_tree = match (&discipline.tree, &plan.tree) {
            (Some(map), Some(numbers)) => {
                let reserved = plan.classes.as_ref().map_or(0..0, |classes| classes.reserved.clone());
                tree::continues(|at| map.get(at), numbers, &reserved)
            }
            _ => true,
        };
        let mut numbers = plan.classes.as_ref().map(|plan| plan.numbers(&accounts, same_tree, before));
        // Classes may have other numbers then; the control plane makes the promises again.
        let is_other = numbers.as_ref().is_none_or(|numbers| numbers[STRUCTURE] != before(STRUCTURE));
        if let (Some(numbers), Some(rates)) = (&mut numbers, rates) {
            rate_numbers(rates).for_each(|(at, rate)| numbers[at] = rate);
        }
        discipline.write(|written| {
            written.options = Options { account, ..plan.options };
            written.classes = numbers;
            written.tree.clone_from(&plan.tree);
            written.rules.clone_from(&self.image);
            written.rule_keys.clone_from(&self.keys);
            if is_other {
                written.promises = written.promises.ended();
            }
            written.places.clone_from(&self.places);
            // There was room for them when it was prepared.
            let _ = written.reserve();
        });
        discipline.leased.store(self.unattended == Unattended::Pass, Ordering::Relaxed);
        discipline.renew();
    }
}

/// A change that has not come into force.
#[derive(Debug)]
struct Change {
    config: Config,
    /// The owners, devices and times on which its rules depend.
    names: Names,
    prepared: Prepared,
}

/// A discipline, and the interface that it is attached to.
#[derive(Debug)]
pub(crate) struct KernelPath {
    shards: Shards,
    attached: Option<Attachment>,
    /// The next configuration, while a change is going on.
    next: Option<Change>,
}

/// An interface whose packets the discipline has.
#[derive(Clone, Debug)]
struct Line {
    name: String,
    /// `None` while it is not there.
    index: Option<u32>,
}

#[derive(Debug)]
struct Attachment {
    /// The interfaces, in the order of the configuration.
    lines: Vec<Line>,
    /// The index of the device whose root the discipline is: the only interface, or a device of ours.
    index: u32,
    direction: OnLink,
    /// Whether packets are led to a device of ours: what arrives, what leaves by several interfaces, and what gets code points when it
    /// leaves the discipline.
    has_device: bool,
    /// Whether this device has two ends, by the other of which what has arrived and waited comes back to its interface: where it gets
    /// code points when it leaves the discipline.
    returns: bool,
    /// Whether packets get code points or marks.
    marks: bool,

    /// The owners, devices and times on which the rules in force depend, the seed of random streams, and the secret of flow keys.
    setup: Setup,
}

impl Attachment {
    /// The indices of the interfaces that are there.
    fn indices(&self) -> impl Iterator<Item = u32> {
        self.lines.iter().filter_map(|line| line.index)
    }

    /// Whether a program sees packets when they have left the discipline.
    fn is_seen_behind(&self) -> bool {
        self.has_device && (self.returns || self.direction == OnLink::Leaving)
    }
}

impl KernelPath {
    pub fn new(shards: Shards) -> Self {
        Self { shards, attached: None, next: None }
    }

    /// The program, or the first of several.
    fn discipline(&self) -> &Discipline {
        self.shards.first()
    }

    /// Puts the discipline at the root of the interface, or of a device of ours to which packets are led, in the place of one that an
    /// earlier run has left.
    fn put(&mut self, to: &mut Attachment, config: &Config) -> Result<Vec<String>, StartError> {
        let mut rtnl = Rtnl::open()?;
        let mut notes = Vec::new();
        self.count_queues(to, config)?;
        let prepared = prepared(to, &to.setup, config, self.discipline().queues)?;
        to.has_device |= prepared.plan.remarks;
        to.returns |= prepared.plan.remarks && to.direction == OnLink::Arriving;
        if to.direction == OnLink::Arriving {
            lead_nowhere(&mut rtnl, to)?;
        }
        for line in &to.lines {
            notes.extend(line.index.map(|index| make_room(&mut rtnl, to, &line.name, index)).transpose()?.flatten());
        }
        let first = to.indices().next().ok_or_else(detached)?;
        to.index = if to.has_device { make_device(&mut rtnl, to, first)? } else { first };
        notes.extend(prepared.plan.notes.clone());
        to.marks = prepared.plan.marks();
        self.discipline().marks.set(marks::DEVICE, if to.has_device { to.index.into() } else { 0 });
        self.discipline().marks.set(marks::RETURNS, to.returns.into());
        self.configure(prepared);
        if to.has_device {
            let names: Vec<&str> = to.lines.iter().map(|line| &*line.name).collect();
            let does = if to.direction == OnLink::Arriving { "arrives" } else { "leaves" };
            let device = device_name(first, to.direction);
            notes.push(format!("what {does} by {} waits at {device}, a device made for that", names.join(" + ")));
            self.take_root(&mut rtnl, to.index, &device)?;
            if to.returns {
                self.open_other_end(&mut rtnl, &device)?;
            }
            rtnl.up(to.index)?;
            if to.returns {
                rtnl.wait_until_running(to.index, RUNNING)?;
            }
        }
        for line in &to.lines {
            let Some(index) = line.index else { continue };
            if let Some(error) = self.lead(&mut rtnl, to, index, &line.name)? {
                notes.push(format!("what left by {} while its queue was exchanged may be lost: {error}", line.name));
            }
        }
        self.note_lines(to);
        self.shards.divide()?;
        Ok(notes)
    }

    /// Has the packets of an interface queued by the discipline. What leaves by it waits meanwhile; returns why it did not.
    fn lead(&self, rtnl: &mut Rtnl, to: &Attachment, line: u32, name: &str) -> Result<Option<StartError>, StartError> {
        let hold = Hold::begin(rtnl, line);
        wait_until_empty(rtnl, line);
        if !to.has_device {
            self.take_root(rtnl, line, name)?;
        }
        // Whoever adds it later loses what waits.
        rtnl.add_clsact(line)?;
        self.set_program(rtnl, to, line, to.marks)?;
        match hold {
            Ok(hold) => hold.end().map(|()| None),
            Err(error) => Ok(Some(error)),
        }
    }

    /// Has our program send what comes by the other end of a device on. Nobody has an address there.
    fn open_other_end(&self, rtnl: &mut Rtnl, device: &str) -> Result<(), StartError> {
        let other = other_end(device);
        for end in [device, &other] {
            // Otherwise the kernel looks for neighbours and groups there, by some packets that end at the program.
            let _ = sysctl::write(&format!("ipv6/conf/{end}/disable_ipv6"), "1");
            let index = rtnl.index(end)?;
            rtnl.set_mtu(index, LARGEST_MTU)?;
        }
        let other = rtnl.index(&other)?;
        let program = self.discipline().returning();
        let program = program.map_err(|error| StartError::NoKernelProgram(error.to_string()))?;
        rtnl.set_program(other, OnLink::Arriving, DISCIPLINE, program, None)?;
        Ok(rtnl.up(other)?)
    }

    /// Has the program count the packets of each of several interfaces.
    fn note_lines(&self, to: &Attachment) {
        for at in 0..LINES as usize {
            let line = to.lines.get(at).filter(|_| to.lines.len() > 1);
            // No packet is of the last index, which keeps the place of one that is not there.
            let index = line.map_or(0, |line| line.index.unwrap_or(u32::MAX));
            self.discipline().link.set(link::LINES + at, index.into());
        }
    }

    /// Follows an interface that has returned with another index.
    fn put_again(
        &mut self,
        to: &mut Attachment,
        at: usize,
        earlier: Option<u32>,
        config: &Config,
    ) -> Result<(), StartError> {
        let (Some(line), mut rtnl) = (to.lines[at].index, Rtnl::open()?) else { return Ok(()) };
        // The device for what arrives has the index of one interface in its name, by which the next run finds it.
        let is_named_so = match (to.direction, earlier) {
            (OnLink::Arriving, Some(earlier)) => rtnl.link(&device_name(earlier, to.direction))?.is_some(),
            _ => false,
        };
        if to.has_device && !is_named_so && rtnl.link_by_index(to.index)?.is_some() {
            // The device goes on, with the others.
            make_room(&mut rtnl, to, &to.lines[at].name, line)?;
            self.lead(&mut rtnl, to, line, &to.lines[at].name)?;
            self.note_lines(to);
            return Ok(());
        }
        if let (OnLink::Arriving, Some(earlier)) = (to.direction, earlier) {
            lead_nowhere(&mut rtnl, to)?;
            remove_device(&mut rtnl, earlier)?;
        }
        self.put(to, config).map(drop)
    }

    /// Has our program see packets at an interface where that is needed: where they are led elsewhere, and those that leave where they
    /// are marked.
    fn set_program(&self, rtnl: &mut Rtnl, to: &Attachment, line: u32, marks: bool) -> Result<(), StartError> {
        if !to.has_device && !marks {
            return Ok(rtnl.remove_program(line, to.direction, DISCIPLINE)?);
        }
        let program = self.discipline().filter(to.direction);
        let program = program.map_err(|error| StartError::NoKernelProgram(error.to_string()))?;
        // The program itself leads what arrives elsewhere, which takes no action.
        let elsewhere = (to.has_device && to.direction == OnLink::Leaving).then_some(to.index);
        Ok(rtnl.set_program(line, to.direction, DISCIPLINE, program, elsewhere)?)
    }

    /// Puts another configuration in force. Queued packets stay: none is lost, and packets of a flow stay in order.
    fn configure(&self, prepared: Prepared) {
        let granted = prepared.plan.classes.as_ref().map(|classes| classes.granted(&prepared.plan.names));
        self.shards.configure(granted, |discipline, rates| prepared.write(discipline, rates));
    }

    /// Another configuration in the form that the program takes, whose rules have these names.
    ///
    /// # Errors
    /// [`StartError::NotInKernel`] or [`StartError::Change`] with what this program cannot do.
    fn other(&self, config: &Config, names: &Names) -> Result<Prepared, StartError> {
        self.check_threads(config)?;
        if plan::measures(config) && !self.discipline().has_records {
            let text = "the memory that `mered`, `meredt` and `ingress-filter` need in the kernel is taken at the start only; stop, and start again";
            return Err(StartError::Change(text.into()));
        }
        if !self.discipline().can_have(config) {
            let text = "`cbq`, `cake` and disciplines of other crates have programs of their own, which are loaded at the start only; stop, and \
                        start again";
            return Err(StartError::Change(text.into()));
        }
        let to = self.attached.as_ref().ok_or_else(detached)?;
        let setup = Setup { names: names.clone(), ..to.setup.clone() };
        let mut prepared = prepared(to, &setup, config, self.discipline().queues)?;
        if let Some(places) = &prepared.places {
            prepared.image = places.image(&self.discipline().reservations(), None)?;
        }
        if prepared.plan.remarks && !to.is_seen_behind() {
            let text = "code points by the colour of a meter need a device in the kernel, which is made at the start only; stop, and start \
                        again";
            return Err(StartError::Change(text.into()));
        }
        self.discipline().has_room(Some(&prepared.image), None).map_err(too_large)?;
        Ok(prepared)
    }

    /// Lets queued packets pass, in order, gives the interface its default discipline, and removes our program and our device.
    fn detach(&mut self) -> Result<(), Error> {
        let Some(to) = self.attached.take() else { return Ok(()) };
        self.shards.stop_dividing();
        let mut rtnl = Rtnl::open()?;
        self.shards.all().iter().for_each(|one| one.link.set(UNTIL, 1));
        self.wait_until_empty();
        let mut removed = Ok(());
        for line in to.indices() {
            removed = removed.and(self.leave(&mut rtnl, &to, line));
        }
        if to.has_device {
            thread::sleep(ARRIVING);
            removed = removed.and(remove_own_device(&mut rtnl, to.index));
        }
        removed
    }

    /// Gives an interface its default discipline, and removes our program.
    fn leave(&self, rtnl: &mut Rtnl, to: &Attachment, line: u32) -> Result<(), Error> {
        let _hold = Hold::begin(rtnl, line);
        let removed = rtnl.remove_program(line, to.direction, DISCIPLINE);
        if to.direction == OnLink::Leaving {
            // What was on its way there is ahead of what leaves from now on.
            self.wait_until_empty();
        }
        if !to.has_device && self.is_root(rtnl, line) {
            rtnl.clear_qdisc(line)?;
        }
        // With it goes what waits at the root, where the other direction may have a discipline of ours.
        match has_discipline(rtnl, line).unwrap_or_default() {
            true => removed,
            false => removed.and(rtnl.remove_clsact(line)),
        }
    }

    /// Waits until nothing is queued, for [`EMPTYING`] at most.
    fn wait_until_empty(&self) {
        let began = Instant::now();
        while self.shards.queued() > 0 && began.elapsed() < EMPTYING {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Backend for KernelPath {
    fn discipline(&self) -> Option<&str> {
        Some(self.shards.name())
    }

    /// Another discipline at the root is a difference, and so is a program that is gone. An interface that is not there has not been
    /// changed.
    fn inspect(&mut self) -> Result<Inspection, Error> {
        let mut inspection = Inspection { differences: Vec::new(), queues: Vec::new() };
        let Some(to) = &self.attached else { return Ok(inspection) };
        let mut rtnl = Rtnl::open()?;
        let there = to.lines.iter().filter_map(|line| Some((&line.name, line.index?)));
        let mut is_any_there = false;
        for (name, line) in there {
            if rtnl.link_by_index(line)?.is_none() {
                continue;
            }
            is_any_there = true;
            let has_program = to.marks || to.has_device;
            if has_program && rtnl.program(line, to.direction, DISCIPLINE)?.is_none() {
                let program = if to.lines.len() > 1 { format!("{DISCIPLINE} at {name}") } else { DISCIPLINE.into() };
                inspection.differences.push(Difference::MissingProgram { program });
            }
        }
        if is_any_there {
            let (found, meant) = (self.found(&mut rtnl, to.index)?, self.shards.name().to_owned());
            inspection.differences.extend((found != meant).then_some(Difference::Root { found, meant }));
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
            let mut rtnl = Rtnl::open()?;
            to.indices().try_for_each(|line| self.set_program(&mut rtnl, to, line, true))?;
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
                let _ = to.indices().try_for_each(|line| self.set_program(&mut rtnl, to, line, false));
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

    fn follow(&mut self, at: usize, name: &str, index: u32, running: &Running) -> Result<(), StartError> {
        let Some(mut to) = self.attached.take() else { return Err(detached()) };
        let line = &mut to.lines[at];
        name.clone_into(&mut line.name);
        let earlier = line.index.replace(index);
        let is_same = earlier == Some(index);
        let put = if is_same { Ok(()) } else { self.put_again(&mut to, at, earlier, running.config()) };
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
        self.discipline().has_classes()
    }

    fn without_promises(&self) -> Option<&'static str> {
        let why = "with a discipline for each queue of the card the kernel path promises flows nothing";
        self.shards.are_several().then_some(why)
    }

    fn check_promises(&self, table: &PromiseTable) -> Result<(), String> {
        let none = Promises::default().replaced(&[], table)?;
        if table.numbers.len() > FBQ_PROMISES as usize {
            return Err(format!("{} promises, of which {FBQ_PROMISES} are possible", table.numbers.len()));
        }
        self.discipline().has_room(None, Some(&none))
    }

    fn check_reservation(&self, matches: &Match) -> Result<(), String> {
        self.discipline().check_reservation(matches)
    }
}

impl OffloadBackend for KernelPath {
    fn attach(
        &mut self,
        interfaces: &[(String, Option<u32>)],
        config: &Config,
        setup: &Setup,
    ) -> Result<Vec<String>, StartError> {
        // An earlier data path may have left its accounts.
        self.shards.begin_anew();
        let direction = match config.interface.direction {
            Direction::Egress => OnLink::Leaving,
            Direction::Ingress => OnLink::Arriving,
        };
        let line = |(name, index): &(String, Option<u32>)| Line { name: name.clone(), index: *index };
        let lines = interfaces.iter().map(line).collect();
        let has_device = direction == OnLink::Arriving || interfaces.len() > 1;
        let (returns, marks) = (false, false);
        let mut to = Attachment { lines, index: 0, direction, has_device, returns, marks, setup: setup.clone() };
        let put = self.put(&mut to, config);
        self.attached = Some(to);
        put
    }

    fn counters(&self) -> Box<dyn OffloadCounters> {
        let mut each: Vec<_> = self.shards.all().iter().map(|one| Counters::new(Arc::clone(one))).collect();
        if each.len() > 1 { Box::new(Sums(each)) } else { Box::new(each.remove(0)) }
    }

    fn longest_packet(&self) -> Bytes {
        let superpacket = self.attached.as_ref().and_then(|to| superpacket(to).ok().flatten());
        Bytes::new(plan::longest_packet(superpacket))
    }
}

impl Drop for KernelPath {
    fn drop(&mut self) {
        let _ = self.detach();
    }
}

/// A configuration for a program that tells up to `queues` flows apart.
fn prepared(to: &Attachment, setup: &Setup, config: &Config, queues: u64) -> Result<Prepared, StartError> {
    let plan = Plan::new(config, superpacket(to)?, setup.seed)?.within(queues);
    let (image, keys, places) = (image(config, setup)?, quota::keys(config), Places::new(config, setup, &plan));
    Ok(Prepared { plan, image, keys, places, unattended: config.interface.unattended })
}

fn detached() -> StartError {
    StartError::DataPath("it is at no interface".into())
}

/// The bytes of a superpacket on one of the links, at most.
fn superpacket(to: &Attachment) -> Result<Option<u64>, Error> {
    let mut rtnl = Rtnl::open()?;
    let mut largest = None;
    for line in to.indices() {
        let gso = rtnl.link_by_index(line)?.map(|link| link.gso).unwrap_or_default();
        largest = largest.max(gso.bytes.max(gso.ipv4_bytes).map(u64::from));
    }
    Ok(largest)
}
