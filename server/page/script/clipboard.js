// Copies text to the clipboard. Pages that are not served over TLS lack navigator.clipboard, so an older
// method is the fallback.

import { element } from "./dom.js";
import { announce } from "./announcer.js";

function copyByCommand(text) {
  const field = element("textarea", {value: text, className: "hidden"});
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  return copied;
}

/** Copies the text and shows the result on the button that was pressed. */
export async function copyText(text, pressed) {
  let copied = false;
  try {
    await navigator.clipboard.writeText(text);
    copied = true;
  } catch {
    copied = copyByCommand(text);
    pressed.focus();
  }
  announce(copied ? "Copied" : "The browser does not allow copying");
  pressed.classList.add(copied ? "copied" : "not-copied");
  setTimeout(() => pressed.classList.remove("copied", "not-copied"), 1500);
}
