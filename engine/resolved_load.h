// What LoadOptions come to for one model on one machine.
//
// Loading asks once, before anything large is taken, and never changes the answer: every later stage reads it.
// Placing a model again asks again. Loading thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/forward/forward_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/load_options.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/residency/sparsity_choice.h"

namespace hearth {

// Scoring wants logits of every prompt position; this many rows at once keep the logits buffer (rows x
// vocabulary floats) at 10-40 MB while the output matrix is still read once for many rows.
inline constexpr int kMaxLogitRows = 64;

/// KV blocks for so many sequences of so many tokens. Also for plans of models that are not loaded.
constexpr int64_t kv_blocks(int context_tokens, int n_slots) {
  return static_cast<int64_t>((context_tokens + kKvBlockTokens - 1) / kKvBlockTokens) * n_slots;
}

/// The largest step of a model so loaded. shares and stream_bytes are a plan's to decide.
inline PassBounds load_bounds(int context_tokens, int n_slots, int prefill_chunk) {
  return {.max_tokens = prefill_chunk + n_slots,
          .max_logit_rows = std::max(kMaxLogitRows, n_slots),
          .max_context = context_tokens};
}

/// Whether a GPU computes beside the CPU, and how much of its memory may be taken.
struct DeviceAnswer {
  bool usable = false;
  std::string name;
  uint64_t free_bytes = 0;
  uint64_t budget_bytes = 0;
  std::vector<std::string> notes;  // sentences for the log: why less is used than was asked for
};

/// Throws std::invalid_argument (one sentence) where a GPU was insisted on that cannot be used.
DeviceAnswer choose_device(const LoadOptions& options);

/// What is reserved besides the file for sequences and steps.
struct Reservation {
  std::string label;  // of the file, for messages
  int context_tokens = 0, n_slots = 0;
  PassBounds bounds;  // shares and stream_bytes are a plan's to decide
  int n_kv_blocks = 0;
  double kv_bytes = 0, work_bytes = 0;
  uint64_t memory_limit_bytes = 0;  // of this process

  /// The bounds of a pass that shares neurons, or not, through buffers of stream_bytes.
  PassBounds pass_bounds(bool shares, size_t stream_bytes) const;
  /// What may be taken besides keys, values and work space; negative where nothing is left.
  double free_bytes() const { return static_cast<double>(memory_limit_bytes) - kv_bytes - work_bytes; }
  /// Whether the whole file can stay in memory.
  bool holds(const ModelFile& file) const { return file.total_bytes() < memory_limit_bytes; }
  /// Throws ModelFileError: this context and these slots cannot be had, "but" or "which" and so on.
  [[noreturn]] void refuse(const std::string& why) const;
};

struct ResolvedLoad {
  Reservation memory;
  DeviceAnswer device;
  SparsityChoice sparsity;
};

/// The facts that options are resolved against.
struct LoadFacts {
  const ModelFile& file;
  const ModelSpec& spec;
  const Weights& weights;
};

/// Throws std::invalid_argument (one sentence): options that no model has.
void check_options(const LoadOptions& options);

/// Measures what exact and predicted mode read, with this reservation and predictor threshold.
using AutoMeasure = std::function<ReadBytes(const Reservation& memory, float predictor_threshold)>;

/// Resolves the options. `measure` is called at most once, and only for --sparsity auto where the CPU alone runs
/// a model with predictors. Throws ModelFileError and std::invalid_argument (one sentence) for what cannot be
/// had, and what `measure` throws.
ResolvedLoad resolve(const LoadOptions& options, const LoadFacts& facts, const AutoMeasure& measure);

}  // namespace hearth
