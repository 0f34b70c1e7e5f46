"""layer.svg and prompt.svg: two layers of a decoded token and of a prompt, drawn from a simulated run, with
the GPU's kernels gathered to stages.

    layer.py                                 draws both anew from layer.json and prompt.json beside them
    layer.py --token OUT.json TRACE.json N   writes layers N and N + 1 of the last token of a trace
    layer.py --prompt OUT.json TRACE.json N  writes layers N and N + 1 of the prompt's first step

The committed traces are of

    hearth-profiler bench --simulate rtx4060-laptop --shape llama-13b --sparsity predicted --slots 1
                          -p 16 -n 8 --trace TRACE.json

with N 10 and 6. timeline.py draws them.
"""
import json
import pathlib
import sys

import timeline

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTE = ("Simulated in virtual time (bench --simulate), not measured: 13B with a ReLU, Q4_0, beside a "
        "laptop's RTX 4060 with 8 GB.")
TITLES = {"token": "One token through two layers", "prompt": "16 tokens of a prompt through two layers"}
# The stage that begins with each kernel, by the kernels' names in the trace; "" continues the previous stage.
BEGINS = {"part_and_hand_over_kernel": "hand-over", "end_sums_kernel": "sums are merged",
          "hand_over_kernel": "hand-over", "split_kernel": "FFN, hot neurons"}


def stages_of(kernels):
    """[(begin, end, stage)] of the kernels of the GPU's main stream."""
    stages, stage = [], ""
    for i, kernel in enumerate(kernels):
        name, behind = kernel["name"], kernels[i + 1]["name"] if i + 1 < len(kernels) else ""
        if name == "rms_norm_kernel":
            now = "which neurons? (predictor)" if behind == "quantize_kernel" else "attention"
        elif name in BEGINS:
            now = BEGINS[name]
        elif name == "list_kernel" and not kernels[i - 1]["name"] == "split_kernel":
            now = "FFN, streamed neurons"  # a buffer has arrived: its neurons are listed
        elif stage == "hand-over":
            now = "FFN, hot and cached neurons"
        elif stage == "FFN, hot and cached neurons" and kernels[i - 1]["name"].endswith(">, 1>"):
            now = "next layer's neurons? (predictor)"
        else:
            now = stage
        if now != stage or not stages or name == "list_kernel" and now == "FFN, streamed neurons":
            stages.append([kernel["ts"], 0, now])
        stages[-1][1] = kernel["ts"] + kernel["dur"]
        stage = now
    return [stage for stage in stages if stage[2]]


def cut(path, layer, what):
    """The spans of two adjacent layers, each from its first kernel until its sums are merged."""
    events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    spans = sorted((e for e in events if e["ph"] == "X"), key=lambda e: e["ts"])
    ends = sorted(e["ts"] + e["dur"] for e in spans if e["name"] == "end_sums_kernel")
    if what == "prompt":
        begin, end = ends[layer - 1], ends[layer + 1]
    else:
        begins = [e["ts"] for e in spans if tracks[e["tid"]] == "CPU" and e["args"].get("layer") == layer]
        if not begins:
            sys.exit(f"{path}: the CPU computes nothing of layer {layer}")
        begin = max(end for end in ends if end < begins[-1])
        end = [end for end in ends if end > begins[-1]][1]
    inside = [e for e in spans if begin < e["ts"] + e["dur"] and e["ts"] < end]
    gpu = [e for e in inside if tracks[e["tid"]] == "GPU" and e["name"] != "gather_bundles_kernel"
           and begin <= e["ts"]]
    first = gpu[0]["tid"]
    found = [("GPU", a, b, name, {}) for a, b, name in stages_of([e for e in gpu if e["tid"] == first])]
    for e in inside:
        a, b = max(e["ts"], begin), e["ts"] + e["dur"]
        if tracks[e["tid"]] == "CPU":
            found.append(("CPU", a, b, "FFN, cold neurons", {"layer": e["args"]["layer"]}))
        elif e["name"] == "gather_bundles_kernel":
            found.append(("PCIe", a, b, "prefetch: neurons for the cache", {"bytes": e["args"]["bytes"]}))
        elif e["name"] == "copy" and e["args"]["bytes"] > 1e6:
            found.append(("PCIe", a, b, "cold neurons, into one of two buffers",
                          {"bytes": e["args"]["bytes"]}))
    n_layer = layer
    for i, (track, a, b, name, args) in enumerate(found):
        if name == "attention":
            found[i] = (track, a, b, name, {"layer": n_layer})
            n_layer += 1
    return begin, end, found


def write(out, what, begin, end, spans):
    tids = {track: i + 1 for i, track in enumerate(timeline.TRACKS)}
    events = [{"name": "step", "ph": "X", "pid": 1, "tid": 1, "ts": 0.0, "dur": round(end - begin, 3),
               "args": {}}]
    events += [{"name": name, "ph": "X", "pid": 1, "tid": tids[track], "ts": round(a - begin, 3),
                "dur": round(b - a, 3), "args": args}
               for track, a, b, name, args in spans]
    events += [{"name": "thread_name", "ph": "M", "pid": 1, "tid": i, "args": {"name": track}}
               for track, i in tids.items()]
    lines = ",\n".join(json.dumps(event) for event in events)
    other = json.dumps({"note": NOTE, "title": TITLES[what]})
    pathlib.Path(out).write_text(f'{{"traceEvents":[\n{lines}\n],"otherData":{other}}}\n', encoding="utf-8")


def main(arguments):
    if not arguments:
        for name in ("layer", "prompt"):
            picture = ROOT / f"docs/figures/{name}.svg"
            picture.write_text(timeline.drawn(picture.with_suffix(".json")), encoding="utf-8")
    elif arguments[0] in ("--token", "--prompt") and len(arguments) == 4:
        what = arguments[0].removeprefix("--")
        write(arguments[1], what, *cut(arguments[2], int(arguments[3]), what))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
