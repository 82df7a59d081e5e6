// Quantities as text, and elements without markup in strings.

export const $ = (id) => document.getElementById(id);

// Three digits each, as the crate `display` has them for terminals.
export const scaled = (value, units, base) => {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  let n = 0;
  while (Math.abs(value) >= base * 0.9995 && n < units.length - 1) { value /= base; n += 1; }
  const digits = n === 0 && Number.isInteger(value) ? 0 : value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return value.toFixed(digits) + " " + units[n];
};
export const rate = (bps) => scaled(bps, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"], 1000);
export const bytes = (n) => scaled(n, ["B", "kB", "MB", "GB", "TB"], 1000);
export const count = (n) => (n < 100000 ? String(n) : scaled(n, ["", "k", "M", "G"], 1000).trim());
export const each = (n) => (n === null || n === undefined ? "–" : scaled(n, ["/s", "k/s", "M/s"], 1000));
export const time = (s) => (s === null || s === undefined ? "–" : s === 0 ? "0 ms" : s < 999.5e-6 ? (s * 1e6).toFixed(0) + " µs" : scaled(s * 1e6, ["µs", "ms", "s"], 1000));
// A wait that was measured is never zero.
export const nanos = (ns) => (ns === 0 ? "–" : time(ns / 1e9));
export const percent = (part) => (part * 100 < 10 ? (part * 100).toFixed(1) : (part * 100).toFixed(0)) + " %";
export const ago = (ns) => {
  const s = Math.round(ns / 1e9);
  return s < 60 ? s + " s" : s < 3600 ? Math.floor(s / 60) + " min" : s < 86400 ? Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min" : Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
};
// The time of this place; short: without seconds.
export const clock = (at, short) => new Date(at * 1000).toLocaleTimeString([], short ? { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } : { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
export const reasons = (list) => list.map((one) => one.reason.replaceAll("_", " ") + " " + count(one.packets)).join(", ");
// What people call a direction.
export const way = (name) => name.replace(/up$/, "Upload").replace(/down$/, "Download");

export const make = (tag, options = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") element.className = value;
    else if (key === "text") element.textContent = value;
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
};

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// Colours belong to classes, in the order of the file; after eight their dashes differ.
export const colour = (n) => css("--tg-c" + ((n % 8) + 1));
export const dash = (n) => [[], [8, 4], [2, 3], [8, 3, 2, 3]][Math.floor(n / 8) % 4];
