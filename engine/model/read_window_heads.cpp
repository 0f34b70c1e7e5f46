// See the header.
#include "engine/model/read_window_heads.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/model/ffn_activation.h"

namespace hearth {
namespace {

constexpr const char* kKvHeads = "attention.head_count_kv";
constexpr const char* kWidth = "feed_forward_length";
constexpr const char* kPattern = "attention.sliding_window_pattern";
constexpr const char* kShared = "attention.shared_kv_layers";
constexpr const char* kKeyLength = "attention.key_length_swa";
constexpr const char* kValueLength = "attention.value_length_swa";

/// Returns the first n_layers numbers of an array. Refuses the file if one is not `valid`.
template <class Valid>
std::vector<int> checked(const SpecKeys& keys, const char* key, const std::vector<int64_t>& given,
                         size_t n_layers, const Valid& valid, const std::string& expected) {
  std::vector<int> numbers;
  for (size_t i = 0; i < n_layers; ++i) {
    if (!valid(given[i]))
      keys.fail(key, std::to_string(given[i]) + " in layer " + std::to_string(i), expected);
    numbers.push_back(static_cast<int>(given[i]));
  }
  return numbers;
}

/// Returns each layer's number of key and value heads.
std::vector<int> kv_heads(const SpecKeys& keys, const ModelSpec& spec, int n_blocks) {
  const auto n_layers = static_cast<size_t>(spec.n_layers);
  const auto given = keys.of_layers(kKvHeads, n_blocks);
  if (!given) return std::vector<int>(n_layers, keys.integer_or(kKvHeads, spec.n_heads, 1, spec.n_heads));
  const auto divides = [&](int64_t n) { return n >= 1 && n <= spec.n_heads && spec.n_heads % n == 0; };
  return checked(keys, kKvHeads, *given, n_layers, divides,
                 "a divisor of head_count, " + std::to_string(spec.n_heads));
}

std::vector<int> ffn_widths(const SpecKeys& keys, const ModelSpec& spec, int n_blocks) {
  const auto n_layers = static_cast<size_t>(spec.n_layers);
  const auto given = keys.of_layers(kWidth, n_blocks);
  if (!given) return std::vector<int>(n_layers, keys.integer(kWidth, 1, SpecKeys::kMaxWidth));
  const auto possible = [](int64_t n) { return n >= 1 && n <= SpecKeys::kMaxWidth; };
  return checked(keys, kWidth, *given, n_layers, possible,
                 "a number from 1 to " + std::to_string(SpecKeys::kMaxWidth));
}

/// Returns the last of the first n_own layers that sees as many positions as `layer`.
int source_of(const SpecKeys& keys, const ModelSpec& spec, int layer, int n_own) {
  const bool windowed = spec.layer(layer).window > 0;
  int source = n_own - 1;
  while (source >= 0 && (spec.layer(source).window > 0) != windowed) --source;
  const std::string count = std::to_string(spec.n_layers - n_own);
  if (source < 0) {
    keys.fail(kShared, count,
              "a number that leaves layer " + std::to_string(layer) + ", which has " +
                  (windowed ? "a window" : "no window") + ", an earlier layer of its kind with keys");
  }
  if (spec.kv_heads_of(source) != spec.kv_heads_of(layer)) {
    keys.fail(kKvHeads, std::to_string(spec.kv_heads_of(layer)) + " in layer " + std::to_string(layer),
              std::to_string(spec.kv_heads_of(source)) + " as in layer " + std::to_string(source) +
                  ", whose keys it reads");
  }
  return source;
}

}  // namespace

int read_most_kv_heads(const SpecKeys& keys, const ModelSpec& spec, int n_blocks) {
  return std::ranges::max(kv_heads(keys, spec, n_blocks));
}

int read_window_head_dim(const SpecKeys& keys, int n_heads) {
  const int head_dim = keys.integer(kKeyLength, 2, SpecKeys::kMaxHeadDim);
  if (head_dim % 2 != 0) keys.fail(kKeyLength, std::to_string(head_dim), "an even number");
  const int values = keys.integer_or(kValueLength, head_dim, 1, SpecKeys::kMaxHeadDim);
  if (values != head_dim) {
    keys.fail(kValueLength, std::to_string(values), "the length of a key, " + std::to_string(head_dim));
  }
  if (int64_t{n_heads} * head_dim > SpecKeys::kMaxWidth) {
    keys.fail(
        kKeyLength, std::to_string(head_dim),
        "at most " + std::to_string(SpecKeys::kMaxWidth) + " in all " + std::to_string(n_heads) + " heads");
  }
  return head_dim;
}

int read_widest_ffn(const SpecKeys& keys, const ModelSpec& spec, int n_blocks) {
  return std::ranges::max(ffn_widths(keys, spec, n_blocks));
}

void read_window_heads(const SpecKeys& keys, int n_blocks, ModelSpec& spec) {
  if (!keys.of_layers(kPattern, n_blocks)) {
    keys.fail(kPattern, keys.has(kPattern) ? "not an array" : "absent",
              "for each layer whether it has a window");
  }
  keys.integer("attention.sliding_window", 1, SpecKeys::kMaxContext);
  const std::vector<int> heads = kv_heads(keys, spec, n_blocks);
  const std::vector<int> widths = ffn_widths(keys, spec, n_blocks);
  const int head_dim = read_window_head_dim(keys, spec.n_heads);
  for (int i = 0; i < spec.n_layers; ++i) {
    LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    layer.n_kv_heads = heads[static_cast<size_t>(i)];
    if (layer.window > 0) layer.head_dim = head_dim;
    if (widths[static_cast<size_t>(i)] != spec.d_ff) layer.d_ff = widths[static_cast<size_t>(i)];
  }
  if (!spec.has_equal_ffns() && spec.activation.has_zeros()) {
    keys.refuse(
        kWidth, "not the same for all layers",
        "skipping zeros of the activation " + ffn_activation_name(spec.activation) + " takes equal FFNs");
  }
  read_shared_kv(keys, spec);
}

void read_shared_kv(const SpecKeys& keys, ModelSpec& spec) {
  if (spec.arch.assists) {
    for (int i = 0; i < spec.n_layers; ++i) spec.layers[static_cast<size_t>(i)].kv_source = i;
    return;
  }
  const int n_own = spec.n_layers - keys.integer_or(kShared, 0, 0, spec.n_layers - 1);
  for (int i = n_own; i < spec.n_layers; ++i) {
    spec.layers[static_cast<size_t>(i)].kv_source = source_of(keys, spec, i, n_own);
  }
}

}  // namespace hearth
