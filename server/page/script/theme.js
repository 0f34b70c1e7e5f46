// Sets the theme: light, dark, or the system's theme.

import { byId } from "./dom.js";
import { keep, kept } from "./kept.js";

const kThemes = ["auto", "light", "dark"];

function apply(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme-button").textContent = `Theme: ${theme}`;
  document.dispatchEvent(new Event("hearth-theme"));  // canvases must read their colors again
}

export function startTheme() {
  let theme = kThemes.includes(kept("theme")) ? kept("theme") : "auto";
  apply(theme);
  byId("theme-button").addEventListener("click", () => {
    theme = kThemes[(kThemes.indexOf(theme) + 1) % kThemes.length];
    keep("theme", theme);
    apply(theme);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("hearth-theme")));
}
