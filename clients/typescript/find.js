/** Finds the control socket of a shaper. */

import { existsSync, lstatSync, readdirSync, statSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";

import { CONNECT_TIMEOUT, DIRECTORY, VERSION } from "./constants.js";

/** How long a shaper may take to say in which network namespace it is, in milliseconds. */
const OWN_TIMEOUT = 500;

/**
 * The path of the control socket of the shaper of an interface; without a name, of the only one that runs, of several the one in the
 * network namespace of this process.
 */
export async function find(name) {
  const directories = [DIRECTORY, ...ofUser(process.env.XDG_RUNTIME_DIR)];
  const looked = directories.join(" nor in ");
  if (name === undefined) {
    return only(directories, looked);
  }
  if (name.includes("/")) {
    throw new Error(`${JSON.stringify(name)} is not the name of an interface`);
  }
  const paths = directories.flatMap((directory) => files(name).map((file) => join(directory, file))).filter(existsSync);
  if (paths.length === 0) {
    throw new Error(
      `no tidegate is running here: there is no ${name}.sock in ${looked}; start one with \`tidegate run\``,
    );
  }
  // A shaper that was killed leaves its socket, which hides none that listens. A single one is not asked.
  const served = paths.length > 1 ? await Promise.all(paths.map(listens)) : [true];
  return paths[Math.max(served.indexOf(true), 0)];
}

/**
 * The directory of sockets in $XDG_RUNTIME_DIR, unless one of the two is of another user or writable for everybody: the environment of
 * another user leads nobody to a daemon of theirs.
 */
function ofUser(base) {
  const directory = join(base ?? "", "tidegate");
  const isOurs = (path, absent) => {
    const data = lstatSync(path, { throwIfNoEntry: false });
    return data ? data.isDirectory() && [0, process.geteuid()].includes(data.uid) && (data.mode & 0o002) === 0 : absent;
  };
  return base && isOurs(base, false) && isOurs(directory, true) ? [directory] : [];
}

/**
 * The names that the socket of an interface may have: with the number of the network namespace where another one has an
 * interface of the same name.
 */
function files(name) {
  try {
    return [`${name}@${statSync("/proc/self/ns/net").ino}.sock`, `${name}.sock`];
  } catch {
    return [`${name}.sock`];
  }
}

/** The socket at which a process listens, if there is just one. */
async function only(directories, looked) {
  const paths = directories.filter(existsSync).flatMap((directory) =>
    readdirSync(directory)
      .filter((file) => file.endsWith(".sock"))
      .map((file) => join(directory, file)),
  );
  const served = await Promise.all(paths.map(listens));
  let found = paths.filter((_, at) => served[at]);
  if (found.length > 1) {
    const own = await Promise.all(found.map(isOwn));
    found = own.includes(true) ? found.filter((_, at) => own[at]) : found;
  }
  if (found.length === 0) {
    throw new Error(`no tidegate is running here: nothing listens in ${looked}; start one with \`tidegate run\``);
  }
  if (found.length > 1) {
    throw new Error(`several tidegates are running: ${found.join(", ")}; name the interface of one`);
  }
  return found[0];
}

/** Whether a process listens at a socket, also one that keeps this user out or is stopped. */
function listens(path) {
  return new Promise((resolve) => {
    const socket = createConnection({ path });
    const end = (is) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(is);
    };
    const timer = setTimeout(() => end(true), CONNECT_TIMEOUT);
    socket.once("connect", () => end(true));
    socket.once("error", (error) => end(error.code === "EACCES" || error.code === "EAGAIN"));
  });
}

/**
 * Whether the shaper that listens at a socket is in the network namespace of this process. It is asked, since an ordinary user cannot
 * look up the namespace of a process of another user.
 */
function isOwn(path) {
  return new Promise((resolve) => {
    const socket = createConnection({ path });
    let text = "";
    const end = (is) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(is);
    };
    const timer = setTimeout(() => end(false), OWN_TIMEOUT);
    socket.once("connect", () => socket.write(`${JSON.stringify({ id: 1, version: VERSION, call: "status" })}\n`));
    socket.on("data", (data) => {
      text += data;
      const line = text.indexOf("\n");
      if (line < 0) {
        return;
      }
      try {
        end(JSON.parse(text.slice(0, line)).ok.network_namespace === statSync("/proc/self/ns/net").ino);
      } catch {
        end(false);
      }
    });
    socket.once("error", () => end(false));
    socket.once("close", () => end(false));
  });
}
