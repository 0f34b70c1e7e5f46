// The block layouts of the quantized tensor types, byte for byte as GGUF files hold them.
//
// Dequantization and every matmul kernel read weights in place from the mapped file, so these structs are the
// only description of the bytes. A block has kElems weights, in groups of kGroup weights that share one scale
// (and one min, if kHasMin): weight = scale * q + min, q an integer. Halves are IEEE 754 binary16; everything
// is little-endian. Blocks may begin at any address (18-byte strides), so they are copied out, never
// dereferenced in place. Layouts: the ggml project's block formats.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace hearth {

/// The packed values and constants of each type. A stored unsigned value is q + kOffset. kLargest: the
/// largest q + kOffset.
struct BlockQ4_0 {
  static constexpr int kElems = 32, kGroup = 32, kOffset = 8, kLargest = 15;
  static constexpr bool kHasMin = false;
  uint16_t d;
  uint8_t qs[16];  // low nibbles: weights 0..15, high nibbles: 16..31
};

struct BlockQ4_1 {
  static constexpr int kElems = 32, kGroup = 32, kOffset = 0, kLargest = 15;
  static constexpr bool kHasMin = true;
  uint16_t d, m;
  uint8_t qs[16];
};

struct BlockQ5_0 {
  static constexpr int kElems = 32, kGroup = 32, kOffset = 16, kLargest = 31;
  static constexpr bool kHasMin = false;
  uint16_t d;
  uint8_t qh[4];  // bit i: fifth bit of weight i
  uint8_t qs[16];
};

struct BlockQ5_1 {
  static constexpr int kElems = 32, kGroup = 32, kOffset = 0, kLargest = 31;
  static constexpr bool kHasMin = true;
  uint16_t d, m;
  uint8_t qh[4];
  uint8_t qs[16];
};

struct BlockQ8_0 {
  static constexpr int kElems = 32, kGroup = 32, kOffset = 128, kLargest = 255;
  static constexpr bool kHasMin = false;
  uint16_t d;
  int8_t qs[32];
};

struct BlockQ2_K {
  static constexpr int kElems = 256, kGroup = 16, kOffset = 0, kLargest = 3;
  static constexpr bool kHasMin = true;
  uint8_t scales[16];  // per group: the scale is d * low nibble, the min is -dmin * high nibble
  uint8_t qs[64];      // 2 bits; weight 128h + 32j + i is bits 2j of qs[32h + i]
  uint16_t d, dmin;
};

struct BlockQ3_K {
  static constexpr int kElems = 256, kGroup = 16, kOffset = 4, kLargest = 7;
  static constexpr bool kHasMin = false;
  uint8_t hmask[32];   // bit k of hmask[i]: third bit of weight 32k + i
  uint8_t qs[64];      // low 2 bits, as in Q2_K
  uint8_t scales[12];  // 16 values of 6 bits, minus 32: low nibbles in bytes 0..7, top 2 bits in bytes 8..11
  uint16_t d;
};

struct BlockQ4_K {
  static constexpr int kElems = 256, kGroup = 32, kOffset = 0, kLargest = 15;
  static constexpr bool kHasMin = true;
  uint16_t d, dmin;
  uint8_t scales[12];  // 8 scales and 8 mins of 6 bits
  uint8_t qs[128];     // weight 64k + i: low nibble of qs[32k + i]; weight 64k + 32 + i: its high nibble
};

struct BlockQ5_K {
  static constexpr int kElems = 256, kGroup = 32, kOffset = 0, kLargest = 31;
  static constexpr bool kHasMin = true;
  uint16_t d, dmin;
  uint8_t scales[12];  // as in Q4_K
  uint8_t qh[32];      // bit k of qh[i]: fifth bit of weight 32k + i
  uint8_t qs[128];     // as in Q4_K
};

struct BlockQ6_K {
  static constexpr int kElems = 256, kGroup = 16, kOffset = 32, kLargest = 63;
  static constexpr bool kHasMin = false;
  uint8_t ql[128];  // weights 128h + {0,32} + i: low nibbles of ql[64h + {0,32} + i]; + {64,96}: high nibbles
  uint8_t qh[64];   // top 2 bits of weight 128h + 32j + i: bits 2j of qh[32h + i]
  int8_t scales[16];
  uint16_t d;
};

struct BlockIQ4_NL {
  static constexpr int kElems = 32, kGroup = 32, kOffset = 128, kLargest = 255;
  static constexpr bool kHasMin = false;
  uint16_t d;
  uint8_t qs[16];  // indices into kIq4Values, nibbles as in Q4_0
};

struct BlockIQ4_XS {
  static constexpr int kElems = 256, kGroup = 32, kOffset = 128, kLargest = 255;
  static constexpr bool kHasMin = false;
  uint16_t d;
  uint16_t scales_h;    // bits 2k: top 2 bits of scale k
  uint8_t scales_l[4];  // nibble k: low 4 bits of scale k; 32 is subtracted from the scale
  uint8_t qs[128];      // group k: nibbles of qs[16k..16k+15] as in Q4_0
};

/// 4-bit floats times a power of two: the microscaling format MXFP4.
struct BlockMXFP4 {
  // The largest stored value is 28. kLargest is nevertheless 31, as for Q5_0, so that both types use the same
  // code for products.
  static constexpr int kElems = 32, kGroup = 32, kOffset = 16, kLargest = 31;
  static constexpr bool kHasMin = false;
  uint8_t e;       // the scale is 2^(e - 128)
  uint8_t qs[16];  // indices into kFloat4Values, nibbles as in Q4_0
};

// The following types have no vector loops of their own (kDecodedFirst): decode_block() decodes them on every
// ISA.

struct BlockNVFP4 {
  static constexpr int kElems = 64, kGroup = 16, kOffset = 16, kLargest = 31;
  static constexpr bool kHasMin = false, kDecodedFirst = true;
  // One scale per group: 4 bits of exponent, 3 bits of fraction, no sign.
  uint8_t d[4];
  // Group k: indices into kFloat4Values, the low nibbles of qs[8k..8k+7], then their high nibbles.
  uint8_t qs[32];
};

/// The weights are the points of a grid (grids.h), with a sign for each weight. IQ2 has one index for every 8
/// weights, and IQ3 has one for every 4.
struct BlockIQ2_XXS {
  static constexpr int kElems = 256, kGroup = 32, kOffset = 64, kLargest = 127;
  static constexpr bool kHasMin = false, kDecodedFirst = true;
  uint16_t d;
  uint8_t qs[64];  // group k: 4 indices, then 32 bits: 4 times 7 signs, with 4 bits of scale above them
};

struct BlockIQ2_XS {
  static constexpr int kElems = 256, kGroup = 16, kOffset = 64, kLargest = 127;
  static constexpr bool kHasMin = false, kDecodedFirst = true;
  uint16_t d;
  uint16_t qs[32];    // an index of 9 bits, with 7 signs above it
  uint8_t scales[8];  // a nibble per group
};

struct BlockIQ2_S {
  static constexpr int kElems = 256, kGroup = 16, kOffset = 64, kLargest = 127;
  static constexpr bool kHasMin = false, kDecodedFirst = true;
  uint16_t d;
  uint8_t qs[32];     // low 8 bits of the indices
  uint8_t signs[32];  // a bit per weight
  uint8_t qh[8];      // 2 more bits per index
  uint8_t scales[8];  // a nibble per group
};

struct BlockIQ3_XXS {
  static constexpr int kElems = 256, kGroup = 32, kOffset = 64, kLargest = 127;
  static constexpr bool kHasMin = false, kDecodedFirst = true;
  uint16_t d;
  uint8_t qs[64];       // an index per 4 weights
  uint8_t factors[32];  // group k: 32 bits of signs and scale as in IQ2_XXS
};

struct BlockIQ3_S {
  static constexpr int kElems = 256, kGroup = 32, kOffset = 16, kLargest = 31;
  static constexpr bool kHasMin = false, kDecodedFirst = true;
  uint16_t d;
  uint8_t qs[64];     // low 8 bits of the indices
  uint8_t qh[8];      // a ninth bit per index
  uint8_t signs[32];  // a bit per weight
  uint8_t scales[4];  // a nibble per group
};

/// Grid points of -1, 0 and 1, each shifted up or down by an eighth. q counts eighths.
struct BlockIQ1_S {
  static constexpr int kElems = 256, kGroup = 32, kOffset = 16, kLargest = 31;
  static constexpr bool kHasMin = false, kDecodedFirst = true;
  uint16_t d;
  uint8_t qs[32];  // low 8 bits of the indices
  // Per group: the 3 high bits of each of its four indices, 3 bits of scale, and a bit that is set if the
  // weights are shifted down by an eighth.
  uint16_t qh[8];
};

struct BlockIQ1_M {
  static constexpr int kElems = 256, kGroup = 16, kOffset = 16, kLargest = 31;
  static constexpr bool kHasMin = false, kDecodedFirst = true;
  uint8_t qs[32];      // low 8 bits of the indices
  uint8_t qh[16];      // one nibble per index: 3 more bits, and a bit that is set if an eighth is subtracted
  uint16_t scales[4];  // each has four scales of 3 bits; the four top nibbles together are d
  uint16_t d() const {
    return static_cast<uint16_t>(scales[0] >> 12 | scales[1] >> 12 << 4 | scales[2] >> 12 << 8 |
                                 (scales[3] & 0xf000));
  }
};

/// Weights of -1, 0 and 1. A byte holds up to five base-3 digits, of which the first is the most significant.
/// The byte's value is the number with these five digits, times 256 / 243, rounded up.
struct BlockTQ1_0 {
  static constexpr int kElems = 256, kGroup = 32, kOffset = 16, kLargest = 31;
  static constexpr bool kHasMin = false, kDecodedFirst = true;
  uint8_t qs[48];  // five digits per byte: first the digits of 32 bytes, then the digits of 16 bytes
  uint8_t qh[4];   // four digits a byte
  uint16_t d;
};

struct BlockTQ2_0 {
  static constexpr int kElems = 256, kGroup = 32, kOffset = 16, kLargest = 31;
  static constexpr bool kHasMin = false, kDecodedFirst = true;
  uint8_t qs[64];  // 2 bits, minus 1, placed as in Q2_K; so a weight of 2 is possible too
  uint16_t d;
};

/// Whether decode_block() decodes blocks before vector loops multiply them.
template <class Block>
inline constexpr bool kDecodedFirst = requires {
  Block::kDecodedFirst;
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ2_K) == 84);
static_assert(sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210 && sizeof(BlockIQ4_NL) == 18 && sizeof(BlockIQ4_XS) == 136);
static_assert(sizeof(BlockMXFP4) == 17 && sizeof(BlockNVFP4) == 36 && sizeof(BlockIQ2_XXS) == 66);
static_assert(sizeof(BlockIQ2_XS) == 74 && sizeof(BlockIQ2_S) == 82 && sizeof(BlockIQ3_XXS) == 98);
static_assert(sizeof(BlockIQ3_S) == 110 && sizeof(BlockIQ1_S) == 50 && sizeof(BlockIQ1_M) == 56);
static_assert(sizeof(BlockTQ1_0) == 54 && sizeof(BlockTQ2_0) == 66);

/// The values of the 4-bit indices of IQ4_NL and IQ4_XS.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

/// Twice the values of the 4-bit floats (1 sign, 2 exponent and 1 fraction bit) of MXFP4 and NVFP4.
inline constexpr int8_t kFloat4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace hearth
