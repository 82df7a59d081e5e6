// Has 2 Mbit/s promised to what is sent to port 5004, and prints what happens to it, for a minute:
//   node examples/promise.js [INTERFACE]
import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { Client, Code, Kind, MBIT, Refusal } from "tidegate";

const until = Date.now() + 60_000;
const request = { target: { destination_port: 5004 }, minimum_bps: 2 * MBIT };

/** Holds the promise until the time is over; throws when it cannot be had, ends, or the connection breaks. */
async function hold() {
  const client = await Client.open(process.argv[2]);
  const closed = once(client, "close");
  const ended = new Promise((resolve) => {
    client.on("event", (event) => {
      if (event.granted_bps) console.log(`${event.kind}: granted ${event.granted_bps} bit/s`);
      if (event.kind === Kind.PROMISE_ENDED) resolve(event.text);
    });
  });
  try {
    const promised = await client.promise(request).catch((error) => {
      if (!(error instanceof Refusal) || error.code !== Code.NO_ROOM) throw error;
      // There is not enough. Wait for rate that others release.
      console.log(error.message);
      return client.promise({ ...request, wait: true });
    });
    console.log(`promise ${promised.promise} in class ${promised.state.class}`);
    const over = new AbortController();
    const time = wait(until - Date.now(), "over", { signal: over.signal }).catch(() => "over");
    const first = await Promise.race([time, ended.then((text) => ({ text })), closed.then(([reason]) => reason)]);
    over.abort();
    if (first instanceof Error) throw first;
    if (first !== "over") throw new Refusal({ code: "ended", message: `the promise ended: ${first.text}` });
    // The promise would end with the connection, too.
    await client.release({ promise: promised.promise });
  } finally {
    client.close();
  }
}

for (;;) {
  try {
    await hold();
    break;
  } catch (error) {
    console.error(error.message);
    // The shaper says no. Whatever else fails may be over when it is back, as after an upgrade.
    if (error instanceof Refusal || Date.now() > until) process.exit(1);
    await wait(1_000);
  }
}
