#!/usr/bin/env python3
"""Fails if an object built for a vector ISA defines a symbol that the linker may use in place of other
objects' copies.

    check_isa_symbols.py NM OBJECT...

An inline function or template instantiation left in such an object is weak: the linker keeps one copy for the
whole program, perhaps the one with AVX-512 instructions, and the program dies on machines that have none.
"""
import subprocess
import sys

# folders of kernels/cpu whose units use more than the baseline
ISAS = ("avx2", "avxvnni", "avx512", "amx", "neon")


def main():
    nm, objects = sys.argv[1], [path for path in sys.argv[2:] if any(f"/{isa}/" in path for isa in ISAS)]
    if not objects:
        sys.exit("check_isa_symbols.py: no object of a vector ISA among the arguments")
    faults = []
    for path in objects:
        for line in subprocess.run([nm, "-C", path], check=True, capture_output=True,
                                   text=True).stdout.splitlines():
            kind, _, name = line[17:].partition(" ")
            if kind in ("W", "V", "u"):
                faults.append(f"{path}: {name} is weak (an inline function without internal linkage)")
    print("\n".join(faults) or f"{len(objects)} objects define nothing that others could be linked with")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
