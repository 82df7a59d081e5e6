//! The shaped directions of the traffic: a data path for each, with the configuration in force.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tidegate_config::shaper::{Bounds, Config, Rule};
use tidegate_config::values::{User, WeekMinute};
use tidegate_control::calls::{FollowStatus, GuardianStatus, NameStatus, QuotaStatus, TimedRuleStatus};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_core::ClassId;
use tidegate_live::guardian::{Condition, Guardian, Page};
use tidegate_live::shaping::{
    Inherited, LiveEngine, Options, ShapedInterface, Shaping, StartError, Successor, VerdictSink, WorkerCounts,
    user_number,
};
use tidegate_units::{Rate, Span};

use crate::quotas;

pub(crate) const IN_USER_SPACE: &str = "start it with data-path = \"user-space\"";

/// One shaped direction of the traffic.
pub struct ShapedDirection {
    /// `up` for egress, `down` for ingress; with the interface before it, as in `wan0.up`, where there are several files.
    pub name: String,
    /// The number of its file.
    pub(crate) file: usize,
    /// The configuration in force.
    pub config: Config,
    /// The interfaces, in place of the configuration's: those of the options, or those that were renamed.
    interfaces: Vec<String>,
    /// The running data path; missing between its end and its next start.
    shaping: Option<Shaping>,
    /// Queues and rules that the last data path left to the next; its guardian lets packets pass meanwhile.
    inherited: Option<Inherited>,
    /// The turns of each thread of the data path that were last seen, and since when.
    beats: Vec<(u64, Instant)>,
    /// Counts changes of the data path and of its classes.
    generation: u64,
    /// Why the rules that hold now could not be put in force last.
    not_renewed: Option<String>,
    /// The state of a rate that follows the line.
    pub(crate) following: Option<FollowStatus>,
}

impl ShapedDirection {
    /// Makes a data path ready by `config` of file number `file`, under this name. It shapes from `begin` on, which `prove` is to
    /// follow.
    ///
    /// # Errors
    /// When the data path does not start; nothing is left behind then.
    pub fn prepare(config: Config, file: usize, name: String, options: &Options) -> Result<Self, StartError> {
        let shaping = Shaping::prepare(&config, options, None)?;
        let beats = shaping.beats().into_iter().map(|beats| (beats, Instant::now())).collect();
        let interfaces = options.interfaces.clone();
        Ok(Self {
            name,
            file,
            config,
            interfaces,
            shaping: Some(shaping),
            inherited: None,
            beats,
            generation: 0,
            not_renewed: None,
            following: None,
        })
    }

    /// The data path, while there is one.
    pub fn shaping(&self) -> Option<&Shaping> {
        self.shaping.as_ref()
    }
    /// The data path, for changes of it.
    pub(crate) fn shaping_mut(&mut self) -> Option<&mut Shaping> {
        self.generation += 1;
        self.shaping.as_mut()
    }
    /// Whether packets are queued in the kernel; `None` while there is no data path.
    pub(crate) fn in_kernel(&self) -> Option<bool> {
        self.shaping.as_ref().map(|shaping| shaping.in_kernel().is_some())
    }
    /// States where packets are queued after a move.
    pub(crate) fn moved(&self) -> String {
        let place = if self.in_kernel() == Some(true) { "the kernel path" } else { "user space" };
        format!("{}: traffic moved to {place}", self.name)
    }
    /// Whether the kernel path that the data path awaits is there now; see [`Shaping::awaited`].
    pub(crate) fn awaited(&mut self) -> Option<Result<(), StartError>> {
        let shaping = self.shaping.as_mut().filter(|shaping| shaping.awaits_kernel())?;
        let outcome = shaping.awaited();
        self.generation += u64::from(!shaping.awaits_kernel());
        outcome
    }
    /// Sets the total rate of a line that varies; `None` while there is no data path. No class comes or goes.
    pub(crate) fn set_line_rate(&mut self, rate: Rate) -> Option<Result<bool, StartError>> {
        self.shaping.as_mut().map(|shaping| shaping.set_line_rate(rate))
    }
    /// Puts the rules in force that hold at this minute and have not used up their quota. Returns lines for the log, each with the
    /// name of the count that it is about, if it is about one.
    pub(crate) fn renew_rules(&mut self) -> Vec<(Option<String>, String)> {
        let rate = self.following.as_ref().map(|following| following.allowed);
        let Some(shaping) = &mut self.shaping else { return Vec::new() };
        let off = shaping.rules_off().clone();
        let outcome = shaping.renew_rules(rate).map_err(|error| error.to_string());
        // Neighbours, who choose their addresses, must not be able to fill the log with the same line each second.
        let before = std::mem::replace(&mut self.not_renewed, outcome.as_ref().err().cloned());
        match outcome {
            Ok(false) => Vec::new(),
            Err(error) if before.as_ref() == Some(&error) => Vec::new(),
            Ok(true) => {
                let timed = self.timed_rules().into_iter().map(|line| (None, line));
                timed.chain(self.changed_quotas(&off)).collect()
            }
            Err(error) => {
                vec![(None, format!("rules with `when`, `quota`, `mac` or a name could not be changed: {error}"))]
            }
        }
    }
    /// The rules that hold at some times only, each with whether it holds now and until when.
    pub(crate) fn timed_rules(&self) -> Vec<String> {
        let Some(shaping) = &self.shaping else { return Vec::new() };
        shaping.timed_rules().into_iter().map(|timed| timed_rule(shaping.config(), timed)).collect()
    }
    /// The rules that hold at some times only, in the form of the protocol.
    pub(crate) fn times(&self) -> Vec<TimedRuleStatus> {
        let Some(shaping) = &self.shaping else { return Vec::new() };
        let label = |at: usize| shaping.config().rules.get(at).map(|rule| rule.label()).unwrap_or_default();
        let one = |(at, holds, next): (usize, bool, Option<WeekMinute>)| TimedRuleStatus {
            rule: at as u32 + 1,
            label: label(at),
            holds,
            until: next.map(|next| next.to_string()),
        };
        shaping.timed_rules().into_iter().map(one).collect()
    }
    /// Describes the rules with a quota that hold now and did not before, when `off` were the indices of those that did not, or
    /// the other way round.
    fn changed_quotas(&self, off: &BTreeSet<u32>) -> Vec<(Option<String>, String)> {
        let is_off = |rule: u32| self.shaping.as_ref().is_some_and(|shaping| shaping.rules_off().contains(&rule));
        let changed = |status: &QuotaStatus| off.contains(&(status.rule - 1)) != is_off(status.rule - 1);
        self.quotas().iter().filter(|status| changed(status)).map(|one| (Some(one.count.clone()), quota(one))).collect()
    }
    /// The rules with a quota.
    pub(crate) fn quotas(&self) -> Vec<QuotaStatus> {
        self.shaping.as_ref().map_or_else(Vec::new, quotas::status)
    }
    /// The names and devices in rules, with the addresses that they have now.
    pub(crate) fn named(&self) -> Vec<NameStatus> {
        let Some(shaping) = &self.shaping else { return Vec::new() };
        let (rules, known) = (&shaping.config().rules, shaping.named());
        let of_rule = |(rule, of): (u32, &Rule)| {
            let named = of.matches.named().map(|name| {
                let addresses = known.get(&name).into_iter().flatten().copied().collect();
                NameStatus { rule, key: name.key().into(), name: name.to_string(), addresses }
            });
            let devices = of.matches.macs.iter().map(|device| {
                let addresses = shaping.addresses_of(device);
                NameStatus { rule, key: "mac".into(), name: device.to_string(), addresses }
            });
            named.chain(devices).collect::<Vec<_>>()
        };
        (1..).zip(rules).flat_map(of_rule).collect()
    }
    /// The devices that have rules with a name, by the addresses that they have now.
    pub(crate) fn named_devices(&self) -> HashMap<IpAddr, String> {
        let Some(shaping) = &self.shaping else { return HashMap::new() };
        let mut named = HashMap::new();
        for rule in &shaping.config().rules {
            let Some(name) = &rule.name else { continue };
            let addresses = match (&rule.matches.macs[..], &rule.matches.hosts[..]) {
                ([device], []) => shaping.addresses_of(device),
                ([], [host]) if host.is_one_address() => vec![host.address],
                _ => Vec::new(),
            };
            for address in addresses {
                // Packets meet the first rule about an address.
                named.entry(address).or_insert_with(|| name.clone());
            }
        }
        named
    }
    /// Takes the data path out; dropping it ends shaping.
    pub(crate) fn take_shaping(&mut self) -> Option<Shaping> {
        self.generation += 1;
        self.shaping.take()
    }
    /// Ends the data path, and leaves its queues and rules to the next one where there is a guardian.
    pub(crate) fn leave(&mut self, successor: Successor) {
        let inherited = self.take_shaping().and_then(|shaping| shaping.leave(successor));
        self.inherited = inherited.or(self.inherited.take());
    }
    /// Takes the queues and rules that [`leave`](Self::leave) left. Dropping them ends shaping, unless a successor takes over.
    pub(crate) fn take_left(&mut self) -> Option<Inherited> {
        self.inherited.take()
    }
    /// Makes a data path ready again, by the configuration in force.
    pub(crate) fn prepare_again(&mut self, options: &Options) -> Result<(), StartError> {
        self.generation += 1;
        let options = Options { interfaces: self.interfaces.clone(), ..options.clone() };
        self.shaping = Some(Shaping::prepare(&self.config, &options, self.inherited.take())?);
        Ok(())
    }
    /// Has the data path that was made ready shape; before that it was given what flows have been promised.
    ///
    /// # Errors
    /// When it does not; there is no data path then, and packets pass unshaped.
    pub(crate) fn begin(&mut self) -> Result<(), StartError> {
        self.advance(Shaping::begin)
    }
    /// Proves that the data path shapes. Begin all directions before the first of them is proven, which takes its time.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub(crate) fn prove(&mut self) -> Result<(), StartError> {
        self.advance(Shaping::prove)
    }
    fn advance(&mut self, step: fn(&mut Shaping) -> Result<(), StartError>) -> Result<(), StartError> {
        let outcome = self.shaping.as_mut().map_or(Ok(()), step);
        if outcome.is_err() {
            self.shaping = None;
        }
        outcome
    }

    /// The names of the interfaces whose traffic is shaped together.
    pub fn interfaces(&self) -> &[String] {
        if self.interfaces.is_empty() { &self.config.interface.names } else { &self.interfaces }
    }
    /// The interfaces of the data path; none while there is no data path.
    pub(crate) fn interfaces_running(&self) -> &[ShapedInterface] {
        self.shaping.as_ref().map_or(&[], Shaping::interfaces)
    }
    /// Whether the interface of this name is one of this direction.
    pub(crate) fn has(&self, interface: &str) -> bool {
        self.interfaces().iter().any(|name| name == interface)
    }
    /// Has the data path follow an interface, which has another name or index; `None` while there is no data path. The next
    /// start is by the new name in either case.
    pub(crate) fn follow(&mut self, earlier: &str, name: &str, index: u32) -> Option<Result<(), StartError>> {
        if name != earlier {
            let rename = |own: &String| if own == earlier { name.to_owned() } else { own.clone() };
            self.interfaces = self.interfaces().iter().map(rename).collect();
        }
        Some(self.shaping_mut()?.follow(earlier, name, index))
    }
    /// The state of the guardian, in the form of the protocol.
    pub(crate) fn guardian(&self) -> Option<GuardianStatus> {
        let shaping = self.shaping()?;
        let (guardian, missing) = (shaping.guardians().next(), shaping.unguarded().map(str::to_owned));
        if guardian.is_none() && missing.is_none() {
            return None;
        }
        // The guardians of all threads are started alike.
        let granted = guardian.map(Guardian::granted).unwrap_or_default();
        Some(GuardianStatus {
            pid: guardian.and_then(Guardian::process),
            missing,
            takeovers: shaping.pages().map(Page::takeovers).sum(),
            passed_packets: shaping.pages().map(Page::passed).sum(),
            restarts: shaping.guardians().map(Guardian::restarts).sum(),
            locked: granted.locked,
            real_time: granted.real_time,
            restricted: granted.dropped,
            reachable: guardian.is_some_and(Guardian::is_reachable),
        })
    }
    /// Looks at the guardian. Called with every tick.
    pub(crate) fn tend_guardian(&mut self) -> Condition {
        self.shaping.as_mut().map_or(Condition::Watching, Shaping::tend_guardian)
    }

    /// Changes whenever the data path or its classes may have changed.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The data path, for requests that cannot do without it.
    ///
    /// # Errors
    /// [`Code::Failed`] while there is none.
    pub(crate) fn running(&self) -> Result<&Shaping, Refusal> {
        self.shaping.as_ref().ok_or_else(not_in_force)
    }

    /// Refuses requests about flows where the data path does not tell flows apart.
    ///
    /// # Errors
    /// [`Code::Unsupported`].
    pub(crate) fn has_flows(&self) -> Result<(), Refusal> {
        if self.shaping().is_none_or(Shaping::has_flows) {
            return Ok(());
        }
        let text = "the data path in the kernel tells flows apart only in classes that have a queue for each";
        Err(Refusal::new(Code::Unsupported, text).help(IN_USER_SPACE))
    }
    /// Refuses promises where the data path does not tell flows apart, or can promise them nothing.
    ///
    /// # Errors
    /// [`Code::Unsupported`].
    pub(crate) fn can_promise(&self) -> Result<(), Refusal> {
        self.has_flows()?;
        match self.shaping().and_then(Shaping::without_promises) {
            None => Ok(()),
            Some(why) => Err(Refusal::new(Code::Unsupported, why).help(IN_USER_SPACE)),
        }
    }
    /// Notes whether the data path has made progress. Called with every tick.
    pub(crate) fn note_progress(&mut self) {
        let Some(shaping) = &self.shaping else { return };
        let (beats, now) = (shaping.beats(), Instant::now());
        self.beats.resize(beats.len(), (0, now));
        for (known, beats) in self.beats.iter_mut().zip(beats) {
            if known.0 != beats {
                *known = (beats, now);
            }
        }
    }

    /// The time without progress of the data path, to within a tick; of several threads that of the slowest.
    pub(crate) fn silent_for(&self) -> Duration {
        let Some(shaping) = &self.shaping else { return Duration::ZERO };
        let same = self.beats.iter().zip(shaping.beats()).filter(|(known, beats)| known.0 == *beats);
        same.map(|(known, _)| known.1.elapsed()).max().unwrap_or_default()
    }

    /// The counters of the data path.
    ///
    /// # Errors
    /// [`Code::Failed`] when there is no data path, or it does not reply.
    pub(crate) fn counts(&self) -> Result<WorkerCounts, Refusal> {
        self.running()?.counts().map_err(failed)
    }

    /// Runs `work` on the engine between two packets; of several shards on the first, for what all have in common.
    ///
    /// # Errors
    /// [`Code::Failed`] when there is no data path, or it does not reply.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LiveEngine, tidegate_units::Instant) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        self.ask_shard(0, work)
    }
    /// Like [`ask`](Self::ask), for one shard.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub(crate) fn ask_shard<T: Send + 'static>(
        &self,
        shard: usize,
        work: impl FnOnce(&mut LiveEngine, tidegate_units::Instant) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        self.running()?.with_shard(shard, work).map_err(failed)
    }
    /// Like [`ask`](Self::ask), for each shard. `work` returns the closure to run.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub(crate) fn ask_each<T: Send + 'static, W>(&self, mut work: impl FnMut() -> W) -> Result<Vec<T>, Refusal>
    where
        W: FnOnce(&mut LiveEngine, tidegate_units::Instant) -> T + Send + 'static,
    {
        let each = self.running()?.each(|| {
            let work = work();
            move |engine: &mut LiveEngine, now, _: &mut VerdictSink| work(engine, now)
        });
        each.map_err(failed)
    }
    /// The numbers of the shards; none while there is no data path.
    pub(crate) fn shards(&self) -> std::ops::Range<usize> {
        0..self.shaping.as_ref().map_or(0, Shaping::shards)
    }

    /// The bounds of a user who is not root, in the configuration in force.
    pub(crate) fn bounds(&self, uid: u32) -> Bounds {
        let control = &self.config.control;
        let is_it = |user: &User| match user {
            User::Id(id) => *id == uid,
            User::Name(name) => user_number(name) == Some(uid),
        };
        control.users.iter().find(|(user, _)| is_it(user)).map_or(control.bounds, |(_, bounds)| *bounds)
    }

    /// Refuses a user who is not root a lease that is longer than the configuration allows.
    ///
    /// # Errors
    /// [`Code::NotAllowed`].
    pub(crate) fn check_lease(&self, lease: Option<Span>) -> Result<(), Refusal> {
        let longest = self.config.control.lease;
        match lease {
            Some(lease) if lease > longest => {
                let text = format!("a lease of {lease} is longer than {longest}");
                Err(Refusal::new(Code::NotAllowed, text).help("ask for a shorter one and renew it before it ends"))
            }
            _ => Ok(()),
        }
    }

    /// The name of a class; empty for one that is gone.
    pub(crate) fn name_of(&self, class: ClassId) -> &str {
        self.config.class_names().get(class.0 as usize).copied().unwrap_or_default()
    }

    /// The class of this name.
    ///
    /// # Errors
    /// [`Code::NotFound`], with the names that exist.
    pub(crate) fn class_named(&self, name: &str) -> Result<ClassId, Refusal> {
        let names = self.config.class_names();
        match names.iter().position(|other| *other == name) {
            Some(at) => Ok(ClassId(at as u32)),
            None => Err(Refusal::new(Code::NotFound, format!("there is no class `{name}`"))
                .help(format!("there are {}", names.join(", ")))),
        }
    }
}

/// The refusal of what exceeds the bounds of a user who is not root.
pub(crate) fn beyond_bounds(text: String) -> Refusal {
    Refusal::new(Code::NotAllowed, text)
        .help("[control] in the shaper file lists what users may do; root may do everything")
}

fn failed(error: StartError) -> Refusal {
    Refusal::new(Code::Failed, error.to_string())
}

/// The refusal of what needs a data path while there is none.
pub(crate) fn not_in_force() -> Refusal {
    Refusal::new(Code::Failed, "shaping is not in force at the moment").help("try again in a second")
}

/// The index of the direction of this name; without a name of the first.
///
/// # Errors
/// [`Code::NotFound`], with the names that exist.
pub(crate) fn direction_named(directions: &[ShapedDirection], name: Option<&str>) -> Result<usize, Refusal> {
    let Some(name) = name else { return Ok(0) };
    let names: Vec<&str> = directions.iter().map(|direction| direction.name.as_str()).collect();
    names.iter().position(|other| *other == name).ok_or_else(|| {
        Refusal::new(Code::NotFound, format!("no direction `{name}` is shaped here"))
            .help(format!("there is {}", names.join(" and ")))
    })
}

/// The names of the shaped interfaces, each once, in the order of the files.
pub(crate) fn interfaces(directions: &[ShapedDirection]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in directions.iter().flat_map(ShapedDirection::interfaces) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// The names of the shaped interfaces, for people.
pub(crate) fn interface(directions: &[ShapedDirection]) -> String {
    interfaces(directions).join(" + ")
}

pub(crate) fn name_of(config: &Config) -> &'static str {
    config.interface.direction.table()
}

/// Describes a rule with a quota.
fn quota(status: &QuotaStatus) -> String {
    let QuotaStatus { rule, label, used, quota, period, next, .. } = status;
    let (bytes, state) = (tidegate_display::bytes, if status.is_used_up() { "has used up" } else { "has used" });
    let used = bytes(used.as_u64());
    format!(
        "rule {rule} ({label}) {state} {used} of {} for this {period}; it begins anew on {next}",
        bytes(quota.as_u64())
    )
}

/// Describes a rule that holds at some times only.
fn timed_rule(config: &Config, (at, holds, change): (usize, bool, Option<WeekMinute>)) -> String {
    let label = config.rules.get(at).map(Rule::label).unwrap_or_default();
    let state = if holds { "holds now" } else { "does not hold now" };
    let until = change.map_or_else(String::new, |at| format!(", until {at}"));
    format!("rule {} ({label}) {state}{until}", at + 1)
}
