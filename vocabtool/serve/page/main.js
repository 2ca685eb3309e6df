/**
 * The page: the address is the state, the state is shown, and what a person does changes it.
 * Begin reading at `start`, at the end.
 */

import { Api, hasKey, keepKey, Latest, Problem } from "./api.js";
import { enableWeights, fill, nameOf, prepare, read, showConditionProblem } from "./controls.js";
import { snippets } from "./copy.js";
import { byId, debounced, element, plural, sentence } from "./dom.js";
import { counted, documentParts, hideIdleButtons, hitLists } from "./hits.js";
import { Cutter, showReport, VocabularyList } from "./model.js";
import { condition, fromAddress, searchRequest, toAddress } from "./state.js";
import { explainedWords, showWords } from "./words.js";

/** Kinds of models that their names do not explain. */
const KINDS = {
  static: "static (a mean of word vectors)",
  model2vec: "model2vec (a mean of token vectors)",
};

let state = fromAddress(location.search);
/** @type {any[]} What the server says of each index. */
let infos = [];
/** @type {string | null} The hit whose document is open. */
let opened = null;
const api = new Api(showAway, askForKey);
const searches = new Latest();
const documents = new Latest();
const cutter = new Cutter(api);
const vocabulary = new VocabularyList(api);

const infoNow = () => infos.find(({ name }) => name === state.index) ?? infos[0];
const searchPath = ({ name }) => `v1/indexes/${encodeURIComponent(name)}/search`;
/** @param {Partial<import("./state.js").State>} changed */
const addressWith = (changed) => toAddress({ ...state, ...changed });

/**
 * Go to another state. Typing replaces the address, other changes are steps of the history.
 *
 * @param {import("./state.js").State} next
 */
function go(next, { typing = false } = {}) {
  const address = toAddress(next);
  if (address === toAddress(state)) return;
  state = { ...next, wrong: [] };
  history[typing ? "replaceState" : "pushState"](null, "", address);
  showProblems(show());
}

/** Show the state; if the index is not open yet, when it is. */
async function show() {
  let info = infoNow();
  while (info.status !== "ready") {
    showAway(info.problem);
    await new Promise((resolve) => setTimeout(resolve, 500));
    info = await refreshInfo(info.name);
  }
  const isOther = state.index !== "" && state.index !== info.name;
  const gone = isOther ? [`There is no index “${state.index}”.`] : [];
  byId("away").textContent = [...gone, ...state.wrong].join(" ");
  byId("search-tab").hidden = state.tab !== "search" || state.document !== "";
  byId("model-tab").hidden = state.tab !== "model" || state.document !== "";
  byId("document-tab").hidden = state.document === "";
  for (const link of document.querySelectorAll("[data-tab]")) {
    const isHere = link.dataset.tab === state.tab;
    link.setAttribute("aria-current", isHere ? "page" : "false");
    link.href = addressWith({ tab: link.dataset.tab, document: "" });
  }
  document.title = `${state.document || state.query || "Search"} – vocabtool`;
  showInfo(info);
  fill(state, info);
  byId("snippets").replaceChildren(...snippets(info.name, searchRequest(state, state.first)));
  if (state.document) await showDocument(info);
  else await (state.tab === "model" ? showModel(info) : search(info));
}

/** The last part of a path; other names of models stay. @param {string} model */
const shortName = (model) => model.replace(/^(?:[/]|[a-z]:).*[\\/](?=.)/i, "");

function showInfo(info) {
  byId("index").value = info.name;
  const model = info.model ? `model ${shortName(info.model)}` : "vectors of your own";
  const facts = [plural(info.documents, "document"), `commit ${info.commit}`, model];
  byId("index-facts").textContent = `${info.name}: ${facts.join(", ")}`;
}

async function showProblems(work) {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (state.document || state.tab === "model") {
      const place = state.document ? "document-text" : "model-facts";
      byId(place).textContent = sentence(error.message);
      return;
    }
    const isCondition = error.position !== undefined;
    if (isCondition) showConditionProblem(error, condition(state).offset);
    showResults(isCondition ? "The condition is wrong." : sentence(error.message), []);
    byId("status").classList.add("problem");
  }
}

/** @param {string} status read by screen readers @param {Node[]} results */
function showResults(status, results) {
  byId("results").replaceChildren(...results);
  byId("results").setAttribute("aria-busy", "false");
  byId("status").classList.remove("problem");
  byId("status").textContent = status;
}

/** Search with the settings of the state, once or twice. @param {any} info */
async function search(info) {
  const asked = searchRequest(state, state.first);
  if (!asked.query && !asked.where) {
    searches.run(async () => {}); // cancels what runs
    showNothing(info);
    return;
  }
  const all = [state.first, ...(state.second ? [state.second] : [])];
  const began = performance.now();
  byId("results").setAttribute("aria-busy", "true");
  const answers = await searches.run((signal) =>
    Promise.all(all.map((each) =>
      api.post(searchPath(info), searchRequest(state, each), signal))));
  if (!answers) return;
  const sides = answers.map((answer, at) =>
    ({ id: at ? "second" : "first", name: nameOf(all[at]), answer }));
  showSides(sides, Math.round(performance.now() - began));
  if (answers[0].commit !== info.commit) {
    const newer = await refreshInfo(info.name);
    showInfo(newer);
    fill(state, newer);
  }
}

/** @param {import("./hits.js").Side[]} sides @param {number} milliseconds */
function showSides(sides, milliseconds) {
  const focused = opened ?? document.activeElement?.closest("#results article")?.id;
  opened = null;
  const { query, commit } = sides[0].answer;
  showConditionProblem(null);
  showWords(byId("words"), byId("word-facts"), query.text, explainedWords(query));
  const lists = hitLists(sides, addressWith);
  const { hits, total } = sides[0].answer;
  const more = sides.length === 1 && hits.length < total &&
    element("button", { type: "button", id: "more", click: () => showProblems(addHits(sides[0])) },
      "More hits");
  const told = `${counted(sides)}, ${milliseconds} ms, commit ${commit}`;
  showResults(told, [lists, ...(more ? [more] : [])]);
  hideIdleButtons(byId("results"));
  enableWeights(sides);
  if (focused) byId(focused)?.focus();
}

/** Add the next page of a search. If the index has changed meanwhile, begin again. */
async function addHits(side) {
  const path = searchPath(infoNow());
  const request = { ...searchRequest(state, state.first), offset: side.answer.hits.length };
  const began = performance.now();
  const next = await searches.run((signal) => api.post(path, request, signal));
  if (!next) return;
  if (next.commit !== side.answer.commit) {
    await search(infoNow());
    byId("status").append(". The index has changed: these are its first hits.");
    return;
  }
  const { hits, notes } = side.answer;
  const answer = {
    ...side.answer,
    hits: [...hits, ...next.hits],
    notes: [...new Set([...notes, ...next.notes])],
  };
  showSides([{ ...side, answer }], Math.round(performance.now() - began));
  focusHit("first", hits.length + 1);
}

function showNothing(info) {
  showConditionProblem(null);
  showWords(byId("words"), byId("word-facts"), "", []);
  showResults(`Type to search ${plural(info.documents, "document")}.`, []);
}

/** Ask for the facts of an index again; return those of the chosen one. @param {string} name */
async function refreshInfo(name) {
  const info = await api.get(`v1/indexes/${encodeURIComponent(name)}`);
  infos = infos.map((each) => (each.name === name ? info : each));
  return infoNow();
}

/** Show the whole document whose id is in the address. @param {any} info */
async function showDocument(info) {
  const { document: id } = state;
  const { title, about, text } = Object.fromEntries(
    ["title", "about", "text"].map((name) => [name, byId(`document-${name}`)]));
  byId("back").href = addressWith({ document: "" });
  title.replaceChildren(element("bdi", {}, id));
  for (const box of [about, text]) box.replaceChildren();
  title.focus();
  const path = `v1/indexes/${encodeURIComponent(info.name)}/documents/${encodeURIComponent(id)}`;
  const found = await documents.run((signal) => api.get(path, signal));
  if (!found) return;
  const parts = documentParts(found);
  about.replaceChildren(...parts.about);
  text.replaceChildren(parts.text);
}

async function showModel(info) {
  const kind = [KINDS[info.kind] ?? info.kind, `${info.dim} dimensions`, info.metric, info.dtype];
  const model = shortName(info.model ?? "Vectors of your own");
  byId("model-facts").textContent = `${model}: ${kind.filter(Boolean).join(", ")}`;
  for (const name of ["text", "prefix"]) {
    if (byId(name) !== document.activeElement) byId(name).value = state[name];
  }
  for (const part of document.querySelectorAll("#model-tab section")) {
    part.hidden = !info.has_vocabulary;
  }
  if (!info.has_vocabulary) {
    byId("model-facts").append(". It has no vocabulary, so no word is known or unknown.");
    return;
  }
  showReport(api, info.name);
  await Promise.all([cutter.show(info.name, state.text), vocabulary.show(info.name, state.prefix)]);
}

/** @param {string} told why the server does not answer; "": it does */
function showAway(told) {
  byId("away").textContent =
    told && `${sentence(told.replace(/; try again$/, ""))}, trying again …`;
}

/** Settle when a person gave another key. @returns {Promise<void>} */
function askForKey() {
  const form = byId("key-form");
  byId("key-problem").textContent = hasKey() ? "The server does not accept this key." : "";
  form.hidden = false;
  byId("key").focus();
  return new Promise((resolve) => {
    form.addEventListener("submit", () => resolve(), { once: true });
  });
}

function useKey(event) {
  event.preventDefault();
  keepKey(byId("key").value);
  byId("key-form").hidden = true;
  byId("query").focus();
}

/**
 * Keys: / goes to the search box, arrows go through the hits, Enter opens one, Escape goes back.
 *
 * @param {KeyboardEvent} event
 */
function onKey(event) {
  const here = event.target;
  const isTyping = here.matches("input, select, textarea");
  const hit = here.closest("#results article");
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (event.key === "Escape" && state.document) byId("back").click();
  else if (event.key === "/" && isPlain && !isTyping) byId("query").focus();
  else if (event.key === "Enter" && here === hit) hit.querySelector("a[data-open]").click();
  else if (event.key === "Escape" && here !== byId("query")) byId("query").focus();
  else if (event.key === "ArrowDown" && here === byId("query")) focusHit("first", 1);
  else if (hit && event.key.startsWith("Arrow")) moveFrom(hit.id, event.key);
  else return;
  event.preventDefault();
}

/** @param {string} id of a hit @param {string} key */
function moveFrom(id, key) {
  const [side, rank] = id.split("-");
  if (key === "ArrowDown") focusHit(side, Number(rank) + 1);
  else if (key === "ArrowUp" && rank === "1") byId("query").focus();
  else if (key === "ArrowUp") focusHit(side, Number(rank) - 1);
  else focusHit(key === "ArrowLeft" ? "first" : "second", Number(rank));
}

const focusHit = (side, rank) => byId(`${side}-${rank}`)?.focus();

/** Follow a link to another state without loading the page again. @param {MouseEvent} event */
function onClick(event) {
  const link = event.target.closest("a[data-tab], a[data-search], a[data-open]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (link.matches("[data-open]")) opened = link.closest("article").id;
  go(fromAddress(new URL(link.href).search));
}

/** Listen to the controls, which need what the server says of the index. */
function listen() {
  const readForm = (typing) => go(read(state, infoNow()), { typing });
  const readModel = () =>
    go({ ...state, text: byId("text").value, prefix: byId("prefix").value }, { typing: true });
  byId("search-form").addEventListener("input", debounced(({ target }) =>
    readForm(!target.matches("select, [type=checkbox]"))));
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    readForm(false);
  });
  byId("model-tab").addEventListener("input", debounced(readModel));
  byId("index").addEventListener("change", ({ target }) =>
    go({ ...state, index: target.value, filters: [], document: "" }));
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onClick);
  addEventListener("resize", () => hideIdleButtons(byId("results")));
  addEventListener("popstate", () => {
    const next = fromAddress(location.search);
    if (toAddress(next) === toAddress(state)) return; // another hit of the same page
    state = next;
    document.activeElement?.blur();
    showProblems(show());
  });
}

async function start() {
  byId("key-form").addEventListener("submit", useKey);
  prepare();
  fill(state);
  infos = (await api.get("v1/indexes")).indexes;
  byId("index").replaceChildren(...infos.map(({ name }) => element("option", {}, name)));
  byId("index-choice").hidden = infos.length < 2;
  if (infos.length > 1 && !state.index) { // a link goes to this index, also if others come first
    state = { ...state, index: infos[0].name };
    history.replaceState(null, "", toAddress(state) + location.hash);
  }
  listen();
  showProblems(show());
  if (state.tab === "search" && !state.document) byId("query").focus();
}

start();
