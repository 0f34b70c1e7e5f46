// Speculative decoding: drafts tokens that sequences may generate next, and decides how many of them the next
// step computes along with the decoding tokens.
//
// Drafts come from the sequence's own text (prompt_lookup.h), which costs nothing, or from a second model
// (draft_model.h). Each sequence uses whichever source is more likely to be right, within its cost limits.
//
// TokenChooser samples every token from the main model's own logits, as without drafts. A step's results
// are kept as long as the draft tokens equal the sampled ones (Leviathan et al. 2023; here a draft is a plain
// guess, so no distribution has to be corrected). Results do not depend on the batch, so the tokens are the
// same with and without drafts.
//
// Owned by the Engine; engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/generation/draft_model.h"
#include "engine/speculation/draft_ledger.h"
#include "engine/speculation/draft_length.h"
#include "engine/speculation/sequence_drafts.h"

namespace hearth {

struct Sequence;

/// A replacement source of drafts, for tests. All tokens that it offers are computed.
class Drafter {
 public:
  virtual ~Drafter() = default;
  /// Replaces `draft` with tokens that may follow the sequence's, all inside the vocabulary. Engine thread.
  virtual void draft(const Sequence& sequence, std::vector<int32_t>& draft) = 0;
};

struct SpeculationOptions {
  bool on = false;
  int max_draft = 32;                   // most tokens in one draft
  std::shared_ptr<Drafter> drafter;     // null: use the text and the draft model
  ForwardModel* draft_model = nullptr;  // must outlive the Engine, which alone runs it; null: none
  int draft_context = 0;                // tokens of one sequence that the draft model can hold
  bool whatever_it_costs = false;       // for tests: compute every draft token
};

/// The result of a step.
struct StepRecord {
  int n_tokens = 0;
  int n_drafted = 0, n_accepted = 0;  // of n_tokens
  bool only_decodes = true;           // no token belongs to a prompt
  double seconds = 0;                 // duration of the model's forward pass
};

class Speculation {
 public:
  /// n_slots, n_vocab, context_tokens: the Engine's.
  Speculation(SpeculationOptions options, int n_slots, int n_vocab, int context_tokens);

  /// Call on the engine thread, before anything else.
  void bind_thread();
  /// Before a step: sets the drafts of all sequences. n_more: draft tokens that the step has room for.
  void draft(std::span<const std::unique_ptr<Sequence>> slots, int n_more);
  /// After a step: records how many of the sequence's draft tokens were right, computed or not.
  void learn(Sequence& sequence);
  /// After a step and all its learn() calls.
  void step_took(const StepRecord& step);
  /// Call after the model was placed again: discards measured costs, which no longer apply.
  void forget_costs() { costs_.forget(); }

 private:
  /// A decoding sequence, while draft() runs.
  struct Candidate {
    Sequence* sequence = nullptr;
    int slot = 0;
    int n_left = 0;                     // draft tokens that it can still take
    std::optional<int> n_missing = {};  // DraftModel::n_missing(); absent: the model cannot draft for it
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
  double read_seconds_ = 0;                           // draft model's seconds per token read; 0: unknown
  DraftLedger of_texts_, of_model_;                   // savings and costs of each source
  std::array<Acceptance, Draft::kKinds> acceptance_;  // over all sequences

  // For the current step.
  std::vector<Candidate> candidates_;
  std::vector<DraftChoice> choices_, with_model_;  // one for each candidate
  std::vector<DraftModel::Job> jobs_;
  int n_decoding_ = 0;        // decoding tokens
  bool any_prompt_ = false;   // the step also computes prompt tokens
  double model_seconds_ = 0;  // time the draft model took
  bool by_model_ = false;     // the draft model drafts for this step
  int n_since_plain_ = 0;     // steps with drafts since the last step without drafts
};

}  // namespace hearth
