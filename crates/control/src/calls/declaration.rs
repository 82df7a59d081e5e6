//! The declaration of each call, and what a declaration consists of.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_units::Span;

use super::{
    Applied, Apply, Classes, Confirm, Confirmed, Events, Explain, Explained, Feedback, Flows, InForce, Note, NoteList,
    Notes, Observation, PromiseCall, PromiseList, PromiseState, Promised, Promises, Refresh, Refreshed, Release,
    Released, Renew, ReservationList, ReservationsQuery, Reserve, Reserved, Rollback, Status, StatusQuery, Subscribed,
    Text, Undo, Unreserve, Unreserved, Unsubscribe, Unsubscribed, Watching,
};
use crate::declare::calls;
use crate::protocol::{Call, Code, Refusal, Request};

/// The users that may make a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permission {
    /// Every user who can connect.
    Anyone,
    /// Everybody, for flows of sockets with the user's own uid and within the bounds of `[control]`; operators for all
    /// flows. The handler applies the bounds.
    OwnFlows,
    /// The user who made the promise or reservation, and operators. The handler knows who made it.
    Holder,
    /// Operators: root, and the user that runs the daemon. The text completes "user 1000 may not ...".
    Operator(&'static str),
}

impl Permission {
    /// Refuses a caller who may not make the call with any parameters.
    ///
    /// # Errors
    /// [`Code::NotAllowed`].
    pub fn check(self, caller: &impl Authority) -> Result<(), Refusal> {
        match self {
            Self::Operator(what) if !caller.is_operator() => Err(not_allowed(caller.uid(), what)),
            Self::Operator(_) | Self::Anyone | Self::OwnFlows | Self::Holder => Ok(()),
        }
    }

    /// Refuses a caller who neither is `holder` nor an operator.
    ///
    /// # Errors
    /// [`Code::NotAllowed`].
    pub fn check_holder(caller: &impl Authority, holder: u32, what: &str) -> Result<(), Refusal> {
        if caller.uid() == holder || caller.is_operator() { Ok(()) } else { Err(not_allowed(caller.uid(), what)) }
    }
}

fn not_allowed(uid: u32, what: &str) -> Refusal {
    Refusal::new(Code::NotAllowed, format!("user {uid} may not {what}"))
        .help("ask root, or the user that runs tidegate")
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anyone => "everybody",
            Self::OwnFlows => "everybody, for own flows within `[control]`",
            Self::Holder => "its holder",
            Self::Operator(_) => "root and the user that runs Tidegate",
        })
    }
}

/// The facts that permissions depend on.
pub trait Authority {
    /// The user at the other end of the connection.
    fn uid(&self) -> u32;
    /// Whether this is root, or the user that runs the daemon.
    fn is_operator(&self) -> bool;
}

/// A name of the protocol as other languages write it: `in-force` as `InForce`.
pub fn capitals(name: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split(['-', '_']).map(word).collect()
}

/// A call as documentation and tests see it.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// Its name in a request.
    pub name: &'static str,
    /// Markdown; the first sentence stands alone.
    pub documentation: &'static str,
    /// The users that may make it.
    pub permission: Permission,
    /// The name of the type of its parameters in [`calls`](crate::calls).
    pub request_type: &'static str,
    /// The name of the type of its reply there.
    pub reply_type: &'static str,
    /// An example of the parameters, as JSON.
    pub request: &'static str,
    /// The reply to the example, as JSON.
    pub reply: &'static str,
    /// Parses parameters as the request, and writes them again.
    pub read_request: fn(&Value) -> Result<Value, serde_json::Error>,
    /// Parses a reply, and writes it again.
    pub read_reply: fn(&Value) -> Result<Value, serde_json::Error>,
}

fn reread<T: Serialize + DeserializeOwned>(value: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(T::deserialize(value)?)
}

calls! {
    /// Returns the state of the shaper and the counts of every class, at most 20 ms old.
    ///
    /// The reply has `trouble` while traffic passes unshaped, and `trial_ns` while a change is on trial. `privileges` is what
    /// the process may do, and is absent where that cannot be read; `obtainable` has capabilities that it lacks and a program
    /// which it runs could have.
    status "status" (StatusQuery) -> Status {
        permission: Permission::Anyone,
        client: (),
        request: r#"{}"#,
        reply: r#"{"version":"0.1.0","pid":4711,"network_namespace":4026531840,"interface":"eth0","file":"/etc/tidegate/eth0.toml","uptime_ns":61000000000,"in_force":true,"privileges":{"capabilities":["CAP_NET_ADMIN"],"no_new_privs":true,"filtered":true},"directions":[{"name":"up","rate_bps":12000000,"interfaces":[{"name":"eth0","present":true,"sent_packets":10,"sent_bytes":12000,"dropped_packets":1}],"kernel_dropped_packets":0,"classes":[{"name":"media","rate_bps":8000000,"unpromised_bps":8000000,"flows":1,"enqueued_packets":10,"enqueued_bytes":12000,"through_packets":10,"through_bytes":12000,"queue_packets":0,"queue_bytes":0,"dropped":[{"reason":"flow_limit","packets":1,"bytes":1200}],"marked_packets":0,"remarked_packets":10,"wait_p50_ns":52000,"wait_p99_ns":115000}]}],"control":{"clients":1,"subscriptions":0,"requests":1,"refused":0,"cut":0,"pushes":0,"lost":0}}"#,
    }
    /// Returns the measurements of every class, at most a quarter of a second old.
    ///
    /// `time_ms` is the time of day in milliseconds since 1970. `up_to` counts the packets that waited at most 16,384 ns,
    /// twice that, and so on.
    classes "classes" (Classes) -> Observation {
        permission: Permission::Anyone,
        client: (),
        request: r#"{}"#,
        reply: r#"{"time_ms":1795320638216,"interface":"eth0","uptime_ns":2358216657,"in_force":true,"directions":[{"name":"up","limit_bps":8000000,"line":{"used_bps":3899966,"overhead_bps":0},"classes":[{"name":"media","promised_bps":4000000,"unpromised_bps":4000000,"flows":1,"rate_bps":3899966,"borrowed_bps":0,"enqueued_packets":1273,"enqueued_bytes":1308644,"sent_packets":1023,"sent_bytes":1051644,"borrowed_bytes":0,"queue_packets":0,"queue_bytes":0,"dropped":[{"reason":"flow_limit","packets":250,"bytes":257000}],"marked_packets":0,"remarked_packets":0,"wait_p50_ns":97517568,"wait_p90_ns":97517568,"wait_p99_ns":99614720,"wait_longest_ns":100479302,"jitter_ns":679336,"waits":{"count":1023,"sum_ns":89555109774,"up_to":[7,8,8,9,9,9,11,13,17,25,42,76,145,1023,1023,1023,1023,1023,1023,1023,1023]},"promise_kept_seconds":1,"promise_missed_seconds":0}],"interfaces":[{"name":"eth0","present":true,"sent_packets":1023,"sent_bytes":1051644,"dropped_packets":250,"rate_bps":3899966}],"table":{"counted":true,"flows":1,"created":1,"expired":0,"evicted":0,"untracked_packets":0},"data_path":{"passed_packets":1023,"refused_packets":250,"cut_packets":0,"unreadable_packets":0,"unclassified_packets":1273,"turns":2290,"processor_ns":21249000,"lost_messages":0,"kernel_dropped_packets":0}}]}"#,
    }
    /// Returns the measurements of flows, and those of the classes at the same time, at most a quarter of a second old.
    ///
    /// `sort` is `rate`, `bytes`, `queue`, `delay`, `drops` or `recent`, the largest first; `limit` is at most 1,000, and 100
    /// unless it is given; `direction`, `class`, `uid` and `port` filter. A flow has `through`, the class to which it was
    /// displaced, `rule` and `minimum_bps` where there are.
    ///
    /// A direction has `answer`: for each kind of traffic that is sent a grade, and what it is derived from; `basis` is why it was
    /// taken to be of this kind. `dscp` is the code point at the arrival of the first packet of a flow.
    flows "flows" (Flows) -> Observation {
        permission: Permission::Anyone,
        client: (request),
        request: r#"{"sort":"rate","limit":1,"direction":"up","class":"media"}"#,
        reply: r#"{"time_ms":1795320638216,"interface":"eth0","uptime_ns":2358216657,"in_force":true,"directions":[{"name":"up","limit_bps":8000000,"line":{"used_bps":3899966,"overhead_bps":0},"classes":[{"name":"media","promised_bps":4000000,"unpromised_bps":4000000,"flows":1,"rate_bps":3899966,"borrowed_bps":0,"enqueued_packets":1273,"enqueued_bytes":1308644,"sent_packets":1023,"sent_bytes":1051644,"borrowed_bytes":0,"queue_packets":0,"queue_bytes":0,"dropped":[{"reason":"flow_limit","packets":250,"bytes":257000}],"marked_packets":0,"remarked_packets":0,"wait_p50_ns":97517568,"wait_p90_ns":97517568,"wait_p99_ns":99614720,"wait_longest_ns":100479302,"jitter_ns":679336,"waits":{"count":1023,"sum_ns":89555109774,"up_to":[7,8,8,9,9,9,11,13,17,25,42,76,145,1023,1023,1023,1023,1023,1023,1023,1023]},"promise_kept_seconds":1,"promise_missed_seconds":0}],"flows":[{"flow":{"key":"fa0ed18152d9aae1","protocol":17,"source":"192.0.2.1","source_port":59514,"destination":"198.51.100.7","destination_port":6000,"uid":1000},"class":"media","age_ns":2116908144,"idle_ns":19603544,"rate_bps":3899966,"share_bps":4000000,"granted":false,"preferred":0,"arrived_packets":1273,"arrived_bytes":1308644,"sent_packets":1023,"sent_bytes":1051644,"borrowed_bytes":0,"queue_packets":0,"queue_bytes":0,"wait_p50_ns":92274688,"wait_p90_ns":92274688,"wait_p99_ns":92274688,"wait_longest_ns":100479302,"jitter_ns":679336,"dropped":[{"reason":"flow_limit","packets":250}],"dropped_bytes":257000,"marked_packets":0,"remarked_packets":0,"promise_kept_seconds":0,"promise_missed_seconds":0}],"interfaces":[{"name":"eth0","present":true,"sent_packets":1023,"sent_bytes":1051644,"dropped_packets":250,"rate_bps":3899966}],"table":{"counted":true,"flows":1,"created":1,"expired":0,"evicted":0,"untracked_packets":0},"data_path":{"passed_packets":1023,"refused_packets":250,"cut_packets":0,"unreadable_packets":0,"unclassified_packets":1273,"turns":2290,"processor_ns":21249000,"lost_messages":0,"kernel_dropped_packets":0}}],"hosts":[{"address":"192.0.2.1","name":"studio","up":{"rate_bps":3899966,"share_bps":4000000,"flows":1,"queue_bytes":0,"wait_p99_ns":92274688,"sent_bytes":1051644,"dropped_packets":250},"down":{"rate_bps":0,"flows":0,"queue_bytes":0,"wait_p99_ns":0,"sent_bytes":0,"dropped_packets":0},"class":"media","limited_by":"demand"}]}"#,
    }
    /// Returns which rule a packet would match, its class and its flow, and the state of their queues and buckets now.
    ///
    /// A field that the request leaves out is unknown; addresses come in pairs. `rule` counts from 1 as in the file and
    /// is absent when none matches; the rules of reservations follow those of the file. Where the shaper knows the flow, and the
    /// request has no field in which its packets may differ (code point, mark, interface, length, TCP flags, ICMP type), the reply
    /// has `recorded`: rule and class are those that the last packet of the flow took, which may depend on fields that the request
    /// does not have. `now` is then what the rules choose at present, if that is something else. `buckets` is present where the root is
    /// a shaper; a bucket below zero is in debt. `outlook_bps` is the rate at which the flow sends, or would send, while the
    /// others continue as they are. Nothing queued may leave before `due_ns` from now; it is absent when nothing is queued.
    /// `seen` is the flow as `flows` returns it, if it is present.
    explain "explain" (Explain) -> Explained {
        permission: Permission::Anyone,
        client: (request),
        request: r#"{"protocol":17,"source":"192.0.2.1","source_port":40112,"destination":"198.51.100.7","destination_port":5004}"#,
        reply: r#"{"direction":"up","rule":1,"class":"media","flow":{"key":"9f3c7a1e00b24d55","protocol":17,"source":"192.0.2.1","source_port":40112,"destination":"198.51.100.7","destination_port":5004},"queue_packets":12,"queue_bytes":14400,"class_queue":{"packets":9,"bytes":10800},"class_rate_bps":8000000,"buckets":{"class_bytes":-200,"class_depth_bytes":3000,"all_bytes":1500,"all_depth_bytes":3000},"outlook_bps":4000000,"due_ns":200000}"#,
    }
    /// Subscribes to events. Empty filters do not filter.
    ///
    /// The reply precedes the first notification. Every notification carries the number of its subscription.
    events "events" (Events) -> Subscribed {
        permission: Permission::Anyone,
        client: custom,
        request: r#"{"kinds":["flow-started","moved"],"classes":["media"],"direction":"up","uid":1000,"port":5004}"#,
        reply: r#"{"subscription":1}"#,
    }
    /// Returns the last changes and faults, the oldest first: at most 256, of the last day.
    ///
    /// They are kept over restarts where the history is. The text of a change has its author, the command and the differences.
    notes "notes" (Notes) -> NoteList {
        permission: Permission::Anyone,
        client: (request) => notes: Vec<Note>,
        request: r#"{"since_s":1795320000}"#,
        reply: r#"{"notes":[{"time_s":1795320638,"kind":"change","text":"root (uid 0), process 4711, logged in as ben (uid 1000): set class rest rate 3mbit: in force: class rest: rate 4.00 Mbit/s -> 3.00 Mbit/s"}]}"#,
    }
    /// Ends a subscription of this connection. No notification of it follows the reply.
    unsubscribe "unsubscribe" (Unsubscribe) -> Unsubscribed {
        permission: Permission::Anyone,
        client: custom,
        request: r#"{"subscription":1}"#,
        reply: r#"{}"#,
    }
    /// Subscribes to everything that happens to some flows, within 5 ms of it: rate, queue thresholds, delay, drops, marks,
    /// class.
    ///
    /// The reply has the flows that are present, at most 64 of them.
    feedback "feedback" (Feedback) -> Watching {
        permission: Permission::Anyone,
        client: custom,
        request: r#"{"target":{"protocol":17,"source_port":40112},"delay_ns":20000000}"#,
        reply: r#"{"subscription":4,"flows":[{"flow":{"key":"9f3c7a1e00b24d55","protocol":17,"source":"192.0.2.1","source_port":40112,"destination":"198.51.100.7","destination_port":5004,"uid":1000},"class":"media","granted_bps":4000000,"minimum_bps":0,"promised":false}]}"#,
    }
    /// Requests a promise for flows: a minimum, preference or displacement.
    ///
    /// The promise ends with the connection, unless it is `detached`; in any case when its lease is over. A minimum that does
    /// not fit is refused with `no-room`, and the message states what is free.
    promise "promise" (PromiseCall) -> Promised {
        permission: Permission::OwnFlows,
        client: (request),
        request: r#"{"target":{"port":5004},"minimum_bps":2000000,"flows":1,"prefer":2,"displace":{"below_bps":2500000,"to":"besteffort"},"lease_ns":60000000000}"#,
        reply: r#"{"promise":2,"subscription":3,"state":{"promise":2,"uid":1000,"direction":"up","class":"media","target":{"port":5004},"minimum_bps":2000000,"prefer":2,"flows":1,"waiting":0,"granted_bps":4100000,"held":0,"free_bps":6000000,"lease_ns":60000000000,"detached":false}}"#,
    }
    /// Gives a promise another lease, from now on.
    renew "renew" (Renew) -> PromiseState {
        permission: Permission::Holder,
        client: { promise: u64, lease: Span },
        request: r#"{"promise":2,"lease_ns":60000000000}"#,
        reply: r#"{"promise":2,"uid":1000,"direction":"up","class":"media","target":{"port":5004},"minimum_bps":2000000,"prefer":2,"flows":1,"waiting":0,"granted_bps":3000000,"held":0,"free_bps":6000000,"lease_ns":60000000000,"detached":false}"#,
    }
    /// Ends a promise. The flows under it are again what the configuration specifies.
    release "release" (Release) -> Released {
        permission: Permission::Holder,
        client: { promise: u64 },
        request: r#"{"promise":2}"#,
        reply: r#"{}"#,
    }
    /// Returns all promises, in the order in which they were made.
    promises "promises" (Promises) -> PromiseList {
        permission: Permission::Anyone,
        client: () => promises: Vec<PromiseState>,
        request: r#"{}"#,
        reply: r#"{"promises":[{"promise":2,"uid":1000,"direction":"up","class":"media","target":{"port":5004},"minimum_bps":2000000,"prefer":2,"flows":1,"waiting":0,"granted_bps":4100000,"held":0,"free_bps":6000000,"lease_ns":60000000000,"detached":false}]}"#,
    }
    /// Requests a class of its own under CBQ for packets that match.
    ///
    /// `matches` are keys and values as in a rule; of the rest only `rate_bps` is required. The reservation ends with the
    /// connection, and before that unless `refresh` renews it within `expires_in_ns`; with `for_ns` it ends after that time,
    /// and needs neither.
    reserve "reserve" (Reserve) -> Reserved {
        permission: Permission::OwnFlows,
        client: (request),
        request: r#"{"name":"camera","matches":[["destination-port","5004"]],"rate_bps":500000,"bucket_bytes":6000,"peak_bps":8000000,"min_unit_bytes":64,"max_packet_bytes":1400,"guaranteed":true,"delay_ns":200000000,"for_ns":60000000000}"#,
        reply: r#"{"reservation":5,"name":"camera","matches":"destination-port 5004","rate_bps":500000,"bound_ns":116074195,"buffer_bytes":8768,"expires_in_ns":60000000000,"free_bps":2500000}"#,
    }
    /// Renews a reservation.
    refresh "refresh" (Refresh) -> Refreshed {
        permission: Permission::Holder,
        client: { reservation: u64 },
        request: r#"{"reservation":5}"#,
        reply: r#"{"expires_in_ns":58000000000}"#,
    }
    /// Ends a reservation.
    unreserve "unreserve" (Unreserve) -> Unreserved {
        permission: Permission::Holder,
        client: { reservation: u64 },
        request: r#"{"reservation":5}"#,
        reply: r#"{"name":"camera"}"#,
    }
    /// Returns all reservations, the oldest first.
    reservations "reservations" (ReservationsQuery) -> ReservationList {
        permission: Permission::Anyone,
        client: () => reservations: Vec<Reserved>,
        request: r#"{}"#,
        reply: r#"{"reservations":[{"reservation":5,"name":"camera","matches":"destination-port 5004","rate_bps":500000,"bound_ns":116074195,"buffer_bytes":8768,"expires_in_ns":57000000000,"free_bps":2500000}]}"#,
    }
    /// Puts another shaper file in force, or edits of the one in force. No packet is lost or reordered by it.
    ///
    /// `text` is a whole file; `edits` change it, or what is in force: `set` (an empty value removes the key), `add` and
    /// `remove` of a class or a rule. With `dry_run` the differences are only returned. With `confirm_ns` the change is on
    /// trial: it is taken back after that time, an hour at most, unless `confirm` comes first. Where nothing is different,
    /// nothing is applied. `in_place` is true where the queues go on as they are; otherwise `rehomed` packets were enqueued
    /// anew. The `text` of a difference is for people.
    apply "apply" (Apply) -> Applied {
        permission: Permission::Operator("change what is shaped"),
        client: (request),
        request: r#"{"edits":[{"edit":"set","section":"class","name":"rest","key":"rate","value":"3mbit"},{"edit":"add","section":"rule","values":[["class","media"],["destination-port","5004"]]},{"edit":"remove","section":"rule","name":"2"}],"dry_run":false,"confirm_ns":30000000000}"#,
        reply: r#"{"differences":[{"what":"class rest","key":"rate","from":"4mbit","to":"3mbit","text":"class rest: rate 4.00 Mbit/s -> 3.00 Mbit/s"}],"warnings":"","applied":true,"in_place":true,"rehomed":0,"added_rules":[1]}"#,
    }
    /// Keeps the change on trial.
    confirm "confirm" (Confirm) -> Confirmed {
        permission: Permission::Operator("confirm a change"),
        client: (),
        request: r#"{}"#,
        reply: r#"{"direction":"up"}"#,
    }
    /// Reverts the change on trial.
    rollback "rollback" (Rollback) -> Confirmed {
        permission: Permission::Operator("take a change back"),
        client: (),
        request: r#"{}"#,
        reply: r#"{"direction":"up"}"#,
    }
    /// Takes back the last change that was kept, as a change of its own: without loss or reordering, all directions or none.
    ///
    /// The next call takes back the one before. The last 16 changes since the start of the daemon are known; a reload is
    /// one. `undone` is the change that is taken back.
    undo "undo" (Undo) -> Applied {
        permission: Permission::Operator("take a change back"),
        client: (request),
        request: r#"{"dry_run":false}"#,
        reply: r#"{"differences":[{"what":"class rest","key":"rate","from":"3mbit","to":"4mbit","text":"class rest: rate 3.00 Mbit/s -> 4.00 Mbit/s"}],"warnings":"","applied":true,"in_place":true,"rehomed":0,"undone":{"time_s":1795320638,"uid":0,"login_uid":1000,"author":"root (uid 0), process 4711, logged in as ben (uid 1000)","command":"set class rest rate 3mbit"}}"#,
    }
    /// Returns the text of the shaper file in force: to everybody if every user may read the file, else to operators alone.
    in_force "in-force" (InForce) -> Text {
        permission: Permission::Anyone,
        client: (request) => text: String,
        request: r#"{"direction":"up"}"#,
        reply: r#"{"text":"version = 1\n"}"#,
    }
}
