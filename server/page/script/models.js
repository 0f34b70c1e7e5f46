// Reads which models the server has, and whether the chosen model has a chat template.

import { byId, element } from "./dom.js";
import { keep, kept } from "./kept.js";
import { ask } from "./request.js";

let chats = true;

export function chosenModel() {
  return byId("model").value;
}

/** Whether the model has a chat template. Without one, an answer continues the text. */
export function modelChats() {
  return chats;
}

/** Fills the list of models. Throws ServerError. */
export async function loadModels() {
  const models = (await (await ask("v1/models")).json()).data.filter((model) => model.generates !== false);
  const picker = byId("model");
  picker.replaceChildren(...models.map((model) => element("option", {value: model.id}, model.id)));
  picker.disabled = models.length === 0;
  const before = kept("model");
  if (models.some((model) => model.id === before)) picker.value = before;
  picker.onchange = async () => {
    keep("model", picker.value);
    document.dispatchEvent(new Event("hearth-model"));
    await lookWhetherItChats(models.length).catch(() => {});
  };
  // Of several models, those that are not loaded have a status; /props would load them.
  const status = models.find((model) => model.id === picker.value)?.status?.value ?? "loaded";
  await lookWhetherItChats(models.length, status === "loaded");
}

/** Asks whether the chosen model has a chat template. knows: whether the server can tell without a load. */
async function lookWhetherItChats(n_models, knows = true) {
  const props = knows ? await (await ask(`props?model=${encodeURIComponent(chosenModel())}`)).json() : {};
  chats = props.chat_template !== null;
  const note = byId("mode-note");
  note.hidden = chats && n_models > 0;
  note.textContent = n_models === 0 ? "This server has no model that generates text."
    : "This model has no chat template: it continues the text as it stands.";
  byId("prompt").placeholder = chats ? "Message" : "Text to continue";
}
