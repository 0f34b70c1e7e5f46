// What speculative decoding is worth: the engine answers the same requests with drafts and without, in turn.
//
// Two kinds of text: a program that is written out again, which drafts foresee, and a story, which they hardly do.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/model_runtime.h"
#include "engine/serving/speculation.h"

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
  double tokens_per_s = 0;                // with drafts
  double gain = 0;                        // how many times as fast, the median of the pairs
  int64_t n_drafted = 0, n_accepted = 0;  // in all repeats
};

/// Positions that each model needs. REQUIRES: the tokenizer is the model's.
int context_of(const Tokenizer& tokenizer, const SpeculationBenchOptions& options);

/// One pair that is not reported comes first. Calls `progress` (may be empty) between answers with the share of them that is
/// done. REQUIRES: both are the same model, with one slot and context_of() positions; the model that drafts likewise.
/// Throws std::runtime_error if an answer fails or if the two differ.
std::vector<SpeculationGain> run_speculation_bench(ModelRuntime& plain, ModelRuntime& with_drafts,
                                                   const SpeculationBenchOptions& options,
                                                   const std::function<void(double fraction)>& progress = {});

std::string speculation_bench_text(const ModelRuntime& model, std::span<const SpeculationGain> gains);
std::string speculation_bench_json(const ModelRuntime& model, std::span<const SpeculationGain> gains);

}  // namespace hearth
