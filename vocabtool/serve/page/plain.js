/** Texts in Markdown and reStructuredText without their markup, to read. Never as HTML. */

// Of a match, the groups `lead`, which other patterns may match too, and `kept` stay. The group
// `before` and the rest are hidden. All repetitions that could be slow are bounded: the texts are
// strangers'.
const STRONG = /(?<!\w)(?<before>\*\*)(?=\S)(?<kept>[^*\n]{1,200})(?<=\S)\*\*(?!\w)/g;
const EMPHASIS = /(?<![\w*])(?<before>\*)(?=[^\s*])(?<kept>[^*\n]{1,200})(?<=\S)\*(?![\w*])/g;
const MARKDOWN = {
  code: [
    /^(?<before> {0,3}(?:```|~~~)[^\n]{0,100}\n)(?<kept>[^]*?)(?:^ {0,3}(?:```|~~~) *$|$(?![^]))/gm,
    /^(?<kept>(?: {4}|\t)[^\n]*)$/gm,
    /(?<!`)(?<before>`{1,2})(?!`)(?<kept>[^`\n]{1,200})\k<before>(?!`)/g,
  ],
  other: [
    /^ {0,3}#{1,6} +/gm,
    /^\([\w-]{1,100}\)=\n?/gm, // the target of a link
    /(?<before>!?\[)(?<kept>[^[\]\n]{1,200})\]\([^()\n]{0,400}\)/g,
    STRONG, EMPHASIS,
  ],
};
const RST = {
  code: [
    /^(?<lead> {0,40}(?:\.\. (?:code|code-block|sourcecode|testcode|doctest)::|(?!\.\. )[^\n]{0,400}::$)[^\n]{0,40}\n\s*?\n)(?<kept>(?:(?:  |\t)[^\n]*\n?|\n)+)/gm,
    /(?<before>``)(?<kept>[^`\n]{1,200})``/g,
  ],
  other: [
    /\n?^ {0,8}\.\. _[^\n]{1,200}: *$/gm, // the target of a link
    /^ {0,40}\.\. (?=[a-z-]{1,40}::)/gm,
    /(?<=\0 ?[a-z-]{1,40}:):/g, // of a directive, whose dots are hidden
    /:[a-z][a-z:+-]{0,40}:(?=`)/g,
    /(?<!`)(?<before>`)(?<kept>[^`<>]{1,200}?)\s{0,4}<[^`<>]{1,400}>`_{0,2}/g,
    /(?<!`)(?<before>`(?:~(?:[^`.\s]{1,80}\.){0,20}|!)?)(?<kept>[^`]{1,200})`_{0,2}/g,
    STRONG, EMPHASIS,
    /(?<=\0)\\ ?/g, // between markup and a letter
    /\n?^ {0,3}([=\-~^"'`#*+.:_])\1{2,200} *$/gm, // the line under a heading
  ],
};
const KINDS = [[/\.(md|markdown|mdx)(?=#|:|$)/i, MARKDOWN], [/\.rst(?=#|:|$)/i, RST]];
const NONE = { code: [], other: [] };
const CODE = "\x01"; // in the place of what no other pattern may match

/** @param {string} text @returns {string} As many code points, which are not shown. */
const hidden = (text) => "\0".repeat([...text].length);

/**
 * Return a text with U+0000 for every character of its markup. Places in it stay the same.
 *
 * @param {string} text
 * @param {string} id It begins with the name of the file.
 * @param {string} [path] The headings above the text, which are left out where it begins.
 * @returns {string}
 */
export function asPlain(text, id, path = "") {
  const [, { code, other }] = KINDS.find(([ending]) => ending.test(id)) ?? [null, NONE];
  const given = text.replace(/[\0\x01]/g, "\ufffd");
  let matched = given;
  for (const pattern of [...code, ...other]) {
    matched = matched.replace(pattern, (match, ...rest) => {
      const { lead = "", before = "", kept = "" } = Object(rest.at(-1));
      const after = match.length - lead.length - before.length - kept.length;
      const shown = code.includes(pattern) ? CODE.repeat(kept.length) : kept;
      return lead + "\0".repeat(before.length) + shown + "\0".repeat(after);
    });
  }
  let plain = "";
  for (const { 0: run, index } of matched.matchAll(/\0+|[^\0]+/g)) {
    const part = given.slice(index, index + run.length);
    plain += run.startsWith("\0") ? hidden(part) : part;
  }
  return path ? withoutHeadings(plain, path) : plain;
}

/** Hide the lines at the start of a text that say only what the path says. */
function withoutHeadings(text, path) {
  const letters = (line) => line.replace(/[^\p{L}\p{N}]/gu, "");
  const headings = new Set([path, ...path.split(" > ")].map(letters));
  let end = 0;
  for (const { 0: line, index } of text.matchAll(/[^\n]*(?:\n|$)/g)) {
    const said = letters(line);
    if (said && !headings.has(said)) break;
    end = index + line.length;
    if (end === text.length) return text; // it is nothing but headings
  }
  return hidden(text.slice(0, end)) + text.slice(end);
}
