// Which models the server has, which of them is chosen, and whether it has a chat template. Names of one model
// are one entry. The page learns of a change when it gets the focus, from the live view, and from an answer that
// names a model which has left.

import { byId } from "./dom.js";
import { keep, kept } from "./kept.js";
import { ask } from "./request.js";
import { showDefaults } from "./settings.js";

const kPollMs = 700;  // while a model is being loaded or unloaded

// {name, others, status, progress, context, device, isSparse}; the status of a single model is "" while it is loaded
let models = [];
let chosen = "", suggested = "", chats = true, polls = false;
const ordered = new Map();  // name -> status that a load or unload leads to

export function knownModels() {
  return models;
}

export function chosenModel() {
  return chosen;
}

/** Returns the name of a model that fits the server's machine, if the chosen one is a small demonstration; else "". */
export function suggestedModel() {
  return suggested;
}

/** Whether the chosen model is loaded. */
export function isLoaded() {
  return ["", "loaded"].includes(models.find((model) => model.name === chosen)?.status ?? "");
}

/** Whether the model has a chat template. Without one, an answer continues the text. */
export function modelChats() {
  return chats;
}

const entryOf = (row) => ({name: row.id, others: row.aliases ?? [], status: row.status?.value ?? "", error: row.status?.error, context: row.max_model_len,
                           progress: row.status?.progress, device: row.device, isSparse: Boolean(row.sparsity && row.sparsity.mode !== "dense")});

/** Returns the entries of GET /v1/models, which has a row for each name of a model. */
function entriesOf(rows) {
  const entries = [];
  for (const row of rows) {
    if (row.generates !== false && !entries.some((entry) => entry.others.includes(row.id))) entries.push(entryOf(row));
  }
  return entries;
}

/** Reads the list of models. Throws ServerError. */
export async function loadModels() {
  models = entriesOf((await (await ask("v1/models")).json()).data);
  for (const {name, status} of models) if (status === ordered.get(name) || status === "failed") ordered.delete(name);
  const wanted = chosen || kept("model");
  const entry = models.find((model) => model.name === wanted || model.others.includes(wanted)) ??
    models.find((model) => model.status === "loaded") ?? models[0];
  const before = chosen;
  chosen = entry?.name ?? "";
  if (chosen !== before && before !== "") document.dispatchEvent(new Event("hearth-model"));
  document.dispatchEvent(new Event("hearth-models"));
  // /props would load a model that is not loaded.
  await lookWhetherItChats(isLoaded());
  pollWhileChanging();
}

async function pollWhileChanging() {
  if (polls || (ordered.size === 0 && !models.some((model) => model.status === "loading"))) return;
  polls = true;
  await new Promise((resolve) => setTimeout(resolve, kPollMs));
  polls = false;
  if (document.visibilityState === "visible") loadModels().catch(() => {});
}

/** Waits until the chosen model is loaded. Throws ServerError, or AbortError. */
export async function awaitModel(signal) {
  if (isLoaded()) return;
  await ask(`props?model=${encodeURIComponent(chosen)}`, {signal});
  await loadModels();
}

/** Chooses a model. Of several models, an unloaded one is loaded. */
export async function chooseModel(name) {
  chosen = name;
  keep("model", name);
  document.dispatchEvent(new Event("hearth-model"));
  document.dispatchEvent(new Event("hearth-models"));
  const entry = models.find((model) => model.name === name);
  if (entry.status === "unloaded" || entry.status === "failed") await orderModel(name, "load");
  else await loadModels();
}

/** action: "load" or "unload". A key that is not an administrator's may not order it; then the first message
 *  loads the model. */
export async function orderModel(name, action) {
  try {
    await ask("admin/model", {method: "POST", body: {model: name, action}, asks: false});
    ordered.set(name, action === "load" ? "loaded" : "unloaded");
  } catch (error) {
    if (action === "unload") throw error;
  }
  await loadModels();
}

/** Notices that the server has other models than the page knows. GET /health loads no model. */
export async function lookForOtherModels() {
  if (models.length === 0) return;
  if (models[0].status !== "") return loadModels();
  const health = await (await ask("health", {asks: false})).json();
  if (health.status === "ok" && !isKnown(health.model)) await loadModels();
}

/** Whether a model of the list has this name. */
export function isKnown(name) {
  return models.some((model) => model.name === name || model.others.includes(name));
}

/** Asks whether the chosen model has a chat template. knows: whether the server can tell without a load. */
async function lookWhetherItChats(knows) {
  const props = knows && chosen ? await (await ask(`props?model=${encodeURIComponent(chosen)}`)).json() : {};
  chats = props.chat_template !== null;
  suggested = props.suggested_model ?? "";
  showDefaults(props.default_generation_settings?.params);
  const note = byId("mode-note");
  note.hidden = chats && models.length > 0;
  note.textContent = models.length === 0 ? "This server has no model that generates text."
    : "This model has no chat template: it continues the text as it stands.";
  byId("prompt").placeholder = chats ? "Message" : "Text to continue";
  document.dispatchEvent(new Event("hearth-props"));
}

export function startModels() {
  addEventListener("focus", () => lookForOtherModels().catch(() => {}));
}
