import { EventEmitter } from "node:events";

import type { Calls, Event } from "./calls.js";

export type * from "./calls.js";

/** The path of the control socket of the shaper of an interface; without a name, of the only one that runs. */
export function find(name?: string): Promise<string>;

/** A call that the shaper refused. Its message has the cause and the remedy. */
export class Refusal extends Error {
  /** For programs: `no-room`, `not-allowed` and others of the protocol. */
  readonly code: string;
  /** The remedy, where there is one. */
  readonly help?: string;
}

/** What a client emits. */
interface Emitted {
  /** An event of the subscription of this number. */
  event: [event: Event, subscription: number];
  /** This number of events of a subscription were lost, because they were not read in time. */
  lost: [lost: number, subscription: number];
  /** The connection has ended; without a reason if `close` ended it. */
  close: [reason?: Error];
}

/** The methods for the calls. */
export interface Client extends Calls {}

/**
 * A connection to a shaper. Subscriptions, promises and reservations end with it, unless they were requested to last. Every call
 * has a time limit: 10 seconds, and a minute for one that changes the configuration.
 */
export class Client extends EventEmitter {
  private constructor();
  /** Connects to the control socket at `path`, within `timeout` milliseconds, or 2 seconds. */
  static connect(path: string, options?: { timeout?: number }): Promise<Client>;
  /** Ends the connection, with its promises and subscriptions. */
  close(): void;
  on<Name extends keyof Emitted>(name: Name, listener: (...values: Emitted[Name]) => void): this;
  once<Name extends keyof Emitted>(name: Name, listener: (...values: Emitted[Name]) => void): this;
  off<Name extends keyof Emitted>(name: Name, listener: (...values: Emitted[Name]) => void): this;
}
