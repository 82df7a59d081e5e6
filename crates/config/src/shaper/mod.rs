//! The shaper file: what `tidegate run` enforces, `tidegate check` explains and the simulator can run too.
//!
//! [`load`] reads it, proves that its guarantees add up, and returns plain Rust types without places: a [`Config`]
//! in which every default is filled in and every name is a number.

mod both;
pub mod conditions;
pub mod control;
pub mod file;
pub mod guarantees;
pub mod metrics;
mod parameters;
pub(crate) mod resolve;
pub(crate) mod rules;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Bytes, ClassId, Dscp, Rate, Span};

use crate::decode::Decode;
use crate::diagnostic::{Diagnostics, Source};
use crate::discipline::Discipline;
use crate::node::{Entry, Node, Value};
use crate::schema::Schemas;
use crate::values::{Mark, Percent, Ports, Prefix, Protocol, User, dscp_name};

pub use conditions::{Owners, UnknownOwner};
pub use control::{Bounds, Control, EVENTS, Hook};
pub use file::{Bursts, DataPath, Detail, Direction, FairBy, FlowBy, Sharing, Unattended};
pub use metrics::Metrics;

/// The largest packet of Ethernet.
const DEFAULT_MTU: Bytes = Bytes::new(1500);

/// Reads a shaper file for one direction and checks it. `None` exactly when errors went to `diagnostics`; warnings may go
/// there in any case.
pub fn load(source: &Source, diagnostics: &mut Diagnostics) -> Option<Config> {
    let node = Node::parse(source, diagnostics)?;
    resolve::resolve(source.text().into(), node, diagnostics)
}

/// Reads a shaper file for one direction or both, and checks it: a configuration for each direction that is shaped, what
/// leaves first. `None` exactly when errors went to `diagnostics`.
pub fn load_all(source: &Source, diagnostics: &mut Diagnostics) -> Option<Vec<Config>> {
    both::load_all(source, diagnostics)
}

/// The file for one direction of a file for both. `None` when the text is no table, or has no such direction.
pub fn split(text: &str, direction: Direction) -> Option<String> {
    both::split(text, direction)
}

/// The file for both directions of a file for each; `None` when the tables that they have in common differ.
pub fn join(up: &str, down: &str) -> Option<String> {
    both::join(up, down)
}

/// A whole shaper file, or the same tables within another file: the value of a key of that file.
#[derive(Clone, Debug)]
pub enum Embedded {
    /// The name of a file.
    File(String),
    /// The tables. `version` may be left out.
    Tables(Box<Config>),
}

impl Decode for Embedded {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        match &node.value {
            Value::Text(name) => Some(Self::File(name.clone())),
            Value::Table(entries) => {
                let mut node = node.clone();
                if let Value::Table(own) = &mut node.value
                    && entries.iter().all(|entry| entry.key != "version")
                {
                    let version = Node { place: node.place, value: Value::Integer(Some(1)) };
                    own.insert(0, Entry { key: "version".into(), key_place: node.place, node: version });
                }
                let config = resolve::resolve(node.to_text().into(), node, diagnostics)?;
                Some(Self::Tables(Box::new(config)))
            }
            _ => {
                let wanted = "the name of a shaper file, or its tables";
                crate::decode::mismatch(node, wanted, "write for example \"office.toml\"", diagnostics);
                None
            }
        }
    }
    fn example() -> String {
        "\"office.toml\"".into()
    }
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        let tables = file::File::schema(schemas);
        serde_json::json!({ "anyOf": [{ "type": "string" }, tables] })
    }
}

/// The JSON Schema of a shaper file.
pub fn schema() -> serde_json::Value {
    crate::schema::document::<file::File>("Tidegate shaper file")
}

/// A whole shaper file, valid and resolved.
#[derive(Clone, Debug)]
pub struct Config {
    /// The text that it was read from, for recordings.
    pub text: Arc<str>,
    /// The same as tables.
    pub(crate) tables: Arc<Node>,
    /// Where the traffic leaves or arrives.
    pub interface: Interface,
    /// The discipline or the shaper of this direction.
    pub root: Root,
    /// Which packets go to which class; the first that matches wins. Rule `i` is profile `i + 1` of a packet,
    /// profile 0 is that of packets that no rule matched.
    pub rules: Vec<Rule>,
    /// The class of packets that no rule matches.
    pub default_class: ClassId,
    /// The extent of the statistics.
    pub statistics: Statistics,
    /// Whether the resolver of the system is asked for the names of hosts.
    pub reverse_lookup: bool,
    /// Who may do what over the control socket.
    pub control: Control,
    /// Where metrics and the web page are served, if anywhere.
    pub metrics: Option<Metrics>,
}

/// The extent of the statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Classes only, or flows as well.
    pub detail: Detail,
    /// The most flows that are remembered.
    pub flows: u32,
    /// A flow without packets for so long is forgotten.
    pub idle: Span,
}

impl Default for Statistics {
    /// Flows, 16,384 of them, for a minute: what a file without the section gets.
    fn default() -> Self {
        Self { detail: Detail::Flows, flows: 16_384, idle: Span::from_secs(60) }
    }
}

impl Config {
    /// The names of the classes, by number.
    pub fn class_names(&self) -> Vec<&str> {
        match &self.root {
            Root::Shaper(shaper) => shaper.classes.iter().map(|class| class.name.as_str()).collect(),
            Root::Discipline(discipline) => discipline.classes(),
        }
    }
}

/// The most threads of a data path: a packet is compared with the number of each.
pub const MOST_THREADS: u32 = 16;

/// The most interfaces under one total: the data path looks up the one of a packet among them.
pub const MOST_INTERFACES: usize = 16;

/// The interfaces whose traffic is shaped together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Their names in the order of the file; none when the command line has them. All rates are those of all of them
    /// together.
    pub names: Vec<String>,
    /// What leaves by it or what arrives by it.
    pub direction: Direction,
    /// The size of the largest packet.
    pub mtu: Bytes,
    /// What the link adds to each packet, counted in all rates.
    pub overhead: Bytes,
    /// Where packets are queued.
    pub data_path: DataPath,
    /// What becomes of a data path in the kernel when tidegate ends without ending it.
    pub unattended: Unattended,
    /// How many threads share the work. With more than one [`Shaper::divided_by`] is the key.
    pub threads: u32,
}

impl Default for Interface {
    /// No name, what leaves, Ethernet, in user space: what a file without the section gets.
    fn default() -> Self {
        Self {
            names: Vec::new(),
            direction: Direction::Egress,
            mtu: DEFAULT_MTU,
            overhead: Bytes::ZERO,
            data_path: DataPath::UserSpace,
            unattended: Unattended::Keep,
            threads: 1,
        }
    }
}

/// The discipline or the shaper of the traffic.
// There is one for each file.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum Root {
    /// Classes of flows: an FBC over FBQs.
    Shaper(Shaper),
    /// Any discipline.
    Discipline(Box<Discipline>),
}

/// An FBC: classes under one total.
#[derive(Clone, Debug)]
pub struct Shaper {
    /// The total that is never exceeded.
    pub rate: Rate,
    /// What may leave at once over all classes.
    pub burst: Bytes,
    /// Whose packets are one flow.
    pub flow_by: FlowBy,
    /// What shares a class equally. [`FairBy::Host`] is resolved to one of the two addresses.
    pub fair_by: FairBy,
    /// A flow without packets for so long is over.
    pub idle_timeout: Span,
    /// How many flows are distinguished at once.
    pub flows: u32,
    /// The classes in the order of the file; [`ClassId`] `i` is the `i`-th.
    pub classes: Vec<Class>,
}

/// The addresses of a packet by which flows are divided over threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DividedBy {
    /// The source address.
    Source,
    /// The destination address.
    Destination,
    /// Both addresses.
    HostPair,
}

impl Shaper {
    /// The addresses that all packets of a flow, and where hosts share a class all packets of a host, have in common; `None`
    /// where a flow may have any.
    pub fn divided_by(&self) -> Option<DividedBy> {
        match (self.fair_by, self.flow_by) {
            (_, FlowBy::User | FlowBy::ControlGroup | FlowBy::Dscp | FlowBy::Mark) => None,
            (FairBy::Host | FairBy::Source, FlowBy::Destination)
            | (FairBy::Destination, FlowBy::Source | FlowBy::Socket) => None,
            (FairBy::Host | FairBy::Source, _) | (FairBy::Flow, FlowBy::Source | FlowBy::Socket) => {
                Some(DividedBy::Source)
            }
            (FairBy::Destination, _) | (FairBy::Flow, FlowBy::Destination) => Some(DividedBy::Destination),
            (FairBy::Flow, FlowBy::FiveTuple | FlowBy::HostPair) => Some(DividedBy::HostPair),
        }
    }
}

/// A class: an FBQ, or a discipline behind a bucket.
#[derive(Clone, Debug)]
pub struct Class {
    /// By which rules, calls and counters name it; unique in the file.
    pub name: String,
    /// The rate that the class is allocated.
    pub rate: Rate,
    /// TB(q), what the class may send at once.
    pub burst: Bytes,
    /// TB(f), what one flow may send at once.
    pub flow_burst: Bytes,
    /// Smaller is asked first.
    pub priority: u8,
    /// The code point written on its packets; `None`: they keep theirs.
    pub dscp: Option<Dscp>,
    /// Whether the bucket of the class is in force.
    pub bursts: Bursts,
    /// What becomes of a share that its flow does not use.
    pub share: Sharing,
    /// Whether it uses what other classes leave.
    pub borrow: Borrow,
    /// Bytes that may wait in it.
    pub limit: Bytes,
    /// Bytes of one flow that may wait in it.
    pub flow_limit: Bytes,
    /// `incr`: what a preference adds to the share of a flow.
    pub increment: Percent,
    /// When the owner of a flow is notified that its queue fills.
    pub feedback: Option<Feedback>,
    /// A discipline in the place of the queues per flow.
    pub queue: Option<Discipline>,
}

/// Whether a class uses what other classes leave of the total.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Borrow {
    /// The class borrows.
    Allowed,
    /// The class keeps to its own rate.
    Never,
}

/// When the owner of a flow is notified that its queue fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// Fill of the queue of the flow above which it is notified.
    pub above: Percent,
    /// Fill below which it is notified that there is space again.
    pub below: Percent,
    /// Whether packets are marked as well.
    pub ecn: EcnFeedback,
}

/// Whether feedback marks packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EcnFeedback {
    /// ECN-capable packets of a flow above its threshold are marked.
    Mark,
    /// The owner receives events only.
    Off,
}

/// Which packets go to a class, and what their flows are promised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Its name, where the file has one.
    pub name: Option<String>,
    /// Where packets that match go.
    pub class: ClassId,
    /// The conditions on a packet.
    pub matches: Match,
    /// How much each flow gets beside flows of weight 1; at least 1.
    pub weight: u32,
    /// dmin(f): what each flow is promised.
    pub minimum: Rate,
    /// For how many flows the minimum fits.
    pub flows: u32,
    /// Where a flow goes when its share has fallen too low.
    pub displace: Option<Displace>,
}

/// What a packet must be: an empty list matches all, else one of the list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Match {
    /// Code points.
    pub dscps: Vec<Dscp>,
    /// Protocol numbers above IP; any of them matches, and all protocols if there are none.
    pub protocols: Vec<Protocol>,
    /// Sending addresses.
    pub sources: Vec<Prefix>,
    /// Receiving addresses.
    pub destinations: Vec<Prefix>,
    /// Sending ports.
    pub source_ports: Vec<Ports>,
    /// Receiving ports.
    pub destination_ports: Vec<Ports>,
    /// Firewall marks.
    pub marks: Vec<Mark>,
    /// Owners of the sending socket.
    pub users: Vec<User>,
    /// Control groups of the sending socket, without the leading slash.
    pub cgroups: Vec<String>,
}

impl Rule {
    /// Its name, else what it matches.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.matches.to_string())
    }
}

impl Match {
    /// Whether it matches every packet.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = [
            ("dscp", self.dscps.iter().copied().map(dscp_name).collect::<Vec<_>>()),
            ("protocol", texts(&self.protocols)),
            ("source", texts(&self.sources)),
            ("source-port", texts(&self.source_ports)),
            ("destination", texts(&self.destinations)),
            ("destination-port", texts(&self.destination_ports)),
            ("mark", texts(&self.marks)),
            ("uid", texts(&self.users)),
            ("cgroup", texts(&self.cgroups)),
        ];
        let parts: Vec<String> = listed
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(key, values)| format!("{key} {}", values.join(",")))
            .collect();
        f.write_str(if parts.is_empty() { "everything" } else { "" })?;
        f.write_str(&parts.join(" "))
    }
}

fn texts<T: ToString>(list: &[T]) -> Vec<String> {
    list.iter().map(T::to_string).collect()
}

/// Where a flow goes when its share has fallen too low.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Displace {
    /// thres(f): the share, as a rate, below which it goes.
    pub below: Rate,
    /// The class it goes to.
    pub to: ClassId,
}
