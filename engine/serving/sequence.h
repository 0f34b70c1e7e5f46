// One sequence inside the engine, from acceptance to its last event. submit() makes it; then the scheduler owns
// it, and only the engine thread uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/constraint/constraint.h"
#include "engine/sampling/sampler.h"
#include "engine/serving/pooled_state.h"
#include "engine/serving/request.h"
#include "engine/serving/token_stream.h"
#include "engine/speculation/sequence_drafts.h"

namespace hearth {

struct Sequence {
  uint64_t request_id = 0;  // sequences of one request share it
  uint64_t client = 0;      // whose it is, GenerationRequest::client
  int priority = 0;         // among those of its client
  int index = 0;            // in its request
  int prompt_group = 0;     // index of the request's first sequence with the same prompt
  // Shared with the HTTP thread that answers the request, and with the request's other sequences.
  std::shared_ptr<TokenStream> stream;
  SequenceRequest request;  // its prompt moved to tokens

  std::vector<int32_t> tokens;  // the prompt, then what was generated
  SamplerState sampler_state;   // after the tokens generated so far
  std::optional<ConstraintState>
      constraint;                     // after the tokens generated so far; absent: nothing is constrained
  std::optional<PooledState> pooled;  // if it is embedded: of the tokens computed so far; made at admission
  SequenceDrafts drafts;              // tokens that may come next
  DraftCounts draft_counts;           // of those that were computed
  int n_prompt = 0;
  int n_computed = 0;         // tokens whose keys and values are in the cache
  int n_cached = 0;           // prompt tokens that were in the prefix cache when it was first admitted
  int n_counted = 0;          // prompt tokens that the engine's totals have, from the cache or computed
  uint64_t admission = 0;     // number of its admission, ascending
  bool was_set_back = false;  // it has lost its slot, and is promised all it can need when it gets one again

  std::chrono::steady_clock::time_point accepted_at, admitted_at, prefilled_at;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();

  bool prefilling() const { return n_computed < n_prompt; }
  /// Known tokens that are not computed yet: of the prompt; then the last one, with a constraint those before it
  /// that were forced, and those that were computed before the sequence was set back.
  int n_pending() const { return static_cast<int>(tokens.size()) - n_computed; }
  int n_generated() const { return static_cast<int>(tokens.size()) - n_prompt; }
};

}  // namespace hearth
