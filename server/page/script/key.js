// The API key: asked for when the server wants one, kept for this tab, or in this browser if the user says so.

import { askInDialog, byId } from "./dom.js";

const kName = "hearth.key";
let asking = null;  // the question that is open; several requests may wait for its answer

function stores() {
  const all = [];
  for (const name of ["sessionStorage", "localStorage"]) {
    try {
      all.push(window[name]);
    } catch {
      // The browser keeps nothing.
    }
  }
  return all;
}

let keyInMemory = "";

export function currentKey() {
  for (const store of stores()) {
    const key = store.getItem(kName);
    if (key) return key;
  }
  return keyInMemory;
}

function keepKey(key, remember) {
  forgetKey();
  keyInMemory = key;
  const [session, local] = stores();
  (remember ? local : session)?.setItem(kName, key);
  document.dispatchEvent(new Event("hearth-key"));
}

export function forgetKey() {
  keyInMemory = "";
  for (const store of stores()) store.removeItem(kName);
}

async function askOnce(reason) {
  byId("key-reason").textContent = reason;
  byId("key-input").value = "";
  if (!(await askInDialog("key"))) return false;
  keepKey(byId("key-input").value.trim(), byId("key-remember").checked);
  byId("key-input").value = "";
  return true;
}

/** Asks the user for a key because the server refused `refused`. Resolves to whether there is a new one. */
export async function askForKey(reason, refused) {
  if (currentKey() !== refused) return true;  // another request has asked meanwhile
  asking ??= askOnce(reason).finally(() => { asking = null; });
  return asking;
}
