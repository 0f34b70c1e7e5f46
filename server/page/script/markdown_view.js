// Shows a growing Markdown text. Blocks that can no longer change are not parsed again, so the work for a new
// token does not depend on the length of the answer.

import { blockElement, blocksOf } from "./markdown.js";
import { paintCode } from "./code_view.js";
import { paintMath } from "./math_view.js";
import { morph } from "./morph.js";

const kOpenBlocks = 2;  // last blocks, which more text may change

/** Returns the text of a block for screen readers, without the text of its buttons. */
function wordsOf(node) {
  if (node.nodeName === "BUTTON") return "";
  if (node.nodeType === Node.TEXT_NODE) return node.data;
  const words = [...node.childNodes].map(wordsOf).join("");
  return ["LI", "TD", "TH", "FIGCAPTION"].includes(node.nodeName) ? `${words}, ` : words;
}

/** Returns the place in the text where a line begins. */
function placeOf(text, line) {
  let at = 0;
  for (; line > 0; --line) at = text.indexOf("\n", at) + 1;
  return at;
}

export class MarkdownView {
  constructor(container) {
    this.container = container;
    this.clear();
  }

  clear() {
    this.container.replaceChildren();
    this.env = {};
    this.text = "";
    this.from = 0;  // where the open blocks begin in the text
    this.open = [];  // HTML of the open blocks; their elements are the container's last children
    this.n_spoken = 0;
  }

  /** Shows the text. Returns the words of the blocks that have become complete since the last call. done: all
   *  blocks are complete. */
  show(source, done) {
    const text = source.replace(/\r\n?/g, "\n");
    // A definition of a link at the end applies to all of the text.
    const defines = done && this.from > 0 && /^ {0,3}\[[^\]\n]+\]:/m.test(text);
    const spoken = this.n_spoken;
    if (!text.startsWith(this.text) || defines) this.clear();
    if (defines) this.n_spoken = spoken;
    this.text = text;
    this.env.grows = !done;
    const tail = text.slice(this.from), blocks = blocksOf(tail, this.env);
    const first = this.container.childNodes.length - this.open.length;
    blocks.forEach(({html}, i) => {
      if (html === this.open[i]) return;
      const fresh = blockElement(html), old = this.container.childNodes[first + i];
      if (old === undefined) this.container.append(fresh);
      else morph(old, fresh);
    });
    while (this.container.childNodes.length > first + blocks.length) this.container.lastChild.remove();
    paintCode(this.container);
    paintMath(this.container);
    const n_closed = Math.max(blocks.length - kOpenBlocks, 0);
    this.open = blocks.slice(n_closed).map(({html}) => html);
    if (n_closed > 0) this.from += placeOf(tail, blocks[n_closed].line);
    const complete = this.container.childNodes.length - (done ? 0 : this.open.length);
    const words = [...this.container.childNodes].slice(this.n_spoken, complete).map(wordsOf);
    this.n_spoken = Math.max(this.n_spoken, complete);
    return words;
  }
}
