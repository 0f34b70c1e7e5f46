// Chooses the type of each tensor when a model is quantized: named mixes, and the rules that apply them.
//
// A mix is a row of the table in mix.cpp. Names, numbers and layers are llama.cpp's, so that a file called
// Q4_K_M has about the size and the quality that users expect. Called by quantize_file.cpp and the quantize
// subcommand. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_file.h"
#include "kernels/dtype.h"

namespace hearth {

/// Layers in which attn_v and ffn_down get more bits.
enum class RichLayers : uint8_t {
  kNone,
  kFirstEighth,
  kEdgesAndThirds,  // the first and the last eighth, and every third layer between them
};

struct QuantMix {
  std::string_view name;
  uint32_t file_type;  // value of the key general.file_type
  DType matrices;      // all matrices that the following fields do not name
  DType ffn;           // the FFN's, or its experts'
  DType output;        // output.weight, or the embedding if it is used as output
  DType fused_qkv;     // attn_qkv.weight
  DType rich;          // attn_v and ffn_down of rich layers
  RichLayers layers;
};

std::span<const QuantMix> quant_mixes();

/// The mix with this name in upper or lower case, or null if there is none. "Q4_K" and "Q5_K" mean Q4_K_M and
/// Q5_K_M.
const QuantMix* find_mix(std::string_view name);

struct TensorChoice {
  const TensorInfo* tensor = nullptr;
  DType type = DType::kF32;    // equal to the tensor's own: its bytes are copied
  DType wanted = DType::kF32;  // the mix's type; differs from `type` if rows are not whole blocks of it
};

/// The choice for each tensor, in the file's order. Tensors that are not matrices, norms, biases, routers and
/// positions are not quantized. A tensor that takes no more bits than its choice would is kept unchanged.
std::vector<TensorChoice> choose_types(const ModelFile& model, const QuantMix& mix);

/// Whether a tensor of this type is already quantized.
bool is_quantized(DType type);

/// Bits per weight.
double bits_of(DType type);

}  // namespace hearth
