// The answers of POST /api/chat and POST /api/generate: one JSON object, or a stream with one object per
// line.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "server/api/answer/answer_shape.h"
#include "server/api/openai/chat_request.h"
#include "server/json/json.h"

namespace hearth {

enum class OllamaAnswer {
  kChat,      // text, thinking and tool calls in a `message`
  kGenerate,  // text in `response`, thinking in `thinking`
};

/// Members that all objects of one answer have.
struct OllamaHead {
  OllamaAnswer kind = OllamaAnswer::kChat;
  std::string model;    // the name in the request
  int64_t created = 0;  // Unix seconds
};

class OllamaShape final : public AnswerShape {
 public:
  /// n_logprobs: alternatives to send with each token; absent: no log-probabilities. The tokenizer must
  /// outlive this object.
  OllamaShape(OllamaHead head, const Tokenizer& tokenizer, std::optional<int> n_logprobs);

  ErrorStyle error_style() const override { return ErrorStyle::kOllama; }
  std::string_view stream_type() const override { return "application/x-ndjson"; }
  /// Empty, because clients parse every line as JSON.
  std::string_view ping() const override { return {}; }

  std::string part(const ChoicePart& part) override;
  std::string end(const FinishedChoice& choice) override;
  std::string finish(const AnswerTotals& totals) override;
  std::string failure(const ApiError& error) override;
  std::string whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) override;

 private:
  std::string line(std::span<const SaidItem> said);
  void add_logprobs(std::span<const PlacedToken> tokens, Json& out) const;

  OllamaHead head_;
  const Tokenizer* tokenizer_;
  std::optional<int> n_logprobs_;
  // The members below are used only by streams.
  std::vector<SaidItem> call_;       // an incomplete call, which is sent when it is complete
  std::vector<PlacedToken> tokens_;  // not yet sent in a line
  int n_calls_ = 0;
  FinishedChoice finished_;
};

/// Returns the answer to a request that has no prompt. Such a request only asks the server to load the model.
Json ollama_load_answer(const OllamaHead& head);

}  // namespace hearth
