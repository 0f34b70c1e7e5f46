"""Shows where the time of a decoded token goes: a bar for each type and program, as an SVG without
dependencies.

The dark part of a bar is the time that memory needs to deliver the token's weights, keys and values at the
speed measured in the same run; the light part is the program's additional time. The same results give the
same bytes. Used by compare.py.
"""
from xml.sax.saxutils import escape

from comparison.columns import parse_column
from comparison.programs import HEARTH
from comparison.summary import cells_of

WIDTH, LEFT, RIGHT = 900, 80, 150  # the right margin has room for a number
TOP, BAR, GAP, GROUP, FOOT = 92, 14, 3, 14, 40  # a bar's height; between bars, between types
COLORS = ["#3b82f6", "#ea7828", "#10a37f", "#8b5cf6", "#ec4899", "#a3892b"]

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #59636e }
  .title { font-size: 15px; font-weight: 600; fill: #1f2328 }
  .type { font-weight: 600; fill: #1f2328 }
  .page { fill: #ffffff; stroke: #d1d9e0 }
  .beyond { opacity: 0.4 }
  .memory { stroke: #8b949e; stroke-dasharray: 4 4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 }
    .title, .type { fill: #f0f6fc }
    .page { fill: #0d1117; stroke: #3d444d }
    .memory { stroke: #6e7681 }
  }
"""


def _text(x, y, words, kind="", anchor="start"):
    attributes = ((f' class="{kind}"' if kind else "")
                  + (f' text-anchor="{anchor}"' if anchor != "start" else ""))
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(words)}</text>'


def _rect(x, y, width, color, kind=""):
    attributes = f' class="{kind}"' if kind else ""
    return (f'<rect x="{x:.1f}" y="{y}" width="{max(width, 0):.1f}" height="{BAR}" '
            f'fill="{color}"{attributes}/>')


def _bar(y, ms, memory_ms, scale, color):
    dark = min(ms, memory_ms)
    return [_rect(LEFT, y, dark * scale, color),
            _rect(LEFT + dark * scale, y, (ms - dark) * scale, color, "beyond"),
            _text(LEFT + ms * scale + 6, y + BAR - 3, f"{ms:.3g} ms, {100 * memory_ms / ms:.0f} % memory")]


def _legend(names):
    parts, x = [], LEFT
    for i, name in enumerate(names):
        parts += [_rect(x, 58, 14, COLORS[i % len(COLORS)]), _text(x + 20, 69, name)]
        x += 44 + 7 * len(name)
    parts += [f'<path class="memory" d="M{x} 65h20"/>', _text(x + 26, 69, "the time that memory needs")]
    return parts


def draw(results, isa, column):
    """The picture of one decode column. Throws ValueError with a sentence if the results have nothing to
    draw."""
    if parse_column(column).kind != "decode":
        raise ValueError(
            f"--column {column}: the time of prompts is not bound by memory; choose a column of decode")
    cells = [c for c in cells_of(results.records) if (c.isa, c.column) == (isa, column) and c.bytes_per_token]
    if not cells:
        raise ValueError(f"the result has no run of Hearth for {isa}, {column}")
    names = sorted(dict.fromkeys(name for c in cells for name in c.speeds), key=lambda name: name != HEARTH)
    longest_ms = max(1000 / speed.median for c in cells for speed in c.speeds.values())
    scale = (WIDTH - LEFT - RIGHT) / longest_ms
    body, y = [], TOP
    for c in cells:
        memory_ms, top = 1000 * c.bytes_per_token / c.read_bytes_per_s, y
        for i, name in enumerate(names):
            if name in c.speeds:
                body += _bar(y, 1000 / c.speeds[name].median, memory_ms, scale, COLORS[i % len(COLORS)])
                y += BAR + GAP
        x = LEFT + memory_ms * scale
        body += [_text(LEFT - 10, (top + y) / 2 + 3, c.type, "type", "end"),
                 f'<path class="memory" d="M{x:.1f} {top - 4}V{y}"/>']
        y += GROUP
    height = y + FOOT - GROUP
    machine = results.setup["machine"]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
        f'height="{height}" viewBox="0 0 {WIDTH} {height}">',
        "<title>Where the time of a decoded token goes</title>", f"<style>{STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
        _text(LEFT, 26, "Where the time of a decoded token goes", "title"),
        _text(LEFT, 46, f"{column}, {isa}, {machine['cpu']}"), *_legend(names), *body, "</svg>", ""])
