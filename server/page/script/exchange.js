// Conversations as JSON files: export and import.

import { newId } from "./dom.js";
import { becomeTree } from "./tree.js";

const kFormat = "hearth-conversations";

/** Downloads the conversations as a file. */
export function exportConversations(conversations, name) {
  const text = JSON.stringify({format: kFormat, version: 2, conversations}, null, 2);
  const address = URL.createObjectURL(new Blob([text], {type: "application/json"}));
  const link = document.createElement("a");
  link.href = address;
  link.download = `${name.replace(/[^\w.-]+/g, "-").slice(0, 60) || "conversation"}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

const isText = (value) => typeof value === "string";
const isTextOrNothing = (value) => value === undefined || isText(value);

function isMessage(message) {
  return ["user", "assistant", "tool"].includes(message?.role) && isText(message.content) &&
    isTextOrNothing(message.reasoning) && isTextOrNothing(message.model) && isTextOrNothing(message.error) &&
    (message.toolCalls ?? []).every((call) => isText(call?.name) && isText(call.arguments) && isText(call.id)) &&
    (message.attachments ?? []).every((file) => isText(file?.name) && isText(file.text));
}

/** Whether each message comes after the one that it answers, and the last one that is shown exists. */
function isTree({messages, leaf}) {
  if (leaf === undefined) return true;  // an older version, whose messages are a list
  const known = new Set([null]);
  for (const {id, parent} of messages) {
    if (!isText(id) || known.has(id) || !known.has(parent)) return false;
    known.add(id);
  }
  return known.has(leaf);
}

function isConversation(one) {
  return isText(one?.title) && Array.isArray(one.messages) && one.messages.every(isMessage) && isTree(one) && typeof (one.settings ?? {}) === "object";
}

/** Returns the conversations of an exported file, with new ids. Throws an Error whose message is for the user. */
export function importConversations(text, name) {
  let read;
  try {
    read = JSON.parse(text);
  } catch {
    throw new Error(`${name} is not JSON. Choose a file that this page has exported.`);
  }
  if (read?.format !== kFormat || !Array.isArray(read.conversations)) {
    throw new Error(`${name} has no conversations: its "format" is not "${kFormat}". Choose a file that this page has exported.`);
  }
  const wrong = read.conversations.findIndex((one) => !isConversation(one));
  if (wrong >= 0) throw new Error(`Conversation ${wrong + 1} of ${name} is damaged; nothing was imported.`);
  return read.conversations.map((one) => {
    const now = Date.now();
    const made = {...one, id: newId(), settings: one.settings ?? {}, created: Number(one.created) || now, updated: Number(one.updated) || now};
    for (const message of made.messages) delete message.grows;
    return becomeTree(made);
  });
}
