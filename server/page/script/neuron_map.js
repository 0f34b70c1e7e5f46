// The neuron map. A row is a layer, and a cell is a bucket of neighboring neurons (or experts). The hue of a
// cell shows where its neurons are. The brightness shows how many were active in the last sampled step, and
// fades over a few frames.

import { byId, element } from "./dom.js";

const kFullLevel = 15;
const kFade = 0.72;  // factor of a cell's brightness from one frame to the next
const kGround = 0.16;  // brightness of a cell without active neurons

/** Converts "0f3" to [0, 15, 3]. */
export function levelsOf(hex) {
  return Uint8Array.from(hex, (digit) => parseInt(digit, 16));
}

/** Returns the red, green and blue values of a theme color. The browser resolves the color for the current
 *  theme only as a property of an element, so `probe` is such an element. */
function colorOf(name, probe) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color.match(/\d+/g).slice(0, 3).map(Number);
}

export class NeuronMap {
  constructor(canvas) {
    this.canvas = canvas;
    this.cells = document.createElement("canvas");
    this.clear();
    this.readColors();
    document.addEventListener("hearth-theme", () => {
      this.readColors();
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  readColors() {
    this.colors = Object.fromEntries(["ground", "hot", "cached", "cold", "only"].map((name) => [name, colorOf(`--map-${name}`, this.canvas)]));
  }

  clear() {
    this.shape = {layers: 0, buckets: 0};
    this.glow = new Float32Array(0);
    this.hot = this.cached = null;
  }

  /** shape: {layers, buckets}. hot: levels of neurons that are permanently in VRAM; null if all neurons are
   *  in one place. */
  begin(shape, hot) {
    this.shape = shape;
    this.glow = new Float32Array(shape.layers * shape.buckets);
    this.hot = hot;
    this.cached = null;
    this.cells.width = shape.buckets;
    this.cells.height = shape.layers;
    this.canvas.style.height = `${Math.min(420, Math.max(96, shape.layers * 10))}px`;
    this.draw();
  }

  /** levels: of a sampled step; null if no step was sampled since the last call. fades: whether earlier
   *  levels fade. */
  next(levels, fades) {
    for (let i = 0; i < this.glow.length; ++i) {
      const now = levels === null ? 0 : levels[i];
      this.glow[i] = fades ? Math.max(now, this.glow[i] * kFade) : levels === null ? this.glow[i] : now;
    }
    this.draw();
  }

  /** Returns the color of bucket i at full brightness, mixed from the places of its neurons. */
  placeColor(i) {
    const {hot, cached, cold, only} = this.colors;
    if (this.hot === null) return only;
    const h = this.hot[i] / kFullLevel, c = Math.min(this.cached === null ? 0 : this.cached[i] / kFullLevel, 1 - h);
    return hot.map((value, k) => value * h + cached[k] * c + cold[k] * (1 - h - c));
  }

  draw() {
    const {layers, buckets} = this.shape;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const width = Math.round(this.canvas.clientWidth * ratio), height = Math.round(this.canvas.clientHeight * ratio);
    if (layers === 0 || width === 0 || height === 0) return;
    this.canvas.width = width;
    this.canvas.height = height;
    const cells = this.cells.getContext("2d"), image = cells.createImageData(buckets, layers);
    for (let i = 0; i < layers * buckets; ++i) {
      const place = this.placeColor(i);
      // Few neurons are active in a step, for example one in seven. The square root makes them visible.
      const light = kGround + (1 - kGround) * Math.sqrt(this.glow[i] / kFullLevel);
      for (let k = 0; k < 3; ++k) image.data[4 * i + k] = this.colors.ground[k] + (place[k] - this.colors.ground[k]) * light;
      image.data[4 * i + 3] = 255;
    }
    cells.putImageData(image, 0, 0);
    const to = this.canvas.getContext("2d");
    to.imageSmoothingEnabled = width < buckets;
    to.drawImage(this.cells, 0, 0, width, height);
    this.drawLines(to, width, height);
  }

  /** Draws a dark line between layers if the layers are high enough. */
  drawLines(to, width, height) {
    const step = height / this.shape.layers;
    if (step < 5) return;
    to.fillStyle = `rgb(${this.colors.ground.join(" ")})`;
    for (let layer = 1; layer < this.shape.layers; ++layer) to.fillRect(0, Math.round(layer * step), width, 1);
  }
}

/** Shows a legend. entries: pairs of a color's class and its description. */
export function showLegend(list, entries) {
  list.replaceChildren(...entries.map(([name, text]) => {
    const mark = element("span", {className: `mark ${name}`, "aria-hidden": "true"});
    return element("li", {}, mark, text);
  }));
}

/** Shows the active share of each layer as a table, for users who cannot see the map. */
export function showLayerTable(levels, shape) {
  const rows = [];
  for (let layer = 0; layer < shape.layers; ++layer) {
    const row = levels.subarray(layer * shape.buckets, (layer + 1) * shape.buckets);
    const share = row.reduce((sum, level) => sum + level, 0) / (kFullLevel * shape.buckets);
    rows.push(element("tr", {}, element("th", {scope: "row"}, String(layer)), element("td", {}, `${(100 * share).toFixed(0)} %`)));
  }
  byId("layer-table").tBodies[0].replaceChildren(...rows);
}
