"""Reads ptxas's report on every CUDA kernel: fails if registers spill to memory, and lists what each kernel
uses.

  ptxas_gate.py COMPILER ARGUMENTS... -o X.cu.o ...   compiles; ptxas's report (-Xptxas -v) goes to
  X.cu.o.ptxas
  ptxas_gate.py --check X.cu.o ...                    reads those files

The first form is a compiler launcher of the build, so kernels are compiled once, as they ship.
"""
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(?P<name>\S+)' for '(?P<arch>\S+)'")
FUNCTION = re.compile(r"Function properties for (?P<name>\S+)")
STACK = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill")
USED = re.compile(r"Used (?P<registers>\d+) registers")
SHARED = re.compile(r"(?P<shared>\d+) bytes smem")
TALK = re.compile(r"^ptxas info|bytes stack frame|^\s+\d+ bytes")


def compile_kernels(command):
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    lines = done.stderr.splitlines(keepends=True)
    if done.returncode == 0:
        report = pathlib.Path(command[command.index("-o") + 1] + ".ptxas")
        report.write_text("".join(line for line in lines if TALK.search(line)))
    sys.stderr.write("".join(line for line in lines if not TALK.search(line)))
    return done.returncode


def functions(report):
    """A dict for each function in a report: name, arch, stack, spills, and registers and shared memory of
    kernels."""
    found, arch, kernel, current = [], None, None, None
    for line in report.splitlines():
        if match := ENTRY.search(line):
            arch, kernel = match["arch"], match["name"]
        elif match := FUNCTION.search(line):
            current = {"name": match["name"], "arch": arch, "registers": 0, "shared": 0}
            found.append(current)
        elif current and (match := STACK.search(line)):
            current.update(stack=int(match["stack"]), spills=int(match["stores"]) + int(match["loads"]))
        elif match := USED.search(line):
            of = next(each for each in reversed(found) if each["name"] == kernel and each["arch"] == arch)
            of["registers"] = int(match["registers"])
            if match := SHARED.search(line):
                of["shared"] = int(match["shared"])
    return found


def readable(names):
    plain = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True,
                           check=True).stdout
    return [re.sub(r"hearth::|cuda::|\(anonymous namespace\)::|^void ", "", name)
            for name in plain.splitlines()]


def check(objects):
    rows, problems = [], []
    for path in (pathlib.Path(name) for name in objects):
        if path.suffixes[-2:] != [".cu", ".o"]:
            continue
        report = path.with_name(path.name + ".ptxas")
        if report.exists():
            # none for a file that only chooses among other files' kernels
            rows += functions(report.read_text())
        else:
            problems.append(f"{report} is missing: the kernels are not built")
    if not rows:
        problems.append("ptxas reported no kernel at all: are there none, or did its output change?")
    names = readable([row["name"] for row in rows])
    lines = set()
    for row, name in zip(rows, names):
        if row["spills"]:
            problems.append(f"{name} on {row['arch']}: {row['spills']} bytes of registers spill to memory")
        lines.add(f"{row['registers']:>9} {row['shared']:>7} {row['stack']:>6} {row['spills']:>7}  "
                  f"{row['arch']:<7} {name}")
    print("registers  shared  stack  spills  for     kernel")
    print("\n".join(sorted(lines, key=lambda line: line.split()[5:] + line.split()[4:5])))
    print(f"{len(rows)} kernels, {len(problems)} problems")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(check(sys.argv[2:]) if sys.argv[1] == "--check" else compile_kernels(sys.argv[1:]))
