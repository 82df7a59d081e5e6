//! Actions while a scenario runs, as written in the file: `[[at]]`.

use tidegate_config::decode::mismatch;
use tidegate_config::node::{Node, Value};
use tidegate_config::shaper::Embedded;
use tidegate_config::values::{Prefix, Protocol, User};
use tidegate_config::{Decode, Diagnostics, Schemas, Spanned};
use tidegate_core::{Bytes, Rate, Span};

use super::file::{LossSection, WorkloadSection};

tidegate_config::record! {
    /// An action at a time: on the shaper of a link, as over the control socket of a live one, on a line, or on flows.
    pub struct AtSection as "action at a time" {
        /// The simulated time of the action.
        pub time: Spanned<Span>,
        /// Where the link begins. Default: the only link with a shaper.
        pub from: Option<Spanned<String>>,
        /// Where the link ends.
        pub to: Option<Spanned<String>>,
        /// The action.
        pub action: Spanned<ActionSection>,
    }
}

tidegate_config::choice! {
    /// An action on a shaper, a line or a flow. Refusals are results of the scenario, not errors.
    pub enum ActionSection as "action" by "kind" {
        /// Promises flows a minimum, a preference or another class, like `tidegate promise`.
        Promise(PromiseSection) = "promise",
        /// Ends a promise.
        Release(ReleaseSection) = "release",
        /// Reserves a class of CBQ for packets, like `tidegate reserve`.
        Reserve(ReserveSection) = "reserve",
        /// Ends a reservation.
        Unreserve(UnreserveSection) = "unreserve",
        /// Changes values of the shaper file, like `tidegate set`.
        Set(SetSection) = "set",
        /// Adds a class or a rule to the shaper file, like `tidegate add`.
        Add(AddSection) = "add",
        /// Removes a class or a rule of the shaper file, like `tidegate remove`.
        Remove(RemoveSection) = "remove",
        /// Continues with another shaper file, like `tidegate apply`.
        Apply(ApplySection) = "apply",
        /// Adds a snapshot of classes, flows, promises and reservations to the results, like `tidegate status`.
        Status(StatusSection) = "status",
        /// Reports the state of flows from now on, like the call `feedback` of the control protocol.
        Feedback(FeedbackSection) = "feedback",
        /// Changes the line of a link from now on.
        Line(LineSection) = "line",
        /// Gives flows another workload from now on.
        Workload(WorkloadChange) = "workload",
        /// Reports the events of all flows from now on, like `tidegate events`.
        Events(EventsSection) = "events",
    }
}

tidegate_config::record! {
    /// Selects flows. All keys that are present must match.
    pub struct TargetSection as "target" {
        /// A section of flows of the scenario, or one flow of it by its number: `call`, `call.2`.
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
    /// The class to which a flow moves when its share falls too low.
    pub struct DisplaceSection as "displacement" {
        /// The share, as a rate, below which the flow moves. Above `minimum`.
        pub below: Spanned<Rate>,
        /// The class to which it moves.
        pub to: Spanned<String>,
    }
}

tidegate_config::record! {
    /// A minimum, a preference, or a displacement for flows of a shaper with promises.
    pub struct PromiseSection as "promise action" {
        /// The name of the promise in the results and in `release`.
        pub name: Spanned<String>,
        /// The flows to which the promise applies.
        pub target: Spanned<TargetSection>,
        /// The rate that each flow is promised. Default none.
        pub minimum: Option<Rate>,
        /// Steps of preference. Default none.
        pub prefer: Spanned<u32> = 0,
        /// The class to which flows move when their share falls too low. Default: they stay.
        pub displace: Option<DisplaceSection>,
        /// The class in which rate is held. Default: the class that the rules give the flows.
        pub class: Option<Spanned<String>>,
        /// The number of flows for which rate is held. Default 1.
        pub flows: Spanned<u32> = 1,
        /// Whether a promise that does not fit waits until others are released. Default no: it is refused.
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
        /// The name of the reservation, and of its class in the results.
        pub name: Spanned<String>,
        /// The packets to which the reservation applies.
        pub target: Spanned<TargetSection>,
        /// The rate of its token bucket.
        pub rate: Rate,
        /// The size of its token bucket. Default two of the largest packets.
        pub bucket: Option<Bytes>,
        /// Its peak rate. Default the link's.
        pub peak: Option<Rate>,
        /// The minimum policed unit: packets count as at least this large. Default 64 B.
        pub min_unit: Option<Bytes>,
        /// Its largest packet. Default the link's.
        pub max_packet: Option<Bytes>,
        /// Whether its delay is bounded (RFC 2212). Default no: it receives service as on an unloaded link (RFC 2211).
        pub guaranteed: bool = false,
        /// The requested bound of its delay.
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
    /// A change of a line. Keys that are absent leave their value unchanged.
    pub struct LineSection as "line action" {
        /// A constant rate, which replaces the rate or rate over time.
        pub rate: Option<Spanned<Rate>>,
        /// The propagation delay, in one direction, of packets that are transmitted from now on.
        pub delay: Option<Span>,
        /// The loss, at random.
        pub loss: Option<Spanned<LossSection>>,
        /// Whether the other direction changes as well. Default no.
        pub both_ways: bool = false,
    }
}

tidegate_config::record! {
    /// A change of a workload. Connections of the old workload end as at `stop`, and the new workload begins.
    pub struct WorkloadChange as "workload action" {
        /// A section of flows of the scenario, or one flow of it by its number: `call`, `call.2`.
        pub flow: Spanned<String>,
        /// The workload from now on.
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
        /// The keys and their values. An empty text removes a key.
        pub values: Spanned<Values>,
    }
}

tidegate_config::record! {
    /// The addition of a class or a rule.
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
    /// The replacement of the shaper file in force, without loss.
    pub struct ApplySection as "apply action" {
        /// The name of the file, beside the scenario; or its tables.
        pub shaper: Spanned<Embedded>,
    }
}

tidegate_config::record! {
    /// A snapshot of the shaper, in the results.
    pub struct StatusSection as "status action" {
        /// The largest number of flows in it, chosen by rate. Default 20.
        pub flows: u32 = 20,
    }
}

tidegate_config::record! {
    /// Reports of the state of flows.
    pub struct FeedbackSection as "feedback action" {
        /// The flows that are watched.
        pub target: Spanned<TargetSection>,
        /// The delay above which the state is reported. Default 20 ms.
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
