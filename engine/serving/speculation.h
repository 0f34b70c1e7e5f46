// Speculative decoding without a price: drafts tokens that sequences may generate next, and decides how many of them the next
// step computes beside the decoding tokens.
//
// The Engine samples every token from the model's own logits, as without drafts, and keeps what a step has computed as long as
// the drafted tokens are those that were sampled (Leviathan et al. 2023; here a draft is a guess, so no distribution has to
// be corrected). Results do not depend on the batch, so the tokens are the same with and without drafts.
//
// Owned by the Engine; engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/serving/draft_length.h"
#include "engine/serving/prompt_lookup.h"

namespace hearth {

struct Sequence;

/// Where the Engine gets drafts from instead of the prompt lookup; all they offer is computed. Tests have such.
class Drafter {
 public:
  virtual ~Drafter() = default;
  /// Replaces `draft` by tokens that may follow the sequence's, inside the vocabulary. Engine thread.
  virtual void draft(const Sequence& sequence, std::vector<int32_t>& draft) = 0;
};

/// What a sequence keeps of its drafts.
struct SequenceDrafts {
  static constexpr int kKinds = 5;  // of drafts: by how many tokens matched

  std::vector<int32_t> tokens;           // of the next step: they may follow the sequence's
  int n_wanted = 0;                      // of these, the first ones that are computed
  int kind = 0;                          // of this draft
  size_t n_sequence_tokens = 0;          // of the sequence, when they were drafted
  std::unique_ptr<PromptLookup> lookup;  // null until the sequence decodes
  std::array<Acceptance, kKinds> acceptance;
};

struct SpeculationOptions {
  bool on = false;
  int max_draft = 32;                // tokens of one draft, at most
  std::shared_ptr<Drafter> drafter;  // null: prompt lookup
};

class Speculation {
 public:
  explicit Speculation(SpeculationOptions options) : options_(std::move(options)) {}

  /// Before a step: sets the drafts of all sequences. n_more: drafted tokens that the step has room for.
  void draft(std::span<const std::unique_ptr<Sequence>> slots, int n_more);
  /// After a step: learns how many of the sequence's drafted tokens were right, computed or not.
  void learn(Sequence& sequence);
  /// After a step that only decodes: what it took. n_drafted: of its tokens, those that were drafted.
  void step_took(int n_tokens, int n_drafted, double seconds);
  /// The model was placed again: what was measured is no longer true.
  void forget_costs() { costs_.forget(); }

 private:
  void look_up(Sequence& sequence) const;
  double share_of(const SequenceDrafts& drafts) const;

  const SpeculationOptions options_;
  StepCosts costs_;
  std::array<Acceptance, SequenceDrafts::kKinds> acceptance_;  // of all sequences
  std::vector<DraftChoice> choices_;                           // scratch of draft()
  std::vector<Sequence*> drafted_;                             // scratch of draft()
  int n_since_plain_ = 0;                                      // steps with drafts since the last one without
};

}  // namespace hearth
