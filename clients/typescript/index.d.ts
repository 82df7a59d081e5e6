import { EventEmitter } from "node:events";

import type { Calls, Event } from "./calls.js";

export type * from "./calls.js";
export * from "./constants.js";

/** The path of the control socket of the shaper of an interface; without a name, of the only one that runs. */
export function find(name?: string): Promise<string>;

/** A call that the shaper refused. Its message has the cause and the remedy. */
export class Refusal extends Error {
  /** From the error of a reply. */
  constructor(error: { code: string; message: string; help?: string });
  /** For programs: one of `Code`, or one of a newer shaper. */
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
  /** Connects to the shaper of an interface; without a name, to the only one that runs. */
  static open(name?: string): Promise<Client>;
  /** Connects to the control socket at `path`, within `timeout` milliseconds, or 2 seconds. */
  static connect(path: string, options?: { timeout?: number }): Promise<Client>;
  /** Ends the connection, with its promises and subscriptions. */
  close(): void;
  on<Name extends keyof Emitted>(name: Name, listener: (...values: Emitted[Name]) => void): this;
  once<Name extends keyof Emitted>(name: Name, listener: (...values: Emitted[Name]) => void): this;
  off<Name extends keyof Emitted>(name: Name, listener: (...values: Emitted[Name]) => void): this;
}

/** Spaces what a program sends, so that it leaves at a rate and not in bursts. */
export class Pacer {
  /** @param bps the rate in bit/s, such as `2 * MBIT` */
  constructor(bps: number);
  /** Sets the rate from now on, in bit/s. Nothing is sent at a rate of zero until another one is set. */
  setRate(bps: number): void;
  /**
   * Waits until a packet of this many bytes may be sent, and counts it as sent. After a pause at most the last 50 ms are made up
   * for. Timers of Node have a resolution of a millisecond, so that at high rates some packets leave together.
   */
  wait(bytes: number, options?: { signal?: AbortSignal }): Promise<void>;
}
