// Turns the step output of a sequence into the results that its client requested: log-probabilities of its
// prompt, an embedding, or the next tokens.
//
// Owned by the Engine, which calls it for each piece of a step; engine thread only. It changes only the
// sequence and its stream. The Engine then reports the computed tokens to the scheduler, counts them, and
// removes a sequence that has ended.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/generation/token_chooser.h"
#include "engine/serving/scheduler.h"
#include "engine/serving/sequence.h"
#include "engine/step/batch.h"

namespace hearth {

/// The results of a step for one sequence.
struct PieceResult {
  bool ends_prompt = false;  // this step computed the end of the sequence's prompt, for the first time
  /// chosen.end is the reason why the sequence has ended, if it has. It is also set for sequences that do not
  /// generate.
  ChosenTokens chosen = {};
};

class PieceResults {
 public:
  /// head: the model whose head computes the results of embedded sequences; null: embeddings are pooled
  /// hidden states. scores: the head's results are scores. The model must outlive this object.
  explicit PieceResults(int n_vocab, ForwardModel* head = nullptr, bool scores = false);

  /// Pushes the piece's results to the sequence's stream and appends its next tokens. Sets prefilled_at if
  /// the prompt ends in this piece. rows: [piece.n_rows, n_vocab] logits, or [piece.n_rows, d_model] hidden
  /// states of an embedded sequence. Does not change n_computed: the caller must keep the keys and values of
  /// the piece's known tokens and of the first chosen.n_accepted draft tokens, and discard the keys and
  /// values of the other draft tokens.
  PieceResult publish(Sequence& sequence, const StepPiece& piece, std::span<const float> rows);

 private:
  PieceResult embed(Sequence& sequence, const StepPiece& piece, std::span<const float> hidden);
  std::optional<std::vector<float>> result_of(const PooledState& pooled);
  PieceResult generate(Sequence& sequence, const StepPiece& piece, std::span<const float> logits);
  bool score_prompt(Sequence& sequence, const StepPiece& piece, std::span<const float> logits);

  const size_t n_vocab_;
  ForwardModel* const head_;
  const bool scores_;
  TokenChooser chooser_;
  std::vector<int32_t> top_ids_;  // scratch of add_logprobs
};

}  // namespace hearth
