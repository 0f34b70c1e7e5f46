// See the header.
#include "engine/generation/piece_results.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/sampling/logprobs.h"

namespace hearth {

PieceResults::PieceResults(int n_vocab, ForwardModel* head, bool scores)
    : n_vocab_(static_cast<size_t>(n_vocab)), head_(head), scores_(scores), chooser_(n_vocab) {}

PieceResult PieceResults::publish(Sequence& sequence, const StepPiece& piece, std::span<const float> rows) {
  return sequence.request.embedding ? embed(sequence, piece, rows) : generate(sequence, piece, rows);
}

PieceResult PieceResults::embed(Sequence& sequence, const StepPiece& piece, std::span<const float> hidden) {
  sequence.pooled->add(hidden);
  if (piece.begin + piece.n_tokens < sequence.n_prompt) return {};
  sequence.prefilled_at = std::chrono::steady_clock::now();
  PieceResult result{.ends_prompt = true};
  std::optional<std::vector<float>> values = result_of(*sequence.pooled);
  if (!values) {
    result.chosen.end = {
        .reason = FinishReason::kFailed,
        .error =
            "the model's hidden states hold a NaN or an infinity, so they give no result; the model "
            "file may be damaged or its numbers out of range"};
    return result;
  }
  sequence.stream->push({.sequence = sequence.index, .what = EmbeddingEvent{*std::move(values)}});
  result.chosen.end = {.reason = FinishReason::kStop};
  return result;
}

// Returns the embedding or the scores of a sequence; nullopt if they are not finite.
std::optional<std::vector<float>> PieceResults::result_of(const PooledState& pooled) {
  if (head_ == nullptr) return pooled.unit_vector();
  const std::optional<std::vector<float>> mean = pooled.mean();
  if (!mean) return std::nullopt;
  const std::span<const float> result = head_->apply_head(*mean);
  PooledState whole(static_cast<int>(result.size()));
  whole.add(result);
  return scores_ ? whole.mean() : whole.unit_vector();
}

PieceResult PieceResults::generate(Sequence& sequence, const StepPiece& piece,
                                   std::span<const float> logits) {
  PieceResult result;
  const bool in_prompt = piece.begin < sequence.n_prompt;
  if (in_prompt && sequence.request.prompt_logprobs && !score_prompt(sequence, piece, logits)) {
    result.chosen.end = {.reason = FinishReason::kFailed,
                         .error =
                             "the model's logits for the prompt hold a NaN or an infinity, so they give no "
                             "log-probabilities; the model file may be damaged or its numbers out of range"};
    return result;
  }
  const int n_computed = piece.begin + piece.n_tokens - piece.n_drafted;
  if (n_computed < static_cast<int>(sequence.tokens.size())) return result;
  if (in_prompt && sequence.n_generated() == 0) {
    sequence.prefilled_at = std::chrono::steady_clock::now();
    result.ends_prompt = true;
  }
  if (sequence.request.max_tokens == 0) {
    result.chosen.end = {.reason = FinishReason::kLength};
  } else {
    const size_t n_rows = static_cast<size_t>(piece.n_drafted) + 1;
    result.chosen = chooser_.choose(sequence, piece.n_drafted, logits.last(n_rows * n_vocab_));
  }
  return result;
}

// Publishes the log-probabilities of a scored prompt's tokens. Row r of `logits` predicts the token after the
// piece's token first_row + r. Returns false if a row is not a distribution.
bool PieceResults::score_prompt(Sequence& sequence, const StepPiece& piece, std::span<const float> logits) {
  const size_t first = static_cast<size_t>(piece.begin + piece.first_row) + 1;
  // The token that the prompt's last row predicts is not known yet.
  const size_t n_known = static_cast<size_t>(sequence.n_prompt) - first;
  PromptEvent event;
  for (size_t row = 0; row < std::min(static_cast<size_t>(piece.n_rows), n_known); ++row) {
    TokenEvent& token = event.tokens.emplace_back();
    token.token = sequence.tokens[first + row];
    const std::span<const float> logits_of_row = logits.subspan(row * n_vocab_, n_vocab_);
    if (!add_logprobs(logits_of_row, sequence.request.n_top_logprobs, token, top_ids_)) return false;
  }
  if (!event.tokens.empty()) sequence.stream->push({.sequence = sequence.index, .what = std::move(event)});
  return true;
}

}  // namespace hearth
