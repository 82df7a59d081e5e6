// The tables: classes, hosts with their flows, flows; and the line above them.
import { $, rate, bytes, count, nanos, percent, reasons, way, clock, make, colour } from "./units.js";

const promise = (one) => {
  const kept = one.promise_kept_seconds, missed = one.promise_missed_seconds;
  if (kept + missed === 0) return make("span", { class: "muted", text: "–", title: "it never asked for all of it" });
  if (missed === 0) return make("span", { class: "good", text: "kept", title: count(kept) + " s kept, none missed" });
  return make("span", { class: "bad", text: count(missed) + " s missed", title: count(kept) + " s kept" });
};
// What limits a host: its share, or a ceiling.
const LIMITS = {
  share: "its share", "class-ceiling": "its class", "host-ceiling": "its limit", "rule-ceiling": "its rule",
  "flow-ceiling": "its flows",
};
// The class that has the rate which another one waits for, and the reason.
const RIVALS = { priority: "is served first,", borrowing: "borrows", promise: "has, as promised," };
const rival = (one) => one.class + " " + (RIVALS[one.by] ?? "has") + " " + one.percent + " %";
const dropped = (one) => {
  const all = one.dropped_packets;
  return make("span", { text: count(all), title: all ? reasons(one.dropped) : null });
};
// How much of a whole is used. Full is no grade, so its colour is none of good or bad.
const bar = (value, most, what) => {
  const part = most > 0 ? value / most : 0;
  const inside = make("span");
  inside.style.width = Math.min(part, 1) * 100 + "%";
  return make("span", { class: "bar", role: "meter", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(Math.min(part, 1) * 100), "aria-label": percent(part) + " " + what }, inside);
};
const swatch = (state, name) => {
  const mark = make("span", { class: "swatch" });
  mark.style.background = colour(state.order().indexOf(name));
  return mark;
};

const arrives = (direction) => direction.name.endsWith("down");

// The columns of each table; `less` is left out on a phone. Classes and flows have these alike.
const COUNTED = [
  { name: "queue", less: true, key: (one) => one.queue_bytes, cell: (one) => [bytes(one.queue_bytes)] },
  { name: "delay p50", less: true, key: (one) => one.wait_p50_ns, cell: (one) => [nanos(one.wait_p50_ns)] },
  { name: "p99", key: (one) => one.wait_p99_ns, cell: (one) => [nanos(one.wait_p99_ns)] },
  { name: "jitter", less: true, key: (one) => one.jitter_ns, cell: (one) => [nanos(one.jitter_ns)] },
  { name: "drops", key: (one) => one.dropped_packets, cell: (one) => [dropped(one)] },
  { name: "marks", less: true, key: (one) => one.marked_packets, cell: (one) => [count(one.marked_packets)] },
  { name: "sent", less: true, key: (one) => one.sent_bytes, cell: (one) => [bytes(one.sent_bytes)] },
];
const CLASSES = (state) => [
  { name: "class", text: true, key: (one) => one.name, cell: (one) => [swatch(state, one.name), one.name] },
  { name: "rate", key: (one) => one.rate_bps, cell: (one) => [rate(one.rate_bps)] },
  { name: "promised", key: (one) => one.promised_bps ?? -1, cell: (one) => (one.promised_bps === undefined ? ["–"] : [rate(one.promised_bps), bar(one.rate_bps, one.promised_bps, "of what is promised")]) },
  { name: "borrowed", less: true, key: (one) => one.borrowed_bps, cell: (one) => [one.borrowed_bps ? rate(one.borrowed_bps) : "–"] },
  { name: "promise", key: (one) => one.promise_missed_seconds, cell: (one) => [promise(one)] },
  { name: "flows", less: true, key: (one) => one.flows ?? -1, cell: (one) => [one.flows === undefined ? "–" : count(one.flows)] },
  ...COUNTED,
];
// Ceilings are a column only where some class has one.
const ceilings = (one) => [[one.at_most_bps, ""], [one.host_at_most_bps, " a host"], [one.flow_at_most_bps, " a flow"]]
  .filter(([bps]) => bps !== undefined).map(([bps, whose]) => rate(bps) + whose).join(", ");
const AT_MOST = { name: "at most", less: true, text: true, key: ceilings, cell: (one) => [ceilings(one) || "–"] };
// The rules with what each has matched; where they have times or a quota, how far that is.
const ruled = (direction) => {
  const all = new Map();
  for (const one of [...(direction.rules || []), ...(direction.times || []), ...(direction.quotas || [])]) {
    all.set(one.rule, { ...all.get(one.rule), ...one, way: direction.name });
  }
  return [...all.values()];
};
const now = (one) => (one.left_bytes === 0 ? "used up" : one.holds === false ? "not its time" : "in force");
const RULES = [
  { name: "rule", text: true, key: (one) => one.rule, cell: (one) => [one.rule + ": " + (one.label || "every packet")] },
  { name: "direction", text: true, key: (one) => one.way, cell: (one) => [way(one.way)] },
  { name: "class", text: true, less: true, key: (one) => one.class || "", cell: (one) => [one.class || "–"] },
  { name: "matched", key: (one) => one.bytes ?? -1, cell: (one) => (one.bytes === undefined ? ["–"] : [make("span", { text: bytes(one.bytes), title: count(one.packets) + " packets" })]) },
  { name: "now", key: now, cell: (one) => [now(one)] },
  { name: "used", key: (one) => (one.quota_bytes ? one.used_bytes / one.quota_bytes : -1), cell: (one) => (one.quota_bytes === undefined ? ["–"] : [bytes(one.used_bytes) + " of " + bytes(one.quota_bytes), bar(one.used_bytes, one.quota_bytes, "of the quota")]) },
  { name: "until", key: (one) => one.next || one.until || "", cell: (one) => [one.next || one.until || "–"] },
];
const PROTOCOLS = { 1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6", 132: "sctp" };
const end = (address, port) => (address === undefined ? "?" : port === undefined ? address : address.includes(":") ? "[" + address + "]:" + port : address + ":" + port);
const who = (flow) => {
  const one = flow.flow;
  if (one.protocol === undefined) return "flow " + one.key;
  return (PROTOCOLS[one.protocol] || "protocol " + one.protocol) + " " + end(one.source, one.source_port) + " › " + end(one.destination, one.destination_port);
};
const FLOWS = (state) => [
  { name: "flow", text: true, wide: true, key: who, cell: (one) => {
    const more = [one.rule ? "rule " + one.rule : "no rule", one.flow.uid === undefined ? null : "uid " + one.flow.uid, one.through ? "displaced to " + one.through : null, one.preferred ? "preferred " + one.preferred + "×" : null];
    return [who(one), make("span", { class: "sub", text: more.filter(Boolean).join(" · ") })];
  } },
  { name: "way", key: (one) => one.way, cell: (one) => [way(one.way)] },
  { name: "class", key: (one) => one.class, cell: (one) => [swatch(state, one.class), one.class] },
  { name: "rate", key: (one) => one.rate_bps, cell: (one) => [rate(one.rate_bps)] },
  { name: "share", less: true, key: (one) => one.share_bps ?? -1, cell: (one) => [one.share_bps === undefined ? "–" : rate(one.share_bps)] },
  { name: "minimum", key: (one) => one.minimum_bps ?? -1, cell: (one) => [one.minimum_bps === undefined ? "–" : rate(one.minimum_bps) + (one.granted ? "" : " (waits)")] },
  { name: "promise", key: (one) => one.promise_missed_seconds, cell: (one) => [one.minimum_bps === undefined ? "–" : promise(one)] },
  ...COUNTED,
];

// The part of a line that a host takes.
const limit = (state, down) => state.seen.directions.filter((direction) => arrives(direction) === down).reduce((all, one) => all + (one.limit_bps || 0), 0);
const taken = (state, name, down) => {
  const of = (one) => (down ? one.down : one.up);
  return { name, key: (one) => of(one).rate_bps, cell: (one) => {
    const whole = limit(state, down);
    return [rate(of(one).rate_bps), ...(whole ? [bar(of(one).rate_bps, whole, "of the line")] : [])];
  } };
};
const HOSTS = (state) => [
  { name: "host", text: true, key: (one) => one.name || one.address, cell: (one) => {
    const open = state.opened.has(one.address);
    const button = make("button", { type: "button", class: "opens", "aria-expanded": String(open), "data-host": one.address, text: one.name || one.address });
    return one.name ? [button, make("span", { class: "sub mono", text: one.address })] : [button];
  } },
  taken(state, "upload", false),
  taken(state, "download", true),
  { name: "flows", key: (one) => one.up.flows + one.down.flows, cell: (one) => [count(one.up.flows + one.down.flows)] },
  { name: "queue", less: true, key: (one) => one.up.queue_bytes + one.down.queue_bytes, cell: (one) => [bytes(one.up.queue_bytes + one.down.queue_bytes)] },
  { name: "slowest flow", key: (one) => Math.max(one.up.wait_p99_ns, one.down.wait_p99_ns), cell: (one) => [nanos(Math.max(one.up.wait_p99_ns, one.down.wait_p99_ns))] },
  { name: "drops", less: true, key: (one) => one.up.dropped_packets + one.down.dropped_packets, cell: (one) => [count(one.up.dropped_packets + one.down.dropped_packets)] },
  { name: "sent", less: true, key: (one) => one.up.sent_bytes + one.down.sent_bytes, cell: (one) => [bytes(one.up.sent_bytes + one.down.sent_bytes)] },
  { name: "limited by", key: (one) => one.limited_by, cell: (one) => [LIMITS[one.limited_by] ?? "itself", ...(one.rival ? [": ", make("span", { class: "sub", text: rival(one.rival) })] : [])] },
];
// The flows of a host, both ways, the fastest first.
const flowsOf = (state, host) => {
  const mine = state.seen.directions.flatMap((direction) => (direction.flows || [])
    .filter((one) => (arrives(direction) ? one.flow.destination : one.flow.source) === host.address)
    .map((one) => [direction, one]));
  mine.sort((a, b) => b[1].rate_bps - a[1].rate_bps);
  const lines = mine.slice(0, 10).map(([direction, one]) => make("li", {},
    make("span", { class: "mono", text: who(one) }), " " + way(direction.name) + ", " + one.class + ": " + rate(one.rate_bps) + ", p99 " + nanos(one.wait_p99_ns) + ", " + count(one.dropped_packets) + " dropped"));
  if (mine.length > 10) lines.push(make("li", { text: "and " + (mine.length - 10) + " more; the filter of the flows finds them" }));
  if (mine.length === 0) lines.push(make("li", { text: "none of its flows is among the fastest 200" }));
  return make("ul", { class: "flows-of" }, ...lines);
};

export const head = (table, list, sort, changed) => {
  const row = table.tHead.rows[0];
  for (const column of list) {
    const button = make("button", { type: "button", text: column.name });
    button.addEventListener("click", () => {
      const first = column.text ? 1 : -1;
      const old = sort.get();
      sort.set(old && old[0] === column.name ? [column.name, -old[1]] : [column.name, first]);
      changed();
    });
    row.append(make("th", { scope: "col", role: "columnheader", class: [column.text ? "text" : "", column.less ? "less" : ""].join(" ").trim() }, button));
  }
};
const fill = (table, list, sort, rows, below) => {
  [...table.tHead.rows[0].cells].forEach((cell, n) => {
    if (sort && sort[0] === list[n].name) cell.setAttribute("aria-sort", sort[1] > 0 ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  });
  const column = sort && list.find((one) => one.name === sort[0]);
  if (column) {
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
    rows = [...rows].sort((a, b) => sort[1] * compare(column.key(a), column.key(b)));
  }
  // What has the focus keeps it.
  const focused = table.contains(document.activeElement) ? document.activeElement.dataset.host : undefined;
  table.tBodies[0].replaceChildren(...rows.flatMap((one) => {
    const cells = list.map((column) => {
      const content = column.cell(one);
      const classes = [column.text ? "text" : "", column.wide ? "flow" : "", column.less ? "less" : "", content[0] === "–" ? "empty" : ""].filter(Boolean).join(" ");
      return make("td", { role: column.text ? "rowheader" : "cell", class: classes, "data-label": column.name }, ...content);
    });
    const row = make("tr", { role: "row" }, ...cells);
    const more = below && below(one);
    return more ? [row, make("tr", { role: "row", class: "more" }, make("td", { role: "cell", class: "text", colspan: list.length }, more))] : [row];
  }));
  if (focused) table.querySelector(`[data-host="${CSS.escape(focused)}"]`)?.focus();
};

const columnsOf = (state) => {
  const all = CLASSES(state), some = state.seen?.directions.some((direction) => direction.classes.some(ceilings));
  return some ? [...all.slice(0, 3), AT_MOST, ...all.slice(3)] : all;
};
// The columns of classes: fewer where two directions stand beside each other.
const classes = (state) => columnsOf(state).filter((column) => !column.less || state.more || (state.seen && state.seen.directions.length === 1));
let changed = () => {};
export const heads = (state, then) => {
  changed = then;
  for (const [id, list] of [["hosts", HOSTS(state)], ["rules", RULES], ["flows", FLOWS(state)]]) {
    head($(id), list, { get: () => state.sort[id], set: (to) => { state.sort[id] = to; } }, changed);
  }
};
const unfolded = (id) => $(id).closest("details").open;

// A table of classes for each direction.
const classTables = (state) => {
  const list = classes(state), box = $("classes"), names = state.seen.directions.map((one) => one.name);
  const shape = [...names, ...list.map((column) => column.name)].join("\n");
  if (box.dataset.shape !== shape) {
    box.dataset.shape = shape;
    box.replaceChildren(...names.map((name) => {
      const table = make("table", { role: "table", "aria-label": "Classes, " + way(name) }, make("thead", { role: "rowgroup" }, make("tr", { role: "row" })), make("tbody", { role: "rowgroup" }));
      head(table, list, { get: () => state.sort.classes, set: (to) => { state.sort.classes = to; } }, changed);
      return make("div", { class: "side" }, ...(names.length > 1 ? [make("h3", { text: way(name) })] : []), make("div", { class: "scroll" }, table));
    }));
  }
  $("more").hidden = names.length === 1;
  box.querySelectorAll("table").forEach((table, n) => fill(table, list, state.sort.classes, state.seen.directions[n].classes));
};

export const tables = (state) => {
  if (!state.seen) return;
  if (unfolded("classes")) classTables(state);
  const rules = state.seen.directions.flatMap(ruled);
  $("rules-fold").hidden = rules.length === 0;
  $("rules-count").textContent = rules.length || "";
  // A long list is not to stand before the charts.
  if (rules.length > (state.phone() ? 4 : 12) && !state.rulesFolded) $("rules-fold").open = false;
  state.rulesFolded ||= rules.length > 0;
  if (rules.length && unfolded("rules")) fill($("rules"), RULES, state.sort.rules, rules);
  const hosts = state.seen.hosts || [];
  $("hosts-count").textContent = hosts.length ? hosts.length + (hosts.length === 64 ? " fastest" : "") : "";
  $("hosts-none").hidden = hosts.length > 0;
  const shown = state.phone() && !state.allHosts ? 3 : state.allHosts ? 64 : 8;
  $("hosts-all").hidden = hosts.length <= shown && !state.allHosts;
  $("hosts-all").textContent = state.allHosts ? "Fewer hosts" : "All " + hosts.length + " hosts";
  if (unfolded("hosts")) fill($("hosts"), HOSTS(state), state.sort.hosts, hosts.slice(0, shown), (one) => (state.opened.has(one.address) ? flowsOf(state, one) : null));
  $("hosts").hidden = hosts.length === 0;

  const text = state.filter.toLowerCase();
  const matches = (one) => !text || (who(one) + " " + one.class + " " + (one.through || "") + " " + (one.rule || "") + " uid " + one.flow.uid).toLowerCase().includes(text);
  const all = state.seen.directions.flatMap((direction) => (direction.flows || []).map((one) => ({ ...one, way: direction.name })));
  const flows = all.filter(matches).sort((a, b) => b.rate_bps - a.rate_bps);
  if (unfolded("flows")) fill($("flows"), FLOWS(state), state.sort.flows, flows);
  const tables = state.seen.directions.map((direction) => direction.table);
  const remembered = tables.reduce((sum, table) => sum + table.flows, 0), evicted = tables.reduce((sum, table) => sum + table.evicted, 0);
  $("flows-count").textContent = tables.some((table) => table.counted) ? count(remembered) + " remembered" + (evicted ? ", " + count(evicted) + " fell out" : "") : "not counted: statistics are off";
  $("flows-none").hidden = flows.length > 0;
  $("flows-none").textContent = text && all.length ? "No flow has this in its line." : !all.length && remembered > 0 ? "Looking for flows…" : "No flow is seen at the moment.";
  $("flows").hidden = flows.length === 0;

  $("notes-count").textContent = state.notes.length ? String(state.notes.length) : "none";
  if (unfolded("notes")) {
    $("notes").replaceChildren(...[...state.notes].reverse().slice(0, 50).map((note) => make("li", { class: note.kind },
      make("span", { class: "mono", text: clock(note.time_s, false) }), " ", make("b", { text: note.kind === "change" ? "C" : "!" }), " " + note.text)));
  }
};

// The answer of each direction: how well each kind of traffic works, how full the line is, and by whom.
const KINDS = { calls: "Calls", games: "Games", live: "Calls or games", web: "Web", bulk: "Bulk", unknown: "Other" };
const BASIS = { "class-name": "by the name of the class", "code-point": "by its code point", behaviour: "by ports, sizes and rates of packets", nothing: "nothing tells what it is" };
const CEILINGS = { class: "at-most", host: "host-at-most", rule: "at-most of a rule", flow: "flow-at-most" };
const kind = (one) => {
  return make("li", { title: KINDS[one.traffic] + " " + BASIS[one.basis] },
    make("span", { text: KINDS[one.traffic] || "Other" }),
    one.grade ? make("b", { class: "grade " + one.grade, text: one.grade }) : make("span", { class: "muted", text: "not graded" }),
    make("span", {}, make("span", { class: "long", text: "waits " }), nanos(one.wait_ns), one.class && one.grade !== "good" ? " in " + one.class : "", ...(one.rival ? [": ", make("span", { class: "sub", text: rival(one.rival) })] : [])),
    make("span", { class: "long muted", text: rate(one.rate_bps) }));
};
export const lines = (state) => {
  $("lines").replaceChildren(...state.seen.directions.map((direction) => {
    const { used_bps, overhead_bps, carries_bps } = direction.line;
    const most = direction.limit_bps, answer = direction.answer;
    const facts = [
      carries_bps === undefined ? null : "the line carries " + rate(carries_bps),
      most === undefined ? "no rate is configured" : direction.follow ? "allowed " + rate(most) + ", follows the line: " + direction.follow.reason : "configured " + rate(most),
      "overhead takes " + rate(overhead_bps) + (used_bps > 0 ? " (" + percent(overhead_bps / used_bps) + ")" : ""),
    ];
    const word = !state.seen.in_force ? "not shaped" : !answer ? "…" : answer.down || answer.grade || (answer.held ? "at a ceiling" : answer.traffic ? "not graded" : "idle");
    const card = make("div", { class: "line" },
      make("p", { class: "fill" }, make("b", { text: way(direction.name) }), make("b", { class: "grade " + (state.seen.in_force && !answer?.down ? answer?.grade || "" : "poor"), text: word })));
    if (answer?.traffic) card.append(make("ul", { class: "kinds" }, ...answer.traffic.map(kind)));
    else if (answer && !answer.held) card.append(make("p", { class: "muted", text: "Nothing is sent." }));
    if (answer?.held) card.append(make("p", { class: "muted", text: "At a ceiling: " + answer.held.map((one) => one.class + " (" + CEILINGS[one.by] + ")").join(", ") }));
    const used = make("p", { class: "fill" }, make("span", { class: "big", text: rate(used_bps) }));
    if (most) used.append(make("span", { text: (used_bps >= 0.95 * most ? "full" : percent(used_bps / most) + " full") + (answer?.taker && used_bps >= most / 2 ? ", by " + answer.taker.host + " " + answer.taker.percent + " %" : "") }));
    card.append(used);
    if (most) {
      const filled = bar(used_bps, most, "of what is configured");
      filled.classList.toggle("full", used_bps >= 0.95 * most);
      card.append(filled);
    }
    card.append(make("p", { class: "muted", text: facts.filter(Boolean).join(" · ") }));
    return card;
  }));
};
