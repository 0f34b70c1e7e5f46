// See the header.
#include "server/api/openai/completion_shape.h"

#include <algorithm>
#include <utility>

#include "server/api/openai/token_logprobs.h"

namespace hearth {
namespace {

constexpr const char* kObject = "text_completion";

/// Adds the tokens of an echoed prompt, with their offsets in the prompt's text in characters.
void add_prompt(LegacyLogprobs& out, const EchoedPrompt& echo, const Tokenizer& tokenizer) {
  const PreparedPrompt& prompt = *echo.prompt;
  const int64_t length = count_characters(prompt.text);
  Detokenizer detokenizer(tokenizer, true, true);
  int64_t offset = 0;
  for (size_t i = 0; i < prompt.tokens.size(); ++i) {
    // After normalization, the decoded tokens may be longer than the original text. Offsets are kept within
    // the original text.
    const int64_t shown = std::min(offset, length);
    if (i == 0) {
      out.add_first(prompt.tokens[i], shown);
    } else if (i <= echo.tokens.size()) {
      out.add(echo.tokens[i - 1], shown);
    }
    if (i < static_cast<size_t>(prompt.n_hidden)) continue;
    if (prompt.tokens[i] < tokenizer.n_vocab())
      offset += count_characters(detokenizer.push(prompt.tokens[i]));
  }
}

/// Returns the members that whole choices and chunks have. end: null if the choice goes on.
Json choice_json(int index, std::string text, Json logprobs, const FinishedChoice* end) {
  Json json = Json::object();
  json["text"] = std::move(text);
  json["index"] = index;
  json["logprobs"] = std::move(logprobs);
  json["finish_reason"] = end == nullptr ? Json(nullptr) : Json(finish_reason(end->end));
  if (end != nullptr && end->repeated) json[kStopReason] = kRepetition;
  return json;
}

}  // namespace

CompletionShape::CompletionShape(AnswerHead head, const Tokenizer& tokenizer, std::optional<int> n_logprobs,
                                 bool include_usage)
    : head_(std::move(head)),
      tokenizer_(&tokenizer),
      n_logprobs_(n_logprobs),
      include_usage_(include_usage) {}

Json CompletionShape::logprobs(const EchoedPrompt* echo, std::span<const PlacedToken> tokens) const {
  if (!n_logprobs_) return nullptr;
  LegacyLogprobs out(*tokenizer_, *n_logprobs_);
  if (echo != nullptr) add_prompt(out, *echo, *tokenizer_);
  for (const PlacedToken& token : tokens) out.add(token.event, token.offset);
  return out.take();
}

std::string CompletionShape::part(const ChoicePart& part) {
  Json choice = choice_json(part.choice, part.said.text, logprobs(part.echo, part.tokens), nullptr);
  return chunk_event(head_, kObject, std::move(choice), include_usage_);
}

std::string CompletionShape::end(const FinishedChoice& choice) {
  return chunk_event(head_, kObject, choice_json(choice.choice, {}, nullptr, &choice), include_usage_);
}

std::string CompletionShape::finish(const AnswerTotals& totals) {
  return last_events(head_, kObject, totals.usage, include_usage_);
}

std::string CompletionShape::failure(const ApiError& error) { return sse_event(error_json(error)); }

std::string CompletionShape::whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) {
  Json json = head_json(head_, kObject);
  json["choices"] = Json::array();
  for (const WholeChoice& choice : choices) {
    std::string text = choice.echo == nullptr ? std::string() : choice.echo->prompt->text;
    text += joined(choice.said, SaidItem::Kind::kText);
    json["choices"].push_back(choice_json(choice.finished.choice, std::move(text),
                                          logprobs(choice.echo, choice.tokens), &choice.finished));
  }
  json["usage"] = usage_json(totals.usage);
  return json_text(json);
}

}  // namespace hearth
