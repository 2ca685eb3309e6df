/** The search as curl, Python and a command, for copying. */

import { hasKey } from "./api.js";
import { element } from "./dom.js";

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** @param {unknown} value A string as JSON is also one in Python. */
const python = (value) =>
  value === true ? "True" : value === false ? "False" : JSON.stringify(value);

function asCurl(index, request) {
  const path = `v1/indexes/${encodeURIComponent(index)}/search`;
  const lines = [
    `curl ${shell(new URL(path, document.baseURI).href)}`,
    ...(hasKey() ? ['-H "Authorization: Bearer $VOCABTOOL_KEY"'] : []),
    "-H 'Content-Type: application/json'",
    `-d ${shell(JSON.stringify(request))}`,
  ];
  return lines.join(" \\\n  ");
}

function asPython(index, { query, ...settings }) {
  const pairs = Object.entries(settings).map(([name, value]) => `${name}=${python(value)}`);
  const given = query === undefined ? pairs : [python(query), ...pairs];
  return `import vocabtool

index = vocabtool.open(${python(index)})  # its folder
for hit in index.search(${given.join(", ")}):
    print(hit.id, hit.score, hit.text)`;
}

function asCommand(index, { query, k, where, fusion, a }) {
  const options = [
    `-k ${k}`,
    `--fusion ${fusion}`,
    ...(a === undefined ? [] : [`-a ${a}`]),
    ...(where === undefined ? [] : [`--where ${shell(where)}`]),
    "--explain",
  ];
  const given = query === undefined ? [] : [shell(query)];
  return ["vocabtool search", ...options, "--", shell(index), ...given].join(" ");
}

/**
 * @param {string} index
 * @param {object} request
 * @returns {HTMLElement[]}
 */
export function snippets(index, request) {
  const forms = [["curl", asCurl], ["Python", asPython], ["Command", asCommand]];
  return forms.map(([name, write]) => snippet(name, write(index, request)));
}

function snippet(name, text) {
  const code = element("pre", { tabindex: 0, role: "region", "aria-label": name }, text);
  const copy = async ({ currentTarget: button }) => {
    getSelection()?.selectAllChildren(code);
    await navigator.clipboard?.writeText(text); // only on https and this machine
    if (navigator.clipboard) button.textContent = "Copied";
  };
  const looks = { type: "button", "aria-label": `Copy ${name}` };
  const button = element("button", { ...looks, click: copy }, "Copy");
  return element("div", { class: "snippet" }, element("p", {}, name, " ", button), code);
}
