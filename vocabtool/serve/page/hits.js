/** Hits of one search, or of two side by side, with what moved. */

import { CodePoints, element, marked, plural } from "./dom.js";

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
 * @param {(query: string) => string} linkTo the address of another query
 */
export function hitLists(sides, linkTo) {
  const lists = sides.map((side, at) => {
    const other = sides[1 - at] ?? null;
    const id = `${side.id}-name`;
    const look = other ? null : "hidden-label";
    const title = element("h2", { id, class: look }, other ? side.name : "Hits");
    return element("section", { "aria-labelledby": id }, title, ...list(side, other, linkTo));
  });
  return element("div", { class: lists.length > 1 ? "beside" : null }, ...lists);
}

/** @param {Side} side @param {Side | null} other @param {(query: string) => string} linkTo */
function list(side, other, linkTo) {
  const { hits, query, notes, suggestions, guesses } = side.answer;
  const longest = Math.max(0, ...hits.map((hit) => sum(parts(hit))));
  const items = hits.map((hit, at) =>
    element("li", {}, article(side, hit, at + 1, longest, other && move(hit, at + 1, other))));
  return [
    element("p", { class: "small" }, query.remarks.join("; ")),
    guesses ? element("p", {}, "These are guesses: the nearest vectors.") : null,
    hits.length ? element("ol", { class: "hits" }, ...items) : element("h3", {}, "Nothing found"),
    ...suggestions.map((each) => spellings(each, query, linkTo)),
    ...notes.map((note) => element("p", { class: "note" }, note)),
  ];
}

/**
 * Return links to the query with other spellings of a word.
 *
 * @param {{word: string, spellings: string[]}} suggestion
 * @param {{text: string, words: {surface: string, start: number, end: number}[]}} query
 * @param {(query: string) => string} linkTo
 */
function spellings(suggestion, query, linkTo) {
  const text = new CodePoints(query.text);
  const place = query.words.find(({ surface }) => surface === suggestion.word);
  const links = suggestion.spellings.flatMap((each, at) => {
    const respelled = place
      ? text.slice(0, place.start) + each + text.slice(place.end)
      : query.text.replace(suggestion.word, () => each);
    const link = element("a", { href: linkTo(respelled), "data-search": true }, each);
    return at ? [", ", link] : [link];
  });
  return element("p", {}, `${suggestion.word}: did you mean `, ...links, "?");
}

/**
 * Return where a hit is in the other list.
 *
 * @param {{id: string}} hit @param {number} rank @param {Side} other
 */
function move(hit, rank, other) {
  const there = other.answer.hits.findIndex(({ id }) => id === hit.id) + 1;
  if (!there) return { kind: "only", told: `◆ only here: not in ${other.name}`, there };
  if (there === rank) return { kind: "same", told: `= the same rank in ${other.name}`, there };
  const [kind, sign, way] = there > rank ? ["up", "▲", "higher"] : ["down", "▼", "lower"];
  const by = Math.abs(there - rank);
  return { kind, told: `${sign} ${by} ${way} than in ${other.name} (rank ${there} there)`, there };
}

/**
 * @param {Side} side @param {any} hit @param {number} rank
 * @param {number} longest the greatest score, as wide as a bar can be
 * @param {ReturnType<typeof move> | null} moved
 */
function article(side, hit, rank, longest, moved) {
  const why = hit.explanation;
  const id = `${side.id}-${rank}`;
  const across = side.id === "first" ? "second" : "first";
  const link = moved?.there ? { href: `#${across}-${moved.there}` } : {};
  const looks = { tabindex: 0, "aria-labelledby": `${id}-title`, class: moved?.kind };
  return element("article", { id, ...looks },
    element("h3", { id: `${id}-title` }, `${rank}. `, element("bdi", {}, why.title)),
    moved && element("p", { class: "move" }, element("a", link, moved.told)),
    textOf(hit),
    fieldsOf(hit),
    bar(hit, longest),
    element("p", { class: "small" }, why.why));
}

function textOf({ text, explanation: { highlights, extract: [start, end] } }) {
  const points = new CodePoints(text);
  const spans = highlights.map(([first, last]) => ({ start: first, end: last }));
  const shown = marked(points, spans, (part) => element("mark", {}, part), [start, end]);
  return element("p", { class: "lines", dir: "auto" },
    start > 0 ? "… " : null, shown, end < points.length ? " …" : null);
}

function fieldsOf({ id, fields, explanation: { title, other_fields: names } }) {
  const pairs = [["id", id], ...names.map((name) => [name, fields[name]])];
  const shown = pairs.filter(([, value]) => value !== null && value !== "" && value !== title);
  return shown.length ? element("dl", {}, ...shown.flatMap(([name, value]) =>
    [element("dt", {}, name), element("dd", {}, element("bdi", {}, asText(value)))])) : null;
}

const asText = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));

/** @param {any} hit What vectors and keywords gave, at least 0. */
const parts = ({ explanation: { dense, keyword } }) =>
  [dense.part, keyword.part].map((part) => Math.max(0, part ?? 0));

const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);

function bar(hit, longest) {
  const { dense, keyword, rank_without_keywords: byVectors, scores } = hit.explanation;
  const legs = [
    ["vectors", dense.part, byVectors ?? dense.rank],
    ["keywords", keyword.part, keyword.rank],
  ];
  const shares = parts(hit).map((part, at) => {
    const piece = element("span", { class: legs[at][0] });
    piece.style.width = `${longest ? (100 * part) / longest : 0}%`;
    return piece;
  });
  const told = legs.map(([name, part, rank]) => {
    const alone = rank ? `rank ${rank.toLocaleString("en")} alone` : "no rank alone";
    return element("span", { class: `leg ${name}` }, `${name} ${(part ?? 0).toFixed(3)}, ${alone}`);
  });
  return element("div", { class: "gave" },
    element("div", { class: "bar", "aria-hidden": "true" }, ...shares),
    element("p", { class: "small" }, ...told, element("span", {}, scores.join(", "))));
}

/** @param {Side[]} sides */
export const counted = (sides) =>
  sides.map(({ answer, name }) =>
    plural(answer.hits.length, "hit") + (sides.length > 1 ? ` with ${name}` : "")).join(", ");
