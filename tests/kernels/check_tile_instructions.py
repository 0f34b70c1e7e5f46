#!/usr/bin/env python3
"""Fails unless AMX's unit contains the tile instructions, and no other unit contains any of them.

  check_tile_instructions.py OBJDUMP OBJECT...

The tests run its loops over a stand-in for the tiles, so nothing else checks what is shipped.
"""
import re
import subprocess
import sys

EXPECTED = {"ldtilecfg", "tilerelease", "tileloadd", "tilezero", "tdpbssd", "tilestored"}
TILE_INSTRUCTION = re.compile(r"\b(ldtilecfg|sttilecfg|tile[a-z0-9]+|tdp[a-z0-9]+)\b")


def instructions(objdump, path):
    done = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], check=True, capture_output=True,
                          text=True)
    return {match for line in done.stdout.splitlines() if line.startswith(" ")  # not the names of functions
            for match in TILE_INSTRUCTION.findall(line.split("<")[0])}


def main():
    objdump, objects = sys.argv[1], sys.argv[2:]
    own = [path for path in objects if "/amx/matmul_amx" in path]
    if not own:
        sys.exit("check_tile_instructions.py: AMX's unit is not among the arguments")
    faults = []
    for path in objects:
        expected = EXPECTED if path in own else set()
        found = instructions(objdump, path)
        faults += [f"{path}: no {name}" for name in sorted(expected - found)]
        faults += [f"{path}: {name} is not for this unit" for name in sorted(found - expected)]
    print("\n".join(faults) or f"{own[0]} has {', '.join(sorted(EXPECTED))}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
