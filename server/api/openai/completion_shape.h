// The answer of POST /v1/completions: a text_completion object, or a stream of chunks.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "server/api/answer/answer_shape.h"
#include "server/api/openai/answer_json.h"
#include "server/json/json.h"

namespace hearth {

class CompletionShape final : public AnswerShape {
 public:
  /// n_logprobs: alternatives to send with each token; absent: no log-probabilities. The tokenizer must
  /// outlive this object.
  CompletionShape(AnswerHead head, const Tokenizer& tokenizer, std::optional<int> n_logprobs,
                  bool include_usage);

  std::string part(const ChoicePart& part) override;
  std::string end(const FinishedChoice& choice) override;
  std::string finish(const AnswerTotals& totals) override;
  std::string failure(const ApiError& error) override;
  std::string whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) override;

 private:
  Json logprobs(const EchoedPrompt* echo, std::span<const PlacedToken> tokens) const;

  AnswerHead head_;
  const Tokenizer* tokenizer_;
  std::optional<int> n_logprobs_;
  bool include_usage_;
};

}  // namespace hearth
