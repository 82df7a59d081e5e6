// Generated from the declarations in crates/control/src/calls; do not edit.

/** The methods for the calls. */
export interface Calls {
  /**
   * Returns the state of the shaper and the counts of every class, at most 20 ms old.
   *
   * The reply has `trouble` while traffic passes unshaped, and `trial_ns` while a change is on trial. `privileges` is what
   * the process may do, and is absent where that cannot be read; `obtainable` has capabilities that it lacks and a program
   * which it runs could have.
   */
  status(): Promise<Status>;

  /**
   * Returns the measurements of every class, at most a quarter of a second old.
   *
   * `time_ms` is the time of day in milliseconds since 1970. `up_to` counts the packets that waited at most 16,384 ns,
   * twice that, and so on.
   */
  classes(): Promise<Observation>;

  /**
   * Returns the measurements of flows, and those of the classes at the same time, at most a quarter of a second old.
   *
   * `sort` is `rate`, `bytes`, `queue`, `delay`, `drops` or `recent`, the largest first; `limit` is at most 1,000, and 100
   * unless it is given; `direction`, `class`, `uid` and `port` filter. A flow has `through`, the class to which it was
   * displaced, `rule` and `minimum_bps` where there are.
   *
   * A direction has `answer`: for each kind of traffic that is sent a grade, and what it is derived from; `basis` is why it was
   * taken to be of this kind. `dscp` is the code point at the arrival of the first packet of a flow.
   */
  flows(request?: Flows): Promise<Observation>;

  /**
   * Returns which rule a packet would match, its class and its flow, and the state of their queues and buckets now.
   *
   * A field that the request leaves out is unknown; addresses come in pairs. `rule` counts from 1 as in the file and
   * is absent when none matches; the rules of reservations follow those of the file. Where the shaper knows the flow, and the
   * request has no field in which its packets may differ (code point, mark, interface, length, TCP flags, ICMP type), the reply
   * has `recorded`: rule and class are those that the last packet of the flow took, which may depend on fields that the request
   * does not have. `now` is then what the rules choose at present, if that is something else. `buckets` is present where the root is
   * a shaper; a bucket below zero is in debt. `outlook_bps` is the rate at which the flow sends, or would send, while the
   * others continue as they are. Nothing queued may leave before `due_ns` from now; it is absent when nothing is queued.
   * `seen` is the flow as `flows` returns it, if it is present.
   */
  explain(request?: Explain): Promise<Explained>;

  /**
   * Subscribes to events. Empty filters do not filter.
   *
   * The reply precedes the first notification. Every notification carries the number of its subscription.
   */
  events(request?: Events): Promise<Subscribed>;

  /**
   * Returns the last changes and faults, the oldest first: at most 256, of the last day.
   *
   * They are kept over restarts where the history is. The text of a change has its author, the command and the differences.
   */
  notes(request?: Notes): Promise<NoteList>;

  /** Ends a subscription of this connection. No notification of it follows the reply. */
  unsubscribe(request: Unsubscribe): Promise<void>;

  /**
   * Subscribes to everything that happens to some flows, within 5 ms of it: rate, queue thresholds, delay, drops, marks,
   * class.
   *
   * The reply has the flows that are present, at most 64 of them.
   */
  feedback(request?: Feedback): Promise<Watching>;

  /**
   * Requests a promise for flows: a minimum, preference or displacement.
   *
   * The promise ends with the connection, unless it is `detached`; in any case when its lease is over. A minimum that does
   * not fit is refused with `no-room`, and the message states what is free.
   */
  promise(request?: PromiseCall): Promise<Promised>;

  /** Gives a promise another lease, from now on. */
  renew(request: Renew): Promise<PromiseState>;

  /** Ends a promise. The flows under it are again what the configuration specifies. */
  release(request: Release): Promise<void>;

  /** Returns all promises, in the order in which they were made. */
  promises(): Promise<PromiseList>;

  /**
   * Requests a class of its own under CBQ for packets that match.
   *
   * `matches` are keys and values as in a rule; of the rest only `rate_bps` is required. The reservation ends with the
   * connection, and before that unless `refresh` renews it within `expires_in_ns`; with `for_ns` it ends after that time,
   * and needs neither.
   */
  reserve(request: Reserve): Promise<Reserved>;

  /** Renews a reservation. */
  refresh(request: Refresh): Promise<Refreshed>;

  /** Ends a reservation. */
  unreserve(request: Unreserve): Promise<Unreserved>;

  /** Returns all reservations, the oldest first. */
  reservations(): Promise<ReservationList>;

  /**
   * Puts another shaper file in force, or edits of the one in force. No packet is lost or reordered by it.
   *
   * `text` is a whole file; `edits` change it, or what is in force: `set` (an empty value removes the key), `add` and
   * `remove` of a class or a rule. With `dry_run` the differences are only returned. With `confirm_ns` the change is on
   * trial: it is taken back after that time, an hour at most, unless `confirm` comes first. Where nothing is different,
   * nothing is applied. `in_place` is true where the queues go on as they are; otherwise `rehomed` packets were enqueued
   * anew. The `text` of a difference is for people.
   */
  apply(request?: Apply): Promise<Applied>;

  /** Keeps the change on trial. */
  confirm(): Promise<Confirmed>;

  /** Reverts the change on trial. */
  rollback(): Promise<Confirmed>;

  /**
   * Takes back the last change that was kept, as a change of its own: without loss or reordering, all directions or none.
   *
   * The next call takes back the one before. The last 16 changes since the start of the daemon are known; a reload is
   * one. `undone` is the change that is taken back.
   */
  undo(request?: Undo): Promise<Applied>;

  /** Returns the text of the shaper file in force: to everybody if every user may read the file, else to operators alone. */
  inForce(request?: InForce): Promise<Text>;
}

/** The answer for one direction. */
export interface Answer {
  /**
   * The worst grade, where transfers count as fair at worst: they last longer, and nobody is disturbed. Absent where no traffic of a
   * known kind is sent.
   */
  grade?: Grade;
  /** Each kind of traffic that is sent, calls first. */
  traffic?: TrafficAnswer[];
  /** The classes in which traffic waits for a ceiling. */
  held?: Held[];
  /** How full the line is, in percent of the limit; absent where there is no limit. */
  full_percent?: number;
  /** The host that takes most of it; absent where no hosts were observed. */
  taker?: Taker;
  /** Why nothing can pass: the interfaces are down or gone; absent while one is up. */
  down?: string;
  /** The answer as a sentence. */
  text?: string;
}

/** The effects of a change, or of a dry run. */
export interface Applied {
  /** From the configuration that was in force. */
  differences: Difference[];
  /** Warnings about the new file, as text. */
  warnings?: string;
  /** Whether it was applied; not with `dry_run`, and not where nothing is different. */
  applied: boolean;
  /** Whether the tree of disciplines was kept, with its queues and the levels of its buckets. */
  in_place?: boolean;
  /** Queued packets that were enqueued in a new tree. */
  rehomed?: number;
  /** The numbers of the rules that were added, from 1, in the order of the edits; of both directions those of the first. */
  added_rules?: number[];
  /** The change that `undo` took back, or would. */
  undone?: Change;
}

/** The request `apply`. */
export interface Apply {
  /**
   * The direction, where more than one is shaped, or `both`. Default: those that the file is for, or the only one that has
   * what is edited; both for a rule that both share.
   */
  direction?: string;
  /** The whole text of the file. Default: the text in force. */
  text?: string;
  /** The path of the file that the text is from, for the log. */
  file?: string;
  /** Edits of that text, one after the other. */
  edits?: Edit[];
  /** Only check, and return the differences. */
  dry_run?: boolean;
  /** Take the change back unless `confirm` is called within this time. */
  confirm_ns?: number;
}

/** Why traffic was taken to be of a kind, the strongest reason first. */
export type Basis =
  | "class-name"
  | "code-point"
  | "behaviour"
  | "nothing"
  | (string & {});

/** Levels of token buckets, in bytes; below zero a bucket is in debt. */
export interface Buckets {
  /** Level of the bucket of its class. */
  class_bytes: number;
  /** Depth of that bucket. */
  class_depth_bytes: number;
  /** Level of the bucket of all classes. */
  all_bytes: number;
  /** Depth of that bucket. */
  all_depth_bytes: number;
  /** Level of the bucket of its class's ceiling, if the class has one. */
  ceiling_bytes?: number;
  /** Depth of that bucket. */
  ceiling_depth_bytes?: number;
}

/** A change of the configuration that was kept: who made it, by which command, and when. */
export interface Change {
  /** When it was made, in seconds since 1970. */
  time_s: number;
  /** The user of the process that requested it; absent for a reload by a signal. */
  uid?: number;
  /** The user who had logged in, where that is another one, as with `sudo`. */
  login_uid?: number;
  /** Who it was, as text: users with their names, and the process. */
  author: string;
  /** The command line that makes such a request. */
  command: string;
}

/** The rule and the class that the rules choose for a packet. */
export interface Choice {
  /** The rule, by its number as in `Explained`. None where no rule matches. */
  rule?: number;
  /** The class. */
  class: string;
}

/** The measurements of a class. Counts are since the start; rates and waits are of the last second. */
export interface ClassObservation {
  /** The name of the class. */
  name: string;
  /** Its priority, where its discipline has priorities: classes with a smaller number are served first. */
  priority?: number;
  /** The rate that the configuration promises to the class. */
  promised_bps?: number;
  /** The rate that could still be promised to flows. */
  unpromised_bps?: number;
  /** The ceiling of the class, `at-most`. */
  at_most_bps?: number;
  /** The ceiling of each of its hosts, `host-at-most`. */
  host_at_most_bps?: number;
  /** The ceiling of each of its flows, `flow-at-most`. */
  flow_at_most_bps?: number;
  /** Flows present, where its discipline knows flows. */
  flows?: number;
  /** The rate of packets sent through it. */
  rate_bps: number;
  /** The part of it that was borrowed from other classes. */
  borrowed_bps: number;
  /** Packets that the rules put into it. */
  enqueued_packets: number;
  /** Their bytes. */
  enqueued_bytes: number;
  /** Packets sent through it, including flows that were displaced to it. */
  sent_packets: number;
  /** Their bytes. */
  sent_bytes: number;
  /** Bytes sent on rate borrowed from other classes. */
  borrowed_bytes: number;
  /**  */
  queue_packets: number;
  /**  */
  queue_bytes: number;
  /** The ceiling that all of its packets wait for; none while one may leave. */
  held_by?: HeldBy;
  /** Drops by reason; reasons without a drop are absent. */
  dropped: DropCount[];
  /** Packets marked congestion experienced. */
  marked_packets: number;
  /** Packets sent with another code point than they arrived with. */
  remarked_packets: number;
  /** QUIC datagrams into which a rate was written as advice; absent where there were none. */
  advised_packets?: number;
  /** The median. */
  wait_p50_ns: number;
  /** The 90th percentile. */
  wait_p90_ns: number;
  /** The 99th percentile. */
  wait_p99_ns: number;
  /** The longest wait since the start, or since the first packet of the flow. */
  wait_longest_ns: number;
  /** The variation of the wait from packet to packet of a flow (RFC 3550, 6.4.1). */
  jitter_ns: number;
  /** The distribution of all waits since the start. */
  waits: Waits;
  /** The coupled queues of DualPI2; absent where its discipline is another. */
  coupled?: CoupledQueues;
  /** Seconds in which the class offered its promised rate or more, and was served it. */
  promise_kept_seconds: number;
  /** Seconds in which it offered it and was not served it. */
  promise_missed_seconds: number;
}

/** The counts of a class, since the start. */
export interface ClassStatus {
  /** The name of the class. */
  name: string;
  /** The rate that the configuration promises to the class; none where its discipline promises none. */
  rate_bps?: number;
  /** The rate that could still be promised to flows. */
  unpromised_bps?: number;
  /** The ceiling of the class, `at-most`. */
  at_most_bps?: number;
  /** The ceiling of each of its hosts, `host-at-most`. */
  host_at_most_bps?: number;
  /** The ceiling of each of its flows, `flow-at-most`. */
  flow_at_most_bps?: number;
  /** Flows present, where its discipline knows flows. */
  flows?: number;
  /** Packets that the rules put into it. */
  enqueued_packets: number;
  /** Their bytes. */
  enqueued_bytes: number;
  /** Packets sent through it, including flows that were displaced to it. */
  through_packets: number;
  /** Their bytes. */
  through_bytes: number;
  /**  */
  queue_packets: number;
  /**  */
  queue_bytes: number;
  /** The ceiling that all of its packets wait for; none while one may leave. */
  held_by?: HeldBy;
  /** Drops by reason; reasons without a drop are absent. */
  dropped: DropCount[];
  /** Packets marked congestion experienced. */
  marked_packets: number;
  /** Packets sent with another code point than they arrived with. */
  remarked_packets: number;
  /** QUIC datagrams into which a rate was written as advice; absent where there were none. */
  advised_packets?: number;
  /** The median wait. */
  wait_p50_ns: number;
  /** The 99th percentile of the waits. */
  wait_p99_ns: number;
  /** The coupled queues of DualPI2; absent where its discipline is another. */
  coupled?: CoupledQueues;
}

/** The reply to `confirm` and `rollback`. */
export interface Confirmed {
  /** The direction that was changed. */
  direction: string;
}

/** Counters of the control socket. */
export interface ControlStatus {
  /** Connections open. */
  clients: number;
  /** Subscriptions of all connections. */
  subscriptions: number;
  /** Requests received. */
  requests: number;
  /** Requests refused. */
  refused: number;
  /** Connections refused, or closed because of a limit. */
  cut: number;
  /** Notifications sent. */
  pushes: number;
  /** Notifications lost because clients did not read in time. */
  lost: number;
}

/** One of the queues of DualPI2. */
export interface CoupledQueue {
  /**  */
  queue_packets: number;
  /**  */
  queue_bytes: number;
  /** The wait of the oldest of them. */
  delay_ns: number;
  /** The mean wait of the packets that were sent: in an observation of the last second, otherwise since the start. */
  wait_mean_ns: number;
  /** The sum of the waits of all packets that were sent. */
  wait_sum_ns: number;
  /** Packets that were put into it. */
  enqueued_packets: number;
  /** Packets sent. */
  sent_packets: number;
  /** Packets of these that were marked congestion experienced. */
  marked_packets: number;
  /** Packets dropped by a probability. */
  dropped_packets: number;
}

/** The queues of DualPI2 (RFC 9332), with their counts since the start. */
export interface CoupledQueues {
  /** L: packets of ECT(1), CE and NQB. */
  low_latency: CoupledQueue;
  /** C: all others. */
  classic: CoupledQueue;
  /** Packets of L that queue protection (RFC 9957) lets wait with those of C. */
  sanctioned: CoupledQueue;
  /** The coupled probability with which L marks at least, in millionths. */
  coupled_ppm: number;
  /** The probability with which C marks or drops, in millionths. */
  classic_ppm: number;
  /** The flows under sanction now; none of the kernel path, which does not list them. */
  flows?: Flow[];
}

/** Counters of a data path, since the start. */
export interface DataPathCounters {
  /** Packets that passed. */
  passed_packets: number;
  /** Packets that were refused. */
  refused_packets: number;
  /** Superpackets returned to the kernel for segmentation, and packets that had to follow them. */
  cut_packets: number;
  /** Packets whose headers could not be parsed. */
  unreadable_packets: number;
  /** Packets that no rule matched. */
  unclassified_packets: number;
  /** Iterations of its loop. */
  turns: number;
  /** Processor time. */
  processor_ns: number;
  /** Messages of the kernel that were lost because the socket was full; their packets passed unshaped. */
  lost_messages: number;
  /**
   * Packets that the kernel dropped while they waited, because a chain of the packet filter, the interface or their route was
   * removed. They count as sent as well.
   */
  kernel_dropped_packets?: number;
}

/** A difference between two shaper files in one place. */
export interface Difference {
  /** The place: `class calls`, `rule`, `shaper`. */
  what: string;
  /** The key; none for the whole of it. */
  key?: string;
  /** The value before. */
  from?: string;
  /** The value after. */
  to?: string;
  /** The difference in a line, as text. */
  text: string;
}

/** One direction of the traffic. */
export interface DirectionObservation {
  /** `up` for egress, `down` for ingress. */
  name: string;
  /** The configured rate of all classes together; none where nothing limits it. */
  limit_bps?: number;
  /** The line, and its use. */
  line?: LineObservation;
  /** How well each kind of traffic works, and who takes the line; absent where flows were not requested lately. */
  answer?: Answer;
  /** In the order of the file. */
  classes: ClassObservation[];
  /** The rules of the file with the packets that each has matched, the first `Observation::MOST_RULES` of them. */
  rules?: RuleObservation[];
  /** The rules with a quota, in the order of the file. */
  quotas?: QuotaStatus[];
  /** The rules that hold at some times only, in the order of the file. */
  times?: TimedRuleStatus[];
  /** In the requested order; absent where flows were not requested. */
  flows?: FlowObservation[];
  /** The interfaces whose traffic shares the limit and the classes, in the order of the file. */
  interfaces?: InterfaceObservation[];
  /** The state of the flow table. */
  table: FlowTableState;
  /** The counters of the data path. */
  data_path: DataPathCounters;
  /** The guardian; absent where none was asked for. */
  guardian?: GuardianStatus;
  /** The rate that follows the line; absent where the rate is constant. */
  follow?: FollowStatus;
}

/** One direction of the traffic. */
export interface DirectionStatus {
  /** `up` for egress, `down` for ingress. */
  name: string;
  /** The rate of all classes together. */
  rate_bps?: number;
  /**
   * The interfaces whose traffic shares the rate and the classes, in the order of the file; empty while there is no
   * data path.
   */
  interfaces?: InterfaceStatus[];
  /** Protocols that are not proven to be shaped, because no packet of them has come through yet, each with the reason. */
  unproven?: string[];
  /**
   * Packets that pass an interface and are not shaped here, because of what is stacked on it or of a flow table, each with the
   * remedy.
   */
  unshaped?: string[];
  /** The rules that hold at some times only, each with whether it holds now and until when. */
  timed_rules?: string[];
  /** The rules with a quota, in the order of the file. */
  quotas?: QuotaStatus[];
  /** The names in rules whose addresses change, in the order of the file. */
  names?: NameStatus[];
  /** The discipline in the kernel that queues packets; absent where they are queued in user space. */
  in_kernel?: string;
  /** Whether the kernel path is being loaded, to which the traffic moves then. */
  awaits_kernel?: boolean;
  /**
   * Packets that the kernel dropped while they waited, because a chain of the packet filter, the interface or their route was
   * removed. They count as sent as well.
   */
  kernel_dropped_packets?: number;
  /** In the order of the file; empty while there is no data path. */
  classes: ClassStatus[];
  /**
   * The classes of CBQ in the sharing of the link, inner classes included: the root first, each class before its children.
   * Empty for another discipline.
   */
  shared_classes?: SharedClassStatus[];
  /** The guardian, which lets packets pass when the shaper cannot; absent where none was asked for. */
  guardian?: GuardianStatus;
  /** The rate that follows the line; absent where the rate is constant. */
  follow?: FollowStatus;
}

/** The threshold and the destination of a displacement. */
export interface Displacement {
  /** The granted rate below which a flow is displaced; above its minimum. */
  below_bps: number;
  /** The class that it is displaced to. It returns when its class has the rate. */
  to: string;
}

/** Drops for one reason. */
export interface DropCount {
  /** Name of a drop reason. */
  reason: string;
  /** Number of packets. */
  packets: number;
  /** Their bytes. */
  bytes: number;
}

/** An edit of a shaper file. */
export type Edit =
  /** Sets a key; an empty value removes it. */
  | {
      edit: "set";
      /** `class`, `rule`, or the name of a table such as `shaper` or `discipline`. */
      section: string;
      /** The name of the class, or the number of the rule, from 1. */
      name?: string;
      /** The key; dots lead into tables. */
      key: string;
      /** The value, as it would stand in the file; texts need no quotes. */
      value: string;
    }
  /** Adds a class as the last, or a rule as the first. */
  | {
      edit: "add";
      /** `class` or `rule`. */
      section: string;
      /** Keys and values. */
      values: [string, string][];
    }
  /** Removes a class or a rule. */
  | {
      edit: "remove";
      /** `class` or `rule`. */
      section: string;
      /** The name of the class, or the number of the rule, from 1. */
      name: string;
    };

/** An event. Its kind determines which optional keys are present; a client ignores unknown keys. */
export interface Event {
  /** Determines the keys that are present. */
  kind: EventKind;
  /** The time of the event, by the monotonic clock of the machine. */
  time_ns: number;
  /** The direction of the traffic. */
  direction?: string;
  /** The class; of a flow that was moved, the new one. */
  class?: string;
  /** The class from which a flow was moved. */
  from_class?: string;
  /** The flow that the event is about. */
  flow?: Flow;
  /** The rate that the flow is granted. */
  granted_bps?: number;
  /** The minimum rate of the flow. */
  minimum_bps?: number;
  /** The wait of the oldest packet of the flow. */
  delay_ns?: number;
  /** Packets of the flow that were dropped, since it began. */
  dropped?: number;
  /** Packets of the flow that were marked congestion experienced, since it began. */
  marked?: number;
  /** The promise that the flow is under, or that ended. */
  promise?: number;
  /** Bytes of the flow that are queued. */
  queue_bytes?: number;
  /** A text for display. */
  text?: string;
  /** Further data of events of this kind. */
  data?: unknown;
}

/** The kind of an event. */
export type EventKind =
  | "flow-started"
  | "flow-ended"
  | "queue-above"
  | "queue-below"
  | "moved"
  | "marked"
  | "sanctioned"
  | "released"
  | "rate"
  | "dropped"
  | "delay-above"
  | "delay-below"
  | "promised"
  | "waiting"
  | "promise-ended"
  | "line-rate"
  | "log"
  | (string & {});

/** The request `events`. Absent filters do not filter. */
export interface Events {
  /** Events of these kinds only. */
  kinds?: EventKind[];
  /** Events of these classes only. */
  classes?: string[];
  /** Events of this direction only. */
  direction?: string;
  /** Events of flows of this user only. */
  uid?: number;
  /** Events of flows from or to this port only. */
  port?: number;
}

/** The request `explain`: the known fields of a packet. */
export interface Explain {
  /** The direction, where more than one is shaped. */
  direction?: string;
  /** Transport protocol, by number. */
  protocol?: Protocol;
  /** Sending address; given with the receiving one, of the same version. */
  source?: string;
  /** Sending port. */
  source_port?: number;
  /** Receiving address. */
  destination?: string;
  /** Receiving port. */
  destination_port?: number;
  /** Code point, 0 to 63. Default 0. */
  dscp?: number;
  /** Firewall mark. Default 0. */
  mark?: number;
  /** Owner of the sending socket. */
  uid?: number;
  /** The interface by which it came in, if it is forwarded. */
  from_interface?: string;
  /** Length with the IP header. */
  length_bytes?: number;
  /** The octet of TCP flags, FIN the lowest bit. */
  tcp_flags?: number;
  /** Whether it is a TCP acknowledgement without data. */
  pure_ack?: boolean;
  /** Type of an ICMP message; of ICMPv6 with IPv6 addresses. */
  icmp_type?: number;
}

/** The reply to `explain`. */
export interface Explained {
  /** The direction of the traffic. */
  direction: string;
  /** The rule that matches, by its number in the file, from 1; those of reservations follow. None where no rule matches. */
  rule?: number;
  /**
   * Whether rule and class are those of the flow's last packet, as the shaper recorded them. If not, they are derived from the
   * request.
   */
  recorded?: boolean;
  /** The choice of the rules now for a packet with the recorded fields, where it is not the recorded one. */
  now?: Choice;
  /** The firewall mark of the flow's first packet, where class and rule are recorded. */
  mark?: number;
  /** The interface by which it came in, where class and rule are recorded and a rule names it. */
  from_interface?: string;
  /** The rules that do not hold now, by their times or their quotas, by number from 1. */
  rules_off?: number[];
  /** Its class; the name of a reservation. */
  class: string;
  /** The flow of the packet. */
  flow: Flow;
  /**  */
  queue_packets: number;
  /**  */
  queue_bytes: number;
  /** The queue of its class, where that is known. */
  class_queue?: Queued;
  /** The coupled queues of DualPI2 in its class; absent where its discipline is another. */
  coupled?: CoupledQueues;
  /** The rate of its class. */
  class_rate_bps?: number;
  /** The levels of the token buckets that it must pass, where there are some. */
  buckets?: Buckets;
  /** The ceiling that the next packet of its flow waits for. */
  held_by?: HeldBy;
  /**
   * Whether all flows of its class wait in a discipline of the class, so that `outlook_bps` and `at_most_bps` are of all
   * together.
   */
  shares_queue?: boolean;
  /** The rate at which its flow sends, or would, while others continue; none where the discipline has no shares. */
  outlook_bps?: number;
  /** The most that its flow may send while others leave theirs, with what it borrows; none where the discipline has no shares. */
  at_most_bps?: number;
  /** The rate that its class advises to its flow, as payload of datagrams; none where nothing is advised. */
  advice_bps?: number;
  /** The policy of that advice: `ceiling`, `fair-share` or `promise`. */
  advised_by?: string;
  /** The time until the next queued packet may leave; none when nothing is queued. */
  due_ns?: number;
  /** The measurements of the flow, if it is present and flows are counted. */
  seen?: FlowObservation;
}

/** The request `feedback`. */
export interface Feedback {
  /** The flows. They need not exist yet. */
  target?: Target;
  /** The direction of the traffic. Default: the first that is shaped. */
  direction?: string;
  /**
   * The wait of the oldest packet that is reported by `delay-above`; `delay-below` reports half of it. Default 20 ms. Of
   * several for one flow, the shortest applies.
   */
  delay_ns?: number;
  /** Events of these kinds only. Default: all. A flow that overloads its class is reported with each of its drops. */
  kinds?: EventKind[];
}

/** A flow: its key in this run of the daemon, and the fields of its packets, where known. */
export interface Flow {
  /** Hexadecimal; different after a restart. */
  key: string;
  /** Transport protocol, by number. */
  protocol?: Protocol;
  /** Sending address. */
  source?: string;
  /** Sending port. */
  source_port?: number;
  /** Receiving address. */
  destination?: string;
  /** Receiving port. */
  destination_port?: number;
  /** Owner of the sending socket. */
  uid?: number;
}

/** Drops of a flow for one reason. */
export interface FlowDrops {
  /** Name of a drop reason. */
  reason: string;
  /** Packets dropped for it. */
  packets: number;
}

/** The measurements of a flow. Counts are since its first packet; rates and waits are of the last moments. */
export interface FlowObservation {
  /** Its key and its addresses. */
  flow: Flow;
  /** The class that the rules chose. */
  class: string;
  /** The class that it is displaced to, if it is. */
  through?: string;
  /** The rule that it matched: its name, or its conditions. None where no rule matched. */
  rule?: string;
  /** The code point at the arrival of its first packet, where it is known. */
  dscp?: number;
  /** The time since its first packet. */
  age_ns: number;
  /** The time since its last packet. */
  idle_ns: number;
  /** The rate at which it is sent. */
  rate_bps: number;
  /** Its share if every flow offered what it is promised; none where its discipline has no shares. */
  share_bps?: number;
  /** Its minimum rate. */
  minimum_bps?: number;
  /** Whether the minimum is granted, or waits for rate. */
  granted: boolean;
  /** Steps of preference. */
  preferred: number;
  /** Packets that arrived. */
  arrived_packets: number;
  /** Their bytes. */
  arrived_bytes: number;
  /** Packets sent. */
  sent_packets: number;
  /** Their bytes. */
  sent_bytes: number;
  /** Bytes sent on rate borrowed from other classes, since the shaper has the flow. */
  borrowed_bytes: number;
  /**  */
  queue_packets: number;
  /**  */
  queue_bytes: number;
  /** The ceiling that its next packet waits for. */
  held_by?: HeldBy;
  /** The median. */
  wait_p50_ns: number;
  /** The 90th percentile. */
  wait_p90_ns: number;
  /** The 99th percentile. */
  wait_p99_ns: number;
  /** The longest wait since the start, or since the first packet of the flow. */
  wait_longest_ns: number;
  /** The variation of the wait from packet to packet of a flow (RFC 3550, 6.4.1). */
  jitter_ns: number;
  /** Drops by reason, in packets; reasons without a drop are left out. */
  dropped: FlowDrops[];
  /** Bytes dropped. */
  dropped_bytes: number;
  /** Packets marked congestion experienced. */
  marked_packets: number;
  /** Packets sent with another code point than they arrived with. */
  remarked_packets: number;
  /** Seconds in which it offered its granted minimum or more, and was served it. */
  promise_kept_seconds: number;
  /** Seconds in which it offered it and was not served it. */
  promise_missed_seconds: number;
}

/** The order of flows, the largest value first. */
export type FlowSort =
  | "rate"
  | "bytes"
  | "queue"
  | "delay"
  | "drops"
  | "recent"
  | (string & {});

/** The state of a flow. */
export interface FlowState {
  /** Its key and its addresses. */
  flow: Flow;
  /** The class that serves it. */
  class: string;
  /** The rate that it is granted. */
  granted_bps: number;
  /** Its minimum rate. */
  minimum_bps: number;
  /** Whether the minimum is in force. */
  promised: boolean;
}

/** The state of a flow table. */
export interface FlowTableState {
  /** Whether flows are counted. */
  counted: boolean;
  /** Why not. */
  uncounted?: string;
  /** Flows in the table. */
  flows: number;
  /** Records made since the start. */
  created: number;
  /** Flows removed after the idle timeout. */
  expired: number;
  /** Flows removed because the table was full. */
  evicted: number;
  /** Packets of flows without a record. */
  untracked_packets: number;
}

/** The request `flows`. Absent filters do not filter. */
export interface Flows {
  /** The order of the flows. Default: the largest rate first. */
  sort?: FlowSort;
  /** The maximum number of flows, 1 to `Flows::MOST`. Default 100. */
  limit?: number;
  /** Flows of this direction only. */
  direction?: string;
  /** Flows of this class only. */
  class?: string;
  /** Flows of this user only. */
  uid?: number;
  /** Flows from or to this port only. */
  port?: number;
}

/** A change of a rate that follows the line. */
export interface FollowDecision {
  /** How long ago it was. */
  ago_ns: number;
  /** The rate before. */
  from_bps: number;
  /** The rate after. */
  to_bps: number;
  /** The cause, as in `FollowStatus::cause`. */
  cause: string;
  /** The rate that was carried before it. */
  achieved_bps: number;
  /** The delay that was known, if any. */
  delay_ns?: number;
}

/** A rate that follows the line. */
export interface FollowStatus {
  /** The allowed rate now. */
  allowed_bps: number;
  /** The rate is never lower. */
  least_bps: number;
  /** The rate at the start, when idle and without signals. */
  base_bps: number;
  /** The rate is never higher. */
  most_bps: number;
  /** The rate that was carried lately. */
  achieved_bps: number;
  /** The delay of the line's queue, where peers have answered lately. */
  delay_ns?: number;
  /** The least round trip of the last minute. */
  floor_ns?: number;
  /** The number of peers that have answered within 300 ms. */
  peers: number;
  /** The number of probes sent. */
  probes: number;
  /** The number of changes of the rate. */
  changes: number;
  /** The cause of the last change: `start`, `quiet`, `delay`, `drain`, `silent`, `blind` or `idle`. */
  cause: string;
  /** The cause as a sentence. */
  reason: string;
  /** How long ago the rate changed last. */
  changed_ns: number;
  /** The last changes, the oldest first. */
  recent?: FollowDecision[];
}

/** How well an application works, as far as this shaper affects it. A greater grade is better. */
export type Grade =
  | "poor"
  | "fair"
  | "good"
  | (string & {});

/** The guardian of a direction. */
export interface GuardianStatus {
  /** Number of its process; absent while there is none. */
  pid?: number;
  /** Why there is none. */
  missing?: string;
  /** How often it let packets pass, since the first of the shapers that took over from each other. */
  takeovers: number;
  /** Packets that arrived meanwhile. */
  passed_packets: number;
  /** How often another guardian was started in its place. */
  restarts: number;
  /** Whether its memory is locked. */
  locked: boolean;
  /** Whether it is scheduled before the data path. */
  real_time: boolean;
  /** Whether it has given up all privileges that it does not need. */
  restricted: boolean;
  /** Whether a restart or another version can take over through it. */
  reachable: boolean;
}

/** A class in which packets wait for a ceiling. It was asked for, so that pages and transfers that wait for it have no grade. */
export interface Held {
  /** The class. */
  class: string;
  /** The ceiling. */
  by: HeldBy;
}

/** The ceiling that packets wait for. */
export type HeldBy =
  | "class"
  | "host"
  | "rule"
  | "flow"
  | (string & {});

/** One direction of a host. */
export interface HostDirection {
  /** The rate at which its packets are sent. */
  rate_bps: number;
  /** The sum of the shares of its flows; none where the discipline has no shares. */
  share_bps?: number;
  /** Flows that are remembered. */
  flows: number;
  /** Bytes queued. */
  queue_bytes: number;
  /** The longest of the 99th percentiles of the waits of its flows that sent something lately. */
  wait_p99_ns: number;
  /** Bytes sent since the host was first observed. */
  sent_bytes: number;
  /** Packets dropped since then. */
  dropped_packets: number;
}

/** The limit of the rate of a host. */
export type HostLimit =
  | "demand"
  | "share"
  | "class-ceiling"
  | "host-ceiling"
  | "rule-ceiling"
  | "flow-ceiling"
  | (string & {});

/** A host, with both directions of its flows. */
export interface HostObservation {
  /** Its address on this side of the line. */
  address: string;
  /** Its name in a lease, in `/etc/hosts` or, if requested, by the resolver of the daemon. */
  name?: string;
  /** The packets that it sends. */
  up: HostDirection;
  /** The packets that it receives. */
  down: HostDirection;
  /** The class of its fastest flow. */
  class: string;
  /** The limit of its rate. */
  limited_by: HostLimit;
  /** The class that has the rate which its packets wait for; present where its share limits it and another class takes more. */
  rival?: Rival;
}

/** The request `in-force`. */
export interface InForce {
  /** The direction, where more than one is shaped. */
  direction?: string;
}

/** One of the interfaces of a direction. */
export interface InterfaceObservation {
  /** Its name. */
  name: string;
  /** Whether it is there; it is shaped again when it returns. */
  present: boolean;
  /** Whether it is there and down, so that nothing passes by it. */
  down?: boolean;
  /** Packets of it that were sent since the data path was started. */
  sent_packets: number;
  /** Their bytes, from the network header on. */
  sent_bytes: number;
  /** Packets of it that were dropped. */
  dropped_packets: number;
  /** The rate of what was sent in the last second, in bits of packets from the network header on. */
  rate_bps: number;
}

/** One of the interfaces of a direction. */
export interface InterfaceStatus {
  /** Its name. */
  name: string;
  /** Whether it is there; it is shaped again when it returns. */
  present: boolean;
  /** Whether it is there and down, so that nothing passes by it. */
  down?: boolean;
  /** Packets of it that were sent since the data path was started. */
  sent_packets: number;
  /** Their bytes, from the network header on. */
  sent_bytes: number;
  /** Packets of it that were dropped. */
  dropped_packets: number;
}

/** The line of a direction, and its use. */
export interface LineObservation {
  /** The rate of the line itself, where the configuration states it. */
  carries_bps?: number;
  /** The rate of the last second, including what the line adds to each packet: it counts against the limit. */
  used_bps: number;
  /** The part of it that the line adds. */
  overhead_bps: number;
}

/** A name in a rule, and the addresses that it has now. */
export interface NameStatus {
  /** The number of the rule, from 1. */
  rule: number;
  /** The key of the rule: `host-name`, `dns-name` or `mac`. */
  key: string;
  /** The name as the file has it. */
  name: string;
  /** Its addresses, in order; empty while none is known. */
  addresses?: string[];
}

/** A change or a fault. */
export interface Note {
  /** When it was, in seconds since 1970. */
  time_s: number;
  /** Its subject. */
  kind: NoteKind;
  /** A text for display. That of a change begins with who made it, and by which command. */
  text: string;
}

/** The subject of a note. */
export type NoteKind =
  | "change"
  | "event"
  | (string & {});

/** The reply to `notes`. */
export interface NoteList {
  /** The oldest first. */
  notes: Note[];
}

/** The request `notes`. */
export interface Notes {
  /** Notes from this second on, since 1970. Default: all that are kept. */
  since_s?: number;
}

/** An observation: the measurements of one moment. */
export interface Observation {
  /** The time of day, in milliseconds since 1970. */
  time_ms: number;
  /** Name of the shaped interface; of several the names with ` + ` between them. */
  interface: string;
  /** The time since the start of the daemon. */
  uptime_ns: number;
  /** Whether shaping is in force. */
  in_force: boolean;
  /** Why shaping is not in force, if it is not. */
  trouble?: string;
  /** Each direction of the traffic. */
  directions: DirectionObservation[];
  /**
   * The hosts on this side of the line, the fastest first, at most `Observation::MOST_HOSTS`; absent where flows were not
   * requested.
   */
  hosts?: HostObservation[];
}

/** The privileges of a process. */
export interface PrivilegeStatus {
  /** Its capabilities, as `CAP_NET_ADMIN`. */
  capabilities: string[];
  /** Capabilities that a program which it runs could have beside these, if `no_new_privs` did not prevent it. */
  obtainable?: string[];
  /** Whether it gains no privileges by running a program. */
  no_new_privs: boolean;
  /** Whether system calls are filtered. */
  filtered: boolean;
}

/** The request `promise`. The promise ends with the connection, unless it is `detached`, and when its lease is over. */
export interface PromiseCall {
  /** The flows. They need not exist yet. */
  target?: Target;
  /** The direction of the traffic. Default: the first that is shaped. */
  direction?: string;
  /**
   * The class in which rate is reserved for flows to come. Default: the one in which most of such flows are now; if there are
   * none yet, the one that the rules choose for such flows.
   */
  class?: string;
  /** The minimum rate of each of these flows. */
  minimum_bps?: number;
  /** The number of flows for which the minimum is reserved; further ones are granted it when rate is free. Default 1. */
  flows?: number;
  /** Steps of preference of each. */
  prefer?: number;
  /** Their displacement. */
  displace?: Displacement;
  /** The promise ends after this time, unless it is renewed. */
  lease_ns?: number;
  /** Whether the promise outlives the connection, which requires a lease. */
  detached?: boolean;
  /**
   * Whether a minimum that does not fit is queued: flows begin without it and are granted it when rate is released.
   * Otherwise such a promise is refused.
   */
  wait?: boolean;
}

/** The reply to `promises`. */
export interface PromiseList {
  /** In the order in which they were made. */
  promises: PromiseState[];
}

/** The state of a promise. */
export interface PromiseState {
  /** The number of the promise. */
  promise: number;
  /** The user who requested it. */
  uid: number;
  /** The direction of the traffic. */
  direction: string;
  /** The class in which rate is reserved for flows to come. */
  class: string;
  /** Another class in which flows under the promise are now, and have their minimum from, or wait for it. */
  elsewhere?: string;
  /** The flows under the promise. */
  target: Target;
  /** The minimum rate of each flow. */
  minimum_bps: number;
  /** Steps of preference. */
  prefer: number;
  /** Flows present under it. */
  flows: number;
  /** Those of them whose minimum waits for rate. */
  waiting: number;
  /** The rate that these flows are granted now, in total. */
  granted_bps: number;
  /** The number of flows to come for which rate is reserved. */
  held: number;
  /** The rate that could still be promised in the class. */
  free_bps: number;
  /** Why flows under it wait for their minimum, or nothing is reserved for flows to come, and what helps, in words. */
  obstacle?: string;
  /** The time left of its lease. */
  lease_ns?: number;
  /** Whether it outlives its connection. */
  detached: boolean;
}

/** The promise that was made. */
export interface Promised {
  /** The number of the promise. */
  promise: number;
  /**
   * The subscription to its events: `rate`, `promised`, `waiting`, `moved`, `promise-ended` and all others of the flows
   * under it.
   */
  subscription: number;
  /** The state of the promise. */
  state: PromiseState;
}

/** A transport protocol, by its number. */
export type Protocol = number;

/** The backlog of a queue. */
export interface Queued {
  /** Packets that are queued. */
  packets: number;
  /** Their bytes. */
  bytes: number;
}

/** A rule with a quota. */
export interface QuotaStatus {
  /** The number of the rule, from 1. */
  rule: number;
  /** Its name, or its conditions. */
  label: string;
  /** Names the count. Rules with the same one share it, as the two directions of a rule that is for both. */
  count?: string;
  /**
   * Bytes that it has taken since the period began. They exceed the quota by those that arrived before it was switched off, at most
   * two seconds' traffic.
   */
  used_bytes: number;
  /** Bytes that are left of the quota. */
  left_bytes: number;
  /** The quota of a period. */
  quota_bytes: number;
  /** `day`, `week` or `month`. */
  period: string;
  /** The date on which it begins anew, at midnight in the time zone of the host. */
  next: string;
  /** That moment, in seconds since 1970; absent where the clock of the host has none. */
  next_s?: number;
}

/** The request `refresh`. */
export interface Refresh {
  /** Number of the reservation. */
  reservation: number;
}

/** The reply to `refresh`. */
export interface Refreshed {
  /** The time until it ends without another refresh. */
  expires_in_ns: number;
}

/** The request `release`. */
export interface Release {
  /** Number of the promise. */
  promise: number;
}

/** The request `renew`. */
export interface Renew {
  /** Number of the promise. */
  promise: number;
  /** The new lease, from now on. */
  lease_ns: number;
}

/** The reply to `reservations`. */
export interface ReservationList {
  /** The oldest first. */
  reservations: Reserved[];
}

/**
 * The request `reserve`. The reservation ends with the connection, or after `for_ns`; without `for_ns` it must be refreshed
 * before it expires. For a user who is not root it applies to packets of that user.
 */
export interface Reserve {
  /** The direction, where more than one is shaped. */
  direction?: string;
  /** The name of the class. Default: one with a number. */
  name?: string;
  /** Conditions on its packets: keys and values as in a rule, such as `["destination-port", "5004"]`. */
  matches: [string, string][];
  /** Token rate r (RFC 2210). */
  rate_bps: number;
  /** Bucket b. Default: two of the largest packets. */
  bucket_bytes?: number;
  /** Peak rate p. Default: that of the link. */
  peak_bps?: number;
  /** Minimum policed unit m. Default: 64 bytes. */
  min_unit_bytes?: number;
  /** Maximum packet size M. Default: the link's. */
  max_packet_bytes?: number;
  /** Whether a bound on the delay is required (RFC 2212), and not the rate alone (RFC 2211). */
  guaranteed?: boolean;
  /** The required bound on the delay; as much rate is reserved as it needs. */
  delay_ns?: number;
  /** The reservation lasts for this time, also without the connection. */
  for_ns?: number;
}

/** A reservation in force. */
export interface Reserved {
  /** Its number, for `refresh` and `unreserve`. */
  reservation: number;
  /** The name of its class in `status`. */
  name: string;
  /** The conditions on its packets, as text. */
  matches: string;
  /** The reserved rate. */
  rate_bps: number;
  /**
   * The bound on the wait of a packet, of a flow that conforms to its token bucket (RFC 2212); none where the tree has no
   * bound.
   */
  bound_ns?: number;
  /** The limit of its queue. */
  buffer_bytes: number;
  /** The time until it ends: without a refresh, or, with `for_ns`, in any case. */
  expires_in_ns: number;
  /** The rate that can still be reserved. */
  free_bps: number;
}

/** The class that has most of the rate which another class waits for. */
export interface Rival {
  /** Its name. */
  class: string;
  /** The reason for which it comes before the other. */
  by: RivalBy;
  /** The part of the line that it takes for this reason, in percent. */
  percent: number;
}

/** The reason for which a class has rate that another one waits for. */
export type RivalBy =
  | "priority"
  | "borrowing"
  | "promise"
  | (string & {});

/** A rule of the file, and the packets that it has matched. */
export interface RuleObservation {
  /** Its number, from 1. */
  rule: number;
  /** Its name, where it has one. */
  name?: string;
  /** Its name, or its conditions, of which at most 160 characters; empty where it has neither. */
  label: string;
  /** The class that it puts packets into. */
  class: string;
  /** Whether it matches at present: it is its time, and its quota is not used up. */
  in_force: boolean;
  /** Packets that it has matched since the start, when they arrived. A rule that moves in the file goes on with its count. */
  packets: number;
  /** Their bytes, with the overhead of the link. */
  bytes: number;
}

/** A class of CBQ in the sharing of the link, with its counts since its tree was built. */
export interface SharedClassStatus {
  /** Its name; `root` for the link. */
  name: string;
  /** The name of the class above it; absent for the root. */
  parent?: string;
  /** The rate that it is guaranteed. */
  rate_bps: number;
  /** Packets that it or its descendants sent. */
  sent_packets: number;
  /** Their bytes. */
  sent_bytes: number;
  /** Packets that it sent while it was over its limit, with rate of a class above it. Only a class with a queue borrows. */
  borrowed_packets: number;
  /** Their bytes. */
  borrowed_bytes: number;
  /** Packets that classes below it sent with its rate. Only a class with children lends. */
  lent_packets: number;
  /** Their bytes. */
  lent_bytes: number;
  /** Packets that it sent although no class had rate left, because the link would have been idle (`conserving`). */
  rescued_packets?: number;
  /** Packets after which it was over its limit. */
  overlimit_packets: number;
  /** How often it was suspended: over its limit with a packet waiting and no class to borrow from. */
  regulated: number;
  /** The time until its under-time, when it is below its limit again; absent while it is not over its limit. */
  under_time_ns?: number;
  /** The average idle time in nanoseconds, negative when it was faster than its rate (`accounting = "idle-time"`). */
  average_idle_ns?: number;
  /** The bytes that it may send at once, negative when it owes some (`accounting = "bytes"`). */
  credit_bytes?: number;
}

/** The state of the shaper, at most 20 ms old. */
export interface Status {
  /** The version of the program. */
  version: string;
  /** Process number of the daemon. */
  pid: number;
  /** Number of its network namespace (the inode of `/proc/PID/ns/net`); absent from daemons of earlier versions. */
  network_namespace?: number;
  /** Name of the shaped interface; of several the names with ` + ` between them. */
  interface: string;
  /** Path of the shaper file; `-` for standard input. */
  file: string;
  /** The time since the start of the daemon. */
  uptime_ns: number;
  /** Whether shaping is in force; `false` while traffic passes unshaped, for the reason in `trouble`. */
  in_force: boolean;
  /** Why shaping is not in force, if it is not. */
  trouble?: string;
  /** The time left of the trial of a change, which is then taken back unless it is confirmed; none without a trial. */
  trial_ns?: number;
  /** The privileges of the daemon's process, of all threads together; absent where they cannot be read. */
  privileges?: PrivilegeStatus;
  /** The shaped directions: egress, ingress, or both. */
  directions: DirectionStatus[];
  /** The counters of the control socket. */
  control: ControlStatus;
}

/** The reply to `events`. */
export interface Subscribed {
  /** The number that every notification carries. */
  subscription: number;
}

/** The host that takes most of a line. */
export interface Taker {
  /** Its name, or its address where it has none. */
  host: string;
  /** Its part of what is sent, in percent. */
  percent: number;
}

/** A selection of flows. Every condition must hold; a target without a condition is refused. */
export interface Target {
  /** From or to this port. */
  port?: number;
  /** Flows of this transport protocol, by number. */
  protocol?: Protocol;
  /** From this address. */
  source?: string;
  /** From this port. */
  source_port?: number;
  /** To this address. */
  destination?: string;
  /** To this port. */
  destination_port?: number;
  /** Flows of sockets of this user. */
  uid?: number;
  /** Flows of sockets of the processes in this control group and those below it; the path below /sys/fs/cgroup. */
  cgroup?: string;
  /** Flows of sockets of this process and its descendants. */
  pid?: number;
}

/** The reply to `in-force`. */
export interface Text {
  /** A shaper file. */
  text: string;
}

/** A rule that holds at some times only. */
export interface TimedRuleStatus {
  /** The number of the rule, from 1. */
  rule: number;
  /** Its name, or its conditions. */
  label: string;
  /** Whether it is the time of the rule. */
  holds: boolean;
  /** When this changes next, as `fri 18:00` in the time zone of the host; absent where it never does. */
  until?: string;
}

/** The kind of an application's traffic, by what disturbs its user. */
export type Traffic =
  | "calls"
  | "games"
  | "live"
  | "web"
  | "bulk"
  | "unknown"
  | (string & {});

/** The answer for one kind of traffic. */
export interface TrafficAnswer {
  /** The kind. */
  traffic: Traffic;
  /** How well it works; absent where the kind is unknown. */
  grade?: Grade;
  /**
   * The wait in the shaper: the 99th percentile of calls and games, and of the worst flow among them; the 90th percentile of
   * other traffic, and of nine of ten flows.
   */
  wait_ns: number;
  /** The jitter (RFC 3550, 6.4.1), of the worst flow or class. */
  jitter_ns: number;
  /** Dropped packets in a million that arrived lately. */
  lost_ppm: number;
  /** The rate of this traffic. */
  rate_bps: number;
  /** Its flows, where flows are counted. */
  flows: number;
  /** The weakest of the reasons for which traffic was taken to be of this kind. */
  basis: Basis;
  /** The class with the wait of the evidence; empty if it is the only one, or states the kind by its name. */
  class?: string;
  /** The class that has the rate which this traffic waits for; absent where the grade is good or nothing else takes the rate. */
  rival?: Rival;
}

/** The request `undo`. */
export interface Undo {
  /** Only return the differences. */
  dry_run?: boolean;
}

/** The request `unreserve`. */
export interface Unreserve {
  /** Number of the reservation. */
  reservation: number;
}

/** The reply to `unreserve`. */
export interface Unreserved {
  /** The name that it had. */
  name: string;
}

/** The request `unsubscribe`. */
export interface Unsubscribe {
  /** Number of a subscription of this connection. */
  subscription: number;
}

/** The waits of packets, as a cumulative histogram that only grows. */
export interface Waits {
  /** Packets that have left. */
  count: number;
  /** The sum of their waits. */
  sum_ns: number;
  /** Packets that waited at most `Waits::bound`: 16,384 ns, twice that, and so on. Further elements equal `count`. */
  up_to: number[];
}

/** The reply to `feedback`. */
export interface Watching {
  /** The number that every notification carries. */
  subscription: number;
  /** The flows present, at most 64 of them. */
  flows: FlowState[];
}
