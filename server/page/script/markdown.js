// Converts Markdown to DOM nodes: paragraphs, headings, lists, code, quotes, tables, rules. HTML stays text.
// While an answer grows, only changed parts are created again.

import { button, element } from "./dom.js";
import { inlineNodes } from "./markdown_inline.js";
import { copyText } from "./clipboard.js";

const kFence = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const kHeading = /^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$/;
const kRule = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const kItem = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+|$)/;
const kQuote = /^ {0,3}>\s?/;
const kTableRule = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const kMaxPartDepth = 8;  // nesting of lists and quotes; deeper ones stay text

const isBlank = (line) => line.trim() === "";
const indentOf = (line) => /^\s*/.exec(line)[0].replace(/\t/g, "    ").length;

function beginsTable(lines, at) {
  return lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && kTableRule.test(lines[at + 1]) &&
    cellsOf(lines[at]).length === cellsOf(lines[at + 1]).length;
}

/** Whether this line ends the paragraph before it. */
function interrupts(lines, at) {
  const line = lines[at];
  return isBlank(line) || kFence.test(line) || kHeading.test(line) || kRule.test(line) || kQuote.test(line) ||
    (kItem.test(line) && !/^\s*\d+[.)]/.test(line)) || /^\s*1[.)]\s/.test(line) || beginsTable(lines, at);
}

function endOfFence(lines, at) {
  const fence = kFence.exec(lines[at])[1];
  const close = new RegExp(`^ {0,3}\\${fence[0]}{${fence.length},}\\s*$`);
  for (let i = at + 1; i < lines.length; ++i) {
    if (close.test(lines[i])) return i + 1;
  }
  return lines.length;
}

function endOfList(lines, at) {
  const first = kItem.exec(lines[at]);
  const indent = indentOf(first[1]);
  let end = at + 1;
  for (let i = at + 1; i < lines.length; ++i) {
    if (isBlank(lines[i])) continue;
    const inside = indentOf(lines[i]) > indent || (kItem.test(lines[i]) && indentOf(lines[i]) === indent);
    const lazy = i === end && !isBlank(lines[i - 1]) && !interrupts(lines, i);
    if (!inside && !lazy) break;
    if (kFence.test(lines[i].trim()) && indentOf(lines[i]) > indent) {
      const stripped = lines.map((line) => line.trim());
      i = endOfFence(stripped, i) - 1;
    }
    end = i + 1;
  }
  return end;
}

function endOfPart(lines, at) {
  const line = lines[at];
  if (kFence.test(line)) return endOfFence(lines, at);
  if (kHeading.test(line) || kRule.test(line)) return at + 1;
  if (kItem.test(line)) return endOfList(lines, at);
  let end = at + 1;
  if (kQuote.test(line)) {
    while (end < lines.length && !isBlank(lines[end])) ++end;
  } else if (beginsTable(lines, at)) {
    while (end < lines.length && lines[end].includes("|")) ++end;
  } else {
    while (end < lines.length && !interrupts(lines, end)) ++end;
  }
  return end;
}

/** Returns the sources of the text's parts in order. A part is, for example, a paragraph, a list or a code
 *  block. */
export function partsOf(text) {
  const lines = text.split("\n");
  const parts = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      ++at;
      continue;
    }
    const end = endOfPart(lines, at);
    parts.push(lines.slice(at, end).join("\n"));
    at = end;
  }
  return parts;
}

function codeNode(lines) {
  const [, fence, language] = kFence.exec(lines[0]);
  const close = new RegExp(`^ {0,3}\\${fence[0]}{${fence.length},}\\s*$`);
  const closed = lines.length > 1 && close.test(lines[lines.length - 1]);
  return codeFigure(lines.slice(1, closed ? -1 : undefined).join("\n"), language.trim().split(/\s/)[0]);
}

/** Creates a code block with the name of its language and a button that copies it. */
export function codeFigure(code, language) {
  const copy = button("Copy", () => copyText(code, copy), {className: "quiet", "aria-label": "Copy the code"});
  return element("figure", {className: "code"},
    element("figcaption", {}, element("span", {}, language || "text"), copy),
    element("pre", {tabIndex: 0, role: "region", "aria-label": "Code"}, element("code", {}, code)));
}

function listNode(lines, depth) {
  const first = kItem.exec(lines[0]);
  const indent = indentOf(first[1]);
  const ordered = /\d/.test(first[2]);
  const items = [];
  for (const line of lines) {
    const mark = kItem.exec(line);
    if (mark && indentOf(mark[1]) <= indent) {
      items.push({width: mark[0].length, lines: [line.slice(mark[0].length)]});
    } else {
      const item = items[items.length - 1];
      item.lines.push(line.slice(Math.min(item.width, indentOf(line))));
    }
  }
  const list = element(ordered ? "ol" : "ul", ordered ? {start: parseInt(first[2], 10)} : {});
  for (const item of items) {
    const parts = partNodes(partsOf(item.lines.join("\n")), depth + 1);
    const tight = parts.length > 0 && parts[0].nodeName === "P";
    list.append(element("li", {}, ...(tight ? [...parts[0].childNodes, ...parts.slice(1)] : parts)));
  }
  return list;
}

function cellsOf(line) {
  const cells = [];
  let cell = "", inCode = false;
  for (let i = 0; i < line.length; ++i) {
    if (line[i] === "\\" && line[i + 1] === "|") {
      cell += "|";
      ++i;
    } else if (line[i] === "|" && !inCode) {
      cells.push(cell.trim());
      cell = "";
    } else {
      if (line[i] === "`") inCode = !inCode;
      cell += line[i];
    }
  }
  cells.push(cell.trim());
  if (cells[0] === "") cells.shift();
  if (cells.length > 0 && cells[cells.length - 1] === "") cells.pop();
  return cells;
}

function tableNode(lines) {
  const classes = cellsOf(lines[1]).map((rule) => rule.endsWith(":") ? (rule.startsWith(":") ? "middle" : "end") : undefined);
  const row = (line, tag) => {
    const cells = cellsOf(line);
    return element("tr", {}, ...classes.map((className, i) =>
      element(tag, {className, scope: tag === "th" ? "col" : undefined}, ...inlineNodes(cells[i] ?? ""))));
  };
  return element("div", {className: "table", tabIndex: 0, role: "region", "aria-label": "Table"},
    element("table", {}, element("thead", {}, row(lines[0], "th")),
      element("tbody", {}, ...lines.slice(2).map((line) => row(line, "td")))));
}

function partNode(source, depth) {
  const lines = source.split("\n");
  if (kFence.test(lines[0])) return codeNode(lines);
  const heading = kHeading.exec(lines[0]);
  // The page itself uses h1 and h2, so an answer's headings begin at h3.
  if (heading) return element(`h${Math.min(heading[1].length + 2, 6)}`, {}, ...inlineNodes(heading[2] ?? ""));
  if (kRule.test(lines[0])) return element("hr");
  if (depth < kMaxPartDepth && kItem.test(lines[0])) return listNode(lines, depth);
  if (depth < kMaxPartDepth && kQuote.test(lines[0])) {
    const inner = lines.map((line) => line.replace(kQuote, "")).join("\n");
    return element("blockquote", {}, ...partNodes(partsOf(inner), depth + 1));
  }
  if (beginsTable(lines, 0)) return tableNode(lines);
  return element("p", {}, ...inlineNodes(lines.map((line) => line.trimStart()).join("\n")));
}

function partNodes(parts, depth) {
  return parts.map((part) => partNode(part, depth));
}

/** Returns the text of a part for screen readers, without the text of its buttons. */
function wordsOf(node) {
  if (node.nodeName === "BUTTON") return "";
  if (node.nodeType === Node.TEXT_NODE) return node.data;
  const words = [...node.childNodes].map(wordsOf).join("");
  return ["LI", "TD", "TH", "FIGCAPTION"].includes(node.nodeName) ? `${words}, ` : words;
}

/** Shows a growing text in a container. */
export class MarkdownView {
  constructor(container) {
    this.container = container;
    this.parts = [];
  }

  /** Shows the text. Returns the words of the parts that have become complete since the last call. done: all
   *  parts are complete. */
  show(text, done) {
    const parts = partsOf(text);
    let same = 0;
    while (same < parts.length && same < this.parts.length && parts[same] === this.parts[same]) ++same;
    while (this.container.childNodes.length > same) this.container.lastChild.remove();
    this.container.append(...partNodes(parts.slice(same), 0));
    this.parts = parts;
    const complete = done ? parts.length : Math.max(parts.length - 1, 0);
    const spoken = [];
    for (let i = this.n_spoken ?? 0; i < complete; ++i) spoken.push(wordsOf(this.container.childNodes[i]));
    this.n_spoken = Math.max(complete, this.n_spoken ?? 0);
    return spoken;
  }
}
