// The system prompt, the parameters of answers and the tools. Each conversation has its own; a new one begins
// with the defaults that the user has set. The server's defaults replace empty fields.

import { announce } from "./announcer.js";
import { byId } from "./dom.js";
import { keep, kept } from "./kept.js";

const kNames = ["system", "temperature", "top_p", "top_k", "min_p", "repeat_penalty", "max_tokens", "seed", "stop", "thinking", "format", "tools"];
const kNumbers = ["temperature", "top_p", "top_k", "min_p", "repeat_penalty", "max_tokens", "seed"];

let shown = null;  // the conversation whose settings the form shows
let changed = () => {};

const field = (name) => byId(`set-${name.replace(/_/g, "-")}`);
const valueOf = (conversation, name) => (conversation.settings?.[name] ?? "").trim();

/** Shows the server's defaults in empty fields. parameters: those of GET /props, or undefined if unknown. */
export function showDefaults(parameters) {
  for (const name of ["temperature", "top_p", "top_k", "min_p", "repeat_penalty"]) {
    const value = parameters?.[name];
    field(name).placeholder = value === 0 && name !== "temperature" ? "off" : String(value ?? "");
  }
}

/** Returns a copy of the settings with which a new conversation begins. */
export function defaultSettings() {
  return {...kept("settings", {})};
}

function toolsOf(text) {
  const tools = JSON.parse(text);
  if (!Array.isArray(tools)) throw new Error("an array is expected");
  return tools;
}

/** Returns the parameters for a request. A parameter without a value is undefined. */
export function parametersOf(conversation) {
  const value = (name) => valueOf(conversation, name);
  const parameters = {};
  for (const name of kNumbers) if (value(name) !== "") parameters[name] = Number(value(name));
  if (value("stop") !== "") parameters.stop = value("stop").split("\n").filter((line) => line !== "");
  const thinking = value("thinking");
  if (thinking === "on" || thinking === "off") parameters.enable_thinking = thinking === "on";
  else if (thinking !== "") parameters.reasoning_effort = thinking;
  if (value("format") === "json") parameters.response_format = {type: "json_object"};
  if (value("tools") !== "") parameters.tools = toolsOf(value("tools"));
  return parameters;
}

export function systemPromptOf(conversation) {
  return valueOf(conversation, "system");
}

function numberFault(name, text) {
  if (text === "") return "";
  const input = field(name), number = Number(text), {min, max} = input;
  const label = input.labels[0].firstChild.data.trim();
  if (Number.isFinite(number) && !(min !== "" && number < Number(min)) && !(max !== "" && number > Number(max))) return "";
  return max === "" ? `${label} must be a number of at least ${min}, not ${text}.` : `${label} must be a number from ${min} to ${max}, not ${text}.`;
}

/** Returns a sentence that describes the error in the settings, or an empty text. */
export function settingsFault(conversation) {
  for (const name of kNumbers) {
    const fault = numberFault(name, valueOf(conversation, name));
    if (fault !== "") return fault;
  }
  try {
    if (valueOf(conversation, "tools") !== "") toolsOf(valueOf(conversation, "tools"));
    return "";
  } catch (error) {
    return `Tools must be a JSON array of functions: ${error.message}.`;
  }
}

function showFault() {
  const fault = settingsFault(shown);
  byId("settings-fault").textContent = fault;
  byId("settings-fault").hidden = fault === "";
}

/** Shows the settings of a conversation. */
export function showSettings(conversation) {
  if (shown === conversation) return;
  shown = conversation;
  for (const name of kNames) field(name).value = shown.settings?.[name] ?? "";
  showFault();
}

function take() {
  // A number field that the browser does not understand has an empty value.
  shown.settings = Object.fromEntries(kNames.map((name) => [name, field(name).value]).filter(([, value]) => value !== ""));
  showFault();
  changed(shown);
}

/** save(conversation): called when the user has changed a conversation's settings. */
export function startSettings(save) {
  changed = save;
  byId("settings-form").addEventListener("input", take);
  byId("settings-form").addEventListener("submit", (event) => event.preventDefault());
  byId("settings-reset").addEventListener("click", () => {
    for (const name of kNames) field(name).value = "";
    take();
  });
  byId("settings-keep").addEventListener("click", () => {
    keep("settings", shown.settings ?? {});
    announce("New chats begin with these settings");
  });
}
