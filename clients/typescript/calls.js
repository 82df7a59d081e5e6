// Generated from the declarations in crates/control/src/calls; do not edit.

/** Each call: the method of the client, its name in a request, and how long its reply may take, in milliseconds. */
export const calls = [
  ["status", "status", 10000],
  ["classes", "classes", 10000],
  ["flows", "flows", 10000],
  ["explain", "explain", 10000],
  ["events", "events", 10000],
  ["notes", "notes", 10000],
  ["unsubscribe", "unsubscribe", 10000],
  ["feedback", "feedback", 10000],
  ["promise", "promise", 10000],
  ["renew", "renew", 10000],
  ["release", "release", 10000],
  ["promises", "promises", 10000],
  ["reserve", "reserve", 10000],
  ["refresh", "refresh", 10000],
  ["unreserve", "unreserve", 10000],
  ["reservations", "reservations", 10000],
  ["apply", "apply", 60000],
  ["confirm", "confirm", 60000],
  ["rollback", "rollback", 60000],
  ["undo", "undo", 60000],
  ["inForce", "in-force", 10000],
];
