"""mixtures.svg and mixtures.csv: simulated speeds of mixtures whose experts a GPU and a CPU share.

    mixtures.py         draws docs/figures/mixtures.svg anew from mixtures.csv beside it
    mixtures.py --simulate build/release/hearth-simulator [MODEL ...]
                        first simulates the rows (of these models) that mixtures.csv lacks: about 5 seconds a
                        row. To simulate a row anew, delete it.

Nothing here was measured on a GPU: the speeds follow from the constants in profiler/machine/machines/*.toml
and from the kernels' declared work (docs/predictions.md). Each row is one run with a prompt, 256 tokens in
which experts may be exchanged, and 32 decoded tokens that are timed. Speeds are tokens per second. Columns:

    experts     the part of the experts' bytes, in percent, that the budget has room for beside everything
                else that a GPU with all experts holds. Buffers for missing experts come from the same budget.
    choice      the law by which tokens choose experts: skewed (the default of --expert-skew and
                --expert-reuse) or flat (each expert equally often, and independently of the previous token)
    placement   hearth: Hearth's own. layers: whole layers in the same memory (--split layers --no-prefetch).
    hits        the part of the decoded tokens' choices that the GPU computes
    pcie_mb     megabytes copied to the GPU per decoded token
    hand_overs  hand-overs to the CPU per layer of a decoded token

The rows with 0 % leave the GPU no room for experts, so the CPU computes nearly all of them; a machine without
a GPU cannot be simulated. The rows with 100 % have 2 GiB more; there, layers has all experts in VRAM, while
hearth may leave some to the CPU. Budgets may be larger than the memory of the machine's GPU.
"""
import csv
import json
import pathlib
import subprocess
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs/figures/mixtures.csv"
PICTURE = ROOT / "docs/figures/mixtures.svg"
MODELS = ["qwen3-30b-a3b", "gpt-oss-120b", "glm-4.5-air"]
MACHINES = ["rtx4090", "rtx3060", "rtx4060-laptop", "h100"]
SHARES = [0, 25, 50, 75, 100]
SHARED = [25, 50, 75, 100]  # shares that both placements are simulated for
LAWS = {"skewed": [], "flat": ["--expert-skew", "0", "--expert-reuse", "0"]}
PLACEMENTS = {"hearth": [], "layers": ["--split", "layers", "--no-prefetch"]}
CONTEXTS = {2048: 4096, 8192: 12288}  # by the tokens of the prompt
RAM = ["--ram-budget", "512"]
KEYS = ["model", "machine", "prompt_tokens", "experts", "choice", "placement"]
COLUMNS = [*KEYS, "decode", "prompt", "hits", "pcie_mb", "hand_overs"]


def load(prompt_tokens):
    return ["--slots", "1", "--context", str(CONTEXTS[prompt_tokens])]


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def budgets(program, model, machine, prompt_tokens):
    """The GiB that hold this share of the experts beside everything else, by share."""
    plan = run(program.parent / "hearth-profiler", "plan", "--shape", model, "--machine", machine,
               *load(prompt_tokens), "--vram-budget", "400", *RAM, "--json")
    part = next(part for part in plan["parts"] if part["what"] == "experts")
    # A plan that uses less VRAM keeps a copy of all experts in RAM, to exchange them.
    experts = max(part["vram_bytes"], part["ram_bytes"])
    rest = plan["best"]["vram_bytes"] - part["vram_bytes"]
    return {share: (rest + share / 100 * experts) / 2**30 + (2 if share == 100 else 0) for share in SHARES}


def simulated(program, key, gib):
    """The row with this key."""
    model, machine, prompt_tokens, _, choice, placement = key
    result = run(program, "bench", "--simulate", machine, "--shape", model, "--vram-budget", f"{gib:.3f}",
                 *RAM, *load(prompt_tokens), "-p", prompt_tokens, "-n", 32, *LAWS[choice],
                 *PLACEMENTS[placement], "--json")
    decode = result["decode"]
    figures = [f"{result['decode_tokens_per_s']:.1f}", f"{result['prefill_tokens_per_s']:.0f}",
               f"{100 * result.get('experts_on_device_share', 0):.0f} %",
               f"{decode['pcie_bytes_per_step'] / 1e6:.0f}", f"{decode['hand_overs_per_layer']:.2f}"]
    return dict(zip(COLUMNS, [*map(str, key), *figures]))


def keys(models):
    for model in models:
        loads = [(machine, 2048) for machine in MACHINES]
        if model == MODELS[0]:
            loads.append(("rtx4090", 8192))
        for machine, prompt_tokens in loads:
            for share in SHARES:
                for choice in LAWS:
                    for placement in PLACEMENTS if share in SHARED else ["hearth"]:
                        yield model, machine, prompt_tokens, share, choice, placement


def simulate(program, models):
    """Adds the missing rows to the table, one by one."""
    rows = read() if TABLE.exists() else []
    order = [tuple(map(str, key)) for key in keys(MODELS)]
    done = {tuple(row[column] for column in KEYS) for row in rows}
    gib = {}
    for key in keys(models):
        if tuple(map(str, key)) in done:
            continue
        where = key[:3]
        if where not in gib:
            gib[where] = budgets(program, *where)
        rows.append(simulated(program, key, gib[where][key[3]]))
        rows.sort(key=lambda row: order.index(tuple(row[column] for column in KEYS)))
        with TABLE.open("w", newline="") as out:
            writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def read():
    return list(csv.DictReader(TABLE.open(encoding="utf-8")))


WIDTH, LEFT, PANEL, GAP, TOP, ROW = 960, 210, 215, 30, 112, 24
PARTS = ["25", "50", "75"]
MARKS = {"cpu": ("#8b949e", "nearly all experts on the CPU"),
         "layers": ("#3b82f6", "whole layers in the same memory"),
         "hearth": ("#ea7828", "Hearth, with tokens per second")}
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #59636e }
  .title { font-size: 15px; font-weight: 600; fill: #1f2328 }
  .strong { font-weight: 600; fill: #1f2328 }
  .page { fill: #ffffff; stroke: #d1d9e0 }
  .grid { stroke: #d1d9e0 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 }
    .title, .strong { fill: #f0f6fc }
    .page { fill: #0d1117; stroke: #3d444d }
    .grid { stroke: #3d444d }
  }
"""


def text(x, y, words, kind="", anchor="start"):
    attributes = ((f' class="{kind}"' if kind else "")
                  + (f' text-anchor="{anchor}"' if anchor != "start" else ""))
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(words)}</text>'


def line(x1, y1, x2, y2, attributes):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {attributes}/>'


def speeds(rows):
    """Decoding speeds with skewed choices and prompts of 2,048 tokens, as {(model, machine): {(experts,
    placement): speed}}."""
    found = {}
    for row in rows:
        if row["choice"] == "skewed" and row["prompt_tokens"] == "2048":
            of = found.setdefault((row["model"], row["machine"]), {})
            of[row["experts"], row["placement"]] = float(row["decode"])
    return found


def draw(rows):
    """A panel for each part of the experts, with a row for each model and machine. The axis is the share of
    the speed with all experts in VRAM."""
    found = speeds(rows)
    out, y, bottom = [], TOP, TOP + len(found) * ROW + 22 * len(MODELS)
    for i, part in enumerate(PARTS):
        x = LEFT + i * (PANEL + GAP)
        out.append(text(x, TOP - 18, f"VRAM for {part} % of the experts", "strong"))
        for share, anchor in ((0, "start"), (50, "middle"), (100, "end")):
            at = x + PANEL * share / 100
            out.append(line(at, TOP - 8, at, bottom, 'class="grid"'))
            out.append(text(at, bottom + 16, f"{share} %", anchor=anchor))
    last = None
    for (model, machine), of in found.items():
        if model != last:
            out.append(text(24, y + 16, model, "strong"))
            last, y = model, y + 22
        out.append(text(LEFT - 16, y + 16, machine, anchor="end"))
        most = max(of["100", "hearth"], of["100", "layers"])
        for i, part in enumerate(PARTS):
            of_part = {"cpu": of["0", "hearth"], "layers": of[part, "layers"], "hearth": of[part, "hearth"]}
            at = {kind: LEFT + i * (PANEL + GAP) + PANEL * speed / most for kind, speed in of_part.items()}
            out.append(line(at["layers"], y + 12, at["hearth"], y + 12,
                            f'stroke="{MARKS["hearth"][0]}" stroke-width="2"'))
            for kind, (color, _) in MARKS.items():
                out.append(f'<circle cx="{at[kind]:.1f}" cy="{y + 12}" r="{5 if kind == "hearth" else 4}" '
                           f'fill="{color}"/>')
            right = max(at.values())
            out.append(text(right + 9, y + 16, f"{of_part['hearth']:.0f}"))
        y += ROW
    height = bottom + 46
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}">', f"<style>{STYLE}</style>",
            f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
            text(24, 32, "Decoding with a part of the experts in the GPU's memory (simulated)", "title")]
    x = 24
    for color, name in MARKS.values():
        head += [f'<circle cx="{x + 6}" cy="56" r="5" fill="{color}"/>', text(x + 18, 60, name)]
        x += 250
    foot = text(LEFT, height - 12, "of the speed with all experts in VRAM")
    return "\n".join([*head, *out, foot, "</svg>", ""])


def main(arguments):
    if arguments[:1] == ["--simulate"] and len(arguments) > 1:
        simulate(pathlib.Path(arguments[1]), arguments[2:] or MODELS)
    elif arguments:
        sys.exit("usage: mixtures.py [--simulate PROGRAM [MODEL ...]]")
    PICTURE.write_text(draw(read()), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
