// Chooses the next token from a row of logits as SamplingParams says.
//
// The sampler keeps nothing from one call to the next: a sequence's state comes in as arguments, and the members
// are scratch. So one request cannot influence another. The random number depends only on the seed and the
// token's index. So the same sequence with the same seed gets the same tokens alone, in a batch, or after a hit
// in the prefix cache.
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

  /// logits: [n_vocab], raw. tokens: the sequence so far; the first n_prompt are the prompt, and the number of
  /// the others is the index of the token to choose. Each filter works on the renormalised distribution that
  /// the filter before it has left. top_p keeps the smallest set of most likely tokens whose probabilities sum
  /// to at least top_p, and at least one token. REQUIRES: params within the ranges of request.h; every token id
  /// within the vocabulary.
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
