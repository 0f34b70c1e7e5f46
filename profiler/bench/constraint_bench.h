// What constrained decoding costs: the same model decodes in several slots at once, free and held to forms, in turn.
//
// Each form and the free text have slots of their own. All of them take one step after the other, so that what disturbs
// the machine disturbs all alike, and all their texts are equally long at every step. A step computes one token of each of
// the form's slots and chooses the next ones, as the engine does. A text that ends begins again behind what was written.
//
// A server appends tokens that a form forces without choosing them, and computes them together. Here they are computed one
// by one like all others, so that a step has as many tokens in every form; how many they are is counted.
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
  int n_generate = 128;  // tokens of each
  int n_repeats =
      3;  // rounds; medians are reported. Each compiles the forms anew, so no mask is known before
  float temperature = 1.0f;  // as in the API
};

struct ConstraintCost {
  std::string name;
  double tokens_per_s = 0;  // of all slots together
  double share = 0;         // by which a token takes longer than in free text; 0.05: 5 %
  // The thread's own time for a token's constraint: its mask, following the token, and looking for what is forced.
  double mean_ms = 0, p99_ms = 0, max_ms = 0;
  double compile_ms = 0;  // the thread's own time for the form and this vocabulary
  double forced = 0;      // share of tokens that a server would not have chosen
  int n_texts = 0;        // texts that came to their end, in all rounds
};

/// Slots that the model needs: for every form its own.
int slots_of(std::span<const ConstraintCase> cases, const ConstraintBenchOptions& options);
/// Positions that each sequence needs.
int context_of(const ConstraintBenchOptions& options);

/// In the order of `cases`. `progress` (may be empty) is called between steps with the share of them that is done, in [0, 1].
/// Throws ConstraintError if a form cannot be compiled or followed. REQUIRES: the first case is free text; the model has
/// slots_of() slots and context_of() positions; all numbers of the options >= 1.
std::vector<ConstraintCost> run_constraint_bench(ModelRuntime& model, std::span<const ConstraintCase> cases,
                                                 const ConstraintBenchOptions& options,
                                                 const std::function<void(double fraction)>& progress = {});

std::string constraint_bench_text(const ModelRuntime& model, const ConstraintBenchOptions& options,
                                  std::span<const ConstraintCost> costs);
std::string constraint_bench_json(const ModelRuntime& model, const ConstraintBenchOptions& options,
                                  std::span<const ConstraintCost> costs);

}  // namespace hearth
