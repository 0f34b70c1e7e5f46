// What so many sequences of so many tokens need of a model's memory: blocks of keys and values, rows of a
// step.
//
// Said once, for loading (model_runtime.cpp) and for plans of models that are not loaded.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/forward/forward_pass.h"
#include "engine/forward/kv_memory.h"

namespace hearth {

// Scoring wants logits of every prompt position; this many rows at once keep the logits buffer (rows x
// vocabulary floats) at 10-40 MB while the output matrix is still read once for many rows.
inline constexpr int kMaxLogitRows = 64;

constexpr int64_t kv_blocks(int context_tokens, int n_slots) {
  return static_cast<int64_t>((context_tokens + kKvBlockTokens - 1) / kKvBlockTokens) * n_slots;
}

/// Shares and stream_bytes are a plan's to decide.
inline PassBounds load_bounds(int context_tokens, int n_slots, int prefill_chunk) {
  return {.max_tokens = prefill_chunk + n_slots,
          .max_logit_rows = std::max(kMaxLogitRows, n_slots),
          .max_context = context_tokens};
}

}  // namespace hearth
