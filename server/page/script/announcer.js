// Announces answers to screen readers: whole paragraphs, never single tokens.

import { byId, element } from "./dom.js";

const kMaxSentences = 4;  // that stay in the live region

export function announce(text) {
  const region = byId("announcer");
  while (region.childNodes.length >= kMaxSentences) region.firstChild.remove();
  region.append(element("p", {}, text));
}
