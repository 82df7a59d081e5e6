// Has 2 Mbit/s promised to what is sent to port 5004, and prints what happens to it, for a minute:
//   node examples/promise.js [INTERFACE]
import { setTimeout as wait } from "node:timers/promises";
import { Client, Refusal, find } from "tidegate";

const client = await Client.connect(await find(process.argv[2]));
client.on("event", (event) => {
  if (event.granted_bps) console.log(`${event.kind}: granted ${event.granted_bps} bit/s`);
});
client.on("close", (reason) => {
  if (reason) console.error(reason.message);
});

const request = { target: { destination_port: 5004 }, minimum_bps: 2_000_000 };
const promised = await client.promise(request).catch((error) => {
  if (!(error instanceof Refusal) || error.code !== "no-room") throw error;
  // There is not enough. Wait for rate that others release.
  console.log(error.message);
  return client.promise({ ...request, wait: true });
});
console.log(`promise ${promised.promise} in class ${promised.state.class}`);

await wait(60_000);
// The promise would end with the connection, too.
await client.release({ promise: promised.promise });
client.close();
