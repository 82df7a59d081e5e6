// Generated from crates/control/src/protocol.rs and calls; do not edit.

/** The version of the protocol. It changes when a request changes its meaning, not when something is added. */
export const VERSION: number;

/** The longest request and notification, in bytes with the newline. Replies may be longer. */
export const LONGEST: number;

/** The folder of the control sockets. Shapers that may not write there use the folder tidegate in $XDG_RUNTIME_DIR. */
export const DIRECTORY: string;

/** How long a connection may take. A daemon that is stopped does not accept any. In milliseconds. */
export const CONNECT_TIMEOUT: number;

/** How long the reply to a call may take that does not change the configuration. In milliseconds. */
export const REPLY_TIMEOUT: number;

/** How long the reply to a call may take that changes the configuration, which may start other data paths. In milliseconds. */
export const CHANGE_TIMEOUT: number;

/** The protocol of a target or a flow: TCP. */
export const TCP: number;

/** The protocol of a target or a flow: UDP. */
export const UDP: number;

/** A kilobit a second, in bit/s. */
export const KBIT: number;

/** A megabit a second, in bit/s. */
export const MBIT: number;

/** A gigabit a second, in bit/s. */
export const GBIT: number;

/** The kind of a refusal, for programs. */
export const Code: {
  /** The message is not what the protocol specifies. */
  readonly MALFORMED: "malformed";
  /** Another version of the protocol. */
  readonly VERSION: "version";
  /** There is no such call. */
  readonly UNKNOWN_CALL: "unknown-call";
  /** The message is longer than the longest request; the connection ends. */
  readonly TOO_LONG: "too-long";
  /** Too many clients, or too many subscriptions or promises of this one. */
  readonly TOO_MANY: "too-many";
  /** This user may not do this. */
  readonly NOT_ALLOWED: "not-allowed";
  /** No such class, flow, process, promise. */
  readonly NOT_FOUND: "not-found";
  /** Not enough rate is left; the message states what is free. */
  readonly NO_ROOM: "no-room";
  /** Not available here: another discipline, a missing facility. */
  readonly UNSUPPORTED: "unsupported";
  /** The configuration or the parameters have errors, or contradict what is in force. */
  readonly INVALID: "invalid";
  /** Something failed in the daemon or the system. */
  readonly FAILED: "failed";
};

/** What an event reports. */
export const Kind: {
  /** A flow was seen for the first time. */
  readonly FLOW_STARTED: "flow-started";
  /** A flow sent nothing for the idle timeout, and was removed. */
  readonly FLOW_ENDED: "flow-ended";
  /** The queue of a flow rose to its upper threshold. */
  readonly QUEUE_ABOVE: "queue-above";
  /** The queue of a flow fell to its lower threshold. */
  readonly QUEUE_BELOW: "queue-below";
  /** A flow was moved to another class, with its queue. */
  readonly MOVED: "moved";
  /** Packets of a flow were marked congestion experienced; reported at most every 100 ms for a flow that is not watched. */
  readonly MARKED: "marked";
  /** Queue protection of DualPI2 put a flow of the low-latency queue under sanction; its packets wait with those of the other queue. */
  readonly SANCTIONED: "sanctioned";
  /** The last packet of a flow that was under sanction has left; the next may wait in the low-latency queue. */
  readonly RELEASED: "released";
  /** A watched flow is granted another rate. */
  readonly RATE: "rate";
  /** Packets of a watched flow were dropped. */
  readonly DROPPED: "dropped";
  /** The oldest packet of a watched flow has waited longer than the requested limit. */
  readonly DELAY_ABOVE: "delay-above";
  /** It has waited less than half of that. */
  readonly DELAY_BELOW: "delay-below";
  /** The minimum of a flow is in force. */
  readonly PROMISED: "promised";
  /** The minimum of a flow waits for rate to be released. */
  readonly WAITING: "waiting";
  /** A promise ended: its lease was over, or root ended it. */
  readonly PROMISE_ENDED: "promise-ended";
  /** The rate of a direction follows its line to another value (`granted_bps`), for the reason in `text`. */
  readonly LINE_RATE: "line-rate";
  /** A message of the supervisor, as text. A change of the configuration has its author, command and differences in `data`. */
  readonly LOG: "log";
};
