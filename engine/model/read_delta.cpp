// Reads the keys of recurrent layers. See the header.
#include "engine/model/read_delta.h"

#include <algorithm>
#include <string>

namespace hearth {
namespace {

constexpr int kUsualInterval = 4;  // of files without the key, such as the first of Coder-Next

constexpr const char* kArray = "attention.recurrent_layers";
constexpr const char* kInterval = "full_attention_interval";

[[noreturn]] void refuse_all_recurrent(const SpecKeys& keys, int n_layers) {
  const std::string expected = "at least one of " + std::to_string(n_layers) + " layers to be full";
  if (keys.has(kArray)) keys.fail(kArray, "true for every layer", expected);
  const bool given = keys.has(kInterval);
  const int interval = keys.integer_or(kInterval, kUsualInterval, 1, SpecKeys::kMaxLayers);
  keys.fail(kInterval, given ? std::to_string(interval) : "absent, which means " + std::to_string(interval),
            expected);
}

/// Whether the file has a tensor that packs the rows of each key head's value heads together.
bool has_packed_heads(const ModelFile& file) {
  return std::ranges::any_of(file.tensors(), [](const TensorInfo& tensor) {
    return tensor.name.starts_with("blk.") &&
           (tensor.name.ends_with(".ssm_ba.weight") || tensor.name.ends_with(".ssm_in.weight"));
  });
}

bool read_tiled(const SpecKeys& keys, const Architecture& arch, const RecurrentShape& delta) {
  constexpr const char* kKey = "ssm.v_head_reordered";  // written by Ollama
  const bool packed = has_packed_heads(keys.file());
  // Ollama imports qwen3next, whose heads are grouped, under the name qwen35moe.
  const bool tiled = keys.truth_or(kKey, arch.tiled_values && !packed);
  if (tiled && packed && delta.n_k_heads != delta.n_v_heads) {
    keys.fail(kKey, "true",
              "false: tensors ssm_ba and ssm_in hold the value heads of each key head together");
  }
  return tiled;
}

}  // namespace

RecurrentShape read_state_heads(const SpecKeys& keys, int& state_size) {
  RecurrentShape shape;
  shape.n_taps = keys.integer("ssm.conv_kernel", RecurrentShape::kMinTaps, RecurrentShape::kMaxTaps);
  state_size = keys.integer("ssm.state_size", 1, SpecKeys::kMaxHeadDim);
  shape.n_k_heads = keys.integer("ssm.group_count", 1, SpecKeys::kMaxHeads);
  shape.n_v_heads = keys.integer("ssm.time_step_rank", 1, SpecKeys::kMaxHeads);
  if (shape.n_v_heads % shape.n_k_heads != 0) {
    keys.fail("ssm.time_step_rank", std::to_string(shape.n_v_heads),
              "a multiple of ssm.group_count, " + std::to_string(shape.n_k_heads));
  }
  return shape;
}

RecurrentShape read_delta(const SpecKeys& keys, const Architecture& arch) {
  int state_size = 0;
  RecurrentShape delta = read_state_heads(keys, state_size);
  delta.head_dim = state_size;
  const int inner_size = keys.integer("ssm.inner_size", 1, SpecKeys::kMaxWidth);
  if (inner_size != delta.value_dim()) {
    keys.fail("ssm.inner_size", std::to_string(inner_size),
              "ssm.time_step_rank times ssm.state_size, " + std::to_string(delta.value_dim()));
  }
  delta.tiled = read_tiled(keys, arch, delta);
  return delta;
}

RecurrentShape read_kda(const SpecKeys& keys, int n_heads) {
  constexpr const char* kHeadDim = "kda.head_dim";
  RecurrentShape shape;
  shape.n_taps = keys.integer("ssm.conv_kernel", RecurrentShape::kMinTaps, RecurrentShape::kMaxTaps);
  shape.head_dim = keys.integer(kHeadDim, 1, SpecKeys::kMaxHeadDim);
  shape.n_k_heads = shape.n_v_heads = n_heads;
  shape.row_decays = true;
  if (shape.value_dim() > SpecKeys::kMaxWidth) {
    keys.fail(
        kHeadDim, std::to_string(shape.head_dim),
        "at most " + std::to_string(SpecKeys::kMaxWidth) + " in all " + std::to_string(n_heads) + " heads");
  }
  return shape;
}

std::vector<bool> read_recurrent_layers(const SpecKeys& keys, int n_layers, int n_blocks) {
  std::vector<bool> recurrent;
  if (const auto given = keys.of_layers(kArray, n_blocks)) {
    for (int i = 0; i < n_layers; ++i) recurrent.push_back((*given)[static_cast<size_t>(i)] != 0);
  } else if (keys.has(kArray)) {
    recurrent.assign(static_cast<size_t>(n_layers), keys.truth_or(kArray, false));
  } else {
    const int interval = keys.integer_or(kInterval, kUsualInterval, 1, SpecKeys::kMaxLayers);
    for (int i = 0; i < n_layers; ++i) recurrent.push_back((i + 1) % interval != 0);
  }
  if (std::ranges::find(recurrent, false) == recurrent.end()) refuse_all_recurrent(keys, n_layers);
  return recurrent;
}

std::optional<int> read_kv_heads_of_layers(const SpecKeys& keys, const std::vector<bool>& recurrent,
                                           int n_heads, int n_blocks) {
  constexpr const char* kKey = "attention.head_count_kv";
  const auto heads = keys.of_layers(kKey, n_blocks);
  if (!heads) return std::nullopt;
  int64_t of_full = 0;
  for (size_t i = 0; i < recurrent.size(); ++i) {
    const int64_t n = (*heads)[i];
    const std::string found = std::to_string(n) + " in layer " + std::to_string(i);
    if (recurrent[i]) {
      if (n != 0) keys.fail(kKey, found, "0, because the layer keeps a state instead of keys and values");
      continue;
    }
    if (n < 1 || n > n_heads) keys.fail(kKey, found, "a number from 1 to " + std::to_string(n_heads));
    if (of_full != 0 && n != of_full)
      keys.fail(kKey, found, std::to_string(of_full) + " as in the layers before");
    of_full = n;
  }
  return static_cast<int>(of_full);
}

void check_rope_sections(const SpecKeys& keys, int n_rot) {
  constexpr const char* kKey = "rope.dimension_sections";
  constexpr size_t kMaxSections = 4;
  const std::optional<std::vector<int64_t>> sections = keys.integers(kKey);
  if (!sections) return;
  if (sections->empty() || sections->size() > kMaxSections) {
    keys.fail(kKey, "an array of " + std::to_string(sections->size()),
              "1 to " + std::to_string(kMaxSections) + " numbers");
  }
  const int64_t n_pairs = n_rot / 2;
  int64_t sum = 0;
  for (const int64_t section : *sections) {
    if (section < 0 || section > n_pairs) {
      keys.fail(kKey, "an array with " + std::to_string(section),
                "numbers from 0 to " + std::to_string(n_pairs));
    }
    sum += section;
  }
  if (sum > n_pairs) {
    keys.fail(kKey, "an array with a sum of " + std::to_string(sum),
              "at most the " + std::to_string(n_pairs) + " pairs of rope.dimension_count");
  }
}

}  // namespace hearth
