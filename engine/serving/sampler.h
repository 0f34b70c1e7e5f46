// Chooses the next token from a row of logits as SamplingParams says.
//
// Everything that depends on a sequence comes in as an argument; the sampler's members are scratch that holds
// nothing from one call to the next. So nothing one request asks for can leak into another, and the same
// sequence with the same seed gets the same tokens alone, in a batch, or after a hit in the prefix cache: the
// random number is a function of the seed and the token's index, not of how often anybody has drawn.
//
// Owned by the Engine; engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/serving/request.h"

namespace hearth {

/// A uniform number in [0, 1) with 53 random bits: a counter-based generator (in the manner of Salmon et al.
/// 2011) with the finaliser of SplitMix64 (Steele et al. 2014) as its mixing function.
double uniform_at(uint64_t seed, uint64_t index);

struct SampleResult {
  int32_t token = -1;
  std::string_view error;  // if not empty: why no token can be chosen, one sentence; static storage
};

class Sampler {
 public:
  explicit Sampler(int n_vocab);

  /// logits: [n_vocab], raw. tokens: the sequence so far, its first n_prompt the prompt; their number past
  /// the prompt is the index of the token to choose. Filters work one after the other, each on what the one
  /// before has left, renormalised: top_p keeps the smallest set of most likely tokens whose mass reaches it,
  /// one at least. REQUIRES: params within the ranges request.h gives, every token id within the vocabulary.
  SampleResult sample(std::span<const float> logits, const SamplingParams& params,
                      std::span<const int32_t> tokens, int n_prompt);

 private:
  void apply_bias(const SamplingParams& params);
  void apply_penalties(const SamplingParams& params, std::span<const int32_t> tokens, size_t n_prompt);
  int32_t draw_from_all(std::span<const float> logits, float max, const SamplingParams& params, double u);
  int32_t draw_from_top(std::span<const float> logits, float max, const SamplingParams& params, double u);
  void select_mass(std::span<const float> logits, float max, const SamplingParams& params);

  std::vector<float> adjusted_;  // [n_vocab] logits after bias and penalties
  std::vector<int32_t> counts_;  // [n_vocab] all zero between calls
  std::vector<float> weights_;   // exp((logit - max) / temperature), of all or of the candidates
  std::vector<int32_t> ids_;     // candidates, most likely first
};

}  // namespace hearth
