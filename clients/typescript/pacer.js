/** Spaces what a program sends. */

import { setTimeout as wait } from "node:timers/promises";

/** The time for which a pacer makes up after a pause, in milliseconds. */
const BEHIND = 50;

/** Spaces what a program sends, so that it leaves at a rate and not in bursts. */
export class Pacer {
  #bps;
  /** When the next byte may leave, in milliseconds of `performance.now`. */
  #due = 0;

  /** @param bps the rate in bit/s */
  constructor(bps) {
    this.#bps = bps;
  }

  /** Sets the rate from now on, in bit/s. Nothing is sent at a rate of zero until another one is set. */
  setRate(bps) {
    this.#bps = bps;
  }

  /** Waits until a packet of this many bytes may be sent, and counts it as sent. */
  async wait(bytes, { signal } = {}) {
    for (let left; (left = this.take(performance.now(), bytes)) > 0; ) {
      // The rate may change meanwhile.
      await wait(Math.min(left, BEHIND), undefined, { signal });
    }
  }

  /** Counts a packet if it may be sent now, and otherwise returns how long to wait, in milliseconds. */
  take(now, bytes) {
    if (!(this.#bps > 0)) {
      return BEHIND;
    }
    // Timers have a resolution of a millisecond.
    if (this.#due - now >= 1) {
      return this.#due - now;
    }
    this.#due = Math.max(this.#due, now - BEHIND) + (bytes * 8_000) / this.#bps;
    return 0;
  }
}
