// Speculative decoding: drafts tokens that sequences may generate next, and decides how many of them the next
// step computes along with the decoding tokens.
//
// Drafts come from the sequence's own text (prompt_lookup.h), which costs nothing, or are computed by a
// second model (draft_model.h) or by the model's own layer for this (nextn_drafter.h). Each sequence uses the
// source that is more likely to be right, unless that source has cost too much time.
//
// TokenChooser samples every token from the main model's own logits, as without drafts. A step's results for
// draft tokens are kept up to the first draft token that differs from the sampled one (Leviathan et al. 2023;
// here drafts are plain guesses, so no distribution has to be corrected). Results do not depend on the batch,
// so the tokens are the same with and without drafts.
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
#include "engine/generation/nextn_drafter.h"
#include "engine/serving/scheduler.h"
#include "engine/speculation/draft_ledger.h"
#include "engine/speculation/draft_length.h"
#include "engine/speculation/sequence_drafts.h"

namespace hearth {

struct Sequence;

/// A source of drafts that replaces all other sources, for tests. All tokens that it offers are computed.
class Drafter {
 public:
  virtual ~Drafter() = default;
  /// Replaces the contents of `draft` with tokens that may follow the sequence, all inside the vocabulary.
  /// Engine thread.
  virtual void draft(const Sequence& sequence, std::vector<int32_t>& draft) = 0;
};

struct SpeculationOptions {
  bool on = false;
  int max_draft = 32;                   // maximum number of tokens in one draft
  std::shared_ptr<Drafter> drafter;     // null: drafts come from the text and the draft model
  ForwardModel* draft_model = nullptr;  // may be null; must outlive the Engine; nothing else may run it
  int draft_context = 0;                // maximum length of a sequence in the draft model, in tokens
  /// The engine's model, if its own layer drafts; without effect if there is a draft model. The Engine sets
  /// it if the model can (StepLimits::predicts).
  ForwardModel* predictor = nullptr;
  bool whatever_it_costs = false;  // compute every draft token; for tests
};

/// The result of a step.
struct StepRecord {
  int n_tokens = 0;
  int n_drafted = 0, n_accepted = 0;  // parts of n_tokens
  bool only_decodes = true;           // no token belongs to a prompt
  double seconds = 0;                 // duration of the model's forward pass
};

class Speculation {
 public:
  /// n_slots, n_vocab, context_tokens: the Engine's.
  Speculation(SpeculationOptions options, int n_slots, int n_vocab, int context_tokens);

  /// Call on the engine thread, before anything else.
  void bind_thread();
  /// Call before a step. Sets the drafts of all sequences. n_more: the number of draft tokens for which the
  /// step has room.
  void draft(std::span<const std::unique_ptr<Sequence>> slots, int n_more);
  /// Call when the step's KV blocks are there, before the step's batch is filled. Lets the model's own layer
  /// draft, if draft() has chosen it, and shortens the pieces of sequences with shorter drafts. tables: has
  /// the step's block tables.
  void predict(std::span<const std::unique_ptr<Sequence>> slots, std::span<StepPiece> pieces,
               const Batch& tables);
  /// Call after a step. Records how many of the sequence's draft tokens were right, including draft tokens
  /// that were not computed.
  void learn(Sequence& sequence);
  /// Call after a step, when learn() has been called for all its sequences.
  void step_took(const StepRecord& step);
  /// Call after the model was placed again. Discards the measured step costs, which no longer apply.
  void forget_costs() { costs_.forget(); }

 private:
  /// A decoding sequence, while draft() runs.
  struct Candidate {
    Sequence* sequence = nullptr;
    int slot = 0;
    int n_left = 0;  // draft tokens that the sequence can still take
    // DraftModel::n_missing(); 1 if the model's own layer drafts. Absent if neither can for the sequence.
    std::optional<int> n_missing = {};
  };

  void collect(std::span<const std::unique_ptr<Sequence>> slots);
  void look_up(Sequence& sequence) const;
  void choose(int n_more);
  void read_ahead(int n_more);
  void plan_model();
  void run_model();
  void finish_model(std::span<const DraftPassTime> passes);
  double share_of(const Sequence& sequence, int kind) const;
  double model_share(const Sequence& sequence) const;
  ModelSeconds model_seconds(int n_missing, int n_sequences) const;
  bool is_ready(const Candidate& candidate) const;
  DraftChoice model_choice(const Candidate& candidate) const;
  bool is_worth_reading(const Candidate& candidate, int n_more) const;
  void learn(Sequence& sequence, const Draft& draft);

  const SpeculationOptions options_;
  std::optional<DraftModel> model_;
  std::optional<NextnDrafter> nextn_;  // nullopt if there is a draft model
  StepCosts costs_, model_costs_;
  double read_seconds_ = 0;                           // draft model's seconds per token read; 0 if unknown
  DraftLedger of_texts_, of_model_;                   // savings and costs of each source
  std::array<Acceptance, Draft::kKinds> acceptance_;  // over all sequences

  // For the current step.
  std::vector<Candidate> candidates_;
  std::vector<DraftChoice> choices_, with_model_;  // one for each candidate
  std::vector<DraftJob> jobs_;
  int n_decoding_ = 0;        // decoding tokens
  bool any_prompt_ = false;   // the step also computes prompt tokens
  double model_seconds_ = 0;  // time the draft model took
  bool by_model_ = false;     // the draft model or the model's own layer drafts for this step
  int n_since_plain_ = 0;     // steps with drafts since the last step without drafts
};

}  // namespace hearth
