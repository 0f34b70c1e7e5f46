// The messages of a conversation as a tree. Retry and Edit add a branch beside the old one instead of deleting
// it. `leaf` is the last message of the branch that is shown; each message names its `parent`.

import { newId } from "./dom.js";

/** Returns the messages that are shown, the first one first. */
export function pathOf(conversation) {
  const known = new Map(conversation.messages.map((message) => [message.id, message]));
  const path = [];
  for (let at = known.get(conversation.leaf); at && path.length <= known.size; at = known.get(at.parent)) path.unshift(at);
  return path;
}

/** Returns the messages at this place of the tree: the message and its alternatives. */
export function versionsOf(conversation, message) {
  return conversation.messages.filter((other) => other.parent === message.parent);
}

/** Shows the branch that begins with this message, up to its newest end. */
export function chooseVersion(conversation, message) {
  let last = message;
  for (let next = message; next; next = conversation.messages.findLast((other) => other.parent === last.id)) last = next;
  conversation.leaf = last.id;
}

/** Adds a message after `parent` (an id, or null for the first message), and shows it. */
export function addMessage(conversation, message, parent = conversation.leaf) {
  const added = {id: newId(), ...message, parent};
  conversation.messages.push(added);
  conversation.leaf = added.id;
  return added;
}

/** Converts a conversation of an older version, whose messages are a list, in place. */
export function becomeTree(conversation) {
  if (conversation.leaf !== undefined) return conversation;
  let parent = null;
  for (const message of conversation.messages) {
    message.id ??= newId();
    message.parent = parent;
    parent = message.id;
  }
  conversation.leaf = parent;
  return conversation;
}
