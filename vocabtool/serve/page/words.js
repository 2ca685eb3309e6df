/** A text with its words coloured by kind; the one in focus or under the pointer is explained. */

import { CodePoints, element, marked } from "./dom.js";

/**
 * @typedef {object} Word
 * @property {string} surface
 * @property {number | null} start In code points; null: it is not in the text as written.
 * @property {number} end
 * @property {string | null} mark known, unknown, absent, code, stop; null: not known.
 * @property {string[]} facts
 */

/**
 * Show a text with its words. Does nothing if the box shows the same already.
 *
 * @param {HTMLElement} box for the text
 * @param {HTMLElement} line for the facts of one word
 * @param {string} text
 * @param {Word[]} words
 */
export function showWords(box, line, text, words) {
  const shown = JSON.stringify([text, words]);
  if (box.dataset.shown === shown) return;
  box.dataset.shown = shown;
  const placed = words.filter(({ start }) => start !== null);
  const others = words.filter(({ start }) => start === null);
  const ordered = placed.toSorted((one, other) => one.start - other.start);
  const made = marked(new CodePoints(text), ordered, (part, word) => button(part, word, line));
  box.replaceChildren(made, ...others.flatMap((word) => [" ", button(word.surface, word, line)]));
  line.replaceChildren();
}

function button(part, word, line) {
  const told = `${part}: ${word.facts.join(", ")}`;
  const show = () => line.replaceChildren(told);
  const hide = () => line.replaceChildren();
  const looks = { class: `word ${word.mark ?? ""}`, "aria-label": told };
  const listeners = { focus: show, mouseenter: show, blur: hide, mouseleave: hide };
  return element("button", { type: "button", ...looks, ...listeners }, part);
}

/**
 * Return the words of a query, explained.
 *
 * @param {{words: (Word & {weighs: number | null})[]}} query
 * @returns {Word[]}
 */
export function explainedWords({ words }) {
  return words.map((word) => {
    const weighs = word.mark === "stop" || word.weighs === null
      ? [] : [`weighs ${word.weighs.toFixed(2)}`];
    return { ...word, facts: [...word.facts, ...weighs] };
  });
}
