// Device memory that the backend's operations work in, sized for the largest step.
//
// DeviceWork::reserve() takes it from the arena. scratch_bytes() runs the same constructor to count the
// bytes. Owned by DeviceWork.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/arena.h"
#include "kernels/cuda/runtime/step_inputs.h"

namespace hearth::cuda {

struct Scratch {
  Scratch() = default;
  Scratch(Arena& arena, const StepBounds& bounds) {
    const auto rows = static_cast<size_t>(bounds.max_tokens), cols = static_cast<size_t>(bounds.max_cols);
    const auto heads = static_cast<size_t>(bounds.n_heads);
    const size_t head_dim = bounds.head_dim > 0 ? static_cast<size_t>(bounds.head_dim) : cols / heads;
    const size_t sum_cols = bounds.d_model > 0 ? static_cast<size_t>(bounds.d_model) : cols;
    const size_t words_of_token = (cols + 63) / 64, words = rows * words_of_token;
    inputs = arena.take<int32_t>(StepInputs::size(bounds));
    rope_floats = rows * 2 * head_dim;
    for (float*& table : rope_tables) table = arena.take<float>(rope_floats);
    quantized = arena.take<std::byte>(quantized_bytes(bounds.max_tokens, bounds.max_cols / 32 * 32));
    attention = arena.take<std::byte>(attention_scratch_bytes(
        bounds.max_tokens, bounds.n_heads, static_cast<int>(head_dim), bounds.max_context));
    for (float** array : {&gates, &ups, &values}) *array = arena.take<float>(rows * cols);
    sums = {arena.take<int64_t>(rows * sum_cols), arena.take<int32_t>(rows)};
    passed_ids = arena.take<int32_t>(cols);
    const auto n_sets = static_cast<size_t>(bounds.n_sets);
    int32_t* list_counts = arena.take<int32_t>(n_sets + 2 + kNoteWords);
    passed_count = list_counts + n_sets;
    note_state = reinterpret_cast<uint32_t*>(list_counts + n_sets + 2);
    counts = arena.take<DeviceCounts>(1);
    select = arena.take<std::byte>(select_scratch_bytes(bounds.max_cols));
    const auto take_set = [&](int32_t* count) {
      uint64_t* wanted = arena.take<uint64_t>(words);
      return DeviceNeuronSet{.wanted = wanted, .any = {.ids = arena.take<int32_t>(cols), .n = count}};
    };
    for (size_t i = 0; i < n_sets; ++i) sets.push_back(take_set(list_counts + i));
    if (bounds.stream_bytes > 0) {
      for (std::byte*& buffer : streamed) buffer = arena.take<std::byte>(bounds.stream_bytes);
    }
    const size_t kv_halves = bounds.stream_kv_bytes / sizeof(uint16_t);
    if (kv_halves > 0) streamed_kv = {arena.take<uint16_t>(kv_halves), arena.take<uint16_t>(kv_halves)};
    if (!bounds.shares) return;
    hot = take_set(list_counts + n_sets + 1);
    cold_wanted = arena.take<uint64_t>(words);
    any = arena.take<uint64_t>(3 * words_of_token);
    hand_over = arena.take<uint32_t>(kHandOverWords);
  }

  int32_t* inputs = nullptr;
  size_t rope_floats = 0;  // of a table
  float* rope_tables[RopeTables::kTables] = {};
  std::byte *quantized = nullptr, *attention = nullptr, *select = nullptr;
  float *gates = nullptr, *ups = nullptr, *values = nullptr;  // [max_tokens, max_cols]
  NeuronSums sums;                                            // of the layer, summed over all neurons
  int32_t *passed_ids = nullptr, *passed_count = nullptr;
  static constexpr size_t kNoteWords = 2;
  uint32_t* note_state = nullptr;  // NeuronNotes::state
  DeviceCounts* counts = nullptr;
  std::vector<DeviceNeuronSet> sets;  // [n_sets] for Backend::make_set()

  // For hybrid layers: the two parts of the wanted set.
  DeviceNeuronSet hot;              // neurons that have a device row
  uint64_t* cold_wanted = nullptr;  // [max_tokens, words] bits of the cold neurons
  // [3, words] bits of neurons: all that any token wants; the cold ones among them; those that the next
  // hybrid layer will probably want (HybridCall::wanted_next)
  uint64_t* any = nullptr;
  static constexpr size_t kHandOverWords = 2;
  uint32_t* hand_over = nullptr;  // HandOver::state
  // For streaming: buffers for cold neurons and for the weights of layers in host memory; such a layer's KV blocks.
  std::byte* streamed[2] = {};
  KvLayer streamed_kv;
};

}  // namespace hearth::cuda
