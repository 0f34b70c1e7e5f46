// Measures the gain of speculative decoding: the engine answers the same requests alternately with and
// without drafts.
//
// There are two kinds of text: a copy of a program, which drafts predict well, and a story, which they
// predict poorly.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/generation/speculation.h"
#include "engine/model_runtime.h"

namespace hearth {

struct SpeculationBenchOptions {
  int n_generate = 128;  // tokens of each answer
  int n_repeats = 3;     // pairs of answers; medians are reported
  float temperature = 0;
  SpeculationOptions speculation = {};
};

struct SpeculationGain {
  std::string text;  // "copy" or "story"
  double plain_tokens_per_s = 0;
  double tokens_per_s = 0;  // with drafts
  double gain = 0;          // speed with drafts divided by speed without; the median over the pairs
  int64_t n_drafted = 0, n_accepted = 0;  // in all repeats
};

/// The number of positions that the model and its draft model each need. REQUIRES: `tokenizer` is the
/// model's.
int context_of(const Tokenizer& tokenizer, const SpeculationBenchOptions& options);

/// Measures pairs of answers: one answer without drafts and one with drafts. The first pair is not reported.
/// Calls `progress` (may be empty) between answers with the completed share of the answers. Throws
/// std::runtime_error if an answer fails, or if the two answers of a pair differ. REQUIRES: `plain` and
/// `with_drafts` are the same model; each of them and the draft model have one slot and context_of()
/// positions.
std::vector<SpeculationGain> run_speculation_bench(ModelRuntime& plain, ModelRuntime& with_drafts,
                                                   const SpeculationBenchOptions& options,
                                                   const std::function<void(double fraction)>& progress = {});

std::string speculation_bench_text(const ModelRuntime& model, std::span<const SpeculationGain> gains);
std::string speculation_bench_json(const ModelRuntime& model, std::span<const SpeculationGain> gains);

}  // namespace hearth
