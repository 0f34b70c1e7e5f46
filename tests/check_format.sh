#!/usr/bin/env bash
# Fails if a C++ or CUDA file is not formatted as clang-format formats it, and prints the first differences. Then
# checks what clang-format leaves alone: no line is longer than 110 columns, except in raw strings and in parts
# between "clang-format off" and "clang-format on".
set -euo pipefail
cd "$(dirname "$0")/.."
files=('*.h' '*.cpp' '*.cu' '*.cuh')
git ls-files -z "${files[@]}" | xargs -0 clang-format --dry-run --Werror --ferror-limit=3
git ls-files -z "${files[@]}" | python3 -c '
import re, sys
MOST = 110
bad = 0
for path in sys.stdin.read().split("\0")[:-1]:
    off, raw = False, None
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
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
        if len(line.rstrip("\n")) > MOST and not inside:
            print(f"{path}:{number}: {len(line) - 1} columns; wrap the line at {MOST}")
            bad += 1
sys.exit(bad > 0)
'
echo "formatting: all files as clang-format has them"
