// See the header.
#include "engine/model/read_layer_heads.h"

#include <string>

namespace hearth {
namespace {

constexpr const char* kQueries = "attention.head_count";
constexpr const char* kKeys = "attention.head_count_kv";

/// Returns the numbers of the first n_layers layers.
std::vector<int> numbers_of(const SpecKeys& keys, const char* key, int n_layers, int n_blocks) {
  const auto n = static_cast<size_t>(n_layers);
  const auto given = keys.of_layers(key, n_blocks);
  if (!given) return std::vector<int>(n, keys.integer(key, 1, SpecKeys::kMaxHeads));
  std::vector<int> numbers;
  for (size_t i = 0; i < n; ++i) {
    const int64_t one = (*given)[i];
    if (one < 1 || one > SpecKeys::kMaxHeads) {
      keys.fail(key, std::to_string(one) + " in layer " + std::to_string(i),
                "a number from 1 to " + std::to_string(SpecKeys::kMaxHeads));
    }
    numbers.push_back(static_cast<int>(one));
  }
  return numbers;
}

}  // namespace

LayerHeads read_layer_heads(const SpecKeys& keys, int n_layers, int n_blocks) {
  LayerHeads heads{.queries = numbers_of(keys, kQueries, n_layers, n_blocks), .keys = {}};
  heads.keys = keys.has(kKeys) ? numbers_of(keys, kKeys, n_layers, n_blocks) : heads.queries;
  for (size_t i = 0; i < heads.queries.size(); ++i) {
    if (heads.queries[i] % heads.keys[i] == 0) continue;
    keys.fail(kKeys, std::to_string(heads.keys[i]) + " in layer " + std::to_string(i),
              "a divisor of the layer's heads of queries, " + std::to_string(heads.queries[i]));
  }
  return heads;
}

void set_layer_heads(const LayerHeads& heads, ModelSpec& spec) {
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    spec.layers[i].n_heads = heads.queries[i];
    spec.layers[i].n_kv_heads = heads.keys[i];
  }
}

}  // namespace hearth
