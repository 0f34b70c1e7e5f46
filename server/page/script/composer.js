// The field for a new message. It grows with its text. Enter sends the message, and Escape stops the answer.

import { byId } from "./dom.js";

function fit(field) {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight + 2, innerHeight / 3)}px`;
}

/** send(text) returns whether the text was accepted. */
export function startComposer({send, stop}) {
  const field = byId("prompt");
  const submit = () => {
    if (field.value.trim() === "" || !send(field.value)) return;
    field.value = "";
    fit(field);
  };
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
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open]") && !byId("stop").hidden) stop();
  });
  byId("stop").addEventListener("click", stop);
}

/** Shows the button "Stop" while an answer is being generated, and the button "Send" otherwise. */
export function showRunning(runs) {
  byId("stop").hidden = !runs;
  byId("send").hidden = runs;
}
