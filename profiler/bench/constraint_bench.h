// Measures the cost of constrained decoding: one model decodes free text and constrained text in turn, in
// several slots at once.
//
// There are several forms: free text, and each constraint. Each form has its own slots. The benchmark runs
// one step of each form in turn. Therefore other load on the machine affects all forms alike, and all
// sequences have the same length at every step. A step computes one token for each slot of the form and
// chooses the next tokens, as the engine does. When a text ends, the sequence continues with a new text.
//
// A server appends forced tokens without choosing them, and computes several in one step. This benchmark
// computes them one by one like all other tokens, so that a step has the same number of tokens for every
// form. It only counts how many tokens are forced.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/model_runtime.h"
#include "profiler/bench/constraint_cases.h"

namespace hearth {

struct ConstraintBenchOptions {
  int n_slots = 4;       // sequences that decode together
  int n_generate = 128;  // tokens of each sequence
  /// The number of rounds. The report shows medians over the rounds. Each round compiles the constraints
  /// again, so that no masks are cached from earlier rounds.
  int n_repeats = 3;
  float temperature = 1.0f;  // the API's default
};

struct ConstraintCost {
  std::string name;
  double tokens_per_s = 0;  // all slots together
  double share = 0;         // additional time per token compared with free text; 0.05: 5 % longer
  // The thread's processor time per token for the constraint: computing the mask, advancing the state past
  // the token, and looking for forced tokens.
  double mean_ms = 0, p99_ms = 0, max_ms = 0;
  double compile_ms = 0;  // processor time to compile the form for this vocabulary
  double forced = 0;      // share of tokens that are forced; a server would append these without choosing
  int n_texts = 0;        // texts that were completed, in all rounds
};

/// The number of slots that the model needs; each form has its own slots.
int slots_of(std::span<const ConstraintCase> cases, const ConstraintBenchOptions& options);
/// The number of positions that each sequence needs, including its prompt.
int context_of(const ConstraintBenchOptions& options);

/// Returns the costs in the order of `cases`. Calls `progress` (may be empty) between steps with the
/// completed share of the steps, in [0, 1]. Throws ConstraintError if a form cannot be compiled or followed.
/// REQUIRES: the first case is free text; the model has slots_of() slots and context_of() positions; all
/// numbers of the options >= 1.
std::vector<ConstraintCost> run_constraint_bench(ModelRuntime& model, std::span<const ConstraintCase> cases,
                                                 const ConstraintBenchOptions& options,
                                                 const std::function<void(double fraction)>& progress = {});

std::string constraint_bench_text(const ModelRuntime& model, const ConstraintBenchOptions& options,
                                  std::span<const ConstraintCost> costs);
std::string constraint_bench_json(const ModelRuntime& model, const ConstraintBenchOptions& options,
                                  std::span<const ConstraintCost> costs);

}  // namespace hearth
