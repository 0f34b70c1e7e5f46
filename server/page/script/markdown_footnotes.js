// Rules of markdown-it for footnotes: [^name] in a text, and [^name]: with the note on a line of its own. A note is
// shown where it is written, because answers write notes at their end. A [^name] without a note stays text, as
// in regular expressions.

const kNote = /^\[\^([^\]\s]+)\]:[ \t]*/;

/** Returns the number of a note. Notes are numbered in the order in which the text mentions them. */
function numberOf(env, name) {
  const numbers = env.noteNumbers ??= new Map();
  if (!numbers.has(name)) numbers.set(name, numbers.size + 1);
  return numbers.get(name);
}

const textOfLine = (state, line) => state.src.slice(state.bMarks[line] + state.tShift[line], state.eMarks[line]);

function blockRule(state, first, last, silent) {
  const found = kNote.exec(textOfLine(state, first));
  if (found === null || state.sCount[first] - state.blkIndent >= 4) return false;
  if (silent) return true;
  const lines = [textOfLine(state, first).slice(found[0].length)];
  let line = first + 1;
  for (; line < last && !state.isEmpty(line) && !kNote.test(textOfLine(state, line)); ++line) lines.push(textOfLine(state, line));
  (state.env.notes ??= new Set()).add(found[1]);
  const open = state.push("note_open", "div", 1);
  open.block = true;
  open.map = [first, line];
  open.meta = {name: found[1]};
  const inline = state.push("inline", "", 0);
  inline.content = lines.join("\n").trim();
  inline.map = [first, line];
  inline.children = [];
  state.push("note_close", "div", -1).block = true;
  state.line = line;
  return true;
}

function inlineRule(state, silent) {
  const found = /^\[\^([^\]\s]+)\]/.exec(state.src.slice(state.pos, state.posMax));
  if (found === null || !state.env.notes?.has(found[1])) return false;
  if (!silent) state.push("note_mark", "", 0).meta = {number: numberOf(state.env, found[1])};
  state.pos += found[0].length;
  return true;
}

/** Adds the rules to a MarkdownIt object. */
export function addFootnotes(markdown) {
  markdown.block.ruler.before("reference", "note", blockRule, {alt: ["paragraph", "reference"]});
  markdown.inline.ruler.before("link", "note", inlineRule);
  const {rules} = markdown.renderer;
  rules.note_mark = (tokens, i) => `<sup>${tokens[i].meta.number}</sup>`;
  rules.note_open = (tokens, i, options, env) => `<div class="footnote"><sup>${numberOf(env, tokens[i].meta.name)}</sup> `;
  rules.note_close = () => "</div>";
}
