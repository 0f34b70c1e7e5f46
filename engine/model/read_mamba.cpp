// See the header.
#include "engine/model/read_mamba.h"

#include <algorithm>
#include <string>

#include "engine/model/read_delta.h"

namespace hearth {
namespace {

constexpr const char* kHeadsOfLayers = "attention.head_count_kv";
constexpr const char* kWidthsOfLayers = "feed_forward_length";

/// Reads an array with a number for each of n_blocks layers.
std::vector<int64_t> numbers_of_layers(const SpecKeys& keys, const char* key, int n_blocks) {
  const auto numbers = keys.of_layers(key, n_blocks);
  if (!numbers)
    keys.fail(key, keys.has(key) ? "not an array" : "absent", "an array with a number for each layer");
  return *numbers;
}

std::string number_in_layer(int64_t number, int layer) {
  return std::to_string(number) + " in layer " + std::to_string(layer);
}

/// Takes a layer's number into `of_all`, which all layers that have the number share.
void share_number(const SpecKeys& keys, const char* key, int64_t number, int layer, int64_t most,
                  int& of_all) {
  if (number > most) keys.fail(key, number_in_layer(number, layer), "at most " + std::to_string(most));
  if (of_all != 0 && number != of_all)
    keys.fail(key, number_in_layer(number, layer), std::to_string(of_all) + " as in the layers before");
  of_all = static_cast<int>(number);
}

}  // namespace

RecurrentShape read_mamba(const SpecKeys& keys) {
  int state_size = 0;
  RecurrentShape shape = read_state_heads(keys, state_size);
  shape.kind = RecurrentKind::kMamba2;
  shape.key_rows = state_size;
  const int inner_size = keys.integer("ssm.inner_size", 1, SpecKeys::kMaxWidth);
  if (inner_size % shape.n_v_heads != 0) {
    keys.fail("ssm.inner_size", std::to_string(inner_size),
              "a multiple of ssm.time_step_rank, " + std::to_string(shape.n_v_heads));
  }
  shape.head_dim = inner_size / shape.n_v_heads;
  if (2 * shape.key_dim() > SpecKeys::kMaxWidth) {
    keys.fail("ssm.state_size", std::to_string(shape.key_rows),
              "at most " + std::to_string(SpecKeys::kMaxWidth / 2) + " in all " +
                  std::to_string(shape.n_k_heads) + " groups");
  }
  return shape;
}

LayerKinds read_layer_kinds(const SpecKeys& keys, const Architecture& arch, int n_heads, bool experts,
                            int n_layers, int n_blocks) {
  constexpr const char* kLatent = "moe_latent_size";
  const int latent = arch.mixture.latent ? 0 : keys.integer_or(kLatent, 0, 0, SpecKeys::kMaxWidth);
  if (latent > 0)
    keys.refuse(kLatent, std::to_string(latent), "experts read the model's own vectors, not shorter ones");
  const std::vector<int64_t> kv_heads = numbers_of_layers(keys, kHeadsOfLayers, n_blocks);
  std::vector<int64_t> widths;
  if (arch.one_block) widths = numbers_of_layers(keys, kWidthsOfLayers, n_blocks);
  LayerKinds kinds;
  for (int i = 0; i < n_layers; ++i) {
    const int64_t n_kv = kv_heads[static_cast<size_t>(i)];
    const int64_t width = arch.one_block ? widths[static_cast<size_t>(i)] : 0;
    if (n_kv < 0) keys.fail(kHeadsOfLayers, number_in_layer(n_kv, i), "0 or more");
    if (width < 0) keys.fail(kWidthsOfLayers, number_in_layer(width, i), "0 or more");
    if (n_kv > 0 && width > 0)
      keys.fail(kWidthsOfLayers, number_in_layer(width, i),
                "0, because the layer has attention and nothing else");
    if (n_kv > 0) share_number(keys, kHeadsOfLayers, n_kv, i, n_heads, kinds.n_kv_heads);
    if (width > 0 && !experts) share_number(keys, kWidthsOfLayers, width, i, SpecKeys::kMaxWidth, kinds.d_ff);
    kinds.recurrent.push_back(n_kv == 0 && width == 0);
    kinds.mixes.push_back(width == 0);
    kinds.has_ffn.push_back(!arch.one_block || width > 0);
  }
  if (kinds.n_kv_heads == 0) {
    keys.fail(kHeadsOfLayers, "0 for every layer",
              "at least one of " + std::to_string(n_layers) + " layers to have attention");
  }
  if (std::ranges::find(kinds.has_ffn, true) == kinds.has_ffn.end()) {
    keys.fail(kWidthsOfLayers, "0 for every layer",
              "at least one of " + std::to_string(n_layers) + " layers to have an FFN");
  }
  return kinds;
}

}  // namespace hearth
