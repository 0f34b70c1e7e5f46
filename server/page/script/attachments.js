// Text files that are sent with a message: chosen, dropped or pasted. They are shown as chips above the field.

import { announce } from "./announcer.js";
import { byId, element, icon, iconButton } from "./dom.js";

const kMaxBytes = 1000000;  // of a file; more would not fit into a context

let attached = [];  // {name, text}

/** Returns a message's text with its files, as it is sent. A fence around a file is longer than any in it. */
export function textOf(message) {
  const files = (message.attachments ?? []).map(({name, text}) => {
    const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
    const fence = "`".repeat(longest + 1);
    return `File ${name}:\n${fence}${/\.(\w+)$/.exec(name)?.[1] ?? ""}\n${text.replace(/\n$/, "")}\n${fence}`;
  });
  return [...files, message.content].filter((part) => part !== "").join("\n\n");
}

function sizeText(text) {
  return text.length < 1000 ? `${text.length} characters` : `${(text.length / 1000).toFixed(1)} k characters`;
}

/** Creates the elements that show files of a message. */
export function fileNodes(files) {
  return (files ?? []).map(({name, text}) => element("details", {className: "attachment"},
    element("summary", {}, icon("file"), element("span", {}, name), element("span", {className: "note"}, sizeText(text))),
    element("pre", {tabIndex: 0, role: "group", "aria-label": name}, text)));
}

function show() {
  byId("attached").hidden = attached.length === 0;
  byId("attached").replaceChildren(...attached.map((file) => element("li", {className: "chip"}, icon("file"),
    element("span", {}, file.name), element("span", {className: "note"}, sizeText(file.text)),
    iconButton("close", `Remove ${file.name}`, () => {
      attached = attached.filter((other) => other !== file);
      show();
      byId("prompt").focus();
    }))));
}

function complain(sentence) {
  byId("attach-fault").textContent = sentence;
  byId("attach-fault").hidden = sentence === "";
}

async function readText(file) {
  if (file.size > kMaxBytes) throw new Error(`${file.name} has ${file.size} bytes. A file may have ${kMaxBytes}; attach the part that matters.`);
  try {
    const text = new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return text.replace(/\r\n/g, "\n");
  } catch {
    // Not UTF-8.
  }
  throw new Error(`${file.name} is not a text file. Only text and code can be attached.`);
}

/** Attaches files to the message that is being written. */
export async function attach(files) {
  const faults = [];
  for (const file of files) {
    try {
      attached.push({name: file.name || "pasted.txt", text: await readText(file)});
      announce(`${file.name} is attached`);
    } catch (error) {
      faults.push(error.message);
    }
  }
  complain(faults.join(" "));
  show();
}

/** Returns the attached files, and forgets them. */
export function takeAttached() {
  const files = attached;
  attached = [];
  complain("");
  show();
  return files;
}

export function hasAttached() {
  return attached.length > 0;
}

/** Connects the button, the conversation (for dropped files) and the field (for pasted ones). */
export function startAttachments() {
  const picker = byId("attach-input"), area = byId("main");
  byId("attach").addEventListener("click", () => picker.click());
  picker.addEventListener("change", async () => {
    await attach([...picker.files]);
    picker.value = "";
    byId("prompt").focus();
  });
  byId("prompt").addEventListener("paste", (event) => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    attach([...event.clipboardData.files]);
  });
  const hasFiles = (event) => [...event.dataTransfer.types].includes("Files");
  area.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    area.classList.add("drops");
  });
  area.addEventListener("dragleave", (event) => {
    if (!area.contains(event.relatedTarget)) area.classList.remove("drops");
  });
  area.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    area.classList.remove("drops");
    attach([...event.dataTransfer.files]);
  });
}
