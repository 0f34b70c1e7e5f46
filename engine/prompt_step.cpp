// See the header.
#include "engine/prompt_step.h"

#include <algorithm>
#include <cmath>

#include "engine/forward/kv_memory.h"
#include "engine/forward/nextn_pass.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/neurons/expert_slabs.h"
#include "engine/residency/plan.h"
#include "engine/resolved_load.h"
#include "kernels/cuda/cuda_backend.h"

namespace hearth {
namespace {

/// Tokens per tile of the GPU's matrix products; other step sizes leave part of a tile unused.
constexpr int kTileTokens = 64;
/// Scratch may take 1/16 of the budget.
constexpr double kScratchPart = 16;
/// Multiply-adds per second of a typical GPU, for machines that were not measured. At this rate, with 4.5
/// bits per weight and cuda::kUsualLink bytes per second over PCIe, multiplying by 517 tokens takes as long
/// as copying the weights.
constexpr double kUsualMultiplyAdds = 2.3e13;

double known_or(double rate, double usual) { return rate > 0 ? rate : usual; }

double bytes_of_weight(const Weights& weights) {
  const LayerWeights& layer = weights.layers.front();
  for (const Linear* linear : {&layer.up, &layer.gate, &layer.attention_out}) {
    const Matrix& matrix = linear->weight;
    if (matrix)
      return static_cast<double>(matrix.bytes()) /
             (static_cast<double>(matrix.n_rows) * static_cast<double>(matrix.n_cols));
  }
  return sizeof(float);
}

PassBounds bounds_of_step(const PromptStepFacts& facts, int tokens) {
  const PassBounds bounds = load_bounds(facts.context_tokens, facts.n_slots, tokens);
  return facts.nextn != nullptr ? bounds_with_nextn(bounds, *facts.nextn) : bounds;
}

/// Returns the bytes of scratch for a step with this many prompt tokens.
double scratch_of(const PromptStepFacts& facts, int tokens) {
  PassBounds bounds = bounds_of_step(facts, tokens);
  (facts.spec.has_experts() ? bounds.holds_experts : bounds.shares) = true;
  const size_t of_nextn = facts.nextn != nullptr ? NextnPass::step_bytes(*facts.nextn, bounds) : 0;
  return static_cast<double>(step_scratch_bytes(facts.spec, facts.weights, bounds) + of_nextn);
}

/// Returns the bytes that the layers which draft take on the device besides scratch: weights, keys and
/// values.
double drafting_bytes(const PromptStepFacts& facts, const KvBlockCounts& counts) {
  if (facts.nextn == nullptr) return 0;
  const PassBounds bounds = bounds_of_step(facts, kGpuPrefillChunk);
  const size_t whole = NextnPass::device_bytes(*facts.nextn, NextnShare::kWhole, facts.weights, bounds);
  return static_cast<double>(whole - NextnPass::step_bytes(*facts.nextn, bounds)) +
         NextnPass::kv_position_bytes(*facts.nextn, facts.kv_type) * kKvBlockTokens *
             static_cast<double>(counts.n_blocks);
}

/// Halves `tokens` until scratch fits into its part of the budget, or until kCpuPrefillChunk is reached.
int within_scratch(const PromptStepFacts& facts, int tokens) {
  const double most = static_cast<double>(*facts.device_budget_bytes) / kScratchPart;
  while (tokens > kCpuPrefillChunk && scratch_of(facts, tokens) > most)
    tokens = std::max(kCpuPrefillChunk, tokens / 2 / kTileTokens * kTileTokens);
  return tokens;
}

/// Returns the number of prompt tokens per step for a mixture of experts on a GPU. If the GPU cannot compute
/// the experts, the CPU computes most of a step, so this returns the number for the CPU.
PromptStep mixture_step(const PromptStepFacts& facts) {
  for (const LayerWeights& layer : facts.weights.layers) {
    if (!layer.mixture.experts.empty() && !why_not_resident(layer.mixture).empty()) return {};
  }
  const int most = std::min(kMixturePrefillChunk, std::max(kCpuPrefillChunk, facts.context_tokens));
  return {.tokens = within_scratch(facts, most)};
}

}  // namespace

PromptStep prompt_step(const PromptStepFacts& facts) {
  const ModelSpec& spec = facts.spec;
  if (!facts.device_budget_bytes || spec.arch.looks_ahead) return {};
  if (spec.has_experts()) return mixture_step(facts);
  const auto budget = static_cast<double>(*facts.device_budget_bytes);

  // 1. Add up the bytes that a step copies to the GPU, and find how many tokens the GPU multiplies in the
  //    time that copying takes.
  const int n_contexts = facts.n_kv_contexts > 0 ? facts.n_kv_contexts : facts.n_slots;
  const double weights = static_cast<double>(facts.weights.bytes_per_token(spec));
  const KvBlockCounts counts =
      kv_block_counts(spec, facts.context_tokens, n_contexts, kGpuPrefillChunk, facts.kv_type);
  const double needed = weights + KvMemory::bytes_needed(spec, counts) + drafting_bytes(facts, counts) +
                        scratch_of(facts, kGpuPrefillChunk);
  const double copied = std::clamp(needed - budget, 0.0, weights) / weights;
  const double link = known_or(facts.rates.to_device_bytes_per_s, cuda::kUsualLink);
  const double multiply_adds = known_or(facts.rates.multiply_adds_per_s, kUsualMultiplyAdds);
  const double balance = copied * bytes_of_weight(facts.weights) * multiply_adds / link;
  const int balanced =
      kTileTokens * static_cast<int>(std::ceil(std::min<double>(balance, kMostPrefillChunk) / kTileTokens));

  // 2. Use that many tokens, within the limits of scratch and context.
  PromptStep step{.tokens = within_scratch(facts, std::max(kGpuPrefillChunk, balanced))};
  step.tokens = std::min(step.tokens, std::max(kCpuPrefillChunk, facts.context_tokens));
  step.beside_streams = std::clamp(balanced, kCpuPrefillChunk, step.tokens);
  return step;
}

int streamed_from(const Weights& weights, const PromptRates& rates) {
  double bytes = 0, n_weights = 0;
  const auto add = [&](const Matrix& weight) {
    if (!weight) return;
    bytes += static_cast<double>(weight.bytes());
    n_weights += static_cast<double>(weight.n_rows) * static_cast<double>(weight.n_cols);
  };
  for (const LayerWeights& layer : weights.layers) {
    if (!layer.mixture.experts.empty()) {  // only these weights are streamed; all experts have equal sizes
      const Expert& one = layer.mixture.experts.front();
      for (const Matrix& weight : {one.gate, one.up, one.down}) add(weight);
      continue;
    }
    for (const Linear* linear : {&layer.gate, &layer.up, &layer.down, &layer.down_rows}) add(linear->weight);
  }
  return cuda::crossover_tokens(n_weights > 0 ? bytes / n_weights : bytes_of_weight(weights),
                                known_or(rates.to_device_bytes_per_s, cuda::kUsualLink),
                                known_or(rates.cpu_multiply_adds_per_s, cuda::kUsualCpuMultiplyAdds));
}

}  // namespace hearth
