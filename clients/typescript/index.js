/**
 * A client for the control socket of a running Tidegate traffic shaper. index.d.ts and calls.d.ts have the types.
 * It needs Node alone.
 */

import { EventEmitter } from "node:events";
import { createConnection } from "node:net";

import { calls } from "./calls.js";
import { CONNECT_TIMEOUT, VERSION } from "./constants.js";
import { find } from "./find.js";

export { find };
export * from "./constants.js";
export { Pacer } from "./pacer.js";

/** The length from which a message is not taken for one of Tidegate, in bytes. */
const LONGEST = 16 << 20;

/** A call that the shaper refused. */
export class Refusal extends Error {
  constructor({ code, message, help }) {
    super(help ? `${message}; ${help}` : message);
    this.name = "Refusal";
    this.code = code;
    this.help = help;
  }
}

/** A connection to a shaper. The methods for the calls are added below. */
export class Client extends EventEmitter {
  #socket;
  #next = 0;
  /** What resolves and rejects the calls that wait, by their numbers. */
  #waiting = new Map();
  /** The parts of a line that has not ended yet, and their length. */
  #parts = [];
  #length = 0;
  /** Why the connection has ended. */
  #failure;
  /** Whether there was a reply in this turn. */
  #answered = false;

  constructor(socket) {
    super();
    this.#socket = socket;
    socket.on("data", (data) => this.#received(data));
    socket.on("error", (error) => this.#end(new Error(`the connection to tidegate broke: ${error.message}`)));
    socket.on("close", () => this.#end(new Error("tidegate closed the connection; it may have ended")));
  }

  /** Connects to the shaper of an interface; without a name, to the only one that runs. */
  static async open(name) {
    return Client.connect(await find(name));
  }

  /** Connects to the control socket at `path`. `find` finds it, and `open` does both. */
  static connect(path, { timeout = CONNECT_TIMEOUT } = {}) {
    return new Promise((resolve, reject) => {
      const socket = createConnection({ path });
      const fail = (why) => {
        clearTimeout(timer);
        socket.destroy();
        reject(new Error(`cannot reach tidegate at ${path}: ${why}; is it running?`));
      };
      const timer = setTimeout(() => fail(`no connection within ${timeout} ms`), timeout);
      const failed = (error) => fail(error.message);
      socket.once("error", failed);
      socket.once("connect", () => {
        clearTimeout(timer);
        socket.removeListener("error", failed);
        resolve(new Client(socket));
      });
    });
  }

  /** Ends the connection, with its promises and subscriptions. */
  close() {
    this.#end(new Error("the connection to tidegate was closed by this program"), true);
  }

  /** Makes a call by its name; its reply may take `timeout` milliseconds. */
  call(name, request, timeout) {
    if (this.#failure) {
      return Promise.reject(this.#failure);
    }
    const id = ++this.#next;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        reject(new Error(`tidegate has not answered \`${name}\` within ${timeout} ms`));
      }, timeout);
      this.#waiting.set(id, { resolve, reject, timer });
      this.#socket.write(`${JSON.stringify({ id, version: VERSION, call: name, with: request })}\n`);
    });
  }

  #received(data) {
    let from = 0;
    for (let at = data.indexOf(10); at >= 0; at = data.indexOf(10, from)) {
      this.#parts.push(data.subarray(from, at));
      const line = Buffer.concat(this.#parts).toString();
      [this.#parts, this.#length, from] = [[], 0, at + 1];
      this.#message(line);
    }
    this.#parts.push(data.subarray(from));
    this.#length += data.length - from;
    if (this.#length > LONGEST) {
      this.#end(new Error(`a message of tidegate is longer than ${LONGEST} bytes`));
    }
  }

  #message(line) {
    let message;
    try {
      message = JSON.parse(line);
    } catch (error) {
      message = undefined;
    }
    if (typeof message !== "object" || message === null) {
      this.#end(new Error(`this client does not understand a message of tidegate: ${line.slice(0, 120)}`));
    } else if (message.event !== undefined) {
      this.#notify("event", message.event, message.subscription);
    } else if (message.lost !== undefined) {
      this.#notify("lost", message.lost, message.subscription);
    } else if (message.id === 0 && message.error) {
      // A refusal of the whole connection.
      this.#end(new Refusal(message.error));
    } else {
      const call = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      clearTimeout(call?.timer);
      this.#answered = true;
      setImmediate(() => (this.#answered = false));
      if (message.error) {
        call?.reject(new Refusal(message.error));
      } else {
        call?.resolve(message.ok);
      }
    }
  }

  /** Emits an event. One that came with a reply before it is emitted in the next turn: who waits for the reply has it by then. */
  #notify(...what) {
    if (this.#answered) {
      setImmediate(() => this.emit(...what));
    } else {
      this.emit(...what);
    }
  }

  /** Ends the connection for a reason, unless it has ended, and the calls that wait. */
  #end(reason, isAsked = false) {
    if (this.#failure) {
      return;
    }
    this.#failure = reason;
    this.#socket.destroy();
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      reject(reason);
    }
    this.#waiting.clear();
    this.#notify("close", isAsked ? undefined : reason);
  }
}

for (const [method, name, timeout] of calls) {
  Client.prototype[method] = function (request) {
    return this.call(name, request, timeout);
  };
}
