// Rules of markdown-it for TeX formulas: $...$ and \(...\) inside a line, $$...$$ and \[...\] on lines of their
// own. The tokens keep the TeX as it is written; math_view.js sets it.

/** Returns where `close` is in the text from `from` on, ignoring characters after a backslash, or -1. */
function closeAt(text, from, close) {
  for (let i = from; i < text.length; ++i) {
    if (text.startsWith(close, i)) return i;
    if (text[i] === "\\") ++i;
  }
  return -1;
}

/** Whether $...$ is a formula and not two prices. begin, end: the places of the text between the dollars. */
function isFormula(text, begin, end) {
  const inside = text.slice(begin, end);
  if (/^\s|\s$|`/.test(inside) || /\d/.test(text[end + 1] ?? "")) return false;
  if (/[\w$\\]/.test(text[begin - 2] ?? "")) return false;
  return !/^\d[\d.,]*\s+[A-Za-z]{2,}/.test(inside);  // "$5 for one and 6$"
}

const kPairs = [["$$", "$$", true], ["\\[", "\\]", true], ["\\(", "\\)", false], ["$", "$", false]];

function inlineRule(state, silent) {
  const text = state.src.slice(0, state.posMax), at = state.pos;
  const pair = kPairs.find(([open]) => text.startsWith(open, at));
  if (pair === undefined) return false;
  const [open, close, display] = pair;
  const begin = at + open.length, end = closeAt(text, begin, close);
  if (end < 0 || text.slice(begin, end).trim() === "" || (open === "$" && !isFormula(text, begin, end))) return false;
  if (!silent) {
    const token = state.push("math", "", 0);
    token.content = text.slice(begin, end).trim();
    token.meta = {display};
  }
  state.pos = end + close.length;
  return true;
}

/** While an answer grows (state.env.grows), a formula whose end is not there yet reaches to the text's end. */
function blockRule(state, first, last, silent) {
  let from = state.bMarks[first] + state.tShift[first];
  const pair = kPairs.find(([open, , display]) => display && state.src.startsWith(open, from));
  if (pair === undefined || state.sCount[first] - state.blkIndent >= 4) return false;
  const lines = [];
  let line = first, closed = false;
  from += 2;
  while (line < last) {
    const text = state.src.slice(from, state.eMarks[line]);
    const end = closeAt(text, 0, pair[1]);
    lines.push(end < 0 ? text : text.slice(0, end));
    ++line;
    if (end >= 0) {
      if (text.slice(end + 2).trim() !== "") return false;  // the inline rule finds it in a paragraph
      closed = true;
      break;
    }
    if (line < last && state.sCount[line] < state.blkIndent && !state.isEmpty(line)) break;
    from = state.bMarks[line] + state.tShift[line];
  }
  const tex = lines.join("\n").trim();
  if ((!closed && !state.env.grows) || tex === "") return false;
  if (silent) return true;
  const token = state.push("math", "", 0);
  token.block = true;
  token.content = tex;
  token.map = [first, line];
  token.meta = {display: true, open: !closed};
  state.line = line;
  return true;
}

/** Adds the rules to a MarkdownIt object. */
export function addMath(markdown) {
  markdown.inline.ruler.before("escape", "math", inlineRule);
  markdown.block.ruler.before("fence", "math", blockRule, {alt: ["paragraph", "reference", "blockquote", "list"]});
  markdown.renderer.rules.math = (tokens, i) => {
    const {content, meta, block} = tokens[i];
    const tag = block ? "div" : "span";
    const text = markdown.utils.escapeHtml(content);
    return `<${tag} class="math${meta.display ? " display" : ""}${meta.open ? " open" : ""}">${text}</${tag}>`;
  };
}
