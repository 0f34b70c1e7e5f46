// Measures the cost of constrained decoding: one model decodes in several slots at once, free text and
// constrained text in turn.
//
// Each form of constraint and the free text have their own slots and take steps in turn, so that disturbances
// of the machine affect all alike, and all texts have the same length at every step. A step computes one
// token for each of the form's slots and chooses the next ones, as the engine does. If a text ends, a new one
// begins after it in the sequence.
//
// A server appends forced tokens without choosing them, and computes them together. Here they are computed
// one by one like all others, so that a step has the same number of tokens for every form; forced tokens are
// only counted.
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
  int n_repeats =
      3;  // rounds; medians are reported. Each round compiles the forms again, so no masks are cached
  float temperature = 1.0f;  // as in the API
};

struct ConstraintCost {
  std::string name;
  double tokens_per_s = 0;  // all slots together
  double share = 0;         // additional time of a token compared with free text; 0.05: 5 % longer
  // The thread's own time for a token's constraint: its mask, following the token, and looking for forced
  // tokens.
  double mean_ms = 0, p99_ms = 0, max_ms = 0;
  double compile_ms = 0;  // the thread's own time for the form and this vocabulary
  double forced = 0;      // share of forced tokens, which a server would append without choosing
  int n_texts = 0;        // texts that were completed, in all rounds
};

/// The number of slots that the model needs, since each form has its own.
int slots_of(std::span<const ConstraintCase> cases, const ConstraintBenchOptions& options);
/// The number of positions that each sequence needs.
int context_of(const ConstraintBenchOptions& options);

/// Returns the costs in the order of `cases`. Calls `progress` (may be empty) between steps with the share of
/// them that is done, in [0, 1]. Throws ConstraintError if a form cannot be compiled or followed. REQUIRES:
/// the first case is free text; the model has slots_of() slots and context_of() positions; all numbers of the
/// options >= 1.
std::vector<ConstraintCost> run_constraint_bench(ModelRuntime& model, std::span<const ConstraintCase> cases,
                                                 const ConstraintBenchOptions& options,
                                                 const std::function<void(double fraction)>& progress = {});

std::string constraint_bench_text(const ModelRuntime& model, const ConstraintBenchOptions& options,
                                  std::span<const ConstraintCost> costs);
std::string constraint_bench_json(const ModelRuntime& model, const ConstraintBenchOptions& options,
                                  std::span<const ConstraintCost> costs);

}  // namespace hearth
