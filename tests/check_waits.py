"""Fails if a test waits by the clock without giving the reason, because a busy machine is late.

  python3 tests/check_waits.py [FOLDER]    default: tests

Reports sleeping outside a loop (`while`) that checks whether something has happened. In Python it also
reports time-outs and patience of less than half a minute outside such a loop, and calls of httpx without a
time-out, whose default is five seconds. A comment `by the clock: REASON` on the line, or on the one before,
permits it. Benchmarks and the emulator, which sleep on purpose, are not checked.
"""
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent
NOT_LOOKED_AT = ("bench", "support/cudaemu")
LEAST_S = 30
HTTPX = {f"httpx.{name}" for name in ("get", "post", "put", "patch", "delete", "head", "options", "request",
                                      "stream", "Client", "AsyncClient")}


def in_python(text):
    """(line number, what is wrong) of each wait."""
    tree = ast.parse(text)
    polled = {call for loop in ast.walk(tree) if isinstance(loop, ast.While) for call in ast.walk(loop)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        if name == "time.sleep" and call not in polled:
            yield call.lineno, "sleeps, and looks for nothing"
        if name in HTTPX and not any(keyword.arg in ("timeout", None) for keyword in call.keywords):
            yield call.lineno, "has httpx's time-out of 5 s"
        for keyword in call.keywords:
            value = keyword.value
            if (call not in polled and keyword.arg in ("timeout", "patience")
                    and isinstance(value, ast.Constant) and isinstance(value.value, (int, float))
                    and value.value < LEAST_S):
                yield call.lineno, f"gives {keyword.arg}={value.value} s"


def in_cpp(text):
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"\bsleep_(for|until)\(", line.split("//")[0]) and not re.search(r"\bwhile \(", line):
            yield number, "sleeps, and looks for nothing"


def faults(folder):
    for path in sorted(folder.rglob("*")):
        find = {".py": in_python, ".cpp": in_cpp, ".h": in_cpp}.get(path.suffix)
        place = path.relative_to(folder).as_posix()
        if find is None or place.startswith(NOT_LOOKED_AT):
            continue
        text = path.read_text()
        lines = text.splitlines()
        for number, what in find(text):
            if not any("by the clock: " in line for line in lines[max(number - 2, 0):number]):
                yield (f"{path}:{number}: {what}; wait for what is to happen, or say why not: "
                       "by the clock: REASON")


def main():
    found = list(faults(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
    print("\n".join(found) if found else "no test waits by the clock without a reason")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
