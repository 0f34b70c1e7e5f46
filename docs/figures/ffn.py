"""ffn.svg: where the neurons of one FFN live, and who computes those that a token needs, drawn from a real
plan.

    ffn.py                                       draws docs/figures/ffn.svg anew from ffn.json beside it
    ffn.py --plan build/release/hearth-profiler  writes ffn.json anew: a 70B with a ReLU beside an RTX 4090
                                                 of 24 GB
"""
import json
import pathlib
import subprocess
import sys
import tomllib
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "docs/figures/ffn.json"
PLAN = ["plan", "--shape", "llama-70b", "--machine", "rtx4090", "--sparsity", "predicted", "--slots", "1",
        "--json"]
N_NEURONS = 28672  # of the shape's layers
COLORS = {"hot": "#ea7828", "cached": "#d9a441", "cold": "#3b82f6"}
WIDTH, LEFT, RIGHT, BAR = 960, 24, 24, 44

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #59636e }
  .title { font-size: 15px; font-weight: 600; fill: #1f2328 }
  .strong { font-weight: 600; fill: #1f2328 }
  .in { font-weight: 600; fill: #10151b }
  .page { fill: #ffffff; stroke: #d1d9e0 }
  .line { fill: none; stroke: #8b949e }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 }
    .title, .strong { fill: #f0f6fc }
    .in { fill: #10151b }
    .page { fill: #0d1117; stroke: #3d444d }
    .line { stroke: #6e7681 }
  }
"""


def percent(share):
    return f"{100 * share:.0f} %"


def text(x, y, words, kind="", anchor="start"):
    attributes = ((f' class="{kind}"' if kind else "")
                  + (f' text-anchor="{anchor}"' if anchor != "start" else ""))
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(words)}</text>'


def bar(x, y, width, kind, words):
    out = [f'<rect x="{x:.1f}" y="{y}" width="{max(width - 2, 1):.1f}" height="{BAR}" rx="3" '
           f'fill="{COLORS[kind]}"/>']
    lines = words.split("\n")
    if width > 7 * max(map(len, lines)):
        out += [text(x + width / 2, y + BAR / 2 + 4 + 15 * (i - (len(lines) - 1) / 2), line, "in", "middle")
                for i, line in enumerate(lines)]
    return out


def draw(data):
    hot, cached = data["hot"], data["cached"]
    cold = N_NEURONS - hot - cached
    needed = round(data["active_share"] * N_NEURONS)
    caught = round(needed * data["caught_share"])
    room = WIDTH - LEFT - RIGHT
    scale = room / N_NEURONS
    out = [text(LEFT, 30, f"One FFN of {N_NEURONS:,} neurons, a layer of a 70B model with a ReLU "
                          "beside a card with 24 GB", "title"),
           text(LEFT, 50, "From hearth-profiler plan --shape llama-70b --machine rtx4090 --sparsity "
                          "predicted: predicted, not measured.")]
    y = 84
    out.append(text(LEFT, y - 8, "Where they live, the most active first", "strong"))
    out += bar(LEFT, y, hot * scale, "hot", f"hot: {hot:,}\nin VRAM for good")
    out += bar(LEFT + hot * scale, y, cached * scale, "cached", f"cache: {cached:,}")
    out += bar(LEFT + (hot + cached) * scale, y, cold * scale, "cold",
               f"cold: {cold:,}\nin the computer's memory")
    top, bottom = y + BAR, y + BAR + 46
    gpu, width = LEFT, needed * scale
    split = caught * scale
    # The neurons that a token needs: the card's part is drawn under the card's neurons, the CPU's under the
    # cold ones.
    right = LEFT + room - (needed - caught) * scale
    out.append(f'<path class="line" d="M{LEFT} {top}L{gpu} {bottom}M{LEFT + (hot + cached) * scale:.1f} '
               f'{top}L{gpu + split:.1f} {bottom}"/>')
    out.append(f'<path class="line" d="M{LEFT + (hot + cached) * scale:.1f} {top}L{right:.1f} '
               f'{bottom}M{LEFT + room} {top}L{LEFT + room} {bottom}"/>')
    out.append(text(LEFT + room / 2, bottom - 10,
                    f"a token needs {needed:,} of them ({percent(data['active_share'])})",
                    "strong", "middle"))
    out += bar(gpu, bottom, split, "hot", "")
    out += bar(right, bottom, (needed - caught) * scale, "cold", "")
    y = bottom + BAR + 20
    out.append(text(
        gpu, y, f"{caught:,} ({percent(data['caught_share'])}) are in VRAM: the GPU computes them", "strong"))
    out.append(text(gpu, y + 17, f"reading at {data['vram_gb_per_s']:.0f} GB/s"))
    out.append(text(LEFT + room, y, f"{needed - caught:,} are cold: the CPU computes them meanwhile",
                    "strong", "end"))
    out.append(text(LEFT + room, y + 17,
                    f"reading at {data['ram_gb_per_s']:.0f} GB/s; only their sum crosses PCIe", "", "end"))
    height = y + 38
    assert width <= room
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
        f'height="{height}" viewBox="0 0 {WIDTH} {height}">',
        "<title>Where the neurons of one FFN live, and who computes those that a token needs</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
        *out, "</svg>", ""])


def planned(program):
    """What the picture needs of the plan: the layer that most layers are like."""
    plan = json.loads(subprocess.run([program, *PLAN], capture_output=True, text=True, check=True).stdout)
    layers = [(layer["hot"], layer["cache"]) for layer in plan["layers"]]
    hot, cached = max(set(layers), key=layers.count)
    machine = tomllib.loads((ROOT / "profiler/machine/machines/rtx4090.toml").read_text())
    return {"hot": hot, "cached": cached, "active_share": round(plan["active_share"], 4),
            "caught_share": round(plan["best"]["caught_share"], 4),
            "vram_gb_per_s": machine["gpu"]["vram_bytes_per_s"] / 1e9,
            "ram_gb_per_s": machine["host"]["ram_read"][-1]["bytes_per_s"] / 1e9}


def main(arguments):
    if arguments[:1] == ["--plan"] and len(arguments) == 2:
        DATA.write_text(json.dumps(planned(arguments[1]), indent=1) + "\n", encoding="utf-8")
    elif arguments:
        sys.exit(__doc__)
    DATA.with_suffix(".svg").write_text(draw(json.loads(DATA.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
