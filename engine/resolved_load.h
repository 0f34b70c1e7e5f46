// Resolves LoadOptions for one model on one machine.
//
// Loading resolves the options once, before it allocates anything large; every later stage reads the result
// and none changes it. place_again() resolves them again. Loading thread.
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
#include "engine/residency/plan.h"
#include "engine/residency/sparsity_choice.h"

namespace hearth {

// Scoring needs logits of every prompt position; this many rows at once keep the logits buffer (rows x
// vocabulary floats) at 10-40 MB while the output matrix is read only once for many rows.
inline constexpr int kMaxLogitRows = 64;

/// The largest step of a model loaded with these options. The plan later sets shares and stream_bytes; the
/// code that knows the device sets the use of a library.
inline PassBounds load_bounds(int context_tokens, int n_slots, int prefill_chunk) {
  return {.max_tokens = prefill_chunk + n_slots,
          .max_logit_rows = std::max(kMaxLogitRows, n_slots),
          .max_context = context_tokens};
}

/// Whether a GPU computes beside the CPU, and how much of its memory may be used.
struct DeviceAnswer {
  bool usable = false;
  std::string name;
  uint64_t free_bytes = 0;
  uint64_t budget_bytes = 0;
  bool library = false;            // a library should multiply prompts (PassBounds::library)
  bool library_decodes = false;    // it should also multiply quantized matrices
  std::vector<std::string> notes;  // sentences for the log: why less is used than requested
};

/// Memory reserved for sequences and steps, besides the file.
struct Reservation {
  std::string label;  // name of the file, for messages
  int context_tokens = 0, n_slots = 0;
  PromptStep prompt_step;
  /// Contexts in the pool, 1 to n_slots. If a GPU is used and loading decides their number, the number to
  /// plan with.
  int n_kv_contexts = 0;
  bool decides_contexts = false;  // a plan may add contexts (add_contexts())
  PassBounds bounds;              // the plan sets shares and stream_bytes
  KvBlockCounts kv_counts;
  double kv_bytes = 0, work_bytes = 0;
  double own_bytes = 0;  // memory of the process besides the model: vocabulary, threads, requests; 0 if the
                         // limit is the model's alone
  uint64_t memory_limit_bytes = 0;  // limit for the whole process

  /// The bounds of a pass as planned; plan is null without a device.
  PassBounds pass_bounds(const Plan* plan) const;
  /// Memory left after keys, values and work space; negative if they exceed the limit.
  double free_bytes() const {
    return static_cast<double>(memory_limit_bytes) - kv_bytes - work_bytes - own_bytes;
  }
  /// Whether the whole file can stay in memory.
  bool holds(const ModelFile& file) const { return file.total_bytes() < memory_limit_bytes; }
  /// Throws ModelFileError. The message says how many contexts do not fit; `why` continues the sentence
  /// ("but ...", "which ...").
  [[noreturn]] void refuse(const std::string& why) const;
};

/// The contexts with which a plan for a GPU starts if LoadOptions::n_kv_contexts is `asked`. 1 to n_slots.
constexpr int contexts_to_plan(int asked, int n_slots) {
  if (asked == kKvContextsDecided) return 1;
  return asked > 0 ? std::min(asked, n_slots) : n_slots;
}

/// The contexts in a pool that only the CPU reads, if loading decides: half of the slots, rounded up, as far
/// as their keys and values fit into the memory that the file and work space leave; at least 1.
int contexts_beside(double left_bytes, int n_slots, const std::function<double(int n)>& kv_bytes);

/// Sets the number of contexts in the pool, and the bytes of their keys and values.
void set_contexts(Reservation& memory, int n_contexts, const ModelSpec& spec);

struct ResolvedLoad {
  Reservation memory;
  DeviceAnswer device;
  SparsityChoice sparsity;
};

/// The facts about the model that options are resolved against.
struct LoadFacts {
  const ModelFile& file;
  const ModelSpec& spec;
  const Weights& weights;
};

/// Throws std::invalid_argument (one sentence) for options that are invalid for every model.
void check_options(const LoadOptions& options);

/// Measures the bytes read in each candidate mode (ReadBytes), with this reservation and predictor threshold.
using AutoMeasure = std::function<ReadBytes(const Reservation& memory, float predictor_threshold)>;

/// Resolves the options. Calls `measure` at most once: for --sparsity auto, if the model has predictors or
/// experts with zeros. It runs on the CPU. Throws ModelFileError or std::invalid_argument (one sentence) if
/// the model or the machine cannot do what is requested, and whatever `measure` throws.
ResolvedLoad resolve(const LoadOptions& options, const LoadFacts& facts, const AutoMeasure& measure);

}  // namespace hearth
