// The tokens that a sequence may generate next, and what the sequence has learned about such guesses.
//
// A Sequence owns it; Speculation fills it before a step and learns from it afterwards. Engine thread only.
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
  static constexpr int kLookups = 5;       // kinds of drafts from the text: by how many tokens matched
  static constexpr int kModel = kLookups;  // the kind of a model's drafts
  static constexpr int kKinds = kModel + 1;

  std::vector<int32_t> tokens;
  int kind = 0;
};

/// What a sequence keeps of its drafts.
struct SequenceDrafts {
  Draft looked_up, modelled;             // of the next step
  bool by_model = false;                 // which of them is computed
  int n_wanted = 0;                      // of that, the first tokens that are computed
  bool in_prediction = false;            // whether the request's prediction proposes them
  size_t n_sequence_tokens = 0;          // of the sequence, when they were drafted
  std::unique_ptr<PromptLookup> lookup;  // null until the sequence decodes
  int next_trial = 0;                    // generated tokens after which the model gets another chance
  std::array<Acceptance, Draft::kKinds> acceptance;

  const std::vector<int32_t>& tokens() const { return (by_model ? modelled : looked_up).tokens; }
};

}  // namespace hearth
