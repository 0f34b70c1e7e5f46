// The answers that are being generated. An answer is saved while it grows, so a reload or a closed tab loses at
// most the last moment of it.

import { announce } from "./announcer.js";
import { saveConversation } from "./conversations.js";
import { generate } from "./generation.js";
import { awaitModel, chosenModel, loadModels, modelChats } from "./models.js";
import { parametersOf, systemPromptOf } from "./settings.js";
import { tell } from "./tabs.js";
import { addMessage, pathOf } from "./tree.js";

const kSaveMs = 300;  // between saves of a growing answer
const kDrawShare = 4;  // at least this many times as long as it took to draw, the page does not draw again

const running = new Map();  // id of a conversation -> {conversation, stop, message} of its answer

addEventListener("pagehide", () => {
  for (const {conversation} of running.values()) if (!conversation.deleted) saveConversation(conversation);
});

export function runningIds() {
  return [...running.keys()];
}

/** Returns the message whose answer is being generated here, or null. */
export function growingIn(conversation) {
  return running.get(conversation.id)?.message ?? null;
}

export function stopAnswer(conversation) {
  running.get(conversation.id)?.stop.abort();
}

/** Returns a function that calls draw() in the next frame, and rarely enough that the page stays responsive. */
function drawer(draw) {
  let waits = false, earliest = 0;
  const attempt = () => {
    const begin = performance.now();
    if (begin < earliest) return requestAnimationFrame(attempt);
    waits = false;
    draw();
    earliest = performance.now() + kDrawShare * (performance.now() - begin);
  };
  return () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(attempt);
  };
}

/** Asks the server once; if the model has left it, asks for its models and tries again. */
async function ask(conversation, message, messages, continues, stop, changed) {
  for (let again = false; ; again = true) {
    if (!chosenModel()) await loadModels();
    message.model = chosenModel();
    try {
      await awaitModel(stop.signal);
      return await generate({messages, answer: message, continues, system: systemPromptOf(conversation),
                             parameters: parametersOf(conversation), model: chosenModel(), chats: modelChats(),
                             signal: stop.signal, changed});
    } catch (error) {
      if (error.code !== "model_not_found" || again) throw error;
      await loadModels();
    }
  }
}

/** Generates an answer after the conversation's last message, or continues the answer that is its last message.
 *  view: begun(conversation), grown(conversation, message), ended(conversation, message). */
export async function answer(conversation, view) {
  const path = pathOf(conversation), last = path.at(-1);
  const continues = last.role === "assistant";
  const message = continues ? last : addMessage(conversation, {role: "assistant", content: "", model: chosenModel() || undefined});
  for (const name of ["finish", "stopped", "error"]) delete message[name];
  message.grows = true;
  const stop = new AbortController();
  running.set(conversation.id, {conversation, stop, message});
  tell("runs", conversation.id);
  view.begun(conversation);
  announce(continues ? "Continuing" : "Answering");
  let saved = 0;
  const draw = drawer(() => {
    if (growingIn(conversation) === message) view.grown(conversation, message);
  });
  const save = async () => {
    conversation.updated = Date.now();
    if (!conversation.deleted) await saveConversation(conversation);
    tell("saved", conversation.id);
  };
  await save();
  try {
    await ask(conversation, message, path, continues, stop, () => {
      draw();
      const now = performance.now();
      if (now - saved < kSaveMs) return;
      saved = now;
      save();
    });
  } catch (error) {
    if (error.name === "AbortError") message.stopped = true;
    else message.error = error.message;
  }
  delete message.grows;
  running.delete(conversation.id);
  if (message.stopped) announce("Stopped");
  view.ended(conversation, message);
  await save();
  tell("ended", conversation.id);
}
