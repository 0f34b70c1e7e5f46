// The live panel: reads the server's event stream while the panel is visible, and shows the engine's
// activity.

import { byId, element } from "./dom.js";
import { eventsOf } from "./event_stream.js";
import { chosenModel, isKnown, isLoaded, loadModels } from "./models.js";
import { levelsOf, NeuronMap, showLayerTable, showLegend } from "./neuron_map.js";
import { ask, pause } from "./request.js";
import { Trend } from "./trend.js";

const kRetryMs = 3000;
const kCalmMs = 2000;  // between changes of the map if the system asks for less motion
const kTableMs = 1000;  // between changes of the table

const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
let map = null, trend = null;
let model = null;  // data of the last "model" event
let watching = null;  // AbortController of the event stream; null if not connected
let paused = false, lastCalm = 0, lastTable = 0;

function bytesText(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; bytes >= 1000 && i + 1 < units.length; ++i) bytes /= 1000;
  return `${bytes.toFixed(bytes < 10 && i > 0 ? 1 : 0)} ${units[i]}`;
}

function showMemory(memory) {
  const places = [["vram", "VRAM", memory.vram], ["ram", "RAM", memory.ram], ["file", "Model file, mapped", memory.file]].filter(([, , bytes]) => bytes > 0);
  const bar = byId("memory-bar");
  bar.replaceChildren(...places.map(([name, , bytes]) => {
    const part = element("span", {className: `part ${name}`});
    part.style.flexGrow = String(bytes);
    return part;
  }));
  bar.setAttribute("aria-label", `Memory: ${places.map(([, name, bytes]) => `${name} ${bytesText(bytes)}`).join(", ")}`);
  showLegend(byId("memory-legend"), places.map(([name, words, bytes]) => [name, `${words} ${bytesText(bytes)}`]));
}

function showModel(event) {
  model = event;
  const {map: shape} = event;
  const units = shape.units;
  byId("map-title").textContent = units === "experts" ? "Expert map" : "Neuron map";
  byId("map-left").textContent = `${units === "experts" ? "expert" : "neuron"} 0`;
  byId("map-right").textContent = String(shape.per_layer - 1);
  const placed = shape.hot !== undefined;
  const isShown = placed || !shape.reason;
  for (const id of ["map", "map-legend", "map-pause"]) byId(id).hidden = !isShown;
  byId("map").nextElementSibling.hidden = !isShown;
  byId("layer-table").parentElement.hidden = Boolean(shape.reason);
  byId("map-note").textContent = shape.reason ? shape.reason : `${shape.layers} layers of ${shape.per_layer} ${units}; a cell stands for ` +
    `${Math.ceil(shape.per_layer / shape.buckets)}. Strength: how many of them fired in a sampled step.`;
  if (isShown) map.begin(shape, placed ? levelsOf(shape.hot) : null);
  const places = [["hot", "hot: always in VRAM"], ...(shape.cache ? [["cached", "cached: in VRAM for a while"]] : []), ["cold", "cold: in RAM"]];
  showLegend(byId("map-legend"), placed ? places : [["only", `all ${units} are in RAM; bright cells are active`]]);
  showMemory(event.memory);
}

function showFired(fired) {
  const {map: shape} = model;
  const now = performance.now();
  const levels = fired ? levelsOf(fired.levels) : null;
  if (paused || (isCalm() && now - lastCalm < kCalmMs)) return;
  lastCalm = now;
  map.next(levels, !isCalm());
  if (fired === null || fired === undefined) return;
  byId("map").dataset.step = String(fired.step);
  const share = `${(100 * fired.active).toFixed(1)} % of ${shape.units} active`;
  byId("map").setAttribute("aria-label", `${byId("map-title").textContent}: ${shape.layers} layers, ${share} in step ${fired.step}`);
  if (now - lastTable < kTableMs) return;
  lastTable = now;
  if (!byId("map-note").textContent.startsWith(share)) byId("map-note").textContent = `${share} in the last sampled step.`;
  if (byId("layer-table").parentElement.open) showLayerTable(levels, shape);
}

function showFrame(frame) {
  byId("live-rate").textContent = frame.tokens_per_second.toFixed(frame.tokens_per_second < 100 ? 1 : 0);
  trend.add(frame.seconds, frame.tokens_per_second);
  byId("live-requests").textContent = String(frame.slots.running);
  byId("live-waiting").textContent = frame.waiting === 0 ? "running, none waiting" : `running, ${frame.waiting} waiting`;
  byId("live-slots").textContent = `${frame.slots.running} of ${frame.slots.total}`;
  const cells = byId("live-cells");
  if (cells.childElementCount !== Math.min(frame.slots.total, 64)) {
    cells.replaceChildren(...Array.from({length: Math.min(frame.slots.total, 64)}, () => element("span")));
  }
  [...cells.children].forEach((cell, i) => cell.classList.toggle("full", i < frame.slots.running));
  const used = frame.kv.total === 0 ? 0 : frame.kv.used / frame.kv.total;
  byId("live-kv").textContent = `${(100 * used).toFixed(0)} %`;
  byId("live-kv-meter").value = used;
  byId("live-kv-meter").title = `${bytesText(frame.kv.used)} of ${bytesText(frame.kv.total)}`;
  if (model === null || map.shape.layers === 0) return;
  if (frame.cached !== undefined) map.cached = levelsOf(frame.cached);
  showFired(frame.fired ?? null);
}

/** Without a stream, nothing is known about requests and speed. */
function forgetFrame() {
  for (const name of ["rate", "requests", "slots", "kv"]) byId(`live-${name}`).textContent = "-";
  byId("live-waiting").textContent = "";
}

async function follow(signal) {
  const response = await ask(`page/events?model=${encodeURIComponent(chosenModel())}`, {signal, asks: false});
  byId("live-state").textContent = "Connected";
  for await (const {type, data} of eventsOf(response)) {
    if (type === "model") {
      showModel(JSON.parse(data));
      if (!isKnown(model.model)) loadModels().catch(() => {});  // the server has another model now
    }
    if (type === "frame") showFrame(JSON.parse(data));
  }
}

async function watch(signal) {
  while (!signal.aborted) {
    try {
      await follow(signal);
      byId("live-state").textContent = "The stream has ended; connecting again";
    } catch (error) {
      if (signal.aborted) return;
      byId("live-state").textContent = error.status > 0 ? error.message : "The server cannot be reached; trying again.";
      forgetFrame();
      if (error.status === 401) return;  // connects again after the user has entered a key
    }
    await pause(kRetryMs, signal).catch(() => {});
  }
}

/** Connects to the event stream while the panel is visible. A hidden panel causes no work for the server. */
function lookWhetherSeen() {
  const seen = !document.hidden && !byId("panel").hidden && !byId("live").hidden && isLoaded();
  if (seen === (watching !== null)) return;
  if (seen) {
    watching = new AbortController();
    watch(watching.signal);
  } else {
    watching.abort();
    watching = null;
    byId("live-state").textContent = isLoaded() ? "Not connected" : "The model is not loaded";
  }
}

function lookAgain() {
  watching?.abort();
  watching = null;
  lookWhetherSeen();
}

export function startLive() {
  map = new NeuronMap(byId("map"));
  trend = new Trend(byId("live-trend"));
  byId("map-pause").addEventListener("click", () => {
    paused = !paused;
    byId("map-pause").setAttribute("aria-pressed", String(paused));
  });
  document.addEventListener("visibilitychange", lookWhetherSeen);
  document.addEventListener("hearth-panels", lookWhetherSeen);
  document.addEventListener("hearth-key", lookAgain);
  document.addEventListener("hearth-model", lookAgain);
  document.addEventListener("hearth-models", lookWhetherSeen);
  lookWhetherSeen();
}
