// The page: asks once a second, draws, and changes nothing. Text from the network stays text.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  const state = { span: 600, direction: null, paused: false, filter: "", sort: { classes: null, flows: ["rate", -1] }, seen: null, history: null, failures: 0 };

  // Quantities, three digits each.
  const scaled = (value, units, base) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    let n = 0;
    while (Math.abs(value) >= base && n < units.length - 1) { value /= base; n += 1; }
    const digits = n === 0 && Number.isInteger(value) ? 0 : value >= 100 ? 0 : value >= 10 ? 1 : 2;
    return value.toFixed(digits) + " " + units[n];
  };
  const rate = (bps) => scaled(bps, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"], 1000);
  const bytes = (n) => scaled(n, ["B", "kB", "MB", "GB", "TB"], 1000);
  const count = (n) => (n < 100000 ? String(n) : scaled(n, ["", "k", "M", "G"], 1000).trim());
  const time = (s) => (s === null || s === undefined ? "–" : s === 0 ? "0" : s < 1e-3 ? (s * 1e6).toFixed(0) + " µs" : s < 1 ? (s * 1e3).toFixed(s < 0.01 ? 2 : s < 0.1 ? 1 : 0) + " ms" : s.toFixed(2) + " s");
  const nanos = (ns) => time(ns / 1e9);
  const ago = (ns) => {
    const s = Math.round(ns / 1e9);
    return s < 60 ? s + " s" : s < 3600 ? Math.floor(s / 60) + " min" : s < 86400 ? Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min" : Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
  };
  const sum = (list) => list.reduce((all, one) => all + one.packets, 0);
  const reasons = (list) => list.map((one) => one.reason.replaceAll("_", " ") + " " + count(one.packets)).join(", ");

  // Elements without markup in strings.
  const make = (tag, options = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(options)) {
      if (key === "class") element.className = value;
      else if (key === "text") element.textContent = value;
      else if (value !== null && value !== undefined) element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  };

  // Colours belong to classes, in the order of the file.
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const colour = (n) => css("--tg-c" + ((n % 8) + 1));
  const dash = (n) => [[], [8, 4], [2, 3], [8, 3, 2, 3]][Math.floor(n / 8) % 4];
  const order = () => {
    const direction = current();
    return direction ? direction.classes.map((one) => one.name) : [];
  };
  const current = () => {
    if (!state.seen) return null;
    return state.seen.directions.find((one) => one.name === state.direction) || state.seen.directions[0] || null;
  };

  // Charts.
  const charts = {};
  const KINDS = {
    "chart-rate": { of: "rate_bps", show: rate },
    "chart-delay": { of: "wait_p99_s", show: time },
    "chart-queue": { of: "queue_bytes", show: bytes },
    "chart-drops": { of: null, show: (n) => (n === null || n === undefined ? "–" : scaled(n, ["/s", "k/s", "M/s"], 1000)) },
  };
  const columns = (kind) => {
    const history = state.history;
    const mine = history.series.filter((one) => one.direction === state.direction);
    if (kind.of) {
      const names = order();
      const of = (name) => mine.find((one) => one.class === name);
      const shown = names.filter(of);
      return { names: shown, numbers: shown.map((name) => names.indexOf(name)), values: shown.map((name) => of(name)[kind.of]) };
    }
    const total = (key) => history.times.map((_, at) => {
      let all = null;
      for (const one of mine) if (one[key][at] !== null && one[key][at] !== undefined) all = (all || 0) + one[key][at] / history.step;
      return all;
    });
    return { names: ["drops", "marks"], numbers: [1, 0], values: [total("drops"), total("marks")] };
  };
  // Ticks in the time of this place, as short as their distance allows.
  const clock = (at, short) => new Date(at * 1000).toLocaleTimeString([], short ? { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } : { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const tick = (kind, value) => (value === 0 ? "0" : kind.show(value).replace(/(\.\d*?)0+(?= )/, "$1").replace(/\.(?= )/, ""));
  // Without a pointer on the chart its legend shows the newest values.
  const newest = (plot) => {
    if (plot.cursor.idx === null || plot.cursor.idx === undefined || plot.cursor.left < 0) plot.setLegend({ idx: plot.data[0].length - 1 }, false);
  };
  const draw = (anew) => {
    if (!state.history) return;
    for (const [id, kind] of Object.entries(KINDS)) {
      const { names, numbers, values } = columns(kind);
      const data = [state.history.times, ...values];
      const shape = JSON.stringify([names, state.history.step]);
      const held = charts[id];
      if (held && held.shape === shape && !anew) { held.plot.setData(data); newest(held.plot); continue; }
      if (held) held.plot.destroy();
      const axis = { stroke: css("--tg-muted"), grid: { stroke: css("--tg-grid"), width: 1 }, ticks: { stroke: css("--tg-grid"), width: 1 } };
      const box = $(id);
      const plot = new uPlot({
        width: Math.max(box.clientWidth, 200), height: 200,
        cursor: { sync: { key: "tidegate" }, drag: { x: false, y: false } },
        legend: { live: true },
        scales: { x: { time: true, range: (_, low, high) => [Math.max(high - state.span, Math.min(low, high - state.span / 10)), high] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
        axes: [
          { ...axis, space: 70, size: 32, values: (_, ticks, __, ___, distance) => ticks.map((at) => clock(at, distance >= 60)) },
          { ...axis, size: 82, values: (_, ticks) => ticks.map((value) => tick(kind, value)) },
        ],
        series: [
          { label: "at", value: (_, at) => (at === null || at === undefined ? "–" : clock(at, false)) },
          ...names.map((name, n) => ({ label: name, stroke: colour(numbers[n]), width: 1.6, dash: dash(numbers[n]), points: { show: false }, value: (_, value) => kind.show(value) })),
        ],
      }, data, box);
      newest(plot);
      charts[id] = { plot, shape };
    }
  };
  new ResizeObserver(() => {
    for (const [id, held] of Object.entries(charts)) {
      const width = $(id).clientWidth;
      if (width > 0 && width !== held.plot.width) held.plot.setSize({ width, height: 200 });
    }
  }).observe(document.querySelector(".charts"));

  // History: whole at first, then only what is new.
  const KEYS = ["rate_bps", "borrowed_bps", "queue_bytes", "wait_p50_s", "wait_p99_s", "drops", "marks", "missed_s"];
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

  // Tables.
  const promise = (one) => {
    const kept = one.promise_kept_seconds, missed = one.promise_missed_seconds;
    if (kept + missed === 0) return make("span", { class: "muted", text: "–", title: "it never asked for all of it" });
    if (missed === 0) return make("span", { class: "good", text: "kept", title: count(kept) + " s kept, none missed" });
    return make("span", { class: "bad", text: count(missed) + " s missed", title: count(kept) + " s kept" });
  };
  const dropped = (one) => {
    const all = sum(one.dropped);
    return make("span", { text: count(all), title: all ? reasons(one.dropped) : null });
  };
  const CLASSES = [
    { name: "class", text: true, key: (one) => one.name, cell: (one) => {
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = colour(order().indexOf(one.name));
      return [swatch, one.name];
    } },
    { name: "rate", key: (one) => one.rate_bps, cell: (one) => [rate(one.rate_bps)] },
    { name: "promised", key: (one) => one.promised_bps ?? -1, cell: (one) => {
      if (one.promised_bps === undefined) return ["–"];
      const meter = make("meter", { min: 0, max: one.promised_bps, value: Math.min(one.rate_bps, one.promised_bps), "aria-label": "of what is promised" });
      return [rate(one.promised_bps), meter];
    } },
    { name: "borrowed", key: (one) => one.borrowed_bps, cell: (one) => [one.borrowed_bps ? rate(one.borrowed_bps) : "–"] },
    { name: "promise", key: (one) => one.promise_missed_seconds, cell: (one) => [promise(one)] },
    { name: "flows", key: (one) => one.flows ?? -1, cell: (one) => [one.flows === undefined ? "–" : count(one.flows)] },
    { name: "queue", key: (one) => one.queue_bytes, cell: (one) => [bytes(one.queue_bytes)] },
    { name: "delay p50", key: (one) => one.wait_p50_ns, cell: (one) => [nanos(one.wait_p50_ns)] },
    { name: "p99", key: (one) => one.wait_p99_ns, cell: (one) => [nanos(one.wait_p99_ns)] },
    { name: "jitter", key: (one) => one.jitter_ns, cell: (one) => [nanos(one.jitter_ns)] },
    { name: "drops", key: (one) => sum(one.dropped), cell: (one) => [dropped(one)] },
    { name: "marks", key: (one) => one.marked_packets, cell: (one) => [count(one.marked_packets)] },
    { name: "sent", key: (one) => one.sent_bytes, cell: (one) => [bytes(one.sent_bytes)] },
  ];
  const PROTOCOLS = { 1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6", 132: "sctp" };
  const end = (address, port) => (address === undefined ? "?" : port === undefined ? address : address.includes(":") ? "[" + address + "]:" + port : address + ":" + port);
  const who = (flow) => {
    const one = flow.flow;
    if (one.protocol === undefined) return "flow " + one.key;
    return (PROTOCOLS[one.protocol] || "protocol " + one.protocol) + " " + end(one.source, one.source_port) + " › " + end(one.destination, one.destination_port);
  };
  const FLOWS = [
    { name: "flow", text: true, wide: true, key: who, cell: (one) => {
      const more = [one.rule ? "rule " + one.rule : "no rule", one.flow.uid === undefined ? null : "uid " + one.flow.uid, one.through ? "displaced to " + one.through : null, one.preferred ? "preferred " + one.preferred + "×" : null];
      return [who(one), make("span", { class: "sub", text: more.filter(Boolean).join(" · ") })];
    } },
    { name: "class", key: (one) => one.class, cell: (one) => [one.class] },
    { name: "rate", key: (one) => one.rate_bps, cell: (one) => [rate(one.rate_bps)] },
    { name: "share", key: (one) => one.share_bps ?? -1, cell: (one) => [one.share_bps === undefined ? "–" : rate(one.share_bps)] },
    { name: "minimum", key: (one) => one.minimum_bps ?? -1, cell: (one) => [one.minimum_bps === undefined ? "–" : rate(one.minimum_bps) + (one.granted ? "" : " (waits)")] },
    { name: "promise", key: (one) => one.promise_missed_seconds, cell: (one) => [one.minimum_bps === undefined ? "–" : promise(one)] },
    { name: "queue", key: (one) => one.queue_bytes, cell: (one) => [bytes(one.queue_bytes)] },
    { name: "delay p50", key: (one) => one.wait_p50_ns, cell: (one) => [nanos(one.wait_p50_ns)] },
    { name: "p99", key: (one) => one.wait_p99_ns, cell: (one) => [nanos(one.wait_p99_ns)] },
    { name: "jitter", key: (one) => one.jitter_ns, cell: (one) => [nanos(one.jitter_ns)] },
    { name: "drops", key: (one) => sum(one.dropped), cell: (one) => [dropped(one)] },
    { name: "marks", key: (one) => one.marked_packets, cell: (one) => [count(one.marked_packets)] },
    { name: "sent", key: (one) => one.sent_bytes, cell: (one) => [bytes(one.sent_bytes)] },
  ];
  const head = (table, list, which) => {
    const row = table.tHead.rows[0];
    for (const column of list) {
      const button = make("button", { type: "button", text: column.name });
      const cell = make("th", { scope: "col", class: column.text ? "text" : "" }, button);
      button.addEventListener("click", () => {
        const old = state.sort[which];
        const first = column.text ? 1 : -1;
        state.sort[which] = old && old[0] === column.name ? [column.name, -old[1]] : [column.name, first];
        tables();
      });
      row.append(cell);
    }
  };
  const fill = (table, list, which, rows) => {
    const sort = state.sort[which];
    [...table.tHead.rows[0].cells].forEach((cell, n) => {
      if (sort && sort[0] === list[n].name) cell.setAttribute("aria-sort", sort[1] > 0 ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    });
    const column = sort && list.find((one) => one.name === sort[0]);
    if (column) {
      const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
      rows = [...rows].sort((a, b) => sort[1] * compare(column.key(a), column.key(b)));
    }
    table.tBodies[0].replaceChildren(...rows.map((one) => make("tr", {}, ...list.map((column) => {
      const content = column.cell(one);
      const classes = [column.text ? "text" : "", column.wide ? "flow" : "", content[0] === "–" ? "empty" : ""].filter(Boolean).join(" ");
      return make("td", { class: classes, "data-label": column.name }, ...content);
    }))));
  };
  const tables = () => {
    const direction = current();
    if (!direction) return;
    fill($("classes"), CLASSES, "classes", direction.classes);
    const text = state.filter.toLowerCase();
    const matches = (one) => !text || (who(one) + " " + one.class + " " + (one.through || "") + " " + (one.rule || "") + " uid " + one.flow.uid).toLowerCase().includes(text);
    const flows = (direction.flows || []).filter(matches);
    fill($("flows"), FLOWS, "flows", flows);
    const table = direction.table;
    $("flows-count").textContent = table.counted ? count(table.flows) + " remembered" + (table.evicted ? ", " + count(table.evicted) + " fell out" : "") : "not counted: statistics are off";
    $("flows-none").hidden = flows.length > 0;
    $("flows-none").textContent = text && direction.flows ? "No flow has this in its line." : !direction.flows && table.flows > 0 ? "Looking for flows…" : "No flow is seen at the moment.";
    $("flows").hidden = flows.length === 0;
  };

  const heading = () => {
    const seen = state.seen;
    $("interface").textContent = seen.interface;
    document.title = seen.interface ? seen.interface + " – Tidegate" : "Tidegate";
    const badge = $("state");
    badge.textContent = state.failures ? "no answer" : seen.in_force ? "in force" : "NOT in force";
    badge.className = "badge " + (state.failures || !seen.in_force ? "bad" : "good");
    $("uptime").textContent = "up " + ago(seen.uptime_ns);
    $("trouble").hidden = !seen.trouble;
    $("trouble").textContent = seen.trouble ? "Traffic passes unshaped: " + seen.trouble : "";
    const names = seen.directions.map((one) => one.name);
    if (!names.includes(state.direction)) state.direction = names[0] || null;
    const box = $("directions");
    box.hidden = names.length < 2;
    if (box.childElementCount !== names.length) {
      box.replaceChildren(...names.map((name) => {
        const button = make("button", { type: "button", text: name === "up" ? "Upload" : name === "down" ? "Download" : name });
        button.addEventListener("click", () => { state.direction = name; heading(); draw(true); tables(); });
        return button;
      }));
    }
    [...box.children].forEach((button, n) => button.setAttribute("aria-pressed", String(names[n] === state.direction)));
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
        draw(whole);
        tables();
      }
    } catch (error) {
      state.failures += 1;
      const badge = $("state");
      badge.textContent = "no answer";
      badge.className = "badge bad";
    } finally {
      busy = false;
      root.dataset.ready = "yes";
    }
    if (span !== state.span) refresh(true);
  };

  head($("classes"), CLASSES, "classes");
  head($("flows"), FLOWS, "flows");
  $("filter").addEventListener("input", (event) => { state.filter = event.target.value; tables(); });
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
  const theme = (name) => {
    root.dataset.theme = name;
    relabel();
    draw(true);
    tables();
  };
  $("theme").addEventListener("click", () => {
    const name = dark() ? "light" : "dark";
    try { localStorage.setItem("tidegate-theme", name); } catch { /* a browser that keeps nothing */ }
    theme(name);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { relabel(); draw(true); tables(); });
  let kept = null;
  try { kept = localStorage.getItem("tidegate-theme"); } catch { /* a browser that keeps nothing */ }
  // For a link: #dark, #light, #7200, #filter=text.
  for (const word of location.hash.slice(1).split("&")) {
    if (word === "dark" || word === "light") kept = word;
    if (["600", "7200", "86400"].includes(word)) state.span = Number(word);
    if (word.startsWith("filter=")) { state.filter = decodeURIComponent(word.slice(7)); $("filter").value = state.filter; }
  }
  for (const button of $("spans").children) button.setAttribute("aria-pressed", String(Number(button.dataset.span) === state.span));
  if (kept) root.dataset.theme = kept;
  relabel();
  refresh(true);
  setInterval(() => { if (!state.paused && !document.hidden) refresh(false); }, 1000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !state.paused) refresh(false); });
})();
