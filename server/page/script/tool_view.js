// Shows the tool calls of an answer, and fields for their results: the page runs no tools, the user does.

import { codeFigure } from "./code_view.js";
import { element } from "./dom.js";

function prettyJson(text) {
  try {
    return `${JSON.stringify(JSON.parse(text), null, 2)}\n`;
  } catch {
    return text;  // the JSON is incomplete
  }
}

/** Creates the element of a call. */
export function callNode(call) {
  return element("section", {className: "call", role: "group", "aria-label": `Tool call: ${call.name}`},
    element("h3", {}, "Tool call: ", element("code", {}, call.name)), codeFigure(prettyJson(call.arguments), "json"));
}

/** Creates the form for the results of calls. send(results): an array with a text for each call. */
export function resultForm(calls, send) {
  const fields = calls.map((call) => element("textarea", {rows: 2, spellcheck: "false", placeholder: "Result, for example as JSON"}));
  const form = element("form", {className: "results", "aria-label": "Results of the tools"},
    ...calls.map((call, i) => element("label", {}, `Result of ${call.name}`, fields[i])),
    element("button", {type: "submit", className: "primary"}, calls.length === 1 ? "Send result" : "Send results"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(fields.map((field) => field.value));
  });
  return form;
}
