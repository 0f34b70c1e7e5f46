// Contains the table of mixes, and the rules that apply it.
#include "profiler/quantize/mix.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

namespace hearth {
namespace {

constexpr DType kF16 = DType::kF16, kQ4_0 = DType::kQ4_0, kQ4_1 = DType::kQ4_1, kQ5_0 = DType::kQ5_0,
                kQ5_1 = DType::kQ5_1, kQ8_0 = DType::kQ8_0, kQ4_K = DType::kQ4_K, kQ5_K = DType::kQ5_K,
                kQ6_K = DType::kQ6_K, kMXFP4 = DType::kMXFP4;
constexpr RichLayers kNone = RichLayers::kNone, kFirst = RichLayers::kFirstEighth,
                     kEdges = RichLayers::kEdgesAndThirds;

// In the MXFP4 mix, as in published models, only experts have the type MXFP4, because this type is too coarse
// for attention.
constexpr std::array<QuantMix, 11> kMixes = {{
    //  name  file type  matrices  ffn   output  qkv    rich   layers
    {"Q8_0", 7, kQ8_0, kQ8_0, kQ8_0, kQ8_0, kQ8_0, kNone},
    {"Q6_K", 18, kQ6_K, kQ6_K, kQ6_K, kQ6_K, kQ6_K, kNone},
    {"Q5_K_M", 17, kQ5_K, kQ5_K, kQ6_K, kQ6_K, kQ6_K, kEdges},
    {"Q5_K_S", 16, kQ5_K, kQ5_K, kQ6_K, kQ5_K, kQ5_K, kNone},
    {"Q4_K_M", 15, kQ4_K, kQ4_K, kQ6_K, kQ5_K, kQ6_K, kEdges},
    {"Q4_K_S", 14, kQ4_K, kQ4_K, kQ6_K, kQ4_K, kQ5_K, kFirst},
    {"Q5_1", 9, kQ5_1, kQ5_1, kQ6_K, kQ5_1, kQ5_1, kNone},
    {"Q5_0", 8, kQ5_0, kQ5_0, kQ6_K, kQ5_0, kQ5_0, kNone},
    {"Q4_1", 3, kQ4_1, kQ4_1, kQ6_K, kQ4_1, kQ4_1, kNone},
    {"Q4_0", 2, kQ4_0, kQ4_0, kQ6_K, kQ4_0, kQ4_0, kNone},
    {"MXFP4", 38, kQ8_0, kMXFP4, kQ8_0, kQ8_0, kQ8_0, kNone},
}};

/// Returns the type that replaces a `type` with blocks of 256 weights if rows are not whole blocks. The
/// returned type has blocks of 32 weights, and at least as many bits per weight as `type`. Returns other
/// types unchanged.
DType of_32(DType type) {
  switch (type) {
    case DType::kQ4_K:
      return kQ5_0;
    case DType::kQ5_K:
      return kQ5_1;
    case DType::kQ6_K:
      return kQ8_0;
    default:
      return type;
  }
}

DType fitting(DType type, int64_t n_cols) {
  if (n_cols % dtype_info(type).block_elems != 0) type = of_32(type);
  return n_cols % dtype_info(type).block_elems == 0 ? type : kF16;
}

/// Parts of the names of tensors that are not quantized: norms, routers, positions and token types. All of
/// these are small, and a router decides which experts are computed.
constexpr std::string_view kKept[] = {"_norm", "ffn_gate_inp", "position_embd", "token_types", "rel_b"};

bool is_kept(const TensorInfo& tensor) {
  // The names of all matrices end in ".weight", including PowerInfer's transposed down projections. The names
  // of biases do not.
  if (tensor.n_dims < 2 || !tensor.name.ends_with(".weight")) return true;
  return std::ranges::any_of(
      kKept, [&](std::string_view part) { return tensor.name.find(part) != tensor.name.npos; });
}

/// Returns N if the name begins with "blk.N.", otherwise nullopt.
std::optional<int64_t> layer_of(std::string_view name) {
  constexpr std::string_view kBlock = "blk.";
  if (!name.starts_with(kBlock)) return std::nullopt;
  int64_t layer = -1;
  std::from_chars(name.data() + kBlock.size(), name.data() + name.size(), layer);
  return layer < 0 ? std::nullopt : std::optional(layer);
}

bool is_rich(RichLayers layers, int64_t layer, int64_t n_layers) {
  const int64_t eighth = n_layers / 8;
  switch (layers) {
    case RichLayers::kFirstEighth:
      return layer < eighth;
    case RichLayers::kEdgesAndThirds:
      return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
    default:
      return false;
  }
}

struct ModelFacts {
  int64_t n_layers = 0;
  bool has_experts = false, has_output = false;
};

ModelFacts facts_of(const ModelFile& model) {
  ModelFacts facts;
  facts.has_output = model.find_tensor("output.weight") != nullptr;
  for (const TensorInfo& tensor : model.tensors()) {
    facts.n_layers = std::max(facts.n_layers, layer_of(tensor.name).value_or(-1) + 1);
    facts.has_experts = facts.has_experts || tensor.name.find("_exps.") != tensor.name.npos;
  }
  return facts;
}

/// Returns the mix's type for a matrix.
DType wanted_type(const QuantMix& mix, const ModelFacts& facts, std::string_view name) {
  const auto is = [name](std::string_view part) { return name.find(part) != name.npos; };
  if (name == "output.weight" || (!facts.has_output && name == "token_embd.weight")) return mix.output;
  // Predictors decide which neurons are computed, and are only about a tenth of a model.
  if (is(".fc1.") || is(".fc2.")) return kQ8_0;
  // In a mixture, attention is small compared with the experts, and every token uses it.
  const bool keys_or_values = is("attn_k.") || is("attn_v.");
  if (facts.has_experts && keys_or_values && mix.layers != kNone) return kQ8_0;
  if (is("attn_qkv.")) return mix.fused_qkv;
  const std::optional<int64_t> layer = layer_of(name);
  const bool rich = layer && is_rich(mix.layers, *layer, facts.n_layers);
  if (rich && (is("attn_v.") || is("ffn_down"))) return mix.rich;
  const bool shared_expert = is("_shexp.");  // read for every token, like attention
  return is("ffn_") && !shared_expert ? mix.ffn : mix.matrices;
}

}  // namespace

std::span<const QuantMix> quant_mixes() { return kMixes; }

const QuantMix* find_mix(std::string_view name) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (upper == "Q4_K" || upper == "Q5_K") upper += "_M";
  const auto found = std::ranges::find_if(kMixes, [&](const QuantMix& mix) { return mix.name == upper; });
  return found == kMixes.end() ? nullptr : &*found;
}

bool is_quantized(DType type) { return dtype_info(type).block_elems > 1; }

double bits_of(DType type) {
  const DTypeInfo& info = dtype_info(type);
  return 8.0 * info.block_bytes / info.block_elems;
}

std::vector<TensorChoice> choose_types(const ModelFile& model, const QuantMix& mix) {
  const ModelFacts facts = facts_of(model);
  std::vector<TensorChoice> choices;
  for (const TensorInfo& tensor : model.tensors()) {
    TensorChoice choice{&tensor, tensor.dtype, tensor.dtype};
    if (!is_kept(tensor)) {
      const DType wanted = wanted_type(mix, facts, tensor.name);
      const DType type = fitting(wanted, tensor.shape[0]);
      if (bits_of(type) < bits_of(tensor.dtype)) choice = {&tensor, type, wanted};
    }
    choices.push_back(choice);
  }
  return choices;
}

}  // namespace hearth
