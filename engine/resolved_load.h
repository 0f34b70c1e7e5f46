// Resolves LoadOptions for one model on one machine.
//
// Loading resolves the options once, before it allocates anything large; every later stage reads the result.
// place_again() resolves them again. Loading thread.
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
#include "engine/model/assistant_weights.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/nextn_weights.h"
#include "engine/model/weights.h"
#include "engine/residency/plan.h"
#include "engine/residency/sparsity_choice.h"

namespace hearth {

// Maximum number of rows of logits that are computed at once. Scoring needs the logits of every prompt
// position. With 64 rows, the logits buffer (rows x vocabulary floats) takes 10-40 MB, and one read of the
// output matrix still serves many rows.
inline constexpr int kMaxLogitRows = 64;

/// Returns the bounds of a step, for a model that is loaded with these options. The plan later sets `shares`
/// and `stream_bytes`; resolve() sets `library` and `library_decodes` when it knows the device.
inline PassBounds load_bounds(int context_tokens, int n_slots, int prefill_chunk) {
  return {.max_tokens = prefill_chunk + n_slots,
          .max_logit_rows = std::max(kMaxLogitRows, n_slots),
          .max_context = context_tokens,
          .n_states = n_slots};
}

/// Whether a GPU computes beside the CPU, and how much of its memory may be used.
struct DeviceAnswer {
  bool usable = false;
  std::string name;
  uint64_t free_bytes = 0;
  uint64_t budget_bytes = 0;
  bool library = false;            // a library should multiply prompts (PassBounds::library)
  bool library_decodes = false;    // the library should also multiply quantized matrices
  std::vector<std::string> notes;  // sentences for the log with the reasons why less is used than requested
};

/// Memory reserved for sequences and steps, besides the file.
struct Reservation {
  std::string label;  // name of the file, for messages
  int context_tokens = 0, n_slots = 0;
  PromptStep prompt_step;
  /// Number of contexts in the pool, 1 to n_slots. If decides_contexts, this is the number with which
  /// planning starts.
  int n_kv_contexts = 0;
  bool decides_contexts = false;  // a plan may add contexts (add_contexts())
  PassBounds bounds;              // the plan sets shares and stream_bytes
  KvBlockCounts kv_counts;
  double kv_bytes = 0, work_bytes = 0;
  double nextn_kv_position_bytes = 0;  // part of kv_bytes at one position; 0 without NextnPass
  double state_bytes = 0;              // recurrent states of all slots, and snapshots of them (StateMemory)
  double own_bytes = 0;  // memory of the process besides the model: vocabulary, threads, requests; 0 if
                         // LoadOptions sets the memory limit
  uint64_t memory_limit_bytes = 0;  // limit for the whole process

  /// Returns the bounds of a pass, including those that the plan sets. `plan` is null without a device.
  PassBounds pass_bounds(const Plan* plan) const;
  /// Returns the memory left after keys, values, states and work space; negative if these exceed the limit.
  double free_bytes() const {
    return static_cast<double>(memory_limit_bytes) - kv_bytes - state_bytes - work_bytes - own_bytes;
  }
  /// Whether the whole file can stay in memory.
  bool holds(const ModelFile& file) const { return file.total_bytes() < memory_limit_bytes; }
  /// Throws a ModelFileError whose message names the contexts and the memory that they need. `why` continues
  /// the sentence of the message ("but ...", "which ...").
  [[noreturn]] void refuse(const std::string& why) const;
};

/// Returns the number of contexts with which planning for a GPU starts, 1 to n_slots. asked:
/// LoadOptions::n_kv_contexts.
constexpr int contexts_to_plan(int asked, int n_slots) {
  if (asked == kKvContextsDecided) return 1;
  return asked > 0 ? std::min(asked, n_slots) : n_slots;
}

/// Returns the number of contexts in a pool, for loads without a GPU in which loading decides this number.
/// Half of the slots, rounded up, get a context, or fewer if left_bytes is too small, but at least one.
/// left_bytes: the memory that is left after the file and the work space; kv_bytes: returns the bytes of the
/// keys and values of n contexts.
int contexts_beside(double left_bytes, int n_slots, const std::function<double(int n)>& kv_bytes);

/// Sets the number of contexts in the pool, and the bytes of their keys and values.
void set_contexts(Reservation& memory, int n_contexts, const ModelSpec& spec);

struct ResolvedLoad {
  Reservation memory;
  DeviceAnswer device;
  SparsityChoice sparsity;
};

/// The model for which options are resolved.
struct LoadFacts {
  const ModelFile& file;
  const ModelSpec& spec;
  const Weights& weights;
  const NextnWeights* nextn = nullptr;          // null: no layer drafts
  const AssistantWeights* assistant = nullptr;  // null: there is none
};

/// Throws std::invalid_argument (one sentence) for options that are invalid for every model.
void check_options(const LoadOptions& options);

/// Measures the bytes that each candidate mode reads (ReadBytes). memory: the memory reserved for the model,
/// with the context and the step size to measure with; predictor_threshold: the threshold of predicted mode.
using AutoMeasure = std::function<ReadBytes(const Reservation& memory, float predictor_threshold)>;

/// Resolves the options. For --sparsity auto, calls `measure` at most once, and only if the model has
/// predictors, or has experts whose activation gives zeros; `measure` runs on the CPU. Throws ModelFileError
/// or std::invalid_argument (one sentence) if the model or the machine cannot do what the options request.
/// Also passes on any exception that `measure` throws.
ResolvedLoad resolve(const LoadOptions& options, const LoadFacts& facts, const AutoMeasure& measure);

}  // namespace hearth
