"""The results of tests/gpu.sh as data and as a table.

    gpu_report.py table LOGS OUT SUM    prints the table, of at most 60 lines; writes OUT/SUM, and
                                        OUT/kernels.json if kernels were timed. Exit code 1 if a test or
                                        another part failed, or none ran
    gpu_report.py worst LOGS OUT N      prints the N kernels that lose most time against their bounds, one a
                                        line: a name, a tab, the arguments with which ncu finds the kernel,
                                        " -- ", the arguments of bench --kernels

LOGS has parts.tsv, a log of each part and their JSON files. Only the standard library, for a machine without
a network.
"""
import csv
import json
import pathlib
import re
import sys

MOST_LINES = 60
MOST_FAILURES = 8  # lines of the table for failed test cases; the logs have all of them
MOST_KERNELS = 32
# These parts may be stopped without counting as failed: their tools make kernels ten to a hundred times
# slower.
SLOW_TOOLS = ("racecheck-", "memcheck-", "ncu-")
BENCHES = ("full-", "quarter-", "large-", "plain-")

# The names of CUDA kernels, without "_kernel", that differ from the names of the operations.
CUDA_NAMES = {"matmul": "few|many|float", "matmul of listed rows": "few|float",
              "multiply_heads": "heads|many|float", "gated_activation": "gated", "select_neurons": "score",
              "list_bits": "list", "keep_passed": "keep_in_block|pass|keep", "neuron_values": "values",
              "split_set": "split", "attention": "attention_rows|attention_tiles",
              "causal_conv": "convolve", "delta_gates": "gates", "gated_delta": "delta"}


def read_text(path):
    return path.read_text(errors="replace") if path.exists() else ""


def read_json(path):
    """Returns None if a part was stopped before it wrote its result."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError:
        return None


def read_parts(logs):
    parts = []
    for line in read_text(logs / "parts.tsv").splitlines():
        name, state, seconds, why = line.split("\t")
        parts.append({"name": name, "state": state, "seconds": int(seconds), "why": why})
    return parts


# ---- tests -------------------------------------------------------------------------------------------------

# Matches the lines that Catch2 prints before a test case's first message: its name, then its sections.
CASE_HEAD = re.compile(r"^-{79}\n(.+)\n(?:.*\n)*?-{79}\n.+:\d+\n\.{79}$", re.MULTILINE)


def failed_cases(text):
    """The names of test cases that failed; other test cases print messages too, such as warnings."""
    _, *named = CASE_HEAD.split(text)
    return list(dict.fromkeys(name for name, said in zip(named[::2], named[1::2])
                              if re.search(r"^\S.*:\d+: FAILED:", said, re.MULTILINE)))


def read_test(part, log):
    """Reads counts from what Catch2 prints (2 and 3). A stopped run has no counts if the signal did not reach
    Catch2."""
    text = read_text(log)
    cases = n_failed = 0
    if whole := re.search(r"^All tests passed \(\d+ assertions? in (\d+) test cases?\)", text, re.MULTILINE):
        cases = int(whole[1])
    elif counts := re.search(r"^test cases: *(\d+)(.*)", text, re.MULTILINE):
        cases = int(counts[1])
        n_failed = int(found[1]) if (found := re.search(r"(\d+) failed", counts[2])) else 0
    return {"family": part["name"].removeprefix("test-"), "state": part["state"], "seconds": part["seconds"],
            "cases": cases, "failed": n_failed, "skipped": len(re.findall(r"^SKIPPED: ", text, re.MULTILINE)),
            "failures": failed_cases(text)}


def test_failed(test):
    return (test["state"] in ("failed", "stopped")
            or (test["state"] == "well" and (test["cases"] == 0 or test["failed"] > 0)))


def test_lines(tests):
    if not tests:
        return
    words = []
    for test in tests:
        if test["state"] == "out":
            words.append(f"{test['family']} not run")
            continue
        word = f"{test['family']} {test['cases'] - test['failed']}/{test['cases']}"
        word += {"stopped": " STOPPED", "failed": " FAILED"}.get(
            test["state"], " NOTHING RAN" if test["cases"] == 0 else "")
        words.append(
            word + (f", {test['skipped']} skipped" if test["skipped"] else "") + f" ({test['seconds']} s)")
    yield "tests, passed/cases: " + "; ".join(words[:6])
    if words[6:]:
        yield "                     " + "; ".join(words[6:])
    failures = [f"  FAILED {test['family']}: {name}" for test in tests for name in test["failures"]]
    yield from failures[:MOST_FAILURES]
    if len(failures) > MOST_FAILURES:
        yield f"  and {len(failures) - MOST_FAILURES} more; the logs have them"


# ---- kernels -----------------------------------------------------------------------------------------------

def read_kernels(logs, out):
    """The times of all shapes in one object, as bench --kernels --json prints it; None if there are none."""
    runs = [run for path in sorted(logs.glob("kernels-*.json"), key=lambda path: path.stat().st_mtime)
            if (run := read_json(path))]
    if not runs:
        return read_json(out / "kernels.json")
    return {**runs[0], "kernels": [kernel for run in runs for kernel in run["kernels"]]}


def kernel_lines(measured):
    """A line for each operation and number of tokens, with one column for each shape and type of weights. The
    shapes' order is the order in which they were timed."""
    classes, columns, loss = {}, {}, {}
    of_shape = {k["shape"]: k["type"] for k in measured["kernels"] if k["type"]}
    for k in measured["kernels"]:
        column = f"{k['shape']} {of_shape.get(k['shape'], '')}".strip()
        columns[column] = None
        row = (k["kernel"], k["tokens"])
        classes.setdefault(row, {}).setdefault(column, []).append(k)
        loss[row] = loss.get(row, 0) + k["seconds"] - k["bound_seconds"]
    shown = set(sorted(classes, key=loss.get, reverse=True)[:MOST_KERNELS])
    yield f"{'kernel, tokens':<28}" + "".join(f" {column + ': us':>19} {'GB/s':>6} {'of bound':>9}"
                                              for column in columns)
    for row, cells in classes.items():
        if row not in shown:
            continue
        line = f"{row[0]}, {row[1]}".ljust(28)
        for column in columns:
            of_class = cells.get(column, [])
            seconds = sum(k["seconds"] for k in of_class)
            bound = sum(k["bound_seconds"] for k in of_class)
            rate = sum(k["bytes_per_s"] * k["seconds"] for k in of_class)
            line += (f" {1e6 * seconds:>19.1f} {rate / seconds / 1e9:>6.0f} {100 * bound / seconds:>7.0f} %"
                     if of_class else " " * 37)
        yield line.rstrip()
    if len(classes) > len(shown):
        yield f"  and {len(classes) - len(shown)} that are nearer to their bounds, in kernels.json"


def probe_lines(probe):
    gpu = (probe or {}).get("gpu")
    if gpu:
        yield (f"probe: VRAM {gpu['vram_bytes_per_s'] / 1e9:.0f} GB/s, PCIe "
               f"{gpu['to_device_pinned_bytes_per_s'] / 1e9:.1f} to and "
               f"{gpu['from_device_pinned_bytes_per_s'] / 1e9:.1f} from the GPU, "
               f"{gpu['multiply_adds_per_s']:.3g} multiply-adds/s, launch_s {gpu['launch_s'] * 1e6:.2f} us, "
               f"round_trip_s {gpu['round_trip_s'] * 1e6:.1f} us")


def cuda_names(kernel):
    """Returns the names as a regular expression."""
    return CUDA_NAMES.get(kernel, kernel)


def worst(measured, n):
    """Returns one case for each operation and number of tokens, those that lose the most time first."""
    lost = sorted(measured["kernels"], key=lambda k: k["seconds"] - k["bound_seconds"], reverse=True)
    chosen = {}
    for k in lost:
        chosen.setdefault((k["kernel"], k["tokens"]), k)
    return list(chosen.values())[:n]


def print_worst(logs, out, n):
    measured = read_kernels(logs, out)
    for k in worst(measured, n) if measured else []:
        cases = [other for other in measured["kernels"] if other["shape"] == k["shape"]]
        pattern = cuda_names(k["kernel"])
        # Each case launches its kernels twice before it records a graph; launches of other kernels do not
        # count.
        before = sum(2 * other["launches"]
                     for other in cases[:cases.index(k)] if cuda_names(other["kernel"]) == pattern)
        name = re.sub(r"\W+", "-", f"{k['kernel']}-{k['shape']}-{k['tokens']}")
        type_of_shape = next(other["type"] for other in cases if other["type"])
        print(f"{name}\t--kernel-name regex:^({pattern})_kernel$ --launch-skip {before} --launch-count "
              f"{2 * k['launches']} -- --shape {k['shape']} --type {type_of_shape.lower()}")


def ncu_lines(logs):
    columns = {"duration": "gpu__time_duration.sum",
               "memory": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
               "SM": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
               "warps": "sm__warps_active.avg.pct_of_peak_sustained_active",
               "registers": "launch__registers_per_thread"}
    for path in sorted(logs.glob("ncu-*.csv")):
        rows = list(csv.reader(line for line in read_text(path).splitlines() if not line.startswith("==")))
        if len(rows) < 3:  # names, units, launches
            continue
        row, units = dict(zip(rows[0], rows[-1])), dict(zip(rows[0], rows[1]))
        words = [f"{word} {row[name]} {units[name]}".rstrip()
                 for word, name in columns.items() if name in row]
        yield f"{path.stem}: {row.get('Kernel Name', '')[:40]}: " + ", ".join(words)


# ---- models ------------------------------------------------------------------------------------------------

def read_runs(parts, logs):
    runs = []
    for part in parts:
        if part["name"].startswith(BENCHES) and (bench := read_json(logs / f"{part['name']}.json")):
            runs.append({"name": part["name"], "bench": bench})
    return runs


def run_lines(runs):
    if runs:
        yield (f"{'model':<22} {'VRAM, GB':>9} {'prefill, tokens/s':>18} {'decode, tokens/s':>17} "
               f"{'of bound':>9} {'copies hidden':>14}")
    for run in runs:
        bench = run["bench"]
        hidden = (bench.get("prefetch") or {}).get("hidden_share")
        vram = (bench.get("plan") or {}).get("device_bytes", {}).get("total")
        yield (f"{run['name']:<22} {'' if vram is None else f'{vram / 1e9:.2f}':>9} "
               f"{bench['prefill_tokens_per_s']:>18.1f} {bench['decode_tokens_per_s']:>17.2f} "
               f"{100 * bench['share_of_bound']:>7.0f} % "
               f"{'' if hidden is None else f'{100 * hidden:.0f} %':>14}").rstrip()


def llama_runs(logs):
    runs = read_json(logs / "llama-bench.json")
    return runs if isinstance(runs, list) else []


def llama_lines(runs):
    """The faster of the two kinds of attention."""
    for what, key in (("prefill", "n_prompt"), ("decode", "n_gen")):
        speeds = [run["avg_ts"] for run in runs if run.get(key, 0) > 0]
        if speeds:
            yield f"llama-bench, same file: {what} {max(speeds):.2f} tokens/s"


# ---- sanitizers --------------------------------------------------------------------------------------------

def sanitizer_lines(parts, logs):
    words = []
    for part in parts:
        if not part["name"].startswith(("racecheck-", "memcheck-")) or part["state"] == "out":
            continue
        found = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.+)", read_text(logs / f"{part['name']}.log"))
        words.append(f"{part['name']}: "
                     + (found[-1].strip() if found else f"no verdict, {part['state']} ({part['seconds']} s)"))
    if words:
        yield "sanitizers: " + "; ".join(words)


# ---- the whole report --------------------------------------------------------------------------------------

def part_lines(parts):
    """The build's time, and which parts did not run to the end."""
    took = [f"{part['name']} {part['seconds']} s" for part in parts if part["name"] in ("configure", "build")]
    yield "; ".join([*took, f"all parts {sum(part['seconds'] for part in parts)} s"])
    for state, word in (("failed", "failed"), ("stopped", "stopped"), ("out", "not run")):
        # Leave out parts that the lines above already name.
        of_state = [part for part in parts
                    if part["state"] == state and not (part["name"].startswith("test-") and state != "out")]
        by_reason = {}
        for part in of_state:
            by_reason.setdefault(part["why"], []).append(part["name"])
        if by_reason:
            yield f"{word}: " + "; ".join(f"{', '.join(names)} ({why})" for why, names in by_reason.items())


def build_errors(parts, logs):
    """The first errors of a failed build, because the table then has nothing else."""
    for part in parts:
        if part["name"] in ("configure", "build") and part["state"] == "failed":
            lines = read_text(logs / f"{part['name']}.log").splitlines()
            errors = [line for line in lines if re.search(r"\b[Ee]rror\b", line)]
            yield from (f"  {line[:200]}" for line in (errors or lines[-20:])[:20])


def make_table(logs, out, sum_name):
    parts = read_parts(logs)
    probe, measured, runs = read_json(out / "probe.json"), read_kernels(logs, out), read_runs(parts, logs)
    tests = [read_test(part, logs / f"{part['name']}.log")
             for part in parts if part["name"].startswith("test-")]
    llama = llama_runs(logs)
    lines = [read_text(logs / "machine.txt").strip(), *part_lines(parts),
             *build_errors(parts, logs), *probe_lines(probe),
             *test_lines(tests), *sanitizer_lines(parts, logs), *run_lines(runs), *llama_lines(llama),
             *ncu_lines(logs)]
    if measured and any(logs.glob("kernels-*.json")):
        lines += kernel_lines(measured)
        (out / "kernels.json").write_text(json.dumps(measured, indent=1) + "\n")
    print("\n".join(lines[:MOST_LINES]))
    whole = {"machine": lines[0], "parts": parts, "tests": tests, "runs": runs}
    if llama:
        whole["llama_bench"] = llama
    (out / sum_name).write_text(json.dumps(whole, indent=1) + "\n")
    bad = [part for part in parts if part["state"] == "failed"
           or (part["state"] == "stopped" and not part["name"].startswith(SLOW_TOOLS))]
    ran = any(part["state"] == "well" for part in parts)
    return 1 if bad or not ran or any(test_failed(test) for test in tests) else 0


if __name__ == "__main__":
    what, logs, out, last = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4]
    if what == "worst":
        print_worst(logs, out, int(last))
    else:
        sys.exit(make_table(logs, out, last))
