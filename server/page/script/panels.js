// The panels at the left and right sides, and the tabs of the right panel.

import { byId } from "./dom.js";
import { keep, kept } from "./kept.js";

const isWide = () => matchMedia("(min-width: 70rem)").matches;
const isMiddle = () => matchMedia("(min-width: 48rem)").matches;

function startPanel(button, panel, name, openAtFirst) {
  const show = (open) => {
    panel.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    document.dispatchEvent(new Event("hearth-panels"));
  };
  show(openAtFirst && kept(name, true));
  button.addEventListener("click", () => {
    const open = panel.hidden;
    // A narrow page has room for one panel.
    if (open && !isMiddle()) closePanels();
    show(open);
    if (isMiddle()) keep(name, open);
    if (open) panel.querySelector("button, [role=tab][aria-selected=true]")?.focus();
  });
}

/** Closes the panels, which cover the conversation on narrow pages. */
export function closePanels() {
  for (const [button, panel] of [["chats-button", "chats"], ["panel-button", "panel"]]) {
    byId(panel).hidden = true;
    byId(button).setAttribute("aria-expanded", "false");
  }
  document.dispatchEvent(new Event("hearth-panels"));
}

export function closePanelsIfNarrow() {
  if (!isMiddle()) closePanels();
}

function startTabs() {
  const tabs = [byId("live-tab"), byId("settings-tab")];
  const choose = (chosen) => {
    for (const tab of tabs) {
      const is = tab === chosen;
      tab.setAttribute("aria-selected", String(is));
      tab.tabIndex = is ? 0 : -1;
      byId(tab.getAttribute("aria-controls")).hidden = !is;
    }
    document.dispatchEvent(new Event("hearth-panels"));
  };
  for (const tab of tabs) {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
      const other = event.key === "Home" ? tabs[0] : event.key === "End" ? tabs[1] : tabs[1 - tabs.indexOf(tab)];
      choose(other);
      other.focus();
    });
  }
}

export function startPanels() {
  startPanel(byId("chats-button"), byId("chats"), "chats-open", isMiddle());
  startPanel(byId("panel-button"), byId("panel"), "panel-open", isWide());
  startTabs();
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !isMiddle() && !document.querySelector("dialog[open]")) closePanels();
  });
}
