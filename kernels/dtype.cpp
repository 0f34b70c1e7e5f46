// The table of element types. Numbers and sizes are GGUF's (ggml's type ids and block layouts).
#include "kernels/dtype.h"

#include <array>
#include <cassert>

namespace hearth {
namespace {

constexpr std::array<DTypeInfo, kDTypeCount> kTypes = {{
    {"F32", 0, 1, 4},         {"F16", 1, 1, 2},         {"BF16", 30, 1, 2},       {"Q4_0", 2, 32, 18},
    {"Q4_1", 3, 32, 20},      {"Q5_0", 6, 32, 22},      {"Q5_1", 7, 32, 24},      {"Q8_0", 8, 32, 34},
    {"Q2_K", 10, 256, 84},    {"Q3_K", 11, 256, 110},   {"Q4_K", 12, 256, 144},   {"Q5_K", 13, 256, 176},
    {"Q6_K", 14, 256, 210},   {"IQ4_NL", 20, 32, 18},   {"IQ4_XS", 23, 256, 136}, {"MXFP4", 39, 32, 17},
    {"NVFP4", 40, 64, 36},    {"IQ2_XXS", 16, 256, 66}, {"IQ2_XS", 17, 256, 74},  {"IQ2_S", 22, 256, 82},
    {"IQ3_XXS", 18, 256, 98}, {"IQ3_S", 21, 256, 110},  {"IQ1_S", 19, 256, 50},   {"IQ1_M", 29, 256, 56},
    {"TQ1_0", 34, 256, 54},   {"TQ2_0", 35, 256, 66},
}};

}  // namespace

const DTypeInfo& dtype_info(DType type) {
  assert(static_cast<size_t>(type) < kTypes.size());
  return kTypes[static_cast<size_t>(type)];
}

std::optional<DType> dtype_from_gguf(uint32_t gguf_id) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].gguf_id == gguf_id) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace hearth
