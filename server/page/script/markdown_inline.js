// Converts the Markdown inside a paragraph to DOM nodes: code, emphasis, links, line breaks. HTML stays text.

import { element } from "./dom.js";

const kMaxInlineDepth = 12;  // nesting of emphasis; deeper emphasis stays text

/** Returns the address if it is safe for a link (http, https or mailto), otherwise null. */
export function safeAddress(text) {
  const address = text.trim();
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return null;
  try {
    const url = new URL(address);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(address, children) {
  return element("a", {href: address, target: "_blank", rel: "noopener noreferrer nofollow"}, ...children);
}

/** Reads "](address)" or '](address "title")' at `at`. Returns the address and the match's end, or null. */
function readTarget(text, at) {
  const found = /^\]\(\s*<?([^\s<>]*?)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(text.slice(at, at + 2100));
  return found ? {end: at + found[0].length, address: found[1]} : null;
}

function closingBracket(text, open) {
  for (let i = open + 1, depth = 1; i < text.length; ++i) {
    if (text[i] === "\\") ++i;
    else if (text[i] === "[") ++depth;
    else if (text[i] === "]" && --depth === 0) return i;
  }
  return -1;
}

function codeAt(text, at) {
  const ticks = /^`+/.exec(text.slice(at))[0];
  for (let from = at + ticks.length; ;) {
    const close = text.indexOf(ticks, from);
    if (close < 0) return null;
    const run = /^`+/.exec(text.slice(close))[0];
    if (run.length === ticks.length) {
      let code = text.slice(at + ticks.length, close).replace(/\n/g, " ");
      if (/^ .*[^ ].* $/.test(code)) code = code.slice(1, -1);
      return {end: close + ticks.length, node: element("code", {}, code)};
    }
    from = close + run.length;
  }
}

function linkAt(text, at, depth) {
  const image = text[at] === "!";
  const open = image ? at + 1 : at;
  const close = closingBracket(text, open);
  const target = close < 0 ? null : readTarget(text, close);
  if (target === null) return null;
  const children = inlineNodes(text.slice(open + 1, close), depth + 1);
  const address = safeAddress(target.address);
  // An image becomes a link, because loading it would send a request to another server. An unsafe address
  // stays text.
  return {end: target.end, node: address ? link(address, children) : element("span", {}, ...children, ` (${target.address})`)};
}

const kMarks = [["***", "strong-em"], ["___", "strong-em"], ["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];

function emphasisAt(text, at, depth) {
  for (const [mark, tag] of kMarks) {
    if (!text.startsWith(mark, at)) continue;
    const begin = at + mark.length;
    if (begin >= text.length || /\s/.test(text[begin])) continue;
    if (mark[0] === "_" && at > 0 && /\w/.test(text[at - 1])) continue;
    for (let close = text.indexOf(mark, begin + 1); close > 0; close = text.indexOf(mark, close + 1)) {
      if (/\s/.test(text[close - 1]) || text[close - 1] === "\\") continue;
      const after = text[close + mark.length];
      if (mark[0] === "_" && after !== undefined && /\w/.test(after)) continue;
      if (mark.length === 1 && (after === mark || text[close - 1] === mark)) continue;
      const children = inlineNodes(text.slice(begin, close), depth + 1);
      const node = tag === "strong-em" ? element("strong", {}, element("em", {}, ...children)) : element(tag, {}, ...children);
      return {end: close + mark.length, node};
    }
  }
  return null;
}

function addressAt(text, at) {
  if (at > 0 && /[\w/]/.test(text[at - 1])) return null;
  const found = /^https?:\/\/[^\s<>"'`]+/i.exec(text.slice(at, at + 2100));
  if (!found) return null;
  let words = found[0].replace(/[.,;:!?*_~]+$/, "");
  while (words.endsWith(")") && words.split(")").length > words.split("(").length) words = words.slice(0, -1);
  const address = safeAddress(words);
  return address ? {end: at + words.length, node: link(address, [words])} : null;
}

function partAt(text, at, depth) {
  const char = text[at];
  if (char === "`") return codeAt(text, at);
  if (depth < kMaxInlineDepth && (char === "[" || (char === "!" && text[at + 1] === "["))) return linkAt(text, at, depth);
  if (depth < kMaxInlineDepth && (char === "*" || char === "_" || char === "~")) return emphasisAt(text, at, depth);
  if (char === "h" || char === "H") return addressAt(text, at);
  if (char === "<") {
    const found = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i.exec(text.slice(at, at + 2100));
    const address = found && safeAddress(found[1]);
    return address ? {end: at + found[0].length, node: link(address, [found[1]])} : null;
  }
  if (char === "\n") {
    const hard = text[at - 1] === "\\" || text.slice(at - 2, at) === "  ";
    return hard ? {end: at + 1, node: element("br")} : null;
  }
  return null;
}

/** Returns the nodes of a text that has no block structure. */
export function inlineNodes(text, depth = 0) {
  const nodes = [];
  let plain = "";
  const flush = () => {
    if (plain !== "") nodes.push(document.createTextNode(plain));
    plain = "";
  };
  for (let at = 0; at < text.length;) {
    if (text[at] === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
      continue;
    }
    const part = partAt(text, at, depth);
    if (part === null) {
      plain += text[at++];
      continue;
    }
    if (part.node.nodeName === "BR") plain = plain.replace(/(\\|\s+)$/, "");
    flush();
    nodes.push(part.node);
    at = part.end;
  }
  flush();
  return nodes;
}
