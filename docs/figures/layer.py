"""layer.svg: two layers of a decoded token, drawn from a simulated run, with the GPU's kernels gathered to stages.

    layer.py                               draws docs/figures/layer.svg anew from layer.json beside it
    layer.py --cut OUT.json TRACE.json N   writes layers N and N + 1 of the last token of a trace

The committed trace is of

    hearth-profiler bench --simulate rtx4060-laptop --shape llama-13b --sparsity predicted --slots 1 -p 16 -n 8 --trace TRACE.json

with N 10. timeline.py draws it.
"""
import json
import pathlib
import sys

import timeline

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTE = "Simulated in virtual time (bench --simulate), not measured: 13B with a ReLU, Q4_0, beside a laptop's RTX 4060 with 8 GB."
TITLE = "One token through two layers"
# The stage that begins with a kernel, by the kernels' names in the trace; "" goes on with the one before.
BEGINS = {"part_and_hand_over_kernel": "hand-over", "end_sums_kernel": "sums are merged", "hand_over_kernel": "hand-over"}


def stages_of(kernels):
    """[(begin, end, stage)] of the kernels of the GPU's main stream."""
    stages, stage = [], ""
    for i, kernel in enumerate(kernels):
        name, behind = kernel["name"], kernels[i + 1]["name"] if i + 1 < len(kernels) else ""
        if name == "rms_norm_kernel":
            now = "which neurons? (predictor)" if behind == "quantize_kernel" else "attention"
        elif name in BEGINS:
            now = BEGINS[name]
        elif stage == "hand-over":
            now = "FFN, hot and cached neurons"
        elif stage == "FFN, hot and cached neurons" and kernels[i - 1]["name"].endswith(">, 1>"):
            now = "next layer's neurons? (predictor)"
        else:
            now = stage
        if now != stage or not stages:
            stages.append([kernel["ts"], 0, now])
        stages[-1][1] = kernel["ts"] + kernel["dur"]
        stage = now
    return [stage for stage in stages if stage[2]]


def cut(path, layer):
    """The spans of two neighbouring layers, each layer from its first kernel until its sums are merged."""
    events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    spans = sorted((e for e in events if e["ph"] == "X"), key=lambda e: e["ts"])
    begins = [e["ts"] for e in spans if tracks[e["tid"]] == "CPU" and e["args"].get("layer") == layer]
    if not begins:
        sys.exit(f"{path}: the CPU computes nothing of layer {layer}")
    ends = [e["ts"] + e["dur"] for e in spans if e["name"] == "end_sums_kernel"]
    begin = max(end for end in ends if end < begins[-1])
    end = sorted(end for end in ends if end > begins[-1])[1]
    inside = [e for e in spans if begin <= e["ts"] < end]
    gpu = [e for e in inside if tracks[e["tid"]] == "GPU" and e["name"] != "gather_bundles_kernel"]
    first = gpu[0]["tid"]
    found = [("GPU", a, b, name, {}) for a, b, name in stages_of([e for e in gpu if e["tid"] == first])]
    for e in inside:
        if tracks[e["tid"]] == "CPU":
            found.append(("CPU", e["ts"], e["ts"] + e["dur"], "FFN, cold neurons", {"layer": e["args"]["layer"]}))
        elif e["name"] == "gather_bundles_kernel":
            found.append(("PCIe", e["ts"], e["ts"] + e["dur"], "prefetch: neurons for the cache", {"bytes": e["args"]["bytes"]}))
    n_layer = layer
    for i, (track, a, b, name, args) in enumerate(found):
        if name == "attention":
            found[i] = (track, a, b, name, {"layer": n_layer})
            n_layer += 1
    return begin, end, found


def write(out, begin, end, spans):
    tids = {track: i + 1 for i, track in enumerate(timeline.TRACKS)}
    events = [{"name": "step", "ph": "X", "pid": 1, "tid": 1, "ts": 0.0, "dur": round(end - begin, 3), "args": {}}]
    events += [{"name": name, "ph": "X", "pid": 1, "tid": tids[track], "ts": round(a - begin, 3), "dur": round(b - a, 3), "args": args}
               for track, a, b, name, args in spans]
    events += [{"name": "thread_name", "ph": "M", "pid": 1, "tid": i, "args": {"name": track}} for track, i in tids.items()]
    lines = ",\n".join(json.dumps(event) for event in events)
    other = json.dumps({"note": NOTE, "title": TITLE})
    pathlib.Path(out).write_text(f'{{"traceEvents":[\n{lines}\n],"otherData":{other}}}\n', encoding="utf-8")


def main(arguments):
    here = ROOT / "docs/figures"
    if not arguments:
        (here / "layer.svg").write_text(timeline.drawn(here / "layer.json"), encoding="utf-8")
    elif arguments[0] == "--cut" and len(arguments) == 4:
        write(arguments[1], *cut(arguments[2], int(arguments[3])))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
