// The block layouts of the quantised tensor types, byte for byte as GGUF files hold them.
//
// Why: dequantisation and every matmul kernel read weights in place from the mapped file, so these structs
// are the one description of those bytes. A block is kElems weights. It is cut into groups of kGroup weights
// that share one scale (and one min, if kHasMin): weight = scale * q + min, q an integer. Halves are IEEE 754
// binary16, everything is little-endian. Blocks lie at any address (18-byte strides), so they are copied out,
// never dereferenced in place. Layouts: the ggml project's block formats.
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
  uint8_t scales[16];  // per group: low nibble times d is the scale, high nibble times dmin is subtracted
  uint8_t qs[64];      // 2 bits; weight 128h + 32j + i is bits 2j of qs[32h + i]
  uint16_t d, dmin;
};

struct BlockQ3_K {
  static constexpr int kElems = 256, kGroup = 16, kOffset = 4, kLargest = 7;
  static constexpr bool kHasMin = false;
  uint8_t hmask[32];   // bit k of hmask[i]: third bit of weight 32k + i
  uint8_t qs[64];      // low 2 bits, as in Q2_K
  uint8_t scales[12];  // 16 values of 6 bits, less 32: low nibbles in bytes 0..7, high pairs in bytes 8..11
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
  uint8_t scales_l[4];  // nibble k: low 4 bits of scale k; the scale is less 32
  uint8_t qs[128];      // group k: nibbles of qs[16k..16k+15] as in Q4_0
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ2_K) == 84);
static_assert(sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210 && sizeof(BlockIQ4_NL) == 18 && sizeof(BlockIQ4_XS) == 136);

/// The values that the 4-bit indices of IQ4_NL and IQ4_XS stand for.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace hearth
