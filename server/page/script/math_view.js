// Sets formulas with KaTeX, which is loaded with the first formula. Until then, and if the TeX has an error,
// its source is shown.

import { element } from "./dom.js";

let katex = null, loading = null;
const sources = new WeakMap();  // element -> TeX that is set in it

function load() {
  loading ??= (async () => {
    document.head.append(element("link", {rel: "stylesheet", href: new URL("page/katex.css", document.baseURI).href}));
    katex = (await import(new URL("page/math.js", document.baseURI).href)).default;
    paintMath(document);
  })().catch(() => { loading = null; });  // the next formula tries again
}

/** Sets the formulas below `root` that are not set yet. */
export function paintMath(root) {
  for (const node of root.querySelectorAll(".math:not(.open)")) {
    if (sources.has(node)) continue;
    if (katex === null) return load();
    const tex = node.textContent;
    sources.set(node, tex);
    try {
      katex.render(tex, node, {displayMode: node.classList.contains("display"), throwOnError: true, strict: "ignore", trust: false, maxSize: 50});
    } catch {
      node.textContent = tex;
      node.classList.add("wrong");
    }
  }
}

/** Whether KaTeX has set this element. */
export function isSet(node) {
  return sources.has(node);
}

/** Whether `old` already shows the formula of `fresh`. */
export function sameMath(old, fresh) {
  return sources.has(old) && sources.get(old) === fresh.textContent && !fresh.classList.contains("open");
}
