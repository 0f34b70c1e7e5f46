// The answer of POST /v1/chat/completions: a chat.completion object, or a stream of chunks.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "server/api/answer/answer_shape.h"
#include "server/api/openai/answer_json.h"
#include "server/api/openai/chat_request.h"
#include "server/json/json.h"

namespace hearth {

class ChatShape final : public AnswerShape {
 public:
  /// The tokenizer must outlive this object.
  ChatShape(AnswerHead head, const Tokenizer& tokenizer, const ChatRequest& asked);

  std::string begin() override;
  std::string part(const ChoicePart& part) override;
  std::string end(const FinishedChoice& choice) override;
  std::string finish(const AnswerTotals& totals) override;
  std::string failure(const ApiError& error) override;
  std::string whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) override;

 private:
  /// end: null if the choice goes on.
  std::string chunk(int index, Json delta, Json logprobs, const FinishedChoice* end) const;
  Json logprobs(std::span<const PlacedToken> tokens) const;
  Json choice_json(const WholeChoice& choice) const;

  AnswerHead head_;
  const Tokenizer* tokenizer_;
  int n_choices_;
  std::optional<int> n_logprobs_;  // alternatives to send with each token; absent: no log-probabilities
  bool include_usage_;
};

/// Returns the `tool_calls` of a message.
Json tool_calls_json(std::span<const SaidItem> said);

}  // namespace hearth
