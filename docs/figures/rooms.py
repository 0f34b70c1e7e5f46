"""Draws the order of the rooms, as tests/layering.py enforces it, as an SVG without dependencies: rooms.svg.

    rooms.py    draws docs/figures/rooms.svg anew

One column for each folder with rooms. A room includes only itself and the rooms below it. The same table
gives the same bytes; tests/docs/test_figures.py compares them.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import layering  # noqa: E402

COLUMNS = ["server", "profiler", "engine", "kernels", "kernels/cpu", "kernels/cuda", "config"]
BOX, GAP, PITCH, EDGE, TOP = 122, 14, 28, 24, 92
NAMES = {".": "(its own files)", "main": "main.cpp"}
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #59636e }
  .title { font-size: 15px; font-weight: 600; fill: #1f2328 }
  .strong { fill: #1f2328 }
  .page { fill: #ffffff; stroke: #d1d9e0 }
  .room { fill: #eef4fd; stroke: #b6c8e4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 }
    .title, .strong { fill: #f0f6fc }
    .page { fill: #0d1117; stroke: #3d444d }
    .room { fill: #16233a; stroke: #33507d }
  }
"""


def drawn(rooms):
    """The picture as text. rooms: layering.ROOMS, the lowest room of a folder first."""
    tallest = max(len(rooms[folder]) for folder in COLUMNS)
    width = 2 * EDGE + len(COLUMNS) * BOX + (len(COLUMNS) - 1) * GAP
    height = TOP + tallest * PITCH + EDGE
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
             f'height="{height}" viewBox="0 0 {width} {height}">',
             "<title>Rooms are layers</title>", f"<style>{STYLE}</style>",
             f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>',
             f'<text x="{EDGE}" y="28" class="title">Rooms are layers</text>',
             f'<text x="{EDGE}" y="48">A room includes only itself and the rooms below it. '
             "server includes profiler, profiler engine, engine kernels.</text>"]
    for column, folder in enumerate(COLUMNS):
        x = EDGE + column * (BOX + GAP)
        lines.append(
            f'<text x="{x + BOX // 2}" y="{TOP - 14}" class="strong" text-anchor="middle">{folder}/</text>')
        for i, room in enumerate(reversed(rooms[folder])):
            y = TOP + (tallest - len(rooms[folder]) + i) * PITCH
            lines.append(
                f'<rect class="room" x="{x}.5" y="{y}.5" width="{BOX - 1}" height="{PITCH - 6}" rx="3"/>')
            lines.append(
                f'<text x="{x + BOX // 2}" y="{y + 16}" text-anchor="middle">{NAMES.get(room, room)}</text>')
    return "\n".join(lines + ["</svg>"]) + "\n"


if __name__ == "__main__":
    (ROOT / "docs/figures/rooms.svg").write_text(drawn(layering.ROOMS), encoding="utf-8")
