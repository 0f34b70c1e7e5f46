// The tokens that a sequence may generate next, and the acceptance of its past drafts.
//
// A Sequence owns it; Speculation fills it before a step and learns from it afterward. Engine thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/speculation/draft_length.h"
#include "engine/speculation/prompt_lookup.h"

namespace hearth {

/// A guess of a sequence's next tokens.
struct Draft {
  static constexpr int kLookups = 5;       // kinds of drafts looked up in the text, by match length
  static constexpr int kModel = kLookups;  // the kind of the draft model's drafts
  static constexpr int kKinds = kModel + 1;

  std::vector<int32_t> tokens;
  int kind = 0;
};

/// A sequence's drafts and their history.
struct SequenceDrafts {
  Draft looked_up, modeled;              // for the next step
  bool by_model = false;                 // `modeled` is computed instead of `looked_up`
  int n_wanted = 0;                      // number of the chosen draft's first tokens to compute
  bool in_prediction = false;            // whether the looked-up draft begins in the request's prediction
  size_t n_sequence_tokens = 0;          // the sequence's length in tokens when the drafts were made
  std::unique_ptr<PromptLookup> lookup;  // null until the sequence decodes
  // After this many generated tokens, the draft model is tried again.
  int next_trial = 0;
  std::array<Acceptance, Draft::kKinds> acceptance;

  const std::vector<int32_t>& tokens() const { return (by_model ? modeled : looked_up).tokens; }
};

}  // namespace hearth
