//! The state of the engine for reports: counters, classes, flows.

use std::collections::HashMap;

use tidegate_config::shaper::{Config, Detail};
use tidegate_core::accounts::Account;
use tidegate_core::cbq::ClassState;
use tidegate_core::classify::Fields;
use tidegate_core::dualpi2::Coupled;
use tidegate_core::fbq::ClassView;
use tidegate_core::qdisc::Qdisc as _;
use tidegate_core::{Backlog, ClassId, Instant, fragments};

use crate::account::LineUse;
use crate::class_names::cbq_of;
use crate::engine::Engine;
use crate::flow_record::FlowIdentity;
use crate::flows::{FlowRow, Flows};
use crate::rules::Setup;
use crate::stats::{ClassCounts, ClassStatus};

/// The state of a class at some time.
#[derive(Clone, Debug)]
pub struct ClassRow {
    /// Its number; see [`Engine::class_names`] for its name.
    pub class: ClassId,
    /// The shaper's view of it; `None` for another discipline.
    pub view: Option<ClassView>,
    /// Packets and bytes that it has sent with borrowed rate, if the discipline counts them.
    pub borrowed: Option<Account>,
    /// The coupled queues in which its packets wait, if they do.
    pub coupled: Option<CoupledClass>,
    /// Its counts since the start.
    pub counts: ClassCounts,
}

/// The coupled queues of a class.
#[derive(Clone, Debug)]
pub struct CoupledClass {
    /// Their state.
    pub state: Coupled,
    /// The flows under sanction, by key, with the fields of one of their packets where flows are counted.
    pub flows: Vec<(u64, FlowIdentity)>,
}

impl CoupledClass {
    /// Adds the queues of another shard: delays and probabilities are the larger ones.
    pub fn add(&mut self, other: &Self) {
        self.state.add(&other.state);
        self.flows.extend_from_slice(&other.flows);
    }
}

impl ClassRow {
    /// Adds the same class of another shard, which has the rate in common.
    pub fn add(&mut self, other: &Self, now: Instant) {
        if let (Some(sum), Some(one)) = (&mut self.view, other.view) {
            sum.flows += one.flows;
            sum.waiting += one.waiting;
            sum.away += one.away;
            sum.backlog.merge(one.backlog);
            sum.borrowed.add(one.borrowed);
            sum.held_by = sum.held_by.or(one.held_by);
        }
        if let (Some(sum), Some(one)) = (&mut self.borrowed, other.borrowed) {
            sum.add(one);
        }
        if let (Some(sum), Some(one)) = (&mut self.coupled, &other.coupled) {
            sum.add(one);
        }
        self.counts.add(&other.counts, now);
    }
}

/// A class of CBQ in the sharing of the link, inner classes included.
#[derive(Clone, Debug)]
pub struct SharedClass {
    /// Its name.
    pub name: String,
    /// The name of the class above it; `None` for the root.
    pub parent: Option<String>,
    /// Its counters since the tree was built, and its state.
    pub state: ClassState,
}

impl<H: Copy + Send + 'static> Engine<H> {
    /// Packets that have arrived so far, which is also the number of the next one.
    pub fn arrivals(&self) -> u64 {
        self.account.arrivals
    }
    /// Packets sent so far, with their bytes on the link.
    pub fn sent(&self) -> Account {
        self.account.sent
    }
    /// Bytes sent so far, with the overhead of the line that the configuration states.
    pub fn line(&self) -> LineUse {
        self.account.line
    }
    /// Packets dropped so far.
    pub fn dropped(&self) -> u64 {
        self.account.dropped
    }
    /// Packets that no rule matched.
    pub fn unclassified(&self) -> u64 {
        self.account.unclassified
    }
    /// Packets that are queued.
    pub fn queued(&self) -> usize {
        self.admit.packets.len()
    }
    /// Flows that are held after a change of the configuration; see [`crate::swap`].
    pub fn held_flows(&self) -> usize {
        self.admit.hold.flows()
    }
    /// The fragments that wait for the first one of their datagram, and counts of fragments so far.
    pub fn fragments(&self) -> (Backlog, fragments::Counts) {
        self.classify.fragments()
    }
    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }
    /// The parameters that are not part of the configuration.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The names of the classes of the configuration.
    pub fn class_names(&self) -> &[String] {
        self.account.classes.names()
    }
    /// The classes of the configuration with their counts so far, followed by those of reservations.
    pub fn status(&self) -> Vec<ClassStatus> {
        let (views, classes) = (self.tree.classes(), &self.account.classes);
        let own = (0..).zip(classes.names()).map(|(n, name)| ClassStatus {
            name: name.clone(),
            rate: views.get(n).map(|view| view.rate).or_else(|| self.tree.class_rate(ClassId(n as u32))),
            flows: views.get(n).map(|view| view.flows),
            borrowed: views.get(n).map(|view| view.borrowed).or_else(|| self.borrowed(ClassId(n as u32))),
            counts: classes.all()[n].clone(),
        });
        let reserved = self.leases.iter().map(|lease| ClassStatus {
            name: lease.name.clone(),
            rate: Some(lease.grant.rate),
            flows: None,
            borrowed: self.borrowed(lease.grant.id),
            counts: classes.all()[classes.index(lease.grant.id)].clone(),
        });
        own.chain(reserved).collect()
    }
    /// The coupled queues in which packets of `class` wait, of an offload at its last reading. None where they wait in others.
    pub fn coupled(&self, class: ClassId, now: Instant) -> Option<CoupledClass> {
        let state = match self.admit.registry.offloaded() {
            Some(_) => self.admit.registry.coupled.get(&class).cloned()?,
            None => self.tree.coupled(class, now)?,
        };
        let identity = |key: u64| self.account.flows.as_ref()?.find(key).map(|record| record.who);
        let flows = state.flows.iter().map(|key| (*key, identity(*key).unwrap_or_default())).collect();
        Some(CoupledClass { state, flows })
    }
    /// The classes of CBQ in the sharing of the link, of an offload at its last reading: the root first, each class before its
    /// children. Empty for another discipline. Cost: linear.
    pub fn shared_classes(&self, now: Instant) -> Vec<SharedClass> {
        let (Some(cbq), Some(section)) = (self.tree.cbq(), cbq_of(&self.config)) else { return Vec::new() };
        let names = section.names();
        let reserved: HashMap<ClassId, &str> =
            self.leases.iter().map(|lease| (lease.grant.id, lease.name.as_str())).collect();
        let name = |class: ClassId| {
            let own = names.get(class.0 as usize).copied();
            own.or_else(|| reserved.get(&class).copied()).unwrap_or_default().to_owned()
        };
        let measured = |state: ClassState| match self.admit.registry.offloaded() {
            Some(_) => {
                let measured = self.admit.registry.shared_classes.get(&state.class).copied().unwrap_or_default();
                cbq.limits_of(state.class).map_or(state, |limits| measured.over(state, limits, now))
            }
            None => state,
        };
        let row = |state: ClassState| SharedClass {
            name: name(state.class),
            parent: state.parent.map(name),
            state: measured(state),
        };
        cbq.states(now).into_iter().map(row).collect()
    }
    /// Packets and bytes that a class has sent with borrowed rate, in an offload up to its last reading.
    fn borrowed(&self, class: ClassId) -> Option<Account> {
        let registry = &self.admit.registry;
        let elsewhere = registry.offloaded().and_then(|_| registry.shared_classes.get(&class));
        elsewhere.map(|measured| measured.stats.beyond_own()).or_else(|| self.tree.borrowed(class))
    }
    /// The shaper's views of all classes, in their order; none without classes.
    pub fn class_views(&self) -> Vec<ClassView> {
        (0..).zip(self.tree.classes()).map(|(class, view)| self.with_ceiling(ClassId(class), view)).collect()
    }
    /// The view with the ceiling that the class waits for, which an offload has where there is one.
    fn with_ceiling(&self, class: ClassId, view: ClassView) -> ClassView {
        ClassView { held_by: view.held_by.or_else(|| self.admit.registry.offloaded_class_held(class)), ..view }
    }
    /// Appends up to `most` classes, from number `from` on, to `rows`, and returns the number to continue from; `None` after
    /// the last class. Cost: a copy of 7 kB for each class; no allocation if `rows` has the capacity.
    pub fn class_rows(&mut self, now: Instant, from: u32, most: u32, rows: &mut Vec<ClassRow>) -> Option<u32> {
        let all = self.account.classes.names().len() as u32;
        let end = from.saturating_add(most).min(all);
        for class in from..end {
            let view = self.tree.shaper().and_then(|shaper| shaper.class(ClassId(class)));
            let view = view.map(|view| self.with_ceiling(ClassId(class), view));
            let rate = self.tree.due_rate(ClassId(class));
            let borrowed = self.borrowed(ClassId(class));
            let counts = self.account.classes.at(class as usize);
            if self.account.detail != Detail::Off && counts.promise_is_due(now) {
                counts.check(now, rate, view.is_some_and(|view| view.held_by.is_some()));
            }
            let counts = counts.clone();
            let coupled = self.coupled(ClassId(class), now);
            rows.push(ClassRow { class: ClassId(class), view, borrowed, coupled, counts });
        }
        (end < all).then_some(end)
    }
    /// Appends the flows at up to `most` places of the flow table, from place `from` on, to `rows`, and returns the place to
    /// continue from; `None` after the last place, or if flows are not counted. Flows may begin and end between two calls. Cost:
    /// a look-up and a copy of 0.7 kB for each place; no allocation if `rows` has the capacity.
    pub fn flow_rows(&mut self, now: Instant, from: u32, most: u32, rows: &mut Vec<FlowRow>) -> Option<u32> {
        let (shaper, registry) = (self.tree.shaper(), &self.admit.registry);
        let view = |key| registry.view(shaper?, key);
        self.account.flows.as_mut()?.look(now, from, most, rows, view)
    }
    /// The state of one flow, if flows are counted and the flow is known.
    pub fn flow_row(&self, key: u64) -> Option<FlowRow> {
        let record = self.account.flows.as_ref()?.find(key)?;
        Some(FlowRow { key, record, view: self.tree.shaper().and_then(|shaper| self.admit.registry.view(shaper, key)) })
    }
    /// The flow whose packets have the addresses, protocol and ports of `fields`, in whichever class its packets were; of several
    /// the one that was active last. `None` if flows are not counted, or none was active under this configuration. Cost: a
    /// look-up for each class.
    pub fn recorded_flow(&self, fields: &Fields) -> Option<FlowRow> {
        let flows = self.account.flows.as_ref()?;
        let ends = |who: &FlowIdentity| (who.hosts, who.protocol, who.source_port, who.destination_port);
        let named = (0..self.class_names().len() as u32).map(ClassId);
        let classes = named.chain(self.leases.iter().map(|lease| lease.grant.id));
        let known = classes.filter_map(|class| {
            let key = self.classify.key_in(class, fields).flow;
            Some((key, flows.find(key)?))
        });
        // A flow may be of several connections, for example of all between two hosts. Its record names only one of them.
        let wanted = ends(&FlowIdentity::from(fields));
        let (key, _) = known
            .filter(|(_, flow)| ends(&flow.who) == wanted && flow.last >= self.changed)
            .max_by_key(|(_, flow)| flow.last)?;
        self.flow_row(key)
    }
    /// The flow table, if flows are counted.
    pub fn flows(&self) -> Option<&Flows> {
        self.account.flows.as_ref()
    }
}
