// The list of conversations, with buttons to open, rename, download and delete them.

import { askInDialog, button, byId, element } from "./dom.js";
import { exportConversations } from "./conversations.js";

function actionsOf(conversation, actions) {
  const rename = async () => {
    byId("name-input").value = conversation.title;
    if (await askInDialog("name")) actions.rename(conversation, byId("name-input").value.trim());
  };
  const remove = async () => {
    byId("sure-title").textContent = `Delete “${conversation.title}”?`;
    if (await askInDialog("sure")) actions.remove(conversation);
  };
  const name = conversation.title;
  return element("span", {className: "actions"},
    button("Rename", rename, {className: "quiet", "aria-label": `Rename ${name}`}),
    button("Export", () => exportConversations([conversation], name), {className: "quiet", "aria-label": `Export ${name}`}),
    button("Delete", remove, {className: "quiet", "aria-label": `Delete ${name}`}));
}

/** actions: open(conversation), rename(conversation, title), remove(conversation). */
export function showConversations(conversations, current, actions) {
  byId("chat-list").replaceChildren(...conversations.map((conversation) => {
    const isOpen = conversation.id === current.id;
    return element("li", {className: isOpen ? "open" : ""},
      button(conversation.title, () => actions.open(conversation), {className: "title", "aria-current": isOpen ? "true" : undefined}),
      actionsOf(conversation, actions));
  }));
}

/** Connects the buttons that apply to all conversations. */
export function startSidebar(all, removeAll) {
  byId("export-all").addEventListener("click", () => exportConversations(all(), "conversations"));
  byId("delete-all").addEventListener("click", async () => {
    byId("sure-title").textContent = "Delete all conversations?";
    if (await askInDialog("sure")) removeAll();
  });
}
