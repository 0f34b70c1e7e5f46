// Keys that work everywhere on the page. The dialog "shortcuts" of index.html lists them.

import { byId } from "./dom.js";
import { openTab } from "./panels.js";

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);

/** actions: newChat(), search(). */
export function startShortcuts({newChat, search}) {
  const dialog = byId("shortcuts-dialog");
  for (const key of dialog.querySelectorAll("kbd")) if (isMac) key.textContent = key.textContent.replace("Ctrl", "⌘");
  byId("shortcuts-close").addEventListener("click", () => dialog.close());
  byId("shortcuts-button").addEventListener("click", () => dialog.showModal());
  document.addEventListener("keydown", (event) => {
    if (!(isMac ? event.metaKey : event.ctrlKey) || event.altKey || document.querySelector("dialog[open]")) return;
    const key = `${event.shiftKey ? "shift " : ""}${event.key.toLowerCase()}`;
    const action = {"shift o": newChat, "k": search, "/": () => dialog.showModal(),
                    ",": () => openTab(byId("panel").hidden || byId("settings").hidden ? "settings" : "")}[key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  });
}
