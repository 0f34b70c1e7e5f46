// Speculative decoding: drafts tokens that sequences may generate next, and decides how many of them the next step
// computes beside the decoding tokens.
//
// Drafts come from the sequence's own text (prompt_lookup.h), which costs nothing, or from a second model (draft_model.h).
// A sequence's next draft comes from whichever is likelier to be right, as far as its cost allows.
//
// The Engine samples every token from the model's own logits, as without drafts, and keeps what a step has computed as long
// as the drafted tokens are those that were sampled (Leviathan et al. 2023; here a draft is a guess, so no distribution has
// to be corrected). Results do not depend on the batch, so the tokens are the same with and without drafts.
//
// Owned by the Engine; engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/serving/draft_model.h"
#include "engine/speculation/draft_ledger.h"
#include "engine/speculation/draft_length.h"
#include "engine/speculation/sequence_drafts.h"

namespace hearth {

struct Sequence;

/// Where the Engine gets drafts from instead; all they offer is computed. Tests have such.
class Drafter {
 public:
  virtual ~Drafter() = default;
  /// Replaces `draft` by tokens that may follow the sequence's, inside the vocabulary. Engine thread.
  virtual void draft(const Sequence& sequence, std::vector<int32_t>& draft) = 0;
};

struct SpeculationOptions {
  bool on = false;
  int max_draft = 32;                   // tokens of one draft, at most
  std::shared_ptr<Drafter> drafter;     // null: the text and the model
  ForwardModel* draft_model = nullptr;  // outlives the Engine, which alone runs it; null: there is none
  int draft_context = 0;                // tokens of one sequence that it can hold
  bool whatever_it_costs = false;       // for tests: all that is drafted is computed
};

/// What a step has done.
struct StepRecord {
  int n_tokens = 0;
  int n_drafted = 0, n_accepted = 0;  // of those tokens
  bool only_decodes = true;           // no token is a prompt's
  double seconds = 0;                 // of the model's forward pass
};

class Speculation {
 public:
  /// n_slots, n_vocab, context_tokens: the Engine's.
  Speculation(SpeculationOptions options, int n_slots, int n_vocab, int context_tokens);

  /// On the engine thread, before anything else.
  void bind_thread();
  /// Before a step: sets the drafts of all sequences. n_more: drafted tokens that the step has room for.
  void draft(std::span<const std::unique_ptr<Sequence>> slots, int n_more);
  /// After a step: learns how many of the sequence's drafted tokens were right, computed or not.
  void learn(Sequence& sequence);
  /// After a step and all of its learn().
  void step_took(const StepRecord& step);
  /// The model was placed again: what was measured is no longer true.
  void forget_costs() { costs_.forget(); }

 private:
  /// A sequence that decodes, while draft() runs.
  struct Candidate {
    Sequence* sequence = nullptr;
    int slot = 0;
    int n_left = 0;                     // drafted tokens that it can still take
    std::optional<int> n_missing = {};  // see DraftModel; absent: it is not drafted for
  };

  void collect(std::span<const std::unique_ptr<Sequence>> slots);
  void look_up(Sequence& sequence) const;
  void choose(int n_more);
  void read_ahead(int n_more);
  void run_model();
  double share_of(const Sequence& sequence, int kind) const;
  double model_share(const Sequence& sequence) const;
  ModelSeconds model_seconds(int n_missing, int n_sequences) const;
  bool is_ready(const Candidate& candidate) const;
  DraftChoice model_choice(const Candidate& candidate) const;
  bool is_worth_reading(const Candidate& candidate, int n_more) const;
  void learn(Sequence& sequence, const Draft& draft);

  const SpeculationOptions options_;
  std::optional<DraftModel> model_;
  StepCosts costs_, model_costs_;
  double read_seconds_ = 0;          // that the model took for a token it has read; 0: unknown
  DraftLedger of_texts_, of_model_;  // what drafts from there have saved
  std::array<Acceptance, Draft::kKinds> acceptance_;  // of all sequences

  // Of the step at hand.
  std::vector<Candidate> candidates_;
  std::vector<DraftChoice> choices_, with_model_;  // one for each candidate
  std::vector<DraftModel::Job> jobs_;
  int n_decoding_ = 0;        // tokens that decode
  bool any_prompt_ = false;   // is computed too
  double model_seconds_ = 0;  // that the model has taken
  bool by_model_ = false;     // whether it drafts for the step
  int n_since_plain_ = 0;     // steps with drafts since the last one without
};

}  // namespace hearth
