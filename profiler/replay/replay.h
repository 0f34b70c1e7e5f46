// Replays a trace of a mixture's experts under each cache policy. Finds how many of the choices a GPU's cache
// would hold, how many bytes would be copied, and how long decoding would take with the costs of a plan.
//
// Only tokens that are decoded one by one are replayed. A step of a prompt reads most experts of a layer, so
// policies do not change the cache during a prompt. All times are predicted. Called by the replay command;
// one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/activity/activity_file.h"
#include "engine/activity/expert_trace.h"
#include "profiler/replay/cache_policy.h"
#include "profiler/replay/decode_clock.h"

namespace hearth {

/// Returns the tokens of a trace that are replayed as decoded ones: those that were generated, or all tokens
/// if `prompts` is set.
ExpertTrace decoded_part(const ExpertTrace& trace, bool prompts);

/// Return how often experts are used: by the tokens [begin, end) of a trace, or by the tokens that an
/// activity file counts, in the layers of `trace`. REQUIRES: the counts are of the trace's model.
KnownUse use_in_trace(const ExpertTrace& trace, uint64_t begin, uint64_t end);
KnownUse use_in_counts(const ExpertTrace& trace, const ActivityCounts& counts);

struct PolicyResult {
  ReplayPolicy policy = ReplayPolicy::kNone;
  uint64_t n_tokens = 0, n_choices = 0, n_hits = 0;
  uint64_t n_copied = 0, copied_bytes = 0;
  double seconds = 0;  // of all tokens
  double hit_rate() const {
    return n_choices == 0 ? 0 : static_cast<double>(n_hits) / static_cast<double>(n_choices);
  }
  double token_s() const { return seconds / static_cast<double>(n_tokens); }
};

/// The share of a layer's experts that its router predicts from the previous layer's input. Others measured
/// 0.7 to 0.9.
constexpr double kPrefetchAccuracy = 0.8;

/// Replays the tokens from first_token on under a policy. The optimum's copies take no time. Calls `progress`
/// (may be empty) with the share that is done. prefetch_accuracy: see PrefetchPolicy. REQUIRES: there is such
/// a token.
PolicyResult replay(ReplayPolicy policy, const ExpertTrace& trace, uint64_t first_token,
                    const KnownUse& known, double budget_bytes, const DecodeCosts& costs,
                    const std::function<void(double)>& progress = {},
                    double prefetch_accuracy = kPrefetchAccuracy);

/// Bytes of all experts of a trace's layers.
double all_expert_bytes(const ExpertTrace& trace);

}  // namespace hearth
