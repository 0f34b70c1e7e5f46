// The button with the chosen model's name, and the list that it opens: each model once, with its other names,
// its context, and whether it is loaded.

import { announce } from "./announcer.js";
import { button, byId, element } from "./dom.js";
import { moveByArrows } from "./menu.js";
import { chooseModel, chosenModel, knownModels, loadModels, orderModel } from "./models.js";

function statusText({status, progress}) {
  return status === "loading" && progress !== undefined ? `loading, ${Math.floor(100 * progress)} %` : status;
}

function factsOf(model) {
  const facts = model.error ? [model.error.message ?? model.error] : [];
  if (model.others.length > 0) facts.push(`also named ${model.others.join(", ")}`);
  if (model.context) facts.push(`${model.context.toLocaleString("en")} tokens of context`);
  if (model.device) facts.push(model.device);
  return facts.join(" · ");
}

function rowOf(model, menu) {
  const isChosen = model.name === chosenModel();
  const choose = button("", () => {
    menu.hidePopover();
    chooseModel(model.name).catch((error) => announce(error.message));
  }, {className: "model", "aria-pressed": String(isChosen), "aria-label": [model.name, statusText(model)].filter(Boolean).join(", ")});
  choose.append(element("span", {className: "name"}, model.name),
    model.status === "" ? "" : element("span", {className: `badge ${model.status}`}, statusText(model)),
    element("span", {className: "note"}, factsOf(model)));
  const unload = model.status === "loaded" ? button("Unload", () => {
    orderModel(model.name, "unload").catch((error) => announce(error.message));
  }, {className: "quiet", "aria-label": `Unload ${model.name}`}) : "";
  return element("li", {className: isChosen ? "chosen" : ""}, choose, unload);
}

function show() {
  const menu = byId("model-menu"), models = knownModels();
  const entry = models.find((model) => model.name === chosenModel());
  byId("model").disabled = models.length === 0;
  byId("model-name").textContent = entry?.name ?? "No model";
  byId("model-status").textContent = entry && !["", "loaded"].includes(entry.status) ? statusText(entry) : "";
  byId("model-status").className = `badge ${entry?.status ?? ""}`;
  byId("model-status").hidden = byId("model-status").textContent === "";
  const focused = [...menu.querySelectorAll("button")].indexOf(document.activeElement);
  byId("model-list").replaceChildren(...models.map((model) => rowOf(model, menu)));
  if (focused >= 0) menu.querySelectorAll("button")[Math.min(focused, menu.querySelectorAll("button").length - 1)]?.focus();
}

export function startModelPicker() {
  const menu = byId("model-menu");
  document.addEventListener("hearth-models", show);
  menu.addEventListener("toggle", (event) => {
    byId("model").setAttribute("aria-expanded", String(event.newState === "open"));
    if (event.newState !== "open") return;
    menu.querySelector(".chosen button")?.focus();
    if (knownModels().some((model) => model.status !== "")) loadModels().catch(() => {});
  });
  moveByArrows(menu);
}
