// The page: asks once a second, draws, and changes nothing. Text from the network stays text.
import { $, ago, make } from "./units.js";
import { draw } from "./charts.js";
import { heads, lines, tables } from "./tables.js";

const root = document.documentElement;
const narrow = matchMedia("(max-width: 640px)");
const state = {
  span: 600, more: false, paused: false, filter: "", sort: { classes: null, hosts: null, rules: null, flows: ["rate", -1] }, seen: null, history: null, notes: [],
  failures: 0, opened: new Set(), allHosts: false,
  // The classes of all directions: the number of each is its colour.
  order: () => [...new Set((state.seen?.directions || []).flatMap((direction) => direction.classes.map((one) => one.name)))],
  phone: () => narrow.matches,
};
const show = (anew) => { draw(state, anew); tables(state); };

// History: whole at first, then only what is new.
const KEYS = ["rate_bps", "borrowed_bps", "queue_bytes", "wait_p50_s", "wait_p99_s", "drops", "marks", "kept_s", "missed_s", "waits"];
const merge = (old, update) => {
  if (update.series.length === 0) return old;
  const step = update.step_s;
  const length = Math.max(...update.series.map((one) => one.rate_bps.length));
  const last = update.from_s + (length - 1) * step;
  const keep = old && old.step === step && update.from_s <= old.times[old.times.length - 1] + step;
  const from = Math.max(keep ? old.times[0] : update.from_s, last - state.span + step);
  const times = [];
  for (let at = from; at <= last; at += step) times.push(at);
  const series = update.series.map((one) => {
    const before = keep && old.series.find((other) => other.direction === one.direction && other.class === one.class);
    const merged = { direction: one.direction, class: one.class };
    for (const key of KEYS) {
      merged[key] = times.map((at) => {
        if (at >= update.from_s) return one[key][(at - update.from_s) / step] ?? null;
        return before ? before[key][(at - old.times[0]) / step] ?? null : null;
      });
    }
    return merged;
  });
  return { step, times, series };
};
const remember = (notes, whole) => {
  const known = whole ? [] : state.notes;
  const is = (one) => (other) => other.time_s === one.time_s && other.text === one.text;
  state.notes = [...known, ...notes.filter((note) => !known.some(is(note)))].slice(-256);
};

const heading = () => {
  const seen = state.seen;
  $("interface").textContent = seen.interface;
  document.title = seen.interface ? seen.interface + " – Tidegate" : "Tidegate";
  badge(state.failures ? "no answer" : seen.in_force ? "in force" : "NOT in force", !state.failures && seen.in_force);
  $("uptime").textContent = "up " + ago(seen.uptime_ns);
  $("trouble").hidden = !seen.trouble;
  $("trouble").textContent = seen.trouble ? "Traffic passes unshaped: " + seen.trouble : "";
  const classes = ["", ...state.order()], choice = $("heat-class");
  if ([...choice.options].map((one) => one.value).join("\n") !== classes.join("\n")) {
    choice.replaceChildren(...classes.map((name) => make("option", { value: name, text: name || "all" })));
  }
  lines(state);
};
// Set only when it changes, so that it is read aloud once.
const badge = (text, good) => {
  const element = $("state");
  if (element.textContent !== text) element.textContent = text;
  element.className = "badge " + (good ? "good" : "bad");
};

const get = async (path) => {
  const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(5000) });
  if (!response.ok) throw new Error(String(response.status));
  return response.json();
};
let busy = false;
const refresh = async (whole) => {
  if (busy) return;
  busy = true;
  const span = state.span;
  try {
    const old = whole ? null : state.history;
    const since = old ? old.times[old.times.length - 1] : 0;
    const [seen, history] = await Promise.all([get("api/now"), get("api/history?span=" + span + "&since=" + since)]);
    if (span === state.span) {
      state.failures = 0;
      state.seen = seen;
      heading();
      state.history = merge(old, history) || state.history;
      remember(history.notes, whole);
      show(whole);
    }
  } catch (error) {
    state.failures += 1;
    root.dataset.error = String(error);
    badge("no answer", false);
  } finally {
    busy = false;
    root.dataset.ready = "yes";
  }
  if (span !== state.span) refresh(true);
};

// On a phone only what is asked for most is unfolded; elsewhere everything is.
for (const fold of document.querySelectorAll("details.fold.wide")) fold.open = !state.phone();
for (const fold of document.querySelectorAll("details.fold, details.values")) {
  fold.addEventListener("toggle", () => { if (state.seen) show(false); });
}
heads(state, () => tables(state));
$("more").addEventListener("click", () => {
  state.more = !state.more;
  $("more").setAttribute("aria-pressed", String(state.more));
  tables(state);
});
$("heat-class").addEventListener("change", () => draw(state, true));
$("hosts").addEventListener("click", (event) => {
  const host = event.target.dataset.host;
  if (!host) return;
  if (!state.opened.delete(host)) state.opened.add(host);
  tables(state);
});
$("hosts-all").addEventListener("click", () => { state.allHosts = !state.allHosts; tables(state); });
$("filter").addEventListener("input", (event) => { state.filter = event.target.value; tables(state); });
$("spans").addEventListener("click", (event) => {
  const span = Number(event.target.dataset.span);
  if (!span || span === state.span) return;
  state.span = span;
  for (const button of $("spans").children) button.setAttribute("aria-pressed", String(Number(button.dataset.span) === span));
  refresh(true);
});
$("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  $("pause").setAttribute("aria-pressed", String(state.paused));
  $("pause").textContent = state.paused ? "Paused" : "Pause";
  if (!state.paused) refresh(true);
});
const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
const relabel = () => { $("theme").textContent = dark() ? "Light" : "Dark"; };
const themed = () => { relabel(); if (state.seen) show(true); };
$("theme").addEventListener("click", () => {
  const name = dark() ? "light" : "dark";
  try { localStorage.setItem("tidegate-theme", name); } catch { /* a browser that keeps nothing */ }
  root.dataset.theme = name;
  themed();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
let kept = null;
try { kept = localStorage.getItem("tidegate-theme"); } catch { /* a browser that keeps nothing */ }
// For a link: #dark, #light, #7200, #unfolded, #filter=text.
for (const word of location.hash.slice(1).split("&")) {
  if (word === "dark" || word === "light") kept = word;
  if (["600", "7200", "86400"].includes(word)) state.span = Number(word);
  if (word === "unfolded") for (const fold of document.querySelectorAll("details")) fold.open = true;
  if (word.startsWith("filter=")) {
    state.filter = decodeURIComponent(word.slice(7));
    $("filter").value = state.filter;
    $("flows").closest("details").open = true;
  }
}
for (const button of $("spans").children) button.setAttribute("aria-pressed", String(Number(button.dataset.span) === state.span));
if (kept) root.dataset.theme = kept;
relabel();
refresh(true);
setInterval(() => { if (!state.paused && !document.hidden) refresh(false); }, 1000);
document.addEventListener("visibilitychange", () => { if (!document.hidden && !state.paused) refresh(false); });
