// Converts Markdown to DOM nodes with markdown-it. HTML in the Markdown stays text. DOMPurify checks the
// result a second time: only the elements and attributes that these rules make pass.

import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";
import { codeFigure } from "./code_view.js";
import { element } from "./dom.js";
import { addFootnotes } from "./markdown_footnotes.js";
import { addMath } from "./markdown_math.js";

const kTags = ["p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "s", "a", "br", "hr",
  "table", "thead", "tbody", "tr", "th", "td", "div", "span", "sup"];
const kAttributes = ["href", "title", "start", "class"];

/** Whether links may have this address. */
function isSafe(address) {
  return /^(https?:\/\/|mailto:)/i.test(address.trim());
}

/** <br> is the only tag that is known, because models write it in cells of tables. */
function breakRule(state, silent) {
  const found = /^<br\s*\/?>/i.exec(state.src.slice(state.pos, state.pos + 8));
  if (found === null) return false;
  if (!silent) state.push("hardbreak", "br", 0);
  state.pos += found[0].length;
  return true;
}

function made() {
  const markdown = new MarkdownIt({html: false, linkify: true, breaks: true});
  const {rules} = markdown.renderer, escaped = markdown.utils.escapeHtml;
  markdown.validateLink = isSafe;
  markdown.linkify.set({fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false});
  markdown.inline.ruler.before("autolink", "break", breakRule);
  addMath(markdown);
  addFootnotes(markdown);
  rules.fence = (tokens, i) => `<pre class="language-${escaped(tokens[i].info.trim().split(/\s/)[0])}"><code>${escaped(tokens[i].content)}</code></pre>`;
  rules.code_block = (tokens, i) => `<pre><code>${escaped(tokens[i].content)}</code></pre>`;
  // An image becomes a link, because loading it would send a request to another server.
  rules.image = (tokens, i) => `<a href="${escaped(tokens[i].attrGet("src"))}">${escaped(tokens[i].content || tokens[i].attrGet("src"))}</a>`;
  // The page itself uses h1 and h2, so an answer's headings begin at h3.
  for (const rule of ["heading_open", "heading_close"]) {
    rules[rule] = (tokens, i) => `<${rule === "heading_close" ? "/" : ""}h${Math.min(Number(tokens[i].tag[1]) + 2, 6)}>`;
  }
  for (const tag of ["th", "td"]) {
    rules[`${tag}_open`] = (tokens, i) => {
      const side = /(center|right)/.exec(tokens[i].attrGet("style") ?? "")?.[1];
      return `<${tag}${side ? ` class="${side}"` : ""}>`;
    };
  }
  return markdown;
}

const markdown = made();

function decorateItem(item) {
  const text = item.firstChild?.nodeName === "P" ? item.firstChild.firstChild : item.firstChild;
  const mark = text?.nodeType === Node.TEXT_NODE ? /^\s*\[([ xX])\]\s/.exec(text.data) : null;
  if (mark === null) return;
  const done = mark[1] !== " ";
  text.data = text.data.slice(mark[0].length);
  text.before(element("input", {type: "checkbox", checked: done, disabled: true, "aria-label": done ? "done" : "to do"}));
  item.classList.add("task");
}

/** Adds what is not in the HTML: buttons of code, boxes of tasks, scrollable tables, attributes of links. */
function decorate(root) {
  for (const link of root.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const item of root.querySelectorAll("li")) decorateItem(item);
  for (const cell of root.querySelectorAll("th")) cell.scope = "col";
  for (const table of root.querySelectorAll("table")) {
    const frame = element("div", {className: "table", tabIndex: 0, role: "group", "aria-label": "Table"});
    table.replaceWith(frame);
    frame.append(table);
  }
  for (const pre of root.querySelectorAll("pre")) {
    pre.replaceWith(codeFigure(pre.textContent, pre.className.replace(/^language-/, "")));
  }
}

/** Returns the top-level blocks of the text: {line, html}. line: where the block begins. env: markdown-it's
 *  environment, which keeps the definitions of links between calls; env.grows: the text is not complete. */
export function blocksOf(text, env) {
  const blocks = [];
  const tokens = markdown.parse(text, env);
  for (let begin = 0, end = 0; begin < tokens.length; begin = end) {
    let depth = 0;
    do {
      depth += tokens[end].nesting;
      ++end;
    } while (depth > 0);
    blocks.push({line: tokens[begin].map[0], html: markdown.renderer.render(tokens.slice(begin, end), markdown.options, env)});
  }
  return blocks;
}

/** Returns the element of a block's HTML. */
export function blockElement(html) {
  const part = DOMPurify.sanitize(html, {ALLOWED_TAGS: kTags, ALLOWED_ATTR: kAttributes, ALLOW_DATA_ATTR: false, RETURN_DOM_FRAGMENT: true});
  const made = document.importNode(part, true);
  decorate(made);
  return made.firstElementChild ?? element("p");
}
