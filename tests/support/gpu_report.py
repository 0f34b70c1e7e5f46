"""What a phase of tests/gpu.sh came to, in words and tables, for whoever reads it without the machine.

    gpu_report.py PHASE LOGS RESULTS GPU      reads LOGS/parts.tsv, logs and JSON files; writes RESULTS/PHASE.md

Only the standard library, for a machine without a network.
"""
import json
import pathlib
import re
import sys

import gpu_results

WHAT = {
    "build": "Compiles the kernels with this machine's nvcc, and the tests that run on a GPU.",
    "tests": "The tests with the label cuda: every kernel against the CPU's results or a double reference, and the engine on "
             "the GPU against the engine on the CPU, bit for bit. A failure in a kernel's test names the kernel; look there "
             "first, and at the engine's tests only when the kernels' pass.",
    "sanitizers": "NVIDIA's compute-sanitizer over the tests of kernels. memcheck: addresses; racecheck: shared memory; "
                  "synccheck: barriers; initcheck: memory that was never written. A part that was stopped is no failure: the "
                  "tools are up to a hundred times slower, and what it had checked until then was well.",
    "kernels": "Each kernel by itself at the sizes of 7B and 70B models, beside the least time for what it declares to read, "
               "write and compute. A small share with a long time is where work pays; a small share of a kernel of a few "
               "microseconds is the time between two kernels.",
    "bench": "Synthetic models with a part of their bytes in VRAM. dense-layers is offloading of whole layers, as other "
             "engines do it; the goals are 3 times its speed with a quarter of a 70B in VRAM, 70 % of the byte bound, and "
             "80 % of the copies' time hidden.",
    "server": "hearthd as users run it: the same requests to a server on the GPU and to one on the CPU alone, whose answers "
              "must be the same, then several at once.",
}
WORST = 25


def read_parts(logs):
    path = logs / "parts.tsv"
    return [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []


def verdict(code):
    return {"0": "well", "124": "stopped: time was up", "137": "stopped: time was up"}.get(code, f"FAILED (exit code {code})")


def read_json(path):
    text = path.read_text() if path.exists() else ""
    return json.loads(text) if text.strip() else None


def parts_table(parts):
    yield "| part | | |"
    yield "|---|---|---|"
    for name, code, detail in parts:
        yield f"| {name} | left out | {detail} |" if code == "out" else f"| {name} | {verdict(code)} | {detail} s |"


def tests(logs, _results):
    log = logs / "tests.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    found = re.search(r"\d+% tests passed, \d+ tests failed out of \d+", text)
    yield found.group(0) if found else "The tests did not come to their end."
    failed = re.findall(r"^\s*\d+ - (.+) \((?:Failed|Timeout|SEGFAULT|Subprocess aborted|Not Run).*\)", text, re.MULTILINE)
    yield from [""] + [f"- {name}" for name in failed] if failed else []


def sanitizers(logs, _results):
    for log in sorted(logs.glob("*check-*.log")):
        sums = re.findall(r"ERROR SUMMARY: (.+)|RACECHECK SUMMARY: (.+)", log.read_text(errors="replace"))
        yield f"- {log.stem}: " + ("; ".join(a or b for a, b in sums) if sums else "no summary, so it did not end")


def kernels(_logs, results):
    probe, measured = read_json(results / "probe.json"), read_json(results / "kernels.json")
    if probe and probe.get("gpu"):
        gpu = probe["gpu"]
        yield (f"{gpu['name']}: {gpu['vram_bytes_per_s'] / 1e9:.0f} GB/s of memory, "
               f"{gpu['to_device_pinned_bytes_per_s'] / 1e9:.1f} GB/s over PCIe, "
               f"{gpu['launch_s'] * 1e6:.2f} us from kernel to kernel, {gpu['round_trip_s'] * 1e6:.1f} us to the CPU and back")
    if not measured:
        yield "The kernels were not timed."
        return
    lost = sorted(measured["kernels"], key=lambda k: k["seconds"] - k["bound_seconds"], reverse=True)
    yield from ["", f"The {WORST} that take longest above their bounds, of {len(lost)}:", "",
                "| shape | kernel | size | type | tokens | us | GB/s | of bound | bound by |", "|---|---|---|---|---|---|---|---|---|"]
    for k in lost[:WORST]:
        yield (f"| {k['shape']} | {k['kernel']} | {k['size']} | {k['type'] or ''} | {k['tokens']} | {1e6 * k['seconds']:.1f} | "
               f"{k['bytes_per_s'] / 1e9:.0f} | {100 * k['share_of_bound']:.0f} % | {k['bound_by']} |")


def bench(logs, results):
    runs = gpu_results.read_runs(logs)
    if not runs:
        yield "Nothing was measured."
        return
    gpu_results.add_ratios(runs)
    (results / "results.json").write_text(json.dumps({"gpu": GPU, "runs": runs}, indent=1) + "\n")
    yield from gpu_results.table(runs)


def server(_logs, results):
    found = read_json(results / "server.json")
    if not found:
        yield "The server was not measured."
        return
    yield "The answers are the same." if found["same_answers"] else "THE ANSWERS DIFFER: server.json has them."
    yield from ["", "| | GPU | CPU |", "|---|---|---|"]
    for key, label in (("start_s", "seconds to the first answer"), ("alone_tokens_per_s", "one request, tokens/s"),
                       ("together_tokens_per_s", "four at once, tokens/s together")):
        yield f"| {label} | {found['cuda'][key]:.2f} | {found['cpu'][key]:.2f} |"


def main(phase, logs, results):
    parts = read_parts(logs)
    lines = [f"# {phase}", "", GPU, "", WHAT[phase], "", *parts_table(parts), ""]
    details = {"tests": tests, "sanitizers": sanitizers, "kernels": kernels, "bench": bench, "server": server}.get(phase)
    ran = any(code != "out" for name, code, _ in parts if name not in ("configure", "build"))
    if details and ran:
        lines += details(logs, results)
    elif details:
        lines.append("Nothing of this phase was run.")
    (results / f"{phase}.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    GPU = sys.argv[4]
    main(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
