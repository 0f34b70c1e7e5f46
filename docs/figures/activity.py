"""Draws how activity is distributed over a model's neurons, as an SVG without dependencies.

    activity.py                        draws docs/figures/activity.svg anew from the committed table
    activity.py OUT.svg TABLE.csv ...  a row of plots for each table (profiler/activity/activity_csv.h has its
                                       form)

Left: neurons, the most active first, against the share of all activations they make up. Right: the same order
against the share of tokens a neuron is active for. A curve for each layer, and one for all neurons of the
model together. The same tables give the same bytes.
"""
import pathlib
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_TABLES = [ROOT / "tests/data/relu/activity.csv"]

PLOT = 320  # side of a plot, px
LEFT, GAP, RIGHT = 72, 88, 36
TITLE, FOOT = 84, 62  # above and below the plots of a row
ROW = TITLE + PLOT + FOOT
WIDTH = LEFT + PLOT + GAP + PLOT + RIGHT
STEPS = 80  # points of a curve, closer together at its ends, where it is steep
# share that holds 80 % in an FFN of OPT-30B, and in all FFNs of a 70B ReGLU model together (Song et al. 2024)
MARK = 0.26
# Layers from first to last: of medium lightness, so that they stand out from either theme's background.
RAMP = [(59, 130, 246), (139, 92, 246), (236, 72, 153), (234, 120, 40)]

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #59636e }
  .title { font-size: 15px; font-weight: 600; fill: #1f2328 }
  .strong { fill: #1f2328 }
  .page { fill: #ffffff; stroke: #d1d9e0 }
  .grid { stroke: #e4e8ec }
  .even { stroke: #8b949e; stroke-dasharray: 4 4 }
  .layer { fill: none; stroke-width: 1.5; opacity: 0.9 }
  .model { fill: none; stroke: #1f2328; stroke-width: 2.5 }
  .dot { fill: #1f2328 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 }
    .title, .strong { fill: #f0f6fc }
    .page { fill: #0d1117; stroke: #3d444d }
    .grid { stroke: #262c34 }
    .even { stroke: #6e7681 }
    .model { stroke: #f0f6fc }
    .dot { fill: #f0f6fc }
  }
"""


def read_table(path):
    """The remarks before the table as a dictionary, and the counts of each layer."""
    remarks, layers = {}, []
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.rstrip("\r\n")
            if line.startswith("# "):
                name, _, value = line[2:].partition(": ")
                remarks[name] = value
            elif line != "layer,neuron,count":
                layer, neuron, count = map(int, line.split(","))
                if neuron == 0:
                    layers.append([])
                if layer != len(layers) - 1 or neuron != len(layers[-1]):
                    sys.exit(f"{path}: layer {layer}, neuron {neuron} is out of order")
                layers[-1].append(count)
    if not layers or int(remarks.get("tokens", 0)) < 1:
        sys.exit(f"{path}: holds no table of activity with its number of tokens")
    return remarks, layers


class Curve:
    """One set of neurons, hottest first."""

    def __init__(self, counts, n_tokens):
        self.counts = sorted(counts, reverse=True)
        self.n_tokens = n_tokens
        self.sums = [0]
        for count in self.counts:
            self.sums.append(self.sums[-1] + count)

    def cumulative(self, share):
        """The share of all activations that this share of neurons makes up."""
        at = share * len(self.counts)
        whole = min(int(at), len(self.counts) - 1)
        return (self.sums[whole] + (at - whole) * self.counts[whole]) / max(self.sums[-1], 1)

    def rate(self, share):
        """The share of all tokens for which the neuron at this position is active."""
        return self.counts[min(int(share * len(self.counts)), len(self.counts) - 1)] / self.n_tokens


def color(i, n):
    at = i / max(n - 1, 1) * (len(RAMP) - 1)
    low = min(int(at), len(RAMP) - 2)
    return "#" + "".join(f"{round(a + (b - a) * (at - low)):02x}" for a, b in zip(RAMP[low], RAMP[low + 1]))


def percent(value):
    return f"{100 * value:.0f} %"


def text(x, y, words, kind="", anchor="start", turn=""):
    attributes = f' class="{kind}"' if kind else ""
    attributes += f' text-anchor="{anchor}"' if anchor != "start" else ""
    attributes += f' transform="rotate({turn} {x} {y})"' if turn else ""
    return f'<text x="{x}" y="{y}"{attributes}>{escape(words)}</text>'


def path(function, x0, y0, kind, stroke=""):
    points = []
    for i in range(STEPS + 1):
        share = (i / STEPS) ** 2 * (3 - 2 * i / STEPS)
        points.append(f"{x0 + PLOT * share:.1f} {y0 + PLOT * (1 - function(share)):.1f}")
    return f'<path class="{kind}"{stroke} d="M{" ".join(points)}"/>'


def axes(x0, y0, x_name, y_name):
    out = []
    for i in range(6):
        at = PLOT * i // 5
        out.append(f'<path class="grid" d="M{x0} {y0 + at}h{PLOT}M{x0 + at} {y0}v{PLOT}"/>')
        out.append(text(x0 + at, y0 + PLOT + 18, percent(i / 5), anchor="middle"))
        out.append(text(x0 - 8, y0 + PLOT - at + 4, percent(i / 5), anchor="end"))
    out.append(text(x0 + PLOT // 2, y0 + PLOT + 40, x_name, anchor="middle"))
    out.append(text(x0 - 46, y0 + PLOT // 2, y_name, anchor="middle", turn="-90"))
    return out


def legend(x0, y0, n_layers, held):
    """Writes to the plot's lower right corner, which no cumulative curve of sorted neurons enters."""
    shown = list(range(n_layers)) if n_layers <= 6 else [round(i * (n_layers - 1) / 4) for i in range(5)]
    x, y = x0 + PLOT - 142, y0 + PLOT - 16 - 18 * (len(shown) + 1)
    out = []
    for i, layer in enumerate(shown):
        out.append(f'<path class="layer" stroke="{color(layer, n_layers)}" d="M{x} {y + 18 * i}h22"/>')
        out.append(text(x + 30, y + 18 * i + 4, f"layer {layer}"))
    y += 18 * len(shown)
    out.append(f'<path class="model" d="M{x} {y}h22"/>')
    out.append(text(x + 30, y + 4, "all layers", "strong"))
    out.append(f'<circle class="dot" cx="{x + 11}" cy="{y + 18}" r="4"/>')
    out.append(text(x + 30, y + 22, f"{percent(MARK)} hold {percent(held)}", "strong"))
    return out


def row(remarks, layers, top):
    n_tokens = int(remarks["tokens"])
    every = Curve([count for layer in layers for count in layer], n_tokens)
    curves = [Curve(layer, n_tokens) for layer in layers]
    left, right, y0 = LEFT, LEFT + PLOT + GAP, top + TITLE
    active = every.sums[-1] / (len(every.counts) * n_tokens)
    out = [text(LEFT, top + 28, remarks.get("model") or "model", "title"),
           text(LEFT, top + 48, f"{len(layers)} layers of {len(layers[0]):,} neurons, {percent(active)} of "
                                "them active for a token on average"),
           text(LEFT, top + 66,
                f"counted over {n_tokens:,} tokens: {remarks.get('text') or 'text not named'}")]
    out += axes(left, y0, "neurons, the most active first", "share of all activations")
    out += axes(right, y0, "neurons, the most active first", "share of tokens it is active for")
    out.append(f'<path class="even" d="M{left} {y0 + PLOT}l{PLOT} {-PLOT}"/>')
    for i, curve in enumerate(curves):
        stroke = f' stroke="{color(i, len(curves))}"'
        out.append(path(curve.cumulative, left, y0, "layer", stroke))
        out.append(path(curve.rate, right, y0, "layer", stroke))
    out.append(path(every.cumulative, left, y0, "model"))
    out.append(path(every.rate, right, y0, "model"))
    held = every.cumulative(MARK)
    x, y = left + PLOT * MARK, y0 + PLOT * (1 - held)
    out.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
    out += legend(left, y0, len(layers), held)
    return out


def draw(tables):
    height = ROW * len(tables)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
           f'height="{height}" viewBox="0 0 {WIDTH} {height}">',
           "<title>How activity is distributed over neurons</title>", f"<style>{STYLE}</style>",
           f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>']
    for i, (remarks, layers) in enumerate(tables):
        out += row(remarks, layers, i * ROW)
    return "\n".join([*out, "</svg>", ""])


def main(arguments):
    out, *paths = arguments or [ROOT / "docs/figures/activity.svg", *DEFAULT_TABLES]
    if not paths:
        sys.exit("usage: activity.py OUT.svg TABLE.csv ...")
    pathlib.Path(out).write_text(draw([read_table(path) for path in paths]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
