// Generated from crates/control/src/protocol.rs and calls; do not edit.

/** The version of the protocol. It changes when a request changes its meaning, not when something is added. */
export const VERSION = 1;

/** The longest request and notification, in bytes with the newline. Replies may be longer. */
export const LONGEST = 65536;

/** The folder of the control sockets. Shapers that may not write there use the folder tidegate in $XDG_RUNTIME_DIR. */
export const DIRECTORY = "/run/tidegate";

/** How long a connection may take. A daemon that is stopped does not accept any. */
export const CONNECT_TIMEOUT = 2000;

/** How long the reply to a call may take that does not change the configuration. */
export const REPLY_TIMEOUT = 10000;

/** How long the reply to a call may take that changes the configuration, which may start other data paths. */
export const CHANGE_TIMEOUT = 60000;

/** The protocol of a target or a flow: TCP. */
export const TCP = 6;

/** The protocol of a target or a flow: UDP. */
export const UDP = 17;

/** A kilobit a second, in bit/s. */
export const KBIT = 1000;

/** A megabit a second, in bit/s. */
export const MBIT = 1000000;

/** A gigabit a second, in bit/s. */
export const GBIT = 1000000000;

/** The kind of a refusal, for programs. */
export const Code = Object.freeze({
  MALFORMED: "malformed",
  VERSION: "version",
  UNKNOWN_CALL: "unknown-call",
  TOO_LONG: "too-long",
  TOO_MANY: "too-many",
  NOT_ALLOWED: "not-allowed",
  NOT_FOUND: "not-found",
  NO_ROOM: "no-room",
  UNSUPPORTED: "unsupported",
  INVALID: "invalid",
  FAILED: "failed",
});

/** What an event reports. */
export const Kind = Object.freeze({
  FLOW_STARTED: "flow-started",
  FLOW_ENDED: "flow-ended",
  QUEUE_ABOVE: "queue-above",
  QUEUE_BELOW: "queue-below",
  MOVED: "moved",
  MARKED: "marked",
  SANCTIONED: "sanctioned",
  RELEASED: "released",
  RATE: "rate",
  DROPPED: "dropped",
  DELAY_ABOVE: "delay-above",
  DELAY_BELOW: "delay-below",
  PROMISED: "promised",
  WAITING: "waiting",
  PROMISE_ENDED: "promise-ended",
  LINE_RATE: "line-rate",
  LOG: "log",
});
