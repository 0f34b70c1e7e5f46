// See the header.
#include "server/api/openai/chat_shape.h"

#include <utility>

#include "server/api/openai/token_logprobs.h"

namespace hearth {
namespace {

constexpr const char* kChunk = "chat.completion.chunk";

Json call_json(const std::string& id, const std::string& name, const std::string& arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
}

Json indexed(int index, const Json& call) {
  Json json = {{"index", index}};
  json.update(call);
  return Json::array({json});
}

Json delta_of(const ToolEvent& said) {
  switch (said.kind) {
    case ToolEvent::Kind::kText:
      return {{"content", said.text}};
    case ToolEvent::Kind::kReasoning:
      return {{"reasoning_content", said.text}};
    case ToolEvent::Kind::kCallBegin:
      return {{"tool_calls", indexed(said.index, call_json(said.id, said.text, ""))}};
    default:
      return {{"tool_calls", indexed(said.index, {{"function", {{"arguments", said.text}}}})}};
  }
}

}  // namespace

Json tool_calls_json(std::span<const SaidItem> said) {
  Json calls = Json::array();
  for (const SaidItem& item : said) {
    if (item.kind == SaidItem::Kind::kCall) calls.push_back(call_json(item.id, item.name, item.text));
  }
  return calls;
}

ChatShape::ChatShape(AnswerHead head, const Tokenizer& tokenizer, const ChatRequest& asked)
    : head_(std::move(head)),
      tokenizer_(&tokenizer),
      n_choices_(asked.generation.n),
      n_logprobs_(asked.logprobs ? std::optional<int>(asked.top_logprobs) : std::nullopt),
      include_usage_(asked.generation.include_usage) {}

Json ChatShape::logprobs(std::span<const PlacedToken> tokens) const {
  return n_logprobs_ ? chat_logprobs(*tokenizer_, tokens, *n_logprobs_) : Json(nullptr);
}

std::string ChatShape::chunk(int index, Json delta, Json logprobs, const FinishedChoice* end) const {
  Json choice = Json::object();
  choice["index"] = index;
  choice["delta"] = std::move(delta);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = end == nullptr ? Json(nullptr) : Json(finish_reason(end->end));
  if (end != nullptr && end->repeated) choice[kStopReason] = kRepetition;
  return chunk_event(head_, kChunk, std::move(choice), include_usage_);
}

std::string ChatShape::begin() {
  std::string roles;
  for (int index = 0; index < n_choices_; ++index) {
    roles += chunk(index, {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}, nullptr, nullptr);
  }
  return roles;
}

std::string ChatShape::part(const ChoicePart& part) {
  if (part.said.kind == ToolEvent::Kind::kCallEnd) return {};
  return chunk(part.choice, delta_of(part.said), logprobs(part.tokens), nullptr);
}

std::string ChatShape::end(const FinishedChoice& choice) {
  return chunk(choice.choice, Json::object(), nullptr, &choice);
}

std::string ChatShape::finish(const AnswerTotals& totals) {
  return last_events(head_, kChunk, totals.usage, include_usage_);
}

std::string ChatShape::failure(const ApiError& error) { return sse_event(error_json(error)); }

Json ChatShape::choice_json(const WholeChoice& choice) const {
  const std::string text = joined(choice.said, SaidItem::Kind::kText);
  const std::string reasoning = joined(choice.said, SaidItem::Kind::kReasoning);
  Json calls = tool_calls_json(choice.said);
  const bool only_calls = text.empty() && !calls.empty();
  Json json = Json::object();
  json["index"] = choice.finished.choice;
  json["message"] = {
      {"role", "assistant"}, {"content", only_calls ? Json(nullptr) : Json(text)}, {"refusal", nullptr}};
  if (!reasoning.empty()) json["message"]["reasoning_content"] = reasoning;
  if (!calls.empty()) json["message"]["tool_calls"] = std::move(calls);
  json["logprobs"] = logprobs(choice.tokens);
  json["finish_reason"] = finish_reason(choice.finished.end);
  if (choice.finished.repeated) json[kStopReason] = kRepetition;
  return json;
}

std::string ChatShape::whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) {
  Json json = head_json(head_, "chat.completion");
  json["choices"] = Json::array();
  for (const WholeChoice& choice : choices) json["choices"].push_back(choice_json(choice));
  json["usage"] = usage_json(totals.usage);
  return json_text(json);
}

}  // namespace hearth
