// One sequence inside the engine, from acceptance to its last event. submit() creates it. Then the scheduler
// owns it, and only the engine thread uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/constraint/constraint.h"
#include "engine/constraint/thinking_budget.h"
#include "engine/sampling/sampler.h"
#include "engine/serving/pooled_state.h"
#include "engine/serving/request.h"
#include "engine/serving/token_stream.h"
#include "engine/speculation/sequence_drafts.h"

namespace hearth {

/// The end of a sequence.
struct SequenceEnd {
  FinishReason reason = FinishReason::kStop;
  std::string error = {};  // see FinishedEvent::error
};

struct Sequence {
  uint64_t number = 0;      // counts the sequences that the engine thread has taken from the queue, from 1
  uint64_t request_id = 0;  // equal for all sequences of a request
  uint64_t client = 0;      // GenerationRequest::client
  int priority = 0;         // among the requests of its client
  int index = 0;            // index in its request
  int prompt_group = 0;     // index of the first sequence of the request that has the same prompt
  // Shared with the HTTP thread that answers the request, and with the request's other sequences.
  std::shared_ptr<TokenStream> stream;
  SequenceRequest request;  // its prompt is moved to `tokens`

  std::vector<int32_t> tokens;  // the prompt, then the generated tokens
  SamplerState sampler_state;   // state after the tokens generated so far
  /// State after the tokens generated so far; absent if there is no constraint.
  std::optional<ConstraintState> constraint;
  /// State after the tokens generated so far; absent if thinking has no limit.
  std::optional<ThinkingState> thinking;
  // For embedded sequences only: the sum of the hidden states computed so far. Created at admission.
  std::optional<PooledState> pooled;
  SequenceDrafts drafts;     // guesses of the next tokens
  DraftCounts draft_counts;  // counts of drafts that were computed
  int n_prompt = 0;
  int n_computed = 0;      // tokens whose keys and values are in the KV cache
  int n_cached = 0;        // prompt tokens found in the prefix cache at the sequence's first admission
  int n_matched = 0;       // prompt tokens that equaled a text in the prefix cache then
  int n_counted = 0;       // prompt tokens, cached or computed, that the engine's totals already include
  int n_copied = 0;        // tokens in the last snapshot of its recurrent states (state_copies.h)
  uint64_t admission = 0;  // number of its admission, ascending
  // Its next KV blocks are being read from disk (disk_prefixes.h). Until then no step has its tokens.
  bool awaits_disk = false;
  // The sequence lost its slot once (Scheduler); on readmission it is promised all KV blocks that it can
  // need.
  bool was_set_back = false;

  std::chrono::steady_clock::time_point accepted_at, admitted_at, prefilled_at;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();

  bool prefilling() const { return n_computed < n_prompt; }
  /// The number of known tokens that are not computed yet. During prefill, these are the rest of the prompt.
  /// After prefill, they are the last token, any forced tokens before it, and any tokens whose keys and
  /// values were lost when the sequence was set back.
  int n_pending() const { return static_cast<int>(tokens.size()) - n_computed; }
  int n_generated() const { return static_cast<int>(tokens.size()) - n_prompt; }
};

}  // namespace hearth
