"""What tests/gpu.sh has measured, in one file and as a table.

    gpu_results.py FOLDER GPU      reads FOLDER/bench-SHAPE-PERCENT-VARIANT.json, writes FOLDER/results.json
"""
import json
import pathlib
import re
import sys

NAME = re.compile(r"bench-(.+?)-(\d+)-(.+)\.json")
ORDER = ["hybrid", "exact", "no-prefetch", "dma-prefetch", "no-cpu-share", "dense-layers"]


def read_runs(folder):
    runs = []
    for path in folder.glob("bench-*.json"):
        shape, percent, variant = NAME.fullmatch(path.name).groups()
        text = path.read_text()
        if text.strip():  # empty: bench said in its log why it could not
            runs.append({"shape": shape, "vram_percent": int(percent), "variant": variant, "bench": json.loads(text)})
    return sorted(runs, key=lambda run: (run["shape"], run["vram_percent"], ORDER.index(run["variant"])))


def add_ratios(runs):
    """Decoding speed against dense offloading by layers with the same budget."""
    speed = {(run["shape"], run["vram_percent"], run["variant"]): run["bench"]["decode_tokens_per_s"] for run in runs}
    for run in runs:
        dense = speed.get((run["shape"], run["vram_percent"], "dense-layers"))
        if dense:
            run["against_dense_layers"] = run["bench"]["decode_tokens_per_s"] / dense


def share(value):
    return "" if value is None else f"{100 * value:.0f} %"


def table(runs):
    yield "| model | VRAM | | decode, tokens/s | against dense layers | share of the byte bound | prefill, tokens/s | copy time hidden |"
    yield "|---|---|---|---|---|---|---|---|"
    for run in runs:
        bench = run["bench"]
        ratio = run.get("against_dense_layers")
        yield " | ".join([f"| {run['shape']}", f"{run['vram_percent']} %", run["variant"],
                          f"{bench['decode_tokens_per_s']:.2f}", "" if ratio is None else f"{ratio:.2f}",
                          share(bench.get("share_of_bound")), f"{bench['prefill_tokens_per_s']:.0f}",
                          share((bench.get("prefetch") or {}).get("hidden_share"))]) + " |"


def main(folder, gpu):
    folder = pathlib.Path(folder)
    runs = read_runs(folder)
    if not runs:
        sys.exit("gpu_results.py: nothing was measured")
    add_ratios(runs)
    (folder / "results.json").write_text(json.dumps({"gpu": gpu, "runs": runs}, indent=1) + "\n")
    print("\n".join(table(runs)))


if __name__ == "__main__":
    main(*sys.argv[1:])
