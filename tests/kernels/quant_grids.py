#!/usr/bin/env python3
"""Writes kernels/quant/grids.h: the points that the indices in IQ1, IQ2 and IQ3 blocks select.

    quant_grids.py FILE

The points are facts of the formats. They are read from the gguf package, and stored as that package stores
them: each weight of a point is an index into the few values that weights can have.
"""
import sys

import numpy as np
from gguf import quants

TABLES = [
    ("kIq2Xxs", quants.IQ2_XXS), ("kIq2Xs", quants.IQ2_XS), ("kIq2S", quants.IQ2_S), ("kIq1S", quants.IQ1_S),
    ("kIq3Xxs", quants.IQ3_XXS), ("kIq3S", quants.IQ3_S),
]

HEADER = """\
// The points that the indices of IQ1, IQ2 and IQ3 blocks stand for. Written by tests/kernels/quant_grids.py
// from the tables of Python's gguf package; decode_grids.cpp and
// kernels/cuda/experts/decoded_blocks.cuh read them.
//
// A point is 8 weights in 2 bits each (IQ1, IQ2) or 4 weights in 4 bits each (IQ3), the first weight lowest.
// The bits are an index into the type's values.
#pragma once

#include <cstdint>

namespace hearth {

// clang-format off
"""


def points(kind):
    """Each point of a type's grid as a word of 16 bits."""
    kind.init_grid()
    n, width = kind.grid_shape
    places = np.searchsorted(kind.grid_map, kind.grid.reshape(n, width))
    assert (np.array(kind.grid_map)[places] == kind.grid.reshape(n, width)).all()
    return (places << (np.arange(width) * (16 // width))).sum(axis=1)


def main(path):
    with open(path, "w", encoding="ascii") as file:
        file.write(HEADER)
        for name, kind in TABLES:
            values = ", ".join(str(value) for value in kind.grid_map)
            file.write(f"inline constexpr int8_t {name}Values[] = {{{values}}};\n")
            words = [f"{point:#06x}" for point in points(kind)]
            file.write(f"inline constexpr uint16_t {name}Points[{len(words)}] = {{\n")
            for i in range(0, len(words), 14):
                file.write("  " + ", ".join(words[i:i + 14]) + ",\n")
            file.write("};\n")
        file.write("// clang-format on\n\n}  // namespace hearth\n")


if __name__ == "__main__":
    main(sys.argv[1])
