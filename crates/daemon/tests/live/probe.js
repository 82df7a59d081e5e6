// Evaluated in the page: what is wrong with what it shows, by rule. Each list is empty on a good page.
(() => {
  const visible = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(".hidden, .skip") && e.getClientRects().length > 0;
  const name = (e) => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (typeof e.className === "string" && e.className ? "." + e.className.split(" ").join(".") : "") + " " + (e.textContent || "").trim().slice(0, 30);
  const all = [...document.querySelectorAll("body *")].filter(visible);
  const wide = all.filter((e) => !e.closest(".scroll, .uplot") && e.getBoundingClientRect().right > innerWidth + 1);
  // Text that is cut off: only where the element hides what overflows it.
  const clipped = all.filter((e) => !e.closest(".uplot") && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "hidden" && e.textContent.trim());
  const inside = (a, b) => a.contains(b) || b.contains(a);
  const parts = [...document.querySelectorAll("header > *, .controls > *, main > *, .charts > *, #lines > *, .fold > .scroll > table > tbody > tr")].filter(visible);
  const overlap = [];
  parts.forEach((a, n) => parts.slice(n + 1).forEach((b) => {
    if (inside(a, b)) return;
    const [p, q] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
    const across = Math.min(p.right, q.right) - Math.max(p.left, q.left), down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (across > 1 && down > 1) overlap.push(name(a) + " and " + name(b));
  }));
  // Entries of legends that are over each other or over their chart, cut off, or outside of it.
  const legend = [...document.querySelectorAll(".u-legend")].filter(visible).flatMap((legend) => {
    const entries = [...legend.querySelectorAll(".u-label, .u-value")].filter((e) => visible(e) && e.textContent.trim());
    const box = (e) => e.getBoundingClientRect(), chart = box(legend.closest(".chart")), wrap = box(legend.parentElement.querySelector(".u-wrap"));
    const meet = (p, q) => Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 1;
    return entries.filter((a, n) => meet(box(a), wrap) || box(a).left < chart.left - 1 || box(a).right > chart.right + 1 || box(a).bottom > chart.bottom + 1 ||
      (a.scrollWidth > a.clientWidth + 1 && getComputedStyle(a).overflowX === "hidden") || entries.slice(n + 1).some((b) => !inside(a, b) && meet(box(a), box(b))));
  });
  const colours = (canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height), seen = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
    return seen.size;
  };
  const charts = [...document.querySelectorAll(".chart")].filter(visible);
  const blank = charts.filter((chart) => !chart.querySelector("canvas") || colours(chart.querySelector("canvas")) < 3);
  // WCAG 2.2, 1.4.3: 4.5 to 1, and 3 to 1 for large text.
  const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((s, c, n) => s + c * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (e) => {
    for (let at = e; at; at = at.parentElement) {
      const found = parse(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] > 0.99) return found;
    }
    return [255, 255, 255];
  };
  const faint = all.filter((e) => [...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim())).filter((e) => {
    const style = getComputedStyle(e), [a, b] = [luminance(parse(style.color)), luminance(behind(e))].sort((x, y) => y - x);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    return (a + 0.05) / (b + 0.05) < (large ? 3 : 4.5);
  });
  const named = (e) => (e.getAttribute("aria-label") || e.textContent || e.labels?.[0]?.textContent || "").trim();
  const unnamed = [...all.filter((e) => e.matches("button, summary, a, [role=meter], [role=img], table[role]") && !named(e)), ...all.filter((e) => e.matches("input, select") && !e.labels?.[0]?.textContent.trim())];
  // Each row of a table has a cell for each head, or one that spans them all.
  const ragged = [...document.querySelectorAll("table[role=table]")].filter(visible).flatMap((table) => [...table.tBodies[0].rows].filter((row) => row.cells.length !== table.tHead.rows[0].cells.length && !(row.cells.length === 1 && row.cells[0].colSpan === table.tHead.rows[0].cells.length)));
  // WCAG 2.2, 2.5.8: 24 by 24 pixels, but for what stands in a text.
  const small = all.filter((e) => e.matches("button, select, input") && !e.closest("th, td")).filter((e) => e.getBoundingClientRect().height < 24 || e.getBoundingClientRect().width < 24);
  const moving = all.filter((e) => { const style = getComputedStyle(e); return style.animationName !== "none" || parse(style.transitionDuration).some((s) => s > 0); });
  return {
    faults: Object.fromEntries(Object.entries({ wide, clipped, legend, blank, faint, unnamed, ragged, small, moving }).map(([key, list]) => [key, list.slice(0, 5).map(name)]).concat([["overlap", overlap.slice(0, 5)]]).filter(([, list]) => list.length)),
    width: innerWidth, scroll: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight,
    charts: charts.length, labelled: charts.filter((chart) => / now, | missed for /.test(chart.getAttribute("aria-label") || "")).length,
    ready: document.documentElement.dataset.ready === "yes", error: document.documentElement.dataset.error || "", text: document.body.innerText,
  };
})()
