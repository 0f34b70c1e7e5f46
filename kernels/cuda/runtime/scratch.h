// Device memory that the backend's operations work in, sized for the largest step.
//
// Cut from the arena by reserve(), and counted by the same constructor (scratch_bytes). Owned by CudaBackend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/arena.h"
#include "kernels/cuda/runtime/step_inputs.h"

namespace hearth::cuda {

/// The device's side of a NeuronSet.
struct Set {
  Set() = default;
  Set(Arena& arena, size_t words, size_t max_neurons, int32_t* count)
      : wanted(arena.take<uint64_t>(words)), ids(arena.take<int32_t>(max_neurons)), n(count) {}
  DeviceNeuronSet view() const { return {wanted, {ids, n, n_neurons}, n_tokens, n_neurons}; }

  const NeuronSet* of = nullptr;
  int n_tokens = 0;
  int64_t n_neurons = 0;
  uint64_t* wanted = nullptr;
  int32_t *ids = nullptr, *n = nullptr;
};

struct Scratch {
  /// Sets that may be in use at once: FfnPass has one to compute, one to verify and one that
  /// the next layer is expected to want.
  static constexpr size_t kSets = 3;

  Scratch() = default;
  Scratch(Arena& arena, const StepBounds& bounds) {
    const auto rows = static_cast<size_t>(bounds.max_tokens), cols = static_cast<size_t>(bounds.max_cols);
    const auto heads = static_cast<size_t>(bounds.n_heads);
    const size_t head_dim = bounds.head_dim > 0 ? static_cast<size_t>(bounds.head_dim) : cols / heads;
    const size_t sum_cols = bounds.d_model > 0 ? static_cast<size_t>(bounds.d_model) : cols;
    const size_t words_of_token = (cols + 63) / 64, words = rows * words_of_token;
    inputs = arena.take<int32_t>(StepInputs::size(bounds));
    rope_floats = rows * 2 * head_dim;
    rope_table = arena.take<float>(rope_floats);
    quantized = arena.take<std::byte>(quantized_bytes(bounds.max_tokens, bounds.max_cols / 32 * 32));
    attention = arena.take<std::byte>(attention_scratch_bytes(
        bounds.max_tokens, bounds.n_heads, static_cast<int>(head_dim), bounds.max_context));
    for (float** array : {&gates, &ups, &values}) *array = arena.take<float>(rows * cols);
    sums = {arena.take<int64_t>(rows * sum_cols), arena.take<int32_t>(rows)};
    passed_ids = arena.take<int32_t>(cols);
    int32_t* list_counts = arena.take<int32_t>(kSets + 2 + kNoteWords);
    passed_count = list_counts + kSets;
    note_state = reinterpret_cast<uint32_t*>(list_counts + kSets + 2);
    counts = arena.take<DeviceCounts>(1);
    select = arena.take<std::byte>(select_scratch_bytes(bounds.max_cols));
    for (size_t i = 0; i < kSets; ++i) sets[i] = Set(arena, words, cols, list_counts + i);
    if (!bounds.shares) return;
    hot = Set(arena, words, cols, list_counts + kSets + 1);
    cold_wanted = arena.take<uint64_t>(words);
    any = arena.take<uint64_t>(3 * words_of_token);
    hand_over = arena.take<uint32_t>(kHandOverWords);
    if (bounds.stream_bytes == 0) return;
    for (std::byte*& buffer : streamed) buffer = arena.take<std::byte>(bounds.stream_bytes);
  }

  int32_t* inputs = nullptr;
  size_t rope_floats = 0;
  float* rope_table = nullptr;
  std::byte *quantized = nullptr, *attention = nullptr, *select = nullptr;
  float *gates = nullptr, *ups = nullptr, *values = nullptr;  // [max_tokens, max_cols]
  NeuronSums sums;                                            // of the layer, whoever adds to them
  int32_t *passed_ids = nullptr, *passed_count = nullptr;
  static constexpr size_t kNoteWords = 2;
  uint32_t* note_state = nullptr;  // NeuronNotes::state
  DeviceCounts* counts = nullptr;
  Set sets[kSets];

  // Where the CPU has a share of a layer: the set's two parts.
  Set hot;
  uint64_t* cold_wanted = nullptr;  // [max_tokens, words]
  // [3, words] neurons that any token wants: all; of these the cold ones; what the next layer is expected to
  // want, where that was proposed
  uint64_t* any = nullptr;
  static constexpr size_t kHandOverWords = 2;
  uint32_t* hand_over = nullptr;  // HandOver::state
  std::byte* streamed[2] = {};    // buffers through which cold neurons are brought, where they are
};

}  // namespace hearth::cuda
