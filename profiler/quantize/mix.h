// Which type each tensor of a model gets when the model is quantised: named mixes, and the rules that read them.
//
// A mix is a row of the table in mix.cpp. Names, numbers and layers are llama.cpp's, so that a file called Q4_K_M is about as
// large and as good as users know it. Called by quantize_file.cpp and the quantize subcommand. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_file.h"
#include "kernels/dtype.h"

namespace hearth {

/// Layers whose attn_v and ffn_down are worth more bits.
enum class RichLayers : uint8_t {
  kNone,
  kFirstEighth,
  kEdgesAndThirds,  // the first and the last eighth, and every third layer between them
};

struct QuantMix {
  std::string_view name;
  uint32_t file_type;  // of the key general.file_type
  DType matrices;      // of all that the following do not name
  DType ffn;           // the FFN's, or its experts'
  DType output;        // output.weight, or the embedding that stands for it
  DType fused_qkv;     // attn_qkv.weight
  DType rich;          // attn_v and ffn_down of rich layers
  RichLayers layers;
};

std::span<const QuantMix> quant_mixes();

/// The mix of this name; "Q4_K" and "Q5_K" stand for Q4_K_M and Q5_K_M, letters may be small. Null: there is none.
const QuantMix* find_mix(std::string_view name);

struct TensorChoice {
  const TensorInfo* tensor = nullptr;
  DType type = DType::kF32;    // equal to the tensor's own: its bytes are copied
  DType wanted = DType::kF32;  // by the mix; another than `type` if rows are no whole blocks of it
};

/// The choice for each tensor, in the file's order. Not quantised: what is no matrix, norms, biases, routers, and positions.
/// A tensor that takes no more bits than its choice would is kept as it is.
std::vector<TensorChoice> choose_types(const ModelFile& model, const QuantMix& mix);

/// Whether the tensor's weights were quantised before.
bool is_quantised(DType type);

/// Bits a weight.
double bits_of(DType type);

}  // namespace hearth
