import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, symlinkSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { calls } from "../calls.js";
import { Client, Code, MBIT, Pacer, Refusal, find } from "../index.js";

/** A folder that is removed with the test. */
function folder(t) {
  const path = mkdtempSync(join(tmpdir(), "tidegate-"));
  t.after(() => rmSync(path, { recursive: true }));
  return path;
}

/** A process that listens at `path` and passes each connection and each request to `serve`. */
async function listening(t, path, serve) {
  const sockets = new Set();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    let text = "";
    socket.on("data", (data) => {
      const lines = (text + data).split("\n");
      text = lines.pop();
      lines.forEach((line) => serve(socket, JSON.parse(line)));
    });
  });
  await new Promise((resolve) => server.listen(path, resolve));
  t.after(() => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  });
}

async function served(t, serve) {
  const path = join(folder(t), "socket");
  await listening(t, path, serve);
  const client = await Client.connect(path);
  t.after(() => client.close());
  return client;
}

test("each call is a method and has a limit", async (t) => {
  const client = await served(t, (socket, { id, call, version, with: parameters }) => {
    socket.write(`${JSON.stringify({ id, ok: { call, version, parameters } })}\n`);
  });
  for (const [method, name, limit] of calls) {
    assert.ok(limit === 10_000 || limit === 60_000, name);
    assert.deepEqual(await client[method]({ n: 1 }), { call: name, version: 1, parameters: { n: 1 } });
  }
});

test("a silent shaper is not waited for", async (t) => {
  const client = await served(t, () => {});
  await assert.rejects(client.call("status", undefined, 50), /has not answered `status` within 50 ms/);
});

test("a refusal has its code and its remedy", async (t) => {
  const error = { code: "no-room", message: "6mbit are left", help: "ask for less" };
  const client = await served(t, (socket, { id }) => socket.write(`${JSON.stringify({ id, error })}\n`));
  const refused = (error) => error instanceof Refusal && error.code === Code.NO_ROOM && error.message === "6mbit are left; ask for less";
  await assert.rejects(client.promise({ target: {} }), refused);
});

test("what is no shaper ends the connection", async (t) => {
  for (const [answer, expected] of [
    ["hello\n", /does not understand/],
    ["null\n", /does not understand/],
    ['{"id":0,"error":{"code":"too-many","message":"too many clients"}}\n', /too many clients/],
    ["x".repeat(17 << 20), /longer than/],
    ["", /closed the connection/],
  ]) {
    const client = await served(t, (socket) => socket.end(answer));
    const closed = new Promise((resolve) => client.once("close", resolve));
    await assert.rejects(client.status(), expected);
    assert.match((await closed).message, expected);
    await assert.rejects(client.status(), expected);
  }
});

test("events come in parts and between replies", async (t) => {
  const client = await served(t, (socket, { id }) => {
    socket.write('{"subscription":1,"event":{"kind":"lo');
    setTimeout(() => socket.write(`g","text":"ü"}}\n{"subscription":1,"lost":7}\n{"id":${id},"ok":{"subscription":1}}\n`), 20);
  });
  const heard = [];
  client.on("event", (event, subscription) => heard.push([event.kind, event.text, subscription]));
  client.on("lost", (lost, subscription) => heard.push([lost, subscription]));
  assert.deepEqual(await client.events({}), { subscription: 1 });
  assert.deepEqual(heard, [["log", "ü", 1], [7, 1]]);
});

test("an event behind a reply is heard by who waits for the reply", async (t) => {
  const client = await served(t, (socket, { id }) => {
    socket.write(`{"id":${id},"ok":{"subscription":1}}\n{"subscription":1,"event":{"kind":"log"}}\n{"subscription":1,"lost":7}\n`);
  });
  await client.events({});
  const heard = [];
  await new Promise((resolve) => {
    client.on("event", (event) => heard.push(event.kind));
    client.on("lost", (lost) => resolve(heard.push(lost)));
  });
  assert.deepEqual(heard, ["log", 7]);
});

test("a pacer keeps its rate", async () => {
  const pacer = new Pacer(8 * MBIT);
  // A packet of 1,000 bytes a millisecond. The first 50 ms are made up for at once.
  let [sent, now] = [0, 1_000];
  while (pacer.take(now, 1_000) === 0) sent++;
  assert.ok(sent >= 51 && sent <= 52, `${sent} at once`);
  for (const end = now + 1_000; now < end; ) {
    const left = pacer.take(now, 1_000);
    if (left > 0) now += left;
    else sent++;
  }
  assert.ok(sent >= 1_050 && sent <= 1_053, `${sent} in a second`);
  pacer.setRate(0);
  await assert.rejects(pacer.wait(1_000, { signal: AbortSignal.timeout(20) }));
  pacer.setRate(1_000 * MBIT);
  await pacer.wait(1_000);
});

test("a socket is found by its interface", async (t) => {
  const directory = folder(t);
  process.env.XDG_RUNTIME_DIR = directory;
  await assert.rejects(find("nosuch0"), /there is no nosuch0.sock in \/run\/tidegate nor in /);
  await assert.rejects(find("../eth0"), /not the name of an interface/);
  mkdirSync(join(directory, "tidegate"));
  const path = join(directory, "tidegate", "nosuch0.sock");
  await listening(t, path, () => {});
  assert.equal(await find("nosuch0"), path);
  (await Client.open("nosuch0")).close();
  await assert.rejects(Client.connect(join(directory, "none")), /cannot reach tidegate at .*is it running/);
  // A shaper that was killed leaves its socket, which hides none that listens.
  const stale = join(directory, "tidegate", `nosuch0@${statSync("/proc/self/ns/net").ino}.sock`);
  leaveStale(stale);
  assert.equal(await find("nosuch0"), path);
  leaveStale(join(directory, "tidegate", "nosuch1.sock"));
  assert.match(await find("nosuch1"), /nosuch1.sock$/);
});

test("of several sockets the one of the own network namespace is meant", async (t) => {
  const directory = folder(t);
  process.env.XDG_RUNTIME_DIR = directory;
  mkdirSync(join(directory, "tidegate"));
  const own = statSync("/proc/self/ns/net").ino;
  const answers = (namespace) => (socket, { id }) =>
    socket.write(`${JSON.stringify({ id, ok: { network_namespace: namespace } })}\n`);
  const paths = ["nosuch0", "nosuch1"].map((name) => join(directory, "tidegate", `${name}.sock`));
  await listening(t, paths[0], answers(own + 1));
  await listening(t, paths[1], answers(own));
  const found = await find().catch((error) => error.message);
  // A shaper of this machine may be there, too.
  assert.ok(found === paths[1] || (found.includes(paths[1]) && !found.includes(paths[0])), found);
});

test("a directory in which others may write leads nowhere", async (t) => {
  const directory = folder(t);
  process.env.XDG_RUNTIME_DIR = directory;
  const sockets = join(directory, "tidegate");
  mkdirSync(sockets);
  await listening(t, join(sockets, "nosuch0.sock"), () => {});
  assert.match(await find("nosuch0"), /nosuch0.sock$/);
  for (const path of [directory, sockets]) {
    const { mode } = statSync(path);
    chmodSync(path, 0o1777);
    await assert.rejects(find("nosuch0"), /there is no nosuch0.sock in \/run\/tidegate;/);
    chmodSync(path, mode);
    // Only root can give a directory away.
    if (process.geteuid() === 0) {
      chownSync(path, 65534, 65534);
      await assert.rejects(find("nosuch0"), /there is no nosuch0.sock in \/run\/tidegate;/);
      chownSync(path, 0, 0);
    }
  }
  renameSync(sockets, join(directory, "elsewhere"));
  symlinkSync(join(directory, "elsewhere"), sockets);
  await assert.rejects(find("nosuch0"), /there is no nosuch0.sock/);
});

/** Leaves a socket at which nobody listens, as a kill does. */
function leaveStale(path) {
  const script = "const s = require('net').createServer().listen(process.argv[1], () => process.kill(process.pid, 'SIGKILL'));";
  spawnSync(process.execPath, ["-e", script, path]);
  assert.ok(statSync(path).isSocket());
}
