// Announces answers to screen readers, in whole paragraphs.

import { byId, element } from "./dom.js";

const kMaxSentences = 4;  // paragraphs in the live region; older ones are removed

export function announce(text) {
  const region = byId("announcer");
  while (region.childNodes.length >= kMaxSentences) region.firstChild.remove();
  region.append(element("p", {}, text));
}
