/**
 * What the page shows. It is in the address, so that a search can be linked.
 *
 * @typedef {{fusion: string, a: number | null}} Settings `a`: null is the weight of the index.
 * @typedef {[string, string | number | boolean]} Filter A field and a value.
 * @typedef {object} State
 * @property {"search" | "model"} tab
 * @property {string} index "" is the first one.
 * @property {string} query
 * @property {Settings} first
 * @property {Settings | null} second Another search beside the first one.
 * @property {number} k
 * @property {Filter[]} filters
 * @property {string} where
 * @property {string} prefix Of entries of the vocabulary.
 * @property {string} text To be cut by the model.
 * @property {string} document The id of the document that is open; "" shows the hits.
 * @property {string[]} wrong What the address asked for in vain, in words. It is not in addresses.
 */

export const FUSIONS = ["coverage", "convex", "rrf", "dense", "keyword", "unknown-only"];

const FUSION = "coverage";
const K = 10;
const MAX_K = 1000;

/** @param {number} k @returns {number} the nearest possible number of hits */
export const possibleK = (k) => Math.min(MAX_K, Math.max(1, Math.trunc(k) || 0));

/** @param {string | null} text @returns {number | null} */
function weight(text) {
  const value = text ? Number(text) : NaN;
  return value >= 0 && value <= 1 ? value : null;
}

/** @param {string} text @returns {Filter[]} None if the text is not a filter. */
function filter(text) {
  try {
    const [field, value] = JSON.parse(text);
    const isFilter = typeof field === "string" && /string|number|boolean/.test(typeof value);
    return isFilter ? [[field, value]] : [];
  } catch {
    return [];
  }
}

/** @param {string} search The part of an address after "?". @returns {State} */
export function fromAddress(search) {
  const given = new URLSearchParams(search);
  const text = (name) => given.get(name) ?? "";
  const asked = Number(text("k") || K);
  const k = Number.isNaN(asked) ? K : possibleK(asked);
  const isFusion = (name) => FUSIONS.includes(name);
  const isBeside = isFusion(text("beside"));
  const wrong = ["fusion", "beside"].filter((name) => text(name) && !isFusion(text(name)));
  return {
    tab: text("tab") === "model" ? "model" : "search",
    index: text("index"),
    query: text("q"),
    first: { fusion: isFusion(text("fusion")) ? text("fusion") : FUSION, a: weight(given.get("a")) },
    second: isBeside ? { fusion: text("beside"), a: weight(given.get("beside-a")) } : null,
    k,
    filters: given.getAll("filter").flatMap(filter),
    where: text("where"),
    prefix: text("prefix"),
    text: text("text"),
    document: text("document"),
    wrong: [
      ...wrong.map((name) => `There is no fusion “${text(name)}”: ${
        name === "fusion" ? `${FUSION} is used` : "nothing is beside the search"}.`),
      ...(text("k") && String(k) !== text("k")
        ? [`The number of hits must be 1 to ${MAX_K}, not “${text("k")}”: it is ${k} now.`] : []),
    ],
  };
}

/** @param {State} state @returns {string} "?" and what differs from an empty page. */
export function toAddress(state) {
  const { first, second } = state;
  const given = [
    ["tab", state.tab === "model" ? "model" : ""],
    ["index", state.index],
    ["q", state.query],
    ["fusion", first.fusion === FUSION ? "" : first.fusion],
    ["a", first.a ?? ""],
    ["beside", second?.fusion ?? ""],
    ["beside-a", second?.a ?? ""],
    ["k", state.k === K ? "" : state.k],
    ...state.filters.map((each) => ["filter", JSON.stringify(each)]),
    ["where", state.where],
    ["prefix", state.prefix],
    ["text", state.text],
    ["document", state.document],
  ];
  const kept = given.filter(([, value]) => value !== "").map((pair) => pair.map(String));
  return `?${new URLSearchParams(kept)}`;
}

const literal = (value) =>
  typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value);

/**
 * Return the condition of the chosen values: one of the values of each field.
 * A text may be a list; `has any` finds its elements.
 *
 * @param {Filter[]} filters
 */
function chosen(filters) {
  const fields = [...new Set(filters.map(([field]) => field))];
  return fields.map((field) => {
    const values = filters.filter(([name]) => name === field).map(([, value]) => value);
    const name = `"${field.replaceAll('"', '""')}"`;
    const list = `(${values.map(literal).join(", ")})`;
    const isText = values.some((value) => typeof value === "string");
    return isText ? `(${name} in ${list} or ${name} has any ${list})` : `${name} in ${list}`;
  });
}

/**
 * Return the condition of a search, and where in it the condition of the box begins.
 *
 * @param {State} state
 * @returns {{where: string | null, offset: number}}
 */
export function condition(state) {
  const own = state.where.trim();
  const parts = chosen(state.filters);
  if (own) parts.unshift(parts.length ? `(${own})` : own);
  const before = state.where.length - state.where.trimStart().length;
  return { where: parts.join(" and ") || null, offset: (parts.length > 1 ? 1 : 0) - before };
}

/**
 * Return the body of a search request.
 *
 * @param {State} state
 * @param {Settings} settings
 */
export function searchRequest(state, settings) {
  const { where } = condition(state);
  return {
    ...(state.query.trim() ? { query: state.query } : {}),
    k: state.k,
    ...(where ? { where } : {}),
    fusion: settings.fusion,
    ...(settings.a === null ? {} : { a: settings.a }),
    explain: true,
  };
}
