// KaTeX, which the page loads when an answer has a formula.

export {default} from "katex/katex.mjs";
