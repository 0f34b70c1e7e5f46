#!/usr/bin/env bash
# Fails if a C++ or CUDA file is not formatted as clang-format formats it, and prints the first differences.
# Then checks that no line of C++, CUDA, Python or shell is longer than 110 columns. Exempt are raw strings of
# C++ and parts between "clang-format off" and "clang-format on"; in Python and shell, lines of a single word,
# such as a URL; and the scripts in tests/data.
set -euo pipefail
cd "$(dirname "$0")/.."
files=('*.h' '*.cpp' '*.cu' '*.cuh')
git ls-files -z "${files[@]}" | xargs -0 clang-format --dry-run --Werror --ferror-limit=3
git ls-files -z | python3 -c '
import re, sys
MOST = 110

def long_in_cpp(lines):
    off, raw = False, None
    for number, line in enumerate(lines, 1):
        inside = off or raw is not None
        if "clang-format o" in line:
            off = "clang-format off" in line
        at = 0
        while True:  # which raw string is open at the end of the line
            if raw is None:
                begin = re.compile(r"R\"([^()\\ ]*)\(").search(line, at)
                if begin is None:
                    break
                inside, raw, at = True, ")" + begin[1] + "\"", begin.end()
            end = line.find(raw, at)
            if end < 0:
                break
            at, raw = end + len(raw), None
        if len(line) > MOST and not inside:
            yield number, len(line)

def long_in_script(lines):
    for number, line in enumerate(lines, 1):
        if len(line) > MOST and len(line.strip(" #").split()) > 1:
            yield number, len(line)

def is_script(path):
    if path.startswith("tests/data/"):
        return False
    with open(path, "rb") as file:
        return path.endswith((".py", ".sh")) or file.read(2) == b"#!"

bad = 0
for path in sys.stdin.read().split("\0")[:-1]:
    cpp = path.endswith((".h", ".cpp", ".cu", ".cuh"))
    if not cpp and not is_script(path):
        continue
    lines = open(path, encoding="utf-8").read().split("\n")
    for number, length in (long_in_cpp if cpp else long_in_script)(lines):
        print(f"{path}:{number}: has {length} columns, over {MOST}; wrap the line")
        bad += 1
sys.exit(bad > 0)
'
echo "formatting: all files as clang-format has them, and no line is over 110 columns"
