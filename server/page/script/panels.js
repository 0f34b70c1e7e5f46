// The conversations at the left side, and the panel at the right side with the tabs Settings and Live.

import { byId } from "./dom.js";
import { keep, kept } from "./kept.js";
import { knownModels } from "./models.js";

const isWide = () => matchMedia("(min-width: 70rem)").matches;
const isMiddle = () => matchMedia("(min-width: 48rem)").matches;
const kTabs = ["settings", "live"];

function showSide(open) {
  byId("chats").hidden = !open;
  byId("chats-button").setAttribute("aria-expanded", String(open));
}

/** Shows a tab of the panel, or closes the panel. tab: "settings", "live" or "". */
function showPanel(tab) {
  byId("panel").hidden = tab === "";
  for (const name of kTabs) {
    const is = name === tab;
    if (tab !== "") {
      byId(`${name}-tab`).setAttribute("aria-selected", String(is));
      byId(`${name}-tab`).tabIndex = is ? 0 : -1;
      byId(name).hidden = !is;
    }
    byId(`${name}-button`).setAttribute("aria-expanded", String(is));
  }
  document.dispatchEvent(new Event("hearth-panels"));
}

/** Shows a tab because the user asks for it, and remembers that on wide pages. */
export function openTab(tab) {
  if (tab !== "" && !isWide()) showSide(false);  // only a wide page has room for both
  if (tab === "" && isMiddle() && !isWide()) showSide(kept("chats-open", true));
  showPanel(tab);
  if (isMiddle()) keep("panel", tab);
}

/** Closes what covers the conversation on narrow pages. */
export function closePanelsIfNarrow() {
  if (isMiddle()) return;
  showSide(false);
  showPanel("");
}

function startTabs() {
  for (const name of kTabs) {
    byId(`${name}-tab`).addEventListener("click", () => openTab(name));
    byId(`${name}-tab`).addEventListener("keydown", (event) => {
      if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
      const other = event.key === "Home" ? kTabs[0] : event.key === "End" ? kTabs[1] : kTabs[1 - kTabs.indexOf(name)];
      openTab(other);
      byId(`${other}-tab`).focus();
    });
    byId(`${name}-button`).addEventListener("click", () => {
      const open = byId("panel").hidden || byId(name).hidden;
      openTab(open ? name : "");
      if (open) byId(`${name}-tab`).focus();
    });
  }
  byId("panel-close").addEventListener("click", () => {
    const name = byId("live").hidden ? "settings" : "live";
    openTab("");
    byId(`${name}-button`).focus();
  });
}

export function startPanels() {
  showSide(isMiddle() && kept("chats-open", true));
  byId("chats-button").addEventListener("click", () => {
    const open = byId("chats").hidden;
    if (open && !isWide()) showPanel("");
    showSide(open);
    if (isMiddle()) keep("chats-open", open);
    if (open) byId("new-chat").focus();
  });
  startTabs();
  const before = kept("panel", null);
  showPanel(isMiddle() && kTabs.includes(before) ? before : "");
  if (!byId("panel").hidden && !isWide()) showSide(false);
  // A sparse model has neurons to show, so the live view is open until the user closes it.
  document.addEventListener("hearth-models", () => {
    if (before === null && kept("panel", null) === null && isWide() && knownModels().some((model) => model.isSparse)) showPanel("live");
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open], :popover-open")) closePanelsIfNarrow();
  });
}
