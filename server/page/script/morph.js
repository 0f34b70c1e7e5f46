// Changes a DOM node so that it equals another one, and keeps what is already equal. So a growing answer does
// not flicker, and a selection in it stays.

import { changeCode } from "./code_view.js";
import { isSet, sameMath } from "./math_view.js";

function morphAttributes(old, fresh) {
  for (const {name} of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const {name, value} of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
}

/** Returns the node that is now in the document: `old` or `fresh`. */
export function morph(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE && fresh.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return old;
  }
  if (old.nodeName !== fresh.nodeName || old.className.split(" ")[0] !== fresh.className.split(" ")[0]) {
    old.replaceWith(fresh);
    return fresh;
  }
  if (changeCode(old, fresh) || sameMath(old, fresh)) return old;
  if (old.matches(".code") || isSet(old)) {
    old.replaceWith(fresh);
    return fresh;
  }
  morphAttributes(old, fresh);
  const children = [...fresh.childNodes];
  while (old.childNodes.length > children.length) old.lastChild.remove();
  children.forEach((child, i) => {
    if (i < old.childNodes.length) morph(old.childNodes[i], child);
    else old.append(child);
  });
  return old;
}
