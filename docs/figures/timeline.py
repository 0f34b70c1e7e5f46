"""Draws what GPU, CPU and PCIe do during one step, as an SVG without dependencies, from a trace (--trace
FILE).

    timeline.py                                 draws docs/figures/timeline.svg anew from timeline.json
                                                beside it
    timeline.py OUT.svg TRACE.json [N]          draws step N of a trace (-1: the last one, which is the
                                                default)
    timeline.py --order OUT.svg TRACE.json [N]  the same with short spans drawn wider: order and overlap, not
                                                durations
    timeline.py --cut OUT.json TRACE.json [N]   writes a trace of that step alone, with NOTE in the
                                                environment as its note

A row for each track, and more where its spans overlap; a bar for each span; dashed lines where the layers
begin. The same trace gives the same bytes.
"""
import bisect
import json
import os
import pathlib
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]

WIDTH, LEFT, RIGHT = 960, 70, 24
# Above the rows; a bar's height; between rows of a track, between tracks.
TOP, BAR, GAP, GROUP = 78, 26, 4, 14
AXIS, LEGEND, FOOT = 34, 22, 16
TRACKS = ["engine", "GPU", "CPU", "PCIe"]
# Colors by the order in which names first appear, of medium lightness for either theme's background.
COLORS = ["#3b82f6", "#ea7828", "#10a37f", "#8b5cf6", "#ec4899", "#a3892b", "#64748b", "#0ea5b7", "#dc4848",
           "#6b8e23"]

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #59636e }
  .title { font-size: 15px; font-weight: 600; fill: #1f2328 }
  .track { font-weight: 600; fill: #1f2328 }
  .small { font-size: 11px }
  .page { fill: #ffffff; stroke: #d1d9e0 }
  .grid { stroke: #e4e8ec }
  .layer { stroke: #8b949e; stroke-dasharray: 4 4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 }
    .title, .track { fill: #f0f6fc }
    .page { fill: #0d1117; stroke: #3d444d }
    .grid { stroke: #262c34 }
    .layer { stroke: #6e7681 }
  }
"""


class Span:
    def __init__(self, event, track):
        self.track, self.name = track, event["name"]
        self.begin, self.end = event["ts"], event["ts"] + event["dur"]
        self.layer = event["args"].get("layer", -1)
        self.bytes = event["args"].get("bytes", 0)


def read_trace(path):
    """Its note, and its spans by their begins."""
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    spans = [Span(e, tracks[e["tid"]]) for e in events if e["ph"] == "X"]
    other = trace["otherData"]
    return (other.get("note", ""), other.get("title", "One step on two devices"),
            sorted(spans, key=lambda s: (s.begin, -s.end)))


def cut(path, spans, n):
    """The nth step of the engine, and the spans that begin in it."""
    steps = [s for s in spans if s.track == "engine" and s.name == "step"]
    if not -len(steps) <= n < len(steps):
        sys.exit(f"{path}: holds {len(steps)} steps, and step {n} was asked for")
    step = steps[n]
    inside = [s for s in spans if step.begin <= s.begin < step.end and s is not step]
    if not inside:
        sys.exit(f"{path}: nothing was traced in step {n}")
    return step, inside


def write_cut(path, note, step, spans):
    """A trace in the form that hearthd writes, a line an event."""
    tids = {track: i + 1 for i, track in enumerate(TRACKS)}
    events = []
    for s in [step, *spans]:
        args = {**({"layer": s.layer} if s.layer >= 0 else {}), **({"bytes": s.bytes} if s.bytes else {})}
        events.append({"name": s.name, "ph": "X", "pid": 1,
                       "tid": tids[s.track], "ts": round(s.begin - step.begin, 3),
                       "dur": round(s.end - s.begin, 3), "args": args})
    events += [{"name": "thread_name", "ph": "M", "pid": 1, "tid": i, "args": {"name": t}}
               for t, i in tids.items()]
    lines = ",\n".join(json.dumps(event) for event in events)
    path.write_text(f'{{"traceEvents":[\n{lines}\n],"otherData":{{"note":{json.dumps(note)}}}}}\n',
                    encoding="utf-8")


def in_rows(spans):
    """The spans of a track in as few rows as have no overlaps."""
    rows = []
    for span in spans:
        row = next((r for r in rows if r[-1].end <= span.begin + 1e-6), None)
        if row is None:
            rows.append([span])
        else:
            row.append(span)
    return rows


def text(x, y, words, kind="", anchor="start"):
    attributes = f' class="{kind}"' if kind else ""
    attributes += f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(words)}</text>'


def tick_of(span_us):
    """Microseconds between ticks: 1, 2 or 5 times a power of ten, for four to ten of them."""
    return next(m * 10**e for e in range(12) for m in (1, 2, 5) if span_us / (m * 10**e) <= 10)


def time_text(us, tick):
    return f"{us / 1000:g} ms" if tick >= 100 else f"{us:g} us"


class Axis:
    """Where a time is drawn. With --order, the time between adjacent begins and ends counts by its root."""

    def __init__(self, step, spans, in_order):
        self.times = sorted({step.begin, step.end, *(t for s in spans for t in (s.begin, s.end))})
        lengths = [b - a for a, b in zip(self.times, self.times[1:])]
        self.places = [0.0]
        for length in lengths:
            self.places.append(self.places[-1] + (length**0.25 if in_order else length))
        self.in_order = in_order

    def __call__(self, time):
        at = min(max(bisect.bisect_right(self.times, time) - 1, 0), len(self.times) - 2)
        share = (time - self.times[at]) / (self.times[at + 1] - self.times[at])
        place = self.places[at] + share * (self.places[at + 1] - self.places[at])
        return LEFT + place / self.places[-1] * (WIDTH - LEFT - RIGHT)


def bar(span, axis, y, color):
    x, width = axis(span.begin), max(axis(span.end) - axis(span.begin), 0.8)
    what = (span.name + (f", layer {span.layer}" if span.layer >= 0 else "")
            + (f", {span.bytes:,} bytes" if span.bytes else ""))
    return (f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2" fill="{color}">'
            f"<title>{escape(what)}: {span.end - span.begin:.0f} us</title></rect>")


def draw(note, title, step, spans, in_order):
    for span in spans:
        span.end = min(span.end, step.end)
    # A span that contains others of its track would hide them.
    spans = [s for s in spans
             if not any(o is not s and o.track == s.track and s.begin <= o.begin and o.end <= s.end
                        and (o.begin, o.end) != (s.begin, s.end) for o in spans)]
    axis = Axis(step, spans, in_order)
    names = list(dict.fromkeys(s.name for s in spans))
    colors = {name: COLORS[i % len(COLORS)] for i, name in enumerate(names)}
    body, y = [], TOP
    for track in TRACKS:
        rows = in_rows([s for s in spans if s.track == track])
        if not rows:
            continue
        body.append(text(LEFT - 10, y + BAR / 2 + 4, track, "track", "end"))
        for row in rows:
            body += [bar(span, axis, y, colors[span.name]) for span in row]
            y += BAR + GAP
        y += GROUP - GAP
    bottom = y - GROUP + 6
    grid, length = [], step.end - step.begin
    tick = tick_of(length)
    if in_order:
        grid.append(text(LEFT, bottom + 16, "time, not to scale: what is short is drawn wider", "small"))
    for i in range(0 if in_order else int(length / tick) + 1):
        x = axis(step.begin + i * tick)
        grid.append(f'<path class="grid" d="M{x:.1f} {TOP - 6}V{bottom}"/>')
        grid.append(text(x, bottom + 16, time_text(i * tick, tick), "small", "middle"))
    begins = {}
    for span in spans:
        if span.layer >= 0 and span.track in ("GPU", "CPU"):
            begins[span.layer] = min(begins.get(span.layer, span.begin), span.begin)
    for layer, begin in sorted(begins.items()):
        x = axis(begin)
        grid.append(f'<path class="layer" d="M{x:.1f} {TOP - 14}V{bottom}"/>')
        grid.append(text(x + 4, TOP - 9, f"layer {layer}", "small"))
    legend, x, y = [], LEFT, bottom + AXIS
    for name in names:
        wide = 30 + 6.6 * len(name)
        if x + wide > WIDTH - RIGHT:
            x, y = LEFT, y + LEGEND
        legend.append(f'<rect x="{x:.1f}" y="{y}" width="12" height="12" rx="2" fill="{colors[name]}"/>')
        legend.append(text(x + 18, y + 10, name))
        x += wide
    height = y + LEGEND + FOOT
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
        f'height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f"<title>What GPU, CPU and PCIe do: {escape(title.lower())}</title>", f"<style>{STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
        text(LEFT, 26, title, "title"), text(LEFT, 46, note), *grid, *body, *legend, "</svg>", ""])


def drawn(path, in_order=False, n=-1):
    note, title, spans = read_trace(path)
    return draw(note, title, *cut(path, spans, n), in_order)


def main(arguments):
    arguments = arguments or ["--order", ROOT / "docs/figures/timeline.svg",
                              ROOT / "docs/figures/timeline.json"]
    how = arguments.pop(0) if str(arguments[0]).startswith("--") else ""
    if how not in ("", "--order", "--cut") or not 2 <= len(arguments) <= 3:
        sys.exit(__doc__)
    out, path, *n = arguments
    note, title, spans = read_trace(path)
    step, spans = cut(path, spans, int(n[0]) if n else -1)
    if how == "--cut":
        write_cut(pathlib.Path(out), os.environ.get("NOTE", note), step, spans)
    else:
        pathlib.Path(out).write_text(draw(note, title, step, spans, how == "--order"), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
