// The device memory in which the backend's operations work, sized for the largest step.
//
// DeviceWork::reserve() takes it from the arena. scratch_bytes() runs the same constructor to count the
// bytes. Owned by DeviceWork.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/ops/recurrent_ops.h"
#include "kernels/cuda/runtime/arena.h"
#include "kernels/cuda/runtime/expert_scratch.h"
#include "kernels/cuda/runtime/library_scratch.h"
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
    kept_floats =
        (bounds.max_tokens < kKeptTokens ? bounds.max_tokens : kKeptTokens) * (bounds.max_cols / 32 * 32);
    for (std::byte*& place : kept_inputs) place = arena.take<std::byte>(quantized_bytes(1, kept_floats));
    const size_t attention_bytes = attention_scratch_bytes(bounds.max_tokens, bounds.n_heads,
                                                           static_cast<int>(head_dim), bounds.max_context);
    attention = arena.take<std::byte>(attention_bytes);
    if (attention_bytes > 0) attention_counters = attention_counter_bytes(bounds.n_heads);
    for (float** array : {&gates, &ups, &values}) *array = arena.take<float>(rows * cols);
    n_sums = rows * sum_cols;
    sums = {arena.take<int64_t>(n_sums), arena.take<int32_t>(rows)};
    passed_ids = arena.take<int32_t>(cols);
    const auto n_sets = static_cast<size_t>(bounds.n_sets);
    int32_t* list_counts = arena.take<int32_t>(n_sets + 2 + kNoteWords);
    passed_count = list_counts + n_sets;
    note_state = reinterpret_cast<uint32_t*>(list_counts + n_sets + 2);
    counts = arena.take<DeviceCounts>(1);
    keep = arena.take<std::byte>(keep_scratch_bytes(bounds.max_cols));
    const auto take_set = [&](int32_t* count) {
      uint64_t *wanted = arena.take<uint64_t>(words), *any_bits = arena.take<uint64_t>(words_of_token);
      return DeviceNeuronSet{
          .wanted = wanted, .any_bits = any_bits, .any = {.ids = arena.take<int32_t>(cols), .n = count}};
    };
    for (size_t i = 0; i < n_sets; ++i) sets.push_back(take_set(list_counts + i));
    if (bounds.library_rows > 0) {
      const auto packed = static_cast<size_t>(LibraryScratch::packed_tokens(bounds.max_tokens));
      library.tokens = arena.take<float>(packed * cols);
      library.unscale = arena.take<float>(packed);
      library.max_cols = bounds.max_cols;
      library.max_rows = products_stride(std::min(bounds.library_rows, kLibraryRows));
      library.products = arena.take<float>(size_t{kLibraryTokens} * static_cast<size_t>(library.max_rows));
      if (bounds.library_decodes) {
        constexpr auto kMost = static_cast<int64_t>(kLibraryWeightsBytes / sizeof(uint16_t));
        library.max_weights = std::min(bounds.library_rows * bounds.max_cols, kMost);
        library.weights = arena.take<uint16_t>(static_cast<size_t>(library.max_weights));
      }
    }
    if (bounds.stream_bytes > 0) {
      for (std::byte*& buffer : streamed) buffer = arena.take<std::byte>(bounds.stream_bytes);
    }
    if (const size_t kv = bounds.stream_kv_bytes; kv > 0)
      streamed_kv = {arena.take<std::byte>(kv), arena.take<std::byte>(kv)};
    if (bounds.recurrent.state_floats() > 0) {
      n_delta_counters = rows * kDeltaCounters;
      delta_counters = arena.take<uint32_t>(n_delta_counters);
    }
    if (bounds.n_experts > 0) exchange = arena.take<uint32_t>(HandOver::kStateWords);
    if (bounds.max_expert_tokens > 0) experts = ExpertScratch(arena, bounds);
    if (!bounds.shares) return;
    hot = take_set(list_counts + n_sets + 1);
    hand_over = arena.take<uint32_t>(HandOver::kStateWords);
    for (uint32_t*& state : hand_over_proposals) state = arena.take<uint32_t>(HandOver::kStateWords);
    if (bounds.stream_bytes == 0) return;
    cold_wanted = arena.take<uint64_t>(words);
    any = arena.take<uint64_t>(2 * words_of_token);
  }

  int32_t* inputs = nullptr;
  size_t rope_floats = 0;  // floats per table
  float* rope_tables[RopeTables::kTables] = {};
  // The memory of small arrays in QuantizedInputs. A decode step needs at most three arrays at a time: the
  // layer's input, the residual stream, and the input of the current product if that is neither of the two.
  static constexpr size_t kKeptInputs = 3;
  static constexpr int kKeptTokens = 8;
  int64_t kept_floats = 0;  // floats of each small array
  std::byte* kept_inputs[kKeptInputs] = {};
  size_t attention_counters = 0;  // number of bytes at `attention` that are 0 between calls
  std::byte *quantized = nullptr, *attention = nullptr, *keep = nullptr;
  float *gates = nullptr, *ups = nullptr, *values = nullptr;  // [max_tokens, max_cols]
  NeuronSums sums;    // the layer's sums over all neurons; zero between layers
  size_t n_sums = 0;  // number of sums, for max_tokens
  int32_t *passed_ids = nullptr, *passed_count = nullptr;
  static constexpr size_t kNoteWords = 2;
  uint32_t* note_state = nullptr;  // NeuronNotes::state
  DeviceCounts* counts = nullptr;
  std::vector<DeviceNeuronSet> sets;  // [n_sets] for Backend::make_set()

  uint32_t* delta_counters = nullptr;  // of gated_delta(); null without states
  size_t n_delta_counters = 0;

  uint32_t* exchange = nullptr;  // HandOver::state of ActivationExchange; null without experts

  ExpertScratch experts;  // null pointers if the device holds none

  LibraryScratch library;  // null pointers if no library is used

  // For layers whose neurons the device and the CPU share.
  DeviceNeuronSet hot;                                          // neurons that have a device row
  uint32_t *hand_over = nullptr, *hand_over_proposals[2] = {};  // HandOver::state
  // SplitSet::cold and SplitSet::any, if cold neurons are streamed.
  uint64_t *cold_wanted = nullptr, *any = nullptr;
  // For streaming: buffers for cold neurons or for the weights of layers in host memory, and the KV blocks of
  // such a layer.
  std::byte* streamed[2] = {};
  KvLayer streamed_kv;
};

}  // namespace hearth::cuda
