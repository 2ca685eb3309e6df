/** Elements of the page, and texts whose offsets are code points. */

export const byId = (id) => document.getElementById(id);

/**
 * Make an element. A function is a listener, true and false are an attribute without a value,
 * null and undefined leave it out.
 *
 * @param {string} name
 * @param {Object<string, unknown>} attributes
 * @param {...(Node | string | null)} children
 */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (typeof value === "boolean") made.toggleAttribute(key, value);
    else if (value !== null && value !== undefined) made.setAttribute(key, String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/**
 * A text that is cut at code points, as Python counts them; JavaScript counts UTF-16 units.
 * Characters that are not to be shown are U+0000.
 */
export class CodePoints {
  constructor(text) {
    this.text = text;
    this.points = /[\ud800-\udfff]/.test(text) ? Array.from(text) : null;
    this.length = this.points?.length ?? text.length;
  }

  slice(start, end) {
    const part = this.points ? this.points.slice(start, end).join("") : this.text.slice(start, end);
    return part.replaceAll("\0", "");
  }
}

/**
 * Return a text in which spans are elements. `spans` are in order; those that overlap are left out.
 *
 * @template {{start: number, end: number}} Span
 * @param {CodePoints} text
 * @param {Span[]} spans
 * @param {(shown: string, span: Span) => Node} mark
 * @param {[number, number]} part the start and end of the part to show
 */
export function marked(text, spans, mark, [start, end] = [0, text.length]) {
  const shown = document.createDocumentFragment();
  let at = start;
  for (const span of spans) {
    if (span.start < at || span.end > end) continue;
    shown.append(text.slice(at, span.start), mark(text.slice(span.start, span.end), span));
    at = span.end;
  }
  shown.append(text.slice(at, end));
  return shown;
}

/** @param {string} text @returns {string} It begins with a capital letter. */
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export const plural = (count, one) =>
  `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;

/**
 * Return a listener that calls another one when no event came for some milliseconds.
 *
 * @param {(event: Event) => void} listener
 */
export function debounced(listener, milliseconds = 120) {
  let timer = 0;
  return (event) => {
    clearTimeout(timer);
    timer = setTimeout(() => listener(event), milliseconds);
  };
}
