// The field for a new message. It grows with its text. Enter sends the message, and Escape stops the answer.

import { hasAttached, startAttachments, takeAttached } from "./attachments.js";
import { byId } from "./dom.js";

function fit(field) {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight, innerHeight / 3)}px`;
}

/** Puts a text into the field. */
export function writePrompt(text) {
  const field = byId("prompt");
  field.value = text;
  fit(field);
  field.focus();
}

/** accepts() returns whether a message can be sent now; send(text, files); stop(); editLast(). */
export function startComposer({accepts, send, stop, editLast}) {
  const field = byId("prompt");
  const submit = () => {
    if ((field.value.trim() === "" && !hasAttached()) || !accepts()) return;
    send(field.value, takeAttached());
    field.value = "";
    fit(field);
  };
  startAttachments();
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  field.addEventListener("input", () => fit(field));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    }
    if (event.key === "ArrowUp" && field.value === "" && editLast()) event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open], :popover-open") && !byId("stop").hidden) stop();
  });
  byId("stop").addEventListener("click", stop);
}

/** Shows the button "Stop" while an answer is being generated, and the button "Send" otherwise. */
export function showRunning(runs) {
  byId("stop").hidden = !runs;
  byId("send").hidden = runs;
}
