// The neuron map: layers down, neurons across. A cell is a bucket of neighboring neurons (or experts). Its hue says
// where they are, its strength how many of them fired in the last sampled step; it fades over a few frames.

import { byId, element } from "./dom.js";

const kFullLevel = 15;
const kFade = 0.72;  // of a cell's strength that is left one frame later
const kGround = 0.16;  // how much of a place's hue shows where nothing fires

/** "0f3" to [0, 15, 3]. */
export function levelsOf(hex) {
  return Uint8Array.from(hex, (digit) => parseInt(digit, 16));
}

/** The red, green and blue of a color of the theme, which only a property of an element tells for the theme that is shown. */
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

  /** shape: {layers, buckets}; hot: levels of neurons in VRAM for good, or null where all are in one place. */
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

  /** levels of a sampled step, or null: nothing has fired since. */
  next(levels, fades) {
    for (let i = 0; i < this.glow.length; ++i) {
      const now = levels === null ? 0 : levels[i];
      this.glow[i] = fades ? Math.max(now, this.glow[i] * kFade) : levels === null ? this.glow[i] : now;
    }
    this.draw();
  }

  /** The color of bucket i's place, at full strength. */
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
      // Perhaps one in seven of a step's neurons fires; the root makes such a share visible.
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

  /** A dark line between layers, where there is room for it. */
  drawLines(to, width, height) {
    const step = height / this.shape.layers;
    if (step < 5) return;
    to.fillStyle = `rgb(${this.colors.ground.join(" ")})`;
    for (let layer = 1; layer < this.shape.layers; ++layer) to.fillRect(0, Math.round(layer * step), width, 1);
  }
}

/** The legend: which hue is which place, and the numbers beside it. */
export function showLegend(list, entries) {
  list.replaceChildren(...entries.map(([name, text]) => {
    const mark = element("span", {className: `mark ${name}`, "aria-hidden": "true"});
    return element("li", {}, mark, text);
  }));
}

/** The active share of each layer, for those who do not see the map. */
export function showLayerTable(levels, shape) {
  const rows = [];
  for (let layer = 0; layer < shape.layers; ++layer) {
    const row = levels.subarray(layer * shape.buckets, (layer + 1) * shape.buckets);
    const share = row.reduce((sum, level) => sum + level, 0) / (kFullLevel * shape.buckets);
    rows.push(element("tr", {}, element("th", {scope: "row"}, String(layer)), element("td", {}, `${(100 * share).toFixed(0)} %`)));
  }
  byId("layer-table").tBodies[0].replaceChildren(...rows);
}
