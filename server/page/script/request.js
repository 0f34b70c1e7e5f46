// Sends requests to the server of this page. Adds the API key, waits while the model is loading, and converts
// the server's errors to ServerError.

import { byId } from "./dom.js";
import { askForKey, currentKey } from "./key.js";

/** An error response, or a failed connection. The message is a sentence for the user. */
export class ServerError extends Error {
  constructor(message, status = 0, code = "") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function errorOf(response) {
  let sentence = `The server answered ${response.status}.`, code = "";
  try {
    const body = await response.json();
    if (body?.error?.message) sentence = body.error.message;
    code = body?.error?.code ?? "";
  } catch {
    // The body is not JSON, for example a proxy's error page.
  }
  return new ServerError(sentence, response.status, code);
}

async function fetchOnce(path, how) {
  const key = currentKey();
  try {
    const headers = {...how.headers};
    if (key) headers.Authorization = `Bearer ${key}`;
    return [await fetch(path, {...how, headers, cache: "no-store", credentials: "omit"}), key];
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server cannot be reached. It may have stopped, or the connection is gone.");
  }
}

export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(new DOMException("stopped", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, {once: true});
  });
}

/** Shows the progress of loading the model, and waits for its end. Returns whether the model was loading. */
async function waitWhileLoading(signal) {
  const banner = byId("loading");
  let waited = false;
  try {
    for (;;) {
      const [response] = await fetchOnce("health", {signal});
      const health = await response.json().catch(() => ({}));
      if (health.status !== "loading") return waited;
      waited = true;
      banner.hidden = false;
      byId("loading-progress").value = health.progress;
      byId("loading-text").textContent = `The model is being loaded: ${Math.floor(100 * health.progress)} %`;
      await pause(400, signal);
    }
  } finally {
    banner.hidden = true;
  }
}

/** Sends a request. body: sent as JSON. asks: whether to ask the user for a key if the server requires one.
 *  Resolves to a response with a 2xx status. Throws ServerError. */
export async function ask(path, {method = "GET", body, signal, asks = true} = {}) {
  const how = {method, signal, headers: body === undefined ? {} : {"Content-Type": "application/json"},
               body: body === undefined ? undefined : JSON.stringify(body)};
  for (let waited = false; ;) {
    const [response, key] = await fetchOnce(path, how);
    if (response.ok) return response;
    const error = await errorOf(response);
    if (response.status === 401 && asks && await askForKey(error.message, key)) continue;
    if (response.status !== 503 || waited || !(await waitWhileLoading(signal))) throw error;
    waited = true;
  }
}
