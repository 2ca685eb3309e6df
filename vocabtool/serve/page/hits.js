/** Hits of one search, or of two side by side, with what moved. */

import { CodePoints, element, marked, plural, sentence } from "./dom.js";
import { asPlain } from "./plain.js";

/**
 * @typedef {object} Side A search and its answer.
 * @property {"first" | "second"} id
 * @property {string} name Its settings, in words.
 * @property {any} answer As the server gives it.
 */

/**
 * Return one list of hits, or two.
 *
 * @param {Side[]} sides
 * @param {(changed: object) => string} linkTo the address of a state that differs
 */
export function hitLists(sides, linkTo) {
  const hits = sides.flatMap(({ answer }) => answer.hits);
  const longest = Math.max(0, ...hits.map((hit) => sum(parts(hit)))); // one scale for both lists
  const lists = sides.map((side, at) => {
    const other = sides[1 - at] ?? null;
    const id = `${side.id}-name`;
    const look = other ? null : "hidden-label";
    const title = element("h2", { id, class: look }, other ? side.name : "Hits");
    return element("section", { "aria-labelledby": id }, title,
      ...list(side, other, longest, linkTo));
  });
  return element("div", { class: lists.length > 1 ? "beside" : null }, ...lists);
}

/**
 * @param {Side} side
 * @param {Side | null} other
 * @param {number} longest the score of a full bar
 * @param {(changed: object) => string} linkTo
 */
function list(side, other, longest, linkTo) {
  const { hits, query, notes, suggestions } = side.answer;
  const items = hits.map((hit, at) =>
    element("li", {}, article(side, hit, at + 1, longest, other && move(hit, at + 1, other), linkTo)));
  return [
    ...remarks(query, other !== null),
    ...suggestions.map((each) => spellings(each, query, linkTo)),
    hits.length ? element("ol", { class: "hits" }, ...items) : element("h3", {}, "Nothing found"),
    ...notes.map((note) => element("p", { class: "note" }, sentence(note))),
  ];
}

/**
 * @param {{remarks: string[], weight: number | null}} query The last remark is the weight's.
 * @param {boolean} isBeside both lists have a line, so that they begin at the same height
 */
function remarks({ remarks: told, weight }, isBeside) {
  const restrictions = weight === null ? told : told.slice(0, -1);
  const shown = restrictions.map((each) => element("p", { class: "small" }, sentence(each)));
  if (weight === null) {
    const none = element("p", { class: "small weight" }, "Keywords have no weight");
    return isBeside ? [...shown, none] : shown;
  }
  const summary = element("summary", {}, `Keywords weigh ${weight.toFixed(2)}`);
  const why = element("p", {}, `${sentence(told.at(-1))}. Vectors weigh the rest of 1. Rare words
    have a high idf. With coverage, keywords weigh more, the more of the query's idf is in words that
    the model does not know.`);
  return [...shown, element("details", { class: "small weight" }, summary, why)];
}

/**
 * Return links to the query with other spellings of a word.
 *
 * @param {{word: string, spellings: string[]}} suggestion
 * @param {{text: string, words: {surface: string, start: number, end: number}[]}} query
 * @param {(changed: object) => string} linkTo
 */
function spellings(suggestion, query, linkTo) {
  const text = new CodePoints(query.text);
  const place = query.words.find(({ surface }) => surface === suggestion.word);
  const links = suggestion.spellings.flatMap((each, at) => {
    const respelled = place
      ? text.slice(0, place.start) + each + text.slice(place.end)
      : query.text.replace(suggestion.word, () => each);
    const link = element("a", { href: linkTo({ query: respelled }), "data-search": true }, each);
    return at ? [", ", link] : [link];
  });
  return element("p", {}, `For “${suggestion.word}”, did you mean `, ...links, "?");
}

/**
 * Return where a hit is in the other list.
 *
 * @param {{id: string}} hit @param {number} rank @param {Side} other
 */
function move(hit, rank, other) {
  const there = other.answer.hits.findIndex(({ id }) => id === hit.id) + 1;
  if (!there) return { kind: "only", told: `◆ Only here: not in ${other.name}`, there };
  if (there === rank) return { kind: "same", told: `= The same rank in ${other.name}`, there };
  const [kind, sign, way] = there > rank ? ["up", "▲", "higher"] : ["down", "▼", "lower"];
  const by = Math.abs(there - rank);
  return { kind, told: `${sign} ${by} ${way} than in ${other.name} (rank ${there} there)`, there };
}

/**
 * @param {Side} side @param {any} hit @param {number} rank
 * @param {number} longest the score of a full bar
 * @param {ReturnType<typeof move> | null} moved
 * @param {(changed: object) => string} linkTo
 */
function article(side, hit, rank, longest, moved, linkTo) {
  const { title } = hit.explanation;
  const id = `${side.id}-${rank}`;
  const across = side.id === "first" ? "second" : "first";
  const there = moved?.there ? { href: `#${across}-${moved.there}` } : {};
  const looks = { tabindex: 0, "aria-labelledby": `${id}-title`, class: moved?.kind };
  const open = (text) =>
    element("a", { href: linkTo({ document: hit.id }), "data-open": true }, text);
  const isNamed = title === hit.id;
  const [text, show] = textOf(hit);
  const more = element("button", { type: "button", class: "small", "aria-expanded": "false" }, "more");
  const made = element("article", { id, ...looks },
    element("h3", { id: `${id}-title` }, `${rank}.\u00a0`, element("bdi", {}, isNamed ? open(title) : title)),
    moved && element("p", { class: "move" }, element("a", there, moved.told)),
    text,
    element("div", { class: "about" },
      element("dl", {}, ...facts([
        ...(isNamed ? [] : [["source", open(sourceOf(hit))]]),
        ...hit.explanation.other_fields.map((name) => [name, hit.fields[name]]),
      ].filter(([, value]) => value !== title))),
      more),
    bar(hit, side.answer.query.fusion, longest));
  more.addEventListener("click", () => {
    const isWhole = made.classList.toggle("whole");
    more.setAttribute("aria-expanded", String(isWhole));
    more.textContent = isWhole ? "less" : "more";
    show(isWhole);
  });
  return made;
}

/** Return the id without the headings, which are the title. */
const sourceOf = ({ id, fields }) => (fields.path ? id.replace(`#${fields.path}`, "") : id);

/**
 * Hide the buttons "more" of hits that show everything already.
 *
 * @param {HTMLElement} box with hits
 */
export function hideIdleButtons(box) {
  for (const hit of box.querySelectorAll("article:not(.whole)")) {
    const isCut = [...hit.querySelectorAll("h3, .lines, dl, .leg, .told")].some((part) =>
      part.offsetParent === null || part.scrollHeight > part.clientHeight + 1
        || (part.clientWidth && part.scrollWidth > part.clientWidth + 1));
    hit.querySelector("button").hidden = !isCut && !hit.querySelector(".lines[data-cut]");
  }
}

/** Return the paragraph of a text, and a function that shows the part that was found, or all. */
function textOf({ id, text, fields, explanation: { highlights, extract } }) {
  const points = new CodePoints(asPlain(text, id, fields.path));
  const spans = highlights.map(([start, end]) => ({ start, end }));
  const isCut = extract[0] > 0 || extract[1] < points.length;
  const box = element("p", { class: "lines", dir: "auto", "data-cut": isCut });
  const show = (isWhole) => {
    const part = isWhole ? [0, points.length] : extract;
    const shown = marked(points, spans, (word) => element("mark", {}, word), part);
    box.replaceChildren(part[0] > 0 ? "… " : "", shown, part[1] < points.length ? " …" : "");
  };
  show(false);
  return [box, show];
}

/** Return what the page shows of a document: its fields, and its text. */
export const documentParts = ({ id, text, fields }) => ({
  about: facts(Object.entries(fields).filter(([, value]) => !id.endsWith(`#${value}`))),
  text: new CodePoints(asPlain(text, id, fields.path)).slice().replace(/\n{3,}/g, "\n\n").trim(),
});

/** @param {[string, unknown][]} pairs Names and values, or links. */
const facts = (pairs) =>
  pairs.filter(([, value]) => value !== null && value !== "").flatMap(([name, value]) =>
    [element("dt", {}, name), element("dd", {},
      value instanceof Node ? value : element("bdi", {}, asText(value)))]);

const asText = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));

/** @param {any} hit What vectors and keywords gave, at least 0. */
const parts = ({ explanation: { dense, keyword } }) =>
  [dense.part, keyword.part].map((part) => Math.max(0, part ?? 0));

const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);

/** Return what each leg gave and why; null if nothing has a score, as without a query. */
function bar(hit, fusion, longest) {
  const { dense, keyword, words, rank_without_keywords: byVectors } = hit.explanation;
  if (dense.score === null && keyword.score === null && !hit.score) return null;
  const shares = parts(hit).map((part, at) => {
    const piece = element("span", { class: at ? "keywords" : "vectors" });
    piece.style.width = `${longest ? (100 * part) / longest : 0}%`;
    return piece;
  });
  const title = `A full bar is ${longest.toFixed(3)}, the greatest score of these hits`;
  const found = words.map(({ surface, score, whole }) =>
    `${whole ? "" : "parts of "}${surface} ${score.toFixed(2)}`);
  const vectors = fusion === "keyword" ? "not searched"
    : dense.score === null ? "no vector"
    : `${rankOf(byVectors ?? dense.rank)}, similarity ${dense.score.toFixed(3)}`;
  const keywords = fusion === "dense" ? "not searched"
    : keyword.score === null ? "no word found"
    : `${rankOf(keyword.rank)}, BM25 ${[keyword.score.toFixed(3), ...found].join(", ")}`;
  const total = `score ${hit.score.toFixed(3)}${hit.tier ? ", has the code" : ""}`;
  return element("div", { class: "gave" },
    element("div", { class: "bar", "aria-hidden": "true", title }, ...shares),
    element("p", { class: "small" },
      leg("vectors", dense, vectors), leg("keywords", keyword, keywords),
      element("span", {}, total)));
}

const rankOf = (rank) => (rank ? `rank ${rank.toLocaleString("en")}` : "beyond the candidates");

const leg = (name, { part }, told) =>
  element("span", { class: `leg ${name}` }, `${name} ${(part ?? 0).toFixed(3)}`,
    element("span", { class: "told" }, `: ${told}`));

/** @param {Side[]} sides */
export const counted = (sides) =>
  sides.map(({ answer, name }) =>
    plural(answer.hits.length, "hit") + (sides.length > 1 ? ` with ${name}` : "")).join(", ");
