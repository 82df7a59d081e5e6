// Sends datagrams at the rate that the shaper grants, which promises at least 2 Mbit/s, for a minute:
//   node examples/sender.js 198.51.100.7:5004 [INTERFACE]
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { Client, MBIT, Pacer, UDP } from "tidegate";

const MINIMUM = 2 * MBIT;
/** The shaper counts packets with the headers of IPv4 and UDP. */
const HEADERS = 28;

const [to, name] = process.argv.slice(2);
if (!to) {
  console.error("usage: sender.js ADDRESS:PORT [INTERFACE]");
  process.exit(2);
}
const [address, port] = to.split(":");
const socket = createSocket("udp4");
// Nobody listens there yet: a lost packet, as on any network.
socket.on("error", () => {});
socket.connect(Number(port), address);
await once(socket, "connect");

const client = await Client.open(name).catch(failed);
const pacer = new Pacer(MINIMUM);
client.on("event", (event) => {
  if (event.granted_bps) {
    console.log(`${event.kind}: granted ${event.granted_bps} bit/s`);
    pacer.setRate(event.granted_bps);
  }
});
client.on("close", (reason) => reason && failed(reason));
// A Refusal says what would fit. With `wait: true` in the request this one would wait for others.
const target = { protocol: UDP, source_port: socket.address().port, destination_port: Number(port) };
const promised = await client.promise({ target, minimum_bps: MINIMUM }).catch(failed);
console.log(`promise ${promised.promise} in class ${promised.state.class}`);

const packet = Buffer.alloc(1200);
for (const end = Date.now() + 60_000; Date.now() < end; ) {
  await pacer.wait(packet.length + HEADERS);
  socket.send(packet);
}
// The promise ends with the connection.
client.close();
socket.close();

/** @param {Error} error @returns {never} */
function failed(error) {
  console.error(error.message);
  process.exit(1);
}
