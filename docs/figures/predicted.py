"""Prints the table "Speeds by mode" of docs/predictions.md, from `hearth-profiler plan`.

    docs/figures/predicted.py [build/release/hearth-profiler]
"""
import json
import subprocess
import sys

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/release/hearth-profiler"
MACHINES = ["rtx4090", "rtx2080ti", "rtx4060-laptop", "h100"]
ROWS = [("opt-175b", ""), ("llama-70b", ""), ("llama-70b", "silu"), ("falcon-40b", "")]


def text(rate):
    return f"{rate:,.0f}" if rate >= 999.5 else f"{rate:.3g}"


def planned(shape, activation, machine):
    """The speeds of each mode and of prompts, or why there is no plan."""
    command = [PROGRAM, "plan", "--shape", shape, "--machine", machine, "--slots", "1", "--json"]
    done = subprocess.run(command + (["--ffn-activation", activation] if activation else []),
                          capture_output=True, text=True)
    if done.returncode != 0:
        return {"refused": "needs " + done.stderr.split(" needs ")[1].split(" beside")[0] + " of RAM"}
    plan = json.loads(done.stdout)
    rates = {mode["mode"]: text(mode["decode_tokens_per_s"]) for mode in [plan["best"], *plan["other_modes"]]}
    return {**rates, "prompt": text(plan["best"]["prefill_tokens_per_s"])}


print("| shape, Q4_0 | | " + " | ".join(f"`{machine}`" for machine in MACHINES) + " |")
print("|" + "---|" * (2 + len(MACHINES)))
for shape, activation in ROWS:
    columns = [planned(shape, activation, machine) for machine in MACHINES]
    name = f"`{shape}`" + (", SwiGLU" if activation else "")
    for mode in ["exact", "predicted", "dense", "prompt"]:
        if not any(mode in column for column in columns):
            continue
        cells = [column.get(mode, column.pop("refused", "")) for column in columns]
        print(f"| {name} | {mode} | " + " | ".join(cells) + " |")
        name = ""
