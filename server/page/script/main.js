// The main module: holds the open conversation and the running answers, and carries out the user's commands.

import { announce } from "./announcer.js";
import { showRunning, startComposer } from "./composer.js";
import { deleteConversation, newConversation, newId, openConversations, saveConversation } from "./conversations.js";
import { byId } from "./dom.js";
import { generate } from "./generation.js";
import { forgetKey } from "./key.js";
import { startLive } from "./live.js";
import { chosenModel, loadModels, modelChats } from "./models.js";
import { closePanelsIfNarrow, startPanels } from "./panels.js";
import { parameters, settingsFault, startSettings, systemPrompt } from "./settings.js";
import { showConversations, startSidebar } from "./sidebar.js";
import { startTheme } from "./theme.js";
import { Transcript } from "./transcript.js";

const kTitleLength = 60;

let conversations = [];
let current = newConversation();
const running = new Map();  // id of a conversation -> {stop, answer} of its running answer

const transcript = new Transcript({retry, edit});

function show() {
  transcript.show(current, running.get(current.id)?.answer ?? null);
  showList();
}

function showList() {
  showConversations(conversations, current, {open, rename, remove});
  showRunning(running.has(current.id));
}

function open(conversation) {
  current = conversation;
  show();
  closePanelsIfNarrow();
  byId("prompt").focus();
}

async function rename(conversation, title) {
  if (title) conversation.title = title;
  conversation.named = true;
  await saveConversation(conversation);
  showList();
}

async function remove(conversation) {
  running.get(conversation.id)?.stop.abort();
  conversations = conversations.filter((other) => other !== conversation);
  conversation.deleted = true;
  if (current === conversation) current = newConversation();
  show();
  await deleteConversation(conversation.id);
}

async function save(conversation) {
  if (conversation.deleted) return;
  conversation.updated = Date.now();
  conversations = [conversation, ...conversations.filter((other) => other !== conversation)];
  await saveConversation(conversation);
}

/** Generates an answer to the conversation's messages and appends it. */
async function answer(conversation) {
  const message = {id: newId(), role: "assistant", content: "", model: chosenModel() || undefined};
  const messages = [...conversation.messages];
  conversation.messages.push(message);
  const stop = new AbortController();
  running.set(conversation.id, {stop, answer: message});
  show();
  announce("Answering");
  let drawing = false;
  const changed = () => {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => {
      drawing = false;
      if (running.get(conversation.id)?.answer === message) transcript.update(message, false);
    });
  };
  try {
    if (!chosenModel()) await loadModels();
    message.model = chosenModel();
    await generate({messages, answer: message, system: systemPrompt(), parameters: parameters(), model: chosenModel(),
                    chats: modelChats(), signal: stop.signal, changed});
  } catch (error) {
    if (error.name === "AbortError") message.stopped = true;
    else message.error = error.message;
  }
  running.delete(conversation.id);
  transcript.update(message, true);
  showRunning(running.has(current.id));
  if (message.stopped) announce("Stopped");
  await save(conversation);
  showList();
}

function send(text) {
  if (running.has(current.id)) return false;
  const fault = settingsFault();
  if (fault !== "") {
    announce(fault);
    byId("settings-tab").click();
    return false;
  }
  current.messages.push({id: newId(), role: "user", content: modelChats() ? text.trim() : text});
  if (!current.named && current.messages.length === 1) current.title = text.trim().replace(/\s+/g, " ").slice(0, kTitleLength);
  save(current);
  answer(current);
  return true;
}

function stopCurrent() {
  running.get(current.id)?.stop.abort();
  byId("prompt").focus();
}

/** Removes this message and all messages after it. Returns false while an answer is being generated. */
function cutAt(index) {
  if (running.has(current.id)) return false;
  current.messages.length = index;
  return true;
}

function retry(index) {
  if (cutAt(index)) answer(current);
}

function edit(index, text) {
  if (!cutAt(index)) return;
  current.messages.push({id: newId(), role: "user", content: text});
  answer(current);
}

async function removeAll() {
  for (const conversation of [...conversations]) await remove(conversation);
}

async function start() {
  startTheme();
  startSettings();
  startPanels();
  startSidebar(() => conversations, removeAll);
  startComposer({send, stop: stopCurrent});
  byId("new-chat").addEventListener("click", () => open(newConversation()));
  byId("key-forget").addEventListener("click", () => {
    forgetKey();
    announce("The key is forgotten");
  });
  conversations = await openConversations();
  show();
  // The field gets the focus only if no other element has it.
  if (document.activeElement === document.body) byId("prompt").focus();
  try {
    await loadModels();
  } catch (error) {
    byId("mode-note").hidden = false;
    byId("mode-note").textContent = error.message;
  }
  startLive();
}

start();
