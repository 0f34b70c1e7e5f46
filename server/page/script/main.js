// The main module: holds the conversations, and carries out the user's commands.

import { announce } from "./announcer.js";
import { answer, growingIn, runningIds, stopAnswer } from "./answers.js";
import { showRunning, startComposer, writePrompt } from "./composer.js";
import { deleteConversation, newConversation, openConversations, readConversation, saveConversation } from "./conversations.js";
import { byId } from "./dom.js";
import { forgetKey } from "./key.js";
import { startLive } from "./live.js";
import { loadModels, modelChats, startModels } from "./models.js";
import { startModelPicker } from "./model_picker.js";
import { closePanelsIfNarrow, openTab, startPanels } from "./panels.js";
import { defaultSettings, settingsFault, showSettings, startSettings } from "./settings.js";
import { startShortcuts } from "./shortcuts.js";
import { showConversations, startSidebar } from "./sidebar.js";
import { runsElsewhere, startTabs, tell } from "./tabs.js";
import { startTheme } from "./theme.js";
import { Transcript } from "./transcript.js";
import { addMessage, chooseVersion, pathOf } from "./tree.js";

const kTitleLength = 60;

let conversations = [];
let current = null;

const transcript = new Transcript({retry, edit, goOn, choose, results, example: (text) => writePrompt(text)});
const isRunning = (id) => runningIds().includes(id) || runsElsewhere(id);

function show() {
  transcript.show(current, runsElsewhere(current.id) ? pathOf(current).at(-1) : growingIn(current));
  showSettings(current);
  showList();
}

function showList() {
  showConversations({conversations, current, runs: isRunning}, {open, pin, rename, remove});
  showRunning(growingIn(current) !== null);
  document.title = conversations.includes(current) ? `${current.title} - Hearth` : "Hearth";
}

/** The address names the open conversation: #/chat/ID. */
function showAddress() {
  const address = conversations.includes(current) ? `#/chat/${current.id}` : "#/";
  if (location.hash !== address) history.pushState(null, "", address);
}

function openAddress() {
  const id = /^#\/chat\/(\w+)$/.exec(location.hash)?.[1];
  const found = conversations.find((conversation) => conversation.id === id);
  if (found !== current || current === null) current = found ?? newConversation(defaultSettings());
  show();
}

function open(conversation) {
  current = conversation;
  showAddress();
  show();
  closePanelsIfNarrow();
  byId("prompt").focus();
}

function newChat() {
  open(newConversation(defaultSettings()));
}

/** Saves a change that is not a message. The conversation keeps its date and its place in the list. */
async function saveFact(conversation) {
  showList();
  await saveConversation(conversation);
  tell("saved", conversation.id);
}

async function pin(conversation) {
  conversation.pinned = !conversation.pinned;
  await saveFact(conversation);
}

async function rename(conversation, title) {
  if (title) conversation.title = title;
  conversation.named = true;
  await saveFact(conversation);
}

async function remove(conversation) {
  stopAnswer(conversation);
  conversations = conversations.filter((other) => other !== conversation);
  conversation.deleted = true;
  if (current === conversation) current = newConversation(defaultSettings());
  showAddress();
  show();
  await deleteConversation(conversation.id);
  tell("deleted", conversation.id);
}

async function save(conversation) {
  if (conversation.deleted) return;
  conversation.updated = Date.now();
  listFirst(conversation);
  await saveConversation(conversation);
  tell("saved", conversation.id);
}

function listFirst(conversation) {
  conversations = [conversation, ...conversations.filter((other) => other !== conversation)];
  showList();
}

/** Another tab has saved a conversation. */
async function readAgain(id) {
  const stored = await readConversation(id);
  if (stored === undefined || runningIds().includes(id)) return;
  conversations = [stored, ...conversations.filter((other) => other.id !== id)].sort((a, b) => b.updated - a.updated);
  if (current.id !== id) return showList();
  current = stored;
  if (!transcript.root.querySelector("textarea")) show();
}

function noticeOtherTab(kind, id) {
  if (kind === "saved" || kind === "ended") return readAgain(id);
  if (kind === "deleted") conversations = conversations.filter((other) => other.id !== id);
  if (current.id === id && kind === "deleted") newChat();
  return showList();
}

const view = {
  begun(conversation) {
    listFirst(conversation);
    if (conversation === current) {
      showAddress();
      show();
    }
  },
  grown: (conversation, message) => transcript.update(message, false),
  ended(conversation, message) {
    transcript.update(message, true);
    listFirst(conversation);
  },
};

/** Whether the open conversation can be answered now. Says why not. */
function accepts() {
  if (isRunning(current.id)) {
    announce(runsElsewhere(current.id) ? "Another tab is answering" : "The answer is not complete");
    return false;
  }
  const fault = settingsFault(current);
  if (fault === "") return true;
  announce(fault);
  openTab("settings");
  return false;
}

function nameAfterFirst() {
  const path = pathOf(current);
  if (current.named || path.length !== 1) return;
  const text = path[0].content.trim() || path[0].attachments?.[0]?.name || "New chat";
  current.title = text.replace(/\s+/g, " ").slice(0, kTitleLength);
}

function send(text, files) {
  addMessage(current, {role: "user", content: modelChats() ? text.trim() : text, ...(files.length > 0 ? {attachments: files} : {})});
  nameAfterFirst();
  answer(current, view);
}

function retry(message) {
  if (!accepts()) return;
  current.leaf = message.parent;
  answer(current, view);
}

function goOn() {
  if (accepts()) answer(current, view);
}

function edit(message, text) {
  if (!accepts()) return;
  const {attachments} = message;
  addMessage(current, {role: "user", content: text, ...(attachments ? {attachments} : {})}, message.parent);
  nameAfterFirst();
  answer(current, view);
}

function choose(message) {
  if (isRunning(current.id)) return;
  chooseVersion(current, message);
  show();
  saveConversation(current);
}

function results(message, texts) {
  if (!accepts()) return;
  message.toolCalls.forEach((call, i) => addMessage(current, {role: "tool", toolCallId: call.id, name: call.name, content: texts[i]}));
  answer(current, view);
}

function stopCurrent() {
  stopAnswer(current);
  byId("prompt").focus();
}

async function removeAll() {
  for (const conversation of [...conversations]) await remove(conversation);
}

async function add(imported) {
  conversations = [...imported, ...conversations].sort((a, b) => b.updated - a.updated);
  showList();
  for (const conversation of imported) await saveConversation(conversation);
}

function startSearch() {
  if (byId("chats").hidden) byId("chats-button").click();
  byId("search").focus();
  byId("search").select();
}

async function start() {
  startTheme();
  startPanels();
  startModelPicker();
  startModels();
  conversations = await openConversations();
  current = newConversation(defaultSettings());
  openAddress();
  startSettings((conversation) => {
    if (conversations.includes(conversation)) saveConversation(conversation);
  });
  startSidebar({all: () => conversations, add, removeAll, search: showList});
  startComposer({accepts, send, stop: stopCurrent, editLast: () => growingIn(current) === null && transcript.editLast()});
  startShortcuts({newChat, search: startSearch});
  startTabs(runningIds, noticeOtherTab);
  addEventListener("popstate", openAddress);
  byId("new-chat").addEventListener("click", newChat);
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();  // the address names a conversation
    byId("prompt").focus();
  });
  byId("key-forget").addEventListener("click", () => {
    forgetKey();
    announce("The key is forgotten");
  });
  for (const news of ["hearth-models", "hearth-props"]) {
    document.addEventListener(news, () => {
      if (current.messages.length === 0) transcript.show(current, null);
    });
  }
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
