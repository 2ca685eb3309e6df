/** The settings of a search: from the state into the form, and back. */

import { byId, CodePoints, element } from "./dom.js";
import { FUSIONS, possibleK } from "./state.js";

const MOST_VALUES = 5; // of a field, as the server gives them
const NO_INFO = { name: "", weight: null, fields: [] };

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./state.js").Settings} Settings
 */

/** @param {"first" | "second"} side @param {string} selector @returns {any} */
const control = (side, selector) => byId(side).querySelector(selector);
const query = () => byId("query");
const where = () => byId("where");
const hits = () => byId("k");

export const nameOf = ({ fusion, a }) => (a === null ? fusion : `${fusion} a=${a}`);

/** Offer the fusions, and say in time which numbers of hits there can be. */
export function prepare() {
  for (const box of document.querySelectorAll("[name=fusion]")) {
    box.append(...FUSIONS.map((name) => element("option", {}, name)));
  }
  hits().addEventListener("change", () => {
    if (hits().value) hits().value = String(possibleK(Number(hits().value)));
  });
}

/**
 * Show the state in the form. A box in which somebody types keeps its text.
 *
 * @param {State} state
 * @param {any} info of the index, if the server gave it
 */
export function fill(state, info = NO_INFO) {
  for (const [box, text] of [[query(), state.query], [where(), state.where], [hits(), state.k]]) {
    if (box !== document.activeElement) box.value = String(text);
  }
  fillSettings("first", state.first, info);
  fillSettings("second", state.second ?? { fusion: "", a: null }, info);
  fillFilters(state, info);
}

/** @param {"first" | "second"} side @param {Settings} settings @param {any} info */
function fillSettings(side, { fusion, a }, info) {
  control(side, "select").value = fusion;
  control(side, "input").value = a ?? info.weight;
  const shown = (a ?? info.weight)?.toFixed(2);
  control(side, "output").value = a !== null ? shown : shown ? `${shown}, as the index` : "as the index";
}

/**
 * Enable the weights that the fusions use.
 *
 * @param {import("./hits.js").Side[]} sides
 */
export function enableWeights(sides) {
  for (const side of ["first", "second"]) {
    const answer = sides.find(({ id }) => id === side)?.answer;
    control(side, "input").disabled = !answer || answer.query.a === null;
  }
}

function fillFilters(state, info) {
  const box = byId("fields");
  const shown = JSON.stringify([info.name, info.fields]);
  if (box.dataset.shown !== shown) {
    box.dataset.shown = shown;
    const fields = info.fields.filter(({ frequent }) => frequent.length);
    box.replaceChildren(...fields.map(fieldset));
  }
  const chosen = new Set(state.filters.map((each) => JSON.stringify(each)));
  for (const each of box.querySelectorAll("input")) each.checked = chosen.has(each.value);
  const count = state.filters.length + (state.where.trim() ? 1 : 0);
  byId("filter-count").textContent = count ? `(${count})` : "";
}

/** @param {{name: string, documents: number, frequent: {value: unknown, count: number}[]}} field */
function fieldset({ name, documents, frequent: values }) {
  const boxes = values.map(({ value, count }) =>
    element("label", {},
      element("input", { type: "checkbox", value: JSON.stringify([name, value]) }),
      element("bdi", {}, ` ${value} `),
      element("span", { class: "small" }, count.toLocaleString("en"))));
  const counted = values.reduce((all, { count }) => all + count, 0);
  const isPart = values.length >= MOST_VALUES || counted < documents;
  const told = values.length > 1 ? `: the ${values.length} most frequent` : ": the most frequent";
  return element("fieldset", {}, element("legend", {}, name, isPart ? told : null), ...boxes);
}

/**
 * Return what the form says. A filter whose value has no box stays.
 *
 * @param {State} state
 * @param {any} info
 * @returns {State}
 */
export function read(state, info) {
  const boxes = [...byId("fields").querySelectorAll("input")];
  const offered = new Set(boxes.map(({ value }) => value));
  const kept = state.filters.filter((each) => !offered.has(JSON.stringify(each)));
  const checked = boxes.filter((each) => each.checked).map(({ value }) => JSON.parse(value));
  const second = readSettings("second", info);
  return {
    ...state,
    query: query().value,
    where: where().value,
    k: hits().value ? possibleK(Number(hits().value)) : state.k,
    first: readSettings("first", info),
    second: second.fusion ? second : null,
    filters: [...kept, ...checked],
  };
}

/** @param {"first" | "second"} side @param {any} info @returns {Settings} */
function readSettings(side, info) {
  const a = Number(control(side, "input").value);
  const isOfIndex = Math.abs(a - info.weight) < 0.005; // the nearest step
  return { fusion: control(side, "select").value, a: isOfIndex ? null : a };
}

/**
 * Show a problem of the condition under its box, at its place; null: there is none.
 *
 * @param {import("./api.js").Problem | null} problem
 * @param {number} offset where the condition of the box begins in that of the search
 */
export function showConditionProblem(problem, offset = 0) {
  const box = byId("where-problem");
  where().setAttribute("aria-invalid", String(problem !== null));
  box.replaceChildren();
  if (!problem) return;
  const text = new CodePoints(where().value);
  const at = Math.min(Math.max(0, problem.position - offset), text.length);
  const [what] = problem.message.split("\n");
  const wrong = element("mark", {}, text.slice(at, at + 1) || "␣");
  box.append(what, element("code", {}, text.slice(0, at), wrong, text.slice(at + 1)));
  byId("filters").toggleAttribute("open", true);
}
