// Code blocks, with the name of the language and buttons. highlight.js colors them; it is loaded with the
// first block. A growing block is colored line by line: each line once.

import DOMPurify from "dompurify";
import { copyText } from "./clipboard.js";
import { button, element } from "./dom.js";

const kMaxColored = 200000;  // characters; longer code stays plain

let highlighter = null, loading = null;
const states = new WeakMap();  // figure -> {source, n_colored, top, rest}

function load() {
  loading ??= (async () => {
    highlighter = (await import(new URL("page/code.js", document.baseURI).href)).default;
    paintCode(document);
  })().catch(() => { loading = null; });  // the next code block tries again
}

/** Creates a code block. language: the name after the fence, or "". */
export function codeFigure(source, language) {
  const rest = document.createTextNode(source);
  const copy = button("Copy", () => copyText(states.get(figure).source.replace(/\n$/, ""), copy), {className: "quiet", "aria-label": "Copy the code"});
  const wrap = button("Wrap", () => {
    const wraps = figure.classList.toggle("wraps");
    wrap.setAttribute("aria-pressed", String(wraps));
  }, {className: "quiet", "aria-label": "Wrap long lines", "aria-pressed": "false"});
  const figure = element("figure", {className: "code", "data-language": language.toLowerCase()},
    element("figcaption", {}, element("span", {}, language || "text"), element("span", {className: "spring"}), wrap, copy),
    element("pre", {tabIndex: 0, role: "group", "aria-label": "Code"}, element("code", {}, rest)));
  states.set(figure, {source, n_colored: 0, top: undefined, rest});
  return figure;
}

/** If both are code blocks of one language, makes `old` show the code of `fresh`. Returns whether they are. */
export function changeCode(old, fresh) {
  const state = states.get(old), next = states.get(fresh);
  if (!state || !next || old.dataset.language !== fresh.dataset.language) return false;
  if (!next.source.startsWith(state.source.slice(0, state.n_colored))) {
    state.n_colored = 0;
    state.top = undefined;
    state.rest.parentNode.replaceChildren(state.rest);
  }
  state.source = next.source;
  state.rest.data = state.source.slice(state.n_colored);
  return true;
}

/** Colors the complete lines of a block that are not colored yet. */
function color(figure, state) {
  const end = state.source.lastIndexOf("\n") + 1;
  if (end <= state.n_colored || end > kMaxColored || !highlighter.getLanguage(figure.dataset.language)) return;
  const lines = highlighter.highlight(figure.dataset.language, state.source.slice(state.n_colored, end), true, state.top);
  const part = DOMPurify.sanitize(lines.value, {ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true});
  state.rest.before(document.importNode(part, true));
  state.top = lines.top;
  state.n_colored = end;
  state.rest.data = state.source.slice(end);
}

/** Colors the code below `root`. */
export function paintCode(root) {
  for (const figure of root.querySelectorAll("figure.code")) {
    const state = states.get(figure);
    if (figure.dataset.language === "" || state.n_colored === state.source.length) continue;
    if (highlighter === null) return load();
    color(figure, state);
  }
}
