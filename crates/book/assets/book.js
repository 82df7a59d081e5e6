// The search of the book, and contents that are folded on a narrow screen. Nothing is loaded but the index beside the pages,
// and that with the first use of the field, so that it works from files.
"use strict";
(() => {
  const up = document.currentScript.dataset.up;
  const form = document.getElementById("search"), field = document.getElementById("find");
  const list = document.getElementById("found"), said = document.getElementById("found-count");
  const MOST = 20, MENTIONS = 5, HEADING = 20, ITSELF = 25, SHORT = 3, TITLE = 4, LACKING = 4;
  const LISTS = ["reference/", "disciplines/", "lab/papers/"];
  // Words that no section is about.
  const FILLING = ["a", "an", "and", "by", "do", "for", "how", "i", "in", "is", "my", "of", "or", "the", "to", "with"];
  form.hidden = false;
  if (matchMedia("(max-width: 50rem)").matches) document.getElementById("contents").open = false;

  let asked = false;
  const load = () => {
    if (asked) return;
    asked = true;
    const script = document.createElement("script");
    script.src = up + "search-index.js";
    script.onload = show;
    script.onerror = () => { said.textContent = "The index of the search, search-index.js, is not beside these pages."; };
    document.head.append(script);
  };
  // Where a word of the text begins with `word`, or is it or its plural where it is short; a hit inside of a word does not count.
  const places = (text, word) => {
    const found = [];
    for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
      const ends = word.length > SHORT || !/^s?[\p{L}\p{N}]/u.test(text.slice(at + word.length).replace(/^s(?![\p{L}\p{N}])/u, ""));
      if (ends && (at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1]))) found.push(at);
    }
    return found;
  };
  const count = (text, word) => places(text, word).length;
  const alike = (word) => (Object.hasOwn(window.bookSynonyms, word) ? window.bookSynonyms[word] : []);
  // Text with the words marked.
  const marked = (text, words) => {
    const out = document.createElement("span"), low = text.toLowerCase();
    let at = 0;
    while (at < text.length) {
      const next = words.map((word) => [places(low, word).find((place) => place >= at) ?? -1, word.length]).filter(([place]) => place >= 0).sort((a, b) => a[0] - b[0] || b[1] - a[1])[0];
      if (!next) break;
      const mark = document.createElement("mark");
      mark.textContent = text.slice(next[0], next[0] + next[1]);
      out.append(text.slice(at, next[0]), mark);
      at = next[0] + next[1];
    }
    out.append(text.slice(at));
    return out;
  };
  const excerpt = (text, words) => {
    const line = text.split("\n").find((line) => words.some((word) => count(line.toLowerCase(), word) > 0)) || "";
    const first = Math.max(0, Math.min(...words.flatMap((word) => places(line.toLowerCase(), word))) - 40);
    // Words are whole at both ends.
    const part = first > 0 && Number.isFinite(first) ? "… " + line.slice(first).replace(/^\S*\s+/, "") : line.trim();
    return part.length > 140 ? part.slice(0, 140).replace(/\s\S*$/, " …") : part;
  };
  const show = () => {
    const every = field.value.toLowerCase().split(/[\s/]+/).filter(Boolean), some = every.filter((word) => !FILLING.includes(word));
    const words = some.length > 0 ? some : every;
    document.body.classList.toggle("searching", words.length > 0);
    if (words.length === 0) {
      list.replaceChildren();
      said.textContent = "";
      return;
    }
    load();
    if (!window.bookSections) return;
    const found = [], scored = window.bookSections.map(([slug, title, heading, anchor, text]) => {
      const name = title.toLowerCase(), head = heading.toLowerCase(), low = text.toLowerCase();
      const of = (word) => HEADING * count(head, word) + TITLE * Math.min(count(name, word), 1) + Math.min(count(low, word), MENTIONS);
      return words.map((word) => alike(word).reduce((sum, other) => sum + of(other), ITSELF * of(word)));
    });
    // A word that half of the book has says little about what is looked for.
    const rarities = words.map((_, n) => Math.floor(Math.log2(Math.floor(scored.length / Math.max(1, scored.filter((scores) => scores[n] > 0).length)))) + 1);
    for (const [at, [slug, title, heading, anchor, text]] of window.bookSections.entries()) {
      const scores = scored[at];
      const lacking = scores.filter((score) => score === 0).length;
      if (lacking > words.length / 2) continue;
      const whole = LISTS.some((list) => slug.startsWith(list)) ? 1 : 2;
      found.push({ score: whole * scores.reduce((sum, one, n) => sum + one * rarities[n], 0) / LACKING ** lacking, slug, title, heading, anchor, text });
    }
    found.sort((a, b) => b.score - a.score);
    const all = words.concat(words.flatMap(alike));
    list.replaceChildren(...found.slice(0, MOST).map((one) => {
      const link = document.createElement("a"), where = document.createElement("small"), item = document.createElement("li");
      link.href = up + one.slug + ".html" + (one.anchor ? "#" + one.anchor : "");
      link.append(marked(one.heading, all));
      if (one.anchor) where.append(one.title + ". ");
      where.append(marked(excerpt(one.text, count(one.text.toLowerCase(), words[0]) > 0 ? words : all), all));
      item.append(link, where);
      return item;
    }));
    said.textContent = found.length === 0 ? "No section has these words." : found.length + (found.length === 1 ? " section" : " sections") + (found.length > MOST ? ", the best " + MOST + " of them" : "");
  };

  field.addEventListener("focus", load);
  field.addEventListener("input", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("a")?.click();
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    const links = [...list.querySelectorAll("a")], at = links.indexOf(document.activeElement);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      field.focus();
    } else if (event.key === "Escape" && field.value) {
      field.value = "";
      show();
      field.focus();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && links.length > 0 && (at >= 0 || document.activeElement === field)) {
      event.preventDefault();
      const to = at + (event.key === "ArrowDown" ? 1 : -1);
      (to < 0 ? field : links[Math.min(to, links.length - 1)]).focus();
    }
  });
})();
