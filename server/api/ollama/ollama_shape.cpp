// See the header.
#include "server/api/ollama/ollama_shape.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/api/ollama/wire.h"
#include "server/api/openai/token_logprobs.h"

namespace hearth {
namespace {

Json calls_json(std::span<const SaidItem> said, int first) {
  Json calls = Json::array();
  for (const SaidItem& item : said) {
    if (item.kind != SaidItem::Kind::kCall) continue;
    // Skips an incomplete call, because the client could not see that arguments are missing.
    std::optional<Json> arguments = arguments_object(item);
    if (!arguments) continue;
    calls.push_back({{"id", item.id},
                     {"function",
                      {{"index", first + static_cast<int>(calls.size())},
                       {"name", item.name},
                       {"arguments", std::move(*arguments)}}}});
  }
  return calls;
}

/// Adds the members with the generated text, thinking and calls.
void add_said(OllamaAnswer kind, std::span<const SaidItem> said, int first_call, Json& out) {
  const std::string text = joined(said, SaidItem::Kind::kText);
  const std::string thinking = joined(said, SaidItem::Kind::kReasoning);
  const bool chat = kind == OllamaAnswer::kChat;
  Json message = Json::object();
  if (chat) message["role"] = "assistant";
  message[chat ? "content" : "response"] = text;
  if (!thinking.empty()) message["thinking"] = thinking;
  Json calls = calls_json(said, first_call);
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  if (chat) {
    out["message"] = std::move(message);
  } else {
    out.update(message);
  }
}

Json answer_json(const OllamaHead& head, std::span<const SaidItem> said, int first_call, bool done) {
  Json json = {{"model", head.model}, {"created_at", rfc3339(head.created)}};
  add_said(head.kind, said, first_call, json);
  json["done"] = done;
  return json;
}

void add_totals(const FinishedChoice& finished, const AnswerTotals& totals, Json& out) {
  out["done_reason"] = finished.end == ChoiceEnd::kLength ? "length" : "stop";
  out["total_duration"] = nanoseconds(totals.queue_seconds + totals.prefill_seconds + totals.decode_seconds);
  out["load_duration"] = nanoseconds(totals.queue_seconds);
  out["prompt_eval_count"] = totals.usage.n_prompt;
  out["prompt_eval_duration"] = nanoseconds(totals.prefill_seconds);
  out["eval_count"] = totals.usage.n_completion;
  out["eval_duration"] = nanoseconds(totals.decode_seconds);
}

}  // namespace

Json ollama_load_answer(const OllamaHead& head) {
  Json json = answer_json(head, {}, 0, true);
  json["done_reason"] = "load";
  return json;
}

OllamaShape::OllamaShape(OllamaHead head, const Tokenizer& tokenizer, std::optional<int> n_logprobs)
    : head_(std::move(head)), tokenizer_(&tokenizer), n_logprobs_(n_logprobs) {}

void OllamaShape::add_logprobs(std::span<const PlacedToken> tokens, Json& out) const {
  if (!n_logprobs_ || tokens.empty()) return;
  out["logprobs"] = std::move(chat_logprobs(*tokenizer_, tokens, *n_logprobs_)["content"]);
}

std::string OllamaShape::line(std::span<const SaidItem> said) {
  Json json = answer_json(head_, said, n_calls_, false);
  add_logprobs(std::exchange(tokens_, {}), json);
  return json_line(json);
}

std::string OllamaShape::part(const ChoicePart& part) {
  using Kind = ToolEvent::Kind;
  std::ranges::copy(part.tokens, std::back_inserter(tokens_));
  const bool of_call = part.said.kind != Kind::kText && part.said.kind != Kind::kReasoning;
  if (!of_call) {
    std::vector<SaidItem> said;
    append(said, part.said);
    return line(said);
  }
  append(call_, part.said);
  if (part.said.kind != Kind::kCallEnd) return {};
  const std::vector<SaidItem> call = std::exchange(call_, {});
  if (!arguments_object(call.front())) return {};
  std::string text = line(call);
  ++n_calls_;
  return text;
}

std::string OllamaShape::end(const FinishedChoice& choice) {
  finished_ = choice;
  return {};
}

std::string OllamaShape::finish(const AnswerTotals& totals) {
  Json json = answer_json(head_, {}, 0, true);
  add_totals(finished_, totals, json);
  add_logprobs(tokens_, json);
  return json_line(json);
}

std::string OllamaShape::failure(const ApiError& error) {
  return error_json(error, ErrorStyle::kOllama) + "\n";
}

std::string OllamaShape::whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) {
  const WholeChoice& choice = choices.front();
  Json json = answer_json(head_, choice.said, 0, true);
  add_totals(choice.finished, totals, json);
  add_logprobs(choice.tokens, json);
  return json_text(json);
}

}  // namespace hearth
