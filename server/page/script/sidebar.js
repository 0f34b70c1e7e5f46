// The list of conversations: those that are pinned, then the others by date. It has a search in titles and texts, a
// mark on those that are being answered, and a menu to pin, rename, download and delete each of them.

import { announce } from "./announcer.js";
import { askInDialog, button, byId, element, icon, iconButton } from "./dom.js";
import { exportConversations, importConversations } from "./exchange.js";
import { moveByArrows, openMenu } from "./menu.js";

const kDayMs = 86400000;

/** Returns the name of the group of a time, for example "Yesterday". now: a Date. */
export function dateGroup(time, now) {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  if (time >= midnight) return "Today";
  if (time >= midnight - kDayMs) return "Yesterday";
  if (time >= midnight - 6 * kDayMs) return "Last 7 days";
  return new Date(time).toLocaleDateString("en", {month: "long", year: "numeric"});
}

/** Opens the menu of a conversation. opener: its button. */
function showMenu(opener, conversation, actions) {
  const menu = byId("chat-menu"), name = conversation.title;
  const row = (iconName, text, act) => {
    const made = button("", async () => {
      menu.hidePopover();
      await act();
      byId("chat-list").querySelector(`[data-id="${conversation.id}"] .more`)?.focus();
    }, {className: "quiet"});
    made.append(icon(iconName), text);
    return element("li", {}, made);
  };
  menu.firstElementChild.replaceChildren(
    row("pin", conversation.pinned ? "Unpin" : "Pin", () => actions.pin(conversation)),
    row("edit", "Rename", async () => {
      byId("name-input").value = name;
      if (await askInDialog("name")) await actions.rename(conversation, byId("name-input").value.trim());
    }),
    row("download", "Export", () => exportConversations([conversation], name)),
    row("trash", "Delete", async () => {
      byId("sure-title").textContent = `Delete “${name}”?`;
      if (await askInDialog("sure")) await actions.remove(conversation);
    }));
  openMenu(menu, opener);
}

function matches(conversation, words) {
  const text = [conversation.title, ...conversation.messages.map((message) => message.content)].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

function itemOf(conversation, {current, runs}, actions) {
  const isOpen = conversation.id === current.id, name = conversation.title;
  const title = button("", () => actions.open(conversation), {className: "title", title: name, "aria-current": isOpen ? "true" : undefined,
    "aria-label": runs(conversation.id) ? `${name}, answering` : name});
  title.append(runs(conversation.id) ? element("span", {className: "runs"}) : "", name);
  const more = iconButton("more", `Actions for ${name}`, () => showMenu(more, conversation, actions), {className: "quiet round more"});
  return element("li", {className: isOpen ? "open" : "", "data-id": conversation.id}, title, more);
}

/** state: {conversations, current, runs(id)}. actions: open(conversation), pin(conversation),
 *  rename(conversation, title), remove(conversation). */
export function showConversations(state, actions) {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const found = state.conversations.filter((conversation) => matches(conversation, words));
  const groups = new Map();
  const now = new Date();
  for (const conversation of [...found.filter((one) => one.pinned), ...found.filter((one) => !one.pinned)]) {
    const name = conversation.pinned ? "Pinned" : dateGroup(conversation.updated, now);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(conversation);
  }
  byId("chat-list").replaceChildren(...[...groups].map(([name, members]) => element("section", {"aria-label": name},
    element("h2", {}, name), element("ul", {}, ...members.map((one) => itemOf(one, state, actions))))));
  byId("chats-none").hidden = found.length > 0 || words.length === 0;
}

/** Connects the search and the buttons that apply to all conversations. handlers: all() returns them,
 *  add(conversations), removeAll(), search(). */
export function startSidebar({all, add, removeAll, search}) {
  moveByArrows(byId("chat-menu"));
  byId("search").addEventListener("input", search);
  byId("export-all").addEventListener("click", () => exportConversations(all(), "conversations"));
  byId("delete-all").addEventListener("click", async () => {
    byId("sure-title").textContent = "Delete all conversations?";
    if (await askInDialog("sure")) removeAll();
  });
  const picker = byId("import-input"), fault = byId("import-fault");
  byId("import").addEventListener("click", () => picker.click());
  picker.addEventListener("change", async () => {
    const [file] = picker.files;
    fault.hidden = true;
    try {
      const conversations = importConversations(await file.text(), file.name);
      add(conversations);
      announce(`${conversations.length} ${conversations.length === 1 ? "conversation" : "conversations"} imported`);
    } catch (error) {
      fault.textContent = error.message;
      fault.hidden = false;
    }
    picker.value = "";
  });
}
