//! What is done while a scenario runs, as it is written: `[[at]]`.

use tidegate_config::decode::mismatch;
use tidegate_config::node::{Node, Value};
use tidegate_config::shaper::Embedded;
use tidegate_config::values::{Prefix, Protocol, User};
use tidegate_config::{Decode, Diagnostics, Schemas, Spanned};
use tidegate_core::{Bytes, Rate, Span};

use super::file::{LossSection, WorkloadSection};

tidegate_config::record! {
    /// An action on the shaper of a link at a time, as live over the control socket; or on its line, or on flows.
    pub struct AtSection as "action at a time" {
        /// When, in simulated time.
        pub time: Spanned<Span>,
        /// Where the link begins. Default: that of the only link with a shaper.
        pub from: Option<Spanned<String>>,
        /// Where the link ends.
        pub to: Option<Spanned<String>>,
        /// The action.
        pub action: Spanned<ActionSection>,
    }
}

tidegate_config::choice! {
    /// What is done to a shaper, a line or a flow. Refusals are results of the scenario, not errors.
    pub enum ActionSection as "action" by "kind" {
        /// Promises flows a minimum, a preference or another class, as `tidegate promise` does.
        Promise(PromiseSection) = "promise",
        /// Ends a promise.
        Release(ReleaseSection) = "release",
        /// Reserves a class of CBQ for packets, as `tidegate reserve` does.
        Reserve(ReserveSection) = "reserve",
        /// Ends a reservation.
        Unreserve(UnreserveSection) = "unreserve",
        /// Changes values of the shaper file, as `tidegate set` does.
        Set(SetSection) = "set",
        /// Adds a class or a rule to the shaper file, as `tidegate add` does.
        Add(AddSection) = "add",
        /// Removes a class or a rule of the shaper file, as `tidegate remove` does.
        Remove(RemoveSection) = "remove",
        /// Continues with another shaper file, as `tidegate apply` does.
        Apply(ApplySection) = "apply",
        /// Puts a snapshot of classes, flows, promises and reservations into the results, as `tidegate status` shows
        /// it.
        Status(StatusSection) = "status",
        /// Reports the state of flows, from now on, as the call `feedback` of the control protocol does.
        Feedback(FeedbackSection) = "feedback",
        /// Changes the line of a link from now on.
        Line(LineSection) = "line",
        /// Gives flows another workload from now on.
        Workload(WorkloadChange) = "workload",
        /// Reports the events of all flows from now on, as `tidegate events` does.
        Events(EventsSection) = "events",
    }
}

tidegate_config::record! {
    /// Which flows are meant; all keys that are there must match.
    pub struct TargetSection as "target" {
        /// A section of flows of the scenario, or with its number one flow of it: `call`, `call.2`.
        pub flow: Option<Spanned<String>>,
        /// A port at either end.
        pub port: Option<u16>,
        /// The sending port.
        pub source_port: Option<u16>,
        /// The receiving port.
        pub destination_port: Option<u16>,
        /// The sending address.
        pub source: Option<Spanned<Prefix>>,
        /// The receiving address.
        pub destination: Option<Spanned<Prefix>>,
        /// The protocol.
        pub protocol: Option<Protocol>,
        /// The owner of the sending socket.
        pub user: Option<User>,
    }
}

tidegate_config::record! {
    /// The class of a flow whose share has fallen too low.
    pub struct DisplaceSection as "displacement" {
        /// The share, as a rate, below which it goes. Above `minimum`.
        pub below: Spanned<Rate>,
        /// The class it goes to.
        pub to: Spanned<String>,
    }
}

tidegate_config::record! {
    /// A minimum, a preference, or a way out for flows of a shaper with promises.
    pub struct PromiseSection as "promise action" {
        /// Its name in the results, and by which it is released.
        pub name: Spanned<String>,
        /// The conditions that its flows meet.
        pub target: Spanned<TargetSection>,
        /// What each flow is promised. Default nothing.
        pub minimum: Option<Rate>,
        /// Steps of preference. Default none.
        pub prefer: Spanned<u32> = 0,
        /// Where the flows go when their share has fallen too low. Default: they stay.
        pub displace: Option<DisplaceSection>,
        /// The class in which rate is held. Default: the class to which the rules lead the flows.
        pub class: Option<Spanned<String>>,
        /// For how many flows rate is held. Default 1.
        pub flows: Spanned<u32> = 1,
        /// Whether what does not fit waits for what others release. Default no: it is refused.
        pub wait: bool = false,
        /// How long it lasts. Default: until it is released.
        pub lasts: Option<Span>,
    }
}

tidegate_config::record! {
    /// The end of a promise.
    pub struct ReleaseSection as "release action" {
        /// The name of the promise.
        pub name: Spanned<String>,
    }
}

tidegate_config::record! {
    /// A token bucket reservation in a class of CBQ (RFC 2211, RFC 2212).
    pub struct ReserveSection as "reserve action" {
        /// Its name, also of its class in the results.
        pub name: Spanned<String>,
        /// The conditions that its packets meet.
        pub target: Spanned<TargetSection>,
        /// The rate of its token bucket.
        pub rate: Rate,
        /// The size of its token bucket. Default two of the largest packets.
        pub bucket: Option<Bytes>,
        /// Its peak rate. Default the link's.
        pub peak: Option<Rate>,
        /// Packets count as at least this large. Default 64 B.
        pub min_unit: Option<Bytes>,
        /// Its largest packet. Default the link's.
        pub max_packet: Option<Bytes>,
        /// Whether its delay is bounded (RFC 2212). Default no: as on an unloaded link (RFC 2211).
        pub guaranteed: bool = false,
        /// The bound of its delay that it asks for.
        pub delay: Option<Span>,
        /// How long it lasts. Default: until it is released.
        pub lasts: Option<Span>,
    }
}

tidegate_config::record! {
    /// The end of a reservation.
    pub struct UnreserveSection as "unreserve action" {
        /// The name of the reservation.
        pub name: Spanned<String>,
    }
}

tidegate_config::record! {
    /// A change of a line. What is not given stays as it is.
    pub struct LineSection as "line action" {
        /// A constant rate, instead of whatever it was.
        pub rate: Option<Spanned<Rate>>,
        /// The propagation delay, one way, of packets that are transmitted from now on.
        pub delay: Option<Span>,
        /// The loss, at random.
        pub loss: Option<Spanned<LossSection>>,
        /// Whether the other direction changes as well. Default no.
        pub both_ways: bool = false,
    }
}

tidegate_config::record! {
    /// A change of a workload: connections of the old one end as at `stop`, and the new one begins.
    pub struct WorkloadChange as "workload action" {
        /// A section of flows of the scenario, or with its number one flow of it: `call`, `call.2`.
        pub flow: Spanned<String>,
        /// What it sends from now on.
        pub workload: Spanned<WorkloadSection>,
    }
}

/// Keys and values as in a shaper file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Values(pub Vec<(String, String)>);

impl Decode for Values {
    fn decode(node: &Node, diagnostics: &mut Diagnostics) -> Option<Self> {
        let Value::Table(entries) = &node.value else {
            mismatch(node, "a table of keys and values", "write for example { rate = \"3mbit\" }", diagnostics);
            return None;
        };
        Some(Self(entries.iter().map(|entry| (entry.key.clone(), entry.node.value_text())).collect()))
    }
    fn example() -> String {
        "{ rate = \"3mbit\" }".into()
    }
    fn schema(_schemas: &mut Schemas) -> serde_json::Value {
        serde_json::json!({ "type": "object" })
    }
}

tidegate_config::record! {
    /// A change of values.
    pub struct SetSection as "set action" {
        /// `class`, `rule`, or a table of the shaper file such as `shaper`.
        pub section: Spanned<String>,
        /// The name of the class, or the number of the rule. Default none, for other tables.
        pub name: Option<Spanned<String>>,
        /// The keys and their values; an empty text removes a key.
        pub values: Spanned<Values>,
    }
}

tidegate_config::record! {
    /// A new class or rule.
    pub struct AddSection as "add action" {
        /// `class` or `rule`. A rule goes before the others.
        pub section: Spanned<String>,
        /// Its keys and values.
        pub values: Spanned<Values>,
    }
}

tidegate_config::record! {
    /// The removal of a class or a rule.
    pub struct RemoveSection as "remove action" {
        /// `class` or `rule`.
        pub section: Spanned<String>,
        /// The name of the class, or the number of the rule.
        pub name: Spanned<String>,
    }
}

tidegate_config::record! {
    /// Another shaper file takes the place of that in force, without loss.
    pub struct ApplySection as "apply action" {
        /// The name of the file, beside the scenario; or its tables.
        pub shaper: Spanned<Embedded>,
    }
}

tidegate_config::record! {
    /// A snapshot of the shaper, in the results.
    pub struct StatusSection as "status action" {
        /// The most flows of it, those with the highest rates. Default 20.
        pub flows: u32 = 20,
    }
}

tidegate_config::record! {
    /// Reports of the state of flows.
    pub struct FeedbackSection as "feedback action" {
        /// The conditions that its flows meet.
        pub target: Spanned<TargetSection>,
        /// The delay above which it is reported. Default 20 ms.
        pub delay: Span = "20ms",
    }
}

tidegate_config::record! {
    /// Reports of events.
    pub struct EventsSection as "events action" {
        /// Their kinds, as `tidegate events` names them. Default all.
        pub kinds: Vec<Spanned<String>>,
    }
}
