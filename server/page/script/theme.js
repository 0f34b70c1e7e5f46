// Sets the theme: light, dark, or the system's theme.

import { byId } from "./dom.js";
import { keep, kept } from "./kept.js";

const kThemes = ["auto", "light", "dark"];

function apply(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  document.dispatchEvent(new Event("hearth-theme"));  // canvases must read their colors again
}

export function startTheme() {
  const picker = byId("theme");
  picker.value = kThemes.includes(kept("theme")) ? kept("theme") : "auto";
  apply(picker.value);
  picker.addEventListener("change", () => {
    keep("theme", picker.value);
    apply(picker.value);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("hearth-theme")));
}
