// Stores conversations in the browser's IndexedDB. If the browser does not allow this, they stay in memory.

import { byId, newId } from "./dom.js";
import { becomeTree } from "./tree.js";

const kStore = "conversations";
let database = null;  // null if IndexedDB is not available

function settled(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** settings: see settings.js. */
export function newConversation(settings = {}) {
  const now = Date.now();
  return {id: newId(), title: "New chat", created: now, updated: now, messages: [], leaf: null, settings};
}

/** Returns all conversations, the most recently used first. */
export async function openConversations() {
  try {
    const opening = indexedDB.open("hearth", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(kStore, {keyPath: "id"});
    database = await settled(opening);
    const all = await settled(database.transaction(kStore).objectStore(kStore).getAll());
    return all.map(becomeTree).sort((a, b) => b.updated - a.updated);
  } catch {
    database = null;
    return [];
  }
}

/** Returns the stored state of a conversation, or undefined. */
export async function readConversation(id) {
  if (database === null) return undefined;
  const found = await settled(database.transaction(kStore).objectStore(kStore).get(id)).catch(() => undefined);
  return found && becomeTree(found);
}

async function change(how) {
  try {
    await settled(how(database.transaction(kStore, "readwrite").objectStore(kStore)));
  } catch {
    // The browser has no storage, or it is full. The conversation stays until the page is closed.
    byId("kept-note").textContent = "This browser does not keep conversations: it has no room, or does not allow it. Export what you need.";
    byId("kept-note").className = "fault";
  }
}

export async function saveConversation(conversation) {
  await change((store) => store.put(conversation));
}

export async function deleteConversation(id) {
  await change((store) => store.delete(id));
}
