// The charts: what each draws, the lines and marks on it, and the same values as text and as a table.
import { $, rate, bytes, each, time, percent, clock, make, css, colour, dash, count, way } from "./units.js";

// The name of the series of a rate that follows the line.
const LINE = "";
const LEFT = 82;
const HEIGHT = 200;
// Upper bounds of the ranges of waits: 16.384 µs, and twice as much each. The first begins at half of that.
const RANGES = 21;
// The power of ten at or below a value. From a logarithmic axis that begins just below one, as at 97 µs, uPlot makes labels without
// end: the page would stand still.
const decade = (value) => Number("1e" + Math.floor(Math.log10(value)));
const bound = (n) => 16384e-9 * 2 ** n;
const decode = (text) => {
  const found = new Array(RANGES).fill(0);
  if (!text) return found;
  const byte = (at) => parseInt(text.slice(2 * at, 2 * at + 2), 16);
  for (let at = 1; 2 * at < text.length; at += 1) {
    const code = byte(at);
    found[byte(0) + at - 1] = code === 0 ? 0 : 2 ** ((code - 1) / 8);
  }
  return found;
};

// The charts that are drawn: of each kind one for each direction, beside each other.
const held = {};
const KINDS = {
  "chart-rate": { of: "rate_bps", show: rate, what: "Rate" },
  "chart-delay": { of: "wait_p99_s", show: time, what: "Delay" },
  "chart-heat": { heat: true, show: time, what: "Waits" },
  "chart-queue": { of: "queue_bytes", show: bytes, what: "Queue" },
  "chart-drops": { show: each, what: "Drops and marks" },
  "chart-promises": { promises: true, show: (n) => count(Math.round(n)) + " s", what: "Promises" },
};

// The series of a chart: their names, the numbers of their colours where they are classes, their values.
const columns = (kind, state, direction, names) => {
  const history = state.history;
  const mine = history.series.filter((one) => one.direction === direction.name && one.class !== LINE);
  const of = (name) => mine.find((one) => one.class === name);
  if (kind.heat) return { names: ["p99"], numbers: [0], values: [longest(mine.filter(chosen), history.times.length)] };
  if (kind.of || kind.promises) {
    const shown = names.filter(of);
    const values = (name) => (kind.of ? of(name)[kind.of] : of(name).missed_s);
    return { names: shown, numbers: shown.map((name) => names.indexOf(name)), values: shown.map(values) };
  }
  const total = (key) => history.times.map((_, at) => {
    let all = null;
    for (const one of mine) if (one[key][at] !== null && one[key][at] !== undefined) all = (all || 0) + one[key][at] / history.step;
    return all;
  });
  return { names: ["drops", "marks"], numbers: [null, null], values: [total("drops"), total("marks")] };
};
// Whether waits of a class are shown.
const chosen = (one) => ["", one.class].includes($("heat-class").value);
const longest = (series, length) => Array.from({ length }, (_, at) => {
  const all = series.map((one) => one.wait_p99_s[at]).filter((value) => value !== null && value !== undefined);
  return all.length ? Math.max(...all, 8e-6) : null;
});

// Packets of the chosen class, or of all, by step and range.
const waits = (state, direction) => {
  const mine = state.history.series.filter((one) => one.direction === direction.name && one.class !== LINE && chosen(one));
  return state.history.times.map((_, at) => {
    const all = new Array(RANGES).fill(0);
    for (const one of mine) decode(one.waits[at]).forEach((packets, n) => { all[n] += packets; });
    return all;
  });
};
const heat = (plot, state, direction) => {
  const table = waits(state, direction);
  const most = Math.max(1, ...table.flat());
  const { ctx } = plot, { left, top, width, height } = plot.bbox, step = state.history.step;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.fillStyle = css("--tg-accent");
  table.forEach((row, at) => {
    const x = plot.valToPos(plot.data[0][at] - step / 2, "x", true), end = plot.valToPos(plot.data[0][at] + step / 2, "x", true);
    row.forEach((packets, n) => {
      if (packets === 0) return;
      // A single packet is seen; the most is full.
      ctx.globalAlpha = 0.18 + 0.82 * (most > 1 ? Math.log(1 + packets) / Math.log(1 + most) : 1);
      const low = plot.valToPos(bound(n - 1), "y", true), high = plot.valToPos(bound(n), "y", true);
      ctx.fillRect(x, high, Math.max(end - x, 1) + 0.5, low - high);
    });
  });
  ctx.restore();
};

// Rows of classes: kept is a thin line, missed a full bar, so that they differ without colour too.
const promises = (plot, state, direction, names) => {
  const { ctx } = plot, { left, top, width, height } = plot.bbox, step = state.history.step;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  names.forEach((name, row) => {
    const one = state.history.series.find((other) => other.direction === direction.name && other.class === name);
    plot.data[0].forEach((at, n) => {
      const x = plot.valToPos(at - step / 2, "x", true), end = plot.valToPos(at + step / 2, "x", true);
      const y = (part) => plot.valToPos(names.length - row - part, "y", true);
      const bar = (from, to, name) => { ctx.fillStyle = css(name); ctx.fillRect(x, y(from), Math.max(end - x, 1) + 0.5, y(to) - y(from)); };
      if (one.missed_s[n] > 0) bar(0.1, 0.9, "--tg-bad");
      else if (one.kept_s[n] > 0) bar(0.42, 0.58, "--tg-good");
    });
  });
  ctx.restore();
};

const line = (ctx, box, from, to, style, dashes, width) => {
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.left, box.top, box.width, box.height);
  ctx.clip();
  ctx.strokeStyle = style;
  ctx.lineWidth = width;
  ctx.setLineDash(dashes.map((n) => n * devicePixelRatio));
  ctx.beginPath();
  ctx.moveTo(...from);
  ctx.lineTo(...to);
  ctx.stroke();
  ctx.restore();
};
// What a rate that follows the line was in the past, as steps; nothing where it is constant.
const followed = (state, direction) => state.history.series.find((one) => one.direction === direction.name && one.class === LINE);
const steps = (plot, values, style, text) => {
  const { ctx, bbox } = plot, [times] = plot.data;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.strokeStyle = ctx.fillStyle = style;
  ctx.lineWidth = 1.4 * devicePixelRatio;
  ctx.setLineDash([7, 4].map((n) => n * devicePixelRatio));
  ctx.beginPath();
  let before = null, last = null;
  values.forEach((value, at) => {
    const known = value !== null && value !== undefined;
    const x = plot.valToPos(times[at], "x", true), y = known ? plot.valToPos(value, "y", true) : null;
    if (known && before !== null) { ctx.lineTo(x, before); ctx.lineTo(x, y); } else if (known) ctx.moveTo(x, y);
    before = y;
    if (known) last = [x, y];
  });
  ctx.stroke();
  if (last) {
    ctx.font = 11 * devicePixelRatio + "px " + css("--tg-sans");
    ctx.textAlign = "left";
    ctx.textBaseline = "bottom";
    ctx.fillText(text, bbox.left + 6 * devicePixelRatio, last[1] - 3 * devicePixelRatio);
  }
  ctx.restore();
};
// The configured rates: of the line, and what classes are promised.
const configured = (plot, state, direction, names) => {
  const { ctx, bbox } = plot, line_of = followed(state, direction);
  const at = (bps, style, dashes, width, text) => {
    const y = plot.valToPos(bps, "y", true);
    line(ctx, bbox, [bbox.left, y], [bbox.left + bbox.width, y], style, dashes, width * devicePixelRatio);
    if (!text) return;
    ctx.save();
    ctx.font = 11 * devicePixelRatio + "px " + css("--tg-sans");
    ctx.fillStyle = style;
    ctx.textAlign = "left";
    ctx.textBaseline = "bottom";
    ctx.fillText(text, bbox.left + 6 * devicePixelRatio, y - 2 * devicePixelRatio);
    ctx.restore();
  };
  for (const one of direction.classes) {
    if (one.promised_bps !== undefined) at(one.promised_bps, colour(names.indexOf(one.name)), [2, 4], 1);
  }
  if (line_of) steps(plot, line_of.rate_bps, css("--tg-ink"), "allowed " + rate(direction.limit_bps) + ", follows the line");
  else if (direction.limit_bps !== undefined) at(direction.limit_bps, css("--tg-ink"), [7, 4], 1.2, "configured " + rate(direction.limit_bps));
};
// Changes and faults: a line, with a letter of its kind at the top.
const marks = (plot, state) => {
  const { ctx, bbox } = plot;
  for (const note of state.notes) {
    const x = plot.valToPos(note.time_s, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    const style = css(note.kind === "change" ? "--tg-accent" : "--tg-bad");
    line(ctx, bbox, [x, bbox.top], [x, bbox.top + bbox.height], style, [3, 3], devicePixelRatio);
    ctx.save();
    ctx.font = "bold " + 11 * devicePixelRatio + "px " + css("--tg-sans");
    ctx.fillStyle = style;
    ctx.textAlign = "center";
    ctx.textBaseline = "top";
    ctx.fillText(note.kind === "change" ? "C" : "!", Math.min(Math.max(x, bbox.left + 6), bbox.left + bbox.width - 6 * devicePixelRatio), bbox.top);
    ctx.restore();
  }
};

const tick = (kind, value) => (value === 0 ? "0" : kind.show(value).replace(/(\.\d*?)0+(?= )/, "$1").replace(/\.(?= )/, ""));
// Without a pointer on the chart its legend shows the newest values.
const newest = (plot) => {
  if (plot.cursor.idx === null || plot.cursor.idx === undefined || plot.cursor.left < 0) plot.setLegend({ idx: plot.data[0].length - 1 }, false);
};

const options = (kind, state, direction, order, { names, numbers }, width) => {
  const axis = { stroke: css("--tg-muted"), grid: { stroke: css("--tg-grid"), width: 1 }, ticks: { stroke: css("--tg-grid"), width: 1 } };
  // Its limit may have changed since the chart was made.
  const now = () => state.seen.directions.find((one) => one.name === direction.name) || direction;
  const y = kind.heat
    ? { distr: 3, range: (plot) => {
      const used = waits(state, direction).reduce((all, row) => row.map((packets, n) => packets + all[n]), new Array(RANGES).fill(0));
      const last = used.findLastIndex((packets) => packets > 0), first = used.findIndex((packets) => packets > 0);
      return last < 0 ? [1e-5, 1e-1] : [bound(Math.min(first, 5) - 1), Math.max(bound(last), bound(9))];
    } }
    : kind.promises
      ? { range: () => [0, Math.max(names.length, 1)] }
      // A logarithmic axis: the waits of calls are read beside those of bulk, which are a hundred times as long.
      : kind.of === "wait_p99_s" ? { distr: 3, range: (_, low, high) => [decade(Math.min(1e-3, Math.max(low || 1e-3, 1e-5))), Math.max((high || 0) * 1.3, 1e-1)] }
      : { range: (_, __, high) => {
        const most = Math.max(high || 0, kind.of === "rate_bps" ? now().limit_bps || 0 : 0);
        // Above the configured rate is its name, and above that the letters of changes.
        return [0, most > 0 ? most * (kind.of === "rate_bps" ? 1.25 : 1.1) : 1];
      } };
  const labels = kind.promises
    ? { splits: () => names.map((_, n) => names.length - n - 0.5), values: () => names.map((name) => (name.length > 11 ? name.slice(0, 10) + "…" : name)), grid: { show: false } }
    : { values: (_, ticks) => ticks.map((value) => (value === null ? "" : tick(kind, value))) };
  return {
    width, height: kind.promises ? Math.max(60, 34 + 22 * names.length) : HEIGHT,
    cursor: { sync: { key: "tidegate" }, drag: { x: false, y: false } },
    legend: { live: true },
    scales: { x: { time: true, range: (_, low, high) => [Math.max(high - state.span, Math.min(low, high - state.span / 10)), high] }, y },
    axes: [
      { ...axis, space: 70, size: 32, values: (_, ticks, __, ___, distance) => ticks.map((at) => clock(at, distance >= 60)) },
      { ...axis, size: LEFT, ...labels },
    ],
    hooks: {
      drawAxes: [(plot) => { if (kind.heat) heat(plot, state, direction); if (kind.promises) promises(plot, state, direction, names); }],
      // Not before the first drawing, which empties it; and not empty without a pointer.
      ready: [newest], setCursor: [newest],
      draw: [(plot) => {
        const line_of = followed(state, direction);
        if (kind.of === "rate_bps") configured(plot, state, now(), order);
        if (kind.of === "wait_p99_s" && line_of) steps(plot, line_of.wait_p99_s.map((value) => (value ? Math.max(value, 1e-5) : null)), css("--tg-ink"), "the queue of the line, beyond the shaper");
        marks(plot, state);
      }],
    },
    series: [
      { label: "at", value: (_, at) => (at === null || at === undefined ? "–" : clock(at, false)) },
      ...names.map((name, n) => ({
        label: kind.promises ? name + " missed" : name, stroke: kind.heat ? css("--tg-ink") : numbers[n] === null ? css(n ? "--tg-muted" : "--tg-bad") : colour(numbers[n]), width: kind.promises ? 0 : kind.heat ? 1 : 1.6, dash: dash(numbers[n] ?? 0),
        points: { show: false }, paths: kind.promises ? () => null : undefined, value: (_, value) => (value === null || value === undefined ? "–" : kind.show(value)),
      })),
    ],
  };
};

// A place for each direction in each figure.
const place = (state) => {
  const names = state.seen.directions.map((one) => one.name), shape = names.join("\n");
  const figures = $("charts");
  if (figures.dataset.shape === shape) return;
  figures.dataset.shape = shape;
  figures.classList.toggle("both", names.length > 1);
  for (const [id, { plot }] of Object.entries(held)) { plot.destroy(); delete held[id]; }
  for (const [kind, { promises: short }] of Object.entries(KINDS)) {
    $(kind + "-sides").replaceChildren(...names.map((name, n) => {
      const box = make("div", { id: n ? kind + "-" + n : kind, class: short ? "chart short" : "chart", role: "img", tabindex: 0, "data-kind": kind });
      box.addEventListener("keydown", (event) => read(box.id, event));
      const table = make("details", { class: "values" }, make("summary", { text: "As a table" }), make("div", { class: "scroll" }));
      table.addEventListener("toggle", () => draw(state, false));
      return make("div", { class: "side" }, ...(names.length > 1 ? [make("h3", { text: way(name) })] : []), box, table);
    }));
  }
  resized.disconnect();
  resized.observe(figures);
};

// Draws every chart that is unfolded; anew where its series or the colours changed.
export const draw = (state, anew) => {
  if (!state.history || !state.seen) return;
  place(state);
  for (const kind of Object.keys(KINDS)) state.seen.directions.forEach((direction, n) => drawOne(n ? kind + "-" + n : kind, KINDS[kind], state, direction, anew));
};
const drawOne = (id, kind, state, direction, anew) => {
  const order = state.order();
  const box = $(id);
  if (box.clientWidth === 0) return;
  const found = columns(kind, state, direction, order);
  // All of it, so that a chart without a series still has its times.
  const data = [state.history.times, ...found.values];
  const shape = JSON.stringify([found.names, state.history.step]);
  const old = held[id];
  if (old && old.shape === shape && !anew) {
    old.plot.setData(data);
    newest(old.plot);
  } else {
    if (old) old.plot.destroy();
    const plot = new uPlot(options(kind, state, direction, order, found, Math.max(box.clientWidth, 200)), data, box);
    held[id] = { plot, shape };
  }
  describe(id, kind, state, direction, found);
};

// The chart in words, and its values as a table.
const summary = (values) => {
  const some = values.filter((value) => value !== null && value !== undefined);
  const last = values.findLast((value) => value !== null && value !== undefined);
  return some.length === 0 ? null : { last, mean: some.reduce((a, b) => a + b, 0) / some.length, most: Math.max(...some) };
};
const describe = (id, kind, state, direction, { names, values }) => {
  const all = names.map((name, n) => [name, summary(values[n])]).filter(([, found]) => found);
  const total = (of) => values[of].reduce((sum, value) => sum + (value || 0), 0);
  const text = kind.promises
    ? names.map((name, n) => name + " missed for " + kind.show(total(n)))
    : all.map(([name, { last, most }]) => name + " " + kind.show(last) + " now, at most " + kind.show(most));
  $(id).setAttribute("aria-label", kind.what + ", " + way(direction.name) + ", the last " + spanText(state.span) + ": " + (text.join("; ") || "nothing yet") + ". Left and right arrows read values.");
  const values_of = $(id).parentElement.querySelector("details.values");
  if (!values_of.open) return;
  const table = (heads, rows) => make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((head, n) => make("th", { scope: "col", class: n ? "" : "text", text: head })))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell, n) => (n ? make("td", { text: cell }) : make("th", { scope: "row", class: "text", text: cell })))))));
  let content;
  if (kind.heat) {
    const packets = waits(state, direction).reduce((sums, row) => row.map((value, n) => value + sums[n]), new Array(RANGES).fill(0));
    const whole = packets.reduce((a, b) => a + b, 0) || 1;
    const rows = packets.map((value, n) => [(n ? time(bound(n - 1)) : "0") + " to " + time(bound(n)), percent(value / whole), Math.round(value)]).filter((row) => row[2] > 0);
    content = table(["wait", "of packets", "packets, about"], rows.map(([range, part, value]) => [range, part, count(value)]));
  } else if (kind.promises) {
    const of = (name, key) => state.history.series.find((one) => one.direction === direction.name && one.class === name)[key].reduce((a, b) => a + (b || 0), 0);
    content = table(["class", "kept", "missed"], names.map((name) => [name, kind.show(of(name, "kept_s")), kind.show(of(name, "missed_s"))]));
  } else {
    content = table(["", "now", "mean", "largest"], all.map(([name, { last, mean, most }]) => [name, kind.show(last), kind.show(mean), kind.show(most)]));
  }
  values_of.querySelector(".scroll").replaceChildren(content);
};
export const spanText = (span) => (span === 600 ? "10 minutes" : span === 7200 ? "2 hours" : "24 hours");

// Arrow keys move the cursor of a chart, and its values are read.
const read = (id, event) => {
  const found = held[id], kind = KINDS[$(id).dataset.kind];
  const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60 }[event.key];
  if (!found || step === undefined) return;
  event.preventDefault();
  const { plot } = found, last = plot.data[0].length - 1;
  const at = Math.min(Math.max((plot.cursor.left < 0 || plot.cursor.idx == null ? last : plot.cursor.idx) + step, 0), last);
  plot.setCursor({ left: plot.valToPos(plot.data[0][at], "x"), top: 10 });
  const values = plot.series.slice(1).map((series, n) => series.label + " " + (plot.data[n + 1][at] == null ? "nothing" : kind.show(plot.data[n + 1][at])));
  $("said").textContent = clock(plot.data[0][at], false) + ": " + values.join(", ");
};
const resized = new ResizeObserver(() => {
  for (const [id, { plot }] of Object.entries(held)) {
    const width = $(id).clientWidth;
    if (width === 0 || width === plot.width) continue;
    plot.setSize({ width, height: plot.height });
    newest(plot);
  }
});
