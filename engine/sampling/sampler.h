// Chooses the next token from a row of logits as SamplingParams specifies.
//
// The sampler keeps no state between calls: the caller passes the sequence's state, and the members are only
// scratch memory. So requests cannot influence each other. The random number depends only on the seed and the
// token's index, so a sequence with a given seed gets the same tokens alone, in a batch, or after a prefix
// cache hit.
//
// Owned by RequestSampler; engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/sampling/candidates.h"
#include "engine/sampling/sampling_params.h"

namespace hearth {

/// Returns a uniform number in [0, 1) with 53 random bits. The generator is counter-based (as in Salmon et
/// al. 2011); its mixing function is the finalizer of SplitMix64 (Steele et al. 2014).
double uniform_at(uint64_t seed, uint64_t index);

struct SampleResult {
  int32_t token = -1;
  // If not empty: one sentence with the reason why no token can be chosen; static storage.
  std::string_view error = {};
  bool is_unsatisfiable = false;  // the request itself forbids every token
};

/// State that the sampler carries from one token of a sequence to the next; the sequence owns it.
struct SamplerState {
  std::optional<double> mirostat_bits;  // Mirostat's bound on the surprise; absent before the first token
};

struct SampleInput {
  std::span<const float> logits;  // [n_vocab], raw
  const SamplingParams& params;
  /// The sequence so far. The number of tokens after its prompt is the index of the token to choose.
  std::span<const int32_t> tokens;
  int n_prompt = 0;
  const TokenMask* allowed = nullptr;    // tokens that may be chosen; null: all
  std::span<const int32_t> banned = {};  // tokens that may not be chosen
  SamplerState& state;
};

class Sampler {
 public:
  explicit Sampler(int n_vocab);

  /// Chooses the next token as described in sampling_params.h. REQUIRES: the parameters are within their
  /// ranges; every token id is inside the vocabulary.
  SampleResult sample(const SampleInput& input);

 private:
  struct Scores {
    std::span<const float> logits;
    float max;
    float temperature;
  };

  std::span<const float> adjust(const SampleInput& input);
  float dynamic_temperature(std::span<const float> logits, float max, const SamplingParams& params);
  int32_t draw_from_all(const Scores& scores, float min_p, double u);
  int32_t draw_from_candidates(const Scores& scores, const SamplingParams& params, bool exclude, double u);
  int32_t draw_mirostat(const Scores& scores, const SamplingParams& params, double u, SamplerState& state);
  void weigh_candidates(const Scores& scores);
  void select_mass(const Scores& scores, float share);

  std::vector<float> adjusted_;  // [n_vocab] logits after bias, bans and penalties
  std::vector<int32_t> counts_;  // [n_vocab] all zero between calls
  std::vector<float> weights_;   // [n_vocab] scratch
  Candidates candidates_;
};

}  // namespace hearth
