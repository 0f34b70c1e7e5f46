// Stores conversations in the browser's IndexedDB. If the browser does not allow this, they stay in memory.

const kStore = "conversations";
let database = null;  // null if IndexedDB is not available
const inMemory = new Map();

function settled(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function newConversation() {
  const now = Date.now();
  return {id: newId(), title: "New chat", created: now, updated: now, messages: []};
}

/** Returns all conversations, the most recently used first. */
export async function openConversations() {
  try {
    const opening = indexedDB.open("hearth", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(kStore, {keyPath: "id"});
    database = await settled(opening);
    for (const conversation of await settled(database.transaction(kStore).objectStore(kStore).getAll())) {
      inMemory.set(conversation.id, conversation);
    }
  } catch {
    database = null;
  }
  return [...inMemory.values()].sort((a, b) => b.updated - a.updated);
}

async function change(how) {
  try {
    if (database !== null) await settled(how(database.transaction(kStore, "readwrite").objectStore(kStore)));
  } catch {
    // If the browser's storage is full, the conversation is lost when the page is closed.
  }
}

export async function saveConversation(conversation) {
  inMemory.set(conversation.id, conversation);
  await change((store) => store.put(conversation));
}

export async function deleteConversation(id) {
  inMemory.delete(id);
  await change((store) => store.delete(id));
}

/** Downloads the conversations as a JSON file. */
export function exportConversations(conversations, name) {
  const text = JSON.stringify({format: "hearth-conversations", version: 1, conversations}, null, 2);
  const address = URL.createObjectURL(new Blob([text], {type: "application/json"}));
  const link = document.createElement("a");
  link.href = address;
  link.download = `${name.replace(/[^\w.-]+/g, "-").slice(0, 60) || "conversation"}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
