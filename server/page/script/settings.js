// The system prompt and the parameters of answers. They are stored in the browser. The server's defaults
// replace empty fields.

import { byId } from "./dom.js";
import { keep, kept } from "./kept.js";

const kFields = {system: "set-system", temperature: "set-temperature", top_p: "set-top-p", max_tokens: "set-max-tokens", seed: "set-seed", tools: "set-tools"};

function numberOf(id) {
  const text = byId(id).value.trim();
  return text === "" ? undefined : Number(text);
}

function toolsOf() {
  const text = byId(kFields.tools).value.trim();
  if (text === "") return undefined;
  const tools = JSON.parse(text);
  if (!Array.isArray(tools)) throw new Error("an array is expected");
  return tools;
}

/** Returns the parameters for a request. The parameter of an empty field is undefined. */
export function parameters() {
  return {temperature: numberOf(kFields.temperature), top_p: numberOf(kFields.top_p), max_tokens: numberOf(kFields.max_tokens),
          seed: numberOf(kFields.seed), tools: settingsFault() === "" ? toolsOf() : undefined};
}

export function systemPrompt() {
  return byId(kFields.system).value.trim();
}

/** Returns a sentence that describes the error in the settings, or an empty text. */
export function settingsFault() {
  try {
    toolsOf();
    return "";
  } catch (error) {
    return `Tools must be a JSON array of functions: ${error.message}.`;
  }
}

function showFault() {
  const fault = settingsFault();
  byId("settings-fault").textContent = fault;
  byId("settings-fault").hidden = fault === "";
}

export function startSettings() {
  const values = kept("settings", {});
  for (const [name, id] of Object.entries(kFields)) byId(id).value = values[name] ?? "";
  const changed = () => {
    keep("settings", Object.fromEntries(Object.entries(kFields).map(([name, id]) => [name, byId(id).value])));
    showFault();
  };
  byId("settings-form").addEventListener("input", changed);
  byId("settings-form").addEventListener("submit", (event) => event.preventDefault());
  byId("settings-reset").addEventListener("click", () => {
    for (const id of Object.values(kFields)) byId(id).value = "";
    changed();
  });
  showFault();
}
