// The answers of llama.cpp's POST /completion and POST /infill: one JSON object, or a stream without [DONE].
#pragma once

#include <span>
#include <string>
#include <vector>

#include "server/api/answer/answer_shape.h"
#include "server/api/llamacpp/native_request.h"
#include "server/json/json.h"

namespace hearth {

class NativeShape final : public AnswerShape {
 public:
  /// The tokenizer must outlive this object.
  NativeShape(std::string model, const Tokenizer& tokenizer, const NativeRequest& asked);

  std::string part(const ChoicePart& part) override;
  /// Returns no bytes, because finish() reports the end of the choice together with the totals.
  std::string end(const FinishedChoice& choice) override;
  std::string finish(const AnswerTotals& totals) override;
  std::string failure(const ApiError& error) override;
  std::string whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) override;

 private:
  void add_tokens(Json& json, std::span<const PlacedToken> tokens) const;
  Json last(std::string content, const FinishedChoice& choice, std::span<const PlacedToken> tokens,
            const AnswerTotals& totals) const;
  Json wanted(Json json) const;

  std::string model_;
  const Tokenizer* tokenizer_;
  int n_probs_;
  bool return_tokens_;
  std::vector<std::string> fields_;
  FinishedChoice finished_;
};

}  // namespace hearth
