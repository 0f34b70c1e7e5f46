// Chooses the type of each tensor when a model is quantized: named mixes, and the rules that apply them.
//
// A mix is a row of the table in mix.cpp. Its name, its file type number and the layers that get more bits
// are the same as in llama.cpp, so that a file called Q4_K_M has about the size and the quality that users
// expect. Called by quantize_file.cpp and the quantize subcommand. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_file.h"
#include "kernels/dtype.h"

namespace hearth {

/// The layers in which attn_v and ffn_down get more bits.
enum class RichLayers : uint8_t {
  kNone,
  kFirstEighth,
  kEdgesAndThirds,  // the first and last eighth of the layers, and every third layer between
};

struct QuantMix {
  std::string_view name;
  uint32_t file_type;  // value of the key general.file_type
  DType matrices;      // all matrices that no other field covers
  DType ffn;           // matrices of the FFN or of its experts
  DType output;        // output.weight, or the embedding if the output is tied to it
  DType fused_qkv;     // attn_qkv.weight
  DType rich;          // attn_v and ffn_down of rich layers
  RichLayers layers;
};

std::span<const QuantMix> quant_mixes();

/// Returns the mix with this name in upper or lower case, or null if there is none. "Q4_K" and "Q5_K" mean
/// Q4_K_M and Q5_K_M.
const QuantMix* find_mix(std::string_view name);

struct TensorChoice {
  const TensorInfo* tensor = nullptr;
  DType type = DType::kF32;    // the new type; if it equals the tensor's type, the bytes are copied
  DType wanted = DType::kF32;  // the mix's type; differs from `type` if rows are not whole blocks of it
};

/// Returns the choice for each tensor, in the file's order. Only matrices are quantized, except those of
/// norms, routers and positions. A tensor keeps its type if the mix's type would not take fewer bits.
std::vector<TensorChoice> choose_types(const ModelFile& model, const QuantMix& mix);

/// Returns whether tensors of this type are quantized.
bool is_quantized(DType type);

/// Bits per weight.
double bits_of(DType type);

}  // namespace hearth
