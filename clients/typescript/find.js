/** Finds the control socket of a shaper. */

import { existsSync, readdirSync, statSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";

import { CONNECT_TIMEOUT, DIRECTORY } from "./constants.js";

/** The path of the control socket of the shaper of an interface; without a name, of the only one that runs. */
export async function find(name) {
  const user = process.env.XDG_RUNTIME_DIR;
  const directories = [DIRECTORY, ...(user ? [join(user, "tidegate")] : [])];
  const looked = directories.join(" nor in ");
  if (name === undefined) {
    return only(directories, looked);
  }
  if (name.includes("/")) {
    throw new Error(`${JSON.stringify(name)} is not the name of an interface`);
  }
  const path = directories.flatMap((directory) => files(name).map((file) => join(directory, file))).find(existsSync);
  if (path === undefined) {
    throw new Error(
      `no tidegate is running here: there is no ${name}.sock in ${looked}; start one with \`tidegate run\``,
    );
  }
  return path;
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
  const found = paths.filter((_, at) => served[at]);
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
