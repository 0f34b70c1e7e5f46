#!/usr/bin/env python3
"""Writes blocks of every quantized type, random ones and edge cases, with the values that the gguf package
dequantizes them to.

    quant_golden.py FILE    writes tests/data/quant_golden.bin: per type its GGUF number and element count
                            (two little-endian uint32), the row's bytes, the row's floats

test_quant_oracle.py draws its blocks from here too.
"""
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from gguf.quants import dequantize

# The offsets of the half floats in each type's blocks. Plain types have none. For MXFP4 and NVFP4, these are
# the offsets of their one-byte scales. For IQ1_M, it is the offset of four words whose top nibbles form one
# half float.
HALVES = {
    Type.F32: [], Type.F16: [], Type.BF16: [],
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
    Type.IQ4_NL: [0], Type.IQ4_XS: [0],
    Type.MXFP4: [0], Type.NVFP4: [0, 1, 2, 3],
    Type.IQ2_XXS: [0], Type.IQ2_XS: [0], Type.IQ2_S: [0], Type.IQ3_XXS: [0], Type.IQ3_S: [0], Type.IQ1_S: [0],
    Type.IQ1_M: [48], Type.TQ1_0: [52], Type.TQ2_0: [64],
}
# The smallest and largest one-byte scales, those near 1, and the formats' NaNs.
EDGE_BYTES = [0, 1, 2, 3, 7, 8, 9, 0x38, 0x7E, 0x7F, 0x80, 0x81, 0xFC, 0xFD, 0xFE, 0xFF]
# Zero, minus zero, the smallest and largest subnormal, the smallest normal, one, the largest, each with both
# signs.
EDGE_HALVES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x03FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF]


def finite_floats(rng, kind, n):
    """n random bit patterns of a plain type, none of which is infinite or NaN."""
    if kind == Type.F32:
        bits = rng.integers(0, 1 << 32, n, dtype=np.uint32)
        bits[(bits & 0x7F800000) == 0x7F800000] ^= 0x40000000
        return bits.view(np.uint8)
    bits = rng.integers(0, 1 << 16, n, dtype=np.uint16)
    top = 0x7C00 if kind == Type.F16 else 0x7F80
    bits[(bits & top) == top] ^= 0x4000
    return bits.view(np.uint8)


def blocks(kind, n, seed):
    """[n, bytes of a block]: random quants; the first blocks have every edge half, and all-zero and all-one
    quants."""
    rng = np.random.default_rng(seed)
    _, size = GGML_QUANT_SIZES[kind]
    if not HALVES[kind]:
        return finite_floats(rng, kind, n).reshape(n, size)
    out = rng.integers(0, 256, (n, size), dtype=np.uint8)
    out[1::7] = 0x00
    out[2::7] = 0xFF
    if kind in (Type.MXFP4, Type.NVFP4):
        scales = EDGE_BYTES + [byte for byte in range(256) if byte not in EDGE_BYTES]
        out[:, HALVES[kind]] = np.resize(np.roll(scales, seed % 100), (n, len(HALVES[kind])))
        return out
    for place, offset in enumerate(HALVES[kind]):
        halves = rng.normal(0, 0.05, n).astype(np.float16).view(np.uint16)
        edges = min(n // 2, len(EDGE_HALVES))
        halves[:edges] = [EDGE_HALVES[(i + seed + 3 * place) % len(EDGE_HALVES)] for i in range(edges)]
        if kind == Type.IQ1_M:
            for i in range(4):
                top = out[:, offset + 2 * i + 1]
                top[:] = (top & 15) | ((halves >> (4 * i)) & 15) << 4
            continue
        out[:, offset:offset + 2] = halves.view(np.uint8).reshape(n, 2)
    return out


def values(kind, raw):
    """The floats of blocks [n, bytes], computed by the gguf package."""
    if kind == Type.F32:
        return raw.view(np.float32).reshape(-1)
    if kind == Type.F16:
        return raw.view(np.float16).reshape(-1).astype(np.float32)
    with np.errstate(over="ignore"):  # MXFP4's largest scales
        return dequantize(raw, kind).astype(np.float32).reshape(-1)


def main(path):
    with open(path, "wb") as file:
        for kind in HALVES:
            elems, _ = GGML_QUANT_SIZES[kind]
            raw = blocks(kind, {1: 48, 32: 24, 64: 12, 256: 6}[elems], seed=int(kind))
            file.write(np.array([int(kind), raw.shape[0] * elems], dtype="<u4").tobytes())
            file.write(raw.tobytes())
            file.write(values(kind, raw).astype("<f4").tobytes())


if __name__ == "__main__":
    main(sys.argv[1])
