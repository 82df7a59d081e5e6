// Draws the plots of a report. Data: the JSON in #data, one entry for each figure with data-plot.
(() => {
"use strict";
const root = document.documentElement;
let errors = 0;
addEventListener("error", () => { root.dataset.errors = String(++errors); });
root.dataset.errors = "0";

const plots = JSON.parse(document.getElementById("data").textContent);
const DASHES = [[], [8, 4], [2, 3], [8, 3, 2, 3], [16, 4], [8, 3, 2, 3, 2, 3], [2, 8], [16, 3, 5, 3]];
const SCALES = {
  "bit/s": [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]],
  "B": [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
  "s": [[1, "s"], [1e-3, "ms"], [1e-6, "\u00b5s"], [1e-9, "ns"]],
};

// A number with at most `places` digits behind the point and no trailing zeros.
function short(value, digits) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-6) return value.toExponential(Math.max(0, digits - 1));
  return String(Number(value.toPrecision(size >= 10 ** digits ? Math.ceil(Math.log10(size + 1)) : digits)));
}
function scaleOf(unit, size) {
  const steps = SCALES[unit];
  if (!steps) return [1, unit === "1" ? "" : unit];
  return steps.find(step => size >= step[0] * 0.9999) || steps[steps.length - 1];
}
function human(value, unit) {
  if (value == null || Number.isNaN(value)) return "\u2013";
  const [factor, name] = scaleOf(unit, value === 0 ? 1 : Math.abs(value));
  return (short(value / factor, 4) + " " + name).trim();
}
// Labels of ticks: one unit for all of a linear axis, each its own on a logarithmic one.
function ticks(axis) {
  return (u, values) => {
    const known = values.filter(v => v != null);
    const one = scaleOf(axis.unit, Math.max(0, ...known.map(Math.abs)) || 1);
    return values.map(v => {
      if (v == null) return "";
      const [factor, name] = axis.log ? scaleOf(axis.unit, v) : one;
      const number = short(v / factor, 6);
      return SCALES[axis.unit] ? number + "\u00a0" + name : number;
    });
  };
}
const label = (axis, tail) => (axis.unit && axis.unit !== "1" && !SCALES[axis.unit] ? axis.title + ", " + axis.unit : axis.title) +
  (axis.log ? " (logarithmic)" : tail ? " (logarithmic tail)" : "");

// A share on an axis with a logarithmic tail: 1 at 90 %, 2 at 99 %; and back.
const intoTail = share => share == null ? share : -Math.log10(Math.max(1 - share, 1e-12));
const percent = place => short((1 - 10 ** -place) * 100, 6) + " %";
// The end of that axis. All values, a share of 1, have no place on it: a distribution ends at its end.
function endOfTail(plots) {
  let end = 1;
  for (const plot of plots) for (const curve of plot.curves) for (const y of curve.y) if (y !== null && y < 1) end = Math.max(end, intoTail(y));
  return end * 1.04;
}
// The least and the greatest value of plots with the same ranges, with their bands.
function extent(plots, of, ofBand) {
  let [low, high] = [Infinity, -Infinity];
  for (const plot of plots) for (const curve of plot.curves) {
    // What is not positive has no place on a logarithmic axis.
    const add = value => {
      if (value == null || (plot[of].log && value <= 0)) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    curve[of].forEach(add);
    if (curve.band) ofBand.forEach(key => curve.band[key].forEach(add));
  }
  return low > high ? null : [low, high];
}

function make(tag, props, ...inside) {
  const element = Object.assign(document.createElement(tag), props || {});
  element.append(...inside);
  return element;
}

// The columns that uPlot wants: the union of all x, then each curve's y, undefined where it has no point.
function columns(plot, tail) {
  const tables = plot.curves.filter(curve => curve.x.length > 0).map(curve => [curve.x, tail ? curve.y.map(intoTail) : curve.y]);
  if (tables.length === 0) return [[], ...plot.curves.map(() => [])];
  // A null is a gap: it takes in what other curves have beside it (2), so that no line crosses it.
  const joined = tables.length === 1 ? tables[0] : uPlot.join(tables, tables.map(() => [0, 2]));
  const out = [joined[0]];
  let next = 1;
  for (const curve of plot.curves) out.push(curve.x.length > 0 ? joined[next++] : new Array(joined[0].length));
  return out;
}

// Places for ticks on a logarithmic axis, also within one decade. Those of uPlot never end in some small windows.
function decades(low, high) {
  const out = [];
  const span = Math.log10(high / low);
  const steps = span > 3 ? [1] : span > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
    for (const step of steps) {
      const at = Number(step + "e" + e);
      if (at >= low && at <= high) out.push(at);
    }
  if (out.length > 1) return out;
  return [0, 0.25, 0.5, 0.75, 1].map(part => Number((low + (high - low) * part).toPrecision(6)));
}

// Of these only what has room beside the one before has a label.
function apart(u, splits, n) {
  const room = u.axes[n].scale === "x" ? 58 : 18;
  let last = -Infinity;
  return splits.map(value => {
    const at = u.valToPos(value, u.axes[n].scale);
    if (Math.abs(at - last) < room) return null;
    last = at;
    return value;
  });
}

function colours() {
  const style = getComputedStyle(root);
  const of = name => style.getPropertyValue("--tg-" + name).trim();
  return { ink: of("ink"), muted: of("muted"), grid: of("grid"), line: of("line"),
    surface: of("surface"), curve: n => of("c" + (n + 1)), sans: of("sans") };
}

// The corners of a mark around its centre, by the dash of its curve; none for a circle.
function corners(dash, x, y, r) {
  return [[], [[-1, -1], [1, -1], [1, 1], [-1, 1]], [[0, -1.3], [1.2, 1], [-1.2, 1]], [[0, -1.4], [1.4, 0], [0, 1.4], [-1.4, 0]]]
    [dash % 4].map(([dx, dy]) => [x + dx * r, y + dy * r]);
}
// Draws the marks of a curve in its shape.
function marks(curve, colour) {
  return (u, series, from, to) => {
    const [xs, ys] = [u.data[0], u.data[series]];
    const r = 2.2 * devicePixelRatio;
    u.ctx.save();
    u.ctx.fillStyle = colour;
    for (let i = from; i <= to; i++) {
      if (ys[i] == null) continue;
      const [x, y] = [u.valToPos(xs[i], "x", true), u.valToPos(ys[i], "y", true)];
      const shape = corners(curve.dash, x, y, r);
      u.ctx.beginPath();
      if (shape.length) shape.forEach(([x, y], n) => n ? u.ctx.lineTo(x, y) : u.ctx.moveTo(x, y)); else u.ctx.arc(x, y, r, 0, 7);
      u.ctx.fill();
    }
    u.ctx.restore();
    return null;
  };
}

// Saving. A figure is saved as it is seen: its window, without hidden curves.
function save(title, end, type, content) {
  const href = type ? URL.createObjectURL(new Blob([content], { type })) : content;
  make("a", { download: title.replace(/[^\w.]+/g, "-") + end, href }).click();
  if (type) URL.revokeObjectURL(href);
}
function savePng(title, svg, width, height) {
  const image = new Image(width, height);
  image.onload = () => {
    const canvas = make("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    save(title, ".png", null, canvas.toDataURL("image/png"));
  };
  image.src = "data:image/svg+xml," + encodeURIComponent(svg);
}
const xml = text => text.replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const NAMESPACE = 'xmlns="http:' + '//www.w3.org/2000/svg"';
function saveButtons(title, svg, csv) {
  const button = (text, act) => {
    const element = make("button", { type: "button", textContent: text });
    element.setAttribute("aria-label", "Save as " + text + ": " + title);
    element.addEventListener("click", act);
    return element;
  };
  return make("span", { className: "save" }, "Save ",
    button("SVG", () => save(title, ".svg", "image/svg+xml", svg().text)),
    button("PNG", () => { const { text, width, height } = svg(); savePng(title, text, width, height); }),
    button("CSV", () => save(title, ".csv", "text/csv", csv())));
}
const quote = text => /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;

// The comparison is an SVG already: with the colours of the page in place of their variables.
document.querySelectorAll(".comparison").forEach(figure => {
  const drawing = figure.querySelector("svg");
  const svg = () => {
    const style = getComputedStyle(root);
    const text = drawing.outerHTML.replace("<svg", "<svg " + NAMESPACE)
      .replace(/var\((--[\w-]+)\)/g, (all, name) => style.getPropertyValue(name).trim());
    return { text, width: drawing.viewBox.baseVal.width, height: drawing.viewBox.baseVal.height };
  };
  const csv = () => figure.dataset.csv;
  figure.append(saveButtons(figure.dataset.title, svg, csv));
});

const drawn = new Map();

class Chart {
  // `group`: the plots with the same ranges.
  constructor(figure, plot, group) {
    this.plot = plot;
    this.group = group;
    this.figure = figure;
    this.name = figure.querySelector("figcaption").textContent;
    this.tail = plot.y.tail;
    this.data = columns(plot, this.tail);
    this.hidden = new Set();
    this.window = null;
    const canvas = figure.querySelector(".canvas");
    const id = figure.id;
    const button = (text, title, act) => {
      const element = make("button", { type: "button", textContent: text, title });
      element.setAttribute("aria-label", title + ": " + plot.title);
      element.addEventListener("click", act);
      return element;
    };
    const bar = make("div", { className: "bar" }, make("span", { className: "y", textContent: label(plot.y, this.tail) }));
    if (plot.y.tail) bar.append(button("Linear", "Change the scale of the shares", event => {
      this.tail = !this.tail;
      event.target.textContent = this.tail ? "Linear" : "Tail";
      bar.firstChild.textContent = label(plot.y, this.tail);
      this.data = columns(plot, this.tail);
      this.draw();
    }));
    // Panels have these together.
    if (group.length === 1) bar.append(saveButtons(plot.title, () => this.svg(), () => csv([["", plot]])),
      button("\u2212", "Zoom out", () => this.zoom(2)), button("+", "Zoom in", () => this.zoom(0.5)),
      button("\u2190", "To the left", () => this.pan(-0.5)), button("\u2192", "To the right", () => this.pan(0.5)),
      button("All", "Show all", () => this.show(null)));
    this.box = make("div", { className: "chart", tabIndex: 0 });
    this.box.setAttribute("role", "group");
    this.box.setAttribute("aria-labelledby", id + "t");
    this.box.setAttribute("aria-description",
      "Left and right move along the curves, plus and minus zoom, shift with left and right moves the window, 0 shows all.");
    this.said = make("div", { className: "said" });
    this.said.setAttribute("aria-live", "polite");
    canvas.replaceChildren(bar, this.box, this.said);
    if (plot.style === "marks") this.box.classList.add("marks");
    this.box.addEventListener("keydown", event => this.key(event));
    const ends = extent(group, "x", ["x"]);
    this.all = ends ? this.full(...ends) : [plot.x.log ? 1 : 0, plot.x.log ? 10 : 1];
    if (!this.data[0].length) bar.firstChild.textContent += ": nothing was measured";
    this.width = 0;
    this.draw();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.box);
  }
  full(low, high) {
    if (low === high) return this.plot.x.log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    return this.plot.style === "cdf" && !this.plot.x.log ? [Math.min(0, low), high] : [low, high];
  }
  size() {
    const width = Math.max(200, Math.floor(this.box.clientWidth));
    return { width, height: this.group.length > 1 ? 190 : width < 500 ? 220 : 300 };
  }
  // A value of the plot where it is drawn, and one from there for people.
  place(y) { return this.tail ? intoTail(y) : y; }
  said_of(y) { return y == null ? "\u2013" : this.tail ? percent(y) : human(y, this.plot.y.unit); }
  // The vertical range: of what is seen, or of all panels.
  heights(u, low, high) {
    const { plot, group } = this;
    if (this.tail) return [0, endOfTail(group)];
    if (plot.style === "cdf") return [0, 1];
    if (group.length > 1) [low, high] = extent(group, "y", ["low", "high"]) || [null, null];
    else for (const [n, { band }] of plot.curves.entries()) if (band && !this.hidden.has(n)) band.x.forEach((x, i) => {
      // The first time the horizontal range is not known yet.
      if (band.low[i] === null || (u.scales.x.min != null && (x < u.scales.x.min || x > u.scales.x.max))) return;
      low = low == null ? band.low[i] : Math.min(low, band.low[i]);
      high = high == null ? band.high[i] : Math.max(high, band.high[i]);
    });
    if (low == null) return [0, 1];
    return [Math.min(0, low * 1.05), high <= 0 ? (low < 0 ? 0 : 1) : high * 1.05];
  }
  // The outlines of the bands in pixels, by `x` and `y`: of each curve its number and one for each part without a gap.
  bands(x, y) {
    const stepped = this.plot.style === "steps" || this.plot.style === "cdf";
    const out = [];
    this.plot.curves.forEach(({ band }, n) => {
      if (!band || this.hidden.has(n)) return;
      let [above, below] = [[], []];
      const end = () => { if (above.length) out.push([n, above.concat(below.reverse())]); [above, below] = [[], []]; };
      const to = (line, at, value) => { if (stepped && line.length) line.push([at, line[line.length - 1][1]]); line.push([at, value]); };
      band.x.forEach((value, i) => {
        if (band.low[i] === null || (this.plot.x.log && value <= 0)) return end();
        to(above, x(value), y(this.place(band.high[i])));
        to(below, x(value), y(this.place(band.low[i])));
      });
      end();
    });
    return out;
  }
  paintBands(u) {
    const { ctx, bbox } = u, ink = colours();
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.globalAlpha = 0.22;
    for (const [n, outline] of this.bands(v => u.valToPos(v, "x", true), v => u.valToPos(v, "y", true))) {
      ctx.fillStyle = ink.curve(this.plot.curves[n].colour);
      ctx.beginPath();
      outline.forEach(([x, y], i) => i ? ctx.lineTo(x, y) : ctx.moveTo(x, y));
      ctx.fill();
    }
    ctx.restore();
  }
  resize() {
    const size = this.size();
    if (size.width === this.width || this.box.clientWidth === 0) return;
    this.width = size.width;
    this.u.setSize(size);
  }
  draw() {
    const { plot } = this;
    const ink = colours();
    if (this.u) this.u.destroy();
    const size = this.size();
    this.width = size.width;
    const font = "12px " + ink.sans;
    const axis = (of, extra) => ({ stroke: ink.muted, font, labelFont: font, labelSize: 18, values: ticks(of),
      grid: { stroke: ink.grid, width: 1 }, ticks: { stroke: ink.line, width: 1, size: 5 },
      ...(of.log ? { splits: (u, n, low, high) => decades(low, high), filter: apart } : {}), ...extra });
    const steps = uPlot.paths.stepped({ align: 1 });
    const series = plot.curves.map((curve, n) => ({
      label: curve.name, stroke: ink.curve(curve.colour), width: 1.75, show: !this.hidden.has(n), dash: DASHES[curve.dash],
      value: (u, value) => this.said_of(value),
      ...(plot.style === "marks"
        ? { paths: marks(curve, ink.curve(curve.colour)), points: { show: false } }
        : { points: { show: curve.x.length === 1 ? true : undefined } }),
      ...(plot.style === "steps" || plot.style === "cdf" ? { paths: steps } : {}),
    }));
    const time = plot.x.unit === "s" && !plot.x.log && plot.style !== "cdf";
    this.u = new uPlot({
      ...size,
      padding: [10, 30, 0, 0],
      cursor: { drag: { x: true, y: false }, focus: { prox: 30 }, ...(time ? { sync: { key: "time" } } : {}) },
      focus: { alpha: 0.35 },
      legend: { show: this.group.length === 1 || plot.curves.length > 1, live: this.group.length === 1 && plot.curves.length <= 16, markers: { dash: (u, n) => n > 0 && plot.style !== "marks" ? ["solid", "dashed", "dotted", "dashed"][plot.curves[n - 1].dash % 4] : "solid" } },
      scales: {
        x: { time: false, distr: plot.x.log ? 3 : 1, range: (u, low, high) => low == null ? this.all : [low, high] },
        y: { distr: plot.y.log ? 3 : 1, ...(plot.y.log ? {} : { range: (u, low, high) => this.heights(u, low, high) }) },
      },
      axes: [axis(plot.x, { label: label(plot.x), space: 64, size: 26 }), axis(plot.y, { ...(this.tail ? {
        splits: u => [0, intoTail(0.5), ...Array.from({ length: Math.floor(u.scales.y.max) }, (_, n) => n + 1)],
        values: (u, values) => values.map(percent) } : {}), size: (u, values) =>
        Math.max(34, 14 + 6.8 * Math.max(0, ...(values || []).map(v => v.length))) })],
      series: [{ label: plot.x.title, value: (u, value) => human(value, plot.x.unit) }, ...series],
      hooks: { drawAxes: [u => this.paintBands(u)], setScale: [(u, key) => {
        if (key !== "x") return;
        this.window = [u.scales.x.min, u.scales.x.max];
        Object.assign(this.figure.dataset, { window: this.window.join(" "), log: plot.x.log });
      }],
        setSeries: [(u, n, options) => { if (n != null && options.show != null)
          options.show ? this.hidden.delete(n - 1) : this.hidden.add(n - 1); }] },
    }, this.data, this.box);
    const window = this.window;
    this.u.setScale("x", { min: (window || this.all)[0], max: (window || this.all)[1] });
    // Curves are switched in the legend, by keys too.
    this.box.querySelectorAll(".u-legend .u-series").forEach((row, n) => {
      const head = row.querySelector("th");
      if (n === 0) { head.style.cursor = "default"; return; }
      if (plot.style === "marks") {
        const shape = corners(plot.curves[n - 1].dash, 50, 50, 35).map(([x, y]) => x + "% " + y + "%");
        head.querySelector(".u-marker").style.clipPath = shape.length ? "polygon(" + shape + ")" : "circle(35%)";
      }
      head.tabIndex = 0;
      head.setAttribute("role", "button");
      head.title = "Show or hide";
      head.addEventListener("keydown", event => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); head.click(); }
      });
    });
    this.u.over.addEventListener("dblclick", event => { event.stopImmediatePropagation(); this.show(null); }, true);
  }
  // What is seen as SVG, with the legend below.
  svg() {
    const { u, plot } = this;
    const ink = colours();
    const [left, top] = [u.bbox.left / devicePixelRatio, 34 + u.bbox.top / devicePixelRatio];
    const [wide, high] = [u.bbox.width / devicePixelRatio, u.bbox.height / devicePixelRatio];
    const shown = plot.curves.map((curve, n) => [curve, n]).filter(([, n]) => !this.hidden.has(n));
    const rows = plot.curves.length > 1 ? shown.length : 0;
    const [width, height] = [u.width, 34 + u.height + 18 * rows + 8];
    const at = (value, scale) => u.valToPos(value, scale);
    const text = (x, y, anchor, text) =>
      `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" fill="${ink.ink}">${xml(text)}</text>`;
    const line = (path, colour, wide, dash) =>
      `<path d="${path}" fill="none" stroke="${colour}" stroke-width="${wide}" stroke-dasharray="${dash.join(" ")}"/>`;
    const out = [`<svg ${NAMESPACE} viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12">`,
      `<title>${xml(this.name)}</title><rect width="${width}" height="${height}" fill="${ink.surface}"/>`,
      text(8, 16, "start", this.name), text(8, 32, "start", label(plot.y, this.tail)),
      text(left + wide / 2, 34 + u.height - 6, "middle", label(plot.x))];
    const labels = n => (u.axes[n]._splits || []).map((value, i) => [value, (u.axes[n]._values || [])[i] || ""]);
    for (const [value, name] of labels(0)) {
      const x = left + at(value, "x");
      out.push(line(`M${x},${top}v${high}`, ink.grid, 1, []), text(x, top + high + 16, "middle", name));
    }
    for (const [value, name] of labels(1)) {
      const y = top + at(value, "y");
      out.push(line(`M${left},${y}h${wide}`, ink.grid, 1, []), text(left - 6, y + 4, "end", name));
    }
    const mark = (curve, x, y, r) => {
      const shape = corners(curve.dash, x, y, r);
      const fill = ink.curve(curve.colour);
      return shape.length ? `<path d="M${shape.map(p => p.map(v => v.toFixed(1)).join(",")).join("L")}Z" fill="${fill}"/>`
        : `<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="${r}" fill="${fill}"/>`;
    };
    // An inner SVG cuts off what is beyond the window.
    out.push(`<svg x="${left}" y="${top}" width="${wide}" height="${high}" viewBox="${left} ${top} ${wide} ${high}">`);
    for (const [n, outline] of this.bands(v => left + at(v, "x"), v => top + at(v, "y")))
      out.push(`<path d="M${outline.map(p => p.map(v => v.toFixed(1)).join(",")).join("L")}Z" fill="${ink.curve(plot.curves[n].colour)}" fill-opacity="0.22"/>`);
    for (const [curve] of shown) {
      let path = "";
      curve.x.forEach((value, i) => {
        if (curve.y[i] === null || (plot.x.log && value <= 0) || (plot.y.log && curve.y[i] <= 0)) { path += " "; return; }
        const [x, y] = [left + at(value, "x"), top + at(this.place(curve.y[i]), "y")];
        if (plot.style === "marks") { out.push(mark(curve, x, y, 2.2)); return; }
        const begins = path === "" || path.endsWith(" ");
        const stepped = plot.style === "steps" || plot.style === "cdf";
        path += begins ? `M${x.toFixed(1)},${y.toFixed(1)}` : stepped ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `L${x.toFixed(1)},${y.toFixed(1)}`;
      });
      if (path.trim()) out.push(line(path, ink.curve(curve.colour), 1.75, DASHES[curve.dash]));
    }
    out.push("</svg>");
    if (rows) shown.forEach(([curve], row) => {
      const y = 34 + u.height + 12 + 18 * row;
      out.push(plot.style === "marks" ? mark(curve, left + 14, y - 4, 4)
        : line(`M${left},${y - 4}h28`, ink.curve(curve.colour), 1.75, DASHES[curve.dash]), text(left + 36, y, "start", curve.name));
    });
    return { text: out.join("\n") + "\n</svg>\n", width, height };
  }
  // In the scale: logarithms on a logarithmic axis.
  to(x) { return this.plot.x.log ? Math.log10(x) : x; }
  from(x) { return this.plot.x.log ? 10 ** x : x; }
  show(range) {
    const [low, high] = range || this.all;
    this.u.setScale("x", { min: Math.max(low, this.all[0]), max: Math.min(high, this.all[1]) });
  }
  zoom(factor) {
    const [low, high] = [this.to(this.u.scales.x.min), this.to(this.u.scales.x.max)];
    const at = this.u.cursor.idx != null ? this.to(this.data[0][this.u.cursor.idx]) : (low + high) / 2;
    const centre = at >= low && at <= high ? at : (low + high) / 2;
    const whole = this.to(this.all[1]) - this.to(this.all[0]);
    const half = Math.max((high - low) * factor / 2, whole / 1e6);
    if (half * 2 >= whole) return this.show(null);
    let from = Math.max(centre - half, this.to(this.all[0]));
    from = Math.min(from, this.to(this.all[1]) - 2 * half);
    this.show([this.from(from), this.from(from + 2 * half)]);
  }
  pan(part) {
    const [low, high] = [this.to(this.u.scales.x.min), this.to(this.u.scales.x.max)];
    const [first, last] = [this.to(this.all[0]), this.to(this.all[1])];
    const by = Math.min(Math.max((high - low) * part, first - low), last - high);
    this.show([this.from(low + by), this.from(high + by)]);
  }
  key(event) {
    if (event.target !== this.box || event.ctrlKey || event.altKey || event.metaKey) return;
    const side = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (side && event.shiftKey) this.pan(side * 0.25);
    else if (side) this.step(side);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0" || event.key === "Escape") this.show(null);
    else return;
    event.preventDefault();
  }
  // Moves the cursor to the next point, in steps that a hand can follow, and says what is there.
  step(side) {
    const { u, data } = this;
    const xs = data[0];
    if (!xs.length) return;
    const [low, high] = [u.scales.x.min, u.scales.x.max];
    const least = (this.to(high) - this.to(low)) / 100;
    let at = u.cursor.idx;
    if (at == null || xs[at] < low || xs[at] > high) at = xs.findIndex(x => x >= low);
    else {
      const goal = this.to(xs[at]) + side * least;
      let next = at + side;
      while (next + side >= 0 && next + side < xs.length && side * (this.to(xs[next]) - goal) < 0) next += side;
      at = Math.min(Math.max(next, 0), xs.length - 1);
    }
    u.setCursor({ left: u.valToPos(xs[at], "x"), top: u.over.clientHeight / 2 });
    const said = this.plot.curves.map((curve, n) => [curve.name, data[n + 1][at]])
      .filter(([, value], n) => value != null && !this.hidden.has(n)).slice(0, 8)
      .map(([name, value]) => name + " " + this.said_of(value));
    this.said.textContent = human(xs[at], this.plot.x.unit) + ": " + said.join(", ");
  }
}

function build(figure) {
  const n = Number(figure.dataset.plot);
  if (drawn.has(n) || figure.querySelector(".canvas").clientWidth === 0) return;
  const panels = figure.closest(".panels");
  const group = panels ? [...panels.querySelectorAll("figure[data-plot]")].map(other => plots[Number(other.dataset.plot)]) : [plots[n]];
  drawn.set(n, new Chart(figure, plots[n], group));
  root.dataset.plots = String(drawn.size);
}
function buildAll() { document.querySelectorAll("figure[data-plot]").forEach(build); }

const unit = axis => axis.unit && axis.unit !== "1" ? axis.title + " (" + axis.unit + ")" : axis.title;
// The points of plots, each with its name among several; with the ends of bands where there are some.
function csv(named) {
  const [[, first]] = named, several = named.length > 1;
  const banded = named.some(([, plot]) => plot.curves.some(curve => curve.band));
  const lines = [(several ? "panel," : "") + "curve," + quote(unit(first.x)) + "," + quote(unit(first.y)) + (banded ? ",low,high" : "")];
  for (const [name, plot] of named) for (const curve of plot.curves) {
    const ends = new Map((curve.band ? curve.band.x : []).map((x, i) => [x, [curve.band.low[i], curve.band.high[i]]]));
    curve.x.forEach((x, i) => {
      if (curve.y[i] === null) return;
      const cells = [...(several ? [quote(name)] : []), quote(curve.name), x, curve.y[i], ...(banded ? ends.get(x) || ["", ""] : [])];
      lines.push(cells.join(","));
    });
  }
  return lines.join("\n") + "\n";
}

// Small multiples are zoomed and saved together.
document.querySelectorAll(".panels").forEach(panels => {
  const title = panels.dataset.title;
  const figures = [...panels.querySelectorAll("figure[data-plot]")];
  const charts = () => figures.map(figure => drawn.get(Number(figure.dataset.plot))).filter(chart => chart);
  const svg = () => {
    const all = charts().map(chart => chart.svg()), columns = all.length < 3 || all.length === 4 ? 2 : 3;
    const [wide, high] = [Math.max(...all.map(one => one.width)), Math.max(...all.map(one => one.height))];
    const [width, height] = [wide * Math.min(columns, all.length), 26 + high * Math.ceil(all.length / columns)];
    const ink = colours();
    const parts = all.map((one, n) => one.text.replace("<svg ", `<svg x="${wide * (n % columns)}" y="${26 + high * Math.floor(n / columns)}" width="${one.width}" height="${one.height}" `));
    return { width, height, text: `<svg ${NAMESPACE} viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="13">` +
      `<rect width="${width}" height="${height}" fill="${ink.surface}"/><text x="8" y="18" fill="${ink.ink}">${xml(title)}</text>${parts.join("")}</svg>\n` };
  };
  const button = (text, what, act) => {
    const element = make("button", { type: "button", textContent: text, title: what });
    element.setAttribute("aria-label", what + ": " + title);
    element.addEventListener("click", () => charts().forEach(act));
    return element;
  };
  panels.querySelector(".grid").before(make("div", { className: "bar" },
    saveButtons(title, svg, () => csv(figures.map(figure => [figure.querySelector("figcaption").textContent, plots[Number(figure.dataset.plot)]]))),
    button("\u2212", "Zoom out", chart => chart.zoom(2)), button("+", "Zoom in", chart => chart.zoom(0.5)),
    button("\u2190", "To the left", chart => chart.pan(-0.5)), button("\u2192", "To the right", chart => chart.pan(0.5)),
    button("All", "Show all", chart => chart.show(null))));
});

// The points as a table; made when it is asked for.
function table(details) {
  const figure = details.closest("figure");
  const place = details.querySelector(".points");
  if (!figure || !place || place.firstChild) return;
  const plot = plots[Number(figure.dataset.plot)];
  const most = 2000;
  const total = plot.curves.reduce((sum, curve) => sum + curve.y.filter(y => y !== null).length, 0);
  const body = make("tbody");
  let left = most;
  for (const curve of plot.curves) {
    for (let i = 0; i < curve.x.length && left > 0; i++) {
      if (curve.y[i] === null) continue;
      left--;
      const name = make("th", { scope: "row", textContent: curve.name });
      body.append(make("tr", null, name, make("td", { className: "n", textContent: short(curve.x[i], 9) }),
        make("td", { className: "n", textContent: short(curve.y[i], 9) })));
    }
  }
  const heads = ["curve", unit(plot.x), unit(plot.y)].map((text, n) =>
    make("th", { scope: "col", textContent: text, className: n ? "n" : "" }));
  const scroll = make("div", { className: "scroll", tabIndex: 0 },
    make("table", null, make("thead", null, make("tr", null, ...heads)), body));
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", "Points of " + plot.title);
  if (total > most) place.append(make("p", { className: "fine",
    textContent: "The first " + most + " of " + total + " points; the CSV has them all." }));
  place.append(scroll);
}

addEventListener("toggle", event => {
  const details = event.target;
  if (!details.open) return;
  if (details.matches(".data")) table(details);
  if (details.matches(".section")) details.querySelectorAll("figure[data-plot]").forEach(build);
}, true);

// A link into a closed section opens it.
function opened() {
  const at = location.hash && document.getElementById(location.hash.slice(1));
  if (at && at.matches("details")) at.open = true;
}
addEventListener("hashchange", opened);

// Colours: as the system wants them, or light, or dark.
const button = document.getElementById("theme");
const themes = ["", "light", "dark"];
const names = ["as the system", "light", "dark"];
let theme = 0;
const redraw = () => drawn.forEach(chart => chart.draw());
function paint() {
  if (themes[theme]) root.dataset.theme = themes[theme]; else delete root.dataset.theme;
  button.textContent = "Colours: " + names[theme];
  redraw();
}
button.hidden = false;
button.addEventListener("click", () => { theme = (theme + 1) % themes.length; paint(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
// Paper is white, and shows the files that made the run.
let folded = [];
addEventListener("beforeprint", () => {
  root.dataset.theme = "light";
  folded = [...document.querySelectorAll("details.source:not([open]), .answer details:not([open])")];
  folded.forEach(details => { details.open = true; });
  drawn.forEach(chart => { chart.draw(); chart.u.setSize(chart.group.length > 1 ? { width: 300, height: 190 } : { width: 660, height: 260 }); });
});
addEventListener("afterprint", () => { folded.forEach(details => { details.open = false; }); paint(); });

root.dataset.plots = "0";
buildAll();
opened();
})();
