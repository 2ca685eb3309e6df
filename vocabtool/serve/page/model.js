/** The model's tab: how a text is cut, the rule, the vocabulary, the report of unknown words. */

import { hasKey, Latest } from "./api.js";
import { byId, element, plural } from "./dom.js";
import { showWords } from "./words.js";

const PAGE = 200; // entries in a request
const MOST_STEPS = 10; // of a rule that is shown at once
const ROW = 28; // pixels of an entry; style.css has the same
const TALLEST = 10_000_000; // pixels; browsers cannot draw much taller boxes

const pathOf = (index) => `v1/indexes/${encodeURIComponent(index)}`;

/** The words of a text, and the rule that cut it. */
export class Cutter {
  #latest = new Latest();

  constructor(api) {
    this.api = api;
  }

  async show(index, text) {
    const shown = JSON.stringify([index, text]);
    if (shown === this.shown) return;
    const body = { index, text };
    const cut = await this.#latest.run((signal) => this.api.post("v1/words", body, signal));
    if (!cut) return;
    this.shown = shown;
    showWords(byId("cut"), byId("cut-facts"), text, cut.words.map(explained));
    const lines = cut.rule.map((line) => element("li", {}, withBlanks(line)));
    byId("rule").replaceChildren(...lines);
    byId("rule-count").textContent = plural(lines.length, "step");
    if (byId("rule-box").dataset.index === index) return;
    byId("rule-box").dataset.index = index;
    byId("rule-box").open = lines.length <= MOST_STEPS;
  }
}

/** @param {string} line @returns {string} Blanks between quotes are visible. */
const withBlanks = (line) =>
  line.replace(/['"].*['"]/s, (quoted) =>
    quoted.split(/( by | before and put )(?=['"])/)
      .map((part, at) => (at % 2 ? part : part.replaceAll(" ", "·"))).join(""));

/** @param {{known: boolean | null, pieces: string[] | null}} word */
function explained(word) {
  const known = { true: "known", false: "unknown" }[String(word.known)] ?? null;
  const told = known ? `${known} to the model` : "unknown whether the model knows it";
  const pieces = word.pieces
    ? [`${plural(word.pieces.length, "piece")}: ${word.pieces.join(" ")}`] : [];
  return { ...word, mark: known, facts: [told, ...pieces] };
}

/** A list that has only the visible entries of a vocabulary as elements. */
export class VocabularyList {
  #latest = new Latest();
  #pages = new Map();
  #matching = 0;

  constructor(api) {
    this.api = api;
    this.box = byId("entries");
    this.seen = byId("entries-seen");
    this.box.addEventListener("scroll", () => this.draw());
  }

  async show(index, prefix) {
    const path = `${pathOf(index)}/vocabulary?prefix=${encodeURIComponent(prefix)}`;
    if (path === this.shown) return;
    this.path = path;
    const first = await this.#latest.run((signal) => this.page(0, signal));
    if (!first) return;
    this.shown = path;
    this.#pages = new Map([[0, first.entries]]);
    this.#matching = first.matching;
    const all = plural(first.total, "word");
    byId("vocabulary-count").textContent =
      prefix ? `${first.matching.toLocaleString("en")} of ${all}` : all;
    this.box.scrollTop = 0;
    this.seen.style.height = `${Math.min(this.#matching * ROW, TALLEST)}px`;
    this.draw();
  }

  page(number, signal) {
    return this.api.get(`${this.path}&offset=${number * PAGE}&limit=${PAGE}`, signal);
  }

  /** Show the entries at the place to which the box is scrolled. */
  draw() {
    const count = Math.ceil(this.box.clientHeight / ROW) + 1;
    const range = this.box.scrollHeight - this.box.clientHeight;
    const share = range > 0 ? this.box.scrollTop / range : 0;
    const most = Math.max(0, this.#matching - count + 1);
    const first = Math.round(share * most);
    const length = Math.min(count, this.#matching - first);
    const rows = Array.from({ length }, (_, at) => this.row(first + at));
    this.seen.replaceChildren(...rows);
    this.seen.style.paddingTop = `${Math.min(this.box.scrollTop, Math.max(0, range))}px`;
  }

  row(row) {
    const entry = this.#pages.get(Math.floor(row / PAGE))?.[row % PAGE];
    if (!entry) this.load(Math.floor(row / PAGE));
    const place = { "aria-posinset": row + 1, "aria-setsize": this.#matching };
    if (!entry) return element("li", place, "…");
    return element("li", place, element("span", { class: "small" }, `${entry.id}`), entry.text);
  }

  /** @param {number} number of a page; it is asked for once */
  async load(number) {
    const pages = this.#pages;
    if (pages.has(number)) return;
    pages.set(number, []);
    const { entries } = await this.page(number);
    pages.set(number, entries);
    if (pages === this.#pages) this.draw();
  }
}

/**
 * Show the report in a frame on demand. A frame cannot send a key: with one, the report is a file.
 *
 * @param {import("./api.js").Api} api
 * @param {string} index
 */
export function showReport(api, index) {
  const path = `${pathOf(index)}/report`;
  const box = byId("report");
  if (box.dataset.path === path) return;
  box.dataset.path = path;
  if (hasKey()) {
    const save = () => download(api, path, `${index}.html`);
    box.replaceChildren(element("button", { type: "button", click: save }, "Save the report"));
    return;
  }
  const show = async ({ currentTarget: button }) => {
    button.disabled = true;
    button.textContent = "Making the report …";
    try {
      await made(api, path);
    } catch (error) {
      button.textContent = error.message;
      return;
    }
    button.replaceWith(element("iframe", { src: path, title: "Report of unknown words" }));
  };
  box.replaceChildren(
    element("button", { type: "button", click: show }, "Show the report"),
    " ", element("a", { href: path, target: "_blank" }, "Open it in a tab of its own"));
}

/** Settle when the server has made the report, which may take longer than one request. */
async function made(api, path) {
  for (;;) {
    try {
      return await api.answer(path, {});
    } catch (error) {
      if (error.status !== 504) throw error;
    }
  }
}

async function download(api, path, name) {
  const file = await (await made(api, path)).blob();
  const link = element("a", { href: URL.createObjectURL(file), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}
