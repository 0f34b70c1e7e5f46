// The API key. The page asks for it when the server requires one. It is stored for this tab or, if the user
// chooses so, for this browser.

import { askInDialog, byId } from "./dom.js";

const kName = "hearth.key";
let asking = null;  // promise of the open dialog; several requests may await it

function stores() {
  const all = [];
  for (const name of ["sessionStorage", "localStorage"]) {
    try {
      all.push(window[name]);
    } catch {
      // The browser does not allow this storage.
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

async function askOnce(reason, refused) {
  // The server's sentence for a request without a key explains headers, which a browser's user never sees.
  byId("key-reason").textContent = refused ? reason : "This server requires an API key. Ask its operator for one.";
  byId("key-input").value = "";
  if (!(await askInDialog("key"))) return false;
  keepKey(byId("key-input").value.trim(), byId("key-remember").checked);
  byId("key-input").value = "";
  return true;
}

/** Asks the user for a key because the server rejected the key `refused`. Resolves to whether there is a new
 *  key. */
export async function askForKey(reason, refused) {
  if (currentKey() !== refused) return true;  // another request has already got a new key
  asking ??= askOnce(reason, refused).finally(() => { asking = null; });
  return asking;
}
